/* Resize: images by nearest pixels or bilinear interpolation. */
#include "onnx/ops.h"

#include "base/fail.h"

#include <math.h>
#include <string.h>

/* The scales as constants: like other floats of the file they could have been trained. */
static neap_status find_scales(const onnx_import *im, const onnx_node *node,
                               const onnx_constant **scales)
{
    const onnx_value *value = neap_onnx_input(im, node, 2);
    *scales = neap_onnx_input_constant(im, node, 2);
    if (*scales || !value || value->initializer == NEAP_NONE)
        return NEAP_OK;
    *scales = neap_onnx_constant_of(im->arena, &im->proto->initializers[value->initializer]);
    return *scales ? NEAP_OK : neap_fail_no_memory(im->diag);
}

/* The scale of each dimension that the node gives; 0 where it gives sizes. */
static neap_status read_scales(const onnx_import *im, const onnx_node *node, uint32_t rank,
                               double scales[NEAP_MAX_RANK])
{
    const onnx_constant *given;
    NEAP_TRY(find_scales(im, node, &given));
    bool has_scales = neap_onnx_input(im, node, 2) && (!given || given->elements > 0);
    for (uint32_t d = 0; d < rank; d++)
        scales[d] = 0;
    if (!has_scales)
        return NEAP_OK;
    if (!given || given->elements != rank)
        return neap_onnx_fail_unsupported(im, node, "it needs a constant scale for each dimension");
    for (uint32_t d = 0; d < rank; d++) {
        scales[d] = neap_onnx_get_real(given, d);
        if (!(scales[d] > 0 && scales[d] < 1e9))
            return neap_onnx_fail(im, node, "a scale of %g", scales[d]);
    }
    return NEAP_OK;
}

static neap_status infer_resize(onnx_import *im, const onnx_node *node)
{
    double scales[NEAP_MAX_RANK];
    const int64_t *sizes;
    size_t n_sizes;
    NEAP_TRY(neap_onnx_need(im, node, 1));
    onnx_shape shape = neap_onnx_input(im, node, 0)->shape;
    NEAP_TRY(read_scales(im, node, shape.rank, scales));
    NEAP_TRY(neap_onnx_integers(im, node, 3, &sizes, &n_sizes));
    if (n_sizes > 0 && n_sizes != shape.rank)
        return neap_onnx_fail_unsupported(im, node, "it needs a size for each dimension");
    for (uint32_t d = 0; d < shape.rank; d++) {
        double extent = floor((double)shape.dims[d] * scales[d]);
        if (n_sizes > 0)
            shape.dims[d] = sizes[d];
        else if (scales[d] > 0 && extent < 0x1p40)
            shape.dims[d] = (int64_t)extent;
        else
            return neap_onnx_fail(im, node, "it has neither scales nor sizes that fit");
    }
    return neap_onnx_set_shape(im, node, 0, &shape);
}

/*
 * Interpolation goes by the ratio of the sizes, so the scales must be that, too. PyTorch's half
 * pixels begin at the first one where a single pixel is left.
 */
static bool is_interpolated(const onnx_node *node, const onnx_shape *from, const onnx_shape *to,
                            const double *scales)
{
    const char *place = neap_onnx_string(node, "coordinate_transformation_mode", "half_pixel");
    bool torch_half = strcmp(place, "pytorch_half_pixel") == 0;
    if (strcmp(place, "align_corners") != 0 && strcmp(place, "half_pixel") != 0 && !torch_half)
        return false;
    for (uint32_t d = 2; d < 4; d++) {
        double ratio = (double)to->dims[d] / (double)from->dims[d];
        if ((scales[d] > 0 && fabs(scales[d] - ratio) > 1e-6 * ratio) ||
            (torch_half && to->dims[d] == 1 && from->dims[d] > 1))
            return false;
    }
    return true;
}

static neap_status lower_resize(onnx_import *im, const onnx_node *node)
{
    const onnx_shape *from = &neap_onnx_input(im, node, 0)->shape;
    const onnx_shape *to = &neap_onnx_output(im, node, 0)->shape;
    const char *mode = neap_onnx_string(node, "mode", "nearest");
    const char *place = neap_onnx_string(node, "coordinate_transformation_mode", "half_pixel");
    const char *pick = neap_onnx_string(node, "nearest_mode", "round_prefer_floor");
    bool align = strcmp(place, "align_corners") == 0, half = strcmp(place, "half_pixel") == 0;
    double scales[NEAP_MAX_RANK];
    neap_tensor x;
    if (from->rank != 4 || from->dims[0] != to->dims[0] || from->dims[1] != to->dims[1])
        return neap_onnx_fail_unsupported(im, node, "neap resizes the height and width of images");
    if (neap_onnx_int(node, "antialias", 0) != 0)
        return neap_onnx_fail_unsupported(im, node, "neap resizes without antialiasing");
    NEAP_TRY(read_scales(im, node, from->rank, scales));
    NEAP_TRY(neap_onnx_tensor(im, node, node->inputs[0], &x));
    if (strcmp(mode, "linear") == 0 && is_interpolated(node, from, to, scales)) {
        x = neap_net_upsample(im->net, node->name, x, to->dims[2], to->dims[3], align);
    } else if (strcmp(mode, "nearest") == 0 && (half || strcmp(place, "asymmetric") == 0) &&
               (strcmp(pick, "floor") == 0 || strcmp(pick, "round_prefer_floor") == 0)) {
        neap_resize resize = {.out_h = to->dims[2],
                              .out_w = to->dims[3],
                              .scale_h = scales[2],
                              .scale_w = scales[3],
                              .half_pixel = half,
                              .round = strcmp(pick, "floor") != 0};
        x = neap_net_resize_nearest(im->net, node->name, x, &resize);
    } else {
        return neap_onnx_fail_unsupported(im, node, "neap does not resize by %s with %s, %s", mode,
                                          place, pick);
    }
    neap_onnx_set_tensor(im, node, 0, x);
    return NEAP_OK;
}

const onnx_op neap_onnx_ops_resize[] = {
    {"Resize", "", infer_resize, NULL, lower_resize},
    {0},
};
