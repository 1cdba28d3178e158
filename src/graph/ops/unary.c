/* The op types of graph/unary.def: layers, backward ops and definitions. */
#include "graph/network_internal.h"

static neap_tensor add_unary(neap_network *net, const op_def *def, const char *name, neap_tensor x,
                             uint32_t n_attrs, const neap_attr *attrs)
{
    net_call call = {
        .def = def, .name = name, .n_inputs = 1, .inputs = &x, .n_attrs = n_attrs, .attrs = attrs};
    return neap_net_add_op(net, &call);
}

static void emit_unary(neap_network *net, const net_node *node, const char *type, neap_tensor reads)
{
    neap_grad_emit(net, node, type, 2, (neap_tensor[]){neap_grad_of(net, node, 0), reads}, 1,
                   node->inputs);
}

#define READ_x(node) (node)->inputs[0]
#define READ_y(node) (node)->outputs[0]

#define DEFINE(name, needs, flops, bw_flops, reads)                                                \
    static void name##_backward(neap_network *net, const net_node *node)                           \
    {                                                                                              \
        emit_unary(net, node, #name "_bw", READ_##reads(node));                                    \
    }                                                                                              \
    const op_def neap_op_##name = {.type = #name,                                                  \
                                   .form = "x[*S] -> y[*S]",                                       \
                                   .attrs = needs,                                                 \
                                   .in_place = 1,                                                  \
                                   .flops_per_element = (flops),                                   \
                                   .backward = name##_backward};                                   \
    const op_def neap_op_##name##_bw = {.type = #name "_bw",                                       \
                                        .form = "dy[*S] " #reads "[*S] -> dx[*S]",                 \
                                        .attrs = needs,                                            \
                                        .in_place = 3,                                             \
                                        .flops_per_element = (bw_flops)};

#define LAYER_0(name)                                                                              \
    neap_tensor neap_net_##name(neap_network *net, const char *layer, neap_tensor x)               \
    {                                                                                              \
        return add_unary(net, &neap_op_##name, layer, x, 0, NULL);                                 \
    }

#define UNARY_0(name, flops, bw_flops, reads, forward, slope)                                      \
    DEFINE(name, NULL, flops, bw_flops, reads)                                                     \
    LAYER_0(name)

#define UNARY_1(name, a, flops, bw_flops, reads, forward, slope)                                   \
    DEFINE(name, #a "~", flops, bw_flops, reads)                                                   \
    neap_tensor neap_net_##name(neap_network *net, const char *layer, neap_tensor x, double a)     \
    {                                                                                              \
        return add_unary(net, &neap_op_##name, layer, x, 1, &ATTR_REAL(#a, a));                    \
    }

#define UNARY_2(name, a, b, flops, bw_flops, reads, forward, slope)                                \
    DEFINE(name, #a "~ " #b "~", flops, bw_flops, reads)                                           \
    neap_tensor neap_net_##name(neap_network *net, const char *layer, neap_tensor x, double a,     \
                                double b)                                                          \
    {                                                                                              \
        neap_attr attrs[] = {ATTR_REAL(#a, a), ATTR_REAL(#b, b)};                                  \
        return add_unary(net, &neap_op_##name, layer, x, 2, attrs);                                \
    }

#define FLAT_0(name, flops, forward)                                                               \
    const op_def neap_op_##name = {                                                                \
        .type = #name, .form = "x[*S] -> y[*S]", .in_place = 1, .flops_per_element = (flops)};     \
    LAYER_0(name)

#include "graph/unary.def"
