/* Losses that are nodes of the model: cross-entropy against labels that are an input of it. */
#include "onnx/ops.h"

#include "base/fail.h"

#include <string.h>

static bool is_negative_log(const onnx_node *node)
{
    return strcmp(node->type, "NegativeLogLikelihoodLoss") == 0;
}

static neap_status infer_loss(onnx_import *im, const onnx_node *node)
{
    NEAP_TRY(neap_onnx_need(im, node, 2));
    const onnx_shape *scores = &neap_onnx_input(im, node, 0)->shape;
    const onnx_shape *labels = &neap_onnx_input(im, node, 1)->shape;
    bool fits = scores->rank >= 2 && labels->rank == scores->rank - 1;
    for (uint32_t d = 0; fits && d < labels->rank; d++)
        fits = labels->dims[d] == scores->dims[d == 0 ? 0 : d + 1];
    if (!fits || neap_onnx_type_is_float(labels->type))
        return neap_onnx_fail(im, node, "its labels do not fit its scores");
    if (strcmp(neap_onnx_string(node, "reduction", "mean"), "none") == 0)
        return neap_onnx_fail_unsupported(im, node, "neap takes the mean or the sum of its losses");
    const onnx_shape shape = {.type = scores->type};
    if (!is_negative_log(node))
        NEAP_TRY(neap_onnx_set_shape(im, node, 1, scores));
    return neap_onnx_set_shape(im, node, 0, &shape);
}

/* A class that is ignored would be one of those that labels of data have. */
static neap_status check_options(const onnx_import *im, const onnx_node *node)
{
    int64_t ignored = neap_onnx_int(node, "ignore_index", -1);
    if (neap_onnx_input(im, node, 2) ||
        (ignored >= 0 && ignored < neap_onnx_input(im, node, 0)->shape.dims[1]))
        return neap_onnx_fail_unsupported(im, node, "neap weighs all classes alike");
    return NEAP_OK;
}

static neap_status lower_loss(onnx_import *im, const onnx_node *node)
{
    const onnx_value *logs = neap_onnx_output(im, node, 1);
    int64_t count = 0;
    neap_tensor x, labels;
    onnx_view view;
    if (is_negative_log(node)) /* others became a cross-entropy (fuse_layers.c) */
        return neap_onnx_fail_unsupported(im, node,
                                          "neap takes it after a LogSoftmax over dimension 1");
    NEAP_TRY(check_options(im, node));
    NEAP_TRY(neap_onnx_tensor(im, node, node->inputs[0], &x));
    NEAP_TRY(neap_onnx_tensor(im, node, node->inputs[1], &labels));
    neap_tensor loss = neap_net_cross_entropy(im->net, node->name, x, labels);
    if (strcmp(neap_onnx_string(node, "reduction", "mean"), "sum") == 0) {
        neap_onnx_shape_elements(&neap_onnx_input(im, node, 1)->shape, &count);
        loss = neap_net_scale(im->net, node->name, loss, (double)count, 0);
    }
    neap_onnx_view_init(&view, loss, false, 0, NULL);
    neap_onnx_set_view(im, node, 0, &view);
    if (logs && logs->live)
        neap_onnx_set_tensor(im, node, 1, neap_net_log_softmax(im->net, node->name, x, 1));
    return NEAP_OK;
}

const onnx_op neap_onnx_ops_loss[] = {
    {"SoftmaxCrossEntropyLoss", "", infer_loss, NULL, lower_loss},
    {"NegativeLogLikelihoodLoss", "", infer_loss, NULL, lower_loss},
    {0},
};
