/* The common shape of the backend's kernels. */
#include "base/fail.h"
#include "base/memory.h"
#include "graph/network_internal.h"
#include "run/backends/cuda/cuda.h"

#include <stddef.h>

typedef struct cuda_kernel {
    run_kernel base;
    cuda_backend *backend;
    const cuda_op *op;
    size_t bytes;
    max_align_t plan[]; /* op->plan_bytes */
} cuda_kernel;

/* ---- Launching ---- */

void neap_cuda_enter_device(cuda_backend *backend)
{
    if (backend->platform)
        backend->platform->type->enter(backend->platform);
}

neap_status neap_cuda_find(cuda_backend *backend, const char *kernel, neap_dtype type,
                           const cuda_function **function, neap_diag *diag)
{
    return backend->platform->type->find(backend->platform, kernel, type, function, diag);
}

neap_status neap_cuda_launch(cuda_backend *backend, const cuda_function *function, cuda_dims dims,
                             const void *params, size_t bytes, neap_diag *diag)
{
    return backend->platform->type->launch(backend->platform, function, &dims, params, bytes, diag);
}

cuda_dims neap_cuda_dims(const cuda_backend *backend, int64_t items, uint32_t threads,
                         uint32_t waves)
{
    int64_t blocks = (items + threads - 1) / threads;
    int64_t most = (int64_t)waves * backend->platform->multiprocessors * (2048 / threads);
    if (waves > 0 && blocks > most)
        blocks = most;
    if (blocks > INT32_MAX)
        blocks = INT32_MAX;
    return (cuda_dims){.blocks = blocks > 0 ? (uint32_t)blocks : 1, .threads = threads};
}

neap_status neap_cuda_check_indices(cuda_backend *backend, const char *op_name, neap_diag *diag)
{
    cuda_platform *platform = backend->platform;
    if (!platform->immediate || *platform->trouble == 0)
        return NEAP_OK;
    *platform->trouble = 0;
    return neap_fail(diag, NEAP_INVALID, "op \"%s\": an index among its inputs is out of range",
                     op_name);
}

/* ---- Kernels ---- */

static neap_status run(const run_kernel *self, const run_args *args, neap_diag *diag)
{
    const cuda_kernel *kernel = (const cuda_kernel *)self;
    return kernel->op->run(kernel->backend, kernel->plan, args, diag);
}

static void delete_kernel(run_kernel *self)
{
    cuda_kernel *kernel = (cuda_kernel *)self;
    if (kernel->op->clear)
        kernel->op->clear(kernel->backend, kernel->plan);
    neap_delete_array(kernel->backend->base.allocator, 1, kernel->bytes, kernel);
}

neap_status neap_cuda_prepare(neap_backend *backend, const run_spec *spec, const cuda_op *op,
                              run_kernel **kernel, neap_diag *diag)
{
    cuda_kernel *made;
    size_t bytes = sizeof *made + op->plan_bytes;
    neap_status status = neap_new_array(backend->allocator, 1, bytes, &made, diag);
    if (status != NEAP_OK)
        return status;
    made->base = (run_kernel){run, delete_kernel};
    made->backend = (cuda_backend *)backend;
    neap_cuda_enter_device(made->backend);
    made->op = op;
    made->bytes = bytes;
    status = op->plan ? op->plan(made->backend, spec, made->plan, diag) : NEAP_OK;
    if (status == NEAP_OK)
        *kernel = &made->base;
    else
        delete_kernel(&made->base);
    return status;
}

neap_status neap_cuda_variants(neap_backend *backend, const run_spec *spec, const cuda_op *op,
                               int64_t *workspaces, uint32_t *count, neap_diag *diag)
{
    cuda_backend *cuda = (cuda_backend *)backend;
    neap_cuda_enter_device(cuda);
    if (op->variants)
        return op->variants(cuda, spec, workspaces, count, diag);
    workspaces[0] = op->workspace ? op->workspace(cuda, spec) : 0;
    *count = 1;
    return NEAP_OK;
}

/* ---- Types ---- */

neap_dtype neap_cuda_type(const run_spec *spec)
{
    for (uint32_t i = 0; i < spec->op->n_inputs; i++)
        if (spec->in[i].dtype == NEAP_BF16)
            return NEAP_BF16;
    for (uint32_t i = 0; i < spec->op->n_outputs; i++)
        if (spec->out[i].dtype == NEAP_BF16)
            return NEAP_BF16;
    return NEAP_F32;
}

neap_status neap_cuda_check_types(const run_spec *spec, neap_diag *diag)
{
    const neap_op *op = spec->op;
    for (uint32_t i = 0; i < op->n_inputs + op->n_outputs; i++) {
        neap_dtype dtype = i < op->n_inputs ? spec->in[i].dtype : spec->out[i - op->n_inputs].dtype;
        if (dtype == NEAP_F16 || dtype == NEAP_F64)
            return neap_fail(diag, NEAP_UNSUPPORTED,
                             "op \"%s\" (%s): the cuda backend computes in f32 and bf16, not in "
                             "%s; backend ref may do",
                             op->name, op->type, neap_dtype_name(dtype));
    }
    return NEAP_OK;
}
