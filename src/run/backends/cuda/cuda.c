/* The cuda backend: the table of its ops, on a device or in the emulation. */
#include "run/backends/cuda/cuda.h"

#include "base/memory.h"
#include "run/backends/cuda/code.h"
#include "run/backends/cuda/cublaslt_matmul.h"
#include "run/backends/cuda/cudnn_conv.h"
#include "run/backends/cuda/device.h"
#include "run/backends/cuda/driver.h"
#include "run/backends/cuda/libraries.h"
#if NEAP_HAS_EMULATION
#include "run/backends/cuda/emulation/emulation.h"
#endif

#include <stdio.h>

static const run_op *const ops[] = {
#define X(type) &neap_cuda_op_##type,
#include "graph/ops.def"
#undef X
};

static neap_status new_backend(neap_allocator *allocator, const neap_backend_options *options,
                               cuda_backend **backend, neap_diag *diag)
{
    neap_status status = NEAP_NEW(allocator, 1, backend, diag);
    if (status == NEAP_OK) {
        (*backend)->base.allocator = allocator;
        (*backend)->tf32 = options->tf32;
        (*backend)->nondeterministic = options->nondeterministic;
    }
    return status;
}

static void close_backend(neap_backend *backend)
{
    cuda_backend *cuda = (cuda_backend *)backend;
    neap_cuda_enter_device(cuda);
    neap_cublaslt_cache_delete(backend->allocator, cuda->matmuls);
    neap_cuda_libraries_close(cuda->libraries);
    for (int i = 0; i < 2 && cuda->marks[i]; i++)
        neap_cuda_event_destroy(neap_cuda_driver_of(cuda->platform), cuda->marks[i]);
    if (cuda->pinned.data)
        neap_cuda_free_host(neap_cuda_driver_of(cuda->platform), cuda->pinned.data);
    if (cuda->platform)
        cuda->platform->type->close(cuda->platform);
    if (cuda->api)
        neap_cuda_api_unload(cuda->api);
    NEAP_DELETE(backend->allocator, 1, cuda->api);
    NEAP_DELETE(backend->allocator, 1, cuda);
}

/* ---- On a device ---- */

/* What times depend on. */
static void set_machine(cuda_backend *cuda, const cuda_device *device)
{
    static const cuda_library SHOWN[] = {CUDA_LIBRARY_DRIVER, CUDA_LIBRARY_NVRTC,
                                         CUDA_LIBRARY_CUDNN, CUDA_LIBRARY_CUBLASLT};
    char *machine = cuda->base.machine;
    size_t capacity = sizeof cuda->base.machine,
           length = (size_t)snprintf(machine, capacity, "%.60s", device->name);
    for (size_t i = 0; i < sizeof SHOWN / sizeof *SHOWN; i++) {
        char version[16];
        neap_cuda_library_version(cuda->api, SHOWN[i], version, sizeof version);
        length += (size_t)snprintf(machine + length, capacity - length, ", %s %s",
                                   neap_cuda_library_name(SHOWN[i]), *version ? version : "none");
    }
    snprintf(machine + length, capacity - length, ", kernels %04x.%d, %s%s",
             (unsigned)(neap_cuda_code_version() & 0xffff), CUDA_SEARCH_VERSION,
             cuda->tf32 ? "tf32" : "f32", cuda->nondeterministic ? ", nondeterministic" : "");
}

static neap_status open_device(neap_allocator *allocator, const neap_backend_options *options,
                               neap_backend **backend, neap_diag *diag)
{
    cuda_backend *cuda;
    cuda_driver *driver = NULL;
    neap_status status = new_backend(allocator, options, &cuda, diag);
    if (status != NEAP_OK)
        return status;
    status = NEAP_NEW(allocator, 1, &cuda->api, diag);
    if (status == NEAP_OK) {
        neap_cuda_api_load(cuda->api);
        status = neap_cuda_driver_open(allocator, cuda->api, options->device, &driver, diag);
    }
    if (status == NEAP_OK) {
        cuda->platform = neap_cuda_platform(driver);
        status = neap_cuda_libraries_open(cuda->api, neap_cuda_stream(driver, CUDA_COMPUTE),
                                          allocator, &cuda->libraries, diag);
    }
    if (status != NEAP_OK) {
        close_backend(&cuda->base);
        return status;
    }
    set_machine(cuda, neap_cuda_device(driver));
    /* The kernels of cuDNN for f32 without tensor cores want channels first. */
    cuda->base.channels_last = cuda->base.channels_last_filters = cuda->tf32;
    *backend = &cuda->base;
    return NEAP_OK;
}

static neap_status find_announced(neap_backend *backend, neap_progress *progress, neap_diag *diag)
{
    neap_cuda_enter_device((cuda_backend *)backend);
    return neap_cudnn_conv_make_lists((cuda_backend *)backend, progress, diag);
}

const run_backend_type neap_run_backend_cuda = {
    .name = "cuda",
    .summary = "NVIDIA GPUs: cuDNN, cuBLASLt and kernels of our own",
    .device = &neap_cuda_device_type,
    .needs_device = true,
    .open = open_device,
    .close = close_backend,
    .supports_op = neap_run_ops_support,
    .variants = neap_run_ops_variants,
    .prepare = neap_run_ops_prepare,
    .find_announced = find_announced,
    .ops = ops,
};

/* ---- In the emulation ---- */

#if NEAP_HAS_EMULATION
static neap_status open_emulation(neap_allocator *allocator, const neap_backend_options *options,
                                  neap_backend **backend, neap_diag *diag)
{
    cuda_backend *cuda;
    neap_status status = new_backend(allocator, options, &cuda, diag);
    if (status != NEAP_OK)
        return status;
    status = neap_cuda_emulation_open(allocator, &cuda->platform, diag);
    if (status != NEAP_OK) {
        close_backend(&cuda->base);
        return status;
    }
    cuda->base.channels_last = cuda->base.channels_last_filters = true;
    snprintf(cuda->base.machine, sizeof cuda->base.machine, "cuda-emulation");
    *backend = &cuda->base;
    return NEAP_OK;
}

const run_backend_type neap_run_backend_cuda_emulation = {
    .name = "cuda-emulation",
    .summary = "the kernels of backend cuda, emulated on the processor for tests; slow",
    .open = open_emulation,
    .close = close_backend,
    .supports_op = neap_run_ops_support,
    .variants = neap_run_ops_variants,
    .prepare = neap_run_ops_prepare,
    .ops = ops,
};
#endif
