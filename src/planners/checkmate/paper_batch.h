/*
 * The largest batch by Checkmate's program (Jain et al. 2020, section 6.4): eq. (10) and (11), with
 * the batch as a variable. paper_model.h tells why the program is linear after all.
 */
#ifndef NEAP_PLANNERS_PAPER_BATCH_H
#define NEAP_PLANNERS_PAPER_BATCH_H

#include "planners/checkmate/paper_search.h"

typedef struct paper_batch {
    uint64_t columns, rows;
    bool too_large;        /* it was not begun, for lack of time */
    highs_outcome outcome; /* HIGHS_SOLVED: `batch` is the largest that a plan of this form has */
    int64_t bytes;       /* the plan's peak: what grows with the batch, at the graph's; -1: none */
    double bytes_bound;  /* no plan of this form needs less */
    int64_t batch;       /* that fits the budget, in batches of the graph; 0: no plan */
    int64_t batch_bound; /* no plan of this form fits with more; INT64_MAX: nothing limits it */
} paper_batch;

/*
 * Minimises the peak with at most one forward pass beyond one run of every op. The plan of the
 * least peak found becomes the draft's; it is one for the graph's own batch, and legal at every
 * other.
 */
neap_status neap_paper_batch_solve(const planner *p, bool partitioned, paper_batch *answer,
                                   draft *d, neap_diag *diag);

#endif
