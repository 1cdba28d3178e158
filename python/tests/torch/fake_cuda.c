/*
 * A CUDA device without a GPU, for tests of allocators: memory is the host's, streams and events do
 * nothing, and there are no kernels. Preloaded before PyTorch, it makes PyTorch's own caching
 * allocator work on any machine.
 *
 * Compiled twice: as the functions of the runtime that PyTorch calls on the way, and, with DRIVER
 * defined, as a libcuda.so.1 whose functions are only there to be found.
 */
#ifdef DRIVER

#define STUB(name)                                                                                 \
    int name(void)                                                                                 \
    {                                                                                              \
        return 0;                                                                                  \
    }
STUB(cuInit)
STUB(cuDeviceGet)
STUB(cuDeviceGetCount)
STUB(cuDeviceGetAttribute)
STUB(cuDevicePrimaryCtxGetState)
STUB(cuDevicePrimaryCtxRetain)
STUB(cuCtxGetCurrent)
STUB(cuCtxSetCurrent)
STUB(cuFuncGetAttribute)
STUB(cuFuncSetAttribute)
STUB(cuFuncSetCacheConfig)
STUB(cuGetErrorString)
STUB(cuLaunchCooperativeKernel)
STUB(cuLaunchKernel)
STUB(cuLinkAddData_v2)
STUB(cuLinkComplete)
STUB(cuLinkCreate_v2)
STUB(cuModuleGetFunction)
STUB(cuModuleLoad)
STUB(cuModuleLoadData)
STUB(cuModuleLoadDataEx)
STUB(cuModuleUnload)
STUB(cuOccupancyMaxActiveBlocksPerMultiprocessor)
STUB(cuPointerGetAttribute)
STUB(cuTensorMapEncodeTiled)

#else

#include <cuda_runtime_api.h>
#include <stdlib.h>
#include <string.h>
#undef cudaGetDeviceProperties

#define MEMORY (8ull << 30)

int fake_waits;   /* cudaStreamWaitEvent calls so far */
int fake_records; /* cudaEventRecord calls so far */

static char handles[1 << 16]; /* streams and events are addresses in here */
static size_t next_handle;

static void *new_handle(void)
{
    return &handles[++next_handle % sizeof handles];
}

#define ALWAYS_OK(name, ...)                                                                       \
    cudaError_t name(__VA_ARGS__)                                                                  \
    {                                                                                              \
        return cudaSuccess;                                                                        \
    }
ALWAYS_OK(cudaSetDevice, int device)
ALWAYS_OK(cudaGetLastError, void)
ALWAYS_OK(cudaPeekAtLastError, void)
ALWAYS_OK(cudaEventQuery, cudaEvent_t event)
ALWAYS_OK(cudaEventSynchronize, cudaEvent_t event)
ALWAYS_OK(cudaEventDestroy, cudaEvent_t event)
ALWAYS_OK(cudaStreamSynchronize, cudaStream_t stream)
ALWAYS_OK(cudaStreamQuery, cudaStream_t stream)
ALWAYS_OK(cudaDeviceSynchronize, void)
ALWAYS_OK(cudaThreadExchangeStreamCaptureMode, enum cudaStreamCaptureMode *mode)

#define ANSWERS(name, type, answer, ...)                                                           \
    cudaError_t name(type *result, ##__VA_ARGS__)                                                  \
    {                                                                                              \
        *result = answer;                                                                          \
        return cudaSuccess;                                                                        \
    }
ANSWERS(cudaGetDeviceCount, int, 1)
ANSWERS(cudaGetDevice, int, 0)
ANSWERS(cudaDeviceGetAttribute, int, 1, enum cudaDeviceAttr attribute, int device)
ANSWERS(cudaDeviceCanAccessPeer, int, 0, int device, int peer)
ANSWERS(cudaDriverGetVersion, int, CUDART_VERSION)
ANSWERS(cudaRuntimeGetVersion, int, CUDART_VERSION)
ANSWERS(cudaEventCreate, cudaEvent_t, new_handle())
ANSWERS(cudaEventCreateWithFlags, cudaEvent_t, new_handle(), unsigned flags)
ANSWERS(cudaStreamCreateWithPriority, cudaStream_t, new_handle(), unsigned flags, int priority)

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus *status)
{
    *status = cudaStreamCaptureStatusNone;
    return cudaSuccess;
}

cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
    *least = 0;
    *greatest = -5;
    return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    fake_records++;
    return cudaSuccess;
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned flags)
{
    fake_records++;
    return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags)
{
    fake_waits++;
    return cudaSuccess;
}

const char *cudaGetErrorString(cudaError_t error)
{
    return "fake error";
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *properties, int device)
{
    memset(properties, 0, sizeof *properties);
    strcpy(properties->name, "fake");
    properties->major = 9;
    properties->totalGlobalMem = MEMORY;
    properties->multiProcessorCount = 1;
    properties->warpSize = 32;
    return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total)
{
    *free_bytes = *total = MEMORY;
    return cudaSuccess;
}

cudaError_t cudaMalloc(void **address, size_t bytes)
{
    if (bytes > MEMORY || posix_memalign(address, 2 << 20, bytes) != 0)
        return cudaErrorMemoryAllocation;
    return cudaSuccess;
}

cudaError_t cudaFree(void *address)
{
    free(address);
    return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                            cudaStream_t stream)
{
    memcpy(to, from, bytes);
    return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t stream)
{
    memset(to, value, bytes);
    return cudaSuccess;
}

cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t *handle, void *address)
{
    memset(handle, 0, sizeof *handle);
    return cudaSuccess;
}

cudaError_t cudaIpcGetEventHandle(cudaIpcEventHandle_t *handle, cudaEvent_t event)
{
    memset(handle, 0, sizeof *handle);
    return cudaSuccess;
}

#endif
