/* neap/cost.h: the roofline computed by hand, the built-in devices, and device files. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "run_command.h"
#include "small_graphs.h"

#include <neap/cost.h>
#include <neap/network.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

/* Numbers that are easy to divide by. */
static const neap_device easy = {.name = "easy",
                                 .summary = "",
                                 .bandwidth = 1e6,
                                 .flops = {1e6, 4e6, 8e6, 0, 0.5e6},
                                 .compute_efficiency = 0.5,
                                 .memory_efficiency = 0.25,
                                 .launch = 0.001};

/* ---- The roofline ---- */

static const neap_op *op_named(const neap_graph *graph, const char *name)
{
    for (uint32_t i = 0; i < neap_graph_op_count(graph); i++)
        if (strcmp(neap_graph_op(graph, i)->name, name) == 0)
            return neap_graph_op(graph, i);
    fail_msg("no op %s", name);
    return NULL;
}

static double seconds_of(const neap_graph *graph, const char *name)
{
    const neap_op *op = op_named(graph, name);
    assert_int_equal(op->n_variants, 1);
    return op->variants[0].seconds;
}

#define assert_seconds(actual, expected) assert_true(fabs((actual) - (expected)) < 1e-12)

/* x 2x3x8x8 -> conv 4, 3x3, pad 1 -> relu -> flatten -> linear 10 -> cross-entropy */
static neap_graph *small_network(neap_dtype dtype)
{
    neap_network *net;
    neap_graph *graph = NULL;
    neap_diag diag = {0};
    assert_int_equal(neap_network_create(NULL, "small", dtype, &net, NULL), NEAP_OK);
    neap_tensor x = neap_net_input(net, "x", dtype, 4, (int64_t[]){2, 3, 8, 8});
    neap_tensor labels = neap_net_input(net, "labels", NEAP_I64, 1, (int64_t[]){2});
    neap_conv2d conv = {.channels = 4, .kernel_h = 3, .kernel_w = 3, .pad_h = 1, .pad_w = 1};
    x = neap_net_relu(net, "relu", neap_net_conv2d(net, "conv", x, &conv));
    x = neap_net_linear(net, "fc", neap_net_flatten(net, "flat", x, 1), 10, false);
    neap_tensor loss = neap_net_cross_entropy(net, "loss", x, labels);
    if (neap_network_finish(net, loss, NULL, &graph, &diag) != NEAP_OK)
        fail_msg("%s", diag.message);
    neap_network_destroy(net);
    return graph;
}

/*
 * conv: 2 * (2*4*8*8) * (3*3*3) = 27,648 flop; x 1,536 + weight 432 + y 2,048 = 4,016 bytes.
 * relu: 512 flop; 4,096 bytes.
 */
static void test_conv_and_relu_by_hand(void **state)
{
    (void)state;
    neap_graph *graph = small_network(NEAP_F32);
    assert_int_equal(neap_cost_apply(graph, &easy, NEAP_MATH_F32, NULL), NEAP_OK);
    assert_seconds(seconds_of(graph, "conv"), 0.001 + 27648 / (0.5 * 1e6));
    assert_seconds(seconds_of(graph, "relu"), 0.001 + 4096 / (0.25 * 1e6));
    assert_seconds(seconds_of(graph, "flat"), 0);
    double sum = 0;
    for (uint32_t i = 0; i < neap_graph_op_count(graph); i++)
        sum += neap_graph_op(graph, i)->variants[0].seconds;
    double counted = neap_graph_seconds(graph, neap_graph_base_ticks(graph));
    assert_true(fabs(counted - sum) < 1e-9 * sum);
    neap_graph_destroy(graph);
}

/* tf32 makes the convolution wait for memory; the relu does not care. */
static void test_tf32_and_f32(void **state)
{
    (void)state;
    neap_graph *graph = small_network(NEAP_F32);
    assert_int_equal(neap_cost_apply(graph, &easy, NEAP_MATH_TF32, NULL), NEAP_OK);
    assert_seconds(seconds_of(graph, "conv"), 0.001 + 4016 / (0.25 * 1e6));
    assert_seconds(seconds_of(graph, "relu"), 0.001 + 4096 / (0.25 * 1e6));
    /* Back again: nothing of the other times is left. */
    assert_int_equal(neap_cost_apply(graph, &easy, NEAP_MATH_F32, NULL), NEAP_OK);
    assert_seconds(seconds_of(graph, "conv"), 0.001 + 27648 / (0.5 * 1e6));
    neap_graph_destroy(graph);
}

/* Other types run in their own arithmetic, whatever f32 runs in: 8e6 flop/s, half the bytes. */
static void test_f16_runs_in_f16(void **state)
{
    (void)state;
    neap_graph *graph = small_network(NEAP_F16);
    for (int math = NEAP_MATH_F32; math <= NEAP_MATH_TF32; math++) {
        assert_int_equal(neap_cost_apply(graph, &easy, (neap_math)math, NULL), NEAP_OK);
        assert_seconds(seconds_of(graph, "conv"), 0.001 + 2008 / (0.25 * 1e6));
        assert_seconds(seconds_of(graph, "relu"), 0.001 + 2048 / (0.25 * 1e6));
    }
    neap_graph_destroy(graph);
}

static void test_missing_arithmetic(void **state)
{
    (void)state;
    neap_graph *graph = small_network(NEAP_BF16);
    neap_diag diag = {0};
    assert_int_equal(neap_cost_apply(graph, &easy, NEAP_MATH_F32, &diag), NEAP_INVALID);
    assert_non_null(strstr(diag.message, "easy has no bf16 arithmetic"));
    assert_non_null(strstr(diag.message, "\"conv\""));
    assert_non_null(strstr(diag.message, "f32, tf32, f16, f64"));
    assert_int_equal(neap_graph_base_ticks(graph), 0);
    neap_graph_destroy(graph);
}

/* Elementwise ops on a device that names only its matrix rate: memory alone counts. */
static void test_no_vector_rate(void **state)
{
    (void)state;
    neap_device half = easy;
    half.flops[NEAP_MATH_F32] = 0;
    neap_graph *graph = small_network(NEAP_F16);
    assert_int_equal(neap_cost_apply(graph, &half, NEAP_MATH_F32, NULL), NEAP_OK);
    assert_seconds(seconds_of(graph, "relu"), 0.001 + 2048 / (0.25 * 1e6));
    neap_graph_destroy(graph);
}

/* Counts in the file win; the type comes from outputs, then inputs, and is f32 where nobody says.
 */
static void test_counts_from_the_file(void **state)
{
    (void)state;
    neap_graph *graph = graph_from(
        "{'neap': 'graph', 'version': 1, 'name': 'counted', 'fixed_bytes': 0,"
        " 'values': [{'name': 'x', 'bytes': 8, 'kind': 'input', 'dtype': 'f64'},"
        "  {'name': 'a', 'bytes': 8, 'dtype': 'f64'},"
        "  {'name': 'ids', 'bytes': 8, 'dtype': 'i64'}, {'name': 'b', 'bytes': 8},"
        "  {'name': 'v', 'bytes': 0, 'view_of': 3}],"
        " 'ops': [{'name': 'A', 'type': 'mine', 'pass': 'forward', 'inputs': [0], 'outputs': [1],"
        "   'time': 5, 'workspace': 64, 'flops': 1000, 'bytes_moved': 10,"
        "   'variants': [{'time': 5, 'workspace': 64}, {'time': 7, 'workspace': 0}]},"
        "  {'name': 'I', 'type': 'mine', 'pass': 'forward', 'inputs': [1], 'outputs': [2],"
        "   'time': 5, 'workspace': 0, 'flops': 1000, 'bytes_moved': 0},"
        "  {'name': 'B', 'type': 'mine', 'pass': 'forward', 'inputs': [2], 'outputs': [3],"
        "   'time': 5, 'workspace': 0, 'flops': 1000, 'bytes_moved': 10},"
        "  {'name': 'V', 'type': 'mine', 'pass': 'forward', 'inputs': [3], 'outputs': [4],"
        "   'time': 5, 'workspace': 0}],"
        " 'outputs': [4]}");
    assert_int_equal(neap_cost_apply(graph, &easy, NEAP_MATH_TF32, NULL), NEAP_OK);
    assert_seconds(seconds_of(graph, "A"), 0.001 + 1000 / (0.5 * 0.5e6)); /* f64 */
    assert_seconds(seconds_of(graph, "I"), 0.001 + 1000 / (0.5 * 0.5e6)); /* f64 by its input */
    assert_seconds(seconds_of(graph, "B"), 0.001 + 1000 / (0.5 * 4e6));   /* not said: tf32 */
    assert_seconds(seconds_of(graph, "V"), 0);
    assert_int_equal(op_named(graph, "A")->variants[0].workspace, 64);
    neap_graph_destroy(graph);
}

static void test_unknown_ops(void **state)
{
    (void)state;
    neap_graph *graph = graph_from(abc_graph);
    neap_diag diag = {0};
    int64_t before = neap_graph_base_ticks(graph);
    assert_int_equal(neap_cost_apply(graph, &easy, NEAP_MATH_F32, &diag), NEAP_INVALID);
    assert_non_null(strstr(diag.message, "op 0 \"A\" of type \"op\" has no \"flops\""));
    assert_int_equal(neap_graph_base_ticks(graph), before);
    assert_seconds(seconds_of(graph, "A"), 1);
    neap_graph_destroy(graph);
}

static void test_bad_arguments(void **state)
{
    (void)state;
    neap_graph *graph = small_network(NEAP_F32);
    neap_diag diag = {0};
    assert_int_equal(neap_cost_apply(graph, &easy, NEAP_MATH_F16, &diag), NEAP_INVALID);
    assert_non_null(strstr(diag.message, "f32 or tf32"));
    neap_device broken = easy;
    broken.bandwidth = 0;
    assert_int_equal(neap_cost_apply(graph, &broken, NEAP_MATH_F32, &diag), NEAP_INVALID);
    assert_non_null(strstr(diag.message, "bandwidth"));
    broken = easy;
    broken.launch = -1;
    assert_int_equal(neap_cost_apply(graph, &broken, NEAP_MATH_F32, &diag), NEAP_INVALID);
    neap_graph_destroy(graph);
}

/* ---- The table ---- */

static neap_devices *new_table(void)
{
    neap_devices *devices = NULL;
    assert_int_equal(neap_devices_create(NULL, &devices, NULL), NEAP_OK);
    return devices;
}

static void test_built_in_devices(void **state)
{
    (void)state;
    static const char *const names[] = {"p100", "v100",     "rtx3090", "a100", "h100",
                                        "h200", "cpu-core", "flops",   "unit"};
    neap_devices *devices = new_table();
    assert_int_equal(neap_devices_count(devices), COUNT_OF(names));
    for (uint32_t i = 0; i < COUNT_OF(names); i++) {
        const neap_device *device = neap_devices_find(devices, names[i]);
        assert_non_null(device);
        assert_ptr_equal(device, neap_devices_at(devices, i));
        assert_string_equal(device->name, names[i]);
        assert_true(strlen(device->summary) > 0);
        assert_int_equal(device->unit, strcmp(names[i], "unit") == 0);
        if (device->unit)
            continue;
        assert_true(device->bandwidth > 1e9 && device->flops[NEAP_MATH_F32] > 1e9);
        assert_true(device->compute_efficiency > 0 && device->compute_efficiency <= 1);
        assert_true(device->memory_efficiency > 0 && device->memory_efficiency <= 1);
        assert_true(device->launch < 1e-4);
        assert_int_equal(device->launch > 0, strcmp(names[i], "flops") != 0);
    }
    assert_true(neap_devices_find(devices, "v100")->link_out == 12.2e9); /* Beaumont et al. */
    assert_true(neap_devices_find(devices, "h200")->link_in == 55e9);
    assert_null(neap_devices_find(devices, "P100"));
    assert_null(neap_devices_at(devices, COUNT_OF(names)));
    neap_devices_destroy(devices);
    neap_devices_destroy(NULL);
}

static void test_unit_device(void **state)
{
    (void)state;
    neap_devices *devices = new_table();
    neap_graph *graph = graph_from(tiny_graph);
    const neap_device *unit = neap_devices_find(devices, "unit");
    assert_int_equal(neap_cost_apply(graph, unit, NEAP_MATH_F32, NULL), NEAP_OK);
    assert_seconds(seconds_of(graph, "fc"), 1);
    assert_seconds(seconds_of(graph, "T"), 0);
    assert_seconds(seconds_of(graph, "loss"), 1);
    assert_seconds(seconds_of(graph, "loss_bw"), 1);
    assert_int_equal(op_named(graph, "fc")->variants[0].workspace, 64);
    assert_seconds(neap_graph_seconds(graph, neap_graph_base_ticks(graph)), 3);
    neap_graph_destroy(graph);
    neap_devices_destroy(devices);
}

/* Arithmetic alone, in whatever type: 27,648 and 512 flop (see above). */
static void test_flops_device(void **state)
{
    (void)state;
    static const neap_dtype types[] = {NEAP_F32, NEAP_F16, NEAP_BF16, NEAP_F64};
    neap_devices *devices = new_table();
    const neap_device *flops = neap_devices_find(devices, "flops");
    for (size_t i = 0; i < COUNT_OF(types); i++) {
        neap_graph *graph = small_network(types[i]);
        assert_int_equal(neap_cost_apply(graph, flops, NEAP_MATH_TF32, NULL), NEAP_OK);
        assert_true(fabs(seconds_of(graph, "conv") - 27648e-12) < 1e-18);
        assert_true(fabs(seconds_of(graph, "relu") - 512e-12) < 1e-18);
        assert_true(seconds_of(graph, "flat") == 0);
        neap_graph_destroy(graph);
    }
    neap_devices_destroy(devices);
}

/* ---- Files ---- */

static neap_status read_text(neap_devices *devices, const char *json, neap_diag *diag)
{
    char *folder = make_temporary_folder(), *path = join_path(folder, "devices.json");
    size_t length = strlen(json);
    char *text = malloc(length + 1);
    assert_non_null(text);
    for (size_t i = 0; i <= length; i++)
        text[i] = json[i] == '\'' ? '"' : json[i];
    write_text_file(path, text);
    neap_status status = neap_devices_read_file(devices, path, diag);
    free(text);
    free(path);
    remove_temporary_folder(folder);
    return status;
}

#define FILE_OF(devices) "{'neap': 'devices', 'version': 1, 'devices': [" devices "]}"

static void test_file_adds_a_device(void **state)
{
    (void)state;
    neap_devices *devices = new_table();
    uint32_t before = neap_devices_count(devices);
    neap_diag diag = {0};
    neap_status status = read_text(
        devices,
        FILE_OF("{'name': 'mygpu', 'summary': 'one of mine', 'memory': 24e9, 'bandwidth': 900e9,"
                " 'flops': {'f32': 30e12, 'tf32': 60e12, 'f16': 120e12, 'bf16': 121e12,"
                " 'f64': 1e12}, 'compute_efficiency': 0.6, 'memory_efficiency': 0.8,"
                " 'launch': 5e-6, 'link_out': 12e9, 'link_in': 13e9, 'link_latency': 1e-5,"
                " 'duplex': true}, {'name': 'less', 'bandwidth': 1e9, 'flops': {'f32': 1e9}}"),
        &diag);
    assert_string_equal(diag.message, "");
    assert_int_equal(status, NEAP_OK);
    assert_int_equal(neap_devices_count(devices), before + 2);
    const neap_device *mine = neap_devices_find(devices, "mygpu");
    assert_ptr_equal(mine, neap_devices_at(devices, before));
    assert_string_equal(mine->summary, "one of mine");
    assert_int_equal(mine->memory, 24000000000);
    assert_true(mine->bandwidth == 900e9 && mine->flops[NEAP_MATH_F32] == 30e12);
    assert_true(mine->flops[NEAP_MATH_TF32] == 60e12 && mine->flops[NEAP_MATH_F16] == 120e12);
    assert_true(mine->flops[NEAP_MATH_BF16] == 121e12 && mine->flops[NEAP_MATH_F64] == 1e12);
    assert_true(mine->compute_efficiency == 0.6 && mine->memory_efficiency == 0.8);
    assert_true(mine->launch == 5e-6 && mine->link_out == 12e9 && mine->link_in == 13e9);
    assert_true(mine->link_latency == 1e-5 && mine->duplex && !mine->unit);
    assert_int_equal(
        read_text(devices, FILE_OF("{'name': 'free', 'bandwidth': null, 'flops': {'f32': 1e12}}"),
                  &diag),
        NEAP_OK);
    assert_true(isinf(neap_devices_find(devices, "free")->bandwidth));
    const neap_device *less = neap_devices_find(devices, "less");
    assert_string_equal(less->summary, "");
    assert_true(less->compute_efficiency == 1 && less->memory_efficiency == 1);
    assert_true(less->launch == 0 && less->link_out == 0 && less->memory == 0 && !less->duplex);
    neap_devices_destroy(devices);
}

/* A known name: what is not given stays, and pointers to the old one still hold. */
static void test_file_replaces_a_device(void **state)
{
    (void)state;
    neap_devices *devices = new_table();
    uint32_t before = neap_devices_count(devices);
    const neap_device *old = neap_devices_find(devices, "a100");
    assert_int_equal(
        read_text(devices, FILE_OF("{'flops': {'f16': 7}, 'memory': 40e9, 'name': 'a100'}"), NULL),
        NEAP_OK);
    const neap_device *new = neap_devices_find(devices, "a100");
    assert_int_equal(neap_devices_count(devices), before);
    assert_ptr_not_equal(old, new);
    assert_int_equal(old->memory, 80000000000);
    assert_int_equal(new->memory, 40000000000);
    assert_true(new->flops[NEAP_MATH_F16] == 7);
    assert_true(new->flops[NEAP_MATH_TF32] == old->flops[NEAP_MATH_TF32]);
    assert_true(new->bandwidth == old->bandwidth &&new->duplex == old->duplex);
    assert_string_equal(new->summary, old->summary);
    /* The unit device may get a link and stays what it is. */
    assert_int_equal(
        read_text(devices, FILE_OF("{'name': 'unit', 'link_out': 1, 'link_in': 1}"), NULL),
        NEAP_OK);
    assert_true(neap_devices_find(devices, "unit")->unit);
    neap_devices_destroy(devices);
}

#define GOOD "'bandwidth': 1, 'flops': {'f32': 1}"

static const struct {
    const char *text;
    const char *message; /* the diagnostic's text after the path */
} malformed[] = {
    {"", ":1:1: the text ends"},
    {"[]", ":1:1: expected an object '{'"},
    {"{'neap': 'graph', 'version': 1, 'devices': []}",
     ":1:10: this is a file of kind \"graph\", not \"devices\""},
    {"{'neap': 'devices', 'version': 2, 'devices': []}", ":1:32: this is version 2"},
    {"{'version': 1, 'devices': []}", "the file has no \"neap\""},
    {"{'neap': 'devices', 'devices': []}", "the file has no \"version\""},
    {"{'neap': 'devices', 'version': 1}", "the file has no \"devices\""},
    {"{'neap': 'devices', 'version': 1, 'version': 1, 'devices': []}",
     "\"version\" is given twice"},
    {FILE_OF("") " x", "unexpected text after"},
    {FILE_OF("{}"), ":1:47: the device has no \"name\""},
    {FILE_OF("\n  {" GOOD "}"), ":2:3: the device has no \"name\""},
    {FILE_OF("{'name': '', " GOOD "}"), ":1:56: a device's name"},
    {FILE_OF("{'name': 'a b', " GOOD "}"), "no space"},
    {FILE_OF("{'name': 7}"), "expected a string"},
    {FILE_OF("{'name': 'x', 'bandwith': 1}"), "no \"bandwith\"; did you mean \"bandwidth\"?"},
    {FILE_OF("{'name': 'x', 'colour': 1}"), "no \"colour\""},
    {FILE_OF("{'name': 'x', 'flops': {'fp32': 1}}"), "no \"fp32\"; did you mean \"f32\"?"},
    {FILE_OF("{'name': 'x', 'flops': 1}"), "expected an object '{'"},
    {FILE_OF("{'name': 'x', 'flops': {'f32': -1}}"), "\"f32\" must be at least 0"},
    {FILE_OF("{'name': 'x', 'flops': {'f32': 1, 'f32': 1}}"), "\"f32\" is given twice"},
    {FILE_OF("{'name': 'x', 'bandwidth': 0}"), ":1:74: \"bandwidth\" must be more than 0"},
    {FILE_OF("{'name': 'x', 'bandwidth': 1e19}"), "at most 1e+18 bytes a second"},
    {FILE_OF("{'name': 'x', 'bandwidth': 1e999}"), "out of range"},
    {FILE_OF("{'name': 'x', 'bandwidth': NaN}"), "finite number"},
    {FILE_OF("{'name': 'x', 'bandwidth': '1'}"), "expected a number"},
    {FILE_OF("{'name': 'x', 'bandwidth': nil}"), ""},
    {FILE_OF("{'name': 'x', 'launch': null}"), "expected a number"},
    {FILE_OF("{'name': 'x', 'memory': -1}"), "\"memory\" must be at least 0"},
    {FILE_OF("{'name': 'x', 'memory': 1.5}"), "expected a whole number"},
    {FILE_OF("{'name': 'x', 'compute_efficiency': 0}"),
     "\"compute_efficiency\" must be more than 0"},
    {FILE_OF("{'name': 'x', 'memory_efficiency': 1.01}"), "at most 1 parts of the peak"},
    {FILE_OF("{'name': 'x', 'launch': -1e-6}"), "\"launch\" must be at least 0"},
    {FILE_OF("{'name': 'x', 'launch': 61}"), "at most 60 seconds"},
    {FILE_OF("{'name': 'x', 'link_latency': 1e9}"), "at most 60 seconds"},
    {FILE_OF("{'name': 'x', 'link_in': -2}"), "\"link_in\" must be at least 0"},
    {FILE_OF("{'name': 'x', 'duplex': 1}"), "expected true or false"},
    {FILE_OF("{'name': 'x', 'duplex': true, 'duplex': true}"), "\"duplex\" is given twice"},
    {FILE_OF("{'name': 'x', 'flops': {'f32': 1}}"), "\"x\" needs a \"bandwidth\""},
    {FILE_OF("{'name': 'x', 'bandwidth': 1}"), "\"x\" needs \"flops\""},
    {FILE_OF("{'name': 'x', 'link_in': 5, " GOOD "}"), "one way only"},
    {FILE_OF("{'name': 'x', " GOOD "}, {'name': 'x', " GOOD "}"), "\"x\" is given twice"},
    {FILE_OF("{'name': 'x', " GOOD "}, {'name': 'p100', 'memory': 1}, 5"),
     "expected an object '{'"},
    {"{'neap': 'devices', 'version': 1, 'devices': [{'name': 'x', " GOOD "}", "cut off"},
};

static void test_malformed_files_change_nothing(void **state)
{
    (void)state;
    neap_devices *devices = new_table();
    const neap_device *p100 = neap_devices_find(devices, "p100");
    uint32_t before = neap_devices_count(devices);
    for (size_t i = 0; i < COUNT_OF(malformed); i++) {
        neap_diag diag = {0};
        neap_status status = read_text(devices, malformed[i].text, &diag);
        if (status != NEAP_INVALID || !strstr(diag.message, malformed[i].message))
            fail_msg("%s\nsays: %s\nnot:  %s", malformed[i].text, diag.message,
                     malformed[i].message);
        assert_non_null(strstr(diag.message, "devices.json:"));
        assert_int_equal(neap_devices_count(devices), before);
        assert_ptr_equal(neap_devices_find(devices, "p100"), p100);
        assert_null(neap_devices_find(devices, "x"));
    }
    neap_diag diag = {0};
    assert_int_equal(neap_devices_read_file(devices, "/nowhere/devices.json", &diag), NEAP_IO);
    assert_non_null(strstr(diag.message, "/nowhere/devices.json"));
    neap_devices_destroy(devices);
}

/* ---- Memory ---- */

typedef struct failing_allocator {
    neap_allocator base;
    size_t in_use;
    int left; /* allocations that still succeed */
} failing_allocator;

static void *failing_resize(neap_allocator *self, void *block, size_t old_size, size_t new_size)
{
    failing_allocator *allocator = (failing_allocator *)self;
    if (new_size > 0 && allocator->left-- <= 0)
        return NULL;
    allocator->in_use += new_size - old_size;
    return neap_allocator_system()->resize(NULL, block, old_size, new_size);
}

static void test_every_allocation_may_fail(void **state)
{
    (void)state;
    neap_status status = NEAP_NO_MEMORY;
    for (int allowed = 0; status == NEAP_NO_MEMORY; allowed++) {
        failing_allocator allocator = {{failing_resize}, 0, allowed};
        neap_devices *devices = NULL;
        status = neap_devices_create(&allocator.base, &devices, NULL);
        if (status == NEAP_OK) {
            uint32_t before = neap_devices_count(devices);
            status = read_text(devices,
                               FILE_OF("{'name': 'esc\\u0061ped', " GOOD "}, {'name': 'y', " GOOD
                                       "}, {'name': 'a100', 'launch': 0}"),
                               NULL);
            assert_int_equal(neap_devices_count(devices), before + (status == NEAP_OK ? 2 : 0));
            assert_int_equal(neap_devices_find(devices, "a100")->launch == 0, status == NEAP_OK);
            neap_devices_destroy(devices);
        } else {
            assert_null(devices);
        }
        assert_int_equal(allocator.in_use, 0);
    }
    assert_int_equal(status, NEAP_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_conv_and_relu_by_hand),
        cmocka_unit_test(test_tf32_and_f32),
        cmocka_unit_test(test_f16_runs_in_f16),
        cmocka_unit_test(test_missing_arithmetic),
        cmocka_unit_test(test_no_vector_rate),
        cmocka_unit_test(test_counts_from_the_file),
        cmocka_unit_test(test_unknown_ops),
        cmocka_unit_test(test_bad_arguments),
        cmocka_unit_test(test_built_in_devices),
        cmocka_unit_test(test_unit_device),
        cmocka_unit_test(test_flops_device),
        cmocka_unit_test(test_file_adds_a_device),
        cmocka_unit_test(test_file_replaces_a_device),
        cmocka_unit_test(test_malformed_files_change_nothing),
        cmocka_unit_test(test_every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
