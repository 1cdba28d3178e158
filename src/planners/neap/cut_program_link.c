/*
 * Programs over several moments, with a link to the host (docs/bounds.md, "Several moments, with a
 * link"): tensors may also come back in a window, and copies take time beside the ops.
 */
#include "planners/neap/cut_program_model.h"

#include <math.h>

enum { MOST_MORE = 16 }; /* the bound is at most so many times the least time */

bool neap_program_allocate_link(cut_program *g)
{
    size_t cells = (size_t)g->n_windows * g->x->n_tensors;
    return NEAP_TAKE(&g->arena, cells, g->fetched) && NEAP_TAKE(&g->arena, cells, g->away) &&
           NEAP_TAKE(&g->arena, (size_t)g->n_spans * g->x->n_tensors, g->returned);
}

static double scaled(const cut_program *g, int64_t ticks)
{
    return ldexp((double)ticks, g->ticks_shift);
}

/* A copy's ticks; never more than the bound can be, which only lowers it. */
static double copy_ticks(const cut_program *g, const int64_t *ticks, uint32_t tensor)
{
    return fmin(scaled(g, ticks[tensor]), g->most_more);
}

void neap_program_add_link_columns(cut_program *g)
{
    const problem *x = g->x;
    g->most_more = MOST_MORE * scaled(g, x->least_ticks + 1);
    g->more = neap_sparse_column(&g->lp, 0, 1, g->most_more, false);
    for (uint32_t w = 0; w < g->n_windows; w++)
        for (uint32_t s = 0; s < x->n_tensors; s++) {
            size_t cell = program_cell(g, w, s);
            bool leaves = g->resident[cell] >= 0 && g->in[s] >= 0;
            g->fetched[cell] = leaves ? neap_sparse_column(&g->lp, 0, 1, 0, true) : FREE;
            g->away[cell] = leaves ? neap_sparse_column(&g->lp, 0, 1, 0, true) : FREE;
        }
    for (uint32_t i = 0; i < g->n_spans; i++)
        for (uint32_t s = 0; s < x->n_tensors; s++) {
            bool leaves = g->away[program_cell(g, g->spans[i].begin, s)] >= 0;
            g->returned[(size_t)i * x->n_tensors + s] =
                leaves ? neap_sparse_column(&g->lp, 0, 1, 0, true) : FREE;
        }
}

/* What comes back in a span was away, and is fetched in one of its windows. */
static void add_returns(cut_program *g, uint32_t i)
{
    const span *run = &g->spans[i];
    for (uint32_t s = 0; s < g->x->n_tensors; s++) {
        int32_t returned = program_returned(g, i, s);
        if (returned < 0)
            continue;
        neap_sparse_row_begin(&g->lp);
        neap_sparse_row_add(&g->lp, g->away[program_cell(g, run->begin, s)], 1);
        neap_sparse_row_add(&g->lp, returned, -1);
        neap_sparse_row_end(&g->lp, 0, HUGE_VAL);
        neap_sparse_row_begin(&g->lp);
        neap_sparse_row_add(&g->lp, returned, -1);
        for (uint32_t w = run->begin; w <= run->last; w++) {
            if (g->fetched[program_cell(g, w, s)] < 0)
                break; /* it is resident then, or not wanted any more */
            neap_sparse_row_add(&g->lp, g->fetched[program_cell(g, w, s)], 1);
        }
        neap_sparse_row_end(&g->lp, 0, HUGE_VAL);
    }
}

/* Runs again in windows begin to end - 1 that are certainly not the first. */
static void subtract_runs(cut_program *g, uint32_t begin, uint32_t end)
{
    for (uint32_t w = begin; w < end; w++)
        for (uint32_t k = 0; k < g->x->n_tasks; k++) {
            int32_t again = program_again(g, program_span(g, w, w))[k];
            if (again >= 0 && program_roles(g, w)[k] == ROLE_PAST)
                neap_sparse_row_add(&g->lp, again, -scaled(g, task_ticks(g->x, k)));
        }
}

static void subtract_copies_in(cut_program *g, uint32_t begin)
{
    for (uint32_t w = begin; w < g->n_windows; w++)
        for (uint32_t s = 0; s < g->x->n_tensors; s++)
            if (g->fetched[program_cell(g, w, s)] >= 0)
                neap_sparse_row_add(&g->lp, g->fetched[program_cell(g, w, s)],
                                    -copy_ticks(g, g->in, s));
}

static void subtract_copies_out(cut_program *g, uint32_t w)
{
    for (uint32_t s = 0; s < g->x->n_tensors; s++)
        if (g->away[program_cell(g, w, s)] >= 0)
            neap_sparse_row_add(&g->lp, g->away[program_cell(g, w, s)], -copy_ticks(g, g->out, s));
}

static void begin_time(cut_program *g)
{
    neap_sparse_row_begin(&g->lp);
    neap_sparse_row_add(&g->lp, g->more, g->most_more);
}

/* The time is at least `ticks` and what was subtracted. Rounded down by more than the error. */
static void end_time(cut_program *g, int64_t ticks)
{
    neap_sparse_row_end(&g->lp, scaled(g, ticks - g->x->least_ticks) - 1e-6, HUGE_VAL);
}

/* The three inequalities with copies at one moment. */
static void add_times(cut_program *g, uint32_t w)
{
    const problem *x = g->x;
    int64_t own = task_ticks(x, g->moments[w]), before = own, after = 0;
    for (uint32_t k = 0; k < x->n_tasks; k++) {
        before += program_roles(g, w)[k] == ROLE_PAST ? task_ticks(x, k) : 0;
        after += program_roles(g, w)[k] == ROLE_FUTURE ? task_ticks(x, k) : 0;
    }
    begin_time(g);
    subtract_runs(g, 0, w);
    subtract_copies_in(g, w);
    end_time(g, before);
    begin_time(g);
    subtract_copies_out(g, w);
    subtract_runs(g, w, g->n_windows);
    end_time(g, after);
    begin_time(g);
    subtract_copies_out(g, w);
    subtract_copies_in(g, w);
    end_time(g, own);
}

void neap_program_add_link_rows(cut_program *g)
{
    begin_time(g);
    subtract_runs(g, 0, g->n_windows);
    end_time(g, g->x->least_ticks);
    for (uint32_t w = 0; w < g->n_windows; w++)
        add_times(g, w);
    for (uint32_t i = 0; i < g->n_spans; i++)
        add_returns(g, i);
}
