/*
 * First fit by decreasing size, repeated with an improved order.
 *
 * One pass takes the instances in an order and puts each at the lowest address that is free during
 * its whole life. The order by decreasing size (then lifetime) is within a percent of the live peak
 * on nearly every training plan. Instances that end too high come earlier in the next pass (squeaky
 * wheel optimization: Joslin and Clements, JAIR 10, 1999), in two ways: first, all that end above
 * the bound move to the front; then, starting again, all that end at the best arena or above gain
 * weight, and instances are ordered by weight before size.
 *
 * A pass is O(n^2) at worst: every instance scans those placed before it, in order of address, up
 * to its gap.
 */
#include "base/memory.h"
#include "layout/place.h"

#include <stdlib.h>
#include <string.h>

/* Instances scanned, in all; the first pass is free. */
#define EFFORT (INT64_C(20) * 1000 * 1000)
/* Passes for each of the two ways to improve the order. */
#define PASSES 200
/* Instances placed between two looks at the clock. */
#define LOOK 512

/* What the pass has placed, sorted by offset: most of it is passed over for its time alone, so that
   stands by itself. */
typedef struct life {
    uint32_t begin, end;
} life;

typedef struct place {
    int64_t offset, top;
} place;

typedef struct ordered {
    uint32_t weight; /* how often it was in the way */
    size_t instance;
    int64_t size;
    size_t lifetime;
} ordered;

typedef struct search {
    const neap_placement_problem *problem;
    ordered *order, *spare;
    life *lives;
    place *places;
    int64_t *offsets; /* of the pass */
    int64_t effort;   /* left */
} search;

static int compare(const void *left, const void *right)
{
    const ordered *a = left, *b = right;
    if (a->weight != b->weight)
        return a->weight > b->weight ? -1 : 1;
    if (a->size != b->size)
        return a->size > b->size ? -1 : 1;
    if (a->lifetime != b->lifetime)
        return a->lifetime > b->lifetime ? -1 : 1;
    return (a->instance > b->instance) - (a->instance < b->instance);
}

static void order_by_size(search *s)
{
    for (size_t i = 0; i < s->problem->count; i++) {
        const neap_instance *x = &s->problem->instances[i];
        s->order[i] = (ordered){0, i, x->size, x->end - x->begin};
    }
    qsort(s->order, s->problem->count, sizeof *s->order, compare);
}

static void insert(search *s, size_t count, life when, place where)
{
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (s->places[middle].offset <= where.offset)
            low = middle + 1;
        else
            high = middle;
    }
    memmove(s->places + low + 1, s->places + low, (count - low) * sizeof *s->places);
    memmove(s->lives + low + 1, s->lives + low, (count - low) * sizeof *s->lives);
    s->places[low] = where;
    s->lives[low] = when;
}

/* Places all in order and returns the arena; INT64_MAX if it is cancelled. */
static int64_t pass(search *s)
{
    int64_t arena = 0;
    for (size_t k = 0; k < s->problem->count; k++) {
        size_t instance = s->order[k].instance;
        const neap_instance *x = &s->problem->instances[instance];
        life when = {(uint32_t)x->begin, (uint32_t)x->end};
        int64_t offset = 0;
        size_t i = 0;
        if (k % LOOK == LOOK - 1 && neap_placement_cancelled(s->problem))
            return INT64_MAX;
        for (; i < k; i++) {
            if ((s->lives[i].begin >= when.end) | (s->lives[i].end <= when.begin))
                continue;
            if (s->places[i].offset - offset >= x->size)
                break;
            if (s->places[i].top > offset)
                offset = s->places[i].top;
        }
        s->effort -= (int64_t)i;
        s->offsets[instance] = offset;
        insert(s, k, when, (place){offset, offset + x->size});
        if (offset + x->size > arena)
            arena = offset + x->size;
    }
    return arena;
}

static bool ends_at_or_above(const search *s, const ordered *o, int64_t level)
{
    return s->offsets[o->instance] + o->size >= level;
}

/* A stable partition: what ends above the bound comes first. */
static void move_to_front(search *s)
{
    size_t n = s->problem->count, count = 0;
    for (int high = 1; high >= 0; high--)
        for (size_t k = 0; k < n; k++)
            if (ends_at_or_above(s, &s->order[k], s->problem->target + 1) == high)
                s->spare[count++] = s->order[k];
    memcpy(s->order, s->spare, n * sizeof *s->order);
}

static void add_weight(search *s, int64_t level)
{
    for (size_t k = 0; k < s->problem->count; k++)
        if (ends_at_or_above(s, &s->order[k], level))
            s->order[k].weight++;
    qsort(s->order, s->problem->count, sizeof *s->order, compare);
}

static bool is_over(const search *s, const neap_placement *best)
{
    return best->arena <= s->problem->target || s->effort <= 0 ||
           neap_placement_cancelled(s->problem);
}

static void mend(search *s, bool by_weight, neap_placement *best)
{
    order_by_size(s);
    for (int i = 0; i < PASSES; i++) {
        int64_t arena = pass(s);
        if (arena < best->arena) {
            best->arena = arena;
            memcpy(best->offsets, s->offsets, s->problem->count * sizeof *s->offsets);
        }
        if (is_over(s, best))
            return;
        if (by_weight)
            add_weight(s, best->arena);
        else
            move_to_front(s);
    }
}

neap_status neap_place_first_fit(const neap_placement_problem *problem, neap_placement *best,
                                 neap_diag *diag)
{
    neap_allocator *allocator = problem->allocator;
    size_t n = problem->count;
    search s = {.problem = problem, .effort = EFFORT / 2};
    if (n == 0)
        return NEAP_OK;
    neap_status status = NEAP_NEW(allocator, n, &s.order, diag);
    if (status == NEAP_OK)
        status = NEAP_NEW(allocator, n, &s.spare, diag);
    if (status == NEAP_OK)
        status = NEAP_NEW(allocator, n, &s.lives, diag);
    if (status == NEAP_OK)
        status = NEAP_NEW(allocator, n, &s.places, diag);
    if (status == NEAP_OK)
        status = NEAP_NEW(allocator, n, &s.offsets, diag);
    if (status == NEAP_OK) {
        mend(&s, false, best);
        s.effort = EFFORT / 2;
        if (!is_over(&s, best))
            mend(&s, true, best);
    }
    NEAP_DELETE(allocator, n, s.offsets);
    NEAP_DELETE(allocator, n, s.places);
    NEAP_DELETE(allocator, n, s.lives);
    NEAP_DELETE(allocator, n, s.spare);
    NEAP_DELETE(allocator, n, s.order);
    return status;
}
