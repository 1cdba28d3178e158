/* The result of a search: the best plan with its bounds. */
#include "base/fail.h"
#include "planners/neap/neap_run.h"
#include "planners/neap/plan_conversion.h"

#include <neap/check.h>

/* Where the result comes from. The caller's plan may be better timed than the search can, or vary
   the variants of an op. */
typedef enum origin { FROM_SEARCH, FROM_CALLER, FROM_SMALL_GRAPH } origin;

/* Of equal peaks the start's, if it is fast enough: its addresses take less room. */
static bool is_preferable(const neap_run *run, const search_plan *a, const search_plan *b)
{
    if (!neap_run_seeks_peak(run) || !a->found || !b->found)
        return neap_run_is_better(run, a, b);
    return a->peak < b->peak || (a->peak == b->peak && (neap_run_is_fast_enough(run, a) ||
                                                        neap_run_is_better(run, a, b)));
}

/* The best plan's origin; *best has whether there is one, its ticks and its peak. */
static origin find_best(const neap_run *run, search_plan *best)
{
    search_plan start = {run->start.given && run->start.honours_constraints,
                         .ticks = run->start.ticks, .peak = run->start.peak};
    search_plan small = {run->small.complete, .ticks = run->small.ticks, .peak = run->small.peak};
    origin from = is_preferable(run, &start, &run->best) ? FROM_CALLER : FROM_SEARCH;
    *best = from == FROM_CALLER ? start : run->best;
    if (!is_preferable(run, &small, best))
        return from;
    *best = small;
    return FROM_SMALL_GRAPH;
}

static neap_status copy_plan(neap_run *run, origin from, draft *d, neap_diag *diag)
{
    const planner *p = run->p;
    if (from == FROM_CALLER)
        return neap_start_plan_copy(&run->start, p->allocator, &run->x, p->request, &d->plan, diag);
    if (from == FROM_SEARCH)
        return neap_schedule_to_plan(p->allocator, &run->x, p->request, &run->best.list, &d->plan,
                                     diag);
    d->plan = run->small.plan;
    run->small.plan = NULL;
    return NEAP_OK;
}

static neap_status write_plan(neap_run *run, draft *d, neap_diag *diag)
{
    const planner *p = run->p;
    search_plan best;
    neap_timeline timeline = {0};
    origin from = find_best(run, &best);
    neap_status status = copy_plan(run, from, d, diag);
    if (status == NEAP_OK)
        status = neap_timeline_build(p->allocator, p->graph, d->plan, &p->request->link, &timeline,
                                     diag);
    if (status == NEAP_OK && from != FROM_CALLER && neap_run_fits(run, &best) &&
        timeline.makespan_ticks != best.ticks)
        status = neap_fail(diag, NEAP_INTERNAL, "the search counts other ticks than the timeline");
    d->predicted_peak = timeline.peak_bytes;
    d->predicted_ticks = timeline.makespan_ticks;
    neap_timeline_clear(&timeline);
    return status;
}

/* There is no plan, or the search was stopped before a plan fitted and it is not proven that none
   fits. */
static bool is_undecided(const neap_run *run, const draft *d)
{
    const planner *p = run->p;
    search_plan best;
    find_best(run, &best);
    if (!best.found)
        return true;
    bool none_fits = p->budget < run->floor ||
                     (!neap_run_seeks_peak(run) && neap_bound_state(run->bound)->none_fits);
    return d->stopped && best.peak > p->budget && !none_fits;
}

static neap_status add_bounds(const planner *p, draft *d, int64_t any_ticks, int64_t order_ticks,
                              neap_diag *diag)
{
    NEAP_TRY(neap_draft_add_bound(p, d, "any_order_bound", neap_graph_seconds(p->graph, any_ticks),
                                  diag));
    return neap_draft_add_bound(p, d, "fixed_order_bound",
                                neap_graph_seconds(p->graph, order_ticks), diag);
}

neap_status neap_run_write_draft(neap_run *run, draft *d, neap_diag *diag)
{
    const planner *p = run->p;
    const bound_figures *figures = neap_bound_state(run->bound);
    d->stopped = neap_planner_stopped(p);
    if (!neap_run_seeks_peak(run)) { /* else the bound is for plans within the least peak found */
        d->bound_ticks = run->bound_ticks;
        d->scope = run->scope;
    }
    if (is_undecided(run, d))
        return NEAP_OK;
    NEAP_TRY(write_plan(run, d, diag));
    return neap_run_seeks_peak(run)
               ? NEAP_OK
               : add_bounds(p, d, figures->any_ticks, figures->order_ticks, diag);
}

neap_status neap_run_write_small_draft(neap_run *run, draft *d, neap_diag *diag)
{
    NEAP_TRY(write_plan(run, d, diag));
    d->proven_optimal = true;
    d->scope = NEAP_SCOPE_ANY;
    if (neap_run_seeks_peak(run) || !run->small.fits)
        return NEAP_OK;
    /* The caller's plan may vary an op's variants and be faster. */
    d->bound_ticks = d->predicted_ticks < run->small.ticks ? d->predicted_ticks : run->small.ticks;
    return add_bounds(run->p, d, d->bound_ticks, d->bound_ticks, diag);
}
