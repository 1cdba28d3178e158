/* Parameters of the mean of squared differences. */
#ifndef NEAP_CUDA_KERNELS_MSE_H
#define NEAP_CUDA_KERNELS_MSE_H

#include "walk.h"

#define MSE_THREADS 256

typedef struct mse_params {
    walk walk; /* operands: x, target; any length */
    const void *x, *target;
    float *partials; /* a sum for each block */
    float *loss;
    i32 parts;
    float share; /* one element's share of the mean */
} mse_params;

#endif
