/* The mean of squared differences (kernels/mse.cu); its gradient is elementwise. */
#include "run/backends/cuda/kernels/mse.h"
#include "base/fail.h"
#include "run/backends/cuda/operands.h"
#include "run/backends/cuda/walk.h"

#define MOST_BLOCKS 1024
#define EACH        8 /* elements that a thread has at least, where there are as many */

typedef struct mse_plan {
    const cuda_function *parts, *mean;
    mse_params params; /* without addresses */
} mse_plan;

static int64_t blocks_of(int64_t elements)
{
    int64_t blocks = (elements + EACH * MSE_THREADS - 1) / (EACH * MSE_THREADS);
    return blocks < MOST_BLOCKS ? blocks : MOST_BLOCKS;
}

static neap_status plan_mse(cuda_backend *backend, const run_spec *spec, void *planned,
                            neap_diag *diag)
{
    mse_plan *plan = planned;
    neap_dtype type = neap_cuda_type(spec);
    neap_cuda_walk_plan(&plan->params.walk, 2, (run_array[]){spec->in[0], spec->in[1]});
    plan->params.parts = (i32)blocks_of(plan->params.walk.units);
    plan->params.share = (float)(1 / (double)plan->params.walk.units);
    NEAP_TRY(neap_cuda_find(backend, "mse_parts", type, &plan->parts, diag));
    return neap_cuda_find(backend, "mse_mean", type, &plan->mean, diag);
}

static int64_t workspace(const cuda_backend *backend, const run_spec *spec)
{
    (void)backend;
    return blocks_of(neap_run_array_elements(&spec->in[0])) * (int64_t)sizeof(float);
}

static neap_status run_mse(cuda_backend *backend, const void *planned, const run_args *args,
                           neap_diag *diag)
{
    const mse_plan *plan = planned;
    mse_params p = plan->params;
    p.x = args->in[0];
    p.target = args->in[1];
    p.loss = args->out[0];
    p.partials = args->workspace;
    cuda_dims dims = {.blocks = (uint32_t)p.parts, .threads = MSE_THREADS};
    NEAP_TRY(CUDA_LAUNCH(backend, plan->parts, dims, &p, diag));
    return CUDA_LAUNCH(backend, plan->mean, ((cuda_dims){.blocks = 1, .threads = MSE_THREADS}), &p,
                       diag);
}

static neap_status check(const run_spec *spec, neap_diag *diag)
{
    return neap_cuda_check_mix(spec, 0, 1, diag);
}

CUDA_OP(mse, {.plan_bytes = sizeof(mse_plan),
              .plan = plan_mse,
              .run = run_mse,
              .workspace = workspace,
              .check = check})
