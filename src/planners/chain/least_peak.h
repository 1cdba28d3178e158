/*
 * Least-peak methods: single-level checkpoints on a chain that minimize a formula for the peak.
 *
 * Each method is a pure function from sizes to a set of checkpoints, callable without a graph, and
 * a neap_method that applies it to the chain view. Notation as in Hong et al., "GPU Memory Usage
 * Optimization for Backward Propagation in Deep Network Training": n layers, d_0 the input, d_i
 * what leaves layer i; 0 and n are always checkpoints.
 */
#ifndef NEAP_PLANNERS_LEAST_PEAK_H
#define NEAP_PLANNERS_LEAST_PEAK_H

#include "planners/chain/chain_views.h"

/* ---- The pure functions ---- */

typedef struct least_peak_problem {
    neap_allocator *allocator; /* NULL: the system's */
    const planner *planner;    /* polled for a request to stop; NULL: never stop */
    uint32_t n;                /* layers; may be 0 */
    const int64_t *d;          /* n + 1 sizes, none negative; their sum fits 63 bits */
    const int64_t *inner; /* n + 2: [i] what layer i makes besides d_i, [n + 1] what is made after
                             d_n, [0] is 0; NULL: all 0. The Hong family ignores it */
} least_peak_problem;

typedef struct least_peak_answer {
    bool *chosen;       /* n + 1, the caller's: the checkpoints; [0] and [n] always */
    uint64_t objective; /* of `chosen`, in bytes; up to twice the sum of the sizes, so 64 bits */
    bool stopped;       /* `chosen` is valid but perhaps not the best */
    uint32_t paths;     /* neap_segment_term_search: shortest paths solved, O(n) each */
} least_peak_answer;

/* Finds the least objective unless stopped. NEAP_INVALID for a negative size or a sum past 63 bits.
 */
typedef neap_status least_peak_solver(const least_peak_problem *problem, least_peak_answer *answer,
                                      neap_diag *diag);

least_peak_solver neap_hong_static;    /* equation 6 by Algorithm 3 */
least_peak_solver neap_hong_quadratic; /* equation 9 by Algorithm 5 */
least_peak_solver neap_hong_linear;    /* equation 9 by Algorithm 6, corrected: O(n) */

/*
 * The objective of Feng and Huang on a chain whose stages are not divided (acg divides them): (sum
 * of d_i over the checkpoints) + (largest segment). A segment between neighbouring checkpoints
 * i < j holds the d_k strictly between them and the inner bytes of layers i + 1 .. j. What is made
 * after d_n is a segment of its own.
 */
least_peak_solver neap_segment_term_search;

/* Checks the sizes; NEAP_INVALID names the first that is wrong. */
neap_status neap_least_peak_check(const least_peak_problem *problem, neap_diag *diag);

/* Sets the answer's checkpoints: 0, next[0], next[next[0]], ... */
void neap_least_peak_follow(const uint32_t *next, uint32_t n, least_peak_answer *answer);

/* ---- The methods ---- */

/* The chain view of a graph in the notation above. */
typedef struct least_peak_view {
    neap_chain chain;
    uint32_t n;       /* stages before the last, which holds the loss */
    int64_t *d;       /* n + 1; carried storages count in d_0, which is live throughout */
    int64_t *inner;   /* n + 2: storages a stage makes besides its cut, without side and carried */
    neap_arena arena; /* of the arrays */
} least_peak_view;

/* Clear also after a failure. */
neap_status neap_planner_view_build(const planner *p, chain_view which, least_peak_view *view,
                                    neap_diag *diag);
void neap_planner_view_clear(least_peak_view *view);
/* Adds `checkpoints` to the draft as in Table 2: without 0, with n. */
neap_status neap_planner_view_list(const planner *p, draft *d, const least_peak_view *view,
                                   const bool *chosen, neap_diag *diag);

/*
 * Makes the draft's plan from checkpoints chosen[0 .. n], where n is the number of stages before
 * the last (segments.c). A new segment begins after each checkpoint. The forward pass runs once; of
 * each segment only what later segments read survives. In the backward pass, the first op that
 * reads something dropped triggers the recomputation of the segment's forward ops, those that the
 * backward pass needs. The last segment is kept whole.
 *   `inside`, if not NULL, marks storages to be kept inside segments, by value. The parts that a
 * segment falls into without its checkpoints are then computed again one by one; if the last
 * segment has such storages inside, only the part with its last op is kept.
 */
neap_status neap_planner_use_segments(const planner *p, draft *d, const neap_chain *chain,
                                      const bool *chosen, const bool *inside, neap_diag *diag);

/* The options of a method that has no others. */
extern const neap_option neap_least_peak_options[1];
/* A whole method with those options: the views, a solver, the plan, the report. */
neap_status neap_planner_use_least_peak(const planner *p, draft *d, least_peak_solver *solve,
                                        neap_diag *diag);

#endif
