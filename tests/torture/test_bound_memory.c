/*
 * Bounds when each allocation fails once, in turn, and then that one and all later ones fail:
 * NEAP_NO_MEMORY and no leak, for single cuts and for programs; also with updates, runs in place
 * and state that moves.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "planners/neap/bound.h"
#include "random_small_graph.h"
#include "random_training.h"
#include "torture.h"

#include <neap/solve.h>

#include <inttypes.h>

typedef struct subject {
    const neap_graph *graph;
    int64_t budget;
    const neap_link *link;
} subject;

static neap_status find_bounds(const void *subject_of, neap_allocator *allocator, neap_diag *diag)
{
    const subject *s = subject_of;
    neap_request request;
    problem x;
    bound *b = NULL;
    neap_request_init(&request, s->graph, "pareto");
    if (s->link)
        request.link = *s->link;
    neap_status status = neap_problem_init(&x, allocator, &request, diag);
    if (status == NEAP_OK)
        status = neap_problem_let_state_travel(&x, &request, diag);
    if (status == NEAP_OK) {
        b = (bound *)&x;
        status = neap_bound_create(allocator, &x, s->budget, s->link, &b, diag);
        assert_true((b != NULL) == (status == NEAP_OK));
    }
    while (status == NEAP_OK && !neap_bound_state(b)->done)
        status = neap_bound_improve(b, NULL, NULL, diag);
    neap_bound_destroy(b);
    neap_problem_clear(&x);
    return status;
}

static void test_bounds(void **state)
{
    (void)state;
    static const neap_link link = {.out_bandwidth = 7, .in_bandwidth = 11};
    random_source random = {20241011};
    for (int i = 0; i < 6; i++) {
        neap_graph *graph = random_training_graph(&random, 4, false);
        int64_t peak, least = neap_graph_floor_bytes(graph, NULL);
        assert_int_equal(neap_natural_peak(NULL, graph, &peak, NULL), NEAP_OK);
        const subject s = {graph, least + (peak - least) * (i % 3) / 4, i % 2 ? &link : NULL};
        print_message("%" PRIu32 " ops: %zu allocations\n", neap_graph_op_count(graph),
                      torture_memory(find_bounds, &s, 20));
        neap_graph_destroy(graph);
    }
}

static void test_whole_steps(void **state)
{
    (void)state;
    static const neap_link link = {.out_bandwidth = 2, .in_bandwidth = 3, .duplex = true};
    random_source random = {20261214};
    for (int i = 0; i < 6; i++) {
        int64_t budgets[4];
        neap_graph *graph =
            random_small_graph(&random, 7, SMALL_TRAINING | SMALL_UPDATES | SMALL_IN_PLACE);
        size_t n = small_graph_budgets(graph, budgets, 4);
        const subject s = {graph, budgets[n / 2], i % 3 ? &link : NULL};
        print_message("%" PRIu32 " ops: %zu allocations\n", neap_graph_op_count(graph),
                      torture_memory(find_bounds, &s, 20));
        neap_graph_destroy(graph);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_whole_steps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
