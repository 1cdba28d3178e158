/*
 * GRU and RNN nodes, unrolled. At each step t of each direction, for a GRU, whose weights have the
 * gates in the order z r n,
 *
 *     z, r = sigmoid(x_t W^T + Wb + h_{t-1} R^T + Rb)
 *     n = tanh(x_t W^T + Wb + r (h_{t-1} R^T + Rb))     with linear_before_reset
 *     n = tanh(x_t W^T + Wb + (r h_{t-1}) R^T + Rb)     without
 *     h_t = n + z (h_{t-1} - n)
 *
 * and for an RNN h_t = f(x_t W^T + Wb + h_{t-1} R^T + Rb).
 */
#include "onnx/ops.h"

#include "base/fail.h"
#include "onnx/recurrent.h"

#include <string.h>

typedef struct gru {
    onnx_recurrent base;
    int64_t gates;             /* 3 of a GRU, 1 of an RNN */
    bool before_reset, relu;   /* linear_before_reset; an RNN's f is relu, otherwise tanh */
    neap_tensor weight, state; /* W: D gates H x I; R: D gates H x H */
    neap_tensor bias;          /* D 2 gates H; NEAP_NONE: there is none */
} gru;

/* The weights of one direction, or of some of its gates. */
typedef struct part {
    neap_tensor w, r, wb, rb;
} part;

static int64_t gates_of(const onnx_node *node)
{
    return strcmp(node->type, "GRU") == 0 ? 3 : 1;
}

static neap_status infer_gru(onnx_import *im, const onnx_node *node)
{
    return neap_onnx_recurrent_infer(im, node, gates_of(node));
}

static neap_status read_functions(const onnx_import *im, const onnx_node *node, gru *g)
{
    static const char *const of_gru[] = {"Sigmoid", "Tanh"};
    static const char *const tanh[] = {"Tanh"}, *const relu[] = {"Relu"};
    bool plain = g->gates == 3 ? neap_onnx_recurrent_activates(node, 2, of_gru)
                               : neap_onnx_recurrent_activates(node, 1, tanh);
    g->relu = !plain && g->gates == 1 && neap_onnx_recurrent_activates(node, 1, relu);
    if (!plain && !g->relu)
        return neap_onnx_fail_unsupported(im, node, "neap takes no other activations than %s",
                                          g->gates == 3 ? "a GRU's own" : "Tanh and Relu");
    return NEAP_OK;
}

/* ---- Weights ---- */

static neap_status read_weight(onnx_import *im, const onnx_node *node, uint32_t input, int64_t rows,
                               int64_t columns, neap_tensor *tensor)
{
    const int64_t shape[] = {rows, columns};
    const onnx_view *view;
    NEAP_TRY(neap_onnx_view(im, node, node->inputs[input], &view));
    onnx_view copy = *view;
    return neap_onnx_weight(im, node, node->inputs[input], &copy, columns > 0 ? 2 : 1, shape,
                            tensor);
}

static neap_status read_weights(onnx_import *im, const onnx_node *node, gru *g)
{
    int64_t rows = g->base.directions * g->gates * g->base.hidden;
    NEAP_TRY(read_weight(im, node, 1, rows, g->base.inputs, &g->weight));
    NEAP_TRY(read_weight(im, node, 2, rows, g->base.hidden, &g->state));
    g->bias = NEAP_NONE;
    return neap_onnx_input(im, node, 3) ? read_weight(im, node, 3, 2 * rows, 0, &g->bias) : NEAP_OK;
}

/* The rows of `count` gates of a direction. */
static part part_of(onnx_import *im, const onnx_node *node, const gru *g, uint32_t d, int64_t gate,
                    int64_t count)
{
    int64_t all = g->gates * g->base.hidden, skip = gate * g->base.hidden;
    int64_t rows = count * g->base.hidden;
    part p = {.wb = NEAP_NONE, .rb = NEAP_NONE};
    p.w = neap_onnx_recurrent_rows(im, node, g->weight, d * all + skip, rows);
    p.r = neap_onnx_recurrent_rows(im, node, g->state, d * all + skip, rows);
    if (g->bias == NEAP_NONE)
        return p;
    p.wb = neap_onnx_recurrent_rows(im, node, g->bias, 2 * d * all + skip, rows);
    p.rb = neap_onnx_recurrent_rows(im, node, g->bias, (2 * d + 1) * all + skip, rows);
    return p;
}

/* ---- Steps ---- */

/* x W^T + Wb + h R^T + Rb */
static neap_tensor sum_of(neap_network *net, const part *p, neap_tensor x, neap_tensor h)
{
    return neap_net_add(net, "sum", neap_net_linear_with(net, "input", x, p->w, p->wb),
                        neap_net_linear_with(net, "state", h, p->r, p->rb));
}

static neap_tensor gru_step(neap_network *net, const gru *g, const part *gates, const part *last,
                            neap_tensor x, neap_tensor h)
{
    int64_t hidden = g->base.hidden;
    neap_tensor both = neap_net_sigmoid(net, "gates", sum_of(net, gates, x, h));
    neap_tensor z = neap_net_slice(net, "z", both, 1, 0, hidden);
    neap_tensor r = neap_net_slice(net, "r", both, 1, hidden, 2 * hidden), n;
    if (g->before_reset) {
        neap_tensor state = neap_net_linear_with(net, "new_state", h, last->r, last->rb);
        n = neap_net_add(net, "new_sum",
                         neap_net_linear_with(net, "new_input", x, last->w, last->wb),
                         neap_net_mul(net, "reset", r, state));
    } else {
        n = sum_of(net, last, x, neap_net_mul(net, "reset", r, h));
    }
    n = neap_net_tanh(net, "new", n);
    neap_tensor change = neap_net_mul(net, "keep", z, neap_net_sub(net, "change", h, n));
    return neap_net_add(net, "next", n, change);
}

static neap_tensor rnn_step(neap_network *net, const gru *g, const part *all, neap_tensor x,
                            neap_tensor h)
{
    neap_tensor sum = sum_of(net, all, x, h);
    return g->relu ? neap_net_relu(net, "next", sum) : neap_net_tanh(net, "next", sum);
}

static neap_status unroll(onnx_import *im, const onnx_node *node, const gru *g, uint32_t d,
                          bool reverse, onnx_recurrent *l)
{
    part first = part_of(im, node, g, d, 0, g->gates == 3 ? 2 : 1), last = {0};
    if (g->gates == 3)
        last = part_of(im, node, g, d, 2, 1);
    for (int64_t i = 0; i < l->steps && !neap_network_failed(im->net); i++) {
        int64_t t = reverse ? l->steps - 1 - i : i;
        neap_net_enter(im->net, "%s.%st%lld", node->name, reverse ? "reverse." : "", (long long)t);
        l->h[d] = g->gates == 3 ? gru_step(im->net, g, &first, &last, l->x[t], l->h[d])
                                : rnn_step(im->net, g, &first, l->x[t], l->h[d]);
        neap_net_leave(im->net);
        l->tops[t * l->directions + d] = l->h[d];
    }
    return neap_onnx_check_net(im, node);
}

static neap_status lower_gru(onnx_import *im, const onnx_node *node)
{
    gru g = {.gates = gates_of(node)};
    bool reverse = strcmp(neap_onnx_string(node, "direction", "forward"), "reverse") == 0;
    NEAP_TRY(read_functions(im, node, &g));
    NEAP_TRY(neap_onnx_recurrent_read(im, node, &g.base));
    NEAP_TRY(read_weights(im, node, &g));
    g.before_reset = neap_onnx_int(node, "linear_before_reset", 0) != 0;
    NEAP_TRY(neap_onnx_recurrent_state(im, node, 5, &g.base, g.base.h));
    NEAP_TRY(neap_onnx_recurrent_split(im, node, &g.base));
    for (uint32_t d = 0; d < g.base.directions; d++)
        NEAP_TRY(unroll(im, node, &g, d, d == 1 || reverse, &g.base));
    neap_onnx_recurrent_set_last(im, node, 1, &g.base, g.base.h);
    neap_onnx_recurrent_set_sequence(im, node, &g.base);
    return NEAP_OK;
}

const onnx_op neap_onnx_ops_gru[] = {
    {"GRU", "", infer_gru, NULL, lower_gru},
    {"RNN", "", infer_gru, NULL, lower_gru},
    {0},
};
