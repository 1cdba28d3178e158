/*
 * The method `neap` when each allocation fails once, in turn, and then that one and all later ones
 * fail: NEAP_NO_MEMORY, no leak, and the caller's data unchanged. With and without a link, with
 * variants, pins, a plan to start from and the least peak as the objective.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "random_small_graph.h"
#include "random_training.h"
#include "settings.h"
#include "torture.h"

#include <neap/solve.h>

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define SHARE  ONE_IN(10) /* of the failures from one on */
#define GRAPHS (3 / ONE_IN(3))

static neap_status solve(const void *subject, neap_allocator *allocator, neap_diag *diag)
{
    const neap_request *request = subject;
    neap_solution *solution = (neap_solution *)&request;
    neap_status status = neap_solve(allocator, request, &solution, diag);
    assert_true((solution != NULL) == (status == NEAP_OK));
    neap_solution_destroy(solution);
    return status;
}

static char *text_of(const neap_plan *plan, size_t *length)
{
    char *text = NULL;
    *length = 0;
    if (plan)
        assert_int_equal(neap_plan_write_text(plan, NULL, &text, length, NULL), NEAP_OK);
    return text;
}

static void torture(const neap_request *request)
{
    size_t length, length_after;
    char *start = text_of(request->start, &length);
    size_t count = torture_memory(solve, request, 100 / SHARE);
    char *after = text_of(request->start, &length_after);
    assert_int_equal(length, length_after);
    assert_true(!start || strcmp(start, after) == 0);
    neap_release(NULL, start, start ? length + 1 : 0);
    neap_release(NULL, after, after ? length_after + 1 : 0);
    print_message("%" PRIu32 " ops: %zu allocations\n", neap_graph_op_count(request->graph), count);
}

/* Half way from the floor to the natural peak, by one thread: which allocation fails is the same
   every time. */
static neap_request ask(const neap_graph *graph)
{
    static const neap_option_setting briefly = {"effort", "2"};
    neap_request request;
    int64_t peak, least = neap_graph_floor_bytes(graph, NULL);
    assert_int_equal(neap_natural_peak(NULL, graph, &peak, NULL), NEAP_OK);
    neap_request_init(&request, graph, "neap");
    request.budget = least + (peak - least) / 2;
    request.budget = request.budget > 0 ? request.budget : 1;
    request.n_options = 1;
    request.options = &briefly;
    request.threads = 1;
    return request;
}

static const neap_link SLOW_LINK = {.out_bandwidth = 7, .in_bandwidth = 11};

static void test_computing(void **state)
{
    (void)state;
    random_source random = {20250601};
    for (int i = 0; i < GRAPHS; i++) {
        neap_graph *graph = random_training_graph(&random, 3, false);
        neap_request request = ask(graph);
        torture(&request);
        neap_graph_destroy(graph);
    }
}

static void test_variants(void **state)
{
    (void)state;
    random_source random = {20250602};
    for (int i = 0; i < GRAPHS; i++) {
        neap_graph *graph = random_small_graph(&random, 7, SMALL_TRAINING | SMALL_VARIANTS);
        neap_request request = ask(graph);
        torture(&request);
        neap_graph_destroy(graph);
    }
}

static void test_link(void **state)
{
    (void)state;
    random_source random = {20250603};
    for (int i = 0; i < GRAPHS; i++) {
        neap_graph *graph = random_training_graph(&random, 3, false);
        neap_request request = ask(graph);
        request.link = SLOW_LINK;
        torture(&request);
        neap_graph_destroy(graph);
    }
}

/* Updates, and state that travels or is on the host. */
static void test_state(void **state)
{
    (void)state;
    random_source random = {20261131};
    for (int i = 0; i < GRAPHS + 1; i++) {
        neap_graph *graph = random_small_graph(&random, 7, SMALL_TRAINING | SMALL_UPDATES);
        neap_request request = ask(graph);
        request.link = SLOW_LINK;
        request.budget = (request.budget + neap_graph_travel_floor_bytes(graph, NULL)) / 2 + 1;
        request.state = i % 2 ? NEAP_STATE_HOST : NEAP_STATE_AUTO;
        torture(&request);
        neap_graph_destroy(graph);
    }
}

/* Pins, a start, and the least peak; within a budget that is too small, too. */
static void test_constraints(void **state)
{
    (void)state;
    random_source random = {20250604};
    for (int i = 0; i < 4; i++) {
        neap_graph *graph = random_training_graph(&random, 3, false);
        neap_plan *plan = random_plan(&random, graph, 20, true);
        const neap_pin pins[] = {
            {NEAP_PIN_KEEP, neap_graph_op(graph, 0)->name},
            {NEAP_PIN_NO_OFFLOAD, "*1"},
        };
        neap_request request = ask(graph);
        request.link = SLOW_LINK;
        request.start = plan;
        request.pins = pins;
        request.n_pins = i % 2 ? 1 : 0;
        request.objective = i == 2 ? NEAP_LEAST_PEAK : NEAP_LEAST_TIME;
        if (i == 3)
            request.budget = 1;
        torture(&request);
        neap_plan_destroy(plan);
        neap_graph_destroy(graph);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_computing),   cmocka_unit_test(test_variants),
        cmocka_unit_test(test_link),        cmocka_unit_test(test_state),
        cmocka_unit_test(test_constraints),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
