/*
 * Methods of papers on tiny random graphs with updates and runs in place: their plans are legal
 * (neap_solve sees to that), update after everything else, are never faster than the exhaustive
 * optimum (least_time.h), nor below a bound that is said to be proven, and gain from runs in place.
 *
 *     NEAP_TEST_SEED=7 NEAP_TEST_COUNT=300 test_whole_steps     # another seed, more cases
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "least_time.h"
#include "method_link.h"
#include "random_small_graph.h"
#include "settings.h"
#include "show_graph.h"

#include <neap/solve.h>

#include <inttypes.h>
#include <string.h>

#define SHARE ONE_IN(6)

enum { MOST_BUDGETS = 4 };

static bool is_paper_method(uint32_t index)
{
    return !neap_method_takes_constraints(neap_methods_at(index));
}

static neap_solution *solve(const neap_graph *graph, const char *method, int64_t budget)
{
    neap_request request;
    neap_solution *solution = NULL;
    neap_diag diag = {0};
    neap_request_init(&request, graph, method);
    request.link = method_link(method);
    request.budget = budget;
    search_least(&request);
    neap_status status = neap_solve(NULL, &request, &solution, &diag);
    NEED(graph, status == NEAP_OK || status == NEAP_UNSUPPORTED, "%s within %" PRId64 ": %s",
         method, budget, diag.message);
    return solution;
}

static bool is_late(const neap_graph *graph, uint32_t op)
{
    return neap_graph_op(graph, op)->n_updates > 0 && !neap_graph_is_side_update(graph, op);
}

/* Nothing that could come before it follows an update, side updates aside. */
static void check_updates_are_last(const neap_graph *graph, const neap_plan *plan)
{
    const uint32_t *order = neap_graph_ordinary_order(graph);
    uint32_t n_ops = neap_graph_op_count(graph), first = 0;
    while (first < n_ops && !is_late(graph, order[first]))
        first++;
    uint32_t next = first;
    for (size_t i = 0; i < neap_plan_step_count(plan); i++) {
        const neap_step *step = &neap_plan_steps(plan)[i];
        if (step->kind != NEAP_COMPUTE)
            continue;
        if (next < n_ops && step->id == order[next])
            next++;
        else
            NEED(graph, next == first, "op %" PRIu32 " after an update", step->id);
    }
    NEED(graph, next == n_ops, "an update is missing");
}

/* Ticks of the method's plan; -1: none. */
static int64_t check_method(const neap_graph *graph, const char *method, int64_t budget)
{
    neap_solution *solution = solve(graph, method, budget);
    if (!solution)
        return -1;
    const neap_figures *f = neap_solution_figures(solution);
    const neap_plan *plan = neap_solution_plan(solution);
    least_time_options options = {
        .link = method_link(method), .mixed_variants = true, .most_states = 20000};
    options.state_moves = options.link.in_bandwidth > 0;
    least_time_answer best = least_time_search(graph, budget, &options);
    double seconds = neap_graph_seconds(graph, best.ticks), close = 1 - 1e-12;
    if (plan) {
        check_updates_are_last(graph, plan);
        NEED(graph, best.gave_up || best.found, "%s: a plan within %" PRId64, method, budget);
        NEED(graph, !best.found || f->time >= seconds * close, "%s is faster than the optimum",
             method);
    }
    if (best.found && f->bound_scope == NEAP_SCOPE_ANY)
        NEED(graph, f->bound_time * close <= seconds,
             "%s within %" PRId64 ": a bound of %g, but %g", method, budget, f->bound_time,
             seconds);
    int64_t ticks = -1;
    if (plan)
        ticks = (int64_t)(f->time * (double)neap_graph_ticks_per_second(graph) + 0.5);
    neap_solution_destroy(solution);
    return ticks;
}

typedef struct tally {
    uint32_t asked, solved, plain, faster; /* plain: without runs in place */
} tally;

static void compare(const neap_graph *graph, const neap_graph *plain, const char *method,
                    int64_t budget, tally *t)
{
    int64_t with = check_method(graph, method, budget), without = -1;
    neap_solution *solution = solve(plain, method, budget);
    if (solution && neap_solution_plan(solution))
        without = (int64_t)(neap_solution_figures(solution)->time *
                                (double)neap_graph_ticks_per_second(graph) +
                            0.5);
    neap_solution_destroy(solution);
    NEED(graph, without < 0 || (with >= 0 && with <= without),
         "%s within %" PRId64 ": %" PRId64 " ticks with runs in place, %" PRId64 " without", method,
         budget, with, without);
    t->asked++;
    t->solved += with >= 0;
    t->plain += without >= 0;
    t->faster += without >= 0 && with < without;
}

static neap_graph *copy_without_marks(const neap_graph *graph)
{
    char *text;
    size_t length;
    neap_graph *copy;
    assert_int_equal(neap_graph_write_text(graph, NULL, &text, &length, NULL), NEAP_OK);
    assert_int_equal(neap_graph_read_text(NULL, text, length, "copy", &copy, NULL), NEAP_OK);
    neap_release(NULL, text, length + 1);
    neap_graph_clear_in_place(copy);
    return copy;
}

static void test_papers_methods(void **state)
{
    (void)state;
    random_source random = {setting("NEAP_TEST_SEED", 20261120)};
    uint64_t count = setting("NEAP_TEST_COUNT", 24 / SHARE);
    tally all = {0};
    print_message("seed %" PRIu64 ", %" PRIu64 " graphs\n", random.state, count);
    for (uint64_t i = 0; i < count; i++) {
        unsigned updates = random_below(&random, 3) ? SMALL_TRAINING | SMALL_UPDATES : 0;
        unsigned flags = SMALL_IN_PLACE | updates | random_below(&random, 4);
        flags |= i % 2 ? SMALL_SIDE : 0;
        neap_graph *graph = random_small_graph(&random, 6, flags);
        neap_graph *plain = copy_without_marks(graph);
        int64_t budgets[MOST_BUDGETS];
        size_t n = small_graph_budgets(graph, budgets, MOST_BUDGETS);
        for (uint32_t m = 0; m < neap_methods_count(); m++)
            for (size_t b = 0; b < n && is_paper_method(m); b++)
                compare(graph, plain, neap_method_name(neap_methods_at(m)), budgets[b], &all);
        neap_graph_destroy(plain);
        neap_graph_destroy(graph);
    }
    print_message("%" PRIu32 " requests: %" PRIu32 " plans, %" PRIu32
                  " without runs in place; %" PRIu32 " of these slower\n",
                  all.asked, all.solved, all.plain, all.faster);
    assert_true(all.solved > all.plain && (all.faster > 0 || count < 20));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_papers_methods)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
