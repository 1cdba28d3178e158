/*
 * A device through CUDA's driver: the platform that runs our kernels on it, and beside it what an
 * executor needs: memory, copies, streams, events, recorded graphs.
 *
 * There are three streams, none of which waits for the others by itself: all computation is on
 * CUDA_COMPUTE, copies to the host on CUDA_OUT, copies to the device on CUDA_IN. Calls that take a
 * stream only queue their work. An error of the work shows up in a later call, mostly in one that
 * waits; its message names the kernel that was launched last. After such an error the device is of
 * no more use to the process, and closing is all that is left.
 *
 * Calls may come from any thread, one at a time. They make the device's primary context the current
 * one of the thread, as CUDA's own runtime does.
 */
#ifndef NEAP_CUDA_DRIVER_H
#define NEAP_CUDA_DRIVER_H

#include "run/backends/cuda/api.h"
#include "run/backends/cuda/platform.h"

typedef struct cuda_driver cuda_driver;

typedef enum cuda_stream { CUDA_COMPUTE, CUDA_OUT, CUDA_IN, CUDA_N_STREAMS } cuda_stream;

typedef struct cuda_device {
    int ordinal;
    char name[128];
    int architecture; /* 90: compute capability 9.0 */
    int multiprocessors;
    int shared_bytes; /* of a block, at most */
    int64_t memory;   /* bytes */
    int64_t l2;       /* bytes of cache */
} cuda_device;

/* ---- The device ---- */

/* NEAP_UNSUPPORTED if there is no driver or no GPU, or it is too old. */
neap_status neap_cuda_count_devices(const cuda_api *api, int *count, neap_diag *diag);
/* What is known without using it. NEAP_INVALID if there are fewer devices. */
neap_status neap_cuda_describe_device(const cuda_api *api, int ordinal, cuda_device *device,
                                      neap_diag *diag);
/* `api` must outlive the driver. */
neap_status neap_cuda_driver_open(neap_allocator *allocator, const cuda_api *api, int ordinal,
                                  cuda_driver **driver, neap_diag *diag);
/* Waits for what is queued, then releases everything but memory, events and graphs. */
void neap_cuda_driver_close(cuda_driver *driver); /* may be NULL */
/* Closing the platform closes the driver. */
cuda_platform *neap_cuda_platform(cuda_driver *driver);
/* NULL for a platform that is not a driver's. */
cuda_driver *neap_cuda_driver_of(cuda_platform *platform);
const cuda_device *neap_cuda_device(const cuda_driver *driver);
/* Makes the device's context the current one of the thread, for threads that call libraries. */
void neap_cuda_enter(const cuda_driver *driver);
/* For the libraries' handles. */
cu_stream neap_cuda_stream(const cuda_driver *driver, cuda_stream stream);
/* Compiles every source of kernels for a type that is not compiled yet, on `threads` threads; 0:
   one per processor. Otherwise the first use of a kernel compiles its source. */
neap_status neap_cuda_compile_all(cuda_driver *driver, neap_dtype type, int threads,
                                  neap_diag *diag);

/* ---- Memory ---- */

/* NEAP_NO_MEMORY, with what was asked for and what is free. 0 bytes give NULL. Addresses are
   multiples of 256. */
neap_status neap_cuda_alloc(cuda_driver *driver, int64_t bytes, void **memory, neap_diag *diag);
/* Waits for all work on the device; so do the other calls that release memory. */
void neap_cuda_free(cuda_driver *driver, void *memory); /* may be NULL */
/* Host memory that the device reads and writes at full speed, without a copy in between. */
neap_status neap_cuda_alloc_host(cuda_driver *driver, int64_t bytes, void **memory,
                                 neap_diag *diag);
void neap_cuda_free_host(cuda_driver *driver, void *memory); /* may be NULL */
/* The same for memory that is there already. */
neap_status neap_cuda_pin(cuda_driver *driver, void *memory, int64_t bytes, neap_diag *diag);
void neap_cuda_unpin(cuda_driver *driver, void *memory);

typedef struct cuda_memory {
    int64_t free, total; /* of the device, whoever uses it */
    int64_t used;        /* more than when the driver was opened: by this process if it is alone */
    int64_t context;     /* taken by opening the driver; -1: unknown, for lack of NVML */
} cuda_memory;

neap_status neap_cuda_measure_memory(cuda_driver *driver, cuda_memory *memory, neap_diag *diag);

/* ---- Work on streams: it is queued, and done in the stream's order ---- */

neap_status neap_cuda_fill(cuda_driver *driver, void *memory, unsigned char byte, int64_t bytes,
                           cuda_stream stream, neap_diag *diag);
/* From host memory that is not pinned, the call may wait for the copy. */
neap_status neap_cuda_copy_in(cuda_driver *driver, void *device, const void *host, int64_t bytes,
                              cuda_stream stream, neap_diag *diag);
neap_status neap_cuda_copy_out(cuda_driver *driver, void *host, const void *device, int64_t bytes,
                               cuda_stream stream, neap_diag *diag);
neap_status neap_cuda_copy_within(cuda_driver *driver, void *to, const void *from, int64_t bytes,
                                  cuda_stream stream, neap_diag *diag);
/* Waits on the device, so that what is queued meanwhile begins without pauses; tests find missing
   synchronization so, too. */
neap_status neap_cuda_delay(cuda_driver *driver, int64_t nanoseconds, cuda_stream stream,
                            neap_diag *diag);
/* The same copies after everything on CUDA_COMPUTE, done when the call returns. */
neap_status neap_cuda_write(cuda_driver *driver, void *device, const void *host, int64_t bytes,
                            neap_diag *diag);
neap_status neap_cuda_read(cuda_driver *driver, void *host, const void *device, int64_t bytes,
                           neap_diag *diag);
/* Until all work on the stream is done. */
neap_status neap_cuda_synchronize(cuda_driver *driver, cuda_stream stream, neap_diag *diag);
neap_status neap_cuda_synchronize_all(cuda_driver *driver, neap_diag *diag);
/* Waits for CUDA_COMPUTE; whether a kernel has found an index out of range since the last call. */
neap_status neap_cuda_take_trouble(cuda_driver *driver, bool *found, neap_diag *diag);

/* ---- Events ---- */

neap_status neap_cuda_event_create(cuda_driver *driver, bool timing, cu_event *event,
                                   neap_diag *diag);
void neap_cuda_event_destroy(cuda_driver *driver, cu_event event); /* may be NULL */
/* The event is done once all work that is on the stream now is done. */
neap_status neap_cuda_record(cuda_driver *driver, cu_event event, cuda_stream stream,
                             neap_diag *diag);
/* Later work on the stream waits for the event's latest record. */
neap_status neap_cuda_wait(cuda_driver *driver, cuda_stream stream, cu_event event,
                           neap_diag *diag);
neap_status neap_cuda_event_synchronize(cuda_driver *driver, cu_event event, neap_diag *diag);
neap_status neap_cuda_event_done(cuda_driver *driver, cu_event event, bool *done, neap_diag *diag);
/* Between two events with timing that are done. */
neap_status neap_cuda_elapsed(cuda_driver *driver, cu_event from, cu_event to, double *seconds,
                              neap_diag *diag);

/* ---- Recording: work that is queued many times with one call ---- */

/*
 * From here on, work on CUDA_COMPUTE is recorded instead of done, and so is work on another stream
 * once that has waited for an event recorded on CUDA_COMPUTE. Before the end CUDA_COMPUTE must wait
 * for an event recorded on each such stream. Nothing may wait for the device meanwhile, nor
 * allocate on it.
 */
neap_status neap_cuda_capture_begin(cuda_driver *driver, neap_diag *diag);
/* *graph is NULL if there was no work. */
neap_status neap_cuda_capture_end(cuda_driver *driver, cu_graph_exec *graph, neap_diag *diag);
/* Ends it after an error. */
void neap_cuda_capture_abandon(cuda_driver *driver);
/* Queues the recorded work on CUDA_COMPUTE. */
neap_status neap_cuda_graph_launch(cuda_driver *driver, cu_graph_exec graph, neap_diag *diag);
void neap_cuda_graph_destroy(cuda_driver *driver, cu_graph_exec graph); /* may be NULL */

#endif
