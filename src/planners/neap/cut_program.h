/*
 * The least time of any plan by what memory can hold at several moments, as an integer program
 * (docs/bounds.md).
 *
 * The moments are the first runs of tasks t_1, t_2, ..., each of which certainly follows the one
 * before; window k is the time from t_k to t_k+1, the last one reaches to the end. Columns say
 * whether a tensor is resident while t_k runs, and whether a task runs again in window k:
 *
 *     resident(s, k + 1) <= at_hand(s, k)    at_hand(s, k) = resident(s, k) + again(maker of s, k)
 *     again(p, k)        <= at_hand(s, k)    for all that p reads
 *     1                  <= at_hand(s, k)    for all that is read by a first run in window k
 *     sum of bytes(s) * resident(s, k) <= room(k)
 *
 * and more of the kind for runs of windows, so that its linear relaxation is never weaker than the
 * single cuts (cut.h) at the same moments.
 */
#ifndef NEAP_PLANNERS_NEAP_CUT_PROGRAM_H
#define NEAP_PLANNERS_NEAP_CUT_PROGRAM_H

#include "planners/neap/cut.h"

typedef struct cut_program cut_program;

typedef struct program_answer {
    int64_t ticks;        /* no plan is faster */
    bool stopped;         /* on the way: more effort may prove more */
    uint32_t overfull;    /* graph's order: a task at whose first run the solution holds most beyond
                             the budget; NEAP_NONE: none, or no solution */
    const uint8_t *fates; /* graph's order: by tensor; NULL: no solution. The program's own */
    size_t columns;       /* 0: the program would be too large, nothing was tried */
    uint64_t effort;      /* taken */
} program_answer;

/* Needs HiGHS (NEAP_UNSUPPORTED). `can_recompute` by tensor (neap_cut_recomputable). */
neap_status neap_cut_program_create(neap_allocator *allocator, const problem *x, int64_t budget,
                                    const bool *can_recompute, cut_program **result,
                                    neap_diag *diag);
void neap_cut_program_destroy(cut_program *g);

/* The bound by these moments (ascending tasks; in any order: each an ancestor of the next). Ends
   after so much effort, counted in what is the same on every machine. */
neap_status neap_cut_program_solve(cut_program *g, cut_scope scope, const uint32_t *tasks,
                                   uint32_t n_tasks, uint64_t effort, const cut_watch *watch,
                                   program_answer *answer, neap_diag *diag);

#endif
