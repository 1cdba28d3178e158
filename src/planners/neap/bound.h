/*
 * Times that no plan within a budget can beat (docs/bounds.md has the proofs).
 *
 * Two scopes: `any_ticks` holds for every plan; `order_ticks`, which is never less, for plans whose
 * ops run for the first time in the graph's order. Work is done in slices, so that a search beside
 * it can stop when the two meet; the same slices always find the same.
 */
#ifndef NEAP_PLANNERS_NEAP_BOUND_H
#define NEAP_PLANNERS_NEAP_BOUND_H

#include "planners/neap/problem.h"

typedef enum fate { FATE_KEEP = 0, FATE_RECOMPUTE, FATE_OFFLOAD } fate;

typedef struct bound bound;

typedef struct bound_figures {
    int64_t any_ticks, order_ticks;
    bool done;            /* nothing is left to try */
    bool infeasible;      /* no plan in the graph's order fits at all, whatever the ticks say */
    bool none_fits;       /* nor does any other */
    uint32_t position;    /* the task before whose first run the best cut lies; NEAP_NONE: none */
    const uint8_t *fates; /* by tensor: what the best cut does with it */
    const uint8_t *loose; /* and what the next one does, which keeps a little too much */
} bound_figures;

/* link: NULL or without bandwidth for plans without transfers. */
neap_status neap_bound_create(neap_allocator *allocator, const problem *x, int64_t budget,
                              const neap_link *link, bound **result, neap_diag *diag);
void neap_bound_destroy(bound *b);
/* One slice of work, some hundredths of a second. `stop` may end it early. */
neap_status neap_bound_improve(bound *b, bool (*stop)(void *context), void *context,
                               neap_diag *diag);
/* Valid until the next call. Before the first slice: the sum of least times. */
const bound_figures *neap_bound_state(const bound *b);

#endif
