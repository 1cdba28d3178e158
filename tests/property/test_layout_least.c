/*
 * The least arena, found and proven, compared with trying all offsets; the same search on larger
 * problems that are known to have a placement without gaps.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "layout/place.h"
#include "random_plan.h"

#include <stdlib.h>
#include <string.h>

enum { MOST = 30, STEPS = 12, HEIGHT = 9 };

typedef struct tiny {
    neap_instance items[MOST];
    int64_t offsets[MOST];
    size_t count;
} tiny;

/* Memory that is full, or nearly, all the time, so that there is hardly any freedom: whenever
   something ends, others take its bytes. */
static void fill(random_source *random, tiny *t)
{
    t->count = 0;
    for (size_t step = 0; step < STEPS; step++) {
        int64_t unused = HEIGHT - random_below(random, 2);
        for (size_t i = 0; i < t->count; i++)
            unused -= t->items[i].end > step ? t->items[i].size : 0;
        while (unused > 0 && t->count < MOST) {
            int64_t size = 1 + random_below(random, 4);
            size = size < unused ? size : unused;
            size_t left = STEPS - step,
                   end = step + 1 + random_below(random, left < 5 ? (uint32_t)left : 5);
            t->items[t->count++] = (neap_instance){size, step, end};
            unused -= size;
        }
    }
}

static bool meet(const neap_instance *a, const neap_instance *b)
{
    return a->begin < b->end && b->begin < a->end;
}

static bool is_free(const tiny *t, size_t item, int64_t offset)
{
    for (size_t k = 0; k < item; k++)
        if (meet(&t->items[item], &t->items[k]) && offset < t->offsets[k] + t->items[k].size &&
            t->offsets[k] < offset + t->items[item].size)
            return false;
    return true;
}

/* Whether the items from `item` on can be placed, by trying all offsets. */
static bool exists(tiny *t, size_t item, int64_t capacity)
{
    if (item >= MOST || item == t->count)
        return true;
    for (int64_t at = 0; at + t->items[item].size <= capacity; at++) {
        t->offsets[item] = at;
        if (is_free(t, item, at) && exists(t, item + 1, capacity))
            return true;
    }
    return false;
}

static int64_t most_live(const neap_instance *items, size_t count, size_t n_steps)
{
    int64_t most = 0;
    for (size_t step = 0; step < n_steps; step++) {
        int64_t live = 0;
        for (size_t i = 0; i < count; i++)
            if (items[i].begin <= step && step < items[i].end)
                live += items[i].size;
        if (live > most)
            most = live;
    }
    return most;
}

static void expect_apart(const neap_instance *items, size_t count, const neap_placement *placing)
{
    for (size_t i = 0; i < count; i++) {
        int64_t at = placing->offsets[i], end = at + items[i].size;
        assert_true(at >= 0 && end <= placing->arena);
        for (size_t k = 0; k < i; k++)
            if (meet(&items[i], &items[k]))
                assert_true(end <= placing->offsets[k] ||
                            placing->offsets[k] + items[k].size <= at);
    }
}

static neap_placement_problem problem_of(const neap_instance *items, size_t count, size_t n_steps)
{
    int64_t least = most_live(items, count, n_steps);
    return (neap_placement_problem){.instances = items,
                                    .count = count,
                                    .least = least,
                                    .target = least,
                                    .allocator = neap_allocator_system()};
}

static void test_the_least_arena_is_found_and_proven(void **state)
{
    (void)state;
    unsigned above = 0;
    for (uint64_t seed = 1; seed <= 3000; seed++) {
        random_source random = {seed};
        tiny t;
        fill(&random, &t);
        int64_t offsets[MOST], unit = seed % 3 == 0 ? 64 : 1;
        neap_instance scaled[MOST];
        for (size_t i = 0; i < t.count; i++) {
            scaled[i] = t.items[i];
            scaled[i].size *= unit;
        }
        int64_t optimum = most_live(t.items, t.count, STEPS);
        while (!exists(&t, 0, optimum)) {
            optimum++;
            above++;
        }
        neap_placement_problem p = problem_of(scaled, t.count, STEPS);
        for (int quick = 0; quick < 2; quick++) { /* after the quick placers, and by itself */
            neap_placement best = {.offsets = offsets, .arena = INT64_MAX, .bound = p.least};
            assert_int_equal(
                quick ? neap_place(&p, &best, NULL) : neap_place_squeeze(&p, &best, NULL), NEAP_OK);
            expect_apart(scaled, t.count, &best);
            if (best.arena != unit * optimum || best.bound != best.arena)
                fail_msg("seed %llu: an arena of %lld, bound %lld; the least is %lld",
                         (unsigned long long)seed, (long long)best.arena, (long long)best.bound,
                         (long long)(unit * optimum));
        }
    }
    print_message("%u bytes above the live peak, in all\n", above);
    assert_true(above > 5); /* so that refutations are needed */
}

/* Cuts a rectangle of time and space into pieces: they fill it, so the live peak is its height. */
static size_t cut(random_source *random, neap_instance whole, neap_instance *items, size_t most)
{
    size_t life = whole.end - whole.begin;
    if (most < 2 || (life < 2 && whole.size < 2))
        return items[0] = whole, 1;
    neap_instance rest = whole;
    if (life >= 2 && (whole.size < 2 || random_below(random, 2))) {
        size_t at = 1 + random_below(random, (uint32_t)(life - 1));
        whole.end = rest.begin = whole.begin + at;
    } else {
        whole.size = 1 + random_below(random, (uint32_t)(whole.size - 1));
        rest.size -= whole.size;
    }
    size_t count = cut(random, whole, items, most / 2);
    return count + cut(random, rest, items + count, most - most / 2);
}

static void test_full_rectangles(void **state)
{
    (void)state;
    enum { ITEMS = 40, LIFE = 100 };
    unsigned found = 0, tried = 0;
    for (uint64_t seed = 1; seed <= 60; seed++, tried++) {
        random_source random = {seed};
        neap_instance items[ITEMS];
        int64_t offsets[ITEMS], again[ITEMS];
        size_t count = cut(&random, (neap_instance){1000, 0, LIFE}, items, ITEMS);
        neap_placement_problem p = problem_of(items, count, LIFE);
        neap_placement best = {.offsets = offsets};
        assert_int_equal(p.least, 1000);
        assert_int_equal(neap_place(&p, &best, NULL), NEAP_OK);
        expect_apart(items, count, &best);
        found += best.arena == 1000;
        neap_placement second = {.offsets = again}; /* the same work gives the same offsets, */
        p.threads = 1 + (int)(seed % 4);            /* on any number of threads */
        assert_int_equal(neap_place(&p, &second, NULL), NEAP_OK);
        assert_memory_equal(offsets, again, count * sizeof *offsets);
    }
    print_message("%u of %u rectangles filled without a gap\n", found, tried);
    assert_true(found >= tried * 9 / 10);
}

/* A target above the live peak is good enough. */
static void test_a_target_is_kept(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 100; seed++) {
        random_source random = {seed};
        neap_instance items[30];
        int64_t offsets[30];
        size_t count = cut(&random, (neap_instance){1000, 0, 60}, items, 30);
        neap_placement_problem p = problem_of(items, count, 60);
        p.target = 1100;
        neap_placement best = {.offsets = offsets, .arena = INT64_MAX, .bound = p.least};
        assert_int_equal(neap_place_squeeze(&p, &best, NULL), NEAP_OK);
        expect_apart(items, count, &best);
        assert_true(best.arena <= 1100);
    }
}

/* A pinwheel in each cell: no straight cut divides it, so the search needs its time. */
static size_t make_pinwheels(neap_instance *items, size_t columns, int64_t rows)
{
    size_t count = 0;
    for (size_t c = 0; c < columns; c++)
        for (int64_t r = 0; r < rows; r++) {
            size_t t = 10 * c, a = 2 + (3 * c + (size_t)r) % 5, b = a + 1 + (size_t)r % (9 - a);
            int64_t size = 1000 + 37 * r, low = 100 + 61 * r % 300, high = low + 200 + 29 * r % 200;
            items[count++] = (neap_instance){low, t, t + b};
            items[count++] = (neap_instance){high, t + b, t + 10};
            items[count++] = (neap_instance){size - high, t + a, t + 10};
            items[count++] = (neap_instance){size - low, t, t + a};
            items[count++] = (neap_instance){high - low, t + a, t + b};
        }
    return count;
}

/* With an end the search uses the time while the arena exceeds the target, and then stops. */
static void test_an_end_is_kept(void **state)
{
    (void)state;
    enum { ITEMS = 5 * 20 * 12 };
    static neap_instance items[ITEMS];
    static int64_t offsets[ITEMS];
    size_t count = make_pinwheels(items, 20, 12);
    neap_placement_problem p = problem_of(items, count, 200);
    for (int i = 0; i < 3; i++) {
        double begin = neap_clock_seconds(), seconds = 0.05 * i;
        p.target = i == 2 ? p.least * 2 : p.least;
        p.end = begin + seconds;
        p.is_persistent = true;
        neap_placement best = {.offsets = offsets};
        assert_int_equal(neap_place(&p, &best, NULL), NEAP_OK);
        expect_apart(items, count, &best);
        assert_true(neap_clock_seconds() - begin < seconds + 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_least_arena_is_found_and_proven),
        cmocka_unit_test(test_full_rectangles),
        cmocka_unit_test(test_a_target_is_kept),
        cmocka_unit_test(test_an_end_is_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
