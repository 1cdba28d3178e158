/*
 * neap/split.h - large values in pieces.
 *
 * A plan keeps or moves a value as a whole. On a slow link that is coarse: half of a large
 * activation would often be enough. neap_graph_split makes a graph in which every large value is
 * several smaller ones, its *pieces*. The op that makes the value makes all its pieces, and an op
 * that reads it reads all of them, so the graph computes the same; but each piece is offloaded,
 * prefetched and freed by itself. Planners, judge and layout need not know: the graph is an
 * ordinary one.
 *
 *     neap_graph_split(&graph, 64 << 20, &diag);      pieces of 64 MiB at most
 *     ... neap_solve, neap_check, neap_layout_assign ...
 *     neap_runner_create(NULL, graph, plan, ...);
 *
 * The graph remembers the one that it was made from, the *whole* graph, because kernels work on
 * whole values: the executor shows them the pieces of a value as one array, wherever they lie
 * (neap/run.h).
 *
 * Costs are those of the whole graph when it was split: apply or measure them before.
 */
#ifndef NEAP_SPLIT_H
#define NEAP_SPLIT_H

#include <neap/graph.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The most pieces that a graph is split into. */
#define NEAP_MOST_PIECES (1 << 20)

/*
 * Replaces *graph by one in which every storage of more than `bytes` bytes is in pieces of at most
 * `bytes`, except for those of inputs and outputs, which seldom move; the new graph owns the old
 * one. If there is no such storage, *graph stays as it is.
 *
 * All pieces of a value have exactly `bytes` bytes, except for the last, which has the rest: memory
 * that one piece leaves is then just right for the next. They are named "h[0]", "h[1]", ... and
 * have no type or shape. A view of a value in pieces is in pieces, too, each a view of one piece;
 * an op that only makes such views, in no time, becomes one op for each piece. An in_place mark of
 * a value in pieces is dropped. The graph's name becomes "name, split N".
 *
 * NEAP_INVALID if `bytes` is below 1, the graph is split already, or there would be more than
 * NEAP_MOST_PIECES; *graph is then unchanged.
 */
NEAP_API neap_status neap_graph_split(neap_graph **graph, int64_t bytes, neap_diag *diag);
/* The inverse: replaces a split graph by the whole one. Other graphs stay as they are. */
NEAP_API void neap_graph_join(neap_graph **graph);

/* The graph that this one was made from; a graph that was not split is its own. */
NEAP_API const neap_graph *neap_graph_whole(const neap_graph *graph);
/* The op of the whole graph that an op stands for, and the value that a value is a piece of. */
NEAP_API uint32_t neap_graph_whole_op(const neap_graph *graph, uint32_t op);
NEAP_API uint32_t neap_graph_whole_value(const neap_graph *graph, uint32_t value);
/* The first piece of a value of the whole graph; the others, *count in all, follow it in order. */
NEAP_API uint32_t neap_graph_pieces(const neap_graph *graph, uint32_t whole_value, uint32_t *count);

#ifdef __cplusplus
}
#endif
#endif
