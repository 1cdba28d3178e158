/*
 * Convolutions by cuDNN: every algorithm that it has for a problem, in an order that is always the
 * same.
 *
 * First come those that its heuristics recommend, the recommended ones first; then its other
 * engines, in the order of their numbers; then the batch cut in parts that are done one after the
 * other, which need less workspace. Algorithms that do not keep the promises of the backend
 * (deterministic sums, products of f32) are left out.
 *
 * Lists are slow to make, so that they are kept until the libraries are closed.
 */
#ifndef NEAP_CUDNN_CONV_H
#define NEAP_CUDNN_CONV_H

#include "run/backends/cuda/conv.h"
#include "run/backends/cuda/cudnn_call.h"

#define CUDNN_MOST_KNOBS 44
#define CUDNN_MOST_PARTS 16

/* An engine of cuDNN with its settings. */
typedef struct cudnn_engine {
    int64_t index;
    int64_t n_knobs;
    int knob_types[CUDNN_MOST_KNOBS];
    int64_t knob_values[CUDNN_MOST_KNOBS];
    uint32_t notes, behaviour; /* bits, by number of the note */
} cudnn_engine;

typedef struct cudnn_candidate {
    cudnn_engine engine;
    cudnn_descriptor plan;      /* of the first part */
    cudnn_descriptor next_plan; /* of the others */
    int64_t workspace;
    int64_t parts;
    bool fused;         /* with bias and ReLU */
    const char *origin; /* "A", "B", "fallback", or "engine" for those that no heuristic named */
    double build_seconds;
} cudnn_candidate;

struct cudnn_conv_list {
    cudnn_conv_list *next;
    char *sign; /* of the spec */
    size_t sign_bytes;
    cudnn_candidate *items;
    size_t count, capacity;
    cudnn_bag bag;
    char problem[NEAP_DIAG_CAPACITY]; /* what cuDNN said of the first that did not work */
};

/* The list of a spec, made at the first call. Empty without cuDNN. */
neap_status neap_cudnn_conv_list(cuda_backend *backend, const run_spec *spec,
                                 const conv_problem *problem, const cudnn_conv_list **list,
                                 neap_diag *diag);
void neap_cudnn_conv_clear(cuda_libraries *libraries);

/* ---- Running ---- */

typedef struct cudnn_conv_run cudnn_conv_run;

/* What `run` needs of the op's workspace. */
int64_t neap_cudnn_conv_workspace(const cudnn_candidate *candidate);
neap_status neap_cudnn_conv_prepare(cuda_backend *backend, const conv_problem *problem,
                                    const cudnn_candidate *candidate, cudnn_conv_run **run,
                                    neap_diag *diag);
void neap_cudnn_conv_delete(cudnn_conv_run *run);
/* Whether all addresses are aligned as cuDNN was told. */
bool neap_cudnn_conv_takes(const cudnn_conv_run *run, const run_args *args);
neap_status neap_cudnn_conv_run(cudnn_conv_run *run, const run_args *args, neap_diag *diag);

#endif
