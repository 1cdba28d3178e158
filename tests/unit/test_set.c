/*
 * The method `set`: what other chain methods report as their checkpoints gives their plans again,
 * both formulas of Hong et al. are those of their table, and bad numbers are refused with advice.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "small_networks.h"

#include <neap/solve.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static neap_graph *build(const char *name, const char *setting, int64_t value)
{
    const neap_model_setting settings[] = {{setting, value}};
    neap_model_options options;
    neap_graph *graph;
    neap_model_options_init(&options);
    options.n_settings = 1;
    options.settings = settings;
    assert_int_equal(neap_model_build(NULL, neap_models_find(name), &options, &graph, NULL),
                     NEAP_OK);
    return graph;
}

static neap_solution *solve(const neap_graph *graph, const char *method, const char *at)
{
    neap_option_setting setting = {"at", at};
    neap_request request;
    neap_solution *solution;
    neap_diag diag = {0};
    neap_request_init(&request, graph, method);
    request.n_options = at != NULL;
    request.options = &setting;
    if (neap_solve(NULL, &request, &solution, &diag) != NEAP_OK)
        fail_msg("%s with at=%s: %s", method, at ? at : "nothing", diag.message);
    assert_non_null(neap_solution_plan(solution));
    return solution;
}

static const neap_extra *extra(const neap_solution *solution, const char *name)
{
    for (uint32_t i = 0; i < neap_solution_extra_count(solution); i++)
        if (strcmp(neap_solution_extra_at(solution, i)->name, name) == 0)
            return neap_solution_extra_at(solution, i);
    fail_msg("no %s", name);
    return NULL;
}

/* "[3, 6, 24]": as `--json` prints it. */
static char *print_list(const neap_extra *list)
{
    size_t capacity = 16 * list->n_items + 3, length = 1;
    char *text = malloc(capacity);
    assert_non_null(text);
    text[0] = '[';
    for (size_t i = 0; i < list->n_items; i++)
        length += (size_t)snprintf(text + length, capacity - length, "%s%lld", i ? ", " : "",
                                   (long long)list->items[i]);
    snprintf(text + length, capacity - length, "]");
    return text;
}

static void assert_same_plan(const neap_solution *a, const neap_solution *b)
{
    const neap_plan *x = neap_solution_plan(a), *y = neap_solution_plan(b);
    assert_int_equal(neap_plan_step_count(x), neap_plan_step_count(y));
    for (size_t i = 0; i < neap_plan_step_count(x); i++) {
        assert_int_equal(neap_plan_steps(x)[i].kind, neap_plan_steps(y)[i].kind);
        assert_int_equal(neap_plan_steps(x)[i].id, neap_plan_steps(y)[i].id);
    }
}

static void check_reported_set(const neap_graph *graph, const char *method)
{
    neap_solution *theirs = solve(graph, method, NULL);
    char *list = print_list(extra(theirs, "checkpoints"));
    neap_solution *ours = solve(graph, "set", list);
    assert_same_plan(theirs, ours);
    char *again = print_list(extra(ours, "checkpoints"));
    assert_string_equal(list, again);
    free(again);
    free(list);
    neap_solution_destroy(theirs);
    neap_solution_destroy(ours);
}

/* On the LSTM they are stages between sets of several tensors. */
static void test_reported_sets(void **state)
{
    (void)state;
    static const struct {
        const char *network, *methods[6];
    } cases[] = {
        {"hong-vgg19", {"sqrt", "greedy", "acg", "hong", "hong-static", "hong-quadratic"}},
        {"resnet18", {"sqrt", "greedy", "hong", "hong-static"}},
        {"unet", {"sqrt", "hong"}},
        {"lstm", {"sqrt", "hong"}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        neap_graph *graph =
            small_network_build(small_networks_find(cases[i].network), NEAP_OPTIMIZER_NONE);
        for (size_t m = 0; m < 6 && cases[i].methods[m]; m++)
            check_reported_set(graph, cases[i].methods[m]);
        neap_graph_destroy(graph);
    }
}

/* In MiB, to a tenth. */
static void assert_number(const neap_solution *solution, const char *name, double expected)
{
    double found = extra(solution, name)->number / (1 << 20);
    if (!(fabs(found - expected) <= 0.05))
        fail_msg("%s is %.2f MiB instead of %.1f", name, found, expected);
}

static void test_formulas(void **state)
{
    (void)state;
    static const struct {
        const char *at;
        double static_peak, dynamic_peak;
    } sets[] = {{"2,4,6,9,11,14,16,19,21,23,24", 4988.2, 4777.5},
                {"3,6,24", 3798.0, 5169.5},
                {"24, 11, 3, 3", 3896.0, 5169.5}, /* in any order, some twice */
                {"5,10,15,20", 5807.0, 6737.5}};  /* 24 is a checkpoint anyway */
    neap_graph *graph = build("hong-vgg19", "batch", 128);
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
        neap_solution *solution = solve(graph, "set", sets[i].at);
        assert_number(solution, "equation_6", sets[i].static_peak);
        assert_number(solution, "equation_9", sets[i].dynamic_peak);
        neap_solution_destroy(solution);
    }
    neap_graph_destroy(graph);
}

/* One segment: the last, which is never dropped. */
static void test_empty_sets(void **state)
{
    (void)state;
    static const char *const lists[] = {NULL, "", "[]", " [ ] "};
    neap_graph *graph = build("chain", "layers", 8);
    neap_solution *all = solve(graph, "store-all", NULL);
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        neap_solution *solution = solve(graph, "set", lists[i]);
        assert_same_plan(all, solution);
        neap_solution_destroy(solution);
    }
    neap_solution_destroy(all);
    neap_graph_destroy(graph);
}

static void refuse(const neap_graph *graph, const char *at, const char *message)
{
    neap_option_setting setting = {"at", at};
    neap_request request;
    neap_solution *solution;
    neap_diag diag = {0};
    neap_request_init(&request, graph, "set");
    request.n_options = 1;
    request.options = &setting;
    assert_int_equal(neap_solve(NULL, &request, &solution, &diag), NEAP_INVALID);
    assert_null(solution);
    assert_string_equal(diag.message, message);
}

static void test_bad_numbers(void **state)
{
    (void)state;
    static const char *const malformed[] = {"0",  "-1", "1.5", "x",  "3,",    "3,,6", ",3", "3 6",
                                            "[3", "3]", "[",   "]3", "[3] 4", "1e40", "nan"};
    neap_graph *chain = build("chain", "layers", 8);
    char message[256];
    for (size_t i = 0; i < sizeof malformed / sizeof *malformed; i++) {
        snprintf(message, sizeof message,
                 "option at takes whole numbers from 1 to 4294967294 with commas between them, "
                 "such as 3,6,24, not \"%s\"",
                 malformed[i]);
        refuse(chain, malformed[i], message);
    }
    refuse(chain, "3,9",
           "option at names stage 9, but the stages before the loss are 1 to 8 here; use numbers "
           "in that range");
    neap_graph_destroy(chain);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reported_sets),
        cmocka_unit_test(test_formulas),
        cmocka_unit_test(test_empty_sets),
        cmocka_unit_test(test_bad_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
