/* neap_solution: its contents, and bounds that several solutions share. */
#include "base/memory.h"
#include "solve/solution_internal.h"

const char *neap_outcome_name(neap_outcome outcome)
{
    static const char *const names[] = {"optimal", "feasible", "infeasible", "time_limit",
                                        "interrupted"};
    return (size_t)outcome < 5 ? names[outcome] : "unknown";
}

/* ---- Drafts ---- */

void neap_draft_init(draft *d, neap_allocator *allocator)
{
    *d = (draft){.bound_ticks = -1, .least_budget = -1};
    neap_arena_init(&d->arena, allocator);
}

void neap_planner_clear_draft(const planner *p, draft *d)
{
    neap_plan_destroy(d->plan);
    d->plan = NULL;
    NEAP_DELETE(p->allocator, d->extra_capacity, d->extras);
    d->extras = NULL;
    d->extra_capacity = d->n_extras = 0;
    neap_arena_clear(&d->arena);
}

/* ---- Figures ---- */

/* A plan that meets its bound is the fastest. */
static void set_gap(neap_solution *solution)
{
    neap_figures *f = &solution->figures;
    f->gap = f->bound_time > 0 ? f->time / f->bound_time - 1 : 0;
    bool best =
        solution->by_peak ? f->peak_bytes <= solution->live_floor : f->time <= f->bound_time;
    if (best)
        f->outcome = NEAP_OPTIMAL;
}

void neap_solution_set_verdict(neap_solution *solution, const neap_verdict *verdict)
{
    neap_figures *f = &solution->figures;
    f->peak_bytes = verdict->peak_bytes;
    if (verdict->has_arena)
        f->arena_bytes = verdict->arena_bytes;
    f->time = verdict->time;
    f->overhead = f->base_time > 0 ? f->time / f->base_time - 1 : 0;
    f->recomputed_ops = verdict->recomputed_ops;
    f->offloaded_bytes = verdict->offloaded_bytes;
    set_gap(solution);
}

static void raise_bound(neap_solution *solution, const neap_figures *other)
{
    neap_figures *f = &solution->figures;
    bool has_plan = solution->draft.plan != NULL;
    if (neap_budget_bytes(other->budget_bytes) < neap_budget_bytes(f->budget_bytes) ||
        !neap_scope_covers(other->bound_scope, solution->draft.scope))
        return;
    if (other->bound_time <= f->bound_time || (has_plan && f->time < other->bound_time))
        return; /* not better, or the plan is not in the scope of the other bound */
    f->bound_time = other->bound_time;
    f->bound_scope = other->bound_scope;
    if (has_plan)
        set_gap(solution);
}

void neap_solutions_share_bounds(neap_solution *const *solutions, size_t count)
{
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < count; k++)
            if (solutions[i] && solutions[k])
                raise_bound(solutions[i], &solutions[k]->figures);
}

/* ---- The solution ---- */

void neap_solution_destroy(neap_solution *solution)
{
    if (!solution)
        return;
    const planner p = {.allocator = solution->allocator};
    neap_planner_clear_draft(&p, &solution->draft);
    NEAP_DELETE(p.allocator, 1, solution);
}

const neap_figures *neap_solution_figures(const neap_solution *solution)
{
    return &solution->figures;
}

const neap_plan *neap_solution_plan(const neap_solution *solution)
{
    return solution->draft.plan;
}

uint32_t neap_solution_extra_count(const neap_solution *solution)
{
    return solution->draft.n_extras;
}

const neap_extra *neap_solution_extra_at(const neap_solution *solution, uint32_t index)
{
    return index < solution->draft.n_extras ? &solution->draft.extras[index] : NULL;
}

const char *neap_solution_shortage(const neap_solution *solution)
{
    return solution->draft.reason ? solution->draft.reason : "";
}

const char *neap_solution_message(const neap_solution *solution)
{
    return solution->message;
}
