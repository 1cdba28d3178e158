/*
 * greedy: segments filled up to a budget each, for the best of several budgets.
 *
 * Chen, Xu, Zhang and Guestrin, "Training Deep Nets with Sublinear Memory Cost" (2016). Algorithm 3
 * and the sweep over b around it are in size_sweep.c. Candidates are the cuts of the chain view;
 * all storages count, including those inside a stage.
 */
#include "planners/chain/least_peak.h"

#include "base/fail.h"
#include "planners/common/size_sweep.h"

enum { POINTS, CUTS };

static const neap_option options[] = {
    [POINTS] = NEAP_SIZE_SWEEP_OPTION,
    [CUTS] = NEAP_CUTS_OPTION,
};

static neap_status lower(void *context, const planner *p, draft *d, const bool *chosen,
                         neap_diag *diag)
{
    return neap_planner_use_segments(p, d, context, chosen, NULL, diag);
}

static neap_status sweep(const planner *p, draft *d, least_peak_view *view, neap_diag *diag)
{
    size_sweep_answer answer = {0};
    const least_peak_problem sizes = {.n = view->n, .d = view->d, .inner = view->inner};
    const size_sweep_problem problem = {view->n, view->d, view->inner, &view->chain, lower};
    NEAP_TRY(neap_least_peak_check(&sizes, diag));
    if (!NEAP_TAKE(&view->arena, (size_t)view->n + 1, answer.chosen))
        return neap_fail_no_memory(diag);
    NEAP_TRY(neap_size_sweep_run(p, d, &problem, &answer, diag));
    NEAP_TRY(neap_draft_add_number(p, d, "objective", answer.estimate, diag));
    return neap_planner_view_list(p, d, view, answer.chosen, diag);
}

static neap_status plan_view(const planner *p, draft *d, chain_view which, void *context,
                             neap_diag *diag)
{
    least_peak_view view;
    (void)context;
    neap_status status = neap_planner_view_build(p, which, &view, diag);
    if (status == NEAP_OK)
        status = sweep(p, d, &view, diag);
    neap_planner_view_clear(&view);
    return status;
}

static neap_status plan_greedy(const planner *p, draft *d, neap_diag *diag)
{
    return neap_planner_use_views(p, d, (int)p->options[CUTS], 0, plan_view, NULL, diag);
}

const neap_method neap_method_greedy = {
    .name = "greedy",
    .summary = "segments filled up to a size, the best of a sweep over sizes",
    .source = "Chen et al. 2016, Training Deep Nets with Sublinear Memory Cost, Algorithm 3",
    NEAP_METHOD_OPTIONS(options),
    .plan = plan_greedy,
};
