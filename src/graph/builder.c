/* Putting a graph together op by op; everything is checked at the end. */
#include "base/fail.h"
#include "base/memory.h"
#include "graph/graph_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

void neap_value_desc_init(neap_value_desc *desc)
{
    *desc = (neap_value_desc){.view_of = NEAP_NONE};
}

void neap_op_desc_init(neap_op_desc *desc)
{
    *desc = (neap_op_desc){
        .in_place_input = NEAP_NONE, .in_place_output = NEAP_NONE, .flops = -1, .bytes_moved = -1};
}

void neap_value_describe(const neap_value *value, neap_value_desc *desc)
{
    *desc = (neap_value_desc){.name = value->name,
                              .kind = value->kind,
                              .bytes = value->bytes,
                              .view_of = value->view_of,
                              .state = value->state,
                              .dtype = value->dtype,
                              .rank = value->rank,
                              .shape = value->shape,
                              .extra = value->extra};
}

void neap_op_describe(const neap_op *op, neap_op_desc *desc)
{
    *desc = (neap_op_desc){.name = op->name,
                           .type = op->type,
                           .pass = op->pass,
                           .n_inputs = op->n_inputs,
                           .n_outputs = op->n_outputs,
                           .inputs = op->inputs,
                           .outputs = op->outputs,
                           .n_updates = op->n_updates,
                           .updates = op->updates,
                           .n_variants = op->n_variants,
                           .variants = op->variants,
                           .lists_variants = op->lists_variants,
                           .random = op->random,
                           .inside_layer = op->inside_layer,
                           .in_place_input = op->in_place_input,
                           .in_place_output = op->in_place_output,
                           .flops = op->flops,
                           .bytes_moved = op->bytes_moved,
                           .n_attrs = op->n_attrs,
                           .attrs = op->attrs,
                           .extra = op->extra};
}

neap_status neap_graph_builder_create(neap_allocator *allocator, const char *name,
                                      neap_graph_builder **builder, neap_diag *diag)
{
    allocator = neap_allocator_or_system(allocator);
    neap_graph *graph = NULL;
    *builder = NULL;
    neap_status status = NEAP_NEW(allocator, 1, &graph, diag);
    if (status != NEAP_OK)
        return status;
    graph->allocator = allocator;
    neap_arena_init(&graph->arena, allocator);
    graph->name = neap_arena_text(&graph->arena, name, strlen(name));
    if (!graph->name)
        status = neap_fail_no_memory(diag);
    if (status == NEAP_OK)
        status = NEAP_NEW(allocator, 1, builder, diag);
    if (status != NEAP_OK) {
        neap_graph_destroy(graph);
        return status;
    }
    (*builder)->allocator = allocator;
    (*builder)->graph = graph;
    return NEAP_OK;
}

void neap_graph_builder_destroy(neap_graph_builder *builder)
{
    if (!builder)
        return;
    neap_graph_destroy(builder->graph);
    NEAP_DELETE(builder->allocator, 1, builder);
}

void neap_graph_builder_set_fixed_bytes(neap_graph_builder *builder, int64_t bytes)
{
    builder->graph->fixed_bytes = bytes;
}

/* A copy of a name, or "<prefix><id>" where it is NULL. */
static const char *copy_name(neap_arena *arena, const char *name, const char *prefix, size_t id)
{
    char made[32];
    if (!name) {
        snprintf(made, sizeof made, "%s%zu", prefix, id);
        name = made;
    }
    return neap_arena_text(arena, name, strlen(name));
}

/* The well-known kinds are shared: a hundred thousand values need not own the word. */
static const char *copy_kind(neap_arena *arena, const char *kind)
{
    static const char *const known[] = {NEAP_KIND_ACTIVATION, NEAP_KIND_GRADIENT, NEAP_KIND_INPUT,
                                        NEAP_KIND_PARAMETER, NEAP_KIND_STATE};
    if (!kind)
        return NEAP_KIND_ACTIVATION;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(kind, known[i]) == 0)
            return known[i];
    return neap_arena_text(arena, kind, strlen(kind));
}

static const char *copy_extra(neap_arena *arena, const char *extra)
{
    return extra ? neap_arena_text(arena, extra, strlen(extra)) : NULL;
}

neap_status neap_graph_builder_add_value(neap_graph_builder *builder, const neap_value_desc *desc,
                                         uint32_t *id, neap_diag *diag)
{
    neap_graph *graph = builder->graph;
    if (graph->n_values >= NEAP_NONE - 1)
        return neap_fail(diag, NEAP_INVALID, "a graph has at most 2^32 - 2 values");
    neap_status status = NEAP_RESERVE(graph->allocator, graph->n_values + 1, &graph->values,
                                      &graph->value_capacity, diag);
    if (status != NEAP_OK)
        return status;
    neap_value value = {.name = copy_name(&graph->arena, desc->name, "v", graph->n_values),
                        .kind = copy_kind(&graph->arena, desc->kind),
                        .bytes = desc->bytes,
                        .view_of = desc->view_of,
                        .storage = NEAP_NONE,
                        .producer = NEAP_NONE,
                        .updater = NEAP_NONE,
                        .state = desc->state,
                        .dtype = desc->dtype,
                        .rank = desc->rank,
                        .extra = copy_extra(&graph->arena, desc->extra)};
    if (desc->rank)
        value.shape = neap_arena_copy(&graph->arena, desc->shape, desc->rank, sizeof *desc->shape);
    if (!value.name || !value.kind || (desc->extra && !value.extra) || (desc->rank && !value.shape))
        return neap_fail_no_memory(diag);
    if (id)
        *id = (uint32_t)graph->n_values;
    graph->values[graph->n_values++] = value;
    return NEAP_OK;
}

static const neap_attr *copy_attrs(neap_arena *arena, const neap_op_desc *desc)
{
    neap_attr *attrs = neap_arena_copy(arena, desc->attrs, desc->n_attrs, sizeof *attrs);
    for (uint32_t i = 0; attrs && i < desc->n_attrs; i++) {
        attrs[i].name = neap_arena_text(arena, desc->attrs[i].name, strlen(desc->attrs[i].name));
        if (!attrs[i].name)
            return NULL;
    }
    return attrs;
}

neap_status neap_graph_builder_add_op(neap_graph_builder *builder, const neap_op_desc *desc,
                                      uint32_t *id, neap_diag *diag)
{
    static const neap_variant no_cost = {.seconds = 0};
    neap_graph *graph = builder->graph;
    neap_arena *arena = &graph->arena;
    if (graph->n_ops >= NEAP_NONE - 1)
        return neap_fail(diag, NEAP_INVALID, "a graph has at most 2^32 - 2 ops");
    neap_status status =
        NEAP_RESERVE(graph->allocator, graph->n_ops + 1, &graph->ops, &graph->op_capacity, diag);
    if (status != NEAP_OK)
        return status;
    uint32_t n_variants = desc->n_variants ? desc->n_variants : 1;
    const char *type = desc->type ? desc->type : "op";
    neap_op op = {
        .name = copy_name(arena, desc->name, "op", graph->n_ops),
        .type = neap_arena_text(arena, type, strlen(type)),
        .pass = desc->pass,
        .n_inputs = desc->n_inputs,
        .n_outputs = desc->n_outputs,
        .inputs = neap_arena_copy(arena, desc->inputs, desc->n_inputs, sizeof *op.inputs),
        .outputs = neap_arena_copy(arena, desc->outputs, desc->n_outputs, sizeof *op.outputs),
        .n_updates = desc->n_updates,
        .updates = neap_arena_copy(arena, desc->updates, desc->n_updates, sizeof *op.updates),
        .n_variants = n_variants,
        .variants = neap_arena_copy(arena, desc->n_variants ? desc->variants : &no_cost, n_variants,
                                    sizeof *op.variants),
        .lists_variants = desc->lists_variants || desc->n_variants > 1,
        .random = desc->random,
        .inside_layer = desc->inside_layer,
        .in_place_input = desc->in_place_input,
        .in_place_output = desc->in_place_output,
        .flops = desc->flops,
        .bytes_moved = desc->bytes_moved,
        .n_attrs = desc->n_attrs,
        .attrs = copy_attrs(arena, desc),
        .extra = copy_extra(arena, desc->extra)};
    if (!op.name || !op.type || !op.inputs || !op.outputs || !op.updates || !op.variants ||
        !op.attrs || (desc->extra && !op.extra))
        return neap_fail_no_memory(diag);
    if (id)
        *id = (uint32_t)graph->n_ops;
    graph->ops[graph->n_ops++] = op;
    return NEAP_OK;
}

neap_status neap_graph_builder_add_output(neap_graph_builder *builder, uint32_t value,
                                          neap_diag *diag)
{
    neap_graph *graph = builder->graph;
    neap_status status = NEAP_RESERVE(graph->allocator, graph->n_outputs + 1, &graph->outputs,
                                      &graph->output_capacity, diag);
    if (status == NEAP_OK)
        graph->outputs[graph->n_outputs++] = value;
    return status;
}

neap_status neap_graph_builder_finish(neap_graph_builder *builder, neap_graph **graph,
                                      neap_diag *diag)
{
    *graph = NULL;
    neap_status status = neap_graph_validate(builder->graph, diag);
    if (status == NEAP_OK)
        status = neap_graph_derive(builder->graph, diag);
    if (status != NEAP_OK)
        return status;
    *graph = builder->graph;
    builder->graph = NULL;
    return NEAP_OK;
}
