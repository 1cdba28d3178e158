/*
 * precise: least time for a chain in a budget, with per-layer costs and memory in buckets of a
 * chosen size.
 *
 * Butt, "Precise Optimal Checkpointing for Memory-Efficient Deep Learning" (MEng thesis, Imperial
 * College London, 2019), Algorithm 3.4 with its misprints corrected: the compute cost of one layer
 * is alpha^b; the running sum in the quadratic fall-back (which the recursion contains as the
 * choice k = j-1); the forward tensor beta^f_k; the left subproblem B[i][k]. The thesis checkpoints
 * only the tensors between layers. Here the backward of a stage may also need values made inside
 * it; those are recomputed or saved with it (`save` in schedule.h), whichever is better. This
 * changes nothing on the thesis's own chains, whose backward reads only the layer's input.
 */
#include "planners/chain/slot_table.h"

enum { BUCKET, CUTS };

static const neap_option options[] = {
    [BUCKET] = NEAP_INTEGER_OPTION("bucket", 0, 9007199254740992.0, 0,
                                   "bytes in a bucket; 0 divides the budget into 1000"),
    [CUTS] = NEAP_CUTS_OPTION,
};

static neap_status find_schedule(const planner *p, draft *d, const stage_costs *costs,
                                 int64_t memory, schedule *s, bool *found, neap_diag *diag)
{
    int64_t bucket = (int64_t)p->options[BUCKET];
    if (bucket == 0)
        bucket = memory / 1000 + 1;
    return neap_slot_table_find(p, d, costs, bucket, memory / bucket, s, found, diag);
}

static neap_status plan_precise(const planner *p, draft *d, neap_diag *diag)
{
    return neap_planner_use_finder(p, d, (int)p->options[CUTS], CHAIN_MOST_SLOTTED, find_schedule,
                                   diag);
}

const neap_method neap_method_precise = {
    .name = "precise",
    .summary = "least time for a chain in the budget, per-layer costs, memory in buckets of bytes",
    .source = "Butt, Precise Optimal Checkpointing for Memory-Efficient Deep Learning, 2019",
    NEAP_METHOD_OPTIONS(options),
    .plan = plan_precise,
};
