/* Parameters of gather and its gradient. */
#ifndef NEAP_CUDA_KERNELS_GATHER_H
#define NEAP_CUDA_KERNELS_GATHER_H

#include "walk.h"

typedef struct gather_params {
    walk walk; /* operands: y; x, at position 0 of the axis; the indices */
    const void *x, *indices;
    void *y;
    i64 axis_step; /* of x */
    i64 entries;   /* of the axis */
    i32 is_i64;
    i32 *trouble;
} gather_params;

typedef struct gather_bw_params {
    walk walk; /* operands: dx; dy, at the first index; the position along the axis */
    const void *dy;
    void *dx;
    const u32 *keys, *positions; /* the indices, sorted */
    i64 count;                   /* of the indices */
    i64 first;                   /* position along the axis of the walk's first unit */
    /* Where dy goes on from one index to the next, in row-major order. */
    i32 rank;
    i64 shape[MOST_DIMS], strides[MOST_DIMS];
} gather_bw_params;

#endif
