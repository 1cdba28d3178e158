/*
 * Graph files: which files are rejected and with which message, what is kept, and that writing and
 * reading lose nothing, to the byte, for every built-in model, random graphs and the shared
 * instances.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cpu_seconds.h"
#include "graph/graph_internal.h"
#include "random_training.h"
#include "run_command.h"
#include "settings.h"
#include "small_graphs.h"

#include <neap/models.h>

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

/* With ' for ", in a block that ends where the text does. */
static char *from_quotes(const char *json, size_t *length)
{
    *length = strlen(json);
    char *text = malloc(*length + (*length == 0));
    assert_non_null(text);
    for (size_t i = 0; i < *length; i++)
        text[i] = json[i] == '\'' ? '"' : json[i];
    return text;
}

/* ---- What is refused ---- */

static void test_refused(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"", "t:1:1: the text ends where an object '{' was expected; the file is cut off"},
        {"[]", "t:1:1: expected an object '{'"},
        {"{}", "t:1:3: the file has no \"neap\": \"graph\""},
        {"{'a':1}", "t:1:8: the file has no \"neap\": \"graph\""},
        {"{'neap':'plan'}", "t:1:9: this is a file of kind \"plan\", not \"graph\""},
        {"{'neap':1}", "t:1:9: expected a string"},
        {"{'neap':'graph','version':2}",
         "t:1:27: this is version 2 of the format; only version 1 is known"},
        {"{'neap':'graph','version':0}",
         "t:1:27: this is version 0 of the format; only version 1 is known"},
        {"{'neap':'graph','version':'1'}", "t:1:27: expected a number"},
        {"{'neap':'graph','version':1}", "t:1:29: the graph has no \"values\""},
        {"{'neap':'graph','version':1,'values':[]}", "t:1:41: the graph has no \"ops\""},
        {"{'neap':'graph','version':1,'values':[],'ops':[]}",
         "t:1:50: the graph has no \"outputs\""},
        {"{'neap':'graph','version':1,'values':[],'ops':[],'outputs':[]} x",
         "t:1:64: unexpected text after the end of the object"},
        {"{'neap':'graph','neap':'graph'}", "t:1:24: \"neap\" is given twice"},
        {"{'neap':'graph','values':[],'values':[]}", "t:1:38: \"values\" is given twice"},
        {"{'neap':'graph','name':'a','name':'a'}", "t:1:35: \"name\" is given twice"},
        {"{'neap':'graph','name':null}", "t:1:24: expected a string"},
        {"{'neap':'graph','fixed_bytes':1.5}", "t:1:31: expected a whole number"},
        {"{'neap':'graph','fixed_bytes':9223372036854775808}",
         "t:1:31: number too large: at most 9223372036854775807"},
        {"{'neap':'graph','values':{}}", "t:1:26: expected an array '['"},
        {"{'neap':'graph','values':[5]}", "t:1:27: expected an object '{'"},
        {"{'neap':'graph','values':[{}]}", "t:1:29: value 0 has no \"bytes\""},
        {"{'neap':'graph','values':[{'bytes':1},\n{'name':'a'}]}",
         "t:2:13: value 1 has no \"bytes\""},
        {"{'neap':'graph','values':[{'bytes':'1'}]}", "t:1:36: expected a number"},
        {"{'neap':'graph','values':[{'bytes':null}]}", "t:1:36: expected a number"},
        {"{'neap':'graph','values':[{'bytes':1,'bytes':1}]}", "t:1:46: \"bytes\" is given twice"},
        {"{'neap':'graph','values':[{'bytes':1,'kind':2}]}", "t:1:45: expected a string"},
        {"{'neap':'graph','values':[{'bytes':1,'view_of':-1}]}",
         "t:1:48: expected a number from 0 to 4294967294, not -1"},
        {"{'neap':'graph','values':[{'bytes':1,'view_of':4294967295}]}",
         "t:1:48: expected a number from 0 to 4294967294, not 4294967295"},
        {"{'neap':'graph','values':[{'bytes':1,'view_of':'a'}]}", "t:1:48: expected a number"},
        {"{'neap':'graph','values':[{'bytes':1,'shape':4}]}", "t:1:46: expected an array '['"},
        {"{'neap':'graph','values':[{'bytes':1,'shape':[1.5]}]}",
         "t:1:47: expected a whole number"},
        {"{'neap':'graph','values':[{'bytes':1,'dtype':4}]}", "t:1:46: expected a string"},
        {"{'neap':'graph','ops':[{'outputs':[],'time':1}]}", "t:1:47: op 0 has no \"inputs\""},
        {"{'neap':'graph','ops':[{'inputs':[],'time':1}]}", "t:1:46: op 0 has no \"outputs\""},
        {"{'neap':'graph','ops':[{'inputs':[],'outputs':[]}]}", "t:1:50: op 0 has no \"time\""},
        {"{'neap':'graph','ops':[{'inputs':0}]}", "t:1:34: expected an array '['"},
        {"{'neap':'graph','ops':[{'inputs':[true]}]}", "t:1:35: expected a number"},
        {"{'neap':'graph','ops':[{'inputs':[0],'inputs':[0]}]}",
         "t:1:47: \"inputs\" is given twice"},
        {"{'neap':'graph','ops':[{'time':NaN}]}",
         "t:1:32: expected a finite number, not NaN or Infinity"},
        {"{'neap':'graph','ops':[{'time':1e999}]}", "t:1:32: number out of range: at most 1.8e308"},
        {"{'neap':'graph','ops':[{'pass':'sideways'}]}",
         "t:1:42: \"pass\" must be \"forward\" or \"backward\""},
        {"{'neap':'graph','ops':[{'random':1}]}", "t:1:34: expected true or false"},
        {"{'neap':'graph','ops':[{'in_place':[1]}]}",
         "t:1:39: \"in_place\" takes two value ids: [input, output]"},
        {"{'neap':'graph','ops':[{'in_place':[1,2,3]}]}",
         "t:1:43: \"in_place\" takes two value ids: [input, output]"},
        {"{'neap':'graph','ops':[{'variants':[]}]}",
         "t:1:38: \"variants\" may not be empty: variant 0 is the op itself"},
        {"{'neap':'graph','ops':[{'variants':[{}]}]}", "t:1:39: a variant has no \"time\""},
        {"{'neap':'graph','ops':[{'variants':[{'time':1,'time':1}]}]}",
         "t:1:54: \"time\" is given twice"},
        {"{'neap':'graph','ops':[{'inputs':[],'outputs':[],'time':1,'variants':[{'time':2}]}]}",
         "t:1:83: op 0: variant 0 must have the op's own time and workspace"},
        {"{'neap':'graph','ops':[{'inputs':[],'outputs':[],'time':1,'workspace':5,"
         "'variants':[{'time':1}]}]}",
         "t:1:97: op 0: variant 0 must have the op's own time and workspace"},
        {"{'neap':'graph','ops':[{'attrs':[]}]}", "t:1:33: expected an object '{'"},
        {"{'neap':'graph','ops':[{'attrs':{'a':'b'}}]}", "t:1:38: expected a number"},
        {"{'neap':'graph','outputs':[-1]}",
         "t:1:28: expected a number from 0 to 4294967294, not -1"},
        {"{'neap':'graph','x':[1,}", "t:1:24: expected a value"},
    };
    int wrong = 0;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        size_t length;
        char *text = from_quotes(cases[i][0], &length);
        neap_graph *graph = (neap_graph *)text;
        neap_diag diag = {0};
        neap_status status = neap_graph_read_text(NULL, text, length, "t", &graph, &diag);
        free(text);
        if (status != NEAP_INVALID)
            fail_msg("accepted: %s", cases[i][0]);
        assert_null(graph);
        if (strcmp(diag.message, cases[i][1]) != 0) {
            print_error("%s\n  says     %s\n  expected %s\n", cases[i][0], diag.message,
                        cases[i][1]);
            wrong++;
        }
    }
    assert_int_equal(wrong, 0);
}

/* docs/formats.md: both are required. */
static void test_version_is_required(void **state)
{
    (void)state;
    static const char json[] = "{\"neap\":\"graph\",\"values\":[],\"ops\":[],\"outputs\":[]}";
    neap_graph *graph;
    neap_diag diag = {0};
    neap_status status = neap_graph_read_text(NULL, json, strlen(json), "t", &graph, &diag);
    neap_graph_destroy(graph);
    assert_int_equal(status, NEAP_INVALID);
    assert_non_null(strstr(diag.message, "\"version\""));
}

static void test_every_truncation_is_refused(void **state)
{
    (void)state;
    size_t length;
    char *whole = from_quotes(tiny_graph, &length);
    for (size_t cut = 0; cut < length; cut++) {
        char *text = malloc(cut + (cut == 0));
        assert_non_null(text);
        memcpy(text, whole, cut);
        neap_graph *graph;
        neap_diag diag = {0};
        assert_int_equal(neap_graph_read_text(NULL, text, cut, "t", &graph, &diag), NEAP_INVALID);
        assert_null(graph);
        assert_int_equal(strncmp(diag.message, "t:1:", 4), 0);
        free(text);
    }
    free(whole);
}

/* ---- Equality ---- */

static bool same_text(const char *a, const char *b)
{
    return (!a && !b) || (a && b && strcmp(a, b) == 0);
}

static bool same_double(double a, double b)
{
    return memcmp(&a, &b, sizeof a) == 0;
}

static bool same_value(const neap_value *a, const neap_value *b)
{
    return same_text(a->name, b->name) && same_text(a->kind, b->kind) && a->bytes == b->bytes &&
           a->view_of == b->view_of && a->storage == b->storage && a->producer == b->producer &&
           a->dtype == b->dtype && a->rank == b->rank && same_text(a->extra, b->extra) &&
           (a->rank == 0 || memcmp(a->shape, b->shape, a->rank * sizeof *a->shape) == 0);
}

static bool same_attr(const neap_attr *a, const neap_attr *b)
{
    return same_text(a->name, b->name) && a->is_real == b->is_real &&
           (a->is_real ? same_double(a->real, b->real) : a->integer == b->integer);
}

static bool same_op(const neap_op *a, const neap_op *b)
{
    if (!same_text(a->name, b->name) || !same_text(a->type, b->type) || a->pass != b->pass ||
        a->n_inputs != b->n_inputs || a->n_outputs != b->n_outputs ||
        a->n_variants != b->n_variants || a->lists_variants != b->lists_variants ||
        a->random != b->random || a->inside_layer != b->inside_layer ||
        a->in_place_input != b->in_place_input || a->in_place_output != b->in_place_output ||
        a->flops != b->flops || a->bytes_moved != b->bytes_moved || a->n_attrs != b->n_attrs ||
        !same_text(a->extra, b->extra))
        return false;
    bool same = memcmp(a->inputs, b->inputs, a->n_inputs * sizeof *a->inputs) == 0 &&
                memcmp(a->outputs, b->outputs, a->n_outputs * sizeof *a->outputs) == 0;
    for (uint32_t k = 0; k < a->n_variants; k++)
        same = same && same_double(a->variants[k].seconds, b->variants[k].seconds) &&
               a->variants[k].ticks == b->variants[k].ticks &&
               a->variants[k].workspace == b->variants[k].workspace;
    for (uint32_t i = 0; i < a->n_attrs; i++)
        same = same && same_attr(&a->attrs[i], &b->attrs[i]);
    return same;
}

static void assert_same_graph(const neap_graph *a, const neap_graph *b)
{
    assert_string_equal(neap_graph_name(a), neap_graph_name(b));
    assert_int_equal(neap_graph_op_count(a), neap_graph_op_count(b));
    assert_int_equal(neap_graph_value_count(a), neap_graph_value_count(b));
    assert_int_equal(neap_graph_fixed_bytes(a), neap_graph_fixed_bytes(b));
    assert_int_equal(neap_graph_base_bytes(a), neap_graph_base_bytes(b));
    assert_int_equal(neap_graph_floor_bytes(a, NULL), neap_graph_floor_bytes(b, NULL));
    assert_int_equal(neap_graph_ticks_per_second(a), neap_graph_ticks_per_second(b));
    assert_int_equal(neap_graph_base_ticks(a), neap_graph_base_ticks(b));
    assert_int_equal(neap_graph_least_ticks(a), neap_graph_least_ticks(b));
    uint32_t n, m;
    const uint32_t *outputs = neap_graph_outputs(a, &n), *others = neap_graph_outputs(b, &m);
    assert_int_equal(n, m);
    for (uint32_t i = 0; i < n; i++)
        assert_int_equal(outputs[i], others[i]);
    for (uint32_t v = 0; v < neap_graph_value_count(a); v++)
        if (!same_value(neap_graph_value(a, v), neap_graph_value(b, v)))
            fail_msg("%s: value %u differs", neap_graph_name(a), v);
    for (uint32_t o = 0; o < neap_graph_op_count(a); o++)
        if (!same_op(neap_graph_op(a, o), neap_graph_op(b, o)))
            fail_msg("%s: op %u differs", neap_graph_name(a), o);
}

/* What is written reads back as the same graph, and that is written to the same bytes. */
static void check_round_trip(const neap_graph *graph)
{
    char *first, *second;
    size_t first_length, second_length;
    neap_graph *again;
    neap_diag diag = {0};
    assert_int_equal(neap_graph_write_text(graph, NULL, &first, &first_length, &diag), NEAP_OK);
    assert_int_equal(first[first_length], '\0');
    if (neap_graph_read_text(NULL, first, first_length, "again", &again, &diag) != NEAP_OK)
        fail_msg("%s", diag.message);
    assert_same_graph(graph, again);
    assert_int_equal(neap_graph_write_text(again, NULL, &second, &second_length, &diag), NEAP_OK);
    assert_int_equal(first_length, second_length);
    assert_memory_equal(first, second, first_length);
    neap_graph_destroy(again);
    neap_release(NULL, first, first_length + 1);
    neap_release(NULL, second, second_length + 1);
}

/* ---- What is kept ---- */

static void expect_written(const char *json, const char *expected)
{
    neap_graph *graph = graph_from(json);
    char *text, *wanted;
    size_t length, wanted_length;
    assert_int_equal(neap_graph_write_text(graph, NULL, &text, &length, NULL), NEAP_OK);
    wanted = from_quotes(expected, &wanted_length);
    if (length != wanted_length || memcmp(text, wanted, length) != 0)
        fail_msg("%s\nis written\n%s", json, text);
    check_round_trip(graph);
    neap_graph_destroy(graph);
    neap_release(NULL, text, length + 1);
    free(wanted);
}

static void test_written_form(void **state)
{
    (void)state;
    expect_written("{'neap':'graph','version':1,'values':[],'ops':[],'outputs':[]}",
                   "{'neap':'graph','version':1,'name':'graph',\n'fixed_bytes':0,\n'values':[],\n"
                   "'ops':[],\n'outputs':[]}\n");
    expect_written(
        "{'outputs':[1,1],'ops':[{'time':5e-1,'outputs':[1],'inputs':[0,0]}],"
        "'values':[{'bytes':1e3},{'bytes':4,'view_of':null,'shape':[]}],'neap':'graph','version':"
        "1}",
        "{'neap':'graph','version':1,'name':'graph',\n'fixed_bytes':0,\n'values':[\n"
        "{'name':'v0','bytes':1000,'kind':'activation'},\n"
        "{'name':'v1','bytes':4,'kind':'activation'}],\n'ops':[\n"
        "{'name':'op0','type':'op','pass':'forward','inputs':[0,0],'outputs':[1],'time':0.5,"
        "'workspace':0}],\n'outputs':[1,1]}\n");
}

static void test_all_fields(void **state)
{
    (void)state;
    static const char json[] =
        "{'neap':'graph','version':1,'name':'all',\n'fixed_bytes':7,\n'values':[\n"
        "{'name':'x','bytes':16,'kind':'parameter','dtype':'f32','shape':[2,2]},\n"
        "{'name':'y','bytes':16,'kind':'mine','dtype':'bf16','shape':[8]},\n"
        "{'name':'z','bytes':0,'kind':'gradient','view_of':1}],\n'ops':[\n"
        "{'name':'o','type':'t','pass':'forward','inputs':[0,0],'outputs':[1],'time':0.001,"
        "'workspace':4,'variants':[{'time':0.001,'workspace':4},{'time':1e-06,'workspace':0}],"
        "'random':true,'inside_layer':true,'in_place':[0,1],'flops':10,'bytes_moved':32,"
        "'attrs':{'stride':-2,'p':0.5,'one':1.0,'zero':-0.0,'large':1e+300}},\n"
        "{'name':'p','type':'u','pass':'backward','inputs':[1],'outputs':[2],'time':0,"
        "'workspace':0,'variants':[{'time':0,'workspace':0}]}],\n'outputs':[2]}\n";
    expect_written(json, json);
    neap_graph *graph = graph_from(json);
    const neap_op *op = neap_graph_op(graph, 0);
    assert_int_equal(op->n_attrs, 5);
    assert_false(op->attrs[0].is_real);
    assert_int_equal(op->attrs[0].integer, -2);
    assert_true(op->attrs[2].is_real && op->attrs[2].real == 1);
    assert_true(op->random && op->inside_layer && op->lists_variants);
    assert_int_equal(op->n_variants, 2);
    assert_int_equal(op->flops, 10);
    assert_int_equal(op->bytes_moved, 32);
    assert_int_equal(op->in_place_input, 0);
    assert_int_equal(op->in_place_output, 1);
    assert_true(neap_graph_op(graph, 1)->lists_variants); /* even of one */
    assert_int_equal(neap_graph_op(graph, 1)->pass, NEAP_BACKWARD);
    neap_graph_destroy(graph);
}

/* The numbers of measured kernels stay, even if an op has a single one. */
static void test_kernel_numbers(void **state)
{
    (void)state;
    static const neap_variant measured = {.seconds = 2, .workspace = 64, .kernel = 8};
    neap_graph *again, *graph = graph_from("{'neap':'graph','version':1,'values':[{'bytes':4}],"
                                           "'ops':[{'time':1,'inputs':[],'outputs':[0]}],"
                                           "'outputs':[0]}");
    char *text;
    size_t length;
    neap_diag diag = {0};
    assert_int_equal(neap_graph_set_variants(graph, &measured, NULL, &diag), NEAP_OK);
    assert_null(neap_graph_measured_on(graph));
    assert_int_equal(neap_graph_set_measured_on(graph, "a \"GPU\"", &diag), NEAP_OK);
    assert_int_equal(neap_graph_write_text(graph, NULL, &text, &length, &diag), NEAP_OK);
    assert_int_equal(neap_graph_read_text(NULL, text, length, "test", &again, &diag), NEAP_OK);
    assert_int_equal(neap_graph_op(again, 0)->variants[0].kernel, 8);
    assert_int_equal(neap_graph_op(again, 0)->variants[0].workspace, 64);
    assert_string_equal(neap_graph_measured_on(again), "a \"GPU\"");
    assert_int_equal(neap_graph_set_variants(again, &measured, NULL, &diag), NEAP_OK);
    assert_null(neap_graph_measured_on(again));
    neap_release(NULL, text, length + 1);
    neap_graph_destroy(again);
    neap_graph_destroy(graph);
}

static void test_unknown_fields(void **state)
{
    (void)state;
    expect_written(
        "{'neap':'graph','version':1,'zz' : {'a': [1, null]},'values':"
        "[{'bytes':1, 'x' : 1e400 ,'dtype':'weird','x':2}],"
        "'ops':[{'note':'\\u00e9\\n','inputs':[],'outputs':[0],'time':1}],'outputs':[],'q':true}",
        "{'neap':'graph','version':1,'name':'graph',\n'fixed_bytes':0,\n'values':[\n"
        "{'name':'v0','bytes':1,'kind':'activation','x':1e400,'dtype':'weird','x':2}],\n'ops':[\n"
        "{'name':'op0','type':'op','pass':'forward','inputs':[],'outputs':[0],'time':1,"
        "'workspace':0,'note':'\\u00e9\\n'}],\n'outputs':[],'zz':{'a': [1, null]},'q':true}\n");
    neap_graph *graph =
        graph_from("{'neap':'graph','version':1,'values':[{'bytes':1,'a':[]}],"
                   "'ops':[{'inputs':[],'outputs':[],'time':0,'b':{}}],'outputs':[]}");
    assert_string_equal(neap_graph_value(graph, 0)->extra, "\"a\":[]");
    assert_string_equal(neap_graph_op(graph, 0)->extra, "\"b\":{}");
    neap_graph_destroy(graph);
    graph = graph_from(
        "{'neap':'graph','version':1,'values':[{'bytes':1,'é':['é\xc2\x9b\xe2\x80\xae',\n1]}],"
        "'ops':[],'outputs':[]}");
    assert_string_equal(neap_graph_value(graph, 0)->extra, "\"é\":[\"é\\u009b\\u202e\",\n1]");
    neap_graph_destroy(graph);
}

/* Keys may be written with escapes; the reader's own copy of one must outlive the value behind it.
 */
static void test_escaped_keys(void **state)
{
    (void)state;
    expect_written(
        "{'\\u006eeap':'gr\\u0061ph','version':1,'\\u006e\\u0061me':'n','values':"
        "[{'\\u0062ytes':1,'\\u0064type':'\\u0041 word that is longer than the key before it was'},"
        "{'bytes':2,'\\u0064type':'f\\u00332','\\u0078':'\\u0079 as long as it takes to move the "
        "text'}],"
        "'ops':[],'outputs':[]}",
        "{'neap':'graph','version':1,'name':'n',\n'fixed_bytes':0,\n'values':[\n"
        "{'name':'v0','bytes':1,'kind':'activation','dtype':"
        "'\\u0041 word that is longer than the key before it was'},\n"
        "{'name':'v1','bytes':2,'kind':'activation','dtype':'f32','x':"
        "'\\u0079 as long as it takes to move the text'}],\n'ops':[],\n'outputs':[]}\n");
}

/* ---- Round trips ---- */

static void test_models_round_trip(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < neap_models_count(); i++) {
        const neap_model *model = neap_models_at(i);
        neap_graph *graph;
        neap_diag diag = {0};
        if (neap_model_build(NULL, model, NULL, &graph, &diag) != NEAP_OK)
            fail_msg("%s: %s", neap_model_name(model), diag.message);
        check_round_trip(graph);
        neap_graph_destroy(graph);
    }
}

static void test_random_round_trip(void **state)
{
    (void)state;
    random_source random = {20240608};
    print_message("seed %llu\n", (unsigned long long)random.state);
    for (int i = 0; i < 400; i++) {
        neap_graph *graph = i % 2 ? random_training_graph(&random, 1 + (uint32_t)i % 30, true)
                                  : random_graph(&random, 30);
        check_round_trip(graph);
        neap_graph_destroy(graph);
    }
}

static void test_instances_round_trip(void **state)
{
    (void)state;
    const char *folder = need_instances();
    DIR *entries = opendir(folder);
    assert_non_null(entries);
    int count = 0;
    for (struct dirent *entry; (entry = readdir(entries));) {
        const char *end = strstr(entry->d_name, ".json");
        if (!end || end[5])
            continue;
        char *path = join_path(folder, entry->d_name);
        neap_graph *graph;
        neap_diag diag = {0};
        if (neap_graph_read_file(NULL, path, &graph, &diag) != NEAP_OK)
            fail_msg("%s", diag.message);
        check_round_trip(graph);
        neap_graph_destroy(graph);
        free(path);
        count++;
    }
    closedir(entries);
    print_message("%d files\n", count);
    assert_true(count > 0);
}

static void test_files(void **state)
{
    (void)state;
    char *folder = make_temporary_folder(), *path = join_path(folder, "graph.json"), *text, *file;
    size_t length;
    neap_graph *graph = graph_from(tiny_graph), *again;
    neap_diag diag = {0};
    char expected[NEAP_DIAG_CAPACITY];
    assert_int_equal(neap_graph_write_file(graph, path, &diag), NEAP_OK);
    assert_int_equal(neap_graph_write_text(graph, NULL, &text, &length, &diag), NEAP_OK);
    file = read_text_file(path);
    assert_string_equal(file, text);
    assert_int_equal(neap_graph_read_file(NULL, path, &again, &diag), NEAP_OK);
    assert_same_graph(graph, again);
    neap_graph_destroy(again);
    write_text_file(path, "{\"neap\":\n oops");
    assert_int_equal(neap_graph_read_file(NULL, path, &again, &diag), NEAP_INVALID);
    assert_null(again);
    snprintf(expected, sizeof expected, "%s:2:2: expected a string", path);
    assert_string_equal(diag.message, expected);
    assert_int_equal(neap_graph_write_file(graph, folder, &diag), NEAP_IO);
    assert_int_equal(neap_graph_read_file(NULL, "/nowhere/at/all", &again, &diag), NEAP_IO);
    assert_null(again);
    neap_release(NULL, text, length + 1);
    free(file);
    neap_graph_destroy(graph);
    free(path);
    remove_temporary_folder(folder);
}

/* ---- Speed ---- */

static void test_large_graph(void **state)
{
    (void)state;
    neap_model_setting layers = {"layers", 50000};
    neap_model_options options;
    neap_graph *graph, *again;
    char *text;
    size_t length;
    neap_model_options_init(&options);
    options.n_settings = 1;
    options.settings = &layers;
    assert_int_equal(neap_model_build(NULL, neap_models_find("chain"), &options, &graph, NULL),
                     NEAP_OK);
    double begin = cpu_seconds();
    assert_int_equal(neap_graph_write_text(graph, NULL, &text, &length, NULL), NEAP_OK);
    double written = cpu_seconds();
    assert_int_equal(neap_graph_read_text(NULL, text, length, "t", &again, NULL), NEAP_OK);
    double was_read = cpu_seconds();
    print_message("%u ops, %.1f MB: written in %.3f s, read in %.3f s\n",
                  neap_graph_op_count(again), (double)length / 1e6, written - begin,
                  was_read - written);
    assert_int_equal(neap_graph_op_count(again), 100001);
    neap_graph_destroy(graph);
    neap_graph_destroy(again);
    neap_release(NULL, text, length + 1);
    assert_true(was_read - written < 1.0 * SLOWNESS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_version_is_required),
        cmocka_unit_test(test_every_truncation_is_refused),
        cmocka_unit_test(test_written_form),
        cmocka_unit_test(test_all_fields),
        cmocka_unit_test(test_unknown_fields),
        cmocka_unit_test(test_escaped_keys),
        cmocka_unit_test(test_kernel_numbers),
        cmocka_unit_test(test_models_round_trip),
        cmocka_unit_test(test_random_round_trip),
        cmocka_unit_test(test_instances_round_trip),
        cmocka_unit_test(test_files),
        cmocka_unit_test(test_large_graph),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
