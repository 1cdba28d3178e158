/*
 * AlexNet in the single-column form of Krizhevsky, "One weird trick for parallelizing convolutional
 * neural networks" (2014), as torchvision has it.
 */
#include "models/blocks.h"

static const neap_model_param params[] = {
    PARAM_BATCH(32),     PARAM_IMAGE(224, 63), PARAM_IMAGE_W,
    PARAM_CLASSES(1000), PARAM_DROPOUT(50),    PARAM_WIDTH,
};

/* A convolution of `features`, its ReLU, and whether a 3 x 3 / 2 max-pool follows. */
static const struct feature {
    int64_t channels, kernel, stride, pad;
    bool pool;
} features[] = {
    {64, 11, 4, 2, true},  {192, 5, 1, 2, true}, {384, 3, 1, 1, false},
    {256, 3, 1, 1, false}, {256, 3, 1, 1, true},
};

static neap_tensor build_features(neap_network *net, const model_args *args, neap_tensor x)
{
    const neap_pool2d pool = square_pool(3, 2, 0);
    int index = 0;
    neap_net_enter(net, "features");
    for (uint32_t i = 0; i < COUNT_OF(features); i++) {
        const struct feature *f = &features[i];
        neap_conv2d conv =
            square_conv_bias(scaled(args, f->channels), f->kernel, f->stride, f->pad);
        x = neap_net_conv2d(net, numbered("", index++).text, x, &conv);
        x = neap_net_relu(net, numbered("", index++).text, x);
        if (f->pool)
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
    x = neap_net_adaptive_avg_pool2d(net, "avgpool", x, 6, 6);
    x = neap_net_flatten(net, "flatten", x, 1);

    neap_net_enter(net, "classifier");
    x = neap_net_dropout(net, "0", x, drop);
    x = neap_net_relu(net, "2", neap_net_linear(net, "1", x, hidden, true));
    x = neap_net_dropout(net, "3", x, drop);
    x = neap_net_relu(net, "5", neap_net_linear(net, "4", x, hidden, true));
    x = neap_net_linear(net, "6", x, neap_model_get(args, "classes"), true);
    neap_net_leave(net);
    return neap_block_class_loss(net, x);
}

const model_family neap_family_alexnet = {
    .source = "Krizhevsky 2014, arXiv:1404.5997; torchvision",
    HAS_PARAMS(params),
    .build = build,
};
