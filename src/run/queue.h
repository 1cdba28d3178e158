/*
 * What a step's work is given to: one stream of computation, and a copy engine for each direction.
 *
 * On the host, kernels run when they are called, and threads do the copies (host_queue.c). On a
 * device, calls only add work to streams; nothing has happened for certain until `end`. The order
 * is the same either way: computation runs in the order of the calls; a copy starts after all
 * computation given before it and after the copy `after`; what follows a `wait` starts after the
 * copy that it names.
 *
 * A device may record a step and replay it: `begin` then says so, and the step is done without
 * further calls up to `end`.
 */
#ifndef NEAP_RUN_QUEUE_H
#define NEAP_RUN_QUEUE_H

#include "run/copier.h"

typedef struct run_queue run_queue;

typedef struct run_queue_options {
    bool duplex;
    neap_link pace;   /* on the host (neap_run_options.pace) */
    uint64_t stress;  /* not 0: seed of random delays of kernels and copies */
    size_t transfers; /* copies in a step */
    size_t timed;     /* steps of the plan whose times are wanted; 0: none */
} run_queue_options;

typedef struct run_queue_type {
    void (*destroy)(run_queue *queue);
    /* Starts a step. *replayed: all of it is on its way already, or what was given before an
       error. */
    neap_status (*begin)(run_queue *queue, uint64_t seed, bool *replayed, neap_diag *diag);
    /* Waits until all that was given has ended; the first error of any of it. `whole`: the step was
       given without an error; otherwise it is not recorded. */
    neap_status (*end)(run_queue *queue, bool whole, neap_diag *diag);
    run_ticket (*copy)(run_queue *queue, run_direction direction, void *to, const void *from,
                       size_t bytes, run_ticket after);
    /* Computation goes on when the copy has ended. True if the caller had to wait for it. */
    bool (*wait)(run_queue *queue, run_ticket ticket);
    /* In order with computation: 0xff in every byte; a copy from or to the host; a copy that stays
       on the device, between places that do not overlap. */
    void (*fill)(run_queue *queue, void *data, size_t bytes);
    void (*move)(run_queue *queue, run_direction direction, void *to, const void *from,
                 size_t bytes);
    void (*shift)(run_queue *queue, void *to, const void *from, size_t bytes);
    /* Computation may be delayed here (options.stress). */
    void (*delay)(run_queue *queue);
    /* With options.timed: step `step` of the plan begins or ends here, in order with computation;
       after `end` it is in `times`. The last call counts. */
    void (*mark)(run_queue *queue, size_t step, bool ends);
    /* With options.timed, after `end`: when a copy of the step ran. */
    neap_step_time (*copied)(run_queue *queue, run_ticket ticket);
} run_queue_type;

/* Embedded at the start of an implementation. */
struct run_queue {
    const run_queue_type *type;
    neap_allocator *allocator;
    const uint64_t *step_seed; /* for run_args; NULL on the host */
    bool again;                /* set by `end`: nothing has run, and the step must be given again */
    neap_step_time *times;     /* options.timed of them, in seconds from `begin`; or NULL */
};

neap_status neap_run_host_queue_create(neap_allocator *allocator, const run_queue_options *options,
                                       run_queue **queue, neap_diag *diag);

#endif
