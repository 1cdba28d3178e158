/* Tensors, operations and graphs. */
#include "run/backends/cuda/cudnn_graph.h"

#include "base/fail.h"

#define ALIGNMENT 16 /* of addresses: others have kernels of our own */

/* ---- Tensors ---- */

/* Whether strides describe where the elements of the array are. */
static bool fits(const run_array *array, const run_array *strides)
{
    for (int d = 0; d < 4; d++)
        if (array->shape[d] > 1 && array->strides[d] != strides->strides[d])
            return false;
    return true;
}

/*
 * Strides of extents of 1 mean nothing to us, but cuDNN recognizes layouts by them: make them those
 * of channels-last or else row-major arrays, if all others are.
 */
static run_array recognizable(const run_array *array, bool channels_last)
{
    run_array last = *array, plain = *array;
    neap_run_array_set_channels_last(&last);
    neap_run_array_set_plain(&plain);
    run_array first = channels_last ? last : plain, second = channels_last ? plain : last;
    if (fits(array, &first))
        return first;
    if (fits(array, &second))
        return second;
    for (int d = 0; d < 4; d++) /* a part of something */
        if (array->shape[d] > 1)
            first.strides[d] = array->strides[d];
    return first;
}

static int data_type(neap_dtype type)
{
    return type == NEAP_BF16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_FLOAT;
}

static neap_status add_tensor(cudnn_bag *bag, const run_array *array, int64_t uid, bool is_virtual,
                              cudnn_descriptor *tensor, neap_diag *diag)
{
    static const char what[] = "a tensor";
    int type = is_virtual ? CUDNN_DATA_FLOAT : data_type(array->dtype);
    NEAP_TRY(neap_cudnn_new(bag, CUDNN_BACKEND_TENSOR_DESCRIPTOR, tensor, diag));
    NEAP_TRY(cudnn_set_enum(bag, *tensor, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, type,
                            what, diag));
    NEAP_TRY(neap_cudnn_set(bag, *tensor, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4,
                            array->shape, what, diag));
    NEAP_TRY(neap_cudnn_set(bag, *tensor, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4,
                            array->strides, what, diag));
    NEAP_TRY(cudnn_set_int64(bag, *tensor, CUDNN_ATTR_TENSOR_UNIQUE_ID, uid, what, diag));
    NEAP_TRY(
        cudnn_set_int64(bag, *tensor, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, ALIGNMENT, what, diag));
    if (is_virtual)
        NEAP_TRY(neap_cudnn_set(bag, *tensor, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1,
                                &is_virtual, what, diag));
    return neap_cudnn_finalize(bag, *tensor, what, diag);
}

/* ---- Operations ---- */

static neap_status add_window(cudnn_bag *bag, const conv_window *window, cudnn_descriptor *made,
                              neap_diag *diag)
{
    static const char what[] = "a convolution's window";
    const int64_t pads[2] = {window->pad_h, window->pad_w},
                  strides[2] = {window->stride_h, window->stride_w},
                  dilations[2] = {window->dilation, window->dilation};
    NEAP_TRY(neap_cudnn_new(bag, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR, made, diag));
    NEAP_TRY(cudnn_set_enum(bag, *made, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE,
                            CUDNN_DATA_FLOAT, what, diag));
    NEAP_TRY(cudnn_set_enum(bag, *made, CUDNN_ATTR_CONVOLUTION_CONV_MODE,
                            CUDNN_TYPE_CONVOLUTION_MODE, CUDNN_CROSS_CORRELATION, what, diag));
    NEAP_TRY(cudnn_set_int64(bag, *made, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, 2, what, diag));
    NEAP_TRY(neap_cudnn_set(bag, *made, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, 2,
                            pads, what, diag));
    NEAP_TRY(neap_cudnn_set(bag, *made, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, 2,
                            pads, what, diag));
    NEAP_TRY(neap_cudnn_set(bag, *made, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, 2,
                            strides, what, diag));
    NEAP_TRY(neap_cudnn_set(bag, *made, CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, 2,
                            dilations, what, diag));
    return neap_cudnn_finalize(bag, *made, what, diag);
}

/* The names of an operation's attributes: one kind for each target. */
typedef struct conv_names {
    int type, alpha, beta, window, y, x, w;
} conv_names;

static const conv_names names_of[] = {
    [CONV_Y] = {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
                CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
                CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA,
                CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
                CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
                CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
                CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W},
    [CONV_X] = {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
                CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
                CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA,
                CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
                CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
                CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
                CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W},
    [CONV_W] = {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
                CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
                CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA,
                CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
                CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
                CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
                CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW},
};

/* tensors: y, x, w. */
static neap_status add_convolution(cudnn_bag *bag, const conv_problem *problem, bool adds,
                                   const cudnn_descriptor tensors[3], cudnn_descriptor *operation,
                                   neap_diag *diag)
{
    static const char what[] = "a convolution";
    const conv_names *names = &names_of[problem->target];
    float alpha = 1, beta = adds ? 1 : 0;
    cudnn_descriptor window;
    NEAP_TRY(add_window(bag, &problem->window, &window, diag));
    NEAP_TRY(neap_cudnn_new(bag, names->type, operation, diag));
    NEAP_TRY(cudnn_set_descriptor(bag, *operation, names->window, window, what, diag));
    NEAP_TRY(cudnn_set_descriptor(bag, *operation, names->y, tensors[0], what, diag));
    NEAP_TRY(cudnn_set_descriptor(bag, *operation, names->x, tensors[1], what, diag));
    NEAP_TRY(cudnn_set_descriptor(bag, *operation, names->w, tensors[2], what, diag));
    NEAP_TRY(
        neap_cudnn_set(bag, *operation, names->alpha, CUDNN_TYPE_FLOAT, 1, &alpha, what, diag));
    NEAP_TRY(neap_cudnn_set(bag, *operation, names->beta, CUDNN_TYPE_FLOAT, 1, &beta, what, diag));
    return neap_cudnn_finalize(bag, *operation, what, diag);
}

/* y = x + b, or y = relu(x) if b is NULL. */
static neap_status add_pointwise(cudnn_bag *bag, cudnn_descriptor x, cudnn_descriptor b,
                                 cudnn_descriptor y, cudnn_descriptor *operation, neap_diag *diag)
{
    static const char what[] = "a bias or ReLU";
    cudnn_descriptor kind;
    NEAP_TRY(neap_cudnn_new(bag, CUDNN_BACKEND_POINTWISE_DESCRIPTOR, &kind, diag));
    NEAP_TRY(cudnn_set_enum(bag, kind, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE,
                            b ? CUDNN_POINTWISE_ADD : CUDNN_POINTWISE_RELU_FWD, what, diag));
    NEAP_TRY(cudnn_set_enum(bag, kind, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE,
                            CUDNN_DATA_FLOAT, what, diag));
    NEAP_TRY(neap_cudnn_finalize(bag, kind, what, diag));
    NEAP_TRY(neap_cudnn_new(bag, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, operation, diag));
    NEAP_TRY(cudnn_set_descriptor(bag, *operation, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR,
                                  kind, what, diag));
    NEAP_TRY(
        cudnn_set_descriptor(bag, *operation, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x, what, diag));
    if (b)
        NEAP_TRY(cudnn_set_descriptor(bag, *operation, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, b,
                                      what, diag));
    NEAP_TRY(
        cudnn_set_descriptor(bag, *operation, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y, what, diag));
    return neap_cudnn_finalize(bag, *operation, what, diag);
}

/* ---- Graphs ---- */

typedef struct graph_parts {
    run_array y, x, w;
    cudnn_descriptor tensors[3]; /* the convolution's: y, x, w */
    cudnn_descriptor result;     /* of all operations */
    cudnn_descriptor operations[3];
    int64_t n_operations;
} graph_parts;

/* The images of a part, channels-last if they can be seen so; weights alike. */
static void set_arrays(const conv_problem *problem, int64_t parts, graph_parts *g)
{
    run_array y = problem->y, x = problem->x;
    y.shape[0] /= parts;
    x.shape[0] /= parts;
    bool last = neap_run_array_is_channels_last(&x) || neap_run_array_is_channels_last(&y);
    g->y = recognizable(&y, true);
    g->x = recognizable(&x, true);
    g->w = recognizable(&problem->w, last);
}

/* Between operations. */
static neap_status add_virtual(cudnn_bag *bag, const run_array *like, int64_t number,
                               cudnn_descriptor *tensor, neap_diag *diag)
{
    return add_tensor(bag, like, CUDNN_UID_FIRST_VIRTUAL + number, true, tensor, diag);
}

static neap_status add_tensors(cudnn_bag *bag, const conv_problem *problem, bool fused,
                               graph_parts *g, neap_diag *diag)
{
    const run_array *arrays[3] = {&g->y, &g->x, &g->w};
    static const int64_t uids[3] = {CUDNN_UID_Y, CUDNN_UID_X, CUDNN_UID_W};
    for (int i = 0; i < 3; i++)
        NEAP_TRY(add_tensor(bag, arrays[i], uids[i], false, &g->tensors[i], diag));
    g->result = g->tensors[problem->target];
    if (!fused)
        return NEAP_OK;
    return add_virtual(bag, arrays[problem->target], 0, &g->tensors[problem->target], diag);
}

/* From the convolution's virtual result to the final one. */
static neap_status add_finish(cudnn_bag *bag, const conv_problem *problem, graph_parts *g,
                              neap_diag *diag)
{
    const run_array *out = problem->target == CONV_Y ? &g->y : &g->x;
    cudnn_descriptor last = g->tensors[problem->target], next = g->result, bias = NULL;
    if (problem->bias) {
        int64_t k = out->shape[1];
        run_array vector = {.dtype = out->dtype, .rank = 4, .shape = {1, k, 1, 1}};
        neap_run_array_set_channels_last(&vector);
        NEAP_TRY(add_tensor(bag, &vector, CUDNN_UID_BIAS, false, &bias, diag));
        if (problem->relu)
            NEAP_TRY(add_virtual(bag, out, 1, &next, diag));
        NEAP_TRY(add_pointwise(bag, last, bias, next, &g->operations[g->n_operations++], diag));
        last = next;
    }
    if (problem->relu)
        NEAP_TRY(
            add_pointwise(bag, last, NULL, g->result, &g->operations[g->n_operations++], diag));
    return NEAP_OK;
}

neap_status neap_cudnn_graph(cudnn_bag *bag, const conv_problem *problem, cudnn_graph_form form,
                             cudnn_descriptor *graph, neap_diag *diag)
{
    static const char what[] = "a graph";
    graph_parts g = {.n_operations = 1};
    set_arrays(problem, form.parts, &g);
    NEAP_TRY(add_tensors(bag, problem, form.fused, &g, diag));
    NEAP_TRY(add_convolution(bag, problem, form.adds, g.tensors, &g.operations[0], diag));
    if (form.fused)
        NEAP_TRY(add_finish(bag, problem, &g, diag));
    NEAP_TRY(neap_cudnn_new(bag, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, graph, diag));
    NEAP_TRY(neap_cudnn_set(bag, *graph, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1,
                            &bag->libraries->cudnn, what, diag));
    NEAP_TRY(neap_cudnn_set(bag, *graph, CUDNN_ATTR_OPERATIONGRAPH_OPS,
                            CUDNN_TYPE_BACKEND_DESCRIPTOR, g.n_operations, g.operations, what,
                            diag));
    return neap_cudnn_finalize(bag, *graph, what, diag);
}
