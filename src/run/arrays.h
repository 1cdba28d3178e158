/*
 * How each value of a graph lies in memory: strides, and where on its storage it begins.
 *
 * A value with its own storage is row-major, or channels-last where the backend prefers that for
 * images. Values of rank 4 are images unless they are parameters or their gradients. Views follow
 * from the ops that make them (reshape, slice, split). A reshape that channels-last strides cannot
 * express makes its storage row-major: the flattening before a classifier, say.
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
 * NEAP_UNSUPPORTED names a value whose type or shape is not known, whose bytes are not those of its
 * shape, or a view that no strides express. Clear it in any case.
 */
neap_status neap_run_arrays_init(neap_allocator *allocator, const neap_graph *graph,
                                 bool channels_last, run_arrays *arrays, neap_diag *diag);
void neap_run_arrays_clear(run_arrays *arrays);

#endif
