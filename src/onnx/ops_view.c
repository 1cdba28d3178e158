/* Nodes that move no element: Reshape, Flatten, Squeeze, Unsqueeze, Transpose, Identity, Cast,
   DepthToSpace, SpaceToDepth. */
#include "onnx/ops.h"

#include "base/fail.h"

#include <string.h>

/* ---- Shapes ---- */

/* The shape that a Reshape asks for: 0 copies an extent, -1 is what is left. */
static neap_status reshape_target(onnx_import *im, const onnx_node *node, onnx_shape *shape)
{
    const onnx_shape *from = &neap_onnx_input(im, node, 0)->shape;
    const int64_t *wanted;
    size_t rank;
    int64_t elements = 0, known = 1;
    uint32_t open = NEAP_NONE;
    bool allow_zero = neap_onnx_int(node, "allowzero", 0) != 0;
    NEAP_TRY(neap_onnx_integers(im, node, 1, &wanted, &rank));
    if (rank > NEAP_MAX_RANK)
        return neap_onnx_fail(im, node, "%zu dimensions; neap takes up to %d", rank, NEAP_MAX_RANK);
    *shape = (onnx_shape){.type = from->type, .rank = (uint32_t)rank};
    neap_onnx_shape_elements(from, &elements);
    for (uint32_t d = 0; d < rank; d++) {
        shape->dims[d] = wanted[d];
        if (wanted[d] == 0 && !allow_zero) {
            if (d >= from->rank)
                return neap_onnx_fail(im, node, "it copies dimension %u of %u", d, from->rank);
            shape->dims[d] = from->dims[d];
        }
        if (wanted[d] < -1 || (wanted[d] == -1 && open != NEAP_NONE))
            return neap_onnx_fail(im, node, "an extent of %lld", (long long)wanted[d]);
        if (wanted[d] == -1)
            open = d;
        else if (known == 0 || shape->dims[d] <= INT64_MAX / known)
            known *= shape->dims[d];
        else
            return neap_onnx_fail(im, node, "the size of its result overflows 63 bits");
    }
    if (open != NEAP_NONE)
        shape->dims[open] = known > 0 ? elements / known : 0;
    if (open != NEAP_NONE ? known == 0 || elements % known != 0 : elements != known)
        return neap_onnx_fail(
            im, node,
            "%lld elements do not fit the new shape; a file that was exported for "
            "one batch size may fit no other",
            (long long)elements);
    return NEAP_OK;
}

static neap_status infer_reshape(onnx_import *im, const onnx_node *node)
{
    onnx_shape shape;
    NEAP_TRY(neap_onnx_need(im, node, 2));
    NEAP_TRY(reshape_target(im, node, &shape));
    return neap_onnx_set_shape(im, node, 0, &shape);
}

static neap_status infer_flatten(onnx_import *im, const onnx_node *node)
{
    NEAP_TRY(neap_onnx_need(im, node, 1));
    const onnx_shape *from = &neap_onnx_input(im, node, 0)->shape;
    int64_t axis = neap_onnx_int(node, "axis", 1);
    onnx_shape shape = {.type = from->type, .rank = 2, .dims = {1, 1}};
    axis = axis < 0 ? axis + from->rank : axis;
    if (axis < 0 || axis > from->rank)
        return neap_onnx_fail(im, node, "axis %lld of %u dimensions", (long long)axis, from->rank);
    for (uint32_t d = 0; d < from->rank; d++)
        shape.dims[d >= axis] *= from->dims[d];
    return neap_onnx_set_shape(im, node, 0, &shape);
}

static neap_status infer_squeeze(onnx_import *im, const onnx_node *node)
{
    uint32_t axes;
    bool given;
    NEAP_TRY(neap_onnx_need(im, node, 1));
    const onnx_shape *from = &neap_onnx_input(im, node, 0)->shape;
    onnx_shape shape = {.type = from->type};
    NEAP_TRY(neap_onnx_axes(im, node, 1, from->rank, &axes, &given));
    for (uint32_t d = 0; d < from->rank; d++) {
        bool drop = given ? axes >> d & 1 : from->dims[d] == 1;
        if (drop && from->dims[d] != 1)
            return neap_onnx_fail(im, node, "dimension %u is %lld, not 1", d,
                                  (long long)from->dims[d]);
        if (!drop)
            shape.dims[shape.rank++] = from->dims[d];
    }
    return neap_onnx_set_shape(im, node, 0, &shape);
}

static neap_status infer_unsqueeze(onnx_import *im, const onnx_node *node)
{
    const int64_t *list;
    size_t count;
    uint32_t axes;
    bool given;
    NEAP_TRY(neap_onnx_need(im, node, 1));
    const onnx_shape *from = &neap_onnx_input(im, node, 0)->shape;
    list = neap_onnx_ints(node, "axes", &count);
    if (!list)
        NEAP_TRY(neap_onnx_integers(im, node, 1, &list, &count));
    if (count + from->rank > NEAP_MAX_RANK)
        return neap_onnx_fail(im, node, "%zu dimensions; neap takes up to %d", count + from->rank,
                              NEAP_MAX_RANK);
    onnx_shape shape = {.type = from->type, .rank = from->rank + (uint32_t)count};
    NEAP_TRY(neap_onnx_axes(im, node, 1, shape.rank, &axes, &given));
    for (uint32_t d = 0, next = 0; d < shape.rank; d++) {
        bool added = axes >> d & 1;
        if (!added && next == from->rank)
            return neap_onnx_fail(im, node, "an axis is listed twice");
        shape.dims[d] = added ? 1 : from->dims[next++];
    }
    return neap_onnx_set_shape(im, node, 0, &shape);
}

neap_status neap_onnx_permutation(const onnx_import *im, const onnx_node *node, uint32_t rank,
                                  uint32_t perm[NEAP_MAX_RANK])
{
    size_t count;
    const int64_t *list = neap_onnx_ints(node, "perm", &count);
    uint32_t seen = 0;
    for (uint32_t d = 0; d < rank; d++) {
        perm[d] = rank - 1 - d;
        if (list && (count != rank || list[d] < 0 || list[d] >= (int64_t)rank))
            return neap_onnx_fail(im, node, "perm is no order of %u dimensions", rank);
        if (list)
            perm[d] = (uint32_t)list[d];
        seen |= UINT32_C(1) << perm[d];
    }
    if (seen != (UINT32_C(1) << rank) - 1)
        return neap_onnx_fail(im, node, "perm has a dimension twice");
    return NEAP_OK;
}

static neap_status infer_transpose(onnx_import *im, const onnx_node *node)
{
    uint32_t perm[NEAP_MAX_RANK];
    NEAP_TRY(neap_onnx_need(im, node, 1));
    const onnx_shape *from = &neap_onnx_input(im, node, 0)->shape;
    onnx_shape shape = *from;
    NEAP_TRY(neap_onnx_permutation(im, node, from->rank, perm));
    for (uint32_t d = 0; d < from->rank; d++)
        shape.dims[d] = from->dims[perm[d]];
    return neap_onnx_set_shape(im, node, 0, &shape);
}

static neap_status infer_cast(onnx_import *im, const onnx_node *node)
{
    NEAP_TRY(neap_onnx_need(im, node, 1));
    onnx_shape shape = neap_onnx_input(im, node, 0)->shape;
    const onnx_value *like = neap_onnx_input(im, node, 1); /* of CastLike */
    shape.type = like ? like->shape.type : (int32_t)neap_onnx_int(node, "to", 0);
    if (neap_onnx_type_bytes(shape.type) == 0)
        return neap_onnx_fail_unsupported(im, node, "neap does not compute with type %d",
                                          (int)shape.type);
    return neap_onnx_set_shape(im, node, 0, &shape);
}

/* ---- Constants ---- */

/* The same elements in another shape. */
static neap_status fold_shape(onnx_import *im, const onnx_node *node)
{
    onnx_value *result = neap_onnx_output(im, node, 0);
    onnx_constant *constant =
        neap_arena_copy(im->arena, neap_onnx_input_constant(im, node, 0), 1, sizeof(onnx_constant));
    if (!constant)
        return neap_fail_no_memory(im->diag);
    constant->shape = result->shape;
    result->constant = constant;
    return NEAP_OK;
}

static neap_status fold_transpose(onnx_import *im, const onnx_node *node)
{
    const onnx_constant *from = neap_onnx_input_constant(im, node, 0);
    uint32_t perm[NEAP_MAX_RANK], rank = from->shape.rank;
    int64_t strides[NEAP_MAX_RANK], stride = 1;
    onnx_constant *to;
    NEAP_TRY(neap_onnx_permutation(im, node, rank, perm));
    NEAP_TRY(neap_onnx_new_constant(im, node, 0, &to));
    for (uint32_t d = rank; d-- > 0;) {
        strides[d] = stride;
        stride *= from->shape.dims[d];
    }
    for (int64_t i = 0; i < to->elements; i++) {
        int64_t rest = i, at = 0;
        for (uint32_t d = rank; d-- > 0;) {
            at += rest % to->shape.dims[d] * strides[perm[d]];
            rest /= to->shape.dims[d];
        }
        neap_onnx_copy_element(from, at, to, i);
    }
    return NEAP_OK;
}

static neap_status fold_cast(onnx_import *im, const onnx_node *node)
{
    const onnx_constant *from = neap_onnx_input_constant(im, node, 0);
    onnx_constant *to;
    NEAP_TRY(neap_onnx_new_constant(im, node, 0, &to));
    for (int64_t i = 0; i < to->elements; i++)
        neap_onnx_copy_element(from, i, to, i);
    return NEAP_OK;
}

/* ---- Layers ---- */

/* Elements in row-major order fit every shape; others are brought into that order if need be. */
static neap_status lower_reshape(onnx_import *im, const onnx_node *node)
{
    const onnx_shape *shape = &neap_onnx_output(im, node, 0)->shape;
    const onnx_view *from;
    neap_tensor tensor;
    NEAP_TRY(neap_onnx_view(im, node, node->inputs[0], &from));
    onnx_view view = *from;
    if (neap_onnx_view_is_whole(&view)) {
        neap_onnx_view_init(&view, from->root, from->of_initializer, shape->rank, shape->dims);
    } else if (!neap_onnx_view_reshape(&view, shape->rank, shape->dims)) {
        NEAP_TRY(neap_onnx_tensor(im, node, node->inputs[0], &tensor));
        neap_onnx_view_init(&view, tensor, false, shape->rank, shape->dims);
    }
    neap_onnx_set_view(im, node, 0, &view);
    return NEAP_OK;
}

static neap_status lower_transpose(onnx_import *im, const onnx_node *node)
{
    const onnx_view *from;
    uint32_t perm[NEAP_MAX_RANK];
    NEAP_TRY(neap_onnx_view(im, node, node->inputs[0], &from));
    onnx_view view = *from;
    NEAP_TRY(neap_onnx_permutation(im, node, view.rank, perm));
    neap_onnx_view_transpose(&view, perm);
    neap_onnx_set_view(im, node, 0, &view);
    return NEAP_OK;
}

/* A network computes in one floating-point type: casts between them do nothing. */
static neap_status lower_cast(onnx_import *im, const onnx_node *node)
{
    int32_t from = neap_onnx_input(im, node, 0)->shape.type;
    int32_t to = neap_onnx_output(im, node, 0)->shape.type;
    const onnx_view *view;
    if (from != to && !(neap_onnx_type_is_float(from) && neap_onnx_type_is_float(to)))
        return neap_onnx_fail_unsupported(im, node, "neap does not turn data from %s into %s",
                                          neap_onnx_type_name(from), neap_onnx_type_name(to));
    NEAP_TRY(neap_onnx_view(im, node, node->inputs[0], &view));
    onnx_view copy = *view;
    neap_onnx_set_view(im, node, 0, &copy);
    return NEAP_OK;
}

/* ---- Blocks of pixels ---- */

/* Blocks of pixels become channels, or channels blocks of pixels: six dimensions in another order.
 */
typedef struct block_plan {
    int64_t dims[6]; /* of the input */
    uint32_t perm[6];
    int64_t result[4];
} block_plan;

static neap_status plan_blocks(const onnx_import *im, const onnx_node *node, block_plan *plan)
{
    static const uint32_t orders[4][6] = {
        {0, 3, 4, 1, 5, 2}, {0, 1, 4, 2, 5, 3}, {0, 3, 5, 1, 2, 4}, {0, 1, 3, 5, 2, 4}};
    NEAP_TRY(neap_onnx_need(im, node, 1));
    const onnx_shape *x = &neap_onnx_input(im, node, 0)->shape;
    int64_t b = neap_onnx_int(node, "blocksize", 0);
    if (x->rank != 4 || b < 1 || b > INT16_MAX)
        return neap_onnx_fail(im, node, "it takes images N x C x H x W and a block size");
    int64_t n = x->dims[0], c = x->dims[1], h = x->dims[2], w = x->dims[3];
    bool to_depth = strcmp(node->type, "SpaceToDepth") == 0;
    bool rows_last = strcmp(neap_onnx_string(node, "mode", "DCR"), "CRD") == 0;
    if (to_depth ? h % b || w % b : c % (b * b))
        return neap_onnx_fail(im, node, "blocks of %lld do not fit its input", (long long)b);
    if (to_depth)
        *plan = (block_plan){{n, c, h / b, b, w / b, b}, {0}, {n, c * b * b, h / b, w / b}};
    else if (rows_last)
        *plan = (block_plan){{n, c / (b * b), b, b, h, w}, {0}, {n, c / (b * b), h * b, w * b}};
    else
        *plan = (block_plan){{n, b, b, c / (b * b), h, w}, {0}, {n, c / (b * b), h * b, w * b}};
    memcpy(plan->perm, orders[(to_depth ? 2 : 0) + (rows_last ? 1 : 0)], sizeof plan->perm);
    return NEAP_OK;
}

static neap_status infer_blocks(onnx_import *im, const onnx_node *node)
{
    block_plan plan;
    NEAP_TRY(plan_blocks(im, node, &plan));
    onnx_shape shape = neap_onnx_input(im, node, 0)->shape;
    memcpy(shape.dims, plan.result, sizeof plan.result);
    return neap_onnx_set_shape(im, node, 0, &shape);
}

static neap_status lower_blocks(onnx_import *im, const onnx_node *node)
{
    block_plan plan;
    neap_tensor x;
    onnx_view view;
    NEAP_TRY(plan_blocks(im, node, &plan));
    NEAP_TRY(neap_onnx_tensor(im, node, node->inputs[0], &x));
    neap_onnx_view_init(&view, x, false, 6, plan.dims);
    neap_onnx_view_transpose(&view, plan.perm);
    neap_onnx_view_reshape(&view, 4, plan.result); /* joins dimensions, which always works */
    neap_onnx_set_view(im, node, 0, &view);
    return NEAP_OK;
}

const onnx_op neap_onnx_ops_view[] = {
    {"Reshape", "", infer_reshape, fold_shape, lower_reshape},
    {"Flatten", "", infer_flatten, fold_shape, lower_reshape},
    {"Squeeze", "", infer_squeeze, fold_shape, lower_reshape},
    {"Unsqueeze", "", infer_unsqueeze, fold_shape, lower_reshape},
    {"Transpose", "", infer_transpose, fold_transpose, lower_transpose},
    {"DepthToSpace", "", infer_blocks, NULL, lower_blocks},
    {"SpaceToDepth", "", infer_blocks, NULL, lower_blocks},
    {"Identity", "", neap_onnx_infer_same, fold_shape, lower_reshape},
    {"Cast", "", infer_cast, fold_cast, lower_cast},
    {"CastLike", "", infer_cast, fold_cast, lower_cast},
    {0},
};
