/*
 * neap_schedule_to_plan on random lists: the judge accepts the plan, its peak and time equal a
 * plain recount of the list, and neap_plan_to_schedule recovers the list. neap_transfers_schedule
 * predicts what the judge computes, and the plan stays within the memory it was given.
 *
 *     NEAP_TEST_SEED=7 NEAP_TEST_COUNT=10000 test_emit     # another seed, more cases
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/memory.h"
#include "plan/in_place.h"
#include "planners/neap/plan_conversion.h"
#include "random_training.h"
#include "settings.h"

#include <neap/check.h>

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_ENTRIES = 400, MOST_TENSORS = 200, MOST_TRANSFERS = 64 };

/* A list and its transfers, and who is where. */
typedef struct sample {
    neap_graph *graph;
    neap_request request;
    problem x;
    uint32_t tasks[MOST_ENTRIES], choice[MOST_ENTRIES];
    compute_list list;
    transfer transfers[MOST_TRANSFERS];
    uint32_t n_transfers;
    bool live[MOST_TENSORS][MOST_ENTRIES + 1]; /* by tensor, at each position and the end */
} sample;

static bool touches(const sample *s, uint32_t position, uint32_t tensor)
{
    const problem *x = &s->x;
    if (position == s->list.n)
        return x->is_output[tensor];
    uint32_t k = s->list.tasks[position];
    if (x->producer[tensor] == k)
        return true;
    for (uint32_t i = x->reads.start[k]; i < x->reads.start[k + 1]; i++)
        if (x->reads.items[i] == tensor)
            return true;
    return false;
}

static bool makes(const sample *s, uint32_t position, uint32_t tensor)
{
    return position < s->list.n && s->x.producer[tensor] == s->list.tasks[position];
}

/* The next position that touches the tensor, unless it makes it anew; NEAP_NONE: none. */
static uint32_t next_touch(const sample *s, uint32_t position, uint32_t tensor)
{
    for (uint32_t p = position + 1; p <= s->list.n; p++) {
        if (makes(s, p, tensor))
            return NEAP_NONE;
        if (touches(s, p, tensor))
            return p;
    }
    return NEAP_NONE;
}

/* ---- Drawing ---- */

static bool can_run_again(const problem *x, uint32_t task)
{
    for (uint32_t i = x->makes.start[task]; i < x->makes.start[task + 1]; i++)
        if (!tensor_can_recompute(x, x->makes.items[i]))
            return false;
    return true;
}

/* Every task after those it reads from, in any such order; some run again, at any time later. */
static void draw_list(sample *s, random_source *random)
{
    const problem *x = &s->x;
    bool *done = calloc(x->n_tasks + 1, sizeof *done);
    uint32_t n_done = 0, n = 0, again = random_below(random, 60), jump = random_below(random, 80);
    assert_non_null(done);
    while (n_done < x->n_tasks) {
        uint32_t k = random_below(random, x->n_tasks);
        if (random_below(random, 100) >= jump)
            for (k = 0; done[k];)
                k++;
        bool ready = n < MOST_ENTRIES - x->n_tasks || !done[k];
        if (done[k])
            ready = ready && random_below(random, 100) < again && can_run_again(x, k);
        for (uint32_t i = x->reads.start[k]; i < x->reads.start[k + 1]; i++)
            ready = ready && done[x->producer[x->reads.items[i]]];
        if (!ready)
            continue;
        n_done += !done[k];
        done[k] = true;
        s->tasks[n++] = k;
    }
    free(done);
    for (uint32_t k = 0; k < x->n_tasks; k++)
        s->choice[k] = random_below(random, x->variant_start[k + 1] - x->variant_start[k]);
    s->list = (compute_list){.n = n, .tasks = s->tasks, .choice = s->choice};
}

static void note_stays(sample *s)
{
    memset(s->live, 0, sizeof s->live);
    for (uint32_t t = 0; t < s->x.n_tensors; t++)
        for (uint32_t p = 0; p < s->list.n; p++)
            if (touches(s, p, t)) {
                uint32_t next = next_touch(s, p, t);
                for (uint32_t q = p; q <= (next == NEAP_NONE ? p : next); q++)
                    s->live[t][q] = true;
            }
}

static int by_after(const void *left, const void *right)
{
    const transfer *a = left, *b = right;
    return (a->after > b->after) - (a->after < b->after);
}

/* Anywhere a tensor waits for its next touch; tensors that wait for nothing in between too. */
static void draw_transfers(sample *s, random_source *random)
{
    uint32_t share = random_below(random, 100);
    s->n_transfers = 0;
    for (uint32_t t = 0; t < s->x.n_tensors; t++) {
        uint32_t last = 0; /* the first touch since it was made or fetched */
        for (uint32_t p = 0; p < s->list.n && s->n_transfers < MOST_TRANSFERS; p++) {
            uint32_t next = touches(s, p, t) ? next_touch(s, p, t) : NEAP_NONE;
            if (makes(s, p, t))
                last = p;
            if (next == NEAP_NONE || !tensor_can_offload(&s->x, t) ||
                random_below(random, 100) >= share)
                continue;
            bool over = p < s->list.n && s->x.in_place[s->list.tasks[p]] == t && last < p &&
                        random_below(random, 2);
            uint32_t copied = random_below(random, 2) ? p : last;
            uint32_t freed = p + 1 + random_below(random, next - p);
            if (over) {
                copied = last + random_below(random, p - last);
                freed = p + 1;
            }
            uint32_t fetched = freed + random_below(random, next - freed + 1);
            s->transfers[s->n_transfers++] =
                (transfer){.tensor = t,
                           .after = p,
                           .before = next,
                           .copies_out = random_below(random, 2),
                           .over = over,
                           .stays = !over && random_below(random, 5) == 0,
                           .copied = copied,
                           .freed = freed,
                           .fetched = fetched};
            last = next;
        }
    }
    qsort(s->transfers, s->n_transfers, sizeof *s->transfers, by_after);
}

static neap_graph *draw_graph(random_source *random, uint64_t kind, uint32_t most_ops,
                              uint32_t most_layers)
{
    return kind % 3 == 0   ? random_graph(random, most_ops)
           : kind % 3 == 1 ? random_training_graph(random, most_layers, false)
                           : random_in_place_graph(random, most_layers);
}

/* False: too large. */
static bool draw_sample(sample *s, random_source *random)
{
    memset(s, 0, sizeof *s);
    s->graph = draw_graph(random, random_below(random, 3), 40, 20);
    neap_request_init(&s->request, s->graph, "neap");
    assert_int_equal(neap_problem_init(&s->x, NULL, &s->request, NULL), NEAP_OK);
    if (s->x.n_tensors > MOST_TENSORS || s->x.n_tasks > MOST_ENTRIES / 2)
        return false;
    draw_list(s, random);
    note_stays(s);
    return true;
}

static void clear_sample(sample *s)
{
    neap_problem_clear(&s->x);
    neap_graph_destroy(s->graph);
}

/* ---- The plain recount ---- */

static void send_away(sample *s)
{
    for (uint32_t i = 0; i < s->n_transfers; i++) {
        const transfer *t = &s->transfers[i];
        for (uint32_t p = t->freed; p < t->fetched && !t->stays; p++)
            s->live[t->tensor][p] = false;
    }
}

static const task_variant *variant_at(const sample *s, uint32_t position)
{
    uint32_t k = s->list.tasks[position];
    return &s->x.variants[s->x.variant_start[k] + s->choice[k]];
}

/* Bytes that the run at a position takes less because it is in place. */
static int64_t saved_at(const sample *s, uint32_t position)
{
    uint32_t task = position < s->list.n ? s->list.tasks[position] : NEAP_NONE;
    if (task == NEAP_NONE || s->x.in_place[task] == NEAP_NONE)
        return 0;
    bool in_place = next_touch(s, position, s->x.in_place[task]) == NEAP_NONE;
    for (uint32_t i = 0; i < s->n_transfers; i++)
        in_place = in_place || (s->transfers[i].over && s->transfers[i].after == position);
    return in_place ? s->x.bytes[s->x.in_place[task]] : 0;
}

static int64_t bytes_at(const sample *s, uint32_t position)
{
    int64_t bytes = s->x.base_bytes - saved_at(s, position);
    for (uint32_t t = 0; t < s->x.n_tensors; t++)
        bytes += s->live[t][position] ? s->x.bytes[t] : 0;
    return position < s->list.n ? bytes + variant_at(s, position)->workspace : bytes;
}

static int64_t peak_of(const sample *s)
{
    int64_t peak = s->x.base_bytes;
    for (uint32_t p = 0; p <= s->list.n; p++)
        peak = bytes_at(s, p) > peak ? bytes_at(s, p) : peak;
    return peak;
}

static int64_t work_of(const sample *s)
{
    int64_t ticks = 0;
    for (uint32_t p = 0; p < s->list.n; p++)
        ticks += variant_at(s, p)->ticks;
    return ticks;
}

/* The list with its transfers. */
static compute_list whole_list(sample *s)
{
    compute_list list = s->list;
    list.n_transfers = s->n_transfers;
    list.transfers = s->transfers;
    return list;
}

static neap_plan *emit(sample *s)
{
    neap_diag diag = {0};
    neap_plan *plan;
    compute_list list = whole_list(s);
    if (neap_schedule_to_plan(NULL, &s->x, &s->request, &list, &plan, &diag) != NEAP_OK)
        fail_msg("%s", diag.message);
    return plan;
}

static neap_verdict judge(const sample *s, const neap_plan *plan, const neap_link *link)
{
    neap_check_options options;
    neap_verdict verdict;
    neap_check_options_init(&options);
    options.link = link;
    assert_int_equal(neap_check(NULL, s->graph, plan, &options, &verdict, NULL), NEAP_OK);
    if (!verdict.accepted)
        fail_msg("%s", verdict.reason);
    return verdict;
}

/* ---- Reading back ---- */

static int by_after_and_tensor(const void *left, const void *right)
{
    const transfer *a = left, *b = right;
    if (a->after != b->after)
        return a->after < b->after ? -1 : 1;
    return (a->tensor > b->tensor) - (a->tensor < b->tensor);
}

/* The transfers that move something, as they do. */
static uint32_t real_transfers(const sample *s, transfer *real)
{
    bool on_host[MOST_TENSORS] = {false};
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->n_transfers; i++) {
        if (s->transfers[i].stays)
            continue;
        real[n] = s->transfers[i];
        real[n].copies_out |= !on_host[real[n].tensor];
        on_host[real[n++].tensor] = true;
    }
    return n;
}

static void check_reading(const sample *s, const neap_plan *plan)
{
    compute_list list = {0};
    transfer real[MOST_TRANSFERS];
    assert_int_equal(neap_plan_to_schedule(NULL, &s->x, plan, &list, NULL), NEAP_OK);
    assert_int_equal(list.n, s->list.n);
    for (uint32_t p = 0; p < list.n; p++) {
        assert_int_equal(list.tasks[p], s->tasks[p]);
        assert_int_equal(list.choice[list.tasks[p]], s->choice[list.tasks[p]]);
    }
    uint32_t n_transfers = list.n_transfers;
    transfer *transfers = list.transfers;
    assert_int_equal(n_transfers, real_transfers(s, real));
    for (uint32_t i = 1; i < n_transfers; i++)
        assert_true(transfers[i - 1].after <= transfers[i].after);
    qsort(real, n_transfers, sizeof *real, by_after_and_tensor);
    if (n_transfers)
        qsort(transfers, n_transfers, sizeof *transfers, by_after_and_tensor);
    for (uint32_t i = 0; i < n_transfers; i++) {
        assert_int_equal(transfers[i].tensor, real[i].tensor);
        assert_int_equal(transfers[i].after, real[i].after);
        assert_int_equal(transfers[i].before, real[i].before);
        assert_int_equal(transfers[i].copies_out, real[i].copies_out);
        assert_int_equal(transfers[i].over, real[i].over);
        assert_false(transfers[i].stays);
        if (real[i].copies_out)
            assert_int_equal(transfers[i].copied, real[i].copied);
        assert_int_equal(transfers[i].freed, real[i].freed);
        assert_int_equal(transfers[i].fetched, real[i].fetched);
    }
    neap_compute_list_clear(NULL, &s->x, &list);
}

/* ---- Tests ---- */

static void test_lists(void **state)
{
    (void)state;
    random_source random = {setting("NEAP_TEST_SEED", 20250101)};
    uint64_t count = setting("NEAP_TEST_COUNT", 500);
    print_message("seed %" PRIu64 ", %" PRIu64 " graphs\n", random.state, count);
    sample *s = malloc(sizeof *s);
    assert_non_null(s);
    for (uint64_t i = 0; i < count; i++) {
        if (draw_sample(s, &random)) {
            neap_plan *plan = emit(s);
            neap_verdict verdict = judge(s, plan, NULL);
            assert_int_equal(verdict.peak_bytes, peak_of(s));
            assert_int_equal(verdict.ticks, work_of(s));
            check_reading(s, plan);
            neap_plan_destroy(plan);
        }
        clear_sample(s);
    }
    free(s);
}

static void test_transfers(void **state)
{
    (void)state;
    random_source random = {setting("NEAP_TEST_SEED", 20250102)};
    uint64_t count = setting("NEAP_TEST_COUNT", 500);
    const neap_link link = {.out_bandwidth = 20, .in_bandwidth = 30, .latency = 0.25};
    print_message("seed %" PRIu64 ", %" PRIu64 " graphs\n", random.state, count);
    sample *s = malloc(sizeof *s);
    assert_non_null(s);
    for (uint64_t i = 0; i < count; i++) {
        if (draw_sample(s, &random)) {
            draw_transfers(s, &random);
            send_away(s);
            neap_plan *plan = emit(s);
            neap_verdict verdict = judge(s, plan, &link);
            assert_int_equal(verdict.peak_bytes, peak_of(s));
            assert_int_equal(verdict.compute_ticks, work_of(s));
            check_reading(s, plan);
            neap_plan_destroy(plan);
        }
        clear_sample(s);
    }
    free(s);
}

/* Room as neap_transfers_schedule wants it, under a budget that is at times more than it takes. */
static int64_t draw_room(sample *s, random_source *random, int64_t *room)
{
    for (uint32_t i = 0; i < s->n_transfers; i++) {
        s->transfers[i].stays = false;
        s->transfers[i].copied = s->transfers[i].after;
        s->transfers[i].freed = s->transfers[i].after + 1;
        s->transfers[i].fetched = s->transfers[i].before;
    }
    send_away(s);
    int64_t budget = peak_of(s) + random_below(random, 3) * random_below(random, 100);
    for (uint32_t p = 0; p < s->list.n; p++)
        room[p] = budget - bytes_at(s, p);
    return budget;
}

static neap_link draw_link(random_source *random)
{
    static const double speeds[] = {5, 20, 50, 1000};
    return (neap_link){.out_bandwidth = speeds[random_below(random, 4)],
                       .in_bandwidth = speeds[random_below(random, 4)],
                       .latency = random_below(random, 2) * 0.25,
                       .duplex = random_below(random, 2),
                       .host_memory = random_below(random, 4) ? 0 : random_below(random, 500)};
}

/* What is read of a plan makes the same plan again, the order of its copies and frees included. */
static void check_again(sample *s, const neap_plan *plan)
{
    compute_list again = {0};
    size_t n = neap_plan_step_count(plan);
    neap_plan *other;
    assert_int_equal(neap_plan_to_schedule(NULL, &s->x, plan, &again, NULL), NEAP_OK);
    assert_int_equal(neap_schedule_to_plan(NULL, &s->x, &s->request, &again, &other, NULL),
                     NEAP_OK);
    assert_int_equal(neap_plan_step_count(other), n);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(neap_plan_steps(other)[i].kind, neap_plan_steps(plan)[i].kind);
        assert_int_equal(neap_plan_steps(other)[i].id, neap_plan_steps(plan)[i].id);
        assert_int_equal(neap_plan_steps(other)[i].in_place, neap_plan_steps(plan)[i].in_place);
    }
    neap_compute_list_clear(NULL, &s->x, &again);
    neap_plan_destroy(other);
}

static void check_schedule(sample *s, random_source *random, const neap_link *given)
{
    transfer_scratch *scratch;
    neap_link link = *given;
    int64_t room[MOST_ENTRIES], budget = draw_room(s, random, room), ticks;
    assert_int_equal(neap_transfer_scratch_create(NULL, &s->x, &link, &scratch, NULL), NEAP_OK);
    compute_list list = whole_list(s);
    uint64_t noise = random_below(random, 2) ? random_below(random, 1000) : 0;
    assert_int_equal(neap_transfers_schedule(scratch, &list, room, noise, &ticks, NULL), NEAP_OK);
    neap_transfer_scratch_destroy(scratch);
    link.host_memory = 0;
    neap_plan *plan = emit(s);
    neap_verdict verdict = judge(s, plan, &link);
    assert_true(verdict.peak_bytes <= budget);
    if (given->host_memory > 0 && verdict.host_bytes > given->host_memory)
        assert_int_equal(ticks, INT64_MAX);
    else
        assert_int_equal(ticks, verdict.ticks);
    check_again(s, plan);
    neap_plan_destroy(plan);
}

static void test_schedules(void **state)
{
    (void)state;
    random_source random = {setting("NEAP_TEST_SEED", 20250104)};
    uint64_t count = setting("NEAP_TEST_COUNT", 500);
    print_message("seed %" PRIu64 ", %" PRIu64 " graphs\n", random.state, count);
    sample *s = malloc(sizeof *s);
    assert_non_null(s);
    for (uint64_t i = 0; i < count; i++) {
        if (draw_sample(s, &random)) {
            neap_link link = draw_link(&random);
            draw_transfers(s, &random);
            check_schedule(s, &random, &link);
        }
        clear_sample(s);
    }
    free(s);
}

/* Plans that others made: what is read of them is a legal list again. */
static void test_foreign_plans(void **state)
{
    (void)state;
    random_source random = {setting("NEAP_TEST_SEED", 20250103)};
    uint64_t count = setting("NEAP_TEST_COUNT", 500);
    const neap_link link = {.out_bandwidth = 20, .in_bandwidth = 30, .duplex = true};
    print_message("seed %" PRIu64 ", %" PRIu64 " plans\n", random.state, count);
    for (uint64_t i = 0; i < count; i++) {
        neap_graph *graph = draw_graph(&random, i, 12, 6);
        neap_plan *foreign = random_plan(&random, graph, 60, i % 4 < 2), *plan;
        sample s = {.graph = graph};
        compute_list list = {0};
        neap_diag diag = {0};
        neap_request_init(&s.request, graph, "neap");
        size_t in_place;
        if (i % 2)
            assert_int_equal(neap_plan_run_in_place(NULL, graph, foreign, &in_place, NULL),
                             NEAP_OK);
        assert_int_equal(neap_problem_init(&s.x, NULL, &s.request, NULL), NEAP_OK);
        assert_int_equal(neap_plan_to_schedule(NULL, &s.x, foreign, &list, NULL), NEAP_OK);
        if (neap_schedule_to_plan(NULL, &s.x, &s.request, &list, &plan, &diag) != NEAP_OK)
            fail_msg("plan %" PRIu64 ": %s", i, diag.message);
        judge(&s, plan, &link);
        neap_compute_list_clear(NULL, &s.x, &list);
        neap_plan_destroy(plan);
        neap_plan_destroy(foreign);
        clear_sample(&s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lists),
        cmocka_unit_test(test_transfers),
        cmocka_unit_test(test_schedules),
        cmocka_unit_test(test_foreign_plans),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
