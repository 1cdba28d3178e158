/*
 * Articulation points of the forward pass, compared with removing each storage and testing what is
 * still connected.
 *
 *     NEAP_TEST_SEED=7 NEAP_TEST_COUNT=10000 test_articulation     # another seed, more cases
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "planners/checkmate/articulation.h"
#include "random_chain.h"
#include "random_training.h"
#include "settings.h"
#include "small_graphs.h"

#include <neap/models.h>

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- By taking away ---- */

typedef struct brute {
    const neap_graph *graph;
    const neap_chain *chain;
    uint32_t *label; /* per forward op: the least op that it is connected to */
} brute;

/* The storage of a value, if it is a vertex and not the one taken away; else NEAP_NONE. */
static uint32_t vertex_of(const brute *b, uint32_t value, uint32_t away)
{
    uint32_t storage = neap_graph_value(b->graph, value)->storage;
    uint32_t maker = neap_graph_value(b->graph, storage)->producer;
    bool inside = maker != NEAP_NONE && maker < b->chain->n_forward && !b->chain->is_side[storage];
    return inside && storage != away ? storage : NEAP_NONE;
}

static bool touches(const brute *b, uint32_t o, uint32_t storage, uint32_t away)
{
    const neap_op *op = neap_graph_op(b->graph, o);
    for (uint32_t i = 0; i < op->n_inputs; i++)
        if (vertex_of(b, op->inputs[i], away) == storage)
            return true;
    for (uint32_t i = 0; i < op->n_outputs; i++)
        if (vertex_of(b, op->outputs[i], away) == storage)
            return true;
    return false;
}

static void join(brute *b, uint32_t x, uint32_t y)
{
    uint32_t from = b->label[x], to = b->label[y];
    for (uint32_t o = 0; o < b->chain->n_forward; o++)
        if (b->label[o] == from)
            b->label[o] = to;
}

/* Ops that touch the same storage have the same label. */
static void connect(brute *b, uint32_t away)
{
    uint32_t n = b->chain->n_forward;
    for (uint32_t o = 0; o < n; o++)
        b->label[o] = o;
    for (uint32_t v = 0; v < neap_graph_value_count(b->graph); v++) {
        uint32_t first = NEAP_NONE;
        if (vertex_of(b, v, away) != v)
            continue;
        for (uint32_t o = 0; o < n; o++) {
            if (!touches(b, o, v, away))
                continue;
            if (first != NEAP_NONE)
                join(b, o, first);
            else
                first = o;
        }
    }
}

static uint32_t last_with_label(const brute *b, uint32_t label)
{
    uint32_t o = b->chain->n_forward;
    while (b->label[--o] != label)
        ;
    return o;
}

static bool is_point_by_hand(brute *b, uint32_t storage)
{
    if (vertex_of(b, storage, NEAP_NONE) != storage)
        return false;
    uint32_t maker = neap_graph_value(b->graph, storage)->producer;
    connect(b, NEAP_NONE);
    uint32_t last = last_with_label(b, b->label[maker]);
    connect(b, storage);
    return b->label[maker] != b->label[last];
}

/* Returns how many points there are. */
static uint32_t check_points(const neap_graph *graph, bool compare)
{
    neap_chain chain;
    uint32_t n_values = neap_graph_value_count(graph), points = 0;
    bool *is_point = malloc(n_values + 1);
    assert_non_null(is_point);
    assert_int_equal(neap_chain_build(NULL, graph, &chain, NULL), NEAP_OK);
    brute b = {graph, &chain, malloc((chain.n_forward + (size_t)1) * sizeof *b.label)};
    assert_non_null(b.label);
    memset(is_point, 1, n_values + 1);
    assert_int_equal(neap_articulation_find(NULL, graph, &chain, is_point, NULL), NEAP_OK);
    for (uint32_t v = 0; v < n_values; v++) {
        if (compare && is_point[v] != is_point_by_hand(&b, v))
            fail_msg("%s: value %" PRIu32 " is%s found to be a point", neap_graph_name(graph), v,
                     is_point[v] ? "" : " not");
        points += is_point[v];
    }
    free(b.label);
    free(is_point);
    neap_chain_clear(&chain);
    return points;
}

static void test_random_graphs(void **state)
{
    (void)state;
    random_source random = {setting("NEAP_TEST_SEED", 20240703)};
    uint64_t count = setting("NEAP_TEST_COUNT", 1500), points = 0;
    print_message("seed %" PRIu64 ", %" PRIu64 " graphs\n", random.state, count);
    for (uint64_t i = 0; i < count; i++) {
        neap_graph *graph = i % 2 ? random_graph(&random, 20)
                                  : random_training_graph(&random, 2 + (uint32_t)(i % 12), false);
        points += check_points(graph, true);
        neap_graph_destroy(graph);
    }
    print_message("%" PRIu64 " points\n", points);
    assert_true(points > count / 2);
}

static neap_graph *build(const char *name, uint32_t n_settings, const neap_model_setting *settings)
{
    neap_model_options options;
    neap_graph *graph;
    neap_model_options_init(&options);
    options.n_settings = n_settings;
    options.settings = settings;
    assert_int_equal(neap_model_build(NULL, neap_models_find(name), &options, &graph, NULL),
                     NEAP_OK);
    return graph;
}

/* Chains, blocks, long skips, branches, an attention mask, tokens that several layers read. */
static void test_models(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        neap_model_setting settings[2];
    } models[] = {
        {"chain", {{"layers", 12}, {"reads_input", 1}}},
        {"vgg11", {{"batch", 1}, {"image", 64}}},
        {"resnet18", {{"batch", 1}, {"image", 64}}},
        {"unet", {{"batch", 1}, {"image", 64}}},
        {"gpt2", {{"batch", 1}, {"layers", 2}}},
        {"bert-base", {{"batch", 1}, {"layers", 2}}},
        {"lstm", {{"layers", 2}, {"seq", 4}}},
        {"fcn8", {{"batch", 1}, {"image", 64}}},
    };
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        neap_graph *graph = build(models[i].name, 2, models[i].settings);
        assert_true(check_points(graph, true) > 0);
        neap_graph_destroy(graph);
    }
}

/* On a chain every layer's output is one; no recursion, so it may be long. */
static void test_long_chain(void **state)
{
    (void)state;
    random_source random = {setting("NEAP_TEST_SEED", 20240704)};
    chain_recipe recipe = {.layers = 200000, .reads_output = true, .scale = 1};
    neap_graph *graph = random_chain(&random, &recipe);
    assert_int_equal(check_points(graph, false), recipe.layers);
    neap_graph_destroy(graph);
}

/* ---- By hand ---- */

/* Ops as "reads>makes", of values that are digits: 0 is the input, and a value after '=' is a view
 * of the one before it. All are forward. Returns the points, as digits. */
static const char *points_of(const char *ops)
{
    static char text[16];
    neap_graph_builder *builder;
    neap_graph *graph;
    neap_chain chain;
    neap_diag diag;
    bool is_point[10];
    uint32_t view_of[10];
    for (int v = 0; v < 10; v++)
        view_of[v] = NEAP_NONE;
    for (const char *c = ops; *c; c++)
        if (*c == '=')
            view_of[c[1] - '0'] = (uint32_t)(c[-1] - '0');
    assert_int_equal(neap_graph_builder_create(NULL, ops, &builder, NULL), NEAP_OK);
    for (int v = 0; v < 10; v++) {
        neap_value_desc desc;
        neap_value_desc_init(&desc);
        desc.view_of = view_of[v];
        desc.bytes = view_of[v] == NEAP_NONE ? 1 : 0;
        assert_int_equal(neap_graph_builder_add_value(builder, &desc, NULL, NULL), NEAP_OK);
    }
    for (const char *c = ops; *c; c += *c == ' ') {
        uint32_t ids[2][10], count[2] = {0, 0};
        int side = 0;
        for (; *c && *c != ' '; c++)
            if (*c == '>' || *c == '=')
                side = 1;
            else
                ids[side][count[side]++] = (uint32_t)(*c - '0');
        neap_op_desc desc;
        neap_op_desc_init(&desc);
        desc.n_inputs = count[0];
        desc.inputs = ids[0];
        desc.n_outputs = count[1];
        desc.outputs = ids[1];
        assert_int_equal(neap_graph_builder_add_op(builder, &desc, NULL, NULL), NEAP_OK);
    }
    if (neap_graph_builder_finish(builder, &graph, &diag) != NEAP_OK)
        fail_msg("%s", diag.message);
    neap_graph_builder_destroy(builder);
    assert_int_equal(neap_chain_build(NULL, graph, &chain, NULL), NEAP_OK);
    assert_int_equal(neap_articulation_find(NULL, graph, &chain, is_point, NULL), NEAP_OK);
    char *end = text;
    for (int v = 0; v < 10; v++)
        if (is_point[v])
            *end++ = (char)('0' + v);
    *end = '\0';
    neap_chain_clear(&chain);
    neap_graph_destroy(graph);
    return text;
}

static void test_by_hand(void **state)
{
    (void)state;
    assert_string_equal(points_of(""), "");
    assert_string_equal(points_of("0>1"), "");
    assert_string_equal(points_of("0>1 1>2 2>3"), "12");           /* a chain; 3 ends it */
    assert_string_equal(points_of("0>1 1>2 2>3 13>4 4>5"), "14");  /* a block around 2 and 3 */
    assert_string_equal(points_of("0>1 1>26 2>3 13>4 4>5"), "14"); /* that saves a mask, 6 */
    assert_string_equal(points_of("0>1 1>2 2>3 2>6 6>7 13>4 4>5"), "14"); /* with a dead end */
    assert_string_equal(points_of("0>1 1=2 2>3 3>4"), "13");        /* a view is its storage */
    assert_string_equal(points_of("0>1 1=2 2>3 13>4 4>5"), "14");   /* so these are no two paths */
    assert_string_equal(points_of("0>1 0>2 1>3 23>4 4>5"), "1234"); /* roots join later on */
    assert_string_equal(points_of("0>12 12>34 34>5"), "");          /* two storages side by side */
    assert_string_equal(points_of("0>1 1>2 0>3 3>4 4>5"), "134");   /* two parts: an end each */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_graphs),
        cmocka_unit_test(test_models),
        cmocka_unit_test(test_long_chain),
        cmocka_unit_test(test_by_hand),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
