/* Cases of ops on arrays of any rank: matrix products, softmax, sums over axes, permutations,
   gathers, pads. */
#include "op_cases.h"

static neap_tensor parameter(neap_network *net, const char *name, uint32_t rank,
                             const int64_t *shape)
{
    return neap_net_parameter(net, name, rank, shape);
}

static neap_tensor cube(neap_network *net)
{
    return parameter(net, "x", SHAPE(2, 3, 4));
}

/* ---- Products and softmax ---- */

static neap_tensor matmul(neap_network *net)
{
    neap_tensor a = parameter(net, "a", SHAPE(3, 4)), b = parameter(net, "b", SHAPE(4, 2));
    return neap_net_matmul(net, "op", a, b, false, false);
}

static neap_tensor matmul_batches(neap_network *net)
{
    neap_tensor a = parameter(net, "a", SHAPE(2, 2, 4, 3));
    neap_tensor b = parameter(net, "b", SHAPE(2, 2, 4, 5));
    return neap_net_matmul(net, "op", a, b, true, false);
}

static neap_tensor matmul_second_transposed(neap_network *net)
{
    neap_tensor a = parameter(net, "a", SHAPE(2, 3, 4)), b = parameter(net, "b", SHAPE(2, 5, 4));
    return neap_net_matmul(net, "op", a, b, false, true);
}

static neap_tensor matmul_both_transposed(neap_network *net)
{
    neap_tensor a = parameter(net, "a", SHAPE(2, 4, 3)), b = parameter(net, "b", SHAPE(2, 5, 4));
    return neap_net_matmul(net, "op", a, b, true, true);
}

static neap_tensor matmul_by_data(neap_network *net)
{
    neap_tensor a = parameter(net, "a", SHAPE(2, 3));
    return neap_net_matmul(net, "op", a, neap_net_input(net, "b", NEAP_F32, SHAPE(3, 2)), false,
                           false);
}

static neap_tensor softmax(neap_network *net)
{
    return neap_net_softmax(net, "op", cube(net), 2);
}

static neap_tensor softmax_middle(neap_network *net)
{
    return neap_net_softmax(net, "op", cube(net), 1);
}

static neap_tensor log_softmax_middle(neap_network *net)
{
    return neap_net_log_softmax(net, "op", cube(net), 1);
}

/* ---- Axes ---- */

static neap_tensor broadcast(neap_network *net)
{
    return neap_net_broadcast(net, "op", parameter(net, "x", SHAPE(3, 1)), SHAPE(2, 3, 4));
}

/* Nothing but a leading dimension of 1. */
static neap_tensor broadcast_ones(neap_network *net)
{
    return neap_net_broadcast(net, "op", parameter(net, "x", SHAPE(1)), SHAPE(1, 3));
}

static neap_tensor sum_axes(neap_network *net)
{
    return neap_net_sum_axes(net, "op", cube(net), 2, (uint32_t[]){0, 2}, false);
}

static neap_tensor sum_axes_all(neap_network *net)
{
    return neap_net_sum_axes(net, "op", cube(net), 3, (uint32_t[]){0, 1, 2}, false);
}

static neap_tensor mean_axes(neap_network *net)
{
    return neap_net_mean_axes(net, "op", cube(net), 2, (uint32_t[]){1, 2}, true);
}

static neap_tensor max_axes(neap_network *net)
{
    return neap_net_max_axes(net, "op", cube(net), 1, (uint32_t[]){1}, false);
}

/* Of each two elements, which are equal: both have a share. */
static neap_tensor max_axes_ties(neap_network *net)
{
    neap_tensor x = parameter(net, "x", SHAPE(3, 1));
    neap_tensor both = neap_net_broadcast(net, "both", x, SHAPE(2, 3, 2));
    return neap_net_max_axes(net, "op", both, 2, (uint32_t[]){0, 2}, false);
}

static neap_tensor min_axes(neap_network *net)
{
    return neap_net_min_axes(net, "op", cube(net), 2, (uint32_t[]){0, 2}, true);
}

static neap_tensor prod_axes(neap_network *net)
{
    return neap_net_prod_axes(net, "op", cube(net), 2, (uint32_t[]){2, 0}, false);
}

/* Zeros where a ReLU is: in some columns none, in others one or more. */
static neap_tensor prod_axes_zeros(neap_network *net)
{
    neap_tensor x = parameter(net, "x", SHAPE(2, 8));
    return neap_net_prod_axes(net, "op", neap_net_relu(net, "relu", x), 1, (uint32_t[]){0}, false);
}

static neap_tensor permute(neap_network *net)
{
    return neap_net_permute(net, "op", parameter(net, "x", SHAPE(2, 3, 4, 5)),
                            (uint32_t[]){2, 0, 3, 1});
}

/* ---- Chosen elements ---- */

/* 6 indices of 5 positions: some repeat. */
static neap_tensor gather(neap_network *net)
{
    neap_tensor indices = neap_net_input(net, "indices", NEAP_I64, SHAPE(2, 3));
    return neap_net_gather(net, "op", parameter(net, "x", SHAPE(2, 5, 3)), indices, 1);
}

static neap_tensor gather_last(neap_network *net)
{
    neap_tensor indices = neap_net_input(net, "indices", NEAP_I32, SHAPE(4));
    return neap_net_gather(net, "op", parameter(net, "x", SHAPE(3, 5)), indices, 1);
}

static neap_tensor where(neap_network *net)
{
    neap_tensor condition = neap_net_input(net, "condition", NEAP_U8, SHAPE(3, 4));
    return neap_net_where(net, "op", condition, parameter(net, "a", SHAPE(3, 4)),
                          parameter(net, "b", SHAPE(3, 4)));
}

static neap_tensor where_repeated(neap_network *net)
{
    neap_tensor condition = neap_net_input(net, "condition", NEAP_U8, SHAPE(3, 4));
    return neap_net_where(net, "op", condition, parameter(net, "a", SHAPE(2, 3, 4)),
                          neap_net_input(net, "b", NEAP_F32, SHAPE(2, 3, 4)));
}

static neap_tensor pad(neap_network *net)
{
    return neap_net_pad(net, "op", cube(net), (int64_t[]){0, 1, 2}, (int64_t[]){1, 2, 0}, -0.75);
}

static neap_tensor pad_crop(neap_network *net)
{
    return neap_net_pad(net, "op", cube(net), (int64_t[]){-1, 2, 0}, (int64_t[]){0, -1, -2}, 0.5);
}

/* ---- Normalisation ---- */

static neap_tensor instance_norm(neap_network *net)
{
    return neap_net_instance_norm(net, "op", parameter(net, "x", SHAPE(2, 3, 2, 2)), 1e-3);
}

static neap_tensor rms_norm(neap_network *net)
{
    return neap_net_rms_norm(net, "op", cube(net), 1e-3);
}

static neap_tensor rms_norm_on_data(neap_network *net)
{
    neap_tensor x = neap_net_input(net, "x", NEAP_F32, SHAPE(4, 3));
    return neap_net_rms_norm(net, "op", x, 1e-3);
}

static neap_tensor batch_norm_frozen(neap_network *net)
{
    neap_tensor mean = neap_net_input(net, "mean", NEAP_F32, SHAPE(3));
    neap_tensor deviation = neap_net_input(net, "deviation", NEAP_F32, SHAPE(3));
    return neap_net_batch_norm_frozen(
        net, "op", parameter(net, "x", SHAPE(2, 3, 2, 2)), parameter(net, "weight", SHAPE(3)),
        parameter(net, "bias", SHAPE(3)), mean, neap_net_pow(net, "variance", deviation, 2), 1e-1);
}

/* ---- Images ---- */

static neap_tensor resize_nearest(neap_network *net)
{
    const neap_resize resize = {.out_h = 5, .out_w = 4, .half_pixel = true, .round = true};
    return neap_net_resize_nearest(net, "op", parameter(net, "x", SHAPE(2, 1, 2, 3)), &resize);
}

/* Some pixels are left out, and the scale is not that of the extents. */
static neap_tensor resize_nearest_down(neap_network *net)
{
    const neap_resize resize = {.out_h = 3, .out_w = 7, .scale_h = 0.7, .scale_w = 2.5};
    return neap_net_resize_nearest(net, "op", parameter(net, "x", SHAPE(2, 1, 5, 3)), &resize);
}

/* ---- Types and squares ---- */

static neap_tensor cast(neap_network *net)
{
    neap_tensor half = neap_net_cast(net, "op", cube(net), NEAP_BF16);
    return neap_net_cast(net, "back", half, NEAP_F32);
}

static neap_tensor mse(neap_network *net)
{
    neap_tensor target = neap_net_input(net, "target", NEAP_F32, SHAPE(2, 3, 4));
    return neap_net_mse(net, "op", cube(net), target);
}

static neap_tensor mse_of_two(neap_network *net)
{
    return neap_net_mse(net, "op", cube(net), parameter(net, "target", SHAPE(2, 3, 4)));
}

#define LEAN   NEAP_KERNELS_LEAN
#define IN_F32 NEAP_F32

/* Where a figure is not obvious, the sizes that it follows from stand above the case. */
static const op_case cases[] = {
    /* 3 x 4 times 4 x 2 */
    {"matmul", matmul, LEAN, IN_F32,
     "matmul(a, b) -> y f32[3,2] {transpose_a=0 transpose_b=0}: 24 MACs, 48 FLOPs, 104 bytes\n"
     "matmul(dy, b) -> da f32[3,4] {transpose_a=0 transpose_b=1}: 24 MACs, 48 FLOPs, 104 bytes\n"
     "matmul(a, dy) -> db f32[4,2] {transpose_a=1 transpose_b=0}: 24 MACs, 48 FLOPs, 104 bytes\n"},
    /* 4 batches of 3 x 4 times 4 x 5 */
    {"matmul, batches", matmul_batches, LEAN, IN_F32,
     "matmul(a, b) -> y f32[2,2,3,5] {transpose_a=1 transpose_b=0}: 240 MACs, 480 FLOPs, 752 "
     "bytes\n"
     "matmul(b, dy) -> da f32[2,2,4,3] {transpose_a=0 transpose_b=1}: 240 MACs, 480 FLOPs, 752 "
     "bytes\n"
     "matmul(a, dy) -> db f32[2,2,4,5] {transpose_a=0 transpose_b=0}: 240 MACs, 480 FLOPs, 752 "
     "bytes\n"},
    {"matmul, second transposed", matmul_second_transposed, LEAN, IN_F32,
     "matmul(a, b) -> y f32[2,3,5] {transpose_a=0 transpose_b=1}: 120 MACs, 240 FLOPs, 376 bytes\n"
     "matmul(dy, b) -> da f32[2,3,4] {transpose_a=0 transpose_b=0}: 120 MACs, 240 FLOPs, 376 "
     "bytes\n"
     "matmul(dy, a) -> db f32[2,5,4] {transpose_a=1 transpose_b=0}: 120 MACs, 240 FLOPs, 376 "
     "bytes\n"},
    {"matmul, both transposed", matmul_both_transposed, LEAN, IN_F32,
     "matmul(a, b) -> y f32[2,3,5] {transpose_a=1 transpose_b=1}: 120 MACs, 240 FLOPs, 376 bytes\n"
     "matmul(b, dy) -> da f32[2,4,3] {same}: 120 MACs, 240 FLOPs, 376 bytes\n"
     "matmul(dy, a) -> db f32[2,5,4] {same}: 120 MACs, 240 FLOPs, 376 bytes\n"},
    {"matmul, by data", matmul_by_data, LEAN, IN_F32,
     "matmul(a, b) -> y f32[2,2] {transpose_a=0 transpose_b=0}: 12 MACs, 24 FLOPs, 64 bytes\n"
     "matmul(dy, b) -> da f32[2,3] {transpose_a=0 transpose_b=1}: 12 MACs, 24 FLOPs, 64 bytes\n"},
    {"softmax", softmax, LEAN, IN_F32,
     "softmax(x) -> y f32[2,3,4] {axis=2}: 120 FLOPs, 192 bytes\n"
     "softmax_bw(dy, y) -> dx f32[2,3,4] {same} (dx over dy): 96 FLOPs, 288 bytes\n"},
    {"softmax, middle in f16", softmax_middle, LEAN, NEAP_F16,
     "softmax(x) -> y f16[2,3,4] {axis=1}: 120 FLOPs, 96 bytes\n"
     "softmax_bw(dy, y) -> dx f16[2,3,4] {same} (dx over dy): 96 FLOPs, 144 bytes\n"},
    {"log_softmax, middle", log_softmax_middle, LEAN, IN_F32,
     "log_softmax(x) -> y f32[2,3,4]: 96 FLOPs, 192 bytes\n"
     "log_softmax_bw(dy, y) -> dx f32[2,3,4] (dx over dy): 72 FLOPs, 288 bytes\n"},
    /* 3 elements to 24 */
    {"broadcast", broadcast, LEAN, IN_F32,
     "broadcast(x) -> y f32[2,3,4]: 108 bytes\n"
     "sum_to(dy) -> dx f32[3,1]: 24 FLOPs, 108 bytes\n"},
    {"broadcast, ones", broadcast_ones, LEAN, IN_F32,
     "broadcast(x) -> y f32[1,3]: 16 bytes\n"
     "sum_to(dy) -> dx f32[1]: 3 FLOPs, 16 bytes\n"},
    /* 24 elements */
    {"sum_axes", sum_axes, LEAN, IN_F32,
     "sum_axes(x) -> y f32[3] {axes=5 keepdims=0}: 24 FLOPs, 108 bytes\n"
     "sum_axes_bw(dy) -> dx f32[2,3,4] {same}: 108 bytes\n"},
    {"sum_axes, all in f16", sum_axes_all, LEAN, NEAP_F16,
     "sum_axes(x) -> y f16[1] {axes=7 keepdims=0}: 24 FLOPs, 50 bytes\n"
     "sum_axes_bw(dy) -> dx f16[2,3,4] {same}: 50 bytes\n"},
    {"mean_axes", mean_axes, LEAN, IN_F32,
     "mean_axes(x) -> y f32[2,1,1] {axes=6 keepdims=1}: 26 FLOPs, 104 bytes\n"
     "mean_axes_bw(dy) -> dx f32[2,3,4] {same}: 24 FLOPs, 104 bytes\n"},
    {"max_axes", max_axes, LEAN, IN_F32,
     "max_axes(x) -> y f32[2,4] {axes=2 keepdims=0}: 24 FLOPs, 128 bytes\n"
     "max_axes_bw(dy, x, y) -> dx f32[2,3,4] {same}: 96 FLOPs, 256 bytes\n"},
    {"max_axes, ties", max_axes_ties, LEAN, IN_F32,
     "broadcast(x) -> both f32[2,3,2]: 60 bytes\n"
     "max_axes(both) -> y f32[3] {axes=5 keepdims=0}: 12 FLOPs, 60 bytes\n"
     "max_axes_bw(dy, both, y) -> dboth f32[2,3,2] {same} (dboth over both): 48 FLOPs, 120 bytes\n"
     "sum_to(dboth) -> dx f32[3,1]: 12 FLOPs, 60 bytes\n"},
    {"min_axes", min_axes, LEAN, IN_F32,
     "min_axes(x) -> y f32[1,3,1] {axes=5 keepdims=1}: 24 FLOPs, 108 bytes\n"
     "max_axes_bw(dy, x, y) -> dx f32[2,3,4] {same}: 96 FLOPs, 216 bytes\n"},
    {"prod_axes", prod_axes, LEAN, IN_F32,
     "prod_axes(x) -> y f32[3] {axes=5 keepdims=0}: 24 FLOPs, 108 bytes\n"
     "prod_axes_bw(dy, x) -> dx f32[2,3,4] {same}: 120 FLOPs, 204 bytes\n"},
    {"prod_axes, zeros", prod_axes_zeros, LEAN, IN_F32,
     "relu(x) -> relu f32[2,8]: 16 FLOPs, 128 bytes\n"
     "prod_axes(relu) -> y f32[8] {axes=1 keepdims=0}: 16 FLOPs, 96 bytes\n"
     "prod_axes_bw(dy, relu) -> drelu f32[2,8] {same} (drelu over relu): 80 FLOPs, 160 bytes\n"
     "relu_bw(drelu, relu) -> dx f32[2,8] (dx over drelu): 16 FLOPs, 192 bytes\n"},
    {"permute", permute, LEAN, IN_F32,
     "permute(x) -> y f32[4,2,5,3] {axis_0=2 axis_1=0 axis_2=3 axis_3=1}: 960 bytes\n"
     "permute(dy) -> dx f32[2,3,4,5] {axis_0=1 axis_1=3 axis_2=0 axis_3=2}: 960 bytes\n"},
    /* 2 x 6 x 3 elements of 2 x 5 x 3 */
    {"gather", gather, LEAN, IN_F32,
     "gather(x, indices) -> y f32[2,2,3,3] {axis=1}: 336 bytes\n"
     "gather_bw(dy, indices) -> dx f32[2,5,3] {same}: 36 FLOPs, 312 bytes\n"},
    {"gather, last", gather_last, LEAN, IN_F32,
     "gather(x, indices) -> y f32[3,4] {axis=1}: 112 bytes\n"
     "gather_bw(dy, indices) -> dx f32[3,5] {same}: 12 FLOPs, 124 bytes\n"},
    {"where", where, LEAN, IN_F32,
     "where(a, b, condition) -> y f32[3,4]: 12 FLOPs, 156 bytes\n"
     "where_bw(dy, condition) -> da f32[3,4] {of_b=0} (da over dy): 12 FLOPs, 108 bytes\n"
     "where_bw(dy, condition) -> db f32[3,4] {of_b=1} (db over dy): 12 FLOPs, 108 bytes\n"},
    {"where, repeated", where_repeated, LEAN, IN_F32,
     "where(a, b, condition) -> y f32[2,3,4]: 24 FLOPs, 300 bytes\n"
     "where_bw(dy, condition) -> da f32[2,3,4] {of_b=0} (da over dy): 24 FLOPs, 204 bytes\n"},
    {"pad", pad, LEAN, IN_F32,
     "pad(x) -> y f32[3,6,6] {value=-0.75 before_0=0 after_0=1 before_1=1 after_1=2 before_2=2 "
     "after_2=0}: 528 bytes\n"
     "pad(dy) -> dx f32[2,3,4] {value=0 before_0=0 after_0=-1 before_1=-1 after_1=-2 before_2=-2 "
     "after_2=0}: 528 bytes\n"},
    {"pad, crop", pad_crop, LEAN, IN_F32,
     "pad(x) -> y f32[1,4,2] {value=0.5 before_0=-1 after_0=0 before_1=2 after_1=-1 before_2=0 "
     "after_2=-2}: 128 bytes\n"
     "pad(dy) -> dx f32[2,3,4] {value=0 before_0=1 after_0=0 before_1=-2 after_1=1 before_2=0 "
     "after_2=2}: 128 bytes\n"},
    {"cast", cast, LEAN, IN_F32,
     "cast(x) -> y bf16[2,3,4]: 24 FLOPs, 144 bytes\n"
     "cast(y) -> back f32[2,3,4]: 24 FLOPs, 144 bytes\n"
     "cast(dback) -> dy bf16[2,3,4]: 24 FLOPs, 144 bytes\n"
     "cast(dy) -> dx f32[2,3,4]: 24 FLOPs, 144 bytes\n"},
    {"mse", mse, LEAN, IN_F32,
     "mse(x, target) -> y f32[1]: 72 FLOPs, 196 bytes\n"
     "mse_bw(dy, x, target) -> dx f32[2,3,4]: 48 FLOPs, 292 bytes\n"},
    {"mse, of two in bf16", mse_of_two, LEAN, NEAP_BF16,
     "mse(x, target) -> y f32[1]: 72 FLOPs, 100 bytes\n"
     "mse_bw(dy, x, target) -> dx bf16[2,3,4]: 48 FLOPs, 148 bytes\n"
     "mse_bw(dy, target, x) -> dtarget bf16[2,3,4]: 48 FLOPs, 148 bytes\n"},
    /* 24 elements */
    {"group_norm, of instances", instance_norm, LEAN, IN_F32,
     "group_norm(x, weight, bias) -> y f32[2,3,2,2], mean f32[2,3], invstd f32[2,3] {epsilon=0.001 "
     "groups=3}: 192 FLOPs, 264 bytes\n"
     "group_norm_bw(dy, x, weight, mean, invstd) -> dx f32[2,3,2,2], dweight f32[3], dbias f32[3] "
     "{same} (dx over dy): 264 FLOPs, 372 bytes\n"},
    {"rms_norm", rms_norm, LEAN, IN_F32,
     "rms_norm(x, weight) -> y f32[2,3,4], invrms f32[2,3] {epsilon=0.001}: 96 FLOPs, 232 bytes\n"
     "rms_norm_bw(dy, x, weight, invrms) -> dx f32[2,3,4], dweight f32[4] {same} (dx over dy): 192 "
     "FLOPs, 344 bytes\n"},
    {"rms_norm, on data in f16", rms_norm_on_data, LEAN, NEAP_F16,
     "rms_norm(x, weight) -> y f32[4,3], invrms f32[4] {epsilon=0.001}: 48 FLOPs, 118 bytes\n"
     "rms_norm_bw(dy, x, invrms) -> dweight f16[3] {same}: 96 FLOPs, 118 bytes\n"},
    {"batch_norm_frozen", batch_norm_frozen, LEAN, IN_F32,
     "pow(deviation) -> variance f32[3] {power=2}: 3 FLOPs, 24 bytes\n"
     "batch_norm_frozen(x, weight, bias, mean, variance) -> y f32[2,3,2,2] {epsilon=0.1}: 96 "
     "FLOPs, 240 bytes\n"
     "batch_norm_frozen_bw_weight(dy, x, mean, variance) -> dweight f32[3] {same}: 96 FLOPs, 228 "
     "bytes\n"
     "sum_axes(dy) -> dbias f32[3] {axes=13 keepdims=0}: 24 FLOPs, 108 bytes\n"
     "batch_norm_frozen_bw_data(dy, weight, variance) -> dx f32[2,3,2,2] {same} (dx over dy): 48 "
     "FLOPs, 216 bytes\n"},
    {"resize_nearest", resize_nearest, LEAN, IN_F32,
     "resize_nearest(x) -> y f32[2,1,5,4] {scale_h=2.5 scale_w=1.33333333 half_pixel=1 round=1}: "
     "208 bytes\n"
     "resize_nearest_bw(dy) -> dx f32[2,1,2,3] {same}: 40 FLOPs, 208 bytes\n"},
    {"resize_nearest, down", resize_nearest_down, LEAN, IN_F32,
     "resize_nearest(x) -> y f32[2,1,3,7] {scale_h=0.7 scale_w=2.5 half_pixel=0 round=0}: 288 "
     "bytes\n"
     "resize_nearest_bw(dy) -> dx f32[2,1,5,3] {same}: 42 FLOPs, 288 bytes\n"},
};
const op_case_list array_cases = {cases, sizeof cases / sizeof *cases};
