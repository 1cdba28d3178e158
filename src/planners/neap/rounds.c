/* The rounds of the search: see neap_run.h. */
#include "base/clock.h"
#include "base/fail.h"
#include "base/team.h"
#include "planners/neap/neap_run.h"

#include <string.h>

enum {
    EXCHANGE = 3 /* rounds between two checks whether a stream lags */
};

/* The fraction of the time left in which a stream makes several schedules to start from. */
static const double STARTS_SHARE = 0.1;

/* ---- A round ---- */

bool neap_run_stopped(void *context)
{
    const neap_run *run = context;
    return neap_planner_stopped(run->p) || (run->until > 0 && neap_clock_seconds() > run->until);
}

/* When a stream that has no schedule within the budget makes no more of them. */
static double end_of_starts(const neap_run *run)
{
    const planner *p = run->p;
    double now = neap_clock_seconds();
    return now + STARTS_SHARE * (p->started + p->request->time_limit - now);
}

/* Restarts a stream from the bound's best cut, unless the result does not fit. A stream without a
   schedule within the budget takes the best of several: one is worth many iterations. */
static neap_status restart_from_cut(neap_run *run, uint32_t k, bool several)
{
    static const search_mixture mixtures[] = {{8, true},  {1, false},  {1, true},   {64, true},
                                              {4, true},  {16, true},  {2, true},   {32, true},
                                              {2, false}, {16, false}, {32, false}, {24, true}};
    uint32_t n = sizeof mixtures / sizeof *mixtures;
    search *s = &run->streams[k];
    neap_diag *diag = &run->diags[k];
    double end = several ? end_of_starts(run) : 0;
    uint32_t m = (k + run->round) % STREAMS;
    do {
        NEAP_TRY(neap_search_start_from_cut(s, &run->cut, &mixtures[m % n], diag));
        NEAP_TRY(neap_search_construct(s, diag));
        m += run->n_streams;
    } while (neap_clock_seconds() < end && !neap_run_stopped(run));
    bool fits = neap_sequence_most(&s->q) <= s->budget;
    if (s->best.found && (!fits || (several && s->current_ticks > s->best.ticks)))
        NEAP_TRY(neap_search_start_from(s, &s->best, diag));
    return NEAP_OK;
}

/* Whether a stream of a large graph starts anew from the last cut, because the budget has changed
   and its best plan does not fit: that is often better than to repair the plan, which every other
   stream does. */
static bool starts_anew(const neap_run *run, uint32_t k)
{
    const search *s = &run->streams[k];
    return k % 2 == 1 && run->x.n_tasks > MANY && run->cut_ticks > run->x.least_ticks &&
           s->best.found && s->best.peak > s->budget + run->x.base_bytes;
}

/* The first stream starts from the caller's plan. */
static neap_status run_stream(neap_run *run, uint32_t k)
{
    search *s = &run->streams[k];
    bool from_start = k == 0 && run->start.schedule.found && !s->best.found;
    if (from_start)
        NEAP_TRY(neap_search_start_from(s, &run->start.schedule, &run->diags[0]));
    else if (run->has_cut && (k == run->round % run->n_streams || !s->best.found))
        return restart_from_cut(run, k, !s->best.found);
    else if (starts_anew(run, k))
        NEAP_TRY(restart_from_cut(run, k, true));
    return s->best.found ? neap_search_iterate(s, run->iterations, &run->diags[k])
                         : neap_search_construct(s, &run->diags[k]);
}

void neap_run_take_jobs(neap_job *self, neap_team *team, unsigned member)
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
            run->status[k] =
                neap_bound_improve(run->bound, neap_run_stopped, run, &run->diags[STREAMS]);
    }
}

neap_status neap_run_round(neap_run *run, neap_diag *diag)
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
neap_status neap_run_begin_bound(neap_run *run, int64_t within, neap_diag *diag)
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

bool neap_run_fits(const neap_run *run, const search_plan *plan)
{
    return plan->found && plan->peak <= run->within;
}

bool neap_run_is_better(const neap_run *run, const search_plan *a, const search_plan *b)
{
    if (!a->found || !b->found)
        return a->found && !b->found;
    if (neap_run_fits(run, a) != neap_run_fits(run, b))
        return neap_run_fits(run, a);
    if (!neap_run_fits(run, a))
        return a->peak < b->peak;
    return a->ticks != b->ticks ? a->ticks < b->ticks : a->peak < b->peak;
}

/* Whether ops, updates excepted, run for the first time in the graph's order. */
static bool is_in_order(const neap_run *run, const compute_list *list)
{
    const problem *x = &run->x;
    uint32_t next = 0;
    memset(run->seen, 0, x->n_tasks);
    for (uint32_t i = 0; i < list->n; i++) {
        uint32_t task = list->tasks[i];
        while (next < x->n_tasks && x->is_update[next])
            next++;
        if (!run->seen[task] && !x->is_update[task] && task != next++)
            return false;
        run->seen[task] = true;
    }
    return true;
}

void neap_run_read_bound(neap_run *run)
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
neap_status neap_run_compare_streams(neap_run *run, neap_diag *diag)
{
    for (uint32_t k = 0; k < run->n_streams; k++)
        if (neap_run_is_better(run, &run->streams[k].best, &run->best)) {
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
bool neap_run_is_fast_enough(const neap_run *run, const search_plan *plan)
{
    const planner *p = run->p;
    return plan->found && p->request->target_time > 0 &&
           plan->ticks <= neap_planner_target_ticks(p);
}

/* All streams continue from the best plan. */
neap_status neap_run_continue_from_best(neap_run *run, neap_diag *diag)
{
    for (uint32_t k = 0; k < run->n_streams; k++) {
        search *s = &run->streams[k];
        NEAP_TRY(neap_search_start_from(s, &run->best, diag));
        NEAP_TRY(neap_search_plan_copy(run->allocator, &run->x, &s->best, &run->best, diag));
    }
    return NEAP_OK;
}

/* All streams continue within another budget, from the best plan if there is one. */
neap_status neap_run_move_budget(neap_run *run, int64_t within, neap_diag *diag)
{
    run->last_improved = 0;
    run->has_cut = false;
    run->cut_ticks = 0;
    NEAP_TRY(neap_run_begin_bound(run, within, diag));
    for (uint32_t k = 0; k < run->n_streams; k++)
        run->streams[k].budget = within - run->x.base_bytes;
    return run->best.found ? neap_run_continue_from_best(run, diag) : NEAP_OK;
}

/* All streams continue within another budget, but the bound remains. Without a plan, if the time
   was up before the first, they continue from where they are. */
neap_status neap_run_move_streams(neap_run *run, int64_t within, neap_diag *diag)
{
    bool down = within < run->within;
    run->within = within;
    for (uint32_t k = 0; k < run->n_streams; k++)
        run->streams[k].budget = within - run->x.base_bytes;
    return down && run->best.found ? neap_run_continue_from_best(run, diag) : NEAP_OK;
}
