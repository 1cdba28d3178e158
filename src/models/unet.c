/*
 * U-Net: Ronneberger, Fischer and Brox, "U-Net: convolutional networks for biomedical image
 * segmentation" (2015), with padding that keeps height and width, batch normalization, and learned
 * 2 x 2 transposed convolutions to go up. The skips live from the first layers to the last: the
 * hard case for chain methods.
 */
#include "models/blocks.h"

#define N_LEVELS     4 /* halvings */
#define LEAST_FACTOR (1 << N_LEVELS)

static const neap_model_param params[] = {
    PARAM_BATCH(8), PARAM_IMAGE(416, LEAST_FACTOR), PARAM_IMAGE_W, PARAM_CLASSES(2), PARAM_WIDTH,
};

/* Two 3 x 3 convolutions, each normalized, with ReLU. */
static neap_tensor double_conv(neap_network *net, neap_tensor x, int64_t channels)
{
    const neap_conv2d conv = square_conv(channels, 3, 1, 1);
    neap_net_enter(net, "double_conv");
    x = neap_net_relu(net, "2", neap_block_conv_bn(net, "0", "1", x, conv));
    x = neap_net_relu(net, "5", neap_block_conv_bn(net, "3", "4", x, conv));
    neap_net_leave(net);
    return x;
}

/* Doubles height and width, goes down to `channels`, and joins the skip of that size. */
static neap_tensor up(neap_network *net, neap_tensor x, neap_tensor skip, int64_t channels)
{
    const neap_conv2d conv = square_conv_bias(channels, 2, 2, 0);
    x = neap_net_conv_transpose2d(net, "up", x, &conv);
    const neap_tensor parts[] = {skip, x};
    x = neap_net_concat(net, "cat", 2, parts, 1);
    return double_conv(net, x, channels);
}

static neap_tensor build(neap_network *net, const model_args *args)
{
    if (!neap_block_image_multiple_of(net, args, LEAST_FACTOR))
        return NEAP_NONE;
    const neap_pool2d pool = square_pool(2, 2, 0);
    const neap_conv2d out = square_conv_bias(neap_model_get(args, "classes"), 1, 1, 0);
    neap_tensor skips[N_LEVELS];

    neap_tensor x = neap_block_images(net, args);
    neap_net_enter(net, "inc");
    x = double_conv(net, x, scaled(args, 64));
    neap_net_leave(net);
    for (int level = 0; level < N_LEVELS; level++) {
        skips[level] = x;
        neap_net_enter(net, "down%d", level + 1);
        x = neap_net_max_pool2d(net, "pool", x, &pool, NULL);
        x = double_conv(net, x, scaled(args, INT64_C(128) << level));
        neap_net_leave(net);
    }
    for (int level = N_LEVELS; level-- > 0;) {
        neap_net_enter(net, "up%d", N_LEVELS - level);
        x = up(net, x, skips[level], scaled(args, INT64_C(64) << level));
        neap_net_leave(net);
    }
    return neap_block_pixel_loss(net, neap_net_conv2d(net, "outc.conv", x, &out));
}

const model_family neap_family_unet = {
    .source = "Ronneberger, Fischer and Brox 2015, arXiv:1505.04597",
    HAS_PARAMS(params),
    .build = build,
};
