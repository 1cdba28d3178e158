/* What the least-peak methods share. */
#include "planners/chain/least_peak.h"

#include "base/checked.h"
#include "base/fail.h"
#include "base/memory.h"

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

void neap_least_peak_follow(const uint32_t *next, uint32_t n, least_peak_answer *answer)
{
    for (uint32_t i = 0, at = 0; i <= n; i++) {
        answer->chosen[i] = i == at;
        if (i == at)
            at = next[i];
    }
}

/* ---- The view ---- */

/* Adds each storage that forward ops make to its stage, except the cut and side storages. */
static void add_inner(const planner *p, least_peak_view *view)
{
    const neap_chain *chain = &view->chain;
    for (uint32_t s = 0; s < chain->n_stages; s++) {
        const neap_stage *stage = &chain->stages[s];
        for (uint32_t o = stage->first_op; o < stage->end_op; o++) {
            const neap_op *op = neap_graph_op(p->graph, o);
            for (uint32_t i = 0; i < op->n_outputs; i++) {
                uint32_t v = op->outputs[i];
                if (!neap_stage_cuts(stage, v) && !chain->is_side[v] && !chain->is_carried[v])
                    view->inner[s + 1] += neap_graph_value(p->graph, v)->bytes; /* 0 for a view */
            }
        }
    }
}

neap_status neap_planner_view_build(const planner *p, chain_view which, least_peak_view *view,
                                    neap_diag *diag)
{
    *view = (least_peak_view){0};
    neap_arena_init(&view->arena, p->allocator);
    NEAP_TRY(neap_chain_view_build(p, which, &view->chain, diag));
    view->n = view->chain.n_stages ? view->chain.n_stages - 1 : 0;
    if (!NEAP_TAKE(&view->arena, (size_t)view->n + 1, view->d) ||
        !NEAP_TAKE(&view->arena, (size_t)view->n + 2, view->inner))
        return neap_fail_no_memory(diag);
    view->d[0] = view->chain.input_bytes + view->chain.carried_bytes;
    for (uint32_t i = 1; i <= view->n; i++)
        view->d[i] = view->chain.stages[i - 1].output_bytes;
    add_inner(p, view);
    return NEAP_OK;
}

void neap_planner_view_clear(least_peak_view *view)
{
    neap_arena_clear(&view->arena);
    neap_chain_clear(&view->chain);
}

neap_status neap_planner_view_list(const planner *p, draft *d, const least_peak_view *view,
                                   const bool *chosen, neap_diag *diag)
{
    int64_t *list;
    size_t count = 0;
    NEAP_TRY(NEAP_NEW(p->allocator, view->n, &list, diag));
    for (uint32_t i = 1; i <= view->n; i++)
        if (chosen[i])
            list[count++] = i;
    neap_status status = neap_draft_add_list(p, d, "checkpoints", list, count, diag);
    NEAP_DELETE(p->allocator, view->n, list);
    return status;
}

static neap_status use_solver(const planner *p, draft *d, least_peak_view *view,
                              least_peak_solver *solve, neap_diag *diag)
{
    least_peak_answer answer = {0};
    const least_peak_problem problem = {
        .allocator = p->allocator, .planner = p, .n = view->n, .d = view->d, .inner = view->inner};
    if (!NEAP_TAKE(&view->arena, (size_t)view->n + 1, answer.chosen))
        return neap_fail_no_memory(diag);
    NEAP_TRY(solve(&problem, &answer, diag));
    d->stopped = answer.stopped;
    NEAP_TRY(neap_planner_use_segments(p, d, &view->chain, answer.chosen, NULL, diag));
    NEAP_TRY(neap_draft_add_number(p, d, "objective", (double)answer.objective, diag));
    return neap_planner_view_list(p, d, view, answer.chosen, diag);
}

const neap_option neap_least_peak_options[] = {NEAP_CUTS_OPTION};

static neap_status plan_view(const planner *p, draft *d, chain_view which, void *context,
                             neap_diag *diag)
{
    least_peak_view view;
    least_peak_solver **solve = context;
    neap_status status = neap_planner_view_build(p, which, &view, diag);
    if (status == NEAP_OK)
        status = use_solver(p, d, &view, *solve, diag);
    neap_planner_view_clear(&view);
    return status;
}

neap_status neap_planner_use_least_peak(const planner *p, draft *d, least_peak_solver *solve,
                                        neap_diag *diag)
{
    return neap_planner_use_views(p, d, (int)p->options[0], 0, plan_view, &solve, diag);
}
