/*
 * Elementwise ops. What each backward op reads in addition to dy:
 *
 *     relu, relu6, sigmoid, tanh   the output y      gelu, pow   the input x
 *     dropout                      the mask          mul         the other factor
 *     add, sub, scale              nothing           max, min    both operands
 *     div    the divisor for a, also the output for b
 *     prelu  the operand, also the weight for x
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

static bool is_float(neap_dtype dtype)
{
    return dtype == NEAP_F32 || dtype == NEAP_F16 || dtype == NEAP_BF16 || dtype == NEAP_F64;
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

extern const op_def neap_op_gelu, neap_op_dropout, neap_op_scale, neap_op_pow;

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

/* The form would take the type from the operand. */
neap_tensor neap_net_cast(neap_network *net, const char *name, neap_tensor x, neap_dtype dtype)
{
    extern const op_def neap_op_cast;
    const net_tensor *from = neap_net_get(net, name, x);
    if (!from || from->dtype == dtype)
        return from ? x : NEAP_NONE;
    if (!is_float(from->dtype) || !is_float(dtype))
        return neap_net_fail(net, name, "a cast is between types of floating-point numbers");
    net_tensor like = *from;
    net_call call = {.def = &neap_op_cast, .name = name, .n_inputs = 1, .inputs = &x};
    return neap_net_add_node(net, &call, dtype, like.rank, like.shape);
}

static neap_tensor binary(neap_network *net, const op_def *def, const char *name, neap_tensor a,
                          neap_tensor b)
{
    net_call call = {.def = def, .name = name, .n_inputs = 2, .inputs = (neap_tensor[]){a, b}};
    return neap_net_add_op(net, &call);
}

#define BINARY(name)                                                                               \
    extern const op_def neap_op_##name;                                                            \
    neap_tensor neap_net_##name(neap_network *net, const char *layer, neap_tensor a,               \
                                neap_tensor b)                                                     \
    {                                                                                              \
        return binary(net, &neap_op_##name, layer, a, b);                                          \
    }

BINARY(add)
BINARY(sub)
BINARY(mul)
BINARY(div)
BINARY(max)
BINARY(min)
BINARY(prelu)

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

static void cast_backward(neap_network *net, const net_node *node)
{
    neap_grad_emit_unary(net, node, "cast");
}

static void dropout_backward(neap_network *net, const net_node *node)
{
    neap_grad_emit(net, node, "dropout_bw", 2,
                   (neap_tensor[]){neap_grad_of(net, node, 0), node->outputs[1]}, 1, node->inputs);
}

/* Whether b was repeated along leading dimensions of a: its gradient is a sum over them. */
static bool repeats(const neap_network *net, const net_node *node)
{
    return net->tensors[node->inputs[0]].rank != net->tensors[node->inputs[1]].rank;
}

/* The gradient of b by an op that gives the share of each element of the result. */
static void emit_second(neap_network *net, const net_node *node, const char *type,
                        uint32_t n_inputs, const neap_tensor *inputs, uint32_t n_attrs,
                        const neap_attr *attrs)
{
    neap_tensor b = node->inputs[1];
    if (!neap_grad_wanted(net, b))
        return;
    if (!repeats(net, node)) {
        neap_grad_emit_with(net, node, type, n_inputs, inputs, b, n_attrs, attrs);
        return;
    }
    neap_tensor shares =
        neap_grad_emit_inner(net, node, type, n_inputs, inputs, node->outputs[0], n_attrs, attrs);
    neap_grad_emit_with(net, node, "reduce", 1, &shares, b, 0, NULL);
}

/* Both terms get dy itself. */
static void add_backward(neap_network *net, const net_node *node)
{
    neap_tensor dy = neap_grad_of(net, node, 0), b = node->inputs[1];
    neap_grad_give(net, node->inputs[0], dy);
    if (repeats(net, node))
        neap_grad_emit(net, node, "reduce", 1, &dy, 1, &b);
    else
        neap_grad_give(net, b, dy);
}

static void sub_backward(neap_network *net, const net_node *node)
{
    neap_tensor dy = neap_grad_of(net, node, 0);
    neap_attr negative[] = {ATTR_REAL("factor", -1), ATTR_REAL("offset", 0)};
    neap_grad_give(net, node->inputs[0], dy);
    emit_second(net, node, "scale", 1, &dy, 2, negative);
}

static void mul_backward(neap_network *net, const net_node *node)
{
    neap_tensor dy = neap_grad_of(net, node, 0), a = node->inputs[0], b = node->inputs[1];
    neap_grad_emit(net, node, "mul", 2, (neap_tensor[]){dy, b}, 1, &a);
    emit_second(net, node, "mul", 2, (neap_tensor[]){dy, a}, 0, NULL);
}

static void div_backward(neap_network *net, const net_node *node)
{
    neap_tensor dy = neap_grad_of(net, node, 0), a = node->inputs[0], b = node->inputs[1];
    neap_grad_emit(net, node, "div", 2, (neap_tensor[]){dy, b}, 1, &a);
    emit_second(net, node, "div_bw", 3, (neap_tensor[]){dy, node->outputs[0], b}, 0, NULL);
}

/* Equal operands share their gradient. */
static void emit_chosen(neap_network *net, const net_node *node, const char *type)
{
    neap_tensor a = node->inputs[0];
    neap_tensor reads[3] = {neap_grad_of(net, node, 0), a, node->inputs[1]};
    neap_grad_emit_with(net, node, type, 3, reads, a, 1, &ATTR_INT("of_b", 0));
    emit_second(net, node, type, 3, reads, 1, &ATTR_INT("of_b", 1));
}

static void max_backward(neap_network *net, const net_node *node)
{
    emit_chosen(net, node, "max_bw");
}

static void min_backward(neap_network *net, const net_node *node)
{
    emit_chosen(net, node, "min_bw");
}

static void prelu_backward(neap_network *net, const net_node *node)
{
    neap_tensor reads[3] = {neap_grad_of(net, node, 0), node->inputs[0], node->inputs[1]};
    neap_grad_emit(net, node, "prelu_bw_data", 3, reads, 1, node->inputs);
    emit_second(net, node, "prelu_bw_weight", 2, reads, 0, NULL);
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
        .type = #name, .form = operands, .in_place = 7, .flops_per_element = (flops), __VA_ARGS__}
#define UNARY     "x[*S] -> y[*S]"
#define BY_OUTPUT "dy[*S] y[*S] -> dx[*S]"
#define BY_INPUT  "dy[*S] x[*S] -> dx[*S]"
#define REPEATED  "a[*P,*S] b[*S] -> y[*P,*S]"
#define CHOSEN    "dy[*P,*S] a[*P,*S] b[*S] -> dx[*P,*S]"

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
ELEMENTWISE(add, REPEATED, 1, .backward = add_backward);
ELEMENTWISE(sub, REPEATED, 1, .backward = sub_backward);
ELEMENTWISE(mul, REPEATED, 1, .backward = mul_backward);
ELEMENTWISE(div, REPEATED, 1, .backward = div_backward);
ELEMENTWISE(div_bw, "dy[*P,*S] y[*P,*S] b[*S] -> db[*P,*S]", 3, );
ELEMENTWISE(max, REPEATED, 1, .backward = max_backward);
ELEMENTWISE(max_bw, CHOSEN, 2, .attrs = "of_b");
ELEMENTWISE(min, REPEATED, 1, .backward = min_backward);
ELEMENTWISE(min_bw, CHOSEN, 2, .attrs = "of_b");
ELEMENTWISE(prelu, "x[*P,*S] w[*S] -> y[*P,*S]", 2, .backward = prelu_backward);
ELEMENTWISE(prelu_bw_data, "dy[*P,*S] x[*P,*S] w[*S] -> dx[*P,*S]", 2, );
ELEMENTWISE(prelu_bw_weight, "dy[*S] x[*S] -> dw[*S]", 2, );
ELEMENTWISE(scale, UNARY, 2, .attrs = "factor~ offset~", .backward = scale_backward);
ELEMENTWISE(pow, UNARY, 1, .attrs = "power~", .backward = pow_backward);
ELEMENTWISE(pow_bw, BY_INPUT, 3, .attrs = "power~");
/* Of another type: no storage of the operand is as large as the result's. */
const op_def neap_op_cast = {
    .type = "cast", .form = UNARY, .flops_per_element = 1, .backward = cast_backward};
