/*
 * The cuda backend: what its ops are written against.
 *
 * An op is one CUDA_OP(type, { ... }): a struct of its own that is planned beforehand from the spec
 * (functions to launch, parameters of kernels without addresses), and a function that fills in the
 * addresses of one run and queues the launches. It never waits, never allocates, and queues the
 * same launches every time, because the step may be recorded once and replayed.
 */
#ifndef NEAP_RUN_CUDA_H
#define NEAP_RUN_CUDA_H

#include "run/backend.h"
#include "run/backends/cuda/api.h"
#include "run/backends/cuda/kernels/types.h"
#include "run/backends/cuda/platform.h"

typedef struct cuda_libraries cuda_libraries; /* cuDNN and cuBLASLt (libraries.h) */
typedef struct cublaslt_cache cublaslt_cache; /* found algorithms (cublaslt_matmul.h) */

/* Pinned memory that is kept when it is released: pinning takes long, and the next training often
   wants as much. */
typedef struct cuda_pinned {
    void *data;
    int64_t bytes;
    bool in_use;
} cuda_pinned;

typedef struct cuda_backend {
    neap_backend base;
    struct cuda_api *api; /* NVIDIA's libraries (api.h); NULL in the emulation */
    cuda_platform *platform;
    cuda_libraries *libraries; /* NULL in the emulation */
    cublaslt_cache *matmuls;   /* NULL: none so far */
    bool tf32;                 /* products of f32 may be rounded to tf32 */
    bool nondeterministic;     /* library kernels may sum in any order */
    cu_event marks[2];         /* device.c: around a kernel that is measured */
    cuda_pinned pinned;
} cuda_backend;

/* Preparing, listing and closing do this first, since they call libraries: the caller may have used
   another device, or thread. Runs follow work on the queue, which has done it. */
void neap_cuda_enter_device(cuda_backend *backend);

/* ---- Launching kernels of our own ---- */

/* A kernel of kernels.def for elements of type f32 or bf16. */
neap_status neap_cuda_find(cuda_backend *backend, const char *kernel, neap_dtype type,
                           const cuda_function **function, neap_diag *diag);
/* `params` is a pointer to the struct of parameters that the kernel takes. */
#define CUDA_LAUNCH(backend, function, dims, params, diag)                                         \
    neap_cuda_launch(backend, function, dims, params, sizeof *(params), diag)
neap_status neap_cuda_launch(cuda_backend *backend, const cuda_function *function, cuda_dims dims,
                             const void *params, size_t bytes, neap_diag *diag);
/* Enough blocks of `threads` threads for `items` items, one per thread; at most `waves` times what
   the device runs at once (0: no limit), so that kernels that loop start no needless blocks. */
cuda_dims neap_cuda_dims(const cuda_backend *backend, int64_t items, uint32_t threads,
                         uint32_t waves);

/* ---- Ops ---- */

typedef struct cuda_op {
    size_t plan_bytes;
    /* Looks up functions and sets parameters in a zeroed plan. */
    neap_status (*plan)(cuda_backend *backend, const run_spec *spec, void *plan, neap_diag *diag);
    neap_status (*run)(cuda_backend *backend, const void *plan, const run_args *args,
                       neap_diag *diag);
    /* The workspace of the only variant; NULL: none. */
    int64_t (*workspace)(const cuda_backend *backend, const run_spec *spec);
    /* run_op.algorithm; NULL: unknown. */
    neap_status (*algorithm)(cuda_backend *backend, const run_spec *spec, uint32_t *number,
                             neap_diag *diag);
    /* run_op.announce; NULL: nothing is slow. */
    neap_status (*announce)(cuda_backend *backend, const run_spec *spec, neap_diag *diag);
    /* Instead of `workspace`, for an op with several variants (run_op.variants). */
    neap_status (*variants)(cuda_backend *backend, const run_spec *spec, int64_t *workspaces,
                            uint32_t *count, neap_diag *diag);
    /* Releases what the plan owns; NULL: nothing. Also called after `plan` has failed. */
    void (*clear)(cuda_backend *backend, void *plan);
    /* NEAP_UNSUPPORTED with the reason if operands have types that the kernel does not take; NULL:
       neap_cuda_check_types. */
    neap_status (*check)(const run_spec *spec, neap_diag *diag);
} cuda_op;

neap_status neap_cuda_prepare(neap_backend *backend, const run_spec *spec, const cuda_op *op,
                              run_kernel **kernel, neap_diag *diag);
neap_status neap_cuda_variants(neap_backend *backend, const run_spec *spec, const cuda_op *op,
                               int64_t *workspaces, uint32_t *count, neap_diag *diag);

#define CUDA_OP(type, ...)                                                                         \
    static const cuda_op cuda_op_##type = __VA_ARGS__;                                             \
    static neap_status variants_##type(neap_backend *backend, const run_spec *spec,                \
                                       int64_t *workspaces, uint32_t *count, neap_diag *diag)      \
    {                                                                                              \
        return neap_cuda_variants(backend, spec, &cuda_op_##type, workspaces, count, diag);        \
    }                                                                                              \
    static neap_status prepare_##type(neap_backend *backend, const run_spec *spec,                 \
                                      run_kernel **kernel, neap_diag *diag)                        \
    {                                                                                              \
        return neap_cuda_prepare(backend, spec, &cuda_op_##type, kernel, diag);                    \
    }                                                                                              \
    static neap_status check_##type(const run_spec *spec, neap_diag *diag)                         \
    {                                                                                              \
        return cuda_op_##type.check ? cuda_op_##type.check(spec, diag)                             \
                                    : neap_cuda_check_types(spec, diag);                           \
    }                                                                                              \
    static neap_status announce_##type(neap_backend *backend, const run_spec *spec,                \
                                       neap_diag *diag)                                            \
    {                                                                                              \
        return cuda_op_##type.announce                                                             \
                   ? cuda_op_##type.announce((cuda_backend *)backend, spec, diag)                  \
                   : NEAP_OK;                                                                      \
    }                                                                                              \
    static neap_status algorithm_##type(neap_backend *backend, const run_spec *spec,               \
                                        uint32_t *number, neap_diag *diag)                         \
    {                                                                                              \
        return cuda_op_##type.algorithm                                                            \
                   ? cuda_op_##type.algorithm((cuda_backend *)backend, spec, number, diag)         \
                   : NEAP_OK;                                                                      \
    }                                                                                              \
    const run_op neap_cuda_op_##type = {variants_##type, prepare_##type, check_##type,             \
                                        algorithm_##type, announce_##type};

#define X(type) extern const run_op neap_cuda_op_##type;
#include "graph/ops.def"
#undef X

/* ---- Operands ---- */

/* The type T of the kernels that a spec needs: bf16 if any operand is of that type, else f32. */
neap_dtype neap_cuda_type(const run_spec *spec);
/* All floats are of that type, except for those that graphs of networks keep in f32 whatever their
   type: statistics, log-sum-exps, the loss and its gradient (`f32` in the op's form). */
neap_status neap_cuda_check_types(const run_spec *spec, neap_diag *diag);
/* Whether an address is a multiple of 16, as vectors of kernels/prelude.cuh need. */
static inline bool cuda_is_aligned(const void *address)
{
    return (uintptr_t)address % 16 == 0;
}

/* The seed of an op marked random, for a kernel's parameters. */
static inline seed_source cuda_seed(const run_args *args)
{
    return (seed_source){(const u64 *)(const void *)args->step_seed, args->seed};
}

/* After the launches of a kernel that checks indices: in the emulation, NEAP_INVALID if one was out
   of range; on a device the runner asks at the end of the step. */
neap_status neap_cuda_check_indices(cuda_backend *backend, const char *op_name, neap_diag *diag);

#endif
