/*
 * store-all: every op once, in the natural order; a value stays until its last use. This is what a
 * framework does without checkpointing, and the fastest plan if it fits.
 */
#include "base/fail.h"
#include "base/memory.h"
#include "planners/common/planner.h"

static neap_status plan_store_all(const planner *p, draft *d, neap_diag *diag)
{
    uint32_t n_ops = neap_graph_op_count(p->graph);
    uint32_t *sequence;
    NEAP_TRY(NEAP_NEW(p->allocator, n_ops, &sequence, diag));
    for (uint32_t o = 0; o < n_ops; o++)
        sequence[o] = o;
    neap_status status = neap_planner_use_sequence(p, d, sequence, n_ops, diag);
    NEAP_DELETE(p->allocator, n_ops, sequence);
    return status;
}

const neap_method neap_method_store_all = {
    .name = "store-all",
    .summary = "keep every value until its last use; nothing is computed twice",
    .source = "what frameworks do by default",
    .plan = plan_store_all,
};
