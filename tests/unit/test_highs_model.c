/*
 * highs_model: programs without columns are decided by their rows; when HiGHS rejects something,
 * the caller gets HiGHS's own message and nothing else is printed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "lp/highs_model.h"
#include "settings.h"

#include <neap/progress.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const highs_watch nobody = {0};

static highs_model *create(const sparse_model *m, bool integers)
{
    highs_model *h;
    assert_int_equal(
        neap_highs_model_create(neap_allocator_system(), m, integers, &nobody, &h, NULL), NEAP_OK);
    return h;
}

static highs_answer solve(highs_model *h)
{
    const highs_settings settings = {.seconds = 10};
    highs_answer answer;
    assert_int_equal(neap_highs_model_solve(h, &settings, &answer, NULL), NEAP_OK);
    return answer;
}

/* A row as it is, which neap_sparse_row_end would drop where 0 lies within its sides. */
static void add_empty_row(sparse_model *m, double lower, double upper)
{
    neap_sparse_row_begin(m);
    neap_sparse_row_end(m, 1, 1);
    assert_int_equal(neap_sparse_model_status(m, NULL), NEAP_OK);
    m->row_lower[m->n_rows - 1] = lower;
    m->row_upper[m->n_rows - 1] = upper;
}

static void expect_solved(const highs_answer *answer, bool integers)
{
    assert_int_equal(answer->outcome, HIGHS_SOLVED);
    assert_true(answer->has_solution);
    assert_true(answer->objective == 0);
    assert_true(answer->bound == (integers ? 0 : -HUGE_VAL));
}

/* ---- No columns ---- */

static void test_no_columns(void **state)
{
    (void)state;
    need_highs();
    static const struct {
        double lower, upper;
        bool fits;
    } rows[] = {{0, 0, true},         {-1, 2, true},       {-HUGE_VAL, HUGE_VAL, true},
                {1, 2, false},        {-2, -1, false},     {1e-300, HUGE_VAL, false},
                {-HUGE_VAL, 0, true}, {0, HUGE_VAL, true}, {-HUGE_VAL, -1e-300, false}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int integers = 0; integers < 2; integers++) {
            sparse_model m;
            neap_sparse_model_init(&m, neap_allocator_system());
            add_empty_row(&m, -1, 1);
            add_empty_row(&m, rows[i].lower, rows[i].upper);
            highs_model *h = create(&m, integers);
            highs_answer answer = solve(h);
            if (rows[i].fits) {
                expect_solved(&answer, integers);
            } else {
                assert_int_equal(answer.outcome, HIGHS_INFEASIBLE);
                assert_false(answer.has_solution);
            }
            neap_highs_model_destroy(h);
            neap_sparse_model_clear(&m);
        }
}

/* Rows added later count, and the duals, one per row, prove nothing false. */
static void test_no_columns_but_more_rows(void **state)
{
    (void)state;
    need_highs();
    sparse_model m;
    neap_sparse_model_init(&m, neap_allocator_system());
    highs_model *h = create(&m, false);
    highs_answer answer = solve(h);
    expect_solved(&answer, false);
    for (int i = 0; i < 3; i++) {
        add_empty_row(&m, -1, i < 1 ? 1 : -0.5); /* the second cannot be had, whatever follows */
        assert_int_equal(neap_highs_model_update(h, &m, NULL), NEAP_OK);
        answer = solve(h);
        assert_int_equal(answer.outcome, i < 1 ? HIGHS_SOLVED : HIGHS_INFEASIBLE);
        assert_true(neap_sparse_model_dual_bound(&m, neap_highs_model_duals(h), NULL) <= 0);
    }
    neap_highs_model_destroy(h);
    neap_sparse_model_clear(&m);
}

/* The other way round: columns, none of which a row holds back. */
static void test_no_rows(void **state)
{
    (void)state;
    need_highs();
    for (int integers = 0; integers < 2; integers++) {
        sparse_model m;
        neap_sparse_model_init(&m, neap_allocator_system());
        neap_sparse_column(&m, 0, 1, -2, true);
        neap_sparse_column(&m, 0, 1, 3, true);
        highs_model *h = create(&m, integers);
        highs_answer answer = solve(h);
        assert_int_equal(answer.outcome, HIGHS_SOLVED);
        assert_true(answer.has_solution && answer.objective == -2);
        assert_true(neap_highs_model_values(h)[0] == 1 && neap_highs_model_values(h)[1] == 0);
        neap_highs_model_destroy(h);
        neap_sparse_model_clear(&m);
    }
}

/* ---- Complaints ---- */

static void expect_complaint(const neap_diag *diag, const char *what, const char *why)
{
    assert_int_equal(diag->status, NEAP_INTERNAL);
    if (strncmp(diag->message, what, strlen(what)) != 0 || !strstr(diag->message, why) ||
        strstr(diag->message, "memory") || strchr(diag->message, '\n'))
        fail_msg("%s", diag->message);
}

/* A column that has to be infinite. */
static void test_complaints(void **state)
{
    (void)state;
    need_highs();
    sparse_model m;
    highs_model *h;
    neap_diag diag = {0};
    neap_sparse_model_init(&m, neap_allocator_system());
    neap_sparse_column(&m, 0, 1, 1, false);
    assert_int_equal(neap_sparse_model_status(&m, NULL), NEAP_OK);
    m.lower[0] = HUGE_VAL;
    assert_int_equal(
        neap_highs_model_create(neap_allocator_system(), &m, false, &nobody, &h, &diag),
        NEAP_INTERNAL);
    assert_null(h);
    expect_complaint(&diag, "HiGHS could not take the model: ", "inf");

    m.lower[0] = 0;
    h = create(&m, false);
    m.lower[0] = HUGE_VAL;
    diag = (neap_diag){0};
    assert_int_equal(neap_highs_model_update(h, &m, &diag), NEAP_INTERNAL);
    expect_complaint(&diag, "HiGHS could not change bounds: ", "inf");
    m.lower[0] = 0;
    assert_int_equal(neap_highs_model_update(h, &m, NULL), NEAP_OK);

    neap_sparse_row_begin(&m);
    neap_sparse_row_add(&m, 0, 1);
    neap_sparse_row_end(&m, 0, 1);
    m.row_lower[0] = HUGE_VAL;
    diag = (neap_diag){0};
    assert_int_equal(neap_highs_model_update(h, &m, &diag), NEAP_INTERNAL);
    expect_complaint(&diag, "HiGHS could not take more rows: ", "inf");
    neap_highs_model_destroy(h);
    neap_sparse_model_clear(&m);
}

/* ---- Time ---- */

typedef struct impatience {
    int asked; /* how often */
} impatience;

static bool is_over(void *context)
{
    impatience *i = context;
    return ++i->asked > 1;
}

/* Equations of large random coefficients, which take a branch and bound hours. */
static void fill_market_split(sparse_model *m)
{
    enum { ROWS = 6, COLUMNS = 60 };
    uint64_t random = 1;
    for (int j = 0; j < COLUMNS; j++)
        neap_sparse_column(m, 0, 1, 0, true);
    for (int r = 0; r < ROWS; r++) {
        double sum = 0;
        neap_sparse_row_begin(m);
        for (int j = 0; j < COLUMNS; j++) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            double coefficient = (double)(random >> 40) / 65536;
            neap_sparse_row_add(m, j, coefficient);
            sum += coefficient;
        }
        neap_sparse_row_end(m, floor(sum / 2), floor(sum / 2) + 1e-3);
    }
}

/* HiGHS is left behind, where it does not ask whether to stop, and the caller goes on. */
static void test_left_behind(void **state)
{
    (void)state;
    need_highs();
    impatience i = {0};
    const highs_watch watch = {.context = &i, .is_over = is_over};
    sparse_model m;
    highs_model *h;
    neap_sparse_model_init(&m, neap_allocator_system());
    fill_market_split(&m);
    assert_int_equal(neap_sparse_model_status(&m, NULL), NEAP_OK);
    assert_int_equal(neap_highs_model_create(neap_allocator_system(), &m, true, &watch, &h, NULL),
                     NEAP_OK);
    double begin = neap_clock_seconds();
    for (int again = 0; again < 2; again++) {
        highs_answer answer = solve(h);
        assert_int_equal(answer.outcome, HIGHS_STOPPED);
        assert_false(answer.has_solution);
        assert_int_equal(neap_highs_model_update(h, &m, NULL), NEAP_OK);
    }
    assert_true(neap_clock_seconds() - begin < 5); /* of the 10 that solve() allows */
    assert_int_equal(i.asked, 2);
    assert_true(neap_has_left_threads());
    neap_highs_model_destroy(h);
    neap_sparse_model_clear(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_columns),  cmocka_unit_test(test_no_columns_but_more_rows),
        cmocka_unit_test(test_no_rows),     cmocka_unit_test(test_complaints),
        cmocka_unit_test(test_left_behind),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    if (neap_has_left_threads()) { /* else it waits for HiGHS */
        fflush(NULL);
        _Exit(failed);
    }
    return failed;
}
