/* Updates, running statistics and the norm of gradients on OpenMP's threads. */
#include "run/backends/onednn/omp_kernel.h"
#include "run/update.h"

#include <string.h>

static void plan_update(const run_spec *spec, int parts, void *plan)
{
    (void)parts;
    neap_run_update_plan(spec, plan);
}

static void work_update(const omp_task *task)
{
    const run_update *update = task->plan;
    omp_range range = omp_share(task, update->elements, 64);
    neap_run_update(update, task->args->in, range.begin, range.end);
}

#define UPDATE_OP(type)                                                                            \
    OMP_OP(type, {.plan_bytes = sizeof(run_update), .plan = plan_update, .work = work_update})

UPDATE_OP(sgd)
UPDATE_OP(momentum)
UPDATE_OP(adam)
UPDATE_OP(adamw)

/* ---- Running statistics ---- */

typedef struct running_plan {
    run_statistics statistics;
    uint32_t pairs;
    run_array arrays[]; /* of all inputs */
} running_plan;

static size_t running_bytes(const run_spec *spec)
{
    return spec->op->n_inputs * sizeof(run_array);
}

static void plan_running(const run_spec *spec, int parts, void *plan)
{
    running_plan *p = plan;
    (void)parts;
    neap_run_statistics_plan(spec, &p->statistics);
    p->pairs = spec->op->n_inputs / 2 - 1;
    memcpy(p->arrays, spec->in, spec->op->n_inputs * sizeof *spec->in);
}

static void work_running(const omp_task *task)
{
    const running_plan *p = task->plan;
    omp_range range = omp_share(task, p->statistics.channels, 64);
    neap_run_statistics(&p->statistics, p->pairs, p->arrays, task->args->in, range.begin,
                        range.end);
}

OMP_OP(running_stats, {.plan_bytes = sizeof(running_plan),
                       .more_bytes = running_bytes,
                       .plan = plan_running,
                       .work = work_running})

/* ---- The norm of gradients ---- */

/*
 * Every gradient is summed up in blocks, whose sums go to the workspace; they are then added in
 * order. So the result does not depend on the number of threads.
 */
typedef struct clip_gradient {
    run_array array;
    int64_t elements;
    int64_t first; /* block */
} clip_gradient;

typedef struct clip_plan {
    double norm;
    uint32_t count;
    int64_t blocks;
    clip_gradient gradients[]; /* `count` */
} clip_plan;

static int64_t blocks_of(const run_array *array)
{
    return (neap_run_array_elements(array) + RUN_UPDATE_BLOCK - 1) / RUN_UPDATE_BLOCK;
}

static size_t clip_bytes(const run_spec *spec)
{
    return spec->op->n_inputs * sizeof(clip_gradient);
}

static int64_t clip_workspace(const run_spec *spec, int parts)
{
    int64_t blocks = 0;
    (void)parts;
    for (uint32_t i = 0; i < spec->op->n_inputs; i++)
        blocks += blocks_of(&spec->in[i]);
    return blocks * (int64_t)sizeof(double);
}

static void plan_clip(const run_spec *spec, int parts, void *plan)
{
    clip_plan *p = plan;
    (void)parts;
    p->norm = neap_run_spec_real(spec, "norm", 0);
    p->count = spec->op->n_inputs;
    for (uint32_t i = 0; i < p->count; i++) {
        p->gradients[i] = (clip_gradient){.array = spec->in[i],
                                          .elements = neap_run_array_elements(&spec->in[i]),
                                          .first = p->blocks};
        p->blocks += blocks_of(&spec->in[i]);
    }
}

static void work_clip(const omp_task *task)
{
    const clip_plan *p = task->plan;
    double *sums = task->args->workspace;
    if (task->phase == 1) {
        double all = 0;
        for (int64_t k = 0; k < p->blocks && task->part == 0; k++)
            all += sums[k];
        if (task->part == 0)
            *omp_out(task, 0) = neap_run_clip_scale(all, p->norm);
        return;
    }
    omp_range range = omp_share(task, p->blocks, 1);
    for (uint32_t i = 0; i < p->count; i++) {
        const clip_gradient *g = &p->gradients[i];
        int64_t begin = range.begin > g->first ? range.begin - g->first : 0;
        for (int64_t k = begin; k * RUN_UPDATE_BLOCK < g->elements && g->first + k < range.end;
             k++) {
            int64_t from = k * RUN_UPDATE_BLOCK, to = from + RUN_UPDATE_BLOCK;
            sums[g->first + k] = neap_run_squares(&g->array, task->args->in[i], from,
                                                  to < g->elements ? to : g->elements);
        }
    }
}

OMP_OP(clip_norm, {.plan_bytes = sizeof(clip_plan),
                   .more_bytes = clip_bytes,
                   .plan = plan_clip,
                   .workspace = clip_workspace,
                   .work = work_clip,
                   .phases = 2})
