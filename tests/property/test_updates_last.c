/*
 * Methods of papers on graphs with updates: the setting of the papers. A plan for a network with an
 * optimizer is that of the network without one, in as much more memory as the state takes, followed
 * by the updates; and on any graph with updates, wherever it lists them, every method's plan is
 * accepted.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "method_link.h"
#include "random_small_graph.h"
#include "settings.h"
#include "small_networks.h"

#include <neap/check.h>
#include <neap/cost.h>
#include <neap/solve.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of these the method itself decides when updates run, or nothing is planned. */
static bool plans_updates(const char *method)
{
    return strcmp(method, "neap") == 0 || strcmp(method, "store-all") == 0;
}

static bool solves_programs(const char *method)
{
    return strncmp(method, "checkmate", 9) == 0;
}

static neap_graph *build(const char *network, const neap_training *training)
{
    neap_graph *graph = small_network_train(small_networks_find(network), training);
    neap_devices *devices;
    neap_diag diag;
    assert_int_equal(neap_devices_create(NULL, &devices, &diag), NEAP_OK);
    assert_int_equal(
        neap_cost_apply(graph, neap_devices_find(devices, "unit"), NEAP_MATH_F32, &diag), NEAP_OK);
    neap_devices_destroy(devices);
    neap_graph_clear_in_place(graph);
    return graph;
}

static neap_solution *solve(const neap_graph *graph, const char *method, int64_t budget)
{
    neap_request request;
    neap_solution *solution = NULL;
    neap_diag diag;
    neap_request_init(&request, graph, method);
    request.link = method_link(method);
    request.link.out_bandwidth *= 1e4;
    request.link.in_bandwidth *= 1e4;
    request.budget = budget;
    request.threads = 1;
    request.time_limit = solves_programs(method) ? 2 : 0;
    search_least(&request);
    if (neap_solve(NULL, &request, &solution, &diag) != NEAP_OK)
        fail_msg("%s on %s in %lld bytes: %s", method, neap_graph_name(graph), (long long)budget,
                 diag.message);
    return solution;
}

static bool has_op(const neap_graph *graph, const char *name)
{
    for (uint32_t o = 0; o < neap_graph_op_count(graph); o++)
        if (strcmp(neap_graph_op(graph, o)->name, name) == 0)
            return true;
    return false;
}

/* Late ops: those that the graph without an optimizer lacks. A side update follows the first run of
   what it reads. */
static void check_order(const neap_graph *plain, const neap_graph *updated, const neap_plan *plan,
                        const char *method)
{
    bool late = false;
    uint32_t before = NEAP_NONE; /* the op that ran last */
    for (size_t i = 0; i < neap_plan_step_count(plan); i++) {
        const neap_step *step = &neap_plan_steps(plan)[i];
        if (step->kind != NEAP_COMPUTE)
            continue;
        const neap_op *op = neap_graph_op(updated, step->id);
        if (neap_graph_is_side_update(updated, step->id)) {
            if (neap_graph_value(updated, op->inputs[op->n_inputs - 1])->producer != before)
                fail_msg("%s runs \"%s\" elsewhere", method, op->name);
        } else if (has_op(plain, op->name)) {
            if (late)
                fail_msg("%s runs an op after an update", method);
        } else {
            late = true;
        }
        before = step->id;
    }
    assert_true(late);
}

static void compare(const neap_graph *plain, const neap_graph *updated, const char *method)
{
    int64_t more = neap_graph_base_bytes(updated) - neap_graph_base_bytes(plain), peak;
    double late = (double)(neap_graph_op_count(updated) - neap_graph_op_count(plain));
    assert_int_equal(neap_natural_peak(NULL, plain, &peak, NULL), NEAP_OK);
    for (int percent = 100; percent >= 80; percent -= 20) {
        int64_t budget = peak / 100 * percent;
        neap_solution *without = solve(plain, method, budget);
        neap_solution *with = solve(updated, method, budget + more);
        const neap_plan *a = neap_solution_plan(without), *b = neap_solution_plan(with);
        bool stopped = neap_solution_figures(without)->outcome == NEAP_TIME_LIMIT ||
                       neap_solution_figures(with)->outcome == NEAP_TIME_LIMIT;
        if (b)
            check_order(plain, updated, b, method);
        if (!stopped && (a != NULL) != (b != NULL))
            fail_msg("%s at %d%%: a plan only %s updates", method, percent, a ? "without" : "with");
        if (a && b && !stopped) {
            const neap_figures *f = neap_solution_figures(without),
                               *g = neap_solution_figures(with);
            bool buckets = method_moves(method); /* of the budget, in offload-dp and what uses it */
            double most = buckets ? 1e-3 * f->time : 1e-6;
            if ((g->peak_bytes < f->peak_bytes + more && !buckets) ||
                g->time < f->time + late - most || g->time > f->time + late + most)
                fail_msg("%s on %s at %d%%: %lld and %lld bytes, %g and %g s", method,
                         neap_graph_name(plain), percent, (long long)f->peak_bytes,
                         (long long)(g->peak_bytes - more), f->time, g->time - late);
        }
        neap_solution_destroy(without);
        neap_solution_destroy(with);
    }
}

static void test_networks(void **state)
{
    (void)state;
    static const char *const networks[] = {"vgg11", "resnet18", "gpt2", "lstm",
                                           "running statistics"};
    static const struct {
        neap_optimizer optimizer;
        double clip;
        int64_t accumulate;
    } settings[] = {{NEAP_OPTIMIZER_ADAM, 0, 1},
                    {NEAP_OPTIMIZER_SGD, 1, 1},
                    {NEAP_OPTIMIZER_MOMENTUM, 0, 2},
                    {NEAP_OPTIMIZER_ADAMW, 1, 2}};
    uint32_t at = 0;
    for (size_t n = 0; n < sizeof networks / sizeof *networks; n++) {
        neap_training training;
        neap_training_init(&training);
        neap_graph *plain = build(networks[n], &training);
        for (uint32_t m = 0; m < neap_methods_count(); m++) {
            const char *method = neap_method_name(neap_methods_at(m));
            if (plans_updates(method) || strcmp(method, "set") == 0 ||
                (solves_programs(method) && n > 0))
                continue;
            training.optimizer = settings[at % 4].optimizer;
            training.clip_norm = settings[at % 4].clip;
            training.accumulate = settings[at % 4].accumulate;
            at++;
            neap_graph *updated = build(networks[n], &training);
            compare(plain, updated, method);
            neap_graph_destroy(updated);
        }
        neap_graph_destroy(plain);
    }
}

/* Updates come as soon as their gradients are there, or last. */
static void test_small_graphs(void **state)
{
    (void)state;
    uint64_t seed = setting("NEAP_TEST_SEED", 20261119),
             count = setting("NEAP_TEST_COUNT", 60 / ONE_IN(3));
    print_message("seed %llu\n", (unsigned long long)seed);
    uint32_t plans = 0;
    for (uint64_t i = 0; i < count; i++) {
        random_source random = {seed + i};
        neap_graph *graph = random_small_graph(
            &random, 7,
            SMALL_TRAINING | SMALL_UPDATES | (i % 2 ? SMALL_SIDE : 0) | random_below(&random, 4));
        int64_t budgets[3];
        size_t n = small_graph_budgets(graph, budgets, 3);
        for (uint32_t m = 0; m < neap_methods_count(); m++) {
            const char *method = neap_method_name(neap_methods_at(m));
            for (size_t k = 0; strcmp(method, "set") != 0 && k < n; k++) {
                neap_solution *solution = solve(graph, method, budgets[k]);
                plans += neap_solution_plan(solution) != NULL;
                neap_solution_destroy(solution);
            }
        }
        neap_graph_destroy(graph);
    }
    print_message("%u plans\n", plans);
    assert_true(plans > count);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_networks),
        cmocka_unit_test(test_small_graphs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
