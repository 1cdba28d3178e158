/*
 * Some exporters write weights as Constant nodes. In a file without initializers of floating-point
 * numbers, Constant nodes with a tensor of them become initializers, so that all that holds for
 * those holds for them: they are trained, and saved where they were.
 *
 * Where a file has such initializers, its Constant nodes stay constants: they are numbers that the
 * model's author wrote into the code.
 */
#include "onnx/file.h"

#include "base/fail.h"

#include <string.h>

static bool may_be_weight(const onnx_tensor *tensor)
{
    return neap_onnx_type_is_float(tensor->type) && tensor->elements > 1;
}

/* The tensor of a Constant node that may be a weight, else NULL. */
static const onnx_tensor *weight_of(const onnx_proto_node *node)
{
    if (strcmp(node->type, "Constant") != 0 || *node->domain || node->n_attributes != 1 ||
        node->n_outputs != 1)
        return NULL;
    const onnx_attribute *value = &node->attributes[0];
    return value->kind == ATTRIBUTE_TENSOR && may_be_weight(value->tensor) ? value->tensor : NULL;
}

neap_status neap_onnx_take_constant_weights(neap_arena *arena, onnx_proto *proto, neap_diag *diag)
{
    size_t count = 0, n_nodes = 0, n = proto->n_initializers;
    onnx_proto_node *nodes;
    onnx_tensor *initializers;
    for (size_t i = 0; i < proto->n_initializers; i++)
        if (may_be_weight(&proto->initializers[i]))
            return NEAP_OK;
    for (size_t i = 0; i < proto->n_nodes; i++)
        count += weight_of(&proto->nodes[i]) != NULL;
    if (count == 0)
        return NEAP_OK;
    if (!NEAP_TAKE(arena, proto->n_nodes, nodes) || !NEAP_TAKE(arena, n + count, initializers))
        return neap_fail_no_memory(diag);
    if (n > 0)
        memcpy(initializers, proto->initializers, n * sizeof *initializers);
    for (size_t i = 0; i < proto->n_nodes; i++) {
        const onnx_proto_node *node = &proto->nodes[i];
        const onnx_tensor *weight = weight_of(node);
        if (weight) {
            initializers[n] = *weight;
            initializers[n++].name = node->outputs[0];
        } else {
            nodes[n_nodes++] = *node;
        }
    }
    proto->nodes = nodes;
    proto->n_nodes = n_nodes;
    proto->initializers = initializers;
    proto->n_initializers = n;
    proto->n_constant_weights = count;
    return NEAP_OK;
}
