#include "planners/common/batch_sizes.h"

#include <string.h>

static bool is_read_by_update(const neap_graph *graph, uint32_t value)
{
    uint32_t count;
    const uint32_t *readers = neap_graph_readers(graph, value, &count);
    for (uint32_t i = 0; i < count; i++)
        if (neap_graph_op(graph, readers[i])->n_updates > 0)
            return true;
    return false;
}

bool neap_batch_is_op_fixed(const neap_graph *graph, const bool *is_fixed, uint32_t op)
{
    const neap_op *o = neap_graph_op(graph, op);
    bool reads_gradient = false;
    if (o->n_updates > 0)
        return true;
    for (uint32_t i = 0; i < o->n_inputs; i++) {
        const neap_value *value = neap_graph_value(graph, o->inputs[i]);
        if (!is_fixed[value->storage])
            return false;
        reads_gradient = reads_gradient || strcmp(value->kind, NEAP_KIND_GRADIENT) == 0;
    }
    return reads_gradient;
}

void neap_batch_mark_fixed(const neap_graph *graph, bool *is_fixed)
{
    for (uint32_t v = 0; v < neap_graph_value_count(graph); v++) {
        const neap_value *value = neap_graph_value(graph, v);
        bool parameter = strcmp(value->kind, NEAP_KIND_PARAMETER) == 0;
        bool gradient = strcmp(value->kind, NEAP_KIND_GRADIENT) == 0;
        if (parameter || value->state ||
            (gradient && (neap_graph_is_output(graph, v) || is_read_by_update(graph, v))))
            is_fixed[value->storage] = true;
    }
    for (uint32_t o = 0; o < neap_graph_op_count(graph); o++) {
        const neap_op *op = neap_graph_op(graph, o);
        for (uint32_t i = 0; i < op->n_outputs && neap_batch_is_op_fixed(graph, is_fixed, o); i++)
            is_fixed[neap_graph_value(graph, op->outputs[i])->storage] = true;
    }
}
