/* Nodes of ONNX files that become several layers, or none: which, and which are refused. */
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

/* ---- Tables of graphs ---- */

enum { MOST_PARTS = 5 };

typedef struct node_case {
    const char *input; /* extents of x, which a parameter w0 of that shape is added to */
    const char *tensors[MOST_PARTS];   /* "name 2,3": floats; "name:1,2,-1": a list of integers */
    const char *constants[MOST_PARTS]; /* nodes Constant: "name 2,3", of ones */
    const char *nodes[MOST_PARTS + 2]; /* of x0; the last makes y */
    const char *expected; /* types of the forward ops after the first; or words of the refusal */
    neap_onnx_loss loss;  /* NEAP_ONNX_NO_LOSS: y is the loss */
    int64_t opset;        /* 0: 17 */
} node_case;

static size_t read_list(const char *text, int64_t *list)
{
    size_t count = 0;
    while (*text) {
        char *end;
        list[count++] = strtoll(text, &end, 10);
        text = *end ? end + 1 : end;
    }
    list[count] = 0;
    return count;
}

static void add_tensor(neap_text *graph, const char *line)
{
    char name[32];
    int64_t list[16];
    size_t length = strcspn(line, " :");
    snprintf(name, sizeof name, "%.*s", (int)length, line);
    size_t count = read_list(line + length + 1, list);
    if (line[length] == ':')
        onnx_add_integers(graph, name, DIMS((int64_t)count), list);
    else
        onnx_add_floats(graph, name, list);
}

/* A node Constant of ones. */
static void add_constant(neap_text *graph, const char *line)
{
    char name[32];
    int64_t list[16];
    size_t length = strcspn(line, " "), elements = 1;
    snprintf(name, sizeof name, "%.*s", (int)length, line);
    size_t rank = read_list(line + length + 1, list);
    for (size_t d = 0; d < rank; d++)
        elements *= (size_t)list[d];
    float *ones = malloc(elements * sizeof *ones);
    for (size_t i = 0; i < elements; i++)
        ones[i] = 1;
    onnx_add_constant(graph, name, list, ones);
    free(ones);
}

static onnx_built build_case(const char *folder, const node_case *c)
{
    neap_text graph = {0}, model = {0};
    neap_onnx_options options;
    int64_t shape[16];
    neap_onnx_options_init(&options);
    options.loss = c->loss;
    onnx_add_input(&graph, "x", 1, c->input);
    onnx_add_input(&graph, "labels_of_x", 7, "2");
    onnx_add_output(&graph, "y");
    read_list(c->input, shape);
    onnx_add_floats(&graph, "w0", shape);
    onnx_add_node(&graph, "Add x,w0 x0");
    for (size_t i = 0; i < MOST_PARTS && c->tensors[i]; i++)
        add_tensor(&graph, c->tensors[i]);
    for (size_t i = 0; i < MOST_PARTS && c->constants[i]; i++)
        add_constant(&graph, c->constants[i]);
    for (size_t i = 0; i < MOST_PARTS + 2 && c->nodes[i]; i++)
        onnx_add_node(&graph, c->nodes[i]);
    onnx_make_model(&model, &graph, c->opset);
    char *path = onnx_write(&model, folder, "model.onnx");
    onnx_built b = onnx_build_file(path, &options);
    remove(path);
    free(path);
    return b;
}

/* Types of the forward ops, but for reshapes, with blanks between. */
static void assert_types(const onnx_built *b, const node_case *c)
{
    char types[1024] = "";
    for (uint32_t o = 0; b->status == NEAP_OK && o < neap_graph_op_count(b->graph); o++) {
        const neap_op *op = neap_graph_op(b->graph, o);
        if (op->pass != NEAP_FORWARD || strcmp(op->type, "reshape") == 0 || o == 0)
            continue;
        strncat(types, op->type, sizeof types - strlen(types) - 2);
        strcat(types, " ");
    }
    if (b->status != NEAP_OK || strcmp(types, c->expected) != 0)
        fail_msg("%s: \"%s\" (%s)", c->nodes[0], types, b->diag.message);
}

static void assert_cases(const char *folder, const node_case *cases, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        onnx_built b = build_case(folder, &cases[i]);
        assert_types(&b, &cases[i]);
        onnx_clear(&b);
    }
}

#define ASSERT_CASES(state, cases) assert_cases(*(state), cases, sizeof(cases) / sizeof *(cases))

/* ---- Elements by their places ---- */

static void elements_are_picked(void **state)
{
    static const node_case cases[] = {
        {.input = "2,6,4",
         .tensors = {"b:1", "e:6", "a:1", "s:2"},
         .nodes = {"Slice x0,b,e,a,s y"},
         .loss = NEAP_ONNX_MSE,
         .expected = "gather mse "},
        {.input = "2,6,4",
         .tensors = {"b:-1", "e:-9", "a:1", "s:-1"},
         .nodes = {"Slice x0,b,e,a,s y"},
         .loss = NEAP_ONNX_MSE,
         .expected = "gather mse "},
        {.input = "2,6,4",
         .tensors = {"p:0,1,2,0,1,0"},
         .nodes = {"Pad x0,p y mode=reflect"},
         .loss = NEAP_ONNX_MSE,
         .expected = "gather gather mse "},
        {.input = "4,3",
         .tensors = {"i:0,2", "a:1", "u 2,3"},
         .nodes = {"Unsqueeze i,a j", "ScatterND x0,j,u y"},
         .loss = NEAP_ONNX_MSE,
         .expected = "concat gather mse "},
        {.input = "4,3",
         .tensors = {"i:2,1,0,-1", "a:1"},
         .nodes = {"Unsqueeze i,a j", "GatherElements x0,j y axis=1"},
         .loss = NEAP_ONNX_MSE,
         .expected = "gather mse "},
        {.input = "2,3,2,2,2,2", /* a part of one element, in six dimensions */
         .tensors = {"i:1"},
         .nodes = {"Gather x0,i y axis=1"},
         .loss = NEAP_ONNX_MSE,
         .expected = "slice mse "},
    };
    ASSERT_CASES(state, cases);
}

/* An index that counts from the end means another element of each extent. */
static void each_use_of_a_constant_has_its_own_contents(void **state)
{
    static const node_case c = {.input = "2,5,6",
                                .tensors = {"i:-1,0,-3"},
                                .nodes = {"Gather x0,i a axis=1", "Gather a,i y axis=2"},
                                .loss = NEAP_ONNX_MSE,
                                .expected = "gather gather mse "};
    static const int64_t wanted[2][3] = {{4, 0, 2}, {5, 0, 3}};
    int64_t found[3];
    uint32_t next = 0;
    bool known;
    neap_diag diag;
    onnx_built b = build_case(*state, &c);
    assert_types(&b, &c);
    for (uint32_t o = 0; o < neap_graph_op_count(b.graph); o++) {
        const neap_op *op = neap_graph_op(b.graph, o);
        if (op->pass != NEAP_FORWARD || strcmp(op->type, "gather") != 0)
            continue;
        const char *name = neap_graph_value(b.graph, op->inputs[1])->name;
        assert_int_equal(neap_onnx_fill(b.binding, name, NEAP_I64, found, 3, &known, &diag),
                         NEAP_OK);
        assert_true(known);
        assert_memory_equal(found, wanted[next], sizeof found);
        next++;
    }
    assert_int_equal(next, 2);
    onnx_clear(&b);
}

/* ---- Normalizations of constants ---- */

/* The kernels make the gradients of scale and bias together, whether they are trained or not. */
static void constant_scales_need_no_gradient(void **state)
{
    static const node_case cases[] = {
        {.input = "2,3,6",
         .tensors = {"g 6"},
         .nodes = {"LayerNormalization x0,g y"},
         .loss = NEAP_ONNX_MSE,
         .expected = "layer_norm mse "},
        {.input = "2,4,3,3",
         .constants = {"g 4", "b 4"},
         .nodes = {"InstanceNormalization x0,g,b y"},
         .loss = NEAP_ONNX_MSE,
         .expected = "group_norm mse "},
        {.input = "2,3,6",
         .constants = {"g 6"},
         .nodes = {"RMSNormalization x0,g y"},
         .loss = NEAP_ONNX_MSE,
         .opset = 23,
         .expected = "rms_norm mse "},
        {.input = "2,4,3,3",
         .tensors = {"g 2", "b 2"},
         .nodes = {"GroupNormalization x0,g,b y num_groups=2"},
         .loss = NEAP_ONNX_MSE,
         .opset = 18,
         .expected = "broadcast broadcast group_norm mse "},
    };
    ASSERT_CASES(state, cases);
}

/* ---- Products ---- */

static void products(void **state)
{
    static const node_case cases[] = {
        {.input = "2,3,4",
         .nodes = {"Einsum x0 y equation=bij->jb"},
         .loss = NEAP_ONNX_MSE,
         .expected = "sum_axes transpose mse "},
        {.input = "2,3,4",
         .tensors = {"v 4"},
         .nodes = {"MatMul x0,v y"},
         .loss = NEAP_ONNX_MSE,
         .expected = "matmul mse "},
        {.input = "2,5,6", /* channels, scaled behind a transpose */
         .tensors = {"w 6,4", "s 4,1"},
         .nodes = {"MatMul x0,w m", "Transpose m t perm=0,2,1", "Mul s,t u",
                   "Transpose u y perm=0,2,1"},
         .loss = NEAP_ONNX_MSE,
         .expected = "linear mul mse "},
        {.input = "2,4,5,6", /* two heads of keys, four of queries */
         .tensors = {"k 2,2,7,6", "v 2,2,7,3"},
         .nodes = {"Attention x0,k,v y"},
         .loss = NEAP_ONNX_MSE,
         .opset = 23,
         .expected = "matmul scale softmax matmul mse "},
        {.input = "2,4,5,6",
         .tensors = {"k 2,4,5,6", "v 2,4,5,6", "m 5,5"},
         .nodes = {"Attention x0,k,v,m y is_causal=1"},
         .loss = NEAP_ONNX_MSE,
         .opset = 23,
         .expected = "matmul scale expand add broadcast add softmax matmul mse "},
    };
    ASSERT_CASES(state, cases);
}

/* ---- Recurrent nodes, images, losses ---- */

static void other_compositions(void **state)
{
    static const node_case cases[] = {
        {.input = "1,2,3",
         .tensors = {"w 1,4,3", "r 1,4,4", "b 1,8"},
         .nodes = {"RNN x0,w,r,b y hidden_size=4"},
         .loss = NEAP_ONNX_MSE,
         .expected = "slice slice linear linear add tanh mse "},
        {.input = "2,4,9,8",
         .tensors = {"z:2,4,18,8"},
         .nodes = {"Resize x0,,,z y mode=cubic"},
         .loss = NEAP_ONNX_MSE,
         .expected = "transpose linear transpose mse "},
        {.input = "2,4,9",
         .tensors = {"z:2,4,5"},
         .nodes = {"Resize x0,,,z y mode=nearest"},
         .loss = NEAP_ONNX_MSE,
         .expected = "gather mse "},
        {.input = "2,5",
         .nodes = {"SoftmaxCrossEntropyLoss x0,labels_of_x y ignore_index=-100"},
         .loss = NEAP_ONNX_NO_LOSS,
         .expected = "xent "},
        {.input = "2,5",
         .nodes = {"LogSoftmax x0 l axis=1", "NegativeLogLikelihoodLoss l,labels_of_x y"},
         .loss = NEAP_ONNX_NO_LOSS,
         .expected = "xent "},
    };
    ASSERT_CASES(state, cases);
}

static void what_is_still_refused(void **state)
{
    static const node_case cases[] = {
        {.input = "3,3", .nodes = {"Einsum x0 y equation=ii->i"}, .expected = "does not compute"},
        {.input = "2,5",
         .nodes = {"NegativeLogLikelihoodLoss x0,labels_of_x y"},
         .expected = "after a LogSoftmax"},
        {.input = "2,5",
         .nodes = {"SoftmaxCrossEntropyLoss x0,labels_of_x y ignore_index=3"},
         .expected = "weighs all classes alike"},
        {.input = "4,3",
         .tensors = {"i:9", "a:1", "u 1,3"},
         .nodes = {"Unsqueeze i,a j", "ScatterND x0,j,u y"},
         .expected = "no element 9 of 4"},
        {.input = "2,6",
         .tensors = {"p:0,1,0,0"},
         .nodes = {"Pad x0,p y mode=odd"},
         .expected = "no mode"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        onnx_built b = build_case(*state, &cases[i]);
        if (b.status == NEAP_OK || !strstr(b.diag.message, cases[i].expected))
            fail_msg("%s: \"%s\"", cases[i].nodes[0], b.diag.message);
        onnx_clear(&b);
    }
}

/* ---- What is a weight ---- */

/* Layers that were copied and not trained yet are equal, and two weights. */
static void equal_layers_stay_two(void **state)
{
    neap_text graph = {0};
    float same[64];
    for (int i = 0; i < 64; i++)
        same[i] = (float)i;
    onnx_add_input(&graph, "x", 1, "2,8");
    onnx_add_output(&graph, "y");
    onnx_add_tensor(&graph, "first", 1, DIMS(8, 8), same, sizeof same);
    onnx_add_tensor(&graph, "second", 1, DIMS(8, 8), same, sizeof same);
    onnx_add_node(&graph, "MatMul x,first h");
    onnx_add_node(&graph, "MatMul h,second y");
    onnx_built b = onnx_build_graph(*state, &graph, NULL);
    onnx_assert_built(&b);
    assert_int_equal(neap_graph_parameter_count(b.graph), 128);
    assert_int_equal(neap_onnx_note_count(b.binding), 0);
    onnx_clear(&b);
}

/* What is added to scores so that a softmax makes them 0 is no weight. */
static void masks_are_not_trained(void **state)
{
    neap_text graph = {0};
    const float mask[9] = {0, -INFINITY, -INFINITY, 0, 0, -INFINITY, 0, 0, 0};
    onnx_add_input(&graph, "x", 1, "2,3,4");
    onnx_add_output(&graph, "y");
    onnx_add_floats(&graph, "w", DIMS(4, 3));
    onnx_add_tensor(&graph, "m", 1, DIMS(3, 3), mask, sizeof mask);
    onnx_add_node(&graph, "MatMul x,w s");
    onnx_add_node(&graph, "Add s,m t");
    onnx_add_node(&graph, "Softmax t p");
    onnx_add_node(&graph, "MatMul p,x y");
    onnx_built b = onnx_build_graph(*state, &graph, NULL);
    onnx_assert_built(&b);
    assert_int_equal(neap_graph_parameter_count(b.graph), 12);
    onnx_clear(&b);
}

/* What is compared is a buffer, and so is a first state of zeros. */
static void buffers_are_not_trained(void **state)
{
    static const node_case cases[] = {
        {.input = "2,3,3",
         .tensors = {"m 3,3", "d 3,3"},
         .nodes = {"Equal m,d q", "Where q,x0,x y"},
         .loss = NEAP_ONNX_MSE,
         .expected = "where mse "},
        {.input = "2,3,3", /* rows of scores that are all -inf are none of the data's */
         .tensors = {"s:0"},
         .nodes = {"Softmax x0 p", "IsNaN p q", "Cast s z to=1", "Where q,z,p y"},
         .loss = NEAP_ONNX_MSE,
         .expected = "softmax mse "},
    };
    ASSERT_CASES(state, cases);
    neap_text graph = {0};
    const float zeros[8] = {0};
    onnx_add_input(&graph, "x", 1, "3,2,3");
    onnx_add_output(&graph, "y");
    onnx_add_floats(&graph, "w", DIMS(1, 12, 3));
    onnx_add_floats(&graph, "r", DIMS(1, 12, 4));
    onnx_add_tensor(&graph, "h", 1, DIMS(1, 2, 4), zeros, sizeof zeros);
    onnx_add_node(&graph, "GRU x,w,r,,,h s,y hidden_size=4 linear_before_reset=1");
    onnx_built b = onnx_build_graph(*state, &graph, NULL);
    onnx_assert_built(&b);
    assert_int_equal(neap_graph_parameter_count(b.graph), 12 * 3 + 12 * 4);
    onnx_clear(&b);
}

/* In time that grows with their number alone, not with its cube. */
static void thousands_of_open_sizes_are_found(void **state)
{
    enum { COUNT = 5000 };
    neap_text graph = {0}, model = {0};
    neap_onnx *file;
    neap_diag diag;
    char name[32], dims[64];
    size_t found = 0;
    for (int i = 0; i < COUNT; i++) {
        snprintf(name, sizeof name, "x%d", i);
        snprintf(dims, sizeof dims, "batch,s%d,t", i);
        onnx_add_input(&graph, name, 1, dims);
    }
    onnx_add_output(&graph, "x0");
    onnx_make_model(&model, &graph, 0);
    char *path = onnx_write(&model, *state, "model.onnx");
    assert_int_equal(neap_onnx_open(NULL, path, &file, &diag), NEAP_OK);
    assert_string_equal(neap_onnx_open_size(file, 0), "s0");
    assert_string_equal(neap_onnx_open_size(file, 1), "t"); /* once, where it is first */
    assert_string_equal(neap_onnx_open_size(file, 2), "s1");
    while (neap_onnx_open_size(file, found))
        found++;
    assert_int_equal(found, COUNT + 1);
    neap_onnx_close(file);
    remove(path);
    free(path);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_folder, remove_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(elements_are_picked),
        TEST(each_use_of_a_constant_has_its_own_contents),
        TEST(constant_scales_need_no_gradient),
        TEST(products),
        TEST(other_compositions),
        TEST(what_is_still_refused),
        TEST(equal_layers_stay_two),
        TEST(masks_are_not_trained),
        TEST(buffers_are_not_trained),
        TEST(thousands_of_open_sizes_are_found),
    };
    if (!neap_onnx_available())
        return 0;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
