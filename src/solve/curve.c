/*
 * neap/curve.h: one method at many budgets, monotone by construction.
 *
 * Budgets are solved in increasing order. After each solve, the plan of the previous budget
 * replaces the new one if it is better, so that each plan is the best of all smaller budgets.
 * Bounds are shared at the end.
 */
#include <neap/curve.h>

#include "base/clock.h"
#include "base/fail.h"
#include "base/memory.h"
#include "solve/part_progress.h"
#include "solve/solution_internal.h"

#include <neap/text.h>

#include <stdio.h>

typedef struct curve {
    neap_allocator *allocator;
    const neap_request *request;
    const int64_t *budgets;
    size_t n;
    size_t *order;             /* indices, from the smallest budget to the largest */
    neap_solution **solutions; /* by index */
    bool shares;               /* each solve starts from the previous plan */
    neap_verdict start;        /* on the request's own start; else not accepted */
    part_progress progress;
    double started;
} curve;

/* ---- Budgets ---- */

/* Insertion sort: budgets are mostly sorted already. */
static void sort_budgets(curve *c)
{
    for (size_t i = 0; i < c->n; i++) {
        size_t k = i;
        for (; k > 0 &&
               neap_budget_bytes(c->budgets[c->order[k - 1]]) > neap_budget_bytes(c->budgets[i]);
             k--)
            c->order[k] = c->order[k - 1];
        c->order[k] = i;
    }
}

/* "2.59 GiB" or "no budget". */
static const char *name_budget(int64_t budget, char *text, size_t capacity)
{
    if (budget < 0)
        snprintf(text, capacity, "no budget");
    else
        neap_bytes_format(budget, text, capacity);
    return text;
}

/* ---- One budget ---- */

/* The plan to start from: that of the previous budget, or the caller's if it is faster. */
static const neap_plan *choose_start(const curve *c, size_t rank)
{
    const neap_solution *before = rank > 0 ? c->solutions[c->order[rank - 1]] : NULL;
    if (!c->shares || !before || !before->draft.plan)
        return c->request->start;
    bool faster = c->start.accepted &&
                  c->start.peak_bytes <= neap_budget_bytes(c->budgets[c->order[rank]]) &&
                  c->start.time < before->figures.time;
    return faster ? c->request->start : before->draft.plan;
}

/* An equal share of the remaining time; 0: no limit. */
static double share_of_time(const curve *c, size_t rank)
{
    double limit = c->request->time_limit, least = 1e-3;
    double share = (limit - (neap_clock_seconds() - c->started)) / (double)(c->n - rank);
    return !(limit > 0) ? 0 : share > least ? share : least;
}

static neap_status solve_one(curve *c, size_t rank, neap_diag *diag)
{
    char budget[32];
    size_t index = c->order[rank];
    neap_request request = *c->request;
    request.budget = c->budgets[index];
    request.time_limit = share_of_time(c, rank);
    request.start = choose_start(c, rank);
    request.progress = &c->progress.base;
    snprintf(c->progress.part, sizeof c->progress.part, "%s%s", request.budget < 0 ? "" : "budget ",
             name_budget(request.budget, budget, sizeof budget));
    return neap_solve(c->allocator, &request, &c->solutions[index], diag);
}

/* ---- Plans of smaller budgets ---- */

static bool has_addresses(const neap_plan *plan)
{
    size_t count;
    return neap_plan_offsets(plan, &count) != NULL;
}

/* Whether a plan is better than that of a solution: any plan is better than none, then one with
   addresses, then the faster one. */
static bool is_better(const neap_plan *plan, double time, const neap_solution *than)
{
    if (!than->draft.plan)
        return true;
    if (has_addresses(plan) != has_addresses(than->draft.plan))
        return has_addresses(plan);
    return time < than->figures.time;
}

static neap_status copy_plan(const curve *c, const neap_plan *plan, int64_t budget,
                             neap_plan **copy, neap_diag *diag)
{
    size_t n_offsets, n_on_host;
    const int64_t *offsets = neap_plan_offsets(plan, &n_offsets);
    const uint32_t *on_host = neap_plan_host_at_start(plan, &n_on_host);
    neap_status status = neap_plan_create(c->allocator, neap_plan_graph_name(plan),
                                          neap_plan_method(plan), budget, copy, diag);
    for (size_t i = 0; i < neap_plan_step_count(plan) && status == NEAP_OK; i++)
        status = neap_plan_append(*copy, neap_plan_steps(plan)[i], diag);
    if (status == NEAP_OK && n_on_host > 0)
        status = neap_plan_set_host_at_start(*copy, on_host, n_on_host, diag);
    if (status == NEAP_OK && offsets)
        status =
            neap_plan_set_offsets(*copy, offsets, n_offsets, neap_plan_arena_bytes(plan), diag);
    return status;
}

/* The extras of a method describe its plan and go with it. */
static neap_status copy_extras(const curve *c, const draft *from, draft *to, neap_diag *diag)
{
    const planner p = {.allocator = c->allocator};
    neap_status status = NEAP_OK;
    for (uint32_t i = 0; i < from->n_extras && status == NEAP_OK; i++) {
        const neap_extra *extra = &from->extras[i];
        status = extra->is_list
                     ? neap_draft_add_list(&p, to, extra->name, extra->items, extra->n_items, diag)
                 : extra->is_bound
                     ? neap_draft_add_bound(&p, to, extra->name, extra->number, diag)
                     : neap_draft_add_number(&p, to, extra->name, extra->number, diag);
    }
    return status;
}

static void set_figures(const curve *c, neap_solution *to, const neap_verdict *verdict,
                        int64_t arena)
{
    const neap_graph *graph = c->request->graph;
    neap_figures *f = &to->figures;
    if (f->outcome != NEAP_TIME_LIMIT && f->outcome != NEAP_INTERRUPTED)
        f->outcome = NEAP_FEASIBLE;
    f->least_budget = -1;
    f->blocking_op = NEAP_NONE;
    f->arena_bytes = arena;              /* unless the verdict has one */
    if (verdict->time < f->bound_time) { /* the plan is not in the scope of the bound */
        f->bound_time = neap_graph_seconds(graph, neap_graph_least_ticks(graph));
        f->bound_scope = NEAP_SCOPE_ANY;
    }
    neap_solution_set_verdict(to, verdict);
}

/* Replaces the plan of a solution by `plan`, which comes from a smaller budget. */
static neap_status install(const curve *c, const neap_solution *from, neap_solution *to,
                           neap_plan *plan, neap_diag *diag)
{
    const planner p = {.allocator = c->allocator};
    neap_verdict verdict;
    draft d;
    neap_draft_init(&d, c->allocator);
    d.plan = plan;
    d.scope = from->draft.scope;
    neap_status status = copy_extras(c, &from->draft, &d, diag);
    neap_draft_take_bounds(&d, &to->draft); /* of the larger budget, where it has them */
    if (status == NEAP_OK)
        status = neap_request_judge(c->allocator, c->request, plan, to->figures.budget_bytes,
                                    &verdict, diag);
    if (status == NEAP_OK && !verdict.accepted)
        status = neap_fail(diag, NEAP_INTERNAL, "a plan is rejected for a larger budget: %s",
                           verdict.reason);
    if (status != NEAP_OK) {
        neap_planner_clear_draft(&p, &d);
        return status;
    }
    char budget[32];
    snprintf(to->message, sizeof to->message, "the plan for %s, which fits here too: %s",
             name_budget(from->figures.budget_bytes, budget, sizeof budget),
             to->draft.plan ? "this budget's own is slower" : "this budget has none of its own");
    neap_planner_clear_draft(&p, &to->draft);
    to->draft = d;
    set_figures(c, to, &verdict, from->figures.arena_bytes);
    return NEAP_OK;
}

/* Of the time for one budget, to place the plan of another. */
static const double ADDRESS_SHARE = 0.1;

/* Takes the plan of the previous budget if it is better. */
static neap_status keep_better_plan(const curve *c, size_t rank, neap_diag *diag)
{
    const neap_solution *from = rank > 0 ? c->solutions[c->order[rank - 1]] : NULL;
    neap_solution *to = c->solutions[c->order[rank]];
    if (!from || !from->draft.plan)
        return NEAP_OK;
    bool addressed = has_addresses(from->draft.plan);
    if (to->draft.plan && to->figures.time <= from->figures.time &&
        (has_addresses(to->draft.plan) || !addressed))
        return NEAP_OK;
    int64_t budget = to->figures.budget_bytes;
    neap_plan *plan = NULL;
    bool fits = true;
    neap_status status = copy_plan(c, from->draft.plan, budget, &plan, diag);
    double seconds = ADDRESS_SHARE * c->request->time_limit / (double)c->n;
    if (status == NEAP_OK && !addressed) /* the addresses may fit this budget */
        status = neap_request_lay_out(c->allocator, c->request, budget, seconds, plan, &fits, diag);
    if (status == NEAP_OK && !fits)
        status = neap_plan_set_offsets(plan, NULL, 0, -1, diag);
    if (status == NEAP_OK && is_better(plan, from->figures.time, to))
        return install(c, from, to, plan, diag);
    neap_plan_destroy(plan);
    return status;
}

/* ---- The call ---- */

static neap_status begin(curve *c, neap_diag *diag)
{
    const neap_method *method = neap_methods_find(c->request->method);
    for (size_t i = 0; i < c->n; i++)
        c->solutions[i] = NULL;
    if (c->request->objective != NEAP_LEAST_TIME)
        return neap_fail(diag, NEAP_INVALID,
                         "a curve shows the least time at each budget; it has no other objective");
    if (!(c->request->time_limit >= 0))
        return neap_fail(diag, NEAP_INVALID, "a time limit is 0 (none) or more seconds");
    neap_status status = NEAP_NEW(c->allocator, c->n, &c->order, diag);
    if (status != NEAP_OK)
        return status;
    c->started = neap_clock_seconds();
    c->shares = method && method->takes_constraints;
    neap_part_progress_init(&c->progress, c->request->progress, c->started);
    sort_budgets(c);
    if (!c->shares || !c->request->start)
        return NEAP_OK;
    return neap_request_judge(c->allocator, c->request, c->request->start, -1, &c->start, diag);
}

neap_status neap_curve_solve(neap_allocator *allocator, const neap_request *request,
                             const int64_t *budgets, size_t n, neap_solution **solutions,
                             neap_diag *diag)
{
    curve c = {.allocator = neap_allocator_or_system(allocator),
               .request = request,
               .budgets = budgets,
               .n = n,
               .solutions = solutions};
    neap_status status = begin(&c, diag);
    for (size_t rank = 0; rank < n && status == NEAP_OK; rank++) {
        status = solve_one(&c, rank, diag);
        if (status == NEAP_OK)
            status = keep_better_plan(&c, rank, diag);
    }
    if (status == NEAP_OK)
        neap_solutions_share_bounds(solutions, n);
    for (size_t i = 0; i < n && status != NEAP_OK; i++) {
        neap_solution_destroy(solutions[i]);
        solutions[i] = NULL;
    }
    NEAP_DELETE(c.allocator, n, c.order);
    return status;
}
