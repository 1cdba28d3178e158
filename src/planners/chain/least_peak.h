/*
 * Least-peak methods: single-level checkpoints on a chain that make a formula for the peak as small
 * as it can be.
 *
 * Each method is a pure function from sizes to a set of checkpoints, callable without a graph, and
 * a neap_method that applies it to the chain view. Notation as in Hong et al., "GPU Memory Usage
 * Optimization for Backward Propagation in Deep Network Training": n layers, d_0 the input, d_i
 * what leaves layer i; 0 and n are always checkpoints.
 */
#ifndef NEAP_PLANNERS_LEAST_PEAK_H
#define NEAP_PLANNERS_LEAST_PEAK_H

#include "planners/common/planner.h"

#include <neap/chain.h>

/* ---- The pure functions ---- */

typedef struct least_peak_problem {
    neap_allocator *allocator; /* NULL: the system's */
    const planner *planner;    /* asked now and then whether to stop; NULL: never stop */
    uint32_t n;                /* layers; 0 is fine */
    const int64_t *d;          /* n + 1 sizes, none negative; their sum fits 63 bits */
    const int64_t *inner; /* n + 2: [i] what layer i makes besides d_i, [n + 1] what is made behind
                             d_n, [0] nothing; NULL: nothing at all. The Hong family ignores it */
} least_peak_problem;

typedef struct least_peak_answer {
    bool *chosen;       /* n + 1, the caller's: the checkpoints; [0] and [n] always */
    uint64_t objective; /* of `chosen`, in bytes; up to twice the sum of the sizes, so 64 bits */
    bool stopped;       /* asked to stop: a set that is valid but perhaps not the best */
} least_peak_answer;

/*
 * NEAP_INVALID for a negative size or a sum past 63 bits, NEAP_NO_MEMORY; otherwise `chosen` has
 * the least objective there is, unless stopped.
 */
typedef neap_status least_peak_solver(const least_peak_problem *problem, least_peak_answer *answer,
                                      neap_diag *diag);

least_peak_solver neap_hong_static;    /* equation 6 by Algorithm 3 */
least_peak_solver neap_hong_quadratic; /* equation 9 by Algorithm 5 */
least_peak_solver neap_hong_linear;    /* equation 9 by Algorithm 6, put right: O(n) */
least_peak_solver neap_acg;            /* equation 6 where segments also count `inner` */

/* What all of them ask of the sizes; NEAP_INVALID names the first that is wrong. */
neap_status neap_least_peak_check(const least_peak_problem *problem, neap_diag *diag);

/* ---- The methods ---- */

/* The chain view of a graph in the notation above. */
typedef struct least_peak_view {
    neap_chain chain;
    uint32_t n;       /* stages before the last, which holds the loss */
    int64_t *d;       /* n + 1 */
    int64_t *inner;   /* n + 2: storages a stage makes besides its cut, side storages left out */
    bool *checkpoint; /* per stage: scratch */
    neap_arena arena; /* of the arrays */
} least_peak_view;

/* Clear also after a failure. */
neap_status neap_planner_view_build(const planner *p, least_peak_view *view, neap_diag *diag);
void neap_planner_view_clear(least_peak_view *view);
/* The plan with these checkpoints, chosen[0 .. n], into the draft. */
neap_status neap_planner_view_lower(const planner *p, draft *d, const least_peak_view *view,
                                    const bool *chosen, neap_diag *diag);
/* Tells `checkpoints` as Table 2 does: 0 left out, n in. */
neap_status neap_planner_view_list(const planner *p, draft *d, const least_peak_view *view,
                                   const bool *chosen, neap_diag *diag);
/* The same, and `objective` in bytes. */
neap_status neap_planner_view_report(const planner *p, draft *d, const least_peak_view *view,
                                     const bool *chosen, double objective, neap_diag *diag);

/* A whole method: the view, a solver, the plan, the report. */
neap_status neap_planner_use_least_peak(const planner *p, draft *d, least_peak_solver *solve,
                                        neap_diag *diag);

#endif
