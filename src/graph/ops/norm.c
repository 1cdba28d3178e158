/*
 * Batch and layer normalisation.
 *
 *     batch_norm(x, gamma, beta) -> y, mean, invstd       per channel, over N, H, W
 *     layer_norm(x, gamma, beta) -> y, mean, invstd       per row, over the last dimension
 *     *_bw(dy, x, gamma, mean, invstd) -> dx, dgamma, dbeta
 *     *_bw(dy, x, mean, invstd) -> dgamma, dbeta          where dx is not wanted
 *
 * Statistics are saved in f32 whatever the network's type. Running averages for inference are no
 * part of the training graph.
 */
#include "graph/network_internal.h"

#include <math.h>

static neap_tensor add_norm(neap_network *net, const op_def *def, const char *name, neap_tensor x,
                            double epsilon, int64_t channels, uint32_t stat_rank,
                            const int64_t *stat_shape)
{
    if (!(epsilon > 0) || !isfinite(epsilon))
        return neap_net_fail(net, name, "epsilon must be positive");
    neap_tensor inputs[3] = {x, neap_net_add_parameter(net, name, "weight", 1, &channels),
                             neap_net_add_parameter(net, name, "bias", 1, &channels)};
    const net_tensor *input = neap_net_get(net, name, x);
    if (!input)
        return NEAP_NONE;
    net_tensor like = *input;
    net_call call = {.def = def,
                     .name = name,
                     .n_inputs = 3,
                     .inputs = inputs,
                     .n_attrs = 1,
                     .attrs = &ATTR_REAL("epsilon", epsilon)};
    neap_tensor y = neap_net_add_node(net, &call, like.dtype, like.rank, like.shape);
    neap_net_add_output(net, "mean", NEAP_F32, stat_rank, stat_shape);
    neap_net_add_output(net, "invstd", NEAP_F32, stat_rank, stat_shape);
    return y;
}

extern const op_def neap_op_batch_norm, neap_op_layer_norm;

neap_tensor neap_net_batch_norm(neap_network *net, const char *name, neap_tensor x, double epsilon)
{
    const net_tensor *input = neap_net_get(net, name, x);
    if (!input)
        return NEAP_NONE;
    if (input->rank < 2)
        return neap_net_fail(net, name, "batch normalisation takes N x C x ...");
    int64_t channels = input->shape[1];
    return add_norm(net, &neap_op_batch_norm, name, x, epsilon, channels, 1, &channels);
}

neap_tensor neap_net_layer_norm(neap_network *net, const char *name, neap_tensor x, double epsilon)
{
    const net_tensor *input = neap_net_get(net, name, x);
    if (!input)
        return NEAP_NONE;
    net_tensor rows = *input;
    int64_t channels = rows.shape[rows.rank - 1];
    if (rows.rank == 1)
        return add_norm(net, &neap_op_layer_norm, name, x, epsilon, channels, 1, (int64_t[]){1});
    return add_norm(net, &neap_op_layer_norm, name, x, epsilon, channels, rows.rank - 1,
                    rows.shape);
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

const op_def neap_op_batch_norm = {
    .type = "batch_norm", .count = count_forward, .backward = batch_norm_backward};
const op_def neap_op_batch_norm_bw = {.type = "batch_norm_bw", .count = count_backward};
const op_def neap_op_layer_norm = {
    .type = "layer_norm", .count = count_forward, .backward = layer_norm_backward};
const op_def neap_op_layer_norm_bw = {.type = "layer_norm_bw", .count = count_backward};
