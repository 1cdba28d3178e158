/*
 * Autodiff: walks the forward nodes backwards; each op type emits its backward ops. A
 * tensor's gradient is the sum of what its readers give, added up as they come.
 */
#include "graph/network_internal.h"

#include <stdio.h>
#include <string.h>

static const char *joined(neap_network *net, const char *a, const char *b, uint32_t number)
{
    char digits[16] = "";
    if (number)
        snprintf(digits, sizeof digits, ".%u", number);
    size_t first = strlen(a), second = strlen(b), third = strlen(digits);
    char *name = neap_arena_alloc(&net->arena, first + second + third + 1, 1);
    if (!name) {
        neap_net_fail_no_memory(net);
        return "";
    }
    memcpy(name, a, first);
    memcpy(name + first, b, second);
    memcpy(name + first + second, digits, third);
    return name;
}

neap_tensor neap_grad_of(const neap_network *net, const net_node *node, uint32_t output)
{
    return net->status == NEAP_OK && output < node->n_outputs
               ? net->tensors[node->outputs[output]].gradient
               : NEAP_NONE;
}

bool neap_grad_wanted(const neap_network *net, neap_tensor x)
{
    return net->status == NEAP_OK && x != NEAP_NONE && net->tensors[x].needs_grad;
}

/* How many ops of a type the node has emitted already; they are the last ones, but for sums in
 * between. */
static uint32_t count_emitted(const neap_network *net, const net_node *node, const op_def *def)
{
    uint32_t count = 0;
    for (size_t i = net->n_nodes; i-- > 0;) {
        const net_node *made = &net->nodes[i];
        if (made->pass == NEAP_FORWARD || (made->origin && made->origin != node->name))
            break;
        count += made->origin == node->name && made->def == def;
    }
    return count;
}

/* Backward ops are named after the forward op: "conv1" gives "conv1.bw_data"; a second one of a
 * type gets a number. */
static const char *backward_name(neap_network *net, const net_node *node, const op_def *def)
{
    size_t prefix = strlen(node->def->type);
    bool same = strncmp(def->type, node->def->type, prefix) == 0 && def->type[prefix] == '_';
    const char *dotted = joined(net, ".", same ? def->type + prefix + 1 : def->type, 0);
    return joined(net, node->name, dotted, count_emitted(net, node, def));
}

static void add_once(neap_tensor *list, uint32_t *n, neap_tensor x)
{
    for (uint32_t i = 0; i < *n; i++)
        if (list[i] == x)
            return;
    list[(*n)++] = x;
}

/* The values that a backward op reads, then all inputs and outputs of its layer. */
static const neap_tensor *whole_layer(neap_network *net, const net_node *node,
                                      const neap_tensor *inputs, uint32_t *n_inputs)
{
    uint32_t n = 0, most = *n_inputs + node->n_inputs + node->n_outputs;
    neap_tensor *list = neap_arena_alloc(&net->arena, most, sizeof *list);
    if (!list) {
        neap_net_fail_no_memory(net);
        return inputs;
    }
    for (; n < *n_inputs; n++)
        list[n] = inputs[n];
    for (uint32_t i = 0; i < node->n_inputs; i++)
        add_once(list, &n, node->inputs[i]);
    for (uint32_t i = 0; i < node->n_outputs; i++)
        add_once(list, &n, node->outputs[i]);
    *n_inputs = n;
    return list;
}

static net_node *emit(neap_network *net, const net_node *node, const char *type, uint32_t n_inputs,
                      const neap_tensor *inputs, uint32_t n_attrs, const neap_attr *attrs)
{
    const op_def *def = neap_op_def_find(type);
    if (net->kernels == NEAP_KERNELS_LAYER)
        inputs = whole_layer(net, node, inputs, &n_inputs);
    if (!def) {
        neap_network_fail(net, "no op type \"%s\"", type);
        return NULL;
    }
    net_node *made = neap_net_new_node(net, def, backward_name(net, node, def), NEAP_BACKWARD,
                                       n_inputs, inputs, n_attrs, attrs);
    if (made)
        made->origin = node->name;
    return made;
}

/* An output of the shape of `like`, named "<like>.grad", numbered from the second on. */
static neap_tensor emit_output(neap_network *net, net_node *made, neap_tensor like)
{
    net_tensor target = net->tensors[like];
    const char *name = joined(net, target.name, ".grad", target.n_gradients);
    net->tensors[like].n_gradients++;
    return neap_net_new_node_output(net, made, name, NEAP_KIND_GRADIENT, target.dtype, target.rank,
                                    target.shape);
}

void neap_grad_give(neap_network *net, neap_tensor target, neap_tensor gradient)
{
    if (!neap_grad_wanted(net, target) || gradient == NEAP_NONE)
        return;
    neap_tensor old = net->tensors[target].gradient;
    if (old == NEAP_NONE) {
        net->tensors[target].gradient = gradient;
        return;
    }
    net_node *sum = neap_net_new_node(
        net, neap_op_def_find("add"),
        joined(net, net->tensors[target].name, ".grad_sum", net->tensors[target].n_gradients),
        NEAP_BACKWARD, 2, (neap_tensor[]){old, gradient}, 0, NULL);
    neap_tensor total = sum ? emit_output(net, sum, target) : NEAP_NONE; /* moves the tensors */
    net->tensors[target].gradient = total;
}

void neap_grad_emit_all(neap_network *net, const net_node *node, const char *type,
                        uint32_t n_inputs, const neap_tensor *inputs, uint32_t n_targets,
                        const neap_tensor *targets, uint32_t always)
{
    net_node from = *node; /* the list of nodes moves as it grows */
    bool any = false;
    for (uint32_t i = 0; i < n_targets; i++)
        any = any || neap_grad_wanted(net, targets[i]);
    net_node *made =
        any ? emit(net, &from, type, n_inputs, inputs, from.n_attrs, from.attrs) : NULL;
    if (!made)
        return;
    neap_tensor gradients[OP_VIEW_LIMIT];
    for (uint32_t i = 0; i < n_targets; i++)
        gradients[i] = i >= always || neap_grad_wanted(net, targets[i])
                           ? emit_output(net, made, targets[i])
                           : NEAP_NONE;
    for (uint32_t i = 0; i < n_targets; i++)
        neap_grad_give(net, targets[i], gradients[i]);
}

void neap_grad_emit(neap_network *net, const net_node *node, const char *type, uint32_t n_inputs,
                    const neap_tensor *inputs, uint32_t n_targets, const neap_tensor *targets)
{
    neap_grad_emit_all(net, node, type, n_inputs, inputs, n_targets, targets, n_targets);
}

void neap_grad_emit_unary(neap_network *net, const net_node *node, const char *type)
{
    neap_tensor dy = neap_grad_of(net, node, 0);
    neap_grad_emit(net, node, type, 1, &dy, 1, node->inputs);
}

void neap_grad_emit_with(neap_network *net, const net_node *node, const char *type,
                         uint32_t n_inputs, const neap_tensor *inputs, neap_tensor target,
                         uint32_t n_attrs, const neap_attr *attrs)
{
    net_node from = *node;
    from.attrs = NULL;
    if (!neap_grad_wanted(net, target))
        return;
    net_node *made = emit(net, &from, type, n_inputs, inputs, n_attrs, attrs);
    if (made)
        neap_grad_give(net, target, emit_output(net, made, target));
}

neap_tensor neap_grad_emit_inner(neap_network *net, const net_node *node, const char *type,
                                 uint32_t n_inputs, const neap_tensor *inputs, neap_tensor like,
                                 uint32_t n_attrs, const neap_attr *attrs)
{
    net_node from = *node;
    net_node *made = emit(net, &from, type, n_inputs, inputs, n_attrs, attrs);
    return made ? emit_output(net, made, like) : NEAP_NONE;
}

void neap_net_differentiate(neap_network *net, neap_tensor loss)
{
    const net_tensor *scalar = &net->tensors[loss];
    if (net->differentiated) {
        neap_network_fail(net, "the network is finished already");
        return;
    }
    net->differentiated = true;
    if (scalar->rank != 1 || scalar->shape[0] != 1 || !scalar->needs_grad) {
        neap_network_fail(net, "the loss \"%s\" must be one number that depends on a parameter",
                          scalar->name);
        return;
    }
    neap_tensor seed = neap_net_new_tensor(net, joined(net, scalar->name, ".grad", 0),
                                           NEAP_KIND_INPUT, scalar->dtype, 1, (int64_t[]){1});
    if (seed == NEAP_NONE)
        return;
    net->tensors[loss].gradient = seed;
    for (size_t i = net->n_nodes; i-- > 0 && net->status == NEAP_OK;) {
        net_node node = net->nodes[i];
        bool reached = false;
        for (uint32_t o = 0; o < node.n_outputs; o++)
            reached = reached || net->tensors[node.outputs[o]].gradient != NEAP_NONE;
        if (reached && node.def->backward)
            node.def->backward(net, &node);
    }
    for (size_t t = 0; t < net->n_tensors && net->status == NEAP_OK; t++)
        if (strcmp(net->tensors[t].kind, NEAP_KIND_PARAMETER) == 0 &&
            net->tensors[t].gradient == NEAP_NONE)
            neap_network_fail(net, "the loss does not depend on parameter \"%s\"",
                              net->tensors[t].name);
}
