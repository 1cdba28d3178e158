/*
 * The floors of tiny random graphs with runs in place, updates and state that travels: no plan at
 * all, looked for exhaustively (least_time.h), needs less; and often one needs no more. With
 * aligned addresses, too.
 *
 *     NEAP_TEST_SEED=7 NEAP_TEST_COUNT=3000 test_floors     # another seed, more cases
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "least_time.h"
#include "random_small_graph.h"
#include "settings.h"
#include "show_graph.h"
#include "solve/solution_internal.h"

#include <neap/layout.h>

#include <inttypes.h>

#define SHARE ONE_IN(8)

typedef struct tally {
    uint32_t graphs, unknown, met;
} tally;

static int64_t floor_of(const neap_graph *graph, const neap_link *link, neap_state_place state,
                        int64_t alignment)
{
    neap_request request;
    int64_t bytes;
    uint32_t op;
    neap_request_init(&request, graph, "neap");
    request.link = *link;
    request.state = state;
    request.alignment = alignment;
    assert_int_equal(neap_request_floor(NULL, &request, &bytes, &op, NULL), NEAP_OK);
    return bytes;
}

/* No addresses of the plan take less than the floor that counts their alignment. */
static void check_aligned(const neap_graph *graph, neap_plan *plan, const neap_link *link,
                          neap_state_place state, int64_t alignment)
{
    neap_layout_options options;
    neap_layout_options_init(&options);
    options.alignment = alignment;
    int64_t least = floor_of(graph, link, state, alignment);
    assert_int_equal(neap_layout_assign(NULL, graph, plan, &options, NULL), NEAP_OK);
    NEED(graph, neap_plan_arena_bytes(plan) >= least,
         "an arena of %" PRId64 " with alignment %" PRId64 ", but the floor is %" PRId64,
         neap_plan_arena_bytes(plan), alignment, least);
}

/* No plan below the floor; perhaps one with as much. */
static void check_floor(random_source *random, const neap_graph *graph, neap_link link,
                        neap_state_place state, tally *t)
{
    least_time_options options = {.link = link,
                                  .state_moves = link.in_bandwidth > 0 && state == NEAP_STATE_AUTO,
                                  .want_plan = true,
                                  .mixed_variants = true,
                                  .most_states = 20000};
    int64_t least = floor_of(graph, &link, state, 1);
    assert_int_equal(least, options.state_moves ? neap_graph_travel_floor_bytes(graph, NULL)
                                                : neap_graph_floor_bytes(graph, NULL));
    least_time_answer below = least_time_search(graph, least - 1, &options);
    NEED(graph, !below.found, "a plan below the floor of %" PRId64, least);
    least_time_answer at = least_time_search(graph, least, &options);
    t->graphs++;
    t->unknown += below.gave_up || at.gave_up;
    t->met += at.found;
    if (at.found)
        check_aligned(graph, at.plan, &link, state, 2 + random_below(random, 9));
    neap_plan_destroy(at.plan);
}

static void test_whole_steps(void **state)
{
    (void)state;
    random_source random = {setting("NEAP_TEST_SEED", 20261118)};
    uint64_t count = setting("NEAP_TEST_COUNT", 400 / SHARE);
    const neap_link none = {0}, fast = {.out_bandwidth = 7, .in_bandwidth = 7, .duplex = true};
    tally without = {0}, with = {0}, moving = {0};
    print_message("seed %" PRIu64 ", %" PRIu64 " graphs\n", random.state, count);
    for (uint64_t i = 0; i < count; i++) {
        unsigned updates = random_below(&random, 3) ? SMALL_TRAINING | SMALL_UPDATES : 0;
        unsigned flags = SMALL_IN_PLACE | updates | random_below(&random, 8);
        neap_graph *graph = random_small_graph(&random, 5, flags);
        check_floor(&random, graph, none, NEAP_STATE_AUTO, &without);
        check_floor(&random, graph, fast, NEAP_STATE_DEVICE, &with);
        check_floor(&random, graph, fast, NEAP_STATE_AUTO, &moving);
        neap_graph_destroy(graph);
    }
    const tally *all[] = {&without, &with, &moving};
    for (size_t i = 0; i < 3; i++) {
        print_message("%" PRIu32 " floors, %" PRIu32 " met, %" PRIu32 " unknown\n", all[i]->graphs,
                      all[i]->met, all[i]->unknown);
        assert_true(10 * all[i]->unknown <= all[i]->graphs);
        assert_true(2 * all[i]->met >= all[i]->graphs);
    }
}

/* Removing the marks raises the floor to that of runs out of place. */
static void test_without_marks(void **state)
{
    (void)state;
    random_source random = {setting("NEAP_TEST_SEED", 20261119)};
    uint64_t count = setting("NEAP_TEST_COUNT", 400 / SHARE), higher = 0;
    const neap_link none = {0};
    for (uint64_t i = 0; i < count; i++) {
        neap_graph *graph = random_small_graph(&random, 6, SMALL_IN_PLACE | SMALL_TRAINING);
        int64_t marked = neap_graph_floor_bytes(graph, NULL);
        neap_graph_clear_in_place(graph);
        tally t = {0};
        check_floor(&random, graph, none, NEAP_STATE_AUTO, &t);
        NEED(graph, neap_graph_floor_bytes(graph, NULL) >= marked, "marks raise the floor");
        higher += neap_graph_floor_bytes(graph, NULL) > marked;
        neap_graph_destroy(graph);
    }
    assert_true(10 * higher >= count);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_whole_steps),
        cmocka_unit_test(test_without_marks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
