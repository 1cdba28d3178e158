/*
 * MobileNet: convolutions split into a depthwise one (a kernel a channel) and a pointwise one (1 x
 * 1).
 *
 *   v1: Howard et al., "MobileNets: efficient convolutional neural networks for mobile vision
 * applications" (2017), table 1, ReLU. v2: Sandler, Howard, Zhu, Zhmoginov and Chen,
 * "MobileNetV2: inverted residuals and linear bottlenecks" (2018), as torchvision has it, ReLU6.
 *
 * `width` is the papers' multiplier, of every layer; torchvision leaves the last convolution of a
 * narrow v2 as it is and rounds to multiples of 8.
 */
#include "models/blocks.h"

/* A 3 x 3 convolution of each channel by itself. */
static neap_conv2d depthwise(const neap_network *net, neap_tensor x, int64_t stride, int64_t pad)
{
    const int64_t channels = neap_net_dim(net, x, 1);
    neap_conv2d conv = square_conv(channels, 3, stride, pad);
    conv.groups = channels;
    return conv;
}

/* ---- v1 ---- */

static const neap_model_param v1_params[] = {
    PARAM_BATCH(32),
    PARAM_IMAGE(224, 1),
    PARAM_IMAGE_W,
    PARAM_CLASSES(1000),
    PARAM_WIDTH,
    {"keras", "1: a layer of its own pads for each stride of 2, as in Keras", 0, 0, 1},
};

#define LEAST_KERAS_IMAGE 32 /* halved five times */

/* Keras pads for a stride of 2 at the bottom and the right alone, which no convolution can do. */
static neap_tensor pad_as_keras(neap_network *net, const char *name, neap_tensor x)
{
    return neap_net_pad2d(net, name, x, 0, 1, 0, 1);
}

static neap_tensor separable_conv(neap_network *net, neap_tensor x, int64_t channels,
                                  int64_t stride, bool keras)
{
    const bool padded = keras && stride == 2;
    if (padded)
        x = pad_as_keras(net, "dw.pad", x);
    x = neap_block_conv_bn(net, "dw.conv", "dw.bn", x, depthwise(net, x, stride, padded ? 0 : 1));
    x = neap_net_relu(net, "dw.relu", x);
    x = neap_block_conv_bn(net, "pw.conv", "pw.bn", x, square_conv(channels, 1, 1, 0));
    return neap_net_relu(net, "pw.relu", x);
}

static neap_tensor build_v1(neap_network *net, const model_args *args)
{
    static const struct {
        int64_t channels, stride;
        int repeat;
    } rows[] = {{64, 1, 1},  {128, 2, 1}, {128, 1, 1},  {256, 2, 1}, {256, 1, 1},
                {512, 2, 1}, {512, 1, 5}, {1024, 2, 1}, {1024, 1, 1}};

    const bool keras = neap_model_get(args, "keras") != 0;
    if (keras &&
        (image_height(args) < LEAST_KERAS_IMAGE || image_width(args) < LEAST_KERAS_IMAGE)) {
        neap_network_fail(net,
                          "an image of %" PRId64 " x %" PRId64
                          " is too small for Keras's padding: it needs %d x %d, or set keras to 0",
                          image_height(args), image_width(args), LEAST_KERAS_IMAGE,
                          LEAST_KERAS_IMAGE);
        return NEAP_NONE;
    }
    neap_tensor x = neap_block_images(net, args);
    if (keras)
        x = pad_as_keras(net, "stem.pad", x);
    x = neap_block_conv_bn(net, "stem.conv", "stem.bn", x,
                           square_conv(scaled(args, 32), 3, 2, keras ? 0 : 1));
    x = neap_net_relu(net, "stem.relu", x);
    int block = 0;
    for (uint32_t r = 0; r < COUNT_OF(rows); r++) {
        for (int i = 0; i < rows[r].repeat; i++) {
            neap_net_enter(net, "block%d", ++block);
            x = separable_conv(net, x, scaled(args, rows[r].channels), rows[r].stride, keras);
            neap_net_leave(net);
        }
    }
    x = neap_block_global_pool(net, "avgpool", x);
    x = neap_net_linear(net, "fc", x, neap_model_get(args, "classes"), true);
    return neap_block_class_loss(net, x);
}

const model_family neap_family_mobilenet_v1 = {
    .source = "Howard et al. 2017, arXiv:1704.04861",
    HAS_PARAMS(v1_params),
    .build = build_v1,
};

/* ---- v2 ---- */

static const neap_model_param v2_params[] = {
    PARAM_BATCH(32),     PARAM_IMAGE(224, 1), PARAM_IMAGE_W,
    PARAM_CLASSES(1000), PARAM_DROPOUT(20),   PARAM_WIDTH,
};

/* torchvision's Conv2dNormActivation: convolution 0, normalization 1, activation 2 of a scope. */
static neap_tensor conv_bn_relu6(neap_network *net, neap_tensor x, neap_conv2d conv)
{
    return neap_net_relu6(net, "2", neap_block_conv_bn(net, "0", "1", x, conv));
}

/* Widens to `expand` times the channels, filters each, narrows again. */
static neap_tensor inverted_residual(neap_network *net, neap_tensor x, int64_t expand,
                                     int64_t channels, int64_t stride, bool residual)
{
    const int64_t width = neap_net_dim(net, x, 1);
    int index = 0;
    neap_tensor y = x;
    neap_net_enter(net, "conv");
    if (expand != 1) {
        neap_net_enter(net, "%d", index++);
        y = conv_bn_relu6(net, y, square_conv(expand * width, 1, 1, 0));
        neap_net_leave(net);
    }
    neap_net_enter(net, "%d", index++);
    y = conv_bn_relu6(net, y, depthwise(net, y, stride, 1));
    neap_net_leave(net);
    y = neap_block_conv_bn(net, numbered("", index).text, numbered("", index + 1).text, y,
                           square_conv(channels, 1, 1, 0));
    neap_net_leave(net);
    return residual ? neap_net_add(net, "add", x, y) : y;
}

static neap_tensor build_v2(neap_network *net, const model_args *args)
{
    static const struct {
        int64_t expand, channels;
        int repeat;
        int64_t stride; /* of the first */
    } rows[] = {{1, 16, 1, 1}, {6, 24, 2, 2},  {6, 32, 3, 2}, {6, 64, 4, 2},
                {6, 96, 3, 1}, {6, 160, 3, 2}, {6, 320, 1, 1}};

    neap_tensor x = neap_block_images(net, args);
    int index = 0;
    neap_net_enter(net, "features.%d", index++);
    x = conv_bn_relu6(net, x, square_conv(scaled(args, 32), 3, 2, 1));
    neap_net_leave(net);
    for (uint32_t r = 0; r < COUNT_OF(rows); r++) {
        for (int i = 0; i < rows[r].repeat; i++) {
            neap_net_enter(net, "features.%d", index++);
            x = inverted_residual(net, x, rows[r].expand, scaled(args, rows[r].channels),
                                  i == 0 ? rows[r].stride : 1, i > 0);
            neap_net_leave(net);
        }
    }
    neap_net_enter(net, "features.%d", index);
    x = conv_bn_relu6(net, x, square_conv(scaled(args, 1280), 1, 1, 0));
    neap_net_leave(net);

    x = neap_block_global_pool(net, "avgpool", x);
    x = neap_net_dropout(net, "classifier.0", x, dropout_rate(args));
    x = neap_net_linear(net, "classifier.1", x, neap_model_get(args, "classes"), true);
    return neap_block_class_loss(net, x);
}

const model_family neap_family_mobilenet_v2 = {
    .source = "Sandler, Howard, Zhu, Zhmoginov and Chen 2018, arXiv:1801.04381; torchvision",
    HAS_PARAMS(v2_params),
    .build = build_v2,
};
