/* The least sum of checkpoints and largest segment: the search that hong-static and acg share. */
#ifndef NEAP_PLANNERS_SEGMENT_TERM_H
#define NEAP_PLANNERS_SEGMENT_TERM_H

#include "planners/chain/least_peak.h"

typedef struct segment_term_counts {
    uint32_t evaluations; /* shortest paths solved, O(n) each */
} segment_term_counts;

/*
 * Minimizes (sum of d_i over the checkpoints) + (largest segment), exactly. A segment holds what
 * lies between two neighbouring checkpoints i < j: the d_k strictly between them and, where
 * problem->inner is given, the inner bytes of layers i + 1 .. j; what is made behind d_n is a
 * segment by itself. `counts` may be NULL.
 */
neap_status neap_segment_term_search(const least_peak_problem *problem, least_peak_answer *answer,
                                     segment_term_counts *counts, neap_diag *diag);

#endif
