/* The table of node types. */
#include "onnx/ops.h"

#include "base/fail.h"

#include <string.h>

static const onnx_op *const tables[] = {
    neap_onnx_ops_view,        neap_onnx_ops_select,         neap_onnx_ops_constant,
    neap_onnx_ops_elementwise, neap_onnx_ops_conv,           neap_onnx_ops_norm,
    neap_onnx_ops_linear,      neap_onnx_ops_reduce,         neap_onnx_ops_sequence,
    neap_onnx_ops_attention,   neap_onnx_ops_unary,          neap_onnx_ops_lstm,
    neap_onnx_ops_resize,      neap_onnx_ops_pool,           neap_onnx_ops_pick,
    neap_onnx_ops_einsum,      neap_onnx_ops_attention_node, neap_onnx_ops_gru,
    neap_onnx_ops_loss,        neap_onnx_ops_composed,
};

const onnx_op *neap_onnx_op_find(const char *type, const char *domain)
{
    for (size_t t = 0; t < sizeof tables / sizeof *tables; t++)
        for (const onnx_op *op = tables[t]; op->type; op++)
            if (strcmp(op->type, type) == 0 && strcmp(op->domain, domain) == 0)
                return op;
    return NULL;
}

neap_status neap_onnx_need(const onnx_import *im, const onnx_node *node, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (!neap_onnx_input(im, node, i))
            return neap_onnx_fail(im, node, "it lacks its input %u", i);
    return NEAP_OK;
}

neap_status neap_onnx_infer_same(onnx_import *im, const onnx_node *node)
{
    NEAP_TRY(neap_onnx_need(im, node, 1));
    return neap_onnx_set_shape(im, node, 0, &neap_onnx_input(im, node, 0)->shape);
}

neap_tensor neap_onnx_rows(onnx_import *im, const onnx_node *node, neap_tensor x, int64_t width)
{
    uint32_t rank = neap_net_rank(im->net, x);
    if (rank == 0 || neap_net_dim(im->net, x, rank - 1) == width)
        return x;
    return neap_net_reshape(im->net, node->name, x, 2, (int64_t[]){-1, width});
}
