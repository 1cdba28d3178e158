/* Parameters of conv.cu and depthwise.cu. */
#ifndef NEAP_CUDA_CONV_H
#define NEAP_CUDA_CONV_H

#include "types.h"

/* Tiles of the matrix products, in elements. */
#define CONV_ROWS    128 /* pixels of the result, for results and gradients of images */
#define CONV_COLUMNS 64  /* channels of the result */
#define CONV_DEPTH   16
#define CONV_TILE    64 /* rows and columns, for gradients of weights */
#define CONV_THREADS 256

/* Blocks of conv_sum_parts: elements by lanes that share the parts. */
#define CONV_SUM_ELEMENTS 32
#define CONV_SUM_LANES    8

/* The window, in the words of the convolution (its gradients use the same numbers). */
typedef struct conv_window {
    i32 kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w, dilation;
} conv_window;

/*
 * The convolution, or its gradient with respect to the image: every element of `out` is a sum over
 * the channels of its group in `in` and the taps of the window. Strides are in elements: images by
 * n, c, h, w; weights by the channel of `out`, the channel of `in` (both within the group), row and
 * column of the window.
 */
typedef struct conv_image_params {
    const void *in, *weight, *bias; /* bias: NULL if there is none */
    void *out;
    i64 in_strides[4], out_strides[4], weight_strides[4];
    i64 group_stride;              /* of weights */
    i64 images, pixels;            /* of out: images times rows times columns */
    i32 in_channels, out_channels; /* of a group */
    i32 groups, in_h, in_w, out_h, out_w;
    conv_window window;
    i32 relu;
    i32 in_by_channels, weight_by_out; /* what lies side by side in memory */
} conv_image_params;

/*
 * The gradient with respect to the weights: sums over pixels of dy, which are cut in parts. The
 * sums of part i are at parts + i * |weight|, in the order k, row, column, c of the window; with
 * one part they go to dw.
 */
typedef struct conv_weight_params {
    const void *dy, *x;
    float *parts;
    void *dw;
    i64 dy_strides[4], x_strides[4],
        weight_strides[4];         /* weights: k, c of the group, row, column */
    i64 pixels, part_pixels;       /* of dy */
    i64 weights;                   /* |weight| */
    i32 in_channels, out_channels; /* of a group */
    i32 groups, x_h, x_w, y_h, y_w, n_parts;
    conv_window window;
    i32 dy_by_channels, x_by_channels;
} conv_weight_params;

/* out[i] = the sum of parts[j * count + i] over j; i counts k, row, column, c. */
typedef struct conv_sum_params {
    const float *parts;
    void *out;
    i64 count;
    i64 strides[4]; /* of out: k, c, row, column */
    i32 n_parts, kernel_h, kernel_w, channels;
} conv_sum_params;

/* Sums of dy over all but the channels, in parts of `part_pixels`: see conv_sum_params. */
typedef struct conv_bias_params {
    const void *dy;
    float *parts;
    i64 strides[4];
    i64 pixels, part_pixels;
    i32 channels, h, w;
    i32 lanes; /* of the vector kernel: vectors of channels that a block sums, a power of 2 */
} conv_bias_params;

/* out = relu(out + bias), in place. */
typedef struct conv_finish_params {
    void *out;
    const void *bias; /* or NULL */
    i64 strides[4];
    i64 elements;
    i32 channels, h, w;
    i32 relu;
} conv_finish_params;

/* ---- Depthwise, channels side by side ---- */

#define DEPTHWISE_COLUMNS    4 /* outputs of a thread, along a row */
#define DEPTHWISE_THREADS    256
#define DEPTHWISE_MOST       7  /* sides of the window */
#define DEPTHWISE_MOST_LANES 16 /* vectors of channels in a block */

/*
 * One thread per vector of channels and DEPTHWISE_COLUMNS outputs. A block is lanes x tiles x rows
 * of them, powers of 2 that make DEPTHWISE_THREADS.
 */
typedef struct depthwise_params {
    const void *in, *weight, *bias;
    void *out;
    i64 in_strides[4], out_strides[4]; /* that of channels is 1 */
    i64 weight_strides[3];             /* channel, row, column */
    i32 channels, in_h, in_w, out_h, out_w;
    i32 lanes, tiles, rows;                        /* of a block */
    i32 channel_blocks, column_blocks, row_blocks; /* of an image */
    i32 flip; /* the gradient of a window of stride 1 is the window turned by half */
    i32 relu;
} depthwise_params;

/*
 * The weight gradient: a block sums `part_rows` rows of dy for lanes * 4 channels. Its threads are
 * lanes x rows of the window x `row_lanes`, and the rest of a warp.
 */
typedef struct depthwise_weight_params {
    const void *dy, *x;
    float *parts; /* as conv_weight_params */
    i64 dy_strides[4], x_strides[4];
    i64 rows, part_rows; /* rows of dy: images times y_h */
    i32 channels, x_h, x_w, y_h, y_w;
    i32 lanes, row_lanes, channel_blocks;
} depthwise_weight_params;

#endif
