/*
 * Programs over several moments, with state that moves (docs/bounds.md, "Several moments, with
 * state"): it is on the device or on the host when the step begins and when it ends, and comes and
 * goes in between.
 *
 * Where there is much state, storages that are alike in all windows are one *bundle*, with one
 * column instead of many: the part of its bytes for which the statement is true. The ticks of a
 * bundle are those of its bytes at the rate of the fastest copy in it.
 */
#include "planners/neap/cut_program_model.h"

#include <math.h>
#include <string.h>

enum { MOST_INTEGER = 400 };

/* What rows depend on, by window: two words for each, and one more. */
enum { WORDS = 2 };

/* Before the first moment is window -1: its cells come first. */
static size_t arrival_cell(const cut_program *g, uint32_t windows_before, uint32_t bundle)
{
    return (size_t)windows_before * g->n_bundles + bundle;
}

/* ---- How a storage is read and updated ---- */

/* Whether the task of a moment reads it and does not write over it. */
static bool must_be_here(const cut_program *g, uint32_t w, uint32_t state)
{
    const moving_state *m = &g->choices->moving;
    return m->storage[state] != g->choices->over[g->moments[w]] &&
           neap_moving_state_is_read(m, state, g->moments[w]);
}

/* The first window by whose end some op, which has not run when window w begins, certainly has read
   it; NEAP_NONE: there is none. */
static uint32_t first_reader(const cut_program *g, uint32_t w, uint32_t state)
{
    const id_lists *readers = &g->choices->moving.readers;
    uint32_t first = NEAP_NONE;
    for (uint32_t r = readers->start[state]; r < readers->start[state + 1]; r++) {
        uint32_t k = readers->items[r];
        if (program_roles(g, w)[k] != ROLE_FUTURE || k == g->moments[w])
            continue;
        uint32_t last = neap_program_last_window(g, k, w);
        first = last < first ? last : first;
    }
    return first;
}

static bool is_read_before(const cut_program *g, uint32_t w, uint32_t state)
{
    const id_lists *readers = &g->choices->moving.readers;
    for (uint32_t r = readers->start[state]; r < readers->start[state + 1]; r++)
        if (program_roles(g, w)[readers->items[r]] == ROLE_PAST ||
            readers->items[r] == g->moments[w])
            return true;
    return false;
}

/* ROLE_UNKNOWN also if there is no update. */
static uint8_t update_role(const cut_program *g, uint32_t w, uint32_t state)
{
    uint32_t updater = g->choices->moving.updater[state];
    return updater == NEAP_NONE ? ROLE_UNKNOWN : program_roles(g, w)[updater];
}

/* ---- Bundles ---- */

static void describe(const cut_program *g, uint32_t state, uint32_t *words)
{
    const moving_state *m = &g->choices->moving;
    for (uint32_t w = 0; w < g->n_windows; w++) {
        bool is_read = neap_moving_state_is_read(m, state, g->moments[w]);
        *words++ = (uint32_t)must_be_here(g, w, state) | (uint32_t)is_read << 1 |
                   (uint32_t)is_read_before(g, w, state) << 2 |
                   (uint32_t)update_role(g, w, state) << 3;
        *words++ = first_reader(g, w, state);
    }
    *words = (uint32_t)(m->updater[state] == NEAP_NONE) | (uint32_t)m->may_stay[state] << 1;
}

static void add_to_bundle(cut_program *g, uint32_t state, uint32_t bundle)
{
    const moving_state *m = &g->choices->moving;
    program_bundle *b = &g->bundles[bundle];
    double bytes = (double)m->bytes[state];
    g->bundle_of[state] = bundle;
    b->bytes += m->bytes[state];
    b->in_rate = fmin(b->in_rate, (double)m->in[state] / bytes);
    b->out_rate = fmin(b->out_rate, (double)m->out[state] / bytes);
}

static bool list_bundles(cut_program *g)
{
    const moving_state *m = &g->choices->moving;
    size_t n_words = WORDS * (size_t)g->n_windows + 1;
    uint32_t *words;
    g->whole_states = !g->relaxed && (size_t)m->n * g->n_windows <= MOST_INTEGER;
    if (!NEAP_TAKE(&g->arena, m->n, g->bundle_of) || !NEAP_TAKE(&g->arena, m->n, g->bundles) ||
        !NEAP_TAKE(&g->arena, (m->n + 1) * n_words, words))
        return false;
    for (uint32_t i = 0; i < m->n; i++) {
        uint32_t *new = words + g->n_bundles *n_words, b = g->whole_states ? g->n_bundles : 0;
        describe(g, i, new);
        while (b < g->n_bundles && memcmp(words + b * n_words, new, n_words * sizeof *new) != 0)
            b++;
        if (b == g->n_bundles)
            g->bundles[g->n_bundles++] =
                (program_bundle){.state = i, .in_rate = HUGE_VAL, .out_rate = HUGE_VAL};
        add_to_bundle(g, i, b);
    }
    return true;
}

bool neap_program_allocate_state(cut_program *g)
{
    if (!list_bundles(g))
        return false;
    size_t bundles = g->n_bundles, cells = g->n_windows * bundles;
    return NEAP_TAKE(&g->arena, bundles, g->home) && NEAP_TAKE(&g->arena, cells, g->here) &&
           NEAP_TAKE(&g->arena, cells, g->gone) &&
           NEAP_TAKE(&g->arena, cells + bundles, g->arrives);
}

/* ---- Columns ---- */

double neap_program_state_ticks(const cut_program *g)
{
    const moving_state *m = &g->choices->moving;
    double sum = 0;
    for (uint32_t i = 0; i < m->n; i++)
        sum += (double)(g->n_windows + 1) * ((double)m->in[i] + (double)m->out[i]);
    return sum;
}

static int32_t add_column(cut_program *g)
{
    return neap_sparse_column(&g->lp, 0, 1, 0, g->whole_states);
}

void neap_program_add_state_columns(cut_program *g)
{
    for (uint32_t b = 0; b < g->n_bundles; b++) {
        double most = g->choices->moving.may_stay[g->bundles[b].state] ? 1 : 0;
        g->home[b] = neap_sparse_column(&g->lp, 0, most, 0, g->whole_states);
    }
    for (uint32_t w = 0; w <= g->n_windows; w++)
        for (uint32_t b = 0; b < g->n_bundles; b++)
            g->arrives[arrival_cell(g, w, b)] = add_column(g);
    for (uint32_t w = 0; w < g->n_windows; w++)
        for (uint32_t b = 0; b < g->n_bundles; b++) {
            bool always = must_be_here(g, w, g->bundles[b].state);
            g->here[program_bundle_cell(g, w, b)] = always ? ALWAYS : add_column(g);
            g->gone[program_bundle_cell(g, w, b)] = always ? FREE : add_column(g);
        }
}

int64_t neap_program_add_state_bytes(cut_program *g, uint32_t w)
{
    int64_t read = 0;
    for (uint32_t b = 0; b < g->n_bundles; b++) {
        int32_t here = g->here[program_bundle_cell(g, w, b)];
        if (here >= 0)
            neap_sparse_row_add(&g->lp, here, ldexp((double)g->bundles[b].bytes, g->bytes_shift));
        else
            read += g->bundles[b].bytes;
    }
    return read;
}

/* ---- Where it comes from ---- */

/* Begins the row: it is there when window w begins (-1: when the step does), or arrives in it or a
   later one up to `last`. Returns false if it is certainly there, and then begins none. */
static bool begin_source(cut_program *g, int64_t w, int64_t last, uint32_t bundle)
{
    int32_t here = w < 0 ? g->home[bundle] : g->here[program_bundle_cell(g, (uint32_t)w, bundle)];
    if (here == ALWAYS)
        return false;
    neap_sparse_row_begin(&g->lp);
    neap_sparse_row_add(&g->lp, here, 1);
    for (int64_t j = w; j <= last; j++)
        neap_sparse_row_add(&g->lp, g->arrives[arrival_cell(g, (uint32_t)(j + 1), bundle)], 1);
    return true;
}

/* It is there at a moment only if it was there, or arrived, before. */
static void add_passage(cut_program *g, uint32_t w, uint32_t bundle)
{
    bool is_read =
        neap_moving_state_is_read(&g->choices->moving, g->bundles[bundle].state, g->moments[w]);
    if (!begin_source(g, (int64_t)w - 1, (int64_t)w - 1, bundle))
        return;
    if (!is_read)
        neap_sparse_row_add(&g->lp, g->here[program_bundle_cell(g, w, bundle)], -1);
    neap_sparse_row_end(&g->lp, is_read ? 1 : 0, HUGE_VAL);
}

/* What was on the device, or has been updated, and is not there, is on the host. */
static void add_departure(cut_program *g, uint32_t w, uint32_t bundle)
{
    size_t cell = program_bundle_cell(g, w, bundle);
    bool updated = update_role(g, w, g->bundles[bundle].state) == ROLE_PAST;
    if (g->gone[cell] < 0)
        return;
    neap_sparse_row_begin(&g->lp);
    neap_sparse_row_add(&g->lp, g->gone[cell], 1);
    neap_sparse_row_add(&g->lp, g->here[cell], 1);
    if (!updated)
        neap_sparse_row_add(&g->lp, g->home[bundle], -1);
    neap_sparse_row_end(&g->lp, updated ? 1 : 0, HUGE_VAL);
}

static void add_bundle_rows(cut_program *g, uint32_t bundle)
{
    uint32_t end = g->n_windows - 1, state = g->bundles[bundle].state;
    if (is_read_before(g, 0, state) && begin_source(g, -1, -1, bundle))
        neap_sparse_row_end(&g->lp, 1, HUGE_VAL);
    for (uint32_t w = 0; w <= end; w++) {
        uint32_t reader = first_reader(g, w, state);
        add_passage(g, w, bundle);
        add_departure(g, w, bundle);
        if (reader != NEAP_NONE && begin_source(g, w, reader, bundle))
            neap_sparse_row_end(&g->lp, 1, HUGE_VAL);
    }
    if (begin_source(g, end, end, bundle)) {
        neap_sparse_row_add(&g->lp, g->home[bundle], -1);
        neap_sparse_row_end(&g->lp, 0, HUGE_VAL);
    }
}

void neap_program_add_state_rows(cut_program *g)
{
    for (uint32_t b = 0; b < g->n_bundles; b++)
        add_bundle_rows(g, b);
}

/* ---- Time ---- */

/* Rounded down by more than the error. */
static double ticks_of(const cut_program *g, uint32_t bundle, bool out)
{
    const program_bundle *b = &g->bundles[bundle];
    double ticks = (out ? b->out_rate : b->in_rate) * (double)b->bytes * (1 - 0x1p-45);
    return fmin(ldexp(ticks, g->ticks_shift), g->most_more);
}

/* If the bundle is not at home, a copy: returns its ticks; the row gets them back otherwise. */
static double unless_home(cut_program *g, uint32_t bundle, bool out)
{
    neap_sparse_row_add(&g->lp, g->home[bundle], ticks_of(g, bundle, out));
    return ticks_of(g, bundle, out);
}

double neap_program_state_before(cut_program *g, uint32_t w, bool in, bool out)
{
    double constant = 0;
    for (uint32_t b = 0; b < g->n_bundles; b++) {
        int32_t gone = g->gone[program_bundle_cell(g, w, b)];
        if (in && is_read_before(g, w, g->bundles[b].state))
            constant += unless_home(g, b, false);
        if (out && gone >= 0)
            neap_sparse_row_add(&g->lp, gone, -ticks_of(g, b, true));
    }
    return constant;
}

static void subtract_arrivals(cut_program *g, uint32_t windows_before, uint32_t bundle)
{
    for (uint32_t w = windows_before; w <= g->n_windows; w++)
        neap_sparse_row_add(&g->lp, g->arrives[arrival_cell(g, w, bundle)],
                            -ticks_of(g, bundle, false));
}

double neap_program_state_after(cut_program *g, uint32_t w, bool in, bool out)
{
    double constant = 0;
    for (uint32_t b = 0; b < g->n_bundles; b++) {
        if (in)
            subtract_arrivals(g, w + 1, b);
        if (out && update_role(g, w, g->bundles[b].state) == ROLE_FUTURE)
            constant += unless_home(g, b, true);
    }
    return constant;
}

double neap_program_state_in_all(cut_program *g, bool in, bool out)
{
    double constant = 0;
    for (uint32_t b = 0; b < g->n_bundles; b++) {
        if (in)
            subtract_arrivals(g, 0, b);
        if (out && g->choices->moving.updater[g->bundles[b].state] != NEAP_NONE)
            constant += unless_home(g, b, true);
    }
    return constant;
}
