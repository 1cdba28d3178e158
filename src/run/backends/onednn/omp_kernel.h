/*
 * The common shape of kernels that are loops of our own.
 *
 * An op says what it plans beforehand (a struct of its own) and what one *part* of the work is.
 * There are as many parts as the backend has threads, and what a part does depends on nothing but
 * its number: whichever thread runs it, the bits are the same. Work in several phases has all parts
 * of one done before the next begins; partial sums go through the workspace from one to the next.
 *
 * An op is one OMP_OP(type, { ... }).
 */
#ifndef NEAP_RUN_OMP_KERNEL_H
#define NEAP_RUN_OMP_KERNEL_H

#include "run/backends/onednn/omp_parallel.h"
#include "run/backends/onednn/onednn.h"

/* One part of one phase. */
typedef struct omp_task {
    const void *plan;
    const run_args *args;
    int part, parts, phase;
    const void *local; /* what work tells its own blocks */
} omp_task;

typedef struct omp_op {
    size_t plan_bytes;
    /* Bytes that follow the plan's struct, where they depend on the spec; or NULL. */
    size_t (*more_bytes)(const run_spec *spec);
    void (*plan)(const run_spec *spec, int parts, void *plan);
    /* NULL: none. */
    int64_t (*workspace)(const run_spec *spec, int parts);
    /* Of what operands hold, before any work: indices within bounds. NULL: nothing to check. */
    neap_status (*check)(const void *plan, const run_args *args, neap_diag *diag);
    void (*work)(const omp_task *task);
    int phases; /* 0 is 1 */
} omp_op;

neap_status neap_omp_prepare(neap_backend *backend, const run_spec *spec, const omp_op *op,
                             run_kernel **kernel, neap_diag *diag);
neap_status neap_omp_variants(neap_backend *backend, const run_spec *spec, const omp_op *op,
                              int64_t *workspaces, uint32_t *count);

#define OMP_OP(type, ...)                                                                          \
    static const omp_op omp_op_##type = __VA_ARGS__;                                               \
    static neap_status variants_##type(neap_backend *backend, const run_spec *spec,                \
                                       int64_t *workspaces, uint32_t *count, neap_diag *diag)      \
    {                                                                                              \
        (void)diag;                                                                                \
        return neap_omp_variants(backend, spec, &omp_op_##type, workspaces, count);                \
    }                                                                                              \
    static neap_status prepare_##type(neap_backend *backend, const run_spec *spec,                 \
                                      run_kernel **kernel, neap_diag *diag)                        \
    {                                                                                              \
        return neap_omp_prepare(backend, spec, &omp_op_##type, kernel, diag);                      \
    }                                                                                              \
    const run_op neap_onednn_op_##type = {.variants = variants_##type, .prepare = prepare_##type};

/* ---- Operands ---- */

static inline float *omp_out(const omp_task *task, uint32_t i)
{
    return task->args->out[i];
}

static inline const float *omp_in(const omp_task *task, uint32_t i)
{
    return task->args->in[i];
}

/* A part's share of `count` items, in whole multiples of `grain`. */
static inline omp_range omp_share(const omp_task *task, int64_t count, int64_t grain)
{
    int64_t grains = (count + grain - 1) / grain;
    int64_t begin = grains * task->part / task->parts * grain;
    int64_t end = grains * (task->part + 1) / task->parts * grain;
    return (omp_range){begin < count ? begin : count, end < count ? end : count};
}

/* An element of an array of i64 or i32. */
static inline int64_t omp_integer(const void *array, neap_dtype dtype, int64_t at)
{
    return dtype == NEAP_I64 ? ((const int64_t *)array)[at] : ((const int32_t *)array)[at];
}

#endif
