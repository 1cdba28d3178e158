/*
 * DenseNet: Huang, Liu, van der Maaten and Weinberger, "Densely connected convolutional networks"
 * (2017), as torchvision has it without `memory_efficient`: each layer of a block reads a fresh
 * concatenation of all features before it.
 *
 * densenet-chain is DenseNet-121 as Butt plans it in "Precise checkpointing" (2019), section 4.2: a
 * dense layer takes one tensor and returns it with its new channels joined to it, so that the
 * network is a chain of torchvision's modules, 78 of them, and each is one stage.
 */
#include "models/blocks.h"

static const neap_model_param params[] = {
    PARAM_BATCH(32), PARAM_IMAGE(224, 29), PARAM_IMAGE_W, PARAM_CLASSES(1000), PARAM_WIDTH,
};

#define N_BLOCKS        4
#define MOST_LAYERS     48 /* in a block of any of them */
#define BOTTLENECK_SIZE 4  /* channels between a layer's convolutions, in growths */

static const struct densenet {
    int64_t depth;
    int64_t growth; /* channels that each layer adds */
    int64_t stem;   /* channels of the first convolution */
    int layers[N_BLOCKS];
} configs[] = {
    {121, 32, 64, {6, 12, 24, 16}},
    {161, 48, 96, {6, 12, 36, 24}},
    {169, 32, 64, {6, 12, 32, 32}},
    {201, 32, 64, {6, 12, MOST_LAYERS, 32}},
};

static const struct densenet *find_config(int64_t depth)
{
    uint32_t i = 0;
    while (i + 1 < COUNT_OF(configs) && configs[i].depth != depth)
        i++;
    return &configs[i];
}

/* PyTorch's eager concatenation copies even where there is one part. */
static neap_tensor join(neap_network *net, uint32_t count, const neap_tensor *features)
{
    if (count == 1 && neap_network_kernels(net) == NEAP_KERNELS_LEAN)
        return features[0];
    return neap_net_concat(net, "cat", count, features, 1);
}

static neap_tensor dense_layer(neap_network *net, uint32_t count, const neap_tensor *features,
                               int64_t growth)
{
    const neap_conv2d squeeze = square_conv(BOTTLENECK_SIZE * growth, 1, 1, 0);
    const neap_conv2d conv = square_conv(growth, 3, 1, 1);
    neap_tensor x = join(net, count, features);
    x = neap_net_relu(net, "relu1", neap_net_batch_norm(net, "norm1", x, BATCH_NORM_EPSILON));
    x = neap_net_conv2d(net, "conv1", x, &squeeze);
    x = neap_net_relu(net, "relu2", neap_net_batch_norm(net, "norm2", x, BATCH_NORM_EPSILON));
    return neap_net_conv2d(net, "conv2", x, &conv);
}

static neap_tensor dense_block(neap_network *net, neap_tensor x, int layers, int64_t growth)
{
    neap_tensor features[1 + MOST_LAYERS] = {x};
    uint32_t count = 1;
    for (int i = 1; i <= layers; i++, count++) {
        neap_net_enter(net, "denselayer%d", i);
        features[count] = dense_layer(net, count, features, growth);
        neap_net_leave(net);
    }
    return join(net, count, features);
}

/* As a chain: each layer reads what the one before it returned. */
static neap_tensor dense_chain(neap_network *net, neap_tensor x, int layers, int64_t growth)
{
    for (int i = 1; i <= layers; i++) {
        neap_net_enter(net, "denselayer%d", i);
        neap_net_begin_layer(net);
        const neap_tensor parts[] = {x, dense_layer(net, 1, &x, growth)};
        x = neap_net_concat(net, "joined", 2, parts, 1);
        neap_net_end_layer(net);
        neap_net_leave(net);
    }
    return x;
}

/* Halves channels, height and width. */
static neap_tensor transition(neap_network *net, neap_tensor x)
{
    const neap_conv2d conv = square_conv(neap_net_dim(net, x, 1) / 2, 1, 1, 0);
    const neap_pool2d pool = square_pool(2, 2, 0);
    x = neap_net_relu(net, "relu", neap_net_batch_norm(net, "norm", x, BATCH_NORM_EPSILON));
    return neap_net_avg_pool2d(net, "pool", neap_net_conv2d(net, "conv", x, &conv), &pool);
}

static neap_tensor build_features(neap_network *net, const model_args *args, neap_tensor x)
{
    const struct densenet *config = find_config(args->model->variant);
    const int64_t growth = scaled(args, config->growth);
    const neap_pool2d pool = square_pool(3, 2, 1);
    neap_net_enter(net, "features");
    x = neap_block_conv_bn(net, "conv0", "norm0", x,
                           square_conv(scaled(args, config->stem), 7, 2, 3));
    x = neap_net_max_pool2d(net, "pool0", neap_net_relu(net, "relu0", x), &pool, NULL);
    for (int block = 0; block < N_BLOCKS; block++) {
        neap_net_enter(net, "denseblock%d", block + 1);
        x = args->model->family == &neap_family_densenet_chain
                ? dense_chain(net, x, config->layers[block], growth)
                : dense_block(net, x, config->layers[block], growth);
        neap_net_leave(net);
        if (block + 1 < N_BLOCKS) {
            neap_net_enter(net, "transition%d", block + 1);
            x = transition(net, x);
            neap_net_leave(net);
        }
    }
    x = neap_net_batch_norm(net, "norm5", x, BATCH_NORM_EPSILON);
    neap_net_leave(net);
    return x;
}

static neap_tensor build(neap_network *net, const model_args *args)
{
    neap_tensor x = build_features(net, args, neap_block_images(net, args));
    x = neap_block_global_pool(net, "avgpool", neap_net_relu(net, "relu", x));
    x = neap_net_linear(net, "classifier", x, neap_model_get(args, "classes"), true);
    return neap_block_class_loss(net, x);
}

const model_family neap_family_densenet = {
    .source = "Huang, Liu, van der Maaten and Weinberger 2017, arXiv:1608.06993; torchvision",
    HAS_PARAMS(params),
    .build = build,
};

const model_family neap_family_densenet_chain = {
    .source = "Huang et al. 2017; Butt 2019, Precise checkpointing, section 4.2",
    HAS_PARAMS(params),
    .build = build,
};
