/*
 * Addresses during the search: a plan counts only if it can be placed, so the best one is placed
 * from time to time, and the search goes on within the largest budget whose plans can probably be
 * placed.
 */
#include "base/clock.h"
#include "base/fail.h"
#include "planners/neap/neap_run.h"
#include "planners/neap/plan_conversion.h"

/* Plans are placed after these fractions of the time limit, each of the rest, and for how long. */
static const double TRIAL_STEP = 0.25, TRIAL_SHARE = 0.1;

/* For a large graph longer: so many seconds for a task, up to this fraction. */
static const double TRIAL_SECONDS = 4e-4, MOST_TRIAL_SHARE = 0.4;

/* Of the time that is left: for the plan of `offload`, and then for its addresses. */
static const double OFFLOAD_SHARE = 0.2, OFFLOAD_PLACE_SHARE = 0.15;

/* Annealed plans: the fraction of the time limit for addresses and for annealing, in turn. */
static const double IN_TURN_SHARE = 0.12;

enum { FIRST_STEP = 4 }; /* the first step down is this part of the bytes that are missing */

void neap_run_begin_trials(neap_run *run)
{
    const planner *p = run->p;
    run->placed = -1;
    run->not_placed = p->budget;
    if (p->request->time_limit > 0)
        run->next_trial = p->started + TRIAL_STEP * p->request->time_limit;
}

/* How far below a plan whose addresses need too much the next one is to be. Plans of large graphs
   are often placed with a little room where they need much more without: there the first step is
   small, and each one doubles what is given up. */
static int64_t step_down(const neap_run *run, int64_t excess)
{
    int64_t given_up = run->p->budget - run->best.peak, first = excess / FIRST_STEP;
    int64_t step = first < given_up ? given_up : first;
    bool small = run->x.n_tasks > MANY && !run->annealed && step < excess;
    return small ? step : excess;
}

/* The budget for the streams after the best plan was placed in an arena: the largest whose plans
   can probably be placed. */
static int64_t budget_after(neap_run *run, int64_t arena)
{
    int64_t peak = run->best.peak, excess = arena - run->p->budget;
    if (excess <= 0) {
        run->placed = run->annealed ? peak : run->within;
        return run->placed + (run->not_placed - run->placed) / 2;
    }
    int64_t step = step_down(run, excess);
    run->not_placed = peak;
    int64_t middle = run->placed + (peak - run->placed) / 2;
    if (run->placed >= 0 && middle > peak - step)
        return middle;
    return peak - step > run->floor ? peak - step : run->floor;
}

/* Runs a method that only moves values, in a share of the time that is left. */
static neap_status run_method(const neap_run *run, const char *name, draft *found, neap_diag *diag)
{
    neap_request request = *run->p->request;
    planner p = *run->p;
    if (request.time_limit > 0)
        request.time_limit =
            neap_clock_seconds() - p.started + OFFLOAD_SHARE * neap_planner_seconds_left(run->p);
    p.request = &request;
    neap_arena_init(&found->arena, p.allocator);
    return neap_planner_run_method(&p, name, found, diag);
}

/* Whether no plan that only moves values is faster than the best: the quickest method's bound. */
static neap_status is_offload_slower(const neap_run *run, bool *slower, neap_diag *diag)
{
    draft found = {0};
    neap_status status = run_method(run, "offload-greedy", &found, diag);
    *slower = neap_run_fits(run, &run->best) && run->best.ticks <= found.bound_ticks;
    neap_planner_clear_draft(run->p, &found);
    return status;
}

neap_status neap_run_place_offload(neap_run *run, neap_diag *diag)
{
    const planner *p = run->p;
    bool wanted = run->link && p->trial && p->budget < INT64_MAX && p->request->n_pins == 0 &&
                  p->request->state != NEAP_STATE_HOST;
    bool slower;
    draft found = {0};
    int64_t arena;
    if (run->knows_offload || !wanted || neap_run_seeks_peak(run) || run->x.n_tasks > MANY ||
        neap_planner_stopped(p))
        return NEAP_OK;
    run->knows_offload = true;
    NEAP_TRY(is_offload_slower(run, &slower, diag));
    if (slower)
        return NEAP_OK;
    neap_status status = run_method(run, "offload", &found, diag);
    if (status == NEAP_OK && found.plan && found.predicted_peak <= p->budget) {
        status = p->trial->place(p->trial, found.plan, OFFLOAD_PLACE_SHARE, &arena, diag);
        found.plan = NULL;
    }
    neap_planner_clear_draft(p, &found);
    return status;
}

neap_status neap_run_place_best(neap_run *run, double share, int64_t *arena, neap_diag *diag)
{
    const planner *p = run->p;
    neap_plan *plan;
    run->tried = run->best.ticks;
    NEAP_TRY(
        neap_schedule_to_plan(p->allocator, &run->x, p->request, &run->best.list, &plan, diag));
    return p->trial->place(p->trial, plan, share, arena, diag);
}

/* Another budget for the streams, if the best plan is new: after placing it, or halfway back to
   where plans could not be placed if there is none within the present one. */
static neap_status choose_budget(neap_run *run, double share, int64_t *within, neap_diag *diag)
{
    bool found = neap_run_fits(run, &run->best);
    int64_t arena;
    *within = run->within;
    if (found && run->best.ticks != run->tried) {
        NEAP_TRY(neap_run_place_best(run, share, &arena, diag));
        *within = budget_after(run, arena);
    } else if (!found && run->not_placed > *within) {
        *within += (run->not_placed - *within) / 2;
    }
    return NEAP_OK;
}

/* Of the time that is left: the addresses of a long plan take seconds. */
static double trial_share(const neap_run *run)
{
    const planner *p = run->p;
    double left = p->started + p->request->time_limit - neap_clock_seconds();
    double share = TRIAL_SECONDS * run->x.n_tasks / (left > 0.1 ? left : 0.1);
    return share < TRIAL_SHARE ? TRIAL_SHARE : share < MOST_TRIAL_SHARE ? share : MOST_TRIAL_SHARE;
}

/* From time to time the best plan is placed, and the search continues within another budget. */
static neap_status try_addresses(neap_run *run, neap_diag *diag)
{
    const planner *p = run->p;
    int64_t within;
    if (neap_clock_seconds() < run->next_trial)
        return NEAP_OK;
    NEAP_TRY(choose_budget(run, trial_share(run), &within, diag));
    NEAP_TRY(neap_run_place_offload(run, diag));
    double now = neap_clock_seconds();
    run->next_trial = now + TRIAL_STEP * (p->started + p->request->time_limit - now);
    if (within == run->within)
        return NEAP_OK;
    if (run->placed < 0 && run->x.n_tasks <= MANY && neap_run_can_approach(run))
        return neap_run_approach(run, within, diag);
    NEAP_TRY(neap_run_move_streams(run, within, diag));
    return neap_run_plan_linearly_again(run, diag);
}

/* Annealed plans keep the memory full all the time, and their addresses take long to find: a plan
   is placed, and annealed within another budget, in turn. */
static neap_status place_annealed(neap_run *run, neap_diag *diag)
{
    const planner *p = run->p;
    double turn = IN_TURN_SHARE * p->request->time_limit;
    double left = p->started + p->request->time_limit - neap_clock_seconds();
    while (left > 1.5 * turn && !neap_run_stopped(run)) {
        int64_t within;
        NEAP_TRY(choose_budget(run, turn / left, &within, diag));
        if (within == run->within)
            break;
        NEAP_TRY(neap_run_move_streams(run, within, diag));
        NEAP_TRY(neap_run_anneal(run, &run->best.list, IN_TURN_SHARE, diag));
        left = p->started + p->request->time_limit - neap_clock_seconds();
    }
    return NEAP_OK;
}

/* A plan counts only if it can be placed, so that is tried while there is time. */
neap_status neap_run_look_at_addresses(neap_run *run, neap_diag *diag)
{
    if (!neap_run_places(run))
        return NEAP_OK;
    return run->annealed ? place_annealed(run, diag) : try_addresses(run, diag);
}
