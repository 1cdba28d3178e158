/*
 * Reference kernels of convolutions.
 *
 * y[n,k,oh,ow] = sum over c, i, j of x[n, c of k's group, oh*stride - pad + i*dilation, ...] *
 * w[k,c,i,j]. Each term pairs an element of the three; adding up the product of two of them in the
 * third is the convolution (in y) or one of its gradients (in x, in w). The transposed convolution
 * is the gradient in x.
 */
#include "run/backends/ref/ref.h"

/* Which of the three the terms are added up in. */
typedef enum target { IN_Y, IN_X, IN_W } target;

typedef struct conv {
    const ref_tensor *y, *x, *w;
    int64_t stride_h, stride_w, pad_h, pad_w, dilation, groups;
} conv;

static conv conv_of(const ref_call *call, const ref_tensor *y, const ref_tensor *x,
                    const ref_tensor *w)
{
    return (conv){.y = y,
                  .x = x,
                  .w = w,
                  .stride_h = neap_ref_int(call, "stride_h"),
                  .stride_w = neap_ref_int(call, "stride_w"),
                  .pad_h = neap_ref_int(call, "pad_h"),
                  .pad_w = neap_ref_int(call, "pad_w"),
                  .dilation = neap_ref_int(call, "dilation"),
                  .groups = neap_ref_int(call, "groups")};
}

/* The outputs whose tap lies inside the image, and where the first one's does. */
typedef struct range {
    int64_t begin, end, place;
} range;

/* Of output o the tap is at o*stride + shift. */
static range inside(int64_t outputs, int64_t inputs, int64_t stride, int64_t shift)
{
    range r = {0, outputs, shift};
    if (shift < 0)
        r.begin = (-shift + stride - 1) / stride;
    int64_t room = inputs - 1 - shift;
    if (room < 0)
        r.end = 0;
    else if (room / stride + 1 < outputs)
        r.end = room / stride + 1;
    r.place = r.begin * stride + shift;
    return r;
}

/* One row of y, of x and one weight: `count` terms. */
static void add_row(target in, double *y, double *x, double *w, int64_t stride, int64_t count)
{
    double weight = *w, sum = 0;
    switch (in) {
    case IN_Y:
        for (int64_t i = 0; i < count; i++)
            y[i] += weight * x[i * stride];
        break;
    case IN_X:
        for (int64_t i = 0; i < count; i++)
            x[i * stride] += weight * y[i];
        break;
    case IN_W:
        for (int64_t i = 0; i < count; i++)
            sum += y[i] * x[i * stride];
        *w += sum;
    }
}

/* All terms of one tap (i, j) of all kernels on image n. */
static void add_tap(const conv *c, target in, int64_t n, int64_t i, int64_t j)
{
    const int64_t *y = c->y->shape, *x = c->x->shape, *w = c->w->shape;
    range h = inside(y[2], x[2], c->stride_h, i * c->dilation - c->pad_h);
    range v = inside(y[3], x[3], c->stride_w, j * c->dilation - c->pad_w);
    if (h.begin >= h.end || v.begin >= v.end)
        return;
    for (int64_t k = 0; k < w[0]; k++)
        for (int64_t s = 0; s < w[1]; s++) {
            int64_t channel = k / (w[0] / c->groups) * w[1] + s;
            double *weight = c->w->at + ((k * w[1] + s) * w[2] + i) * w[3] + j;
            double *out = c->y->at + ((n * y[1] + k) * y[2] + h.begin) * y[3] + v.begin;
            double *image = c->x->at + ((n * x[1] + channel) * x[2] + h.place) * x[3] + v.place;
            for (int64_t o = 0; o < h.end - h.begin; o++)
                add_row(in, out + o * y[3], image + o * c->stride_h * x[3], weight, c->stride_w,
                        v.end - v.begin);
        }
}

static void add_terms(const conv *c, target in)
{
    for (int64_t n = 0; n < c->y->shape[0]; n++)
        for (int64_t i = 0; i < c->w->shape[2]; i++)
            for (int64_t j = 0; j < c->w->shape[3]; j++)
                add_tap(c, in, n, i, j);
}

static void add_bias(const ref_call *call)
{
    ref_tensor *y = &call->out[0];
    for (int64_t i = 0; call->op->n_inputs > 2 && i < y->n; i++)
        y->at[i] += call->in[2].at[i / (y->shape[2] * y->shape[3]) % y->shape[1]];
}

/* The bias gradient, where it is wanted: dy summed over all but the channels. */
static void sum_channels(const ref_call *call)
{
    const ref_tensor *dy = &call->in[0];
    for (int64_t i = 0; call->op->n_outputs > 1 && i < dy->n; i++)
        call->out[1].at[i / (dy->shape[2] * dy->shape[3]) % dy->shape[1]] += dy->at[i];
}

void neap_ref_conv2d(const ref_call *call)
{
    ref_tensor *y = &call->out[0];
    conv c = conv_of(call, y, &call->in[0], &call->in[1]);
    add_terms(&c, IN_Y);
    add_bias(call);
    for (int64_t i = 0; neap_ref_int(call, "relu") && i < y->n; i++)
        y->at[i] = y->at[i] < 0 ? 0 : y->at[i];
}

void neap_ref_conv2d_bw_data(const ref_call *call)
{
    conv c = conv_of(call, &call->in[0], &call->out[0], &call->in[1]);
    add_terms(&c, IN_X);
}

void neap_ref_conv2d_bw_weight(const ref_call *call)
{
    conv c = conv_of(call, &call->in[0], &call->in[1], &call->out[0]);
    add_terms(&c, IN_W);
    sum_channels(call);
}

void neap_ref_conv_transpose2d(const ref_call *call)
{
    conv c = conv_of(call, &call->in[0], &call->out[0], &call->in[1]);
    add_terms(&c, IN_X);
    add_bias(call);
}

void neap_ref_conv_transpose2d_bw_data(const ref_call *call)
{
    conv c = conv_of(call, &call->out[0], &call->in[0], &call->in[1]);
    add_terms(&c, IN_Y);
}

void neap_ref_conv_transpose2d_bw_weight(const ref_call *call)
{
    conv c = conv_of(call, &call->in[1], &call->in[0], &call->out[0]);
    add_terms(&c, IN_W);
    sum_channels(call);
}
