/*
 * The definition of neap_network and of op types.
 *
 * A network is a list of tensors and a list of nodes, first those of the forward pass as the caller
 * defines them, then those that autodiff appends. An op type is an op_def, one line in ops.def, and
 * lives with its layer function in a file of src/graph/ops/ (docs/adding-an-op.md).
 */
#ifndef NEAP_NETWORK_INTERNAL_H
#define NEAP_NETWORK_INTERNAL_H

#include "base/arena.h"
#include "graph/graph_internal.h"
#include "graph/op_form.h"

#include <neap/network.h>
#include <neap/text.h>

/* ---- Op types ---- */

#define OP_VIEW_LIMIT 8 /* operands whose shapes a count looks at; ops may have more */

/* An op as its counting sees it: shapes and attributes alone. */
typedef struct op_shapes {
    op_shape inputs[OP_VIEW_LIMIT], outputs[OP_VIEW_LIMIT];
    uint32_t n_inputs, n_outputs; /* as many as are filled in */
    int64_t in_elements;          /* of all inputs together */
    const neap_op *op;            /* for its attributes */
} op_shapes;

typedef struct net_node net_node;
typedef struct op_def op_def;

struct op_def {
    const char *type;
    const char *form;  /* its operands, as op_form.h says */
    const char *attrs; /* the attributes it needs, likewise; NULL: none */
    /* What the form does not say: how extents follow from attributes and from each other. NULL:
     * nothing. */
    void (*rule)(op_fit *fit);
    bool view;   /* its outputs live on the storage of input 0; moves no bytes, takes no time */
    bool random; /* a recomputation must replay its random state */
    /* Inputs, one bit each, whose storage output number in_place_output may take over: every
       backend's kernels are right if the two are the same array. 0: none. */
    uint32_t in_place;
    uint32_t in_place_output;
    int64_t flops_per_element; /* of output 0; for types without a count */
    /* Adds macs and flops (not the bytes, unless it replaces them). NULL: flops_per_element only.
     */
    void (*count)(const op_shapes *shapes, neap_op_count *count);
    /* Emits the backward ops of a node. NULL: not differentiable. */
    void (*backward)(neap_network *net, const net_node *node);
};

/* By name; NULL where neap has none such. */
const op_def *neap_op_def_find(const char *type);
/* All types, in the order of ops.def. */
const op_def *neap_op_def_at(size_t index, size_t *count);
/* The place of a type in ops.def; the number of types where neap has none such. */
size_t neap_op_def_index(const char *type);

/* Products that stop at INT64_MAX instead of overflowing. */
int64_t neap_count_mul(int64_t a, int64_t b);
int64_t neap_count_add(int64_t a, int64_t b);
int64_t neap_count_elements(const op_shape *shape);

/* ---- The network ---- */

typedef struct net_tensor {
    const char *name;
    const char *kind;
    neap_dtype dtype;
    uint32_t rank;
    int64_t shape[NEAP_MAX_RANK];
    int64_t strides[NEAP_MAX_RANK]; /* in its storage, if that is row-major */
    neap_tensor view_of;
    bool needs_grad;      /* a parameter, or depends on one */
    neap_tensor gradient; /* so far; NEAP_NONE while there is none */
    uint32_t n_gradients; /* that were summed into it */
} net_tensor;

/* Running statistics that a batch normalisation advances in a step with an optimizer. */
typedef struct net_statistics {
    const char *mean, *variance; /* full names */
    int64_t channels;
    double momentum, epsilon;
} net_statistics;

struct net_node {
    const op_def *def;
    const char *name;
    const char
        *origin; /* of a backward node: the name of the forward node it comes from; NULL for sums */
    neap_pass pass;
    bool inside_layer; /* the next node belongs to the same layer */
    uint32_t n_inputs, n_outputs, n_attrs;
    neap_tensor *inputs, *outputs;
    neap_attr *attrs;
    neap_tensor in_place_input, in_place_output; /* set by neap_net_mark_in_place */
    const net_statistics *statistics;            /* NULL: none are kept */
};

struct neap_network {
    neap_allocator *allocator;
    neap_arena arena;
    const char *name;
    neap_dtype dtype;
    neap_kernels kernels;
    bool differentiated; /* by neap_network_finish, once */
    neap_status status;  /* sticky */
    neap_diag diag;
    neap_text scope; /* "a.b." */
    size_t *scope_lengths;
    size_t n_scopes, scope_capacity;
    bool in_layer; /* between neap_net_begin_layer and neap_net_end_layer */
    net_tensor *tensors;
    size_t n_tensors, tensor_capacity;
    net_node *nodes;
    size_t n_nodes, node_capacity;
};

/* ---- For layer functions ---- */

/*
 * A tensor of the network, or NULL after an error: then the layer returns NEAP_NONE. One that does
 * not exist is such an error, of the layer named.
 */
const net_tensor *neap_net_get(neap_network *net, const char *layer, neap_tensor x);
/* Fails the network with "layer "scope.name": ...". Always returns NEAP_NONE. */
neap_tensor neap_net_fail(neap_network *net, const char *layer, const char *format, ...)
    NEAP_PRINTF(3, 4);

/* What a node is made of. Lists are copied. */
typedef struct net_call {
    const op_def *def;
    const char *name; /* of the layer, without the scope */
    uint32_t n_inputs;
    const neap_tensor *inputs;
    uint32_t n_attrs;
    const neap_attr *attrs;
    neap_dtype places; /* type of an output of indices */
    uint32_t rank;     /* and shape of the first output where the form does not give it; or 0 */
    const int64_t *shape;
} net_call;

/*
 * Appends a forward node with the outputs that follow from the form of its type, or fails with what
 * does not fit. The first is named like the layer, others "<layer>.<name in the form>"; their ids
 * follow each other. Returns the first, or NEAP_NONE.
 */
neap_tensor neap_net_add_op(neap_network *net, const net_call *call);
/*
 * The same where the caller chooses the shape of the first output.
 * More outputs are added with neap_net_add_output, named "<layer>.<suffix>". Returns the output, or
 * NEAP_NONE.
 */
neap_tensor neap_net_add_node(neap_network *net, const net_call *call, neap_dtype dtype,
                              uint32_t rank, const int64_t *shape);
neap_tensor neap_net_add_output(neap_network *net, const char *suffix, neap_dtype dtype,
                                uint32_t rank, const int64_t *shape);
/* Whether a tensor with this shape can be a view of x. */
bool neap_net_can_reshape(const neap_network *net, neap_tensor x, uint32_t rank,
                          const int64_t *shape);
/* "<scope><layer>.<suffix>", or without the suffix if that is NULL. */
const char *neap_net_full_name(neap_network *net, const char *layer, const char *suffix);
/* "<layer>.<suffix>" as a parameter. */
neap_tensor neap_net_add_parameter(neap_network *net, const char *layer, const char *suffix,
                                   uint32_t rank, const int64_t *shape);

#define ATTR_INT(key, value)  ((neap_attr){.name = (key), .integer = (value)})
#define ATTR_REAL(key, value) ((neap_attr){.name = (key), .is_real = true, .real = (value)})

/* ---- For backward functions ---- */

/* The gradient of an output of the node; NEAP_NONE if the loss does not depend on it. */
neap_tensor neap_grad_of(const neap_network *net, const net_node *node, uint32_t output);
bool neap_grad_wanted(const neap_network *net, neap_tensor x);
/*
 * Appends the backward op `type` (named "<node>.<type>"), which reads `inputs` and produces a
 * gradient for each of `targets` (those for which neap_grad_wanted is false are left out); the
 * node's attributes come along. Each gradient is added to its target's. Nothing happens if no
 * target wants one.
 */
void neap_grad_emit(neap_network *net, const net_node *node, const char *type, uint32_t n_inputs,
                    const neap_tensor *inputs, uint32_t n_targets, const neap_tensor *targets);
/* The same for an op that reads only the gradient of the node's result: that of its input. */
void neap_grad_emit_unary(neap_network *net, const net_node *node, const char *type);
/* neap_grad_emit for kernels that always make the gradients of the targets from number `always` on:
   those that no one wants are values that no op reads. */
void neap_grad_emit_all(neap_network *net, const net_node *node, const char *type,
                        uint32_t n_inputs, const neap_tensor *inputs, uint32_t n_targets,
                        const neap_tensor *targets, uint32_t always);
/* neap_grad_emit with other attributes than the node's, for one target. */
void neap_grad_emit_with(neap_network *net, const net_node *node, const char *type,
                         uint32_t n_inputs, const neap_tensor *inputs, neap_tensor target,
                         uint32_t n_attrs, const neap_attr *attrs);
/* A gradient that is not a tensor's own: an intermediate of the shape of `like`. */
neap_tensor neap_grad_emit_inner(neap_network *net, const net_node *node, const char *type,
                                 uint32_t n_inputs, const neap_tensor *inputs, neap_tensor like,
                                 uint32_t n_attrs, const neap_attr *attrs);
/* Hands an existing gradient on, unchanged (additions). */
void neap_grad_give(neap_network *net, neap_tensor target, neap_tensor gradient);

/* ---- Underneath both ---- */

void neap_net_fail_no_memory(neap_network *net);
/* A tensor by its full name; NEAP_NONE after an error, as for a size that overflows. */
neap_tensor neap_net_new_tensor(neap_network *net, const char *name, const char *kind,
                                neap_dtype dtype, uint32_t rank, const int64_t *shape);
/* A node without outputs; NULL after an error. Valid until the next node is made. */
net_node *neap_net_new_node(neap_network *net, const op_def *def, const char *name, neap_pass pass,
                            uint32_t n_inputs, const neap_tensor *inputs, uint32_t n_attrs,
                            const neap_attr *attrs);
neap_tensor neap_net_new_node_output(neap_network *net, net_node *node, const char *name,
                                     const char *kind, neap_dtype dtype, uint32_t rank,
                                     const int64_t *shape);

/*
 * neap_graph_add_updates with running statistics. `statistics` has an entry for each op of the
 * graph, NULL for those that keep none, the same for those that share them; it may be NULL itself.
 */
neap_status neap_graph_add_all_updates(const neap_graph *graph, const neap_training *training,
                                       const net_statistics *const *statistics, neap_graph **result,
                                       neap_diag *diag);
/* Sets the FLOPs and bytes of the ops from `first` on, as far as their types say. */
void neap_graph_count_ops(neap_graph *graph, uint32_t first);
/* Appends the backward pass. */
void neap_net_differentiate(neap_network *net, neap_tensor loss);
/* Chooses for every node, once all are there, which of its inputs it may write its result over. */
neap_status neap_net_mark_in_place(neap_network *net, neap_tensor loss, neap_diag *diag);

#endif
