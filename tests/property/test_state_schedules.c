/*
 * Random schedules with updates and state that travels (planners/neap/sequence.h, transfers.h):
 * after random changes the bytes equal a recount, undo restores them, and the plan of the schedule
 * is accepted by the judge, who finds the same time and the same peak. Read back, it is the same
 * schedule.
 *
 *     NEAP_TEST_SEED=7 NEAP_TEST_COUNT=1000 test_state_schedules
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "planners/neap/plan_conversion.h"
#include "planners/neap/search.h"
#include "random_small_graph.h"
#include "settings.h"
#include "show_graph.h"

#include <inttypes.h>
#include <neap/check.h>
#include <string.h>

enum { COUNT = 300 / ONE_IN(10), CHANGES = 25, MOST_ITEMS = 400 };

typedef struct setup {
    random_source *random;
    neap_graph *graph;
    neap_request request;
    problem x;
    search s;
} setup;

/* ---- Bytes, counted from the refs alone ---- */

static void recount(const sequence *q, int64_t *bytes, uint32_t n)
{
    const problem *x = q->x;
    uint32_t id = neap_sequence_at(q, 0);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t task = q->items[id].task, place = sequence_place(q, id);
        bytes[i] = task == NEAP_NONE ? 0 : task_in_place_bytes(x, task) * -q->items[id].in_place;
        if (task != NEAP_NONE)
            bytes[i] += x->variants[x->variant_start[task] + q->choice[task]].workspace;
        for (uint32_t t = 0; t < problem_n_all(x); t++) {
            uint32_t at = neap_sequence_find_ref(q, t, place);
            const ref_list *list = &q->refs[t];
            bool touched = at < list->n && list->refs[at].item == id;
            bool end = id == q->end || id == q->start;
            if (touched && end && is_state(x, t))
                touched = !q->on_host[t - x->n_tensors];
            else if (!touched)
                touched = ref_is_held(list, at) && at > 0;
            bytes[i] += touched ? x->bytes[t] : 0;
        }
        if (i + 1 < n)
            id = neap_sequence_next(q, id);
    }
    assert_int_equal(id, q->end);
}

static void check_bytes(const setup *u)
{
    const sequence *q = &u->s.q;
    int64_t counted[MOST_ITEMS], most = 0;
    uint32_t n = q->length + 1 + (q->start != NEAP_NONE), id = neap_sequence_at(q, 0), away = 0;
    assert_true(n <= MOST_ITEMS);
    recount(q, counted, n);
    for (uint32_t i = 0; i < n; i++) {
        NEED(u->graph, sequence_bytes(q, id) == counted[i],
             "item %u of %u: %" PRId64 " bytes, but %" PRId64, i, n, sequence_bytes(q, id),
             counted[i]);
        most = counted[i] > most ? counted[i] : most;
        id = i + 1 < n ? neap_sequence_next(q, id) : id;
    }
    assert_int_equal(neap_sequence_most(q), most);
    for (uint32_t t = 0; t < problem_n_all(q->x); t++) {
        const ref_list *list = &q->refs[t];
        for (uint32_t i = 0; i < list->n; i++)
            away += list->refs[i].away;
        if (sequence_is_on_host(q, t))
            assert_true(list->refs[1].away && list->refs[list->n - 1].away);
    }
    assert_int_equal(away, q->n_away);
}

/* ---- The plan ---- */

/* The schedule of a sequence with its transfers. */
static compute_list list_of(setup *u, uint32_t *tasks)
{
    assert_int_equal(neap_search_evaluate(&u->s, NULL), NEAP_OK);
    compute_list list = u->s.trial.list;
    neap_sequence_list(&u->s.q, tasks, NULL, NULL);
    list.n = u->s.q.length;
    list.tasks = tasks;
    list.choice = u->s.q.choice;
    return list;
}

static void check_same(setup *u, const neap_plan *plan)
{
    compute_list back = {0};
    sequence q;
    int64_t bytes[MOST_ITEMS], again[MOST_ITEMS];
    uint32_t tasks[MOST_ITEMS];
    assert_int_equal(neap_plan_to_schedule(NULL, &u->x, plan, &back, NULL), NEAP_OK);
    assert_int_equal(neap_sequence_init(&q, neap_allocator_system(), &u->x, NULL), NEAP_OK);
    assert_int_equal(neap_sequence_load(&q, &back, NULL), NEAP_OK);
    assert_int_equal(q.length, u->s.q.length);
    for (uint32_t i = 0; i < u->x.n_states; i++)
        assert_int_equal(q.on_host[i], u->s.q.on_host[i]);
    neap_sequence_list(&u->s.q, tasks, bytes, NULL);
    neap_sequence_list(&q, tasks, again, NULL);
    for (uint32_t i = 0; i <= q.length; i++) /* what stays after all is not away any more */
        assert_true(again[i] >= bytes[i]);
    neap_sequence_clear(&q);
    neap_compute_list_clear(neap_allocator_system(), &u->x, &back);
}

static void check_plan(setup *u)
{
    uint32_t tasks[MOST_ITEMS];
    neap_plan *plan;
    neap_check_options options;
    neap_verdict verdict;
    neap_diag diag = {0};
    compute_list list = list_of(u, tasks);
    int64_t level = neap_sequence_most(&u->s.q);
    level = (level > u->s.budget ? level : u->s.budget) + u->x.base_bytes;
    neap_status status = neap_schedule_to_plan(NULL, &u->x, &u->request, &list, &plan, &diag);
    NEED(u->graph, status == NEAP_OK, "%s", diag.message);
    neap_check_options_init(&options);
    options.budget = level;
    options.link = &u->request.link;
    assert_int_equal(neap_check(NULL, u->graph, plan, &options, &verdict, NULL), NEAP_OK);
    NEED(u->graph, verdict.accepted, "within %" PRId64 ": %s", level, verdict.reason);
    NEED(u->graph, verdict.ticks == u->s.trial.ticks, "%" PRId64 " ticks, but %" PRId64,
         u->s.trial.ticks, verdict.ticks);
    check_same(u, plan);
    neap_plan_destroy(plan);
}

/* ---- Changes ---- */

static uint32_t any_item(setup *u)
{
    return neap_search_random_item(&u->s);
}

static void set_away(setup *u)
{
    sequence *q = &u->s.q;
    uint32_t t = random_below(u->random, problem_n_all(&u->x));
    const ref_list *list = &q->refs[t];
    bool on_host = sequence_is_on_host(q, t);
    if (list->n < 2 + 2u * on_host || !tensor_can_offload(&u->x, t))
        return;
    uint32_t at = 1 + on_host + random_below(u->random, list->n - 1 - 2 * on_host);
    if (!list->refs[at].makes)
        neap_sequence_set_away(q, t, list->refs[at].item, !list->refs[at].away);
}

static void set_host(setup *u)
{
    uint32_t state = u->x.n_tensors + random_below(u->random, u->x.n_states);
    if (u->request.state != NEAP_STATE_HOST)
        neap_sequence_set_host(&u->s.q, state, !sequence_is_on_host(&u->s.q, state));
}

static void insert(setup *u)
{
    uint32_t tensor = random_below(u->random, u->x.n_tensors);
    const ref_list *list = &u->s.q.refs[tensor];
    if (list->n < 2 || !tensor_can_recompute(&u->x, tensor) || u->s.q.length > MOST_ITEMS / 2)
        return;
    const ref *use = &list->refs[1 + random_below(u->random, list->n - 1)];
    if (!use->makes)
        neap_search_insert(&u->s, u->x.producer[tensor], use->item);
}

static void move(setup *u)
{
    uint32_t id = any_item(u), before = any_item(u);
    if (neap_search_can_move(&u->s, id, before))
        neap_search_move(&u->s, id, before);
}

static void take_out(setup *u)
{
    uint32_t id = any_item(u);
    if (neap_sequence_can_remove(&u->s.q, id))
        neap_sequence_remove(&u->s.q, id);
}

static void change_one(setup *u)
{
    static void (*const changes[])(setup *) = {set_away, set_host, set_host,
                                               insert,   move,     take_out};
    changes[random_below(u->random, 6)](u);
}

/* ---- The test ---- */

static void change_and_check(setup *u)
{
    sequence *q = &u->s.q;
    int64_t bytes[MOST_ITEMS], again[MOST_ITEMS];
    uint32_t tasks[MOST_ITEMS], n = q->length;
    size_t mark = q->n_changes;
    neap_sequence_list(q, tasks, bytes, NULL);
    for (uint32_t i = random_below(u->random, 4) + 1; i > 0; i--)
        change_one(u);
    check_bytes(u);
    check_plan(u);
    if (random_below(u->random, 2) == 0) {
        neap_sequence_undo(q, mark);
        neap_sequence_list(q, tasks, again, NULL);
        assert_int_equal(q->length, n);
        assert_memory_equal(bytes, again, (n + 1) * sizeof *bytes);
        check_bytes(u);
    } else if (random_below(u->random, 2) == 0) {
        neap_sequence_commit(q);
    }
}

static void check_graph(setup *u, uint64_t i)
{
    static const double bandwidths[] = {1, 3};
    neap_request *r = &u->request;
    neap_request_init(r, u->graph, "neap");
    r->link = (neap_link){.out_bandwidth = bandwidths[random_below(u->random, 2)],
                          .in_bandwidth = bandwidths[random_below(u->random, 2)],
                          .latency = random_below(u->random, 3) == 0 ? 0.25 : 0,
                          .duplex = random_below(u->random, 2) == 0};
    r->state = i % 4 == 3 ? NEAP_STATE_HOST : NEAP_STATE_AUTO;
    assert_int_equal(neap_problem_init(&u->x, NULL, r, NULL), NEAP_OK);
    assert_int_equal(neap_problem_let_state_travel(&u->x, r, NULL), NEAP_OK);
    int64_t budget = neap_graph_base_bytes(u->graph) + random_below(u->random, 12);
    assert_int_equal(
        neap_search_init(&u->s, neap_allocator_system(), &u->x, budget, &r->link, i, NULL),
        NEAP_OK);
    for (uint32_t k = 0; k < CHANGES && u->x.n_states > 0 && u->x.n_tensors > 0; k++)
        change_and_check(u);
    neap_search_clear(&u->s);
    neap_problem_clear(&u->x);
}

static void test_schedules(void **state)
{
    (void)state;
    random_source random = {setting("NEAP_TEST_SEED", 20261130)};
    uint64_t count = setting("NEAP_TEST_COUNT", COUNT);
    setup u = {.random = &random};
    print_message("seed %" PRIu64 ", %" PRIu64 " graphs\n", random.state, count);
    for (uint64_t i = 0; i < count; i++) {
        unsigned flags = SMALL_TRAINING | SMALL_UPDATES | (i % 2 ? SMALL_VARIANTS : 0) |
                         (i % 3 ? SMALL_IN_PLACE : 0);
        u.graph = random_small_graph(&random, 7, flags);
        check_graph(&u, i);
        neap_graph_destroy(u.graph);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_schedules)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
