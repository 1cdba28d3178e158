/*
 * reduce: sums over leading dimensions. Sums are in f64, a strip of columns at a time.
 *
 * Parts share the columns; where those are too few, the leading indices, and partial sums meet in a
 * second phase.
 */
#include "run/backends/onednn/omp_walk.h"

#define STRIP 256

typedef struct reduce {
    omp_walk columns; /* dx; dy's trailing dimensions; a counter */
    omp_walk leads;   /* dy's leading dimensions */
    int64_t count;    /* columns */
    bool by_leads;
} reduce;

static bool shares_leads(int64_t columns, int64_t leads, int parts)
{
    return columns < 64 * parts && leads >= 2 * parts;
}

static void plan_reduce(const run_spec *spec, int parts, void *plan)
{
    reduce *p = plan;
    const run_array *dy = &spec->in[0], *dx = &spec->out[0];
    run_array tail = *dx, lead = *dy;
    uint32_t cut = dy->rank - dx->rank;
    for (uint32_t d = 0; d < dx->rank; d++)
        tail.strides[d] = dy->strides[cut + d];
    for (uint32_t d = cut; d < dy->rank; d++)
        lead.shape[d] = 1;
    neap_omp_walk_plan(&p->columns, 3, (run_array[]){*dx, tail, neap_run_array_counter(dx)}, 16,
                       parts);
    neap_omp_walk_plan(&p->leads, 1, &lead, 1, parts);
    p->count = neap_run_array_elements(dx);
    p->by_leads = shares_leads(p->count, p->leads.total, parts);
}

static int64_t reduce_workspace(const run_spec *spec, int parts)
{
    int64_t columns = neap_run_array_elements(&spec->out[0]);
    int64_t leads = neap_run_array_elements(&spec->in[0]) / columns;
    return shares_leads(columns, leads, parts) ? columns * parts * (int64_t)sizeof(double) : 0;
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

/* Sums over the leading indices of a range. */
static void sum_strip(const reduce *p, double *sum, const float *x, omp_range leads, int64_t n)
{
    int64_t step = omp_step(&p->columns, 1);
    for (int64_t i = 0; i < n; i++)
        sum[i] = 0;
    for (int64_t l = leads.begin; l < leads.end; l++) {
        int64_t at = 0, rest = l;
        for (uint32_t d = p->leads.rank; d-- > 0; rest /= p->leads.extent[d])
            at += rest % p->leads.extent[d] * p->leads.stride[d][0];
        add_strip(sum, x + at, step, n);
    }
}

/* Into dx, or the sums of a range of leading indices into this part's columns of the workspace. */
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
                    omp_out(task, 0)[to + k * omp_step(walk, 0)] = (float)sum[k];
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
            double sum = 0;
            for (int part = 0; part < task->parts; part++)
                sum += partial[part * p->count + at[2] + r * omp_row_step(walk, 2) +
                               i * omp_step(walk, 2)];
            omp_out(task, 0)[at[0] + r * omp_row_step(walk, 0) + i * omp_step(walk, 0)] =
                (float)sum;
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

OMP_OP(reduce, {.plan_bytes = sizeof(reduce),
                .plan = plan_reduce,
                .workspace = reduce_workspace,
                .work = reduce_work,
                .phases = 2})
