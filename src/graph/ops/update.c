/*
 * Steps of optimizers: sgd, momentum, adam, adamw; the scale that clips gradients by their norm;
 * and the running statistics of batch normalisations.
 *
 * They are no layers: updates.c adds them to a training graph. An update overwrites its
 * parameter and its state. `step` holds what changes from step to step: the learning rate, the
 * number of the step from 1, and whether the gradient is complete (1) or micro-batches follow (0).
 *
 *     scale    multiplies the gradient first
 *     master   the parameter in f32: it is updated, and w is a rounded copy of it
 *     sum      of the gradients of the micro-batches so far, which dw includes already: with the
 *              last of them the parameter is updated and the sum becomes zero; before it, dw is
 *              kept in the sum and nothing else changes
 *
 * Running statistics advance with every run of the graph, that is, once for each micro-batch. They
 * become momentum times the old ones plus (1 - momentum) times those of the batch, whose variance
 * is 1 / invstd^2 - epsilon: that of the population, not divided by n - 1. Layers that share them
 * advance them one after another: `batch` is mean and invstd of each.
 */
#include "graph/network_internal.h"

#define OPTIONAL " scale?clip[1] master!?master[*R] sum!?accumulate[*R] ->"
#define FLAGS    "weight_decay~ clip master accumulate"

/* With a master weight w is written but not read. */
static void count_update(const op_shapes *s, neap_op_count *count, int64_t flops, int64_t decay)
{
    int64_t elements = neap_count_elements(&s->inputs[0]);
    if (neap_op_attr_real(s->op, "weight_decay", 0) > 0)
        flops += decay;
    if (neap_op_attr_int(s->op, "clip", 0))
        flops++;
    count->flops = neap_count_mul(flops, elements);
    if (neap_op_attr_int(s->op, "master", 0) && count->bytes_moved < INT64_MAX)
        count->bytes_moved -= elements * neap_dtype_bytes(s->inputs[0].dtype);
}

static void count_sgd(const op_shapes *s, neap_op_count *count)
{
    count_update(s, count, 2, 2);
}

static void count_momentum(const op_shapes *s, neap_op_count *count)
{
    count_update(s, count, 4, 2);
}

static void count_adam(const op_shapes *s, neap_op_count *count)
{
    count_update(s, count, 13, 2);
}

static void count_adamw(const op_shapes *s, neap_op_count *count)
{
    count_update(s, count, 13, 1);
}

/* A square and a sum for each element. */
static void count_clip_norm(const op_shapes *s, neap_op_count *count)
{
    count->flops = neap_count_mul(2, s->in_elements);
}

/* For each pair: a mean 3; a variance 3, and 4 to get it from invstd. */
static void count_running_stats(const op_shapes *s, neap_op_count *count)
{
    int64_t pairs = (int64_t)(s->op->n_inputs / 2) - 1;
    count->flops = neap_count_mul(10 * pairs, neap_count_elements(&s->inputs[0]));
}

/* Means and inverse deviations come in pairs. */
static void running_stats_rule(op_fit *fit)
{
    if (neap_fit_inputs(fit) < 4 || neap_fit_inputs(fit) % 2)
        neap_fit_fail(fit, "reads %u values; it takes a mean and an invstd of each batch",
                      neap_fit_inputs(fit));
}

const op_def neap_op_sgd = {
    .type = "sgd", .form = "w![*R] dw[*R] step[3]" OPTIONAL, .attrs = FLAGS, .count = count_sgd};
const op_def neap_op_momentum = {.type = "momentum",
                                 .form = "w![*R] dw[*R] step[3] b![*R]" OPTIONAL,
                                 .attrs = "momentum~ " FLAGS,
                                 .count = count_momentum};
const op_def neap_op_adam = {.type = "adam",
                             .form = "w![*R] dw[*R] step[3] m![*R] v![*R]" OPTIONAL,
                             .attrs = "beta1% beta2% epsilon~ " FLAGS,
                             .count = count_adam};
const op_def neap_op_adamw = {.type = "adamw",
                              .form = "w![*R] dw[*R] step[3] m![*R] v![*R]" OPTIONAL,
                              .attrs = "beta1% beta2% epsilon~ " FLAGS,
                              .count = count_adamw};
const op_def neap_op_clip_norm = {.type = "clip_norm",
                                  .form = "dw... -> scale:f32[1]",
                                  .attrs = "norm~",
                                  .count = count_clip_norm};
const op_def neap_op_running_stats = {.type = "running_stats",
                                      .form = "mean![C] variance![C] batch...[C] ->",
                                      .attrs = "momentum~ epsilon~",
                                      .rule = running_stats_rule,
                                      .count = count_running_stats};
