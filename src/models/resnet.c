/*
 * ResNet: He, Zhang, Ren and Sun, "Deep residual learning for image recognition" (2016), as
 * torchvision has it: in a bottleneck the 3 x 3 convolution carries the stride. With norm_groups,
 * group normalisation takes the place of batch normalisation: Wu and He, "Group normalization"
 * (2018).
 */
#include "models/blocks.h"

static const neap_model_param params[] = {
    PARAM_BATCH(32),
    PARAM_IMAGE(224, 1),
    PARAM_IMAGE_W,
    PARAM_CLASSES(1000),
    PARAM_WIDTH,
    {"norm_groups", "groups of channels for group normalisation; 0: batch normalisation", 0, 0,
     1 << 12},
};

#define N_STAGES 4

static const struct resnet {
    int64_t depth;
    bool bottleneck;
    int blocks[N_STAGES];
} configs[] = {
    {18, false, {2, 2, 2, 2}},  {34, false, {3, 4, 6, 3}},  {50, true, {3, 4, 6, 3}},
    {101, true, {3, 4, 23, 3}}, {152, true, {3, 8, 36, 3}},
};

static const struct resnet *find_config(int64_t depth)
{
    uint32_t i = 0;
    while (i + 1 < COUNT_OF(configs) && configs[i].depth != depth)
        i++;
    return &configs[i];
}

/* Convolution and normalisation. */
static neap_tensor conv_norm(neap_network *net, const model_args *args, const char *conv_name,
                             const char *norm_name, neap_tensor x, neap_conv2d conv)
{
    int64_t groups = neap_model_get(args, "norm_groups");
    if (!groups)
        return neap_block_conv_bn(net, conv_name, norm_name, x, conv);
    x = neap_net_conv2d(net, conv_name, x, &conv);
    return neap_net_group_norm(net, norm_name, x, groups, BATCH_NORM_EPSILON);
}

/* Two 3 x 3 convolutions. */
static neap_tensor basic(neap_network *net, const model_args *args, neap_tensor x, int64_t width,
                         int64_t stride)
{
    x = conv_norm(net, args, "conv1", "bn1", x, square_conv(width, 3, stride, 1));
    x = neap_net_relu(net, "relu1", x);
    return conv_norm(net, args, "conv2", "bn2", x, square_conv(width, 3, 1, 1));
}

/* A 3 x 3 convolution between two of 1 x 1. */
static neap_tensor bottleneck(neap_network *net, const model_args *args, neap_tensor x,
                              int64_t width, int64_t stride)
{
    x = conv_norm(net, args, "conv1", "bn1", x, square_conv(width, 1, 1, 0));
    x = neap_net_relu(net, "relu1", x);
    x = conv_norm(net, args, "conv2", "bn2", x, square_conv(width, 3, stride, 1));
    x = neap_net_relu(net, "relu2", x);
    return conv_norm(net, args, "conv3", "bn3", x, square_conv(4 * width, 1, 1, 0));
}

static neap_tensor residual_block(neap_network *net, const model_args *args, neap_tensor x,
                                  int64_t width, int64_t stride)
{
    const struct resnet *config = find_config(args->model->variant);
    const int64_t channels = config->bottleneck ? 4 * width : width;
    neap_tensor y = (config->bottleneck ? bottleneck : basic)(net, args, x, width, stride);
    if (stride != 1 || neap_net_dim(net, x, 1) != channels)
        x = conv_norm(net, args, "downsample.0", "downsample.1", x,
                      square_conv(channels, 1, stride, 0));
    return neap_net_relu(net, "relu", neap_net_add(net, "add", y, x));
}

static neap_tensor build(neap_network *net, const model_args *args)
{
    const struct resnet *config = find_config(args->model->variant);
    const neap_pool2d pool = square_pool(3, 2, 1);

    neap_tensor x = neap_block_images(net, args);
    x = conv_norm(net, args, "conv1", "bn1", x, square_conv(scaled(args, 64), 7, 2, 3));
    x = neap_net_relu(net, "relu", x);
    x = neap_net_max_pool2d(net, "maxpool", x, &pool, NULL);
    for (int stage = 0; stage < N_STAGES; stage++) {
        for (int block = 0; block < config->blocks[stage]; block++) {
            neap_net_enter(net, "layer%d.%d", stage + 1, block);
            x = residual_block(net, args, x, scaled(args, INT64_C(64) << stage),
                               stage > 0 && block == 0 ? 2 : 1);
            neap_net_leave(net);
        }
    }
    x = neap_block_global_pool(net, "avgpool", x);
    x = neap_net_linear(net, "fc", x, neap_model_get(args, "classes"), true);
    return neap_block_class_loss(net, x);
}

const model_family neap_family_resnet = {
    .source = "He, Zhang, Ren and Sun 2016, arXiv:1512.03385; torchvision",
    HAS_PARAMS(params),
    .build = build,
};
