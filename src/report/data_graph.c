/* The graph in the data block of a report: ops, values, types, layers. */
#include "graph/layers_internal.h"
#include "report/data_text.h"
#include "report/report_data.h"

#include "base/fail.h"
#include "plan/memory_parts.h"

#include <string.h>

typedef struct graph_data {
    neap_text *out;
    const neap_graph *graph;
    neap_layers *layers;
    neap_name_table types, suffixes;
    neap_diag *diag;
} graph_data;

/* ---- Names ---- */

/* A name as a number, suffix * layers + layer, or as it is if it does not begin with a layer's. */
static neap_status put_name(graph_data *d, const char *name)
{
    const char *rest;
    uint32_t suffix, layer = neap_layers_split(d->layers, name, &rest);
    neap_data_comma(d->out);
    if (layer == NEAP_NO_NAME) {
        neap_data_string(d->out, name, NEAP_DATA_NAME);
        return NEAP_OK;
    }
    NEAP_TRY(neap_name_table_add(&d->suffixes, neap_name_of(rest, strlen(rest)), &suffix, d->diag));
    neap_data_integer(d->out, (int64_t)suffix * (int64_t)neap_layers_count(d->layers) + layer);
    return NEAP_OK;
}

static void put_table(neap_text *out, const char *key, const neap_name_table *table)
{
    neap_data_begin(out, key);
    for (size_t i = 0; i < table->count; i++) {
        neap_data_comma(out);
        neap_data_part(out, table->names[i].text, table->names[i].length, NEAP_DATA_NAME);
    }
    neap_data_end(out);
}

/* ---- Ops ---- */

static neap_status put_names_and_types(graph_data *d)
{
    uint32_t n = neap_graph_op_count(d->graph), type;
    neap_data_begin(d->out, "name");
    for (uint32_t o = 0; o < n; o++)
        NEAP_TRY(put_name(d, neap_graph_op(d->graph, o)->name));
    neap_data_end(d->out);
    neap_text_putc(d->out, ',');
    neap_data_begin(d->out, "type");
    for (uint32_t o = 0; o < n; o++) {
        const char *name = neap_graph_op(d->graph, o)->type;
        NEAP_TRY(neap_name_table_add(&d->types, neap_name_of(name, strlen(name)), &type, d->diag));
        neap_data_item(d->out, type);
    }
    neap_data_end(d->out);
    return NEAP_OK;
}

static int64_t pass_of(const neap_op *op)
{
    return op->n_updates > 0 ? 2 : op->pass == NEAP_BACKWARD ? 1 : 0;
}

/* One number for each op. */
typedef enum op_column { PASS, LAYER, TICKS, WORKSPACE } op_column;

static void put_op_column(const graph_data *d, const char *key, op_column column)
{
    neap_text_putc(d->out, ',');
    neap_data_begin(d->out, key);
    for (uint32_t o = 0; o < neap_graph_op_count(d->graph); o++) {
        const neap_op *op = neap_graph_op(d->graph, o);
        neap_data_item(d->out, column == PASS    ? pass_of(op)
                               : column == LAYER ? neap_layers_of_op(d->layers, o)
                               : column == TICKS ? op->variants[0].ticks
                                                 : op->variants[0].workspace);
    }
    neap_data_end(d->out);
}

static void put_edges(const graph_data *d, const char *key, bool outputs)
{
    neap_text_putc(d->out, ',');
    neap_data_begin(d->out, key);
    for (uint32_t o = 0; o < neap_graph_op_count(d->graph); o++) {
        const neap_op *op = neap_graph_op(d->graph, o);
        uint32_t count = outputs ? op->n_outputs : op->n_inputs;
        neap_data_comma(d->out);
        neap_text_putc(d->out, '[');
        for (uint32_t i = 0; i < count; i++)
            neap_data_item(d->out, outputs ? op->outputs[i] : op->inputs[i]);
        neap_data_end(d->out);
    }
    neap_data_end(d->out);
}

static void put_variants(const graph_data *d)
{
    bool first = true;
    neap_text_puts(d->out, ",\"variants\":{");
    for (uint32_t o = 0; o < neap_graph_op_count(d->graph); o++) {
        const neap_op *op = neap_graph_op(d->graph, o);
        if (op->n_variants < 2)
            continue;
        neap_text_puts(d->out, first ? "\"" : ",\"");
        first = false;
        neap_data_integer(d->out, o);
        neap_text_puts(d->out, "\":[");
        for (uint32_t i = 0; i < op->n_variants; i++) {
            neap_text_puts(d->out, i > 0 ? ",[" : "[");
            neap_data_item(d->out, op->variants[i].ticks);
            neap_data_item(d->out, op->variants[i].workspace);
            neap_data_end(d->out);
        }
        neap_data_end(d->out);
    }
    neap_text_putc(d->out, '}');
}

/* For each op that can run in place: the input that it may write over, and with which output. */
static void put_in_place(const graph_data *d)
{
    bool first = true;
    neap_text_puts(d->out, ",\"in_place\":{");
    for (uint32_t o = 0; o < neap_graph_op_count(d->graph); o++) {
        const neap_op *op = neap_graph_op(d->graph, o);
        if (op->in_place_input == NEAP_NONE)
            continue;
        neap_text_puts(d->out, first ? "\"" : ",\"");
        first = false;
        neap_data_integer(d->out, o);
        neap_text_puts(d->out, "\":[");
        neap_data_item(d->out, op->in_place_input);
        neap_data_item(d->out, op->in_place_output);
        neap_data_end(d->out);
    }
    neap_text_putc(d->out, '}');
}

static neap_status put_ops(graph_data *d)
{
    neap_text_puts(d->out, "\"ops\":{");
    NEAP_TRY(put_names_and_types(d));
    put_op_column(d, "pass", PASS);
    put_op_column(d, "layer", LAYER);
    put_op_column(d, "ticks", TICKS);
    put_op_column(d, "workspace", WORKSPACE);
    put_edges(d, "inputs", false);
    put_edges(d, "outputs", true);
    put_variants(d);
    put_in_place(d);
    neap_text_puts(d->out, "},\n");
    return NEAP_OK;
}

/* ---- Values ---- */

/* One number for each value. */
typedef enum value_column { BYTES, CLASS, ROOT, PRODUCER } value_column;

static int64_t value_number(const graph_data *d, uint32_t id, value_column column)
{
    const neap_value *value = neap_graph_value(d->graph, id);
    switch (column) {
    case BYTES:
        return value->bytes;
    case CLASS:
        return neap_memory_class_of(d->graph, value->storage);
    case ROOT:
        return value->storage;
    default:
        return value->producer == NEAP_NONE ? -1 : (int64_t)value->producer;
    }
}

static void put_value_column(const graph_data *d, const char *key, value_column column)
{
    neap_text_putc(d->out, ',');
    neap_data_begin(d->out, key);
    for (uint32_t v = 0; v < neap_graph_value_count(d->graph); v++)
        neap_data_item(d->out, value_number(d, v, column));
    neap_data_end(d->out);
}

static neap_status put_values(graph_data *d)
{
    neap_text_puts(d->out, "\"values\":{");
    neap_data_begin(d->out, "name");
    for (uint32_t v = 0; v < neap_graph_value_count(d->graph); v++)
        NEAP_TRY(put_name(d, neap_graph_value(d->graph, v)->name));
    neap_data_end(d->out);
    put_value_column(d, "bytes", BYTES);
    put_value_column(d, "class", CLASS);
    put_value_column(d, "root", ROOT);
    put_value_column(d, "op", PRODUCER);
    neap_text_puts(d->out, "},\n");
    return NEAP_OK;
}

/* ---- All of it ---- */

static void put_outputs(const graph_data *d)
{
    uint32_t count;
    const uint32_t *outputs = neap_graph_outputs(d->graph, &count);
    neap_data_begin(d->out, "outputs");
    for (uint32_t i = 0; i < count; i++)
        neap_data_item(d->out, outputs[i]);
    neap_data_end(d->out);
}

static neap_status put_graph(graph_data *d)
{
    NEAP_TRY(put_ops(d));
    NEAP_TRY(put_values(d));
    put_table(d->out, "types", &d->types);
    neap_text_puts(d->out, ",\n");
    put_table(d->out, "layers", &d->layers->names);
    neap_text_puts(d->out, ",\n");
    put_table(d->out, "suffixes", &d->suffixes);
    neap_text_puts(d->out, ",\n\"fixed_bytes\":");
    neap_data_integer(d->out, neap_graph_fixed_bytes(d->graph));
    neap_text_puts(d->out, ",\n");
    put_outputs(d);
    return NEAP_OK;
}

neap_status neap_data_graph(neap_text *out, neap_allocator *allocator, const neap_graph *graph,
                            neap_diag *diag)
{
    graph_data d = {.out = out, .graph = graph, .diag = diag};
    neap_name_table_init(&d.types, allocator);
    neap_name_table_init(&d.suffixes, allocator);
    neap_status status = neap_layers_find(allocator, graph, &d.layers, diag);
    if (status == NEAP_OK)
        status = put_graph(&d);
    neap_layers_destroy(d.layers);
    neap_name_table_clear(&d.types);
    neap_name_table_clear(&d.suffixes);
    return status;
}
