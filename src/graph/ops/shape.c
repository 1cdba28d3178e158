/*
 * Ops that move or rename elements.
 *
 *     concat(parts...) -> y       backward: a slice (view) of dy for each part
 *     slice(x) -> view            slice_bw(dy) -> dx, zero elsewhere
 *     split(x) -> views           backward: concat of the parts' gradients
 *     reshape(x) -> view          backward: reshape of dy
 *     transpose(x) -> copy        backward: transpose of dy
 *     expand(x) -> copy           reduce(dy) -> dx, summed over the leading dimensions
 *     pad2d(x) -> copy            pad2d_bw(dy) -> dx, dy without the border
 */
#include "graph/network_internal.h"

#include <stdio.h>
#include <string.h>

extern const op_def neap_op_concat, neap_op_slice, neap_op_split, neap_op_reshape,
    neap_op_transpose, neap_op_expand, neap_op_pad2d;

neap_tensor neap_net_concat(neap_network *net, const char *name, uint32_t count,
                            const neap_tensor *parts, uint32_t axis)
{
    const net_tensor *first = count ? neap_net_get(net, name, parts[0]) : NULL;
    if (count == 0)
        return neap_net_fail(net, name, "nothing to concatenate");
    if (!first)
        return NEAP_NONE;
    net_tensor whole = *first;
    if (axis >= whole.rank)
        return neap_net_fail(net, name, "axis %u of %u dimensions", axis, whole.rank);
    for (uint32_t i = 1; i < count; i++) {
        const net_tensor *part = neap_net_get(net, name, parts[i]);
        if (!part)
            return NEAP_NONE;
        bool fits = part->rank == whole.rank;
        for (uint32_t d = 0; fits && d < whole.rank; d++)
            fits = d == axis || part->shape[d] == whole.shape[d];
        if (!fits)
            return neap_net_fail(net, name, "part %u does not have the others' shape", i);
        whole.shape[axis] = neap_count_add(whole.shape[axis], part->shape[axis]);
    }
    net_call call = {.def = &neap_op_concat,
                     .name = name,
                     .n_inputs = count,
                     .inputs = parts,
                     .n_attrs = 1,
                     .attrs = &ATTR_INT("axis", axis)};
    return neap_net_add_node(net, &call, whole.dtype, whole.rank, whole.shape);
}

neap_tensor neap_net_slice(neap_network *net, const char *name, neap_tensor x, uint32_t axis,
                           int64_t begin, int64_t end)
{
    const net_tensor *input = neap_net_get(net, name, x);
    if (!input)
        return NEAP_NONE;
    net_tensor part = *input;
    if (axis >= part.rank || begin < 0 || end > part.shape[axis] || begin >= end)
        return neap_net_fail(net, name, "no elements %lld to %lld on axis %u", (long long)begin,
                             (long long)end, axis);
    part.shape[axis] = end - begin;
    neap_attr attrs[] = {ATTR_INT("axis", axis), ATTR_INT("begin", begin), ATTR_INT("end", end)};
    net_call call = {.def = &neap_op_slice,
                     .name = name,
                     .n_inputs = 1,
                     .inputs = &x,
                     .n_attrs = 3,
                     .attrs = attrs};
    return neap_net_add_node(net, &call, part.dtype, part.rank, part.shape);
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

neap_tensor neap_net_reshape(neap_network *net, const char *name, neap_tensor x, uint32_t rank,
                             const int64_t *shape)
{
    const net_tensor *input = neap_net_get(net, name, x);
    if (!input)
        return NEAP_NONE;
    if (rank == 0 || rank > NEAP_MAX_RANK)
        return neap_net_fail(net, name, "a tensor has 1 to %d dimensions", NEAP_MAX_RANK);
    op_shape before = {.rank = input->rank}, after = {.rank = rank};
    memcpy(before.shape, input->shape, sizeof before.shape);
    int64_t elements = neap_count_elements(&before), known = 1;
    uint32_t open = rank;
    for (uint32_t d = 0; d < rank; d++) {
        after.shape[d] = shape[d];
        if (shape[d] == -1 && open == rank)
            open = d;
        else if (shape[d] < 1)
            return neap_net_fail(net, name, "an extent must be positive, or -1 once");
        else
            known = neap_count_mul(known, shape[d]);
    }
    if (open < rank)
        after.shape[open] = elements / known;
    if (neap_count_elements(&after) != elements)
        return neap_net_fail(net, name, "%lld elements do not fit the new shape",
                             (long long)elements);
    net_call call = {.def = &neap_op_reshape, .name = name, .n_inputs = 1, .inputs = &x};
    return neap_net_add_node(net, &call, input->dtype, rank, after.shape);
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
    const net_tensor *input = neap_net_get(net, name, x);
    if (!input)
        return NEAP_NONE;
    net_tensor turned = *input;
    if (axis_a >= turned.rank || axis_b >= turned.rank)
        return neap_net_fail(net, name, "axes %u and %u of %u dimensions", axis_a, axis_b,
                             turned.rank);
    turned.shape[axis_a] = input->shape[axis_b];
    turned.shape[axis_b] = input->shape[axis_a];
    neap_attr attrs[] = {ATTR_INT("axis_a", axis_a), ATTR_INT("axis_b", axis_b)};
    net_call call = {.def = &neap_op_transpose,
                     .name = name,
                     .n_inputs = 1,
                     .inputs = &x,
                     .n_attrs = 2,
                     .attrs = attrs};
    return neap_net_add_node(net, &call, turned.dtype, turned.rank, turned.shape);
}

neap_tensor neap_net_expand(neap_network *net, const char *name, neap_tensor x, uint32_t rank,
                            const int64_t *shape)
{
    const net_tensor *input = neap_net_get(net, name, x);
    if (!input)
        return NEAP_NONE;
    if (rank > NEAP_MAX_RANK || rank <= input->rank ||
        memcmp(shape + (rank - input->rank), input->shape, input->rank * sizeof *shape) != 0)
        return neap_net_fail(net, name, "the new shape must end in the old one and be longer");
    net_call call = {.def = &neap_op_expand, .name = name, .n_inputs = 1, .inputs = &x};
    return neap_net_add_node(net, &call, input->dtype, rank, shape);
}

neap_tensor neap_net_pad2d(neap_network *net, const char *name, neap_tensor x, int64_t top,
                           int64_t bottom, int64_t left, int64_t right)
{
    const net_tensor *input = neap_net_get(net, name, x);
    if (!input)
        return NEAP_NONE;
    if (input->rank != 4)
        return neap_net_fail(net, name, "an image is N x C x H x W, not rank %u", input->rank);
    if (top < 0 || bottom < 0 || left < 0 || right < 0)
        return neap_net_fail(net, name, "padding must not be negative");
    int64_t shape[4] = {input->shape[0], input->shape[1],
                        neap_count_add(input->shape[2], neap_count_add(top, bottom)),
                        neap_count_add(input->shape[3], neap_count_add(left, right))};
    neap_attr attrs[] = {ATTR_INT("top", top), ATTR_INT("bottom", bottom), ATTR_INT("left", left),
                         ATTR_INT("right", right)};
    net_call call = {.def = &neap_op_pad2d,
                     .name = name,
                     .n_inputs = 1,
                     .inputs = &x,
                     .n_attrs = 4,
                     .attrs = attrs};
    return neap_net_add_node(net, &call, input->dtype, 4, shape);
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

static void unary_backward(neap_network *net, const net_node *node, const char *type)
{
    neap_grad_emit(net, node, type, 1, (neap_tensor[]){neap_grad_of(net, node, 0)}, 1,
                   node->inputs);
}

static void slice_backward(neap_network *net, const net_node *node)
{
    unary_backward(net, node, "slice_bw");
}

static void reshape_backward(neap_network *net, const net_node *node)
{
    unary_backward(net, node, "reshape");
}

static void transpose_backward(neap_network *net, const net_node *node)
{
    unary_backward(net, node, "transpose");
}

static void expand_backward(neap_network *net, const net_node *node)
{
    unary_backward(net, node, "reduce");
}

static void pad2d_backward(neap_network *net, const net_node *node)
{
    unary_backward(net, node, "pad2d_bw");
}

static void count_reduce(const op_shapes *s, neap_op_count *count)
{
    count->flops = neap_count_elements(&s->inputs[0]);
}

const op_def neap_op_concat = {.type = "concat", .backward = concat_backward};
const op_def neap_op_slice = {.type = "slice", .view = true, .backward = slice_backward};
const op_def neap_op_slice_bw = {.type = "slice_bw"};
const op_def neap_op_split = {.type = "split", .view = true, .backward = split_backward};
const op_def neap_op_reshape = {.type = "reshape", .view = true, .backward = reshape_backward};
const op_def neap_op_transpose = {.type = "transpose", .backward = transpose_backward};
const op_def neap_op_expand = {.type = "expand", .backward = expand_backward};
const op_def neap_op_reduce = {.type = "reduce", .count = count_reduce};
const op_def neap_op_pad2d = {.type = "pad2d", .backward = pad2d_backward};
const op_def neap_op_pad2d_bw = {.type = "pad2d_bw"};
