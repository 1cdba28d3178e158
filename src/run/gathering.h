/*
 * The arrays of a gather side by side: x has V positions on the axis, y the dimensions of the
 * indices in its place.
 */
#ifndef NEAP_RUN_GATHERING_H
#define NEAP_RUN_GATHERING_H

#include "run/backend.h"

/* x at position 0 of the axis, in the shape of y: it repeats along the indices' dimensions. */
run_array neap_run_gathered_rest(const run_array *x, const run_array *indices, uint32_t axis);
/* The indices in the shape of y: they repeat along the dimensions of x. */
run_array neap_run_gathered_indices(const run_array *indices, const run_array *y, uint32_t axis);
/* y at the first index, in the shape of x: it repeats along the axis. */
run_array neap_run_gathered_source(const run_array *y, const run_array *indices, const run_array *x,
                                   uint32_t axis);

#endif
