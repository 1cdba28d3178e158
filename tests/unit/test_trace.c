/* neap/report.h: traces that Perfetto reads, and charts of series. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "small_graphs.h"
#include "trace_check.h"

#include <neap/report.h>
#include <neap/text.h>

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

/* ---- Traces ---- */

/* abc_graph: a second per op; value 1 has 100 bytes, 2 has 200, 3 has 50. */
static const neap_link LINK = {.out_bandwidth = 100, .in_bandwidth = 50, .duplex = true};

static void trace_with(const char *json, const char *steps, const neap_trace_options *options,
                       trace_facts *facts)
{
    neap_graph *graph = graph_from(json);
    neap_plan *plan = plan_from(steps);
    neap_timeline timeline;
    neap_diag diag = {0};
    char *text;
    size_t length;
    if (neap_timeline_build(NULL, graph, plan, &LINK, &timeline, &diag) != NEAP_OK)
        fail_msg("%s", diag.message);
    if (neap_report_trace(NULL, graph, plan, &timeline, options, &text, &length, &diag) != NEAP_OK)
        fail_msg("%s", diag.message);
    assert_int_equal(strlen(text), length);
    trace_check(text, facts);
    assert_true(facts->most_live == (double)timeline.peak_bytes);
    neap_release(NULL, text, length + 1);
    neap_timeline_clear(&timeline);
    neap_plan_destroy(plan);
    neap_graph_destroy(graph);
}

static void expect_slice(const trace_slice *slice, int64_t thread, const char *name,
                         const char *category, double begin, double duration)
{
    assert_int_equal(slice->thread, thread);
    assert_string_equal(slice->name, name);
    assert_string_equal(slice->category, category);
    assert_true(fabs(slice->begin - begin) < 1e-3);
    assert_true(fabs(slice->duration - duration) < 1e-3);
}

/* a leaves in a second while b is computed, and takes two seconds to come back. */
static void test_planned(void **state)
{
    (void)state;
    trace_facts f;
    neap_trace_options options;
    neap_trace_options_init(&options);
    options.arena_bytes = 4096;
    trace_with(abc_graph, "c0 o1 c1 f1 p1 c2 f1 f2", &options, &f);
    assert_int_equal(f.n_slices, 5);
    assert_int_equal(f.n_flows, 1);
    assert_true(f.arena == 4096);
    assert_string_equal(f.times, "planned");
    expect_slice(&f.slices[0], 1, "A", "forward", 0, 1e6);
    assert_int_equal(f.slices[1].thread + f.slices[2].thread, 1 + 2);
    expect_slice(&f.slices[3], 3, "a", "prefetch", 2e6, 2e6);
    assert_true(fabs(f.slices[4].begin - 4e6) < 1e-3);
    trace_facts_clear(&f);
}

static void test_recomputation(void **state)
{
    (void)state;
    trace_facts f;
    trace_with(abc_graph, "c0 c1 f1 c0 c2 f1 f2", NULL, &f);
    assert_int_equal(f.n_slices, 4);
    assert_int_equal(f.n_flows, 0);
    assert_true(f.arena == -1);
    for (size_t i = 0; i < f.n_slices; i++) {
        assert_int_equal(f.slices[i].recomputation, i == 2);
        assert_int_equal(strcmp(f.slices[i].category, "recomputation") == 0, i == 2);
    }
    trace_facts_clear(&f);
}

/* Times that differ by less than a nanosecond, and a copy that ends after all computation. */
static void test_measured(void **state)
{
    (void)state;
    static const neap_step_time TIMES[] = {{1e-9, 5.4e-7},         {6e-7, 9e-4},
                                           {5.400000001e-7, 2e-6}, {9e-4, 9.1e-4},
                                           {9.2e-4, 3e-3},         {3.0000000004e-3, 3.1e-3},
                                           {3.1e-3, 3.1000001e-3}, {3.1000001e-3, 3.1000002e-3}};
    trace_facts f;
    neap_trace_options options;
    neap_trace_options_init(&options);
    options.times = TIMES;
    trace_with(abc_graph, "c0 o1 c1 f1 p1 c2 f1 f2", &options, &f);
    assert_string_equal(f.times, "measured");
    assert_int_equal(trace_count(&f, 1), 4); /* three ops, and a free that waited */
    expect_slice(&f.slices[0], 1, f.slices[0].name, "forward", 0.001, 0.539);
    expect_slice(&f.slices[2], 2, "a", "offload", 0.6, 899.4);
    expect_slice(&f.slices[3], 1, "a", "free", 900, 10);
    trace_facts_clear(&f);
}

/* Views have no kernels, hence no slices. */
static void test_views(void **state)
{
    (void)state;
    trace_facts f;
    trace_with(tiny_graph, TINY_PLAN, NULL, &f);
    assert_int_equal(trace_count(&f, 1), 3);
    trace_facts_clear(&f);
}

/* Anything may be in a name; the check refuses what a viewer would not show as it is. */
static void test_hostile_names(void **state)
{
    (void)state;
    static const char *const NAMES[] = {
        "<script>alert(1)</script>",
        "\\\"}], \\\"x\\\": [{",
        "a\\nb\\tc\\u0000d",
        "\xc2\x85\xc2\x9b",
        "\xe2\x80\xae gnp.exe",
        "\xef\xbb\xbf",
        "\\\\",
        "&amp;&lt;",
        "\xf0\x9f\x92\xbe disk",
    };
    static const char FORMAT[] =
        "{\"neap\": \"graph\", \"version\": 1, \"name\": \"%s\", \"values\": [{\"name\": \"x\", "
        "\"bytes\": 8, \"kind\": \"input\"}, {\"name\": \"%s\", \"bytes\": 8, \"kind\": \"%s\"}], "
        "\"ops\": [{\"name\": \"%s\", \"type\": \"%s\", \"inputs\": [0], \"outputs\": [1], "
        "\"time\": 1}], \"outputs\": [1]}";
    char *text = malloc(128 << 10), *longest = malloc((10 << 10) + 1);
    assert_true(text && longest);
    memset(longest, 'y', 10 << 10);
    longest[10 << 10] = '\0';
    for (size_t i = 0; i <= COUNT_OF(NAMES); i++) {
        const char *name = i < COUNT_OF(NAMES) ? NAMES[i] : longest;
        neap_graph *graph = NULL;
        neap_diag diag = {0};
        snprintf(text, 128 << 10, FORMAT, name, name, name, name, name);
        if (neap_graph_read_text(NULL, text, strlen(text), "hostile", &graph, &diag) != NEAP_OK) {
            assert_non_null(strstr(name, "u0000")); /* no graph has a NUL in a name */
            continue;
        }
        neap_plan *plan = plan_from("c0 o1 f1 p1");
        neap_timeline timeline;
        char *trace;
        size_t length;
        trace_facts f;
        assert_int_equal(neap_timeline_build(NULL, graph, plan, &LINK, &timeline, NULL), NEAP_OK);
        assert_int_equal(
            neap_report_trace(NULL, graph, plan, &timeline, NULL, &trace, &length, &diag), NEAP_OK);
        trace_check(trace, &f);
        assert_int_equal(f.n_slices, 4); /* the op, two copies, a free that waits */
        assert_true(f.longest_name <= 4 * 200);
        assert_null(strpbrk(trace, "<>&"));
        trace_facts_clear(&f);
        neap_release(NULL, trace, length + 1);
        neap_timeline_clear(&timeline);
        neap_plan_destroy(plan);
        neap_graph_destroy(graph);
    }
    free(text);
    free(longest);
}

static void test_wrong_timeline(void **state)
{
    (void)state;
    neap_graph *graph = graph_from(abc_graph);
    neap_plan *plan = plan_from("c0 c1 c2"), *other = plan_from("c0 c1");
    neap_timeline timeline;
    neap_diag diag = {0};
    char *text = NULL;
    size_t length;
    assert_int_equal(neap_timeline_build(NULL, graph, plan, NULL, &timeline, &diag), NEAP_OK);
    assert_int_equal(neap_report_trace(NULL, graph, other, &timeline, NULL, &text, &length, &diag),
                     NEAP_INVALID);
    assert_null(text);
    static const neap_step_time TIMES[2] = {{0, 1}, {1, 2}};
    neap_time_parts parts;
    assert_int_equal(neap_report_time_parts(NULL, graph, other, &timeline, TIMES, &parts, &diag),
                     NEAP_INVALID);
    neap_timeline_clear(&timeline);
    neap_plan_destroy(plan);
    neap_plan_destroy(other);
    neap_graph_destroy(graph);
}

/* ---- Parts of the time ---- */

static neap_time_parts parts_of(const char *steps, const neap_step_time *measured)
{
    neap_graph *graph = graph_from(abc_graph);
    neap_plan *plan = plan_from(steps);
    neap_timeline timeline;
    neap_time_parts parts;
    neap_diag diag = {0};
    if (neap_timeline_build(NULL, graph, plan, &LINK, &timeline, &diag) != NEAP_OK)
        fail_msg("%s", diag.message);
    if (neap_report_time_parts(NULL, graph, plan, &timeline, measured, &parts, &diag) != NEAP_OK)
        fail_msg("%s", diag.message);
    neap_timeline_clear(&timeline);
    neap_plan_destroy(plan);
    neap_graph_destroy(graph);
    return parts;
}

static void expect_pair(neap_time_pair pair, double planned, double measured)
{
    if (fabs(pair.planned - planned) > 1e-9 || fabs(pair.measured - measured) > 1e-9)
        fail_msg("%g planned, %g measured; expected %g and %g", pair.planned, pair.measured,
                 planned, measured);
}

/* b runs beside the copy of a to the host; c waits for a to come back. */
static void test_parts_with_copies(void **state)
{
    (void)state;
    static const neap_step_time TIMES[] = {{0.1, 1.2}, {1.3, 2.5}, {1.4, 2.8}, {2.8, 2.8},
                                           {2.9, 5.0}, {5.1, 6.2}, {6.2, 6.2}, {6.2, 6.2}};
    neap_time_parts parts = parts_of("c0 o1 c1 f1 p1 c2 f1 f2", TIMES);
    expect_pair(parts.step, 5, 6.2);
    expect_pair(parts.alone, 2, 1.1 + 1.1);
    expect_pair(parts.beside, 1, 1.4);
    expect_pair(parts.idle, 2, 6.2 - 2.2 - 1.4);
    expect_pair(parts.out, 1, 1.2);
    expect_pair(parts.in, 2, 2.1);
    assert_int_equal(parts.out_bytes, 100);
    assert_int_equal(parts.in_bytes, 100);
}

/* Two copies that overlap each other count once: b runs beside them for 0.4 of 1 second, c for
   0.5, as one goes on. */
static void test_parts_of_overlapping_copies(void **state)
{
    (void)state;
    static const neap_step_time TIMES[] = {{0, 1}, {1, 1.3}, {1.6, 2.6}, {1.2, 2.0},
                                           {2, 2}, {2, 2},   {2.8, 3.8}, {2.7, 3.3}};
    neap_time_parts parts = parts_of("c0 o1 c1 o2 f1 f2 c0 p2", TIMES);
    expect_pair(parts.alone, 2, 2);
    expect_pair(parts.beside, 1, 1);
    assert_int_equal(parts.out_bytes, 100 + 200);
    assert_int_equal(parts.in_bytes, 200);
}

static void test_parts_without_copies(void **state)
{
    (void)state;
    static const neap_step_time TIMES[] = {{0, 1.5}, {1.75, 2.5}, {2.5, 3.5}};
    neap_time_parts parts = parts_of("c0 c1 c2", TIMES);
    expect_pair(parts.step, 3, 3.5);
    expect_pair(parts.alone, 3, 3.25);
    expect_pair(parts.beside, 0, 0);
    expect_pair(parts.idle, 0, 0.25);
    expect_pair(parts.out, 0, 0);
}

/* ---- Series ---- */

static char *series(const double *values, size_t count, int width, int height, bool unicode)
{
    neap_series_options options;
    neap_diag diag = {0};
    char *text, *copy;
    size_t length;
    neap_series_options_init(&options);
    options.width = width;
    options.height = height;
    options.unicode = unicode;
    options.title = "loss";
    options.x_name = "step";
    options.first = 1;
    options.last = (int64_t)count;
    if (neap_report_series_chart(NULL, values, count, &options, &text, &length, &diag) != NEAP_OK)
        fail_msg("%s", diag.message);
    copy = malloc(length + 1);
    assert_non_null(copy);
    memcpy(copy, text, length + 1);
    neap_release(NULL, text, length + 1);
    return copy;
}

static void expect_series(const double *values, size_t count, int width, int height,
                          const char *expected)
{
    char *text = series(values, count, width, height, false);
    assert_string_equal(text, expected);
    free(text);
}

static void test_falling_series(void **state)
{
    (void)state;
    double values[16];
    for (size_t i = 0; i < COUNT_OF(values); i++)
        values[i] = 16 - (double)i;
    expect_series(values, COUNT_OF(values), 16, 2,
                  "loss\n"
                  " 16 +###:::..\n"
                  "  1 +###########:::..\n"
                  "    +----------------\n"
                  "     1    step     16\n");
}

/* Each column shows the mean of its values. */
static void test_long_series(void **state)
{
    (void)state;
    enum { COUNT = 100000 };
    double *values = malloc(COUNT * sizeof *values);
    assert_non_null(values);
    for (size_t i = 0; i < COUNT; i++)
        values[i] = (i % 2 ? 1.0 : 3.0) + (i >= COUNT / 2 ? 0.0 : 2.0);
    expect_series(values, COUNT, 12, 2,
                  "loss\n"
                  " 4 +######\n"
                  " 2 +######......\n"
                  "   +------------\n"
                  "    1     100000\n");
    free(values);
}

static void test_series_without_numbers(void **state)
{
    (void)state;
    const double mixed[] = {(double)NAN, 1, (double)INFINITY, 2, -(double)INFINITY};
    expect_series(mixed, COUNT_OF(mixed), 10, 2,
                  "loss\n"
                  " 2 +      ##\n"
                  " 1 +xx..xx##xx\n"
                  "   +----------\n"
                  "    1  step  5\n"
                  "    x not a finite number\n");
    const double none[] = {(double)NAN, (double)NAN};
    expect_series(none, COUNT_OF(none), 10, 2,
                  "loss\n"
                  "  |\n"
                  "  |xxxxxxxxxx\n"
                  "  +----------\n"
                  "   1  step  2\n"
                  "   x not a finite number\n");
}

/* Extremes neither overflow nor leave the plot. */
static void test_extreme_series(void **state)
{
    (void)state;
    const double rows[][2] = {{DBL_MAX, -DBL_MAX}, {DBL_MIN, 0},        {1, 1}, {0, 0},
                              {-1e-320, 1e300},    {1, 1 + DBL_EPSILON}};
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char *text = series(rows[i], 2, 20, 3, true);
        size_t lines = 0;
        for (const char *at = text; (at = strchr(at, '\n')); at++)
            lines++;
        assert_int_equal(lines, 6);
        free(text);
    }
    double huge[4] = {DBL_MAX, DBL_MAX, DBL_MAX, DBL_MAX};
    char *text = series(huge, 4, 10, 2, false);
    assert_null(strchr(text, 'x'));
    free(text);
}

static void test_wrong_series(void **state)
{
    (void)state;
    const double one[] = {1};
    neap_series_options options;
    neap_diag diag;
    char *text;
    size_t length;
    neap_series_options_init(&options);
    assert_int_equal(neap_report_series_chart(NULL, one, 0, &options, &text, &length, &diag),
                     NEAP_INVALID);
    options.width = 3;
    assert_int_equal(neap_report_series_chart(NULL, one, 1, &options, &text, &length, &diag),
                     NEAP_INVALID);
    assert_non_null(strstr(diag.message, "3 x 6"));
    assert_null(text);
    assert_int_equal(neap_report_series_chart(NULL, one, 1, NULL, &text, &length, &diag), NEAP_OK);
    neap_release(NULL, text, length + 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_planned),
        cmocka_unit_test(test_recomputation),
        cmocka_unit_test(test_measured),
        cmocka_unit_test(test_views),
        cmocka_unit_test(test_hostile_names),
        cmocka_unit_test(test_wrong_timeline),
        cmocka_unit_test(test_parts_with_copies),
        cmocka_unit_test(test_parts_of_overlapping_copies),
        cmocka_unit_test(test_parts_without_copies),
        cmocka_unit_test(test_falling_series),
        cmocka_unit_test(test_long_series),
        cmocka_unit_test(test_series_without_numbers),
        cmocka_unit_test(test_extreme_series),
        cmocka_unit_test(test_wrong_series),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
