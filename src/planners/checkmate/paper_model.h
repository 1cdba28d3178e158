/*
 * Checkmate's program as Jain et al. 2020 print it, to compare with frontier_model.h's.
 *
 * Columns R, S, FREE and U; rows (1b), (1c), (2), (3), (4) with the elimination of section 4.8,
 * (7b), (7c); bounds (1f), (7a), U <= budget. Partitioned: (8a) to (8c), where what is zero gets no
 * column. Unpartitioned: (1d) and (1e). Kappa in (7c) is the most that num_hazards can be.
 * Frontiers and ops are numbered from 0 here.
 *
 * Fixed bytes and inputs are the constants of (2). Our graphs ask for more than the paper's, which
 * end in one node v_n that everything leads to; where a graph is not like that,
 *
 * - every op runs at least once: (1e) for each of them;
 * - outputs are resident at the end: S of a frontier behind the last is 1 for them;
 * - FREE[t][k][k], which 4.8 leaves out because a better plan would not run k, is R[t][k] for an op
 *   whose value nothing reads: it has to run all the same.
 *
 * U counts a value twice that is kept and made again, and a kept one that is not read in a frontier
 * to the frontier's end. Neither helps, so the best plans are those of frontier_model.h and the
 * judge. The relaxations differ, and by how much is what Appendix A is about
 * (bench/checkmate_appendix_a).
 *
 * The paper has no views, workspaces, variants or ops with several outputs.
 */
#ifndef NEAP_PLANNERS_PAPER_MODEL_H
#define NEAP_PLANNERS_PAPER_MODEL_H

#include "lp/highs_model.h"
#include "planners/checkmate/incumbent.h"

/* In the place of a column. */
#define PAPER_ZERO (-1)

typedef struct paper_model {
    neap_arena arena;
    const neap_graph *graph;
    bool partitioned;
    uint32_t n; /* ops, and frontiers */
    sparse_model lp;
    int32_t *R, *S;     /* n x n, by frontier: a column or PAPER_ZERO */
    double ticks_scale; /* the objective counts thousandths of every op's time once */
} paper_model;

/* NEAP_UNSUPPORTED, naming the op, for a graph that the printed program cannot express. */
neap_status neap_paper_model_check(const neap_graph *graph, neap_diag *diag);

/* Columns by an upper bound: to refuse before building. */
uint64_t neap_paper_model_columns(const neap_graph *graph, bool partitioned);

/*
 * Builds the program. What neap_paper_model_check refuses is refused; neap_paper_model_clear is
 * needed after a failure too.
 */
neap_status neap_paper_model_build(paper_model *m, neap_allocator *allocator,
                                   const neap_graph *graph, int64_t budget, bool partitioned,
                                   neap_diag *diag);
void neap_paper_model_clear(paper_model *m);

/* The compute sequence of a solution, a row-major scan of R (Algorithm 1), and its time. `sequence`
   may be NULL; else it has room for as many entries as the call without it returned. */
size_t neap_paper_model_sequence(const paper_model *m, const double *values, uint32_t *sequence,
                                 int64_t *ticks);

typedef struct paper_answer {
    uint64_t columns, rows;

    /* The relaxation. */
    highs_outcome relaxed;
    double lp_ticks;   /* its objective, as HiGHS says; 0 unless `relaxed` is HIGHS_SOLVED */
    double lp_bound;   /* no plan of this form takes fewer ticks: by the duals, in our arithmetic */
    double lp_seconds; /* solving it took */

    /* The integer program; HIGHS_STOPPED also where it was not begun. */
    highs_outcome outcome;
    int64_t ticks;  /* the optimum, exactly, if HIGHS_SOLVED; else -1 */
    double bound;   /* ticks that HiGHS says no plan of this form is below; lp_bound at least */
    double seconds; /* solving it took */
    int64_t bound_ticks; /* `bound` as whole ticks that a plan can take */
} paper_answer;

/* Solves the relaxation alone: the first half of the answer. */
neap_status neap_paper_model_relax(const planner *p, bool partitioned, paper_answer *answer,
                                   neap_diag *diag);

/*
 * Solves the relaxation and then, from nothing, the integer program, within the planner's budget
 * and time limit. Every solution found on the way is offered to `best`. A solution that breaks the
 * budget by less than the solver sees is not taken: the outcome is then HIGHS_GAVE_UP.
 */
neap_status neap_paper_model_solve(const planner *p, bool partitioned, incumbent *best,
                                   paper_answer *answer, neap_diag *diag);

#endif
