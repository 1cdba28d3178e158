/*
 * Programs over several moments, with state that moves (docs/bounds.md, "Several moments, with
 * state"): it is on the device or on the host when the step begins and when it ends, and comes and
 * goes in between. If there are many columns of it, they are not integer.
 */
#include "planners/neap/cut_program_model.h"

#include <math.h>

enum { MOST_INTEGER = 400 };

/* Before the first moment is window -1: its cells come first. */
static size_t arrival_cell(const cut_program *g, uint32_t windows_before, uint32_t state)
{
    return (size_t)windows_before * g->choices->moving.n + state;
}

static bool is_small(const cut_program *g, uint32_t state)
{
    return g->home[state] == FREE;
}

bool neap_program_allocate_state(cut_program *g)
{
    size_t states = g->choices->moving.n, cells = g->n_windows * states;
    return NEAP_TAKE(&g->arena, states, g->home) && NEAP_TAKE(&g->arena, cells, g->here) &&
           NEAP_TAKE(&g->arena, cells, g->gone) && NEAP_TAKE(&g->arena, cells + states, g->arrives);
}

double neap_program_state_ticks(const cut_program *g)
{
    const moving_state *m = &g->choices->moving;
    double sum = 0;
    for (uint32_t i = 0; i < m->n; i++)
        sum += (double)(g->n_windows + 1) * ((double)m->in[i] + (double)m->out[i]);
    return sum;
}

/* Whether the task of a moment reads it and does not write over it. */
static bool must_be_here(const cut_program *g, uint32_t w, uint32_t state)
{
    const moving_state *m = &g->choices->moving;
    return m->storage[state] != g->choices->over[g->moments[w]] &&
           neap_moving_state_is_read(m, state, g->moments[w]);
}

void neap_program_add_state_columns(cut_program *g)
{
    const moving_state *m = &g->choices->moving;
    bool whole = (size_t)m->n * g->n_windows <= MOST_INTEGER;
    for (uint32_t i = 0; i < m->n; i++)
        g->home[i] = m->bytes[i] > g->tiny
                         ? neap_sparse_column(&g->lp, 0, m->may_stay ? 1 : 0, 0, whole)
                         : FREE;
    for (uint32_t w = 0; w <= g->n_windows; w++)
        for (uint32_t i = 0; i < m->n; i++)
            g->arrives[arrival_cell(g, w, i)] =
                is_small(g, i) ? FREE : neap_sparse_column(&g->lp, 0, 1, 0, whole);
    for (uint32_t w = 0; w < g->n_windows; w++)
        for (uint32_t i = 0; i < m->n; i++) {
            bool always = !is_small(g, i) && must_be_here(g, w, i);
            bool chosen = !is_small(g, i) && !always;
            size_t cell = program_state_cell(g, w, i);
            g->here[cell] = always   ? ALWAYS
                            : chosen ? neap_sparse_column(&g->lp, 0, 1, 0, whole)
                                     : FREE;
            g->gone[cell] = chosen ? neap_sparse_column(&g->lp, 0, 1, 0, whole) : FREE;
        }
}

int64_t neap_program_add_state_bytes(cut_program *g, uint32_t w)
{
    const moving_state *m = &g->choices->moving;
    int64_t read = 0;
    for (uint32_t i = 0; i < m->n; i++) {
        int32_t here = g->here[program_state_cell(g, w, i)];
        if (here >= 0)
            neap_sparse_row_add(&g->lp, here, ldexp((double)m->bytes[i], g->bytes_shift));
        else if (here == ALWAYS)
            read += m->bytes[i];
    }
    return read;
}

/* ---- Where it comes from ---- */

/* Begins the row: it is there when window w begins (-1: when the step does), or arrives in it or a
   later one up to `last`. Returns false if it is certainly there, and then begins none. */
static bool begin_source(cut_program *g, int64_t w, int64_t last, uint32_t state)
{
    int32_t here = w < 0 ? g->home[state] : g->here[program_state_cell(g, (uint32_t)w, state)];
    if (here == ALWAYS)
        return false;
    neap_sparse_row_begin(&g->lp);
    neap_sparse_row_add(&g->lp, here, 1);
    for (int64_t j = w; j <= last; j++)
        neap_sparse_row_add(&g->lp, g->arrives[arrival_cell(g, (uint32_t)(j + 1), state)], 1);
    return true;
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

/* It is there at a moment only if it was there, or arrived, before. */
static void add_passages(cut_program *g, uint32_t w, uint32_t state)
{
    int32_t here = g->here[program_state_cell(g, w, state)];
    bool is_read =
        here == ALWAYS || neap_moving_state_is_read(&g->choices->moving, state, g->moments[w]);
    if (!begin_source(g, (int64_t)w - 1, (int64_t)w - 1, state))
        return;
    if (!is_read)
        neap_sparse_row_add(&g->lp, here, -1);
    neap_sparse_row_end(&g->lp, is_read ? 1 : 0, HUGE_VAL);
}

static void add_state_rows(cut_program *g, uint32_t state)
{
    const moving_state *m = &g->choices->moving;
    uint32_t end = g->n_windows - 1;
    if (is_read_before(g, 0, state) && begin_source(g, -1, -1, state))
        neap_sparse_row_end(&g->lp, 1, HUGE_VAL);
    for (uint32_t w = 0; w <= end; w++) {
        uint32_t reader = first_reader(g, w, state);
        add_passages(g, w, state);
        if (reader != NEAP_NONE && begin_source(g, w, reader, state))
            neap_sparse_row_end(&g->lp, 1, HUGE_VAL);
    }
    if (begin_source(g, end, end, state)) {
        neap_sparse_row_add(&g->lp, g->home[state], -1);
        neap_sparse_row_end(&g->lp, 0, HUGE_VAL);
    }
    for (uint32_t w = 0; w <= end; w++) {
        size_t cell = program_state_cell(g, w, state);
        uint32_t updater = m->updater[state];
        bool updated = updater != NEAP_NONE && program_roles(g, w)[updater] == ROLE_PAST;
        if (g->gone[cell] < 0)
            continue;
        neap_sparse_row_begin(&g->lp); /* what has left is on the host */
        neap_sparse_row_add(&g->lp, g->gone[cell], 1);
        neap_sparse_row_add(&g->lp, g->here[cell], 1);
        if (!updated)
            neap_sparse_row_add(&g->lp, g->home[state], -1);
        neap_sparse_row_end(&g->lp, updated ? 1 : 0, HUGE_VAL);
    }
}

void neap_program_add_state_rows(cut_program *g)
{
    for (uint32_t i = 0; i < g->choices->moving.n; i++)
        if (!is_small(g, i))
            add_state_rows(g, i);
}

/* ---- Time ---- */

static double scaled(const cut_program *g, int64_t ticks)
{
    return fmin(ldexp((double)ticks, g->ticks_shift), g->most_more);
}

/* If the state is not at home, these ticks: returns them, and the row gets them back otherwise. */
static double unless_home(cut_program *g, uint32_t state, int64_t ticks)
{
    neap_sparse_row_add(&g->lp, g->home[state], scaled(g, ticks));
    return scaled(g, ticks);
}

double neap_program_state_before(cut_program *g, uint32_t w, bool in, bool out)
{
    const moving_state *m = &g->choices->moving;
    double constant = 0;
    for (uint32_t i = 0; i < m->n; i++) {
        int32_t gone = g->gone[program_state_cell(g, w, i)];
        if (in && !is_small(g, i) && is_read_before(g, w, i))
            constant += unless_home(g, i, m->in[i]);
        if (out && gone >= 0)
            neap_sparse_row_add(&g->lp, gone, -scaled(g, m->out[i]));
    }
    return constant;
}

static void subtract_arrivals(cut_program *g, uint32_t windows_before, uint32_t state)
{
    for (uint32_t w = windows_before; w <= g->n_windows; w++)
        neap_sparse_row_add(&g->lp, g->arrives[arrival_cell(g, w, state)],
                            -scaled(g, g->choices->moving.in[state]));
}

double neap_program_state_after(cut_program *g, uint32_t w, bool in, bool out)
{
    const moving_state *m = &g->choices->moving;
    double constant = 0;
    for (uint32_t i = 0; i < m->n; i++) {
        if (is_small(g, i))
            continue;
        if (in)
            subtract_arrivals(g, w + 1, i);
        if (out && m->updater[i] != NEAP_NONE && program_roles(g, w)[m->updater[i]] == ROLE_FUTURE)
            constant += unless_home(g, i, m->out[i]);
    }
    return constant;
}

double neap_program_state_in_all(cut_program *g, bool in, bool out)
{
    const moving_state *m = &g->choices->moving;
    double constant = 0;
    for (uint32_t i = 0; i < m->n; i++) {
        if (is_small(g, i))
            continue;
        if (in)
            subtract_arrivals(g, 0, i);
        if (out && m->updater[i] != NEAP_NONE)
            constant += unless_home(g, i, m->out[i]);
    }
    return constant;
}
