/* Runs the parts of kernels that are loops of our own, on OpenMP's threads. */
#include "run/backends/onednn/omp_kernel.h"

#include <stddef.h>

/* Below that many bytes of operands, waking the other threads takes longer than the work. */
#define SERIAL_BYTES 65536

typedef struct omp_kernel {
    onednn_kernel base;
    const omp_op *op;
    int phases;
    bool serial;
    max_align_t plan[]; /* op->plan_bytes, and more */
} omp_kernel;

/* The parts of a phase that fall to one of `team` threads. */
static void run_parts(const omp_kernel *kernel, const run_args *args, int phase, int me, int team)
{
    omp_task task = {
        .plan = kernel->plan, .args = args, .parts = kernel->base.threads, .phase = phase};
    for (task.part = me; task.part < task.parts; task.part += team)
        kernel->op->work(&task);
}

static neap_status run_all(const run_kernel *self, const run_args *args, neap_diag *diag)
{
    const omp_kernel *kernel = (const omp_kernel *)self;
    if (kernel->op->check) {
        neap_status status = kernel->op->check(kernel->plan, args, diag);
        if (status != NEAP_OK)
            return status;
    }
    if (kernel->serial || kernel->base.threads == 1) {
        for (int phase = 0; phase < kernel->phases; phase++)
            run_parts(kernel, args, phase, 0, 1);
        return NEAP_OK;
    }
#pragma omp parallel num_threads(kernel->base.threads)
    for (int phase = 0; phase < kernel->phases; phase++) {
        run_parts(kernel, args, phase, omp_get_thread_num(), omp_get_num_threads());
#pragma omp barrier
    }
    return NEAP_OK;
}

static int64_t operand_bytes(const run_spec *spec)
{
    int64_t bytes = 0;
    for (uint32_t i = 0; i < spec->op->n_inputs; i++)
        bytes += neap_run_array_elements(&spec->in[i]) * neap_dtype_bytes(spec->in[i].dtype);
    for (uint32_t i = 0; i < spec->op->n_outputs; i++)
        bytes += neap_run_array_elements(&spec->out[i]) * neap_dtype_bytes(spec->out[i].dtype);
    return bytes;
}

neap_status neap_omp_prepare(neap_backend *backend, const run_spec *spec, const omp_op *op,
                             run_kernel **kernel, neap_diag *diag)
{
    omp_kernel *made;
    size_t bytes = op->plan_bytes + (op->more_bytes ? op->more_bytes(spec) : 0);
    neap_status status =
        neap_onednn_new_kernel(backend, sizeof *made + bytes, run_all, &made, diag);
    if (status != NEAP_OK)
        return status;
    made->op = op;
    made->phases = op->phases ? op->phases : 1;
    made->serial = operand_bytes(spec) < SERIAL_BYTES;
    if (op->plan)
        op->plan(spec, backend->threads, made->plan);
    *kernel = &made->base.base;
    return NEAP_OK;
}

neap_status neap_omp_variants(neap_backend *backend, const run_spec *spec, const omp_op *op,
                              int64_t *workspaces, uint32_t *count)
{
    workspaces[0] = op->workspace ? op->workspace(spec, backend->threads) : 0;
    *count = 1;
    return NEAP_OK;
}
