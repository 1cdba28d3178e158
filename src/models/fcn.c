/*
 * FCN-8s: Long, Shelhamer and Darrell, "Fully convolutional networks for semantic segmentation"
 * (2015), on VGG-16. The paper pads the first convolution by 100 and crops at the end; here fc6
 * keeps height and width, so that all sizes stay multiples and nothing is cropped. Dropout is
 * theirs; the transposed convolutions are learned.
 */
#include "models/blocks.h"

#define N_STAGES    5
#define LEAST_IMAGE (1 << N_STAGES)

static const neap_model_param params[] = {
    PARAM_BATCH(8),    PARAM_IMAGE(416, LEAST_IMAGE),
    PARAM_IMAGE_W,     PARAM_CLASSES(21),
    PARAM_DROPOUT(50), PARAM_WIDTH,
};

static neap_tensor conv_relu(neap_network *net, const char *name, const char *relu_name,
                             neap_tensor x, neap_conv2d conv)
{
    conv.bias = true;
    return neap_net_relu(net, relu_name, neap_net_conv2d(net, name, x, &conv));
}

/* The five stages of VGG-16; pools[s] is what leaves stage s. */
static void build_features(neap_network *net, const model_args *args, neap_tensor x,
                           neap_tensor pools[N_STAGES])
{
    static const int convs[N_STAGES] = {2, 2, 3, 3, 3};
    static const int64_t channels[N_STAGES] = {64, 128, 256, 512, 512};
    const neap_pool2d pool = square_pool(2, 2, 0);
    for (int s = 0; s < N_STAGES; s++) {
        neap_net_enter(net, "stage%d", s + 1);
        for (int i = 1; i <= convs[s]; i++)
            x = conv_relu(net, numbered("conv", i).text, numbered("relu", i).text, x,
                          square_conv(scaled(args, channels[s]), 3, 1, 1));
        x = pools[s] = neap_net_max_pool2d(net, "pool", x, &pool, NULL);
        neap_net_leave(net);
    }
}

/* Scores of x, `factor` times as high and wide, by a learned transposed convolution. */
static neap_tensor upscore(neap_network *net, const char *name, neap_tensor x, int64_t factor)
{
    const neap_conv2d conv = square_conv(neap_net_dim(net, x, 1), 2 * factor, factor, factor / 2);
    return neap_net_conv_transpose2d(net, name, x, &conv);
}

static neap_tensor build(neap_network *net, const model_args *args)
{
    if (!neap_block_image_multiple_of(net, args, LEAST_IMAGE))
        return NEAP_NONE;
    const double drop = dropout_rate(args);
    const neap_conv2d score = square_conv_bias(neap_model_get(args, "classes"), 1, 1, 0);
    neap_tensor pools[N_STAGES];
    build_features(net, args, neap_block_images(net, args), pools);

    neap_tensor x =
        conv_relu(net, "fc6", "relu6", pools[4], square_conv(scaled(args, 4096), 7, 1, 3));
    x = neap_net_dropout(net, "drop6", x, drop);
    x = conv_relu(net, "fc7", "relu7", x, square_conv(scaled(args, 4096), 1, 1, 0));
    x = neap_net_dropout(net, "drop7", x, drop);
    x = neap_net_conv2d(net, "score_fr", x, &score);

    x = upscore(net, "upscore2", x, 2);
    x = neap_net_add(net, "fuse_pool4", x, neap_net_conv2d(net, "score_pool4", pools[3], &score));
    x = upscore(net, "upscore_pool4", x, 2);
    x = neap_net_add(net, "fuse_pool3", x, neap_net_conv2d(net, "score_pool3", pools[2], &score));
    x = upscore(net, "upscore8", x, 8);
    return neap_block_pixel_loss(net, x);
}

const model_family neap_family_fcn8 = {
    .source = "Long, Shelhamer and Darrell 2015, arXiv:1411.4038",
    HAS_PARAMS(params),
    .build = build,
};
