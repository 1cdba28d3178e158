/* What the files of the driver share. */
#ifndef NEAP_CUDA_DRIVER_INTERNAL_H
#define NEAP_CUDA_DRIVER_INTERNAL_H

#include "run/backends/cuda/code.h"
#include "run/backends/cuda/driver.h"

#include <stdarg.h>

/* Of CUresult, CUdevice_attribute, CUfunction_attribute and flags, by their names there. */
enum {
    CU_ERROR_OUT_OF_MEMORY = 2,
    CU_ERROR_NOT_READY = 600,
    CU_MULTIPROCESSOR_COUNT = 16,
    CU_L2_CACHE_SIZE = 38,
    CU_COMPUTE_CAPABILITY_MAJOR = 75,
    CU_COMPUTE_CAPABILITY_MINOR = 76,
    CU_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN = 97,
    CU_FUNC_SHARED_SIZE_BYTES = 1,
    CU_FUNC_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8,
    CU_STREAM_NON_BLOCKING = 1,
    CU_STREAM_CAPTURE_THREAD_LOCAL = 1,
    CU_EVENT_DISABLE_TIMING = 2,
};

struct cuda_function {
    cu_function handle;
    const char *name;
};

enum { CUDA_N_TYPES = 2 }; /* of elements: f32 and bf16 */

struct cuda_driver {
    cuda_platform base;
    const cuda_api *api;
    cuda_device device;
    int handle;         /* CUdevice */
    cu_context context; /* the primary one; NULL: not retained */
    cu_stream streams[CUDA_N_STREAMS];
    int64_t free_at_open;
    int64_t context_bytes;                           /* cuda_memory.context */
    cu_module modules[CUDA_N_KERNELS][CUDA_N_TYPES]; /* at the first kernel of a source */
    cuda_function functions[CUDA_N_KERNELS][CUDA_N_TYPES];
    const char *last_kernel; /* that was launched, for messages; or NULL */
};

/* NEAP_OK for result 0; otherwise "<what>: <name of the error> (<its meaning>)", in the status
   `otherwise` unless memory is exhausted. */
neap_status neap_cuda_check(const cuda_api *api, int result, neap_status otherwise, neap_diag *diag,
                            const char *what, ...) NEAP_PRINTF(5, 6);
/* The same for a call that may report an error of earlier work. */
neap_status neap_cuda_check_work(const cuda_driver *driver, int result, neap_diag *diag,
                                 const char *what);
neap_status neap_cuda_launch_on(cuda_driver *driver, const cuda_function *function,
                                const cuda_dims *dims, const void *params, cuda_stream stream,
                                neap_diag *diag);

#endif
