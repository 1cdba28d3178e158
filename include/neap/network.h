/*
 * neap/network.h - define a network layer by layer; autodiff builds the training graph.
 *
 *     neap_network *net;
 *     neap_network_create(NULL, "mlp", NEAP_F32, &net, &diag);
 *     neap_tensor x = neap_net_input(net, "x", NEAP_F32, 2, (int64_t[]){64, 784});
 *     neap_tensor t = neap_net_input(net, "labels", NEAP_I64, 1, (int64_t[]){64});
 *     x = neap_net_relu(net, "relu1", neap_net_linear(net, "fc1", x, 256, true));
 *     x = neap_net_linear(net, "fc2", x, 10, true);
 *     neap_tensor loss = neap_net_cross_entropy(net, "loss", x, t);
 *     neap_network_finish(net, loss, NULL, &graph, &diag);
 *
 * Errors are sticky: a layer that cannot be built (mismatched shapes, out of memory) returns
 * NEAP_NONE, later calls on the network do nothing, and neap_network_finish reports the first error
 * with the name of the layer. Model code therefore needs no checks.
 *
 * Tensors are row-major; images are N x C x H x W, sequences N x T x C. The shape of a tensor is
 * known as soon as the layer is defined (neap_net_dim, neap_net_rank).
 *
 * What the backward pass reads: the training graph lists for each backward op exactly the values
 * that its kernel needs (docs/ops.md has the full table):
 *     relu, relu6, sigmoid, tanh  its output          gelu          its input
 *     max-pool                    its indices         avg-pool      only the gradient
 *     batch-norm, layer-norm      its input, scale and saved statistics
 *     dropout                     its mask            embedding     the ids
 *     convolution, linear         two ops: weight gradient (input), data gradient (weight)
 *     attention (fused)           q, k, v, output, log-sum-exp of the scores (no probabilities)
 *     matrix product              for each factor the other softmax       its output
 *     cross-entropy               logits, labels, log-sum-exp
 * If a tensor has several readers, `add` ops sum their gradients as they are computed. The gradient
 * of the loss is an input of 1 element, `<loss>.grad`, so that a caller can scale it.
 */
#ifndef NEAP_NETWORK_H
#define NEAP_NETWORK_H

#include <neap/graph.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct neap_network neap_network;

/* A tensor of one network. NEAP_NONE after an error. */
typedef uint32_t neap_tensor;

#define NEAP_MAX_RANK 6

/* The formulas are in neap/optimizer.h. */
typedef enum neap_optimizer {
    NEAP_OPTIMIZER_NONE = 0, /* no updates: the gradients are outputs of the graph */
    NEAP_OPTIMIZER_SGD,      /* no state beside the parameters */
    NEAP_OPTIMIZER_MOMENTUM, /* one moment per parameter */
    NEAP_OPTIMIZER_ADAM,     /* two */
    NEAP_OPTIMIZER_ADAMW     /* two; weight decay apart from the gradient */
} neap_optimizer;

/* "none", "sgd", "momentum", "adam", "adamw". */
NEAP_API const char *neap_optimizer_name(neap_optimizer optimizer);
/* The number of moments per parameter; *names gets theirs: "momentum"; "m", "v". */
NEAP_API uint32_t neap_optimizer_moments(neap_optimizer optimizer, const char *const **names);

/*
 * The kernels that the graph assumes. LEAN: neap's own. TORCH: PyTorch's eager kernels, which save
 * more: max-pool indices of 8 bytes instead of 1, log-softmax and NLL loss as two ops in each
 * direction instead of a fused cross-entropy, and in some models GELU composed of eight elementwise
 * ops. LAYER: the backward op of a layer reads all inputs and outputs of the layer, whether it
 * needs them or not, as in the graphs that Checkmate extracts from Keras.
 */
typedef enum neap_kernels {
    NEAP_KERNELS_LEAN = 0,
    NEAP_KERNELS_TORCH,
    NEAP_KERNELS_LAYER
} neap_kernels;

NEAP_API neap_status neap_network_create(neap_allocator *allocator, const char *name,
                                         neap_dtype dtype, neap_network **net, neap_diag *diag);
NEAP_API void neap_network_destroy(neap_network *net);
NEAP_API void neap_network_set_kernels(neap_network *net, neap_kernels kernels);
NEAP_API neap_kernels neap_network_kernels(const neap_network *net);

/* Prefixes all names with "<scope>." until the scope is left. Scopes nest. */
NEAP_API void neap_net_enter(neap_network *net, const char *format, ...) NEAP_PRINTF(2, 3);
NEAP_API void neap_net_leave(neap_network *net);

/*
 * Whatever is defined between the two is one layer: methods that see the graph as a chain
 * (neap/chain.h) do not cut inside it, as if it were a module that a framework checkpoints whole.
 * Layers do not nest.
 */
NEAP_API void neap_net_begin_layer(neap_network *net);
NEAP_API void neap_net_end_layer(neap_network *net);

/* ---- Inputs and parameters ---- */

NEAP_API neap_tensor neap_net_input(neap_network *net, const char *name, neap_dtype dtype,
                                    uint32_t rank, const int64_t *shape);
/* A trained parameter of the network's dtype. */
NEAP_API neap_tensor neap_net_parameter(neap_network *net, const char *name, uint32_t rank,
                                        const int64_t *shape);
/* Extent of a dimension (0 outermost); 0 after an error. */
NEAP_API int64_t neap_net_dim(const neap_network *net, neap_tensor x, uint32_t dim);
NEAP_API uint32_t neap_net_rank(const neap_network *net, neap_tensor x);
/* True after an error, so that loops in model code can stop early. */
NEAP_API bool neap_network_failed(const neap_network *net);
/* Records an error of the caller, as if a layer had failed. Only the first error is kept. */
NEAP_API void neap_network_fail(neap_network *net, const char *format, ...) NEAP_PRINTF(2, 3);

/* ---- Layers with parameters ---- */

typedef struct neap_conv2d {
    int64_t channels; /* of the output */
    int64_t kernel_h, kernel_w;
    int64_t stride_h, stride_w; /* 0 means 1 */
    int64_t pad_h, pad_w;
    int64_t dilation;   /* 0 means 1 */
    int64_t groups;     /* 0 means 1 */
    int64_t output_pad; /* transposed convolution only: extra rows and columns at the end */
    bool bias;
    bool relu; /* a fused in-place ReLU on the output */
} neap_conv2d;

/* x: N x C x H x W.
 * Parameters <name>.weight [channels, C/groups, kh, kw] and <name>.bias [channels]. */
NEAP_API neap_tensor neap_net_conv2d(neap_network *net, const char *name, neap_tensor x,
                                     const neap_conv2d *conv);
/* Transposed: weight [C, channels/groups, kh, kw]; output (H-1)*stride - 2*pad + kernel +
   output_pad. dilation and relu are not supported. */
NEAP_API neap_tensor neap_net_conv_transpose2d(neap_network *net, const char *name, neap_tensor x,
                                               const neap_conv2d *conv);
/* x: ... x C -> ... x features. Weight [features, C], bias [features]. */
NEAP_API neap_tensor neap_net_linear(neap_network *net, const char *name, neap_tensor x,
                                     int64_t features, bool bias);
/* The same with an existing weight (tied embeddings, unrolled loops); bias may be NEAP_NONE. */
NEAP_API neap_tensor neap_net_linear_with(neap_network *net, const char *name, neap_tensor x,
                                          neap_tensor weight, neap_tensor bias);
/* Over N, H, W for each channel: weight and bias [C].
 * Outputs y; saves mean and inverse deviation [C]. */
NEAP_API neap_tensor neap_net_batch_norm(neap_network *net, const char *name, neap_tensor x,
                                         double epsilon);
/* Over the last dimension: weight and bias [C]. Saves mean and inverse deviation per row. */
NEAP_API neap_tensor neap_net_layer_norm(neap_network *net, const char *name, neap_tensor x,
                                         double epsilon);
/* Over H, W and the channels of each of `groups` groups of channels in an image: weight and bias
 * [C]. Saves mean and inverse deviation [N, groups]. */
NEAP_API neap_tensor neap_net_group_norm(neap_network *net, const char *name, neap_tensor x,
                                         int64_t groups, double epsilon);
/* Over H and W, for each channel of each image: weight and bias [C]. */
NEAP_API neap_tensor neap_net_instance_norm(neap_network *net, const char *name, neap_tensor x,
                                            double epsilon);
/* x divided by the root of the mean of its squares over the last dimension: weight [C]. Saves the
 * inverse of the root per row. */
NEAP_API neap_tensor neap_net_rms_norm(neap_network *net, const char *name, neap_tensor x,
                                       double epsilon);
/* Batch normalisation by a given mean and variance [C], which are not trained:
 * (x - mean) / sqrt(variance + epsilon) * weight + bias. */
NEAP_API neap_tensor neap_net_batch_norm_frozen(neap_network *net, const char *name, neap_tensor x,
                                                neap_tensor weight, neap_tensor bias,
                                                neap_tensor mean, neap_tensor variance,
                                                double epsilon);
/* ids: ... (i64 or i32) -> ... x features. Weight [rows, features];
 * *weight, if not NULL, gets it for tying. */
NEAP_API neap_tensor neap_net_embedding(neap_network *net, const char *name, neap_tensor ids,
                                        int64_t rows, int64_t features, neap_tensor *weight);

/*
 * The same layers with existing tensors in place of parameters of their own, like
 * neap_net_linear_with. Channels and kernel follow from the weight; a convolution's bias may be
 * NEAP_NONE.
 */
NEAP_API neap_tensor neap_net_conv2d_with(neap_network *net, const char *name, neap_tensor x,
                                          neap_tensor weight, neap_tensor bias,
                                          const neap_conv2d *conv);
NEAP_API neap_tensor neap_net_conv_transpose2d_with(neap_network *net, const char *name,
                                                    neap_tensor x, neap_tensor weight,
                                                    neap_tensor bias, const neap_conv2d *conv);
NEAP_API neap_tensor neap_net_batch_norm_with(neap_network *net, const char *name, neap_tensor x,
                                              neap_tensor weight, neap_tensor bias, double epsilon);
/*
 * Running statistics, for inference, of the batch normalisation that made y: two vectors [C] of
 * state in f32, by their names in the current scope. With an optimizer, every run of the graph
 * advances them once: statistics become momentum * statistics + (1 - momentum) * those of the
 * batch, with the variance of the population (ONNX's convention; PyTorch's momentum is 1 -
 * momentum, and its variance is n / (n - 1) times that). neap/train.h starts with mean 0 and
 * variance 1. Layers with the same names share them and advance them one after another; they have
 * the same channels, momentum and epsilon. Without an optimizer there is no state, and this changes
 * nothing.
 */
NEAP_API void neap_net_keep_statistics(neap_network *net, neap_tensor y, const char *mean,
                                       const char *variance, double momentum);
NEAP_API neap_tensor neap_net_layer_norm_with(neap_network *net, const char *name, neap_tensor x,
                                              neap_tensor weight, neap_tensor bias, double epsilon);
NEAP_API neap_tensor neap_net_group_norm_with(neap_network *net, const char *name, neap_tensor x,
                                              neap_tensor weight, neap_tensor bias, int64_t groups,
                                              double epsilon);
NEAP_API neap_tensor neap_net_rms_norm_with(neap_network *net, const char *name, neap_tensor x,
                                            neap_tensor weight, double epsilon);
NEAP_API neap_tensor neap_net_embedding_with(neap_network *net, const char *name, neap_tensor ids,
                                             neap_tensor weight);

/* ---- Layers without parameters ---- */

NEAP_API neap_tensor neap_net_relu(neap_network *net, const char *name, neap_tensor x);
NEAP_API neap_tensor neap_net_relu6(neap_network *net, const char *name, neap_tensor x);
NEAP_API neap_tensor neap_net_sigmoid(neap_network *net, const char *name, neap_tensor x);
NEAP_API neap_tensor neap_net_tanh(neap_network *net, const char *name, neap_tensor x);
/* The exact GELU (erf), or its tanh approximation. */
NEAP_API neap_tensor neap_net_gelu(neap_network *net, const char *name, neap_tensor x,
                                   bool tanh_form);
/* Functions of one number (src/graph/unary.def). erf is the error function, silu x / (1 + e^-x),
 * mish x tanh(log(1 + e^x)), softplus log(1 + e^x), softsign x / (1 + |x|), selu and hard_swish
 * those of PyTorch, sign -1, 0 or 1. round takes halves to even numbers. */
NEAP_API neap_tensor neap_net_exp(neap_network *net, const char *name, neap_tensor x);
NEAP_API neap_tensor neap_net_log(neap_network *net, const char *name, neap_tensor x);
NEAP_API neap_tensor neap_net_sqrt(neap_network *net, const char *name, neap_tensor x);
NEAP_API neap_tensor neap_net_reciprocal(neap_network *net, const char *name, neap_tensor x);
NEAP_API neap_tensor neap_net_erf(neap_network *net, const char *name, neap_tensor x);
NEAP_API neap_tensor neap_net_sin(neap_network *net, const char *name, neap_tensor x);
NEAP_API neap_tensor neap_net_cos(neap_network *net, const char *name, neap_tensor x);
NEAP_API neap_tensor neap_net_abs(neap_network *net, const char *name, neap_tensor x);
NEAP_API neap_tensor neap_net_silu(neap_network *net, const char *name, neap_tensor x);
NEAP_API neap_tensor neap_net_mish(neap_network *net, const char *name, neap_tensor x);
NEAP_API neap_tensor neap_net_softplus(neap_network *net, const char *name, neap_tensor x);
NEAP_API neap_tensor neap_net_softsign(neap_network *net, const char *name, neap_tensor x);
NEAP_API neap_tensor neap_net_selu(neap_network *net, const char *name, neap_tensor x);
NEAP_API neap_tensor neap_net_hard_swish(neap_network *net, const char *name, neap_tensor x);
/* alpha x below 0. */
NEAP_API neap_tensor neap_net_leaky_relu(neap_network *net, const char *name, neap_tensor x,
                                         double alpha);
/* alpha (e^x - 1) below 0. */
NEAP_API neap_tensor neap_net_elu(neap_network *net, const char *name, neap_tensor x, double alpha);
/* alpha (e^(x / alpha) - 1) below 0. */
NEAP_API neap_tensor neap_net_celu(neap_network *net, const char *name, neap_tensor x,
                                   double alpha);
/* The nearest number from min to max. */
NEAP_API neap_tensor neap_net_clip(neap_network *net, const char *name, neap_tensor x, double min,
                                   double max);
/* The nearest number from 0 to 1 to alpha x + beta. */
NEAP_API neap_tensor neap_net_hard_sigmoid(neap_network *net, const char *name, neap_tensor x,
                                           double alpha, double beta);
/* These have no gradient: as far as training goes, the loss does not depend on x. */
NEAP_API neap_tensor neap_net_sign(neap_network *net, const char *name, neap_tensor x);
NEAP_API neap_tensor neap_net_floor(neap_network *net, const char *name, neap_tensor x);
NEAP_API neap_tensor neap_net_ceil(neap_network *net, const char *name, neap_tensor x);
NEAP_API neap_tensor neap_net_round(neap_network *net, const char *name, neap_tensor x);
/* Drops with probability p, scales by 1/(1-p); p = 0 returns x itself.
 * Saves a mask of 1 byte per element. */
NEAP_API neap_tensor neap_net_dropout(neap_network *net, const char *name, neap_tensor x, double p);

typedef struct neap_pool2d {
    int64_t kernel_h, kernel_w;
    int64_t stride_h, stride_w; /* 0 means the kernel's size */
    int64_t pad_h, pad_w;
    bool ceil_mode;         /* include a partial window at the end */
    bool count_include_pad; /* average pooling: include the padding in the mean */
} neap_pool2d;

/* *indices, if not NULL, gets the saved indices (for unpooling). */
NEAP_API neap_tensor neap_net_max_pool2d(neap_network *net, const char *name, neap_tensor x,
                                         const neap_pool2d *pool, neap_tensor *indices);
NEAP_API neap_tensor neap_net_avg_pool2d(neap_network *net, const char *name, neap_tensor x,
                                         const neap_pool2d *pool);
NEAP_API neap_tensor neap_net_adaptive_avg_pool2d(neap_network *net, const char *name,
                                                  neap_tensor x, int64_t out_h, int64_t out_w);
/* Undoes a max-pool: scatters x to the positions in `indices`, into the shape of `like`. */
NEAP_API neap_tensor neap_net_max_unpool2d(neap_network *net, const char *name, neap_tensor x,
                                           neap_tensor indices, neap_tensor like,
                                           const neap_pool2d *pool);
/* Bilinear resize to out_h x out_w. */
NEAP_API neap_tensor neap_net_upsample(neap_network *net, const char *name, neap_tensor x,
                                       int64_t out_h, int64_t out_w, bool align_corners);
typedef struct neap_resize {
    int64_t out_h, out_w;
    double scale_h, scale_w; /* 0 means the quotient of the extents */
    bool
        half_pixel; /* pixel i is at (i + 1/2) / scale - 1/2 of the image; otherwise at i / scale */
    bool round;     /* to the nearest pixel, of two the smaller; otherwise to the one before */
} neap_resize;

/* Every pixel is one of x, N x C x H x W. */
NEAP_API neap_tensor neap_net_resize_nearest(neap_network *net, const char *name, neap_tensor x,
                                             const neap_resize *resize);
/* The shapes are equal, or b's is a suffix of a's (broadcast over the leading dimensions). */
NEAP_API neap_tensor neap_net_add(neap_network *net, const char *name, neap_tensor a,
                                  neap_tensor b);
NEAP_API neap_tensor neap_net_sub(neap_network *net, const char *name, neap_tensor a,
                                  neap_tensor b);
NEAP_API neap_tensor neap_net_mul(neap_network *net, const char *name, neap_tensor a,
                                  neap_tensor b);
NEAP_API neap_tensor neap_net_div(neap_network *net, const char *name, neap_tensor a,
                                  neap_tensor b);
/* The larger and the smaller of two; equal ones share the gradient. */
NEAP_API neap_tensor neap_net_max(neap_network *net, const char *name, neap_tensor a,
                                  neap_tensor b);
NEAP_API neap_tensor neap_net_min(neap_network *net, const char *name, neap_tensor a,
                                  neap_tensor b);
/* weight x below 0; the shape of the weight is x's or a suffix of it. */
NEAP_API neap_tensor neap_net_prelu(neap_network *net, const char *name, neap_tensor x,
                                    neap_tensor weight);
/* factor * x + offset. */
NEAP_API neap_tensor neap_net_scale(neap_network *net, const char *name, neap_tensor x,
                                    double factor, double offset);
/* A copy in another type of floating-point numbers; x itself if it is of that type. */
NEAP_API neap_tensor neap_net_cast(neap_network *net, const char *name, neap_tensor x,
                                   neap_dtype dtype);
/* x to a power. */
NEAP_API neap_tensor neap_net_pow(neap_network *net, const char *name, neap_tensor x, double power);
/*
 * Products of matrices: a is ... x M x K, b is ... x K x N with the same leading dimensions, and
 * the result ... x M x N. A transposed operand is stored as ... x K x M, or ... x N x K.
 */
NEAP_API neap_tensor neap_net_matmul(neap_network *net, const char *name, neap_tensor a,
                                     neap_tensor b, bool transpose_a, bool transpose_b);
/* exp(x) divided by the sum of exp(x) along an axis. */
NEAP_API neap_tensor neap_net_softmax(neap_network *net, const char *name, neap_tensor x,
                                      uint32_t axis);
/* Its logarithm, x less the logarithm of the sum of exp(x), without overflow. */
NEAP_API neap_tensor neap_net_log_softmax(neap_network *net, const char *name, neap_tensor x,
                                          uint32_t axis);
NEAP_API neap_tensor neap_net_concat(neap_network *net, const char *name, uint32_t count,
                                     const neap_tensor *parts, uint32_t axis);
/* A view: the elements begin..end-1 of an axis. */
NEAP_API neap_tensor neap_net_slice(neap_network *net, const char *name, neap_tensor x,
                                    uint32_t axis, int64_t begin, int64_t end);
/*
 * Splits an axis into `count` equal views, parts[0 .. count-1]. The gradient of x is assembled
 * once, when the gradients of all parts are known, so that an unrolled loop over T parts costs
 * O(T), not O(T^2). The loss must therefore depend on every part.
 */
NEAP_API void neap_net_split(neap_network *net, const char *name, neap_tensor x, uint32_t axis,
                             uint32_t count, neap_tensor *parts);
/* A view with another shape; one extent may be -1. */
NEAP_API neap_tensor neap_net_reshape(neap_network *net, const char *name, neap_tensor x,
                                      uint32_t rank, const int64_t *shape);
/* A view: all dimensions from `axis` on become one. */
NEAP_API neap_tensor neap_net_flatten(neap_network *net, const char *name, neap_tensor x,
                                      uint32_t axis);
/* A copy with two dimensions exchanged. */
NEAP_API neap_tensor neap_net_transpose(neap_network *net, const char *name, neap_tensor x,
                                        uint32_t axis_a, uint32_t axis_b);
/* Copies of x along new leading dimensions, up to the given shape, which ends in x's shape. */
NEAP_API neap_tensor neap_net_expand(neap_network *net, const char *name, neap_tensor x,
                                     uint32_t rank, const int64_t *shape);
/* Copies of x to a shape by numpy's rules: dimensions are compared from the last on; those that x
 * does not have, or has with extent 1, repeat. */
NEAP_API neap_tensor neap_net_broadcast(neap_network *net, const char *name, neap_tensor x,
                                        uint32_t rank, const int64_t *shape);
/* Over a set of axes, which stay as dimensions of extent 1 with keepdims and go otherwise. Equal
 * largest or smallest elements share the gradient. */
NEAP_API neap_tensor neap_net_sum_axes(neap_network *net, const char *name, neap_tensor x,
                                       uint32_t n_axes, const uint32_t *axes, bool keepdims);
NEAP_API neap_tensor neap_net_mean_axes(neap_network *net, const char *name, neap_tensor x,
                                        uint32_t n_axes, const uint32_t *axes, bool keepdims);
NEAP_API neap_tensor neap_net_max_axes(neap_network *net, const char *name, neap_tensor x,
                                       uint32_t n_axes, const uint32_t *axes, bool keepdims);
NEAP_API neap_tensor neap_net_min_axes(neap_network *net, const char *name, neap_tensor x,
                                       uint32_t n_axes, const uint32_t *axes, bool keepdims);
NEAP_API neap_tensor neap_net_prod_axes(neap_network *net, const char *name, neap_tensor x,
                                        uint32_t n_axes, const uint32_t *axes, bool keepdims);
/* A copy with all dimensions in another order: dimension d of the result is dimension axes[d] of x,
 * which has as many as there are axes. */
NEAP_API neap_tensor neap_net_permute(neap_network *net, const char *name, neap_tensor x,
                                      const uint32_t *axes);
/* Elements of x along an axis by number: the dimensions of the indices (i64 or i32) take the place
 * of the axis. */
NEAP_API neap_tensor neap_net_gather(neap_network *net, const char *name, neap_tensor x,
                                     neap_tensor indices, uint32_t axis);
/* a where the condition (u8) is 1, b where it is 0. a and b have one shape, of which that of the
 * condition is a suffix. */
NEAP_API neap_tensor neap_net_where(neap_network *net, const char *name, neap_tensor condition,
                                    neap_tensor a, neap_tensor b);
/* A copy with this many elements of a value before and after each dimension; negative amounts take
 * elements away. */
NEAP_API neap_tensor neap_net_pad(neap_network *net, const char *name, neap_tensor x,
                                  const int64_t *before, const int64_t *after, double value);
/* A copy of N x C x H x W with this many rows and columns of zeros around each image. */
NEAP_API neap_tensor neap_net_pad2d(neap_network *net, const char *name, neap_tensor x, int64_t top,
                                    int64_t bottom, int64_t left, int64_t right);

/*
 * Scaled dot-product attention, fused. Either q, k, v are N x T x C each, or q alone is packed N x
 * T x 3C (k and v NEAP_NONE). Saves the log-sum-exp, N x heads x T floats. Dropout on the
 * probabilities is replayed from the random state, not saved.
 */
NEAP_API neap_tensor neap_net_attention(neap_network *net, const char *name, neap_tensor q,
                                        neap_tensor k, neap_tensor v, int64_t heads, bool causal,
                                        double dropout);
/*
 * One LSTM step from the pre-activations of the gates (the sum of the products with x and h, N x
 * 4H, in the order i f g o) and the cell state c (N x H). Returns h; *c_next gets the new cell
 * state. Saves the activated gates.
 */
NEAP_API neap_tensor neap_net_lstm_cell(neap_network *net, const char *name, neap_tensor gates,
                                        neap_tensor c, neap_tensor *c_next);

/*
 * The mean cross-entropy over all rows: logits N x K (or N x K x ..., classes in dimension 1),
 * labels i64 of the same shape without K. Returns a scalar (rank 1, extent 1). One fused op in each
 * direction, or log-softmax and NLL loss with NEAP_KERNELS_TORCH.
 */
NEAP_API neap_tensor neap_net_cross_entropy(neap_network *net, const char *name, neap_tensor logits,
                                            neap_tensor labels);

/* The mean of all squared differences. Returns a scalar like that of cross-entropy. */
NEAP_API neap_tensor neap_net_mse(neap_network *net, const char *name, neap_tensor x,
                                  neap_tensor target);

/* ---- The training graph ---- */

typedef struct neap_training {
    neap_optimizer optimizer; /* default none */
    bool forward_only;        /* no backward pass: the loss is the only output; no optimizer */
    double momentum;          /* 0 or more; default 0.9 */
    double beta1, beta2;      /* of Adam; 0 to below 1; default 0.9 and 0.999 */
    double epsilon;           /* of Adam; 0 or more; default 1e-8 */
    double weight_decay;      /* 0 or more; default 0 */
    double clip_norm;   /* scale gradients whose norm, over all parameters, is larger; default 0:
                           never */
    int64_t accumulate; /* micro-batches of a step; default 1 */
} neap_training;

NEAP_API void neap_training_init(neap_training *training);
/* NEAP_INVALID, with the option's name, if one is out of its range. */
NEAP_API neap_status neap_training_check(const neap_training *training, neap_diag *diag);

/*
 * Differentiates `loss` (a scalar) with respect to every parameter and returns the training graph:
 * forward ops in the order of definition, then backward ops, then the updates of all parameters;
 * running statistics advance right after their batch normalisation.
 * Its output is the loss; without an optimizer there are no updates, and the gradients of all
 * parameters are outputs, too. Every op has its FLOPs and bytes moved, and time 0 until neap/cost.h
 * sets it. `training` may be NULL for the defaults. A parameter that the loss does not depend on is
 * an error.
 */
NEAP_API neap_status neap_network_finish(neap_network *net, neap_tensor loss,
                                         const neap_training *training, neap_graph **graph,
                                         neap_diag *diag);

/*
 * The values of a graph with updates. Parameters and state persist (`state` of a value). The
 * updates read the input "optimizer.step", three numbers that the caller writes before each run:
 * the learning rate, the number of the step from 1, and 1 (0: micro-batches of this step follow).
 * State is f32 and zero before the first step: "optimizer.momentum.<parameter>",
 * "optimizer.m.<parameter>", "optimizer.v.<parameter>". A parameter of another type than f32 is the
 * rounded copy of "optimizer.master.<parameter>".
 *
 * Micro-batches. The graph is run once for each of them, with 1 / accumulate as the gradient of the
 * loss. "optimizer.sum.<parameter>" holds the gradients so far; the last run updates the parameters
 * and leaves zeros there.
 */
#define NEAP_STEP_INPUT "optimizer.step"

/*
 * A copy of a training graph with updates. Its outputs must be a loss and a gradient for each
 * parameter, in order; NEAP_UNSUPPORTED otherwise. The new ops take no time until neap/cost.h sets
 * it. training->forward_only is ignored.
 */
NEAP_API neap_status neap_graph_add_updates(const neap_graph *graph, const neap_training *training,
                                            neap_graph **result, neap_diag *diag);

/* ---- Counts ---- */

/* The work of an op, derived from its type, shapes and attributes. */
typedef struct neap_op_count {
    bool known;          /* false for types neap does not know, and values without shapes */
    int64_t macs;        /* multiply-accumulates of convolutions and matrix products */
    int64_t flops;       /* 2 x macs plus all other arithmetic */
    int64_t bytes_moved; /* every value read once and written once; 0 for views */
} neap_op_count;

NEAP_API neap_op_count neap_op_count_work(const neap_graph *graph, uint32_t op);

#ifdef __cplusplus
}
#endif
#endif
