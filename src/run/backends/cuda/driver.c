/* A device: opening it, its kernels, launches. */
#include "run/backends/cuda/driver.h"

#include "base/fail.h"
#include "base/memory.h"
#include "base/team.h"
#include "run/backends/cuda/driver_internal.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#define LEAST_ARCHITECTURE 80 /* the first that converts to bf16 */

/* ---- Errors ---- */

void neap_cuda_enter(const cuda_driver *driver)
{
    driver->api->cuCtxSetCurrent(driver->context);
}

static const char *error_name(const cuda_api *api, int result)
{
    const char *name = NULL;
    return api->cuGetErrorName(result, &name) == 0 && name ? name : "an unknown error";
}

static const char *error_text(const cuda_api *api, int result)
{
    const char *text = NULL;
    return api->cuGetErrorString(result, &text) == 0 && text ? text : "no description";
}

neap_status neap_cuda_check(const cuda_api *api, int result, neap_status otherwise, neap_diag *diag,
                            const char *what, ...)
{
    if (result == 0)
        return NEAP_OK;
    char doing[256];
    va_list arguments;
    va_start(arguments, what);
    vsnprintf(doing, sizeof doing, what, arguments);
    va_end(arguments);
    return neap_fail(diag, result == CU_ERROR_OUT_OF_MEMORY ? NEAP_NO_MEMORY : otherwise,
                     "%s: %s (%s)", doing, error_name(api, result), error_text(api, result));
}

neap_status neap_cuda_check_work(const cuda_driver *driver, int result, neap_diag *diag,
                                 const char *what)
{
    return neap_cuda_check(driver->api, result, NEAP_INTERNAL, diag, "%s on GPU %d%s%s", what,
                           driver->device.ordinal, driver->last_kernel ? ", after kernel " : "",
                           driver->last_kernel ? driver->last_kernel : "");
}

/* ---- Devices ---- */

neap_status neap_cuda_count_devices(const cuda_api *api, int *count, neap_diag *diag)
{
    *count = 0;
    NEAP_TRY(neap_cuda_api_need(api, CUDA_LIBRARY_DRIVER, diag));
    NEAP_TRY(neap_cuda_check(api, api->cuInit(0), NEAP_UNSUPPORTED, diag,
                             "CUDA's driver cannot be used: cuInit"));
    NEAP_TRY(neap_cuda_check(api, api->cuDeviceGetCount(count), NEAP_UNSUPPORTED, diag,
                             "CUDA's driver cannot be used: cuDeviceGetCount"));
    return *count > 0 ? NEAP_OK
                      : neap_fail(diag, NEAP_UNSUPPORTED, "CUDA's driver finds no GPU here");
}

neap_status neap_cuda_describe_device(const cuda_api *api, int ordinal, cuda_device *device,
                                      neap_diag *diag)
{
    int count, handle = 0, major = 0, minor = 0, l2 = 0;
    size_t memory = 0;
    *device = (cuda_device){.ordinal = ordinal};
    NEAP_TRY(neap_cuda_count_devices(api, &count, diag));
    if (ordinal < 0 || ordinal >= count)
        return neap_fail(diag, NEAP_INVALID, "there is no GPU %d: this machine has %d, from 0 on",
                         ordinal, count);
    int result = api->cuDeviceGet(&handle, ordinal);
    if (result == 0)
        result = api->cuDeviceGetName(device->name, sizeof device->name, handle);
    if (result == 0)
        result = api->cuDeviceTotalMem_v2(&memory, handle);
    const struct {
        int attribute, *value;
    } ATTRIBUTES[] = {{CU_COMPUTE_CAPABILITY_MAJOR, &major},
                      {CU_COMPUTE_CAPABILITY_MINOR, &minor},
                      {CU_MULTIPROCESSOR_COUNT, &device->multiprocessors},
                      {CU_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, &device->shared_bytes},
                      {CU_L2_CACHE_SIZE, &l2}};
    for (size_t i = 0; i < sizeof ATTRIBUTES / sizeof *ATTRIBUTES && result == 0; i++)
        result = api->cuDeviceGetAttribute(ATTRIBUTES[i].value, ATTRIBUTES[i].attribute, handle);
    device->architecture = major * 10 + minor;
    device->memory = (int64_t)memory;
    device->l2 = l2;
    return neap_cuda_check(api, result, NEAP_UNSUPPORTED, diag, "GPU %d cannot be asked", ordinal);
}

/* ---- Kernels ---- */

static neap_status load_code(cuda_driver *driver, const cuda_code_request *request,
                             cu_module *module, neap_diag *diag)
{
    cuda_code code;
    neap_status status =
        neap_cuda_code_get(driver->api, driver->base.allocator, request, &code, diag);
    if (status != NEAP_OK)
        return status;
    int result = driver->api->cuModuleLoadData(module, code.data);
    bool kept = code.kept;
    neap_cuda_code_clear(driver->base.allocator, &code);
    if (result == 0)
        return NEAP_OK;
    *module = NULL;
    if (kept && driver->api->handles[CUDA_LIBRARY_NVRTC]) { /* compiled for another driver */
        cuda_code_request again = *request;
        again.fresh = true;
        return load_code(driver, &again, module, diag);
    }
    return neap_cuda_check(driver->api, result, NEAP_INTERNAL, diag,
                           "the kernels of %s.cu cannot be loaded", request->file);
}

/* The module of a kernel's source, kept at the first kernel of that source. */
static neap_status find_module(cuda_driver *driver, size_t kernel, int type_index, neap_dtype type,
                               cu_module *module, neap_diag *diag)
{
    const char *file = neap_cuda_kernels[kernel].file;
    size_t first = 0;
    while (strcmp(neap_cuda_kernels[first].file, file) != 0)
        first++;
    cu_module *place = &driver->modules[first][type_index];
    cuda_code_request request = {file, type, driver->device.architecture, false};
    neap_status status = *place ? NEAP_OK : load_code(driver, &request, place, diag);
    *module = *place;
    return status;
}

static neap_status load_function(cuda_driver *driver, size_t kernel, int type_index,
                                 neap_dtype type, neap_diag *diag)
{
    const cuda_api *api = driver->api;
    cuda_function *function = &driver->functions[kernel][type_index];
    const char *name = neap_cuda_kernels[kernel].name;
    cu_module module;
    int fixed = 0;
    NEAP_TRY(find_module(driver, kernel, type_index, type, &module, diag));
    int result = api->cuModuleGetFunction(&function->handle, module, name);
    if (result == 0) /* what a block may have beyond 48 KiB must be asked for */
        result = api->cuFuncGetAttribute(&fixed, CU_FUNC_SHARED_SIZE_BYTES, function->handle);
    if (result == 0 && driver->device.shared_bytes > fixed)
        result = api->cuFuncSetAttribute(function->handle, CU_FUNC_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                         driver->device.shared_bytes - fixed);
    function->name = result == 0 ? name : NULL;
    return neap_cuda_check(api, result, NEAP_INTERNAL, diag, "kernel %s cannot be found", name);
}

static neap_status find(cuda_platform *platform, const char *name, neap_dtype type,
                        const cuda_function **function, neap_diag *diag)
{
    cuda_driver *driver = (cuda_driver *)platform;
    int type_index = type == NEAP_BF16;
    size_t kernel = 0;
    while (kernel < CUDA_N_KERNELS && strcmp(neap_cuda_kernels[kernel].name, name) != 0)
        kernel++;
    if (kernel == CUDA_N_KERNELS)
        return neap_fail(diag, NEAP_INTERNAL, "there is no kernel %s", name);
    *function = &driver->functions[kernel][type_index];
    if ((*function)->name)
        return NEAP_OK;
    neap_cuda_enter(driver);
    return load_function(driver, kernel, type_index, type, diag);
}

neap_status neap_cuda_launch_on(cuda_driver *driver, const cuda_function *function,
                                const cuda_dims *dims, const void *params, cuda_stream stream,
                                neap_diag *diag)
{
    neap_cuda_enter(driver);
    int result = driver->api->cuLaunchKernel(
        function->handle, dims->blocks, dims->blocks_y ? dims->blocks_y : 1,
        dims->blocks_z ? dims->blocks_z : 1, dims->threads, 1, 1, dims->dynamic_shared,
        driver->streams[stream], &params, NULL);
    if (result != 0)
        return neap_cuda_check(
            driver->api, result, NEAP_INTERNAL, diag,
            "kernel %s cannot be launched with %u x %u x %u blocks of %u threads and %u bytes%s%s",
            function->name, dims->blocks, dims->blocks_y, dims->blocks_z, dims->threads,
            dims->dynamic_shared, driver->last_kernel ? ", after kernel " : "",
            driver->last_kernel ? driver->last_kernel : "");
    driver->last_kernel = function->name;
    return NEAP_OK;
}

static neap_status launch(cuda_platform *platform, const cuda_function *function,
                          const cuda_dims *dims, const void *params, size_t bytes, neap_diag *diag)
{
    (void)bytes; /* the kernel knows */
    return neap_cuda_launch_on((cuda_driver *)platform, function, dims, params, CUDA_COMPUTE, diag);
}

/* ---- Compiling everything ---- */

typedef struct compile_job {
    neap_job base;
    cuda_driver *driver;
    neap_dtype type;
    neap_shared_allocator allocator;
    atomic_uint next; /* kernel to look at */
    cuda_code codes[CUDA_N_KERNELS];
    neap_status statuses[CUDA_N_KERNELS];
} compile_job;

/* Whether it is the first kernel of its source. */
static bool is_first(size_t kernel)
{
    for (size_t i = 0; i < kernel; i++)
        if (strcmp(neap_cuda_kernels[i].file, neap_cuda_kernels[kernel].file) == 0)
            return false;
    return true;
}

static void compile_some(neap_job *self, neap_team *team, unsigned member)
{
    compile_job *job = (compile_job *)self;
    (void)team;
    (void)member;
    for (unsigned k = atomic_fetch_add(&job->next, 1); k < CUDA_N_KERNELS;
         k = atomic_fetch_add(&job->next, 1)) {
        if (!is_first(k) || job->driver->modules[k][job->type == NEAP_BF16])
            continue;
        cuda_code_request request = {neap_cuda_kernels[k].file, job->type,
                                     job->driver->device.architecture, false};
        job->statuses[k] = neap_cuda_code_get(job->driver->api, &job->allocator.base, &request,
                                              &job->codes[k], NULL);
    }
}

/* What did not work is tried again, and reported, when the kernel is used. */
static void load_compiled(compile_job *job)
{
    const cuda_api *api = job->driver->api;
    for (size_t k = 0; k < CUDA_N_KERNELS; k++) {
        cu_module *module = &job->driver->modules[k][job->type == NEAP_BF16];
        if (job->codes[k].data && api->cuModuleLoadData(module, job->codes[k].data) != 0)
            *module = NULL;
        neap_cuda_code_clear(&job->allocator.base, &job->codes[k]);
    }
}

neap_status neap_cuda_compile_all(cuda_driver *driver, neap_dtype type, int threads,
                                  neap_diag *diag)
{
    compile_job *job;
    NEAP_TRY(NEAP_NEW(driver->base.allocator, 1, &job, diag));
    job->base.run = compile_some;
    job->driver = driver;
    job->type = type;
    neap_status status = NEAP_OK;
    if (neap_shared_allocator_init(&job->allocator, driver->base.allocator)) {
        neap_cuda_enter(driver);
        neap_team_run(&job->base, neap_team_size(threads, CUDA_N_KERNELS));
        load_compiled(job);
        neap_shared_allocator_clear(&job->allocator);
    } else {
        status = neap_fail_no_memory(diag);
    }
    NEAP_DELETE(driver->base.allocator, 1, job);
    return status;
}

/* ---- Opening and closing ---- */

void neap_cuda_driver_close(cuda_driver *driver)
{
    if (!driver)
        return;
    const cuda_api *api = driver->api;
    if (driver->context) {
        neap_cuda_enter(driver);
        for (int i = 0; i < CUDA_N_STREAMS; i++)
            if (driver->streams[i]) {
                api->cuStreamSynchronize(driver->streams[i]);
                api->cuStreamDestroy_v2(driver->streams[i]);
            }
        for (size_t k = 0; k < CUDA_N_KERNELS; k++)
            for (int t = 0; t < CUDA_N_TYPES; t++)
                if (driver->modules[k][t])
                    api->cuModuleUnload(driver->modules[k][t]);
        neap_cuda_free(driver, driver->base.trouble);
        api->cuDevicePrimaryCtxRelease_v2(driver->handle);
    }
    NEAP_DELETE(driver->base.allocator, 1, driver);
}

static void close_platform(cuda_platform *platform)
{
    neap_cuda_driver_close((cuda_driver *)platform);
}

static void enter_platform(cuda_platform *platform)
{
    neap_cuda_enter((cuda_driver *)platform);
}

static const cuda_platform_type TYPE = {
    .find = find, .launch = launch, .enter = enter_platform, .close = close_platform};

/* Bytes of the device that all programs use together, which takes no context to ask; -1: unknown.
   NVML counts some that the driver does not, so that only differences mean something. */
static int64_t used_by_all(const cuda_driver *driver)
{
    const cuda_api *api = driver->api;
    nvml_device device;
    nvml_memory memory;
    char id[32];
    bool known = false;
    if (!api->handles[CUDA_LIBRARY_NVML] || api->nvmlInit_v2() != 0)
        return -1;
    if (api->cuDeviceGetPCIBusId(id, sizeof id, driver->handle) == 0 &&
        api->nvmlDeviceGetHandleByPciBusId_v2(id, &device) == 0)
        known = api->nvmlDeviceGetMemoryInfo(device, &memory) == 0;
    api->nvmlShutdown();
    return known ? (int64_t)memory.used : -1;
}

static neap_status start(cuda_driver *driver, neap_diag *diag)
{
    const cuda_api *api = driver->api;
    cuda_memory memory;
    void *trouble;
    driver->context_bytes = -1;
    NEAP_TRY(neap_cuda_check(api, api->cuDeviceGet(&driver->handle, driver->device.ordinal),
                             NEAP_UNSUPPORTED, diag, "GPU %d", driver->device.ordinal));
    int64_t before = used_by_all(driver);
    NEAP_TRY(neap_cuda_check(api, api->cuDevicePrimaryCtxRetain(&driver->context, driver->handle),
                             NEAP_UNSUPPORTED, diag, "GPU %d (%s) cannot be used",
                             driver->device.ordinal, driver->device.name));
    neap_cuda_enter(driver);
    NEAP_TRY(neap_cuda_measure_memory(driver, &memory, diag));
    driver->free_at_open = memory.free;
    int64_t after = before >= 0 ? used_by_all(driver) : -1;
    if (after >= before && before >= 0)
        driver->context_bytes = after - before;
    for (int i = 0; i < CUDA_N_STREAMS; i++)
        NEAP_TRY(neap_cuda_check(
            api, api->cuStreamCreate(&driver->streams[i], CU_STREAM_NON_BLOCKING), NEAP_INTERNAL,
            diag, "a stream of GPU %d cannot be created", driver->device.ordinal));
    NEAP_TRY(neap_cuda_alloc(driver, sizeof *driver->base.trouble, &trouble, diag));
    driver->base.trouble = trouble;
    return neap_cuda_fill(driver, trouble, 0, sizeof *driver->base.trouble, CUDA_COMPUTE, diag);
}

neap_status neap_cuda_driver_open(neap_allocator *allocator, const cuda_api *api, int ordinal,
                                  cuda_driver **driver, neap_diag *diag)
{
    cuda_device device;
    allocator = neap_allocator_or_system(allocator);
    NEAP_TRY(neap_cuda_describe_device(api, ordinal, &device, diag));
    if (device.architecture < LEAST_ARCHITECTURE)
        return neap_fail(diag, NEAP_UNSUPPORTED,
                         "GPU %d (%s) has compute capability %d.%d; %d.%d or later is needed",
                         ordinal, device.name, device.architecture / 10, device.architecture % 10,
                         LEAST_ARCHITECTURE / 10, LEAST_ARCHITECTURE % 10);
    NEAP_TRY(NEAP_NEW(allocator, 1, driver, diag));
    (*driver)->api = api;
    (*driver)->device = device;
    (*driver)->base = (cuda_platform){.type = &TYPE,
                                      .allocator = allocator,
                                      .multiprocessors = device.multiprocessors,
                                      .shared_bytes = (uint32_t)device.shared_bytes};
    neap_status status = start(*driver, diag);
    if (status != NEAP_OK)
        neap_cuda_driver_close(*driver);
    return status;
}

cuda_platform *neap_cuda_platform(cuda_driver *driver)
{
    return &driver->base;
}

cuda_driver *neap_cuda_driver_of(cuda_platform *platform)
{
    return platform->type == &TYPE ? (cuda_driver *)platform : NULL;
}

const cuda_device *neap_cuda_device(const cuda_driver *driver)
{
    return &driver->device;
}

cu_stream neap_cuda_stream(const cuda_driver *driver, cuda_stream stream)
{
    return driver->streams[stream];
}
