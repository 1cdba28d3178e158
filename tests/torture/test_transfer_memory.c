/*
 * Lists, transfers and plans (planners/neap) when each allocation fails once, in turn, and then
 * that one and all later ones fail: NEAP_NO_MEMORY and no leak.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/memory.h"
#include "failing_allocator.h"
#include "planners/neap/plan_conversion.h"
#include "random_training.h"
#include "torture.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static neap_status schedule_and_emit(neap_allocator *allocator, const problem *x,
                                     const neap_request *request, const compute_list *list,
                                     neap_diag *diag)
{
    int64_t *room = calloc((size_t)list->n + 1, sizeof *room), ticks;
    transfer_scratch *scratch = (transfer_scratch *)room;
    neap_plan *plan = (neap_plan *)room;
    assert_non_null(room);
    neap_status status = neap_transfer_scratch_create(allocator, x, &request->link, &scratch, diag);
    if (status == NEAP_OK)
        status = neap_transfers_schedule(scratch, list, room, 1, &ticks, diag);
    if (status == NEAP_OK) { /* the second time nothing is allocated */
        size_t before = ((failing_allocator *)allocator)->calls;
        assert_int_equal(neap_transfers_schedule(scratch, list, room, 1, &ticks, diag), NEAP_OK);
        assert_int_equal(((failing_allocator *)allocator)->calls, before);
    }
    neap_transfer_scratch_destroy(scratch);
    if (status == NEAP_OK) {
        status = neap_schedule_to_plan(allocator, x, request, list, &plan, diag);
        assert_true((plan != NULL) == (status == NEAP_OK));
        neap_plan_destroy(plan);
    }
    free(room);
    return status;
}

static neap_status run_all(const void *subject, neap_allocator *allocator, neap_diag *diag)
{
    const neap_request *request = subject;
    problem x;
    compute_list list = {0};
    neap_status status = neap_problem_init(&x, allocator, request, diag);
    if (status == NEAP_OK)
        status = neap_plan_to_schedule(allocator, &x, request->start, &list, diag);
    if (status == NEAP_OK)
        status = schedule_and_emit(allocator, &x, request, &list, diag);
    neap_compute_list_clear(allocator, &x, &list);
    neap_problem_clear(&x);
    return status;
}

static void test_all(void **state)
{
    (void)state;
    random_source random = {20250105};
    for (int i = 0; i < 20; i++) {
        neap_graph *graph = random_training_graph(&random, 12, false);
        neap_plan *plan = random_plan(&random, graph, 80, true);
        neap_request request;
        neap_request_init(&request, graph, "neap");
        request.start = plan;
        request.link = (neap_link){.out_bandwidth = 10, .in_bandwidth = 10, .duplex = i % 2};
        print_message("%" PRIu32 " ops: %zu allocations\n", neap_graph_op_count(graph),
                      torture_memory(run_all, &request, SIZE_MAX));
        neap_plan_destroy(plan);
        neap_graph_destroy(graph);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
