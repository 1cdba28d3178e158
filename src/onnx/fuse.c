/*
 * Compositions of nodes become one node that neap has an op for. A pattern is looked for from its
 * last node backwards; that node is replaced, and what nothing else reads is not needed any more.
 */
#include "onnx/match.h"

#include "base/fail.h"

static neap_status count_readers(const onnx_import *im, uint32_t **readers)
{
    if (!NEAP_TAKE(im->arena, im->n_values, *readers))
        return neap_fail_no_memory(im->diag);
    for (size_t n = 0; n < im->n_nodes; n++)
        for (uint32_t i = 0; im->nodes[n].live && i < im->nodes[n].n_inputs; i++)
            if (im->nodes[n].inputs[i] != NEAP_NONE)
                (*readers)[im->nodes[n].inputs[i]]++;
    (*readers)[im->output]++;
    return NEAP_OK;
}

neap_status neap_onnx_fuse(onnx_import *im)
{
    uint32_t *readers;
    NEAP_TRY(count_readers(im, &readers));
    for (size_t n = 0; n < im->n_nodes; n++) {
        onnx_node *node = &im->nodes[n];
        bool done = !node->live;
        if (!done)
            NEAP_TRY(neap_onnx_fuse_guard(im, node, &done));
        if (!done)
            NEAP_TRY(neap_onnx_fuse_loss(im, node, &done));
        if (!done)
            NEAP_TRY(neap_onnx_fuse_gelu(im, node, &done));
        if (!done)
            NEAP_TRY(neap_onnx_fuse_silu(im, node, &done));
        if (!done)
            NEAP_TRY(neap_onnx_fuse_layer_norm(im, node, &done));
        if (!done)
            NEAP_TRY(neap_onnx_fuse_linear(im, node, readers, &done));
        if (!done)
            NEAP_TRY(neap_onnx_fuse_attention(im, node, &done));
        if (!done)
            NEAP_TRY(neap_onnx_fuse_lstm(im, node, &done));
    }
    return NEAP_OK;
}
