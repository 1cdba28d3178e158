/*
 * The schedule that a relaxation proposes: R and S of the paper, with fractions, whichever program
 * they are of. Rounding (two_phase.h, naive_rounding.h) begins here.
 */
#ifndef NEAP_PLANNERS_LP_SCHEDULE_H
#define NEAP_PLANNERS_LP_SCHEDULE_H

#include "planners/checkmate/frontier_model.h"
#include "planners/checkmate/paper_model.h"

/* In the place of a fraction: no plan of the program has it otherwise. Above every threshold. */
#define LP_CERTAIN 2.0

typedef struct lp_schedule {
    neap_arena arena;
    const neap_graph *graph;
    uint32_t n, n_values; /* ops, which is also the number of frontiers; values */
    double *R;            /* n x n: op k runs in frontier t */
    double *S;            /* n x n_values: value v is resident when frontier t begins */
} lp_schedule;

/* From a solution of a partitioned program. neap_lp_schedule_clear is needed after a failure too.
 */
neap_status neap_lp_schedule_of_gaps(lp_schedule *s, neap_allocator *allocator,
                                     const frontier_model *m, const double *values,
                                     neap_diag *diag);
neap_status neap_lp_schedule_of_paper(lp_schedule *s, neap_allocator *allocator,
                                      const paper_model *m, const double *values, neap_diag *diag);
/* Fine twice. */
void neap_lp_schedule_clear(lp_schedule *s);

#endif
