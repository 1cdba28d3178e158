/*
 * Batch and group normalisation where channels are neighbours in memory, or anything else: a thread
 * has a vector of channels and goes through rows. A block is 2^lanes_log2 threads in a row times
 * the rest, which are lines. Blocks take lines of rows in turn, so that at any time all work in one
 * region of memory; the second pass starts at its end, part of which is still in the cache.
 */
#include "norm.h"
#include "row_walk.cuh"

#define COLUMN_ROWS 4 /* that are loaded before the first is used */

/* The vector of channels of a thread, its first row, and the distance to the next. */
typedef struct column_place {
    i64 c, row, step;
    int line, lines;
} column_place;

DEVICE column_place columns_place(const norm_params *p)
{
    column_place at;
    int lane = (int)threadIdx.x & ((1 << p->lanes_log2) - 1);
    at.c = (((i64)blockIdx.x << p->lanes_log2) + lane) * VECTOR;
    at.line = (int)threadIdx.x >> p->lanes_log2;
    at.lines = NORM_THREADS >> p->lanes_log2;
    at.row = (i64)blockIdx.y * at.lines + at.line;
    at.step = (i64)gridDim.y * at.lines;
    return at;
}

DEVICE void columns_get(const norm_params *p, const norm_array *a, const T *set, i64 row, i64 c,
                        int whole, float *e)
{
    if (whole)
        row_get_whole(set + row * a->rows.stride[0] + c, e);
    else
        row_get(set + row_at(&a->rows, row), c, p->channels, a->channel, e);
}

DEVICE void columns_put(const norm_params *p, const norm_array *a, T *set, i64 row, i64 c,
                        int whole, const float *e)
{
    if (whole)
        row_put_whole(set + row * a->rows.stride[0] + c, e);
    else
        row_put(set + row_at(&a->rows, row), c, p->channels, a->channel, e);
}

/* Adds up both sums of a channel over the lines of the block; those of line 0 are complete. */
DEVICE void columns_sum_lines(const column_place *at, float *sums, float *a, float *b)
{
    int t = (int)threadIdx.x, lanes = NORM_THREADS / at->lines;
    __syncthreads();
    UNROLL
    for (int i = 0; i < VECTOR; i++) {
        sums[i * NORM_THREADS + t] = a[i];
        sums[(VECTOR + i) * NORM_THREADS + t] = b[i];
    }
    for (int half = at->lines / 2; half > 0; half /= 2) {
        __syncthreads();
        if (at->line < half)
            UNROLL
            for (int i = 0; i < 2 * VECTOR; i++)
                sums[i * NORM_THREADS + t] += sums[i * NORM_THREADS + t + half * lanes];
    }
    if (at->line == 0)
        UNROLL
        for (int i = 0; i < VECTOR; i++) {
            a[i] = sums[i * NORM_THREADS + t];
            b[i] = sums[(VECTOR + i) * NORM_THREADS + t];
        }
}

/* ---- Forward ---- */

/* About the mean of the channels of a block: that of its first few rows. With sums of x - shift the
   variance loses nothing to cancellation. */
DEVICE void columns_shift(const norm_params *p, const column_place *at, const T *x, int whole,
                          float *shift)
{
    i64 first = at->row - at->line, count = p->rows - first;
    float e[COLUMN_ROWS][VECTOR];
    int rows = count < COLUMN_ROWS ? (int)count : COLUMN_ROWS;
    UNROLL
    for (int r = 0; r < COLUMN_ROWS; r++)
        columns_get(p, &p->x_at, x, first + (r < rows ? r : 0), at->c, whole, e[r]);
    UNROLL
    for (int i = 0; i < VECTOR; i++) {
        float sum = e[0][i];
        UNROLL
        for (int r = 1; r < COLUMN_ROWS; r++)
            sum += e[r][i];
        shift[i] = sum * (1.0f / COLUMN_ROWS);
    }
}

DEVICE void columns_moments(const norm_params *p, const column_place *at, const T *x, int whole,
                            const float *shift, float *sum, float *square)
{
    i64 row = at->row, step = at->step;
    for (; row + (COLUMN_ROWS - 1) * step < p->rows; row += COLUMN_ROWS * step) {
        float e[COLUMN_ROWS][VECTOR];
        UNROLL
        for (int r = 0; r < COLUMN_ROWS; r++)
            columns_get(p, &p->x_at, x, row + r * step, at->c, whole, e[r]);
        UNROLL
        for (int r = 0; r < COLUMN_ROWS; r++)
            UNROLL
            for (int i = 0; i < VECTOR; i++) {
                float d = e[r][i] - shift[i];
                sum[i] += d;
                square[i] += d * d;
            }
    }
    for (; row < p->rows; row += step) {
        float e[VECTOR];
        columns_get(p, &p->x_at, x, row, at->c, whole, e);
        UNROLL
        for (int i = 0; i < VECTOR; i++) {
            float d = e[i] - shift[i];
            sum[i] += d;
            square[i] += d * d;
        }
    }
}

/* How many rows a block has. */
DEVICE float columns_count(const norm_params *p, const column_place *at)
{
    i64 full = p->rows / at->step, rest = p->rows - full * at->step - (at->row - at->line);
    if (rest > at->lines)
        rest = at->lines;
    return (float)(full * at->lines + (rest > 0 ? rest : 0));
}

DEVICE void columns_moments_of(const norm_params *p, float *sums, int whole)
{
    column_place at = columns_place(p);
    for (i64 set = blockIdx.z; set < p->sets; set += gridDim.z) {
        const T *x = (const T *)p->x + set * p->x_at.set;
        float shift[VECTOR], sum[VECTOR], square[VECTOR];
        UNROLL
        for (int i = 0; i < VECTOR; i++)
            shift[i] = sum[i] = square[i] = 0;
        if (at.c < p->channels) {
            columns_shift(p, &at, x, whole, shift);
            columns_moments(p, &at, x, whole, shift, sum, square);
        }
        columns_sum_lines(&at, sums, sum, square);
        float *partial = p->partials + (set * p->chunks + blockIdx.y) * 3 * p->channels + at.c;
        float count = columns_count(p, &at);
        UNROLL
        for (int i = 0; i < VECTOR; i++)
            if (at.line == 0 && at.c + i < p->channels) {
                partial[i] = shift[i] + sum[i] / count;
                partial[p->channels + i] = square[i] - sum[i] * sum[i] / count;
                partial[2 * p->channels + i] = count;
            }
    }
}

KERNEL_SYNC_OF(NORM_THREADS, 4, norm_moments_columns, norm_params)
{
    SHARED float sums[2 * VECTOR * NORM_THREADS];
    columns_moments_of(&p, sums, 1);
}

KERNEL_SYNC_OF(NORM_THREADS, 1, norm_moments_columns_any, norm_params)
{
    SHARED float sums[2 * VECTOR * NORM_THREADS];
    columns_moments_of(&p, sums, 0);
}

/* What a thread must know of its channels. */
typedef struct column_scales {
    float scale[VECTOR], offset[VECTOR], center[VECTOR];
    float slope[VECTOR]; /* backward */
} column_scales;

DEVICE void columns_coefficients(const norm_params *p, i64 set, norm_coefficient which, i64 c,
                                 int whole, float *to)
{
    const float *from = p->coefficients + (set * NORM_COEFFICIENTS + which) * p->channels + c;
    UNROLL
    for (int i = 0; i < VECTOR; i += 4)
        if (whole) {
            four_floats four = *(const four_floats *)(from + i);
            UNROLL
            for (int k = 0; k < 4; k++)
                to[i + k] = four.e[k];
        } else {
            UNROLL
            for (int k = 0; k < 4; k++)
                to[i + k] = c + i + k < p->channels ? from[i + k] : 0.0f;
        }
}

/* Each row is read and written by the same thread: y may be x. */
DEVICE void columns_apply(const norm_params *p, const column_place *at, const T *x, T *y, int whole,
                          const column_scales *s)
{
    i64 row = p->rows - 1 - at->row, step = at->step;
    for (; row >= (COLUMN_ROWS - 1) * step; row -= COLUMN_ROWS * step) {
        float e[COLUMN_ROWS][VECTOR];
        UNROLL
        for (int r = 0; r < COLUMN_ROWS; r++)
            columns_get(p, &p->x_at, x, row - r * step, at->c, whole, e[r]);
        UNROLL
        for (int r = 0; r < COLUMN_ROWS; r++) {
            UNROLL
            for (int i = 0; i < VECTOR; i++)
                e[r][i] = (e[r][i] - s->center[i]) * s->scale[i] + s->offset[i];
            columns_put(p, &p->out_at, y, row - r * step, at->c, whole, e[r]);
        }
    }
    for (; row >= 0; row -= step) {
        float e[VECTOR];
        columns_get(p, &p->x_at, x, row, at->c, whole, e);
        UNROLL
        for (int i = 0; i < VECTOR; i++)
            e[i] = (e[i] - s->center[i]) * s->scale[i] + s->offset[i];
        columns_put(p, &p->out_at, y, row, at->c, whole, e);
    }
}

DEVICE void columns_apply_of(const norm_params *p, int whole)
{
    column_place at = columns_place(p);
    if (at.c >= p->channels)
        return;
    for (i64 set = blockIdx.z; set < p->sets; set += gridDim.z) {
        const T *x = (const T *)p->x + set * p->x_at.set;
        T *y = (T *)p->out + set * p->out_at.set;
        column_scales s;
        columns_coefficients(p, set, NORM_SCALE, at.c, whole, s.scale);
        columns_coefficients(p, set, NORM_OFFSET, at.c, whole, s.offset);
        columns_coefficients(p, set, NORM_CENTER, at.c, whole, s.center);
        columns_apply(p, &at, x, y, whole, &s);
    }
}

KERNEL_OF(NORM_THREADS, 4, norm_apply_columns, norm_params)
{
    columns_apply_of(&p, 1);
}

KERNEL_OF(NORM_THREADS, 1, norm_apply_columns_any, norm_params)
{
    columns_apply_of(&p, 0);
}

/* ---- Backward ---- */

DEVICE void columns_products(const norm_params *p, const column_place *at, const T *dy, const T *x,
                             int whole, const float *mean, float *sum, float *product)
{
    i64 row = at->row, step = at->step;
    for (; row + step < p->rows; row += 2 * step) {
        float d[2][VECTOR], e[2][VECTOR];
        UNROLL
        for (int r = 0; r < 2; r++) {
            columns_get(p, &p->dy_at, dy, row + r * step, at->c, whole, d[r]);
            columns_get(p, &p->x_at, x, row + r * step, at->c, whole, e[r]);
        }
        UNROLL
        for (int r = 0; r < 2; r++)
            UNROLL
            for (int i = 0; i < VECTOR; i++) {
                sum[i] += d[r][i];
                product[i] += d[r][i] * (e[r][i] - mean[i]);
            }
    }
    for (; row < p->rows; row += step) {
        float d[VECTOR], e[VECTOR];
        columns_get(p, &p->dy_at, dy, row, at->c, whole, d);
        columns_get(p, &p->x_at, x, row, at->c, whole, e);
        UNROLL
        for (int i = 0; i < VECTOR; i++) {
            sum[i] += d[i];
            product[i] += d[i] * (e[i] - mean[i]);
        }
    }
}

DEVICE void columns_products_of(const norm_params *p, float *sums, int whole)
{
    column_place at = columns_place(p);
    for (i64 set = blockIdx.z; set < p->sets; set += gridDim.z) {
        const T *x = (const T *)p->x + set * p->x_at.set;
        const T *dy = (const T *)p->dy + set * p->dy_at.set;
        float mean[VECTOR], sum[VECTOR], product[VECTOR];
        UNROLL
        for (int i = 0; i < VECTOR; i++) {
            i64 c = at.c + i < p->channels ? at.c + i : 0;
            i64 group = (u32)c / (u32)p->width;
            mean[i] = p->mean[set * p->mean_step[0] + group * p->mean_step[1]];
            sum[i] = product[i] = 0;
        }
        if (at.c < p->channels)
            columns_products(p, &at, dy, x, whole, mean, sum, product);
        columns_sum_lines(&at, sums, sum, product);
        float *partial = p->partials + (set * p->chunks + blockIdx.y) * 2 * p->channels + at.c;
        UNROLL
        for (int i = 0; i < VECTOR; i++)
            if (at.line == 0 && at.c + i < p->channels) {
                partial[i] = sum[i];
                partial[p->channels + i] = product[i];
            }
    }
}

KERNEL_SYNC_OF(NORM_THREADS, 4, norm_products_columns, norm_params)
{
    SHARED float sums[2 * VECTOR * NORM_THREADS];
    columns_products_of(&p, sums, 1);
}

KERNEL_SYNC_OF(NORM_THREADS, 1, norm_products_columns_any, norm_params)
{
    SHARED float sums[2 * VECTOR * NORM_THREADS];
    columns_products_of(&p, sums, 0);
}

/* dx may be dy or x. */
DEVICE void columns_dx(const norm_params *p, const column_place *at, const T *dy, const T *x, T *dx,
                       int whole, const column_scales *s)
{
    i64 row = p->rows - 1 - at->row, step = at->step;
    for (; row >= step; row -= 2 * step) {
        float d[2][VECTOR], e[2][VECTOR];
        UNROLL
        for (int r = 0; r < 2; r++) {
            columns_get(p, &p->dy_at, dy, row - r * step, at->c, whole, d[r]);
            columns_get(p, &p->x_at, x, row - r * step, at->c, whole, e[r]);
        }
        UNROLL
        for (int r = 0; r < 2; r++) {
            UNROLL
            for (int i = 0; i < VECTOR; i++)
                d[r][i] = s->scale[i] * d[r][i] +
                          (s->slope[i] * (e[r][i] - s->center[i]) + s->offset[i]);
            columns_put(p, &p->out_at, dx, row - r * step, at->c, whole, d[r]);
        }
    }
    if (row >= 0) {
        float d[VECTOR], e[VECTOR];
        columns_get(p, &p->dy_at, dy, row, at->c, whole, d);
        columns_get(p, &p->x_at, x, row, at->c, whole, e);
        UNROLL
        for (int i = 0; i < VECTOR; i++)
            d[i] = s->scale[i] * d[i] + (s->slope[i] * (e[i] - s->center[i]) + s->offset[i]);
        columns_put(p, &p->out_at, dx, row, at->c, whole, d);
    }
}

DEVICE void columns_dx_of(const norm_params *p, int whole)
{
    column_place at = columns_place(p);
    if (at.c >= p->channels)
        return;
    for (i64 set = blockIdx.z; set < p->sets; set += gridDim.z) {
        const T *x = (const T *)p->x + set * p->x_at.set;
        const T *dy = (const T *)p->dy + set * p->dy_at.set;
        T *dx = (T *)p->out + set * p->out_at.set;
        column_scales s;
        columns_coefficients(p, set, NORM_SCALE, at.c, whole, s.scale);
        columns_coefficients(p, set, NORM_OFFSET, at.c, whole, s.offset);
        columns_coefficients(p, set, NORM_CENTER, at.c, whole, s.center);
        columns_coefficients(p, set, NORM_SLOPE, at.c, whole, s.slope);
        columns_dx(p, &at, dy, x, dx, whole, &s);
    }
}

KERNEL_OF(NORM_THREADS, 4, norm_dx_columns, norm_params)
{
    columns_dx_of(&p, 1);
}

KERNEL_OF(NORM_THREADS, 1, norm_dx_columns_any, norm_params)
{
    columns_dx_of(&p, 0);
}
