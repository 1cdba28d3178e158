/*
 * The objective NEAP_LEAST_PEAK of the method `neap` on graphs of more than 300 tasks, where the
 * peak is approached in steps: chains, whose least memory the chain methods know, and networks.
 * Also whether a time limit is kept there.
 *
 *     NEAP_TEST_SEED=7 NEAP_TEST_COUNT=100 test_neap_least_peak     # another seed, more cases
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "impatient.h"
#include "random_chain.h"
#include "settings.h"
#include "show_graph.h"

#include <neap/check.h>
#include <neap/cost.h>
#include <neap/models.h>
#include <neap/solve.h>

#include <inttypes.h>
#include <string.h>
#include <time.h>

#define SHARE ONE_IN(4)

enum { LARGE = 300 }; /* tasks: src/planners/neap/neap.c, FAR */

/* ---- Asking ---- */

/* Any time will do, so that only the peak is searched for. */
static neap_request ask(const neap_graph *graph)
{
    static const neap_option_setting briefly[] = {{"effort", "1"}};
    neap_request request;
    neap_request_init(&request, graph, "neap");
    request.objective = NEAP_LEAST_PEAK;
    request.target_time = 1e9;
    request.n_options = 1;
    request.options = briefly;
    request.threads = 2;
    return request;
}

static neap_solution *solve(const neap_request *request)
{
    neap_solution *solution;
    neap_diag diag = {0};
    neap_status status = neap_solve(NULL, request, &solution, &diag);
    NEED(request->graph, status == NEAP_OK, "%s: %s", request->method, diag.message);
    return solution;
}

/* ---- Graphs ---- */

/* A chain of more than LARGE tasks. */
static neap_graph *long_chain(random_source *random)
{
    chain_recipe recipe = random_chain_recipe(random, 1, true);
    recipe.layers = LARGE / 2 + 1 + random_below(random, 50);
    print_message("%s\n", chain_recipe_text(&recipe));
    return random_chain(random, &recipe);
}

static neap_graph *network(const char *name)
{
    neap_model_options options;
    neap_devices *devices;
    neap_graph *graph;
    neap_model_options_init(&options);
    assert_int_equal(neap_model_build(NULL, neap_models_find(name), &options, &graph, NULL),
                     NEAP_OK);
    assert_true(neap_graph_op_count(graph) > LARGE);
    assert_int_equal(neap_devices_create(NULL, &devices, NULL), NEAP_OK);
    const neap_device *device = neap_devices_find(devices, "h200");
    assert_int_equal(neap_cost_apply(graph, device, NEAP_MATH_F32, NULL), NEAP_OK);
    neap_devices_destroy(devices);
    return graph;
}

static int64_t natural_peak(const neap_graph *graph)
{
    int64_t peak;
    assert_int_equal(neap_natural_peak(NULL, graph, &peak, NULL), NEAP_OK);
    return peak;
}

/* ---- Properties ---- */

/* The least budget of rotor, whose schedule of least memory is optimal among recursive ones. */
static int64_t least_of_rotor(const neap_graph *graph)
{
    neap_request request;
    neap_request_init(&request, graph, "rotor");
    request.budget = neap_graph_floor_bytes(graph, NULL);
    request.budget = request.budget > 0 ? request.budget : 1;
    neap_solution *solution = solve(&request);
    const neap_figures *f = neap_solution_figures(solution);
    int64_t least = neap_solution_plan(solution) ? f->peak_bytes : f->least_budget;
    neap_solution_destroy(solution);
    return least;
}

/* The budget that is called the least works, from the plan that shows it. */
static void check_budget(const neap_request *least, const neap_solution *solution)
{
    const neap_figures *f = neap_solution_figures(solution);
    neap_request request = *least;
    request.objective = NEAP_LEAST_TIME;
    request.budget = f->peak_bytes > f->arena_bytes ? f->peak_bytes : f->arena_bytes;
    request.start = neap_solution_plan(solution);
    neap_solution *again = solve(&request);
    const neap_figures *g = neap_solution_figures(again);
    NEED(least->graph, neap_solution_plan(again) && g->peak_bytes <= request.budget,
         "no plan within %" PRId64 ", which was called the least", request.budget);
    neap_solution_destroy(again);
}

/* On a chain the peak is never above what the chain methods reach. */
static void test_chains(void **state)
{
    (void)state;
    random_source random = {setting("NEAP_TEST_SEED", 20261116)};
    uint64_t count = setting("NEAP_TEST_COUNT", 4 / SHARE);
    print_message("seed %" PRIu64 ", %" PRIu64 " chains\n", random.state, count);
    for (uint64_t i = 0; i < count; i++) {
        neap_graph *graph = long_chain(&random);
        neap_request request = ask(graph);
        request.time_limit = 1;
        neap_solution *solution = solve(&request);
        const neap_figures *f = neap_solution_figures(solution);
        int64_t least = least_of_rotor(graph);
        NEED(graph, neap_solution_plan(solution), "no plan");
        NEED(graph, least < 0 || f->peak_bytes <= least,
             "a peak of %" PRId64 ", rotor has %" PRId64, f->peak_bytes, least);
        NEED(graph, f->outcome != NEAP_OPTIMAL || f->peak_bytes == f->floor_bytes,
             "optimal above the floor");
        check_budget(&request, solution);
        neap_solution_destroy(solution);
        neap_graph_destroy(graph);
    }
}

/* Without a time limit the plan does not depend on the number of threads. */
static void test_threads(void **state)
{
    (void)state;
    neap_graph *graph = network("gpt2");
    neap_request request = ask(graph);
    char *texts[2];
    size_t lengths[2];
    for (int i = 0; i < 2; i++) {
        request.threads = 1 + 2 * i;
        neap_solution *solution = solve(&request);
        assert_int_equal(
            neap_plan_write_text(neap_solution_plan(solution), NULL, &texts[i], &lengths[i], NULL),
            NEAP_OK);
        print_message("%" PRId64 " of %" PRId64 " bytes\n",
                      neap_solution_figures(solution)->peak_bytes, natural_peak(graph));
        neap_solution_destroy(solution);
    }
    assert_int_equal(lengths[0], lengths[1]);
    assert_string_equal(texts[0], texts[1]);
    for (int i = 0; i < 2; i++)
        neap_release(NULL, texts[i], lengths[i] + 1);
    neap_graph_destroy(graph);
}

static double now(void)
{
    struct timespec t;
    timespec_get(&t, TIME_UTC);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* A low peak soon: a search that goes straight to the floor has not left the natural peak by then.
   A machine that is busy has three tries. */
static void check_soon(const char *name, int64_t percent, double target_time)
{
    neap_graph *graph = network(name);
    neap_request request = ask(graph);
    int64_t peak = INT64_MAX, wanted = natural_peak(graph) / 100 * percent;
    double over = 1;
    request.target_time = target_time;
    request.n_options = 0;
    request.time_limit = 1.5 * SHARE;
    for (int try = 0; try < 3 && (peak > wanted || over > 0.3 * SHARE); try++) {
        double begin = now();
        neap_solution *solution = solve(&request);
        over = now() - begin - request.time_limit;
        peak = neap_solution_figures(solution)->peak_bytes;
        print_message("%s: %" PRId64 " of %" PRId64 " bytes, %.2f s over\n", name, peak,
                      natural_peak(graph), over);
        check_budget(&request, solution);
        neap_solution_destroy(solution);
    }
    assert_true(peak <= wanted);
    assert_true(over <= 0.3 * SHARE);
    neap_graph_destroy(graph);
}

static void test_soon(void **state)
{
    (void)state;
    check_soon("resnet50", 30, 0);
    check_soon("densenet121", 20, 1e9);
}

static void keep_time_limit(const char *method, const char *name, int64_t divisor)
{
    neap_graph *graph = network(name);
    neap_request request;
    double over = 1;
    neap_request_init(&request, graph, method);
    request.threads = 2;
    request.budget = natural_peak(graph) / divisor;
    request.time_limit = 1.5 * SHARE;
    for (int try = 0; try < 3 && over > 0.7 * SHARE; try++) {
        double begin = now();
        neap_solution_destroy(solve(&request));
        over = now() - begin - request.time_limit;
        print_message("%s, %s: %.2f s over\n", method, name, over);
    }
    assert_true(over <= 0.7 * SHARE);
    neap_graph_destroy(graph);
}

/* Programs take long to build and to simplify, and HiGHS looks at no clock then. */
static void test_time_limit(void **state)
{
    (void)state;
    keep_time_limit("neap", "densenet121", 5);
    keep_time_limit("checkmate", "gpt2-xl", 3);
    keep_time_limit("checkmate-lp", "gpt2-xl", 3);
}

/* Cancelled at any time, it has a plan, if only that of every op once. */
static void test_cancelled(void **state)
{
    (void)state;
    static const unsigned patience[] = {0, 1, 10, 100, 1000};
    neap_graph *graph = network("resnet50");
    int64_t last = natural_peak(graph);
    for (size_t i = 0; i < sizeof patience / sizeof *patience; i++) {
        impatient l = {.base = {.cancelled = impatient_cancels}, .patience = patience[i]};
        neap_request request = ask(graph);
        request.threads = 1;
        request.progress = &l.base;
        neap_solution *solution = solve(&request);
        const neap_figures *f = neap_solution_figures(solution);
        assert_non_null(neap_solution_plan(solution));
        assert_int_equal(f->outcome, NEAP_INTERRUPTED);
        assert_true(f->peak_bytes <= last);
        last = f->peak_bytes;
        neap_solution_destroy(solution);
    }
    neap_graph_destroy(graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_chains),    cmocka_unit_test(test_threads),
        cmocka_unit_test(test_soon),      cmocka_unit_test(test_time_limit),
        cmocka_unit_test(test_cancelled),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
