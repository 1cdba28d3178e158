/*
 * What runs kernels of our own: a device through CUDA's driver (driver.h), or the processor
 * (emulation/emulation.h).
 *
 * Launches are queued on one stream in order; in the emulation they are done when the call returns.
 */
#ifndef NEAP_CUDA_PLATFORM_H
#define NEAP_CUDA_PLATFORM_H

#include <neap/allocator.h>
#include <neap/graph.h>
#include <neap/status.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct cuda_platform cuda_platform;
typedef struct cuda_function cuda_function; /* a kernel that can be launched */

typedef struct cuda_dims {
    uint32_t blocks;         /* in x */
    uint32_t blocks_y;       /* 0 is 1; at most 65,535 */
    uint32_t blocks_z;       /* 0 is 1; at most 65,535 */
    uint32_t threads;        /* of a block: a multiple of 32, at most 1,024 */
    uint32_t dynamic_shared; /* bytes */
} cuda_dims;

typedef struct cuda_platform_type {
    /* A kernel of kernels.def for elements of f32 or bf16; it lives as long as the platform. */
    neap_status (*find)(cuda_platform *platform, const char *kernel, neap_dtype type,
                        const cuda_function **function, neap_diag *diag);
    neap_status (*launch)(cuda_platform *platform, const cuda_function *function,
                          const cuda_dims *dims, const void *params, size_t bytes, neap_diag *diag);
    /* Before the calling thread calls libraries: makes the device its current one. */
    void (*enter)(cuda_platform *platform);
    void (*close)(cuda_platform *platform);
} cuda_platform_type;

/* Embedded at the start of an implementation. */
struct cuda_platform {
    const cuda_platform_type *type;
    neap_allocator *allocator;
    int multiprocessors;
    uint32_t shared_bytes; /* of a block, at most */
    int32_t *trouble; /* a cell on the device that a kernel sets to 1 if an index is out of range */
    bool immediate;   /* launches are done when the call returns: the emulation */
};

#endif
