/* A convolution as an operation graph of cuDNN. */
#ifndef NEAP_CUDNN_GRAPH_H
#define NEAP_CUDNN_GRAPH_H

#include "run/backends/cuda/conv.h"
#include "run/backends/cuda/cudnn_call.h"

/* Operands of a graph, by the identifiers of its tensors. */
enum { CUDNN_UID_Y = 1, CUDNN_UID_X, CUDNN_UID_W, CUDNN_UID_BIAS, CUDNN_UID_FIRST_VIRTUAL };

typedef struct cudnn_graph_form {
    int64_t parts; /* the batch is one of so many equal parts */
    bool fused;    /* with bias and ReLU */
    bool adds;     /* to what is in the result */
} cudnn_graph_form;

/* Descriptors go to the bag; on failure too. */
neap_status neap_cudnn_graph(cudnn_bag *bag, const conv_problem *problem, cudnn_graph_form form,
                             cudnn_descriptor *graph, neap_diag *diag);

#endif
