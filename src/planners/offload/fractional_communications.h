/*
 * Section 5's relaxation: a unit leaves whole or not at all, but its transfers may be interrupted,
 * and memory is released and reserved as the bytes flow. Algorithm 1: a dynamic program over the
 * units that processes the forward pass from its start and the backward pass from its end, and
 * keeps, in a hash table per unit, the least idle time for each state (M_F, Delta_F, Delta_B).
 *
 * Here M_F is given by the bytes selected so far, q: what is resident is what the natural order
 * needs, less the q - Delta_F that are gone. All the ops between two units are passed in one step:
 * an op k that needs c_k bytes gone, after a time U_k, adds no wait but what the largest c_k - beta
 * U_k exceeds those that are gone.
 */
#ifndef NEAP_OFFLOAD_FRACTIONAL_COMMUNICATIONS_H
#define NEAP_OFFLOAD_FRACTIONAL_COMMUNICATIONS_H

#include "planners/offload/offload_problem.h"

/*
 * Many selections are equally good, or nearly, when transfers can be interrupted. For whole
 * transfers, which hold all their memory till they end, small units are the better choice: a price
 * of p adds p times its own transfer time for the largest unit, and less, by their share of its
 * size, for others.
 */
typedef struct communications_options {
    double price;         /* 0: the paper's relaxation */
    uint32_t slots;       /* S of section 5.3.2; 0: exact */
    uint32_t most_rounds; /* of the rounding of 5.3.2; 0: as many as it takes, within reason */
    size_t most_states;   /* kept per unit, those with the least bounds; 0: all */
} communications_options;

typedef struct communications_answer {
    bool found;
    bool exact; /* no state was lost: the optimum of the (rounded) relaxation */
    bool stopped;
    double ticks;      /* of the relaxation's schedule */
    size_t n_states;   /* in all */
    uint32_t n_rounds; /* of the rounding */
} communications_answer;

/* The best selection, a flag per unit in `away`. */
neap_status neap_fractional_communications_solve(const offload_problem *problem,
                                                 const communications_options *options, bool *away,
                                                 communications_answer *answer, neap_diag *diag);

#endif
