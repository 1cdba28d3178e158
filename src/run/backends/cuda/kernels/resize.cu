/* Bilinear resizing of images, and its gradient, which gathers from the outputs of each input. */
#include "resize.h"
#include "image.cuh"

/* Not negative. */
DEVICE i64 resize_quotient(i64 x, i64 divisor, image_divisor by)
{
    return x >> 31 || divisor >> 31 ? x / divisor : (i64)image_quotient((u32)x, by);
}

/* ---- Forward ---- */

typedef struct resize_line {
    i64 near, far; /* inputs, far = near + 1 but at the edge */
    float near_weight, far_weight;
} resize_line;

DEVICE resize_line resize_line_of(const resize_side *s, i32 o)
{
    resize_line line;
    i64 place = s->scale * o + s->offset;
    place = place > 0 ? place : 0;
    line.near = resize_quotient(place, s->divisor, s->by_divisor);
    line.far_weight = (float)(place - line.near * s->divisor) * s->share;
    if (line.near >= s->inputs - 1) {
        line.near = s->inputs - 1;
        line.far_weight = 0.0f;
    }
    line.near_weight = 1.0f - line.far_weight;
    line.far = line.near + 1 < s->inputs ? line.near + 1 : line.near;
    return line;
}

DEVICE void resize_forward_at(const resize_params *p, image_place at, int width)
{
    resize_line h = resize_line_of(&p->h, at.h), w = resize_line_of(&p->w, at.w);
    const T *x = (const T *)p->x + at.n * p->x_strides.n + at.c * p->x_strides.c;
    const T *near = x + h.near * p->x_strides.h, *far = x + h.far * p->x_strides.h;
    float a[VECTOR], b[VECTOR], c[VECTOR], d[VECTOR];
    image_load(a, near + w.near * p->x_strides.w, width);
    image_load(b, near + w.far * p->x_strides.w, width);
    image_load(c, far + w.near * p->x_strides.w, width);
    image_load(d, far + w.far * p->x_strides.w, width);
    UNROLL for (int k = 0; k < width; k++)
        a[k] = h.near_weight * (w.near_weight * a[k] + w.far_weight * b[k]) +
               h.far_weight * (w.near_weight * c[k] + w.far_weight * d[k]);
    image_store((T *)p->y + image_offset(p->y_strides, at.n, at.c, at.h, at.w), a, width);
}

IMAGE_KERNELS(resize_forward, resize_params)

/* ---- Backward ---- */

/* The outputs that input i has a share in: those between inputs i - 1 and i + 1. */
typedef struct resize_span {
    i32 begin, end;
} resize_span;

DEVICE resize_span resize_span_of(const resize_side *s, i32 i)
{
    resize_span span;
    i64 after = (i - 1) * s->divisor - s->offset, before = (i + 1) * s->divisor - s->offset;
    i64 begin = 0, end = s->outputs;
    if (s->scale == 0) { /* all outputs are at input 0 */
        end = i == 0 ? end : 0;
    } else {
        if (i > 0 && after >= 0)
            begin = resize_quotient(after, s->scale, s->by_scale) + 1;
        if (i + 1 < s->inputs)
            end = before > 0 ? resize_quotient(before - 1, s->scale, s->by_scale) + 1 : 0;
    }
    span.begin = (i32)begin;
    span.end = (i32)(end < s->outputs ? end : s->outputs);
    return span;
}

/* The weight of input i in an output of its span. */
DEVICE float resize_weight(const resize_side *s, i32 i, i32 o)
{
    i64 distance = s->scale * o + s->offset - i * s->divisor;
    if ((distance < 0 && i == 0) || (distance > 0 && i == s->inputs - 1))
        return 1.0f;
    return 1.0f - (float)(distance < 0 ? -distance : distance) * s->share;
}

/* Each row of dy is summed by itself: shorter sums, and so smaller errors, where the image was made
   much larger. */
DEVICE void resize_backward_at(const resize_params *p, image_place at, int width)
{
    resize_span rows = resize_span_of(&p->h, at.h), columns = resize_span_of(&p->w, at.w);
    const T *dy = (const T *)p->y + at.n * p->y_strides.n + at.c * p->y_strides.c;
    float sum[VECTOR], along[VECTOR], number[VECTOR];
    UNROLL for (int k = 0; k < width; k++) sum[k] = 0.0f;
    for (i32 i = rows.begin; i < rows.end; i++) {
        float row_weight = resize_weight(&p->h, at.h, i);
        UNROLL for (int k = 0; k < width; k++) along[k] = 0.0f;
        for (i32 j = columns.begin; j < columns.end; j++) {
            float weight = resize_weight(&p->w, at.w, j);
            image_load(number, dy + i * p->y_strides.h + j * p->y_strides.w, width);
            UNROLL for (int k = 0; k < width; k++) along[k] += weight * number[k];
        }
        UNROLL for (int k = 0; k < width; k++) sum[k] += row_weight * along[k];
    }
    image_store((T *)p->x + image_offset(p->x_strides, at.n, at.c, at.h, at.w), sum, width);
}

IMAGE_KERNELS(resize_backward, resize_params)
