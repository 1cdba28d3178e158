/*
 * The copy engines of the host's queue (queue.h): one thread, or one per direction, beside the
 * thread that computes.
 *
 * Copies of one lane run in the order in which they were started. A copy may have to wait for one
 * on the other lane: a prefetch starts only after its offload has ended. The caller waits for a
 * copy by its ticket.
 */
#ifndef NEAP_RUN_COPIER_H
#define NEAP_RUN_COPIER_H

#include <neap/allocator.h>
#include <neap/plan.h>
#include <neap/status.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct run_copier run_copier;

/* The n-th copy of a lane, from 1. 0 means no copy; waiting for it returns at once. */
typedef struct run_ticket {
    uint64_t number;
    unsigned lane;
} run_ticket;

typedef enum run_direction { RUN_OUT = 0, RUN_IN = 1 } run_direction;

/* `capacity`: the largest number of copies in progress at once. */
neap_status neap_run_copier_create(neap_allocator *allocator, bool duplex, size_t capacity,
                                   run_copier **copier, neap_diag *diag);
/*
 * Makes copies take as long as this link does, by waiting before and after each one, unless the
 * machine takes longer. The bytes are copied in the middle, so that what does not wait for a copy
 * shows, on either side. To be called before the first copy.
 */
void neap_run_copier_pace(run_copier *copier, const neap_link *link);
/* Delays every copy by a random time of up to a millisecond; 0: none. To be called before the first
   copy. */
void neap_run_copier_stress(run_copier *copier, uint64_t seed);
/* Waits for all copies. */
void neap_run_copier_finish(run_copier *copier);
/* Waits for all copies first. */
void neap_run_copier_destroy(run_copier *copier);

/* Starts a copy that waits until `after` has ended. */
run_ticket neap_run_copier_start(run_copier *copier, run_direction direction, void *to,
                                 const void *from, size_t bytes, run_ticket after);
/* Waits until the copy has ended. Returns true if it had to wait. */
bool neap_run_copier_wait(run_copier *copier, run_ticket ticket);
/* When a copy that has ended ran, on neap_clock_seconds; of the latest `capacity` copies of a lane.
 */
neap_step_time neap_run_copier_time(run_copier *copier, run_ticket ticket);

#endif
