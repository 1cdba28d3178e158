/* neap/report.h: the memory chart, which can be checked by eye. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "small_graphs.h"

#include <neap/report.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))
#define MIB             1048576

/* ---- Charts ---- */

/* 1 MiB fixed, x 1 MiB -> A (workspace 1) -> a 2 -> B -> b 1 -> L; Lb -> db 1; Bb reads a, db ->
 * da 2. */
static const char two_layers[] =
    "{'neap': 'graph', 'version': 1, 'name': 'two', 'fixed_bytes': 1048576,"
    " 'values': [{'name': 'x', 'bytes': 1048576, 'kind': 'input'},"
    "  {'name': 'a', 'bytes': 2097152}, {'name': 'b', 'bytes': 1048576},"
    "  {'name': 'l', 'bytes': 0}, {'name': 'db', 'bytes': 1048576},"
    "  {'name': 'da', 'bytes': 2097152}],"
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

/* 5 MiB for 2 ms, 3 for 1, 4 for 1, then A again: 6 for 1, 7 for 2. */
#define RECOMPUTING "c0 c1 f1 c2 c3 f2 f3 c0 c4 f1 f4"
/* a leaves during the third and comes back during the fifth millisecond. */
#define OFFLOADING "c0 c1 o1 f1 c2 p1 c3 f2 f3 c4 f1 f4"

static char *chart_with(neap_allocator *allocator, const char *json, const char *steps,
                        const neap_chart_options *options, neap_status *status, neap_diag *diag)
{
    neap_graph *graph = graph_from(json);
    neap_plan *plan = plan_from(steps);
    neap_link link = {2 * MIB * 1e3, 2 * MIB * 1e3, 0, true, 0};
    neap_timeline timeline;
    assert_int_equal(neap_timeline_build(NULL, graph, plan, &link, &timeline, NULL), NEAP_OK);
    char *text = NULL, *copy = NULL;
    size_t length = 0;
    *status =
        neap_report_memory_chart(allocator, graph, plan, &timeline, options, &text, &length, diag);
    if (*status == NEAP_OK) {
        assert_int_equal(strlen(text), length);
        copy = malloc(length + 1);
        assert_non_null(copy);
        memcpy(copy, text, length + 1);
        neap_release(allocator, text, length + 1);
    } else {
        assert_null(text);
    }
    neap_timeline_clear(&timeline);
    neap_plan_destroy(plan);
    neap_graph_destroy(graph);
    return copy;
}

static char *chart_of(const char *json, const char *steps, const neap_chart_options *options)
{
    neap_status status;
    neap_diag diag = {0};
    char *text = chart_with(NULL, json, steps, options, &status, &diag);
    if (status != NEAP_OK)
        fail_msg("%s", diag.message);
    return text;
}

static neap_chart_options options_of(int width, int height)
{
    neap_chart_options options;
    neap_chart_options_init(&options);
    options.width = width;
    options.height = height;
    return options;
}

static void assert_chart(const char *json, const char *steps, const neap_chart_options *options,
                         const char *expected)
{
    char *text = chart_of(json, steps, options);
    if (strcmp(text, expected) != 0)
        fail_msg("\n%s\nis not\n%s", text, expected);
    free(text);
}

static void test_options(void **state)
{
    (void)state;
    neap_chart_options options;
    neap_chart_options_init(&options);
    assert_int_equal(options.width, 72);
    assert_int_equal(options.height, 12);
    assert_false(options.color);
    assert_true(options.unicode);
    assert_int_equal(options.budget, -1);
    assert_int_equal(options.natural_peak, -1);
}

/* A row is 10/6 MiB: 5 MiB are three rows, 3 are 1 and six eighths, 7 are 4 and an eighth. */
static void test_recomputation(void **state)
{
    (void)state;
    neap_chart_options options = options_of(28, 6);
    options.budget = 6 * MIB;
    options.natural_peak = 8 * MIB;
    assert_chart(two_layers, RECOMPUTING, &options,
                 "two, hand: peak 7.00 MiB (1.00 MiB …\n"
                 "10 MiB ┤\n"
                 "       ◆                    ▁▁▁▁▁▁▁▁\n"
                 "       │────────────────▄▄▄▄▓▓▓▓▓▓▓▓\n"
                 " 5 MiB ┤████████    ▃▃▃▃████████████\n"
                 "       │████████▆▆▆▆████████████████\n"
                 "       │████████████████████████████\n"
                 "     0 └────────────────────┬───────\n"
                 "        0                 5 ms\n"
                 "   ops  FFFFFFFFFFFFBBBBRRRRBBBBBBBB\n"
                 "        F forward  B backward\n"
                 "        R recomputing\n"
                 "        ▓ over the budget\n"
                 "        ─ budget 6.00 MiB\n"
                 "        ◆ natural peak 8.00 MiB\n");
    options.unicode = false;
    assert_chart(two_layers, RECOMPUTING, &options,
                 "two, hand: peak 7.00 MiB (1.00 Mi...\n"
                 "10 MiB +\n"
                 "       *                    ........\n"
                 "       |----------------::::!!!!!!!!\n"
                 " 5 MiB +########    ::::############\n"
                 "       |############################\n"
                 "       |############################\n"
                 "     0 +--------------------+-------\n"
                 "        0                 5 ms\n"
                 "   ops  FFFFFFFFFFFFBBBBRRRRBBBBBBBB\n"
                 "        F forward  B backward\n"
                 "        R recomputing\n"
                 "        ! over the budget\n"
                 "        - budget 6.00 MiB\n"
                 "        * natural peak 8.00 MiB\n");
}

/* With room, both are named where they stand; what is far above is named at the top. */
static void test_labels_in_the_plot(void **state)
{
    (void)state;
    neap_chart_options options = options_of(56, 6);
    options.budget = 15 * MIB / 2;
    options.natural_peak = 9 * MIB;
    assert_chart(two_layers, RECOMPUTING, &options,
                 "two, hand: peak 7.00 MiB, 7.00 ms, 14.3% of it recomputing\n"
                 "10 MiB ◆ natural peak 9.00 MiB\n"
                 "       │─ budget 7.50 MiB ──────────────────────▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁\n"
                 "       │                                ▄▄▄▄▄▄▄▄████████████████\n"
                 " 5 MiB ┤████████████████        ▃▃▃▃▃▃▃▃████████████████████████\n"
                 "       │████████████████▆▆▆▆▆▆▆▆████████████████████████████████\n"
                 "       │████████████████████████████████████████████████████████\n"
                 "     0 └────────────────┬───────────────┬───────────────┬───────\n"
                 "        0             2 ms            4 ms            6 ms\n"
                 "   ops  FFFFFFFFFFFFFFFFFFFFFFFFBBBBBBBBRRRRRRRRBBBBBBBBBBBBBBBB\n"
                 "        F forward  B backward  R recomputing\n");
    options.budget = 100 * MIB;
    options.natural_peak = -1;
    char *text = chart_of(two_layers, RECOMPUTING, &options);
    assert_non_null(strstr(text, "7.5 MiB ┤  budget 100 MiB ↑ "));
    assert_null(strstr(text, "─ budget"));
    free(text);
}

/* The stream waits while a leaves (freeing it waits), not while it comes back beside Lb. */
static void test_transfers(void **state)
{
    (void)state;
    neap_chart_options options = options_of(42, 6);
    assert_chart(two_layers, OFFLOADING, &options,
                 "two, hand: peak 7.00 MiB, 7.00 ms, 14.3% waiting\n"
                 "7.5 MiB ┤                              ▄▄▄▄▄▄▄▄▄▄▄▄\n"
                 "        │                        ▆▆▆▆▆▆████████████\n"
                 "5.0 MiB ┤██████████████████      ██████████████████\n"
                 "        │██████████████████▃▃▃▃▃▃██████████████████\n"
                 "2.5 MiB ┤██████████████████████████████████████████\n"
                 "        │██████████████████████████████████████████\n"
                 "      0 └───────────────┬──────────────┬───────────\n"
                 "         0           2.5 ms         5.0 ms\n"
                 "    ops  FFFFFFFFFFFF······FFFFFFBBBBBBBBBBBBBBBBBB\n"
                 "   copy              >>>>>>      <<<<<<\n"
                 "         F forward  B backward  · waiting\n"
                 "         > to the host  < back\n");
}

static const char still[] =
    "{'neap': 'graph', 'version': 1, 'name': 'still', 'fixed_bytes': 0,"
    " 'values': [{'name': 'x', 'bytes': 100, 'kind': 'input'}, {'name': 'a', 'bytes': 300},"
    "  {'name': 'b', 'bytes': 200}],"
    " 'ops': [{'name': 'A', 'type': 'op', 'pass': 'forward', 'inputs': [0], 'outputs': [1],"
    "   'time': 0, 'workspace': 0},"
    "  {'name': 'B', 'type': 'op', 'pass': 'backward', 'inputs': [1], 'outputs': [2],"
    "   'time': 0, 'workspace': 200}],"
    " 'outputs': [2]}";

/* Without times, every step is as wide as another. */
static void test_plan_without_times(void **state)
{
    (void)state;
    neap_chart_options options = options_of(30, 4);
    assert_chart(still, "c0 c1 f1", &options,
                 "still, hand: peak 800 B, 3 steps\n"
                 "1000 B ┤          ▁▁▁▁▁▁▁▁▁▁\n"
                 "       │          ██████████▃▃▃▃▃▃▃▃▃▃\n"
                 " 500 B ┤▄▄▄▄▄▄▄▄▄▄████████████████████\n"
                 "       │██████████████████████████████\n"
                 "     0 └────────────────────┬─────────\n"
                 "        0                2 steps\n"
                 "   ops  FFFFFFFFFFBBBBBBBBBB\n"
                 "        F forward  B backward\n");
    options.height = 2;
    assert_chart(still, "", &options,
                 "still, hand: peak 100 B, 0 steps\n"
                 "100 B ┤██████████████████████████████\n"
                 "      │██████████████████████████████\n"
                 "    0 └──────────────────────────────\n"
                 "       0\n"
                 "  ops\n");
}

/* Characters of the line at `text`, and in *next where the following one begins. */
static int line_width(const char *text, const char **next)
{
    int width = 0;
    for (; *text != '\n'; text++) {
        assert_true(*text != '\0');
        width += ((unsigned char)*text & 0xc0) != 0x80;
    }
    *next = text + 1;
    return width;
}

static void test_sizes_are_honoured(void **state)
{
    (void)state;
    for (int width = 24; width <= 140; width += 3)
        for (int height = 2; height <= 30; height += 4)
            for (int variant = 0; variant < 4; variant++) {
                neap_chart_options options = options_of(width, height);
                options.unicode = variant & 1;
                options.budget = variant & 2 ? 6 * MIB : -1;
                options.natural_peak = variant & 2 ? 8 * MIB : -1;
                char *text = chart_of(two_layers, RECOMPUTING, &options);
                const char *at = text, *axis = strstr(text, variant & 1 ? "└" : " 0 +");
                int lines = 0, widest = 0, axis_width = 0;
                while (*at) {
                    if (at <= axis && axis)
                        lines++;
                    bool is_axis = axis && at <= axis;
                    int line = line_width(at, &at);
                    if (is_axis)
                        axis_width = line;
                    widest = line > widest ? line : widest;
                }
                assert_non_null(axis);
                assert_int_equal(lines, 1 + height + 1); /* caption, plot, axis */
                assert_int_equal(widest, axis_width);
                int gutter = axis_width - width;
                assert_true(gutter >= 6 && gutter <= 10);
                assert_null(strchr(text, '\033'));
                free(text);
            }
}

/* Colour adds escape codes and nothing else, but for blocks above the budget. */
static void test_colour(void **state)
{
    (void)state;
    neap_chart_options options = options_of(60, 10);
    options.budget = 7 * MIB;
    char *plain = chart_of(two_layers, RECOMPUTING, &options);
    options.color = true;
    char *colored = chart_of(two_layers, RECOMPUTING, &options), *to = colored;
    assert_non_null(strstr(colored, "\033[0;34m█"));
    assert_non_null(strstr(colored, "\033[0;1;33mR"));
    for (const char *from = colored; *from;) {
        if (*from == '\033')
            from += strcspn(from, "m") + 1;
        else
            *to++ = *from++;
    }
    *to = '\0';
    assert_string_equal(colored, plain);
    free(colored);
    free(plain);
    options.budget = 5 * MIB + MIB / 2;
    colored = chart_of(two_layers, RECOMPUTING, &options);
    assert_non_null(strstr(colored, "\033[0;31m▁"));    /* 6 MiB, above the budget */
    assert_non_null(strstr(colored, "\033[0;34;41m▄")); /* the row that the budget divides */
    assert_null(strstr(colored, "▓"));
    const char *last = strrchr(colored, '\033');
    assert_memory_equal(last, "\033[0m\n", 5);
    free(colored);
}

/* A name cannot reach the terminal with escape codes, nor break a line. */
static void test_names_are_cleaned(void **state)
{
    (void)state;
    char *text = chart_of("{'neap': 'graph', 'version': 1, 'name': 'a\\u001b[31m\\nb\\u009bc',"
                          " 'fixed_bytes': 8, 'values': [], 'ops': [], 'outputs': []}",
                          "", NULL);
    assert_memory_equal(text, "a?[31m?b?c, hand: peak 8 B", 26);
    assert_null(strchr(text, '\033'));
    free(text);
}

static void test_wrong_arguments(void **state)
{
    (void)state;
    static const int sizes[][2] = {{23, 12}, {1001, 12}, {72, 1}, {72, 201}, {-1, -1}};
    neap_status status;
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        neap_diag diag = {0};
        neap_chart_options options = options_of(sizes[i][0], sizes[i][1]);
        assert_null(chart_with(NULL, still, "c0", &options, &status, &diag));
        assert_int_equal(status, NEAP_INVALID);
        assert_non_null(strstr(diag.message, "the width must be 24 to 1000"));
    }
    neap_graph *graph = graph_from(still);
    neap_plan *plan = plan_from("c0 c1"), *other = plan_from("c0"), *stranger = plan_from("c0 c7");
    neap_timeline timeline;
    assert_int_equal(neap_timeline_build(NULL, graph, plan, NULL, &timeline, NULL), NEAP_OK);
    char *text;
    size_t length;
    neap_diag diag = {0};
    assert_int_equal(
        neap_report_memory_chart(NULL, graph, other, &timeline, NULL, &text, &length, &diag),
        NEAP_INVALID);
    assert_non_null(strstr(diag.message, "2 steps, but the plan has 1"));
    assert_int_equal(
        neap_report_memory_chart(NULL, graph, stranger, &timeline, NULL, &text, &length, &diag),
        NEAP_INVALID);
    assert_non_null(strstr(diag.message, "op 7"));
    neap_timeline_clear(&timeline);
    neap_plan_destroy(plan);
    neap_plan_destroy(other);
    neap_plan_destroy(stranger);
    neap_graph_destroy(graph);
}

/* ---- Memory ---- */

typedef struct failing_allocator {
    neap_allocator base;
    size_t in_use;
    int left; /* allocations that still succeed */
} failing_allocator;

static void *failing_resize(neap_allocator *self, void *block, size_t old_size, size_t new_size)
{
    failing_allocator *allocator = (failing_allocator *)self;
    if (new_size > 0 && allocator->left-- <= 0)
        return NULL;
    allocator->in_use += new_size - old_size;
    return neap_allocator_system()->resize(NULL, block, old_size, new_size);
}

static void test_every_allocation_may_fail(void **state)
{
    (void)state;
    neap_status status = NEAP_NO_MEMORY;
    for (int allowed = 0; status == NEAP_NO_MEMORY; allowed++) {
        failing_allocator allocator = {{failing_resize}, 0, allowed};
        free(chart_with(&allocator.base, two_layers, RECOMPUTING, NULL, &status, NULL));
        assert_int_equal(allocator.in_use, 0);
    }
    assert_int_equal(status, NEAP_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_options),
        cmocka_unit_test(test_recomputation),
        cmocka_unit_test(test_labels_in_the_plot),
        cmocka_unit_test(test_transfers),
        cmocka_unit_test(test_plan_without_times),
        cmocka_unit_test(test_sizes_are_honoured),
        cmocka_unit_test(test_colour),
        cmocka_unit_test(test_names_are_cleaned),
        cmocka_unit_test(test_wrong_arguments),
        cmocka_unit_test(test_every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
