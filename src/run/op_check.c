/* What each op type takes: one function a family of types. docs/ops.md has the table. */
#include "run/op_check.h"

#include "base/fail.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

typedef struct checker {
    const run_spec *spec;
    const run_array *in, *out;
    uint32_t n_in, n_out;
    bool failed;
    neap_diag *diag;
} checker;

/* The first complaint counts. */
static void complain(checker *c, const char *format, ...) NEAP_PRINTF(2, 3);

static void complain(checker *c, const char *format, ...)
{
    char text[256];
    va_list args;
    if (c->failed)
        return;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    neap_fail(c->diag, NEAP_UNSUPPORTED, "op \"%s\" (%s): %s", c->spec->op->name, c->spec->op->type,
              text);
    c->failed = true;
}

/* ---- Questions ---- */

/* Whether there are so many operands; if not, nothing else may be asked. */
static bool counts(checker *c, uint32_t n_in, uint32_t n_out)
{
    if (c->n_in != n_in || c->n_out != n_out)
        complain(c, "reads %u and writes %u values; its kernel reads %u and writes %u", c->n_in,
                 c->n_out, n_in, n_out);
    return !c->failed;
}

static bool has_attr(const checker *c, const char *name)
{
    for (uint32_t i = 0; i < c->spec->op->n_attrs; i++)
        if (strcmp(c->spec->op->attrs[i].name, name) == 0)
            return true;
    return false;
}

/* An attribute that must be there, from `least` to 2^31 - 1; `least` where it is not. */
static int64_t number(checker *c, const char *name, int64_t least)
{
    int64_t value = neap_run_spec_int(c->spec, name, least);
    if (!has_attr(c, name))
        complain(c, "lacks the attribute \"%s\"", name);
    else if (value < least || value > INT32_MAX)
        complain(c, "\"%s\" is %lld", name, (long long)value);
    return c->failed ? least : value;
}

static void real(checker *c, const char *name)
{
    if (!has_attr(c, name))
        complain(c, "lacks the attribute \"%s\"", name);
}

/* A probability of dropping: at least 0 and below 1, and if not 0 the op must be random. */
static void probability(checker *c, const char *name)
{
    real(c, name);
    double p = neap_run_spec_real(c->spec, name, 0);
    if (!(p >= 0 && p < 1))
        complain(c, "\"%s\" is %g", name, p);
    else if (p > 0 && !c->spec->op->random)
        complain(c, "draws random numbers but is not marked as random");
}

static bool is_float(neap_dtype dtype)
{
    return dtype == NEAP_F32 || dtype == NEAP_F16 || dtype == NEAP_BF16 || dtype == NEAP_F64;
}

static void floats(checker *c, const run_array *x)
{
    if (!is_float(x->dtype))
        complain(c, "an operand of type %s where it takes floating-point numbers",
                 neap_dtype_name(x->dtype));
}

/* All operands are floats but, perhaps, one input and one output. */
static void all_floats(checker *c, const run_array *but_in, const run_array *but_out)
{
    for (uint32_t i = 0; i < c->n_in; i++)
        if (&c->in[i] != but_in)
            floats(c, &c->in[i]);
    for (uint32_t i = 0; i < c->n_out; i++)
        if (&c->out[i] != but_out)
            floats(c, &c->out[i]);
}

static void ids(checker *c, const run_array *x)
{
    if (x->dtype != NEAP_I64 && x->dtype != NEAP_I32)
        complain(c, "ids and labels are i64 or i32, not %s", neap_dtype_name(x->dtype));
}

static void rank(checker *c, const run_array *x, uint32_t wanted)
{
    if (x->rank != wanted)
        complain(c, "an operand has %u dimensions, not %u", x->rank, wanted);
}

static bool same_extents(const int64_t *a, const int64_t *b, uint32_t count)
{
    return memcmp(a, b, count * sizeof *a) == 0;
}

static void same_shape(checker *c, const run_array *a, const run_array *b)
{
    if (a->rank != b->rank || !same_extents(a->shape, b->shape, a->rank))
        complain(c, "operands that must have one shape differ");
}

/* b's shape is the end of a's. */
static void suffix(checker *c, const run_array *a, const run_array *b)
{
    if (b->rank > a->rank || !same_extents(a->shape + (a->rank - b->rank), b->shape, b->rank))
        complain(c, "the shape that is repeated is not the end of the other");
}

static void extent(checker *c, int64_t found, int64_t wanted)
{
    if (found != wanted)
        complain(c, "an extent is %lld where the others make it %lld", (long long)found,
                 (long long)wanted);
}

static void vector(checker *c, const run_array *x, int64_t length)
{
    rank(c, x, 1);
    extent(c, x->shape[0], length);
}

static int64_t last(const run_array *x)
{
    return x->shape[x->rank - 1];
}

/* ---- Elementwise ---- */

static void unary(checker *c)
{
    if (!counts(c, 1, 1))
        return;
    all_floats(c, NULL, NULL);
    same_shape(c, &c->in[0], &c->out[0]);
}

static void binary(checker *c)
{
    if (!counts(c, 2, 1))
        return;
    all_floats(c, NULL, NULL);
    same_shape(c, &c->in[0], &c->in[1]);
    same_shape(c, &c->in[0], &c->out[0]);
}

static void scale(checker *c)
{
    unary(c);
    real(c, "factor");
    real(c, "offset");
}

static void power(checker *c)
{
    unary(c);
    real(c, "power");
}

static void power_bw(checker *c)
{
    binary(c);
    real(c, "power");
}

static void gelu(checker *c)
{
    unary(c);
    number(c, "tanh", 0);
}

static void gelu_bw(checker *c)
{
    binary(c);
    number(c, "tanh", 0);
}

static void add(checker *c)
{
    if (!counts(c, 2, 1))
        return;
    all_floats(c, NULL, NULL);
    suffix(c, &c->in[0], &c->in[1]);
    same_shape(c, &c->in[0], &c->out[0]);
}

static void mask(checker *c, const run_array *x)
{
    if (x->dtype != NEAP_U8)
        complain(c, "a mask is u8, not %s", neap_dtype_name(x->dtype));
}

static void dropout(checker *c)
{
    if (!counts(c, 1, 2))
        return;
    all_floats(c, NULL, &c->out[1]);
    mask(c, &c->out[1]);
    same_shape(c, &c->in[0], &c->out[0]);
    same_shape(c, &c->in[0], &c->out[1]);
    probability(c, "p");
}

static void dropout_bw(checker *c)
{
    if (!counts(c, 2, 1))
        return;
    all_floats(c, &c->in[1], NULL);
    mask(c, &c->in[1]);
    same_shape(c, &c->in[0], &c->in[1]);
    same_shape(c, &c->in[0], &c->out[0]);
    real(c, "p");
}

/* ---- Convolution and linear layers ---- */

/* Along one side: y = (x + 2 pad - dilation (kernel - 1) - 1) / stride + 1. */
static void conv_side(checker *c, int64_t y, int64_t x, int64_t kernel, const char *stride_name,
                      const char *pad_name)
{
    int64_t stride = number(c, stride_name, 1), pad = number(c, pad_name, 0);
    int64_t dilation = number(c, "dilation", 1);
    if (c->failed)
        return;
    if (kernel > INT32_MAX || x + 2 * pad < dilation * (kernel - 1) + 1)
        complain(c, "the kernel is larger than the image");
    else
        extent(c, y, (x + 2 * pad - dilation * (kernel - 1) - 1) / stride + 1);
}

/* x = (y - 1) stride - 2 pad + kernel + output_pad. */
static void transposed_side(checker *c, int64_t x, int64_t y, int64_t kernel,
                            const char *stride_name, const char *pad_name)
{
    int64_t stride = number(c, stride_name, 1), pad = number(c, pad_name, 0);
    int64_t output_pad = number(c, "output_pad", 0);
    extent(c, number(c, "dilation", 1), 1);
    if (y > INT32_MAX || kernel > INT32_MAX)
        complain(c, "the image is too large");
    if (!c->failed)
        extent(c, x, (y - 1) * stride - 2 * pad + kernel + output_pad);
}

/* y, x and w as in a convolution; the bias, or its gradient, may be NULL. */
static void conv(checker *c, const run_array *y, const run_array *x, const run_array *w,
                 const run_array *bias, bool transposed)
{
    all_floats(c, NULL, NULL);
    rank(c, y, 4);
    rank(c, x, 4);
    rank(c, w, 4);
    int64_t groups = number(c, "groups", 1);
    if (!c->failed && (w->shape[0] % groups || x->shape[1] % groups))
        complain(c, "its groups do not divide its channels");
    if (c->failed)
        return;
    extent(c, y->shape[0], x->shape[0]);
    extent(c, y->shape[1], w->shape[0]);
    extent(c, w->shape[1], x->shape[1] / groups);
    (transposed ? transposed_side : conv_side)(c, transposed ? x->shape[2] : y->shape[2],
                                               transposed ? y->shape[2] : x->shape[2], w->shape[2],
                                               "stride_h", "pad_h");
    (transposed ? transposed_side : conv_side)(c, transposed ? x->shape[3] : y->shape[3],
                                               transposed ? y->shape[3] : x->shape[3], w->shape[3],
                                               "stride_w", "pad_w");
    if (bias)
        vector(c, bias, transposed ? x->shape[1] : y->shape[1]);
}

static void conv2d(checker *c)
{
    number(c, "relu", 0);
    if (counts(c, number(c, "bias", 0) ? 3 : 2, 1))
        conv(c, &c->out[0], &c->in[0], &c->in[1], c->n_in > 2 ? &c->in[2] : NULL, false);
}

static void conv2d_bw_data(checker *c)
{
    if (counts(c, 2, 1))
        conv(c, &c->in[0], &c->out[0], &c->in[1], NULL, false);
}

static void conv2d_bw_weight(checker *c)
{
    if (counts(c, 2, number(c, "bias", 0) ? 2 : 1))
        conv(c, &c->in[0], &c->in[1], &c->out[0], c->n_out > 1 ? &c->out[1] : NULL, false);
}

static void conv_transpose2d(checker *c)
{
    if (counts(c, number(c, "bias", 0) ? 3 : 2, 1))
        conv(c, &c->in[0], &c->out[0], &c->in[1], c->n_in > 2 ? &c->in[2] : NULL, true);
}

static void conv_transpose2d_bw_data(checker *c)
{
    if (counts(c, 2, 1))
        conv(c, &c->out[0], &c->in[0], &c->in[1], NULL, true);
}

static void conv_transpose2d_bw_weight(checker *c)
{
    if (counts(c, 2, number(c, "bias", 0) ? 2 : 1))
        conv(c, &c->in[1], &c->in[0], &c->out[0], c->n_out > 1 ? &c->out[1] : NULL, true);
}

/* y = x w^T + b. */
static void linear_shapes(checker *c, const run_array *y, const run_array *x, const run_array *w,
                          const run_array *bias)
{
    all_floats(c, NULL, NULL);
    rank(c, w, 2);
    rank(c, y, x->rank);
    if (c->failed)
        return;
    if (!same_extents(y->shape, x->shape, x->rank - 1))
        complain(c, "its input and its result do not have the same rows");
    extent(c, last(x), w->shape[1]);
    extent(c, last(y), w->shape[0]);
    if (bias)
        vector(c, bias, w->shape[0]);
}

static void linear(checker *c)
{
    if (counts(c, number(c, "bias", 0) ? 3 : 2, 1))
        linear_shapes(c, &c->out[0], &c->in[0], &c->in[1], c->n_in > 2 ? &c->in[2] : NULL);
}

static void linear_bw_data(checker *c)
{
    if (counts(c, 2, 1))
        linear_shapes(c, &c->in[0], &c->out[0], &c->in[1], NULL);
}

static void linear_bw_weight(checker *c)
{
    if (counts(c, 2, number(c, "bias", 0) ? 2 : 1))
        linear_shapes(c, &c->in[0], &c->in[1], &c->out[0], c->n_out > 1 ? &c->out[1] : NULL);
}

/* ---- Normalisation ---- */

static int64_t channels_of(checker *c, const run_array *x, bool batch)
{
    if (batch && x->rank < 2)
        complain(c, "batch normalisation takes N x C x ...");
    return c->failed ? 0 : batch ? x->shape[1] : last(x);
}

static void statistics(checker *c, const run_array *x, const run_array *s, bool batch)
{
    int64_t channels = channels_of(c, x, batch);
    if (batch)
        vector(c, s, channels);
    else if (!c->failed)
        extent(c, neap_run_array_elements(s), neap_run_array_elements(x) / channels);
}

static void norm(checker *c, bool batch)
{
    if (!counts(c, 3, 3))
        return;
    all_floats(c, NULL, NULL);
    real(c, "epsilon");
    same_shape(c, &c->in[0], &c->out[0]);
    for (uint32_t i = 1; i < 3; i++) {
        vector(c, &c->in[i], channels_of(c, &c->in[0], batch));
        statistics(c, &c->in[0], &c->out[i], batch);
    }
}

/* (dy, x [, gamma], mean, invstd) -> [dx,] dgamma, dbeta. */
static void norm_bw(checker *c, bool batch)
{
    bool data = c->n_out == 3;
    if (!counts(c, data ? 5 : 4, data ? 3 : 2))
        return;
    all_floats(c, NULL, NULL);
    const run_array *x = &c->in[1];
    same_shape(c, x, &c->in[0]);
    for (uint32_t i = 0; i < 2; i++) {
        statistics(c, x, &c->in[c->n_in - 1 - i], batch);
        vector(c, &c->out[c->n_out - 1 - i], channels_of(c, x, batch));
    }
    if (data) {
        vector(c, &c->in[2], channels_of(c, x, batch));
        same_shape(c, x, &c->out[0]);
    }
}

static void batch_norm(checker *c)
{
    norm(c, true);
}

static void batch_norm_bw(checker *c)
{
    norm_bw(c, true);
}

static void layer_norm(checker *c)
{
    norm(c, false);
}

static void layer_norm_bw(checker *c)
{
    norm_bw(c, false);
}

/* ---- Pooling ---- */

/* Every window must begin inside the image or the padding before it, and reach the image. */
static void pool_side(checker *c, int64_t pooled, int64_t image, const char *kernel_name,
                      const char *stride_name, const char *pad_name)
{
    int64_t kernel = number(c, kernel_name, 1), stride = number(c, stride_name, 1);
    int64_t pad = number(c, pad_name, 0);
    if (pad >= kernel || pooled > INT32_MAX || (pooled - 1) * stride - pad >= image)
        complain(c, "a window lies outside the image");
}

static void planes(checker *c, const run_array *a, const run_array *b)
{
    rank(c, a, 4);
    rank(c, b, 4);
    if (!c->failed && !same_extents(a->shape, b->shape, 2))
        complain(c, "images that must have the same N and C differ");
}

static void pool(checker *c, const run_array *pooled, const run_array *image)
{
    planes(c, pooled, image);
    if (c->failed)
        return;
    pool_side(c, pooled->shape[2], image->shape[2], "kernel_h", "stride_h", "pad_h");
    pool_side(c, pooled->shape[3], image->shape[3], "kernel_w", "stride_w", "pad_w");
}

static void indices(checker *c, const run_array *x, const run_array *pooled)
{
    int64_t window = number(c, "kernel_h", 1) * number(c, "kernel_w", 1);
    if (x->dtype != NEAP_I64 && x->dtype != NEAP_I32 && x->dtype != NEAP_U8)
        complain(c, "indices are u8, i32 or i64, not %s", neap_dtype_name(x->dtype));
    else if (x->dtype == NEAP_U8 && window > 256)
        complain(c, "a window of %lld elements takes indices of more than a byte",
                 (long long)window);
    same_shape(c, x, pooled);
}

static void max_pool2d(checker *c)
{
    if (!counts(c, 1, 2))
        return;
    all_floats(c, NULL, &c->out[1]);
    pool(c, &c->out[0], &c->in[0]);
    indices(c, &c->out[1], &c->out[0]);
}

static void max_pool2d_bw(checker *c)
{
    if (!counts(c, 2, 1))
        return;
    all_floats(c, &c->in[1], NULL);
    pool(c, &c->in[0], &c->out[0]);
    indices(c, &c->in[1], &c->in[0]);
}

static void max_unpool2d_bw(checker *c)
{
    if (!counts(c, 2, 1))
        return;
    all_floats(c, &c->in[1], NULL);
    pool(c, &c->out[0], &c->in[0]);
    indices(c, &c->in[1], &c->out[0]);
}

static void avg_pool2d(checker *c)
{
    if (!counts(c, 1, 1))
        return;
    all_floats(c, NULL, NULL);
    number(c, "count_include_pad", 0);
    pool(c, &c->out[0], &c->in[0]);
}

static void avg_pool2d_bw(checker *c)
{
    if (!counts(c, 1, 1))
        return;
    all_floats(c, NULL, NULL);
    number(c, "count_include_pad", 0);
    pool(c, &c->in[0], &c->out[0]);
}

static void adaptive(checker *c)
{
    if (!counts(c, 1, 1))
        return;
    all_floats(c, NULL, NULL);
    planes(c, &c->in[0], &c->out[0]);
    for (uint32_t d = 2; d < 4 && !c->failed; d++)
        if (c->in[0].shape[d] > INT32_MAX || c->out[0].shape[d] > INT32_MAX)
            complain(c, "the image is too large");
}

static void upsample(checker *c)
{
    adaptive(c);
    number(c, "align_corners", 0);
}

/* ---- Shape ---- */

static void pad(checker *c, const run_array *image, const run_array *padded)
{
    planes(c, image, padded);
    int64_t rows = number(c, "top", 0) + number(c, "bottom", 0);
    int64_t columns = number(c, "left", 0) + number(c, "right", 0);
    if (c->failed)
        return;
    extent(c, padded->shape[2], image->shape[2] + rows);
    extent(c, padded->shape[3], image->shape[3] + columns);
}

static void pad2d(checker *c)
{
    if (counts(c, 1, 1))
        pad(c, &c->in[0], &c->out[0]);
}

static void pad2d_bw(checker *c)
{
    if (counts(c, 1, 1))
        pad(c, &c->out[0], &c->in[0]);
}

/* `part` lies in `whole` from `begin` on along the axis. */
static void part_of(checker *c, const run_array *part, const run_array *whole, int64_t begin)
{
    int64_t axis = number(c, "axis", 0);
    rank(c, part, whole->rank);
    if (axis >= whole->rank)
        complain(c, "axis %lld of %u dimensions", (long long)axis, whole->rank);
    for (uint32_t d = 0; d < whole->rank && !c->failed; d++)
        if (d != axis)
            extent(c, part->shape[d], whole->shape[d]);
    if (!c->failed && (begin < 0 || begin > whole->shape[axis] - part->shape[axis]))
        complain(c, "a part reaches beyond the whole");
}

/* The parts follow each other and fill the whole. */
static void parts(checker *c, uint32_t count, const run_array *part, const run_array *whole)
{
    int64_t axis = number(c, "axis", 0), begin = 0;
    for (uint32_t i = 0; i < count && !c->failed; i++) {
        part_of(c, &part[i], whole, begin);
        begin += c->failed ? 0 : part[i].shape[axis];
    }
    if (!c->failed)
        extent(c, whole->shape[axis], begin);
}

static void concat(checker *c)
{
    if (counts(c, c->n_in ? c->n_in : 1, 1))
        parts(c, c->n_in, c->in, &c->out[0]);
}

static void split(checker *c)
{
    if (counts(c, 1, c->n_out ? c->n_out : 1))
        parts(c, c->n_out, c->out, &c->in[0]);
}

static void slice(checker *c)
{
    if (counts(c, 1, 1))
        part_of(c, &c->out[0], &c->in[0], number(c, "begin", 0));
}

static void slice_bw(checker *c)
{
    if (counts(c, 1, 1))
        part_of(c, &c->in[0], &c->out[0], number(c, "begin", 0));
}

static void reshape(checker *c)
{
    if (counts(c, 1, 1))
        extent(c, neap_run_array_elements(&c->out[0]), neap_run_array_elements(&c->in[0]));
}

static void transpose(checker *c)
{
    if (!counts(c, 1, 1))
        return;
    run_array turned = c->in[0];
    int64_t a = number(c, "axis_a", 0), b = number(c, "axis_b", 0);
    if (a >= turned.rank || b >= turned.rank)
        complain(c, "axes %lld and %lld of %u dimensions", (long long)a, (long long)b, turned.rank);
    if (c->failed)
        return;
    turned.shape[a] = c->in[0].shape[b];
    turned.shape[b] = c->in[0].shape[a];
    same_shape(c, &turned, &c->out[0]);
}

static void expand(checker *c)
{
    if (!counts(c, 1, 1))
        return;
    all_floats(c, NULL, NULL);
    suffix(c, &c->out[0], &c->in[0]);
}

static void reduce(checker *c)
{
    if (!counts(c, 1, 1))
        return;
    all_floats(c, NULL, NULL);
    suffix(c, &c->in[0], &c->out[0]);
}

/* ---- Sequences ---- */

static void look_up(checker *c, const run_array *y, const run_array *words, const run_array *w)
{
    all_floats(c, words, NULL);
    ids(c, words);
    rank(c, w, 2);
    rank(c, y, words->rank + 1);
    if (c->failed)
        return;
    if (!same_extents(y->shape, words->shape, words->rank))
        complain(c, "its ids and its result do not have the same rows");
    extent(c, last(y), w->shape[1]);
}

static void embedding(checker *c)
{
    if (counts(c, 2, 1))
        look_up(c, &c->out[0], &c->in[0], &c->in[1]);
}

static void embedding_bw(checker *c)
{
    if (counts(c, 2, 1))
        look_up(c, &c->in[0], &c->in[1], &c->out[0]);
}

/* o is N x Tq x C; q, k, v are such, or packed in one of 3 C; lse is N x heads x Tq. */
static void attend(checker *c, const run_array *o, const run_array *q, const run_array *k,
                   const run_array *lse, bool packed)
{
    all_floats(c, NULL, NULL);
    number(c, "causal", 0);
    probability(c, "dropout");
    int64_t heads = number(c, "heads", 1);
    rank(c, o, 3);
    rank(c, q, 3);
    rank(c, k, 3);
    rank(c, lse, 3);
    if (c->failed)
        return;
    if (o->shape[2] % heads)
        complain(c, "%lld heads do not divide its %lld features", (long long)heads,
                 (long long)o->shape[2]);
    extent(c, q->shape[0], o->shape[0]);
    extent(c, k->shape[0], o->shape[0]);
    extent(c, q->shape[1], o->shape[1]);
    extent(c, q->shape[2], (packed ? 3 : 1) * o->shape[2]);
    extent(c, k->shape[2], q->shape[2]);
    extent(c, lse->shape[0], o->shape[0]);
    extent(c, lse->shape[1], heads);
    extent(c, lse->shape[2], o->shape[1]);
}

static void attention(checker *c)
{
    bool packed = c->n_in == 1;
    if (!counts(c, packed ? 1 : 3, 2))
        return;
    attend(c, &c->out[0], &c->in[0], &c->in[packed ? 0 : 1], &c->out[1], packed);
    if (!packed)
        same_shape(c, &c->in[1], &c->in[2]);
}

/* (do, qkv, o, lse), (do, q, k, v, o, lse), or (do, q, k, lse) where only dv is wanted. */
static void attention_bw(checker *c)
{
    if (c->n_in < 4 || c->n_in > 6)
        counts(c, 6, 3);
    if (c->failed)
        return;
    bool packed = c->n_in == 4 && c->in[0].rank == 3 && c->in[1].rank == 3 &&
                  c->in[1].shape[2] == 3 * c->in[0].shape[2];
    bool all = c->n_out == 3 || packed;
    bool dq = all || neap_run_spec_int(c->spec, "wants_dq", 0);
    bool dk = all || neap_run_spec_int(c->spec, "wants_dk", 0);
    bool dv = all || neap_run_spec_int(c->spec, "wants_dv", 0);
    if (!counts(c, packed ? 4 : dq || dk ? 6 : 4, packed ? 1 : (uint32_t)dq + dk + dv))
        return;
    const run_array *q = &c->in[1], *k = &c->in[packed ? 1 : 2], *out = c->out;
    attend(c, &c->in[0], q, k, &c->in[c->n_in - 1], packed);
    if (c->n_in == 6)
        same_shape(c, k, &c->in[3]);
    if (packed || c->n_in == 6)
        same_shape(c, &c->in[0], &c->in[c->n_in - 2]);
    if (packed)
        same_shape(c, q, out++);
    for (int i = 0; i < 3 && !packed; i++)
        if (i == 0 ? dq : i == 1 ? dk : dv)
            same_shape(c, i == 0 ? q : k, out++);
}

/* A cell is N x H, gates are N x 4H. */
static void cell(checker *c, const run_array *x, const run_array *gates)
{
    rank(c, gates, 2);
    rank(c, x, 2);
    if (c->failed)
        return;
    extent(c, x->shape[0], gates->shape[0]);
    extent(c, 4 * x->shape[1], gates->shape[1]);
}

static void lstm_cell(checker *c)
{
    if (!counts(c, 2, 3))
        return;
    all_floats(c, NULL, NULL);
    cell(c, &c->in[1], &c->in[0]);
    cell(c, &c->out[0], &c->in[0]);
    cell(c, &c->out[1], &c->in[0]);
    same_shape(c, &c->out[2], &c->in[0]);
}

/* ([dh,] [dc',] act [, c for dgates] [, c' with dh]) -> [dgates,] [dc]. */
static void lstm_cell_bw(checker *c)
{
    bool dh = number(c, "has_dh", 0), dc = number(c, "has_dc", 0);
    uint32_t act = (uint32_t)dh + dc;
    if (!dh && !dc)
        complain(c, "has neither dh nor dc");
    if (c->n_in <= act || c->n_out < 1)
        counts(c, act + 1 + dh, 1);
    if (c->failed)
        return;
    const run_array *gates = &c->in[act];
    bool dgates = c->out[0].rank == 2 && gates->rank == 2 && c->out[0].shape[1] == gates->shape[1];
    if (!counts(c, act + 1 + dgates + dh, dgates && c->n_out > 1 ? 2 : 1))
        return;
    all_floats(c, NULL, NULL);
    for (uint32_t i = 0; i < c->n_in; i++)
        if (i != act)
            cell(c, &c->in[i], gates);
    if (dgates)
        same_shape(c, &c->out[0], gates);
    for (uint32_t i = dgates; i < c->n_out; i++)
        cell(c, &c->out[i], gates);
}

/* ---- Losses ---- */

static void scalar(checker *c, const run_array *x)
{
    extent(c, neap_run_array_elements(x), 1);
}

/* Rows are the logits' dimensions without the classes, dimension 1. */
static void rows(checker *c, const run_array *logits, const run_array *x)
{
    if (logits->rank < 2)
        complain(c, "logits are N x K x ...");
    rank(c, x, logits->rank - 1);
    if (c->failed)
        return;
    extent(c, x->shape[0], logits->shape[0]);
    for (uint32_t d = 2; d < logits->rank; d++)
        extent(c, x->shape[d - 1], logits->shape[d]);
}

static void loss(checker *c, const run_array *one, const run_array *logits, const run_array *labels,
                 const run_array *lse)
{
    all_floats(c, labels, NULL);
    ids(c, labels);
    scalar(c, one);
    rows(c, logits, labels);
    if (lse)
        rows(c, logits, lse);
}

static void xent(checker *c)
{
    if (counts(c, 2, 2))
        loss(c, &c->out[0], &c->in[0], &c->in[1], &c->out[1]);
}

static void xent_bw(checker *c)
{
    if (!counts(c, 4, 1))
        return;
    loss(c, &c->in[0], &c->in[1], &c->in[2], &c->in[3]);
    same_shape(c, &c->in[1], &c->out[0]);
}

static void nll(checker *c)
{
    if (counts(c, 2, 1))
        loss(c, &c->out[0], &c->in[0], &c->in[1], NULL);
}

static void nll_bw(checker *c)
{
    if (counts(c, 2, 1))
        loss(c, &c->in[0], &c->out[0], &c->in[1], NULL);
}

static void log_softmax(checker *c)
{
    unary(c);
    if (!c->failed && c->in[0].rank < 2)
        complain(c, "logits are N x K x ...");
}

static void log_softmax_bw(checker *c)
{
    binary(c);
    if (!c->failed && c->in[0].rank < 2)
        complain(c, "logits are N x K x ...");
}

/* ---- All types ---- */

static const struct {
    const char *type;
    void (*check)(checker *c);
} checks[] = {
    {"conv2d", conv2d},
    {"conv2d_bw_data", conv2d_bw_data},
    {"conv2d_bw_weight", conv2d_bw_weight},
    {"conv_transpose2d", conv_transpose2d},
    {"conv_transpose2d_bw_data", conv_transpose2d_bw_data},
    {"conv_transpose2d_bw_weight", conv_transpose2d_bw_weight},
    {"linear", linear},
    {"linear_bw_data", linear_bw_data},
    {"linear_bw_weight", linear_bw_weight},
    {"relu", unary},
    {"relu_bw", binary},
    {"relu6", unary},
    {"relu6_bw", binary},
    {"sigmoid", unary},
    {"sigmoid_bw", binary},
    {"tanh", unary},
    {"tanh_bw", binary},
    {"gelu", gelu},
    {"gelu_bw", gelu_bw},
    {"dropout", dropout},
    {"dropout_bw", dropout_bw},
    {"add", add},
    {"mul", binary},
    {"scale", scale},
    {"pow", power},
    {"pow_bw", power_bw},
    {"batch_norm", batch_norm},
    {"batch_norm_bw", batch_norm_bw},
    {"layer_norm", layer_norm},
    {"layer_norm_bw", layer_norm_bw},
    {"max_pool2d", max_pool2d},
    {"max_pool2d_bw", max_pool2d_bw},
    {"avg_pool2d", avg_pool2d},
    {"avg_pool2d_bw", avg_pool2d_bw},
    {"adaptive_avg_pool2d", adaptive},
    {"adaptive_avg_pool2d_bw", adaptive},
    {"max_unpool2d", max_pool2d_bw},
    {"max_unpool2d_bw", max_unpool2d_bw},
    {"upsample", upsample},
    {"upsample_bw", upsample},
    {"concat", concat},
    {"slice", slice},
    {"slice_bw", slice_bw},
    {"split", split},
    {"reshape", reshape},
    {"transpose", transpose},
    {"expand", expand},
    {"reduce", reduce},
    {"pad2d", pad2d},
    {"pad2d_bw", pad2d_bw},
    {"embedding", embedding},
    {"embedding_bw", embedding_bw},
    {"attention", attention},
    {"attention_bw", attention_bw},
    {"lstm_cell", lstm_cell},
    {"lstm_cell_bw", lstm_cell_bw},
    {"xent", xent},
    {"xent_bw", xent_bw},
    {"log_softmax", log_softmax},
    {"log_softmax_bw", log_softmax_bw},
    {"nll", nll},
    {"nll_bw", nll_bw},
};

neap_status neap_run_check_op(const run_spec *spec, neap_diag *diag)
{
    checker c = {.spec = spec,
                 .in = spec->in,
                 .out = spec->out,
                 .n_in = spec->op->n_inputs,
                 .n_out = spec->op->n_outputs,
                 .diag = diag};
    for (size_t i = 0; i < sizeof checks / sizeof *checks; i++)
        if (strcmp(checks[i].type, spec->op->type) == 0) {
            checks[i].check(&c);
            return c.failed ? NEAP_UNSUPPORTED : NEAP_OK;
        }
    complain(&c, "neap does not know this type of op");
    return NEAP_UNSUPPORTED;
}
