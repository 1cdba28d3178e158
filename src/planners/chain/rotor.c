/*
 * rotor: the optimal persistent schedule of a heterogeneous chain, memory in slots.
 *
 * Herrmann, Beaumont, Eyraud-Dubois, Hermann, Joly and Shilova, "Optimal checkpointing for
 * heterogeneous chains: how to train deep neural networks with limited memory" (2019): a dynamic
 * program over (first stage, last stage, memory) with three kinds of forward step: forward (keep
 * only the output), checkpoint (keep the input) and save (keep what the backward needs). Memory is
 * divided into equal slots, 500 by default as in the paper, and sizes are rounded up. Departures:
 * gradients of parameters count as they accumulate, workspaces count, and the table is pruned
 * (slot_table.c).
 */
#include "planners/chain/slot_table.h"

enum { SLOTS, CUTS };

static const neap_option options[] = {
    [SLOTS] = NEAP_INTEGER_OPTION(
        "slots", 1, 1e8, 500,
        "equal parts that the budget is cut into; more are slower and closer to the optimum"),
    [CUTS] = NEAP_CUTS_OPTION,
};

static neap_status find_schedule(const planner *p, draft *d, const stage_costs *costs,
                                 int64_t memory, schedule *s, bool *found, neap_diag *diag)
{
    int64_t slots = (int64_t)p->options[SLOTS];
    int64_t slot_bytes = memory / slots > 0 ? memory / slots : 1;
    return neap_slot_table_find(p, d, costs, slot_bytes, memory / slot_bytes, s, found, diag);
}

static neap_status plan_rotor(const planner *p, draft *d, neap_diag *diag)
{
    return neap_planner_use_finder(p, d, (int)p->options[CUTS], CHAIN_MOST_SLOTTED, find_schedule,
                                   diag);
}

const neap_method neap_method_rotor = {
    .name = "rotor",
    .summary =
        "least time for a chain in the budget, memory in slots; any number of recomputations",
    .source = "Herrmann et al. 2019, Optimal checkpointing for heterogeneous chains",
    NEAP_METHOD_OPTIONS(options),
    .plan = plan_rotor,
};
