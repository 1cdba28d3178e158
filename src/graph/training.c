/* neap_network_finish: from the network's tensors and nodes to the training graph. */
#include "base/fail.h"
#include "base/memory.h"
#include "graph/network_internal.h"

#include <string.h>

void neap_training_init(neap_training *training)
{
    *training = (neap_training){
        .momentum = 0.9, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8, .accumulate = 1};
}

static int64_t tensor_bytes(const net_tensor *tensor)
{
    int64_t bytes = neap_dtype_bytes(tensor->dtype);
    for (uint32_t d = 0; d < tensor->rank; d++)
        bytes *= tensor->shape[d]; /* checked when the tensor was made */
    return bytes;
}

static bool is_parameter(const net_tensor *tensor)
{
    return strcmp(tensor->kind, NEAP_KIND_PARAMETER) == 0;
}

static neap_status add_values(const neap_network *net, neap_graph_builder *builder, neap_diag *diag)
{
    neap_status status = NEAP_OK;
    for (size_t t = 0; t < net->n_tensors && status == NEAP_OK; t++) {
        const net_tensor *tensor = &net->tensors[t];
        neap_value_desc value;
        neap_value_desc_init(&value);
        value.name = tensor->name;
        value.kind = tensor->kind;
        value.view_of = tensor->view_of;
        value.bytes = tensor->view_of == NEAP_NONE ? tensor_bytes(tensor) : 0;
        value.dtype = tensor->dtype;
        value.rank = tensor->rank;
        value.shape = tensor->shape;
        status = neap_graph_builder_add_value(builder, &value, NULL, diag);
    }
    return status;
}

/* Attention draws random numbers only with a dropout. */
static bool draws_numbers(const net_node *node)
{
    neap_op attributes = {.n_attrs = node->n_attrs, .attrs = node->attrs};
    return node->def->random && neap_op_attr_real(&attributes, "dropout", 1) > 0;
}

static neap_status add_ops(const neap_network *net, neap_graph_builder *builder, neap_diag *diag)
{
    neap_status status = NEAP_OK;
    for (size_t n = 0; n < net->n_nodes && status == NEAP_OK; n++) {
        const net_node *node = &net->nodes[n];
        neap_op_desc op;
        neap_op_desc_init(&op);
        op.name = node->name;
        op.type = node->def->type;
        op.pass = node->pass;
        op.n_inputs = node->n_inputs;
        op.inputs = node->inputs;
        op.n_outputs = node->n_outputs;
        op.outputs = node->outputs;
        op.n_attrs = node->n_attrs;
        op.attrs = node->attrs;
        op.random = draws_numbers(node);
        op.inside_layer = node->inside_layer;
        op.in_place_input = node->in_place_input;
        op.in_place_output = node->in_place_output;
        status = neap_graph_builder_add_op(builder, &op, NULL, diag);
    }
    return status;
}

/* The loss and every parameter's gradient. */
static neap_status add_outputs(const neap_network *net, neap_tensor loss,
                               neap_graph_builder *builder, neap_diag *diag)
{
    neap_status status = neap_graph_builder_add_output(builder, loss, diag);
    for (size_t t = 0; t < net->n_tensors && status == NEAP_OK; t++)
        if (is_parameter(&net->tensors[t]) && net->tensors[t].gradient != NEAP_NONE)
            status = neap_graph_builder_add_output(builder, net->tensors[t].gradient, diag);
    return status;
}

/* Without updates. */
static neap_status build(const neap_network *net, neap_tensor loss, neap_graph **graph,
                         neap_diag *diag)
{
    neap_graph_builder *builder;
    neap_status status = neap_graph_builder_create(net->allocator, net->name, &builder, diag);
    if (status != NEAP_OK)
        return status;
    status = add_values(net, builder, diag);
    if (status == NEAP_OK)
        status = add_ops(net, builder, diag);
    if (status == NEAP_OK)
        status = add_outputs(net, loss, builder, diag);
    if (status == NEAP_OK)
        status = neap_graph_builder_finish(builder, graph, diag);
    neap_graph_builder_destroy(builder);
    if (status == NEAP_OK)
        neap_graph_count_ops(*graph, 0);
    return status;
}

/* What each op of the graph keeps, for neap_graph_add_all_updates: an op is a node. */
static neap_status add_updates(const neap_network *net, const neap_training *training,
                               neap_graph **graph, neap_diag *diag)
{
    neap_graph *plain = *graph;
    const net_statistics **statistics = NULL;
    *graph = NULL;
    neap_status status = NEAP_NEW(net->allocator, net->n_nodes, &statistics, diag);
    for (size_t n = 0; n < net->n_nodes && status == NEAP_OK; n++)
        statistics[n] = net->nodes[n].statistics;
    if (status == NEAP_OK)
        status = neap_graph_add_all_updates(plain, training, statistics, graph, diag);
    NEAP_DELETE(net->allocator, net->n_nodes, statistics);
    neap_graph_destroy(plain);
    return status;
}

neap_status neap_network_finish(neap_network *net, neap_tensor loss, const neap_training *training,
                                neap_graph **graph, neap_diag *diag)
{
    neap_training defaults;
    neap_training_init(&defaults);
    if (!training)
        training = &defaults;
    *graph = NULL;
    if (net->status == NEAP_OK && loss >= net->n_tensors)
        neap_network_fail(net, "the loss is a tensor that does not exist");
    if (net->n_scopes > 0)
        neap_network_fail(net, "scope \"%s\" is entered but not left", net->scope.text);
    if (net->status == NEAP_OK && !training->forward_only)
        neap_net_differentiate(net, loss);
    if (net->status != NEAP_OK)
        goto failed;

    neap_status status = neap_training_check(training, diag);
    if (status == NEAP_OK)
        status = neap_net_mark_in_place(net, loss, diag);
    if (status == NEAP_OK)
        status = build(net, loss, graph, diag);
    if (status != NEAP_OK || training->forward_only || training->optimizer == NEAP_OPTIMIZER_NONE)
        return status;
    return add_updates(net, training, graph, diag);
failed:
    return neap_fail(diag, net->status, "%s", net->diag.message);
}
