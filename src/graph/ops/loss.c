/*
 * Cross-entropy, fused or in PyTorch's two halves.
 *
 *     xent(logits, labels) -> loss, lse             xent_bw(dloss, logits, labels, lse) -> dlogits
 *     log_softmax(logits) -> logp                   log_softmax_bw(dlogp, logp) -> dlogits
 *     nll(logp, labels) -> loss                     nll_bw(dloss, labels) -> dlogp
 *
 * Classes are dimension 1; every other dimension counts rows, and the loss is their mean.
 */
#include "graph/network_internal.h"

#include <string.h>

extern const op_def neap_op_xent, neap_op_log_softmax, neap_op_nll;

static bool labels_fit(const net_tensor *logits, const net_tensor *labels)
{
    if (logits->rank < 2 || labels->rank != logits->rank - 1 ||
        logits->shape[0] != labels->shape[0] ||
        (labels->dtype != NEAP_I64 && labels->dtype != NEAP_I32))
        return false;
    for (uint32_t d = 2; d < logits->rank; d++)
        if (logits->shape[d] != labels->shape[d - 1])
            return false;
    return true;
}

neap_tensor neap_net_cross_entropy(neap_network *net, const char *name, neap_tensor logits,
                                   neap_tensor labels)
{
    const net_tensor *scores = neap_net_get(net, name, logits),
                     *classes = neap_net_get(net, name, labels);
    if (!scores || !classes)
        return NEAP_NONE;
    if (!labels_fit(scores, classes))
        return neap_net_fail(
            net, name, "labels must be i64 of the logits' shape without the classes (dimension 1)");
    net_tensor wide = *scores, rows = *classes;
    static const int64_t one[1] = {1};
    net_call call = {.def = &neap_op_xent,
                     .name = name,
                     .n_inputs = 2,
                     .inputs = (neap_tensor[]){logits, labels}};
    if (net->kernels == NEAP_KERNELS_TORCH) {
        neap_net_enter(net, "%s", name);
        net_call half = {
            .def = &neap_op_log_softmax, .name = "log_softmax", .n_inputs = 1, .inputs = &logits};
        neap_tensor logp = neap_net_add_node(net, &half, wide.dtype, wide.rank, wide.shape);
        neap_net_leave(net);
        call.def = &neap_op_nll;
        call.inputs = (neap_tensor[]){logp, labels};
        return neap_net_add_node(net, &call, NEAP_F32, 1, one);
    }
    neap_tensor loss = neap_net_add_node(net, &call, NEAP_F32, 1, one);
    neap_net_add_output(net, "lse", NEAP_F32, rows.rank, rows.shape);
    return loss;
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

const op_def neap_op_xent = {.type = "xent", .count = count_softmax, .backward = xent_backward};
const op_def neap_op_xent_bw = {.type = "xent_bw", .count = count_xent_bw};
const op_def neap_op_log_softmax = {
    .type = "log_softmax", .count = count_softmax, .backward = log_softmax_backward};
const op_def neap_op_log_softmax_bw = {.type = "log_softmax_bw", .flops_per_element = 3};
const op_def neap_op_nll = {
    .type = "nll", .least_inputs = 2, .count = count_nll, .backward = nll_backward};
const op_def neap_op_nll_bw = {.type = "nll_bw"};
