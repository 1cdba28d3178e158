/*
 * linear-sqrt: a checkpoint every sqrt(k) of the k forward ops that others read, as if they were a
 * chain, and the fewest recomputations for them.
 */
#include "planners/checkmate/chen.h"

static neap_status plan_linear_sqrt(const planner *p, draft *d, neap_diag *diag)
{
    return neap_chen_use_sqrt(p, d, EVERY_OP, diag);
}

const neap_method neap_method_linear_sqrt = {
    .name = "linear-sqrt",
    .summary = "a checkpoint every sqrt(k) of the k forward ops, as if they were a chain",
    .source = "Jain et al. 2020, Checkmate, Appendix B.2, after Chen et al. 2016",
    .n_options = 1,
    .options = neap_chen_sqrt_options,
    .plan = plan_linear_sqrt,
};
