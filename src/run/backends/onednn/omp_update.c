/* Updates and the norm of gradients on OpenMP's threads. */
#include "run/backends/onednn/omp_kernel.h"
#include "run/update.h"

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
