/*
 * Cross-entropy: xent, log_softmax, nll and their gradients; and softmax.
 *
 * Classes are dimension 1, of softmax any; a walk over all other dimensions visits the rows.
 * Classes lie next to each other in the common cases (logits N x K, images channels-last),
 * otherwise `step` apart.
 */
#include "base/fail.h"
#include "run/backends/onednn/omp_math.h"
#include "run/backends/onednn/omp_walk.h"

typedef struct loss {
    omp_walk walk;            /* rows: see each op */
    int64_t classes, step[3]; /* of the operands with classes */
    int64_t rows;
    neap_dtype label_type;
    omp_walk labels; /* the labels alone, to check them */
    uint32_t label_input;
    omp_block *block;
} loss;

/* ---- One row ---- */

#define LANES 16

/* Lanes by hand: comparisons of floats do not become vector code by themselves. */
OMP_CLONES static float class_max(const float *x, int64_t step, int64_t n)
{
    float max = x[0], lane[LANES];
    int64_t i = 0;
    for (int k = 0; k < LANES; k++)
        lane[k] = max;
    for (; step == 1 && i + LANES <= n; i += LANES)
        for (int k = 0; k < LANES; k++)
            lane[k] = x[i + k] > lane[k] ? x[i + k] : lane[k];
    for (int k = 0; k < LANES; k++)
        max = lane[k] > max ? lane[k] : max;
    for (; i < n; i++)
        max = x[i * step] > max ? x[i * step] : max;
    return max;
}

/* The sum of exp(x - shift), in blocks. */
OMP_CLONES static double row_sum_exp(const float *x, int64_t step, int64_t n, float shift)
{
    double sum = 0;
    for (int64_t first = 0; first < n; first += 512) {
        int64_t end = first + 512 < n ? first + 512 : n;
        float part = 0;
        if (step == 1) {
#pragma omp simd reduction(+ : part)
            for (int64_t i = first; i < end; i++)
                part += omp_exp(x[i] - shift);
        } else {
            for (int64_t i = first; i < end; i++)
                part += omp_exp(x[i * step] - shift);
        }
        sum += (double)part;
    }
    return sum;
}

OMP_CLONES static double row_sum(const float *x, int64_t step, int64_t n)
{
    double sum = 0;
    if (step == 1) {
#pragma omp simd reduction(+ : sum)
        for (int64_t i = 0; i < n; i++)
            sum += (double)x[i];
    } else {
        for (int64_t i = 0; i < n; i++)
            sum += (double)x[i * step];
    }
    return sum;
}

static double row_lse(const float *x, int64_t step, int64_t n)
{
    float max = class_max(x, step, n);
    return (double)max + log(row_sum_exp(x, step, n, max));
}

/* y = factor * exp(x - shift) */
OMP_CLONES static void row_exp(float *y, int64_t y_step, const float *x, int64_t x_step, int64_t n,
                               float shift, float factor)
{
    if (y_step == 1 && x_step == 1) {
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            y[i] = factor * omp_exp(x[i] - shift);
    } else {
        for (int64_t i = 0; i < n; i++)
            y[i * y_step] = factor * omp_exp(x[i * x_step] - shift);
    }
}

/* y = x - shift */
OMP_CLONES static void row_shift(float *y, int64_t y_step, const float *x, int64_t x_step,
                                 int64_t n, float shift)
{
    if (y_step == 1 && x_step == 1) {
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            y[i] = x[i] - shift;
    } else {
        for (int64_t i = 0; i < n; i++)
            y[i * y_step] = x[i * x_step] - shift;
    }
}

/* dx = dy - exp(y) * sum, with dx where y is or dy is */
OMP_CLONES static void row_softmax_bw(float *dx, const float *dy, const float *y,
                                      const int64_t step[3], int64_t n, float sum)
{
    if (step[0] == 1 && step[1] == 1 && step[2] == 1) {
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            dx[i] = dy[i] - omp_exp(y[i]) * sum;
    } else {
        for (int64_t i = 0; i < n; i++)
            dx[i * step[0]] = dy[i * step[1]] - omp_exp(y[i * step[2]]) * sum;
    }
}

/* The sum of x y */
OMP_CLONES static double row_product(const float *x, int64_t x_step, const float *y, int64_t y_step,
                                     int64_t n)
{
    double sum = 0;
    if (x_step == 1 && y_step == 1) {
#pragma omp simd reduction(+ : sum)
        for (int64_t i = 0; i < n; i++)
            sum += (double)x[i] * (double)y[i];
    } else {
        for (int64_t i = 0; i < n; i++)
            sum += (double)x[i * x_step] * (double)y[i * y_step];
    }
    return sum;
}

/* dx = y (dy - sum), with dx where y is or dy is */
OMP_CLONES static void row_share_bw(float *dx, const float *dy, const float *y,
                                    const int64_t step[3], int64_t n, float sum)
{
    if (step[0] == 1 && step[1] == 1 && step[2] == 1) {
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            dx[i] = y[i] * (dy[i] - sum);
    } else {
        for (int64_t i = 0; i < n; i++)
            dx[i * step[0]] = y[i * step[2]] * (dy[i * step[1]] - sum);
    }
}

/* ---- Blocks: every element stands for a row ---- */

/* Of operand k, the element that stands for row (r, i) of a block. */
static int64_t row_at(const omp_walk *walk, const int64_t *at, uint32_t k, int64_t r, int64_t i)
{
    return at[k] + r * omp_row_step(walk, k) + i * omp_step(walk, k);
}

static int64_t label_at(const omp_task *task, const loss *p, int64_t at)
{
    return omp_integer(task->args->in[p->label_input], p->label_type, at);
}

/* The part's sum of losses so far. */
static double *part_sum(const omp_task *task)
{
    return (double *)task->args->workspace + task->part;
}

/* logits, labels, lse */
static void xent_block(const omp_task *task, const omp_walk *walk, const int64_t *at, int64_t rows,
                       int64_t length)
{
    const loss *p = task->plan;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < length; i++) {
            const float *x = omp_in(task, 0) + row_at(walk, at, 0, r, i);
            int64_t label = label_at(task, p, row_at(walk, at, 1, r, i));
            double lse = row_lse(x, p->step[0], p->classes);
            omp_out(task, 1)[row_at(walk, at, 2, r, i)] = (float)lse;
            *part_sum(task) += lse - (double)x[label * p->step[0]];
        }
}

/* dlogits, logits, labels, lse */
static void xent_bw_block(const omp_task *task, const omp_walk *walk, const int64_t *at,
                          int64_t rows, int64_t length)
{
    const loss *p = task->plan;
    float factor = omp_in(task, 0)[0] / (float)p->rows;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < length; i++) {
            float *dx = omp_out(task, 0) + row_at(walk, at, 0, r, i);
            const float *x = omp_in(task, 1) + row_at(walk, at, 1, r, i);
            int64_t label = label_at(task, p, row_at(walk, at, 2, r, i));
            float lse = omp_in(task, 3)[row_at(walk, at, 3, r, i)];
            row_exp(dx, p->step[0], x, p->step[1], p->classes, lse, factor);
            dx[label * p->step[0]] -= factor;
        }
}

/* logp, logits */
static void log_softmax_block(const omp_task *task, const omp_walk *walk, const int64_t *at,
                              int64_t rows, int64_t length)
{
    const loss *p = task->plan;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < length; i++) {
            const float *x = omp_in(task, 0) + row_at(walk, at, 1, r, i);
            row_shift(omp_out(task, 0) + row_at(walk, at, 0, r, i), p->step[0], x, p->step[1],
                      p->classes, (float)row_lse(x, p->step[1], p->classes));
        }
}

/* dlogits, dlogp, logp */
static void log_softmax_bw_block(const omp_task *task, const omp_walk *walk, const int64_t *at,
                                 int64_t rows, int64_t length)
{
    const loss *p = task->plan;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < length; i++) {
            const float *dy = omp_in(task, 0) + row_at(walk, at, 1, r, i);
            double sum = row_sum(dy, p->step[1], p->classes);
            row_softmax_bw(omp_out(task, 0) + row_at(walk, at, 0, r, i), dy,
                           omp_in(task, 1) + row_at(walk, at, 2, r, i), p->step, p->classes,
                           (float)sum);
        }
}

/* y, x */
static void softmax_block(const omp_task *task, const omp_walk *walk, const int64_t *at,
                          int64_t rows, int64_t length)
{
    const loss *p = task->plan;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < length; i++) {
            const float *x = omp_in(task, 0) + row_at(walk, at, 1, r, i);
            float max = class_max(x, p->step[1], p->classes);
            double sum = row_sum_exp(x, p->step[1], p->classes, max);
            row_exp(omp_out(task, 0) + row_at(walk, at, 0, r, i), p->step[0], x, p->step[1],
                    p->classes, max, (float)(1 / sum));
        }
}

/* dx, dy, y */
static void softmax_bw_block(const omp_task *task, const omp_walk *walk, const int64_t *at,
                             int64_t rows, int64_t length)
{
    const loss *p = task->plan;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < length; i++) {
            const float *dy = omp_in(task, 0) + row_at(walk, at, 1, r, i);
            const float *y = omp_in(task, 1) + row_at(walk, at, 2, r, i);
            double sum = row_product(dy, p->step[1], y, p->step[2], p->classes);
            row_share_bw(omp_out(task, 0) + row_at(walk, at, 0, r, i), dy, y, p->step, p->classes,
                         (float)sum);
        }
}

/* logp, labels */
static void nll_block(const omp_task *task, const omp_walk *walk, const int64_t *at, int64_t rows,
                      int64_t length)
{
    const loss *p = task->plan;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < length; i++) {
            int64_t label = label_at(task, p, row_at(walk, at, 1, r, i));
            *part_sum(task) -=
                (double)omp_in(task, 0)[row_at(walk, at, 0, r, i) + label * p->step[0]];
        }
}

/* dlogp, labels */
static void nll_bw_block(const omp_task *task, const omp_walk *walk, const int64_t *at,
                         int64_t rows, int64_t length)
{
    const loss *p = task->plan;
    float gradient = -omp_in(task, 0)[0] / (float)p->rows;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < length; i++) {
            float *dx = omp_out(task, 0) + row_at(walk, at, 0, r, i);
            int64_t label = label_at(task, p, row_at(walk, at, 1, r, i));
            for (int64_t k = 0; k < p->classes; k++)
                dx[k * p->step[0]] = k == label ? gradient : 0;
        }
}

/* ---- Plans and work ---- */

/* Rows along an axis of arrays with classes, then arrays without. */
static void plan_axis(loss *p, int parts, uint32_t axis, uint32_t with, uint32_t without,
                      const run_array *const *arrays, omp_block *block)
{
    run_array rows[OMP_MOST_OPERANDS];
    for (uint32_t i = 0; i < with + without; i++)
        rows[i] = i < with ? neap_run_array_without(arrays[i], axis) : *arrays[i];
    for (uint32_t i = 0; i < with; i++)
        p->step[i] = arrays[i]->strides[axis];
    p->classes = arrays[0]->shape[axis];
    p->rows = neap_run_array_elements(&rows[0]);
    p->block = block;
    neap_omp_walk_plan(&p->walk, with + without, rows, 1, parts);
}

static void plan_rows(loss *p, int parts, uint32_t with, uint32_t without,
                      const run_array *const *arrays, omp_block *block)
{
    plan_axis(p, parts, 1, with, without, arrays, block);
}

static void plan_labels(loss *p, const run_spec *spec, uint32_t input)
{
    p->label_input = input;
    p->label_type = spec->in[input].dtype;
    neap_omp_walk_plan(&p->labels, 1, &spec->in[input], 1, 1);
}

static void plan_xent(const run_spec *spec, int parts, void *plan)
{
    plan_labels(plan, spec, 1);
    plan_rows(plan, parts, 1, 2, (const run_array *[]){&spec->in[0], &spec->in[1], &spec->out[1]},
              xent_block);
}

static void plan_xent_bw(const run_spec *spec, int parts, void *plan)
{
    plan_labels(plan, spec, 2);
    plan_rows(plan, parts, 2, 2,
              (const run_array *[]){&spec->out[0], &spec->in[1], &spec->in[2], &spec->in[3]},
              xent_bw_block);
}

static void plan_log_softmax(const run_spec *spec, int parts, void *plan)
{
    plan_rows(plan, parts, 2, 0, (const run_array *[]){&spec->out[0], &spec->in[0]},
              log_softmax_block);
}

static void plan_log_softmax_bw(const run_spec *spec, int parts, void *plan)
{
    plan_rows(plan, parts, 3, 0, (const run_array *[]){&spec->out[0], &spec->in[0], &spec->in[1]},
              log_softmax_bw_block);
}

static void plan_softmax(const run_spec *spec, int parts, void *plan)
{
    uint32_t axis = (uint32_t)neap_run_spec_int(spec, "axis", 0);
    plan_axis(plan, parts, axis, 2, 0, (const run_array *[]){&spec->out[0], &spec->in[0]},
              softmax_block);
}

static void plan_softmax_bw(const run_spec *spec, int parts, void *plan)
{
    uint32_t axis = (uint32_t)neap_run_spec_int(spec, "axis", 0);
    plan_axis(plan, parts, axis, 3, 0,
              (const run_array *[]){&spec->out[0], &spec->in[0], &spec->in[1]}, softmax_bw_block);
}

static void plan_nll(const run_spec *spec, int parts, void *plan)
{
    plan_labels(plan, spec, 1);
    plan_rows(plan, parts, 1, 1, (const run_array *[]){&spec->in[0], &spec->in[1]}, nll_block);
}

static void plan_nll_bw(const run_spec *spec, int parts, void *plan)
{
    plan_labels(plan, spec, 1);
    plan_rows(plan, parts, 1, 1, (const run_array *[]){&spec->out[0], &spec->in[1]}, nll_bw_block);
}

/* Labels must name a class: kernels use them as addresses. */
static neap_status check_labels(const void *plan, const run_args *args, neap_diag *diag)
{
    const loss *p = plan;
    int64_t rows = p->labels.total / p->labels.extent[p->labels.rank - 1];
    for (int64_t r = 0; r < rows; r++) {
        int64_t at = 0, rest = r;
        for (uint32_t d = p->labels.rank - 1; d-- > 0; rest /= p->labels.extent[d])
            at += rest % p->labels.extent[d] * p->labels.stride[d][0];
        for (int64_t i = 0; i < p->labels.extent[p->labels.rank - 1]; i++) {
            int64_t label = omp_integer(args->in[p->label_input], p->label_type,
                                        at + i * omp_step(&p->labels, 0));
            if (label < 0 || label >= p->classes)
                return neap_fail(diag, NEAP_INVALID, "a label is %lld, with classes from 0 to %lld",
                                 (long long)label, (long long)p->classes - 1);
        }
    }
    return NEAP_OK;
}

static void rows_work(const omp_task *task)
{
    const loss *p = task->plan;
    neap_omp_walk_share(&p->walk, task, p->block);
}

/* The mean over rows: parts' sums first, added up in order of parts. */
static void mean_work(const omp_task *task)
{
    const loss *p = task->plan;
    if (task->phase == 0) {
        *part_sum(task) = 0;
        rows_work(task);
    } else if (task->part == 0) {
        double sum = 0;
        for (int part = 0; part < task->parts; part++)
            sum += ((const double *)task->args->workspace)[part];
        omp_out(task, 0)[0] = (float)(sum / (double)p->rows);
    }
}

static int64_t sums_workspace(const run_spec *spec, int parts)
{
    (void)spec;
    return parts * (int64_t)sizeof(double);
}

#define MEAN_OP(type)                                                                              \
    OMP_OP(type, {.plan_bytes = sizeof(loss),                                                      \
                  .plan = plan_##type,                                                             \
                  .workspace = sums_workspace,                                                     \
                  .check = check_labels,                                                           \
                  .work = mean_work,                                                               \
                  .phases = 2})

MEAN_OP(xent)
MEAN_OP(nll)
OMP_OP(xent_bw,
       {.plan_bytes = sizeof(loss), .plan = plan_xent_bw, .check = check_labels, .work = rows_work})
OMP_OP(nll_bw,
       {.plan_bytes = sizeof(loss), .plan = plan_nll_bw, .check = check_labels, .work = rows_work})
OMP_OP(log_softmax, {.plan_bytes = sizeof(loss), .plan = plan_log_softmax, .work = rows_work})
OMP_OP(log_softmax_bw, {.plan_bytes = sizeof(loss), .plan = plan_log_softmax_bw, .work = rows_work})
OMP_OP(softmax, {.plan_bytes = sizeof(loss), .plan = plan_softmax, .work = rows_work})
OMP_OP(softmax_bw, {.plan_bytes = sizeof(loss), .plan = plan_softmax_bw, .work = rows_work})
