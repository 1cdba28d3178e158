/*
 * Two-phase rounding (Jain et al. 2020, Algorithm 2): S of the relaxation is rounded, R follows.
 *
 * First every "kept from frontier to frontier" becomes yes or no: deterministically, by a
 * threshold, or at random with the relaxation's value as probability (Appendix D). Then each
 * frontier runs the fewest ops that make this possible (frontier_rows.h). The result is right, but
 * may take more memory than the relaxation was given: hence the allowance eps on the budget.
 */
#ifndef NEAP_PLANNERS_TWO_PHASE_H
#define NEAP_PLANNERS_TWO_PHASE_H

#include "planners/checkmate/frontier_rows.h"
#include "planners/checkmate/lp_schedule.h"

typedef struct rounding {
    double threshold; /* kept where the relaxation says more than this */
    uint64_t *random; /* instead of the threshold: the state of a generator; or NULL */
} rounding;

/* Appends all rows to `rows`, which is empty: the compute sequence. */
neap_status neap_two_phase_round(const lp_schedule *s, const rounding *how, frontier_rows *rows,
                                 neap_diag *diag);

#endif
