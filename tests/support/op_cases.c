/* One op a network. */
#include "op_cases.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

neap_graph *op_case_graph(const op_case *c)
{
    neap_network *net;
    neap_graph *graph;
    neap_diag diag = {0};
    assert_int_equal(neap_network_create(NULL, c->name, c->dtype, &net, &diag), NEAP_OK);
    neap_network_set_kernels(net, c->kernels);
    neap_tensor y = c->build(net);
    if (neap_net_rank(net, y) != 1 || neap_net_dim(net, y, 0) != 1) {
        y = neap_net_reshape(net, "flat", y, SHAPE(-1));
        neap_tensor weight =
            neap_net_parameter(net, "probe.weight", SHAPE(1, neap_net_dim(net, y, 0)));
        y = neap_net_linear_with(net, "probe", y, weight, NEAP_NONE);
    }
    if (neap_network_finish(net, y, NULL, &graph, &diag) != NEAP_OK)
        fail_msg("%s: %s", c->name, diag.message);
    neap_network_destroy(net);
    return graph;
}

static neap_tensor matrix(neap_network *net)
{
    return neap_net_parameter(net, "x", SHAPE(3, 4));
}

static neap_tensor image(neap_network *net, int64_t channels, int64_t height, int64_t width)
{
    return neap_net_parameter(net, "x", SHAPE(2, channels, height, width));
}

/* ---- Convolution ---- */

static neap_tensor conv2d(neap_network *net)
{
    const neap_conv2d conv = {.channels = 6,
                              .kernel_h = 3,
                              .kernel_w = 2,
                              .stride_h = 2,
                              .stride_w = 1,
                              .pad_h = 2,
                              .pad_w = 1,
                              .dilation = 2,
                              .groups = 2,
                              .bias = true};
    return neap_net_conv2d(net, "op", image(net, 4, 5, 4), &conv);
}

static neap_tensor conv2d_plain(neap_network *net)
{
    const neap_conv2d conv = {.channels = 2, .kernel_h = 2, .kernel_w = 3};
    return neap_net_conv2d(net, "op", image(net, 3, 4, 4), &conv);
}

static neap_tensor conv2d_relu(neap_network *net)
{
    const neap_conv2d conv = {.channels = 3,
                              .kernel_h = 3,
                              .kernel_w = 3,
                              .pad_h = 1,
                              .pad_w = 1,
                              .bias = true,
                              .relu = true};
    return neap_net_conv2d(net, "op", image(net, 2, 3, 3), &conv);
}

/* On data no gradient of the input is wanted. */
static neap_tensor conv2d_on_data(neap_network *net)
{
    const neap_conv2d conv = {.channels = 2, .kernel_h = 2, .kernel_w = 2, .bias = true};
    neap_tensor x = neap_net_input(net, "x", NEAP_F32, SHAPE(1, 2, 3, 3));
    return neap_net_conv2d(net, "op", x, &conv);
}

static neap_tensor conv_transpose2d(neap_network *net)
{
    const neap_conv2d conv = {.channels = 6,
                              .kernel_h = 3,
                              .kernel_w = 2,
                              .stride_h = 2,
                              .stride_w = 3,
                              .pad_h = 1,
                              .groups = 2,
                              .output_pad = 1,
                              .bias = true};
    return neap_net_conv_transpose2d(net, "op", image(net, 4, 3, 2), &conv);
}

static neap_tensor conv_transpose2d_plain(neap_network *net)
{
    const neap_conv2d conv = {.channels = 2, .kernel_h = 2, .kernel_w = 2};
    return neap_net_conv_transpose2d(net, "op", image(net, 3, 2, 2), &conv);
}

/* ---- Linear ---- */

static neap_tensor linear(neap_network *net)
{
    return neap_net_linear(net, "op", neap_net_parameter(net, "x", SHAPE(2, 3, 4)), 5, true);
}

static neap_tensor linear_plain(neap_network *net)
{
    return neap_net_linear(net, "op", matrix(net), 2, false);
}

/* A weight that is data: only the bias and the input have gradients. */
static neap_tensor linear_by_data(neap_network *net)
{
    neap_tensor weight = neap_net_input(net, "w", NEAP_F32, SHAPE(2, 4));
    neap_tensor bias = neap_net_parameter(net, "b", SHAPE(2));
    return neap_net_linear_with(net, "op", matrix(net), weight, bias);
}

/* ---- Elementwise ---- */

static neap_tensor relu(neap_network *net)
{
    return neap_net_relu(net, "op", matrix(net));
}

/* From -6 to 12, so that both ends cut something off. */
static neap_tensor relu6(neap_network *net)
{
    return neap_net_relu6(net, "op", neap_net_scale(net, "wide", matrix(net), 6, 3));
}

static neap_tensor sigmoid(neap_network *net)
{
    return neap_net_sigmoid(net, "op", matrix(net));
}

static neap_tensor tanh_(neap_network *net)
{
    return neap_net_tanh(net, "op", matrix(net));
}

static neap_tensor gelu(neap_network *net)
{
    return neap_net_gelu(net, "op", matrix(net), false);
}

static neap_tensor gelu_tanh(neap_network *net)
{
    return neap_net_gelu(net, "op", matrix(net), true);
}

static neap_tensor dropout(neap_network *net)
{
    return neap_net_dropout(net, "op", matrix(net), 0.4);
}

static neap_tensor add(neap_network *net)
{
    neap_tensor b = neap_net_parameter(net, "b", SHAPE(3, 4));
    return neap_net_add(net, "op", neap_net_parameter(net, "a", SHAPE(3, 4)), b);
}

static neap_tensor add_broadcast(neap_network *net)
{
    neap_tensor b = neap_net_parameter(net, "b", SHAPE(3, 4));
    return neap_net_add(net, "op", neap_net_parameter(net, "a", SHAPE(2, 2, 3, 4)), b);
}

static neap_tensor add_itself(neap_network *net)
{
    neap_tensor x = matrix(net);
    return neap_net_add(net, "op", x, x);
}

static neap_tensor mul(neap_network *net)
{
    neap_tensor b = neap_net_parameter(net, "b", SHAPE(3, 4));
    return neap_net_mul(net, "op", neap_net_parameter(net, "a", SHAPE(3, 4)), b);
}

static neap_tensor mul_itself(neap_network *net)
{
    neap_tensor x = matrix(net);
    return neap_net_mul(net, "op", x, x);
}

static neap_tensor mul_by_data(neap_network *net)
{
    neap_tensor b = neap_net_input(net, "b", NEAP_F32, SHAPE(3, 4));
    return neap_net_mul(net, "op", neap_net_parameter(net, "a", SHAPE(3, 4)), b);
}

static neap_tensor scale(neap_network *net)
{
    return neap_net_scale(net, "op", matrix(net), -2.5, 0.75);
}

static neap_tensor pow_(neap_network *net)
{
    return neap_net_pow(net, "op", matrix(net), 3);
}

/* ---- Normalisation ---- */

static neap_tensor batch_norm(neap_network *net)
{
    return neap_net_batch_norm(net, "op", image(net, 3, 2, 2), 1e-3);
}

static neap_tensor batch_norm_matrix(neap_network *net)
{
    return neap_net_batch_norm(net, "op", neap_net_parameter(net, "x", SHAPE(4, 3)), 1e-3);
}

/* Without a gradient of the input the scale is not read. */
static neap_tensor batch_norm_on_data(neap_network *net)
{
    neap_tensor x = neap_net_input(net, "x", NEAP_F32, SHAPE(4, 3));
    return neap_net_batch_norm(net, "op", x, 1e-3);
}

static neap_tensor layer_norm(neap_network *net)
{
    return neap_net_layer_norm(net, "op", neap_net_parameter(net, "x", SHAPE(2, 3, 4)), 1e-3);
}

static neap_tensor layer_norm_vector(neap_network *net)
{
    return neap_net_layer_norm(net, "op", neap_net_parameter(net, "x", SHAPE(5)), 1e-3);
}

static neap_tensor layer_norm_on_data(neap_network *net)
{
    neap_tensor x = neap_net_input(net, "x", NEAP_F32, SHAPE(4, 3));
    return neap_net_layer_norm(net, "op", x, 1e-3);
}

/* ---- Pooling ---- */

/* Windows that overlap, hang over the padding and, in ceil mode, over the end. */
static const neap_pool2d uneven = {.kernel_h = 3,
                                   .kernel_w = 2,
                                   .stride_h = 2,
                                   .stride_w = 2,
                                   .pad_h = 1,
                                   .pad_w = 1,
                                   .ceil_mode = true};

static neap_tensor max_pool2d(neap_network *net)
{
    return neap_net_max_pool2d(net, "op", image(net, 2, 4, 4), &uneven, NULL);
}

static neap_tensor max_pool2d_floor(neap_network *net)
{
    const neap_pool2d pool = {.kernel_h = 2, .kernel_w = 2};
    return neap_net_max_pool2d(net, "op", image(net, 2, 5, 4), &pool, NULL);
}

/* A window of more elements than a byte can count. */
static neap_tensor max_pool2d_large(neap_network *net)
{
    const neap_pool2d pool = {.kernel_h = 18, .kernel_w = 15};
    return neap_net_max_pool2d(net, "op", image(net, 1, 18, 15), &pool, NULL);
}

/* A long one that a byte can count. */
static neap_tensor max_pool2d_long(neap_network *net)
{
    const neap_pool2d pool = {.kernel_h = 1, .kernel_w = 20};
    return neap_net_max_pool2d(net, "op", image(net, 1, 2, 40), &pool, NULL);
}

static neap_tensor avg_pool2d(neap_network *net)
{
    return neap_net_avg_pool2d(net, "op", image(net, 2, 4, 4), &uneven);
}

static neap_tensor avg_pool2d_with_pad(neap_network *net)
{
    neap_pool2d pool = uneven;
    pool.count_include_pad = true;
    return neap_net_avg_pool2d(net, "op", image(net, 2, 4, 4), &pool);
}

static neap_tensor avg_pool2d_floor(neap_network *net)
{
    neap_pool2d pool = uneven;
    pool.ceil_mode = false;
    return neap_net_avg_pool2d(net, "op", image(net, 2, 4, 4), &pool);
}

/* 5 rows into 3, 4 columns into 3: windows overlap. */
static neap_tensor adaptive_avg_pool2d(neap_network *net)
{
    return neap_net_adaptive_avg_pool2d(net, "op", image(net, 2, 5, 4), 3, 3);
}

/* The image that is unpooled comes from somewhere else than the indices. */
static neap_tensor max_unpool2d(neap_network *net)
{
    const neap_pool2d pool = {.kernel_h = 2, .kernel_w = 2};
    neap_tensor big = neap_net_parameter(net, "big", SHAPE(2, 2, 4, 4)), indices;
    neap_tensor small = neap_net_max_pool2d(net, "pool", big, &pool, &indices);
    neap_tensor x = neap_net_mul(net, "x", small, neap_net_parameter(net, "s", SHAPE(2, 2, 2, 2)));
    return neap_net_max_unpool2d(net, "op", x, indices, big, &pool);
}

static neap_tensor upsample(neap_network *net)
{
    return neap_net_upsample(net, "op", image(net, 1, 2, 3), 5, 4, false);
}

static neap_tensor upsample_corners(neap_network *net)
{
    return neap_net_upsample(net, "op", image(net, 1, 3, 2), 5, 4, true);
}

/* Fewer pixels out than in. */
static neap_tensor upsample_down(neap_network *net)
{
    return neap_net_upsample(net, "op", image(net, 1, 5, 4), 2, 3, false);
}

/* ---- Shape ---- */

static neap_tensor concat(neap_network *net)
{
    neap_tensor parts[3] = {neap_net_parameter(net, "a", SHAPE(2, 1, 3)),
                            neap_net_input(net, "b", NEAP_F32, SHAPE(2, 2, 3)),
                            neap_net_parameter(net, "c", SHAPE(2, 3, 3))};
    return neap_net_concat(net, "op", 3, parts, 1);
}

static neap_tensor concat_itself(neap_network *net)
{
    neap_tensor x = matrix(net);
    return neap_net_concat(net, "op", 2, (neap_tensor[]){x, x}, 0);
}

static neap_tensor slice(neap_network *net)
{
    return neap_net_slice(net, "op", neap_net_parameter(net, "x", SHAPE(2, 5, 3)), 1, 1, 4);
}

static neap_tensor split(neap_network *net)
{
    neap_tensor parts[3];
    neap_net_split(net, "op", neap_net_parameter(net, "x", SHAPE(2, 6, 2)), 1, 3, parts);
    neap_tensor two = neap_net_mul(net, "two", parts[0], parts[1]);
    return neap_net_mul(net, "three", two, parts[2]);
}

static neap_tensor reshape(neap_network *net)
{
    return neap_net_reshape(net, "op", matrix(net), SHAPE(2, -1, 3));
}

static neap_tensor reshape_flatten(neap_network *net)
{
    return neap_net_flatten(net, "op", image(net, 2, 2, 3), 1);
}

static neap_tensor transpose(neap_network *net)
{
    return neap_net_transpose(net, "op", neap_net_parameter(net, "x", SHAPE(2, 3, 4, 2)), 0, 2);
}

static neap_tensor expand(neap_network *net)
{
    return neap_net_expand(net, "op", neap_net_parameter(net, "x", SHAPE(3)), SHAPE(2, 2, 3));
}

static neap_tensor pad2d(neap_network *net)
{
    return neap_net_pad2d(net, "op", image(net, 2, 3, 2), 0, 1, 2, 3);
}

/* Data wants no gradient, what is made of it neither. */
static neap_tensor pad2d_on_data(neap_network *net)
{
    neap_tensor x = neap_net_input(net, "x", NEAP_F32, SHAPE(1, 2, 2, 2));
    return neap_net_mul(net, "product", neap_net_pad2d(net, "op", x, 1, 0, 0, 1),
                        neap_net_parameter(net, "s", SHAPE(1, 2, 3, 3)));
}

/* ---- Sequences ---- */

/* 12 ids of 5 rows: some repeat. */
static neap_tensor embedding(neap_network *net)
{
    neap_tensor ids = neap_net_input(net, "ids", NEAP_I64, SHAPE(3, 4));
    return neap_net_embedding(net, "op", ids, 5, 3, NULL);
}

static neap_tensor attend(neap_network *net, bool causal, double dropout)
{
    neap_tensor q = neap_net_parameter(net, "q", SHAPE(2, 3, 4));
    neap_tensor k = neap_net_parameter(net, "k", SHAPE(2, 5, 4));
    neap_tensor v = neap_net_parameter(net, "v", SHAPE(2, 5, 4));
    return neap_net_attention(net, "op", q, k, v, 2, causal, dropout);
}

static neap_tensor attention(neap_network *net)
{
    return attend(net, false, 0);
}

static neap_tensor attention_causal(neap_network *net)
{
    return attend(net, true, 0);
}

static neap_tensor attention_dropout(neap_network *net)
{
    return attend(net, false, 0.3);
}

static neap_tensor attend_packed(neap_network *net, bool causal)
{
    neap_tensor qkv = neap_net_parameter(net, "qkv", SHAPE(2, 3, 12));
    return neap_net_attention(net, "op", qkv, NEAP_NONE, NEAP_NONE, 2, causal, 0);
}

static neap_tensor attention_packed(neap_network *net)
{
    return attend_packed(net, false);
}

static neap_tensor attention_packed_causal(neap_network *net)
{
    return attend_packed(net, true);
}

static neap_tensor attention_to_itself(neap_network *net)
{
    neap_tensor x = neap_net_parameter(net, "x", SHAPE(2, 3, 4));
    return neap_net_attention(net, "op", x, x, x, 2, false, 0);
}

/* Only what is a parameter has a gradient. */
static neap_tensor attend_partly(neap_network *net, bool dq, bool dk, bool dv)
{
    static const int64_t shape[] = {1, 3, 4};
    neap_tensor q =
        dq ? neap_net_parameter(net, "q", 3, shape) : neap_net_input(net, "q", NEAP_F32, 3, shape);
    neap_tensor k =
        dk ? neap_net_parameter(net, "k", 3, shape) : neap_net_input(net, "k", NEAP_F32, 3, shape);
    neap_tensor v =
        dv ? neap_net_parameter(net, "v", 3, shape) : neap_net_input(net, "v", NEAP_F32, 3, shape);
    return neap_net_attention(net, "op", q, k, v, 2, false, 0);
}

static neap_tensor attention_of_q(neap_network *net)
{
    return attend_partly(net, true, false, false);
}

static neap_tensor attention_of_k(neap_network *net)
{
    return attend_partly(net, false, true, false);
}

static neap_tensor attention_of_v(neap_network *net)
{
    return attend_partly(net, false, false, true);
}

/* Both results of a step matter, or one of them. */
static neap_tensor step(neap_network *net, bool use_h, bool use_c)
{
    neap_tensor c_next;
    neap_tensor gates = neap_net_parameter(net, "x", SHAPE(2, 12));
    neap_tensor c = neap_net_parameter(net, "c", SHAPE(2, 3));
    neap_tensor h = neap_net_lstm_cell(net, "op", gates, c, &c_next);
    if (use_h && use_c)
        return neap_net_concat(net, "both", 2, (neap_tensor[]){h, c_next}, 1);
    return use_h ? h : c_next;
}

static neap_tensor lstm_cell(neap_network *net)
{
    return step(net, true, true);
}

static neap_tensor lstm_cell_without_dc(neap_network *net)
{
    return step(net, true, false);
}

static neap_tensor lstm_cell_without_dh(neap_network *net)
{
    return step(net, false, true);
}

/* A first step: the cell is data. */
static neap_tensor lstm_cell_first(neap_network *net)
{
    neap_tensor c_next, gates = neap_net_parameter(net, "x", SHAPE(2, 8));
    neap_tensor c = neap_net_input(net, "c", NEAP_F32, SHAPE(2, 2));
    return neap_net_lstm_cell(net, "op", gates, c, &c_next);
}

static neap_tensor lstm_cell_by_data(neap_network *net)
{
    neap_tensor c_next, gates = neap_net_input(net, "x", NEAP_F32, SHAPE(2, 8));
    neap_tensor c = neap_net_parameter(net, "c", SHAPE(2, 2));
    return neap_net_lstm_cell(net, "op", gates, c, &c_next);
}

/* ---- Losses ---- */

static neap_tensor cross_entropy(neap_network *net)
{
    neap_tensor labels = neap_net_input(net, "labels", NEAP_I64, SHAPE(3));
    return neap_net_cross_entropy(net, "op", matrix(net), labels);
}

static neap_tensor cross_entropy_spatial(neap_network *net)
{
    neap_tensor labels = neap_net_input(net, "labels", NEAP_I32, SHAPE(2, 2, 3));
    return neap_net_cross_entropy(net, "op", image(net, 4, 2, 3), labels);
}

#define LEAN   NEAP_KERNELS_LEAN
#define TORCH  NEAP_KERNELS_TORCH
#define IN_F32 NEAP_F32

const op_case op_cases[] = {
    {"conv2d", conv2d, LEAN, IN_F32},
    {"conv2d, plain", conv2d_plain, LEAN, IN_F32},
    {"conv2d, relu", conv2d_relu, LEAN, IN_F32},
    {"conv2d, on data", conv2d_on_data, LEAN, IN_F32},
    {"conv_transpose2d", conv_transpose2d, LEAN, IN_F32},
    {"conv_transpose2d, plain", conv_transpose2d_plain, LEAN, IN_F32},
    {"linear", linear, LEAN, IN_F32},
    {"linear, plain", linear_plain, LEAN, IN_F32},
    {"linear, by data", linear_by_data, LEAN, IN_F32},
    {"relu", relu, LEAN, IN_F32},
    {"relu6", relu6, LEAN, IN_F32},
    {"sigmoid", sigmoid, LEAN, IN_F32},
    {"tanh", tanh_, LEAN, IN_F32},
    {"gelu", gelu, LEAN, IN_F32},
    {"gelu, tanh", gelu_tanh, LEAN, IN_F32},
    {"dropout", dropout, LEAN, IN_F32},
    {"add", add, LEAN, IN_F32},
    {"add, broadcast", add_broadcast, LEAN, IN_F32},
    {"add, itself", add_itself, LEAN, IN_F32},
    {"mul", mul, LEAN, IN_F32},
    {"mul, itself", mul_itself, LEAN, IN_F32},
    {"mul, by data", mul_by_data, LEAN, IN_F32},
    {"scale", scale, LEAN, IN_F32},
    {"pow", pow_, LEAN, IN_F32},
    {"batch_norm", batch_norm, LEAN, IN_F32},
    {"batch_norm, matrix in f16", batch_norm_matrix, LEAN, NEAP_F16},
    {"batch_norm, on data", batch_norm_on_data, LEAN, IN_F32},
    {"layer_norm", layer_norm, LEAN, IN_F32},
    {"layer_norm, vector in bf16", layer_norm_vector, LEAN, NEAP_BF16},
    {"layer_norm, on data", layer_norm_on_data, LEAN, IN_F32},
    {"max_pool2d", max_pool2d, LEAN, IN_F32},
    {"max_pool2d, torch", max_pool2d, TORCH, IN_F32},
    {"max_pool2d, floor", max_pool2d_floor, LEAN, IN_F32},
    {"max_pool2d, large", max_pool2d_large, LEAN, IN_F32},
    {"max_pool2d, long", max_pool2d_long, LEAN, IN_F32},
    {"avg_pool2d", avg_pool2d, LEAN, IN_F32},
    {"avg_pool2d, with pad", avg_pool2d_with_pad, LEAN, IN_F32},
    {"avg_pool2d, floor", avg_pool2d_floor, LEAN, IN_F32},
    {"adaptive_avg_pool2d", adaptive_avg_pool2d, LEAN, IN_F32},
    {"max_unpool2d", max_unpool2d, LEAN, IN_F32},
    {"max_unpool2d, torch", max_unpool2d, TORCH, IN_F32},
    {"upsample", upsample, LEAN, IN_F32},
    {"upsample, corners", upsample_corners, LEAN, IN_F32},
    {"upsample, down", upsample_down, LEAN, IN_F32},
    {"concat", concat, LEAN, IN_F32},
    {"concat, itself", concat_itself, LEAN, IN_F32},
    {"slice", slice, LEAN, IN_F32},
    {"split", split, LEAN, IN_F32},
    {"reshape", reshape, LEAN, IN_F32},
    {"reshape, flatten", reshape_flatten, LEAN, IN_F32},
    {"transpose", transpose, LEAN, IN_F32},
    {"expand", expand, LEAN, IN_F32},
    {"pad2d", pad2d, LEAN, IN_F32},
    {"pad2d, on data", pad2d_on_data, LEAN, IN_F32},
    {"embedding", embedding, LEAN, IN_F32},
    {"attention", attention, LEAN, IN_F32},
    {"attention, causal", attention_causal, LEAN, IN_F32},
    {"attention, dropout", attention_dropout, LEAN, IN_F32},
    {"attention, packed", attention_packed, LEAN, IN_F32},
    {"attention, packed and causal in f16", attention_packed_causal, LEAN, NEAP_F16},
    {"attention, to itself", attention_to_itself, LEAN, IN_F32},
    {"attention, of q", attention_of_q, LEAN, IN_F32},
    {"attention, of k", attention_of_k, LEAN, IN_F32},
    {"attention, of v", attention_of_v, LEAN, IN_F32},
    {"lstm_cell", lstm_cell, LEAN, IN_F32},
    {"lstm_cell, without dc", lstm_cell_without_dc, LEAN, IN_F32},
    {"lstm_cell, without dh", lstm_cell_without_dh, LEAN, IN_F32},
    {"lstm_cell, first", lstm_cell_first, LEAN, IN_F32},
    {"lstm_cell, by data", lstm_cell_by_data, LEAN, IN_F32},
    {"xent", cross_entropy, LEAN, IN_F32},
    {"xent, spatial in bf16", cross_entropy_spatial, LEAN, NEAP_BF16},
    {"nll", cross_entropy, TORCH, IN_F32},
    {"nll, spatial", cross_entropy_spatial, TORCH, IN_F32},
};
const size_t n_op_cases = sizeof op_cases / sizeof *op_cases;
