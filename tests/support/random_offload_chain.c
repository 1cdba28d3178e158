#include "random_offload_chain.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>

static bool chance(random_source *random, uint32_t percent)
{
    return random_below(random, 100) < percent;
}

const char *link_kind_name(link_kind kind)
{
    static const char *const names[N_LINK_KINDS] = {"half duplex", "two bandwidths", "duplex",
                                                    "latency"};
    return names[kind];
}

/* ---- Drawing ---- */

/* How the numbers of one chain are drawn: sizes of activations, of the rest, and times. */
typedef struct chain_taste {
    uint32_t most, zeros;
} chain_taste;

static chain_taste draw_taste(random_source *random, uint32_t most)
{
    static const uint32_t zeros[] = {0, 10, 10, 25, 50};
    chain_taste taste = {1 + random_below(random, most), zeros[random_below(random, 5)]};
    return taste;
}

static int64_t draw(random_source *random, chain_taste taste)
{
    return chance(random, taste.zeros) ? 0 : 1 + random_below(random, taste.most);
}

offload_chain random_offload_chain(random_source *random, uint32_t layers)
{
    offload_chain c = {.layers = layers, .source = (gradient_source)random_below(random, 3)};
    chain_taste sizes = draw_taste(random, 12), gradients = draw_taste(random, 12);
    chain_taste scratch = draw_taste(random, 12), times = draw_taste(random, 9);
    if (chance(random, 70)) /* else one op often needs all that there ever is */
        gradients.most = 1 + gradients.most / 4;
    if (chance(random, 50))
        scratch.zeros = 100;
    else if (chance(random, 50))
        scratch.zeros = 75;
    c.loss_is_backward = chance(random, 25);
    c.fixed_bytes = random_below(random, 3);
    for (uint32_t i = 0; i <= layers; i++) {
        c.x[i] = draw(random, sizes);
        c.y[i] = draw(random, gradients);
    }
    for (uint32_t i = 1; i <= layers + 1; i++) {
        c.forward_scratch[i] = draw(random, scratch);
        c.forward_time[i] = draw(random, times);
    }
    for (uint32_t i = 1; i <= layers; i++) {
        c.backward_scratch[i] = draw(random, scratch);
        c.backward_time[i] = draw(random, times);
        if (chance(random, 50)) /* backward usually takes longer */
            c.backward_time[i] *= 2;
    }
    return c;
}

neap_link random_link(random_source *random, link_kind kind)
{
    neap_link link = {.out_bandwidth = 1 + random_below(random, 4)};
    link.in_bandwidth = link.out_bandwidth;
    if (kind == LINK_UNEVEN || (kind == LINK_DUPLEX && chance(random, 30)))
        link.in_bandwidth = 1 + random_below(random, 4);
    if (kind == LINK_LATENCY || (kind == LINK_DUPLEX && chance(random, 30)))
        link.latency = chance(random, 50) ? 0.5 : 1 + random_below(random, 2);
    link.duplex = kind == LINK_DUPLEX;
    return link;
}

/* ---- Building ---- */

static uint32_t add_value(neap_graph_builder *builder, const char *kind, char letter,
                          uint32_t index, int64_t bytes)
{
    char name[16];
    neap_value_desc desc;
    uint32_t id;
    snprintf(name, sizeof name, "%c%u", letter, index);
    neap_value_desc_init(&desc);
    desc.name = name;
    desc.kind = kind;
    desc.bytes = bytes;
    assert_int_equal(neap_graph_builder_add_value(builder, &desc, &id, NULL), NEAP_OK);
    return id;
}

/* An op of up to three inputs, NEAP_NONE for one that it does not have, and one output. */
static void add_op(neap_graph_builder *builder, const char *name, neap_pass pass,
                   const uint32_t inputs[3], uint32_t output, int64_t seconds, int64_t scratch)
{
    neap_variant variant = {.seconds = (double)seconds, .workspace = scratch};
    neap_op_desc desc;
    uint32_t reads[3], n_reads = 0;
    for (int i = 0; i < 3; i++)
        if (inputs[i] != NEAP_NONE)
            reads[n_reads++] = inputs[i];
    neap_op_desc_init(&desc);
    desc.name = name;
    desc.pass = pass;
    desc.n_inputs = n_reads;
    desc.inputs = reads;
    desc.n_outputs = 1;
    desc.outputs = &output;
    desc.n_variants = 1;
    desc.variants = &variant;
    assert_int_equal(neap_graph_builder_add_op(builder, &desc, NULL, NULL), NEAP_OK);
}

neap_graph *offload_chain_graph(const offload_chain *c)
{
    uint32_t n = c->layers, x[MOST_LAYERS + 1], y[MOST_LAYERS + 1];
    char name[16];
    neap_graph_builder *builder;
    neap_graph *graph;
    neap_diag diag;
    assert_true(n >= 1 && n <= MOST_LAYERS);
    assert_int_equal(neap_graph_builder_create(NULL, "layers", &builder, NULL), NEAP_OK);
    neap_graph_builder_set_fixed_bytes(builder, c->fixed_bytes);
    for (uint32_t i = 0; i <= n; i++)
        x[i] = add_value(builder, i ? NEAP_KIND_ACTIVATION : NEAP_KIND_INPUT, 'x', i, c->x[i]);
    for (uint32_t i = 0; i < n; i++)
        y[i] = add_value(builder, NEAP_KIND_GRADIENT, 'y', i, c->y[i]);
    y[n] = NEAP_NONE;
    if (c->source != GRADIENT_NONE)
        y[n] =
            add_value(builder, c->source == GRADIENT_GIVEN ? NEAP_KIND_INPUT : NEAP_KIND_GRADIENT,
                      'y', n, c->y[n]);
    for (uint32_t i = 1; i <= n; i++) {
        snprintf(name, sizeof name, "F%u", i);
        add_op(builder, name, NEAP_FORWARD, (uint32_t[]){x[i - 1], NEAP_NONE, NEAP_NONE}, x[i],
               c->forward_time[i], c->forward_scratch[i]);
    }
    if (c->source == GRADIENT_OF_LOSS)
        add_op(builder, "loss", c->loss_is_backward ? NEAP_BACKWARD : NEAP_FORWARD,
               (uint32_t[]){x[n], NEAP_NONE, NEAP_NONE}, y[n], c->forward_time[n + 1],
               c->forward_scratch[n + 1]);
    for (uint32_t i = n; i >= 1; i--) {
        snprintf(name, sizeof name, "B%u", i);
        add_op(builder, name, NEAP_BACKWARD, (uint32_t[]){x[i - 1], x[i], y[i]}, y[i - 1],
               c->backward_time[i], c->backward_scratch[i]);
    }
    assert_int_equal(neap_graph_builder_add_output(builder, y[0], NULL), NEAP_OK);
    if (neap_graph_builder_finish(builder, &graph, &diag) != NEAP_OK)
        fail_msg("%s", diag.message);
    neap_graph_builder_destroy(builder);
    return graph;
}
