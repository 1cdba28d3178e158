/* Solving the program of paper_model.h with HiGHS, from nothing. */
#ifndef NEAP_PLANNERS_PAPER_SEARCH_H
#define NEAP_PLANNERS_PAPER_SEARCH_H

#include "lp/highs_model.h"
#include "planners/checkmate/incumbent.h"
#include "planners/checkmate/paper_model.h"

/* NEAP_UNSUPPORTED, with the size, for a graph whose program would have more columns. */
neap_status neap_paper_refuse_big(const planner *p, bool partitioned, double most_columns,
                                  neap_diag *diag);

/* How long HiGHS may work on the program or, without `integers`, on its relaxation; 0: no limit.
   It stops late, by a time that grows with the program. False where the time left is too short to
   begin. */
bool neap_paper_time_for(const planner *p, bool partitioned, bool integers, double *seconds);
/* Tells so, as a remark on the time limit. */
neap_status neap_paper_explain_size(const planner *p, bool partitioned, draft *d, neap_diag *diag);

/* ---- The relaxation ---- */

typedef struct paper_relaxation {
    const planner *p;
    paper_model model;
    highs_outcome outcome;
    double *values; /* of the columns, if solved */
    double ticks;   /* its objective, as HiGHS says; 0 unless solved */
    double bound;   /* no plan of this form takes fewer ticks: by the duals, in our arithmetic */
    int64_t bound_ticks; /* the same as whole ticks that a plan can take */
    double seconds;      /* solving it took */
    bool too_large;      /* it was not begun, for lack of time: the outcome is HIGHS_STOPPED */
} paper_relaxation;

/* Builds and solves it. neap_paper_relaxation_clear is needed after a failure too. */
neap_status neap_paper_relaxation_solve(paper_relaxation *x, const planner *p,
                                        const paper_options *options, neap_diag *diag);
void neap_paper_relaxation_clear(paper_relaxation *x);

/* ---- Problem (9) ---- */

typedef struct paper_answer {
    uint64_t columns, rows;
    bool too_large; /* a program, of the two, was not begun for lack of time */

    /* The relaxation. */
    highs_outcome relaxed;
    double lp_ticks, lp_bound, lp_seconds;

    /* The integer program; HIGHS_STOPPED also where it was not begun. */
    highs_outcome outcome;
    int64_t ticks;  /* the optimum, exactly, if HIGHS_SOLVED; else -1 */
    double bound;   /* ticks that HiGHS says no plan of this form is below; lp_bound at least */
    double seconds; /* solving it took */
    int64_t bound_ticks; /* `bound` as whole ticks that a plan can take */
} paper_answer;

/* Solves the relaxation alone: the first half of the answer. */
neap_status neap_paper_relax(const planner *p, bool partitioned, paper_answer *answer,
                             neap_diag *diag);

/*
 * Solves the relaxation and then, from nothing, the integer program, within the planner's budget
 * and time limit. Every solution found on the way is offered to `best`. A solution that breaks the
 * budget by less than the solver sees is not taken: the outcome is then HIGHS_GAVE_UP.
 */
neap_status neap_paper_solve(const planner *p, bool partitioned, incumbent *best,
                             paper_answer *answer, neap_diag *diag);

#endif
