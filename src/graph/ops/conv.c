/*
 * Convolution and transposed convolution. With `relu`, y is that of the ReLU, applied in place.
 *
 * Each output element takes (C / groups) * kh * kw multiply-accumulates, and so does each of its
 * contributions backwards: all three directions count the same.
 */
#include "graph/network_internal.h"

#include <string.h>

static int64_t or_one(int64_t number)
{
    return number ? number : 1;
}

#define N_CONV_ATTRS 9

static void conv_attrs(const neap_conv2d *conv, neap_attr attrs[N_CONV_ATTRS])
{
    const neap_attr all[N_CONV_ATTRS] = {ATTR_INT("stride_h", or_one(conv->stride_h)),
                                         ATTR_INT("stride_w", or_one(conv->stride_w)),
                                         ATTR_INT("pad_h", conv->pad_h),
                                         ATTR_INT("pad_w", conv->pad_w),
                                         ATTR_INT("dilation", or_one(conv->dilation)),
                                         ATTR_INT("groups", or_one(conv->groups)),
                                         ATTR_INT("output_pad", conv->output_pad),
                                         ATTR_INT("bias", conv->bias),
                                         ATTR_INT("relu", conv->relu)};
    memcpy(attrs, all, sizeof all);
}

/* Below 2^31, so that extents computed from them do not overflow. */
static bool bad_numbers(const neap_conv2d *conv)
{
    const int64_t positive[] = {conv->channels, conv->kernel_h, conv->kernel_w};
    const int64_t rest[] = {conv->stride_h, conv->stride_w, conv->pad_h,     conv->pad_w,
                            conv->dilation, conv->groups,   conv->output_pad};
    for (size_t i = 0; i < sizeof positive / sizeof *positive; i++)
        if (positive[i] < 1 || positive[i] > INT32_MAX)
            return true;
    for (size_t i = 0; i < sizeof rest / sizeof *rest; i++)
        if (rest[i] < 0 || rest[i] > INT32_MAX)
            return true;
    return false;
}

/* Checks what both directions of convolution share; false after an error. */
static bool check_conv(neap_network *net, const char *name, neap_tensor x, const neap_conv2d *conv)
{
    const net_tensor *input = neap_net_get(net, name, x);
    if (!input)
        return false;
    if (input->rank != 4)
        return neap_net_fail(net, name, "a convolution takes N x C x H x W, not rank %u",
                             input->rank),
               false;
    if (bad_numbers(conv))
        return neap_net_fail(
                   net, name,
                   "channels and kernel must be positive, the rest not negative, all below "
                   "2^31"),
               false;
    int64_t groups = or_one(conv->groups);
    if (input->shape[1] % groups || conv->channels % groups)
        return neap_net_fail(net, name, "%lld groups must divide both %lld and %lld channels",
                             (long long)groups, (long long)input->shape[1],
                             (long long)conv->channels),
               false;
    return true;
}

/* Appends the node; the bias may be NEAP_NONE. */
static neap_tensor add_conv_with(neap_network *net, const op_def *def, const char *name,
                                 neap_tensor x, neap_tensor weight, neap_tensor bias,
                                 const neap_conv2d *conv)
{
    neap_attr attrs[N_CONV_ATTRS];
    neap_conv2d own = *conv;
    own.bias = bias != NEAP_NONE;
    conv_attrs(&own, attrs);
    net_call call = {.def = def,
                     .name = name,
                     .n_inputs = own.bias ? 3 : 2,
                     .inputs = (neap_tensor[]){x, weight, bias},
                     .n_attrs = N_CONV_ATTRS,
                     .attrs = attrs};
    return neap_net_add_op(net, &call);
}

/* The same with parameters of its own. */
static neap_tensor add_conv(neap_network *net, const op_def *def, const char *name, neap_tensor x,
                            const neap_conv2d *conv, const int64_t weight_shape[4])
{
    neap_tensor weight = neap_net_add_parameter(net, name, "weight", 4, weight_shape);
    neap_tensor bias =
        conv->bias ? neap_net_add_parameter(net, name, "bias", 1, &conv->channels) : NEAP_NONE;
    return add_conv_with(net, def, name, x, weight, bias, conv);
}

extern const op_def neap_op_conv2d, neap_op_conv_transpose2d;

neap_tensor neap_net_conv2d(neap_network *net, const char *name, neap_tensor x,
                            const neap_conv2d *conv)
{
    if (!check_conv(net, name, x, conv))
        return NEAP_NONE;
    if (conv->output_pad)
        return neap_net_fail(net, name, "output_pad is for transposed convolutions");
    int64_t weight[4] = {conv->channels, neap_net_dim(net, x, 1) / or_one(conv->groups),
                         conv->kernel_h, conv->kernel_w};
    return add_conv(net, &neap_op_conv2d, name, x, conv, weight);
}

neap_tensor neap_net_conv_transpose2d(neap_network *net, const char *name, neap_tensor x,
                                      const neap_conv2d *conv)
{
    if (!check_conv(net, name, x, conv))
        return NEAP_NONE;
    if (conv->relu || conv->dilation > 1)
        return neap_net_fail(net, name, "a transposed convolution takes neither relu nor dilation");
    int64_t weight[4] = {neap_net_dim(net, x, 1), conv->channels / or_one(conv->groups),
                         conv->kernel_h, conv->kernel_w};
    return add_conv(net, &neap_op_conv_transpose2d, name, x, conv, weight);
}

/* What a weight says of a convolution: `transposed` has the channels of the output in its second
   dimension. */
static neap_conv2d described(const neap_network *net, const neap_conv2d *conv, neap_tensor weight,
                             bool transposed)
{
    neap_conv2d full = *conv;
    full.channels = transposed ? neap_net_dim(net, weight, 1) * or_one(conv->groups)
                               : neap_net_dim(net, weight, 0);
    full.kernel_h = neap_net_dim(net, weight, 2);
    full.kernel_w = neap_net_dim(net, weight, 3);
    return full;
}

neap_tensor neap_net_conv2d_with(neap_network *net, const char *name, neap_tensor x,
                                 neap_tensor weight, neap_tensor bias, const neap_conv2d *conv)
{
    if (!neap_net_get(net, name, weight))
        return NEAP_NONE;
    neap_conv2d full = described(net, conv, weight, false);
    if (!check_conv(net, name, x, &full))
        return NEAP_NONE;
    return add_conv_with(net, &neap_op_conv2d, name, x, weight, bias, &full);
}

neap_tensor neap_net_conv_transpose2d_with(neap_network *net, const char *name, neap_tensor x,
                                           neap_tensor weight, neap_tensor bias,
                                           const neap_conv2d *conv)
{
    if (!neap_net_get(net, name, weight))
        return NEAP_NONE;
    neap_conv2d full = described(net, conv, weight, true);
    if (!check_conv(net, name, x, &full))
        return NEAP_NONE;
    return add_conv_with(net, &neap_op_conv_transpose2d, name, x, weight, bias, &full);
}

/* ---- Shapes ---- */

/* Along one side: y = (x + 2 pad - dilation (kernel - 1) - 1) / stride + 1. */
static void conv_side(op_fit *fit, char y, char x, char kernel, const char *stride, const char *pad)
{
    int64_t extent = neap_fit_extent(fit, x), window = neap_fit_extent(fit, kernel);
    if (window > INT32_MAX)
        neap_fit_fail(fit, "a kernel of %lld elements is too large", (long long)window);
    else if (extent + 2 * neap_fit_int(fit, pad) <= neap_fit_int(fit, "dilation") * (window - 1))
        neap_fit_fail(fit, "an image of %lld rows or columns is smaller than its kernel of %lld",
                      (long long)extent, (long long)window);
    else
        neap_fit_bind(fit, y,
                      (extent + 2 * neap_fit_int(fit, pad) -
                       neap_fit_int(fit, "dilation") * (window - 1) - 1) /
                              neap_fit_int(fit, stride) +
                          1);
}

/* G, the weight's second extent, is that of a group. */
static void conv_rule(op_fit *fit)
{
    int64_t groups = neap_fit_int(fit, "groups"), channels = neap_fit_extent(fit, 'C');
    if (channels % groups || neap_fit_extent(fit, 'K') % groups)
        neap_fit_fail(fit, "%lld groups do not divide its channels", (long long)groups);
    neap_fit_bind(fit, 'G', channels / groups);
    conv_side(fit, 'Y', 'H', 'I', "stride_h", "pad_h");
    conv_side(fit, 'X', 'W', 'J', "stride_w", "pad_w");
}

/* y = (x - 1) stride - 2 pad + kernel + output_pad. */
static void transposed_side(op_fit *fit, char y, char x, char kernel, const char *stride,
                            const char *pad)
{
    int64_t extent = neap_fit_extent(fit, x), window = neap_fit_extent(fit, kernel);
    if (extent > INT32_MAX || window > INT32_MAX)
        neap_fit_fail(fit, "the image or its kernel is too large");
    else
        neap_fit_bind(fit, y,
                      (extent - 1) * neap_fit_int(fit, stride) - 2 * neap_fit_int(fit, pad) +
                          window + neap_fit_int(fit, "output_pad"));
}

static void transposed_rule(op_fit *fit)
{
    int64_t groups = neap_fit_int(fit, "groups");
    if (neap_fit_extent(fit, 'C') % groups)
        neap_fit_fail(fit, "%lld groups do not divide its channels", (long long)groups);
    if (neap_fit_int(fit, "dilation") != 1)
        neap_fit_fail(fit, "a transposed convolution does not take a dilation");
    neap_fit_bind(fit, 'K', neap_count_mul(neap_fit_extent(fit, 'G'), groups));
    transposed_side(fit, 'Y', 'H', 'I', "stride_h", "pad_h");
    transposed_side(fit, 'X', 'W', 'J', "stride_w", "pad_w");
}

/* ---- Backward ---- */

/* The weight's gradient and the bias's; either may be a constant. */
static void backward_weight(neap_network *net, const net_node *node, const char *type,
                            neap_tensor dy)
{
    neap_tensor reads[] = {dy, node->inputs[0]}, weight = node->inputs[1];
    neap_tensor bias = node->n_inputs > 2 ? node->inputs[2] : NEAP_NONE;
    neap_attr channels[] = {ATTR_INT("axes", 1 << 0 | 1 << 2 | 1 << 3), ATTR_INT("keepdims", 0)};
    neap_attr *attrs = neap_arena_copy(&net->arena, node->attrs, node->n_attrs, sizeof *attrs);
    if (!attrs) {
        neap_net_fail_no_memory(net);
        return;
    }
    for (uint32_t i = 0; i < node->n_attrs; i++)
        if (strcmp(attrs[i].name, "bias") == 0)
            attrs[i].integer = 0;
    if (neap_grad_wanted(net, weight) && neap_grad_wanted(net, bias))
        neap_grad_emit(net, node, type, 2, reads, 2, node->inputs + 1);
    else if (neap_grad_wanted(net, weight))
        neap_grad_emit_with(net, node, type, 2, reads, weight, node->n_attrs, attrs);
    else if (bias != NEAP_NONE) /* it alone does not need x */
        neap_grad_emit_with(net, node, "sum_axes", 1, &dy, bias, 2, channels);
}

static void backward(neap_network *net, const net_node *node, const char *bw_weight,
                     const char *bw_data)
{
    neap_tensor dy = neap_grad_of(net, node, 0), x = node->inputs[0], weight = node->inputs[1];
    neap_op relu = {.n_attrs = node->n_attrs, .attrs = node->attrs};
    if (neap_op_attr_int(&relu, "relu", 0))
        dy = neap_grad_emit_inner(net, node, "relu_bw", 2, (neap_tensor[]){dy, node->outputs[0]},
                                  node->outputs[0], 0, NULL);
    backward_weight(net, node, bw_weight, dy);
    neap_grad_emit(net, node, bw_data, 2, (neap_tensor[]){dy, weight}, 1, &x);
}

static void conv2d_backward(neap_network *net, const net_node *node)
{
    backward(net, node, "conv2d_bw_weight", "conv2d_bw_data");
}

static void conv_transpose2d_backward(neap_network *net, const net_node *node)
{
    backward(net, node, "conv_transpose2d_bw_weight", "conv_transpose2d_bw_data");
}

/* ---- Counts ---- */

/* Elements of the convolution's output side times a weight's patch: its elements over its first
 * extent. */
static int64_t conv_macs(const op_shape *outer, const op_shape *weight)
{
    op_shape patch = *weight;
    patch.shape[0] = 1;
    return neap_count_mul(neap_count_elements(outer), neap_count_elements(&patch));
}

static void count_forward(const op_shapes *s, neap_op_count *count)
{
    int64_t elements = neap_count_elements(&s->outputs[0]);
    count->macs = conv_macs(&s->outputs[0], &s->inputs[1]);
    count->flops = neap_count_mul(elements, neap_count_add(neap_op_attr_int(s->op, "bias", 0),
                                                           neap_op_attr_int(s->op, "relu", 0)));
}

static void count_bw_data(const op_shapes *s, neap_op_count *count)
{
    count->macs = conv_macs(&s->inputs[0], &s->inputs[1]);
}

/* The bias gradient sums dy. */
static void count_bw_weight(const op_shapes *s, neap_op_count *count)
{
    count->macs = conv_macs(&s->inputs[0], &s->outputs[0]);
    count->flops = s->n_outputs > 1 ? neap_count_elements(&s->inputs[0]) : 0;
}

/* Transposed: the roles of input and output are exchanged. */
static void count_transposed(const op_shapes *s, neap_op_count *count)
{
    count->macs = conv_macs(&s->inputs[0], &s->inputs[1]);
    count->flops =
        neap_count_mul(neap_count_elements(&s->outputs[0]), neap_op_attr_int(s->op, "bias", 0));
}

static void count_transposed_bw_data(const op_shapes *s, neap_op_count *count)
{
    count->macs = conv_macs(&s->outputs[0], &s->inputs[1]);
}

static void count_transposed_bw_weight(const op_shapes *s, neap_op_count *count)
{
    count->macs = conv_macs(&s->inputs[1], &s->outputs[0]);
    count->flops = s->n_outputs > 1 ? neap_count_elements(&s->inputs[0]) : 0;
}

#define CONV(name, operands, ...)                                                                  \
    const op_def neap_op_##name = {.type = #name,                                                  \
                                   .form = operands,                                               \
                                   .attrs = "stride_h>0 stride_w>0 pad_h pad_w dilation>0 "        \
                                            "groups>0 output_pad bias relu",                       \
                                   __VA_ARGS__}

CONV(conv2d, "x[N,C,H,W] w[K,G,I,J] b?bias[K] -> y:net[N,K,Y,X]", .rule = conv_rule,
     .count = count_forward, .backward = conv2d_backward);
CONV(conv2d_bw_data, "dy[N,K,Y,X] w[K,G,I,J] -> dx[N,C,H,W]", .rule = conv_rule,
     .count = count_bw_data);
CONV(conv2d_bw_weight, "dy[N,K,Y,X] x[N,C,H,W] -> dw[K,G,I,J] db?bias[K]", .rule = conv_rule,
     .count = count_bw_weight);
CONV(conv_transpose2d, "x[N,C,H,W] w[C,G,I,J] b?bias[K] -> y:net[N,K,Y,X]", .rule = transposed_rule,
     .count = count_transposed, .backward = conv_transpose2d_backward);
CONV(conv_transpose2d_bw_data, "dy[N,K,Y,X] w[C,G,I,J] -> dx[N,C,H,W]", .rule = transposed_rule,
     .count = count_transposed_bw_data);
CONV(conv_transpose2d_bw_weight, "dy[N,K,Y,X] x[N,C,H,W] -> dw[C,G,I,J] db?bias[K]",
     .rule = transposed_rule, .count = count_transposed_bw_weight);
