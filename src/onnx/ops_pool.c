/*
 * Pools of sequences and images. neap pads both ends alike; ONNX may not (auto_pad SAME_UPPER does
 * not). Where windows that reach over the end make the difference, they do; otherwise the padding
 * is a layer of its own, and a mean that does not count it is corrected.
 */
#include "onnx/ops.h"

#include "base/fail.h"
#include "onnx/window.h"

#include <float.h>
#include <string.h>

static bool is_max(const onnx_node *node)
{
    return strcmp(node->type, "MaxPool") == 0 || strcmp(node->type, "GlobalMaxPool") == 0;
}

static neap_status infer_pool(onnx_import *im, const onnx_node *node)
{
    onnx_window w;
    int64_t extents[2];
    NEAP_TRY(neap_onnx_need(im, node, 1));
    if (!neap_onnx_attribute(node, "kernel_shape"))
        return neap_onnx_fail(im, node, "it has no kernel_shape");
    NEAP_TRY(neap_onnx_window_read(im, node, NULL, &w));
    for (int i = 0; i < 2; i++) {
        extents[i] = neap_onnx_window_count(&w, i, neap_onnx_int(node, "ceil_mode", 0) != 0);
        if (extents[i] < 1)
            return neap_onnx_fail(im, node, "its image is smaller than its window");
    }
    int64_t channels = neap_onnx_input(im, node, 0)->shape.dims[1];
    onnx_shape shape = neap_onnx_window_shape(im, node, w.flat, channels, extents);
    NEAP_TRY(neap_onnx_set_shape(im, node, 0, &shape));
    if (!neap_onnx_output(im, node, 1))
        return NEAP_OK;
    shape.type = ONNX_INT64; /* the indices of MaxPool */
    return neap_onnx_set_shape(im, node, 1, &shape);
}

static neap_tensor add_pool(onnx_import *im, const onnx_node *node, neap_tensor x,
                            const onnx_window *w, bool ceil_mode, bool count_pad)
{
    neap_pool2d pool = {.kernel_h = w->kernel[0],
                        .kernel_w = w->kernel[1],
                        .stride_h = w->stride[0],
                        .stride_w = w->stride[1],
                        .pad_h = w->before[0],
                        .pad_w = w->before[1],
                        .ceil_mode = ceil_mode,
                        .count_include_pad = count_pad};
    return is_max(node) ? neap_net_max_pool2d(im->net, node->name, x, &pool, NULL)
                        : neap_net_avg_pool2d(im->net, node->name, x, &pool);
}

/* Whether neap's own pool has the node's windows; *ceil_mode says how. */
static bool is_plain(const onnx_window *w, bool count_pad, bool *ceil_mode)
{
    bool equal = true, reaches = !count_pad;
    for (int i = 0; i < 2; i++) {
        onnx_window even = *w;
        even.after[i] = w->before[i];
        if (w->before[i] > w->kernel[i] / 2)
            return false;
        equal = equal && w->before[i] == w->after[i];
        reaches = reaches && neap_onnx_window_count(&even, i, true) ==
                                 neap_onnx_window_count(w, i, *ceil_mode);
    }
    *ceil_mode = *ceil_mode || !equal;
    return equal || reaches;
}

/* ---- Padding as a layer ---- */

/* Elements of window number `at` that a mean divides by. */
static int64_t counted(const onnx_window *w, int side, int64_t at, bool count_pad)
{
    int64_t begin = at * w->stride[side] - w->before[side], end = begin + w->kernel[side];
    int64_t low = count_pad ? -w->before[side] : 0;
    int64_t high = w->extent[side] + (count_pad ? w->after[side] : 0);
    begin = begin < low ? low : begin;
    end = end > high ? high : end;
    return end > begin ? end - begin : 0;
}

/* What the means of whole windows are multiplied by, Y x X. NEAP_NONE: by nothing. */
static neap_status add_correction(onnx_import *im, const onnx_node *node, const onnx_window *w,
                                  bool count_pad, const int64_t counts[2], neap_tensor *tensor)
{
    const onnx_shape shape = {.type = ONNX_FLOAT, .rank = 2, .dims = {counts[0], counts[1]}};
    double whole = (double)w->kernel[0] * (double)w->kernel[1];
    onnx_constant *factors = neap_onnx_constant_new(im->arena, &shape);
    bool any = false;
    if (!factors)
        return neap_fail_no_memory(im->diag);
    for (int64_t y = 0; y < counts[0]; y++)
        for (int64_t x = 0; x < counts[1]; x++) {
            int64_t n = counted(w, 0, y, count_pad) * counted(w, 1, x, count_pad);
            neap_onnx_set_real(factors, y * counts[1] + x, n > 0 ? whole / (double)n : 0);
            any = any || (double)n != whole;
        }
    *tensor = NEAP_NONE;
    return any ? neap_onnx_fixed(im, factors, node->name, 2, shape.dims, tensor) : NEAP_OK;
}

static neap_status lower_padded(onnx_import *im, const onnx_node *node, onnx_window *w,
                                bool ceil_mode, bool count_pad, neap_tensor x, neap_tensor *result)
{
    int64_t before[4] = {0}, after[4] = {0}, counts[2];
    neap_tensor correction = NEAP_NONE;
    for (int i = 0; i < 2; i++) {
        counts[i] = neap_onnx_window_count(w, i, ceil_mode);
        int64_t end = (counts[i] - 1) * w->stride[i] + w->kernel[i] - w->before[i];
        before[2 + i] = w->before[i];
        after[2 + i] = end > w->extent[i] ? end - w->extent[i] : 0;
    }
    if (!is_max(node))
        NEAP_TRY(add_correction(im, node, w, count_pad, counts, &correction));
    if (is_max(node))
        x = neap_net_pad(im->net, node->name, x, before, after, -(double)FLT_MAX);
    else
        x = neap_net_pad2d(im->net, node->name, x, before[2], after[2], before[3], after[3]);
    w->before[0] = w->before[1] = 0;
    x = add_pool(im, node, x, w, false, false);
    *result = correction == NEAP_NONE ? x : neap_net_mul(im->net, node->name, x, correction);
    return NEAP_OK;
}

static neap_status lower_pool(onnx_import *im, const onnx_node *node)
{
    onnx_window w;
    neap_tensor x;
    const onnx_value *indices = neap_onnx_output(im, node, 1);
    bool ceil_mode = neap_onnx_int(node, "ceil_mode", 0) != 0;
    bool count_pad = !is_max(node) && neap_onnx_int(node, "count_include_pad", 0) != 0;
    NEAP_TRY(neap_onnx_window_read(im, node, NULL, &w));
    if (w.dilation[0] != 1 || w.dilation[1] != 1)
        return neap_onnx_fail_unsupported(im, node, "neap pools without dilation");
    if (indices && indices->live)
        return neap_onnx_fail_unsupported(im, node, "neap keeps the indices of a pool to itself");
    NEAP_TRY(neap_onnx_image(im, node, 0, &x));
    bool plain_ceil = ceil_mode;
    if (is_plain(&w, count_pad, &plain_ceil))
        x = add_pool(im, node, x, &w, plain_ceil, count_pad);
    else
        NEAP_TRY(lower_padded(im, node, &w, ceil_mode, count_pad, x, &x));
    neap_onnx_set_image(im, node, x);
    return NEAP_OK;
}

/* ---- Pools of whole images ---- */

static neap_status infer_global_pool(onnx_import *im, const onnx_node *node)
{
    NEAP_TRY(neap_onnx_need(im, node, 1));
    onnx_shape shape = neap_onnx_input(im, node, 0)->shape;
    if (shape.rank < 3)
        return neap_onnx_fail(im, node, "its input has rank %u, not N x C x ...", shape.rank);
    for (uint32_t d = 2; d < shape.rank; d++)
        shape.dims[d] = 1;
    return neap_onnx_set_shape(im, node, 0, &shape);
}

/* Dimensions after the channels are one, unless they are height and width. */
static neap_status lower_global_pool(onnx_import *im, const onnx_node *node)
{
    const onnx_shape *shape = &neap_onnx_input(im, node, 0)->shape;
    int64_t dims[] = {shape->dims[0], shape->dims[1], 1, 1};
    onnx_view view;
    neap_tensor x;
    for (uint32_t d = 2; d < shape->rank; d++)
        dims[d < 3 && shape->rank == 4 ? 2 : 3] *= shape->dims[d];
    NEAP_TRY(neap_onnx_tensor(im, node, node->inputs[0], &x));
    if (shape->rank != 4)
        x = neap_net_reshape(im->net, node->name, x, 4, dims);
    const onnx_window all = {.kernel = {dims[2], dims[3]}, .stride = {1, 1}};
    x = is_max(node) ? add_pool(im, node, x, &all, false, false)
                     : neap_net_adaptive_avg_pool2d(im->net, node->name, x, 1, 1);
    const onnx_shape *result = &neap_onnx_output(im, node, 0)->shape;
    neap_onnx_view_init(&view, x, false, result->rank, result->dims);
    neap_onnx_set_view(im, node, 0, &view);
    if (result->rank == 4)
        neap_onnx_set_tensor(im, node, 0, x);
    return NEAP_OK;
}

const onnx_op neap_onnx_ops_pool[] = {
    {"MaxPool", "", infer_pool, NULL, lower_pool},
    {"AveragePool", "", infer_pool, NULL, lower_pool},
    {"GlobalMaxPool", "", infer_global_pool, NULL, lower_global_pool},
    {"GlobalAveragePool", "", infer_global_pool, NULL, lower_global_pool},
    {0},
};
