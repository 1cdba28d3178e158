/*
 * Losses. Cross-entropy, fused or in PyTorch's two halves: classes are dimension 1; every other
 * dimension counts rows, and the loss is their mean. The mean of squared differences.
 */
#include "graph/network_internal.h"

extern const op_def neap_op_xent, neap_op_log_softmax, neap_op_nll;

neap_tensor neap_net_cross_entropy(neap_network *net, const char *name, neap_tensor logits,
                                   neap_tensor labels)
{
    neap_tensor inputs[2] = {logits, labels};
    net_call call = {.def = &neap_op_xent, .name = name, .n_inputs = 2, .inputs = inputs};
    if (net->kernels == NEAP_KERNELS_TORCH) {
        neap_net_enter(net, "%s", name);
        net_call half = {
            .def = &neap_op_log_softmax, .name = "log_softmax", .n_inputs = 1, .inputs = &logits};
        inputs[0] = neap_net_add_op(net, &half);
        neap_net_leave(net);
        call.def = &neap_op_nll;
    }
    return neap_net_add_op(net, &call);
}

/* Rows are the indices before and after the axis. */
neap_tensor neap_net_log_softmax(neap_network *net, const char *name, neap_tensor x, uint32_t axis)
{
    const net_tensor *input = neap_net_get(net, name, x);
    int64_t rows[3] = {1, 1, 1}, shape[NEAP_MAX_RANK];
    if (!input)
        return NEAP_NONE;
    uint32_t rank = input->rank;
    if (axis >= rank)
        return neap_net_fail(net, name, "axis %u of %u dimensions", axis, rank);
    for (uint32_t d = 0; d < rank; d++) {
        shape[d] = input->shape[d];
        rows[d < axis ? 0 : d == axis ? 1 : 2] *= shape[d];
    }
    net_call call = {.def = &neap_op_log_softmax, .name = name, .n_inputs = 1, .inputs = &x};
    if (rank >= 2 && axis == 1)
        return neap_net_add_op(net, &call);
    neap_net_enter(net, "%s", name);
    call.name = "log_softmax";
    x = neap_net_reshape(net, "rows", x, rows[2] > 1 ? 3 : 2, rows);
    x = neap_net_reshape(net, "shape", neap_net_add_op(net, &call), rank, shape);
    neap_net_leave(net);
    return x;
}

neap_tensor neap_net_mse(neap_network *net, const char *name, neap_tensor x, neap_tensor target)
{
    extern const op_def neap_op_mse;
    net_call call = {
        .def = &neap_op_mse, .name = name, .n_inputs = 2, .inputs = (neap_tensor[]){x, target}};
    return neap_net_add_op(net, &call);
}

/* The two operands differ in nothing but the sign of their gradients. */
static void mse_backward(neap_network *net, const net_node *node)
{
    neap_tensor dloss = neap_grad_of(net, node, 0), x = node->inputs[0], target = node->inputs[1];
    neap_grad_emit(net, node, "mse_bw", 3, (neap_tensor[]){dloss, x, target}, 1, &x);
    neap_grad_emit(net, node, "mse_bw", 3, (neap_tensor[]){dloss, target, x}, 1, &target);
}

static void xent_backward(neap_network *net, const net_node *node)
{
    neap_tensor reads[4] = {neap_grad_of(net, node, 0), node->inputs[0], node->inputs[1],
                            node->outputs[1]};
    neap_grad_emit(net, node, "xent_bw", 4, reads, 1, node->inputs);
}

static void log_softmax_backward(neap_network *net, const net_node *node)
{
    neap_grad_emit(net, node, "log_softmax_bw", 2,
                   (neap_tensor[]){neap_grad_of(net, node, 0), node->outputs[0]}, 1, node->inputs);
}

static void nll_backward(neap_network *net, const net_node *node)
{
    neap_grad_emit(net, node, "nll_bw", 2,
                   (neap_tensor[]){neap_grad_of(net, node, 0), node->inputs[1]}, 1, node->inputs);
}

/* Maximum, subtraction, exponential, sum. */
static void count_softmax(const op_shapes *s, neap_op_count *count)
{
    count->flops = neap_count_mul(4, neap_count_elements(&s->inputs[0]));
}

/* Difference, square, sum. */
static void count_mse(const op_shapes *s, neap_op_count *count)
{
    count->flops = neap_count_mul(3, neap_count_elements(&s->inputs[0]));
}

static void count_xent_bw(const op_shapes *s, neap_op_count *count)
{
    count->flops = neap_count_mul(4, neap_count_elements(&s->outputs[0]));
}

/* Only the label's entry of each row is read. */
static void count_nll(const op_shapes *s, neap_op_count *count)
{
    int64_t rows = neap_count_elements(&s->inputs[1]);
    count->flops = rows;
    count->bytes_moved = neap_count_mul(rows, neap_dtype_bytes(s->inputs[0].dtype) +
                                                  neap_dtype_bytes(s->inputs[1].dtype));
    count->bytes_moved = neap_count_add(count->bytes_moved, neap_dtype_bytes(s->outputs[0].dtype));
}

const op_def neap_op_mse = {.type = "mse",
                            .form = "x[*S] target[*S] -> loss:f32[1]",
                            .count = count_mse,
                            .backward = mse_backward};
const op_def neap_op_mse_bw = {.type = "mse_bw",
                               .form = "dloss[1] x[*S] target[*S] -> dx[*S]",
                               .in_place = 6,
                               .flops_per_element = 2};
const op_def neap_op_xent = {.type = "xent",
                             .form =
                                 "logits[N,K,*R] labels:ids<K[N,*R] -> loss:f32[1] lse:f32[N,*R]",
                             .count = count_softmax,
                             .backward = xent_backward};
const op_def neap_op_xent_bw = {
    .type = "xent_bw",
    .form = "dloss[1] logits[N,K,*R] labels:ids<K[N,*R] lse[N,*R] -> dlogits[N,K,*R]",
    .in_place = 2, /* over the logits */
    .count = count_xent_bw};
const op_def neap_op_log_softmax = {.type = "log_softmax",
                                    .form = "logits[N,K,*R] -> logp[N,K,*R]",
                                    .in_place = 1,
                                    .count = count_softmax,
                                    .backward = log_softmax_backward};
const op_def neap_op_log_softmax_bw = {.type = "log_softmax_bw",
                                       .form = "dlogp[N,K,*R] logp[N,K,*R] -> dlogits[N,K,*R]",
                                       .in_place = 3,
                                       .flops_per_element = 3};
const op_def neap_op_nll = {.type = "nll",
                            .form = "logp[N,K,*R] labels:ids<K[N,*R] -> loss:f32[1]",
                            .count = count_nll,
                            .backward = nll_backward};
const op_def neap_op_nll_bw = {.type = "nll_bw",
                               .form = "dloss[1] labels:ids<K[N,*R] -> dlogp[N,K,*R]"};
