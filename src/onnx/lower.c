/* Nodes become layers; values become views of tensors, and tensors where a layer needs one. */
#include "onnx/import.h"

#include "base/fail.h"
#include "base/memory.h"

#include <neap/text.h>

#include <string.h>

neap_status neap_onnx_check_net(onnx_import *im, const onnx_node *node)
{
    neap_graph *none;
    neap_diag cause = {0};
    if (!neap_network_failed(im->net))
        return NEAP_OK;
    neap_status status = neap_network_finish(im->net, 0, NULL, &none, &cause);
    if (status == NEAP_NO_MEMORY)
        return neap_fail_no_memory(im->diag);
    return neap_onnx_fail(im, node, "%s", cause.message);
}

/* ---- Where values come from ---- */

/* Integers of every width are i64: the trainer knows how to fill them. */
static neap_dtype dtype_of(const onnx_import *im, int32_t type)
{
    if (neap_onnx_type_is_float(type))
        return im->options->dtype;
    return type == ONNX_BOOL ? NEAP_U8 : NEAP_I64;
}

/*
 * What a layer needs beside its operands has the layer's name and a number: neap_onnx_fill finds
 * contents by name, and neither nodes nor what is made from one constant have names of their own.
 */
static neap_status own_name(onnx_import *im, const onnx_constant *constant, const char **name)
{
    uint32_t known = neap_onnx_graph_find(im, *name);
    if (known != NEAP_NONE && im->values[known].constant == constant)
        return NEAP_OK;
    do {
        neap_text text;
        neap_text_init(&text, im->allocator);
        neap_text_printf(&text, "%s.%zu", *name, im->n_fixed);
        *name = text.status == NEAP_OK ? neap_arena_text(im->arena, text.text, text.length) : NULL;
        neap_text_clear(&text);
        if (!*name)
            return neap_fail_no_memory(im->diag);
    } while (neap_onnx_graph_find(im, *name) != NEAP_NONE);
    return NEAP_OK;
}

neap_status neap_onnx_fixed(onnx_import *im, const onnx_constant *constant, const char *name,
                            uint32_t rank, const int64_t *shape, neap_tensor *tensor)
{
    NEAP_TRY(own_name(im, constant, &name));
    NEAP_TRY(
        NEAP_RESERVE(im->allocator, im->n_fixed + 1, &im->fixed, &im->fixed_capacity, im->diag));
    im->fixed[im->n_fixed++] = (onnx_fixed_input){name, constant};
    *tensor = neap_net_input(im->net, name, dtype_of(im, constant->shape.type), rank, shape);
    return NEAP_OK;
}

/* A tensor has one dimension at least. */
static void tensor_shape(const onnx_shape *shape, uint32_t *rank, int64_t dims[NEAP_MAX_RANK])
{
    dims[0] = 1;
    *rank = shape->rank > 0 ? shape->rank : 1;
    if (shape->rank > 0)
        memcpy(dims, shape->dims, shape->rank * sizeof *dims);
}

/* A view of the initializer, or of the one that it is tied to. */
static void lower_initializer(const onnx_import *im, onnx_value *value)
{
    const onnx_tie *tie = &im->ties[value->initializer];
    uint32_t root = tie->to == NEAP_NONE ? value->initializer : tie->to;
    const onnx_tensor *tensor = &im->proto->initializers[root];
    neap_onnx_view_init(&value->view, root, true, tensor->rank, tensor->dims);
    if (tie->to != NEAP_NONE && tie->turned)
        neap_onnx_view_transpose(&value->view, (uint32_t[]){1, 0});
    value->lowered = true;
}

static neap_status lower_source(onnx_import *im, const onnx_node *node, onnx_value *value)
{
    uint32_t rank;
    int64_t dims[NEAP_MAX_RANK];
    neap_tensor tensor;
    tensor_shape(&value->shape, &rank, dims);
    if (value->constant) {
        NEAP_TRY(neap_onnx_fixed(im, value->constant, value->name, rank, dims, &tensor));
    } else if (value->initializer != NEAP_NONE) {
        lower_initializer(im, value);
        return NEAP_OK;
    } else if (value->input != NEAP_NONE) {
        tensor = neap_net_input(im->net, value->name, dtype_of(im, value->shape.type), rank, dims);
    } else {
        return neap_fail(im->diag, NEAP_INTERNAL, "%s: node \"%s\": its input \"%s\" has no layer",
                         im->source, node->name, value->name);
    }
    NEAP_TRY(neap_onnx_check_net(im, node));
    neap_onnx_view_init(&value->view, tensor, false, value->shape.rank, value->shape.dims);
    value->made = tensor;
    value->lowered = true;
    return NEAP_OK;
}

neap_status neap_onnx_view(onnx_import *im, const onnx_node *node, uint32_t id,
                           const onnx_view **view)
{
    onnx_value *value = &im->values[id];
    if (!value->lowered)
        NEAP_TRY(lower_source(im, node, value));
    *view = &value->view;
    return NEAP_OK;
}

void neap_onnx_set_tensor(onnx_import *im, const onnx_node *node, uint32_t output,
                          neap_tensor tensor)
{
    onnx_value *value = neap_onnx_output(im, node, output);
    if (!value)
        return;
    neap_onnx_view_init(&value->view, tensor, false, value->shape.rank, value->shape.dims);
    value->made = tensor;
    value->lowered = true;
}

void neap_onnx_set_view(onnx_import *im, const onnx_node *node, uint32_t output,
                        const onnx_view *view)
{
    onnx_value *value = neap_onnx_output(im, node, output);
    if (!value)
        return;
    value->view = *view;
    value->made = NEAP_NONE;
    value->lowered = true;
}

/* ---- From views to tensors ---- */

/* x with its dimensions in another order: order[i] becomes dimension i. */
static neap_tensor permute(neap_network *net, const char *name, neap_tensor x, uint32_t rank,
                           const uint8_t order[VIEW_MOST_ATOMS])
{
    uint32_t axes[NEAP_MAX_RANK], moved = 0, pair[2] = {0, 0};
    for (uint32_t d = 0; d < rank; d++) {
        axes[d] = order[d];
        if (axes[d] != d && moved++ < 2)
            pair[moved - 1] = d;
    }
    if (moved == 0)
        return x;
    return moved == 2 ? neap_net_transpose(net, name, x, pair[0], pair[1])
                      : neap_net_permute(net, name, x, axes);
}

static bool has_shape(const neap_network *net, neap_tensor x, uint32_t rank, const int64_t *shape)
{
    bool same = neap_net_rank(net, x) == rank;
    for (uint32_t d = 0; same && d < rank; d++)
        same = neap_net_dim(net, x, d) == shape[d];
    return same;
}

/* As few atoms as possible, so that the tensor on the way has few dimensions. */
static void join_all(onnx_view *view)
{
    int64_t all = 1;
    for (uint32_t i = 0; i < view->n_order; i++)
        all *= view->extents[view->order[i]];
    neap_onnx_view_reshape(view, 1, &all);
    neap_onnx_view_simplify(view);
}

/* The view of a copy that holds only one index of a fixed atom: that atom is gone. */
static neap_tensor drop_atom(neap_network *net, const char *name, neap_tensor x, onnx_view *view,
                             uint32_t atom)
{
    int64_t dims[] = {1, view->extents[atom], 1}, rest[] = {1, 1};
    for (uint32_t a = 0; a < view->n_atoms; a++)
        if (a != atom)
            dims[a < atom ? 0 : 2] *= view->extents[a];
    rest[0] = dims[0];
    rest[1] = dims[2];
    x = neap_net_reshape(net, name, x, 3, dims);
    x = neap_net_slice(net, name, x, 1, view->fixed[atom], view->fixed[atom] + 1);
    for (uint32_t a = atom; a + 1 < view->n_atoms; a++) {
        view->extents[a] = view->extents[a + 1];
        view->fixed[a] = view->fixed[a + 1];
    }
    view->n_atoms--;
    for (uint32_t i = 0; i < view->n_order; i++)
        view->order[i] = (uint8_t)(view->order[i] - (view->order[i] > atom));
    return neap_net_reshape(net, name, x, 2, rest);
}

/* A copy with the first atoms in the order of the view, and the others, as one, after them. */
static neap_tensor order_first(neap_network *net, const char *name, neap_tensor x, onnx_view *view)
{
    enum { ALONE = NEAP_MAX_RANK - 1 };
    const onnx_view old = *view;
    uint8_t order[VIEW_MOST_ATOMS], places[VIEW_MOST_ATOMS];
    int64_t dims[NEAP_MAX_RANK];
    uint32_t n = 0;
    for (uint32_t i = 0; i < old.n_order; i++)
        if (old.order[i] < ALONE)
            order[n++] = old.order[i];
    for (uint32_t a = ALONE; a < old.n_atoms; a++)
        order[n++] = (uint8_t)a;
    memcpy(dims, old.extents, ALONE * sizeof *dims);
    dims[ALONE] = 1;
    for (uint32_t a = ALONE; a < old.n_atoms; a++)
        dims[ALONE] *= old.extents[a];
    x = permute(net, name, neap_net_reshape(net, name, x, NEAP_MAX_RANK, dims), NEAP_MAX_RANK,
                order); /* the sixth is the others already */
    for (uint32_t i = 0; i < n; i++) {
        view->extents[i] = old.extents[order[i]];
        places[order[i]] = (uint8_t)i;
    }
    for (uint32_t i = 0; i < old.n_order; i++)
        view->order[i] = places[old.order[i]];
    return x;
}

/* As many atoms as a tensor can have dimensions, at most, by copies on the way. */
static neap_tensor reduce_atoms(neap_network *net, const char *name, neap_tensor x, onnx_view *view)
{
    bool ordered = false;
    while (view->n_atoms > NEAP_MAX_RANK) {
        uint32_t atom = 0;
        while (atom < view->n_atoms && view->fixed[atom] < 0)
            atom++;
        if (atom < view->n_atoms) {
            x = drop_atom(net, name, x, view, atom);
        } else if (!ordered) {
            x = order_first(net, name, x, view);
            ordered = true;
        } else {
            neap_network_fail(net, "layer \"%s\": more than %d dimensions on the way", name,
                              NEAP_MAX_RANK);
            return NEAP_NONE;
        }
        join_all(view);
    }
    return x;
}

neap_tensor neap_onnx_materialize(onnx_import *im, const char *name, const onnx_view *view,
                                  uint32_t rank, const int64_t *shape)
{
    onnx_view joined = *view;
    neap_network *net = im->net;
    neap_tensor x = view->root;
    join_all(&joined);
    if (!neap_onnx_view_is_whole(&joined)) {
        uint8_t places[VIEW_MOST_ATOMS]; /* of each atom among the free ones */
        uint32_t n_free = 0;
        x = reduce_atoms(net, name, x, &joined);
        if (x == NEAP_NONE)
            return x;
        x = neap_net_reshape(net, name, x, joined.n_atoms, joined.extents);
        for (uint32_t a = 0; a < joined.n_atoms; a++)
            if (joined.fixed[a] >= 0)
                x = neap_net_slice(net, name, x, a, joined.fixed[a], joined.fixed[a] + 1);
        int64_t free_dims[NEAP_MAX_RANK] = {1};
        for (uint32_t a = 0; a < joined.n_atoms; a++)
            if (joined.fixed[a] < 0) {
                places[a] = (uint8_t)n_free;
                free_dims[n_free++] = joined.extents[a];
            }
        for (uint32_t i = 0; i < joined.n_order; i++)
            joined.order[i] = places[joined.order[i]];
        if (n_free != joined.n_atoms)
            x = neap_net_reshape(net, name, x, n_free > 0 ? n_free : 1, free_dims);
        x = permute(net, name, x, n_free, joined.order);
    }
    return has_shape(net, x, rank, shape) ? x : neap_net_reshape(net, name, x, rank, shape);
}

/* ---- Parameters ---- */

static neap_status new_parameter(onnx_import *im, const onnx_view *layout, uint32_t rank,
                                 const int64_t *shape, uint32_t *index)
{
    const onnx_tensor *tensor = &im->proto->initializers[layout->root];
    NEAP_TRY(NEAP_RESERVE(im->allocator, im->n_parameters + 1, &im->parameters,
                          &im->parameter_capacity, im->diag));
    *index = (uint32_t)im->n_parameters++;
    im->parameters[*index] =
        (onnx_parameter){.initializer = layout->root,
                         .name = tensor->name,
                         .tensor = neap_net_parameter(im->net, tensor->name, rank, shape),
                         .layout = *layout};
    im->parameter_of[layout->root] = *index;
    return NEAP_OK;
}

/* A view of an initializer as a view of the parameter that has its elements in another order.
   False where their atoms differ. */
static bool rebase(const onnx_parameter *parameter, onnx_view *view)
{
    onnx_view layout = parameter->layout, based = *view;
    uint8_t places[VIEW_MOST_ATOMS];
    if (layout.n_atoms != view->n_atoms ||
        memcmp(layout.extents, view->extents, view->n_atoms * sizeof *view->extents) != 0)
        return false;
    for (uint32_t i = 0; i < layout.n_order; i++) {
        based.extents[i] = view->extents[layout.order[i]];
        based.fixed[i] = view->fixed[layout.order[i]];
        places[layout.order[i]] = (uint8_t)i;
    }
    for (uint32_t i = 0; i < view->n_order; i++)
        based.order[i] = places[view->order[i]];
    *view = based;
    return true;
}

neap_status neap_onnx_weight(onnx_import *im, const onnx_node *node, uint32_t value,
                             const onnx_view *view, uint32_t rank, const int64_t *shape,
                             neap_tensor *tensor)
{
    onnx_view wanted = *view;
    if (!view->of_initializer) {
        *tensor = neap_onnx_materialize(im, im->values[value].name, view, rank, shape);
        return neap_onnx_check_net(im, node);
    }
    const onnx_tensor *from = &im->proto->initializers[view->root];
    uint32_t index = im->parameter_of[view->root];
    if (index == NEAP_NONE && neap_onnx_view_is_complete(view)) {
        NEAP_TRY(new_parameter(im, view, rank, shape, &index));
        *tensor = im->parameters[index].tensor;
        return neap_onnx_check_net(im, node);
    }
    if (index == NEAP_NONE) { /* a part of it: the whole is the parameter */
        onnx_view whole;
        neap_onnx_view_init(&whole, view->root, true, from->rank, from->dims);
        NEAP_TRY(new_parameter(im, &whole, from->rank, from->dims, &index));
    }
    const onnx_parameter *parameter = &im->parameters[index];
    if (parameter->gate_groups > 0)
        return neap_onnx_fail_unsupported(
            im, node, "the tensor \"%s\" is a weight of an LSTM and used elsewhere", from->name);
    if (neap_onnx_view_is_alike(&parameter->layout, view)) {
        neap_onnx_view_init(&wanted, 0, false, rank, shape);
    } else if (!neap_onnx_view_is_whole(&parameter->layout) && !rebase(parameter, &wanted)) {
        return neap_onnx_fail_unsupported(im, node,
                                          "the tensor \"%s\" is used in two layouts that neap "
                                          "cannot reconcile",
                                          from->name);
    }
    wanted.root = parameter->tensor;
    wanted.of_initializer = false;
    *tensor = neap_onnx_materialize(im, from->name, &wanted, rank, shape);
    return neap_onnx_check_net(im, node);
}

neap_status neap_onnx_tensor(onnx_import *im, const onnx_node *node, uint32_t id,
                             neap_tensor *tensor)
{
    const onnx_view *view;
    uint32_t rank;
    int64_t dims[NEAP_MAX_RANK];
    NEAP_TRY(neap_onnx_view(im, node, id, &view));
    onnx_value *value = &im->values[id];
    if (value->made == NEAP_NONE) {
        tensor_shape(&value->shape, &rank, dims);
        NEAP_TRY(neap_onnx_weight(im, node, id, view, rank, dims, &value->made));
    }
    *tensor = value->made;
    return NEAP_OK;
}

/* ---- The pass ---- */

/* A node whose results are all constants has no layer. */
static bool needs_layer(const onnx_import *im, const onnx_node *node)
{
    for (uint32_t o = 0; o < node->n_outputs; o++) {
        const onnx_value *value = neap_onnx_output(im, node, o);
        if (value && !value->constant && value->live)
            return true;
    }
    return false;
}

/* Some nodes have outputs beside the first, such as statistics, that neap does not make. */
static neap_status check_outputs(const onnx_import *im, const onnx_node *node)
{
    for (uint32_t o = 0; o < node->n_outputs; o++) {
        const onnx_value *value = neap_onnx_output(im, node, o);
        if (value && value->live && !value->constant && !value->lowered)
            return neap_onnx_fail_unsupported(im, node, "neap does not compute its output %u", o);
    }
    return NEAP_OK;
}

neap_status neap_onnx_lower(onnx_import *im)
{
    for (size_t i = 0; i < im->n_nodes; i++) {
        const onnx_node *node = &im->nodes[i];
        if (!node->live || !needs_layer(im, node))
            continue;
        if (!node->op->lower)
            return neap_onnx_fail_unsupported(
                im, node, "neap computes this node only from constants, not from data");
        NEAP_TRY(node->op->lower(im, node));
        NEAP_TRY(neap_onnx_check_net(im, node));
        NEAP_TRY(check_outputs(im, node));
    }
    return NEAP_OK;
}
