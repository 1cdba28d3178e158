/* neap/layers.h: which ops and values belong together. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <neap/layers.h>
#include <string.h>

static const char TEXT[] =
    "{\"neap\": \"graph\", \"version\": 1, \"name\": \"tiny\", \"fixed_bytes\": 0,"
    "\"values\": [{\"name\": \"x\", \"bytes\": 8, \"kind\": \"input\"},"
    "{\"name\": \"a.conv.weight\", \"bytes\": 8, \"kind\": \"parameter\", \"state\": true},"
    "{\"name\": \"a.conv\", \"bytes\": 8, \"kind\": \"activation\"},"
    "{\"name\": \"a.conv.2\", \"bytes\": 8, \"kind\": \"activation\"},"
    "{\"name\": \"da\", \"bytes\": 8, \"kind\": \"gradient\"},"
    "{\"name\": \"dw\", \"bytes\": 8, \"kind\": \"gradient\"}],"
    "\"ops\": ["
    "{\"name\": \"a.conv\", \"type\": \"f\", \"pass\": \"forward\", \"inputs\": [0, 1], "
    "\"outputs\": [2], \"time\": 1, \"workspace\": 0},"
    "{\"name\": \"a.conv.2\", \"type\": \"f\", \"pass\": \"forward\", \"inputs\": [2], "
    "\"outputs\": [3], \"time\": 1, \"workspace\": 0},"
    "{\"name\": \"a.conv.2.bw\", \"type\": \"f\", \"pass\": \"backward\", \"inputs\": [3], "
    "\"outputs\": [4], \"time\": 1, \"workspace\": 0},"
    "{\"name\": \"a.conv.bw_weight\", \"type\": \"f\", \"pass\": \"backward\", \"inputs\": [0, 4], "
    "\"outputs\": [5], \"time\": 1, \"workspace\": 0},"
    "{\"name\": \"a.conv.weight.update\", \"type\": \"f\", \"pass\": \"backward\", "
    "\"inputs\": [1, 5], \"outputs\": [], \"updates\": [1], \"time\": 1, \"workspace\": 0},"
    "{\"name\": \"a.convolution\", \"type\": \"f\", \"pass\": \"backward\", \"inputs\": [4], "
    "\"outputs\": [], \"time\": 1, \"workspace\": 0}],"
    "\"outputs\": []}";

static void assert_layer(const neap_layers *layers, uint32_t op, const char *expected)
{
    size_t length;
    const char *name = neap_layers_name(layers, neap_layers_of_op(layers, op), &length);
    assert_int_equal(length, strlen(expected));
    assert_memory_equal(name, expected, length);
}

static void ops_belong_to_what_they_are_named_after(void **state)
{
    (void)state;
    neap_graph *graph;
    neap_layers *layers;
    neap_diag diag;
    if (neap_graph_read_text(NULL, TEXT, sizeof TEXT - 1, "tiny", &graph, &diag) != NEAP_OK)
        fail_msg("%s", diag.message);
    assert_int_equal(neap_layers_find(NULL, graph, &layers, &diag), NEAP_OK);
    assert_int_equal(neap_layers_count(layers), 3);
    assert_layer(layers, 0, "a.conv");
    assert_layer(layers, 1, "a.conv.2");
    assert_layer(layers, 2, "a.conv.2"); /* the longest name */
    assert_layer(layers, 3, "a.conv");
    assert_layer(layers, 4, "a.conv");
    assert_layer(layers, 5, "a.convolution"); /* only whole words count */
    assert_int_equal(neap_layers_of_value(layers, 0), NEAP_NONE);
    assert_int_equal(neap_layers_of_value(layers, 1), neap_layers_of_op(layers, 0));
    assert_int_equal(neap_layers_of_value(layers, 4), neap_layers_of_op(layers, 1));
    neap_layers_destroy(layers);
    neap_graph_destroy(graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ops_belong_to_what_they_are_named_after),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
