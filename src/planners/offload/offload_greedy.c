/*
 * offload-greedy: the first activations leave, as many as the peak exceeds the budget.
 *
 * Beaumont, Eyraud-Dubois and Shilova, "Optimal GPU-CPU Offloading Strategies for Deep Neural
 * Network Training" (2020), section 4: Theorem 2's optimum of the fractional relaxation
 * (fractional.h), rounded up to whole activations, and their no-wait, ordered schedule. The
 * relaxation's own optimum is reported as `fractional_time`.
 */
#include "base/fail.h"
#include "planners/offload/fractional.h"
#include "planners/offload/offload_method.h"

enum { GRAIN };

static const neap_option options[] = {[GRAIN] = OFFLOAD_GRAIN_OPTION};

/* If the graph is not a chain, the first units need not be away at its peak: more are added until
 * it fits. */
static void choose_first_units(offload_search *s)
{
    int64_t excess = s->problem.peak - s->problem.budget, away = 0;
    for (uint32_t u = 0; u < s->problem.n_units; u++) {
        neap_offload_set_unit(s, u, true);
        away += s->problem.units[u].bytes;
        if (away >= excess && neap_offload_search_try(s).fits)
            return;
    }
}

static neap_status plan_offload_greedy(const planner *p, draft *d, neap_diag *diag)
{
    offload_search s;
    NEAP_TRY(neap_offload_search_begin(p, (offload_grain)p->options[GRAIN], &s, diag));
    if (neap_offload_search_needed(&s))
        choose_first_units(&s);
    neap_status status = neap_offload_search_finish(&s, d, diag);
    double ticks = neap_offload_fractional_ticks(&s.problem);
    if (status == NEAP_OK && ticks >= 0)
        status = neap_draft_add_bound(p, d, "fractional_time",
                                      ticks / (double)neap_graph_ticks_per_second(p->graph), diag);
    neap_offload_search_end(&s);
    return status;
}

const neap_method neap_method_offload_greedy = {
    .name = "offload-greedy",
    .summary = "move the first activations to the host, as many as the peak exceeds the budget",
    .source = "Beaumont, Eyraud-Dubois and Shilova 2020, Theorem 2",
    NEAP_METHOD_OPTIONS(options),
    .needs_link = true,
    .part_of = "offload",
    .plan = plan_offload_greedy,
};
