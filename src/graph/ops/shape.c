/* Ops that move or rename elements. */
#include "graph/network_internal.h"

#include <stdio.h>
#include <string.h>

extern const op_def neap_op_concat, neap_op_slice, neap_op_split, neap_op_reshape,
    neap_op_transpose, neap_op_expand, neap_op_pad, neap_op_pad2d;

neap_tensor neap_net_concat(neap_network *net, const char *name, uint32_t count,
                            const neap_tensor *parts, uint32_t axis)
{
    net_call call = {.def = &neap_op_concat,
                     .name = name,
                     .n_inputs = count,
                     .inputs = parts,
                     .n_attrs = 1,
                     .attrs = &ATTR_INT("axis", axis)};
    return neap_net_add_op(net, &call);
}

neap_tensor neap_net_slice(neap_network *net, const char *name, neap_tensor x, uint32_t axis,
                           int64_t begin, int64_t end)
{
    neap_attr attrs[] = {ATTR_INT("axis", axis), ATTR_INT("begin", begin), ATTR_INT("end", end)};
    net_call call = {.def = &neap_op_slice,
                     .name = name,
                     .n_inputs = 1,
                     .inputs = &x,
                     .n_attrs = 3,
                     .attrs = attrs};
    return neap_net_add_op(net, &call);
}

void neap_net_split(neap_network *net, const char *name, neap_tensor x, uint32_t axis,
                    uint32_t count, neap_tensor *parts)
{
    for (uint32_t i = 0; i < count; i++)
        parts[i] = NEAP_NONE;
    const net_tensor *input = neap_net_get(net, name, x);
    if (!input)
        return;
    net_tensor part = *input;
    if (count == 0 || axis >= part.rank || part.shape[axis] % count) {
        neap_net_fail(net, name, "axis %u does not divide into %u equal parts", axis, count);
        return;
    }
    part.shape[axis] /= count;
    neap_attr attrs[] = {ATTR_INT("axis", axis)};
    net_call call = {.def = &neap_op_split,
                     .name = name,
                     .n_inputs = 1,
                     .inputs = &x,
                     .n_attrs = 1,
                     .attrs = attrs};
    parts[0] = neap_net_add_node(net, &call, part.dtype, part.rank, part.shape);
    for (uint32_t i = 1; i < count; i++) {
        char suffix[16];
        snprintf(suffix, sizeof suffix, "%u", i);
        parts[i] = neap_net_add_output(net, suffix, part.dtype, part.rank, part.shape);
    }
}

/* "<layer>.copy": the elements of a part of a tensor, without the gaps between them. */
static neap_tensor add_copy(neap_network *net, const char *layer, neap_tensor part)
{
    static const char suffix[] = ".copy";
    size_t length = strlen(layer);
    char *name = neap_arena_alloc(&net->arena, length + sizeof suffix, 1);
    if (!name) {
        neap_net_fail_no_memory(net);
        return NEAP_NONE;
    }
    memcpy(name, layer, length);
    memcpy(name + length, suffix, sizeof suffix);
    return neap_net_concat(net, name, 1, &part, 0);
}

neap_tensor neap_net_reshape(neap_network *net, const char *name, neap_tensor x, uint32_t rank,
                             const int64_t *shape)
{
    const net_tensor *input = neap_net_get(net, name, x);
    if (!input)
        return NEAP_NONE;
    if (rank == 0 || rank > NEAP_MAX_RANK)
        return neap_net_fail(net, name, "a tensor has 1 to %d dimensions", NEAP_MAX_RANK);
    int64_t full[NEAP_MAX_RANK], elements = 1, known = 1;
    uint32_t open = rank;
    for (uint32_t d = 0; d < input->rank; d++)
        elements = neap_count_mul(elements, input->shape[d]);
    for (uint32_t d = 0; d < rank; d++) {
        full[d] = shape[d];
        if (shape[d] == -1 && open == rank)
            open = d;
        else if (shape[d] < 1)
            return neap_net_fail(net, name, "an extent must be positive, or -1 once");
        else
            known = neap_count_mul(known, shape[d]);
    }
    if (open < rank)
        full[open] = elements / known;
    if (!neap_net_can_reshape(net, x, rank, full))
        x = add_copy(net, name, x);
    net_call call = {.def = &neap_op_reshape,
                     .name = name,
                     .n_inputs = 1,
                     .inputs = &x,
                     .rank = rank,
                     .shape = full};
    return neap_net_add_op(net, &call);
}

neap_tensor neap_net_flatten(neap_network *net, const char *name, neap_tensor x, uint32_t axis)
{
    const net_tensor *input = neap_net_get(net, name, x);
    if (!input)
        return NEAP_NONE;
    if (axis >= input->rank)
        return neap_net_fail(net, name, "axis %u of %u dimensions", axis, input->rank);
    int64_t shape[NEAP_MAX_RANK];
    memcpy(shape, input->shape, sizeof shape);
    shape[axis] = -1;
    return neap_net_reshape(net, name, x, axis + 1, shape);
}

neap_tensor neap_net_transpose(neap_network *net, const char *name, neap_tensor x, uint32_t axis_a,
                               uint32_t axis_b)
{
    neap_attr attrs[] = {ATTR_INT("axis_a", axis_a), ATTR_INT("axis_b", axis_b)};
    net_call call = {.def = &neap_op_transpose,
                     .name = name,
                     .n_inputs = 1,
                     .inputs = &x,
                     .n_attrs = 2,
                     .attrs = attrs};
    return neap_net_add_op(net, &call);
}

neap_tensor neap_net_expand(neap_network *net, const char *name, neap_tensor x, uint32_t rank,
                            const int64_t *shape)
{
    if (rank <= neap_net_rank(net, x))
        return neap_net_fail(net, name, "the new shape must be longer than the old one");
    net_call call = {.def = &neap_op_expand,
                     .name = name,
                     .n_inputs = 1,
                     .inputs = &x,
                     .rank = rank,
                     .shape = shape};
    return neap_net_add_op(net, &call);
}

/* What is added to each dimension, or taken away from it. */
static const char *const BEFORE[NEAP_MAX_RANK] = {"before_0", "before_1", "before_2",
                                                  "before_3", "before_4", "before_5"};
static const char *const AFTER[NEAP_MAX_RANK] = {"after_0", "after_1", "after_2",
                                                 "after_3", "after_4", "after_5"};

neap_tensor neap_net_pad(neap_network *net, const char *name, neap_tensor x, const int64_t *before,
                         const int64_t *after, double value)
{
    neap_attr attrs[1 + 2 * NEAP_MAX_RANK] = {ATTR_REAL("value", value)};
    uint32_t rank = neap_net_rank(net, x);
    for (uint32_t d = 0; d < rank; d++) {
        attrs[1 + 2 * d] = ATTR_INT(BEFORE[d], before[d]);
        attrs[2 + 2 * d] = ATTR_INT(AFTER[d], after[d]);
    }
    net_call call = {.def = &neap_op_pad,
                     .name = name,
                     .n_inputs = 1,
                     .inputs = &x,
                     .n_attrs = 1 + 2 * rank,
                     .attrs = attrs};
    return neap_net_add_op(net, &call);
}

neap_tensor neap_net_pad2d(neap_network *net, const char *name, neap_tensor x, int64_t top,
                           int64_t bottom, int64_t left, int64_t right)
{
    neap_attr attrs[] = {ATTR_INT("top", top), ATTR_INT("bottom", bottom), ATTR_INT("left", left),
                         ATTR_INT("right", right)};
    net_call call = {.def = &neap_op_pad2d,
                     .name = name,
                     .n_inputs = 1,
                     .inputs = &x,
                     .n_attrs = 4,
                     .attrs = attrs};
    return neap_net_add_op(net, &call);
}

/* ---- Shapes ---- */

static bool check_axis(op_fit *fit, int64_t axis, uint32_t rank)
{
    if (axis >= rank)
        neap_fit_fail(fit, "axis %lld of %u dimensions", (long long)axis, rank);
    return axis < rank;
}

/* The whole is its first part, longer along the axis. */
static void concat_rule(op_fit *fit)
{
    op_shape whole = neap_fit_input(fit, 0);
    int64_t axis = neap_fit_int(fit, "axis");
    if (!check_axis(fit, axis, whole.rank))
        return;
    for (uint32_t i = 1; i < neap_fit_inputs(fit); i++) {
        op_shape part = neap_fit_input(fit, i);
        bool fits = part.rank == whole.rank;
        for (uint32_t d = 0; fits && d < whole.rank; d++)
            fits = d == axis || part.shape[d] == whole.shape[d];
        if (!fits)
            neap_fit_fail(fit, "part %u does not have the others' shape", i);
        whole.shape[axis] = neap_count_add(whole.shape[axis], fits ? part.shape[axis] : 0);
    }
    neap_fit_set_output(fit, &whole);
}

/* The parts follow each other and fill the whole. */
static void split_rule(op_fit *fit)
{
    op_shape whole = neap_fit_input(fit, 0);
    int64_t axis = neap_fit_int(fit, "axis"), rest = 0;
    if (!check_axis(fit, axis, whole.rank))
        return;
    rest = whole.shape[axis];
    for (uint32_t i = 0; i < neap_fit_outputs(fit); i++) {
        op_shape part = neap_fit_output(fit, i);
        bool fits = part.rank == whole.rank;
        for (uint32_t d = 0; fits && d < whole.rank; d++)
            fits = d == axis ? part.shape[d] <= rest : part.shape[d] == whole.shape[d];
        if (!fits)
            neap_fit_fail(fit, "part %u does not have its input's shape", i);
        rest -= fits ? part.shape[axis] : 0;
    }
    if (rest)
        neap_fit_fail(fit, "the parts do not fill its input");
}

/* The part of a whole that a slice takes. */
static op_shape slice_of(op_fit *fit, op_shape whole)
{
    int64_t axis = neap_fit_int(fit, "axis");
    int64_t begin = neap_fit_int(fit, "begin"), end = neap_fit_int(fit, "end");
    if (!check_axis(fit, axis, whole.rank))
        return whole;
    if (begin >= end || end > whole.shape[axis])
        neap_fit_fail(fit, "there are no elements %lld to %lld on axis %lld", (long long)begin,
                      (long long)end, (long long)axis);
    whole.shape[axis] = end - begin;
    return whole;
}

static void slice_rule(op_fit *fit)
{
    op_shape part = slice_of(fit, neap_fit_input(fit, 0));
    neap_fit_set_output(fit, &part);
}

static void slice_bw_rule(op_fit *fit)
{
    op_shape part = slice_of(fit, neap_fit_output(fit, 0)), found = neap_fit_input(fit, 0);
    if (part.rank != found.rank ||
        memcmp(part.shape, found.shape, part.rank * sizeof *part.shape) != 0)
        neap_fit_fail(fit, "the gradient of a slice does not have its shape");
}

static void reshape_rule(op_fit *fit)
{
    op_shape before = neap_fit_input(fit, 0), after = neap_fit_output(fit, 0);
    if (neap_count_elements(&before) != neap_count_elements(&after))
        neap_fit_fail(fit, "%lld elements do not fit the new shape",
                      (long long)neap_count_elements(&before));
}

static void transpose_rule(op_fit *fit)
{
    op_shape x = neap_fit_input(fit, 0), turned = x;
    int64_t a = neap_fit_int(fit, "axis_a"), b = neap_fit_int(fit, "axis_b");
    if (!check_axis(fit, a, x.rank) || !check_axis(fit, b, x.rank))
        return;
    turned.shape[a] = x.shape[b];
    turned.shape[b] = x.shape[a];
    neap_fit_set_output(fit, &turned);
}

/* Negative amounts crop, but leave something of x. */
static void pad_rule(op_fit *fit)
{
    op_shape y = neap_fit_input(fit, 0);
    for (uint32_t d = 0; d < y.rank; d++) {
        int64_t before = neap_fit_int(fit, BEFORE[d]), after = neap_fit_int(fit, AFTER[d]);
        if (before < -INT32_MAX || before > INT32_MAX || after < -INT32_MAX || after > INT32_MAX) {
            neap_fit_fail(fit, "%lld before and %lld after dimension %u", (long long)before,
                          (long long)after, d);
            return;
        }
        int64_t cropped = (before < 0 ? -before : 0) + (after < 0 ? -after : 0);
        if (cropped >= y.shape[d])
            neap_fit_fail(fit, "nothing is left of dimension %u, which is %lld", d,
                          (long long)y.shape[d]);
        y.shape[d] = neap_count_add(y.shape[d], before + after);
    }
    neap_fit_set_output(fit, &y);
}

static void pad2d_rule(op_fit *fit)
{
    int64_t rows = neap_fit_int(fit, "top") + neap_fit_int(fit, "bottom");
    int64_t columns = neap_fit_int(fit, "left") + neap_fit_int(fit, "right");
    neap_fit_bind(fit, 'Y', neap_count_add(neap_fit_extent(fit, 'H'), rows));
    neap_fit_bind(fit, 'X', neap_count_add(neap_fit_extent(fit, 'W'), columns));
}

/* ---- Backward ---- */

static void concat_backward(neap_network *net, const net_node *node)
{
    neap_tensor dy = neap_grad_of(net, node, 0);
    int64_t axis = node->attrs[0].integer, begin = 0;
    for (uint32_t i = 0; i < node->n_inputs && net->status == NEAP_OK; i++) {
        int64_t end = begin + net->tensors[node->inputs[i]].shape[axis];
        neap_attr attrs[] = {ATTR_INT("axis", axis), ATTR_INT("begin", begin),
                             ATTR_INT("end", end)};
        neap_grad_emit_with(net, node, "slice", 1, &dy, node->inputs[i], 3, attrs);
        begin = end;
    }
}

static void split_backward(neap_network *net, const net_node *node)
{
    neap_tensor *parts = neap_arena_alloc(&net->arena, node->n_outputs, sizeof *parts);
    if (!parts) {
        neap_net_fail_no_memory(net);
        return;
    }
    for (uint32_t i = 0; i < node->n_outputs; i++) {
        parts[i] = neap_grad_of(net, node, i);
        if (parts[i] == NEAP_NONE) {
            neap_network_fail(net, "layer \"%s\": the loss does not depend on part %u of the split",
                              node->name, i);
            return;
        }
    }
    neap_grad_emit(net, node, "concat", node->n_outputs, parts, 1, node->inputs);
}

static void slice_backward(neap_network *net, const net_node *node)
{
    neap_grad_emit_unary(net, node, "slice_bw");
}

/* The gradient may be a part of another one, with gaps that no other shape can have. */
static void reshape_backward(neap_network *net, const net_node *node)
{
    net_node from = *node; /* the list of nodes moves as it grows */
    neap_tensor dy = neap_grad_of(net, &from, 0);
    if (dy == NEAP_NONE || !neap_grad_wanted(net, from.inputs[0]))
        return;
    const net_tensor *x = &net->tensors[from.inputs[0]];
    if (!neap_net_can_reshape(net, dy, x->rank, x->shape))
        dy = neap_grad_emit_inner(net, &from, "concat", 1, &dy, from.outputs[0], 1,
                                  &ATTR_INT("axis", 0));
    neap_grad_emit(net, &from, "reshape", 1, &dy, 1, from.inputs);
}

static void transpose_backward(neap_network *net, const net_node *node)
{
    neap_grad_emit_unary(net, node, "transpose");
}

static void expand_backward(neap_network *net, const net_node *node)
{
    neap_grad_emit_unary(net, node, "reduce");
}

/* What was added is taken away, and the other way round. */
static void pad_backward(neap_network *net, const net_node *node)
{
    neap_tensor dy = neap_grad_of(net, node, 0);
    neap_attr attrs[1 + 2 * NEAP_MAX_RANK] = {ATTR_REAL("value", 0)};
    for (uint32_t i = 1; i < node->n_attrs; i++)
        attrs[i] = ATTR_INT(node->attrs[i].name, -node->attrs[i].integer);
    neap_grad_emit_with(net, node, "pad", 1, &dy, node->inputs[0], node->n_attrs, attrs);
}

static void pad2d_backward(neap_network *net, const net_node *node)
{
    neap_grad_emit_unary(net, node, "pad2d_bw");
}

static void count_reduce(const op_shapes *s, neap_op_count *count)
{
    count->flops = neap_count_elements(&s->inputs[0]);
}

#define SHAPE_OP(name, operands, ...)                                                              \
    const op_def neap_op_##name = {.type = #name, .form = operands, __VA_ARGS__}

SHAPE_OP(concat, "parts:any... -> y:any", .attrs = "axis", .rule = concat_rule,
         .backward = concat_backward);
SHAPE_OP(slice, "x:any -> y:any", .attrs = "axis begin end", .rule = slice_rule, .view = true,
         .backward = slice_backward);
SHAPE_OP(slice_bw, "dy:any -> dx:any", .attrs = "axis begin end", .rule = slice_bw_rule);
SHAPE_OP(split, "x:any -> parts:any...", .attrs = "axis", .rule = split_rule, .view = true,
         .backward = split_backward);
SHAPE_OP(reshape, "x:any -> y:any", .rule = reshape_rule, .view = true,
         .backward = reshape_backward);
SHAPE_OP(transpose, "x:any -> y:any", .attrs = "axis_a axis_b", .rule = transpose_rule,
         .backward = transpose_backward);
SHAPE_OP(expand, "x[*S] -> y[*P,*S]", .backward = expand_backward);
SHAPE_OP(reduce, "dy[*P,*S] -> dx[*S]", .count = count_reduce);
SHAPE_OP(pad, "x -> y", .attrs = "value~", .rule = pad_rule, .backward = pad_backward);
SHAPE_OP(pad2d, "x:any[N,C,H,W] -> y:any[N,C,Y,X]", .attrs = "top bottom left right",
         .rule = pad2d_rule, .backward = pad2d_backward);
SHAPE_OP(pad2d_bw, "dy:any[N,C,Y,X] -> dx:any[N,C,H,W]", .attrs = "top bottom left right",
         .rule = pad2d_rule);
