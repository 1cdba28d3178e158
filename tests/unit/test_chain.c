/*
 * The chain view: hand-made graphs with obvious stages, the stages of models, and the definition in
 * neap/chain.h checked op by op on random graphs.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "random_training.h"
#include "small_graphs.h"

#include <neap/chain.h>
#include <neap/models.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

#define GRAPH(values, ops, outputs)                                                                \
    "{'neap':'graph','version':1,'values':[" values "],'ops':[" ops "],'outputs':[" outputs "]}"
#define IN(bytes)    "{'kind':'input','bytes':" #bytes "}"
#define V(bytes)     "{'bytes':" #bytes "}"
#define VIEW(of)     "{'bytes':0,'view_of':" #of "}"
#define F(ins, outs) "{'inputs':[" ins "],'outputs':[" outs "],'time':1}"
#define B(ins, outs) "{'pass':'backward','inputs':[" ins "],'outputs':[" outs "],'time':2}"

static neap_chain chain_of(const neap_graph *graph)
{
    neap_chain chain;
    neap_diag diag = {0};
    if (neap_chain_build(NULL, graph, &chain, &diag) != NEAP_OK)
        fail_msg("%s", diag.message);
    return chain;
}

/* "0-2>3 2-4>-": stages of forward ops 0, 1 and 2, 3, cut by value 3. */
static void expect_stages(const char *json, const char *expected)
{
    neap_graph *graph = graph_from(json);
    neap_chain chain = chain_of(graph);
    char text[512] = "";
    size_t length = 0;
    for (uint32_t i = 0; i < chain.n_stages; i++) {
        const neap_stage *s = &chain.stages[i];
        length += (size_t)snprintf(text + length, sizeof text - length, "%s%u-%u>", i ? " " : "",
                                   s->first_op, s->end_op);
        for (uint32_t k = 0; k < s->n_cuts; k++)
            length += (size_t)snprintf(text + length, sizeof text - length, "%s%u", k ? "," : "",
                                       s->cuts[k]);
        if (s->n_cuts == 0)
            length += (size_t)snprintf(text + length, sizeof text - length, "-");
    }
    assert_string_equal(text, expected);
    neap_chain_clear(&chain);
    neap_graph_destroy(graph);
}

/* ---- By hand ---- */

static void test_plain_chain(void **state)
{
    (void)state;
    expect_stages(
        GRAPH(IN(8) "," V(1) "," V(2) "," V(3), F("0", "1") "," F("1", "2") "," F("2", "3"), "3"),
        "0-1>1 1-2>2 2-3>-");
    expect_stages(GRAPH(IN(8), F("0", ""), ""), "0-1>-");
    expect_stages(GRAPH("", "", ""), "");
}

/* Two branches that meet: no cut between the fork and the sum. */
static void test_residual_block(void **state)
{
    (void)state;
    expect_stages(
        GRAPH(IN(8) "," V(1) "," V(1) "," V(1) "," V(1) "," V(1),
              F("0", "1") "," F("1", "2") "," F("2", "3") "," F("1,3", "4") "," F("4", "5"), "5"),
        "0-1>1 1-4>4 4-5>-");
    /* A skip from the first op to the last leaves nothing to cut but itself. */
    expect_stages(GRAPH(V(1) "," V(1) "," V(1) "," V(1),
                        F("", "0") "," F("0", "1") "," F("1", "2") "," F("0,2", "3"), "3"),
                  "0-1>0 1-4>-");
    /* An input may be read anywhere, by a view of it too. */
    expect_stages(GRAPH(IN(8) "," V(1) "," VIEW(0) "," V(1) "," V(1),
                        F("0", "1,2") "," F("1,0", "3") "," F("3,2", "4"), "4"),
                  "0-1>1 1-2>3 2-3>-");
    /* Two values leave an op: both are read, so no cut there. */
    expect_stages(
        GRAPH(V(1) "," V(1) "," V(1) "," V(1), F("", "0,1") "," F("0", "2") "," F("1,2", "3"), "3"),
        "0-3>-");
    /* One of them is not read by the forward part: a cut. */
    expect_stages(
        GRAPH(V(1) "," V(1) "," V(1) "," V(1), F("", "0,1") "," F("0", "2") "," F("2", "3"), "3,1"),
        "0-1>0 1-2>2 2-3>-");
}

#define INSIDE(in, out) "{'inputs':[" in "],'outputs':[" out "],'time':0,'inside_layer':true}"

/* A layer is one stage, wherever a storage would separate its ops. */
static void test_layers(void **state)
{
    (void)state;
    expect_stages(GRAPH(IN(8) "," V(1) "," V(2) "," V(3) "," V(4),
                        F("0", "1") "," INSIDE("1", "2") "," F("2", "3") "," F("3", "4"), "4"),
                  "0-1>1 1-3>3 3-4>-");
    expect_stages(GRAPH(IN(8) "," V(1) "," V(2) "," V(3),
                        INSIDE("0", "1") "," INSIDE("1", "2") "," INSIDE("2", "3"), "3"),
                  "0-3>-");
}

/* Views do not make boundaries of their own: the last op on the storage ends the stage. */
static void test_views_at_cuts(void **state)
{
    (void)state;
    expect_stages(GRAPH(IN(8) "," V(1) "," VIEW(1) "," VIEW(2) "," V(1),
                        F("0", "1") "," F("1", "2") "," F("2", "3") "," F("3", "4"), "4"),
                  "0-3>1 3-4>-");
    /* A value and a view of it cross together: one storage, a cut. */
    expect_stages(GRAPH(IN(8) "," V(1) "," VIEW(1) "," V(1),
                        F("0", "1") "," F("1", "2") "," F("1,2", "3"), "3"),
                  "0-2>1 2-3>-");
}

static void test_backward_only(void **state)
{
    (void)state;
    neap_graph *graph = graph_from(GRAPH(V(1), B("", "0"), "0"));
    neap_chain chain = chain_of(graph);
    assert_int_equal(chain.n_forward, 0);
    assert_int_equal(chain.n_stages, 0);
    neap_chain_clear(&chain);
    neap_chain_clear(&chain); /* twice does no harm */
    neap_graph_destroy(graph);
}

/* A mask made at the start and read by every layer is carried along, if it is small. */
static void side_graph(int64_t mask_bytes, char *json, size_t capacity)
{
    size_t length = (size_t)snprintf(
        json, capacity, "{'neap':'graph','version':1,'outputs':[],'values':[{'bytes':%lld}",
        (long long)mask_bytes);
    for (int i = 1; i <= 8; i++)
        length += (size_t)snprintf(json + length, capacity - length, ",{'bytes':1000}");
    length += (size_t)snprintf(json + length, capacity - length,
                               "],'ops':[{'inputs':[],'outputs':[0],'time':1},"
                               "{'inputs':[0],'outputs':[1],'time':1}");
    for (int i = 2; i <= 8; i++)
        length += (size_t)snprintf(json + length, capacity - length,
                                   ",{'inputs':[0,%d],'outputs':[%d],'time':1}", i - 1, i);
    snprintf(json + length, capacity - length, "]}");
}

static void test_side_storages(void **state)
{
    (void)state;
    char json[2048];
    side_graph(8, json, sizeof json); /* of 8008: at most a thousandth */
    neap_graph *graph = graph_from(json);
    neap_chain chain = chain_of(graph);
    assert_int_equal(chain.n_stages, 8);
    assert_int_equal(chain.stages[0].n_cuts, 1);
    assert_int_equal(chain.stages[0].cuts[0], 1);
    assert_int_equal(chain.side_bytes, 8);
    assert_true(chain.is_side[0]);
    assert_false(chain.is_side[1]);
    neap_chain_clear(&chain);
    neap_graph_destroy(graph);
    side_graph(100, json, sizeof json); /* too large */
    graph = graph_from(json);
    chain = chain_of(graph);
    assert_int_equal(chain.side_bytes, 0);
    assert_int_equal(chain.n_stages, 2); /* the mask alone, and all that reads it */
    neap_chain_clear(&chain);
    neap_graph_destroy(graph);
}

/* x 8 -> a 10 -> b 20 -> loss 1, gradients 21, 11; each layer saves 5 besides. */
static const char trained[] = GRAPH(
    IN(8) "," V(10) "," V(5) "," V(20) "," V(5) "," V(1) "," V(21) "," V(11) "," V(3) "," V(4),
    F("0", "1,2") "," F("1", "3,4") "," F("3", "5") "," B("5", "6") "," B("6,4,1",
                                                                          "7,8") "," B("7,2", "9"),
    "5,8,9");

static void test_backward_part(void **state)
{
    (void)state;
    neap_graph *graph = graph_from(trained);
    neap_chain chain = chain_of(graph);
    assert_int_equal(chain.n_forward, 3);
    assert_int_equal(chain.n_stages, 3);
    static const uint32_t backward[][2] = {{5, 6}, {4, 5}, {3, 4}};
    static const int64_t figures[][6] = {/* in, out, saved, gradient, forward, backward in s */
                                         {8, 10, 5, 11, 1, 2},
                                         {10, 20, 5, 21, 1, 2},
                                         {20, 0, 1, 0, 1, 2}};
    int64_t second = neap_graph_ticks_per_second(graph);
    for (uint32_t i = 0; i < 3; i++) {
        const neap_stage *s = &chain.stages[i];
        assert_int_equal(s->first_backward, backward[i][0]);
        assert_int_equal(s->end_backward, backward[i][1]);
        assert_int_equal(s->input_bytes, figures[i][0]);
        assert_int_equal(s->output_bytes, figures[i][1]);
        assert_int_equal(s->saved_bytes, figures[i][2]);
        assert_int_equal(s->gradient_bytes, figures[i][3]);
        assert_int_equal(s->forward_ticks, figures[i][4] * second);
        assert_int_equal(s->backward_ticks, figures[i][5] * second);
    }
    assert_int_equal(chain.input_bytes, 8);
    neap_chain_clear(&chain);
    neap_graph_destroy(graph);
}

/* ---- Models ---- */

static neap_graph *build_model(const char *name, const char *setting, int64_t value)
{
    neap_model_setting settings = {setting, value};
    neap_model_options options;
    neap_graph *graph;
    neap_diag diag = {0};
    neap_model_options_init(&options);
    options.n_settings = 1;
    options.settings = &settings;
    if (neap_model_build(NULL, neap_models_find(name), &options, &graph, &diag) != NEAP_OK)
        fail_msg("%s: %s", name, diag.message);
    return graph;
}

static uint32_t count_stages(const char *name, const char *setting, int64_t value)
{
    neap_graph *graph = build_model(name, setting, value);
    neap_chain chain = chain_of(graph);
    uint32_t n = chain.n_stages;
    neap_chain_clear(&chain);
    neap_graph_destroy(graph);
    return n;
}

/* One more than the papers count: the loss is a stage, and no candidate for a checkpoint. */
static void test_stages_of_models(void **state)
{
    (void)state;
    assert_int_equal(count_stages("hong-vgg19", "batch", 2), 24 + 1);
    assert_int_equal(count_stages("hong-alexnet", "batch", 2), 15 + 1);
    assert_int_equal(count_stages("hong-alexnet-plain", "batch", 2), 12 + 1);
    assert_int_equal(count_stages("densenet-chain", "batch", 2), 78 + 1);
    static const int64_t layers[] = {1, 2, 8, 100, 3000};
    for (size_t i = 0; i < COUNT_OF(layers); i++)
        assert_int_equal(count_stages("chain", "layers", layers[i]), layers[i] + 1);
}

/* ---- The definition ---- */

typedef struct checked {
    const neap_graph *graph;
    const neap_chain *chain;
} checked;

/* Of what a forward op of stage > i reads, nothing from stages <= i but the cut. */
static void check_reads(const checked *c, uint32_t op, uint32_t stage, uint32_t *stage_of)
{
    const neap_op *o = neap_graph_op(c->graph, op);
    for (uint32_t k = 0; k < o->n_inputs; k++) {
        const neap_value *value = neap_graph_value(c->graph, o->inputs[k]);
        if (value->producer == NEAP_NONE || c->chain->is_side[o->inputs[k]] ||
            c->chain->is_carried[o->inputs[k]])
            continue;
        for (uint32_t i = stage_of[value->producer]; i < stage; i++)
            if (!neap_stage_cuts(&c->chain->stages[i], value->storage))
                fail_msg("op %u of stage %u reads value %u across the cut of stage %u", op, stage,
                         o->inputs[k], i);
    }
}

/* Backward op of stage s: of the forward part it reads what s and the stages before it made. */
static void check_backward_reads(const checked *c, uint32_t op, uint32_t stage, uint32_t *stage_of)
{
    const neap_op *o = neap_graph_op(c->graph, op);
    for (uint32_t k = 0; k < o->n_inputs; k++) {
        const neap_value *value = neap_graph_value(c->graph, o->inputs[k]);
        if (value->producer == NEAP_NONE || value->producer >= c->chain->n_forward ||
            c->chain->is_side[o->inputs[k]] || c->chain->is_carried[o->inputs[k]])
            continue;
        uint32_t maker = stage_of[value->producer];
        if (maker > stage)
            fail_msg("backward op %u of stage %u reads value %u of stage %u", op, stage,
                     o->inputs[k], maker);
        for (uint32_t i = maker; i < stage; i++)
            if (!neap_stage_cuts(&c->chain->stages[i], value->storage))
                fail_msg("backward op %u of stage %u reads value %u across the cut of stage %u", op,
                         stage, o->inputs[k], i);
    }
}

/* What is carried is needed by no stage before the one that is named; the others leave one stage at
 * most. */
static void check_carried(const checked *c, uint32_t op, uint32_t stage, const uint32_t *stage_of)
{
    const neap_op *o = neap_graph_op(c->graph, op);
    for (uint32_t k = 0; k < o->n_inputs; k++) {
        const neap_value *value = neap_graph_value(c->graph, o->inputs[k]);
        bool makes_view = o->n_outputs > 0;
        for (uint32_t i = 0; i < o->n_outputs; i++)
            makes_view =
                makes_view && neap_graph_value(c->graph, o->outputs[i])->view_of != NEAP_NONE;
        if (c->chain->is_carried[o->inputs[k]] && !makes_view)
            assert_true(c->chain->needed_by[value->storage] <= stage);
        uint32_t maker = neap_graph_value(c->graph, value->storage)->producer;
        if (!c->chain->is_carried[o->inputs[k]] && !c->chain->is_side[o->inputs[k]] &&
            op < c->chain->n_forward)
            assert_true(stage - stage_of[maker] <= 1);
    }
}

static void check_view(const neap_graph *graph, neap_chain chain, bool fine)
{
    checked c = {graph, &chain};
    uint32_t n_ops = neap_graph_op_count(graph), at = 0, behind = n_ops;
    uint32_t *stage_of = calloc(n_ops + 1, sizeof *stage_of);
    assert_non_null(stage_of);
    for (uint32_t i = 0; i < chain.n_stages; i++) {
        const neap_stage *s = &chain.stages[i];
        assert_true(s->first_op == at && s->end_op > at && s->end_op <= chain.n_forward);
        assert_true(s->end_backward == behind && s->first_backward <= behind);
        assert_true(fine || s->n_cuts == 1 || i + 1 == chain.n_stages);
        assert_true(i + 1 < chain.n_stages || s->n_cuts == 0);
        for (uint32_t k = 0; k < s->n_cuts; k++)
            assert_int_equal(neap_graph_value(graph, s->cuts[k])->storage, s->cuts[k]);
        for (; at < s->end_op; at++) {
            assert_int_equal(neap_graph_op(graph, at)->pass, NEAP_FORWARD);
            stage_of[at] = i;
        }
        behind = s->first_backward;
    }
    assert_int_equal(at, chain.n_forward);
    assert_true(chain.n_stages == 0 || behind == chain.n_forward);
    for (uint32_t i = 0; i < chain.n_stages; i++) {
        for (uint32_t o = chain.stages[i].first_op; o < chain.stages[i].end_op; o++)
            check_reads(&c, o, i, stage_of);
        for (uint32_t o = chain.stages[i].first_op; o < chain.stages[i].end_op; o++)
            check_carried(&c, o, i, stage_of);
        for (uint32_t o = chain.stages[i].first_backward; o < chain.stages[i].end_backward; o++)
            check_carried(&c, o, i, stage_of);
        for (uint32_t o = chain.stages[i].first_backward; o < chain.stages[i].end_backward; o++)
            check_backward_reads(&c, o, i, stage_of);
    }
    free(stage_of);
    neap_chain_clear(&chain);
}

static neap_chain fine_chain_of(const neap_graph *graph, uint32_t most_stages)
{
    neap_chain chain;
    assert_int_equal(neap_chain_build_fine(NULL, graph, most_stages, &chain, NULL), NEAP_OK);
    return chain;
}

static void check_definition(const neap_graph *graph)
{
    neap_chain single = chain_of(graph), fine = fine_chain_of(graph, 0);
    assert_true(fine.n_stages >= single.n_stages);
    assert_int_equal(single.carried_bytes, 0);
    neap_chain_clear(&single);
    neap_chain_clear(&fine);
    check_view(graph, chain_of(graph), false);
    check_view(graph, fine_chain_of(graph, 0), true);
}

/* ---- Cuts of several storages ---- */

/* The steps in time of an LSTM are stages, with h and c of each layer between them. */
static void test_recurrence(void **state)
{
    (void)state;
    static const int64_t steps[] = {16, 64, 200};
    for (size_t i = 0; i < COUNT_OF(steps); i++) {
        neap_graph *graph = build_model("lstm", "seq", steps[i]);
        neap_chain single = chain_of(graph), fine = fine_chain_of(graph, 0);
        uint32_t of_states = 0;
        for (uint32_t s = 0; s < fine.n_stages; s++)
            of_states += fine.stages[s].n_cuts == 4;
        assert_int_equal(single.n_stages, 5);
        assert_true(fine.n_stages >= steps[i] && fine.n_stages <= steps[i] + 8);
        assert_true(of_states + 4 >= steps[i]);
        assert_true(fine.carried_bytes > 0);
        neap_chain_clear(&single);
        neap_chain_clear(&fine);
        fine = fine_chain_of(graph, 20);
        assert_true(fine.n_stages > 5 && fine.n_stages <= 20);
        check_view(graph, fine, true);
        neap_graph_destroy(graph);
    }
}

/* Blocks of a ResNet stay whole; a U-Net and dense blocks do not. */
static void test_which_stages_are_divided(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        bool divided;
    } networks[] = {{"resnet50", false}, {"vgg16", false},      {"gpt2", false},
                    {"unet", true},      {"densenet121", true}, {"segnet", true}};
    for (size_t i = 0; i < COUNT_OF(networks); i++) {
        neap_graph *graph = build_model(networks[i].name, "batch", 2);
        neap_chain single = chain_of(graph), fine = fine_chain_of(graph, 0);
        if (networks[i].divided != (fine.n_stages > single.n_stages))
            fail_msg("%s: %u stages, %u in the fine view", networks[i].name, single.n_stages,
                     fine.n_stages);
        neap_chain_clear(&single);
        neap_chain_clear(&fine);
        neap_graph_destroy(graph);
    }
}

static void test_definition_on_random_graphs(void **state)
{
    (void)state;
    random_source random = {20240612};
    print_message("seed %llu\n", (unsigned long long)random.state);
    for (int i = 0; i < 2000; i++) {
        neap_graph *graph = i % 3 ? random_training_graph(&random, 1 + (uint32_t)i % 40, false)
                                  : random_graph(&random, 30);
        check_definition(graph);
        neap_graph_destroy(graph);
    }
}

static void test_definition_on_models(void **state)
{
    (void)state;
    for (uint32_t m = 0; m < neap_models_count(); m++) {
        neap_graph *graph;
        neap_diag diag = {0};
        if (neap_model_build(NULL, neap_models_at(m), NULL, &graph, &diag) != NEAP_OK)
            fail_msg("%s: %s", neap_model_name(neap_models_at(m)), diag.message);
        check_definition(graph);
        neap_graph_destroy(graph);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain_chain),
        cmocka_unit_test(test_residual_block),
        cmocka_unit_test(test_layers),
        cmocka_unit_test(test_views_at_cuts),
        cmocka_unit_test(test_backward_only),
        cmocka_unit_test(test_side_storages),
        cmocka_unit_test(test_backward_part),
        cmocka_unit_test(test_stages_of_models),
        cmocka_unit_test(test_recurrence),
        cmocka_unit_test(test_which_stages_are_divided),
        cmocka_unit_test(test_definition_on_random_graphs),
        cmocka_unit_test(test_definition_on_models),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
