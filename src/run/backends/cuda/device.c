/* The device behind a cuda backend. */
#include "run/backends/cuda/device.h"

#include "base/fail.h"
#include "run/backends/cuda/cuda.h"
#include "run/backends/cuda/driver.h"
#include "run/backends/cuda/kernels/prime.h"
#include "run/backends/cuda/queue.h"

#include <math.h>
#include <string.h>

#define MOST_BYTES  (INT64_C(256) << 20) /* of a copy that is timed */
#define SMALL_BYTES (INT64_C(64) << 10)
#define MOST_WRITES 40

static cuda_driver *driver_of(neap_backend *backend)
{
    return neap_cuda_driver_of(((cuda_backend *)backend)->platform);
}

/* ---- Memory ---- */

static neap_status allocate(neap_backend *backend, run_memory kind, int64_t bytes,
                            unsigned char **data, neap_diag *diag)
{
    cuda_driver *driver = driver_of(backend);
    void *memory;
    if (kind == RUN_PINNED) {
        NEAP_TRY(neap_cuda_alloc_host(driver, bytes, &memory, diag));
        memset(memory, 0, (size_t)bytes);
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
    if (kind == RUN_PINNED)
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

static neap_status mark(neap_backend *backend, size_t k, neap_diag *diag)
{
    cuda_backend *cuda = (cuda_backend *)backend;
    cuda_driver *driver = driver_of(backend);
    if (!cuda->marks[k % 2])
        NEAP_TRY(neap_cuda_event_create(driver, true, &cuda->marks[k % 2], diag));
    return neap_cuda_record(driver, cuda->marks[k % 2], CUDA_COMPUTE, diag);
}

static neap_status elapsed(neap_backend *backend, double *seconds, neap_diag *diag)
{
    cuda_backend *cuda = (cuda_backend *)backend;
    cuda_driver *driver = driver_of(backend);
    NEAP_TRY(neap_cuda_event_synchronize(driver, cuda->marks[1], diag));
    return neap_cuda_elapsed(driver, cuda->marks[0], cuda->marks[1], seconds, diag);
}

/* ---- The link ---- */

typedef struct link_probe {
    cuda_driver *driver;
    int64_t bytes;             /* of a large copy */
    void *device[2], *host[2]; /* out, in */
    void *work;                /* what kernels write beside copies */
    cu_event events[6];        /* begin and end of each direction, and of kernels */
} link_probe;

static neap_status queue_both(link_probe *p, int64_t bytes, neap_diag *diag)
{
    cuda_driver *d = p->driver;
    NEAP_TRY(neap_cuda_record(d, p->events[0], CUDA_OUT, diag));
    NEAP_TRY(neap_cuda_record(d, p->events[2], CUDA_IN, diag));
    NEAP_TRY(neap_cuda_copy_out(d, p->host[0], p->device[0], bytes, CUDA_OUT, diag));
    NEAP_TRY(neap_cuda_copy_in(d, p->device[1], p->host[1], bytes, CUDA_IN, diag));
    NEAP_TRY(neap_cuda_record(d, p->events[1], CUDA_OUT, diag));
    return neap_cuda_record(d, p->events[3], CUDA_IN, diag);
}

static neap_status copy_both(link_probe *p, int64_t bytes, double *out, double *in, neap_diag *diag)
{
    cuda_driver *d = p->driver;
    NEAP_TRY(queue_both(p, bytes, diag));
    NEAP_TRY(neap_cuda_synchronize_all(d, diag));
    NEAP_TRY(neap_cuda_elapsed(d, p->events[0], p->events[1], out, diag));
    return neap_cuda_elapsed(d, p->events[2], p->events[3], in, diag);
}

/* The best of several: other work only makes copies slower. */
static neap_status probe(link_probe *p, neap_link *link, neap_diag *diag)
{
    double out, in, least_out = 1e9, least_in = 1e9, least_small = 1e9;
    for (int i = 0; i < 6; i++)
        NEAP_TRY(neap_cuda_event_create(p->driver, true, &p->events[i], diag));
    for (int i = 0; i < 2; i++) {
        NEAP_TRY(neap_cuda_alloc(p->driver, p->bytes, &p->device[i], diag));
        NEAP_TRY(neap_cuda_alloc_host(p->driver, p->bytes, &p->host[i], diag));
    }
    for (int i = 0; i < 5; i++) {
        NEAP_TRY(copy_both(p, p->bytes, &out, &in, diag));
        least_out = out < least_out ? out : least_out;
        least_in = in < least_in ? in : least_in;
        NEAP_TRY(copy_both(p, SMALL_BYTES, &out, &in, diag));
        least_small = out < least_small ? out : least_small;
    }
    link->out_bandwidth = (double)p->bytes / least_out;
    link->in_bandwidth = (double)p->bytes / least_in;
    link->latency = least_small - (double)SMALL_BYTES / link->out_bandwidth;
    link->latency = link->latency > 0 ? link->latency : 0;
    link->duplex = true;
    return NEAP_OK;
}

/* Kernels that write memory, beside copies or alone: the seconds they take. */
static neap_status write_beside(neap_backend *backend, link_probe *p, bool copies, int runs,
                                double *seconds, neap_diag *diag)
{
    cuda_driver *d = p->driver;
    if (copies)
        NEAP_TRY(queue_both(p, p->bytes, diag));
    NEAP_TRY(neap_cuda_record(d, p->events[4], CUDA_COMPUTE, diag));
    for (int i = 0; i < runs; i++)
        NEAP_TRY(prime(backend, NEAP_F32, p->work, (size_t)p->bytes, diag));
    NEAP_TRY(neap_cuda_record(d, p->events[5], CUDA_COMPUTE, diag));
    NEAP_TRY(neap_cuda_synchronize_all(d, diag));
    return neap_cuda_elapsed(d, p->events[4], p->events[5], seconds, diag);
}

/* The kernels take half as long as the copies, so that they are never alone. */
static neap_status probe_contention(neap_backend *backend, link_probe *p, const neap_link *link,
                                    neap_contention *contention, neap_diag *diag)
{
    double once, alone = 1e9, beside = 1e9, seconds;
    double copy = (double)p->bytes / fmax(link->out_bandwidth, link->in_bandwidth);
    NEAP_TRY(neap_cuda_alloc(p->driver, p->bytes, &p->work, diag));
    NEAP_TRY(write_beside(backend, p, false, 1, &once, diag)); /* compiles and loads it, too */
    NEAP_TRY(write_beside(backend, p, false, 1, &once, diag));
    int runs = (int)fmin(fmax(1, copy / 2 / fmax(once, 1e-9)), MOST_WRITES);
    for (int i = 0; i < 5; i++) {
        NEAP_TRY(write_beside(backend, p, false, runs, &seconds, diag));
        alone = fmin(alone, seconds);
        NEAP_TRY(write_beside(backend, p, true, runs, &seconds, diag));
        beside = fmin(beside, seconds);
    }
    contention->bandwidth = (double)p->bytes * runs / fmax(alone, 1e-9);
    contention->slowdown = fmax(0, beside / fmax(alone, 1e-9) - 1);
    return NEAP_OK;
}

static neap_status measure_link(neap_backend *backend, neap_link *link, neap_contention *contention,
                                neap_diag *diag)
{
    link_probe p = {.driver = driver_of(backend)};
    cuda_memory memory;
    NEAP_TRY(neap_cuda_measure_memory(p.driver, &memory, diag));
    p.bytes =
        memory.free / 64 < MOST_BYTES ? memory.free / 64 / SMALL_BYTES * SMALL_BYTES : MOST_BYTES;
    p.bytes = p.bytes > SMALL_BYTES ? p.bytes : SMALL_BYTES;
    neap_status status = probe(&p, link, diag);
    if (status == NEAP_OK && contention)
        status = probe_contention(backend, &p, link, contention, diag);
    neap_cuda_free(p.driver, p.work);
    for (int i = 0; i < 6; i++)
        neap_cuda_event_destroy(p.driver, p.events[i]);
    for (int i = 0; i < 2; i++) {
        neap_cuda_free(p.driver, p.device[i]);
        neap_cuda_free_host(p.driver, p.host[i]);
    }
    return status;
}

const run_device_type neap_cuda_device_type = {
    .allocate = allocate,
    .release = release,
    .copy = copy,
    .create_queue = neap_cuda_queue_create,
    .prime = prime,
    .mark = mark,
    .elapsed = elapsed,
    .measure_link = measure_link,
    .memory = measure_memory,
};
