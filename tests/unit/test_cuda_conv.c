/*
 * Convolution kernels of the cuda backend in the emulation, on what random networks seldom have:
 * depthwise windows with channels in vectors, bf16, addresses that are odd, and bias and ReLU after
 * a library. Every variant against sums in double precision.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "settings.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#if NEAP_HAS_EMULATION

#include "base/random.h"
#include "run/backends/cuda/conv.h"

typedef struct conv_case {
    int64_t n, c, h, w, k, side, stride, pad, dilation, groups;
    bool plain;    /* row-major, else channels-last */
    int64_t shift; /* elements that images are off their alignment */
    bool relu;
} conv_case;

static const conv_case cases[] = {
    {2, 8, 9, 11, 8, 3, 1, 1, 1, 8, false, 0, true},
    {1, 16, 7, 7, 16, 3, 2, 1, 1, 16, false, 0, false},
    {2, 16, 6, 9, 16, 5, 1, 2, 1, 16, false, 0, false},
    {1, 72, 10, 5, 72, 5, 2, 2, 1, 72, false, 0, true},
    {1, 8, 12, 13, 8, 7, 1, 3, 1, 8, false, 0, false},
    {1, 8, 12, 13, 8, 7, 2, 3, 1, 8, false, 0, false},
    {3, 136, 4, 4, 136, 3, 1, 1, 1, 136, false, 0, false},
    {2, 8, 9, 11, 8, 3, 1, 1, 1, 8, false, 1, true}, /* the same with odd addresses */
    {2, 8, 9, 11, 8, 3, 2, 1, 1, 8, false, 1, false},
    {2, 8, 9, 11, 8, 3, 1, 1, 1, 8, true, 0, false},
    {2, 8, 9, 11, 16, 3, 1, 2, 2, 8, false, 0, false}, /* two results for each channel */
    {2, 24, 12, 12, 80, 3, 1, 1, 1, 1, false, 0, true},
    {2, 24, 12, 12, 80, 3, 2, 1, 1, 1, true, 0, true},
    {1, 16, 40, 40, 8, 1, 1, 0, 1, 1, false, 0, false},
    {2, 16, 9, 9, 24, 3, 1, 1, 1, 2, false, 0, false},
    {1, 3, 15, 15, 8, 7, 2, 3, 1, 1, false, 0, true},
    {3, 20, 9, 7, 12, 3, 2, 1, 1, 1, false, 0, true}, /* in tiles, the rest too */
    {2, 8, 11, 8, 132, 3, 1, 2, 2, 1, false, 0, false},
    {2, 136, 5, 5, 68, 1, 2, 0, 1, 1, false, 0, false},
    {1, 24, 13, 13, 40, 5, 3, 2, 1, 2, false, 0, true},
    {4, 4, 40, 41, 4, 3, 1, 1, 1, 1, false, 0, false},
    {2, 20, 9, 7, 12, 3, 1, 1, 1, 1, false, 1, true},
    {1, 4, 184, 184, 80, 1, 1, 0, 1, 1, false, 0, true}, /* enough for large tiles */
    {1, 80, 185, 185, 4, 1, 1, 0, 1, 1, false, 0, false},
};

/* ---- Numbers ---- */

static double get(const void *block, neap_dtype type, int64_t i)
{
    uint32_t bits;
    float number;
    if (type == NEAP_F32)
        return (double)((const float *)block)[i];
    bits = (uint32_t)((const uint16_t *)block)[i] << 16;
    memcpy(&number, &bits, sizeof number);
    return (double)number;
}

/* bf16: only numbers that it has, here. */
static void set(void *block, neap_dtype type, int64_t i, float number)
{
    uint32_t bits;
    memcpy(&bits, &number, sizeof bits);
    if (type == NEAP_F32)
        ((float *)block)[i] = number;
    else
        ((uint16_t *)block)[i] = (uint16_t)(bits >> 16);
}

typedef struct operand {
    run_array array;
    void *block;
    unsigned char *at;
} operand;

static operand new_operand(neap_dtype type, uint32_t rank, const int64_t *shape, bool plain,
                           int64_t shift)
{
    operand o = {.array = {.dtype = type, .rank = rank}};
    memcpy(o.array.shape, shape, rank * sizeof *shape);
    if (plain || rank != 4)
        neap_run_array_set_plain(&o.array);
    else
        neap_run_array_set_channels_last(&o.array);
    size_t bytes = (size_t)((neap_run_array_elements(&o.array) + shift) * neap_dtype_bytes(type));
    assert_int_equal(posix_memalign(&o.block, 64, (bytes + 63) / 64 * 64), 0);
    memset(o.block, 0xff, bytes); /* not numbers */
    o.at = (unsigned char *)o.block + shift * neap_dtype_bytes(type);
    return o;
}

static void fill(operand *o, uint64_t *random)
{
    for (int64_t i = 0; i < neap_run_array_elements(&o->array); i++)
        set(o->at, o->array.dtype, i, (float)((int)neap_random_below(random, 129) - 64) / 64);
}

static double at4(const operand *o, int64_t a, int64_t b, int64_t c, int64_t d)
{
    const int64_t *s = o->array.strides;
    return get(o->at, o->array.dtype, a * s[0] + b * s[1] + c * s[2] + d * s[3]);
}

/* ---- What it should be ---- */

typedef struct conv_data {
    const conv_case *c;
    neap_dtype type;
    operand y, x, w, bias; /* operands; y is also dy */
    double *sums, *sizes;  /* of the result, row-major, and of absolute terms */
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
                            add_term(d, in_y, at4(&d->x, n, ch, h, v), at4(&d->w, k, g, i, j));
                        else if (target == CONV_X)
                            add_term(d, in_x, at4(&d->y, n, k, oh, ow), at4(&d->w, k, g, i, j));
                        else
                            add_term(d, in_w, at4(&d->y, n, k, oh, ow), at4(&d->x, n, ch, h, v));
                    }
}

static void compare(const conv_data *d, const operand *result, bool relu, const char *what,
                    uint32_t variant)
{
    const int64_t *shape = result->array.shape;
    double share = d->type == NEAP_F32 ? 1e-5 : 1.0 / 128;
    for (int64_t i = 0; i < neap_run_array_elements(&result->array); i++) {
        int64_t a = i / (shape[1] * shape[2] * shape[3]), b = i / (shape[2] * shape[3]) % shape[1],
                h = i / shape[3] % shape[2], v = i % shape[3];
        double is = at4(result, a, b, h, v), should = d->sums[i];
        if (relu && should < 0)
            should = 0;
        if (!(fabs(is - should) <= share * d->sizes[i] + 1e-30))
            fail_msg("case %d, %s, variant %u, type %d: element %lld is %g and should be %g",
                     (int)(d->c - cases), what, variant, (int)d->type, (long long)i, is, should);
    }
}

/* ---- Ops ---- */

static void try_op(neap_backend *backend, const conv_data *d, const char *type,
                   const operand *const *in, uint32_t n_in, operand *const *out, uint32_t n_out,
                   bool relu)
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
        assert_int_equal(ops->prepare(backend, &spec, &kernel, &diag), NEAP_OK);
        run_args args = {.in = in_at, .out = out_at, .workspace = workspace};
        assert_int_equal(kernel->run(kernel, &args, &diag), NEAP_OK);
        kernel->destroy(kernel);
        free(workspace);
        compare(d, out[0], relu, type, spec.variant);
    }
}

static void expect_bias(const conv_data *d, const operand *bias)
{
    const int64_t *y = d->y.array.shape;
    for (int64_t k = 0; k < y[1]; k++) {
        double sum = 0, size = 0;
        for (int64_t i = 0; i < y[0] * y[2] * y[3]; i++) {
            double dy = at4(&d->y, i / (y[2] * y[3]), k, i / y[3] % y[2], i % y[3]);
            sum += dy;
            size += fabs(dy);
        }
        double is = get(bias->at, d->type, k);
        assert_true(fabs(is - sum) <= (d->type == NEAP_F32 ? 1e-5 : 1.0 / 128) * size);
    }
}

static void begin(conv_data *d, const operand *result)
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
    operand y = new_operand(d->type, 4, d->y.array.shape, c->plain, shifted ? c->shift : 0);
    begin(d, &y);
    add_terms(d, CONV_Y);
    const int64_t *s = y.array.shape;
    for (int64_t i = 0; i < neap_run_array_elements(&y.array); i++)
        add_term(d, i, get(d->bias.at, d->type, i / (s[2] * s[3]) % s[1]), 1);
    try_op(backend, d, "conv2d", (const operand *const[]){&d->x, &d->w, &d->bias}, 3,
           (operand *const[]){&y}, 1, c->relu);
    end(d);
    free(y.block);
}

static void try_gradients(neap_backend *backend, conv_data *d)
{
    const conv_case *c = d->c;
    operand dx = new_operand(d->type, 4, d->x.array.shape, c->plain, c->shift);
    operand dw = new_operand(d->type, 4, d->w.array.shape, c->plain, 0);
    operand db = new_operand(d->type, 1, d->bias.array.shape, true, 0);
    begin(d, &dx);
    add_terms(d, CONV_X);
    try_op(backend, d, "conv2d_bw_data", (const operand *const[]){&d->y, &d->w}, 2,
           (operand *const[]){&dx}, 1, false);
    end(d);
    begin(d, &dw);
    add_terms(d, CONV_W);
    try_op(backend, d, "conv2d_bw_weight", (const operand *const[]){&d->y, &d->x}, 2,
           (operand *const[]){&dw, &db}, 2, false);
    expect_bias(d, &db);
    end(d);
    free(dx.block);
    free(dw.block);
    free(db.block);
}

static void try_case(neap_backend *backend, const conv_case *c, neap_dtype type)
{
    int64_t span = c->dilation * (c->side - 1) + 1;
    int64_t oh = (c->h + 2 * c->pad - span) / c->stride + 1,
            ow = (c->w + 2 * c->pad - span) / c->stride + 1;
    uint64_t random = 5;
    conv_data d = {.c = c, .type = type};
    d.x = new_operand(type, 4, (int64_t[]){c->n, c->c, c->h, c->w}, c->plain, c->shift);
    d.y = new_operand(type, 4, (int64_t[]){c->n, c->k, oh, ow}, c->plain, c->shift);
    d.w = new_operand(type, 4, (int64_t[]){c->k, c->c / c->groups, c->side, c->side}, c->plain, 0);
    d.bias = new_operand(type, 1, &c->k, true, 0);
    fill(&d.x, &random);
    fill(&d.y, &random);
    fill(&d.w, &random);
    fill(&d.bias, &random);
    try_forward(backend, &d, true);
    try_gradients(backend, &d);
    free(d.x.block);
    free(d.y.block);
    free(d.w.block);
    free(d.bias.block);
}

static void try_cases(neap_dtype type)
{
    neap_backend *backend;
    neap_diag diag;
    assert_int_equal(neap_backend_open(NULL, "cuda-emulation", 1, &backend, &diag), NEAP_OK);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (type == NEAP_F32 || cases[i].h < 100) /* tiles are for f32 */
            try_case(backend, &cases[i], type);
    neap_backend_close(backend);
}

static void test_f32(void **state)
{
    (void)state;
    try_cases(NEAP_F32);
}

static void test_bf16(void **state)
{
    (void)state;
    try_cases(NEAP_BF16);
}

/* ---- Bias and ReLU after a library ---- */

static void try_finish(neap_backend *backend, neap_dtype type, bool plain, int64_t shift, bool bias,
                       bool relu)
{
    uint64_t random = 3;
    neap_diag diag;
    conv_finish_plan plan = {0};
    operand y = new_operand(type, 4, (int64_t[]){2, 16, 3, 5}, plain, shift),
            b = new_operand(type, 1, (int64_t[]){16}, true, 0);
    operand before = new_operand(type, 4, y.array.shape, plain, 0);
    fill(&y, &random);
    fill(&b, &random);
    memcpy(before.at, y.at, (size_t)(neap_run_array_elements(&y.array) * neap_dtype_bytes(type)));
    conv_problem problem = {.target = CONV_Y, .type = type, .bias = bias, .relu = relu};
    problem.biased = y.array;
    cuda_backend *cuda = (cuda_backend *)backend;
    run_args args = {.in = (void *[]){NULL, NULL, b.at}, .out = (void *[]){y.at}};
    assert_int_equal(neap_conv_finish_plan(cuda, &problem, &plan, &diag), NEAP_OK);
    assert_int_equal(neap_conv_finish_run(cuda, &plan, &args, &diag), NEAP_OK);
    for (int64_t i = 0; i < 2 * 16 * 15; i++) {
        int64_t n = i / 240, k = i / 15 % 16, h = i / 5 % 3, w = i % 5;
        double should = at4(&before, n, k, h, w) + (bias ? get(b.at, type, k) : 0);
        if (relu && should < 0)
            should = 0;
        assert_true(fabs(at4(&y, n, k, h, w) - should) <= 1.0 / 128 * fabs(should));
    }
    free(y.block);
    free(b.block);
    free(before.block);
}

static void test_finish(void **state)
{
    neap_backend *backend;
    neap_diag diag;
    (void)state;
    assert_int_equal(neap_backend_open(NULL, "cuda-emulation", 1, &backend, &diag), NEAP_OK);
    for (int i = 0; i < 32; i++)
        try_finish(backend, i & 1 ? NEAP_BF16 : NEAP_F32, i & 2, i & 4 ? 1 : 0, i & 8, i & 16);
    neap_backend_close(backend);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_f32), cmocka_unit_test(test_bf16),
                                       cmocka_unit_test(test_finish)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

static void test_nothing(void **state)
{
    (void)state;
    skip_because("this build has no emulation of kernels");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_nothing)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#endif
