/*
 * How threads go through the elements of an image, and divisions by numbers that are known when a
 * kernel is planned. Set by images.h.
 */
#ifndef NEAP_CUDA_IMAGE_H
#define NEAP_CUDA_IMAGE_H

#include "types.h"

/* x / divisor for x below 2^31, as a product (image_quotient). */
typedef struct image_divisor {
    u32 divisor, magic, shift;
} image_divisor;

typedef struct image_strides {
    i64 n, c, h, w;
} image_strides;

/* Items are pixels, each with one channel or a vector of them. */
typedef struct image_walk {
    i64 items;
    image_divisor by[3]; /* the three innermost extents, the innermost first */
    i32 channels_inner;  /* N H W C instead of N C H W */
    i32 wide;            /* the items do not fit in 31 bits */
} image_walk;

#endif
