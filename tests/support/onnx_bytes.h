/* ONNX files made by hand, message by message, for tests. */
#ifndef NEAP_TESTS_ONNX_BYTES_H
#define NEAP_TESTS_ONNX_BYTES_H

#include <neap/text.h>
#include <stdint.h>

/* Fields of a protobuf message, appended to a text. */
void pb_number(neap_text *message, uint32_t field, uint64_t number);
void pb_float(neap_text *message, uint32_t field, float number);
void pb_string(neap_text *message, uint32_t field, const char *string);
void pb_bytes(neap_text *message, uint32_t field, const void *bytes, size_t length);
/* Appends `inner` as a message and clears it. */
void pb_message(neap_text *message, uint32_t field, neap_text *inner);

/* ---- Parts of a graph ---- */

/* A tensor with raw data. Extents end with 0, which is none of them; types are TensorProto's. */
void onnx_add_tensor(neap_text *graph, const char *name, int type, const int64_t *dims,
                     const void *data, size_t bytes);
void onnx_add_floats(neap_text *graph, const char *name, const int64_t *dims);
void onnx_add_integers(neap_text *graph, const char *name, const int64_t *dims,
                       const int64_t *integers);
/* A node Constant with a tensor of floats. */
void onnx_add_constant(neap_text *graph, const char *name, const int64_t *dims,
                       const float *numbers);
/* An input or output. "N,3,8,8": numbers, or names of open dimensions. */
void onnx_add_input(neap_text *graph, const char *name, int type, const char *dims);
void onnx_add_output(neap_text *graph, const char *name);
/* "Conv x,w,b y name pads=1,1,1,1 group=2 alpha=0.5 mode=text": integers in lists of commas. With a
   domain and an overload, "local.F:two"; alpha=@beta refers to an attribute of the function. */
void onnx_add_node(neap_text *graph, const char *line);

/* A function of a model: "local.F x,w y alpha=0.5" with defaults of attributes, and its nodes, the
   last one NULL, as onnx_add_node takes them. Opset 17 unless another is given; -1: none. */
void onnx_add_function(neap_text *model, const char *head, const char *const *nodes, int64_t opset);

/* The model around a graph, which is cleared: opset 17 unless another is given. */
void onnx_make_model(neap_text *model, neap_text *graph, int64_t opset);
/* Writes it to folder/name and clears it; returns the path, which the caller frees. */
char *onnx_write(neap_text *model, const char *folder, const char *name);

/* The numbers of onnx_add_floats: element i of a tensor with this name. */
float onnx_number(const char *name, int64_t i);

/* A network of two linear layers, one of them by MatMul and Add, with a GELU in between:
   x: N x 4, y: N x 3. */
void onnx_small_graph(neap_text *graph);
/* Attention in heads, a layer normalization in pieces, a convolution, an embedding and shapes by
   arithmetic. ids: N x 6, y: N x 6 x 10. */
void onnx_large_graph(neap_text *graph);
/* Two batch normalizations that take the batch's statistics, with statistics of their own, and a
   third that shares those of the second. x: N x 3 x 4 x 4, y: N x 3. */
void onnx_normed_graph(neap_text *graph);
/* Two linear layers, each with a LeakyReLU, by calls of functions, which onnx_add_called adds to
   the model. x: N x 4, y: N x 3. */
void onnx_called_graph(neap_text *graph);
void onnx_add_called(neap_text *model);

#endif
