/*
 * What an export for training, or one for inference, leaves in a graph: random masks that scale
 * whole samples, floats that are no weights, and batch normalizations that disappeared into
 * convolutions.
 */
#include "onnx/import.h"

#include "base/fail.h"
#include "base/name_pattern.h"

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

/* ---- Floats that are no weights ---- */

static bool all_zero(const onnx_tensor *tensor)
{
    for (int64_t i = 0; i < tensor->elements; i++)
        if (neap_onnx_tensor_real(tensor, i) < 0 || neap_onnx_tensor_real(tensor, i) > 0)
            return false;
    return true;
}

/* The initializer is a constant from now on. */
static neap_status make_constant(onnx_import *im, onnx_value *value)
{
    const onnx_tensor *tensor = &im->proto->initializers[value->initializer];
    if (!value->trained || tensor->elements > ONNX_MOST_CONSTANT)
        return NEAP_OK;
    value->trained = false;
    value->constant = neap_onnx_constant_of(im->arena, tensor);
    return value->constant ? NEAP_OK : neap_fail_no_memory(im->diag);
}

/* A first state of zeros is how an exporter writes that there is none. */
static neap_status fix_states(onnx_import *im, const onnx_node *node)
{
    static const char *const types[] = {"LSTM", "GRU", "RNN", NULL};
    if (*node->domain || !is_one_of(node->type, types))
        return NEAP_OK;
    for (uint32_t i = 5; i < 7; i++) {
        onnx_value *value = neap_onnx_input(im, node, i);
        if (value && value->initializer != NEAP_NONE && value->trained &&
            all_zero(&im->proto->initializers[value->initializer]))
            NEAP_TRY(make_constant(im, value));
    }
    return NEAP_OK;
}

/* Whether a node's results have no gradient: it compares, or makes integers of floats. */
static bool has_no_gradient(const onnx_node *node)
{
    static const char *const types[] = {
        "Equal", "Greater", "GreaterOrEqual", "Less",  "LessOrEqual", "And", "Or",
        "Xor",   "Not",     "IsNaN",          "IsInf", NULL};
    if (*node->domain)
        return false;
    if (strcmp(node->type, "Cast") == 0)
        return !neap_onnx_type_is_float((int32_t)neap_onnx_int(node, "to", ONNX_FLOAT));
    return is_one_of(node->type, types);
}

/* What the caller does not want to train. */
static neap_status freeze(onnx_import *im, const char *pattern, uint32_t *frozen)
{
    bool any = false;
    for (size_t v = 0; v < im->n_values; v++) {
        onnx_value *value = &im->values[v];
        if (value->initializer == NEAP_NONE || !neap_name_matches(pattern, value->name))
            continue;
        any = any || neap_onnx_type_is_float(value->shape.type);
        *frozen += value->trained;
        NEAP_TRY(make_constant(im, value));
        if (value->trained)
            return neap_fail(im->diag, NEAP_UNSUPPORTED,
                             "%s: \"%s\" is too large to be frozen: neap takes up to %lld elements",
                             im->source, value->name, (long long)ONNX_MOST_CONSTANT);
    }
    return any ? NEAP_OK
               : neap_fail(im->diag, NEAP_INVALID, "%s: no parameter has a name like \"%s\"",
                           im->source, pattern);
}

neap_status neap_onnx_freeze(onnx_import *im)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < im->options->n_frozen; i++)
        NEAP_TRY(freeze(im, im->options->frozen[i], &count));
    return count > 0 ? neap_onnx_note(im, "%u parameter%s kept as in the file", count,
                                      count > 1 ? "s are" : " is")
                     : NEAP_OK;
}

/*
 * What is compared is no weight: buffers that masks are made from. `data`: values that depend on
 * the model's inputs; `asked`: others that such nodes need.
 */
neap_status neap_onnx_find_buffers(onnx_import *im)
{
    bool *data, *asked;
    if (!NEAP_TAKE(im->arena, im->n_values, data) || !NEAP_TAKE(im->arena, im->n_values, asked))
        return neap_fail_no_memory(im->diag);
    for (size_t v = 0; v < im->n_values; v++)
        data[v] = im->values[v].input != NEAP_NONE && !im->values[v].constant;
    for (size_t n = 0; n < im->n_nodes; n++) {
        const onnx_node *node = &im->nodes[n];
        bool any = makes_random(node);
        NEAP_TRY(fix_states(im, node));
        for (uint32_t i = 0; i < node->n_inputs && !reads_shapes(node); i++)
            any = any || (node->inputs[i] != NEAP_NONE && data[node->inputs[i]]);
        for (uint32_t o = 0; o < node->n_outputs; o++)
            if (node->outputs[o] != NEAP_NONE)
                data[node->outputs[o]] = any;
    }
    for (size_t n = im->n_nodes; n-- > 0;) {
        const onnx_node *node = &im->nodes[n];
        bool wanted = has_no_gradient(node);
        for (uint32_t o = 0; o < node->n_outputs && !wanted; o++)
            wanted = node->outputs[o] != NEAP_NONE && asked[node->outputs[o]];
        for (uint32_t i = 0; i < node->n_inputs && wanted && !reads_shapes(node); i++)
            if (node->inputs[i] != NEAP_NONE)
                asked[node->inputs[i]] = !data[node->inputs[i]];
    }
    for (size_t v = 0; v < im->n_values; v++)
        if (asked[v] && im->values[v].initializer != NEAP_NONE)
            NEAP_TRY(make_constant(im, &im->values[v]));
    return NEAP_OK;
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
