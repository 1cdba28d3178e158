/*
 * neap/optimizer.h compared with PyTorch's formulas in double precision, with figures computed by
 * hand, and with itself: updating a tensor in pieces gives the same bits.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "random_plan.h"

#include <neap/optimizer.h>

#include <math.h>
#include <string.h>

#define N 37 /* not a multiple of any vector's width */

static float any_float(random_source *random)
{
    return (float)((double)random_below(random, 2000001) / 1e6 - 1);
}

static void fill(random_source *random, float *values)
{
    for (int i = 0; i < N; i++)
        values[i] = any_float(random);
}

static void expect_near(const float *got, const double *wanted, double tolerance)
{
    for (int i = 0; i < N; i++)
        if (!(fabs((double)got[i] - wanted[i]) <= tolerance))
            fail_msg("element %d: %.9g, not %.9g", i, (double)got[i], wanted[i]);
}

/* torch/optim/sgd.py, _single_tensor_sgd. */
static void reference_sgd(double *w, const float *g, double *b, int step, const neap_sgd *o)
{
    for (int i = 0; i < N; i++) {
        double d = (double)g[i] + o->weight_decay * w[i];
        if (o->momentum != 0) {
            b[i] = step == 1 ? d : o->momentum * b[i] + d;
            d = b[i];
        }
        w[i] -= o->learning_rate * d;
    }
}

static void test_sgd(void **state)
{
    (void)state;
    static const neap_sgd cases[] = {
        {0.1, 0, 0}, {0.1, 0.9, 0}, {0.01, 0, 5e-2}, {0.05, 0.8, 1e-2}, {0, 0.9, 0.1},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        random_source random = {c + 1};
        float w[N], g[N], b[N] = {0};
        double exact[N], exact_b[N] = {0};
        fill(&random, w);
        for (int i = 0; i < N; i++)
            exact[i] = (double)w[i];
        for (int step = 1; step <= 20; step++) {
            fill(&random, g);
            neap_sgd_update(w, g, cases[c].momentum != 0 ? b : NULL, N, &cases[c]);
            reference_sgd(exact, g, exact_b, step, &cases[c]);
            expect_near(w, exact, 5e-6);
        }
    }
}

/* torch/optim/adam.py, _single_tensor_adam. */
static void reference_adam(double *w, const float *g, double *m, double *v, int t,
                           const neap_adam *o)
{
    for (int i = 0; i < N; i++) {
        double d = (double)g[i];
        if (o->decoupled)
            w[i] *= 1 - o->learning_rate * o->weight_decay;
        else
            d += o->weight_decay * w[i];
        m[i] += (1 - o->beta1) * (d - m[i]);
        v[i] = o->beta2 * v[i] + (1 - o->beta2) * d * d;
        double correction1 = 1 - pow(o->beta1, t), correction2 = 1 - pow(o->beta2, t);
        double denominator = sqrt(v[i]) / sqrt(correction2) + o->epsilon;
        w[i] -= o->learning_rate / correction1 * m[i] / denominator;
    }
}

static void test_adam(void **state)
{
    (void)state;
    static const neap_adam cases[] = {
        {0.001, 0.9, 0.999, 1e-8, 0, false}, {0.01, 0.9, 0.999, 1e-8, 0.1, false},
        {0.01, 0.9, 0.95, 1e-8, 0.1, true},  {0.01, 0.3, 0.9, 1e-6, 0, false},
        {0.01, 0.3, 0.9, 1e-6, 0.05, true},  {0.01, 0, 0, 1e-3, 0.05, false},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        random_source random = {c + 11};
        float w[N], g[N], m[N] = {0}, v[N] = {0};
        double exact[N], exact_m[N] = {0}, exact_v[N] = {0};
        fill(&random, w);
        for (int i = 0; i < N; i++)
            exact[i] = (double)w[i];
        for (int step = 1; step <= 20; step++) {
            fill(&random, g);
            neap_adam_update(w, g, m, v, N, step, &cases[c]);
            reference_adam(exact, g, exact_m, exact_v, step, &cases[c]);
            expect_near(w, exact, 2e-5);
            expect_near(m, exact_m, 1e-6);
            expect_near(v, exact_v, 1e-6);
        }
    }
}

/* The first step of Adam moves each weight by the learning rate, whatever the gradient's size. */
static void test_adam_first_step(void **state)
{
    (void)state;
    float w[3] = {1, -1, 0.5f}, m[3] = {0}, v[3] = {0};
    const float g[3] = {1e-3f, -20, 4};
    neap_adam adam;
    neap_adam_init(&adam);
    neap_adam_update(w, g, m, v, 3, 1, &adam);
    assert_true(fabs((double)w[0] - 0.999) < 1e-6);
    assert_true(fabs((double)w[1] + 0.999) < 1e-6);
    assert_true(fabs((double)w[2] - 0.499) < 1e-6);
    neap_adam_update(w, g, m, v, 0, 2, &adam); /* nothing */
    assert_true(fabs((double)w[0] - 0.999) < 1e-6);
}

/* By hand: momentum 0.5, rate 0.5, decay 0.25, all of it exact in float. */
static void test_sgd_by_hand(void **state)
{
    (void)state;
    float w = 2, b = 0, g = 1;
    const neap_sgd sgd = {0.5, 0.5, 0.25};
    neap_sgd_update(&w, &g, &b, 1, &sgd); /* d = 1.5, w = 1.25 */
    assert_true(b == 1.5f && w == 1.25f);
    neap_sgd_update(&w, &g, &b, 1, &sgd); /* d = 1.3125, b = 2.0625, w = 0.21875 */
    assert_true(b == 2.0625f && w == 0.21875f);
}

static void test_pieces(void **state)
{
    (void)state;
    random_source random = {5};
    float w[N], g[N], b[N], v[N], w2[N], b2[N], v2[N];
    fill(&random, w);
    fill(&random, g);
    fill(&random, b);
    for (int i = 0; i < N; i++)
        v[i] = (float)i;
    memcpy(w2, w, sizeof w);
    memcpy(b2, b, sizeof b);
    memcpy(v2, v, sizeof v);
    const neap_sgd sgd = {0.1, 0.9, 0.01};
    const neap_adam adam = {0.01, 0.9, 0.999, 1e-8, 0.1, true};
    neap_sgd_update(w, g, b, N, &sgd);
    neap_adam_update(w, g, b, v, N, 7, &adam);
    for (int i = 0; i < N;) {
        int n = 1 + (int)random_below(&random, 5);
        n = n < N - i ? n : N - i;
        neap_sgd_update(w2 + i, g + i, b2 + i, n, &sgd);
        neap_adam_update(w2 + i, g + i, b2 + i, v2 + i, n, 7, &adam);
        i += n;
    }
    assert_memory_equal(w, w2, sizeof w);
    assert_memory_equal(b, b2, sizeof b);
    assert_memory_equal(v, v2, sizeof v);
}

static void expect_refused(neap_status status, const neap_diag *diag, const char *part)
{
    assert_int_equal(status, NEAP_INVALID);
    if (!strstr(diag->message, part))
        fail_msg("\"%s\" does not say \"%s\"", diag->message, part);
}

static void test_options(void **state)
{
    (void)state;
    neap_diag diag = {0};
    neap_sgd sgd;
    neap_adam adam;
    neap_sgd_init(&sgd);
    neap_adam_init(&adam);
    assert_int_equal(neap_sgd_check(&sgd, &diag), NEAP_OK);
    assert_int_equal(neap_adam_check(&adam, &diag), NEAP_OK);
    sgd.learning_rate = -1;
    expect_refused(neap_sgd_check(&sgd, &diag), &diag, "learning rate is -1");
    sgd.learning_rate = (double)NAN;
    expect_refused(neap_sgd_check(&sgd, &diag), &diag, "learning rate");
    neap_sgd_init(&sgd);
    sgd.momentum = (double)INFINITY;
    expect_refused(neap_sgd_check(&sgd, &diag), &diag, "momentum");
    sgd.momentum = 0;
    sgd.weight_decay = -0.5;
    expect_refused(neap_sgd_check(&sgd, &diag), &diag, "weight decay");
    adam.beta2 = 1;
    expect_refused(neap_adam_check(&adam, &diag), &diag, "beta2 is 1; it must be a number from 0");
    adam.beta2 = 0.9;
    adam.beta1 = -0.1;
    expect_refused(neap_adam_check(&adam, &diag), &diag, "beta1");
}

static void test_rates(void **state)
{
    (void)state;
    neap_lr lr;
    neap_diag diag = {0};
    neap_lr_init(&lr);
    assert_int_equal(neap_lr_check(&lr, &diag), NEAP_OK);
    assert_true(neap_lr_at(&lr, 0) == 0.01 && neap_lr_at(&lr, 1000000) == 0.01);
    lr = (neap_lr){NEAP_LR_CONSTANT, 1.0, 0, 4, 0};
    static const double ramp[] = {0.25, 0.5, 0.75, 1, 1, 1};
    for (int i = 0; i < 6; i++)
        assert_true(neap_lr_at(&lr, i) == ramp[i]);
    lr = (neap_lr){NEAP_LR_COSINE, 1.0, 0.2, 2, 10};
    assert_int_equal(neap_lr_check(&lr, &diag), NEAP_OK);
    assert_true(neap_lr_at(&lr, 0) == 0.5 && neap_lr_at(&lr, 1) == 1);
    assert_true(neap_lr_at(&lr, 2) == 1);
    assert_true(fabs(neap_lr_at(&lr, 6) - 0.6) < 1e-12);
    assert_true(neap_lr_at(&lr, 10) == 0.2 && neap_lr_at(&lr, INT64_MAX) == 0.2);
    for (int i = 2; i < 12; i++)
        assert_true(neap_lr_at(&lr, i + 1) <= neap_lr_at(&lr, i));
    lr.last = 2;
    expect_refused(neap_lr_check(&lr, &diag), &diag, "above the first");
    lr = (neap_lr){NEAP_LR_COSINE, 1.0, 0, -1, 10};
    expect_refused(neap_lr_check(&lr, &diag), &diag, "steps");
    lr = (neap_lr){(neap_lr_kind)7, 1.0, 0, 0, 10};
    expect_refused(neap_lr_check(&lr, &diag), &diag, "number 7");
    lr = (neap_lr){NEAP_LR_COSINE, 1.0, 0.1, 5, 3}; /* a warm-up past the end */
    assert_true(neap_lr_at(&lr, 4) == 1 && neap_lr_at(&lr, 5) == 0.1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sgd),    cmocka_unit_test(test_sgd_by_hand),
        cmocka_unit_test(test_adam),   cmocka_unit_test(test_adam_first_step),
        cmocka_unit_test(test_pieces), cmocka_unit_test(test_options),
        cmocka_unit_test(test_rates),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
