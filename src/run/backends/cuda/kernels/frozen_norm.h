/* Parameters of batch normalisation by given statistics. Steps go from a channel to the next. */
#ifndef NEAP_CUDA_KERNELS_FROZEN_NORM_H
#define NEAP_CUDA_KERNELS_FROZEN_NORM_H

#include "walk.h"

#define FROZEN_THREADS 256

/* y = (x - mean) / sqrt(variance + epsilon) gamma + beta; without a mean and beta, the gradient. */
typedef struct frozen_params {
    walk walk; /* operands: y, x, the number of the channel */
    const void *x, *gamma, *beta;
    const float *mean, *variance;
    void *y;
    i64 gamma_step, beta_step, mean_step, variance_step;
    i64 first; /* channel of the walk's first unit */
    float epsilon;
} frozen_params;

/* The sum of dy (x - mean) / sqrt(variance + epsilon) over the rows of each channel. */
typedef struct frozen_weight_params {
    walk rows; /* operands: dy, x; any length */
    const void *dy, *x;
    const float *mean, *variance;
    void *dgamma;
    float *partial; /* of each part, of each channel; NULL: there is one part */
    i64 dy_channel, x_channel, mean_step, variance_step, dgamma_step;
    i64 channels;
    i64 part_rows; /* of a part, blockIdx.y; the last may have fewer */
    i32 parts;
    i32 lanes; /* neighbouring threads that have a channel each; a power of two */
    float epsilon;
} frozen_weight_params;

#endif
