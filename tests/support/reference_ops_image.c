/*
 * Reference kernels of convolutions, padding, pooling and resizing. Forward and backward of each
 * family share one walk over its terms: a convolution's products, a window's elements, a pixel's
 * neighbours.
 */
#include "reference_ops.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>

/* ---- Convolution ---- */

/*
 * y[n,k,oh,ow] = sum over c, i, j of x[n, c of k's group, oh*stride - pad + i*dilation, ...] *
 * w[k,c,i,j]. Each term pairs an element of the three; adding up the product of two of them in the
 * third is the convolution (in y) or one of its gradients (in x, in w). The transposed convolution
 * is the gradient in x.
 */
typedef struct conv_terms {
    const ref_tensor *outer, *image, *weight; /* y, x and w above */
} conv_terms;

typedef void conv_visit(const conv_terms *t, int64_t outer, int64_t image, int64_t weight,
                        double *target);

static void in_outer(const conv_terms *t, int64_t outer, int64_t image, int64_t weight,
                     double *target)
{
    target[outer] += t->image->at[image] * t->weight->at[weight];
}

static void in_image(const conv_terms *t, int64_t outer, int64_t image, int64_t weight,
                     double *target)
{
    target[image] += t->outer->at[outer] * t->weight->at[weight];
}

static void in_weight(const conv_terms *t, int64_t outer, int64_t image, int64_t weight,
                      double *target)
{
    target[weight] += t->outer->at[outer] * t->image->at[image];
}

static int64_t index4(const ref_tensor *x, int64_t a, int64_t b, int64_t c, int64_t d)
{
    return ((a * x->shape[1] + b) * x->shape[2] + c) * x->shape[3] + d;
}

/* All terms of one element y[n,k,oh,ow]. */
static void conv_element(const ref_call *call, const conv_terms *t, const int64_t at[4],
                         conv_visit *visit, double *target)
{
    const int64_t *image = t->image->shape, *weight = t->weight->shape;
    int64_t group = at[1] / (weight[0] / ref_int(call, "groups"));
    int64_t top = at[2] * ref_int(call, "stride_h") - ref_int(call, "pad_h");
    int64_t left = at[3] * ref_int(call, "stride_w") - ref_int(call, "pad_w");
    int64_t dilation = ref_int(call, "dilation");
    for (int64_t c = 0; c < weight[1]; c++)
        for (int64_t i = 0; i < weight[2]; i++)
            for (int64_t j = 0; j < weight[3]; j++) {
                int64_t h = top + i * dilation, w = left + j * dilation;
                if (h >= 0 && h < image[2] && w >= 0 && w < image[3])
                    visit(t, index4(t->outer, at[0], at[1], at[2], at[3]),
                          index4(t->image, at[0], group * weight[1] + c, h, w),
                          index4(t->weight, at[1], c, i, j), target);
            }
}

static void walk_conv(const ref_call *call, const conv_terms *t, conv_visit *visit, double *target)
{
    const int64_t *extent = t->outer->shape;
    for (int64_t n = 0; n < extent[0]; n++)
        for (int64_t k = 0; k < extent[1]; k++)
            for (int64_t h = 0; h < extent[2]; h++)
                for (int64_t w = 0; w < extent[3]; w++)
                    conv_element(call, t, (int64_t[]){n, k, h, w}, visit, target);
}

static void add_bias(const ref_call *call, bool bias)
{
    ref_tensor *y = &call->out[0];
    for (int64_t i = 0; bias && i < y->n; i++)
        y->at[i] += call->in[2].at[i / (y->shape[2] * y->shape[3]) % y->shape[1]];
}

/* The bias gradient, where it is wanted: dy summed over all but the channels. */
static void sum_channels(const ref_call *call)
{
    const ref_tensor *dy = &call->in[0];
    for (int64_t i = 0; call->op->n_outputs > 1 && i < dy->n; i++)
        call->out[1].at[i / (dy->shape[2] * dy->shape[3]) % dy->shape[1]] += dy->at[i];
}

void ref_conv2d(const ref_call *call)
{
    bool bias = ref_int(call, "bias");
    ref_operands(call, bias ? 3 : 2, 1);
    ref_tensor *y = &call->out[0];
    conv_terms t = {y, &call->in[0], &call->in[1]};
    walk_conv(call, &t, in_outer, y->at);
    add_bias(call, bias);
    for (int64_t i = 0; ref_int(call, "relu") && i < y->n; i++)
        y->at[i] = fmax(y->at[i], 0);
}

void ref_conv2d_bw_data(const ref_call *call)
{
    ref_operands(call, 2, 1);
    conv_terms t = {&call->in[0], &call->out[0], &call->in[1]};
    walk_conv(call, &t, in_image, call->out[0].at);
}

void ref_conv2d_bw_weight(const ref_call *call)
{
    ref_operands(call, 2, ref_int(call, "bias") ? 2 : 1);
    conv_terms t = {&call->in[0], &call->in[1], &call->out[0]};
    walk_conv(call, &t, in_weight, call->out[0].at);
    sum_channels(call);
}

void ref_conv_transpose2d(const ref_call *call)
{
    bool bias = ref_int(call, "bias");
    ref_operands(call, bias ? 3 : 2, 1);
    conv_terms t = {&call->in[0], &call->out[0], &call->in[1]};
    walk_conv(call, &t, in_image, call->out[0].at);
    add_bias(call, bias);
}

void ref_conv_transpose2d_bw_data(const ref_call *call)
{
    ref_operands(call, 2, 1);
    conv_terms t = {&call->out[0], &call->in[0], &call->in[1]};
    walk_conv(call, &t, in_outer, call->out[0].at);
}

void ref_conv_transpose2d_bw_weight(const ref_call *call)
{
    ref_operands(call, 2, ref_int(call, "bias") ? 2 : 1);
    conv_terms t = {&call->in[1], &call->in[0], &call->out[0]};
    walk_conv(call, &t, in_weight, call->out[0].at);
    sum_channels(call);
}

/* ---- Padding ---- */

/* Copies an image's elements between itself and the middle of the padded one. */
static void copy_middle(const ref_call *call, const ref_tensor *image, const ref_tensor *padded,
                        bool into_padded)
{
    int64_t height = image->shape[2], width = image->shape[3];
    int64_t top = ref_int(call, "top"), left = ref_int(call, "left");
    assert_int_equal(padded->shape[2], height + top + ref_int(call, "bottom"));
    assert_int_equal(padded->shape[3], width + left + ref_int(call, "right"));
    for (int64_t i = 0; i < image->n; i++) {
        int64_t row = i / width, plane = row / height;
        int64_t to = (plane * padded->shape[2] + row % height + top) * padded->shape[3] + i % width;
        if (into_padded)
            padded->at[to + left] = image->at[i];
        else
            image->at[i] = padded->at[to + left];
    }
}

void ref_pad2d(const ref_call *call)
{
    ref_operands(call, 1, 1);
    copy_middle(call, &call->in[0], &call->out[0], true);
}

void ref_pad2d_bw(const ref_call *call)
{
    ref_operands(call, 1, 1);
    copy_middle(call, &call->out[0], &call->in[0], false);
}

/* ---- Windows ---- */

/* The window of a pooled element: its place in the padded image, before it is cut off at the edges.
 */
typedef struct window {
    int64_t plane; /* n*C + c */
    int64_t top, left, kernel_h, kernel_w;
} window;

static window window_of(const ref_call *call, const ref_tensor *pooled, int64_t element)
{
    int64_t width = pooled->shape[3], height = pooled->shape[2];
    int64_t row = element / width % height, column = element % width;
    return (window){.plane = element / (width * height),
                    .top = row * ref_int(call, "stride_h") - ref_int(call, "pad_h"),
                    .left = column * ref_int(call, "stride_w") - ref_int(call, "pad_w"),
                    .kernel_h = ref_int(call, "kernel_h"),
                    .kernel_w = ref_int(call, "kernel_w")};
}

/* The image's element at position k of the window, row by row; -1 in the padding. */
static int64_t window_element(const window *w, const ref_tensor *image, int64_t k)
{
    int64_t h = w->top + k / w->kernel_w, x = w->left + k % w->kernel_w;
    if (h < 0 || h >= image->shape[2] || x < 0 || x >= image->shape[3])
        return -1;
    return (w->plane * image->shape[2] + h) * image->shape[3] + x;
}

void ref_max_pool2d(const ref_call *call)
{
    ref_operands(call, 1, 2);
    const ref_tensor *x = &call->in[0];
    ref_tensor *y = &call->out[0], *indices = &call->out[1];
    for (int64_t i = 0; i < y->n; i++) {
        window w = window_of(call, y, i);
        y->at[i] = -HUGE_VAL;
        for (int64_t k = 0; k < w.kernel_h * w.kernel_w; k++) {
            int64_t element = window_element(&w, x, k);
            if (element < 0 || x->at[element] <= y->at[i])
                continue;
            y->at[i] = x->at[element];
            int64_t in_plane = element - w.plane * x->shape[2] * x->shape[3];
            indices->at[i] = (double)(indices->dtype == NEAP_I64 ? in_plane : k);
        }
    }
}

/* The image's element that a saved index means; -1 in the padding, where a scrambled one may point.
 */
static int64_t indexed_element(const ref_call *call, const ref_tensor *indices, int64_t i,
                               const ref_tensor *image)
{
    window w = window_of(call, indices, i);
    int64_t index = (int64_t)indices->at[i];
    return indices->dtype == NEAP_I64 ? w.plane * image->shape[2] * image->shape[3] + index
                                      : window_element(&w, image, index);
}

/* small[i] to image[where i came from] and back; pooled windows may share an element, unpooled ones
 * not. */
static void scatter(const ref_call *call)
{
    ref_operands(call, 2, 1);
    for (int64_t i = 0; i < call->in[0].n; i++) {
        int64_t element = indexed_element(call, &call->in[1], i, &call->out[0]);
        if (element >= 0)
            call->out[0].at[element] += call->in[0].at[i];
    }
}

void ref_max_pool2d_bw(const ref_call *call)
{
    scatter(call);
}

void ref_max_unpool2d(const ref_call *call)
{
    scatter(call);
}

void ref_max_unpool2d_bw(const ref_call *call)
{
    ref_operands(call, 2, 1);
    for (int64_t i = 0; i < call->out[0].n; i++) {
        int64_t element = indexed_element(call, &call->in[1], i, &call->in[0]);
        if (element >= 0)
            call->out[0].at[i] = call->in[0].at[element];
    }
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* What a window's sum is divided by: its elements, with the padding or without. */
static double divisor(const ref_call *call, const window *w, const ref_tensor *image)
{
    if (ref_int(call, "count_include_pad"))
        return (double)((least(w->top + w->kernel_h, image->shape[2] + ref_int(call, "pad_h")) -
                         w->top) *
                        (least(w->left + w->kernel_w, image->shape[3] + ref_int(call, "pad_w")) -
                         w->left));
    int64_t inside = 0;
    for (int64_t k = 0; k < w->kernel_h * w->kernel_w; k++)
        inside += window_element(w, image, k) >= 0;
    return (double)inside;
}

/* Adds each pair's share from one side to the other. */
static void average(const ref_call *call, const ref_tensor *pooled, const ref_tensor *image,
                    bool forward)
{
    for (int64_t i = 0; i < pooled->n; i++) {
        window w = window_of(call, pooled, i);
        double share = 1 / divisor(call, &w, image);
        for (int64_t k = 0; k < w.kernel_h * w.kernel_w; k++) {
            int64_t element = window_element(&w, image, k);
            if (element >= 0 && forward)
                pooled->at[i] += share * image->at[element];
            else if (element >= 0)
                image->at[element] += share * pooled->at[i];
        }
    }
}

void ref_avg_pool2d(const ref_call *call)
{
    ref_operands(call, 1, 1);
    average(call, &call->out[0], &call->in[0], true);
}

void ref_avg_pool2d_bw(const ref_call *call)
{
    ref_operands(call, 1, 1);
    average(call, &call->in[0], &call->out[0], false);
}

/* ---- Adaptive pooling and resizing: each side of the image on its own ---- */

/* y[o] = sum over i of weight(o, i) x[i], for one dimension. */
typedef double weight_1d(const ref_call *call, int64_t o, int64_t i, int64_t outputs,
                         int64_t inputs);

/* A window from floor(o*H/out) to ceil((o+1)*H/out). */
static double adaptive_weight(const ref_call *call, int64_t o, int64_t i, int64_t outputs,
                              int64_t inputs)
{
    (void)call;
    int64_t begin = o * inputs / outputs, end = ((o + 1) * inputs + outputs - 1) / outputs;
    return i >= begin && i < end ? 1 / (double)(end - begin) : 0;
}

/* A tent around the place that o has in the input, held at the edges. */
static double bilinear_weight(const ref_call *call, int64_t o, int64_t i, int64_t outputs,
                              int64_t inputs)
{
    double place;
    if (ref_int(call, "align_corners"))
        place = outputs > 1 ? (double)(o * (inputs - 1)) / (double)(outputs - 1) : 0;
    else
        place = ((double)o + 0.5) * (double)inputs / (double)outputs - 0.5;
    place = fmin(fmax(place, 0), (double)(inputs - 1));
    return fmax(0, 1 - fabs(place - (double)i));
}

/* The same weights both ways: y += weight * x, or dx += weight * dy. */
static void resample(const ref_call *call, const ref_tensor *y, const ref_tensor *x, bool forward,
                     weight_1d *weight)
{
    const int64_t *big = x->shape, *small = y->shape;
    for (int64_t o = 0; o < y->n; o++)
        for (int64_t i = 0; i < big[2] * big[3]; i++) {
            int64_t element = o / (small[2] * small[3]) * big[2] * big[3] + i;
            double share = weight(call, o / small[3] % small[2], i / big[3], small[2], big[2]) *
                           weight(call, o % small[3], i % big[3], small[3], big[3]);
            if (forward)
                y->at[o] += share * x->at[element];
            else
                x->at[element] += share * y->at[o];
        }
}

void ref_adaptive_avg_pool2d(const ref_call *call)
{
    ref_operands(call, 1, 1);
    resample(call, &call->out[0], &call->in[0], true, adaptive_weight);
}

void ref_adaptive_avg_pool2d_bw(const ref_call *call)
{
    ref_operands(call, 1, 1);
    resample(call, &call->in[0], &call->out[0], false, adaptive_weight);
}

void ref_upsample(const ref_call *call)
{
    ref_operands(call, 1, 1);
    resample(call, &call->out[0], &call->in[0], true, bilinear_weight);
}

void ref_upsample_bw(const ref_call *call)
{
    ref_operands(call, 1, 1);
    resample(call, &call->in[0], &call->out[0], false, bilinear_weight);
}
