#include "random_training.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#define COUNT_OF(array)  ((uint32_t)(sizeof(array) / sizeof *(array)))
#define PICK(w, array)   ((array)[random_below((w)->random, COUNT_OF(array))])
#define CHANCE(w, share) (random_below((w)->random, 100) < (share))
#define MOST_LAYERS      100
#define MOST_VALUES      (8 * MOST_LAYERS)

typedef struct layer {
    uint32_t input, output, saved, parameter; /* values; the last two may be NEAP_NONE */
} layer;

typedef struct writer {
    random_source *random;
    neap_graph_builder *builder;
    bool rich, in_place;
    uint32_t like;                 /* the next value has the size of this one; NEAP_NONE: any */
    int64_t bytes[MOST_VALUES];    /* of each value's storage */
    layer layers[MOST_LAYERS + 1]; /* 0 holds the data as its output */
} writer;

static const char *const odd_texts[] = {
    "plain",
    "",
    "a \"quoted\" \\ name",
    "two\nlines\tand\x01more\x7f",
    "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80",
    "a/b.c:d[0]",
    "null",
    "0",
};

static const char *const odd_fields[] = {
    "\"note\":\"\\u00e9 \\n\"", "\"x\":[1,{\"a\":null},-0.0,1e400]", "\"x\":1,\"x\":2", "\"\":{}",
    "\"dtype \":true",
};

static uint32_t add_value(writer *w, const char *kind, uint32_t view_of)
{
    static const int64_t sizes[] = {0, 1, 4, 8, 10, 16, 16, 32, 50, 64, 100};
    static const int64_t shapes[][2] = {{2, 3}, {0, 5}, {1, 1}, {INT64_C(1) << 30, 1}};
    neap_value_desc desc;
    uint32_t id;
    neap_value_desc_init(&desc);
    desc.kind = kind;
    desc.view_of = view_of;
    desc.bytes = view_of == NEAP_NONE ? PICK(w, sizes) : 0;
    if (w->like != NEAP_NONE && view_of == NEAP_NONE)
        desc.bytes = w->bytes[w->like];
    w->like = NEAP_NONE;
    if (w->rich) {
        desc.name = CHANCE(w, 50) ? PICK(w, odd_texts) : NULL;
        desc.dtype =
            CHANCE(w, 50) ? (neap_dtype)random_below(w->random, NEAP_U8 + 1) : NEAP_DTYPE_UNKNOWN;
        desc.rank = random_below(w->random, 3);
        desc.shape = PICK(w, shapes);
        desc.extra = CHANCE(w, 20) ? PICK(w, odd_fields) : NULL;
        if (CHANCE(w, 10) && strcmp(kind, NEAP_KIND_INPUT) != 0 &&
            strcmp(kind, NEAP_KIND_PARAMETER) != 0)
            desc.kind = "mine \"own\"";
    }
    assert_int_equal(neap_graph_builder_add_value(w->builder, &desc, &id, NULL), NEAP_OK);
    assert_true(id < MOST_VALUES);
    w->bytes[id] = view_of == NEAP_NONE ? desc.bytes : w->bytes[view_of];
    return id;
}

static void add_rich_fields(writer *w, neap_op_desc *desc, neap_attr attrs[3])
{
    static const double reals[] = {0, -0.0, 1, 0.1, 1e300, 5e-324, -2.5};
    desc->name = CHANCE(w, 50) ? PICK(w, odd_texts) : NULL;
    desc->type = CHANCE(w, 50) ? PICK(w, odd_texts) : "relu";
    desc->random = CHANCE(w, 20);
    desc->flops = CHANCE(w, 50) ? (int64_t)random_below(w->random, 1000) : -1;
    desc->bytes_moved = CHANCE(w, 50) ? INT64_MAX : -1;
    desc->extra = CHANCE(w, 20) ? PICK(w, odd_fields) : NULL;
    desc->lists_variants = CHANCE(w, 20);
    desc->n_attrs = random_below(w->random, 4);
    for (uint32_t i = 0; i < desc->n_attrs; i++)
        attrs[i] = (neap_attr){.name = PICK(w, odd_texts),
                               .is_real = CHANCE(w, 50),
                               .integer = (int64_t)random_below(w->random, 9) - 4};
    for (uint32_t i = 0; i < desc->n_attrs; i++)
        if (attrs[i].is_real)
            attrs[i] = (neap_attr){.name = attrs[i].name, .is_real = true, .real = PICK(w, reals)};
    desc->attrs = attrs;
    if (desc->n_inputs && desc->n_outputs && CHANCE(w, 20)) {
        desc->in_place_input = desc->inputs[0];
        desc->in_place_output = desc->outputs[0];
    }
}

/* The first output may be written over any input of its size. */
static void add_mark(writer *w, neap_op_desc *desc)
{
    for (uint32_t i = 0; i < desc->n_inputs; i++)
        if (w->bytes[desc->inputs[i]] == w->bytes[desc->outputs[0]] && CHANCE(w, 60)) {
            desc->in_place_input = desc->inputs[i];
            desc->in_place_output = desc->outputs[0];
        }
}

static void add_op(writer *w, neap_pass pass, uint32_t n_inputs, const uint32_t *inputs,
                   uint32_t n_outputs, const uint32_t *outputs)
{
    static const double times[] = {0, 1, 1, 2, 3, 0.5, 0.001, 1e-6};
    static const int64_t workspaces[] = {0, 0, 0, 5, 40};
    neap_variant variants[3];
    neap_attr attrs[3];
    neap_op_desc desc;
    neap_op_desc_init(&desc);
    desc.pass = pass;
    desc.n_inputs = n_inputs;
    desc.inputs = inputs;
    desc.n_outputs = n_outputs;
    desc.outputs = outputs;
    desc.n_variants = CHANCE(w, 75) ? 1 : 1 + random_below(w->random, 3);
    desc.variants = variants;
    for (uint32_t k = 0; k < desc.n_variants; k++)
        variants[k] = (neap_variant){.seconds = PICK(w, times), .workspace = PICK(w, workspaces)};
    if (w->rich)
        add_rich_fields(w, &desc, attrs);
    if (w->in_place)
        add_mark(w, &desc);
    assert_int_equal(neap_graph_builder_add_op(w->builder, &desc, NULL, NULL), NEAP_OK);
}

static void add_forward(writer *w, uint32_t i)
{
    layer *l = &w->layers[i];
    uint32_t inputs[3], outputs[2], n_inputs = 0, n_outputs = 0;
    l->input = w->layers[i - 1].output;
    l->saved = l->parameter = NEAP_NONE;
    if (CHANCE(w, 30))
        l->parameter = add_value(w, NEAP_KIND_PARAMETER, NEAP_NONE);
    inputs[n_inputs++] = l->input;
    if (i > 1 && CHANCE(w, 25))
        inputs[n_inputs++] = w->layers[random_below(w->random, i)].output;
    if (l->parameter != NEAP_NONE)
        inputs[n_inputs++] = l->parameter;
    w->like = w->in_place && CHANCE(w, 75) ? l->input : NEAP_NONE;
    l->output = add_value(w, NEAP_KIND_ACTIVATION, CHANCE(w, 12) ? l->input : NEAP_NONE);
    outputs[n_outputs++] = l->output;
    if (CHANCE(w, 20))
        outputs[n_outputs++] = l->saved = add_value(w, NEAP_KIND_ACTIVATION, NEAP_NONE);
    add_op(w, NEAP_FORWARD, n_inputs, inputs, n_outputs, outputs);
}

/* Returns the gradient of the layer's input. */
static uint32_t add_backward(writer *w, uint32_t i, uint32_t gradient)
{
    const layer *l = &w->layers[i];
    uint32_t inputs[5], outputs[2], n_inputs = 0, n_outputs = 0;
    inputs[n_inputs++] = gradient;
    if (CHANCE(w, 60))
        inputs[n_inputs++] = l->input;
    if (CHANCE(w, 40))
        inputs[n_inputs++] = l->output;
    if (l->saved != NEAP_NONE)
        inputs[n_inputs++] = l->saved;
    if (l->parameter != NEAP_NONE)
        inputs[n_inputs++] = l->parameter;
    w->like = w->in_place && CHANCE(w, 75) ? gradient : NEAP_NONE;
    outputs[n_outputs++] = add_value(w, NEAP_KIND_GRADIENT, CHANCE(w, 8) ? gradient : NEAP_NONE);
    if (l->parameter != NEAP_NONE) {
        uint32_t result = add_value(w, NEAP_KIND_GRADIENT, NEAP_NONE);
        outputs[n_outputs++] = result;
        assert_int_equal(neap_graph_builder_add_output(w->builder, result, NULL), NEAP_OK);
    }
    add_op(w, NEAP_BACKWARD, n_inputs, inputs, n_outputs, outputs);
    return outputs[0];
}

static neap_graph *draw_graph(writer w, uint32_t most_layers)
{
    random_source *random = w.random;
    neap_graph *graph;
    neap_diag diag = {0};
    assert_true(most_layers >= 1 && most_layers <= MOST_LAYERS);
    uint32_t n = 1 + random_below(random, most_layers);
    const char *name = w.rich ? PICK(&w, odd_texts) : "training";
    w.like = NEAP_NONE;
    assert_int_equal(neap_graph_builder_create(NULL, name, &w.builder, NULL), NEAP_OK);
    w.layers[0].output = add_value(&w, NEAP_KIND_INPUT, NEAP_NONE);
    for (uint32_t i = 1; i <= n; i++)
        add_forward(&w, i);
    uint32_t loss[2];
    loss[0] = add_value(&w, NEAP_KIND_ACTIVATION, NEAP_NONE);
    loss[1] = add_value(&w, NEAP_KIND_GRADIENT, NEAP_NONE);
    add_op(&w, NEAP_FORWARD, 1, &w.layers[n].output, 2, loss);
    uint32_t gradient = loss[1];
    for (uint32_t i = n; i >= 1; i--)
        gradient = add_backward(&w, i, gradient);
    assert_int_equal(neap_graph_builder_add_output(w.builder, loss[0], NULL), NEAP_OK);
    if (CHANCE(&w, 50))
        assert_int_equal(neap_graph_builder_add_output(w.builder, gradient, NULL), NEAP_OK);
    if (CHANCE(&w, 30))
        neap_graph_builder_set_fixed_bytes(w.builder, random_below(random, 50));
    neap_status status = neap_graph_builder_finish(w.builder, &graph, &diag);
    neap_graph_builder_destroy(w.builder);
    if (status != NEAP_OK)
        fail_msg("%s", diag.message);
    return graph;
}

neap_graph *random_training_graph(random_source *random, uint32_t most_layers, bool rich)
{
    return draw_graph((writer){.random = random, .rich = rich}, most_layers);
}

neap_graph *random_in_place_graph(random_source *random, uint32_t most_layers)
{
    return draw_graph((writer){.random = random, .in_place = true}, most_layers);
}
