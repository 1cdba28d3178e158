/*
 * neap_resident_search: on tiny graphs its plans are as fast as those of tests/oracle/staged.py for
 * every budget; it recognizes that there is no plan, stops when asked to, and its bound then holds.
 *
 *     NEAP_TEST_SEED=7 NEAP_TEST_COUNT=3000 test_resident_search     # another seed, more cases
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "bare_planner.h"
#include "failing_allocator.h"
#include "frontier_curves.h"
#include "planners/checkmate/incumbent.h"
#include "planners/common/resident_search.h"
#include "settings.h"
#include "small_graphs.h"

#include <inttypes.h>

#define SHARE ONE_IN(3)

enum { MOST_STATES = 1000000 };

static int64_t seconds_of(const neap_graph *graph, int64_t ticks)
{
    return ticks / neap_graph_ticks_per_second(graph);
}

/* ---- Against the oracle ---- */

/* The sequence is a plan of the promised time within the budget. */
static void check_sequence(const planner *p, const resident_answer *answer)
{
    incumbent best;
    neap_incumbent_init(&best, p);
    assert_int_equal(neap_incumbent_offer(&best, p, answer->sequence, answer->length, NULL),
                     NEAP_OK);
    assert_true(best.ticks == answer->ticks);
    neap_incumbent_clear(&best, p);
}

static void check_budget(const neap_graph *graph, const char *form, int64_t budget,
                         int64_t expected)
{
    bare_planner b;
    resident_answer answer;
    (void)form;
    bare_planner_init(&b, graph, budget);
    assert_int_equal(neap_resident_search(&b.p, false, MOST_STATES, INT64_MAX, &answer, NULL),
                     NEAP_OK);
    assert_int_equal(answer.outcome, expected < 0 ? RESIDENT_NONE : RESIDENT_SOLVED);
    if (answer.ticks != expected)
        fail_msg("%" PRId64 " ticks within %" PRId64 " bytes, but %" PRId64 " can be had",
                 answer.ticks, budget, expected);
    if (expected >= 0) {
        assert_true(answer.bound_ticks == expected);
        check_sequence(&b.p, &answer);
        neap_resident_answer_clear(&b.p, &answer);
        /* The cutoff is the first time that is of no use. */
        assert_int_equal(neap_resident_search(&b.p, false, MOST_STATES, expected, &answer, NULL),
                         NEAP_OK);
        assert_int_equal(answer.outcome, RESIDENT_NONE);
        assert_true(answer.bound_ticks == expected && answer.ticks == -1);
        assert_int_equal(
            neap_resident_search(&b.p, false, MOST_STATES, expected + 1, &answer, NULL), NEAP_OK);
        assert_true(answer.outcome == RESIDENT_SOLVED && answer.ticks == expected);
    }
    neap_resident_answer_clear(&b.p, &answer);
}

/* With few states it gives up, and its bound is one; with enough of them it does not. */
static void check_caps(const neap_graph *graph, int64_t budget, int64_t expected)
{
    bare_planner b;
    bool gave_up = true;
    int64_t last = neap_graph_least_ticks(graph);
    bare_planner_init(&b, graph, budget);
    for (size_t most = 1; gave_up; most += 1 + most / 2) {
        resident_answer answer;
        assert_int_equal(neap_resident_search(&b.p, false, most, INT64_MAX, &answer, NULL),
                         NEAP_OK);
        assert_true(answer.bound_ticks >= last);
        assert_true(expected < 0 || answer.bound_ticks <= expected);
        last = answer.bound_ticks;
        gave_up = answer.outcome == RESIDENT_GAVE_UP;
        neap_resident_answer_clear(&b.p, &answer);
    }
    assert_true(expected < 0 || last == expected);
}

static void test_against_the_oracle(void **state)
{
    (void)state;
    need_python();
    frontier_cases c = frontier_cases_draw(20240801, 1200 / SHARE, draw_mixed, 2, "any");
    frontier_ask(&c, INT64_MIN, check_budget);
    for (size_t i = 0; i < c.count; i++) {
        const frontier_curve *curve = &c.curves[i];
        check_budget(c.graphs[i], "any", INT64_MAX, curve->points[curve->count - 1].ticks);
        if (i % 10 == 0)
            check_caps(c.graphs[i], curve->points[0].peak, curve->points[0].ticks);
    }
    frontier_cases_clear(&c);
}

/* ---- By hand ---- */

/* Checkmate's appendix A: 26 is the best of all plans, whatever their order. */
static void test_unit_chain(void **state)
{
    (void)state;
    static const int64_t times[] = {-1, -1, -1, 45, 26, 22, 21, 20, 19, 18, 17, 17};
    neap_graph *graph = unit_chain(8);
    for (int64_t budget = 1; budget <= 11; budget++) {
        bare_planner b;
        resident_answer answer;
        bare_planner_init(&b, graph, budget);
        assert_int_equal(neap_resident_search(&b.p, false, MOST_STATES, INT64_MAX, &answer, NULL),
                         NEAP_OK);
        int64_t found = answer.ticks < 0 ? -1 : seconds_of(graph, answer.ticks);
        if (found != times[budget])
            fail_msg("%" PRId64 " within %" PRId64, found, budget);
        assert_true(answer.states < 40000);
        neap_resident_answer_clear(&b.p, &answer);
    }
    neap_graph_destroy(graph);
}

/*
 * Op 0 runs twice; its fast variant fits beside nothing, so that the second run, beside b, has to
 * be slow. Then so has the first.
 */
static void test_one_variant_an_op(void **state)
{
    (void)state;
    neap_graph *graph = graph_from(
        "{'neap':'graph','version':1,'values':[{'bytes':0},{'bytes':4},{'bytes':2},{'bytes':3},"
        "{'bytes':1}],'ops':[{'inputs':[0],'outputs':[1],'time':1,'workspace':4,'variants':[{'time'"
        ":1,"
        "'workspace':4},{'time':3,'workspace':0}]},{'inputs':[1],'outputs':[2],'time':1},"
        "{'inputs':[2],'outputs':[3],'time':1},{'inputs':[1,3],'outputs':[4],'time':1}],"
        "'outputs':[4]}");
    bare_planner b;
    resident_answer answer;
    bare_planner_init(&b, graph, 8);
    assert_int_equal(neap_resident_search(&b.p, false, MOST_STATES, INT64_MAX, &answer, NULL),
                     NEAP_OK);
    assert_int_equal(answer.outcome, RESIDENT_SOLVED);
    assert_int_equal(answer.length, 5);
    assert_int_equal(seconds_of(graph, answer.ticks), 9); /* 3 + 1 + 1 + 3 + 1, not 1 + ... */
    check_sequence(&b.p, &answer);
    neap_resident_answer_clear(&b.p, &answer);
    neap_graph_destroy(graph);
}

static void test_too_big_and_stopped(void **state)
{
    (void)state;
    neap_graph *graph = unit_chain(63), *bigger = unit_chain(64);
    bare_planner b;
    resident_answer answer;
    bare_planner_init(&b, bigger, 1000);
    assert_int_equal(neap_resident_search(&b.p, false, MOST_STATES, INT64_MAX, &answer, NULL),
                     NEAP_OK);
    assert_int_equal(answer.outcome, RESIDENT_GAVE_UP);
    assert_true(answer.bound_ticks == neap_graph_least_ticks(bigger));
    neap_resident_answer_clear(&b.p, &answer);

    bare_planner_init(&b, graph, 1000);
    assert_int_equal(neap_resident_search(&b.p, false, MOST_STATES, INT64_MAX, &answer, NULL),
                     NEAP_OK);
    assert_int_equal(answer.outcome, RESIDENT_SOLVED);
    assert_true(answer.ticks == neap_graph_least_ticks(graph));
    neap_resident_answer_clear(&b.p, &answer);

    bare_planner_init(&b, graph, 8);
    b.request.time_limit = 1e-9;
    assert_int_equal(neap_resident_search(&b.p, false, MOST_STATES, INT64_MAX, &answer, NULL),
                     NEAP_OK);
    assert_int_equal(answer.outcome, RESIDENT_STOPPED);
    assert_true(answer.bound_ticks >= neap_graph_least_ticks(graph));
    neap_resident_answer_clear(&b.p, &answer);
    neap_graph_destroy(graph);
    neap_graph_destroy(bigger);
}

static void test_out_of_memory(void **state)
{
    (void)state;
    neap_graph *graph = unit_chain(8);
    failing_allocator memory;
    failing_allocator_init(&memory);
    bare_planner b;
    resident_answer answer;
    bare_planner_init(&b, graph, 5);
    b.p.allocator = &memory.base;
    assert_int_equal(neap_resident_search(&b.p, false, MOST_STATES, INT64_MAX, &answer, NULL),
                     NEAP_OK);
    assert_int_equal(answer.outcome, RESIDENT_SOLVED);
    neap_resident_answer_clear(&b.p, &answer);
    size_t calls = memory.calls;
    for (size_t i = 0; i < calls; i++) {
        failing_allocator_init(&memory);
        memory.fail_from = i;
        memory.fail_end = i + 1;
        assert_int_equal(neap_resident_search(&b.p, false, MOST_STATES, INT64_MAX, &answer, NULL),
                         NEAP_NO_MEMORY);
        neap_resident_answer_clear(&b.p, &answer);
        assert_int_equal(memory.live_blocks, 0);
        assert_null(memory.fault);
    }
    neap_graph_destroy(graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_the_oracle), cmocka_unit_test(test_unit_chain),
        cmocka_unit_test(test_one_variant_an_op),  cmocka_unit_test(test_too_big_and_stopped),
        cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
