/* When a graph is annealed, and for how long. */
#include "base/clock.h"
#include "base/fail.h"
#include "base/team.h"
#include "planners/neap/anneal.h"
#include "planners/neap/neap_run.h"

enum {
    FEWEST_ANNEALED = 64, /* tasks of graphs that are annealed */
    MOST_ANNEALED = 2000,
    CYCLES = 4,      /* at most, side by side */
    FIRST_ROUNDS = 3 /* without a time limit */
};

/* A graph is annealed if the first rounds leave this gap, and on if a short annealing improves the
   plan by this fraction. */
static const double WIDE_GAP = 0.004, WORTHWHILE = 0.004;

/* The fractions of the time limit for the first rounds of such a graph, to see whether annealing is
   better, for annealing, and to repair what annealing leaves above the budget. */
static const double FIRST_ROUNDS_SHARE = 0.1, PROBE_SHARE = 0.08, ANNEAL_SHARE = 0.3,
                    MEND_SHARE = 0.04;

/* How hot annealing from a plan begins. */
static const double WARM = 0.2;

/* The plans of such graphs keep the memory full all the time, and no arena of their peak is found:
   the first one leaves a part of the budget unused, unless that is close to the floor. */
static const double MARGIN = 0.03, CLOSE_TO_FLOOR = 1.25;

/* Whether a round is the last of the first ones. */
bool neap_run_ends_first_rounds(neap_run *run)
{
    double limit = run->p->request->time_limit;
    bool ends = limit > 0 ? neap_clock_seconds() >= run->p->started + FIRST_ROUNDS_SHARE * limit
                          : run->round + 1 == FIRST_ROUNDS;
    ends = ends && !run->is_settled;
    run->is_settled = run->is_settled || ends;
    return ends;
}

static bool may_anneal(const neap_run *run)
{
    uint32_t n = run->x.n_tasks;
    return !run->link && !neap_run_seeks_peak(run) && n >= FEWEST_ANNEALED && n <= MOST_ANNEALED;
}

/* The first rounds of a graph that may be annealed do not last until the time limit. */
void neap_run_limit_first_rounds(neap_run *run)
{
    const neap_request *request = run->p->request;
    if (may_anneal(run) && request->time_limit > 0)
        run->until = run->p->started + FIRST_ROUNDS_SHARE * request->time_limit;
}

/* A schedule that is a little above the budget is repaired. */
static neap_status mend(neap_run *run, search_plan *found, neap_diag *diag)
{
    const planner *p = run->p;
    search *s = &run->streams[0];
    if (p->request->time_limit > 0)
        run->until = neap_clock_seconds() + MEND_SHARE * p->request->time_limit;
    neap_status status = neap_search_start_from(s, found, diag);
    if (status == NEAP_OK)
        status = neap_search_construct(s, diag);
    run->until = 0;
    if (status == NEAP_OK && neap_run_is_better(run, &s->best, found))
        status = neap_search_plan_copy(run->allocator, &run->x, found, &s->best, diag);
    return status;
}

/* Anneals from a schedule (NULL: from every task once) for a share of the time limit. What is
   better than the best plan takes its place. */
neap_status neap_run_anneal(neap_run *run, const compute_list *from, double share, neap_diag *diag)
{
    const planner *p = run->p;
    double limit = p->request->time_limit, now = neap_clock_seconds();
    anneal_team team = {.allocator = run->allocator,
                        .x = &run->x,
                        .budget = run->within,
                        .seed = p->request->seed,
                        .cycles = 2,
                        .threads = neap_team_size(p->request->threads, CYCLES),
                        .cycle = {.from = from, .stop = neap_run_stopped, .context = run}};
    team.cycle.heat = from ? WARM : 1;
    team.cycle.steps = (uint64_t)(300 * share * p->options[EFFORT]) * run->x.n_tasks;
    if (limit > 0) {
        team.cycle.end = now + share * limit;
        team.cycles = team.threads;
    }
    search_plan found = {0};
    neap_status status = neap_anneal_best_of(&team, &found, diag);
    if (status == NEAP_OK && run->annealed && found.found && !neap_run_fits(run, &found))
        status = mend(run, &found, diag);
    if (status == NEAP_OK && neap_run_is_better(run, &found, &run->best)) {
        run->annealed = true;
        run->last_improved = run->round;
        status = neap_search_plan_copy(run->allocator, &run->x, &run->best, &found, diag);
        if (status == NEAP_OK)
            status = neap_run_continue_from_best(run, diag);
    }
    neap_compute_list_clear(run->allocator, &run->x, &found.list);
    return status;
}

/* After the first rounds: a graph with a wide gap is annealed for a short time and, if that is
   worthwhile, for a longer one; the streams improve the result. */
neap_status neap_run_anneal_if_wide(neap_run *run, neap_diag *diag)
{
    int64_t before = neap_run_fits(run, &run->best) ? run->best.ticks : INT64_MAX;
    bool near = neap_run_fits(run, &run->best) &&
                (double)run->best.ticks <= (1 + WIDE_GAP) * (double)run->bound_ticks;
    run->until = 0;
    if (!may_anneal(run) || near || neap_planner_stopped(run->p))
        return NEAP_OK;
    if (run->start.schedule.found)
        return neap_run_anneal(run, &run->start.schedule.list, ANNEAL_SHARE, diag);
    NEAP_TRY(neap_run_anneal(run, NULL, PROBE_SHARE, diag));
    run->annealed = run->annealed && (double)run->best.ticks < (1 - WORTHWHILE) * (double)before &&
                    (double)run->best.peak < (1 + MARGIN) * (double)run->within;
    if (!run->annealed)
        return NEAP_OK;
    double less = (1 - MARGIN) * (double)run->within;
    if (neap_run_places(run) && less > CLOSE_TO_FLOOR * (double)run->floor)
        NEAP_TRY(neap_run_move_streams(run, (int64_t)less, diag));
    return neap_run_anneal(run, NULL, ANNEAL_SHARE, diag);
}
