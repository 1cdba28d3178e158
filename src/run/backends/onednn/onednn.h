/*
 * Inside the onednn backend: fast kernels for the processor, f32.
 *
 * Convolutions and matrix products are oneDNN's (dnnl_*.c; the library itself is behind
 * dnnl_api.h), everything else is loops of our own over OpenMP's threads (omp_*.c, with
 * omp_parallel.h). An op type is one `neap_onednn_op_<type>` somewhere.
 */
#ifndef NEAP_RUN_ONEDNN_H
#define NEAP_RUN_ONEDNN_H

#include "run/backend.h"

typedef struct dnnl_api dnnl_api;

typedef struct onednn_backend {
    neap_backend base;
    dnnl_api *api; /* the library's engine and stream */
} onednn_backend;

static inline dnnl_api *onednn_api(const neap_backend *backend)
{
    return ((const onednn_backend *)backend)->api;
}

#define X(type) extern const run_op neap_onednn_op_##type;
#include "graph/ops.def"
#undef X

/* For messages: the op's name, or its type where it has none. */
const char *neap_onednn_op_name(const run_spec *spec);

/* ---- Kernels that need nothing but their own struct ---- */

/* At the start of a kernel's struct. */
typedef struct onednn_kernel {
    run_kernel base;
    neap_allocator *allocator;
    size_t bytes; /* of the whole struct */
    int threads;
} onednn_kernel;

/* A zeroed struct of `bytes` that begins with an onednn_kernel, which is filled in: runs `run`, is
   destroyed by giving its bytes back. */
neap_status neap_onednn_new_kernel(neap_backend *backend, size_t bytes,
                                   neap_status (*run)(const run_kernel *, const run_args *,
                                                      neap_diag *),
                                   void *kernel, neap_diag *diag);

#define ONEDNN_NEW_KERNEL(backend, run, kernel, diag)                                              \
    neap_onednn_new_kernel((backend), sizeof **(kernel), (run), (kernel), (diag))

#endif
