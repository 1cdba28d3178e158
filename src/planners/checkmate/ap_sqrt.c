/*
 * ap-sqrt: a checkpoint every sqrt(k) of the k articulation points of the forward pass
 * (articulation.h), and the fewest recomputations for them.
 */
#include "planners/checkmate/chen.h"

static neap_status plan_ap_sqrt(const planner *p, draft *d, neap_diag *diag)
{
    return neap_chen_use_sqrt(p, d, ARTICULATION_POINTS, diag);
}

const neap_method neap_method_ap_sqrt = {
    .name = "ap-sqrt",
    .summary = "a checkpoint every sqrt(k) of the k articulation points, the rest computed again",
    .source = "Jain et al. 2020, Checkmate, Appendix B.1, after Chen et al. 2016",
    .n_options = 1,
    .options = neap_chen_sqrt_options,
    .plan = plan_ap_sqrt,
};
