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

typedef struct bound_thread {
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
} bound_thread;

/* Goes on with a bound. fates and loose: room for what its cuts say, by tensor. `runs` stays false
   where no thread can be had. */
void neap_bound_thread_begin(bound_thread *t, bound *b, const problem *x, uint8_t *fates,
                             uint8_t *loose, bool (*stop)(void *context), void *context);
/* What is proven by now. Copies a new cut into the two arrays: *has_cut. */
bound_figures neap_bound_thread_look(bound_thread *t, uint8_t *fates, uint8_t *loose,
                                     bool *has_cut);
/* Ends the thread, if there is one. */
neap_status neap_bound_thread_end(bound_thread *t, neap_diag *diag);

#endif
