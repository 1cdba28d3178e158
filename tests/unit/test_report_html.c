/* neap/report.h: the report as a page, and what is in its data block. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "accepted.h"
#include "random_training.h"
#include "report_block.h"
#include "settings.h"
#include "small_graphs.h"

#include <neap/cost.h>
#include <neap/layout.h>
#include <neap/models.h>
#include <neap/report.h>
#include <neap/solve.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

static const neap_link LINK = {.out_bandwidth = 3e6, .in_bandwidth = 5e6, .duplex = true};

/* The data of a report; the caller frees it. */
static char *data_of(const neap_report *report)
{
    neap_diag diag = {0};
    char *text, *copy;
    size_t length;
    if (neap_report_data(NULL, report, &text, &length, &diag) != NEAP_OK)
        fail_msg("%s", diag.message);
    assert_int_equal(strlen(text), length);
    copy = strdup(text);
    assert_non_null(copy);
    neap_release(NULL, text, length + 1);
    block_at(copy, "train"); /* the last: all of it is JSON */
    return copy;
}

static char *page_of(const neap_report *report)
{
    neap_diag diag = {0};
    char *text, *copy;
    size_t length;
    if (neap_report_html(NULL, report, &text, &length, &diag) != NEAP_OK)
        fail_msg("%s", diag.message);
    assert_int_equal(strlen(text), length);
    copy = strdup(text);
    assert_non_null(copy);
    neap_release(NULL, text, length + 1);
    return copy;
}

/* ---- A plan read back ---- */

/* The steps as columns, unpacked as docs/report.md says. */
typedef struct unpacked {
    char *kind;
    size_t count;
    int64_t *id, *variant, *begin, *end, *live, *after;
} unpacked;

static int64_t *zeros(size_t count)
{
    int64_t *items = calloc(count + 1, sizeof *items);
    assert_non_null(items);
    return items;
}

/* A column of plan 1. */
static block_column column_of(const char *data, const char *name)
{
    char path[64];
    snprintf(path, sizeof path, "plans.1.steps.%s", name);
    return block_integers(data, path);
}

static bool computes(char kind)
{
    return kind == 'c' || kind == 'i';
}

static bool copies(char kind)
{
    return kind == 'o' || kind == 'p';
}

static void unpack_ids(unpacked *u, const char *data)
{
    block_column ids = column_of(data, "id");
    int64_t last[2] = {0, 0};
    assert_int_equal(ids.count, u->count);
    for (size_t i = 0; i < u->count; i++)
        u->id[i] = last[computes(u->kind[i])] += ids.items[i];
    free(ids.items);
    if (strstr(data, "\"variant\":[")) {
        block_column variants = column_of(data, "variant");
        assert_int_equal(variants.count, u->count);
        memcpy(u->variant, variants.items, u->count * sizeof *u->variant);
        free(variants.items);
    }
}

static void unpack_times(unpacked *u, const char *data, const neap_graph *graph)
{
    block_column waits = column_of(data, "waits"), lengths = column_of(data, "copies");
    size_t wait = 0, copy = 0;
    int64_t clock = 0, waiting = waits.count > 0 ? waits.items[0] : -1;
    for (size_t i = 0; i < u->count; i++) {
        int64_t waited = 0;
        if (waiting == (int64_t)i) {
            waited = waits.items[wait + 1];
            wait += 2;
            waiting = wait < waits.count ? waiting + waits.items[wait] : -1;
        }
        u->begin[i] = u->kind[i] == 'f' ? clock : clock + waited;
        if (computes(u->kind[i]))
            u->end[i] = u->begin[i] +
                        neap_graph_op(graph, (uint32_t)u->id[i])->variants[u->variant[i]].ticks;
        else if (copies(u->kind[i]))
            u->end[i] = u->begin[i] + lengths.items[copy++];
        else
            u->end[i] = clock + waited;
        if (!copies(u->kind[i]))
            clock = u->end[i];
    }
    assert_int_equal(wait, waits.count);
    assert_int_equal(copy, lengths.count);
    free(waits.items);
    free(lengths.items);
}

static void unpack_bytes(unpacked *u, const char *data)
{
    block_column grow = column_of(data, "grow"), drop = column_of(data, "drop");
    int64_t bytes = (int64_t)block_number(data, "plans.1.start_bytes", -1);
    assert_int_equal(grow.count, u->count);
    assert_int_equal(drop.count, u->count);
    for (size_t i = 0; i < u->count; i++) {
        u->live[i] = bytes + grow.items[i];
        u->after[i] = bytes = u->live[i] - drop.items[i];
    }
    free(grow.items);
    free(drop.items);
}

static unpacked unpack(const char *data, const neap_graph *graph)
{
    unpacked u = {.kind = block_string(data, "plans.1.steps.kind")};
    u.count = strlen(u.kind);
    u.id = zeros(u.count);
    u.variant = zeros(u.count);
    u.begin = zeros(u.count);
    u.end = zeros(u.count);
    u.live = zeros(u.count);
    u.after = zeros(u.count);
    unpack_ids(&u, data);
    unpack_times(&u, data, graph);
    unpack_bytes(&u, data);
    return u;
}

static void unpacked_free(unpacked *u)
{
    free(u->kind);
    free(u->id);
    free(u->variant);
    free(u->begin);
    free(u->end);
    free(u->live);
    free(u->after);
}

/* ---- Against the timeline and the judge ---- */

static void assert_steps(const unpacked *u, const neap_plan *plan, const neap_timeline *timeline)
{
    static const char LETTERS[] = "cfop";
    assert_int_equal(u->count, neap_plan_step_count(plan));
    for (size_t i = 0; i < u->count; i++) {
        const neap_step *step = &neap_plan_steps(plan)[i];
        const neap_timeline_step *t = &timeline->steps[i];
        assert_int_equal(u->kind[i], step->in_place ? 'i' : LETTERS[step->kind]);
        assert_int_equal(u->id[i], step->id);
        assert_int_equal(u->variant[i], step->variant);
        assert_int_equal(u->begin[i], t->begin);
        assert_int_equal(u->end[i], t->end);
        assert_int_equal(u->live[i], t->live_bytes);
        assert_int_equal(u->after[i], t->after_bytes);
    }
}

static void assert_figures(const char *data, const neap_graph *graph, const neap_plan *plan,
                           const neap_verdict *verdict)
{
    double base = neap_graph_seconds(graph, neap_graph_base_ticks(graph));
    assert_true(block_number(data, "plans.1.peak_bytes", -1) == (double)verdict->peak_bytes);
    assert_true(block_number(data, "plans.1.time", -1) == verdict->time);
    assert_true(block_number(data, "plans.1.overhead", -1) ==
                (base > 0 ? verdict->time / base - 1 : 0));
    assert_true(block_number(data, "plans.1.recomputed_ops", -1) ==
                (double)verdict->recomputed_ops);
    assert_true(block_number(data, "plans.1.offloaded_bytes", -1) ==
                (double)verdict->offloaded_bytes);
    assert_true(block_number(data, "plans.1.arena_bytes", -1) ==
                (double)neap_plan_arena_bytes(plan));
    block_column parts = block_integers(data, "plans.1.parts");
    int64_t sum = 0;
    assert_int_equal(parts.count, 6);
    for (size_t i = 0; i < parts.count; i++)
        sum += parts.items[i];
    assert_int_equal(sum, verdict->peak_bytes);
    free(parts.items);
}

/* The instances that are in the arena during a step add up to what is live then. */
static void assert_addresses(const char *data, const neap_graph *graph, const unpacked *u,
                             const neap_plan *plan)
{
    size_t count;
    const int64_t *offsets = neap_plan_offsets(plan, &count);
    block_column owner = block_integers(data, "plans.1.offsets.value"),
                 offset = block_integers(data, "plans.1.offsets.offset"),
                 from = block_integers(data, "plans.1.offsets.from"),
                 steps = block_integers(data, "plans.1.offsets.steps");
    int64_t *bytes = zeros(u->count), value = 0, begin = 0;
    assert_int_equal(offset.count, count);
    assert_memory_equal(offset.items, offsets, count * sizeof *offsets);
    for (size_t i = 0; i < count; i++) {
        value += owner.items[i];
        begin += from.items[i];
        int64_t size = value >= 0 ? neap_graph_value(graph, (uint32_t)value)->bytes
                                  : neap_graph_op(graph, (uint32_t)(-1 - value))
                                        ->variants[u->variant[begin]]
                                        .workspace;
        assert_true(offset.items[i] + size <= neap_plan_arena_bytes(plan));
        for (int64_t step = begin; step < begin + steps.items[i]; step++)
            bytes[step] += size;
    }
    for (size_t i = 0; i < u->count; i++)
        assert_int_equal(bytes[i] + neap_graph_fixed_bytes(graph),
                         computes(u->kind[i]) ? u->live[i] : u->after[i]);
    free(owner.items);
    free(offset.items);
    free(from.items);
    free(steps.items);
    free(bytes);
}

static void assert_plan(const neap_graph *graph, neap_plan *plan)
{
    neap_timeline timeline;
    neap_verdict verdict = accepted_plan(graph, plan, &LINK);
    assert_int_equal(neap_layout_assign(NULL, graph, plan, NULL, NULL), NEAP_OK);
    assert_int_equal(neap_timeline_build(NULL, graph, plan, &LINK, &timeline, NULL), NEAP_OK);
    const neap_report_plan plans[] = {{.plan = plan, .status = "feasible", .bound_time = -1}};
    const neap_report report = {.graph = graph, .link = &LINK, .n_plans = 1, .plans = plans};
    char *data = data_of(&report);
    unpacked u = unpack(data, graph);
    assert_steps(&u, plan, &timeline);
    assert_figures(data, graph, plan, &verdict);
    assert_addresses(data, graph, &u, plan);
    unpacked_free(&u);
    neap_timeline_clear(&timeline);
    free(data);
}

static void plans_read_back_as_they_were(void **state)
{
    (void)state;
    uint64_t seed = setting("NEAP_TEST_SEED", 20261118);
    print_message("seed %llu\n", (unsigned long long)seed);
    for (uint64_t i = 0; i < 60; i++) {
        random_source random = {seed + i};
        neap_graph *graph = i % 3 == 0   ? random_graph(&random, 30)
                            : i % 3 == 1 ? random_training_graph(&random, 12, i % 2)
                                         : random_in_place_graph(&random, 12);
        neap_plan *plan = random_plan(&random, graph, 120, i % 4 != 0);
        assert_plan(graph, plan);
        neap_plan_destroy(plan);
        neap_graph_destroy(graph);
    }
}

static void steps_in_place_are_marked(void **state)
{
    (void)state;
    neap_graph *graph = graph_from(
        "{'neap': 'graph', 'version': 1, 'name': 'over',"
        " 'values': [{'name': 'x', 'bytes': 8, 'kind': 'input'}, {'name': 'a', 'bytes': 16},"
        "  {'name': 'b', 'bytes': 16}],"
        " 'ops': [{'name': 'A', 'inputs': [0], 'outputs': [1], 'time': 1},"
        "  {'name': 'B', 'inputs': [1], 'outputs': [2], 'time': 1, 'in_place': [1, 2]}],"
        " 'outputs': [2]}");
    neap_plan *plan = plan_from("c0 c1!");
    const neap_report_plan plans[] = {{.plan = plan, .bound_time = -1}};
    const neap_report report = {.graph = graph, .n_plans = 1, .plans = plans};
    char *data = data_of(&report), *kind = block_string(data, "plans.1.steps.kind");
    assert_string_equal(kind, "ci");
    block_column pair = block_integers(data, "ops.in_place.1"),
                 grow = block_integers(data, "plans.1.steps.grow");
    assert_int_equal(pair.items[0], 1);
    assert_int_equal(pair.items[1], 2);
    assert_int_equal(grow.items[0], 16);
    assert_int_equal(grow.items[1], 0);
    assert_null(block_string(data, "plans.1.status"));
    free(pair.items);
    free(grow.items);
    free(kind);
    free(data);
    neap_plan_destroy(plan);
    neap_graph_destroy(graph);
}

/* ---- The graph ---- */

/* A name of the data: a string, or suffix * layers + layer. */
static char *name_at(const char *data, const char *column, size_t index)
{
    char path[64], *layer, *suffix, *name;
    snprintf(path, sizeof path, "%s.name.%zu", column, index);
    if (*block_at(data, path).text == '"')
        return block_string(data, path);
    size_t number = (size_t)block_number(data, path, -1), layers = block_count(data, "layers");
    snprintf(path, sizeof path, "layers.%zu", number % layers);
    layer = block_string(data, path);
    snprintf(path, sizeof path, "suffixes.%zu", number / layers);
    suffix = block_string(data, path);
    size_t room = strlen(layer) + strlen(suffix) + 1;
    name = malloc(room);
    assert_non_null(name);
    snprintf(name, room, "%s%s", layer, suffix);
    free(layer);
    free(suffix);
    return name;
}

static neap_graph *small_resnet(neap_optimizer optimizer)
{
    neap_model_options options;
    neap_model_options_init(&options);
    const neap_model_setting sizes[] = {{"batch", 2}, {"image", 32}};
    options.n_settings = COUNT_OF(sizes);
    options.settings = sizes;
    options.training.optimizer = optimizer;
    neap_graph *graph;
    assert_int_equal(neap_model_build(NULL, neap_models_find("resnet18"), &options, &graph, NULL),
                     NEAP_OK);
    return graph;
}

static void the_graph_reads_back(void **state)
{
    (void)state;
    neap_graph *graph = small_resnet(NEAP_OPTIMIZER_ADAM);
    const neap_report report = {.graph = graph};
    char *data = data_of(&report);
    block_column types = block_integers(data, "ops.type"),
                 passes = block_integers(data, "ops.pass"),
                 ticks = block_integers(data, "ops.ticks"),
                 bytes = block_integers(data, "values.bytes"),
                 roots = block_integers(data, "values.root"),
                 makers = block_integers(data, "values.op");
    assert_int_equal(types.count, neap_graph_op_count(graph));
    assert_int_equal(bytes.count, neap_graph_value_count(graph));
    for (uint32_t o = 0; o < types.count; o += 7) {
        const neap_op *op = neap_graph_op(graph, o);
        char path[64], *name = name_at(data, "ops", o);
        assert_string_equal(name, op->name);
        free(name);
        snprintf(path, sizeof path, "types.%lld", (long long)types.items[o]);
        name = block_string(data, path);
        assert_string_equal(name, op->type);
        free(name);
        assert_int_equal(passes.items[o], op->n_updates > 0 ? 2 : op->pass);
        assert_int_equal(ticks.items[o], op->variants[0].ticks);
        snprintf(path, sizeof path, "ops.inputs.%u", o);
        block_column inputs = block_integers(data, path);
        assert_int_equal(inputs.count, op->n_inputs);
        for (uint32_t i = 0; i < op->n_inputs; i++)
            assert_int_equal(inputs.items[i], op->inputs[i]);
        free(inputs.items);
    }
    for (uint32_t v = 0; v < bytes.count; v += 11) {
        const neap_value *value = neap_graph_value(graph, v);
        char *name = name_at(data, "values", v);
        assert_string_equal(name, value->name);
        free(name);
        assert_int_equal(bytes.items[v], value->bytes);
        assert_int_equal(roots.items[v], value->storage);
        assert_int_equal(makers.items[v],
                         value->producer == NEAP_NONE ? -1 : (int64_t)value->producer);
    }
    assert_int_equal((int)block_number(data, "main", -1), 0);
    assert_int_equal(block_count(data, "plans"), 1);
    free(types.items);
    free(passes.items);
    free(ticks.items);
    free(bytes.items);
    free(roots.items);
    free(makers.items);
    free(data);
    neap_graph_destroy(graph);
}

/* Every op of a layer is in it, whatever its pass; the loss's gradients and updates too. */
static void backward_ops_belong_to_their_layer(void **state)
{
    (void)state;
    neap_graph *graph = small_resnet(NEAP_OPTIMIZER_SGD);
    const neap_report report = {.graph = graph};
    char *data = data_of(&report);
    block_column layers = block_integers(data, "ops.layer");
    size_t n_layers = block_count(data, "layers"), n_forward = 0, checked = 0;
    for (uint32_t o = 0; o < layers.count; o++) {
        const neap_op *op = neap_graph_op(graph, o);
        char path[64], *layer;
        n_forward += op->pass == NEAP_FORWARD && op->n_updates == 0;
        if (strncmp(op->name, "layer1.0.conv2", 14) != 0)
            continue;
        snprintf(path, sizeof path, "layers.%lld", (long long)layers.items[o]);
        layer = block_string(data, path);
        assert_string_equal(layer, "layer1.0.conv2");
        free(layer);
        checked++;
    }
    assert_int_equal(checked, 4); /* forward, two backward ops, an update */
    assert_int_equal(n_layers, n_forward);
    free(layers.items);
    free(data);
    neap_graph_destroy(graph);
}

/* ---- Names of all kinds ---- */

static neap_graph *graph_with_names(const char *graph_name, const char *name, const char *type)
{
    neap_graph_builder *builder;
    neap_graph *graph;
    neap_value_desc value;
    neap_op_desc op;
    uint32_t x, y, id;
    assert_int_equal(neap_graph_builder_create(NULL, graph_name, &builder, NULL), NEAP_OK);
    neap_value_desc_init(&value);
    value.name = name;
    value.bytes = 4;
    assert_int_equal(neap_graph_builder_add_value(builder, &value, &x, NULL), NEAP_OK);
    value.name = "y";
    assert_int_equal(neap_graph_builder_add_value(builder, &value, &y, NULL), NEAP_OK);
    neap_op_desc_init(&op);
    op.name = name;
    op.type = type;
    op.n_inputs = op.n_outputs = 1;
    op.inputs = &x;
    op.outputs = &y;
    assert_int_equal(neap_graph_builder_add_op(builder, &op, &id, NULL), NEAP_OK);
    assert_int_equal(neap_graph_builder_add_output(builder, y, NULL), NEAP_OK);
    assert_int_equal(neap_graph_builder_finish(builder, &graph, NULL), NEAP_OK);
    neap_graph_builder_destroy(builder);
    return graph;
}

static void hostile_names_stay_names(void **state)
{
    (void)state;
    static const struct {
        const char *name, *shown;
    } CASES[] = {
        {"</script><script>alert(1)</script>", "</script><script>alert(1)</script>"},
        {"<!--<script>", "<!--<script>"},
        {"\"quotes' and \\backslashes\\", "\"quotes' and \\backslashes\\"},
        {"two\nlines\r\tand\x01 more", "two?lines??and? more"},
        {"c1 \xc2\x9b escape", "c1 ? escape"},
        {"over\xe2\x80\xaeride", "over?ride"},
        {"line\xe2\x80\xa8 and\xe2\x80\xa9 paragraph", "line? and? paragraph"},
        {"not \xff\xfe utf-8 \xc3", "not ?? utf-8 ?"},
        {"Gr\xc3\xb6\xc3\x9f"
         "e \xf0\x9f\x8c\x8a &amp;",
         "Gr\xc3\xb6\xc3\x9f"
         "e \xf0\x9f\x8c\x8a &amp;"},
        {"...", "..."},
        {"", ""},
    };
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        neap_graph *graph = graph_with_names(CASES[i].name, CASES[i].name, CASES[i].name);
        const neap_report report = {
            .graph = graph, .device = CASES[i].name, .command = CASES[i].name};
        char *page = page_of(&report), *data = block_of_page(page);
        static const char *const PATHS[] = {"title",         "about.graph", "about.device",
                                            "about.command", "types.0",     "layers.0"};
        for (size_t j = 0; j < COUNT_OF(PATHS); j++) {
            char *text = block_string(data, PATHS[j]);
            assert_string_equal(text, CASES[i].shown);
            free(text);
        }
        char *name = name_at(data, "ops", 0);
        assert_string_equal(name, CASES[i].shown);
        free(name);
        assert_null(strpbrk(data, "<>&"));
        assert_null(strstr(page, "<script>alert"));
        free(data);
        free(page);
        neap_graph_destroy(graph);
    }
}

static void long_names_are_cut(void **state)
{
    (void)state;
    char long_name[10001];
    memset(long_name, 'n', sizeof long_name - 1);
    long_name[sizeof long_name - 1] = '\0';
    neap_graph *graph = graph_with_names(long_name, long_name, long_name);
    const neap_report report = {.graph = graph, .command = long_name};
    char *data = data_of(&report), *name = name_at(data, "ops", 0);
    assert_int_equal(strlen(name), 199 + 3);
    assert_string_equal(name + 199, "\xe2\x80\xa6");
    assert_true(strlen(data) < 10000);
    free(name);
    free(data);
    neap_graph_destroy(graph);
}

/* ---- Curves and several plans ---- */

static void equal_plans_are_written_once(void **state)
{
    (void)state;
    neap_graph *graph = graph_from(abc_graph);
    neap_plan *a = plan_from("c0 c1 c2 f1 f2"), *b = plan_from("c0 c1 c2 f1 f2"),
              *c = plan_from("c0 c1 c2 f2 f1");
    const neap_report_plan plans[] = {{.plan = a, .bound_time = -1},
                                      {.plan = b, .bound_time = -1},
                                      {.plan = c, .bound_time = 3, .bound_scope = "order"}};
    const neap_report_point points[] = {
        {.method = "m", .status = "feasible", .budget = 500, .plan = 1, .bound_time = 3},
        {.method = "m", .status = "feasible", .budget = 400, .plan = 2, .bound_time = -1},
        {.method = "m", .status = "infeasible", .budget = 10, .plan = SIZE_MAX, .bound_time = 4.5}};
    const neap_report report = {.graph = graph,
                                .n_plans = COUNT_OF(plans),
                                .plans = plans,
                                .n_points = COUNT_OF(points),
                                .points = points,
                                .floor_bytes = 350,
                                .floor_op = 2};
    char *data = data_of(&report);
    assert_int_equal(block_count(data, "plans"), 3); /* the ordinary step, a and c */
    assert_int_equal((int)block_number(data, "main", -1), 1);
    assert_int_equal((int)block_number(data, "curve.points.0.plan", -1), 1);
    assert_int_equal((int)block_number(data, "curve.points.1.plan", -1), 2);
    assert_int_equal((int)block_number(data, "curve.points.2.plan", -1), -1);
    assert_int_equal((int)block_number(data, "curve.points.2.peak_bytes", -1), -1);
    assert_int_equal((int)block_number(data, "curve.floor_bytes", -1), 350);
    assert_int_equal((int)block_number(data, "about.floor_op", -1), 2);
    /* by rising budget; a bound holds for smaller budgets as well */
    assert_int_equal(block_count(data, "curve.bound"), 3);
    assert_true(block_number(data, "curve.bound.0.budget_bytes", -1) == 10);
    assert_true(block_number(data, "curve.bound.0.overhead", -1) == 4.5 / 3 - 1);
    assert_true(block_number(data, "curve.bound.1.overhead", -1) == 0);
    assert_true(block_number(data, "plans.2.gap", -1) == 0);
    assert_true(block_number(data, "plans.1.gap", -1) == -1);
    assert_non_null(strstr(data, "\"bound_time\":3,\"bound_scope\":\"order\","));
    assert_non_null(strstr(data, "\"bound_time\":null,\"bound_scope\":null,"));
    free(data);
    neap_plan_destroy(a);
    neap_plan_destroy(b);
    neap_plan_destroy(c);
    neap_graph_destroy(graph);
}

/* a is computed and freed so often before the rest. */
static neap_plan *restless_plan(size_t rounds)
{
    neap_plan *plan;
    assert_int_equal(neap_plan_create(NULL, "abc", "restless", -1, &plan, NULL), NEAP_OK);
    for (size_t i = 0; i < rounds; i++) {
        neap_plan_append(plan, (neap_step){.kind = NEAP_COMPUTE, .id = 0}, NULL);
        neap_plan_append(plan, (neap_step){.kind = NEAP_FREE, .id = 1}, NULL);
    }
    for (uint32_t op = 0; op < 3; op++)
        assert_int_equal(neap_plan_append(plan, (neap_step){.kind = NEAP_COMPUTE, .id = op}, NULL),
                         NEAP_OK);
    return plan;
}

static void many_steps_leave_out_plans(void **state)
{
    (void)state;
    neap_graph *graph = graph_from(/* op 0 is short, so that the time of 110,000 runs is exact */
                                   "{'neap': 'graph', 'version': 1, 'name': 'abc',"
                                   " 'values': [{'bytes': 8, 'kind': 'input'}, {'bytes': 16}, "
                                   "{'bytes': 16}, {'bytes': 4}],"
                                   " 'ops': [{'inputs': [0], 'outputs': [1], 'time': 1e-3},"
                                   "  {'inputs': [1], 'outputs': [2], 'time': 1},"
                                   "  {'inputs': [1, 2], 'outputs': [3], 'time': 1}],"
                                   " 'outputs': [3]}");
    neap_report_plan plans[4];
    neap_report_point points[4];
    for (size_t i = 0; i < COUNT_OF(plans); i++) {
        plans[i] = (neap_report_plan){.plan = restless_plan(110000 + i), .bound_time = -1};
        points[i] = (neap_report_point){
            .method = "restless", .status = "feasible", .budget = 400, .plan = i, .bound_time = -1};
    }
    const neap_report report = {.graph = graph,
                                .n_plans = COUNT_OF(plans),
                                .plans = plans,
                                .n_points = COUNT_OF(points),
                                .points = points};
    char *data = data_of(&report);
    assert_int_equal(block_count(data, "plans"), 3); /* 220,000 steps each: two beside the first */
    assert_int_equal((int)block_number(data, "curve.points.0.plan", -1), 1);
    assert_int_equal((int)block_number(data, "curve.points.1.plan", -1), 2);
    assert_int_equal((int)block_number(data, "curve.points.3.plan", -1), -1);
    assert_true(block_number(data, "curve.points.3.overhead", -1) > 1);
    free(data);
    for (size_t i = 0; i < COUNT_OF(plans); i++)
        neap_plan_destroy((neap_plan *)(uintptr_t)plans[i].plan);
    neap_graph_destroy(graph);
}

static void training_is_recorded(void **state)
{
    (void)state;
    neap_graph *graph = graph_from(abc_graph);
    const int64_t steps[] = {1, 2, 3};
    const double losses[] = {2.5, (double)NAN, 1.25}, seconds[] = {0.5, 0.25, 0.125};
    const neap_report_training training = {
        .n_steps = 3, .steps = steps, .losses = losses, .seconds = seconds, .predicted = 0.5};
    const neap_report report = {.graph = graph, .training = &training};
    char *data = data_of(&report);
    assert_true(block_number(data, "train.loss.0", -1) == 2.5);
    assert_true(block_number(data, "train.loss.1", -1) == -1); /* null */
    assert_true(block_number(data, "train.seconds.2", -1) == 0.125);
    assert_true(block_number(data, "train.predicted", -1) == 0.5);
    free(data);
    neap_graph_destroy(graph);
}

/* ---- The page ---- */

static size_t occurrences(const char *text, const char *part)
{
    size_t count = 0;
    for (; (text = strstr(text, part)); text += strlen(part))
        count++;
    return count;
}

/* Links lead into the page itself, and addresses are names of XML only. */
static void assert_loads_nothing(const char *page)
{
    static const char HREF[] = "href=\"", HTTP[] = "http", XML[] = "http://www.w3.org/";
    assert_null(strstr(page, " src="));
    assert_null(strstr(page, "@import"));
    for (const char *at = page; (at = strstr(at, "url(")); at += strlen("url("))
        assert_int_equal(at[strlen("url(")], '#');
    for (const char *at = page; (at = strstr(at, HREF)); at += strlen(HREF))
        assert_true(at[strlen(HREF)] == '#' || strncmp(at + strlen(HREF), "data:", 5) == 0);
    for (const char *at = page; (at = strstr(at, HTTP)); at += strlen(HTTP))
        if (strncmp(at, XML, strlen(XML)) != 0 && strncmp(at, "http-equiv", 10) != 0)
            fail_msg("an address: %.40s", at);
}

static void the_page_is_one_file(void **state)
{
    (void)state;
    neap_graph *graph = graph_from(abc_graph);
    const neap_report report = {.graph = graph, .title = "a </title><b> & \"c\""};
    char *page = page_of(&report), *again = page_of(&report), *data = block_of_page(page),
         *title = block_string(data, "title");
    assert_string_equal(page, again);
    assert_memory_equal(page, "<!DOCTYPE html>", 15);
    assert_non_null(strstr(page, "<title>a &lt;/title&gt;&lt;b&gt; &amp; &quot;c&quot;</title>"));
    assert_string_equal(title, report.title);
    assert_null(strstr(page, "NEAP-"));
    assert_int_equal(occurrences(page, "<script"), occurrences(page, "</script>"));
    assert_loads_nothing(page);
    free(page);
    free(again);
    free(data);
    free(title);
    neap_graph_destroy(graph);
}

static void plans_that_cannot_run_are_refused(void **state)
{
    (void)state;
    neap_graph *graph = graph_from(abc_graph);
    static const char *const STEPS[] = {"c1", "c0 f3", "c0 o1 f1 p1"};
    for (size_t i = 0; i < COUNT_OF(STEPS); i++) {
        neap_plan *plan = plan_from(STEPS[i]);
        const neap_report_plan plans[] = {{.plan = plan, .bound_time = -1}};
        const neap_report report = {.graph = graph, .n_plans = 1, .plans = plans};
        neap_diag diag = {0};
        char *text;
        size_t length;
        assert_int_equal(neap_report_html(NULL, &report, &text, &length, &diag), NEAP_INVALID);
        assert_null(text);
        assert_non_null(strstr(diag.message, "step "));
        neap_plan_destroy(plan);
    }
    neap_graph_destroy(graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plans_read_back_as_they_were),
        cmocka_unit_test(steps_in_place_are_marked),
        cmocka_unit_test(the_graph_reads_back),
        cmocka_unit_test(backward_ops_belong_to_their_layer),
        cmocka_unit_test(hostile_names_stay_names),
        cmocka_unit_test(long_names_are_cut),
        cmocka_unit_test(equal_plans_are_written_once),
        cmocka_unit_test(many_steps_leave_out_plans),
        cmocka_unit_test(training_is_recorded),
        cmocka_unit_test(the_page_is_one_file),
        cmocka_unit_test(plans_that_cannot_run_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
