/* Parameters of kernels/gemm.cu. */
#ifndef NEAP_CUDA_KERNELS_GEMM_H
#define NEAP_CUDA_KERNELS_GEMM_H

#include "types.h"

#define GEMM_THREADS 256
/* Threads of a block of column sums: columns next to each other, and rows. */
#define GEMM_SUM_LANES   32
#define GEMM_SUM_STRANDS 8

/* Where elements of one index of a matrix lie: index i, counted row-major over the dimensions. */
typedef struct gemm_axis {
    i64 shape[MOST_DIMS - 1]; /* of all but the outermost, shape[0] */
    i64 strides[MOST_DIMS - 1];
    i32 dims; /* at least 1; 1: i * strides[0] */
} gemm_axis;

/* How a tile of an operand is read: which of its two indices neighbouring threads step along, and
   whether each reads 16 bytes at once. */
typedef enum gemm_mode { GEMM_OUTER, GEMM_OUTER_VECTORS, GEMM_INNER, GEMM_INNER_VECTORS } gemm_mode;

/* The outer index is the one of the result (m of a, n of b), the inner one is k. */
typedef struct gemm_operand {
    const void *at;
    i64 batch; /* the stride of matrices */
    gemm_axis outer, inner;
    i32 mode; /* gemm_mode */
} gemm_operand;

/* d[m, n] = the sum over k of a[m, k] b[k, n], plus bias[n]. */
typedef struct gemm_params {
    gemm_operand a, b;
    void *d;
    gemm_axis dm, dn;
    i64 d_batch;
    const void *bias; /* or NULL */
    i64 bias_stride;
    float *partial; /* [splits, m, n] if there are several, to be summed up by gemm_finish */
    i64 m, n, k;
    i64 chunk; /* of k, for one of the splits (blockIdx.y): a multiple of the tile's depth */
    i64 tiles_m, tiles_n;
    i32 vectors; /* four elements of d at once */
} gemm_params;

/* d[m, n] = the sum over the splits of partial, plus bias[n]. */
typedef struct gemm_finish_params {
    const float *partial;
    void *d;
    gemm_axis dm, dn;
    const void *bias; /* or NULL */
    i64 bias_stride;
    i64 m, n, splits;
} gemm_finish_params;

/* The sum over rows of x[row, column]. */
typedef struct gemm_sums_params {
    const void *x;
    gemm_axis row, column;
    i64 rows, columns;
    i64 chunk;      /* rows of a block (blockIdx.y) */
    float *partial; /* [chunks, columns]; NULL: there is one chunk, whose sums are the result */
    void *sums;
    i64 sum_stride;
    i32 vectors; /* a thread reads 16 bytes of a row at once */
} gemm_sums_params;

#endif
