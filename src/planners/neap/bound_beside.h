/*
 * A bound that gets on by itself, on a thread of its own, while others search.
 *
 * Its slices may take seconds. Where a time limit makes results depend on the machine anyway,
 * nobody waits for them.
 */
#ifndef NEAP_PLANNERS_NEAP_BOUND_BESIDE_H
#define NEAP_PLANNERS_NEAP_BOUND_BESIDE_H

#include "planners/neap/bound.h"

#include <pthread.h>
#include <stdatomic.h>

typedef struct bound_beside {
    bound *bound;
    uint32_t n_tensors;
    bool (*stop)(void *context);
    void *context;
    bool runs; /* there is a thread */
    pthread_t thread;
    pthread_mutex_t lock;
    atomic_bool leaves; /* it is to end */
    /* under the lock */
    bound_figures figures;  /* without fates */
    uint8_t *fates, *loose; /* the caller's arrays */
    bool has_cut;           /* new since the last look */
    neap_status status;
    neap_diag diag;
} bound_beside;

/* Goes on with a bound. fates and loose: room for what its cuts say, by tensor. `runs` stays false
   where no thread can be had. */
void bound_beside_begin(bound_beside *t, bound *b, const problem *x, uint8_t *fates, uint8_t *loose,
                        bool (*stop)(void *context), void *context);
/* What is proven by now. Copies a new cut into the two arrays: *has_cut. */
bound_figures bound_beside_look(bound_beside *t, uint8_t *fates, uint8_t *loose, bool *has_cut);
/* Ends the thread, if there is one. */
neap_status bound_beside_end(bound_beside *t, neap_diag *diag);

#endif
