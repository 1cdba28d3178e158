/*
 * Products of matrices, one for each index of the leading dimensions, and softmax along an axis.
 *
 * The gradients of a product are products: with y = a' b', where a' is a or its transpose, that of
 * a' is dy b'^T and that of b' is a'^T dy; where an operand entered transposed, both sides are.
 */
#include "graph/network_internal.h"

extern const op_def neap_op_matmul, neap_op_softmax;

static const char *const TRANSPOSES[2] = {"transpose_a", "transpose_b"};

neap_tensor neap_net_matmul(neap_network *net, const char *name, neap_tensor a, neap_tensor b,
                            bool transpose_a, bool transpose_b)
{
    neap_attr attrs[] = {ATTR_INT(TRANSPOSES[0], transpose_a),
                         ATTR_INT(TRANSPOSES[1], transpose_b)};
    net_call call = {.def = &neap_op_matmul,
                     .name = name,
                     .n_inputs = 2,
                     .inputs = (neap_tensor[]){a, b},
                     .n_attrs = 2,
                     .attrs = attrs};
    return neap_net_add_op(net, &call);
}

neap_tensor neap_net_softmax(neap_network *net, const char *name, neap_tensor x, uint32_t axis)
{
    net_call call = {.def = &neap_op_softmax,
                     .name = name,
                     .n_inputs = 1,
                     .inputs = &x,
                     .n_attrs = 1,
                     .attrs = &ATTR_INT("axis", axis)};
    return neap_net_add_op(net, &call);
}

/* ---- Shapes ---- */

/* a is P x Q as it is stored, b is R x S. */
static void matmul_rule(op_fit *fit)
{
    bool turn_a = neap_fit_int(fit, TRANSPOSES[0]) != 0;
    bool turn_b = neap_fit_int(fit, TRANSPOSES[1]) != 0;
    int64_t columns = neap_fit_extent(fit, turn_a ? 'P' : 'Q');
    int64_t rows = neap_fit_extent(fit, turn_b ? 'S' : 'R');
    if (columns != rows)
        neap_fit_fail(fit, "a matrix of %lld columns cannot be multiplied with one of %lld rows",
                      (long long)columns, (long long)rows);
    neap_fit_bind(fit, 'M', neap_fit_extent(fit, turn_a ? 'Q' : 'P'));
    neap_fit_bind(fit, 'N', neap_fit_extent(fit, turn_b ? 'R' : 'S'));
}

static void softmax_rule(op_fit *fit)
{
    int64_t axis = neap_fit_int(fit, "axis");
    uint32_t rank = neap_fit_input(fit, 0).rank;
    if (axis >= rank)
        neap_fit_fail(fit, "axis %lld of %u dimensions", (long long)axis, rank);
}

/* ---- Backward ---- */

/* The gradient of an operand is left' right'. */
static void emit_product(neap_network *net, const net_node *node, neap_tensor left,
                         neap_tensor right, bool turn_left, bool turn_right, neap_tensor target)
{
    neap_attr attrs[] = {ATTR_INT(TRANSPOSES[0], turn_left), ATTR_INT(TRANSPOSES[1], turn_right)};
    neap_grad_emit_with(net, node, "matmul", 2, (neap_tensor[]){left, right}, target, 2, attrs);
}

static void matmul_backward(neap_network *net, const net_node *node)
{
    neap_tensor dy = neap_grad_of(net, node, 0), a = node->inputs[0], b = node->inputs[1];
    bool turn_a = node->attrs[0].integer != 0, turn_b = node->attrs[1].integer != 0;
    if (turn_a)
        emit_product(net, node, b, dy, turn_b, true, a);
    else
        emit_product(net, node, dy, b, false, !turn_b, a);
    if (turn_b)
        emit_product(net, node, dy, a, true, turn_a, b);
    else
        emit_product(net, node, a, dy, !turn_a, false, b);
}

static void softmax_backward(neap_network *net, const net_node *node)
{
    neap_grad_emit(net, node, "softmax_bw", 2,
                   (neap_tensor[]){neap_grad_of(net, node, 0), node->outputs[0]}, 1, node->inputs);
}

/* ---- Work ---- */

static void count_matmul(const op_shapes *s, neap_op_count *count)
{
    const op_shape *a = &s->inputs[0];
    uint32_t inner = a->rank - 1;
    if (neap_op_attr_int(s->op, TRANSPOSES[0], 0) && inner > 0)
        inner--;
    count->macs = neap_count_mul(neap_count_elements(&s->outputs[0]), a->shape[inner]);
}

const op_def neap_op_matmul = {.type = "matmul",
                               .form = "a[*B,P,Q] b[*B,R,S] -> y:net[*B,M,N]",
                               .attrs = "transpose_a transpose_b",
                               .rule = matmul_rule,
                               .count = count_matmul,
                               .backward = matmul_backward};
/* Maximum, difference, exponential, sum, quotient. */
const op_def neap_op_softmax = {.type = "softmax",
                                .form = "x[*S] -> y[*S]",
                                .attrs = "axis",
                                .rule = softmax_rule,
                                .in_place = 1,
                                .flops_per_element = 5,
                                .backward = softmax_backward};
const op_def neap_op_softmax_bw = {.type = "softmax_bw",
                                   .form = "dy[*S] y[*S] -> dx[*S]",
                                   .attrs = "axis",
                                   .rule = softmax_rule,
                                   .in_place = 3,
                                   .flops_per_element = 4};
