/* The mean of squared differences: parts' sums, added up in order of parts; and its gradient. */
#include "run/backends/onednn/omp_walk.h"

typedef struct mse {
    omp_walk walk; /* forward: x, target; backward: dx, x, target */
    double share;  /* of one element in the mean */
} mse;

static void plan_mse(const run_spec *spec, int parts, void *plan)
{
    mse *p = plan;
    neap_omp_walk_plan(&p->walk, 2, (run_array[]){spec->in[0], spec->in[1]}, 64, parts);
    p->share = 1 / (double)p->walk.total;
}

static void plan_mse_bw(const run_spec *spec, int parts, void *plan)
{
    mse *p = plan;
    neap_omp_walk_plan(&p->walk, 3, (run_array[]){spec->out[0], spec->in[1], spec->in[2]}, 64,
                       parts);
    p->share = 1 / (double)p->walk.total;
}

static int64_t mse_workspace(const run_spec *spec, int parts)
{
    (void)spec;
    return parts * (int64_t)sizeof(double);
}

OMP_CLONES static double sum_of_squares(const float *x, int64_t x_step, const float *t,
                                        int64_t t_step, int64_t length)
{
    double sum = 0;
    if (x_step == 1 && t_step == 1) {
#pragma omp simd reduction(+ : sum)
        for (int64_t i = 0; i < length; i++)
            sum += ((double)x[i] - (double)t[i]) * ((double)x[i] - (double)t[i]);
    } else {
        for (int64_t i = 0; i < length; i++) {
            double difference = (double)x[i * x_step] - (double)t[i * t_step];
            sum += difference * difference;
        }
    }
    return sum;
}

static void mse_block(const omp_task *task, const omp_walk *walk, const int64_t *at, int64_t rows,
                      int64_t length)
{
    double *sum = (double *)task->args->workspace + task->part;
    for (int64_t r = 0; r < rows; r++)
        *sum += sum_of_squares(
            omp_in(task, 0) + at[0] + r * omp_row_step(walk, 0), omp_step(walk, 0),
            omp_in(task, 1) + at[1] + r * omp_row_step(walk, 1), omp_step(walk, 1), length);
}

static void mse_work(const omp_task *task)
{
    const mse *p = task->plan;
    double *sums = task->args->workspace;
    if (task->phase == 0) {
        sums[task->part] = 0;
        neap_omp_walk_share(&p->walk, task, mse_block);
    } else if (task->part == 0) {
        double sum = 0;
        for (int part = 0; part < task->parts; part++)
            sum += sums[part];
        omp_out(task, 0)[0] = (float)(sum * p->share);
    }
}

/* dx may be x or the target. */
static void mse_bw_block(const omp_task *task, const omp_walk *walk, const int64_t *at,
                         int64_t rows, int64_t length)
{
    const mse *p = task->plan;
    float factor = (float)(2 * p->share * (double)omp_in(task, 0)[0]);
    for (int64_t r = 0; r < rows; r++) {
        float *dx = omp_out(task, 0) + at[0] + r * omp_row_step(walk, 0);
        const float *x = omp_in(task, 1) + at[1] + r * omp_row_step(walk, 1);
        const float *t = omp_in(task, 2) + at[2] + r * omp_row_step(walk, 2);
        for (int64_t i = 0; i < length; i++)
            dx[i * omp_step(walk, 0)] =
                factor * (x[i * omp_step(walk, 1)] - t[i * omp_step(walk, 2)]);
    }
}

static void mse_bw_work(const omp_task *task)
{
    const mse *p = task->plan;
    neap_omp_walk_share(&p->walk, task, mse_bw_block);
}

OMP_OP(mse, {.plan_bytes = sizeof(mse),
             .plan = plan_mse,
             .workspace = mse_workspace,
             .work = mse_work,
             .phases = 2})
OMP_OP(mse_bw, {.plan_bytes = sizeof(mse), .plan = plan_mse_bw, .work = mse_bw_work})
