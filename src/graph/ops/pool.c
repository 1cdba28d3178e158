/*
 * Pooling, unpooling and resizing of images.
 *
 * An index is the position inside its window, one byte, four for windows past 256; under
 * NEAP_KERNELS_TORCH it is PyTorch's 8-byte position in the plane.
 */
#include "graph/network_internal.h"

#include <string.h>

#define N_POOL_ATTRS 8

static int64_t stride_of(int64_t stride, int64_t kernel)
{
    return stride ? stride : kernel;
}

static void pool_attrs(const neap_pool2d *pool, neap_attr attrs[N_POOL_ATTRS])
{
    const neap_attr all[N_POOL_ATTRS] = {
        ATTR_INT("kernel_h", pool->kernel_h),
        ATTR_INT("kernel_w", pool->kernel_w),
        ATTR_INT("stride_h", stride_of(pool->stride_h, pool->kernel_h)),
        ATTR_INT("stride_w", stride_of(pool->stride_w, pool->kernel_w)),
        ATTR_INT("pad_h", pool->pad_h),
        ATTR_INT("pad_w", pool->pad_w),
        ATTR_INT("ceil_mode", pool->ceil_mode),
        ATTR_INT("count_include_pad", pool->count_include_pad)};
    memcpy(attrs, all, sizeof all);
}

/* ---- Shapes ---- */

/* As PyTorch: in ceil mode a last window must begin inside the image or its left padding. */
static void pool_side(op_fit *fit, char pooled, char image, const char *kernel_name,
                      const char *stride_name, const char *pad_name)
{
    int64_t extent = neap_fit_extent(fit, image), kernel = neap_fit_int(fit, kernel_name);
    int64_t stride = neap_fit_int(fit, stride_name), pad = neap_fit_int(fit, pad_name);
    int64_t span = extent + 2 * pad - kernel;
    bool ceil_mode = neap_fit_int(fit, "ceil_mode");
    if (pad > kernel / 2)
        neap_fit_fail(fit, "padding of %lld is more than half of its window of %lld",
                      (long long)pad, (long long)kernel);
    else if (span < 0)
        neap_fit_fail(fit, "an image of %lld rows or columns is smaller than its window of %lld",
                      (long long)extent, (long long)kernel);
    if (span < 0)
        return;
    int64_t windows = (span + (ceil_mode ? stride - 1 : 0)) / stride + 1;
    neap_fit_bind(fit, pooled, windows - (ceil_mode && (windows - 1) * stride >= extent + pad));
}

static void pool_rule(op_fit *fit)
{
    pool_side(fit, 'Y', 'H', "kernel_h", "stride_h", "pad_h");
    pool_side(fit, 'X', 'W', "kernel_w", "stride_w", "pad_w");
}

static int64_t window_of(const op_fit *fit)
{
    return neap_fit_int(fit, "kernel_h") * neap_fit_int(fit, "kernel_w");
}

/* Indices count a window's elements, or the image's if they are i64; P is their number. */
static void places_rule(op_fit *fit, neap_dtype dtype)
{
    pool_rule(fit);
    int64_t image = neap_count_mul(neap_fit_extent(fit, 'H'), neap_fit_extent(fit, 'W'));
    neap_fit_bind(fit, 'P', dtype == NEAP_I64 ? image : window_of(fit));
    if (dtype == NEAP_U8 && window_of(fit) > 256)
        neap_fit_fail(fit, "a window of %lld elements takes indices of more than a byte",
                      (long long)window_of(fit));
}

static void max_pool_rule(op_fit *fit)
{
    places_rule(fit, neap_fit_outputs(fit) > 1 ? neap_fit_output(fit, 1).dtype : NEAP_I64);
}

static void unpool_rule(op_fit *fit)
{
    places_rule(fit, neap_fit_input(fit, 1).dtype);
}

/* Positions are computed in 64 bits as products of two extents. */
static void resize_rule(op_fit *fit)
{
    for (const char *letter = "HWYX"; *letter; letter++)
        if (neap_fit_extent(fit, *letter) > INT32_MAX)
            neap_fit_fail(fit, "the image is too large");
}

/* ---- Layers ---- */

static neap_tensor add_pool(neap_network *net, const op_def *def, const char *name, neap_tensor x,
                            const neap_pool2d *pool, neap_dtype places)
{
    neap_attr attrs[N_POOL_ATTRS];
    pool_attrs(pool, attrs);
    net_call call = {.def = def,
                     .name = name,
                     .n_inputs = 1,
                     .inputs = &x,
                     .n_attrs = N_POOL_ATTRS,
                     .attrs = attrs,
                     .places = places};
    return neap_net_add_op(net, &call);
}

static neap_dtype index_type(const neap_network *net, const neap_pool2d *pool)
{
    if (net->kernels == NEAP_KERNELS_TORCH)
        return NEAP_I64;
    return neap_count_mul(pool->kernel_h, pool->kernel_w) <= 256 ? NEAP_U8 : NEAP_I32;
}

extern const op_def neap_op_max_pool2d, neap_op_avg_pool2d, neap_op_adaptive_avg_pool2d,
    neap_op_max_unpool2d, neap_op_upsample, neap_op_resize_nearest;

neap_tensor neap_net_max_pool2d(neap_network *net, const char *name, neap_tensor x,
                                const neap_pool2d *pool, neap_tensor *indices)
{
    neap_tensor y = add_pool(net, &neap_op_max_pool2d, name, x, pool, index_type(net, pool));
    if (indices)
        *indices = y == NEAP_NONE ? NEAP_NONE : y + 1;
    return y;
}

neap_tensor neap_net_avg_pool2d(neap_network *net, const char *name, neap_tensor x,
                                const neap_pool2d *pool)
{
    return add_pool(net, &neap_op_avg_pool2d, name, x, pool, NEAP_I64);
}

/* An image of x's batch and channels and of the given height and width. */
static neap_tensor resize(neap_network *net, net_call *call, int64_t height, int64_t width)
{
    neap_tensor x = call->inputs[0];
    call->rank = 4;
    call->shape = (int64_t[]){neap_net_dim(net, x, 0), neap_net_dim(net, x, 1), height, width};
    return neap_net_add_op(net, call);
}

neap_tensor neap_net_adaptive_avg_pool2d(neap_network *net, const char *name, neap_tensor x,
                                         int64_t out_h, int64_t out_w)
{
    net_call call = {
        .def = &neap_op_adaptive_avg_pool2d, .name = name, .n_inputs = 1, .inputs = &x};
    return resize(net, &call, out_h, out_w);
}

neap_tensor neap_net_resize_nearest(neap_network *net, const char *name, neap_tensor x,
                                    const neap_resize *resize)
{
    const net_tensor *input = neap_net_get(net, name, x);
    if (!input)
        return NEAP_NONE;
    if (input->rank != 4)
        return neap_net_fail(net, name, "an image is N x C x H x W");
    if (resize->scale_h < 0 || resize->scale_w < 0)
        return neap_net_fail(net, name, "a scale must be positive, or 0 for that of the extents");
    int64_t shape[] = {input->shape[0], input->shape[1], resize->out_h, resize->out_w};
    double by_h = (double)shape[2] / (double)input->shape[2];
    double by_w = (double)shape[3] / (double)input->shape[3];
    neap_attr attrs[] = {ATTR_REAL("scale_h", resize->scale_h > 0 ? resize->scale_h : by_h),
                         ATTR_REAL("scale_w", resize->scale_w > 0 ? resize->scale_w : by_w),
                         ATTR_INT("half_pixel", resize->half_pixel),
                         ATTR_INT("round", resize->round)};
    net_call call = {.def = &neap_op_resize_nearest,
                     .name = name,
                     .n_inputs = 1,
                     .inputs = &x,
                     .n_attrs = 4,
                     .attrs = attrs,
                     .rank = 4,
                     .shape = shape};
    return neap_net_add_op(net, &call);
}

neap_tensor neap_net_upsample(neap_network *net, const char *name, neap_tensor x, int64_t out_h,
                              int64_t out_w, bool align_corners)
{
    net_call call = {.def = &neap_op_upsample,
                     .name = name,
                     .n_inputs = 1,
                     .inputs = &x,
                     .n_attrs = 1,
                     .attrs = &ATTR_INT("align_corners", align_corners)};
    return resize(net, &call, out_h, out_w);
}

neap_tensor neap_net_max_unpool2d(neap_network *net, const char *name, neap_tensor x,
                                  neap_tensor indices, neap_tensor like, const neap_pool2d *pool)
{
    const net_tensor *output = neap_net_get(net, name, like);
    if (!output)
        return NEAP_NONE;
    neap_attr attrs[N_POOL_ATTRS];
    pool_attrs(pool, attrs);
    net_call call = {.def = &neap_op_max_unpool2d,
                     .name = name,
                     .n_inputs = 2,
                     .inputs = (neap_tensor[]){x, indices},
                     .n_attrs = N_POOL_ATTRS,
                     .attrs = attrs,
                     .rank = output->rank,
                     .shape = output->shape};
    return neap_net_add_op(net, &call);
}

/* ---- Backward ---- */

static void max_pool2d_backward(neap_network *net, const net_node *node)
{
    neap_grad_emit(net, node, "max_pool2d_bw", 2,
                   (neap_tensor[]){neap_grad_of(net, node, 0), node->outputs[1]}, 1, node->inputs);
}

static void max_unpool2d_backward(neap_network *net, const net_node *node)
{
    neap_grad_emit(net, node, "max_unpool2d_bw", 2,
                   (neap_tensor[]){neap_grad_of(net, node, 0), node->inputs[1]}, 1, node->inputs);
}

static void avg_pool2d_backward(neap_network *net, const net_node *node)
{
    neap_grad_emit_unary(net, node, "avg_pool2d_bw");
}

static void adaptive_avg_pool2d_backward(neap_network *net, const net_node *node)
{
    neap_grad_emit(net, node, "adaptive_avg_pool2d_bw", 1,
                   (neap_tensor[]){neap_grad_of(net, node, 0)}, 1, node->inputs);
}

static void resize_nearest_backward(neap_network *net, const net_node *node)
{
    neap_grad_emit(net, node, "resize_nearest_bw", 1, (neap_tensor[]){neap_grad_of(net, node, 0)},
                   1, node->inputs);
}

static void upsample_backward(neap_network *net, const net_node *node)
{
    neap_grad_emit_unary(net, node, "upsample_bw");
}

/* ---- Counts ---- */

/* One comparison or addition an element of each window, on the pooled side. */
static void count_window(const op_shapes *s, neap_op_count *count)
{
    int64_t window = neap_count_mul(neap_op_attr_int(s->op, "kernel_h", 1),
                                    neap_op_attr_int(s->op, "kernel_w", 1));
    count->flops = neap_count_mul(neap_count_elements(&s->outputs[0]), window);
}

static void count_window_bw(const op_shapes *s, neap_op_count *count)
{
    int64_t window = neap_count_mul(neap_op_attr_int(s->op, "kernel_h", 1),
                                    neap_op_attr_int(s->op, "kernel_w", 1));
    count->flops = neap_count_mul(neap_count_elements(&s->inputs[0]), window);
}

/* One addition a gradient that is scattered. */
static void count_scatter(const op_shapes *s, neap_op_count *count)
{
    count->flops = neap_count_elements(&s->inputs[0]);
}

/* Every element of the larger image is added once. */
static void count_larger(const op_shapes *s, neap_op_count *count)
{
    int64_t in = neap_count_elements(&s->inputs[0]), out = neap_count_elements(&s->outputs[0]);
    count->flops = in > out ? in : out;
}

/* Bilinear: four neighbours, seven operations, an element of the larger side. */
static void count_bilinear(const op_shapes *s, neap_op_count *count)
{
    count_larger(s, count);
    count->flops = neap_count_mul(7, count->flops);
}

#define POOL_ATTRS "kernel_h>0 kernel_w>0 stride_h>0 stride_w>0 pad_h pad_w ceil_mode"
static void count_nearest_bw(const op_shapes *s, neap_op_count *count)
{
    count->flops = neap_count_elements(&s->inputs[0]);
}

#define NEAREST "scale_h~ scale_w~ half_pixel round"
#define IMAGE_OP(name, operands, ...)                                                              \
    const op_def neap_op_##name = {.type = #name, .form = operands, __VA_ARGS__}

IMAGE_OP(max_pool2d, "x[N,C,H,W] -> y[N,C,Y,X] indices:places[N,C,Y,X]", .attrs = POOL_ATTRS,
         .rule = max_pool_rule, .count = count_window, .backward = max_pool2d_backward);
IMAGE_OP(max_pool2d_bw, "dy[N,C,Y,X] indices:places<P[N,C,Y,X] -> dx[N,C,H,W]", .attrs = POOL_ATTRS,
         .rule = unpool_rule, .count = count_scatter);
IMAGE_OP(max_unpool2d, "x[N,C,Y,X] indices:places<P[N,C,Y,X] -> y[N,C,H,W]", .attrs = POOL_ATTRS,
         .rule = unpool_rule, .backward = max_unpool2d_backward);
IMAGE_OP(max_unpool2d_bw, "dy[N,C,H,W] indices:places<P[N,C,Y,X] -> dx[N,C,Y,X]",
         .attrs = POOL_ATTRS, .rule = unpool_rule);
IMAGE_OP(avg_pool2d, "x[N,C,H,W] -> y[N,C,Y,X]", .attrs = POOL_ATTRS " count_include_pad",
         .rule = pool_rule, .count = count_window, .backward = avg_pool2d_backward);
IMAGE_OP(avg_pool2d_bw, "dy[N,C,Y,X] -> dx[N,C,H,W]", .attrs = POOL_ATTRS " count_include_pad",
         .rule = pool_rule, .count = count_window_bw);
IMAGE_OP(adaptive_avg_pool2d, "x[N,C,H,W] -> y[N,C,Y,X]", .rule = resize_rule,
         .count = count_larger, .backward = adaptive_avg_pool2d_backward);
IMAGE_OP(adaptive_avg_pool2d_bw, "dy[N,C,Y,X] -> dx[N,C,H,W]", .rule = resize_rule,
         .count = count_larger);
IMAGE_OP(upsample, "x[N,C,H,W] -> y[N,C,Y,X]", .attrs = "align_corners", .rule = resize_rule,
         .count = count_bilinear, .backward = upsample_backward);
IMAGE_OP(upsample_bw, "dy[N,C,Y,X] -> dx[N,C,H,W]", .attrs = "align_corners", .rule = resize_rule,
         .count = count_bilinear);
IMAGE_OP(resize_nearest, "x[N,C,H,W] -> y[N,C,Y,X]", .attrs = NEAREST, .rule = resize_rule,
         .backward = resize_nearest_backward);
IMAGE_OP(resize_nearest_bw, "dy[N,C,Y,X] -> dx[N,C,H,W]", .attrs = NEAREST, .rule = resize_rule,
         .count = count_nearest_bw);
