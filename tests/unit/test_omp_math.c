/*
 * The vectorised functions compared with the C library's in double precision, over the whole range
 * in which they are used.
 */
#include "run/backends/onednn/omp_math.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <float.h>

#define MOST_ULPS 3.0

/* The distance from the exact value in units of the last place that a float has there. */
static double ulps(float got, double exact)
{
    int exponent;
    frexp(exact, &exponent);
    double unit = ldexp(1, (exponent > -125 ? exponent : -125) - FLT_MANT_DIG);
    return fabs((double)got - exact) / unit;
}

typedef float approximation(float x);
typedef double exact(double x);

static void sweep(approximation *f, exact *g, float from, float to)
{
    double worst = 0;
    float where = from;
    for (float x = from; x <= to;) {
        double error = ulps(f(x), g((double)x));
        if (error > worst) {
            worst = error;
            where = x;
        }
        float step = fabsf(x) * 1e-5f;
        x += step > 1e-8f ? step : 1e-8f;
    }
    if (worst > MOST_ULPS)
        fail_msg("%g units in the last place at %.9g", worst, (double)where);
}

#define FUNCTION(name)                                                                             \
    static float name##_of(float x)                                                                \
    {                                                                                              \
        return omp_##name(x);                                                                      \
    }

FUNCTION(exp)
FUNCTION(tanh)
FUNCTION(erf)
FUNCTION(sigmoid)

static double exact_sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

static void exp_is_close(void **state)
{
    (void)state;
    sweep(exp_of, exp, -103.5f, 88.72f);
}

static void tanh_is_close(void **state)
{
    (void)state;
    sweep(tanh_of, tanh, -20, 20);
}

static void erf_is_close(void **state)
{
    (void)state;
    sweep(erf_of, erf, -10, 10);
}

static void sigmoid_is_close(void **state)
{
    (void)state;
    sweep(sigmoid_of, exact_sigmoid, -80, 80);
}

static void ends_are_right(void **state)
{
    (void)state;
    const float infinity = INFINITY;
    assert_true(exp_of(infinity) == infinity && exp_of(100) == infinity);
    assert_true(exp_of(-infinity) == 0 && exp_of(-110) == 0 && exp_of(0) == 1);
    assert_true(tanh_of(infinity) == 1 && tanh_of(-infinity) == -1 && tanh_of(0) == 0);
    assert_true(erf_of(infinity) == 1 && erf_of(-infinity) == -1 && erf_of(0) == 0);
    assert_true(sigmoid_of(infinity) == 1 && sigmoid_of(-infinity) == 0);
    assert_true(isnan(exp_of(NAN)) && isnan(tanh_of(NAN)) && isnan(erf_of(NAN)) &&
                isnan(sigmoid_of(NAN)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exp_is_close),   cmocka_unit_test(tanh_is_close),
        cmocka_unit_test(erf_is_close),   cmocka_unit_test(sigmoid_is_close),
        cmocka_unit_test(ends_are_right),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
