/*
 * The arithmetic of updates, of running statistics and of clip_norm, for the kernels of all
 * backends: every backend gives the same bits, those of neap/optimizer.h for updates, however many
 * threads share the elements.
 *
 * Operands may be of any floating type and strides. Blocks that are not f32 without gaps are copied
 * in and out.
 */
#ifndef NEAP_RUN_UPDATE_H
#define NEAP_RUN_UPDATE_H

#include "run/backend.h"

#include <neap/optimizer.h>

enum { RUN_UPDATE_OPERANDS = 8, RUN_UPDATE_BLOCK = 2048 };

/* An update op, read off its spec. */
typedef struct run_update {
    neap_optimizer optimizer;
    run_array arrays[RUN_UPDATE_OPERANDS];
    uint32_t moments[2], scale, master, sum; /* operands; 0: it has none */
    int64_t elements;
    neap_sgd sgd;
    neap_adam adam;
} run_update;

/* The spec is checked. */
void neap_run_update_plan(const run_spec *spec, run_update *update);
/* Updates the elements begin .. end - 1, in row-major order. */
void neap_run_update(const run_update *update, void *const *in, int64_t begin, int64_t end);

/* ---- Running statistics ---- */

typedef struct run_statistics {
    int64_t channels;
    double momentum, epsilon;
} run_statistics;

void neap_run_statistics_plan(const run_spec *spec, run_statistics *plan);
/* Operands: mean, variance, then mean and invstd of each of `pairs` batches, one after another.
   Advances channels begin .. end - 1, in f64, rounded to f32 after each batch. */
void neap_run_statistics(const run_statistics *plan, uint32_t pairs, const run_array *arrays,
                         void *const *in, int64_t begin, int64_t end);

/* ---- The norm of gradients ---- */

/* The sum of squares of elements begin .. end - 1, at most RUN_UPDATE_BLOCK of them: the same for
   all who add up the same blocks in the same order. */
double neap_run_squares(const run_array *array, const void *data, int64_t begin, int64_t end);
/* The factor for gradients with this sum of squares; torch.nn.utils.clip_grad_norm_. */
float neap_run_clip_scale(double squares, double most);

#endif
