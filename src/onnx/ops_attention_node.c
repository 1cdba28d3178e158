/*
 * The node Attention of opset 23: operands N x T x C with their numbers of heads, or N x heads x
 * T x D. It is neap's own attention where that does the same. Masks, fewer keys and values than
 * queries (each serves a group of heads) and values of another width take products and a softmax.
 */
#include "onnx/ops.h"

#include "base/fail.h"

#include <float.h>
#include <math.h>
#include <string.h>

typedef struct attention {
    onnx_attention q;       /* of the queries */
    int64_t heads;          /* of keys and values */
    int64_t depth;          /* of values */
    int64_t times[3];       /* of q, k and v */
    bool causal, plain;     /* plain: neap's own attention does it */
    const onnx_value *mask; /* NULL: there is none, or it is only causal */
    double scale;
} attention;

/* ---- Shapes ---- */

static neap_status read_heads(const onnx_import *im, const onnx_node *node, attention *a)
{
    const onnx_shape *q = &neap_onnx_input(im, node, 0)->shape;
    int64_t depths[3], heads[3];
    if (q->rank != 3 && q->rank != 4)
        return neap_onnx_fail(im, node, "its operands must have three or four dimensions");
    for (uint32_t i = 0; i < 3; i++) {
        const onnx_shape *x = &neap_onnx_input(im, node, i)->shape;
        if (x->rank != q->rank || x->dims[0] != q->dims[0])
            return neap_onnx_fail(im, node, "its queries, keys and values do not fit each other");
        heads[i] = q->rank == 4 ? x->dims[1]
                                : neap_onnx_int(node, i == 0 ? "q_num_heads" : "kv_num_heads", 0);
        int64_t width = x->dims[q->rank - 1];
        if (heads[i] < 1 || (q->rank == 3 && width % heads[i] != 0))
            return neap_onnx_fail(im, node, "%lld heads do not divide its width of %lld",
                                  (long long)heads[i], (long long)width);
        depths[i] = q->rank == 4 ? width : width / heads[i];
        a->times[i] = x->dims[q->rank - 2];
    }
    if (a->times[1] != a->times[2] || heads[1] != heads[2] || depths[0] != depths[1] ||
        heads[0] % heads[1] != 0)
        return neap_onnx_fail(im, node, "its queries, keys and values do not fit each other");
    a->q = (onnx_attention){q->dims[0], heads[0], depths[0], q->rank};
    a->heads = heads[1];
    a->depth = depths[2];
    return NEAP_OK;
}

static neap_status infer_node(onnx_import *im, const onnx_node *node)
{
    attention a;
    NEAP_TRY(neap_onnx_need(im, node, 3));
    NEAP_TRY(read_heads(im, node, &a));
    onnx_shape shape = neap_onnx_input(im, node, 0)->shape;
    shape.dims[shape.rank - 1] = shape.rank == 4 ? a.depth : a.q.heads * a.depth;
    return neap_onnx_set_shape(im, node, 0, &shape);
}

/* NEAP_UNSUPPORTED for what neap does not do. */
static neap_status read_node(const onnx_import *im, const onnx_node *node, attention *a)
{
    NEAP_TRY(read_heads(im, node, a));
    const onnx_shape scores = {.rank = 2, .dims = {a->times[0], a->times[1]}};
    onnx_mask kind = ONNX_MASK_NONE;
    a->mask = neap_onnx_input(im, node, 3);
    a->causal = neap_onnx_int(node, "is_causal", 0) != 0;
    if (a->mask)
        kind = a->mask->constant ? neap_onnx_classify_mask(a->mask->constant, &scores, false)
                                 : ONNX_MASK_OTHER;
    if (kind != ONNX_MASK_OTHER)
        a->mask = NULL;
    a->causal = a->causal || kind == ONNX_MASK_CAUSAL;
    if (neap_onnx_input(im, node, 4) || neap_onnx_input(im, node, 5) ||
        neap_onnx_real(node, "softcap", 0) != 0)
        return neap_onnx_fail_unsupported(im, node, "neap takes neither past keys nor a softcap");
    if (neap_onnx_input(im, node, 6) || neap_onnx_int(node, "left_window_size", -1) >= 0 ||
        neap_onnx_int(node, "right_window_size", -1) >= 0)
        return neap_onnx_fail_unsupported(im, node,
                                          "neap takes neither a window nor lengths of sequences");
    a->scale = neap_onnx_real(node, "scale", 1 / sqrt((double)a->q.depth));
    a->plain = !a->mask && a->heads == a->q.heads && a->depth == a->q.depth &&
               !(a->causal && a->times[0] != a->times[1]);
    return NEAP_OK;
}

/* ---- neap's own attention ---- */

static neap_status lower_plain(onnx_import *im, const onnx_node *node, const attention *a)
{
    onnx_view views[3], view;
    neap_tensor operands[3];
    for (uint32_t i = 0; i < 3; i++) {
        const int64_t apart[] = {a->q.batch, a->times[i], a->q.heads, a->q.depth};
        const onnx_view *from;
        NEAP_TRY(neap_onnx_view(im, node, node->inputs[i], &from));
        views[i] = *from;
        if (a->q.rank == 3 ? neap_onnx_view_reshape(&views[i], 4, apart)
                           : neap_onnx_attention_by_time(&views[i], &a->q, a->times[i], false)) {
            neap_onnx_view_simplify(&views[i]);
            continue;
        }
        NEAP_TRY(neap_onnx_tensor(im, node, node->inputs[i], &operands[i]));
        if (a->q.rank == 3) {
            neap_onnx_view_init(&views[i], operands[i], false, 4, apart);
            continue;
        }
        neap_onnx_view_init(&views[i], operands[i], false, 4,
                            (int64_t[]){a->q.batch, a->q.heads, a->times[i], a->q.depth});
        neap_onnx_attention_by_time(&views[i], &a->q, a->times[i], false);
    }
    double scale = a->scale * sqrt((double)a->q.depth);
    NEAP_TRY(neap_onnx_attention_operands(im, node, views, &a->q, a->times,
                                          fabs(scale - 1) < 1e-4 ? 1 : scale, operands));
    neap_tensor y = neap_net_attention(im->net, node->name, operands[0], operands[1], operands[2],
                                       a->q.heads, a->causal, 0);
    neap_onnx_view_init(&view, y, false, 4,
                        (int64_t[]){a->q.batch, a->times[0], a->q.heads, a->q.depth});
    if (a->q.rank == 4)
        neap_onnx_view_transpose(&view, (uint32_t[]){0, 2, 1, 3});
    else
        neap_onnx_view_reshape(&view, 3,
                               (int64_t[]){a->q.batch, a->times[0], a->q.heads * a->q.depth});
    neap_onnx_set_view(im, node, 0, &view);
    return NEAP_OK;
}

/* ---- Products and a softmax ---- */

/* An operand as N x heads of keys x rows x depth: heads that share keys are one after another. */
static neap_status read_operand(onnx_import *im, const onnx_node *node, const attention *a,
                                uint32_t input, neap_tensor *tensor)
{
    int64_t heads = input == 0 ? a->q.heads : a->heads, time = a->times[input];
    int64_t depth = input == 2 ? a->depth : a->q.depth;
    const int64_t apart[] = {a->q.batch, time, heads, depth};
    const int64_t shape[] = {a->q.batch, a->heads, heads / a->heads * time, depth};
    const onnx_view *from;
    NEAP_TRY(neap_onnx_view(im, node, node->inputs[input], &from));
    onnx_view view = *from;
    if (a->q.rank == 3) {
        if (!neap_onnx_view_reshape(&view, 4, apart)) {
            NEAP_TRY(neap_onnx_tensor(im, node, node->inputs[input], tensor));
            neap_onnx_view_init(&view, *tensor, false, 4, apart);
        }
        neap_onnx_view_transpose(&view, (uint32_t[]){0, 2, 1, 3});
    }
    return neap_onnx_weight(im, node, node->inputs[input], &view, 4, shape, tensor);
}

/* What does not depend on data: `sum` is added to the scores, low numbers where nothing is to be
   seen, which a softmax makes 0; `rows` multiplies the results: 0 where a query sees no key. */
typedef struct fixed_mask {
    neap_tensor sum, rows; /* NEAP_NONE: there are none */
} fixed_mask;

static bool is_hidden(const attention *a, const onnx_constant *mask, int64_t at, int64_t query,
                      int64_t key)
{
    if (a->causal && key > query)
        return true;
    return mask && (mask->shape.type == ONNX_BOOL ? !neap_onnx_get_integer(mask, at)
                                                  : isinf(neap_onnx_get_real(mask, at)) != 0);
}

static neap_status make_mask(onnx_import *im, const onnx_node *node, const attention *a,
                             const onnx_constant *mask, fixed_mask *fixed)
{
    const double lowest = -(double)FLT_MAX / 4; /* with a score it is still a number */
    const onnx_shape last = {.type = ONNX_FLOAT, .rank = 2, .dims = {a->times[0], a->times[1]}};
    onnx_shape shape = last, row;
    int64_t elements = 0;
    bool empty = false;
    if (mask && !neap_onnx_shape_broadcast(&last, &mask->shape, &shape))
        return neap_onnx_fail(im, node, "its mask does not fit its scores");
    if (!neap_onnx_shape_elements(&shape, &elements) || elements > ONNX_MOST_CONSTANT)
        return neap_onnx_fail_unsupported(im, node, "its mask is too large");
    row = shape;
    row.dims[row.rank - 1] = 1;
    onnx_constant *sum = neap_onnx_constant_new(im->arena, &shape);
    onnx_constant *rows = neap_onnx_constant_new(im->arena, &row);
    if (!sum || !rows)
        return neap_fail_no_memory(im->diag);
    for (int64_t i = 0; i < elements; i++) {
        int64_t key = i % a->times[1], query = i / a->times[1] % a->times[0];
        int64_t at = mask ? neap_onnx_broadcast_index(&shape, &mask->shape, i) : 0;
        bool hidden = is_hidden(a, mask, at, query, key);
        bool number = mask && mask->shape.type != ONNX_BOOL && !hidden;
        sum->floats[i] = (float)(hidden   ? lowest
                                 : number ? fmax(neap_onnx_get_real(mask, at), lowest)
                                          : 0);
        if (!hidden)
            rows->floats[i / a->times[1]] = 1;
    }
    for (int64_t r = 0; r < rows->elements; r++)
        empty = empty || rows->floats[r] < 1;
    fixed->rows = NEAP_NONE;
    if (empty)
        NEAP_TRY(neap_onnx_fixed(im, rows, node->name, row.rank, row.dims, &fixed->rows));
    return neap_onnx_fixed(im, sum, node->name, shape.rank, shape.dims, &fixed->sum);
}

/* A tensor that numpy would repeat, in the shape of the scores. */
static neap_tensor repeated(onnx_import *im, const onnx_node *node, neap_tensor x,
                            const onnx_shape *scores)
{
    return neap_net_broadcast(im->net, node->name, x, scores->rank, scores->dims);
}

/* The scores become those with the masks; what is fixed of them goes to *fixed. */
static neap_status add_masks(onnx_import *im, const onnx_node *node, const attention *a,
                             neap_tensor *scores, fixed_mask *fixed)
{
    const onnx_shape shape = {
        .type = ONNX_FLOAT, .rank = 4, .dims = {a->q.batch, a->q.heads, a->times[0], a->times[1]}};
    const onnx_constant *constant = a->mask ? a->mask->constant : NULL;
    bool data = a->mask && !constant;
    neap_tensor mask;
    onnx_shape sum = shape;
    if (a->mask && (!neap_onnx_shape_broadcast(&shape, &a->mask->shape, &sum) ||
                    !neap_onnx_shape_equal(&sum, &shape)))
        return neap_onnx_fail(im, node, "its mask does not fit its scores");
    if (data && a->mask->shape.type == ONNX_BOOL)
        return neap_onnx_fail_unsupported(im, node, "its mask must not depend on data");
    if (data) {
        NEAP_TRY(neap_onnx_broadcast(im, node, node->inputs[3], &shape, &mask));
        *scores = neap_net_add(im->net, node->name, *scores, mask);
    }
    *fixed = (fixed_mask){NEAP_NONE, NEAP_NONE};
    if (constant || a->causal) {
        NEAP_TRY(make_mask(im, node, a, constant, fixed));
        *scores =
            neap_net_add(im->net, node->name, *scores, repeated(im, node, fixed->sum, &shape));
    }
    return neap_onnx_check_net(im, node);
}

static neap_status lower_products(onnx_import *im, const onnx_node *node, const attention *a)
{
    const int64_t scores[] = {a->q.batch, a->q.heads, a->times[0], a->times[1]};
    const int64_t grouped[] = {a->q.batch, a->heads, a->q.heads / a->heads * a->times[0],
                               a->times[1]};
    neap_tensor operands[3];
    fixed_mask fixed;
    onnx_view view;
    for (uint32_t i = 0; i < 3; i++)
        NEAP_TRY(read_operand(im, node, a, i, &operands[i]));
    neap_network *net = im->net;
    const char *name = node->name;
    neap_tensor x = neap_net_matmul(net, name, operands[0], operands[1], false, true);
    x = neap_net_scale(net, name, neap_net_reshape(net, name, x, 4, scores), a->scale, 0);
    NEAP_TRY(add_masks(im, node, a, &x, &fixed));
    x = neap_net_reshape(net, name, neap_net_softmax(net, name, x, 3), 4, grouped);
    x = neap_net_matmul(net, name, x, operands[2], false, false);
    if (fixed.rows != NEAP_NONE) {
        const onnx_shape result = {.rank = 4,
                                   .dims = {a->q.batch, a->q.heads, a->times[0], a->depth}};
        x = neap_net_reshape(net, name, x, 4, result.dims);
        x = neap_net_mul(net, name, x, repeated(im, node, fixed.rows, &result));
    }
    neap_onnx_view_init(&view, x, false, 4,
                        (int64_t[]){a->q.batch, a->q.heads, a->times[0], a->depth});
    if (a->q.rank == 3) {
        neap_onnx_view_transpose(&view, (uint32_t[]){0, 2, 1, 3});
        neap_onnx_view_reshape(&view, 3,
                               (int64_t[]){a->q.batch, a->times[0], a->q.heads * a->depth});
    }
    neap_onnx_set_view(im, node, 0, &view);
    return neap_onnx_check_net(im, node);
}

static neap_status lower_node(onnx_import *im, const onnx_node *node)
{
    attention a;
    NEAP_TRY(read_node(im, node, &a));
    return a.plain ? lower_plain(im, node, &a) : lower_products(im, node, &a);
}

const onnx_op neap_onnx_ops_attention_node[] = {
    {"Attention", "", infer_node, NULL, lower_node},
    {0},
};
