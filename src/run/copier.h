/*
 * The copy engines beside the compute stream: on the CPU, a thread, or one each way.
 *
 * Copies of one lane run in the order they were given. A copy may have to wait for one of the other
 * lane (a value comes back only after it has gone). The caller waits by the ticket of a copy.
 */
#ifndef NEAP_RUN_COPIER_H
#define NEAP_RUN_COPIER_H

#include <neap/allocator.h>
#include <neap/status.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct run_copier run_copier;

/* The n-th copy of a lane, from 1. A number of 0 is no copy: waiting for it takes no time. */
typedef struct run_ticket {
    uint64_t number;
    unsigned lane;
} run_ticket;

typedef enum run_direction { RUN_OUT = 0, RUN_IN = 1 } run_direction;

/* `capacity`: the most copies that may be under way at once. */
neap_status neap_run_copier_create(neap_allocator *allocator, bool duplex, size_t capacity,
                                   run_copier **copier, neap_diag *diag);
/* Ends all copies first. */
void neap_run_copier_destroy(run_copier *copier);

/* Starts a copy, after another one has ended. */
run_ticket neap_run_copier_start(run_copier *copier, run_direction direction, void *to,
                                 const void *from, size_t bytes, run_ticket after);
/* Returns when it has ended. True if that was not yet so. */
bool neap_run_copier_wait(run_copier *copier, run_ticket ticket);

#endif
