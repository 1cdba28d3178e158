#include "random_chain.h"

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

static int64_t draw(random_source *random, chain_numbers numbers)
{
    switch (numbers) {
    case NUMBERS_ONE:
        return 1;
    case NUMBERS_SMALL:
        return 1 + random_below(random, 9);
    case NUMBERS_TIES:
        return 1 + random_below(random, 2);
    case NUMBERS_ZEROS:
        return chance(random, 50) ? 0 : random_below(random, 6);
    case NUMBERS_POWERS:
        return (int64_t)1 << random_below(random, 7);
    case NUMBERS_SAW:
        return random_below(random, 3) ? 1 + random_below(random, 4)
                                       : 20 + random_below(random, 20);
    default:
        return ((int64_t)1 << random_below(random, 37)) + random_below(random, 3) - 1;
    }
}

chain_recipe random_chain_recipe(random_source *random, uint32_t most_layers, bool two_ops)
{
    chain_recipe r = {.layers = 1 + random_below(random, most_layers), .scale = 1};
    r.sizes = (chain_numbers)random_below(random, N_NUMBERS);
    r.times = (chain_numbers)random_below(random, NUMBERS_WIDE);
    uint32_t reads = random_below(random, 4);
    r.reads_input = reads != 1;
    r.reads_output = reads != 0;
    r.mixed_reads = reads == 3;
    r.saves = chance(random, 30);
    r.two_ops = two_ops;
    r.workspaces = chance(random, 40);
    r.results = chance(random, 40);
    r.loss_value = chance(random, 50);
    r.loss_kept = r.loss_value && chance(random, 50);
    return r;
}

const char *chain_recipe_text(const chain_recipe *r)
{
    static char text[200];
    snprintf(text, sizeof text,
             "%u layers, sizes %d, times %d, reads%s%s%s%s%s%s%s%s%s%s%s%s, scale %lld", r->layers,
             (int)r->sizes, (int)r->times, r->reads_input ? " input" : "",
             r->reads_output ? " output" : "", r->mixed_reads ? " at random" : "",
             r->saves ? ", saves" : "", r->two_ops ? ", two ops" : "", r->wide ? ", wide" : "",
             r->skips ? ", skips" : "", r->workspaces ? ", workspaces" : "",
             r->variants ? ", variants" : "", r->results ? ", results" : "",
             r->loss_value ? ", loss value" : "", r->loss_kept ? " kept" : "", (long long)r->scale);
    return text;
}

/* ---- Building ---- */

typedef struct chain_maker {
    random_source *random;
    const chain_recipe *recipe;
    neap_graph_builder *builder;
} chain_maker;

/* What the backward pass has to know of a layer. */
typedef struct layer {
    uint32_t input, inner, output, saved; /* values; NEAP_NONE: there is none */
    uint32_t second_input, second;        /* passed on as well */
    uint32_t skip, skipped;               /* made for a later layer; read from an earlier one */
} layer;

static uint32_t add_value(chain_maker *m, const char *kind)
{
    neap_value_desc desc;
    uint32_t id;
    neap_value_desc_init(&desc);
    desc.kind = kind;
    desc.bytes = draw(m->random, m->recipe->sizes) * m->recipe->scale;
    assert_int_equal(neap_graph_builder_add_value(m->builder, &desc, &id, NULL), NEAP_OK);
    return id;
}

typedef struct id_list {
    uint32_t ids[8], count;
} id_list;

static void add(id_list *list, uint32_t id)
{
    if (id != NEAP_NONE)
        list->ids[list->count++] = id;
}

static void add_op(chain_maker *m, neap_pass pass, const id_list *inputs, const id_list *outputs)
{
    neap_variant variants[3] = {{.seconds = (double)draw(m->random, m->recipe->times)}};
    uint32_t n_variants = 1;
    if (m->recipe->workspaces && chance(m->random, 50))
        variants[0].workspace = draw(m->random, m->recipe->sizes) * m->recipe->scale;
    while (m->recipe->variants && n_variants < 3 && chance(m->random, 40)) {
        variants[n_variants] = variants[n_variants - 1];
        for (uint32_t k = 0; k < n_variants; k++)
            variants[k].workspace += (2 + random_below(m->random, 20)) * m->recipe->scale;
        variants[n_variants++].seconds += 1 + random_below(m->random, 3);
    }
    neap_op_desc desc;
    neap_op_desc_init(&desc);
    desc.pass = pass;
    desc.n_inputs = inputs->count;
    desc.inputs = inputs->ids;
    desc.n_outputs = outputs->count;
    desc.outputs = outputs->ids;
    desc.n_variants = n_variants;
    desc.variants = variants;
    assert_int_equal(neap_graph_builder_add_op(m->builder, &desc, NULL, NULL), NEAP_OK);
}

static uint32_t add_saved(chain_maker *m)
{
    chain_recipe larger = *m->recipe;
    larger.scale *= m->recipe->wide ? 10 : 1;
    chain_maker other = {m->random, &larger, m->builder};
    return add_value(&other, NEAP_KIND_ACTIVATION);
}

/* After layer `below`; `skipped` comes from one before that, or is NEAP_NONE. */
static layer add_layer(chain_maker *m, const layer *below, uint32_t skipped)
{
    uint32_t input = below->output;
    layer l = {input,         NEAP_NONE, NEAP_NONE, NEAP_NONE,
               below->second, NEAP_NONE, NEAP_NONE, skipped};
    id_list reads = {{input}, 1}, makes = {{0}, 0};
    add(&reads, below->second);
    add(&reads, skipped);
    if (m->recipe->two_ops && chance(m->random, 60)) {
        l.inner = add_value(m, NEAP_KIND_ACTIVATION);
        add(&makes, l.inner);
        add_op(m, NEAP_FORWARD, &reads, &makes);
        reads = (id_list){{l.inner}, 1};
        if (chance(m->random, 30)) /* around the first op, as a residual block does */
            add(&reads, input);
        makes.count = 0;
    }
    l.output = add_value(m, NEAP_KIND_ACTIVATION);
    add(&makes, l.output);
    if (m->recipe->saves && (m->recipe->wide || chance(m->random, 50))) {
        l.saved = add_saved(m);
        add(&makes, l.saved);
    }
    if (m->recipe->wide && chance(m->random, 90))
        l.second = add_value(m, NEAP_KIND_ACTIVATION);
    if (m->recipe->skips && chance(m->random, 40))
        l.skip = add_value(m, NEAP_KIND_ACTIVATION);
    add(&makes, l.second);
    add(&makes, l.skip);
    add_op(m, NEAP_FORWARD, &reads, &makes);
    return l;
}

/* The gradient of the last layer's output. */
static uint32_t add_loss(chain_maker *m, const layer *last)
{
    id_list reads = {{last->output}, 1}, makes = {{0}, 0};
    add(&reads, last->second);
    if (!m->recipe->loss_value) {
        add(&makes, add_value(m, NEAP_KIND_GRADIENT));
        add_op(m, NEAP_FORWARD, &reads, &makes);
        return makes.ids[0];
    }
    uint32_t loss = add_value(m, NEAP_KIND_ACTIVATION);
    add(&makes, loss);
    add_op(m, NEAP_FORWARD, &reads, &makes);
    if (m->recipe->loss_kept)
        assert_int_equal(neap_graph_builder_add_output(m->builder, loss, NULL), NEAP_OK);
    add(&reads, loss);
    makes = (id_list){{add_value(m, NEAP_KIND_GRADIENT)}, 1};
    add_op(m, NEAP_BACKWARD, &reads, &makes);
    return makes.ids[0];
}

static uint32_t add_backward(chain_maker *m, const layer *l, uint32_t gradient)
{
    bool input = m->recipe->reads_input, output = m->recipe->reads_output;
    if (m->recipe->mixed_reads) {
        input = chance(m->random, 60);
        output = chance(m->random, 50);
    }
    id_list reads = {{gradient}, 1}, makes = {{0}, 0};
    add(&reads, output ? l->output : NEAP_NONE);
    add(&reads,
        output && (!m->recipe->mixed_reads || chance(m->random, 80)) ? l->second : NEAP_NONE);
    add(&reads, l->saved);
    if (l->inner != NEAP_NONE) {
        if (chance(m->random, 70))
            add(&reads, l->inner);
        add(&makes, add_value(m, NEAP_KIND_GRADIENT));
        add_op(m, NEAP_BACKWARD, &reads, &makes);
        reads = makes;
        makes.count = 0;
    }
    add(&reads, input ? l->input : NEAP_NONE);
    add(&reads, input ? l->second_input : NEAP_NONE);
    if (l->skipped != NEAP_NONE && chance(m->random, 50))
        add(&reads, l->skipped);
    uint32_t below = add_value(m, NEAP_KIND_GRADIENT), result = NEAP_NONE;
    add(&makes, below);
    if (m->recipe->results && chance(m->random, 60))
        result = add_value(m, NEAP_KIND_GRADIENT);
    add(&makes, result);
    add_op(m, NEAP_BACKWARD, &reads, &makes);
    if (result != NEAP_NONE)
        assert_int_equal(neap_graph_builder_add_output(m->builder, result, NULL), NEAP_OK);
    return below;
}

neap_graph *random_chain(random_source *random, const chain_recipe *recipe)
{
    chain_maker m = {random, recipe, NULL};
    neap_graph *graph;
    neap_diag diag;
    layer *layers = test_malloc((size_t)recipe->layers * sizeof *layers);
    assert_int_equal(neap_graph_builder_create(NULL, "chain", &m.builder, NULL), NEAP_OK);
    layer below = {NEAP_NONE, NEAP_NONE, add_value(&m, NEAP_KIND_INPUT),
                   NEAP_NONE, NEAP_NONE, NEAP_NONE,
                   NEAP_NONE, NEAP_NONE};
    for (uint32_t i = 0; i < recipe->layers; i++) {
        uint32_t from = i >= 2 && recipe->skips ? random_below(random, i - 1) : NEAP_NONE;
        layers[i] = add_layer(&m, &below, from == NEAP_NONE ? NEAP_NONE : layers[from].skip);
        below = layers[i];
    }
    uint32_t at = add_loss(&m, &below);
    for (uint32_t i = recipe->layers; i-- > 0;)
        at = add_backward(&m, &layers[i], at);
    assert_int_equal(neap_graph_builder_add_output(m.builder, at, NULL), NEAP_OK);
    if (neap_graph_builder_finish(m.builder, &graph, &diag) != NEAP_OK)
        fail_msg("%s", diag.message);
    neap_graph_builder_destroy(m.builder);
    test_free(layers);
    return graph;
}
