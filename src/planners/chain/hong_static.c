/*
 * hong-static: the checkpoints with the least sum of checkpoints and largest segment.
 *
 * Hong, Tsai, Wang, Liu and Wu, "GPU Memory Usage Optimization for Backward Propagation in Deep
 * Network Training", section 3: Algorithm 3 for the checkpoint selection problem, equation 6,
 *
 *     sum of d_i over C  +  max over segments of (sum of d_j in the segment),
 *
 * where C holds the checkpoints, 0 and n included, and a segment is what is strictly between two of
 * them. The formula assumes that checkpoints stay to the end and that gradients take nothing;
 * `hong` is a better model. The minimum is exact; segment_term.c avoids most of the O(n^2) segment
 * sizes that the paper tries.
 */
#include "planners/chain/least_peak.h"

neap_status neap_hong_static(const least_peak_problem *problem, least_peak_answer *answer,
                             neap_diag *diag)
{
    least_peak_problem plain = *problem;
    plain.inner = NULL;
    return neap_segment_term_search(&plain, answer, diag);
}

static neap_status plan_hong_static(const planner *p, draft *d, neap_diag *diag)
{
    return neap_planner_use_least_peak(p, d, neap_hong_static, diag);
}

const neap_method neap_method_hong_static = {
    .name = "hong-static",
    .summary = "least sum of checkpoints and largest segment, exact",
    .source = "Hong et al., GPU Memory Usage Optimization for Backward Propagation, Algorithm 3",
    NEAP_METHOD_OPTIONS(neap_least_peak_options),
    .plan = plan_hong_static,
};
