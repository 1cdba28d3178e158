/*
 * A lower bound on the time of every plan, from what fits in memory at one moment: while a task
 * runs for the first time (docs/bounds.md).
 *
 * Each tensor that earlier tasks made and later ones read is in memory then, or is recomputed
 * afterwards, or returns from the host afterwards; what the task may write over need not be in
 * memory when it has run. State that moves is in memory or on the host. With a price per byte the
 * cheapest choice is a minimum cut; the best price is searched. All rounding is downwards, so the
 * bound never exceeds the time of a plan.
 */
#ifndef NEAP_PLANNERS_NEAP_CUT_H
#define NEAP_PLANNERS_NEAP_CUT_H

#include "planners/neap/bound.h"
#include "planners/neap/cut_choices.h"

typedef struct cut_watch {
    bool (*stop)(void *context); /* or NULL */
    void *context;
} cut_watch;

typedef struct cut_answer {
    int64_t ticks;   /* no plan is faster; at least the sum of least ticks */
    bool infeasible; /* no plan fits; `ticks` is meaningless then */
    bool stopped;
    double price;    /* ticks per byte for which it was found; a good first price nearby */
    double estimate; /* approximate bound for the best price */
} cut_answer;

typedef struct cut cut;

/* Everything is in the arena. NULL when out of memory. */
cut *neap_cut_create(neap_arena *arena, const problem *x, int64_t budget, const neap_link *link);

/*
 * The bound at a task. The search for the best price starts from `price` (0: from a default) and
 * ends when it is found, or when the bound cannot exceed `worthless`.
 */
cut_answer neap_cut_solve(cut *c, uint32_t task, cut_scope scope, double price, int64_t worthless,
                          const cut_watch *watch);

/* Work done so far, in steps of a few nanoseconds: the same on every machine. */
uint64_t neap_cut_work(const cut *c);

/* Copies the fates of the tensors in the last cut that fits, and in the last that does not. */
void neap_cut_fates(const cut *c, uint8_t *fates, uint8_t *loose);

/* Valid as long as the cut. */
const cut_choices *neap_cut_choices(const cut *c);

#endif
