/*
 * acg: the checkpoints with the least sum of checkpoints and largest segment, on a general graph.
 *
 * Feng and Huang, "Optimal Gradient Checkpoint Search for Arbitrary Computation Graphs" (2021).
 * Their vertices are the tensors of the forward pass; checkpoints are vertices that separate it
 * into independent segments; what they minimize is
 *
 *     sum of the checkpoints  +  max over segments of (sum of all other tensors in the segment).
 *
 * For each candidate of the maximal term they build the accessibility graph, with an edge from v_i
 * to v_j if the segment between them stays within the term and the size of v_j as its weight, and
 * take the shortest path from the first vertex to the last. Here v_0 is the input, v_i the cut
 * after stage i of the chain view, and segment_term.c searches exactly without building the graph.
 *
 *   Covered: every vertex that alone separates past from future, on any graph, residual and
 * branched networks included; and, in the fine chain view, sets of vertices that do so together,
 * which divide what lies between two such vertices where that lowers the sum (neap/chain.h). As in
 * the paper, a segment counts all storages its forward ops make, those inside a stage too, whether
 * or not the backward pass reads them. What the last stage makes is a segment of its own. On a
 * chain whose stages make one value each this is hong-static's equation 6.
 *
 *   Different: the paper divides a closed set between two such vertices into its branches, or, if
 * it has none, by its maximal split, and each part has checkpoints of its own. Here a cut goes
 * through all branches at once, and what crosses several cuts is kept and counted once, with the
 * input; so the skips of a U-Net are always kept, and blocks of a few layers (ResNet, Inception)
 * are not divided. Side storages of the chain view (an attention mask) and parameters are live
 * throughout and outside the formula.
 */
#include "planners/chain/least_peak.h"

static neap_status plan_acg(const planner *p, draft *d, neap_diag *diag)
{
    return neap_planner_use_least_peak(p, d, neap_segment_term_search, diag);
}

const neap_method neap_method_acg = {
    .name = "acg",
    .summary = "least sum of checkpoints and largest segment, all values of a block counted",
    .source =
        "Feng and Huang 2021, Optimal Gradient Checkpoint Search for Arbitrary Computation Graphs",
    NEAP_METHOD_OPTIONS(neap_least_peak_options),
    .plan = plan_acg,
};
