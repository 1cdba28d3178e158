/*
 * Places for lives that lie above the capacity (retime.h).
 *
 * A life may go where others are for a part of its time if they can be kept apart: if the one that
 * comes second is fetched, it can be fetched when the first one is gone; if the first one is only
 * waiting for its end, it can be freed when the second begins. Of the places where that is possible
 * the one with the least makespan is taken. Where there is none, the life takes the place of
 * others, which then look for another one; what lost its place often is the last to lose it again.
 */
#include "layout/retime.h"

#include <stdlib.h>

/* Places of a life whose makespan is computed, the most promising ones. */
enum { TRIED = 10 };
/* Places that are given to lives, and two more for each of all: what has not found one then keeps
   on taking it from others. */
enum { MOST_PLACES = 200 };

/* ---- Two lives ---- */

static bool meet(const neap_retimer *r, const neap_life *x, const neap_life *y)
{
    return neap_life_begin(r, x) < neap_life_end(r, y) &&
           neap_life_begin(r, y) < neap_life_end(r, x);
}

static bool overlap(const neap_life *x, int64_t offset, const neap_life *y)
{
    return y->offset < offset + x->size && offset < y->offset + y->size;
}

/* Whether `second` can be fetched when `first` is gone, and whether `first` can be freed before
   `second` begins. */
static bool can_wait(const neap_retimer *r, const neap_life *first, const neap_life *second)
{
    return first->death != NEAP_NONE && neap_life_is_fetched(r, second) &&
           r->at[first->death] < r->at[second->use];
}

static bool can_hurry(const neap_retimer *r, const neap_life *first, const neap_life *second)
{
    return first->death != NEAP_NONE && r->at[first->touch] < neap_life_begin(r, second);
}

static bool can_part(const neap_retimer *r, const neap_life *x, const neap_life *y)
{
    return can_wait(r, y, x) || can_hurry(r, y, x) || can_wait(r, x, y) || can_hurry(r, x, y);
}

static void wait_for(neap_retimer *r, const neap_life *first, const neap_life *second)
{
    if (r->at[second->birth] < r->at[first->death])
        neap_retimer_put(r, r->at[second->birth], r->at[first->death]);
}

/* Which way is taken if both are possible, where x is the second and where it is the first. */
enum { HURRY_OTHER = 1, HURRY_ITSELF = 2, POLICIES = 4 };

/* Shortens x or y until they do not meet; false if that is not possible. */
static bool part(neap_retimer *r, const neap_life *x, const neap_life *y, unsigned policy)
{
    if (!meet(r, x, y))
        return true;
    const neap_life *first = y, *second = x;
    unsigned hurries = HURRY_OTHER;
    if (!can_wait(r, y, x) && !can_hurry(r, y, x)) {
        first = x;
        second = y;
        hurries = HURRY_ITSELF;
    }
    bool wait = can_wait(r, first, second), can = can_hurry(r, first, second);
    if (!wait && !can)
        return false;
    if (wait && (!can || !(policy & hurries)))
        wait_for(r, first, second);
    else
        neap_retimer_free_before(r, first, second->birth);
    return true;
}

/* Ticks that x and y are live together. */
static int64_t time_together(const neap_retimer *r, const neap_life *x, const neap_life *y)
{
    uint32_t from = neap_life_begin(r, x), to = neap_life_end(r, x);
    if (neap_life_begin(r, y) > from)
        from = neap_life_begin(r, y);
    if (neap_life_end(r, y) < to)
        to = neap_life_end(r, y);
    int64_t end = to < r->n_steps ? r->begin[r->order[to]] : r->makespan;
    return end - r->begin[r->order[from]];
}

/* ---- Places ---- */

/* What a byte costs whose life must make room: more than any time. */
static const double HARD = 1e18;

static double cost_of(const neap_retimer *r, const neap_life *x, int64_t offset, uint32_t n_near)
{
    double cost = 0;
    for (uint32_t i = 0; i < n_near; i++) {
        const neap_life *y = &r->lives[r->near[i]];
        if (!overlap(x, offset, y))
            continue;
        if (can_part(r, x, y))
            cost += 1 + (double)time_together(r, x, y);
        else
            cost += HARD * (double)y->size * (1 + y->weight);
    }
    return cost;
}

static int by_cost(const void *a, const void *b)
{
    const neap_spot *x = a, *y = b;
    if (x->cost < y->cost || x->cost > y->cost)
        return x->cost < y->cost ? -1 : 1;
    return (x->offset > y->offset) - (x->offset < y->offset);
}

static uint32_t find_near(neap_retimer *r, const neap_life *x)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < r->n_lives; i++) {
        const neap_life *y = &r->lives[i];
        if (y != x && y->placed && y->size > 0 && meet(r, x, y))
            r->near[n++] = i;
    }
    return n;
}

/* Where x could go: next to others, at the bottom, at the top. By cost. */
static uint32_t find_spots(neap_retimer *r, const neap_life *x, uint32_t n_near)
{
    uint32_t n = 0;
    int64_t most = r->options->target - x->size;
    for (uint32_t i = 0; i <= n_near; i++) {
        const neap_life *y = i < n_near ? &r->lives[r->near[i]] : NULL;
        int64_t above = y ? y->offset + y->size : r->base;
        int64_t below = y ? y->offset - x->size : most - most % r->options->alignment;
        if (above <= most)
            r->spots[n++].offset = above;
        if (below >= r->base && below <= most)
            r->spots[n++].offset = below;
    }
    r->work += (int64_t)n * n_near / 8;
    for (uint32_t i = 0; i < n; i++)
        r->spots[i].cost = cost_of(r, x, r->spots[i].offset, n_near);
    if (n > 0)
        qsort(r->spots, n, sizeof *r->spots, by_cost);
    return n;
}

/* Keeps x at this offset apart from others; the makespan, or INT64_MAX if that is not possible. */
static int64_t keep_apart(neap_retimer *r, const neap_life *x, int64_t offset, uint32_t n_near,
                          unsigned policy)
{
    for (uint32_t i = 0; i < n_near; i++) {
        const neap_life *y = &r->lives[r->near[i]];
        if (overlap(x, offset, y) && !part(r, x, y, policy))
            return INT64_MAX;
    }
    return neap_retimer_trace(r);
}

static void settle(neap_life *x, int64_t offset)
{
    x->offset = offset;
    x->placed = true;
}

/* Puts x at the offset; what cannot be kept apart from it must find another place. */
static void push_in(neap_retimer *r, neap_life *x, int64_t offset, uint32_t n_near,
                    uint32_t *n_queue)
{
    settle(x, offset);
    for (uint32_t i = 0; i < n_near; i++) {
        neap_life *y = &r->lives[r->near[i]];
        if (!overlap(x, offset, y) || part(r, x, y, 0))
            continue;
        y->placed = false;
        y->weight++;
        r->queue[(*n_queue)++] = r->near[i];
    }
    r->makespan = neap_retimer_trace(r);
}

/* Places x where least time is lost. False if it is larger than the arena. */
static bool place(neap_retimer *r, neap_life *x, uint32_t *n_queue)
{
    uint32_t n_near = find_near(r, x), n = find_spots(r, x, n_near);
    int64_t least = INT64_MAX, offset = 0;
    unsigned best = 0;
    if (n == 0)
        return false;
    if (r->spots[0].cost <= 0) {
        settle(x, r->spots[0].offset);
        return true;
    }
    neap_retimer_mark(r);
    for (uint32_t i = 0; i < n && i < TRIED && r->spots[i].cost < HARD && least > r->makespan; i++)
        for (unsigned policy = 0; policy < POLICIES && least > r->makespan; policy++) {
            int64_t makespan = keep_apart(r, x, r->spots[i].offset, n_near, policy);
            neap_retimer_undo(r);
            if (makespan >= least)
                continue;
            least = makespan;
            offset = r->spots[i].offset;
            best = policy;
        }
    if (least == INT64_MAX) {
        push_in(r, x, r->spots[0].offset, n_near, n_queue);
    } else {
        r->makespan = keep_apart(r, x, offset, n_near, best);
        settle(x, offset);
    }
    return true;
}

/* Takes the largest from the queue. */
static neap_life *next(neap_retimer *r, uint32_t *n_queue)
{
    uint32_t best = 0, *queue = r->queue;
    for (uint32_t i = 1; i < *n_queue; i++)
        if (r->lives[queue[i]].size > r->lives[queue[best]].size)
            best = i;
    uint32_t found = queue[best];
    queue[best] = queue[--*n_queue];
    return &r->lives[found];
}

bool neap_retimer_place(neap_retimer *r)
{
    uint32_t n_queue = 0, left = MOST_PLACES + 2 * r->n_lives;
    for (uint32_t i = 0; i < r->n_lives; i++) {
        neap_life *x = &r->lives[i];
        if (neap_life_is_permanent(x))
            continue;
        x->placed = x->offset + x->size <= r->options->target;
        x->weight = 0;
        if (!x->placed)
            r->queue[n_queue++] = i;
    }
    for (; n_queue > 0 && left > 0 && !neap_retimer_spent(r); left--)
        if (!place(r, next(r, &n_queue), &n_queue))
            return false;
    return n_queue == 0;
}
