/*
 * Updates against PyTorch's optimizers: tools/torch_updates.py wrote tests/data/torch_updates.txt
 * and says what it holds. The steps run through the executor, on every backend that runs kernels.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/half.h"
#include "run/backend.h"
#include "usable_backends.h"

#include <neap/network.h>
#include <neap/plan.h>
#include <neap/run.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILE_NAME NEAP_SOURCE_DIR "/tests/data/torch_updates.txt"
/* Shares of a norm: of f32, and of 16 bits where a last bit may differ. */
#define TOLERANCE      2e-6
#define TOLERANCE_HALF 2e-3

enum { MOST = 64, MOST_LINES = 128 };

static struct {
    int64_t steps;
    double rate;
    char lines[MOST_LINES][160];
    size_t n_lines;
} file;

/* ---- Numbers ---- */

static uint64_t fnv1a(const char *text)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (; *text; text++)
        hash = (hash ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
    return hash;
}

static float number(const char *name, int64_t i)
{
    return (float)(2 * ((double)run_random_real(fnv1a(name), (uint64_t)i) - 0.5));
}

static void put(neap_dtype dtype, void *at, int64_t i, float x)
{
    if (dtype == NEAP_F32)
        ((float *)at)[i] = x;
    else
        ((uint16_t *)at)[i] = dtype == NEAP_BF16 ? neap_to_bf16(x) : neap_to_f16(x);
}

static float get(neap_dtype dtype, const void *at, int64_t i)
{
    if (dtype == NEAP_F32)
        return ((const float *)at)[i];
    uint16_t half = ((const uint16_t *)at)[i];
    return dtype == NEAP_BF16 ? neap_from_bf16(half) : neap_from_f16(half);
}

/* ---- The graph: a loss, two parameters and their gradients, all of them inputs ---- */

static const char *const parameters[] = {"a", "b"};
static const int64_t shapes[2][2] = {{7, 5}, {11, 1}};
static const uint32_t ranks[] = {2, 1};

static uint32_t add_value(neap_graph_builder *builder, const char *name, const char *kind,
                          neap_dtype dtype, uint32_t rank, const int64_t *shape)
{
    neap_value_desc desc;
    uint32_t id;
    neap_value_desc_init(&desc);
    desc.name = name;
    desc.kind = kind;
    desc.dtype = dtype;
    desc.rank = rank;
    desc.shape = shape;
    desc.bytes = neap_dtype_bytes(dtype);
    for (uint32_t d = 0; d < rank; d++)
        desc.bytes *= shape[d];
    assert_int_equal(neap_graph_builder_add_value(builder, &desc, &id, NULL), NEAP_OK);
    return id;
}

static neap_graph *build(const neap_training *training, neap_dtype dtype)
{
    neap_graph_builder *builder;
    neap_graph *graph, *updated;
    neap_diag diag;
    assert_int_equal(neap_graph_builder_create(NULL, "updates", &builder, NULL), NEAP_OK);
    uint32_t loss = add_value(builder, "loss", NEAP_KIND_INPUT, NEAP_F32, 1, (int64_t[]){1});
    neap_graph_builder_add_output(builder, loss, NULL);
    for (int i = 0; i < 2; i++)
        add_value(builder, parameters[i], NEAP_KIND_PARAMETER, dtype, ranks[i], shapes[i]);
    for (int i = 0; i < 2; i++)
        neap_graph_builder_add_output(builder,
                                      add_value(builder, i ? "b.grad" : "a.grad", NEAP_KIND_INPUT,
                                                dtype, ranks[i], shapes[i]),
                                      NULL);
    assert_int_equal(neap_graph_builder_finish(builder, &graph, NULL), NEAP_OK);
    neap_graph_builder_destroy(builder);
    if (neap_graph_add_updates(graph, training, &updated, &diag) != NEAP_OK)
        fail_msg("%s", diag.message);
    neap_graph_destroy(graph);
    return updated;
}

static uint32_t find(const neap_graph *graph, const char *name)
{
    for (uint32_t v = 0; v < neap_graph_value_count(graph); v++)
        if (strcmp(neap_graph_value(graph, v)->name, name) == 0)
            return v;
    fail_msg("no value \"%s\"", name);
    return NEAP_NONE;
}

/* ---- Steps ---- */

static void write_numbers(neap_runner *runner, uint32_t value, const char *name)
{
    neap_array array;
    neap_diag diag;
    if (neap_runner_array(runner, value, &array, &diag) != NEAP_OK)
        fail_msg("%s", diag.message);
    for (int64_t i = 0; i < array.elements; i++)
        put(array.dtype, array.data, i, number(name, i));
}

static void begin(const neap_graph *graph, neap_runner *runner, neap_dtype dtype)
{
    for (int p = 0; p < 2; p++) {
        neap_array weights, master;
        write_numbers(runner, find(graph, parameters[p]), parameters[p]);
        if (dtype == NEAP_F32)
            continue;
        char name[64];
        snprintf(name, sizeof name, "optimizer.master.%s", parameters[p]);
        assert_int_equal(neap_runner_array(runner, find(graph, parameters[p]), &weights, NULL),
                         NEAP_OK);
        assert_int_equal(neap_runner_array(runner, find(graph, name), &master, NULL), NEAP_OK);
        for (int64_t i = 0; i < weights.elements; i++)
            put(NEAP_F32, master.data, i, get(dtype, weights.data, i));
    }
}

static void step(const neap_graph *graph, neap_runner *runner, int64_t t, int64_t batches)
{
    neap_diag diag;
    for (int64_t k = 0; k < batches; k++) {
        const double numbers[3] = {file.rate, (double)t, k + 1 == batches};
        assert_int_equal(neap_runner_write(runner, find(graph, NEAP_STEP_INPUT), numbers, &diag),
                         NEAP_OK);
        for (int p = 0; p < 2; p++) {
            char value[64], name[64];
            snprintf(value, sizeof value, "%s.grad", parameters[p]);
            snprintf(name, sizeof name, "%s.grad.%d.%d", parameters[p], (int)t, (int)k);
            write_numbers(runner, find(graph, value), name);
        }
        if (neap_runner_step(runner, 1, NULL, &diag) != NEAP_OK)
            fail_msg("%s", diag.message);
    }
}

static void check(const neap_graph *graph, neap_runner *runner, const char *what, const char *name,
                  double norm, double projection)
{
    neap_array array;
    double squares = 0, sum = 0;
    char key[96];
    snprintf(key, sizeof key, "%s.projection", name);
    assert_int_equal(neap_runner_array(runner, find(graph, name), &array, NULL), NEAP_OK);
    for (int64_t i = 0; i < array.elements; i++) {
        double x = (double)get(array.dtype, array.data, i);
        squares += x * x;
        sum += x * ((double)run_random_real(fnv1a(key), (uint64_t)i) - 0.5);
    }
    double most = norm * (array.dtype == NEAP_F32 ? TOLERANCE : TOLERANCE_HALF);
    if (!(fabs(sqrt(squares) - norm) <= most) || !(fabs(sum - projection) <= most))
        fail_msg("%s: %s has norm %.9g and projection %.9g; PyTorch %.9g and %.9g", what, name,
                 sqrt(squares), sum, norm, projection);
}

/* ---- Cases ---- */

static neap_optimizer optimizer_of(const char *name)
{
    int i = NEAP_OPTIMIZER_SGD;
    while (strcmp(neap_optimizer_name((neap_optimizer)i), name) != 0)
        i++;
    return (neap_optimizer)i;
}

static void run_case(size_t at, const char *backend_name)
{
    char name[64], optimizer[16], type[8];
    int batches;
    neap_training t;
    neap_diag diag;
    neap_training_init(&t);
    assert_int_equal(sscanf(file.lines[at], "case %63s %15s %7s %d %lf %lf %lf %lf %lf %lf", name,
                            optimizer, type, &batches, &t.clip_norm, &t.momentum, &t.beta1,
                            &t.beta2, &t.epsilon, &t.weight_decay),
                     10);
    neap_dtype dtype = neap_dtype_from_name(type);
    t.optimizer = optimizer_of(optimizer);
    t.accumulate = batches;
    neap_graph *graph = build(&t, dtype);
    neap_backend *backend;
    neap_runner *runner;
    neap_plan *plan;
    assert_int_equal(neap_backend_open(NULL, backend_name, 2, &backend, &diag), NEAP_OK);
    neap_status status = neap_backend_fit(backend, graph, &diag);
    if (status == NEAP_UNSUPPORTED && dtype != NEAP_F32 && batches > 1) {
        neap_backend_close(backend); /* it adds no gradients of 16 bits to sums */
        neap_graph_destroy(graph);
        return;
    }
    if (status != NEAP_OK)
        fail_msg("%s: %s", name, diag.message);
    uint32_t order[MOST], n_ops = neap_graph_op_count(graph);
    for (uint32_t o = 0; o < n_ops; o++)
        order[o] = o;
    assert_int_equal(
        neap_plan_from_sequence(NULL, graph, order, n_ops, NULL, "natural", -1, &plan, &diag),
        NEAP_OK);
    if (neap_runner_create(NULL, graph, plan, backend, NULL, &runner, &diag) != NEAP_OK)
        fail_msg("%s: %s", name, diag.message);
    begin(graph, runner, dtype);
    for (int64_t i = 1; i <= file.steps; i++)
        step(graph, runner, i, batches);
    for (at++; at < file.n_lines && strncmp(file.lines[at], "array ", 6) == 0; at++) {
        char array[64];
        double norm, projection;
        assert_int_equal(sscanf(file.lines[at], "array %63s %lf %lf", array, &norm, &projection),
                         3);
        check(graph, runner, name, array, norm, projection);
    }
    neap_runner_destroy(runner);
    neap_plan_destroy(plan);
    neap_backend_close(backend);
    neap_graph_destroy(graph);
}

static void read_lines(void)
{
    char line[160];
    FILE *in = fopen(FILE_NAME, "r");
    assert_non_null(in);
    while (fgets(line, sizeof line, in)) {
        long long steps;
        if (sscanf(line, "steps %lld", &steps) == 1)
            file.steps = steps;
        else if (sscanf(line, "rate %lf", &file.rate) != 1) {
            assert_true(file.n_lines < MOST_LINES);
            memcpy(file.lines[file.n_lines++], line, sizeof line);
        }
    }
    fclose(in);
}

static void test_updates(void **state)
{
    (void)state;
    size_t n_cases = 0;
    read_lines();
    for (size_t at = 0; at < file.n_lines; at++) {
        if (strncmp(file.lines[at], "case ", 5) != 0)
            continue;
        n_cases++;
        for (uint32_t b = 0; b < neap_backends_count(); b++)
            if (backend_computes(neap_backends_name(b)))
                run_case(at, neap_backends_name(b));
    }
    assert_true(n_cases > 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_updates),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
