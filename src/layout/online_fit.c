/*
 * Placement in order of time, like an online allocator that knows every lifetime.
 *
 * Instances are taken in order of their first step and put into a gap that is free at that moment.
 * Two choices vary: which gap (the tightest that fits, or the lowest), and which instances count as
 * short-lived. Short-lived instances go to the far end, just below the live peak, so that they do
 * not fragment the space of the long-lived ones.
 *
 * A third choice is where time begins. From the first step on, what has been freed leaves gaps that
 * hurt when the memory is fullest. So the first runs begin at the fullest step: what is live then
 * is stacked without gaps, in order of first steps, and from there time runs to the end and, for
 * what ends before, backward to the beginning.
 *
 * The best combination wins. One run is O(n log n): this is the placer for very many instances.
 */
#include "base/arena.h"
#include "base/fail.h"
#include "layout/gaps.h"
#include "layout/place.h"

#include <stdlib.h>
#include <string.h>

#define EFFORT 4000000 /* instances placed, in all runs; the first run is free */

typedef struct rule {
    bool outward;       /* from the fullest step */
    bool tightest;      /* else the lowest */
    size_t short_lived; /* instances of at most so many steps go to the far end */
} rule;

static const rule rules[] = {
    {true, false, 0},  {true, true, 0},    {true, false, 16}, {false, true, 0},   {false, false, 4},
    {false, true, 4},  {false, false, 0},  {true, true, 4},   {false, false, 16}, {false, true, 16},
    {false, true, 64}, {false, false, 64}, {true, true, 64}};

typedef struct moment {
    uint32_t step, lifetime, instance;
} moment;

/* A stretch of time, in one direction: what begins in it, and what ends in it, in order. */
typedef struct stretch {
    moment *begins, *ends;
    size_t n_begins, n_ends;
} stretch;

typedef struct run_state {
    const neap_placement_problem *problem;
    stretch all;           /* from the first step to the last */
    stretch after, before; /* from the fullest step on, and from it back */
    moment *fullest;       /* what is live then */
    size_t n_fullest;
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

/* Places what begins in a stretch. Returns the arena, or INT64_MAX once it is no better than
   `limit`. */
static int64_t run_stretch(run_state *s, const stretch *time, rule r, int64_t limit)
{
    int64_t arena = 0;
    size_t ended = 0;
    for (size_t k = 0; k < time->n_begins; k++) {
        const moment *m = &time->begins[k];
        for (; time->ends[ended].step <= m->step; ended++) { /* its own end comes later */
            size_t gone = time->ends[ended].instance;
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

/* Stacks what is live at the fullest step, then goes on from there. */
static int64_t run_outward(run_state *s, rule r, int64_t limit)
{
    const stretch *sides[2] = {&s->after, &s->before};
    int64_t arena = s->problem->least, top = 0;
    for (size_t k = 0; k < s->n_fullest; k++) {
        s->offsets[s->fullest[k].instance] = top;
        top += s->problem->instances[s->fullest[k].instance].size;
    }
    for (int i = 0; i < 2 && arena < limit; i++) {
        neap_gaps_reset(&s->gaps);
        neap_gaps_take(&s->gaps, 0, top);
        int64_t more = run_stretch(s, sides[i], r, limit);
        arena = more > arena ? more : arena;
    }
    return arena < limit ? arena : INT64_MAX;
}

static int64_t run(run_state *s, rule r, int64_t limit)
{
    if (r.outward)
        return run_outward(s, r, limit);
    neap_gaps_reset(&s->gaps);
    return run_stretch(s, &s->all, r, limit);
}

/* ---- Time ---- */

static void add(stretch *time, size_t begin, size_t end, size_t instance)
{
    uint32_t lifetime = (uint32_t)(end - begin), number = (uint32_t)instance;
    time->begins[time->n_begins++] = (moment){(uint32_t)begin, lifetime, number};
    time->ends[time->n_ends++] = (moment){(uint32_t)end, lifetime, number};
}

static void sort(moment *moments, size_t count)
{
    if (count > 1)
        qsort(moments, count, sizeof *moments, compare);
}

static void list_all(run_state *s)
{
    for (size_t i = 0; i < s->problem->count; i++)
        add(&s->all, s->problem->instances[i].begin, s->problem->instances[i].end, i);
    sort(s->all.begins, s->all.n_begins);
    sort(s->all.ends, s->all.n_ends);
}

/* The first step with the most bytes; *together is the most instances ever live together. */
static size_t find_fullest(const run_state *s, size_t *together)
{
    const stretch *time = &s->all;
    const neap_instance *x = s->problem->instances;
    size_t ended = 0, step = 0;
    int64_t live = 0, most = 0;
    *together = 0;
    for (size_t k = 0; k < time->n_begins; k++) {
        for (; time->ends[ended].step <= time->begins[k].step; ended++)
            live -= x[time->ends[ended].instance].size;
        live += x[time->begins[k].instance].size;
        if (live > most) {
            most = live;
            step = time->begins[k].step;
        }
        if (k + 1 - ended > *together)
            *together = k + 1 - ended;
    }
    return step;
}

/* How many begin after a step, and how many end before it or with it. */
static void count_parts(const run_state *s, size_t step, size_t *n_after, size_t *n_before)
{
    *n_after = *n_before = 0;
    for (size_t i = 0; i < s->problem->count; i++) {
        *n_after += s->problem->instances[i].begin > step;
        *n_before += s->problem->instances[i].end <= step;
    }
}

/* Divides the lists of all at a step; those before it count time backward from the last end. They
   stay in order: only equal steps of the time before might come in another order of lifetimes. */
static void divide(run_state *s, size_t step)
{
    const stretch *all = &s->all;
    uint32_t last = all->ends[all->n_ends - 1].step;
    for (size_t k = 0; k < all->n_begins; k++) {
        moment m = all->begins[k];
        if (m.step > step)
            s->after.begins[s->after.n_begins++] = m;
        else if ((size_t)m.step + m.lifetime > step)
            s->fullest[s->n_fullest++] = m;
    }
    for (size_t k = 0; k < all->n_ends; k++)
        if (all->ends[k].step > step)
            s->after.ends[s->after.n_ends++] = all->ends[k];
    for (size_t k = all->n_ends; k-- > 0;) {
        moment m = all->ends[k];
        if (m.step <= step)
            s->before.begins[s->before.n_begins++] =
                (moment){last - m.step, m.lifetime, m.instance};
    }
    for (size_t k = all->n_begins; k-- > 0;) {
        moment m = all->begins[k];
        if (m.step <= step)
            s->before.ends[s->before.n_ends++] = (moment){last - m.step, m.lifetime, m.instance};
    }
}

static neap_status prepare(run_state *s, neap_arena *arena, neap_diag *diag)
{
    size_t n = s->problem->count, together;
    if (!NEAP_TAKE(arena, n, s->all.begins) || !NEAP_TAKE(arena, n, s->all.ends) ||
        !NEAP_TAKE(arena, n, s->offsets))
        return neap_fail_no_memory(diag);
    list_all(s);
    size_t step = find_fullest(s, &together), n_after, n_before, n_fullest;
    count_parts(s, step, &n_after, &n_before);
    n_fullest = n - n_after - n_before;
    if (!NEAP_TAKE(arena, n_after, s->after.begins) ||
        !NEAP_TAKE(arena, n_after + n_fullest, s->after.ends) ||
        !NEAP_TAKE(arena, n_before, s->before.begins) ||
        !NEAP_TAKE(arena, n_before + n_fullest, s->before.ends) ||
        !NEAP_TAKE(arena, n_fullest, s->fullest))
        return neap_fail_no_memory(diag);
    divide(s, step);
    return neap_gaps_init(&s->gaps, s->problem->allocator, together + 1, diag);
}

neap_status neap_place_online_fit(const neap_placement_problem *problem, neap_placement *best,
                                  neap_diag *diag)
{
    size_t n = problem->count;
    run_state s = {.problem = problem};
    neap_arena arena;
    if (n == 0)
        return NEAP_OK;
    neap_arena_init(&arena, problem->allocator);
    neap_status status = prepare(&s, &arena, diag);
    for (size_t i = 0; i < sizeof rules / sizeof *rules && status == NEAP_OK; i++) {
        bool spent = i * n > EFFORT || neap_placement_cancelled(problem);
        if (best->arena <= problem->target || (best->arena < INT64_MAX && spent))
            break;
        int64_t size = run(&s, rules[i], best->arena);
        if (size < best->arena) {
            best->arena = size;
            memcpy(best->offsets, s.offsets, n * sizeof *s.offsets);
        }
    }
    neap_gaps_clear(&s.gaps);
    neap_arena_clear(&arena);
    return status;
}
