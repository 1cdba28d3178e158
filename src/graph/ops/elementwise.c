/*
 * Elementwise ops. What each backward op reads in addition to dy:
 *
 *     relu, relu6, sigmoid, tanh   the output y      gelu, pow   the input x
 *     dropout                      the mask          mul         the other factor
 *     add, scale                   nothing
 *
 * FLOPs count one for each addition, multiplication, comparison and special function.
 */
#include "graph/network_internal.h"

static neap_tensor unary(neap_network *net, const op_def *def, const char *name, neap_tensor x,
                         uint32_t n_attrs, const neap_attr *attrs)
{
    net_call call = {
        .def = def, .name = name, .n_inputs = 1, .inputs = &x, .n_attrs = n_attrs, .attrs = attrs};
    return neap_net_add_op(net, &call);
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
    if (p == 0)
        return x;
    return unary(net, &neap_op_dropout, name, x, 1, &ATTR_REAL("p", p));
}

neap_tensor neap_net_scale(neap_network *net, const char *name, neap_tensor x, double factor,
                           double offset)
{
    neap_attr attrs[] = {ATTR_REAL("factor", factor), ATTR_REAL("offset", offset)};
    return unary(net, &neap_op_scale, name, x, 2, attrs);
}

neap_tensor neap_net_pow(neap_network *net, const char *name, neap_tensor x, double power)
{
    return unary(net, &neap_op_pow, name, x, 1, &ATTR_REAL("power", power));
}

static neap_tensor binary(neap_network *net, const op_def *def, const char *name, neap_tensor a,
                          neap_tensor b)
{
    net_call call = {.def = def, .name = name, .n_inputs = 2, .inputs = (neap_tensor[]){a, b}};
    return neap_net_add_op(net, &call);
}

neap_tensor neap_net_add(neap_network *net, const char *name, neap_tensor a, neap_tensor b)
{
    return binary(net, &neap_op_add, name, a, b);
}

neap_tensor neap_net_mul(neap_network *net, const char *name, neap_tensor a, neap_tensor b)
{
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

/* Each element of the result depends on one of each operand: any of them may be written over. */
#define ELEMENTWISE(name, operands, flops, ...)                                                    \
    const op_def neap_op_##name = {                                                                \
        .type = #name, .form = operands, .in_place = 3, .flops_per_element = (flops), __VA_ARGS__}
#define UNARY     "x[*S] -> y[*S]"
#define BY_OUTPUT "dy[*S] y[*S] -> dx[*S]"
#define BY_INPUT  "dy[*S] x[*S] -> dx[*S]"

ELEMENTWISE(relu, UNARY, 1, .backward = relu_backward);
ELEMENTWISE(relu_bw, BY_OUTPUT, 1, );
ELEMENTWISE(relu6, UNARY, 2, .backward = relu6_backward);
ELEMENTWISE(relu6_bw, BY_OUTPUT, 2, );
ELEMENTWISE(sigmoid, UNARY, 4, .backward = sigmoid_backward);
ELEMENTWISE(sigmoid_bw, BY_OUTPUT, 3, );
ELEMENTWISE(tanh, UNARY, 1, .backward = tanh_backward);
ELEMENTWISE(tanh_bw, BY_OUTPUT, 3, );
ELEMENTWISE(gelu, UNARY, 9, .attrs = "tanh", .backward = gelu_backward);
ELEMENTWISE(gelu_bw, BY_INPUT, 16, .attrs = "tanh");
ELEMENTWISE(dropout, "x[*S] -> y[*S] mask:mask[*S]", 2, .attrs = "p%", .random = true,
            .backward = dropout_backward);
ELEMENTWISE(dropout_bw, "dy[*S] mask:mask<2[*S] -> dx[*S]", 2, .attrs = "p%");
ELEMENTWISE(add, "a[*P,*S] b[*S] -> y[*P,*S]", 1, .backward = add_backward);
ELEMENTWISE(mul, "a[*S] b[*S] -> y[*S]", 1, .backward = mul_backward);
ELEMENTWISE(scale, UNARY, 2, .attrs = "factor~ offset~", .backward = scale_backward);
ELEMENTWISE(pow, UNARY, 1, .attrs = "power~", .backward = pow_backward);
ELEMENTWISE(pow_bw, BY_INPUT, 3, .attrs = "power~");
