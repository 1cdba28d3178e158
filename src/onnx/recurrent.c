/* See recurrent.h. */
#include "onnx/recurrent.h"

#include "base/fail.h"
#include "onnx/ops.h"

#include <string.h>

enum { MOST_STEPS = 1 << 16 };

/* ---- Shapes ---- */

neap_status neap_onnx_recurrent_infer(onnx_import *im, const onnx_node *node, int64_t gates)
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
        w->dims[1] != gates * hidden || r->dims[1] != gates * hidden || r->dims[0] != directions ||
        w->dims[2] != x->dims[2])
        return neap_onnx_fail(im, node, "its weights do not fit its input and each other");
    if (b && (b->shape.rank != 2 || b->shape.dims[0] != directions ||
              b->shape.dims[1] != 2 * gates * hidden))
        return neap_onnx_fail(im, node, "its bias does not fit its weights");
    onnx_shape y = {
        .type = x->type, .rank = 4, .dims = {x->dims[0], directions, x->dims[1], hidden}};
    onnx_shape state = {.type = x->type, .rank = 3, .dims = {directions, x->dims[1], hidden}};
    NEAP_TRY(neap_onnx_set_shape(im, node, 0, &y));
    NEAP_TRY(neap_onnx_set_shape(im, node, 1, &state));
    return neap_onnx_set_shape(im, node, 2, &state);
}

/* Directions and features, from an output that the node has: T x D x N x H, or D x N x H. */
static void read_extents(const onnx_import *im, const onnx_node *node, onnx_recurrent *l)
{
    for (uint32_t o = 0; o < node->n_outputs && l->hidden == 0; o++) {
        const onnx_value *y = neap_onnx_output(im, node, o);
        if (!y)
            continue;
        l->directions = y->shape.dims[o == 0 ? 1 : 0];
        l->hidden = y->shape.dims[y->shape.rank - 1];
    }
}

neap_status neap_onnx_recurrent_read(const onnx_import *im, const onnx_node *node,
                                     onnx_recurrent *l)
{
    const onnx_shape *x = &neap_onnx_input(im, node, 0)->shape;
    const onnx_value *lengths = neap_onnx_input(im, node, 4);
    bool full = !lengths || lengths->constant;
    *l = (onnx_recurrent){.steps = x->dims[0], .batch = x->dims[1], .inputs = x->dims[2]};
    read_extents(im, node, l);
    for (int64_t i = 0; full && lengths && i < lengths->constant->elements; i++)
        full = neap_onnx_get_integer(lengths->constant, i) == l->steps;
    if (!full)
        return neap_onnx_fail_unsupported(im, node, "neap takes sequences of one length");
    if (neap_onnx_attribute(node, "clip") || neap_onnx_int(node, "layout", 0) != 0)
        return neap_onnx_fail_unsupported(im, node, "neap takes it without clipping, time first");
    if (l->steps > MOST_STEPS)
        return neap_onnx_fail_unsupported(im, node, "%lld steps; neap unrolls up to %d",
                                          (long long)l->steps, MOST_STEPS);
    return NEAP_OK;
}

bool neap_onnx_recurrent_activates(const onnx_node *node, uint32_t count,
                                   const char *const *functions)
{
    const onnx_attribute *given = neap_onnx_attribute(node, "activations");
    bool same = !given || (given->kind == ATTRIBUTE_STRINGS && given->count % count == 0);
    for (size_t i = 0; given && same && i < given->count; i++)
        same = strcmp(given->strings[i], functions[i % count]) == 0;
    return same;
}

/* ---- States ---- */

neap_status neap_onnx_recurrent_state(onnx_import *im, const onnx_node *node, uint32_t input,
                                      const onnx_recurrent *l, neap_tensor states[2])
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
        if (!constant)
            return neap_fail_no_memory(im->diag);
        NEAP_TRY(neap_onnx_fixed(im, constant, node->name, 2, shape, &states[d]));
    }
    return NEAP_OK;
}

/* ---- Steps ---- */

neap_tensor neap_onnx_recurrent_rows(onnx_import *im, const onnx_node *node, neap_tensor x,
                                     int64_t begin, int64_t count)
{
    if (neap_net_dim(im->net, x, 0) == count)
        return x;
    return neap_net_slice(im->net, node->name, x, 0, begin, begin + count);
}

neap_status neap_onnx_recurrent_split(onnx_import *im, const onnx_node *node, onnx_recurrent *l)
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
void neap_onnx_recurrent_set_sequence(onnx_import *im, const onnx_node *node,
                                      const onnx_recurrent *l)
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
void neap_onnx_recurrent_set_last(onnx_import *im, const onnx_node *node, uint32_t output,
                                  const onnx_recurrent *l, const neap_tensor states[2])
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
