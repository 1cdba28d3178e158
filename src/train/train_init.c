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
static double bound_of(const neap_graph *graph, const train_parameter *p)
{
    const char *reader = reader_type(graph, p->value);
    bool transposed = strcmp(reader, "conv_transpose2d") == 0;
    double fan_in = 1;
    for (uint32_t d = 1; d < p->rank; d++)
        fan_in *= (double)p->shape[d];
    if (transposed) /* weight [C, channels, kh, kw]: every output reads C of them per position */
        fan_in = (double)p->shape[0];
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

void neap_train_init_parameter(const neap_graph *graph, uint64_t seed, const train_parameter *p)
{
    if (p->rank == 1) {
        float value = ends_with(p->name, "weight") ? 1 : 0;
        for (int64_t i = 0; i < p->count; i++)
            p->weights[i] = value;
        return;
    }
    double bound = bound_of(graph, p);
    uint64_t own = seed_of(seed, p->name);
    for (int64_t i = 0; i < p->count; i++)
        p->weights[i] = (float)(bound * (2 * (double)run_random_real(own, (uint64_t)i) - 1));
}
