/*
 * SegNet: Badrinarayanan, Kendall and Cipolla, "SegNet: a deep convolutional encoder-decoder
 * architecture for image segmentation" (2017). The encoder is VGG-16 with batch normalization; the
 * decoder mirrors it and unpools by the indices of the encoder's max-pools, which so live through
 * the whole forward pass.
 */
#include "models/blocks.h"

#define N_STAGES    5
#define LEAST_IMAGE (1 << N_STAGES)

static const neap_model_param params[] = {
    PARAM_BATCH(8), PARAM_IMAGE(416, LEAST_IMAGE), PARAM_IMAGE_W, PARAM_CLASSES(21), PARAM_WIDTH,
};

static const int stage_convs[N_STAGES] = {2, 2, 3, 3, 3};
static const int64_t stage_channels[N_STAGES] = {64, 128, 256, 512, 512};

static neap_tensor conv_bn_relu(neap_network *net, int number, neap_tensor x, int64_t channels)
{
    x = neap_block_conv_bn(net, numbered("conv", number).text, numbered("bn", number).text, x,
                           square_conv_bias(channels, 3, 1, 1));
    return neap_net_relu(net, numbered("relu", number).text, x);
}

static neap_tensor build(neap_network *net, const model_args *args)
{
    const neap_pool2d pool = square_pool(2, 2, 0);
    const neap_conv2d score = square_conv_bias(neap_model_get(args, "classes"), 3, 1, 1);
    neap_tensor indices[N_STAGES], pooled[N_STAGES]; /* what each max-pool saved and read */

    neap_tensor x = neap_block_images(net, args);
    for (int s = 0; s < N_STAGES; s++) {
        neap_net_enter(net, "encoder%d", s + 1);
        for (int i = 1; i <= stage_convs[s]; i++)
            x = conv_bn_relu(net, i, x, scaled(args, stage_channels[s]));
        pooled[s] = x;
        x = neap_net_max_pool2d(net, "pool", x, &pool, &indices[s]);
        neap_net_leave(net);
    }
    for (int s = N_STAGES; s-- > 0;) {
        neap_net_enter(net, "decoder%d", s + 1);
        x = neap_net_max_unpool2d(net, "unpool", x, indices[s], pooled[s], &pool);
        for (int i = stage_convs[s]; i > 1; i--)
            x = conv_bn_relu(net, i, x, scaled(args, stage_channels[s]));
        /* The last one hands over as many channels as the stage below has; the very last, the
         * scores. */
        x = s > 0 ? conv_bn_relu(net, 1, x, scaled(args, stage_channels[s - 1]))
                  : neap_net_conv2d(net, "score", x, &score);
        neap_net_leave(net);
    }
    return neap_block_pixel_loss(net, x);
}

const model_family neap_family_segnet = {
    .source = "Badrinarayanan, Kendall and Cipolla 2017, arXiv:1511.00561",
    HAS_PARAMS(params),
    .build = build,
};
