/*
 * Chain methods, and those for any graph that start from checkpoints of a chain, on long chains:
 * plans are correct and reproducible, do not get slower when the budget grows, and do not
 * overflow when sizes approach 2^63.
 *
 *     NEAP_TEST_SEED=7 test_long_chains     # another seed
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "random_chain.h"
#include "settings.h"

#include <neap/check.h>
#include <neap/solve.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SLOW ONE_IN(8)

/* A method and what may be asked of it. */
typedef struct method_case {
    const char *name, *option, *value;
    bool monotone; /* more memory never makes it slower: it looks at the same plans, or at all */
    bool table;    /* of n^2 entries and more: not for thousands of stages in a test */
} method_case;

static const method_case cases[] = {
    {"ap-sqrt", NULL, NULL, true, false},
    {"ap-greedy", NULL, NULL, true, false},
    {"linear-sqrt", NULL, NULL, true, false},
    {"linear-greedy", NULL, NULL, true, false},
    {"sqrt", NULL, NULL, true, false},
    {"greedy", NULL, NULL, false, false},
    {"acg", NULL, NULL, true, false},
    {"hong", NULL, NULL, true, false},
    {"hong-quadratic", NULL, NULL, true, false},
    {"hong-static", NULL, NULL, true, false},
    {"revolve", NULL, NULL, true, false},
    {"gruslys", NULL, NULL, true, false},
    {"rotor", "slots", "100", false,
     true}, /* larger slots in a larger budget: rounding loses more */
    {"precise", "bucket", "8", true, true},
    {"pareto", "eps", "0", true, true},
};
enum { N_CASES = sizeof cases / sizeof *cases };

static uint64_t seed(void)
{
    return setting("NEAP_TEST_SEED", 1);
}

typedef struct answer {
    bool found;
    neap_outcome outcome;
    int64_t peak, ticks;
    char *text; /* the plan as a file */
    size_t length;
} answer;

static answer solve(const neap_graph *graph, const method_case *m, int64_t budget, double limit)
{
    neap_option_setting setting = {m->option, m->value};
    neap_request request;
    neap_solution *solution;
    neap_diag diag;
    neap_request_init(&request, graph, m->name);
    request.budget = budget;
    request.time_limit = limit;
    request.n_options = m->option ? 1 : 0;
    request.options = &setting;
    if (neap_solve(NULL, &request, &solution, &diag) != NEAP_OK)
        fail_msg("%s, budget %" PRId64 ": %s", m->name, budget, diag.message);
    const neap_plan *plan = neap_solution_plan(solution);
    answer a = {.found = plan != NULL, .outcome = neap_solution_figures(solution)->outcome};
    if (plan) {
        neap_verdict verdict;
        assert_int_equal(neap_check(NULL, graph, plan, NULL, &verdict, NULL), NEAP_OK);
        if (!verdict.accepted)
            fail_msg("%s, budget %" PRId64 ": %s", m->name, budget, verdict.reason);
        a.peak = verdict.peak_bytes;
        a.ticks = verdict.ticks;
        assert_int_equal(neap_plan_write_text(plan, NULL, &a.text, &a.length, NULL), NEAP_OK);
    }
    neap_solution_destroy(solution);
    return a;
}

static void clear(answer *a)
{
    if (a->text)
        neap_release(neap_allocator_system(), a->text, a->length + 1);
    a->text = NULL;
}

static int64_t natural_peak(const neap_graph *graph)
{
    int64_t peak;
    assert_int_equal(neap_natural_peak(NULL, graph, &peak, NULL), NEAP_OK);
    return peak;
}

/* Asks at growing budgets, at one of them twice. */
static void check_method(const neap_graph *graph, const method_case *m, const char *what)
{
    static const int shares[] = {6, 12, 25, 50, 100};
    int64_t natural = natural_peak(graph), last = INT64_MAX;
    for (size_t b = 0; b < sizeof shares / sizeof *shares; b++) {
        int64_t budget = natural / 100 * shares[b] + natural % 100 * shares[b] / 100;
        if (budget < 1)
            continue;
        answer a = solve(graph, m, budget, 0);
        if (m->monotone && last != INT64_MAX && (!a.found || a.ticks > last))
            fail_msg("%s: %s is slower in %d%% of the memory than in less", what, m->name,
                     shares[b]);
        if (a.found)
            last = a.ticks;
        if (shares[b] == 50) {
            answer again = solve(graph, m, budget, 0);
            assert_int_equal(a.found, again.found);
            if (a.found) {
                assert_int_equal(a.length, again.length);
                assert_memory_equal(a.text, again.text, a.length);
            }
            clear(&again);
        }
        clear(&a);
    }
}

static void check_all(const neap_graph *graph, uint32_t layers, const char *what)
{
    for (int m = 0; m < N_CASES; m++)
        if (!cases[m].table || layers <= 200)
            check_method(graph, &cases[m], what);
}

static void test_unit_chains(void **state)
{
    (void)state;
    static const uint32_t lengths[] = {200 / SLOW, 2071 / SLOW};
    for (int i = 0; i < 2; i++) {
        random_source random = {seed()};
        chain_recipe recipe = {.layers = lengths[i], .reads_output = true, .scale = 1};
        neap_graph *graph = random_chain(&random, &recipe);
        check_all(graph, lengths[i], chain_recipe_text(&recipe));
        neap_graph_destroy(graph);
    }
}

static void test_random_chains(void **state)
{
    (void)state;
    random_source random = {seed() + 1};
    static const uint32_t lengths[] = {60, 200 / SLOW, 2071 / SLOW};
    for (int i = 0; i < 3; i++) {
        chain_recipe recipe = random_chain_recipe(&random, 1, false);
        recipe.layers = lengths[i];
        recipe.sizes = NUMBERS_SMALL;
        recipe.times = i ? NUMBERS_SMALL : NUMBERS_POWERS;
        recipe.results = recipe.workspaces = i == 1;
        neap_graph *graph = random_chain(&random, &recipe);
        check_all(graph, lengths[i], chain_recipe_text(&recipe));
        neap_graph_destroy(graph);
    }
}

/* The sizes of all values, each made as often as there are layers, sum up to just below 2^62. */
static void test_huge_sizes_do_not_overflow(void **state)
{
    (void)state;
    random_source random = {seed() + 2};
    static const uint32_t lengths[] = {1, 2, 3, 5, 8, 20, 100 / SLOW};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        chain_recipe recipe = random_chain_recipe(&random, 1, i % 2);
        recipe.layers = lengths[i];
        recipe.sizes = NUMBERS_POWERS;
        recipe.results = recipe.workspaces = recipe.saves = true;
        random_source before = random;
        neap_graph *graph = random_chain(&random, &recipe);
        int64_t sum = 0;
        for (uint32_t v = 0; v < neap_graph_value_count(graph); v++)
            sum += neap_graph_value(graph, v)->bytes;
        for (uint32_t o = 0; o < neap_graph_op_count(graph); o++)
            sum += neap_graph_op(graph, o)->variants[0].workspace;
        neap_graph_destroy(graph);
        recipe.scale = (INT64_C(1) << 62) / sum / recipe.layers;
        graph = random_chain(&before, &recipe);
        for (int m = 0; m < N_CASES; m++) {
            method_case huge = cases[m];
            if (strcmp(huge.name, "precise") == 0)
                huge.value = "0"; /* a thousand buckets */
            check_method(graph, &huge, chain_recipe_text(&recipe));
            answer a = solve(graph, &huge, -1, 0);
            assert_true(a.found);
            clear(&a);
        }
        neap_graph_destroy(graph);
    }
}

/* Told to stop, a table of a thousand stages is given up; what is left is a plan that fits, or
 * none. */
static void test_tables_stop(void **state)
{
    (void)state;
    random_source random = {seed() + 3};
    chain_recipe recipe = {
        .layers = 1000 / SLOW, .sizes = NUMBERS_SMALL, .reads_input = true, .scale = 1};
    neap_graph *graph = random_chain(&random, &recipe);
    for (int m = 0; m < N_CASES; m++)
        if (cases[m].table) {
            answer a = solve(graph, &cases[m], natural_peak(graph) / 3, 0.2);
            assert_true(a.found || a.outcome == NEAP_TIME_LIMIT);
            clear(&a);
        }
    neap_graph_destroy(graph);
}

/* Where a plan would have billions of steps the method says so. */
static void test_a_hundred_thousand_stages(void **state)
{
    (void)state;
    uint32_t layers = 100000;
    random_source random = {seed()};
    chain_recipe recipe = {.layers = layers, .reads_output = true, .scale = 1};
    neap_graph *graph = random_chain(&random, &recipe);
    static const method_case names[] = {{"revolve", "checkpoints", "20", true, false},
                                        {"gruslys", "slots", "20", true, false}};
    for (int i = 0; i < 2; i++) {
        answer a = solve(graph, &names[i], -1, 0);
        assert_true(a.found && a.peak <= 24);
        clear(&a);
        neap_option_setting one = {names[i].option, "1"};
        neap_request request;
        neap_solution *solution;
        neap_diag diag;
        neap_request_init(&request, graph, names[i].name);
        request.n_options = 1;
        request.options = &one;
        assert_int_equal(neap_solve(NULL, &request, &solution, &diag), NEAP_UNSUPPORTED);
        assert_non_null(strstr(diag.message, "too many steps"));
    }
    answer a = solve(graph, &(method_case){"revolve", NULL, NULL, true, false},
                     natural_peak(graph) / 20, 0);
    assert_true(a.found);
    clear(&a);
    neap_graph_destroy(graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_unit_chains),
        cmocka_unit_test(test_random_chains),
        cmocka_unit_test(test_huge_sizes_do_not_overflow),
        cmocka_unit_test(test_tables_stop),
        cmocka_unit_test(test_a_hundred_thousand_stages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
