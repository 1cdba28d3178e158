/* Nodes that choose or repeat elements: Gather, Slice, Split, Concat, Expand, Tile. */
#include "onnx/ops.h"

#include "base/fail.h"

#include <string.h>

/* The products of the extents before an axis, and after it. */
static void around(const onnx_shape *shape, uint32_t axis, int64_t *outer, int64_t *inner)
{
    *outer = *inner = 1;
    for (uint32_t d = 0; d < axis; d++)
        *outer *= shape->dims[d];
    for (uint32_t d = axis + 1; d < shape->rank; d++)
        *inner *= shape->dims[d];
}

/* ---- Gather ---- */

static neap_status infer_gather(onnx_import *im, const onnx_node *node)
{
    uint32_t axis;
    NEAP_TRY(neap_onnx_need(im, node, 2));
    const onnx_shape *data = &neap_onnx_input(im, node, 0)->shape;
    const onnx_shape *indices = &neap_onnx_input(im, node, 1)->shape;
    NEAP_TRY(neap_onnx_axis(im, node, neap_onnx_int(node, "axis", 0), data->rank, &axis));
    if (data->rank - 1 + indices->rank > NEAP_MAX_RANK)
        return neap_onnx_fail(im, node, "more than %d dimensions", NEAP_MAX_RANK);
    onnx_shape shape = {.type = data->type};
    for (uint32_t d = 0; d < axis; d++)
        shape.dims[shape.rank++] = data->dims[d];
    for (uint32_t d = 0; d < indices->rank; d++)
        shape.dims[shape.rank++] = indices->dims[d];
    for (uint32_t d = axis + 1; d < data->rank; d++)
        shape.dims[shape.rank++] = data->dims[d];
    return neap_onnx_set_shape(im, node, 0, &shape);
}

/* An index that may be negative. */
static neap_status read_index(const onnx_import *im, const onnx_node *node,
                              const onnx_constant *indices, int64_t i, int64_t extent,
                              int64_t *index)
{
    *index = neap_onnx_get_integer(indices, i);
    if (*index < -extent || *index >= extent)
        return neap_onnx_fail(im, node, "there is no element %lld of %lld", (long long)*index,
                              (long long)extent);
    *index += *index < 0 ? extent : 0;
    return NEAP_OK;
}

static neap_status fold_gather(onnx_import *im, const onnx_node *node)
{
    const onnx_constant *data = neap_onnx_input_constant(im, node, 0);
    const onnx_constant *indices = neap_onnx_input_constant(im, node, 1);
    uint32_t axis;
    int64_t outer, inner, extent, index;
    onnx_constant *to;
    NEAP_TRY(neap_onnx_axis(im, node, neap_onnx_int(node, "axis", 0), data->shape.rank, &axis));
    around(&data->shape, axis, &outer, &inner);
    extent = data->shape.dims[axis];
    NEAP_TRY(neap_onnx_new_constant(im, node, 0, &to));
    for (int64_t o = 0; o < outer; o++)
        for (int64_t i = 0; i < indices->elements; i++) {
            NEAP_TRY(read_index(im, node, indices, i, extent, &index));
            for (int64_t k = 0; k < inner; k++)
                neap_onnx_copy_element(data, (o * extent + index) * inner + k, to,
                                       (o * indices->elements + i) * inner + k);
        }
    return NEAP_OK;
}

/* Rows of a table that is trained. */
static neap_status lower_embedding(onnx_import *im, const onnx_node *node)
{
    neap_tensor table, ids;
    NEAP_TRY(neap_onnx_tensor(im, node, node->inputs[0], &table));
    NEAP_TRY(neap_onnx_tensor(im, node, node->inputs[1], &ids));
    neap_tensor y = neap_net_embedding_with(im->net, node->name, ids, table);
    const onnx_value *output = neap_onnx_output(im, node, 0);
    if (neap_onnx_input(im, node, 1)->shape.rank == 0) /* a tensor has one dimension at least */
        y = neap_net_reshape(im->net, node->name, y, output->shape.rank, output->shape.dims);
    neap_onnx_set_tensor(im, node, 0, y);
    return NEAP_OK;
}

/* Indices from the last one on become those from the first one on. */
static neap_status read_indices(onnx_import *im, const onnx_node *node, int64_t extent,
                                neap_tensor *tensor)
{
    const onnx_value *value = neap_onnx_input(im, node, 1);
    const onnx_constant *from = value->constant;
    bool negative = false;
    for (int64_t i = 0; from && i < from->elements; i++)
        negative = negative || neap_onnx_get_integer(from, i) < 0;
    if (!negative)
        return neap_onnx_tensor(im, node, node->inputs[1], tensor);
    onnx_constant *to = neap_onnx_constant_new(im->arena, &from->shape);
    if (!to)
        return neap_fail_no_memory(im->diag);
    for (int64_t i = 0; i < to->elements; i++) {
        int64_t index;
        NEAP_TRY(read_index(im, node, from, i, extent, &index));
        neap_onnx_set_integer(to, i, index);
    }
    uint32_t rank = from->shape.rank > 0 ? from->shape.rank : 1;
    const int64_t one = 1, *dims = from->shape.rank > 0 ? from->shape.dims : &one;
    return neap_onnx_fixed(im, to, value->name, rank, dims, tensor);
}

static neap_status lower_gather_any(onnx_import *im, const onnx_node *node, uint32_t axis)
{
    const onnx_shape *data = &neap_onnx_input(im, node, 0)->shape;
    const onnx_shape *shape = &neap_onnx_output(im, node, 0)->shape;
    neap_tensor x, indices;
    onnx_view view;
    if (!neap_onnx_type_is_float(data->type))
        return neap_onnx_fail_unsupported(im, node, "neap gathers floats");
    NEAP_TRY(neap_onnx_tensor(im, node, node->inputs[0], &x));
    NEAP_TRY(read_indices(im, node, data->dims[axis], &indices));
    x = neap_net_gather(im->net, node->name, x, indices, axis);
    neap_onnx_view_init(&view, x, false, shape->rank, shape->dims);
    neap_onnx_set_view(im, node, 0, &view);
    return NEAP_OK;
}

/* Constant indices that follow each other: *first gets the first one. */
static bool are_consecutive(const onnx_constant *indices, int64_t extent, int64_t *first)
{
    *first = indices->elements > 0 ? neap_onnx_get_integer(indices, 0) : -1;
    *first += *first < 0 ? extent : 0;
    if (*first < 0 || *first > extent - indices->elements)
        return false;
    for (int64_t i = 1; i < indices->elements; i++) {
        int64_t index = neap_onnx_get_integer(indices, i);
        if ((index < 0 ? index + extent : index) != *first + i)
            return false;
    }
    return true;
}

static neap_status take_part(onnx_import *im, const onnx_node *node, onnx_view *view, uint32_t axis,
                             int64_t begin, int64_t end, uint32_t value);

static neap_status lower_range(onnx_import *im, const onnx_node *node, uint32_t axis, int64_t begin,
                               int64_t end)
{
    const onnx_shape *shape = &neap_onnx_output(im, node, 0)->shape;
    const onnx_view *from;
    int64_t dims[NEAP_MAX_RANK];
    neap_tensor x;
    NEAP_TRY(neap_onnx_view(im, node, node->inputs[0], &from));
    onnx_view view = *from;
    NEAP_TRY(take_part(im, node, &view, axis, begin, end, node->inputs[0]));
    if (!neap_onnx_view_reshape(&view, shape->rank, shape->dims)) {
        neap_onnx_view_dims(&view, dims);
        NEAP_TRY(neap_onnx_weight(im, node, node->inputs[0], &view, view.rank, dims, &x));
        neap_onnx_view_init(&view, x, false, shape->rank, shape->dims);
    }
    neap_onnx_set_view(im, node, 0, &view);
    return NEAP_OK;
}

static neap_status lower_gather(onnx_import *im, const onnx_node *node)
{
    const onnx_value *data = neap_onnx_input(im, node, 0);
    const onnx_constant *indices = neap_onnx_input_constant(im, node, 1);
    uint32_t axis;
    int64_t index;
    NEAP_TRY(neap_onnx_axis(im, node, neap_onnx_int(node, "axis", 0), data->shape.rank, &axis));
    if (indices && indices->elements == 1 && indices->shape.rank <= 1) {
        const onnx_view *from;
        NEAP_TRY(read_index(im, node, indices, 0, data->shape.dims[axis], &index));
        NEAP_TRY(neap_onnx_view(im, node, node->inputs[0], &from));
        onnx_view view = *from;
        if (indices->shape.rank == 0)
            neap_onnx_view_select(&view, axis, index);
        else
            NEAP_TRY(take_part(im, node, &view, axis, index, index + 1, node->inputs[0]));
        neap_onnx_set_view(im, node, 0, &view);
        return NEAP_OK;
    }
    if (axis == 0 && data->shape.rank == 2 && neap_onnx_type_is_float(data->shape.type))
        return lower_embedding(im, node);
    if (indices && are_consecutive(indices, data->shape.dims[axis], &index))
        return lower_range(im, node, axis, index, index + indices->elements);
    return lower_gather_any(im, node, axis);
}

/* ---- Slice ---- */

/* What a Slice takes of each dimension. */
typedef struct slice_plan {
    int64_t begin[NEAP_MAX_RANK], step[NEAP_MAX_RANK], count[NEAP_MAX_RANK];
} slice_plan;

static int64_t clamp(int64_t x, int64_t low, int64_t high)
{
    return x < low ? low : x > high ? high : x;
}

static void plan_axis(slice_plan *plan, uint32_t axis, int64_t extent, int64_t begin, int64_t end,
                      int64_t step)
{
    begin += begin < 0 ? extent : 0;
    end += end < 0 ? extent : 0;
    begin = step > 0 ? clamp(begin, 0, extent) : clamp(begin, 0, extent - 1);
    end = step > 0 ? clamp(end, 0, extent) : clamp(end, -1, extent - 1);
    int64_t span = step > 0 ? end - begin : begin - end;
    int64_t stride = step > 0 ? step : step == INT64_MIN ? INT64_MAX : -step;
    plan->begin[axis] = begin;
    plan->step[axis] = step;
    plan->count[axis] = span > 0 ? (span - 1) / stride + 1 : 0;
}

static neap_status plan_slice(const onnx_import *im, const onnx_node *node, slice_plan *plan)
{
    const onnx_shape *data = &neap_onnx_input(im, node, 0)->shape;
    const int64_t *begins, *ends, *axes, *steps;
    size_t n_begins, n_ends, n_axes, n_steps;
    NEAP_TRY(neap_onnx_integers(im, node, 1, &begins, &n_begins));
    NEAP_TRY(neap_onnx_integers(im, node, 2, &ends, &n_ends));
    NEAP_TRY(neap_onnx_integers(im, node, 3, &axes, &n_axes));
    NEAP_TRY(neap_onnx_integers(im, node, 4, &steps, &n_steps));
    if (n_begins != n_ends || (n_axes && n_axes != n_begins) || (n_steps && n_steps != n_begins) ||
        n_begins > data->rank)
        return neap_onnx_fail(im, node, "its lists of starts, ends, axes and steps differ");
    for (uint32_t d = 0; d < data->rank; d++)
        plan_axis(plan, d, data->dims[d], 0, data->dims[d], 1);
    for (size_t i = 0; i < n_begins; i++) {
        uint32_t axis;
        int64_t step = n_steps ? steps[i] : 1;
        NEAP_TRY(neap_onnx_axis(im, node, n_axes ? axes[i] : (int64_t)i, data->rank, &axis));
        if (step == 0)
            return neap_onnx_fail(im, node, "a step of 0");
        plan_axis(plan, axis, data->dims[axis], begins[i], ends[i], step);
    }
    return NEAP_OK;
}

static neap_status infer_slice(onnx_import *im, const onnx_node *node)
{
    slice_plan plan;
    NEAP_TRY(neap_onnx_need(im, node, 3));
    NEAP_TRY(plan_slice(im, node, &plan));
    onnx_shape shape = neap_onnx_input(im, node, 0)->shape;
    memcpy(shape.dims, plan.count, shape.rank * sizeof *shape.dims);
    return neap_onnx_set_shape(im, node, 0, &shape);
}

static neap_status fold_slice(onnx_import *im, const onnx_node *node)
{
    const onnx_constant *from = neap_onnx_input_constant(im, node, 0);
    slice_plan plan;
    onnx_constant *to;
    NEAP_TRY(plan_slice(im, node, &plan));
    NEAP_TRY(neap_onnx_new_constant(im, node, 0, &to));
    for (int64_t i = 0; i < to->elements; i++) {
        int64_t rest = i, at = 0, stride = 1;
        for (uint32_t d = to->shape.rank; d-- > 0;) {
            at += (plan.begin[d] + rest % to->shape.dims[d] * plan.step[d]) * stride;
            rest /= to->shape.dims[d];
            stride *= from->shape.dims[d];
        }
        neap_onnx_copy_element(from, at, to, i);
    }
    return NEAP_OK;
}

/* A part of one dimension of a view: one of equal parts stays a view of the whole. */
static neap_status take_part(onnx_import *im, const onnx_node *node, onnx_view *view, uint32_t axis,
                             int64_t begin, int64_t end, uint32_t value)
{
    int64_t dims[NEAP_MAX_RANK];
    neap_tensor x;
    if (neap_onnx_view_part(view, axis, begin, end))
        return NEAP_OK;
    neap_onnx_view_dims(view, dims);
    NEAP_TRY(neap_onnx_weight(im, node, value, view, view->rank, dims, &x));
    x = neap_net_slice(im->net, node->name, x, axis, begin, end);
    dims[axis] = end - begin;
    neap_onnx_view_init(view, x, false, view->rank, dims);
    return neap_onnx_check_net(im, node);
}

typedef struct step_picks {
    onnx_picks base;
    int64_t begin, step;
} step_picks;

static int64_t step_place(const onnx_picks *picks, int64_t i)
{
    const step_picks *steps = (const step_picks *)picks;
    return steps->begin + i * steps->step;
}

static neap_status take_steps(onnx_import *im, const onnx_node *node, onnx_view *view, uint32_t dim,
                              const slice_plan *plan)
{
    const step_picks picks = {{plan->count[dim], step_place}, plan->begin[dim], plan->step[dim]};
    int64_t dims[NEAP_MAX_RANK];
    neap_tensor x;
    neap_onnx_view_dims(view, dims);
    NEAP_TRY(neap_onnx_weight(im, node, node->inputs[0], view, view->rank, dims, &x));
    NEAP_TRY(neap_onnx_pick(im, node, x, dim, &picks.base, &x));
    dims[dim] = picks.base.count;
    neap_onnx_view_init(view, x, false, view->rank, dims);
    return NEAP_OK;
}

static neap_status lower_slice(onnx_import *im, const onnx_node *node)
{
    const onnx_view *from;
    slice_plan plan;
    NEAP_TRY(plan_slice(im, node, &plan));
    NEAP_TRY(neap_onnx_view(im, node, node->inputs[0], &from));
    onnx_view view = *from;
    for (uint32_t d = 0; d < view.rank; d++) {
        if (plan.count[d] == 0)
            return neap_onnx_fail(im, node, "nothing is left of dimension %u", d);
        if (plan.step[d] != 1 && plan.count[d] > 1)
            NEAP_TRY(take_steps(im, node, &view, d, &plan));
        else
            NEAP_TRY(take_part(im, node, &view, d, plan.begin[d], plan.begin[d] + plan.count[d],
                               node->inputs[0]));
    }
    neap_onnx_set_view(im, node, 0, &view);
    return NEAP_OK;
}

/* ---- Split ---- */

/* The extent of each part. */
static neap_status split_sizes(onnx_import *im, const onnx_node *node, uint32_t *axis,
                               int64_t **sizes)
{
    const onnx_shape *data = &neap_onnx_input(im, node, 0)->shape;
    const int64_t *list;
    size_t count;
    NEAP_TRY(neap_onnx_axis(im, node, neap_onnx_int(node, "axis", 0), data->rank, axis));
    NEAP_TRY(neap_onnx_integers(im, node, 1, &list, &count));
    int64_t extent = data->dims[*axis], parts = node->n_outputs, sum = 0;
    int64_t each = (extent + parts - 1) / parts; /* the last may be smaller */
    if (!NEAP_TAKE(im->arena, (size_t)parts, *sizes))
        return neap_fail_no_memory(im->diag);
    for (int64_t i = 0; i < parts; i++) {
        (*sizes)[i] =
            count ? (i < (int64_t)count ? list[i] : -1) : clamp(extent - i * each, 0, each);
        if ((*sizes)[i] < 0 || (*sizes)[i] > extent)
            return neap_onnx_fail(im, node, "part %lld would have %lld elements", (long long)i,
                                  (long long)(*sizes)[i]);
        sum += (*sizes)[i];
    }
    if (sum != extent || (count && (int64_t)count != parts))
        return neap_onnx_fail(im, node, "the parts do not fill its %lld elements",
                              (long long)extent);
    return NEAP_OK;
}

static neap_status infer_split(onnx_import *im, const onnx_node *node)
{
    uint32_t axis;
    int64_t *sizes;
    NEAP_TRY(neap_onnx_need(im, node, 1));
    NEAP_TRY(split_sizes(im, node, &axis, &sizes));
    for (uint32_t i = 0; i < node->n_outputs; i++) {
        onnx_shape shape = neap_onnx_input(im, node, 0)->shape;
        shape.dims[axis] = sizes[i];
        NEAP_TRY(neap_onnx_set_shape(im, node, i, &shape));
    }
    return NEAP_OK;
}

static neap_status fold_split(onnx_import *im, const onnx_node *node)
{
    const onnx_constant *from = neap_onnx_input_constant(im, node, 0);
    uint32_t axis;
    int64_t *sizes, begin = 0, outer, inner;
    NEAP_TRY(split_sizes(im, node, &axis, &sizes));
    around(&from->shape, axis, &outer, &inner);
    for (uint32_t p = 0; p < node->n_outputs; begin += sizes[p++]) {
        onnx_constant *to;
        if (!neap_onnx_output(im, node, p))
            continue;
        NEAP_TRY(neap_onnx_new_constant(im, node, p, &to));
        for (int64_t o = 0; o < outer; o++)
            for (int64_t i = 0; i < sizes[p] * inner; i++)
                neap_onnx_copy_element(from, (o * from->shape.dims[axis] + begin) * inner + i, to,
                                       o * sizes[p] * inner + i);
    }
    return NEAP_OK;
}

static neap_status lower_split(onnx_import *im, const onnx_node *node)
{
    uint32_t axis;
    int64_t *sizes, begin = 0;
    NEAP_TRY(split_sizes(im, node, &axis, &sizes));
    for (uint32_t p = 0; p < node->n_outputs; begin += sizes[p++]) {
        const onnx_view *from;
        const onnx_value *part = neap_onnx_output(im, node, p);
        if (!part || !part->live)
            continue;
        NEAP_TRY(neap_onnx_view(im, node, node->inputs[0], &from));
        onnx_view view = *from;
        NEAP_TRY(take_part(im, node, &view, axis, begin, begin + sizes[p], node->inputs[0]));
        neap_onnx_set_view(im, node, p, &view);
    }
    return NEAP_OK;
}

/* ---- Concat ---- */

static neap_status infer_concat(onnx_import *im, const onnx_node *node)
{
    uint32_t axis;
    if (node->n_inputs == 0)
        return neap_onnx_fail(im, node, "it has no inputs");
    NEAP_TRY(neap_onnx_need(im, node, node->n_inputs));
    onnx_shape shape = neap_onnx_input(im, node, 0)->shape;
    NEAP_TRY(neap_onnx_axis(im, node, neap_onnx_int(node, "axis", 0), shape.rank, &axis));
    for (uint32_t i = 1; i < node->n_inputs; i++) {
        const onnx_shape *part = &neap_onnx_input(im, node, i)->shape;
        bool fits = part->rank == shape.rank;
        for (uint32_t d = 0; fits && d < shape.rank; d++)
            fits = d == axis || part->dims[d] == shape.dims[d];
        if (!fits || part->dims[axis] > INT64_MAX - shape.dims[axis])
            return neap_onnx_fail(im, node, "its input %u does not have the others' shape", i);
        shape.dims[axis] += part->dims[axis];
    }
    return neap_onnx_set_shape(im, node, 0, &shape);
}

static neap_status fold_concat(onnx_import *im, const onnx_node *node)
{
    onnx_constant *to;
    uint32_t axis;
    int64_t outer, inner, begin = 0;
    NEAP_TRY(neap_onnx_new_constant(im, node, 0, &to));
    NEAP_TRY(neap_onnx_axis(im, node, neap_onnx_int(node, "axis", 0), to->shape.rank, &axis));
    around(&to->shape, axis, &outer, &inner);
    int64_t row = to->shape.dims[axis] * inner;
    for (uint32_t p = 0; p < node->n_inputs; p++) {
        const onnx_constant *from = neap_onnx_input_constant(im, node, p);
        int64_t length = from->shape.dims[axis] * inner;
        for (int64_t o = 0; o < outer; o++)
            for (int64_t i = 0; i < length; i++)
                neap_onnx_copy_element(from, o * length + i, to, o * row + begin + i);
        begin += length;
    }
    return NEAP_OK;
}

static neap_status lower_concat(onnx_import *im, const onnx_node *node)
{
    neap_tensor *parts;
    uint32_t axis, rank = neap_onnx_output(im, node, 0)->shape.rank;
    if (!NEAP_TAKE(im->arena, node->n_inputs, parts))
        return neap_fail_no_memory(im->diag);
    NEAP_TRY(neap_onnx_axis(im, node, neap_onnx_int(node, "axis", 0), rank, &axis));
    for (uint32_t i = 0; i < node->n_inputs; i++)
        NEAP_TRY(neap_onnx_tensor(im, node, node->inputs[i], &parts[i]));
    neap_tensor y = node->n_inputs == 1
                        ? parts[0]
                        : neap_net_concat(im->net, node->name, node->n_inputs, parts, axis);
    neap_onnx_set_tensor(im, node, 0, y);
    return NEAP_OK;
}

/* ---- Expand, Tile ---- */

static neap_status infer_expand(onnx_import *im, const onnx_node *node)
{
    const int64_t *dims;
    size_t rank;
    NEAP_TRY(neap_onnx_need(im, node, 2));
    const onnx_shape *from = &neap_onnx_input(im, node, 0)->shape;
    NEAP_TRY(neap_onnx_integers(im, node, 1, &dims, &rank));
    if (rank > NEAP_MAX_RANK)
        return neap_onnx_fail(im, node, "%zu dimensions; neap takes up to %d", rank, NEAP_MAX_RANK);
    onnx_shape wanted = {.type = from->type, .rank = (uint32_t)rank}, shape;
    if (rank > 0)
        memcpy(wanted.dims, dims, rank * sizeof *dims);
    if (!neap_onnx_shape_broadcast(from, &wanted, &shape))
        return neap_onnx_fail(im, node, "its input does not broadcast to the shape");
    return neap_onnx_set_shape(im, node, 0, &shape);
}

static neap_status fold_expand(onnx_import *im, const onnx_node *node)
{
    const onnx_constant *from = neap_onnx_input_constant(im, node, 0);
    onnx_constant *to;
    NEAP_TRY(neap_onnx_new_constant(im, node, 0, &to));
    for (int64_t i = 0; i < to->elements; i++)
        neap_onnx_copy_element(from, neap_onnx_broadcast_index(&to->shape, &from->shape, i), to, i);
    return NEAP_OK;
}

static neap_status lower_expand(onnx_import *im, const onnx_node *node)
{
    const onnx_shape *to = &neap_onnx_output(im, node, 0)->shape;
    neap_tensor y;
    NEAP_TRY(neap_onnx_broadcast(im, node, node->inputs[0], to, &y));
    neap_onnx_set_tensor(im, node, 0, y);
    return NEAP_OK;
}

static neap_status infer_tile(onnx_import *im, const onnx_node *node)
{
    const int64_t *repeats;
    size_t count;
    NEAP_TRY(neap_onnx_need(im, node, 2));
    onnx_shape shape = neap_onnx_input(im, node, 0)->shape;
    NEAP_TRY(neap_onnx_integers(im, node, 1, &repeats, &count));
    if (count != shape.rank)
        return neap_onnx_fail(im, node, "%zu repeats of %u dimensions", count, shape.rank);
    for (uint32_t d = 0; d < shape.rank; d++) {
        if (repeats[d] < 0 || (repeats[d] > 0 && shape.dims[d] > INT64_MAX / repeats[d]))
            return neap_onnx_fail(im, node, "it repeats dimension %u %lld times", d,
                                  (long long)repeats[d]);
        shape.dims[d] *= repeats[d];
    }
    return neap_onnx_set_shape(im, node, 0, &shape);
}

static neap_status fold_tile(onnx_import *im, const onnx_node *node)
{
    const onnx_constant *from = neap_onnx_input_constant(im, node, 0);
    onnx_constant *to;
    NEAP_TRY(neap_onnx_new_constant(im, node, 0, &to));
    for (int64_t i = 0; i < to->elements; i++) {
        int64_t rest = i, at = 0, stride = 1;
        for (uint32_t d = to->shape.rank; d-- > 0;) {
            at += rest % to->shape.dims[d] % from->shape.dims[d] * stride;
            rest /= to->shape.dims[d];
            stride *= from->shape.dims[d];
        }
        neap_onnx_copy_element(from, at, to, i);
    }
    return NEAP_OK;
}

static neap_status lower_tile(onnx_import *im, const onnx_node *node)
{
    const onnx_shape *from = &neap_onnx_input(im, node, 0)->shape;
    const onnx_shape *to = &neap_onnx_output(im, node, 0)->shape;
    neap_tensor x, *copies;
    NEAP_TRY(neap_onnx_tensor(im, node, node->inputs[0], &x));
    for (uint32_t d = 0; d < from->rank; d++) {
        int64_t count = from->dims[d] > 0 ? to->dims[d] / from->dims[d] : 0;
        if (count == 1)
            continue;
        if (count < 1 || count > 4096 || !NEAP_TAKE(im->arena, (size_t)count, copies))
            return neap_onnx_fail_unsupported(im, node, "it repeats its input %lld times",
                                              (long long)count);
        for (int64_t i = 0; i < count; i++)
            copies[i] = x;
        x = neap_net_concat(im->net, node->name, (uint32_t)count, copies, d);
    }
    neap_onnx_set_tensor(im, node, 0, x);
    return NEAP_OK;
}

/* ---- Pad ---- */

typedef enum pad_mode { PAD_CONSTANT, PAD_REFLECT, PAD_EDGE, PAD_WRAP } pad_mode;

/* Elements before and after each dimension; what fills them. */
typedef struct pad_plan {
    int64_t before[NEAP_MAX_RANK], after[NEAP_MAX_RANK];
    double value;
    pad_mode mode;
} pad_plan;

static neap_status read_mode(const onnx_import *im, const onnx_node *node, pad_mode *mode)
{
    static const char *const names[] = {"constant", "reflect", "edge", "wrap"};
    const char *name = neap_onnx_string(node, "mode", names[0]);
    for (uint32_t i = 0; i < 4; i++)
        if (strcmp(name, names[i]) == 0) {
            *mode = (pad_mode)i;
            return NEAP_OK;
        }
    return neap_onnx_fail(im, node, "there is no mode \"%s\"", name);
}

static neap_status plan_pad(const onnx_import *im, const onnx_node *node, pad_plan *plan)
{
    uint32_t rank = neap_onnx_input(im, node, 0)->shape.rank, axis;
    const int64_t *pads, *axes;
    size_t n_pads, n_axes;
    const onnx_constant *value = neap_onnx_input_constant(im, node, 2);
    if (neap_onnx_input(im, node, 2) && (!value || value->elements != 1))
        return neap_onnx_fail_unsupported(im, node, "the value that it pads with must be a number");
    *plan = (pad_plan){.value = value ? neap_onnx_get_real(value, 0) : 0};
    NEAP_TRY(neap_onnx_integers(im, node, 1, &pads, &n_pads));
    NEAP_TRY(neap_onnx_integers(im, node, 3, &axes, &n_axes));
    size_t count = n_axes ? n_axes : rank;
    NEAP_TRY(read_mode(im, node, &plan->mode));
    if (n_pads != 2 * count)
        return neap_onnx_fail(im, node, "%zu pads for %zu dimensions", n_pads, count);
    for (size_t i = 0; i < count; i++) {
        NEAP_TRY(neap_onnx_axis(im, node, n_axes ? axes[i] : (int64_t)i, rank, &axis));
        plan->before[axis] = pads[i];
        plan->after[axis] = pads[count + i];
        if (pads[i] < -INT32_MAX || pads[i] > INT32_MAX || pads[count + i] < -INT32_MAX ||
            pads[count + i] > INT32_MAX)
            return neap_onnx_fail(im, node, "pads of more than 2^31");
    }
    return NEAP_OK;
}

static neap_status infer_pad(onnx_import *im, const onnx_node *node)
{
    pad_plan plan;
    NEAP_TRY(neap_onnx_need(im, node, 2));
    onnx_shape shape = neap_onnx_input(im, node, 0)->shape;
    NEAP_TRY(plan_pad(im, node, &plan));
    for (uint32_t d = 0; d < shape.rank; d++)
        shape.dims[d] += plan.before[d] + plan.after[d];
    return neap_onnx_set_shape(im, node, 0, &shape);
}

/* Where an element of a padded dimension comes from. */
typedef struct pad_picks {
    onnx_picks base;
    int64_t before, extent;
    pad_mode mode;
} pad_picks;

static int64_t pad_place(const onnx_picks *picks, int64_t i)
{
    const pad_picks *pad = (const pad_picks *)picks;
    int64_t last = pad->extent - 1, place = i - pad->before;
    if (pad->mode == PAD_EDGE)
        return clamp(place, 0, last);
    int64_t period = pad->mode == PAD_WRAP ? pad->extent : 2 * last; /* back and forth */
    if (period == 0)
        return 0;
    place = place % period + (place % period < 0 ? period : 0);
    return place > last ? period - place : place;
}

/* One dimension after another: elements of the data itself are around it. */
static neap_status pad_by_copies(onnx_import *im, const onnx_node *node, const pad_plan *plan,
                                 neap_tensor x)
{
    const onnx_shape *from = &neap_onnx_input(im, node, 0)->shape;
    const onnx_shape *to = &neap_onnx_output(im, node, 0)->shape;
    for (uint32_t d = 0; d < from->rank; d++) {
        const pad_picks picks = {
            {to->dims[d], pad_place}, plan->before[d], from->dims[d], plan->mode};
        if (plan->before[d] != 0 || plan->after[d] != 0)
            NEAP_TRY(neap_onnx_pick(im, node, x, d, &picks.base, &x));
    }
    neap_onnx_set_tensor(im, node, 0, x);
    return NEAP_OK;
}

/* Zeros around images have an op of their own. */
static neap_status lower_pad(onnx_import *im, const onnx_node *node)
{
    uint32_t rank = neap_onnx_input(im, node, 0)->shape.rank;
    pad_plan plan;
    neap_tensor x;
    bool any = false, image;
    NEAP_TRY(plan_pad(im, node, &plan));
    NEAP_TRY(neap_onnx_tensor(im, node, node->inputs[0], &x));
    if (plan.mode != PAD_CONSTANT)
        return pad_by_copies(im, node, &plan, x);
    image = rank == 4 && plan.value == 0;
    for (uint32_t d = 0; d < rank; d++) {
        any = any || plan.before[d] != 0 || plan.after[d] != 0;
        image = image && plan.before[d] >= 0 && plan.after[d] >= 0 &&
                (d > 1 || (plan.before[d] == 0 && plan.after[d] == 0));
    }
    if (any && image)
        x = neap_net_pad2d(im->net, node->name, x, plan.before[2], plan.after[2], plan.before[3],
                           plan.after[3]);
    else if (any)
        x = neap_net_pad(im->net, node->name, x, plan.before, plan.after, plan.value);
    neap_onnx_set_tensor(im, node, 0, x);
    return NEAP_OK;
}

const onnx_op neap_onnx_ops_select[] = {
    {"Gather", "", infer_gather, fold_gather, lower_gather},
    {"Slice", "", infer_slice, fold_slice, lower_slice},
    {"Split", "", infer_split, fold_split, lower_split},
    {"Concat", "", infer_concat, fold_concat, lower_concat},
    {"Expand", "", infer_expand, fold_expand, lower_expand},
    {"Tile", "", infer_tile, fold_tile, lower_tile},
    {"Pad", "", infer_pad, NULL, lower_pad},
    {0},
};
