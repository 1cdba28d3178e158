/* The best selection so far, and how it becomes a draft. */
#include "planners/offload/offload_method.h"

#include "base/fail.h"
#include "base/memory.h"
#include "planners/offload/fractional.h"

#include <neap/text.h>

#include <stdio.h>
#include <string.h>

neap_status offload_search_begin(const planner *p, offload_grain grain, offload_search *s,
                                 neap_diag *diag)
{
    *s = (offload_search){0};
    neap_status status = offload_problem_build(p, grain, &s->problem, diag);
    if (status != NEAP_OK)
        return status;
    size_t n = s->problem.n_parcels;
    int64_t paper = offload_lower_bound(&s->problem);
    int64_t fluid = offload_fractional_bound(&s->problem);
    s->bound = paper > fluid ? paper : fluid;
    neap_arena *arena = &s->problem.arena;
    s->away = neap_arena_alloc(arena, n, sizeof *s->away);
    s->best.out = neap_arena_alloc(arena, n, sizeof *s->best.out);
    s->best.in = neap_arena_alloc(arena, n, sizeof *s->best.in);
    s->best.insist = neap_arena_alloc(arena, n, sizeof *s->best.insist);
    s->absent = neap_arena_alloc(arena, (size_t)s->problem.n_ops + 1, sizeof *s->absent);
    if (!s->absent || !s->away || !s->best.out || !s->best.in || !s->best.insist)
        status = neap_fail_no_memory(diag);
    else
        status = offload_simulator_create(&s->problem, &s->simulator, diag);
    if (status == NEAP_OK && s->problem.peak <= s->problem.budget)
        offload_search_try(s); /* nothing needs to leave */
    if (status != NEAP_OK)
        offload_search_end(s);
    return status;
}

void offload_search_end(offload_search *s)
{
    offload_simulator_destroy(s->simulator);
    s->simulator = NULL;
    offload_problem_clear(&s->problem);
}

bool offload_search_needed(const offload_search *s)
{
    return s->problem.peak > s->problem.budget && s->problem.floor <= s->problem.budget;
}

void offload_set_unit(offload_search *s, uint32_t unit, bool away)
{
    for (uint32_t i = s->problem.unit_first[unit]; i < s->problem.unit_first[unit + 1]; i++)
        s->away[i] = away;
}

bool offload_search_enough(offload_search *s)
{
    const offload_problem *problem = &s->problem;
    int64_t away = 0;
    memset(s->absent, 0, ((size_t)problem->n_ops + 1) * sizeof *s->absent);
    for (uint32_t i = 0; i < problem->n_parcels; i++)
        if (s->away[i]) {
            s->absent[problem->parcels[i].left + 1] += problem->parcels[i].bytes;
            s->absent[problem->parcels[i].needed] -= problem->parcels[i].bytes;
        }
    for (uint32_t k = 0; k < problem->n_ops; k++) {
        away += s->absent[k];
        if (problem->need[k] - away > problem->budget)
            return false;
    }
    return true;
}

static bool is_better(const offload_result *a, const offload_result *b)
{
    if (!a->fits || !b->fits)
        return a->fits && !b->fits;
    return a->ticks < b->ticks || (a->ticks == b->ticks && a->host_bytes < b->host_bytes);
}

void offload_search_offer(offload_search *s, const offload_choice *choice, offload_result result)
{
    s->n_tried++;
    if (!is_better(&result, &s->result))
        return;
    s->result = result;
    s->best.n = choice->n;
    s->best.fetch_at = choice->fetch_at;
    if (choice->n > 0) {
        memmove(s->best.out, choice->out, choice->n * sizeof *choice->out);
        memmove(s->best.in, choice->in, choice->n * sizeof *choice->in);
    }
    for (uint32_t i = 0; i < s->problem.n_parcels; i++)
        s->best.insist[i] = choice->insist ? choice->insist[i] : 0;
}

offload_result offload_search_try(offload_search *s)
{
    offload_choice choice;
    offload_result result = offload_simulate_ordered(s->simulator, s->away, &choice);
    offload_search_offer(s, &choice, result);
    return result;
}

/* ---- Why there is none ---- */

/* The least budget that leaves at most the host's memory away, if that is what is short: what must
 * be away at the peak fits there. */
static int64_t least_budget(const offload_problem *problem)
{
    int64_t least = problem->floor, host = problem->link.host_memory;
    if (host > 0 && problem->peak - host > least)
        least = problem->peak - host;
    return least;
}

static neap_status explain(const offload_search *s, draft *d, neap_diag *diag)
{
    const offload_problem *problem = &s->problem;
    int64_t host = problem->link.host_memory, least = least_budget(problem);
    bool host_is_short = host > 0 && least > problem->floor;
    if (problem->budget >= problem->floor && !host_is_short && host > 0 &&
        problem->total_bytes > host)
        host_is_short = true;
    d->blocking_op = host_is_short ? problem->peak_op : problem->floor_op;
    d->has_blocking_op = true;
    if (problem->budget < problem->floor && !host_is_short) {
        d->least_budget = problem->floor;
        return NEAP_OK;
    }
    if (!host_is_short)
        return NEAP_OK; /* a selection exists, but this method does not find it */
    char away[32], limit[32], text[160];
    snprintf(text, sizeof text,
             "the host may hold %s, and at least %s must be there at this budget",
             neap_bytes_format(host, limit, sizeof limit),
             neap_bytes_format(problem->peak - problem->budget, away, sizeof away));
    d->least_budget = least;
    d->reason = neap_arena_text(&d->arena, text, strlen(text));
    return d->reason ? NEAP_OK : neap_fail_no_memory(diag);
}

/* ---- The draft ---- */

neap_status offload_search_finish(offload_search *s, draft *d, neap_diag *diag)
{
    const offload_problem *problem = &s->problem;
    const planner *p = problem->planner;
    d->stopped = s->stopped;
    d->scope = "once";
    double paper = neap_graph_seconds(p->graph, offload_lower_bound(problem));
    d->bound_ticks = s->bound;
    if (!s->result.fits)
        return s->stopped ? NEAP_OK : explain(s, d, diag);
    neap_status status = offload_use_choice(s->simulator, &s->best, d, diag);
    if (status == NEAP_OK)
        status = draft_add_number(p, d, "lower_bound", paper, diag);
    if (status == NEAP_OK)
        status = draft_add_number(p, d, "moved_tensors", s->best.n, diag);
    return status;
}
