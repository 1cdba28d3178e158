/*
 * The two chains of Hong et al., "GPU memory usage optimization for backward propagation in deep
 * network training": every candidate for a checkpoint is one value, the only one its successors
 * read, so that the chain view (neap/chain.h) cuts exactly where the paper's d_1 .. d_n lie; the
 * loss is a last stage after d_n.
 *
 *   VGG-19, n = 24: 16 convolutions with their ReLU, 5 max-pools, 3 fully connected layers. "We
 * exclude the layers of AdaptiveAvgPool2d, Flatten, and Dropout in VGG-19": there are none here.
 *
 *   AlexNet, n = 15: 5 convolutions with ReLU and 3 max-pools, then average pool, flatten, dropout,
 * FC, dropout, FC, FC. The sizes they report (103 MB after the first convolution at batch 128)
 * belong to a variant with padding 5 and 2 x 2 pools.
 *
 *   Plain AlexNet, n = 12: the same network, but a pool belongs to the layer of its convolution and
 * what is between them cannot be a checkpoint (section 5.6.1).
 *
 * A ReLU is fused and in place, as they measured it. A fully connected layer with a fused ReLU is
 * written as the convolution that covers its whole input: the same weights, the same sums.
 */
#include "models/blocks.h"

static neap_tensor conv_relu(neap_network *net, const char *name, neap_tensor x, neap_conv2d conv)
{
    conv.bias = true;
    conv.relu = true;
    return neap_net_conv2d(net, name, x, &conv);
}

/* x: N x C x H x W -> N x features x 1 x 1 */
static neap_tensor fc_relu(neap_network *net, const char *name, neap_tensor x, int64_t features)
{
    const neap_conv2d conv = {.channels = features,
                              .kernel_h = neap_net_dim(net, x, 2),
                              .kernel_w = neap_net_dim(net, x, 3)};
    return conv_relu(net, name, x, conv);
}

/* The last fully connected layer, without a ReLU: N x C x 1 x 1 -> N x classes. */
static neap_tensor fc_last(neap_network *net, const char *name, neap_tensor x,
                           const model_args *args)
{
    x = neap_net_flatten(net, "view", x, 1);
    return neap_net_linear(net, name, x, neap_model_get(args, "classes"), true);
}

/* ---- VGG-19 ---- */

static const neap_model_param vgg19_params[] = {
    PARAM_BATCH(128), PARAM_IMAGE(224, 32), PARAM_IMAGE_W, PARAM_CLASSES(1000), PARAM_WIDTH,
};

static neap_tensor build_vgg19(neap_network *net, const model_args *args)
{
    static const struct {
        int convs;
        int64_t channels;
    } stages[] = {{2, 64}, {2, 128}, {4, 256}, {4, 512}, {4, 512}};
    const neap_pool2d pool = square_pool(2, 2, 0);

    neap_tensor x = neap_block_images(net, args); /* d_0 */
    for (uint32_t s = 0; s < COUNT_OF(stages); s++) {
        neap_net_enter(net, "stage%" PRIu32, s + 1);
        for (int i = 1; i <= stages[s].convs; i++)
            x = conv_relu(net, numbered("conv", i).text, x,
                          square_conv(scaled(args, stages[s].channels), 3, 1, 1));
        x = neap_net_max_pool2d(net, "pool", x, &pool, NULL);
        neap_net_leave(net);
    }
    x = fc_relu(net, "fc1", x, scaled(args, 4096));
    x = fc_relu(net, "fc2", x, scaled(args, 4096));
    x = fc_last(net, "fc3", x, args); /* d_24 */
    return neap_block_class_loss(net, x);
}

const model_family neap_family_hong_vgg19 = {
    .source = "Hong, Tsai, Wang, Liu and Wu, section 5.1; Simonyan and Zisserman 2015",
    HAS_PARAMS(vgg19_params),
    .build = build_vgg19,
};

/* ---- AlexNet ---- */

static const neap_model_param alexnet_params[] = {
    PARAM_BATCH(128),
    PARAM_IMAGE(224, 29),
    PARAM_IMAGE_W,
    PARAM_CLASSES(1000),
    {"dropout_percent", "values dropped in training, in percent", 50, 1, 99},
    PARAM_WIDTH,
};

/* The variants of the family. */
enum { EXTENDED, PLAIN };

/* A convolution with its ReLU and a pool: one layer or two. */
static neap_tensor conv_and_pool(neap_network *net, const model_args *args, neap_tensor x,
                                 const char *conv_name, neap_conv2d conv, const char *pool_name)
{
    const neap_pool2d pool = square_pool(2, 2, 0);
    const bool plain = args->model->variant == PLAIN;
    if (plain)
        neap_net_begin_layer(net);
    x = conv_relu(net, conv_name, x, conv);
    x = neap_net_max_pool2d(net, pool_name, x, &pool, NULL);
    if (plain)
        neap_net_end_layer(net);
    return x;
}

/* The convolutions and pools: d_1 .. d_8; d_1 .. d_5 if plain. */
static neap_tensor build_alexnet_features(neap_network *net, const model_args *args, neap_tensor x)
{
    x = conv_and_pool(net, args, x, "conv1", square_conv(scaled(args, 64), 11, 4, 5), "pool1");
    x = conv_and_pool(net, args, x, "conv2", square_conv(scaled(args, 192), 5, 1, 2), "pool2");
    x = conv_relu(net, "conv3", x, square_conv(scaled(args, 384), 3, 1, 1));
    x = conv_relu(net, "conv4", x, square_conv(scaled(args, 256), 3, 1, 1));
    return conv_and_pool(net, args, x, "conv5", square_conv(scaled(args, 256), 3, 1, 1), "pool3");
}

static neap_tensor build_alexnet(neap_network *net, const model_args *args)
{
    const double drop = dropout_rate(args);
    neap_tensor x = build_alexnet_features(net, args, neap_block_images(net, args));
    x = neap_net_adaptive_avg_pool2d(net, "avgpool", x, 6, 6); /* d_9; d_6 if plain */
    /* The paper counts Flatten as a candidate with data of its own: a copy. */
    x = neap_net_concat(net, "flatten", 1, &x, 1); /* d_10 */
    x = neap_net_dropout(net, "dropout1", x, drop);
    x = fc_relu(net, "fc1", x, scaled(args, 4096));
    x = neap_net_dropout(net, "dropout2", x, drop);
    x = fc_relu(net, "fc2", x, scaled(args, 4096));
    x = fc_last(net, "fc3", x, args); /* d_15 */
    return neap_block_class_loss(net, x);
}

const model_family neap_family_hong_alexnet = {
    .source = "Hong, Tsai, Wang, Liu and Wu, section 5.6; Krizhevsky 2014",
    HAS_PARAMS(alexnet_params),
    .build = build_alexnet,
};
