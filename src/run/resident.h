/*
 * What of a block is really in memory, by the page tables of the system.
 *
 * Recording makes the resident memory of an arena follow the plan: whole pages of memory that is
 * freed go back to the system at once, and after each step of the plan the system is asked which
 * pages are resident. So the figures say what kernels touched, not what the plan says they need;
 * they are exact to a page at either end of each storage.
 */
#ifndef NEAP_RUN_RESIDENT_H
#define NEAP_RUN_RESIDENT_H

#include "run/block.h"

#include <neap/run.h>

typedef struct run_resident {
    const run_block *block;
    size_t page, n_pages;
    unsigned char *flags;    /* per page, as mincore sets them */
    neap_step_memory *steps; /* per step of the plan */
    size_t n_steps;
} run_resident;

/* Keeps the block on small pages. Clear it also after a failure. */
neap_status neap_run_resident_init(neap_allocator *allocator, const run_block *block,
                                   size_t n_steps, run_resident *resident, neap_diag *diag);
void neap_run_resident_clear(run_resident *resident, neap_allocator *allocator);

/* Returns the whole pages of a range to the system; their contents are lost. */
void neap_run_resident_release(const run_resident *resident, const void *data, int64_t bytes);
/* The resident bytes of the block now; -1 if the system does not say. */
int64_t neap_run_resident_bytes(const run_resident *resident);

#endif
