/*
 * The frame of revolve and gruslys, which model a chain as n equal steps and memory as a number of
 * states to keep. They ignore bytes, so that number is found by trying: each one's plan has a peak
 * and a time.
 */
#ifndef NEAP_PLANNERS_EQUAL_STEPS_H
#define NEAP_PLANNERS_EQUAL_STEPS_H

#include "planners/chain/schedule.h"

/* Most stage runs of a schedule: with very few states it is quadratic in the chain's length. */
#define EQUAL_STEPS_LONGEST (INT64_C(1) << 23)

/* The chooser gets the number of states as `memory`. */
typedef struct equal_steps {
    run_chooser *chooser;
    int64_t least, most; /* numbers to try */
    int64_t extra;       /* one more to try; 0: none */
} equal_steps;

typedef neap_status (*equal_steps_planner)(const planner *p, draft *d, stage_costs *costs,
                                           neap_diag *diag);

/* Builds chain views (`cuts` as in chain_views.h) and costs and calls `plan` for each; it may use
 * the arena of the costs. */
neap_status neap_planner_use_equal_steps(const planner *p, draft *d, int cuts,
                                         equal_steps_planner plan, neap_diag *diag);

/*
 * Makes the draft's plan: the fastest that fits the budget or, if none fits, the one of least peak.
 * Sets *states to its number of states. More memory usually allows more states, but not always if
 * stages differ: a short range is tried in full; in a long one bisection finds the largest number
 * that fits, and its neighbours are tried. Sets d->stopped if the planner was asked to stop.
 */
neap_status neap_equal_steps_try(const planner *p, draft *d, const stage_costs *costs,
                                 const equal_steps *steps, int64_t *states, neap_diag *diag);

/* About log2(n), at least 1: Checkmate's comparison lists the method as "Griewank et al. log n". */
int64_t neap_equal_steps_default(uint32_t n);

#endif
