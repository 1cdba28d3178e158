/*
 * linear-greedy: the forward ops that others read, as if they were a chain, in segments filled up
 * to a size, for the best of several sizes; and the fewest recomputations for them.
 */
#include "planners/checkmate/chen.h"
#include "planners/common/size_sweep.h"

static neap_status plan_linear_greedy(const planner *p, draft *d, neap_diag *diag)
{
    return neap_chen_use_greedy(p, d, EVERY_OP, diag);
}

const neap_method neap_method_linear_greedy = {
    .name = "linear-greedy",
    .summary = "forward ops, as if they were a chain, in segments of a size, the best of a sweep",
    .source = "Jain et al. 2020, Checkmate, Appendix B.2, after Chen et al. 2016",
    .n_options = 1,
    .options = neap_size_sweep_options,
    .plan = plan_linear_greedy,
};
