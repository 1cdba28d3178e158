/*
 * The executor: reading and writing arrays, addresses, errors in a plan or a graph, poisoning,
 * guard pages, the host arena, measured steps. tests/property/test_bit_identity.c tests that all
 * plans give the same results.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "accepted.h"
#include "run/backend.h"
#include "run/block.h"
#include "settings.h"
#include "small_graphs.h"
#include "small_training.h"
#include "usable_backends.h"

#include <neap/layout.h>
#include <neap/models.h>
#include <neap/network.h>
#include <neap/run.h>
#include <neap/solve.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

/* ---- A network, a plan, a backend ---- */

/* Convolution, normalization, dropout, a view and a product: 8 x 8 images of 3 channels. */
static neap_graph *build_graph(neap_optimizer optimizer)
{
    static const int64_t images[] = {2, 3, 8, 8}, labels[] = {2};
    const neap_conv2d conv = {.channels = 5,
                              .kernel_h = 3,
                              .kernel_w = 3,
                              .stride_h = 1,
                              .stride_w = 1,
                              .pad_h = 1,
                              .pad_w = 1,
                              .bias = true};
    neap_network *net;
    neap_graph *graph = NULL;
    neap_training training;
    neap_diag diag;
    assert_int_equal(neap_network_create(NULL, "small", NEAP_F32, &net, &diag), NEAP_OK);
    neap_tensor x = neap_net_input(net, "images", NEAP_F32, 4, images);
    neap_tensor t = neap_net_input(net, "labels", NEAP_I64, 1, labels);
    x = neap_net_conv2d(net, "conv", x, &conv);
    x = neap_net_relu(net, "relu", neap_net_batch_norm(net, "bn", x, 1e-5));
    x = neap_net_dropout(net, "drop", x, 0.5);
    x = neap_net_flatten(net, "flatten", neap_net_adaptive_avg_pool2d(net, "pool", x, 2, 2), 1);
    x = neap_net_linear(net, "fc", x, 4, true);
    x = neap_net_cross_entropy(net, "loss", x, t);
    neap_training_init(&training);
    training.optimizer = optimizer;
    if (neap_network_finish(net, x, &training, &graph, &diag) != NEAP_OK)
        fail_msg("%s", diag.message);
    neap_network_destroy(net);
    return graph;
}

typedef struct bench {
    neap_backend *backend;
    neap_graph *graph;
    neap_plan *plan; /* every op once, without addresses */
} bench;

static neap_plan *natural_plan(const neap_graph *graph)
{
    uint32_t n_ops = neap_graph_op_count(graph), order[64];
    neap_plan *plan = NULL;
    assert_true(n_ops <= COUNT_OF(order));
    for (uint32_t i = 0; i < n_ops; i++)
        order[i] = i;
    assert_int_equal(
        neap_plan_from_sequence(NULL, graph, order, n_ops, NULL, "natural", -1, &plan, NULL),
        NEAP_OK);
    return plan;
}

static bench begin_for(const char *backend, neap_optimizer optimizer)
{
    bench b = {.backend = opened_backend(backend, 1), .graph = build_graph(optimizer)};
    neap_diag diag;
    if (neap_backend_fit(b.backend, b.graph, &diag) != NEAP_OK)
        fail_msg("%s", diag.message);
    b.plan = natural_plan(b.graph);
    return b;
}

static bench begin(void)
{
    return begin_for("ref", NEAP_OPTIMIZER_NONE);
}

static void end(bench *b)
{
    neap_plan_destroy(b->plan);
    neap_graph_destroy(b->graph);
    neap_backend_close(b->backend);
}

static void lay_out(const bench *b, neap_plan *plan, int64_t alignment)
{
    neap_layout_options options;
    neap_layout_options_init(&options);
    options.alignment = alignment;
    assert_int_equal(neap_layout_assign(NULL, b->graph, plan, &options, NULL), NEAP_OK);
}

static neap_runner *create_with(const bench *b, const neap_plan *plan,
                                const neap_run_options *options)
{
    neap_runner *runner = NULL;
    neap_diag diag;
    if (neap_runner_create(NULL, b->graph, plan, b->backend, options, &runner, &diag) != NEAP_OK)
        fail_msg("%s", diag.message);
    return runner;
}

static neap_runner *create(const bench *b, const neap_plan *plan)
{
    return create_with(b, plan, NULL);
}

static void step(neap_runner *runner, uint64_t seed, neap_run_report *report)
{
    neap_diag diag;
    if (neap_runner_step(runner, seed, report, &diag) != NEAP_OK)
        fail_msg("%s", diag.message);
}

static uint32_t value_named(const neap_graph *graph, const char *name)
{
    for (uint32_t v = 0; v < neap_graph_value_count(graph); v++)
        if (strcmp(neap_graph_value(graph, v)->name, name) == 0)
            return v;
    fail_msg("there is no value \"%s\"", name);
    return NEAP_NONE;
}

static float loss_of(neap_runner *runner, const neap_graph *graph)
{
    uint32_t count;
    float loss;
    neap_diag diag;
    assert_int_equal(neap_runner_read(runner, neap_graph_outputs(graph, &count)[0], &loss, &diag),
                     NEAP_OK);
    return loss;
}

static float loss_with(const bench *b, const neap_plan *plan, const neap_run_options *options)
{
    neap_runner *runner = create_with(b, plan, options);
    neap_diag diag;
    assert_int_equal(small_training_fill(runner, b->graph, &diag), NEAP_OK);
    step(runner, 7, NULL);
    float loss = loss_of(runner, b->graph);
    neap_runner_destroy(runner);
    return loss;
}

/* ---- Arrays ---- */

#define IMAGE_ELEMENTS (2 * 3 * 8 * 8)

/* Row-major numbers go where the strides say, and come back. */
static void check_images(const bench *b, bool channels_last)
{
    neap_runner *runner = create(b, b->plan);
    uint32_t images = value_named(b->graph, "images");
    float numbers[IMAGE_ELEMENTS], back[IMAGE_ELEMENTS] = {0};
    neap_array array;
    neap_diag diag;
    for (int i = 0; i < IMAGE_ELEMENTS; i++)
        numbers[i] = (float)i;
    assert_int_equal(neap_runner_write(runner, images, numbers, &diag), NEAP_OK);
    assert_int_equal(neap_runner_array(runner, images, &array, &diag), NEAP_OK);
    assert_int_equal(array.dtype, NEAP_F32);
    assert_int_equal(array.rank, 4);
    assert_int_equal(array.elements, IMAGE_ELEMENTS);
    assert_int_equal(array.plain, !channels_last);
    assert_int_equal(array.strides[1], channels_last ? 1 : 64);
    for (int64_t n = 0; n < 2; n++)
        for (int64_t c = 0; c < 3; c++)
            for (int64_t p = 0; p < 64; p++) {
                const int64_t at = n * array.strides[0] + c * array.strides[1] +
                                   p / 8 * array.strides[2] + p % 8 * array.strides[3];
                assert_true(((float *)array.data)[at] == numbers[(n * 3 + c) * 64 + p]);
            }
    assert_int_equal(neap_runner_read(runner, images, back, &diag), NEAP_OK);
    assert_memory_equal(back, numbers, sizeof back);
    neap_runner_destroy(runner);
}

static void test_arrays_in_and_out(void **state)
{
    (void)state;
    bench b = begin();
    check_images(&b, false);
    end(&b);
#if NEAP_HAS_ONEDNN
    b = begin_for("onednn", NEAP_OPTIMIZER_NONE);
    check_images(&b, true);
    end(&b);
#endif
}

static void test_inputs_stay_and_outputs_are_as_the_backend_prefers(void **state)
{
    (void)state;
    for (uint32_t i = 1; i < neap_backends_count(); i++) {
        if (!backend_is_usable(neap_backends_name(i)))
            continue;
        bench b = begin_for(neap_backends_name(i), NEAP_OPTIMIZER_NONE);
        neap_runner *runner = create(&b, b.plan);
        float weights[5 * 3 * 3 * 3], back[5 * 3 * 3 * 3];
        uint32_t conv = value_named(b.graph, "conv.weight"), n_outputs;
        neap_array array;
        neap_diag diag;
        assert_int_equal(small_training_fill(runner, b.graph, &diag), NEAP_OK);
        assert_int_equal(neap_runner_read(runner, conv, weights, &diag), NEAP_OK);
        step(runner, 1, NULL);
        assert_int_equal(neap_runner_read(runner, conv, back, &diag), NEAP_OK);
        assert_memory_equal(back, weights, sizeof back);
        neap_graph_outputs(b.graph, &n_outputs);
        for (uint32_t k = 0; k < n_outputs; k++) {
            uint32_t value = neap_graph_outputs(b.graph, &n_outputs)[k];
            assert_int_equal(neap_runner_array(runner, value, &array, &diag), NEAP_OK);
            assert_non_null(array.data);
            assert_true(array.plain || (array.rank == 4 && b.backend->channels_last_filters));
        }
        neap_runner_destroy(runner);
        end(&b);
    }
}

static void refuse_array(neap_status status, const neap_diag *diag, const char *part)
{
    assert_int_equal(status, NEAP_INVALID);
    if (!strstr(diag->message, part))
        fail_msg("\"%s\" lacks \"%s\"", diag->message, part);
}

static void test_other_values_have_no_array(void **state)
{
    (void)state;
    bench b = begin();
    neap_runner *runner = create(&b, b.plan);
    float numbers[IMAGE_ELEMENTS] = {0};
    neap_array array;
    neap_diag diag;
    uint32_t relu = value_named(b.graph, "relu"), n_outputs;
    uint32_t loss = neap_graph_outputs(b.graph, &n_outputs)[0];
    uint32_t past = neap_graph_value_count(b.graph);
    refuse_array(neap_runner_array(runner, relu, &array, &diag), &diag,
                 "\"relu\" is neither an input nor an output");
    refuse_array(neap_runner_read(runner, relu, numbers, &diag), &diag, "\"relu\"");
    refuse_array(neap_runner_write(runner, relu, numbers, &diag), &diag, "\"relu\"");
    refuse_array(neap_runner_write(runner, loss, numbers, &diag), &diag,
                 "\"loss\" is not an input");
    refuse_array(neap_runner_array(runner, past, &array, &diag), &diag, "there is no value");
    refuse_array(neap_runner_read(runner, NEAP_NONE, numbers, &diag), &diag, "there is no value");
    neap_runner_destroy(runner);
    end(&b);
}

/* ---- Addresses ---- */

static void test_addresses_of_the_plan_are_used(void **state)
{
    (void)state;
    bench b = begin();
    float loss = loss_with(&b, b.plan, NULL); /* has none: finds its own */
    lay_out(&b, b.plan, NEAP_RUN_ALIGNMENT);
    neap_runner *runner = create(&b, b.plan);
    assert_int_equal(neap_runner_arena_bytes(runner), neap_plan_arena_bytes(b.plan));

    /* The first offsets are the inputs', in order. */
    size_t n_offsets, next = 0;
    const int64_t *offsets = neap_plan_offsets(b.plan, &n_offsets);
    unsigned char *base = NULL;
    for (uint32_t v = 0; v < neap_graph_value_count(b.graph); v++) {
        neap_array array;
        if (neap_graph_value(b.graph, v)->producer != NEAP_NONE)
            continue;
        assert_int_equal(neap_runner_array(runner, v, &array, NULL), NEAP_OK);
        if (!base)
            base = (unsigned char *)array.data - offsets[next];
        assert_ptr_equal(array.data, base + offsets[next]);
        assert_int_equal((uintptr_t)array.data % NEAP_RUN_ALIGNMENT, 0);
        next++;
    }
    neap_runner_destroy(runner);
    assert_true(loss_with(&b, b.plan, NULL) == loss);
    end(&b);
}

static void test_misaligned_addresses_are_replaced(void **state)
{
    (void)state;
    bench b = begin();
    float loss = loss_with(&b, b.plan, NULL);
    lay_out(&b, b.plan, 4);
    size_t n_offsets, misaligned = 0;
    const int64_t *offsets = neap_plan_offsets(b.plan, &n_offsets);
    for (size_t i = 0; i < n_offsets; i++)
        misaligned += offsets[i] % NEAP_RUN_ALIGNMENT != 0;
    assert_true(misaligned > 0);
    neap_runner *runner = create(&b, b.plan);
    assert_true(neap_runner_arena_bytes(runner) >= neap_plan_arena_bytes(b.plan));
    for (uint32_t v = 0; v < neap_graph_value_count(b.graph); v++) {
        neap_array array;
        if (neap_runner_array(runner, v, &array, NULL) == NEAP_OK)
            assert_int_equal((uintptr_t)array.data % NEAP_RUN_ALIGNMENT, 0);
    }
    neap_runner_destroy(runner);
    assert_true(loss_with(&b, b.plan, NULL) == loss);
    end(&b);
}

/* ---- What is wrong ---- */

/* The natural plan's steps with one put in at `at`, or left out where there is none. */
static neap_plan *changed_plan(const bench *b, size_t at, const neap_step *instead)
{
    neap_plan *plan;
    assert_int_equal(neap_plan_create(NULL, "small", "test", -1, &plan, NULL), NEAP_OK);
    for (size_t i = 0; i <= neap_plan_step_count(b->plan); i++) {
        if (i == at && instead)
            assert_int_equal(neap_plan_append(plan, *instead, NULL), NEAP_OK);
        if (i < neap_plan_step_count(b->plan) && (i != at || instead))
            assert_int_equal(neap_plan_append(plan, neap_plan_steps(b->plan)[i], NULL), NEAP_OK);
    }
    return plan;
}

/* As many offsets as any plan here needs, one after the other. */
static void give_offsets(neap_plan *plan, size_t count)
{
    int64_t offsets[256];
    assert_true(count <= COUNT_OF(offsets));
    for (size_t i = 0; i < count; i++)
        offsets[i] = (int64_t)i * 8192;
    assert_int_equal(
        neap_plan_set_offsets(plan, offsets, count, (int64_t)COUNT_OF(offsets) * 8192, NULL),
        NEAP_OK);
}

static void refuse_plan(const bench *b, const neap_plan *plan, const char *part)
{
    neap_runner *runner = NULL;
    neap_diag diag = {0};
    assert_int_equal(neap_runner_create(NULL, b->graph, plan, b->backend, NULL, &runner, &diag),
                     NEAP_INVALID);
    assert_null(runner);
    if (!strstr(diag.message, part))
        fail_msg("\"%s\" lacks \"%s\"", diag.message, part);
}

/* Refused with and without addresses; without, the layout may stumble over something else. */
static void refuse_change(const bench *b, size_t at, const neap_step *instead, const char *part)
{
    neap_plan *plan = changed_plan(b, at, instead);
    refuse_plan(b, plan, "");
    give_offsets(plan, 200);
    refuse_plan(b, plan, part);
    neap_plan_destroy(plan);
}

#define STEP(...) (&(neap_step){__VA_ARGS__})

static void test_wrong_plans_are_refused(void **state)
{
    (void)state;
    bench b = begin();
    uint32_t n_ops = neap_graph_op_count(b.graph), n_values = neap_graph_value_count(b.graph);
    uint32_t images = value_named(b.graph, "images"), conv = value_named(b.graph, "conv");
    refuse_change(&b, 0, NULL, "an input is not resident"); /* without the first op */
    refuse_change(&b, 0, STEP(NEAP_COMPUTE, .id = n_ops - 1), "an input is not resident");
    refuse_change(&b, 1, STEP(NEAP_COMPUTE, .id = 0), "an output is resident already");
    refuse_change(&b, 0, STEP(NEAP_COMPUTE, .id = n_ops), "there is no such op");
    refuse_change(&b, 0, STEP(NEAP_COMPUTE, .id = NEAP_NONE), "there is no such op");
    refuse_change(&b, 0, STEP(NEAP_COMPUTE, .id = 0, .variant = 9), "the op has no such variant");
    refuse_change(&b, 0, STEP(NEAP_FREE, .id = n_values), "there is no such");
    refuse_change(&b, 0, STEP(NEAP_FREE, .id = images), "it is an input");
    refuse_change(&b, 0, STEP(NEAP_FREE, .id = conv), "it is not resident");
    refuse_change(&b, 0, STEP(NEAP_OFFLOAD, .id = conv), "it is not resident");
    refuse_change(&b, 1, STEP(NEAP_PREFETCH, .id = conv), "it is resident");
    refuse_change(&b, 0, STEP(NEAP_PREFETCH, .id = conv), "no copy on the host");
    refuse_change(&b, 0, STEP((neap_step_kind)7, .id = conv), "there is no such");
    end(&b);
}

static void test_outputs_must_be_there_at_the_end(void **state)
{
    (void)state;
    bench b = begin();
    uint32_t count, loss = neap_graph_outputs(b.graph, &count)[0];
    neap_plan *plan = changed_plan(&b, neap_plan_step_count(b.plan), STEP(NEAP_FREE, .id = loss));
    refuse_plan(&b, plan, "output \"loss\" is not resident at the end");
    neap_plan_destroy(plan);
    end(&b);
}

static void test_offsets_must_fit_the_plan(void **state)
{
    (void)state;
    bench b = begin();
    size_t count;
    lay_out(&b, b.plan, NEAP_RUN_ALIGNMENT);
    const int64_t *offsets = neap_plan_offsets(b.plan, &count);
    int64_t arena = neap_plan_arena_bytes(b.plan), wrong[256];
    memcpy(wrong, offsets, count * sizeof *wrong);

    neap_plan *plan = changed_plan(&b, SIZE_MAX, NULL);
    assert_int_equal(neap_plan_set_offsets(plan, wrong, count - 1, arena, NULL), NEAP_OK);
    refuse_plan(&b, plan, "too few offsets");
    wrong[count] = 0;
    assert_int_equal(neap_plan_set_offsets(plan, wrong, count + 1, arena, NULL), NEAP_OK);
    refuse_plan(&b, plan, "too many offsets");
    for (size_t i = 0; i < count; i++) { /* none may reach past the end, or before the beginning */
        memcpy(wrong, offsets, count * sizeof *wrong);
        wrong[i] = (arena + 63) / 64 * 64;
        assert_int_equal(neap_plan_set_offsets(plan, wrong, count, arena, NULL), NEAP_OK);
        refuse_plan(&b, plan, "outside the arena");
        wrong[i] = -64;
        if (neap_plan_set_offsets(plan, wrong, count, arena, NULL) == NEAP_OK)
            refuse_plan(&b, plan, "outside the arena");
    }
    neap_plan_destroy(plan);
    end(&b);
}

/* ---- Graphs and backends ---- */

static void test_graphs_must_be_fitted(void **state)
{
    (void)state;
#if NEAP_HAS_ONEDNN
    bench b = begin_for("onednn", NEAP_OPTIMIZER_NONE);
    int64_t workspace = 0;
    for (uint32_t i = 0; i < neap_graph_op_count(b.graph); i++)
        workspace += neap_graph_op(b.graph, i)->variants[0].workspace;
    assert_true(workspace > 0);
    neap_graph_destroy(b.graph);
    b.graph = build_graph(NEAP_OPTIMIZER_NONE);
    refuse_plan(&b, b.plan, "fit or profile it for this backend");
    end(&b);
#else
    skip_because("this build has no oneDNN");
#endif
}

static void test_graphs_without_shapes_cannot_run(void **state)
{
    (void)state;
    neap_backend *backend = opened_backend("ref", 1);
    neap_graph *graph = graph_from(abc_graph);
    neap_plan *plan = plan_from("c0 c1 c2");
    neap_runner *runner = NULL;
    neap_diag diag = {0};
    assert_int_equal(neap_runner_create(NULL, graph, plan, backend, NULL, &runner, &diag),
                     NEAP_UNSUPPORTED);
    assert_non_null(strstr(diag.message, "no type or shape"));
    assert_int_equal(neap_backend_check(backend, graph, &diag), NEAP_UNSUPPORTED);
    assert_int_equal(neap_backend_fit(backend, graph, &diag), NEAP_UNSUPPORTED);
    neap_plan_destroy(plan);
    neap_graph_destroy(graph);
    neap_backend_close(backend);
}

static void test_backends_are_named(void **state)
{
    (void)state;
    neap_backend *backend = NULL;
    neap_diag diag;
    assert_int_equal(neap_backend_open(NULL, "abacus", 1, &backend, &diag), NEAP_INVALID);
    for (uint32_t i = 0; i < neap_backends_count(); i++) {
        assert_non_null(strstr(diag.message, neap_backends_name(i)));
        assert_true(strlen(neap_backends_summary(i)) > 0);
    }
    assert_null(neap_backends_name(neap_backends_count()));
    assert_null(neap_backends_summary(neap_backends_count()));
    assert_int_equal(neap_backend_open(NULL, "ref", -1, &backend, &diag), NEAP_INVALID);
    assert_null(backend);
    backend = opened_backend(neap_backends_default(), 1);
    assert_string_equal(neap_backend_name(backend), neap_backends_default());
    assert_int_equal(neap_backend_threads(backend), 1);
    assert_true(strlen(neap_backend_machine(backend)) > 0);
    neap_backend_close(backend);
    neap_backend_close(NULL);
    neap_runner_destroy(NULL);
}

/* ---- Steps ---- */

static void test_seeds_are_of_random_ops(void **state)
{
    (void)state;
    bench b = begin();
    neap_runner *runner = create(&b, b.plan);
    neap_diag diag;
    assert_int_equal(small_training_fill(runner, b.graph, &diag), NEAP_OK);
    step(runner, 5, NULL);
    float first = loss_of(runner, b.graph);
    step(runner, 6, NULL);
    assert_true(loss_of(runner, b.graph) != first);
    step(runner, 5, NULL);
    assert_true(loss_of(runner, b.graph) == first);
    neap_runner_destroy(runner);
    end(&b);
}

static void test_step_times(void **state)
{
    (void)state;
    bench b = begin();
    neap_run_options options;
    neap_run_report report;
    neap_diag diag;
    neap_runner *runner = create(&b, b.plan);
    assert_null(neap_runner_step_times(runner));
    neap_runner_destroy(runner);

    neap_run_options_init(&options);
    options.measure = true;
    runner = create_with(&b, b.plan, &options);
    assert_int_equal(small_training_fill(runner, b.graph, &diag), NEAP_OK);
    step(runner, 1, &report);
    double sum = 0;
    uint64_t kernels = 0;
    for (uint32_t i = 0; i < neap_graph_op_count(b.graph); i++)
        kernels += strcmp(neap_graph_op(b.graph, i)->type, "reshape") != 0;
    const neap_step_time *times = neap_runner_step_times(runner);
    double last = 0;
    assert_non_null(times);
    for (size_t i = 0; i < neap_plan_step_count(b.plan); i++) { /* one after the other */
        assert_true(last <= times[i].begin && times[i].begin <= times[i].end);
        last = times[i].end;
        sum += times[i].end - times[i].begin;
    }
    assert_true(sum > 0 && last <= report.seconds);
    assert_int_equal(report.computed, kernels);
    assert_int_equal(report.transferred, 0);
    assert_true(report.wait_seconds == 0);
    assert_int_equal(neap_runner_host_bytes(runner), 0);
    neap_runner_destroy(runner);
    end(&b);
}

/* VGG-19 with checkpoints, large enough for pages to be small. */
static bench begin_vgg(neap_solution **solution)
{
    const neap_model_setting settings[] = {{"batch", 4}, {"image", 64}, {"width", 25}};
    neap_model_options options;
    neap_request request;
    bench b = {.backend = opened_backend(neap_backends_default(), 1)};
    neap_model_options_init(&options);
    options.n_settings = COUNT_OF(settings);
    options.settings = settings;
    assert_int_equal(
        neap_model_build(NULL, neap_models_find("hong-vgg19"), &options, &b.graph, NULL), NEAP_OK);
    assert_int_equal(neap_backend_fit(b.backend, b.graph, NULL), NEAP_OK);
    neap_request_init(&request, b.graph, "sqrt");
    request.alignment = NEAP_RUN_ALIGNMENT;
    assert_int_equal(neap_solve(NULL, &request, solution, NULL), NEAP_OK);
    return b;
}

/*
 * What is resident is what the plan says is live, but for parts of pages: a storage touches at most
 * two pages that it shares with others, and the arena begins in the middle of one. What a kernel
 * never touches (parts of its workspace) is not resident.
 */
static void check_resident(const neap_timeline *timeline, const neap_step_memory *memory,
                           int64_t edges)
{
    assert_non_null(memory);
    for (size_t s = 0; s < timeline->n_steps; s++) {
        const neap_timeline_step *planned = &timeline->steps[s];
        assert_true(memory[s].during <= planned->live_bytes + edges);
        assert_true(memory[s].after <= planned->after_bytes + edges);
        assert_true(memory[s].after >= planned->after_bytes - edges);
        assert_true(memory[s].during >= memory[s].after);
    }
}

static void test_resident_memory(void **state)
{
    (void)state;
    neap_solution *solution;
    bench b = begin_vgg(&solution);
    neap_run_options options;
    neap_timeline timeline;
    neap_diag diag;
    const neap_plan *plan = neap_solution_plan(solution);
    neap_runner *runner = create(&b, plan);
    assert_null(neap_runner_step_memory(runner));
    neap_runner_destroy(runner);

    neap_run_options_init(&options);
    options.trace_memory = true;
    runner = create_with(&b, plan, &options);
    assert_int_equal(small_training_fill(runner, b.graph, &diag), NEAP_OK);
    assert_int_equal(neap_timeline_build(NULL, b.graph, plan, NULL, &timeline, &diag), NEAP_OK);
    int64_t page = (int64_t)sysconf(_SC_PAGESIZE);
    int64_t edges = page * (int64_t)neap_graph_value_count(b.graph);
    assert_true(edges < timeline.peak_bytes / 20); /* else this would not say much */
    for (int i = 0; i < 2; i++) { /* the second step begins with the results of the first */
        step(runner, 1, NULL);
        check_resident(&timeline, neap_runner_step_memory(runner), edges);
    }
    neap_timeline_clear(&timeline);
    neap_runner_destroy(runner);
    neap_solution_destroy(solution);
    neap_graph_destroy(b.graph);
    neap_backend_close(b.backend);
}

/* Bytes of the arena that are what freed memory is filled with. */
static int64_t poisoned_bytes(const bench *b, bool poison)
{
    neap_run_options options;
    neap_array array;
    neap_diag diag;
    neap_run_options_init(&options);
    options.poison = poison;
    neap_runner *runner = create_with(b, b->plan, &options);
    assert_int_equal(small_training_fill(runner, b->graph, &diag), NEAP_OK);
    step(runner, 1, NULL);
    size_t n_offsets;
    const int64_t *offsets = neap_plan_offsets(b->plan, &n_offsets);
    uint32_t first = 0;
    while (neap_graph_value(b->graph, first)->producer != NEAP_NONE)
        first++;
    assert_int_equal(neap_runner_array(runner, first, &array, &diag), NEAP_OK);
    const unsigned char *base = (const unsigned char *)array.data - offsets[0];
    int64_t count = 0;
    for (int64_t i = 0; i < neap_runner_arena_bytes(runner); i++)
        count += base[i] == 0xff;
    neap_runner_destroy(runner);
    return count;
}

static void test_poison(void **state)
{
    (void)state;
    bench b = begin();
    lay_out(&b, b.plan, NEAP_RUN_ALIGNMENT);
    int64_t without = poisoned_bytes(&b, false), with = poisoned_bytes(&b, true);
    int64_t largest = neap_graph_value(b.graph, value_named(b.graph, "conv"))->bytes;
    assert_true(without < 64); /* a byte of a negative number or so */
    assert_true(with >= largest);
    end(&b);
}

/* ---- Guard pages ---- */

/* Whether a process that writes there is stopped. */
static bool is_guarded(unsigned char *address)
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        signal(SIGSEGV, SIG_DFL); /* a sanitizer would write a report */
        signal(SIGBUS, SIG_DFL);
        *(volatile unsigned char *)address = 1;
        _exit(0);
    }
    int how = 0;
    assert_int_equal(waitpid(child, &how, 0), child);
    return WIFSIGNALED(how) && (WTERMSIG(how) == SIGSEGV || WTERMSIG(how) == SIGBUS);
}

static void test_guard_pages(void **state)
{
    (void)state;
    static const int64_t sizes[] = {0, 1, 64, 100, 4096, 4097, 1 << 20};
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        run_block block;
        assert_int_equal(neap_run_block_create(sizes[i], &block, NULL), NEAP_OK);
        int64_t bytes = sizes[i] ? (sizes[i] + 63) / 64 * 64 : 64;
        assert_int_equal((uintptr_t)block.data % 64, 0);
        for (int64_t k = 0; k < bytes; k++)
            assert_int_equal(block.data[k], 0);
        memset(block.data, 1, (size_t)bytes);
        assert_false(is_guarded(block.data));
        assert_false(is_guarded(block.data + bytes - 1));
        assert_true(is_guarded(block.data + bytes)); /* at once */
        assert_true(is_guarded(block.data - 4096));  /* within a page */
        neap_run_block_destroy(&block);
    }
    run_block block;
    neap_diag diag;
    assert_int_equal(neap_run_block_create(INT64_MAX, &block, &diag), NEAP_NO_MEMORY);
    assert_non_null(
        strstr(diag.message, "out of memory: this machine has no 8.00 EiB in one piece"));
    assert_int_equal(neap_run_block_create(-1, &block, &diag), NEAP_NO_MEMORY);
    neap_run_block_destroy(&block);
}

/* ---- Transfers ---- */

/* Sends the convolution's result away after it was read, and fetches it before its next reader. */
static neap_plan *offloading_plan(const bench *b)
{
    uint32_t conv = value_named(b->graph, "conv"), seen = 0;
    neap_plan *plan;
    assert_int_equal(neap_plan_create(NULL, "small", "test", -1, &plan, NULL), NEAP_OK);
    for (size_t i = 0; i < neap_plan_step_count(b->plan); i++) {
        neap_step s = neap_plan_steps(b->plan)[i];
        bool reads = false;
        for (uint32_t k = 0; s.kind == NEAP_COMPUTE && k < neap_graph_op(b->graph, s.id)->n_inputs;
             k++)
            reads |= neap_graph_op(b->graph, s.id)->inputs[k] == conv;
        if (reads && seen == 1)
            assert_int_equal(neap_plan_append(plan, *STEP(NEAP_PREFETCH, .id = conv), NULL),
                             NEAP_OK);
        assert_int_equal(neap_plan_append(plan, s, NULL), NEAP_OK);
        if (reads && seen == 0) {
            assert_int_equal(neap_plan_append(plan, *STEP(NEAP_OFFLOAD, .id = conv), NULL),
                             NEAP_OK);
            assert_int_equal(neap_plan_append(plan, *STEP(NEAP_FREE, .id = conv), NULL), NEAP_OK);
        }
        seen += reads;
    }
    assert_true(seen >= 2);
    return plan;
}

static void test_transfers(void **state)
{
    (void)state;
    bench b = begin();
    float loss = loss_with(&b, b.plan, NULL);
    neap_plan *plan = offloading_plan(&b);
    int64_t bytes = neap_graph_value(b.graph, value_named(b.graph, "conv"))->bytes;
    for (int duplex = 0; duplex < 2; duplex++) {
        neap_run_options options;
        neap_run_report report;
        neap_diag diag;
        neap_run_options_init(&options);
        options.poison = true;
        options.duplex = duplex;
        neap_runner *runner = create_with(&b, plan, &options);
        assert_int_equal(neap_runner_host_bytes(runner), bytes);
        assert_int_equal(small_training_fill(runner, b.graph, &diag), NEAP_OK);
        for (int i = 0; i < 50; i++) {
            step(runner, 7, &report);
            assert_int_equal(report.transferred, 2 * bytes);
            assert_true(report.wait_seconds >= 0 && report.wait_seconds <= report.seconds);
            assert_true(loss_of(runner, b.graph) == loss);
        }
        neap_runner_destroy(runner);
    }
    neap_plan_destroy(plan);
    end(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_arrays_in_and_out),
        cmocka_unit_test(test_inputs_stay_and_outputs_are_as_the_backend_prefers),
        cmocka_unit_test(test_other_values_have_no_array),
        cmocka_unit_test(test_addresses_of_the_plan_are_used),
        cmocka_unit_test(test_misaligned_addresses_are_replaced),
        cmocka_unit_test(test_wrong_plans_are_refused),
        cmocka_unit_test(test_outputs_must_be_there_at_the_end),
        cmocka_unit_test(test_offsets_must_fit_the_plan),
        cmocka_unit_test(test_graphs_must_be_fitted),
        cmocka_unit_test(test_graphs_without_shapes_cannot_run),
        cmocka_unit_test(test_backends_are_named),
        cmocka_unit_test(test_seeds_are_of_random_ops),
        cmocka_unit_test(test_step_times),
        cmocka_unit_test(test_resident_memory),
        cmocka_unit_test(test_poison),
        cmocka_unit_test(test_guard_pages),
        cmocka_unit_test(test_transfers),
    };
    return cmocka_run_group_tests_name("runner", tests, NULL, NULL);
}
