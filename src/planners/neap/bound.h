/*
 * Times that no plan within a budget can beat (docs/bounds.md has the proofs).
 *
 * There are two scopes: `any_ticks` holds for every plan; `order_ticks`, which is never less, for
 * plans whose ops, updates excepted, run for the first time in the graph's order. The work is
 * divided into slices, so that a search can stop as soon as its plan meets the bound. The same
 * slices always give the same result.
 */
#ifndef NEAP_PLANNERS_NEAP_BOUND_H
#define NEAP_PLANNERS_NEAP_BOUND_H

#include "planners/neap/problem.h"

typedef enum fate { FATE_KEEP = 0, FATE_RECOMPUTE, FATE_OFFLOAD } fate;

typedef struct bound bound;

typedef struct bound_figures {
    int64_t any_ticks, order_ticks;
    bool done;            /* nothing is left to try */
    bool infeasible;      /* no plan in the graph's order fits; the ticks are meaningless then */
    bool none_fits;       /* no plan in any order fits */
    uint32_t position;    /* the best cut is before this task's first run; NEAP_NONE: no cut */
    const uint8_t *fates; /* by tensor: its fate in the best cut */
    const uint8_t *loose; /* by tensor: its fate in the next cut, which keeps slightly too much */
} bound_figures;

/* link: NULL or without bandwidth for plans without transfers. */
neap_status neap_bound_create(neap_allocator *allocator, const problem *x, int64_t budget,
                              const neap_link *link, bound **result, neap_diag *diag);
/* Also ends the thread. */
void neap_bound_destroy(bound *b);
/* The clock (base/clock.h) when no more slices are wanted, for work that cannot be stopped. */
void neap_bound_set_end(bound *b, double end);
/* One slice of work, some hundredths of a second. `stop` may end it early. */
neap_status neap_bound_improve(bound *b, bool (*stop)(void *context), void *context,
                               neap_diag *diag);
/* Valid until the next slice. Before the first slice: the sum of least times. */
const bound_figures *neap_bound_state(const bound *b);

/* Continues on a separate thread until done or stopped; false if no thread can be created. Until
   neap_bound_end_thread only neap_bound_read may be called. */
bool neap_bound_start_thread(bound *b, bool (*stop)(void *context), void *context);
neap_status neap_bound_end_thread(bound *b, neap_diag *diag);
/* The figures after the last complete slice, with `fates` and `loose` as arrays. They receive the
   best cut if order_ticks exceeds `known` (*has_cut); else they do not change. */
bound_figures neap_bound_read(bound *b, int64_t known, uint8_t *fates, uint8_t *loose,
                              bool *has_cut);

#endif
