/* Large values in pieces (neap/split.h): a second graph beside the first, built op by op. */
#include <neap/split.h>

#include "base/fail.h"
#include "base/memory.h"
#include "graph/graph_internal.h"

#include <neap/text.h>

#include <inttypes.h>
#include <string.h>

typedef struct splitter {
    const neap_graph *whole;
    int64_t bytes;         /* of each piece but the last */
    neap_arena arena;      /* of what follows */
    uint32_t *n_pieces;    /* by storage of the whole graph */
    uint32_t *first;       /* by value of the whole graph, and one past the last */
    uint32_t *whole_value; /* by value of the new graph */
    uint32_t *whole_op;    /* by op of the new graph */
    uint32_t *inputs;      /* of the op that is added */
    uint32_t *outputs;
    uint32_t *updates;
    neap_graph_builder *builder;
    neap_text text;
    neap_diag *diag;
} splitter;

/* ---- Sizes ---- */

static uint32_t count_of(const splitter *s, uint32_t value)
{
    return s->n_pieces[s->whole->values[value].storage];
}

/* How many pieces each storage gets, and the ids of all pieces; false: there are too many. */
static bool count_pieces(splitter *s, uint32_t *n_values)
{
    const neap_graph *whole = s->whole;
    uint64_t next = 0, most = (uint64_t)whole->n_values + NEAP_MOST_PIECES;
    for (size_t i = 0; i < whole->n_outputs; i++)
        s->n_pieces[whole->values[whole->outputs[i]].storage] = 1;
    for (size_t v = 0; v < whole->n_values; v++) {
        const neap_value *value = &whole->values[v];
        bool stays = value->producer == NEAP_NONE || s->n_pieces[v] == 1; /* inputs, outputs */
        s->n_pieces[v] = 1;
        if (value->view_of != NEAP_NONE || stays || value->bytes <= s->bytes)
            continue;
        int64_t count = value->bytes / s->bytes + (value->bytes % s->bytes != 0);
        if (count > NEAP_MOST_PIECES)
            return false;
        s->n_pieces[v] = (uint32_t)count;
    }
    for (uint32_t v = 0; v < whole->n_values && next <= most; v++) {
        s->first[v] = (uint32_t)next;
        next += count_of(s, v);
    }
    s->first[whole->n_values] = *n_values = (uint32_t)next;
    return next <= most && next < NEAP_NONE;
}

/* ---- Values ---- */

/* "h[2]" */
static const char *piece_name(splitter *s, const char *name, uint32_t piece)
{
    s->text.length = 0;
    neap_text_printf(&s->text, "%s[%" PRIu32 "]", name, piece);
    return neap_text_get(&s->text);
}

/* What the file says about a piece, beside what it says about the value. */
static neap_status add_piece(splitter *s, uint32_t id, uint32_t piece)
{
    const neap_value *value = &s->whole->values[id];
    int64_t all = s->whole->values[value->storage].bytes, begin = s->bytes * piece;
    neap_text extra;
    neap_value_desc desc;
    neap_text_init(&extra, s->whole->allocator);
    neap_text_puts(&extra, "\"piece_of\":");
    neap_text_json_string(&extra, value->name);
    neap_text_printf(&extra, ",\"piece_begin\":%" PRId64, begin);
    if (value->extra)
        neap_text_printf(&extra, ",%s", value->extra);
    neap_value_desc_init(&desc);
    desc.name = piece_name(s, value->name, piece);
    desc.kind = value->kind;
    desc.extra = neap_text_get(&extra);
    if (value->view_of != NEAP_NONE)
        desc.view_of = s->first[value->view_of] + piece;
    else
        desc.bytes = all - begin < s->bytes ? all - begin : s->bytes;
    neap_status status = s->text.status == NEAP_OK && extra.status == NEAP_OK
                             ? neap_graph_builder_add_value(s->builder, &desc, NULL, s->diag)
                             : neap_fail_no_memory(s->diag);
    neap_text_clear(&extra);
    return status;
}

static neap_status add_value(splitter *s, uint32_t id)
{
    const neap_value *value = &s->whole->values[id];
    for (uint32_t i = 0; i < count_of(s, id); i++)
        s->whole_value[s->first[id] + i] = id;
    if (count_of(s, id) == 1)
        return neap_graph_builder_add_value(
            s->builder,
            &(neap_value_desc){.name = value->name,
                               .kind = value->kind,
                               .bytes = value->bytes,
                               .view_of = value->view_of == NEAP_NONE ? NEAP_NONE
                                                                      : s->first[value->view_of],
                               .state = value->state,
                               .dtype = value->dtype,
                               .rank = value->rank,
                               .shape = value->shape,
                               .extra = value->extra},
            NULL, s->diag);
    for (uint32_t i = 0; i < count_of(s, id); i++)
        NEAP_TRY(add_piece(s, id, i));
    return NEAP_OK;
}

/* ---- Ops ---- */

/*
 * Whether an op only makes views of one storage in pieces, in no time, from that storage and from
 * inputs: each piece then has its own view, so that it can come back from the host alone.
 */
static bool is_view_of_pieces(const splitter *s, const neap_op *op)
{
    const neap_value *values = s->whole->values;
    if (op->n_outputs == 0 || op->random || count_of(s, op->outputs[0]) == 1)
        return false;
    uint32_t storage = values[op->outputs[0]].storage;
    for (uint32_t k = 0; k < op->n_variants; k++)
        if (op->variants[k].ticks != 0 || op->variants[k].workspace != 0)
            return false;
    for (uint32_t i = 0; i < op->n_outputs; i++)
        if (values[op->outputs[i]].storage != storage || op->outputs[i] == storage)
            return false;
    for (uint32_t i = 0; i < op->n_inputs; i++) {
        uint32_t root = values[op->inputs[i]].storage;
        if (root != storage && values[root].producer != NEAP_NONE)
            return false;
    }
    return true;
}

/* The ids of one piece of each value (NEAP_NONE: of all pieces); returns how many. */
static uint32_t list_pieces(const splitter *s, const uint32_t *ids, uint32_t count, uint32_t piece,
                            uint32_t *list)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t pieces = count_of(s, ids[i]), first = s->first[ids[i]];
        if (piece != NEAP_NONE || pieces == 1)
            list[n++] = first + (pieces > 1 ? piece : 0);
        else
            for (uint32_t k = 0; k < pieces; k++)
                list[n++] = first + k;
    }
    return n;
}

static neap_status add_part_of_op(splitter *s, uint32_t id, uint32_t piece)
{
    const neap_op *op = &s->whole->ops[id];
    neap_op_desc desc;
    neap_op_describe(op, &desc);
    if (piece != NEAP_NONE)
        desc.name = piece_name(s, op->name, piece);
    desc.inputs = s->inputs;
    desc.outputs = s->outputs;
    desc.updates = s->updates;
    desc.inside_layer = false;
    desc.in_place_input = desc.in_place_output = NEAP_NONE;
    uint32_t new_id;
    if (s->text.status != NEAP_OK)
        return neap_fail_no_memory(s->diag);
    desc.n_inputs = list_pieces(s, op->inputs, op->n_inputs, piece, s->inputs);
    desc.n_outputs = list_pieces(s, op->outputs, op->n_outputs, piece, s->outputs);
    desc.n_updates = list_pieces(s, op->updates, op->n_updates, piece, s->updates);
    if (op->in_place_input != NEAP_NONE && count_of(s, op->in_place_input) == 1 &&
        count_of(s, op->in_place_output) == 1) {
        desc.in_place_input = s->first[op->in_place_input];
        desc.in_place_output = s->first[op->in_place_output];
    }
    NEAP_TRY(neap_graph_builder_add_op(s->builder, &desc, &new_id, s->diag));
    s->whole_op[new_id] = id;
    return NEAP_OK;
}

static neap_status add_op(splitter *s, uint32_t id)
{
    const neap_op *op = &s->whole->ops[id];
    if (!is_view_of_pieces(s, op))
        return add_part_of_op(s, id, NEAP_NONE);
    for (uint32_t i = 0; i < count_of(s, op->outputs[0]); i++)
        NEAP_TRY(add_part_of_op(s, id, i));
    return NEAP_OK;
}

/* ---- The graph ---- */

/* The most operands of an op, and the number of ops. */
static void measure_ops(const splitter *s, size_t *n_operands, size_t *n_ops)
{
    *n_operands = *n_ops = 0;
    for (size_t o = 0; o < s->whole->n_ops; o++) {
        const neap_op *op = &s->whole->ops[o];
        size_t n = 0;
        for (uint32_t i = 0; i < op->n_inputs; i++)
            n += count_of(s, op->inputs[i]);
        for (uint32_t i = 0; i < op->n_outputs; i++)
            n += count_of(s, op->outputs[i]);
        *n_operands = n > *n_operands ? n : *n_operands;
        *n_ops += is_view_of_pieces(s, op) ? count_of(s, op->outputs[0]) : 1;
    }
}

static neap_status build(splitter *s, neap_graph **graph)
{
    const neap_graph *whole = s->whole;
    s->text.length = 0;
    neap_text_printf(&s->text, "%s, split %" PRId64, whole->name, s->bytes);
    if (s->text.status != NEAP_OK)
        return neap_fail_no_memory(s->diag);
    NEAP_TRY(neap_graph_builder_create(whole->allocator, s->text.text, &s->builder, s->diag));
    neap_graph_builder_set_fixed_bytes(s->builder, whole->fixed_bytes);
    for (uint32_t v = 0; v < whole->n_values; v++)
        NEAP_TRY(add_value(s, v));
    for (uint32_t o = 0; o < whole->n_ops; o++)
        NEAP_TRY(add_op(s, o));
    for (size_t i = 0; i < whole->n_outputs; i++)
        NEAP_TRY(neap_graph_builder_add_output(s->builder, s->first[whole->outputs[i]], s->diag));
    return neap_graph_builder_finish(s->builder, graph, s->diag);
}

/* Links the new graph to the whole one, which it then owns. */
static neap_status adopt(const splitter *s, neap_graph *whole, neap_graph *split)
{
    neap_arena *arena = &split->arena;
    split->whole_value =
        neap_arena_copy(arena, s->whole_value, split->n_values, sizeof *split->whole_value);
    split->whole_op = neap_arena_copy(arena, s->whole_op, split->n_ops, sizeof *split->whole_op);
    split->first_piece =
        neap_arena_copy(arena, s->first, whole->n_values + 1, sizeof *split->first_piece);
    const char *extra =
        whole->extra ? neap_arena_text(arena, whole->extra, strlen(whole->extra)) : NULL;
    if (!split->whole_value || !split->whole_op || !split->first_piece || (whole->extra && !extra))
        return neap_fail_no_memory(s->diag);
    split->extra = extra;
    split->whole = whole;
    return NEAP_OK;
}

static neap_status split_into(splitter *s, neap_graph **graph)
{
    uint32_t n_values = 0;
    size_t n_operands, n_ops, n = s->whole->n_values;
    neap_graph *split = NULL;
    if (!NEAP_TAKE(&s->arena, n, s->n_pieces) || !NEAP_TAKE(&s->arena, n + 1, s->first))
        return neap_fail_no_memory(s->diag);
    if (!count_pieces(s, &n_values))
        return neap_fail(s->diag, NEAP_INVALID,
                         "pieces of %" PRId64 " bytes are too small for \"%s\": there would be "
                         "more than %d",
                         s->bytes, s->whole->name, NEAP_MOST_PIECES);
    if (n_values == n)
        return NEAP_OK;
    measure_ops(s, &n_operands, &n_ops);
    if (!NEAP_TAKE(&s->arena, n_values, s->whole_value) ||
        !NEAP_TAKE(&s->arena, n_ops, s->whole_op) || !NEAP_TAKE(&s->arena, n_operands, s->inputs) ||
        !NEAP_TAKE(&s->arena, n_operands, s->updates) ||
        !NEAP_TAKE(&s->arena, n_operands, s->outputs))
        return neap_fail_no_memory(s->diag);
    neap_status status = build(s, &split);
    if (status == NEAP_OK)
        status = adopt(s, *graph, split);
    if (status == NEAP_OK)
        *graph = split;
    else
        neap_graph_destroy(split);
    return status;
}

neap_status neap_graph_split(neap_graph **graph, int64_t bytes, neap_diag *diag)
{
    splitter s = {.whole = *graph, .bytes = bytes, .diag = diag};
    if (bytes < 1)
        return neap_fail(diag, NEAP_INVALID, "a piece has 1 byte or more, not %" PRId64, bytes);
    if ((*graph)->whole)
        return neap_fail(diag, NEAP_INVALID, "\"%s\" is split already", (*graph)->name);
    neap_arena_init(&s.arena, s.whole->allocator);
    neap_text_init(&s.text, s.whole->allocator);
    neap_status status = split_into(&s, graph);
    neap_graph_builder_destroy(s.builder);
    neap_text_clear(&s.text);
    neap_arena_clear(&s.arena);
    return status;
}

void neap_graph_join(neap_graph **graph)
{
    neap_graph *whole = (*graph)->whole;
    if (!whole)
        return;
    (*graph)->whole = NULL;
    neap_graph_destroy(*graph);
    *graph = whole;
}

const neap_graph *neap_graph_whole(const neap_graph *graph)
{
    return graph->whole ? graph->whole : graph;
}

uint32_t neap_graph_whole_op(const neap_graph *graph, uint32_t op)
{
    return graph->whole ? graph->whole_op[op] : op;
}

uint32_t neap_graph_whole_value(const neap_graph *graph, uint32_t value)
{
    return graph->whole ? graph->whole_value[value] : value;
}

uint32_t neap_graph_pieces(const neap_graph *graph, uint32_t whole_value, uint32_t *count)
{
    *count =
        graph->whole ? graph->first_piece[whole_value + 1] - graph->first_piece[whole_value] : 1;
    return graph->whole ? graph->first_piece[whole_value] : whole_value;
}
