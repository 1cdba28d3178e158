/*
 * Articulation points of the forward pass: where a graph that is no chain can still be cut.
 *
 * The undirected data-flow graph has the forward ops and the storages they make as vertices, and an
 * edge where an op reads or makes a value on a storage. Storages, not values, for a view shares its
 * storage's fate; ops are vertices of their own so that what an op saves beside its output (a mask,
 * statistics) hangs on the op and makes no point of what the op reads.
 */
#ifndef NEAP_PLANNERS_ARTICULATION_H
#define NEAP_PLANNERS_ARTICULATION_H

#include <neap/chain.h>

/*
 * Sets is_point[v], one a value of the graph, for each storage v that is an articulation point
 * between the op that makes it and the end: without v, no path leads from its maker to the last op
 * of the connected component. Other articulation points, such as the neck of a branch that only the
 * backward pass looks at, separate nothing that recomputation could skip.
 *
 * Storages that the chain view carries along (chain->is_side: inputs, an attention mask) are no
 * part of the graph, which may therefore have several components.
 *
 * Time and memory O(ops + values + reads).
 */
neap_status neap_articulation_find(neap_allocator *allocator, const neap_graph *graph,
                                   const neap_chain *chain, bool *is_point, neap_diag *diag);

#endif
