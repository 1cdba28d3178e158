/* neap_solve: runs the method, judges its draft and assigns addresses. */
#include "base/clock.h"
#include "base/fail.h"
#include "base/memory.h"
#include "base/progress.h"
#include "solve/run_method.h"
#include "solve/solution_internal.h"

#include <neap/text.h>

#include <inttypes.h>
#include <stdio.h>

/* ---- Verification ---- */

neap_status neap_request_judge(neap_allocator *allocator, const neap_request *request,
                               const neap_plan *plan, int64_t budget, neap_verdict *verdict,
                               neap_diag *diag)
{
    neap_check_options options;
    neap_check_options_init(&options);
    options.budget = neap_budget_bytes(budget);
    options.link = &request->link;
    return neap_check(allocator, request->graph, plan, &options, verdict, diag);
}

/* Whether state is where the request wants it when the step begins and ends. State without bytes is
   anywhere. */
static bool has_state_there(const neap_request *request, const neap_plan *plan)
{
    size_t n_listed, n_on_host = 0, n_state = 0;
    const uint32_t *on_host = neap_plan_host_at_start(plan, &n_listed);
    for (size_t i = 0; i < n_listed; i++)
        n_on_host += neap_graph_value(request->graph, on_host[i])->bytes > 0;
    for (uint32_t v = 0; v < neap_graph_value_count(request->graph); v++) {
        const neap_value *value = neap_graph_value(request->graph, v);
        n_state += value->state && value->bytes > 0;
    }
    return request->state == NEAP_STATE_AUTO ||
           n_on_host == (request->state == NEAP_STATE_HOST ? n_state : 0);
}

neap_status neap_judge_draft(const planner *p, const draft *d, neap_verdict *verdict,
                             neap_diag *diag)
{
    neap_planner_report_phase(p, "checking the plan");
    neap_status status = neap_request_judge(p->allocator, p->request, d->plan, -1, verdict, diag);
    if (status != NEAP_OK)
        return status;
    if (!verdict->accepted)
        return neap_fail(diag, NEAP_INTERNAL, "method %s made a plan that the judge rejects: %s",
                         p->request->method, verdict->reason);
    if (!has_state_there(p->request, d->plan))
        return neap_fail(diag, NEAP_INTERNAL, "method %s made a plan without all state on the %s",
                         p->request->method, neap_state_place_name(p->request->state));
    if (verdict->peak_bytes != d->predicted_peak || verdict->ticks != d->predicted_ticks)
        return neap_fail(diag, NEAP_INTERNAL,
                         "method %s predicts a peak of %" PRId64 " bytes and %" PRId64
                         " ticks, the judge finds %" PRId64 " and %" PRId64,
                         p->request->method, d->predicted_peak, d->predicted_ticks,
                         verdict->peak_bytes, verdict->ticks);
    return NEAP_OK;
}

/* ---- Infeasible ---- */

/* The name of an op, truncated if it is long. */
typedef struct op_name {
    char chars[101];
} op_name;

static const char *name_op(const planner *p, uint32_t op, op_name *name)
{
    snprintf(name->chars, sizeof name->chars, "%s", neap_graph_op(p->graph, op)->name);
    neap_string_clean(name->chars);
    return name->chars;
}

static void explain_floor(const planner *p, neap_solution *solution)
{
    const neap_figures *f = &solution->figures;
    bool outputs = f->floor_op == NEAP_NONE;
    op_name name;
    char budget[32], least[32];
    bool stays =
        neap_graph_travel_floor_bytes(p->graph, NULL) < neap_request_live_floor(p->request, NULL);
    snprintf(solution->message, sizeof solution->message,
             "budget %s is below %s, which %s%s%s%s whatever is recomputed",
             neap_bytes_format(p->budget, budget, sizeof budget),
             neap_bytes_format(f->floor_bytes, least, sizeof least),
             outputs ? "the outputs need" : "op \"", outputs ? "" : name_op(p, f->floor_op, &name),
             outputs ? "" : "\" needs", stays ? " with all state on the device" : "");
}

static void explain_shortage(const planner *p, neap_solution *solution)
{
    const neap_figures *f = &solution->figures;
    const char *reason = solution->draft.reason;
    char budget[32], least[32], found[64] = "", op[128] = "";
    op_name name;
    if (f->least_budget > 0)
        snprintf(found, sizeof found, "; the least it found is %s",
                 neap_bytes_format(f->least_budget, least, sizeof least));
    if (f->least_budget > 0 && f->blocking_op != NEAP_NONE)
        snprintf(op, sizeof op, " (op \"%s\")", name_op(p, f->blocking_op, &name));
    snprintf(solution->message, sizeof solution->message, "%s%s%s has no plan within %s%s%s",
             reason ? reason : "", reason ? "; " : "", p->request->method,
             neap_bytes_format(p->budget, budget, sizeof budget), found, op);
}

/* The draft has no plan, or one that exceeds the budget; `verdict` is on that plan, or NULL. */
static neap_status set_infeasible(const planner *p, neap_solution *solution,
                                  const neap_verdict *verdict, neap_diag *diag)
{
    neap_figures *f = &solution->figures;
    draft *d = &solution->draft;
    f->outcome = NEAP_INFEASIBLE;
    if (verdict && verdict->peak_step < neap_plan_step_count(d->plan)) {
        const neap_step *step = &neap_plan_steps(d->plan)[verdict->peak_step];
        if (step->kind == NEAP_COMPUTE)
            f->blocking_op = step->id;
    } else if (d->has_blocking_op) {
        f->blocking_op = d->blocking_op;
    }
    if (verdict || d->least_budget > 0)
        NEAP_TRY(neap_find_least_budget(p, d, &f->least_budget, diag));
    explain_shortage(p, solution);
    neap_plan_destroy(d->plan);
    d->plan = NULL;
    return NEAP_OK;
}

/* ---- The call ---- */

static neap_outcome stop_reason(const planner *p)
{
    return neap_progress_is_cancelled(p->request->progress) ? NEAP_INTERRUPTED : NEAP_TIME_LIMIT;
}

/* Judges the draft and assigns addresses. */
static neap_status verify(const planner *p, neap_solution *solution, neap_keeper *kept,
                          neap_diag *diag)
{
    draft *d = &solution->draft;
    neap_figures *f = &solution->figures;
    neap_verdict verdict;
    if (d->stopped)
        f->outcome = stop_reason(p);
    if (kept->base.plan && (!d->plan || d->predicted_peak > p->budget))
        neap_adopt_kept(d, kept);
    neap_status status = d->plan ? neap_judge_draft(p, d, &verdict, diag) : NEAP_OK;
    if (status != NEAP_OK)
        return status;
    bool fits = d->plan && verdict.peak_bytes <= p->budget;
    if (fits)
        status = neap_give_addresses(p, solution, kept, diag); /* may replace the plan */
    if (fits && status == NEAP_OK)
        status = neap_judge_draft(p, d, &verdict, diag);
    if (status != NEAP_OK)
        return status;
    if (d->bound_ticks > neap_graph_least_ticks(p->graph)) {
        f->bound_time = neap_graph_seconds(p->graph, d->bound_ticks);
        f->bound_scope = d->scope;
    }
    if (fits)
        neap_solution_set_verdict(solution, &verdict);
    else if (d->plan || !d->stopped)
        status = set_infeasible(p, solution, d->plan ? &verdict : NULL, diag);
    if (fits && d->proven_optimal)
        f->outcome = NEAP_OPTIMAL;
    if (d->stopped && d->reason && !solution->message[0])
        snprintf(solution->message, sizeof solution->message, "time limit: %s", d->reason);
    return status;
}

/* The fraction of the time limit for the first planning. The rest is for addresses and, if they do
   not fit the budget, for planning again, which is quicker if it can start from the first plan.
   Addresses take so many seconds an op; half of the time at most is left for them. */
static const double FIRST_SHARE = 0.7, FIRST_SHARE_WITH_START = 0.9, LEAST_SHARE = 0.5;
/* Of a method that places its plans itself. */
static const double PLACING_SHARE = 0.95;
static const double ADDRESS_SECONDS = 1e-4;

static double planning_share(const planner *p, const neap_method *method)
{
    bool starts = method->takes_constraints && p->budget < INT64_MAX;
    double most = starts ? FIRST_SHARE_WITH_START : FIRST_SHARE;
    if (method->places_plans && p->budget < INT64_MAX)
        return PLACING_SHARE;
    double share = 1 - ADDRESS_SECONDS * neap_graph_op_count(p->graph) / p->request->time_limit;
    return share > most ? most : share > LEAST_SHARE ? share : LEAST_SHARE;
}

static neap_status plan(const planner *p, const neap_method *method, neap_solution *solution,
                        neap_diag *diag)
{
    neap_request request = *p->request;
    planner first = *p;
    neap_keeper kept;
    first.request = &request;
    if (p->budget < solution->figures.floor_bytes) {
        solution->figures.outcome = NEAP_INFEASIBLE;
        explain_floor(p, solution);
        return NEAP_OK;
    }
    neap_keeper_init(&kept, p);
    if (p->budget < INT64_MAX)
        first.trial = &kept.base;
    if (request.time_limit > 0)
        request.time_limit *= planning_share(p, method);
    neap_planner_report_phase(p, "planning");
    neap_status status = neap_run_method(&first, method, false, &solution->draft, diag);
    if (status == NEAP_OK)
        status = verify(p, solution, &kept, diag);
    neap_keeper_clear(&kept);
    return status;
}

static neap_status set_known_figures(neap_allocator *allocator, const neap_request *request,
                                     neap_figures *f, neap_diag *diag)
{
    const neap_graph *graph = request->graph;
    *f = (neap_figures){.outcome = NEAP_FEASIBLE,
                        .budget_bytes = request->budget,
                        .peak_bytes = -1,
                        .arena_bytes = -1,
                        .time = -1,
                        .base_time = neap_graph_seconds(graph, neap_graph_base_ticks(graph)),
                        .overhead = -1,
                        .bound_time = neap_graph_seconds(graph, neap_graph_least_ticks(graph)),
                        .gap = -1,
                        .least_budget = -1,
                        .blocking_op = NEAP_NONE};
    return neap_request_floor(allocator, request, &f->floor_bytes, &f->floor_op, diag);
}

/* Always reports the final state, even right after another report. */
static void report_end(const planner *p, const neap_figures *f)
{
    neap_progress *progress = p->request->progress;
    const neap_progress_event event = {.phase = "done",
                                       .fraction = 1,
                                       .seconds = f->solve_seconds,
                                       .best_time = f->time,
                                       .bound_time = f->bound_time};
    if (progress && progress->report)
        progress->report(progress, &event);
}

neap_status neap_solve(neap_allocator *allocator, const neap_request *request,
                       neap_solution **result, neap_diag *diag)
{
    allocator = neap_allocator_or_system(allocator);
    const neap_method *method;
    neap_solution *solution = NULL;
    double *options = NULL;
    *result = NULL;
    neap_status status = neap_request_check(request, &method, diag);
    if (status != NEAP_OK)
        return status;
    double reported = -1; /* not yet */
    planner p = {.allocator = allocator,
                 .reported = &reported,
                 .request = request,
                 .graph = request->graph,
                 .budget = neap_budget_bytes(request->budget),
                 .started = neap_clock_seconds()};
    status = neap_method_options(allocator, method, request->options, request->n_options, &options,
                                 diag);
    p.options = options;
    if (status == NEAP_OK)
        status = NEAP_NEW(allocator, 1, &solution, diag);
    if (status != NEAP_OK)
        goto done;
    solution->allocator = allocator;
    solution->by_peak = request->objective == NEAP_LEAST_PEAK;
    solution->live_floor = neap_request_live_floor(request, NULL);
    neap_draft_init(&solution->draft, allocator);
    status = set_known_figures(allocator, request, &solution->figures, diag);
    if (status == NEAP_OK)
        status = plan(&p, method, solution, diag);
    solution->figures.solve_seconds = neap_clock_seconds() - p.started;
    if (status == NEAP_OK)
        report_end(&p, &solution->figures);
done:
    NEAP_DELETE(allocator, method->n_options, options);
    if (status == NEAP_OK)
        *result = solution;
    else
        neap_solution_destroy(solution);
    return status;
}

neap_status neap_natural_plan(neap_allocator *allocator, const neap_graph *graph, neap_plan **plan,
                              neap_diag *diag)
{
    return neap_plan_from_sequence(neap_allocator_or_system(allocator), graph,
                                   neap_graph_ordinary_order(graph), neap_graph_op_count(graph),
                                   NULL, "natural", -1, plan, diag);
}

neap_status neap_natural_peak(neap_allocator *allocator, const neap_graph *graph, int64_t *peak,
                              neap_diag *diag)
{
    neap_plan *plan = NULL;
    neap_verdict verdict;
    allocator = neap_allocator_or_system(allocator);
    neap_status status = neap_natural_plan(allocator, graph, &plan, diag);
    if (status == NEAP_OK)
        status = neap_check(allocator, graph, plan, NULL, &verdict, diag);
    if (status == NEAP_OK && !verdict.accepted)
        status =
            neap_fail(diag, NEAP_INTERNAL, "the ordinary step is rejected: %s", verdict.reason);
    if (status == NEAP_OK)
        *peak = verdict.peak_bytes;
    neap_plan_destroy(plan);
    return status;
}
