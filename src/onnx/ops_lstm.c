/*
 * LSTM nodes, unrolled: at each step t of each direction
 *
 *     gates = x_t W^T + Wb + h_{t-1} R^T + Rb,     (h_t, c_t) = cell(gates, c_{t-1})
 *
 * ONNX has the gates in the order i o f c, neap in the order i f g o (g is ONNX's c). Where a
 * weight is a tensor of the file, its rows are exchanged when it is read and written; where the
 * file itself exchanges the rows of a weight, the two cancel out (fuse_lstm.c).
 */
#include "onnx/ops.h"

#include "base/fail.h"
#include "onnx/recurrent.h"

#include <string.h>

/* Which of ONNX's gates is neap's gate i. */
static const int64_t gate_of[4] = {0, 2, 3, 1};

typedef struct lstm {
    onnx_recurrent base;
    neap_tensor weights[4]; /* W: D 4H x I; R: D 4H x H; B: D 8H in one; or its two halves apart */
    bool bias, halves;      /* whether there is one; in two tensors of 4H */
} lstm;

static neap_status infer_lstm(onnx_import *im, const onnx_node *node)
{
    return neap_onnx_recurrent_infer(im, node, 4);
}

/* What neap does not do. */
static neap_status check_options(const onnx_import *im, const onnx_node *node)
{
    static const char *const functions[] = {"Sigmoid", "Tanh", "Tanh"};
    if (neap_onnx_input(im, node, 7) || neap_onnx_int(node, "input_forget", 0) != 0 ||
        !neap_onnx_recurrent_activates(node, 3, functions))
        return neap_onnx_fail_unsupported(
            im, node, "neap takes LSTMs without peepholes and activations of their own");
    return NEAP_OK;
}

/* ---- Weights ---- */

/* The rows of a tensor with its gates exchanged, by layers. */
static neap_tensor exchange(onnx_import *im, const onnx_node *node, neap_tensor x, int64_t groups,
                            int64_t hidden)
{
    neap_tensor parts[4];
    neap_tensor sorted[4] = {0};
    for (int64_t g = 0; g < groups; g++) {
        for (int64_t i = 0; i < 4; i++) {
            int64_t begin = (4 * g + gate_of[i]) * hidden;
            parts[i] = neap_net_slice(im->net, node->name, x, 0, begin, begin + hidden);
        }
        sorted[g] = neap_net_concat(im->net, node->name, 4, parts, 0);
    }
    return groups == 1 ? sorted[0]
                       : neap_net_concat(im->net, node->name, (uint32_t)groups, sorted, 0);
}

/* An operand as a matrix (or a vector, with columns 0) whose rows are in neap's order; `sorted` if
   they are already. */
static neap_status read_weight(onnx_import *im, const onnx_node *node, uint32_t value, bool sorted,
                               int64_t groups, int64_t hidden, int64_t columns, neap_tensor *tensor)
{
    const onnx_view *view;
    const int64_t shape[] = {4 * groups * hidden, columns};
    NEAP_TRY(neap_onnx_view(im, node, value, &view));
    onnx_view copy = *view;
    bool whole = !sorted && copy.of_initializer && neap_onnx_view_is_complete(&copy);
    uint32_t known = whole ? im->parameter_of[copy.root] : NEAP_NONE;
    if (known != NEAP_NONE && im->parameters[known].gate_groups == groups) { /* shared by LSTMs */
        *tensor = im->parameters[known].tensor;
        return NEAP_OK;
    }
    NEAP_TRY(neap_onnx_weight(im, node, value, &copy, columns > 0 ? 2 : 1, shape, tensor));
    if (whole && known == NEAP_NONE)
        im->parameters[im->parameter_of[copy.root]].gate_groups = groups;
    else if (!sorted)
        *tensor = exchange(im, node, *tensor, groups, hidden);
    return NEAP_OK;
}

/* Both halves of the bias where they are apart, or all of it. */
static neap_status read_bias(onnx_import *im, const onnx_node *node, int64_t sorted, lstm *l)
{
    l->bias = neap_onnx_input(im, node, 3) != NULL;
    l->halves = (sorted & ONNX_LSTM_SORTED_B) != 0;
    if (!l->bias)
        return NEAP_OK;
    if (!l->halves)
        return read_weight(im, node, node->inputs[3], false, 2 * l->base.directions, l->base.hidden,
                           0, &l->weights[2]);
    NEAP_TRY(read_weight(im, node, node->inputs[3], true, 1, l->base.hidden, 0, &l->weights[2]));
    return read_weight(im, node, node->inputs[8], true, 1, l->base.hidden, 0, &l->weights[3]);
}

/* ---- Steps ---- */

static neap_status unroll(onnx_import *im, const onnx_node *node, const lstm *weights, uint32_t d,
                          bool reverse, onnx_recurrent *l)
{
    const int64_t gates = 4 * l->hidden;
    neap_tensor w = neap_onnx_recurrent_rows(im, node, weights->weights[0], d * gates, gates);
    neap_tensor r = neap_onnx_recurrent_rows(im, node, weights->weights[1], d * gates, gates),
                wb = NEAP_NONE, rb = NEAP_NONE;
    if (weights->bias && weights->halves) {
        wb = weights->weights[2];
        rb = weights->weights[3];
    } else if (weights->bias) {
        wb = neap_onnx_recurrent_rows(im, node, weights->weights[2], 2 * d * gates, gates);
        rb = neap_onnx_recurrent_rows(im, node, weights->weights[2], (2 * d + 1) * gates, gates);
    }
    NEAP_TRY(neap_onnx_check_net(im, node));
    for (int64_t i = 0; i < l->steps && !neap_network_failed(im->net); i++) {
        int64_t t = reverse ? l->steps - 1 - i : i;
        neap_net_enter(im->net, "%s.%st%lld", node->name, reverse ? "reverse." : "", (long long)t);
        neap_tensor input = neap_net_linear_with(im->net, "input", l->x[t], w, wb);
        neap_tensor state = neap_net_linear_with(im->net, "state", l->h[d], r, rb);
        neap_tensor sum = neap_net_add(im->net, "gates", input, state);
        l->h[d] = neap_net_lstm_cell(im->net, "cell", sum, l->c[d], &l->c[d]);
        neap_net_leave(im->net);
        l->tops[t * l->directions + d] = l->h[d];
    }
    return neap_onnx_check_net(im, node);
}

static neap_status lower_lstm(onnx_import *im, const onnx_node *node)
{
    lstm l;
    int64_t sorted = *node->domain ? neap_onnx_int(node, "sorted", 0) : 0; /* fuse_lstm.c's own */
    bool reverse = strcmp(neap_onnx_string(node, "direction", "forward"), "reverse") == 0;
    NEAP_TRY(check_options(im, node));
    NEAP_TRY(neap_onnx_recurrent_read(im, node, &l.base));
    NEAP_TRY(read_weight(im, node, node->inputs[1], sorted & ONNX_LSTM_SORTED_W, l.base.directions,
                         l.base.hidden, l.base.inputs, &l.weights[0]));
    NEAP_TRY(read_weight(im, node, node->inputs[2], sorted & ONNX_LSTM_SORTED_R, l.base.directions,
                         l.base.hidden, l.base.hidden, &l.weights[1]));
    NEAP_TRY(read_bias(im, node, sorted, &l));
    NEAP_TRY(neap_onnx_recurrent_state(im, node, 5, &l.base, l.base.h));
    NEAP_TRY(neap_onnx_recurrent_state(im, node, 6, &l.base, l.base.c));
    NEAP_TRY(neap_onnx_recurrent_split(im, node, &l.base));
    for (uint32_t d = 0; d < l.base.directions; d++)
        NEAP_TRY(unroll(im, node, &l, d, d == 1 || reverse, &l.base));
    neap_onnx_recurrent_set_last(im, node, 1, &l.base, l.base.h);
    neap_onnx_recurrent_set_last(im, node, 2, &l.base, l.base.c);
    neap_onnx_recurrent_set_sequence(im, node, &l.base);
    return NEAP_OK;
}

static neap_status keep_shape(onnx_import *im, const onnx_node *node)
{
    (void)im;
    (void)node;
    return NEAP_OK;
}

const onnx_op neap_onnx_ops_lstm[] = {
    {"LSTM", "", infer_lstm, NULL, lower_lstm},
    {"LSTM", ONNX_NEAP_DOMAIN, keep_shape, NULL, lower_lstm},
    {0},
};
