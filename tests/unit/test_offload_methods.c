/*
 * vdnn, autoswap and tflms on a chain whose schedules are computed by hand; the search for weights;
 * and `offload` where the fastest schedule has no addresses.
 *
 * Four layers: x -> a -> b -> c -> d, 100 bytes each of a, b and c, nothing else takes memory but
 * f4's workspace. A backward op reads what its forward op read: b4 c and d, b3 b, b2 a. So a may be
 * away from f3 to b3 (parcel 0), b during f4 and b4 (1), and c never during an op (2). The link
 * takes a second for each, one at a time.
 *
 *     op         f1   f2   f3   f4       b4   b3   b2   b1
 *     seconds    1    t    1    1        1    1    1    1
 *     bytes      100  200  300  300 + w  300  200  100  0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "planners/offload/weight_search.h"
#include "small_graphs.h"

#include <neap/cost.h>
#include <neap/models.h>
#include <neap/solve.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

static neap_graph *four_layers(const char *f2_seconds, int workspace)
{
    char json[3000];
    int length = snprintf(
        json, sizeof json,
        "{'neap': 'graph', 'version': 1, 'name': 'four', 'fixed_bytes': 0,"
        " 'values': [{'name': 'x', 'bytes': 0, 'kind': 'input'},"
        "  {'name': 'a', 'bytes': 100, 'kind': 'activation'},"
        "  {'name': 'b', 'bytes': 100, 'kind': 'activation'},"
        "  {'name': 'c', 'bytes': 100, 'kind': 'activation'},"
        "  {'name': 'd', 'bytes': 0, 'kind': 'activation'},"
        "  {'name': 'gc', 'bytes': 0, 'kind': 'gradient'},"
        "  {'name': 'gb', 'bytes': 0, 'kind': 'gradient'},"
        "  {'name': 'ga', 'bytes': 0, 'kind': 'gradient'},"
        "  {'name': 'gx', 'bytes': 0, 'kind': 'gradient'}],"
        " 'ops': ["
        "  {'name': 'f1', 'type': 'f', 'pass': 'forward', 'inputs': [0], 'outputs': [1],"
        "   'time': 1, 'workspace': 0},"
        "  {'name': 'f2', 'type': 'f', 'pass': 'forward', 'inputs': [1], 'outputs': [2],"
        "   'time': %s, 'workspace': 0},"
        "  {'name': 'f3', 'type': 'f', 'pass': 'forward', 'inputs': [2], 'outputs': [3],"
        "   'time': 1, 'workspace': 0},"
        "  {'name': 'f4', 'type': 'f', 'pass': 'forward', 'inputs': [3], 'outputs': [4],"
        "   'time': 1, 'workspace': %d},"
        "  {'name': 'b4', 'type': 'b', 'pass': 'backward', 'inputs': [3, 4], 'outputs': [5],"
        "   'time': 1, 'workspace': 0},"
        "  {'name': 'b3', 'type': 'b', 'pass': 'backward', 'inputs': [2, 5], 'outputs': [6],"
        "   'time': 1, 'workspace': 0},"
        "  {'name': 'b2', 'type': 'b', 'pass': 'backward', 'inputs': [1, 6], 'outputs': [7],"
        "   'time': 1, 'workspace': 0},"
        "  {'name': 'b1', 'type': 'b', 'pass': 'backward', 'inputs': [0, 7], 'outputs': [8],"
        "   'time': 1, 'workspace': 0}],"
        " 'outputs': [8]}",
        f2_seconds, workspace);
    assert_true(length > 0 && (size_t)length < sizeof json);
    return graph_from(json);
}

static neap_solution *solve(const neap_graph *graph, const char *method, int64_t budget,
                            const neap_option_setting *options, uint32_t n_options)
{
    neap_request request;
    neap_solution *solution;
    neap_diag diag = {0};
    neap_request_init(&request, graph, method);
    request.budget = budget;
    request.link = (neap_link){.out_bandwidth = 100, .in_bandwidth = 100};
    request.options = options;
    request.n_options = n_options;
    if (neap_solve(NULL, &request, &solution, &diag) != NEAP_OK)
        fail_msg("%s within %lld: %s", method, (long long)budget, diag.message);
    return solution;
}

static double extra(const neap_solution *solution, const char *name)
{
    for (uint32_t i = 0; i < neap_solution_extra_count(solution); i++)
        if (strcmp(neap_solution_extra_at(solution, i)->name, name) == 0)
            return neap_solution_extra_at(solution, i)->number;
    fail_msg("there is no extra \"%s\"", name);
    return 0;
}

static void expect(const neap_graph *graph, const char *method, int64_t budget, double seconds,
                   int64_t moved_bytes)
{
    neap_solution *solution = solve(graph, method, budget, NULL, 0);
    const neap_figures *f = neap_solution_figures(solution);
    if (f->time != seconds || f->offloaded_bytes != moved_bytes)
        fail_msg("%s within %lld: %g seconds, %lld bytes moved; %s", method, (long long)budget,
                 f->time, (long long)f->offloaded_bytes, neap_solution_message(solution));
    assert_int_equal(extra(solution, "moved_tensors"), moved_bytes / 100);
    neap_solution_destroy(solution);
}

/*
 * f2 takes 2 seconds, and reads a: a leaves during f2 and comes back during b3, nothing waits. f2
 * is the longest for its bytes, a's absence the longest and the one above the budget, and with one
 * tensor fetched one op ahead tflms does the same.
 */
static void test_nothing_waits(void **state)
{
    (void)state;
    neap_graph *graph = four_layers("2", 0);
    expect(graph, "vdnn", 200, 9, 100);
    expect(graph, "autoswap", 200, 9, 100);
    expect(graph, "tflms", 200, 9, 100);
    neap_solution *solution = solve(graph, "tflms", 200, NULL, 0);
    assert_int_equal(extra(solution, "ahead"), 1);
    neap_solution_destroy(solution);
    /* All fits: nothing is moved. */
    expect(graph, "vdnn", 300, 9, 0);
    expect(graph, "autoswap", 300, 9, 0);
    expect(graph, "tflms", 300, 9, 0);
    neap_graph_destroy(graph);
}

/*
 * f2 takes half a second: f3 waits as long for a to be gone. autoswap moves a alone, 7.5 + 0.5
 * seconds. For vdnn a comes last: b and c are not enough without it, and of all three the first and
 * the third make b4 wait for c to return, a second more, as all three do.
 */
static void test_waiting_for_memory(void **state)
{
    (void)state;
    neap_graph *graph = four_layers("0.5", 0);
    expect(graph, "autoswap", 200, 8, 100);
    expect(graph, "vdnn", 200, 9, 200);
    neap_graph_destroy(graph);
}

/*
 * With 150 bytes of workspace for f4. Within 250 bytes f3 would have to wait for a, which tflms
 * does not do: f3 begins at 1.5 with 300 bytes, f4 at 2.5, when a has gone and b has not, with 350.
 * Within 350 bytes a leaves in time.
 */
static void test_tflms_does_not_wait(void **state)
{
    (void)state;
    neap_graph *graph = four_layers("0.5", 150);
    neap_solution *solution = solve(graph, "tflms", 250, NULL, 0);
    const neap_figures *f = neap_solution_figures(solution);
    assert_int_equal(f->outcome, NEAP_INFEASIBLE);
    assert_int_equal(f->least_budget, 350);
    assert_int_equal(f->blocking_op, 3);
    assert_string_equal(
        neap_solution_message(solution),
        "the link does not free memory in time for every op, and tflms lets none wait for it; "
        "offload-greedy does, and has a plan; tflms has no plan within 250 B; the least it found "
        "is 350 B (op \"f4\")");
    neap_solution_destroy(solution);
    expect(graph, "tflms", 350, 7.5, 100);

    solution = solve(graph, "offload-greedy", 250, NULL, 0);
    assert_non_null(neap_solution_plan(solution));
    neap_solution_destroy(solution);
    neap_graph_destroy(graph);
}

/* Fetched two ops ahead a is back during b4, which then has no room for it. */
static void test_tflms_options(void **state)
{
    (void)state;
    static const neap_option_setting two_ahead[] = {{"ahead", "2"}};
    static const neap_option_setting all_three[] = {{"tensors", "3"}, {"ahead", "1"}};
    neap_graph *graph = four_layers("2", 0);
    neap_solution *solution = solve(graph, "tflms", 200, two_ahead, COUNT_OF(two_ahead));
    assert_null(neap_solution_plan(solution));
    assert_int_equal(neap_solution_figures(solution)->least_budget, 300);
    neap_solution_destroy(solution);
    /* b leaves from 3 to 4, c from 4 to 5 while f4 runs, comes back until 6, then b and a. */
    solution = solve(graph, "tflms", 200, all_three, COUNT_OF(all_three));
    assert_true(neap_solution_figures(solution)->time == 10);
    assert_int_equal(neap_solution_figures(solution)->offloaded_bytes, 300);
    neap_solution_destroy(solution);
    neap_graph_destroy(graph);
}

/* A host that holds one tensor is enough where nothing waits, and does not make tflms wait. */
static void test_small_host(void **state)
{
    (void)state;
    static const char *const methods[] = {"vdnn", "autoswap", "tflms"};
    for (int waits = 0; waits < 2; waits++) {
        neap_graph *graph = four_layers(waits ? "0.5" : "2", 0);
        for (size_t m = 0; m < COUNT_OF(methods); m++) {
            neap_request request;
            neap_solution *solution;
            neap_request_init(&request, graph, methods[m]);
            request.budget = 200;
            request.link =
                (neap_link){.out_bandwidth = 100, .in_bandwidth = 100, .host_memory = 100};
            assert_int_equal(neap_solve(NULL, &request, &solution, NULL), NEAP_OK);
            bool found = neap_solution_plan(solution) != NULL;
            assert_int_equal(found, !waits || strcmp(methods[m], "tflms") != 0);
            if (found)
                assert_int_equal(neap_solution_figures(solution)->offloaded_bytes, 100);
            neap_solution_destroy(solution);
        }
        neap_graph_destroy(graph);
    }
}

/* ---- Weights ---- */

/* The lowest point of a bowl is found, in the same steps every time. */
static double bowl(const double w[N_WEIGHTS])
{
    static const double lowest[N_WEIGHTS] = {0.5, 0.3, 0.2, 0};
    double cost = 0;
    for (int i = 0; i < N_WEIGHTS; i++)
        cost += (w[i] - lowest[i]) * (w[i] - lowest[i]);
    return 1e12 * (1 + cost);
}

static double minimise(uint64_t seed, double trace[60])
{
    neap_arena arena;
    weight_search search;
    double least = HUGE_VAL;
    neap_arena_init(&arena, neap_allocator_system());
    assert_int_equal(neap_weight_search_init(&search, &arena, 60, seed, NULL), NEAP_OK);
    for (int i = 0; i < 60; i++) {
        double weights[N_WEIGHTS], sum = 0;
        neap_weight_search_next(&search, weights);
        for (int k = 0; k < N_WEIGHTS; k++) {
            assert_true(weights[k] >= 0);
            if (i < N_WEIGHTS)
                assert_true(weights[k] == (k == i));
            sum += weights[k];
        }
        assert_true(fabs(sum - 1) < 1e-12);
        trace[i] = bowl(weights);
        least = fmin(least, trace[i]);
        neap_weight_search_tell(&search, weights, trace[i]);
    }
    neap_arena_clear(&arena);
    return least / 1e12 - 1;
}

static void test_weight_search(void **state)
{
    (void)state;
    double first[60], again[60];
    for (uint64_t seed = 0; seed < 5; seed++) {
        double least = minimise(seed, first);
        if (least > 2e-3) /* random weights are so near once in some thousands */
            fail_msg("seed %llu: %g above the lowest", (unsigned long long)seed, least);
        minimise(seed, again);
        assert_memory_equal(first, again, sizeof first);
    }
}

/* Where all weights cost the same, any will do. */
static void test_weight_search_without_a_slope(void **state)
{
    (void)state;
    neap_arena arena;
    weight_search search;
    double weights[N_WEIGHTS];
    neap_arena_init(&arena, neap_allocator_system());
    assert_int_equal(neap_weight_search_init(&search, &arena, 20, 7, NULL), NEAP_OK);
    for (int i = 0; i < 21; i++) { /* one more than there is room for */
        neap_weight_search_next(&search, weights);
        neap_weight_search_tell(&search, weights, 3);
    }
    assert_int_equal(search.count, 20);
    for (int k = 0; k < N_WEIGHTS; k++)
        assert_true(weights[k] >= 0 && weights[k] <= 1);
    neap_arena_clear(&arena);
}

/* MobileNet v1 on a V100, within 45% of what it needs without a plan. */
static neap_graph *mobilenet(int64_t *budget)
{
    const neap_model_setting batch = {"batch", 4};
    neap_model_options options;
    neap_devices *devices;
    neap_graph *graph;
    neap_model_options_init(&options);
    options.settings = &batch;
    options.n_settings = 1;
    assert_int_equal(
        neap_model_build(NULL, neap_models_find("mobilenet_v1"), &options, &graph, NULL), NEAP_OK);
    assert_int_equal(neap_devices_create(NULL, &devices, NULL), NEAP_OK);
    assert_int_equal(
        neap_cost_apply(graph, neap_devices_find(devices, "v100"), NEAP_MATH_F32, NULL), NEAP_OK);
    neap_devices_destroy(devices);
    assert_int_equal(neap_natural_peak(NULL, graph, budget, NULL), NEAP_OK);
    *budget = *budget * 45 / 100;
    return graph;
}

/* offload's fastest schedule has no addresses within the budget, that of offload-dp has. */
static void test_addresses_count(void **state)
{
    (void)state;
    static const char *const methods[] = {"offload-dp", "offload"};
    double seconds[2];
    neap_request request;
    neap_diag diag = {0};
    int64_t budget;
    neap_graph *graph = mobilenet(&budget);
    for (int i = 0; i < 2; i++) {
        neap_solution *solution;
        neap_request_init(&request, graph, methods[i]);
        request.budget = budget;
        request.link = (neap_link){.out_bandwidth = 12.2e9, .in_bandwidth = 12.2e9};
        if (neap_solve(NULL, &request, &solution, &diag) != NEAP_OK)
            fail_msg("%s: %s", methods[i], diag.message);
        const neap_figures *f = neap_solution_figures(solution);
        assert_true(f->arena_bytes > 0 && f->arena_bytes <= budget);
        seconds[i] = f->time;
        neap_solution_destroy(solution);
    }
    if (seconds[1] > seconds[0])
        fail_msg("offload takes %.9f s, offload-dp %.9f s", seconds[1], seconds[0]);
    neap_graph_destroy(graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_waits),
        cmocka_unit_test(test_waiting_for_memory),
        cmocka_unit_test(test_tflms_does_not_wait),
        cmocka_unit_test(test_tflms_options),
        cmocka_unit_test(test_small_host),
        cmocka_unit_test(test_addresses_count),
        cmocka_unit_test(test_weight_search),
        cmocka_unit_test(test_weight_search_without_a_slope),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
