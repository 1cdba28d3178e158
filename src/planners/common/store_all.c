/*
 * store-all: the ordinary step. Every op once, in the natural order with updates last; a value
 * stays until its last use. This is what a framework does without checkpointing, and the fastest
 * plan if it fits.
 */
#include "planners/common/planner.h"

static neap_status plan_store_all(const planner *p, draft *d, neap_diag *diag)
{
    return neap_planner_use_sequence(p, d, neap_graph_ordinary_order(p->graph),
                                     neap_graph_op_count(p->graph), diag);
}

const neap_method neap_method_store_all = {
    .name = "store-all",
    .summary = "keep every value until its last use; nothing is computed twice",
    .source = "what frameworks do by default",
    .plan = plan_store_all,
};
