/*
 * The first schedule by linear work (planners/neap/start_linear.h): on random graphs and budgets
 * the judge finds the peak and the time that it tells; a long recurrence fits soon, at little cost;
 * each allocation may fail.
 *
 *     NEAP_TEST_SEED=7 NEAP_TEST_COUNT=1000 test_start_linear     # another seed, more cases
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "accepted.h"
#include "cpu_seconds.h"
#include "planners/neap/plan_conversion.h"
#include "planners/neap/start_linear.h"
#include "random_training.h"
#include "settings.h"
#include "torture.h"

#include <neap/cost.h>
#include <neap/models.h>
#include <neap/solve.h>

static bool never(void *context)
{
    (void)context;
    return false;
}

static bool always(void *context)
{
    (void)context;
    return true;
}

static neap_request request_for(const neap_graph *graph)
{
    neap_request request;
    neap_request_init(&request, graph, "neap");
    return request;
}

/* Has the schedule judged; whether it fits. */
static bool expect_judged(const problem *x, const neap_request *request, const search_plan *found,
                          int64_t budget)
{
    neap_plan *plan;
    neap_diag diag = {0};
    assert_true(found->found);
    if (neap_schedule_to_plan(NULL, x, request, &found->list, &plan, &diag) != NEAP_OK)
        fail_msg("%s", diag.message);
    neap_verdict verdict = accepted_plan(request->graph, plan, NULL);
    assert_int_equal(verdict.peak_bytes, found->peak);
    assert_int_equal(verdict.ticks, found->ticks);
    neap_plan_destroy(plan);
    return found->peak <= budget;
}

static void test_random_graphs(void **state)
{
    (void)state;
    uint64_t seed = setting("NEAP_TEST_SEED", 1), count = setting("NEAP_TEST_COUNT", 400);
    uint32_t n_fit = 0, n_saved = 0;
    for (uint64_t i = 0; i < count; i++) {
        random_source random = {seed + i};
        neap_graph *graph =
            i % 2 ? random_in_place_graph(&random, 40) : random_training_graph(&random, 40, false);
        neap_request request = request_for(graph);
        int64_t natural, floor = neap_graph_floor_bytes(graph, NULL);
        assert_int_equal(neap_natural_peak(NULL, graph, &natural, NULL), NEAP_OK);
        int64_t budget = floor + (natural - floor) * random_below(&random, 100) / 100;
        problem x;
        search_plan found = {0};
        assert_int_equal(neap_problem_init(&x, NULL, &request, NULL), NEAP_OK);
        bool hasty = random_below(&random, 4) == 0;
        assert_int_equal(
            neap_start_linear(NULL, &x, budget, hasty ? always : never, NULL, &found, NULL),
            NEAP_OK);
        bool fits = expect_judged(&x, &request, &found, budget);
        n_fit += fits;
        n_saved += fits && found.ticks < 2 * neap_graph_least_ticks(graph);
        neap_compute_list_clear(NULL, &x, &found.list);
        neap_problem_clear(&x);
        neap_graph_destroy(graph);
    }
    print_message("%u of %u fit\n", (unsigned)n_fit, (unsigned)count);
    assert_int_equal(n_saved, n_fit); /* no task runs more than twice */
    assert_true(n_fit > count / 4);
}

/* ---- A long recurrence ---- */

static neap_graph *lstm(int64_t steps)
{
    const neap_model_setting settings[] = {{"seq", steps}};
    neap_model_options options;
    neap_graph *graph;
    neap_model_options_init(&options);
    options.settings = settings;
    options.n_settings = 1;
    assert_int_equal(neap_model_build(NULL, neap_models_find("lstm"), &options, &graph, NULL),
                     NEAP_OK);
    neap_devices *devices;
    assert_int_equal(neap_devices_create(NULL, &devices, NULL), NEAP_OK);
    assert_int_equal(
        neap_cost_apply(graph, neap_devices_find(devices, "h200"), NEAP_MATH_F32, NULL), NEAP_OK);
    neap_devices_destroy(devices);
    return graph;
}

/* No plan within 90% is faster than 3.5% above one run of every op, and none within 70% than 21.1%.
 */
static void test_long_recurrence(void **state)
{
    (void)state;
    static const double shares[] = {0.9, 0.7}, overheads[] = {0.038, 0.222};
    neap_graph *graph = lstm(1500);
    neap_request request = request_for(graph);
    int64_t natural;
    problem x;
    assert_int_equal(neap_natural_peak(NULL, graph, &natural, NULL), NEAP_OK);
    assert_int_equal(neap_problem_init(&x, NULL, &request, NULL), NEAP_OK);
    for (int i = 0; i < 2; i++) {
        search_plan found = {0};
        int64_t budget = (int64_t)(shares[i] * (double)natural);
        double begin = cpu_seconds();
        assert_int_equal(neap_start_linear(NULL, &x, budget, never, NULL, &found, NULL), NEAP_OK);
        double seconds = cpu_seconds() - begin;
        double overhead = (double)found.ticks / (double)x.least_ticks - 1;
        print_message("%u tasks: %.2f%% more time at %.0f%%, in %.3f s\n", x.n_tasks,
                      100 * overhead, 100 * shares[i], seconds);
        assert_true(expect_judged(&x, &request, &found, budget));
        assert_true(overhead < overheads[i]);
        assert_true(seconds < 2 * SLOWNESS);
        neap_compute_list_clear(NULL, &x, &found.list);
    }
    neap_problem_clear(&x);
    neap_graph_destroy(graph);
}

/* ---- Out of memory ---- */

static neap_status make(const void *subject, neap_allocator *allocator, neap_diag *diag)
{
    const problem *x = subject;
    search_plan found = {0};
    neap_status status =
        neap_start_linear(allocator, x, x->base_bytes + 1, never, NULL, &found, diag);
    neap_compute_list_clear(allocator, x, &found.list);
    return status;
}

static void test_out_of_memory(void **state)
{
    (void)state;
    random_source random = {setting("NEAP_TEST_SEED", 1)};
    neap_graph *graph = random_training_graph(&random, 20, false);
    neap_request request = request_for(graph);
    problem x;
    assert_int_equal(neap_problem_init(&x, NULL, &request, NULL), NEAP_OK);
    torture_memory(make, &x, 10);
    neap_problem_clear(&x);
    neap_graph_destroy(graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_graphs),
        cmocka_unit_test(test_long_recurrence),
        cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
