/* What the fusing passes look for: the node behind a value, numbers, products, vectors. */
#ifndef NEAP_ONNX_MATCH_H
#define NEAP_ONNX_MATCH_H

#include "onnx/ops.h"

/* The value itself, without nodes that do nothing to it: Identity, casts between floats, Dropout
   that does not drop. */
uint32_t neap_onnx_plain(const onnx_import *im, uint32_t value);
/* The node of this type that computes the value, through such nodes; NULL: another one. */
const onnx_node *neap_onnx_made_by(const onnx_import *im, uint32_t value, const char *type);
/* A constant of one number. */
bool neap_onnx_is_number(const onnx_import *im, uint32_t value, double *number);
/* Within a relative 1e-4: exporters write constants in single precision, or with few digits. */
bool neap_onnx_is_near(double a, double b);
/* Of a node with two inputs: the one that is a number, and the other. */
bool neap_onnx_with_number(const onnx_import *im, const onnx_node *node, uint32_t *other,
                           double *number);
/* A weight or constant with `width` elements along the last dimension and nowhere else. */
bool neap_onnx_is_vector(const onnx_import *im, uint32_t value, int64_t width);

/* A value as constant * factor * factor ... */
enum { MATCH_MOST_FACTORS = 4 };
typedef struct match_product {
    double constant;
    uint32_t count;
    uint32_t factors[MATCH_MOST_FACTORS]; /* plain values */
} match_product;

/* False if there are more factors than that. */
bool neap_onnx_product(const onnx_import *im, uint32_t value, match_product *product);

/*
 * Makes a node into another one, with the same outputs: `type` of `domain` with these inputs
 * (NEAP_NONE at the end are left out) and attributes, which are copied.
 */
neap_status neap_onnx_replace(onnx_import *im, onnx_node *node, const char *type,
                              const char *domain, uint32_t n_inputs, const uint32_t *inputs,
                              size_t n_attributes, const onnx_attribute *attributes);

/* ---- The patterns: *done says whether the node was replaced ---- */

neap_status neap_onnx_fuse_gelu(onnx_import *im, onnx_node *node, bool *done);
neap_status neap_onnx_fuse_silu(onnx_import *im, onnx_node *node, bool *done);
neap_status neap_onnx_fuse_layer_norm(onnx_import *im, onnx_node *node, bool *done);
neap_status neap_onnx_fuse_linear(onnx_import *im, onnx_node *node, const uint32_t *readers,
                                  bool *done);
neap_status neap_onnx_fuse_loss(onnx_import *im, onnx_node *node, bool *done);
neap_status neap_onnx_fuse_guard(onnx_import *im, onnx_node *node, bool *done);
neap_status neap_onnx_fuse_lstm(onnx_import *im, onnx_node *node, bool *done);
neap_status neap_onnx_fuse_attention(onnx_import *im, onnx_node *node, bool *done);

#endif
