/*
 * The executor on plans with runs in place and with state on the host: addresses, copies that are
 * waited for, and plans that are refused. tests/property/test_bit_identity.c tests that results are
 * the same.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "accepted.h"
#include "graph/graph_internal.h"
#include "plan/in_place.h"
#include "small_training.h"
#include "usable_backends.h"

#include <neap/network.h>
#include <neap/run.h>

#include <stdlib.h>
#include <string.h>

/* ---- A network, plans, a backend ---- */

static neap_graph *build_graph(neap_optimizer optimizer)
{
    const neap_conv2d conv = {
        .channels = 5, .kernel_h = 3, .kernel_w = 3, .pad_h = 1, .pad_w = 1, .bias = true};
    neap_network *net;
    neap_graph *graph = NULL;
    neap_training training;
    neap_diag diag;
    assert_int_equal(neap_network_create(NULL, "small", NEAP_F32, &net, &diag), NEAP_OK);
    neap_tensor x = neap_net_input(net, "images", NEAP_F32, 4, (int64_t[]){2, 3, 8, 8});
    neap_tensor labels = neap_net_input(net, "labels", NEAP_I64, 1, (int64_t[]){2});
    x = neap_net_batch_norm(net, "bn", neap_net_conv2d(net, "conv", x, &conv), 1e-5);
    x = neap_net_conv2d(net, "next", neap_net_relu(net, "relu", x), &conv);
    x = neap_net_flatten(net, "flatten", neap_net_tanh(net, "tanh", x), 1);
    x = neap_net_cross_entropy(net, "loss", neap_net_linear(net, "fc", x, 4, true), labels);
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
    neap_plan *natural; /* every op once, without addresses */
} bench;

static bench begin_on(const char *backend, neap_optimizer optimizer)
{
    bench b = {.backend = opened_backend(backend, 1), .graph = build_graph(optimizer)};
    uint32_t order[64], n_ops = neap_graph_op_count(b.graph);
    assert_int_equal(neap_backend_fit(b.backend, b.graph, NULL), NEAP_OK);
    for (uint32_t o = 0; o < n_ops; o++)
        order[o] = o;
    assert_int_equal(
        neap_plan_from_sequence(NULL, b.graph, order, n_ops, NULL, "natural", -1, &b.natural, NULL),
        NEAP_OK);
    return b;
}

static bench begin(neap_optimizer optimizer)
{
    return begin_on("ref", optimizer);
}

static void end(bench *b)
{
    neap_plan_destroy(b->natural);
    neap_graph_destroy(b->graph);
    neap_backend_close(b->backend);
}

static neap_plan *empty_plan(void)
{
    neap_plan *plan;
    assert_int_equal(neap_plan_create(NULL, "small", "test", -1, &plan, NULL), NEAP_OK);
    return plan;
}

static void append(neap_plan *plan, neap_step_kind kind, uint32_t id, bool in_place)
{
    assert_int_equal(neap_plan_append(plan, (neap_step){kind, id, 0, in_place}, NULL), NEAP_OK);
}

static uint32_t value_named(const neap_graph *graph, const char *name)
{
    uint32_t v = 0;
    while (v < neap_graph_value_count(graph) && strcmp(neap_graph_value(graph, v)->name, name) != 0)
        v++;
    assert_true(v < neap_graph_value_count(graph));
    return v;
}

static uint32_t op_named(const neap_graph *graph, const char *name)
{
    uint32_t o = 0;
    while (o < neap_graph_op_count(graph) && strcmp(neap_graph_op(graph, o)->name, name) != 0)
        o++;
    assert_true(o < neap_graph_op_count(graph));
    return o;
}

/* ---- Runs ---- */

static neap_runner *create(const bench *b, const neap_plan *plan, const neap_run_options *options)
{
    neap_runner *runner = NULL;
    neap_diag diag;
    if (neap_runner_create(NULL, b->graph, plan, b->backend, options, &runner, &diag) != NEAP_OK)
        fail_msg("%s", diag.message);
    return runner;
}

static float read_loss(neap_runner *runner, const neap_graph *graph)
{
    uint32_t count;
    float loss;
    assert_int_equal(neap_runner_read(runner, neap_graph_outputs(graph, &count)[0], &loss, NULL),
                     NEAP_OK);
    return loss;
}

/* The loss of the third step: what it is before a step depends on the updates before. */
static float loss_after(neap_runner *runner, const neap_graph *graph)
{
    neap_diag diag;
    assert_int_equal(small_training_fill(runner, graph, &diag), NEAP_OK);
    for (int i = 0; i < 3; i++)
        if (neap_runner_step(runner, 7, NULL, &diag) != NEAP_OK)
            fail_msg("%s", diag.message);
    return read_loss(runner, graph);
}

static float loss_with(const bench *b, const neap_plan *plan, const neap_run_options *options)
{
    neap_runner *runner = create(b, plan, options);
    float loss = loss_after(runner, b->graph);
    neap_runner_destroy(runner);
    return loss;
}

static void expect_refused(const bench *b, const neap_plan *plan, const char *message)
{
    neap_runner *runner = NULL;
    neap_diag diag;
    assert_int_equal(neap_runner_create(NULL, b->graph, plan, b->backend, NULL, &runner, &diag),
                     NEAP_INVALID);
    if (!strstr(diag.message, message))
        fail_msg("\"%s\" does not say \"%s\"", diag.message, message);
}

/* ---- In place ---- */

static void test_runs_in_place_take_less_memory(void **state)
{
    (void)state;
    bench b = begin(NEAP_OPTIMIZER_NONE);
    neap_runner *runner = create(&b, b.natural, NULL);
    int64_t before = neap_runner_arena_bytes(runner);
    float loss = loss_after(runner, b.graph);
    neap_runner_destroy(runner);
    size_t count;
    assert_int_equal(neap_plan_run_in_place(NULL, b.graph, b.natural, &count, NULL), NEAP_OK);
    assert_true(count >= 3); /* relu, relu.bw, bn.bw */
    runner = create(&b, b.natural, NULL);
    assert_true(neap_runner_arena_bytes(runner) < before);
    assert_true(loss_after(runner, b.graph) == loss);
    neap_runner_destroy(runner);
    end(&b);
}

/* The flattening needs the result of tanh row-major; so is what tanh reads, which would be
   channels-last by itself. */
static void test_layouts_of_a_pair_agree(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < neap_backends_count(); i++) {
        if (!backend_computes(neap_backends_name(i)))
            continue;
        bench b = begin_on(neap_backends_name(i), NEAP_OPTIMIZER_NONE);
        float loss = loss_with(&b, b.natural, NULL);
        uint32_t id = op_named(b.graph, "tanh");
        assert_int_not_equal(neap_graph_op(b.graph, id)->in_place_input, NEAP_NONE);
        size_t count;
        assert_int_equal(neap_plan_run_in_place(NULL, b.graph, b.natural, &count, NULL), NEAP_OK);
        bool in_place = false;
        for (size_t k = 0; k < neap_plan_step_count(b.natural); k++) {
            const neap_step *s = &neap_plan_steps(b.natural)[k];
            in_place |= s->kind == NEAP_COMPUTE && s->id == id && s->in_place;
        }
        assert_true(in_place);
        assert_true(loss_with(&b, b.natural, NULL) == loss);
        end(&b);
    }
}

/*
 * The convolution's result is on its way to the host when the normalisation writes over it, and
 * comes back for the backward pass: if the copy were not waited for, the host would get y.
 */
static void test_what_is_written_over_waits_for_its_copy(void **state)
{
    (void)state;
    bench b = begin(NEAP_OPTIMIZER_SGD);
    uint32_t conv = value_named(b.graph, "conv");
    neap_plan *plan = empty_plan();
    for (size_t i = 0; i < neap_plan_step_count(b.natural); i++) {
        neap_step s = neap_plan_steps(b.natural)[i];
        bool writes_over = s.kind == NEAP_COMPUTE && s.id == op_named(b.graph, "bn");
        if (writes_over)
            append(plan, NEAP_OFFLOAD, conv, false);
        if (s.kind == NEAP_COMPUTE && s.id == op_named(b.graph, "bn.bw"))
            append(plan, NEAP_PREFETCH, conv, false);
        append(plan, s.kind, s.id, writes_over);
    }
    neap_run_options options;
    neap_run_options_init(&options);
    options.poison = true;
    options.pace = (neap_link){.out_bandwidth = 1e12, .in_bandwidth = 1e12, .latency = 0.01};
    assert_true(loss_with(&b, plan, &options) == loss_with(&b, b.natural, NULL));
    neap_plan_destroy(plan);
    end(&b);
}

/* A graph may mark whatever it likes; kernels of convolutions do not write over their input. A
   graph that is fitted to a backend has no such marks. */
static void test_kernels_must_allow_it(void **state)
{
    (void)state;
    bench b = begin(NEAP_OPTIMIZER_NONE);
    uint32_t id = op_named(b.graph, "next.bw_data");
    neap_op *op = &b.graph->ops[id];
    op->in_place_input = op->inputs[0];
    op->in_place_output = op->outputs[0];
    neap_plan *plan = empty_plan();
    for (size_t i = 0; i < neap_plan_step_count(b.natural); i++) {
        neap_step s = neap_plan_steps(b.natural)[i];
        if (s.kind != NEAP_FREE || s.id != op->inputs[0])
            append(plan, s.kind, s.id, s.kind == NEAP_COMPUTE && s.id == id);
    }
    expect_refused(&b, plan, "no kernel of this type of op writes over that input");
    assert_int_equal(neap_backend_fit(b.backend, b.graph, NULL), NEAP_OK);
    assert_int_equal(neap_graph_op(b.graph, id)->in_place_input, NEAP_NONE);
    assert_int_not_equal(neap_graph_op(b.graph, op_named(b.graph, "relu"))->in_place_input,
                         NEAP_NONE);
    neap_plan_destroy(plan);
    end(&b);
}

/* ---- State ---- */

/* The natural plan with a state value on the host: it comes before the first op that reads it, and
   goes after its update. `settles` false: it does not go. */
static neap_plan *plan_with_host(const bench *b, uint32_t value, bool settles, bool current)
{
    neap_plan *plan = empty_plan();
    bool there = false;
    assert_int_equal(neap_plan_set_host_at_start(plan, &value, 1, NULL), NEAP_OK);
    for (size_t i = 0; i < neap_plan_step_count(b->natural); i++) {
        neap_step s = neap_plan_steps(b->natural)[i];
        const neap_op *op = s.kind == NEAP_COMPUTE ? neap_graph_op(b->graph, s.id) : NULL;
        for (uint32_t k = 0; op && !there && k < op->n_inputs; k++)
            if (op->inputs[k] == value) {
                append(plan, NEAP_PREFETCH, value, false);
                there = true;
            }
        append(plan, s.kind, s.id, false);
        if (op && neap_graph_value(b->graph, value)->updater == s.id && settles) {
            if (current)
                append(plan, NEAP_OFFLOAD, value, false);
            append(plan, NEAP_FREE, value, false);
        }
    }
    assert_true(there);
    return plan;
}

static bool is_within(const void *address, const void *block, int64_t bytes)
{
    uintptr_t at = (uintptr_t)address, first = (uintptr_t)block;
    return at >= first && at < first + (uintptr_t)bytes;
}

static void test_state_on_the_host(void **state)
{
    (void)state;
    bench b = begin(NEAP_OPTIMIZER_ADAM);
    static const char *const names[] = {"conv.weight", "optimizer.m.fc.weight",
                                        "optimizer.v.fc.bias"};
    float loss = loss_with(&b, b.natural, NULL);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        uint32_t value = value_named(b.graph, names[i]);
        neap_plan *plan = plan_with_host(&b, value, true, true);
        neap_run_options options;
        neap_run_options_init(&options);
        options.poison = true;
        options.pace = (neap_link){.out_bandwidth = 1e12, .in_bandwidth = 1e12, .latency = 0.005};
        neap_runner *runner = create(&b, plan, &options);
        neap_array array, device;
        assert_int_equal(neap_runner_array(runner, value, &array, NULL), NEAP_OK);
        assert_int_equal(neap_runner_array(runner, value_named(b.graph, "images"), &device, NULL),
                         NEAP_OK);
        assert_true(neap_runner_host_bytes(runner) >= neap_graph_value(b.graph, value)->bytes);
        assert_false(is_within(array.data, device.data, neap_runner_arena_bytes(runner)));
        assert_true(loss_after(runner, b.graph) == loss);
        neap_runner_destroy(runner);
        neap_plan_destroy(plan);
    }
    end(&b);
}

/* Between steps state is read and written where it is. */
static void test_state_is_read_and_written_on_the_host(void **state)
{
    (void)state;
    bench b = begin(NEAP_OPTIMIZER_MOMENTUM);
    uint32_t value = value_named(b.graph, "fc.bias");
    neap_plan *plan = plan_with_host(&b, value, true, true);
    neap_runner *there = create(&b, plan, NULL), *here = create(&b, b.natural, NULL);
    float before[4] = {0.5f, -1, 2, 0.25f}, after[2][4];
    neap_diag diag;
    for (int i = 0; i < 2; i++) {
        neap_runner *runner = i ? there : here;
        assert_int_equal(small_training_fill(runner, b.graph, &diag), NEAP_OK);
        assert_int_equal(neap_runner_write(runner, value, before, &diag), NEAP_OK);
        assert_int_equal(neap_runner_step(runner, 7, NULL, &diag), NEAP_OK);
        assert_int_equal(neap_runner_read(runner, value, after[i], &diag), NEAP_OK);
    }
    assert_memory_equal(after[0], after[1], sizeof before);
    assert_memory_not_equal(after[0], before, sizeof before);
    neap_runner_destroy(there);
    neap_runner_destroy(here);
    neap_plan_destroy(plan);
    end(&b);
}

static void test_state_must_be_where_it_was(void **state)
{
    (void)state;
    bench b = begin(NEAP_OPTIMIZER_MOMENTUM);
    uint32_t value = value_named(b.graph, "fc.bias");
    neap_plan *plan = plan_with_host(&b, value, false, true);
    expect_refused(&b, plan, "state \"fc.bias\" is on the device at the end, not on the host");
    neap_plan_destroy(plan);
    plan = plan_with_host(&b, value, true, false);
    expect_refused(&b, plan, "its copy on the host is out of date");
    neap_plan_destroy(plan);
    plan = plan_with_host(&b, value, true, true);
    assert_int_equal(neap_plan_set_host_at_start(plan, NULL, 0, NULL), NEAP_OK);
    expect_refused(&b, plan, "it is resident");
    neap_plan_destroy(plan);
    end(&b);
}

/* State that is away for a part of a step, and where it comes back. */
typedef struct journey {
    uint32_t value;
    int lands_on; /* the journey whose place it takes, of where that value began; -1: a new place */
} journey;

static const journey *journey_of(const journey *journeys, size_t count, uint32_t value)
{
    for (size_t i = 0; i < count; i++)
        if (journeys[i].value == value)
            return &journeys[i];
    return NULL;
}

/* The natural plan in which these go first, and come back for their updates. */
static neap_plan *plan_of(const bench *b, const journey *journeys, size_t n)
{
    neap_plan *plan = empty_plan();
    for (size_t i = 0; i < n; i++) {
        append(plan, NEAP_OFFLOAD, journeys[i].value, false);
        append(plan, NEAP_FREE, journeys[i].value, false);
    }
    for (size_t i = 0; i < neap_plan_step_count(b->natural); i++) {
        neap_step s = neap_plan_steps(b->natural)[i];
        for (size_t k = 0; k < n && s.kind == NEAP_COMPUTE; k++)
            if (s.id == neap_graph_value(b->graph, journeys[k].value)->updater)
                append(plan, NEAP_PREFETCH, journeys[k].value, false);
        append(plan, s.kind, s.id, false);
    }
    return plan;
}

/* Addresses for a plan without workspaces: every instance behind the one before, but for state that
   lands on another's place. */
static void spread_out(const bench *b, neap_plan *plan, const journey *journeys, size_t n)
{
    enum { SLOT = 1 << 14 }; /* more than any value has */
    uint32_t n_values = neap_graph_value_count(b->graph);
    size_t count = 0, room = n_values + neap_plan_step_count(plan);
    int64_t *offsets = malloc(room * sizeof *offsets), at = 0;
    size_t *starts = calloc(n_values, sizeof *starts); /* by value: of its instance */
    assert_true(offsets && starts);
    for (uint32_t v = 0; v < n_values; v++) {
        assert_true(neap_graph_value(b->graph, v)->bytes <= SLOT);
        starts[v] = count;
        if (neap_graph_value(b->graph, v)->producer == NEAP_NONE)
            offsets[count++] = at++ * SLOT;
    }
    for (size_t i = 0; i < neap_plan_step_count(plan); i++) {
        neap_step s = neap_plan_steps(plan)[i];
        const neap_op *op = s.kind == NEAP_COMPUTE ? neap_graph_op(b->graph, s.id) : NULL;
        for (uint32_t k = 0; op && k < op->n_outputs; k++)
            if (neap_graph_value(b->graph, op->outputs[k])->view_of == NEAP_NONE)
                offsets[count++] = at++ * SLOT;
        if (s.kind != NEAP_PREFETCH)
            continue;
        int lands_on = journey_of(journeys, n, s.id)->lands_on;
        offsets[count++] = lands_on < 0 ? at++ * SLOT : offsets[starts[journeys[lands_on].value]];
    }
    assert_int_equal(neap_plan_set_offsets(plan, offsets, count, at * SLOT, NULL), NEAP_OK);
    free(offsets);
    free(starts);
}

/* The host's memory that it takes. The next step finds state where the plan expects it. */
static int64_t travel(const bench *b, const journey *journeys, size_t n, float loss)
{
    neap_plan *plan = plan_of(b, journeys, n);
    spread_out(b, plan, journeys, n);
    neap_run_options options;
    neap_run_options_init(&options);
    options.poison = true;
    neap_runner *runner = create(b, plan, &options);
    int64_t bytes = neap_runner_host_bytes(runner);
    assert_true(loss_after(runner, b->graph) == loss);
    neap_runner_destroy(runner);
    neap_plan_destroy(plan);
    return bytes;
}

static void test_state_comes_back_elsewhere(void **state)
{
    (void)state;
    bench b = begin(NEAP_OPTIMIZER_MOMENTUM);
    float loss = loss_with(&b, b.natural, NULL);
    journey one[] = {{value_named(b.graph, "optimizer.momentum.fc.weight"), -1}};
    assert_true(travel(&b, one, 1, loss) >= neap_graph_value(b.graph, one[0].value)->bytes);
    end(&b);
}

/* Places are taken one after the other if that is possible; state that changes places in a circle
   waits on the host. */
static void test_state_changes_places(void **state)
{
    (void)state;
    bench b = begin(NEAP_OPTIMIZER_MOMENTUM);
    float loss = loss_with(&b, b.natural, NULL);
    journey chain[] = {{value_named(b.graph, "optimizer.momentum.conv.weight"), 1},
                       {value_named(b.graph, "optimizer.momentum.next.weight"), 2},
                       {value_named(b.graph, "optimizer.momentum.fc.weight"), -1},
                       {value_named(b.graph, "optimizer.momentum.fc.bias"), -1}};
    size_t n = sizeof chain / sizeof *chain;
    int64_t straight = travel(&b, chain, n, loss);
    for (int size = 1; size <= 3; size++) { /* a circle of one stays where it is */
        journey circle[4];
        memcpy(circle, chain, sizeof chain);
        circle[2].lands_on = 3 - size;
        for (int i = 0; i < 3 - size; i++)
            circle[i].lands_on = -1;
        int64_t bytes = travel(&b, circle, n, loss);
        assert_true(size == 1 ? bytes == straight : bytes > straight);
    }
    end(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_runs_in_place_take_less_memory),
        cmocka_unit_test(test_layouts_of_a_pair_agree),
        cmocka_unit_test(test_what_is_written_over_waits_for_its_copy),
        cmocka_unit_test(test_kernels_must_allow_it),
        cmocka_unit_test(test_state_on_the_host),
        cmocka_unit_test(test_state_is_read_and_written_on_the_host),
        cmocka_unit_test(test_state_must_be_where_it_was),
        cmocka_unit_test(test_state_comes_back_elsewhere),
        cmocka_unit_test(test_state_changes_places),
    };
    return cmocka_run_group_tests_name("runner state", tests, NULL, NULL);
}
