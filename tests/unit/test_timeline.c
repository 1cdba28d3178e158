/*
 * The timeline: steps computed by hand, steps that cannot run, and agreement with the judge on
 * random plans.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "random_plan.h"
#include "small_graphs.h"

#include <neap/check.h>

#include <string.h>

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

static const neap_link link_100_50 = {.out_bandwidth = 100, .in_bandwidth = 50};
static const neap_link duplex_100_50 = {.out_bandwidth = 100, .in_bandwidth = 50, .duplex = true};

static const neap_link in_only = {.in_bandwidth = 1};

typedef struct expected_step {
    double begin, end; /* seconds */
    int64_t live, after;
} expected_step;

static void expect_steps(const char *json, const char *steps, const neap_link *link,
                         const expected_step *expected, size_t count, neap_timeline *t)
{
    neap_graph *graph = graph_from(json);
    neap_plan *plan = plan_from(steps);
    neap_diag diag = {0};
    if (neap_timeline_build(NULL, graph, plan, link, t, &diag) != NEAP_OK)
        fail_msg("%s", diag.message);
    assert_int_equal(t->n_steps, count);
    for (size_t i = 0; i < count; i++) {
        const neap_timeline_step *s = &t->steps[i];
        double begin = neap_graph_seconds(graph, s->begin), end = neap_graph_seconds(graph, s->end);
        if (begin != expected[i].begin || end != expected[i].end ||
            s->live_bytes != expected[i].live || s->after_bytes != expected[i].after)
            fail_msg("step %zu: %g to %g, %lld bytes, then %lld", i, begin, end,
                     (long long)s->live_bytes, (long long)s->after_bytes);
    }
    neap_plan_destroy(plan);
    neap_graph_destroy(graph);
}

static void test_computations(void **state)
{
    (void)state;
    static const expected_step steps[] = {
        {0, 0.001, 4460, 4396},                                 /* with a workspace of 64 */
        {0.001, 0.001, 4396, 4396},                             /* a view */
        {0.001, 0.002, 4400, 4400}, {0.002, 0.002, 4400, 4400}, /* h goes, its storage stays */
        {0.002, 0.003, 4600, 4600}, {0.003, 0.003, 4600, 4400},
    };
    neap_timeline t;
    expect_steps(tiny_graph, "c0 c1 c2 f1 c3 f2", NULL, steps, COUNT_OF(steps), &t);
    assert_int_equal(t.peak_bytes, 4600);
    assert_int_equal(t.peak_step, 4);
    assert_int_equal(t.compute_ticks, t.makespan_ticks);
    assert_int_equal(t.idle_ticks, 0);
    neap_timeline_clear(&t);
    neap_timeline_clear(&t);
}

static void test_one_engine(void **state)
{
    (void)state;
    static const expected_step steps[] = {
        {0, 1, 110, 110}, {1, 2, 110, 110}, {1, 2, 310, 310}, {2, 4, 310, 310},
        {2, 2, 310, 210}, {4, 6, 310, 310}, {6, 7, 360, 360},
    };
    neap_timeline t;
    expect_steps(abc_graph, "c0 o1 c1 o2 f1 p1 c2", &link_100_50, steps, COUNT_OF(steps), &t);
    int64_t second = t.makespan_ticks / 7;
    assert_int_equal(t.compute_ticks, 3 * second);
    assert_int_equal(t.idle_ticks, 4 * second);
    assert_int_equal(t.out_ticks, 3 * second);
    assert_int_equal(t.in_ticks, 2 * second);
    neap_timeline_clear(&t);
}

static void test_two_engines_and_a_waiting_free(void **state)
{
    (void)state;
    static const expected_step steps[] = {
        {0, 1, 110, 110}, {1, 2, 110, 110}, {1, 2, 110, 10},  {2, 4, 110, 110},
        {4, 5, 310, 310}, {5, 7, 310, 310}, {5, 6, 360, 360},
    };
    neap_timeline t;
    expect_steps(abc_graph, "c0 o1 f1 p1 c1 o2 c2", &duplex_100_50, steps, COUNT_OF(steps), &t);
    int64_t second = t.makespan_ticks / 7; /* the last copy ends after the last op */
    assert_int_equal(t.compute_ticks, 3 * second);
    assert_int_equal(t.idle_ticks, 3 * second);
    neap_timeline_clear(&t);
}

static void test_steps_that_cannot_be_run(void **state)
{
    (void)state;
    static const struct {
        const char *steps;
        const neap_link *link;
        const char *message;
    } cases[] = {
        {"c1", NULL, "step 0: compute 1: an input is not resident"},
        {"c0 c0", NULL, "step 1: compute 0: an output is resident already"},
        {"c0 c3", NULL, "step 1: compute 3: there is no such op"},
        {"c0.1", NULL, "step 0: compute 0: the op has no such variant"},
        {"f4", NULL, "step 0: free 4: there is no such value"},
        {"f0", NULL, "step 0: free 0: it is an input, resident throughout"},
        {"f1", NULL, "step 0: free 1: it is not resident"},
        {"c0 o1", NULL, "step 1: offload 1: there is no link to the host"},
        {"c0 p1", &link_100_50, "step 1: prefetch 1: it is resident"},
        {"c0 f1 p1", &link_100_50, "step 2: prefetch 1: it has no copy on the host"},
        {"c0 o1", &in_only,
         "step 1: offload 1: the link has no bandwidth that way, or takes 2^63 ticks"},
    };
    neap_graph *graph = graph_from(abc_graph);
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        neap_plan *plan = plan_from(cases[i].steps);
        neap_timeline t;
        neap_diag diag = {0};
        assert_int_equal(neap_timeline_build(NULL, graph, plan, cases[i].link, &t, &diag),
                         NEAP_INVALID);
        assert_string_equal(diag.message, cases[i].message);
        assert_null(t.steps);
        neap_plan_destroy(plan);
    }
    neap_graph_destroy(graph);
}

static void test_an_empty_plan(void **state)
{
    (void)state;
    neap_graph *graph = graph_from(tiny_graph);
    neap_plan *plan = plan_from("");
    neap_timeline t;
    assert_int_equal(neap_timeline_build(NULL, graph, plan, NULL, &t, NULL), NEAP_OK);
    assert_int_equal(t.peak_bytes, 4196);
    assert_int_equal(t.makespan_ticks, 0);
    neap_timeline_clear(&t);
    neap_plan_destroy(plan);
    neap_graph_destroy(graph);
}

/* The parts add up. */
static void check_parts(const neap_graph *graph, const neap_plan *plan, int64_t peak)
{
    neap_memory_parts p;
    assert_int_equal(neap_plan_peak_parts(NULL, graph, plan, &p, NULL), NEAP_OK);
    assert_int_equal(p.parameters + p.gradients + p.state + p.activations + p.workspace + p.other,
                     peak);
}

/* Thousands of random plans: the judge and the timeline come to the same figures. */
static void test_it_agrees_with_the_judge(void **state)
{
    (void)state;
    static const neap_link links[] = {
        {.out_bandwidth = 1e5, .in_bandwidth = 3e4, .latency = 1e-3},
        {.out_bandwidth = 1e5, .in_bandwidth = 3e4, .latency = 1e-3, .duplex = true},
        {.out_bandwidth = 1e3, .in_bandwidth = 1e3, .duplex = true},
    };
    for (uint64_t seed = 1; seed <= 3000; seed++) {
        random_source random = {seed};
        neap_graph *graph = random_graph(&random, 12);
        neap_plan *plan = random_plan(&random, graph, random_below(&random, 60), seed % 4 != 0);
        neap_check_options options;
        neap_check_options_init(&options);
        options.link = seed % 4 ? &links[seed % 3] : NULL;
        neap_verdict v;
        neap_timeline t;
        assert_int_equal(neap_check(NULL, graph, plan, &options, &v, NULL), NEAP_OK);
        if (!v.accepted)
            fail_msg("seed %llu: %s", (unsigned long long)seed, v.reason);
        assert_int_equal(neap_timeline_build(NULL, graph, plan, options.link, &t, NULL), NEAP_OK);
        if (t.peak_bytes != v.peak_bytes || t.peak_step != v.peak_step ||
            t.makespan_ticks != v.ticks || t.compute_ticks != v.compute_ticks)
            fail_msg("seed %llu: peak %lld at %zu, %lld ticks; the judge: %lld at %zu, %lld",
                     (unsigned long long)seed, (long long)t.peak_bytes, t.peak_step,
                     (long long)t.makespan_ticks, (long long)v.peak_bytes, v.peak_step,
                     (long long)v.ticks);
        check_parts(graph, plan, v.peak_bytes);
        neap_timeline_clear(&t);
        neap_plan_destroy(plan);
        neap_graph_destroy(graph);
    }
}

/* By hand: what each part is. */
static void test_parts_of_the_peak(void **state)
{
    (void)state;
    neap_graph *graph = graph_from(
        "{'neap':'graph','version':1,'fixed_bytes':1,'values':["
        "{'bytes':10,'kind':'parameter','state':true},{'bytes':20,'kind':'state','state':true},"
        "{'bytes':100,'kind':'input'},{'bytes':1000},{'bytes':3000,'kind':'gradient'},"
        "{'bytes':40,'kind':'gradient'}],'ops':["
        "{'inputs':[0,2],'outputs':[3],'time':1},{'inputs':[3],'outputs':[4],'time':1},"
        "{'inputs':[3,4],'outputs':[5],'time':1,'workspace':50000},"
        "{'inputs':[0,1,5],'outputs':[],'updates':[0,1],'time':1}],'outputs':[]}");
    neap_plan *plan = plan_from("c0 c1 c2 f3 f4 c3 f5");
    neap_memory_parts p;
    assert_int_equal(neap_plan_peak_parts(NULL, graph, plan, &p, NULL), NEAP_OK);
    assert_true(p.parameters == 10 && p.state == 20 && p.gradients == 40 && p.activations == 4000);
    assert_true(p.workspace == 50000 && p.other == 101);
    neap_plan_destroy(plan);
    plan = plan_from("c1");
    assert_int_equal(neap_plan_peak_parts(NULL, graph, plan, &p, NULL), NEAP_INVALID);
    neap_plan_destroy(plan);
    plan = plan_from("");
    assert_int_equal(neap_plan_peak_parts(NULL, graph, plan, &p, NULL), NEAP_OK);
    assert_true(p.parameters == 10 && p.state == 20 && p.other == 101 && p.workspace == 0);
    neap_plan_destroy(plan);
    neap_graph_destroy(graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_computations),
        cmocka_unit_test(test_one_engine),
        cmocka_unit_test(test_two_engines_and_a_waiting_free),
        cmocka_unit_test(test_steps_that_cannot_be_run),
        cmocka_unit_test(test_an_empty_plan),
        cmocka_unit_test(test_it_agrees_with_the_judge),
        cmocka_unit_test(test_parts_of_the_peak),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
