/* The search of offset_search.h: decisions, the parts of a divided problem, backtracking. */
#include "layout/offset_search.h"

#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

/* How much noise changes the keys, at most: half of it up or down. */
#define NOISE      0.2
#define NONE       SIZE_MAX
#define NO_SECTION UINT32_MAX
#define NO_ITEM    UINT32_MAX

/* Items that nothing else meets any more. Open parts form a list, which is never changed, only
   continued: to go back is to forget the newer ones. */
struct neap_part {
    size_t first, count; /* in `items` */
    uint32_t begin, end; /* sections */
    size_t parent;       /* the decision that made it; NONE at the beginning */
    size_t next;         /* open part; NONE: the last */
    int64_t slack;       /* bytes that its tightest section could still take */
};

struct neap_decision {
    size_t part;
    uint32_t item;
    size_t n_parts;        /* when it was made */
    neap_bounds_mark mark; /* before the item was placed */
};

struct neap_ranked {
    double key[4];
    uint32_t item;
};

neap_status neap_offset_search_init(neap_offset_search *a, neap_allocator *allocator,
                                    const neap_sections *sections, neap_diag *diag)
{
    size_t n = sections->n_items;
    memset(a, 0, sizeof *a);
    a->allocator = allocator;
    neap_status status = neap_bounds_init(&a->bounds, allocator, sections, diag);
    if (status == NEAP_OK)
        status = NEAP_NEW(allocator, n, &a->rank, diag);
    if (status == NEAP_OK)
        status = NEAP_NEW(allocator, n, &a->items, diag);
    if (status == NEAP_OK)
        status = NEAP_NEW(allocator, sections->n_sections, &a->piece_of, diag);
    if (status == NEAP_OK)
        status = NEAP_NEW(allocator, sections->n_sections + 1, &a->piece, diag);
    if (status == NEAP_OK)
        status = NEAP_NEW(allocator, n, &a->spare, diag);
    if (status == NEAP_OK)
        status = NEAP_NEW(allocator, n, &a->keys, diag);
    if (status == NEAP_OK)
        status = NEAP_NEW(allocator, n, &a->decisions, diag);
    return status;
}

void neap_offset_search_clear(neap_offset_search *a)
{
    if (!a->bounds.sections)
        return;
    size_t n = a->bounds.sections->n_items;
    NEAP_DELETE(a->allocator, a->part_capacity, a->parts);
    NEAP_DELETE(a->allocator, n, a->decisions);
    NEAP_DELETE(a->allocator, n, a->keys);
    NEAP_DELETE(a->allocator, n, a->spare);
    NEAP_DELETE(a->allocator, a->bounds.sections->n_sections + 1, a->piece);
    NEAP_DELETE(a->allocator, a->bounds.sections->n_sections, a->piece_of);
    NEAP_DELETE(a->allocator, n, a->items);
    NEAP_DELETE(a->allocator, n, a->rank);
    neap_bounds_clear(&a->bounds);
}

/* ---- Ranks ---- */

static int compare(const void *left, const void *right)
{
    const neap_ranked *a = left, *b = right;
    for (int i = 0; i < 4; i++)
        if (a->key[i] != b->key[i])
            return a->key[i] > b->key[i] ? -1 : 1;
    return (a->item > b->item) - (a->item < b->item);
}

static double pressure_on(const neap_bounds *b, const neap_item *x)
{
    int64_t most = 0;
    for (uint32_t k = x->begin; k < x->end; k++)
        if (b->rest[k] > most)
            most = b->rest[k];
    return (double)most;
}

/* A factor near 1, always the same for an item in a run (splitmix64). */
static double noise_of(const neap_offset_search *a, uint32_t item)
{
    if (a->way.seed == 0)
        return 1;
    uint64_t x = a->way.seed * UINT64_C(0x9e3779b97f4a7c15) + item;
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return 1 + NOISE * ((double)(x >> 11) * 0x1p-53 - 0.5);
}

static neap_ranked keys_of(neap_offset_search *a, uint32_t item)
{
    const neap_item *x = &a->bounds.sections->items[item];
    double noise = noise_of(a, item);
    double life = (double)x->steps * noise, area = life * (double)x->size;
    double pressure = pressure_on(&a->bounds, x) * (a->way.seed % 2 == 1 ? noise : 1),
           weight = a->way.weight ? a->way.weight[item] : 0;
    a->bounds.work += x->end - x->begin;
    switch (a->way.order) {
    case NEAP_BY_PRESSURE_AREA:
        return (neap_ranked){{weight, pressure, area, life}, item};
    case NEAP_BY_PRESSURE_LIFE:
        return (neap_ranked){{weight, pressure, life, area}, item};
    default:
        return (neap_ranked){{weight, life, area, pressure}, item};
    }
}

static void rank_part(neap_offset_search *a, const neap_part *part)
{
    for (size_t i = 0; i < part->count; i++)
        a->keys[i] = keys_of(a, a->items[part->first + i]);
    qsort(a->keys, part->count, sizeof *a->keys, compare);
    for (size_t i = 0; i < part->count; i++)
        neap_bounds_set(&a->bounds, &a->rank[a->keys[i].item], (int64_t)i);
}

/* ---- Parts ---- */

static int64_t slack_of(const neap_bounds *b, const neap_part *part)
{
    int64_t least = INT64_MAX;
    for (uint32_t k = part->begin; k < part->end; k++)
        if (b->n_members[k] > 0 && b->capacity - b->low[b->witness[k]] - b->rest[k] < least)
            least = b->capacity - b->low[b->witness[k]] - b->rest[k];
    return least;
}

/* Gathers the items of each piece between moments that nothing crosses; `piece` is then, for each
   of them, where its items begin. */
static uint32_t gather_pieces(neap_offset_search *a, const neap_part *part)
{
    const neap_item *x = a->bounds.sections->items;
    uint32_t *items = a->items + part->first, n_pieces = 1;
    for (uint32_t k = part->begin; k < part->end; k++) {
        a->piece_of[k] = n_pieces - 1;
        n_pieces += k + 1 < part->end && a->bounds.crossing[k] == 0;
    }
    memset(a->piece, 0, (n_pieces + 1) * sizeof *a->piece);
    for (size_t i = 0; i < part->count; i++)
        a->piece[a->piece_of[x[items[i]].begin] + 1]++;
    for (uint32_t p = 0; p < n_pieces; p++)
        a->piece[p + 1] += a->piece[p];
    memcpy(a->spare, items, part->count * sizeof *items);
    for (size_t i = 0; i < part->count; i++)
        items[a->piece[a->piece_of[x[a->spare[i]].begin]]++] = a->spare[i];
    memmove(a->piece + 1, a->piece, n_pieces * sizeof *a->piece);
    a->piece[0] = 0;
    a->bounds.work += part->end - part->begin + (int64_t)part->count;
    return n_pieces;
}

/* Inserts a part into the list, after the tighter ones among those that `parent` made. */
static void open_part(neap_offset_search *a, neap_part part, size_t *list)
{
    size_t *at = list;
    while (*at != NONE && a->parts[*at].parent == part.parent && a->parts[*at].slack <= part.slack)
        at = &a->parts[*at].next;
    part.next = *at;
    a->parts[a->n_parts] = part;
    *at = a->n_parts++;
}

/* Makes a part of each piece that has items. */
static neap_status divide(neap_offset_search *a, neap_part whole, size_t *list, neap_diag *diag)
{
    uint32_t n_pieces = gather_pieces(a, &whole), k = whole.begin;
    neap_status status =
        NEAP_RESERVE(a->allocator, a->n_parts + n_pieces, &a->parts, &a->part_capacity, diag);
    for (uint32_t p = 0; p < n_pieces && status == NEAP_OK; p++) {
        neap_part part = {.begin = k, .parent = whole.parent};
        while (k < whole.end && a->piece_of[k] == p)
            k++;
        part.end = k;
        part.first = whole.first + a->piece[p];
        part.count = a->piece[p + 1] - a->piece[p];
        if (part.count == 0)
            continue;
        part.slack = slack_of(&a->bounds, &part);
        rank_part(a, &part);
        open_part(a, part, list);
    }
    return status;
}

/* The rest of a part after its last item has been placed. */
static neap_status continue_without(neap_offset_search *a, neap_part part, const neap_item *x,
                                    size_t *list, neap_diag *diag)
{
    part.parent = a->n_decisions - 1;
    *list = part.next;
    if (--part.count == 0)
        return NEAP_OK;
    for (uint32_t k = x->begin; k + 1 < x->end; k++)
        if (a->bounds.crossing[k] == 0)
            return divide(a, part, list, diag);
    neap_status status =
        NEAP_RESERVE(a->allocator, a->n_parts + 1, &a->parts, &a->part_capacity, diag);
    if (status == NEAP_OK) {
        a->parts[a->n_parts] = part;
        *list = a->n_parts++;
    }
    return status;
}

/* ---- Decisions ---- */

/* The least end that any item of a part would have now: no item can come next at or above it. */
static int64_t least_end(const neap_bounds *b, const uint32_t *items, size_t count)
{
    int64_t least = INT64_MAX;
    for (size_t i = 0; i < count; i++) {
        int64_t end = b->top[items[i]] + b->sections->items[items[i]].size;
        if (end < least)
            least = end;
    }
    return least;
}

static bool is_before(const neap_offset_search *a, uint32_t x, uint32_t y)
{
    const int64_t *top = a->bounds.top;
    if (!a->way.weight && top[x] != top[y])
        return top[x] < top[y];
    return a->rank[x] < a->rank[y];
}

/* Counts the items that can be the lowest of a section, up to `most`; *best is the first of those
   that can come next, if it is before. */
static uint32_t count_lowest(neap_offset_search *a, uint32_t section, int64_t limit, uint32_t most,
                             uint32_t *best)
{
    neap_bounds *b = &a->bounds;
    const uint32_t *members = b->members + b->first[section];
    int64_t highest = b->capacity - b->rest[section];
    uint32_t count = 0, i = 0;
    *best = NO_ITEM;
    for (; i < b->n_members[section] && count < most; i++) {
        uint32_t x = members[i];
        if (b->low[x] > highest)
            continue;
        count++;
        if (b->low[x] == b->top[x] && b->top[x] < limit &&
            (*best == NO_ITEM || is_before(a, x, *best)))
            *best = x;
    }
    b->work += i;
    return count;
}

/* The candidate of the section where fewest items can be the lowest. */
static uint32_t choose_by_section(neap_offset_search *a, const neap_part *part, int64_t limit)
{
    uint32_t chosen = NO_ITEM, fewest = UINT32_MAX;
    a->bounds.work += part->end - part->begin;
    for (uint32_t k = part->begin; k < part->end && fewest > 1; k++) {
        uint32_t best, count = count_lowest(a, k, limit, fewest, &best);
        if (best != NO_ITEM && count < fewest) {
            fewest = count;
            chosen = best;
        }
    }
    return chosen;
}

/* The first candidate to come next; moves it to the end of its part. */
static bool choose(neap_offset_search *a, const neap_part *part, uint32_t *chosen)
{
    const neap_bounds *b = &a->bounds;
    uint32_t *items = a->items + part->first;
    int64_t limit = least_end(b, items, part->count);
    size_t best = NONE;
    uint32_t only = a->way.by_section ? choose_by_section(a, part, limit) : NO_ITEM;
    for (size_t i = 0; i < part->count; i++) {
        uint32_t x = items[i];
        bool can = only == NO_ITEM ? b->low[x] == b->top[x] && b->top[x] < limit : x == only;
        if (can && (best == NONE || is_before(a, x, items[best])))
            best = i;
    }
    a->bounds.work += 2 * (int64_t)part->count;
    if (best == NONE)
        return false;
    *chosen = items[best];
    items[best] = items[part->count - 1];
    items[part->count - 1] = *chosen;
    return true;
}

/* Items that did not fit together are placed earlier in the next run. */
static void learn(neap_offset_search *a)
{
    const neap_bounds *b = &a->bounds;
    if (!a->way.weight || b->tight == NO_SECTION)
        return;
    const uint32_t *members = b->members + b->first[b->tight];
    for (uint32_t i = 0; i < b->n_members[b->tight]; i++)
        a->way.weight[members[i]] += 1 / (double)b->n_members[b->tight];
}

/* Takes the latest decision back and rules it out. Whether that alone exceeds the capacity: *fits.
 */
static neap_status revoke(neap_offset_search *a, bool *fits, neap_diag *diag)
{
    const neap_decision *d = &a->decisions[--a->n_decisions];
    neap_bounds_undo(&a->bounds, d->mark);
    a->n_parts = d->n_parts;
    return neap_bounds_forbid(&a->bounds, d->item, fits, diag);
}

/* Whether the run is over; once it is, it stays so. */
static bool is_spent(neap_offset_search *a)
{
    a->spent = a->spent || a->failures >= a->way.most_failures || a->bounds.work >= a->most_work ||
               (a->looks++ % 256 == 0 && neap_placement_cancelled(a->problem));
    return a->spent;
}

/*
 * Decides what is next in a part and continues the list of open parts. Where nothing can be, goes
 * back to the decision that made the part, and so on; *refuted if there is none.
 */
static neap_status decide(neap_offset_search *a, size_t *list, bool *refuted, neap_diag *diag)
{
    size_t part = *list;
    bool fits = true;
    neap_status status = NEAP_OK;
    while (status == NEAP_OK && !is_spent(a)) {
        uint32_t item;
        if (!fits || !choose(a, &a->parts[part], &item)) {
            size_t parent = a->parts[part].parent;
            *refuted = parent == NONE;
            if (*refuted)
                return NEAP_OK;
            part = a->decisions[parent].part;
            a->n_decisions = parent + 1;
            status = revoke(a, &fits, diag);
            continue;
        }
        a->decisions[a->n_decisions++] =
            (neap_decision){part, item, a->n_parts, neap_bounds_here(&a->bounds)};
        a->bounds.tight = NO_SECTION;
        status = neap_bounds_place(&a->bounds, item, &fits, diag);
        if (status == NEAP_OK && fits)
            return continue_without(a, a->parts[part], &a->bounds.sections->items[item], list,
                                    diag);
        a->failures++;
        learn(a);
        if (status == NEAP_OK)
            status = revoke(a, &fits, diag);
    }
    return status;
}

/* ---- The search ---- */

/* Is every section within the capacity before anything is placed? */
static bool can_fit(const neap_bounds *b)
{
    for (size_t k = 0; k < b->sections->n_sections; k++)
        if (b->rest[k] > b->capacity)
            return false;
    return true;
}

neap_status neap_offset_search_run(neap_offset_search *a, int64_t capacity,
                                   neap_offset_search_way way, int64_t most_work,
                                   const neap_placement_problem *problem,
                                   neap_offset_search_outcome *outcome, neap_diag *diag)
{
    const neap_sections *s = a->bounds.sections;
    size_t list = NONE;
    bool refuted = false;
    a->problem = problem;
    a->most_work = most_work;
    a->failures = a->looks = 0;
    a->spent = false;
    neap_bounds_reset(&a->bounds);
    a->bounds.capacity = capacity;
    a->bounds.work = 0;
    a->way = way;
    a->n_parts = a->n_decisions = 0;
    for (size_t i = 0; i < s->n_items; i++) /* earlier runs must not matter */
        a->items[i] = (uint32_t)i;
    *outcome = NEAP_REFUTED;
    if (!can_fit(&a->bounds))
        return NEAP_OK;
    neap_part whole = {.count = s->n_items, .end = (uint32_t)s->n_sections, .parent = NONE};
    neap_status status = neap_bounds_reserve(&a->bounds, diag);
    if (status == NEAP_OK && whole.count > 0)
        status = divide(a, whole, &list, diag);
    while (status == NEAP_OK && list != NONE && !refuted && !a->spent)
        status = decide(a, &list, &refuted, diag);
    *outcome = refuted ? NEAP_REFUTED : list == NONE ? NEAP_PLACED : NEAP_SPENT;
    return status;
}
