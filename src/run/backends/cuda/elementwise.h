/* Elementwise ops: one kernel of kernels/elementwise.cuh, and how it walks over its operands. */
#ifndef NEAP_CUDA_HOST_ELEMENTWISE_H
#define NEAP_CUDA_HOST_ELEMENTWISE_H

#include "run/backends/cuda/kernels/elementwise.h"
#include "run/backends/cuda/walk.h"

typedef struct cuda_elementwise {
    const cuda_function *function;
    uint32_t operands;
    uint32_t size[WALK_OPERANDS]; /* bytes of an element; 0 of the counter */
    bool counts;                  /* dropout: the last operand of the walk is a counter */
    bool scalar;                  /* the first input is one number, c; others follow */
    bool has_vectors;
    int width;                 /* elements of a vector */
    walk vectors;              /* if has_vectors; params has the walk over elements */
    int tail;                  /* elements after the vectors */
    elementwise_params params; /* without addresses */
} cuda_elementwise;

/* What the op's attributes come down to, params.p and such, is the caller's to set, before. */
neap_status neap_cuda_elementwise_plan(cuda_backend *backend, const run_spec *spec,
                                       const char *kernel, cuda_elementwise *e, neap_diag *diag);
neap_status neap_cuda_elementwise_run(cuda_backend *backend, const void *plan, const run_args *args,
                                      neap_diag *diag);

#define ELEMENTWISE_OP(type)                                                                       \
    CUDA_OP(type, {.plan_bytes = sizeof(cuda_elementwise),                                         \
                   .plan = plan_##type,                                                            \
                   .run = neap_cuda_elementwise_run})

#define SIMPLE_OP(type, kernel)                                                                    \
    static neap_status plan_##type(cuda_backend *backend, const run_spec *spec, void *plan,        \
                                   neap_diag *diag)                                                \
    {                                                                                              \
        return neap_cuda_elementwise_plan(backend, spec, kernel, plan, diag);                      \
    }                                                                                              \
    ELEMENTWISE_OP(type)

#endif
