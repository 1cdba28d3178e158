/*
 * Dividing a graph at its pairs of vertices, as Feng and Huang do ("Optimal Gradient Checkpoint
 * Search for Arbitrary Computation Graphs", 2021), and the best checkpoints for such a division.
 *
 * A *closed set* is a part of a directed acyclic graph between two vertices, its source and its
 * target, whose other vertices have no edge to the rest of the graph. If both ends are kept, the
 * inside can be computed again without anything else. There are three ways to divide one into
 * smaller ones, tried in this order:
 *
 *   linear    some vertices lie on every path from source to target; they divide it into a chain
 *   branches  it falls apart without its two ends; the branches share nothing but these
 *   split     neither: its largest closed subsets, single edges among them, divide the edges (the
 *             paper's maximal split)
 *
 * Each part is divided again, until single edges are left. This is the decomposition of a graph by
 * its separation pairs (the S, P and R nodes of an SPQR tree), with source and target joined.
 */
#ifndef NEAP_PLANNERS_DIVISION_H
#define NEAP_PLANNERS_DIVISION_H

#include "planners/common/planner.h"

typedef struct division_edge {
    uint32_t from, to; /* from < to */
    int64_t bytes;     /* made on the way and kept with the segment: what is no vertex */
} division_edge;

typedef struct closed_set {
    uint32_t n; /* vertices, numbered in topological order: 0 the source, n - 1 the target; each on
                   a path from source to target */
    const uint32_t *names;      /* n: what the division calls them */
    const division_edge *edges; /* each pair once */
    uint32_t n_edges;
} closed_set;

typedef enum division_kind {
    DIVISION_WHOLE, /* a single edge, or more than can be divided */
    DIVISION_LINEAR,
    DIVISION_BRANCHES,
    DIVISION_SPLIT
} division_kind;

typedef struct division division;
struct division {
    division_kind kind;
    uint32_t source, target;  /* names, as are all vertices below */
    const uint32_t *vertices; /* inside, between the parts: of LINEAR in order, one less than parts;
                                 of SPLIT all that the parts have in common, without the ends */
    uint32_t n_vertices;
    division **parts; /* of LINEAR in order */
    uint32_t n_parts;
    int64_t total;           /* bytes strictly between source and target */
    int64_t stored, largest; /* for the term being tried: checkpoints inside, largest segment */
};

/* All divisions that were built, children before parents. Everything belongs to the arena. */
typedef struct division_list {
    neap_arena *arena;
    const planner *planner; /* polled for a request to stop; NULL: never */
    const int64_t *weight;  /* per name: what a segment with this vertex inside holds for it */
    division **items;
    size_t count, capacity;
    bool stopped; /* something was left whole because there was no time to split it */
} division_list;

/*
 * Divides a closed set and appends all divisions to the list. O(edges) a level, and O(vertices *
 * edges) for a split; a set with too many of both for that, or nested too deeply, is left whole.
 */
neap_status neap_division_build(division_list *list, const closed_set *set, division **result,
                                neap_diag *diag);
/* Appends a division that the caller has put together. */
neap_status neap_division_add(division_list *list, division *item, neap_diag *diag);
/* Releases the list itself. */
void neap_division_clear(division_list *list);

typedef struct division_problem {
    const division_list *list;
    division *const *sets; /* whose ends are checkpoints in any case */
    uint32_t n_sets;
    const int64_t *bytes; /* per name: as a checkpoint; at most its weight. Their sums fit 63 bits
                           */
    const int64_t
        *beside; /* per name: the rest of its weight, a segment of its own if it is kept */
    uint32_t n_names;
    int64_t fixed; /* checkpoints in any case: part of the objective */
} division_problem;

typedef struct division_answer {
    bool *chosen;      /* per name, the caller's, all false: the checkpoints inside the sets */
    int64_t objective; /* fixed + chosen + the largest segment */
    bool stopped;      /* `chosen` is valid but perhaps not the best */
    uint32_t terms;    /* tried */
} division_answer;

/*
 * The checkpoints with the least sum of checkpoints and largest segment, such that every segment
 * between them is a closed set. If no segment may exceed a term s, a set of at most s is one
 * segment. Of a larger one that is LINEAR a shortest path chooses the checkpoints, the ends of
 * parts that exceed s among them; BRANCHES fall apart by themselves; of a SPLIT every vertex
 * between the parts is one. Parts that exceed s are divided in the same way. The sweep over s is
 * that of segment_term.c, and each s takes linear time.
 */
neap_status neap_division_search(const division_problem *problem, division_answer *answer,
                                 neap_allocator *allocator, neap_diag *diag);

#endif
