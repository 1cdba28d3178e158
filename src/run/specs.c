/* Specs and signatures of a graph's ops. */
#include "run/specs.h"

#include "base/fail.h"
#include "base/hash.h"
#include "base/memory.h"
#include "graph/network_internal.h"

#include <inttypes.h>
#include <string.h>

run_spec neap_run_specs_at(run_specs *specs, uint32_t id, uint32_t variant)
{
    const neap_op *op = neap_graph_op(specs->graph, id);
    for (uint32_t i = 0; i < op->n_inputs; i++)
        specs->operands[i] = specs->arrays.items[op->inputs[i]];
    for (uint32_t i = 0; i < op->n_outputs; i++)
        specs->operands[op->n_inputs + i] = specs->arrays.items[op->outputs[i]];
    return (run_spec){
        .op = op, .in = specs->operands, .out = specs->operands + op->n_inputs, .variant = variant};
}

bool neap_run_specs_is_view(const run_specs *specs, uint32_t id)
{
    const op_def *def = neap_op_def_find(neap_graph_op(specs->graph, id)->type);
    return def && def->view;
}

bool neap_run_specs_write_over(const run_specs *specs, uint32_t id)
{
    const neap_op *op = neap_graph_op(specs->graph, id);
    const op_def *def = neap_op_def_find(op->type);
    const run_arrays *arrays = &specs->arrays;
    if (op->in_place_input == NEAP_NONE || !def || def->in_place_output >= op->n_outputs ||
        op->outputs[def->in_place_output] != op->in_place_output)
        return false;
    for (uint32_t i = 0; i < op->n_inputs; i++) /* it may be several operands */
        if (op->inputs[i] == op->in_place_input && (i >= 32 || !(def->in_place >> i & 1)))
            return false;
    return arrays->begins[op->in_place_input] == arrays->begins[op->in_place_output] &&
           neap_run_array_same_strides(&arrays->items[op->in_place_input],
                                       &arrays->items[op->in_place_output]);
}

/* ---- Signatures ---- */

static void sign_array(const run_array *array, neap_text *text)
{
    neap_text_printf(text, " %s[", neap_dtype_name(array->dtype));
    for (uint32_t d = 0; d < array->rank; d++)
        neap_text_printf(text, "%s%" PRId64, d ? "," : "", array->shape[d]);
    neap_text_putc(text, ']');
    if (neap_run_array_is_plain(array))
        return;
    for (uint32_t d = 0; d < array->rank; d++)
        neap_text_printf(text, "%c%" PRId64, d ? ',' : '@',
                         array->shape[d] == 1 ? 0 : array->strides[d]);
}

void neap_run_spec_sign(const run_spec *spec, neap_text *text)
{
    const neap_op *op = spec->op;
    neap_text_puts(text, op->type);
    for (uint32_t i = 0; i < op->n_attrs; i++) {
        neap_text_printf(text, " %s=", op->attrs[i].name);
        if (op->attrs[i].is_real)
            neap_text_double(text, op->attrs[i].real);
        else
            neap_text_i64(text, op->attrs[i].integer);
    }
    for (uint32_t i = 0; i < op->n_inputs; i++)
        sign_array(&spec->in[i], text);
    neap_text_puts(text, " ->");
    for (uint32_t i = 0; i < op->n_outputs; i++)
        sign_array(&spec->out[i], text);
}

/* The signatures seen so far, in a table of twice as many slots as ops. */
typedef struct sign_table {
    uint32_t *ops; /* by slot, or NEAP_NONE */
    char **signs;
    size_t n_slots; /* a power of two */
    neap_arena arena;
} sign_table;

static neap_status find_alike(run_specs *specs, sign_table *table, uint32_t op, neap_text *text,
                              neap_diag *diag)
{
    run_spec spec = neap_run_specs_at(specs, op, 0);
    text->length = 0;
    neap_run_spec_sign(&spec, text);
    if (text->status != NEAP_OK)
        return neap_fail_no_memory(diag);
    uint64_t hash = neap_hash_bytes(NEAP_HASH_BEGIN, text->text, text->length);
    size_t slot = (hash ^ (hash >> 29)) & (table->n_slots - 1);
    while (table->ops[slot] != NEAP_NONE && strcmp(table->signs[slot], text->text) != 0)
        slot = (slot + 1) & (table->n_slots - 1);
    if (table->ops[slot] == NEAP_NONE) {
        table->ops[slot] = op;
        table->signs[slot] = neap_arena_text(&table->arena, text->text, text->length);
        if (!table->signs[slot])
            return neap_fail_no_memory(diag);
    }
    specs->alike[op] = table->ops[slot];
    return NEAP_OK;
}

static neap_status find_all_alike(run_specs *specs, neap_diag *diag)
{
    uint32_t n_ops = neap_graph_op_count(specs->graph);
    sign_table table = {.n_slots = 16};
    neap_text text;
    while (table.n_slots < 2 * (size_t)n_ops)
        table.n_slots *= 2;
    neap_text_init(&text, specs->allocator);
    neap_arena_init(&table.arena, specs->allocator);
    neap_status status = NEAP_NEW(specs->allocator, table.n_slots, &table.ops, diag);
    if (status == NEAP_OK)
        status = NEAP_NEW(specs->allocator, table.n_slots, &table.signs, diag);
    if (status == NEAP_OK)
        memset(table.ops, 0xff, table.n_slots * sizeof *table.ops);
    for (uint32_t op = 0; op < n_ops && status == NEAP_OK; op++)
        status = find_alike(specs, &table, op, &text, diag);
    NEAP_DELETE(specs->allocator, table.n_slots, table.signs);
    NEAP_DELETE(specs->allocator, table.n_slots, table.ops);
    neap_arena_clear(&table.arena);
    neap_text_clear(&text);
    return status;
}

/* ---- All of a graph ---- */

neap_status neap_run_specs_init(neap_allocator *allocator, const neap_graph *graph,
                                const neap_backend *backend, run_specs *specs, neap_diag *diag)
{
    uint32_t n_ops = neap_graph_op_count(graph);
    *specs = (run_specs){.graph = graph, .allocator = allocator};
    for (uint32_t o = 0; o < n_ops; o++) {
        const neap_op *op = neap_graph_op(graph, o);
        if (specs->n_operands < (size_t)op->n_inputs + op->n_outputs)
            specs->n_operands = (size_t)op->n_inputs + op->n_outputs;
    }
    neap_status status = neap_run_arrays_init(allocator, graph, backend, &specs->arrays, diag);
    if (status == NEAP_OK)
        status = NEAP_NEW(allocator, specs->n_operands, &specs->operands, diag);
    if (status == NEAP_OK)
        status = NEAP_NEW(allocator, n_ops, &specs->alike, diag);
    if (status == NEAP_OK)
        status = find_all_alike(specs, diag);
    return status;
}

void neap_run_specs_clear(run_specs *specs)
{
    neap_run_arrays_clear(&specs->arrays);
    NEAP_DELETE(specs->allocator, specs->n_operands, specs->operands);
    NEAP_DELETE(specs->allocator, neap_graph_op_count(specs->graph), specs->alike);
    memset(specs, 0, sizeof *specs);
}

neap_status neap_run_specs_check(run_specs *specs, neap_backend *backend, neap_diag *diag)
{
    for (uint32_t o = 0; o < neap_graph_op_count(specs->graph); o++) {
        if (specs->alike[o] != o || neap_run_specs_is_view(specs, o))
            continue;
        run_spec spec = neap_run_specs_at(specs, o, 0);
        neap_diag why = {.message = ""};
        if (!backend->type->supports_op(backend, &spec, &why))
            return neap_fail(diag, NEAP_UNSUPPORTED, "%s", why.message);
    }
    return NEAP_OK;
}

neap_status neap_backend_check(neap_backend *backend, const neap_graph *graph, neap_diag *diag)
{
    run_specs specs;
    neap_status status = neap_run_specs_init(backend->allocator, graph, backend, &specs, diag);
    if (status == NEAP_OK)
        status = neap_run_specs_check(&specs, backend, diag);
    neap_run_specs_clear(&specs);
    return status;
}
