/* Parameters of sums, extremes and products over sets of axes. */
#ifndef NEAP_CUDA_KERNELS_AXES_H
#define NEAP_CUDA_KERNELS_AXES_H

#include "walk.h"

#define AXES_THREADS      256
#define AXES_THREADS_LOG2 8

/* A column is what becomes one element of the result; its elements are rows. */
typedef struct axes_params {
    const void *x;
    void *y;
    float *partial; /* of each part, of each column; NULL: there is one part */
    walk columns;   /* operands: x, y; any length */
    walk rows;      /* operand: x; any length */
    i64 part_rows;  /* of a part, blockIdx.y; the last may have fewer */
    i32 lanes_log2; /* threads that share a column: of a warp, or all of the block */
    float factor;   /* of the result */
} axes_params;

typedef struct axes_join_params {
    const float *partial;
    void *y;
    walk columns;
    i32 parts;
    float factor;
} axes_join_params;

typedef struct axes_bw_params {
    const void *dy, *x, *y;
    void *dx;
    walk columns; /* operands: x, dx, dy, y; any length */
    walk rows;    /* operands: x, dx; any length */
    i32 lanes_log2;
} axes_bw_params;

#endif
