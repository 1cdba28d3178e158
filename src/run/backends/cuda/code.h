/*
 * Machine code of the kernels: a source of kernels/ compiled by NVRTC for a device, or as it was
 * compiled before.
 *
 * Compiled code is kept in the folder kernels/ of $NEAP_CACHE_DIR, or else of neap/ in
 * $XDG_CACHE_HOME or ~/.cache; with NEAP_CACHE_DIR=none it is not kept. A file's name has a hash of
 * the sources and options, the device's architecture and NVRTC's version. NVRTC is needed only for
 * what is not there, and a damaged file counts as missing.
 */
#ifndef NEAP_CUDA_CODE_H
#define NEAP_CUDA_CODE_H

#include "run/backends/cuda/api.h"

#include <neap/graph.h>

/* The kernels of kernels.def, with the sources they are in. */
typedef struct cuda_kernel_def {
    const char *file; /* "elementwise": of kernels/elementwise.cu */
    const char *name;
} cuda_kernel_def;

enum {
#define X(file, name) CUDA_KERNEL_##name,
#include "run/backends/cuda/kernels.def"
#undef X
    CUDA_N_KERNELS
};

extern const cuda_kernel_def neap_cuda_kernels[CUDA_N_KERNELS];

typedef struct cuda_code_request {
    const char *file;
    neap_dtype type;  /* of elements: f32 or bf16 */
    int architecture; /* 90 for compute capability 9.0 */
    bool fresh;       /* compile, whatever is kept */
} cuda_code_request;

/* What cuModuleLoadData takes: a cubin, or PTX that ends with a NUL. */
typedef struct cuda_code {
    char *data;
    size_t bytes; /* allocated */
    bool kept;    /* it was compiled before */
} cuda_code;

/* NEAP_UNSUPPORTED if it must be compiled and NVRTC is missing or does not know the device. */
neap_status neap_cuda_code_get(const cuda_api *api, neap_allocator *allocator,
                               const cuda_code_request *request, cuda_code *code, neap_diag *diag);
/* A hash of all sources of kernels. */
uint64_t neap_cuda_code_version(void);
void neap_cuda_code_clear(neap_allocator *allocator, cuda_code *code);

#endif
