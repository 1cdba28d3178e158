/*
 * VGG: stacks of 3 x 3 convolutions between 2 x 2 max-pools. Simonyan and Zisserman, "Very deep
 * convolutional networks for large-scale image recognition" (2015), as torchvision has it, with
 * batch normalization on request.
 */
#include "models/blocks.h"

static const neap_model_param params[] = {
    PARAM_BATCH(32),
    PARAM_IMAGE(224, 32),
    PARAM_IMAGE_W,
    PARAM_CLASSES(1000),
    PARAM_DROPOUT(50),
    PARAM_WIDTH,
    {"batch_norm", "1: batch normalization after each convolution", 0, 0, 1},
};

#define N_STAGES 5

static const int64_t stage_channels[N_STAGES] = {64, 128, 256, 512, 512};

/* Convolutions of each stage, by the number of layers with weights. */
static const struct vgg {
    int64_t depth;
    int convs[N_STAGES];
} configs[] = {
    {11, {1, 1, 2, 2, 2}}, /* A */
    {16, {2, 2, 3, 3, 3}}, /* D */
    {19, {2, 2, 4, 4, 4}}, /* E */
};

static const struct vgg *find_config(int64_t depth)
{
    uint32_t i = 0;
    while (i + 1 < COUNT_OF(configs) && configs[i].depth != depth)
        i++;
    return &configs[i];
}

static neap_tensor build_features(neap_network *net, const model_args *args, neap_tensor x)
{
    const struct vgg *config = find_config(args->model->variant);
    const bool batch_norm = neap_model_get(args, "batch_norm") != 0;
    const neap_pool2d pool = square_pool(2, 2, 0);
    int index = 0;
    neap_net_enter(net, "features");
    for (int stage = 0; stage < N_STAGES; stage++) {
        const neap_conv2d conv = square_conv_bias(scaled(args, stage_channels[stage]), 3, 1, 1);
        for (int i = 0; i < config->convs[stage]; i++) {
            x = neap_net_conv2d(net, numbered("", index++).text, x, &conv);
            if (batch_norm)
                x = neap_net_batch_norm(net, numbered("", index++).text, x, BATCH_NORM_EPSILON);
            x = neap_net_relu(net, numbered("", index++).text, x);
        }
        x = neap_net_max_pool2d(net, numbered("", index++).text, x, &pool, NULL);
    }
    neap_net_leave(net);
    return x;
}

static neap_tensor build(neap_network *net, const model_args *args)
{
    const double drop = dropout_rate(args);
    const int64_t hidden = scaled(args, 4096);
    neap_tensor x = build_features(net, args, neap_block_images(net, args));
    x = neap_net_adaptive_avg_pool2d(net, "avgpool", x, 7, 7);
    x = neap_net_flatten(net, "flatten", x, 1);

    neap_net_enter(net, "classifier");
    x = neap_net_relu(net, "1", neap_net_linear(net, "0", x, hidden, true));
    x = neap_net_dropout(net, "2", x, drop);
    x = neap_net_relu(net, "4", neap_net_linear(net, "3", x, hidden, true));
    x = neap_net_dropout(net, "5", x, drop);
    x = neap_net_linear(net, "6", x, neap_model_get(args, "classes"), true);
    neap_net_leave(net);
    return neap_block_class_loss(net, x);
}

const model_family neap_family_vgg = {
    .source = "Simonyan and Zisserman 2015, arXiv:1409.1556; torchvision",
    HAS_PARAMS(params),
    .build = build,
};
