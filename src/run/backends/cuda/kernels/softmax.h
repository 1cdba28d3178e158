/* Parameters of softmax along an axis: rows of elements that are a step apart. */
#ifndef NEAP_CUDA_KERNELS_SOFTMAX_H
#define NEAP_CUDA_KERNELS_SOFTMAX_H

#include "row_walk.h"

#define SOFTMAX_THREADS      256
#define SOFTMAX_THREADS_LOG2 8

typedef struct softmax_params {
    const void *x;  /* forward: the operand; backward: y */
    const void *dy; /* backward */
    void *out;
    row_walk x_rows, dy_rows, out_rows;
    i64 x_step, dy_step, out_step;
    i64 rows, length;
    i32 lanes_log2; /* threads that share a row: of a warp, or all of the block */
} softmax_params;

#endif
