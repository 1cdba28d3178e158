/* Which inputs the ops of a network are marked to write over. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <neap/network.h>

#include <string.h>

static neap_network *new_network(void)
{
    neap_network *net;
    assert_int_equal(neap_network_create(NULL, "t", NEAP_F32, &net, NULL), NEAP_OK);
    return net;
}

static neap_graph *finished(neap_network *net, neap_tensor x)
{
    neap_graph *graph;
    neap_diag diag;
    neap_tensor flat = neap_net_flatten(net, "flat", x, 1);
    neap_tensor labels =
        neap_net_input(net, "labels", NEAP_I64, 1, (int64_t[]){neap_net_dim(net, flat, 0)});
    neap_tensor loss = neap_net_cross_entropy(net, "loss", flat, labels);
    if (neap_network_finish(net, loss, NULL, &graph, &diag) != NEAP_OK)
        fail_msg("%s", diag.message);
    neap_network_destroy(net);
    return graph;
}

/* What the op writes over: the name of the value, "" if nothing. */
static const char *written_over(const neap_graph *graph, const char *name)
{
    for (uint32_t o = 0; o < neap_graph_op_count(graph); o++) {
        const neap_op *op = neap_graph_op(graph, o);
        if (strcmp(op->name, name) == 0)
            return op->in_place_input == NEAP_NONE
                       ? ""
                       : neap_graph_value(graph, op->in_place_input)->name;
    }
    fail_msg("there is no op %s", name);
    return NULL;
}

static neap_tensor image(neap_network *net)
{
    return neap_net_input(net, "x", NEAP_F32, 4, (int64_t[]){2, 3, 4, 4});
}

static neap_tensor conv(neap_network *net, const char *name, neap_tensor x)
{
    return neap_net_conv2d(
        net, name, x,
        &(neap_conv2d){.channels = 3, .kernel_h = 3, .kernel_w = 3, .pad_h = 1, .pad_w = 1});
}

static void test_inputs_of_the_graph_are_not_written_over(void **state)
{
    (void)state;
    neap_network *net = new_network();
    neap_tensor a = neap_net_relu(net, "first", image(net));
    neap_graph *graph = finished(net, neap_net_relu(net, "second", conv(net, "conv", a)));
    assert_string_equal(written_over(graph, "first"), "");
    assert_string_equal(written_over(graph, "conv"), "");
    assert_string_equal(written_over(graph, "second"), "conv");
    neap_graph_destroy(graph);
}

/* A gradient that only the op reads is preferred to the activation that dies there, too. */
static void test_gradients_come_first(void **state)
{
    (void)state;
    neap_network *net = new_network();
    neap_tensor a = neap_net_batch_norm(net, "bn", conv(net, "conv", image(net)), 1e-5);
    neap_graph *graph = finished(net, conv(net, "next", neap_net_relu(net, "relu", a)));
    assert_string_equal(written_over(graph, "relu.bw"), "relu.grad");
    assert_string_equal(written_over(graph, "bn.bw"), "bn.grad");
    assert_string_equal(written_over(graph, "bn"), "conv");
    neap_graph_destroy(graph);
}

/* Both branches of a sum get the same gradient: the first that reads it writes over its x, the
   second over the gradient. */
static void test_a_gradient_that_two_ops_read(void **state)
{
    (void)state;
    neap_network *net = new_network();
    neap_tensor x = conv(net, "conv", image(net));
    neap_tensor a = neap_net_batch_norm(net, "a", conv(net, "conv_a", x), 1e-5);
    neap_tensor b = neap_net_batch_norm(net, "b", conv(net, "conv_b", x), 1e-5);
    neap_graph *graph = finished(net, neap_net_add(net, "sum", a, b));
    assert_string_equal(written_over(graph, "sum"), "a");
    bool a_is_last = false;
    for (uint32_t o = 0; o < neap_graph_op_count(graph); o++)
        if (strcmp(neap_graph_op(graph, o)->name, "b.bw") == 0)
            a_is_last = false;
        else if (strcmp(neap_graph_op(graph, o)->name, "a.bw") == 0)
            a_is_last = true;
    assert_string_equal(written_over(graph, a_is_last ? "b.bw" : "a.bw"),
                        a_is_last ? "conv_b" : "conv_a");
    assert_string_not_equal(written_over(graph, a_is_last ? "a.bw" : "b.bw"),
                            a_is_last ? "conv_a" : "conv_b");
    neap_graph_destroy(graph);
}

/* A part of a storage is not written over: the result has not the storage's size. */
static void test_parts_are_not_written_over(void **state)
{
    (void)state;
    neap_network *net = new_network();
    neap_tensor part = neap_net_slice(net, "part", conv(net, "conv", image(net)), 1, 0, 2);
    neap_graph *graph = finished(net, neap_net_relu(net, "relu", part));
    assert_string_equal(written_over(graph, "relu"), "");
    neap_graph_destroy(graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_inputs_of_the_graph_are_not_written_over),
        cmocka_unit_test(test_gradients_come_first),
        cmocka_unit_test(test_a_gradient_that_two_ops_read),
        cmocka_unit_test(test_parts_are_not_written_over),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
