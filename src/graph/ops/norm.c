/*
 * Batch normalisation (per channel, over N, H, W), layer normalisation (per row, over the last
 * dimension) and group normalisation (per image and group of channels).
 *
 * Statistics are saved in f32 whatever the network's type. Running averages for inference are not
 * part of the training graph.
 */
#include "graph/network_internal.h"

/* `groups` is an attribute of group normalisation; 0 for others. */
static neap_tensor add_norm(neap_network *net, const op_def *def, const char *name, neap_tensor x,
                            int64_t channels, double epsilon, int64_t groups)
{
    if (!(epsilon > 0))
        return neap_net_fail(net, name, "epsilon must be positive");
    neap_tensor inputs[3] = {x, neap_net_add_parameter(net, name, "weight", 1, &channels),
                             neap_net_add_parameter(net, name, "bias", 1, &channels)};
    neap_attr attrs[] = {ATTR_REAL("epsilon", epsilon), ATTR_INT("groups", groups)};
    net_call call = {.def = def,
                     .name = name,
                     .n_inputs = 3,
                     .inputs = inputs,
                     .n_attrs = groups ? 2 : 1,
                     .attrs = attrs};
    return neap_net_add_op(net, &call);
}

extern const op_def neap_op_batch_norm, neap_op_layer_norm, neap_op_group_norm;

neap_tensor neap_net_batch_norm(neap_network *net, const char *name, neap_tensor x, double epsilon)
{
    const net_tensor *input = neap_net_get(net, name, x);
    if (!input)
        return NEAP_NONE;
    if (input->rank < 2)
        return neap_net_fail(net, name, "batch normalisation takes N x C x ...");
    return add_norm(net, &neap_op_batch_norm, name, x, input->shape[1], epsilon, 0);
}

neap_tensor neap_net_layer_norm(neap_network *net, const char *name, neap_tensor x, double epsilon)
{
    const net_tensor *input = neap_net_get(net, name, x);
    if (!input)
        return NEAP_NONE;
    int64_t channels = input->shape[input->rank - 1];
    return add_norm(net, &neap_op_layer_norm, name, x, channels, epsilon, 0);
}

neap_tensor neap_net_group_norm(neap_network *net, const char *name, neap_tensor x, int64_t groups,
                                double epsilon)
{
    const net_tensor *input = neap_net_get(net, name, x);
    if (!input)
        return NEAP_NONE;
    if (input->rank < 2 || groups < 1)
        return neap_net_fail(net, name,
                             "group normalisation takes N x C x ... and at least one group");
    return add_norm(net, &neap_op_group_norm, name, x, input->shape[1], epsilon, groups);
}

static void group_norm_rule(op_fit *fit)
{
    int64_t groups = neap_fit_int(fit, "groups"), channels = neap_fit_extent(fit, 'C');
    if (channels % groups)
        neap_fit_fail(fit, "%lld groups do not divide its %lld channels", (long long)groups,
                      (long long)channels);
}

static void emit(neap_network *net, const net_node *node, const char *type)
{
    neap_tensor reads[5];
    uint32_t count = 0;
    reads[count++] = neap_grad_of(net, node, 0);
    reads[count++] = node->inputs[0];
    if (neap_grad_wanted(net, node->inputs[0])) /* only dx needs gamma */
        reads[count++] = node->inputs[1];
    reads[count++] = node->outputs[1];
    reads[count++] = node->outputs[2];
    neap_grad_emit(net, node, type, count, reads, 3, node->inputs);
}

static void batch_norm_backward(neap_network *net, const net_node *node)
{
    emit(net, node, "batch_norm_bw");
}

static void layer_norm_backward(neap_network *net, const net_node *node)
{
    emit(net, node, "layer_norm_bw");
}

static void group_norm_backward(neap_network *net, const net_node *node)
{
    emit(net, node, "group_norm_bw");
}

/* Mean 1, variance 3, normalise 2, scale and shift 2. */
static void count_forward(const op_shapes *s, neap_op_count *count)
{
    count->flops = neap_count_mul(8, neap_count_elements(&s->inputs[0]));
}

/* Normalise again 2, the two sums 3, the input's gradient 6. */
static void count_backward(const op_shapes *s, neap_op_count *count)
{
    count->flops = neap_count_mul(11, neap_count_elements(&s->inputs[0]));
}

/*
 * Statistics and sums are complete before the first element is written, and from then on each
 * depends on its own place alone.
 */
enum { OVER_X = 1, OVER_DY = 1, OVER_X_BW = 2 };

const op_def neap_op_batch_norm = {
    .type = "batch_norm",
    .in_place = OVER_X,
    .form = "x[N,C,*R] gamma[C] beta[C] -> y[N,C,*R] mean:f32[C] invstd:f32[C]",
    .attrs = "epsilon~",
    .count = count_forward,
    .backward = batch_norm_backward};
const op_def neap_op_batch_norm_bw = {
    .type = "batch_norm_bw",
    .in_place = OVER_DY | OVER_X_BW,
    .form = "dy[N,C,*R] x[N,C,*R] gamma[C] mean[C] invstd[C] -> dx[N,C,*R] dgamma[C] dbeta[C]"
            " | dy[N,C,*R] x[N,C,*R] mean[C] invstd[C] -> dgamma[C] dbeta[C]",
    .count = count_backward};
const op_def neap_op_layer_norm = {
    .type = "layer_norm",
    .in_place = OVER_X,
    .form = "x[*R,C] gamma[C] beta[C] -> y[*R,C] mean:f32[*R] invstd:f32[*R]",
    .attrs = "epsilon~",
    .count = count_forward,
    .backward = layer_norm_backward};
const op_def neap_op_layer_norm_bw = {
    .type = "layer_norm_bw",
    .in_place = OVER_DY | OVER_X_BW,
    .form = "dy[*R,C] x[*R,C] gamma[C] mean[*R] invstd[*R] -> dx[*R,C] dgamma[C] dbeta[C]"
            " | dy[*R,C] x[*R,C] mean[*R] invstd[*R] -> dgamma[C] dbeta[C]",
    .count = count_backward};
const op_def neap_op_group_norm = {
    .type = "group_norm",
    .in_place = OVER_X,
    .form = "x[N,C,*R] gamma[C] beta[C] -> y[N,C,*R] mean:f32[N,groups] invstd:f32[N,groups]",
    .attrs = "groups>0 epsilon~",
    .rule = group_norm_rule,
    .count = count_forward,
    .backward = group_norm_backward};
const op_def neap_op_group_norm_bw = {
    .type = "group_norm_bw",
    .in_place = OVER_DY | OVER_X_BW,
    .form = "dy[N,C,*R] x[N,C,*R] gamma[C] mean[N,groups] invstd[N,groups]"
            " -> dx[N,C,*R] dgamma[C] dbeta[C]"
            " | dy[N,C,*R] x[N,C,*R] mean[N,groups] invstd[N,groups] -> dgamma[C] dbeta[C]",
    .attrs = "groups>0",
    .rule = group_norm_rule,
    .count = count_backward};
