/*
 * A convolution as three arrays: y[n,k] = sum over c and taps of x[n,c] * w[k,c]. Every op of the
 * family computes one of them from the other two; a transposed convolution computes x.
 *
 * Variants of an op are the library's algorithms (cudnn_conv.h), then kernels of our own.
 */
#ifndef NEAP_CUDA_CONV_PROBLEM_H
#define NEAP_CUDA_CONV_PROBLEM_H

#include "run/backends/cuda/cuda.h"
#include "run/backends/cuda/kernels/conv.h"

typedef enum conv_target { CONV_Y, CONV_X, CONV_W } conv_target;

/* An operand or a result of the op. */
typedef struct conv_operand {
    bool is_result;
    uint32_t index;
} conv_operand;

typedef struct conv_problem {
    conv_target target; /* the array that is computed */
    run_array y, x, w;
    conv_operand y_at, x_at, w_at;
    conv_window window;
    int64_t groups;
    neap_dtype type;
    /* Results: a bias is added, operand 2. Gradients of weights: that of the bias is result 1, sums
       of `biased`, which is operand 0. */
    bool bias, relu;
    run_array biased; /* the image whose channels have the bias */
    bool bare;        /* kernels of our own get no workspace */
} conv_problem;

conv_problem neap_conv_problem(const run_spec *spec, conv_target target, bool transposed);

static inline void *conv_address(const run_args *args, conv_operand at)
{
    return at.is_result ? args->out[at.index] : args->in[at.index];
}

static inline int64_t conv_divide_up(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

static inline int64_t conv_pixels(const run_array *image)
{
    return image->shape[0] * image->shape[2] * image->shape[3];
}

/* ---- Kernels of our own (conv_kernels.c) ---- */

typedef enum conv_kernel { CONV_DEPTHWISE, CONV_TILES, CONV_DIRECT, CONV_GEMM } conv_kernel;
#define CONV_MOST_KERNELS 4

/* Which kernels are worth a try, the likely best first; returns their number. */
uint32_t neap_conv_kernels(const conv_problem *problem, conv_kernel kernels[CONV_MOST_KERNELS]);

/* One that takes any addresses: CONV_DIRECT or CONV_GEMM. */
conv_kernel neap_conv_plain_kernel(const conv_problem *problem);

/* What to launch for weights: kernels that sum parts, and the sum of those. */
typedef struct conv_kernel_plan {
    conv_kernel kernel;
    conv_operand y_at, x_at, w_at;
    conv_target target;
    bool bias;
    /* CONV_DEPTHWISE and CONV_TILES have a kernel for addresses that are aligned, and one for the
       others; the rest has only the latter. */
    const cuda_function *fast, *plain, *sum;
    cuda_dims fast_dims, plain_dims, sum_dims;
    union {
        depthwise_params image;
        depthwise_weight_params weight;
    } depthwise;
    union {
        conv_image_params image;
        conv_weight_params weight;
    } tiles, direct;            /* direct: of the plain kernel */
    conv_sum_params sum_params; /* of the plain kernel */
    int32_t fast_parts;
} conv_kernel_plan;

int64_t neap_conv_kernel_workspace(const conv_problem *problem, conv_kernel kernel);
neap_status neap_conv_kernel_plan(cuda_backend *backend, const conv_problem *problem,
                                  conv_kernel kernel, conv_kernel_plan *plan, neap_diag *diag);
neap_status neap_conv_kernel_run(cuda_backend *backend, const conv_kernel_plan *plan,
                                 const run_args *args, neap_diag *diag);

/* ---- Products of tiles (conv_kernels.c) and depthwise kernels (conv_depthwise.c) ---- */

/* Whether the kernels of depthwise.cu take the problem, if addresses are aligned. */
bool neap_conv_is_depthwise(const conv_problem *problem);
neap_status neap_conv_plan_depthwise(cuda_backend *backend, const conv_problem *problem,
                                     conv_kernel_plan *plan, neap_diag *diag);
/* Parts of the sums of weights. */
int64_t neap_conv_depthwise_parts(const conv_problem *problem);

/* ---- Biases and ReLU beside another algorithm (conv_bias.c) ---- */

typedef struct conv_bias_plan {
    const cuda_function *vectors, *any, *sum; /* vectors: NULL if strides do not allow it */
    cuda_dims vector_dims, any_dims, sum_dims;
    conv_bias_params vector_params, any_params;
    conv_sum_params sum_params;
    int32_t vector_parts;
} conv_bias_plan;

/* The gradient of the bias, result 1, from operand 0. */
int64_t neap_conv_bias_workspace(const conv_problem *problem);
neap_status neap_conv_bias_plan(cuda_backend *backend, const conv_problem *problem,
                                conv_bias_plan *plan, neap_diag *diag);
neap_status neap_conv_bias_run(cuda_backend *backend, const conv_bias_plan *plan,
                               const run_args *args, neap_diag *diag);

typedef struct conv_finish_plan {
    const cuda_function *vectors, *any;
    cuda_dims vector_dims, any_dims;
    conv_finish_params params;
    bool bias;
} conv_finish_plan;

/* result 0 = relu(result 0 + operand 2). */
neap_status neap_conv_finish_plan(cuda_backend *backend, const conv_problem *problem,
                                  conv_finish_plan *plan, neap_diag *diag);
neap_status neap_conv_finish_run(cuda_backend *backend, const conv_finish_plan *plan,
                                 const run_args *args, neap_diag *diag);

/* Parts of a sum over `items` that give about `wanted` blocks if one part is `blocks` blocks, each
   of `least` items at least. By shapes alone, so that sums are the same everywhere. */
int64_t neap_conv_parts(int64_t items, int64_t blocks, int64_t wanted, int64_t least);
#define CONV_MANY_BLOCKS 1056 /* small ones, what a large device runs at once */

/* Whether rank-4 strides allow vectors along the channels; `whole`: pixels follow each other
   without gaps. */
bool neap_conv_has_vectors(const run_array *image, bool whole);
/* Strides as kernels take them: those of extents of 1 are 0. */
void neap_conv_strides(const run_array *array, i64 strides[4]);

#endif
