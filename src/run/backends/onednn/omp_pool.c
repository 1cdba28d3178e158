/*
 * Pooling of images.
 *
 * Work is shared out by pixels of the result. A pixel's channels are done together, in
 * vectors where they lie next to each other. Backward, a pixel of the image gathers from the
 * windows that it is in: no element is written twice, so the order of additions is always the same.
 */
#include "run/backends/onednn/omp_parallel.h"
#include "run/backends/onednn/onednn.h"

#include <math.h>
#include <string.h>

#define BLOCK 64 /* channels done at a time, in registers and on the stack */

typedef struct pool_kernel pool_kernel;

/* Does `count` channels, at most BLOCK, of pixel h, w of image n of the result. */
typedef void pool_chunk(const pool_kernel *k, const run_args *args, int64_t n, int64_t h, int64_t w,
                        int64_t first, int64_t count);

struct pool_kernel {
    onednn_kernel base;
    pool_chunk *chunk;
    run_array image, pooled, indices;
    int64_t shape[4]; /* of the result */
    int64_t kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w;
    bool count_padding, adaptive;
};

/* ---- Windows ---- */

typedef struct extent {
    int64_t begin, end;
} extent;

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* The pixels of window o of a dimension that lie in the image. */
static extent window(int64_t o, int64_t kernel, int64_t stride, int64_t pad, int64_t size)
{
    int64_t begin = o * stride - pad;
    return (extent){most(begin, 0), least(begin + kernel, size)};
}

/* The windows of a dimension that pixel i is in. */
static extent windows_over(int64_t i, int64_t kernel, int64_t stride, int64_t pad, int64_t windows)
{
    int64_t last = (i + pad) / stride, first = i + pad - kernel + 1;
    return (extent){first > 0 ? (first + stride - 1) / stride : 0, least(last + 1, windows)};
}

static int64_t pixel(const run_array *array, int64_t n, int64_t h, int64_t w)
{
    return n * array->strides[0] + h * array->strides[2] + w * array->strides[3];
}

static int64_t channel_stride(const run_array *array)
{
    return array->shape[1] > 1 ? array->strides[1] : 1;
}

/* ---- Indices of three types ---- */

static inline void store_indices(const pool_kernel *k, void *indices, int64_t at, int64_t count,
                                 const int32_t *index)
{
    int64_t stride = channel_stride(&k->indices);
    if (k->indices.dtype == NEAP_U8) {
        uint8_t *to = (uint8_t *)indices + at;
        if (stride == 1)
            for (int64_t c = 0; c < count; c++)
                to[c] = (uint8_t)index[c];
        else
            for (int64_t c = 0; c < count; c++)
                to[c * stride] = (uint8_t)index[c];
    } else if (k->indices.dtype == NEAP_I32) {
        for (int64_t c = 0; c < count; c++)
            ((int32_t *)indices)[at + c * stride] = index[c];
    } else {
        for (int64_t c = 0; c < count; c++)
            ((int64_t *)indices)[at + c * stride] = index[c];
    }
}

static inline void load_indices(const pool_kernel *k, const void *indices, int64_t at,
                                int64_t count, int32_t *index)
{
    int64_t stride = channel_stride(&k->indices);
    if (k->indices.dtype == NEAP_U8) {
        const uint8_t *from = (const uint8_t *)indices + at;
        if (stride == 1)
            for (int64_t c = 0; c < count; c++)
                index[c] = from[c];
        else
            for (int64_t c = 0; c < count; c++)
                index[c] = from[c * stride];
    } else if (k->indices.dtype == NEAP_I32) {
        for (int64_t c = 0; c < count; c++)
            index[c] = ((const int32_t *)indices)[at + c * stride];
    } else {
        for (int64_t c = 0; c < count; c++)
            index[c] = (int32_t)((const int64_t *)indices)[at + c * stride];
    }
}

/* The index that means pixel h, w of the image for window oh, ow. */
static int32_t index_of(const pool_kernel *k, int64_t oh, int64_t ow, int64_t h, int64_t w)
{
    if (k->indices.dtype == NEAP_I64)
        return (int32_t)(h * k->image.shape[3] + w);
    return (int32_t)((h - oh * k->stride_h + k->pad_h) * k->kernel_w + w - ow * k->stride_w +
                     k->pad_w);
}

/* ---- Loading and storing channels ---- */

static inline void load(float *restrict to, const float *restrict from, int64_t count,
                        int64_t stride)
{
    if (stride == 1)
        for (int64_t c = 0; c < count; c++)
            to[c] = from[c];
    else
        for (int64_t c = 0; c < count; c++)
            to[c] = from[c * stride];
}

static inline void store(float *restrict to, const float *restrict from, int64_t count,
                         int64_t stride)
{
    if (stride == 1)
        for (int64_t c = 0; c < count; c++)
            to[c] = from[c];
    else
        for (int64_t c = 0; c < count; c++)
            to[c * stride] = from[c];
}

/* ---- Max pooling ---- */

/* The first of the largest in window oh, ow, of `count` channels from c on. */
OMP_CLONES
static void max_chunk(const pool_kernel *k, const run_args *args, int64_t n, int64_t oh, int64_t ow,
                      int64_t first, int64_t count)
{
    const float *restrict x = args->in[0];
    float *restrict y = args->out[0];
    void *restrict indices = args->out[1];
    float best[BLOCK], value[BLOCK];
    int32_t index[BLOCK];
    for (int64_t c = 0; c < BLOCK; c++) {
        best[c] = -INFINITY;
        value[c] = 0;
    }
    extent hs = window(oh, k->kernel_h, k->stride_h, k->pad_h, k->image.shape[2]);
    extent ws = window(ow, k->kernel_w, k->stride_w, k->pad_w, k->image.shape[3]);
    int64_t stride = channel_stride(&k->image);
    for (int64_t c = 0; c < BLOCK; c++)
        index[c] = index_of(k, oh, ow, hs.begin, ws.begin);
    for (int64_t h = hs.begin; h < hs.end; h++)
        for (int64_t w = ws.begin; w < ws.end; w++) {
            int32_t here = index_of(k, oh, ow, h, w);
            load(value, x + pixel(&k->image, n, h, w) + first * stride, count, stride);
            for (int64_t c = 0; c < BLOCK; c++) {
                /* As PyTorch does, the last that is not a number wins. */
                int take = (value[c] > best[c]) | (value[c] != value[c]);
                best[c] = take ? value[c] : best[c];
                index[c] = take ? here : index[c];
            }
        }
    int64_t to = channel_stride(&k->pooled);
    store(y + pixel(&k->pooled, n, oh, ow) + first * to, best, count, to);
    store_indices(k, indices, pixel(&k->indices, n, oh, ow) + first * channel_stride(&k->indices),
                  count, index);
}

/* What the windows over pixel h, w took from it: the sum of their gradients. */
OMP_CLONES
static void gather_chunk(const pool_kernel *k, const run_args *args, int64_t n, int64_t h,
                         int64_t w, int64_t first, int64_t count)
{
    const float *restrict dy = args->in[0];
    const void *restrict indices = args->in[1];
    float *restrict dx = args->out[0];
    float sum[BLOCK], value[BLOCK];
    int32_t index[BLOCK];
    for (int64_t c = 0; c < BLOCK; c++) {
        sum[c] = value[c] = 0;
        index[c] = -1;
    }
    extent hs = windows_over(h, k->kernel_h, k->stride_h, k->pad_h, k->pooled.shape[2]);
    extent ws = windows_over(w, k->kernel_w, k->stride_w, k->pad_w, k->pooled.shape[3]);
    int64_t from = channel_stride(&k->pooled);
    for (int64_t oh = hs.begin; oh < hs.end; oh++)
        for (int64_t ow = ws.begin; ow < ws.end; ow++) {
            int32_t here = index_of(k, oh, ow, h, w);
            load_indices(k, indices,
                         pixel(&k->indices, n, oh, ow) + first * channel_stride(&k->indices), count,
                         index);
            load(value, dy + pixel(&k->pooled, n, oh, ow) + first * from, count, from);
            for (int64_t c = 0; c < BLOCK; c++)
                sum[c] += index[c] == here ? value[c] : 0;
        }
    int64_t to = channel_stride(&k->image);
    store(dx + pixel(&k->image, n, h, w) + first * to, sum, count, to);
}

/* ---- Average pooling ---- */

static extent mean_window(const pool_kernel *k, int d, int64_t o)
{
    int64_t in = k->image.shape[d + 2], out = k->pooled.shape[d + 2];
    if (k->adaptive)
        return (extent){o * in / out, ((o + 1) * in + out - 1) / out};
    return d == 0 ? window(o, k->kernel_h, k->stride_h, k->pad_h, in)
                  : window(o, k->kernel_w, k->stride_w, k->pad_w, in);
}

/* What divides a window's sum in one dimension. */
static int64_t divisor(const pool_kernel *k, int d, int64_t o)
{
    extent inside = mean_window(k, d, o);
    if (k->adaptive || !k->count_padding)
        return inside.end - inside.begin;
    int64_t kernel = d ? k->kernel_w : k->kernel_h, pad = d ? k->pad_w : k->pad_h;
    int64_t begin = o * (d ? k->stride_w : k->stride_h) - pad;
    return least(begin + kernel, k->image.shape[d + 2] + pad) - begin;
}

static extent mean_windows_over(const pool_kernel *k, int d, int64_t i)
{
    int64_t in = k->image.shape[d + 2], out = k->pooled.shape[d + 2];
    if (!k->adaptive)
        return d == 0 ? windows_over(i, k->kernel_h, k->stride_h, k->pad_h, out)
                      : windows_over(i, k->kernel_w, k->stride_w, k->pad_w, out);
    extent e = {i * out / in, ((i + 1) * out + in - 1) / in};
    while (e.begin > 0 && mean_window(k, d, e.begin - 1).end > i)
        e.begin--;
    while (mean_window(k, d, e.begin).end <= i)
        e.begin++;
    while (e.end > e.begin + 1 && mean_window(k, d, e.end - 1).begin > i)
        e.end--;
    return e;
}

OMP_CLONES
static void mean_chunk(const pool_kernel *k, const run_args *args, int64_t n, int64_t oh,
                       int64_t ow, int64_t first, int64_t count)
{
    const float *restrict x = args->in[0];
    float *restrict y = args->out[0];
    float sum[BLOCK], value[BLOCK];
    for (int64_t c = 0; c < BLOCK; c++)
        sum[c] = value[c] = 0;
    extent hs = mean_window(k, 0, oh), ws = mean_window(k, 1, ow);
    int64_t stride = channel_stride(&k->image), to = channel_stride(&k->pooled);
    for (int64_t h = hs.begin; h < hs.end; h++)
        for (int64_t w = ws.begin; w < ws.end; w++) {
            load(value, x + pixel(&k->image, n, h, w) + first * stride, count, stride);
            for (int64_t c = 0; c < BLOCK; c++)
                sum[c] += value[c];
        }
    float share = 1 / (float)(divisor(k, 0, oh) * divisor(k, 1, ow));
    for (int64_t c = 0; c < BLOCK; c++)
        sum[c] *= share;
    store(y + pixel(&k->pooled, n, oh, ow) + first * to, sum, count, to);
}

OMP_CLONES
static void spread_chunk(const pool_kernel *k, const run_args *args, int64_t n, int64_t h,
                         int64_t w, int64_t first, int64_t count)
{
    const float *restrict dy = args->in[0];
    float *restrict dx = args->out[0];
    float sum[BLOCK], value[BLOCK];
    for (int64_t c = 0; c < BLOCK; c++)
        sum[c] = value[c] = 0;
    extent hs = mean_windows_over(k, 0, h), ws = mean_windows_over(k, 1, w);
    int64_t from = channel_stride(&k->pooled), to = channel_stride(&k->image);
    for (int64_t oh = hs.begin; oh < hs.end; oh++)
        for (int64_t ow = ws.begin; ow < ws.end; ow++) {
            float share = 1 / (float)(divisor(k, 0, oh) * divisor(k, 1, ow));
            load(value, dy + pixel(&k->pooled, n, oh, ow) + first * from, count, from);
            for (int64_t c = 0; c < BLOCK; c++)
                sum[c] += share * value[c];
        }
    store(dx + pixel(&k->image, n, h, w) + first * to, sum, count, to);
}

/* ---- The ops ---- */

static neap_status run_pool(const run_kernel *self, const run_args *args, neap_diag *diag)
{
    (void)diag;
    const pool_kernel *k = (const pool_kernel *)self;
    const int64_t *shape = k->shape;
#pragma omp parallel num_threads(k->base.threads)
    {
        omp_range r = omp_my_range(shape[0] * shape[2] * shape[3], 1);
        for (int64_t at = r.begin; at < r.end; at++)
            for (int64_t c = 0; c < shape[1]; c += BLOCK)
                k->chunk(k, args, at / shape[3] / shape[2], at / shape[3] % shape[2], at % shape[3],
                         c, least(BLOCK, shape[1] - c));
    }
    return NEAP_OK;
}

static neap_status make(neap_backend *backend, const run_spec *spec, const run_array *image,
                        const run_array *pooled, const run_array *indices, pool_chunk *chunk,
                        run_kernel **kernel, neap_diag *diag)
{
    pool_kernel *k;
    neap_status status = ONEDNN_NEW_KERNEL(backend, run_pool, &k, diag);
    if (status != NEAP_OK)
        return status;
    k->chunk = chunk;
    k->image = *image;
    k->pooled = *pooled;
    memcpy(k->shape, spec->out[0].shape, sizeof k->shape);
    if (indices)
        k->indices = *indices;
    k->kernel_h = neap_run_spec_int(spec, "kernel_h", 1);
    k->kernel_w = neap_run_spec_int(spec, "kernel_w", 1);
    k->stride_h = neap_run_spec_int(spec, "stride_h", 1);
    k->stride_w = neap_run_spec_int(spec, "stride_w", 1);
    k->pad_h = neap_run_spec_int(spec, "pad_h", 0);
    k->pad_w = neap_run_spec_int(spec, "pad_w", 0);
    k->count_padding = neap_run_spec_int(spec, "count_include_pad", 0);
    k->adaptive = !indices && neap_run_spec_int(spec, "kernel_h", 0) == 0;
    *kernel = &k->base.base;
    return NEAP_OK;
}

#define POOL_OP(type, image, pooled, indices, chunk)                                               \
    static neap_status type##_prepare(neap_backend *backend, const run_spec *spec,                 \
                                      run_kernel **kernel, neap_diag *diag)                        \
    {                                                                                              \
        return make(backend, spec, image, pooled, indices, chunk, kernel, diag);                   \
    }                                                                                              \
    const run_op neap_onednn_op_##type = {.prepare = type##_prepare};

POOL_OP(max_pool2d, &spec->in[0], &spec->out[0], &spec->out[1], max_chunk)
POOL_OP(max_pool2d_bw, &spec->out[0], &spec->in[0], &spec->in[1], gather_chunk)
POOL_OP(avg_pool2d, &spec->in[0], &spec->out[0], NULL, mean_chunk)
POOL_OP(avg_pool2d_bw, &spec->out[0], &spec->in[0], NULL, spread_chunk)
POOL_OP(adaptive_avg_pool2d, &spec->in[0], &spec->out[0], NULL, mean_chunk)
POOL_OP(adaptive_avg_pool2d_bw, &spec->out[0], &spec->in[0], NULL, spread_chunk)
