#include "graph/layers_internal.h"

#include "base/fail.h"
#include "base/hash.h"
#include "base/memory.h"

#include <string.h>

/* The longest part of a name, up to a dot or its end, that a table has; *rest is what follows. */
static uint32_t longest_part(const neap_name_table *table, const char *name, const char **rest)
{
    uint32_t best = NEAP_NO_NAME;
    uint64_t hash = NEAP_HASH_BEGIN;
    *rest = name;
    for (const char *from = name; *from;) {
        size_t length = strcspn(from + 1, ".") + 1; /* a dot at the beginning counts as a letter */
        hash = neap_hash_bytes(hash, from, length);
        from += length;
        uint32_t found =
            neap_name_table_find(table, (neap_name){name, (size_t)(from - name), hash});
        if (found != NEAP_NO_NAME) {
            best = found;
            *rest = from;
        }
    }
    return best;
}

uint32_t neap_layers_split(const neap_layers *layers, const char *name, const char **rest)
{
    return longest_part(&layers->names, name, rest);
}

static bool is_forward(const neap_op *op)
{
    return op->pass == NEAP_FORWARD && op->n_updates == 0;
}

/* The op that makes a value or, of an input, the first that reads it; NEAP_NONE: there is none. */
static uint32_t op_of_value(const neap_graph *graph, uint32_t value)
{
    uint32_t count, producer = neap_graph_value(graph, value)->producer;
    const uint32_t *readers = neap_graph_readers(graph, value, &count);
    return producer != NEAP_NONE ? producer : count > 0 ? readers[0] : NEAP_NONE;
}

static neap_status add_layer(neap_layers *layers, const neap_op *op, uint32_t id, neap_diag *diag)
{
    neap_name name = neap_name_of(op->name, strlen(op->name));
    return neap_name_table_add(&layers->names, name, &layers->of_op[id], diag);
}

/* `values` has the names of all values, numbered by `ids`. */
static neap_status find_by_name(neap_layers *layers, const neap_graph *graph,
                                const neap_name_table *values, const uint32_t *ids, uint32_t o,
                                neap_diag *diag)
{
    const char *rest;
    const neap_op *op = neap_graph_op(graph, o);
    uint32_t layer = longest_part(&layers->names, op->name, &rest);
    uint32_t value = layer == NEAP_NO_NAME ? longest_part(values, op->name, &rest) : NEAP_NO_NAME;
    uint32_t near = value == NEAP_NO_NAME ? NEAP_NONE : op_of_value(graph, ids[value]);
    if (layer == NEAP_NO_NAME && near != NEAP_NONE &&
        (near < o || is_forward(neap_graph_op(graph, near))))
        layer = layers->of_op[near];
    if (layer == NEAP_NO_NAME)
        return add_layer(layers, op, o, diag);
    layers->of_op[o] = layer;
    return NEAP_OK;
}

static neap_status add_values(neap_name_table *values, uint32_t *ids, const neap_graph *graph,
                              neap_diag *diag)
{
    for (uint32_t v = 0; v < neap_graph_value_count(graph); v++) {
        const char *name = neap_graph_value(graph, v)->name;
        uint32_t number;
        size_t before = values->count;
        NEAP_TRY(neap_name_table_add(values, neap_name_of(name, strlen(name)), &number, diag));
        if (values->count > before)
            ids[number] = v;
    }
    return NEAP_OK;
}

static neap_status find_all(neap_layers *layers, neap_diag *diag)
{
    const neap_graph *graph = layers->graph;
    uint32_t n_values = neap_graph_value_count(graph), *ids = NULL;
    neap_name_table values;
    neap_name_table_init(&values, layers->allocator);
    neap_status status = NEAP_NEW(layers->allocator, n_values, &ids, diag);
    if (status == NEAP_OK)
        status = add_values(&values, ids, graph, diag);
    for (uint32_t o = 0; o < layers->n_ops && status == NEAP_OK; o++)
        if (is_forward(neap_graph_op(graph, o)))
            status = add_layer(layers, neap_graph_op(graph, o), o, diag);
    for (uint32_t o = 0; o < layers->n_ops && status == NEAP_OK; o++)
        if (!is_forward(neap_graph_op(graph, o)))
            status = find_by_name(layers, graph, &values, ids, o, diag);
    NEAP_DELETE(layers->allocator, n_values, ids);
    neap_name_table_clear(&values);
    return status;
}

neap_status neap_layers_find(neap_allocator *allocator, const neap_graph *graph,
                             neap_layers **layers, neap_diag *diag)
{
    neap_layers *made;
    *layers = NULL;
    allocator = neap_allocator_or_system(allocator);
    neap_status status = NEAP_NEW(allocator, 1, &made, diag);
    if (status != NEAP_OK)
        return status;
    *made =
        (neap_layers){.allocator = allocator, .graph = graph, .n_ops = neap_graph_op_count(graph)};
    neap_name_table_init(&made->names, allocator);
    status = NEAP_NEW(allocator, made->n_ops, &made->of_op, diag);
    if (status == NEAP_OK)
        status = find_all(made, diag);
    if (status == NEAP_OK)
        *layers = made;
    else
        neap_layers_destroy(made);
    return status;
}

void neap_layers_destroy(neap_layers *layers)
{
    if (!layers)
        return;
    NEAP_DELETE(layers->allocator, layers->n_ops, layers->of_op);
    neap_name_table_clear(&layers->names);
    NEAP_DELETE(layers->allocator, 1, layers);
}

uint32_t neap_layers_count(const neap_layers *layers)
{
    return (uint32_t)layers->names.count;
}

const char *neap_layers_name(const neap_layers *layers, uint32_t layer, size_t *length)
{
    *length = layers->names.names[layer].length;
    return layers->names.names[layer].text;
}

uint32_t neap_layers_of_op(const neap_layers *layers, uint32_t op)
{
    return layers->of_op[op];
}

uint32_t neap_layers_of_value(const neap_layers *layers, uint32_t value)
{
    const neap_value *v = neap_graph_value(layers->graph, value);
    bool stays = v->state || strcmp(v->kind, NEAP_KIND_PARAMETER) == 0;
    uint32_t op = v->producer != NEAP_NONE || stays ? op_of_value(layers->graph, value) : NEAP_NONE;
    return op != NEAP_NONE ? layers->of_op[op] : NEAP_NONE;
}
