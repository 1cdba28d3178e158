/*
 * sqrt: a checkpoint every sqrt(n) stages.
 *
 * Chen, Xu, Zhang and Guestrin, "Training Deep Nets with Sublinear Memory Cost" (2016), section 4:
 * n layers in segments of sqrt(n) keep O(sqrt(n)) values alive at the price of about one more
 * forward pass. Here a layer is a stage of the chain view, so that it runs on any graph.
 */
#include "base/fail.h"
#include "planners/chain/least_peak.h"

#include <math.h>

enum { LENGTH, CUTS };

static const neap_option options[] = {
    [LENGTH] =
        NEAP_INTEGER_OPTION("length", 0, 4294967294.0, 0,
                            "stages between two checkpoints; 0 is the square root of their number"),
    [CUTS] = NEAP_CUTS_OPTION,
};

static neap_status plan_view(const planner *p, draft *d, chain_view which, void *context,
                             neap_diag *diag)
{
    least_peak_view view;
    bool *chosen;
    (void)context;
    neap_status status = neap_planner_view_build(p, which, &view, diag);
    uint32_t length = (uint32_t)p->options[LENGTH];
    if (length == 0)
        length = (uint32_t)lround(sqrt((double)view.n));
    if (length == 0)
        length = 1;
    if (status == NEAP_OK && !NEAP_TAKE(&view.arena, (size_t)view.n + 1, chosen))
        status = neap_fail_no_memory(diag);
    for (uint32_t i = 1; i <= view.n && status == NEAP_OK; i++)
        chosen[i] = i % length == 0 || i == view.n;
    if (status == NEAP_OK)
        status = neap_planner_use_segments(p, d, &view.chain, chosen, NULL, diag);
    if (status == NEAP_OK)
        status = neap_planner_view_list(p, d, &view, chosen, diag);
    neap_planner_view_clear(&view);
    return status;
}

static neap_status plan_sqrt(const planner *p, draft *d, neap_diag *diag)
{
    return neap_planner_use_views(p, d, (int)p->options[CUTS], 0, plan_view, NULL, diag);
}

const neap_method neap_method_sqrt = {
    .name = "sqrt",
    .summary = "a checkpoint every sqrt(n) stages, the rest computed again",
    .source = "Chen et al. 2016, Training Deep Nets with Sublinear Memory Cost",
    NEAP_METHOD_OPTIONS(options),
    .plan = plan_sqrt,
};
