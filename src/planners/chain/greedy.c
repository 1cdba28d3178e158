/*
 * greedy: segments filled up to a budget each, for the best of several budgets.
 *
 * Chen, Xu, Zhang and Guestrin, "Training Deep Nets with Sublinear Memory Cost" (2016), Algorithm
 * 3: walk forward, add up what is made, and set a checkpoint at the first candidate where the sum
 * exceeds b. Candidates are the cuts of the chain view; all storages count, those inside a stage
 * too. x is the sum of the checkpoints, y the largest segment, and x + y their estimate of the
 * peak.
 *
 * The sweep over b is search/size_sweep.h's.
 *
 * A departure: y also counts the stretch behind the last checkpoint, which Algorithm 3 forgets (a b
 * larger than the network would look free).
 */
#include "planners/chain/least_peak.h"

#include "base/memory.h"
#include "planners/search/size_sweep.h"

void neap_greedy_split(uint32_t n, const int64_t *d, const int64_t *inner, int64_t budget,
                       bool *chosen, int64_t *stored, int64_t *largest)
{
    int64_t x = 0, y = 0, temp = 0; /* as in the paper; no sum exceeds that of all sizes */
    for (uint32_t i = 1; i <= n; i++) {
        temp += d[i] + (inner ? inner[i] : 0);
        y = temp > y ? temp : y;
        chosen[i] = temp > budget;
        if (chosen[i]) {
            x += d[i];
            temp = 0;
        }
    }
    temp += inner ? inner[n + 1] : 0;
    *stored = x;
    *largest = temp > y ? temp : y;
    chosen[0] = chosen[n] = true; /* by convention; 0 has been there, and n is in use at the turn */
}

static neap_status lower(void *context, const planner *p, draft *d, const bool *chosen,
                         neap_diag *diag)
{
    return planner_view_lower(p, d, context, chosen, diag);
}

static neap_status plan_greedy(const planner *p, draft *d, neap_diag *diag)
{
    least_peak_view view;
    size_sweep_answer answer = {0};
    neap_status status = planner_view_build(p, &view, diag);
    if (status != NEAP_OK)
        return status;
    size_t length = (size_t)view.n + 1;
    const least_peak_problem sizes = {.n = view.n, .d = view.d, .inner = view.inner};
    const size_sweep_problem problem = {view.n, view.d, view.inner, &view, lower};
    status = neap_least_peak_check(&sizes, diag);
    if (status == NEAP_OK)
        status = NEAP_NEW(p->allocator, length, &answer.chosen, diag);
    if (status == NEAP_OK)
        status = size_sweep_run(p, d, &problem, &answer, diag);
    if (status == NEAP_OK)
        status = planner_view_report(p, d, &view, answer.chosen, answer.estimate, diag);
    NEAP_DELETE(p->allocator, length, answer.chosen);
    planner_view_clear(p, &view);
    return status;
}

const neap_method method_greedy = {
    .name = "greedy",
    .summary = "segments filled up to a size, the best of a sweep over sizes",
    .source = "Chen et al. 2016, Training Deep Nets with Sublinear Memory Cost, Algorithm 3",
    .n_options = 1,
    .options = size_sweep_options,
    .plan = plan_greedy,
};
