/* neap/network.h: shapes, scopes, sticky errors, every misuse with a message that names the layer.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "op_cases.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

static neap_network *new_network(void)
{
    neap_network *net;
    assert_int_equal(neap_network_create(NULL, "net", NEAP_F32, &net, NULL), NEAP_OK);
    return net;
}

static neap_tensor input(neap_network *net, uint32_t rank, const int64_t *shape)
{
    return neap_net_input(net, "x", NEAP_F32, rank, shape);
}

/* Fails unless finishing is refused with these words. */
static void expect_refused(neap_network *net, neap_tensor loss, const char *words)
{
    neap_graph *graph;
    neap_diag diag = {0};
    assert_int_equal(neap_network_finish(net, loss, NULL, &graph, &diag), NEAP_INVALID);
    assert_null(graph);
    if (!strstr(diag.message, words))
        fail_msg("\"%s\" lacks \"%s\"", diag.message, words);
    neap_network_destroy(net);
}

/* ---- Misuse ---- */

/* Called with the scope "outer" entered; the layer that is misused is called "op". */
typedef neap_tensor misuse(neap_network *net);

#define ABSURD (INT64_C(1) << 61)

/* Kernels of 3 and 2 channels, where nothing else is said. */
static neap_conv2d conv_of(neap_conv2d conv)
{
    conv.channels = conv.channels ? conv.channels : 2;
    conv.kernel_h = conv.kernel_h ? conv.kernel_h : 3;
    conv.kernel_w = conv.kernel_w ? conv.kernel_w : 3;
    return conv;
}

static neap_tensor conv(neap_network *net, neap_tensor x, neap_conv2d c)
{
    c = conv_of(c);
    return neap_net_conv2d(net, "op", x, &c);
}

static neap_tensor conv_t(neap_network *net, neap_tensor x, neap_conv2d c)
{
    c = conv_of(c);
    return neap_net_conv_transpose2d(net, "op", x, &c);
}

static neap_tensor max_pool(neap_network *net, neap_tensor x, neap_pool2d pool)
{
    return neap_net_max_pool2d(net, "op", x, &pool, NULL);
}

static neap_tensor avg_pool(neap_network *net, neap_tensor x, neap_pool2d pool)
{
    return neap_net_avg_pool2d(net, "op", x, &pool);
}

static neap_tensor places(neap_network *net)
{
    return neap_net_input(net, "places", NEAP_U8, SHAPE(2, 4, 5, 5));
}

static neap_tensor unpool(neap_network *net, neap_tensor x, neap_tensor indices, int64_t kernel,
                          int64_t height)
{
    neap_tensor like = input(net, SHAPE(2, 4, height, 10));
    const neap_pool2d pool = {.kernel_h = kernel, .kernel_w = 2};
    return neap_net_max_unpool2d(net, "op", x, indices, like, &pool);
}

static neap_tensor split(neap_network *net, neap_tensor x, uint32_t axis, uint32_t count)
{
    neap_tensor parts[8] = {0, 0, 0, 0, 0, 0, 0, 0};
    neap_net_split(net, "op", x, axis, count, parts);
    for (uint32_t i = 0; i < count; i++)
        assert_int_equal(parts[i], NEAP_NONE);
    return NEAP_NONE;
}

static neap_tensor lstm(neap_network *net, neap_tensor gates, neap_tensor c)
{
    neap_tensor c_next = 0, h = neap_net_lstm_cell(net, "op", gates, c, &c_next);
    assert_int_equal(c_next, NEAP_NONE);
    return h;
}

static neap_tensor keep(neap_network *net, neap_tensor y, double momentum)
{
    neap_net_keep_statistics(net, y, "op", "variance", momentum);
    return neap_network_failed(net) ? NEAP_NONE : y;
}

#define MISUSE(name, ...)                                                                          \
    static neap_tensor name(neap_network *net)                                                     \
    {                                                                                              \
        neap_tensor x4 = input(net, SHAPE(2, 4, 5, 5)), x3 = input(net, SHAPE(2, 3, 12));          \
        neap_tensor x2 = input(net, SHAPE(3, 4)), x1 = input(net, SHAPE(4));                       \
        neap_tensor ids = neap_net_input(net, "ids", NEAP_I64, SHAPE(3, 4));                       \
        (void)x4, (void)x3, (void)x2, (void)x1, (void)ids;                                         \
        return __VA_ARGS__;                                                                        \
    }
#include "misuses.def"
#undef MISUSE

static const struct {
    const char *name;
    misuse *build;
} misuses[] = {
#define MISUSE(name, ...) {#name, name},
#include "misuses.def"
#undef MISUSE
};

static void test_every_misuse_names_its_layer(void **state)
{
    (void)state;
    bool failed = false;
    for (size_t i = 0; i < COUNT_OF(misuses); i++) {
        neap_network *net = new_network();
        neap_graph *graph;
        neap_diag diag = {0};
        neap_net_enter(net, "outer");
        neap_tensor y = misuses[i].build(net);
        neap_net_leave(net);
        neap_status status = neap_network_finish(net, y, NULL, &graph, &diag);
        if (status != NEAP_INVALID || y != NEAP_NONE || !strstr(diag.message, "\"outer.op")) {
            print_error("%s: %s, \"%s\"\n", misuses[i].name, neap_status_name(status),
                        diag.message);
            failed = true;
        }
        neap_graph_destroy(graph);
        neap_network_destroy(net);
    }
    assert_false(failed);
}

static void test_a_network_computes_in_a_floating_type(void **state)
{
    (void)state;
    static const neap_dtype others[] = {NEAP_DTYPE_UNKNOWN, NEAP_I64, NEAP_I32, NEAP_U8};
    for (size_t i = 0; i < COUNT_OF(others); i++) {
        neap_network *net;
        neap_diag diag = {0};
        assert_int_equal(neap_network_create(NULL, "net", others[i], &net, &diag), NEAP_INVALID);
        assert_null(net);
        assert_non_null(strstr(diag.message, "f32"));
    }
}

/* ---- Errors stick ---- */

static void test_the_first_error_is_reported(void **state)
{
    (void)state;
    neap_network *net = new_network();
    neap_tensor x = input(net, SHAPE(3, 4)), weight = 7, c = 7, indices = 7, parts[2] = {7, 7};
    assert_false(neap_network_failed(net));
    assert_int_equal(neap_net_dim(net, x, 1), 4);
    assert_int_equal(neap_net_dropout(net, "first", x, 2), NEAP_NONE);
    assert_true(neap_network_failed(net));
    /* What was fine is not any more; nothing crashes, nothing is made. */
    assert_int_equal(neap_net_dim(net, x, 1), 0);
    assert_int_equal(neap_net_rank(net, x), 0);
    assert_int_equal(neap_net_relu(net, "relu", x), NEAP_NONE);
    assert_int_equal(neap_net_linear(net, "fc", x, 0, true), NEAP_NONE);
    assert_int_equal(neap_net_layer_norm(net, "ln", x, 1e-5), NEAP_NONE);
    assert_int_equal(neap_net_embedding(net, "e", x, 5, 2, &weight), NEAP_NONE);
    assert_int_equal(weight, NEAP_NONE);
    assert_int_equal(neap_net_lstm_cell(net, "l", x, x, &c), NEAP_NONE);
    assert_int_equal(c, NEAP_NONE);
    assert_int_equal(
        neap_net_max_pool2d(net, "p", x, &(neap_pool2d){.kernel_h = 2, .kernel_w = 2}, &indices),
        NEAP_NONE);
    assert_int_equal(indices, NEAP_NONE);
    neap_net_split(net, "s", x, 0, 2, parts);
    assert_int_equal(parts[1], NEAP_NONE);
    assert_int_equal(neap_net_input(net, "y", NEAP_F32, 0, NULL), NEAP_NONE);
    assert_int_equal(neap_net_attention(net, "a", x, x, x, 1, true, 0), NEAP_NONE);
    assert_int_equal(neap_net_cross_entropy(net, "loss", x, x), NEAP_NONE);
    neap_net_enter(net, "scope");
    neap_net_leave(net);
    neap_net_leave(net);
    neap_network_fail(net, "later");
    expect_refused(net, NEAP_NONE, "\"first\"");
}

static void test_a_callers_own_error(void **state)
{
    (void)state;
    neap_network *net = new_network();
    neap_tensor x = neap_net_parameter(net, "x", SHAPE(1));
    neap_network_fail(net, "a width of %d is odd", 3);
    neap_network_fail(net, "another");
    assert_true(neap_network_failed(net));
    expect_refused(net, x, "net: a width of 3 is odd");
}

/* ---- Scopes ---- */

static void test_scopes_nest(void **state)
{
    (void)state;
    neap_network *net = new_network();
    neap_graph *graph;
    char scope[400], full[420];
    memset(scope, 'n', sizeof scope - 1);
    scope[sizeof scope - 1] = '\0';
    neap_tensor x = neap_net_parameter(net, "x", SHAPE(1, 4));
    neap_net_enter(net, "block%d", 3);
    neap_net_enter(net, "%s", scope); /* as long as need be */
    x = neap_net_linear(net, "fc", x, 1, false);
    neap_net_leave(net);
    x = neap_net_relu(net, "relu", x);
    neap_net_leave(net);
    x = neap_net_reshape(net, "loss", x, SHAPE(1));
    assert_int_equal(neap_network_finish(net, x, NULL, &graph, NULL), NEAP_OK);
    snprintf(full, sizeof full, "block3.%s.fc", scope);
    assert_string_equal(neap_graph_op(graph, 0)->name, full);
    assert_string_equal(neap_graph_op(graph, 1)->name, "block3.relu");
    assert_string_equal(neap_graph_op(graph, 2)->name, "loss");
    assert_string_equal(neap_graph_op(graph, 3)->name, "loss.reshape");
    assert_string_equal(neap_graph_op(graph, 4)->name, "block3.relu.bw");
    snprintf(full, sizeof full, "block3.%s.fc.weight", scope);
    assert_string_equal(neap_graph_value(graph, 1)->name, full);
    neap_graph_destroy(graph);
    neap_network_destroy(net);
}

static void test_scopes_must_balance(void **state)
{
    (void)state;
    neap_network *net = new_network();
    neap_tensor x = neap_net_parameter(net, "x", SHAPE(1));
    neap_net_enter(net, "open");
    expect_refused(net, x, "\"open");
    net = new_network();
    x = neap_net_parameter(net, "x", SHAPE(1));
    neap_net_enter(net, "a");
    neap_net_leave(net);
    neap_net_leave(net);
    assert_true(neap_network_failed(net));
    expect_refused(net, x, "left");
}

/* ---- The loss ---- */

static void test_the_loss_is_one_number_that_depends_on_parameters(void **state)
{
    (void)state;
    neap_network *net = new_network();
    neap_tensor x = neap_net_parameter(net, "x", SHAPE(3));
    expect_refused(net, neap_net_relu(net, "wide", x), "\"wide\" must be one number");
    net = new_network();
    x = neap_net_parameter(net, "x", SHAPE(1, 1));
    expect_refused(net, neap_net_relu(net, "square", x), "\"square\" must be one number");
    net = new_network();
    x = neap_net_relu(net, "data", input(net, SHAPE(1)));
    expect_refused(net, x, "\"data\" must be one number that depends on a parameter");
    net = new_network();
    neap_net_parameter(net, "x", SHAPE(1));
    expect_refused(net, 77, "loss");
    net = new_network();
    expect_refused(net, NEAP_NONE, "loss");
}

static void test_every_parameter_must_matter(void **state)
{
    (void)state;
    neap_network *net = new_network();
    neap_tensor x = neap_net_parameter(net, "x", SHAPE(1));
    neap_net_enter(net, "aux");
    neap_net_linear(net, "fc", x, 3, true);
    neap_net_leave(net);
    expect_refused(net, neap_net_relu(net, "loss", x), "parameter \"aux.fc.weight\"");
}

static void test_layers_do_not_nest(void **state)
{
    (void)state;
    neap_network *net = new_network();
    neap_net_begin_layer(net);
    neap_net_begin_layer(net);
    expect_refused(net, neap_net_relu(net, "loss", neap_net_parameter(net, "x", SHAPE(1))),
                   "a layer begins inside another");
    net = new_network();
    neap_net_end_layer(net);
    expect_refused(net, neap_net_relu(net, "loss", neap_net_parameter(net, "x", SHAPE(1))),
                   "a layer ends that was not begun");
}

static void test_every_part_of_a_split_must_matter(void **state)
{
    (void)state;
    neap_network *net = new_network();
    neap_tensor parts[2];
    neap_net_split(net, "cut", neap_net_parameter(net, "x", SHAPE(2)), 0, 2, parts);
    expect_refused(net, neap_net_relu(net, "loss", parts[0]), "\"cut\"");
}

static void test_a_network_is_finished_once(void **state)
{
    (void)state;
    neap_network *net = new_network();
    neap_graph *graph;
    neap_tensor x = neap_net_relu(net, "loss", neap_net_parameter(net, "x", SHAPE(1)));
    assert_int_equal(neap_network_finish(net, x, NULL, &graph, NULL), NEAP_OK);
    assert_int_equal(neap_graph_op_count(graph), 2);
    neap_graph_destroy(graph);
    expect_refused(net, x, "finished");
}

/* ---- Training ---- */

static int64_t state_bytes(const neap_graph *graph)
{
    int64_t bytes = 0;
    for (uint32_t v = 0; v < neap_graph_value_count(graph); v++)
        if (neap_graph_value(graph, v)->state)
            bytes += neap_graph_value(graph, v)->bytes;
    return bytes;
}

static void test_forward_only_and_optimizers(void **state)
{
    (void)state;
    static const int64_t moments[] = {0, 0, 1, 2, 2};
    for (size_t i = 0; i < 2 * COUNT_OF(moments); i++) {
        neap_training training;
        neap_training_init(&training);
        training.optimizer = (neap_optimizer)(i / 2);
        training.forward_only = i % 2;
        bool updates = training.optimizer != NEAP_OPTIMIZER_NONE && !training.forward_only;
        neap_network *net = new_network();
        neap_graph *graph;
        uint32_t n_outputs;
        neap_tensor x = neap_net_linear(net, "fc", input(net, SHAPE(4)), 1, true); /* 5 floats */
        assert_int_equal(neap_network_finish(net, x, &training, &graph, NULL), NEAP_OK);
        assert_int_equal(neap_graph_fixed_bytes(graph), 0);
        assert_int_equal(state_bytes(graph), updates ? (1 + moments[i / 2]) * 20 : 0);
        assert_int_equal(neap_graph_op_count(graph), training.forward_only ? 1 : updates ? 4 : 2);
        assert_int_equal(neap_graph_outputs(graph, &n_outputs)[0], x);
        assert_int_equal(n_outputs, training.forward_only || updates ? 1 : 3);
        neap_graph_destroy(graph);
        neap_network_destroy(net);
    }
}

/* The gradient of the loss is an input, f32 as the loss is. */
static void test_the_loss_gradient_is_an_input(void **state)
{
    (void)state;
    neap_network *net;
    neap_graph *graph;
    assert_int_equal(neap_network_create(NULL, "net", NEAP_F16, &net, NULL), NEAP_OK);
    neap_tensor loss =
        neap_net_cross_entropy(net, "loss", neap_net_parameter(net, "x", SHAPE(2, 3)),
                               neap_net_input(net, "labels", NEAP_I64, SHAPE(2)));
    assert_int_equal(neap_network_finish(net, loss, NULL, &graph, NULL), NEAP_OK);
    const neap_op *backward = neap_graph_op(graph, 1);
    const neap_value *seed = neap_graph_value(graph, backward->inputs[0]);
    assert_string_equal(seed->name, "loss.grad");
    assert_string_equal(seed->kind, NEAP_KIND_INPUT);
    assert_int_equal(seed->dtype, NEAP_F32);
    assert_int_equal(seed->bytes, 4);
    assert_int_equal(neap_graph_value(graph, backward->outputs[0])->dtype, NEAP_F16);
    neap_graph_destroy(graph);
    neap_network_destroy(net);
}

/* ---- Shapes ---- */

static void expect_extent(int64_t height, neap_pool2d pool, int64_t expected)
{
    neap_network *net = new_network();
    pool.kernel_w = 1;
    neap_tensor y = neap_net_avg_pool2d(net, "op", input(net, SHAPE(1, 1, height, 1)), &pool);
    assert_int_equal(neap_net_dim(net, y, 2), expected);
    assert_int_equal(neap_net_dim(net, y, 3), 1);
    neap_network_destroy(net);
}

static void test_pooled_extents_are_pytorchs(void **state)
{
    (void)state;
    expect_extent(5, (neap_pool2d){.kernel_h = 2}, 2);
    expect_extent(5, (neap_pool2d){.kernel_h = 2, .ceil_mode = true}, 3);
    expect_extent(4, (neap_pool2d){.kernel_h = 2, .ceil_mode = true}, 2);
    expect_extent(5, (neap_pool2d){.kernel_h = 3, .stride_h = 1, .pad_h = 1}, 5);
    /* A last window that would begin in the right padding is left out. */
    expect_extent(3, (neap_pool2d){.kernel_h = 2, .stride_h = 3, .ceil_mode = true}, 1);
    expect_extent(4, (neap_pool2d){.kernel_h = 2, .stride_h = 3, .ceil_mode = true}, 2);
    expect_extent(2, (neap_pool2d){.kernel_h = 2, .stride_h = 3, .pad_h = 1, .ceil_mode = true}, 1);
}

static void test_small_promises(void **state)
{
    (void)state;
    neap_network *net = new_network();
    neap_tensor x = neap_net_parameter(net, "x", SHAPE(2, 3, 4)), weight, indices;
    assert_int_equal(neap_net_dropout(net, "none", x, 0), x);
    assert_int_equal(neap_net_rank(net, x), 3);
    assert_int_equal(neap_net_dim(net, x, 3), 0);
    assert_int_equal(neap_net_rank(net, 1000), 0);
    neap_tensor ids = neap_net_input(net, "ids", NEAP_I32, SHAPE(5));
    neap_tensor y = neap_net_embedding(net, "e", ids, 7, 2, &weight);
    assert_int_equal(neap_net_dim(net, weight, 0), 7);
    assert_int_equal(neap_net_dim(net, y, 1), 2);
    y = neap_net_max_pool2d(net, "p", input(net, SHAPE(1, 2, 4, 4)),
                            &(neap_pool2d){.kernel_h = 2, .kernel_w = 2}, &indices);
    assert_int_equal(neap_net_dim(net, indices, 3), 2);
    assert_int_equal(neap_network_kernels(net), NEAP_KERNELS_LEAN);
    neap_network_set_kernels(net, NEAP_KERNELS_TORCH);
    assert_int_equal(neap_network_kernels(net), NEAP_KERNELS_TORCH);
    assert_false(neap_network_failed(net));
    neap_network_destroy(net);
    neap_network_destroy(NULL);
}

static uint32_t copies_in(const neap_graph *graph)
{
    uint32_t count = 0;
    for (uint32_t o = 0; o < neap_graph_op_count(graph); o++)
        count += strcmp(neap_graph_op(graph, o)->type, "concat") == 0;
    return count;
}

/* Forward, half of the channels in other shapes; backward, such a half of a gradient. */
static void test_parts_with_gaps_are_copied(void **state)
{
    (void)state;
    static const struct {
        int64_t shape[3];
        uint32_t rank;
        uint32_t copies;
    } CASES[] = {
        {{2, 8, 1}, 2, 0}, /* the gap stays between the images */
        {{2, 4, 2}, 3, 0},
        {{4, 4, 1}, 2, 1}, /* the gap is inside a dimension */
        {{16, 1, 1}, 1, 1},
    };
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        neap_network *net = new_network();
        neap_graph *graph;
        neap_tensor w = neap_net_parameter(net, "w", 3, (int64_t[]){2, 4, 4});
        neap_tensor half = neap_net_slice(net, "half", w, 1, 0, 2);
        neap_tensor y = neap_net_reshape(net, "y", half, CASES[i].rank, CASES[i].shape);
        neap_tensor flat =
            neap_net_reshape(net, "flat", neap_net_relu(net, "relu", y), 1, (int64_t[]){-1});
        neap_tensor loss =
            neap_net_mse(net, "loss", flat, neap_net_input(net, "t", NEAP_F32, 1, (int64_t[]){16}));
        assert_int_equal(neap_network_finish(net, loss, NULL, &graph, NULL), NEAP_OK);
        assert_int_equal(copies_in(graph), CASES[i].copies);
        neap_graph_destroy(graph);
        neap_network_destroy(net);

        net = new_network();
        neap_tensor v = neap_net_parameter(net, "v", CASES[i].rank, CASES[i].shape);
        neap_tensor part = neap_net_reshape(net, "part", v, 3, (int64_t[]){2, 2, 4});
        w = neap_net_parameter(net, "w", 3, (int64_t[]){2, 2, 4});
        y = neap_net_concat(net, "whole", 2, (neap_tensor[]){part, w}, 1);
        flat = neap_net_reshape(net, "flat", y, 1, (int64_t[]){-1});
        loss =
            neap_net_mse(net, "loss", flat, neap_net_input(net, "t", NEAP_F32, 1, (int64_t[]){32}));
        assert_int_equal(neap_network_finish(net, loss, NULL, &graph, NULL), NEAP_OK);
        assert_int_equal(copies_in(graph), 1 + CASES[i].copies);
        neap_graph_destroy(graph);
        neap_network_destroy(net);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_misuse_names_its_layer),
        cmocka_unit_test(test_a_network_computes_in_a_floating_type),
        cmocka_unit_test(test_the_first_error_is_reported),
        cmocka_unit_test(test_a_callers_own_error),
        cmocka_unit_test(test_scopes_nest),
        cmocka_unit_test(test_scopes_must_balance),
        cmocka_unit_test(test_the_loss_is_one_number_that_depends_on_parameters),
        cmocka_unit_test(test_every_parameter_must_matter),
        cmocka_unit_test(test_layers_do_not_nest),
        cmocka_unit_test(test_every_part_of_a_split_must_matter),
        cmocka_unit_test(test_a_network_is_finished_once),
        cmocka_unit_test(test_forward_only_and_optimizers),
        cmocka_unit_test(test_the_loss_gradient_is_an_input),
        cmocka_unit_test(test_pooled_extents_are_pytorchs),
        cmocka_unit_test(test_small_promises),
        cmocka_unit_test(test_parts_with_gaps_are_copied),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
