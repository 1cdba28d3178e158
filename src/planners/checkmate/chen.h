/*
 * Chen et al.'s two heuristics on a graph's candidates for checkpoints: the bodies of ap-sqrt,
 * ap-greedy, linear-sqrt and linear-greedy.
 *
 * Chen, Xu, Zhang and Guestrin, "Training Deep Nets with Sublinear Memory Cost" (2016), as carried
 * over by Jain et al., "Checkmate" (2020), section 6.1. On a chain, where the candidates are the
 * cuts of the chain view, they choose what the methods `sqrt` and `greedy` choose.
 */
#ifndef NEAP_PLANNERS_CHEN_H
#define NEAP_PLANNERS_CHEN_H

#include "planners/checkmate/checkpoints.h"

/* A checkpoint every `length` candidates (0: the square root of their number). */
neap_status neap_chen_use_sqrt(const planner *p, draft *d, candidate_rule rule, neap_diag *diag);
/*
 * Segments filled up to b bytes, the best of a sweep over b (search/size_sweep.h, whose options are
 * the method's): without a budget the least peak, within one the fastest.
 */
neap_status neap_chen_use_greedy(const planner *p, draft *d, candidate_rule rule, neap_diag *diag);

/* Of the first. */
extern const neap_option neap_chen_sqrt_options[1];

#endif
