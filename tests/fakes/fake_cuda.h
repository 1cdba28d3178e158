/*
 * A stand-in for CUDA's driver, for tests on machines without a GPU: a library libcuda.so.1 whose
 * device memory is host memory and whose kernels are the emulation's.
 *
 * Work on streams is as late as it may be: nothing of it is done before somebody waits for it, and
 * then streams take turns in an order that changes from time to time. What lacks an event between
 * two streams, or reads host memory too early, therefore shows.
 */
#ifndef NEAP_TESTS_FAKE_CUDA_H
#define NEAP_TESTS_FAKE_CUDA_H

#include <stddef.h>
#include <stdint.h>

#define FAKE_CUDA_MEMORY ((size_t)256 << 20)

typedef struct fake_cuda_launch {
    const char *kernel;
    int bf16; /* the type of elements */
    unsigned blocks[3];
    unsigned threads;
    unsigned shared;
    const void *params;
} fake_cuda_launch;

/* What the test gives to the library. */
typedef struct fake_cuda_hooks {
    size_t (*params_bytes)(const char *kernel, int bf16); /* 0: there is no such kernel */
    int (*launch)(const fake_cuda_launch *launch);        /* 0, or an error of CUDA */
} fake_cuda_hooks;

/* What is in use; all 0 once everything is released. */
typedef struct fake_cuda_usage {
    size_t contexts, streams, events, modules, graphs, allocations, host_allocations, bytes;
} fake_cuda_usage;

/* Exported beside CUDA's functions; dlsym finds them. */
void neap_fake_cuda_set_hooks(const fake_cuda_hooks *hooks, uint64_t seed);
void neap_fake_cuda_usage(fake_cuda_usage *usage);
/* The next call of the function with this name, after so many others, fails with this error. */
void neap_fake_cuda_fail(const char *function, int error, int skips);

#endif
