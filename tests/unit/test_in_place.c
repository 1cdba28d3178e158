/*
 * Runs in place marked in finished plans: plans worked out by hand, and random ones, which stay
 * legal, take the same time and never need more memory.
 *
 *     NEAP_TEST_SEED=7 NEAP_TEST_COUNT=50000 test_in_place     # another seed, more cases
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "random_plan.h"
#include "settings.h"
#include "small_graphs.h"

#include "graph/graph_internal.h"
#include "plan/in_place.h"

#include <neap/check.h>

#include <stdio.h>
#include <string.h>

/* x (input) -> a -> its view v, and b -> c; all of 100 bytes but d. Every op takes a second.
   0: x -> a   1: a -> v   2: a -> b, in place   3: b -> c, in place   4: x -> e, in place
   5: b -> d of 50 bytes, in place   6: v -> w, in place */
static const char small[] =
    "{'neap': 'graph', 'version': 1, 'name': 'small', 'fixed_bytes': 0, 'values': ["
    "{'name': 'x', 'bytes': 100, 'kind': 'input'}, {'name': 'a', 'bytes': 100},"
    "{'name': 'v', 'bytes': 0, 'view_of': 1}, {'name': 'b', 'bytes': 100},"
    "{'name': 'c', 'bytes': 100}, {'name': 'e', 'bytes': 100}, {'name': 'd', 'bytes': 50},"
    "{'name': 'w', 'bytes': 100}], 'ops': ["
    "{'name': '0', 'type': 't', 'inputs': [0], 'outputs': [1], 'time': 1, 'workspace': 0},"
    "{'name': '1', 'type': 't', 'inputs': [1], 'outputs': [2], 'time': 1, 'workspace': 0},"
    "{'name': '2', 'type': 't', 'inputs': [1], 'outputs': [3], 'time': 1, 'workspace': 0,"
    " 'in_place': [1, 3]},"
    "{'name': '3', 'type': 't', 'inputs': [3], 'outputs': [4], 'time': 1, 'workspace': 0,"
    " 'in_place': [3, 4]},"
    "{'name': '4', 'type': 't', 'inputs': [0], 'outputs': [5], 'time': 1, 'workspace': 0,"
    " 'in_place': [0, 5]},"
    "{'name': '5', 'type': 't', 'inputs': [3], 'outputs': [6], 'time': 1, 'workspace': 0,"
    " 'in_place': [3, 6]},"
    "{'name': '6', 'type': 't', 'inputs': [2], 'outputs': [7], 'time': 1, 'workspace': 0,"
    " 'in_place': [2, 7]}], 'outputs': [4]}";

/* "c2! f3": op 2 in place, then free value 3. */
static void write_steps(const neap_plan *plan, char *text, size_t size)
{
    size_t length = 0;
    text[0] = '\0';
    for (size_t i = 0; i < neap_plan_step_count(plan); i++) {
        const neap_step *s = &neap_plan_steps(plan)[i];
        length += (size_t)snprintf(text + length, size - length, "%s%c%u%s", i ? " " : "",
                                   "cfop"[s->kind], (unsigned)s -> id, s -> in_place ? "!" : "");
        assert_true(length < size);
    }
}

static void expect_marks(const char *steps, const char *expected, size_t n_marked)
{
    neap_graph *graph = graph_from(small);
    neap_plan *plan = plan_from(steps);
    neap_diag diag = {0};
    char text[256];
    size_t count;
    if (neap_plan_run_in_place(NULL, graph, plan, &count, &diag) != NEAP_OK)
        fail_msg("%s: %s", steps, diag.message);
    write_steps(plan, text, sizeof text);
    assert_string_equal(text, expected);
    assert_int_equal(count, n_marked);
    neap_plan_destroy(plan);
    neap_graph_destroy(graph);
}

static void test_where_the_input_dies(void **state)
{
    (void)state;
    expect_marks("c0 c2 f1 c3 f3", "c0 c2! c3!", 2);
    expect_marks("c0 c2 c3 f3 c4 f1", "c0 c2! c3! c4", 2); /* freed late */
    expect_marks("c0 c2 f3 f1 c0", "c0 c2! f3 c0", 1);     /* the output goes first */
    expect_marks("c0 c2 f1 c0 c3 f3", "c0 c2! c0 c3!", 2); /* computed again */
    expect_marks("c0 c2 f1 c5 c3 f3", "c0 c2! c5 c3!", 2); /* the sizes differ */
}

static void test_where_it_does_not(void **state)
{
    (void)state;
    expect_marks("c0 c2 c1 f1", "c0 c2 c1 f1", 0);           /* it is read again */
    expect_marks("c0 c2 c3", "c0 c2 c3", 0);                 /* it stays to the end */
    expect_marks("c4", "c4", 0);                             /* it is an input of the graph */
    expect_marks("c0 c1 c2 f1 f2", "c0 c1 c2 f1 f2", 0);     /* a view of it is in memory */
    expect_marks("c0 c1 f1 c6 f2", "c0 c1 f1 c6!", 1);       /* and is alone later */
    expect_marks("c0 o1 c2 f1", "c0 o1 c2 f1", 0);           /* its copy may be under way */
    expect_marks("c0 c2 o1 f1", "c0 c2 o1 f1", 0);           /* it is copied later */
    expect_marks("c0 o1 f1 p1 c2 f1", "c0 o1 f1 p1 c2!", 1); /* its copy was waited for */
    expect_marks("c0 c2 f1 o3 c3 f3", "c0 c2! o3 c3 f3", 1); /* of a value made in place */
    expect_marks("c0 c1 o2 f2 c2 p2 f1", "c0 c1 o2 f2 c2 p2 f1", 0);
}

static void test_marks_that_are_there(void **state)
{
    (void)state;
    neap_graph *graph = graph_from(small);
    neap_plan *plan = plan_from("c0");
    size_t count;
    neap_step in_place = {NEAP_COMPUTE, 2, 0, true}, next = {NEAP_COMPUTE, 3, 0, false};
    neap_step last = {NEAP_FREE, 3, 0, false};
    assert_int_equal(neap_plan_append(plan, in_place, NULL), NEAP_OK);
    assert_int_equal(neap_plan_append(plan, next, NULL), NEAP_OK);
    assert_int_equal(neap_plan_append(plan, last, NULL), NEAP_OK);
    assert_int_equal(neap_plan_set_offsets(plan, (int64_t[]){0, 100, 200}, 3, 300, NULL), NEAP_OK);
    assert_int_equal(neap_plan_run_in_place(NULL, graph, plan, &count, NULL), NEAP_OK);
    assert_int_equal(count, 1);
    char text[64];
    write_steps(plan, text, sizeof text);
    assert_string_equal(text, "c0 c2! c3!");
    assert_int_equal(neap_plan_arena_bytes(plan), -1); /* the addresses were those of before */
    assert_int_equal(neap_plan_run_in_place(NULL, graph, plan, &count, NULL), NEAP_OK);
    assert_int_equal(count, 0);
    neap_plan_destroy(plan);
    neap_graph_destroy(graph);
}

static void test_a_plan_that_cannot_be_run(void **state)
{
    (void)state;
    static const char *const plans[] = {"c0 c3", "c9", "f99", "c0 c2 f1 c2"};
    neap_graph *graph = graph_from(small);
    size_t count;
    for (size_t i = 0; i < sizeof plans / sizeof *plans; i++) {
        neap_plan *plan = plan_from(plans[i]);
        neap_diag diag = {0};
        assert_int_equal(neap_plan_run_in_place(NULL, graph, plan, &count, &diag), NEAP_INVALID);
        assert_true(strncmp(diag.message, "step ", 5) == 0);
        neap_plan_destroy(plan);
    }
    neap_graph_destroy(graph);
}

/* ---- Random plans ---- */

/* A mark wherever the sizes agree. */
static void add_marks(neap_graph *graph)
{
    for (size_t o = 0; o < graph->n_ops; o++) {
        neap_op *op = &graph->ops[o];
        for (uint32_t i = 0; i < op->n_inputs; i++)
            for (uint32_t k = 0; k < op->n_outputs; k++) {
                const neap_value *to = &graph->values[op->outputs[k]];
                uint32_t storage = graph->values[op->inputs[i]].storage;
                if (to->storage == op->outputs[k] && to->bytes == graph->values[storage].bytes) {
                    op->in_place_input = op->inputs[i];
                    op->in_place_output = op->outputs[k];
                }
            }
    }
}

static neap_verdict judge(const neap_graph *graph, const neap_plan *plan, const neap_link *link,
                          uint64_t seed)
{
    neap_check_options options;
    neap_verdict v;
    neap_check_options_init(&options);
    options.link = link;
    assert_int_equal(neap_check(NULL, graph, plan, &options, &v, NULL), NEAP_OK);
    if (!v.accepted)
        fail_msg("seed %llu: %s", (unsigned long long)seed, v.reason);
    return v;
}

static void test_random_plans(void **state)
{
    (void)state;
    static const neap_link link = {
        .out_bandwidth = 1e3, .in_bandwidth = 3e3, .latency = 1e-3, .duplex = true};
    uint64_t first = setting("NEAP_TEST_SEED", 1), count = setting("NEAP_TEST_COUNT", 4000);
    size_t n_marked = 0, n_lower = 0;
    for (uint64_t seed = first; seed < first + count; seed++) {
        random_source random = {seed};
        neap_graph *graph = random_graph(&random, 12);
        add_marks(graph);
        bool transfers = seed % 3 == 0;
        neap_plan *plan = random_plan(&random, graph, random_below(&random, 60), transfers);
        neap_verdict before = judge(graph, plan, transfers ? &link : NULL, seed);
        size_t marked;
        assert_int_equal(neap_plan_run_in_place(NULL, graph, plan, &marked, NULL), NEAP_OK);
        neap_verdict after = judge(graph, plan, transfers ? &link : NULL, seed);
        if (after.peak_bytes > before.peak_bytes || after.ticks != before.ticks)
            fail_msg("seed %llu: peak %lld, then %lld; %lld ticks, then %lld",
                     (unsigned long long)seed, (long long)before.peak_bytes,
                     (long long)after.peak_bytes, (long long)before.ticks, (long long)after.ticks);
        n_marked += marked;
        n_lower += after.peak_bytes < before.peak_bytes;
        neap_plan_destroy(plan);
        neap_graph_destroy(graph);
    }
    assert_true(n_marked > count / 4);
    assert_true(n_lower > count / 40);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_where_the_input_dies),
        cmocka_unit_test(test_where_it_does_not),
        cmocka_unit_test(test_marks_that_are_there),
        cmocka_unit_test(test_a_plan_that_cannot_be_run),
        cmocka_unit_test(test_random_plans),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
