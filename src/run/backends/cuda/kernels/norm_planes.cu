/*
 * Batch and group normalisation where the pixels of a channel are neighbours in memory: a block has
 * one channel of a set, and its warps take segments of planes in turn.
 */
#include "norm.h"
#include "row_walk.cuh"

#define PLANE_WARPS (NORM_THREADS / WARP)
#define PLANE_TILE  (WARP * VECTOR) /* what a warp loads at a time */
#define PLANE_TILES 4               /* that are loaded before the first is used */

/* How a warp reads a tile. A lane has neighbours or not depending on sizes alone, so that sums do
   not depend on addresses. */
enum { PLANE_SCALARS, PLANE_UNALIGNED, PLANE_ALIGNED };

/* A segment of a plane. */
typedef struct plane_segment {
    i64 image, begin;
    int length;
} plane_segment;

DEVICE plane_segment planes_segment(const norm_params *p, i64 unit)
{
    plane_segment s;
    if ((u64)unit >> 32)
        s.image = unit / p->segments;
    else
        s.image = (i64)((u32)unit / (u32)p->segments);
    s.begin = (unit - s.image * p->segments) * NORM_SEGMENT;
    s.length = p->plane - s.begin < NORM_SEGMENT ? (int)(p->plane - s.begin) : NORM_SEGMENT;
    return s;
}

/* From an array's address to a segment of the block's channel. */
DEVICE i64 planes_at(const norm_array *a, i64 set, const plane_segment *s)
{
    return set * a->set + (i64)blockIdx.x * a->channel + s->image * a->plane + s->begin;
}

/* The first segment of a warp; the next are gridDim.y * PLANE_WARPS on. */
DEVICE i64 planes_first(void)
{
    return (i64)blockIdx.y * PLANE_WARPS + threadIdx.x / WARP;
}

DEVICE int planes_lane(void)
{
    return (int)threadIdx.x % WARP;
}

/* The lane's part of the tile that begins at t; `fill` where the segment has ended. */
DEVICE void planes_get(const T *x, int t, int length, int access, float fill, float *e)
{
    int at = t + (access == PLANE_SCALARS ? planes_lane() : planes_lane() * VECTOR);
    if (access == PLANE_ALIGNED && at < length)
        row_get_whole(x + at, e);
    else
        UNROLL
        for (int i = 0; i < VECTOR; i++) {
            int k = access == PLANE_SCALARS ? at + i * WARP : at + i;
            e[i] = access != PLANE_ALIGNED && k < length ? load(x, k) : fill;
        }
}

DEVICE void planes_put(T *y, int t, int length, int access, const float *e)
{
    int at = t + (access == PLANE_SCALARS ? planes_lane() : planes_lane() * VECTOR);
    if (access == PLANE_ALIGNED && at < length)
        row_put_whole(y + at, e);
    else
        UNROLL
        for (int i = 0; i < VECTOR; i++) {
            int k = access == PLANE_SCALARS ? at + i * WARP : at + i;
            if (access != PLANE_ALIGNED && k < length)
                store(y, k, e[i]);
        }
}

/* ---- Forward ---- */

/* The mean of a few elements of the block's first segment; as in norm_columns.cu. */
DEVICE float planes_shift(const norm_params *p, i64 set)
{
    plane_segment s = planes_segment(p, (i64)blockIdx.y * PLANE_WARPS);
    int lane = planes_lane(), step = s.length / WARP;
    const T *x = (const T *)p->x + planes_at(&p->x_at, set, &s);
    return warp_sum(load(x, step > 0 ? lane * step : lane % s.length)) * (1.0f / WARP);
}

DEVICE void planes_moments(const T *x, int length, int access, float shift, float *sum,
                           float *square)
{
    float a = 0, b = 0;
    for (int t = 0; t < length; t += PLANE_TILES * PLANE_TILE) {
        float e[PLANE_TILES][VECTOR];
        UNROLL
        for (int k = 0; k < PLANE_TILES; k++)
            planes_get(x, t + k * PLANE_TILE, length, access, shift, e[k]);
        UNROLL
        for (int k = 0; k < PLANE_TILES; k++)
            UNROLL
            for (int i = 0; i < VECTOR; i++) {
                float d = e[k][i] - shift;
                a += d;
                b += d * d;
            }
    }
    *sum += a;
    *square += b;
}

DEVICE void planes_moments_of(const norm_params *p, float *scratch, int access)
{
    i64 units = p->images * p->segments;
    for (i64 set = blockIdx.z; set < p->sets; set += gridDim.z) {
        float shift = planes_shift(p, set), sum = 0, square = 0, count = 0;
        for (i64 u = planes_first(); u < units; u += (i64)gridDim.y * PLANE_WARPS) {
            plane_segment s = planes_segment(p, u);
            const T *x = (const T *)p->x + planes_at(&p->x_at, set, &s);
            planes_moments(x, s.length, access, shift, &sum, &square);
            count += planes_lane() == 0 ? (float)s.length : 0.0f;
        }
        sum = block_sum(sum, scratch);
        square = block_sum(square, scratch);
        count = block_sum(count, scratch);
        if (threadIdx.x == 0) {
            float *partial =
                p->partials + (set * p->chunks + blockIdx.y) * 3 * p->channels + blockIdx.x;
            partial[0] = shift + sum / count;
            partial[p->channels] = square - sum * sum / count;
            partial[2 * p->channels] = count;
        }
    }
}

KERNEL_SYNC_OF(NORM_THREADS, 4, norm_moments_planes, norm_params)
{
    SHARED float scratch[WARP];
    planes_moments_of(&p, scratch, PLANE_ALIGNED);
}

KERNEL_SYNC_OF(NORM_THREADS, 1, norm_moments_planes_any, norm_params)
{
    SHARED float scratch[WARP];
    if (p.vectors)
        planes_moments_of(&p, scratch, PLANE_UNALIGNED);
    else
        planes_moments_of(&p, scratch, PLANE_SCALARS);
}

/* What a block must know of its channel. */
typedef struct plane_scales {
    float scale, offset, slope, center;
} plane_scales;

DEVICE plane_scales planes_scales(const norm_params *p, i64 set)
{
    plane_scales s;
    const float *from = p->coefficients + set * NORM_COEFFICIENTS * p->channels + blockIdx.x;
    s.scale = from[NORM_SCALE * p->channels];
    s.offset = from[NORM_OFFSET * p->channels];
    s.slope = from[NORM_SLOPE * p->channels];
    s.center = from[NORM_CENTER * p->channels];
    return s;
}

/* y may be x. */
DEVICE void planes_apply(const T *x, T *y, int length, int access, const plane_scales *s)
{
    for (int t = 0; t < length; t += PLANE_TILES * PLANE_TILE) {
        float e[PLANE_TILES][VECTOR];
        UNROLL
        for (int k = 0; k < PLANE_TILES; k++)
            planes_get(x, t + k * PLANE_TILE, length, access, 0.0f, e[k]);
        UNROLL
        for (int k = 0; k < PLANE_TILES; k++) {
            UNROLL
            for (int i = 0; i < VECTOR; i++)
                e[k][i] = (e[k][i] - s->center) * s->scale + s->offset;
            planes_put(y, t + k * PLANE_TILE, length, access, e[k]);
        }
    }
}

DEVICE void planes_apply_of(const norm_params *p, int access)
{
    i64 units = p->images * p->segments;
    for (i64 set = blockIdx.z; set < p->sets; set += gridDim.z) {
        plane_scales scales = planes_scales(p, set);
        for (i64 u = planes_first(); u < units; u += (i64)gridDim.y * PLANE_WARPS) {
            plane_segment s = planes_segment(p, units - 1 - u);
            const T *x = (const T *)p->x + planes_at(&p->x_at, set, &s);
            T *y = (T *)p->out + planes_at(&p->out_at, set, &s);
            planes_apply(x, y, s.length, access, &scales);
        }
    }
}

KERNEL_OF(NORM_THREADS, 4, norm_apply_planes, norm_params)
{
    planes_apply_of(&p, PLANE_ALIGNED);
}

KERNEL_OF(NORM_THREADS, 1, norm_apply_planes_any, norm_params)
{
    planes_apply_of(&p, PLANE_SCALARS);
}

/* ---- Backward ---- */

#define PLANE_PAIRS 2 /* of dy and x, loaded before the first is used */

DEVICE void planes_products(const T *dy, const T *x, int length, int access, float mean, float *sum,
                            float *product)
{
    float a = 0, b = 0;
    for (int t = 0; t < length; t += PLANE_PAIRS * PLANE_TILE) {
        float d[PLANE_PAIRS][VECTOR], e[PLANE_PAIRS][VECTOR];
        UNROLL
        for (int k = 0; k < PLANE_PAIRS; k++) {
            planes_get(dy, t + k * PLANE_TILE, length, access, 0.0f, d[k]);
            planes_get(x, t + k * PLANE_TILE, length, access, 0.0f, e[k]);
        }
        UNROLL
        for (int k = 0; k < PLANE_PAIRS; k++)
            UNROLL
            for (int i = 0; i < VECTOR; i++) {
                a += d[k][i];
                b += d[k][i] * (e[k][i] - mean);
            }
    }
    *sum += a;
    *product += b;
}

DEVICE void planes_products_of(const norm_params *p, float *scratch, int access)
{
    i64 units = p->images * p->segments, group = (u32)blockIdx.x / (u32)p->width;
    for (i64 set = blockIdx.z; set < p->sets; set += gridDim.z) {
        float mean = p->mean[set * p->mean_step[0] + group * p->mean_step[1]], sum = 0, product = 0;
        for (i64 u = planes_first(); u < units; u += (i64)gridDim.y * PLANE_WARPS) {
            plane_segment s = planes_segment(p, u);
            const T *x = (const T *)p->x + planes_at(&p->x_at, set, &s);
            const T *dy = (const T *)p->dy + planes_at(&p->dy_at, set, &s);
            planes_products(dy, x, s.length, access, mean, &sum, &product);
        }
        sum = block_sum(sum, scratch);
        product = block_sum(product, scratch);
        if (threadIdx.x == 0) {
            float *partial =
                p->partials + (set * p->chunks + blockIdx.y) * 2 * p->channels + blockIdx.x;
            partial[0] = sum;
            partial[p->channels] = product;
        }
    }
}

KERNEL_SYNC_OF(NORM_THREADS, 4, norm_products_planes, norm_params)
{
    SHARED float scratch[WARP];
    planes_products_of(&p, scratch, PLANE_ALIGNED);
}

KERNEL_SYNC_OF(NORM_THREADS, 1, norm_products_planes_any, norm_params)
{
    SHARED float scratch[WARP];
    if (p.vectors)
        planes_products_of(&p, scratch, PLANE_UNALIGNED);
    else
        planes_products_of(&p, scratch, PLANE_SCALARS);
}

/* dx may be dy or x. */
DEVICE void planes_dx(const T *dy, const T *x, T *dx, int length, int access, const plane_scales *s)
{
    for (int t = 0; t < length; t += PLANE_PAIRS * PLANE_TILE) {
        float d[PLANE_PAIRS][VECTOR], e[PLANE_PAIRS][VECTOR];
        UNROLL
        for (int k = 0; k < PLANE_PAIRS; k++) {
            planes_get(dy, t + k * PLANE_TILE, length, access, 0.0f, d[k]);
            planes_get(x, t + k * PLANE_TILE, length, access, 0.0f, e[k]);
        }
        UNROLL
        for (int k = 0; k < PLANE_PAIRS; k++) {
            UNROLL
            for (int i = 0; i < VECTOR; i++)
                d[k][i] = s->scale * d[k][i] + (s->slope * (e[k][i] - s->center) + s->offset);
            planes_put(dx, t + k * PLANE_TILE, length, access, d[k]);
        }
    }
}

DEVICE void planes_dx_of(const norm_params *p, int access)
{
    i64 units = p->images * p->segments;
    for (i64 set = blockIdx.z; set < p->sets; set += gridDim.z) {
        plane_scales scales = planes_scales(p, set);
        for (i64 u = planes_first(); u < units; u += (i64)gridDim.y * PLANE_WARPS) {
            plane_segment s = planes_segment(p, units - 1 - u);
            const T *x = (const T *)p->x + planes_at(&p->x_at, set, &s);
            const T *dy = (const T *)p->dy + planes_at(&p->dy_at, set, &s);
            T *dx = (T *)p->out + planes_at(&p->out_at, set, &s);
            planes_dx(dy, x, dx, s.length, access, &scales);
        }
    }
}

KERNEL_OF(NORM_THREADS, 4, norm_dx_planes, norm_params)
{
    planes_dx_of(&p, PLANE_ALIGNED);
}

KERNEL_OF(NORM_THREADS, 1, norm_dx_planes_any, norm_params)
{
    planes_dx_of(&p, PLANE_SCALARS);
}
