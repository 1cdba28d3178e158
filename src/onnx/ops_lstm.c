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

#include <string.h>

enum { MOST_STEPS = 1 << 16 };

/* Which of ONNX's gates is neap's gate i. */
static const int64_t gate_of[4] = {0, 2, 3, 1};

typedef struct lstm {
    int64_t steps, batch, inputs, hidden, directions;
    neap_tensor weights[4]; /* W: D 4H x I; R: D 4H x H; B: D 8H in one; or its two halves apart */
    bool bias, halves;      /* whether there is one; in two tensors of 4H */
    neap_tensor h[2], c[2]; /* N x H, of each direction */
    neap_tensor *x;         /* N x I, of each step */
    neap_tensor *tops;      /* N x H, of each step and direction */
} lstm;

/* ---- Shapes ---- */

static neap_status infer_lstm(onnx_import *im, const onnx_node *node)
{
    NEAP_TRY(neap_onnx_need(im, node, 3));
    const onnx_shape *x = &neap_onnx_input(im, node, 0)->shape;
    const onnx_shape *w = &neap_onnx_input(im, node, 1)->shape;
    const onnx_shape *r = &neap_onnx_input(im, node, 2)->shape;
    const onnx_value *b = neap_onnx_input(im, node, 3);
    if (x->rank != 3 || w->rank != 3 || r->rank != 3)
        return neap_onnx_fail(im, node, "its input and weights must have three dimensions");
    int64_t directions = w->dims[0], hidden = r->dims[2];
    if (directions < 1 || directions > 2 || hidden < 1 || hidden > INT32_MAX ||
        w->dims[1] != 4 * hidden || r->dims[1] != 4 * hidden || r->dims[0] != directions ||
        w->dims[2] != x->dims[2])
        return neap_onnx_fail(im, node, "its weights do not fit its input and each other");
    if (b &&
        (b->shape.rank != 2 || b->shape.dims[0] != directions || b->shape.dims[1] != 8 * hidden))
        return neap_onnx_fail(im, node, "its bias does not fit its weights");
    onnx_shape y = {
        .type = x->type, .rank = 4, .dims = {x->dims[0], directions, x->dims[1], hidden}};
    onnx_shape state = {.type = x->type, .rank = 3, .dims = {directions, x->dims[1], hidden}};
    NEAP_TRY(neap_onnx_set_shape(im, node, 0, &y));
    NEAP_TRY(neap_onnx_set_shape(im, node, 1, &state));
    return neap_onnx_set_shape(im, node, 2, &state);
}

/* What neap does not do. */
static neap_status check_options(const onnx_import *im, const onnx_node *node, const lstm *l)
{
    const onnx_value *lengths = neap_onnx_input(im, node, 4);
    bool full = true;
    if (lengths && !lengths->constant)
        return neap_onnx_fail_unsupported(im, node, "neap takes sequences of one length");
    for (int64_t i = 0; lengths && i < lengths->constant->elements; i++)
        full = full && neap_onnx_get_integer(lengths->constant, i) == l->steps;
    if (!full)
        return neap_onnx_fail_unsupported(im, node, "neap takes sequences of one length");
    if (neap_onnx_input(im, node, 7) || neap_onnx_attribute(node, "activations") ||
        neap_onnx_attribute(node, "clip") || neap_onnx_int(node, "input_forget", 0) != 0 ||
        neap_onnx_int(node, "layout", 0) != 0)
        return neap_onnx_fail_unsupported(im, node,
                                          "neap takes LSTMs without peepholes, clipping and "
                                          "activations of their own, with time first");
    if (l->steps > MOST_STEPS)
        return neap_onnx_fail_unsupported(im, node, "%lld steps; neap unrolls up to %d",
                                          (long long)l->steps, MOST_STEPS);
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
        return read_weight(im, node, node->inputs[3], false, 2 * l->directions, l->hidden, 0,
                           &l->weights[2]);
    NEAP_TRY(read_weight(im, node, node->inputs[3], true, 1, l->hidden, 0, &l->weights[2]));
    return read_weight(im, node, node->inputs[8], true, 1, l->hidden, 0, &l->weights[3]);
}

/* ---- States ---- */

/* The state of a direction before its first step; zeros where the node does not give it. */
static neap_status read_state(onnx_import *im, const onnx_node *node, uint32_t input,
                              const char *suffix, const lstm *l, neap_tensor states[2])
{
    const int64_t shape[] = {l->batch, l->hidden};
    for (uint32_t d = 0; d < l->directions; d++) {
        const onnx_view *view;
        if (neap_onnx_input(im, node, input)) {
            NEAP_TRY(neap_onnx_view(im, node, node->inputs[input], &view));
            onnx_view part = *view;
            neap_onnx_view_select(&part, 0, d);
            NEAP_TRY(neap_onnx_weight(im, node, node->inputs[input], &part, 2, shape, &states[d]));
            continue;
        }
        const onnx_shape zeros = {.type = ONNX_FLOAT, .rank = 2, .dims = {shape[0], shape[1]}};
        onnx_constant *constant = neap_onnx_constant_new(im->arena, &zeros);
        size_t length = strlen(node->name), tail = strlen(suffix);
        char *name = neap_arena_alloc(im->arena, length + tail + 3, 1);
        if (!constant || !name)
            return neap_fail_no_memory(im->diag);
        memcpy(name, node->name, length);
        name[length] = '.';
        memcpy(name + length + 1, suffix, tail);
        name[length + 1 + tail] = (char)(d == 0 ? '\0' : '1');
        NEAP_TRY(neap_onnx_fixed(im, constant, name, 2, shape, &states[d]));
    }
    return NEAP_OK;
}

/* ---- Steps ---- */

static neap_tensor rows(onnx_import *im, const onnx_node *node, neap_tensor x, int64_t begin,
                        int64_t count)
{
    if (neap_net_dim(im->net, x, 0) == count)
        return x;
    return neap_net_slice(im->net, node->name, x, 0, begin, begin + count);
}

static neap_status unroll(onnx_import *im, const onnx_node *node, lstm *l, uint32_t d, bool reverse)
{
    const int64_t gates = 4 * l->hidden;
    neap_tensor w = rows(im, node, l->weights[0], d * gates, gates);
    neap_tensor r = rows(im, node, l->weights[1], d * gates, gates), wb = NEAP_NONE, rb = NEAP_NONE;
    if (l->bias && l->halves) {
        wb = l->weights[2];
        rb = l->weights[3];
    } else if (l->bias) {
        wb = rows(im, node, l->weights[2], 2 * d * gates, gates);
        rb = rows(im, node, l->weights[2], (2 * d + 1) * gates, gates);
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

static neap_status split_input(onnx_import *im, const onnx_node *node, lstm *l)
{
    const int64_t flat[] = {l->batch, l->inputs};
    neap_tensor x;
    NEAP_TRY(neap_onnx_tensor(im, node, node->inputs[0], &x));
    if (!NEAP_TAKE(im->arena, (size_t)l->steps, l->x) ||
        !NEAP_TAKE(im->arena, (size_t)(l->steps * l->directions), l->tops))
        return neap_fail_no_memory(im->diag);
    l->x[0] = x;
    if (l->steps > 1)
        neap_net_split(im->net, node->name, x, 0, (uint32_t)l->steps, l->x);
    for (int64_t t = 0; t < l->steps; t++)
        l->x[t] = neap_net_reshape(im->net, node->name, l->x[t], 2, flat);
    return neap_onnx_check_net(im, node);
}

/* The states of all steps: T x D x N x H. */
static void set_sequence(onnx_import *im, const onnx_node *node, const lstm *l)
{
    const onnx_value *y = neap_onnx_output(im, node, 0);
    uint32_t count = (uint32_t)(l->steps * l->directions);
    const int64_t one[] = {1, l->batch, l->hidden};
    onnx_view view;
    if (!y || !y->live)
        return;
    for (uint32_t i = 0; i < count; i++)
        l->tops[i] = neap_net_reshape(im->net, node->name, l->tops[i], 3, one);
    neap_tensor all =
        count == 1 ? l->tops[0] : neap_net_concat(im->net, node->name, count, l->tops, 0);
    neap_onnx_view_init(&view, all, false, 4, y->shape.dims);
    neap_onnx_set_view(im, node, 0, &view);
}

/* The last state of each direction: D x N x H. */
static void set_last(onnx_import *im, const onnx_node *node, uint32_t output, const lstm *l,
                     const neap_tensor states[2])
{
    const onnx_value *y = neap_onnx_output(im, node, output);
    const int64_t one[] = {1, l->batch, l->hidden};
    neap_tensor parts[2] = {0};
    if (!y || !y->live)
        return;
    for (uint32_t d = 0; d < l->directions; d++)
        parts[d] = neap_net_reshape(im->net, node->name, states[d], 3, one);
    neap_onnx_set_tensor(im, node, output,
                         l->directions == 1 ? parts[0]
                                            : neap_net_concat(im->net, node->name, 2, parts, 0));
}

/* Directions and features, from an output that the node has: T x D x N x H, or D x N x H. */
static void read_extents(const onnx_import *im, const onnx_node *node, lstm *l)
{
    for (uint32_t o = 0; o < node->n_outputs && l->hidden == 0; o++) {
        const onnx_value *y = neap_onnx_output(im, node, o);
        if (!y)
            continue;
        l->directions = y->shape.dims[o == 0 ? 1 : 0];
        l->hidden = y->shape.dims[y->shape.rank - 1];
    }
}

static neap_status lower_lstm(onnx_import *im, const onnx_node *node)
{
    const onnx_shape *x = &neap_onnx_input(im, node, 0)->shape;
    lstm l = {.steps = x->dims[0], .batch = x->dims[1], .inputs = x->dims[2]};
    read_extents(im, node, &l);
    int64_t sorted = *node->domain ? neap_onnx_int(node, "sorted", 0) : 0; /* fuse_lstm.c's own */
    bool reverse = strcmp(neap_onnx_string(node, "direction", "forward"), "reverse") == 0;
    NEAP_TRY(check_options(im, node, &l));
    NEAP_TRY(read_weight(im, node, node->inputs[1], sorted & ONNX_LSTM_SORTED_W, l.directions,
                         l.hidden, l.inputs, &l.weights[0]));
    NEAP_TRY(read_weight(im, node, node->inputs[2], sorted & ONNX_LSTM_SORTED_R, l.directions,
                         l.hidden, l.hidden, &l.weights[1]));
    NEAP_TRY(read_bias(im, node, sorted, &l));
    NEAP_TRY(read_state(im, node, 5, "h0", &l, l.h));
    NEAP_TRY(read_state(im, node, 6, "c0", &l, l.c));
    NEAP_TRY(split_input(im, node, &l));
    for (uint32_t d = 0; d < l.directions; d++)
        NEAP_TRY(unroll(im, node, &l, d, d == 1 || reverse));
    set_last(im, node, 1, &l, l.h);
    set_last(im, node, 2, &l, l.c);
    set_sequence(im, node, &l);
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
