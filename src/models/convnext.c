/*
 * ConvNeXt: Liu et al., "A ConvNet for the 2020s" (2022), as torchvision has it: depthwise
 * convolutions of 7 x 7, layer normalization over channels, the exact GELU, a scale for the
 * channels of each block. Stochastic depth is left out.
 */
#include "models/blocks.h"

#define LAYER_NORM_EPSILON 1e-6

enum { STAGES = 4, STEM = 4, HALVINGS = 8 /* by the convolutions between stages */ };

static const neap_model_param params[] = {
    PARAM_BATCH(32),     PARAM_IMAGE(224, STEM *HALVINGS), PARAM_IMAGE_W, PARAM_WIDTH,
    PARAM_CLASSES(1000),
};

static const uint32_t to_last[] = {0, 2, 3, 1}, to_first[] = {0, 3, 1, 2};

/* N x C x H x W, normalized over C. */
static neap_tensor channel_norm(neap_network *net, const char *name, neap_tensor x)
{
    neap_net_enter(net, "%s", name);
    x = neap_net_permute(net, "permute", x, to_last);
    neap_net_leave(net);
    x = neap_net_layer_norm(net, name, x, LAYER_NORM_EPSILON);
    neap_net_enter(net, "%s", name);
    x = neap_net_permute(net, "back", x, to_first);
    neap_net_leave(net);
    return x;
}

/* x: N x C x H x W */
static neap_tensor block(neap_network *net, neap_tensor x)
{
    const int64_t channels = neap_net_dim(net, x, 1);
    const neap_conv2d conv = {.channels = channels,
                              .kernel_h = 7,
                              .kernel_w = 7,
                              .pad_h = 3,
                              .pad_w = 3,
                              .groups = channels,
                              .bias = true};
    neap_tensor y = neap_net_conv2d(net, "block.0", x, &conv);
    y = neap_net_permute(net, "block.1", y, to_last);
    y = neap_net_layer_norm(net, "block.2", y, LAYER_NORM_EPSILON);
    y = neap_net_linear(net, "block.3", y, 4 * channels, true);
    y = neap_net_gelu(net, "block.4", y, false);
    y = neap_net_linear(net, "block.5", y, channels, true);
    y = neap_net_mul(net, "scale", y, neap_net_parameter(net, "layer_scale", 1, &channels));
    y = neap_net_permute(net, "block.6", y, to_first);
    return neap_net_add(net, "add", y, x);
}

static neap_tensor build(neap_network *net, const model_args *args)
{
    static const int64_t depths[STAGES] = {3, 3, 9, 3}, channels[STAGES] = {96, 192, 384, 768};
    if (!neap_block_image_multiple_of(net, args, STEM * HALVINGS))
        return NEAP_NONE;
    neap_tensor x = neap_block_images(net, args);
    for (int64_t s = 0; s < STAGES; s++) {
        int64_t patch = s == 0 ? STEM : 2;
        const neap_conv2d conv = square_conv_bias(scaled(args, channels[s]), patch, patch, 0);
        neap_net_enter(net, "features.%" PRId64, 2 * s);
        x = s > 0 ? channel_norm(net, "0", x) : x;
        x = neap_net_conv2d(net, s == 0 ? "0" : "1", x, &conv);
        x = s == 0 ? channel_norm(net, "1", x) : x;
        neap_net_leave(net);
        for (int64_t i = 0; i < depths[s] && !neap_network_failed(net); i++) {
            neap_net_enter(net, "features.%" PRId64 ".%" PRId64, 2 * s + 1, i);
            x = block(net, x);
            neap_net_leave(net);
        }
    }
    x = neap_block_global_pool(net, "avgpool", x);
    x = neap_net_layer_norm(net, "classifier.0", x, LAYER_NORM_EPSILON);
    x = neap_net_linear(net, "classifier.2", x, neap_model_get(args, "classes"), true);
    return neap_block_class_loss(net, x);
}

const model_family neap_family_convnext = {
    .source = "Liu et al. 2022, arXiv:2201.03545; torchvision",
    HAS_PARAMS(params),
    .build = build,
};
