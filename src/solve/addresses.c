/*
 * Addresses within the budget.
 *
 * A budget limits the arena. Where the addresses of a plan exceed it, the method plans again within
 * fewer live bytes until they fit; if that fails, the plan goes without addresses.
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

static neap_status lay_out(const planner *p, neap_plan *plan, bool *fits, neap_diag *diag)
{
    neap_planner_report_phase(p, "assigning addresses");
    return neap_request_lay_out(p->allocator, p->request, p->request->budget, plan, fits, diag);
}

/* What one more planning, within fewer bytes, came to. */
typedef struct attempt {
    int64_t allowed;        /* live bytes */
    const neap_plan *start; /* the plan so far, to begin with */
    draft draft;
    bool found, fits; /* a plan of so few live bytes; its arena, too */
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
    if (request.time_limit > 0) { /* half of what is left: the next one may be needed, too */
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

/* Takes an attempt's plan. What was proven of the budget by the first planning stays; what was
   proven of fewer bytes says nothing about it. */
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

/* How often to plan again. */
enum { TIGHTENINGS = 5 };

/*
 * The addresses of the first plan take more than the budget: plans again, within as many bytes less
 * as were missing, until the addresses fit. Where a method has no plan that small, halfway back.
 */
static neap_status tighten(const planner *p, draft *first, int64_t *allowed, neap_diag *diag)
{
    int64_t most = first->predicted_peak, least = neap_graph_floor_bytes(p->graph, NULL) - 1;
    int64_t arena = neap_plan_arena_bytes(first->plan);
    neap_status status = neap_plan_set_offsets(first->plan, NULL, 0, -1, diag); /* no good */
    *allowed = -1;
    for (int i = 0;
         status == NEAP_OK && i < TIGHTENINGS && *allowed < 0 && !neap_planner_stopped(p); i++) {
        attempt a = {.allowed = most - (arena - p->budget), .start = first->plan};
        if (a.allowed <= least)
            a.allowed = least + (most - least) / 2;
        if (a.allowed <= least)
            break;
        status = plan_within(p, &a, diag);
        if (status == NEAP_OK && a.fits) {
            *allowed = a.allowed;
            adopt(p, first, &a);
            break;
        }
        if (a.found) {
            most = a.draft.predicted_peak;
            arena = neap_plan_arena_bytes(a.draft.plan);
        } else {
            least = a.allowed;
        }
        neap_planner_clear_draft(p, &a.draft);
        if (status != NEAP_OK)
            break;
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
