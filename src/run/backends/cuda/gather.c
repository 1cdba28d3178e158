/* Gather and its gradient (kernels/gather.cu); the gradient sorts the indices first. */
#include "run/backends/cuda/kernels/gather.h"
#include "base/fail.h"
#include "run/backends/cuda/id_sort.h"
#include "run/backends/cuda/images.h"
#include "run/backends/cuda/walk.h"
#include "run/gathering.h"

#include <stdio.h>

typedef struct gather_plan {
    const cuda_function *function;
    gather_params params; /* without addresses */
    int64_t size;         /* bytes of an element */
    int64_t index_size;
    char name[64];
} gather_plan;

/* The sort counts indices and positions in 32 bits. */
static neap_status check(const run_spec *spec, neap_diag *diag)
{
    int64_t indices = neap_run_array_elements(&spec->in[1]);
    for (uint32_t d = 0; d < spec->out[0].rank; d++)
        if (indices > INT32_MAX || spec->out[0].shape[d] >= INT32_MAX)
            return neap_fail(diag, NEAP_UNSUPPORTED,
                             "op \"%s\" (%s): the cuda backend takes less than 2^31 indices and "
                             "positions",
                             spec->op->name, spec->op->type);
    return neap_cuda_check_one_type(spec, diag);
}

/* ---- Forward ---- */

static neap_status plan_gather(cuda_backend *backend, const run_spec *spec, void *planned,
                               neap_diag *diag)
{
    gather_plan *plan = planned;
    gather_params *p = &plan->params;
    uint32_t axis = (uint32_t)neap_run_spec_int(spec, "axis", 0);
    run_array x = neap_run_gathered_rest(&spec->in[0], &spec->in[1], axis);
    run_array indices = neap_run_gathered_indices(&spec->in[1], &spec->out[0], axis);
    neap_cuda_walk_plan(&p->walk, 3, (run_array[]){spec->out[0], x, indices});
    p->axis_step = spec->in[0].strides[axis];
    p->entries = spec->in[0].shape[axis];
    p->is_i64 = spec->in[1].dtype == NEAP_I64;
    p->trouble = backend->platform->trouble;
    plan->size = neap_dtype_bytes(spec->in[0].dtype);
    plan->index_size = neap_dtype_bytes(spec->in[1].dtype);
    snprintf(plan->name, sizeof plan->name, "%s", spec->op->name);
    return neap_cuda_find(backend, "gather_forward", neap_cuda_type(spec), &plan->function, diag);
}

static neap_status launch_forward(cuda_backend *backend, const gather_plan *plan,
                                  const gather_params *p, neap_diag *diag)
{
    int64_t begin = 0, at[WALK_OPERANDS];
    gather_params part = *p;
    if (neap_cuda_walk_fits(&p->walk))
        return CUDA_LAUNCH(backend, plan->function, neap_cuda_walk_dims(&p->walk), p, diag);
    while (neap_cuda_walk_cut(&p->walk, &begin, &part.walk, at)) {
        part.y = (char *)p->y + at[0] * plan->size;
        part.x = (const char *)p->x + at[1] * plan->size;
        part.indices = (const char *)p->indices + at[2] * plan->index_size;
        NEAP_TRY(launch_forward(backend, plan, &part, diag));
    }
    return NEAP_OK;
}

static neap_status run_gather(cuda_backend *backend, const void *planned, const run_args *args,
                              neap_diag *diag)
{
    const gather_plan *plan = planned;
    gather_params p = plan->params;
    p.x = args->in[0];
    p.indices = args->in[1];
    p.y = args->out[0];
    NEAP_TRY(launch_forward(backend, plan, &p, diag));
    return neap_cuda_check_indices(backend, plan->name, diag);
}

CUDA_OP(gather,
        {.plan_bytes = sizeof(gather_plan), .plan = plan_gather, .run = run_gather, .check = check})

/* ---- Backward ---- */

typedef struct gather_bw_plan {
    const cuda_function *function;
    cuda_id_sort sort;
    gather_bw_params params; /* without addresses */
    int64_t size;
    char name[64];
} gather_bw_plan;

static neap_status plan_gather_bw(cuda_backend *backend, const run_spec *spec, void *planned,
                                  neap_diag *diag)
{
    gather_bw_plan *plan = planned;
    gather_bw_params *p = &plan->params;
    const run_array *dy = &spec->in[0], *indices = &spec->in[1], *dx = &spec->out[0];
    uint32_t axis = (uint32_t)neap_run_spec_int(spec, "axis", 0);
    run_array rest = neap_run_gathered_source(dy, indices, dx, axis), along = *dx;
    for (uint32_t d = 0; d < dx->rank; d++)
        along.strides[d] = d == axis;
    neap_cuda_walk_plan(&p->walk, 3, (run_array[]){*dx, rest, along});
    embedding_ids ids = neap_cuda_ids(indices, dy, axis);
    p->count = ids.count;
    p->rank = ids.rank;
    for (int d = 0; d < ids.rank; d++) {
        p->shape[d] = ids.shape[d];
        p->strides[d] = ids.row_strides[d];
    }
    plan->size = neap_dtype_bytes(dx->dtype);
    snprintf(plan->name, sizeof plan->name, "%s", spec->op->name);
    NEAP_TRY(neap_cuda_id_sort_plan(backend, &ids, dx->shape[axis], &plan->sort, diag));
    return neap_cuda_find(backend, "gather_backward", neap_cuda_type(spec), &plan->function, diag);
}

static int64_t workspace(const cuda_backend *backend, const run_spec *spec)
{
    (void)backend;
    return neap_cuda_id_sort_workspace(neap_run_array_elements(&spec->in[1]));
}

static neap_status launch_backward(cuda_backend *backend, const gather_bw_plan *plan,
                                   const gather_bw_params *p, neap_diag *diag)
{
    int64_t begin = 0, at[WALK_OPERANDS];
    gather_bw_params part = *p;
    if (neap_cuda_walk_fits(&p->walk))
        return CUDA_LAUNCH(backend, plan->function, neap_cuda_walk_dims(&p->walk), p, diag);
    while (neap_cuda_walk_cut(&p->walk, &begin, &part.walk, at)) {
        part.dx = (char *)p->dx + at[0] * plan->size;
        part.dy = (const char *)p->dy + at[1] * plan->size;
        part.first = p->first + at[2];
        NEAP_TRY(launch_backward(backend, plan, &part, diag));
    }
    return NEAP_OK;
}

static neap_status run_gather_bw(cuda_backend *backend, const void *planned, const run_args *args,
                                 neap_diag *diag)
{
    const gather_bw_plan *plan = planned;
    gather_bw_params p = plan->params;
    cuda_sorted_ids sorted;
    NEAP_TRY(
        neap_cuda_id_sort_run(backend, &plan->sort, args->in[1], args->workspace, &sorted, diag));
    p.keys = sorted.keys;
    p.positions = sorted.positions;
    p.dy = args->in[0];
    p.dx = args->out[0];
    NEAP_TRY(launch_backward(backend, plan, &p, diag));
    return neap_cuda_check_indices(backend, plan->name, diag);
}

CUDA_OP(gather_bw, {.plan_bytes = sizeof(gather_bw_plan),
                    .plan = plan_gather_bw,
                    .run = run_gather_bw,
                    .workspace = workspace,
                    .check = check})
