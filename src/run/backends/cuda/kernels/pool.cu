/*
 * Pooling of images. Backward, every pixel of the image gathers from the windows that it is in, one
 * after the other, so that the order of additions is always the same.
 */
#include "pool.h"
#include "image.cuh"

typedef struct pool_range {
    i32 begin, end;
} pool_range;

/* The windows of one side that hold position i. */
DEVICE pool_range pool_windows_over(const pool_side *s, i32 i)
{
    pool_range r;
    i32 first = i + s->pad - s->kernel + 1;
    i32 end = (i32)image_quotient((u32)(i + s->pad), s->by_stride) + 1;
    r.begin = first > 0 ? (i32)image_quotient((u32)(first + s->stride - 1), s->by_stride) : 0;
    r.end = end < s->pooled ? end : s->pooled;
    return r;
}

/* ---- Indices ---- */

/* The indices of a vector, the first in the lowest byte: in words they take fewer registers. */
typedef struct ALIGNED(VECTOR) pool_bytes {
    u32 words[4 / sizeof(T)];
} pool_bytes;

DEVICE i32 pool_byte(pool_bytes bytes, int k)
{
    return (i32)(bytes.words[k / 4] >> k % 4 * 8 & 255);
}

DEVICE i64 pool_index_at(const pool_params *p, i64 at)
{
    if (p->index_type == POOL_U8)
        return ((const u8 *)p->indices_at)[at];
    if (p->index_type == POOL_I32)
        return ((const i32 *)p->indices_at)[at];
    return ((const i64 *)p->indices_at)[at];
}

DEVICE void pool_set_index(const pool_params *p, i64 at, i64 index)
{
    if (p->index_type == POOL_U8)
        ((u8 *)p->indices_at)[at] = (u8)index;
    else if (p->index_type == POOL_I32)
        ((i32 *)p->indices_at)[at] = (i32)index;
    else
        ((i64 *)p->indices_at)[at] = index;
}

/* The index of the window's element `in_window`. */
DEVICE i64 pool_saved_index(const pool_params *p, i32 in_window, i32 top, i32 left)
{
    if (p->index_type != POOL_I64)
        return in_window;
    i32 row = in_window / p->w.kernel;
    return (i64)(top + row) * p->w.image + left + in_window - row * p->w.kernel;
}

DEVICE void pool_save_indices(const pool_params *p, image_place at, const i32 *in_window, int width)
{
    i64 to = image_offset(p->indices, at.n, at.c, at.h, at.w);
    i32 top = at.h * p->h.stride - p->h.pad, left = at.w * p->w.stride - p->w.pad;
    if (width > 1 && p->packed) {
        pool_bytes bytes;
        UNROLL for (int k = 0; k < VECTOR; k += 4)
            bytes.words[k / 4] = (u32)in_window[k] | (u32)in_window[k + 1] << 8 |
                                 (u32)in_window[k + 2] << 16 | (u32)in_window[k + 3] << 24;
        *(pool_bytes *)((u8 *)p->indices_at + to) = bytes;
        return;
    }
    UNROLL for (int k = 0; k < width; k++)
        pool_set_index(p, to + k * p->indices.c, pool_saved_index(p, in_window[k], top, left));
}

/* ---- Max pooling ---- */

#define POOL_AHEAD 3 /* elements of a row that are fetched at once */

/* The kernel's extents are arguments so that they can be constants. */
DEVICE void max_pool_window(const pool_params *p, image_place at, int width, i32 kernel_h,
                            i32 kernel_w)
{
    const T *x = (const T *)p->image_at + at.n * p->image.n + at.c * p->image.c;
    i32 top = at.h * p->h.stride - p->h.pad, left = at.w * p->w.stride - p->w.pad;
    i32 first = (top < 0 ? -top : 0) * kernel_w + (left < 0 ? -left : 0);
    float best[VECTOR];
    i32 index[VECTOR];
    UNROLL for (int k = 0; k < width; k++)
    {
        best[k] = bits_float(0xff800000u); /* minus infinity */
        index[k] = first;
    }
    UNROLL for (i32 r = 0; r < kernel_h; r++)
    {
        if ((u32)(top + r) >= (u32)p->h.image)
            continue;
        const T *row = x + (top + r) * p->image.h;
        UNROLL for (i32 s = 0; s < kernel_w; s += POOL_AHEAD)
        {
            vector fetched[POOL_AHEAD];
            UNROLL for (int j = 0; j < POOL_AHEAD; j++)
                if (s + j < kernel_w && (u32)(left + s + j) < (u32)p->w.image)
                    fetched[j] = image_fetch(row + (left + s + j) * p->image.w, width);
            UNROLL for (int j = 0; j < POOL_AHEAD; j++)
            {
                bool inside = s + j < kernel_w && (u32)(left + s + j) < (u32)p->w.image;
                UNROLL for (int k = 0; k < width && inside; k++)
                {
                    /* As PyTorch does, the last that is not a number wins. */
                    float number = from_t(fetched[j].e[k]);
                    bool take = number > best[k] || number != number;
                    best[k] = take ? number : best[k];
                    index[k] = take ? r * kernel_w + s + j : index[k];
                }
            }
        }
    }
    image_store((T *)p->pooled_at + image_offset(p->pooled, at.n, at.c, at.h, at.w), best, width);
    pool_save_indices(p, at, index, width);
}

DEVICE void max_pool_at(const pool_params *p, image_place at, int width)
{
    if (p->h.kernel == 3 && p->w.kernel == 3)
        max_pool_window(p, at, width, 3, 3);
    else if (p->h.kernel == 2 && p->w.kernel == 2)
        max_pool_window(p, at, width, 2, 2);
    else
        max_pool_window(p, at, width, p->h.kernel, p->w.kernel);
}

IMAGE_KERNELS(max_pool, pool_params)

/* Adds what the windows over a pixel took from it. */
DEVICE void pool_gather(const pool_params *p, image_place at, pool_range rows, pool_range columns,
                        float *sum)
{
    for (i32 i = rows.begin; i < rows.end; i++)
        for (i32 j = columns.begin; j < columns.end; j++) {
            i32 r = at.h + p->h.pad - i * p->h.stride, s = at.w + p->w.pad - j * p->w.stride;
            i64 here = p->index_type == POOL_I64 ? (i64)at.h * p->w.image + at.w
                                                 : (i64)(r * p->w.kernel + s);
            i64 index = pool_index_at(p, image_offset(p->indices, at.n, at.c, i, j));
            float number =
                load((const T *)p->pooled_at, image_offset(p->pooled, at.n, at.c, i, j));
            sum[0] += index == here ? number : 0.0f;
        }
}

/* Vectors of indices, and at most `most` windows on each side, a constant: all are fetched, then
   added in the order of pool_gather. */
DEVICE void pool_gather_few(const pool_params *p, image_place at, pool_range rows,
                            pool_range columns, float *sum, int most)
{
    const T *dy = (const T *)p->pooled_at + image_offset(p->pooled, at.n, at.c, rows.begin,
                                                         columns.begin);
    const u8 *indices = (const u8 *)p->indices_at + image_offset(p->indices, at.n, at.c,
                                                                 rows.begin, columns.begin);
    i32 here = (at.h + p->h.pad - rows.begin * p->h.stride) * p->w.kernel + at.w + p->w.pad -
               columns.begin * p->w.stride;
    vector fetched[4];
    pool_bytes bytes[4];
    UNROLL for (int a = 0; a < most * most; a++)
        if (rows.begin + a / most < rows.end && columns.begin + a % most < columns.end) {
            fetched[a] =
                image_fetch(dy + a / most * p->pooled.h + a % most * p->pooled.w, VECTOR);
            bytes[a] = *(const pool_bytes *)(indices + a / most * p->indices.h +
                                             a % most * p->indices.w);
        }
    UNROLL for (int a = 0; a < most * most; a++)
        if (rows.begin + a / most < rows.end && columns.begin + a % most < columns.end) {
            i32 index = here - a / most * p->h.stride * p->w.kernel - a % most * p->w.stride;
            UNROLL for (int k = 0; k < VECTOR; k++)
                sum[k] += pool_byte(bytes[a], k) == index ? from_t(fetched[a].e[k]) : 0.0f;
        }
}

/* The gradient of max pooling, and max-unpooling by indices in windows. Vectors are for packed
   indices and at most two windows on each side. */
DEVICE void max_scatter_at(const pool_params *p, image_place at, int width)
{
    pool_range rows = pool_windows_over(&p->h, at.h), columns = pool_windows_over(&p->w, at.w);
    float sum[VECTOR];
    UNROLL for (int k = 0; k < width; k++) sum[k] = 0.0f;
    if (width == 1)
        pool_gather(p, at, rows, columns, sum);
    else if (p->most_windows == 1)
        pool_gather_few(p, at, rows, columns, sum, 1);
    else
        pool_gather_few(p, at, rows, columns, sum, 2);
    image_store((T *)p->image_at + image_offset(p->image, at.n, at.c, at.h, at.w), sum, width);
}

IMAGE_KERNELS(max_scatter, pool_params)

/* ---- Max-unpooling ---- */

/* Indices in the plane may point anywhere, several to one pixel: a thread does a plane. */
KERNEL(max_unpool_planes, pool_params)
{
    i64 planes = p.walk.items;
    for (i64 plane = global_thread(); plane < planes; plane += global_threads()) {
        i64 n = plane / p.channels, c = plane % p.channels;
        i64 pixels = (i64)p.h.image * p.w.image;
        T *y = (T *)p.image_at + image_offset(p.image, n, c, 0, 0);
        for (i32 h = 0; h < p.h.image; h++)
            for (i32 w = 0; w < p.w.image; w++)
                y[h * p.image.h + w * p.image.w] = to_t(0.0f);
        for (i32 i = 0; i < p.h.pooled; i++)
            for (i32 j = 0; j < p.w.pooled; j++) {
                i64 index = pool_index_at(&p, image_offset(p.indices, n, c, i, j));
                if (index < 0 || index >= pixels) {
                    *p.trouble = 1;
                    continue;
                }
                T *to = y + index / p.w.image * p.image.h + index % p.w.image * p.image.w;
                *to = to_t(from_t(*to) +
                           load((const T *)p.pooled_at, image_offset(p.pooled, n, c, i, j)));
            }
    }
}

/* The gradient of the pixel that the index of channel c means; 0 in the padding. */
DEVICE float pool_taken(const pool_params *p, image_place at, i64 c)
{
    i64 index = pool_index_at(p, image_offset(p->indices, at.n, c, at.h, at.w)), row, column;
    bool in_plane = p->index_type == POOL_I64;
    i64 limit = in_plane ? (i64)p->h.image * p->w.image : (i64)p->h.kernel * p->w.kernel;
    if (index < 0 || index >= limit) {
        *p->trouble = 1;
        return 0.0f;
    }
    if (in_plane) {
        row = index / p->w.image;
        column = index - row * p->w.image;
    } else {
        i32 r = (i32)index / p->w.kernel;
        row = at.h * p->h.stride - p->h.pad + r;
        column = at.w * p->w.stride - p->w.pad + (i32)index - r * p->w.kernel;
    }
    if (row < 0 || row >= p->h.image || column < 0 || column >= p->w.image)
        return 0.0f;
    return load((const T *)p->image_at, image_offset(p->image, at.n, c, row, column));
}

/* Windows of 2 x 2, whose vectors are all fetched. */
DEVICE void pool_take_of_four(const pool_params *p, image_place at, float *taken)
{
    const T *dy = (const T *)p->image_at + at.n * p->image.n + at.c;
    i32 top = at.h * p->h.stride - p->h.pad, left = at.w * p->w.stride - p->w.pad;
    pool_bytes bytes = *(const pool_bytes *)((const u8 *)p->indices_at +
                                             image_offset(p->indices, at.n, at.c, at.h, at.w));
    vector fetched[4];
    UNROLL for (int a = 0; a < 4; a++)
    {
        i32 h = top + a / 2, w = left + a % 2;
        fetched[a] = image_zeros();
        if ((u32)h < (u32)p->h.image && (u32)w < (u32)p->w.image)
            fetched[a] = image_fetch(dy + h * p->image.h + w * p->image.w, VECTOR);
    }
    bool wrong = false;
    UNROLL for (int k = 0; k < VECTOR; k++)
    {
        taken[k] = 0.0f;
        wrong |= pool_byte(bytes, k) >= 4;
    }
    UNROLL for (int a = 0; a < 4; a++)
        UNROLL for (int k = 0; k < VECTOR; k++)
            taken[k] += pool_byte(bytes, k) == a ? from_t(fetched[a].e[k]) : 0.0f;
    if (wrong)
        *p->trouble = 1;
}

/* Vectors are for packed indices and windows of 2 x 2. */
DEVICE void max_unpool_bw_at(const pool_params *p, image_place at, int width)
{
    float taken[VECTOR];
    if (width > 1)
        pool_take_of_four(p, at, taken);
    else
        taken[0] = pool_taken(p, at, at.c);
    image_store((T *)p->pooled_at + image_offset(p->pooled, at.n, at.c, at.h, at.w), taken, width);
}

IMAGE_KERNELS(max_unpool_bw, pool_params)

/* ---- Average pooling ---- */

/* The part of window o inside the image. */
DEVICE pool_range pool_mean_window(const pool_side *s, i32 o, i32 adaptive)
{
    pool_range r;
    if (adaptive) {
        r.begin = image_ratio(o, s->image, s->by_pooled);
        r.end = image_ratio(o + 1, s->image, s->by_pooled);
        r.end += (i64)r.end * s->pooled < (i64)(o + 1) * s->image;
        return r;
    }
    i32 begin = o * s->stride - s->pad, end = begin + s->kernel;
    r.begin = begin > 0 ? begin : 0;
    r.end = end < s->image ? end : s->image;
    return r;
}

/* 1 over what divides a window's sum, on one side. */
DEVICE float pool_share(const pool_side *s, i32 o, pool_range window, i32 count_padding)
{
    if (!count_padding)
        return 1.0f / (float)(window.end - window.begin);
    i32 begin = o * s->stride - s->pad, end = begin + s->kernel, last = s->image + s->pad;
    return 1.0f / (float)((end < last ? end : last) - begin);
}

#define POOL_MEAN_AHEAD 4 /* elements of a row that are fetched at once */

/* The sum of a row's elements from `begin` to `end`. */
DEVICE void pool_row_sum(const T *row, i64 step, i32 begin, i32 end, float *sum, int width)
{
    UNROLL for (int k = 0; k < width; k++) sum[k] = 0.0f;
    for (i32 w = begin; w < end; w += POOL_MEAN_AHEAD) {
        vector fetched[POOL_MEAN_AHEAD];
        UNROLL for (int j = 0; j < POOL_MEAN_AHEAD; j++)
        {
            fetched[j] = image_zeros();
            if (w + j < end)
                fetched[j] = image_fetch(row + (w + j) * step, width);
        }
        UNROLL for (int j = 0; j < POOL_MEAN_AHEAD; j++)
            UNROLL for (int k = 0; k < width; k++) sum[k] += from_t(fetched[j].e[k]);
    }
}

/* Each row is summed by itself: shorter sums, and so smaller errors, in large windows. */
DEVICE void mean_pool_at(const pool_params *p, image_place at, int width)
{
    pool_range rows = pool_mean_window(&p->h, at.h, p->adaptive),
               columns = pool_mean_window(&p->w, at.w, p->adaptive);
    const T *x = (const T *)p->image_at + at.n * p->image.n + at.c * p->image.c;
    float share = pool_share(&p->h, at.h, rows, p->count_padding) *
                  pool_share(&p->w, at.w, columns, p->count_padding);
    float sum[VECTOR], along[VECTOR];
    UNROLL for (int k = 0; k < width; k++) sum[k] = 0.0f;
    for (i32 h = rows.begin; h < rows.end; h++) {
        pool_row_sum(x + h * p->image.h, p->image.w, columns.begin, columns.end, along, width);
        UNROLL for (int k = 0; k < width; k++) sum[k] += along[k];
    }
    UNROLL for (int k = 0; k < width; k++) sum[k] *= share;
    image_store((T *)p->pooled_at + image_offset(p->pooled, at.n, at.c, at.h, at.w), sum, width);
}

IMAGE_KERNELS(mean_pool, pool_params)

/* The windows of one side that hold position i. Adaptive windows seen from the image are those of
   the other direction: both are where [o, o + 1] and [i, i + 1] meet, on the scale of the other. */
DEVICE pool_range pool_mean_windows_over(const pool_side *s, i32 i, i32 adaptive)
{
    pool_range r;
    if (!adaptive)
        return pool_windows_over(s, i);
    r.begin = image_ratio(i, s->pooled, s->by_image);
    r.end = image_ratio(i + 1, s->pooled, s->by_image);
    r.end += (i64)r.end * s->image < (i64)(i + 1) * s->pooled;
    return r;
}

/* Adds the shares of up to POOL_AHEAD windows of a row, from column j on. */
DEVICE void pool_add_shares(const pool_params *p, const T *row, i32 j, i32 end, float *sum,
                            int width)
{
    vector fetched[POOL_AHEAD];
    UNROLL for (int a = 0; a < POOL_AHEAD; a++)
    {
        fetched[a] = image_zeros();
        if (j + a < end)
            fetched[a] = image_fetch(row + (j + a) * p->pooled.w, width);
    }
    UNROLL for (int a = 0; a < POOL_AHEAD; a++)
    {
        if (j + a >= end)
            continue;
        pool_range window = pool_mean_window(&p->w, j + a, p->adaptive);
        float share = pool_share(&p->w, j + a, window, p->count_padding);
        UNROLL for (int k = 0; k < width; k++) sum[k] += share * from_t(fetched[a].e[k]);
    }
}

DEVICE void mean_pool_bw_at(const pool_params *p, image_place at, int width)
{
    pool_range rows = pool_mean_windows_over(&p->h, at.h, p->adaptive),
               columns = pool_mean_windows_over(&p->w, at.w, p->adaptive);
    const T *dy = (const T *)p->pooled_at + at.n * p->pooled.n + at.c * p->pooled.c;
    float sum[VECTOR], along[VECTOR];
    UNROLL for (int k = 0; k < width; k++) sum[k] = 0.0f;
    for (i32 i = rows.begin; i < rows.end; i++) {
        float row_share =
            pool_share(&p->h, i, pool_mean_window(&p->h, i, p->adaptive), p->count_padding);
        UNROLL for (int k = 0; k < width; k++) along[k] = 0.0f;
        for (i32 j = columns.begin; j < columns.end; j += POOL_AHEAD)
            pool_add_shares(p, dy + i * p->pooled.h, j, columns.end, along, width);
        UNROLL for (int k = 0; k < width; k++) sum[k] += row_share * along[k];
    }
    image_store((T *)p->image_at + image_offset(p->image, at.n, at.c, at.h, at.w), sum, width);
}

IMAGE_KERNELS(mean_pool_bw, pool_params)
