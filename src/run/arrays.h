/*
 * The memory layout of each value of a graph: its strides and its offset in its storage.
 *
 * A value with its own storage is row-major, or channels-last if the backend prefers that for
 * images or for filters. Values of rank 4 are filters if they are parameters, their gradients or
 * their state, and images otherwise. The strides of
 * a view follow from the op that makes it (reshape, slice, split). If channels-last strides cannot
 * express a reshape, its storage becomes row-major; the flattening before a classifier is an
 * example. The two values of an in_place mark have the same strides.
 */
#ifndef NEAP_RUN_ARRAYS_H
#define NEAP_RUN_ARRAYS_H

#include "run/backend.h"

typedef struct run_arrays {
    run_array *items; /* by value */
    int64_t *begins;  /* by value: bytes from the start of its storage to its first element */
    uint32_t count;
    neap_allocator *allocator;
} run_arrays;

/*
 * Returns NEAP_UNSUPPORTED, and names the value, if a type or shape is unknown, if the bytes do not
 * match the shape, or if strides cannot express a view. Clear `arrays` after a failure too.
 */
neap_status neap_run_arrays_init(neap_allocator *allocator, const neap_graph *graph,
                                 const neap_backend *backend, run_arrays *arrays, neap_diag *diag);
void neap_run_arrays_clear(run_arrays *arrays);

#endif
