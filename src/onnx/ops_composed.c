/* Nodes that neap composes of several layers: Swish, LRN, LpNormalization,
   MeanVarianceNormalization. */
#include "onnx/ops.h"

#include "base/fail.h"

#include <float.h>
#include <string.h>

/* ---- Swish ---- */

/* x sigmoid(alpha x) */
static neap_tensor swish(neap_network *net, const char *name, neap_tensor x, const double *numbers)
{
    if (numbers[0] == 1)
        return neap_net_silu(net, name, x);
    neap_tensor scaled = neap_net_scale(net, name, x, numbers[0], 0);
    return neap_net_mul(net, name, x, neap_net_sigmoid(net, name, scaled));
}

static neap_status lower_swish(onnx_import *im, const onnx_node *node)
{
    const double numbers[] = {neap_onnx_real(node, "alpha", 1)};
    return neap_onnx_lower_each(im, node, node->inputs[0], swish, numbers);
}

/* ---- LRN ---- */

static neap_status infer_lrn(onnx_import *im, const onnx_node *node)
{
    NEAP_TRY(neap_onnx_need(im, node, 1));
    int64_t size = neap_onnx_int(node, "size", 0);
    if (neap_onnx_input(im, node, 0)->shape.rank < 3 || size < 1 || size > INT16_MAX)
        return neap_onnx_fail(im, node, "it takes N x C x ... and a size");
    return neap_onnx_infer_same(im, node);
}

/* x / (bias + alpha m)^beta, where m is the mean of the squares of `size` channels around each,
   those beyond the first and the last one counted as 0. */
static neap_status lower_lrn(onnx_import *im, const onnx_node *node)
{
    const onnx_shape *shape = &neap_onnx_input(im, node, 0)->shape;
    int64_t size = neap_onnx_int(node, "size", 1), before = (size - 1) / 2;
    neap_network *net = im->net;
    const char *name = node->name;
    neap_tensor x;
    NEAP_TRY(neap_onnx_tensor(im, node, node->inputs[0], &x));
    const int64_t as_image[] = {shape->dims[0], 1, shape->dims[1], -1};
    const neap_pool2d pool = {.kernel_h = size, .kernel_w = 1, .stride_h = 1, .stride_w = 1};
    neap_tensor m = neap_net_reshape(net, name, neap_net_mul(net, name, x, x), 4, as_image);
    m = neap_net_pad2d(net, name, m, before, size - 1 - before, 0, 0);
    m = neap_net_avg_pool2d(net, name, m, &pool);
    m = neap_net_reshape(net, name, m, shape->rank, shape->dims);
    m = neap_net_scale(net, name, m, neap_onnx_real(node, "alpha", 1e-4),
                       neap_onnx_real(node, "bias", 1));
    m = neap_net_pow(net, name, m, -neap_onnx_real(node, "beta", 0.75));
    neap_onnx_set_tensor(im, node, 0, neap_net_mul(net, name, x, m));
    return neap_onnx_check_net(im, node);
}

/* ---- LpNormalization, MeanVarianceNormalization ---- */

static neap_tensor over(onnx_import *im, const onnx_node *node, neap_tensor x, neap_tensor by)
{
    const onnx_shape *shape = &neap_onnx_output(im, node, 0)->shape;
    by = neap_net_broadcast(im->net, node->name, by, shape->rank, shape->dims);
    return neap_net_div(im->net, node->name, x, by);
}

static neap_status infer_lp(onnx_import *im, const onnx_node *node)
{
    uint32_t axis;
    int64_t p = neap_onnx_int(node, "p", 2);
    NEAP_TRY(neap_onnx_need(im, node, 1));
    NEAP_TRY(neap_onnx_axis(im, node, neap_onnx_int(node, "axis", -1),
                            neap_onnx_input(im, node, 0)->shape.rank, &axis));
    if (p != 1 && p != 2)
        return neap_onnx_fail(im, node, "p is %lld, not 1 or 2", (long long)p);
    return neap_onnx_infer_same(im, node);
}

static neap_status lower_lp(onnx_import *im, const onnx_node *node)
{
    bool squares = neap_onnx_int(node, "p", 2) == 2;
    neap_network *net = im->net;
    const char *name = node->name;
    uint32_t axis;
    neap_tensor x;
    NEAP_TRY(neap_onnx_axis(im, node, neap_onnx_int(node, "axis", -1),
                            neap_onnx_input(im, node, 0)->shape.rank, &axis));
    NEAP_TRY(neap_onnx_tensor(im, node, node->inputs[0], &x));
    neap_tensor norm = squares ? neap_net_mul(net, name, x, x) : neap_net_abs(net, name, x);
    norm = neap_net_sum_axes(net, name, norm, 1, &axis, true);
    norm = neap_net_clip(net, name, norm, (double)FLT_MIN, (double)FLT_MAX); /* zeros stay zeros */
    norm = squares ? neap_net_sqrt(net, name, norm) : norm;
    neap_onnx_set_tensor(im, node, 0, over(im, node, x, norm));
    return neap_onnx_check_net(im, node);
}

/* The mean becomes 0 and the deviation 1, over some axes. */
static neap_status lower_mvn(onnx_import *im, const onnx_node *node)
{
    static const int64_t usual[] = {0, 2, 3};
    const onnx_shape *shape = &neap_onnx_output(im, node, 0)->shape;
    uint32_t axes[NEAP_MAX_RANK], count = 0;
    size_t n_axes;
    neap_tensor x;
    const int64_t *list = neap_onnx_ints(node, "axes", &n_axes);
    neap_network *net = im->net;
    const char *name = node->name;
    if (n_axes > NEAP_MAX_RANK)
        return neap_onnx_fail(im, node, "%zu axes", n_axes);
    for (size_t i = 0; i < (list ? n_axes : 3); i++)
        NEAP_TRY(neap_onnx_axis(im, node, list ? list[i] : usual[i], shape->rank, &axes[count++]));
    NEAP_TRY(neap_onnx_tensor(im, node, node->inputs[0], &x));
    neap_tensor mean = neap_net_mean_axes(net, name, x, count, axes, true);
    x = neap_net_sub(net, name, x, neap_net_broadcast(net, name, mean, shape->rank, shape->dims));
    neap_tensor deviation = neap_net_mul(net, name, x, x);
    deviation =
        neap_net_sqrt(net, name, neap_net_mean_axes(net, name, deviation, count, axes, true));
    deviation = neap_net_scale(net, name, deviation, 1, 1e-9);
    neap_onnx_set_tensor(im, node, 0, over(im, node, x, deviation));
    return neap_onnx_check_net(im, node);
}

const onnx_op neap_onnx_ops_composed[] = {
    {"Swish", "", neap_onnx_infer_same, NULL, lower_swish},
    {"LRN", "", infer_lrn, NULL, lower_lrn},
    {"LpNormalization", "", infer_lp, NULL, lower_lp},
    {"MeanVarianceNormalization", "", neap_onnx_infer_same, NULL, lower_mvn},
    {0},
};
