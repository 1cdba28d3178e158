/*
 * Batch normalisation over rows of channels.
 *
 * Forward reads x twice: sums of x - k and (x - k)^2, where k is close to the mean (that of a few
 * rows), then the result. With k there the variance loses nothing to cancellation, and one pass
 * does for both sums (Chan, Golub and LeVeque, 1983). Sums of a few rows are taken in f32, the sums
 * of those in f64. Backward reads dy and x twice: the two sums, then dx.
 *
 * Each thread has its own sums, added up in the order of threads.
 */
#include "run/backends/onednn/omp_parallel.h"
#include "run/backends/onednn/omp_rows.h"
#include "run/backends/onednn/onednn.h"

#include <math.h>
#include <string.h>

#define BLOCK      64 /* channels done at a time */
#define ROWS_A_SUM 64
#define SHIFT_ROWS 8 /* that k is the mean of */

typedef struct norm_kernel {
    onednn_kernel base;
    omp_rows x, y; /* backward: x and dy */
    omp_rows dx;
    bool wants_dx;
    double epsilon;
} norm_kernel;

/* In the workspace: f32 vectors of all channels, then each thread's sums in f64. */
typedef struct norm_scratch {
    float *shift, *scale, *offset; /* backward: y = scale[c] * dy + shift[c] * x + offset[c] */
    double *sums;                  /* [threads][2][channels] */
} norm_scratch;

static int64_t scratch_bytes(int64_t channels, int threads)
{
    int64_t vector = (channels * (int64_t)sizeof(float) + 63) / 64 * 64;
    return 3 * vector + 2 * channels * threads * (int64_t)sizeof(double);
}

static norm_scratch scratch_at(void *workspace, int64_t channels)
{
    int64_t vector = (channels * (int64_t)sizeof(float) + 63) / 64 * 64;
    char *at = workspace;
    return (norm_scratch){(float *)at, (float *)(at + vector), (float *)(at + 2 * vector),
                          (double *)(at + 3 * vector)};
}

/* ---- Chunks: `rows` rows at an even stride, `count` channels at most BLOCK ---- */

static inline float element(const float *row, int64_t c, int64_t stride)
{
    return row[c * stride];
}

/* Sums of x - k and its square. */
OMP_CLONES
static void moments_chunk(const float *restrict x, int64_t rows, int64_t row_stride, int64_t stride,
                          const float *restrict shift, int64_t count, double *restrict sums,
                          double *restrict squares)
{
    float k[BLOCK], a[BLOCK], b[BLOCK];
    for (int64_t c = 0; c < BLOCK; c++) {
        k[c] = c < count ? shift[c] : 0;
        a[c] = b[c] = 0;
    }
    if (stride == 1 && count == BLOCK)
        for (int64_t row = 0; row < rows; row++, x += row_stride)
            for (int64_t c = 0; c < BLOCK; c++) {
                float d = x[c] - k[c];
                a[c] += d;
                b[c] += d * d;
            }
    else
        for (int64_t row = 0; row < rows; row++, x += row_stride)
            for (int64_t c = 0; c < count; c++) {
                float d = element(x, c, stride) - k[c];
                a[c] += d;
                b[c] += d * d;
            }
    for (int64_t c = 0; c < count; c++) {
        sums[c] += (double)a[c];
        squares[c] += (double)b[c];
    }
}

/* y = scale * x + offset, with y where x is or not */
OMP_CLONES
static void apply_chunk(const float *x, int64_t x_stride, float *y, int64_t y_stride,
                        const float *scale, const float *offset, int64_t count)
{
    if (x_stride == 1 && y_stride == 1) {
#pragma omp simd
        for (int64_t c = 0; c < count; c++)
            y[c] = scale[c] * x[c] + offset[c];
    } else {
        for (int64_t c = 0; c < count; c++)
            y[c * y_stride] = scale[c] * x[c * x_stride] + offset[c];
    }
}

/* Sums of dy and dy * (x - mean). */
OMP_CLONES
static void products_chunk(const float *restrict dy, int64_t dy_row, int64_t dy_stride,
                           const float *restrict x, int64_t x_row, int64_t x_stride, int64_t rows,
                           const float *restrict mean, int64_t count, double *restrict sums,
                           double *restrict products)
{
    float m[BLOCK], a[BLOCK], b[BLOCK];
    for (int64_t c = 0; c < BLOCK; c++) {
        m[c] = c < count ? mean[c] : 0;
        a[c] = b[c] = 0;
    }
    if (dy_stride == 1 && x_stride == 1 && count == BLOCK)
        for (int64_t row = 0; row < rows; row++, dy += dy_row, x += x_row)
            for (int64_t c = 0; c < BLOCK; c++) {
                a[c] += dy[c];
                b[c] += dy[c] * (x[c] - m[c]);
            }
    else
        for (int64_t row = 0; row < rows; row++, dy += dy_row, x += x_row)
            for (int64_t c = 0; c < count; c++) {
                float d = element(dy, c, dy_stride);
                a[c] += d;
                b[c] += d * (element(x, c, x_stride) - m[c]);
            }
    for (int64_t c = 0; c < count; c++) {
        sums[c] += (double)a[c];
        products[c] += (double)b[c];
    }
}

/* dx = scale * dy + slope * x + offset, with dx where dy or x is or not */
OMP_CLONES
static void gradient_chunk(const float *dy, int64_t dy_stride, const float *x, int64_t x_stride,
                           float *dx, int64_t dx_stride, const norm_scratch *s, int64_t count)
{
    const float *scale = s->scale, *slope = s->shift, *offset = s->offset;
    if (dy_stride == 1 && x_stride == 1 && dx_stride == 1) {
#pragma omp simd
        for (int64_t c = 0; c < count; c++)
            dx[c] = scale[c] * dy[c] + (slope[c] * x[c] + offset[c]);
    } else {
        for (int64_t c = 0; c < count; c++)
            dx[c * dx_stride] =
                scale[c] * dy[c * dy_stride] + (slope[c] * x[c * x_stride] + offset[c]);
    }
}

/* ---- Forward ---- */

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Rows that can be done in one go from `row` on. */
static int64_t run_of(const omp_rows *a, const omp_rows *b, int64_t row, int64_t end)
{
    return a->even && b->even ? least(ROWS_A_SUM, end - row) : 1;
}

static void find_shift(const norm_kernel *k, const float *x, float *shift)
{
    int64_t rows = least(SHIFT_ROWS, k->x.count);
    memset(shift, 0, (size_t)k->x.channels * sizeof *shift);
    for (int64_t i = 0; i < rows; i++) {
        const float *row = x + omp_row(&k->x, i * (k->x.count / rows));
        for (int64_t c = 0; c < k->x.channels; c++)
            shift[c] += element(row, c, k->x.channel_stride) / (float)rows;
    }
}

static void sum_moments(const norm_kernel *k, const float *x, const norm_scratch *s)
{
    int64_t channels = k->x.channels;
    omp_range r = omp_my_range(k->x.count, 1);
    double *sums = s->sums + 2 * channels * omp_get_thread_num();
    memset(sums, 0, (size_t)(2 * channels) * sizeof *sums);
    for (int64_t row = r.begin, rows; row < r.end; row += rows) {
        rows = run_of(&k->x, &k->x, row, r.end);
        const float *at = x + omp_row(&k->x, row);
        for (int64_t c = 0; c < channels; c += BLOCK)
            moments_chunk(at + c * k->x.channel_stride, rows, k->x.stride, k->x.channel_stride,
                          s->shift + c, least(BLOCK, channels - c), sums + c, sums + channels + c);
    }
}

static double total(const norm_kernel *k, const norm_scratch *s, int64_t which)
{
    double sum = 0;
    for (int t = 0; t < k->base.threads; t++)
        sum += s->sums[2 * k->x.channels * t + which];
    return sum;
}

static neap_status run_forward(const run_kernel *self, const run_args *args, neap_diag *diag)
{
    (void)diag;
    const norm_kernel *k = (const norm_kernel *)self;
    const float *x = args->in[0], *gamma = args->in[1], *beta = args->in[2];
    float *y = args->out[0], *mean = args->out[1], *invstd = args->out[2];
    int64_t channels = k->x.channels;
    norm_scratch s = scratch_at(args->workspace, channels);
    find_shift(k, x, s.shift);
    memset(s.sums, 0, (size_t)(2 * channels * k->base.threads) * sizeof *s.sums);
#pragma omp parallel num_threads(k->base.threads)
    sum_moments(k, x, &s);
    for (int64_t c = 0; c < channels; c++) {
        double shifted = total(k, &s, c) / (double)k->x.count;
        double variance = total(k, &s, channels + c) / (double)k->x.count - shifted * shifted;
        double exact = (double)s.shift[c] + shifted;
        double inverse = 1 / sqrt((variance < 0 ? 0 : variance) + k->epsilon);
        mean[c] = (float)exact;
        invstd[c] = (float)inverse;
        s.scale[c] = (float)((double)gamma[c] * inverse);
        s.offset[c] = (float)((double)beta[c] - exact * (double)gamma[c] * inverse);
    }
#pragma omp parallel num_threads(k->base.threads)
    {
        omp_range r = omp_my_range(k->x.count, 1);
        for (int64_t row = r.begin; row < r.end; row++)
            apply_chunk(x + omp_row(&k->x, row), k->x.channel_stride, y + omp_row(&k->y, row),
                        k->y.channel_stride, s.scale, s.offset, channels);
    }
    return NEAP_OK;
}

/* ---- Backward ---- */

static void sum_products(const norm_kernel *k, const float *dy, const float *x, const float *mean,
                         const norm_scratch *s)
{
    int64_t channels = k->x.channels;
    omp_range r = omp_my_range(k->x.count, 1);
    double *sums = s->sums + 2 * channels * omp_get_thread_num();
    for (int64_t row = r.begin, rows; row < r.end; row += rows) {
        rows = run_of(&k->x, &k->y, row, r.end);
        const float *x_at = x + omp_row(&k->x, row), *dy_at = dy + omp_row(&k->y, row);
        for (int64_t c = 0; c < channels; c += BLOCK)
            products_chunk(dy_at + c * k->y.channel_stride, k->y.stride, k->y.channel_stride,
                           x_at + c * k->x.channel_stride, k->x.stride, k->x.channel_stride, rows,
                           mean + c, least(BLOCK, channels - c), sums + c, sums + channels + c);
    }
}

/*
 * With m rows, xhat = (x - mean) invstd, dbeta = sum dy, dgamma = sum dy xhat:
 *     dx = gamma invstd (dy - dbeta / m - xhat dgamma / m)
 */
static neap_status run_backward(const run_kernel *self, const run_args *args, neap_diag *diag)
{
    (void)diag;
    const norm_kernel *k = (const norm_kernel *)self;
    const float *dy = args->in[0], *x = args->in[1], *gamma = k->wants_dx ? args->in[2] : NULL;
    const float *mean = args->in[k->wants_dx ? 3 : 2], *invstd = args->in[k->wants_dx ? 4 : 3];
    float *dx = k->wants_dx ? args->out[0] : NULL;
    float *dgamma = args->out[k->wants_dx], *dbeta = args->out[k->wants_dx + 1];
    int64_t channels = k->x.channels;
    norm_scratch s = scratch_at(args->workspace, channels);
    memset(s.sums, 0, (size_t)(2 * channels * k->base.threads) * sizeof *s.sums);
#pragma omp parallel num_threads(k->base.threads)
    sum_products(k, dy, x, mean, &s);
    for (int64_t c = 0; c < channels; c++) {
        double sum = total(k, &s, c), inverse = (double)invstd[c], m = (double)k->x.count;
        double product = total(k, &s, channels + c) * inverse;
        dgamma[c] = (float)product;
        dbeta[c] = (float)sum;
        if (!dx)
            continue;
        double scale = (double)gamma[c] * inverse, slope = -scale * product * inverse / m;
        s.scale[c] = (float)scale;
        s.shift[c] = (float)slope;
        s.offset[c] = (float)(-scale * sum / m - slope * (double)mean[c]);
    }
    if (!dx)
        return NEAP_OK;
#pragma omp parallel num_threads(k->base.threads)
    {
        omp_range r = omp_my_range(k->x.count, 1);
        for (int64_t row = r.begin; row < r.end; row++)
            gradient_chunk(dy + omp_row(&k->y, row), k->y.channel_stride, x + omp_row(&k->x, row),
                           k->x.channel_stride, dx + omp_row(&k->dx, row), k->dx.channel_stride, &s,
                           channels);
    }
    return NEAP_OK;
}

/* ---- The ops ---- */

static neap_status variants(neap_backend *backend, const run_spec *spec, int64_t *workspaces,
                            uint32_t *count, neap_diag *diag)
{
    (void)diag;
    workspaces[0] = scratch_bytes(spec->in[0].shape[1], backend->threads);
    *count = 1;
    return NEAP_OK;
}

static neap_status prepare_forward(neap_backend *backend, const run_spec *spec, run_kernel **kernel,
                                   neap_diag *diag)
{
    norm_kernel *k;
    neap_status status = ONEDNN_NEW_KERNEL(backend, run_forward, &k, diag);
    if (status != NEAP_OK)
        return status;
    k->x = neap_omp_rows_of(&spec->in[0], 1);
    k->y = neap_omp_rows_of(&spec->out[0], 1);
    k->epsilon = neap_run_spec_real(spec, "epsilon", 1e-5);
    *kernel = &k->base.base;
    return NEAP_OK;
}

static neap_status prepare_backward(neap_backend *backend, const run_spec *spec,
                                    run_kernel **kernel, neap_diag *diag)
{
    norm_kernel *k;
    neap_status status = ONEDNN_NEW_KERNEL(backend, run_backward, &k, diag);
    if (status != NEAP_OK)
        return status;
    k->wants_dx = spec->op->n_outputs > 2;
    k->y = neap_omp_rows_of(&spec->in[0], 1);
    k->x = neap_omp_rows_of(&spec->in[1], 1);
    if (k->wants_dx)
        k->dx = neap_omp_rows_of(&spec->out[0], 1);
    *kernel = &k->base.base;
    return NEAP_OK;
}

const run_op neap_onednn_op_batch_norm = {.variants = variants, .prepare = prepare_forward};
const run_op neap_onednn_op_batch_norm_bw = {.variants = variants, .prepare = prepare_backward};
