/* Random networks around one op: one function per kind. */
#include "random_ops.h"

#include "op_cases.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

neap_graph *random_op_graph(const random_op *op, random_source *random)
{
    neap_network *net;
    neap_graph *graph;
    neap_diag diag = {0};
    assert_int_equal(neap_network_create(NULL, op->name, NEAP_F32, &net, &diag), NEAP_OK);
    neap_network_set_kernels(net, random_below(random, 2) ? NEAP_KERNELS_TORCH : NEAP_KERNELS_LEAN);
    neap_tensor y = op->build(net, random);
    if (neap_net_rank(net, y) != 1 || neap_net_dim(net, y, 0) != 1) {
        y = neap_net_reshape(net, "flat", y, SHAPE(-1));
        neap_tensor weight =
            neap_net_parameter(net, "probe.weight", SHAPE(1, neap_net_dim(net, y, 0)));
        y = neap_net_linear_with(net, "probe", y, weight, NEAP_NONE);
    }
    if (neap_network_finish(net, y, NULL, &graph, &diag) != NEAP_OK)
        fail_msg("%s: %s", op->name, diag.message);
    neap_network_destroy(net);
    return graph;
}

/* ---- Numbers ---- */

static int64_t from_to(random_source *random, int64_t low, int64_t high)
{
    return low + random_below(random, (uint32_t)(high - low + 1));
}

static bool coin(random_source *random)
{
    return random_below(random, 2);
}

static bool one_in(random_source *random, uint32_t chances)
{
    return random_below(random, chances) == 0;
}

/* Odd ones, ones that fill vectors, and ones that just do not. */
static int64_t channels(random_source *random)
{
    static const int64_t all[] = {1, 2, 3, 4, 5, 8, 16, 17, 24, 32, 33, 48, 64};
    return all[random_below(random, sizeof all / sizeof *all)];
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* ---- Tensors ---- */

/* A tensor that is neither parameter nor data. */
static neap_tensor activation(neap_network *net, const char *name, uint32_t rank,
                              const int64_t *shape)
{
    neap_net_enter(net, "%s", name);
    neap_tensor x = neap_net_parameter(net, "source", rank, shape);
    x = neap_net_scale(net, "copy", x, 1, 0);
    neap_net_leave(net);
    return x;
}

static neap_tensor image(neap_network *net, random_source *random, int64_t depth, int64_t height,
                         int64_t width)
{
    return activation(net, "x", SHAPE(from_to(random, 1, 3), depth, height, width));
}

static neap_tensor some_image(neap_network *net, random_source *random)
{
    int64_t depth = channels(random), side = depth > 16 ? 9 : 20;
    return image(net, random, depth, from_to(random, 1, side), from_to(random, 1, side));
}

/* Up to 4 dimensions of a few elements; now and then a long vector or an image. */
static neap_tensor some_tensor(neap_network *net, random_source *random, const char *name)
{
    int64_t shape[4];
    uint32_t rank = (uint32_t)from_to(random, 1, 4);
    for (uint32_t d = 0; d < rank; d++)
        shape[d] = from_to(random, 1, 9);
    if (one_in(random, 4))
        shape[rank - 1] = from_to(random, 1, 700);
    return activation(net, name, rank, shape);
}

static neap_tensor another_like(neap_network *net, const char *name, neap_tensor x)
{
    int64_t shape[NEAP_MAX_RANK];
    for (uint32_t d = 0; d < neap_net_rank(net, x); d++)
        shape[d] = neap_net_dim(net, x, d);
    return activation(net, name, neap_net_rank(net, x), shape);
}

/* ---- Convolution ---- */

static int64_t kernel_side(random_source *random)
{
    static const int64_t all[] = {1, 1, 2, 3, 3, 3, 4, 5, 7};
    return all[random_below(random, sizeof all / sizeof *all)];
}

static neap_conv2d some_conv(random_source *random)
{
    neap_conv2d conv = {.kernel_h = kernel_side(random), .bias = coin(random)};
    conv.kernel_w = coin(random) ? conv.kernel_h : kernel_side(random);
    conv.stride_h = from_to(random, 1, 3);
    conv.stride_w = coin(random) ? conv.stride_h : from_to(random, 1, 3);
    conv.pad_h = from_to(random, 0, conv.kernel_h / 2 + one_in(random, 4));
    conv.pad_w = from_to(random, 0, conv.kernel_w / 2 + one_in(random, 4));
    return conv;
}

static neap_tensor conv2d_of(neap_network *net, random_source *random, neap_conv2d conv,
                             int64_t depth)
{
    int64_t dilation = conv.dilation ? conv.dilation : 1;
    int64_t height = dilation * (conv.kernel_h - 1) + 1 - 2 * conv.pad_h;
    int64_t width = dilation * (conv.kernel_w - 1) + 1 - 2 * conv.pad_w;
    neap_tensor x = image(net, random, depth, (height < 1 ? 1 : height) + from_to(random, 0, 11),
                          (width < 1 ? 1 : width) + from_to(random, 0, 11));
    return neap_net_conv2d(net, "op", x, &conv);
}

static neap_tensor conv2d(neap_network *net, random_source *random)
{
    neap_conv2d conv = some_conv(random);
    conv.channels = channels(random);
    conv.dilation = one_in(random, 3) ? from_to(random, 2, 3) : 1;
    conv.relu = one_in(random, 3);
    return conv2d_of(net, random, conv, channels(random));
}

static neap_tensor conv2d_groups(neap_network *net, random_source *random)
{
    neap_conv2d conv = some_conv(random);
    conv.groups = from_to(random, 2, 4);
    conv.channels = conv.groups * from_to(random, 1, 9);
    conv.dilation = from_to(random, 1, 2);
    return conv2d_of(net, random, conv, conv.groups * from_to(random, 1, 9));
}

static neap_tensor conv2d_depthwise(neap_network *net, random_source *random)
{
    neap_conv2d conv = some_conv(random);
    conv.groups = channels(random);
    conv.channels = conv.groups * (one_in(random, 4) ? 2 : 1);
    conv.relu = one_in(random, 4);
    return conv2d_of(net, random, conv, conv.groups);
}

/* The shortcuts of residual networks. Where rows and columns have other strides, or channels do not
   fill vectors, oneDNN 2.6 writes past its scratch. */
static neap_tensor conv2d_pointwise(neap_network *net, random_source *random)
{
    const neap_conv2d conv = {.channels = 16,
                              .kernel_h = 1,
                              .kernel_w = 1,
                              .stride_h = coin(random) ? 1 : 2,
                              .stride_w = coin(random) ? 3 : 2,
                              .bias = coin(random)};
    neap_tensor x = activation(net, "x", SHAPE(1, from_to(random, 4, 8), 9, 12));
    return neap_net_conv2d(net, "op", x, &conv);
}

/* No gradient for data. */
static neap_tensor conv2d_on_data(neap_network *net, random_source *random)
{
    neap_conv2d conv = {.channels = channels(random), .kernel_h = 3, .kernel_w = 3, .bias = true};
    neap_tensor x = neap_net_input(net, "x", NEAP_F32, SHAPE(2, 3, from_to(random, 3, 20), 14));
    return neap_net_conv2d(net, "op", x, &conv);
}

static neap_tensor conv_transpose2d(neap_network *net, random_source *random)
{
    neap_conv2d conv = some_conv(random);
    conv.pad_h = least(conv.pad_h, (conv.kernel_h - 1) / 2);
    conv.pad_w = least(conv.pad_w, (conv.kernel_w - 1) / 2);
    conv.groups = one_in(random, 3) ? from_to(random, 2, 3) : 1;
    conv.channels = conv.groups * from_to(random, 1, 17);
    conv.output_pad = random_below(random, (uint32_t)least(conv.stride_h, conv.stride_w));
    neap_tensor x = image(net, random, conv.groups * from_to(random, 1, 17), from_to(random, 1, 9),
                          from_to(random, 1, 9));
    return neap_net_conv_transpose2d(net, "op", x, &conv);
}

/* ---- Linear ---- */

static neap_tensor linear(neap_network *net, random_source *random)
{
    neap_tensor x = some_tensor(net, random, "x");
    return neap_net_linear(net, "op", x, channels(random), coin(random));
}

/* One weight, read twice. */
static neap_tensor linear_shared(neap_network *net, random_source *random)
{
    int64_t width = channels(random);
    neap_tensor weight = neap_net_parameter(net, "w", SHAPE(width, width));
    neap_tensor bias = neap_net_parameter(net, "b", SHAPE(width));
    neap_tensor x = activation(net, "x", SHAPE(from_to(random, 1, 40), width));
    x = neap_net_linear_with(net, "first", x, weight, coin(random) ? bias : NEAP_NONE);
    return neap_net_linear_with(net, "second", x, weight, bias);
}

/* Up to 3 dimensions of batches. */
static neap_tensor matmul(neap_network *net, random_source *random)
{
    int64_t a[5], b[5], rows = channels(random), columns = channels(random);
    int64_t depth = one_in(random, 4) ? from_to(random, 1, 300) : channels(random);
    uint32_t batches = (uint32_t)from_to(random, 0, 3);
    bool turn_a = coin(random), turn_b = coin(random);
    for (uint32_t d = 0; d < batches; d++)
        a[d] = b[d] = from_to(random, 1, 4);
    a[batches + turn_a] = rows;
    a[batches + !turn_a] = depth;
    b[batches + turn_b] = depth;
    b[batches + !turn_b] = columns;
    return neap_net_matmul(net, "op", activation(net, "a", batches + 2, a),
                           activation(net, "b", batches + 2, b), turn_a, turn_b);
}

static neap_tensor softmax(neap_network *net, random_source *random)
{
    neap_tensor x = one_in(random, 6) ? activation(net, "x", SHAPE(2, from_to(random, 900, 1300)))
                                      : some_tensor(net, random, "x");
    uint32_t axis = random_below(random, neap_net_rank(net, x));
    return neap_net_softmax(net, "op", neap_net_scale(net, "wide", x, 4, 0), axis);
}

/* ---- Elementwise ---- */

static neap_tensor curves(neap_network *net, random_source *random)
{
    neap_tensor x = some_tensor(net, random, "x");
    switch (random_below(random, 6)) {
    case 0:
        return neap_net_relu(net, "op", x);
    case 1:
        return neap_net_relu6(net, "op", neap_net_scale(net, "wide", x, 6, 3));
    case 2:
        return neap_net_sigmoid(net, "op", x);
    case 3:
        return neap_net_tanh(net, "op", x);
    case 4:
        return neap_net_gelu(net, "op", neap_net_scale(net, "wide", x, 3, 0), coin(random));
    default:
        return neap_net_dropout(net, "op", x, 0.1 * (double)from_to(random, 1, 9));
    }
}

/* Every function of graph/unary.def; those that need it get positive numbers. */
typedef neap_tensor function(neap_network *net, const char *name, neap_tensor x);

#define FLAT_0(type, ...)
#define UNARY_0(type, ...)
#define UNARY_1(type, a, ...)                                                                      \
    static neap_tensor some_##type(neap_network *net, const char *name, neap_tensor x)             \
    {                                                                                              \
        return neap_net_##type(net, name, x, 0.375);                                               \
    }
#define UNARY_2(type, a, b, ...)                                                                   \
    static neap_tensor some_##type(neap_network *net, const char *name, neap_tensor x)             \
    {                                                                                              \
        return neap_net_##type(net, name, x, 0.25, 0.625);                                         \
    }
#include "graph/unary.def"

static const struct {
    const char *name;
    function *layer;
    bool flat;
} functions[] = {
#define FLAT_0(type, ...)     {#type, neap_net_##type, true},
#define UNARY_0(type, ...)    {#type, neap_net_##type, false},
#define UNARY_1(type, a, ...) {#type, some_##type, false},
#define UNARY_2(type, a, ...) {#type, some_##type, false},
#include "graph/unary.def"
};

static neap_tensor function_of(neap_network *net, random_source *random)
{
    size_t i = random_below(random, sizeof functions / sizeof *functions);
    bool positive = strcmp(functions[i].name, "log") == 0 ||
                    strcmp(functions[i].name, "sqrt") == 0 ||
                    strcmp(functions[i].name, "reciprocal") == 0;
    neap_tensor x = some_tensor(net, random, "x");
    x = neap_net_scale(net, "wide", positive ? neap_net_sigmoid(net, "s", x) : x, 3,
                       positive ? 0.25 : 0);
    neap_tensor y = functions[i].layer(net, "op", x);
    return functions[i].flat ? neap_net_mul(net, "product", x, y) : y;
}

static neap_tensor powers(neap_network *net, random_source *random)
{
    static const double all[] = {0.5, 1, 2, 3, -1};
    neap_tensor x = some_tensor(net, random, "x");
    double power = all[random_below(random, 5)];
    if (power != 2 && power != 3) /* those take negative numbers as well */
        x = neap_net_scale(net, "positive", neap_net_sigmoid(net, "s", x), 1, 0.5);
    return neap_net_pow(net, "op", x, power);
}

/* Of two operands, where the second may repeat. */
static neap_tensor pairs(neap_network *net, random_source *random)
{
    neap_tensor a = some_tensor(net, random, "a");
    uint32_t rank = neap_net_rank(net, a), keep = (uint32_t)from_to(random, 1, rank);
    int64_t shape[NEAP_MAX_RANK];
    for (uint32_t d = 0; d < keep; d++)
        shape[d] = neap_net_dim(net, a, rank - keep + d);
    neap_tensor b = activation(net, "b", keep, shape);
    switch (random_below(random, 7)) {
    case 0:
        return neap_net_sub(net, "op", a, b);
    case 1:
        return neap_net_mul(net, "op", a, b);
    case 2:
        b = neap_net_scale(net, "far", b, 1, 3);
        return neap_net_div(net, "op", a, b);
    case 3:
        return neap_net_max(net, "op", a, b);
    case 4:
        return neap_net_min(net, "op", a, b);
    case 5:
        return neap_net_prelu(net, "op", a, b);
    default:
        return neap_net_add(net, "op", a, b);
    }
}

static neap_tensor products(neap_network *net, random_source *random)
{
    neap_tensor a = some_tensor(net, random, "a");
    neap_tensor b = one_in(random, 4) ? a : another_like(net, "b", a);
    return neap_net_scale(net, "scale", neap_net_mul(net, "op", a, b), -1.5, 0.25);
}

/* ---- Normalisation ---- */

static neap_tensor batch_norm(neap_network *net, random_source *random)
{
    if (one_in(random, 4))
        return neap_net_batch_norm(
            net, "op", activation(net, "x", SHAPE(from_to(random, 2, 40), channels(random))), 1e-5);
    neap_tensor x =
        image(net, random, channels(random), from_to(random, 2, 9), from_to(random, 2, 17));
    return neap_net_batch_norm(net, "op", x, coin(random) ? 1e-5 : 1e-3);
}

static neap_tensor layer_norm(neap_network *net, random_source *random)
{
    int64_t width = one_in(random, 3) ? from_to(random, 2, 300) : channels(random) + 1;
    neap_tensor x = coin(random) ? activation(net, "x", SHAPE(from_to(random, 1, 5), 3, width))
                                 : activation(net, "x", SHAPE(from_to(random, 1, 40), width));
    return neap_net_layer_norm(net, "op", x, coin(random) ? 1e-5 : 1e-3);
}

/* Matrices and sequences too; groups of one channel, and one of all. */
static neap_tensor group_norm(neap_network *net, random_source *random)
{
    int64_t groups = coin(random) ? 1 : from_to(random, 2, 8), batch = from_to(random, 1, 3);
    int64_t depth = groups * from_to(random, 1, 9);
    neap_tensor x = one_in(random, 4) ? activation(net, "x", SHAPE(batch, depth + groups))
                    : one_in(random, 4)
                        ? activation(net, "x", SHAPE(batch, depth, from_to(random, 2, 40)))
                        : image(net, random, depth, from_to(random, 2, 9), from_to(random, 2, 17));
    return neap_net_group_norm(net, "op", x, groups, coin(random) ? 1e-5 : 1e-3);
}

static neap_tensor norm_on_data(neap_network *net, random_source *random)
{
    neap_tensor x = neap_net_input(net, "x", NEAP_F32, SHAPE(5, channels(random) + 1));
    return coin(random) ? neap_net_batch_norm(net, "op", x, 1e-3)
                        : neap_net_layer_norm(net, "op", x, 1e-3);
}

static neap_tensor rms_norm(neap_network *net, random_source *random)
{
    int64_t width = one_in(random, 4) ? from_to(random, 2, 5000) : channels(random) + 1;
    neap_tensor x = activation(net, "x", SHAPE(from_to(random, 1, 4), 3, width));
    return neap_net_rms_norm(net, "op", x, coin(random) ? 1e-5 : 1e-3);
}

static neap_tensor frozen_norm(neap_network *net, random_source *random)
{
    int64_t depth = channels(random);
    neap_tensor x = one_in(random, 4)
                        ? activation(net, "x", SHAPE(from_to(random, 2, 40), depth))
                        : image(net, random, depth, from_to(random, 2, 9), from_to(random, 2, 30));
    neap_tensor deviation = neap_net_input(net, "deviation", NEAP_F32, SHAPE(depth));
    return neap_net_batch_norm_frozen(net, "op", x, neap_net_parameter(net, "w", SHAPE(depth)),
                                      neap_net_parameter(net, "b", SHAPE(depth)),
                                      neap_net_input(net, "mean", NEAP_F32, SHAPE(depth)),
                                      neap_net_pow(net, "variance", deviation, 2), 1e-1);
}

/* ---- Pooling ---- */

static neap_pool2d some_pool(random_source *random)
{
    neap_pool2d pool = {.kernel_h = from_to(random, 1, 4), .ceil_mode = coin(random)};
    pool.kernel_w = coin(random) ? pool.kernel_h : from_to(random, 1, 4);
    pool.stride_h = from_to(random, 1, 3);
    pool.stride_w = coin(random) ? pool.stride_h : from_to(random, 1, 3);
    pool.pad_h = from_to(random, 0, pool.kernel_h / 2);
    pool.pad_w = from_to(random, 0, pool.kernel_w / 2);
    pool.count_include_pad = coin(random);
    return pool;
}

static neap_tensor pooled_image(neap_network *net, random_source *random, const neap_pool2d *pool)
{
    return image(net, random, channels(random), pool->kernel_h + from_to(random, 0, 9),
                 pool->kernel_w + from_to(random, 0, 9));
}

/* After a ReLU there are ties. */
static neap_tensor max_pool2d(neap_network *net, random_source *random)
{
    neap_pool2d pool = some_pool(random);
    if (one_in(random, 8))
        pool = (neap_pool2d){.kernel_h = 17, .kernel_w = 16}; /* more than a byte can count */
    neap_tensor x = pooled_image(net, random, &pool);
    return neap_net_max_pool2d(net, "op", coin(random) ? x : neap_net_relu(net, "relu", x), &pool,
                               NULL);
}

static neap_tensor avg_pool2d(neap_network *net, random_source *random)
{
    neap_pool2d pool = some_pool(random);
    return neap_net_avg_pool2d(net, "op", pooled_image(net, random, &pool), &pool);
}

static neap_tensor max_unpool2d(neap_network *net, random_source *random)
{
    neap_pool2d pool = {.kernel_h = from_to(random, 1, 3), .kernel_w = from_to(random, 2, 3)};
    neap_tensor indices, big = pooled_image(net, random, &pool);
    neap_tensor small = neap_net_max_pool2d(net, "pool", big, &pool, &indices);
    neap_tensor x = neap_net_mul(net, "product", small, another_like(net, "s", small));
    return neap_net_max_unpool2d(net, "op", x, indices, big, &pool);
}

static neap_tensor resample(neap_network *net, random_source *random)
{
    neap_tensor x = some_image(net, random);
    int64_t height = from_to(random, 1, 15), width = from_to(random, 1, 15);
    if (coin(random))
        return neap_net_upsample(net, "op", x, height, width, coin(random));
    if (one_in(random, 3))
        height = width = 1;
    return neap_net_adaptive_avg_pool2d(net, "op", x, height, width);
}

static neap_tensor nearest(neap_network *net, random_source *random)
{
    neap_tensor x = some_image(net, random);
    neap_resize resize = {.out_h = from_to(random, 1, 25),
                          .out_w = from_to(random, 1, 25),
                          .half_pixel = coin(random),
                          .round = coin(random)};
    if (coin(random))
        resize.scale_h = 0.3 * (double)from_to(random, 1, 9);
    return neap_net_resize_nearest(net, "op", x, &resize);
}

/* ---- Shape ---- */

static neap_tensor concat(neap_network *net, random_source *random)
{
    neap_tensor parts[5];
    uint32_t count = (uint32_t)from_to(random, 1, 5), rank = (uint32_t)from_to(random, 1, 4);
    uint32_t axis = random_below(random, rank);
    int64_t shape[4];
    for (uint32_t d = 0; d < rank; d++)
        shape[d] = from_to(random, 1, 8);
    for (uint32_t i = 0; i < count; i++) {
        neap_net_enter(net, "%u", i);
        shape[axis] = from_to(random, 1, 20);
        parts[i] = activation(net, "part", rank, shape);
        neap_net_leave(net);
    }
    return neap_net_concat(net, "op", count, parts, axis);
}

static neap_tensor slice(neap_network *net, random_source *random)
{
    neap_tensor x = some_tensor(net, random, "x");
    uint32_t axis = random_below(random, neap_net_rank(net, x));
    int64_t extent = neap_net_dim(net, x, axis), begin = from_to(random, 0, extent - 1);
    x = neap_net_slice(net, "op", x, axis, begin, from_to(random, begin + 1, extent));
    return neap_net_tanh(net, "tanh", x);
}

static neap_tensor split(neap_network *net, random_source *random)
{
    neap_tensor parts[3];
    neap_tensor x =
        activation(net, "x", SHAPE(from_to(random, 1, 9), 3 * from_to(random, 1, 9), 4));
    neap_net_split(net, "op", x, 1, 3, parts);
    neap_tensor y = neap_net_mul(net, "two", parts[0], parts[1]);
    return neap_net_add(net, "three", y, parts[2]);
}

static neap_tensor transpose(neap_network *net, random_source *random)
{
    neap_tensor x = some_tensor(net, random, "x");
    uint32_t rank = neap_net_rank(net, x);
    return neap_net_transpose(net, "op", x, random_below(random, rank), random_below(random, rank));
}

static neap_tensor expand(neap_network *net, random_source *random)
{
    int64_t shape[4];
    uint32_t rank = (uint32_t)from_to(random, 2, 4), more = (uint32_t)from_to(random, 1, rank - 1);
    for (uint32_t d = 0; d < rank; d++)
        shape[d] = from_to(random, 1, 17);
    neap_tensor x = activation(net, "x", rank - more, shape + more);
    return neap_net_expand(net, "op", x, rank, shape);
}

/* Some dimensions of x are 1, and leading ones may be missing. */
static neap_tensor broadcast(neap_network *net, random_source *random)
{
    int64_t shape[4], whole[4];
    uint32_t rank = (uint32_t)from_to(random, 1, 4), lead = random_below(random, rank);
    for (uint32_t d = 0; d < rank; d++) {
        whole[d] =
            d + 1 == rank && one_in(random, 3) ? from_to(random, 1, 300) : from_to(random, 1, 9);
        if (d >= lead)
            shape[d - lead] = coin(random) ? 1 : whole[d];
    }
    return neap_net_broadcast(net, "op", activation(net, "x", rank - lead, shape), rank, whole);
}

static neap_tensor over_axes(neap_network *net, random_source *random)
{
    neap_tensor x = one_in(random, 6) ? activation(net, "x", SHAPE(3, from_to(random, 1, 3), 2100))
                    : one_in(random, 6)
                        ? activation(net, "x", SHAPE(from_to(random, 1000, 1400), 3, 2))
                        : some_tensor(net, random, "x");
    uint32_t axes[4], count = 0, rank = neap_net_rank(net, x);
    for (uint32_t d = 0; d < rank; d++)
        if (coin(random))
            axes[count++] = d;
    if (count == 0)
        axes[count++] = random_below(random, rank);
    bool keep = coin(random);
    switch (random_below(random, 5)) {
    case 0:
        return neap_net_sum_axes(net, "op", x, count, axes, keep);
    case 1:
        return neap_net_mean_axes(net, "op", x, count, axes, keep);
    case 2:
        return neap_net_max_axes(net, "op", neap_net_relu(net, "ties", x), count, axes, keep);
    case 3:
        return neap_net_min_axes(net, "op", x, count, axes, keep);
    default: /* near 1, and sometimes 0 */
        x = neap_net_scale(net, "near", x, 0.1, 1);
        x = coin(random) ? x : neap_net_mul(net, "some", x, neap_net_round(net, "zero", x));
        return neap_net_prod_axes(net, "op", x, count, axes, keep);
    }
}

static neap_tensor permute(neap_network *net, random_source *random)
{
    neap_tensor x = coin(random) ? some_tensor(net, random, "x")
                                 : activation(net, "x", SHAPE(2, from_to(random, 1, 40), 3, 33));
    uint32_t axes[4], rank = neap_net_rank(net, x);
    for (uint32_t d = 0; d < rank; d++)
        axes[d] = d;
    for (uint32_t d = rank; d > 1; d--) {
        uint32_t other = random_below(random, d), axis = axes[d - 1];
        axes[d - 1] = axes[other];
        axes[other] = axis;
    }
    return neap_net_permute(net, "op", x, axes);
}

static neap_tensor gather(neap_network *net, random_source *random)
{
    int64_t shape[2] = {from_to(random, 1, 9), from_to(random, 1, one_in(random, 4) ? 200 : 9)};
    neap_tensor x = some_tensor(net, random, "x");
    uint32_t axis = random_below(random, neap_net_rank(net, x));
    neap_tensor indices = neap_net_input(net, "indices", coin(random) ? NEAP_I64 : NEAP_I32,
                                         (uint32_t)from_to(random, 1, 2), shape);
    return neap_net_gather(net, "op", x, indices, axis);
}

static neap_tensor where(neap_network *net, random_source *random)
{
    neap_tensor a = some_tensor(net, random, "a"), b = another_like(net, "b", a);
    uint32_t rank = neap_net_rank(net, a), keep = (uint32_t)from_to(random, 1, rank);
    int64_t shape[NEAP_MAX_RANK];
    for (uint32_t d = 0; d < keep; d++)
        shape[d] = neap_net_dim(net, a, rank - keep + d);
    return neap_net_where(net, "op", neap_net_input(net, "condition", NEAP_U8, keep, shape), a, b);
}

/* Some sides grow, some shrink. */
static neap_tensor pad(neap_network *net, random_source *random)
{
    neap_tensor x = some_tensor(net, random, "x");
    int64_t before[4], after[4];
    for (uint32_t d = 0; d < neap_net_rank(net, x); d++) {
        int64_t extent = neap_net_dim(net, x, d);
        before[d] = from_to(random, -(extent - 1) / 2, 5);
        after[d] = one_in(random, 3) ? 0 : from_to(random, -(extent - 1) / 2, 5);
    }
    return neap_net_pad(net, "op", x, before, after, coin(random) ? 0 : -1.5);
}

static neap_tensor pad2d(neap_network *net, random_source *random)
{
    return neap_net_pad2d(net, "op", some_image(net, random), from_to(random, 0, 3),
                          from_to(random, 0, 3), from_to(random, 0, 3), from_to(random, 0, 3));
}

/* ---- Sequences ---- */

static neap_tensor embedding(neap_network *net, random_source *random)
{
    neap_tensor ids = neap_net_input(net, "ids", coin(random) ? NEAP_I64 : NEAP_I32,
                                     SHAPE(from_to(random, 1, 9), from_to(random, 1, 9)));
    return neap_net_embedding(net, "op", ids, from_to(random, 1, 60), channels(random), NULL);
}

static neap_tensor attention(neap_network *net, random_source *random)
{
    int64_t heads = from_to(random, 1, 4), width = heads * from_to(random, 1, 17);
    int64_t batch = from_to(random, 1, 3), length = from_to(random, 1, 20);
    bool causal = coin(random);
    double dropout = one_in(random, 3) ? 0.3 : 0;
    if (coin(random)) {
        neap_tensor qkv = activation(net, "qkv", SHAPE(batch, length, 3 * width));
        return neap_net_attention(net, "op", qkv, NEAP_NONE, NEAP_NONE, heads, causal, dropout);
    }
    neap_tensor q = activation(net, "q", SHAPE(batch, length, width));
    if (one_in(random, 4))
        return neap_net_attention(net, "op", q, q, q, heads, causal, dropout);
    int64_t keys = causal ? length : from_to(random, 1, 20);
    neap_tensor k = activation(net, "k", SHAPE(batch, keys, width));
    neap_tensor v = activation(net, "v", SHAPE(batch, keys, width));
    return neap_net_attention(net, "op", q, k, v, heads, causal, dropout);
}

/* Only some of q, k and v want a gradient. */
static neap_tensor attention_partly(neap_network *net, random_source *random)
{
    static const char *const names[3] = {"q", "k", "v"};
    neap_tensor all[3];
    uint32_t wanted = (uint32_t)from_to(random, 1, 6);
    for (uint32_t i = 0; i < 3; i++)
        all[i] = wanted >> i & 1 ? activation(net, names[i], SHAPE(2, 5, 12))
                                 : neap_net_input(net, names[i], NEAP_F32, SHAPE(2, 5, 12));
    return neap_net_attention(net, "op", all[0], all[1], all[2], 3, coin(random),
                              coin(random) ? 0.2 : 0);
}

static neap_tensor lstm_cell(neap_network *net, random_source *random)
{
    int64_t batch = from_to(random, 1, 9), width = channels(random);
    uint32_t data = random_below(random, 5); /* the gates, the cell or, mostly, neither */
    neap_tensor c_next;
    neap_tensor gates = data == 0 ? neap_net_input(net, "gates", NEAP_F32, SHAPE(batch, 4 * width))
                                  : activation(net, "gates", SHAPE(batch, 4 * width));
    neap_tensor c = data == 1 ? neap_net_input(net, "c", NEAP_F32, SHAPE(batch, width))
                              : activation(net, "c", SHAPE(batch, width));
    neap_tensor h = neap_net_lstm_cell(net, "op", gates, c, &c_next);
    switch (random_below(random, 3)) {
    case 0:
        return h;
    case 1:
        return c_next;
    default:
        return neap_net_concat(net, "both", 2, (neap_tensor[]){h, c_next}, 1);
    }
}

/* ---- Losses ---- */

static neap_tensor cross_entropy(neap_network *net, random_source *random)
{
    neap_dtype type = coin(random) ? NEAP_I64 : NEAP_I32;
    int64_t classes = one_in(random, 3) ? from_to(random, 2, 400) : from_to(random, 2, 20);
    if (one_in(random, 3)) {
        neap_tensor x = activation(net, "x", SHAPE(2, least(classes, 20), 3, 5));
        neap_tensor labels = neap_net_input(net, "labels", type, SHAPE(2, 3, 5));
        return neap_net_cross_entropy(net, "op", x, labels);
    }
    int64_t rows = from_to(random, 1, 30);
    neap_tensor x = neap_net_scale(net, "wide", activation(net, "x", SHAPE(rows, classes)), 4, 0);
    return neap_net_cross_entropy(net, "op", x, neap_net_input(net, "labels", type, SHAPE(rows)));
}

static neap_tensor squares(neap_network *net, random_source *random)
{
    neap_tensor x = one_in(random, 4) ? activation(net, "x", SHAPE(3, from_to(random, 900, 2000)))
                                      : some_tensor(net, random, "x");
    return neap_net_mse(net, "op", x, another_like(net, "target", x));
}

const random_op random_ops[] = {
    {"conv2d", conv2d},
    {"conv2d in groups", conv2d_groups},
    {"conv2d, depthwise", conv2d_depthwise},
    {"conv2d of 1 x 1", conv2d_pointwise},
    {"conv2d on data", conv2d_on_data},
    {"conv_transpose2d", conv_transpose2d},
    {"linear", linear},
    {"linear, shared", linear_shared},
    {"matmul", matmul},
    {"softmax", softmax},
    {"curves", curves},
    {"powers", powers},
    {"pairs", pairs},
    {"functions", function_of},
    {"products", products},
    {"batch_norm", batch_norm},
    {"layer_norm", layer_norm},
    {"group_norm", group_norm},
    {"rms_norm", rms_norm},
    {"batch_norm_frozen", frozen_norm},
    {"norm on data", norm_on_data},
    {"max_pool2d", max_pool2d},
    {"avg_pool2d", avg_pool2d},
    {"max_unpool2d", max_unpool2d},
    {"resample", resample},
    {"nearest", nearest},
    {"concat", concat},
    {"slice", slice},
    {"split", split},
    {"transpose", transpose},
    {"expand", expand},
    {"broadcast", broadcast},
    {"over axes", over_axes},
    {"permute", permute},
    {"gather", gather},
    {"where", where},
    {"pad", pad},
    {"pad2d", pad2d},
    {"embedding", embedding},
    {"attention", attention},
    {"attention, partly", attention_partly},
    {"lstm_cell", lstm_cell},
    {"cross_entropy", cross_entropy},
    {"squares", squares},
};
const size_t n_random_ops = sizeof random_ops / sizeof *random_ops;
