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

#include "conv_check.h"
#include "settings.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#if NEAP_HAS_EMULATION

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

static void try_cases(neap_dtype type)
{
    neap_backend *backend;
    neap_diag diag;
    assert_int_equal(neap_backend_open(NULL, "cuda-emulation", 1, &backend, &diag), NEAP_OK);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (type == NEAP_F32 || cases[i].h < 100) /* tiles are for f32 */
            conv_check(backend, &cases[i], (int)i, type);
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
    conv_array y = conv_array_new(type, 4, (int64_t[]){2, 16, 3, 5}, plain, shift),
               b = conv_array_new(type, 1, (int64_t[]){16}, true, 0);
    conv_array before = conv_array_new(type, 4, y.array.shape, plain, 0);
    conv_array_fill(&y, &random);
    conv_array_fill(&b, &random);
    memcpy(before.at, y.at, (size_t)(neap_run_array_elements(&y.array) * neap_dtype_bytes(type)));
    conv_problem problem = {.target = CONV_Y, .type = type, .bias = bias, .relu = relu};
    problem.biased = y.array;
    cuda_backend *cuda = (cuda_backend *)backend;
    run_args args = {.in = (void *[]){NULL, NULL, b.at}, .out = (void *[]){y.at}};
    assert_int_equal(neap_conv_finish_plan(cuda, &problem, &plan, &diag), NEAP_OK);
    assert_int_equal(neap_conv_finish_run(cuda, &plan, &args, &diag), NEAP_OK);
    for (int64_t i = 0; i < 2 * 16 * 15; i++) {
        int64_t n = i / 240, k = i / 15 % 16, h = i / 5 % 3, w = i % 5;
        double should = conv_array_at(&before, n, k, h, w) + (bias ? conv_array_get(&b, k) : 0);
        if (relu && should < 0)
            should = 0;
        assert_true(fabs(conv_array_at(&y, n, k, h, w) - should) <= 1.0 / 128 * fabs(should));
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
