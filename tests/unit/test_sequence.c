/*
 * The editable schedule (planners/neap/sequence.h) compared with a plain list: after every random
 * insertion, removal, change of variant, absence, undo and commit, its order, bytes and ticks equal
 * a recount of the list. When memory runs out, undo restores the previous state.
 *
 *     NEAP_TEST_SEED=7 NEAP_TEST_COUNT=1000 test_sequence     # another seed, more cases
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "failing_allocator.h"
#include "planners/neap/sequence.h"
#include "random_training.h"
#include "settings.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define SHARE ONE_IN(4)

enum { MOST_ENTRIES = 700, MOST_TASKS = 200, MOST_AWAY = 100, MOST_MARKS = 8 };

/* ---- The plain list ---- */

typedef struct entry {
    uint32_t id, task; /* NEAP_NONE: the end */
} entry;

typedef struct absence {
    uint32_t tensor, id; /* away in the gap before this item */
    bool over;           /* the touch before writes over it */
} absence;

typedef struct plain {
    uint32_t n; /* entries before the end */
    entry entries[MOST_ENTRIES + 1];
    uint32_t choice[MOST_TASKS];
    uint32_t n_away;
    absence away[MOST_AWAY];
} plain;

typedef enum touch { NO_TOUCH, USE, MAKE } touch;

static bool lists_tensor(const id_lists *lists, uint32_t task, uint32_t tensor)
{
    for (uint32_t i = lists->start[task]; i < lists->start[task + 1]; i++)
        if (lists->items[i] == tensor)
            return true;
    return false;
}

static touch touch_at(const problem *x, const plain *p, uint32_t place, uint32_t tensor)
{
    uint32_t task = p->entries[place].task;
    if (task == NEAP_NONE)
        return x->is_output[tensor] ? USE : NO_TOUCH;
    if (x->producer[tensor] == task)
        return MAKE;
    return lists_tensor(&x->reads, task, tensor) ? USE : NO_TOUCH;
}

/* The next place that touches a tensor, past the end if none; the one before, NEAP_NONE if none. */
static uint32_t next_touch(const problem *x, const plain *p, uint32_t place, uint32_t tensor)
{
    for (place++; place <= p->n && touch_at(x, p, place, tensor) == NO_TOUCH;)
        place++;
    return place;
}

static uint32_t last_touch(const problem *x, const plain *p, uint32_t place, uint32_t tensor)
{
    while (place-- > 0)
        if (touch_at(x, p, place, tensor) != NO_TOUCH)
            return place;
    return NEAP_NONE;
}

static uint32_t find_absence(const plain *p, uint32_t tensor, uint32_t id)
{
    for (uint32_t i = 0; i < p->n_away; i++)
        if (p->away[i].tensor == tensor && p->away[i].id == id)
            return i;
    return NEAP_NONE;
}

static bool is_over(const plain *p, uint32_t tensor, uint32_t id)
{
    uint32_t i = find_absence(p, tensor, id);
    return i != NEAP_NONE && p->away[i].over;
}

/* What a task reads is not written over before its next touch behind a place. */
static void end_over(const problem *x, plain *p, uint32_t task, uint32_t place)
{
    for (uint32_t i = x->reads.start[task]; i < x->reads.start[task + 1]; i++) {
        uint32_t tensor = x->reads.items[i], next = place;
        while (next <= p->n && touch_at(x, p, next, tensor) == NO_TOUCH)
            next++;
        uint32_t k = next <= p->n ? find_absence(p, tensor, p->entries[next].id) : NEAP_NONE;
        if (k != NEAP_NONE)
            p->away[k].over = false;
    }
}

static void end_absence(plain *p, uint32_t tensor, uint32_t id)
{
    uint32_t i = find_absence(p, tensor, id);
    if (i != NEAP_NONE)
        p->away[i] = p->away[--p->n_away];
}

static const task_variant *variant_of(const problem *x, const plain *p, uint32_t task)
{
    return &x->variants[x->variant_start[task] + p->choice[task]];
}

/* Adds a tensor's bytes wherever it is: where it is touched, unless it is written over there and
   not used again, and in gaps before uses. */
static void count_tensor(const problem *x, const plain *p, uint32_t tensor, int64_t *bytes)
{
    bool waited_for = false; /* the touch behind is a use, and the tensor is not away */
    bool used = false;       /* the touch behind is a use */
    for (uint32_t place = p->n + 1; place-- > 0;) {
        touch t = touch_at(x, p, place, tensor);
        uint32_t task = p->entries[place].task;
        bool in_place = task != NEAP_NONE && x->in_place[task] == tensor && !used;
        if ((t != NO_TOUCH || waited_for) && !in_place)
            bytes[place] += x->bytes[tensor];
        if (t != NO_TOUCH)
            used = t == USE && !is_over(p, tensor, p->entries[place].id);
        if (t != NO_TOUCH)
            waited_for = t == USE && find_absence(p, tensor, p->entries[place].id) == NEAP_NONE;
    }
}

static void recount(const problem *x, const plain *p, int64_t *bytes, int64_t *ticks)
{
    *ticks = 0;
    memset(bytes, 0, (p->n + 1) * sizeof *bytes);
    for (uint32_t t = 0; t < x->n_tensors; t++)
        count_tensor(x, p, t, bytes);
    for (uint32_t i = 0; i < p->n; i++) {
        bytes[i] += variant_of(x, p, p->entries[i].task)->workspace;
        *ticks += variant_of(x, p, p->entries[i].task)->ticks;
    }
}

/* ---- A sequence and its list ---- */

typedef struct mark {
    size_t n_changes;
    plain list;
} mark;

typedef struct pair {
    random_source *random;
    problem x;
    sequence q;
    plain list;
    uint32_t n_marks;
    mark marks[MOST_MARKS]; /* the first: what was committed */
} pair;

static void check_refs(const pair *s)
{
    const sequence *q = &s->q;
    for (uint32_t t = 0; t < s->x.n_tensors; t++) {
        uint32_t k = 0;
        for (uint32_t place = 0; place <= s->list.n; place++) {
            touch kind = touch_at(&s->x, &s->list, place, t);
            if (kind == NO_TOUCH)
                continue;
            assert_true(k < q->refs[t].n);
            const ref *r = &q->refs[t].refs[k];
            uint32_t id = s->list.entries[place].id;
            assert_int_equal(r->item, id);
            assert_int_equal(r->makes, kind == MAKE);
            assert_int_equal(r->away, find_absence(&s->list, t, id) != NEAP_NONE);
            assert_int_equal(r->over, is_over(&s->list, t, id));
            assert_int_equal(neap_sequence_find_ref(q, t, sequence_place(q, id)), k);
            k++;
        }
        assert_int_equal(q->refs[t].n, k);
    }
}

static void check_order(const pair *s)
{
    const sequence *q = &s->q;
    const plain *p = &s->list;
    uint32_t id = neap_sequence_at(q, 0), before = NEAP_NONE;
    for (uint32_t i = 0; i <= p->n; i++) {
        assert_int_equal(id, p->entries[i].id);
        assert_int_equal(q->items[id].task, p->entries[i].task);
        assert_int_equal(neap_sequence_previous(q, id), before);
        assert_true(before == NEAP_NONE || sequence_place(q, before) < sequence_place(q, id));
        before = id;
        id = i < p->n ? neap_sequence_next(q, id) : id;
    }
    assert_int_equal(id, q->end);
}

static void check_bytes(const pair *s)
{
    const sequence *q = &s->q;
    const plain *p = &s->list;
    int64_t counted[MOST_ENTRIES + 1], listed[MOST_ENTRIES + 1], ticks, most = 0;
    uint32_t tasks[MOST_ENTRIES];
    recount(&s->x, p, counted, &ticks);
    assert_int_equal(q->ticks, ticks);
    assert_int_equal(q->length, p->n);
    assert_int_equal(q->n_away, p->n_away);
    neap_sequence_list(q, tasks, listed, NULL);
    for (uint32_t i = 0; i <= p->n; i++) {
        assert_int_equal(listed[i], counted[i]);
        assert_int_equal(sequence_bytes(q, p->entries[i].id), counted[i]);
        assert_true(i == p->n || tasks[i] == p->entries[i].task);
        most = counted[i] > most ? counted[i] : most;
    }
    assert_int_equal(neap_sequence_most(q), most);
    uint32_t from = random_below(s->random, p->n + 1);
    uint32_t to = from + random_below(s->random, p->n + 1 - from);
    int64_t between = -1;
    for (uint32_t i = from + 1; i < to; i++)
        between = counted[i] > between ? counted[i] : between;
    if (from >= to)
        return;
    uint32_t a = p->entries[from].id, b = p->entries[to].id;
    assert_true(neap_sequence_fits_between(q, a, b, between));
    assert_true(between < 0 || !neap_sequence_fits_between(q, a, b, between - 1));
}

static void check(const pair *s)
{
    uint32_t runs[MOST_TASKS] = {0};
    check_order(s);
    check_bytes(s);
    check_refs(s);
    for (uint32_t i = 0; i < s->list.n; i++)
        runs[s->list.entries[i].task]++;
    for (uint32_t t = 0; t < s->x.n_tasks; t++) {
        assert_int_equal(s->q.runs[t], runs[t]);
        assert_int_equal(s->q.choice[t], s->list.choice[t]);
    }
}

/* The list of what a sequence has just been given: every task once, in order. */
static void begin_list(pair *s)
{
    plain *p = &s->list;
    *p = (plain){.n = s->x.n_tasks};
    for (uint32_t t = 0; t < p->n; t++)
        p->entries[t] = (entry){neap_sequence_item_of(&s->q, t), t};
    p->entries[p->n] = (entry){s->q.end, NEAP_NONE};
    s->n_marks = 1;
    s->marks[0] = (mark){0, s->list};
}

/* ---- Changes, of both ---- */

static bool can_insert(const pair *s, uint32_t task, uint32_t place)
{
    const problem *x = &s->x;
    for (uint32_t i = x->reads.start[task]; i < x->reads.start[task + 1]; i++)
        if (last_touch(x, &s->list, place, x->reads.items[i]) == NEAP_NONE)
            return false;
    return s->list.n < MOST_ENTRIES;
}

static void insert(pair *s)
{
    plain *p = &s->list;
    uint32_t task = random_below(s->random, s->x.n_tasks),
             place = random_below(s->random, p->n + 1);
    if (!can_insert(s, task, place))
        return;
    uint32_t id = neap_sequence_insert(&s->q, task, p->entries[place].id);
    assert_true((id == NEAP_NONE) == s->q.out_of_memory);
    if (id == NEAP_NONE)
        return;
    end_over(&s->x, p, task, place);
    for (uint32_t i = s->x.makes.start[task]; i < s->x.makes.start[task + 1]; i++) {
        uint32_t tensor = s->x.makes.items[i];
        uint32_t next = place;
        if (touch_at(&s->x, p, place, tensor) == NO_TOUCH)
            next = next_touch(&s->x, p, place, tensor);
        if (next <= p->n)
            end_absence(p, tensor, p->entries[next].id);
    }
    memmove(&p->entries[place + 1], &p->entries[place], (p->n + 1 - place) * sizeof *p->entries);
    p->entries[place] = (entry){id, task};
    p->n++;
}

/* It runs elsewhere, and what it makes has been made before or is not used before it is made anew.
 */
static bool can_remove(const pair *s, uint32_t place)
{
    const problem *x = &s->x;
    const plain *p = &s->list;
    uint32_t task = p->entries[place].task, runs = 0;
    for (uint32_t i = 0; i < p->n; i++)
        runs += p->entries[i].task == task;
    for (uint32_t i = x->makes.start[task]; i < x->makes.start[task + 1]; i++) {
        uint32_t tensor = x->makes.items[i], next = next_touch(x, p, place, tensor);
        if (last_touch(x, p, place, tensor) == NEAP_NONE && next <= p->n &&
            touch_at(x, p, next, tensor) == USE)
            return false;
    }
    return runs > 1;
}

static void take_out(pair *s)
{
    plain *p = &s->list;
    uint32_t place = random_below(s->random, p->n);
    entry e = p->entries[place];
    assert_int_equal(neap_sequence_can_remove(&s->q, e.id), can_remove(s, place));
    if (!can_remove(s, place))
        return;
    neap_sequence_remove(&s->q, e.id);
    end_over(&s->x, p, e.task, place + 1);
    for (uint32_t i = s->x.makes.start[e.task]; i < s->x.makes.start[e.task + 1]; i++) {
        uint32_t next = next_touch(&s->x, p, place, s->x.makes.items[i]);
        if (next <= p->n)
            end_absence(p, s->x.makes.items[i], p->entries[next].id);
    }
    for (uint32_t i = s->x.reads.start[e.task]; i < s->x.reads.start[e.task + 1]; i++)
        end_absence(p, s->x.reads.items[i], e.id);
    memmove(&p->entries[place], &p->entries[place + 1], (p->n - place) * sizeof *p->entries);
    p->n--;
}

static void set_variant(pair *s)
{
    uint32_t task = random_below(s->random, s->x.n_tasks);
    uint32_t count = s->x.variant_start[task + 1] - s->x.variant_start[task];
    uint32_t variant = random_below(s->random, count);
    neap_sequence_set_variant(&s->q, task, variant);
    s->list.choice[task] = variant;
}

/* Sends a tensor away before one of its uses, or brings it back. */
static void set_away(pair *s)
{
    plain *p = &s->list;
    uint32_t tensor = random_below(s->random, s->x.n_tensors);
    uint32_t place = next_touch(&s->x, p, random_below(s->random, p->n + 1), tensor);
    if (place > p->n || touch_at(&s->x, p, place, tensor) != USE || s->x.bytes[tensor] == 0)
        return;
    uint32_t id = p->entries[place].id, i = find_absence(p, tensor, id);
    if (i == NEAP_NONE && p->n_away == MOST_AWAY)
        return;
    neap_sequence_set_away(&s->q, tensor, id, i == NEAP_NONE);
    if (i == NEAP_NONE)
        p->away[p->n_away++] = (absence){tensor, id, false};
    else
        end_absence(p, tensor, id);
}

/* Lets the touch before an absence write over the tensor, if it may, or not any more. */
static void set_over(pair *s)
{
    plain *p = &s->list;
    if (p->n_away == 0)
        return;
    absence *a = &p->away[random_below(s->random, p->n_away)];
    uint32_t place = 0;
    while (p->entries[place].id != a->id)
        place++;
    uint32_t task = p->entries[last_touch(&s->x, p, place, a->tensor)].task;
    if (task == NEAP_NONE || s->x.in_place[task] != a->tensor)
        return;
    neap_sequence_set_over(&s->q, a->tensor, a->id, !a->over);
    a->over = !a->over;
}

static void set_mark(pair *s)
{
    if (s->n_marks < MOST_MARKS)
        s->marks[s->n_marks++] = (mark){s->q.n_changes, s->list};
}

static void undo(pair *s)
{
    uint32_t k = random_below(s->random, s->n_marks);
    neap_sequence_undo(&s->q, s->marks[k].n_changes);
    assert_int_equal(s->q.n_changes, s->marks[k].n_changes);
    s->list = s->marks[k].list;
    s->n_marks = k + 1;
}

static void commit(pair *s)
{
    neap_sequence_commit(&s->q);
    s->n_marks = 1;
    s->marks[0] = (mark){0, s->list};
}

/* More goes in than comes out, or the other way round. */
static void change_some(pair *s, bool growing)
{
    uint32_t dice = random_below(s->random, 100);
    if (dice < (growing ? 65u : 20u))
        insert(s);
    else if (dice < 70)
        take_out(s);
    else if (dice < 77)
        set_variant(s);
    else if (dice < 86)
        set_away(s);
    else if (dice < 90)
        set_over(s);
    else if (dice < 95)
        set_mark(s);
    else if (dice < 97)
        commit(s);
    else
        undo(s);
}

/* ---- Loading ---- */

/* What the list holds, loaded into another sequence. */
static void check_load(pair *s)
{
    plain *p = &s->list;
    uint32_t tasks[MOST_ENTRIES], again[MOST_ENTRIES];
    int64_t bytes[MOST_ENTRIES + 1], counted[MOST_ENTRIES + 1], ticks;
    transfer transfers[2 * MOST_AWAY];
    uint32_t n = 0;
    sequence q;
    for (uint32_t i = 0; i < p->n; i++)
        tasks[i] = p->entries[i].task;
    for (uint32_t i = 0; i < p->n_away; i++) {
        uint32_t before = 0;
        while (p->entries[before].id != p->away[i].id)
            before++;
        uint32_t after = last_touch(&s->x, p, before, p->away[i].tensor);
        transfers[n++] = (transfer){
            .tensor = p->away[i].tensor, .after = after, .before = before, .over = p->away[i].over};
        transfers[n] = transfers[n - 1]; /* one that stays is none */
        transfers[n++].stays = true;
    }
    const compute_list list = {
        .n = p->n, .tasks = tasks, .choice = p->choice, .n_transfers = n, .transfers = transfers};
    assert_int_equal(neap_sequence_init(&q, neap_allocator_system(), &s->x, NULL), NEAP_OK);
    for (int twice = 0; twice < 2; twice++) {
        assert_int_equal(neap_sequence_load(&q, &list, NULL), NEAP_OK);
        neap_sequence_list(&q, again, bytes, NULL);
        recount(&s->x, p, counted, &ticks);
        assert_int_equal(q.length, p->n);
        assert_int_equal(q.ticks, ticks);
        assert_int_equal(q.n_away, p->n_away);
        assert_int_equal(q.n_changes, 0);
        assert_memory_equal(again, tasks, p->n * sizeof *tasks);
        assert_memory_equal(bytes, counted, (p->n + 1) * sizeof *bytes);
        assert_int_equal(neap_sequence_load_natural(&q, NULL), NEAP_OK);
    }
    assert_int_equal(q.length, s->x.n_tasks);
    assert_int_equal(q.n_away, 0);
    neap_sequence_clear(&q);
}

/* ---- The tests ---- */

/* False: too large, or nothing in it. */
static bool draw_problem(pair *s, neap_graph *graph)
{
    neap_request request;
    neap_request_init(&request, graph, "neap");
    assert_int_equal(neap_problem_init(&s->x, NULL, &request, NULL), NEAP_OK);
    return s->x.n_tasks > 0 && s->x.n_tensors > 0 && s->x.n_tasks <= MOST_TASKS;
}

static void test_changes(void **state)
{
    (void)state;
    random_source random = {setting("NEAP_TEST_SEED", 20250401)};
    uint64_t count = setting("NEAP_TEST_COUNT", 40 / SHARE);
    uint32_t longest = 0;
    pair *s = calloc(1, sizeof *s);
    assert_non_null(s);
    print_message("seed %" PRIu64 ", %" PRIu64 " graphs\n", random.state, count);
    for (uint64_t i = 0; i < count; i++) {
        neap_graph *graph = i % 3 == 2 ? random_in_place_graph(&random, i % 2 ? 6 : 40)
                            : i % 2    ? random_training_graph(&random, i % 4 == 1 ? 6 : 40, false)
                                       : random_graph(&random, 40);
        s->random = &random;
        if (draw_problem(s, graph)) {
            assert_int_equal(neap_sequence_init(&s->q, neap_allocator_system(), &s->x, NULL),
                             NEAP_OK);
            begin_list(s);
            check(s);
            for (uint32_t k = 0; k < 2000; k++) {
                change_some(s, k / 500 % 2 == 0);
                longest = s->list.n > longest ? s->list.n : longest;
                if (k < 100 || k % 5 == 0)
                    check(s);
            }
            check_load(s);
            neap_sequence_clear(&s->q);
        }
        neap_problem_clear(&s->x);
        neap_graph_destroy(graph);
    }
    print_message("up to %" PRIu32 " items\n", longest);
    assert_true(longest > 4 * SEQUENCE_BLOCK || SHARE > 1);
    free(s);
}

/* From some allocation on none succeeds: the flag is raised, nothing more changes, and undo leads
   back to what was last committed. False: memory sufficed. */
static bool run_short(pair *s, size_t from)
{
    failing_allocator memory;
    failing_allocator_init(&memory);
    memory.fail_from = from;
    neap_diag diag = {0};
    neap_status status = neap_sequence_init(&s->q, &memory.base, &s->x, &diag);
    assert_int_equal(status, memory.failed ? NEAP_NO_MEMORY : NEAP_OK);
    if (status == NEAP_OK) {
        begin_list(s);
        for (uint32_t k = 0; k < 400 && !s->q.out_of_memory; k++)
            change_some(s, true);
        assert_int_equal(s->q.out_of_memory, memory.failed);
    }
    if (status == NEAP_OK && memory.failed) {
        size_t n_changes = s->q.n_changes;
        assert_int_equal(neap_sequence_insert(&s->q, 0, s->q.end), NEAP_NONE);
        assert_int_equal(s->q.n_changes, n_changes);
        neap_sequence_undo(&s->q, 0);
        s->list = s->marks[0].list;
        check(s);
    }
    neap_sequence_clear(&s->q);
    assert_null(memory.fault);
    assert_int_equal(memory.live_blocks, 0);
    return memory.failed;
}

static void test_no_memory(void **state)
{
    (void)state;
    random_source random = {20250402};
    pair *s = calloc(1, sizeof *s);
    assert_non_null(s);
    for (int i = 0; i < 6; i++) {
        neap_graph *graph = random_in_place_graph(&random, 12);
        uint64_t seed = random.state;
        size_t from = 0;
        s->random = &random;
        assert_true(draw_problem(s, graph));
        while (run_short(s, from)) {
            random.state = seed;
            from++;
        }
        assert_true(from > 0);
        neap_problem_clear(&s->x);
        neap_graph_destroy(graph);
    }
    free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_changes),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
