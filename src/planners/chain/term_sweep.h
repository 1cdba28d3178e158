/*
 * The least s + c(s), where c(s), the least sum of checkpoints with no segment larger than s, never
 * rises as s grows.
 *
 * Two facts avoid nearly all s:
 *
 *   1. If `best` is the least sum known, no s' <= s with s' + c(s) >= best is better: one c(s)
 * settles the range best - c(s) .. s.
 *   2. The checkpoints found for s have a largest segment a <= s, and c is constant from a to s.
 *
 * So a sweep from the largest s to the smallest continues at min(best - c(s), a) - 1. For a given
 * `best` no other choice of points settles the range with fewer of them. Coarse sweeps come first
 * so that `best` is good early: they require an improvement by a quarter, by a 32nd and so on, and
 * take longer strides. The last sweep requires one byte: that is the proof.
 */
#ifndef NEAP_PLANNERS_TERM_SWEEP_H
#define NEAP_PLANNERS_TERM_SWEEP_H

#include "planners/common/planner.h"

typedef struct term_sweep {
    int64_t (*stored)(void *context, int64_t most, int64_t *largest); /* c(most), and a */
    void *context;
    const planner *planner; /* polled for a request to stop; NULL: never stop */
    int64_t least, most;    /* no s below `least` has an answer, none above `most` is needed */
    int64_t best;           /* the result: least s + c(s), */
    int64_t best_term;      /* the s it was found with, */
    uint32_t tried;         /* how many s were tried, */
    bool stopped;           /* and whether there was no time for all */
} term_sweep;

void neap_term_sweep_run(term_sweep *sweep);

#endif
