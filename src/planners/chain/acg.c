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
 * behind stage i of the chain view, and segment_term.c does the search, exactly, without building
 * the graph: its edges are windows.
 *
 *   Covered: every vertex that alone separates past from future, on any graph, residual and
 * branched networks included. A segment counts all storages its forward ops make, each once: those
 * inside a stage as well, whether the backward pass reads them or not, as the paper does. What the
 * last stage makes behind the last cut is a segment of its own. On a chain whose stages make one
 * value each this is hong-static's equation 6.
 *
 *   Not covered: the inside of a stage. The paper also divides a branched closed set between two
 * such vertices into its branches, and one that cannot be divided by its maximal split, and puts
 * checkpoints there; here a stage is kept or computed again as a whole, so that a network whose
 * skips leave few cuts (U-Net) has few choices. Side storages of the chain view (an attention mask)
 * are held throughout and stand outside the formula, as do parameters.
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
    .plan = plan_acg,
};
