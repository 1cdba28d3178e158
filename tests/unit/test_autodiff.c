/*
 * What the joint graph says: for every op type the backward ops it emits, what each reads and
 * produces, attributes and marks, as a table. test_gradients.c shows that it is the truth.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "op_cases.h"
#include "op_text.h"
#include "run_command.h"

#include "graph/network_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

#define UNEVEN  "kernel_h=3 kernel_w=2 stride_h=2 stride_w=2 pad_h=1 pad_w=1 "
#define TWO     "kernel_h=2 kernel_w=2 stride_h=2 stride_w=2 pad_h=0 pad_w=0 "
#define NO_CEIL "ceil_mode=0 count_include_pad=0"

/* The ops of each case of op_cases.c, in order, written as op_text.h says. The probe is left out.
 */
static const struct row {
    const char *name;
    const char *ops;
} rows[] = {
    {"conv2d",
     "conv2d(x, weight, bias) -> y f32[2,6,3,4] {stride_h=2 stride_w=1 pad_h=2 pad_w=1 dilation=2"
     " groups=2 output_pad=0 bias=1 relu=0}\n"
     "conv2d_bw_weight(dy, x) -> dweight f32[6,2,3,2], dbias f32[6] {same}\n"
     "conv2d_bw_data(dy, weight) -> dx f32[2,4,5,4] {same}\n"},
    {"conv2d, plain",
     "conv2d(x, weight) -> y f32[2,2,3,2] {stride_h=1 stride_w=1 pad_h=0 pad_w=0 dilation=1"
     " groups=1 output_pad=0 bias=0 relu=0}\n"
     "conv2d_bw_weight(dy, x) -> dweight f32[2,3,2,3] {same}\n"
     "conv2d_bw_data(dy, weight) -> dx f32[2,3,4,4] {same}\n"},
    {"conv2d, relu",
     "conv2d(x, weight, bias) -> y f32[2,3,3,3] {stride_h=1 stride_w=1 pad_h=1 pad_w=1 dilation=1"
     " groups=1 output_pad=0 bias=1 relu=1}\n"
     "relu_bw(dy, y) -> dy.1 f32[2,3,3,3] in place\n"
     "conv2d_bw_weight(dy.1, x) -> dweight f32[3,2,3,3], dbias f32[3] {same}\n"
     "conv2d_bw_data(dy.1, weight) -> dx f32[2,2,3,3] {same}\n"},
    {"conv2d, on data",
     "conv2d(x, weight, bias) -> y f32[1,2,2,2] {stride_h=1 stride_w=1 pad_h=0 pad_w=0 dilation=1"
     " groups=1 output_pad=0 bias=1 relu=0}\n"
     "conv2d_bw_weight(dy, x) -> dweight f32[2,2,2,2], dbias f32[2] {same}\n"},
    {"conv_transpose2d",
     "conv_transpose2d(x, weight, bias) -> y f32[2,6,6,6] {stride_h=2 stride_w=3 pad_h=1 pad_w=0"
     " dilation=1 groups=2 output_pad=1 bias=1 relu=0}\n"
     "conv_transpose2d_bw_weight(dy, x) -> dweight f32[4,3,3,2], dbias f32[6] {same}\n"
     "conv_transpose2d_bw_data(dy, weight) -> dx f32[2,4,3,2] {same}\n"},
    {"conv_transpose2d, plain",
     "conv_transpose2d(x, weight) -> y f32[2,2,3,3] {stride_h=1 stride_w=1 pad_h=0 pad_w=0"
     " dilation=1 groups=1 output_pad=0 bias=0 relu=0}\n"
     "conv_transpose2d_bw_weight(dy, x) -> dweight f32[3,2,2,2] {same}\n"
     "conv_transpose2d_bw_data(dy, weight) -> dx f32[2,3,2,2] {same}\n"},
    {"linear", "linear(x, weight, bias) -> y f32[2,3,5] {bias=1}\n"
               "linear_bw_weight(dy, x) -> dweight f32[5,4], dbias f32[5] {same}\n"
               "linear_bw_data(dy, weight) -> dx f32[2,3,4] {same}\n"},
    {"linear, plain", "linear(x, weight) -> y f32[3,2] {bias=0}\n"
                      "linear_bw_weight(dy, x) -> dweight f32[2,4] {same}\n"
                      "linear_bw_data(dy, weight) -> dx f32[3,4] {same}\n"},
    {"linear, by data", "linear(x, w, b) -> y f32[3,2] {bias=1}\n"
                        "reduce(dy) -> db f32[2]\n"
                        "linear_bw_data(dy, w) -> dx f32[3,4] {same}\n"},
    {"relu", "relu(x) -> y f32[3,4] in place\n"
             "relu_bw(dy, y) -> dx f32[3,4] in place\n"},
    {"relu6", "scale(x) -> wide f32[3,4] {factor=6 offset=3} in place\n"
              "relu6(wide) -> y f32[3,4] in place\n"
              "relu6_bw(dy, y) -> dwide f32[3,4] in place\n"
              "scale(dwide) -> dx f32[3,4] {factor=6 offset=0} in place\n"},
    {"sigmoid", "sigmoid(x) -> y f32[3,4] in place\n"
                "sigmoid_bw(dy, y) -> dx f32[3,4] in place\n"},
    {"tanh", "tanh(x) -> y f32[3,4] in place\n"
             "tanh_bw(dy, y) -> dx f32[3,4] in place\n"},
    {"gelu", "gelu(x) -> y f32[3,4] {tanh=0} in place\n"
             "gelu_bw(dy, x) -> dx f32[3,4] {same} in place\n"},
    {"gelu, tanh", "gelu(x) -> y f32[3,4] {tanh=1} in place\n"
                   "gelu_bw(dy, x) -> dx f32[3,4] {same} in place\n"},
    {"dropout", "dropout(x) -> y f32[3,4], mask u8[3,4] {p=0.4} random in place\n"
                "dropout_bw(dy, mask) -> dx f32[3,4] {same} in place\n"},
    {"add", "add(a, b) -> y f32[3,4] in place\n"}, /* both terms get dy itself */
    {"add, broadcast", "add(a, b) -> y f32[2,2,3,4] in place\n"
                       "reduce(dy) -> db f32[3,4]\n"},
    {"add, itself", "add(x, x) -> y f32[3,4] in place\n"
                    "add(dy, dy) -> dx f32[3,4] in place\n"},
    {"mul", "mul(a, b) -> y f32[3,4] in place\n"
            "mul(dy, b) -> da f32[3,4] in place\n"
            "mul(dy, a) -> db f32[3,4] in place\n"},
    {"mul, itself", "mul(x, x) -> y f32[3,4] in place\n"
                    "mul(dy, x) -> dx f32[3,4] in place\n"
                    "mul(dy, x) -> dx.1 f32[3,4] in place\n"
                    "add(dx, dx.1) -> dx.2 f32[3,4] in place\n"},
    {"mul, by data", "mul(a, b) -> y f32[3,4] in place\n"
                     "mul(dy, b) -> da f32[3,4] in place\n"},
    {"scale", "scale(x) -> y f32[3,4] {factor=-2.5 offset=0.75} in place\n"
              "scale(dy) -> dx f32[3,4] {factor=-2.5 offset=0} in place\n"},
    {"pow", "pow(x) -> y f32[3,4] {power=3} in place\n"
            "pow_bw(dy, x) -> dx f32[3,4] {same} in place\n"},
    {"batch_norm",
     "batch_norm(x, weight, bias) -> y f32[2,3,2,2], mean f32[3], invstd f32[3] {epsilon=0.001}\n"
     "batch_norm_bw(dy, x, weight, mean, invstd) -> dx f32[2,3,2,2], dweight f32[3], dbias f32[3]"
     " {same}\n"},
    {"batch_norm, matrix in f16",
     "batch_norm(x, weight, bias) -> y f16[4,3], mean f32[3], invstd f32[3] {epsilon=0.001}\n"
     "batch_norm_bw(dy, x, weight, mean, invstd) -> dx f16[4,3], dweight f16[3], dbias f16[3]"
     " {same}\n"},
    {"batch_norm, on data",
     "batch_norm(x, weight, bias) -> y f32[4,3], mean f32[3], invstd f32[3] {epsilon=0.001}\n"
     "batch_norm_bw(dy, x, mean, invstd) -> dweight f32[3], dbias f32[3] {same}\n"},
    {"layer_norm",
     "layer_norm(x, weight, bias) -> y f32[2,3,4], mean f32[2,3], invstd f32[2,3]"
     " {epsilon=0.001}\n"
     "layer_norm_bw(dy, x, weight, mean, invstd) -> dx f32[2,3,4], dweight f32[4], dbias f32[4]"
     " {same}\n"},
    {"layer_norm, vector in bf16",
     "layer_norm(x, weight, bias) -> y bf16[5], mean f32[1], invstd f32[1] {epsilon=0.001}\n"
     "layer_norm_bw(dy, x, weight, mean, invstd) -> dx bf16[5], dweight bf16[5], dbias bf16[5]"
     " {same}\n"},
    {"layer_norm, on data",
     "layer_norm(x, weight, bias) -> y f32[4,3], mean f32[4], invstd f32[4] {epsilon=0.001}\n"
     "layer_norm_bw(dy, x, mean, invstd) -> dweight f32[3], dbias f32[3] {same}\n"},
    {"max_pool2d", "max_pool2d(x) -> y f32[2,2,3,3], indices u8[2,2,3,3]"
                   " {" UNEVEN "ceil_mode=1 count_include_pad=0}\n"
                   "max_pool2d_bw(dy, indices) -> dx f32[2,2,4,4] {same}\n"},
    {"max_pool2d, torch", "max_pool2d(x) -> y f32[2,2,3,3], indices i64[2,2,3,3]"
                          " {" UNEVEN "ceil_mode=1 count_include_pad=0}\n"
                          "max_pool2d_bw(dy, indices) -> dx f32[2,2,4,4] {same}\n"},
    {"max_pool2d, floor", "max_pool2d(x) -> y f32[2,2,2,2], indices u8[2,2,2,2]"
                          " {" TWO NO_CEIL "}\n"
                          "max_pool2d_bw(dy, indices) -> dx f32[2,2,5,4] {same}\n"},
    {"max_pool2d, large", "max_pool2d(x) -> y f32[2,1,1,1], indices i32[2,1,1,1]"
                          " {kernel_h=18 kernel_w=15 stride_h=18 stride_w=15 pad_h=0 pad_w=0"
                          " " NO_CEIL "}\n"
                          "max_pool2d_bw(dy, indices) -> dx f32[2,1,18,15] {same}\n"},
    {"max_pool2d, long", "max_pool2d(x) -> y f32[2,1,2,2], indices u8[2,1,2,2]"
                         " {kernel_h=1 kernel_w=20 stride_h=1 stride_w=20 pad_h=0 pad_w=0"
                         " " NO_CEIL "}\n"
                         "max_pool2d_bw(dy, indices) -> dx f32[2,1,2,40] {same}\n"},
    {"avg_pool2d", "avg_pool2d(x) -> y f32[2,2,3,3] {" UNEVEN "ceil_mode=1 count_include_pad=0}\n"
                   "avg_pool2d_bw(dy) -> dx f32[2,2,4,4] {same}\n"},
    {"avg_pool2d, with pad",
     "avg_pool2d(x) -> y f32[2,2,3,3] {" UNEVEN "ceil_mode=1 count_include_pad=1}\n"
     "avg_pool2d_bw(dy) -> dx f32[2,2,4,4] {same}\n"},
    {"avg_pool2d, floor", "avg_pool2d(x) -> y f32[2,2,2,3] {" UNEVEN NO_CEIL "}\n"
                          "avg_pool2d_bw(dy) -> dx f32[2,2,4,4] {same}\n"},
    {"adaptive_avg_pool2d", "adaptive_avg_pool2d(x) -> y f32[2,2,3,3]\n"
                            "adaptive_avg_pool2d_bw(dy) -> dx f32[2,2,5,4]\n"},
    {"max_unpool2d", "max_pool2d(big) -> pool f32[2,2,2,2], pool.indices u8[2,2,2,2] {same}\n"
                     "mul(pool, s) -> x f32[2,2,2,2] in place\n"
                     "max_unpool2d(x, pool.indices) -> y f32[2,2,4,4] {" TWO NO_CEIL "}\n"
                     "max_unpool2d_bw(dy, pool.indices) -> dx f32[2,2,2,2] {same}\n"
                     "mul(dx, s) -> dpool f32[2,2,2,2] in place\n"
                     "mul(dx, pool) -> ds f32[2,2,2,2] in place\n"
                     "max_pool2d_bw(dpool, pool.indices) -> dbig f32[2,2,4,4] {same}\n"},
    {"max_unpool2d, torch",
     "max_pool2d(big) -> pool f32[2,2,2,2], pool.indices i64[2,2,2,2] {same}\n"
     "mul(pool, s) -> x f32[2,2,2,2] in place\n"
     "max_unpool2d(x, pool.indices) -> y f32[2,2,4,4] {" TWO NO_CEIL "}\n"
     "max_unpool2d_bw(dy, pool.indices) -> dx f32[2,2,2,2] {same}\n"
     "mul(dx, s) -> dpool f32[2,2,2,2] in place\n"
     "mul(dx, pool) -> ds f32[2,2,2,2] in place\n"
     "max_pool2d_bw(dpool, pool.indices) -> dbig f32[2,2,4,4] {same}\n"},
    {"upsample", "upsample(x) -> y f32[2,1,5,4] {align_corners=0}\n"
                 "upsample_bw(dy) -> dx f32[2,1,2,3] {same}\n"},
    {"upsample, corners", "upsample(x) -> y f32[2,1,5,4] {align_corners=1}\n"
                          "upsample_bw(dy) -> dx f32[2,1,3,2] {same}\n"},
    {"upsample, down", "upsample(x) -> y f32[2,1,2,3] {align_corners=0}\n"
                       "upsample_bw(dy) -> dx f32[2,1,5,4] {same}\n"},
    {"concat", "concat(a, b, c) -> y f32[2,6,3] {axis=1}\n"
               "slice(dy) -> da f32[2,1,3] {axis=1 begin=0 end=1} view\n"
               "slice(dy) -> dc f32[2,3,3] {axis=1 begin=3 end=6} view\n"},
    {"concat, itself", "concat(x, x) -> y f32[6,4] {axis=0}\n"
                       "slice(dy) -> dx f32[3,4] {axis=0 begin=0 end=3} view\n"
                       "slice(dy) -> dx.1 f32[3,4] {axis=0 begin=3 end=6} view\n"
                       "add(dx, dx.1) -> dx.2 f32[3,4] in place\n"},
    {"slice", "slice(x) -> y f32[2,3,3] {axis=1 begin=1 end=4} view\n"
              "slice_bw(dy) -> dx f32[2,5,3] {same}\n"},
    {"split", "split(x) -> y f32[2,2,2], 1 f32[2,2,2], 2 f32[2,2,2] {axis=1} view\n"
              "mul(y, 1) -> two f32[2,2,2] in place\n"
              "mul(two, 2) -> three f32[2,2,2] in place\n"
              "mul(dthree, 2) -> dtwo f32[2,2,2] in place\n"
              "mul(dthree, two) -> d2 f32[2,2,2] in place\n"
              "mul(dtwo, 1) -> dy f32[2,2,2] in place\n"
              "mul(dtwo, y) -> d1 f32[2,2,2] in place\n"
              "concat(dy, d1, d2) -> dx f32[2,6,2] {same}\n"},
    {"reshape", "reshape(x) -> y f32[2,2,3] view\n"
                "reshape(dy) -> dx f32[3,4] view\n"},
    {"reshape, flatten", "reshape(x) -> y f32[2,12] view\n"
                         "reshape(dy) -> dx f32[2,2,2,3] view\n"},
    {"transpose", "transpose(x) -> y f32[4,3,2,2] {axis_a=0 axis_b=2}\n"
                  "transpose(dy) -> dx f32[2,3,4,2] {same}\n"},
    {"expand", "expand(x) -> y f32[2,2,3]\n"
               "reduce(dy) -> dx f32[3]\n"},
    {"pad2d", "pad2d(x) -> y f32[2,2,4,7] {top=0 bottom=1 left=2 right=3}\n"
              "pad2d_bw(dy) -> dx f32[2,2,3,2] {same}\n"},
    {"pad2d, on data", "pad2d(x) -> y f32[1,2,3,3] {top=1 bottom=0 left=0 right=1}\n"
                       "mul(y, s) -> product f32[1,2,3,3] in place\n"
                       "mul(dproduct, y) -> ds f32[1,2,3,3] in place\n"},
    {"embedding", "embedding(ids, weight) -> y f32[3,4,3]\n"
                  "embedding_bw(dy, ids) -> dweight f32[5,3]\n"},
    {"attention",
     "attention(q, k, v) -> y f32[2,3,4], lse f32[2,2,3] {heads=2 causal=0 dropout=0}\n"
     "attention_bw(dy, q, k, v, y, lse) -> dq f32[2,3,4], dk f32[2,5,4], dv f32[2,5,4] {same}\n"},
    {"attention, causal",
     "attention(q, k, v) -> y f32[2,3,4], lse f32[2,2,3] {heads=2 causal=1 dropout=0}\n"
     "attention_bw(dy, q, k, v, y, lse) -> dq f32[2,3,4], dk f32[2,5,4], dv f32[2,5,4] {same}\n"},
    {"attention, dropout",
     "attention(q, k, v) -> y f32[2,3,4], lse f32[2,2,3] {heads=2 causal=0 dropout=0.3} random\n"
     "attention_bw(dy, q, k, v, y, lse) -> dq f32[2,3,4], dk f32[2,5,4], dv f32[2,5,4] {same}"
     " random\n"},
    {"attention, packed",
     "attention(qkv) -> y f32[2,3,4], lse f32[2,2,3] {heads=2 causal=0 dropout=0}\n"
     "attention_bw(dy, qkv, y, lse) -> dqkv f32[2,3,12] {same}\n"},
    {"attention, packed and causal in f16",
     "attention(qkv) -> y f16[2,3,4], lse f32[2,2,3] {heads=2 causal=1 dropout=0}\n"
     "attention_bw(dy, qkv, y, lse) -> dqkv f16[2,3,12] {same}\n"},
    {"attention, to itself",
     "attention(x, x, x) -> y f32[2,3,4], lse f32[2,2,3] {heads=2 causal=0 dropout=0}\n"
     "attention_bw(dy, x, x, x, y, lse) -> dx f32[2,3,4], dx.1 f32[2,3,4], dx.2 f32[2,3,4] {same}\n"
     "add(dx, dx.1) -> dx.3 f32[2,3,4] in place\n"
     "add(dx.3, dx.2) -> dx.4 f32[2,3,4] in place\n"},
    {"attention, of q",
     "attention(q, k, v) -> y f32[1,3,4], lse f32[1,2,3] {heads=2 causal=0 dropout=0}\n"
     "attention_bw(dy, q, k, v, y, lse) -> dq f32[1,3,4]"
     " {heads=2 causal=0 dropout=0 wants_dq=1 wants_dk=0 wants_dv=0}\n"},
    {"attention, of k",
     "attention(q, k, v) -> y f32[1,3,4], lse f32[1,2,3] {heads=2 causal=0 dropout=0}\n"
     "attention_bw(dy, q, k, v, y, lse) -> dk f32[1,3,4]"
     " {heads=2 causal=0 dropout=0 wants_dq=0 wants_dk=1 wants_dv=0}\n"},
    {"attention, of v",
     "attention(q, k, v) -> y f32[1,3,4], lse f32[1,2,3] {heads=2 causal=0 dropout=0}\n"
     "attention_bw(dy, q, k, lse) -> dv f32[1,3,4]"
     " {heads=2 causal=0 dropout=0 wants_dq=0 wants_dk=0 wants_dv=1}\n"},
    {"lstm_cell",
     "lstm_cell(x, c) -> y f32[2,3], cell f32[2,3], gates f32[2,12]\n"
     "concat(y, cell) -> both f32[2,6] {axis=1}\n"
     "slice(dboth) -> dy f32[2,3] {axis=1 begin=0 end=3} view\n"
     "slice(dboth) -> dcell f32[2,3] {axis=1 begin=3 end=6} view\n"
     "lstm_cell_bw(dy, dcell, gates, c, cell) -> dx f32[2,12], dc f32[2,3] {has_dh=1 has_dc=1}\n"},
    {"lstm_cell, without dc",
     "lstm_cell(x, c) -> y f32[2,3], cell f32[2,3], gates f32[2,12]\n"
     "lstm_cell_bw(dy, gates, c, cell) -> dx f32[2,12], dc f32[2,3] {has_dh=1 has_dc=0}\n"},
    {"lstm_cell, without dh",
     "lstm_cell(x, c) -> y f32[2,3], cell f32[2,3], gates f32[2,12]\n"
     "lstm_cell_bw(dcell, gates, c) -> dx f32[2,12], dc f32[2,3] {has_dh=0 has_dc=1}\n"},
    {"lstm_cell, first", "lstm_cell(x, c) -> y f32[2,2], cell f32[2,2], gates f32[2,8]\n"
                         "lstm_cell_bw(dy, gates, c, cell) -> dx f32[2,8] {has_dh=1 has_dc=0}\n"},
    {"lstm_cell, by data", "lstm_cell(x, c) -> y f32[2,2], cell f32[2,2], gates f32[2,8]\n"
                           "lstm_cell_bw(dy, gates, cell) -> dc f32[2,2] {has_dh=1 has_dc=0}\n"},
    {"xent", "xent(x, labels) -> y f32[1], lse f32[3]\n"
             "xent_bw(dy, x, labels, lse) -> dx f32[3,4]\n"},
    {"xent, spatial in bf16", "xent(x, labels) -> y f32[1], lse f32[2,2,3]\n"
                              "xent_bw(dy, x, labels, lse) -> dx bf16[2,4,2,3]\n"},
    {"nll", "log_softmax(x) -> log_softmax f32[3,4]\n"
            "nll(log_softmax, labels) -> y f32[1]\n"
            "nll_bw(dy, labels) -> dlog_softmax f32[3,4]\n"
            "log_softmax_bw(dlog_softmax, log_softmax) -> dx f32[3,4]\n"},
    {"nll, spatial", "log_softmax(x) -> log_softmax f32[2,4,2,3]\n"
                     "nll(log_softmax, labels) -> y f32[1]\n"
                     "nll_bw(dy, labels) -> dlog_softmax f32[2,4,2,3]\n"
                     "log_softmax_bw(dlog_softmax, log_softmax) -> dx f32[2,4,2,3]\n"},
};

/* ---- The table ---- */

static const neap_op *op_named(const neap_graph *graph, const char *name)
{
    for (uint32_t o = 0; o < neap_graph_op_count(graph); o++)
        if (strcmp(neap_graph_op(graph, o)->name, name) == 0)
            return neap_graph_op(graph, o);
    fail_msg("%s has no op \"%s\"", neap_graph_name(graph), name);
    return NULL;
}

static bool is_probe(const neap_op *op)
{
    return strncmp(op->name, "flat", 4) == 0 || strncmp(op->name, "probe", 5) == 0;
}

static char *text_of(const neap_graph *graph)
{
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    assert_non_null(out);
    for (uint32_t o = 0; o < neap_graph_op_count(graph); o++)
        if (!is_probe(neap_graph_op(graph, o)))
            op_text(out, graph, neap_graph_op(graph, o), op_named(graph, "op"));
    assert_int_equal(fclose(out), 0);
    return text;
}

static void test_backward_ops_are_those_of_the_table(void **state)
{
    (void)state;
    bool failed = false;
    for (size_t i = 0; i < n_op_cases; i++) {
        assert_true(i < COUNT_OF(rows));
        assert_string_equal(rows[i].name, op_cases[i].name);
        neap_graph *graph = op_case_graph(&op_cases[i]);
        char *text = text_of(graph);
        if (strcmp(text, rows[i].ops) != 0) {
            print_error("%s is\n%snot\n%s", rows[i].name, text, rows[i].ops);
            failed = true;
        }
        free(text);
        neap_graph_destroy(graph);
    }
    assert_int_equal(COUNT_OF(rows), n_op_cases);
    assert_false(failed);
}

/* Whether some case has an op of the type in the given pass. */
static bool table_has(const char *type, neap_pass pass)
{
    bool found = false;
    for (size_t i = 0; i < n_op_cases && !found; i++) {
        neap_graph *graph = op_case_graph(&op_cases[i]);
        for (uint32_t o = 0; o < neap_graph_op_count(graph); o++) {
            const neap_op *op = neap_graph_op(graph, o);
            found = found || (!is_probe(op) && op->pass == pass && strcmp(op->type, type) == 0);
        }
        neap_graph_destroy(graph);
    }
    return found;
}

static void test_every_type_is_in_the_table(void **state)
{
    (void)state;
    size_t count = 1;
    for (size_t i = 0; i < count; i++) {
        const op_def *def = neap_op_def_at(i, &count);
        if (!table_has(def->type, def->backward ? NEAP_FORWARD : NEAP_BACKWARD))
            fail_msg("no case of tests/support/op_cases.c has the op type \"%s\"", def->type);
    }
}

/* ---- What holds for all graphs ---- */

static void check_names(const neap_graph *graph)
{
    for (uint32_t o = 0; o < neap_graph_op_count(graph); o++)
        for (uint32_t p = 0; p < o; p++)
            assert_string_not_equal(neap_graph_op(graph, o)->name, neap_graph_op(graph, p)->name);
    for (uint32_t v = 0; v < neap_graph_value_count(graph); v++)
        for (uint32_t w = 0; w < v; w++)
            assert_string_not_equal(neap_graph_value(graph, v)->name,
                                    neap_graph_value(graph, w)->name);
}

static void check_results(const neap_graph *graph, const neap_op *op)
{
    for (uint32_t i = 0; i < op->n_outputs; i++) {
        const neap_value *value = neap_graph_value(graph, op->outputs[i]);
        assert_string_equal(value->kind,
                            op->pass == NEAP_FORWARD ? NEAP_KIND_ACTIVATION : NEAP_KIND_GRADIENT);
        int64_t bytes = neap_dtype_bytes(value->dtype);
        for (uint32_t d = 0; d < value->rank; d++)
            bytes *= value->shape[d];
        assert_int_equal(value->bytes, value->view_of == NEAP_NONE ? bytes : 0);
    }
}

/* Forward ops first; counts on every op; names that tell them apart; every gradient is used. */
static void test_graphs_are_in_order(void **state)
{
    (void)state;
    for (size_t i = 0; i < n_op_cases + n_network_cases; i++) {
        const op_case *c = i < n_op_cases ? &op_cases[i] : &network_cases[i - n_op_cases];
        neap_graph *graph = op_case_graph(c);
        neap_pass pass = NEAP_FORWARD;
        for (uint32_t o = 0; o < neap_graph_op_count(graph); o++) {
            const neap_op *op = neap_graph_op(graph, o);
            neap_op_count work = neap_op_count_work(graph, o);
            assert_true(op->pass >= pass);
            pass = op->pass;
            assert_true(work.known);
            assert_int_equal(op->flops, work.flops);
            assert_int_equal(op->bytes_moved, work.bytes_moved);
            check_results(graph, op);
        }
        assert_int_equal(pass, NEAP_BACKWARD);
        for (uint32_t v = 0; v < neap_graph_value_count(graph); v++) {
            uint32_t n_readers;
            neap_graph_readers(graph, v, &n_readers);
            if (strcmp(neap_graph_value(graph, v)->kind, NEAP_KIND_GRADIENT) == 0 && n_readers == 0)
                assert_true(neap_graph_is_output(graph, v));
        }
        check_names(graph);
        neap_graph_destroy(graph);
    }
}

/* ---- docs/ops.md ---- */

/* The row of a type, from its first "|" to the end of the line; NULL if there is none. */
static const char *row_of(const char *document, const char *type)
{
    char beginning[64];
    snprintf(beginning, sizeof beginning, "\n| `%s` |", type);
    const char *row = strstr(document, beginning);
    return row ? row + 1 : NULL;
}

static bool row_has(const char *row, const char *words)
{
    const char *found = strstr(row, words);
    return found && found < row + strcspn(row, "\n");
}

/* The last cell of a row. */
static void check_marks(const char *row, const op_def *def)
{
    char cell[128];
    const char *end = row + strcspn(row, "\n");
    const char *from = end - 1;
    while (from > row && from[-1] != '|')
        from--;
    assert_true((size_t)(end - from) < sizeof cell);
    memcpy(cell, from, (size_t)(end - from));
    cell[end - from] = '\0';
    if ((strstr(cell, "view") != NULL) != def->view ||
        (strstr(cell, "random") != NULL) != def->random ||
        (strstr(cell, "in place") != NULL) != def->in_place)
        fail_msg("docs/ops.md: \"%s\" has the marks \"%s\"", def->type, cell);
}

static void test_the_document_has_a_row_for_every_type(void **state)
{
    (void)state;
    char *document = read_text_file(NEAP_SOURCE_DIR "/docs/ops.md");
    assert_non_null(document);
    size_t count = 1, n_rows = 0;
    for (size_t i = 0; i < count; i++) {
        const op_def *def = neap_op_def_at(i, &count);
        const char *row = row_of(document, def->type);
        if (!row)
            fail_msg("docs/ops.md has no row for \"%s\"", def->type);
        if (row_of(row, def->type))
            fail_msg("docs/ops.md has two rows for \"%s\"", def->type);
        check_marks(row, def);
    }
    for (const char *at = document; (at = strstr(at, "\n| `")) != NULL; at++)
        n_rows++;
    assert_int_equal(n_rows, count);
    free(document);
}

/* The row of a forward type names the backward ops that its cases emit. */
static void test_the_document_names_the_backward_ops(void **state)
{
    (void)state;
    char *document = read_text_file(NEAP_SOURCE_DIR "/docs/ops.md");
    assert_non_null(document);
    for (size_t i = 0; i < n_op_cases; i++) {
        neap_graph *graph = op_case_graph(&op_cases[i]);
        const char *type = op_named(graph, "op")->type;
        for (uint32_t o = 0; o < neap_graph_op_count(graph); o++) {
            const neap_op *op = neap_graph_op(graph, o);
            char words[64];
            snprintf(words, sizeof words, "`%s`", op->type);
            if (op->pass == NEAP_BACKWARD && strncmp(op->name, "op.", 3) == 0 &&
                !strstr(op->name, "log_softmax") && !row_has(row_of(document, type), words))
                fail_msg("docs/ops.md: \"%s\" does not name %s", type, words);
        }
        neap_graph_destroy(graph);
    }
    free(document);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_backward_ops_are_those_of_the_table),
        cmocka_unit_test(test_every_type_is_in_the_table),
        cmocka_unit_test(test_graphs_are_in_order),
        cmocka_unit_test(test_the_document_has_a_row_for_every_type),
        cmocka_unit_test(test_the_document_names_the_backward_ops),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
