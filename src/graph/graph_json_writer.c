/* Graph files out (docs/formats.md): one value or op a line, so that files can be read and
 * compared. */
#include "base/file.h"
#include "graph/graph_internal.h"

#include <neap/text.h>

#include <inttypes.h>
#include <string.h>

static void write_ids(neap_text *out, const uint32_t *ids, size_t count)
{
    neap_text_putc(out, '[');
    for (size_t i = 0; i < count; i++) {
        if (i)
            neap_text_putc(out, ',');
        neap_text_i64(out, ids[i]);
    }
    neap_text_putc(out, ']');
}

static void write_extra(neap_text *out, const char *extra)
{
    if (!extra)
        return;
    neap_text_putc(out, ',');
    neap_text_puts(out, extra);
}

static void write_named_text(neap_text *out, const char *name, const char *text)
{
    neap_text_printf(out, "\"%s\":", name);
    neap_text_json_string(out, text);
}

static void write_value(neap_text *out, const neap_value *value)
{
    neap_text_putc(out, '{');
    write_named_text(out, "name", value->name);
    neap_text_puts(out, ",\"bytes\":");
    neap_text_i64(out, value->bytes);
    neap_text_putc(out, ',');
    write_named_text(out, "kind", value->kind);
    if (value->view_of != NEAP_NONE) {
        neap_text_puts(out, ",\"view_of\":");
        neap_text_i64(out, value->view_of);
    }
    if (value->state)
        neap_text_puts(out, ",\"state\":true");
    if (value->dtype != NEAP_DTYPE_UNKNOWN) {
        neap_text_putc(out, ',');
        write_named_text(out, "dtype", neap_dtype_name(value->dtype));
    }
    if (value->rank) {
        neap_text_puts(out, ",\"shape\":[");
        for (uint32_t d = 0; d < value->rank; d++) {
            if (d)
                neap_text_putc(out, ',');
            neap_text_i64(out, value->shape[d]);
        }
        neap_text_putc(out, ']');
    }
    write_extra(out, value->extra);
    neap_text_putc(out, '}');
}

static void write_cost(neap_text *out, const neap_variant *variant)
{
    neap_text_puts(out, "\"time\":");
    neap_text_double(out, variant->seconds);
    neap_text_puts(out, ",\"workspace\":");
    neap_text_i64(out, variant->workspace);
}

static void write_attrs(neap_text *out, const neap_op *op)
{
    neap_text_puts(out, ",\"attrs\":{");
    for (uint32_t i = 0; i < op->n_attrs; i++) {
        const neap_attr *attr = &op->attrs[i];
        if (i)
            neap_text_putc(out, ',');
        neap_text_json_string(out, attr->name);
        neap_text_putc(out, ':');
        if (!attr->is_real) {
            neap_text_i64(out, attr->integer);
            continue;
        }
        size_t before = out->length;
        neap_text_double(out, attr->real);
        /* A whole real keeps a mark of its type. */
        if (out->status == NEAP_OK && !strpbrk(out->text + before, ".e"))
            neap_text_puts(out, ".0");
    }
    neap_text_putc(out, '}');
}

static void write_op(neap_text *out, const neap_op *op)
{
    neap_text_putc(out, '{');
    write_named_text(out, "name", op->name);
    neap_text_putc(out, ',');
    write_named_text(out, "type", op->type);
    neap_text_printf(
        out, ",\"pass\":\"%s\",\"inputs\":", op->pass == NEAP_BACKWARD ? "backward" : "forward");
    write_ids(out, op->inputs, op->n_inputs);
    neap_text_puts(out, ",\"outputs\":");
    write_ids(out, op->outputs, op->n_outputs);
    if (op->n_updates) {
        neap_text_puts(out, ",\"updates\":");
        write_ids(out, op->updates, op->n_updates);
    }
    neap_text_putc(out, ',');
    write_cost(out, &op->variants[0]);
    if (op->lists_variants) {
        neap_text_puts(out, ",\"variants\":[");
        for (uint32_t k = 0; k < op->n_variants; k++) {
            neap_text_puts(out, k ? ",{" : "{");
            write_cost(out, &op->variants[k]);
            if (op->variants[k].kernel > 0)
                neap_text_printf(out, ",\"kernel\":%" PRIu32, op->variants[k].kernel);
            neap_text_putc(out, '}');
        }
        neap_text_putc(out, ']');
    }
    if (op->random)
        neap_text_puts(out, ",\"random\":true");
    if (op->inside_layer)
        neap_text_puts(out, ",\"inside_layer\":true");
    if (op->in_place_input != NEAP_NONE) {
        neap_text_puts(out, ",\"in_place\":");
        write_ids(out, (uint32_t[]){op->in_place_input, op->in_place_output}, 2);
    }
    if (op->flops >= 0) {
        neap_text_puts(out, ",\"flops\":");
        neap_text_i64(out, op->flops);
    }
    if (op->bytes_moved >= 0) {
        neap_text_puts(out, ",\"bytes_moved\":");
        neap_text_i64(out, op->bytes_moved);
    }
    if (op->n_attrs)
        write_attrs(out, op);
    write_extra(out, op->extra);
    neap_text_putc(out, '}');
}

static neap_text text_of(const neap_graph *graph, neap_allocator *allocator)
{
    neap_text out;
    neap_text_init(&out, allocator);
    neap_text_puts(&out, "{\"neap\":\"graph\",\"version\":1,");
    write_named_text(&out, "name", graph->name);
    if (graph->measured_on) {
        neap_text_puts(&out, ",\n");
        write_named_text(&out, "measured_on", graph->measured_on);
    }
    neap_text_puts(&out, ",\n\"fixed_bytes\":");
    neap_text_i64(&out, graph->fixed_bytes);
    neap_text_puts(&out, ",\n\"values\":[");
    for (size_t v = 0; v < graph->n_values; v++) {
        neap_text_puts(&out, v ? ",\n" : "\n");
        write_value(&out, &graph->values[v]);
    }
    neap_text_puts(&out, "],\n\"ops\":[");
    for (size_t o = 0; o < graph->n_ops; o++) {
        neap_text_puts(&out, o ? ",\n" : "\n");
        write_op(&out, &graph->ops[o]);
    }
    neap_text_puts(&out, "],\n\"outputs\":");
    write_ids(&out, graph->outputs, graph->n_outputs);
    write_extra(&out, graph->extra);
    neap_text_puts(&out, "}\n");
    return out;
}

neap_status neap_graph_write_text(const neap_graph *graph, neap_allocator *allocator, char **text,
                                  size_t *length, neap_diag *diag)
{
    neap_text out = text_of(graph, allocator);
    return neap_text_take(&out, text, length, diag);
}

neap_status neap_graph_write_file(const neap_graph *graph, const char *path, neap_diag *diag)
{
    neap_text out = text_of(graph, graph->allocator);
    return neap_file_write_text(&out, path, diag);
}
