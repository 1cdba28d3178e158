/*
 * The least peak: the streams minimize the peak, level by level in a large graph. A budget close to
 * the least one is reached in the same way.
 */
#include "base/clock.h"
#include "base/fail.h"
#include "planners/neap/neap_run.h"

#include <math.h>

enum {
    FAR = 300,       /* with more tasks the least peak is approached in steps */
    LEVEL_ROUNDS = 4 /* at most, for one of these steps */
};

/* The least peak is approached until it is known this well. */
static const double CLOSE_PEAK = 0.01;

/* The fraction of the time limit for the least peak, if the time of the plan matters, too. */
static const double PEAK_SHARE = 0.75;

/* The fraction of the time that is left for approaching a budget level by level, and for the
   addresses of a plan that was reached so. */
static const double APPROACH_SHARE = 0.7;
static const double PLACE_SHARE = 0.1;

/* The least possible peak, or within the requested gap of it. */
static bool is_at_floor(const neap_run *run)
{
    double wanted = (double)run->floor * (1 + run->p->request->gap);
    return run->best.found && (double)run->best.peak <= wanted;
}

/* The plan to start from is the best one so far. */
static neap_status take_start(neap_run *run, neap_diag *diag)
{
    search *s = &run->streams[0];
    if (run->x.n_tasks <= MANY && !neap_run_stopped(run))
        NEAP_TRY(neap_start_plan_make(&run->start, run->allocator, &run->x, run->p, diag));
    if (!run->start.schedule.found)
        return NEAP_OK;
    NEAP_TRY(neap_search_start_from(s, &run->start.schedule, diag));
    s->budget = neap_sequence_most(&s->q);
    NEAP_TRY(neap_search_construct(s, diag));
    return neap_search_plan_copy(run->allocator, &run->x, &run->best, &s->best, diag);
}

/* Rounds until a plan fits a level, or probably none does. */
static neap_status try_level(neap_run *run, int64_t level, neap_diag *diag)
{
    NEAP_TRY(neap_run_move_budget(run, level, diag));
    for (run->round = 0; run->round < LEVEL_ROUNDS; run->round++) {
        NEAP_TRY(neap_run_round(run, diag));
        NEAP_TRY(neap_run_compare_streams(run, diag));
        neap_run_read_bound(run);
        if (neap_run_fits(run, &run->best) || neap_bound_state(run->bound)->none_fits ||
            is_at_floor(run) || neap_run_stopped(run))
            break;
        neap_planner_report_search(run->p, -1, -1);
    }
    return NEAP_OK;
}

/* A level between two others, in the middle of their ratio but not far below the upper one: a level
   is soon reached from one that is not far above. */
static int64_t level_between(int64_t low, int64_t high)
{
    double middle = sqrt((double)low * (double)high), half = 0.5 * (double)high;
    return (int64_t)(middle > half ? middle : half);
}

/* Of every task once: what the streams begin with. */
static int64_t natural_bytes(const neap_run *run)
{
    return neap_sequence_most(&run->streams[0].q) + run->x.base_bytes;
}

/* Halves the interval in which the least peak probably lies. In a large graph it takes long to
   repair a schedule far above the budget; here every level starts from the best plan so far, and
   from a cut for this level. */
static neap_status approach_peak(neap_run *run, neap_diag *diag)
{
    int64_t low = run->floor > 1 ? run->floor : 1;
    int64_t high = run->best.found ? run->best.peak : natural_bytes(run);
    while ((double)high > (1 + CLOSE_PEAK) * (double)low && !is_at_floor(run) &&
           !neap_run_stopped(run)) {
        int64_t level = level_between(low, high);
        NEAP_TRY(try_level(run, level, diag));
        if (!neap_run_fits(run, &run->best))
            low = level;
        if (run->best.found && run->best.peak < high)
            high = run->best.peak;
    }
    return NEAP_OK;
}

/* Levels between the best plan so far and the budget, until a plan fits. */
static neap_status descend_to(neap_run *run, int64_t budget, neap_diag *diag)
{
    while (!neap_run_stopped(run) && (!run->best.found || run->best.peak > budget)) {
        int64_t high = run->best.found ? run->best.peak : natural_bytes(run);
        int64_t level = level_between(budget, high);
        if ((double)level < (1 + CLOSE_PEAK) * (double)budget)
            level = budget;
        NEAP_TRY(try_level(run, level, diag));
        if (!neap_run_fits(run, &run->best))
            break;
    }
    return NEAP_OK;
}

bool neap_run_can_approach(const neap_run *run)
{
    return run->x.n_tasks > FAR && run->p->budget >= run->floor;
}

/* Until a plan has addresses within the budget, or none is found. */
static neap_status approach(neap_run *run, int64_t target, neap_diag *diag)
{
    int64_t budget = run->p->budget, arena;
    if (!run->best.found || run->best.peak > budget)
        NEAP_TRY(take_start(run, diag));
    while (target >= run->floor && !neap_run_stopped(run)) {
        NEAP_TRY(descend_to(run, target, diag));
        if (!run->best.found || run->best.peak > target || !neap_run_places(run))
            break;
        NEAP_TRY(neap_run_place_best(run, PLACE_SHARE, &arena, diag));
        if (arena <= budget) {
            run->placed = run->best.peak;
            break;
        }
        run->not_placed = run->best.peak;
        target = run->best.peak - (arena - budget);
    }
    return NEAP_OK;
}

static void set_until_fits(neap_run *run, bool value)
{
    for (uint32_t k = 0; k < run->n_streams; k++)
        run->streams[k].until_fits = value;
}

neap_status neap_run_approach(neap_run *run, int64_t target, neap_diag *diag)
{
    bound *kept = run->bound;
    bool bounding = run->bounding, has_thread = run->has_thread;
    uint32_t round = run->round;
    if (run->p->request->time_limit > 0)
        run->until = neap_clock_seconds() + APPROACH_SHARE * neap_planner_seconds_left(run->p);
    run->bound = NULL;
    run->has_thread = false;
    set_until_fits(run, true);
    neap_status status = approach(run, target, diag);
    set_until_fits(run, false);
    neap_bound_destroy(run->bound);
    run->bound = kept;
    run->bounding = bounding;
    run->has_thread = has_thread;
    run->has_cut = false;
    run->cut_ticks = 0;
    run->until = 0;
    run->round = run->last_improved = round;
    neap_run_read_bound(run); /* that of the budget again */
    int64_t between = run->placed + (run->not_placed - run->placed) / 2;
    NEAP_TRY(status);
    return neap_run_move_streams(run, run->placed >= 0 ? between : target, diag);
}

/* Every stream minimizes the peak; ends after a fourth of the effort without improvement. */
neap_status neap_run_least_peak(neap_run *run, neap_diag *diag)
{
    const neap_request *request = run->p->request;
    uint32_t patience = 1 + (uint32_t)run->p->options[EFFORT] / 4;
    if (request->time_limit > 0 && request->target_time <= 0)
        run->until = run->p->started + PEAK_SHARE * request->time_limit;
    NEAP_TRY(take_start(run, diag));
    if (run->x.n_tasks > FAR)
        NEAP_TRY(approach_peak(run, diag));
    NEAP_TRY(neap_run_move_budget(run, run->floor, diag));
    run->bounding = false;
    for (run->round = 0; !is_at_floor(run); run->round++) {
        NEAP_TRY(neap_run_round(run, diag));
        NEAP_TRY(neap_run_compare_streams(run, diag));
        if (neap_run_stopped(run) || run->round > run->last_improved + patience)
            break;
        neap_planner_report_search(run->p, -1, -1);
    }
    run->until = 0;
    /* From here on the time is minimized, within the least peak found. */
    return run->best.found ? neap_run_move_budget(run, run->best.peak, diag) : NEAP_OK;
}
