/*
 * Bounds when every allocation fails once, in turn, and then every one from it on: NEAP_NO_MEMORY
 * and no leak, in single cuts as in programs.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "failing_allocator.h"
#include "planners/neap/bound.h"
#include "random_training.h"

#include <inttypes.h>
#include <string.h>

typedef struct subject {
    const neap_graph *graph;
    int64_t budget;
    const neap_link *link;
} subject;

static neap_status find_bounds(const subject *s, neap_allocator *allocator, neap_diag *diag)
{
    neap_request request;
    problem x;
    bound *b = NULL;
    neap_request_init(&request, s->graph, "pareto");
    neap_status status = problem_init(&x, allocator, &request, diag);
    if (status == NEAP_OK) {
        b = (bound *)&x;
        status = bound_create(allocator, &x, s->budget, s->link, &b, diag);
        assert_true((b != NULL) == (status == NEAP_OK));
    }
    while (status == NEAP_OK && !bound_state(b)->done)
        status = bound_improve(b, NULL, NULL, diag);
    bound_destroy(b);
    problem_clear(&x);
    return status;
}

/* Returns whether an allocation failed on the way. */
static bool run_once(const subject *s, size_t from, size_t end)
{
    failing_allocator memory;
    neap_diag diag = {0};
    failing_allocator_init(&memory);
    memory.fail_from = from;
    memory.fail_end = end;
    neap_status status = find_bounds(s, &memory.base, &diag);
    if (memory.fault)
        fail_msg("allocation %zu: %s", from, memory.fault);
    if (memory.live_blocks || memory.live_bytes)
        fail_msg("allocation %zu: %zu blocks leaked, %zu bytes", from, memory.live_blocks,
                 memory.live_bytes);
    if (status != (memory.failed ? NEAP_NO_MEMORY : NEAP_OK))
        fail_msg("allocation %zu: %s, \"%s\"", from, neap_status_name(status), diag.message);
    if (memory.failed && !strstr(diag.message, "out of memory"))
        fail_msg("allocation %zu: says \"%s\"", from, diag.message);
    return memory.failed;
}

static void torture(const subject *s)
{
    size_t from = 0;
    while (run_once(s, from, from + 1))
        from++;
    assert_true(from > 0);
    print_message("%" PRIu32 " ops: %zu allocations\n", neap_graph_op_count(s->graph), from);
    for (from = 0; run_once(s, from, SIZE_MAX); from += 1 + from / 20)
        ;
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
        torture(&s);
        neap_graph_destroy(graph);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
