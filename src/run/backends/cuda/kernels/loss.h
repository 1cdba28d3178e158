/*
 * Cross-entropy, whole and in two halves. The classes of a row are x_step apart. Long rows have a
 * block each; of short ones, a row is done by 2^lanes_log2 threads of a warp.
 *
 * The losses of rows are summed by block into the workspace, the blocks by loss_mean.
 */
#ifndef NEAP_CUDA_KERNELS_LOSS_H
#define NEAP_CUDA_KERNELS_LOSS_H

#include "row_walk.h"

#define LOSS_THREADS 256 /* of a block with several rows */

typedef struct loss_params {
    const void *x;  /* logits or logp */
    const void *dy; /* dlogp */
    void *out;      /* logp, dlogits or dlogp */
    const void *labels;
    float *lse;  /* xent_bw: read only */
    float *loss; /* dloss where it is an input */
    float *partials;
    i32 *trouble;
    row_walk x_rows, dy_rows, out_rows, label_rows, lse_rows;
    i64 x_step, dy_step, out_step;
    i64 rows;
    i32 classes;
    i32 lanes_log2;
    i32 wide_labels; /* i64, otherwise i32 */
    i32 whole;       /* classes are neighbours, and addresses multiples of 16 */
    i32 parts;       /* of partials */
    float share;     /* one row's share of the mean */
} loss_params;

#endif
