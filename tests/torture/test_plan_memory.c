/*
 * Judge, timeline and layout when each allocation fails once, in turn: a status, no leak, no
 * change.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "random_plan.h"

#include <neap/check.h>
#include <neap/layout.h>

#include <stdlib.h>

typedef struct failing_allocator {
    neap_allocator base;
    size_t in_use; /* bytes */
    size_t until;  /* allocations that still work; SIZE_MAX: all */
} failing_allocator;

static void *resize(neap_allocator *self, void *block, size_t old_size, size_t new_size)
{
    failing_allocator *a = (failing_allocator *)self;
    if (new_size == 0) {
        a->in_use -= old_size;
        free(block);
        return NULL;
    }
    if (a->until == 0)
        return NULL;
    if (a->until != SIZE_MAX)
        a->until--;
    void *result = realloc(block, new_size);
    assert_non_null(result);
    a->in_use += new_size - old_size;
    return result;
}

static const neap_link both_ways = {.out_bandwidth = 1e6, .in_bandwidth = 1e6};

typedef neap_status call(neap_allocator *allocator, const neap_graph *graph, neap_plan *plan,
                         neap_diag *diag);

static neap_status call_check(neap_allocator *allocator, const neap_graph *graph, neap_plan *plan,
                              neap_diag *diag)
{
    neap_check_options options;
    neap_check_options_init(&options);
    options.link = &both_ways;
    neap_verdict verdict;
    neap_status status = neap_check(allocator, graph, plan, &options, &verdict, diag);
    assert_true(verdict.accepted == (status == NEAP_OK));
    return status;
}

static neap_status call_timeline(neap_allocator *allocator, const neap_graph *graph,
                                 neap_plan *plan, neap_diag *diag)
{
    neap_timeline timeline;
    neap_status status = neap_timeline_build(allocator, graph, plan, &both_ways, &timeline, diag);
    assert_true((timeline.steps != NULL) == (status == NEAP_OK));
    neap_timeline_clear(&timeline);
    return status;
}

static neap_status call_layout(neap_allocator *allocator, const neap_graph *graph, neap_plan *plan,
                               neap_diag *diag)
{
    return neap_layout_assign(allocator, graph, plan, NULL, diag);
}

static void torture(call *f, uint64_t seed)
{
    random_source random = {seed};
    neap_graph *graph = random_graph(&random, 40);
    neap_plan *plan = random_plan(&random, graph, 200, true);
    assert_int_equal(neap_layout_assign(NULL, graph, plan, NULL, NULL), NEAP_OK);
    int64_t arena = neap_plan_arena_bytes(plan);
    neap_status status = NEAP_NO_MEMORY;
    for (size_t working = 0; status != NEAP_OK; working++) {
        failing_allocator a = {{resize}, 0, working};
        neap_diag diag = {0};
        assert_true(working < 1000);
        status = f(&a.base, graph, plan, &diag);
        assert_int_equal(a.in_use, 0);
        assert_int_equal(neap_plan_arena_bytes(plan), arena);
        if (status != NEAP_OK) {
            assert_int_equal(status, NEAP_NO_MEMORY);
            assert_int_equal(diag.status, NEAP_NO_MEMORY);
        }
    }
    neap_plan_destroy(plan);
    neap_graph_destroy(graph);
}

static void test_check(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 10; seed++)
        torture(call_check, seed);
}

static void test_timeline(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 10; seed++)
        torture(call_timeline, seed);
}

static void test_layout(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 10; seed++)
        torture(call_layout, seed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_check),
        cmocka_unit_test(test_timeline),
        cmocka_unit_test(test_layout),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
