/*
 * Bilinear resizing and its gradient.
 *
 * Each side of the image has a table: for every output position the two input positions it lies
 * between and their weights, for every input position the range of outputs that it has a share in.
 * Both directions gather, so that rows of the result can be computed in any order.
 */
#include "run/backends/onednn/omp_kernel.h"

#include <math.h>

typedef struct line {
    int64_t near, far; /* input positions, far = near + 1 but at the edge */
    float near_weight, far_weight;
} line;

typedef struct span {
    int64_t begin, end;
} span;

typedef struct upsample {
    run_array x, y;
    line *lines[2]; /* by output row, by output column */
    span *spans[2]; /* by input row, by input column */
    line tables[];
} upsample;

/* ---- Tables ---- */

static void fill_lines(line *lines, span *spans, int64_t inputs, int64_t outputs,
                       bool align_corners)
{
    for (int64_t o = 0; o < outputs; o++) {
        double place;
        if (align_corners)
            place = outputs > 1 ? (double)(o * (inputs - 1)) / (double)(outputs - 1) : 0;
        else
            place = ((double)o + 0.5) * (double)inputs / (double)outputs - 0.5;
        place = fmin(fmax(place, 0), (double)(inputs - 1));
        line *l = &lines[o];
        l->near = (int64_t)place;
        l->far = l->near + 1 < inputs ? l->near + 1 : l->near;
        l->far_weight = (float)(place - (double)l->near);
        l->near_weight = (float)(1 - (place - (double)l->near));
        for (int64_t i = l->near; i <= l->far; i++) {
            if (spans[i].end == 0)
                spans[i].begin = o;
            spans[i].end = o + 1;
        }
    }
}

static float weight_of(const line *l, int64_t input)
{
    return (l->near == input ? l->near_weight : 0) + (l->far == input ? l->far_weight : 0);
}

static void plan_tables(const run_spec *spec, const run_array *x, const run_array *y,
                        upsample *plan)
{
    bool align = neap_run_spec_int(spec, "align_corners", 0);
    plan->x = *x;
    plan->y = *y;
    plan->lines[0] = plan->tables;
    plan->lines[1] = plan->lines[0] + y->shape[2];
    plan->spans[0] = (span *)(plan->lines[1] + y->shape[3]);
    plan->spans[1] = plan->spans[0] + x->shape[2];
    for (int side = 0; side < 2; side++)
        fill_lines(plan->lines[side], plan->spans[side], x->shape[2 + side], y->shape[2 + side],
                   align);
}

static void plan_upsample(const run_spec *spec, int parts, void *plan)
{
    (void)parts;
    plan_tables(spec, &spec->in[0], &spec->out[0], plan);
}

static void plan_upsample_bw(const run_spec *spec, int parts, void *plan)
{
    (void)parts;
    plan_tables(spec, &spec->out[0], &spec->in[0], plan);
}

static size_t table_bytes(const run_spec *spec)
{
    const run_array *in = &spec->in[0], *out = &spec->out[0];
    return (size_t)(in->shape[2] + in->shape[3] + out->shape[2] + out->shape[3]) *
           (sizeof(line) + sizeof(span));
}

/* ---- Forward ---- */

/* Channels of one pixel: the four neighbours at x + at[i], weighted. */
OMP_CLONES static void blend(float *y, int64_t y_step, const float *x, int64_t x_step,
                             const int64_t at[4], const float w[4], int64_t n)
{
    const float *a = x + at[0], *b = x + at[1], *c = x + at[2], *d = x + at[3];
    if (y_step == 1 && x_step == 1) {
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            y[i] = w[0] * a[i] + w[1] * b[i] + (w[2] * c[i] + w[3] * d[i]);
    } else {
        for (int64_t i = 0; i < n; i++)
            y[i * y_step] = w[0] * a[i * x_step] + w[1] * b[i * x_step] +
                            (w[2] * c[i * x_step] + w[3] * d[i * x_step]);
    }
}

/* A row of one image in the channels that are there, pixel by pixel. */
static void upsample_row(const upsample *p, float *y, const float *x, const line *h,
                         int64_t channels)
{
    const int64_t *s = p->x.strides;
    for (int64_t o = 0; o < p->y.shape[3]; o++) {
        const line *w = &p->lines[1][o];
        int64_t at[4] = {h->near * s[2] + w->near * s[3], h->near * s[2] + w->far * s[3],
                         h->far * s[2] + w->near * s[3], h->far * s[2] + w->far * s[3]};
        float weights[4] = {h->near_weight * w->near_weight, h->near_weight * w->far_weight,
                            h->far_weight * w->near_weight, h->far_weight * w->far_weight};
        blend(y + o * p->y.strides[3], p->y.strides[1], x, s[1], at, weights, channels);
    }
}

/* Channels at a time: all where they are neighbours in memory, else one plane after the other. */
static int64_t channels_at_once(const upsample *p)
{
    return p->x.strides[1] == 1 || p->y.strides[1] == 1 ? p->x.shape[1] : 1;
}

static void upsample_work(const omp_task *task)
{
    const upsample *p = task->plan;
    int64_t height = p->y.shape[2], some = channels_at_once(p);
    omp_range rows = omp_share(task, p->y.shape[0] * height, 1);
    for (int64_t r = rows.begin; r < rows.end; r++)
        for (int64_t c = 0; c < p->x.shape[1]; c += some)
            upsample_row(p,
                         omp_out(task, 0) + r / height * p->y.strides[0] +
                             r % height * p->y.strides[2] + c * p->y.strides[1],
                         omp_in(task, 0) + r / height * p->x.strides[0] + c * p->x.strides[1],
                         &p->lines[0][r % height], some);
}

/* ---- Backward ---- */

#define CHANNELS 64

OMP_CLONES static void add_weighted(float *restrict sum, const float *x, int64_t step, float weight,
                                    int64_t n)
{
    if (step == 1) {
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            sum[i] += weight * x[i];
    } else {
        for (int64_t i = 0; i < n; i++)
            sum[i] += weight * x[i * step];
    }
}

/* One pixel of dx in up to CHANNELS channels. Each row of dy is summed by itself: shorter sums, and
   so smaller errors, where the image was made much larger. */
static void upsample_bw_pixel(const upsample *p, float *dx, const float *dy, int64_t h, int64_t w,
                              int64_t n)
{
    float sum[CHANNELS] = {0};
    span rows = p->spans[0][h], columns = p->spans[1][w];
    for (int64_t o = rows.begin; o < rows.end; o++) {
        float along[CHANNELS] = {0};
        for (int64_t q = columns.begin; q < columns.end; q++)
            add_weighted(along, dy + o * p->y.strides[2] + q * p->y.strides[3], p->y.strides[1],
                         weight_of(&p->lines[1][q], w), n);
        add_weighted(sum, along, 1, weight_of(&p->lines[0][o], h), n);
    }
    for (int64_t i = 0; i < n; i++)
        dx[i * p->x.strides[1]] = sum[i];
}

static void upsample_bw_work(const omp_task *task)
{
    const upsample *p = task->plan;
    int64_t height = p->x.shape[2], channels = p->x.shape[1];
    int64_t some = channels_at_once(p) > CHANNELS ? CHANNELS : channels_at_once(p);
    omp_range rows = omp_share(task, p->x.shape[0] * height, 1);
    for (int64_t r = rows.begin; r < rows.end; r++)
        for (int64_t c = 0; c < channels; c += some)
            for (int64_t w = 0; w < p->x.shape[3]; w++)
                upsample_bw_pixel(
                    p,
                    omp_out(task, 0) + r / height * p->x.strides[0] + r % height * p->x.strides[2] +
                        w * p->x.strides[3] + c * p->x.strides[1],
                    omp_in(task, 0) + r / height * p->y.strides[0] + c * p->y.strides[1],
                    r % height, w, channels - c < some ? channels - c : some);
}

OMP_OP(upsample, {.plan_bytes = sizeof(upsample),
                  .more_bytes = table_bytes,
                  .plan = plan_upsample,
                  .work = upsample_work})
OMP_OP(upsample_bw, {.plan_bytes = sizeof(upsample),
                     .more_bytes = table_bytes,
                     .plan = plan_upsample_bw,
                     .work = upsample_bw_work})
