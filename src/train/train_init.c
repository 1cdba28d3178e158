/*
 * The initial weights, drawn from the seed and the parameter's name.
 *
 * Scales of normalisations start at 1, those of residual blocks at 1e-6, biases at 0. Embeddings
 * and other tables are small; products preserve the variance of their inputs (He et al. 2015 before
 * a ReLU, LeCun et al. 1998 elsewhere). Running statistics start with mean 0 and variance 1.
 */
#include "base/half.h"
#include "base/hash.h"
#include "base/memory.h"
#include "graph/graph_internal.h"
#include "run/backend.h"
#include "train/trainer_internal.h"

#include <math.h>
#include <string.h>

static bool ends_with(const char *text, const char *end)
{
    size_t length = strlen(text), tail = strlen(end);
    return length >= tail && strcmp(text + length - tail, end) == 0;
}

/* The type of the first op that reads it. */
static const char *reader_type(const neap_graph *graph, uint32_t value)
{
    uint32_t count;
    const uint32_t *readers = neap_graph_readers(graph, value, &count);
    return count ? neap_graph_op(graph, readers[0])->type : "";
}

/* Half the width of the uniform distribution that the weights are drawn from. */
static double bound_of(const neap_graph *graph, uint32_t value)
{
    const neap_value *weights = neap_graph_value(graph, value);
    const char *reader = reader_type(graph, value);
    bool transposed = strcmp(reader, "conv_transpose2d") == 0;
    double fan_in = 1;
    for (uint32_t d = 1; d < weights->rank; d++)
        fan_in *= (double)weights->shape[d];
    if (transposed) /* weight [C, channels, kh, kw]: every output reads C of them per position */
        fan_in = (double)weights->shape[0];
    if (strcmp(reader, "conv2d") == 0)
        return sqrt(6 / fan_in);
    if (strcmp(reader, "linear") == 0 || transposed)
        return sqrt(3 / fan_in);
    return 0.035; /* a standard deviation of 0.02 */
}

static uint64_t seed_of(uint64_t seed, const char *name)
{
    return run_random(seed, neap_hash_bytes(NEAP_HASH_BEGIN, name, strlen(name)));
}

static void draw(const neap_graph *graph, uint64_t seed, uint32_t value, float *numbers,
                 int64_t count)
{
    const neap_value *v = neap_graph_value(graph, value);
    if (v->rank == 1) {
        float number = ends_with(v->name, "weight")        ? 1
                       : ends_with(v->name, "layer_scale") ? 1e-6f
                                                           : 0;
        for (int64_t i = 0; i < count; i++)
            numbers[i] = number;
        return;
    }
    double bound = bound_of(graph, value);
    uint64_t own = seed_of(seed, v->name);
    for (int64_t i = 0; i < count; i++)
        numbers[i] = (float)(bound * (2 * (double)run_random_real(own, (uint64_t)i) - 1));
}

static int64_t elements_of(const neap_value *value)
{
    int64_t elements = 1;
    for (uint32_t d = 0; d < value->rank; d++)
        elements *= value->shape[d];
    return elements;
}

/* From the source, where it has them. */
static neap_status ask_source(const neap_trainer *t, uint32_t value, float *numbers, int64_t count,
                              bool *found, neap_diag *diag)
{
    neap_train_source *source = t->options.source;
    *found = false;
    return source ? source->fill(source, neap_graph_value(t->graph, value)->name, NEAP_F32, numbers,
                                 count, found, diag)
                  : NEAP_OK;
}

neap_status neap_train_init_parameter(neap_trainer *t, const train_parameter *parameter,
                                      neap_diag *diag)
{
    int64_t count = elements_of(neap_graph_value(t->graph, parameter->value));
    float *numbers;
    bool found;
    neap_status status = NEAP_NEW(t->allocator, (size_t)count, &numbers, diag);
    if (status != NEAP_OK)
        return status;
    status = ask_source(t, parameter->value, numbers, count, &found, diag);
    if (status == NEAP_OK && !found)
        draw(t->graph, t->options.seed, parameter->value, numbers, count);
    if (status == NEAP_OK)
        status = neap_train_write_parameter(t, parameter, numbers, diag);
    NEAP_DELETE(t->allocator, (size_t)count, numbers);
    return status;
}

neap_status neap_train_init_statistic(neap_trainer *t, const train_statistic *statistic,
                                      neap_diag *diag)
{
    int64_t count = elements_of(neap_graph_value(t->graph, statistic->value));
    float *numbers;
    bool found;
    neap_status status = NEAP_NEW(t->allocator, (size_t)count, &numbers, diag);
    if (status != NEAP_OK)
        return status;
    status = ask_source(t, statistic->value, numbers, count, &found, diag);
    for (int64_t i = 0; i < count && status == NEAP_OK && !found; i++)
        numbers[i] = statistic->initial;
    if (status == NEAP_OK)
        status = neap_runner_write(t->runner, statistic->value, numbers, diag);
    NEAP_DELETE(t->allocator, (size_t)count, numbers);
    return status;
}

neap_status neap_train_write_rounded(neap_trainer *t, const train_parameter *parameter,
                                     const float *numbers, neap_diag *diag)
{
    const neap_value *v = neap_graph_value(t->graph, parameter->value);
    size_t count = (size_t)elements_of(v);
    uint16_t *rounded;
    neap_status status = NEAP_NEW(t->allocator, count, &rounded, diag);
    if (status != NEAP_OK)
        return status;
    for (size_t i = 0; i < count; i++)
        rounded[i] = v->dtype == NEAP_BF16 ? neap_to_bf16(numbers[i]) : neap_to_f16(numbers[i]);
    status = neap_runner_write(t->runner, parameter->value, rounded, diag);
    NEAP_DELETE(t->allocator, count, rounded);
    return status;
}

neap_status neap_train_write_parameter(neap_trainer *t, const train_parameter *parameter,
                                       const float *numbers, neap_diag *diag)
{
    if (parameter->master == NEAP_NONE)
        return neap_runner_write(t->runner, parameter->value, numbers, diag);
    neap_status status = neap_runner_write(t->runner, parameter->master, numbers, diag);
    return status == NEAP_OK ? neap_train_write_rounded(t, parameter, numbers, diag) : status;
}
