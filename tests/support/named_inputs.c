#include "named_inputs.h"

#include "run/backend.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>

static uint64_t fnv1a(const char *text, const char *more)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (; *text; text++)
        hash = (hash ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
    for (; *more; more++)
        hash = (hash ^ (unsigned char)*more) * UINT64_C(0x100000001b3);
    return hash;
}

static bool ends_with(const char *text, const char *end)
{
    size_t length = strlen(text), tail = strlen(end);
    return length >= tail && strcmp(text + length - tail, end) == 0;
}

/* Rows of the table that ids look up, or classes that labels name: the first reader says. */
static uint64_t integer_limit(const neap_graph *graph, uint32_t value)
{
    uint32_t count;
    const uint32_t *readers = neap_graph_readers(graph, value, &count);
    for (uint32_t i = 0; i < count; i++) {
        const neap_op *op = neap_graph_op(graph, readers[i]);
        if (strcmp(op->type, "embedding") == 0)
            return (uint64_t)neap_graph_value(graph, op->inputs[1])->shape[0];
        if (strcmp(op->type, "xent") == 0 || strcmp(op->type, "nll") == 0)
            return (uint64_t)neap_graph_value(graph, op->inputs[0])->shape[1];
    }
    fail_msg("no reader says how large \"%s\" may be", neap_graph_value(graph, value)->name);
    return 1;
}

named_input named_input_of(const neap_graph *graph, uint32_t value)
{
    const neap_value *v = neap_graph_value(graph, value);
    named_input input = {.key = fnv1a(v->name, ""), .factor = 2};
    if (v->dtype == NEAP_I64 || v->dtype == NEAP_I32) {
        input.limit = integer_limit(graph, value);
    } else if (strcmp(v->kind, NEAP_KIND_PARAMETER) == 0 && v->rank == 1) {
        input.factor = 0.2;
        input.offset = ends_with(v->name, "weight");
    } else if (strcmp(v->kind, NEAP_KIND_PARAMETER) == 0) {
        int64_t fan_in = 1;
        for (uint32_t d = 1; d < v->rank; d++)
            fan_in *= v->shape[d];
        input.factor = sqrt(24 / (double)fan_in);
    } else if (ends_with(v->name, ".grad")) { /* of the loss */
        input.factor = 0;
        input.offset = 1;
    }
    return input;
}

double named_input_at(const named_input *input, int64_t i)
{
    if (input->limit)
        return (double)(run_random(input->key, (uint64_t)i) % input->limit);
    double draw = (double)run_random_real(input->key, (uint64_t)i) - 0.5;
    return (double)(float)(input->factor * draw + input->offset);
}

void named_input_fill(const neap_graph *graph, uint32_t value, void *elements)
{
    const neap_value *v = neap_graph_value(graph, value);
    named_input input = named_input_of(graph, value);
    int64_t count = 1;
    for (uint32_t d = 0; d < v->rank; d++)
        count *= v->shape[d];
    for (int64_t i = 0; i < count; i++) {
        double number = named_input_at(&input, i);
        if (v->dtype == NEAP_I64)
            ((int64_t *)elements)[i] = (int64_t)number;
        else if (v->dtype == NEAP_I32)
            ((int32_t *)elements)[i] = (int32_t)number;
        else
            ((float *)elements)[i] = (float)number;
    }
}

double named_weight(const char *parameter, int64_t i)
{
    return (double)run_random_real(fnv1a(parameter, ".projection"), (uint64_t)i) - 0.5;
}
