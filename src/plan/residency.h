/*
 * Walks the steps of a plan and keeps what is resident: the one account of it outside the judge
 * (src/check), which has its own on purpose.
 *
 * A storage is live while a value on it is resident. After each step the walker says which storages
 * have become live and which one no longer is.
 */
#ifndef NEAP_PLAN_RESIDENCY_H
#define NEAP_PLAN_RESIDENCY_H

#include "base/arena.h"

#include <neap/plan.h>

typedef struct neap_residency {
    const neap_graph *graph;
    const char *prefix; /* of its messages */
    neap_diag *diag;
    neap_arena arena;
    bool *resident, *on_host; /* by value */
    bool *updated;            /* by storage: an op has overwritten it */
    bool *current;            /* by value: its copy on the host was made after that */
    bool *computed;           /* by op: an op with updates has run */
    uint32_t *holders;        /* by storage: the resident values on it */
    int64_t bytes;            /* fixed bytes and live storages */
    /* what the last step did; after the beginning: the inputs */
    uint32_t *began, n_began; /* storages that have become live, in order */
    uint32_t ended;           /* the storage that is no longer live, or NEAP_NONE */
    uint32_t passed_on;       /* the storage that the op has written its output over, or NEAP_NONE;
                                 the output's storage is in none of the lists then */
} neap_residency;

/* Before the first step: inputs are resident, except for state that is on the host at the start.
   Clear also after a failure. */
neap_status neap_residency_init(neap_residency *r, neap_allocator *allocator,
                                const neap_graph *graph, const neap_plan *plan, const char *prefix,
                                neap_diag *diag);
void neap_residency_clear(neap_residency *r);

/* Takes step number `at`; NEAP_INVALID says why it cannot be run. O(inputs and outputs). */
neap_status neap_residency_step(neap_residency *r, const neap_step *step, size_t at);

/* "step 3: free 7: why", NEAP_INVALID. */
neap_status neap_residency_fail(const neap_residency *r, const neap_step *step, size_t at,
                                const char *why);

#endif
