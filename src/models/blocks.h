/*
 * Pieces that several networks share: inputs and losses by a model's settings, descriptors of
 * square kernels, small compositions of layers.
 */
#ifndef NEAP_MODELS_BLOCKS_H
#define NEAP_MODELS_BLOCKS_H

#include "models/models_internal.h"

#include <inttypes.h>
#include <stdio.h>

/* A name with a number, for the length of one call: numbered("conv", 3).text is "conv3". */
typedef struct numbered_name {
    char text[48];
} numbered_name;

static inline numbered_name numbered(const char *stem, int64_t number)
{
    numbered_name name;
    (void)snprintf(name.text, sizeof name.text, "%s%" PRId64, stem, number);
    return name;
}

/* ---- Square kernels ---- */

static inline neap_conv2d square_conv(int64_t channels, int64_t kernel, int64_t stride, int64_t pad)
{
    return (neap_conv2d){.channels = channels,
                         .kernel_h = kernel,
                         .kernel_w = kernel,
                         .stride_h = stride,
                         .stride_w = stride,
                         .pad_h = pad,
                         .pad_w = pad};
}

static inline neap_conv2d square_conv_bias(int64_t channels, int64_t kernel, int64_t stride,
                                           int64_t pad)
{
    neap_conv2d conv = square_conv(channels, kernel, stride, pad);
    conv.bias = true;
    return conv;
}

static inline neap_pool2d square_pool(int64_t kernel, int64_t stride, int64_t pad)
{
    return (neap_pool2d){.kernel_h = kernel,
                         .kernel_w = kernel,
                         .stride_h = stride,
                         .stride_w = stride,
                         .pad_h = pad,
                         .pad_w = pad};
}

/* ---- Settings ---- */

static inline int64_t image_height(const model_args *args)
{
    return neap_model_get(args, "image");
}

static inline int64_t image_width(const model_args *args)
{
    int64_t width = neap_model_get(args, "image_w");
    return width ? width : image_height(args);
}

static inline double dropout_rate(const model_args *args)
{
    return (double)neap_model_get(args, "dropout_percent") / 100.0;
}

/* A layer's usual channels or hidden features by the setting `width`: at least one. */
static inline int64_t scaled(const model_args *args, int64_t channels)
{
    const int64_t rounded = (channels * neap_model_get(args, "width") + 50) / 100;
    return rounded > 0 ? rounded : 1;
}

/* False, and the network has failed, unless height and width are multiples. */
bool neap_block_image_multiple_of(neap_network *net, const model_args *args, int64_t multiple);
/* False, and the network has failed, unless the heads share the hidden features evenly. */
bool neap_block_heads_fit(neap_network *net, const model_args *args);

/* ---- Inputs and losses ---- */

/* "images": N x 3 x H x W */
neap_tensor neap_block_images(neap_network *net, const model_args *args);
/* Ids: N x T */
neap_tensor neap_block_ids(neap_network *net, const model_args *args, const char *name);
/* The ids 0 .. T-1 */
neap_tensor neap_block_position_ids(neap_network *net, const model_args *args);
/* Cross-entropy of N x classes against "labels": N */
neap_tensor neap_block_class_loss(neap_network *net, neap_tensor logits);
/* Cross-entropy of N x classes x H x W against "labels": N x H x W */
neap_tensor neap_block_pixel_loss(neap_network *net, neap_tensor scores);
/* Mean cross-entropy over all positions of N x T x vocab against "labels": N*T */
neap_tensor neap_block_token_loss(neap_network *net, neap_tensor logits);

/* ---- Compositions ---- */

#define BATCH_NORM_EPSILON 1e-5 /* PyTorch's default */

/* Convolution and batch normalization. */
neap_tensor neap_block_conv_bn(neap_network *net, const char *conv_name, const char *bn_name,
                               neap_tensor x, neap_conv2d conv);
/* Global average pooling: N x C x H x W -> N x C */
neap_tensor neap_block_global_pool(neap_network *net, const char *name, neap_tensor x);

#endif
