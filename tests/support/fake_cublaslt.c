/* cuBLASLt in software. */
#include "fake_cublaslt.h"

#include "raw_numbers.h"

#include "run/backends/cuda/cublaslt_constants.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define INTERNAL_ERROR 14

/* What an algorithm's first word says. */
enum { SMALL = 101, MIDDLE, LARGE, IN_PLACE, IN_BF16 };

struct cublaslt_desc {
    int compute, transpose_a, transpose_b, epilogue;
    void *bias;
};

struct cublaslt_layout {
    int type;
    int64_t rows, columns, ld, stride;
    int batches;
};

struct cublaslt_preference {
    uint64_t workspace;
    uint32_t schemes, alignments[4];
};

static int alive, products, searches, calls_left, gradients_status;

int fake_cublaslt_alive(void)
{
    return alive;
}

int fake_cublaslt_products(void)
{
    return products;
}

int fake_cublaslt_searches(void)
{
    return searches;
}

void fake_cublaslt_fail_at(int n)
{
    calls_left = n;
}

void fake_cublaslt_refuse_gradients(int status)
{
    gradients_status = status;
}

static bool fails_now(void)
{
    return calls_left > 0 && --calls_left == 0;
}

static void *new_object(size_t bytes)
{
    void *object = calloc(1, bytes);
    assert_non_null(object);
    alive++;
    return object;
}

static int destroy(void *object)
{
    assert_non_null(object);
    alive--;
    free(object);
    return LT_SUCCESS;
}

static const char *get_status_string(int status)
{
    return status == INTERNAL_ERROR ? "a made-up failure" : "another failure";
}

/* ---- Descriptors ---- */

static int desc_create(cublaslt_desc *desc, int compute, int scale)
{
    if (fails_now())
        return INTERNAL_ERROR;
    assert_int_equal(scale, LT_R_32F);
    assert_true(compute == LT_COMPUTE_32F || compute == LT_COMPUTE_32F_FAST_TF32);
    *desc = new_object(sizeof **desc);
    (*desc)->compute = compute;
    (*desc)->epilogue = LT_EPILOGUE_DEFAULT;
    return LT_SUCCESS;
}

static int desc_destroy(cublaslt_desc desc)
{
    return destroy(desc);
}

static int desc_set(cublaslt_desc desc, int attribute, const void *value, size_t bytes)
{
    if (fails_now())
        return INTERNAL_ERROR;
    void *to = NULL;
    size_t expected = 4;
    if (attribute == LT_DESC_TRANSA)
        to = &desc->transpose_a;
    else if (attribute == LT_DESC_TRANSB)
        to = &desc->transpose_b;
    else if (attribute == LT_DESC_EPILOGUE)
        to = &desc->epilogue;
    else if (attribute == LT_DESC_BIAS_POINTER) {
        to = &desc->bias;
        expected = sizeof desc->bias;
    }
    assert_non_null(to);
    assert_int_equal(bytes, expected);
    memcpy(to, value, bytes);
    return LT_SUCCESS;
}

static int layout_create(cublaslt_layout *layout, int type, uint64_t rows, uint64_t columns,
                         int64_t ld)
{
    if (fails_now())
        return INTERNAL_ERROR;
    assert_true(type == LT_R_32F || type == LT_R_16BF);
    assert_true(rows > 0 && columns > 0 && ld >= (int64_t)rows);
    *layout = new_object(sizeof **layout);
    **layout = (struct cublaslt_layout){
        .type = type, .rows = (int64_t)rows, .columns = (int64_t)columns, .ld = ld, .batches = 1};
    return LT_SUCCESS;
}

static int layout_destroy(cublaslt_layout layout)
{
    return destroy(layout);
}

static int layout_set(cublaslt_layout layout, int attribute, const void *value, size_t bytes)
{
    if (fails_now())
        return INTERNAL_ERROR;
    assert_true(attribute == LT_LAYOUT_BATCH_COUNT || attribute == LT_LAYOUT_BATCH_STRIDE);
    bool count = attribute == LT_LAYOUT_BATCH_COUNT;
    assert_int_equal(bytes, count ? sizeof(int32_t) : sizeof(int64_t));
    memcpy(count ? (void *)&layout->batches : (void *)&layout->stride, value, bytes);
    return LT_SUCCESS;
}

static int preference_create(cublaslt_preference *preference)
{
    if (fails_now())
        return INTERNAL_ERROR;
    *preference = new_object(sizeof **preference);
    (*preference)->schemes = 7;
    return LT_SUCCESS;
}

static int preference_destroy(cublaslt_preference preference)
{
    return destroy(preference);
}

static int preference_set(cublaslt_preference preference, int attribute, const void *value,
                          size_t bytes)
{
    if (fails_now())
        return INTERNAL_ERROR;
    void *to = NULL;
    if (attribute == LT_PREF_MAX_WORKSPACE)
        to = &preference->workspace;
    else if (attribute == LT_PREF_REDUCTION_MASK)
        to = &preference->schemes;
    else if (attribute >= LT_PREF_MIN_ALIGNMENT_A && attribute <= LT_PREF_MIN_ALIGNMENT_D)
        to = &preference->alignments[attribute - LT_PREF_MIN_ALIGNMENT_A];
    assert_non_null(to);
    assert_int_equal(bytes, attribute == LT_PREF_MAX_WORKSPACE ? 8 : 4);
    memcpy(to, value, bytes);
    return LT_SUCCESS;
}

/* ---- Algorithms ---- */

static size_t workspace_of(uint64_t algo)
{
    return algo == MIDDLE ? 100 << 10 : algo == LARGE ? 5 << 20 : 0;
}

static void check_shapes(cublaslt_desc desc, cublaslt_layout a, cublaslt_layout b,
                         cublaslt_layout d)
{
    bool ta = desc->transpose_a == LT_OP_T, tb = desc->transpose_b == LT_OP_T;
    assert_int_equal(ta ? a->columns : a->rows, d->rows);
    assert_int_equal(ta ? a->rows : a->columns, tb ? b->columns : b->rows);
    assert_int_equal(tb ? b->rows : b->columns, d->columns);
    assert_true(a->type == b->type && b->type == d->type);
    assert_true(a->batches == b->batches && b->batches == d->batches);
}

/* Those that sum in place, or in bf16, are found although nobody wants them. */
static int get_heuristic(cublaslt_handle handle, cublaslt_desc desc, cublaslt_layout a,
                         cublaslt_layout b, cublaslt_layout c, cublaslt_layout d,
                         cublaslt_preference preference, int requested, cublaslt_result *results,
                         int *returned)
{
    static const uint64_t algos[] = {LARGE, IN_PLACE, IN_BF16, MIDDLE, SMALL};
    if (fails_now())
        return INTERNAL_ERROR;
    searches++;
    assert_non_null(handle);
    assert_ptr_equal(c, d);
    check_shapes(desc, a, b, d);
    assert_true((desc->epilogue == LT_EPILOGUE_DEFAULT) == (desc->bias == NULL));
    for (int i = 0; i < 4; i++)
        assert_int_equal(preference->alignments[i], 16);
    *returned = 0;
    if (desc->epilogue == LT_EPILOGUE_BGRADB && gradients_status != LT_SUCCESS)
        return gradients_status;
    assert_int_equal(preference->schemes,
                     d->type == LT_R_16BF ? LT_REDUCTION_COMPUTE_TYPE
                                          : LT_REDUCTION_COMPUTE_TYPE | LT_REDUCTION_OUTPUT_TYPE);
    for (size_t i = 0; i < sizeof algos / sizeof *algos; i++) {
        if (workspace_of(algos[i]) > preference->workspace || *returned == requested ||
            (algos[i] == IN_BF16 && d->type != LT_R_16BF))
            continue;
        results[(*returned)++] = (cublaslt_result){
            .algo = {.data = {algos[i]}}, .workspace = workspace_of(algos[i]), .waves = 0.5f};
    }
    return LT_SUCCESS;
}

static int config_get(const cublaslt_algo *algo, int attribute, void *value, size_t bytes,
                      size_t *written)
{
    if (fails_now())
        return INTERNAL_ERROR;
    assert_int_equal(attribute, LT_CONFIG_REDUCTION);
    assert_int_equal(bytes, sizeof(uint32_t));
    *(uint32_t *)value = algo->data[0] == IN_PLACE  ? LT_REDUCTION_INPLACE
                         : algo->data[0] == IN_BF16 ? LT_REDUCTION_OUTPUT_TYPE
                                                    : 0;
    *written = bytes;
    return LT_SUCCESS;
}

/* ---- Products ---- */

static void expect_aligned(const void *address, size_t alignment)
{
    assert_int_equal((uintptr_t)address % alignment, 0);
}

static int64_t offset(const struct cublaslt_layout *x, int transpose, int64_t row, int64_t column)
{
    return transpose == LT_OP_T ? column + row * x->ld : row + column * x->ld;
}

static float dot(const struct cublaslt_desc *desc, const struct cublaslt_layout *la, const void *a,
                 const struct cublaslt_layout *lb, const void *b, int64_t batch, int64_t row,
                 int64_t column)
{
    int64_t depth = desc->transpose_a == LT_OP_T ? la->rows : la->columns;
    double sum = 0;
    for (int64_t k = 0; k < depth; k++) {
        int64_t at_a = batch * la->stride + offset(la, desc->transpose_a, row, k);
        int64_t at_b = batch * lb->stride + offset(lb, desc->transpose_b, k, column);
        sum += (double)raw_number(a, la->type == LT_R_16BF, at_a) *
               (double)raw_number(b, lb->type == LT_R_16BF, at_b);
    }
    return (float)sum;
}

/* The sum of each column of op(B). */
static void sum_columns(const struct cublaslt_desc *desc, const struct cublaslt_layout *lb,
                        const void *b)
{
    bool turned = desc->transpose_b == LT_OP_T;
    for (int64_t column = 0; column < (turned ? lb->rows : lb->columns); column++) {
        double sum = 0;
        for (int64_t k = 0; k < (turned ? lb->columns : lb->rows); k++)
            sum += (double)raw_number(b, lb->type == LT_R_16BF,
                                      offset(lb, desc->transpose_b, k, column));
        set_raw_number(desc->bias, lb->type == LT_R_16BF, column, (float)sum);
    }
}

static int matmul(cublaslt_handle handle, cublaslt_desc desc, const void *alpha, const void *a,
                  cublaslt_layout la, const void *b, cublaslt_layout lb, const void *beta,
                  const void *c, cublaslt_layout lc, void *d, cublaslt_layout ld,
                  const cublaslt_algo *algo, void *workspace, size_t bytes, cu_stream stream)
{
    if (fails_now())
        return INTERNAL_ERROR;
    (void)stream;
    products++;
    assert_non_null(handle);
    assert_true(*(const float *)alpha == 1.0f && *(const float *)beta == 0.0f);
    assert_true(c == d && lc == ld);
    check_shapes(desc, la, lb, ld);
    expect_aligned(a, 16);
    expect_aligned(b, 16);
    expect_aligned(d, 16);
    assert_true(algo->data[0] >= SMALL && algo->data[0] < IN_PLACE);
    assert_true(bytes >= workspace_of(algo->data[0]));
    expect_aligned(workspace, 256);
    if (bytes > 0)
        memset(workspace, 0xee, bytes);
    if (desc->epilogue != LT_EPILOGUE_DEFAULT)
        expect_aligned(desc->bias, 16);
    for (int64_t batch = 0; batch < ld->batches; batch++)
        for (int64_t column = 0; column < ld->columns; column++)
            for (int64_t row = 0; row < ld->rows; row++) {
                float sum = dot(desc, la, a, lb, b, batch, row, column);
                if (desc->epilogue == LT_EPILOGUE_BIAS)
                    sum += raw_number(desc->bias, ld->type == LT_R_16BF, row);
                set_raw_number(d, ld->type == LT_R_16BF, batch * ld->stride + row + column * ld->ld,
                               sum);
            }
    if (desc->epilogue == LT_EPILOGUE_BGRADB)
        sum_columns(desc, lb, b);
    return LT_SUCCESS;
}

void fake_cublaslt_init(cuda_api *api, cuda_libraries *libraries)
{
    static char handle;
    *api = (cuda_api){.cublasLtGetStatusString = get_status_string,
                      .cublasLtMatmulDescCreate = desc_create,
                      .cublasLtMatmulDescDestroy = desc_destroy,
                      .cublasLtMatmulDescSetAttribute = desc_set,
                      .cublasLtMatrixLayoutCreate = layout_create,
                      .cublasLtMatrixLayoutDestroy = layout_destroy,
                      .cublasLtMatrixLayoutSetAttribute = layout_set,
                      .cublasLtMatmulPreferenceCreate = preference_create,
                      .cublasLtMatmulPreferenceDestroy = preference_destroy,
                      .cublasLtMatmulPreferenceSetAttribute = preference_set,
                      .cublasLtMatmulAlgoGetHeuristic = get_heuristic,
                      .cublasLtMatmulAlgoConfigGetAttribute = config_get,
                      .cublasLtMatmul = matmul};
    *libraries = (cuda_libraries){.api = api, .cublaslt = (cublaslt_handle)(void *)&handle};
    fake_cublaslt_fail_at(0);
    fake_cublaslt_refuse_gradients(LT_SUCCESS);
}
