/*
 * Programs over several moments: which variant the task of a moment uses, when it runs for the
 * first time (docs/bounds.md, "Several moments"). The column of a variant is what it takes longer
 * than the fastest one that fits into the budget beside what the task reads and makes, in return
 * for less workspace. Runs again and all other tasks have their least time.
 */
#include "planners/neap/cut_program_model.h"

#include <math.h>

bool neap_program_allocate_variants(cut_program *g)
{
    return NEAP_TAKE(&g->arena, g->n_windows, g->fastest) &&
           NEAP_TAKE(&g->arena, g->n_windows, g->leaner) &&
           NEAP_TAKE(&g->arena, g->n_windows, g->forced);
}

/* The fastest variant that fits into the room for workspace and residents; the leanest, if none. */
static uint32_t find_fastest(const cut_program *g, uint32_t w)
{
    uint32_t task = g->moments[w], v = g->x->variant_start[task];
    while (v + 1 < g->x->variant_start[task + 1] &&
           g->x->variants[v].workspace > program_room(g, w))
        v++;
    return v;
}

/* What a variant of the task of a moment takes longer than another one; with a link, never more
   than the bound can be. */
static double more_ticks(const cut_program *g, uint32_t variant, uint32_t other)
{
    const task_variant *v = g->x->variants;
    double more = ldexp((double)(v[variant].ticks - v[other].ticks), g->ticks_shift);
    return g->in ? fmin(more, g->most_more) : more;
}

static int32_t add_column(cut_program *g, double least, uint32_t variant, uint32_t other)
{
    return neap_sparse_column(&g->lp, least, 1, g->in ? 0 : more_ticks(g, variant, other), true);
}

/* One variant at a time. */
static void add_choice(cut_program *g, uint32_t w, uint32_t n)
{
    neap_sparse_row_begin(&g->lp);
    for (uint32_t i = 0; i < n; i++)
        neap_sparse_row_add(&g->lp, g->leaner[w] + (int32_t)i, -1);
    neap_sparse_row_end(&g->lp, -1, HUGE_VAL);
}

void neap_program_add_variant_columns(cut_program *g)
{
    for (uint32_t w = 0; w < g->n_windows; w++) {
        uint32_t first = g->x->variant_start[g->moments[w]], fastest = find_fastest(g, w);
        uint32_t n = program_n_leaner(g, w, fastest);
        g->fastest[w] = fastest;
        g->forced[w] = fastest > first ? add_column(g, 1, fastest, first) : FREE;
        g->leaner[w] = FREE;
        for (uint32_t i = 0; i < n; i++) {
            int32_t column = add_column(g, 0, fastest + 1 + i, fastest);
            g->leaner[w] = i == 0 ? column : g->leaner[w];
        }
        if (n > 1)
            add_choice(g, w, n);
    }
}

int64_t neap_program_add_workspace(cut_program *g, uint32_t w)
{
    const task_variant *fastest = &g->x->variants[g->fastest[w]];
    for (uint32_t i = 0; i < program_n_leaner(g, w, g->fastest[w]); i++)
        neap_sparse_row_add(
            &g->lp, g->leaner[w] + (int32_t)i,
            -ldexp((double)(fastest->workspace - fastest[1 + i].workspace), g->bytes_shift));
    return fastest->workspace;
}

void neap_program_subtract_variants(cut_program *g, uint32_t begin, uint32_t end)
{
    for (uint32_t w = begin; w < end; w++) {
        uint32_t fastest = g->fastest[w], first = g->x->variant_start[g->moments[w]];
        if (g->forced[w] >= 0)
            neap_sparse_row_add(&g->lp, g->forced[w], -more_ticks(g, fastest, first));
        for (uint32_t i = 0; i < program_n_leaner(g, w, fastest); i++)
            neap_sparse_row_add(&g->lp, g->leaner[w] + (int32_t)i,
                                -more_ticks(g, fastest + 1 + i, fastest));
    }
}
