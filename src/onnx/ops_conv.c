/* Convolutions of sequences and images. */
#include "onnx/ops.h"

#include "base/fail.h"
#include "onnx/window.h"

#include <string.h>

static neap_status check_bias(const onnx_import *im, const onnx_node *node, int64_t channels)
{
    const onnx_value *bias = neap_onnx_input(im, node, 2);
    if (bias && (bias->shape.rank != 1 || bias->shape.dims[0] != channels))
        return neap_onnx_fail(im, node, "its bias does not have %lld elements",
                              (long long)channels);
    return NEAP_OK;
}

/* Image, weight and bias. */
static neap_status read_operands(onnx_import *im, const onnx_node *node, neap_tensor operands[3])
{
    operands[2] = NEAP_NONE;
    for (uint32_t i = 0; i < 2; i++)
        NEAP_TRY(neap_onnx_image(im, node, i, &operands[i]));
    if (neap_onnx_input(im, node, 2))
        NEAP_TRY(neap_onnx_tensor(im, node, node->inputs[2], &operands[2]));
    return NEAP_OK;
}

/* ---- Conv ---- */

static neap_status infer_conv(onnx_import *im, const onnx_node *node)
{
    onnx_window w;
    NEAP_TRY(neap_onnx_need(im, node, 2));
    const onnx_shape *image = &neap_onnx_input(im, node, 0)->shape;
    const onnx_shape *weight = &neap_onnx_input(im, node, 1)->shape;
    NEAP_TRY(neap_onnx_window_read(im, node, weight, &w));
    int64_t groups = neap_onnx_int(node, "group", 1);
    if (groups < 1 || image->dims[1] % groups || weight->dims[0] % groups ||
        weight->dims[1] != image->dims[1] / groups)
        return neap_onnx_fail(im, node,
                              "a weight of %lld x %lld channels in %lld groups does not fit %lld "
                              "channels",
                              (long long)weight->dims[0], (long long)weight->dims[1],
                              (long long)groups, (long long)image->dims[1]);
    NEAP_TRY(check_bias(im, node, weight->dims[0]));
    const int64_t extents[] = {neap_onnx_window_count(&w, 0, false),
                               neap_onnx_window_count(&w, 1, false)};
    if (extents[0] < 1 || extents[1] < 1)
        return neap_onnx_fail(im, node, "an image of %lld x %lld is smaller than its kernel",
                              (long long)w.extent[0], (long long)w.extent[1]);
    onnx_shape shape = neap_onnx_window_shape(im, node, w.flat, weight->dims[0], extents);
    return neap_onnx_set_shape(im, node, 0, &shape);
}

/* An asymmetric padding is a layer of its own. */
static neap_tensor pad_image(onnx_import *im, const onnx_node *node, neap_tensor x, onnx_window *w)
{
    if (w->before[0] == w->after[0] && w->before[1] == w->after[1])
        return x;
    x = neap_net_pad2d(im->net, node->name, x, w->before[0], w->after[0], w->before[1],
                       w->after[1]);
    for (int i = 0; i < 2; i++)
        w->before[i] = w->after[i] = 0;
    return x;
}

static neap_status lower_conv(onnx_import *im, const onnx_node *node)
{
    onnx_window w;
    neap_tensor operands[3];
    NEAP_TRY(neap_onnx_window_read(im, node, &neap_onnx_input(im, node, 1)->shape, &w));
    if (w.dilation[0] != w.dilation[1])
        return neap_onnx_fail_unsupported(im, node, "neap takes one dilation for both dimensions");
    NEAP_TRY(read_operands(im, node, operands));
    neap_tensor x = pad_image(im, node, operands[0], &w);
    neap_conv2d conv = {.stride_h = w.stride[0],
                        .stride_w = w.stride[1],
                        .pad_h = w.before[0],
                        .pad_w = w.before[1],
                        .dilation = w.dilation[0],
                        .groups = neap_onnx_int(node, "group", 1)};
    x = neap_net_conv2d_with(im->net, node->name, x, operands[1], operands[2], &conv);
    neap_onnx_set_image(im, node, x);
    return NEAP_OK;
}

/* ---- ConvTranspose ---- */

/* What is kept of all products: `before` and `after` are cut off, `more` is added at the end. */
typedef struct transposed {
    onnx_window w;
    int64_t more[2], result[2];
} transposed;

/* Cuts or adds what the extents that a node asks for need. */
static void fit_result(transposed *t, int side, int64_t whole, int64_t wanted, bool upper)
{
    int64_t all = whole - wanted;
    t->more[side] += all < 0 ? -all : 0;
    all = all < 0 ? 0 : all;
    t->w.before[side] = upper ? all / 2 : all - all / 2;
    t->w.after[side] = all - t->w.before[side];
}

static neap_status read_transposed(const onnx_import *im, const onnx_node *node, transposed *t)
{
    const onnx_shape *weight = &neap_onnx_input(im, node, 1)->shape;
    const char *mode = neap_onnx_string(node, "auto_pad", "NOTSET");
    int64_t wanted[2];
    onnx_window *w = &t->w;
    NEAP_TRY(neap_onnx_window_read(im, node, weight, w));
    NEAP_TRY(neap_onnx_window_pair(im, node, "output_padding", w->flat, 0, 0, t->more));
    NEAP_TRY(neap_onnx_window_pair(im, node, "output_shape", w->flat, 1, 1, wanted));
    for (int i = 0; i < 2; i++) {
        int64_t whole = (w->extent[i] - 1) * w->stride[i] + (w->kernel[i] - 1) * w->dilation[i] +
                        1 + t->more[i];
        if (neap_onnx_attribute(node, "output_shape"))
            fit_result(t, i, whole, wanted[i], strcmp(mode, "SAME_UPPER") == 0);
        else if (strncmp(mode, "SAME", 4) == 0)
            fit_result(t, i, whole, w->extent[i] * w->stride[i], strcmp(mode, "SAME_UPPER") == 0);
        whole = (w->extent[i] - 1) * w->stride[i] + (w->kernel[i] - 1) * w->dilation[i] + 1;
        t->result[i] = whole + t->more[i] - w->before[i] - w->after[i];
    }
    return NEAP_OK;
}

static neap_status infer_conv_transpose(onnx_import *im, const onnx_node *node)
{
    transposed t;
    NEAP_TRY(neap_onnx_need(im, node, 2));
    const onnx_shape *image = &neap_onnx_input(im, node, 0)->shape;
    const onnx_shape *weight = &neap_onnx_input(im, node, 1)->shape;
    NEAP_TRY(read_transposed(im, node, &t));
    int64_t groups = neap_onnx_int(node, "group", 1);
    if (groups < 1 || image->dims[1] % groups || weight->dims[0] != image->dims[1] ||
        weight->dims[1] > INT64_MAX / groups)
        return neap_onnx_fail(im, node, "its weight does not fit %lld channels",
                              (long long)image->dims[1]);
    NEAP_TRY(check_bias(im, node, weight->dims[1] * groups));
    onnx_shape shape =
        neap_onnx_window_shape(im, node, t.w.flat, weight->dims[1] * groups, t.result);
    return neap_onnx_set_shape(im, node, 0, &shape);
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* neap cuts as much off at both ends and adds as much to both sides; the rest is sliced away. */
static neap_status lower_conv_transpose(onnx_import *im, const onnx_node *node)
{
    transposed t;
    neap_tensor operands[3];
    int64_t cut[2];
    NEAP_TRY(read_transposed(im, node, &t));
    onnx_window *w = &t.w;
    if (w->dilation[0] != 1 || w->dilation[1] != 1)
        return neap_onnx_fail_unsupported(im, node,
                                          "neap takes transposed convolutions without dilation");
    if (w->extent[0] == 1) /* there is no second one to be a stride away */
        w->stride[0] = larger(w->stride[0], w->stride[1]);
    for (int i = 0; i < 2; i++)
        cut[i] = w->before[i] < w->after[i] ? w->before[i] : w->after[i];
    neap_conv2d conv = {.stride_h = w->stride[0],
                        .stride_w = w->stride[1],
                        .pad_h = cut[0],
                        .pad_w = cut[1],
                        .output_pad = larger(t.more[0], t.more[1]),
                        .groups = neap_onnx_int(node, "group", 1)};
    for (int i = 0; i < 2; i++)
        if (conv.output_pad > 0 && conv.output_pad >= w->stride[i])
            return neap_onnx_fail_unsupported(
                im, node, "neap adds less than a stride to the end of a transposed convolution");
    NEAP_TRY(read_operands(im, node, operands));
    neap_tensor y = neap_net_conv_transpose2d_with(im->net, node->name, operands[0], operands[1],
                                                   operands[2], &conv);
    for (uint32_t i = 0; i < 2; i++) {
        int64_t begin = w->before[i] - cut[i], end = begin + t.result[i];
        if (!neap_network_failed(im->net) && neap_net_dim(im->net, y, 2 + i) != t.result[i])
            y = neap_net_slice(im->net, node->name, y, 2 + i, begin, end);
    }
    neap_onnx_set_image(im, node, y);
    return NEAP_OK;
}

const onnx_op neap_onnx_ops_conv[] = {
    {"Conv", "", infer_conv, NULL, lower_conv},
    {"ConvTranspose", "", infer_conv_transpose, NULL, lower_conv_transpose},
    {0},
};
