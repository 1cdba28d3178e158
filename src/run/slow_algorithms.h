/*
 * Algorithms that were very slow so far. Libraries have some that take seconds where others take
 * milliseconds; one that was very slow on a smaller op of the same type, and never was not, is not
 * tried on larger ones.
 */
#ifndef NEAP_RUN_SLOW_ALGORITHMS_H
#define NEAP_RUN_SLOW_ALGORITHMS_H

#include "run/backend.h"

typedef struct slow_algorithm {
    size_t type; /* of ops, by its number */
    uint32_t number;
    bool slow; /* each time so far */
} slow_algorithm;

typedef struct slow_algorithms {
    neap_allocator *allocator;
    slow_algorithm *items;
    size_t count, capacity;
} slow_algorithms;

void neap_slow_algorithms_clear(slow_algorithms *all);
/* Whether the algorithm of the spec's variant was very slow each time. */
neap_status neap_slow_algorithms_ask(const slow_algorithms *all, neap_backend *backend,
                                     const run_spec *spec, bool *slow, neap_diag *diag);
neap_status neap_slow_algorithms_note(slow_algorithms *all, neap_backend *backend,
                                      const run_spec *spec, bool slow, neap_diag *diag);

#endif
