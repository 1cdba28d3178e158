/*
 * acg: the checkpoints with the least sum of checkpoints and largest segment, on a general graph.
 *
 * Feng and Huang, "Optimal Gradient Checkpoint Search for Arbitrary Computation Graphs" (2021).
 * Their vertices are the tensors of the forward pass; checkpoints divide it into independent
 * segments, each between two of them; what they minimize is
 *
 *     sum of the checkpoints  +  max over segments of (sum of all other tensors in the segment).
 *
 * For each candidate of the maximal term they solve the division tree of the graph: a shortest path
 * through vertices in a row, each branch by itself, all vertices of a set that is neither
 * (division.h). On the chain view, v_0 is the input and v_i the cut after stage i; acg_sets.c makes
 * the inside of each stage a closed set between its two cuts. The blocks of a ResNet are branches,
 * a U-Net is branches within a row within branches; what has no pairs of separating vertices, such
 * as a dense block, is kept whole or divided at every vertex.
 *
 *   As in the paper, a segment counts all storages its forward ops make, whether or not the
 * backward pass reads them. What is made after d_n is a segment of its own, or several. On a chain
 * whose stages make one value each this is hong-static's equation 6. The minimum is exact: it is
 * the least over all sets of checkpoints whose segments have two ends each.
 *
 *   Beyond the paper: in the fine chain view a vertex may be a set of several storages
 * (neap/chain.h), and what crosses several of these is kept throughout and counted with the input.
 * Side storages of the chain view (an attention mask) and parameters are live throughout and
 * outside the formula. An op's outputs that no forward op reads (statistics, a pool's indices) are
 * no vertices: they count with the op's segment.
 */
#include "planners/chain/acg_sets.h"

#include "base/fail.h"
#include "base/memory.h"

enum { CUTS, INSIDE };
enum { DIVIDED, WHOLE };

static const neap_option options[] = {
    [CUTS] = NEAP_CUTS_OPTION,
    [INSIDE] =
        NEAP_CHOICE_OPTION("inside", "divided|whole",
                           "whether checkpoints are also inside stages: in branches, in what "
                           "skips lead past; or every stage is one piece"),
};

/* Names are vertices: 0 .. n the cuts, n + 1 the end, the rest inside stages. */
static neap_status use_checkpoints(const planner *p, draft *d, least_peak_view *view,
                                   const acg_sets *sets, const bool *chosen, neap_diag *diag)
{
    bool *cuts, *inside;
    int64_t *list;
    size_t count = 0;
    uint32_t first = view->n + 2;
    if (!NEAP_TAKE(&view->arena, (size_t)view->n + 1, cuts) ||
        !NEAP_TAKE(&view->arena, neap_graph_value_count(p->graph), inside) ||
        !NEAP_TAKE(&view->arena, sets->n_names, list))
        return neap_fail_no_memory(diag);
    for (uint32_t i = 0; i <= view->n; i++)
        cuts[i] = i == 0 || i == view->n || chosen[i];
    for (uint32_t v = first; v < sets->n_names; v++) {
        if (!chosen[v])
            continue;
        inside[sets->storage[v]] = true;
        list[count++] = sets->storage[v];
    }
    NEAP_TRY(neap_planner_use_segments(p, d, &view->chain, cuts, inside, diag));
    NEAP_TRY(neap_planner_view_list(p, d, view, cuts, diag));
    return neap_draft_add_list(p, d, "checkpoints_inside", list, count, diag);
}

static neap_status solve(const planner *p, draft *d, least_peak_view *view, const acg_sets *sets,
                         neap_diag *diag)
{
    division_answer answer = {0};
    const division_problem problem = {.list = &sets->list,
                                      .sets = sets->sets,
                                      .n_sets = sets->n_sets,
                                      .bytes = sets->bytes,
                                      .beside = sets->beside,
                                      .n_names = sets->n_names,
                                      .fixed = view->d[0] + (view->n > 0 ? view->d[view->n] : 0)};
    if (!NEAP_TAKE(&view->arena, sets->n_names, answer.chosen))
        return neap_fail_no_memory(diag);
    NEAP_TRY(neap_division_search(&problem, &answer, p->allocator, diag));
    d->stopped = answer.stopped;
    NEAP_TRY(use_checkpoints(p, d, view, sets, answer.chosen, diag));
    return neap_draft_add_number(p, d, "objective", (double)answer.objective, diag);
}

static neap_status plan_view(const planner *p, draft *d, chain_view which, void *context,
                             neap_diag *diag)
{
    least_peak_view view;
    acg_sets sets = {0};
    (void)context;
    neap_status status = neap_planner_view_build(p, which, &view, diag);
    if (status == NEAP_OK)
        status = neap_least_peak_check(
            &(least_peak_problem){.n = view.n, .d = view.d, .inner = view.inner}, diag);
    if (status == NEAP_OK)
        status = neap_acg_sets_build(p, &view, p->options[INSIDE] == DIVIDED, &sets, diag);
    if (status == NEAP_OK)
        status = solve(p, d, &view, &sets, diag);
    neap_acg_sets_clear(&sets);
    neap_planner_view_clear(&view);
    return status;
}

static neap_status plan_acg(const planner *p, draft *d, neap_diag *diag)
{
    return neap_planner_use_views(p, d, (int)p->options[CUTS], 0, plan_view, NULL, diag);
}

const neap_method neap_method_acg = {
    .name = "acg",
    .summary = "least sum of checkpoints and largest segment, also inside branched blocks",
    .source =
        "Feng and Huang 2021, Optimal Gradient Checkpoint Search for Arbitrary Computation Graphs",
    NEAP_METHOD_OPTIONS(options),
    .plan = plan_acg,
};
