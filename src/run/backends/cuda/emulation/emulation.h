/*
 * A device in software: kernels run on the processor, so that tests find wrong indices and missing
 * barriers with the sanitizers, without a GPU. Built with the tests only.
 *
 * Blocks run one after the other. The threads of a block without barriers are a loop; with barriers
 * each has a stack of its own, and they take turns. A barrier that some threads never reach is an
 * error, as is an exchange without all lanes of a warp.
 */
#ifndef NEAP_CUDA_EMULATION_H
#define NEAP_CUDA_EMULATION_H

#include "run/backends/cuda/platform.h"

typedef struct emulated_kernel {
    const char *name;
    void (*enter)(const void *params);
    bool sync;
    int bytes; /* of the parameters */
} emulated_kernel;

/* End with a kernel without a name. */
extern const emulated_kernel neap_emulated_kernels_f32[], neap_emulated_kernels_bf16[];

neap_status neap_cuda_emulation_open(neap_allocator *allocator, cuda_platform **platform,
                                     neap_diag *diag);

#endif
