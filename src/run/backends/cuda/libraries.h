/*
 * cuDNN and cuBLASLt on the backend's stream: handles for the files that call them (cudnn_*.c,
 * cublaslt_*.c). A library that is not there has a NULL handle, and its ops have only the kernels
 * of our own.
 */
#ifndef NEAP_CUDA_LIBRARIES_H
#define NEAP_CUDA_LIBRARIES_H

#include "base/team.h"
#include "run/backends/cuda/api.h"

/* A new one for every change of which kernels of the libraries are found, or in which order: what
   is kept in files, times and lists of algorithms, belongs to it. */
#define CUDA_SEARCH_VERSION 4

typedef struct cudnn_conv_list cudnn_conv_list; /* cudnn_conv.h */

typedef struct cuda_libraries cuda_libraries;

struct cuda_libraries {
    const cuda_api *api;
    neap_allocator *allocator; /* for several threads at once */
    neap_allocator *owner;     /* of this */
    neap_shared_allocator shared;
    cu_stream stream; /* of all computation */
    cudnn_handle cudnn;
    cublaslt_handle cublaslt;
    char cudnn_version[16], cublaslt_version[16];
    cudnn_conv_list *convolutions; /* algorithms found so far */
    cuda_libraries *workers;       /* handles of cuDNN for other threads (cudnn_lists.c) */
    size_t n_workers, worker_capacity;
};

/* With the device's context current. Fails only if a library is there but does not start. */
neap_status neap_cuda_libraries_open(const cuda_api *api, cu_stream stream,
                                     neap_allocator *allocator, cuda_libraries **libraries,
                                     neap_diag *diag);
/* After all kernels. `libraries` may be NULL. */
void neap_cuda_libraries_close(cuda_libraries *libraries);

#endif
