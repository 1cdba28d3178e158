/* What the least-peak methods share: sizes in, sizes from a graph, checkpoints out. */
#include "planners/chain/least_peak.h"

#include "base/checked.h"
#include "base/fail.h"
#include "base/memory.h"
#include "planners/chain/segments.h"

#include <inttypes.h>

neap_status neap_least_peak_check(const least_peak_problem *problem, neap_diag *diag)
{
    int64_t sum = 0;
    uint32_t n = problem->n;
    for (uint32_t i = 0; i <= n; i++)
        if (problem->d[i] < 0 || !neap_add_i64(sum, problem->d[i], &sum))
            return neap_fail(diag, NEAP_INVALID,
                             "size %" PRIu32 " of the chain, %" PRId64
                             " bytes, is negative or takes their sum past 63 bits",
                             i, problem->d[i]);
    for (size_t i = 0; problem->inner && i <= (size_t)n + 1; i++)
        if (problem->inner[i] < 0 || !neap_add_i64(sum, problem->inner[i], &sum))
            return neap_fail(diag, NEAP_INVALID,
                             "inside layer %zu of the chain, %" PRId64
                             " bytes are negative or take the sum past 63 bits",
                             i, problem->inner[i]);
    return NEAP_OK;
}

/* ---- The view ---- */

/* Adds each storage that forward ops make to its stage, unless it is the stage's cut or carried
 * along. */
static void add_inner(const planner *p, least_peak_view *view)
{
    const neap_chain *chain = &view->chain;
    for (uint32_t s = 0; s < chain->n_stages; s++) {
        const neap_stage *stage = &chain->stages[s];
        for (uint32_t o = stage->first_op; o < stage->end_op; o++) {
            const neap_op *op = neap_graph_op(p->graph, o);
            for (uint32_t i = 0; i < op->n_outputs; i++) {
                uint32_t v = op->outputs[i];
                if (v != stage->cut && !chain->is_side[v])
                    view->inner[s + 1] += neap_graph_value(p->graph, v)->bytes; /* 0 for a view */
            }
        }
    }
}

neap_status neap_planner_view_build(const planner *p, least_peak_view *view, neap_diag *diag)
{
    *view = (least_peak_view){0};
    neap_status status = neap_chain_build(p->allocator, p->graph, &view->chain, diag);
    if (status != NEAP_OK)
        return status;
    view->n = view->chain.n_stages ? view->chain.n_stages - 1 : 0;
    status = NEAP_NEW(p->allocator, (size_t)view->n + 1, &view->d, diag);
    if (status == NEAP_OK)
        status = NEAP_NEW(p->allocator, (size_t)view->n + 2, &view->inner, diag);
    if (status != NEAP_OK) {
        neap_planner_view_clear(p, view);
        return status;
    }
    view->d[0] = view->chain.input_bytes;
    for (uint32_t i = 1; i <= view->n; i++)
        view->d[i] = view->chain.stages[i - 1].output_bytes;
    add_inner(p, view);
    return NEAP_OK;
}

void neap_planner_view_clear(const planner *p, least_peak_view *view)
{
    NEAP_DELETE(p->allocator, (size_t)view->n + 1, view->d);
    NEAP_DELETE(p->allocator, (size_t)view->n + 2, view->inner);
    neap_chain_clear(&view->chain);
    *view = (least_peak_view){0};
}

neap_status neap_planner_view_lower(const planner *p, draft *d, const least_peak_view *view,
                                    const bool *chosen, neap_diag *diag)
{
    bool *checkpoint = NULL; /* per stage */
    neap_status status = NEAP_NEW(p->allocator, view->chain.n_stages, &checkpoint, diag);
    for (uint32_t i = 1; status == NEAP_OK && i <= view->n; i++)
        checkpoint[i - 1] = chosen[i];
    if (status == NEAP_OK)
        status = neap_planner_use_segments(p, d, &view->chain, checkpoint, diag);
    NEAP_DELETE(p->allocator, view->chain.n_stages, checkpoint);
    return status;
}

neap_status neap_planner_view_report(const planner *p, draft *d, const least_peak_view *view,
                                     const bool *chosen, double objective, neap_diag *diag)
{
    int64_t *list = NULL;
    size_t count = 0;
    neap_status status = NEAP_NEW(p->allocator, view->n, &list, diag);
    for (uint32_t i = 1; status == NEAP_OK && i <= view->n; i++)
        if (chosen[i])
            list[count++] = i;
    if (status == NEAP_OK)
        status = neap_draft_add_number(p, d, "objective", objective, diag);
    if (status == NEAP_OK)
        status = neap_draft_add_list(p, d, "checkpoints", list, count, diag);
    NEAP_DELETE(p->allocator, view->n, list);
    return status;
}

neap_status neap_planner_use_least_peak(const planner *p, draft *d, least_peak_solver *solve,
                                        neap_diag *diag)
{
    least_peak_view view = {0};
    least_peak_answer answer = {0};
    neap_status status = neap_planner_view_build(p, &view, diag);
    if (status != NEAP_OK)
        return status;
    const least_peak_problem problem = {
        .allocator = p->allocator, .planner = p, .n = view.n, .d = view.d, .inner = view.inner};
    status = NEAP_NEW(p->allocator, (size_t)view.n + 1, &answer.chosen, diag);
    if (status == NEAP_OK)
        status = solve(&problem, &answer, diag);
    if (status == NEAP_OK)
        status = neap_planner_view_lower(p, d, &view, answer.chosen, diag);
    if (status == NEAP_OK)
        status =
            neap_planner_view_report(p, d, &view, answer.chosen, (double)answer.objective, diag);
    d->stopped = answer.stopped;
    NEAP_DELETE(p->allocator, (size_t)view.n + 1, answer.chosen);
    neap_planner_view_clear(p, &view);
    return status;
}
