/*
 * Layer normalisation. A row is done by a team of threads (whole warps) that keep it in registers,
 * LAYER_ELEMENTS each; a block is one team or more. Longer rows have a block each, which reads them
 * again for each pass. RMS normalisation has no mean, which is then 0, and no beta.
 */
#ifndef NEAP_CUDA_KERNELS_LAYER_NORM_H
#define NEAP_CUDA_KERNELS_LAYER_NORM_H

#include "row_walk.h"

#define LAYER_THREADS  512 /* of a block, at most */
#define LAYER_ELEMENTS 8   /* of a row that a thread keeps: VECTOR divides it */

typedef struct layer_norm_params {
    const void *x, *dy;
    void *out; /* y or dx; NULL: only dgamma and dbeta are wanted */
    const void *gamma, *beta;
    float *mean, *invstd; /* backward: read only; mean is NULL for RMS normalisation */
    void *dgamma, *dbeta;
    float *partials; /* backward [blocks][2][channels]: sums of dy z and dy of a block's rows */
    row_walk x_rows, dy_rows, out_rows, mean_rows, invstd_rows;
    i64 x_step, dy_step, out_step, gamma_step, beta_step, dgamma_step, dbeta_step;
    i64 rows, channels;
    i32 team;  /* threads of a row */
    i32 parts; /* of partials */
    float epsilon;
} layer_norm_params;

#endif
