#ifndef NEAP_CUDA_RESIZE_H
#define NEAP_CUDA_RESIZE_H

#include "image.h"

/*
 * Output o lies at (scale * o + offset) / divisor of the input, held at the edges: bilinear_span of
 * the ref backend, in integers.
 */
typedef struct resize_side {
    i32 inputs, outputs;
    i64 scale, offset;
    i64 divisor;
    image_divisor by_divisor, by_scale; /* used where 31 bits are enough */
    float share;                        /* 1 / divisor */
} resize_side;

typedef struct resize_params {
    image_walk walk; /* over the result */
    void *x, *y;
    image_strides x_strides, y_strides;
    resize_side h, w;
} resize_params;

#endif
