/*
 * neap: chooses keep, recompute, offload, kernel and order together, and proves a bound.
 *
 * A graph with few plans is solved by looking at all of them (small_graph.h). Otherwise:
 *
 * Several streams of search (search.h) start from different schedules; a bound (bound.h) is
 * improved at the same time. In each round every stream does a fixed number of iterations and the
 * bound one slice, on all threads. Between rounds the best plan is compared with the bound, and a
 * stream that lags behind continues from the best schedule. A round depends on the seed only, so
 * without a time limit the plan is the same for any number of threads. With a time limit the bound
 * has its own thread, and the rounds do not wait for it.
 *
 * If the first rounds leave a wide gap, the graph is annealed (anneal.h). With a time limit and a
 * budget the best plan is placed from time to time, because a plan counts only if it has addresses;
 * if they do not fit, the search continues within fewer bytes.
 */
#include "base/clock.h"
#include "base/fail.h"
#include "base/memory.h"
#include "base/team.h"
#include "planners/common/planner.h"
#include "planners/neap/anneal.h"
#include "planners/neap/bound.h"
#include "planners/neap/plan_conversion.h"
#include "planners/neap/small_graph.h"
#include "planners/neap/start_plan.h"

#include <neap/check.h>

#include <math.h>
#include <stdatomic.h>
#include <string.h>

enum {
    STREAMS = 4,          /* at most; an even number */
    EXCHANGE = 3,         /* rounds between two checks whether a stream lags */
    MANY = 2000,          /* with more tasks the first schedule is made from a cut */
    FAR = 300,            /* with more tasks the least peak is approached in steps */
    LEVEL_ROUNDS = 4,     /* at most, for one of these steps */
    FEWEST_ANNEALED = 64, /* tasks of graphs that are annealed */
    MOST_ANNEALED = 2000,
    CYCLES = 4,      /* at most, side by side */
    FIRST_ROUNDS = 3 /* without a time limit */
};

/* A plan within this fraction of the bound ends the search. */
static const double CLOSE = 1e-5;

/* The least peak is approached until it is known this well. */
static const double CLOSE_PEAK = 0.01;

/* The fraction of the time limit for the least peak, if the time of the plan matters, too. */
static const double PEAK_SHARE = 0.75;

/* Plans are placed after these fractions of the time limit, each of the rest, and for how long. */
static const double TRIAL_STEP = 0.25, TRIAL_SHARE = 0.1;

/* A graph is annealed if the first rounds leave this gap, and on if a short annealing improves the
   plan by this fraction. */
static const double WIDE_GAP = 0.004, WORTHWHILE = 0.004;

/* The fractions of the time limit for the first rounds of such a graph, to see whether annealing is
   better, for annealing, and then in turn for addresses and for annealing within another budget;
   and to repair what annealing leaves above the budget. */
static const double FIRST_ROUNDS_SHARE = 0.1, PROBE_SHARE = 0.08, ANNEAL_SHARE = 0.3,
                    IN_TURN_SHARE = 0.12, MEND_SHARE = 0.04;

/* How hot annealing from a plan begins. */
static const double WARM = 0.2;

/* The plans of such graphs keep the memory full all the time, and no arena of their peak is found:
   the first one leaves a part of the budget unused, unless that is close to the floor. */
static const double MARGIN = 0.03, CLOSE_TO_FLOOR = 1.25;

enum { EFFORT, SMALL_GRAPHS };

enum { EXHAUSTIVELY, BY_SEARCH }; /* the values of SMALL_GRAPHS */

static const neap_option options[] = {
    [EFFORT] = NEAP_INTEGER_OPTION("effort", 1, 1e6, 40,
                                   "rounds at most, without a time limit; stops after a third of "
                                   "them without improvement"),
    [SMALL_GRAPHS] = NEAP_CHOICE_OPTION("small-graphs", "exhaustive|search",
                                        "look at all plans of a graph that has few, or search as "
                                        "in a large one"),
};

typedef struct neap_run {
    neap_job job;
    const planner *p;
    neap_allocator *allocator; /* safe for all threads */
    problem x;
    start_plan start;
    small_answer small; /* of a graph whose plans can all be looked at, copies aside */
    int64_t floor;      /* bytes that every plan takes */
    int64_t within;     /* the present budget; in the search for the least peak, a level below it */
    double until;       /* the clock when the search for the least peak must end; 0: no matter */
    uint32_t n_streams;
    search streams[STREAMS];
    const neap_link *link; /* NULL: none */
    bound *bound;
    bool bounding;       /* the bound may still improve */
    bool has_thread;     /* the bound has its own thread */
    int64_t any_ticks;   /* the bound for all plans after the last round */
    int64_t bound_ticks; /* likewise, for plans in the best plan's scope */
    neap_scope scope;
    search_cut cut; /* to start from in the next round, if has_cut */
    bool has_cut;
    int64_t cut_ticks;   /* the bound of that cut */
    bool is_settled;     /* the first rounds are over */
    bool annealed;       /* the best plan came from there */
    bool *seen;          /* by task: scratch */
    uint32_t iterations; /* of a stream in a round */
    uint32_t round, last_improved;
    double next_trial;  /* the clock when the best plan is to be placed again */
    int64_t tried;      /* ticks of the plan that was placed last */
    int64_t placed;     /* a budget whose plan could be placed; -1: none */
    int64_t not_placed; /* one whose plan could not */
    atomic_uint next;   /* job of the round */
    neap_status status[STREAMS + 1];
    neap_diag diags[STREAMS + 1];
    search_plan best;
} neap_run;

/* ---- A round ---- */

static bool stopped(void *context)
{
    const neap_run *run = context;
    return neap_planner_stopped(run->p) || (run->until > 0 && neap_clock_seconds() > run->until);
}

/* The same for the bound's thread, which works on whatever the rounds do. */
static bool is_over(void *context)
{
    const neap_run *run = context;
    return neap_planner_stopped(run->p);
}

/* Restarts a stream from the bound's best cut, unless the result does not fit. */
static neap_status restart_from_cut(neap_run *run, uint32_t k)
{
    static const search_mixture mixtures[STREAMS] = {{8, true}, {1, false}, {1, true}, {64, true}};
    search *s = &run->streams[k];
    neap_diag *diag = &run->diags[k];
    NEAP_TRY(neap_search_start_from_cut(s, &run->cut, &mixtures[(k + run->round) % STREAMS], diag));
    NEAP_TRY(neap_search_construct(s, diag));
    if (neap_sequence_most(&s->q) > s->budget && s->best.found)
        NEAP_TRY(neap_search_start_from(s, &s->best, diag));
    return NEAP_OK;
}

/* The first stream starts from the caller's plan. */
static neap_status run_stream(neap_run *run, uint32_t k)
{
    search *s = &run->streams[k];
    bool from_start = k == 0 && run->start.schedule.found && !s->best.found;
    if (from_start)
        NEAP_TRY(neap_search_start_from(s, &run->start.schedule, &run->diags[0]));
    else if (run->has_cut && (k == run->round % run->n_streams || !s->best.found))
        return restart_from_cut(run, k);
    return s->best.found ? neap_search_iterate(s, run->iterations, &run->diags[k])
                         : neap_search_construct(s, &run->diags[k]);
}

static void take_jobs(neap_job *self, neap_team *team, unsigned member)
{
    neap_run *run = (neap_run *)self;
    (void)team;
    (void)member;
    uint32_t k;
    while ((k = atomic_fetch_add(&run->next, 1)) <= run->n_streams) {
        bool waits = run->round == 0 && run->x.n_tasks > MANY && run->bounding;
        if (k > 0 && !waits)
            run->status[k] = run_stream(run, k - 1);
        else if (k == 0 && run->bounding && !run->has_thread)
            run->status[k] = neap_bound_improve(run->bound, stopped, run, &run->diags[STREAMS]);
    }
}

static neap_status do_round(neap_run *run, neap_diag *diag)
{
    atomic_store(&run->next, 0);
    unsigned threads = neap_team_size(run->p->request->threads, run->n_streams + 1);
    neap_team_run(&run->job, threads - (threads > 1 && run->bounding && run->has_thread));
    for (uint32_t k = 0; k <= run->n_streams; k++)
        if (run->status[k] != NEAP_OK) {
            *diag = run->diags[k > 0 ? k - 1 : STREAMS];
            return run->status[k];
        }
    return NEAP_OK;
}

/* ---- Between rounds ---- */

/* The bound for another budget. */
static neap_status begin_bound(neap_run *run, int64_t within, neap_diag *diag)
{
    const planner *p = run->p;
    double limit = p->request->time_limit;
    run->within = within;
    run->bounding = true;
    neap_bound_destroy(run->bound);
    NEAP_TRY(neap_bound_create(run->allocator, &run->x, within, run->link, &run->bound, diag));
    neap_bound_set_end(run->bound, run->until > 0 ? run->until
                                   : limit > 0    ? p->started + limit
                                                  : 0);
    return NEAP_OK;
}

static bool fits(const neap_run *run, const search_plan *plan)
{
    return plan->found && plan->peak <= run->within;
}

static bool is_better(const neap_run *run, const search_plan *a, const search_plan *b)
{
    if (!a->found || !b->found)
        return a->found && !b->found;
    if (fits(run, a) != fits(run, b))
        return fits(run, a);
    if (!fits(run, a))
        return a->peak < b->peak;
    return a->ticks != b->ticks ? a->ticks < b->ticks : a->peak < b->peak;
}

/* Whether ops run for the first time in the graph's order. */
static bool is_in_order(const neap_run *run, const compute_list *list)
{
    uint32_t next = 0;
    memset(run->seen, 0, run->x.n_tasks);
    for (uint32_t i = 0; i < list->n; i++) {
        uint32_t task = list->tasks[i];
        if (!run->seen[task] && task != next++)
            return false;
        run->seen[task] = true;
    }
    return true;
}

static void read_bound(neap_run *run)
{
    bound_figures figures =
        neap_bound_read(run->bound, run->cut_ticks, run->cut.fates, run->cut.loose, &run->has_cut);
    bool in_order = run->best.found && figures.order_ticks > figures.any_ticks &&
                    is_in_order(run, &run->best.list);
    run->any_ticks = figures.any_ticks;
    run->bound_ticks = in_order ? figures.order_ticks : figures.any_ticks;
    run->scope = in_order ? NEAP_SCOPE_ORDER : NEAP_SCOPE_ANY;
    run->bounding = !figures.done;
    run->cut.position = figures.position;
    run->cut_ticks = figures.order_ticks;
}

/* Worse than the best: above the budget and larger, or slower. */
static bool lags(const neap_run *run, const search *s)
{
    int64_t peak = neap_sequence_most(&s->q) + run->x.base_bytes;
    return peak > run->within ? peak > run->best.peak : s->current_ticks > run->best.ticks;
}

/* Updates the best plan. Checks one stream in turn: if it lags, it continues from the best plan. */
static neap_status compare_streams(neap_run *run, neap_diag *diag)
{
    for (uint32_t k = 0; k < run->n_streams; k++)
        if (is_better(run, &run->streams[k].best, &run->best)) {
            run->last_improved = run->round;
            NEAP_TRY(neap_search_plan_copy(run->allocator, &run->x, &run->best,
                                           &run->streams[k].best, diag));
        }
    search *turn =
        &run->streams[run->round / EXCHANGE % (run->n_streams / 2)]; /* not one that restarts */
    if (run->best.found && run->round % EXCHANGE == 0 && lags(run, turn))
        return neap_search_start_from(turn, &run->best, diag);
    return NEAP_OK;
}

/* As fast as the caller needs. */
static bool is_fast_enough(const neap_run *run, const search_plan *plan)
{
    const planner *p = run->p;
    return plan->found && p->request->target_time > 0 &&
           plan->ticks <= neap_planner_target_ticks(p);
}

/* Close to the bound, or as good as requested. The bound for all plans counts: a plan that is the
   best in the graph's order may be beaten in another order. */
static bool is_good_enough(const neap_run *run)
{
    double ticks = (double)run->best.ticks, gap = run->p->request->gap;
    return fits(run, &run->best) && (ticks <= (double)run->any_ticks * (1 + CLOSE) ||
                                     (gap > 0 && ticks <= (double)run->bound_ticks * (1 + gap)) ||
                                     is_fast_enough(run, &run->best));
}

/* No plan fits, and the best plan has the least possible peak. */
static bool is_hopeless(const neap_run *run)
{
    return run->p->budget < run->floor && run->best.found && run->best.peak <= run->floor;
}

/* ---- The least peak ---- */

static bool seeks_peak(const neap_run *run)
{
    return run->p->request->objective == NEAP_LEAST_PEAK;
}

/* The least possible peak, or within the requested gap of it. */
static bool is_at_floor(const neap_run *run)
{
    double wanted = (double)run->floor * (1 + run->p->request->gap);
    return run->best.found && (double)run->best.peak <= wanted;
}

/* All streams continue from the best plan. */
static neap_status continue_from_best(neap_run *run, neap_diag *diag)
{
    for (uint32_t k = 0; k < run->n_streams; k++) {
        search *s = &run->streams[k];
        NEAP_TRY(neap_search_start_from(s, &run->best, diag));
        NEAP_TRY(neap_search_plan_copy(run->allocator, &run->x, &s->best, &run->best, diag));
    }
    return NEAP_OK;
}

/* All streams continue within another budget, from the best plan if there is one. */
static neap_status move_budget(neap_run *run, int64_t within, neap_diag *diag)
{
    run->last_improved = 0;
    run->has_cut = false;
    run->cut_ticks = 0;
    NEAP_TRY(begin_bound(run, within, diag));
    for (uint32_t k = 0; k < run->n_streams; k++)
        run->streams[k].budget = within - run->x.base_bytes;
    return run->best.found ? continue_from_best(run, diag) : NEAP_OK;
}

/* The plan to start from is the best one so far. */
static neap_status take_start(neap_run *run, neap_diag *diag)
{
    search *s = &run->streams[0];
    if (run->x.n_tasks <= MANY && !stopped(run))
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
    NEAP_TRY(move_budget(run, level, diag));
    for (run->round = 0; run->round < LEVEL_ROUNDS; run->round++) {
        NEAP_TRY(do_round(run, diag));
        NEAP_TRY(compare_streams(run, diag));
        read_bound(run);
        if (fits(run, &run->best) || neap_bound_state(run->bound)->none_fits || is_at_floor(run) ||
            stopped(run))
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

/* Halves the interval in which the least peak probably lies. In a large graph it takes long to
   repair a schedule far above the budget; here every level starts from the best plan so far, and
   from a cut for this level. */
static neap_status approach_peak(neap_run *run, neap_diag *diag)
{
    int64_t low = run->floor > 1 ? run->floor : 1;
    int64_t high = run->best.found /* else every task runs once */
                       ? run->best.peak
                       : neap_sequence_most(&run->streams[0].q) + run->x.base_bytes;
    while ((double)high > (1 + CLOSE_PEAK) * (double)low && !is_at_floor(run) && !stopped(run)) {
        int64_t level = level_between(low, high);
        NEAP_TRY(try_level(run, level, diag));
        if (!fits(run, &run->best))
            low = level;
        if (run->best.found && run->best.peak < high)
            high = run->best.peak;
    }
    return NEAP_OK;
}

/* Every stream minimizes the peak; ends after a fourth of the effort without improvement. */
static neap_status search_peak(neap_run *run, neap_diag *diag)
{
    const neap_request *request = run->p->request;
    uint32_t patience = 1 + (uint32_t)run->p->options[EFFORT] / 4;
    if (request->time_limit > 0 && request->target_time <= 0)
        run->until = run->p->started + PEAK_SHARE * request->time_limit;
    NEAP_TRY(take_start(run, diag));
    if (run->x.n_tasks > FAR)
        NEAP_TRY(approach_peak(run, diag));
    NEAP_TRY(move_budget(run, run->floor, diag));
    run->bounding = false;
    for (run->round = 0; !is_at_floor(run); run->round++) {
        NEAP_TRY(do_round(run, diag));
        NEAP_TRY(compare_streams(run, diag));
        if (stopped(run) || run->round > run->last_improved + patience)
            break;
        neap_planner_report_search(run->p, -1, -1);
    }
    run->until = 0;
    /* From here on the time is minimized, within the least peak found. */
    return run->best.found ? move_budget(run, run->best.peak, diag) : NEAP_OK;
}

/* ---- Annealing ---- */

/* Whether plans are placed while the search goes on. */
static bool places(const neap_run *run)
{
    return run->p->trial && run->p->request->time_limit > 0;
}

/* Whether a round is the last of the first ones. */
static bool ends_first_rounds(neap_run *run)
{
    double limit = run->p->request->time_limit;
    bool ends = limit > 0 ? neap_clock_seconds() >= run->p->started + FIRST_ROUNDS_SHARE * limit
                          : run->round + 1 == FIRST_ROUNDS;
    ends = ends && !run->is_settled;
    run->is_settled = run->is_settled || ends;
    return ends;
}

/* All streams continue within another budget, but the bound remains. */
static neap_status move_streams(neap_run *run, int64_t within, neap_diag *diag)
{
    bool down = within < run->within;
    run->within = within;
    for (uint32_t k = 0; k < run->n_streams; k++)
        run->streams[k].budget = within - run->x.base_bytes;
    return down ? continue_from_best(run, diag) : NEAP_OK;
}

static bool may_anneal(const neap_run *run)
{
    uint32_t n = run->x.n_tasks;
    return !run->link && !seeks_peak(run) && n >= FEWEST_ANNEALED && n <= MOST_ANNEALED;
}

/* The first rounds of a graph that may be annealed do not last until the time limit. */
static void limit_first_rounds(neap_run *run)
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
    if (status == NEAP_OK && is_better(run, &s->best, found))
        status = neap_search_plan_copy(run->allocator, &run->x, found, &s->best, diag);
    return status;
}

/* Anneals from a schedule (NULL: from every task once) for a share of the time limit. What is
   better than the best plan takes its place. */
static neap_status anneal_from(neap_run *run, const compute_list *from, double share,
                               neap_diag *diag)
{
    const planner *p = run->p;
    double limit = p->request->time_limit, now = neap_clock_seconds();
    anneal_team team = {.allocator = run->allocator,
                        .x = &run->x,
                        .budget = run->within,
                        .seed = p->request->seed,
                        .cycles = 2,
                        .threads = neap_team_size(p->request->threads, CYCLES),
                        .cycle = {.from = from, .stop = stopped, .context = run}};
    team.cycle.heat = from ? WARM : 1;
    team.cycle.steps = (uint64_t)(300 * share * p->options[EFFORT]) * run->x.n_tasks;
    if (limit > 0) {
        team.cycle.end = now + share * limit;
        team.cycles = team.threads;
    }
    search_plan found = {0};
    neap_status status = neap_anneal_best_of(&team, &found, diag);
    if (status == NEAP_OK && run->annealed && found.found && !fits(run, &found))
        status = mend(run, &found, diag);
    if (status == NEAP_OK && is_better(run, &found, &run->best)) {
        run->annealed = true;
        run->last_improved = run->round;
        status = neap_search_plan_copy(run->allocator, &run->x, &run->best, &found, diag);
        if (status == NEAP_OK)
            status = continue_from_best(run, diag);
    }
    neap_compute_list_clear(run->allocator, &run->x, &found.list);
    return status;
}

/* After the first rounds: a graph with a wide gap is annealed for a short time and, if that is
   worthwhile, for a longer one; the streams improve the result. */
static neap_status anneal_if_wide(neap_run *run, neap_diag *diag)
{
    int64_t before = fits(run, &run->best) ? run->best.ticks : INT64_MAX;
    bool near = fits(run, &run->best) &&
                (double)run->best.ticks <= (1 + WIDE_GAP) * (double)run->bound_ticks;
    run->until = 0;
    if (!may_anneal(run) || near || neap_planner_stopped(run->p))
        return NEAP_OK;
    if (run->start.schedule.found)
        return anneal_from(run, &run->start.schedule.list, ANNEAL_SHARE, diag);
    NEAP_TRY(anneal_from(run, NULL, PROBE_SHARE, diag));
    run->annealed = run->annealed && (double)run->best.ticks < (1 - WORTHWHILE) * (double)before &&
                    (double)run->best.peak < (1 + MARGIN) * (double)run->within;
    if (!run->annealed)
        return NEAP_OK;
    double less = (1 - MARGIN) * (double)run->within;
    if (places(run) && less > CLOSE_TO_FLOOR * (double)run->floor)
        NEAP_TRY(move_streams(run, (int64_t)less, diag));
    return anneal_from(run, NULL, ANNEAL_SHARE, diag);
}

/* ---- Addresses ---- */

/* The budget for the streams after the best plan was placed in an arena: the largest whose plans
   can probably be placed. */
static int64_t budget_after(neap_run *run, int64_t arena)
{
    int64_t peak = run->best.peak, excess = arena - run->p->budget;
    if (excess <= 0) {
        run->placed = run->annealed ? peak : run->within;
        return run->placed + (run->not_placed - run->placed) / 2;
    }
    run->not_placed = peak;
    int64_t middle = run->placed + (peak - run->placed) / 2;
    if (run->placed >= 0 && middle > peak - excess)
        return middle;
    return peak - excess > run->floor ? peak - excess : run->floor;
}

static neap_status place_best(neap_run *run, double share, int64_t *arena, neap_diag *diag)
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
    bool found = fits(run, &run->best);
    int64_t arena;
    *within = run->within;
    if (found && run->best.ticks != run->tried) {
        NEAP_TRY(place_best(run, share, &arena, diag));
        *within = budget_after(run, arena);
    } else if (!found && run->not_placed > *within) {
        *within += (run->not_placed - *within) / 2;
    }
    return NEAP_OK;
}

/* From time to time the best plan is placed, and the search continues within another budget. */
static neap_status try_addresses(neap_run *run, neap_diag *diag)
{
    const planner *p = run->p;
    int64_t within;
    if (neap_clock_seconds() < run->next_trial)
        return NEAP_OK;
    NEAP_TRY(choose_budget(run, TRIAL_SHARE, &within, diag));
    double now = neap_clock_seconds();
    run->next_trial = now + TRIAL_STEP * (p->started + p->request->time_limit - now);
    return within == run->within ? NEAP_OK : move_streams(run, within, diag);
}

/* Annealed plans keep the memory full all the time, and their addresses take long to find: a plan
   is placed, and annealed within another budget, in turn. */
static neap_status place_annealed(neap_run *run, neap_diag *diag)
{
    const planner *p = run->p;
    double turn = IN_TURN_SHARE * p->request->time_limit;
    double left = p->started + p->request->time_limit - neap_clock_seconds();
    while (left > 1.5 * turn && !stopped(run)) {
        int64_t within;
        NEAP_TRY(choose_budget(run, turn / left, &within, diag));
        if (within == run->within)
            break;
        NEAP_TRY(move_streams(run, within, diag));
        NEAP_TRY(anneal_from(run, &run->best.list, IN_TURN_SHARE, diag));
        left = p->started + p->request->time_limit - neap_clock_seconds();
    }
    return NEAP_OK;
}

/* A plan counts only if it can be placed, so that is tried while there is time. */
static neap_status look_at_addresses(neap_run *run, neap_diag *diag)
{
    if (!places(run))
        return NEAP_OK;
    return run->annealed ? place_annealed(run, diag) : try_addresses(run, diag);
}

/* ---- The search ---- */

static neap_status search_rounds(neap_run *run, neap_diag *diag)
{
    const neap_request *request = run->p->request;
    uint32_t rounds = (uint32_t)run->p->options[EFFORT];
    bool two_threads = request->time_limit > 0 && neap_team_size(request->threads, 2) > 1;
    limit_first_rounds(run);
    for (run->round = 0; run->round <= rounds; run->round++) {
        NEAP_TRY(do_round(run, diag));
        NEAP_TRY(compare_streams(run, diag));
        read_bound(run);
        if (ends_first_rounds(run))
            NEAP_TRY(anneal_if_wide(run, diag));
        if (is_good_enough(run) || is_hopeless(run) || neap_planner_stopped(run->p))
            break;
        bool has_plan = fits(run, &run->best), limited = request->time_limit > 0 && has_plan;
        neap_planner_report_search(run->p, has_plan ? run->best.ticks : -1, run->bound_ticks);
        /* Until the time limit; if nothing fits, no longer than without a limit. */
        if (!limited && run->round > run->last_improved + rounds / 3 && !run->bounding)
            break;
        if (limited)
            rounds = UINT32_MAX - 1;
        NEAP_TRY(look_at_addresses(run, diag));
        if (run->round == 0 && two_threads && run->bounding)
            run->has_thread = neap_bound_start_thread(run->bound, is_over, run);
    }
    NEAP_TRY(neap_bound_end_thread(run->bound, diag));
    read_bound(run);
    return NEAP_OK;
}

/* ---- The result ---- */

/* Where the result comes from. The caller's plan may be better timed than the search can, or vary
   the variants of an op. */
typedef enum origin { FROM_SEARCH, FROM_CALLER, FROM_SMALL_GRAPH } origin;

/* Of equal peaks the start's, if it is fast enough: its addresses take less room. */
static bool is_preferable(const neap_run *run, const search_plan *a, const search_plan *b)
{
    if (!seeks_peak(run) || !a->found || !b->found)
        return is_better(run, a, b);
    return a->peak < b->peak ||
           (a->peak == b->peak && (is_fast_enough(run, a) || is_better(run, a, b)));
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
    if (status == NEAP_OK && from != FROM_CALLER && fits(run, &best) &&
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
    bool none_fits =
        p->budget < run->floor || (!seeks_peak(run) && neap_bound_state(run->bound)->none_fits);
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

static neap_status write_draft(neap_run *run, draft *d, neap_diag *diag)
{
    const planner *p = run->p;
    const bound_figures *figures = neap_bound_state(run->bound);
    d->stopped = neap_planner_stopped(p);
    if (!seeks_peak(run)) { /* else the bound is for plans within the least peak found */
        d->bound_ticks = run->bound_ticks;
        d->scope = run->scope;
    }
    if (is_undecided(run, d))
        return NEAP_OK;
    NEAP_TRY(write_plan(run, d, diag));
    return seeks_peak(run) ? NEAP_OK
                           : add_bounds(p, d, figures->any_ticks, figures->order_ticks, diag);
}

/* ---- Small graphs ---- */

/* All plans are known, so the search could find none that is better. */
static bool is_solved(const neap_run *run)
{
    return run->small.complete && !run->link;
}

/* The pins of a request are not known there. */
static neap_status look_at_all_plans(neap_run *run, neap_diag *diag)
{
    bool wanted = run->p->options[SMALL_GRAPHS] == EXHAUSTIVELY && run->p->request->n_pins == 0;
    return wanted ? neap_small_graph_plan(run->p, &run->small, diag) : NEAP_OK;
}

static neap_status write_small_draft(neap_run *run, draft *d, neap_diag *diag)
{
    NEAP_TRY(write_plan(run, d, diag));
    d->proven_optimal = true;
    d->scope = NEAP_SCOPE_ANY;
    if (seeks_peak(run) || !run->small.fits)
        return NEAP_OK;
    /* The caller's plan may vary an op's variants and be faster. */
    d->bound_ticks = d->predicted_ticks < run->small.ticks ? d->predicted_ticks : run->small.ticks;
    return add_bounds(run->p, d, d->bound_ticks, d->bound_ticks, diag);
}

/* ---- The method ---- */

static neap_status begin(neap_run *run, neap_diag *diag)
{
    const planner *p = run->p;
    const neap_link *link = &p->request->link;
    problem *x = &run->x;
    run->link = link->out_bandwidth > 0 && link->in_bandwidth > 0 ? link : NULL;
    run->floor = neap_graph_floor_bytes(p->graph, NULL);
    /* Few long streams are better than many short ones, but threads should not idle. */
    bool limited = p->request->time_limit > 0;
    run->n_streams = limited && neap_team_size(p->request->threads, STREAMS) < 3 ? 2 : STREAMS;
    NEAP_TRY(neap_problem_init(x, run->allocator, p->request, diag));
    NEAP_TRY(neap_start_plan_read(&run->start, run->allocator, x, p->request, diag));
    NEAP_TRY(begin_bound(run, p->budget, diag));
    run->placed = -1;
    run->not_placed = p->budget;
    if (p->request->time_limit > 0)
        run->next_trial = p->started + TRIAL_STEP * p->request->time_limit;
    /* If no plan can fit, the search minimizes the peak. */
    bool down = seeks_peak(run) || p->budget < run->floor;
    int64_t budget = down ? run->floor : p->budget;
    for (uint32_t k = 0; k < run->n_streams; k++) {
        search *s = &run->streams[k];
        NEAP_TRY(neap_search_init(s, run->allocator, x, budget, run->link,
                                  p->request->seed * STREAMS + k, diag));
        neap_search_set_stop(s, stopped, run);
        s->restarts = k >= run->n_streams / 2;
        s->n_restarts = k > 0; /* noise from the start */
    }
    if (!NEAP_TAKE(&x->arena, x->n_tensors, run->cut.fates) ||
        !NEAP_TAKE(&x->arena, x->n_tensors, run->cut.loose) ||
        !NEAP_TAKE(&x->arena, x->n_tasks, run->seen))
        return neap_fail_no_memory(diag);
    run->iterations = 20 + 100000 / (x->n_tasks + 100);
    return NEAP_OK;
}

static neap_status find_plan(neap_run *run, draft *d, neap_diag *diag)
{
    NEAP_TRY(begin(run, diag));
    NEAP_TRY(look_at_all_plans(run, diag));
    if (is_solved(run))
        return write_small_draft(run, d, diag);
    if (seeks_peak(run))
        NEAP_TRY(search_peak(run, diag));
    if (!seeks_peak(run) || !is_fast_enough(run, &run->best))
        NEAP_TRY(search_rounds(run, diag));
    return write_draft(run, d, diag);
}

static neap_status plan_with(neap_run *run, draft *d, neap_diag *diag)
{
    neap_status status = find_plan(run, d, diag);
    for (uint32_t k = 0; k < STREAMS; k++)
        neap_search_clear(&run->streams[k]);
    neap_compute_list_clear(run->allocator, &run->x, &run->best.list);
    neap_bound_destroy(run->bound);
    neap_start_plan_clear(&run->start, run->allocator, &run->x);
    neap_small_answer_clear(&run->small);
    neap_problem_clear(&run->x);
    return status;
}

static neap_status plan_neap(const planner *p, draft *d, neap_diag *diag)
{
    neap_shared_allocator shared;
    neap_run *run;
    if (!neap_shared_allocator_init(&shared, p->allocator))
        return neap_fail_no_memory(diag);
    neap_status status = NEAP_NEW(&shared.base, 1, &run, diag);
    if (status == NEAP_OK) {
        run->job.run = take_jobs;
        run->p = p;
        run->allocator = &shared.base;
        status = plan_with(run, d, diag);
    }
    NEAP_DELETE(&shared.base, 1, run);
    neap_shared_allocator_clear(&shared);
    return status;
}

const neap_method neap_method_neap = {
    .name = "neap",
    .summary = "keep, recompute, offload, kernels and order together, with a proven bound",
    .source = "neap's own; bounds in docs/bounds.md",
    NEAP_METHOD_OPTIONS(options),
    .takes_constraints = true,
    .plan = plan_neap,
};
