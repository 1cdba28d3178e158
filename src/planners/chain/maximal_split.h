/*
 * The maximal split of a graph between two ends that is neither a chain of parts nor branches: its
 * largest proper closed subsets (division.h). Each edge belongs to one of them.
 *
 * Vertices i < j are the ends of a closed subset if some component of the rest, without i and j,
 * contains neither end of the graph. All of these have i before and j behind them, because every
 * vertex is on a path between the graph's ends. For a given i they hang at the articulation points
 * j of the graph without i, with the graph's ends joined by an edge: one depth-first search for
 * each i (Hopcroft and Tarjan) finds the largest of them. Of all that are found, a component that
 * is not inside a larger one is part of the split. Together with the edge from i to j, if there is
 * one, the components of a pair are one group. O(vertices * edges).
 */
#ifndef NEAP_PLANNERS_MAXIMAL_SPLIT_H
#define NEAP_PLANNERS_MAXIMAL_SPLIT_H

#include "planners/common/planner.h"

/* Vertices 0 .. n - 1 in topological order; 0 and n - 1 are the ends. */
typedef struct two_ends {
    uint32_t n, n_edges;
    uint32_t *from, *to; /* per edge */
} two_ends;

typedef struct maximal_split {
    uint32_t *label;   /* per edge: its group; the caller's, as are the arrays below */
    uint32_t *ends[2]; /* per group: the ends of its closed subset; room for n_edges */
    uint32_t n_groups;
    uint32_t *between; /* vertices in no closed subset's inside, without the ends; room for n */
    uint32_t n_between;
    bool stopped; /* there was no time: nothing is set */
} maximal_split;

/* `p`, polled for a request to stop, may be NULL. */
neap_status neap_maximal_split_find(neap_allocator *allocator, const planner *p,
                                    const two_ends *graph, maximal_split *result, neap_diag *diag);

#endif
