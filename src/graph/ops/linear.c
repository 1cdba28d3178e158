/*
 * Linear layers: y = x w^T + b over the last dimension. A bias whose weight wants no gradient gets
 * its own by `reduce`.
 */
#include "graph/network_internal.h"

extern const op_def neap_op_linear;

neap_tensor neap_net_linear_with(neap_network *net, const char *name, neap_tensor x,
                                 neap_tensor weight, neap_tensor bias)
{
    net_call call = {.def = &neap_op_linear,
                     .name = name,
                     .n_inputs = bias == NEAP_NONE ? 2 : 3,
                     .inputs = (neap_tensor[]){x, weight, bias},
                     .n_attrs = 1,
                     .attrs = &ATTR_INT("bias", bias != NEAP_NONE)};
    return neap_net_add_op(net, &call);
}

neap_tensor neap_net_linear(neap_network *net, const char *name, neap_tensor x, int64_t features,
                            bool bias)
{
    const net_tensor *input = neap_net_get(net, name, x);
    if (!input)
        return NEAP_NONE;
    int64_t shape[2] = {features, input->shape[input->rank - 1]};
    neap_tensor weight = neap_net_add_parameter(net, name, "weight", 2, shape);
    neap_tensor vector = bias ? neap_net_add_parameter(net, name, "bias", 1, &features) : NEAP_NONE;
    return neap_net_linear_with(net, name, x, weight, vector);
}

static void linear_backward(neap_network *net, const net_node *node)
{
    neap_tensor dy = neap_grad_of(net, node, 0), x = node->inputs[0], weight = node->inputs[1];
    neap_tensor bias = node->n_inputs > 2 ? node->inputs[2] : NEAP_NONE;
    if (neap_grad_wanted(net, weight) && neap_grad_wanted(net, bias))
        neap_grad_emit(net, node, "linear_bw_weight", 2, (neap_tensor[]){dy, x}, 2,
                       node->inputs + 1);
    else if (neap_grad_wanted(net, weight))
        neap_grad_emit_with(net, node, "linear_bw_weight", 2, (neap_tensor[]){dy, x}, weight, 1,
                            &ATTR_INT("bias", 0));
    else if (bias != NEAP_NONE) /* it alone does not need x */
        neap_grad_emit_with(net, node, "reduce", 1, &dy, bias, 0, NULL);
    neap_grad_emit(net, node, "linear_bw_data", 2, (neap_tensor[]){dy, weight}, 1, &x);
}

static int64_t last_extent(const op_shape *shape)
{
    return shape->shape[shape->rank - 1];
}

/* rows x features x inputs, whichever two of the three matrices are known. */
static void count_forward(const op_shapes *s, neap_op_count *count)
{
    count->macs = neap_count_mul(neap_count_elements(&s->outputs[0]), last_extent(&s->inputs[1]));
    count->flops =
        neap_count_mul(neap_count_elements(&s->outputs[0]), neap_op_attr_int(s->op, "bias", 0));
}

static void count_bw_data(const op_shapes *s, neap_op_count *count)
{
    count->macs = neap_count_mul(neap_count_elements(&s->inputs[0]), last_extent(&s->inputs[1]));
}

static void count_bw_weight(const op_shapes *s, neap_op_count *count)
{
    count->macs = neap_count_mul(neap_count_elements(&s->inputs[0]), last_extent(&s->inputs[1]));
    count->flops = s->n_outputs > 1 ? neap_count_elements(&s->inputs[0]) : 0;
}

const op_def neap_op_linear = {.type = "linear",
                               .form = "x[*R,C] w[K,C] b?bias[K] -> y:net[*R,K]",
                               .attrs = "bias",
                               .count = count_forward,
                               .backward = linear_backward};
const op_def neap_op_linear_bw_data = {
    .type = "linear_bw_data", .form = "dy[*R,K] w[K,C] -> dx[*R,C]", .count = count_bw_data};
const op_def neap_op_linear_bw_weight = {.type = "linear_bw_weight",
                                         .form = "dy[*R,K] x[*R,C] -> dw[K,C] db?bias[K]",
                                         .attrs = "bias",
                                         .count = count_bw_weight};
