/*
 * neap_graph_add_updates: a copy of a training graph that goes on to the end of the step.
 *
 * The copy has the ops of the original in their order, each batch normalisation that keeps running
 * statistics followed by the op that advances them, then for each parameter, in order, its update:
 * the ordinary step. Gradients are no outputs then. New values come last: the input
 * `optimizer.step`, the state of each parameter, then running statistics.
 */
#include "base/checked.h"
#include "base/fail.h"
#include "graph/network_internal.h"

#include <neap/text.h>

#include <math.h>
#include <string.h>

/* A parameter and the values that its update touches; NEAP_NONE for those that it lacks. */
typedef struct trained {
    uint32_t parameter, gradient;
    uint32_t master, moments[2], sum;
    uint32_t total; /* of the gradients of all micro-batches so far */
} trained;

/* Values of the running statistics that an op keeps. */
typedef struct kept {
    uint32_t mean, variance;
} kept;

typedef struct updater {
    const neap_graph *graph;
    const neap_training *training;
    const net_statistics *const *statistics; /* by op; NULL: no op keeps any */
    kept *kept;                              /* by op */
    neap_graph_builder *builder;
    neap_arena arena;
    trained *parameters;
    uint32_t n_parameters;
    uint32_t step, scale; /* values */
    neap_text text;
    neap_diag *diag;
} updater;

const char *neap_optimizer_name(neap_optimizer optimizer)
{
    static const char *const names[] = {"none", "sgd", "momentum", "adam", "adamw"};
    return (size_t)optimizer < sizeof names / sizeof *names ? names[optimizer] : "";
}

uint32_t neap_optimizer_moments(neap_optimizer optimizer, const char *const **names)
{
    static const char *const momentum[] = {"momentum"}, *const adam[] = {"m", "v"};
    bool two = optimizer == NEAP_OPTIMIZER_ADAM || optimizer == NEAP_OPTIMIZER_ADAMW;
    *names = two ? adam : momentum;
    return two ? 2 : optimizer == NEAP_OPTIMIZER_MOMENTUM;
}

/* ---- What there is ---- */

static neap_status check_option(const char *name, double value, double below, neap_diag *diag)
{
    return value >= 0 && value < below && isfinite(value)
               ? NEAP_OK
               : neap_fail(diag, NEAP_INVALID, "%s is %g; it must be a number %s", name, value,
                           isinf(below) ? "of 0 or more" : "from 0 to below 1");
}

neap_status neap_training_check(const neap_training *training, neap_diag *diag)
{
    const neap_training *t = training;
    NEAP_TRY(check_option("momentum", t->momentum, HUGE_VAL, diag));
    NEAP_TRY(check_option("beta1", t->beta1, 1, diag));
    NEAP_TRY(check_option("beta2", t->beta2, 1, diag));
    NEAP_TRY(check_option("epsilon", t->epsilon, HUGE_VAL, diag));
    NEAP_TRY(check_option("weight decay", t->weight_decay, HUGE_VAL, diag));
    NEAP_TRY(check_option("the norm of clipped gradients", t->clip_norm, HUGE_VAL, diag));
    if (t->accumulate < 1 || t->accumulate > INT32_MAX)
        return neap_fail(diag, NEAP_INVALID, "a step has 1 micro-batch or more, not %lld",
                         (long long)t->accumulate);
    if ((size_t)t->optimizer > NEAP_OPTIMIZER_ADAMW)
        return neap_fail(diag, NEAP_INVALID, "there is no optimizer number %d", (int)t->optimizer);
    return NEAP_OK;
}

static bool is_parameter(const neap_value *value)
{
    return value->producer == NEAP_NONE && strcmp(value->kind, NEAP_KIND_PARAMETER) == 0 &&
           value->view_of == NEAP_NONE;
}

static neap_status fail_graph(const updater *u, const char *why)
{
    return neap_fail(u->diag, NEAP_UNSUPPORTED,
                     "\"%s\" cannot be given an optimizer: %s; its outputs must be a loss and a "
                     "gradient for each parameter, in order",
                     u->graph->name, why);
}

static bool same_shape(const neap_value *a, const neap_value *b)
{
    return a->rank == b->rank && a->rank > 0 && a->dtype != NEAP_DTYPE_UNKNOWN &&
           b->dtype != NEAP_DTYPE_UNKNOWN &&
           memcmp(a->shape, b->shape, a->rank * sizeof *a->shape) == 0;
}

static neap_status list_parameters(updater *u)
{
    const neap_graph *graph = u->graph;
    for (size_t o = 0; o < graph->n_ops; o++)
        if (graph->ops[o].n_updates > 0)
            return fail_graph(u, "it has updates already");
    for (size_t v = 0; v < graph->n_values; v++)
        u->n_parameters += is_parameter(&graph->values[v]);
    if (u->n_parameters == 0)
        return fail_graph(u, "it has no parameters");
    if (graph->n_outputs != (size_t)u->n_parameters + 1)
        return fail_graph(u, "it has other outputs");
    if (!NEAP_TAKE(&u->arena, u->n_parameters, u->parameters))
        return neap_fail_no_memory(u->diag);
    uint32_t n = 0;
    for (uint32_t v = 0; v < graph->n_values; v++) {
        if (!is_parameter(&graph->values[v]))
            continue;
        uint32_t gradient = graph->outputs[n + 1];
        if (!same_shape(&graph->values[v], &graph->values[gradient]))
            return fail_graph(u, "a gradient is not like its parameter");
        u->parameters[n++] = (trained){.parameter = v,
                                       .gradient = gradient,
                                       .master = NEAP_NONE,
                                       .moments = {NEAP_NONE, NEAP_NONE},
                                       .sum = NEAP_NONE,
                                       .total = gradient};
    }
    return NEAP_OK;
}

/* ---- Copying ---- */

static neap_status copy_value(updater *u, uint32_t id)
{
    const neap_value *value = &u->graph->values[id];
    neap_value_desc desc;
    neap_value_describe(value, &desc);
    desc.state = value->state || is_parameter(value);
    return neap_graph_builder_add_value(u->builder, &desc, NULL, u->diag);
}

/* ---- Values ---- */

/* A value of the shape of `like`. */
static neap_status add_named(updater *u, uint32_t like, const char *name, const char *kind,
                             neap_dtype dtype, uint32_t *id)
{
    const neap_value *value = &u->graph->values[like];
    neap_value_desc desc;
    neap_value_desc_init(&desc);
    desc.name = name;
    desc.kind = kind;
    desc.state = strcmp(kind, NEAP_KIND_STATE) == 0;
    desc.dtype = dtype;
    desc.rank = value->rank;
    desc.shape = value->shape;
    desc.bytes = neap_dtype_bytes(dtype);
    for (uint32_t d = 0; d < value->rank; d++)
        if (!neap_mul_i64(desc.bytes, value->shape[d], &desc.bytes))
            return neap_fail(u->diag, NEAP_INVALID, "the state of \"%s\" overflows 63 bits",
                             value->name);
    return neap_graph_builder_add_value(u->builder, &desc, id, u->diag);
}

/* The same with the name "<before><like><after>". */
static neap_status add_like(updater *u, uint32_t like, const char *before, const char *after,
                            const char *kind, neap_dtype dtype, uint32_t *id)
{
    u->text.length = 0;
    neap_text_printf(&u->text, "%s%s%s", before, u->graph->values[like].name, after);
    if (u->text.status != NEAP_OK)
        return neap_fail_no_memory(u->diag);
    return add_named(u, like, u->text.text, kind, dtype, id);
}

static neap_status add_state(updater *u, const trained *p, const char *name, uint32_t *id)
{
    char before[32] = "optimizer.";
    strncat(before, name, sizeof before - sizeof "optimizer." - 1);
    strncat(before, ".", sizeof before - strlen(before) - 1);
    return add_like(u, p->parameter, before, "", NEAP_KIND_STATE, NEAP_F32, id);
}

static neap_status add_states(updater *u, trained *p)
{
    const char *const *names;
    uint32_t count = neap_optimizer_moments(u->training->optimizer, &names);
    if (u->graph->values[p->parameter].dtype != NEAP_F32)
        NEAP_TRY(add_state(u, p, "master", &p->master));
    for (uint32_t i = 0; i < count; i++)
        NEAP_TRY(add_state(u, p, names[i], &p->moments[i]));
    if (u->training->accumulate > 1)
        NEAP_TRY(add_state(u, p, "sum", &p->sum));
    return NEAP_OK;
}

static neap_status add_small(updater *u, const char *name, const char *kind, neap_dtype dtype,
                             int64_t count, uint32_t *id)
{
    neap_value_desc desc;
    neap_value_desc_init(&desc);
    desc.name = name;
    desc.kind = kind;
    desc.dtype = dtype;
    desc.rank = 1;
    desc.shape = &count;
    desc.bytes = count * neap_dtype_bytes(dtype);
    return neap_graph_builder_add_value(u->builder, &desc, id, u->diag);
}

static const net_statistics *statistics_of(const updater *u, uint32_t op)
{
    return u->statistics ? u->statistics[op] : NULL;
}

/* The op before (or, with a step of 1, behind) that shares an op's statistics; NEAP_NONE: none. */
static uint32_t find_sharer(const updater *u, uint32_t op, uint32_t step)
{
    for (uint32_t o = op + step; o < u->graph->n_ops; o += step) /* below 0 it is large */
        if (statistics_of(u, o) == u->statistics[op])
            return o;
    return NEAP_NONE;
}

/* In f32, like the statistics of the batch. */
static neap_status add_kept(updater *u)
{
    if (!NEAP_TAKE(&u->arena, u->graph->n_ops, u->kept))
        return neap_fail_no_memory(u->diag);
    for (uint32_t o = 0; o < u->graph->n_ops; o++) {
        const net_statistics *s = statistics_of(u, o);
        if (!s)
            continue;
        uint32_t like = u->graph->ops[o].outputs[1], other = find_sharer(u, o, UINT32_MAX);
        if (other != NEAP_NONE) {
            u->kept[o] = u->kept[other];
            continue;
        }
        NEAP_TRY(add_named(u, like, s->mean, NEAP_KIND_STATE, NEAP_F32, &u->kept[o].mean));
        NEAP_TRY(add_named(u, like, s->variance, NEAP_KIND_STATE, NEAP_F32, &u->kept[o].variance));
    }
    return NEAP_OK;
}

static neap_status add_values(updater *u)
{
    for (uint32_t v = 0; v < u->graph->n_values; v++)
        NEAP_TRY(copy_value(u, v));
    NEAP_TRY(add_small(u, NEAP_STEP_INPUT, NEAP_KIND_INPUT, NEAP_F64, 3, &u->step));
    for (uint32_t i = 0; i < u->n_parameters; i++)
        NEAP_TRY(add_states(u, &u->parameters[i]));
    return add_kept(u);
}

/* ---- Ops ---- */

/* Whether the op that advances an op's statistics follows it: it is the last one that has them. */
static bool is_followed(const updater *u, uint32_t op)
{
    return statistics_of(u, op) && find_sharer(u, op, 1) == NEAP_NONE;
}

/* What the batch normalisations (x, gamma, beta -> y, mean, invstd) up to the last one keep. */
static neap_status list_batches(updater *u, uint32_t last, neap_op_desc *desc)
{
    uint32_t *inputs, n = 2;
    if (!NEAP_TAKE(&u->arena, 2 * (size_t)last + 4, inputs))
        return neap_fail_no_memory(u->diag);
    inputs[0] = u->kept[last].mean;
    inputs[1] = u->kept[last].variance;
    for (uint32_t o = 0; o <= last; o++)
        if (statistics_of(u, o) == u->statistics[last]) {
            inputs[n++] = u->graph->ops[o].outputs[1];
            inputs[n++] = u->graph->ops[o].outputs[2];
        }
    desc->n_inputs = n;
    desc->inputs = desc->updates = inputs;
    desc->n_updates = 2;
    return NEAP_OK;
}

static neap_status add_running(updater *u, uint32_t id)
{
    const neap_op *norm = &u->graph->ops[id];
    const net_statistics *s = u->statistics[id];
    neap_attr attrs[] = {ATTR_REAL("momentum", s->momentum), ATTR_REAL("epsilon", s->epsilon)};
    neap_op_desc desc;
    u->text.length = 0;
    neap_text_printf(&u->text, "%s.running", norm->name);
    if (u->text.status != NEAP_OK)
        return neap_fail_no_memory(u->diag);
    neap_op_desc_init(&desc);
    desc.name = u->text.text;
    desc.type = "running_stats";
    desc.pass = norm->pass;
    desc.inside_layer = norm->inside_layer;
    desc.n_attrs = 2;
    desc.attrs = attrs;
    NEAP_TRY(list_batches(u, id, &desc));
    return neap_graph_builder_add_op(u->builder, &desc, NULL, u->diag);
}

static neap_status copy_op(updater *u, uint32_t id)
{
    neap_op_desc desc;
    bool followed = is_followed(u, id);
    neap_op_describe(&u->graph->ops[id], &desc);
    desc.inside_layer = desc.inside_layer || followed;
    NEAP_TRY(neap_graph_builder_add_op(u->builder, &desc, NULL, u->diag));
    return followed ? add_running(u, id) : NEAP_OK;
}

static const char *op_name(updater *u, const trained *p, const char *suffix)
{
    u->text.length = 0;
    neap_text_printf(&u->text, "%s.%s", u->graph->values[p->parameter].name, suffix);
    return neap_text_get(&u->text);
}

/* The gradient of this micro-batch plus those before it. */
static neap_status add_total(updater *u, trained *p)
{
    const neap_value *gradient = &u->graph->values[p->gradient];
    neap_op_desc desc;
    if (p->sum == NEAP_NONE)
        return NEAP_OK;
    NEAP_TRY(add_like(u, p->parameter, "", ".grad_total", NEAP_KIND_GRADIENT, NEAP_F32, &p->total));
    uint32_t inputs[2] = {p->gradient, p->sum};
    neap_op_desc_init(&desc);
    desc.name = op_name(u, p, "accumulate");
    desc.type = "add";
    desc.pass = NEAP_BACKWARD;
    desc.n_inputs = 2;
    desc.inputs = inputs;
    desc.n_outputs = 1;
    desc.outputs = &p->total;
    if (gradient->producer != NEAP_NONE && gradient->view_of == NEAP_NONE &&
        gradient->dtype == NEAP_F32) {
        desc.in_place_input = p->gradient;
        desc.in_place_output = p->total;
    }
    return u->text.status == NEAP_OK ? neap_graph_builder_add_op(u->builder, &desc, NULL, u->diag)
                                     : neap_fail_no_memory(u->diag);
}

/* The scale reads every gradient, so that all of them stay until it is known. */
static neap_status add_clip(updater *u)
{
    neap_op_desc desc;
    uint32_t *totals;
    u->scale = NEAP_NONE;
    if (!(u->training->clip_norm > 0))
        return NEAP_OK;
    if (!NEAP_TAKE(&u->arena, u->n_parameters, totals))
        return neap_fail_no_memory(u->diag);
    for (uint32_t i = 0; i < u->n_parameters; i++)
        totals[i] = u->parameters[i].total;
    NEAP_TRY(add_small(u, "optimizer.scale", NEAP_KIND_GRADIENT, NEAP_F32, 1, &u->scale));
    neap_op_desc_init(&desc);
    desc.name = "optimizer.clip";
    desc.type = "clip_norm";
    desc.pass = NEAP_BACKWARD;
    desc.n_inputs = u->n_parameters;
    desc.inputs = totals;
    desc.n_outputs = 1;
    desc.outputs = &u->scale;
    desc.n_attrs = 1;
    desc.attrs = &ATTR_REAL("norm", u->training->clip_norm);
    return neap_graph_builder_add_op(u->builder, &desc, NULL, u->diag);
}

static uint32_t list_attrs(const updater *u, const trained *p, neap_attr *attrs)
{
    const neap_training *t = u->training;
    uint32_t n = 0;
    if (t->optimizer == NEAP_OPTIMIZER_MOMENTUM)
        attrs[n++] = ATTR_REAL("momentum", t->momentum);
    if (p->moments[1] != NEAP_NONE) {
        attrs[n++] = ATTR_REAL("beta1", t->beta1);
        attrs[n++] = ATTR_REAL("beta2", t->beta2);
        attrs[n++] = ATTR_REAL("epsilon", t->epsilon);
    }
    attrs[n++] = ATTR_REAL("weight_decay", t->weight_decay);
    attrs[n++] = ATTR_INT("clip", u->scale != NEAP_NONE);
    attrs[n++] = ATTR_INT("master", p->master != NEAP_NONE);
    attrs[n++] = ATTR_INT("accumulate", p->sum != NEAP_NONE ? t->accumulate : 0);
    return n;
}

static void list(uint32_t *ids, uint32_t *count, uint32_t id)
{
    if (id != NEAP_NONE)
        ids[(*count)++] = id;
}

static neap_status add_update(updater *u, const trained *p)
{
    uint32_t inputs[8], updates[8];
    neap_attr attrs[8];
    neap_op_desc desc;
    neap_op_desc_init(&desc);
    desc.name = op_name(u, p, "update");
    desc.type = neap_optimizer_name(u->training->optimizer);
    desc.pass = NEAP_BACKWARD;
    desc.inputs = inputs;
    list(inputs, &desc.n_inputs, p->parameter);
    list(inputs, &desc.n_inputs, p->total);
    list(inputs, &desc.n_inputs, u->step);
    list(inputs, &desc.n_inputs, p->moments[0]);
    list(inputs, &desc.n_inputs, p->moments[1]);
    list(inputs, &desc.n_inputs, u->scale);
    list(inputs, &desc.n_inputs, p->master);
    list(inputs, &desc.n_inputs, p->sum);
    desc.updates = updates;
    list(updates, &desc.n_updates, p->parameter);
    list(updates, &desc.n_updates, p->moments[0]);
    list(updates, &desc.n_updates, p->moments[1]);
    list(updates, &desc.n_updates, p->master);
    list(updates, &desc.n_updates, p->sum);
    desc.attrs = attrs;
    desc.n_attrs = list_attrs(u, p, attrs);
    return u->text.status == NEAP_OK ? neap_graph_builder_add_op(u->builder, &desc, NULL, u->diag)
                                     : neap_fail_no_memory(u->diag);
}

static neap_status add_ops(updater *u)
{
    bool clips = u->training->clip_norm > 0;
    for (uint32_t o = 0; o < u->graph->n_ops; o++)
        NEAP_TRY(copy_op(u, o));
    for (uint32_t i = 0; i < u->n_parameters && clips; i++)
        NEAP_TRY(add_total(u, &u->parameters[i]));
    NEAP_TRY(add_clip(u));
    for (uint32_t i = 0; i < u->n_parameters; i++) {
        if (!clips)
            NEAP_TRY(add_total(u, &u->parameters[i]));
        NEAP_TRY(add_update(u, &u->parameters[i]));
    }
    return NEAP_OK;
}

/* ---- The graph ---- */

static neap_status build(updater *u, neap_graph **result)
{
    const neap_graph *graph = u->graph;
    NEAP_TRY(list_parameters(u));
    NEAP_TRY(neap_graph_builder_create(graph->allocator, graph->name, &u->builder, u->diag));
    neap_graph_builder_set_fixed_bytes(u->builder, graph->fixed_bytes);
    NEAP_TRY(add_values(u));
    NEAP_TRY(add_ops(u));
    NEAP_TRY(neap_graph_builder_add_output(u->builder, graph->outputs[0], u->diag));
    return neap_graph_builder_finish(u->builder, result, u->diag);
}

static void count_op(neap_graph *graph, uint32_t o)
{
    neap_op_count count = neap_op_count_work(graph, o);
    graph->ops[o].flops = count.known ? count.flops : -1;
    graph->ops[o].bytes_moved = count.known ? count.bytes_moved : -1;
}

void neap_graph_count_ops(neap_graph *graph, uint32_t first)
{
    for (uint32_t o = first; o < graph->n_ops; o++)
        count_op(graph, o);
}

/* Copies keep their counts. */
static void count_new(const updater *u, neap_graph *result)
{
    uint32_t next = 0;
    for (uint32_t o = 0; o < u->graph->n_ops; o++, next++)
        if (is_followed(u, o))
            count_op(result, ++next);
    neap_graph_count_ops(result, next);
}

neap_status neap_graph_add_updates(const neap_graph *graph, const neap_training *training,
                                   neap_graph **result, neap_diag *diag)
{
    return neap_graph_add_all_updates(graph, training, NULL, result, diag);
}

neap_status neap_graph_add_all_updates(const neap_graph *graph, const neap_training *training,
                                       const net_statistics *const *statistics, neap_graph **result,
                                       neap_diag *diag)
{
    updater u = {.graph = graph, .training = training, .statistics = statistics, .diag = diag};
    *result = NULL;
    NEAP_TRY(neap_training_check(training, diag));
    if (training->optimizer == NEAP_OPTIMIZER_NONE)
        return neap_fail(diag, NEAP_INVALID, "without an optimizer there are no updates");
    if (graph->whole)
        return neap_fail(diag, NEAP_INVALID, "\"%s\" is split; add updates before", graph->name);
    neap_arena_init(&u.arena, graph->allocator);
    neap_text_init(&u.text, graph->allocator);
    neap_status status = build(&u, result);
    if (status == NEAP_OK && graph->extra) {
        (*result)->extra = neap_arena_text(&(*result)->arena, graph->extra, strlen(graph->extra));
        if (!(*result)->extra)
            status = neap_fail_no_memory(diag);
    }
    if (status == NEAP_OK) {
        count_new(&u, *result);
    } else {
        neap_graph_destroy(*result);
        *result = NULL;
    }
    neap_graph_builder_destroy(u.builder);
    neap_text_clear(&u.text);
    neap_arena_clear(&u.arena);
    return status;
}
