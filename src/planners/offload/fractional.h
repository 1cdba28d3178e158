/*
 * Section 4's relaxation: any part of a parcel may leave, and memory is released and reserved as
 * the bytes flow. Lemmas 1 and 2: it is best to send the first bytes, and no more of them than
 * M_peak - M_GPU; Theorem 2: sending them as early, and bringing them back as late as possible, is
 * optimal. So the optimum is a simulation of two flows, one forward in time from the start and one
 * backward from the end, and of how they meet (section 5.2.2).
 */
#ifndef NEAP_OFFLOAD_FRACTIONAL_H
#define NEAP_OFFLOAD_FRACTIONAL_H

#include "planners/offload/offload_problem.h"

/*
 * Where the two flows of a schedule meet, at the turn: what is left to send when the forward pass
 * ends, in bytes, or how long nothing was sent; and the same of the backward pass, seen from its
 * end. Bytes are those of the flow's own direction.
 */
typedef struct offload_meeting {
    double sent, backlog; /* bytes gone at the turn; bytes still to send */
    double slack;         /* ticks without anything to send, up to the turn */
    double back, back_backlog, back_slack;
} offload_meeting;

/* Bytes a tick, out and in. */
double neap_offload_rate(const offload_problem *problem, bool out);

/* What must be gone while op k runs. */
typedef double offload_gone(const void *context, uint32_t k);

/* The idle time between the passes, eqs. 9 and 10, in ticks. The rates are in the units a tick that
 * `gone` and the meeting count in. */
double neap_offload_meeting_idle(const offload_problem *problem, offload_gone *gone,
                                 const void *context, double out, double in,
                                 const offload_meeting *meeting);

/* Whether some op before the turn must wait for memory, however fast it is freed. */
bool neap_offload_must_wait(const offload_problem *problem);

/* The optimum of the relaxation, in ticks, for what ops need by the chosen variants; negative where
 * the budget is below the floor. */
double neap_offload_fractional_ticks(const offload_problem *problem);

/* The same as a bound on every plan that computes each op once in the graph's order. */
int64_t neap_offload_fractional_bound(const offload_problem *problem);

#endif
