/*
 * Graphs with so many tasks that the search takes long to begin: the first plan comes from linear
 * work (start_linear.h), and one stream continues from it. Of the largest graphs it is the result
 * if there is a time limit, because that would end before an iteration had improved anything; what
 * time is left goes to the bound.
 */
#include "base/clock.h"
#include "base/fail.h"
#include "planners/neap/neap_run.h"
#include "planners/neap/start_linear.h"

enum {
    FEWEST = 300, /* with fewer tasks the search begins at once */
    VERY_MANY = 200000
};

/* The fraction of the method's time for attempts, and until the bound ends. */
static const double ATTEMPTS_SHARE = 0.5, BOUND_SHARE = 0.6;

/* The bound of a plan that is this close cannot improve much. */
static const double CLOSE_ENOUGH = 1e-4;

bool neap_run_ends_after_linear_work(const neap_run *run)
{
    return run->x.n_tasks > VERY_MANY && run->p->request->time_limit > 0 &&
           !neap_run_seeks_peak(run);
}

neap_status neap_run_bound_largest(neap_run *run, neap_diag *diag)
{
    const planner *p = run->p;
    run->until = p->started + BOUND_SHARE * p->request->time_limit;
    neap_run_read_bound(run);
    while (run->bounding && !neap_run_stopped(run) &&
           (double)run->best.ticks > (1 + CLOSE_ENOUGH) * (double)run->any_ticks) {
        NEAP_TRY(neap_bound_improve(run->bound, neap_run_stopped, run, diag));
        neap_run_read_bound(run);
    }
    run->until = 0;
    return NEAP_OK;
}

/* The first plan, or another one within the present budget; `share` of the time limit is its end.
 */
static neap_status plan_linearly(neap_run *run, double share, search_plan *found, neap_diag *diag)
{
    const planner *p = run->p;
    double limit = p->request->time_limit;
    run->until = limit > 0 ? p->started + share * limit : 0;
    neap_status status =
        neap_start_linear(run->allocator, &run->x, run->within, neap_run_stopped, run, found, diag);
    run->until = 0;
    return status;
}

/* Such plans copy nothing, and all state is on the device: with a link, streams that continue from
   one stay behind. */
static bool helps(const neap_run *run)
{
    uint32_t n = run->x.n_tasks;
    if (run->x.state_place == NEAP_STATE_HOST && run->x.n_states > 0)
        return false;
    return n > FEWEST && (!run->link || n <= MANY || n > VERY_MANY);
}

neap_status neap_run_begin_linearly(neap_run *run, neap_diag *diag)
{
    if (!helps(run) || neap_run_seeks_peak(run) || run->start.schedule.found ||
        neap_run_stopped(run))
        return NEAP_OK;
    NEAP_TRY(plan_linearly(run, ATTEMPTS_SHARE, &run->best, diag));
    /* The streams of a graph that is not so large have their own schedules soon, and continue from
       this one if it is better. */
    if (neap_run_ends_after_linear_work(run) || run->x.n_tasks <= MANY)
        return NEAP_OK;
    return neap_search_plan_copy(run->allocator, &run->x, &run->start.schedule, &run->best, diag);
}

neap_status neap_run_plan_linearly_again(neap_run *run, neap_diag *diag)
{
    search_plan found = {0};
    if (!helps(run) || run->x.n_tasks <= MANY)
        return NEAP_OK;
    neap_status status = plan_linearly(run, 1, &found, diag);
    if (status == NEAP_OK && neap_run_is_better(run, &found, &run->best)) {
        search_plan old = run->best;
        run->best = found;
        found = old;
        status = neap_run_continue_from_best(run, diag);
    }
    neap_compute_list_clear(run->allocator, &run->x, &found.list);
    return status;
}
