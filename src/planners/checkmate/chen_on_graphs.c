/*
 * ap-sqrt, ap-greedy, linear-sqrt, linear-greedy: Chen et al.'s two heuristics on any graph.
 *
 * Chen, Xu, Zhang and Guestrin, "Training Deep Nets with Sublinear Memory Cost" (2016), as carried
 * over by Jain et al., "Checkmate" (2020), section 6.1. The candidates for checkpoints are the
 * articulation points of the forward pass (ap-) or, as if the graph were a chain, all forward ops
 * that others read (linear-). The plan has the fewest recomputations for the chosen ones
 * (checkpoints.h). On a chain, where the candidates are the cuts of the chain view, these methods
 * choose what `sqrt` and `greedy` choose.
 */
#include "base/memory.h"
#include "planners/checkmate/checkpoints.h"
#include "planners/common/size_sweep.h"

#include <math.h>

enum { LENGTH };

static const neap_option sqrt_options[] = {
    [LENGTH] = NEAP_INTEGER_OPTION(
        "length", 0, 4294967294.0, 0,
        "candidates from one checkpoint to the next; 0 is the square root of their number"),
};

/* ---- sqrt ---- */

/* A checkpoint every `length` candidates. */
static neap_status use_sqrt(const planner *p, draft *d, candidate_rule rule, neap_diag *diag)
{
    checkpoints c;
    bool *chosen = NULL; /* from 1 */
    neap_status status = neap_checkpoints_build(p, rule, &c, diag);
    uint32_t length = (uint32_t)p->options[LENGTH];
    if (length == 0)
        length = (uint32_t)lround(sqrt((double)c.n));
    if (length == 0)
        length = 1;
    if (status == NEAP_OK)
        status = NEAP_NEW(p->allocator, (size_t)c.n + 1, &chosen, diag);
    for (uint32_t i = 1; i <= c.n && status == NEAP_OK; i++)
        chosen[i] = i % length == 0 || i == c.n;
    if (status == NEAP_OK)
        status = neap_checkpoints_lower(p, d, &c, chosen, diag);
    if (status == NEAP_OK)
        status = neap_checkpoints_report(p, d, &c, chosen, diag);
    NEAP_DELETE(p->allocator, (size_t)c.n + 1, chosen);
    neap_checkpoints_clear(&c);
    return status;
}

/* ---- greedy ---- */

static neap_status lower(void *context, const planner *p, draft *d, const bool *chosen,
                         neap_diag *diag)
{
    return neap_checkpoints_lower(p, d, context, chosen, diag);
}

/* Segments filled up to b bytes, the best of a sweep over b: without a budget the least peak,
   within one the fastest. */
static neap_status use_greedy(const planner *p, draft *d, candidate_rule rule, neap_diag *diag)
{
    checkpoints c;
    size_sweep_answer answer = {0};
    neap_status status = neap_checkpoints_build(p, rule, &c, diag);
    size_t length = (size_t)c.n + 1;
    const size_sweep_problem problem = {c.n, c.d, c.inner, &c, lower};
    if (status == NEAP_OK)
        status = NEAP_NEW(p->allocator, length, &answer.chosen, diag);
    if (status == NEAP_OK)
        status = neap_size_sweep_run(p, d, &problem, &answer, diag);
    if (status == NEAP_OK)
        status = neap_draft_add_number(p, d, "objective", answer.estimate, diag);
    if (status == NEAP_OK)
        status = neap_checkpoints_report(p, d, &c, answer.chosen, diag);
    NEAP_DELETE(p->allocator, length, answer.chosen);
    neap_checkpoints_clear(&c);
    return status;
}

/* ---- The methods ---- */

static neap_status plan_ap_sqrt(const planner *p, draft *d, neap_diag *diag)
{
    return use_sqrt(p, d, ARTICULATION_POINTS, diag);
}

const neap_method neap_method_ap_sqrt = {
    .name = "ap-sqrt",
    .summary = "a checkpoint every sqrt(k) of the k articulation points, the rest computed again",
    .source = "Jain et al. 2020, Checkmate, Appendix B.1, after Chen et al. 2016",
    .n_options = 1,
    .options = sqrt_options,
    .plan = plan_ap_sqrt,
};

static neap_status plan_ap_greedy(const planner *p, draft *d, neap_diag *diag)
{
    return use_greedy(p, d, ARTICULATION_POINTS, diag);
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

static neap_status plan_linear_sqrt(const planner *p, draft *d, neap_diag *diag)
{
    return use_sqrt(p, d, EVERY_OP, diag);
}

const neap_method neap_method_linear_sqrt = {
    .name = "linear-sqrt",
    .summary = "a checkpoint every sqrt(k) of the k forward ops, as if they were a chain",
    .source = "Jain et al. 2020, Checkmate, Appendix B.2, after Chen et al. 2016",
    .n_options = 1,
    .options = sqrt_options,
    .plan = plan_linear_sqrt,
};

static neap_status plan_linear_greedy(const planner *p, draft *d, neap_diag *diag)
{
    return use_greedy(p, d, EVERY_OP, diag);
}

const neap_method neap_method_linear_greedy = {
    .name = "linear-greedy",
    .summary = "forward ops, as if they were a chain, in segments of a size, the best of a sweep",
    .source = "Jain et al. 2020, Checkmate, Appendix B.2, after Chen et al. 2016",
    .n_options = 1,
    .options = neap_size_sweep_options,
    .plan = plan_linear_greedy,
};
