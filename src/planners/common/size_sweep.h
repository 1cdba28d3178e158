/*
 * Chen et al.'s sweep: segments filled up to b bytes each, for the best of several b.
 *
 * Chen, Xu, Zhang and Guestrin, "Training Deep Nets with Sublinear Memory Cost" (2016), Algorithm
 * 3 (neap_greedy_split), around which the methods `greedy`, `ap-greedy` and `linear-greedy` are
 * built: they differ in what may be a checkpoint and in how checkpoints become a plan.
 *
 * b is a parameter, not the request's budget. As they suggest, a first split with b = 0 gives x and
 * y, and b is searched over a grid from B / sqrt(2) to B sqrt(2) around B = sqrt(x y). They take
 * the plan with the least estimate x + y; here every plan of the grid is made and the one with the
 * least actual peak taken. With a budget, the grid extends up to the sum of all storages and down
 * to y, and the fastest plan within the budget is taken.
 */
#ifndef NEAP_PLANNERS_SIZE_SWEEP_H
#define NEAP_PLANNERS_SIZE_SWEEP_H

#include "planners/common/planner.h"

/* What may be a checkpoint, and how checkpoints become a plan. */
typedef struct size_sweep_problem {
    uint32_t n;           /* candidates */
    const int64_t *d;     /* n + 1: what candidate i keeps, from 1 */
    const int64_t *inner; /* n + 2: what else is made between candidates i - 1 and i */
    void *context;
    /* Makes the draft's plan with the checkpoints chosen[1 .. n]. */
    neap_status (*lower)(void *context, const planner *p, draft *d, const bool *chosen,
                         neap_diag *diag);
} size_sweep_problem;

typedef struct size_sweep_answer {
    bool *chosen;    /* n + 1, the caller's: the checkpoints of the best plan */
    double estimate; /* of its peak: x + y */
} size_sweep_answer;

/* Leaves the best plan in the draft. If asked to stop, the draft is `stopped` and has the best plan
 * so far, or none if that does not fit. */
neap_status neap_size_sweep_run(const planner *p, draft *d, const size_sweep_problem *problem,
                                size_sweep_answer *answer, neap_diag *diag);

/*
 * Algorithm 3: walks forward, adds up what is made, and sets a checkpoint at the first candidate
 * where the sum exceeds `budget`. *stored (their x) is the sum of the checkpoints without d_0,
 * *largest (their y) the largest segment; x + y is their estimate of the peak. Always succeeds on
 * valid sizes; O(n). `inner` may be NULL.
 *
 * A departure: y also counts the stretch after the last checkpoint, which Algorithm 3 forgets (a
 * budget larger than the network would look free).
 */
void neap_greedy_split(uint32_t n, const int64_t *d, const int64_t *inner, int64_t budget,
                       bool *chosen, int64_t *stored, int64_t *largest);

/* The option of every method that uses this sweep, the first of its options. */
#define NEAP_SIZE_SWEEP_OPTION                                                                     \
    NEAP_INTEGER_OPTION("points", 1, 1000000, 24,                                                  \
                        "sizes b of a segment that are tried around sqrt(x y); as many on either " \
                        "side if there is a budget")
extern const neap_option neap_size_sweep_options[1];

#endif
