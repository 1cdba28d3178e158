#include "solve/run_method.h"

#include "base/checked.h"
#include "base/fail.h"
#include "base/memory.h"
#include "plan/in_place.h"
#include "solve/solution_internal.h"
#include "solve/updates_last.h"

typedef struct work {
    const planner *p;
    const neap_method *method;
    neap_bare_graph bare; /* without a graph if the method plans the whole one */
} work;

/* One run of the method. */
typedef struct attempt {
    int64_t within; /* bytes, of the method's own plan */
    int64_t gained; /* by runs in place */
    draft draft;
} attempt;

/* The largest storage that an op can take over; 0: none. */
static int64_t find_most_shared(const neap_graph *graph)
{
    int64_t most = 0;
    for (uint32_t o = 0; o < neap_graph_op_count(graph); o++) {
        if (!neap_graph_can_run_in_place(graph, o))
            continue;
        int64_t bytes = neap_graph_value(graph, neap_graph_op(graph, o)->in_place_output)->bytes;
        most = bytes > most ? bytes : most;
    }
    return most;
}

/* ---- Finishing a plan ---- */

/* The prediction becomes what the judge finds. */
static neap_status predict(const planner *p, draft *d, neap_diag *diag)
{
    neap_verdict verdict;
    NEAP_TRY(neap_request_judge(p->allocator, p->request, d->plan, -1, &verdict, diag));
    d->predicted_peak = verdict.peak_bytes;
    d->predicted_ticks = verdict.ticks;
    return neap_judge_draft(p, d, &verdict, diag);
}

static neap_status mark(const planner *p, attempt *a, neap_diag *diag)
{
    draft *d = &a->draft;
    int64_t peak = d->predicted_peak, ticks = d->predicted_ticks;
    size_t count;
    NEAP_TRY(neap_plan_run_in_place(p->allocator, p->graph, d->plan, &count, diag));
    a->gained = 0;
    if (count == 0)
        return NEAP_OK;
    NEAP_TRY(predict(p, d, diag));
    a->gained = peak - d->predicted_peak;
    if (a->gained < 0 || d->predicted_ticks != ticks)
        return neap_fail(diag, NEAP_INTERNAL, "runs in place made a plan of method %s worse",
                         p->request->method);
    return NEAP_OK;
}

/* A draft for the bare graph becomes one for the whole. Its bounds do not: updates may come early,
   which leaves more memory to the rest. */
static neap_status append_updates(const work *w, draft *d, neap_diag *diag)
{
    const planner *p = w->p;
    d->bound_ticks = -1;
    d->proven_optimal = false;
    neap_draft_drop_bounds(d);
    if (d->has_blocking_op && d->blocking_op != NEAP_NONE)
        d->blocking_op = w->bare.op[d->blocking_op];
    if (d->least_budget > 0) {
        int64_t late;
        NEAP_TRY(neap_bare_graph_late_bytes(&w->bare, p->allocator, &late, diag));
        d->least_budget = late > d->least_budget ? late : d->least_budget;
    }
    if (!d->plan)
        return NEAP_OK;
    NEAP_TRY(neap_bare_graph_append(&w->bare, p->allocator, p->budget, &d->plan, diag));
    return predict(p, d, diag);
}

/* ---- One run ---- */

/* Without runs in place. */
static neap_status run_method(const work *w, int64_t within, double time_limit, draft *d,
                              neap_diag *diag)
{
    neap_request request = *w->p->request;
    planner p = *w->p;
    neap_verdict verdict;
    request.time_limit = time_limit;
    p.request = &request;
    p.budget = within;
    if (w->bare.graph) {
        p.graph = request.graph = w->bare.graph;
        p.trial = NULL; /* it places plans for the whole graph */
        if (request.target_time > 0) {
            double left = request.target_time - w->bare.late_seconds;
            request.target_time = left > 0 ? left : 1e-15;
        }
    }
    NEAP_TRY(w->method->plan(&p, d, diag));
    if (d->plan && !p.as_part)
        NEAP_TRY(neap_judge_draft(&p, d, &verdict, diag));
    return w->bare.graph ? append_updates(w, d, diag) : NEAP_OK;
}

static neap_status run(const work *w, double time_limit, attempt *a, neap_diag *diag)
{
    NEAP_TRY(run_method(w, a->within, time_limit, &a->draft, diag));
    return a->draft.plan ? mark(w->p, a, diag) : NEAP_OK;
}

neap_status neap_planner_run_method(const planner *p, const char *name, draft *d, neap_diag *diag)
{
    planner part = *p;
    work w = {.p = &part, .method = neap_methods_find(name)};
    double *options;
    neap_status status = neap_method_options(p->allocator, w.method, NULL, 0, &options, diag);
    part.options = options;
    part.as_part = true;
    part.trial = NULL;
    if (status == NEAP_OK)
        status = neap_bare_graph_init(&w.bare, p->allocator, p->graph, diag);
    if (status == NEAP_OK)
        status = run_method(&w, p->budget, p->request->time_limit, d, diag);
    neap_bare_graph_clear(&w.bare);
    NEAP_DELETE(p->allocator, w.method->n_options, options);
    return status;
}

/* ---- More bytes for the method ---- */

/* Of the time limit, for the first run. */
static const double FIRST_SHARE = 0.6;
/* Runs after the first one. */
enum { MOST_RUNS = 4 };
/* Memory that is left over and not worth another run, as a fraction of the budget. */
static const double CLOSE = 0.001;

static bool fits(const work *w, const draft *d)
{
    return d->plan && d->predicted_peak <= w->p->budget;
}

/* Runs the method once more, and keeps the better plan. *fit: the finished plan fits. */
static neap_status try_within(const work *w, int64_t within, attempt *best, bool *fit,
                              neap_diag *diag)
{
    attempt next = {.within = within};
    neap_draft_init(&next.draft, w->p->allocator);
    neap_planner_report_phase(w->p, "planning");
    neap_status status = run(w, w->p->request->time_limit, &next, diag);
    *fit = status == NEAP_OK && fits(w, &next.draft);
    if (*fit &&
        (!fits(w, &best->draft) || next.draft.predicted_ticks < best->draft.predicted_ticks)) {
        attempt old = *best;
        *best = next;
        next = old;
    }
    best->draft.stopped = best->draft.stopped || next.draft.stopped;
    neap_planner_clear_draft(w->p, &next.draft);
    return status;
}

/* The method has no plan within the budget. Of one that needs more, runs in place may save enough:
   the least that it has, then others, up to what runs in place can save at all. */
static neap_status find_fit(const work *w, int64_t most, attempt *best, int *runs, neap_diag *diag)
{
    const draft *d = &best->draft;
    int64_t least = d->plan ? d->predicted_peak + best->gained : d->least_budget;
    int64_t next = d->plan || least <= 0 ? most : least;
    int64_t low = least > 0 ? least : w->p->budget, high = most;
    bool fit = false;
    while (least <= most && *runs > 0 && !fit && next >= low && !neap_planner_stopped(w->p)) {
        --*runs;
        NEAP_TRY(try_within(w, next, best, &fit, diag));
        if (next == least && high > next) {
            next = high;
        } else {
            high = next - 1;
            next = low + (high - low) / 2;
        }
    }
    return NEAP_OK;
}

/* A plan fits, and runs in place leave memory that the method may use, too. */
static neap_status use_more(const work *w, int64_t most, attempt *best, int runs, neap_diag *diag)
{
    const draft *d = &best->draft;
    int64_t low = best->within, high = INT64_MAX;
    for (; runs > 0 && !neap_planner_stopped(w->p); runs--) {
        int64_t left = w->p->budget - d->predicted_peak,
                next = low < most - left ? low + left : most;
        bool fit;
        if (next >= high)
            next = low + (high - low) / 2;
        if (best->gained <= 0 || (double)left <= CLOSE * (double)w->p->budget || next <= low ||
            d->predicted_ticks <= neap_graph_least_ticks(w->p->graph))
            break;
        NEAP_TRY(try_within(w, next, best, &fit, diag));
        *(fit ? &low : &high) = next;
    }
    return NEAP_OK;
}

/* ---- The call ---- */

/* What a run proves holds for the finished plans only if each of them, with its runs out of place,
   is within the bytes of that run. */
static void limit_bounds(int64_t most, attempt *a)
{
    if (a->within >= most)
        return;
    a->draft.bound_ticks = -1;
    a->draft.proven_optimal = false;
    neap_draft_drop_bounds(&a->draft);
}

neap_status neap_run_method(const planner *p, const neap_method *method, bool once, draft *d,
                            neap_diag *diag)
{
    work w = {.p = p, .method = method};
    attempt a = {.within = p->budget, .draft = *d};
    double limit = p->request->time_limit;
    int64_t shared = 0, most;
    int runs = MOST_RUNS;
    neap_status status = NEAP_OK;
    if (!method->takes_constraints) {
        shared = find_most_shared(p->graph);
        status = neap_bare_graph_init(&w.bare, p->allocator, p->graph, diag);
    }
    if (!neap_add_i64(p->budget, shared, &most))
        most = INT64_MAX;
    bool again = !once && shared > 0 && p->budget < INT64_MAX;
    if (again && limit > 0)
        limit -= (1 - FIRST_SHARE) * neap_planner_seconds_left(p);
    if (status == NEAP_OK)
        status = run(&w, limit, &a, diag);
    if (again && status == NEAP_OK && !fits(&w, &a.draft))
        status = find_fit(&w, most, &a, &runs, diag);
    if (again && status == NEAP_OK && fits(&w, &a.draft))
        status = use_more(&w, most, &a, runs, diag);
    else if (again && neap_planner_stopped(p))
        a.draft.stopped = true; /* with more time there may be a plan */
    if (status == NEAP_OK)
        limit_bounds(most, &a);
    neap_bare_graph_clear(&w.bare);
    *d = a.draft;
    return status;
}
