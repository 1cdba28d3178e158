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
#include "base/fail.h"
#include "base/team.h"
#include "planners/neap/neap_run.h"

/* A plan within this fraction of the bound ends the search. */
static const double CLOSE = 1e-5;

enum { EXHAUSTIVELY, BY_SEARCH }; /* the values of SMALL_GRAPHS */

static const neap_option options[] = {
    [EFFORT] = NEAP_INTEGER_OPTION("effort", 1, 1e6, 40,
                                   "rounds at most, without a time limit; stops after a third of "
                                   "them without improvement"),
    [SMALL_GRAPHS] = NEAP_CHOICE_OPTION("small-graphs", "exhaustive|search",
                                        "look at all plans of a graph that has few, or search as "
                                        "in a large one"),
};

/* Close to the bound, or as good as requested. The bound for all plans counts: a plan that is the
   best in the graph's order may be beaten in another order. */
static bool is_good_enough(const neap_run *run)
{
    double ticks = (double)run->best.ticks, gap = run->p->request->gap;
    return neap_run_fits(run, &run->best) &&
           (ticks <= (double)run->any_ticks * (1 + CLOSE) ||
            (gap > 0 && ticks <= (double)run->bound_ticks * (1 + gap)) ||
            neap_run_is_fast_enough(run, &run->best));
}

/* No plan fits, and the best plan has the least possible peak. */
static bool is_hopeless(const neap_run *run)
{
    return run->p->budget < run->floor && run->best.found && run->best.peak <= run->floor;
}

/* For the bound's thread, which works on whatever the rounds do. */
static bool is_over(void *context)
{
    const neap_run *run = context;
    return neap_planner_stopped(run->p);
}

static neap_status search_rounds(neap_run *run, neap_diag *diag)
{
    const neap_request *request = run->p->request;
    uint32_t rounds = (uint32_t)run->p->options[EFFORT];
    bool two_threads = request->time_limit > 0 && neap_team_size(request->threads, 2) > 1;
    neap_run_limit_first_rounds(run);
    for (run->round = 0; run->round <= rounds; run->round++) {
        NEAP_TRY(neap_run_round(run, diag));
        NEAP_TRY(neap_run_compare_streams(run, diag));
        neap_run_read_bound(run);
        if (neap_run_ends_first_rounds(run)) {
            NEAP_TRY(neap_run_anneal_if_wide(run, diag));
            if (!run->annealed && !neap_run_fits(run, &run->best) && neap_run_can_approach(run))
                NEAP_TRY(neap_run_approach(run, run->p->budget, diag));
        }
        if (is_good_enough(run) || is_hopeless(run) || neap_planner_stopped(run->p))
            break;
        bool has_plan = neap_run_fits(run, &run->best),
             limited = request->time_limit > 0 && has_plan;
        neap_planner_report_search(run->p, has_plan ? run->best.ticks : -1, run->bound_ticks);
        /* Until the time limit; if nothing fits, no longer than without a limit. */
        if (!limited && run->round > run->last_improved + rounds / 3 && !run->bounding)
            break;
        if (limited)
            rounds = UINT32_MAX - 1;
        NEAP_TRY(neap_run_look_at_addresses(run, diag));
        if (run->round == 0 && two_threads && run->bounding)
            run->has_thread = neap_bound_start_thread(run->bound, is_over, run);
    }
    NEAP_TRY(neap_bound_end_thread(run->bound, diag));
    neap_run_read_bound(run);
    return NEAP_OK;
}

/* ---- Small graphs ---- */

/* All plans are known, so the search could find none that is better. */
static bool is_solved(const neap_run *run)
{
    return run->small.complete && !run->link;
}

/* The pins of a request are not known there, nor state on the host. */
static neap_status look_at_all_plans(neap_run *run, neap_diag *diag)
{
    const neap_request *request = run->p->request;
    bool wanted = run->p->options[SMALL_GRAPHS] == EXHAUSTIVELY && request->n_pins == 0 &&
                  request->state != NEAP_STATE_HOST;
    return wanted ? neap_small_graph_plan(run->p, &run->small, diag) : NEAP_OK;
}

/* ---- The method ---- */

static neap_status begin(neap_run *run, neap_diag *diag)
{
    const planner *p = run->p;
    const neap_link *link = &p->request->link;
    problem *x = &run->x;
    run->link = link->out_bandwidth > 0 && link->in_bandwidth > 0 ? link : NULL;
    run->floor = neap_request_live_floor(p->request, NULL);
    NEAP_TRY(neap_problem_init(x, run->allocator, p->request, diag));
    NEAP_TRY(neap_problem_let_state_travel(x, p->request, diag));
    if (!neap_run_seeks_peak(run) && p->budget >= run->floor)
        neap_problem_forget_variants(x, p->budget);
    NEAP_TRY(neap_start_plan_read(&run->start, run->allocator, x, p->request, diag));
    NEAP_TRY(neap_run_begin_bound(run, p->budget, diag));
    neap_run_begin_trials(run);
    if (!NEAP_TAKE(&x->arena, x->n_tensors, run->cut.fates) ||
        !NEAP_TAKE(&x->arena, x->n_tensors, run->cut.loose) ||
        !NEAP_TAKE(&x->arena, x->n_tasks, run->seen))
        return neap_fail_no_memory(diag);
    run->iterations = 20 + 100000 / (x->n_tasks + 100);
    return NEAP_OK;
}

static neap_status begin_streams(neap_run *run, neap_diag *diag)
{
    const planner *p = run->p;
    /* Few long streams are better than many short ones, but threads should not idle. */
    bool limited = p->request->time_limit > 0;
    run->n_streams = limited && neap_team_size(p->request->threads, STREAMS) < 3 ? 2 : STREAMS;
    /* If no plan can fit, the search minimizes the peak. */
    bool down = neap_run_seeks_peak(run) || p->budget < run->floor;
    int64_t budget = down ? run->floor : p->budget;
    for (uint32_t k = 0; k < run->n_streams; k++) {
        search *s = &run->streams[k];
        NEAP_TRY(neap_search_init(s, run->allocator, &run->x, budget, run->link,
                                  p->request->seed * STREAMS + k, diag));
        neap_search_set_stop(s, neap_run_stopped, run);
        s->restarts = k >= run->n_streams / 2;
        s->n_restarts = k > 0; /* noise from the start */
    }
    return NEAP_OK;
}

static neap_status find_plan(neap_run *run, draft *d, neap_diag *diag)
{
    NEAP_TRY(begin(run, diag));
    NEAP_TRY(look_at_all_plans(run, diag));
    if (is_solved(run))
        return neap_run_write_small_draft(run, d, diag);
    NEAP_TRY(neap_run_begin_linearly(run, diag));
    if (neap_run_ends_after_linear_work(run)) {
        NEAP_TRY(neap_run_bound_largest(run, diag));
        return neap_run_write_draft(run, d, diag);
    }
    NEAP_TRY(begin_streams(run, diag));
    if (neap_run_seeks_peak(run))
        NEAP_TRY(neap_run_least_peak(run, diag));
    if (!neap_run_seeks_peak(run) || !neap_run_is_fast_enough(run, &run->best))
        NEAP_TRY(search_rounds(run, diag));
    NEAP_TRY(neap_run_place_offload(run, diag));
    return neap_run_write_draft(run, d, diag);
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
        run->job.run = neap_run_take_jobs;
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
