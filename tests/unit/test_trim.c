/*
 * trim: what is left of a sequence is a part of it with every op's first run, within the budget,
 * and nothing more can go; neap_sequence_peak is the judge's.
 *
 *     NEAP_TEST_SEED=7 NEAP_TEST_COUNT=30000 test_trim     for other, and more, graphs
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "failing_allocator.h"
#include "planners/common/trim.h"
#include "random_stages.h"
#include "random_training.h"
#include "settings.h"
#include "small_graphs.h"

#include <neap/planner.h>

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define SHARE ONE_IN(5)

static neap_graph *draw_graph(random_source *random)
{
    return random_below(random, 3) ? random_training_graph(random, 8, false)
                                   : random_graph(random, 16);
}

/* In stages, or in any legal order. The caller frees it. */
static uint32_t *draw_sequence(random_source *random, const neap_graph *graph, size_t *length)
{
    if (random_below(random, 2))
        return random_stages(random, graph, length);
    neap_plan *plan = random_plan(random, graph, random_below(random, 60), false);
    size_t n_steps = neap_plan_step_count(plan);
    uint32_t *sequence = malloc((n_steps + 1) * sizeof *sequence);
    assert_non_null(sequence);
    *length = 0;
    for (size_t s = 0; s < n_steps; s++)
        if (neap_plan_steps(plan)[s].kind == NEAP_COMPUTE)
            sequence[(*length)++] = neap_plan_steps(plan)[s].id;
    neap_plan_destroy(plan);
    return sequence;
}

/* Each op's variant of the least workspace. The caller frees them. */
static uint32_t *leanest_variants(const neap_graph *graph)
{
    uint32_t n_ops = neap_graph_op_count(graph);
    uint32_t *variants = calloc(n_ops + (size_t)1, sizeof *variants);
    assert_non_null(variants);
    for (uint32_t o = 0; o < n_ops; o++) {
        const neap_op *op = neap_graph_op(graph, o);
        for (uint32_t q = 1; q < op->n_variants; q++)
            if (op->variants[q].workspace < op->variants[variants[o]].workspace)
                variants[o] = q;
    }
    return variants;
}

static int64_t peak_of(const neap_graph *graph, const uint32_t *sequence, size_t length)
{
    int64_t peak;
    assert_int_equal(
        neap_sequence_peak(neap_allocator_system(), graph, sequence, length, &peak, NULL), NEAP_OK);
    return peak;
}

static void test_peak(void **state)
{
    (void)state;
    random_source random = {setting("NEAP_TEST_SEED", 20240911)};
    uint64_t count = setting("NEAP_TEST_COUNT", 10000 / SHARE);
    print_message("seed %" PRIu64 ", %" PRIu64 " graphs\n", random.state, count);
    for (uint64_t i = 0; i < count; i++) {
        neap_graph *graph = draw_graph(&random);
        size_t length;
        uint32_t *sequence = draw_sequence(&random, graph, &length);
        uint32_t *variants = leanest_variants(graph);
        assert_true(peak_of(graph, sequence, length) ==
                    judge_sequence(graph, sequence, length, variants).peak_bytes);
        free(sequence);
        free(variants);
        neap_graph_destroy(graph);
    }
}

/* ---- Trimming ---- */

/* Whether the one is the other with some entries left out, but none that is the first of its op. */
static bool is_part(const neap_graph *graph, const uint32_t *part, size_t n, const uint32_t *whole,
                    size_t length)
{
    bool *seen = calloc(neap_graph_op_count(graph) + (size_t)1, sizeof *seen);
    size_t at = 0;
    bool good = true;
    assert_non_null(seen);
    for (size_t i = 0; i < length; i++) {
        bool taken = at < n && part[at] == whole[i];
        good = good && (taken || seen[whole[i]]);
        seen[whole[i]] = true;
        at += taken;
    }
    free(seen);
    return good && at == n;
}

static void check_trimmed(const neap_graph *graph, int64_t budget, const uint32_t *before,
                          size_t length, const uint32_t *after, size_t trimmed)
{
    uint32_t *variants = leanest_variants(graph);
    neap_verdict old = judge_sequence(graph, before, length, variants);
    neap_verdict new = judge_sequence(graph, after, trimmed, variants);
    assert_true(is_part(graph, after, trimmed, before, length));
    assert_true(new.ticks <= old.ticks);
    assert_true(new.peak_bytes <= (old.peak_bytes > budget ? old.peak_bytes : budget));
    if (budget == INT64_MAX)
        assert_int_equal(trimmed, neap_graph_op_count(graph));
    free(variants);
}

/* From one byte too few to what all first runs together need. */
static int64_t draw_budget(random_source *random, const neap_graph *graph, int64_t peak)
{
    int64_t least = neap_graph_floor_bytes(graph, NULL) - 1, natural = peak;
    switch (random_below(random, 4)) {
    case 0:
        return INT64_MAX;
    case 1:
        return peak;
    case 2:
        return peak - 1;
    default:
        assert_int_equal(neap_natural_peak(NULL, graph, &natural, NULL), NEAP_OK);
        natural = natural > least ? natural : least;
        return least + random_below(random, (uint32_t)(natural - least) + 1);
    }
}

static void test_trim(void **state)
{
    (void)state;
    random_source random = {setting("NEAP_TEST_SEED", 20240912)};
    uint64_t count = setting("NEAP_TEST_COUNT", 10000 / SHARE), shorter = 0, longer = 0;
    print_message("seed %" PRIu64 ", %" PRIu64 " graphs\n", random.state, count);
    for (uint64_t i = 0; i < count; i++) {
        neap_graph *graph = draw_graph(&random);
        size_t length;
        uint32_t *before = draw_sequence(&random, graph, &length);
        uint32_t *after = malloc((length + 1) * sizeof *after);
        int64_t budget = draw_budget(&random, graph, peak_of(graph, before, length));
        size_t trimmed = length, twice;
        assert_non_null(after);
        memcpy(after, before, length * sizeof *after);
        assert_int_equal(
            neap_trim_sequence(neap_allocator_system(), graph, budget, after, &trimmed, NULL),
            NEAP_OK);
        check_trimmed(graph, budget, before, length, after, trimmed);
        shorter += trimmed < length;
        longer += trimmed > neap_graph_op_count(graph);
        twice = trimmed;
        assert_int_equal(
            neap_trim_sequence(neap_allocator_system(), graph, budget, after, &twice, NULL),
            NEAP_OK);
        assert_int_equal(twice, trimmed);
        free(before);
        free(after);
        neap_graph_destroy(graph);
    }
    print_message("%" PRIu64 " are shorter, %" PRIu64 " still run ops again\n", shorter, longer);
    assert_true(shorter > count / 3 && longer > count / 20);
}

/* ---- By hand ---- */

/* x 10 -> a 100 -> b 50 -> c 100; a and c -> d 10: 260 bytes at c, or 220 with a made again. */
static const char detour_graph[] =
    "{'neap':'graph','version':1,'values':[{'bytes':10},{'bytes':100},{'bytes':50},{'bytes':100},"
    "{'bytes':10}],'ops':[{'inputs':[0],'outputs':[1],'time':1},{'inputs':[1],'outputs':[2],"
    "'time':1},{'inputs':[2],'outputs':[3],'time':1},{'inputs':[1,3],'outputs':[4],'time':1}],"
    "'outputs':[4]}";

static void expect_trim(const neap_graph *graph, int64_t budget, const char *before,
                        const char *after)
{
    uint32_t sequence[16];
    char text[17] = "";
    size_t length = strlen(before);
    for (size_t i = 0; i < length; i++)
        sequence[i] = (uint32_t)(before[i] - '0');
    assert_int_equal(
        neap_trim_sequence(neap_allocator_system(), graph, budget, sequence, &length, NULL),
        NEAP_OK);
    for (size_t i = 0; i < length; i++)
        text[i] = (char)('0' + sequence[i]);
    assert_string_equal(text, after);
}

static void test_by_hand(void **state)
{
    (void)state;
    neap_graph *graph = graph_from(detour_graph);
    expect_trim(graph, 260, "0123", "0123");
    expect_trim(graph, 260, "01203", "0123");
    expect_trim(graph, 259, "01203", "01203");
    expect_trim(graph, 220, "01203", "01203");
    expect_trim(graph, 220, "012013", "01203"); /* b is made for nobody */
    expect_trim(graph, 1, "012013", "01203");   /* too much in any case: what is unread goes */
    expect_trim(graph, 220, "0101201203", "01203");
    expect_trim(graph, INT64_MAX, "0101201203", "0123");
    expect_trim(graph, 220, "01230", "0123"); /* nothing reads it behind the end */
    neap_graph_destroy(graph);
}

static void test_failing(void **state)
{
    (void)state;
    neap_graph *graph = graph_from(detour_graph);
    bool failed = true;
    for (size_t from = 0; failed; from++) {
        uint32_t sequence[] = {0, 1, 2, 0, 1, 3};
        size_t length = 6;
        int64_t peak;
        failing_allocator memory;
        failing_allocator_init(&memory);
        memory.fail_from = from;
        memory.fail_end = from + 1;
        neap_status status = neap_sequence_peak(&memory.base, graph, sequence, length, &peak, NULL);
        if (status == NEAP_OK)
            status = neap_trim_sequence(&memory.base, graph, 260, sequence, &length, NULL);
        failed = memory.failed;
        assert_int_equal(status, failed ? NEAP_NO_MEMORY : NEAP_OK);
        assert_null(memory.fault);
        assert_int_equal(memory.live_blocks, 0);
    }
    neap_graph_destroy(graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_peak),
        cmocka_unit_test(test_trim),
        cmocka_unit_test(test_by_hand),
        cmocka_unit_test(test_failing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
