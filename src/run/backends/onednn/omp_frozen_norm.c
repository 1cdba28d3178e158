/*
 * Batch normalisation by given statistics, and its gradients.
 *
 * In both directions an element is (from - shift) * factor + offset of its channel. The first phase
 * writes these three of every channel to the workspace, without gaps.
 */
#include "run/backends/onednn/omp_walk.h"

#include <math.h>

typedef struct frozen {
    omp_walk walk; /* the result, the operand, the number of the channel */
    int64_t channels;
    int64_t gamma, beta, mean, variance; /* steps */
    bool forward;
    double epsilon;
} frozen;

/* Steps of 1 along the channels, of 0 elsewhere. */
static run_array channel_numbers(const run_array *x)
{
    run_array numbers = *x;
    for (uint32_t d = 0; d < x->rank; d++)
        numbers.strides[d] = d == 1;
    return numbers;
}

static void plan_elements(const run_spec *spec, int parts, frozen *p)
{
    const run_array *x = &spec->in[0];
    run_array arrays[] = {spec->out[0], *x, channel_numbers(x)};
    neap_omp_walk_plan(&p->walk, 3, arrays, 64, parts);
    p->channels = x->shape[1];
    p->gamma = spec->in[1].strides[0];
    p->epsilon = neap_run_spec_real(spec, "epsilon", 1e-5);
}

static void plan_forward(const run_spec *spec, int parts, void *plan)
{
    frozen *p = plan;
    plan_elements(spec, parts, p);
    p->beta = spec->in[2].strides[0];
    p->mean = spec->in[3].strides[0];
    p->variance = spec->in[4].strides[0];
    p->forward = true;
}

static void plan_bw_data(const run_spec *spec, int parts, void *plan)
{
    frozen *p = plan;
    plan_elements(spec, parts, p);
    p->variance = spec->in[2].strides[0];
}

static int64_t coefficients_workspace(const run_spec *spec, int parts)
{
    (void)parts;
    return 3 * spec->in[0].shape[1] * (int64_t)sizeof(float);
}

/* ---- Elements ---- */

static void write_coefficients(const frozen *p, const omp_task *task)
{
    float *shift = task->args->workspace, *factor = shift + p->channels,
          *offset = factor + p->channels;
    const float *variance = omp_in(task, p->forward ? 4 : 2);
    omp_range range = omp_share(task, p->channels, 16);
    for (int64_t c = range.begin; c < range.end; c++) {
        double invstd = 1 / sqrt((double)variance[c * p->variance] + p->epsilon);
        factor[c] = (float)((double)omp_in(task, 1)[c * p->gamma] * invstd);
        shift[c] = p->forward ? omp_in(task, 3)[c * p->mean] : 0;
        offset[c] = p->forward ? omp_in(task, 2)[c * p->beta] : 0;
    }
}

/* A row of one channel, or of channels that follow each other. */
OMP_CLONES static void frozen_row(float *y, const float *x, int64_t length, bool one_channel,
                                  const float *shift, const float *factor, const float *offset)
{
    if (one_channel) {
        float s = *shift, f = *factor, o = *offset;
#pragma omp simd
        for (int64_t i = 0; i < length; i++)
            y[i] = (x[i] - s) * f + o;
    } else {
#pragma omp simd
        for (int64_t i = 0; i < length; i++)
            y[i] = (x[i] - shift[i]) * factor[i] + offset[i];
    }
}

static void frozen_block(const omp_task *task, const omp_walk *walk, const int64_t *at,
                         int64_t rows, int64_t length)
{
    const frozen *p = task->plan;
    const float *shift = task->args->workspace, *factor = shift + p->channels,
                *offset = factor + p->channels;
    int64_t y_step = omp_step(walk, 0), x_step = omp_step(walk, 1), c_step = omp_step(walk, 2);
    for (int64_t r = 0; r < rows; r++) {
        float *y = omp_out(task, 0) + at[0] + r * omp_row_step(walk, 0);
        const float *x = omp_in(task, 0) + at[1] + r * omp_row_step(walk, 1);
        int64_t c = at[2] + r * omp_row_step(walk, 2);
        if (y_step == 1 && x_step == 1 && (c_step == 0 || c_step == 1)) {
            frozen_row(y, x, length, c_step == 0, shift + c, factor + c, offset + c);
            continue;
        }
        for (int64_t i = 0; i < length; i++, c += c_step)
            y[i * y_step] = (x[i * x_step] - shift[c]) * factor[c] + offset[c];
    }
}

static void elements_work(const omp_task *task)
{
    const frozen *p = task->plan;
    if (task->phase == 0)
        write_coefficients(p, task);
    else
        neap_omp_walk_share(&p->walk, task, frozen_block);
}

OMP_OP(batch_norm_frozen, {.plan_bytes = sizeof(frozen),
                           .plan = plan_forward,
                           .workspace = coefficients_workspace,
                           .work = elements_work,
                           .phases = 2})
OMP_OP(batch_norm_frozen_bw_data, {.plan_bytes = sizeof(frozen),
                                   .plan = plan_bw_data,
                                   .workspace = coefficients_workspace,
                                   .work = elements_work,
                                   .phases = 2})

/* ---- The weight's gradient ---- */

typedef struct frozen_weight {
    omp_walk walk; /* dy, x, the number of the channel */
    int64_t channels;
    int64_t mean, variance, dgamma; /* steps */
    double epsilon;
} frozen_weight;

static void plan_bw_weight(const run_spec *spec, int parts, void *plan)
{
    frozen_weight *p = plan;
    run_array arrays[] = {spec->in[0], spec->in[1], channel_numbers(&spec->in[0])};
    neap_omp_walk_plan(&p->walk, 3, arrays, 64, parts);
    p->channels = spec->in[0].shape[1];
    p->mean = spec->in[2].strides[0];
    p->variance = spec->in[3].strides[0];
    p->dgamma = spec->out[0].strides[0];
    p->epsilon = neap_run_spec_real(spec, "epsilon", 1e-5);
}

static int64_t weight_workspace(const run_spec *spec, int parts)
{
    return parts * spec->in[0].shape[1] * (int64_t)sizeof(double);
}

/* Adds dy (x - mean) to the sums of this part's channels. */
static void weight_block(const omp_task *task, const omp_walk *walk, const int64_t *at,
                         int64_t rows, int64_t length)
{
    const frozen_weight *p = task->plan;
    double *sums = (double *)task->args->workspace + task->part * p->channels;
    const float *mean = omp_in(task, 2);
    int64_t c_step = omp_step(walk, 2);
    for (int64_t r = 0; r < rows; r++) {
        const float *dy = omp_in(task, 0) + at[0] + r * omp_row_step(walk, 0);
        const float *x = omp_in(task, 1) + at[1] + r * omp_row_step(walk, 1);
        int64_t c = at[2] + r * omp_row_step(walk, 2);
        for (int64_t i = 0; i < length; i++, c += c_step)
            sums[c] += (double)dy[i * omp_step(walk, 0)] *
                       ((double)x[i * omp_step(walk, 1)] - (double)mean[c * p->mean]);
    }
}

static void weight_work(const omp_task *task)
{
    const frozen_weight *p = task->plan;
    double *sums = task->args->workspace;
    if (task->phase == 0) {
        for (int64_t c = 0; c < p->channels; c++)
            sums[task->part * p->channels + c] = 0;
        neap_omp_walk_share(&p->walk, task, weight_block);
        return;
    }
    omp_range range = omp_share(task, p->channels, 16);
    for (int64_t c = range.begin; c < range.end; c++) {
        double sum = 0, variance = (double)omp_in(task, 3)[c * p->variance];
        for (int part = 0; part < task->parts; part++)
            sum += sums[part * p->channels + c];
        omp_out(task, 0)[c * p->dgamma] = (float)(sum / sqrt(variance + p->epsilon));
    }
}

OMP_OP(batch_norm_frozen_bw_weight, {.plan_bytes = sizeof(frozen_weight),
                                     .plan = plan_bw_weight,
                                     .workspace = weight_workspace,
                                     .work = weight_work,
                                     .phases = 2})
