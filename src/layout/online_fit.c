/*
 * Placement in order of time, like an online allocator that knows every lifetime.
 *
 * Instances are taken in order of their first step and put into a gap that is free at that moment.
 * Two choices vary: which gap (the tightest that fits, or the lowest), and which instances count as
 * short-lived. Short-lived instances go to the far end, just below the live peak, so that they do
 * not fragment the space of the long-lived ones. The best combination wins. One run is O(n log n):
 * this is the placer for very many instances.
 */
#include "base/memory.h"
#include "layout/gaps.h"
#include "layout/place.h"

#include <stdlib.h>
#include <string.h>

#define EFFORT 4000000 /* instances placed, in all runs; the first run is free */

typedef struct rule {
    bool tightest;      /* else the lowest */
    size_t short_lived; /* instances of at most so many steps go to the far end */
} rule;

static const rule rules[] = {{true, 0},   {false, 4}, {true, 4},  {false, 0},
                             {false, 16}, {true, 16}, {true, 64}, {false, 64}};

typedef struct moment {
    size_t step, lifetime, instance;
} moment;

typedef struct run_state {
    const neap_placement_problem *problem;
    moment *begins, *ends; /* of all instances, in order of time */
    neap_gaps gaps;
    int64_t *offsets;
} run_state;

/* At the same step the longer-lived first. */
static int compare(const void *left, const void *right)
{
    const moment *a = left, *b = right;
    if (a->step != b->step)
        return a->step < b->step ? -1 : 1;
    if (a->lifetime != b->lifetime)
        return a->lifetime > b->lifetime ? -1 : 1;
    return (a->instance > b->instance) - (a->instance < b->instance);
}

static int64_t choose_low(const run_state *s, bool tightest, int64_t size)
{
    const neap_gaps *gaps = &s->gaps;
    int64_t begin, end;
    bool found = tightest ? neap_gaps_tightest(gaps, size, &begin, &end)
                          : neap_gaps_lowest(gaps, size, &begin, &end);
    if (!found)
        return gaps->tail;
    /* The tail counts as a gap up to the live peak. */
    int64_t last = s->problem->least - gaps->tail;
    return tightest && last >= size && last < end - begin ? gaps->tail : begin;
}

static int64_t choose_high(const run_state *s, bool tightest, int64_t size)
{
    int64_t begin, end, least = s->problem->least;
    if (least - s->gaps.tail >= size)
        return least - size;
    if (neap_gaps_highest(&s->gaps, size, &begin, &end))
        return end - size;
    return choose_low(s, tightest, size);
}

/* Returns the arena, or INT64_MAX once it is no better than `limit`. */
static int64_t run(run_state *s, rule r, int64_t limit)
{
    int64_t arena = 0;
    size_t ended = 0;
    neap_gaps_reset(&s->gaps);
    for (size_t k = 0; k < s->problem->count; k++) {
        const moment *m = &s->begins[k];
        for (; s->ends[ended].step <= m->step; ended++) {
            size_t gone = s->ends[ended].instance;
            neap_gaps_give(&s->gaps, s->offsets[gone],
                           s->offsets[gone] + s->problem->instances[gone].size);
        }
        int64_t size = s->problem->instances[m->instance].size;
        int64_t offset = m->lifetime <= r.short_lived ? choose_high(s, r.tightest, size)
                                                      : choose_low(s, r.tightest, size);
        s->offsets[m->instance] = offset;
        neap_gaps_take(&s->gaps, offset, offset + size);
        if (offset + size > arena)
            arena = offset + size;
        if (arena >= limit)
            return INT64_MAX;
    }
    return arena;
}

/* The most instances live together. */
static size_t count_together(const run_state *s)
{
    size_t ended = 0, most = 0;
    for (size_t k = 0; k < s->problem->count; k++) {
        while (s->ends[ended].step <= s->begins[k].step)
            ended++;
        if (k + 1 - ended > most)
            most = k + 1 - ended;
    }
    return most;
}

static void sort_moments(run_state *s)
{
    size_t n = s->problem->count;
    for (size_t i = 0; i < n; i++) {
        const neap_instance *x = &s->problem->instances[i];
        s->begins[i] = (moment){x->begin, x->end - x->begin, i};
        s->ends[i] = (moment){x->end, x->end - x->begin, i};
    }
    qsort(s->begins, n, sizeof *s->begins, compare);
    qsort(s->ends, n, sizeof *s->ends, compare);
}

neap_status neap_place_online_fit(const neap_placement_problem *problem, neap_placement *best,
                                  neap_diag *diag)
{
    neap_allocator *allocator = problem->allocator;
    size_t n = problem->count;
    run_state s = {.problem = problem};
    if (n == 0)
        return NEAP_OK;
    neap_status status = NEAP_NEW(allocator, n, &s.begins, diag);
    if (status == NEAP_OK)
        status = NEAP_NEW(allocator, n, &s.ends, diag);
    if (status == NEAP_OK)
        status = NEAP_NEW(allocator, n, &s.offsets, diag);
    if (status != NEAP_OK)
        goto done;
    sort_moments(&s);
    status = neap_gaps_init(&s.gaps, allocator, count_together(&s) + 1, diag);
    if (status != NEAP_OK)
        goto done;
    for (size_t i = 0; i < sizeof rules / sizeof *rules && best->arena > problem->target; i++) {
        if (best->arena < INT64_MAX && (i * n > EFFORT || neap_placement_cancelled(problem)))
            break;
        int64_t arena = run(&s, rules[i], best->arena);
        if (arena < best->arena) {
            best->arena = arena;
            memcpy(best->offsets, s.offsets, n * sizeof *s.offsets);
        }
    }
done:
    neap_gaps_clear(&s.gaps);
    NEAP_DELETE(allocator, n, s.offsets);
    NEAP_DELETE(allocator, n, s.ends);
    NEAP_DELETE(allocator, n, s.begins);
    return status;
}
