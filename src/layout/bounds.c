/* Placing items, the bounds that follow, and undoing both (bounds.h). */
#include "layout/bounds.h"

#include "base/memory.h"

#include <string.h>

/* ---- Making it ---- */

/* The members of each section, and the seat of every item among them. */
static void seat_members(neap_bounds *b)
{
    const neap_sections *s = b->sections;
    size_t life = 0, first = 0;
    for (size_t k = 0; k < s->n_sections; k++) {
        b->n_members[k] = b->crossing[k] = 0;
        b->rest[k] = 0;
    }
    for (size_t i = 0; i < s->n_items; i++) {
        b->life[i] = life;
        life += s->items[i].end - s->items[i].begin;
        for (uint32_t k = s->items[i].begin; k < s->items[i].end; k++)
            b->n_members[k]++;
    }
    for (size_t k = 0; k < s->n_sections; k++) {
        b->first[k] = first;
        first += b->n_members[k];
        b->n_members[k] = 0;
    }
    for (size_t i = 0; i < s->n_items; i++) {
        const neap_item *x = &s->items[i];
        for (uint32_t k = x->begin; k < x->end; k++) {
            b->seat[b->life[i] + k - x->begin] = b->n_members[k];
            b->members[b->first[k] + b->n_members[k]++] = (uint32_t)i;
            b->rest[k] += x->size;
            b->crossing[k] += k + 1 < x->end;
        }
    }
    for (size_t k = 0; k < s->n_sections; k++)
        b->witness[k] = b->members[b->first[k]];
}

neap_status neap_bounds_init(neap_bounds *b, neap_allocator *allocator,
                             const neap_sections *sections, neap_diag *diag)
{
    size_t n = sections->n_items, m = sections->n_sections, lives = sections->n_lives;
    memset(b, 0, sizeof *b);
    b->allocator = allocator;
    b->sections = sections;
    neap_status status;
    if ((status = NEAP_NEW(allocator, n, &b->top, diag)) == NEAP_OK &&
        (status = NEAP_NEW(allocator, n, &b->low, diag)) == NEAP_OK &&
        (status = NEAP_NEW(allocator, n, &b->is_placed, diag)) == NEAP_OK &&
        (status = NEAP_NEW(allocator, n, &b->life, diag)) == NEAP_OK &&
        (status = NEAP_NEW(allocator, n, &b->placed, diag)) == NEAP_OK &&
        (status = NEAP_NEW(allocator, m, &b->rest, diag)) == NEAP_OK &&
        (status = NEAP_NEW(allocator, m, &b->witness, diag)) == NEAP_OK &&
        (status = NEAP_NEW(allocator, m, &b->crossing, diag)) == NEAP_OK &&
        (status = NEAP_NEW(allocator, m, &b->n_members, diag)) == NEAP_OK &&
        (status = NEAP_NEW(allocator, m, &b->first, diag)) == NEAP_OK &&
        (status = NEAP_NEW(allocator, lives, &b->members, diag)) == NEAP_OK &&
        (status = NEAP_NEW(allocator, lives, &b->seat, diag)) == NEAP_OK)
        seat_members(b);
    return status;
}

void neap_bounds_clear(neap_bounds *b)
{
    if (!b->sections)
        return;
    neap_allocator *allocator = b->allocator;
    size_t n = b->sections->n_items, m = b->sections->n_sections, lives = b->sections->n_lives;
    NEAP_DELETE(allocator, b->change_capacity, b->changes);
    NEAP_DELETE(allocator, lives, b->seat);
    NEAP_DELETE(allocator, lives, b->members);
    NEAP_DELETE(allocator, m, b->first);
    NEAP_DELETE(allocator, m, b->n_members);
    NEAP_DELETE(allocator, m, b->crossing);
    NEAP_DELETE(allocator, m, b->witness);
    NEAP_DELETE(allocator, m, b->rest);
    NEAP_DELETE(allocator, n, b->placed);
    NEAP_DELETE(allocator, n, b->life);
    NEAP_DELETE(allocator, n, b->is_placed);
    NEAP_DELETE(allocator, n, b->low);
    NEAP_DELETE(allocator, n, b->top);
    memset(b, 0, sizeof *b);
}

/* ---- Changes ---- */

/* Room for all that one call can change: top, low and the caller's of every item. */
neap_status neap_bounds_reserve(neap_bounds *b, neap_diag *diag)
{
    size_t most = 3 * b->sections->n_items;
    return NEAP_RESERVE(b->allocator, b->n_changes + most, &b->changes, &b->change_capacity, diag);
}

void neap_bounds_set(neap_bounds *b, int64_t *at, int64_t value)
{
    b->changes[b->n_changes++] = (neap_bounds_change){at, *at};
    *at = value;
}

neap_bounds_mark neap_bounds_here(const neap_bounds *b)
{
    return (neap_bounds_mark){b->n_changes, b->n_placed};
}

/* Moves a member behind the unplaced ones by swapping it with the last of those. */
static void take_out(neap_bounds *b, uint32_t item)
{
    const neap_item *x = &b->sections->items[item];
    uint32_t *seat = b->seat + b->life[item];
    for (uint32_t k = x->begin; k < x->end; k++, seat++) {
        uint32_t *members = b->members + b->first[k], last = --b->n_members[k];
        uint32_t other = members[last];
        members[*seat] = other;
        b->seat[b->life[other] + k - b->sections->items[other].begin] = *seat;
        members[last] = item;
        *seat = last;
        b->rest[k] -= x->size;
        b->crossing[k] -= k + 1 < x->end;
    }
    b->is_placed[item] = true;
    b->placed[b->n_placed++] = item;
}

/* In all its sections the item placed last is the first behind the unplaced ones. */
static void put_back(neap_bounds *b)
{
    uint32_t item = b->placed[--b->n_placed];
    const neap_item *x = &b->sections->items[item];
    for (uint32_t k = x->begin; k < x->end; k++) {
        b->n_members[k]++;
        b->rest[k] += x->size;
        b->crossing[k] += k + 1 < x->end;
    }
    b->is_placed[item] = false;
}

void neap_bounds_undo(neap_bounds *b, neap_bounds_mark mark)
{
    while (b->n_placed > mark.n_placed)
        put_back(b);
    while (b->n_changes > mark.n_changes) {
        const neap_bounds_change *c = &b->changes[--b->n_changes];
        *c->at = c->old;
    }
}

void neap_bounds_reset(neap_bounds *b)
{
    neap_bounds_undo(b, (neap_bounds_mark){0, 0});
    seat_members(b);
}

/* ---- Consequences ---- */

typedef struct range {
    uint32_t begin, end;
} range;

/* Is there an unplaced item low enough for all unplaced items of the section to fit? */
static bool find_witness(neap_bounds *b, uint32_t section)
{
    const uint32_t *members = b->members + b->first[section];
    uint32_t n = b->n_members[section], i = 0;
    int64_t most = b->capacity - b->rest[section];
    while (i < n && b->low[members[i]] > most)
        i++;
    b->work += i;
    if (i < n)
        b->witness[section] = members[i];
    return i < n || n == 0;
}

/* After changes of items that live within a range: does every section still fit? */
static bool sections_fit(neap_bounds *b, range r)
{
    b->work += r.end - r.begin;
    for (uint32_t k = r.begin; k < r.end; k++) {
        uint32_t item = b->witness[k];
        bool holds = !b->is_placed[item] && b->low[item] <= b->capacity - b->rest[k];
        if (!holds && !find_witness(b, k)) {
            b->tight = k;
            return false;
        }
    }
    return true;
}

static void widen(range *r, const neap_item *x)
{
    if (x->begin < r->begin)
        r->begin = x->begin;
    if (x->end > r->end)
        r->end = x->end;
}

static bool lift(neap_bounds *b, uint32_t item, int64_t height, range *r)
{
    const neap_item *x = &b->sections->items[item];
    if (b->top[item] >= height)
        return true;
    neap_bounds_set(b, &b->top[item], height);
    if (b->low[item] >= height)
        return true;
    neap_bounds_set(b, &b->low[item], height);
    widen(r, x);
    return height <= b->capacity - x->size;
}

/* Everything not yet placed that meets an item just placed now lies on it. */
static bool lift_neighbours(neap_bounds *b, uint32_t item, range *r)
{
    const neap_sections *s = b->sections;
    const neap_item *x = &s->items[item];
    int64_t height = b->top[item] + x->size;
    const uint32_t *members = b->members + b->first[x->begin];
    for (uint32_t i = 0; i < b->n_members[x->begin]; i++)
        if (!lift(b, members[i], height, r))
            return false;
    for (size_t i = s->first[x->begin + 1]; i < s->first[x->end]; i++)
        if (!b->is_placed[s->beginning[i]] && !lift(b, s->beginning[i], height, r))
            return false;
    b->work += b->n_members[x->begin] + (int64_t)(s->first[x->end] - s->first[x->begin + 1]);
    return true;
}

neap_status neap_bounds_place(neap_bounds *b, uint32_t item, bool *fits, neap_diag *diag)
{
    const neap_item *x = &b->sections->items[item];
    range r = {x->begin, x->end};
    neap_status status = neap_bounds_reserve(b, diag);
    if (status != NEAP_OK)
        return status;
    take_out(b, item);
    *fits =
        b->top[item] <= b->capacity - x->size && lift_neighbours(b, item, &r) && sections_fit(b, r);
    return NEAP_OK;
}

/* The least end of anything not yet placed that meets an item; INT64_MAX if nothing does. */
static int64_t least_support(neap_bounds *b, uint32_t item)
{
    const neap_sections *s = b->sections;
    const neap_item *x = &s->items[item];
    int64_t least = INT64_MAX;
    const uint32_t *members = b->members + b->first[x->begin];
    for (uint32_t i = 0; i < b->n_members[x->begin]; i++) {
        int64_t end = b->low[members[i]] + s->items[members[i]].size;
        if (members[i] != item && end < least)
            least = end;
    }
    for (size_t i = s->first[x->begin + 1]; i < s->first[x->end]; i++) {
        int64_t end = b->low[s->beginning[i]] + s->items[s->beginning[i]].size;
        if (!b->is_placed[s->beginning[i]] && end < least)
            least = end;
    }
    b->work += b->n_members[x->begin] + (int64_t)(s->first[x->end] - s->first[x->begin + 1]);
    return least;
}

neap_status neap_bounds_forbid(neap_bounds *b, uint32_t item, bool *fits, neap_diag *diag)
{
    const neap_item *x = &b->sections->items[item];
    neap_status status = neap_bounds_reserve(b, diag);
    if (status != NEAP_OK)
        return status;
    int64_t support = least_support(b, item);
    *fits = support <= b->capacity - x->size;
    if (!*fits)
        return NEAP_OK;
    neap_bounds_set(b, &b->low[item], support);
    *fits = sections_fit(b, (range){x->begin, x->end});
    return NEAP_OK;
}
