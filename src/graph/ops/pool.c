/*
 * Pooling, unpooling and resizing of images.
 *
 *     max_pool2d(x) -> y, indices          max_pool2d_bw(dy, indices) -> dx
 *     avg_pool2d(x) -> y                   avg_pool2d_bw(dy) -> dx
 *     adaptive_avg_pool2d(x) -> y          adaptive_avg_pool2d_bw(dy) -> dx
 *     max_unpool2d(x, indices) -> y        max_unpool2d_bw(dy, indices) -> dx
 *     upsample(x) -> y                     upsample_bw(dy) -> dx
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

/* As PyTorch: in ceil mode a last window must begin inside the image or its left padding. */
static int64_t pool_extent(int64_t extent, int64_t kernel, int64_t stride, int64_t pad,
                           bool ceil_mode)
{
    int64_t span = extent + 2 * pad - kernel;
    if (span < 0)
        return 0;
    int64_t windows = (span + (ceil_mode ? stride - 1 : 0)) / stride + 1;
    if (ceil_mode && (windows - 1) * stride >= extent + pad)
        windows--;
    return windows;
}

/* Below 2^31, so that extents computed from them do not overflow. */
static bool bad_side(int64_t kernel, int64_t stride, int64_t pad)
{
    return kernel < 1 || kernel > INT32_MAX || stride < 0 || stride > INT32_MAX || pad < 0 ||
           pad > kernel / 2;
}

static const net_tensor *get_image(neap_network *net, const char *name, neap_tensor x)
{
    const net_tensor *input = neap_net_get(net, name, x);
    if (input && input->rank != 4) {
        neap_net_fail(net, name, "an image is N x C x H x W, not rank %u", input->rank);
        return NULL;
    }
    return input;
}

/* The pooled shape; false after an error. */
static bool pool_shape(neap_network *net, const char *name, neap_tensor x, const neap_pool2d *pool,
                       int64_t shape[4])
{
    const net_tensor *input = get_image(net, name, x);
    if (!input)
        return false;
    if (bad_side(pool->kernel_h, pool->stride_h, pool->pad_h) ||
        bad_side(pool->kernel_w, pool->stride_w, pool->pad_w))
        return neap_net_fail(net, name,
                             "a pool's kernel must be positive, its padding at most half"),
               false;
    memcpy(shape, input->shape, 4 * sizeof *shape);
    shape[2] = pool_extent(input->shape[2], pool->kernel_h,
                           stride_of(pool->stride_h, pool->kernel_h), pool->pad_h, pool->ceil_mode);
    shape[3] = pool_extent(input->shape[3], pool->kernel_w,
                           stride_of(pool->stride_w, pool->kernel_w), pool->pad_w, pool->ceil_mode);
    if (shape[2] < 1 || shape[3] < 1)
        return neap_net_fail(net, name,
                             "a %lld x %lld image is smaller than its %lld x %lld window",
                             (long long)input->shape[2], (long long)input->shape[3],
                             (long long)pool->kernel_h, (long long)pool->kernel_w),
               false;
    return true;
}

static neap_tensor add_image_op(neap_network *net, const op_def *def, const char *name,
                                neap_tensor x, uint32_t n_attrs, const neap_attr *attrs,
                                const int64_t shape[4])
{
    net_call call = {
        .def = def, .name = name, .n_inputs = 1, .inputs = &x, .n_attrs = n_attrs, .attrs = attrs};
    return neap_net_add_node(net, &call, net->tensors[x].dtype, 4, shape);
}

static neap_dtype index_type(const neap_network *net, const neap_pool2d *pool)
{
    if (net->kernels == NEAP_KERNELS_TORCH)
        return NEAP_I64;
    return neap_count_mul(pool->kernel_h, pool->kernel_w) <= 256 ? NEAP_U8 : NEAP_I32;
}

extern const op_def neap_op_max_pool2d, neap_op_avg_pool2d, neap_op_adaptive_avg_pool2d,
    neap_op_max_unpool2d, neap_op_upsample;

neap_tensor neap_net_max_pool2d(neap_network *net, const char *name, neap_tensor x,
                                const neap_pool2d *pool, neap_tensor *indices)
{
    int64_t shape[4];
    neap_attr attrs[N_POOL_ATTRS];
    if (indices)
        *indices = NEAP_NONE;
    if (!pool_shape(net, name, x, pool, shape))
        return NEAP_NONE;
    pool_attrs(pool, attrs);
    neap_tensor y = add_image_op(net, &neap_op_max_pool2d, name, x, N_POOL_ATTRS, attrs, shape);
    neap_tensor saved = neap_net_add_output(net, "indices", index_type(net, pool), 4, shape);
    if (indices)
        *indices = saved;
    return y;
}

neap_tensor neap_net_avg_pool2d(neap_network *net, const char *name, neap_tensor x,
                                const neap_pool2d *pool)
{
    int64_t shape[4];
    neap_attr attrs[N_POOL_ATTRS];
    if (!pool_shape(net, name, x, pool, shape))
        return NEAP_NONE;
    pool_attrs(pool, attrs);
    return add_image_op(net, &neap_op_avg_pool2d, name, x, N_POOL_ATTRS, attrs, shape);
}

neap_tensor neap_net_adaptive_avg_pool2d(neap_network *net, const char *name, neap_tensor x,
                                         int64_t out_h, int64_t out_w)
{
    const net_tensor *input = get_image(net, name, x);
    if (!input)
        return NEAP_NONE;
    int64_t shape[4] = {input->shape[0], input->shape[1], out_h, out_w};
    return add_image_op(net, &neap_op_adaptive_avg_pool2d, name, x, 0, NULL, shape);
}

neap_tensor neap_net_max_unpool2d(neap_network *net, const char *name, neap_tensor x,
                                  neap_tensor indices, neap_tensor like, const neap_pool2d *pool)
{
    const net_tensor *input = get_image(net, name, x), *places = get_image(net, name, indices),
                     *output = get_image(net, name, like);
    if (!input || !places || !output)
        return NEAP_NONE;
    int64_t pooled[4], shape[4];
    memcpy(shape, output->shape, sizeof shape);
    if (!pool_shape(net, name, like, pool, pooled))
        return NEAP_NONE;
    if (memcmp(input->shape, places->shape, sizeof pooled) != 0 ||
        memcmp(input->shape, pooled, sizeof pooled) != 0)
        return neap_net_fail(net, name, "the input must have the shape of the pooled image");
    if (places->dtype != NEAP_U8 && places->dtype != NEAP_I32 && places->dtype != NEAP_I64)
        return neap_net_fail(net, name, "the indices must be those of a max-pool");
    neap_attr attrs[N_POOL_ATTRS];
    pool_attrs(pool, attrs);
    net_call call = {.def = &neap_op_max_unpool2d,
                     .name = name,
                     .n_inputs = 2,
                     .inputs = (neap_tensor[]){x, indices},
                     .n_attrs = N_POOL_ATTRS,
                     .attrs = attrs};
    return neap_net_add_node(net, &call, input->dtype, 4, shape);
}

neap_tensor neap_net_upsample(neap_network *net, const char *name, neap_tensor x, int64_t out_h,
                              int64_t out_w, bool align_corners)
{
    const net_tensor *input = get_image(net, name, x);
    if (!input)
        return NEAP_NONE;
    int64_t shape[4] = {input->shape[0], input->shape[1], out_h, out_w};
    return add_image_op(net, &neap_op_upsample, name, x, 1,
                        &ATTR_INT("align_corners", align_corners), shape);
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
    neap_grad_emit(net, node, "avg_pool2d_bw", 1, (neap_tensor[]){neap_grad_of(net, node, 0)}, 1,
                   node->inputs);
}

static void adaptive_avg_pool2d_backward(neap_network *net, const net_node *node)
{
    neap_grad_emit(net, node, "adaptive_avg_pool2d_bw", 1,
                   (neap_tensor[]){neap_grad_of(net, node, 0)}, 1, node->inputs);
}

static void upsample_backward(neap_network *net, const net_node *node)
{
    neap_grad_emit(net, node, "upsample_bw", 1, (neap_tensor[]){neap_grad_of(net, node, 0)}, 1,
                   node->inputs);
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

const op_def neap_op_max_pool2d = {
    .type = "max_pool2d", .count = count_window, .backward = max_pool2d_backward};
const op_def neap_op_max_pool2d_bw = {.type = "max_pool2d_bw", .count = count_scatter};
const op_def neap_op_avg_pool2d = {
    .type = "avg_pool2d", .count = count_window, .backward = avg_pool2d_backward};
const op_def neap_op_avg_pool2d_bw = {.type = "avg_pool2d_bw", .count = count_window_bw};
const op_def neap_op_adaptive_avg_pool2d = {
    .type = "adaptive_avg_pool2d", .count = count_larger, .backward = adaptive_avg_pool2d_backward};
const op_def neap_op_adaptive_avg_pool2d_bw = {.type = "adaptive_avg_pool2d_bw",
                                               .count = count_larger};
const op_def neap_op_max_unpool2d = {.type = "max_unpool2d", .backward = max_unpool2d_backward};
const op_def neap_op_max_unpool2d_bw = {.type = "max_unpool2d_bw"};
const op_def neap_op_upsample = {
    .type = "upsample", .count = count_bilinear, .backward = upsample_backward};
const op_def neap_op_upsample_bw = {.type = "upsample_bw", .count = count_bilinear};
