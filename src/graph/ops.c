/* The table of op types, and the counting that is the same for all. */
#include "base/checked.h"
#include "graph/network_internal.h"

#include <string.h>

#define X(type) extern const op_def neap_op_##type;
#include "graph/ops.def"
#undef X

static const op_def *const table[] = {
#define X(type) &neap_op_##type,
#include "graph/ops.def"
#undef X
};
#define N_TYPES (sizeof table / sizeof *table)

size_t neap_op_def_index(const char *type)
{
    size_t i = 0;
    while (i < N_TYPES && strcmp(table[i]->type, type) != 0)
        i++;
    return i;
}

const op_def *neap_op_def_find(const char *type)
{
    size_t i = neap_op_def_index(type);
    return i < N_TYPES ? table[i] : NULL;
}

const op_def *neap_op_def_at(size_t index, size_t *count)
{
    *count = N_TYPES;
    return index < N_TYPES ? table[index] : NULL;
}

int64_t neap_count_mul(int64_t a, int64_t b)
{
    int64_t product;
    return neap_mul_i64(a, b, &product) ? product : INT64_MAX;
}

int64_t neap_count_add(int64_t a, int64_t b)
{
    int64_t sum;
    return neap_add_i64(a, b, &sum) ? sum : INT64_MAX;
}

int64_t neap_count_elements(const op_shape *shape)
{
    int64_t elements = 1;
    for (uint32_t d = 0; d < shape->rank; d++)
        elements = neap_count_mul(elements, shape->shape[d]);
    return elements;
}

static bool get_shape(const neap_value *value, op_shape *shape)
{
    if (value->rank == 0 || value->rank > NEAP_MAX_RANK || value->dtype == NEAP_DTYPE_UNKNOWN)
        return false;
    shape->dtype = value->dtype;
    shape->rank = value->rank;
    memcpy(shape->shape, value->shape, value->rank * sizeof *value->shape);
    return true;
}

/* Fills in the shapes of up to OP_VIEW_LIMIT operands and sums the bytes of all. */
static bool get_shapes(const neap_graph *graph, const uint32_t *ids, uint32_t count,
                       op_shape *shapes, uint32_t *n_shapes, int64_t *elements, int64_t *bytes)
{
    *n_shapes = 0;
    for (uint32_t i = 0; i < count; i++) {
        op_shape shape = {0};
        if (!get_shape(&graph->values[ids[i]], &shape))
            return false;
        *elements = neap_count_add(*elements, neap_count_elements(&shape));
        *bytes = neap_count_add(
            *bytes, neap_count_mul(neap_count_elements(&shape), neap_dtype_bytes(shape.dtype)));
        if (i < OP_VIEW_LIMIT)
            shapes[(*n_shapes)++] = shape;
    }
    return true;
}

neap_op_count neap_op_count_work(const neap_graph *graph, uint32_t id)
{
    const neap_op *op = &graph->ops[id];
    const op_def *def = neap_op_def_find(op->type);
    neap_op_count count = {0};
    op_shapes shapes = {.op = op};
    op_shape updated[OP_VIEW_LIMIT];
    uint32_t n_updated;
    int64_t others = 0;
    if (!def || op->n_inputs < neap_op_least_inputs(def->form) ||
        (op->n_outputs == 0 && op->n_updates == 0) ||
        !get_shapes(graph, op->inputs, op->n_inputs, shapes.inputs, &shapes.n_inputs,
                    &shapes.in_elements, &count.bytes_moved) ||
        !get_shapes(graph, op->outputs, op->n_outputs, shapes.outputs, &shapes.n_outputs, &others,
                    &count.bytes_moved) ||
        !get_shapes(graph, op->updates, op->n_updates, updated, &n_updated, &others,
                    &count.bytes_moved))
        return (neap_op_count){0};
    count.known = true;
    if (def->view) {
        count.bytes_moved = 0;
    } else if (def->count) {
        def->count(&shapes, &count);
        count.flops = neap_count_add(count.flops, neap_count_mul(2, count.macs));
    } else if (op->n_outputs > 0) {
        count.flops =
            neap_count_mul(def->flops_per_element, neap_count_elements(&shapes.outputs[0]));
    }
    return count;
}
