/*
 * Elements chosen by integers: gather, by position along an axis, and where, by a condition.
 *
 * The gradient of a gather adds up what came from one position, in the order of the indices.
 */
#include "graph/network_internal.h"

#include <string.h>

extern const op_def neap_op_gather, neap_op_where;

neap_tensor neap_net_gather(neap_network *net, const char *name, neap_tensor x, neap_tensor indices,
                            uint32_t axis)
{
    net_call call = {.def = &neap_op_gather,
                     .name = name,
                     .n_inputs = 2,
                     .inputs = (neap_tensor[]){x, indices},
                     .n_attrs = 1,
                     .attrs = &ATTR_INT("axis", axis)};
    return neap_net_add_op(net, &call);
}

neap_tensor neap_net_where(neap_network *net, const char *name, neap_tensor condition,
                           neap_tensor a, neap_tensor b)
{
    net_call call = {.def = &neap_op_where,
                     .name = name,
                     .n_inputs = 3,
                     .inputs = (neap_tensor[]){a, b, condition}};
    return neap_net_add_op(net, &call);
}

/* ---- Shapes ---- */

/* The shape of x with that of the indices in the place of the axis; sets the limit of indices. */
static op_shape gathered(op_fit *fit, const op_shape *x, const op_shape *indices)
{
    int64_t axis = neap_fit_int(fit, "axis");
    op_shape y = {.dtype = x->dtype};
    if (axis >= x->rank) {
        neap_fit_fail(fit, "axis %lld of %u dimensions", (long long)axis, x->rank);
        return *x;
    }
    if (x->rank - 1 + indices->rank > NEAP_MAX_RANK) {
        neap_fit_fail(fit, "a tensor has 1 to %d dimensions", NEAP_MAX_RANK);
        return *x;
    }
    neap_fit_bind(fit, 'V', x->shape[axis]);
    memcpy(y.shape, x->shape, (size_t)axis * sizeof *y.shape);
    memcpy(y.shape + axis, indices->shape, indices->rank * sizeof *y.shape);
    memcpy(y.shape + axis + indices->rank, x->shape + axis + 1,
           (x->rank - 1 - (size_t)axis) * sizeof *y.shape);
    y.rank = x->rank - 1 + indices->rank;
    return y;
}

static void gather_rule(op_fit *fit)
{
    op_shape x = neap_fit_input(fit, 0), indices = neap_fit_input(fit, 1);
    op_shape y = gathered(fit, &x, &indices);
    neap_fit_set_output(fit, &y);
}

static void gather_bw_rule(op_fit *fit)
{
    op_shape dy = neap_fit_input(fit, 0), indices = neap_fit_input(fit, 1);
    op_shape dx = neap_fit_output(fit, 0), y = gathered(fit, &dx, &indices);
    if (dy.rank != y.rank || memcmp(dy.shape, y.shape, y.rank * sizeof *y.shape) != 0)
        neap_fit_fail(fit, "the gradient does not have the shape of what was gathered");
}

/* ---- Backward ---- */

static void gather_backward(neap_network *net, const net_node *node)
{
    neap_grad_emit(net, node, "gather_bw", 2,
                   (neap_tensor[]){neap_grad_of(net, node, 0), node->inputs[1]}, 1, node->inputs);
}

static void where_backward(neap_network *net, const net_node *node)
{
    neap_tensor reads[] = {neap_grad_of(net, node, 0), node->inputs[2]};
    for (uint32_t i = 0; i < 2; i++)
        neap_grad_emit_with(net, node, "where_bw", 2, reads, node->inputs[i], 1,
                            &ATTR_INT("of_b", i));
}

/* ---- Work ---- */

/* Only what is gathered is read. */
static void count_gather(const op_shapes *s, neap_op_count *count)
{
    int64_t elements = neap_count_elements(&s->outputs[0]), indices = 0;
    if (s->n_inputs > 1)
        indices = neap_count_mul(neap_count_elements(&s->inputs[1]),
                                 neap_dtype_bytes(s->inputs[1].dtype));
    count->bytes_moved = neap_count_mul(elements, neap_dtype_bytes(s->inputs[0].dtype) +
                                                      neap_dtype_bytes(s->outputs[0].dtype));
    count->bytes_moved = neap_count_add(count->bytes_moved, indices);
}

static void count_gather_bw(const op_shapes *s, neap_op_count *count)
{
    count->flops = neap_count_elements(&s->inputs[0]);
}

const op_def neap_op_gather = {.type = "gather",
                               .form = "x indices:ids<V -> y",
                               .attrs = "axis",
                               .rule = gather_rule,
                               .count = count_gather,
                               .backward = gather_backward};
const op_def neap_op_gather_bw = {.type = "gather_bw",
                                  .form = "dy indices:ids<V -> dx",
                                  .attrs = "axis",
                                  .rule = gather_bw_rule,
                                  .count = count_gather_bw};
const op_def neap_op_where = {.type = "where",
                              .form = "a[*P,*S] b[*P,*S] condition:mask<2[*S] -> y[*P,*S]",
                              .in_place = 3,
                              .flops_per_element = 1,
                              .backward = where_backward};
const op_def neap_op_where_bw = {.type = "where_bw",
                                 .form = "dy[*P,*S] condition:mask<2[*S] -> dx[*P,*S]",
                                 .attrs = "of_b",
                                 .in_place = 1,
                                 .flops_per_element = 1};
