/*
 * Elementwise ops. What each backward reads besides dy:
 *
 *     relu, relu6, sigmoid, tanh   the output y      gelu, pow   the input x
 *     dropout                      the mask          mul         the other factor
 *     add, scale                   nothing
 *
 * FLOPs count one for each addition, multiplication, comparison and special function.
 */
#include "graph/network_internal.h"

#include <math.h>
#include <string.h>

/* A node with one input and an output like it. */
static neap_tensor unary(neap_network *net, const op_def *def, const char *name, neap_tensor x,
                         uint32_t n_attrs, const neap_attr *attrs)
{
    const net_tensor *input = neap_net_get(net, name, x);
    if (!input)
        return NEAP_NONE;
    net_tensor like = *input;
    net_call call = {
        .def = def, .name = name, .n_inputs = 1, .inputs = &x, .n_attrs = n_attrs, .attrs = attrs};
    return neap_net_add_node(net, &call, like.dtype, like.rank, like.shape);
}

#define SIMPLE(name)                                                                               \
    extern const op_def neap_op_##name;                                                            \
    neap_tensor neap_net_##name(neap_network *net, const char *layer, neap_tensor x)               \
    {                                                                                              \
        return unary(net, &neap_op_##name, layer, x, 0, NULL);                                     \
    }

SIMPLE(relu)
SIMPLE(relu6)
SIMPLE(sigmoid)
SIMPLE(tanh)

extern const op_def neap_op_gelu, neap_op_dropout, neap_op_add, neap_op_mul, neap_op_scale,
    neap_op_pow;

neap_tensor neap_net_gelu(neap_network *net, const char *name, neap_tensor x, bool tanh_form)
{
    return unary(net, &neap_op_gelu, name, x, 1, &ATTR_INT("tanh", tanh_form));
}

neap_tensor neap_net_dropout(neap_network *net, const char *name, neap_tensor x, double p)
{
    if (!(p >= 0 && p < 1))
        return neap_net_fail(net, name, "a dropout probability is at least 0 and below 1, not %g",
                             p);
    if (p == 0)
        return x;
    neap_tensor y = unary(net, &neap_op_dropout, name, x, 1, &ATTR_REAL("p", p));
    const net_tensor *output = neap_net_get(net, name, y);
    if (!output)
        return NEAP_NONE;
    net_tensor like = *output;
    neap_net_add_output(net, "mask", NEAP_U8, like.rank, like.shape);
    return y;
}

neap_tensor neap_net_scale(neap_network *net, const char *name, neap_tensor x, double factor,
                           double offset)
{
    if (!isfinite(factor) || !isfinite(offset))
        return neap_net_fail(net, name, "factor and offset must be finite");
    neap_attr attrs[] = {ATTR_REAL("factor", factor), ATTR_REAL("offset", offset)};
    return unary(net, &neap_op_scale, name, x, 2, attrs);
}

neap_tensor neap_net_pow(neap_network *net, const char *name, neap_tensor x, double power)
{
    if (!isfinite(power))
        return neap_net_fail(net, name, "the power must be finite");
    return unary(net, &neap_op_pow, name, x, 1, &ATTR_REAL("power", power));
}

/* Whether b's shape is a's, or its last dimensions. */
static bool is_suffix(const net_tensor *a, const net_tensor *b)
{
    return b->rank <= a->rank &&
           memcmp(a->shape + (a->rank - b->rank), b->shape, b->rank * sizeof *b->shape) == 0;
}

static neap_tensor binary(neap_network *net, const op_def *def, const char *name, neap_tensor a,
                          neap_tensor b)
{
    net_call call = {.def = def, .name = name, .n_inputs = 2, .inputs = (neap_tensor[]){a, b}};
    net_tensor like = net->tensors[a];
    return neap_net_add_node(net, &call, like.dtype, like.rank, like.shape);
}

neap_tensor neap_net_add(neap_network *net, const char *name, neap_tensor a, neap_tensor b)
{
    const net_tensor *left = neap_net_get(net, name, a), *right = neap_net_get(net, name, b);
    if (!left || !right)
        return NEAP_NONE;
    if (!is_suffix(left, right))
        return neap_net_fail(net, name,
                             "the second operand's shape must be the first's, or its end");
    return binary(net, &neap_op_add, name, a, b);
}

neap_tensor neap_net_mul(neap_network *net, const char *name, neap_tensor a, neap_tensor b)
{
    const net_tensor *left = neap_net_get(net, name, a), *right = neap_net_get(net, name, b);
    if (!left || !right)
        return NEAP_NONE;
    if (left->rank != right->rank || !is_suffix(left, right))
        return neap_net_fail(net, name, "both operands must have one shape");
    return binary(net, &neap_op_mul, name, a, b);
}

/* ---- Backward ---- */

static void by_output(neap_network *net, const net_node *node, const char *type)
{
    neap_grad_emit(net, node, type, 2,
                   (neap_tensor[]){neap_grad_of(net, node, 0), node->outputs[0]}, 1, node->inputs);
}

static void by_input(neap_network *net, const net_node *node, const char *type)
{
    neap_grad_emit(net, node, type, 2, (neap_tensor[]){neap_grad_of(net, node, 0), node->inputs[0]},
                   1, node->inputs);
}

static void relu_backward(neap_network *net, const net_node *node)
{
    by_output(net, node, "relu_bw");
}

static void relu6_backward(neap_network *net, const net_node *node)
{
    by_output(net, node, "relu6_bw");
}

static void sigmoid_backward(neap_network *net, const net_node *node)
{
    by_output(net, node, "sigmoid_bw");
}

static void tanh_backward(neap_network *net, const net_node *node)
{
    by_output(net, node, "tanh_bw");
}

static void gelu_backward(neap_network *net, const net_node *node)
{
    by_input(net, node, "gelu_bw");
}

static void pow_backward(neap_network *net, const net_node *node)
{
    by_input(net, node, "pow_bw");
}

static void dropout_backward(neap_network *net, const net_node *node)
{
    neap_grad_emit(net, node, "dropout_bw", 2,
                   (neap_tensor[]){neap_grad_of(net, node, 0), node->outputs[1]}, 1, node->inputs);
}

/* Both terms get dy itself; one that was repeated along leading dimensions gets its sum over them.
 */
static void add_backward(neap_network *net, const net_node *node)
{
    neap_tensor dy = neap_grad_of(net, node, 0), a = node->inputs[0], b = node->inputs[1];
    neap_grad_give(net, a, dy);
    if (net->tensors[a].rank == net->tensors[b].rank)
        neap_grad_give(net, b, dy);
    else
        neap_grad_emit(net, node, "reduce", 1, &dy, 1, &b);
}

static void mul_backward(neap_network *net, const net_node *node)
{
    neap_tensor dy = neap_grad_of(net, node, 0), a = node->inputs[0], b = node->inputs[1];
    neap_grad_emit(net, node, "mul", 2, (neap_tensor[]){dy, b}, 1, &a);
    neap_grad_emit(net, node, "mul", 2, (neap_tensor[]){dy, a}, 1, &b);
}

static void scale_backward(neap_network *net, const net_node *node)
{
    neap_tensor dy = neap_grad_of(net, node, 0);
    neap_attr attrs[] = {ATTR_REAL("factor", node->attrs[0].real), ATTR_REAL("offset", 0)};
    neap_grad_emit_with(net, node, "scale", 1, &dy, node->inputs[0], 2, attrs);
}

#define ELEMENTWISE(name, flops, ...)                                                              \
    const op_def neap_op_##name = {                                                                \
        .type = #name, .in_place = true, .flops_per_element = (flops), __VA_ARGS__}

ELEMENTWISE(relu, 1, .backward = relu_backward);
ELEMENTWISE(relu_bw, 1, );
ELEMENTWISE(relu6, 2, .backward = relu6_backward);
ELEMENTWISE(relu6_bw, 2, );
ELEMENTWISE(sigmoid, 4, .backward = sigmoid_backward);
ELEMENTWISE(sigmoid_bw, 3, );
ELEMENTWISE(tanh, 1, .backward = tanh_backward);
ELEMENTWISE(tanh_bw, 3, );
ELEMENTWISE(dropout, 2, .random = true, .backward = dropout_backward);
ELEMENTWISE(dropout_bw, 2, );
ELEMENTWISE(add, 1, .backward = add_backward);
ELEMENTWISE(mul, 1, .backward = mul_backward);
ELEMENTWISE(scale, 2, .backward = scale_backward);
ELEMENTWISE(pow, 1, .backward = pow_backward);
ELEMENTWISE(pow_bw, 3, );
ELEMENTWISE(gelu, 9, .backward = gelu_backward);
ELEMENTWISE(gelu_bw, 16, );
