/*
 * A lower bound on the time of every plan, from what fits in memory at several moments, as an
 * integer program (docs/bounds.md).
 *
 * The moments are the first runs of tasks t_1, t_2, ..., each of which certainly follows the one
 * before. Window k is the time from t_k to t_k+1; the last window extends to the end. The columns
 * are whether a tensor is resident while t_k runs, and whether a task runs again in window k:
 *
 *     resident(s, k + 1) <= available(s, k),  where
 *                           available(s, k) = resident(s, k) + again(producer of s, k)
 *     again(p, k)        <= available(s, k)   for every s that p reads
 *     1                  <= available(s, k)   for every s that a first run in window k reads
 *     sum of bytes(s) * resident(s, k) <= room(k)
 *
 * Where the task of a moment has several variants, there is a column for each leaner one, which is
 * slower and leaves more room. More rows of the kind above, for spans of windows, make the linear
 * relaxation strong: it is never weaker than the single cuts (cut.h) at the same moments, but for
 * their variants. In any order, a task that may run on either side of t_k may run in window k at no
 * cost, but in one such window only.
 */
#ifndef NEAP_PLANNERS_NEAP_CUT_PROGRAM_H
#define NEAP_PLANNERS_NEAP_CUT_PROGRAM_H

#include "planners/neap/cut.h"

typedef struct program_request {
    const problem *x;
    int64_t budget;
    const cut_choices *choices;
    cut_scope scope;
    const uint32_t *moments; /* tasks, ascending; in any order: each an ancestor of the next */
    uint32_t n_moments;
    bool relaxed;    /* the linear relaxation: much faster, and proven in exact arithmetic */
    uint64_t effort; /* at most; in units that are the same on every machine */
    double seconds;  /* likewise; 0: no limit */
    const cut_watch *watch;
} program_request;

/* The caller's arrays, written if there is a solution. */
typedef struct program_results {
    uint8_t *fates;  /* by tensor */
    int64_t *excess; /* by task: bytes by which the solution exceeds the budget at its first run, in
                        the graph's order */
} program_results;

typedef struct program_answer {
    int64_t ticks;  /* no plan is faster */
    bool stopped;   /* early: more effort may prove more */
    bool too_large; /* nothing was tried */
    bool has_solution;
    bool has_fates; /* and it is a solution of the integer program */
} program_answer;

/* NEAP_UNSUPPORTED without HiGHS. */
neap_status neap_cut_program_solve(neap_allocator *allocator, const program_request *request,
                                   const program_results *results, program_answer *answer,
                                   neap_diag *diag);

#endif
