/*
 * two_phase: the rounding of any relaxation is a plan in frontiers; an integral plan is rounded to
 * one that is as fast; the same random numbers give the same plan.
 *
 *     NEAP_TEST_SEED=7 NEAP_TEST_COUNT=10000 test_two_phase     # another seed, more cases
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "bare_planner.h"
#include "failing_allocator.h"
#include "lp/highs_model.h"
#include "planners/checkmate/paper_search.h"
#include "planners/checkmate/two_phase.h"
#include "random_frontiers.h"
#include "random_training.h"
#include "settings.h"

#include <neap/check.h>
#include <neap/solve.h>

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHARE ONE_IN(5)

/* A graph, a sequence in frontiers, and the program within the sequence's peak. */
typedef struct sample {
    neap_graph *graph;
    uint32_t *sequence;
    size_t length;
    neap_verdict verdict;
    frontier_model m;
    frontier_rows rows;
    double *values; /* room for one per column */
} sample;

static void sample_init(sample *s, random_source *random)
{
    s->graph = random_below(random, 3) ? random_training_graph(random, 6, false)
                                       : random_graph(random, 12);
    s->sequence = random_frontiers(random, s->graph, &s->length);
    s->verdict = judge_sequence(s->graph, s->sequence, s->length, NULL);
    const frontier_options options = {FRONTIER_PARTITIONED, s->verdict.peak_bytes, INT64_MAX};
    assert_int_equal(
        neap_frontier_model_build(&s->m, neap_allocator_system(), s->graph, &options, NULL),
        NEAP_OK);
    assert_int_equal(neap_frontier_rows_init(&s->rows, NULL, s->graph, NULL), NEAP_OK);
    s->values = calloc(s->m.lp.n_columns + 1, sizeof *s->values);
    assert_non_null(s->values);
}

static void sample_clear(sample *s)
{
    neap_frontier_rows_clear(&s->rows);
    neap_frontier_model_clear(&s->m);
    free(s->values);
    free(s->sequence);
    neap_graph_destroy(s->graph);
}

/* Frontier t ends with op t; before it come other ops, each once, in order. */
static void check_frontiers(const sample *s)
{
    uint32_t frontier = 0;
    int64_t last = -1;
    for (size_t i = 0; i < s->rows.length; i++) {
        uint32_t op = s->rows.sequence[i];
        assert_true(op > last && op <= frontier);
        last = op == frontier ? -1 : (int64_t)op;
        frontier += op == frontier;
    }
    assert_int_equal(frontier, neap_graph_op_count(s->graph));
}

static neap_verdict round_it(sample *s, double threshold, uint64_t *random)
{
    const rounding how = {.threshold = threshold, .random = random};
    lp_schedule schedule;
    assert_int_equal(neap_lp_schedule_of_gaps(&schedule, NULL, &s->m, s->values, NULL), NEAP_OK);
    neap_frontier_rows_restart(&s->rows);
    assert_int_equal(neap_two_phase_round(&schedule, &how, &s->rows, NULL), NEAP_OK);
    neap_lp_schedule_clear(&schedule);
    check_frontiers(s);
    return judge_sequence(s->graph, s->rows.sequence, s->rows.length, NULL);
}

static void draw_values(random_source *random, sample *s)
{
    uint32_t whole = random_below(random, 101);
    for (size_t j = 0; j < s->m.lp.n_columns; j++)
        s->values[j] = random_below(random, 100) < whole ? random_below(random, 2)
                                                         : random_below(random, 1001) / 1000.0;
}

static void test_any_values(void **state)
{
    (void)state;
    random_source random = {setting("NEAP_TEST_SEED", 20240921)};
    uint64_t count = setting("NEAP_TEST_COUNT", 3000 / SHARE), again = 0;
    print_message("seed %" PRIu64 ", %" PRIu64 " graphs\n", random.state, count);
    for (uint64_t i = 0; i < count; i++) {
        sample s;
        sample_init(&s, &random);
        draw_values(&random, &s);
        neap_verdict most = round_it(&s, 1, NULL); /* keeps what is certain, computes the rest */
        neap_verdict least = round_it(&s, 0, NULL);
        neap_verdict middle = round_it(&s, random_below(&random, 1001) / 1000.0, NULL);
        again += least.recomputed_ops < most.recomputed_ops;
        assert_true(least.accepted && most.accepted && middle.accepted);
        sample_clear(&s);
    }
    assert_true(again > count / 4);
}

static void test_random(void **state)
{
    (void)state;
    random_source random = {setting("NEAP_TEST_SEED", 20240922)};
    uint64_t count = setting("NEAP_TEST_COUNT", 1500 / SHARE), differ = 0;
    print_message("seed %" PRIu64 ", %" PRIu64 " graphs\n", random.state, count);
    for (uint64_t i = 0; i < count; i++) {
        sample s;
        uint64_t one = i, same = i, other = i + 1000000;
        sample_init(&s, &random);
        draw_values(&random, &s);
        neap_verdict first = round_it(&s, 0, &one);
        neap_verdict second = round_it(&s, 0, &same);
        assert_true(first.ticks == second.ticks && first.peak_bytes == second.peak_bytes);
        assert_true(one == same);
        neap_verdict third = round_it(&s, 0, &other);
        differ += first.ticks != third.ticks || first.peak_bytes != third.peak_bytes;
        /* Of whole numbers chance makes nothing else. */
        for (size_t j = 0; j < s.m.lp.n_columns; j++)
            s.values[j] = random_below(&random, 2);
        first = round_it(&s, 0, &one);
        second = round_it(&s, 0.5, NULL);
        assert_true(first.ticks == second.ticks && first.peak_bytes == second.peak_bytes);
        sample_clear(&s);
    }
    assert_true(differ > count / 10);
}

/* The fewest runs for what a plan keeps are no more than its own. */
static void test_plans(void **state)
{
    (void)state;
    random_source random = {setting("NEAP_TEST_SEED", 20240923)};
    uint64_t count = setting("NEAP_TEST_COUNT", 3000 / SHARE), known = 0;
    print_message("seed %" PRIu64 ", %" PRIu64 " graphs\n", random.state, count);
    for (uint64_t i = 0; i < count; i++) {
        sample s;
        sample_init(&s, &random);
        if (neap_frontier_model_values(&s.m, s.sequence, s.length, NULL, s.values)) {
            known++;
            assert_true(round_it(&s, 0.5, NULL).ticks <= s.verdict.ticks);
            assert_true(s.rows.length <= s.length);
        }
        sample_clear(&s);
    }
    assert_true(known > count / 5);
}

/* What it is for. */
static void test_relaxations(void **state)
{
    (void)state;
    need_highs();
    static const highs_watch nothing = {0};
    const highs_settings settings = {0};
    random_source random = {setting("NEAP_TEST_SEED", 20240924)};
    uint64_t count = setting("NEAP_TEST_COUNT", 300 / SHARE);
    print_message("seed %" PRIu64 ", %" PRIu64 " graphs\n", random.state, count);
    for (uint64_t i = 0; i < count; i++) {
        sample s;
        highs_model *h;
        highs_answer answer;
        bool complete;
        sample_init(&s, &random);
        assert_int_equal(neap_frontier_model_add_all_memory(&s.m, SIZE_MAX, &complete, NULL),
                         NEAP_OK);
        assert_int_equal(
            neap_highs_model_create(neap_allocator_system(), &s.m.lp, false, &nothing, &h, NULL),
            NEAP_OK);
        assert_int_equal(neap_highs_model_solve(h, &settings, &answer, NULL), NEAP_OK);
        if (answer.outcome == HIGHS_SOLVED && s.m.lp.n_columns > 0) {
            memcpy(s.values, neap_highs_model_values(h), s.m.lp.n_columns * sizeof *s.values);
            uint64_t number = i;
            round_it(&s, 0, NULL);
            round_it(&s, 1, NULL);
            round_it(&s, 0, &number);
        }
        neap_highs_model_destroy(h);
        sample_clear(&s);
    }
}

/* The printed program's relaxation, within what its own sequence needs. */
static void test_printed_relaxations(void **state)
{
    (void)state;
    need_highs();
    random_source random = {setting("NEAP_TEST_SEED", 20240926)};
    uint64_t count = setting("NEAP_TEST_COUNT", 150 / SHARE);
    print_message("seed %" PRIu64 ", %" PRIu64 " graphs\n", random.state, count);
    for (uint64_t i = 0; i < count; i++) {
        sample s;
        bare_planner b;
        paper_relaxation x;
        lp_schedule schedule;
        sample_init(&s, &random);
        const paper_options options = {.partitioned = true, .budget = s.verdict.peak_bytes};
        bare_planner_init(&b, s.graph, options.budget);
        assert_int_equal(neap_paper_relaxation_solve(&x, &b.p, &options, NULL), NEAP_OK);
        assert_int_equal(x.outcome, HIGHS_SOLVED);
        assert_true(x.bound_ticks <= s.verdict.ticks);
        assert_int_equal(neap_lp_schedule_of_paper(&schedule, NULL, &x.model, x.values, NULL),
                         NEAP_OK);
        for (int threshold = 0; threshold <= 10; threshold += 5) {
            const rounding how = {.threshold = threshold / 10.0};
            neap_frontier_rows_restart(&s.rows);
            assert_int_equal(neap_two_phase_round(&schedule, &how, &s.rows, NULL), NEAP_OK);
            check_frontiers(&s);
            assert_true(judge_sequence(s.graph, s.rows.sequence, s.rows.length, NULL).accepted);
        }
        neap_lp_schedule_clear(&schedule);
        neap_paper_relaxation_clear(&x);
        sample_clear(&s);
    }
}

/* What checkmate-lp reaches by rounding alone; INFINITY where nothing fits. */
static double rounded_time(const neap_graph *graph, int64_t budget, const char *rounding_option,
                           const char *threshold)
{
    const neap_option_setting settings[] = {{"start", "no"},
                                            {"mend", "no"},
                                            {"allowance", "fixed"},
                                            {"rounding", rounding_option},
                                            {"threshold", threshold}};
    neap_request request;
    neap_solution *solution;
    double time = HUGE_VAL;
    neap_request_init(&request, graph, "checkmate-lp");
    request.budget = budget;
    request.n_options = sizeof settings / sizeof *settings;
    request.options = settings;
    assert_int_equal(neap_solve(NULL, &request, &solution, NULL), NEAP_OK);
    for (uint32_t i = 0; i < neap_solution_extra_count(solution); i++) {
        const neap_extra *extra = neap_solution_extra_at(solution, i);
        if (strcmp(extra->name, "rounded_time") == 0)
            time = extra->number;
    }
    neap_solution_destroy(solution);
    return time;
}

/* rounding=thresholds is the best of the thresholds 0.1 to 0.9, each by itself. */
static void test_thresholds(void **state)
{
    (void)state;
    need_highs();
    random_source random = {setting("NEAP_TEST_SEED", 20240927)};
    uint64_t differ = 0;
    for (uint64_t i = 0; i < 30 / SHARE; i++) {
        sample s;
        sample_init(&s, &random);
        int64_t budget = s.verdict.peak_bytes + s.verdict.peak_bytes / 20;
        double best = HUGE_VAL, middle = rounded_time(s.graph, budget, "deterministic", "0.5");
        for (int t = 1; t <= 9; t++) {
            char text[32];
            snprintf(text, sizeof text, "%.17g", 0.1 * t);
            double one = rounded_time(s.graph, budget, "deterministic", text);
            best = one < best ? one : best;
        }
        double all_of_them = rounded_time(s.graph, budget, "thresholds", "0.5");
        assert_true(all_of_them == best && best <= middle);
        differ += best < middle;
        sample_clear(&s);
    }
    print_message("better than 0.5 on %" PRIu64 " graphs\n", differ);
}

static void test_failing(void **state)
{
    (void)state;
    random_source random = {20240925};
    const rounding how = {.threshold = 0.5};
    bool failed = true;
    sample s;
    sample_init(&s, &random);
    draw_values(&random, &s);
    for (size_t from = 0; failed; from++) {
        frontier_rows rows = {0};
        lp_schedule schedule;
        failing_allocator memory;
        failing_allocator_init(&memory);
        memory.fail_from = from;
        memory.fail_end = from + 1;
        neap_status status =
            neap_lp_schedule_of_gaps(&schedule, &memory.base, &s.m, s.values, NULL);
        if (status == NEAP_OK)
            status = neap_frontier_rows_init(&rows, &memory.base, s.graph, NULL);
        if (status == NEAP_OK)
            status = neap_two_phase_round(&schedule, &how, &rows, NULL);
        neap_frontier_rows_clear(&rows);
        neap_lp_schedule_clear(&schedule);
        failed = memory.failed;
        assert_int_equal(status, failed ? NEAP_NO_MEMORY : NEAP_OK);
        assert_null(memory.fault);
        assert_int_equal(memory.live_blocks, 0);
    }
    sample_clear(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_values),
        cmocka_unit_test(test_random),
        cmocka_unit_test(test_plans),
        cmocka_unit_test(test_relaxations),
        cmocka_unit_test(test_printed_relaxations),
        cmocka_unit_test(test_thresholds),
        cmocka_unit_test(test_failing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
