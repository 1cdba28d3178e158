/*
 * Where the solution of a program over several moments (cut_program.h) holds too much between them:
 * there the next moments belong.
 *
 * The solution is read as a plan in the graph's order in which a task that runs again in a window
 * does so just before its result is first needed there. Values between 0 and 1, of a linear
 * relaxation, are parts of tensors and of runs. Time 2k is just before the first run of task k,
 * 2k + 1 is that run.
 */
#include "planners/neap/cut_program_model.h"

#include "base/fail.h"

#include <math.h>

static const double NONE = 1e-6; /* less is rounding */

typedef struct lazy_plan {
    const double *values;
    uint32_t w, begin, end; /* tasks of window w - 1 or, for w = 0, before the first moment */
    uint32_t *again_at;     /* by task: when it runs again in the window; NEAP_NONE: it does not */
    double *load;           /* by time: change of the live bytes */
} lazy_plan;

/* The times of the first and the last use of a tensor in the window. */
typedef struct uses {
    uint32_t first, last; /* first is NEAP_NONE if there are none */
} uses;

static double resident_part(const cut_program *g, const lazy_plan *z, uint32_t w, uint32_t s)
{
    int32_t column = g->resident[program_cell(g, w, s)];
    return column == ALWAYS ? 1 : column >= 0 ? z->values[column] : 0;
}

static double again_part(const cut_program *g, const lazy_plan *z, uint32_t task)
{
    if (z->w == 0 || task >= z->begin)
        return 0;
    int32_t column = program_again(g, program_span(g, z->w - 1, z->w - 1))[task];
    return column >= 0 ? z->values[column] : 0;
}

static void add_use(uses *u, uint32_t at)
{
    u->last = u->first == NEAP_NONE || at > u->last ? at : u->last;
    u->first = at < u->first ? at : u->first;
}

/* By runs in the window, or at its end. */
static uses find_uses(const cut_program *g, const lazy_plan *z, uint32_t s)
{
    const problem *x = g->x;
    uses u = {NEAP_NONE, 0};
    for (uint32_t i = x->readers.start[s]; i < x->readers.start[s + 1]; i++) {
        uint32_t k = x->readers.items[i];
        if (k >= z->begin && k < z->end)
            add_use(&u, 2 * k + 1);
        else if (k < z->begin && z->again_at[k] != NEAP_NONE)
            add_use(&u, z->again_at[k]);
    }
    if (z->w < g->n_windows ? resident_part(g, z, z->w, s) > NONE : x->is_output[s])
        add_use(&u, 2 * z->end);
    return u;
}

static void add_load(const lazy_plan *z, double bytes, uint32_t from, uint32_t last)
{
    z->load[from] += bytes;
    z->load[(last > from ? last : from) + 1] -= bytes;
}

/* Just before the first use of what is not there. */
static uint32_t find_rerun(const cut_program *g, const lazy_plan *z, uint32_t task)
{
    const problem *x = g->x;
    uint32_t at = 2 * z->end;
    for (uint32_t i = x->makes.start[task]; i < x->makes.start[task + 1]; i++) {
        uint32_t s = x->makes.items[i];
        uses u = find_uses(g, z, s);
        if (u.first < at && resident_part(g, z, z->w - 1, s) < 1 - NONE)
            at = u.first;
    }
    return at & ~UINT32_C(1);
}

static void add_tensor(const cut_program *g, const lazy_plan *z, uint32_t s, double again)
{
    uint32_t k = g->x->producer[s];
    double bytes = (double)g->x->bytes[s];
    uses u = find_uses(g, z, s);
    if (g->x->bytes[s] <= g->tiny || (u.first == NEAP_NONE && k < z->begin))
        return;
    if (k >= z->begin) {
        add_load(z, bytes, 2 * k + 1, u.last);
    } else if (z->w > 0) {
        double held = resident_part(g, z, z->w - 1, s);
        add_load(z, held * bytes, 2 * z->begin, u.last);
        double made = again < 1 - held ? again : 1 - held;
        if (again > NONE && u.last >= z->again_at[k])
            add_load(z, made * bytes, z->again_at[k], u.last);
        int32_t returned = program_returned(g, program_span(g, z->w - 1, z->w - 1), s);
        if (returned >= 0 && 1 - held - made > NONE)
            add_load(z, fmin(z->values[returned], 1 - held - made) * bytes, u.first & ~UINT32_C(1),
                     u.last);
    }
}

static void add_window(const cut_program *g, lazy_plan *z)
{
    const problem *x = g->x;
    for (uint32_t k = z->end; k-- > 0;) { /* readers before producers */
        double again = again_part(g, z, k);
        z->again_at[k] = again > NONE ? find_rerun(g, z, k) : NEAP_NONE;
        for (uint32_t i = x->makes.start[k]; i < x->makes.start[k + 1]; i++)
            add_tensor(g, z, x->makes.items[i], again);
    }
}

/* State that is there at the beginning of a window stays to its end; the rest is there only while
   it is read. */
static void add_states(const cut_program *g, const lazy_plan *z)
{
    const moving_state *m = &g->choices->moving;
    for (uint32_t i = 0; i < m->n; i++) {
        uint32_t b = g->bundle_of[i];
        int32_t column = z->w > 0 ? g->here[program_bundle_cell(g, z->w - 1, b)] : g->home[b];
        double held = column == ALWAYS ? 1 : column >= 0 ? z->values[column] : 0;
        double bytes = (double)m->bytes[i];
        z->load[2 * z->begin] += held * bytes;
        z->load[2 * z->end] -= held * bytes;
        for (uint32_t r = m->readers.start[i]; r < m->readers.start[i + 1]; r++)
            if (m->readers.items[r] >= z->begin && m->readers.items[r] < z->end)
                add_load(z, (1 - held) * bytes, 2 * m->readers.items[r] + 1,
                         2 * m->readers.items[r] + 1);
    }
}

neap_status neap_program_excess(cut_program *g, const double *values, int64_t *excess,
                                neap_diag *diag)
{
    const problem *x = g->x;
    lazy_plan z = {.values = values};
    double level = (double)g->choices->fixed_bytes;
    if (!NEAP_TAKE(&g->arena, x->n_tasks, z.again_at) ||
        !NEAP_TAKE(&g->arena, 2 * (size_t)x->n_tasks + 2, z.load))
        return neap_fail_no_memory(diag);
    for (z.w = 0; z.w <= g->n_windows; z.w++) {
        z.begin = z.w > 0 ? g->moments[z.w - 1] : 0;
        z.end = z.w < g->n_windows ? g->moments[z.w] : x->n_tasks;
        add_window(g, &z);
        add_states(g, &z);
    }
    for (uint32_t k = 0; k < x->n_tasks; k++) {
        level += z.load[2 * (size_t)k] + z.load[2 * (size_t)k + 1];
        double over =
            level + (double)x->variants[x->variant_start[k]].workspace - (double)g->budget;
        excess[k] = over > 0 && over < 0x1p62 ? (int64_t)over : 0;
    }
    return NEAP_OK;
}
