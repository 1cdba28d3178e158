/*
 * neap/batch.h: the search compared with trying every batch, its limits and proofs, scaled graphs,
 * and what happens when time, memory or the caller's graphs run out.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "failing_allocator.h"
#include "method_link.h"
#include "settings.h"
#include "small_graphs.h"

#include <neap/batch.h>
#include <neap/cost.h>
#include <neap/models.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))
#define MOST            60

/* ---- Graphs of a batch ---- */

/* A built-in model on a device; a unit chain, which has no batch of its own, is scaled. */
typedef struct subject {
    const char *model;
    neap_model_setting setting;
    const char *device;
    neap_allocator *allocator;
    int64_t fails_at;               /* graph_of fails there; 0: never */
    int64_t (*stands_for)(int64_t); /* the batch whose graph is given instead; NULL: itself */
    int calls;
} subject;

static neap_status build(const subject *s, int64_t batch, neap_graph **graph, neap_diag *diag)
{
    const neap_model_setting settings[] = {s->setting, {"batch", batch}};
    neap_model_options options;
    neap_model_options_init(&options);
    options.settings = settings;
    options.n_settings = 2;
    bool chain = strcmp(s->model, "chain") == 0;
    if (!chain)
        return neap_model_build(s->allocator, neap_models_find(s->model), &options, graph, diag);
    neap_graph *one = NULL;
    options.n_settings = 1;
    neap_status status =
        neap_model_build(s->allocator, neap_models_find("chain"), &options, &one, diag);
    *graph = NULL;
    if (status == NEAP_OK)
        status = neap_batch_scale(s->allocator, one, 1, batch, graph, diag);
    neap_graph_destroy(one);
    return status;
}

static neap_status graph_of(void *context, int64_t batch, neap_graph **graph, neap_diag *diag)
{
    subject *s = context;
    s->calls++;
    if (batch == s->fails_at) {
        *graph = NULL;
        *diag = (neap_diag){.status = NEAP_INVALID, .message = "no such batch"};
        return NEAP_INVALID;
    }
    neap_status status = build(s, s->stands_for ? s->stands_for(batch) : batch, graph, diag);
    if (status != NEAP_OK || !s->device)
        return status;
    neap_devices *devices;
    assert_int_equal(neap_devices_create(NULL, &devices, NULL), NEAP_OK);
    status = neap_cost_apply(*graph, neap_devices_find(devices, s->device), NEAP_MATH_F32, diag);
    neap_devices_destroy(devices);
    if (status != NEAP_OK) {
        neap_graph_destroy(*graph);
        *graph = NULL;
    }
    return status;
}

/* 12 unit layers: 1 byte a value and item of the batch. */
static const subject CHAIN = {.model = "chain", .setting = {"layers", 12}};

static int64_t natural_peak(subject *s, int64_t batch)
{
    neap_graph *graph;
    int64_t peak;
    assert_int_equal(graph_of(s, batch, &graph, NULL), NEAP_OK);
    assert_int_equal(neap_natural_peak(NULL, graph, &peak, NULL), NEAP_OK);
    neap_graph_destroy(graph);
    return peak;
}

static neap_batch_request request_for(subject *s, const char *method, int64_t budget)
{
    neap_batch_request request;
    neap_batch_request_init(&request, graph_of, s, method);
    request.solve.budget = budget;
    request.solve.link = method_link(method);
    request.most = MOST;
    search_briefly(&request.solve);
    return request;
}

static void search(const neap_batch_request *request, neap_batch_result *result)
{
    neap_diag diag = {0};
    if (neap_batch_search(NULL, request, result, &diag) != NEAP_OK)
        fail_msg("%s: %s", request->solve.method, diag.message);
    assert_true((result->batch > 0) == (result->solution != NULL));
    uint32_t solved = 0;
    for (size_t i = 0; i < result->n_trials; i++) {
        const neap_batch_trial *t = &result->trials[i];
        assert_true(t->batch >= request->least && t->batch <= request->most);
        assert_true(t->verdict != NEAP_BATCH_FITS || t->batch <= result->batch);
        assert_true(t->verdict != NEAP_BATCH_STOPPED || t->proof == NEAP_BATCH_UNPROVEN);
        solved += t->solved;
        for (size_t j = 0; j < i; j++) /* nothing is tried twice, unless it was stopped */
            assert_true(result->trials[j].batch != t->batch ||
                        result->trials[j].verdict == NEAP_BATCH_STOPPED);
    }
    assert_int_equal(result->n_solved, solved);
}

/* ---- Against every batch ---- */

/* Does the method have a plan within the limit? Written down from eq. (10), in ticks. */
static bool fits(subject *s, const neap_batch_request *request, int64_t batch)
{
    neap_graph *graph;
    neap_solution *solution;
    neap_diag diag = {0};
    assert_int_equal(graph_of(s, batch, &graph, &diag), NEAP_OK);
    neap_request solve = request->solve;
    solve.graph = graph;
    if (neap_solve(NULL, &solve, &solution, &diag) != NEAP_OK)
        fail_msg("%s: %s", solve.method, diag.message);
    int64_t forward = 0, all = 0;
    for (uint32_t o = 0; o < neap_graph_op_count(graph); o++) {
        const neap_op *op = neap_graph_op(graph, o);
        all += op->variants[0].ticks;
        forward += op->pass == NEAP_FORWARD ? op->variants[0].ticks : 0;
    }
    bool has_plan = neap_solution_plan(solution) != NULL;
    double ticks =
        neap_solution_figures(solution)->time * (double)neap_graph_ticks_per_second(graph);
    double most = (double)all + request->extra_forward * (double)forward;
    neap_solution_destroy(solution);
    neap_graph_destroy(graph);
    return has_plan && (request->extra_forward < 0 || ticks <= most + 0.25);
}

/*
 * All batches one by one. Searching them all must give the largest that fits; bisection too where
 * no batch that fails lies below one that fits, and a batch that fits next to one that does not in
 * any case.
 */
static void compare(subject *s, neap_batch_request *request)
{
    bool good[MOST + 2] = {false}, regular = true;
    int64_t largest = 0;
    for (int64_t b = 1; b <= MOST; b++) {
        good[b] = fits(s, request, b);
        regular = regular && (!good[b] || b == largest + 1);
        largest = good[b] ? b : largest;
    }
    neap_batch_result result;
    search(request, &result);
    if (regular ? result.batch != largest
                : (result.batch > 0 && !good[result.batch]) || good[result.batch + 1])
        fail_msg("%s on %s, %lld bytes: %lld, not %lld", request->solve.method, s->model,
                 (long long)request->solve.budget, (long long)result.batch, (long long)largest);
    if (result.batch < MOST)
        assert_true(result.proof != NEAP_BATCH_UNPROVEN && result.next != NEAP_BATCH_FITS);
    neap_batch_result_clear(&result);

    request->beyond = INT64_MAX;
    search(request, &result);
    if (result.batch != largest)
        fail_msg("%s on %s, %lld bytes, all batches: %lld, not %lld", request->solve.method,
                 s->model, (long long)request->solve.budget, (long long)result.batch,
                 (long long)largest);
    if (result.batch > 0) {
        const neap_figures *figures = neap_solution_figures(result.solution);
        assert_true(figures->peak_bytes <= request->solve.budget);
        assert_int_equal(figures->budget_bytes, request->solve.budget);
    }
    neap_batch_result_clear(&result);
    request->beyond = 0;
}

static void compare_methods(const subject *template, const char *const *methods, size_t n_methods)
{
    static const double extras[] = {1, 0, 0.3, -1};
    subject s = *template;
    const int64_t budgets[] = {natural_peak(&s, 20), natural_peak(&s, 9) + 1,
                               natural_peak(&s, 1) - 1};
    for (size_t m = 0; m < n_methods; m++)
        for (size_t b = m % ONE_IN(2); b < COUNT_OF(budgets); b += ONE_IN(2)) {
            neap_batch_request request = request_for(&s, methods[m], budgets[b]);
            request.extra_forward = extras[(m + b) % COUNT_OF(extras)];
            compare(&s, &request);
        }
}

static void test_every_batch_of_a_chain(void **state)
{
    (void)state;
    subject s = CHAIN;
    s.setting.value = 6;
    /* every method there is: a chain of six layers is small enough for the slowest */
    for (uint32_t m = 0; m < neap_methods_count(); m++) {
        const char *name = neap_method_name(neap_methods_at(m));
        neap_batch_request request = request_for(&s, name, 77);
        compare(&s, &request);
    }
    static const char *const METHODS[] = {"store-all", "sqrt",  "greedy", "hong",
                                          "revolve",   "rotor", "pareto"};
    compare_methods(&CHAIN, METHODS, COUNT_OF(METHODS));
}

static void test_every_batch_of_networks(void **state)
{
    (void)state;
    static const char *const METHODS[] = {"store-all", "sqrt", "greedy", "rotor"};
    static const subject SUBJECTS[] = {
        {.model = "alexnet", .setting = {"image", 63}, .device = "flops"},
        {.model = "resnet18", .setting = {"image", 32}, .device = "v100"},
    };
    for (size_t i = 0; i < COUNT_OF(SUBJECTS) / ONE_IN(2); i++)
        compare_methods(&SUBJECTS[i], METHODS, COUNT_OF(METHODS));
}

/* ---- What the result says ---- */

/* 12 layers of b bytes each and a loss: store-all holds 13 gradients and activations and one more
   as the backward pass begins, 14 b in all. */
static void test_figures_by_hand(void **state)
{
    (void)state;
    subject s = CHAIN;
    neap_batch_result result;
    neap_batch_request request = request_for(&s, "store-all", 14 * 17);
    search(&request, &result);
    assert_int_equal(result.batch, 17);
    assert_int_equal(result.store_all, 17);
    assert_int_equal(result.next, NEAP_BATCH_NO_MEMORY);
    assert_int_equal(result.proof, NEAP_BATCH_OF_METHOD);
    assert_int_equal(neap_solution_figures(result.solution)->peak_bytes, 14 * 17);
    assert_true(result.seconds >= 0 && !result.interrupted);
    neap_batch_result_clear(&result);

    request = request_for(&s, "pareto", 14 * 17);
    search(&request, &result);
    assert_true(result.batch > 17 && result.store_all == 17);
    assert_int_equal(result.trials[0].batch, 17); /* where store-all ends */
    /* every op once 25 seconds an item, the 12 layers and the loss again at most */
    assert_true(neap_solution_figures(result.solution)->time <= 38.0 * (double)result.batch);
    assert_true(result.trials[0].target_time == 38.0 * 17);
    neap_solution *kept = result.solution;
    result.solution = NULL;
    neap_batch_result_clear(&result);
    assert_non_null(neap_solution_plan(kept));
    neap_solution_destroy(kept);
}

/* The backward op touches two values of b bytes, and its gradient, an output, of one: the 79th item
   is one too many for any plan, and is not even solved. */
static void test_proof_of_all(void **state)
{
    (void)state;
    subject s = CHAIN;
    s.setting.value = 1;
    neap_batch_result result;
    neap_batch_request request = request_for(&s, "store-all", 2 * 78 + 1);
    request.most = 1000;
    search(&request, &result);
    assert_int_equal(result.batch, 78);
    assert_int_equal(result.proof, NEAP_BATCH_OF_ALL);
    assert_int_equal(result.next, NEAP_BATCH_NO_MEMORY);
    for (size_t i = 0; i < result.n_trials; i++)
        assert_true(result.trials[i].solved == (result.trials[i].batch <= 78));
    neap_batch_result_clear(&result);
}

static void test_the_cost_limit(void **state)
{
    (void)state;
    static const double extras[] = {0, 0.25, 0.5, 1, 2, -1};
    subject s = CHAIN;
    int64_t before = 0;
    for (size_t i = 0; i < COUNT_OF(extras); i++) {
        neap_batch_result result;
        neap_batch_request request = request_for(&s, "pareto", 400);
        request.most = 1000;
        request.extra_forward = extras[i];
        search(&request, &result);
        assert_true(result.batch >= before);
        if (extras[i] == 0) {
            assert_int_equal(result.batch, 400 / 14);
            assert_int_equal(result.next, NEAP_BATCH_TOO_SLOW);
        }
        if (extras[i] < 0) {
            assert_int_equal(result.trials[0].target_time, 0);
            assert_int_equal(result.next, NEAP_BATCH_NO_MEMORY);
            assert_true(result.batch > before);
        }
        before = result.batch;
        neap_batch_result_clear(&result);
    }
}

static void test_ranges(void **state)
{
    (void)state;
    subject s = CHAIN;
    neap_batch_result result;
    /* all of the range fits: nothing beyond it is known */
    neap_batch_request request = request_for(&s, "sqrt", 14 * 100);
    request.most = 50;
    search(&request, &result);
    assert_int_equal(result.batch, 50);
    assert_int_equal(result.proof, NEAP_BATCH_UNPROVEN);
    assert_int_equal(result.store_all, 50);
    neap_batch_result_clear(&result);
    /* none of it */
    request.least = 40;
    request.solve.budget = 100;
    search(&request, &result);
    assert_int_equal(result.batch, 0);
    assert_int_equal(result.store_all, 0);
    assert_int_equal(result.n_trials, 1);
    assert_false(result.trials[0].solved);
    assert_int_equal(result.trials[0].least_budget, -1);
    assert_int_equal(result.proof, NEAP_BATCH_OF_ALL);
    neap_batch_result_clear(&result);
    /* a single batch */
    request.least = request.most = 7;
    search(&request, &result);
    assert_int_equal(result.batch, 7);
    neap_batch_result_clear(&result);
}

/* Of the batches above 8, only 13 is as small as it should be. */
static int64_t hilly(int64_t batch)
{
    return batch <= 8 || batch == 13 ? batch : 50;
}

/* 8 fits and 16 does not, nor do 12, 10 and 9: bisection cannot see 13. */
static void test_beyond(void **state)
{
    (void)state;
    static const struct {
        int64_t beyond, expected;
    } CASES[] = {{0, 8}, {1, 8}, {3, 8}, {4, 13}, {INT64_MAX, 13}, {-5, 8}};
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        subject s = CHAIN;
        s.stands_for = hilly;
        neap_batch_result result;
        neap_batch_request request = request_for(&s, "store-all", 14 * 20);
        request.beyond = CASES[i].beyond;
        request.most = 30;
        search(&request, &result);
        assert_int_equal(result.batch, CASES[i].expected);
        assert_int_equal(result.proof, NEAP_BATCH_OF_METHOD);
        neap_batch_result_clear(&result);
    }
}

/* ---- Time, and the caller ---- */

static void test_time_limits(void **state)
{
    (void)state;
    subject s = CHAIN;
    neap_batch_result result;
    /* no time at all: one batch is tried */
    neap_batch_request request = request_for(&s, "sqrt", 14 * 20);
    request.time_limit = 1e-9;
    search(&request, &result);
    assert_int_equal(result.n_trials, 1);
    assert_int_equal(result.proof, NEAP_BATCH_UNPROVEN);
    neap_batch_result_clear(&result);
    /* enough of it changes nothing, and every trial has its share */
    request.time_limit = 1000;
    search(&request, &result);
    neap_batch_result free_result;
    request.time_limit = 0;
    search(&request, &free_result);
    assert_int_equal(result.batch, free_result.batch);
    assert_int_equal(result.n_trials, free_result.n_trials);
    for (size_t i = 0; i < result.n_trials; i++)
        assert_true((result.trials[i].time_limit > 0) == result.trials[i].solved &&
                    result.trials[i].time_limit <= 1000 && free_result.trials[i].time_limit <= 0);
    neap_batch_result_clear(&free_result);
    neap_batch_result_clear(&result);
    /* greedy stops after its first plan, which is too slow: that proves nothing */
    request = request_for(&s, "greedy", 14 * 20);
    request.extra_forward = 0;
    request.solve.time_limit = 1e-9;
    search(&request, &result);
    assert_true(result.batch <= 20);
    assert_int_equal(result.next, NEAP_BATCH_STOPPED);
    assert_int_equal(result.proof, NEAP_BATCH_UNPROVEN);
    neap_batch_result_clear(&result);
}

typedef struct watcher {
    neap_progress base;
    int asked, patience, reports;
} watcher;

static bool give_up(neap_progress *self)
{
    watcher *w = (watcher *)self;
    return ++w->asked > w->patience;
}

static void watch(neap_progress *self, const neap_progress_event *event)
{
    watcher *w = (watcher *)self;
    w->reports++;
    assert_true(event->seconds >= 0);
    assert_memory_equal(event->part, "batch ", 6);
}

static void test_interrupted(void **state)
{
    (void)state;
    subject s = CHAIN;
    for (int patience = 0; patience < 12; patience++) {
        watcher w = {.base = {watch, give_up}, .patience = patience};
        neap_batch_result result;
        neap_batch_request request = request_for(&s, "greedy", 14 * 20);
        request.solve.progress = &w.base;
        search(&request, &result);
        assert_true(result.interrupted);
        assert_true(result.n_trials >= 1);
        neap_batch_result_clear(&result);
    }
    static const char *const METHODS[] = {"greedy", "rotor"};
    for (size_t i = 0; i < COUNT_OF(METHODS); i++) {
        watcher w = {.base = {watch, give_up}, .patience = INT32_MAX};
        neap_batch_result result;
        neap_batch_request request = request_for(&s, METHODS[i], 14 * 20);
        request.solve.progress = &w.base;
        search(&request, &result);
        assert_false(result.interrupted);
        assert_true(w.asked > 0);
        assert_true(i == 0 || w.reports > 0);
        neap_batch_result_clear(&result);
    }
}

/* A plan slower than the target is still a plan. */
static void test_a_target_is_no_limit(void **state)
{
    (void)state;
    subject s = CHAIN;
    neap_graph *graph;
    neap_solution *solution;
    neap_request request;
    assert_int_equal(graph_of(&s, 1, &graph, NULL), NEAP_OK);
    neap_request_init(&request, graph, "sqrt");
    assert_true(request.target_time == 0);
    request.target_time = 1;
    assert_int_equal(neap_solve(NULL, &request, &solution, NULL), NEAP_OK);
    assert_non_null(neap_solution_plan(solution));
    assert_true(neap_solution_figures(solution)->time > 25);
    neap_solution_destroy(solution);
    neap_graph_destroy(graph);
}

/* ---- Errors ---- */

static void refuse(const neap_batch_request *request, neap_status status, const char *message)
{
    neap_batch_result result;
    neap_diag diag = {0};
    assert_int_equal(neap_batch_search(NULL, request, &result, &diag), status);
    if (!strstr(diag.message, message))
        fail_msg("\"%s\" says nothing of \"%s\"", diag.message, message);
    assert_true(result.batch == 0 && !result.solution && !result.trials && result.n_trials == 0);
    neap_batch_result_clear(&result);
}

static void test_wrong_requests(void **state)
{
    (void)state;
    subject s = CHAIN;
    neap_batch_request good = request_for(&s, "sqrt", 100), request = good;
    request.least = 0;
    refuse(&request, NEAP_INVALID, "batches from 0 to 60");
    request.least = 61;
    refuse(&request, NEAP_INVALID, "batches from 61 to 60");
    request = good;
    request.solve.budget = -1;
    refuse(&request, NEAP_INVALID, "needs a budget");
    request = good;
    request.extra_forward = (double)NAN;
    refuse(&request, NEAP_INVALID, "forward passes");
    request = good;
    request.time_limit = -1;
    refuse(&request, NEAP_INVALID, "time limit");
    request = good;
    request.solve.method = "sqr";
    refuse(&request, NEAP_INVALID, "did you mean sqrt");
    request = good;
    s.fails_at = 4;
    refuse(&request, NEAP_INVALID, "no such batch");
}

/* ---- Scaled graphs ---- */

/* Parameter p 12, its gradient g 12 (an output) seen through the view gv, activations 10 and 7. */
static const char training[] =
    "{'neap': 'graph', 'version': 1, 'name': 'training', 'fixed_bytes': 100,"
    " 'values': [{'name': 'x', 'bytes': 10, 'kind': 'input', 'dtype': 'f32', 'shape': [5]},"
    "  {'name': 'p', 'bytes': 12, 'kind': 'parameter', 'dtype': 'f32', 'shape': [3]},"
    "  {'name': 'a', 'bytes': 7},"
    "  {'name': 'da', 'bytes': 7, 'kind': 'gradient'},"
    "  {'name': 'g', 'bytes': 12, 'kind': 'gradient'},"
    "  {'name': 'gv', 'bytes': 0, 'kind': 'gradient', 'view_of': 4},"
    "  {'name': 'pv', 'bytes': 0, 'kind': 'activation', 'view_of': 1}],"
    " 'ops': [{'name': 'f', 'inputs': [0, 1], 'outputs': [2, 6], 'time': 3, 'workspace': 5,"
    "   'flops': 10, 'bytes_moved': 9, 'variants': [{'time': 3, 'workspace': 5},"
    "    {'time': 6, 'workspace': 0}]},"
    "  {'name': 'l', 'pass': 'backward', 'inputs': [2], 'outputs': [3], 'time': 1},"
    "  {'name': 'b', 'pass': 'backward', 'inputs': [0, 3], 'outputs': [4, 5], 'time': 2,"
    "   'random': true}],"
    " 'outputs': [5]}";

static void test_scaled_by_hand(void **state)
{
    (void)state;
    static const int64_t BYTES[] = {15, 12, 11, 11, 12, 0, 0};
    neap_graph *graph = graph_from(training), *scaled;
    assert_int_equal(neap_batch_scale(NULL, graph, 2, 3, &scaled, NULL), NEAP_OK);
    assert_int_equal(neap_graph_fixed_bytes(scaled), 100);
    assert_int_equal(neap_graph_value_count(scaled), COUNT_OF(BYTES));
    for (uint32_t v = 0; v < COUNT_OF(BYTES); v++) {
        assert_int_equal(neap_graph_value(scaled, v)->bytes, BYTES[v]);
        assert_string_equal(neap_graph_value(scaled, v)->name, neap_graph_value(graph, v)->name);
        assert_string_equal(neap_graph_value(scaled, v)->kind, neap_graph_value(graph, v)->kind);
        assert_int_equal(neap_graph_value(scaled, v)->storage, neap_graph_value(graph, v)->storage);
    }
    assert_int_equal(neap_graph_value(scaled, 0)->rank, 0);
    assert_int_equal(neap_graph_value(scaled, 1)->rank, 1);
    assert_int_equal(neap_graph_parameter_count(scaled), 3);
    const neap_op *f = neap_graph_op(scaled, 0);
    assert_int_equal(f->n_variants, 2);
    assert_true(fabs(f->variants[0].seconds - 4.5) < 1e-12);
    assert_true(fabs(f->variants[1].seconds - 9) < 1e-12);
    assert_int_equal(f->variants[0].workspace, 8);
    assert_int_equal(f->variants[1].workspace, 0);
    assert_int_equal(f->flops, 15);
    assert_int_equal(f->bytes_moved, 14);
    assert_int_equal(neap_graph_op(scaled, 1)->flops, -1);
    assert_int_equal(neap_graph_op(scaled, 2)->pass, NEAP_BACKWARD);
    assert_true(neap_graph_op(scaled, 2)->random);
    assert_true(neap_graph_is_output(scaled, 5) && !neap_graph_is_output(scaled, 4));
    neap_graph_destroy(scaled);
    neap_graph_destroy(graph);
}

/* The sizes of a network grow as its builder has them; there the loss of one item is the loss of
   any number, and nothing else differs. */
/* State, gradients that only updates read, what is computed from these, and the updates' times. */
static void test_scaled_updates(void **state)
{
    (void)state;
    neap_graph *scaled,
        *graph = graph_from(
            "{'neap':'graph','version':1,'values':[{'bytes':8,'kind':'parameter','state':true},"
            "{'bytes':16,'kind':'state','state':true},{'bytes':6},{'bytes':8,'kind':'gradient'},"
            "{'bytes':4,'kind':'gradient'}],'ops':["
            "{'inputs':[0],'outputs':[2],'time':2,'workspace':2},"
            "{'inputs':[2],'outputs':[3],'time':2},"
            "{'inputs':[3],'outputs':[4],'time':2,'workspace':10},"
            "{'inputs':[0,1,3,4],'outputs':[],'updates':[0,1],'time':2,'workspace':10}],"
            "'outputs':[]}");
    static const int64_t bytes[] = {8, 16, 9, 8, 4}, workspace[] = {3, 0, 10, 10};
    static const double seconds[] = {3, 3, 2, 2};
    assert_int_equal(neap_batch_scale(NULL, graph, 2, 3, &scaled, NULL), NEAP_OK);
    for (uint32_t v = 0; v < 5; v++) {
        assert_int_equal(neap_graph_value(scaled, v)->bytes, bytes[v]);
        assert_int_equal(neap_graph_value(scaled, v)->state, v < 2);
    }
    for (uint32_t o = 0; o < 4; o++) {
        assert_true(neap_graph_op(scaled, o)->variants[0].seconds == seconds[o]);
        assert_int_equal(neap_graph_op(scaled, o)->variants[0].workspace, workspace[o]);
    }
    assert_int_equal(neap_graph_op(scaled, 3)->n_updates, 2);
    neap_graph_destroy(scaled);
    neap_graph_destroy(graph);
}

static void test_scaled_as_built(void **state)
{
    (void)state;
    subject s = {.model = "vgg11", .setting = {"image", 32}, .device = "flops"};
    neap_graph *two, *five, *scaled;
    assert_int_equal(graph_of(&s, 2, &two, NULL), NEAP_OK);
    assert_int_equal(graph_of(&s, 5, &five, NULL), NEAP_OK);
    assert_int_equal(neap_batch_scale(NULL, two, 2, 5, &scaled, NULL), NEAP_OK);
    for (uint32_t v = 0; v < neap_graph_value_count(five); v++)
        if (neap_graph_value(five, v)->bytes > 4)
            assert_int_equal(neap_graph_value(scaled, v)->bytes, neap_graph_value(five, v)->bytes);
    double a = neap_graph_seconds(five, neap_graph_base_ticks(five));
    double b = neap_graph_seconds(scaled, neap_graph_base_ticks(scaled));
    assert_true(fabs(a - b) < 1e-3 * a);
    neap_graph_destroy(scaled);
    neap_graph_destroy(five);
    neap_graph_destroy(two);
}

static void test_scaled_too_far(void **state)
{
    (void)state;
    neap_graph *graph = graph_from(training), *scaled = graph;
    neap_diag diag = {0};
    assert_int_equal(neap_batch_scale(NULL, graph, 1, INT64_MAX, &scaled, &diag), NEAP_INVALID);
    assert_null(scaled);
    assert_non_null(strstr(diag.message, "\"x\""));
    assert_int_equal(neap_batch_scale(NULL, graph, 0, 1, &scaled, &diag), NEAP_INVALID);
    assert_int_equal(neap_batch_scale(NULL, graph, 1, 0, &scaled, &diag), NEAP_INVALID);
    assert_non_null(strstr(diag.message, "not 0"));
    /* the other way there is nothing to overflow */
    assert_int_equal(neap_batch_scale(NULL, graph, INT64_MAX, 1, &scaled, &diag), NEAP_OK);
    assert_int_equal(neap_graph_value(scaled, 0)->bytes, 1);
    neap_graph_destroy(scaled);
    neap_graph_destroy(graph);
}

/* ---- Out of memory ---- */

static void test_every_allocation_fails_once(void **state)
{
    (void)state;
    neap_diag diag;
    size_t failures = 0;
    for (size_t fail_from = 0;; fail_from += 1 + fail_from / 50) {
        failing_allocator memory;
        failing_allocator_init(&memory);
        memory.fail_from = fail_from;
        memory.fail_end = fail_from + 1;
        subject s = CHAIN;
        s.setting.value = 3;
        s.allocator = &memory.base;
        neap_batch_request request = request_for(&s, "sqrt", 5 * 6);
        neap_batch_result result;
        diag = (neap_diag){0};
        neap_status status = neap_batch_search(&memory.base, &request, &result, &diag);
        assert_int_equal(status, memory.failed ? NEAP_NO_MEMORY : NEAP_OK);
        assert_true((status == NEAP_OK) == (result.solution != NULL));
        neap_batch_result_clear(&result);
        assert_null(memory.fault);
        assert_int_equal(memory.live_blocks, 0);
        if (!memory.failed)
            break;
        failures++;
    }
    assert_true(failures > 50);
}

static void test_names(void **state)
{
    (void)state;
    assert_string_equal(neap_batch_verdict_name(NEAP_BATCH_FITS), "fits");
    assert_string_equal(neap_batch_verdict_name(NEAP_BATCH_NO_MEMORY), "no_memory");
    assert_string_equal(neap_batch_verdict_name(NEAP_BATCH_TOO_SLOW), "too_slow");
    assert_string_equal(neap_batch_verdict_name(NEAP_BATCH_STOPPED), "stopped");
    assert_string_equal(neap_batch_verdict_name((neap_batch_verdict)9), "unknown");
    assert_string_equal(neap_batch_proof_name(NEAP_BATCH_UNPROVEN), "no");
    assert_string_equal(neap_batch_proof_name(NEAP_BATCH_OF_METHOD), "method");
    assert_string_equal(neap_batch_proof_name(NEAP_BATCH_OF_ALL), "all");
    assert_string_equal(neap_batch_proof_name((neap_batch_proof)9), "unknown");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_batch_of_a_chain),
        cmocka_unit_test(test_every_batch_of_networks),
        cmocka_unit_test(test_figures_by_hand),
        cmocka_unit_test(test_proof_of_all),
        cmocka_unit_test(test_the_cost_limit),
        cmocka_unit_test(test_ranges),
        cmocka_unit_test(test_beyond),
        cmocka_unit_test(test_time_limits),
        cmocka_unit_test(test_interrupted),
        cmocka_unit_test(test_a_target_is_no_limit),
        cmocka_unit_test(test_wrong_requests),
        cmocka_unit_test(test_scaled_by_hand),
        cmocka_unit_test(test_scaled_updates),
        cmocka_unit_test(test_scaled_as_built),
        cmocka_unit_test(test_scaled_too_far),
        cmocka_unit_test(test_every_allocation_fails_once),
        cmocka_unit_test(test_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
