/* doctor_step.c - one training step of a small network on a backend, compared with plain C. */

#include "doctor.h"

#include "memory.h"

#include <math.h>
#include <neap/network.h>
#include <neap/solve.h>
#include <string.h>

enum { CLASSES = 5 };

/* A convolution, a linear layer and a loss: images 4 x 3 x 12 x 12. */
static neap_status define(neap_graph **graph, neap_diag *diag)
{
    neap_network *net;
    neap_conv2d conv = {.channels = 8, .kernel_h = 3, .kernel_w = 3, .pad_h = 1, .pad_w = 1};
    *graph = NULL;
    neap_status status = neap_network_create(NULL, "doctor", NEAP_F32, &net, diag);
    if (status != NEAP_OK)
        return status;
    neap_tensor x = neap_net_input(net, "images", NEAP_F32, 4, (int64_t[]){4, 3, 12, 12});
    neap_tensor labels = neap_net_input(net, "labels", NEAP_I64, 1, (int64_t[]){4});
    x = neap_net_relu(net, "relu", neap_net_conv2d(net, "conv", x, &conv));
    x = neap_net_linear(net, "out", neap_net_flatten(net, "flat", x, 1), CLASSES, true);
    x = neap_net_cross_entropy(net, "loss", x, labels);
    neap_training training;
    neap_training_init(&training);
    status = neap_network_finish(net, x, &training, graph, diag);
    neap_network_destroy(net);
    return status;
}

/* Numbers from -0.5 to 0.5 that depend on the place only. */
static float number_at(uint32_t value, int64_t i)
{
    uint64_t mixed = ((uint64_t)value + 1) * 0x9E3779B97F4A7C15u + (uint64_t)i;
    mixed = (mixed ^ (mixed >> 31)) * 0xBF58476D1CE4E5B9u;
    return (float)((mixed >> 40) & 0xFFFF) / 65536.0f - 0.5f;
}

static neap_status fill_input(neap_runner *runner, const neap_graph *graph, uint32_t value,
                              neap_diag *diag)
{
    const neap_value *v = neap_graph_value(graph, value);
    int64_t count = v->bytes / neap_dtype_bytes(v->dtype);
    unsigned char *elements = cli_memory_new((size_t)v->bytes, 1);
    if (!elements)
        return diag->status = NEAP_NO_MEMORY;
    for (int64_t i = 0; i < count; i++) {
        const int64_t label = i % CLASSES;
        const float number = count == 1 ? 1 : number_at(value, i); /* the loss has gradient 1 */
        if (v->dtype == NEAP_I64)
            memcpy(elements + i * (int64_t)sizeof label, &label, sizeof label);
        else
            memcpy(elements + i * (int64_t)sizeof number, &number, sizeof number);
    }
    neap_status status = neap_runner_write(runner, value, elements, diag);
    cli_memory_release(elements, (size_t)v->bytes, 1);
    return status;
}

static int64_t output_elements(const neap_graph *graph)
{
    uint32_t count;
    int64_t elements = 0;
    const uint32_t *outputs = neap_graph_outputs(graph, &count);
    for (uint32_t i = 0; i < count; i++)
        elements += neap_graph_value(graph, outputs[i])->bytes / (int64_t)sizeof(float);
    return elements;
}

/* Fills all inputs, runs a step and reads all outputs, one after another. */
static neap_status run_once(neap_runner *runner, const neap_graph *graph, float *results,
                            neap_diag *diag)
{
    uint32_t count;
    const uint32_t *outputs = neap_graph_outputs(graph, &count);
    neap_status status = NEAP_OK;
    for (uint32_t v = 0; status == NEAP_OK && v < neap_graph_value_count(graph); v++)
        if (neap_graph_value(graph, v)->producer == NEAP_NONE)
            status = fill_input(runner, graph, v, diag);
    if (status == NEAP_OK)
        status = neap_runner_step(runner, 1, NULL, diag);
    for (uint32_t i = 0; status == NEAP_OK && i < count; i++) {
        status = neap_runner_read(runner, outputs[i], results, diag);
        results += neap_graph_value(graph, outputs[i])->bytes / (int64_t)sizeof(float);
    }
    return status;
}

/* The results of a step on an open backend. The caller releases them as *count floats. */
static neap_status train_step(neap_backend *backend, float **results, int64_t *count,
                              neap_diag *diag)
{
    neap_graph *graph = NULL;
    neap_plan *plan = NULL;
    neap_runner *runner = NULL;
    *results = NULL;
    neap_status status = define(&graph, diag);
    if (status == NEAP_OK)
        status = neap_backend_fit(backend, graph, diag);
    if (status == NEAP_OK)
        status = neap_natural_plan(NULL, graph, &plan, diag);
    if (status == NEAP_OK)
        status = neap_runner_create(NULL, graph, plan, backend, NULL, &runner, diag);
    if (status == NEAP_OK) {
        *count = output_elements(graph);
        *results = cli_memory_new((size_t)*count, sizeof **results);
        status =
            *results ? run_once(runner, graph, *results, diag) : (diag->status = NEAP_NO_MEMORY);
    }
    neap_runner_destroy(runner);
    neap_plan_destroy(plan);
    neap_graph_destroy(graph);
    return status;
}

static double compare(const float *a, const float *b, int64_t count)
{
    double largest = 1e-30, difference = 0;
    for (int64_t i = 0; i < count; i++) {
        double apart = fabs((double)a[i] - (double)b[i]);
        if (!(apart <= 1e30)) /* NaN or infinite */
            return HUGE_VAL;
        difference = apart > difference ? apart : difference;
        largest = fabs((double)b[i]) > largest ? fabs((double)b[i]) : largest;
    }
    return difference / largest;
}

neap_status doctor_step(const char *name, int threads, double *error, neap_text *machine,
                        int *used_threads, neap_diag *diag)
{
    neap_backend *backend = NULL, *plain = NULL;
    float *found = NULL, *expected = NULL;
    int64_t count = 0, expected_count = 0;
    neap_status status = neap_backend_open(NULL, name, threads, &backend, diag);
    if (status == NEAP_OK) {
        neap_text_puts(machine, neap_backend_machine(backend));
        *used_threads = neap_backend_threads(backend);
        status = neap_backend_open(NULL, "ref", 1, &plain, diag);
    }
    if (status == NEAP_OK)
        status = train_step(backend, &found, &count, diag);
    if (status == NEAP_OK)
        status = train_step(plain, &expected, &expected_count, diag);
    if (status == NEAP_OK)
        *error = count == expected_count ? compare(found, expected, count) : HUGE_VAL;
    cli_memory_release(found, (size_t)count, sizeof *found);
    cli_memory_release(expected, (size_t)expected_count, sizeof *expected);
    neap_backend_close(plain);
    neap_backend_close(backend);
    return status;
}
