/* Trains, and hashes all that comes out. */
#include "small_training.h"

#include "run/backend.h"

#include <neap/split.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RATE     0.02f
#define MOMENTUM 0.9f
#define SEED     UINT64_C(20240229)

/* ---- Data and weights ---- */

static float centred(uint64_t seed, uint64_t index)
{
    return 2 * run_random_real(seed, index) - 1;
}

static bool is_parameter(const neap_graph *graph, uint32_t value)
{
    return strcmp(neap_graph_value(graph, value)->kind, NEAP_KIND_PARAMETER) == 0;
}

/* Ids and labels are below this: rows of the table they look up, or classes. */
static int64_t limit_of(const neap_graph *graph, uint32_t value)
{
    uint32_t count;
    const uint32_t *readers = neap_graph_readers(graph, value, &count);
    if (count == 0)
        return 1;
    const neap_op *op = neap_graph_op(graph, readers[0]);
    if (strncmp(op->type, "embedding", 9) == 0)
        return neap_graph_value(graph, op->inputs[1])->shape[0];
    return neap_graph_value(graph, op->inputs[0])->shape[1]; /* of logits N x K x ... */
}

static bool ends_with(const char *text, const char *end)
{
    size_t length = strlen(text), tail = strlen(end);
    return length >= tail && strcmp(text + length - tail, end) == 0;
}

static uint32_t find_step_input(const neap_graph *graph)
{
    for (uint32_t v = 0; v < neap_graph_value_count(graph); v++)
        if (strcmp(neap_graph_value(graph, v)->name, NEAP_STEP_INPUT) == 0)
            return v;
    return NEAP_NONE;
}

/* Weights that keep the size of what goes through; data between -1 and 1. */
static float number_for(const neap_graph *graph, uint32_t value, int64_t elements, int64_t index)
{
    const neap_value *v = neap_graph_value(graph, value);
    float random = centred(SEED + value, (uint64_t)index);
    if (ends_with(v->name, ".grad"))
        return 1; /* of the loss */
    if (strcmp(v->kind, NEAP_KIND_STATE) == 0)
        return 0;
    if (!is_parameter(graph, value))
        return random;
    if (v->rank == 1)
        return (ends_with(v->name, "weight") ? 1.0f : 0.0f) + 0.1f * random;
    return random * sqrtf(3.0f * (float)v->shape[0] / (float)elements);
}

static int64_t elements_of(const neap_value *value)
{
    int64_t elements = 1;
    for (uint32_t d = 0; d < value->rank; d++)
        elements *= value->shape[d];
    return elements;
}

static neap_status fill_one(neap_runner *runner, const neap_graph *graph, uint32_t value,
                            neap_diag *diag)
{
    const neap_value *v = neap_graph_value(graph, value);
    int64_t elements = elements_of(v);
    bool integers = v->dtype == NEAP_I64;
    void *numbers = malloc((size_t)elements * 8);
    if (!numbers)
        return NEAP_NO_MEMORY;
    for (int64_t i = 0; i < elements; i++)
        if (integers)
            ((int64_t *)numbers)[i] =
                (int64_t)(run_random(SEED + value, (uint64_t)i) % (uint64_t)limit_of(graph, value));
        else
            ((float *)numbers)[i] = number_for(graph, value, elements, i);
    neap_status status = neap_runner_write(runner, value, numbers, diag);
    free(numbers);
    return status;
}

neap_status small_training_fill(neap_runner *runner, const neap_graph *graph, neap_diag *diag)
{
    neap_status status = NEAP_OK;
    for (uint32_t v = 0; v < neap_graph_value_count(graph) && status == NEAP_OK; v++)
        if (neap_graph_value(graph, v)->producer == NEAP_NONE && v != find_step_input(graph))
            status = fill_one(runner, graph, v, diag);
    uint32_t step = find_step_input(graph);
    if (status == NEAP_OK && step != NEAP_NONE)
        status = neap_runner_write(runner, step, (double[]){(double)RATE, 1, 1}, diag);
    return status;
}

/* ---- Steps ---- */

typedef struct training {
    const neap_graph *graph;
    neap_runner *runner;
    const uint32_t *outputs; /* the loss, a gradient for each parameter in order */
    uint32_t n_outputs;
    float *speeds; /* of all parameters, one after another */
    neap_diag *diag;
} training;

static uint64_t hash_array(const neap_array *array)
{
    const unsigned char *bytes = array->data;
    size_t count = (size_t)array->elements * (size_t)neap_dtype_bytes(array->dtype);
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i + 4 <= count; i += 4) {
        uint32_t word;
        memcpy(&word, bytes + i, 4);
        hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
        hash ^= hash >> 32;
    }
    return hash;
}

static uint32_t next_parameter(const neap_graph *graph, uint32_t from)
{
    while (!is_parameter(graph, from))
        from++;
    return from;
}

/* Updates parameter after parameter. Hashes: the loss, then gradient and weights of each. */
static neap_status update(training *t, training_record *record)
{
    uint64_t *hash = record->hashes + (size_t)record->steps * record->per_step;
    float *speed = t->speeds;
    neap_array weights, slopes;
    neap_status status = neap_runner_array(t->runner, t->outputs[0], &slopes, t->diag);
    if (status != NEAP_OK)
        return status;
    record->loss = (double)*(const float *)slopes.data;
    *hash++ = hash_array(&slopes);
    for (uint32_t i = 1, p = 0; i < t->n_outputs; i++, p++) {
        p = next_parameter(t->graph, p);
        status = neap_runner_array(t->runner, p, &weights, t->diag);
        if (status == NEAP_OK)
            status = neap_runner_array(t->runner, t->outputs[i], &slopes, t->diag);
        if (status != NEAP_OK)
            return status;
        float *w = weights.data;
        const float *g = slopes.data;
        for (int64_t k = 0; k < weights.elements; k++, speed++) {
            *speed = MOMENTUM * *speed + g[k];
            w[k] -= RATE * *speed;
        }
        status = neap_runner_commit(t->runner, p, t->diag);
        if (status != NEAP_OK)
            return status;
        *hash++ = hash_array(&slopes);
        *hash++ = hash_array(&weights);
    }
    return NEAP_OK;
}

/* The loss, then all state, after a step whose updates are in the graph. */
static neap_status hash_state(training *t, training_record *record)
{
    uint64_t *hash = record->hashes + (size_t)record->steps * record->per_step;
    neap_array array;
    neap_status status = neap_runner_array(t->runner, t->outputs[0], &array, t->diag);
    if (status != NEAP_OK)
        return status;
    record->loss = (double)*(const float *)array.data;
    *hash++ = hash_array(&array);
    for (uint32_t v = 0; v < neap_graph_value_count(t->graph) && status == NEAP_OK; v++) {
        if (!neap_graph_value(t->graph, v)->state)
            continue;
        status = neap_runner_array(t->runner, v, &array, t->diag);
        if (status == NEAP_OK)
            *hash++ = hash_array(&array);
    }
    return status;
}

static neap_status train(training *t, uint32_t steps, training_record *record)
{
    uint32_t input = find_step_input(t->graph);
    neap_status status = small_training_fill(t->runner, t->graph, t->diag);
    while (status == NEAP_OK && record->steps < steps) {
        neap_run_report report;
        if (input != NEAP_NONE)
            status = neap_runner_write(
                t->runner, input, (double[]){(double)RATE, (double)record->steps + 1, 1}, t->diag);
        if (status == NEAP_OK)
            status = neap_runner_step(t->runner, SEED + record->steps, &report, t->diag);
        if (status == NEAP_OK)
            status = input == NEAP_NONE ? update(t, record) : hash_state(t, record);
        if (status != NEAP_OK)
            return status;
        record->steps++;
        record->seconds += report.seconds;
        record->transferred += report.transferred;
    }
    return status;
}

neap_status small_training_run(const neap_graph *graph, const neap_plan *plan,
                               neap_backend *backend, const neap_run_options *options,
                               uint32_t steps, training_record *record, neap_diag *diag)
{
    training t = {.graph = neap_graph_whole(graph), .diag = diag};
    t.outputs = neap_graph_outputs(t.graph, &t.n_outputs);
    *record = (training_record){.per_step = 2 * t.n_outputs - 1};
    for (uint32_t v = 0; v < neap_graph_value_count(t.graph); v++)
        record->per_step += neap_graph_value(t.graph, v)->state;
    neap_status status = neap_runner_create(NULL, graph, plan, backend, options, &t.runner, diag);
    if (status != NEAP_OK)
        return status;
    record->arena_bytes = neap_runner_arena_bytes(t.runner);
    record->host_bytes = neap_runner_host_bytes(t.runner);
    record->hashes = calloc((size_t)steps * record->per_step, sizeof *record->hashes);
    t.speeds = calloc((size_t)neap_graph_parameter_count(graph) + 1, sizeof *t.speeds);
    status = record->hashes && t.speeds ? train(&t, steps, record) : NEAP_NO_MEMORY;
    free(t.speeds);
    neap_runner_destroy(t.runner);
    return status;
}

void training_record_clear(training_record *record)
{
    free(record->hashes);
    memset(record, 0, sizeof *record);
}

/* ---- Comparing ---- */

uint32_t training_record_compare(const training_record *a, const training_record *b)
{
    for (uint32_t i = 0; i < a->steps * a->per_step; i++)
        if (i >= b->steps * b->per_step || a->hashes[i] != b->hashes[i])
            return i;
    return UINT32_MAX;
}

void training_record_name(const neap_graph *graph, const training_record *record, uint32_t index,
                          char *text, size_t capacity)
{
    uint32_t step = index / record->per_step + 1, at = index % record->per_step, p = 0;
    if (at == 0) {
        snprintf(text, capacity, "step %u, the loss", (unsigned)step);
        return;
    }
    for (uint32_t v = 0, seen = 0; v < neap_graph_value_count(graph); v++)
        if (neap_graph_value(graph, v)->state && ++seen == at) {
            snprintf(text, capacity, "step %u, %s", (unsigned)step,
                     neap_graph_value(graph, v)->name);
            return;
        }
    for (uint32_t i = 0; i <= (at - 1) / 2; i++)
        p = next_parameter(graph, i ? p + 1 : 0);
    snprintf(text, capacity, "step %u, %s of %s", (unsigned)step,
             at % 2 ? "the gradient" : "the weights", neap_graph_value(graph, p)->name);
}
