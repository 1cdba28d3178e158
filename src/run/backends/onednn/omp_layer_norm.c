/*
 * Layer normalisation and its gradient, and RMS normalisation, which has a mean of 0 and neither
 * beta nor its gradient. A walk over all dimensions but the last visits the rows.
 *
 * Sums along a row are in blocks of f32 that are added up in f64. The gradients of gamma and beta
 * are sums over rows: each part adds its rows up, a few in f32 at a time and those in f64, and a
 * second phase adds up the parts.
 */
#include "run/backends/onednn/omp_walk.h"

#include <math.h>

#define BLOCK 256 /* elements summed in f32 */
#define FEW   32  /* rows summed in f32 */

typedef struct layer_norm {
    omp_walk walk;
    int64_t length;      /* of a row */
    int64_t step[3];     /* within rows of the walk's first operands */
    int64_t affine[2];   /* steps of gamma and beta, or of their gradients */
    int64_t gamma_step;  /* backward */
    bool data;           /* backward: dx is wanted */
    bool rms;            /* there is no mean, and no beta */
    uint32_t mean_input; /* backward; of RMS normalisation that of invrms */
    double epsilon;
} layer_norm;

/* Of operand k, the element that stands for row (r, i) of a block. */
static int64_t row_at(const omp_walk *walk, const int64_t *at, uint32_t k, int64_t r, int64_t i)
{
    return at[k] + r * omp_row_step(walk, k) + i * omp_step(walk, k);
}

/* ---- Forward ---- */

OMP_CLONES static double sum_row(const float *x, int64_t step, int64_t n)
{
    double sum = 0;
    for (int64_t first = 0; first < n; first += BLOCK) {
        int64_t end = first + BLOCK < n ? first + BLOCK : n;
        float part = 0;
        if (step == 1) {
#pragma omp simd reduction(+ : part)
            for (int64_t i = first; i < end; i++)
                part += x[i];
        } else {
            for (int64_t i = first; i < end; i++)
                part += x[i * step];
        }
        sum += (double)part;
    }
    return sum;
}

OMP_CLONES static double sum_squares(const float *x, int64_t step, int64_t n, float mean)
{
    double sum = 0;
    for (int64_t first = 0; first < n; first += BLOCK) {
        int64_t end = first + BLOCK < n ? first + BLOCK : n;
        float part = 0;
        if (step == 1) {
#pragma omp simd reduction(+ : part)
            for (int64_t i = first; i < end; i++)
                part += (x[i] - mean) * (x[i] - mean);
        } else {
            for (int64_t i = first; i < end; i++)
                part += (x[i * step] - mean) * (x[i * step] - mean);
        }
        sum += (double)part;
    }
    return sum;
}

OMP_CLONES static void normalise(float *y, const float *x, const float *gamma, const float *beta,
                                 int64_t n, float mean, float invstd)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        y[i] = (x[i] - mean) * invstd * gamma[i] + beta[i];
}

OMP_CLONES static void rms_row(float *y, const float *x, const float *gamma, int64_t n,
                               float invrms)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        y[i] = x[i] * invrms * gamma[i];
}

/* y, x, invrms */
static void rms_block(const omp_task *task, const omp_walk *walk, const int64_t *at, int64_t rows,
                      int64_t length)
{
    const layer_norm *p = task->plan;
    const float *gamma = omp_in(task, 1);
    int64_t n = p->length;
    bool dense = p->step[0] == 1 && p->step[1] == 1 && p->affine[0] == 1;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < length; i++) {
            float *y = omp_out(task, 0) + row_at(walk, at, 0, r, i);
            const float *x = omp_in(task, 0) + row_at(walk, at, 1, r, i);
            double mean = sum_squares(x, p->step[1], n, 0) / (double)n;
            float invrms = (float)(1 / sqrt(mean + p->epsilon));
            omp_out(task, 1)[row_at(walk, at, 2, r, i)] = invrms;
            if (dense)
                rms_row(y, x, gamma, n, invrms);
            for (int64_t k = 0; !dense && k < n; k++)
                y[k * p->step[0]] = x[k * p->step[1]] * invrms * gamma[k * p->affine[0]];
        }
}

/* y, x, mean, invstd */
static void forward_block(const omp_task *task, const omp_walk *walk, const int64_t *at,
                          int64_t rows, int64_t length)
{
    const layer_norm *p = task->plan;
    const float *gamma = omp_in(task, 1), *beta = omp_in(task, 2);
    int64_t n = p->length;
    bool dense = p->step[0] == 1 && p->step[1] == 1 && p->affine[0] == 1 && p->affine[1] == 1;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < length; i++) {
            float *y = omp_out(task, 0) + row_at(walk, at, 0, r, i);
            const float *x = omp_in(task, 0) + row_at(walk, at, 1, r, i);
            float mean = (float)(sum_row(x, p->step[1], n) / (double)n);
            double variance = sum_squares(x, p->step[1], n, mean) / (double)n;
            float invstd = (float)(1 / sqrt(variance + p->epsilon));
            omp_out(task, 1)[row_at(walk, at, 2, r, i)] = mean;
            omp_out(task, 2)[row_at(walk, at, 3, r, i)] = invstd;
            if (dense)
                normalise(y, x, gamma, beta, n, mean, invstd);
            for (int64_t k = 0; !dense && k < n; k++)
                y[k * p->step[0]] = (x[k * p->step[1]] - mean) * invstd * gamma[k * p->affine[0]] +
                                    beta[k * p->affine[1]];
        }
}

static void plan_layer_norm(const run_spec *spec, int parts, void *plan)
{
    layer_norm *p = plan;
    uint32_t last = spec->in[0].rank - 1;
    run_array arrays[4] = {neap_run_array_without(&spec->out[0], last),
                           neap_run_array_without(&spec->in[0], last), spec->out[1], spec->out[2]};
    neap_omp_walk_plan(&p->walk, 4, arrays, 1, parts);
    p->length = spec->in[0].shape[last];
    p->step[0] = spec->out[0].strides[last];
    p->step[1] = spec->in[0].strides[last];
    p->affine[0] = spec->in[1].strides[0];
    p->affine[1] = spec->in[2].strides[0];
    p->epsilon = neap_run_spec_real(spec, "epsilon", 1e-5);
}

static void plan_rms_norm(const run_spec *spec, int parts, void *plan)
{
    layer_norm *p = plan;
    uint32_t last = spec->in[0].rank - 1;
    run_array arrays[3] = {neap_run_array_without(&spec->out[0], last),
                           neap_run_array_without(&spec->in[0], last), spec->out[1]};
    neap_omp_walk_plan(&p->walk, 3, arrays, 1, parts);
    p->length = spec->in[0].shape[last];
    p->step[0] = spec->out[0].strides[last];
    p->step[1] = spec->in[0].strides[last];
    p->affine[0] = spec->in[1].strides[0];
    p->epsilon = neap_run_spec_real(spec, "epsilon", 1e-5);
    p->rms = true;
}

static void forward_work(const omp_task *task)
{
    const layer_norm *p = task->plan;
    neap_omp_walk_share(&p->walk, task, p->rms ? rms_block : forward_block);
}

/* ---- Backward ---- */

/* One row of dy and x, with the row's statistics. */
typedef struct row {
    const float *dy, *x, *gamma;
    int64_t dy_step, x_step, gamma_step;
    float mean, invstd;
} row;

/* A part's sums: in f64 all rows so far, in f32 the last few. Each is dgamma, then dbeta. */
typedef struct sums {
    double *total;
    float *few;
} sums;

static int64_t part_bytes(int64_t length)
{
    return (2 * length * (int64_t)(sizeof(double) + sizeof(float)) + 63) / 64 * 64;
}

static sums sums_of(const layer_norm *p, const omp_task *task, int part)
{
    char *begin = (char *)task->args->workspace + part * part_bytes(p->length);
    return (sums){(double *)begin, (float *)(begin + 2 * p->length * (int64_t)sizeof(double))};
}

/* The sums of d = dy * gamma and of d z over a block, with z = (x - mean) * invstd. */
OMP_CLONES static void sum_block(const row *r, int64_t first, int64_t end, float result[2])
{
    float d = 0, dz = 0;
    const float *dy = r->dy, *x = r->x, *gamma = r->gamma, mean = r->mean, invstd = r->invstd;
    if (r->dy_step == 1 && r->x_step == 1 && r->gamma_step == 1) {
#pragma omp simd reduction(+ : d, dz)
        for (int64_t i = first; i < end; i++) {
            float own = dy[i] * gamma[i];
            d += own;
            dz += own * ((x[i] - mean) * invstd);
        }
    } else {
        for (int64_t i = first; i < end; i++) {
            float own = dy[i * r->dy_step] * gamma[i * r->gamma_step];
            d += own;
            dz += own * ((x[i * r->x_step] - mean) * invstd);
        }
    }
    result[0] = d;
    result[1] = dz;
}

/* dx = invstd * (d - mean(d) - z * mean(d z)) */
OMP_CLONES static void write_dx(float *dx, int64_t dx_step, const row *r, int64_t n, float mean_d,
                                float mean_dz)
{
    const float *dy = r->dy, *x = r->x, *gamma = r->gamma, mean = r->mean, invstd = r->invstd;
    if (dx_step == 1 && r->dy_step == 1 && r->x_step == 1 && r->gamma_step == 1) {
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            dx[i] = invstd * (dy[i] * gamma[i] - mean_d - (x[i] - mean) * invstd * mean_dz);
    } else {
        for (int64_t i = 0; i < n; i++)
            dx[i * dx_step] = invstd * (dy[i * r->dy_step] * gamma[i * r->gamma_step] - mean_d -
                                        (x[i * r->x_step] - mean) * invstd * mean_dz);
    }
}

static void backward_row(float *dx, int64_t dx_step, const row *r, int64_t n, bool rms)
{
    double d = 0, dz = 0;
    for (int64_t first = 0; first < n; first += BLOCK) {
        float part[2];
        sum_block(r, first, first + BLOCK < n ? first + BLOCK : n, part);
        d += (double)part[0];
        dz += (double)part[1];
    }
    write_dx(dx, dx_step, r, n, rms ? 0 : (float)(d / (double)n), (float)(dz / (double)n));
}

OMP_CLONES static void add_affine(float *restrict dgamma, float *restrict dbeta, const row *r,
                                  int64_t n)
{
    const float *dy = r->dy, *x = r->x, mean = r->mean, invstd = r->invstd;
    if (r->dy_step == 1 && r->x_step == 1) {
#pragma omp simd
        for (int64_t i = 0; i < n; i++) {
            dgamma[i] += dy[i] * ((x[i] - mean) * invstd);
            dbeta[i] += dy[i];
        }
    } else {
        for (int64_t i = 0; i < n; i++) {
            float own = dy[i * r->dy_step];
            dgamma[i] += own * ((x[i * r->x_step] - mean) * invstd);
            dbeta[i] += own;
        }
    }
}

/* Moves the last rows' sums to those of all. */
OMP_CLONES static void flush(double *restrict total, float *restrict few, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        total[i] += (double)few[i];
        few[i] = 0;
    }
}

/* dy, x, mean, invstd [, dx] */
static void backward_block(const omp_task *task, const omp_walk *walk, const int64_t *at,
                           int64_t rows, int64_t length)
{
    const layer_norm *p = task->plan;
    sums s = sums_of(p, task, task->part);
    int64_t n = p->length, waiting = 0;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < length; i++) {
            row one = {.dy = omp_in(task, 0) + row_at(walk, at, 0, r, i),
                       .x = omp_in(task, 1) + row_at(walk, at, 1, r, i),
                       .gamma = p->data ? omp_in(task, 2) : NULL,
                       .dy_step = p->step[0],
                       .x_step = p->step[1],
                       .gamma_step = p->gamma_step,
                       .mean = p->rms ? 0 : omp_in(task, p->mean_input)[row_at(walk, at, 2, r, i)],
                       .invstd = omp_in(task, p->mean_input + !p->rms)[row_at(walk, at, 3, r, i)]};
            add_affine(s.few, s.few + n, &one, n);
            if (p->data)
                backward_row(omp_out(task, 0) + row_at(walk, at, 4, r, i), p->step[2], &one, n,
                             p->rms);
            if (++waiting == FEW) {
                flush(s.total, s.few, 2 * n);
                waiting = 0;
            }
        }
    flush(s.total, s.few, 2 * n);
}

static void plan_backward(const run_spec *spec, int parts, layer_norm *p)
{
    uint32_t last = spec->in[0].rank - 1, first = 0;
    p->data = spec->op->n_outputs == (p->rms ? 2 : 3);
    p->mean_input = p->data ? 3 : 2;
    run_array arrays[5] = {neap_run_array_without(&spec->in[0], last),
                           neap_run_array_without(&spec->in[1], last), spec->in[p->mean_input],
                           spec->in[p->mean_input + !p->rms]};
    p->length = spec->in[0].shape[last];
    p->step[0] = spec->in[0].strides[last];
    p->step[1] = spec->in[1].strides[last];
    if (p->data) {
        arrays[4] = neap_run_array_without(&spec->out[0], last);
        p->step[2] = spec->out[0].strides[last];
        p->gamma_step = spec->in[2].strides[0];
        first = 1;
    }
    p->affine[0] = spec->out[first].strides[0];
    p->affine[1] = p->rms ? 0 : spec->out[first + 1].strides[0];
    neap_omp_walk_plan(&p->walk, p->data ? 5 : 4, arrays, 1, parts);
}

static void plan_layer_norm_bw(const run_spec *spec, int parts, void *plan)
{
    plan_backward(spec, parts, plan);
}

static void plan_rms_norm_bw(const run_spec *spec, int parts, void *plan)
{
    ((layer_norm *)plan)->rms = true;
    plan_backward(spec, parts, plan);
}

static int64_t backward_workspace(const run_spec *spec, int parts)
{
    return parts * part_bytes(spec->in[0].shape[spec->in[0].rank - 1]);
}

/* The second phase: some columns of dgamma and dbeta. */
static void join_parts(const layer_norm *p, const omp_task *task)
{
    omp_range columns = omp_share(task, p->length, 16);
    for (int which = 0; which < (p->rms ? 1 : 2); which++)
        for (int64_t i = columns.begin; i < columns.end; i++) {
            double sum = 0;
            for (int part = 0; part < task->parts; part++)
                sum += sums_of(p, task, part).total[which * p->length + i];
            omp_out(task, (p->data ? 1 : 0) + (uint32_t)which)[i * p->affine[which]] = (float)sum;
        }
}

static void backward_work(const omp_task *task)
{
    const layer_norm *p = task->plan;
    if (task->phase == 1) {
        join_parts(p, task);
        return;
    }
    sums s = sums_of(p, task, task->part);
    for (int64_t i = 0; i < 2 * p->length; i++) {
        s.total[i] = 0;
        s.few[i] = 0;
    }
    neap_omp_walk_share(&p->walk, task, backward_block);
}

OMP_OP(layer_norm,
       {.plan_bytes = sizeof(layer_norm), .plan = plan_layer_norm, .work = forward_work})
OMP_OP(layer_norm_bw, {.plan_bytes = sizeof(layer_norm),
                       .plan = plan_layer_norm_bw,
                       .workspace = backward_workspace,
                       .work = backward_work,
                       .phases = 2})
OMP_OP(rms_norm, {.plan_bytes = sizeof(layer_norm), .plan = plan_rms_norm, .work = forward_work})
OMP_OP(rms_norm_bw, {.plan_bytes = sizeof(layer_norm),
                     .plan = plan_rms_norm_bw,
                     .workspace = backward_workspace,
                     .work = backward_work,
                     .phases = 2})
