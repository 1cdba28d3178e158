/*
 * ap-greedy: segments between articulation points of the forward pass (articulation.h), filled up
 * to a size, for the best of several sizes; and the fewest recomputations for them.
 */
#include "planners/checkmate/chen.h"
#include "planners/common/size_sweep.h"

static neap_status plan_ap_greedy(const planner *p, draft *d, neap_diag *diag)
{
    return neap_chen_use_greedy(p, d, ARTICULATION_POINTS, diag);
}

const neap_method neap_method_ap_greedy = {
    .name = "ap-greedy",
    .summary =
        "segments between articulation points filled up to a size, the best of a sweep over sizes",
    .source = "Jain et al. 2020, Checkmate, Appendix B.1, after Chen et al. 2016",
    .n_options = 1,
    .options = neap_size_sweep_options,
    .plan = plan_ap_greedy,
};
