/*
 * The link to pinned memory of the host, measured as plans use it: large copies while kernels use
 * the device's memory, with and without copies the other way, and small ones for the latency.
 *
 * The streams are held until everything is queued, so that the caller's own time is not measured.
 * What runs beside the timed copies is meant to take longer than they do. Medians count: a step
 * that waits for the link gets its usual rate, not its best.
 */
#include "run/backends/cuda/link.h"

#include "base/fail.h"
#include "run/backends/cuda/driver.h"
#include "run/queue.h"

#include <math.h>

#define MOST_BYTES  (INT64_C(256) << 20) /* of a copy that is timed */
#define SMALL_BYTES (INT64_C(64) << 10)
#define SMALL_COUNT 16
#define MOST_WRITES 400
#define TIMES       5
#define HOLD        2000000 /* nanoseconds; queueing takes less */

enum { START, BEGIN, END, ORDER, N_EVENTS };

typedef struct probe {
    neap_backend *backend;
    cuda_driver *driver;
    int64_t bytes;             /* of a large copy, and of what a kernel writes */
    void *device[2], *host[2]; /* by run_direction */
    void *work;                /* what kernels write */
    double write;              /* seconds of such a kernel */
    cu_event events[N_EVENTS];
    neap_diag *diag;
} probe;

/* What runs beside the copies or kernels that are timed. */
typedef struct company {
    bool out, in; /* copies */
    int writes;   /* kernels */
} company;

static double median(double *seconds)
{
    for (int i = 1; i < TIMES; i++)
        for (int k = i; k > 0 && seconds[k] < seconds[k - 1]; k--) {
            double swapped = seconds[k];
            seconds[k] = seconds[k - 1];
            seconds[k - 1] = swapped;
        }
    return seconds[TIMES / 2];
}

/* ---- Queueing ---- */

static cuda_stream stream_of(run_direction direction)
{
    return direction == RUN_OUT ? CUDA_OUT : CUDA_IN;
}

static neap_status copy(probe *p, run_direction direction, int64_t bytes)
{
    return direction == RUN_OUT ? neap_cuda_copy_out(p->driver, p->host[RUN_OUT],
                                                     p->device[RUN_OUT], bytes, CUDA_OUT, p->diag)
                                : neap_cuda_copy_in(p->driver, p->device[RUN_IN], p->host[RUN_IN],
                                                    bytes, CUDA_IN, p->diag);
}

static neap_status copies(probe *p, run_direction direction, int count)
{
    for (int i = 0; i < count; i++)
        NEAP_TRY(copy(p, direction, p->bytes));
    return NEAP_OK;
}

static neap_status writes(probe *p, int count)
{
    for (int i = 0; i < count; i++)
        NEAP_TRY(p->backend->type->device->prime(p->backend, NEAP_F32, p->work, (size_t)p->bytes,
                                                 p->diag));
    return NEAP_OK;
}

static neap_status record(probe *p, int event, cuda_stream stream)
{
    return neap_cuda_record(p->driver, p->events[event], stream, p->diag);
}

/* What is queued from here on begins at once on all streams, a little later. */
static neap_status hold(probe *p)
{
    NEAP_TRY(neap_cuda_delay(p->driver, HOLD, CUDA_COMPUTE, p->diag));
    NEAP_TRY(record(p, START, CUDA_COMPUTE));
    NEAP_TRY(neap_cuda_wait(p->driver, CUDA_OUT, p->events[START], p->diag));
    return neap_cuda_wait(p->driver, CUDA_IN, p->events[START], p->diag);
}

/* Waits for everything; the seconds between BEGIN and END. */
static neap_status take_time(probe *p, double *seconds)
{
    NEAP_TRY(neap_cuda_synchronize_all(p->driver, p->diag));
    return neap_cuda_elapsed(p->driver, p->events[BEGIN], p->events[END], seconds, p->diag);
}

/* ---- Bandwidths ---- */

/* A large copy; what goes the other way has twice its bytes and one more copy to begin with. */
static neap_status time_copy(probe *p, run_direction direction, const company *beside,
                             double *seconds)
{
    run_direction other = direction == RUN_OUT ? RUN_IN : RUN_OUT;
    bool both = other == RUN_OUT ? beside->out : beside->in;
    NEAP_TRY(hold(p));
    NEAP_TRY(copies(p, other, both ? 3 : 0));
    NEAP_TRY(record(p, BEGIN, stream_of(direction)));
    NEAP_TRY(copies(p, direction, 1));
    NEAP_TRY(record(p, END, stream_of(direction)));
    NEAP_TRY(writes(p, beside->writes));
    return take_time(p, seconds);
}

static neap_status measure_rate(probe *p, run_direction direction, const company *beside,
                                double *rate)
{
    double seconds[TIMES];
    for (int i = 0; i < TIMES; i++)
        NEAP_TRY(time_copy(p, direction, beside, &seconds[i]));
    *rate = (double)p->bytes / fmax(median(seconds), 1e-9);
    return NEAP_OK;
}

/* ---- Latency ---- */

/* Small copies, one behind the other as on a link that is in use, each between the events that it
   has in a step. What they take beyond their bytes is the latency. */
static neap_status measure_latency(probe *p, run_direction direction, double rate, double *latency)
{
    double seconds[TIMES];
    cuda_stream stream = stream_of(direction);
    for (int k = 0; k < TIMES; k++) {
        NEAP_TRY(hold(p));
        NEAP_TRY(record(p, BEGIN, stream));
        for (int i = 0; i < SMALL_COUNT; i++) {
            NEAP_TRY(record(p, ORDER, CUDA_COMPUTE));
            NEAP_TRY(neap_cuda_wait(p->driver, stream, p->events[ORDER], p->diag));
            NEAP_TRY(copy(p, direction, SMALL_BYTES));
            NEAP_TRY(record(p, END, stream));
        }
        NEAP_TRY(take_time(p, &seconds[k]));
    }
    *latency = fmax(0, median(seconds) / SMALL_COUNT - (double)SMALL_BYTES / rate);
    return NEAP_OK;
}

/* ---- Kernels beside copies ---- */

static neap_status time_writes(probe *p, int count, const company *beside, double *seconds)
{
    NEAP_TRY(hold(p));
    NEAP_TRY(copies(p, RUN_OUT, beside->out ? 1 : 0));
    NEAP_TRY(copies(p, RUN_IN, beside->in ? 1 : 0));
    NEAP_TRY(record(p, BEGIN, CUDA_COMPUTE));
    NEAP_TRY(writes(p, count));
    NEAP_TRY(record(p, END, CUDA_COMPUTE));
    return take_time(p, seconds);
}

/* The number of kernels that take as long as `seconds`. */
static int writes_in(const probe *p, double seconds)
{
    return (int)fmin(fmax(1, ceil(seconds / fmax(p->write, 1e-9))), MOST_WRITES);
}

/* The mean over copies out and in. The kernels take half as long as a copy, so that they are never
   alone. */
static neap_status measure_slowdown(probe *p, const neap_link *link, double *slowdown)
{
    static const company alone = {.out = false}, out = {.out = true}, in = {.in = true};
    double seconds[3][TIMES];
    double copying = (double)p->bytes / fmax(link->out_bandwidth, link->in_bandwidth);
    int count = writes_in(p, copying / 2);
    for (int i = 0; i < TIMES; i++) {
        NEAP_TRY(time_writes(p, count, &alone, &seconds[0][i]));
        NEAP_TRY(time_writes(p, count, &out, &seconds[1][i]));
        NEAP_TRY(time_writes(p, count, &in, &seconds[2][i]));
    }
    double beside = (median(seconds[1]) + median(seconds[2])) / 2;
    *slowdown = fmax(0, beside / fmax(median(seconds[0]), 1e-9) - 1);
    return NEAP_OK;
}

/* ---- All of it ---- */

static neap_status prepare(probe *p)
{
    static const company alone = {.out = false};
    cuda_memory memory;
    double seconds[TIMES];
    NEAP_TRY(neap_cuda_measure_memory(p->driver, &memory, p->diag));
    p->bytes = memory.free / 64 / SMALL_BYTES * SMALL_BYTES;
    p->bytes = p->bytes > MOST_BYTES ? MOST_BYTES : p->bytes > 0 ? p->bytes : SMALL_BYTES;
    for (int i = 0; i < N_EVENTS; i++)
        NEAP_TRY(neap_cuda_event_create(p->driver, true, &p->events[i], p->diag));
    for (int i = 0; i < 2; i++) {
        NEAP_TRY(neap_cuda_alloc(p->driver, p->bytes, &p->device[i], p->diag));
        NEAP_TRY(neap_cuda_alloc_host(p->driver, p->bytes, &p->host[i], p->diag));
    }
    NEAP_TRY(neap_cuda_alloc(p->driver, p->bytes, &p->work, p->diag));
    for (int i = 0; i < TIMES; i++) /* the first compiles and loads the kernel, too */
        NEAP_TRY(time_writes(p, 1, &alone, &seconds[i]));
    p->write = median(seconds);
    return NEAP_OK;
}

static neap_status measure(probe *p, neap_link *link, neap_contention *contention)
{
    company beside = {.out = false};
    double latency;
    *link = (neap_link){.duplex = true};
    NEAP_TRY(measure_rate(p, RUN_OUT, &beside, &link->out_bandwidth)); /* how long copies take */
    beside.writes = writes_in(p, 2 * (double)p->bytes / link->out_bandwidth);
    NEAP_TRY(measure_rate(p, RUN_OUT, &beside, &link->out_bandwidth));
    NEAP_TRY(measure_rate(p, RUN_IN, &beside, &link->in_bandwidth));
    NEAP_TRY(measure_latency(p, RUN_OUT, link->out_bandwidth, &link->latency));
    NEAP_TRY(measure_latency(p, RUN_IN, link->in_bandwidth, &latency));
    link->latency = (link->latency + latency) / 2;
    if (!contention)
        return NEAP_OK;
    beside.out = beside.in = true;
    NEAP_TRY(measure_rate(p, RUN_OUT, &beside, &contention->out_bandwidth));
    NEAP_TRY(measure_rate(p, RUN_IN, &beside, &contention->in_bandwidth));
    contention->bandwidth = (double)p->bytes / fmax(p->write, 1e-9);
    return measure_slowdown(p, link, &contention->slowdown);
}

neap_status neap_cuda_measure_link(neap_backend *backend, neap_link *link,
                                   neap_contention *contention, neap_diag *diag)
{
    probe p = {.backend = backend,
               .driver = neap_cuda_driver_of(((cuda_backend *)backend)->platform),
               .diag = diag};
    neap_status status = prepare(&p);
    if (status == NEAP_OK)
        status = measure(&p, link, contention);
    neap_cuda_free(p.driver, p.work);
    for (int i = 0; i < N_EVENTS; i++)
        neap_cuda_event_destroy(p.driver, p.events[i]);
    for (int i = 0; i < 2; i++) {
        neap_cuda_free(p.driver, p.device[i]);
        neap_cuda_free_host(p.driver, p.host[i]);
    }
    return status;
}
