/*
 * Batch normalisation by given statistics and its gradients (kernels/frozen_norm.cu). How rows are
 * divided depends on shapes and strides alone.
 */
#include "run/backends/cuda/kernels/frozen_norm.h"
#include "base/fail.h"
#include "run/backends/cuda/operands.h"
#include "run/backends/cuda/walk.h"

#define ENOUGH_BLOCKS 1024
#define LEAST_ROWS    32 /* of a thread in one of several parts */
#define MOST_PARTS    512

/* ---- Elements ---- */

typedef struct frozen_plan {
    const cuda_function *function;
    frozen_params params; /* without addresses */
    int64_t size;         /* bytes of an element */
    bool forward;
} frozen_plan;

static neap_status plan_elements(cuda_backend *backend, const run_spec *spec, bool forward,
                                 frozen_plan *plan, neap_diag *diag)
{
    frozen_params *p = &plan->params;
    run_array channels = spec->in[0];
    for (uint32_t d = 0; d < channels.rank; d++)
        channels.strides[d] = d == 1;
    neap_cuda_walk_plan(&p->walk, 3, (run_array[]){spec->out[0], spec->in[0], channels});
    p->gamma_step = neap_cuda_step(&spec->in[1], 0);
    p->variance_step = neap_cuda_step(&spec->in[forward ? 4 : 2], 0);
    p->beta_step = forward ? neap_cuda_step(&spec->in[2], 0) : 0;
    p->mean_step = forward ? neap_cuda_step(&spec->in[3], 0) : 0;
    p->epsilon = (float)neap_run_spec_real(spec, "epsilon", 1e-5);
    plan->size = neap_dtype_bytes(neap_cuda_type(spec));
    plan->forward = forward;
    return neap_cuda_find(backend, "frozen_elements", neap_cuda_type(spec), &plan->function, diag);
}

static neap_status plan_forward(cuda_backend *backend, const run_spec *spec, void *plan,
                                neap_diag *diag)
{
    return plan_elements(backend, spec, true, plan, diag);
}

static neap_status plan_bw_data(cuda_backend *backend, const run_spec *spec, void *plan,
                                neap_diag *diag)
{
    return plan_elements(backend, spec, false, plan, diag);
}

static neap_status launch(cuda_backend *backend, const frozen_plan *plan, const frozen_params *p,
                          neap_diag *diag)
{
    int64_t begin = 0, at[WALK_OPERANDS];
    frozen_params part = *p;
    if (neap_cuda_walk_fits(&p->walk))
        return CUDA_LAUNCH(backend, plan->function, neap_cuda_walk_dims(&p->walk), p, diag);
    while (neap_cuda_walk_cut(&p->walk, &begin, &part.walk, at)) {
        part.y = (char *)p->y + at[0] * plan->size;
        part.x = (const char *)p->x + at[1] * plan->size;
        part.first = p->first + at[2];
        NEAP_TRY(launch(backend, plan, &part, diag));
    }
    return NEAP_OK;
}

static neap_status run_elements(cuda_backend *backend, const void *planned, const run_args *args,
                                neap_diag *diag)
{
    const frozen_plan *plan = planned;
    frozen_params p = plan->params;
    p.x = args->in[0];
    p.gamma = args->in[1];
    p.beta = plan->forward ? args->in[2] : NULL;
    p.mean = plan->forward ? args->in[3] : NULL;
    p.variance = args->in[plan->forward ? 4 : 2];
    p.y = args->out[0];
    return launch(backend, plan, &p, diag);
}

/* Statistics are in f32. */
static neap_status check_forward(const run_spec *spec, neap_diag *diag)
{
    return neap_cuda_check_mix(spec, 3u << 3, 0, diag);
}

static neap_status check_bw_data(const run_spec *spec, neap_diag *diag)
{
    return neap_cuda_check_mix(spec, 1u << 2, 0, diag);
}

CUDA_OP(batch_norm_frozen, {.plan_bytes = sizeof(frozen_plan),
                            .plan = plan_forward,
                            .run = run_elements,
                            .check = check_forward})
CUDA_OP(batch_norm_frozen_bw_data, {.plan_bytes = sizeof(frozen_plan),
                                    .plan = plan_bw_data,
                                    .run = run_elements,
                                    .check = check_bw_data})

/* ---- The weight's gradient ---- */

typedef struct weight_plan {
    const cuda_function *sum, *join;
    frozen_weight_params params; /* without addresses */
    int64_t blocks;
} weight_plan;

static void divide(const run_spec *spec, weight_plan *plan)
{
    frozen_weight_params *p = &plan->params;
    const run_array *dy = &spec->in[0];
    int64_t rows = neap_run_array_elements(dy) / dy->shape[1];
    p->channels = dy->shape[1];
    p->dy_channel = neap_cuda_step(dy, 1);
    p->lanes = 1;
    while (p->dy_channel == 1 && p->lanes < 32 && p->lanes < p->channels)
        p->lanes *= 2;
    plan->blocks = (p->channels + p->lanes - 1) / p->lanes;
    int64_t parts = ENOUGH_BLOCKS / plan->blocks;
    int64_t most = rows / (LEAST_ROWS * (FROZEN_THREADS / p->lanes));
    parts = parts < most ? parts : most;
    parts = parts < MOST_PARTS ? parts : MOST_PARTS;
    parts = parts > 1 ? parts : 1;
    p->part_rows = (rows + parts - 1) / parts;
    p->parts = (i32)((rows + p->part_rows - 1) / p->part_rows);
}

static int64_t workspace(const cuda_backend *backend, const run_spec *spec)
{
    (void)backend;
    weight_plan plan = {0};
    divide(spec, &plan);
    const frozen_weight_params *p = &plan.params;
    return p->parts > 1 ? p->parts * p->channels * (int64_t)sizeof(float) : 0;
}

static neap_status plan_bw_weight(cuda_backend *backend, const run_spec *spec, void *planned,
                                  neap_diag *diag)
{
    weight_plan *plan = planned;
    frozen_weight_params *p = &plan->params;
    run_array dy = neap_run_array_cut(&spec->in[0], 1, 1);
    run_array x = neap_run_array_cut(&spec->in[1], 1, 1);
    divide(spec, plan);
    neap_cuda_walk_plan(&p->rows, 2, (run_array[]){dy, x});
    p->x_channel = neap_cuda_step(&spec->in[1], 1);
    p->mean_step = neap_cuda_step(&spec->in[2], 0);
    p->variance_step = neap_cuda_step(&spec->in[3], 0);
    p->dgamma_step = neap_cuda_step(&spec->out[0], 0);
    p->epsilon = (float)neap_run_spec_real(spec, "epsilon", 1e-5);
    NEAP_TRY(neap_cuda_find(backend, "frozen_weight", neap_cuda_type(spec), &plan->sum, diag));
    return neap_cuda_find(backend, "frozen_weight_join", neap_cuda_type(spec), &plan->join, diag);
}

static neap_status run_bw_weight(cuda_backend *backend, const void *planned, const run_args *args,
                                 neap_diag *diag)
{
    const weight_plan *plan = planned;
    frozen_weight_params p = plan->params;
    p.dy = args->in[0];
    p.x = args->in[1];
    p.mean = args->in[2];
    p.variance = args->in[3];
    p.dgamma = args->out[0];
    p.partial = p.parts > 1 ? args->workspace : NULL;
    cuda_dims dims = {
        .blocks = (uint32_t)plan->blocks, .blocks_y = (uint32_t)p.parts, .threads = FROZEN_THREADS};
    NEAP_TRY(CUDA_LAUNCH(backend, plan->sum, dims, &p, diag));
    if (p.parts == 1)
        return NEAP_OK;
    return CUDA_LAUNCH(backend, plan->join, neap_cuda_dims(backend, p.channels, FROZEN_THREADS, 0),
                       &p, diag);
}

static neap_status check_bw_weight(const run_spec *spec, neap_diag *diag)
{
    return neap_cuda_check_mix(spec, 3u << 2, 0, diag);
}

CUDA_OP(batch_norm_frozen_bw_weight, {.plan_bytes = sizeof(weight_plan),
                                      .plan = plan_bw_weight,
                                      .run = run_bw_weight,
                                      .workspace = workspace,
                                      .check = check_bw_weight})
