/*
 * The importer: a model's graph on its way to a network.
 *
 *     graph.c       names become numbers; what the outputs need; sizes of open dimensions
 *     infer.c       types and shapes of all values, and the values that depend on shapes alone
 *     training_marks.c   random masks, folded normalizations
 *     fuse_*.c      compositions of nodes become one node that neap has an op for
 *     ties.c        weights that an exporter wrote twice
 *     lower.c       nodes become layers of a neap_network, on views (view.h)
 *     ops_*.c       what each node type does in the passes; ops.def lists the types
 *     build.c       all of it, the loss, and the binding
 *
 * All memory is the importer's arena; all errors name the file and the node.
 */
#ifndef NEAP_ONNX_IMPORT_H
#define NEAP_ONNX_IMPORT_H

#include "onnx/constant.h"
#include "onnx/file.h"
#include "onnx/order.h"
#include "onnx/view.h"

typedef struct onnx_import onnx_import;
typedef struct onnx_node onnx_node;

/* What the passes do with a node type. */
typedef struct onnx_op {
    const char *type, *domain;
    /* Sets types and shapes of the outputs; all inputs are known. */
    neap_status (*infer)(onnx_import *im, const onnx_node *node);
    /* Computes the outputs, which infer has described, where all inputs are constants. NULL: never
       done. */
    neap_status (*fold)(onnx_import *im, const onnx_node *node);
    /* Adds layers to the network. NULL: a node that exists only in constants. */
    neap_status (*lower)(onnx_import *im, const onnx_node *node);
} onnx_op;

struct onnx_node {
    const char *name, *type, *domain;
    const onnx_op *op; /* NULL: neap does not know it */
    uint32_t n_inputs, n_outputs;
    uint32_t *inputs;  /* values; NEAP_NONE where one is left out */
    uint32_t *outputs; /* values; NEAP_NONE where one is not named */
    const onnx_attribute *attributes;
    size_t n_attributes;
    const onnx_proto_node *call; /* of the function that it was in; NULL: it was in none */
    bool live;                   /* the loss needs it */
};

typedef struct onnx_value {
    const char *name;
    uint32_t node;        /* that computes it; NEAP_NONE: none */
    uint32_t input;       /* of the model; NEAP_NONE: it is none */
    uint32_t initializer; /* likewise */
    bool live;            /* the loss needs it */
    bool known;           /* `shape` is right */
    onnx_shape shape;
    onnx_constant *constant; /* NULL: not known before the network runs */
    bool trained;            /* a float initializer that may be a parameter, or computed from such
                                alone: never a constant */
    bool lowered;            /* `view` and perhaps `made` are right */
    onnx_view view;          /* of a tensor of the network */
    neap_tensor made;        /* the value as a tensor of its own shape; NEAP_NONE until needed */
} onnx_value;

/* A parameter of the network, or running statistics: an initializer, its elements perhaps in
   another order. */
typedef struct onnx_parameter {
    uint32_t initializer;
    const char *name;
    neap_tensor tensor;
    onnx_view layout;    /* of the initializer's elements */
    int64_t gate_groups; /* groups of an LSTM's four gates, i o f c in the file, i f c o here, that
                            its elements are; 0: it has no gates */
    bool running;        /* statistics that steps advance, which are no tensor of the network: */
    uint32_t partner;    /* the variance of a mean, the mean of a variance (initializers) */
    double momentum, epsilon;
} onnx_parameter;

/* An initializer that is another one, written twice. */
typedef struct onnx_tie {
    uint32_t to; /* the other; NEAP_NONE: it is none */
    bool turned; /* its rows are the other's columns */
} onnx_tie;

/* An input of the network whose contents are known. */
typedef struct onnx_fixed_input {
    const char *name;
    const onnx_constant *constant;
} onnx_fixed_input;

struct onnx_import {
    neap_allocator *allocator;
    neap_arena *arena;
    const neap_onnx *file;
    const onnx_proto *proto;
    const char *source;
    const neap_onnx_options *options;
    neap_diag *diag;
    onnx_node *nodes;
    size_t n_nodes, node_capacity;
    onnx_value *values;
    size_t n_values, value_capacity;
    uint32_t *by_name; /* a hash table of values; NEAP_NONE: free */
    size_t n_slots;
    int64_t constant_elements; /* computed so far */
    int64_t batch;             /* the extent of the batch dimension; 0: there is none */
    uint32_t output;           /* the value that the loss is put on */
    neap_network *net;
    onnx_parameter *parameters; /* in the binding's arena, like all that follows */
    size_t n_parameters, parameter_capacity;
    uint32_t *parameter_of; /* of each initializer; NEAP_NONE: none yet */
    onnx_tie *ties;         /* of each initializer */
    onnx_fixed_input *fixed;
    size_t n_fixed, fixed_capacity;
    const char **notes;
    size_t n_notes, note_capacity;
    uint32_t batch_norms[2]; /* trained with the batch's statistics, frozen */
    uint32_t running_norms;  /* of the former, those that advance the statistics of the file */
    uint32_t stale_norms;    /* and those that should, but cannot */
    uint32_t dropouts[2];    /* that do nothing, that drop */
};

/* ---- Errors and notes ---- */

/* NEAP_INVALID with "<file>: node "<name>" (<type>): ...", and what called its function. */
neap_status neap_onnx_fail(const onnx_import *im, const onnx_node *node, const char *format, ...)
    NEAP_PRINTF(3, 4);
/* The same with NEAP_UNSUPPORTED. */
neap_status neap_onnx_fail_unsupported(const onnx_import *im, const onnx_node *node,
                                       const char *format, ...) NEAP_PRINTF(3, 4);
neap_status neap_onnx_note(onnx_import *im, const char *format, ...) NEAP_PRINTF(2, 3);

/* ---- Nodes ---- */

const onnx_op *neap_onnx_op_find(const char *type, const char *domain);

/* The value of an input; NULL where it is left out. */
onnx_value *neap_onnx_input(const onnx_import *im, const onnx_node *node, uint32_t i);
/* NULL where the output is not named. */
onnx_value *neap_onnx_output(const onnx_import *im, const onnx_node *node, uint32_t i);
/* The constant that an input is; NULL where it is left out or not constant. */
const onnx_constant *neap_onnx_input_constant(const onnx_import *im, const onnx_node *node,
                                              uint32_t i);

const onnx_attribute *neap_onnx_attribute(const onnx_node *node, const char *name);
int64_t neap_onnx_int(const onnx_node *node, const char *name, int64_t otherwise);
double neap_onnx_real(const onnx_node *node, const char *name, double otherwise);
const char *neap_onnx_string(const onnx_node *node, const char *name, const char *otherwise);
/* *count is 0 and the result NULL where there is none. */
const int64_t *neap_onnx_ints(const onnx_node *node, const char *name, size_t *count);
/* An axis that may be negative. NEAP_INVALID if it is none of `rank` dimensions. */
neap_status neap_onnx_axis(const onnx_import *im, const onnx_node *node, int64_t axis,
                           uint32_t rank, uint32_t *result);

/*
 * Axes as a bit each, from input `input` or the attribute "axes". *given is false where the node
 * has neither.
 */
neap_status neap_onnx_axes(const onnx_import *im, const onnx_node *node, uint32_t input,
                           uint32_t rank, uint32_t *axes, bool *given);
/* The integers of a constant input. NEAP_UNSUPPORTED if it is not constant. *count 0: left out. */
neap_status neap_onnx_integers(const onnx_import *im, const onnx_node *node, uint32_t input,
                               const int64_t **integers, size_t *count);

/* ---- graph.c ---- */

neap_status neap_onnx_graph_build(onnx_import *im);
/* Marks what the value needs, except for what constants were computed from. */
neap_status neap_onnx_graph_mark(onnx_import *im, uint32_t output);
/* The value of this name, or NEAP_NONE. */
uint32_t neap_onnx_graph_find(const onnx_import *im, const char *name);
neap_status neap_onnx_value_new(onnx_import *im, const char *name, uint32_t *id);

/* ---- training_marks.c ---- */

/* Multiplications by random masks of samples become identities; a note says how many. */
neap_status neap_onnx_remove_masks(onnx_import *im);
/* Floats of the file that no one trains: first states of zeros, what masks are compared from. */
neap_status neap_onnx_find_buffers(onnx_import *im);
/* Parameters that the options freeze become constants. */
neap_status neap_onnx_freeze(onnx_import *im);
/* Notes that convolutions seem to contain batch normalizations, after lowering. */
neap_status neap_onnx_note_folded(onnx_import *im);

/* ---- infer.c ---- */

neap_status neap_onnx_infer(onnx_import *im);
/* Sets the shape of an output. NEAP_INVALID for an extent that is negative, or sizes that overflow.
 */
neap_status neap_onnx_set_shape(onnx_import *im, const onnx_node *node, uint32_t output,
                                const onnx_shape *shape);
/* The largest constant that is computed, in elements. */
#define ONNX_MOST_CONSTANT ((int64_t)1 << 26)
/* All that are computed together. */
#define ONNX_MOST_CONSTANTS ((int64_t)1 << 28)

/* A zeroed constant of the output's shape. */
neap_status neap_onnx_new_constant(onnx_import *im, const onnx_node *node, uint32_t output,
                                   onnx_constant **constant);

/* ---- fuse_*.c ---- */

neap_status neap_onnx_fuse(onnx_import *im);

/* ---- ties.c ---- */

/* Finds the weights that the file has twice; notes say which. */
neap_status neap_onnx_find_ties(onnx_import *im);

/* ---- lower.c ---- */

neap_status neap_onnx_lower(onnx_import *im);
/* The value as a tensor of its own shape (one number is rank 1). */
neap_status neap_onnx_tensor(onnx_import *im, const onnx_node *node, uint32_t value,
                             neap_tensor *tensor);
/* The value as a view of some tensor. */
neap_status neap_onnx_view(onnx_import *im, const onnx_node *node, uint32_t value,
                           const onnx_view **view);
/* A parameter with the elements of the value in row-major order and this shape. NEAP_UNSUPPORTED
   for a value that does not come from an initializer. */
neap_status neap_onnx_weight(onnx_import *im, const onnx_node *node, uint32_t value,
                             const onnx_view *view, uint32_t rank, const int64_t *shape,
                             neap_tensor *tensor);
/* Says what an output is. */
void neap_onnx_set_tensor(onnx_import *im, const onnx_node *node, uint32_t output,
                          neap_tensor tensor);
void neap_onnx_set_view(onnx_import *im, const onnx_node *node, uint32_t output,
                        const onnx_view *view);
/* An input with the elements of a constant, of the network's type if they are floats. */
neap_status neap_onnx_fixed(onnx_import *im, const onnx_constant *constant, const char *name,
                            uint32_t rank, const int64_t *shape, neap_tensor *tensor);
/* A view as a tensor of this shape. */
neap_tensor neap_onnx_materialize(onnx_import *im, const char *name, const onnx_view *view,
                                  uint32_t rank, const int64_t *shape);
/* The error of the network, if it has failed. */
neap_status neap_onnx_check_net(onnx_import *im, const onnx_node *node);

/* ---- fill.c ---- */

/* The place in the initializer of each element of a parameter, one after another. */
typedef struct onnx_walk {
    onnx_order order;
    int64_t gate; /* elements of a gate; 0: there are none */
    int64_t next; /* element of the parameter */
    const onnx_view *layout;
} onnx_walk;

void neap_onnx_walk_begin(onnx_walk *walk, const onnx_parameter *parameter);
int64_t neap_onnx_walk_next(onnx_walk *walk);

/* ---- build.c ---- */

struct neap_onnx_binding {
    neap_allocator *allocator;
    neap_arena arena;
    const neap_onnx *file;
    onnx_parameter *parameters;
    size_t n_parameters;
    const onnx_tie *ties; /* of each initializer */
    onnx_fixed_input *fixed;
    size_t n_fixed;
    const char **notes;
    size_t n_notes;
};

#endif
