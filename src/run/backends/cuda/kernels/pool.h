#ifndef NEAP_CUDA_POOL_H
#define NEAP_CUDA_POOL_H

#include "image.h"

enum { POOL_U8, POOL_I32, POOL_I64 }; /* types of indices; i64 counts pixels of the plane */

/* Rows or columns. */
typedef struct pool_side {
    i32 image, pooled; /* extents */
    i32 kernel, stride, pad;
    image_divisor by_stride, by_image, by_pooled;
} pool_side;

typedef struct pool_params {
    image_walk walk; /* over the result */
    void *image_at, *pooled_at, *indices_at;
    image_strides image, pooled, indices;
    pool_side h, w;
    i32 index_type;
    i32 packed;       /* a vector's indices are of type u8 and can be accessed at once */
    i32 most_windows; /* that hold a row or column of the image */
    i32 adaptive;
    i32 count_padding;
    i32 *trouble;
    i32 channels;
} pool_params;

#endif
