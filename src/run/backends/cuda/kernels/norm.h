/*
 * Batch and group normalisation: an array is sets x rows x channels. For batch normalisation there
 * is one set, of all pixels of all images, and each channel is a group of its own; for group
 * normalisation a set is an image, and `width` channels share their statistics.
 *
 * Statistics and gradients are sums over rows in two stages: blocks leave sums of their rows in
 * the workspace ("partials"), and small kernels add them up.
 */
#ifndef NEAP_CUDA_KERNELS_NORM_H
#define NEAP_CUDA_KERNELS_NORM_H

#include "row_walk.h"

#define NORM_THREADS 256  /* of a block of all kernels but those of norm_finish.cu */
#define NORM_FINISH  8    /* channels of a block that adds up partials: 32 bytes */
#define NORM_SEGMENT 2048 /* elements of a plane that a warp takes at a time */

/*
 * Forward y = scale (x - center) + offset, backward dx = scale dy + slope (x - center) + offset.
 * The center is the mean: with it multiplied into the offset, channels whose mean is many standard
 * deviations from 0 would lose digits.
 */
typedef enum norm_coefficient {
    NORM_SCALE,
    NORM_OFFSET,
    NORM_SLOPE,
    NORM_CENTER,
    NORM_COEFFICIENTS
} norm_coefficient;

typedef struct norm_array {
    i64 set, channel; /* strides */
    row_walk rows;    /* of a set */
    i64 plane;        /* stride from one image of a set to the next, where planes are contiguous */
} norm_array;

typedef struct norm_params {
    const void *x, *dy;
    void *out; /* y or dx */
    const void *gamma, *beta;
    float *mean, *invstd; /* backward: read only */
    void *dgamma, *dbeta;
    /* Forward [sets][chunks][3][channels]: mean, sum of squares around it, count. Backward
       [sets][chunks][2][channels]: sums of dy and dy (x - mean). */
    float *partials;
    float *coefficients; /* [sets][NORM_COEFFICIENTS][channels] */
    norm_array x_at, dy_at, out_at;
    i64 gamma_step, beta_step, dgamma_step, dbeta_step;
    i64 mean_step[2], invstd_step[2]; /* by set and by group */
    i64 sets, rows, channels, groups, width;
    i64 images, plane; /* of a set; the pixels of an image: where planes are contiguous */
    i32 segments;      /* of a plane */
    i32 vectors;       /* planes: a thread takes vectors of pixels */
    i32 chunks;        /* into which the rows of a set are divided */
    i32 lanes_log2;    /* columns: threads of a block side by side in a row */
    i32 coefficients_wanted;
    float epsilon;
} norm_params;

#endif
