/* Convolutions in all directions against sums in double precision. */
#include "conv_check.h"

#include "raw_numbers.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#if NEAP_HAS_EMULATION

#include "base/random.h"

/* ---- Numbers ---- */

double conv_array_get(const conv_array *a, int64_t i)
{
    return (double)raw_number(a->at, a->array.dtype == NEAP_BF16, i);
}

conv_array conv_array_new(neap_dtype type, uint32_t rank, const int64_t *shape, bool plain,
                          int64_t shift)
{
    conv_array a = {.array = {.dtype = type, .rank = rank}};
    memcpy(a.array.shape, shape, rank * sizeof *shape);
    if (plain || rank != 4)
        neap_run_array_set_plain(&a.array);
    else
        neap_run_array_set_channels_last(&a.array);
    size_t bytes = (size_t)((neap_run_array_elements(&a.array) + shift) * neap_dtype_bytes(type));
    assert_int_equal(posix_memalign(&a.block, 64, (bytes + 63) / 64 * 64), 0);
    memset(a.block, 0xff, bytes); /* not numbers */
    a.at = (unsigned char *)a.block + shift * neap_dtype_bytes(type);
    return a;
}

void conv_array_fill(conv_array *a, uint64_t *random)
{
    for (int64_t i = 0; i < neap_run_array_elements(&a->array); i++)
        set_raw_number(a->at, a->array.dtype == NEAP_BF16, i,
                       (float)((int)neap_random_below(random, 129) - 64) / 64);
}

double conv_array_at(const conv_array *a, int64_t n, int64_t c, int64_t h, int64_t w)
{
    const int64_t *s = a->array.strides;
    return conv_array_get(a, n * s[0] + c * s[1] + h * s[2] + w * s[3]);
}

/* ---- What it should be ---- */

typedef struct conv_data {
    const conv_case *c;
    int number;
    neap_dtype type;
    conv_array y, x, w, bias; /* y is also dy */
    double *sums, *sizes;     /* of the result, row-major, and of absolute terms */
} conv_data;

static void add_term(conv_data *d, int64_t index, double a, double b)
{
    d->sums[index] += a * b;
    d->sizes[index] += fabs(a * b);
}

/* Every term of the convolution, added up in y, x or w. */
static void add_terms(conv_data *d, conv_target target)
{
    const conv_case *c = d->c;
    const int64_t *y = d->y.array.shape, *x = d->x.array.shape, *w = d->w.array.shape;
    for (int64_t n = 0; n < y[0]; n++)
        for (int64_t k = 0; k < y[1]; k++)
            for (int64_t oh = 0; oh < y[2]; oh++)
                for (int64_t ow = 0; ow < y[3]; ow++)
                    for (int64_t s = 0; s < w[1] * w[2] * w[3]; s++) {
                        int64_t g = s / (w[2] * w[3]), i = s / w[3] % w[2], j = s % w[3];
                        int64_t ch = k / (w[0] / c->groups) * w[1] + g;
                        int64_t h = oh * c->stride - c->pad + i * c->dilation,
                                v = ow * c->stride - c->pad + j * c->dilation;
                        if (h < 0 || v < 0 || h >= x[2] || v >= x[3])
                            continue;
                        int64_t in_y = ((n * y[1] + k) * y[2] + oh) * y[3] + ow,
                                in_x = ((n * x[1] + ch) * x[2] + h) * x[3] + v,
                                in_w = ((k * w[1] + g) * w[2] + i) * w[3] + j;
                        if (target == CONV_Y)
                            add_term(d, in_y, conv_array_at(&d->x, n, ch, h, v),
                                     conv_array_at(&d->w, k, g, i, j));
                        else if (target == CONV_X)
                            add_term(d, in_x, conv_array_at(&d->y, n, k, oh, ow),
                                     conv_array_at(&d->w, k, g, i, j));
                        else
                            add_term(d, in_w, conv_array_at(&d->y, n, k, oh, ow),
                                     conv_array_at(&d->x, n, ch, h, v));
                    }
}

static void compare(const conv_data *d, const conv_array *result, bool relu, const char *what,
                    uint32_t variant)
{
    const int64_t *shape = result->array.shape;
    double share = d->type == NEAP_F32 ? 1e-5 : 1.0 / 128;
    for (int64_t i = 0; i < neap_run_array_elements(&result->array); i++) {
        int64_t a = i / (shape[1] * shape[2] * shape[3]), b = i / (shape[2] * shape[3]) % shape[1],
                h = i / shape[3] % shape[2], v = i % shape[3];
        double is = conv_array_at(result, a, b, h, v), should = d->sums[i];
        if (relu && should < 0)
            should = 0;
        if (!(fabs(is - should) <= share * d->sizes[i] + 1e-30))
            fail_msg("case %d, %s, variant %u, type %d: element %lld is %g and should be %g",
                     d->number, what, variant, (int)d->type, (long long)i, is, should);
    }
}

/* ---- Ops ---- */

/* No variant may live on what another one wrote. */
static void forget(conv_array *result)
{
    memset(
        result->at, 0xff,
        (size_t)(neap_run_array_elements(&result->array) * neap_dtype_bytes(result->array.dtype)));
}

static void try_op(neap_backend *backend, const conv_data *d, const char *type,
                   const conv_array *const *in, uint32_t n_in, conv_array *const *out,
                   uint32_t n_out, bool relu)
{
    const conv_case *c = d->c;
    const neap_attr attrs[] = {{.name = "stride_h", .integer = c->stride},
                               {.name = "stride_w", .integer = c->stride},
                               {.name = "pad_h", .integer = c->pad},
                               {.name = "pad_w", .integer = c->pad},
                               {.name = "dilation", .integer = c->dilation},
                               {.name = "groups", .integer = c->groups},
                               {.name = "relu", .integer = relu}};
    neap_op op = {.name = "op",
                  .type = type,
                  .n_inputs = n_in,
                  .n_outputs = n_out,
                  .n_attrs = sizeof attrs / sizeof *attrs,
                  .attrs = attrs};
    run_array in_arrays[3], out_arrays[2];
    void *in_at[3], *out_at[2];
    int64_t workspaces[RUN_MOST_VARIANTS];
    uint32_t count = 0;
    neap_diag diag = {0};
    for (uint32_t i = 0; i < n_in; i++) {
        in_arrays[i] = in[i]->array;
        in_at[i] = in[i]->at;
    }
    for (uint32_t i = 0; i < n_out; i++) {
        out_arrays[i] = out[i]->array;
        out_at[i] = out[i]->at;
    }
    run_spec spec = {.op = &op, .in = in_arrays, .out = out_arrays};
    const run_op *ops = NULL;
#define X(name)                                                                                    \
    if (strcmp(type, #name) == 0)                                                                  \
        ops = &neap_cuda_op_##name;
#include "graph/ops.def"
#undef X
    assert_int_equal(ops->variants(backend, &spec, workspaces, &count, &diag), NEAP_OK);
    for (spec.variant = 0; spec.variant < count; spec.variant++) {
        run_kernel *kernel;
        void *workspace = NULL;
        assert_int_equal(posix_memalign(&workspace, 64, (size_t)workspaces[spec.variant] + 64), 0);
        memset(workspace, 0xff, (size_t)workspaces[spec.variant]);
        for (uint32_t i = 0; i < n_out; i++)
            forget(out[i]);
        assert_int_equal(ops->prepare(backend, &spec, &kernel, &diag), NEAP_OK);
        run_args args = {.in = in_at, .out = out_at, .workspace = workspace};
        assert_int_equal(kernel->run(kernel, &args, &diag), NEAP_OK);
        kernel->destroy(kernel);
        free(workspace);
        compare(d, out[0], relu, type, spec.variant);
    }
}

static void expect_bias(const conv_data *d, const conv_array *bias)
{
    const int64_t *y = d->y.array.shape;
    for (int64_t k = 0; k < y[1]; k++) {
        double sum = 0, size = 0;
        for (int64_t i = 0; i < y[0] * y[2] * y[3]; i++) {
            double dy = conv_array_at(&d->y, i / (y[2] * y[3]), k, i / y[3] % y[2], i % y[3]);
            sum += dy;
            size += fabs(dy);
        }
        double is = conv_array_get(bias, k);
        assert_true(fabs(is - sum) <= (d->type == NEAP_F32 ? 1e-5 : 1.0 / 128) * size);
    }
}

static void begin(conv_data *d, const conv_array *result)
{
    size_t count = (size_t)neap_run_array_elements(&result->array);
    d->sums = calloc(count, sizeof *d->sums);
    d->sizes = calloc(count, sizeof *d->sizes);
    assert_true(d->sums && d->sizes);
}

static void end(conv_data *d)
{
    free(d->sums);
    free(d->sizes);
}

static void try_forward(neap_backend *backend, conv_data *d, bool shifted)
{
    const conv_case *c = d->c;
    conv_array y = conv_array_new(d->type, 4, d->y.array.shape, c->plain, shifted ? c->shift : 0);
    begin(d, &y);
    add_terms(d, CONV_Y);
    const int64_t *s = y.array.shape;
    for (int64_t i = 0; i < neap_run_array_elements(&y.array); i++)
        add_term(d, i, conv_array_get(&d->bias, i / (s[2] * s[3]) % s[1]), 1);
    try_op(backend, d, "conv2d", (const conv_array *const[]){&d->x, &d->w, &d->bias}, 3,
           (conv_array *const[]){&y}, 1, c->relu);
    end(d);
    free(y.block);
}

static void try_gradients(neap_backend *backend, conv_data *d)
{
    const conv_case *c = d->c;
    conv_array dx = conv_array_new(d->type, 4, d->x.array.shape, c->plain, c->shift);
    conv_array dw = conv_array_new(d->type, 4, d->w.array.shape, c->plain, 0);
    conv_array db = conv_array_new(d->type, 1, d->bias.array.shape, true, 0);
    begin(d, &dx);
    add_terms(d, CONV_X);
    try_op(backend, d, "conv2d_bw_data", (const conv_array *const[]){&d->y, &d->w}, 2,
           (conv_array *const[]){&dx}, 1, false);
    end(d);
    begin(d, &dw);
    add_terms(d, CONV_W);
    try_op(backend, d, "conv2d_bw_weight", (const conv_array *const[]){&d->y, &d->x}, 2,
           (conv_array *const[]){&dw, &db}, 2, false);
    expect_bias(d, &db);
    end(d);
    free(dx.block);
    free(dw.block);
    free(db.block);
}

void conv_check(neap_backend *backend, const conv_case *c, int number, neap_dtype type)
{
    int64_t span = c->dilation * (c->side - 1) + 1;
    int64_t oh = (c->h + 2 * c->pad - span) / c->stride + 1,
            ow = (c->w + 2 * c->pad - span) / c->stride + 1;
    uint64_t random = 5;
    conv_data d = {.c = c, .number = number, .type = type};
    d.x = conv_array_new(type, 4, (int64_t[]){c->n, c->c, c->h, c->w}, c->plain, c->shift);
    d.y = conv_array_new(type, 4, (int64_t[]){c->n, c->k, oh, ow}, c->plain, c->shift);
    d.w =
        conv_array_new(type, 4, (int64_t[]){c->k, c->c / c->groups, c->side, c->side}, c->plain, 0);
    d.bias = conv_array_new(type, 1, &c->k, true, 0);
    conv_array_fill(&d.x, &random);
    conv_array_fill(&d.y, &random);
    conv_array_fill(&d.w, &random);
    conv_array_fill(&d.bias, &random);
    try_forward(backend, &d, true);
    try_gradients(backend, &d);
    free(d.x.block);
    free(d.y.block);
    free(d.w.block);
    free(d.bias.block);
}

#endif
