/*
 * Convolution and transposed convolution.
 *
 *     conv2d(x, w [, b]) -> y          with `relu`, y is that of the ReLU, applied in place
 *     conv2d_bw_weight(dy, x) -> dw [, db]
 *     conv2d_bw_data(dy, w) -> dx
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

/* Appends the node with its weight and bias. */
static neap_tensor add_conv(neap_network *net, const op_def *def, const char *name, neap_tensor x,
                            const neap_conv2d *conv, const int64_t weight_shape[4],
                            const int64_t output_shape[4])
{
    neap_attr attrs[N_CONV_ATTRS];
    conv_attrs(conv, attrs);
    neap_tensor inputs[3] = {x, neap_net_add_parameter(net, name, "weight", 4, weight_shape)};
    if (conv->bias)
        inputs[2] = neap_net_add_parameter(net, name, "bias", 1, &conv->channels);
    net_call call = {.def = def,
                     .name = name,
                     .n_inputs = conv->bias ? 3 : 2,
                     .inputs = inputs,
                     .n_attrs = N_CONV_ATTRS,
                     .attrs = attrs};
    return neap_net_add_node(net, &call, net->dtype, 4, output_shape);
}

static int64_t conv_extent(int64_t extent, int64_t kernel, int64_t stride, int64_t pad,
                           int64_t dilation)
{
    int64_t span = extent + 2 * pad - or_one(dilation) * (kernel - 1) - 1;
    return span < 0 ? 0 : span / or_one(stride) + 1;
}

/* At most INT64_MAX: no tensor is so large. */
static int64_t transposed_extent(int64_t extent, int64_t kernel, int64_t stride, int64_t pad,
                                 int64_t output_pad)
{
    int64_t spread = neap_count_mul(extent - 1, or_one(stride)) - 2 * pad;
    return neap_count_add(spread, kernel + output_pad);
}

extern const op_def neap_op_conv2d, neap_op_conv_transpose2d;

neap_tensor neap_net_conv2d(neap_network *net, const char *name, neap_tensor x,
                            const neap_conv2d *conv)
{
    if (!check_conv(net, name, x, conv))
        return NEAP_NONE;
    if (conv->output_pad)
        return neap_net_fail(net, name, "output_pad is for transposed convolutions");
    const net_tensor *input = neap_net_get(net, name, x);
    int64_t height =
        conv_extent(input->shape[2], conv->kernel_h, conv->stride_h, conv->pad_h, conv->dilation);
    int64_t width =
        conv_extent(input->shape[3], conv->kernel_w, conv->stride_w, conv->pad_w, conv->dilation);
    if (height < 1 || width < 1)
        return neap_net_fail(net, name,
                             "a %lld x %lld image is smaller than its %lld x %lld kernel",
                             (long long)input->shape[2], (long long)input->shape[3],
                             (long long)conv->kernel_h, (long long)conv->kernel_w);
    int64_t weight[4] = {conv->channels, input->shape[1] / or_one(conv->groups), conv->kernel_h,
                         conv->kernel_w};
    int64_t output[4] = {input->shape[0], conv->channels, height, width};
    return add_conv(net, &neap_op_conv2d, name, x, conv, weight, output);
}

neap_tensor neap_net_conv_transpose2d(neap_network *net, const char *name, neap_tensor x,
                                      const neap_conv2d *conv)
{
    if (!check_conv(net, name, x, conv))
        return NEAP_NONE;
    if (conv->relu || conv->dilation > 1)
        return neap_net_fail(net, name, "a transposed convolution takes neither relu nor dilation");
    const net_tensor *input = neap_net_get(net, name, x);
    int64_t height = transposed_extent(input->shape[2], conv->kernel_h, conv->stride_h, conv->pad_h,
                                       conv->output_pad);
    int64_t width = transposed_extent(input->shape[3], conv->kernel_w, conv->stride_w, conv->pad_w,
                                      conv->output_pad);
    int64_t weight[4] = {input->shape[1], conv->channels / or_one(conv->groups), conv->kernel_h,
                         conv->kernel_w};
    int64_t output[4] = {input->shape[0], conv->channels, height, width};
    return add_conv(net, &neap_op_conv_transpose2d, name, x, conv, weight, output);
}

/* ---- Backward ---- */

static void backward(neap_network *net, const net_node *node, const char *bw_weight,
                     const char *bw_data)
{
    neap_tensor dy = neap_grad_of(net, node, 0), x = node->inputs[0], weight = node->inputs[1];
    neap_op relu = {.n_attrs = node->n_attrs, .attrs = node->attrs};
    if (neap_op_attr_int(&relu, "relu", 0))
        dy = neap_grad_emit_inner(net, node, "relu_bw", 2, (neap_tensor[]){dy, node->outputs[0]},
                                  node->outputs[0]);
    neap_tensor targets[2] = {weight, node->n_inputs > 2 ? node->inputs[2] : NEAP_NONE};
    neap_grad_emit(net, node, bw_weight, 2, (neap_tensor[]){dy, x}, node->n_inputs > 2 ? 2 : 1,
                   targets);
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

const op_def neap_op_conv2d = {
    .type = "conv2d", .least_inputs = 2, .count = count_forward, .backward = conv2d_backward};
const op_def neap_op_conv2d_bw_data = {
    .type = "conv2d_bw_data", .least_inputs = 2, .count = count_bw_data};
const op_def neap_op_conv2d_bw_weight = {
    .type = "conv2d_bw_weight", .least_inputs = 2, .count = count_bw_weight};
const op_def neap_op_conv_transpose2d = {.type = "conv_transpose2d",
                                         .least_inputs = 2,
                                         .count = count_transposed,
                                         .backward = conv_transpose2d_backward};
const op_def neap_op_conv_transpose2d_bw_data = {
    .type = "conv_transpose2d_bw_data", .least_inputs = 2, .count = count_transposed_bw_data};
const op_def neap_op_conv_transpose2d_bw_weight = {
    .type = "conv_transpose2d_bw_weight", .least_inputs = 2, .count = count_transposed_bw_weight};
