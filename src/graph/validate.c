/* The rules of docs/formats.md, each with a message that names the place. */
#include "base/checked.h"
#include "base/fail.h"
#include "base/memory.h"
#include "graph/graph_internal.h"

#include <neap/text.h>

#include <inttypes.h>
#include <math.h>
#include <string.h>

typedef struct validator {
    const neap_graph *graph;
    uint32_t *producer; /* per value: its op, or NEAP_NONE */
    neap_diag *diag;
} validator;

#define VALUE_FORMAT      "value %zu \"%s\""
#define VALUE_ARGS(v, id) (size_t)(id), (v)->graph->values[id].name
#define OP_FORMAT         "op %zu \"%s\""
#define OP_ARGS(v, id)    (size_t)(id), (v)->graph->ops[id].name

static neap_status check_shape(const validator *v, size_t id)
{
    const neap_value *value = &v->graph->values[id];
    int64_t size = neap_dtype_bytes(value->dtype);
    if (size == 0)
        size = 1;
    for (uint32_t d = 0; d < value->rank; d++) {
        if (value->shape[d] < 0)
            return neap_fail(v->diag, NEAP_INVALID,
                             VALUE_FORMAT ": shape has a negative extent %" PRId64,
                             VALUE_ARGS(v, id), value->shape[d]);
        if (!neap_mul_i64(size, value->shape[d], &size))
            return neap_fail(v->diag, NEAP_INVALID, VALUE_FORMAT ": its shape overflows 63 bits",
                             VALUE_ARGS(v, id));
    }
    return NEAP_OK;
}

static neap_status check_values(const validator *v)
{
    const neap_graph *graph = v->graph;
    int64_t total = graph->fixed_bytes;
    if (total < 0)
        return neap_fail(v->diag, NEAP_INVALID, "fixed_bytes is negative: %" PRId64, total);
    for (size_t id = 0; id < graph->n_values; id++) {
        const neap_value *value = &graph->values[id];
        if (value->bytes < 0)
            return neap_fail(v->diag, NEAP_INVALID, VALUE_FORMAT ": bytes is negative: %" PRId64,
                             VALUE_ARGS(v, id), value->bytes);
        if (!neap_add_i64(total, value->bytes, &total))
            return neap_fail(v->diag, NEAP_INVALID,
                             VALUE_FORMAT ": the sum of all sizes overflows 63 bits here",
                             VALUE_ARGS(v, id));
        neap_status status = check_shape(v, id);
        if (status != NEAP_OK)
            return status;
        if (value->view_of == NEAP_NONE)
            continue;
        if (value->view_of >= graph->n_values)
            return neap_fail(v->diag, NEAP_INVALID,
                             VALUE_FORMAT ": view_of names value %" PRIu32
                                          ", but there are %zu values",
                             VALUE_ARGS(v, id), value->view_of, graph->n_values);
        if (value->bytes != 0)
            return neap_fail(v->diag, NEAP_INVALID,
                             VALUE_FORMAT ": a view owns no storage, its bytes must be 0, not "
                                          "%" PRId64,
                             VALUE_ARGS(v, id), value->bytes);
    }
    for (size_t o = 0; o < graph->n_ops; o++)
        for (uint32_t k = 0; k < graph->ops[o].n_variants; k++) {
            int64_t workspace = graph->ops[o].variants[k].workspace, sum;
            if (workspace >= 0 && !neap_add_i64(total, workspace, &sum))
                return neap_fail(v->diag, NEAP_INVALID,
                                 OP_FORMAT ": its workspace and all values together overflow 63 "
                                           "bits",
                                 OP_ARGS(v, o));
        }
    return NEAP_OK;
}

static neap_status check_view_cycles(const validator *v)
{
    /* Brent's walk would do; with ids in hand, counting the steps of each chain is simpler. */
    const neap_graph *graph = v->graph;
    uint8_t *done; /* per value: 1 known to end, 2 on the chain being followed */
    neap_status status = NEAP_NEW(graph->allocator, graph->n_values, &done, v->diag);
    if (status != NEAP_OK)
        return status;
    for (uint32_t id = 0; id < graph->n_values && status == NEAP_OK; id++) {
        uint32_t at = id;
        while (at != NEAP_NONE && done[at] == 0) {
            done[at] = 2;
            at = graph->values[at].view_of;
        }
        if (at != NEAP_NONE && done[at] == 2)
            status =
                neap_fail(v->diag, NEAP_INVALID,
                          VALUE_FORMAT ": is a view of itself, through view_of", VALUE_ARGS(v, at));
        for (at = id; at != NEAP_NONE && done[at] == 2; at = graph->values[at].view_of)
            done[at] = 1;
    }
    NEAP_DELETE(graph->allocator, graph->n_values, done);
    return status;
}

static neap_status check_ids(const validator *v, size_t op, const char *what, const uint32_t *ids,
                             uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (ids[i] >= v->graph->n_values)
            return neap_fail(v->diag, NEAP_INVALID,
                             OP_FORMAT ": %s %" PRIu32 " is value %" PRIu32
                                       ", but there are %zu values",
                             OP_ARGS(v, op), what, i, ids[i], v->graph->n_values);
    return NEAP_OK;
}

static neap_status check_variants(const validator *v, size_t id)
{
    const neap_op *op = &v->graph->ops[id];
    for (uint32_t k = 0; k < op->n_variants; k++) {
        double seconds = op->variants[k].seconds;
        if (!isfinite(seconds) || seconds < 0)
            return neap_fail(v->diag, NEAP_INVALID,
                             OP_FORMAT ": the time of variant %" PRIu32
                                       " must be finite and 0 or more, not %g",
                             OP_ARGS(v, id), k, seconds);
        if (op->variants[k].workspace < 0)
            return neap_fail(v->diag, NEAP_INVALID,
                             OP_FORMAT ": the workspace of variant %" PRIu32
                                       " is negative: %" PRId64,
                             OP_ARGS(v, id), k, op->variants[k].workspace);
    }
    return NEAP_OK;
}

static bool lists(const uint32_t *ids, uint32_t count, uint32_t id)
{
    for (uint32_t i = 0; i < count; i++)
        if (ids[i] == id)
            return true;
    return false;
}

static neap_status check_in_place(const validator *v, size_t id)
{
    const neap_op *op = &v->graph->ops[id];
    if (op->in_place_input == NEAP_NONE && op->in_place_output == NEAP_NONE)
        return NEAP_OK;
    if (!lists(op->inputs, op->n_inputs, op->in_place_input) ||
        !lists(op->outputs, op->n_outputs, op->in_place_output))
        return neap_fail(v->diag, NEAP_INVALID,
                         OP_FORMAT ": in_place must name one of its inputs and one of its outputs, "
                                   "as value ids",
                         OP_ARGS(v, id));
    return NEAP_OK;
}

static neap_status find_producers(const validator *v)
{
    const neap_graph *graph = v->graph;
    for (size_t i = 0; i < graph->n_values; i++)
        v->producer[i] = NEAP_NONE;
    for (uint32_t o = 0; o < graph->n_ops; o++) {
        const neap_op *op = &graph->ops[o];
        neap_status status = check_ids(v, o, "input", op->inputs, op->n_inputs);
        if (status == NEAP_OK)
            status = check_ids(v, o, "output", op->outputs, op->n_outputs);
        if (status == NEAP_OK)
            status = check_variants(v, o);
        if (status == NEAP_OK)
            status = check_in_place(v, o);
        if (status != NEAP_OK)
            return status;
        for (uint32_t i = 0; i < op->n_outputs; i++) {
            uint32_t out = op->outputs[i];
            if (v->producer[out] == o)
                return neap_fail(v->diag, NEAP_INVALID,
                                 OP_FORMAT ": lists its output " VALUE_FORMAT " twice",
                                 OP_ARGS(v, o), VALUE_ARGS(v, out));
            if (v->producer[out] != NEAP_NONE)
                return neap_fail(v->diag, NEAP_INVALID,
                                 VALUE_FORMAT ": has two producers, " OP_FORMAT " and " OP_FORMAT,
                                 VALUE_ARGS(v, out), OP_ARGS(v, v->producer[out]), OP_ARGS(v, o));
            if (strcmp(graph->values[out].kind, NEAP_KIND_INPUT) == 0 ||
                strcmp(graph->values[out].kind, NEAP_KIND_PARAMETER) == 0)
                return neap_fail(v->diag, NEAP_INVALID,
                                 VALUE_FORMAT ": is of kind \"%s\", but " OP_FORMAT " produces it",
                                 VALUE_ARGS(v, out), graph->values[out].kind, OP_ARGS(v, o));
            v->producer[out] = o;
        }
    }
    return NEAP_OK;
}

/*
 * Op `reader` reads what the later op `writer` produces. If `writer` needs `reader` in turn, that
 * is a cycle and is written out; otherwise the order is wrong. Depth-first search from `writer`
 * back to its inputs' producers.
 */
static neap_status fail_order(const validator *v, uint32_t reader, uint32_t writer, uint32_t value)
{
    const neap_graph *graph = v->graph;
    uint32_t *needed_by, *stack; /* per op: the op that led to it, plus one */
    size_t depth = 0;
    neap_text path;
    neap_text_init(&path, graph->allocator);
    neap_status status = NEAP_NEW(graph->allocator, graph->n_ops, &needed_by, v->diag);
    neap_status other = NEAP_NEW(graph->allocator, graph->n_ops, &stack, v->diag);
    if (status != NEAP_OK || other != NEAP_OK) {
        status = NEAP_NO_MEMORY;
        goto done;
    }
    needed_by[writer] = writer + 1;
    stack[depth++] = writer;
    while (depth > 0 && needed_by[reader] == 0) {
        uint32_t at = stack[--depth];
        for (uint32_t i = 0; i < graph->ops[at].n_inputs; i++) {
            uint32_t from = v->producer[graph->ops[at].inputs[i]];
            if (from != NEAP_NONE && needed_by[from] == 0) {
                needed_by[from] = at + 1;
                stack[depth++] = from;
            }
        }
    }
    if (needed_by[reader] == 0) {
        status = neap_fail(v->diag, NEAP_INVALID,
                           OP_FORMAT ": reads " VALUE_FORMAT ", which " OP_FORMAT
                                     " produces later; ops must be listed in execution order",
                           OP_ARGS(v, reader), VALUE_ARGS(v, value), OP_ARGS(v, writer));
        goto done;
    }
    int written = 0;
    for (uint32_t at = reader; written < 8; at = needed_by[at] - 1, written++) {
        neap_text_printf(&path, "\"%s\" -> ", graph->ops[at].name);
        if (at == writer)
            break;
    }
    neap_text_printf(&path, "%s\"%s\"", written == 8 ? "... -> " : "", graph->ops[reader].name);
    status = path.status == NEAP_OK
                 ? neap_fail(v->diag, NEAP_INVALID, OP_FORMAT ": is part of a cycle: %s",
                             OP_ARGS(v, reader), path.text)
                 : neap_fail_no_memory(v->diag);
done:
    neap_text_clear(&path);
    NEAP_DELETE(graph->allocator, graph->n_ops, needed_by);
    NEAP_DELETE(graph->allocator, graph->n_ops, stack);
    return status;
}

static neap_status check_order(const validator *v)
{
    for (uint32_t o = 0; o < v->graph->n_ops; o++) {
        const neap_op *op = &v->graph->ops[o];
        for (uint32_t i = 0; i < op->n_inputs; i++) {
            uint32_t writer = v->producer[op->inputs[i]];
            if (writer != NEAP_NONE && writer >= o)
                return fail_order(v, o, writer, op->inputs[i]);
        }
    }
    return NEAP_OK;
}

/* A view of an input may be an input; any other must be made by an op that has its storage at hand.
 */
static neap_status check_input_views(const validator *v)
{
    const neap_graph *graph = v->graph;
    for (uint32_t id = 0; id < graph->n_values; id++) {
        uint32_t root = graph->values[id].storage;
        if (v->producer[id] == NEAP_NONE && v->producer[root] != NEAP_NONE)
            return neap_fail(v->diag, NEAP_INVALID,
                             VALUE_FORMAT ": no op produces it, so it must be a view of an input, "
                                          "not of " VALUE_FORMAT,
                             VALUE_ARGS(v, id), VALUE_ARGS(v, root));
    }
    return NEAP_OK;
}

static neap_status check_views(const validator *v)
{
    const neap_graph *graph = v->graph;
    uint32_t *touched; /* per storage: one past the last op that reads or produces it */
    neap_status status = check_input_views(v);
    if (status != NEAP_OK)
        return status;
    status = NEAP_NEW(graph->allocator, graph->n_values, &touched, v->diag);
    for (uint32_t o = 0; o < graph->n_ops && status == NEAP_OK; o++) {
        const neap_op *op = &graph->ops[o];
        for (uint32_t i = 0; i < op->n_inputs; i++)
            touched[graph->values[op->inputs[i]].storage] = o + 1;
        for (uint32_t i = 0; i < op->n_outputs; i++)
            if (graph->values[op->outputs[i]].view_of == NEAP_NONE)
                touched[op->outputs[i]] = o + 1;
        for (uint32_t i = 0; i < op->n_outputs && status == NEAP_OK; i++) {
            uint32_t id = op->outputs[i], root = graph->values[id].storage;
            if (touched[root] != o + 1)
                status = neap_fail(v->diag, NEAP_INVALID,
                                   VALUE_FORMAT ": is a view on " VALUE_FORMAT ", but " OP_FORMAT
                                                " neither reads nor produces that storage",
                                   VALUE_ARGS(v, id), VALUE_ARGS(v, root), OP_ARGS(v, o));
        }
    }
    NEAP_DELETE(graph->allocator, graph->n_values, touched);
    return status;
}

/* The updates of op o; `updated` has the op that updates a storage, plus one. */
static neap_status check_updates_of(const validator *v, uint32_t o, uint32_t *updated)
{
    const neap_op *op = &v->graph->ops[o];
    for (uint32_t i = 0; i < op->n_updates; i++) {
        uint32_t id = op->updates[i];
        if (id >= v->graph->n_values || !v->graph->values[id].state ||
            !lists(op->inputs, op->n_inputs, id))
            return neap_fail(v->diag, NEAP_INVALID,
                             OP_FORMAT ": updates names value %" PRIu32
                                       "; an op may only update state that it reads",
                             OP_ARGS(v, o), id);
        uint32_t *by = &updated[v->graph->values[id].storage];
        if (*by)
            return neap_fail(v->diag, NEAP_INVALID,
                             OP_FORMAT ": updates " VALUE_FORMAT ", which " OP_FORMAT
                                       " updates already",
                             OP_ARGS(v, o), VALUE_ARGS(v, id), OP_ARGS(v, *by - 1));
        *by = o + 1;
    }
    return NEAP_OK;
}

static neap_status check_updates(const validator *v)
{
    const neap_graph *graph = v->graph;
    uint32_t *updated; /* per storage */
    for (uint32_t id = 0; id < graph->n_values; id++)
        if (graph->values[id].state && v->producer[id] != NEAP_NONE)
            return neap_fail(v->diag, NEAP_INVALID,
                             VALUE_FORMAT ": state must be an input, but " OP_FORMAT " produces it",
                             VALUE_ARGS(v, id), OP_ARGS(v, v->producer[id]));
    NEAP_TRY(NEAP_NEW(graph->allocator, graph->n_values, &updated, v->diag));
    neap_status status = NEAP_OK;
    for (uint32_t o = 0; o < graph->n_ops && status == NEAP_OK; o++) {
        const neap_op *op = &graph->ops[o];
        for (uint32_t i = 0; i < op->n_inputs && op->n_updates == 0 && status == NEAP_OK; i++) {
            uint32_t by = updated[graph->values[op->inputs[i]].storage];
            if (by)
                status = neap_fail(v->diag, NEAP_INVALID,
                                   OP_FORMAT ": reads " VALUE_FORMAT " after " OP_FORMAT
                                             " has updated it; list the update after its readers",
                                   OP_ARGS(v, o), VALUE_ARGS(v, op->inputs[i]), OP_ARGS(v, by - 1));
        }
        if (status == NEAP_OK)
            status = check_updates_of(v, o, updated);
    }
    NEAP_DELETE(graph->allocator, graph->n_values, updated);
    return status;
}

static neap_status check_outputs(const validator *v)
{
    const neap_graph *graph = v->graph;
    for (size_t i = 0; i < graph->n_outputs; i++)
        if (graph->outputs[i] >= graph->n_values)
            return neap_fail(v->diag, NEAP_INVALID,
                             "output %zu is value %" PRIu32 ", but there are %zu values", i,
                             graph->outputs[i], graph->n_values);
    return NEAP_OK;
}

neap_status neap_graph_validate(neap_graph *graph, neap_diag *diag)
{
    validator v = {.graph = graph, .diag = diag};
    neap_status status = NEAP_NEW(graph->allocator, graph->n_values, &v.producer, diag);
    if (status == NEAP_OK)
        status = check_values(&v);
    if (status == NEAP_OK)
        status = check_view_cycles(&v);
    if (status == NEAP_OK) {
        neap_graph_derive_storages(graph);
        status = find_producers(&v);
    }
    if (status == NEAP_OK)
        status = check_order(&v);
    if (status == NEAP_OK)
        status = check_views(&v);
    if (status == NEAP_OK)
        status = check_updates(&v);
    if (status == NEAP_OK)
        status = check_outputs(&v);
    NEAP_DELETE(graph->allocator, graph->n_values, v.producer);
    return status;
}
