/*
 * Sums over leading dimensions, or over any set of axes; means, extremes and products too. Here the
 * axes that go are *leads* and what stays is *columns*. Sums are in f64, a strip of columns at a
 * time.
 *
 * Parts share the columns; where those are too few, the leads, and partial sums meet in a second
 * phase.
 */
#include "run/axes.h"
#include "run/backends/onednn/omp_walk.h"

#include <math.h>

#define STRIP 256

typedef enum fold { SUM, LARGEST, SMALLEST, PRODUCT } fold;

typedef struct reduce {
    omp_walk columns; /* the result; the operand's dimensions that stay; a counter */
    omp_walk leads;   /* the operand's others */
    int64_t count;    /* columns */
    bool by_leads;
    fold fold;
    double factor; /* of the result */
} reduce;

static bool shares_leads(int64_t columns, int64_t leads, int parts)
{
    return columns < 64 * parts && leads >= 2 * parts;
}

static void plan_fold(const run_spec *spec, int parts, reduce *p, fold how)
{
    const run_array *x = &spec->in[0], *y = &spec->out[0];
    run_spread spread = neap_run_spread_of(spec, y, x);
    run_array columns = neap_run_spread_kept(&spread, x);
    run_array leads = neap_run_spread_summed(&spread, x),
              counter = neap_run_array_counter(&columns);
    neap_omp_walk_plan(&p->columns, 3, (run_array[]){spread.small, columns, counter}, 16, parts);
    neap_omp_walk_plan(&p->leads, 1, &leads, 1, parts);
    p->count = neap_run_array_elements(y);
    p->by_leads = shares_leads(p->count, p->leads.total, parts);
    p->fold = how;
    p->factor = 1;
}

static int64_t reduce_workspace(const run_spec *spec, int parts)
{
    int64_t columns = neap_run_array_elements(&spec->out[0]);
    int64_t leads = neap_run_array_elements(&spec->in[0]) / columns;
    return shares_leads(columns, leads, parts) ? columns * parts * (int64_t)sizeof(double) : 0;
}

/* Where a lead begins in operand k. */
static int64_t lead_at(const omp_walk *leads, uint32_t k, int64_t lead)
{
    int64_t at = 0;
    for (uint32_t d = leads->rank; d-- > 0; lead /= leads->extent[d])
        at += lead % leads->extent[d] * leads->stride[d][k];
    return at;
}

static double first_of(fold how)
{
    return how == SUM ? 0 : how == PRODUCT ? 1 : how == LARGEST ? -HUGE_VAL : HUGE_VAL;
}

/* What is not a number stays so. */
static double join(fold how, double a, double b)
{
    switch (how) {
    case SUM:
        return a + b;
    case PRODUCT:
        return a * b;
    case LARGEST:
        return (b > a) | isnan(b) ? b : a;
    default:
        return (b < a) | isnan(b) ? b : a;
    }
}

OMP_CLONES static void add_strip(double *sum, const float *x, int64_t step, int64_t n)
{
    if (step == 1) {
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            sum[i] += (double)x[i];
    } else {
        for (int64_t i = 0; i < n; i++)
            sum[i] += (double)x[i * step];
    }
}

static void fold_strip(fold how, double *sum, const float *x, int64_t step, int64_t n)
{
    if (how == SUM)
        add_strip(sum, x, step, n);
    else
        for (int64_t i = 0; i < n; i++)
            sum[i] = join(how, sum[i], (double)x[i * step]);
}

/* Over the leads of a range. */
static void sum_strip(const reduce *p, double *sum, const float *x, omp_range leads, int64_t n)
{
    int64_t step = omp_step(&p->columns, 1);
    for (int64_t i = 0; i < n; i++)
        sum[i] = first_of(p->fold);
    for (int64_t l = leads.begin; l < leads.end; l++)
        fold_strip(p->fold, sum, x + lead_at(&p->leads, 0, l), step, n);
}

/* Into the result, or the sums of a range of leads into this part's columns of the workspace. */
static void reduce_block(const omp_task *task, const omp_walk *walk, const int64_t *at,
                         int64_t rows, int64_t length)
{
    const reduce *p = task->plan;
    const omp_range *some = task->local;
    omp_range leads = some ? *some : (omp_range){0, p->leads.total};
    double sum[STRIP], *partial = task->args->workspace;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < length; i += STRIP) {
            int64_t to = at[0] + r * omp_row_step(walk, 0) + i * omp_step(walk, 0);
            int64_t from = at[1] + r * omp_row_step(walk, 1) + i * omp_step(walk, 1);
            int64_t number = at[2] + r * omp_row_step(walk, 2) + i * omp_step(walk, 2);
            int64_t n = length - i < STRIP ? length - i : STRIP;
            sum_strip(p, sum, omp_in(task, 0) + from, leads, n);
            for (int64_t k = 0; k < n; k++)
                if (some)
                    partial[number + k * omp_step(walk, 2)] = sum[k];
                else
                    omp_out(task, 0)[to + k * omp_step(walk, 0)] = (float)(p->factor * sum[k]);
        }
}

/* The parts' sums, in order. */
static void join_block(const omp_task *task, const omp_walk *walk, const int64_t *at, int64_t rows,
                       int64_t length)
{
    const reduce *p = task->plan;
    const double *partial = task->args->workspace;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < length; i++) {
            int64_t number = at[2] + r * omp_row_step(walk, 2) + i * omp_step(walk, 2);
            double sum = first_of(p->fold);
            for (int part = 0; part < task->parts; part++)
                sum = join(p->fold, sum, partial[part * p->count + number]);
            omp_out(task, 0)[at[0] + r * omp_row_step(walk, 0) + i * omp_step(walk, 0)] =
                (float)(p->factor * sum);
        }
}

static void reduce_work(const omp_task *task)
{
    const reduce *p = task->plan;
    if (task->phase == 1) {
        if (p->by_leads)
            neap_omp_walk_share(&p->columns, task, join_block);
        return;
    }
    if (!p->by_leads) {
        neap_omp_walk_share(&p->columns, task, reduce_block);
        return;
    }
    omp_range leads = omp_share(task, p->leads.total, 1);
    run_args args = *task->args;
    args.workspace = (double *)args.workspace + task->part * p->count;
    omp_task all = {.plan = p, .args = &args, .parts = 1, .local = &leads};
    neap_omp_walk_share(&p->columns, &all, reduce_block);
}

#define FOLD_OP(type, how)                                                                         \
    static void plan_##type(const run_spec *spec, int parts, void *plan)                           \
    {                                                                                              \
        plan_fold(spec, parts, plan, how);                                                         \
    }                                                                                              \
    OP_OF(type)

#define OP_OF(type)                                                                                \
    OMP_OP(type, {.plan_bytes = sizeof(reduce),                                                    \
                  .plan = plan_##type,                                                             \
                  .workspace = reduce_workspace,                                                   \
                  .work = reduce_work,                                                             \
                  .phases = 2})

FOLD_OP(reduce, SUM)
FOLD_OP(sum_to, SUM)
FOLD_OP(sum_axes, SUM)
FOLD_OP(max_axes, LARGEST)
FOLD_OP(min_axes, SMALLEST)
FOLD_OP(prod_axes, PRODUCT)

static void plan_mean_axes(const run_spec *spec, int parts, void *plan)
{
    reduce *p = plan;
    plan_fold(spec, parts, p, SUM);
    p->factor = 1 / (double)p->leads.total;
}

OP_OF(mean_axes)

/* ---- Gradients of extremes and products ---- */

/* Columns: dy; y or dy again; x; dx. Leads: x; dx. */
typedef struct fold_bw {
    omp_walk columns, leads;
    bool product;
} fold_bw;

static void plan_bw(const run_spec *spec, int parts, fold_bw *p, bool product)
{
    const run_array *x = &spec->in[1], *dx = &spec->out[0];
    run_spread dy = neap_run_spread_of(spec, &spec->in[0], dx);
    run_spread y = product ? dy : neap_run_spread_of(spec, &spec->in[2], dx);
    run_array columns[] = {dy.small, y.small, neap_run_spread_kept(&dy, x),
                           neap_run_spread_kept(&dy, dx)};
    run_array leads[] = {neap_run_spread_summed(&dy, x), neap_run_spread_summed(&dy, dx)};
    neap_omp_walk_plan(&p->columns, 4, columns, 1, parts);
    neap_omp_walk_plan(&p->leads, 2, leads, 1, parts);
    p->product = product;
}

static void plan_max_axes_bw(const run_spec *spec, int parts, void *plan)
{
    plan_bw(spec, parts, plan, false);
}

static void plan_prod_axes_bw(const run_spec *spec, int parts, void *plan)
{
    plan_bw(spec, parts, plan, true);
}

/* One column of an extreme: elements equal to y share dy. dx may be x. */
static void share_column(const fold_bw *p, float *dx, const float *x, float dy, float y)
{
    int64_t ties = 0;
    for (int64_t l = 0; l < p->leads.total; l++)
        ties += x[lead_at(&p->leads, 0, l)] == y;
    for (int64_t l = 0; l < p->leads.total; l++)
        dx[lead_at(&p->leads, 1, l)] = x[lead_at(&p->leads, 0, l)] == y ? dy / (float)ties : 0;
}

/* One column of a product: dy times the product of all others, of which one may be 0. */
static void product_column(const fold_bw *p, float *dx, const float *x, float dy)
{
    int64_t zeros = 0;
    double product = (double)dy;
    for (int64_t l = 0; l < p->leads.total; l++) {
        double e = (double)x[lead_at(&p->leads, 0, l)];
        zeros += e == 0;
        product *= e == 0 ? 1 : e;
    }
    for (int64_t l = 0; l < p->leads.total; l++) {
        double e = (double)x[lead_at(&p->leads, 0, l)];
        bool whole = zeros == (e == 0);
        dx[lead_at(&p->leads, 1, l)] = whole ? (float)(e == 0 ? product : product / e) : 0;
    }
}

static void fold_bw_block(const omp_task *task, const omp_walk *walk, const int64_t *at,
                          int64_t rows, int64_t length)
{
    const fold_bw *p = task->plan;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < length; i++) {
            int64_t k[4];
            for (uint32_t o = 0; o < 4; o++)
                k[o] = at[o] + r * omp_row_step(walk, o) + i * omp_step(walk, o);
            float *dx = omp_out(task, 0) + k[3];
            const float *x = omp_in(task, 1) + k[2];
            float dy = omp_in(task, 0)[k[0]];
            if (p->product)
                product_column(p, dx, x, dy);
            else
                share_column(p, dx, x, dy, omp_in(task, 2)[k[1]]);
        }
}

static void fold_bw_work(const omp_task *task)
{
    const fold_bw *p = task->plan;
    neap_omp_walk_share(&p->columns, task, fold_bw_block);
}

OMP_OP(max_axes_bw, {.plan_bytes = sizeof(fold_bw), .plan = plan_max_axes_bw, .work = fold_bw_work})
OMP_OP(prod_axes_bw,
       {.plan_bytes = sizeof(fold_bw), .plan = plan_prod_axes_bw, .work = fold_bw_work})
