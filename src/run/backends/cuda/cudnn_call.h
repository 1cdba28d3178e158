/* Calls of cuDNN's backend interface: descriptors that are created, filled in and finalized. */
#ifndef NEAP_CUDNN_CALL_H
#define NEAP_CUDNN_CALL_H

#include "run/backends/cuda/cudnn_constants.h"
#include "run/backends/cuda/libraries.h"

/* NEAP_UNSUPPORTED if cuDNN says so, else NEAP_INTERNAL; with what both of its texts say. */
neap_status neap_cudnn_fail(const cuda_api *api, int cudnn_status, const char *what,
                            neap_diag *diag);

/* Descriptors that live together, since they refer to each other. */
typedef struct cudnn_bag {
    cuda_libraries *libraries;
    cudnn_descriptor *items;
    size_t count, capacity;
    bool lacked_memory; /* a call for one of these failed for lack of memory */
} cudnn_bag;

void neap_cudnn_bag_init(cudnn_bag *bag, cuda_libraries *libraries);
/* Destroys descriptors, the latest first, until `count` are left. */
void neap_cudnn_bag_cut(cudnn_bag *bag, size_t count);
void neap_cudnn_bag_clear(cudnn_bag *bag);
/* Destroys one that nothing refers to. */
void neap_cudnn_bag_drop(cudnn_bag *bag, cudnn_descriptor descriptor);

neap_status neap_cudnn_new(cudnn_bag *bag, int type, cudnn_descriptor *descriptor, neap_diag *diag);
/* `what` is in the message of a failure. */
neap_status neap_cudnn_set(cudnn_bag *bag, cudnn_descriptor descriptor, int name, int type,
                           int64_t count, const void *elements, const char *what, neap_diag *diag);
neap_status neap_cudnn_finalize(cudnn_bag *bag, cudnn_descriptor descriptor, const char *what,
                                neap_diag *diag);
/* *count is how many there are, which may be more than requested. */
neap_status neap_cudnn_get(cudnn_bag *bag, cudnn_descriptor descriptor, int name, int type,
                           int64_t requested, int64_t *count, void *elements, const char *what,
                           neap_diag *diag);

/* One attribute of the type of a C variable. */
static inline neap_status cudnn_set_descriptor(cudnn_bag *bag, cudnn_descriptor descriptor,
                                               int name, cudnn_descriptor other, const char *what,
                                               neap_diag *diag)
{
    return neap_cudnn_set(bag, descriptor, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &other, what,
                          diag);
}

static inline neap_status cudnn_set_int64(cudnn_bag *bag, cudnn_descriptor descriptor, int name,
                                          int64_t number, const char *what, neap_diag *diag)
{
    return neap_cudnn_set(bag, descriptor, name, CUDNN_TYPE_INT64, 1, &number, what, diag);
}

/* Enumerators are ints. */
static inline neap_status cudnn_set_enum(cudnn_bag *bag, cudnn_descriptor descriptor, int name,
                                         int type, int enumerator, const char *what,
                                         neap_diag *diag)
{
    return neap_cudnn_set(bag, descriptor, name, type, 1, &enumerator, what, diag);
}

#endif
