#include "op_text.h"

#include <neap/network.h>

#include <inttypes.h>
#include <string.h>

static void write_name(FILE *out, const char *name)
{
    const char *grad = strstr(name, ".grad");
    if (grad)
        fputc('d', out);
    int length = grad ? (int)(grad - name) : (int)strlen(name);
    if (length == 2 && memcmp(name, "op", 2) == 0)
        fputc('y', out);
    else if (length > 3 && memcmp(name, "op.", 3) == 0)
        fprintf(out, "%.*s", length - 3, name + 3);
    else
        fprintf(out, "%.*s", length, name);
    if (grad)
        fputs(grad + strlen(".grad"), out);
}

static void write_result(FILE *out, const neap_value *value)
{
    write_name(out, value->name);
    fprintf(out, " %s[", neap_dtype_name(value->dtype));
    for (uint32_t d = 0; d < value->rank; d++)
        fprintf(out, "%s%" PRId64, d ? "," : "", value->shape[d]);
    fputc(']', out);
}

static bool same_attrs(const neap_op *a, const neap_op *b)
{
    if (a->n_attrs != b->n_attrs)
        return false;
    for (uint32_t i = 0; i < a->n_attrs; i++)
        if (strcmp(a->attrs[i].name, b->attrs[i].name) != 0 ||
            a->attrs[i].is_real != b->attrs[i].is_real ||
            a->attrs[i].integer != b->attrs[i].integer || a->attrs[i].real != b->attrs[i].real)
            return false;
    return true;
}

static void write_attrs(FILE *out, const neap_op *op, const neap_op *like)
{
    if (op->n_attrs == 0)
        return;
    if (op != like && same_attrs(op, like)) {
        fputs(" {same}", out);
        return;
    }
    for (uint32_t i = 0; i < op->n_attrs; i++) {
        fprintf(out, "%s%s=", i ? " " : " {", op->attrs[i].name);
        if (op->attrs[i].is_real)
            fprintf(out, "%.9g", op->attrs[i].real);
        else
            fprintf(out, "%" PRId64, op->attrs[i].integer);
    }
    fputc('}', out);
}

/* "view" for an op whose outputs all live on its first input's storage, "part view" for some. */
static void write_marks(FILE *out, const neap_graph *graph, const neap_op *op)
{
    uint32_t views = 0;
    for (uint32_t i = 0; i < op->n_outputs; i++)
        views += neap_graph_value(graph, op->outputs[i])->view_of == op->inputs[0];
    if (views > 0)
        fputs(views == op->n_outputs ? " view" : " part view", out);
    if (op->random)
        fputs(" random", out);
    if (op->in_place_input == NEAP_NONE)
        return;
    fputs(" (", out);
    write_name(out, neap_graph_value(graph, op->in_place_output)->name);
    fputs(" over ", out);
    write_name(out, neap_graph_value(graph, op->in_place_input)->name);
    fputc(')', out);
}

static void write_count(FILE *out, neap_op_count count)
{
    fputs(":", out);
    if (count.macs)
        fprintf(out, " %" PRId64 " MACs,", count.macs);
    if (count.flops)
        fprintf(out, " %" PRId64 " FLOPs,", count.flops);
    fprintf(out, " %" PRId64 " bytes\n", count.bytes_moved);
}

void op_text(FILE *out, const neap_graph *graph, const neap_op *op, const neap_op *like)
{
    fprintf(out, "%s(", op->type);
    for (uint32_t i = 0; i < op->n_inputs; i++) {
        fputs(i ? ", " : "", out);
        write_name(out, neap_graph_value(graph, op->inputs[i])->name);
    }
    fputs(op->n_outputs > 0 ? ") -> " : ") updates ", out);
    for (uint32_t i = 0; i < op->n_updates; i++) {
        fputs(i ? ", " : "", out);
        write_name(out, neap_graph_value(graph, op->updates[i])->name);
    }
    for (uint32_t i = 0; i < op->n_outputs; i++) {
        fputs(i ? ", " : "", out);
        write_result(out, neap_graph_value(graph, op->outputs[i]));
    }
    write_attrs(out, op, like);
    write_marks(out, graph, op);
    write_count(out, neap_op_count_work(graph, (uint32_t)(op - neap_graph_op(graph, 0))));
}
