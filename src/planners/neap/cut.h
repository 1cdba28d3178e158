/*
 * The least time of any plan by what memory can hold at one moment: while a task runs for the first
 * time (docs/bounds.md).
 *
 * What earlier tasks made and later ones need is then in memory, or made again afterwards, or comes
 * back from the host afterwards. With a price on bytes that is a minimum cut; the best price is
 * searched. All roundings go down: what comes out never exceeds the time of any plan.
 */
#ifndef NEAP_PLANNERS_NEAP_CUT_H
#define NEAP_PLANNERS_NEAP_CUT_H

#include "planners/neap/bound.h"

typedef struct cut_watch {
    bool (*stop)(void *context); /* or NULL */
    void *context;
} cut_watch;

typedef struct cut_answer {
    int64_t ticks;   /* no plan is faster; the sum of least ticks at least */
    bool infeasible; /* no plan fits at all; `ticks` says nothing then */
    bool is_slack;   /* memory has room for everything: no other price will do better */
    bool stopped;
    double price;    /* ticks a byte at which it was found; a good one to begin with nearby */
    double estimate; /* about what the best price would prove */
} cut_answer;

typedef struct cut cut;

neap_status neap_cut_create(neap_allocator *allocator, const problem *x, int64_t budget,
                            const neap_link *link, cut **result, neap_diag *diag);
void neap_cut_destroy(cut *c);

/*
 * The bound at a task. Prices are tried from `price` on (0: begin from the middle), until the best
 * is found or nothing beyond `worthless` can come of it.
 */
neap_status neap_cut_solve(cut *c, uint32_t task, cut_scope scope, double price, int64_t worthless,
                           const cut_watch *watch, cut_answer *answer, neap_diag *diag);

/* Work done so far, in steps of some nanoseconds: the same on every machine. */
uint64_t neap_cut_work(const cut *c);

/* Writes what the last cut that fits the memory does with each tensor, and the last that does not.
 */
void neap_cut_fates(const cut *c, uint8_t *fates, uint8_t *loose);

/* Whether plans may drop the tensor and make it again: where it or its task's views are pinned for
   the sake of the method alone, other plans do. By tensor; the cut's own. */
const bool *neap_cut_recomputable(const cut *c);

#endif
