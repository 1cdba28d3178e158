/* neap_op_count_work: figures computed by hand, ops it cannot know, sizes past all bounds. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "op_cases.h"

#include "graph/network_internal.h"

#include <string.h>

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

/* ---- By hand ---- */

static const struct expected {
    const char *name; /* of a case in op_cases.c */
    const char *op;
    int64_t macs, flops, bytes;
} expected[] = {
    /* y 2x6x3x4 = 144, patch 4/2 * 3*2 = 12; x 160, w 72, b 6 */
    {"conv2d", "op", 1728, 3456 + 144, 4 * (160 + 72 + 6 + 144)},
    {"conv2d", "op.bw_weight", 1728, 3456 + 144, 4 * (144 + 160 + 72 + 6)},
    {"conv2d", "op.bw_data", 1728, 3456, 4 * (144 + 72 + 160)},
    /* y 2x2x3x2 = 24, patch 3 * 2*3 = 18; x 96, w 36 */
    {"conv2d, plain", "op", 432, 864, 4 * (96 + 36 + 24)},
    {"conv2d, plain", "op.bw_weight", 432, 864, 4 * (24 + 96 + 36)},
    /* y 54, patch 2*9 = 18; x 36, w 54, b 3; one more for each of bias and relu */
    {"conv2d, relu", "op", 972, 1944 + 54 + 54, 4 * (36 + 54 + 3 + 54)},
    {"conv2d, relu", "op.relu_bw", 0, 54, 4 * (54 + 54 + 54)},
    /* x 2x4x3x2 = 48 times 6/2 * 3*2 = 18; y 432, w 72, b 6 */
    {"conv_transpose2d", "op", 864, 1728 + 432, 4 * (48 + 72 + 6 + 432)},
    {"conv_transpose2d", "op.bw_weight", 864, 1728 + 432, 4 * (432 + 48 + 72 + 6)},
    {"conv_transpose2d", "op.bw_data", 864, 1728, 4 * (432 + 72 + 48)},
    /* 6 rows, 4 to 5 features */
    {"linear", "op", 120, 240 + 30, 4 * (24 + 20 + 5 + 30)},
    {"linear", "op.bw_weight", 120, 240 + 30, 4 * (30 + 24 + 20 + 5)},
    {"linear", "op.bw_data", 120, 240, 4 * (30 + 20 + 24)},
    {"linear, plain", "op", 24, 48, 4 * (12 + 8 + 6)},
    {"linear, plain", "op.bw_weight", 24, 48, 4 * (6 + 12 + 8)},
    /* 12 elements */
    {"relu", "op", 0, 12, 96},
    {"relu", "op.bw", 0, 12, 144},
    {"relu6", "op", 0, 24, 96},
    {"relu6", "op.bw", 0, 24, 144},
    {"sigmoid", "op", 0, 48, 96},
    {"sigmoid", "op.bw", 0, 36, 144},
    {"tanh", "op", 0, 12, 96},
    {"tanh", "op.bw", 0, 36, 144},
    {"gelu", "op", 0, 108, 96},
    {"gelu", "op.bw", 0, 192, 144},
    {"dropout", "op", 0, 24, 48 + 48 + 12},
    {"dropout", "op.bw", 0, 24, 48 + 12 + 48},
    {"add", "op", 0, 12, 144},
    {"add, broadcast", "op", 0, 48, 4 * (48 + 12 + 48)},
    {"add, broadcast", "op.reduce", 0, 48, 4 * (48 + 12)},
    {"add, itself", "op", 0, 12, 144}, /* an operand that stands twice counts twice */
    {"mul", "op", 0, 12, 144},
    {"mul", "op.mul.1", 0, 12, 144},
    {"scale", "op", 0, 24, 96},
    {"pow", "op", 0, 12, 96},
    {"pow", "op.bw", 0, 36, 144},
    {"batch_norm", "op", 0, 8 * 24, 4 * (24 + 3 + 3 + 24 + 3 + 3)},
    {"batch_norm", "op.bw", 0, 11 * 24, 4 * (24 + 24 + 3 + 3 + 3 + 24 + 3 + 3)},
    {"batch_norm, matrix in f16", "op", 0, 8 * 12, 2 * (12 + 3 + 3 + 12) + 4 * (3 + 3)},
    {"layer_norm", "op", 0, 8 * 24, 4 * (24 + 4 + 4 + 24 + 6 + 6)},
    {"layer_norm", "op.bw", 0, 11 * 24, 4 * (24 + 24 + 4 + 6 + 6 + 24 + 4 + 4)},
    /* 36 windows of 6 on 64 elements */
    {"max_pool2d", "op", 0, 216, 4 * (64 + 36) + 36},
    {"max_pool2d", "op.bw", 0, 36, 4 * (36 + 64) + 36},
    {"max_pool2d, torch", "op", 0, 216, 4 * (64 + 36) + 8 * 36},
    {"max_pool2d, large", "op", 0, 540, 4 * (540 + 2) + 4 * 2},
    {"avg_pool2d", "op", 0, 216, 4 * (64 + 36)},
    {"avg_pool2d", "op.bw", 0, 216, 4 * (36 + 64)},
    {"adaptive_avg_pool2d", "op", 0, 80, 4 * (80 + 36)},
    {"adaptive_avg_pool2d", "op.bw", 0, 80, 4 * (36 + 80)},
    {"max_unpool2d", "op", 0, 0, 4 * (16 + 64) + 16},
    {"max_unpool2d", "op.bw", 0, 0, 4 * (64 + 16) + 16},
    {"upsample", "op", 0, 7 * 40, 4 * (12 + 40)},
    {"upsample", "op.bw", 0, 7 * 40, 4 * (40 + 12)},
    {"upsample, down", "op", 0, 7 * 40, 4 * (40 + 12)},
    {"concat", "op", 0, 0, 4 * (6 + 12 + 18 + 36)},
    {"concat", "op.slice", 0, 0, 0},
    {"slice", "op", 0, 0, 0},
    {"slice", "op.bw", 0, 0, 4 * (18 + 30)},
    {"split", "op", 0, 0, 0},
    {"split", "op.concat", 0, 0, 4 * (24 + 24)},
    {"reshape", "op", 0, 0, 0},
    {"transpose", "op", 0, 0, 4 * (48 + 48)},
    {"expand", "op", 0, 0, 4 * (3 + 12)},
    {"expand", "op.reduce", 0, 12, 4 * (12 + 3)},
    {"pad2d", "op", 0, 0, 4 * (24 + 112)},
    {"pad2d", "op.bw", 0, 0, 4 * (112 + 24)},
    /* 12 ids, rows of 3: each row is read and written */
    {"embedding", "op", 0, 0, 8 * 12 + 4 * (36 + 36)},
    {"embedding", "op.bw", 0, 36, 4 * 36 + 8 * 12 + 4 * 15},
    /* N 2, Tq 3, Tk 5, C 4: a product is 120; 2 heads x 30 scores */
    {"attention", "op", 240, 480 + 5 * 60, 4 * (24 + 40 + 40 + 24 + 12)},
    {"attention", "op.bw", 600, 1200 + 8 * 60, 4 * (24 + 24 + 40 + 40 + 24 + 12 + 24 + 40 + 40)},
    {"attention, causal", "op", 120, 240 + 5 * 30, 4 * (24 + 40 + 40 + 24 + 12)},
    {"attention, causal", "op.bw", 300, 600 + 8 * 30, 4 * (24 + 24 + 40 + 40 + 24 + 12 + 104)},
    /* N 2, T 3, C 4: 72, half of it; lse in f32 */
    {"attention, packed", "op", 144, 288 + 5 * 36, 4 * (72 + 24 + 12)},
    {"attention, packed", "op.bw", 360, 720 + 8 * 36, 4 * (24 + 72 + 24 + 12 + 72)},
    {"attention, packed and causal in f16", "op", 72, 144 + 5 * 18, 2 * (72 + 24) + 4 * 12},
    {"attention, packed and causal in f16", "op.bw", 180, 360 + 8 * 18,
     2 * (24 + 72 + 24 + 72) + 4 * 12},
    {"lstm_cell", "op", 0, 18 * 6, 4 * (24 + 6 + 6 + 6 + 24)},
    {"lstm_cell", "op.bw", 0, 6 * 24, 4 * (6 + 6 + 24 + 6 + 6 + 24 + 6)},
    {"xent", "op", 0, 4 * 12, 4 * 12 + 8 * 3 + 4 + 4 * 3},
    {"xent", "op.bw", 0, 4 * 12, 4 + 4 * 12 + 8 * 3 + 4 * 3 + 4 * 12},
    {"nll", "op.log_softmax", 0, 4 * 12, 4 * (12 + 12)},
    {"nll", "op.log_softmax.bw", 0, 3 * 12, 4 * (12 + 12 + 12)},
    {"nll", "op", 0, 3, 3 * (4 + 8) + 4}, /* one entry a row */
    {"nll", "op.bw", 0, 0, 4 + 8 * 3 + 4 * 12},
};

static neap_graph *graph_of(const char *name)
{
    for (size_t i = 0; i < n_op_cases; i++)
        if (strcmp(op_cases[i].name, name) == 0)
            return op_case_graph(&op_cases[i]);
    fail_msg("no case \"%s\"", name);
    return NULL;
}

static neap_op_count count_named(const neap_graph *graph, const char *name)
{
    for (uint32_t o = 0; o < neap_graph_op_count(graph); o++)
        if (strcmp(neap_graph_op(graph, o)->name, name) == 0)
            return neap_op_count_work(graph, o);
    fail_msg("%s has no op \"%s\"", neap_graph_name(graph), name);
    return (neap_op_count){0};
}

static void test_counts_equal_those_by_hand(void **state)
{
    (void)state;
    bool failed = false;
    for (size_t i = 0; i < COUNT_OF(expected); i++) {
        const struct expected *e = &expected[i];
        neap_graph *graph = graph_of(e->name);
        neap_op_count found = count_named(graph, e->op);
        if (!found.known || found.macs != e->macs || found.flops != e->flops ||
            found.bytes_moved != e->bytes) {
            print_error("%s, %s: %lld MACs, %lld FLOPs, %lld bytes, not %lld, %lld, %lld\n",
                        e->name, e->op, (long long)found.macs, (long long)found.flops,
                        (long long)found.bytes_moved, (long long)e->macs, (long long)e->flops,
                        (long long)e->bytes);
            failed = true;
        }
        neap_graph_destroy(graph);
    }
    assert_false(failed);
}

/* Every type is among them, but for the like of another. */
static void test_every_type_is_counted_once(void **state)
{
    (void)state;
    bool found = true;
    size_t count = 1;
    for (size_t t = 0; t < count && found; t++) {
        const op_def *def = neap_op_def_at(t, &count);
        found = false;
        for (size_t i = 0; i < COUNT_OF(expected) && !found; i++) {
            neap_graph *graph = graph_of(expected[i].name);
            for (uint32_t o = 0; o < neap_graph_op_count(graph); o++)
                found = found || (strcmp(neap_graph_op(graph, o)->name, expected[i].op) == 0 &&
                                  strcmp(neap_graph_op(graph, o)->type, def->type) == 0);
            neap_graph_destroy(graph);
        }
        if (!found)
            fail_msg("no figure for the op type \"%s\"", def->type);
    }
}

/* Attention to other words of which only the queries want a gradient: Tq 2, Tk 7, C 4. */
static void test_attention_with_one_gradient_counts_all_keys(void **state)
{
    (void)state;
    neap_network *net;
    neap_graph *graph;
    assert_int_equal(neap_network_create(NULL, "cross", NEAP_F32, &net, NULL), NEAP_OK);
    neap_tensor q = neap_net_parameter(net, "q", SHAPE(1, 2, 4));
    neap_tensor words = neap_net_input(net, "words", NEAP_F32, SHAPE(1, 7, 4));
    neap_tensor o = neap_net_attention(net, "op", q, words, words, 2, false, 0);
    neap_tensor loss = neap_net_cross_entropy(net, "loss", o,
                                              neap_net_input(net, "labels", NEAP_I64, SHAPE(1, 4)));
    assert_int_equal(neap_network_finish(net, loss, NULL, &graph, NULL), NEAP_OK);
    assert_int_equal(count_named(graph, "op").macs, 2 * 56);
    assert_int_equal(count_named(graph, "op.bw").macs, 5 * 56);
    assert_int_equal(count_named(graph, "op.bw").flops, 2 * 5 * 56 + 8 * 2 * 14);
    neap_graph_destroy(graph);
    neap_network_destroy(net);
}

/* ---- Ops of a file ---- */

/* An op with values of one shape; rank 0 for none. */
typedef struct plain_op {
    const char *type;
    uint32_t n_inputs, n_outputs;
    neap_dtype dtype;
    uint32_t rank;
    const int64_t *shape;
    uint32_t n_attrs;
    const neap_attr *attrs;
} plain_op;

static neap_op_count count_plain(const plain_op *plain)
{
    uint32_t ids[16];
    neap_graph_builder *builder;
    neap_graph *graph;
    neap_diag diag = {0};
    assert_true(plain->n_inputs + plain->n_outputs <= COUNT_OF(ids));
    assert_int_equal(neap_graph_builder_create(NULL, "plain", &builder, NULL), NEAP_OK);
    for (uint32_t i = 0; i < plain->n_inputs + plain->n_outputs; i++) {
        neap_value_desc value;
        neap_value_desc_init(&value);
        value.dtype = plain->dtype;
        value.rank = plain->rank;
        value.shape = plain->shape;
        assert_int_equal(neap_graph_builder_add_value(builder, &value, &ids[i], NULL), NEAP_OK);
    }
    neap_op_desc op;
    neap_op_desc_init(&op);
    op.type = plain->type;
    op.n_inputs = plain->n_inputs;
    op.n_outputs = plain->n_outputs;
    op.inputs = ids;
    op.outputs = ids + plain->n_inputs;
    op.n_attrs = plain->n_attrs;
    op.attrs = plain->attrs;
    assert_int_equal(neap_graph_builder_add_op(builder, &op, NULL, NULL), NEAP_OK);
    if (neap_graph_builder_finish(builder, &graph, &diag) != NEAP_OK)
        fail_msg("%s: %s", plain->type, diag.message);
    neap_op_count count = neap_op_count_work(graph, 0);
    neap_graph_destroy(graph);
    neap_graph_builder_destroy(builder);
    return count;
}

static void expect_unknown(const plain_op *plain)
{
    neap_op_count count = count_plain(plain);
    if (count.known || count.macs || count.flops || count.bytes_moved)
        fail_msg("%s of %u values is said to be known", plain->type, plain->n_inputs);
}

static const int64_t square[] = {3, 3}, seven[7] = {1, 1, 1, 1, 1, 1, 1};

static void test_what_is_not_known_is_said_so(void **state)
{
    (void)state;
    plain_op op = {"relu", 1, 1, NEAP_F32, 2, square, 0, NULL};
    assert_true(count_plain(&op).known);
    assert_int_equal(count_plain(&op).bytes_moved, 72);
    op.type = "aten::relu";
    expect_unknown(&op);
    op.type = "";
    expect_unknown(&op);
    op.type = "relu";
    op.dtype = NEAP_DTYPE_UNKNOWN;
    expect_unknown(&op);
    op.dtype = NEAP_F32;
    op.rank = 0;
    expect_unknown(&op);
    op.rank = 7; /* more than any tensor of a network */
    op.shape = seven;
    expect_unknown(&op);
}

/* A file may call its ops as neap does and list fewer values: a linear layer without its weight. */
static void test_ops_with_too_few_values_are_not_known(void **state)
{
    (void)state;
    static const char *const products[] = {"conv2d",
                                           "conv2d_bw_data",
                                           "conv2d_bw_weight",
                                           "conv_transpose2d",
                                           "linear",
                                           "linear_bw_data",
                                           "linear_bw_weight",
                                           "conv_transpose2d_bw_data",
                                           "attention_bw",
                                           "conv_transpose2d_bw_weight",
                                           "nll"};
    for (size_t i = 0; i < COUNT_OF(products); i++)
        expect_unknown(&(plain_op){products[i], 1, 1, NEAP_F32, 2, square, 0, NULL});
    size_t count = 1;
    for (size_t i = 0; i < count; i++) {
        const char *type = neap_op_def_at(i, &count)->type;
        expect_unknown(&(plain_op){type, 0, 1, NEAP_F32, 2, square, 0, NULL});
        expect_unknown(&(plain_op){type, 1, 0, NEAP_F32, 2, square, 0, NULL});
        for (uint32_t operands = 1; operands < 8; operands++) /* whatever they are, no harm */
            for (uint32_t rank = 1; rank <= NEAP_MAX_RANK; rank++)
                (void)count_plain(
                    &(plain_op){type, operands, 1 + operands / 2, NEAP_F32, rank, seven, 0, NULL});
    }
}

/* Values of 2^61 elements, attributes of 2^63 - 1: counts stop at INT64_MAX. */
static void test_counts_stop_at_the_largest_number(void **state)
{
    (void)state;
    static const int64_t huge[] = {INT64_C(1) << 20, INT64_C(1) << 20, INT64_C(1) << 21, 1};
    static const neap_attr attrs[] = {
        {"heads", false, INT64_MAX, 0},    {"kernel_h", false, INT64_MAX, 0},
        {"kernel_w", false, INT64_MAX, 0}, {"bias", false, INT64_MAX, 0},
        {"relu", false, INT64_MAX, 0},
    };
    size_t count = 1;
    for (size_t i = 0; i < count; i++) {
        const op_def *def = neap_op_def_at(i, &count);
        plain_op op = {def->type, 6, 3, NEAP_U8, 4, huge, COUNT_OF(attrs), attrs};
        neap_op_count found = count_plain(&op);
        assert_true(found.known);
        assert_true(found.macs >= 0 && found.flops >= 0 && found.bytes_moved >= 0);
        assert_true(found.flops >= found.macs);
        if (def->view)
            assert_int_equal(found.bytes_moved, 0);
        else if (strcmp(def->type, "embedding") != 0 && strcmp(def->type, "nll") != 0)
            assert_int_equal(found.bytes_moved, INT64_MAX); /* those two touch a part */
    }
    plain_op linear = {"linear", 2, 1, NEAP_U8, 4, huge, 0, NULL};
    linear.shape = (int64_t[]){1, INT64_C(1) << 20, INT64_C(1) << 10, INT64_C(1) << 32};
    assert_int_equal(count_plain(&linear).macs, INT64_MAX);
    assert_int_equal(count_plain(&linear).flops, INT64_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_counts_equal_those_by_hand),
        cmocka_unit_test(test_every_type_is_counted_once),
        cmocka_unit_test(test_attention_with_one_gradient_counts_all_keys),
        cmocka_unit_test(test_what_is_not_known_is_said_so),
        cmocka_unit_test(test_ops_with_too_few_values_are_not_known),
        cmocka_unit_test(test_counts_stop_at_the_largest_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
