/*
 * NVIDIA's libraries, loaded at run time from one table of symbols (api.def): one binary serves
 * machines with and without them, and no header of theirs is needed to build it.
 *
 * Functions are members of cuda_api with their own names: api->cuInit(0).
 */
#ifndef NEAP_CUDA_API_H
#define NEAP_CUDA_API_H

#include <neap/allocator.h>
#include <neap/status.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Handles of the libraries: pointers that only they look behind. */
typedef struct cu_context *cu_context;
typedef struct cu_stream *cu_stream;
typedef struct cu_event *cu_event;
typedef struct cu_module *cu_module;
typedef struct cu_function *cu_function;
typedef struct cu_graph *cu_graph;
typedef struct cu_graph_exec *cu_graph_exec;
typedef uint64_t cu_address; /* CUdeviceptr */
typedef struct nvrtc_program *nvrtc_program;
typedef struct cudnn_handle *cudnn_handle;
typedef void *cudnn_descriptor; /* cudnnBackendDescriptor_t */
typedef struct cublaslt_handle *cublaslt_handle;
typedef struct cublaslt_desc *cublaslt_desc;             /* cublasLtMatmulDesc_t */
typedef struct cublaslt_layout *cublaslt_layout;         /* cublasLtMatrixLayout_t */
typedef struct cublaslt_preference *cublaslt_preference; /* cublasLtMatmulPreference_t */
typedef struct cublaslt_algo cublaslt_algo;              /* cublaslt_constants.h */
typedef struct cublaslt_result cublaslt_result;          /* likewise */

typedef struct nvml_device *nvml_device;
typedef struct nvml_memory { /* bytes */
    unsigned long long total, unused, used;
} nvml_memory;

typedef enum cuda_library {
    CUDA_LIBRARY_DRIVER,
    CUDA_LIBRARY_NVRTC,
    CUDA_LIBRARY_CUDNN,
    CUDA_LIBRARY_CUBLASLT,
    CUDA_LIBRARY_NVML,
    CUDA_LIBRARY_COUNT
} cuda_library;

typedef struct cuda_api {
#define X(library, result, name, parameters) result(*name) parameters;
#include "run/backends/cuda/api.def"
#undef X
    void *handles[CUDA_LIBRARY_COUNT];      /* NULL: not there */
    char files[CUDA_LIBRARY_COUNT][256];    /* the names they were found under */
    char problems[CUDA_LIBRARY_COUNT][256]; /* why one is not there, and how to get it; or "" */
} cuda_api;

/*
 * Loads what is there; it never fails. After the system's folders it searches those of CUDA_PATH
 * and /usr/local/cuda, and the packages of NVIDIA in the environments of Python that it finds.
 *     NEAP_CUDA_PATH  folders to search instead, separated by colons; "none": no library is there
 *     NEAP_NVRTC      the file of NVRTC, tried before all others
 * A library for a newer major version of CUDA than the driver's is passed over. Libraries stay in
 * the process once they are loaded.
 */
void neap_cuda_api_load(cuda_api *api);
void neap_cuda_api_unload(cuda_api *api);
/* "driver", "NVRTC", "cuDNN", "cuBLASLt", "NVML" */
const char *neap_cuda_library_name(cuda_library library);
/* Its release, as "13.0" or "9.13.0"; "" if it is not there. Returns `buffer`. */
char *neap_cuda_library_version(const cuda_api *api, cuda_library library, char *buffer,
                                size_t capacity);
/* NEAP_UNSUPPORTED with what is missing and how to get it. */
neap_status neap_cuda_api_need(const cuda_api *api, cuda_library library, neap_diag *diag);

#endif
