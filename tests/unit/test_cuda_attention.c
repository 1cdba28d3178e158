/*
 * Attention of the cuda backend in the emulation, with more rows and wider heads than those of the
 * random networks: several tiles, in f32, rounded to tf32, and in bf16, against the reference.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/half.h"
#include "base/random.h"
#include "run/backend.h"
#include "run/backends/cuda/cuda.h"
#include "settings.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#if NEAP_HAS_EMULATION

typedef struct sample {
    int64_t batch, heads, queries, keys, width;
    bool packed, causal;
    double dropout;
    int64_t gap; /* elements between rows */
    int wants;   /* bits: dq, dk, dv; 0: all */
} sample;

/* An operand: as numbers for the reference, and as elements of the type tested. */
typedef struct operand {
    run_array wide, typed;
    double *numbers;
    void *elements;
    int64_t n, room; /* of elements, with gaps */
} operand;

static void *allocate(int64_t bytes)
{
    void *block = NULL;
    assert_int_equal(posix_memalign(&block, 64, (size_t)bytes), 0);
    memset(block, 0xff, (size_t)bytes); /* not numbers */
    return block;
}

static operand new_operand(neap_dtype type, int64_t a, int64_t b, int64_t c, int64_t gap)
{
    operand x = {.wide = {.dtype = NEAP_F64, .rank = 3, .shape = {a, b, c}}, .n = a * b * c};
    neap_run_array_set_plain(&x.wide);
    x.typed = x.wide;
    x.typed.dtype = type;
    x.typed.strides[0] += b * gap;
    x.typed.strides[1] += gap;
    x.room = a * x.typed.strides[0];
    x.numbers = allocate(x.n * (int64_t)sizeof(double));
    x.elements = allocate(x.room * neap_dtype_bytes(type));
    return x;
}

static void free_operands(operand *x, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        free(x[i].numbers);
        free(x[i].elements);
    }
}

static int64_t place_of(const operand *x, int64_t i)
{
    const int64_t *shape = x->wide.shape, *strides = x->typed.strides;
    return i / shape[2] / shape[1] * strides[0] + i / shape[2] % shape[1] * strides[1] +
           i % shape[2];
}

static double element(const operand *x, int64_t i)
{
    int64_t at = place_of(x, i);
    return x->typed.dtype == NEAP_BF16 ? (double)neap_from_bf16(((uint16_t *)x->elements)[at])
                                       : (double)((float *)x->elements)[at];
}

/* The reference gets what is left of a number in the type. */
static void set_numbers(operand *x)
{
    for (int64_t i = 0; i < x->n; i++) {
        int64_t at = place_of(x, i);
        if (x->typed.dtype == NEAP_BF16)
            ((uint16_t *)x->elements)[at] = neap_to_bf16((float)x->numbers[i]);
        else
            ((float *)x->elements)[at] = (float)x->numbers[i];
        x->numbers[i] = element(x, i);
    }
}

static void draw(operand *x, uint64_t *random, double size)
{
    for (int64_t i = 0; i < x->n; i++)
        x->numbers[i] = size * (neap_random_real(random) - 0.5);
    set_numbers(x);
}

/* ---- Runs ---- */

static void run_op_on(neap_backend *backend, const neap_op *op, operand *in, operand *out,
                      bool wide)
{
    neap_diag diag = {0};
    run_kernel *kernel;
    run_array arrays[2][6];
    void *addresses[2][6];
    int64_t workspaces[RUN_MOST_VARIANTS];
    uint32_t count, operands[2] = {op->n_inputs, op->n_outputs};
    for (int side = 0; side < 2; side++)
        for (uint32_t i = 0; i < operands[side]; i++) {
            operand *x = (side ? out : in) + i;
            arrays[side][i] = wide ? x->wide : x->typed;
            addresses[side][i] = wide ? x->numbers : x->elements;
        }
    run_spec spec = {.op = op, .in = arrays[0], .out = arrays[1]};
    if (!backend->type->supports_op(backend, &spec, &diag))
        fail_msg("%s", diag.message);
    assert_int_equal(backend->type->variants(backend, &spec, workspaces, &count, &diag), NEAP_OK);
    for (spec.variant = 0; spec.variant < count; spec.variant++) {
        void *workspace = allocate(workspaces[spec.variant] + 1);
        if (backend->type->prepare(backend, &spec, &kernel, &diag) != NEAP_OK)
            fail_msg("%s", diag.message);
        run_args args = {addresses[0], addresses[1], workspace, 12345, NULL};
        assert_int_equal(kernel->run(kernel, &args, &diag), NEAP_OK);
        kernel->destroy(kernel);
        free(workspace);
    }
}

static double largest_number(const operand *x)
{
    double largest = 0;
    for (int64_t i = 0; i < x->n; i++)
        largest = fmax(largest, fabs(x->numbers[i]));
    return largest;
}

static void compare(const neap_op *op, const sample *s, const operand *out, double tolerance)
{
    for (uint32_t r = 0; r < op->n_outputs; r++) {
        double largest = largest_number(&out[r]);
        for (int64_t i = 0; i < out[r].n; i++)
            if (!(fabs(element(&out[r], i) - out[r].numbers[i]) <= tolerance * largest))
                fail_msg("%s, %lld queries, %lld keys, width %lld, causal %d, dropout %g: element "
                         "%lld of result %u is %g, not %g (largest %g)",
                         op->type, (long long)s->queries, (long long)s->keys, (long long)s->width,
                         s->causal, s->dropout, (long long)i, r, element(&out[r], i),
                         out[r].numbers[i], largest);
    }
}

typedef struct backends {
    neap_backend *ref, *cuda;
    neap_dtype type;
    double tolerance;
} backends;

static void run_both(const backends *b, const neap_op *op, const sample *s, operand *in,
                     operand *out)
{
    run_op_on(b->ref, op, in, out, true);
    run_op_on(b->cuda, op, in, out, false);
    compare(op, s, out, b->tolerance);
}

/* What the op reads from `first` on: q, k, v or all in one. */
static uint32_t add_inputs(const backends *b, const sample *s, operand *in, uint64_t *random)
{
    int64_t features = s->heads * s->width;
    uint32_t count = s->packed ? 1 : 3;
    for (uint32_t i = 0; i < count; i++) {
        in[i] = new_operand(b->type, s->batch, i == 0 ? s->queries : s->keys,
                            s->packed ? 3 * features : features, s->gap);
        draw(&in[i], random, 4);
    }
    return count;
}

static void expect_gradients(const backends *b, const sample *s, neap_attr *attrs, operand *in,
                             operand *out, uint32_t count, uint64_t *random)
{
    bool only_dv = s->wants == 4;
    operand reads[6], results[3];
    uint32_t n = 0, m = 0;
    neap_op op = {.name = "a",
                  .type = "attention_bw",
                  .random = true,
                  .attrs = attrs,
                  .n_attrs = s->wants ? 6 : 3};
    reads[n++] = new_operand(b->type, s->batch, s->queries, s->heads * s->width, s->gap);
    draw(&reads[0], random, 2);
    for (uint32_t i = 0; i < count && !(only_dv && i == 2); i++)
        reads[n++] = in[i];
    if (!only_dv)
        reads[n++] = out[0];
    reads[n++] = out[1];
    for (uint32_t i = 0; i < count; i++)
        if (!s->wants || s->wants >> i & 1)
            results[m++] =
                new_operand(b->type, s->batch, in[i].wide.shape[1], in[i].wide.shape[2], s->gap);
    op.n_inputs = n;
    op.n_outputs = m;
    run_both(b, &op, s, reads, results);
    free_operands(results, m);
    free_operands(reads, 1);
}

static void expect_sample(const backends *b, const sample *s)
{
    uint64_t random = 17;
    operand in[3], out[2];
    neap_attr attrs[] = {{.name = "heads", .integer = s->heads},
                         {.name = "causal", .integer = s->causal},
                         {.name = "dropout", .is_real = true, .real = s->dropout},
                         {.name = "wants_dq", .integer = s->wants & 1},
                         {.name = "wants_dk", .integer = s->wants >> 1 & 1},
                         {.name = "wants_dv", .integer = s->wants >> 2}};
    uint32_t count = add_inputs(b, s, in, &random);
    out[0] = new_operand(b->type, s->batch, s->queries, s->heads * s->width, s->gap);
    out[1] = new_operand(NEAP_F32, s->batch, s->heads, s->queries, 0);
    neap_op op = {.name = "a",
                  .type = "attention",
                  .random = true,
                  .attrs = attrs,
                  .n_attrs = 3,
                  .n_inputs = count,
                  .n_outputs = 2};
    run_both(b, &op, s, in, out);
    set_numbers(&out[0]);
    set_numbers(&out[1]);
    expect_gradients(b, s, attrs, in, out, count, &random);
    free_operands(in, count);
    free_operands(out, 2);
}

/* ---- Tests ---- */

/* batch, heads, queries, keys, width, packed, causal, dropout, gap, wants */
static const sample samples[] = {
    {1, 2, 150, 150, 64, true, true, 0, 0, 0},  {2, 1, 130, 70, 64, false, false, 0.2, 0, 0},
    {1, 1, 70, 130, 32, false, true, 0, 8, 0},  {1, 1, 197, 197, 16, true, false, 0, 0, 0},
    {1, 2, 66, 66, 80, true, true, 0.3, 0, 0},  {1, 1, 129, 65, 128, false, false, 0, 0, 0},
    {1, 1, 20, 90, 48, false, false, 0, 16, 1}, {1, 1, 90, 20, 96, false, true, 0.1, 0, 2},
    {1, 1, 90, 80, 64, false, true, 0.1, 0, 4}, {1, 1, 70, 70, 64, false, false, 0, 3, 6},
    {1, 1, 70, 70, 130, true, true, 0, 0, 0},   {1, 2, 67, 65, 65, false, false, 0.2, 1, 5},
    {1, 1, 3, 5, 112, false, false, 0, 0, 3},
};

/* The emulation as a platform that counts what it is asked for. */
static cuda_platform_type counting;
static const cuda_platform_type *emulated;
static int tight; /* kernels with one tile of rows for each warp */

static neap_status count_and_find(cuda_platform *platform, const char *kernel, neap_dtype type,
                                  const cuda_function **function, neap_diag *diag)
{
    tight += strncmp(kernel, "attention_tight", strlen("attention_tight")) == 0;
    return emulated->find(platform, kernel, type, function, diag);
}

static void limit_shared_memory(cuda_platform *platform, uint32_t bytes)
{
    emulated = platform->type;
    counting = *emulated;
    counting.find = count_and_find;
    platform->type = &counting;
    platform->shared_bytes = bytes;
}

/* `shared`: bytes of shared memory that a block may have; 0: what newer devices give. */
static void expect_samples(neap_dtype type, bool tf32, double tolerance, uint32_t shared)
{
    neap_diag diag;
    neap_backend_options options;
    backends b = {.type = type, .tolerance = tolerance};
    neap_backend_options_init(&options);
    assert_int_equal(neap_backend_open(NULL, "ref", 1, &b.ref, &diag), NEAP_OK);
    options.tf32 = tf32;
    assert_int_equal(neap_backend_open_with(NULL, "cuda-emulation", &options, &b.cuda, &diag),
                     NEAP_OK);
    if (shared > 0)
        limit_shared_memory(((cuda_backend *)b.cuda)->platform, shared);
    for (size_t i = 0; i < sizeof samples / sizeof *samples; i += ONE_IN(3))
        expect_sample(&b, &samples[i]);
    neap_backend_close(b.cuda);
    neap_backend_close(b.ref);
}

static void test_f32(void **state)
{
    (void)state;
    expect_samples(NEAP_F32, false, 1e-5, 0);
}

static void test_tf32(void **state)
{
    (void)state;
    expect_samples(NEAP_F32, true, 2e-3, 0);
}

static void test_bf16(void **state)
{
    (void)state;
    expect_samples(NEAP_BF16, false, 2e-2, 0);
}

/* Devices with 99 KiB for a block: some kernels for tensor cores need more. */
static void test_little_shared_memory(void **state)
{
    (void)state;
    tight = 0;
    expect_samples(NEAP_F32, true, 2e-3, 99 << 10);
    assert_true(tight > 0);
    tight = 0;
    expect_samples(NEAP_BF16, false, 2e-2, 99 << 10);
    assert_true(tight > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_f32),
        cmocka_unit_test(test_tf32),
        cmocka_unit_test(test_bf16),
        cmocka_unit_test(test_little_shared_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

int main(void)
{
    return 0;
}

#endif
