/*
 * Nodes that pick or replace elements by positions: GatherElements, GatherND, ScatterElements,
 * ScatterND. On data their positions must follow from shapes; they are then a gather of rows.
 */
#include "onnx/ops.h"

#include "base/fail.h"

#include <math.h>
#include <string.h>

/* The data as rows of `inner` elements, and which of them the node reads or replaces. */
typedef struct pick_plan {
    int64_t rows, inner, count;
    onnx_constant *picked; /* the numbers of `count` rows */
} pick_plan;

/* `count` integers to fill in. */
static neap_status new_integers(onnx_import *im, const onnx_node *node, int64_t count,
                                onnx_constant **integers)
{
    const onnx_shape shape = {.type = ONNX_INT64, .rank = 1, .dims = {count}};
    if (count > ONNX_MOST_CONSTANT)
        return neap_onnx_fail_unsupported(im, node, "it picks %lld elements by number",
                                          (long long)count);
    *integers = neap_onnx_constant_new(im->arena, &shape);
    return *integers ? NEAP_OK : neap_fail_no_memory(im->diag);
}

neap_status neap_onnx_pick(onnx_import *im, const onnx_node *node, neap_tensor x, uint32_t axis,
                           const onnx_picks *picks, neap_tensor *result)
{
    onnx_constant *places;
    neap_tensor index;
    NEAP_TRY(new_integers(im, node, picks->count, &places));
    for (int64_t i = 0; i < picks->count; i++)
        places->integers[i] = picks->place(picks, i);
    NEAP_TRY(neap_onnx_fixed(im, places, node->name, 1, &picks->count, &index));
    *result = neap_net_gather(im->net, node->name, x, index, axis);
    return neap_onnx_check_net(im, node);
}

/* ---- Shapes ---- */

static bool is_type(const onnx_node *node, const char *type)
{
    return strcmp(node->type, type) == 0;
}

static neap_status infer_gather_elements(onnx_import *im, const onnx_node *node)
{
    NEAP_TRY(neap_onnx_need(im, node, 2));
    onnx_shape shape = neap_onnx_input(im, node, 1)->shape;
    shape.type = neap_onnx_input(im, node, 0)->shape.type;
    if (shape.rank != neap_onnx_input(im, node, 0)->shape.rank)
        return neap_onnx_fail(im, node, "data and indices have different ranks");
    return neap_onnx_set_shape(im, node, 0, &shape);
}

/* The leading dimensions that data and indices share, and how many of those that follow an index
   of data names. */
static neap_status read_depth(const onnx_import *im, const onnx_node *node, uint32_t *batch,
                              uint32_t *depth)
{
    const onnx_shape *data = &neap_onnx_input(im, node, 0)->shape;
    const onnx_shape *indices = &neap_onnx_input(im, node, 1)->shape;
    int64_t shared = neap_onnx_int(node, "batch_dims", 0);
    int64_t named = indices->rank > 0 ? indices->dims[indices->rank - 1] : 0;
    bool fits = shared >= 0 && shared < (int64_t)indices->rank && named >= 1 &&
                named <= (int64_t)data->rank - shared &&
                indices->rank - 1 + data->rank - shared - named <= NEAP_MAX_RANK;
    for (int64_t d = 0; fits && d < shared; d++)
        fits = data->dims[d] == indices->dims[d];
    if (!fits)
        return neap_onnx_fail(im, node, "indices of %lld into %u dimensions", (long long)named,
                              data->rank);
    *batch = (uint32_t)shared;
    *depth = (uint32_t)named;
    return NEAP_OK;
}

/* The dimensions of the indices but the last one, then those of data that they do not name. */
static onnx_shape picked_shape(const onnx_import *im, const onnx_node *node, uint32_t named)
{
    const onnx_shape *data = &neap_onnx_input(im, node, 0)->shape;
    const onnx_shape *indices = &neap_onnx_input(im, node, 1)->shape;
    onnx_shape shape = {.type = data->type};
    for (uint32_t d = 0; d + 1 < indices->rank; d++)
        shape.dims[shape.rank++] = indices->dims[d];
    for (uint32_t d = named; d < data->rank; d++)
        shape.dims[shape.rank++] = data->dims[d];
    return shape;
}

static neap_status infer_gather_nd(onnx_import *im, const onnx_node *node)
{
    uint32_t batch, depth;
    NEAP_TRY(neap_onnx_need(im, node, 2));
    NEAP_TRY(read_depth(im, node, &batch, &depth));
    onnx_shape shape = picked_shape(im, node, batch + depth);
    return neap_onnx_set_shape(im, node, 0, &shape);
}

static neap_status infer_scatter(onnx_import *im, const onnx_node *node)
{
    uint32_t batch, depth;
    NEAP_TRY(neap_onnx_need(im, node, 3));
    const onnx_shape *data = &neap_onnx_input(im, node, 0)->shape;
    onnx_shape wanted = neap_onnx_input(im, node, 1)->shape;
    bool fits = wanted.rank == data->rank;
    if (is_type(node, "ScatterND")) {
        NEAP_TRY(read_depth(im, node, &batch, &depth));
        wanted = picked_shape(im, node, depth);
        fits = batch == 0;
    }
    if (!fits || !neap_onnx_shape_equal(&wanted, &neap_onnx_input(im, node, 2)->shape))
        return neap_onnx_fail(im, node, "its updates do not fit its indices");
    return neap_onnx_set_shape(im, node, 0, data);
}

/* ---- Positions ---- */

static neap_status fail_place(const onnx_import *im, const onnx_node *node, int64_t index,
                              int64_t extent)
{
    return neap_onnx_fail(im, node, "there is no element %lld of %lld", (long long)index,
                          (long long)extent);
}

/* Element i is at the place of index i, but on the axis at the index itself. */
static neap_status plan_elements(onnx_import *im, const onnx_node *node, pick_plan *plan)
{
    const onnx_shape *data = &neap_onnx_input(im, node, 0)->shape;
    const onnx_constant *indices = neap_onnx_input_constant(im, node, 1);
    uint32_t axis;
    NEAP_TRY(neap_onnx_axis(im, node, neap_onnx_int(node, "axis", 0), data->rank, &axis));
    neap_onnx_shape_elements(data, &plan->rows);
    plan->inner = 1;
    plan->count = indices->elements;
    NEAP_TRY(new_integers(im, node, plan->count, &plan->picked));
    for (int64_t i = 0; i < plan->count; i++) {
        int64_t rest = i, at = 0, stride = 1;
        for (uint32_t d = data->rank; d-- > 0;) {
            int64_t place = rest % indices->shape.dims[d], extent = data->dims[d];
            rest /= indices->shape.dims[d];
            if (d == axis) {
                place = neap_onnx_get_integer(indices, i);
                place += place < 0 ? extent : 0;
            }
            if (place < 0 || place >= extent)
                return fail_place(im, node, place, extent);
            at += place * stride;
            stride *= extent;
        }
        plan->picked->integers[i] = at;
    }
    return NEAP_OK;
}

/* Each row of the indices names one of data. */
static neap_status plan_rows(onnx_import *im, const onnx_node *node, pick_plan *plan)
{
    const onnx_shape *data = &neap_onnx_input(im, node, 0)->shape;
    const onnx_constant *indices = neap_onnx_input_constant(im, node, 1);
    uint32_t batch, depth;
    int64_t shared = 1;
    NEAP_TRY(read_depth(im, node, &batch, &depth));
    plan->rows = plan->inner = 1;
    for (uint32_t d = 0; d < data->rank; d++)
        *(d < batch + depth ? &plan->rows : &plan->inner) *= data->dims[d];
    for (uint32_t d = 0; d < batch; d++)
        shared *= data->dims[d];
    plan->count = indices->elements / depth;
    NEAP_TRY(new_integers(im, node, plan->count, &plan->picked));
    for (int64_t i = 0; i < plan->count; i++) {
        int64_t at = i / (plan->count / shared); /* the index in the shared dimensions */
        for (uint32_t k = 0; k < depth; k++) {
            int64_t extent = data->dims[batch + k];
            int64_t index = neap_onnx_get_integer(indices, i * depth + k);
            index += index < 0 ? extent : 0;
            if (index < 0 || index >= extent)
                return fail_place(im, node, index, extent);
            at = at * extent + index;
        }
        plan->picked->integers[i] = at;
    }
    return NEAP_OK;
}

static neap_status make_plan(onnx_import *im, const onnx_node *node, pick_plan *plan)
{
    if (!neap_onnx_input_constant(im, node, 1))
        return neap_onnx_fail_unsupported(im, node, "its indices must follow from shapes");
    return is_type(node, "GatherND") || is_type(node, "ScatterND") ? plan_rows(im, node, plan)
                                                                   : plan_elements(im, node, plan);
}

/* ---- Constants ---- */

static neap_status fold_gather(onnx_import *im, const onnx_node *node)
{
    const onnx_constant *data = neap_onnx_input_constant(im, node, 0);
    pick_plan plan;
    onnx_constant *to;
    NEAP_TRY(make_plan(im, node, &plan));
    NEAP_TRY(neap_onnx_new_constant(im, node, 0, &to));
    for (int64_t i = 0; i < to->elements; i++)
        neap_onnx_copy_element(
            data, plan.picked->integers[i / plan.inner] * plan.inner + i % plan.inner, to, i);
    return NEAP_OK;
}

static double joined(const char *reduction, double old, double update)
{
    if (strcmp(reduction, "add") == 0)
        return old + update;
    if (strcmp(reduction, "mul") == 0)
        return old * update;
    if (strcmp(reduction, "max") == 0)
        return fmax(old, update);
    return fmin(old, update);
}

static neap_status fold_scatter(onnx_import *im, const onnx_node *node)
{
    const onnx_constant *data = neap_onnx_input_constant(im, node, 0);
    const onnx_constant *updates = neap_onnx_input_constant(im, node, 2);
    const char *reduction = neap_onnx_string(node, "reduction", "none");
    pick_plan plan;
    onnx_constant *to;
    NEAP_TRY(make_plan(im, node, &plan));
    NEAP_TRY(neap_onnx_new_constant(im, node, 0, &to));
    for (int64_t i = 0; i < to->elements; i++)
        neap_onnx_copy_element(data, i, to, i);
    for (int64_t i = 0; i < updates->elements; i++) {
        int64_t at = plan.picked->integers[i / plan.inner] * plan.inner + i % plan.inner;
        if (strcmp(reduction, "none") == 0)
            neap_onnx_copy_element(updates, i, to, at);
        else
            neap_onnx_set_real(
                to, at,
                joined(reduction, neap_onnx_get_real(to, at), neap_onnx_get_real(updates, i)));
    }
    return NEAP_OK;
}

/* ---- Layers ---- */

/* An operand as rows; neap picks among floats. */
static neap_status read_rows(onnx_import *im, const onnx_node *node, uint32_t input, int64_t inner,
                             neap_tensor *rows)
{
    if (!neap_onnx_type_is_float(neap_onnx_input(im, node, input)->shape.type))
        return neap_onnx_fail_unsupported(im, node, "neap picks floats");
    NEAP_TRY(neap_onnx_tensor(im, node, node->inputs[input], rows));
    *rows = neap_net_reshape(im->net, node->name, *rows, 2, (int64_t[]){-1, inner});
    return neap_onnx_check_net(im, node);
}

/* Output 0 is the picked rows of a tensor. */
static neap_status set_rows(onnx_import *im, const onnx_node *node, neap_tensor rows,
                            const onnx_constant *picked)
{
    const onnx_shape *shape = &neap_onnx_output(im, node, 0)->shape;
    neap_tensor index;
    onnx_view view;
    NEAP_TRY(neap_onnx_fixed(im, picked, node->name, 1, &picked->elements, &index));
    rows = neap_net_gather(im->net, node->name, rows, index, 0);
    neap_onnx_view_init(&view, rows, false, shape->rank, shape->dims);
    neap_onnx_set_view(im, node, 0, &view);
    return neap_onnx_check_net(im, node);
}

static neap_status lower_gather(onnx_import *im, const onnx_node *node)
{
    pick_plan plan;
    neap_tensor rows;
    NEAP_TRY(make_plan(im, node, &plan));
    NEAP_TRY(read_rows(im, node, 0, plan.inner, &rows));
    return set_rows(im, node, rows, plan.picked);
}

/* Every row is one of data or of the updates, which come after those of data. */
static neap_status lower_scatter(onnx_import *im, const onnx_node *node)
{
    pick_plan plan;
    neap_tensor parts[2];
    onnx_constant *from;
    if (strcmp(neap_onnx_string(node, "reduction", "none"), "none") != 0)
        return neap_onnx_fail_unsupported(im, node, "neap replaces elements, without a reduction");
    NEAP_TRY(make_plan(im, node, &plan));
    NEAP_TRY(read_rows(im, node, 0, plan.inner, &parts[0]));
    NEAP_TRY(read_rows(im, node, 2, plan.inner, &parts[1]));
    NEAP_TRY(new_integers(im, node, plan.rows, &from));
    for (int64_t r = 0; r < plan.rows; r++)
        from->integers[r] = r;
    for (int64_t i = 0; i < plan.count; i++)
        from->integers[plan.picked->integers[i]] = plan.rows + i;
    neap_tensor all = neap_net_concat(im->net, node->name, 2, parts, 0);
    NEAP_TRY(neap_onnx_check_net(im, node));
    return set_rows(im, node, all, from);
}

const onnx_op neap_onnx_ops_pick[] = {
    {"GatherElements", "", infer_gather_elements, fold_gather, lower_gather},
    {"GatherND", "", infer_gather_nd, fold_gather, lower_gather},
    {"ScatterElements", "", infer_scatter, fold_scatter, lower_scatter},
    {"ScatterND", "", infer_scatter, fold_scatter, lower_scatter},
    {0},
};
