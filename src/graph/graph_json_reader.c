/* Graph files in (docs/formats.md). Fields neap does not know are kept as they are. */
#include "base/fail.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/utf8.h"
#include "graph/graph_internal.h"

/* A growing list that is reused for every op. */
typedef struct id_list {
    uint32_t *ids;
    size_t count, capacity;
} id_list;

typedef struct graph_reader {
    json_reader json;
    neap_allocator *allocator;
    neap_graph_builder *builder;
    /* The current value or op, its texts copied: the reader's strings do not last. */
    neap_arena texts;
    neap_text extra;
    id_list inputs, outputs, updates, pair;
    int64_t *shape;
    size_t shape_capacity;
    neap_variant *variants;
    size_t variant_capacity;
    neap_attr *attrs;
    size_t attr_capacity;
} graph_reader;

static const char *keep_in(graph_reader *g, neap_arena *arena, json_string text)
{
    const char *copy = neap_arena_text(arena, text.text, text.length);
    if (!copy && g->json.status == NEAP_OK)
        g->json.status = neap_fail_no_memory(g->json.diag);
    return copy;
}

static const char *keep_text(graph_reader *g, json_string text)
{
    return keep_in(g, &g->texts, text);
}

static bool reserve(graph_reader *g, size_t needed, size_t item_size, void *array, size_t *capacity)
{
    if (neap_json_ok(&g->json))
        g->json.status =
            neap_reserve(g->allocator, needed, item_size, array, capacity, g->json.diag);
    return neap_json_ok(&g->json);
}

/* A value as it stands in the file, but for characters that are written \uXXXX: past ASCII they are
 * parts of strings. */
static void append_raw(neap_text *out, json_string raw)
{
    const char *at = raw.text, *end = raw.text + raw.length;
    for (size_t length; at < end; at += length) {
        neap_character c = neap_utf8_next(at);
        length = c.length;
        if (c.shown == at || c.code < 0x20)
            neap_text_append(out, at, length);
        else
            neap_text_printf(out, "\\u%04lx", (unsigned long)c.code);
    }
}

/* Appends a field to the current extra text. */
static void keep_named_field(graph_reader *g, const char *name)
{
    json_string raw;
    neap_json_skip(&g->json, &raw);
    if (!neap_json_ok(&g->json))
        return;
    if (g->extra.length)
        neap_text_putc(&g->extra, ',');
    neap_text_json_string(&g->extra, name);
    neap_text_putc(&g->extra, ':');
    append_raw(&g->extra, raw);
    if (g->extra.status != NEAP_OK)
        g->json.status = neap_fail_no_memory(g->json.diag);
}

/* The same for an unknown field; its key does not outlast the reading of its value. */
static void keep_field(graph_reader *g, json_string key)
{
    const char *name = keep_text(g, key);
    if (name)
        keep_named_field(g, name);
}

static void read_ids(graph_reader *g, id_list *list)
{
    list->count = 0;
    neap_json_begin_array(&g->json);
    while (neap_json_next_item(&g->json)) {
        uint32_t id = neap_json_u32(&g->json, NEAP_NONE - 1);
        if (!reserve(g, list->count + 1, sizeof id, &list->ids, &list->capacity))
            return;
        list->ids[list->count++] = id;
    }
}

static void read_shape(graph_reader *g, neap_value_desc *value)
{
    neap_json_begin_array(&g->json);
    value->rank = 0;
    while (neap_json_next_item(&g->json)) {
        int64_t extent = neap_json_i64(&g->json);
        if (!reserve(g, value->rank + 1, sizeof extent, &g->shape, &g->shape_capacity))
            return;
        g->shape[value->rank++] = extent;
    }
    value->shape = g->shape;
}

/* A type of ours; any other word is kept as an unknown field. */
static void read_dtype(graph_reader *g, neap_value_desc *value)
{
    const char *before = g->json.at;
    const char *name = keep_text(g, neap_json_text(&g->json));
    value->dtype = name ? neap_dtype_from_name(name) : NEAP_DTYPE_UNKNOWN;
    if (value->dtype == NEAP_DTYPE_UNKNOWN && neap_json_ok(&g->json)) {
        g->json.at = before;
        keep_named_field(g, "dtype");
    }
}

static void begin_item(graph_reader *g)
{
    neap_arena_clear(&g->texts);
    g->extra.length = 0;
    neap_json_begin_object(&g->json);
}

static void require(graph_reader *g, uint32_t seen, uint32_t bit, const char *what, size_t id,
                    const char *field)
{
    if (!(seen & bit))
        neap_json_fail(&g->json, "%s %zu has no \"%s\"", what, id, field);
}

static void read_value(graph_reader *g, size_t id)
{
    enum { NAME = 1, BYTES = 2, KIND = 4, VIEW = 8, DTYPE = 16, SHAPE = 32, STATE = 64 };
    json_reader *r = &g->json;
    json_string key;
    uint32_t seen = 0;
    neap_value_desc value;
    neap_value_desc_init(&value);
    begin_item(g);
    while (neap_json_next_key(r, &key)) {
        if (neap_json_key_is(key, "name")) {
            neap_json_once(r, &seen, NAME, "name");
            value.name = keep_text(g, neap_json_text(r));
        } else if (neap_json_key_is(key, "bytes")) {
            neap_json_once(r, &seen, BYTES, "bytes");
            value.bytes = neap_json_i64(r);
        } else if (neap_json_key_is(key, "kind")) {
            neap_json_once(r, &seen, KIND, "kind");
            value.kind = keep_text(g, neap_json_text(r));
        } else if (neap_json_key_is(key, "view_of")) {
            neap_json_once(r, &seen, VIEW, "view_of");
            if (neap_json_peek_null(r))
                neap_json_skip(r, NULL);
            else
                value.view_of = neap_json_u32(r, NEAP_NONE - 1);
        } else if (neap_json_key_is(key, "state")) {
            neap_json_once(r, &seen, STATE, "state");
            value.state = neap_json_bool(r);
        } else if (neap_json_key_is(key, "dtype")) {
            neap_json_once(r, &seen, DTYPE, "dtype");
            read_dtype(g, &value);
        } else if (neap_json_key_is(key, "shape")) {
            neap_json_once(r, &seen, SHAPE, "shape");
            read_shape(g, &value);
        } else {
            keep_field(g, key);
        }
    }
    require(g, seen, BYTES, "value", id, "bytes");
    value.extra = g->extra.length ? g->extra.text : NULL;
    if (neap_json_ok(r))
        r->status = neap_graph_builder_add_value(g->builder, &value, NULL, r->diag);
}

static neap_variant read_variant(graph_reader *g)
{
    enum { TIME = 1, WORKSPACE = 2, KERNEL = 4 };
    json_reader *r = &g->json;
    json_string key;
    uint32_t seen = 0;
    neap_variant variant = {.seconds = 0};
    neap_json_begin_object(r);
    while (neap_json_next_key(r, &key)) {
        if (neap_json_key_is(key, "time")) {
            neap_json_once(r, &seen, TIME, "time");
            variant.seconds = neap_json_double(r);
        } else if (neap_json_key_is(key, "workspace")) {
            neap_json_once(r, &seen, WORKSPACE, "workspace");
            variant.workspace = neap_json_i64(r);
        } else if (neap_json_key_is(key, "kernel")) {
            neap_json_once(r, &seen, KERNEL, "kernel");
            variant.kernel = neap_json_u32(r, UINT32_MAX - 1);
        } else {
            neap_json_skip(r, NULL);
        }
    }
    if (!(seen & TIME))
        neap_json_fail(r, "a variant has no \"time\"");
    return variant;
}

static void read_variants(graph_reader *g, neap_op_desc *op)
{
    neap_json_begin_array(&g->json);
    op->lists_variants = true;
    op->n_variants = 0;
    while (neap_json_next_item(&g->json)) {
        neap_variant variant = read_variant(g);
        if (!reserve(g, op->n_variants + 1, sizeof variant, &g->variants, &g->variant_capacity))
            return;
        g->variants[op->n_variants++] = variant;
    }
    if (neap_json_ok(&g->json) && op->n_variants == 0)
        neap_json_fail(&g->json, "\"variants\" may not be empty: variant 0 is the op itself");
}

static void read_attrs(graph_reader *g, neap_op_desc *op)
{
    json_reader *r = &g->json;
    json_string key;
    neap_json_begin_object(r);
    op->n_attrs = 0;
    while (neap_json_next_key(r, &key)) {
        neap_attr attr = {.name = keep_text(g, key)};
        attr.is_real = neap_json_peek_real(r);
        if (attr.is_real)
            attr.real = neap_json_double(r);
        else
            attr.integer = neap_json_i64(r);
        if (!reserve(g, op->n_attrs + 1, sizeof attr, &g->attrs, &g->attr_capacity))
            return;
        g->attrs[op->n_attrs++] = attr;
    }
    op->attrs = g->attrs;
}

static neap_pass read_pass(json_reader *r)
{
    json_string pass = neap_json_text(r);
    if (neap_json_key_is(pass, "backward"))
        return NEAP_BACKWARD;
    if (neap_json_ok(r) && !neap_json_key_is(pass, "forward"))
        neap_json_fail(r, "\"pass\" must be \"forward\" or \"backward\"");
    return NEAP_FORWARD;
}

static void read_in_place(graph_reader *g, neap_op_desc *op)
{
    read_ids(g, &g->pair);
    if (!neap_json_ok(&g->json))
        return;
    if (g->pair.count != 2) {
        neap_json_fail(&g->json, "\"in_place\" takes two value ids: [input, output]");
        return;
    }
    op->in_place_input = g->pair.ids[0];
    op->in_place_output = g->pair.ids[1];
}

enum op_field {
    OP_NAME = 1,
    OP_TYPE = 2,
    OP_PASS = 4,
    OP_INPUTS = 8,
    OP_OUTPUTS = 16,
    OP_TIME = 32,
    OP_WORKSPACE = 64,
    OP_VARIANTS = 128,
    OP_RANDOM = 256,
    OP_IN_PLACE = 512,
    OP_FLOPS = 1024,
    OP_MOVED = 2048,
    OP_ATTRS = 4096,
    OP_INSIDE_LAYER = 8192,
    OP_UPDATES = 16384
};

static const struct {
    const char *name;
    enum op_field bit;
} op_fields[] = {
    {"name", OP_NAME},           {"type", OP_TYPE},
    {"pass", OP_PASS},           {"inputs", OP_INPUTS},
    {"outputs", OP_OUTPUTS},     {"time", OP_TIME},
    {"workspace", OP_WORKSPACE}, {"variants", OP_VARIANTS},
    {"random", OP_RANDOM},       {"in_place", OP_IN_PLACE},
    {"flops", OP_FLOPS},         {"bytes_moved", OP_MOVED},
    {"attrs", OP_ATTRS},         {"inside_layer", OP_INSIDE_LAYER},
    {"updates", OP_UPDATES},
};

static void read_op_field(graph_reader *g, enum op_field field, neap_op_desc *op, neap_variant *own)
{
    json_reader *r = &g->json;
    switch (field) {
    case OP_NAME:
        op->name = keep_text(g, neap_json_text(r));
        break;
    case OP_TYPE:
        op->type = keep_text(g, neap_json_text(r));
        break;
    case OP_PASS:
        op->pass = read_pass(r);
        break;
    case OP_INPUTS:
        read_ids(g, &g->inputs);
        break;
    case OP_OUTPUTS:
        read_ids(g, &g->outputs);
        break;
    case OP_UPDATES:
        read_ids(g, &g->updates);
        break;
    case OP_TIME:
        own->seconds = neap_json_double(r);
        break;
    case OP_WORKSPACE:
        own->workspace = neap_json_i64(r);
        break;
    case OP_VARIANTS:
        read_variants(g, op);
        break;
    case OP_RANDOM:
        op->random = neap_json_bool(r);
        break;
    case OP_INSIDE_LAYER:
        op->inside_layer = neap_json_bool(r);
        break;
    case OP_IN_PLACE:
        read_in_place(g, op);
        break;
    case OP_FLOPS:
        op->flops = neap_json_i64(r);
        break;
    case OP_MOVED:
        op->bytes_moved = neap_json_i64(r);
        break;
    case OP_ATTRS:
        read_attrs(g, op);
        break;
    }
}

/* The op's own time and workspace are those of variant 0. */
static void settle_variants(graph_reader *g, size_t id, neap_op_desc *op, const neap_variant *own)
{
    if (!op->lists_variants) {
        if (!reserve(g, 1, sizeof *own, &g->variants, &g->variant_capacity))
            return;
        g->variants[0] = *own;
        op->n_variants = 1;
    } else if (g->variants[0].seconds != own->seconds ||
               g->variants[0].workspace != own->workspace) {
        neap_json_fail(&g->json, "op %zu: variant 0 must have the op's own time and workspace", id);
    }
    op->variants = g->variants;
}

static void read_op(graph_reader *g, size_t id)
{
    json_reader *r = &g->json;
    json_string key;
    uint32_t seen = 0;
    neap_op_desc op;
    neap_variant own = {.seconds = 0};
    neap_op_desc_init(&op);
    g->inputs.count = g->outputs.count = g->updates.count = 0;
    begin_item(g);
    while (neap_json_next_key(r, &key)) {
        size_t f = 0, n_fields = sizeof op_fields / sizeof *op_fields;
        while (f < n_fields && !neap_json_key_is(key, op_fields[f].name))
            f++;
        if (f == n_fields) {
            keep_field(g, key);
        } else {
            neap_json_once(r, &seen, op_fields[f].bit, op_fields[f].name);
            read_op_field(g, op_fields[f].bit, &op, &own);
        }
    }
    require(g, seen, OP_INPUTS, "op", id, "inputs");
    require(g, seen, OP_OUTPUTS, "op", id, "outputs");
    require(g, seen, OP_TIME, "op", id, "time");
    if (!neap_json_ok(r))
        return;
    settle_variants(g, id, &op, &own);
    op.inputs = g->inputs.ids;
    op.n_inputs = (uint32_t)g->inputs.count;
    op.outputs = g->outputs.ids;
    op.n_outputs = (uint32_t)g->outputs.count;
    op.updates = g->updates.ids;
    op.n_updates = (uint32_t)g->updates.count;
    op.extra = g->extra.length ? g->extra.text : NULL;
    if (neap_json_ok(r))
        r->status = neap_graph_builder_add_op(g->builder, &op, NULL, r->diag);
}

static void read_outputs(graph_reader *g)
{
    read_ids(g, &g->outputs);
    for (size_t i = 0; i < g->outputs.count && neap_json_ok(&g->json); i++)
        g->json.status = neap_graph_builder_add_output(g->builder, g->outputs.ids[i], g->json.diag);
}

static void read_graph(graph_reader *g)
{
    enum { NAME = 1, FIXED = 2, VALUES = 4, OPS = 8, OUTPUTS = 16, MEASURED = 32 };
    json_reader *r = &g->json;
    neap_graph *graph = g->builder->graph;
    json_string key;
    uint32_t seen = 0;
    neap_text extra; /* of the graph itself: g->extra is used by the values and ops in between */
    neap_text_init(&extra, g->allocator);
    neap_json_begin_object(r);
    while (neap_json_next_key(r, &key)) {
        if (neap_json_read_header(r, key, "graph", &seen)) {
            continue;
        } else if (neap_json_key_is(key, "name")) {
            neap_json_once(r, &seen, NAME, "name");
            graph->name = keep_in(g, &graph->arena, neap_json_text(r));
        } else if (neap_json_key_is(key, "measured_on")) {
            neap_json_once(r, &seen, MEASURED, "measured_on");
            graph->measured_on = keep_in(g, &graph->arena, neap_json_text(r));
        } else if (neap_json_key_is(key, "fixed_bytes")) {
            neap_json_once(r, &seen, FIXED, "fixed_bytes");
            graph->fixed_bytes = neap_json_i64(r);
        } else if (neap_json_key_is(key, "values")) {
            neap_json_once(r, &seen, VALUES, "values");
            neap_json_begin_array(r);
            for (size_t id = 0; neap_json_next_item(r); id++)
                read_value(g, id);
        } else if (neap_json_key_is(key, "ops")) {
            neap_json_once(r, &seen, OPS, "ops");
            neap_json_begin_array(r);
            for (size_t id = 0; neap_json_next_item(r); id++)
                read_op(g, id);
        } else if (neap_json_key_is(key, "outputs")) {
            neap_json_once(r, &seen, OUTPUTS, "outputs");
            read_outputs(g);
        } else {
            g->extra.length = 0;
            keep_field(g, key);
            if (extra.length)
                neap_text_putc(&extra, ',');
            neap_text_append(&extra, g->extra.text ? g->extra.text : "", g->extra.length);
        }
    }
    neap_json_require_header(r, "graph", seen);
    if (!(seen & VALUES) || !(seen & OPS) || !(seen & OUTPUTS))
        neap_json_fail(r, "the graph has no \"%s\"",
                       !(seen & VALUES) ? "values"
                       : !(seen & OPS)  ? "ops"
                                        : "outputs");
    neap_json_end(r);
    if (neap_json_ok(r) && extra.length)
        graph->extra = neap_arena_text(&graph->arena, extra.text, extra.length);
    if (neap_json_ok(r) && (extra.status != NEAP_OK || (extra.length && !graph->extra)))
        r->status = neap_fail_no_memory(r->diag);
    neap_text_clear(&extra);
}

static void clear_reader(graph_reader *g)
{
    neap_graph_builder_destroy(g->builder);
    neap_json_clear(&g->json);
    neap_arena_clear(&g->texts);
    neap_text_clear(&g->extra);
    NEAP_DELETE(g->allocator, g->inputs.capacity, g->inputs.ids);
    NEAP_DELETE(g->allocator, g->outputs.capacity, g->outputs.ids);
    NEAP_DELETE(g->allocator, g->updates.capacity, g->updates.ids);
    NEAP_DELETE(g->allocator, g->pair.capacity, g->pair.ids);
    NEAP_DELETE(g->allocator, g->shape_capacity, g->shape);
    NEAP_DELETE(g->allocator, g->variant_capacity, g->variants);
    NEAP_DELETE(g->allocator, g->attr_capacity, g->attrs);
}

/* Reads the graph from g->json, and releases the reader. */
static neap_status take_graph(graph_reader *g, neap_allocator *allocator, neap_graph **graph)
{
    json_reader *r = &g->json;
    *graph = NULL;
    g->allocator = neap_allocator_or_system(allocator);
    neap_arena_init(&g->texts, allocator);
    neap_text_init(&g->extra, allocator);
    if (neap_json_ok(r))
        r->status = neap_graph_builder_create(allocator, "graph", &g->builder, r->diag);
    if (neap_json_ok(r))
        read_graph(g);
    neap_diag reason;
    if (neap_json_ok(r)) {
        r->status = neap_graph_builder_finish(g->builder, graph, &reason);
        if (!neap_json_ok(r))
            neap_fail(r->diag, r->status, "%s: %s", r->source, reason.message);
    }
    neap_status status = r->status;
    clear_reader(g);
    return status;
}

neap_status neap_graph_read_text(neap_allocator *allocator, const char *text, size_t length,
                                 const char *source, neap_graph **graph, neap_diag *diag)
{
    graph_reader g = {0};
    neap_json_init(&g.json, allocator, source, text, length, diag);
    return take_graph(&g, allocator, graph);
}

neap_status neap_graph_read_file(neap_allocator *allocator, const char *path, neap_graph **graph,
                                 neap_diag *diag)
{
    graph_reader g = {0};
    neap_json_open(&g.json, allocator, path, diag);
    return take_graph(&g, allocator, graph);
}
