/*
 * Addresses within the budget.
 *
 * A budget limits the arena. If the addresses of a plan exceed it, the method plans again with a
 * smaller budget until they fit; if that fails, the plan has no addresses.
 */
#include "base/clock.h"
#include "solve/solution_internal.h"

#include <neap/layout.h>
#include <neap/text.h>

#include <stdio.h>

neap_status neap_request_lay_out(neap_allocator *allocator, const neap_request *request,
                                 int64_t budget, neap_plan *plan, bool *fits, neap_diag *diag)
{
    neap_layout_options options;
    neap_layout_options_init(&options);
    options.alignment = request->alignment;
    options.progress = request->progress;
    options.target = budget;
    neap_status status = neap_layout_assign(allocator, request->graph, plan, &options, diag);
    *fits = status == NEAP_OK && neap_plan_arena_bytes(plan) <= neap_budget_bytes(budget);
    return status;
}

/* Cancels when the caller does, or when the time limit is over. */
typedef struct watch {
    neap_progress base;
    const planner *p;
} watch;

static bool is_over(neap_progress *self)
{
    return neap_planner_stopped(((const watch *)self)->p); /* base is its first member */
}

/* Without a budget any addresses will do, so they take no longer than the time limit. */
static neap_status lay_out(const planner *p, neap_plan *plan, bool *fits, neap_diag *diag)
{
    watch w = {{.cancelled = is_over}, p};
    neap_request request = *p->request;
    if (p->budget == INT64_MAX)
        request.progress = &w.base;
    neap_planner_report_phase(p, "assigning addresses");
    return neap_request_lay_out(p->allocator, &request, request.budget, plan, fits, diag);
}

/* One more planning, with a smaller budget. */
typedef struct attempt {
    int64_t allowed;        /* live bytes */
    const neap_plan *start; /* the plan so far, to start from */
    draft draft;
    bool found, fits; /* the plan is within `allowed`; its arena within the budget */
} attempt;

static neap_status plan_within(const planner *p, attempt *a, neap_diag *diag)
{
    neap_request request = *p->request;
    planner tighter = *p;
    tighter.budget = a->allowed;
    tighter.request = &request;
    const neap_method *method = neap_methods_find(request.method);
    if (method->takes_constraints)
        request.start = a->start;
    if (request.time_limit > 0) { /* half of the rest: another attempt may follow */
        double spent = neap_clock_seconds() - p->started;
        request.time_limit = spent + (request.time_limit - spent) / 2;
    }
    neap_draft_init(&a->draft, p->allocator);
    neap_planner_report_phase(p, "planning");
    neap_status status = method->plan(&tighter, &a->draft, diag);
    if (status != NEAP_OK || !a->draft.plan)
        return status;
    neap_verdict verdict;
    status = neap_judge_draft(p, &a->draft, &verdict, diag);
    a->found = status == NEAP_OK && verdict.peak_bytes <= a->allowed;
    return a->found ? lay_out(p, a->draft.plan, &a->fits, diag) : status;
}

/* Takes the plan of an attempt. Proofs of the first planning remain; those of an attempt hold only
   for its smaller budget. */
static void adopt(const planner *p, draft *first, attempt *a)
{
    draft d = a->draft;
    d.bound_ticks = first->bound_ticks;
    bool fastest = first->proven_optimal && p->request->objective == NEAP_LEAST_TIME;
    if (fastest && first->predicted_ticks > d.bound_ticks)
        d.bound_ticks = first->predicted_ticks;
    d.proven_optimal = false;
    d.scope = first->scope;
    d.stopped = d.stopped || first->stopped;
    neap_planner_clear_draft(p, first);
    *first = d;
}

/* The largest number of attempts. */
enum { TIGHTENINGS = 5 };

/*
 * The addresses of the first plan exceed the budget: plans again, with a budget reduced by the
 * excess, until the addresses fit. If the method has no plan that small, goes back halfway.
 */
static neap_status tighten(const planner *p, draft *first, int64_t *allowed, neap_diag *diag)
{
    int64_t most = first->predicted_peak, least = neap_graph_floor_bytes(p->graph, NULL) - 1;
    int64_t arena = neap_plan_arena_bytes(first->plan);
    neap_status status = neap_plan_set_offsets(first->plan, NULL, 0, -1, diag);
    *allowed = -1;
    for (int i = 0; status == NEAP_OK && i < TIGHTENINGS && !neap_planner_stopped(p); i++) {
        attempt a = {.allowed = most - (arena - p->budget), .start = first->plan};
        if (a.allowed <= least)
            a.allowed = least + (most - least) / 2;
        if (a.allowed <= least)
            break;
        status = plan_within(p, &a, diag);
        if (status == NEAP_OK && a.fits) {
            *allowed = a.allowed;
            adopt(p, first, &a);
            return NEAP_OK;
        }
        if (a.found) {
            most = a.draft.predicted_peak;
            arena = neap_plan_arena_bytes(a.draft.plan);
        } else {
            least = a.allowed;
        }
        neap_planner_clear_draft(p, &a.draft);
    }
    return status;
}

neap_status neap_give_addresses(const planner *p, neap_solution *solution, neap_diag *diag)
{
    draft *d = &solution->draft;
    char peak_text[32], arena_text[32], budget_text[32];
    bool fits;
    neap_status status = lay_out(p, d->plan, &fits, diag);
    if (status != NEAP_OK || fits)
        return status;
    int64_t peak = d->predicted_peak, arena = neap_plan_arena_bytes(d->plan), allowed;
    status = tighten(p, d, &allowed, diag);
    if (status != NEAP_OK)
        return status;
    neap_bytes_format(p->budget, budget_text, sizeof budget_text);
    if (allowed >= 0) {
        snprintf(solution->message, sizeof solution->message,
                 "addresses needed %.2g%% more than the live bytes: planned within %s so that the "
                 "arena fits %s",
                 100 * (double)(arena - peak) / (double)peak,
                 neap_bytes_format(allowed, peak_text, sizeof peak_text), budget_text);
        return NEAP_OK;
    }
    solution->figures.arena_bytes = arena;
    snprintf(
        solution->message, sizeof solution->message,
        "live bytes fit (%s), but the addresses found take %s: the plan goes without addresses",
        neap_bytes_format(peak, peak_text, sizeof peak_text),
        neap_bytes_format(arena, arena_text, sizeof arena_text));
    return neap_plan_set_offsets(d->plan, NULL, 0, -1, diag);
}
