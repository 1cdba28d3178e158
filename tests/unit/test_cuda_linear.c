/*
 * Linear layers of the cuda backend in the emulation: sizes and strides that the random networks of
 * test_backends do not reach (large tiles, sums split into parts, rows at no fixed stride,
 * addresses that vectors do not suit), bf16, and the calls of cuBLASLt, on a cuBLASLt in software.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "fake_cublaslt.h"
#include "raw_numbers.h"
#include "settings.h"

#include "base/random.h"
#include "run/backends/cuda/cublaslt_constants.h"
#include "run/backends/cuda/matmul.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#if NEAP_HAS_EMULATION

#define GUARD 64 /* elements around arrays */

/* ---- Arrays ---- */

/* How an array lies: combined by |. */
enum layout {
    PLAIN = 0,
    TURNED = 1,  /* the last two dimensions change places in memory */
    GAPS = 2,    /* rows have gaps between them, all of the same size */
    UNEVEN = 4,  /* gaps are of two sizes */
    SHIFTED = 8, /* the address is not a multiple of 16 */
    SPACED = 16, /* elements of a row have gaps between them */
};

typedef struct buffer {
    run_array array;
    unsigned char *block;
    int64_t elements; /* of the block */
    int64_t first;
} buffer;

static float number_at(const buffer *x, int64_t i)
{
    return raw_number(x->block, x->array.dtype != NEAP_F32, i);
}

static void set_number(buffer *x, int64_t i, float number)
{
    set_raw_number(x->block, x->array.dtype != NEAP_F32, i, number);
}

static void set_strides(run_array *array, int layout)
{
    uint32_t last = array->rank - 1;
    run_array whole = *array;
    if (layout & GAPS)
        whole.shape[last] += 8;
    if ((layout & UNEVEN) && last > 0)
        whole.shape[last - 1] += 1;
    if ((layout & TURNED) && last > 0) {
        int64_t rows = whole.shape[last - 1];
        whole.shape[last - 1] = whole.shape[last];
        whole.shape[last] = rows;
    }
    neap_run_array_set_plain(&whole);
    memcpy(array->strides, whole.strides, sizeof array->strides);
    if ((layout & TURNED) && last > 0) {
        array->strides[last - 1] = whole.strides[last];
        array->strides[last] = whole.strides[last - 1];
    }
    for (uint32_t d = 0; (layout & SPACED) && d < array->rank; d++)
        array->strides[d] *= 2;
}

/* Numbers where they are wanted, else what is not a number. */
static buffer new_buffer(neap_dtype dtype, uint32_t rank, const int64_t *shape, int layout,
                         uint64_t *random)
{
    buffer x = {.array = {.dtype = dtype, .rank = rank}};
    void *block = NULL;
    memcpy(x.array.shape, shape, rank * sizeof *shape);
    set_strides(&x.array, layout);
    x.elements = 2 * GUARD + 1;
    for (uint32_t d = 0; d < rank; d++)
        x.elements += (shape[d] - 1) * x.array.strides[d];
    x.elements++;
    x.first = GUARD + (layout & SHIFTED ? 1 : 0);
    size_t bytes = (size_t)(x.elements * neap_dtype_bytes(dtype));
    assert_int_equal(posix_memalign(&block, 64, bytes), 0);
    memset(block, 0xff, bytes);
    x.block = block;
    for (int64_t i = 0; random && i < neap_run_array_elements(&x.array); i++) {
        int64_t rest = i, at = x.first;
        for (uint32_t d = rank; d-- > 0; rest /= shape[d])
            at += rest % shape[d] * x.array.strides[d];
        set_number(&x, at, (float)neap_random_below(random, 256) / 64.0f - 2.0f);
    }
    return x;
}

static void *address(const buffer *x)
{
    return x->block + x->first * neap_dtype_bytes(x->array.dtype);
}

/* The offset of column `c` of row `r`. */
static int64_t offset(const buffer *x, int64_t r, int64_t c)
{
    const run_array *array = &x->array;
    int64_t at = x->first + c * array->strides[array->rank - 1];
    for (uint32_t d = array->rank - 1; d-- > 0; r /= array->shape[d])
        at += r % array->shape[d] * array->strides[d];
    return at;
}

/* ---- Cases ---- */

typedef struct linear_case {
    int64_t outer, inner; /* rows: outer x inner of them; outer 0: a matrix */
    int64_t inputs, features;
    bool bias;
    int x, w, y, b; /* layouts, of gradients too */
    neap_dtype dtype;
} linear_case;

typedef enum linear_op { FORWARD, BW_DATA, BW_WEIGHT } linear_op;

typedef struct trial {
    linear_op op;
    const linear_case *linear;
    int64_t rows;
    buffer x, w, y, b; /* or their gradients */
} trial;

static trial new_trial(linear_op op, const linear_case *l, uint64_t seed)
{
    uint64_t random = seed, *none = NULL;
    int64_t xs[3] = {l->outer, l->inner, l->inputs}, ys[3] = {l->outer, l->inner, l->features};
    int64_t ws[2] = {l->features, l->inputs};
    uint32_t rank = l->outer ? 3 : 2, skip = 3 - rank;
    trial t = {.op = op, .linear = l, .rows = (l->outer ? l->outer : 1) * l->inner};
    t.x = new_buffer(l->dtype, rank, xs + skip, l->x, op == BW_DATA ? none : &random);
    t.w = new_buffer(l->dtype, 2, ws, op == BW_WEIGHT ? PLAIN : l->w,
                     op == BW_WEIGHT ? none : &random);
    t.y = new_buffer(l->dtype, rank, ys + skip, l->y, op == FORWARD ? none : &random);
    t.b = new_buffer(l->dtype, 1, ws, l->b, op == FORWARD ? &random : none);
    return t;
}

static void clear_trial(trial *t)
{
    free(t->x.block);
    free(t->w.block);
    free(t->y.block);
    free(t->b.block);
}

/* One element of a result, in double, and the sum of absolute terms. */
static double expected(const trial *t, int64_t row, int64_t column, double *size)
{
    int64_t depth = t->op == FORWARD   ? t->linear->inputs
                    : t->op == BW_DATA ? t->linear->features
                                       : t->rows;
    double sum = 0;
    *size = 0;
    for (int64_t k = 0; k < depth; k++) {
        float a = t->op == FORWARD   ? number_at(&t->x, offset(&t->x, row, k))
                  : t->op == BW_DATA ? number_at(&t->y, offset(&t->y, row, k))
                                     : number_at(&t->y, offset(&t->y, k, row));
        float b = t->op == FORWARD   ? number_at(&t->w, offset(&t->w, column, k))
                  : t->op == BW_DATA ? number_at(&t->w, offset(&t->w, k, column))
                                     : number_at(&t->x, offset(&t->x, k, column));
        sum += (double)a * (double)b;
        *size += fabs((double)a * (double)b);
    }
    if (t->op == FORWARD && t->linear->bias)
        sum += (double)number_at(&t->b, offset(&t->b, 0, column));
    return sum;
}

static void expect_near(double is, double should, double size, neap_dtype dtype)
{
    double share = dtype == NEAP_F32 ? 1e-5 * size : 1e-5 * size + fabs(should) / 256;
    if (!(fabs(is - should) <= share + 1e-6))
        fail_msg("%.9g; it should be %.9g, give or take %.2g", is, should, share);
}

static void check_result(const trial *t)
{
    const buffer *result = t->op == FORWARD ? &t->y : t->op == BW_DATA ? &t->x : &t->w;
    int64_t rows = t->op == BW_WEIGHT ? t->linear->features : t->rows;
    int64_t columns = result->array.shape[result->array.rank - 1];
    int64_t numbers = 0;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < columns; c++) {
            double size, should = expected(t, r, c, &size);
            expect_near((double)number_at(result, offset(result, r, c)), should, size,
                        t->linear->dtype);
        }
    for (int64_t i = 0; i < result->elements; i++)
        numbers += !isnan(number_at(result, i));
    assert_int_equal(numbers, rows * columns); /* nothing was written beside them */
    for (int64_t k = 0; t->op == BW_WEIGHT && t->linear->bias && k < t->linear->features; k++) {
        double should = 0, size = 0;
        for (int64_t r = 0; r < t->rows; r++) {
            double dy = (double)number_at(&t->y, offset(&t->y, r, k));
            should += dy;
            size += fabs(dy);
        }
        expect_near((double)number_at(&t->b, offset(&t->b, 0, k)), should, size, t->linear->dtype);
    }
}

typedef struct posed {
    neap_op op;
    neap_attr attr;
    run_array in[3], out[2];
    void *from[3], *to[2];
} posed;

static run_spec pose(const trial *t, posed *p)
{
    static const char *const types[] = {"linear", "linear_bw_data", "linear_bw_weight"};
    const buffer *in[3] = {t->op == FORWARD ? &t->x : &t->y, t->op == BW_WEIGHT ? &t->x : &t->w,
                           &t->b};
    const buffer *out[2] = {t->op == FORWARD ? &t->y : t->op == BW_DATA ? &t->x : &t->w, &t->b};
    bool bias = t->linear->bias;
    p->attr = (neap_attr){.name = "bias", .integer = bias};
    p->op = (neap_op){.name = "op",
                      .type = types[t->op],
                      .n_inputs = t->op == FORWARD && bias ? 3 : 2,
                      .n_outputs = t->op == BW_WEIGHT && bias ? 2 : 1,
                      .n_attrs = t->op != BW_DATA,
                      .attrs = &p->attr};
    for (int i = 0; i < 3; i++) {
        p->in[i] = in[i]->array;
        p->from[i] = address(in[i]);
    }
    for (int i = 0; i < 2; i++) {
        p->out[i] = out[i]->array;
        p->to[i] = address(out[i]);
    }
    return (run_spec){.op = &p->op, .in = p->in, .out = p->out};
}

/* One variant, after a look at all; how many there are. */
static uint32_t run_variant(neap_backend *backend, linear_op op, const linear_case *l,
                            uint32_t variant)
{
    trial t = new_trial(op, l, 7);
    posed p;
    run_spec spec = pose(&t, &p);
    int64_t workspaces[RUN_MOST_VARIANTS];
    uint32_t count;
    void *workspace = NULL;
    run_kernel *kernel;
    neap_diag diag = {0};
    if (backend->type->variants(backend, &spec, workspaces, &count, &diag) != NEAP_OK)
        fail_msg("%s", diag.message);
    assert_in_range(count, variant + 1, RUN_MOST_VARIANTS);
    spec.variant = variant;
    if (backend->type->prepare(backend, &spec, &kernel, &diag) != NEAP_OK)
        fail_msg("%s", diag.message);
    size_t bytes = (size_t)workspaces[variant];
    assert_int_equal(posix_memalign(&workspace, 64, bytes + 64), 0);
    memset(workspace, 0xff, bytes + 64);
    run_args args = {.in = p.from, .out = p.to, .workspace = bytes ? workspace : NULL};
    if (kernel->run(kernel, &args, &diag) != NEAP_OK)
        fail_msg("%s", diag.message);
    kernel->destroy(kernel);
    for (size_t i = 0; i < 64; i++)
        assert_int_equal(((unsigned char *)workspace)[bytes + i], 0xff);
    check_result(&t);
    free(workspace);
    clear_trial(&t);
    return count;
}

static uint32_t run_variants(neap_backend *backend, linear_op op, const linear_case *l)
{
    uint32_t count = 1;
    for (uint32_t i = 0; i < count; i++)
        count = run_variant(backend, op, l, i);
    return count;
}

static neap_backend *open_emulation(void)
{
    neap_backend *backend;
    neap_diag diag = {0};
    if (neap_backend_open(NULL, "cuda-emulation", 1, &backend, &diag) != NEAP_OK)
        fail_msg("%s", diag.message);
    return backend;
}

/* ---- Kernels of our own ---- */

static void run_case(const linear_case *l)
{
    neap_backend *backend = open_emulation();
    for (int op = FORWARD; op <= BW_WEIGHT; op++)
        assert_int_equal(run_variants(backend, (linear_op)op, l), 1);
    neap_backend_close(backend);
}

static void test_layouts(void **state)
{
    (void)state;
    static const int layouts[] = {PLAIN,         TURNED,           GAPS,          UNEVEN,
                                  SPACED,        SHIFTED,          TURNED | GAPS, TURNED | SHIFTED,
                                  GAPS | SPACED, UNEVEN | SHIFTED, UNEVEN | GAPS, UNEVEN | TURNED};
    uint64_t random = setting("NEAP_TEST_SEED", 11);
    for (uint32_t i = 0; i < 48 / ONE_IN(3); i++) {
        linear_case l = {.outer = neap_random_below(&random, 5),
                         .inner = 1 + neap_random_below(&random, 70),
                         .inputs = 8 * (1 + neap_random_below(&random, 9)),
                         .features = 8 * (1 + neap_random_below(&random, 9)),
                         .bias = neap_random_below(&random, 2),
                         .dtype = i % 2 ? NEAP_BF16 : NEAP_F32,
                         .x = layouts[neap_random_below(&random, 12)],
                         .y = layouts[neap_random_below(&random, 12)],
                         .w = layouts[neap_random_below(&random, 12)],
                         .b = layouts[i % 3 == 0   ? 4
                                      : i % 3 == 1 ? 5
                                                   : 0]};
        if (neap_random_below(&random, 2))
            l.inputs = 1 + neap_random_below(&random, 70);
        if (neap_random_below(&random, 2))
            l.features = 1 + neap_random_below(&random, 70);
        run_case(&l);
    }
}

/* More rows than one part of a sum has. */
static void test_parts(void **state)
{
    (void)state;
    run_case(&(linear_case){
        .inner = 1111, .inputs = 12, .features = 40, .bias = true, .dtype = NEAP_F32});
    run_case(&(linear_case){
        .inner = 1056, .inputs = 16, .features = 24, .bias = true, .dtype = NEAP_BF16});
    run_case(&(linear_case){.outer = 3,
                            .inner = 371,
                            .inputs = 5,
                            .features = 3,
                            .bias = true,
                            .x = UNEVEN,
                            .y = UNEVEN | SHIFTED,
                            .b = SPACED,
                            .dtype = NEAP_F32});
    run_case(
        &(linear_case){.inner = 3, .inputs = 1300, .features = 6, .bias = true, .dtype = NEAP_F32});
}

static void test_large_tiles(void **state)
{
    (void)state;
    neap_backend *backend = open_emulation();
    for (int bf16 = 0; bf16 < 2 / ONE_IN(2); bf16++) {
        linear_case l = {.inner = 1930,
                         .inputs = 21,
                         .features = 1990,
                         .bias = true,
                         .dtype = bf16 ? NEAP_BF16 : NEAP_F32};
        run_variant(backend, FORWARD, &l, 0);
    }
    neap_backend_close(backend);
}

/* ---- cuBLASLt ---- */

typedef struct faked {
    cuda_api api;
    cuda_libraries libraries;
    neap_backend *backend;
} faked;

static void open_faked(faked *f)
{
    fake_cublaslt_init(&f->api, &f->libraries);
    f->backend = open_emulation();
    ((cuda_backend *)f->backend)->libraries = &f->libraries;
}

static void close_faked(faked *f)
{
    assert_int_equal(fake_cublaslt_alive(), 0);
    ((cuda_backend *)f->backend)->libraries = NULL;
    neap_backend_close(f->backend);
}

/* Three algorithms of the library, with the gradient of a bias in two ways, and our own. */
static void test_library(void **state)
{
    (void)state;
    faked f;
    open_faked(&f);
    static const int layouts[] = {PLAIN, GAPS};
    for (int i = 0; i < 16; i++) {
        linear_case l = {.outer = i % 2 ? 3 : 0,
                         .inner = 1 + i % 5,
                         .inputs = 16,
                         .features = 24,
                         .bias = i / 2 % 2,
                         .x = layouts[i / 4 % 2],
                         .y = layouts[i / 8 % 2],
                         .w = i % 3 ? PLAIN : TURNED,
                         .dtype = i % 3 ? NEAP_BF16 : NEAP_F32};
        for (int op = FORWARD; op <= BW_WEIGHT; op++) {
            int before = fake_cublaslt_products();
            uint32_t count = run_variants(f.backend, (linear_op)op, &l);
            assert_int_equal(count, op == BW_WEIGHT && l.bias ? 7 : 4);
            assert_int_equal(fake_cublaslt_products() - before, count - 1);
        }
    }
    close_faked(&f);
}

/* Sizes of 1, where strides are arbitrary. */
static void test_library_ones(void **state)
{
    (void)state;
    faked f;
    open_faked(&f);
    for (int i = 0; i < 16; i++) {
        linear_case l = {.outer = i & 8 ? 1 : 0,
                         .inner = i & 1 ? 1 : 6,
                         .inputs = i & 2 ? 1 : 5,
                         .features = i & 4 ? 1 : 7,
                         .bias = true,
                         .x = i & 1 ? UNEVEN | GAPS : PLAIN,
                         .dtype = NEAP_F32};
        for (int op = FORWARD; op <= BW_WEIGHT; op++)
            assert_int_equal(run_variants(f.backend, (linear_op)op, &l), op == BW_WEIGHT ? 7 : 4);
    }
    close_faked(&f);
}

/* Addresses that the library does not take: the same variants, computed by kernels of our own. */
static void test_library_addresses(void **state)
{
    (void)state;
    faked f;
    open_faked(&f);
    for (int i = 1; i < 16; i++) {
        linear_case l = {.inner = 1111,
                         .inputs = 16,
                         .features = 8,
                         .bias = true,
                         .x = i & 1 ? SHIFTED : 0,
                         .y = i & 2 ? SHIFTED : 0,
                         .w = i & 4 ? SHIFTED : 0,
                         .b = i & 8 ? SHIFTED : 0,
                         .dtype = i % 2 ? NEAP_F32 : NEAP_BF16};
        int before = fake_cublaslt_products();
        assert_int_equal(run_variants(f.backend, FORWARD, &l), 4);
        assert_int_equal(fake_cublaslt_products(), before);
        assert_int_equal(run_variants(f.backend, BW_WEIGHT, &l), 7);
    }
    close_faked(&f);
}

/* Strides that the library does not take. */
static void test_library_strides(void **state)
{
    (void)state;
    static const int layouts[] = {UNEVEN, SPACED};
    faked f;
    open_faked(&f);
    for (int i = 0; i < 2; i++) {
        linear_case l = {.outer = 3,
                         .inner = 5,
                         .inputs = 16,
                         .features = 8,
                         .x = layouts[i],
                         .dtype = NEAP_F32};
        for (int op = FORWARD; op <= BW_WEIGHT; op++)
            assert_int_equal(run_variants(f.backend, (linear_op)op, &l), 1);
    }
    linear_case spaced_bias = {
        .inner = 5, .inputs = 16, .features = 8, .bias = true, .b = SPACED, .dtype = NEAP_F32};
    assert_int_equal(run_variants(f.backend, FORWARD, &spaced_bias), 1);
    assert_int_equal(run_variants(f.backend, BW_WEIGHT, &spaced_bias), 4);
    close_faked(&f);
}

/* Searches happen once; gradients of biases may be refused. */
static void test_library_searches(void **state)
{
    (void)state;
    faked f;
    linear_case l = {.inner = 5, .inputs = 16, .features = 8, .bias = true, .dtype = NEAP_F32};
    for (int status = 0; status < 3; status++) {
        open_faked(&f);
        fake_cublaslt_refuse_gradients(status == 0   ? LT_SUCCESS
                                       : status == 1 ? LT_NOT_SUPPORTED
                                                     : LT_INVALID_VALUE);
        uint32_t count = run_variants(f.backend, BW_WEIGHT, &l);
        assert_int_equal(count, status == 0 ? 7 : 4);
        int before = fake_cublaslt_searches();
        assert_int_equal(run_variants(f.backend, BW_WEIGHT, &l), count);
        assert_int_equal(fake_cublaslt_searches(), before);
        close_faked(&f);
    }
}

/* Variants, preparing and running, with the n-th call of the library failing. */
static neap_status try_failing(int n, neap_diag *diag)
{
    faked f;
    linear_case l = {.inner = 5, .inputs = 16, .features = 8, .bias = true, .dtype = NEAP_F32};
    trial t = new_trial(BW_WEIGHT, &l, 3);
    posed p;
    run_spec spec = pose(&t, &p);
    int64_t workspaces[RUN_MOST_VARIANTS];
    uint32_t count;
    void *workspace = NULL;
    run_kernel *kernel = NULL;
    open_faked(&f);
    fake_cublaslt_fail_at(n);
    neap_status status = f.backend->type->variants(f.backend, &spec, workspaces, &count, diag);
    spec.variant = 4;
    if (status == NEAP_OK)
        status = f.backend->type->prepare(f.backend, &spec, &kernel, diag);
    assert_int_equal(posix_memalign(&workspace, 64, 6 << 20), 0);
    run_args args = {.in = p.from, .out = p.to, .workspace = workspace};
    if (status == NEAP_OK)
        status = kernel->run(kernel, &args, diag);
    if (kernel)
        kernel->destroy(kernel);
    free(workspace);
    clear_trial(&t);
    close_faked(&f);
    return status;
}

static void test_library_failures(void **state)
{
    (void)state;
    int failures = 0;
    for (int n = 1; n < 200; n++) {
        neap_diag diag = {0};
        neap_status status = try_failing(n, &diag);
        if (status == NEAP_OK)
            continue; /* an algorithm that says nothing about itself is left out */
        assert_non_null(strstr(diag.message, "cuBLASLt"));
        assert_non_null(strstr(diag.message, "a made-up failure"));
        failures++;
    }
    assert_in_range(failures, 30, 150);
}

/* Batches, on both. */
static void test_batches(void **state)
{
    (void)state;
    faked f;
    open_faked(&f);
    cuda_backend *backend = (cuda_backend *)f.backend;
    float a[3 * 4 * 8], b[3 * 8 * 4], d[3 * 4 * 4];
    for (int i = 0; i < 3 * 4 * 8; i++) {
        a[i] = (float)(i % 7) - 3;
        b[i] = (float)(i % 5) - 2;
    }
    for (uint32_t variant = 0; variant < 4; variant++) {
        cuda_matmul_form form = neap_cuda_batched_matmul(
            NEAP_F32, 3, 4, 4, 8, (cuda_batched_matrix){8, 32, false},
            (cuda_batched_matrix){8, 32, true}, (cuda_batched_matrix){4, 16, false});
        cuda_matmul matmul = {0};
        int64_t workspaces[RUN_MOST_VARIANTS];
        uint32_t count;
        void *workspace = NULL;
        neap_diag diag = {0};
        assert_int_equal(neap_cuda_matmul_variants(backend, &form, workspaces, &count, &diag),
                         NEAP_OK);
        assert_int_equal(count, 4);
        assert_int_equal(neap_cuda_matmul_plan(backend, &form, variant, &matmul, &diag), NEAP_OK);
        assert_int_equal(posix_memalign(&workspace, 64, (size_t)workspaces[variant] + 1), 0);
        cuda_addresses at = {.a = a, .b = b, .d = d};
        memset(d, 0xff, sizeof d);
        assert_int_equal(neap_cuda_matmul_run(backend, &matmul, &at, NULL, workspace, &diag),
                         NEAP_OK);
        for (int i = 0; i < 3 * 4 * 4; i++) {
            float sum = 0;
            for (int k = 0; k < 8; k++)
                sum += a[i / 16 * 32 + i / 4 % 4 * 8 + k] * b[i / 16 * 32 + i % 4 * 8 + k];
            assert_true(d[i] == sum);
        }
        neap_cuda_matmul_clear(backend, &matmul);
        free(workspace);
    }
    close_faked(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layouts),          cmocka_unit_test(test_parts),
        cmocka_unit_test(test_large_tiles),      cmocka_unit_test(test_library),
        cmocka_unit_test(test_library_ones),     cmocka_unit_test(test_library_addresses),
        cmocka_unit_test(test_library_strides),  cmocka_unit_test(test_library_searches),
        cmocka_unit_test(test_library_failures), cmocka_unit_test(test_batches),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

int main(void)
{
    return 0;
}

#endif
