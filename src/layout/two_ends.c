/*
 * Placement from both ends of the arena, the longest-lived first.
 *
 * A training step fills its memory twice: activations that the backward pass reads last were made
 * first, and gradients stay from when they are made until the end. Each kind alone is a stack. At
 * one end of the arena nothing is lost as long as lives contain each other; but an instance that
 * begins within the life of the one below it and outlives it leaves a gap there. So an instance
 * belongs to the end where fewer bytes, times steps, would lie idle that way, and goes to the free
 * address nearest to that end. Steps count by how full they are, because a gap is harmless while
 * there is room.
 *
 * Longer-lived instances are placed first. Those that do not fit below the target come first in the
 * next pass; the ends stay those of the first pass. A pass is O(n^2). For the long plans of deep
 * networks, where the searches of portfolio.h are too slow.
 */
#include "base/arena.h"
#include "base/fail.h"
#include "layout/place.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PASSES = 2, LOOK = 512 /* instances placed between two looks at the clock */ };

/* Instances scanned, in all; the first pass is free. */
#define EFFORT (INT64_C(100) * 1000 * 1000)

/* The weight of a step is its live bytes, as a part of the most, to this power. */
static const double POWERS[] = {10, 0};

/* What the pass has placed, nearest to this end first: addresses count from it. Most of it is
   passed over for its time alone, so that stands by itself. */
typedef struct arena_end {
    uint32_t *begin, *end; /* lives */
    int64_t *from, *to;
    uint32_t n_own; /* of these, the ones that belong to this end: */
    uint32_t *own_begin, *own_end;
    double *own_size;
} arena_end;

typedef struct ordered {
    uint32_t instance;
    uint32_t weight; /* how often it did not fit */
    double life;
} ordered;

typedef struct two_ends {
    const neap_placement_problem *problem;
    size_t n_steps;
    double *elapsed; /* by step: the weights of the steps before it */
    ordered *order;
    int64_t top;       /* at most the target, and aligned as all sizes are */
    arena_end ends[2]; /* the bottom and the top */
    bool *is_high;     /* by instance: it belongs to the top */
    int64_t *offsets;
    int64_t effort;
} two_ends;

/* ---- Lives ---- */

static void weigh_steps(two_ends *t, double power)
{
    const neap_placement_problem *p = t->problem;
    double live = 0, sum = 0;
    memset(t->elapsed, 0, (t->n_steps + 1) * sizeof *t->elapsed);
    for (size_t i = 0; i < p->count; i++) {
        t->elapsed[p->instances[i].begin] += (double)p->instances[i].size;
        t->elapsed[p->instances[i].end] -= (double)p->instances[i].size;
    }
    for (size_t i = 0; i <= t->n_steps; i++) {
        live += t->elapsed[i];
        t->elapsed[i] = sum;
        sum += pow(live / (double)p->least, power) + 1e-6;
    }
}

/* The weights of the steps from one to another; 0 if they are none. */
static double span(const two_ends *t, size_t begin, size_t end)
{
    return end > begin ? t->elapsed[end] - t->elapsed[begin] : 0;
}

static int compare(const void *left, const void *right)
{
    const ordered *a = left, *b = right;
    if (a->weight != b->weight)
        return a->weight > b->weight ? -1 : 1;
    if (a->life < b->life || a->life > b->life)
        return a->life > b->life ? -1 : 1;
    return (a->instance > b->instance) - (a->instance < b->instance);
}

static void order_by_life(two_ends *t)
{
    for (size_t i = 0; i < t->problem->count; i++) {
        const neap_instance *x = &t->problem->instances[i];
        t->order[i] = (ordered){(uint32_t)i, 0, span(t, x->begin, x->end)};
    }
}

/* ---- Ends ---- */

/* Bytes times steps of an instance's life in which those of an end, live at other steps of it, are
   not: the gaps that it keeps open there. */
static double idle_area(two_ends *t, const arena_end *e, const neap_instance *x)
{
    double sum = 0;
    for (uint32_t k = 0; k < e->n_own; k++) {
        uint32_t begin = e->own_begin[k], end = e->own_end[k];
        if ((begin >= x->end) | (end <= x->begin) | ((begin <= x->begin) & (end >= x->end)))
            continue;
        sum += e->own_size[k] * (span(t, x->begin, begin) + span(t, end, x->end));
    }
    t->effort -= e->n_own;
    return sum;
}

static bool belongs_to_top(two_ends *t, const neap_instance *x)
{
    bool high = idle_area(t, &t->ends[1], x) < idle_area(t, &t->ends[0], x);
    arena_end *e = &t->ends[high];
    e->own_begin[e->n_own] = (uint32_t)x->begin;
    e->own_end[e->n_own] = (uint32_t)x->end;
    e->own_size[e->n_own++] = (double)x->size;
    return high;
}

/* The address nearest to an end that is free during a whole life. */
static int64_t nearest(two_ends *t, const arena_end *e, size_t n_placed, const neap_instance *x)
{
    int64_t at = 0;
    size_t i = 0;
    for (; i < n_placed; i++) {
        if ((e->begin[i] >= x->end) | (e->end[i] <= x->begin))
            continue;
        if (e->from[i] - at >= x->size)
            break;
        if (e->to[i] > at)
            at = e->to[i];
    }
    t->effort -= (int64_t)i;
    return at;
}

static void insert(arena_end *e, size_t n_placed, const neap_instance *x, int64_t from)
{
    size_t low = 0, high = n_placed;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (e->from[middle] <= from)
            low = middle + 1;
        else
            high = middle;
    }
    size_t after = n_placed - low;
    memmove(e->begin + low + 1, e->begin + low, after * sizeof *e->begin);
    memmove(e->end + low + 1, e->end + low, after * sizeof *e->end);
    memmove(e->from + low + 1, e->from + low, after * sizeof *e->from);
    memmove(e->to + low + 1, e->to + low, after * sizeof *e->to);
    e->begin[low] = (uint32_t)x->begin;
    e->end[low] = (uint32_t)x->end;
    e->from[low] = from;
    e->to[low] = from + x->size;
}

/* ---- Passes ---- */

/* At its end, else at the other one, else above the target. */
static bool place(two_ends *t, size_t n_placed, uint32_t instance)
{
    const neap_instance *x = &t->problem->instances[instance];
    int64_t at = 0, offset = 0;
    bool fits = false;
    for (int k = 0; k < 2 && !fits; k++) {
        bool high = t->is_high[instance] ^ (k > 0);
        at = nearest(t, &t->ends[high], n_placed, x);
        fits = at + x->size <= t->top;
        offset = high ? t->top - at - x->size : at;
    }
    if (!fits)
        offset = nearest(t, &t->ends[0], n_placed, x);
    insert(&t->ends[0], n_placed, x, offset);
    insert(&t->ends[1], n_placed, x, t->top - offset - x->size);
    t->offsets[instance] = offset;
    return fits;
}

/* Returns the arena; INT64_MAX if it is cancelled. */
static int64_t pass(two_ends *t, bool is_first)
{
    int64_t arena = 0;
    if (is_first)
        t->ends[0].n_own = t->ends[1].n_own = 0;
    qsort(t->order, t->problem->count, sizeof *t->order, compare);
    for (size_t k = 0; k < t->problem->count; k++) {
        uint32_t instance = t->order[k].instance;
        const neap_instance *x = &t->problem->instances[instance];
        if (k % LOOK == LOOK - 1 && neap_placement_cancelled(t->problem))
            return INT64_MAX;
        if (is_first)
            t->is_high[instance] = belongs_to_top(t, x);
        t->order[k].weight += !place(t, k, instance);
        if (t->offsets[instance] + x->size > arena)
            arena = t->offsets[instance] + x->size;
    }
    return arena;
}

static bool is_over(const two_ends *t, const neap_placement *best)
{
    return best->arena <= t->problem->target || t->effort <= 0 ||
           neap_placement_cancelled(t->problem);
}

static void improve(two_ends *t, double power, neap_placement *best)
{
    weigh_steps(t, power);
    order_by_life(t);
    for (int i = 0; i < PASSES && !is_over(t, best); i++) {
        int64_t arena = pass(t, i == 0);
        if (arena < best->arena) {
            best->arena = arena;
            memcpy(best->offsets, t->offsets, t->problem->count * sizeof *t->offsets);
        }
    }
}

static bool allocate(two_ends *t, neap_arena *arena)
{
    size_t n = t->problem->count;
    for (int k = 0; k < 2; k++) {
        arena_end *e = &t->ends[k];
        if (!NEAP_TAKE(arena, n, e->begin) || !NEAP_TAKE(arena, n, e->end) ||
            !NEAP_TAKE(arena, n, e->from) || !NEAP_TAKE(arena, n, e->to) ||
            !NEAP_TAKE(arena, n, e->own_begin) || !NEAP_TAKE(arena, n, e->own_end) ||
            !NEAP_TAKE(arena, n, e->own_size))
            return false;
    }
    return NEAP_TAKE(arena, t->n_steps + 1, t->elapsed) && NEAP_TAKE(arena, n, t->order) &&
           NEAP_TAKE(arena, n, t->is_high) && NEAP_TAKE(arena, n, t->offsets);
}

/* Offsets are sums and differences of sizes and the top, so they are aligned if it is. */
static int64_t aligned_top(const neap_placement_problem *problem)
{
    int64_t divisor = 0;
    for (size_t i = 0; i < problem->count; i++)
        for (int64_t size = problem->instances[i].size; size != 0;) {
            int64_t rest = divisor % size;
            divisor = size;
            size = rest;
        }
    return divisor > 0 ? problem->target - problem->target % divisor : problem->target;
}

neap_status neap_place_two_ends(const neap_placement_problem *problem, neap_placement *best,
                                neap_diag *diag)
{
    two_ends t = {.problem = problem, .effort = EFFORT, .top = aligned_top(problem)};
    neap_arena arena;
    neap_arena_init(&arena, problem->allocator);
    for (size_t i = 0; i < problem->count; i++)
        if (problem->instances[i].end > t.n_steps)
            t.n_steps = problem->instances[i].end;
    bool ready = allocate(&t, &arena);
    for (size_t i = 0; ready && i < sizeof POWERS / sizeof *POWERS; i++)
        improve(&t, POWERS[i], best);
    neap_arena_clear(&arena);
    return ready ? NEAP_OK : neap_fail_no_memory(diag);
}
