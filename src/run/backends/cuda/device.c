/* The device behind a cuda backend. */
#include "run/backends/cuda/device.h"

#include "base/fail.h"
#include "run/backends/cuda/cuda.h"
#include "run/backends/cuda/driver.h"
#include "run/backends/cuda/kernels/prime.h"
#include "run/backends/cuda/link.h"
#include "run/backends/cuda/queue.h"

#include <string.h>

#define QUEUEING 100000 /* nanoseconds, of a kernel's launches */

static cuda_driver *driver_of(neap_backend *backend)
{
    return neap_cuda_driver_of(((cuda_backend *)backend)->platform);
}

/* ---- Memory ---- */

static neap_status allocate_pinned(cuda_backend *cuda, int64_t bytes, void **memory,
                                   neap_diag *diag)
{
    cuda_driver *driver = neap_cuda_driver_of(cuda->platform);
    cuda_pinned *kept = &cuda->pinned;
    if (kept->in_use || bytes < kept->bytes / 2) {
        neap_status status = neap_cuda_alloc_host(driver, bytes, memory, diag);
        if (status != NEAP_OK && !kept->in_use) { /* what is kept makes room */
            neap_cuda_free_host(driver, kept->data);
            *kept = (cuda_pinned){.data = NULL};
            status = neap_cuda_alloc_host(driver, bytes, memory, diag);
        }
        NEAP_TRY(status);
    } else {
        if (kept->bytes < bytes) {
            neap_cuda_free_host(driver, kept->data);
            *kept = (cuda_pinned){.data = NULL};
            NEAP_TRY(neap_cuda_alloc_host(driver, bytes, &kept->data, diag));
            kept->bytes = bytes;
        }
        kept->in_use = true;
        *memory = kept->data;
    }
    memset(*memory, 0, (size_t)bytes);
    return NEAP_OK;
}

static neap_status allocate(neap_backend *backend, run_memory kind, int64_t bytes,
                            unsigned char **data, neap_diag *diag)
{
    cuda_driver *driver = driver_of(backend);
    void *memory;
    if (kind == RUN_PINNED) {
        NEAP_TRY(allocate_pinned((cuda_backend *)backend, bytes, &memory, diag));
    } else {
        NEAP_TRY(neap_cuda_alloc(driver, bytes, &memory, diag));
        neap_status status = neap_cuda_fill(driver, memory, 0, bytes, CUDA_COMPUTE, diag);
        if (status != NEAP_OK) {
            neap_cuda_free(driver, memory);
            return status;
        }
    }
    *data = memory;
    return NEAP_OK;
}

static void release(neap_backend *backend, run_memory kind, unsigned char *data)
{
    cuda_pinned *kept = &((cuda_backend *)backend)->pinned;
    if (kind == RUN_PINNED && data == kept->data)
        kept->in_use = false;
    else if (kind == RUN_PINNED)
        neap_cuda_free_host(driver_of(backend), data);
    else
        neap_cuda_free(driver_of(backend), data);
}

static neap_status copy(neap_backend *backend, bool to_device, void *to, const void *from,
                        size_t bytes, neap_diag *diag)
{
    return to_device ? neap_cuda_write(driver_of(backend), to, from, (int64_t)bytes, diag)
                     : neap_cuda_read(driver_of(backend), to, from, (int64_t)bytes, diag);
}

static neap_status measure_memory(neap_backend *backend, neap_device_memory *memory,
                                  neap_diag *diag)
{
    cuda_memory found;
    NEAP_TRY(neap_cuda_measure_memory(driver_of(backend), &found, diag));
    memory->total = found.total;
    memory->used = found.total - found.free;
    memory->used_before = memory->used - found.used;
    memory->context = found.context;
    return NEAP_OK;
}

/* ---- Measuring kernels ---- */

static neap_status prime(neap_backend *backend, neap_dtype dtype, void *data, size_t bytes,
                         neap_diag *diag)
{
    cuda_backend *cuda = (cuda_backend *)backend;
    bool numbers = dtype == NEAP_F32 || dtype == NEAP_BF16;
    prime_params params = {.data = data,
                           .words = (i64)(bytes / 4),
                           .kind = numbers             ? PRIME_NUMBERS
                                   : dtype == NEAP_F64 ? PRIME_ONES
                                                       : PRIME_ZEROS};
    const cuda_function *function;
    if (bytes % 4 != 0)
        NEAP_TRY(neap_cuda_fill(driver_of(backend), (unsigned char *)data + bytes / 4 * 4, 0,
                                (int64_t)(bytes % 4), CUDA_COMPUTE, diag));
    if (params.words == 0)
        return NEAP_OK;
    NEAP_TRY(neap_cuda_find(cuda, "prime", NEAP_F32, &function, diag));
    return CUDA_LAUNCH(cuda, function, neap_cuda_dims(cuda, params.words, 256, 4), &params, diag);
}

/* The first mark waits until what follows is queued: the caller's own time does not count. */
static neap_status mark(neap_backend *backend, size_t k, neap_diag *diag)
{
    cuda_backend *cuda = (cuda_backend *)backend;
    cuda_driver *driver = driver_of(backend);
    if (!cuda->marks[k % 2])
        NEAP_TRY(neap_cuda_event_create(driver, true, &cuda->marks[k % 2], diag));
    if (k % 2 == 0)
        NEAP_TRY(neap_cuda_delay(driver, QUEUEING, CUDA_COMPUTE, diag));
    return neap_cuda_record(driver, cuda->marks[k % 2], CUDA_COMPUTE, diag);
}

static neap_status elapsed(neap_backend *backend, double *seconds, neap_diag *diag)
{
    cuda_backend *cuda = (cuda_backend *)backend;
    cuda_driver *driver = driver_of(backend);
    NEAP_TRY(neap_cuda_event_synchronize(driver, cuda->marks[1], diag));
    return neap_cuda_elapsed(driver, cuda->marks[0], cuda->marks[1], seconds, diag);
}

const run_device_type neap_cuda_device_type = {
    .allocate = allocate,
    .release = release,
    .copy = copy,
    .create_queue = neap_cuda_queue_create,
    .prime = prime,
    .mark = mark,
    .elapsed = elapsed,
    .measure_link = neap_cuda_measure_link,
    .memory = measure_memory,
};
