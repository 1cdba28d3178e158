/* neap/onnx.h: large files, and files that must be refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "onnx_built.h"
#include "onnx_bytes.h"
#include "run_command.h"

#include <neap/onnx.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DIMS(...) ((int64_t[]){__VA_ARGS__, 0})

static int make_folder(void **state)
{
    *state = make_temporary_folder();
    return 0;
}

static int remove_folder(void **state)
{
    remove_temporary_folder(*state);
    return 0;
}

/* ---- Refusals ---- */

static void lists_all_unknown_nodes(void **state)
{
    neap_text graph = {0};
    onnx_add_input(&graph, "x", 1, "2,4");
    onnx_add_output(&graph, "y");
    onnx_add_node(&graph, "If x a if1");
    onnx_add_node(&graph, "Loop a b loop1");
    onnx_add_node(&graph, "If b y if2");
    onnx_built b = onnx_build_graph(*state, &graph, NULL);
    assert_non_null(strstr(b.diag.message, "Loop (1 node, \"loop1\")"));
    onnx_assert_refused(&b, NEAP_UNSUPPORTED, "If (2 nodes, the first \"if1\")");
}

static void refuses_broken_graphs(void **state)
{
    static const struct {
        const char *nodes[2], *words;
    } cases[] = {
        {{"Add x,b y first", "Relu y b second"}, "in a cycle or in the wrong order"},
        {{"Add x,nothing y"}, "\"nothing\""},
        {{"Conv x,w y conv"}, "conv"},
        {{"MatMul x,w x"}, "two values are named \"x\""},
        {{"Reshape x,huge y"}, "overflows 63 bits"},
        {{"Reshape x,negative y"}, "-7"},
        {{"Transpose x y t perm=0,0"}, "\"t\""},
        {{"Gather x,huge y g axis=9"}, "axis 9"},
        {{"Concat x,w y c axis=0"}, "others' shape"},
        {{"Relu - y r"}, "lacks its input"},
        {{"Slice x,huge,huge y"}, "lists of starts"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        neap_text graph = {0};
        onnx_add_input(&graph, "x", 1, "2,4");
        onnx_add_output(&graph, "y");
        onnx_add_floats(&graph, "w", DIMS(4, 3));
        onnx_add_integers(&graph, "huge", DIMS(3),
                          (int64_t[]){INT64_MAX / 2, INT64_MAX / 2, INT64_MAX});
        onnx_add_integers(&graph, "negative", DIMS(1), (int64_t[]){-7});
        for (int n = 0; n < 2 && cases[i].nodes[n]; n++)
            onnx_add_node(&graph, cases[i].nodes[n]);
        onnx_built b = onnx_build_graph(*state, &graph, NULL);
        if (b.status != NEAP_INVALID && b.status != NEAP_UNSUPPORTED)
            fail_msg("case %zu: %s: %s", i, neap_status_name(b.status), b.diag.message);
        if (!strstr(b.diag.message, cases[i].words))
            fail_msg("case %zu: \"%s\", not \"%s\"", i, b.diag.message, cases[i].words);
        onnx_clear(&b);
    }
}

static void refuses_broken_tensors(void **state)
{
    static const struct {
        int64_t dims[3];
        size_t bytes;
        const char *words;
    } cases[] = {
        {{-4, 3}, 48, "negative or too large"}, {{INT64_MAX, 3}, 48, "negative or too large"},
        {{INT64_MAX / 3, 3}, 48, "overflows"},  {{4, 3}, 47, "\"w\" has 47 bytes"},
        {{4, 3}, 0, "\"w\" has 0 bytes"},
    };
    char zeros[64] = {0};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        neap_text graph = {0};
        onnx_add_input(&graph, "x", 1, "2,4");
        onnx_add_output(&graph, "y");
        onnx_add_tensor(&graph, "w", 1, cases[i].dims, zeros, cases[i].bytes);
        onnx_add_node(&graph, "MatMul x,w y");
        onnx_built b = onnx_build_graph(*state, &graph, NULL);
        onnx_assert_refused(&b, NEAP_INVALID, cases[i].words);
    }
}

/* Cut off anywhere, a file is refused with one line, or is whole by chance. */
static void refuses_truncated_files(void **state)
{
    neap_text graph = {0}, model = {0};
    onnx_large_graph(&graph);
    onnx_make_model(&model, &graph, 0);
    for (size_t length = 0; length < model.length; length += 1 + length / 64) {
        neap_text part = {0};
        neap_text_append(&part, model.text, length);
        char *path = onnx_write(&part, *state, "cut.onnx");
        onnx_built b = onnx_build_file(path, NULL);
        assert_int_not_equal(b.status, NEAP_OK);
        assert_true(*b.diag.message && !strchr(b.diag.message, '\n'));
        onnx_clear(&b);
        remove(path);
        free(path);
    }
    neap_text_clear(&model);
}

static void old_opsets_are_refused(void **state)
{
    neap_text graph = {0}, model = {0};
    onnx_small_graph(&graph);
    onnx_make_model(&model, &graph, 12);
    char *path = onnx_write(&model, *state, "old.onnx");
    onnx_built b = onnx_build_file(path, NULL);
    onnx_assert_refused(&b, NEAP_UNSUPPORTED, "opset 12");
    remove(path);
    free(path);
}

/* Linear time in the number of nodes. */
static void many_nodes(void **state)
{
    neap_text graph = {0};
    onnx_add_input(&graph, "x", 1, "2,4");
    onnx_add_output(&graph, "y");
    onnx_add_floats(&graph, "w", DIMS(4, 3));
    onnx_add_node(&graph, "MatMul x,w v0");
    for (int i = 0; i < 10000; i++) {
        char line[64];
        snprintf(line, sizeof line, "Relu v%d v%d", i, i + 1);
        onnx_add_node(&graph, line);
    }
    onnx_add_node(&graph, "Relu v10000 y");
    onnx_built b = onnx_build_graph(*state, &graph, NULL);
    onnx_assert_built(&b);
    assert_int_equal(neap_graph_op_count(b.graph), 2 * 10001 + 4);
    onnx_clear(&b);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_folder, remove_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(lists_all_unknown_nodes), TEST(refuses_broken_graphs),  TEST(refuses_broken_tensors),
        TEST(refuses_truncated_files), TEST(old_opsets_are_refused), TEST(many_nodes),
    };
    if (!neap_onnx_available())
        return 0;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
