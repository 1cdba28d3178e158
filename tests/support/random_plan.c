#include "random_plan.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

/* splitmix64 */
uint32_t random_below(random_source *random, uint32_t limit)
{
    uint64_t z = (random->state += UINT64_C(0x9E3779B97F4A7C15));
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return (uint32_t)((z ^ (z >> 31)) % limit);
}

static bool chance(random_source *random, uint32_t percent)
{
    return random_below(random, 100) < percent;
}

/* ---- Graphs ---- */

static uint32_t add_value(random_source *random, neap_graph_builder *builder, const char *kind,
                          uint32_t view_of)
{
    static const int64_t sizes[] = {0, 1, 4, 64, 100, 100, 128, 200, 256, 1000};
    neap_value_desc desc;
    neap_value_desc_init(&desc);
    desc.kind = kind;
    desc.view_of = view_of;
    desc.bytes = view_of == NEAP_NONE ? sizes[random_below(random, 10)] : 0;
    uint32_t id;
    assert_int_equal(neap_graph_builder_add_value(builder, &desc, &id, NULL), NEAP_OK);
    return id;
}

static void add_op(random_source *random, neap_graph_builder *builder, uint32_t *n_values)
{
    static const double times[] = {0, 0.001, 0.002, 0.0105, 1e-6, 0.25, 1};
    static const int64_t workspaces[] = {0, 0, 16, 300};
    uint32_t inputs[3], outputs[3], n_inputs = random_below(random, 4);
    for (uint32_t i = 0; i < n_inputs; i++) /* mostly from what is new */
        inputs[i] = chance(random, 60) ? *n_values - 1 - random_below(random, *n_values) / 4
                                       : random_below(random, *n_values);
    uint32_t n_outputs = chance(random, 75) ? 1 : random_below(random, 4);
    for (uint32_t i = 0; i < n_outputs; i++) {
        uint32_t base =
            n_inputs > 0 && chance(random, 20) ? inputs[random_below(random, n_inputs)] : NEAP_NONE;
        outputs[i] = add_value(random, builder, NEAP_KIND_ACTIVATION, base);
        *n_values += 1;
    }
    neap_variant variants[3];
    neap_op_desc desc;
    neap_op_desc_init(&desc);
    desc.n_variants = 1 + random_below(random, 3);
    for (uint32_t i = 0; i < desc.n_variants; i++)
        variants[i] = (neap_variant){.seconds = times[random_below(random, 7)],
                                     .workspace = workspaces[random_below(random, 4)]};
    desc.variants = variants;
    desc.n_inputs = n_inputs;
    desc.inputs = inputs;
    desc.n_outputs = n_outputs;
    desc.outputs = outputs;
    assert_int_equal(neap_graph_builder_add_op(builder, &desc, NULL, NULL), NEAP_OK);
    for (uint32_t i = 0; i < n_outputs; i++)
        if (chance(random, 10))
            assert_int_equal(neap_graph_builder_add_output(builder, outputs[i], NULL), NEAP_OK);
}

neap_graph *random_graph(random_source *random, uint32_t most_ops)
{
    neap_graph_builder *builder;
    neap_graph *graph;
    neap_diag diag = {0};
    assert_int_equal(neap_graph_builder_create(NULL, "random", &builder, NULL), NEAP_OK);
    uint32_t n_values = 1, n_ops = 1 + random_below(random, most_ops);
    add_value(random, builder, NEAP_KIND_INPUT, NEAP_NONE);
    for (uint32_t o = 0; o < n_ops; o++) {
        if (chance(random, 15)) {
            add_value(random, builder, NEAP_KIND_INPUT, chance(random, 20) ? 0 : NEAP_NONE);
            n_values++;
        }
        add_op(random, builder, &n_values);
    }
    if (chance(random, 50))
        neap_graph_builder_set_fixed_bytes(builder, random_below(random, 5000));
    neap_status status = neap_graph_builder_finish(builder, &graph, &diag);
    neap_graph_builder_destroy(builder);
    if (status != NEAP_OK)
        fail_msg("%s", diag.message);
    return graph;
}

/* ---- Plans ---- */

typedef struct writer {
    random_source *random;
    const neap_graph *graph;
    neap_plan *plan;
    bool *resident, *on_host, *computed; /* on_host: an up-to-date copy */
    bool *from_host;                     /* state that is on the host at the start */
    bool updating; /* an op with updates has run: nothing can be computed again, so all that is
                      needed stays resident or on the host */
} writer;

static void step(writer *w, neap_step_kind kind, uint32_t id, uint32_t variant)
{
    assert_int_equal(neap_plan_append(w->plan, (neap_step){kind, id, variant, false}, NULL),
                     NEAP_OK);
    if (kind == NEAP_FREE)
        w->resident[id] = false;
    else if (kind == NEAP_OFFLOAD)
        w->on_host[id] = true;
    else if (kind == NEAP_PREFETCH)
        w->resident[id] = true;
}

static bool is_state(const writer *w, uint32_t value)
{
    return neap_graph_value(w->graph, value)->state;
}

/* Computes an op; brings its inputs back before, by copy or computation, and frees its outputs. */
static void compute(writer *w, uint32_t id)
{
    const neap_op *op = neap_graph_op(w->graph, id);
    for (uint32_t i = 0; i < op->n_inputs; i++) {
        uint32_t v = op->inputs[i];
        if (!w->resident[v] && w->on_host[v] &&
            (is_state(w, v) || w->updating || chance(w->random, 60)))
            step(w, NEAP_PREFETCH, v, 0);
        else if (!w->resident[v])
            compute(w, neap_graph_value(w->graph, v)->producer);
    }
    for (uint32_t i = 0; i < op->n_outputs; i++)
        if (w->resident[op->outputs[i]])
            step(w, NEAP_FREE, op->outputs[i], 0);
    step(w, NEAP_COMPUTE, id, random_below(w->random, op->n_variants));
    for (uint32_t i = 0; i < op->n_outputs; i++)
        w->resident[op->outputs[i]] = true;
    for (uint32_t i = 0; i < op->n_updates; i++)
        w->on_host[op->updates[i]] = false;
    w->computed[id] = true;
}

static void make_outputs(writer *w)
{
    uint32_t n_outputs;
    const uint32_t *outputs = neap_graph_outputs(w->graph, &n_outputs);
    for (uint32_t i = 0; i < n_outputs; i++) /* what a computation frees it makes again */
        if (!w->resident[outputs[i]] && w->updating)
            step(w, NEAP_PREFETCH, outputs[i], 0);
        else if (!w->resident[outputs[i]])
            compute(w, neap_graph_value(w->graph, outputs[i])->producer);
}

/* Before the first update, which is op `first`: computes what it and all later ops need. */
static void begin_updates(writer *w, uint32_t first)
{
    for (uint32_t o = first; o < neap_graph_op_count(w->graph); o++) {
        const neap_op *op = neap_graph_op(w->graph, o);
        for (uint32_t i = 0; i < op->n_inputs; i++) {
            uint32_t producer = neap_graph_value(w->graph, op->inputs[i])->producer;
            if (producer != NEAP_NONE && producer < first && !w->resident[op->inputs[i]])
                compute(w, producer);
        }
    }
    make_outputs(w);
    w->updating = true;
}

/* State goes back to where it was. */
static void settle(writer *w)
{
    for (uint32_t v = 0; v < neap_graph_value_count(w->graph); v++) {
        if (!is_state(w, v))
            continue;
        if (w->from_host[v] && !w->on_host[v])
            step(w, NEAP_OFFLOAD, v, 0);
        if (w->from_host[v] && w->resident[v])
            step(w, NEAP_FREE, v, 0);
        if (!w->from_host[v] && !w->resident[v])
            step(w, NEAP_PREFETCH, v, 0);
    }
}

static void choose_host(writer *w, bool transfers)
{
    uint32_t n_values = neap_graph_value_count(w->graph), count = 0;
    uint32_t *chosen = malloc((n_values + 1) * sizeof *chosen);
    assert_non_null(chosen);
    for (uint32_t v = 0; v < n_values; v++) {
        w->resident[v] = neap_graph_value(w->graph, v)->producer == NEAP_NONE;
        if (!transfers || !is_state(w, v) || chance(w->random, 50))
            continue;
        w->resident[v] = false;
        w->from_host[v] = w->on_host[v] = true;
        chosen[count++] = v;
    }
    assert_int_equal(neap_plan_set_host_at_start(w->plan, chosen, count, NULL), NEAP_OK);
    free(chosen);
}

static void wander(writer *w, bool transfers)
{
    uint32_t v = random_below(w->random, neap_graph_value_count(w->graph));
    uint32_t producer = neap_graph_value(w->graph, v)->producer;
    if (producer == NEAP_NONE && !is_state(w, v))
        return;
    if (w->resident[v] && (is_state(w, v) || w->updating) && !w->on_host[v]) {
        if (transfers)
            step(w, NEAP_OFFLOAD, v, 0);
        return;
    }
    if (!w->resident[v] && w->on_host[v])
        step(w, NEAP_PREFETCH, v, 0);
    else if (!w->resident[v] && !w->updating && w->computed[producer] && chance(w->random, 30))
        compute(w, producer);
    else if (w->resident[v] && transfers && chance(w->random, 50))
        step(w, NEAP_OFFLOAD, v, 0);
    else if (w->resident[v])
        step(w, NEAP_FREE, v, 0);
}

neap_plan *random_plan(random_source *random, const neap_graph *graph, size_t n_steps,
                       bool transfers)
{
    uint32_t n_ops = neap_graph_op_count(graph), n_values = neap_graph_value_count(graph);
    writer w = {.random = random, .graph = graph};
    assert_int_equal(neap_plan_create(NULL, neap_graph_name(graph), "random", -1, &w.plan, NULL),
                     NEAP_OK);
    w.resident = calloc(n_values, sizeof *w.resident);
    w.on_host = calloc(n_values, sizeof *w.on_host);
    w.computed = calloc(n_ops, sizeof *w.computed);
    w.from_host = calloc(n_values, sizeof *w.from_host);
    assert_true(w.resident && w.on_host && w.computed && w.from_host);
    choose_host(&w, transfers);
    uint32_t next = 0;
    size_t tries = 0; /* there may be nowhere to wander */
    while (next < n_ops || (neap_plan_step_count(w.plan) < n_steps && tries++ < 10 * n_steps)) {
        if (next < n_ops && chance(random, 40)) {
            if (!w.updating && neap_graph_op(graph, next)->n_updates > 0)
                begin_updates(&w, next);
            compute(&w, next++);
        } else {
            wander(&w, transfers);
        }
    }
    make_outputs(&w);
    settle(&w);
    free(w.resident);
    free(w.on_host);
    free(w.computed);
    free(w.from_host);
    return w.plan;
}

neap_plan *with_variants(const neap_plan *plan, const neap_graph *graph, uint32_t choice)
{
    neap_plan *copy;
    size_t count;
    const uint32_t *on_host = neap_plan_host_at_start(plan, &count);
    assert_int_equal(
        neap_plan_create(NULL, neap_plan_graph_name(plan), neap_plan_method(plan), -1, &copy, NULL),
        NEAP_OK);
    assert_int_equal(neap_plan_set_host_at_start(copy, on_host, count, NULL), NEAP_OK);
    for (size_t i = 0; i < neap_plan_step_count(plan); i++) {
        neap_step step = neap_plan_steps(plan)[i];
        if (step.kind == NEAP_COMPUTE)
            step.variant = (step.id + choice) % neap_graph_op(graph, step.id)->n_variants;
        assert_int_equal(neap_plan_append(copy, step, NULL), NEAP_OK);
    }
    return copy;
}
