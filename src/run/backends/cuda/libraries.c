/* Starting and ending NVIDIA's libraries. */
#include "run/backends/cuda/libraries.h"

#include "base/fail.h"
#include "base/memory.h"
#include "run/backends/cuda/cudnn_conv.h"

#include <stdio.h>

/* cuDNN counts 10000 * major + 100 * minor + patch. */
static neap_status open_cudnn(cuda_libraries *libraries, neap_diag *diag)
{
    const cuda_api *api = libraries->api;
    if (!api->handles[CUDA_LIBRARY_CUDNN])
        return NEAP_OK;
    size_t version = api->cudnnGetVersion();
    snprintf(libraries->cudnn_version, sizeof libraries->cudnn_version, "%u.%u.%u",
             (unsigned)(version / 10000 % 1000), (unsigned)(version / 100 % 100),
             (unsigned)(version % 100));
    int status = api->cudnnCreate(&libraries->cudnn);
    if (status != 0) {
        libraries->cudnn = NULL;
        return neap_fail(diag, NEAP_UNSUPPORTED,
                         "cuDNN %s does not start (status %d); install the release for the "
                         "driver's CUDA, or name folders without it in NEAP_CUDA_PATH",
                         libraries->cudnn_version, status);
    }
    status = api->cudnnSetStream(libraries->cudnn, libraries->stream);
    return status == 0 ? NEAP_OK : neap_cudnn_fail(api, status, "cudnnSetStream", diag);
}

static neap_status open_cublaslt(cuda_libraries *libraries, neap_diag *diag)
{
    const cuda_api *api = libraries->api;
    if (!api->handles[CUDA_LIBRARY_CUBLASLT])
        return NEAP_OK;
    size_t version = api->cublasLtGetVersion();
    snprintf(libraries->cublaslt_version, sizeof libraries->cublaslt_version, "%u.%u.%u",
             (unsigned)(version / 10000 % 1000), (unsigned)(version / 100 % 100),
             (unsigned)(version % 100));
    int status = api->cublasLtCreate(&libraries->cublaslt);
    if (status == 0)
        return NEAP_OK;
    libraries->cublaslt = NULL;
    return neap_fail(diag, NEAP_UNSUPPORTED,
                     "cuBLASLt %s does not start: %s; install the release for the driver's CUDA, "
                     "or name folders without it in NEAP_CUDA_PATH",
                     libraries->cublaslt_version, api->cublasLtGetStatusString(status));
}

neap_status neap_cuda_libraries_open(const cuda_api *api, cu_stream stream,
                                     neap_allocator *allocator, cuda_libraries **libraries,
                                     neap_diag *diag)
{
    cuda_libraries *made;
    neap_status status = NEAP_NEW(allocator, 1, &made, diag);
    if (status != NEAP_OK)
        return status;
    if (!neap_shared_allocator_init(&made->shared, allocator)) {
        NEAP_DELETE(allocator, 1, made);
        return neap_fail(diag, NEAP_NO_MEMORY, "a lock cannot be created");
    }
    made->api = api;
    made->allocator = &made->shared.base;
    made->owner = allocator;
    made->stream = stream;
    status = open_cudnn(made, diag);
    if (status == NEAP_OK)
        status = open_cublaslt(made, diag);
    if (status == NEAP_OK)
        *libraries = made;
    else
        neap_cuda_libraries_close(made);
    return status;
}

void neap_cuda_libraries_close(cuda_libraries *libraries)
{
    if (!libraries)
        return;
    neap_cudnn_conv_clear(libraries);
    if (libraries->cudnn)
        libraries->api->cudnnDestroy(libraries->cudnn);
    if (libraries->cublaslt)
        libraries->api->cublasLtDestroy(libraries->cublaslt);
    neap_shared_allocator_clear(&libraries->shared);
    NEAP_DELETE(libraries->owner, 1, libraries);
}
