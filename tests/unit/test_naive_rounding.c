/*
 * naive_rounding: what is missing is what a plain look at (1b) and (1c) finds; complete roundings
 * are plans; entries fall with their probability.
 *
 *     NEAP_TEST_SEED=7 NEAP_TEST_COUNT=10000 test_naive_rounding     # another seed, more cases
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "failing_allocator.h"
#include "planners/checkmate/naive_rounding.h"
#include "random_frontiers.h"
#include "random_training.h"
#include "settings.h"
#include "small_graphs.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define SHARE ONE_IN(5)

static lp_schedule schedule_of(const neap_graph *graph)
{
    lp_schedule s = {
        .graph = graph, .n = neap_graph_op_count(graph), .n_values = neap_graph_value_count(graph)};
    neap_arena_init(&s.arena, neap_allocator_system());
    assert_true(NEAP_TAKE(&s.arena, (size_t)s.n * s.n, s.R));
    assert_true(NEAP_TAKE(&s.arena, (size_t)s.n * s.n_values, s.S));
    return s;
}

/* R and S of a sequence in frontiers, with everything kept that is there. */
static void set_sequence(lp_schedule *s, const uint32_t *sequence, size_t length)
{
    uint32_t t = 0;
    for (size_t i = 0; i < length; i++) {
        s->R[(size_t)t * s->n + sequence[i]] = 1;
        const neap_op *op = neap_graph_op(s->graph, sequence[i]);
        for (uint32_t o = 0; o < op->n_outputs && t + 1 < s->n; o++)
            s->S[(size_t)(t + 1) * s->n_values + op->outputs[o]] = 1;
        if (sequence[i] == t) {
            t++;
            for (uint32_t v = 0; v < s->n_values && t + 1 < s->n; v++)
                if (s->S[(size_t)t * s->n_values + v] > 0)
                    s->S[(size_t)(t + 1) * s->n_values + v] = 1;
        }
    }
}

static bool is_there(const lp_schedule *s, uint32_t t, uint32_t v, double threshold)
{
    uint32_t maker = neap_graph_value(s->graph, v)->producer;
    return maker == NEAP_NONE || s->S[(size_t)t * s->n_values + v] > threshold ||
           s->R[(size_t)t * s->n + maker] > threshold;
}

/* Some op of frontier t reads it, or the next frontier begins with it. */
static bool is_needed(const lp_schedule *s, uint32_t t, uint32_t v, double threshold)
{
    uint32_t n_readers;
    const uint32_t *reader = neap_graph_readers(s->graph, v, &n_readers);
    for (uint32_t i = 0; i < n_readers; i++)
        if (s->R[(size_t)t * s->n + reader[i]] > threshold)
            return true;
    return t + 1 < s->n ? s->S[(size_t)(t + 1) * s->n_values + v] > threshold
                        : neap_graph_is_output(s->graph, v);
}

static uint64_t count_missing(const lp_schedule *s, double threshold)
{
    uint64_t missing = 0;
    for (uint32_t t = 0; t < s->n; t++)
        for (uint32_t v = 0; v < s->n_values; v++)
            missing += is_needed(s, t, v, threshold) && !is_there(s, t, v, threshold);
    return missing;
}

/* Changes a few entries, of which none is at the threshold. */
static void disturb(random_source *random, lp_schedule *s)
{
    for (uint32_t count = random_below(random, 4); count > 0; count--) {
        uint32_t t = random_below(random, s->n);
        double fraction = (1 + 2 * random_below(random, 10)) / 20.0;
        uint32_t v = random_below(random, s->n_values);
        bool made = neap_graph_value(s->graph, v)->producer < t; /* inputs: NEAP_NONE */
        if (t > 0 && random_below(random, 2))
            s->R[(size_t)t * s->n + random_below(random, t)] = fraction; /* (8a) stays */
        else if (made)
            s->S[(size_t)t * s->n_values + v] = fraction;
    }
}

static void test_missing(void **state)
{
    (void)state;
    random_source random = {setting("NEAP_TEST_SEED", 20240951)};
    uint64_t count = setting("NEAP_TEST_COUNT", 3000 / SHARE), complete = 0;
    print_message("seed %" PRIu64 ", %" PRIu64 " graphs\n", random.state, count);
    for (uint64_t i = 0; i < count; i++) {
        neap_graph *graph = random_below(&random, 3) ? random_training_graph(&random, 40, false)
                                                     : random_graph(&random, 12);
        const rounding how = {.threshold = random_below(&random, 11) / 10.0};
        lp_schedule s = schedule_of(graph);
        naive_rounder *naive;
        size_t length;
        uint32_t *sequence = random_frontiers(&random, graph, &length);
        set_sequence(&s, sequence, length);
        disturb(&random, &s);
        assert_int_equal(neap_naive_rounder_create(neap_allocator_system(), &s, &naive, NULL),
                         NEAP_OK);
        uint64_t missing = neap_naive_rounder_round(naive, &how);
        double threshold = how.threshold < 1 ? how.threshold : 0.99; /* 1 is certain */
        assert_int_equal(missing, count_missing(&s, threshold));
        if (missing == 0) {
            const uint32_t *runs = neap_naive_rounder_sequence(naive, &length);
            assert_true(judge_sequence(graph, runs, length, NULL).accepted);
            complete++;
        }
        neap_naive_rounder_destroy(naive);
        neap_lp_schedule_clear(&s);
        free(sequence);
        neap_graph_destroy(graph);
    }
    assert_true(complete > count / 5 && complete < count);
}

/* Of a chain whose S is a tenth in one place and whose R does not make up for it, a tenth of the
   roundings at random are complete. */
static void test_probability(void **state)
{
    (void)state;
    neap_graph *graph = unit_chain(3);
    lp_schedule s = schedule_of(graph);
    naive_rounder *naive;
    uint64_t random = 7, complete = 0;
    const rounding how = {.random = &random};
    uint32_t natural[7];
    assert_int_equal(s.n, 7);
    for (uint32_t k = 0; k < s.n; k++)
        natural[k] = k;
    set_sequence(&s, natural, s.n);
    uint32_t first = neap_graph_op(graph, 0)->outputs[0];
    for (uint32_t t = 2; t < s.n; t++) /* the last op reads it */
        s.S[(size_t)t * s.n_values + first] = t == s.n - 1 ? 0.1 : 1;
    assert_int_equal(neap_naive_rounder_create(neap_allocator_system(), &s, &naive, NULL), NEAP_OK);
    for (int i = 0; i < 20000; i++)
        complete += neap_naive_rounder_round(naive, &how) == 0;
    assert_in_range(complete, 1850, 2150);
    neap_naive_rounder_destroy(naive);
    neap_lp_schedule_clear(&s);
    neap_graph_destroy(graph);
}

static void test_out_of_memory(void **state)
{
    (void)state;
    neap_graph *graph = unit_chain(3);
    lp_schedule s = schedule_of(graph);
    bool failed = true;
    for (size_t from = 0; failed; from++) {
        failing_allocator memory;
        naive_rounder *naive;
        failing_allocator_init(&memory);
        memory.fail_from = from;
        memory.fail_end = from + 1;
        neap_status status = neap_naive_rounder_create(&memory.base, &s, &naive, NULL);
        failed = memory.failed;
        assert_int_equal(status, failed ? NEAP_NO_MEMORY : NEAP_OK);
        neap_naive_rounder_destroy(naive);
        assert_null(memory.fault);
        assert_int_equal(memory.live_blocks, 0);
    }
    neap_lp_schedule_clear(&s);
    neap_graph_destroy(graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_missing),
        cmocka_unit_test(test_probability),
        cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
