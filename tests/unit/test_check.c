/*
 * The judge: figures computed by hand, every reason to reject a plan, transfers on one engine and
 * on two, addresses, speed. Steps are written as in small_graphs.h.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cpu_seconds.h"
#include "random_plan.h"
#include "small_graphs.h"

#include <neap/check.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

static const neap_link link_100 = {.out_bandwidth = 100, .in_bandwidth = 100};
static const neap_link link_100_50 = {.out_bandwidth = 100, .in_bandwidth = 50};
static const neap_link duplex_100_50 = {.out_bandwidth = 100, .in_bandwidth = 50, .duplex = true};
static const neap_link slow_start = {.out_bandwidth = 100, .in_bandwidth = 50, .latency = 0.5};

static neap_verdict judge_plan(const neap_graph *graph, const neap_plan *plan,
                               const neap_link *link, int64_t budget)
{
    neap_check_options options;
    neap_check_options_init(&options);
    options.link = link;
    options.budget = budget;
    neap_verdict verdict;
    assert_int_equal(neap_check(NULL, graph, plan, &options, &verdict, NULL), NEAP_OK);
    assert_true(verdict.accepted == (verdict.reason[0] == '\0'));
    return verdict;
}

static neap_verdict judge_steps(const char *json, const char *steps, const neap_link *link,
                                int64_t budget)
{
    neap_graph *graph = graph_from(json);
    neap_plan *plan = plan_from(steps);
    neap_verdict verdict = judge_plan(graph, plan, link, budget);
    neap_plan_destroy(plan);
    neap_graph_destroy(graph);
    return verdict;
}

static neap_verdict expect(const char *json, const char *steps, const neap_link *link, int64_t peak,
                           double time)
{
    neap_verdict verdict = judge_steps(json, steps, link, -1);
    if (!verdict.accepted)
        fail_msg("\"%s\": %s", steps, verdict.reason);
    assert_int_equal(verdict.step, SIZE_MAX);
    assert_int_equal(verdict.peak_bytes, peak);
    if (!(fabs(verdict.time - time) <= 1e-12 * time))
        fail_msg("\"%s\": %.17g s, not %g", steps, verdict.time, time);
    return verdict;
}

static void expect_reason(const neap_verdict *verdict, size_t step, const char *reason)
{
    assert_false(verdict->accepted);
    assert_string_equal(verdict->reason, reason);
    assert_int_equal(verdict->step, step);
    assert_false(verdict->has_arena);
}

static void expect_rejected(const char *json, const char *steps, const neap_link *link, size_t step,
                            const char *reason)
{
    neap_verdict verdict = judge_steps(json, steps, link, -1);
    expect_reason(&verdict, step, reason);
}

/* ---- Memory ---- */

static void test_the_contracts_example(void **state)
{
    (void)state;
    /* 4096 fixed + 100 x + 200 h + 4 loss + 200 dh; hT holds h's storage when h is freed. */
    neap_verdict v = expect(tiny_graph, TINY_PLAN, NULL, 4600, 0.004);
    assert_int_equal(v.peak_step, 4);
    assert_int_equal(v.recomputed_ops, 0);
    assert_int_equal(v.compute_ticks, v.ticks);
    assert_int_equal(v.arena_bytes, -1);
    assert_false(v.has_arena);
    /* Variant 0 is faster and has a workspace of 64, which does not set the peak. */
    expect(tiny_graph, "c0 c1 c2 f1 c3 f2", NULL, 4600, 0.003);
}

static void test_workspace_counts_with_inputs_and_outputs(void **state)
{
    (void)state;
    static const char json[] =
        "{'neap': 'graph', 'version': 1, 'name': 'w', 'fixed_bytes': 1,"
        " 'values': [{'name': 'x', 'bytes': 10, 'kind': 'input'},"
        "  {'name': 'y', 'bytes': 100, 'kind': 'activation'}],"
        " 'ops': [{'name': 'o', 'type': 't', 'pass': 'forward', 'inputs': [0], 'outputs': [1],"
        "  'time': 1, 'workspace': 1000}], 'outputs': [1]}";
    neap_verdict v = expect(json, "c0", NULL, 1111, 1);
    assert_int_equal(v.peak_step, 0);
}

static void test_views_hold_their_storage(void **state)
{
    (void)state;
    /* h again while hT is resident: the same storage, counted once. */
    neap_verdict v = expect(tiny_graph, "c0.1 c1 f1 c0.1 c2 c3", NULL, 4600, 0.006);
    assert_int_equal(v.recomputed_ops, 1);
    /* Both freed, so the storage is gone; recomputed. */
    v = expect(tiny_graph, "c0 c1 c2 f1 f2 c0 c1 c3", NULL, 4600, 0.004);
    assert_int_equal(v.recomputed_ops, 2);
}

static void test_inputs_are_always_there(void **state)
{
    (void)state;
    static const char
        json[] = /* z views x, y views z's storage through an op; x2 views x as an input */
        "{'neap': 'graph', 'version': 1, 'name': 'i',"
        " 'values': [{'name': 'x2', 'bytes': 0, 'kind': 'input', 'view_of': 1},"
        "  {'name': 'x', 'bytes': 10, 'kind': 'input'},"
        "  {'name': 'y', 'bytes': 0, 'kind': 'activation', 'view_of': 1},"
        "  {'name': 'w', 'bytes': 7, 'kind': 'input'}],"
        " 'ops': [{'name': 'o', 'type': 'view', 'pass': 'forward', 'inputs': [0], 'outputs': [2],"
        "  'time': 1, 'workspace': 0}], 'outputs': []}";
    expect(json, "c0 f2 c0", NULL, 17, 2);
    expect_rejected(json, "c0 f0", NULL, 1,
                    "step 1: free value 0 \"x2\": it is an input: resident throughout, never "
                    "freed or transferred");
}

static void test_figures_up_to_a_fault(void **state)
{
    (void)state;
    neap_verdict v = judge_steps(abc_graph, "c0 c1 f1 c0 c1", NULL, -1);
    assert_false(v.accepted);
    assert_int_equal(v.step, 4);
    assert_int_equal(v.peak_bytes, 310);
    assert_int_equal(v.peak_step, 1);
    assert_int_equal(v.recomputed_ops, 1);
    assert_true(v.time == 3);
}

/* ---- Budget ---- */

static void test_budget(void **state)
{
    (void)state;
    neap_verdict v = judge_steps(tiny_graph, TINY_PLAN, NULL, 4600);
    assert_true(v.accepted);
    v = judge_steps(tiny_graph, TINY_PLAN, NULL, 4599);
    expect_reason(&v, 4, "step 4: compute op 3 \"loss_bw\": 4600 B live, the budget is 4599 B");
    assert_int_equal(v.peak_bytes, 4600);
    v = judge_steps(tiny_graph, TINY_PLAN, NULL, 2048);
    expect_reason(&v, SIZE_MAX, "the fixed bytes and inputs take 4.10 KiB, the budget is 2.00 KiB");
    v = judge_steps(tiny_graph, TINY_PLAN, NULL, 0);
    assert_false(v.accepted);
}

static void test_budget_of_the_plan(void **state)
{
    (void)state;
    neap_graph *graph = graph_from(abc_graph);
    for (int64_t budget = 359; budget <= 360; budget++) {
        neap_plan *plan;
        assert_int_equal(neap_plan_create(NULL, "other", "hand", budget, &plan, NULL), NEAP_OK);
        for (uint32_t op = 0; op < 3; op++)
            assert_int_equal(neap_plan_append(plan, (neap_step){NEAP_COMPUTE, op, 0, false}, NULL),
                             NEAP_OK);
        neap_verdict v;
        assert_int_equal(neap_check(NULL, graph, plan, NULL, &v, NULL), NEAP_OK);
        assert_true(v.accepted == (budget == 360));
        v = judge_plan(graph, plan, NULL, INT64_MAX);
        assert_true(v.accepted);
        v = judge_plan(graph, plan, NULL, 100);
        assert_false(v.accepted);
        neap_plan_destroy(plan);
    }
    neap_graph_destroy(graph);
}

/* ---- Transfers ---- */

static void test_one_engine(void **state)
{
    (void)state;
    /* a out 1 -> 2 beside b; back 2 -> 4; c 4 -> 5. */
    neap_verdict v = expect(abc_graph, "c0 o1 c1 f1 p1 c2", &link_100_50, 360, 5);
    assert_int_equal(v.offloaded_bytes, 100);
    assert_int_equal(v.host_bytes, 100);
    /* Out 1 -> 2.5, the free waits for it, back 2.5 -> 5. */
    expect(abc_graph, "c0 o1 c1 f1 p1 c2", &slow_start, 360, 6);
    /* a out 1 -> 2, b out 2 -> 4, a back 4 -> 6, c 7. */
    expect(abc_graph, "c0 o1 c1 o2 f1 p1 c2", &link_100_50, 360, 7);
}

static void test_two_engines(void **state)
{
    (void)state;
    /* a back 2 -> 4 beside b's way out 2 -> 4. */
    expect(abc_graph, "c0 o1 c1 o2 f1 p1 c2", &duplex_100_50, 360, 5);
    /* Out 1 -> 2, back 2 -> 4, out again 4 -> 5 although its engine is free from 2. */
    neap_verdict v = expect(abc_graph, "c0 o1 f1 p1 o1 f1 c0 c1 c2", &duplex_100_50, 360, 8);
    assert_int_equal(v.offloaded_bytes, 200);
    assert_int_equal(v.host_bytes, 100);
}

static void test_who_waits_for_copies(void **state)
{
    (void)state;
    expect(abc_graph, "c0 o1 f1 c0 c1 c2", &link_100, 360, 5); /* a free, for the way out */
    expect(abc_graph, "c0 o1 f1 p1 f1 c0 c1 c2", &link_100_50, 360, 7); /* and for the way in */
    expect(abc_graph, "c0 c1 o2 f1 c0 c2", &link_100, 360, 4);          /* not for another value */
    expect(abc_graph, "c0 o1 c1 c2", &link_100, 360, 3);    /* a reader, not for the way out */
    expect(abc_graph, "c0 c1 c2 o3", &link_100, 360, 3.5);  /* the makespan, for all */
    expect(abc_graph, "c0 c1 o1 c2 o2", &link_100, 360, 5); /* a copy, for ops before it */
    expect(abc_graph, "c0 o1 f1 c0 f1 p1 f1 p1 c1 c2", &link_100, 360, 7); /* host copies last */
}

static void test_a_view_moves_its_storage(void **state)
{
    (void)state;
    const neap_link link = {.out_bandwidth = 100000, .in_bandwidth = 100000};
    /* 200 bytes out 0.002 -> 0.004, back to 0.006, two ops. */
    neap_verdict v = expect(tiny_graph, "c0.1 c1 o2 f2 p2 c2 c3", &link, 4600, 0.008);
    assert_int_equal(v.offloaded_bytes, 200);
    /* Each value has its own copy on the host. */
    v = expect(tiny_graph, "c0.1 c1 o1 o2 c2 c3", &link, 4600, 0.006);
    assert_int_equal(v.host_bytes, 400);
}

static void test_host_memory(void **state)
{
    (void)state;
    neap_link link = {.out_bandwidth = 100, .in_bandwidth = 100, .host_memory = 300};
    expect(abc_graph, "c0 o1 o1 c1 o2 c2", &link, 360, 5);
    link.host_memory = 299;
    expect_rejected(abc_graph, "c0 o1 c1 o2 c2", &link, 3,
                    "step 3: offload value 2 \"b\": 300 B on the host, its memory is 299 B");
}

static void test_link_ticks(void **state)
{
    (void)state;
    neap_graph *graph = graph_from(abc_graph);
    int64_t second = neap_graph_ticks_per_second(graph);
    neap_link link = {.out_bandwidth = 3, .in_bandwidth = 1e9, .latency = 0.25};
    assert_int_equal(neap_link_ticks(&link, graph, true, 3), second + second / 4);
    /* second is a power of ten: 7/12 of it ends in .333..., 1/4 + 2/3 in .666... */
    assert_int_equal(neap_link_ticks(&link, graph, true, 1), second * 7 / 12);
    assert_int_equal(neap_link_ticks(&link, graph, true, 2), second * 11 / 12 + 1);
    /* A terabyte at 10^9 bytes a second: exact to the tick. */
    assert_int_equal(neap_link_ticks(&link, graph, false, INT64_C(1000000000000)),
                     1000 * second + second / 4);
    link.in_bandwidth = 0;
    assert_int_equal(neap_link_ticks(&link, graph, false, 0), INT64_MAX);
    link.in_bandwidth = 1e-300;
    assert_int_equal(neap_link_ticks(&link, graph, false, 1), INT64_MAX);
    link.in_bandwidth = HUGE_VAL;
    assert_int_equal(neap_link_ticks(&link, graph, false, INT64_MAX), second / 4);
    neap_graph_destroy(graph);
}

/* ---- Reasons ---- */

static const struct rejection {
    const char *steps;
    const neap_link *link;
    size_t step;
    const char *reason;
} rejections[] = {
    {"c1", NULL, 0,
     "step 0: compute op 1 \"B\": input value 1 \"a\" is not resident (op 0, which makes it, has "
     "not run)"},
    {"c0 c1 f1 c2", NULL, 3,
     "step 3: compute op 2 \"C\": input value 1 \"a\" is not resident (freed at step 2)"},
    {"c0 o1 c1 f1 c2", &link_100, 4,
     "step 4: compute op 2 \"C\": input value 1 \"a\" is not resident (freed at step 3; prefetch "
     "it)"},
    {"c0 c0", NULL, 1,
     "step 1: compute op 0 \"A\": output value 1 \"a\" is resident already (since step 0); free "
     "it before"},
    {"c3", NULL, 0, "step 0: compute op 3: the graph has 3 ops"},
    {"c0.1", NULL, 0, "step 0: compute op 0 \"A\": there is no variant 1: the op has 1, from 0"},
    {"c0 f4", NULL, 1, "step 1: free value 4: the graph has 4 values"},
    {"f0", NULL, 0,
     "step 0: free value 0 \"x\": it is an input: resident throughout, never freed or transferred"},
    {"f1", NULL, 0,
     "step 0: free value 1 \"a\": it is not resident (op 0, which makes it, has not run)"},
    {"c0 f1 f1", NULL, 2, "step 2: free value 1 \"a\": it is not resident (freed at step 1)"},
    {"c0 o1", NULL, 1,
     "step 1: offload value 1 \"a\": there is no link to the host; give its bandwidth, or plan "
     "without transfers"},
    {"o0", &link_100, 0,
     "step 0: offload value 0 \"x\": it is an input: resident throughout, never freed or "
     "transferred"},
    {"c0 f1 o1", &link_100, 2,
     "step 2: offload value 1 \"a\": it is not resident (freed at step 1)"},
    {"o7", &link_100, 0, "step 0: offload value 7: the graph has 4 values"},
    {"p0", &link_100, 0,
     "step 0: prefetch value 0 \"x\": it is an input: resident throughout, never freed or "
     "transferred"},
    {"c0 o1 p1", &link_100, 2,
     "step 2: prefetch value 1 \"a\": it is resident already (since step 0)"},
    {"c0 f1 p1", &link_100, 2,
     "step 2: prefetch value 1 \"a\": it is not on the host (never offloaded)"},
    {"p9", &link_100, 0, "step 0: prefetch value 9: the graph has 4 values"},
    {"c0 c1", NULL, SIZE_MAX, "op 2 \"C\" is never computed"},
    {"c0 c1 c2 f3", NULL, SIZE_MAX,
     "output value 3 \"c\" is not resident at the end (freed at step 3)"},
    {"", NULL, SIZE_MAX, "op 0 \"A\" is never computed"},
};

static void test_every_reason(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(rejections); i++)
        expect_rejected(abc_graph, rejections[i].steps, rejections[i].link, rejections[i].step,
                        rejections[i].reason);
}

/* ---- The whole step ---- */

/*
 * w 30 and m 60 are state, x 10 an input. A: x, w -> a 100; R may write r 100 over a; V: a view of
 * r; G: a and r -> g 30; U updates w and m from g. Each op takes a second, at 100 bytes a second.
 */
static const char step_graph[] =
    "{'neap':'graph','version':1,'values':[{'name':'x','bytes':10},"
    "{'name':'w','bytes':30,'state':true},{'name':'m','bytes':60,'state':true},"
    "{'name':'a','bytes':100},{'name':'r','bytes':100},{'name':'v','bytes':0,'view_of':4},"
    "{'name':'g','bytes':30}],'ops':["
    "{'name':'A','inputs':[0,1],'outputs':[3],'time':1},"
    "{'name':'R','inputs':[3],'outputs':[4],'time':1,'in_place':[3,4]},"
    "{'name':'V','inputs':[4],'outputs':[5],'time':1},"
    "{'name':'G','inputs':[5],'outputs':[6],'time':1},"
    "{'name':'U','inputs':[1,2,6],'outputs':[],'updates':[1,2],'time':1}],'outputs':[]}";

static void test_runs_in_place(void **state)
{
    (void)state;
    expect(step_graph, "c0 c1 f3 c2 c3 c4", NULL, 300, 5); /* a and r */
    expect(step_graph, "c0 c1! c2 f4 c3 f5 c4", NULL, 230, 5);
    expect(step_graph, "c0 c1! c0 c2 c3 c4", NULL, 330, 6); /* a again, beside r */
    /* a copy of a is under way: the run waits for it. */
    expect(step_graph, "c0 o3 c1! c2 c3 c4", &link_100, 230, 6);
    expect(step_graph, "c0 o3 c1! p3 c2 c3 c4", &link_100, 330, 6);
}

static void test_state_that_moves(void **state)
{
    (void)state;
    /* m arrives while A runs, and leaves again after its update: 0.6 s more. */
    expect(step_graph, "h2 c0 c1! c2 f4 c3 f5 p2 c4 o2 f2", &link_100, 170, 6.2);
    expect(step_graph, "h2 p2 c0 c1! c2 f4 c3 f5 c4 o2 f2", &link_100, 230, 5.6);
    /* w is read, goes, and comes back for the update. */
    expect(step_graph, "h1 h2 p1 c0 f1 c1! c2 f4 c3 f5 p1 p2 c4 o1 o2 f1 f2", &link_100, 140, 7.1);
    expect(step_graph, "o2 c0 f2 c1! c2 f4 c3 f5 p2 c4", &link_100, 200, 5.6);
}

static const struct rejection step_rejections[] = {
    {"c0 c1 c2!", NULL, 2,
     "step 2: compute op 2 \"V\": the graph does not say that it may run in place"},
    {"c0 c1 f4 c1! c2 c3 c1!", NULL, 6,
     "step 6: compute op 1 \"R\": input value 3 \"a\" is not resident (freed at step 3)"},
    {"c0 c1! c0 c2 f4 c1!", NULL, 5,
     "step 5: compute op 1 \"R\": the storage of value 4 \"r\" is live already"},
    {"c0 c1 f3 c2 c3 c4 c0", NULL, 6,
     "step 6: compute op 0 \"A\": input value 1 \"w\" was updated; ops that read it must run "
     "before its update"},
    {"c0 c1 c2 c3 c4 c4", NULL, 5, "step 5: compute op 4 \"U\": it updates state, and ran before"},
    {"f1", NULL, 0,
     "step 0: free value 1 \"w\": it is state, and the host does not have it; offload it before"},
    {"h1 p1 c0 c1 c2 c3 c4 f1", &link_100, 6,
     "step 6: free value 1 \"w\": it was updated, and the host does not have it as it is now; "
     "offload it before"},
    {"h1 p1 c0 f1 c1 c2 c3 c4", &link_100, 6,
     "step 6: compute op 4 \"U\": input value 1 \"w\" is not resident (freed at step 2; prefetch "
     "it)"},
    {"h1 c0", &link_100, 0,
     "step 0: compute op 0 \"A\": input value 1 \"w\" is not resident (on the host at the start; "
     "prefetch it)"},
    {"h1 p1 c0 c1 c2 c3 c4", &link_100, SIZE_MAX,
     "value 1 \"w\" was updated, and the host does not have it as it is now at the end; offload "
     "it"},
    {"h1 p1 c0 c1 c2 c3 c4 o1", &link_100, SIZE_MAX,
     "value 1 \"w\" began on the host and is still on the device at the end; free it"},
    {"o2 f2 c0 c1 c2 c3 p2 c4 o2 f2", &link_100, SIZE_MAX,
     "state value 2 \"m\" is not resident at the end (freed at step 9; prefetch it)"},
    {"p1", &link_100, 0,
     "step 0: prefetch value 1 \"w\": it is resident already (since the start)"},
    {"h0", NULL, SIZE_MAX, "host_at_start names value 0 \"x\", which is no state"},
    {"h9", NULL, SIZE_MAX, "host_at_start names value 9, but the graph has 7 values"},
    {"h1 h1", NULL, SIZE_MAX, "host_at_start names value 1 \"w\" twice"},
};

static void test_every_reason_of_a_whole_step(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(step_rejections); i++)
        expect_rejected(step_graph, step_rejections[i].steps, step_rejections[i].link,
                        step_rejections[i].step, step_rejections[i].reason);
}

static void test_one_way_links(void **state)
{
    (void)state;
    const neap_link out_only = {.out_bandwidth = 100};
    expect(abc_graph, "c0 o1 c1 c2", &out_only, 360, 3);
    expect_rejected(abc_graph, "c0 o1 f1 p1", &out_only, 3,
                    "step 3: prefetch value 1 \"a\": there is no link from the host; give its "
                    "bandwidth, or plan without transfers");
}

static void test_an_output_must_be_away(void **state)
{
    (void)state;
    static const char json[] = /* one op with two outputs */
        "{'neap': 'graph', 'version': 1, 'name': 't',"
        " 'values': [{'name': 'p', 'bytes': 1, 'kind': 'activation'},"
        "  {'name': 'q', 'bytes': 2, 'kind': 'activation'}],"
        " 'ops': [{'name': 'o', 'type': 't', 'pass': 'forward', 'inputs': [], 'outputs': [0, 1],"
        "  'time': 1, 'workspace': 0}], 'outputs': [0, 1]}";
    expect(json, "c0 f0 f1 c0", NULL, 3, 2);
    expect_rejected(json, "c0 f0 c0", NULL, 2,
                    "step 2: compute op 0 \"o\": output value 1 \"q\" is resident already (since "
                    "step 0); free it before");
}

static void test_an_unknown_kind_of_step(void **state)
{
    (void)state;
    neap_graph *graph = graph_from(abc_graph);
    neap_plan *plan = plan_from("c0");
    assert_int_equal(neap_plan_append(plan, (neap_step){(neap_step_kind)4, 1, 0, false}, NULL),
                     NEAP_OK);
    neap_verdict v = judge_plan(graph, plan, NULL, -1);
    expect_reason(&v, 1, "step 1: unknown value 1 \"a\": there is no such kind of step");
    neap_plan_destroy(plan);
    neap_graph_destroy(graph);
}

static void test_names_cannot_break_the_line(void **state)
{
    (void)state;
    char json[4096], name[601];
    for (size_t i = 0; i + 1 < sizeof name; i += 2) /* two bytes a character, cut at 64 of them */
        memcpy(name + i, i == 0 ? "\\n" : i == 2 ? "\xc2\x9b" : "\xc3\xa9", 2);
    name[sizeof name - 1] = '\0';
    int length = snprintf(json, sizeof json,
                          "{'neap': 'graph', 'version': 1, 'name': 'n',"
                          " 'values': [{'name': '%s', 'bytes': 1, 'kind': 'activation'}],"
                          " 'ops': [{'name': '%s', 'type': 't', 'pass': 'forward', 'inputs': [],"
                          "  'outputs': [0], 'time': 1, 'workspace': 0}], 'outputs': [0]}",
                          name, name);
    assert_in_range(length, 1, sizeof json - 1);
    neap_verdict v = judge_steps(json, "c0 c0", NULL, -1);
    assert_false(v.accepted);
    assert_null(strchr(v.reason, '\n'));
    assert_non_null(strstr(v.reason, "step 1: compute op 0 \"??\xc3\xa9"));
    assert_non_null(strstr(v.reason, "\xc3\xa9...\": output value 0 \"??"
                                     "\xc3\xa9"));
    assert_non_null(strstr(v.reason, "free it before"));
}

static void test_time_that_overflows(void **state)
{
    (void)state;
    /* 10^15 ticks an execution: a link of nearly no bandwidth passes 2^63. */
    const neap_link link = {.out_bandwidth = 1e-5, .in_bandwidth = 1};
    expect_rejected(abc_graph, "c0 o1", &link, 1,
                    "step 1: offload value 1 \"a\": the time passes 2^63 ticks");
}

/* ---- Addresses ---- */

static neap_verdict judge_offsets(const char *json, const char *steps, const neap_link *link,
                                  int64_t budget, size_t count, const int64_t *offsets,
                                  int64_t arena)
{
    neap_graph *graph = graph_from(json);
    neap_plan *plan = plan_from(steps);
    assert_int_equal(neap_plan_set_offsets(plan, offsets, count, arena, NULL), NEAP_OK);
    neap_verdict verdict = judge_plan(graph, plan, link, budget);
    assert_int_equal(verdict.arena_bytes, arena);
    neap_plan_destroy(plan);
    neap_graph_destroy(graph);
    return verdict;
}

#define OFFSETS(...)                                                                               \
    (sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), ((const int64_t[]){__VA_ARGS__})

static void expect_placed(neap_verdict verdict)
{
    if (!verdict.accepted)
        fail_msg("%s", verdict.reason);
    assert_true(verdict.has_arena);
}

static void test_offsets(void **state)
{
    (void)state;
    /* x, h, loss, dh; hT lies on h. */
    expect_placed(
        judge_offsets(tiny_graph, TINY_PLAN, NULL, 4600, OFFSETS(4096, 4196, 4396, 4400), 4600));
    expect_placed(
        judge_offsets(tiny_graph, TINY_PLAN, NULL, 4600, OFFSETS(4500, 4096, 4296, 4300), 4600));
    /* With a workspace of 64 after h, gone before loss comes. */
    expect_placed(judge_offsets(tiny_graph, "c0 c1 c2 f1 c3 f2", NULL, -1,
                                OFFSETS(4096, 4196, 4396, 4396, 4400), 4600));
    /* x, a, a again, b, a back, c. */
    expect_placed(judge_offsets(abc_graph, "c0 o1 f1 c0 c1 f1 p1 c2", &link_100, -1,
                                OFFSETS(0, 10, 50, 150, 350, 50), 450));
}

static const struct misplacing {
    const char *steps;
    size_t count;
    int64_t offsets[6];
    int64_t arena;
    size_t step;
    const char *reason;
} misplacings[] = {
    {TINY_PLAN,
     4,
     {4095, 4196, 4396, 4400},
     4600,
     SIZE_MAX,
     "offset 0 puts the storage of value 0 \"x\" at [4095, 4195), but the first 4096 bytes are the "
     "graph's fixed bytes"},
    {TINY_PLAN,
     4,
     {4096, 4195, 4396, 4400},
     4600,
     0,
     "step 0: compute op 0 \"fc\": offset 1 puts the storage of value 1 \"h\" at [4195, 4395), but "
     "offset 0 puts the storage of value 0 \"x\" at [4096, 4196), and both are live"},
    {TINY_PLAN,
     4,
     {4096, 4196, 4393, 4400},
     4600,
     2,
     "step 2: compute op 2 \"loss\": offset 2 puts the storage of value 3 \"loss\" at [4393, "
     "4397), but offset 1 puts the storage of value 1 \"h\" at [4196, 4396), and both are live"},
    {TINY_PLAN,
     4,
     {4096, 4196, 4396, 4196},
     9999,
     4, /* h is freed, but hT holds its storage */
     "step 4: compute op 3 \"loss_bw\": offset 3 puts the storage of value 4 \"dh\" at [4196, "
     "4396), but offset 1 puts the storage of value 1 \"h\" at [4196, 4396), and both are live"},
    {TINY_PLAN,
     4,
     {4096, 4196, 4396, 4397},
     4600,
     4, /* the neighbour above or below */
     "step 4: compute op 3 \"loss_bw\": offset 3 puts the storage of value 4 \"dh\" at [4397, "
     "4597), but offset 2 puts the storage of value 3 \"loss\" at [4396, 4400), and both are live"},
    {TINY_PLAN,
     4,
     {4096, 4296, 4496, 4200},
     4600,
     4,
     "step 4: compute op 3 \"loss_bw\": offset 3 puts the storage of value 4 \"dh\" at [4200, "
     "4400), but offset 1 puts the storage of value 1 \"h\" at [4296, 4496), and both are live"},
    {TINY_PLAN,
     4,
     {4096, 4196, 4396, 4400},
     4599,
     4,
     "step 4: compute op 3 \"loss_bw\": offset 3 puts the storage of value 4 \"dh\" at [4400, "
     "4600), outside the arena of 4599 bytes"},
    {TINY_PLAN,
     4,
     {4096, 4196, 4396, INT64_MAX},
     4600,
     4,
     "step 4: compute op 3 \"loss_bw\": offset 3 puts the storage of value 4 \"dh\" at "
     "[9223372036854775807, 9223372036854775807), outside the arena of 4600 bytes"},
    {TINY_PLAN,
     4,
     {4096, -1, 4396, 4400},
     4600,
     0,
     "step 0: compute op 0 \"fc\": offset 1 puts the storage of value 1 \"h\" at [-1, 199), "
     "outside the arena of 4600 bytes"},
    {TINY_PLAN,
     3,
     {4096, 4196, 4396},
     4600,
     4,
     "step 4: compute op 3 \"loss_bw\": the plan has 3 offsets, there is none for the storage of "
     "value 4 \"dh\""},
    {TINY_PLAN,
     5,
     {4096, 4196, 4396, 4400, 4096},
     4600,
     SIZE_MAX,
     "the plan has 5 offsets, its steps allocate 4 times"},
    {TINY_PLAN,
     4,
     {4096, 4196, 4396, 4400},
     4000,
     SIZE_MAX,
     "the arena has 4000 bytes, the graph's fixed bytes are 4096"},
    {"c0 c1 c2 c3",
     5,
     {4096, 4196, 4395, 4396, 4400},
     4600,
     0,
     "step 0: compute op 0 \"fc\": offset 2 puts the workspace of op 0 \"fc\" at [4395, 4459), but "
     "offset 1 puts the storage of value 1 \"h\" at [4196, 4396), and both are live"},
    {"c0 c1 c2 c3",
     2,
     {4096, 4196},
     4600,
     0,
     "step 0: compute op 0 \"fc\": the plan has 2 offsets, there is none for the workspace of op 0 "
     "\"fc\""},
};

static void test_every_misplacing(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(misplacings); i++) {
        const struct misplacing *m = &misplacings[i];
        neap_verdict v =
            judge_offsets(tiny_graph, m->steps, NULL, -1, m->count, m->offsets, m->arena);
        expect_reason(&v, m->step, m->reason);
    }
}

static void test_the_arena_counts_against_the_budget(void **state)
{
    (void)state;
    neap_verdict v =
        judge_offsets(tiny_graph, TINY_PLAN, NULL, 4600, OFFSETS(4096, 4196, 4396, 4400), 4601);
    expect_reason(&v, SIZE_MAX, "the arena has 4601 B, the budget is 4600 B");
}

static void test_nothing_overlaps_what_is_empty(void **state)
{
    (void)state;
    static const char json[] = /* x 10 -> e 0 -> y 5 */
        "{'neap': 'graph', 'version': 1, 'name': 'e', 'fixed_bytes': 8,"
        " 'values': [{'name': 'x', 'bytes': 10, 'kind': 'input'},"
        "  {'name': 'e', 'bytes': 0, 'kind': 'activation'},"
        "  {'name': 'y', 'bytes': 5, 'kind': 'activation'}],"
        " 'ops': [{'name': 'E', 'type': 't', 'pass': 'forward', 'inputs': [0], 'outputs': [1],"
        "   'time': 1, 'workspace': 0},"
        "  {'name': 'Y', 'type': 't', 'pass': 'forward', 'inputs': [1], 'outputs': [2],"
        "   'time': 1, 'workspace': 0}], 'outputs': [2]}";
    expect_placed(judge_offsets(json, "c0 c1 f1", NULL, -1, OFFSETS(8, 12, 18), 23));
    expect_placed(judge_offsets(json, "c0 c1", NULL, -1, OFFSETS(8, 23, 18), 23));
    expect_placed(judge_offsets(json, "c0 c1", NULL, -1, OFFSETS(8, 0, 18), 23));
    neap_verdict v = judge_offsets(json, "c0 c1", NULL, -1, OFFSETS(8, 24, 18), 23);
    assert_false(v.accepted);
    assert_int_equal(v.step, 0);
}

/* ---- Speed ---- */

static void test_a_million_steps(void **state)
{
    (void)state;
    random_source random = {7};
    neap_graph *graph = random_graph(&random, 20000);
    while (neap_graph_op_count(graph) < 15000) {
        neap_graph_destroy(graph);
        graph = random_graph(&random, 20000);
    }
    neap_plan *plan = random_plan(&random, graph, 1000000, true);
    neap_link link = {.out_bandwidth = 1e6, .in_bandwidth = 1e6, .duplex = true};
    double start = cpu_seconds();
    neap_verdict v = judge_plan(graph, plan, &link, -1);
    double seconds = cpu_seconds() - start;
    if (!v.accepted)
        fail_msg("%s", v.reason);
    print_message("%zu steps judged in %.3f s\n", neap_plan_step_count(plan), seconds);
    assert_true(neap_plan_step_count(plan) >= 1000000);
#ifdef __OPTIMIZE__
    assert_true(seconds < 5);
#endif
    neap_plan_destroy(plan);
    neap_graph_destroy(graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_contracts_example),
        cmocka_unit_test(test_workspace_counts_with_inputs_and_outputs),
        cmocka_unit_test(test_views_hold_their_storage),
        cmocka_unit_test(test_inputs_are_always_there),
        cmocka_unit_test(test_figures_up_to_a_fault),
        cmocka_unit_test(test_budget),
        cmocka_unit_test(test_budget_of_the_plan),
        cmocka_unit_test(test_one_engine),
        cmocka_unit_test(test_two_engines),
        cmocka_unit_test(test_who_waits_for_copies),
        cmocka_unit_test(test_a_view_moves_its_storage),
        cmocka_unit_test(test_host_memory),
        cmocka_unit_test(test_link_ticks),
        cmocka_unit_test(test_every_reason),
        cmocka_unit_test(test_runs_in_place),
        cmocka_unit_test(test_state_that_moves),
        cmocka_unit_test(test_every_reason_of_a_whole_step),
        cmocka_unit_test(test_one_way_links),
        cmocka_unit_test(test_an_output_must_be_away),
        cmocka_unit_test(test_an_unknown_kind_of_step),
        cmocka_unit_test(test_names_cannot_break_the_line),
        cmocka_unit_test(test_time_that_overflows),
        cmocka_unit_test(test_offsets),
        cmocka_unit_test(test_every_misplacing),
        cmocka_unit_test(test_the_arena_counts_against_the_budget),
        cmocka_unit_test(test_nothing_overlaps_what_is_empty),
        cmocka_unit_test(test_a_million_steps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
