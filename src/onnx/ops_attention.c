/*
 * Attention on N x T x C tensors, or on one of N x T x 3C that holds q, k and v. The operands are
 * views with the heads apart; the views say what they are parts of.
 */
#include "onnx/ops.h"

#include "base/fail.h"

#include <math.h>
#include <string.h>

bool neap_onnx_attention_by_time(onnx_view *view, const onnx_attention *shape, int64_t time,
                                 bool turned)
{
    const int64_t dims[] = {shape->batch, shape->heads, turned ? shape->depth : time,
                            turned ? time : shape->depth};
    const uint32_t plain_order[] = {0, 2, 1, 3}, turned_order[] = {0, 3, 1, 2};
    if (!neap_onnx_view_reshape(view, 4, dims))
        return false;
    neap_onnx_view_transpose(view, turned ? turned_order : plain_order);
    neap_onnx_view_simplify(view);
    return true;
}

/* Whether the three views are the three parts of one tensor: equal but for one atom of extent 3. */
static bool are_parts(const onnx_view views[3], uint32_t *atom)
{
    const onnx_view *q = &views[0];
    uint32_t n_fixed = 0;
    for (uint32_t a = 0; a < q->n_atoms; a++)
        if (q->fixed[a] >= 0) {
            n_fixed++;
            *atom = a;
        }
    if (n_fixed != 1 || q->of_initializer || q->extents[*atom] != 3)
        return false;
    for (uint32_t i = 0; i < 3; i++) {
        const onnx_view *view = &views[i];
        if (view->root != q->root || view->n_atoms != q->n_atoms || view->n_order != q->n_order ||
            view->fixed[*atom] != i ||
            memcmp(view->extents, q->extents, q->n_atoms * sizeof *q->extents) != 0 ||
            memcmp(view->order, q->order, q->n_order) != 0 ||
            memcmp(view->counts, q->counts, q->rank) != 0)
            return false;
    }
    return true;
}

/* batch x time x (3, heads, depth): the atom that tells q, k and v apart comes before the heads. */
static onnx_view packed_view(const onnx_view *q, uint32_t atom)
{
    onnx_view packed = *q;
    uint32_t place = packed.counts[0] + packed.counts[1];
    memmove(packed.order + place + 1, packed.order + place, packed.n_order - place);
    packed.order[place] = (uint8_t)atom;
    packed.n_order++;
    packed.fixed[atom] = -1;
    packed.counts[2] = (uint8_t)(packed.counts[2] + packed.counts[3] + 1);
    packed.rank = 3;
    return packed;
}

neap_status neap_onnx_attention_operands(onnx_import *im, const onnx_node *node,
                                         const onnx_view views[3], const onnx_attention *shape,
                                         const int64_t times[3], double scale,
                                         neap_tensor operands[3])
{
    const int64_t width = shape->heads * shape->depth;
    uint32_t atom = 0;
    if (scale == 1 && are_parts(views, &atom) && views[0].n_atoms < VIEW_MOST_ATOMS) {
        const int64_t dims[] = {shape->batch, times[0], 3 * width};
        onnx_view packed = packed_view(&views[0], atom);
        operands[0] = neap_onnx_materialize(im, node->name, &packed, 3, dims);
        operands[1] = operands[2] = NEAP_NONE;
        return neap_onnx_check_net(im, node);
    }
    for (uint32_t i = 0; i < 3; i++) {
        const int64_t dims[] = {shape->batch, times[i], width};
        NEAP_TRY(neap_onnx_weight(im, node, node->inputs[i], &views[i], 3, dims, &operands[i]));
    }
    if (scale != 1)
        operands[0] = neap_net_scale(im->net, node->name, operands[0], scale, 0);
    return NEAP_OK;
}

/* Batch and heads may be one dimension; the batch is known. */
static neap_status read_shape(onnx_import *im, const onnx_node *node, onnx_attention *shape,
                              int64_t times[3])
{
    const onnx_shape *q = &neap_onnx_input(im, node, 0)->shape;
    const onnx_shape *v = &neap_onnx_input(im, node, 2)->shape;
    uint32_t rank = q->rank;
    *shape = (onnx_attention){q->dims[0], q->dims[1], q->dims[rank - 1], rank};
    if (rank == 3) {
        bool divides = im->batch > 0 && q->dims[0] % im->batch == 0;
        shape->batch = divides ? im->batch : q->dims[0];
        shape->heads = q->dims[0] / shape->batch;
    }
    times[0] = q->dims[rank - 2];
    times[1] = times[2] = v->dims[rank - 2];
    return NEAP_OK;
}

static neap_status lower_attention(onnx_import *im, const onnx_node *node)
{
    onnx_attention shape;
    int64_t times[3];
    onnx_view views[3];
    neap_tensor operands[3];
    NEAP_TRY(read_shape(im, node, &shape, times));
    for (uint32_t i = 0; i < 3; i++) {
        const onnx_view *from;
        NEAP_TRY(neap_onnx_view(im, node, node->inputs[i], &from));
        views[i] = *from;
        if (neap_onnx_attention_by_time(&views[i], &shape, times[i], i == 1))
            continue;
        neap_tensor copy; /* its elements in row-major order can be seen in every shape */
        NEAP_TRY(neap_onnx_tensor(im, node, node->inputs[i], &copy));
        const int64_t dims[] = {shape.batch, shape.heads, i == 1 ? shape.depth : times[i],
                                i == 1 ? times[i] : shape.depth};
        neap_onnx_view_init(&views[i], copy, false, 4, dims);
        neap_onnx_attention_by_time(&views[i], &shape, times[i], i == 1);
    }
    double scale = neap_onnx_real(node, "scale", 1) * sqrt((double)shape.depth);
    if (fabs(scale - 1) < 1e-4)
        scale = 1; /* the scale that attention has by itself */
    NEAP_TRY(neap_onnx_attention_operands(im, node, views, &shape, times, scale, operands));
    neap_tensor y = neap_net_attention(im->net, node->name, operands[0], operands[1], operands[2],
                                       shape.heads, neap_onnx_int(node, "causal", 0) != 0,
                                       neap_onnx_real(node, "dropout", 0));
    const onnx_shape *result = &neap_onnx_output(im, node, 0)->shape;
    onnx_view view;
    neap_onnx_view_init(&view, y, false, 4,
                        (int64_t[]){shape.batch, times[0], shape.heads, shape.depth});
    neap_onnx_view_transpose(&view, (uint32_t[]){0, 2, 1, 3});
    neap_onnx_view_reshape(&view, result->rank, result->dims);
    neap_onnx_set_view(im, node, 0, &view);
    return NEAP_OK;
}

static neap_status infer_attention(onnx_import *im, const onnx_node *node)
{
    (void)im;
    (void)node;
    return NEAP_OK; /* fusing keeps the shape of the product */
}

const onnx_op neap_onnx_ops_attention[] = {
    {"Attention", ONNX_NEAP_DOMAIN, infer_attention, NULL, lower_attention},
    {0},
};
