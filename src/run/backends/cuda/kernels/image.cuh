/* Going through images (image.h). */
#ifndef NEAP_CUDA_IMAGE_CUH
#define NEAP_CUDA_IMAGE_CUH

#include "image.h"
#include "prelude.cuh"

/* Granlund and Montgomery; x is below 2^31. */
DEVICE u32 image_quotient(u32 x, image_divisor d)
{
    return ((u32)((u64)x * d.magic >> 32) + x) >> d.shift;
}

/* a * b / d, rounded down. */
DEVICE i32 image_ratio(i32 a, i32 b, image_divisor d)
{
    u64 product = (u64)(u32)a * (u32)b;
    return (i32)(product >> 31 ? product / d.divisor : image_quotient((u32)product, d));
}

typedef struct image_place {
    i64 n;
    i32 c, h, w; /* c: the first of the item's channels */
} image_place;

DEVICE i32 image_next(i64 *rest, image_divisor d, i32 wide)
{
    i64 quotient =
        wide ? *rest / (i64)d.divisor : (i64)image_quotient((u32)*rest, d);
    i32 digit = (i32)(*rest - quotient * (i64)d.divisor);
    *rest = quotient;
    return digit;
}

/* Items have `width` channels. */
DEVICE image_place image_place_of(const image_walk *walk, i64 item, int width)
{
    image_place place;
    i32 a = image_next(&item, walk->by[0], walk->wide);
    i32 b = image_next(&item, walk->by[1], walk->wide);
    i32 c = image_next(&item, walk->by[2], walk->wide);
    place.n = item;
    place.c = (walk->channels_inner ? a : c) * width;
    place.w = walk->channels_inner ? b : a;
    place.h = walk->channels_inner ? c : b;
    return place;
}

/* Of channel c. */
DEVICE i64 image_offset(image_strides s, i64 n, i64 c, i64 h, i64 w)
{
    return n * s.n + c * s.c + h * s.h + w * s.w;
}

/*
 * `width` is 1 or VECTOR, a constant. Where several accesses should be under way at once, they are
 * all fetched before the first is converted.
 */
DEVICE vector image_fetch(const T *from, int width)
{
    vector v;
    if (width > 1)
        return *(const vector *)from;
    UNROLL for (int k = 0; k < VECTOR; k++) v.e[k] = to_t(0.0f);
    v.e[0] = *from;
    return v;
}

DEVICE vector image_zeros(void)
{
    vector v;
    UNROLL for (int k = 0; k < VECTOR; k++) v.e[k] = to_t(0.0f);
    return v;
}

DEVICE void image_load(float *to, const T *from, int width)
{
    vector v = image_fetch(from, width);
    UNROLL for (int k = 0; k < width; k++) to[k] = from_t(v.e[k]);
}

DEVICE void image_store(T *to, const float *from, int width)
{
    vector v;
    if (width == 1) {
        *to = to_t(from[0]);
        return;
    }
    UNROLL for (int k = 0; k < VECTOR; k++) v.e[k] = to_t(from[k]);
    *(vector *)to = v;
}

/*
 * Two kernels, `name` with one channel for each item and `name`_vector with VECTOR: they call
 * name_at(params, place, width) for every item.
 */
#define IMAGE_KERNELS(name, params)                                                                \
    KERNEL(name, params)                                                                           \
    {                                                                                              \
        for (i64 i = global_thread(); i < p.walk.items; i += global_threads())                     \
            name##_at(&p, image_place_of(&p.walk, i, 1), 1);                                       \
    }                                                                                              \
    KERNEL(name##_vector, params)                                                                  \
    {                                                                                              \
        for (i64 i = global_thread(); i < p.walk.items; i += global_threads())                     \
            name##_at(&p, image_place_of(&p.walk, i, VECTOR), VECTOR);                             \
    }

#endif
