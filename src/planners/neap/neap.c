/*
 * neap: keep, recompute, offload, kernel and order, all at once, with a bound beside it.
 *
 * Several streams of search (search.h) start from different schedules, and a bound (bound.h) is
 * proven beside them. Work goes in rounds: in each, every stream does so many iterations and the
 * bound one slice, on as many threads as there are. Between rounds the best plan and the bound are
 * compared, and a stream that lags goes on from the best one's schedule. What a round does depends
 * on nothing but the seed, so without a time limit the plan is the same on any number of threads.
 * With one, the bound has a thread of its own, and nobody waits for it.
 */
#include "base/fail.h"
#include "base/memory.h"
#include "base/team.h"
#include "planners/common/planner.h"
#include "planners/neap/bound_thread.h"
#include "planners/neap/plan_conversion.h"
#include "planners/neap/start_plan.h"

#include <neap/check.h>

#include <stdatomic.h>
#include <string.h>

enum {
    STREAMS = 4, /* at most; an even number */
    EXCHANGE = 3 /* rounds between two looks at whether a stream lags */
};

/* In graphs of more tasks a first cut comes before the first schedule, which follows it. */
enum { MANY = 2000 };

/* Closer to the bound there is nothing to gain. */
static const double CLOSE = 1e-5;

enum { EFFORT };

static const neap_option options[] = {
    [EFFORT] = NEAP_INTEGER_OPTION("effort", 1, 1e6, 40,
                                   "how long to search where no time limit says so: rounds, and a "
                                   "third of them in vain is enough"),
};

typedef struct neap_run {
    neap_job job;
    const planner *p;
    neap_allocator *allocator; /* may be used by all threads */
    problem x;
    start_plan start;
    int64_t floor;  /* bytes that every plan takes */
    int64_t within; /* bytes that a plan is to fit; where the least peak is sought, the floor first
                       and then the least found */
    uint32_t n_streams;
    search streams[STREAMS];
    const neap_link *link; /* NULL: there is none */
    bound *bound;
    bound_thread beside; /* where it has its own thread */
    search_cut told;     /* its arrays */
    int64_t any_ticks;   /* that no plan beats, when it was last looked at */
    int64_t bound_ticks; /* of the best plan's kind, likewise */
    neap_scope scope;
    search_cut cut; /* to follow in the next round, if `following` */
    bool following;
    int64_t followed;    /* the bound that it had */
    uint32_t iterations; /* of a stream in a round */
    uint32_t round, last_improved;
    bool bounding;
    atomic_uint next; /* job of the round */
    neap_status status[STREAMS + 1];
    neap_diag diags[STREAMS + 1];
    search_plan best;
} neap_run;

/* ---- A round ---- */

static bool stopped(void *context)
{
    const neap_run *run = context;
    return neap_planner_stopped(run->p);
}

/* A stream begins anew with what the bound's best cut suggests, if that is any good. */
static neap_status follow_cut(neap_run *run, uint32_t k)
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

/* The first stream begins with the caller's plan. */
static neap_status begin_with_start(neap_run *run)
{
    search *s = &run->streams[0];
    neap_status status = neap_search_start_from(s, &run->start.schedule, &run->diags[0]);
    return status == NEAP_OK ? neap_search_construct(s, &run->diags[0]) : status;
}

static neap_status run_stream(neap_run *run, uint32_t k)
{
    search *s = &run->streams[k];
    if (k == 0 && run->start.schedule.found && !s->best.found)
        return begin_with_start(run);
    if (run->following && (k == run->round % run->n_streams || !s->best.found))
        return follow_cut(run, k);
    if (!s->best.found)
        return neap_search_construct(s, &run->diags[k]);
    return neap_search_iterate(s, run->iterations, &run->diags[k]);
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
        else if (k == 0 && run->bounding && !run->beside.runs)
            run->status[k] = neap_bound_improve(run->bound, stopped, run, &run->diags[STREAMS]);
    }
}

static neap_status do_round(neap_run *run, neap_diag *diag)
{
    atomic_store(&run->next, 0);
    unsigned threads = neap_team_size(run->p->request->threads, run->n_streams + 1);
    neap_team_run(&run->job, threads - (threads > 1 && run->bounding && run->beside.runs));
    for (uint32_t k = 0; k <= run->n_streams; k++)
        if (run->status[k] != NEAP_OK) {
            *diag = run->diags[k > 0 ? k - 1 : STREAMS];
            return run->status[k];
        }
    return NEAP_OK;
}

/* ---- Between rounds ---- */

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
static neap_status is_in_order(const neap_run *run, const compute_list *list, bool *in_order,
                               neap_diag *diag)
{
    uint32_t next = 0;
    bool *seen;
    neap_status status = NEAP_NEW(run->allocator, run->x.n_tasks, &seen, diag);
    *in_order = true;
    for (uint32_t i = 0; i < list->n && status == NEAP_OK; i++) {
        if (seen[list->tasks[i]])
            continue;
        seen[list->tasks[i]] = true;
        *in_order = *in_order && list->tasks[i] == next++;
    }
    NEAP_DELETE(run->allocator, run->x.n_tasks, seen);
    return status;
}

/* What is proven, and a new cut to follow. */
static bound_figures read_bound(neap_run *run)
{
    if (run->beside.runs)
        return neap_bound_thread_look(&run->beside, run->cut.fates, run->cut.loose,
                                      &run->following);
    bound_figures figures = *neap_bound_state(run->bound);
    run->following = figures.position != NEAP_NONE && figures.order_ticks > run->followed;
    if (run->following) { /* the bound goes on and changes its own */
        memcpy(run->cut.fates, figures.fates, run->x.n_tensors);
        memcpy(run->cut.loose, figures.loose, run->x.n_tensors);
    }
    return figures;
}

static neap_status look_at_bound(neap_run *run, neap_diag *diag)
{
    bound_figures figures = read_bound(run);
    bool in_order = false;
    if (run->best.found && figures.order_ticks > figures.any_ticks)
        NEAP_TRY(is_in_order(run, &run->best.list, &in_order, diag));
    run->any_ticks = figures.any_ticks;
    run->bound_ticks = in_order ? figures.order_ticks : figures.any_ticks;
    run->scope = in_order ? NEAP_SCOPE_ORDER : NEAP_SCOPE_ANY;
    run->bounding = !figures.done;
    run->cut.position = figures.position;
    run->followed = figures.order_ticks;
    return NEAP_OK;
}

/* The bound gets its own thread, if there are two and results depend on the time anyway. */
static void let_bound_go(neap_run *run)
{
    const neap_request *request = run->p->request;
    if (request->time_limit > 0 && neap_team_size(request->threads, 2) > 1 && run->bounding)
        neap_bound_thread_begin(&run->beside, run->bound, &run->x, run->told.fates, run->told.loose,
                                stopped, run);
}

/* Behind the best: too large and larger, or slower. */
static bool lags(const neap_run *run, const search *s)
{
    int64_t peak = neap_sequence_most(&s->q) + run->x.base_bytes;
    return peak > run->within ? peak > run->best.peak : s->current_ticks > run->best.ticks;
}

/* The best of all; and a stream that lags takes it over, one a round. */
static neap_status compare_streams(neap_run *run, neap_diag *diag)
{
    neap_status status = NEAP_OK;
    for (uint32_t k = 0; k < run->n_streams && status == NEAP_OK; k++)
        if (is_better(run, &run->streams[k].best, &run->best)) {
            run->last_improved = run->round;
            status = neap_search_plan_copy(run->allocator, &run->x, &run->best,
                                           &run->streams[k].best, diag);
        }
    search *turn =
        &run->streams[run->round / EXCHANGE % (run->n_streams / 2)]; /* not one that restarts */
    if (status == NEAP_OK && run->best.found && run->round % EXCHANGE == 0 && lags(run, turn))
        status = neap_search_start_from(turn, &run->best, diag);
    return status;
}

/* Next to what no plan can beat, or as good as the caller wants it. A plan that is the best in the
   graph's order may still be beaten in another. */
static bool is_good_enough(const neap_run *run)
{
    int64_t target = neap_planner_target_ticks(run->p);
    double ticks = (double)run->best.ticks, gap = run->p->request->gap;
    return fits(run, &run->best) && (ticks <= (double)run->any_ticks * (1 + CLOSE) ||
                                     (gap > 0 && ticks <= (double)run->bound_ticks * (1 + gap)) ||
                                     (target < INT64_MAX && run->best.ticks <= target));
}

/* No plan fits, and the one at hand takes no more than any must. */
static bool is_hopeless(const neap_run *run)
{
    return run->p->budget < run->floor && run->best.found && run->best.peak <= run->floor;
}

/* ---- The least peak ---- */

static bool seeks_peak(const neap_run *run)
{
    return run->p->request->objective == NEAP_LEAST_PEAK;
}

/* As low as it gets, as low as the caller wants it, or half of the time is over. */
static bool is_low_enough(const neap_run *run)
{
    const planner *p = run->p;
    double wanted = (double)run->floor * (1 + p->request->gap);
    return fits(run, &run->best) || (run->best.found && (double)run->best.peak <= wanted) ||
           neap_planner_stopped(p) ||
           (p->request->time_limit > 0 &&
            neap_planner_seconds_left(p) < p->request->time_limit / 2);
}

/* From here on it is the time that counts, within the least peak found. */
static neap_status stay_within_peak(neap_run *run, neap_diag *diag)
{
    run->within = run->best.peak;
    run->last_improved = 0;
    neap_bound_destroy(run->bound);
    run->bound = NULL;
    neap_status status =
        neap_bound_create(run->allocator, &run->x, run->within, run->link, &run->bound, diag);
    for (uint32_t k = 0; k < run->n_streams && status == NEAP_OK; k++) {
        search *s = &run->streams[k];
        s->budget = run->within - run->x.base_bytes;
        status = neap_search_start_from(s, &run->best, diag);
        if (status == NEAP_OK)
            status = neap_search_plan_copy(run->allocator, &run->x, &s->best, &run->best, diag);
    }
    run->bounding = true;
    return status;
}

/* All streams go down as far as they can; a fourth of the effort in vain is enough. */
static neap_status search_peak(neap_run *run, neap_diag *diag)
{
    uint32_t patience = 1 + (uint32_t)run->p->options[EFFORT] / 4;
    neap_status status = NEAP_OK;
    run->within = run->floor;
    run->bounding = false;
    for (run->round = 0; status == NEAP_OK; run->round++) {
        status = do_round(run, diag);
        if (status == NEAP_OK)
            status = compare_streams(run, diag);
        if (status != NEAP_OK || is_low_enough(run) || run->round > run->last_improved + patience)
            break;
        neap_planner_report_search(run->p, -1, -1);
    }
    if (status == NEAP_OK && run->best.found)
        status = stay_within_peak(run, diag);
    return status;
}

/* ---- The whole ---- */

static neap_status search_rounds(neap_run *run, neap_diag *diag)
{
    uint32_t rounds = (uint32_t)run->p->options[EFFORT];
    neap_status status = NEAP_OK;
    for (run->round = 0; run->round <= rounds && status == NEAP_OK; run->round++) {
        status = do_round(run, diag);
        if (status == NEAP_OK)
            status = compare_streams(run, diag);
        if (status == NEAP_OK)
            status = look_at_bound(run, diag);
        if (status != NEAP_OK || is_good_enough(run) || is_hopeless(run) ||
            neap_planner_stopped(run->p))
            break;
        neap_planner_report_search(run->p, fits(run, &run->best) ? run->best.ticks : -1,
                                   run->bound_ticks);
        /* As long as the time allows; but where nothing fits, no longer than without a limit. */
        bool limited = run->p->request->time_limit > 0 && fits(run, &run->best);
        if (!limited && run->round > run->last_improved + rounds / 3 && !run->bounding)
            break;
        if (limited)
            rounds = UINT32_MAX - 1;
        if (run->round == 0)
            let_bound_go(run);
    }
    neap_diag other;
    neap_status ended = neap_bound_thread_end(&run->beside, status == NEAP_OK ? diag : &other);
    if (status == NEAP_OK)
        status = ended;
    return status == NEAP_OK ? look_at_bound(run, diag) : status;
}

/* The plan that the caller began with is still the best: its copies may be timed better than the
   search does it, or its variants change from run to run. */
static bool is_start_best(const neap_run *run)
{
    const search_plan *best = &run->best;
    search_plan start = {true, .ticks = run->start.ticks, .peak = run->start.peak};
    if (!run->start.given || !run->start.honours_constraints)
        return false;
    if (seeks_peak(run) && best->found && start.peak != best->peak)
        return start.peak < best->peak;
    return is_better(run, &start, best);
}

static neap_status write_plan(neap_run *run, draft *d, neap_diag *diag)
{
    const planner *p = run->p;
    const search_plan *best = &run->best;
    neap_timeline timeline = {0};
    bool from_start = is_start_best(run);
    neap_status status =
        from_start
            ? neap_start_plan_copy(&run->start, p->allocator, &run->x, p->request, &d->plan, diag)
            : neap_schedule_to_plan(p->allocator, &run->x, p->request, &best->list, &d->plan, diag);
    if (status == NEAP_OK)
        status = neap_timeline_build(p->allocator, p->graph, d->plan, &p->request->link, &timeline,
                                     diag);
    if (status == NEAP_OK && !from_start && fits(run, best) &&
        timeline.makespan_ticks != best->ticks)
        status = neap_fail(diag, NEAP_INTERNAL, "the search counts other ticks than the timeline");
    d->predicted_peak = timeline.peak_bytes;
    d->predicted_ticks = timeline.makespan_ticks;
    neap_timeline_clear(&timeline);
    return status;
}

/* There is nothing at all, or it was stopped before it had what fits: that says nothing about
   whether there is such a plan, unless it is known that none can be. */
static bool is_undecided(const neap_run *run, const draft *d)
{
    const planner *p = run->p;
    bool has_start = is_start_best(run);
    if (!run->best.found && !has_start)
        return true;
    int64_t peak = has_start ? run->start.peak : run->best.peak;
    bool none_fits =
        p->budget < run->floor || (!seeks_peak(run) && neap_bound_state(run->bound)->none_fits);
    return d->stopped && peak > p->budget && !none_fits;
}

static neap_status write_draft(neap_run *run, draft *d, neap_diag *diag)
{
    const planner *p = run->p;
    const bound_figures *figures = neap_bound_state(run->bound);
    d->stopped = neap_planner_stopped(p);
    if (!seeks_peak(run)) { /* else the bound is one of plans within the least peak found */
        d->bound_ticks = run->bound_ticks;
        d->scope = run->scope;
    }
    if (is_undecided(run, d))
        return NEAP_OK;
    NEAP_TRY(write_plan(run, d, diag));
    if (seeks_peak(run))
        return NEAP_OK;
    NEAP_TRY(neap_draft_add_number(p, d, "any_order_bound",
                                   neap_graph_seconds(p->graph, figures->any_ticks), diag));
    return neap_draft_add_number(p, d, "fixed_order_bound",
                                 neap_graph_seconds(p->graph, figures->order_ticks), diag);
}

static neap_status begin(neap_run *run, neap_diag *diag)
{
    const planner *p = run->p;
    const neap_link *link = &p->request->link;
    problem *x = &run->x;
    run->link = link->out_bandwidth > 0 && link->in_bandwidth > 0 ? link : NULL;
    run->floor = neap_graph_floor_bytes(p->graph, NULL);
    run->within = p->budget;
    /* Few long streams are better than many short ones, but threads should not idle. */
    bool limited = p->request->time_limit > 0;
    run->n_streams = limited && neap_team_size(p->request->threads, STREAMS) < 3 ? 2 : STREAMS;
    NEAP_TRY(neap_problem_init(x, run->allocator, p->request, diag));
    NEAP_TRY(neap_start_plan_read(&run->start, run->allocator, x, p->request, diag));
    NEAP_TRY(neap_bound_create(run->allocator, x, p->budget, run->link, &run->bound, diag));
    /* Where no plan can fit, the least peak is sought. */
    bool down = seeks_peak(run) || p->budget < run->floor;
    int64_t budget = down ? run->floor : p->budget;
    for (uint32_t k = 0; k < run->n_streams; k++) {
        search *s = &run->streams[k];
        NEAP_TRY(neap_search_init(s, run->allocator, x, budget, run->link,
                                  p->request->seed * STREAMS + k, diag));
        neap_search_set_stop(s, stopped, run);
        s->restarts = k >= run->n_streams / 2;
        s->n_restarts = k > 0; /* with noise from the start */
    }
    if (!NEAP_TAKE(&x->arena, x->n_tensors, run->cut.fates) ||
        !NEAP_TAKE(&x->arena, x->n_tensors, run->cut.loose) ||
        !NEAP_TAKE(&x->arena, x->n_tensors, run->told.fates) ||
        !NEAP_TAKE(&x->arena, x->n_tensors, run->told.loose))
        return neap_fail_no_memory(diag);
    run->iterations = 20 + 100000 / (x->n_tasks + 100);
    run->bounding = true;
    return NEAP_OK;
}

static neap_status plan_with(neap_run *run, draft *d, neap_diag *diag)
{
    neap_status status = begin(run, diag);
    if (status == NEAP_OK && seeks_peak(run))
        status = search_peak(run, diag);
    if (status == NEAP_OK)
        status = search_rounds(run, diag);
    if (status == NEAP_OK)
        status = write_draft(run, d, diag);
    for (uint32_t k = 0; k < STREAMS; k++)
        neap_search_clear(&run->streams[k]);
    neap_compute_list_clear(run->allocator, &run->x, &run->best.list);
    neap_bound_destroy(run->bound);
    neap_start_plan_clear(&run->start, run->allocator, &run->x);
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
