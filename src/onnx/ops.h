/*
 * Node types by subject. Each file has a table of the types it knows, ended by one without a name;
 * ops.c lists the tables. A type that is not in one is reported as not supported.
 */
#ifndef NEAP_ONNX_OPS_H
#define NEAP_ONNX_OPS_H

#include "onnx/import.h"

/* NEAP_INVALID unless the node has its first `count` inputs. */
neap_status neap_onnx_need(const onnx_import *im, const onnx_node *node, uint32_t count);
/* The first output is like the first input. */
neap_status neap_onnx_infer_same(onnx_import *im, const onnx_node *node);
/* The order of a Transpose's dimensions. */
neap_status neap_onnx_permutation(const onnx_import *im, const onnx_node *node, uint32_t rank,
                                  uint32_t perm[NEAP_MAX_RANK]);

extern const onnx_op neap_onnx_ops_view[], neap_onnx_ops_select[], neap_onnx_ops_constant[],
    neap_onnx_ops_elementwise[], neap_onnx_ops_conv[], neap_onnx_ops_norm[], neap_onnx_ops_linear[],
    neap_onnx_ops_reduce[], neap_onnx_ops_sequence[], neap_onnx_ops_attention[],
    neap_onnx_ops_unary[], neap_onnx_ops_lstm[], neap_onnx_ops_resize[], neap_onnx_ops_pool[],
    neap_onnx_ops_pick[], neap_onnx_ops_einsum[], neap_onnx_ops_attention_node[],
    neap_onnx_ops_gru[], neap_onnx_ops_loss[], neap_onnx_ops_composed[];

/* The value repeated up to a shape, by numpy's rule. */
neap_status neap_onnx_broadcast(onnx_import *im, const onnx_node *node, uint32_t value,
                                const onnx_shape *shape, neap_tensor *tensor);

/* The first input, a condition, as a mask whose shape is the end of `shape`. */
neap_status neap_onnx_condition(onnx_import *im, const onnx_node *node, const onnx_shape *shape,
                                neap_tensor *tensor);

/* A layer of one tensor that works on each element by itself. */
typedef neap_tensor onnx_layer(neap_network *net, const char *name, neap_tensor x,
                               const double *numbers);
/* Applies it to the root of the value's view; output 0 is seen through the same view. */
neap_status neap_onnx_lower_each(onnx_import *im, const onnx_node *node, uint32_t value,
                                 onnx_layer *layer, const double *numbers);

/* Indices along an axis: a struct that begins with this. */
typedef struct onnx_picks {
    int64_t count;
    int64_t (*place)(const struct onnx_picks *picks, int64_t i);
} onnx_picks;
/* The elements of x at these places of an axis, by an input with their numbers. */
neap_status neap_onnx_pick(onnx_import *im, const onnx_node *node, neap_tensor x, uint32_t axis,
                           const onnx_picks *picks, neap_tensor *result);

/* A tensor whose last dimension is `width`: x itself, or x as rows of that width. */
neap_tensor neap_onnx_rows(onnx_import *im, const onnx_node *node, neap_tensor x, int64_t width);

/* A vector that a normalization multiplies by or adds; a constant one where it is left out. */
neap_status neap_onnx_affine(onnx_import *im, const onnx_node *node, uint32_t input, int64_t width,
                             double otherwise, neap_tensor *tensor);

/* Which operands of an LSTM have their gates in neap's order, as bits of the attribute "sorted".
   The bias is then in two halves, inputs 3 and 8. */
enum { ONNX_LSTM_SORTED_W = 1, ONNX_LSTM_SORTED_R = 2, ONNX_LSTM_SORTED_B = 4 };

/* ---- Attention ---- */

/* The extents that all operands agree on. */
typedef struct onnx_attention {
    int64_t batch, heads, depth;
    uint32_t rank; /* of the operands: with batch and heads apart, or as one */
} onnx_attention;

/* A view as batch x time x heads x depth. `turned`: time is the last dimension. */
bool neap_onnx_attention_by_time(onnx_view *view, const onnx_attention *shape, int64_t time,
                                 bool turned);
/* The operands of neap_net_attention from such views of q, k and v; the scale is beside its own. */
neap_status neap_onnx_attention_operands(onnx_import *im, const onnx_node *node,
                                         const onnx_view views[3], const onnx_attention *shape,
                                         const int64_t times[3], double scale,
                                         neap_tensor operands[3]);

/* What a mask of attention hides. */
typedef enum onnx_mask { ONNX_MASK_NONE, ONNX_MASK_CAUSAL, ONNX_MASK_OTHER } onnx_mask;

/* Whether the scores (T x S at the end of `shape`) are all seen, or those up to the diagonal. A
   condition is true where they are seen; `flip` where they are not. Other masks are added. */
onnx_mask neap_onnx_classify_mask(const onnx_constant *mask, const onnx_shape *shape, bool flip);

/* The domain of nodes that the importer itself makes. */
#define ONNX_NEAP_DOMAIN "neap"

#endif
