/*
 * offload: the best of all offloading methods, improved.
 *
 * Problem 1 is strongly NP-hard (Beaumont et al. 2020, Theorem 1), but a schedule is simulated in
 * the time it takes to read it. So the selections of the paper's methods are starting points, and
 * a local search over selections and orders goes on from the best (offload_improve.h). It stops
 * when the lower bound is reached.
 */
#include "base/fail.h"
#include "planners/offload/fractional.h"
#include "planners/offload/fractional_communications.h"
#include "planners/offload/offload_improve.h"

enum { CANDIDATES };

static const neap_option options[] = {
    [CANDIDATES] = {.name = "candidates",
                    .meaning = "schedules that the local search looks at; 0 chooses by the graph's "
                               "size, for half a second or less",
                    .type = NEAP_OPTION_INTEGER,
                    .least = 0,
                    .most = 1e12,
                    .default_value = 0},
};

/* The first units, as few as do. */
static void try_first(offload_search *s)
{
    int64_t excess = s->problem.peak - s->problem.budget, away = 0;
    for (uint32_t u = 0; u < s->problem.n_units; u++) {
        offload_set_unit(s, u, true);
        away += s->problem.parcels[u].bytes;
        if (away >= excess && offload_search_try(s).fits)
            return;
    }
}

static neap_status try_dynamic_program(offload_search *s, neap_diag *diag)
{
    communications_options how = {.slots = 500, .most_states = 1000};
    communications_answer answer;
    bool *away = neap_arena_alloc(&s->problem.arena, s->problem.n_units, sizeof *away);
    if (!away)
        return neap_fail_no_memory(diag);
    neap_status status = fractional_communications_solve(&s->problem, &how, away, &answer, diag);
    if (status == NEAP_OK && answer.found) {
        for (uint32_t u = 0; u < s->problem.n_units; u++)
            offload_set_unit(s, u, away[u]);
        offload_search_try(s);
    }
    return status;
}

static uint64_t default_candidates(const offload_problem *problem)
{
    uint64_t by_size = 30000000 / (problem->n_ops + 20 * (uint64_t)problem->n_parcels + 1);
    return by_size < 20000 ? by_size : 20000;
}

static neap_status plan_offload(const planner *p, draft *d, neap_diag *diag)
{
    offload_search s;
    neap_status status = offload_search_begin(p, OFFLOAD_STORAGES, &s, diag);
    if (status != NEAP_OK)
        return status;
    if (offload_search_needed(&s)) {
        uint64_t candidates = p->options[CANDIDATES] > 0 ? (uint64_t)p->options[CANDIDATES]
                                                         : default_candidates(&s.problem);
        try_first(&s);
        status = try_dynamic_program(&s, diag);
        if (status == NEAP_OK)
            status = offload_improve(&s, candidates, diag);
    }
    if (status == NEAP_OK)
        status = offload_search_finish(&s, d, diag);
    if (status == NEAP_OK)
        status = draft_add_number(p, d, "candidates", (double)s.n_tried, diag);
    offload_search_end(&s);
    return status;
}

const neap_method method_offload = {
    .name = "offload",
    .summary = "the best of the offloading methods, improved by local search on the schedule",
    .source = "neap, after Beaumont, Eyraud-Dubois and Shilova 2020",
    .n_options = sizeof options / sizeof *options,
    .options = options,
    .needs_link = true,
    .plan = plan_offload,
};
