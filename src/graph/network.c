/* neap/network.h: tensors, scopes and nodes of a network under construction. */
#include "graph/network_internal.h"

#include "base/checked.h"
#include "base/fail.h"
#include "base/memory.h"
#include "graph/strides.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

neap_status neap_network_create(neap_allocator *allocator, const char *name, neap_dtype dtype,
                                neap_network **result, neap_diag *diag)
{
    allocator = neap_allocator_or_system(allocator);
    neap_network *net;
    *result = NULL;
    if (dtype != NEAP_F32 && dtype != NEAP_F16 && dtype != NEAP_BF16 && dtype != NEAP_F64)
        return neap_fail(diag, NEAP_INVALID, "a network computes in f32, f16, bf16 or f64");
    neap_status status = NEAP_NEW(allocator, 1, &net, diag);
    if (status != NEAP_OK)
        return status;
    net->allocator = allocator;
    net->dtype = dtype;
    neap_arena_init(&net->arena, allocator);
    neap_text_init(&net->scope, allocator);
    net->name = neap_arena_text(&net->arena, name, strlen(name));
    if (!net->name) {
        neap_network_destroy(net);
        return neap_fail_no_memory(diag);
    }
    *result = net;
    return NEAP_OK;
}

void neap_network_destroy(neap_network *net)
{
    if (!net)
        return;
    neap_allocator *allocator = net->allocator;
    NEAP_DELETE(allocator, net->tensor_capacity, net->tensors);
    NEAP_DELETE(allocator, net->node_capacity, net->nodes);
    NEAP_DELETE(allocator, net->scope_capacity, net->scope_lengths);
    neap_text_clear(&net->scope);
    neap_arena_clear(&net->arena);
    NEAP_DELETE(allocator, 1, net);
}

void neap_network_set_kernels(neap_network *net, neap_kernels kernels)
{
    net->kernels = kernels;
}

neap_kernels neap_network_kernels(const neap_network *net)
{
    return net->kernels;
}

/* ---- Errors ---- */

bool neap_network_failed(const neap_network *net)
{
    return net->status != NEAP_OK;
}

void neap_net_fail_no_memory(neap_network *net)
{
    if (net->status == NEAP_OK)
        net->status = neap_fail_no_memory(&net->diag);
}

void neap_network_fail(neap_network *net, const char *format, ...)
{
    if (net->status != NEAP_OK)
        return;
    char message[NEAP_DIAG_CAPACITY];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    net->status = neap_fail(&net->diag, NEAP_INVALID, "%s: %s", net->name, message);
}

neap_tensor neap_net_fail(neap_network *net, const char *layer, const char *format, ...)
{
    char message[NEAP_DIAG_CAPACITY];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    neap_network_fail(net, "layer \"%s%s\": %s", net->scope.length ? net->scope.text : "", layer,
                      message);
    return NEAP_NONE;
}

/* ---- Scopes ---- */

void neap_net_enter(neap_network *net, const char *format, ...)
{
    if (net->status != NEAP_OK)
        return;
    va_list arguments, again;
    va_start(arguments, format);
    va_copy(again, arguments);
    int length = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    char *name = length < 0 ? NULL : neap_arena_alloc(&net->arena, (size_t)length + 1, 1);
    if (name)
        vsnprintf(name, (size_t)length + 1, format, again);
    else
        neap_net_fail_no_memory(net);
    va_end(again);
    if (net->status != NEAP_OK)
        return;
    net->status = NEAP_RESERVE(net->allocator, net->n_scopes + 1, &net->scope_lengths,
                               &net->scope_capacity, &net->diag);
    if (net->status != NEAP_OK)
        return;
    net->scope_lengths[net->n_scopes++] = net->scope.length;
    neap_text_puts(&net->scope, name);
    neap_text_putc(&net->scope, '.');
    if (net->scope.status != NEAP_OK)
        neap_net_fail_no_memory(net);
}

void neap_net_leave(neap_network *net)
{
    if (net->status != NEAP_OK)
        return;
    if (net->n_scopes == 0) {
        neap_network_fail(net, "a scope is left that was not entered");
        return;
    }
    net->scope.length = net->scope_lengths[--net->n_scopes];
    net->scope.text[net->scope.length] = '\0';
}

void neap_net_begin_layer(neap_network *net)
{
    if (net->in_layer)
        neap_network_fail(net, "a layer begins inside another");
    net->in_layer = true;
}

void neap_net_end_layer(neap_network *net)
{
    if (!net->in_layer)
        neap_network_fail(net, "a layer ends that was not begun");
    if (net->n_nodes > 0)
        net->nodes[net->n_nodes - 1].inside_layer = false;
    net->in_layer = false;
}

/* ---- Tensors ---- */

const net_tensor *neap_net_get(neap_network *net, const char *layer, neap_tensor x)
{
    if (net->status != NEAP_OK)
        return NULL;
    if (x >= net->n_tensors) {
        neap_net_fail(net, layer, "reads a tensor that does not exist");
        return NULL;
    }
    return &net->tensors[x];
}

int64_t neap_net_dim(const neap_network *net, neap_tensor x, uint32_t dim)
{
    if (net->status != NEAP_OK || x >= net->n_tensors || dim >= net->tensors[x].rank)
        return 0;
    return net->tensors[x].shape[dim];
}

uint32_t neap_net_rank(const neap_network *net, neap_tensor x)
{
    return net->status == NEAP_OK && x < net->n_tensors ? net->tensors[x].rank : 0;
}

const char *neap_net_full_name(neap_network *net, const char *layer, const char *suffix)
{
    size_t scope = net->scope.length, length = strlen(layer),
           tail = suffix ? strlen(suffix) + 1 : 0;
    char *name = neap_arena_alloc(&net->arena, scope + length + tail + 1, 1);
    if (!name) {
        neap_net_fail_no_memory(net);
        return "";
    }
    if (scope)
        memcpy(name, net->scope.text, scope);
    memcpy(name + scope, layer, length);
    if (suffix) {
        name[scope + length] = '.';
        memcpy(name + scope + length + 1, suffix, tail - 1);
    }
    return name;
}

neap_tensor neap_net_new_tensor(neap_network *net, const char *name, const char *kind,
                                neap_dtype dtype, uint32_t rank, const int64_t *shape)
{
    if (net->status != NEAP_OK)
        return NEAP_NONE;
    net_tensor tensor = {.name = name,
                         .kind = kind,
                         .dtype = dtype,
                         .rank = rank,
                         .view_of = NEAP_NONE,
                         .gradient = NEAP_NONE};
    if (rank == 0 || rank > NEAP_MAX_RANK) {
        neap_network_fail(net, "\"%s\": a tensor has 1 to %d dimensions", name, NEAP_MAX_RANK);
        return NEAP_NONE;
    }
    int64_t bytes = neap_dtype_bytes(dtype);
    for (uint32_t d = 0; d < rank; d++) {
        tensor.shape[d] = shape[d];
        if (shape[d] < 1) {
            neap_network_fail(net, "\"%s\": dimension %u would be %lld, it must be at least 1",
                              name, d, (long long)shape[d]);
            return NEAP_NONE;
        }
        if (!neap_mul_i64(bytes, shape[d], &bytes)) {
            neap_network_fail(net, "\"%s\": its size overflows 63 bits", name);
            return NEAP_NONE;
        }
    }
    neap_strides_plain(rank, tensor.shape, tensor.strides);
    neap_status status = NEAP_RESERVE(net->allocator, net->n_tensors + 1, &net->tensors,
                                      &net->tensor_capacity, &net->diag);
    if (status != NEAP_OK || net->n_tensors >= NEAP_NONE - 1) {
        neap_net_fail_no_memory(net);
        return NEAP_NONE;
    }
    net->tensors[net->n_tensors] = tensor;
    return (neap_tensor)net->n_tensors++;
}

neap_tensor neap_net_input(neap_network *net, const char *name, neap_dtype dtype, uint32_t rank,
                           const int64_t *shape)
{
    return neap_net_new_tensor(net, neap_net_full_name(net, name, NULL), NEAP_KIND_INPUT, dtype,
                               rank, shape);
}

neap_tensor neap_net_parameter(neap_network *net, const char *name, uint32_t rank,
                               const int64_t *shape)
{
    return neap_net_add_parameter(net, name, NULL, rank, shape);
}

neap_tensor neap_net_add_parameter(neap_network *net, const char *layer, const char *suffix,
                                   uint32_t rank, const int64_t *shape)
{
    neap_tensor parameter = neap_net_new_tensor(net, neap_net_full_name(net, layer, suffix),
                                                NEAP_KIND_PARAMETER, net->dtype, rank, shape);
    if (parameter != NEAP_NONE)
        net->tensors[parameter].needs_grad = true;
    return parameter;
}

/* ---- Nodes ---- */

static bool is_float(neap_dtype dtype)
{
    return dtype == NEAP_F32 || dtype == NEAP_F16 || dtype == NEAP_BF16 || dtype == NEAP_F64;
}

/* Appends a node without outputs yet. */
net_node *neap_net_new_node(neap_network *net, const op_def *def, const char *name, neap_pass pass,
                            uint32_t n_inputs, const neap_tensor *inputs, uint32_t n_attrs,
                            const neap_attr *attrs)
{
    if (net->status != NEAP_OK)
        return NULL;
    neap_status status = NEAP_RESERVE(net->allocator, net->n_nodes + 1, &net->nodes,
                                      &net->node_capacity, &net->diag);
    net_node node = {.def = def,
                     .name = name,
                     .pass = pass,
                     .inside_layer = net->in_layer && pass == NEAP_FORWARD,
                     .n_inputs = n_inputs,
                     .inputs = neap_arena_copy(&net->arena, inputs, n_inputs, sizeof *inputs),
                     .n_attrs = n_attrs,
                     .attrs = neap_arena_copy(&net->arena, attrs, n_attrs, sizeof *attrs),
                     .outputs = neap_arena_alloc(&net->arena, OP_VIEW_LIMIT, sizeof *node.outputs)};
    if (status != NEAP_OK || !node.inputs || !node.attrs || !node.outputs) {
        neap_net_fail_no_memory(net);
        return NULL;
    }
    net->nodes[net->n_nodes] = node;
    return &net->nodes[net->n_nodes++];
}

static bool any_needs_grad(const neap_network *net, const net_node *node)
{
    for (uint32_t i = 0; i < node->n_inputs; i++)
        if (net->tensors[node->inputs[i]].needs_grad)
            return true;
    return false;
}

/* Lists start with OP_VIEW_LIMIT entries and double when full. */
static bool make_room_for_output(neap_network *net, net_node *node)
{
    uint32_t count = node->n_outputs;
    if (count < OP_VIEW_LIMIT || (count & (count - 1)) != 0)
        return true;
    neap_tensor *longer = neap_arena_alloc(&net->arena, (size_t)count * 2, sizeof *longer);
    if (!longer) {
        neap_net_fail_no_memory(net);
        return false;
    }
    memcpy(longer, node->outputs, count * sizeof *longer);
    node->outputs = longer;
    return true;
}

bool neap_net_can_reshape(const neap_network *net, neap_tensor x, uint32_t rank,
                          const int64_t *shape)
{
    const net_tensor *from = &net->tensors[x];
    int64_t strides[NEAP_MAX_RANK];
    return neap_strides_reshape(from->rank, from->shape, from->strides, rank, shape, strides);
}

/* A part of a tensor has the strides of the whole; another shape has others, if any. */
static void make_view(neap_network *net, const net_node *node, net_tensor *view)
{
    const net_tensor *of = &net->tensors[node->inputs[0]];
    view->view_of = node->inputs[0];
    if (strcmp(node->def->type, "reshape") != 0)
        memcpy(view->strides, of->strides, sizeof view->strides);
    else
        neap_strides_reshape(of->rank, of->shape, of->strides, view->rank, view->shape,
                             view->strides);
}

neap_tensor neap_net_new_node_output(neap_network *net, net_node *node, const char *name,
                                     const char *kind, neap_dtype dtype, uint32_t rank,
                                     const int64_t *shape)
{
    neap_tensor output = neap_net_new_tensor(net, name, kind, dtype, rank, shape);
    if (output == NEAP_NONE)
        return NEAP_NONE;
    net_tensor *tensor = &net->tensors[output];
    if (node->def->view)
        make_view(net, node, tensor);
    tensor->needs_grad = node->pass == NEAP_FORWARD && node->def->backward && is_float(dtype) &&
                         any_needs_grad(net, node);
    if (!make_room_for_output(net, node))
        return NEAP_NONE;
    node->outputs[node->n_outputs++] = output;
    return output;
}

neap_tensor neap_net_add_node(neap_network *net, const net_call *call, neap_dtype dtype,
                              uint32_t rank, const int64_t *shape)
{
    for (uint32_t i = 0; i < call->n_inputs; i++)
        if (!neap_net_get(net, call->name, call->inputs[i]))
            return NEAP_NONE;
    const char *name = neap_net_full_name(net, call->name, NULL);
    net_node *node = neap_net_new_node(net, call->def, name, NEAP_FORWARD, call->n_inputs,
                                       call->inputs, call->n_attrs, call->attrs);
    return node
               ? neap_net_new_node_output(net, node, name, NEAP_KIND_ACTIVATION, dtype, rank, shape)
               : NEAP_NONE;
}

/* Operands of a call, as forms ask for them. */
typedef struct call_operands {
    const neap_network *net;
    const net_call *call;
} call_operands;

static op_shape operand_at(const void *from, uint32_t i)
{
    const call_operands *o = from;
    bool input = i < o->call->n_inputs;
    const net_tensor *tensor = &o->net->tensors[o->call->inputs[input ? i : 0]];
    op_shape x = {.dtype = tensor->dtype, .rank = input ? tensor->rank : o->call->rank};
    memcpy(x.shape, input ? tensor->shape : o->call->shape, x.rank * sizeof *x.shape);
    return x;
}

neap_tensor neap_net_add_op(neap_network *net, const net_call *call)
{
    for (uint32_t i = 0; i < call->n_inputs; i++)
        if (!neap_net_get(net, call->name, call->inputs[i]))
            return NEAP_NONE;
    op_made made[OP_VIEW_LIMIT];
    uint32_t count;
    char why[NEAP_DIAG_CAPACITY];
    if (call->rank > NEAP_MAX_RANK)
        return neap_net_fail(net, call->name, "a tensor has 1 to %d dimensions", NEAP_MAX_RANK);
    neap_op op = {.type = call->def->type,
                  .n_inputs = call->n_inputs,
                  .n_outputs = call->rank > 0,
                  .n_attrs = call->n_attrs,
                  .attrs = call->attrs,
                  .random = true};
    op_operands operands = {&op, operand_at, &(call_operands){net, call}};
    if (!neap_op_infer(&operands, made, OP_VIEW_LIMIT, &count, why, sizeof why))
        return neap_net_fail(net, call->name, "%s", why);
    neap_tensor first = NEAP_NONE;
    for (uint32_t i = 0; i < count; i++) {
        const op_shape *x = &made[i].shape;
        neap_dtype dtype = made[i].net ? net->dtype : made[i].places ? call->places : x->dtype;
        char name[32];
        snprintf(name, sizeof name, "%.*s", made[i].length, made[i].name);
        if (i == 0)
            first = neap_net_add_node(net, call, dtype, x->rank, x->shape);
        else
            neap_net_add_output(net, name, dtype, x->rank, x->shape);
    }
    return net->status == NEAP_OK ? first : NEAP_NONE;
}

neap_tensor neap_net_add_output(neap_network *net, const char *suffix, neap_dtype dtype,
                                uint32_t rank, const int64_t *shape)
{
    if (net->status != NEAP_OK)
        return NEAP_NONE;
    net_node *node = &net->nodes[net->n_nodes - 1];
    size_t length = strlen(node->name), tail = strlen(suffix);
    char *name = neap_arena_alloc(&net->arena, length + tail + 2, 1);
    if (!name) {
        neap_net_fail_no_memory(net);
        return NEAP_NONE;
    }
    memcpy(name, node->name, length);
    name[length] = '.';
    memcpy(name + length + 1, suffix, tail);
    return neap_net_new_node_output(net, node, name, NEAP_KIND_ACTIVATION, dtype, rank, shape);
}
