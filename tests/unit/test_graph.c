/*
 * The graph: the builder, every rule with its message, and what is derived from a valid one -
 * storages, readers, base and floor bytes, ticks.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cpu_seconds.h"
#include "random_plan.h"
#include "small_graphs.h"

#include <neap/graph.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

/* A graph in JSON with ' for ". */
#define GRAPH(values, ops, outputs)                                                                \
    "{'neap':'graph','version':1,'values':[" values "],'ops':[" ops "],'outputs':[" outputs "]}"
#define V      "{'bytes':1}"
#define OP(in) "{'name':'" in "','time':1,'inputs':["

/* ---- The builder ---- */

static neap_graph_builder *new_builder(void)
{
    neap_graph_builder *builder;
    assert_int_equal(neap_graph_builder_create(NULL, "built", &builder, NULL), NEAP_OK);
    return builder;
}

static uint32_t add_value(neap_graph_builder *builder, int64_t bytes, uint32_t view_of)
{
    neap_value_desc desc;
    uint32_t id = 77;
    neap_value_desc_init(&desc);
    desc.bytes = bytes;
    desc.view_of = view_of;
    assert_int_equal(neap_graph_builder_add_value(builder, &desc, &id, NULL), NEAP_OK);
    return id;
}

static uint32_t add_op(neap_graph_builder *builder, uint32_t n_inputs, const uint32_t *inputs,
                       uint32_t output, double seconds)
{
    neap_op_desc desc;
    neap_variant variant = {.seconds = seconds};
    uint32_t id = 77;
    neap_op_desc_init(&desc);
    desc.n_inputs = n_inputs;
    desc.inputs = inputs;
    desc.n_outputs = 1;
    desc.outputs = &output;
    desc.n_variants = 1;
    desc.variants = &variant;
    assert_int_equal(neap_graph_builder_add_op(builder, &desc, &id, NULL), NEAP_OK);
    return id;
}

static neap_graph *finish(neap_graph_builder *builder)
{
    neap_graph *graph = NULL;
    neap_diag diag = {0};
    if (neap_graph_builder_finish(builder, &graph, &diag) != NEAP_OK)
        fail_msg("%s", diag.message);
    neap_graph_builder_destroy(builder);
    return graph;
}

static void test_builder_defaults(void **state)
{
    (void)state;
    neap_graph_builder *builder = new_builder();
    neap_value_desc value;
    neap_op_desc op;
    neap_value_desc_init(&value);
    neap_op_desc_init(&op);
    assert_int_equal(neap_graph_builder_add_value(builder, &value, NULL, NULL), NEAP_OK);
    uint32_t id, output = 1;
    op.n_outputs = 1;
    op.outputs = &output; /* does not exist yet */
    assert_int_equal(neap_graph_builder_add_op(builder, &op, &id, NULL), NEAP_OK);
    assert_int_equal(id, 0);
    assert_int_equal(neap_graph_builder_add_value(builder, &value, &id, NULL), NEAP_OK);
    assert_int_equal(id, 1);
    neap_graph *graph = finish(builder);

    assert_string_equal(neap_graph_name(graph), "built");
    assert_int_equal(neap_graph_op_count(graph), 1);
    assert_int_equal(neap_graph_value_count(graph), 2);
    const neap_value *v = neap_graph_value(graph, 0);
    assert_string_equal(v->name, "v0");
    assert_string_equal(v->kind, NEAP_KIND_ACTIVATION);
    assert_int_equal(v->bytes, 0);
    assert_int_equal(v->view_of, NEAP_NONE);
    assert_int_equal(v->storage, 0);
    assert_int_equal(v->producer, NEAP_NONE);
    assert_int_equal(v->dtype, NEAP_DTYPE_UNKNOWN);
    assert_int_equal(v->rank, 0);
    assert_null(v->extra);
    const neap_op *o = neap_graph_op(graph, 0);
    assert_string_equal(o->name, "op0");
    assert_string_equal(o->type, "op");
    assert_int_equal(o->pass, NEAP_FORWARD);
    assert_int_equal(o->n_inputs, 0);
    assert_int_equal(o->n_variants, 1);
    assert_true(o->variants[0].seconds == 0);
    assert_int_equal(o->variants[0].workspace, 0);
    assert_false(o->lists_variants || o->random);
    assert_int_equal(o->in_place_input, NEAP_NONE);
    assert_int_equal(o->in_place_output, NEAP_NONE);
    assert_int_equal(o->flops, -1);
    assert_int_equal(o->bytes_moved, -1);
    assert_int_equal(o->n_attrs, 0);
    assert_int_equal(neap_graph_value(graph, 1)->producer, 0);
    neap_graph_destroy(graph);
}

/* What is given may be gone, or changed, once the call returns. */
static void test_builder_copies(void **state)
{
    (void)state;
    char name[] = "name", kind[] = "kind", type[] = "type", extra[] = "\"a\":1", attr[] = "attr";
    int64_t shape[] = {2, 3};
    uint32_t inputs[] = {0, 0}, outputs[] = {1};
    neap_variant variants[] = {{.seconds = 1, .workspace = 5}, {.seconds = 2}};
    neap_attr attrs[] = {{.name = attr, .integer = 9}};
    neap_graph_builder *builder = new_builder();
    neap_value_desc value;
    neap_op_desc op;
    neap_value_desc_init(&value);
    value.name = name;
    value.kind = kind;
    value.bytes = 24;
    value.dtype = NEAP_F32;
    value.rank = 2;
    value.shape = shape;
    value.extra = extra;
    neap_op_desc_init(&op);
    op.name = name;
    op.type = type;
    op.n_inputs = 2;
    op.inputs = inputs;
    op.n_outputs = 1;
    op.outputs = outputs;
    op.n_variants = 2;
    op.variants = variants;
    op.in_place_input = 0;
    op.in_place_output = 1;
    op.n_attrs = 1;
    op.attrs = attrs;
    op.extra = extra;
    assert_int_equal(neap_graph_builder_add_value(builder, &value, NULL, NULL), NEAP_OK);
    assert_int_equal(neap_graph_builder_add_value(builder, &value, NULL, NULL), NEAP_OK);
    assert_int_equal(neap_graph_builder_add_op(builder, &op, NULL, NULL), NEAP_OK);
    assert_int_equal(neap_graph_builder_add_output(builder, 1, NULL), NEAP_OK);
    neap_graph_builder_set_fixed_bytes(builder, 6);
    name[0] = kind[0] = type[0] = extra[1] = attr[0] = 'X';
    shape[0] = inputs[0] = outputs[0] = 99;
    variants[0].workspace = attrs[0].integer = 99;
    neap_graph *graph = finish(builder);

    const neap_value *v = neap_graph_value(graph, 0);
    const neap_op *o = neap_graph_op(graph, 0);
    assert_string_equal(v->name, "name");
    assert_string_equal(v->kind, "kind");
    assert_string_equal(v->extra, "\"a\":1");
    assert_int_equal(v->shape[0], 2);
    assert_string_equal(o->name, "name");
    assert_string_equal(o->type, "type");
    assert_string_equal(o->extra, "\"a\":1");
    assert_int_equal(o->inputs[0], 0);
    assert_int_equal(o->outputs[0], 1);
    assert_int_equal(o->variants[0].workspace, 5);
    assert_true(o->lists_variants); /* there are two */
    assert_string_equal(o->attrs[0].name, "attr");
    assert_int_equal(o->attrs[0].integer, 9);
    assert_int_equal(neap_graph_fixed_bytes(graph), 6);
    assert_int_equal(neap_graph_base_bytes(graph), 30);
    neap_graph_destroy(graph);
}

static void test_builder_is_empty_after_finish(void **state)
{
    (void)state;
    neap_graph_builder *builder = new_builder();
    neap_graph *graph;
    add_value(builder, 5, NEAP_NONE);
    assert_int_equal(neap_graph_builder_finish(builder, &graph, NULL), NEAP_OK);
    neap_graph_builder_destroy(builder); /* does not take the graph along */
    assert_int_equal(neap_graph_base_bytes(graph), 5);
    neap_graph_destroy(graph);
    neap_graph_builder_destroy(NULL);
    neap_graph_destroy(NULL);
}

/* A builder whose graph is refused keeps it, and can still be destroyed. */
static void test_builder_refused(void **state)
{
    (void)state;
    static const double times[] = {(double)NAN, HUGE_VAL, -HUGE_VAL, -1e-300};
    static const char *const said[] = {"nan", "inf", "-inf", "-1e-300"};
    for (size_t i = 0; i < COUNT_OF(times); i++) {
        neap_graph_builder *builder = new_builder();
        neap_graph *graph = (neap_graph *)builder;
        neap_diag diag = {0};
        char expected[128], *nan_sign;
        add_op(builder, 0, NULL, add_value(builder, 1, NEAP_NONE), times[i]);
        assert_int_equal(neap_graph_builder_finish(builder, &graph, &diag), NEAP_INVALID);
        assert_null(graph);
        if ((nan_sign = strstr(diag.message, "-nan"))) /* the sign of a NaN is anyone's guess */
            memmove(nan_sign, nan_sign + 1, strlen(nan_sign));
        snprintf(expected, sizeof expected,
                 "op 0 \"op0\": the time of variant 0 must be finite and 0 or more, not %s",
                 said[i]);
        assert_string_equal(diag.message, expected);
        assert_int_equal(neap_graph_builder_finish(builder, &graph, NULL), NEAP_INVALID);
        neap_graph_builder_destroy(builder);
    }
}

/* ---- Rules ---- */

static void expect_refused(const char *json, const char *message)
{
    size_t length = strlen(json);
    char *text = malloc(length + 1);
    assert_non_null(text);
    for (size_t i = 0; i <= length; i++)
        text[i] = json[i] == '\'' ? '"' : json[i];
    neap_graph *graph = (neap_graph *)text;
    neap_diag diag = {0};
    neap_status status = neap_graph_read_text(NULL, text, length, "t", &graph, &diag);
    free(text);
    if (status != NEAP_INVALID)
        fail_msg("accepted: %s", json);
    assert_null(graph);
    assert_int_equal(diag.status, NEAP_INVALID);
    assert_string_equal(diag.message, message);
}

static void test_order(void **state)
{
    (void)state;
    expect_refused(GRAPH(V "," V, OP("a") "1],'outputs':[0]}," OP("b") "0],'outputs':[1]}", ""),
                   "t: op 0 \"a\": is part of a cycle: \"a\" -> \"b\" -> \"a\"");
    expect_refused(GRAPH(V, OP("a") "0],'outputs':[0]}", ""),
                   "t: op 0 \"a\": is part of a cycle: \"a\" -> \"a\"");
    expect_refused(GRAPH(V "," V "," V "," V,
                         OP("z") "],'outputs':[3]}," OP("a") "2,3],'outputs':[0]}," OP(
                             "b") "0],'outputs':[1]}," OP("c") "1],'outputs':[2]}",
                         ""),
                   "t: op 1 \"a\": is part of a cycle: \"a\" -> \"b\" -> \"c\" -> \"a\"");
    expect_refused(GRAPH(V "," V, OP("a") "1],'outputs':[0]}," OP("b") "],'outputs':[1]}", ""),
                   "t: op 0 \"a\": reads value 1 \"v1\", which op 1 \"b\" produces later; ops must "
                   "be listed in execution order");
}

/* A cycle of n ops: each reads what the one before makes, the first what the last makes. */
static void read_cycle(int n, char *message)
{
    char json[8192] = "{\"neap\":\"graph\",\"version\":1,\"outputs\":[],\"values\":[";
    size_t length = strlen(json);
    for (int i = 0; i < n; i++)
        length +=
            (size_t)snprintf(json + length, sizeof json - length, "%s{\"bytes\":1}", i ? "," : "");
    length += (size_t)snprintf(json + length, sizeof json - length, "],\"ops\":[");
    for (int i = 0; i < n; i++)
        length += (size_t)snprintf(json + length, sizeof json - length,
                                   "%s{\"time\":0,\"inputs\":[%d],\"outputs\":[%d]}", i ? "," : "",
                                   (i + n - 1) % n, i);
    length += (size_t)snprintf(json + length, sizeof json - length, "]}");
    neap_graph *graph;
    neap_diag diag = {0};
    assert_int_equal(neap_graph_read_text(NULL, json, length, "t", &graph, &diag), NEAP_INVALID);
    strcpy(message, diag.message);
}

static void test_long_cycles(void **state)
{
    (void)state;
    char message[NEAP_DIAG_CAPACITY];
    read_cycle(8, message);
    assert_string_equal(message,
                        "t: op 0 \"op0\": is part of a cycle: \"op0\" -> \"op1\" -> \"op2\" "
                        "-> \"op3\" -> \"op4\" -> \"op5\" -> \"op6\" -> \"op7\" -> \"op0\"");
    read_cycle(9, message);
    assert_string_equal(message,
                        "t: op 0 \"op0\": is part of a cycle: \"op0\" -> \"op1\" -> \"op2\" -> "
                        "\"op3\" -> \"op4\" -> \"op5\" -> \"op6\" -> \"op7\" -> ... -> \"op0\"");
    read_cycle(100, message);
    assert_non_null(strstr(message, "\"op7\" -> ... -> \"op0\""));
}

static void test_ids_and_producers(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {GRAPH(V, OP("a") "0,7],'outputs':[]}", ""),
         "t: op 0 \"a\": input 1 is value 7, but there are 1 values"},
        {GRAPH(V, OP("a") "],'outputs':[1]}", ""),
         "t: op 0 \"a\": output 0 is value 1, but there are 1 values"},
        {GRAPH("", OP("a") "4294967294],'outputs':[]}", ""),
         "t: op 0 \"a\": input 0 is value 4294967294, but there are 0 values"},
        {GRAPH(V, "", "0,1"), "t: output 1 is value 1, but there are 1 values"},
        {GRAPH(V, OP("a") "],'outputs':[0]}," OP("b") "],'outputs':[0]}", ""),
         "t: value 0 \"v0\": has two producers, op 0 \"a\" and op 1 \"b\""},
        {GRAPH(V, OP("a") "],'outputs':[0,0]}", ""),
         "t: op 0 \"a\": lists its output value 0 \"v0\" twice"},
        {GRAPH("{'bytes':1,'kind':'input','name':'x'}", OP("a") "],'outputs':[0]}", ""),
         "t: value 0 \"x\": is of kind \"input\", but op 0 \"a\" produces it"},
        {GRAPH("{'bytes':1,'kind':'parameter'}", OP("a") "],'outputs':[0]}", ""),
         "t: value 0 \"v0\": is of kind \"parameter\", but op 0 \"a\" produces it"},
        {GRAPH(V "," V, OP("a") "0],'outputs':[1],'in_place':[1,0]}", ""),
         "t: op 0 \"a\": in_place must name one of its inputs and one of its outputs, as value "
         "ids"},
        {GRAPH(V "," V, OP("a") "0],'outputs':[1],'in_place':[0,0]}", ""),
         "t: op 0 \"a\": in_place must name one of its inputs and one of its outputs, as value "
         "ids"},
        {GRAPH(V "," V, OP("a") "0],'outputs':[1],'in_place':[9,1]}", ""),
         "t: op 0 \"a\": in_place must name one of its inputs and one of its outputs, as value "
         "ids"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++)
        expect_refused(cases[i][0], cases[i][1]);
}

static void test_sizes_and_times(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {GRAPH("{'bytes':-1,'name':'x'}", "", ""), "t: value 0 \"x\": bytes is negative: -1"},
        {"{'neap':'graph','version':1,'fixed_bytes':-5,'values':[],'ops':[],'outputs':[]}",
         "t: fixed_bytes is negative: -5"},
        {GRAPH("{'bytes':9223372036854775807},{'bytes':1}", "", ""),
         "t: value 1 \"v1\": the sum of all sizes overflows 63 bits here"},
        {"{'neap':'graph','version':1,'fixed_bytes':9223372036854775807,'values':[{'bytes':1}],"
         "'ops':[],'outputs':[]}",
         "t: value 0 \"v0\": the sum of all sizes overflows 63 bits here"},
        {GRAPH("{'bytes':9223372036854775800}", OP("a") "],'outputs':[0],'workspace':8}", ""),
         "t: op 0 \"a\": its workspace and all values together overflow 63 bits"},
        {GRAPH("{'bytes':9223372036854775800}",
               OP("a") "],'outputs':[0],'workspace':1,'variants':[{'time':1,'workspace':1},"
                       "{'time':1,'workspace':9}]}",
               ""),
         "t: op 0 \"a\": its workspace and all values together overflow 63 bits"},
        {GRAPH("", OP("a") "],'outputs':[],'workspace':-3}", ""),
         "t: op 0 \"a\": the workspace of variant 0 is negative: -3"},
        {GRAPH("", OP("a") "],'outputs':[],'variants':[{'time':1},{'time':2,'workspace':-1}]}", ""),
         "t: op 0 \"a\": the workspace of variant 1 is negative: -1"},
        {GRAPH("", "{'inputs':[],'outputs':[],'time':-0.5}", ""),
         "t: op 0 \"op0\": the time of variant 0 must be finite and 0 or more, not -0.5"},
        {GRAPH("", OP("a") "],'outputs':[],'variants':[{'time':1},{'time':-1}]}", ""),
         "t: op 0 \"a\": the time of variant 1 must be finite and 0 or more, not -1"},
        {GRAPH("{'bytes':1,'shape':[2,-3]}", "", ""),
         "t: value 0 \"v0\": shape has a negative extent -3"},
        {GRAPH("{'bytes':1,'shape':[4294967296,4294967296]}", "", ""),
         "t: value 0 \"v0\": its shape overflows 63 bits"},
        {GRAPH("{'bytes':1,'dtype':'f64','shape':[1152921504606846976]}", "", ""),
         "t: value 0 \"v0\": its shape overflows 63 bits"},
        {GRAPH("", "{'inputs':[],'outputs':[],'time':1.1e15}", ""),
         "t: the ops' times sum to more than 1e15 seconds; scale them down"},
        {GRAPH("", "{'inputs':[],'outputs':[],'time':6e14},{'inputs':[],'outputs':[],'time':6e14}",
               ""),
         "t: the ops' times sum to more than 1e15 seconds; scale them down"},
        {GRAPH("",
               "{'inputs':[],'outputs':[],'time':1e308},{'inputs':[],'outputs':[],'time':1e308}",
               ""),
         "t: the ops' times sum to more than 1e15 seconds; scale them down"},
        {GRAPH("", OP("a") "],'outputs':[],'variants':[{'time':1},{'time':2e15}]}", ""),
         "t: the ops' times sum to more than 1e15 seconds; scale them down"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++)
        expect_refused(cases[i][0], cases[i][1]);
    neap_graph *graph = graph_from(
        GRAPH("{'bytes':9223372036854775800}", OP("a") "],'outputs':[0],'workspace':7}", "0"));
    assert_int_equal(neap_graph_floor_bytes(graph, NULL), INT64_MAX);
    neap_graph_destroy(graph);
}

static void test_view_rules(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {GRAPH(V ",{'bytes':3,'view_of':0}", "", ""),
         "t: value 1 \"v1\": a view owns no storage, its bytes must be 0, not 3"},
        {GRAPH("{'bytes':0,'view_of':9}", "", ""),
         "t: value 0 \"v0\": view_of names value 9, but there are 1 values"},
        {GRAPH("{'bytes':0,'view_of':0,'name':'me'}", "", ""),
         "t: value 0 \"me\": is a view of itself, through view_of"},
        {GRAPH(V ",{'bytes':0,'view_of':3},{'bytes':0,'view_of':1},{'bytes':0,'view_of':2}", "",
               ""),
         "t: value 1 \"v1\": is a view of itself, through view_of"},
        {GRAPH("{'bytes':0,'view_of':1},{'bytes':0,'view_of':2},{'bytes':0,'view_of':1}", "", ""),
         "t: value 1 \"v1\": is a view of itself, through view_of"},
        {GRAPH(V ",{'bytes':0,'view_of':0}," V, OP("a") "2],'outputs':[1]}", ""),
         "t: value 1 \"v1\": is a view on value 0 \"v0\", but op 0 \"a\" neither reads nor "
         "produces "
         "that storage"},
        {GRAPH(V ",{'bytes':0,'view_of':0}", OP("a") "],'outputs':[0]}", ""),
         "t: value 1 \"v1\": no op produces it, so it must be a view of an input, not of value 0 "
         "\"v0\""},
        /* Made by the op that makes another view of the storage, but does not touch the storage. */
        {GRAPH(V ",{'bytes':0,'view_of':0},{'bytes':0,'view_of':1}",
               OP("a") "],'outputs':[0]}," OP("b") "],'outputs':[1,2]}", ""),
         "t: value 1 \"v1\": is a view on value 0 \"v0\", but op 1 \"b\" neither reads nor "
         "produces "
         "that storage"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++)
        expect_refused(cases[i][0], cases[i][1]);
}

static void test_views_that_are_fine(void **state)
{
    (void)state;
    /* An input on an input; made with its storage; made from a view of it; standing before it. */
    neap_graph *graph = graph_from(GRAPH(
        "{'bytes':0,'view_of':1},{'bytes':7,'kind':'input'},{'bytes':5},{'bytes':0,'view_of':2},"
        "{'bytes':0,'view_of':3},{'bytes':0,'view_of':0}",
        OP("a") "0],'outputs':[3,2]}," OP("b") "3],'outputs':[4]}," OP("c") "1],'outputs':[5]}",
        "4,5"));
    static const uint32_t storages[] = {1, 1, 2, 2, 2, 1};
    for (uint32_t v = 0; v < COUNT_OF(storages); v++)
        assert_int_equal(neap_graph_value(graph, v)->storage, storages[v]);
    assert_int_equal(neap_graph_base_bytes(graph), 7);
    assert_int_equal(neap_graph_floor_bytes(graph, NULL), 12);
    neap_graph_destroy(graph);
}

/* ---- Derived ---- */

static void test_tiny(void **state)
{
    (void)state;
    static const uint32_t storages[] = {0, 1, 1, 3, 4};
    static const uint32_t producers[] = {NEAP_NONE, 0, 1, 2, 3};
    static const uint32_t n_readers[] = {1, 1, 2, 1, 0};
    neap_graph *graph = graph_from(tiny_graph);
    uint32_t count, op;
    for (uint32_t v = 0; v < 5; v++) {
        const neap_value *value = neap_graph_value(graph, v);
        assert_int_equal(value->storage, storages[v]);
        assert_int_equal(value->producer, producers[v]);
        neap_graph_readers(graph, v, &count);
        assert_int_equal(count, n_readers[v]);
    }
    const uint32_t *readers = neap_graph_readers(graph, 2, &count);
    assert_int_equal(readers[0], 2);
    assert_int_equal(readers[1], 3);
    assert_int_equal(neap_graph_fixed_bytes(graph), 4096);
    assert_int_equal(neap_graph_base_bytes(graph), 4196);
    assert_int_equal(neap_graph_floor_bytes(graph, &op), 4600); /* h, loss and dh */
    assert_int_equal(op, 3);
    const uint32_t *outputs = neap_graph_outputs(graph, &count);
    assert_int_equal(count, 2);
    assert_int_equal(outputs[0], 3);
    assert_int_equal(outputs[1], 4);
    assert_true(neap_graph_is_output(graph, 3));
    assert_false(neap_graph_is_output(graph, 2));
    assert_int_equal(neap_graph_ticks_per_second(graph), 1000000000000000);
    assert_int_equal(neap_graph_op(graph, 0)->variants[1].ticks, 2000000000000);
    assert_int_equal(neap_graph_base_ticks(graph), 3000000000000);
    assert_int_equal(neap_graph_least_ticks(graph), 3000000000000);
    assert_true(neap_graph_seconds(graph, 3000000000000) == 0.003);
    neap_graph_destroy(graph);
}

static void test_empty(void **state)
{
    (void)state;
    neap_graph *graph = graph_from(GRAPH("", "", ""));
    uint32_t count = 77, op = 77;
    neap_graph_outputs(graph, &count);
    assert_int_equal(count, 0);
    assert_int_equal(neap_graph_base_bytes(graph), 0);
    assert_int_equal(neap_graph_floor_bytes(graph, &op), 0);
    assert_int_equal(op, NEAP_NONE);
    assert_int_equal(neap_graph_base_ticks(graph), 0);
    assert_int_equal(neap_graph_parameter_count(graph), 0);
    neap_graph_destroy(graph);
}

static void test_readers_once_each(void **state)
{
    (void)state;
    neap_graph *graph = graph_from(
        GRAPH(V "," V "," V, OP("a") "0,0,0],'outputs':[1]}," OP("b") "1,0,1],'outputs':[2]}", ""));
    static const uint32_t expected[][3] = {{2, 0, 1}, {1, 1, 0}, {0, 0, 0}};
    for (uint32_t v = 0; v < 3; v++) {
        uint32_t count;
        const uint32_t *readers = neap_graph_readers(graph, v, &count);
        assert_int_equal(count, expected[v][0]);
        for (uint32_t i = 0; i < count; i++)
            assert_int_equal(readers[i], expected[v][1 + i]);
    }
    neap_graph_destroy(graph);
}

static void test_floor(void **state)
{
    (void)state;
    uint32_t op = 77;
    /* The outputs at the end take more than any op; a storage of two outputs counts once. */
    neap_graph *graph = graph_from(
        GRAPH("{'bytes':10},{'bytes':20},{'bytes':0,'view_of':1},{'bytes':3,'kind':'input'}",
              OP("a") "3],'outputs':[0],'workspace':9}," OP("b") "],'outputs':[1,2]}", "0,1,2,3"));
    assert_int_equal(neap_graph_floor_bytes(graph, &op), 33);
    assert_int_equal(op, NEAP_NONE);
    neap_graph_destroy(graph);
    /* The leanest workspace; an input read twice counts once, and with all the others. */
    graph = graph_from(
        GRAPH("{'bytes':100,'kind':'input'},{'bytes':10},{'bytes':1}",
              OP("a") "],'outputs':[1]}," OP(
                  "b") "1,1,0,0],'outputs':[2],'workspace':50,'variants':[{'time':1,"
                       "'workspace':50},{'time':9,'workspace':7},{'time':2,'workspace':8}]}",
              "2"));
    assert_int_equal(neap_graph_floor_bytes(graph, &op), 118);
    assert_int_equal(op, 1);
    neap_graph_destroy(graph);
}

static void test_clear_in_place(void **state)
{
    (void)state;
    neap_graph *graph = graph_from(
        GRAPH(V "," V "," V,
              OP("a") "0],'outputs':[1]}," OP("b") "1],'outputs':[2],'in_place':[1,2]}", "2"));
    assert_int_equal(neap_graph_op(graph, 1)->in_place_input, 1);
    neap_graph_clear_in_place(graph);
    for (uint32_t o = 0; o < 2; o++) {
        assert_int_equal(neap_graph_op(graph, o)->in_place_input, NEAP_NONE);
        assert_int_equal(neap_graph_op(graph, o)->in_place_output, NEAP_NONE);
    }
    neap_graph_destroy(graph);
}

static void test_parameter_count(void **state)
{
    (void)state;
    neap_graph *graph = graph_from(
        GRAPH("{'bytes':80,'kind':'parameter','dtype':'f64'},{'bytes':40,'kind':'parameter'},"
              "{'bytes':0,'kind':'parameter','view_of':0},{'bytes':99,'kind':'input'},"
              "{'bytes':6,'kind':'parameter','dtype':'bf16'}",
              "", ""));
    assert_int_equal(neap_graph_parameter_count(graph), 10 + 10 + 3);
    neap_graph_destroy(graph);
}

static void test_dtypes(void **state)
{
    (void)state;
    static const struct {
        neap_dtype dtype;
        const char *name;
        int64_t bytes;
    } types[] = {{NEAP_DTYPE_UNKNOWN, "", 0}, {NEAP_F32, "f32", 4}, {NEAP_F16, "f16", 2},
                 {NEAP_BF16, "bf16", 2},      {NEAP_F64, "f64", 8}, {NEAP_I64, "i64", 8},
                 {NEAP_I32, "i32", 4},        {NEAP_U8, "u8", 1}};
    for (size_t i = 0; i < COUNT_OF(types); i++) {
        assert_string_equal(neap_dtype_name(types[i].dtype), types[i].name);
        assert_int_equal(neap_dtype_from_name(types[i].name), types[i].dtype);
        assert_int_equal(neap_dtype_bytes(types[i].dtype), types[i].bytes);
    }
    assert_int_equal(neap_dtype_from_name("F32"), NEAP_DTYPE_UNKNOWN);
    assert_string_equal(neap_dtype_name((neap_dtype)99), "");
    assert_int_equal(neap_dtype_bytes((neap_dtype)99), 0);
}

/* ---- Long chains ---- */

#define LONG 100000

/* view i on view i - 1, or (backwards) on view i + 1; all on one storage, each made by an op. */
static neap_graph *long_view_chain(bool backwards)
{
    neap_graph_builder *builder = new_builder();
    for (uint32_t v = 0; v < LONG; v++) {
        uint32_t last = LONG - 1;
        bool root = v == (backwards ? last : 0);
        add_value(builder, root ? 64 : 0, root ? NEAP_NONE : backwards ? v + 1 : v - 1);
    }
    for (uint32_t i = 0; i < LONG; i++) {
        uint32_t made = backwards ? LONG - 1 - i : i, read = backwards ? made + 1 : made - 1;
        add_op(builder, i ? 1 : 0, &read, made, 1e-6);
    }
    double begin = cpu_seconds();
    neap_graph *graph = finish(builder);
    double taken = cpu_seconds() - begin;
    print_message("%s chain of %d views: %.3f s\n", backwards ? "backward" : "forward", LONG,
                  taken);
    assert_true(taken < 0.5 * SLOWNESS);
    return graph;
}

static void test_long_view_chains(void **state)
{
    (void)state;
    for (int backwards = 0; backwards < 2; backwards++) {
        neap_graph *graph = long_view_chain(backwards);
        for (uint32_t v = 0; v < LONG; v++)
            if (neap_graph_value(graph, v)->storage != (backwards ? LONG - 1 : 0))
                fail_msg("value %u has another storage", v);
        assert_int_equal(neap_graph_floor_bytes(graph, NULL), 64);
        assert_int_equal(neap_graph_base_bytes(graph), 0);
        neap_graph_destroy(graph);
    }
}

static void test_long_view_cycle(void **state)
{
    (void)state;
    neap_graph_builder *builder = new_builder();
    neap_graph *graph;
    neap_diag diag = {0};
    for (uint32_t v = 0; v < LONG; v++)
        add_value(builder, 0, (v + 1) % LONG);
    double begin = cpu_seconds();
    assert_int_equal(neap_graph_builder_finish(builder, &graph, &diag), NEAP_INVALID);
    assert_true(cpu_seconds() - begin < 0.5 * SLOWNESS);
    assert_non_null(strstr(diag.message, "is a view of itself, through view_of"));
    neap_graph_builder_destroy(builder);
}

/* One op that reads many values and makes many views: linear too. */
static void test_wide_op(void **state)
{
    (void)state;
    const uint32_t n = 10000;
    neap_graph_builder *builder = new_builder();
    uint32_t *inputs = calloc(n, sizeof *inputs), *outputs = calloc(n, sizeof *outputs);
    assert_true(inputs && outputs);
    for (uint32_t i = 0; i < n; i++)
        inputs[i] = add_value(builder, 1, NEAP_NONE);
    for (uint32_t i = 0; i < n; i++)
        outputs[i] = add_value(builder, 0, n - 1 - i % 7);
    neap_op_desc op;
    neap_op_desc_init(&op);
    op.n_inputs = op.n_outputs = n;
    op.inputs = inputs;
    op.outputs = outputs;
    assert_int_equal(neap_graph_builder_add_op(builder, &op, NULL, NULL), NEAP_OK);
    double begin = cpu_seconds();
    neap_graph *graph = finish(builder);
    double taken = cpu_seconds() - begin;
    print_message("an op with %u inputs and views: %.3f s\n", n, taken);
    neap_graph_destroy(graph);
    free(inputs);
    free(outputs);
    assert_true(taken < 0.1 * SLOWNESS);
}

/* ---- Ticks ---- */

/* A graph of ops with these times, one reading nothing and making nothing of the others. */
static neap_graph *timed(size_t count, const double *seconds)
{
    neap_graph_builder *builder = new_builder();
    for (size_t i = 0; i < count; i++)
        add_op(builder, 0, NULL, add_value(builder, 1, NEAP_NONE), seconds[i]);
    return finish(builder);
}

static void test_ticks_scale(void **state)
{
    (void)state;
    static const struct {
        double total;
        int64_t per_second, ticks;
    } cases[] = {
        {0, 1000000000000000, 0},
        {1e-300, 1000000000000000, 0},
        {1e-15, 1000000000000000, 1},
        {0.001, 1000000000000000, 1000000000000},
        {0.1, 1000000000000000, 100000000000000},
        {1, 1000000000000000, 1000000000000000},
        {1.25, 100000000000000, 125000000000000},
        {10, 100000000000000, 1000000000000000},
        {10.5, 10000000000000, 105000000000000},
        {86400, 10000000000, 864000000000000},
        {1e6, 1000000000, 1000000000000000},
        {123456789.125, 1000000, 123456789125000},
        {9e14, 1, 900000000000000},
        {1e15, 1, 1000000000000000},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        neap_graph *graph = timed(1, &cases[i].total);
        assert_int_equal(neap_graph_ticks_per_second(graph), cases[i].per_second);
        assert_int_equal(neap_graph_base_ticks(graph), cases[i].ticks);
        assert_true(cases[i].total < 1e-14 ||
                    neap_graph_seconds(graph, cases[i].ticks) == cases[i].total);
        neap_graph_destroy(graph);
    }
}

/* The slowest variants count for the scale, variant 0 for the base, the fastest for the least. */
static void test_ticks_variants(void **state)
{
    (void)state;
    neap_graph *graph = graph_from(
        GRAPH("",
              OP("a") "],'outputs':[],'variants':[{'time':1},{'time':50},{'time':0.25}]}," OP(
                  "b") "],'outputs':[]}",
              ""));
    int64_t second = neap_graph_ticks_per_second(graph);
    assert_int_equal(second, 10000000000000);
    assert_int_equal(neap_graph_base_ticks(graph), 2 * second);
    assert_int_equal(neap_graph_least_ticks(graph), second + second / 4);
    assert_int_equal(neap_graph_op(graph, 0)->variants[1].ticks, 50 * second);
    neap_graph_destroy(graph);
}

/* 0.1 + 0.2 is 0.3: decimal times are exact, and so are their sums. */
static void test_ticks_are_exact(void **state)
{
    (void)state;
    neap_graph *graph = timed(3, (const double[]){0.1, 0.2, 0.0105});
    assert_int_equal(neap_graph_ticks_per_second(graph), 1000000000000000);
    assert_int_equal(neap_graph_base_ticks(graph), 310500000000000);
    neap_graph_destroy(graph);

    random_source random = {20240607};
    print_message("seed %llu\n", (unsigned long long)random.state);
    for (int round = 0; round < 200; round++) {
        double seconds[50];
        int64_t micros[50], sum = 0;
        for (size_t i = 0; i < COUNT_OF(seconds); i++) {
            micros[i] = random_below(&random, 100000000);
            seconds[i] = (double)micros[i] / 1e6; /* the double nearest to the decimal number */
            sum += micros[i];
        }
        graph = timed(COUNT_OF(seconds), seconds);
        int64_t micro = neap_graph_ticks_per_second(graph) / 1000000;
        for (uint32_t i = 0; i < COUNT_OF(seconds); i++)
            assert_int_equal(neap_graph_op(graph, i)->variants[0].ticks, micros[i] * micro);
        assert_int_equal(neap_graph_base_ticks(graph), sum * micro);
        assert_true(neap_graph_seconds(graph, sum * micro) == (double)sum / 1e6);
        neap_graph_destroy(graph);
    }
}

/* s keeps its place: it reads what f made, and nothing else reads what it overwrites. But u
   overwrites what f reads, v makes something, and t reads results of two ops. */
static void test_side_updates_stay_where_they_are(void **state)
{
    (void)state;
    neap_graph *graph = graph_from(
        "{'neap':'graph','version':1,'name':'t','values':["
        "{'bytes':100,'state':true},{'bytes':4,'state':true},{'bytes':4,'state':true},"
        "{'bytes':4,'state':true},{'bytes':10},{'bytes':20},{'bytes':30},{'bytes':1}],'ops':["
        "{'name':'f','inputs':[0],'outputs':[4,5],'time':1},"
        "{'name':'s','inputs':[1,5],'outputs':[],'updates':[1],'time':1},"
        "{'name':'v','inputs':[2,5],'outputs':[7],'updates':[2],'time':1},"
        "{'name':'g','inputs':[4,5],'outputs':[6],'time':1},"
        "{'name':'t','inputs':[3,5,6],'outputs':[],'updates':[3],'time':1},"
        "{'name':'u','inputs':[0,4],'outputs':[],'updates':[0],'time':1}],'outputs':[6]}");
    static const uint32_t expected[] = {0, 1, 3, 2, 4, 5};
    const uint32_t *order = neap_graph_ordinary_order(graph);
    for (uint32_t i = 0; i < 6; i++) {
        assert_int_equal(order[i], expected[i]);
        assert_int_equal(neap_graph_is_side_update(graph, i), i == 1);
    }
    neap_graph_destroy(graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_builder_defaults),
        cmocka_unit_test(test_builder_copies),
        cmocka_unit_test(test_builder_is_empty_after_finish),
        cmocka_unit_test(test_builder_refused),
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_long_cycles),
        cmocka_unit_test(test_ids_and_producers),
        cmocka_unit_test(test_sizes_and_times),
        cmocka_unit_test(test_view_rules),
        cmocka_unit_test(test_views_that_are_fine),
        cmocka_unit_test(test_tiny),
        cmocka_unit_test(test_empty),
        cmocka_unit_test(test_readers_once_each),
        cmocka_unit_test(test_floor),
        cmocka_unit_test(test_clear_in_place),
        cmocka_unit_test(test_parameter_count),
        cmocka_unit_test(test_dtypes),
        cmocka_unit_test(test_long_view_chains),
        cmocka_unit_test(test_long_view_cycle),
        cmocka_unit_test(test_wide_op),
        cmocka_unit_test(test_ticks_scale),
        cmocka_unit_test(test_ticks_variants),
        cmocka_unit_test(test_ticks_are_exact),
        cmocka_unit_test(test_side_updates_stay_where_they_are),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
