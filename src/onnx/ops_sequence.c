/* Nodes of sequence models: softmax and attention. */
#include "onnx/ops.h"

#include "base/fail.h"

#include <math.h>
#include <string.h>

static neap_status lower_softmax(onnx_import *im, const onnx_node *node)
{
    uint32_t axis, rank = neap_onnx_input(im, node, 0)->shape.rank;
    neap_tensor x;
    NEAP_TRY(neap_onnx_axis(im, node, neap_onnx_int(node, "axis", -1), rank, &axis));
    NEAP_TRY(neap_onnx_tensor(im, node, node->inputs[0], &x));
    neap_onnx_set_tensor(im, node, 0, neap_net_softmax(im->net, node->name, x, axis));
    return NEAP_OK;
}

static neap_status lower_log_softmax(onnx_import *im, const onnx_node *node)
{
    uint32_t axis, rank = neap_onnx_input(im, node, 0)->shape.rank;
    neap_tensor x;
    NEAP_TRY(neap_onnx_axis(im, node, neap_onnx_int(node, "axis", -1), rank, &axis));
    NEAP_TRY(neap_onnx_tensor(im, node, node->inputs[0], &x));
    neap_onnx_set_tensor(im, node, 0, neap_net_log_softmax(im->net, node->name, x, axis));
    return NEAP_OK;
}

const onnx_op neap_onnx_ops_sequence[] = {
    {"Softmax", "", neap_onnx_infer_same, NULL, lower_softmax},
    {"LogSoftmax", "", neap_onnx_infer_same, NULL, lower_log_softmax},
    {0},
};
