/* Reductions over dimensions. */
#include "onnx/ops.h"

#include "base/fail.h"

#include <math.h>
#include <string.h>

/* The dimensions that disappear or become 1, a bit each; none given means all. */
static neap_status read_axes(const onnx_import *im, const onnx_node *node, uint32_t *axes)
{
    uint32_t rank = neap_onnx_input(im, node, 0)->shape.rank;
    bool given;
    NEAP_TRY(neap_onnx_axes(im, node, 1, rank, axes, &given));
    if (*axes == 0 && neap_onnx_int(node, "noop_with_empty_axes", 0) == 0)
        *axes = (UINT32_C(1) << rank) - 1;
    return NEAP_OK;
}

static neap_status infer_reduce(onnx_import *im, const onnx_node *node)
{
    uint32_t axes;
    NEAP_TRY(neap_onnx_need(im, node, 1));
    const onnx_shape *from = &neap_onnx_input(im, node, 0)->shape;
    bool keep = neap_onnx_int(node, "keepdims", 1) != 0;
    onnx_shape shape = {.type = from->type};
    NEAP_TRY(read_axes(im, node, &axes));
    for (uint32_t d = 0; d < from->rank; d++)
        if (!(axes >> d & 1))
            shape.dims[shape.rank++] = from->dims[d];
        else if (keep)
            shape.dims[shape.rank++] = 1;
    return neap_onnx_set_shape(im, node, 0, &shape);
}

/* The place in the result of element i. */
static int64_t place_of(const onnx_shape *from, uint32_t axes, int64_t i)
{
    int64_t place = 0, stride = 1;
    for (uint32_t d = from->rank; d-- > 0;) {
        int64_t at = i % from->dims[d];
        i /= from->dims[d];
        if (axes >> d & 1)
            continue;
        place += at * stride;
        stride *= from->dims[d];
    }
    return place;
}

static double join(const char *type, double so_far, double x, bool first)
{
    if (strcmp(type, "ReduceProd") == 0)
        return first ? x : so_far * x;
    if (strcmp(type, "ReduceMax") == 0)
        return first || x > so_far ? x : so_far;
    if (strcmp(type, "ReduceMin") == 0)
        return first || x < so_far ? x : so_far;
    return first ? x : so_far + x;
}

/* The result of no elements at all. */
static double neutral(const char *type)
{
    return strcmp(type, "ReduceProd") == 0  ? 1
           : strcmp(type, "ReduceMax") == 0 ? -(double)INFINITY
           : strcmp(type, "ReduceMin") == 0 ? (double)INFINITY
                                            : 0;
}

static neap_status fold_nothing(onnx_import *im, const onnx_node *node, onnx_constant *to)
{
    double number = neutral(node->type);
    if (isinf(number) && !neap_onnx_type_is_float(to->shape.type))
        return neap_onnx_fail_unsupported(im, node, "no integers have an extreme");
    for (int64_t i = 0; i < to->elements; i++)
        neap_onnx_set_real(to, i, number);
    return NEAP_OK;
}

static neap_status fold_reduce(onnx_import *im, const onnx_node *node)
{
    const onnx_constant *from = neap_onnx_input_constant(im, node, 0);
    uint32_t axes;
    onnx_constant *to;
    bool *begun;
    NEAP_TRY(read_axes(im, node, &axes));
    NEAP_TRY(neap_onnx_new_constant(im, node, 0, &to));
    if (from->elements == 0)
        return fold_nothing(im, node, to);
    if (!NEAP_TAKE(im->arena, (size_t)to->elements, begun))
        return neap_fail_no_memory(im->diag);
    for (int64_t i = 0; i < from->elements; i++) {
        int64_t place = place_of(&from->shape, axes, i);
        double x = neap_onnx_get_real(from, i), so_far = neap_onnx_get_real(to, place);
        neap_onnx_set_real(to, place, join(node->type, so_far, x, !begun[place]));
        begun[place] = true;
    }
    if (strcmp(node->type, "ReduceMean") == 0 && to->elements > 0)
        for (int64_t i = 0; i < to->elements; i++)
            neap_onnx_set_real(
                to, i, neap_onnx_get_real(to, i) * (double)to->elements / (double)from->elements);
    return NEAP_OK;
}

typedef neap_tensor reduce_layer(neap_network *net, const char *name, neap_tensor x,
                                 uint32_t n_axes, const uint32_t *axes, bool keepdims);

static reduce_layer *layer_of(const char *type)
{
    static const struct {
        const char *type;
        reduce_layer *layer;
    } layers[] = {{"ReduceSum", neap_net_sum_axes},
                  {"ReduceMax", neap_net_max_axes},
                  {"ReduceMin", neap_net_min_axes},
                  {"ReduceProd", neap_net_prod_axes}};
    for (size_t i = 0; i < sizeof layers / sizeof *layers; i++)
        if (strcmp(layers[i].type, type) == 0)
            return layers[i].layer;
    return neap_net_mean_axes;
}

static bool is_type(const onnx_node *node, const char *type)
{
    return strcmp(node->type, type) == 0;
}

/* log sum exp(x) = max + log sum exp(x - max), which does not overflow. */
static neap_tensor log_sum_exp(neap_network *net, const char *name, neap_tensor x, uint32_t n_axes,
                               const uint32_t *axes)
{
    uint32_t rank = neap_net_rank(net, x);
    int64_t shape[NEAP_MAX_RANK] = {0};
    for (uint32_t d = 0; d < rank; d++)
        shape[d] = neap_net_dim(net, x, d);
    neap_tensor most = neap_net_max_axes(net, name, x, n_axes, axes, true);
    neap_tensor less = neap_net_sub(net, name, x, neap_net_broadcast(net, name, most, rank, shape));
    x = neap_net_sum_axes(net, name, neap_net_exp(net, name, less), n_axes, axes, true);
    return neap_net_add(net, name, neap_net_log(net, name, x), most);
}

/* Sums of functions of the elements, and functions of sums. */
static neap_status lower_norm(onnx_import *im, const onnx_node *node)
{
    const onnx_shape *from = &neap_onnx_input(im, node, 0)->shape;
    const onnx_shape *to = &neap_onnx_output(im, node, 0)->shape;
    uint32_t axes, list[NEAP_MAX_RANK], count = 0;
    neap_network *net = im->net;
    const char *name = node->name;
    neap_tensor x;
    onnx_view view;
    NEAP_TRY(read_axes(im, node, &axes));
    for (uint32_t d = 0; d < from->rank; d++)
        if (axes >> d & 1)
            list[count++] = d;
    if (count == 0)
        return neap_onnx_fail_unsupported(im, node, "there is nothing to sum over");
    NEAP_TRY(neap_onnx_tensor(im, node, node->inputs[0], &x));
    if (is_type(node, "ReduceLogSumExp")) {
        x = log_sum_exp(net, name, x, count, list);
    } else {
        if (is_type(node, "ReduceL1"))
            x = neap_net_abs(net, name, x);
        else if (!is_type(node, "ReduceLogSum"))
            x = neap_net_mul(net, name, x, x);
        x = neap_net_sum_axes(net, name, x, count, list, true);
        if (is_type(node, "ReduceL2"))
            x = neap_net_sqrt(net, name, x);
        else if (is_type(node, "ReduceLogSum"))
            x = neap_net_log(net, name, x);
    }
    neap_onnx_view_init(&view, x, false, to->rank, to->dims);
    neap_onnx_set_view(im, node, 0, &view);
    return NEAP_OK;
}

/* The mean of images over height and width is a pool. */
static neap_status lower_reduce(onnx_import *im, const onnx_node *node)
{
    const onnx_shape *from = &neap_onnx_input(im, node, 0)->shape;
    const onnx_shape *to = &neap_onnx_output(im, node, 0)->shape;
    uint32_t axes, list[NEAP_MAX_RANK], count = 0;
    neap_tensor x;
    onnx_view view;
    NEAP_TRY(read_axes(im, node, &axes));
    NEAP_TRY(neap_onnx_tensor(im, node, node->inputs[0], &x));
    for (uint32_t d = 0; d < from->rank; d++)
        if (axes >> d & 1)
            list[count++] = d;
    if (from->rank == 4 && axes == 12 && strcmp(node->type, "ReduceMean") == 0)
        x = neap_net_adaptive_avg_pool2d(im->net, node->name, x, 1, 1);
    else if (count > 0 && from->rank > 0)
        x = layer_of(node->type)(im->net, node->name, x, count, list, true);
    neap_onnx_view_init(&view, x, false, to->rank, to->dims);
    neap_onnx_set_view(im, node, 0, &view);
    return NEAP_OK;
}

const onnx_op neap_onnx_ops_reduce[] = {
    {"ReduceMean", "", infer_reduce, fold_reduce, lower_reduce},
    {"ReduceSum", "", infer_reduce, fold_reduce, lower_reduce},
    {"ReduceMax", "", infer_reduce, fold_reduce, lower_reduce},
    {"ReduceMin", "", infer_reduce, fold_reduce, lower_reduce},
    {"ReduceProd", "", infer_reduce, fold_reduce, lower_reduce},
    {"ReduceL1", "", infer_reduce, NULL, lower_norm},
    {"ReduceL2", "", infer_reduce, NULL, lower_norm},
    {"ReduceSumSquare", "", infer_reduce, NULL, lower_norm},
    {"ReduceLogSum", "", infer_reduce, NULL, lower_norm},
    {"ReduceLogSumExp", "", infer_reduce, NULL, lower_norm},
    {0},
};
