/* Kernels of any backend on arrays in host memory. */
#ifndef NEAP_TESTS_DEVICE_RUN_H
#define NEAP_TESTS_DEVICE_RUN_H

#include "run/backend.h"

/* Host memory that a kernel may touch. */
typedef struct device_piece {
    void *host;
    size_t bytes;
} device_piece;

/*
 * kernel->run, which has ended when the call returns. If the backend is on a device, the pieces are
 * copied there and back, and the addresses in `args` are those of the copies, as well or badly
 * aligned as in host memory.
 */
neap_status run_with_pieces(neap_backend *backend, const run_kernel *kernel, const run_args *args,
                            uint32_t n_inputs, uint32_t n_outputs, const device_piece *pieces,
                            size_t n_pieces, neap_diag *diag);

#endif
