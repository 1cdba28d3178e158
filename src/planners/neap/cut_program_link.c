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
    g->most_more = MOST_MORE * scaled(g, x->least_ticks + 1) +
                   ldexp(neap_program_state_ticks(g), g->ticks_shift);
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

/* Runs again in windows begin to end - 1 that are certainly not the first, and what variants of
   the tasks of the moments take longer. */
static void subtract_runs(cut_program *g, uint32_t begin, uint32_t end)
{
    for (uint32_t w = begin; w < end; w++)
        for (uint32_t k = 0; k < g->x->n_tasks; k++) {
            int32_t again = program_again(g, program_span(g, w, w))[k];
            if (again >= 0 && program_roles(g, w)[k] == ROLE_PAST)
                neap_sparse_row_add(&g->lp, again, -scaled(g, task_ticks(g->x, k)));
        }
    neap_program_subtract_variants(g, begin, end);
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

/* The time is at least `ticks`, `more`, which is scaled, and what was subtracted. Rounded down by
   more than the error. */
static void end_time(cut_program *g, int64_t ticks, double more)
{
    neap_sparse_row_end(&g->lp, scaled(g, ticks - g->x->least_ticks) + more - 1e-6, HUGE_VAL);
}

/* One inequality: what happens before the task of a moment, what is computed from there to the task
   of another moment, which may be the same, and what happens after that. `ticks`: of all first runs
   that it counts. */
static void add_time(cut_program *g, uint32_t first, uint32_t last, const time_row *row,
                     int64_t ticks)
{
    double more = 0;
    begin_time(g);
    if (row->before == COMPUTING)
        subtract_runs(g, 0, first);
    else
        more += neap_program_state_before(g, first, busy_with_in(row->before),
                                          busy_with_out(row->before));
    if (busy_with_out(row->before))
        subtract_copies_out(g, first);
    subtract_runs(g, first, last);
    if (row->after == COMPUTING)
        subtract_runs(g, last, g->n_windows);
    else
        more +=
            neap_program_state_after(g, last, busy_with_in(row->after), busy_with_out(row->after));
    if (busy_with_in(row->after))
        subtract_copies_in(g, last);
    end_time(g, ticks, more);
}

/* Ticks of the first runs from one moment to another, the tasks of both included. */
static int64_t ticks_between(const cut_program *g, uint32_t first, uint32_t last)
{
    const problem *x = g->x;
    int64_t ticks = task_ticks(x, g->moments[last]);
    for (uint32_t k = 0; k < x->n_tasks; k++)
        if (program_roles(g, first)[k] == ROLE_FUTURE && program_roles(g, last)[k] == ROLE_PAST)
            ticks += task_ticks(x, k);
    return ticks;
}

/* All inequalities of one moment but the first, which holds for all moments. */
static void add_times(cut_program *g, uint32_t w)
{
    const problem *x = g->x;
    int64_t own = task_ticks(x, g->moments[w]), before = 0, after = -own;
    int n;
    const time_row *rows = neap_cut_time_rows(g->choices, &n);
    for (uint32_t k = 0; k < x->n_tasks; k++) {
        before += program_roles(g, w)[k] == ROLE_PAST ? task_ticks(x, k) : 0;
        after += program_roles(g, w)[k] == ROLE_FUTURE ? task_ticks(x, k) : 0;
    }
    for (int r = 1; r < n; r++)
        add_time(g, w, w, &rows[r],
                 own + (rows[r].before == COMPUTING ? before : 0) +
                     (rows[r].after == COMPUTING ? after : 0));
}

/* Copies, computation from one moment to a later one, copies. */
static void add_times_between(cut_program *g, uint32_t first, uint32_t last)
{
    int n;
    const time_row *rows = neap_cut_time_rows(g->choices, &n);
    for (int r = 1; r < n; r++)
        if (rows[r].before != COMPUTING && rows[r].after != COMPUTING)
            add_time(g, first, last, &rows[r], ticks_between(g, first, last));
}

/* All copies one way or, where one engine makes them, both. */
static void add_all_copies(cut_program *g, bool in, bool out)
{
    begin_time(g);
    if (in)
        subtract_copies_in(g, 0);
    end_time(g, 0, neap_program_state_in_all(g, in, out));
}

void neap_program_add_link_rows(cut_program *g)
{
    begin_time(g);
    subtract_runs(g, 0, g->n_windows);
    end_time(g, g->x->least_ticks, 0);
    for (uint32_t w = 0; w < g->n_windows; w++)
        add_times(g, w);
    for (uint32_t w = 1; w < g->n_windows && g->choices->moving.n > 0; w++)
        for (uint32_t first = 0; first < w; first++)
            add_times_between(g, first, w);
    if (g->choices->moving.n > 0) {
        add_all_copies(g, true, !g->choices->duplex);
        if (g->choices->duplex)
            add_all_copies(g, false, true);
    }
    for (uint32_t i = 0; i < g->n_spans; i++)
        add_returns(g, i);
}
