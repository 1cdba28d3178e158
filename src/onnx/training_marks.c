/*
 * What an export for training, or one for inference, leaves in a graph: random masks that scale
 * whole samples, and batch normalizations that disappeared into convolutions.
 */
#include "onnx/import.h"

#include "base/fail.h"

#include <string.h>

/* ---- Random masks ---- */

/* What a value is computed from. */
typedef struct origin {
    bool random; /* random numbers */
    bool data;   /* the model's inputs, not only their shapes */
} origin;

static bool is_one_of(const char *type, const char *const *types)
{
    while (*types && strcmp(*types, type) != 0)
        types++;
    return *types != NULL;
}

static bool makes_random(const onnx_node *node)
{
    static const char *const types[] = {"RandomUniformLike", "RandomUniform", "RandomNormalLike",
                                        "RandomNormal",      "Bernoulli",     NULL};
    return !*node->domain && is_one_of(node->type, types);
}

static bool reads_shapes(const onnx_node *node)
{
    static const char *const types[] = {"Shape", "Size", "ConstantOfShape", NULL};
    return is_one_of(node->type, types);
}

static origin origin_of(const onnx_import *im, const onnx_node *node, const origin *origins)
{
    origin o = {.random = makes_random(node)};
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        const onnx_value *value = neap_onnx_input(im, node, i);
        if (!value || reads_shapes(node))
            continue;
        o.random = o.random || origins[node->inputs[i]].random;
        o.data = o.data || (!makes_random(node) && (origins[node->inputs[i]].data));
    }
    return o;
}

/* Data times a random mask: stochastic depth. The mask goes, as a dropout's does. */
static bool unmask(onnx_node *node, const origin *origins)
{
    if (*node->domain || strcmp(node->type, "Mul") != 0 || node->n_inputs != 2)
        return false;
    for (uint32_t i = 0; i < 2; i++) {
        uint32_t mask = node->inputs[i], data = node->inputs[1 - i];
        if (mask == NEAP_NONE || data == NEAP_NONE || !origins[mask].random || origins[mask].data ||
            !origins[data].data || origins[data].random)
            continue;
        node->inputs[0] = data;
        node->n_inputs = 1;
        node->type = "Identity";
        node->op = neap_onnx_op_find("Identity", "");
        return true;
    }
    return false;
}

neap_status neap_onnx_remove_masks(onnx_import *im)
{
    origin *origins;
    uint32_t count = 0;
    bool any = false;
    for (size_t n = 0; n < im->n_nodes && !any; n++)
        any = makes_random(&im->nodes[n]);
    if (!any)
        return NEAP_OK;
    if (!NEAP_TAKE(im->arena, im->n_values, origins))
        return neap_fail_no_memory(im->diag);
    for (size_t v = 0; v < im->n_values; v++)
        origins[v].data = im->values[v].input != NEAP_NONE;
    for (size_t n = 0; n < im->n_nodes; n++) {
        onnx_node *node = &im->nodes[n];
        count += unmask(node, origins);
        origin o = origin_of(im, node, origins);
        for (uint32_t i = 0; i < node->n_outputs; i++)
            if (node->outputs[i] != NEAP_NONE)
                origins[node->outputs[i]] = o;
    }
    if (count == 0)
        return NEAP_OK;
    return neap_onnx_note(im, "%u random masks of whole samples (stochastic depth) do nothing",
                          count);
}

/* ---- Folded batch normalizations ---- */

static bool ends_with(const char *text, const char *end)
{
    size_t length = strlen(text), tail = strlen(end);
    return length >= tail && strcmp(text + length - tail, end) == 0;
}

/* Whether a bias has the name that a layer would give it: that of its weight, with "bias". */
static bool is_own_bias(const char *weight, const char *bias)
{
    size_t stem = strlen(weight) - strlen("weight");
    return ends_with(weight, "weight") && strncmp(weight, bias, stem) == 0 &&
           strcmp(bias + stem, "bias") == 0;
}

neap_status neap_onnx_note_folded(onnx_import *im)
{
    uint32_t made = 0;
    for (size_t n = 0; n < im->n_nodes; n++) {
        const onnx_node *node = &im->nodes[n];
        const onnx_value *weight = neap_onnx_input(im, node, 1), *bias;
        if (!node->live || *node->domain || strcmp(node->type, "Conv") != 0 || !weight)
            continue;
        bias = neap_onnx_input(im, node, 2);
        made += bias && bias->initializer != NEAP_NONE && !is_own_bias(weight->name, bias->name);
    }
    if (made == 0 || im->batch_norms[0] + im->batch_norms[1] > 0)
        return NEAP_OK;
    return neap_onnx_note(im,
                          "%u convolutions have biases that the exporter made: batch "
                          "normalizations it folded into them stay folded",
                          made);
}
