/* Networks of op_cases.h; and cases of the layers that models are made of. */
#include "op_cases.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static neap_graph *graph_of(const op_case *c, const neap_training *training)
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
    if (neap_network_finish(net, y, training, &graph, &diag) != NEAP_OK)
        fail_msg("%s: %s", c->name, diag.message);
    neap_network_destroy(net);
    return graph;
}

neap_graph *op_case_graph(const op_case *c)
{
    return graph_of(c, NULL);
}

neap_graph *update_case_graph(const update_case *c)
{
    return graph_of(&c->base, &c->training);
}

static const op_case_list *const lists[] = {&layer_cases, &function_cases, &array_cases};
#define N_LISTS (sizeof lists / sizeof *lists)

size_t op_case_count(void)
{
    size_t count = 0;
    for (size_t i = 0; i < N_LISTS; i++)
        count += lists[i]->count;
    return count;
}

const op_case *op_case_at(size_t index)
{
    size_t list = 0;
    while (index >= lists[list]->count)
        index -= lists[list++]->count;
    return &lists[list]->cases[index];
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

/* Of four images of two channels, so that layouts differ: weights that do not train. */
static neap_tensor conv2d_by_data(neap_network *net)
{
    const neap_conv2d conv = {.pad_h = 1};
    neap_tensor weight = neap_net_input(net, "w", NEAP_F32, SHAPE(3, 2, 2, 3));
    neap_tensor bias = neap_net_parameter(net, "b", SHAPE(3));
    return neap_net_conv2d_with(net, "op", image(net, 2, 4, 5), weight, bias, &conv);
}

/* And weights that are the result of an op. */
static neap_tensor conv2d_of_result(neap_network *net)
{
    const neap_conv2d conv = {.pad_w = 1};
    neap_tensor weight = neap_net_parameter(net, "w", SHAPE(3, 2, 2, 3));
    return neap_net_conv2d_with(net, "op", image(net, 2, 4, 5),
                                neap_net_tanh(net, "weight", weight), NEAP_NONE, &conv);
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

static neap_tensor linear_constant_bias(neap_network *net)
{
    neap_tensor weight = neap_net_parameter(net, "w", SHAPE(2, 4));
    neap_tensor bias = neap_net_input(net, "b", NEAP_F32, SHAPE(2));
    return neap_net_linear_with(net, "op", matrix(net), weight, bias);
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

static neap_tensor group_norm(neap_network *net)
{
    return neap_net_group_norm(net, "op", image(net, 4, 3, 2), 2, 1e-3);
}

/* One group is all channels; a matrix has no pixels. */
static neap_tensor group_norm_matrix(neap_network *net)
{
    return neap_net_group_norm(net, "op", matrix(net), 1, 1e-3);
}

static neap_tensor group_norm_on_data(neap_network *net)
{
    neap_tensor x = neap_net_input(net, "x", NEAP_F32, SHAPE(1, 4, 3));
    return neap_net_group_norm(net, "op", x, 2, 1e-3);
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

/* Neither data nor values computed from it need a gradient. */
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

/* Where a figure is not obvious, the sizes that it follows from stand above the case. */
static const op_case cases[] = {
    /* y 2x6x3x4 = 144, patch 4/2 * 3*2 = 12; x 160, w 72, b 6 */
    {"conv2d", conv2d, LEAN, IN_F32,
     "conv2d(x, weight, bias) -> y f32[2,6,3,4] {stride_h=2 stride_w=1 pad_h=2 pad_w=1"
     " dilation=2 groups=2 output_pad=0 bias=1 relu=0}: 1728 MACs, 3600 FLOPs, 1528"
     " bytes\n"
     "conv2d_bw_weight(dy, x) -> dweight f32[6,2,3,2], dbias f32[6] {same}: 1728 MACs,"
     " 3600 FLOPs, 1528 bytes\n"
     "conv2d_bw_data(dy, weight) -> dx f32[2,4,5,4] {same}: 1728 MACs, 3456 FLOPs, 1504"
     " bytes\n"},
    /* y 2x2x3x2 = 24, patch 3 * 2*3 = 18; x 96, w 36 */
    {"conv2d, plain", conv2d_plain, LEAN, IN_F32,
     "conv2d(x, weight) -> y f32[2,2,3,2] {stride_h=1 stride_w=1 pad_h=0 pad_w=0"
     " dilation=1 groups=1 output_pad=0 bias=0 relu=0}: 432 MACs, 864 FLOPs, 624 bytes\n"
     "conv2d_bw_weight(dy, x) -> dweight f32[2,3,2,3] {same}: 432 MACs, 864 FLOPs, 624"
     " bytes\n"
     "conv2d_bw_data(dy, weight) -> dx f32[2,3,4,4] {same}: 432 MACs, 864 FLOPs, 624"
     " bytes\n"},
    /* y 54, patch 2*9 = 18; x 36, w 54, b 3; one more for each of bias and relu */
    {"conv2d, relu", conv2d_relu, LEAN, IN_F32,
     "conv2d(x, weight, bias) -> y f32[2,3,3,3] {stride_h=1 stride_w=1 pad_h=1 pad_w=1"
     " dilation=1 groups=1 output_pad=0 bias=1 relu=1}: 972 MACs, 2052 FLOPs, 588 bytes\n"
     "relu_bw(dy, y) -> dy.1 f32[2,3,3,3] (dy.1 over dy): 54 FLOPs, 648 bytes\n"
     "conv2d_bw_weight(dy.1, x) -> dweight f32[3,2,3,3], dbias f32[3] {same}: 972 MACs,"
     " 1998 FLOPs, 588 bytes\n"
     "conv2d_bw_data(dy.1, weight) -> dx f32[2,2,3,3] {same}: 972 MACs, 1944 FLOPs, 576"
     " bytes\n"},
    {"conv2d, on data", conv2d_on_data, LEAN, IN_F32,
     "conv2d(x, weight, bias) -> y f32[1,2,2,2] {stride_h=1 stride_w=1 pad_h=0 pad_w=0"
     " dilation=1 groups=1 output_pad=0 bias=1 relu=0}: 64 MACs, 136 FLOPs, 176 bytes\n"
     "conv2d_bw_weight(dy, x) -> dweight f32[2,2,2,2], dbias f32[2] {same}: 64 MACs, 136"
     " FLOPs, 176 bytes\n"},
    /* x 2x4x3x2 = 48 times 6/2 * 3*2 = 18; y 432, w 72, b 6 */
    {"conv_transpose2d", conv_transpose2d, LEAN, IN_F32,
     "conv_transpose2d(x, weight, bias) -> y f32[2,6,6,6] {stride_h=2 stride_w=3 pad_h=1"
     " pad_w=0 dilation=1 groups=2 output_pad=1 bias=1 relu=0}: 864 MACs, 2160 FLOPs,"
     " 2232 bytes\n"
     "conv_transpose2d_bw_weight(dy, x) -> dweight f32[4,3,3,2], dbias f32[6] {same}: 864"
     " MACs, 2160 FLOPs, 2232 bytes\n"
     "conv_transpose2d_bw_data(dy, weight) -> dx f32[2,4,3,2] {same}: 864 MACs, 1728"
     " FLOPs, 2208 bytes\n"},
    {"conv_transpose2d, plain", conv_transpose2d_plain, LEAN, IN_F32,
     "conv_transpose2d(x, weight) -> y f32[2,2,3,3] {stride_h=1 stride_w=1 pad_h=0"
     " pad_w=0 dilation=1 groups=1 output_pad=0 bias=0 relu=0}: 192 MACs, 384 FLOPs, 336"
     " bytes\n"
     "conv_transpose2d_bw_weight(dy, x) -> dweight f32[3,2,2,2] {same}: 192 MACs, 384"
     " FLOPs, 336 bytes\n"
     "conv_transpose2d_bw_data(dy, weight) -> dx f32[2,3,2,2] {same}: 192 MACs, 384"
     " FLOPs, 336 bytes\n"},
    /* 6 rows, 4 to 5 features */
    {"conv2d, by data", conv2d_by_data, LEAN, IN_F32,
     "conv2d(x, w, b) -> y f32[2,3,5,3] {stride_h=1 stride_w=1 pad_h=1 pad_w=0 dilation=1 groups=1"
     " output_pad=0 bias=1 relu=0}: 1080 MACs, 2250 FLOPs, 836 bytes\n"
     "sum_axes(dy) -> db f32[3] {axes=13 keepdims=0}: 90 FLOPs, 372 bytes\n"
     "conv2d_bw_data(dy, w) -> dx f32[2,2,4,5] {same}: 1080 MACs, 2160 FLOPs, 824 bytes\n"},
    {"conv2d, of a result", conv2d_of_result, LEAN, IN_F32,
     "tanh(w) -> weight f32[3,2,2,3]: 36 FLOPs, 288 bytes\n"
     "conv2d(x, weight) -> y f32[2,3,3,5] {stride_h=1 stride_w=1 pad_h=0 pad_w=1 dilation=1"
     " groups=1 output_pad=0 bias=0 relu=0}: 1080 MACs, 2160 FLOPs, 824 bytes\n"
     "conv2d_bw_weight(dy, x) -> dweight f32[3,2,2,3] {same}: 1080 MACs, 2160 FLOPs, 824 bytes\n"
     "conv2d_bw_data(dy, weight) -> dx f32[2,2,4,5] {same}: 1080 MACs, 2160 FLOPs, 824 bytes\n"
     "tanh_bw(dweight, weight) -> dw f32[3,2,2,3] (dw over dweight): 108 FLOPs, 432 bytes\n"},
    {"linear, constant bias", linear_constant_bias, LEAN, IN_F32,
     "linear(x, w, b) -> y f32[3,2] {bias=1}: 24 MACs, 54 FLOPs, 112 bytes\n"
     "linear_bw_weight(dy, x) -> dw f32[2,4] {bias=0}: 24 MACs, 48 FLOPs, 104 bytes\n"
     "linear_bw_data(dy, w) -> dx f32[3,4] {same}: 24 MACs, 48 FLOPs, 104 bytes\n"},
    {"linear", linear, LEAN, IN_F32,
     "linear(x, weight, bias) -> y f32[2,3,5] {bias=1}: 120 MACs, 270 FLOPs, 316 bytes\n"
     "linear_bw_weight(dy, x) -> dweight f32[5,4], dbias f32[5] {same}: 120 MACs, 270"
     " FLOPs, 316 bytes\n"
     "linear_bw_data(dy, weight) -> dx f32[2,3,4] {same}: 120 MACs, 240 FLOPs, 296 bytes\n"},
    {"linear, plain", linear_plain, LEAN, IN_F32,
     "linear(x, weight) -> y f32[3,2] {bias=0}: 24 MACs, 48 FLOPs, 104 bytes\n"
     "linear_bw_weight(dy, x) -> dweight f32[2,4] {same}: 24 MACs, 48 FLOPs, 104 bytes\n"
     "linear_bw_data(dy, weight) -> dx f32[3,4] {same}: 24 MACs, 48 FLOPs, 104 bytes\n"},
    {"linear, by data", linear_by_data, LEAN, IN_F32,
     "linear(x, w, b) -> y f32[3,2] {bias=1}: 24 MACs, 54 FLOPs, 112 bytes\n"
     "reduce(dy) -> db f32[2]: 6 FLOPs, 32 bytes\n"
     "linear_bw_data(dy, w) -> dx f32[3,4] {same}: 24 MACs, 48 FLOPs, 104 bytes\n"},
    /* 12 elements */
    {"relu", relu, LEAN, IN_F32,
     "relu(x) -> y f32[3,4]: 12 FLOPs, 96 bytes\n"
     "relu_bw(dy, y) -> dx f32[3,4] (dx over dy): 12 FLOPs, 144 bytes\n"},
    {"relu6", relu6, LEAN, IN_F32,
     "scale(x) -> wide f32[3,4] {factor=6 offset=3}: 24 FLOPs, 96 bytes\n"
     "relu6(wide) -> y f32[3,4] (y over wide): 24 FLOPs, 96 bytes\n"
     "relu6_bw(dy, y) -> dwide f32[3,4] (dwide over dy): 24 FLOPs, 144 bytes\n"
     "scale(dwide) -> dx f32[3,4] {factor=6 offset=0} (dx over dwide): 24 FLOPs, 96 bytes\n"},
    {"sigmoid", sigmoid, LEAN, IN_F32,
     "sigmoid(x) -> y f32[3,4]: 48 FLOPs, 96 bytes\n"
     "sigmoid_bw(dy, y) -> dx f32[3,4] (dx over dy): 36 FLOPs, 144 bytes\n"},
    {"tanh", tanh_, LEAN, IN_F32,
     "tanh(x) -> y f32[3,4]: 12 FLOPs, 96 bytes\n"
     "tanh_bw(dy, y) -> dx f32[3,4] (dx over dy): 36 FLOPs, 144 bytes\n"},
    {"gelu", gelu, LEAN, IN_F32,
     "gelu(x) -> y f32[3,4] {tanh=0}: 108 FLOPs, 96 bytes\n"
     "gelu_bw(dy, x) -> dx f32[3,4] {same} (dx over dy): 192 FLOPs, 144 bytes\n"},
    {"gelu, tanh", gelu_tanh, LEAN, IN_F32,
     "gelu(x) -> y f32[3,4] {tanh=1}: 108 FLOPs, 96 bytes\n"
     "gelu_bw(dy, x) -> dx f32[3,4] {same} (dx over dy): 192 FLOPs, 144 bytes\n"},
    {"dropout", dropout, LEAN, IN_F32,
     "dropout(x) -> y f32[3,4], mask u8[3,4] {p=0.4} random: 24 FLOPs, 108 bytes\n"
     "dropout_bw(dy, mask) -> dx f32[3,4] {same} (dx over dy): 24 FLOPs, 108 bytes\n"},
    {"add", add, LEAN, IN_F32, "add(a, b) -> y f32[3,4]: 12 FLOPs, 144 bytes\n"},
    {"add, broadcast", add_broadcast, LEAN, IN_F32,
     "add(a, b) -> y f32[2,2,3,4]: 48 FLOPs, 432 bytes\n"
     "reduce(dy) -> db f32[3,4]: 48 FLOPs, 240 bytes\n"},
    {"add, itself", add_itself, LEAN, IN_F32,
     "add(x, x) -> y f32[3,4]: 12 FLOPs, 144 bytes\n"
     "add(dy, dy) -> dx f32[3,4] (dx over dy): 12 FLOPs, 144 bytes\n"},
    {"mul", mul, LEAN, IN_F32,
     "mul(a, b) -> y f32[3,4]: 12 FLOPs, 144 bytes\n"
     "mul(dy, b) -> da f32[3,4] (da over dy): 12 FLOPs, 144 bytes\n"
     "mul(dy, a) -> db f32[3,4] (db over dy): 12 FLOPs, 144 bytes\n"},
    {"mul, itself", mul_itself, LEAN, IN_F32,
     "mul(x, x) -> y f32[3,4]: 12 FLOPs, 144 bytes\n"
     "mul(dy, x) -> dx f32[3,4] (dx over dy): 12 FLOPs, 144 bytes\n"
     "mul(dy, x) -> dx.1 f32[3,4] (dx.1 over dy): 12 FLOPs, 144 bytes\n"
     "add(dx, dx.1) -> dx.2 f32[3,4] (dx.2 over dx): 12 FLOPs, 144 bytes\n"},
    {"mul, by data", mul_by_data, LEAN, IN_F32,
     "mul(a, b) -> y f32[3,4]: 12 FLOPs, 144 bytes\n"
     "mul(dy, b) -> da f32[3,4] (da over dy): 12 FLOPs, 144 bytes\n"},
    {"scale", scale, LEAN, IN_F32,
     "scale(x) -> y f32[3,4] {factor=-2.5 offset=0.75}: 24 FLOPs, 96 bytes\n"
     "scale(dy) -> dx f32[3,4] {factor=-2.5 offset=0} (dx over dy): 24 FLOPs, 96 bytes\n"},
    {"pow", pow_, LEAN, IN_F32,
     "pow(x) -> y f32[3,4] {power=3}: 12 FLOPs, 96 bytes\n"
     "pow_bw(dy, x) -> dx f32[3,4] {same} (dx over dy): 36 FLOPs, 144 bytes\n"},
    {"batch_norm", batch_norm, LEAN, IN_F32,
     "batch_norm(x, weight, bias) -> y f32[2,3,2,2], mean f32[3], invstd f32[3]"
     " {epsilon=0.001}: 192 FLOPs, 240 bytes\n"
     "batch_norm_bw(dy, x, weight, mean, invstd) -> dx f32[2,3,2,2], dweight f32[3], dbias f32[3] "
     "{same} (dx over dy): 264 FLOPs, 348 bytes\n"},
    {"batch_norm, matrix in f16", batch_norm_matrix, LEAN, NEAP_F16,
     "batch_norm(x, weight, bias) -> y f16[4,3], mean f32[3], invstd f32[3]"
     " {epsilon=0.001}: 96 FLOPs, 84 bytes\n"
     "batch_norm_bw(dy, x, weight, mean, invstd) -> dx f16[4,3], dweight f16[3], dbias f16[3] "
     "{same} (dx over dy): 132 FLOPs, 114 bytes\n"},
    {"batch_norm, on data", batch_norm_on_data, LEAN, IN_F32,
     "batch_norm(x, weight, bias) -> y f32[4,3], mean f32[3], invstd f32[3]"
     " {epsilon=0.001}: 96 FLOPs, 144 bytes\n"
     "batch_norm_bw(dy, x, mean, invstd) -> dweight f32[3], dbias f32[3] {same}: 132"
     " FLOPs, 144 bytes\n"},
    {"layer_norm", layer_norm, LEAN, IN_F32,
     "layer_norm(x, weight, bias) -> y f32[2,3,4], mean f32[2,3], invstd f32[2,3]"
     " {epsilon=0.001}: 192 FLOPs, 272 bytes\n"
     "layer_norm_bw(dy, x, weight, mean, invstd) -> dx f32[2,3,4], dweight f32[4], dbias f32[4] "
     "{same} (dx over dy): 264 FLOPs, 384 bytes\n"},
    {"layer_norm, vector in bf16", layer_norm_vector, LEAN, NEAP_BF16,
     "layer_norm(x, weight, bias) -> y bf16[5], mean f32[1], invstd f32[1]"
     " {epsilon=0.001}: 40 FLOPs, 48 bytes\n"
     "layer_norm_bw(dy, x, weight, mean, invstd) -> dx bf16[5], dweight bf16[5], dbias bf16[5] "
     "{same} (dx over dy): 55 FLOPs, 68 bytes\n"},
    {"layer_norm, on data", layer_norm_on_data, LEAN, IN_F32,
     "layer_norm(x, weight, bias) -> y f32[4,3], mean f32[4], invstd f32[4]"
     " {epsilon=0.001}: 96 FLOPs, 152 bytes\n"
     "layer_norm_bw(dy, x, mean, invstd) -> dweight f32[3], dbias f32[3] {same}: 132"
     " FLOPs, 152 bytes\n"},
    /* x 2x4x3x2 = 48: 8 and 11 times that; 2 x 2 groups */
    {"group_norm", group_norm, LEAN, IN_F32,
     "group_norm(x, weight, bias) -> y f32[2,4,3,2], mean f32[2,2], invstd f32[2,2]"
     " {epsilon=0.001 groups=2}: 384 FLOPs, 448 bytes\n"
     "group_norm_bw(dy, x, weight, mean, invstd) -> dx f32[2,4,3,2], dweight f32[4], dbias f32[4] "
     "{same} (dx over dy): 528 FLOPs, 656 bytes\n"},
    {"group_norm, matrix in f16", group_norm_matrix, LEAN, NEAP_F16,
     "group_norm(x, weight, bias) -> y f16[3,4], mean f32[3,1], invstd f32[3,1]"
     " {epsilon=0.001 groups=1}: 96 FLOPs, 88 bytes\n"
     "group_norm_bw(dy, x, weight, mean, invstd) -> dx f16[3,4], dweight f16[4], dbias f16[4] "
     "{same} (dx over dy): 132 FLOPs, 120 bytes\n"},
    {"group_norm, on data", group_norm_on_data, LEAN, IN_F32,
     "group_norm(x, weight, bias) -> y f32[1,4,3], mean f32[1,2], invstd f32[1,2]"
     " {epsilon=0.001 groups=2}: 96 FLOPs, 144 bytes\n"
     "group_norm_bw(dy, x, mean, invstd) -> dweight f32[4], dbias f32[4] {same}: 132 FLOPs, 144"
     " bytes\n"},
    /* 36 windows of 6 on 64 elements */
    {"max_pool2d", max_pool2d, LEAN, IN_F32,
     "max_pool2d(x) -> y f32[2,2,3,3], indices u8[2,2,3,3] {kernel_h=3 kernel_w=2"
     " stride_h=2 stride_w=2 pad_h=1 pad_w=1 ceil_mode=1 count_include_pad=0}: 216 FLOPs,"
     " 436 bytes\n"
     "max_pool2d_bw(dy, indices) -> dx f32[2,2,4,4] {same}: 36 FLOPs, 436 bytes\n"},
    {"max_pool2d, torch", max_pool2d, TORCH, IN_F32,
     "max_pool2d(x) -> y f32[2,2,3,3], indices i64[2,2,3,3] {kernel_h=3 kernel_w=2"
     " stride_h=2 stride_w=2 pad_h=1 pad_w=1 ceil_mode=1 count_include_pad=0}: 216 FLOPs,"
     " 688 bytes\n"
     "max_pool2d_bw(dy, indices) -> dx f32[2,2,4,4] {same}: 36 FLOPs, 688 bytes\n"},
    {"max_pool2d, floor", max_pool2d_floor, LEAN, IN_F32,
     "max_pool2d(x) -> y f32[2,2,2,2], indices u8[2,2,2,2] {kernel_h=2 kernel_w=2"
     " stride_h=2 stride_w=2 pad_h=0 pad_w=0 ceil_mode=0 count_include_pad=0}: 64 FLOPs,"
     " 400 bytes\n"
     "max_pool2d_bw(dy, indices) -> dx f32[2,2,5,4] {same}: 16 FLOPs, 400 bytes\n"},
    {"max_pool2d, large", max_pool2d_large, LEAN, IN_F32,
     "max_pool2d(x) -> y f32[2,1,1,1], indices i32[2,1,1,1] {kernel_h=18 kernel_w=15"
     " stride_h=18 stride_w=15 pad_h=0 pad_w=0 ceil_mode=0 count_include_pad=0}: 540"
     " FLOPs, 2176 bytes\n"
     "max_pool2d_bw(dy, indices) -> dx f32[2,1,18,15] {same}: 2 FLOPs, 2176 bytes\n"},
    {"max_pool2d, long", max_pool2d_long, LEAN, IN_F32,
     "max_pool2d(x) -> y f32[2,1,2,2], indices u8[2,1,2,2] {kernel_h=1 kernel_w=20"
     " stride_h=1 stride_w=20 pad_h=0 pad_w=0 ceil_mode=0 count_include_pad=0}: 160"
     " FLOPs, 680 bytes\n"
     "max_pool2d_bw(dy, indices) -> dx f32[2,1,2,40] {same}: 8 FLOPs, 680 bytes\n"},
    {"avg_pool2d", avg_pool2d, LEAN, IN_F32,
     "avg_pool2d(x) -> y f32[2,2,3,3] {kernel_h=3 kernel_w=2 stride_h=2 stride_w=2"
     " pad_h=1 pad_w=1 ceil_mode=1 count_include_pad=0}: 216 FLOPs, 400 bytes\n"
     "avg_pool2d_bw(dy) -> dx f32[2,2,4,4] {same}: 216 FLOPs, 400 bytes\n"},
    {"avg_pool2d, with pad", avg_pool2d_with_pad, LEAN, IN_F32,
     "avg_pool2d(x) -> y f32[2,2,3,3] {kernel_h=3 kernel_w=2 stride_h=2 stride_w=2"
     " pad_h=1 pad_w=1 ceil_mode=1 count_include_pad=1}: 216 FLOPs, 400 bytes\n"
     "avg_pool2d_bw(dy) -> dx f32[2,2,4,4] {same}: 216 FLOPs, 400 bytes\n"},
    {"avg_pool2d, floor", avg_pool2d_floor, LEAN, IN_F32,
     "avg_pool2d(x) -> y f32[2,2,2,3] {kernel_h=3 kernel_w=2 stride_h=2 stride_w=2"
     " pad_h=1 pad_w=1 ceil_mode=0 count_include_pad=0}: 144 FLOPs, 352 bytes\n"
     "avg_pool2d_bw(dy) -> dx f32[2,2,4,4] {same}: 144 FLOPs, 352 bytes\n"},
    {"adaptive_avg_pool2d", adaptive_avg_pool2d, LEAN, IN_F32,
     "adaptive_avg_pool2d(x) -> y f32[2,2,3,3]: 80 FLOPs, 464 bytes\n"
     "adaptive_avg_pool2d_bw(dy) -> dx f32[2,2,5,4]: 80 FLOPs, 464 bytes\n"},
    {"max_unpool2d", max_unpool2d, LEAN, IN_F32,
     "max_pool2d(big) -> pool f32[2,2,2,2], pool.indices u8[2,2,2,2] {same}: 64 FLOPs,"
     " 336 bytes\n"
     "mul(pool, s) -> x f32[2,2,2,2] (x over pool): 16 FLOPs, 192 bytes\n"
     "max_unpool2d(x, pool.indices) -> y f32[2,2,4,4] {kernel_h=2 kernel_w=2 stride_h=2"
     " stride_w=2 pad_h=0 pad_w=0 ceil_mode=0 count_include_pad=0}: 336 bytes\n"
     "max_unpool2d_bw(dy, pool.indices) -> dx f32[2,2,2,2] {same}: 336 bytes\n"
     "mul(dx, s) -> dpool f32[2,2,2,2] (dpool over dx): 16 FLOPs, 192 bytes\n"
     "mul(dx, pool) -> ds f32[2,2,2,2] (ds over dx): 16 FLOPs, 192 bytes\n"
     "max_pool2d_bw(dpool, pool.indices) -> dbig f32[2,2,4,4] {same}: 16 FLOPs, 336"
     " bytes\n"},
    {"max_unpool2d, torch", max_unpool2d, TORCH, IN_F32,
     "max_pool2d(big) -> pool f32[2,2,2,2], pool.indices i64[2,2,2,2] {same}: 64 FLOPs,"
     " 448 bytes\n"
     "mul(pool, s) -> x f32[2,2,2,2] (x over pool): 16 FLOPs, 192 bytes\n"
     "max_unpool2d(x, pool.indices) -> y f32[2,2,4,4] {kernel_h=2 kernel_w=2 stride_h=2"
     " stride_w=2 pad_h=0 pad_w=0 ceil_mode=0 count_include_pad=0}: 448 bytes\n"
     "max_unpool2d_bw(dy, pool.indices) -> dx f32[2,2,2,2] {same}: 448 bytes\n"
     "mul(dx, s) -> dpool f32[2,2,2,2] (dpool over dx): 16 FLOPs, 192 bytes\n"
     "mul(dx, pool) -> ds f32[2,2,2,2] (ds over dx): 16 FLOPs, 192 bytes\n"
     "max_pool2d_bw(dpool, pool.indices) -> dbig f32[2,2,4,4] {same}: 16 FLOPs, 448"
     " bytes\n"},
    {"upsample", upsample, LEAN, IN_F32,
     "upsample(x) -> y f32[2,1,5,4] {align_corners=0}: 280 FLOPs, 208 bytes\n"
     "upsample_bw(dy) -> dx f32[2,1,2,3] {same}: 280 FLOPs, 208 bytes\n"},
    {"upsample, corners", upsample_corners, LEAN, IN_F32,
     "upsample(x) -> y f32[2,1,5,4] {align_corners=1}: 280 FLOPs, 208 bytes\n"
     "upsample_bw(dy) -> dx f32[2,1,3,2] {same}: 280 FLOPs, 208 bytes\n"},
    {"upsample, down", upsample_down, LEAN, IN_F32,
     "upsample(x) -> y f32[2,1,2,3] {align_corners=0}: 280 FLOPs, 208 bytes\n"
     "upsample_bw(dy) -> dx f32[2,1,5,4] {same}: 280 FLOPs, 208 bytes\n"},
    {"concat", concat, LEAN, IN_F32,
     "concat(a, b, c) -> y f32[2,6,3] {axis=1}: 288 bytes\n"
     "slice(dy) -> da f32[2,1,3] {axis=1 begin=0 end=1} view: 0 bytes\n"
     "slice(dy) -> dc f32[2,3,3] {axis=1 begin=3 end=6} view: 0 bytes\n"},
    {"concat, itself", concat_itself, LEAN, IN_F32,
     "concat(x, x) -> y f32[6,4] {axis=0}: 192 bytes\n"
     "slice(dy) -> dx f32[3,4] {axis=0 begin=0 end=3} view: 0 bytes\n"
     "slice(dy) -> dx.1 f32[3,4] {axis=0 begin=3 end=6} view: 0 bytes\n"
     "add(dx, dx.1) -> dx.2 f32[3,4]: 12 FLOPs, 144 bytes\n"},
    {"slice", slice, LEAN, IN_F32,
     "slice(x) -> y f32[2,3,3] {axis=1 begin=1 end=4} view: 0 bytes\n"
     "slice_bw(dy) -> dx f32[2,5,3] {same}: 192 bytes\n"},
    {"split", split, LEAN, IN_F32,
     "split(x) -> y f32[2,2,2], 1 f32[2,2,2], 2 f32[2,2,2] {axis=1} view: 0 bytes\n"
     "mul(y, 1) -> two f32[2,2,2]: 8 FLOPs, 96 bytes\n"
     "mul(two, 2) -> three f32[2,2,2] (three over two): 8 FLOPs, 96 bytes\n"
     "mul(dthree, 2) -> dtwo f32[2,2,2] (dtwo over dthree): 8 FLOPs, 96 bytes\n"
     "mul(dthree, two) -> d2 f32[2,2,2] (d2 over dthree): 8 FLOPs, 96 bytes\n"
     "mul(dtwo, 1) -> dy f32[2,2,2] (dy over dtwo): 8 FLOPs, 96 bytes\n"
     "mul(dtwo, y) -> d1 f32[2,2,2] (d1 over dtwo): 8 FLOPs, 96 bytes\n"
     "concat(dy, d1, d2) -> dx f32[2,6,2] {same}: 192 bytes\n"},
    {"reshape", reshape, LEAN, IN_F32,
     "reshape(x) -> y f32[2,2,3] view: 0 bytes\n"
     "reshape(dy) -> dx f32[3,4] view: 0 bytes\n"},
    {"reshape, flatten", reshape_flatten, LEAN, IN_F32,
     "reshape(x) -> y f32[2,12] view: 0 bytes\n"
     "reshape(dy) -> dx f32[2,2,2,3] view: 0 bytes\n"},
    {"transpose", transpose, LEAN, IN_F32,
     "transpose(x) -> y f32[4,3,2,2] {axis_a=0 axis_b=2}: 384 bytes\n"
     "transpose(dy) -> dx f32[2,3,4,2] {same}: 384 bytes\n"},
    {"expand", expand, LEAN, IN_F32,
     "expand(x) -> y f32[2,2,3]: 60 bytes\n"
     "reduce(dy) -> dx f32[3]: 12 FLOPs, 60 bytes\n"},
    {"pad2d", pad2d, LEAN, IN_F32,
     "pad2d(x) -> y f32[2,2,4,7] {top=0 bottom=1 left=2 right=3}: 544 bytes\n"
     "pad2d_bw(dy) -> dx f32[2,2,3,2] {same}: 544 bytes\n"},
    {"pad2d, on data", pad2d_on_data, LEAN, IN_F32,
     "pad2d(x) -> y f32[1,2,3,3] {top=1 bottom=0 left=0 right=1}: 104 bytes\n"
     "mul(y, s) -> product f32[1,2,3,3] (product over y): 18 FLOPs, 216 bytes\n"
     "mul(dproduct, y) -> ds f32[1,2,3,3] (ds over dproduct): 18 FLOPs, 216 bytes\n"},
    /* 12 ids, rows of 3: each row is read and written */
    {"embedding", embedding, LEAN, IN_F32,
     "embedding(ids, weight) -> y f32[3,4,3]: 384 bytes\n"
     "embedding_bw(dy, ids) -> dweight f32[5,3]: 36 FLOPs, 300 bytes\n"},
    /* N 2, Tq 3, Tk 5, C 4: a product is 120; 2 heads x 30 scores */
    {"attention", attention, LEAN, IN_F32,
     "attention(q, k, v) -> y f32[2,3,4], lse f32[2,2,3] {heads=2 causal=0 dropout=0}:"
     " 240 MACs, 780 FLOPs, 560 bytes\n"
     "attention_bw(dy, q, k, v, y, lse) -> dq f32[2,3,4], dk f32[2,5,4], dv f32[2,5,4]"
     " {same}: 600 MACs, 1680 FLOPs, 1072 bytes\n"},
    {"attention, causal", attention_causal, LEAN, IN_F32,
     "attention(q, k, v) -> y f32[2,3,4], lse f32[2,2,3] {heads=2 causal=1 dropout=0}:"
     " 120 MACs, 390 FLOPs, 560 bytes\n"
     "attention_bw(dy, q, k, v, y, lse) -> dq f32[2,3,4], dk f32[2,5,4], dv f32[2,5,4]"
     " {same}: 300 MACs, 840 FLOPs, 1072 bytes\n"},
    {"attention, dropout", attention_dropout, LEAN, IN_F32,
     "attention(q, k, v) -> y f32[2,3,4], lse f32[2,2,3] {heads=2 causal=0 dropout=0.3}"
     " random: 240 MACs, 780 FLOPs, 560 bytes\n"
     "attention_bw(dy, q, k, v, y, lse) -> dq f32[2,3,4], dk f32[2,5,4], dv f32[2,5,4]"
     " {same} random: 600 MACs, 1680 FLOPs, 1072 bytes\n"},
    /* N 2, T 3, C 4: 72, half of it; lse in f32 */
    {"attention, packed", attention_packed, LEAN, IN_F32,
     "attention(qkv) -> y f32[2,3,4], lse f32[2,2,3] {heads=2 causal=0 dropout=0}: 144"
     " MACs, 468 FLOPs, 432 bytes\n"
     "attention_bw(dy, qkv, y, lse) -> dqkv f32[2,3,12] {same}: 360 MACs, 1008 FLOPs, 816"
     " bytes\n"},
    {"attention, packed and causal in f16", attention_packed_causal, LEAN, NEAP_F16,
     "attention(qkv) -> y f16[2,3,4], lse f32[2,2,3] {heads=2 causal=1 dropout=0}: 72"
     " MACs, 234 FLOPs, 240 bytes\n"
     "attention_bw(dy, qkv, y, lse) -> dqkv f16[2,3,12] {same}: 180 MACs, 504 FLOPs, 432"
     " bytes\n"},
    {"attention, to itself", attention_to_itself, LEAN, IN_F32,
     "attention(x, x, x) -> y f32[2,3,4], lse f32[2,2,3] {heads=2 causal=0 dropout=0}:"
     " 144 MACs, 468 FLOPs, 432 bytes\n"
     "attention_bw(dy, x, x, x, y, lse) -> dx f32[2,3,4], dx.1 f32[2,3,4], dx.2"
     " f32[2,3,4] {same}: 360 MACs, 1008 FLOPs, 816 bytes\n"
     "add(dx, dx.1) -> dx.3 f32[2,3,4] (dx.3 over dx): 24 FLOPs, 288 bytes\n"
     "add(dx.3, dx.2) -> dx.4 f32[2,3,4] (dx.4 over dx.3): 24 FLOPs, 288 bytes\n"},
    {"attention, of q", attention_of_q, LEAN, IN_F32,
     "attention(q, k, v) -> y f32[1,3,4], lse f32[1,2,3] {heads=2 causal=0 dropout=0}: 72"
     " MACs, 234 FLOPs, 216 bytes\n"
     "attention_bw(dy, q, k, v, y, lse) -> dq f32[1,3,4] {heads=2 causal=0 dropout=0"
     " wants_dq=1 wants_dk=0 wants_dv=0}: 180 MACs, 504 FLOPs, 312 bytes\n"},
    {"attention, of k", attention_of_k, LEAN, IN_F32,
     "attention(q, k, v) -> y f32[1,3,4], lse f32[1,2,3] {heads=2 causal=0 dropout=0}: 72"
     " MACs, 234 FLOPs, 216 bytes\n"
     "attention_bw(dy, q, k, v, y, lse) -> dk f32[1,3,4] {heads=2 causal=0 dropout=0"
     " wants_dq=0 wants_dk=1 wants_dv=0}: 180 MACs, 504 FLOPs, 312 bytes\n"},
    {"attention, of v", attention_of_v, LEAN, IN_F32,
     "attention(q, k, v) -> y f32[1,3,4], lse f32[1,2,3] {heads=2 causal=0 dropout=0}: 72"
     " MACs, 234 FLOPs, 216 bytes\n"
     "attention_bw(dy, q, k, lse) -> dv f32[1,3,4] {heads=2 causal=0 dropout=0 wants_dq=0"
     " wants_dk=0 wants_dv=1}: 180 MACs, 504 FLOPs, 216 bytes\n"},
    {"lstm_cell", lstm_cell, LEAN, IN_F32,
     "lstm_cell(x, c) -> y f32[2,3], cell f32[2,3], gates f32[2,12]: 108 FLOPs, 264"
     " bytes\n"
     "concat(y, cell) -> both f32[2,6] {axis=1}: 96 bytes\n"
     "slice(dboth) -> dy f32[2,3] {axis=1 begin=0 end=3} view: 0 bytes\n"
     "slice(dboth) -> dcell f32[2,3] {axis=1 begin=3 end=6} view: 0 bytes\n"
     "lstm_cell_bw(dy, dcell, gates, c, cell) -> dx f32[2,12], dc f32[2,3] {has_dh=1 has_dc=1} (dx "
     "over gates): 144 FLOPs, 312 bytes\n"},
    {"lstm_cell, without dc", lstm_cell_without_dc, LEAN, IN_F32,
     "lstm_cell(x, c) -> y f32[2,3], cell f32[2,3], gates f32[2,12]: 108 FLOPs, 264"
     " bytes\n"
     "lstm_cell_bw(dy, gates, c, cell) -> dx f32[2,12], dc f32[2,3] {has_dh=1 has_dc=0} (dx over "
     "gates): 144 FLOPs, 288 bytes\n"},
    {"lstm_cell, without dh", lstm_cell_without_dh, LEAN, IN_F32,
     "lstm_cell(x, c) -> y f32[2,3], cell f32[2,3], gates f32[2,12]: 108 FLOPs, 264"
     " bytes\n"
     "lstm_cell_bw(dcell, gates, c) -> dx f32[2,12], dc f32[2,3] {has_dh=0 has_dc=1} (dx over "
     "gates): 144 FLOPs, 264 bytes\n"},
    {"lstm_cell, first", lstm_cell_first, LEAN, IN_F32,
     "lstm_cell(x, c) -> y f32[2,2], cell f32[2,2], gates f32[2,8]: 72 FLOPs, 176 bytes\n"
     "lstm_cell_bw(dy, gates, c, cell) -> dx f32[2,8] {has_dh=1 has_dc=0} (dx over gates): 96 "
     "FLOPs, 176 bytes\n"},
    {"lstm_cell, by data", lstm_cell_by_data, LEAN, IN_F32,
     "lstm_cell(x, c) -> y f32[2,2], cell f32[2,2], gates f32[2,8]: 72 FLOPs, 176 bytes\n"
     "lstm_cell_bw(dy, gates, cell) -> dc f32[2,2] {has_dh=1 has_dc=0} (dc over dy): 24 FLOPs, 112 "
     "bytes\n"},
    {"xent", cross_entropy, LEAN, IN_F32,
     "xent(x, labels) -> y f32[1], lse f32[3]: 48 FLOPs, 88 bytes\n"
     "xent_bw(dy, x, labels, lse) -> dx f32[3,4]: 48 FLOPs, 136 bytes\n"},
    {"xent, spatial in bf16", cross_entropy_spatial, LEAN, NEAP_BF16,
     "xent(x, labels) -> y f32[1], lse f32[2,2,3]: 192 FLOPs, 196 bytes\n"
     "xent_bw(dy, x, labels, lse) -> dx bf16[2,4,2,3]: 192 FLOPs, 292 bytes\n"},
    {"nll", cross_entropy, TORCH, IN_F32,
     "log_softmax(x) -> log_softmax f32[3,4]: 48 FLOPs, 96 bytes\n"
     "nll(log_softmax, labels) -> y f32[1]: 3 FLOPs, 40 bytes\n"
     "nll_bw(dy, labels) -> dlog_softmax f32[3,4]: 76 bytes\n"
     "log_softmax_bw(dlog_softmax, log_softmax) -> dx f32[3,4] (dx over dlog_softmax): 36 FLOPs, "
     "144 bytes\n"},
    {"nll, spatial", cross_entropy_spatial, TORCH, IN_F32,
     "log_softmax(x) -> log_softmax f32[2,4,2,3]: 192 FLOPs, 384 bytes\n"
     "nll(log_softmax, labels) -> y f32[1]: 12 FLOPs, 100 bytes\n"
     "nll_bw(dy, labels) -> dlog_softmax f32[2,4,2,3]: 244 bytes\n"
     "log_softmax_bw(dlog_softmax, log_softmax) -> dx f32[2,4,2,3] (dx over dlog_softmax): 144 "
     "FLOPs, 576 bytes\n"},
};
const op_case_list layer_cases = {cases, sizeof cases / sizeof *cases};
