/* neap_op_count_work: unknown ops, sizes that overflow. op_cases.c has the figures. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "op_cases.h"

#include "graph/network_internal.h"

#include <string.h>

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

static neap_op_count count_named(const neap_graph *graph, const char *name)
{
    for (uint32_t o = 0; o < neap_graph_op_count(graph); o++)
        if (strcmp(neap_graph_op(graph, o)->name, name) == 0)
            return neap_op_count_work(graph, o);
    fail_msg("%s has no op \"%s\"", neap_graph_name(graph), name);
    return (neap_op_count){0};
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
    static const struct {
        const char *type;
        uint32_t least;
    } some[] = {{"conv2d", 2},    {"linear_bw_weight", 2}, {"relu", 1}, {"concat", 1},
                {"attention", 1}, {"attention_bw", 4},     {"nll", 2},  {"lstm_cell_bw", 1}};
    for (size_t i = 0; i < COUNT_OF(some); i++)
        assert_int_equal(neap_op_least_inputs(neap_op_def_find(some[i].type)->form), some[i].least);
    size_t count = 1;
    for (size_t i = 0; i < count; i++) {
        const char *type = neap_op_def_at(i, &count)->type;
        uint32_t least = neap_op_least_inputs(neap_op_def_at(i, &count)->form);
        for (uint32_t inputs = 0; inputs < least; inputs++)
            expect_unknown(&(plain_op){type, inputs, 1, NEAP_F32, 2, square, 0, NULL});
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
        else if (strcmp(def->type, "embedding") != 0 && strcmp(def->type, "gather") != 0 &&
                 strcmp(def->type, "nll") != 0)
            assert_int_equal(found.bytes_moved, INT64_MAX); /* those touch a part */
    }
    plain_op linear = {"linear", 2, 1, NEAP_U8, 4, huge, 0, NULL};
    linear.shape = (int64_t[]){1, INT64_C(1) << 20, INT64_C(1) << 10, INT64_C(1) << 32};
    assert_int_equal(count_plain(&linear).macs, INT64_MAX);
    assert_int_equal(count_plain(&linear).flops, INT64_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_attention_with_one_gradient_counts_all_keys),
        cmocka_unit_test(test_what_is_not_known_is_said_so),
        cmocka_unit_test(test_ops_with_too_few_values_are_not_known),
        cmocka_unit_test(test_counts_stop_at_the_largest_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
