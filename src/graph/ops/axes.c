/*
 * Sums, means, extremes and products over a set of axes; repetition by the rules of numpy and its
 * counterpart, the sum to a shape; permutations of axes.
 *
 * A set of axes is an integer, the attribute `axes`: bit d stands for dimension d. With `keepdims`
 * they stay as dimensions of extent 1.
 */
#include "graph/network_internal.h"

#include <string.h>

extern const op_def neap_op_broadcast, neap_op_permute;

neap_tensor neap_net_broadcast(neap_network *net, const char *name, neap_tensor x, uint32_t rank,
                               const int64_t *shape)
{
    if (rank == 0)
        return neap_net_fail(net, name, "a tensor has 1 to %d dimensions", NEAP_MAX_RANK);
    net_call call = {.def = &neap_op_broadcast,
                     .name = name,
                     .n_inputs = 1,
                     .inputs = &x,
                     .rank = rank,
                     .shape = shape};
    return neap_net_add_op(net, &call);
}

static neap_tensor over_axes(neap_network *net, const op_def *def, const char *name, neap_tensor x,
                             uint32_t n_axes, const uint32_t *axes, bool keepdims)
{
    int64_t set = 0;
    for (uint32_t i = 0; i < n_axes; i++) {
        if (axes[i] >= neap_net_rank(net, x))
            return neap_net_fail(net, name, "axis %u of %u dimensions", axes[i],
                                 neap_net_rank(net, x));
        set |= INT64_C(1) << axes[i];
    }
    neap_attr attrs[] = {ATTR_INT("axes", set), ATTR_INT("keepdims", keepdims)};
    net_call call = {
        .def = def, .name = name, .n_inputs = 1, .inputs = &x, .n_attrs = 2, .attrs = attrs};
    return neap_net_add_op(net, &call);
}

#define OVER_AXES(name)                                                                            \
    extern const op_def neap_op_##name;                                                            \
    neap_tensor neap_net_##name(neap_network *net, const char *layer, neap_tensor x,               \
                                uint32_t n_axes, const uint32_t *axes, bool keepdims)              \
    {                                                                                              \
        return over_axes(net, &neap_op_##name, layer, x, n_axes, axes, keepdims);                  \
    }

OVER_AXES(sum_axes)
OVER_AXES(mean_axes)
OVER_AXES(max_axes)
OVER_AXES(min_axes)
OVER_AXES(prod_axes)

/* Where each axis of the result comes from. */
static const char *const ORDER[NEAP_MAX_RANK] = {"axis_0", "axis_1", "axis_2",
                                                 "axis_3", "axis_4", "axis_5"};

neap_tensor neap_net_permute(neap_network *net, const char *name, neap_tensor x,
                             const uint32_t *axes)
{
    neap_attr attrs[NEAP_MAX_RANK];
    uint32_t rank = neap_net_rank(net, x);
    for (uint32_t d = 0; d < rank; d++)
        attrs[d] = ATTR_INT(ORDER[d], axes[d]);
    net_call call = {.def = &neap_op_permute,
                     .name = name,
                     .n_inputs = 1,
                     .inputs = &x,
                     .n_attrs = rank,
                     .attrs = attrs};
    return neap_net_add_op(net, &call);
}

/* ---- Shapes ---- */

/* Whether the dimensions of one shape, from the last on, are those of the other or 1. */
static void check_broadcast(op_fit *fit, const op_shape *small, const op_shape *large)
{
    bool fits = small->rank <= large->rank;
    for (uint32_t d = 0; fits && d < small->rank; d++) {
        int64_t extent = small->shape[d];
        fits = extent == 1 || extent == large->shape[large->rank - small->rank + d];
    }
    if (!fits)
        neap_fit_fail(fit, "the smaller shape cannot be repeated to the larger one");
}

static void broadcast_rule(op_fit *fit)
{
    op_shape x = neap_fit_input(fit, 0), y = neap_fit_output(fit, 0);
    check_broadcast(fit, &x, &y);
}

static void sum_to_rule(op_fit *fit)
{
    op_shape dy = neap_fit_input(fit, 0), dx = neap_fit_output(fit, 0);
    check_broadcast(fit, &dx, &dy);
}

/* The shape without the axes of the set. */
static op_shape shape_over(op_fit *fit, const op_shape *x)
{
    int64_t axes = neap_fit_int(fit, "axes");
    bool keep = neap_fit_int(fit, "keepdims") != 0;
    op_shape y = {.dtype = x->dtype};
    if (axes >> x->rank)
        neap_fit_fail(fit, "the set of axes %lld is not one of %u dimensions", (long long)axes,
                      x->rank);
    for (uint32_t d = 0; d < x->rank; d++)
        if (!(axes >> d & 1) || keep)
            y.shape[y.rank++] = axes >> d & 1 ? 1 : x->shape[d];
    if (y.rank == 0)
        y.shape[y.rank++] = 1;
    return y;
}

static void axes_rule(op_fit *fit)
{
    op_shape x = neap_fit_input(fit, 0), y = shape_over(fit, &x);
    neap_fit_set_output(fit, &y);
}

static void axes_bw_rule(op_fit *fit)
{
    op_shape dx = neap_fit_output(fit, 0), dy = neap_fit_input(fit, 0), y = shape_over(fit, &dx);
    for (uint32_t i = 1; i < neap_fit_inputs(fit); i++) { /* x, then y */
        op_shape found = neap_fit_input(fit, i), *wanted = i == 1 ? &dx : &y;
        if (found.rank != wanted->rank ||
            memcmp(found.shape, wanted->shape, found.rank * sizeof *found.shape) != 0)
            neap_fit_fail(fit, "input %u does not have the shape that goes with its result", i);
    }
    if (dy.rank != y.rank || memcmp(dy.shape, y.shape, y.rank * sizeof *y.shape) != 0)
        neap_fit_fail(fit, "the gradient does not have the shape of what it is the gradient of");
}

static void permute_rule(op_fit *fit)
{
    op_shape x = neap_fit_input(fit, 0), y = x;
    uint32_t seen = 0;
    for (uint32_t d = 0; d < x.rank; d++) {
        int64_t from = neap_fit_int_or(fit, ORDER[d], -1);
        if (from < 0 || from >= x.rank || seen >> from & 1) {
            neap_fit_fail(fit, "its axes are not an order of %u dimensions", x.rank);
            return;
        }
        seen |= 1u << from;
        y.shape[d] = x.shape[from];
    }
    neap_fit_set_output(fit, &y);
}

/* ---- Backward ---- */

static void broadcast_backward(neap_network *net, const net_node *node)
{
    neap_grad_emit_unary(net, node, "sum_to");
}

static void sum_axes_backward(neap_network *net, const net_node *node)
{
    neap_grad_emit_unary(net, node, "sum_axes_bw");
}

static void mean_axes_backward(neap_network *net, const net_node *node)
{
    neap_grad_emit_unary(net, node, "mean_axes_bw");
}

/* Both extremes: the elements that equal the result share its gradient. */
static void extreme_axes_backward(neap_network *net, const net_node *node)
{
    neap_grad_emit(net, node, "max_axes_bw", 3,
                   (neap_tensor[]){neap_grad_of(net, node, 0), node->inputs[0], node->outputs[0]},
                   1, node->inputs);
}

static void prod_axes_backward(neap_network *net, const net_node *node)
{
    neap_grad_emit(net, node, "prod_axes_bw", 2,
                   (neap_tensor[]){neap_grad_of(net, node, 0), node->inputs[0]}, 1, node->inputs);
}

/* The inverse order. */
static void permute_backward(neap_network *net, const net_node *node)
{
    neap_tensor dy = neap_grad_of(net, node, 0);
    neap_attr attrs[NEAP_MAX_RANK];
    for (uint32_t d = 0; d < node->n_attrs; d++)
        attrs[node->attrs[d].integer] = ATTR_INT(ORDER[node->attrs[d].integer], d);
    neap_grad_emit_with(net, node, "permute", 1, &dy, node->inputs[0], node->n_attrs, attrs);
}

/* ---- Definitions ---- */

static void count_elements(const op_shapes *s, neap_op_count *count)
{
    count->flops = neap_count_elements(&s->inputs[0]);
}

static void count_mean(const op_shapes *s, neap_op_count *count)
{
    count->flops =
        neap_count_add(neap_count_elements(&s->inputs[0]), neap_count_elements(&s->outputs[0]));
}

#define AXES_OP(name, operands, ...)                                                               \
    const op_def neap_op_##name = {.type = #name, .form = operands, __VA_ARGS__}
#define SET .attrs = "axes>0 keepdims"

AXES_OP(broadcast, "x:any -> y:any", .rule = broadcast_rule, .backward = broadcast_backward);
AXES_OP(sum_to, "dy -> dx", .rule = sum_to_rule, .count = count_elements);
AXES_OP(sum_axes, "x -> y", SET, .rule = axes_rule, .count = count_elements,
        .backward = sum_axes_backward);
AXES_OP(sum_axes_bw, "dy -> dx", SET, .rule = axes_bw_rule);
AXES_OP(mean_axes, "x -> y", SET, .rule = axes_rule, .count = count_mean,
        .backward = mean_axes_backward);
AXES_OP(mean_axes_bw, "dy -> dx", SET, .rule = axes_bw_rule, .flops_per_element = 1);
AXES_OP(max_axes, "x -> y", SET, .rule = axes_rule, .count = count_elements,
        .backward = extreme_axes_backward);
AXES_OP(min_axes, "x -> y", SET, .rule = axes_rule, .count = count_elements,
        .backward = extreme_axes_backward);
AXES_OP(max_axes_bw, "dy x y -> dx", SET, .rule = axes_bw_rule, .in_place = 2,
        .flops_per_element = 4);
AXES_OP(prod_axes, "x -> y", SET, .rule = axes_rule, .count = count_elements,
        .backward = prod_axes_backward);
AXES_OP(prod_axes_bw, "dy x -> dx", SET, .rule = axes_bw_rule, .in_place = 2,
        .flops_per_element = 5);
AXES_OP(permute, "x:any -> y:any", .attrs = "axis_0", .rule = permute_rule,
        .backward = permute_backward);
