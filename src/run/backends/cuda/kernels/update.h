#ifndef NEAP_CUDA_UPDATE_H
#define NEAP_CUDA_UPDATE_H

#include "types.h"

enum { UPDATE_F32, UPDATE_BF16, UPDATE_F16, UPDATE_F64 };

/* Elements that each thread of update_plain does at once. */
#define UPDATE_WIDTH 4

typedef struct update_operand {
    void *at; /* NULL: the op does not have it */
    i64 strides[MOST_DIMS];
    i32 type;
} update_operand;

/* neap/optimizer.h */
typedef struct update_params {
    i64 elements;
    i64 shape[MOST_DIMS];
    i32 rank;
    i32 adam; /* else SGD */
    update_operand w, g, m, v, master, sum;
    update_operand step, scale;
    double momentum, weight_decay, beta1, beta2, epsilon;
    i32 decoupled;
    i32 near_end, keeps, decays; /* the case of adam_loop in run/optimizer.c */
} update_params;

/* neap_run_statistics */
typedef struct statistics_params {
    update_operand mean, variance, batch_mean, invstd;
    i64 channels;
    double momentum, epsilon;
} statistics_params;

/* ---- The norm of gradients ---- */

#define CLIP_BATCH   64    /* gradients of a launch */
#define CLIP_BLOCK   16384 /* elements that a block sums up */
#define CLIP_THREADS 256

/* Gradients without gaps. Block first[i] and those behind it are of gradient i. */
typedef struct clip_params {
    const void *at[CLIP_BATCH];
    i64 elements[CLIP_BATCH];
    i32 first[CLIP_BATCH + 1];
    i32 type[CLIP_BATCH];
    i32 count;
    double *sums; /* one for each block */
} clip_params;

/* One gradient of any strides. */
typedef struct clip_strided_params {
    update_operand gradient;
    i64 shape[MOST_DIMS];
    i64 elements;
    i32 rank;
    double *sums;
} clip_strided_params;

typedef struct clip_scale_params {
    const double *sums;
    float *scale;
    i64 count;
    double norm;
} clip_scale_params;

#endif
