/* Descriptors of cuDNN, and what it says if it fails. */
#include "run/backends/cuda/cudnn_call.h"

#include "base/fail.h"
#include "base/memory.h"

#include <string.h>

neap_status neap_cudnn_fail(const cuda_api *api, int cudnn_status, const char *what,
                            neap_diag *diag)
{
    char last[256] = "";
    api->cudnnGetLastErrorString(last, sizeof last);
    last[sizeof last - 1] = '\0';
    bool unsupported =
        cudnn_status >= CUDNN_STATUS_NOT_SUPPORTED && cudnn_status < CUDNN_STATUS_INTERNAL_ERROR;
    return neap_fail(diag, unsupported ? NEAP_UNSUPPORTED : NEAP_INTERNAL, "cuDNN, %s: %s (%d)%s%s",
                     what, api->cudnnGetErrorString(cudnn_status), cudnn_status,
                     last[0] ? "; " : "", last);
}

static neap_status fail(cudnn_bag *bag, int cudnn_status, const char *what, neap_diag *diag)
{
    bag->lacked_memory |= cudnn_status == CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED ||
                          cudnn_status == CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED;
    return neap_cudnn_fail(bag->libraries->api, cudnn_status, what, diag);
}

void neap_cudnn_bag_init(cudnn_bag *bag, cuda_libraries *libraries)
{
    *bag = (cudnn_bag){.libraries = libraries};
}

void neap_cudnn_bag_cut(cudnn_bag *bag, size_t count)
{
    while (bag->count > count)
        bag->libraries->api->cudnnBackendDestroyDescriptor(bag->items[--bag->count]);
}

void neap_cudnn_bag_clear(cudnn_bag *bag)
{
    if (!bag->libraries)
        return;
    neap_cudnn_bag_cut(bag, 0);
    NEAP_DELETE(bag->libraries->allocator, bag->capacity, bag->items);
    *bag = (cudnn_bag){.libraries = bag->libraries};
}

void neap_cudnn_bag_drop(cudnn_bag *bag, cudnn_descriptor descriptor)
{
    size_t i = bag->count;
    while (i > 0 && bag->items[i - 1] != descriptor)
        i--;
    if (i == 0)
        return;
    memmove(&bag->items[i - 1], &bag->items[i], (bag->count - i) * sizeof *bag->items);
    bag->count--;
    bag->libraries->api->cudnnBackendDestroyDescriptor(descriptor);
}

neap_status neap_cudnn_new(cudnn_bag *bag, int type, cudnn_descriptor *descriptor, neap_diag *diag)
{
    const cuda_api *api = bag->libraries->api;
    NEAP_TRY(
        NEAP_RESERVE(bag->libraries->allocator, bag->count + 1, &bag->items, &bag->capacity, diag));
    *descriptor = NULL;
    int status = api->cudnnBackendCreateDescriptor(type, descriptor);
    if (status != CUDNN_STATUS_SUCCESS)
        return fail(bag, status, "a new descriptor", diag);
    bag->items[bag->count++] = *descriptor;
    return NEAP_OK;
}

neap_status neap_cudnn_set(cudnn_bag *bag, cudnn_descriptor descriptor, int name, int type,
                           int64_t count, const void *elements, const char *what, neap_diag *diag)
{
    const cuda_api *api = bag->libraries->api;
    int status = api->cudnnBackendSetAttribute(descriptor, name, type, count, elements);
    return status == CUDNN_STATUS_SUCCESS ? NEAP_OK : fail(bag, status, what, diag);
}

neap_status neap_cudnn_finalize(cudnn_bag *bag, cudnn_descriptor descriptor, const char *what,
                                neap_diag *diag)
{
    const cuda_api *api = bag->libraries->api;
    int status = api->cudnnBackendFinalize(descriptor);
    return status == CUDNN_STATUS_SUCCESS ? NEAP_OK : fail(bag, status, what, diag);
}

neap_status neap_cudnn_get(cudnn_bag *bag, cudnn_descriptor descriptor, int name, int type,
                           int64_t requested, int64_t *count, void *elements, const char *what,
                           neap_diag *diag)
{
    const cuda_api *api = bag->libraries->api;
    int64_t found = 0;
    int status = api->cudnnBackendGetAttribute(descriptor, name, type, requested, &found, elements);
    if (count)
        *count = found;
    return status == CUDNN_STATUS_SUCCESS ? NEAP_OK : fail(bag, status, what, diag);
}
