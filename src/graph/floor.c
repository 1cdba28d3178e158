/*
 * The floors of a graph: memory that no plan can do without.
 *
 * Whatever an op touches is in memory while it runs, beside the fixed bytes and the inputs that
 * never leave. A storage that the op can take over counts once: in place, its input is gone when
 * its output is there. At the end the outputs are in memory. State that travels need not be there
 * unless an op touches it.
 */
#include "graph/graph_internal.h"

#include <string.h>

bool neap_graph_can_run_in_place(const neap_graph *graph, uint32_t op)
{
    const neap_op *o = &graph->ops[op];
    if (o->in_place_input == NEAP_NONE)
        return false;
    uint32_t storage = graph->values[o->in_place_input].storage;
    const neap_value *owner = &graph->values[storage], *to = &graph->values[o->in_place_output];
    if (owner->producer == NEAP_NONE || to->view_of != NEAP_NONE || to->bytes != owner->bytes)
        return false;
    for (uint32_t i = 0; i < o->n_inputs; i++)
        if (o->inputs[i] != o->in_place_input && graph->values[o->inputs[i]].storage == storage)
            return false;
    for (uint32_t i = 0; i < o->n_outputs; i++)
        if (graph->values[o->outputs[i]].storage == storage)
            return false;
    return true;
}

/* Marks of storages: op o leaves o + 1. */
static const uint32_t AT_END = NEAP_NONE, ALWAYS = NEAP_NONE - 1;

/* Bytes of a value's storage, unless it is always in memory or has this mark. */
static int64_t new_bytes(const neap_graph *graph, uint32_t value, uint32_t mark)
{
    uint32_t storage = graph->values[value].storage;
    if (graph->seen[storage] == ALWAYS || graph->seen[storage] == mark)
        return 0;
    graph->seen[storage] = mark;
    return graph->values[storage].bytes;
}

/* Everything that op o touches, and its smallest workspace. */
static int64_t op_bytes(const neap_graph *graph, uint32_t o)
{
    const neap_op *op = &graph->ops[o];
    int64_t workspace = op->variants[0].workspace, bytes = 0;
    for (uint32_t k = 1; k < op->n_variants; k++)
        if (op->variants[k].workspace < workspace)
            workspace = op->variants[k].workspace;
    for (uint32_t i = 0; i < op->n_inputs; i++)
        bytes += new_bytes(graph, op->inputs[i], o + 1);
    for (uint32_t i = 0; i < op->n_outputs; i++)
        bytes += new_bytes(graph, op->outputs[i], o + 1);
    if (neap_graph_can_run_in_place(graph, o))
        bytes -= graph->values[op->in_place_output].bytes;
    return bytes + workspace;
}

static neap_floor find_floor(neap_graph *graph, bool state_travels)
{
    neap_floor found = {.bytes = graph->fixed_bytes, .op = NEAP_NONE};
    memset(graph->seen, 0, graph->n_values * sizeof *graph->seen);
    for (uint32_t v = 0; v < graph->n_values; v++) {
        const neap_value *value = &graph->values[v];
        if (value->producer == NEAP_NONE && !(state_travels && value->state))
            found.bytes += new_bytes(graph, v, ALWAYS);
    }
    int64_t base = found.bytes;
    for (size_t i = 0; i < graph->n_outputs; i++)
        found.bytes += new_bytes(graph, graph->outputs[i], AT_END);
    for (uint32_t o = 0; o < graph->n_ops; o++) {
        int64_t bytes = base + op_bytes(graph, o);
        if (bytes > found.bytes)
            found = (neap_floor){.bytes = bytes, .op = o};
    }
    return found;
}

void neap_graph_derive_floors(neap_graph *graph)
{
    graph->floor = find_floor(graph, false);
    graph->floor_with_travel = find_floor(graph, true);
}

static int64_t tell(const neap_floor *floor, uint32_t *op)
{
    if (op)
        *op = floor->op;
    return floor->bytes;
}

int64_t neap_graph_floor_bytes(const neap_graph *graph, uint32_t *op)
{
    return tell(&graph->floor, op);
}

int64_t neap_graph_travel_floor_bytes(const neap_graph *graph, uint32_t *op)
{
    return tell(&graph->floor_with_travel, op);
}
