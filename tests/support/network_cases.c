/* Small whole networks: gradients that are summed, shared weights, branches that end. */
#include "op_cases.h"

#include <math.h>

static neap_tensor labels_of(neap_network *net, int64_t rows)
{
    return neap_net_input(net, "labels", NEAP_I64, SHAPE(rows));
}

/* Skip connections: h is read by three ops. */
static neap_tensor residual(neap_network *net)
{
    neap_tensor x = neap_net_input(net, "x", NEAP_F32, SHAPE(4, 3));
    neap_tensor h = neap_net_relu(net, "relu", neap_net_linear(net, "fc1", x, 5, true));
    neap_tensor a = neap_net_tanh(net, "tanh", neap_net_linear(net, "fc2", h, 5, true));
    neap_tensor b = neap_net_sigmoid(net, "sigmoid", neap_net_linear(net, "fc3", h, 5, false));
    h = neap_net_add(net, "skip", neap_net_add(net, "sum", a, b), h);
    h = neap_net_dropout(net, "dropout", h, 0.25);
    return neap_net_cross_entropy(net, "loss", neap_net_linear(net, "head", h, 3, true),
                                  labels_of(net, 4));
}

/* One tensor, many readers of every sort; one of them leads nowhere. */
static neap_tensor crossroads(neap_network *net)
{
    neap_tensor x = neap_net_parameter(net, "x", SHAPE(4, 4));
    neap_tensor y = neap_net_mul(net, "square", x, x);
    y = neap_net_add(net, "plus_turned", y, neap_net_transpose(net, "turned", x, 0, 1));
    y = neap_net_mul(net, "times_curve", y, neap_net_gelu(net, "curve", x, false));
    neap_tensor row = neap_net_slice(net, "row", x, 0, 1, 2);
    y = neap_net_add(net, "plus_row", y, neap_net_reshape(net, "flat_row", row, SHAPE(4)));
    neap_net_relu(net, "nowhere", y);
    neap_tensor twice = neap_net_concat(net, "twice", 3, (neap_tensor[]){x, y, x}, 1);
    return neap_net_scale(net, "half", twice, 0.5, 1);
}

/* Lists longer than any that a count looks at. */
static neap_tensor many_parts(neap_network *net)
{
    enum { COUNT = 19 };
    neap_tensor parts[COUNT], x = neap_net_parameter(net, "x", SHAPE(2, COUNT));
    neap_net_split(net, "split", x, 1, COUNT, parts);
    for (uint32_t i = 1; i < COUNT; i++) {
        neap_net_enter(net, "%u", i);
        parts[i] = neap_net_mul(net, "next", parts[i], parts[i - 1]);
        neap_net_leave(net);
    }
    return neap_net_concat(net, "concat", COUNT, parts, 0);
}

/* GELU of elementwise ops, as under NEAP_KERNELS_TORCH. */
static neap_tensor composed_gelu(neap_network *net)
{
    neap_tensor x = neap_net_parameter(net, "x", SHAPE(3, 4));
    neap_tensor cube = neap_net_scale(net, "c", neap_net_pow(net, "cube", x, 3), 0.044715, 0);
    neap_tensor inner = neap_net_add(net, "inner", x, cube);
    inner = neap_net_tanh(net, "tanh", neap_net_scale(net, "s", inner, sqrt(2 / 3.14159265), 0));
    neap_tensor half = neap_net_scale(net, "half", x, 0.5, 0);
    return neap_net_mul(net, "gelu", half, neap_net_scale(net, "one", inner, 1, 1));
}

static neap_tensor mlp(neap_network *net, neap_tensor x)
{
    int64_t width = neap_net_dim(net, x, 2);
    x = neap_net_gelu(net, "gelu", neap_net_linear(net, "fc", x, 2 * width, true), true);
    return neap_net_linear(net, "proj", x, width, true);
}

/* A transformer whose word embedding is also its last layer. */
static neap_tensor tied_transformer(neap_network *net)
{
    enum { BATCH = 2, LENGTH = 3, WORDS = 5, WIDTH = 4 };
    neap_tensor ids = neap_net_input(net, "ids", NEAP_I64, SHAPE(BATCH, LENGTH)), words;
    neap_tensor x = neap_net_embedding(net, "wte", ids, WORDS, WIDTH, &words);
    x = neap_net_add(net, "embed", x, neap_net_parameter(net, "wpe", SHAPE(LENGTH, WIDTH)));
    neap_net_enter(net, "h.%d", 0);
    neap_tensor y = neap_net_layer_norm(net, "ln1", x, 1e-5);
    y = neap_net_linear(net, "qkv", y, 3 * WIDTH, true);
    y = neap_net_attention(net, "attn", y, NEAP_NONE, NEAP_NONE, 2, true, 0.25);
    x = neap_net_add(net, "res1", x, neap_net_linear(net, "out", y, WIDTH, true));
    x = neap_net_add(net, "res2", x, mlp(net, neap_net_layer_norm(net, "ln2", x, 1e-5)));
    neap_net_leave(net);
    x = neap_net_linear_with(net, "lm_head", x, words, NEAP_NONE);
    x = neap_net_reshape(net, "logits", x, SHAPE(-1, WORDS));
    return neap_net_cross_entropy(net, "loss", x, labels_of(net, BATCH * LENGTH));
}

/* Three steps with the same two weights, from h and c that are data. Neither the last c nor the
 * first h matters. */
static neap_tensor unrolled_lstm(neap_network *net, bool by_cell)
{
    enum { STEPS = 3, BATCH = 2, WIDTH = 2 };
    neap_tensor words[STEPS], tops[STEPS], w = neap_net_parameter(net, "w", SHAPE(4 * WIDTH, 3));
    neap_tensor u = neap_net_parameter(net, "u", SHAPE(4 * WIDTH, WIDTH));
    neap_tensor b = neap_net_parameter(net, "b", SHAPE(4 * WIDTH));
    neap_tensor h = neap_net_input(net, "h", NEAP_F32, SHAPE(BATCH, WIDTH));
    neap_tensor c = neap_net_input(net, "c", NEAP_F32, SHAPE(BATCH, WIDTH));
    neap_tensor ids = neap_net_input(net, "ids", NEAP_I32, SHAPE(STEPS, BATCH));
    neap_net_split(net, "words", neap_net_embedding(net, "embed", ids, 4, 3, NULL), 0, STEPS,
                   words);
    for (int t = 0; t < STEPS; t++) {
        neap_net_enter(net, "t%d", t);
        neap_tensor x = neap_net_reshape(net, "x", words[t], SHAPE(BATCH, 3));
        neap_tensor gates = neap_net_add(net, "gates", neap_net_linear_with(net, "wx", x, w, b),
                                         neap_net_linear_with(net, "uh", h, u, NEAP_NONE));
        h = tops[t] = neap_net_lstm_cell(net, "cell", gates, c, &c);
        neap_net_leave(net);
    }
    return by_cell ? c : neap_net_concat(net, "tops", STEPS, tops, 0);
}

static neap_tensor lstm(neap_network *net)
{
    return unrolled_lstm(net, false);
}

static neap_tensor lstm_by_cell(neap_network *net)
{
    return unrolled_lstm(net, true);
}

/* An image to an image, with unpooling, a skip connection and a loss a pixel. */
static neap_tensor segmentation(neap_network *net)
{
    const neap_conv2d conv = {.channels = 2,
                              .kernel_h = 3,
                              .kernel_w = 3,
                              .pad_h = 1,
                              .pad_w = 1,
                              .bias = true,
                              .relu = true};
    const neap_conv2d up = {
        .channels = 3, .kernel_h = 2, .kernel_w = 2, .stride_h = 2, .stride_w = 2, .bias = true};
    const neap_pool2d pool = {.kernel_h = 2, .kernel_w = 2};
    neap_tensor indices, x = neap_net_input(net, "x", NEAP_F32, SHAPE(1, 1, 4, 4));
    x = neap_net_conv2d(net, "down", x, &conv);
    neap_tensor y = neap_net_max_pool2d(net, "pool", x, &pool, &indices);
    y = neap_net_batch_norm(net, "bn", y, 1e-3);
    neap_tensor parts[4] = {x, neap_net_max_unpool2d(net, "unpool", y, indices, x, &pool),
                            neap_net_upsample(net, "resize", y, 4, 4, false),
                            neap_net_conv_transpose2d(net, "up", y, &up)};
    y = neap_net_concat(net, "skip", 4, parts, 1);
    const neap_conv2d head = {.channels = 3, .kernel_h = 1, .kernel_w = 1};
    neap_tensor labels = neap_net_input(net, "labels", NEAP_I64, SHAPE(1, 4, 4));
    return neap_net_cross_entropy(net, "loss", neap_net_conv2d(net, "head", y, &head), labels);
}

/* Depthwise convolution, pooling, a head. */
static neap_tensor classifier(neap_network *net)
{
    const neap_conv2d deep = {
        .channels = 4, .kernel_h = 3, .kernel_w = 3, .stride_h = 2, .groups = 4};
    const neap_conv2d wide = {.channels = 4, .kernel_h = 1, .kernel_w = 1};
    const neap_pool2d pool = {.kernel_h = 2, .kernel_w = 2, .stride_h = 1, .stride_w = 1};
    neap_tensor x = neap_net_input(net, "x", NEAP_F32, SHAPE(2, 2, 7, 6));
    x = neap_net_batch_norm(net, "bn1", neap_net_conv2d(net, "expand", x, &wide), 1e-3);
    x = neap_net_conv2d(net, "deep", neap_net_relu6(net, "relu6", x), &deep);
    x = neap_net_avg_pool2d(net, "pool", neap_net_batch_norm(net, "bn2", x, 1e-3), &pool);
    x = neap_net_adaptive_avg_pool2d(net, "global", x, 1, 1);
    x = neap_net_linear(net, "fc", neap_net_flatten(net, "flatten", x, 1), 3, true);
    return neap_net_cross_entropy(net, "loss", x, labels_of(net, 2));
}

/* Two losses, and a class token repeated for every row. */
static neap_tensor two_losses(neap_network *net)
{
    neap_tensor token = neap_net_parameter(net, "token", SHAPE(1, 4));
    token = neap_net_expand(net, "tokens", token, SHAPE(2, 1, 4));
    neap_tensor words = neap_net_input(net, "words", NEAP_F32, SHAPE(2, 2, 4));
    neap_tensor x = neap_net_concat(net, "x", 2, (neap_tensor[]){token, words}, 1);
    x = neap_net_attention(net, "attn", x, x, x, 2, false, 0);
    neap_tensor first = neap_net_flatten(net, "f", neap_net_slice(net, "s", x, 1, 0, 1), 1);
    neap_tensor rest = neap_net_transpose(net, "rest", x, 1, 2);
    neap_tensor a = neap_net_cross_entropy(net, "a", neap_net_linear(net, "head", first, 3, true),
                                           labels_of(net, 2));
    neap_tensor places = neap_net_input(net, "places", NEAP_I64, SHAPE(2, 3));
    neap_tensor b = neap_net_cross_entropy(net, "b", rest, places);
    return neap_net_add(net, "loss", a, neap_net_scale(net, "less", b, 0.3, 0));
}

/* Along the first and the last axis, which take a view each way. */
static neap_tensor log_softmax_axes(neap_network *net)
{
    neap_tensor x = neap_net_parameter(net, "x", SHAPE(2, 3, 4));
    neap_tensor first = neap_net_log_softmax(net, "first", x, 0);
    neap_tensor last = neap_net_log_softmax(net, "last", neap_net_mul(net, "square", x, x), 2);
    neap_tensor labels = neap_net_input(net, "labels", NEAP_I64, SHAPE(2, 4));
    return neap_net_cross_entropy(net, "loss", neap_net_mul(net, "product", first, last), labels);
}

const op_case network_cases[] = {
    {"residual", residual, NEAP_KERNELS_LEAN, NEAP_F32, NULL},
    {"crossroads", crossroads, NEAP_KERNELS_LEAN, NEAP_F32, NULL},
    {"many parts", many_parts, NEAP_KERNELS_LEAN, NEAP_F32, NULL},
    {"composed gelu", composed_gelu, NEAP_KERNELS_TORCH, NEAP_F32, NULL},
    {"tied transformer", tied_transformer, NEAP_KERNELS_LEAN, NEAP_F32, NULL},
    {"tied transformer, torch", tied_transformer, NEAP_KERNELS_TORCH, NEAP_F16, NULL},
    {"lstm", lstm, NEAP_KERNELS_LEAN, NEAP_F32, NULL},
    {"lstm, by cell", lstm_by_cell, NEAP_KERNELS_LEAN, NEAP_F32, NULL},
    {"segmentation", segmentation, NEAP_KERNELS_LEAN, NEAP_F32, NULL},
    {"segmentation, torch", segmentation, NEAP_KERNELS_TORCH, NEAP_F32, NULL},
    {"classifier", classifier, NEAP_KERNELS_LEAN, NEAP_F32, NULL},
    {"log-softmax axes", log_softmax_axes, NEAP_KERNELS_LEAN, NEAP_F32, NULL},
    {"two losses", two_losses, NEAP_KERNELS_LEAN, NEAP_F32, NULL},
};
const size_t n_network_cases = sizeof network_cases / sizeof *network_cases;
