/*
 * The frame of the methods that see a chain as n equal steps and memory as a number of states that
 * may be kept: revolve and gruslys. They know nothing of bytes, so that number has to be found: by
 * trying, with the peak and time of the plan that comes out.
 */
#ifndef NEAP_PLANNERS_EQUAL_STEPS_H
#define NEAP_PLANNERS_EQUAL_STEPS_H

#include "planners/chain/schedule.h"

/* Stage runs that a schedule may have: with very few states their number grows with the square of
 * the chain's length. */
#define EQUAL_STEPS_LONGEST (INT64_C(1) << 23)

/* One chooser for every number of states; it finds the number in `memory`. */
typedef struct equal_steps {
    run_chooser *chooser;
    int64_t least, most; /* numbers to try */
    int64_t besides;     /* one more to try; 0: none */
} equal_steps;

/* A method behind its chain view. */
typedef neap_status (*equal_steps_planner)(const planner *p, draft *d, const stage_costs *costs,
                                           neap_diag *diag);

/* Builds chain view and costs and has the method plan. */
neap_status neap_planner_use_equal_steps(const planner *p, draft *d, equal_steps_planner plan,
                                         neap_diag *diag);

/*
 * Makes the draft's plan: of all that fit the budget the fastest; where none does, the one that
 * needs least. Sets *states to the number it has. More memory makes for more states on the whole,
 * but not always where stages differ: a short range is tried in full, of a long one the largest
 * that fits is sought by halving, and its neighbours are tried. Sets d->stopped if the planner was
 * told to stop.
 */
neap_status neap_equal_steps_try(const planner *p, draft *d, const stage_costs *costs,
                                 const equal_steps *steps, int64_t *states, neap_diag *diag);

/* What Checkmate's comparison takes where nothing is said: about log2(n), at least 1. */
int64_t neap_equal_steps_default(uint32_t n);

#endif
