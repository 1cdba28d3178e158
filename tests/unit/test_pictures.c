/* Scales, lines and labels of pictures; the SVG and the charts that are made of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "report/chart_columns.h"
#include "report/compared.h"
#include "report/curve_series.h"
#include "report/robust_scale.h"
#include "report/svg.h"
#include "small_graphs.h"
#include "xml_check.h"

#include <neap/report.h>
#include <neap/text.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))
#define MIB             1048576
#define GIB             (1024LL * MIB)

/* A name that breaks what is careless: markup, quotes, a line break, C0 and C1 controls, a mark
   that reverses the writing direction, a byte that is not UTF-8. */
#define HOSTILE "<script>alert(\"x\")</script>'\n\033[31m\xc2\x9b\xe2\x80\xae\xff&amp;"

static void release(char *text)
{
    neap_release(NULL, text, strlen(text) + 1);
}

/* ---- Scales ---- */

static void test_robust_scale(void **state)
{
    (void)state;
    double none[1] = {0}, one[] = {7}, even[] = {10, 30, 20, 40}, same[] = {5, 5, 5, 5, 6};
    assert_true(neap_robust_most(none, 0) == 0);
    assert_true(neap_robust_most(one, 1) == 7);
    assert_true(neap_robust_most(even, 4) == 40);
    assert_true(even[0] == 10 && even[3] == 40); /* sorted */
    assert_true(neap_robust_most(same, 5) == 6);
    double outlier[] = {1, 2, 3, 4, 5, 6, 7, 8, 100, 9};
    assert_true(neap_robust_most(outlier, 10) == 9);
    /* quartiles 3.25 and 7.75: the fence is at 21.25, and 14 is within it */
    double near[] = {1, 2, 3, 4, 5, 6, 7, 8, 14, 9};
    assert_true(neap_robust_most(near, 10) == 14);
    /* past the fence, but not by so much that cutting it off would help */
    double beside[] = {10, 10, 10, 10, 17, 18};
    assert_true(neap_robust_most(beside, 6) == 18);
    double two[] = {0, 0, 1, 1, 2, 2, 3, 3, 300, 900};
    assert_true(neap_robust_most(two, 10) == 3);
}

static void test_axes(void **state)
{
    (void)state;
    neap_axis a = neap_axis_around(0.3, 9.2, 5);
    assert_true(a.first == 0 && a.last == 10 && a.n_steps == 5 && neap_axis_tick(&a, 2) == 4);
    a = neap_axis_within(0.3, 9.2, 5);
    assert_true(a.first == 0.3 && a.last == 9.2 && a.n_steps == 3);
    assert_true(neap_axis_tick(&a, 0) == 2 && neap_axis_tick(&a, a.n_steps) == 8);
    a = neap_axis_within(0, 10, 5);
    assert_true(neap_axis_tick(&a, 0) == 0 && neap_axis_tick(&a, a.n_steps) == 10);
    assert_string_equal(neap_time_unit_for(0.5).name, "ms");
    assert_string_equal(neap_time_unit_for(1).name, "s");
    assert_string_equal(neap_time_unit_for(1e-12).name, "ns");
}

static void test_labels_move_apart(void **state)
{
    (void)state;
    double centres[] = {10, 11, 50, 99, 99, 99};
    const double heights[] = {10, 10, 10, 10, 10, 20};
    neap_svg_block blocks[6];
    neap_svg_spread(centres, heights, 6, 0, 110, blocks);
    for (size_t i = 1; i < 6; i++)
        assert_true(centres[i] - heights[i] / 2 >= centres[i - 1] + heights[i - 1] / 2 - 1e-6);
    assert_true(centres[2] == 50); /* had room */
    assert_true(fabs((centres[0] + centres[1]) / 2 - 10.5) < 1e-9);
    assert_true(centres[5] + 10 <= 110 + 1e-6 && centres[0] - 5 >= 0);
}

/* ---- Lines ---- */

static const neap_curve_point methods[] = {
    {"a", 2 * GIB, true, GIB, 0.5},   {"a", 1 * GIB, true, GIB, 1.0},
    {"b", 1 * GIB, true, GIB, 1.001}, {"b", 2 * GIB, true, GIB, 0.501},
    {"c", 1 * GIB, false, 0, 0},      {"c", 2 * GIB, true, GIB, 0.5},
    {"d", 1 * GIB, false, 0, 0},      {"d", 2 * GIB, false, 0, 0},
    {"e", 1 * GIB, true, GIB, 1.02},  {"e", 2 * GIB, true, GIB, 0.5},
};

static neap_curve_picture picture_of(const neap_curve_point *points, size_t count)
{
    neap_curve_picture picture;
    neap_curve_picture_init(&picture);
    picture.title = "t";
    picture.points = points;
    picture.n_points = count;
    return picture;
}

static void test_coincident_methods_share_a_line(void **state)
{
    (void)state;
    neap_curve_picture picture = picture_of(methods, COUNT_OF(methods));
    neap_curve_series s;
    assert_int_equal(neap_curve_series_build(neap_allocator_system(), &picture, &s, NULL), NEAP_OK);
    /* a and b differ by less than a two-hundredth of 102%; e does not; c lacks a point */
    assert_int_equal(s.count, 3);
    assert_int_equal(s.items[0].n_names, 2);
    assert_string_equal(s.names[s.items[0].first_name], "a");
    assert_string_equal(s.names[s.items[0].first_name + 1], "b");
    assert_string_equal(s.names[s.items[1].first_name], "c");
    assert_string_equal(s.names[s.items[2].first_name], "e");
    assert_int_equal(s.n_never, 1);
    assert_string_equal(s.names[s.first_never], "d");
    assert_true(s.points[s.items[0].begin]->budget == GIB); /* by budget */
    assert_true(neap_series_end(&s, &s.items[1])->budget == 2 * GIB);
    neap_text label = {0};
    neap_series_label(&s, &s.items[0], &label);
    assert_string_equal(neap_text_get(&label), "a, b");
    neap_text_clear(&label);
    assert_true(s.low == 0 && s.high == 1.02 && !s.clipped);
    neap_curve_series_clear(&s);
}

/* The best bound of each budget counts, and holds for smaller budgets. */
static void test_bounds(void **state)
{
    (void)state;
    const neap_curve_bound bounds[] = {{300, 0.0}, {100, 0.1}, {200, 0.3}, {100, 0.2}, {300, 0.05}};
    neap_curve_picture picture = picture_of(methods, COUNT_OF(methods));
    picture.bounds = bounds;
    picture.n_bounds = COUNT_OF(bounds);
    neap_curve_series s;
    assert_int_equal(neap_curve_series_build(neap_allocator_system(), &picture, &s, NULL), NEAP_OK);
    assert_int_equal(s.n_bounds, 3);
    assert_true(s.bounds[0].budget == 100 && s.bounds[0].overhead == 0.3);
    assert_true(s.bounds[1].budget == 200 && s.bounds[1].overhead == 0.3);
    assert_true(s.bounds[2].budget == 300 && s.bounds[2].overhead == 0.05);
    neap_curve_series_clear(&s);
}

/* ---- The curve as SVG ---- */

static const neap_curve_point curve[] = {
    {"neap", 8 * GIB, true, 8 * GIB, 0.01},
    {"neap", 4 * GIB, true, 4 * GIB, 0.125},  /* not in order */
    {"neap", 5 * GIB, false, 0, (double)NAN}, /* interrupts the line */
    {"neap", 6 * GIB, true, 6 * GIB, 0.05},
    {"sqrt", 8 * GIB, true, 7 * GIB, 0.31},
    {"<r&\"o'tor>", 4 * GIB, false, 0, 0},
};

static char *svg_of(const neap_curve_picture *picture)
{
    char *text = NULL;
    size_t length = 0;
    neap_diag diag = {0};
    if (neap_report_curve_svg(NULL, picture, &text, &length, &diag) != NEAP_OK)
        fail_msg("%s", diag.message);
    assert_int_equal(strlen(text), length);
    assert_picture(text);
    return text;
}

static void test_curve_svg(void **state)
{
    (void)state;
    static const neap_curve_bound bounds[] = {{4 * GIB, 0.1}, {8 * GIB, 0}};
    for (size_t count = 0; count <= COUNT_OF(curve); count++) {
        neap_curve_picture picture = picture_of(curve, count);
        picture.natural_peak = 8 * GIB;
        picture.floor = 3 * GIB;
        picture.bounds = bounds;
        picture.n_bounds = count > 2 ? COUNT_OF(bounds) : 0;
        release(svg_of(&picture));
    }
    neap_curve_picture picture = picture_of(curve, COUNT_OF(curve));
    picture.natural_peak = 8 * GIB;
    picture.floor = 3 * GIB;
    char *text = svg_of(&picture);
    static const char *const parts[] = {
        "<title>neap: +12.50% at 4.00 GiB, peak 4.00 GiB</title>",
        "<title>sqrt: +31.00% at 8.00 GiB, peak 7.00 GiB</title>",
        "memory budget (GiB)",
        "never fits: &lt;r&amp;&quot;o&#39;tor&gt;",
        "natural peak 8.00 GiB",
        "floor: no plan needs less than 3.00 GiB",
        ">neap</text>",
        ">sqrt</text>",
    };
    for (size_t i = 0; i < COUNT_OF(parts); i++)
        if (!strstr(text, parts[i]))
            fail_msg("no %s in %s", parts[i], text);
    assert_int_equal(count_of(text, "<title>"), 1 + 4);
    assert_null(strstr(text, "5.00 GiB"));
    release(text);
}

/* An infeasible budget interrupts a line; the first method is drawn last, above the others. */
static void test_lines_are_interrupted(void **state)
{
    (void)state;
    neap_curve_picture picture = picture_of(curve, COUNT_OF(curve));
    char *text = svg_of(&picture);
    const char *line = strstr(text, "stroke-linejoin");
    assert_non_null(line);
    line = strstr(line + 1, "stroke-linejoin");
    assert_non_null(line);
    double x1, y1, x2, y2, x3, y3;
    assert_int_equal(sscanf(strstr(line, "d=\""), "d=\"M%lf %lfM%lf %lfL%lf %lf\"", &x1, &y1, &x2,
                            &y2, &x3, &y3),
                     6);
    assert_true(x1 < x2 && fabs(x3 - x2 - (x2 - x1)) < 0.05);
    assert_true(y1 < y2 && y2 < y3);
    release(text);
}

/* Bounds of budgets below the floor draw nothing, and one above the scale reaches its top. */
static void test_the_bound_stays_in_the_plot(void **state)
{
    (void)state;
    static const neap_curve_bound bounds[] = {
        {1 * GIB, 9}, {2 * GIB, 9}, {4 * GIB, 9}, {8 * GIB, 0}};
    neap_curve_picture picture = picture_of(curve, COUNT_OF(curve));
    picture.floor = 3 * GIB;
    picture.bounds = bounds;
    picture.n_bounds = COUNT_OF(bounds);
    char *text = svg_of(&picture);
    const char *area = strstr(text, "<path fill=\"#eceff2\"");
    assert_non_null(area);
    double left, top, y1, x1, y2, x2, bottom;
    assert_int_equal(sscanf(strstr(area, "d=\""), "d=\"M%lf %lfV%lfH%lfV%lfH%lfV%lf", &left, &top,
                            &y1, &x1, &y2, &x2, &bottom),
                     7);
    assert_true(left < x1 && x1 < x2 && top < y2 && y2 == bottom);
    assert_true(top == y1 && top < 60); /* the upper edge */
    release(text);
}

/* What is far above all others does not set the scale: an arrow, with its value. */
static void test_outliers_are_clipped(void **state)
{
    (void)state;
    neap_curve_point points[11];
    for (int i = 0; i < 10; i++)
        points[i] = (neap_curve_point){"m", (i + 1) * GIB, true, GIB, 0.2 - 0.02 * i};
    points[10] = (neap_curve_point){"wild", 5 * GIB, true, GIB, 12.34};
    neap_curve_picture picture = picture_of(points, 11);
    char *text = svg_of(&picture);
    assert_non_null(strstr(text, ">1234%</text>"));
    assert_non_null(strstr(text, "l5.5 10h-11z\"><title>wild: +1234.00% at 5.00 GiB"));
    assert_null(strstr(text, ">1000%<"));
    assert_non_null(strstr(text, ">20%</text>"));
    release(text);
    points[10].overhead = 0.21;
    text = svg_of(&picture);
    assert_null(strstr(text, "l5.5 10h-11z"));
    release(text);
}

static void test_many_methods(void **state)
{
    (void)state;
    enum { METHODS = 60 };
    char names[METHODS][80];
    neap_curve_point points[METHODS];
    for (int i = 0; i < METHODS; i++) {
        snprintf(names[i], sizeof names[i], "a method whose name is very very long, number %d", i);
        points[i] = (neap_curve_point){names[i], (i + 1) * 1000, true, 0, 0.01 * i};
    }
    neap_curve_picture picture = picture_of(points, METHODS);
    char *text = svg_of(&picture);
    assert_int_equal(count_of(text, "a method whose name is very very long, …</text>"), METHODS);
    /* no two labels overlap */
    double last = -100;
    const char *at = text;
    while ((at = strstr(at, "<text font-size=\"12.5\" x=\"")) != NULL) {
        double x, y;
        assert_int_equal(sscanf(at, "<text font-size=\"12.5\" x=\"%lf\" y=\"%lf\">", &x, &y), 2);
        assert_true(y - last >= 15);
        last = y;
        at++;
    }
    release(text);
    for (int i = 0; i < METHODS; i++)
        points[i] = (neap_curve_point){names[i], 1000, true, 0, 0.5};
    text = svg_of(&picture); /* one line, with a label that says how many there are */
    assert_int_equal(count_of(text, "stroke-linejoin"), 1);
    assert_non_null(strstr(text, " +57</text>"));
    release(text);
}

static void test_curve_refuses_nonsense(void **state)
{
    (void)state;
    static const neap_curve_point wrong[] = {
        {NULL, 1, true, 1, 0},
        {"m", -1, true, 1, 0},
        {"m", 1, true, 1, (double)NAN},
        {"m", 1, true, 1, (double)HUGE_VAL},
    };
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        char *text;
        size_t length;
        neap_diag diag = {0};
        neap_curve_picture picture = picture_of(&wrong[i], 1);
        assert_int_equal(neap_report_curve_svg(NULL, &picture, &text, &length, &diag),
                         NEAP_INVALID);
        assert_null(text);
        assert_non_null(strstr(diag.message, "point 0 of the curve"));
        assert_int_equal(neap_report_curve_chart(NULL, &picture, NULL, &text, &length, &diag),
                         NEAP_INVALID);
    }
    neap_curve_bound bound = {1, (double)NAN};
    neap_curve_picture picture = picture_of(curve, 1);
    char *text;
    size_t length;
    picture.bounds = &bound;
    picture.n_bounds = 1;
    assert_int_equal(neap_report_curve_svg(NULL, &picture, &text, &length, NULL), NEAP_INVALID);
}

/* ---- The curve as text ---- */

static char *curve_chart(const neap_curve_picture *picture, int width, int height, bool unicode)
{
    neap_chart_options options;
    neap_diag diag = {0};
    char *text = NULL;
    size_t length;
    neap_chart_options_init(&options);
    options.width = width;
    options.height = height;
    options.unicode = unicode;
    if (neap_report_curve_chart(NULL, picture, &options, &text, &length, &diag) != NEAP_OK)
        fail_msg("%s", diag.message);
    return text;
}

static void assert_text(char *text, const char *expected)
{
    if (strcmp(text, expected) != 0)
        fail_msg("\n%s\nis not\n%s", text, expected);
    release(text);
}

static void test_curve_chart(void **state)
{
    (void)state;
    static const neap_curve_point points[] = {
        {"neap", 2 * GIB, true, GIB, 0.2},  {"neap", 4 * GIB, true, GIB, 0},
        {"rotor", 2 * GIB, true, GIB, 0.4}, {"rotor", 4 * GIB, true, GIB, 0.2},
        {"none", 4 * GIB, false, 0, 0},
    };
    static const neap_curve_bound bounds[] = {{2 * GIB, 0.1}, {4 * GIB, 0}};
    neap_curve_picture picture = picture_of(points, COUNT_OF(points));
    picture.natural_peak = 4 * GIB;
    picture.bounds = bounds;
    picture.n_bounds = COUNT_OF(bounds);
    picture.floor = 3 * GIB / 2;
    assert_text(curve_chart(&picture, 44, 9, false),
                "t: time overhead by memory budget\n"
                "40% +//        b....                            :\n"
                "    |//             ........                    :\n"
                "30% +//                     ........            :\n"
                "    |//                             ........    :\n"
                "20% +//        a....                        ....b\n"
                "    |//             ........                    :\n"
                "10% +//---------            ........            :\n"
                "    |//                             ........    :\n"
                " 0% +//         ----------------------------....a\n"
                "    +----------+---------------+----------------+\n"
                "             2 GiB           3 GiB          4 GiB\n"
                "     a neap  b rotor\n"
                "     never fits: none\n"
                "     - bound: no plan is faster  / floor 1.50 GiB\n"
                "     : natural peak 4.00 GiB\n");
}

/* Whatever the names, no line is longer than asked for, and nothing but text is printed. */
static void check_lines(const char *text, size_t most)
{
    for (const char *line = text; *line;) {
        size_t bytes = strcspn(line, "\n");
        if (neap_string_characters(line, bytes) > most)
            fail_msg("%.*s is longer than %zu", (int)bytes, line, most);
        line += bytes + (line[bytes] == '\n');
    }
    for (const char *c = text; *c; c++)
        assert_true((unsigned char)*c >= 0x20 || *c == '\n');
    assert_null(strstr(text, "\xc2\x9b"));
    assert_null(strstr(text, "\xe2\x80\xae"));
}

/* ---- Comparisons ---- */

static const neap_comparison_row rows[] = {
    {"sqrt", true, 3 * GIB, 0.30, NULL, -1},
    {"neap", true, 4 * GIB, 0.10, NULL, -1},
    {"store-all", false, 0, 0, NULL, 8 * GIB},
    {"slow", false, 0, 0, "time limit", -1},
};

static neap_comparison comparison_of(const neap_comparison_row *items, size_t count)
{
    neap_comparison comparison;
    neap_comparison_init(&comparison);
    comparison.title = "t";
    comparison.rows = items;
    comparison.n_rows = count;
    comparison.budget = 4 * GIB;
    comparison.natural_peak = 8 * GIB;
    comparison.floor = GIB;
    comparison.has_bound = true;
    comparison.bound = 0.05;
    return comparison;
}

static char *comparison_svg(const neap_comparison *comparison)
{
    char *text = NULL;
    size_t length = 0;
    neap_diag diag = {0};
    if (neap_report_comparison_svg(NULL, comparison, &text, &length, &diag) != NEAP_OK)
        fail_msg("%s", diag.message);
    assert_int_equal(strlen(text), length);
    assert_picture(text);
    return text;
}

static char *comparison_chart(const neap_comparison *comparison, int width, bool unicode)
{
    neap_chart_options options;
    neap_diag diag = {0};
    char *text = NULL;
    size_t length;
    neap_chart_options_init(&options);
    options.width = width;
    options.unicode = unicode;
    if (neap_report_comparison_chart(NULL, comparison, &options, &text, &length, &diag) != NEAP_OK)
        fail_msg("%s", diag.message);
    return text;
}

static void test_comparison_svg(void **state)
{
    (void)state;
    for (size_t count = 0; count <= COUNT_OF(rows); count++) {
        neap_comparison comparison = comparison_of(rows, count);
        char *text = comparison_svg(&comparison);
        assert_int_equal(count_of(text, "no method has a plan"), count == 0);
        release(text);
    }
    neap_comparison comparison = comparison_of(rows, COUNT_OF(rows));
    char *text = comparison_svg(&comparison);
    static const char *const parts[] = {
        ">+30.00%<",
        ">+10.00%<",
        ">bound +5.00%<",
        ">budget 4.00 GiB<",
        ">natural peak 8.00 GiB<",
        ">floor 1.00 GiB<",
        "infeasible: needs at least 8.00 GiB",
        "time limit</text>",
    };
    for (size_t i = 0; i < COUNT_OF(parts); i++)
        if (!strstr(text, parts[i]))
            fail_msg("no %s in %s", parts[i], text);
    assert_true(strstr(text, ">neap<") < strstr(text, ">sqrt<")); /* the fastest first */
    release(text);
    comparison.by_peak = true;
    text = comparison_svg(&comparison);
    assert_true(strstr(text, ">sqrt<") < strstr(text, ">neap<"));
    release(text);
    comparison.has_bound = false;
    comparison.budget = comparison.natural_peak = comparison.floor = -1;
    text = comparison_svg(&comparison);
    assert_null(strstr(text, "bound"));
    assert_null(strstr(text, "budget"));
    release(text);
    static const neap_comparison_row wrong[] = {{NULL, true, 1, 0, NULL, -1},
                                                {"m", true, -1, 0, NULL, -1},
                                                {"m", true, 1, (double)NAN, NULL, -1}};
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        size_t length;
        neap_diag diag = {0};
        comparison = comparison_of(&wrong[i], 1);
        assert_int_equal(neap_report_comparison_svg(NULL, &comparison, &text, &length, &diag),
                         NEAP_INVALID);
        assert_non_null(strstr(diag.message, "row 0 of the comparison"));
        assert_int_equal(
            neap_report_comparison_chart(NULL, &comparison, NULL, &text, &length, &diag),
            NEAP_INVALID);
    }
}

static void test_comparison_chart(void **state)
{
    (void)state;
    neap_comparison comparison = comparison_of(rows, COUNT_OF(rows));
    assert_text(comparison_chart(&comparison, 70, false),
                "t\n"
                "           time overhead               peak memory\n"
                "neap       =====              +10.00%  ========|      :  4.00 GiB\n"
                "sqrt       ================   +30.00%  ======  |      :  3.00 GiB\n"
                "store-all  infeasible: needs at least 8.00 GiB\n"
                "slow       time limit\n"
                "           | bound +5.00%  | budget 4.00 GiB  : natural peak 8.00 GiB\n");
}

/* ---- Memory over time ---- */

/* x 1 MiB -> A (workspace 1 MiB) -> a 2 -> B -> b 1 -> L; Lb -> db; Bb reads a, db -> da 2. */
static const char two_layers[] =
    "{'neap': 'graph', 'version': 1, 'name': 'two', 'fixed_bytes': 1048576,"
    " 'values': [{'name': 'x', 'bytes': 1048576, 'kind': 'parameter'},"
    "  {'name': 'a', 'bytes': 2097152}, {'name': 'b', 'bytes': 1048576},"
    "  {'name': 'l', 'bytes': 0}, {'name': 'db', 'bytes': 1048576},"
    "  {'name': 'da', 'bytes': 2097152, 'kind': 'gradient'}],"
    " 'ops': [{'name': 'A', 'type': 'op', 'pass': 'forward', 'inputs': [0], 'outputs': [1],"
    "   'time': 1e-3, 'workspace': 1048576},"
    "  {'name': 'B', 'type': 'op', 'pass': 'forward', 'inputs': [1], 'outputs': [2],"
    "   'time': 1e-3, 'workspace': 0},"
    "  {'name': 'L', 'type': 'op', 'pass': 'forward', 'inputs': [2], 'outputs': [3],"
    "   'time': 1e-3, 'workspace': 0},"
    "  {'name': 'Lb', 'type': 'op', 'pass': 'backward', 'inputs': [2, 3], 'outputs': [4],"
    "   'time': 1e-3, 'workspace': 0},"
    "  {'name': 'Bb', 'type': 'op', 'pass': 'backward', 'inputs': [1, 4], 'outputs': [5],"
    "   'time': 2e-3, 'workspace': 0}],"
    " 'outputs': [5]}";

#define RECOMPUTING "c0 c1 f1 c2 c3 f2 f3 c0 c4 f1 f4"
#define OFFLOADING  "c0 c1 o1 f1 c2 p1 c3 f2 f3 c4 f1 f4"
#define NATURAL     "c0 c1 c2 c3 f2 f3 c4 f1 f4"

static const neap_link fast = {2 * MIB * 1e3, 2 * MIB * 1e3, 0, true, 0};

/* A column shows the parts of the most memory in it: at the peak, those of the peak. */
static void test_columns_have_parts(void **state)
{
    (void)state;
    static const char *const plans[] = {RECOMPUTING, OFFLOADING, NATURAL};
    neap_graph *graph = graph_from(two_layers);
    for (size_t i = 0; i < COUNT_OF(plans); i++) {
        neap_plan *plan = plan_from(plans[i]);
        neap_timeline timeline;
        neap_memory_parts parts;
        neap_chart_columns columns;
        bool found = false;
        assert_int_equal(neap_timeline_build(NULL, graph, plan, &fast, &timeline, NULL), NEAP_OK);
        assert_int_equal(neap_plan_peak_parts(NULL, graph, plan, &parts, NULL), NEAP_OK);
        assert_int_equal(neap_chart_columns_build(neap_allocator_system(), graph, plan, &timeline,
                                                  70, &columns, NULL),
                         NEAP_OK);
        for (size_t c = 0; c < columns.count; c++) {
            const neap_chart_column *column = &columns.items[c];
            int64_t sum = 0;
            for (int k = 0; k < NEAP_MEMORY_CLASSES; k++)
                sum += column->parts[k];
            assert_int_equal(sum, column->bytes);
            if (found || column->bytes < timeline.peak_bytes)
                continue;
            found = true;
            assert_int_equal(column->parts[NEAP_MEMORY_PARAMETERS], parts.parameters);
            assert_int_equal(column->parts[NEAP_MEMORY_GRADIENTS], parts.gradients);
            assert_int_equal(column->parts[NEAP_MEMORY_ACTIVATIONS], parts.activations);
            assert_int_equal(column->parts[NEAP_MEMORY_WORKSPACE], parts.workspace);
            assert_int_equal(column->parts[NEAP_MEMORY_OTHER], parts.other);
        }
        assert_true(found);
        neap_chart_columns_clear(&columns);
        neap_timeline_clear(&timeline);
        neap_plan_destroy(plan);
    }
    neap_graph_destroy(graph);
}

static char *memory_svg(const neap_graph *graph, const neap_plan *plan, const neap_plan *natural,
                        const char *title, int64_t budget)
{
    neap_timeline timeline;
    neap_memory_picture picture;
    neap_diag diag = {0};
    char *text;
    size_t length;
    assert_int_equal(neap_timeline_build(NULL, graph, plan, &fast, &timeline, NULL), NEAP_OK);
    neap_memory_picture_init(&picture, graph, plan, &timeline);
    picture.title = title;
    picture.natural = natural;
    picture.budget = budget;
    if (neap_report_memory_svg(NULL, &picture, &text, &length, &diag) != NEAP_OK)
        fail_msg("%s", diag.message);
    assert_int_equal(strlen(text), length);
    assert_picture(text);
    neap_timeline_clear(&timeline);
    return text;
}

static void test_memory_svg(void **state)
{
    (void)state;
    neap_graph *graph = graph_from(two_layers);
    neap_plan *again = plan_from(RECOMPUTING), *moved = plan_from(OFFLOADING);
    neap_plan *natural = plan_from(NATURAL);
    char *text = memory_svg(graph, again, natural, "a title", 7 * MIB);
    static const char *const parts[] = {
        ">a title<",       ">memory (MiB)<",   ">time (ms)<",
        ">parameters<",    ">gradients<",      ">activations<",
        ">workspace<",     ">data and other<", ">recomputing<",
        ">forward<",       ">backward<",       ">budget 7.00 MiB<",
        ">peak 7.00 MiB<", ">compute<",        ">natural peak 7.00 MiB<"};
    for (size_t i = 0; i < COUNT_OF(parts); i++)
        if (!strstr(text, parts[i]))
            fail_msg("no %s in %s", parts[i], text);
    assert_null(strstr(text, "to the host"));
    assert_null(strstr(text, "optimizer state"));
    release(text);
    text = memory_svg(graph, moved, NULL, NULL, -1);
    assert_non_null(strstr(text, ">to the host<"));
    assert_non_null(strstr(text, ">from the host<"));
    assert_non_null(strstr(text, ">two, ")); /* the graph's name, for want of a title */
    assert_null(strstr(text, "natural"));
    assert_null(strstr(text, "budget"));
    release(text);
    text = memory_svg(graph, again, natural, "t", 7000LL * MIB);
    assert_non_null(strstr(text, "budget 6.84 GiB (off the scale)"));
    release(text);
    neap_plan_destroy(natural);
    neap_plan_destroy(moved);
    neap_plan_destroy(again);
    neap_graph_destroy(graph);
}

/* A hundred thousand ops make a picture of bounded size, whose peak is the plan's. */
static void test_long_plans(void **state)
{
    (void)state;
    neap_graph *graph = unit_chain(10000); /* as long as the model allows */
    uint32_t n_ops = neap_graph_op_count(graph);
    /* every forward op five times, so that each is computed again and again */
    size_t length = 0, capacity = (size_t)n_ops * 8;
    neap_plan *plan;
    neap_diag diag = {0};
    assert_int_equal(neap_plan_create(NULL, "chain", "m", -1, &plan, NULL), NEAP_OK);
    uint32_t forward = n_ops / 2;
    for (uint32_t i = 0; i < n_ops; i++) {
        neap_step step = {NEAP_COMPUTE, i, 0, false};
        assert_int_equal(neap_plan_append(plan, step, NULL), NEAP_OK);
        uint32_t output = neap_graph_op(graph, i)->outputs[0];
        for (int again = 0; i < forward && again < 9 && length < capacity; again++, length++) {
            assert_int_equal(neap_plan_append(plan, (neap_step){NEAP_FREE, output, 0, false}, NULL),
                             NEAP_OK);
            assert_int_equal(neap_plan_append(plan, step, NULL), NEAP_OK);
        }
    }
    assert_true(neap_plan_step_count(plan) > 100000);
    neap_timeline timeline;
    if (neap_timeline_build(NULL, graph, plan, NULL, &timeline, &diag) != NEAP_OK)
        fail_msg("%s", diag.message);
    neap_chart_columns columns;
    assert_int_equal(neap_chart_columns_build(neap_allocator_system(), graph, plan, &timeline, 1520,
                                              &columns, NULL),
                     NEAP_OK);
    int64_t most = 0;
    for (size_t i = 0; i < columns.count; i++)
        most = columns.items[i].bytes > most ? columns.items[i].bytes : most;
    assert_int_equal(most, timeline.peak_bytes);
    char *text = memory_svg(graph, plan, plan, "t", -1);
    assert_true(strlen(text) < 300000);
    release(text);
    neap_chart_columns_clear(&columns);
    neap_timeline_clear(&timeline);
    neap_plan_destroy(plan);
    neap_graph_destroy(graph);
}

/* ---- Hostile names ---- */

static void test_hostile_names(void **state)
{
    (void)state;
    static char huge[10241];
    memset(huge, 'x', sizeof huge - 1);
    const char *const names[] = {HOSTILE, huge, "", "\xe2\x80\xae\xef\xbb\xbf", "a\nb"};
    neap_graph *graph = graph_from(two_layers);
    neap_plan *plan = plan_from(RECOMPUTING);
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        const neap_curve_point points[] = {{names[i], 100, true, 90, 0.1},
                                           {names[i], 200, true, 90, 0.05},
                                           {"b", 100, true, 90, 0.1},
                                           {"b", 200, true, 90, 0.05},
                                           {huge, 100, false, 0, 0}};
        const neap_comparison_row items[] = {{names[i], true, 90, 0.1, NULL, -1},
                                             {names[i], false, 0, 0, names[i], 100}};
        neap_curve_picture picture = picture_of(points, i == 1 ? 4 : 5);
        neap_comparison comparison = comparison_of(items, 2);
        picture.title = comparison.title = names[i];
        char *texts[] = {svg_of(&picture), comparison_svg(&comparison),
                         memory_svg(graph, plan, NULL, names[i], 100)};
        for (size_t k = 0; k < COUNT_OF(texts); k++) {
            assert_null(strstr(texts[k], "\xe2\x80\xae"));
            assert_null(strstr(texts[k], "\xc2\x9b"));
            assert_true(strlen(texts[k]) < 20000);
            release(texts[k]);
        }
        for (int unicode = 0; unicode < 2; unicode++) {
            char *text = curve_chart(&picture, 40, 8, unicode);
            check_lines(text, 40 + 8);
            release(text);
            text = comparison_chart(&comparison, 60, unicode);
            check_lines(text, 60);
            release(text);
        }
    }
    neap_plan_destroy(plan);
    neap_graph_destroy(graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_robust_scale),
        cmocka_unit_test(test_axes),
        cmocka_unit_test(test_labels_move_apart),
        cmocka_unit_test(test_coincident_methods_share_a_line),
        cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_curve_svg),
        cmocka_unit_test(test_lines_are_interrupted),
        cmocka_unit_test(test_the_bound_stays_in_the_plot),
        cmocka_unit_test(test_outliers_are_clipped),
        cmocka_unit_test(test_many_methods),
        cmocka_unit_test(test_curve_refuses_nonsense),
        cmocka_unit_test(test_curve_chart),
        cmocka_unit_test(test_comparison_svg),
        cmocka_unit_test(test_comparison_chart),
        cmocka_unit_test(test_columns_have_parts),
        cmocka_unit_test(test_memory_svg),
        cmocka_unit_test(test_long_plans),
        cmocka_unit_test(test_hostile_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
