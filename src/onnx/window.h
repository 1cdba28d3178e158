/*
 * Windows that move over images: what convolutions and pools have in common. A sequence, N x C x L,
 * is an image of height 1.
 */
#ifndef NEAP_ONNX_WINDOW_H
#define NEAP_ONNX_WINDOW_H

#include "onnx/import.h"

/* Of height and width. */
typedef struct onnx_window {
    bool flat;         /* the input is a sequence */
    int64_t extent[2]; /* of the input */
    int64_t kernel[2], stride[2], dilation[2];
    int64_t before[2], after[2]; /* padding */
} onnx_window;

/* The window of a node; its kernel is the attribute's, or that of a weight, which may be NULL. */
neap_status neap_onnx_window_read(const onnx_import *im, const onnx_node *node,
                                  const onnx_shape *weight, onnx_window *window);
/* One or two numbers of an attribute, the second side's where there is only one. */
neap_status neap_onnx_window_pair(const onnx_import *im, const onnx_node *node, const char *name,
                                  bool flat, int64_t least, int64_t otherwise, int64_t pair[2]);
/* Windows that fit into a side; 0: none. */
int64_t neap_onnx_window_count(const onnx_window *window, int side, bool ceil_mode);
/* N x C and the extents of height and width, as the node's output has them. */
onnx_shape neap_onnx_window_shape(const onnx_import *im, const onnx_node *node, bool flat,
                                  int64_t channels, const int64_t extents[2]);

/* An input of rank 3 or 4 as a tensor of rank 4. */
neap_status neap_onnx_image(onnx_import *im, const onnx_node *node, uint32_t input,
                            neap_tensor *tensor);
/* Output 0 is this tensor of rank 4. */
void neap_onnx_set_image(onnx_import *im, const onnx_node *node, neap_tensor tensor);

#endif
