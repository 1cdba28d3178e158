/*
 * Reference kernels of padding, pooling and resizing. Forward and backward of each family share one
 * walk over its terms: a window's elements, a pixel's neighbours.
 */
#include "run/backends/ref/ref.h"

#include <math.h>

/* ---- Padding ---- */

/* Copies an image's elements between itself and the middle of the padded one. */
static void copy_middle(const ref_call *call, const ref_tensor *image, const ref_tensor *padded,
                        bool into_padded)
{
    int64_t height = image->shape[2], width = image->shape[3];
    int64_t top = neap_ref_int(call, "top"), left = neap_ref_int(call, "left");
    for (int64_t i = 0; i < image->n; i++) {
        int64_t row = i / width, plane = row / height;
        int64_t to = (plane * padded->shape[2] + row % height + top) * padded->shape[3] + i % width;
        if (into_padded)
            padded->at[to + left] = image->at[i];
        else
            image->at[i] = padded->at[to + left];
    }
}

void neap_ref_pad2d(const ref_call *call)
{
    copy_middle(call, &call->in[0], &call->out[0], true);
}

void neap_ref_pad2d_bw(const ref_call *call)
{
    copy_middle(call, &call->out[0], &call->in[0], false);
}

/* ---- Windows ---- */

/* How the windows of a pooled image lie on the image. */
typedef struct pooling {
    const ref_tensor *pooled, *image;
    int64_t kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w;
} pooling;

static pooling pooling_of(const ref_call *call, const ref_tensor *pooled, const ref_tensor *image)
{
    return (pooling){.pooled = pooled,
                     .image = image,
                     .kernel_h = neap_ref_int(call, "kernel_h"),
                     .kernel_w = neap_ref_int(call, "kernel_w"),
                     .stride_h = neap_ref_int(call, "stride_h"),
                     .stride_w = neap_ref_int(call, "stride_w"),
                     .pad_h = neap_ref_int(call, "pad_h"),
                     .pad_w = neap_ref_int(call, "pad_w")};
}

/* The window of a pooled element: where it begins, perhaps in the padding, and the part of it that
   is inside the image. */
typedef struct window {
    int64_t plane; /* n*C + c */
    int64_t top, left;
    int64_t h_begin, h_end, w_begin, w_end;
} window;

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static window window_of(const pooling *p, int64_t element)
{
    int64_t width = p->pooled->shape[3], height = p->pooled->shape[2];
    window w = {.plane = element / (width * height),
                .top = element / width % height * p->stride_h - p->pad_h,
                .left = element % width * p->stride_w - p->pad_w};
    w.h_begin = most(w.top, 0);
    w.h_end = least(w.top + p->kernel_h, p->image->shape[2]);
    w.w_begin = most(w.left, 0);
    w.w_end = least(w.left + p->kernel_w, p->image->shape[3]);
    return w;
}

/* The image's element at row h and column v of the window's plane. */
static int64_t element_at(const pooling *p, const window *w, int64_t h, int64_t v)
{
    return (w->plane * p->image->shape[2] + h) * p->image->shape[3] + v;
}

/* The first of the largest, or the last that is not a number; as PyTorch does. */
void neap_ref_max_pool2d(const ref_call *call)
{
    const ref_tensor *x = &call->in[0];
    ref_tensor *y = &call->out[0], *indices = &call->out[1];
    pooling p = pooling_of(call, y, x);
    for (int64_t i = 0; i < y->n; i++) {
        window w = window_of(&p, i);
        bool first = true;
        for (int64_t h = w.h_begin; h < w.h_end; h++)
            for (int64_t v = w.w_begin; v < w.w_end; v++) {
                int64_t element = element_at(&p, &w, h, v);
                if (!first && x->at[element] <= y->at[i])
                    continue;
                first = false;
                y->at[i] = x->at[element];
                indices->at[i] =
                    (double)(indices->dtype == NEAP_I64 ? h * x->shape[3] + v
                                                        : (h - w.top) * p.kernel_w + v - w.left);
            }
    }
}

/* The image's element that a saved index means; -1 in the padding, where only indices that no
   pooling made point. */
static int64_t indexed_element(const pooling *p, const ref_tensor *indices, int64_t i)
{
    window w = window_of(p, i);
    int64_t index = (int64_t)indices->at[i];
    if (indices->dtype == NEAP_I64)
        return element_at(p, &w, 0, 0) + index;
    int64_t h = w.top + index / p->kernel_w, v = w.left + index % p->kernel_w;
    bool inside = h >= w.h_begin && h < w.h_end && v >= w.w_begin && v < w.w_end;
    return inside ? element_at(p, &w, h, v) : -1;
}

/* small[i] to image[where i came from]. Windows may share an element: a gradient is then a sum. */
static void scatter(const ref_call *call)
{
    pooling p = pooling_of(call, &call->in[1], &call->out[0]);
    for (int64_t i = 0; i < call->in[0].n; i++) {
        int64_t element = indexed_element(&p, &call->in[1], i);
        if (element >= 0)
            call->out[0].at[element] += call->in[0].at[i];
    }
}

void neap_ref_max_pool2d_bw(const ref_call *call)
{
    scatter(call);
}

void neap_ref_max_unpool2d(const ref_call *call)
{
    scatter(call);
}

void neap_ref_max_unpool2d_bw(const ref_call *call)
{
    pooling p = pooling_of(call, &call->in[1], &call->in[0]);
    for (int64_t i = 0; i < call->out[0].n; i++) {
        int64_t element = indexed_element(&p, &call->in[1], i);
        if (element >= 0)
            call->out[0].at[i] = call->in[0].at[element];
    }
}

/* What a window's sum is divided by: its elements, with the padding or without. */
static double divisor(const pooling *p, const window *w, bool with_padding)
{
    if (!with_padding)
        return (double)((w->h_end - w->h_begin) * (w->w_end - w->w_begin));
    int64_t bottom = least(w->top + p->kernel_h, p->image->shape[2] + p->pad_h);
    int64_t right = least(w->left + p->kernel_w, p->image->shape[3] + p->pad_w);
    return (double)((bottom - w->top) * (right - w->left));
}

/* Adds each pair's share from one side to the other. */
static void average(const ref_call *call, const ref_tensor *pooled, const ref_tensor *image,
                    bool forward)
{
    pooling p = pooling_of(call, pooled, image);
    bool with_padding = neap_ref_int(call, "count_include_pad");
    for (int64_t i = 0; i < pooled->n; i++) {
        window w = window_of(&p, i);
        double share = 1 / divisor(&p, &w, with_padding);
        for (int64_t h = w.h_begin; h < w.h_end; h++)
            for (int64_t v = w.w_begin; v < w.w_end; v++) {
                int64_t element = element_at(&p, &w, h, v);
                if (forward)
                    pooled->at[i] += share * image->at[element];
                else
                    image->at[element] += share * pooled->at[i];
            }
    }
}

void neap_ref_avg_pool2d(const ref_call *call)
{
    average(call, &call->out[0], &call->in[0], true);
}

void neap_ref_avg_pool2d_bw(const ref_call *call)
{
    average(call, &call->in[0], &call->out[0], false);
}

/* ---- Adaptive pooling and resizing: each side of the image on its own ---- */

/* y[o] = first * x[begin] + rest * (x[begin + 1] + ... + x[end - 1]), for one dimension. */
typedef struct span {
    int64_t begin, end;
    double first, rest;
} span;

typedef span span_function(const ref_call *call, int64_t o, int64_t outputs, int64_t inputs);

/* The mean from floor(o*H/out) to ceil((o+1)*H/out). */
static span adaptive_span(const ref_call *call, int64_t o, int64_t outputs, int64_t inputs)
{
    (void)call;
    int64_t begin = o * inputs / outputs, end = ((o + 1) * inputs + outputs - 1) / outputs;
    double share = 1 / (double)(end - begin);
    return (span){begin, end, share, share};
}

/* Between the two neighbours of the place that o has in the input, held at the edges. */
static span bilinear_span(const ref_call *call, int64_t o, int64_t outputs, int64_t inputs)
{
    double place;
    if (neap_ref_int(call, "align_corners"))
        place = outputs > 1 ? (double)(o * (inputs - 1)) / (double)(outputs - 1) : 0;
    else
        place = ((double)o + 0.5) * (double)inputs / (double)outputs - 0.5;
    place = fmin(fmax(place, 0), (double)(inputs - 1));
    int64_t begin = (int64_t)place;
    double beyond = place - (double)begin;
    return (span){begin, least(begin + 2, inputs), 1 - beyond, beyond};
}

/* The same weights both ways: y += weight * x, or dx += weight * dy. */
static void resample(const ref_call *call, const ref_tensor *y, const ref_tensor *x, bool forward,
                     span_function *span_of)
{
    const int64_t *big = x->shape, *small = y->shape;
    for (int64_t o = 0; o < y->n; o++) {
        span rows = span_of(call, o / small[3] % small[2], small[2], big[2]);
        span columns = span_of(call, o % small[3], small[3], big[3]);
        int64_t plane = o / (small[2] * small[3]);
        for (int64_t h = rows.begin; h < rows.end; h++)
            for (int64_t w = columns.begin; w < columns.end; w++) {
                double share = (h == rows.begin ? rows.first : rows.rest) *
                               (w == columns.begin ? columns.first : columns.rest);
                int64_t element = (plane * big[2] + h) * big[3] + w;
                if (forward)
                    y->at[o] += share * x->at[element];
                else
                    x->at[element] += share * y->at[o];
            }
    }
}

void neap_ref_adaptive_avg_pool2d(const ref_call *call)
{
    resample(call, &call->out[0], &call->in[0], true, adaptive_span);
}

void neap_ref_adaptive_avg_pool2d_bw(const ref_call *call)
{
    resample(call, &call->in[0], &call->out[0], false, adaptive_span);
}

void neap_ref_upsample(const ref_call *call)
{
    resample(call, &call->out[0], &call->in[0], true, bilinear_span);
}

void neap_ref_upsample_bw(const ref_call *call)
{
    resample(call, &call->in[0], &call->out[0], false, bilinear_span);
}

/* ---- The nearest pixel ---- */

static int64_t nearest_pixel(const ref_call *call, const char *scale, int64_t i, int64_t extent)
{
    double by = neap_ref_real(call, scale);
    double at = neap_ref_int(call, "half_pixel") ? ((double)i + 0.5) / by - 0.5 : (double)i / by;
    at = neap_ref_int(call, "round") ? ceil(at - 0.5) : floor(at);
    return at > 0 ? (int64_t)fmin(at, (double)(extent - 1)) : 0;
}

/* Pixels of the large image from those of the small one, or added to them. */
static void resize_nearest(const ref_call *call, const ref_tensor *small, const ref_tensor *large,
                           bool add)
{
    int64_t height = large->shape[2], width = large->shape[3];
    for (int64_t i = 0; i < large->n; i++) {
        int64_t plane = i / (height * width), row = i / width % height, column = i % width;
        row = nearest_pixel(call, "scale_h", row, small->shape[2]);
        column = nearest_pixel(call, "scale_w", column, small->shape[3]);
        double *from = &small->at[(plane * small->shape[2] + row) * small->shape[3] + column];
        if (add)
            *from += large->at[i];
        else
            large->at[i] = *from;
    }
}

void neap_ref_resize_nearest(const ref_call *call)
{
    resize_nearest(call, &call->in[0], &call->out[0], false);
}

void neap_ref_resize_nearest_bw(const ref_call *call)
{
    resize_nearest(call, &call->out[0], &call->in[0], true);
}
