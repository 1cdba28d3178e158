/*
 * Bounds on Problem 1 and its two relaxations: in both, transfers may be interrupted, and memory is
 * released and reserved as the bytes flow.
 */
#ifndef NEAP_OFFLOAD_FRACTIONAL_H
#define NEAP_OFFLOAD_FRACTIONAL_H

#include "planners/offload/offload_method.h"

/* Proposition 3: LB = max(all computations, twice what must be away over the bandwidth), ticks. */
int64_t neap_offload_lower_bound(const offload_problem *problem);

/* ---- Section 4: any part of a parcel may leave ---- */

/*
 * Lemmas 1 and 2: it is best to send the first bytes, and no more of them than M_peak - M_GPU;
 * Theorem 2: it is optimal to send them as early and to bring them back as late as possible. So the
 * optimum is a simulation of two flows, one forward in time from the start and one backward from
 * the end, and of how they meet (section 5.2.2).
 */

/* The state of one flow at the turn; that of the backward pass as seen from the end. */
typedef struct offload_flow_end {
    double rate;    /* bytes per tick */
    double sent;    /* bytes gone at the turn */
    double backlog; /* bytes still to send */
    double slack;   /* ticks without anything to send, up to the turn */
} offload_flow_end;

/* Bytes per tick, out and in. */
double neap_offload_rate(const offload_problem *problem, bool out);

/* The idle ticks between the passes, eqs. 9 and 10. `gone` is what must be gone while each op runs,
 * in the unit that the flows count in. */
double neap_offload_meeting_idle(const offload_problem *problem, const double *gone,
                                 const offload_flow_end *out, const offload_flow_end *in);

/* Whether some op before the turn must wait for memory, however fast it is freed. */
bool neap_offload_must_wait(const offload_problem *problem);

/* The optimum of the relaxation in ticks, with the chosen variants; negative if the budget is below
 * the floor. */
double neap_offload_fractional_ticks(const offload_problem *problem);

/* The same as a bound on every plan that computes each op once in the graph's order. */
int64_t neap_offload_fractional_bound(const offload_problem *problem);

/* ---- Section 5: a unit leaves whole or not at all ---- */

/*
 * Many selections are nearly equally good when transfers can be interrupted. Whole transfers hold
 * all their memory until they end, so small units are better for them. A price of p adds p times
 * its own transfer time for the largest unit, and less for others, in proportion to their size.
 */
typedef struct communications_options {
    double price;         /* 0: the paper's relaxation */
    uint32_t slots;       /* S of section 5.3.2; 0: exact */
    uint32_t most_rounds; /* of the rounding of 5.3.2; 0: the default */
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

/* Algorithm 1 (fractional_communications.c): the best selection, in s->away and as a flag per unit
 * in `away`. */
neap_status neap_fractional_communications_solve(offload_search *s,
                                                 const communications_options *options, bool *away,
                                                 communications_answer *answer, neap_diag *diag);

#endif
