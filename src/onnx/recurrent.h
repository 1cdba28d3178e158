/* What LSTM, GRU and RNN nodes have in common: sequences that are unrolled, states, results. */
#ifndef NEAP_ONNX_RECURRENT_H
#define NEAP_ONNX_RECURRENT_H

#include "onnx/import.h"

typedef struct onnx_recurrent {
    int64_t steps, batch, inputs, hidden, directions;
    neap_tensor h[2], c[2]; /* N x H, of each direction; c only of an LSTM */
    neap_tensor *x;         /* N x I, of each step */
    neap_tensor *tops;      /* N x H, of each step and direction */
} onnx_recurrent;

/* Shapes of the outputs of a node whose weights have `gates` times as many rows as a state has
   elements. */
neap_status neap_onnx_recurrent_infer(onnx_import *im, const onnx_node *node, int64_t gates);
/* The extents. NEAP_UNSUPPORTED for what neap does with no such node. */
neap_status neap_onnx_recurrent_read(const onnx_import *im, const onnx_node *node,
                                     onnx_recurrent *l);
/* Whether the node asks for these functions, in this order for each direction, or for none. */
bool neap_onnx_recurrent_activates(const onnx_node *node, uint32_t count,
                                   const char *const *functions);
/* The state of each direction before its first step; zeros where the node does not give it. */
neap_status neap_onnx_recurrent_state(onnx_import *im, const onnx_node *node, uint32_t input,
                                      const onnx_recurrent *l, neap_tensor states[2]);
/* The input of each step. */
neap_status neap_onnx_recurrent_split(onnx_import *im, const onnx_node *node, onnx_recurrent *l);
/* Rows of x from `begin` on; x itself where they are all. */
neap_tensor neap_onnx_recurrent_rows(onnx_import *im, const onnx_node *node, neap_tensor x,
                                     int64_t begin, int64_t count);
/* Output 0, the states of all steps. */
void neap_onnx_recurrent_set_sequence(onnx_import *im, const onnx_node *node,
                                      const onnx_recurrent *l);
/* The last state of each direction. */
void neap_onnx_recurrent_set_last(onnx_import *im, const onnx_node *node, uint32_t output,
                                  const onnx_recurrent *l, const neap_tensor states[2]);

#endif
