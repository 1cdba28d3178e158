/*
 * Max-unpooling and its gradient.
 *
 * An index is a place in its window (u8, i32) or in the plane (i64). The first kind gathers: every
 * pixel of the image asks the windows it lies in whether they mean it. The second may point
 * anywhere: planes are zeroed, then added to, a line's worth of channels at a time.
 */
#include "run/backends/onednn/omp_kernel.h"

typedef struct unpool {
    run_array pooled, indices, image;
    int64_t kernel[2], stride[2], pad[2]; /* rows, columns */
} unpool;

static void plan_windows(const run_spec *spec, const run_array *pooled, const run_array *image,
                         unpool *p)
{
    static const char *const names[3][2] = {
        {"kernel_h", "kernel_w"}, {"stride_h", "stride_w"}, {"pad_h", "pad_w"}};
    p->pooled = *pooled;
    p->indices = spec->in[1];
    p->image = *image;
    for (int side = 0; side < 2; side++) {
        p->kernel[side] = neap_run_spec_int(spec, names[0][side], 1);
        p->stride[side] = neap_run_spec_int(spec, names[1][side], 1);
        p->pad[side] = neap_run_spec_int(spec, names[2][side], 0);
    }
}

static void plan_unpool(const run_spec *spec, int parts, void *plan)
{
    (void)parts;
    plan_windows(spec, &spec->in[0], &spec->out[0], plan);
}

static void plan_unpool_bw(const run_spec *spec, int parts, void *plan)
{
    (void)parts;
    plan_windows(spec, &spec->out[0], &spec->in[0], plan);
}

static int64_t at4(const run_array *a, int64_t n, int64_t c, int64_t h, int64_t w)
{
    return n * a->strides[0] + c * a->strides[1] + h * a->strides[2] + w * a->strides[3];
}

/* The windows that hold a position of the image, on one side: from *begin to *end. */
static void windows_at(const unpool *p, int side, int64_t place, int64_t *begin, int64_t *end)
{
    int64_t last = (place + p->pad[side]) / p->stride[side] + 1;
    int64_t before = place + p->pad[side] - p->kernel[side];
    *begin = before < 0 ? 0 : before / p->stride[side] + 1;
    *end = last < p->pooled.shape[2 + side] ? last : p->pooled.shape[2 + side];
}

/* ---- Places in windows ---- */

/* y[c] += x[c] where the index is k; `first`: y[c] = that or 0. */
#define TAKE(suffix, type)                                                                         \
    OMP_CLONES static void take_##suffix(float *y, const float *x, const type *index, type k,      \
                                         bool first, const int64_t step[3], int64_t n)             \
    {                                                                                              \
        if (first && step[0] == 1 && step[1] == 1 && step[2] == 1) {                               \
            _Pragma("omp simd") for (int64_t c = 0; c < n; c++) y[c] = index[c] == k ? x[c] : 0;   \
            return;                                                                                \
        }                                                                                          \
        for (int64_t c = 0; c < n; c++) {                                                          \
            float value = index[c * step[2]] == k ? x[c * step[1]] : 0;                            \
            y[c * step[0]] = first ? value : y[c * step[0]] + value;                               \
        }                                                                                          \
    }

TAKE(u8, uint8_t)
TAKE(i32, int32_t)

/* All channels of a pixel of the result: from place k of the window whose index is at `index`. */
static void take(const unpool *p, const omp_task *task, float *y, const float *x, int64_t index,
                 int64_t k, bool first, const int64_t step[3])
{
    int64_t n = p->pooled.shape[1];
    if (p->indices.dtype == NEAP_U8)
        take_u8(y, x, (const uint8_t *)task->args->in[1] + index, (uint8_t)k, first, step, n);
    else
        take_i32(y, x, (const int32_t *)task->args->in[1] + index, (int32_t)k, first, step, n);
}

static void unpool_pixel(const unpool *p, const omp_task *task, int64_t n, int64_t h, int64_t w)
{
    int64_t top, bottom, left, right;
    const int64_t step[3] = {p->image.strides[1], p->pooled.strides[1], p->indices.strides[1]};
    float *y = omp_out(task, 0) + at4(&p->image, n, 0, h, w);
    bool first = true;
    windows_at(p, 0, h, &top, &bottom);
    windows_at(p, 1, w, &left, &right);
    for (int64_t i = top; i < bottom; i++)
        for (int64_t j = left; j < right; j++) {
            int64_t k = (h + p->pad[0] - i * p->stride[0]) * p->kernel[1] + w + p->pad[1] -
                        j * p->stride[1];
            take(p, task, y, omp_in(task, 0) + at4(&p->pooled, n, 0, i, j),
                 at4(&p->indices, n, 0, i, j), k, first, step);
            first = false;
        }
    for (int64_t c = 0; first && c < p->pooled.shape[1]; c++) /* in no window */
        y[c * step[0]] = 0;
}

static void unpool_bw_pixel(const unpool *p, const omp_task *task, int64_t n, int64_t i, int64_t j)
{
    const int64_t step[3] = {p->pooled.strides[1], p->image.strides[1], p->indices.strides[1]};
    float *dx = omp_out(task, 0) + at4(&p->pooled, n, 0, i, j);
    bool first = true;
    for (int64_t k = 0; k < p->kernel[0] * p->kernel[1]; k++) {
        int64_t h = i * p->stride[0] - p->pad[0] + k / p->kernel[1];
        int64_t w = j * p->stride[1] - p->pad[1] + k % p->kernel[1];
        if (h < 0 || h >= p->image.shape[2] || w < 0 || w >= p->image.shape[3])
            continue;
        take(p, task, dx, omp_in(task, 0) + at4(&p->image, n, 0, h, w),
             at4(&p->indices, n, 0, i, j), k, first, step);
        first = false;
    }
}

/* ---- Places in planes ---- */

#define CHANNELS 16

/* Runs over all pixels of the pooled image, for up to CHANNELS channels of one of the batch. */
static void unpool_planes(const unpool *p, const omp_task *task, int64_t n, int64_t c, bool back)
{
    const int64_t *index = task->args->in[1];
    int64_t height = p->image.shape[2], width = p->image.shape[3];
    int64_t end = c + CHANNELS < p->image.shape[1] ? c + CHANNELS : p->image.shape[1];
    for (int64_t i = 0; !back && i < height * width; i++)
        for (int64_t q = c; q < end; q++)
            omp_out(task, 0)[at4(&p->image, n, q, i / width, i % width)] = 0;
    for (int64_t i = 0; i < p->pooled.shape[2] * p->pooled.shape[3]; i++)
        for (int64_t q = c; q < end; q++) {
            int64_t h = i / p->pooled.shape[3], w = i % p->pooled.shape[3];
            int64_t place = index[at4(&p->indices, n, q, h, w)];
            bool inside = place >= 0 && place < height * width;
            int64_t pooled = at4(&p->pooled, n, q, h, w);
            int64_t image =
                at4(&p->image, n, q, inside ? place / width : 0, inside ? place % width : 0);
            if (back)
                omp_out(task, 0)[pooled] = inside ? omp_in(task, 0)[image] : 0;
            else if (inside)
                omp_out(task, 0)[image] += omp_in(task, 0)[pooled];
        }
}

/* ---- Work ---- */

static void work_planes(const omp_task *task, bool back)
{
    const unpool *p = task->plan;
    int64_t groups = (p->image.shape[1] + CHANNELS - 1) / CHANNELS;
    omp_range share = omp_share(task, p->image.shape[0] * groups, 1);
    for (int64_t i = share.begin; i < share.end; i++)
        unpool_planes(p, task, i / groups, i % groups * CHANNELS, back);
}

static void unpool_work(const omp_task *task)
{
    const unpool *p = task->plan;
    if (p->indices.dtype == NEAP_I64) {
        work_planes(task, false);
        return;
    }
    int64_t height = p->image.shape[2];
    omp_range rows = omp_share(task, p->image.shape[0] * height, 1);
    for (int64_t r = rows.begin; r < rows.end; r++)
        for (int64_t w = 0; w < p->image.shape[3]; w++)
            unpool_pixel(p, task, r / height, r % height, w);
}

static void unpool_bw_work(const omp_task *task)
{
    const unpool *p = task->plan;
    if (p->indices.dtype == NEAP_I64) {
        work_planes(task, true);
        return;
    }
    int64_t height = p->pooled.shape[2];
    omp_range rows = omp_share(task, p->pooled.shape[0] * height, 1);
    for (int64_t r = rows.begin; r < rows.end; r++)
        for (int64_t w = 0; w < p->pooled.shape[3]; w++)
            unpool_bw_pixel(p, task, r / height, r % height, w);
}

OMP_OP(max_unpool2d, {.plan_bytes = sizeof(unpool), .plan = plan_unpool, .work = unpool_work})
OMP_OP(max_unpool2d_bw,
       {.plan_bytes = sizeof(unpool), .plan = plan_unpool_bw, .work = unpool_bw_work})
