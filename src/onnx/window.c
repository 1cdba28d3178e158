/* Windows of convolutions and pools: attributes, padding, and the images they move over. */
#include "onnx/window.h"

#include "base/fail.h"

#include <string.h>

neap_status neap_onnx_window_pair(const onnx_import *im, const onnx_node *node, const char *name,
                                  bool flat, int64_t least, int64_t otherwise, int64_t pair[2])
{
    size_t count, first = flat ? 1 : 0;
    const int64_t *list = neap_onnx_ints(node, name, &count);
    pair[0] = pair[1] = otherwise;
    if (!list)
        return NEAP_OK;
    if (count != 2 - first)
        return neap_onnx_fail(im, node, "%s has %zu numbers for %zu dimensions", name, count,
                              2 - first);
    for (size_t i = first; i < 2; i++) {
        pair[i] = list[i - first];
        if (pair[i] < least || pair[i] > INT32_MAX)
            return neap_onnx_fail(im, node, "%s is %lld", name, (long long)pair[i]);
    }
    return NEAP_OK;
}

static neap_status read_pads(const onnx_import *im, const onnx_node *node, onnx_window *w)
{
    size_t count, first = w->flat ? 1 : 0, sides = 2 - first;
    const int64_t *list = neap_onnx_ints(node, "pads", &count);
    for (int i = 0; i < 2; i++)
        w->before[i] = w->after[i] = 0;
    if (!list)
        return NEAP_OK;
    if (count != 2 * sides)
        return neap_onnx_fail(im, node, "pads has %zu numbers for %zu dimensions", count, sides);
    for (size_t i = 0; i < count; i++) {
        if (list[i] < 0 || list[i] > INT32_MAX)
            return neap_onnx_fail(im, node, "a padding of %lld", (long long)list[i]);
        (i < sides ? w->before : w->after)[first + i % sides] = list[i];
    }
    return NEAP_OK;
}

/* As many windows as strides fit; the larger half of an odd padding is at the end with `upper`. */
static void pad_same(onnx_window *w, bool upper)
{
    for (int i = 0; i < 2; i++) {
        int64_t count = (w->extent[i] + w->stride[i] - 1) / w->stride[i];
        int64_t span = (count - 1) * w->stride[i] + (w->kernel[i] - 1) * w->dilation[i] + 1;
        int64_t all = span > w->extent[i] ? span - w->extent[i] : 0;
        w->before[i] = upper ? all / 2 : all - all / 2;
        w->after[i] = all - w->before[i];
    }
}

static neap_status read_kernel(const onnx_import *im, const onnx_node *node,
                               const onnx_shape *weight, onnx_window *w)
{
    uint32_t first = w->flat ? 1 : 0;
    NEAP_TRY(neap_onnx_window_pair(im, node, "kernel_shape", w->flat, 1, 1, w->kernel));
    if (!weight)
        return NEAP_OK;
    if (weight->rank != 4 - first)
        return neap_onnx_fail(im, node, "its weight does not have the shape of a kernel");
    for (uint32_t i = first; i < 2; i++) {
        int64_t side = weight->dims[2 + i - first];
        if (side < 1 || side > INT32_MAX)
            return neap_onnx_fail(im, node, "its weight does not have the shape of a kernel");
        if (neap_onnx_attribute(node, "kernel_shape") && w->kernel[i] != side)
            return neap_onnx_fail(im, node, "kernel_shape is not that of its weight");
        w->kernel[i] = side;
    }
    return NEAP_OK;
}

neap_status neap_onnx_window_read(const onnx_import *im, const onnx_node *node,
                                  const onnx_shape *weight, onnx_window *w)
{
    const onnx_shape *image = &neap_onnx_input(im, node, 0)->shape;
    if (image->rank != 3 && image->rank != 4)
        return neap_onnx_fail_unsupported(
            im, node, "its input has rank %u; neap takes N x C x L and N x C x H x W", image->rank);
    w->flat = image->rank == 3;
    w->extent[0] = w->flat ? 1 : image->dims[2];
    w->extent[1] = image->dims[image->rank - 1];
    if (w->extent[0] > INT32_MAX || w->extent[1] > INT32_MAX)
        return neap_onnx_fail(im, node, "its input is too large");
    NEAP_TRY(read_kernel(im, node, weight, w));
    NEAP_TRY(neap_onnx_window_pair(im, node, "strides", w->flat, 1, 1, w->stride));
    NEAP_TRY(neap_onnx_window_pair(im, node, "dilations", w->flat, 1, 1, w->dilation));
    for (int i = 0; i < 2; i++) /* nothing is between the elements of a single one */
        if (w->kernel[i] == 1)
            w->dilation[i] = w->kernel[1 - i] == 1 ? 1 : w->dilation[1 - i];
    NEAP_TRY(read_pads(im, node, w));
    const char *mode = neap_onnx_string(node, "auto_pad", "NOTSET");
    if (strncmp(mode, "SAME", 4) == 0)
        pad_same(w, strcmp(mode, "SAME_UPPER") == 0);
    return NEAP_OK;
}

int64_t neap_onnx_window_count(const onnx_window *w, int side, bool ceil_mode)
{
    int64_t padded = w->extent[side] + w->before[side] + w->after[side];
    int64_t span = padded - ((w->kernel[side] - 1) * w->dilation[side] + 1);
    if (span < 0)
        return 0;
    int64_t count = (span + (ceil_mode ? w->stride[side] - 1 : 0)) / w->stride[side] + 1;
    bool outside = (count - 1) * w->stride[side] >= w->extent[side] + w->before[side];
    return ceil_mode && outside ? count - 1 : count;
}

onnx_shape neap_onnx_window_shape(const onnx_import *im, const onnx_node *node, bool flat,
                                  int64_t channels, const int64_t extents[2])
{
    const onnx_shape *image = &neap_onnx_input(im, node, 0)->shape;
    onnx_shape shape = {.type = image->type, .rank = 2, .dims = {image->dims[0], channels}};
    for (int i = flat ? 1 : 0; i < 2; i++)
        shape.dims[shape.rank++] = extents[i];
    return shape;
}

/* ---- Sequences as images ---- */

neap_status neap_onnx_image(onnx_import *im, const onnx_node *node, uint32_t input,
                            neap_tensor *tensor)
{
    const onnx_value *value = neap_onnx_input(im, node, input);
    const onnx_shape *shape = &value->shape;
    const onnx_view *view;
    if (shape->rank == 4)
        return neap_onnx_tensor(im, node, node->inputs[input], tensor);
    const int64_t dims[] = {shape->dims[0], shape->dims[1], 1, shape->dims[2]};
    NEAP_TRY(neap_onnx_view(im, node, node->inputs[input], &view));
    if (view->of_initializer) /* the parameter itself has a height */
        return neap_onnx_weight(im, node, node->inputs[input], view, 4, dims, tensor);
    NEAP_TRY(neap_onnx_tensor(im, node, node->inputs[input], tensor));
    *tensor = neap_net_reshape(im->net, node->name, *tensor, 4, dims);
    return neap_onnx_check_net(im, node);
}

void neap_onnx_set_image(onnx_import *im, const onnx_node *node, neap_tensor tensor)
{
    const onnx_shape *shape = &neap_onnx_output(im, node, 0)->shape;
    onnx_view view;
    if (shape->rank == 4) {
        neap_onnx_set_tensor(im, node, 0, tensor);
        return;
    }
    neap_onnx_view_init(&view, tensor, false, shape->rank, shape->dims);
    neap_onnx_set_view(im, node, 0, &view);
}
