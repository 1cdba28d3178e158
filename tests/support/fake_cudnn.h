/*
 * cuDNN in software, as far as neap calls it: descriptors with the attributes that neap sets,
 * heuristics that name made-up engines, and convolutions by loops. It fails the test where the
 * library would refuse or crash: attributes of another type or of what is finalized, descriptors
 * that are gone, tensors that do not fit together, a handle that the plan was not made with,
 * addresses that are not aligned, no workspace. Several threads may call it at once.
 */
#ifndef NEAP_TESTS_FAKE_CUDNN_H
#define NEAP_TESTS_FAKE_CUDNN_H

#include "run/backends/cuda/libraries.h"

/* Engines by number. All but FAKE_FUSED take a convolution alone. */
enum {
    FAKE_DIRECT,    /* without workspace; only the fallback names it */
    FAKE_TILES,     /* named first; little workspace for each image */
    FAKE_LARGE,     /* named twice, with different settings; much workspace for each image */
    FAKE_RANDOM,    /* sums in any order */
    FAKE_HALF,      /* converts operands to f16 */
    FAKE_SHORT,     /* sums in less precision */
    FAKE_WINOGRAD,  /* named by none, like the next two */
    FAKE_OTHER,     /* another one */
    FAKE_SLOW,      /* would be compiled: neap must not make a plan */
    FAKE_COMPILED,  /* would be compiled; heuristic B names it */
    FAKE_FUSED,     /* for a convolution with bias and ReLU */
    FAKE_TENSOR,    /* on tensor cores */
    FAKE_ADDS,      /* only adds to what is there */
    FAKE_UNWILLING, /* named first, but its plan is refused */
    FAKE_ENGINES
};

/* Fills in the functions of cuDNN and a handle, and forgets earlier failures and counts. */
void fake_cudnn_init(cuda_api *api, cuda_libraries *libraries);
/* Destroys the handle. */
void fake_cudnn_clear(cuda_libraries *libraries);
/* Descriptors and handles that have not been destroyed. */
int fake_cudnn_alive(void);
/* Plans so far, and convolutions that were carried out. */
int fake_cudnn_plans(void);
int fake_cudnn_runs(void);
/* The n-th call from now on that can fail does, with this status; 0: none does. */
void fake_cudnn_fail_at(int n, int status);
/* Whether it has come to that. */
bool fake_cudnn_has_failed(void);

#endif
