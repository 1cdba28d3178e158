/*
 * ViT-B/16: Dosovitskiy et al., "An image is worth 16x16 words: transformers for image recognition
 * at scale" (2021), as torchvision has it: normalization before each half of a layer, the exact
 * GELU, a class token, one projection for query, key and value together.
 */
#include "models/blocks.h"

#define PATCH              16
#define LAYER_NORM_EPSILON 1e-6

static const neap_model_param params[] = {
    PARAM_BATCH(32),  PARAM_IMAGE(224, PATCH), PARAM_IMAGE_W,   PARAM_CLASSES(1000),
    PARAM_LAYERS(12), PARAM_HIDDEN(768),       PARAM_HEADS(12), PARAM_DROPOUT(0),
};

/* Patches as tokens, the class token first: N x (1 + patches) x C. */
static neap_tensor build_tokens(neap_network *net, const model_args *args)
{
    const int64_t batch = neap_model_get(args, "batch");
    const int64_t hidden = neap_model_get(args, "hidden");
    const neap_conv2d conv = square_conv_bias(hidden, PATCH, PATCH, 0);
    const int64_t flat[] = {batch, hidden, -1};
    const int64_t one[] = {1, hidden};
    const int64_t one_each[] = {batch, 1, hidden};

    neap_tensor x = neap_net_conv2d(net, "conv_proj", neap_block_images(net, args), &conv);
    x = neap_net_reshape(net, "patches", x, 3, flat);
    x = neap_net_transpose(net, "tokens", x, 1, 2);
    neap_tensor token = neap_net_parameter(net, "class_token", 2, one);
    const neap_tensor parts[] = {neap_net_expand(net, "class_tokens", token, 3, one_each), x};
    x = neap_net_concat(net, "cat", 2, parts, 1);

    const int64_t positions[] = {neap_net_dim(net, x, 1), hidden};
    neap_tensor position = neap_net_parameter(net, "encoder.pos_embedding", 2, positions);
    return neap_net_add(net, "encoder.add", x, position);
}

/* x: N x S x C */
static neap_tensor encoder_layer(neap_network *net, neap_tensor x, int64_t heads, double drop)
{
    const int64_t hidden = neap_net_dim(net, x, 2);
    neap_tensor y = neap_net_layer_norm(net, "ln_1", x, LAYER_NORM_EPSILON);
    y = neap_net_linear(net, "self_attention.in_proj", y, 3 * hidden, true);
    y = neap_net_attention(net, "self_attention", y, NEAP_NONE, NEAP_NONE, heads, false, 0.0);
    y = neap_net_linear(net, "self_attention.out_proj", y, hidden, true);
    y = neap_net_dropout(net, "dropout", y, drop);
    x = neap_net_add(net, "add_1", y, x);

    y = neap_net_layer_norm(net, "ln_2", x, LAYER_NORM_EPSILON);
    y = neap_net_linear(net, "mlp.0", y, 4 * hidden, true);
    y = neap_net_gelu(net, "mlp.1", y, false);
    y = neap_net_dropout(net, "mlp.2", y, drop);
    y = neap_net_linear(net, "mlp.3", y, hidden, true);
    y = neap_net_dropout(net, "mlp.4", y, drop);
    return neap_net_add(net, "add_2", x, y);
}

static neap_tensor build(neap_network *net, const model_args *args)
{
    if (!neap_block_image_multiple_of(net, args, PATCH) || !neap_block_heads_fit(net, args))
        return NEAP_NONE;
    const double drop = dropout_rate(args);
    const int64_t layers = neap_model_get(args, "layers");
    const int64_t heads = neap_model_get(args, "heads");
    const int64_t flat[] = {neap_model_get(args, "batch"), neap_model_get(args, "classes")};

    neap_tensor x = neap_net_dropout(net, "encoder.dropout", build_tokens(net, args), drop);
    for (int64_t i = 0; i < layers && !neap_network_failed(net); i++) {
        neap_net_enter(net, "encoder.layers.encoder_layer_%" PRId64, i);
        x = encoder_layer(net, x, heads, drop);
        neap_net_leave(net);
    }
    x = neap_net_layer_norm(net, "encoder.ln", x, LAYER_NORM_EPSILON);
    x = neap_net_slice(net, "class", x, 1, 0, 1); /* N x 1 x C */
    x = neap_net_linear(net, "heads.head", x, neap_model_get(args, "classes"), true);
    return neap_block_class_loss(net, neap_net_reshape(net, "logits", x, 2, flat));
}

const model_family neap_family_vit = {
    .source = "Dosovitskiy et al. 2021, arXiv:2010.11929; torchvision",
    HAS_PARAMS(params),
    .build = build,
};
