/*
 * Requests to the method `neap` beyond a budget, on random training graphs: pins, a plan to start
 * from, a seed, a gap, a time limit, cancellation, and the least peak. On tiny graphs the least
 * peak is compared with the exhaustive search of least_time.h.
 *
 *     NEAP_TEST_SEED=7 NEAP_TEST_COUNT=1000 test_neap_constraints     # another seed, more cases
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "impatient.h"
#include "least_time.h"
#include "method_link.h"
#include "random_small_graph.h"
#include "random_training.h"
#include "settings.h"
#include "show_graph.h"
#include "small_graphs.h"

#include <neap/check.h>
#include <neap/solve.h>

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SHARE ONE_IN(5)

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

static const neap_link SLOW_LINK = {.out_bandwidth = 7, .in_bandwidth = 11};

/* ---- Asking ---- */

/* A request for a share of the way from the floor to the natural peak, in percent. */
static neap_request ask(const neap_graph *graph, int64_t percent)
{
    static const neap_option_setting briefly[] = {{"effort", "2"}, {"small-graphs", "search"}};
    neap_request request;
    int64_t least = neap_graph_floor_bytes(graph, NULL), most;
    assert_int_equal(neap_natural_peak(NULL, graph, &most, NULL), NEAP_OK);
    neap_request_init(&request, graph, "neap");
    request.budget = least + (most - least) * percent / 100;
    request.budget = request.budget > 0 ? request.budget : 1;
    request.n_options = 2;
    request.options = briefly;
    request.threads = 1;
    return request;
}

static void judge(const neap_request *request, const neap_plan *plan, neap_verdict *verdict)
{
    neap_check_options options;
    neap_check_options_init(&options);
    options.budget = request->budget < 0 ? INT64_MAX : request->budget;
    options.link = &request->link;
    assert_int_equal(neap_check(NULL, request->graph, plan, &options, verdict, NULL), NEAP_OK);
}

/* The solution; its plan, if there is one, has passed the judge. */
static neap_solution *solve(const neap_request *request)
{
    neap_solution *solution;
    neap_diag diag = {0};
    neap_status status = neap_solve(NULL, request, &solution, &diag);
    NEED(request->graph, status == NEAP_OK, "within %" PRId64 ": %s", request->budget,
         diag.message);
    const neap_figures *f = neap_solution_figures(solution);
    const neap_plan *plan = neap_solution_plan(solution);
    NEED(request->graph, f->outcome != NEAP_INFEASIBLE || f->least_budget > request->budget,
         "a least budget of %" PRId64 " within %" PRId64, f->least_budget, request->budget);
    if (plan) {
        neap_verdict verdict;
        judge(request, plan, &verdict);
        NEED(request->graph, verdict.accepted, "within %" PRId64 ": %s", request->budget,
             verdict.reason);
        NEED(request->graph, verdict.peak_bytes == f->peak_bytes && verdict.time == f->time,
             "the figures are not the judge's");
    }
    return solution;
}

typedef void check_graph(const neap_graph *graph, random_source *random, uint64_t index);

static void on_graphs(check_graph *check, uint32_t most_layers, uint64_t count, uint64_t seed)
{
    random_source random = {setting("NEAP_TEST_SEED", seed)};
    count = setting("NEAP_TEST_COUNT", (count + SHARE - 1) / SHARE);
    print_message("seed %" PRIu64 ", %" PRIu64 " graphs\n", random.state, count);
    for (uint64_t i = 0; i < count; i++) {
        neap_graph *graph = random_training_graph(&random, most_layers, false);
        check(graph, &random, i);
        neap_graph_destroy(graph);
    }
}

/* ---- Pins ---- */

static uint32_t count_steps(const neap_plan *plan, neap_step_kind kind, uint32_t id)
{
    uint32_t count = 0;
    for (size_t i = 0; i < neap_plan_step_count(plan); i++)
        count += neap_plan_steps(plan)[i].kind == kind && neap_plan_steps(plan)[i].id == id;
    return count;
}

static bool reads(const neap_op *op, uint32_t value)
{
    for (uint32_t i = 0; i < op->n_inputs; i++)
        if (op->inputs[i] == value)
            return true;
    return false;
}

/* Whether a value leaves memory before its last use. */
static bool leaves_early(const neap_graph *graph, const neap_plan *plan, uint32_t value)
{
    const neap_step *steps = neap_plan_steps(plan);
    bool gone = false;
    for (size_t i = 0; i < neap_plan_step_count(plan); i++) {
        gone = gone || (steps[i].kind == NEAP_FREE && steps[i].id == value);
        if (gone && steps[i].kind == NEAP_COMPUTE &&
            reads(neap_graph_op(graph, steps[i].id), value))
            return true;
    }
    return gone && neap_graph_is_output(graph, value);
}

static void check_pinned(const neap_request *request, const neap_plan *plan, uint32_t value)
{
    const neap_graph *graph = request->graph;
    uint32_t producer = neap_graph_value(graph, value)->producer;
    const char *name = neap_graph_value(graph, value)->name;
    neap_pin_kind kind = request->pins[0].kind;
    if (kind != NEAP_PIN_NO_OFFLOAD)
        NEED(graph, count_steps(plan, NEAP_COMPUTE, producer) == 1, "%s is made more than once",
             name);
    if (kind != NEAP_PIN_NO_RECOMPUTE)
        NEED(graph, count_steps(plan, NEAP_OFFLOAD, value) == 0, "%s is copied to the host", name);
    if (kind == NEAP_PIN_KEEP)
        NEED(graph, !leaves_early(graph, plan, value), "%s is not kept", name);
}

/* By the name of a value, of its op, or of everything. */
static void check_pins(const neap_graph *graph, random_source *random, uint64_t index)
{
    uint32_t value = random_below(random, neap_graph_value_count(graph));
    uint32_t producer = neap_graph_value(graph, value)->producer;
    neap_request request = ask(graph, 10 + random_below(random, 80));
    neap_pin pin = {.kind = (neap_pin_kind)(index % 3), .pattern = "*"};
    uint32_t way = random_below(random, 3);
    if (producer == NEAP_NONE)
        return;
    if (way == 0)
        pin.pattern = neap_graph_value(graph, value)->name;
    if (way == 1)
        pin.pattern = neap_graph_op(graph, producer)->name;
    request.n_pins = 1;
    request.pins = &pin;
    request.link = index % 2 ? SLOW_LINK : (neap_link){0};
    neap_solution *solution = solve(&request);
    if (!neap_solution_plan(solution)) { /* what it says it needs will do */
        request.budget = neap_solution_figures(solution)->least_budget;
        neap_solution_destroy(solution);
        solution = solve(&request);
    }
    const neap_plan *plan = neap_solution_plan(solution);
    NEED(graph, plan, "kind %d \"%s\"%s: the least budget %" PRId64 " is not enough", (int)pin.kind,
         pin.pattern, index % 2 ? " with a link" : "", request.budget);
    for (uint32_t v = 0; v < neap_graph_value_count(graph); v++)
        if (neap_graph_value(graph, v)->producer != NEAP_NONE &&
            (way == 2 || v == value ||
             (way == 1 && neap_graph_value(graph, v)->producer == producer)))
            check_pinned(&request, plan, v);
    neap_solution_destroy(solution);
}

static void test_pins(void **state)
{
    (void)state;
    on_graphs(check_pins, 8, 300, 20250501);
}

/* A view is made once if that is wished for: what it lies on stays then, or else it would have to
   be made again when that comes back from the host. */
static void test_a_pinned_view(void **state)
{
    (void)state;
    neap_graph *graph = graph_from(
        "{'neap':'graph','version':1,'name':'view','values':[{'name':'x','bytes':1,'kind':'input'},"
        "{'name':'h','bytes':100},{'name':'hT','bytes':0,'view_of':1},{'name':'a','bytes':90},"
        "{'name':'b','bytes':90},{'name':'c','bytes':1},{'name':'d','bytes':1}],'ops':["
        "{'name':'make','inputs':[0],'outputs':[1],'time':50},"
        "{'name':'view','inputs':[1],'outputs':[2],'time':0},"
        "{'name':'a','inputs':[2],'outputs':[3],'time':5},"
        "{'name':'b','inputs':[3],'outputs':[4],'time':5},"
        "{'name':'c','inputs':[4],'outputs':[5],'time':5},"
        "{'name':'d','inputs':[2,5],'outputs':[6],'time':5}],'outputs':[6]}");
    static const neap_pin pin = {.kind = NEAP_PIN_NO_RECOMPUTE, .pattern = "view"};
    neap_request request = ask(graph, 0);
    request.link = (neap_link){.out_bandwidth = 100, .in_bandwidth = 100};
    request.n_pins = 1;
    request.pins = &pin;
    neap_solution *solution = solve(&request);
    assert_int_equal(neap_solution_figures(solution)->outcome, NEAP_INFEASIBLE);
    neap_solution_destroy(solution);
    request.budget = -1;
    solution = solve(&request);
    assert_int_equal(count_steps(neap_solution_plan(solution), NEAP_COMPUTE, 1), 1);
    neap_solution_destroy(solution);
    neap_graph_destroy(graph);
}

static void test_pins_of_no_name(void **state)
{
    (void)state;
    random_source random = {1};
    neap_graph *graph = random_training_graph(&random, 3, false);
    neap_request request = ask(graph, 50);
    neap_pin pin = {.kind = NEAP_PIN_KEEP, .pattern = "no?such*thing"};
    neap_solution *solution;
    neap_diag diag = {0};
    request.n_pins = 1;
    request.pins = &pin;
    assert_int_equal(neap_solve(NULL, &request, &solution, &diag), NEAP_INVALID);
    assert_non_null(strstr(diag.message, pin.pattern));
    neap_graph_destroy(graph);
}

/* ---- A plan to start from ---- */

/* With addresses that fit. Where those of a faster plan do not, a slower one may have to do. */
static bool has_arena(const neap_solution *solution)
{
    size_t count;
    return neap_plan_offsets(neap_solution_plan(solution), &count) != NULL &&
           !*neap_solution_message(solution);
}

static void check_start(const neap_request *request)
{
    neap_verdict verdict;
    judge(request, request->start, &verdict);
    neap_solution *solution = solve(request);
    const neap_figures *f = neap_solution_figures(solution);
    if (verdict.accepted) { /* it is within the budget */
        NEED(request->graph, neap_solution_plan(solution), "the start's plan is lost");
        NEED(request->graph, f->time <= verdict.time || !has_arena(solution),
             "%g s within %" PRId64 ", begun with %g", f->time, request->budget, verdict.time);
    }
    neap_solution_destroy(solution);
}

/* Begins with another method's plan for any budget, or with a random one that copies to the host.
 */
static void check_starts(const neap_graph *graph, random_source *random, uint64_t index)
{
    static const char *const methods[] = {"store-all", "ap-greedy", "rotor", "pareto",
                                          "checkmate-lp"};
    static const neap_option_setting least[] = {{"effort", "1"}, {"small-graphs", "search"}};
    neap_request request = ask(graph, 20 + random_below(random, 80));
    request.link = index % 2 ? SLOW_LINK : (neap_link){0};
    request.options = least;
    if (index % 3 == 0) {
        neap_plan *plan = random_plan(random, graph, 60, index % 2 != 0);
        neap_verdict verdict;
        int64_t budget = request.budget;
        request.budget = -1;
        judge(&request, plan, &verdict);
        request.budget = index % 4 == 0 ? budget : verdict.peak_bytes;
        request.start = plan;
        check_start(&request);
        neap_plan_destroy(plan);
        return;
    }
    neap_request first = ask(graph, 20 + random_below(random, 80));
    neap_solution *start;
    first.method = methods[random_below(random, COUNT_OF(methods))];
    first.n_options = 0;
    neap_status status = neap_solve(NULL, &first, &start, NULL);
    if (status == NEAP_UNSUPPORTED)
        return;
    assert_int_equal(status, NEAP_OK);
    request.start = neap_solution_plan(start);
    if (request.start)
        check_start(&request);
    neap_solution_destroy(start);
}

static void test_starts(void **state)
{
    (void)state;
    on_graphs(check_starts, 8, 300, 20250502);
}

/* A start that does what a pin forbids is a hint at most. */
static void check_pinned_start(const neap_graph *graph, random_source *random, uint64_t index)
{
    neap_plan *plan = random_plan(random, graph, 60, true);
    neap_pin pin = {.kind = (neap_pin_kind)(index % 3), .pattern = "*"};
    neap_request request = ask(graph, 100);
    request.link = SLOW_LINK;
    request.start = plan;
    request.n_pins = 1;
    request.pins = &pin;
    neap_solution *solution = solve(&request);
    NEED(graph, neap_solution_plan(solution), "no plan in all the memory there is");
    for (uint32_t v = 0; v < neap_graph_value_count(graph); v++)
        if (neap_graph_value(graph, v)->producer != NEAP_NONE)
            check_pinned(&request, neap_solution_plan(solution), v);
    neap_solution_destroy(solution);
    neap_plan_destroy(plan);
}

static void test_pinned_starts(void **state)
{
    (void)state;
    on_graphs(check_pinned_start, 8, 100, 20250503);
}

/* A plan with a hole in it, and one that copies to a host that there is not. */
static void test_wrong_starts(void **state)
{
    (void)state;
    random_source random = {3};
    neap_graph *graph = random_training_graph(&random, 4, false);
    neap_request request = ask(graph, 80);
    neap_solution *solution;
    neap_diag diag = {0};
    neap_plan *plan;
    assert_int_equal(neap_plan_create(NULL, "training", "hand", -1, &plan, NULL), NEAP_OK);
    for (uint32_t o = 1; o < neap_graph_op_count(graph); o++)
        assert_int_equal(neap_plan_append(plan, (neap_step){.kind = NEAP_COMPUTE, .id = o}, NULL),
                         NEAP_OK);
    request.start = plan;
    assert_int_equal(neap_solve(NULL, &request, &solution, &diag), NEAP_INVALID);
    assert_non_null(strstr(diag.message, "the plan to start from is rejected: "));
    neap_plan_destroy(plan);
    do { /* until one copies something */
        plan = random_plan(&random, graph, 60, true);
        uint32_t copies = 0;
        for (size_t i = 0; i < neap_plan_step_count(plan); i++)
            copies += neap_plan_steps(plan)[i].kind == NEAP_OFFLOAD;
        if (copies > 0)
            break;
        neap_plan_destroy(plan);
    } while (true);
    request.start = plan;
    diag = (neap_diag){0};
    assert_int_equal(neap_solve(NULL, &request, &solution, &diag), NEAP_INVALID);
    assert_non_null(strstr(diag.message, "the plan to start from is rejected: "));
    request.link = SLOW_LINK;
    solution = solve(&request);
    neap_solution_destroy(solution);
    neap_plan_destroy(plan);
    neap_graph_destroy(graph);
}

/* ---- Seeds and threads ---- */

static char *text_of(const neap_solution *solution, size_t *length)
{
    char *text = NULL;
    *length = 0;
    if (neap_solution_plan(solution))
        assert_int_equal(
            neap_plan_write_text(neap_solution_plan(solution), NULL, &text, length, NULL), NEAP_OK);
    return text;
}

static void check_threads(const neap_graph *graph, random_source *random, uint64_t index)
{
    static const int threads[] = {1, 2, 4, 1};
    neap_request request = ask(graph, random_below(random, 80));
    char *first = NULL;
    size_t first_length = 0;
    neap_figures figures = {0};
    request.link = index % 2 ? SLOW_LINK : (neap_link){0};
    request.objective = index % 5 == 0 ? NEAP_LEAST_PEAK : NEAP_LEAST_TIME;
    request.seed = random_below(random, 1000);
    for (size_t i = 0; i < COUNT_OF(threads); i++) {
        request.threads = threads[i];
        neap_solution *solution = solve(&request);
        const neap_figures *f = neap_solution_figures(solution);
        size_t length;
        char *text = text_of(solution, &length);
        if (i == 0) {
            first = text;
            first_length = length;
            figures = *f;
        } else {
            NEED(graph, length == first_length && (!text || strcmp(text, first) == 0),
                 "another plan by %d threads", threads[i]);
            NEED(graph,
                 f->outcome == figures.outcome && f->bound_time == figures.bound_time &&
                     f->least_budget == figures.least_budget,
                 "other figures by %d threads", threads[i]);
            neap_release(NULL, text, text ? length + 1 : 0);
        }
        neap_solution_destroy(solution);
    }
    neap_release(NULL, first, first ? first_length + 1 : 0);
}

static void test_threads(void **state)
{
    (void)state;
    on_graphs(check_threads, 10, 30, 20250504);
}

/* ---- When to stop ---- */

/* The way to a plan within a gap is the beginning of the way to the best one. */
static void check_gap(const neap_graph *graph, random_source *random, uint64_t index)
{
    neap_request request = ask(graph, random_below(random, 80));
    impatient all = {.base = {.cancelled = impatient_cancels}, .patience = UINT32_MAX}, some = all;
    request.link = index % 2 ? SLOW_LINK : (neap_link){0};
    request.progress = &all.base;
    neap_solution *best = solve(&request), *enough;
    if (!neap_solution_plan(best)) {
        neap_solution_destroy(best);
        return;
    }
    request.progress = &some.base;
    request.gap = neap_solution_figures(best)->gap + random_below(random, 20) * 0.01;
    enough = solve(&request);
    NEED(graph, neap_solution_plan(enough), "no plan within a gap");
    if (has_arena(best) && has_arena(enough)) {
        NEED(graph, neap_solution_figures(enough)->gap <= request.gap + 1e-12,
             "a gap of %g, asked for %g", neap_solution_figures(enough)->gap, request.gap);
        NEED(graph, atomic_load(&some.asked) <= atomic_load(&all.asked),
             "it takes longer within a gap");
    }
    neap_solution_destroy(best);
    neap_solution_destroy(enough);
}

static void test_gap(void **state)
{
    (void)state;
    on_graphs(check_gap, 10, 60, 20250505);
}

/* Asked often enough, it stops with what it has: a plan that the judge accepts, or none. */
static void check_cancelled(const neap_graph *graph, random_source *random, uint64_t index)
{
    neap_request request = ask(graph, random_below(random, 100));
    impatient l = {.base = {.cancelled = impatient_cancels}};
    l.patience = index % 4 == 0 ? random_below(random, 10) : random_below(random, 2000);
    request.link = index % 2 ? SLOW_LINK : (neap_link){0};
    request.objective = index % 5 == 0 ? NEAP_LEAST_PEAK : NEAP_LEAST_TIME;
    request.threads = 1 + (int)(index % 3);
    request.progress = &l.base;
    request.n_options = 0;
    neap_solution *solution = solve(&request);
    neap_outcome outcome = neap_solution_figures(solution)->outcome;
    bool has_plan = neap_solution_plan(solution) != NULL;
    NEED(graph, has_plan || outcome == NEAP_INTERRUPTED || outcome == NEAP_INFEASIBLE,
         "no plan, but %s", neap_outcome_name(outcome));
    NEED(graph, outcome != NEAP_TIME_LIMIT, "there is no time limit");
    neap_solution_destroy(solution);
    if (outcome != NEAP_INFEASIBLE)
        return;
    request.progress = NULL;
    request.n_options = 1;
    solution = solve(&request);
    NEED(graph, !neap_solution_plan(solution), "said to be infeasible, but there is a plan");
    neap_solution_destroy(solution);
}

static void test_cancelled(void **state)
{
    (void)state;
    on_graphs(check_cancelled, 12, 150, 20250506);
}

static double now(void)
{
    struct timespec t;
    timespec_get(&t, TIME_UTC);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Half a second more at most; a machine that is busy has three tries. */
static void test_time_limit(void **state)
{
    (void)state;
    random_source random = {setting("NEAP_TEST_SEED", 20250507)};
    for (int i = 0; i < 4; i++) {
        neap_graph *graph = random_training_graph(&random, 100, false);
        neap_request request = ask(graph, 5 + 20 * i);
        double over = 1;
        request.link = i % 2 ? SLOW_LINK : (neap_link){0};
        request.objective = i == 3 ? NEAP_LEAST_PEAK : NEAP_LEAST_TIME;
        request.time_limit = 0.2;
        request.threads = 2;
        request.n_options = 0;
        for (int try = 0; try < 3 && over > 0.5 * SHARE; try++) {
            double begin = now();
            neap_solution_destroy(solve(&request));
            over = now() - begin - request.time_limit;
        }
        NEED(graph, over <= 0.5 * SHARE, "%g s over the time limit", over);
        neap_graph_destroy(graph);
    }
}

/* ---- The least peak ---- */

/* A view that takes time or memory to make: neap never makes it, nor what it lies on, again
   (planners/neap/problem.h). */
static bool has_costly_views(const neap_graph *graph)
{
    for (uint32_t v = 0; v < neap_graph_value_count(graph); v++) {
        const neap_value *value = neap_graph_value(graph, v);
        if (value->storage == v || value->producer == NEAP_NONE ||
            value->producer == neap_graph_value(graph, value->storage)->producer)
            continue;
        bool free = false;
        const neap_op *op = neap_graph_op(graph, value->producer);
        for (uint32_t i = 0; i < op->n_variants; i++)
            free = free || (op->variants[i].ticks == 0 && op->variants[i].workspace == 0);
        if (!free || op->n_outputs > 1)
            return true;
    }
    return false;
}

/* The least that a method can do: what it says when it has far too little. */
static int64_t least_of(const neap_graph *graph, const char *method, const neap_link *link)
{
    neap_request request = ask(graph, 0);
    neap_solution *solution;
    request.method = method;
    request.n_options = 0;
    request.link = *link;
    neap_status status = neap_solve(NULL, &request, &solution, NULL);
    if (status == NEAP_UNSUPPORTED)
        return -1;
    assert_int_equal(status, NEAP_OK);
    const neap_figures *f = neap_solution_figures(solution);
    int64_t least = neap_solution_plan(solution) ? f->peak_bytes : f->least_budget;
    neap_solution_destroy(solution);
    return least;
}

static void check_least_peak(const neap_graph *graph, random_source *random, uint64_t index)
{
    neap_request request = ask(graph, 0);
    (void)random;
    request.objective = NEAP_LEAST_PEAK;
    request.budget = -1;
    request.link = index % 3 == 0 ? SLOW_LINK : (neap_link){0};
    neap_solution *solution = solve(&request);
    const neap_figures *f = neap_solution_figures(solution);
    int64_t peak = f->peak_bytes;
    NEED(graph, neap_solution_plan(solution) && peak >= f->floor_bytes, "a peak of %" PRId64, peak);
    NEED(graph, (f->outcome == NEAP_OPTIMAL) == (peak == f->floor_bytes), "%s with %" PRId64,
         neap_outcome_name(f->outcome), peak);
    neap_solution_destroy(solution);
    for (uint32_t m = has_costly_views(graph) ? UINT32_MAX : 0; m < neap_methods_count(); m++) {
        const neap_method *method = neap_methods_at(m);
        if (strncmp(neap_method_name(method), "checkmate", 9) == 0 || /* programs: too long */
            neap_method_takes_constraints(method) ||
            (neap_method_needs_link(method) && !(request.link.out_bandwidth > 0)))
            continue;
        int64_t least = least_of(graph, neap_method_name(method), &request.link);
        NEED(graph, least < 0 || peak <= least, "%s can do %" PRId64 ", neap %" PRId64,
             neap_method_name(method), least, peak);
    }
    /* Within that peak there is a plan. */
    request.budget = peak;
    solution = solve(&request);
    NEED(graph, neap_solution_plan(solution), "no plan within its own peak %" PRId64, peak);
    neap_solution_destroy(solution);
}

static void test_least_peak(void **state)
{
    (void)state;
    on_graphs(check_least_peak, 8, 24, 20250508);
}

/* No plan at all has a lower one. */
static void test_tiny_least_peak(void **state)
{
    (void)state;
    random_source random = {setting("NEAP_TEST_SEED", 20250509)};
    uint64_t count = setting("NEAP_TEST_COUNT", 100 / SHARE), known = 0, least = 0;
    print_message("seed %" PRIu64 ", %" PRIu64 " graphs\n", random.state, count);
    for (uint64_t i = 0; i < count; i++) {
        neap_graph *graph = random_small_graph(&random, 6, i % 2 ? SMALL_TRAINING : SMALL_VARIANTS);
        neap_request request = ask(graph, 0);
        request.objective = NEAP_LEAST_PEAK;
        request.budget = -1;
        request.n_options = i % 4 < 2 ? 2 : 0; /* by search, or by looking at all plans */
        neap_solution *solution = solve(&request);
        const neap_figures *f = neap_solution_figures(solution);
        least_time_options options = {.most_states = 60000};
        least_time_answer lower = least_time_search(graph, f->peak_bytes - 1, &options);
        NEED(graph, f->outcome != NEAP_OPTIMAL || !lower.found,
             "optimal with %" PRId64 ", but there is less", f->peak_bytes);
        known += !lower.gave_up;
        least += !lower.gave_up && !lower.found;
        neap_solution_destroy(solution);
        neap_graph_destroy(graph);
    }
    print_message("%" PRIu64 " of %" PRIu64 " are the least\n", least, known);
    assert_true(100 * least >= 99 * known && 10 * known >= 9 * count);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pins),          cmocka_unit_test(test_pins_of_no_name),
        cmocka_unit_test(test_a_pinned_view), cmocka_unit_test(test_starts),
        cmocka_unit_test(test_pinned_starts), cmocka_unit_test(test_wrong_starts),
        cmocka_unit_test(test_threads),       cmocka_unit_test(test_gap),
        cmocka_unit_test(test_cancelled),     cmocka_unit_test(test_time_limit),
        cmocka_unit_test(test_least_peak),    cmocka_unit_test(test_tiny_least_peak),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
