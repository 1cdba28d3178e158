/*
 * Copies moved in time for the sake of addresses: random plans, with views and several lives of a
 * storage, stay legal and take no longer, and fit a smaller arena than before.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "accepted.h"
#include "layout/retime.h"
#include "random_plan.h"

#include <string.h>

enum { PLANS = 150 };

static const neap_link links[] = {
    {.out_bandwidth = 1e9, .in_bandwidth = 1e9, .duplex = true},
    {.out_bandwidth = 300, .in_bandwidth = 300},
    {.out_bandwidth = 50, .in_bandwidth = 200, .latency = 0.1, .duplex = true},
};
enum { LINKS = sizeof links / sizeof *links };

typedef struct outcome {
    neap_verdict verdict;
    int64_t arena;
    size_t steps;
} outcome;

/* The judged plan with copies at other times. */
static outcome retime(const neap_graph *graph, const neap_link *link, const neap_plan *plan,
                      int64_t target, int64_t alignment, double most_loss)
{
    neap_layout_options options;
    neap_plan *placed;
    neap_diag diag = {0};
    neap_layout_options_init(&options);
    options.target = target;
    options.alignment = alignment;
    if (neap_retime_assign(NULL, graph, link, plan, &options, most_loss, &placed, &diag) != NEAP_OK)
        fail_msg("%s", diag.message);
    outcome found = {.verdict = accepted_plan(graph, placed, link),
                     .arena = neap_plan_arena_bytes(placed),
                     .steps = neap_plan_step_count(placed)};
    neap_plan_destroy(placed);
    return found;
}

/* Without loss: no random plan takes longer than before. Many need fewer bytes. */
static void test_short_lives_take_no_time(void **state)
{
    (void)state;
    unsigned n_less = 0, n_plans = 0;
    for (uint64_t seed = 1; seed <= PLANS; seed++) {
        random_source random = {seed};
        const neap_link *link = &links[seed % LINKS];
        neap_graph *graph = random_graph(&random, 12);
        neap_plan *plan = random_plan(&random, graph, 60, true);
        int64_t alignment = seed % 2 ? 1 : 64;
        if (neap_retime_applies(plan)) {
            neap_verdict before = accepted_plan(graph, plan, link);
            outcome after = retime(graph, link, plan, -1, alignment, 0);
            if (after.verdict.ticks > before.ticks || after.arena < after.verdict.peak_bytes ||
                after.steps != neap_plan_step_count(plan))
                fail_msg("seed %llu", (unsigned long long)seed);
            n_less += after.verdict.peak_bytes < before.peak_bytes;
            n_plans++;
        }
        neap_plan_destroy(plan);
        neap_graph_destroy(graph);
    }
    assert_true(n_plans > PLANS / 2);
    assert_true(n_less > n_plans / 10);
}

/* With loss: what fits the target takes longer by no more than allowed, and more plans fit. */
static void test_more_loss_fits_more(void **state)
{
    (void)state;
    unsigned n_fit[2] = {0, 0};
    for (uint64_t seed = 1; seed <= PLANS; seed++) {
        random_source random = {seed};
        const neap_link *link = &links[seed % LINKS];
        neap_graph *graph = random_graph(&random, 12);
        neap_plan *plan = random_plan(&random, graph, 60, true);
        if (neap_retime_applies(plan)) {
            neap_verdict before = accepted_plan(graph, plan, link);
            int64_t least = retime(graph, link, plan, -1, 1, 0).arena;
            for (int lossy = 0; lossy < 2; lossy++) {
                outcome after = retime(graph, link, plan, least - 1, 1, lossy);
                bool fits = after.arena < least;
                n_fit[lossy] += fits;
                if (after.verdict.ticks > (fits ? 1 + lossy : 1) * before.ticks)
                    fail_msg("seed %llu", (unsigned long long)seed);
            }
        }
        neap_plan_destroy(plan);
        neap_graph_destroy(graph);
    }
    assert_true(n_fit[1] > n_fit[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_short_lives_take_no_time),
        cmocka_unit_test(test_more_loss_fits_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
