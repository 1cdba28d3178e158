#include "planners/common/incumbent.h"

#include "base/memory.h"
#include "planners/common/trim.h"

#include <string.h>

void neap_incumbent_init(incumbent *best, const planner *p)
{
    *best = (incumbent){.ticks = INT64_MAX};
    neap_arena_init(&best->draft.arena, p->allocator);
    neap_arena_init(&best->tightest.arena, p->allocator);
}

void neap_incumbent_clear(incumbent *best, const planner *p)
{
    neap_planner_clear_draft(p, &best->draft);
    neap_planner_clear_draft(p, &best->tightest);
    NEAP_DELETE(p->allocator, best->capacity, best->sequence);
    neap_incumbent_init(best, p);
}

static void replace(draft *old, draft *new)
{
    neap_plan_destroy(old->plan);
    old->plan = new->plan;
    old->predicted_peak = new->predicted_peak;
    old->predicted_ticks = new->predicted_ticks;
    new->plan = NULL;
}

neap_status neap_incumbent_offer(incumbent *best, const planner *p, const uint32_t *sequence,
                                 size_t length, bool *better, neap_diag *diag)
{
    draft offered = {0};
    if (better)
        *better = false;
    neap_status status = NEAP_RESERVE(p->allocator, length, &best->sequence, &best->capacity, diag);
    if (status == NEAP_OK)
        status = neap_planner_use_sequence(p, &offered, sequence, length, diag);
    if (status != NEAP_OK) {
        neap_plan_destroy(offered.plan);
        return status;
    }
    bool fits = offered.predicted_peak <= p->budget;
    if (fits && offered.predicted_ticks < best->ticks) {
        if (better)
            *better = true;
        best->ticks = offered.predicted_ticks;
        best->length = length;
        if (length > 0)
            memmove(best->sequence, sequence, length * sizeof *sequence);
        replace(&best->draft, &offered);
    } else if (!fits &&
               (!best->tightest.plan || offered.predicted_peak < best->tightest.predicted_peak)) {
        replace(&best->tightest, &offered);
    }
    neap_plan_destroy(offered.plan);
    return NEAP_OK;
}

neap_status neap_incumbent_offer_trimmed(incumbent *best, const planner *p,
                                         const uint32_t *sequence, size_t length, bool *better,
                                         neap_diag *diag)
{
    uint32_t *copy;
    size_t trimmed = length;
    neap_status status = NEAP_NEW(p->allocator, length, &copy, diag);
    if (status != NEAP_OK)
        return status;
    if (length > 0)
        memcpy(copy, sequence, length * sizeof *sequence);
    bool as_is = false, shorter = false;
    status = neap_trim_sequence(p->allocator, p->graph, p->budget, copy, &trimmed, diag);
    if (status == NEAP_OK && trimmed < length) /* less room may have cost it the fast variants */
        status = neap_incumbent_offer(best, p, sequence, length, &as_is, diag);
    if (status == NEAP_OK)
        status = neap_incumbent_offer(best, p, copy, trimmed, &shorter, diag);
    if (better)
        *better = as_is || shorter;
    NEAP_DELETE(p->allocator, length, copy);
    return status;
}

/* The compute steps of a plan. */
static neap_status offer_plan(incumbent *best, const planner *p, const neap_plan *plan,
                              neap_diag *diag)
{
    size_t n_steps = neap_plan_step_count(plan), length = 0;
    const neap_step *steps = neap_plan_steps(plan);
    uint32_t *sequence;
    neap_status status = NEAP_NEW(p->allocator, n_steps, &sequence, diag);
    if (status != NEAP_OK)
        return status;
    for (size_t s = 0; s < n_steps; s++)
        if (steps[s].kind == NEAP_COMPUTE)
            sequence[length++] = steps[s].id;
    status = neap_incumbent_offer_trimmed(best, p, sequence, length, NULL, diag);
    NEAP_DELETE(p->allocator, n_steps, sequence);
    return status;
}

neap_status neap_incumbent_offer_natural(incumbent *best, const planner *p, neap_diag *diag)
{
    uint32_t n = neap_graph_op_count(p->graph), *sequence;
    neap_status status = NEAP_NEW(p->allocator, n, &sequence, diag);
    if (status != NEAP_OK)
        return status;
    for (uint32_t o = 0; o < n; o++)
        sequence[o] = o;
    status = neap_incumbent_offer(best, p, sequence, n, NULL, diag);
    NEAP_DELETE(p->allocator, n, sequence);
    return status;
}

neap_status neap_incumbent_begin(incumbent *best, const planner *p, neap_diag *diag)
{
    /* Quick ones on any graph; what they find is trimmed to the budget. */
    static const char *const quick[] = {"linear-greedy", "ap-greedy", "rotor"};
    neap_status status = neap_incumbent_offer_natural(best, p, diag);
    for (size_t i = 0; i < sizeof quick / sizeof *quick && status == NEAP_OK; i++) {
        if (best->ticks <= neap_graph_least_ticks(p->graph) || neap_planner_stopped(p))
            break;
        draft found = {0};
        neap_arena_init(&found.arena, p->allocator);
        status = neap_planner_run_method(p, quick[i], &found, diag);
        if (status == NEAP_OK && found.plan)
            status = offer_plan(best, p, found.plan, diag);
        neap_planner_clear_draft(p, &found);
    }
    return status;
}

void neap_incumbent_take(incumbent *best, draft *d)
{
    if (best->draft.plan || !d->stopped)
        replace(d, best->draft.plan ? &best->draft : &best->tightest);
}
