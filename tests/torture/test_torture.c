/*
 * Each allocation of every operation fails once, in turn; then that one and all later ones fail.
 * Each time the operation returns NEAP_NO_MEMORY and no result, changes nothing, leaks nothing, and
 * passes the right sizes to the allocator.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "failing_allocator.h"
#include "method_link.h"
#include "op_cases.h"
#include "random_small_graph.h"
#include "random_training.h"
#include "run_command.h"
#include "small_graphs.h"

#include <neap/neap.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

/* ---- The rack ---- */

typedef struct rack {
    failing_allocator memory;
    size_t fail_from, fail_count; /* what memory will do once it is armed */
    const void *subject;          /* of the operation */
    neap_diag diag;
} rack;

#define MOST_EACH 250

/* Does it, and cleans up after itself. */
typedef neap_status operation(rack *k);

/* From here on allocations fail: what came before was preparation. */
static void arm(rack *k)
{
    k->memory.calls = 0;
    k->memory.fail_from = k->fail_from;
    k->memory.fail_end =
        k->fail_count > SIZE_MAX - k->fail_from ? SIZE_MAX : k->fail_from + k->fail_count;
}

static void disarm(rack *k)
{
    k->memory.fail_from = SIZE_MAX;
}

static neap_allocator *memory(rack *k)
{
    return &k->memory.base;
}

/* Returns whether an allocation failed on the way. */
static bool run_once(operation *run, const char *name, rack *k, neap_status expected)
{
    failing_allocator_init(&k->memory);
    k->diag = (neap_diag){0};
    neap_status status = run(k);
    if (k->memory.fault)
        fail_msg("%s, allocation %zu: %s", name, k->fail_from, k->memory.fault);
    if (k->memory.live_blocks || k->memory.live_bytes)
        fail_msg("%s, allocation %zu: %zu blocks leaked, %zu bytes", name, k->fail_from,
                 k->memory.live_blocks, k->memory.live_bytes);
    neap_status wanted = k->memory.failed ? NEAP_NO_MEMORY : expected;
    if (status != wanted)
        fail_msg("%s, allocation %zu: %s, not %s: \"%s\"", name, k->fail_from,
                 neap_status_name(status), neap_status_name(wanted), k->diag.message);
    if (k->memory.failed &&
        (k->diag.status != NEAP_NO_MEMORY || !strstr(k->diag.message, "out of memory")))
        fail_msg("%s, allocation %zu: says \"%s\"", name, k->fail_from, k->diag.message);
    return k->memory.failed;
}

static void torture_for(operation *run, const char *name, const void *subject, neap_status expected)
{
    static const size_t counts[] = {1, SIZE_MAX};
    size_t allocations = 0;
    for (size_t i = 0; i < COUNT_OF(counts); i++) {
        rack k = {.fail_count = counts[i], .subject = subject};
        /* A method that tries hundreds of plans repeats itself: of those, some. */
        while (run_once(run, name, &k, expected))
            k.fail_from += 1 + (k.fail_from > MOST_EACH ? k.fail_from / 10 : 0);
        allocations = k.memory.calls;
    }
    if (allocations == 0)
        fail_msg("%s: nothing was allocated", name);
    print_message("%s: %zu allocations\n", name, allocations);
}

static void torture(operation *run, const char *name, const void *subject)
{
    torture_for(run, name, subject, NEAP_OK);
}

/* ---- Graphs ---- */

static const char rich_graph[] =
    "{'neap':'graph','version':1,'n\\u0061me':'\\u0061ll','fixed_bytes':5,'zz':{'a':[1,{}]},"
    "'values':[{'name':'x','bytes':16,'kind':'parameter','dtype':'f32','shape':[2,2]},"
    "{'bytes':16,'kind':'own','dtype':'weird\\n','note':'\\u00e9'},{'bytes':1.6e1},"
    "{'bytes':0,'kind':'gradient','view_of':2}],"
    "'ops':[{'inputs':[0,0],'outputs':[1],'name':'o','type':'t','random':true,'flops':10,"
    "'bytes_moved':32,'attrs':{'stride':2,'p':0.1234567890123456789},'time':1,'workspace':4,"
    "'variants':[{'time':1,'workspace':4},{'time':2}],'more':[]},"
    "{'inputs':[1],'outputs':[2],'in_place':[1,2],'time':0.5},"
    "{'pass':'backward','inputs':[2],'outputs':[3],'time':0.25}],'outputs':[3],'q':true}";

static const char cycle_graph[] =
    "{'neap':'graph','version':1,'values':[{'bytes':1},{'bytes':1}],'ops':["
    "{'inputs':[1],'outputs':[0],'time':1},{'inputs':[0],'outputs':[1],'time':1}],'outputs':[]}";

static char *from_quotes(const char *json)
{
    char *text = malloc(strlen(json) + 1);
    assert_non_null(text);
    for (size_t i = 0; i <= strlen(json); i++)
        text[i] = json[i] == '\'' ? '"' : json[i];
    return text;
}

static neap_status read_graph(rack *k)
{
    const char *text = k->subject;
    neap_graph *graph = (neap_graph *)k;
    arm(k);
    neap_status status = neap_graph_read_text(memory(k), text, strlen(text), "t", &graph, &k->diag);
    assert_true((graph != NULL) == (status == NEAP_OK));
    neap_graph_destroy(graph);
    return status;
}

static neap_status write_graph(rack *k)
{
    char *text = NULL;
    size_t length = 0;
    arm(k);
    neap_status status = neap_graph_write_text(k->subject, memory(k), &text, &length, &k->diag);
    assert_true((text != NULL) == (status == NEAP_OK));
    neap_release(memory(k), text, length + 1);
    return status;
}

/* From a file and back into it: the subject is its path. */
static neap_status graph_file(rack *k)
{
    neap_graph *graph;
    arm(k);
    neap_status status = neap_graph_read_file(memory(k), k->subject, &graph, &k->diag);
    assert_true((graph != NULL) == (status == NEAP_OK));
    if (status == NEAP_OK)
        status = neap_graph_write_file(graph, k->subject, &k->diag);
    neap_graph_destroy(graph);
    return status;
}

static neap_status add_values(neap_graph_builder *builder, int count, neap_diag *diag)
{
    neap_value_desc desc;
    neap_status status = NEAP_OK;
    neap_value_desc_init(&desc);
    desc.kind = "own";
    desc.bytes = 1;
    desc.rank = 1;
    desc.shape = &desc.bytes;
    desc.extra = "\"a\":1";
    for (int i = 0; i < count && status == NEAP_OK; i++)
        status = neap_graph_builder_add_value(builder, &desc, NULL, diag);
    return status;
}

static neap_status build_graph(rack *k)
{
    neap_graph_builder *builder = (neap_graph_builder *)k;
    neap_graph *graph = NULL;
    arm(k);
    neap_status status = neap_graph_builder_create(memory(k), "built", &builder, &k->diag);
    assert_true((builder != NULL) == (status == NEAP_OK));
    if (status != NEAP_OK)
        return status;
    neap_op_desc op;
    const neap_attr attr = {.name = "attr", .integer = 1};
    const neap_variant variants[] = {{.seconds = 1}, {.seconds = 2}};
    neap_op_desc_init(&op);
    op.n_inputs = op.n_outputs = op.n_attrs = 1;
    op.n_variants = 2;
    op.variants = variants;
    op.attrs = &attr;
    op.extra = "\"b\":2";
    status = add_values(builder, 60, &k->diag);
    for (uint32_t i = 0; i < 59 && status == NEAP_OK; i++) {
        uint32_t output = i + 1;
        op.inputs = &i;
        op.outputs = &output;
        status = neap_graph_builder_add_op(builder, &op, NULL, &k->diag);
        if (status == NEAP_OK)
            status = neap_graph_builder_add_output(builder, output, &k->diag);
    }
    if (status == NEAP_OK)
        status = neap_graph_builder_finish(builder, &graph, &k->diag);
    assert_true((graph != NULL) == (status == NEAP_OK));
    neap_graph_builder_destroy(builder);
    neap_graph_destroy(graph);
    return status;
}

static void test_graphs(void **state)
{
    (void)state;
    char *rich = from_quotes(rich_graph), *cycle = from_quotes(cycle_graph);
    char *folder = make_temporary_folder(), *path = join_path(folder, "graph.json");
    neap_graph *graph = graph_from(rich_graph);
    write_text_file(path, rich);
    torture(read_graph, "reading a graph", rich);
    torture_for(read_graph, "reading a cycle", cycle, NEAP_INVALID);
    torture(write_graph, "writing a graph", graph);
    torture(graph_file, "a graph file", path);
    torture(build_graph, "the builder", NULL);
    neap_graph *again; /* the failures did not harm the file */
    assert_int_equal(neap_graph_read_file(NULL, path, &again, NULL), NEAP_OK);
    assert_int_equal(neap_graph_op_count(again), neap_graph_op_count(graph));
    neap_graph_destroy(again);
    neap_graph_destroy(graph);
    remove_temporary_folder(folder);
    free(path);
    free(rich);
    free(cycle);
}

/* ---- Networks and models ---- */

static neap_status build_case(rack *k)
{
    const op_case *c = k->subject;
    neap_network *net = (neap_network *)k;
    neap_graph *graph = NULL;
    arm(k);
    neap_status status = neap_network_create(memory(k), c->name, c->dtype, &net, &k->diag);
    assert_true((net != NULL) == (status == NEAP_OK));
    if (status != NEAP_OK)
        return status;
    neap_network_set_kernels(net, c->kernels);
    neap_tensor y = c->build(net);
    if (neap_net_rank(net, y) != 1 || neap_net_dim(net, y, 0) != 1) {
        y = neap_net_reshape(net, "flat", y, SHAPE(-1));
        neap_tensor weight =
            neap_net_parameter(net, "probe.weight", SHAPE(1, neap_net_dim(net, y, 0)));
        y = neap_net_linear_with(net, "probe", y, weight, NEAP_NONE);
    }
    assert_true(neap_network_failed(net) == k->memory.failed); /* the error is sticky */
    status = neap_network_finish(net, y, NULL, &graph, &k->diag);
    assert_true((graph != NULL) == (status == NEAP_OK));
    neap_network_destroy(net);
    neap_graph_destroy(graph);
    return status;
}

static neap_status build_updates(rack *k)
{
    const update_case *c = k->subject;
    neap_network *net = NULL;
    neap_graph *graph = NULL;
    arm(k);
    neap_status status =
        neap_network_create(memory(k), c->base.name, c->base.dtype, &net, &k->diag);
    if (status != NEAP_OK)
        return status;
    neap_tensor y = neap_net_linear_with(
        net, "probe", neap_net_reshape(net, "flat", c->base.build(net), 1, (int64_t[]){6}),
        neap_net_parameter(net, "weight", 2, (int64_t[]){1, 6}), NEAP_NONE);
    status = neap_network_finish(net, y, &c->training, &graph, &k->diag);
    assert_true((graph != NULL) == (status == NEAP_OK));
    neap_network_destroy(net);
    neap_graph_destroy(graph);
    return status;
}

/* Every type of op, alone and in networks. */
static void test_networks(void **state)
{
    (void)state;
    for (size_t i = 0; i < op_case_count(); i++)
        torture(build_case, op_case_at(i)->name, op_case_at(i));
    for (size_t i = 0; i < n_network_cases; i++)
        torture(build_case, network_cases[i].name, &network_cases[i]);
    for (size_t i = 0; i < n_update_cases; i++)
        torture(build_updates, update_cases[i].base.name, &update_cases[i]);
}

typedef struct model_case {
    const char *name;
    neap_model_setting settings[2];
} model_case;

static neap_status build_model(rack *k)
{
    const model_case *c = k->subject;
    neap_model_options options;
    neap_graph *graph = NULL;
    neap_model_options_init(&options);
    options.training.optimizer = NEAP_OPTIMIZER_ADAM;
    options.n_settings = 2;
    options.settings = c->settings;
    arm(k);
    neap_status status =
        neap_model_build(memory(k), neap_models_find(c->name), &options, &graph, &k->diag);
    assert_true((graph != NULL) == (status == NEAP_OK));
    neap_graph_destroy(graph);
    return status;
}

static void test_models(void **state)
{
    (void)state;
    static const model_case models[] = {
        {"chain", {{"layers", 40}, {"reads_input", 1}}},
        {"hong-alexnet", {{"batch", 1}, {"batch", 1}}},
        {"alexnet", {{"batch", 1}, {"batch", 1}}},
        {"lstm", {{"layers", 1}, {"seq", 3}}},
        {"gpt2", {{"layers", 1}, {"batch", 1}}},
        {"unet", {{"batch", 1}, {"image", 64}}},
    };
    static const model_case wrong = {"alexnet", {{"batch", 1}, {"depth", 1}}};
    for (size_t i = 0; i < COUNT_OF(models); i++)
        torture(build_model, models[i].name, &models[i]);
    torture_for(build_model, "a model with a wrong setting", &wrong, NEAP_INVALID);
}

/* ---- Costs ---- */

static neap_status read_devices(rack *k)
{
    neap_devices *devices = (neap_devices *)k;
    arm(k);
    neap_status status = neap_devices_create(memory(k), &devices, &k->diag);
    assert_true((devices != NULL) == (status == NEAP_OK));
    if (status != NEAP_OK)
        return status;
    uint32_t before = neap_devices_count(devices);
    status = neap_devices_read_file(devices, k->subject, &k->diag);
    assert_int_equal(neap_devices_count(devices), before + (status == NEAP_OK ? 30 : 0));
    neap_devices_destroy(devices);
    return status;
}

static void write_devices(const char *path)
{
    char text[8192] = "{\"neap\":\"devices\",\"version\":1,\"devices\":[",
         *end = text + strlen(text);
    for (int i = 0; i < 30; i++)
        end += sprintf(end,
                       "%s{\"name\":\"\\u0061-device-%d\",\"summary\":\"a \\\"summary\\\"\","
                       "\"bandwidth\":1.2345678901234567e9,\"flops\":{\"f32\":%d}}",
                       i ? "," : "", i, i + 1);
    strcpy(end, "]}");
    write_text_file(path, text);
}

/* To be released with release_text. */
static char *text_of(const neap_graph *graph)
{
    char *text;
    size_t length;
    assert_int_equal(neap_graph_write_text(graph, NULL, &text, &length, NULL), NEAP_OK);
    return text;
}

static void release_text(char *text)
{
    neap_release(NULL, text, strlen(text) + 1);
}

/* Times replaced, or nothing at all. */
static neap_status apply_costs(rack *k)
{
    neap_devices *devices;
    neap_graph *graph;
    const char *text = k->subject;
    assert_int_equal(neap_devices_create(NULL, &devices, NULL), NEAP_OK);
    assert_int_equal(neap_graph_read_text(memory(k), text, strlen(text), "t", &graph, NULL),
                     NEAP_OK);
    char *before = text_of(graph);
    int64_t ticks = neap_graph_base_ticks(graph), floor_bytes = neap_graph_floor_bytes(graph, NULL);
    arm(k);
    neap_status status =
        neap_cost_apply(graph, neap_devices_find(devices, "unit"), NEAP_MATH_F32, &k->diag);
    disarm(k);
    if (status != NEAP_OK) {
        char *after = text_of(graph);
        if (strcmp(after, before) != 0)
            fail_msg("costs, allocation %zu: the graph is half changed", k->fail_from);
        assert_int_equal(neap_graph_base_ticks(graph), ticks);
        assert_int_equal(neap_graph_floor_bytes(graph, NULL), floor_bytes);
        for (uint32_t o = 0; o < neap_graph_op_count(graph); o++)
            assert_true(neap_graph_op(graph, o)->variants[0].seconds == 0 ||
                        neap_graph_op(graph, o)->variants[0].ticks > 0);
        release_text(after);
    }
    release_text(before);
    neap_graph_destroy(graph);
    neap_devices_destroy(devices);
    return status;
}

static void test_costs(void **state)
{
    (void)state;
    char *folder = make_temporary_folder(), *path = join_path(folder, "devices.json");
    write_devices(path);
    torture(read_devices, "devices", path);
    random_source random = {20240616};
    for (int i = 0; i < 40;
         i++) { /* of many sizes: the graph's arena must be full for it to matter */
        neap_graph *graph = random_training_graph(&random, 100, false);
        char *text = text_of(graph);
        torture(apply_costs, "costs", text);
        release_text(text);
        neap_graph_destroy(graph);
    }
    remove_temporary_folder(folder);
    free(path);
}

/* ---- Plans ---- */

/* A training graph with variants, and what is needed to plan and judge it. */
typedef struct training {
    neap_graph *graph;
    neap_plan *plan; /* with transfers and addresses */
    neap_link link;
    char *plan_text;
    neap_timeline timeline;
} training;

static void make_training(training *t, uint64_t seed)
{
    random_source random = {seed};
    size_t length;
    t->graph = random_training_graph(&random, 12, false);
    t->plan = random_plan(&random, t->graph, 80, true);
    t->link = (neap_link){.out_bandwidth = 50, .in_bandwidth = 20, .duplex = true};
    assert_int_equal(neap_layout_assign(NULL, t->graph, t->plan, NULL, NULL), NEAP_OK);
    assert_int_equal(neap_plan_write_text(t->plan, NULL, &t->plan_text, &length, NULL), NEAP_OK);
    assert_int_equal(neap_timeline_build(NULL, t->graph, t->plan, &t->link, &t->timeline, NULL),
                     NEAP_OK);
}

static void clear_training(training *t)
{
    neap_timeline_clear(&t->timeline);
    neap_plan_destroy(t->plan);
    neap_graph_destroy(t->graph);
    release_text(t->plan_text);
}

static neap_status read_plan(rack *k)
{
    const training *t = k->subject;
    neap_plan *plan = (neap_plan *)k;
    arm(k);
    neap_status status =
        neap_plan_read_text(memory(k), t->plan_text, strlen(t->plan_text), "t", &plan, &k->diag);
    assert_true((plan != NULL) == (status == NEAP_OK));
    neap_plan_destroy(plan);
    return status;
}

static neap_status write_plan(rack *k)
{
    const training *t = k->subject;
    char *text = NULL;
    size_t length = 0;
    arm(k);
    neap_status status = neap_plan_write_text(t->plan, memory(k), &text, &length, &k->diag);
    assert_true((text != NULL) == (status == NEAP_OK));
    neap_release(memory(k), text, length + 1);
    return status;
}

static neap_status make_plan(rack *k)
{
    neap_plan *plan = (neap_plan *)k;
    arm(k);
    neap_status status = neap_plan_create(memory(k), "graph", "method", 5, &plan, &k->diag);
    assert_true((plan != NULL) == (status == NEAP_OK));
    size_t count = 0;
    for (; count < 100 && status == NEAP_OK; count += status == NEAP_OK)
        status =
            neap_plan_append(plan, (neap_step){NEAP_FREE, (uint32_t)count, 0, false}, &k->diag);
    for (int round = 0; round < 2 && status == NEAP_OK; round++)
        status = neap_plan_set_offsets(plan, (int64_t[]){1, 2, 3}, 3, 9, &k->diag);
    if (plan)
        assert_int_equal(neap_plan_step_count(plan), count);
    neap_plan_destroy(plan);
    return status;
}

static neap_status plan_sequence(rack *k)
{
    const training *t = k->subject;
    uint32_t sequence[64], n = neap_graph_op_count(t->graph);
    neap_plan *plan = (neap_plan *)k;
    for (uint32_t i = 0; i < n; i++)
        sequence[i] = sequence[n + i] = i;
    arm(k);
    neap_status status = neap_plan_from_sequence(memory(k), t->graph, sequence, 2 * n, NULL, "m",
                                                 -1, &plan, &k->diag);
    assert_true((plan != NULL) == (status == NEAP_OK));
    neap_plan_destroy(plan);
    return status;
}

static neap_status natural_peak(rack *k)
{
    const training *t = k->subject;
    int64_t peak = -7;
    arm(k);
    neap_status status = neap_natural_peak(memory(k), t->graph, &peak, &k->diag);
    assert_true((peak != -7) == (status == NEAP_OK));
    return status;
}

static neap_status build_chain(rack *k)
{
    const training *t = k->subject;
    neap_chain chain;
    arm(k);
    neap_status status = neap_chain_build(memory(k), t->graph, &chain, &k->diag);
    neap_chain_clear(&chain); /* fine after a failure too */
    return status;
}

static neap_status judge(rack *k)
{
    const training *t = k->subject;
    neap_check_options options;
    neap_verdict verdict = {0};
    neap_check_options_init(&options);
    options.link = &t->link;
    arm(k);
    neap_status status = neap_check(memory(k), t->graph, t->plan, &options, &verdict, &k->diag);
    assert_true(verdict.accepted == (status == NEAP_OK));
    return status;
}

static neap_status build_timeline(rack *k)
{
    const training *t = k->subject;
    neap_timeline timeline;
    arm(k);
    neap_status status =
        neap_timeline_build(memory(k), t->graph, t->plan, &t->link, &timeline, &k->diag);
    neap_timeline_clear(&timeline);
    return status;
}

static neap_status find_parts(rack *k)
{
    const training *t = k->subject;
    neap_memory_parts parts;
    arm(k);
    return neap_plan_peak_parts(memory(k), t->graph, t->plan, &parts, &k->diag);
}

/* The plan keeps the addresses it has, or gets new ones. */
static neap_status assign_layout(rack *k)
{
    const training *t = k->subject;
    neap_plan *plan;
    size_t count, old_count;
    assert_int_equal(
        neap_plan_read_text(memory(k), t->plan_text, strlen(t->plan_text), "t", &plan, NULL),
        NEAP_OK);
    assert_int_equal(neap_plan_set_offsets(plan, (int64_t[]){7}, 1, 99, NULL), NEAP_OK);
    neap_plan_offsets(t->plan, &old_count);
    arm(k);
    neap_status status = neap_layout_assign(memory(k), t->graph, plan, NULL, &k->diag);
    const int64_t *offsets = neap_plan_offsets(plan, &count);
    if (status == NEAP_OK)
        assert_int_equal(count, old_count);
    else
        assert_true(count == 1 && offsets[0] == 7 && neap_plan_arena_bytes(plan) == 99);
    neap_plan_destroy(plan);
    return status;
}

static neap_status build_fine_chain(rack *k)
{
    neap_chain chain;
    arm(k);
    neap_status status = neap_chain_build_fine(memory(k), k->subject, 0, &chain, &k->diag);
    neap_chain_clear(&chain);
    return status;
}

static void test_plans(void **state)
{
    (void)state;
    training t;
    make_training(&t, 20240617);
    torture(read_plan, "reading a plan", &t);
    torture(write_plan, "writing a plan", &t);
    torture(make_plan, "making a plan", NULL);
    torture(plan_sequence, "a compute sequence", &t);
    torture(natural_peak, "the natural peak", &t);
    torture(build_chain, "the chain view", &t);
    torture(judge, "the judge", &t);
    torture(build_timeline, "the timeline", &t);
    torture(find_parts, "the parts of the peak", &t);
    torture(assign_layout, "the layout", &t);
    clear_training(&t);
}

/* ---- Methods ---- */

typedef struct method_case {
    const neap_graph *graph;
    const char *method;
    int64_t budget;
} method_case;

static neap_status solve(rack *k)
{
    const method_case *c = k->subject;
    neap_request request;
    neap_solution *solution = (neap_solution *)k;
    neap_request_init(&request, c->graph, c->method);
    request.link = method_link(c->method);
    request.budget = c->budget;
    search_least(&request);
    arm(k);
    neap_status status = neap_solve(memory(k), &request, &solution, &k->diag);
    assert_true((solution != NULL) == (status == NEAP_OK));
    neap_solution_destroy(solution);
    return status;
}

static void torture_method(const neap_graph *graph, const char *method)
{
    int64_t peak;
    assert_int_equal(neap_natural_peak(NULL, graph, &peak, NULL), NEAP_OK);
    const int64_t budgets[] = {-1, peak - peak / 5, 1};
    for (size_t i = 0; i < COUNT_OF(budgets); i++) {
        method_case c = {graph, method, budgets[i]};
        neap_request request;
        neap_solution *solution;
        neap_request_init(&request, graph, method);
        request.link = method_link(method);
        request.budget = budgets[i];
        search_least(&request);
        neap_status expected = neap_solve(NULL, &request, &solution, NULL);
        neap_solution_destroy(solution);
        torture_for(solve, method, &c, expected);
    }
}

static void test_methods(void **state)
{
    (void)state;
    random_source random = {20240618};
    neap_model_setting layers = {"layers", 4};
    neap_model_options options;
    neap_graph *graphs[4];
    neap_model_options_init(&options);
    options.n_settings = 1;
    options.settings = &layers;
    assert_int_equal(neap_model_build(NULL, neap_models_find("chain"), &options, &graphs[0], NULL),
                     NEAP_OK);
    graphs[1] = random_training_graph(&random, 5, false);
    graphs[2] = random_small_graph(&random, 6, SMALL_TRAINING | SMALL_UPDATES | SMALL_IN_PLACE);
    graphs[3] = random_small_graph(&random, 7, SMALL_TRAINING | SMALL_UPDATES | SMALL_SIDE);
    for (size_t i = 0; i < COUNT_OF(graphs); i++) {
        for (uint32_t m = 0; m < neap_methods_count(); m++)
            torture_method(graphs[i], neap_method_name(neap_methods_at(m)));
        neap_graph_destroy(graphs[i]);
    }
}

/* An LSTM, which has more stages in the fine view than in the other. */
static void test_fine_chain_view(void **state)
{
    (void)state;
    neap_model_setting settings[] = {{"seq", 6}, {"hidden", 64}, {"layers", 1}, {"vocab", 8}};
    neap_model_options options;
    neap_graph *graph;
    neap_model_options_init(&options);
    options.n_settings = COUNT_OF(settings);
    options.settings = settings;
    assert_int_equal(neap_model_build(NULL, neap_models_find("lstm"), &options, &graph, NULL),
                     NEAP_OK);
    torture(build_fine_chain, "the fine chain view", graph);
    neap_graph_destroy(graph);
}

/* ---- Reports ---- */

static neap_status draw_chart(rack *k)
{
    const training *t = k->subject;
    neap_chart_options options;
    char *text = NULL;
    size_t length = 0;
    neap_chart_options_init(&options);
    options.color = true;
    options.budget = t->timeline.peak_bytes;
    options.natural_peak = t->timeline.peak_bytes / 2;
    arm(k);
    neap_status status = neap_report_memory_chart(memory(k), t->graph, t->plan, &t->timeline,
                                                  &options, &text, &length, &k->diag);
    assert_true((text != NULL) == (status == NEAP_OK));
    neap_release(memory(k), text, length + 1);
    return status;
}

/* What a call has drawn is given back; without a picture there is no text. */
static neap_status drawn(rack *k, neap_status status, char *text, size_t length)
{
    assert_true((text != NULL) == (status == NEAP_OK));
    neap_release(memory(k), text, length + 1);
    return status;
}

static neap_status draw_memory(rack *k)
{
    const training *t = k->subject;
    neap_memory_picture picture;
    char *text = NULL;
    size_t length = 0;
    neap_memory_picture_init(&picture, t->graph, t->plan, &t->timeline);
    neap_plan *natural;
    assert_int_equal(neap_natural_plan(NULL, t->graph, &natural, NULL), NEAP_OK);
    picture.natural = natural;
    picture.budget = t->timeline.peak_bytes;
    arm(k);
    neap_status status = neap_report_memory_svg(memory(k), &picture, &text, &length, &k->diag);
    neap_plan_destroy(natural);
    return drawn(k, status, text, length);
}

static const neap_curve_point points[] = {
    {"a", 100, true, 90, 0},   {"a", 80, true, 80, 0.1}, {"a", 60, false, -1, -1},
    {"b", 100, true, 70, 0.2}, {"b", 80, true, 70, 0.2}, {"c", 80, true, 70, 0.3},
    {"d", 100, true, 70, 0.2}, {"d", 80, true, 70, 0.2}, {"e", 80, false, 70, 0.3},
};

static neap_curve_picture curve_of_points(void)
{
    static const neap_curve_bound bounds[] = {{80, 0.05}, {100, 0}};
    neap_curve_picture picture;
    neap_curve_picture_init(&picture);
    picture.title = "a & b";
    picture.points = points;
    picture.n_points = COUNT_OF(points);
    picture.bounds = bounds;
    picture.n_bounds = COUNT_OF(bounds);
    picture.natural_peak = 100;
    picture.floor = 70;
    return picture;
}

static neap_status draw_curve(rack *k)
{
    neap_curve_picture picture = curve_of_points();
    char *text = NULL;
    size_t length = 0;
    arm(k);
    neap_status status = neap_report_curve_svg(memory(k), &picture, &text, &length, &k->diag);
    return drawn(k, status, text, length);
}

static neap_status draw_curve_chart(rack *k)
{
    neap_curve_picture picture = curve_of_points();
    char *text = NULL;
    size_t length = 0;
    arm(k);
    neap_status status =
        neap_report_curve_chart(memory(k), &picture, NULL, &text, &length, &k->diag);
    return drawn(k, status, text, length);
}

static neap_comparison comparison_of_rows(void)
{
    static const neap_comparison_row rows[] = {{"a", true, 90, 0.2, NULL, -1},
                                               {"b", true, 80, 0.1, NULL, -1},
                                               {"c", false, 0, 0, NULL, 9}};
    neap_comparison comparison;
    neap_comparison_init(&comparison);
    comparison.title = "a & b";
    comparison.rows = rows;
    comparison.n_rows = COUNT_OF(rows);
    comparison.budget = 90;
    return comparison;
}

static neap_status draw_comparison(rack *k)
{
    neap_comparison comparison = comparison_of_rows();
    char *text = NULL;
    size_t length = 0;
    arm(k);
    neap_status status =
        neap_report_comparison_svg(memory(k), &comparison, &text, &length, &k->diag);
    return drawn(k, status, text, length);
}

static neap_status draw_comparison_chart(rack *k)
{
    neap_comparison comparison = comparison_of_rows();
    char *text = NULL;
    size_t length = 0;
    arm(k);
    neap_status status =
        neap_report_comparison_chart(memory(k), &comparison, NULL, &text, &length, &k->diag);
    return drawn(k, status, text, length);
}

static neap_status draw_series(rack *k)
{
    static const double values[] = {3, 2, 1, 2, 1.5, 1};
    char *text = NULL;
    size_t length = 0;
    arm(k);
    neap_status status = neap_report_series_chart(memory(k), values, COUNT_OF(values), NULL, &text,
                                                  &length, &k->diag);
    assert_true((text != NULL) == (status == NEAP_OK));
    neap_release(memory(k), text, length + 1);
    return status;
}

static neap_status write_trace(rack *k)
{
    const training *t = k->subject;
    char *text = NULL;
    size_t length = 0;
    arm(k);
    neap_status status = neap_report_trace(memory(k), t->graph, t->plan, &t->timeline, NULL, &text,
                                           &length, &k->diag);
    assert_true((text != NULL) == (status == NEAP_OK));
    neap_release(memory(k), text, length + 1);
    return status;
}

static void test_reports(void **state)
{
    (void)state;
    training t;
    make_training(&t, 20240619);
    torture(draw_chart, "the memory chart", &t);
    torture(draw_memory, "the memory picture", &t);
    torture(draw_curve, "the curve", NULL);
    torture(draw_curve_chart, "the chart of the curve", NULL);
    torture(draw_comparison, "the comparison", NULL);
    torture(draw_comparison_chart, "the chart of the comparison", NULL);
    torture(draw_series, "the chart of a series", NULL);
    torture(write_trace, "the trace", &t);
    clear_training(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_graphs),          cmocka_unit_test(test_networks),
        cmocka_unit_test(test_models),          cmocka_unit_test(test_costs),
        cmocka_unit_test(test_plans),           cmocka_unit_test(test_methods),
        cmocka_unit_test(test_fine_chain_view), cmocka_unit_test(test_reports),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
