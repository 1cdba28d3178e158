/*
 * Curves on random training graphs, for many methods: more memory is never slower, bounds grow as
 * budgets shrink, every point agrees with the judge, and none is worse than a separate plan for its
 * budget.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "failing_allocator.h"
#include "method_link.h"
#include "random_training.h"
#include "settings.h"
#include "show_graph.h"

#include <neap/check.h>
#include <neap/curve.h>

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { POINTS = 7 };

/* ---- One curve ---- */

static int64_t bytes_of(int64_t budget)
{
    return budget < 0 ? INT64_MAX : budget;
}

/* From below the floor to above the natural peak, in no order; one of them twice, one none. */
static void draw_budgets(random_source *random, const neap_graph *graph, int64_t budgets[POINTS])
{
    int64_t least = neap_graph_floor_bytes(graph, NULL), most;
    assert_int_equal(neap_natural_peak(NULL, graph, &most, NULL), NEAP_OK);
    for (int i = 0; i < POINTS; i++) {
        budgets[i] = least + (most - least) * (int64_t)random_below(random, 110) / 100 - 1;
        if (budgets[i] < 1)
            budgets[i] = 1;
    }
    budgets[POINTS - 1] = budgets[0];
    if (random_below(random, 2))
        budgets[1] = -1;
}

static bool has_addresses(const neap_solution *solution)
{
    size_t count;
    const neap_plan *plan = neap_solution_plan(solution);
    return plan && neap_plan_offsets(plan, &count);
}

static bool is_same(double a, double b)
{
    return !(a < b) && !(b < a);
}

static void check_point(const neap_request *request, int64_t budget, const neap_solution *solution)
{
    const neap_graph *graph = request->graph;
    const neap_figures *f = neap_solution_figures(solution);
    const neap_plan *plan = neap_solution_plan(solution);
    NEED(graph, f->budget_bytes == budget, "%s: figures of another budget", request->method);
    NEED(graph, plan || f->outcome == NEAP_INFEASIBLE, "%s: no plan, but %s", request->method,
         neap_outcome_name(f->outcome));
    if (!plan)
        return;
    neap_check_options options;
    neap_verdict verdict;
    neap_check_options_init(&options);
    options.budget = bytes_of(budget);
    options.link = &request->link;
    assert_int_equal(neap_check(NULL, graph, plan, &options, &verdict, NULL), NEAP_OK);
    NEED(graph, verdict.accepted, "%s within %" PRId64 ": %s", request->method, budget,
         verdict.reason);
    NEED(graph, neap_plan_budget(plan) == budget, "%s: a plan of another budget", request->method);
    NEED(graph,
         verdict.peak_bytes == f->peak_bytes && is_same(verdict.time, f->time) &&
             verdict.recomputed_ops == f->recomputed_ops &&
             verdict.offloaded_bytes == f->offloaded_bytes && f->least_budget == -1,
         "%s: the figures are not the judge's", request->method);
    NEED(graph, !verdict.has_arena || verdict.arena_bytes == f->arena_bytes, "%s: the arena",
         request->method);
    NEED(graph, f->bound_time <= f->time, "%s: the bound is above the plan", request->method);
    NEED(graph, !(f->base_time > 0) || fabs(f->overhead - (f->time / f->base_time - 1)) < 1e-12,
         "%s: the overhead", request->method);
    NEED(graph, !(f->bound_time > 0) || fabs(f->gap - (f->time / f->bound_time - 1)) < 1e-12,
         "%s: the gap", request->method);
    NEED(graph, f->time > f->bound_time || f->outcome == NEAP_OPTIMAL,
         "%s: meets its bound, but %s", request->method, neap_outcome_name(f->outcome));
}

/* The first of two has the smaller budget. */
static void check_pair(const neap_request *request, const neap_solution *a, const neap_solution *b)
{
    const neap_figures *fa = neap_solution_figures(a), *fb = neap_solution_figures(b);
    if (!neap_solution_plan(a))
        return;
    NEED(request->graph, neap_solution_plan(b), "%s: %" PRId64 " bytes will do, %" PRId64 " not",
         request->method, fa->budget_bytes, fb->budget_bytes);
    NEED(request->graph, has_addresses(b) || !has_addresses(a), "%s: addresses are lost",
         request->method);
    NEED(request->graph, fb->time <= fa->time || !has_addresses(a),
         "%s: %g s in %" PRId64 " bytes, %g in %" PRId64, request->method, fa->time,
         fa->budget_bytes, fb->time, fb->budget_bytes);
    bool comparable = fb->bound_scope == NEAP_SCOPE_ANY ||
                      (fa->bound_scope == fb->bound_scope &&
                       fb->bound_time <= fa->time); /* else the plan is of another kind */
    NEED(request->graph, fa->bound_time >= fb->bound_time || !comparable,
         "%s: the bound %g holds for %" PRId64 " bytes, but there it is %g", request->method,
         fb->bound_time, fa->budget_bytes, fa->bound_time);
}

/* How a point compares with the same budget by itself; counts those that gained. A method that
   begins elsewhere may end elsewhere. */
static void check_gain(const neap_request *request, int64_t budget, const neap_solution *solution,
                       unsigned *gained)
{
    neap_request alone = *request;
    neap_solution *own;
    alone.budget = budget;
    if (neap_method_takes_constraints(neap_methods_find(request->method)))
        return;
    assert_int_equal(neap_solve(NULL, &alone, &own, NULL), NEAP_OK);
    const neap_figures *f = neap_solution_figures(solution), *g = neap_solution_figures(own);
    if (neap_solution_plan(own)) {
        NEED(request->graph, neap_solution_plan(solution), "%s: the plan is lost", request->method);
        NEED(request->graph, f->time <= g->time || has_addresses(solution) > has_addresses(own),
             "%s within %" PRId64 ": %g s, by itself %g", request->method, budget, f->time,
             g->time);
    }
    if (neap_solution_plan(solution) && (!neap_solution_plan(own) || f->time < g->time))
        ++*gained;
    neap_solution_destroy(own);
}

static void check_curve(const neap_graph *graph, const char *method, const int64_t *budgets,
                        unsigned *gained)
{
    neap_request request;
    neap_solution *solutions[POINTS];
    neap_diag diag = {0};
    neap_request_init(&request, graph, method);
    request.link = method_link(method);
    search_least(&request);
    neap_status status = neap_curve_solve(NULL, &request, budgets, POINTS, solutions, &diag);
    if (status == NEAP_UNSUPPORTED) {
        for (int i = 0; i < POINTS; i++)
            assert_null(solutions[i]);
        return;
    }
    NEED(graph, status == NEAP_OK, "%s: %s", method, diag.message);
    for (int i = 0; i < POINTS; i++) {
        check_point(&request, budgets[i], solutions[i]);
        check_gain(&request, budgets[i], solutions[i], gained);
        for (int k = 0; k < POINTS; k++)
            if (bytes_of(budgets[i]) < bytes_of(budgets[k]))
                check_pair(&request, solutions[i], solutions[k]);
    }
    for (int i = 0; i < POINTS; i++)
        neap_solution_destroy(solutions[i]);
}

/* ---- Many ---- */

/* Methods that solve a program for every plan run on a few small graphs only. */
static bool solves_programs(const char *method)
{
    return strncmp(method, "checkmate", 9) == 0;
}

static void test_curves_are_monotone(void **state)
{
    (void)state;
    random_source random = {setting("NEAP_TEST_SEED", 20240617)};
    uint64_t count = setting("NEAP_TEST_COUNT", 24 / ONE_IN(8));
    unsigned gained = 0;
    print_message("seed %" PRIu64 ", %" PRIu64 " graphs\n", random.state, count);
    for (uint64_t i = 0; i < count; i++) {
        bool small = i % 10 == 0;
        neap_graph *graph = random_training_graph(&random, small ? 3 : 10, false);
        int64_t budgets[POINTS];
        draw_budgets(&random, graph, budgets);
        for (uint32_t m = 0; m < neap_methods_count(); m++) {
            const char *method = neap_method_name(neap_methods_at(m));
            if (small || !solves_programs(method))
                check_curve(graph, method, budgets, &gained);
        }
        neap_graph_destroy(graph);
    }
    print_message("%u points gained by others\n", gained);
    assert_true(gained > 0 || count < 60);
}

/* ---- Ends ---- */

static void test_wrong_requests(void **state)
{
    (void)state;
    random_source random = {1};
    neap_graph *graph = random_training_graph(&random, 4, false);
    neap_request request;
    neap_diag diag;
    const int64_t budgets[] = {INT64_MAX, 0};
    neap_solution *solutions[2];
    neap_request_init(&request, graph, "sqrt");
    assert_int_equal(neap_curve_solve(NULL, &request, NULL, 0, NULL, &diag), NEAP_OK);
    memset(solutions, 1, sizeof solutions);
    assert_int_equal(neap_curve_solve(NULL, &request, budgets, 2, solutions, &diag), NEAP_INVALID);
    assert_true(!solutions[0] && !solutions[1]);
    request.method = "sqrtt";
    assert_int_equal(neap_curve_solve(NULL, &request, budgets, 1, solutions, &diag), NEAP_INVALID);
    request.method = "sqrt";
    request.objective = NEAP_LEAST_PEAK;
    assert_int_equal(neap_curve_solve(NULL, &request, budgets, 1, solutions, &diag), NEAP_INVALID);
    request.objective = NEAP_LEAST_TIME;
    request.time_limit = -1;
    assert_int_equal(neap_curve_solve(NULL, &request, budgets, 1, solutions, &diag), NEAP_INVALID);
    neap_graph_destroy(graph);
}

/* A time limit is one for all budgets together. */
static void test_a_time_limit_is_shared(void **state)
{
    (void)state;
    random_source random = {2};
    neap_graph *graph = random_training_graph(&random, 6, false);
    neap_request request;
    neap_solution *solutions[POINTS];
    int64_t budgets[POINTS];
    draw_budgets(&random, graph, budgets);
    neap_request_init(&request, graph, "rotor");
    request.time_limit = 1e-9;
    assert_int_equal(neap_curve_solve(NULL, &request, budgets, POINTS, solutions, NULL), NEAP_OK);
    for (int i = 0; i < POINTS; i++) {
        assert_int_equal(neap_solution_figures(solutions[i])->budget_bytes, budgets[i]);
        neap_solution_destroy(solutions[i]);
    }
    neap_graph_destroy(graph);
}

typedef struct listener {
    neap_progress base;
    unsigned asked;
} listener;

static bool after_a_while(neap_progress *self)
{
    return ++((listener *)self)->asked > 3;
}

/* Cancelled midway: there is still a solution for every budget. */
static void test_cancelled(void **state)
{
    (void)state;
    random_source random = {3};
    for (uint32_t m = 0; m < neap_methods_count(); m++) {
        const char *method = neap_method_name(neap_methods_at(m));
        neap_graph *graph = random_training_graph(&random, 5, false);
        listener l = {.base = {.cancelled = after_a_while}};
        neap_request request;
        neap_solution *solutions[POINTS];
        int64_t budgets[POINTS];
        draw_budgets(&random, graph, budgets);
        neap_request_init(&request, graph, method);
        request.link = method_link(method);
        request.progress = &l.base;
        search_briefly(&request);
        neap_status status = neap_curve_solve(NULL, &request, budgets, POINTS, solutions, NULL);
        assert_true(status == NEAP_OK || status == NEAP_UNSUPPORTED);
        for (int i = 0; i < POINTS && status == NEAP_OK; i++)
            for (int k = 0; k < POINTS; k++)
                if (bytes_of(budgets[i]) < bytes_of(budgets[k]))
                    check_pair(&request, solutions[i], solutions[k]);
        for (int i = 0; i < POINTS; i++)
            neap_solution_destroy(solutions[i]);
        neap_graph_destroy(graph);
    }
}

/* Every allocation fails once, in turn: a status, no leak, no solutions. */
static void test_without_memory(void **state)
{
    (void)state;
    random_source random = {4};
    neap_graph *graph = random_training_graph(&random, 5, false);
    int64_t budgets[POINTS];
    neap_solution *solutions[POINTS];
    neap_request request;
    draw_budgets(&random, graph, budgets);
    neap_request_init(&request, graph, "rotor");
    for (size_t from = 0;; from++) {
        failing_allocator memory;
        failing_allocator_init(&memory);
        memory.fail_from = from;
        memory.fail_end = from + 1;
        neap_status status =
            neap_curve_solve(&memory.base, &request, budgets, POINTS, solutions, NULL);
        assert_int_equal(status, memory.failed ? NEAP_NO_MEMORY : NEAP_OK);
        for (int i = 0; i < POINTS; i++) {
            assert_true((solutions[i] != NULL) == (status == NEAP_OK));
            neap_solution_destroy(solutions[i]);
        }
        assert_true(!memory.fault && memory.live_blocks == 0);
        if (!memory.failed)
            break;
    }
    neap_graph_destroy(graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_curves_are_monotone),    cmocka_unit_test(test_wrong_requests),
        cmocka_unit_test(test_a_time_limit_is_shared), cmocka_unit_test(test_cancelled),
        cmocka_unit_test(test_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
