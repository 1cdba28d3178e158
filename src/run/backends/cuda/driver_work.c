/* Memory of the device, and work on its streams. */
#include "base/fail.h"
#include "run/backends/cuda/driver_internal.h"
#include "run/backends/cuda/kernels/delay.h"

#include <neap/text.h>

static cu_address address_of(const void *memory)
{
    return (cu_address)(uintptr_t)memory;
}

/* ---- Memory ---- */

static neap_status fail_memory(cuda_driver *driver, int64_t bytes, neap_diag *diag)
{
    char wanted[32], unused[32], total[32];
    cuda_memory memory;
    if (neap_cuda_measure_memory(driver, &memory, diag) != NEAP_OK)
        return NEAP_NO_MEMORY;
    return neap_fail(diag, NEAP_NO_MEMORY,
                     "GPU %d (%s) has no room for %s (%lld bytes): %s of its %s are free; plan "
                     "within a smaller budget, or take a smaller batch",
                     driver->device.ordinal, driver->device.name,
                     neap_bytes_format(bytes, wanted, sizeof wanted), (long long)bytes,
                     neap_bytes_format(memory.free, unused, sizeof unused),
                     neap_bytes_format(memory.total, total, sizeof total));
}

neap_status neap_cuda_alloc(cuda_driver *driver, int64_t bytes, void **memory, neap_diag *diag)
{
    cu_address address = 0;
    *memory = NULL;
    if (bytes <= 0)
        return NEAP_OK;
    neap_cuda_enter(driver);
    int result = driver->api->cuMemAlloc_v2(&address, (size_t)bytes);
    if (result == CU_ERROR_OUT_OF_MEMORY)
        return fail_memory(driver, bytes, diag);
    if (result == 0)
        *memory = (void *)(uintptr_t)address;
    return neap_cuda_check_work(driver, result, diag, "allocating memory");
}

void neap_cuda_free(cuda_driver *driver, void *memory)
{
    if (!memory)
        return;
    neap_cuda_enter(driver);
    driver->api->cuMemFree_v2(address_of(memory));
}

static neap_status check_host(const cuda_driver *driver, int result, int64_t bytes, neap_diag *diag)
{
    char text[32];
    return neap_cuda_check(driver->api, result, NEAP_INTERNAL, diag, "pinning %s of host memory",
                           neap_bytes_format(bytes, text, sizeof text));
}

neap_status neap_cuda_alloc_host(cuda_driver *driver, int64_t bytes, void **memory, neap_diag *diag)
{
    *memory = NULL;
    if (bytes <= 0)
        return NEAP_OK;
    neap_cuda_enter(driver);
    int result = driver->api->cuMemHostAlloc(memory, (size_t)bytes, 0);
    if (result != 0)
        *memory = NULL;
    return check_host(driver, result, bytes, diag);
}

void neap_cuda_free_host(cuda_driver *driver, void *memory)
{
    if (!memory)
        return;
    neap_cuda_enter(driver);
    driver->api->cuMemFreeHost(memory);
}

neap_status neap_cuda_pin(cuda_driver *driver, void *memory, int64_t bytes, neap_diag *diag)
{
    neap_cuda_enter(driver);
    return check_host(driver, driver->api->cuMemHostRegister_v2(memory, (size_t)bytes, 0), bytes,
                      diag);
}

void neap_cuda_unpin(cuda_driver *driver, void *memory)
{
    neap_cuda_enter(driver);
    driver->api->cuMemHostUnregister(memory);
}

neap_status neap_cuda_measure_memory(cuda_driver *driver, cuda_memory *memory, neap_diag *diag)
{
    size_t unused = 0, total = 0;
    neap_cuda_enter(driver);
    int result = driver->api->cuMemGetInfo_v2(&unused, &total);
    memory->free = (int64_t)unused;
    memory->total = (int64_t)total;
    memory->used = driver->free_at_open - memory->free;
    memory->context = driver->context_bytes;
    return neap_cuda_check_work(driver, result, diag, "measuring memory");
}

/* ---- Work on streams ---- */

neap_status neap_cuda_fill(cuda_driver *driver, void *memory, unsigned char byte, int64_t bytes,
                           cuda_stream stream, neap_diag *diag)
{
    if (bytes <= 0)
        return NEAP_OK;
    neap_cuda_enter(driver);
    return neap_cuda_check_work(driver,
                                driver->api->cuMemsetD8Async(address_of(memory), byte,
                                                             (size_t)bytes,
                                                             driver->streams[stream]),
                                diag, "filling memory");
}

neap_status neap_cuda_copy_in(cuda_driver *driver, void *device, const void *host, int64_t bytes,
                              cuda_stream stream, neap_diag *diag)
{
    if (bytes <= 0)
        return NEAP_OK;
    neap_cuda_enter(driver);
    return neap_cuda_check_work(driver,
                                driver->api->cuMemcpyHtoDAsync_v2(address_of(device), host,
                                                                  (size_t)bytes,
                                                                  driver->streams[stream]),
                                diag, "copying to the device");
}

neap_status neap_cuda_copy_out(cuda_driver *driver, void *host, const void *device, int64_t bytes,
                               cuda_stream stream, neap_diag *diag)
{
    if (bytes <= 0)
        return NEAP_OK;
    neap_cuda_enter(driver);
    return neap_cuda_check_work(driver,
                                driver->api->cuMemcpyDtoHAsync_v2(host, address_of(device),
                                                                  (size_t)bytes,
                                                                  driver->streams[stream]),
                                diag, "copying to the host");
}

neap_status neap_cuda_copy_within(cuda_driver *driver, void *to, const void *from, int64_t bytes,
                                  cuda_stream stream, neap_diag *diag)
{
    if (bytes <= 0)
        return NEAP_OK;
    neap_cuda_enter(driver);
    return neap_cuda_check_work(driver,
                                driver->api->cuMemcpyDtoDAsync_v2(address_of(to), address_of(from),
                                                                  (size_t)bytes,
                                                                  driver->streams[stream]),
                                diag, "copying within the device");
}

neap_status neap_cuda_delay(cuda_driver *driver, int64_t nanoseconds, cuda_stream stream,
                            neap_diag *diag)
{
    const cuda_function *function;
    const cuda_dims dims = {.blocks = 1, .threads = 32};
    const delay_params params = {.nanoseconds = nanoseconds > 0 ? (u64)nanoseconds : 0};
    NEAP_TRY(driver->base.type->find(&driver->base, "delay", NEAP_F32, &function, diag));
    return neap_cuda_launch_on(driver, function, &dims, &params, stream, diag);
}

neap_status neap_cuda_write(cuda_driver *driver, void *device, const void *host, int64_t bytes,
                            neap_diag *diag)
{
    NEAP_TRY(neap_cuda_copy_in(driver, device, host, bytes, CUDA_COMPUTE, diag));
    return neap_cuda_synchronize(driver, CUDA_COMPUTE, diag);
}

neap_status neap_cuda_read(cuda_driver *driver, void *host, const void *device, int64_t bytes,
                           neap_diag *diag)
{
    NEAP_TRY(neap_cuda_copy_out(driver, host, device, bytes, CUDA_COMPUTE, diag));
    return neap_cuda_synchronize(driver, CUDA_COMPUTE, diag);
}

neap_status neap_cuda_synchronize(cuda_driver *driver, cuda_stream stream, neap_diag *diag)
{
    neap_cuda_enter(driver);
    return neap_cuda_check_work(driver, driver->api->cuStreamSynchronize(driver->streams[stream]),
                                diag, "work");
}

neap_status neap_cuda_synchronize_all(cuda_driver *driver, neap_diag *diag)
{
    for (int i = 0; i < CUDA_N_STREAMS; i++)
        NEAP_TRY(neap_cuda_synchronize(driver, (cuda_stream)i, diag));
    return NEAP_OK;
}

neap_status neap_cuda_take_trouble(cuda_driver *driver, bool *found, neap_diag *diag)
{
    int32_t trouble = 0;
    int32_t *cell = driver->base.trouble;
    NEAP_TRY(neap_cuda_read(driver, &trouble, cell, sizeof trouble, diag));
    *found = trouble != 0;
    return *found ? neap_cuda_fill(driver, cell, 0, sizeof trouble, CUDA_COMPUTE, diag) : NEAP_OK;
}

/* ---- Events ---- */

neap_status neap_cuda_event_create(cuda_driver *driver, bool timing, cu_event *event,
                                   neap_diag *diag)
{
    neap_cuda_enter(driver);
    *event = NULL;
    return neap_cuda_check_work(
        driver, driver->api->cuEventCreate(event, timing ? 0 : CU_EVENT_DISABLE_TIMING), diag,
        "creating an event");
}

void neap_cuda_event_destroy(cuda_driver *driver, cu_event event)
{
    if (!event)
        return;
    neap_cuda_enter(driver);
    driver->api->cuEventDestroy_v2(event);
}

neap_status neap_cuda_record(cuda_driver *driver, cu_event event, cuda_stream stream,
                             neap_diag *diag)
{
    neap_cuda_enter(driver);
    return neap_cuda_check_work(driver, driver->api->cuEventRecord(event, driver->streams[stream]),
                                diag, "recording an event");
}

neap_status neap_cuda_wait(cuda_driver *driver, cuda_stream stream, cu_event event, neap_diag *diag)
{
    neap_cuda_enter(driver);
    return neap_cuda_check_work(driver,
                                driver->api->cuStreamWaitEvent(driver->streams[stream], event, 0),
                                diag, "waiting for an event");
}

neap_status neap_cuda_event_synchronize(cuda_driver *driver, cu_event event, neap_diag *diag)
{
    neap_cuda_enter(driver);
    return neap_cuda_check_work(driver, driver->api->cuEventSynchronize(event), diag, "work");
}

neap_status neap_cuda_event_done(cuda_driver *driver, cu_event event, bool *done, neap_diag *diag)
{
    neap_cuda_enter(driver);
    int result = driver->api->cuEventQuery(event);
    *done = result == 0;
    return neap_cuda_check_work(driver, result == CU_ERROR_NOT_READY ? 0 : result, diag, "work");
}

neap_status neap_cuda_elapsed(cuda_driver *driver, cu_event from, cu_event to, double *seconds,
                              neap_diag *diag)
{
    float milliseconds = 0;
    neap_cuda_enter(driver);
    int result = driver->api->cuEventElapsedTime(&milliseconds, from, to);
    *seconds = 1e-3 * (double)milliseconds;
    return neap_cuda_check_work(driver, result, diag, "the time between two events");
}

/* ---- Recording ---- */

neap_status neap_cuda_capture_begin(cuda_driver *driver, neap_diag *diag)
{
    neap_cuda_enter(driver);
    return neap_cuda_check_work(driver,
                                driver->api->cuStreamBeginCapture_v2(
                                    driver->streams[CUDA_COMPUTE], CU_STREAM_CAPTURE_THREAD_LOCAL),
                                diag, "beginning to record");
}

neap_status neap_cuda_capture_end(cuda_driver *driver, cu_graph_exec *graph, neap_diag *diag)
{
    const cuda_api *api = driver->api;
    cu_graph recorded = NULL;
    size_t count = 0;
    *graph = NULL;
    neap_cuda_enter(driver);
    neap_status status = neap_cuda_check_work(
        driver, api->cuStreamEndCapture(driver->streams[CUDA_COMPUTE], &recorded), diag,
        "recording");
    if (status == NEAP_OK)
        status = neap_cuda_check_work(driver, api->cuGraphGetNodes(recorded, NULL, &count), diag,
                                      "looking at what was recorded");
    if (status == NEAP_OK && count > 0)
        status = neap_cuda_check_work(driver, api->cuGraphInstantiateWithFlags(graph, recorded, 0),
                                      diag, "instantiating what was recorded");
    if (status == NEAP_OK && *graph)
        status =
            neap_cuda_check_work(driver, api->cuGraphUpload(*graph, driver->streams[CUDA_COMPUTE]),
                                 diag, "uploading what was recorded");
    if (recorded)
        api->cuGraphDestroy(recorded);
    if (status != NEAP_OK && *graph) {
        api->cuGraphExecDestroy(*graph);
        *graph = NULL;
    }
    return status;
}

void neap_cuda_capture_abandon(cuda_driver *driver)
{
    cu_graph recorded = NULL;
    neap_cuda_enter(driver);
    driver->api->cuStreamEndCapture(driver->streams[CUDA_COMPUTE], &recorded);
    if (recorded)
        driver->api->cuGraphDestroy(recorded);
}

neap_status neap_cuda_graph_launch(cuda_driver *driver, cu_graph_exec graph, neap_diag *diag)
{
    neap_cuda_enter(driver);
    return neap_cuda_check_work(driver,
                                driver->api->cuGraphLaunch(graph, driver->streams[CUDA_COMPUTE]),
                                diag, "launching what was recorded");
}

void neap_cuda_graph_destroy(cuda_driver *driver, cu_graph_exec graph)
{
    if (!graph)
        return;
    neap_cuda_enter(driver);
    driver->api->cuGraphExecDestroy(graph);
}
