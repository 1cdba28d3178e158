/* Arithmetic of two tensors, by numpy's broadcasting. */
#include "onnx/ops.h"

#include "base/fail.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* ---- Binary nodes on constants ---- */

static int64_t floor_mod(int64_t a, int64_t b)
{
    if (b == 0 || b == -1)
        return 0;
    int64_t rest = a % b;
    return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

static int64_t integer_power(int64_t a, int64_t b)
{
    uint64_t result = 1, base = (uint64_t)a;
    for (; b > 0; b >>= 1, base *= base)
        if (b & 1)
            result *= base;
    return (int64_t)result;
}

/* Integers wrap around; a division by zero gives 0. */
static int64_t integer_result(const char *type, bool c_mod, int64_t a, int64_t b)
{
    uint64_t left = (uint64_t)a, right = (uint64_t)b;
    switch (type[0]) {
    case 'A':
        return type[1] == 'd' ? (int64_t)(left + right) : a != 0 && b != 0; /* Add, And */
    case 'S':
        return (int64_t)(left - right);
    case 'D':
        return b == 0 ? 0 : b == -1 ? (int64_t)(0 - left) : a / b;
    case 'P':
        return integer_power(a, b);
    case 'E':
        return a == b;
    case 'G':
        return strlen(type) > 7 ? a >= b : a > b; /* GreaterOrEqual, Greater */
    case 'L':
        return strlen(type) > 4 ? a <= b : a < b; /* LessOrEqual, Less */
    case 'O':
        return a != 0 || b != 0;
    case 'X':
        return (a != 0) != (b != 0);
    default:
        break;
    }
    if (strcmp(type, "Mul") == 0)
        return (int64_t)(left * right);
    if (strcmp(type, "Max") == 0)
        return a > b ? a : b;
    if (strcmp(type, "Min") == 0)
        return a < b ? a : b;
    return c_mod ? (b == 0 || b == -1 ? 0 : a % b) : floor_mod(a, b); /* Mod */
}

static double real_result(const char *type, double a, double b)
{
    switch (type[0]) {
    case 'A':
        return a + b;
    case 'S':
        return a - b;
    case 'D':
        return a / b;
    case 'P':
        return pow(a, b);
    case 'E':
        return a == b;
    case 'G':
        return strlen(type) > 7 ? a >= b : a > b;
    case 'L':
        return strlen(type) > 4 ? a <= b : a < b;
    default:
        break;
    }
    if (strcmp(type, "Mul") == 0)
        return a * b;
    if (strcmp(type, "Max") == 0)
        return a > b ? a : b;
    if (strcmp(type, "Min") == 0)
        return a < b ? a : b;
    return fmod(a, b);
}

static neap_status fold_binary(onnx_import *im, const onnx_node *node)
{
    const onnx_constant *a = neap_onnx_input_constant(im, node, 0);
    const onnx_constant *b = neap_onnx_input_constant(im, node, node->n_inputs > 1 ? 1 : 0);
    bool reals = neap_onnx_type_is_float(a->shape.type);
    bool c_mod = neap_onnx_int(node, "fmod", 0) != 0;
    onnx_constant *to;
    if (node->n_inputs > 2)
        return neap_onnx_fail_unsupported(im, node, "neap takes two operands");
    NEAP_TRY(neap_onnx_new_constant(im, node, 0, &to));
    for (int64_t i = 0; i < to->elements; i++) {
        int64_t left = neap_onnx_broadcast_index(&to->shape, &a->shape, i);
        int64_t right = neap_onnx_broadcast_index(&to->shape, &b->shape, i);
        if (reals)
            neap_onnx_set_real(
                to, i,
                real_result(node->type, neap_onnx_get_real(a, left), neap_onnx_get_real(b, right)));
        else
            neap_onnx_set_integer(to, i,
                                  integer_result(node->type, c_mod, neap_onnx_get_integer(a, left),
                                                 neap_onnx_get_integer(b, right)));
    }
    return NEAP_OK;
}

static neap_status infer_binary(onnx_import *im, const onnx_node *node)
{
    static const char *const predicates[] = {"And",  "Equal",       "Greater", "GreaterOrEqual",
                                             "Less", "LessOrEqual", "Or",      "Xor"};
    NEAP_TRY(neap_onnx_need(im, node, 1));
    onnx_shape shape = neap_onnx_input(im, node, 0)->shape;
    for (uint32_t i = 1; i < node->n_inputs; i++) {
        NEAP_TRY(neap_onnx_need(im, node, i + 1));
        if (!neap_onnx_shape_broadcast(&shape, &neap_onnx_input(im, node, i)->shape, &shape))
            return neap_onnx_fail(im, node, "the shapes of \"%s\" and \"%s\" do not go together",
                                  neap_onnx_input(im, node, 0)->name,
                                  neap_onnx_input(im, node, i)->name);
    }
    for (size_t i = 0; i < sizeof predicates / sizeof *predicates; i++)
        if (strcmp(node->type, predicates[i]) == 0)
            shape.type = ONNX_BOOL;
    return neap_onnx_set_shape(im, node, 0, &shape);
}

/* ---- Where ---- */

static neap_status infer_where(onnx_import *im, const onnx_node *node)
{
    NEAP_TRY(neap_onnx_need(im, node, 3));
    onnx_shape shape = neap_onnx_input(im, node, 1)->shape;
    if (!neap_onnx_shape_broadcast(&shape, &neap_onnx_input(im, node, 2)->shape, &shape) ||
        !neap_onnx_shape_broadcast(&shape, &neap_onnx_input(im, node, 0)->shape, &shape))
        return neap_onnx_fail(im, node, "the shapes of its inputs do not go together");
    return neap_onnx_set_shape(im, node, 0, &shape);
}

static neap_status fold_where(onnx_import *im, const onnx_node *node)
{
    const onnx_constant *condition = neap_onnx_input_constant(im, node, 0);
    const onnx_constant *yes = neap_onnx_input_constant(im, node, 1);
    const onnx_constant *no = neap_onnx_input_constant(im, node, 2);
    onnx_constant *to;
    NEAP_TRY(neap_onnx_new_constant(im, node, 0, &to));
    for (int64_t i = 0; i < to->elements; i++) {
        int64_t at = neap_onnx_broadcast_index(&to->shape, &condition->shape, i);
        const onnx_constant *from = neap_onnx_get_integer(condition, at) ? yes : no;
        neap_onnx_copy_element(from, neap_onnx_broadcast_index(&to->shape, &from->shape, i), to, i);
    }
    return NEAP_OK;
}

/* ---- Layers of two tensors ---- */

/* A constant of one number, wherever it comes from. */
static bool is_number(const onnx_value *value, double *number)
{
    if (!value->constant || value->constant->elements != 1)
        return false;
    *number = neap_onnx_get_real(value->constant, 0);
    return true;
}

static neap_tensor scale(neap_network *net, const char *name, neap_tensor x, const double *numbers)
{
    if (numbers[0] == 1 && numbers[1] == 0)
        return x;
    return neap_net_scale(net, name, x, numbers[0], numbers[1]);
}

static neap_tensor power(neap_network *net, const char *name, neap_tensor x, const double *numbers)
{
    return numbers[0] == 1 ? x : neap_net_pow(net, name, x, numbers[0]);
}

/* number / x */
static neap_tensor divide(neap_network *net, const char *name, neap_tensor x, const double *numbers)
{
    return scale(net, name, neap_net_reciprocal(net, name, x), numbers);
}

/* number^x */
static neap_tensor exponential(neap_network *net, const char *name, neap_tensor x,
                               const double *numbers)
{
    return neap_net_exp(net, name, scale(net, name, x, numbers));
}

static neap_tensor clip(neap_network *net, const char *name, neap_tensor x, const double *numbers)
{
    return neap_net_clip(net, name, x, numbers[0], numbers[1]);
}

static bool is_type(const onnx_node *node, const char *type)
{
    return strcmp(node->type, type) == 0;
}

/* One operand is a number, and the other has the result's shape. */
static neap_status lower_with_number(onnx_import *im, const onnx_node *node, uint32_t x,
                                     double number, bool number_first)
{
    double line[2] = {1, 0}, bounds[2] = {-(double)FLT_MAX, (double)FLT_MAX};
    if (is_type(node, "Pow")) {
        if (number_first && !(number > 0))
            return neap_onnx_fail_unsupported(im, node, "neap takes powers of positive numbers");
        if (number_first) {
            line[0] = log(number);
            return neap_onnx_lower_each(im, node, x, exponential, line);
        }
        return neap_onnx_lower_each(im, node, x, power, &number);
    }
    if (is_type(node, "Max") || is_type(node, "Min")) {
        bounds[is_type(node, "Max") ? 0 : 1] = number;
        return neap_onnx_lower_each(im, node, x, clip, bounds);
    }
    if (is_type(node, "Add")) {
        line[1] = number;
    } else if (is_type(node, "Sub")) {
        line[0] = number_first ? -1 : 1;
        line[1] = number_first ? number : -number;
    } else {
        line[0] = is_type(node, "Div") && !number_first ? 1 / number : number;
    }
    onnx_layer *layer = is_type(node, "Div") && number_first ? divide : scale;
    return neap_onnx_lower_each(im, node, x, layer, line);
}

/* a and b are of one shape; or b is a suffix of a, for sums and products. */
static neap_tensor combine(neap_network *net, const onnx_node *node, neap_tensor a, neap_tensor b)
{
    static const struct {
        const char *type;
        neap_tensor (*layer)(neap_network *net, const char *name, neap_tensor a, neap_tensor b);
    } layers[] = {{"Add", neap_net_add}, {"Sum", neap_net_add}, {"Mean", neap_net_add},
                  {"Sub", neap_net_sub}, {"Div", neap_net_div}, {"Max", neap_net_max},
                  {"Min", neap_net_min}};
    for (size_t i = 0; i < sizeof layers / sizeof *layers; i++)
        if (is_type(node, layers[i].type))
            return layers[i].layer(net, node->name, a, b);
    return neap_net_mul(net, node->name, a, b);
}

static neap_tensor shaped_like(neap_network *net, const char *name, neap_tensor x, neap_tensor like)
{
    int64_t shape[NEAP_MAX_RANK];
    uint32_t rank = neap_net_rank(net, like);
    bool same = neap_net_rank(net, x) == rank;
    for (uint32_t d = 0; d < rank; d++) {
        shape[d] = neap_net_dim(net, like, d);
        same = same && neap_net_dim(net, x, d) == shape[d];
    }
    return same ? x : neap_net_reshape(net, name, x, rank, shape);
}

/* Two operands of the result's shape, seen through the same view. */
static neap_status lower_alike(onnx_import *im, const onnx_node *node, bool *done)
{
    const onnx_view *a, *b;
    NEAP_TRY(neap_onnx_view(im, node, node->inputs[0], &a));
    NEAP_TRY(neap_onnx_view(im, node, node->inputs[1], &b));
    *done = !a->of_initializer && !b->of_initializer && !neap_onnx_view_is_whole(a) &&
            neap_onnx_view_is_alike(a, b);
    if (!*done)
        return NEAP_OK;
    onnx_view view = *a;
    neap_tensor right = shaped_like(im->net, node->name, b->root, a->root);
    view.root = combine(im->net, node, a->root, right);
    neap_onnx_set_view(im, node, 0, &view);
    return NEAP_OK;
}

/* Whether b, without leading dimensions of 1, is the end of a's shape. */
static bool is_suffix(const onnx_shape *a, const onnx_shape *b, uint32_t *skip)
{
    *skip = 0;
    while (*skip < b->rank && b->dims[*skip] == 1)
        ++*skip;
    uint32_t rank = b->rank - *skip;
    return rank > 0 && rank <= a->rank &&
           memcmp(a->dims + a->rank - rank, b->dims + *skip, rank * sizeof *b->dims) == 0;
}

/* The only dimension of a along which b, broadcast to it, is not the same everywhere. */
static bool is_vector(const onnx_shape *a, const onnx_shape *b, uint32_t *dim)
{
    uint32_t found = 0;
    for (uint32_t d = 0; d < b->rank; d++)
        if (b->dims[d] != 1) {
            *dim = a->rank - b->rank + d;
            found++;
        }
    return found == 1;
}

/*
 * A vector along a dimension of x, on the root of x's view, if that has the dimension as its last:
 * exporters scale the channels of what a linear layer made behind a transpose.
 */
static neap_status lower_vector(onnx_import *im, const onnx_node *node, uint32_t x, uint32_t vector,
                                uint32_t dim, bool *done)
{
    const onnx_view *from, *small;
    uint32_t order[NEAP_MAX_RANK], n = 0;
    neap_tensor b;
    NEAP_TRY(neap_onnx_view(im, node, x, &from));
    const onnx_shape *shape = &im->values[x].shape;
    int64_t extent = shape->dims[dim];
    onnx_view view = *from, last = *from;
    for (uint32_t d = 0; d < shape->rank; d++)
        if (d != dim)
            order[n++] = d;
    order[n] = dim;
    neap_onnx_view_transpose(&last, order);
    *done = !view.of_initializer && !neap_onnx_view_is_whole(&view) &&
            neap_onnx_view_keeps_last(&last, extent) &&
            neap_net_dim(im->net, view.root, neap_net_rank(im->net, view.root) - 1) == extent;
    if (!*done)
        return NEAP_OK;
    NEAP_TRY(neap_onnx_view(im, node, vector, &small));
    onnx_view bare = *small;
    NEAP_TRY(neap_onnx_weight(im, node, vector, &bare, 1, &extent, &b));
    view.root = combine(im->net, node, view.root, b);
    neap_onnx_set_view(im, node, 0, &view);
    return NEAP_OK;
}

/* b is repeated along a's leading dimensions. */
static neap_status lower_suffix(onnx_import *im, const onnx_node *node, uint32_t x, uint32_t y,
                                uint32_t skip)
{
    const onnx_shape small = im->values[y].shape;
    const onnx_view *view;
    neap_tensor a, b;
    NEAP_TRY(neap_onnx_tensor(im, node, x, &a));
    NEAP_TRY(neap_onnx_view(im, node, y, &view));
    onnx_view bare = *view;
    NEAP_TRY(neap_onnx_weight(im, node, y, &bare, small.rank - skip, small.dims + skip, &b));
    neap_onnx_set_tensor(im, node, 0, combine(im->net, node, a, b));
    return NEAP_OK;
}

neap_status neap_onnx_broadcast(onnx_import *im, const onnx_node *node, uint32_t id,
                                const onnx_shape *shape, neap_tensor *tensor)
{
    const onnx_shape own = im->values[id].shape;
    uint32_t rank = shape->rank > 0 ? shape->rank : 1, skip;
    const onnx_view *view;
    if (neap_onnx_shape_equal(&own, shape))
        return neap_onnx_tensor(im, node, id, tensor);
    if (is_suffix(shape, &own, &skip) && own.rank - skip < rank) {
        NEAP_TRY(neap_onnx_view(im, node, id, &view));
        onnx_view bare = *view;
        NEAP_TRY(neap_onnx_weight(im, node, id, &bare, own.rank - skip, own.dims + skip, tensor));
        *tensor = neap_net_expand(im->net, node->name, *tensor, rank, shape->dims);
        return neap_onnx_check_net(im, node);
    }
    NEAP_TRY(neap_onnx_tensor(im, node, id, tensor));
    *tensor = neap_net_broadcast(im->net, node->name, *tensor, rank, shape->dims);
    return neap_onnx_check_net(im, node);
}

/* A constant condition repeated, on the host, to the end of the shape. */
static neap_status expand_condition(onnx_import *im, const onnx_value *value,
                                    const onnx_shape *shape, neap_tensor *tensor)
{
    const onnx_shape *own = &value->shape;
    uint32_t skip = 0;
    while (skip < own->rank && own->dims[skip] == 1)
        skip++;
    onnx_shape whole = {.type = ONNX_BOOL, .rank = own->rank - skip};
    memcpy(whole.dims, shape->dims + shape->rank - whole.rank, whole.rank * sizeof *whole.dims);
    onnx_constant *mask = neap_onnx_constant_new(im->arena, &whole);
    if (!mask)
        return neap_fail_no_memory(im->diag);
    for (int64_t i = 0; i < mask->elements; i++)
        neap_onnx_set_integer(
            mask, i,
            neap_onnx_get_integer(value->constant, neap_onnx_broadcast_index(&whole, own, i)));
    if (whole.rank == 0)
        whole = (onnx_shape){.type = ONNX_BOOL, .rank = 1, .dims = {1}};
    return neap_onnx_fixed(im, mask, value->name, whole.rank, whole.dims, tensor);
}

neap_status neap_onnx_condition(onnx_import *im, const onnx_node *node, const onnx_shape *shape,
                                neap_tensor *tensor)
{
    const onnx_value *value = neap_onnx_input(im, node, 0);
    uint32_t skip;
    if (neap_onnx_shape_equal(&value->shape, shape))
        return neap_onnx_tensor(im, node, node->inputs[0], tensor);
    if (value->constant)
        return expand_condition(im, value, shape, tensor);
    if (!is_suffix(shape, &value->shape, &skip) || skip > 0)
        return neap_onnx_fail_unsupported(im, node,
                                          "its condition must have the shape of its result");
    return neap_onnx_tensor(im, node, node->inputs[0], tensor);
}

/* The condition is a suffix of the result, or repeated up to its shape. */
static neap_status lower_where(onnx_import *im, const onnx_node *node)
{
    const onnx_shape *shape = &neap_onnx_output(im, node, 0)->shape;
    neap_tensor condition, a, b;
    if (!neap_onnx_type_is_float(shape->type))
        return neap_onnx_fail_unsupported(im, node, "neap chooses among floats");
    NEAP_TRY(neap_onnx_broadcast(im, node, node->inputs[1], shape, &a));
    NEAP_TRY(neap_onnx_broadcast(im, node, node->inputs[2], shape, &b));
    NEAP_TRY(neap_onnx_condition(im, node, shape, &condition));
    neap_onnx_set_tensor(im, node, 0, neap_net_where(im->net, node->name, condition, a, b));
    return NEAP_OK;
}

/* Any number of operands, one after another. */
static neap_status lower_many(onnx_import *im, const onnx_node *node)
{
    const onnx_shape *shape = &neap_onnx_output(im, node, 0)->shape;
    neap_tensor so_far, next;
    if (!neap_onnx_type_is_float(shape->type))
        return neap_onnx_fail_unsupported(im, node, "neap computes with floats");
    NEAP_TRY(neap_onnx_broadcast(im, node, node->inputs[0], shape, &so_far));
    for (uint32_t i = 1; i < node->n_inputs; i++) {
        NEAP_TRY(neap_onnx_broadcast(im, node, node->inputs[i], shape, &next));
        so_far = combine(im->net, node, so_far, next);
    }
    if (is_type(node, "Mean") && node->n_inputs > 1)
        so_far = neap_net_scale(im->net, node->name, so_far, 1.0 / (double)node->n_inputs, 0);
    neap_onnx_set_tensor(im, node, 0, so_far);
    return NEAP_OK;
}

static neap_status lower_binary(onnx_import *im, const onnx_node *node)
{
    const onnx_value *a = neap_onnx_input(im, node, 0);
    const onnx_value *b = neap_onnx_input(im, node, 1);
    const onnx_shape *shape = &neap_onnx_output(im, node, 0)->shape;
    bool commutes = is_type(node, "Add") || is_type(node, "Mul"), done = false;
    double number;
    uint32_t skip, dim;
    neap_tensor left, right;
    if (node->n_inputs != 2 && (is_type(node, "Max") || is_type(node, "Min")))
        return lower_many(im, node);
    if (node->n_inputs != 2)
        return neap_onnx_fail(im, node, "it has %u operands, not 2", node->n_inputs);
    if (!neap_onnx_type_is_float(shape->type))
        return neap_onnx_fail_unsupported(im, node,
                                          "neap computes with integers only if they "
                                          "follow from shapes");
    if (is_number(b, &number) && neap_onnx_shape_equal(&a->shape, shape))
        return lower_with_number(im, node, node->inputs[0], number, false);
    if (is_number(a, &number) && neap_onnx_shape_equal(&b->shape, shape))
        return lower_with_number(im, node, node->inputs[1], number, true);
    if (is_type(node, "Pow"))
        return neap_onnx_fail_unsupported(im, node, "its exponent must be a number");
    if (neap_onnx_shape_equal(&a->shape, &b->shape))
        NEAP_TRY(lower_alike(im, node, &done));
    if (done)
        return NEAP_OK;
    bool whole_a = neap_onnx_shape_equal(&a->shape, shape);
    bool whole_b = neap_onnx_shape_equal(&b->shape, shape);
    if (commutes && whole_a && !whole_b && is_vector(shape, &b->shape, &dim))
        NEAP_TRY(lower_vector(im, node, node->inputs[0], node->inputs[1], dim, &done));
    else if (commutes && whole_b && !whole_a && is_vector(shape, &a->shape, &dim))
        NEAP_TRY(lower_vector(im, node, node->inputs[1], node->inputs[0], dim, &done));
    if (done)
        return NEAP_OK;
    if (commutes && whole_a && !whole_b && is_suffix(shape, &b->shape, &skip))
        return lower_suffix(im, node, node->inputs[0], node->inputs[1], skip);
    if (whole_b && !whole_a && commutes && is_suffix(shape, &a->shape, &skip))
        return lower_suffix(im, node, node->inputs[1], node->inputs[0], skip);
    NEAP_TRY(neap_onnx_broadcast(im, node, node->inputs[0], shape, &left));
    NEAP_TRY(neap_onnx_broadcast(im, node, node->inputs[1], shape, &right));
    neap_onnx_set_tensor(im, node, 0, combine(im->net, node, left, right));
    return NEAP_OK;
}

#define PREDICATE(type)                                                                            \
    {                                                                                              \
        type, "", infer_binary, fold_binary, NULL                                                  \
    }
#define BINARY(type)                                                                               \
    {                                                                                              \
        type, "", infer_binary, fold_binary, lower_binary                                          \
    }

const onnx_op neap_onnx_ops_elementwise[] = {
    BINARY("Add"),
    BINARY("Sub"),
    BINARY("Mul"),
    BINARY("Div"),
    BINARY("Pow"),
    BINARY("Max"),
    BINARY("Min"),
    PREDICATE("Mod"),
    PREDICATE("Equal"),
    PREDICATE("Greater"),
    PREDICATE("GreaterOrEqual"),
    PREDICATE("Less"),
    PREDICATE("LessOrEqual"),
    PREDICATE("And"),
    PREDICATE("Or"),
    PREDICATE("Xor"),
    {"Sum", "", infer_binary, NULL, lower_many},
    {"Mean", "", infer_binary, NULL, lower_many},
    {"Where", "", infer_where, fold_where, lower_where},
    {0},
};
