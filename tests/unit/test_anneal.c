/*
 * Annealing (planners/neap/anneal.h): after every stage of a cycle, the flat sequence has the bytes
 * and ticks of an ordinary one with the same runs; the best schedule fits the budget; the same seed
 * gives the same schedule, for any number of threads; and memory that runs out is reported.
 *
 *     NEAP_TEST_SEED=7 NEAP_TEST_COUNT=1000 test_anneal     # another seed, more cases
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "planners/neap/anneal.h"
#include "random_training.h"
#include "settings.h"
#include "torture.h"

#include <inttypes.h>
#include <stdlib.h>

#include <neap/solve.h>

enum { MOST_RUNS = 2048 };

static bool go_on(void *context)
{
    (void)context;
    return false;
}

/* A graph, what the method sees of it, and a budget that is neither ample nor hopeless. */
typedef struct subject {
    neap_graph *graph;
    neap_request request;
    problem x;
    int64_t budget;
} subject;

static void draw(subject *s, random_source *random, uint32_t most_layers)
{
    int64_t peak, least;
    s->graph = random_below(random, 2) ? random_in_place_graph(random, most_layers)
                                       : random_training_graph(random, most_layers, false);
    neap_request_init(&s->request, s->graph, "neap");
    assert_int_equal(neap_problem_init(&s->x, NULL, &s->request, NULL), NEAP_OK);
    assert_int_equal(neap_natural_peak(NULL, s->graph, &peak, NULL), NEAP_OK);
    least = neap_graph_floor_bytes(s->graph, NULL);
    s->budget = least + (peak - least) * (int64_t)random_below(random, 4) / 4;
}

static void put_away(subject *s)
{
    neap_problem_clear(&s->x);
    neap_graph_destroy(s->graph);
}

/* ---- The flat sequence equals an ordinary one ---- */

static void compare(const anneal *a)
{
    const flat_sequence *flat = &a->q;
    static uint32_t tasks[MOST_RUNS], listed[MOST_RUNS];
    static int64_t bytes[MOST_RUNS + 1];
    assert_true(flat->length <= MOST_RUNS);
    for (uint32_t i = 0; i < flat->length; i++)
        tasks[i] = flat->task[flat->items[i]];
    sequence q;
    assert_int_equal(neap_sequence_init(&q, NULL, flat->x, NULL), NEAP_OK);
    compute_list list = {.n = flat->length, .tasks = tasks, .choice = flat->choice};
    assert_int_equal(neap_sequence_load(&q, &list, NULL), NEAP_OK);
    neap_sequence_list(&q, listed, bytes, NULL);
    int64_t over = 0;
    for (uint32_t i = 0; i <= flat->length; i++) {
        assert_int_equal(flat->bytes[i], bytes[i]);
        over += bytes[i] > flat->budget ? bytes[i] - flat->budget : 0;
    }
    assert_int_equal(flat->over, over);
    assert_int_equal(flat->ticks, q.ticks);
    neap_sequence_clear(&q);
}

static void check_best(const anneal *a, const subject *s)
{
    if (!a->best.found || a->best.peak > s->budget)
        return;
    sequence q;
    assert_int_equal(neap_sequence_init(&q, NULL, &s->x, NULL), NEAP_OK);
    assert_int_equal(neap_sequence_load(&q, &a->best.list, NULL), NEAP_OK);
    assert_int_equal(neap_sequence_most(&q) + s->x.base_bytes, a->best.peak);
    assert_int_equal(q.ticks, a->best.ticks);
    neap_sequence_clear(&q);
}

static void test_sequence(void **state)
{
    (void)state;
    random_source random = {setting("NEAP_TEST_SEED", 20261116)};
    uint64_t n = setting("NEAP_TEST_COUNT", 60 / ONE_IN(3)), fitting = 0;
    for (uint64_t i = 0; i < n; i++) {
        subject s;
        anneal a;
        draw(&s, &random, 60);
        assert_int_equal(neap_anneal_init(&a, NULL, &s.x, s.budget, i, NULL), NEAP_OK);
        anneal_cycle cycle = {.heat = 1, .stop = go_on};
        for (int k = 0; k < 3; k++) {
            cycle.steps = (uint64_t)256 << (3 * k);
            assert_int_equal(neap_anneal_run(&a, &cycle, NULL), NEAP_OK);
            compare(&a);
            check_best(&a, &s);
            cycle.heat = 0.2;
            cycle.from = k == 0 ? &a.best.list : NULL;
        }
        fitting += a.best.found && a.best.peak <= s.budget;
        neap_anneal_clear(&a);
        put_away(&s);
    }
    assert_true(fitting > n / 4);
}

/* ---- Several cycles ---- */

static void test_threads(void **state)
{
    (void)state;
    random_source random = {20261117};
    for (int i = 0; i < 4; i++) {
        subject s;
        draw(&s, &random, 60);
        search_plan plans[2] = {{0}, {0}};
        anneal_team team = {.x = &s.x, .budget = s.budget, .seed = 3, .cycles = 3};
        team.cycle = (anneal_cycle){.heat = 1, .steps = 4000, .stop = go_on};
        for (unsigned k = 0; k < 2; k++) {
            team.threads = 1 + 2 * k;
            assert_int_equal(neap_anneal_best_of(&team, &plans[k], NULL), NEAP_OK);
        }
        assert_int_equal(plans[0].ticks, plans[1].ticks);
        assert_int_equal(plans[0].list.n, plans[1].list.n);
        assert_memory_equal(plans[0].list.tasks, plans[1].list.tasks,
                            plans[0].list.n * sizeof *plans[0].list.tasks);
        for (unsigned k = 0; k < 2; k++)
            neap_compute_list_clear(NULL, &s.x, &plans[k].list);
        put_away(&s);
    }
}

static neap_status anneal_once(const void *given, neap_allocator *allocator, neap_diag *diag)
{
    const subject *s = given;
    search_plan best = {0};
    anneal_team team = {.allocator = allocator,
                        .x = &s->x,
                        .budget = s->budget,
                        .cycles = 2,
                        .threads = 1,
                        .cycle = {.heat = 1, .steps = 512, .stop = go_on}};
    neap_status status = neap_anneal_best_of(&team, &best, diag);
    neap_compute_list_clear(allocator, &s->x, &best.list);
    return status;
}

static void test_no_memory(void **state)
{
    (void)state;
    random_source random = {20261118};
    subject s;
    draw(&s, &random, 20);
    print_message("%zu allocations\n", torture_memory(anneal_once, &s, 10));
    put_away(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sequence),
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
