/*
 * Engines of cuDNN. An engine with its settings is what a heuristic recommends, or what its number
 * stands for; with a graph it makes a configuration, and from that comes a plan, which runs.
 */
#ifndef NEAP_CUDNN_ENGINE_H
#define NEAP_CUDNN_ENGINE_H

#include "run/backends/cuda/cuda.h"
#include "run/backends/cuda/cudnn_call.h"

#define CUDNN_MOST_KNOBS   44
#define CUDNN_MOST_CONFIGS 64 /* that one heuristic names */

/* An engine of cuDNN with its settings. */
typedef struct cudnn_engine {
    int64_t index;
    int64_t n_knobs;
    int knob_types[CUDNN_MOST_KNOBS];
    int64_t knob_values[CUDNN_MOST_KNOBS];
    uint32_t notes, behaviour; /* bits, by number of the note */
} cudnn_engine;

/* The engine of a configuration. */
neap_status neap_cudnn_engine_describe(cudnn_bag *bag, cudnn_descriptor config,
                                       cudnn_engine *engine, neap_diag *diag);
bool neap_cudnn_engine_equal(const cudnn_engine *a, const cudnn_engine *b);
/* Whether cuDNN compiles it first, which takes long. */
bool neap_cudnn_engine_is_compiled(const cudnn_engine *engine);
/* Whether the engine keeps what the backend promises: deterministic sums in f32, and products of
   numbers of the op's type, in f32 or rounded to tf32. `filter` is its longer side. */
bool neap_cudnn_engine_is_allowed(const cuda_backend *backend, neap_dtype type, int64_t filter,
                                  const cudnn_engine *engine);

/* The configurations that a heuristic names, at most CUDNN_MOST_CONFIGS. */
neap_status neap_cudnn_ask_heuristic(cudnn_bag *bag, cudnn_descriptor graph, int mode,
                                     cudnn_descriptor configs[CUDNN_MOST_CONFIGS], int64_t *count,
                                     neap_diag *diag);
/* An engine by its number, with its own settings if `engine` has none. */
neap_status neap_cudnn_configure(cudnn_bag *bag, cudnn_descriptor graph, const cudnn_engine *engine,
                                 cudnn_descriptor *config, neap_diag *diag);
neap_status neap_cudnn_make_plan(cudnn_bag *bag, cudnn_descriptor config, cudnn_descriptor *plan,
                                 int64_t *workspace, neap_diag *diag);

#endif
