/*
 * Convolutions by cuDNN: every algorithm that it has for a problem, in an order that is always the
 * same.
 *
 * First come those that its heuristics recommend, the recommended ones first; then its other
 * engines, except those that it would have to compile, in the order of their numbers; then the
 * batch cut in parts that are done one after the other, which need less workspace. Algorithms that
 * do not keep the promises of the backend (deterministic sums, products of f32) are left out.
 *
 * A list takes seconds to make, because only a plan tells whether an algorithm works and what
 * workspace it needs, and cuDNN compiles code for some. So lists are made on all processors at once
 * where a graph's ops are announced, they are kept in files beside compiled kernels
 * (cudnn_list_file.c) unless memory was short, and an algorithm of a list from a file gets its plan
 * when it is prepared.
 */
#ifndef NEAP_CUDNN_CONV_H
#define NEAP_CUDNN_CONV_H

#include "run/backends/cuda/conv.h"
#include "run/backends/cuda/cudnn_engine.h"

#define CUDNN_MOST_PARTS 16

typedef struct cudnn_candidate {
    cudnn_engine engine;
    cudnn_engine first; /* of the first of several parts of a sum, which does not add */
    int64_t workspace;
    int64_t parts;
    bool fused; /* with bias and ReLU */
    /* 'A', 'B' or 'F': recommended by heuristic A, B or fallback; 'E': by none */
    char origin;
    double build_seconds;
    cudnn_descriptor plan;      /* of the first part; NULL: not made yet */
    cudnn_descriptor next_plan; /* of the others */
} cudnn_candidate;

struct cudnn_conv_list {
    cudnn_conv_list *next;
    char *sign; /* of the spec */
    size_t sign_bytes;
    conv_problem problem;
    bool made; /* it has all algorithms */
    cudnn_candidate *items;
    size_t count, capacity;
    cudnn_bag bag;
    char trouble[NEAP_DIAG_CAPACITY]; /* what cuDNN said of the first that did not work */
};

/* Lists that are not known are made by the next neap_cudnn_conv_make_lists, on all processors. */
neap_status neap_cudnn_conv_announce(cuda_backend *backend, const run_spec *spec,
                                     const conv_problem *problem, neap_diag *diag);
neap_status neap_cudnn_conv_make_lists(cuda_backend *backend, neap_progress *progress,
                                       neap_diag *diag);
/* The list of a spec, made now if it has not been. Empty without cuDNN. */
neap_status neap_cudnn_conv_list(cuda_backend *backend, const run_spec *spec,
                                 const conv_problem *problem, cudnn_conv_list **list,
                                 neap_diag *diag);
void neap_cudnn_conv_clear(cuda_libraries *libraries);

/* Adds all algorithms to an empty list, with their plans; fewer if it is cancelled. */
neap_status neap_cudnn_conv_search(cuda_backend *backend, const conv_problem *problem,
                                   neap_progress *progress, cudnn_conv_list *list, neap_diag *diag);

/* ---- Files of lists ---- */

/* Whether the list was in a file. Fails only for lack of memory. */
neap_status neap_cudnn_list_read(const cuda_backend *backend, cudnn_conv_list *list, bool *found,
                                 neap_diag *diag);
/* A list that cannot be written is made again next time: that is no error. */
void neap_cudnn_list_write(const cuda_backend *backend, const cudnn_conv_list *list);

/* ---- Running ---- */

typedef struct cudnn_conv_run cudnn_conv_run;

/* What `run` needs of the op's workspace. */
int64_t neap_cudnn_conv_workspace(const cudnn_candidate *candidate);
/* Number `k` of a list. */
neap_status neap_cudnn_conv_prepare(cudnn_conv_list *list, uint32_t k, cudnn_conv_run **run,
                                    neap_diag *diag);
void neap_cudnn_conv_delete(cudnn_conv_run *run);
/* Whether all addresses are aligned as cuDNN was told. */
bool neap_cudnn_conv_takes(const cudnn_conv_run *run, const run_args *args);
neap_status neap_cudnn_conv_run(cudnn_conv_run *run, const run_args *args, neap_diag *diag);

#endif
