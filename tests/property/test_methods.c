/*
 * Every method on random graphs: its plans are accepted and keep their promises, more memory never
 * makes them slower, and on tiny graphs they are compared with the exhaustive optimum of
 * tests/oracle/least.py.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "frontier_curves.h"
#include "method_link.h"
#include "random_training.h"
#include "run_command.h"
#include "settings.h"
#include "show_graph.h"

#include <neap/check.h>
#include <neap/models.h>
#include <neap/solve.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))
#define ORACLE          NEAP_SOURCE_DIR "/tests/oracle"

#define SHARE ONE_IN_OR(2, 15)

static const char *method_name(uint32_t index)
{
    return neap_method_name(neap_methods_at(index));
}

/* ---- One solution ---- */

/* What is left of a solution once it is checked. */
typedef struct result {
    bool supported, feasible, optimal;
    bool placed;                                      /* its addresses fit the budget */
    int64_t floor;                                    /* the figure */
    int64_t budget, peak, ticks, bound, least_budget; /* bound and ticks in the graph's ticks */
} result;

static void check_plan(const neap_graph *graph, const char *method, int64_t budget,
                       const neap_solution *solution, result *r)
{
    const neap_figures *f = neap_solution_figures(solution);
    neap_check_options options;
    neap_verdict verdict;
    neap_check_options_init(&options);
    options.budget = budget < 0 ? INT64_MAX : budget;
    neap_link link = method_link(method);
    options.link = &link;
    assert_int_equal(
        neap_check(NULL, graph, neap_solution_plan(solution), &options, &verdict, NULL), NEAP_OK);
    NEED(graph, verdict.accepted, "%s within %" PRId64 ": %s", method, budget, verdict.reason);
    NEED(graph, verdict.peak_bytes == f->peak_bytes && verdict.time == f->time,
         "%s: the figures are not the judge's", method);
    NEED(graph, verdict.ticks >= neap_graph_least_ticks(graph), "%s: too fast", method);
    NEED(graph, verdict.peak_bytes >= neap_graph_floor_bytes(graph, NULL), "%s: below the floor",
         method);
    NEED(graph, !verdict.has_arena || verdict.arena_bytes >= f->floor_bytes,
         "%s: addresses below the floor", method);
    r->peak = verdict.peak_bytes;
    r->ticks = verdict.ticks;
}

static result run_aligned(const neap_graph *graph, const char *method, int64_t budget,
                          int64_t alignment)
{
    neap_request request;
    neap_solution *solution;
    neap_diag diag = {0};
    result r = {.budget = budget};
    neap_request_init(&request, graph, method);
    request.budget = budget;
    request.alignment = alignment;
    request.link = method_link(method);
    search_briefly(&request);
    neap_status status = neap_solve(NULL, &request, &solution, &diag);
    if (status == NEAP_UNSUPPORTED)
        return r;
    NEED(graph, status == NEAP_OK, "%s within %" PRId64 ": %s", method, budget, diag.message);
    const neap_figures *f = neap_solution_figures(solution);
    r.supported = true;
    r.feasible = neap_solution_plan(solution) != NULL;
    bool of_all = f->bound_scope == NEAP_SCOPE_ANY; /* else the claim is about fewer plans */
    r.optimal = f->outcome == NEAP_OPTIMAL && of_all;
    r.least_budget = f->least_budget;
    r.floor = f->floor_bytes;
    size_t n_offsets;
    r.placed = r.feasible && neap_plan_offsets(neap_solution_plan(solution), &n_offsets) &&
               f->arena_bytes <= budget;
    r.bound = of_all ? (int64_t)(f->bound_time * (double)neap_graph_ticks_per_second(graph) + 0.5)
                     : neap_graph_least_ticks(graph);
    NEED(graph, r.feasible == (f->outcome != NEAP_INFEASIBLE), "%s: outcome and plan", method);
    if (r.feasible)
        check_plan(graph, method, budget, solution, &r);
    else
        NEED(graph, budget < f->floor_bytes ? r.least_budget < 0 : r.least_budget > budget,
             "%s: least budget %" PRId64 " within %" PRId64, method, r.least_budget, budget);
    neap_solution_destroy(solution);
    return r;
}

static result run(const neap_graph *graph, const char *method, int64_t budget)
{
    return run_aligned(graph, method, budget, 1);
}

/* ---- Any size ---- */

enum { BUDGETS = 9 };

/* From the floor to the natural peak and none, in order. */
static void choose_budgets(const neap_graph *graph, int64_t budgets[BUDGETS])
{
    int64_t least = neap_graph_floor_bytes(graph, NULL), most;
    assert_int_equal(neap_natural_peak(NULL, graph, &most, NULL), NEAP_OK);
    least = least > 0 ? least : 1;
    most = most > least ? most : least;
    for (int i = 0; i < BUDGETS - 1; i++)
        budgets[i] = least + (most - least) * i / (BUDGETS - 2);
    budgets[BUDGETS - 1] = -1;
}

/*
 * Whether more memory never makes its plans slower. The first three plan for stages by their first
 * variants; the kernels are chosen afterwards, by the room each op has, which may favour the plan
 * for less memory. On plain chains they are monotone: see test_plain_chains. checkmate-lp rounds.
 */
static bool is_monotone(const char *method)
{
    static const char *const exceptions[] = {"rotor", "precise", "pareto", "checkmate-lp"};
    for (size_t i = 0; i < COUNT_OF(exceptions); i++)
        if (strcmp(method, exceptions[i]) == 0)
            return false;
    return !method_moves(method);
}

/* Methods that solve a program for every plan: they run on fewer and smaller graphs here, and on
   many tiny ones in test_checkmate.c. */
static bool solves_programs(const char *method)
{
    return strncmp(method, "checkmate", 9) == 0;
}

/* One that searches for long even if it does so briefly: it runs on some of the graphs here, and on
   many in tests of its own. */
static bool searches(const char *method)
{
    return neap_method_takes_constraints(neap_methods_find(method));
}

static void check_sweep(const neap_graph *graph, const char *method)
{
    int64_t budgets[BUDGETS];
    result last = {0};
    choose_budgets(graph, budgets);
    for (int i = 0; i < BUDGETS; i++) {
        result r = run(graph, method, budgets[i]);
        if (!r.supported)
            return;
        NEED(graph, r.feasible || !last.feasible, "%s: %" PRId64 " bytes will do, %" PRId64 " not",
             method, last.budget, r.budget);
        /* Without a budget some methods take a default of their own instead of all there is. */
        NEED(graph,
             !last.feasible || budgets[i] < 0 || r.ticks <= last.ticks || !is_monotone(method),
             "%s: %" PRId64 " ticks in %" PRId64 " bytes, %" PRId64 " in %" PRId64, method,
             last.ticks, last.budget, r.ticks, r.budget);
        NEED(graph, budgets[i] >= 0 || r.feasible, "%s: no plan without a budget", method);
        if (!r.feasible) {
            result enough = run(graph, method, r.least_budget);
            NEED(graph, enough.placed, "%s: the least budget %" PRId64 " is not enough", method,
                 r.least_budget);
        }
        last = r;
    }
}

/* The floor is the same whatever the method, no plan with addresses takes less, and the least
   budget that a method tells is enough for it, addresses included. */
static void check_least(const neap_graph *graph, const char *method, int64_t alignment,
                        int64_t *floor)
{
    result below = run_aligned(graph, method, 1, alignment);
    if (!below.supported || below.feasible)
        return;
    if (*floor < 0)
        *floor = below.floor;
    NEED(graph, below.floor == *floor, "%s: another floor, %" PRId64 " and not %" PRId64, method,
         below.floor, *floor);
    result at = run_aligned(graph, method, *floor, alignment);
    if (at.feasible)
        return;
    result enough = run_aligned(graph, method, at.least_budget, alignment);
    NEED(graph, enough.placed,
         "%s aligned to %" PRId64 ": the least budget %" PRId64 " is not enough", method, alignment,
         at.least_budget);
}

static void sweep(uint32_t most_layers, uint64_t count)
{
    random_source random = {setting("NEAP_TEST_SEED", 20240613)};
    print_message("seed %" PRIu64 ", %" PRIu64 " graphs of up to %" PRIu32 " layers\n",
                  random.state, count, most_layers);
    for (uint64_t i = 0; i < count; i++) {
        neap_graph *graph = i % 4 ? random_training_graph(&random, most_layers, false)
                                  : random_graph(&random, 2 * most_layers);
        bool small = most_layers <= 5 && i % 8 == 1;
        uint64_t turn = most_layers <= 5 ? 5 : 9;
        int64_t alignment = 1 + random_below(&random, 9), floor = -1;
        for (uint32_t m = 0; m < neap_methods_count(); m++) {
            const char *method = method_name(m);
            bool seldom =
                (solves_programs(method) && !small) || (searches(method) && i % turn != 0);
            if (!seldom)
                check_sweep(graph, method);
            if (!seldom && i % 10 == 0)
                check_least(graph, method, alignment, &floor);
        }
        neap_graph_destroy(graph);
    }
}

static void test_small_graphs(void **state)
{
    (void)state;
    sweep(5, setting("NEAP_TEST_COUNT", 120 / SHARE));
}

static void test_larger_graphs(void **state)
{
    (void)state;
    sweep(25, setting("NEAP_TEST_COUNT", 80 / SHARE) / 4);
}

/* Unit chains, in every budget there is: all methods, more memory never slower. */
static void test_plain_chains(void **state)
{
    (void)state;
    for (int64_t n = 1; n <= 12 / ONE_IN(15) + 4; n++)
        for (int64_t reads_input = 0; reads_input < 2; reads_input++) {
            const neap_model_setting settings[] = {{"layers", n}, {"reads_input", reads_input}};
            neap_model_options options;
            neap_graph *graph;
            neap_model_options_init(&options);
            options.n_settings = 2;
            options.settings = settings;
            assert_int_equal(
                neap_model_build(NULL, neap_models_find("chain"), &options, &graph, NULL), NEAP_OK);
            for (uint32_t m = 0; m < neap_methods_count(); m++) {
                result last = {0};
                if (n > 5 && (solves_programs(method_name(m)) || searches(method_name(m))))
                    continue;
                for (int64_t budget = 1; budget <= n + 4; budget++) {
                    result r = run(graph, method_name(m), budget);
                    NEED(graph,
                         r.supported && (r.feasible || !last.feasible) &&
                             (!last.feasible || r.ticks <= last.ticks ||
                              !is_monotone(method_name(m))),
                         "%s: worse in %" PRId64 " bytes than in less", method_name(m), budget);
                    last = r;
                }
                NEED(graph, last.feasible, "%s: no plan in all the memory there is",
                     method_name(m));
            }
            neap_graph_destroy(graph);
        }
}

/* Where nothing has to be computed again, store-all is as fast as it gets. */
static void test_store_all(void **state)
{
    (void)state;
    random_source random = {setting("NEAP_TEST_SEED", 20240614)};
    print_message("seed %" PRIu64 "\n", random.state);
    for (int i = 0; i < 300; i++) {
        neap_graph *graph = random_training_graph(&random, 10, false);
        result r = run(graph, "store-all", -1);
        NEED(graph, r.optimal && r.ticks == neap_graph_least_ticks(graph),
             "store-all is not optimal");
        neap_graph_destroy(graph);
    }
}

/* ---- Against the optimum ---- */

enum { TINY = 300 / SHARE, MOST_RESULTS = 256 };

typedef struct task {
    neap_graph *graph;
    size_t count;
    struct {
        const char *method;
        result r;
    } results[MOST_RESULTS];
} task;

/* The oracle knows no transfers: methods that move have tests of their own. */
static bool is_tried(const char *method, bool slow)
{
    return !method_moves(method) && (slow || !(solves_programs(method) || searches(method)));
}

static void run_tiny(task *t, bool slow)
{
    int64_t budgets[BUDGETS];
    choose_budgets(t->graph, budgets);
    for (uint32_t m = 0; m < neap_methods_count(); m++)
        for (int i = is_tried(method_name(m), slow) ? 0 : BUDGETS; i < BUDGETS;
             i += 4) { /* the floor, the middle, none */
            result r = run(t->graph, method_name(m), budgets[i]);
            if (!r.supported || t->count == MOST_RESULTS)
                break;
            t->results[t->count].method = method_name(m);
            t->results[t->count++].r = r;
        }
}

/* The budget within which the optimum is asked for: the plan's own peak, or where none was found
 * the budget. An optimal plan claims more: its whole budget. */
static int64_t asked_budget(const task *t, const result *r)
{
    if (r->feasible && !r->optimal)
        return r->peak;
    return r->budget < 0 ? INT64_MAX - neap_graph_fixed_bytes(t->graph) : r->budget;
}

static int compare_budgets(const void *a, const void *b)
{
    int64_t x, y;
    memcpy(&x, a, sizeof x);
    memcpy(&y, b, sizeof y);
    return (x > y) - (x < y);
}

/* Each budget once: many methods come to the same peak. Returns how many. */
static size_t distinct_budgets(const task *t, int64_t budgets[MOST_RESULTS])
{
    size_t count = 0;
    for (size_t i = 0; i < t->count; i++)
        budgets[i] = asked_budget(t, &t->results[i].r);
    qsort(budgets, t->count, sizeof *budgets, compare_budgets);
    for (size_t i = 0; i < t->count; i++)
        if (i == 0 || budgets[i] != budgets[count - 1])
            budgets[count++] = budgets[i];
    return count;
}

static void write_task(FILE *file, const task *t)
{
    char *text;
    size_t length;
    int64_t budgets[MOST_RESULTS];
    assert_int_equal(neap_graph_write_text(t->graph, NULL, &text, &length, NULL), NEAP_OK);
    for (char *c = text; *c; c++)
        *c = *c == '\n' ? ' ' : *c;
    fprintf(file, "{\"graph\":%s,\"budgets\":[", text);
    neap_release(NULL, text, length + 1);
    size_t count = distinct_budgets(t, budgets);
    for (size_t i = 0; i < count; i++)
        fprintf(file, "%s%" PRId64, i ? "," : "", budgets[i]);
    fprintf(file, "]}\n");
}

static void check_result(const task *t, const char *method, const result *r, int64_t least_peak,
                         int64_t least_time)
{
    int64_t unit = 1000000000000000 / neap_graph_ticks_per_second(t->graph);
    if (!r->feasible) {
        NEED(t->graph, r->least_budget >= least_peak,
             "%s: a least budget of %" PRId64 ", but %" PRId64 " is the least there is", method,
             r->least_budget, least_peak);
        return;
    }
    NEED(t->graph, r->peak >= least_peak, "%s: peak %" PRId64 " below the least, %" PRId64, method,
         r->peak, least_peak);
    NEED(t->graph, least_time >= 0 && r->ticks * unit >= least_time,
         "%s: faster than the optimum, %" PRId64 " in %" PRId64 " bytes", method, least_time,
         r->peak);
    if (r->optimal)
        NEED(t->graph, r->ticks * unit == least_time,
             "%s says optimal within %" PRId64 ": %" PRId64 " ticks of 10^-15 s, but %" PRId64
             " can be had",
             method, r->budget, r->ticks * unit, least_time);
}

/* A line of the oracle: the least peak, then a time for each budget. */
static void check_task(const task *t, const char *line)
{
    int64_t budgets[MOST_RESULTS], times[MOST_RESULTS];
    size_t count = distinct_budgets(t, budgets);
    char *end;
    int64_t least_peak = strtoll(line, &end, 10);
    assert_true(end != line);
    for (size_t i = 0; i < count; i++) {
        line = end;
        times[i] = strtoll(line, &end, 10);
        assert_true(end != line);
    }
    int64_t floor_bytes = neap_graph_floor_bytes(t->graph, NULL);
    NEED(t->graph, floor_bytes <= least_peak, "the floor is %" PRId64 ", but %" PRId64 " will do",
         floor_bytes, least_peak);
    for (size_t i = 0; i < t->count; i++) {
        const result *r = &t->results[i].r;
        size_t k = 0;
        while (budgets[k] != asked_budget(t, r))
            k++;
        check_result(t, t->results[i].method, r, least_peak, times[k]);
        NEED(t->graph, !r->feasible || r->budget < 0 || r->bound <= r->ticks,
             "%s: the bound is above the plan", t->results[i].method);
    }
}

static void test_against_the_optimum(void **state)
{
    (void)state;
    need_python();
    random_source random = {setting("NEAP_TEST_SEED", 20240615)};
    size_t n_tasks = (size_t)setting("NEAP_TEST_COUNT", TINY);
    print_message("seed %" PRIu64 ", %zu graphs\n", random.state, n_tasks);
    task *tasks = calloc(n_tasks, sizeof *tasks);
    char *folder = make_temporary_folder(), *path = join_path(folder, "tasks");
    FILE *file = fopen(path, "w");
    assert_true(tasks && file);
    for (size_t i = 0; i < n_tasks; i++) {
        tasks[i].graph =
            i % 3 ? random_training_graph(&random, 2, false) : random_graph(&random, 4);
        run_tiny(&tasks[i], i % 5 == 0);
        write_task(file, &tasks[i]);
    }
    assert_int_equal(fclose(file), 0);

    char command[1024], line[8192];
    snprintf(command, sizeof command, "python3 -B '%s/least_many.py' '%s'", ORACLE, path);
    fflush(NULL);
    FILE *oracle = popen(command, "r");
    assert_non_null(oracle);
    size_t answered = 0;
    while (answered < n_tasks && fgets(line, sizeof line, oracle)) {
        check_task(&tasks[answered], line);
        neap_graph_destroy(tasks[answered++].graph);
    }
    assert_int_equal(pclose(oracle), 0);
    assert_int_equal(answered, n_tasks);
    free(tasks);
    free(path);
    remove_temporary_folder(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_small_graphs),        cmocka_unit_test(test_larger_graphs),
        cmocka_unit_test(test_plain_chains),        cmocka_unit_test(test_store_all),
        cmocka_unit_test(test_against_the_optimum),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
