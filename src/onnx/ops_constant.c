/* Nodes that appear in the arithmetic of shapes, masks and positions: computed, never layers. */
#include "onnx/ops.h"

#include "base/fail.h"

#include <math.h>
#include <string.h>

/* ---- Constant, ConstantOfShape ---- */

static neap_status take_constant(onnx_import *im, const onnx_node *node, const onnx_tensor *tensor)
{
    onnx_value *value = neap_onnx_output(im, node, 0);
    if (neap_onnx_type_bytes(tensor->type) == 0 || tensor->form == FORM_EXTERNAL)
        return neap_onnx_fail_unsupported(im, node, "neap does not read this constant's type %d",
                                          (int)tensor->type);
    if (!value)
        return neap_onnx_fail(im, node, "its output has no name");
    value->constant = neap_onnx_constant_of(im->arena, tensor);
    if (!value->constant)
        return neap_fail_no_memory(im->diag);
    return neap_onnx_set_shape(im, node, 0, &value->constant->shape);
}

/* value_int, value_ints, value_float, value_floats as a tensor. */
static neap_status infer_constant(onnx_import *im, const onnx_node *node)
{
    const onnx_attribute *a = node->n_attributes > 0 ? &node->attributes[0] : NULL;
    if (!a || node->n_attributes != 1)
        return neap_onnx_fail(im, node, "it must have one attribute");
    int64_t count = (int64_t)a->count;
    onnx_tensor tensor = {.name = node->name, .elements = 1, .count = 1};
    switch (a->kind) {
    case ATTRIBUTE_TENSOR:
        return take_constant(im, node, a->tensor);
    case ATTRIBUTE_INT:
        tensor.type = ONNX_INT64;
        tensor.form = FORM_INT64S;
        tensor.data = &a->integer;
        break;
    case ATTRIBUTE_FLOAT:
        tensor.type = ONNX_FLOAT;
        tensor.form = FORM_FLOATS;
        tensor.data = &a->real;
        break;
    case ATTRIBUTE_INTS:
    case ATTRIBUTE_FLOATS:
        tensor.type = a->kind == ATTRIBUTE_INTS ? ONNX_INT64 : ONNX_FLOAT;
        tensor.form = a->kind == ATTRIBUTE_INTS ? FORM_INT64S : FORM_FLOATS;
        tensor.data = a->kind == ATTRIBUTE_INTS ? (const void *)a->integers : a->reals;
        tensor.rank = 1;
        tensor.dims = &count;
        tensor.elements = count;
        break;
    default: /* an empty list has no kind in the file */
        return neap_onnx_fail_unsupported(im, node, "neap does not read its attribute \"%s\"",
                                          a->name);
    }
    return take_constant(im, node, &tensor);
}

static neap_status infer_constant_of_shape(onnx_import *im, const onnx_node *node)
{
    const onnx_attribute *value = neap_onnx_attribute(node, "value");
    const int64_t *dims;
    size_t rank;
    NEAP_TRY(neap_onnx_need(im, node, 1));
    NEAP_TRY(neap_onnx_integers(im, node, 0, &dims, &rank));
    if (rank > NEAP_MAX_RANK)
        return neap_onnx_fail(im, node, "%zu dimensions; neap takes up to %d", rank, NEAP_MAX_RANK);
    bool given = value && value->kind == ATTRIBUTE_TENSOR;
    if (given && (value->tensor->elements != 1 || neap_onnx_type_bytes(value->tensor->type) == 0 ||
                  value->tensor->form == FORM_EXTERNAL))
        return neap_onnx_fail(im, node, "its value must be one number");
    onnx_shape shape = {.type = given ? value->tensor->type : ONNX_FLOAT, .rank = (uint32_t)rank};
    if (rank > 0)
        memcpy(shape.dims, dims, rank * sizeof *dims);
    return neap_onnx_set_shape(im, node, 0, &shape);
}

static neap_status fold_constant_of_shape(onnx_import *im, const onnx_node *node)
{
    const onnx_attribute *value = neap_onnx_attribute(node, "value");
    onnx_constant *to;
    NEAP_TRY(neap_onnx_new_constant(im, node, 0, &to));
    if (!value || value->kind != ATTRIBUTE_TENSOR)
        return NEAP_OK;
    const onnx_constant *one = neap_onnx_constant_of(im->arena, value->tensor);
    if (!one)
        return neap_fail_no_memory(im->diag);
    for (int64_t i = 0; i < to->elements; i++)
        neap_onnx_copy_element(one, 0, to, i);
    return NEAP_OK;
}

/* ---- Shape, Size ---- */

static neap_status set_integers(onnx_import *im, const onnx_node *node, uint32_t rank,
                                const int64_t *integers, int64_t count)
{
    onnx_shape shape = {.type = ONNX_INT64, .rank = rank, .dims = {count}};
    onnx_constant *to;
    NEAP_TRY(neap_onnx_set_shape(im, node, 0, &shape));
    if (!neap_onnx_output(im, node, 0))
        return neap_onnx_fail(im, node, "its output has no name");
    NEAP_TRY(neap_onnx_new_constant(im, node, 0, &to));
    for (int64_t i = 0; i < count; i++)
        to->integers[i] = integers[i];
    return NEAP_OK;
}

static int64_t clamp_axis(int64_t axis, int64_t rank)
{
    axis += axis < 0 ? rank : 0;
    return axis < 0 ? 0 : axis > rank ? rank : axis;
}

static neap_status infer_shape(onnx_import *im, const onnx_node *node)
{
    NEAP_TRY(neap_onnx_need(im, node, 1));
    const onnx_shape *shape = &neap_onnx_input(im, node, 0)->shape;
    int64_t begin = clamp_axis(neap_onnx_int(node, "start", 0), shape->rank);
    int64_t end = clamp_axis(neap_onnx_int(node, "end", shape->rank), shape->rank);
    return set_integers(im, node, 1, shape->dims + begin, end > begin ? end - begin : 0);
}

static neap_status infer_size(onnx_import *im, const onnx_node *node)
{
    int64_t elements = 0;
    NEAP_TRY(neap_onnx_need(im, node, 1));
    neap_onnx_shape_elements(&neap_onnx_input(im, node, 0)->shape, &elements);
    return set_integers(im, node, 0, &elements, 1);
}

/* ---- Range ---- */

static neap_status infer_range(onnx_import *im, const onnx_node *node)
{
    double bounds[3];
    NEAP_TRY(neap_onnx_need(im, node, 3));
    for (uint32_t i = 0; i < 3; i++) {
        const onnx_constant *bound = neap_onnx_input_constant(im, node, i);
        if (!bound || bound->elements != 1)
            return neap_onnx_fail_unsupported(im, node, "its bounds must follow from shapes");
        bounds[i] = neap_onnx_get_real(bound, 0);
    }
    double count = bounds[2] != 0 ? ceil((bounds[1] - bounds[0]) / bounds[2]) : 0;
    if (!(count <= (double)ONNX_MOST_CONSTANT))
        return neap_onnx_fail(im, node, "its range is too long");
    onnx_shape shape = {.type = neap_onnx_input(im, node, 0)->shape.type,
                        .rank = 1,
                        .dims = {count > 0 ? (int64_t)count : 0}};
    return neap_onnx_set_shape(im, node, 0, &shape);
}

static neap_status fold_range(onnx_import *im, const onnx_node *node)
{
    const onnx_constant *start = neap_onnx_input_constant(im, node, 0);
    const onnx_constant *step = neap_onnx_input_constant(im, node, 2);
    bool reals = neap_onnx_type_is_float(start->shape.type);
    onnx_constant *to;
    NEAP_TRY(neap_onnx_new_constant(im, node, 0, &to));
    for (int64_t i = 0; i < to->elements; i++)
        if (reals)
            neap_onnx_set_real(
                to, i, neap_onnx_get_real(start, 0) + (double)i * neap_onnx_get_real(step, 0));
        else
            neap_onnx_set_integer(
                to, i,
                (int64_t)((uint64_t)neap_onnx_get_integer(start, 0) +
                          (uint64_t)i * (uint64_t)neap_onnx_get_integer(step, 0)));
    return NEAP_OK;
}

/* ---- CumSum, Trilu ---- */

static neap_status fold_cumsum(onnx_import *im, const onnx_node *node)
{
    const onnx_constant *from = neap_onnx_input_constant(im, node, 0);
    const onnx_constant *axis_input = neap_onnx_input_constant(im, node, 1);
    bool exclusive = neap_onnx_int(node, "exclusive", 0) != 0;
    bool reverse = neap_onnx_int(node, "reverse", 0) != 0;
    onnx_constant *to;
    uint32_t axis;
    if (!axis_input || axis_input->elements != 1)
        return neap_onnx_fail(im, node, "its axis must be one number");
    NEAP_TRY(
        neap_onnx_axis(im, node, neap_onnx_get_integer(axis_input, 0), from->shape.rank, &axis));
    NEAP_TRY(neap_onnx_new_constant(im, node, 0, &to));
    int64_t extent = from->shape.dims[axis], inner = 1;
    for (uint32_t d = axis + 1; d < from->shape.rank; d++)
        inner *= from->shape.dims[d];
    for (int64_t i = 0; i < from->elements; i++) {
        int64_t place = i / inner % extent, row = i - place * inner;
        if (place > 0)
            continue; /* one sum for each row */
        double sum = 0;
        for (int64_t k = 0; k < extent; k++) {
            int64_t at = row + (reverse ? extent - 1 - k : k) * inner;
            double next = sum + neap_onnx_get_real(from, at);
            neap_onnx_set_real(to, at, exclusive ? sum : next);
            sum = next;
        }
    }
    return NEAP_OK;
}

/* Which diagonals stay: from number k on, or up to it. */
static bool is_kept(bool upper, int64_t k, int64_t row, int64_t column)
{
    return upper ? column - row >= k : column - row <= k;
}

/* Data times ones and zeros. */
static neap_status lower_trilu(onnx_import *im, const onnx_node *node)
{
    const onnx_shape *x = &neap_onnx_input(im, node, 0)->shape;
    const onnx_constant *shift = neap_onnx_input_constant(im, node, 1);
    bool upper = neap_onnx_int(node, "upper", 1) != 0;
    int64_t k = shift && shift->elements == 1 ? neap_onnx_get_integer(shift, 0) : 0;
    neap_tensor data, factors;
    if (x->rank < 2 || (neap_onnx_input(im, node, 1) && !shift))
        return neap_onnx_fail_unsupported(im, node, "it takes matrices and a number");
    const onnx_shape shape = {
        .type = ONNX_FLOAT, .rank = 2, .dims = {x->dims[x->rank - 2], x->dims[x->rank - 1]}};
    if (shape.dims[0] > ONNX_MOST_CONSTANT / shape.dims[1])
        return neap_onnx_fail_unsupported(im, node, "its matrices are too large");
    onnx_constant *ones = neap_onnx_constant_new(im->arena, &shape);
    if (!ones)
        return neap_fail_no_memory(im->diag);
    for (int64_t i = 0; i < ones->elements; i++)
        ones->floats[i] = is_kept(upper, k, i / shape.dims[1], i % shape.dims[1]);
    NEAP_TRY(neap_onnx_tensor(im, node, node->inputs[0], &data));
    NEAP_TRY(neap_onnx_fixed(im, ones, node->name, 2, shape.dims, &factors));
    neap_onnx_set_tensor(im, node, 0, neap_net_mul(im->net, node->name, data, factors));
    return neap_onnx_check_net(im, node);
}

static neap_status fold_trilu(onnx_import *im, const onnx_node *node)
{
    const onnx_constant *from = neap_onnx_input_constant(im, node, 0);
    const onnx_constant *shift = neap_onnx_input_constant(im, node, 1);
    bool upper = neap_onnx_int(node, "upper", 1) != 0;
    int64_t k = shift && shift->elements == 1 ? neap_onnx_get_integer(shift, 0) : 0;
    onnx_constant *to;
    if (from->shape.rank < 2)
        return neap_onnx_fail(im, node, "it takes matrices");
    NEAP_TRY(neap_onnx_new_constant(im, node, 0, &to));
    int64_t columns = from->shape.dims[from->shape.rank - 1];
    int64_t rows = from->shape.dims[from->shape.rank - 2];
    for (int64_t i = 0; i < from->elements; i++) {
        if (is_kept(upper, k, i / columns % rows, i % columns))
            neap_onnx_copy_element(from, i, to, i);
    }
    return NEAP_OK;
}

/* ---- Logic ---- */

static neap_status infer_bool(onnx_import *im, const onnx_node *node)
{
    NEAP_TRY(neap_onnx_need(im, node, 1));
    onnx_shape shape = neap_onnx_input(im, node, 0)->shape;
    shape.type = ONNX_BOOL;
    return neap_onnx_set_shape(im, node, 0, &shape);
}

static neap_status fold_bool(onnx_import *im, const onnx_node *node)
{
    const onnx_constant *from = neap_onnx_input_constant(im, node, 0);
    bool is_not = strcmp(node->type, "Not") == 0, is_nan = strcmp(node->type, "IsNaN") == 0;
    bool positive = neap_onnx_int(node, "detect_positive", 1) != 0;
    bool negative = neap_onnx_int(node, "detect_negative", 1) != 0;
    onnx_constant *to;
    NEAP_TRY(neap_onnx_new_constant(im, node, 0, &to));
    for (int64_t i = 0; i < to->elements; i++) {
        double x = neap_onnx_get_real(from, i);
        to->bools[i] = is_not   ? x == 0
                       : is_nan ? x != x
                                : isinf(x) && (x > 0 ? positive : negative);
    }
    return NEAP_OK;
}

const onnx_op neap_onnx_ops_constant[] = {
    {"Constant", "", infer_constant, NULL, NULL},
    {"ConstantOfShape", "", infer_constant_of_shape, fold_constant_of_shape, NULL},
    {"Shape", "", infer_shape, NULL, NULL},
    {"Size", "", infer_size, NULL, NULL},
    {"Range", "", infer_range, fold_range, NULL},
    {"CumSum", "", neap_onnx_infer_same, fold_cumsum, NULL},
    {"Trilu", "", neap_onnx_infer_same, fold_trilu, lower_trilu},
    {"Not", "", infer_bool, fold_bool, NULL},
    {"IsNaN", "", infer_bool, fold_bool, NULL},
    {"IsInf", "", infer_bool, fold_bool, NULL},
    {0},
};
