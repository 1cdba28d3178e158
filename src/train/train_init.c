/*
 * The initial weights, drawn from the seed and the parameter's name.
 *
 * Scales of normalisations start at 1, biases at 0. Embeddings and other tables are small; products
 * preserve the variance of their inputs (He et al. 2015 before a ReLU, LeCun et al. 1998
 * elsewhere).
 */
#include "base/hash.h"
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
static double bound_of(const neap_graph *graph, uint32_t value, const neap_array *weights)
{
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

void neap_train_init_parameter(const neap_graph *graph, uint64_t seed, uint32_t value,
                               const neap_array *weights)
{
    const char *name = neap_graph_value(graph, value)->name;
    float *numbers = weights->data;
    if (weights->rank == 1) {
        float number = ends_with(name, "weight") ? 1 : 0;
        for (int64_t i = 0; i < weights->elements; i++)
            numbers[i] = number;
        return;
    }
    double bound = bound_of(graph, value, weights);
    uint64_t own = seed_of(seed, name);
    for (int64_t i = 0; i < weights->elements; i++)
        numbers[i] = (float)(bound * (2 * (double)run_random_real(own, (uint64_t)i) - 1));
}
