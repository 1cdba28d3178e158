#include "random_small_graph.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <neap/solve.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_VALUES = 40, MOST_MADE = 12, MOST_READ = 8 };

typedef struct draft {
    random_source *random;
    neap_graph_builder *builder;
    unsigned flags;
    uint32_t n_values, n_made;
    bool is_read[MOST_VALUES], is_made[MOST_VALUES], is_view[MOST_VALUES];
    int64_t bytes[MOST_VALUES]; /* of its storage */
    int64_t like;               /* the size of what is made next, or -1 */
    uint32_t most_updates;
    bool side; /* one more may be added in the forward pass */
} draft;

typedef struct op_draft {
    neap_pass pass;
    uint32_t n_inputs, n_outputs;
    uint32_t inputs[MOST_READ], outputs[MOST_READ];
    uint32_t n_updates, updates[2];
} op_draft;

static bool chance(draft *d, uint32_t percent)
{
    return random_below(d->random, 100) < percent;
}

/* ---- Values and ops ---- */

static uint32_t add_value(draft *d, const char *kind, uint32_t view_of, bool made)
{
    static const int64_t sizes[] = {0, 1, 1, 2, 2, 3, 3, 4, 5, 7};
    neap_value_desc desc;
    uint32_t id;
    neap_value_desc_init(&desc);
    desc.kind = kind;
    desc.view_of = view_of;
    desc.bytes = view_of == NEAP_NONE ? sizes[random_below(d->random, 10)] : 0;
    if (made && view_of == NEAP_NONE && d->like >= 0)
        desc.bytes = d->like;
    if (made && (d->flags & SMALL_EMPTY) && chance(d, 50))
        desc.bytes = 0;
    desc.state = !made && (d->flags & SMALL_UPDATES) && strcmp(kind, NEAP_KIND_INPUT) != 0;
    assert_int_equal(neap_graph_builder_add_value(d->builder, &desc, &id, NULL), NEAP_OK);
    assert_true(id == d->n_values && id < MOST_VALUES);
    d->is_made[id] = made;
    d->is_view[id] = view_of != NEAP_NONE;
    d->bytes[id] = view_of == NEAP_NONE ? desc.bytes : d->bytes[view_of];
    d->n_made += made;
    d->n_values++;
    return id;
}

static uint32_t add_made(draft *d, const char *kind)
{
    return add_value(d, kind, NEAP_NONE, true);
}

/* Slower and leaner from one to the next; at times they come in another order. */
static uint32_t draw_variants(draft *d, neap_variant variants[3])
{
    uint32_t n = (d->flags & SMALL_VARIANTS) && chance(d, 75) ? 2 + random_below(d->random, 2) : 1;
    int64_t workspace = chance(d, n > 1 ? 90 : 30) ? 1 + random_below(d->random, 5) : 0;
    double seconds = chance(d, 10) ? 0 : 1 + random_below(d->random, 4);
    for (uint32_t i = 0; i < n; i++) {
        variants[i] = (neap_variant){.seconds = seconds, .workspace = workspace};
        seconds += 1 + random_below(d->random, 3);
        workspace -= workspace > 0 ? 1 + random_below(d->random, (uint32_t)workspace) : 0;
    }
    if (n > 1 && chance(d, 20)) {
        neap_variant first = variants[0];
        variants[0] = variants[n - 1];
        variants[n - 1] = first;
    }
    return n;
}

/* What the op makes first gets the size of what it reads first. */
static void draw_size(draft *d, const op_draft *op)
{
    bool same = (d->flags & SMALL_IN_PLACE) && op->n_inputs > 0 && chance(d, 60);
    d->like = same ? d->bytes[op->inputs[0]] : -1;
}

static void draw_in_place(draft *d, const op_draft *op, neap_op_desc *desc)
{
    for (uint32_t i = 0; i < op->n_inputs && (d->flags & SMALL_IN_PLACE); i++)
        for (uint32_t k = 0; k < op->n_outputs; k++)
            if (d->is_made[op->inputs[i]] && !d->is_view[op->outputs[k]] &&
                d->bytes[op->inputs[i]] == d->bytes[op->outputs[k]] && chance(d, 80)) {
                desc->in_place_input = op->inputs[i];
                desc->in_place_output = op->outputs[k];
            }
}

static void add_op(draft *d, const op_draft *op, bool is_free)
{
    neap_variant variants[3];
    neap_op_desc desc;
    neap_op_desc_init(&desc);
    desc.pass = op->pass;
    desc.n_inputs = op->n_inputs;
    desc.inputs = op->inputs;
    desc.n_outputs = op->n_outputs;
    desc.outputs = op->outputs;
    desc.n_updates = op->n_updates;
    desc.updates = op->updates;
    draw_in_place(d, op, &desc);
    desc.n_variants = is_free ? 0 : draw_variants(d, variants);
    desc.variants = variants;
    assert_int_equal(neap_graph_builder_add_op(d->builder, &desc, NULL, NULL), NEAP_OK);
    for (uint32_t i = 0; i < op->n_inputs; i++)
        d->is_read[op->inputs[i]] = true;
}

/* A value on the storage of another, which is not read by anything else so far. */
static uint32_t add_view(draft *d, neap_pass pass, uint32_t of)
{
    op_draft op = {.pass = pass, .n_inputs = 1, .inputs = {of}, .n_outputs = 1};
    op.outputs[0] = add_value(d, NEAP_KIND_ACTIVATION, of, true);
    add_op(d, &op, true);
    return op.outputs[0];
}

static void read_value(op_draft *op, uint32_t value)
{
    for (uint32_t i = 0; i < op->n_inputs; i++)
        if (op->inputs[i] == value)
            return;
    assert_true(op->n_inputs < MOST_READ);
    op->inputs[op->n_inputs++] = value;
}

static void add_output(draft *d, uint32_t value)
{
    assert_int_equal(neap_graph_builder_add_output(d->builder, value, NULL), NEAP_OK);
}

/* ---- Any ops ---- */

static uint32_t any_value(draft *d)
{
    uint32_t recent = d->n_values < 4 ? d->n_values : 4;
    return chance(d, 60) ? d->n_values - 1 - random_below(d->random, recent)
                         : random_below(d->random, d->n_values);
}

static void add_any_op(draft *d, uint32_t left)
{
    op_draft op = {0};
    uint32_t n_inputs = 1 + random_below(d->random, 3);
    uint32_t n_outputs = chance(d, 70) ? 1 : chance(d, 85) ? 2 + random_below(d->random, 2) : 0;
    if (d->n_made + n_outputs + left > MOST_MADE) /* each op to come makes one at least */
        n_outputs = 1;
    for (uint32_t i = 0; i < n_inputs; i++)
        read_value(&op, any_value(d));
    op.n_outputs = n_outputs;
    draw_size(d, &op);
    for (uint32_t i = 0; i < n_outputs; i++, d->like = -1)
        op.outputs[i] = add_made(d, NEAP_KIND_ACTIVATION);
    d->like = -1;
    add_op(d, &op, false);
}

/* Some of its outputs are views: of what it reads, or of its own first output. At times it reads
   nothing. */
static void add_odd_op(draft *d)
{
    op_draft op = {0};
    uint32_t n_inputs = random_below(d->random, 3), n_outputs = 1 + random_below(d->random, 3);
    for (uint32_t i = 0; i < n_inputs; i++)
        read_value(&op, any_value(d));
    for (uint32_t i = 0; i < n_outputs && d->n_made < MOST_MADE; i++) {
        uint32_t of = NEAP_NONE;
        if (op.n_inputs > 0 && chance(d, 30))
            of = op.inputs[random_below(d->random, op.n_inputs)];
        else if (op.n_outputs > 0 && chance(d, 30))
            of = op.outputs[0];
        op.outputs[op.n_outputs++] = add_value(d, NEAP_KIND_ACTIVATION, of, true);
    }
    add_op(d, &op, chance(d, 10));
}

static void draw_any(draft *d, uint32_t n_ops)
{
    add_value(d, NEAP_KIND_INPUT, NEAP_NONE, false);
    for (uint32_t o = 0; o < n_ops; o++) {
        if (chance(d, 15))
            add_value(d, NEAP_KIND_PARAMETER, NEAP_NONE, false);
        if ((d->flags & SMALL_ODD) && chance(d, 50))
            add_odd_op(d);
        else if (o > 0 && chance(d, 12))
            add_view(d, NEAP_FORWARD, any_value(d));
        else
            add_any_op(d, n_ops - 1 - o);
    }
    bool some = false;
    for (uint32_t v = 0; v < d->n_values; v++)
        if (d->is_made[v] && chance(d, d->is_read[v] ? 12 : 60)) {
            add_output(d, v);
            some = true;
        }
    if (!some && d->is_made[d->n_values - 1])
        add_output(d, d->n_values - 1);
}

/* ---- Training ---- */

enum { MOST_LAYERS = 3 };

typedef struct layer {
    uint32_t read, skipped, parameter, made, saved, gradient; /* or NEAP_NONE */
} layer;

/* State of its own that follows what the layer made. Without workspace it is a side update. */
static void add_side(draft *d, const layer *l)
{
    op_draft op = {.pass = NEAP_FORWARD, .n_updates = 1};
    op.updates[0] = add_value(d, NEAP_KIND_STATE, NEAP_NONE, false);
    read_value(&op, op.updates[0]);
    read_value(&op, l->made);
    if (l->saved != NEAP_NONE && chance(d, 50))
        read_value(&op, l->saved);
    add_op(d, &op, false);
    d->side = false;
}

static uint32_t add_forward(draft *d, layer *l, uint32_t earlier, uint32_t newest)
{
    op_draft op = {.pass = NEAP_FORWARD};
    *l = (layer){newest, NEAP_NONE, NEAP_NONE, NEAP_NONE, NEAP_NONE, NEAP_NONE};
    read_value(&op, newest);
    if (earlier != NEAP_NONE && chance(d, 30))
        read_value(&op, l->skipped = earlier);
    if (chance(d, 40))
        read_value(&op, l->parameter = add_value(d, NEAP_KIND_PARAMETER, NEAP_NONE, false));
    draw_size(d, &op);
    op.outputs[op.n_outputs++] = l->made = add_made(d, NEAP_KIND_ACTIVATION);
    d->like = -1;
    if (chance(d, 20))
        op.outputs[op.n_outputs++] = l->saved = add_made(d, NEAP_KIND_ACTIVATION);
    add_op(d, &op, false);
    if (d->side && chance(d, 60))
        add_side(d, l);
    return l->made;
}

static uint32_t add_loss(draft *d, uint32_t newest)
{
    op_draft op = {.pass = NEAP_FORWARD, .n_inputs = 1, .inputs = {newest}, .n_outputs = 1};
    op.outputs[0] = add_made(d, NEAP_KIND_ACTIVATION);
    add_op(d, &op, false);
    if (chance(d, 50))
        add_output(d, op.outputs[0]);
    return op.outputs[0];
}

/* Reads the gradient, and some of what the layer read and made. */
static uint32_t add_backward(draft *d, layer *l, uint32_t gradient)
{
    op_draft op = {.pass = NEAP_BACKWARD};
    read_value(&op, gradient);
    if (chance(d, 70))
        read_value(&op, l->read);
    if (chance(d, 40))
        read_value(&op, l->made);
    if (l->skipped != NEAP_NONE && chance(d, 50))
        read_value(&op, l->skipped);
    if (l->saved != NEAP_NONE)
        read_value(&op, l->saved);
    draw_size(d, &op);
    uint32_t made = op.outputs[op.n_outputs++] = add_made(d, NEAP_KIND_GRADIENT);
    d->like = -1;
    l->gradient = NEAP_NONE;
    if (l->parameter != NEAP_NONE) {
        read_value(&op, l->parameter);
        if (d->n_made < MOST_MADE - 2)
            op.outputs[op.n_outputs++] = l->gradient = add_made(d, NEAP_KIND_GRADIENT);
    }
    add_op(d, &op, false);
    if (l->gradient != NEAP_NONE && (!(d->flags & SMALL_UPDATES) || chance(d, 20)))
        add_output(d, l->gradient);
    return made;
}

/* A step of an optimizer: the parameter, its gradient and at times a moment. */
static void add_update(draft *d, const layer *l)
{
    op_draft op = {.pass = NEAP_BACKWARD, .n_updates = 1, .updates = {l->parameter}};
    read_value(&op, l->parameter);
    read_value(&op, l->gradient);
    if (chance(d, 40)) {
        op.updates[op.n_updates++] = add_value(d, NEAP_KIND_STATE, NEAP_NONE, false);
        read_value(&op, op.updates[1]);
    }
    add_op(d, &op, false);
}

static void draw_training(draft *d, uint32_t n_ops)
{
    layer layers[MOST_LAYERS];
    uint32_t n = n_ops / 2, odd = n_ops % 2, earlier = NEAP_NONE;
    uint32_t newest = add_value(d, NEAP_KIND_INPUT, NEAP_NONE, false);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t made = add_forward(d, &layers[i], earlier, newest);
        earlier = newest;
        newest = made;
    }
    if (odd)
        newest = chance(d, 25) ? add_view(d, NEAP_FORWARD, newest) : add_loss(d, newest);
    for (uint32_t i = n; i-- > 0;)
        newest = add_backward(d, &layers[i], newest);
    for (uint32_t i = 0, updates = 0; i < n && updates < d->most_updates; i++)
        if (layers[i].parameter != NEAP_NONE && layers[i].gradient != NEAP_NONE) {
            add_update(d, &layers[i]);
            updates++;
        }
    add_output(d, newest);
}

/* ---- Both ---- */

static neap_graph *draw_graph(random_source *random, uint32_t most_ops, unsigned flags)
{
    draft d = {.random = random, .flags = flags, .like = -1};
    neap_graph *graph;
    neap_diag diag = {0};
    uint32_t n_ops = 2 + random_below(random, most_ops - 1);
    assert_int_equal(neap_graph_builder_create(NULL, "small", &d.builder, NULL), NEAP_OK);
    if ((flags & SMALL_UPDATES) && n_ops > 3) { /* some of them are updates */
        d.most_updates = n_ops > 5 ? 2 : 1;
        n_ops -= d.most_updates;
        d.side = (flags & SMALL_SIDE) && n_ops > 2;
        n_ops -= d.side;
    }
    if (flags & SMALL_TRAINING)
        draw_training(&d, n_ops);
    else
        draw_any(&d, n_ops);
    if (chance(&d, 20))
        neap_graph_builder_set_fixed_bytes(d.builder, random_below(random, 5));
    neap_status status = neap_graph_builder_finish(d.builder, &graph, &diag);
    neap_graph_builder_destroy(d.builder);
    if (status != NEAP_OK)
        fail_msg("%s", diag.message);
    return graph;
}

static int64_t state_bytes(const neap_graph *graph)
{
    int64_t sum = 0;
    for (uint32_t v = 0; v < neap_graph_value_count(graph); v++)
        if (neap_graph_value(graph, v)->state)
            sum += neap_graph_value(graph, v)->bytes;
    return sum;
}

static bool leaves_a_choice(const neap_graph *graph)
{
    int64_t natural;
    assert_int_equal(neap_natural_peak(NULL, graph, &natural, NULL), NEAP_OK);
    return natural > neap_graph_floor_bytes(graph, NULL);
}

neap_graph *random_small_graph(random_source *random, uint32_t most_ops, unsigned flags)
{
    enum { TRIES = 4 };
    assert_true(most_ops >= 2 && most_ops <= 7);
    neap_graph *graph = draw_graph(random, most_ops, flags);
    for (int i = 1; i < TRIES && !leaves_a_choice(graph); i++) {
        neap_graph_destroy(graph);
        graph = draw_graph(random, most_ops, flags);
    }
    return graph;
}

/* ---- Budgets ---- */

/* Whether b bytes can be live: sums[b] becomes true for all sums with `bytes` more. */
static void add_to_sums(bool *sums, size_t n_sums, int64_t bytes)
{
    for (size_t b = n_sums; b-- > (size_t)bytes;)
        sums[b] = sums[b] || sums[b - (size_t)bytes];
}

/* Which bytes can be live beyond the base, from 0 to n_sums - 1. The caller frees it. */
static bool *live_sums(const neap_graph *graph, size_t n_sums)
{
    bool *sums = calloc(n_sums, sizeof *sums), *all = calloc(n_sums, sizeof *all);
    assert_true(sums && all);
    sums[0] = true;
    for (uint32_t v = 0; v < neap_graph_value_count(graph); v++) {
        const neap_value *value = neap_graph_value(graph, v);
        if (value->producer != NEAP_NONE || value->state)
            add_to_sums(sums, n_sums, value->bytes);
    }
    memcpy(all, sums, n_sums * sizeof *all);
    for (uint32_t o = 0; o < neap_graph_op_count(graph); o++) {
        const neap_op *op = neap_graph_op(graph, o);
        for (uint32_t i = 0; i < op->n_variants; i++)
            for (size_t b = (size_t)op->variants[i].workspace; b < n_sums; b++)
                all[b] = all[b] || sums[b - (size_t)op->variants[i].workspace];
    }
    free(sums);
    return all;
}

size_t small_graph_budgets(const neap_graph *graph, int64_t *budgets, size_t capacity)
{
    int64_t least = neap_graph_travel_floor_bytes(graph, NULL), most;
    int64_t base = neap_graph_base_bytes(graph) - state_bytes(graph); /* it may be on the host */
    assert_int_equal(neap_natural_peak(NULL, graph, &most, NULL), NEAP_OK);
    most = most > 1 ? most : 1; /* no budget is of 0 bytes */
    least = least > 1 ? least : 1;
    size_t n_sums = (size_t)(most > base ? most - base : 0) + 1, n_all = 0, n = 0;
    bool *sums = live_sums(graph, n_sums);
    int64_t *all = malloc((n_sums + 2) * sizeof *all);
    assert_non_null(all);
    for (int64_t b = least; b <= most; b++)
        if (b == least || b == most || (b >= base && sums[b - base]))
            all[n_all++] = b;
    size_t wanted = n_all < capacity ? n_all : capacity;
    for (size_t i = 0; i < wanted; i++)
        budgets[n++] = all[wanted > 1 ? i * (n_all - 1) / (wanted - 1) : 0];
    free(sums);
    free(all);
    return n;
}
