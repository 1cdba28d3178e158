/* The best selection so far, and how it becomes a draft. */
#include "planners/offload/offload_method.h"

#include "base/fail.h"
#include "planners/offload/fractional.h"

#include <neap/text.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

neap_status neap_offload_search_begin(const planner *p, offload_grain grain, offload_search *s,
                                      neap_diag *diag)
{
    *s = (offload_search){0};
    NEAP_TRY(neap_offload_problem_build(p, grain, &s->problem, diag));
    neap_arena *arena = &s->problem.arena;
    uint32_t n_units = s->problem.n_units;
    int64_t paper = neap_offload_lower_bound(&s->problem);
    int64_t fluid = neap_offload_fractional_bound(&s->problem);
    s->bound = paper > fluid ? paper : fluid;
    bool taken = NEAP_TAKE(arena, s->problem.n_parcels, s->away) &&
                 NEAP_TAKE(arena, (size_t)s->problem.n_ops + 1, s->absent) &&
                 NEAP_TAKE(arena, n_units, s->by_size);
    neap_status status =
        taken ? neap_offload_choice_take(&s->problem, &s->best, diag) : neap_fail_no_memory(diag);
    if (status == NEAP_OK)
        status = neap_offload_simulator_create(&s->problem, &s->simulator, diag);
    if (status != NEAP_OK) {
        neap_offload_search_end(s);
        return status;
    }
    for (uint32_t u = 0; u < n_units; u++)
        s->by_size[u] = (ranked){(double)s->problem.units[u].bytes, u};
    if (n_units > 0)
        qsort(s->by_size, n_units, sizeof *s->by_size, neap_ranked_down);
    if (s->problem.peak <= s->problem.budget)
        neap_offload_search_try(s); /* nothing needs to leave */
    return NEAP_OK;
}

void neap_offload_search_end(offload_search *s)
{
    neap_offload_simulator_destroy(s->simulator);
    s->simulator = NULL;
    neap_offload_problem_clear(&s->problem);
}

bool neap_offload_search_needed(const offload_search *s)
{
    return s->problem.peak > s->problem.budget && s->problem.floor <= s->problem.budget;
}

void neap_offload_set_unit(offload_search *s, uint32_t unit, bool away)
{
    for (uint32_t i = s->problem.units[unit].first; i < s->problem.units[unit + 1].first; i++)
        s->away[i] = away;
}

uint32_t neap_offload_search_short(offload_search *s)
{
    const offload_problem *problem = &s->problem;
    neap_offload_sum_away(problem, s->away, s->absent);
    for (uint32_t k = 0; k < problem->n_ops; k++)
        if (problem->need[k] - s->absent[k] > problem->budget)
            return k;
    return NEAP_NONE;
}

static bool is_better(const offload_result *a, const offload_result *b)
{
    if (!a->fits || !b->fits)
        return a->fits && !b->fits;
    return a->ticks < b->ticks || (a->ticks == b->ticks && a->host_bytes < b->host_bytes);
}

void neap_offload_search_offer(offload_search *s, const offload_choice *choice,
                               offload_result result)
{
    s->n_tried++;
    if ((s->never_waits && result.memory_waits > 0) || !is_better(&result, &s->result))
        return;
    s->result = result;
    s->best.fetch_at = choice->fetch_at;
    neap_offload_choice_copy(&s->problem, &s->best, choice);
}

offload_result neap_offload_search_try(offload_search *s)
{
    offload_choice choice;
    offload_result result = neap_offload_simulate_ordered(s->simulator, s->away, &choice);
    neap_offload_search_offer(s, &choice, result);
    return result;
}

/* ---- The smallest selection ---- */

bool neap_offload_add_unit(const offload_problem *problem, uint32_t unit, int64_t sign,
                           int64_t *bytes)
{
    bool enough = true;
    for (uint32_t i = problem->units[unit].first; i < problem->units[unit + 1].first; i++) {
        const parcel *x = &problem->parcels[i];
        for (uint32_t k = x->left + 1; k < x->needed; k++) {
            bytes[k] += sign * x->bytes;
            enough &= bytes[k] >= 0;
        }
    }
    return enough;
}

bool neap_offload_cover(offload_search *s, int64_t budget)
{
    const offload_problem *problem = &s->problem;
    int64_t *spare = s->absent;
    bool enough = true;
    for (uint32_t k = 0; k < problem->n_ops; k++)
        spare[k] = budget - problem->need[k];
    for (uint32_t u = 0; u < problem->n_units; u++) {
        neap_offload_set_unit(s, u, true);
        neap_offload_add_unit(problem, u, 1, spare);
    }
    for (uint32_t k = 0; k < problem->n_ops; k++)
        enough &= spare[k] >= 0;
    for (uint32_t r = 0; r < problem->n_units && enough; r++) {
        uint32_t unit = s->by_size[r].item;
        if (neap_offload_add_unit(problem, unit, -1, spare))
            neap_offload_set_unit(s, unit, false);
        else
            neap_offload_add_unit(problem, unit, 1, spare);
    }
    return enough;
}

/* ---- Why there is no plan ---- */

static int64_t bytes_away(const offload_search *s)
{
    int64_t bytes = 0;
    for (uint32_t i = 0; i < s->problem.n_parcels; i++)
        bytes += s->away[i] ? s->problem.parcels[i].bytes : 0;
    return bytes;
}

/* The least budget for which a selection is found that the host can hold, by bisection. */
static int64_t least_for_host(offload_search *s)
{
    int64_t low = s->problem.floor - 1, high = s->problem.peak;
    while (high - low > 1) {
        int64_t middle = low + (high - low) / 2;
        bool enough = neap_offload_cover(s, middle) && bytes_away(s) <= s->problem.link.host_memory;
        *(enough ? &high : &low) = middle;
    }
    return high;
}

static neap_status explain(offload_search *s, draft *d, neap_diag *diag)
{
    const offload_problem *problem = &s->problem;
    bool limited = problem->link.host_memory > 0;
    d->has_blocking_op = true;
    d->blocking_op = problem->floor_op;
    if (problem->budget < problem->floor || limited)
        d->least_budget = limited ? least_for_host(s) : problem->floor;
    if (!limited || problem->budget < problem->floor)
        return NEAP_OK;
    char away[32], limit[32], text[160];
    d->blocking_op = problem->peak_op;
    neap_offload_cover(s, problem->budget);
    snprintf(text, sizeof text, "the host may hold %s, and in this budget %s must go there",
             neap_bytes_format(problem->link.host_memory, limit, sizeof limit),
             neap_bytes_format(bytes_away(s), away, sizeof away));
    d->reason = neap_arena_text(&d->arena, text, strlen(text));
    return d->reason ? NEAP_OK : neap_fail_no_memory(diag);
}

/* ---- The draft ---- */

neap_status neap_offload_search_finish(offload_search *s, draft *d, neap_diag *diag)
{
    const offload_problem *problem = &s->problem;
    const planner *p = problem->planner;
    double paper = neap_graph_seconds(p->graph, neap_offload_lower_bound(problem));
    d->stopped = s->stopped;
    d->scope = NEAP_SCOPE_ONCE;
    d->bound_ticks = s->bound;
    /* A method's own selection may be too large for the host. */
    if (!s->result.fits && neap_offload_search_needed(s) && problem->link.host_memory > 0 &&
        neap_offload_cover(s, problem->budget))
        neap_offload_search_try(s);
    if (!s->result.fits)
        return s->stopped ? NEAP_OK : explain(s, d, diag);
    NEAP_TRY(neap_offload_use_choice(s->simulator, &s->best, d, diag));
    NEAP_TRY(neap_draft_add_bound(p, d, "lower_bound", paper, diag));
    return neap_draft_add_number(p, d, "moved_tensors", s->best.n, diag);
}
