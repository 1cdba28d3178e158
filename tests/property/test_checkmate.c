/*
 * checkmate compared with the best plans in frontiers that tests/oracle/staged.py finds by
 * exhaustive search, at each point of the trade-off and one byte below: it is never slower, and if
 * checkmate has no plan, there is none. The same is tested for its program alone, because the plans
 * that checkmate starts from would hide errors of the program.
 *
 *     NEAP_TEST_SEED=7 NEAP_TEST_COUNT=10000 test_checkmate     # another seed, more cases
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "bare_planner.h"
#include "frontier_curves.h"
#include "lp/highs_model.h"
#include "planners/checkmate/frontier_model.h"
#include "planners/checkmate/incumbent.h"
#include "settings.h"
#include "show_graph.h"
#include "small_graphs.h"

#include <neap/check.h>
#include <neap/solve.h>

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define SHARE ONE_IN_OR(2, 12)

/* ---- The method ---- */

/* With a target (ticks; 0: none) the local search for a first plan is left out: it would often be
   fast enough, and the program would have nothing to say. */
static neap_solution *solve(const neap_graph *graph, const char *form, int64_t budget,
                            int64_t target)
{
    const neap_option_setting options[] = {{"form", form}, {"rounds", "0"}};
    neap_request request;
    neap_solution *solution;
    neap_diag diag = {0};
    neap_request_init(&request, graph, "checkmate");
    request.budget = budget;
    request.target_time = neap_graph_seconds(graph, target);
    request.n_options = target > 0 ? 2 : 1;
    request.options = options;
    neap_status status = neap_solve(NULL, &request, &solution, &diag);
    NEED(graph, status == NEAP_OK, "%s within %" PRId64 ": %s", form, budget, diag.message);
    return solution;
}

static int64_t ticks_of(const neap_graph *graph, double seconds)
{
    return (int64_t)(seconds * (double)neap_graph_ticks_per_second(graph) + 0.5);
}

/* Plans that are not said to be the best: HiGHS gives up at times, where numbers are near. */
static uint64_t unproven;

/* A plan of the method may be faster than the best in frontiers, for it begins with others. */
static void check_plan(const neap_graph *graph, const char *form, int64_t budget, int64_t least,
                       const neap_solution *solution)
{
    const neap_figures *f = neap_solution_figures(solution);
    neap_check_options options;
    neap_verdict verdict;
    neap_check_options_init(&options);
    options.budget = budget;
    assert_int_equal(
        neap_check(NULL, graph, neap_solution_plan(solution), &options, &verdict, NULL), NEAP_OK);
    NEED(graph, verdict.accepted, "%s within %" PRId64 ": %s", form, budget, verdict.reason);
    NEED(graph, least < 0 || verdict.ticks <= least,
         "%s within %" PRId64 ": %" PRId64 " ticks, but %" PRId64 " can be had", form, budget,
         verdict.ticks, least);
    NEED(graph, f->outcome == NEAP_OPTIMAL || f->outcome == NEAP_FEASIBLE,
         "%s within %" PRId64 ": %s", form, budget, neap_outcome_name(f->outcome));
    unproven += f->outcome == NEAP_FEASIBLE;
    NEED(graph, ticks_of(graph, f->bound_time) <= verdict.ticks,
         "%s within %" PRId64 ": the bound is above the plan", form, budget);
}

static void check_method(const neap_graph *graph, const char *form, int64_t budget, int64_t least)
{
    neap_solution *solution = solve(graph, form, budget, 0);
    const neap_figures *f = neap_solution_figures(solution);
    if (neap_solution_plan(solution)) {
        check_plan(graph, form, budget, least, solution);
    } else {
        NEED(graph, f->outcome == NEAP_INFEASIBLE, "%s within %" PRId64 ": %s without a plan", form,
             budget, neap_outcome_name(f->outcome));
        NEED(graph, least < 0,
             "%s: no plan within %" PRId64 ", but one of %" PRId64 " ticks can be had", form,
             budget, least);
        NEED(graph, f->least_budget < 0 || f->least_budget > budget,
             "%s: least budget %" PRId64 " within %" PRId64, form, f->least_budget, budget);
    }
    neap_solution_destroy(solution);
}

/* The best plan as the target: it is found. A tick less is one that nothing in frontiers reaches,
   and a bound says no more than that. */
static void check_target(const neap_graph *graph, const char *form, int64_t budget, int64_t least)
{
    if (least < 2)
        return;
    for (int64_t target = least; target >= least - 1; target--) {
        neap_solution *solution = solve(graph, form, budget, target);
        const neap_figures *f = neap_solution_figures(solution);
        bool reached = f->time >= 0 && ticks_of(graph, f->time) <= target;
        NEED(graph, target < least || reached,
             "%s within %" PRId64 ": the target of %" PRId64 " ticks is not reached", form, budget,
             target);
        NEED(graph, reached || ticks_of(graph, f->bound_time) <= least,
             "%s within %" PRId64 ": the bound is above %" PRId64 " ticks", form, budget, least);
        neap_solution_destroy(solution);
    }
}

static void test_form(const char *form, uint64_t seed, size_t count, uint32_t most_layers)
{
    need_highs();
    need_python();
    frontier_cases c = frontier_cases_draw(seed, count, draw_mixed, most_layers, form);
    unproven = 0;
    uint64_t asked = frontier_ask(&c, 1, check_method);
    print_message("%" PRIu64 " budgets, %" PRIu64 " answers not proven\n", asked, unproven);
    assert_true(unproven <= asked / 1000);
    frontier_cases_clear(&c);
}

static void test_partitioned(void **state)
{
    (void)state;
    test_form("partitioned", 20240931, 2400 / SHARE, 3);
}

static void test_unpartitioned(void **state)
{
    (void)state;
    test_form("unpartitioned", 20240932, 600 / SHARE, 3);
}

static void test_targets(void **state)
{
    (void)state;
    need_highs();
    need_python();
    frontier_cases c = frontier_cases_draw(20240935, 500 / SHARE, draw_mixed, 3, "partitioned");
    print_message("%" PRIu64 " budgets\n", frontier_ask(&c, 1, check_target));
    frontier_cases_clear(&c);
}

/* ---- The program ---- */

/* The ticks of the plan that a solution of the program is. */
static int64_t plan_ticks(const frontier_model *m, const double *values, int64_t budget)
{
    bare_planner b;
    incumbent best;
    size_t length = neap_frontier_model_length(m, values);
    uint32_t *sequence = malloc((length + 1) * sizeof *sequence);
    assert_non_null(sequence);
    neap_frontier_model_sequence(m, values, sequence);
    bare_planner_init(&b, m->graph, budget);
    neap_incumbent_init(&best, &b.p);
    assert_int_equal(neap_incumbent_offer(&best, &b.p, sequence, length, NULL), NEAP_OK);
    int64_t ticks = best.ticks;
    neap_incumbent_clear(&best, &b.p);
    free(sequence);
    return ticks;
}

/* The best of the program's plans, -1: none. */
static int64_t program_ticks(const neap_graph *graph, const frontier_options *options)
{
    static const highs_watch nothing = {0};
    const highs_settings settings = {.absolute_gap = 1e-6};
    frontier_model m;
    highs_model *h = NULL;
    highs_answer answer = {.outcome = HIGHS_SOLVED};
    bool complete;
    int64_t ticks = -1;
    neap_allocator *system = neap_allocator_system();
    assert_int_equal(neap_frontier_model_build(&m, system, graph, options, NULL), NEAP_OK);
    assert_int_equal(neap_frontier_model_add_all_memory(&m, SIZE_MAX, &complete, NULL), NEAP_OK);
    assert_int_equal(neap_highs_model_create(system, &m.lp, true, &nothing, &h, NULL), NEAP_OK);
    assert_int_equal(neap_highs_model_solve(h, &settings, &answer, NULL), NEAP_OK);
    assert_true(answer.outcome == HIGHS_SOLVED || answer.outcome == HIGHS_INFEASIBLE);
    if (answer.outcome == HIGHS_SOLVED)
        ticks = plan_ticks(&m, neap_highs_model_values(h), options->budget);
    neap_highs_model_destroy(h);
    neap_frontier_model_clear(&m);
    return ticks;
}

static void check_program(const neap_graph *graph, const char *form, int64_t budget, int64_t least)
{
    frontier_options options = {.budget = budget, .cutoff_ticks = INT64_MAX};
    options.form = strcmp(form, "partitioned") == 0 ? FRONTIER_PARTITIONED : FRONTIER_UNPARTITIONED;
    if (budget < neap_graph_base_bytes(graph))
        return;
    int64_t ticks = program_ticks(graph, &options);
    NEED(graph, ticks == least,
         "%s within %" PRId64 ": the program has %" PRId64 " ticks, not %" PRId64, form, budget,
         ticks, least);
    if (least < 0)
        return;
    /* A cutoff leaves the best plan in if it is faster, and makes up none if it is not. */
    options.cutoff_ticks = least + 1;
    ticks = program_ticks(graph, &options);
    NEED(graph, ticks == least,
         "%s within %" PRId64 ", cut off: the program has %" PRId64 " ticks, not %" PRId64, form,
         budget, ticks, least);
    options.cutoff_ticks = least;
    ticks = program_ticks(graph, &options);
    NEED(graph, ticks < 0 || ticks >= least,
         "%s within %" PRId64 ", cut off: the program has %" PRId64 " ticks, below %" PRId64, form,
         budget, ticks, least);
}

static void test_program(const char *form, uint64_t seed, size_t count, uint32_t most_layers)
{
    need_highs();
    need_python();
    frontier_cases c = frontier_cases_draw(seed, count, draw_mixed, most_layers, form);
    print_message("%" PRIu64 " budgets\n", frontier_ask(&c, 1, check_program));
    frontier_cases_clear(&c);
}

static void test_partitioned_program(void **state)
{
    (void)state;
    test_program("partitioned", 20240933, 300 / SHARE, 3);
}

static void test_unpartitioned_program(void **state)
{
    (void)state;
    test_program("unpartitioned", 20240934, 100 / SHARE, 1);
}

/* ---- Graphs that went wrong once ---- */

typedef struct old_case {
    const char *json;
    int64_t budget, milliseconds;
} old_case;

static const old_case old_cases[] = {
    /* Within 20 bytes the best plan is the first one that is found; to ask for better ones gave a
       memory row without columns that nothing satisfies. */
    {"{'neap':'graph','version':1,'values':[{'bytes':1},{'bytes':3},{'bytes':3},{'bytes':5},"
     "{'bytes':6},{'bytes':7}],'ops':[{'inputs':[0],'outputs':[1],'time':0.004},"
     "{'inputs':[1],'outputs':[2],'time':0.002},"
     "{'pass':'backward','inputs':[2],'outputs':[3],'time':0.001},"
     "{'pass':'backward','inputs':[2,3],'outputs':[4],'time':0.003,'workspace':5},"
     "{'pass':'backward','inputs':[0,1,4],'outputs':[5],'time':0.004,'workspace':2}],"
     "'outputs':[5]}",
     20, 18},
    /* Op 1 runs again so that op 0 has room for its fast variant: without that run there are fewer,
       but slower ones. */
    {"{'neap':'graph','version':1,'values':[{'bytes':0},{'bytes':5},{'bytes':3},{'bytes':2},"
     "{'bytes':1},{'bytes':1}],'ops':[{'inputs':[0],'outputs':[1],'time':0.002,'workspace':2,"
     "'variants':[{'time':0.002,'workspace':2},{'time':0.003}]},"
     "{'inputs':[1],'outputs':[2],'time':0.001},"
     "{'pass':'backward','inputs':[2],'outputs':[3],'time':0.003,'workspace':2},"
     "{'pass':'backward','inputs':[1,2,3],'outputs':[4],'time':0.004},"
     "{'pass':'backward','inputs':[0,4],'outputs':[5],'time':0.002}],'outputs':[5]}",
     11, 15},
    /* The fast variants take no time at all, the one that fits a second: costs need a scale. */
    {"{'neap':'graph','version':1,'values':[{'bytes':484},{'bytes':100},{'bytes':0,'view_of':1}],"
     "'ops':[{'inputs':[0],'outputs':[1],'time':0},{'inputs':[1],'outputs':[2],'time':0.001,"
     "'workspace':300,'variants':[{'time':0.001,'workspace':300},{'time':1,'workspace':64},"
     "{'time':0,'workspace':300}]}],'outputs':[1,2]}",
     883, 1000},
};

static void test_old_cases(void **state)
{
    (void)state;
    need_highs();
    for (size_t i = 0; i < sizeof old_cases / sizeof *old_cases; i++) {
        neap_graph *graph = graph_from(old_cases[i].json);
        int64_t ticks = old_cases[i].milliseconds * (neap_graph_ticks_per_second(graph) / 1000);
        check_method(graph, "partitioned", old_cases[i].budget, ticks);
        check_method(graph, "unpartitioned", old_cases[i].budget, ticks);
        neap_graph_destroy(graph);
    }
}

/* An op that runs again for one output makes a large one on the way that nothing needs any more:
 * only the last frontier has room for that. */
static void test_passing_outputs(void **state)
{
    (void)state;
    need_highs();
    neap_graph *graph = graph_from(
        "{'neap':'graph','version':1,'values':[{'bytes':1},{'bytes':1000},{'bytes':100},"
        "{'bytes':0,'view_of':1},{'bytes':1000},{'bytes':1},{'bytes':256}],'ops':["
        "{'inputs':[0],'outputs':[1,2],'time':0.001},{'inputs':[1,2],'outputs':[3],'time':1},"
        "{'inputs':[3],'outputs':[4],'time':250},"
        "{'pass':'backward','inputs':[4],'outputs':[5],'time':250},"
        "{'pass':'backward','inputs':[5],'outputs':[6],'time':1}],'outputs':[2,6]}");
    int64_t second = neap_graph_ticks_per_second(graph);
    int64_t least = 502 * second + 2 * (second / 1000);
    /* 2001 + the output of 100 that is made again behind op 3 */
    const frontier_options options = {FRONTIER_PARTITIONED, 2002, least + second};
    assert_true(program_ticks(graph, &options) == least);
    neap_graph_destroy(graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_partitioned),
        cmocka_unit_test(test_unpartitioned),
        cmocka_unit_test(test_targets),
        cmocka_unit_test(test_partitioned_program),
        cmocka_unit_test(test_unpartitioned_program),
        cmocka_unit_test(test_old_cases),
        cmocka_unit_test(test_passing_outputs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
