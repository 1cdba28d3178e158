/* neap/onnx.h: functions that files define themselves. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "onnx_built.h"
#include "onnx_bytes.h"
#include "run_command.h"

#include <neap/onnx.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DIMS(...)  ((int64_t[]){__VA_ARGS__, 0})
#define NODES(...) ((const char *const[]){__VA_ARGS__, NULL})

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

/* x: N x 4, which depends on a weight; y is to be computed. */
static void begin_graph(neap_text *graph)
{
    onnx_add_input(graph, "input", 1, "N,4");
    onnx_add_output(graph, "y");
    onnx_add_floats(graph, "w0", DIMS(4));
    onnx_add_floats(graph, "w1", DIMS(5, 4));
    onnx_add_floats(graph, "b1", DIMS(5));
    onnx_add_floats(graph, "w2", DIMS(3, 5));
    onnx_add_floats(graph, "b2", DIMS(3));
    onnx_add_node(graph, "Add input,w0 x");
}

/* Clears both. */
static onnx_built build(const char *folder, neap_text *graph, neap_text *functions)
{
    neap_text model = {0};
    onnx_make_model(&model, graph, 0);
    neap_text_append(&model, neap_text_get(functions), functions->length);
    neap_text_clear(functions);
    char *path = onnx_write(&model, folder, "model.onnx");
    onnx_built b = onnx_build_file(path, NULL);
    remove(path);
    free(path);
    return b;
}

/* A graph of these nodes. */
static onnx_built build_nodes(const char *folder, neap_text *functions, const char *const *nodes)
{
    neap_text graph = {0};
    begin_graph(&graph);
    for (; *nodes; nodes++)
        onnx_add_node(&graph, *nodes);
    return build(folder, &graph, functions);
}

/* Ops and shapes of all values, without names. */
static char *outline(const neap_graph *graph)
{
    neap_text text = {0};
    char *lines;
    size_t length;
    for (uint32_t o = 0; o < neap_graph_op_count(graph); o++)
        neap_text_printf(&text, "%s ", neap_graph_op(graph, o)->type);
    for (uint32_t v = 0; v < neap_graph_value_count(graph); v++)
        neap_text_printf(&text, "%lld ", (long long)neap_graph_value(graph, v)->bytes);
    assert_int_equal(neap_text_take(&text, &lines, &length, NULL), NEAP_OK);
    return lines;
}

static void assert_same(onnx_built *a, onnx_built *b)
{
    onnx_assert_built(a);
    onnx_assert_built(b);
    char *left = outline(a->graph), *right = outline(b->graph);
    assert_string_equal(left, right);
    free(left);
    free(right);
    onnx_clear(a);
    onnx_clear(b);
}

/* ---- Inlining ---- */

static void add_linear(neap_text *functions)
{
    onnx_add_function(functions, "local.Linear x,w,b y turned=1",
                      NODES("Gemm x,w,b y gemm transB=@turned"), 0);
}

static void calls_become_nodes(void **state)
{
    neap_text none = {0}, functions = {0};
    add_linear(&functions);
    onnx_built plain = build_nodes(
        *state, &none, NODES("Gemm x,w1,b1 h transB=1", "Relu h r", "Gemm r,w2,b2 y transB=1"));
    onnx_built called = build_nodes(
        *state, &functions, NODES("local.Linear x,w1,b1 h", "Relu h r", "local.Linear r,w2,b2 y"));
    assert_same(&plain, &called);
}

/* Functions in any order, calls in calls, the names of both calls and of their values the same. */
static void calls_nest(void **state)
{
    neap_text none = {0}, functions = {0};
    onnx_add_function(&functions, "local.Block x,w,b y",
                      NODES("local.Linear x,w,b h inner", "ai.Rectify h y inner"), -1);
    add_linear(&functions);
    onnx_add_function(&functions, "ai.Rectify x y", NODES("Relu x h", "Identity h y"), 0);
    onnx_built plain = build_nodes(
        *state, &none,
        NODES("Gemm x,w1,b1 h transB=1", "Relu h r", "Gemm r,w2,b2 s transB=1", "Relu s y"));
    onnx_built called = build_nodes(
        *state, &functions,
        NODES("local.Block x,w1,b1 block/inner block", "local.Block block/inner,w2,b2 y block"));
    assert_same(&plain, &called);
}

/* Names of values of the graph are not taken, not even of those that nothing computes. */
static void names_are_new(void **state)
{
    neap_text functions = {0}, more = {0}, none = {0};
    const char *const nodes[] = {"Relu x h", "Sigmoid h y", NULL};
    onnx_add_function(&functions, "local.F x y", nodes, 0);
    onnx_add_function(&more, "local.F x y", nodes, 0);
    onnx_built called = build_nodes(
        *state, &functions,
        NODES("Identity x f/h", "Identity f/h f/h_2", "local.F f/h_2 a f", "local.F a y f"));
    onnx_built plain =
        build_nodes(*state, &none, NODES("Relu x a", "Sigmoid a b", "Relu b c", "Sigmoid c y"));
    assert_same(&plain, &called);
    onnx_built b = build_nodes(*state, &more, NODES("local.F x a f", "Add a,f/h y"));
    onnx_assert_refused(&b, NEAP_INVALID, "reads \"f/h\"");
}

static void optional_inputs(void **state)
{
    const char *const calls[] = {"local.Linear x,w1 y", "local.Linear x,w1, y"};
    for (size_t i = 0; i < 2; i++) {
        neap_text none = {0}, functions = {0};
        add_linear(&functions);
        onnx_built plain = build_nodes(*state, &none, NODES("Gemm x,w1 y transB=1"));
        onnx_built called = build_nodes(*state, &functions, NODES(calls[i]));
        assert_same(&plain, &called);
    }
}

/* The axis that a Gather complains about is the one that it has got. */
static void attributes(void **state)
{
    static const struct {
        const char *head, *inner, *call, *words;
    } cases[] = {
        {"local.F x,i y axis=8", "Gather x,i y g axis=@axis", "local.F x,i y f", "axis 8"},
        {"local.F x,i y axis=8", "Gather x,i y g axis=@axis", "local.F x,i y f axis=9", "axis 9"},
        {"local.F x,i y", "Gather x,i y g axis=@other", "local.F x,i y f other=7", "axis 7"},
        {"local.F x,i y other=6", "local.G x,i y g axis=@other", "local.F x,i y f", "axis 6"},
        {"local.F x,i y", "local.G x,i y g axis=@other", "local.F x,i y f other=5", "axis 5"},
        {"local.F x,i y", "local.G x,i y g axis=@other", "local.F x,i y f axis=5", "axis 4"},
        {"local.F x,i y", "Gather x,i y g axis=@axis", "local.F x,i y f", NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        neap_text graph = {0}, functions = {0};
        begin_graph(&graph);
        onnx_add_integers(&graph, "i", DIMS(1), (int64_t[]){0});
        onnx_add_node(&graph, cases[i].call);
        onnx_add_function(&functions, "local.G x,i y axis=4",
                          NODES("Gather x,i y gather axis=@axis"), 0);
        onnx_add_function(&functions, cases[i].head, NODES(cases[i].inner), 0);
        onnx_built b = build(*state, &graph, &functions);
        if (cases[i].words) {
            onnx_assert_refused(&b, NEAP_INVALID, cases[i].words);
        } else {
            onnx_assert_built(&b);
            onnx_clear(&b);
        }
    }
}

static void outputs_that_are_inputs(void **state)
{
    neap_text none = {0}, functions = {0}, more = {0};
    onnx_add_function(&functions, "local.F x,z x,t,t,z", NODES("Relu x t"), 0);
    onnx_add_function(&more, "local.F x,z x,t,t,z", NODES("Relu x t"), 0);
    onnx_built plain = build_nodes(*state, &none, NODES("Relu x t", "Add x,t a", "Mul a,t y"));
    onnx_built called =
        build_nodes(*state, &functions, NODES("local.F x s,t,u f", "Add s,t a", "Mul a,u y"));
    assert_same(&plain, &called);
    onnx_built b = build_nodes(*state, &more, NODES("local.F x s,t,u,v f", "Relu v y"));
    onnx_assert_refused(&b, NEAP_INVALID, "node \"f\" (local.F): its output \"v\"");
}

static void overloads(void **state)
{
    neap_text none = {0}, functions = {0};
    onnx_add_function(&functions, "local.F x y", NODES("Relu x y"), 0);
    onnx_add_function(&functions, "local.F:two x y", NODES("Sigmoid x y"), 0);
    onnx_built plain = build_nodes(*state, &none, NODES("Sigmoid x a", "Relu a y"));
    onnx_built called = build_nodes(*state, &functions, NODES("local.F:two x a", "local.F a y"));
    assert_same(&plain, &called);
}

/* A graph of calls alone may import no opset. */
static void opsets(void **state)
{
    static const int64_t versions[] = {18, 12, -1};
    static const char *const words[] = {"opset 18, the model of opset 17", "opset 12",
                                        "imports no opset"};
    for (size_t i = 0; i < 3; i++) {
        neap_text functions = {0};
        onnx_add_function(&functions, "local.F x y", NODES("Relu x y"), versions[i]);
        onnx_built b = build_nodes(*state, &functions, NODES("local.F x y f"));
        onnx_assert_refused(&b, i < 2 ? NEAP_UNSUPPORTED : NEAP_INVALID, words[i]);
    }
    neap_text model = {0}, graph = {0};
    begin_graph(&graph);
    onnx_add_node(&graph, "local.F x y");
    pb_message(&model, 7, &graph);
    onnx_add_function(&model, "local.F x y", NODES("Relu x y"), 0);
    char *path = onnx_write(&model, *state, "model.onnx");
    onnx_built b = onnx_build_file(path, NULL);
    onnx_assert_built(&b);
    onnx_clear(&b);
    remove(path);
    free(path);
}

/* ---- Refusals ---- */

static void broken_functions(void **state)
{
    static const struct {
        const char *heads[3], *nodes[3], *call, *words;
    } cases[] = {
        {{"local.F x y"},
         {"local.F x y inner"},
         "local.F x y f",
         "node \"inner\" (local.F) of the function local.F, which node \"f\" calls: the function "
         "calls itself"},
        {{"local.F x y", "local.G x y"},
         {"local.G x y g", "local.F x y back"},
         "local.F x y f",
         "node \"back\" (local.F) of the function local.G, which node \"f\" calls: the function "
         "calls itself"},
        {{"local.F x y", "local.F x z"},
         {"Relu x y", "Relu x z"},
         "Relu x y",
         "two functions are named \"local.F\""},
        {{"local.F x y"},
         {"Add x,w1 y sum"},
         "local.F x y f",
         "node \"sum\" (Add) of the function local.F, which node \"f\" calls: it reads \"w1\""},
        {{"local.F x y"}, {"Relu y y loop"}, "local.F x y f", "node \"loop\" (Relu)"},
        {{"local.F x y"},
         {"Relu x x again"},
         "local.F x y f",
         "two values of the function are named \"x\""},
        {{"local.F x,x y"},
         {"Relu x y"},
         "local.F x y f",
         "two inputs of the function are named \"x\""},
        {{"local.F x y"},
         {"Relu x z"},
         "local.F x y f",
         "node \"f\" (local.F): the function computes no value for its output \"y\""},
        {{"local.F x "}, {"Relu x z"}, "local.F x y f", "no value for its output \"\""},
        {{"local.F x y"}, {"Relu x y"}, "local.F x,w1 y f", "it has 2 inputs, its function 1"},
        {{"local.F x y"}, {"Relu x y"}, "local.F x y,z f", "it has 2 outputs, its function 1"},
        {{"local.F x y"},
         {"Relu x y"},
         "local.F nothing y f",
         "node \"f\" (local.F): it reads \"nothing\""},
        {{"local.F x y"}, {"Relu x y"}, "local.F y y f", "node \"f\" (local.F): it reads \"y\""},
        {{"local.F x y"}, {"Relu x y"}, "local.F x x f", "two values are named \"x\""},
        {{"local.F x,z y,z"}, {"Relu x y"}, "local.F x y,y f", "its output \"y\" is an input"},
        {{"local.F x y", "local.G x,z z"},
         {"local.G x y g", "Relu x h"},
         "local.F x y f",
         "node \"f/g\" (local.G) of the function local.F, which node \"f\" calls: its output"},
        {{"local.F x y"},
         {"Transpose x y turn perm=0,0"},
         "local.F x y f",
         "node \"f/turn\" (Transpose) of the function local.F, which node \"f\" calls: "},
        {{"local.F x y"}, {"If x y choice"}, "local.F x y f", "If (1 node, \"f/choice\")"},
        {{"local.F x y"}, {"other.Op x y"}, "local.F x y f", "other.Op (1 node, \"f/y\")"},
        {{"local.F x y"}, {"Relu x y"}, "local.F:two x y f", "local.F (1 node, \"f\")"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        neap_text functions = {0};
        for (size_t f = 0; f < 3 && cases[i].heads[f]; f++)
            onnx_add_function(&functions, cases[i].heads[f], NODES(cases[i].nodes[f]), 0);
        onnx_built b = build_nodes(*state, &functions, NODES(cases[i].call));
        if (b.status != NEAP_INVALID && b.status != NEAP_UNSUPPORTED)
            fail_msg("case %zu: %s: %s", i, neap_status_name(b.status), b.diag.message);
        if (!strstr(b.diag.message, cases[i].words))
            fail_msg("case %zu: \"%s\", not \"%s\"", i, b.diag.message, cases[i].words);
        onnx_clear(&b);
    }
}

/* A function that nothing calls may be as wrong as it likes. */
static void unused_functions(void **state)
{
    neap_text none = {0}, functions = {0};
    onnx_add_function(&functions, "local.F x y", NODES("local.F x y"), 3);
    onnx_built plain = build_nodes(*state, &none, NODES("Relu x y"));
    onnx_built called = build_nodes(*state, &functions, NODES("Relu x y"));
    assert_same(&plain, &called);
}

/* F<i> calls F<i-1> so many times; F0 is a node, or nothing at all. */
static onnx_built build_tower(const char *folder, int levels, int calls, const char *prefix,
                              bool empty)
{
    neap_text functions = {0};
    char head[64], *lines[3] = {0}, call[64];
    onnx_add_function(&functions, empty ? "local.F0 x x" : "local.F0 x y",
                      NODES(empty ? NULL : "Relu x y"), 0);
    for (int i = 1; i <= levels; i++) {
        snprintf(head, sizeof head, "local.F%d v0 v%d", i, calls);
        for (int c = 0; c < calls; c++) {
            size_t size = strlen(prefix) + 100;
            lines[c] = malloc(size);
            snprintf(lines[c], size, "local.F%d v%d v%d %s%d", i - 1, c, c + 1, prefix, c);
        }
        onnx_add_function(&functions, head, (const char *const *)lines, 0);
        for (int c = 0; c < calls; c++)
            free(lines[c]);
    }
    snprintf(call, sizeof call, "local.F%d x y top", levels);
    return build_nodes(folder, &functions, NODES(call));
}

static void towers(void **state)
{
    char *prefix = calloc(100001, 1);
    memset(prefix, 'p', 100000);
    onnx_built b = build_tower(*state, 10, 2, "c", false);
    onnx_assert_built(&b);
    assert_true(neap_graph_op_count(b.graph) >= 2 * 1024);
    onnx_clear(&b);
    b = build_tower(*state, 99, 1, "c", false);
    onnx_assert_built(&b);
    onnx_clear(&b);
    b = build_tower(*state, 99, 2, "c", false);
    onnx_assert_refused(&b, NEAP_UNSUPPORTED, "come to more than neap takes: 250000 nodes");
    b = build_tower(*state, 99, 2, "c", true);
    onnx_assert_refused(&b, NEAP_UNSUPPORTED, "come to more than neap takes");
    b = build_tower(*state, 100, 1, "c", false);
    onnx_assert_refused(&b, NEAP_UNSUPPORTED, "nested more than 100 deep");
    b = build_tower(*state, 20000, 1, "c", false);
    onnx_assert_refused(&b, NEAP_UNSUPPORTED, "nested more than 100 deep");
    b = build_tower(*state, 60, 1, prefix, false);
    onnx_assert_refused(&b, NEAP_UNSUPPORTED, "node \"pppp"); /* the rest is cut off */
    free(prefix);
}

/* Depth counts also where a function was prepared on a shorter way. */
static void depth_of_what_is_known(void **state)
{
    neap_text functions = {0};
    onnx_add_function(&functions, "local.A0 x y", NODES("Relu x y"), 0);
    for (int i = 1; i < 120; i++) {
        char head[32], line[32];
        snprintf(head, sizeof head, "local.A%d x y", i);
        snprintf(line, sizeof line, "local.A%d x y", i - 1);
        onnx_add_function(&functions, head, NODES(line), 0);
    }
    onnx_built b = build_nodes(*state, &functions, NODES("local.A60 x a", "local.A119 a y last"));
    onnx_assert_refused(&b, NEAP_UNSUPPORTED, "which node \"last\" calls: calls are nested");
}

/* Linear time in the calls of one name, and in their attributes. */
static void many_calls(void **state)
{
    neap_text graph = {0}, functions = {0}, many = {0};
    begin_graph(&graph);
    onnx_add_node(&graph, "local.F x v0 f");
    for (int i = 1; i < 20000; i++) {
        char line[64];
        snprintf(line, sizeof line, "local.F v%d v%d f", i - 1, i);
        onnx_add_node(&graph, line);
    }
    onnx_add_node(&graph, "Relu v19999 y");
    onnx_add_function(&functions, "local.F x y", NODES("Identity x h", "Identity h y"), 0);
    onnx_built b = build(*state, &graph, &functions);
    onnx_assert_built(&b);
    onnx_clear(&b);
    add_linear(&functions);
    neap_text_puts(&many, "local.Linear x,w1,b1 y f");
    for (int i = 0; i < 300; i++)
        neap_text_printf(&many, " a%d=1", i);
    b = build_nodes(*state, &functions, NODES(neap_text_get(&many)));
    neap_text_clear(&many);
    onnx_assert_refused(&b, NEAP_UNSUPPORTED, "it has 300 attributes");
}

/* ---- Files ---- */

static void make_model(neap_text *model)
{
    neap_text graph = {0};
    onnx_called_graph(&graph);
    onnx_add_called(model); /* before the graph, which calls them */
    onnx_make_model(model, &graph, 0);
}

static void refuses_truncated_files(void **state)
{
    neap_text model = {0};
    make_model(&model);
    for (size_t length = 0; length < model.length; length++) {
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

static neap_status give_sevens(neap_onnx_weights *self, const char *name, float *numbers,
                               int64_t count, neap_diag *diag)
{
    (void)self;
    (void)name;
    (void)diag;
    for (int64_t i = 0; i < count; i++)
        numbers[i] = 7;
    return NEAP_OK;
}

static char *read_all(const char *path, size_t *length)
{
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    char *bytes = malloc(1 << 20);
    *length = fread(bytes, 1, 1 << 20, file);
    fclose(file);
    return bytes;
}

/* Only the weights change: functions stay what they are. */
static void writes_weights_back(void **state)
{
    neap_text model = {0};
    neap_onnx_weights weights = {give_sevens};
    neap_diag diag;
    size_t before, after, changed = 0;
    make_model(&model);
    char *path = onnx_write(&model, *state, "model.onnx"), *copy = join_path(*state, "copy.onnx");
    onnx_built b = onnx_build_file(path, NULL);
    onnx_assert_built(&b);
    assert_int_equal(neap_onnx_write(b.binding, copy, &weights, &diag), NEAP_OK);
    onnx_clear(&b);
    char *old = read_all(path, &before), *new = read_all(copy, &after);
    assert_int_equal(before, after);
    for (size_t i = 0; i < before; i++)
        changed += old[i] != new[i];
    assert_in_range(changed, 1, 4 * (20 + 5 + 15 + 3));
    b = onnx_build_file(copy, NULL);
    onnx_assert_built(&b);
    float bias[3];
    bool found;
    assert_int_equal(neap_onnx_fill(b.binding, "b2", NEAP_F32, bias, 3, &found, &diag), NEAP_OK);
    assert_true(found && bias[0] == 7 && bias[2] == 7);
    onnx_clear(&b);
    remove(path);
    remove(copy);
    free(path);
    free(copy);
    free(old);
    free(new);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_folder, remove_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(calls_become_nodes),
        TEST(calls_nest),
        TEST(names_are_new),
        TEST(optional_inputs),
        TEST(attributes),
        TEST(outputs_that_are_inputs),
        TEST(overloads),
        TEST(opsets),
        TEST(broken_functions),
        TEST(unused_functions),
        TEST(towers),
        TEST(depth_of_what_is_known),
        TEST(many_calls),
        TEST(refuses_truncated_files),
        TEST(writes_weights_back),
    };
    if (!neap_onnx_available())
        return 0;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
