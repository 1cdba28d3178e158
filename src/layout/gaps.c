/*
 * Two treaps (Seidel and Aragon, Algorithmica 16, 1996) over the same gaps: by place, where each
 * node also knows the widest gap below it, and by size, then place.
 */
#include "layout/gaps.h"

#include "base/memory.h"

#include <string.h>

enum { BY_PLACE = 0, BY_SIZE = 1 };
enum { NONE = 0 };

struct neap_gap {
    int64_t begin, size;
    int64_t widest;       /* below this node and in it, in the tree by place */
    uint32_t priority;    /* parents have higher ones */
    uint32_t child[2][2]; /* [tree][left or right] */
};

neap_status neap_gaps_init(neap_gaps *gaps, neap_allocator *allocator, size_t most, neap_diag *diag)
{
    memset(gaps, 0, sizeof *gaps);
    gaps->allocator = allocator;
    /* One gap is added before another is removed when a block is given back. */
    gaps->capacity = most + 2;
    neap_status status = NEAP_NEW(allocator, gaps->capacity, &gaps->items, diag);
    if (status == NEAP_OK)
        neap_gaps_reset(gaps);
    return status;
}

void neap_gaps_clear(neap_gaps *gaps)
{
    NEAP_DELETE(gaps->allocator, gaps->capacity, gaps->items);
    memset(gaps, 0, sizeof *gaps);
}

void neap_gaps_reset(neap_gaps *gaps)
{
    gaps->roots[BY_PLACE] = gaps->roots[BY_SIZE] = NONE;
    gaps->tail = 0;
    gaps->random = 1;
    gaps->unused = NONE;
    for (size_t i = gaps->capacity - 1; i > 0; i--) {
        gaps->items[i].child[0][0] = gaps->unused;
        gaps->unused = (uint32_t)i;
    }
}

/* ---- The trees ---- */

static int64_t widest(const neap_gaps *gaps, uint32_t node)
{
    return node == NONE ? -1 : gaps->items[node].widest;
}

static void update(neap_gaps *gaps, int tree, uint32_t node)
{
    if (tree != BY_PLACE)
        return;
    neap_gap *g = &gaps->items[node];
    g->widest = g->size;
    for (int side = 0; side < 2; side++)
        if (widest(gaps, g->child[BY_PLACE][side]) > g->widest)
            g->widest = widest(gaps, g->child[BY_PLACE][side]);
}

static bool is_before(const neap_gap *a, const neap_gap *b, int tree)
{
    if (tree == BY_SIZE && a->size != b->size)
        return a->size < b->size;
    return a->begin < b->begin;
}

/* Splits into what comes before the pivot and the rest. */
static void split(neap_gaps *gaps, int tree, uint32_t node, const neap_gap *pivot, uint32_t *low,
                  uint32_t *high)
{
    if (node == NONE) {
        *low = *high = NONE;
        return;
    }
    uint32_t *child = gaps->items[node].child[tree];
    if (is_before(&gaps->items[node], pivot, tree)) {
        split(gaps, tree, child[1], pivot, &child[1], high);
        *low = node;
    } else {
        split(gaps, tree, child[0], pivot, low, &child[0]);
        *high = node;
    }
    update(gaps, tree, node);
}

static uint32_t merge(neap_gaps *gaps, int tree, uint32_t low, uint32_t high)
{
    if (low == NONE || high == NONE)
        return low == NONE ? high : low;
    neap_gap *l = &gaps->items[low], *h = &gaps->items[high];
    uint32_t top;
    if (l->priority > h->priority) {
        l->child[tree][1] = merge(gaps, tree, l->child[tree][1], high);
        top = low;
    } else {
        h->child[tree][0] = merge(gaps, tree, low, h->child[tree][0]);
        top = high;
    }
    update(gaps, tree, top);
    return top;
}

static void attach(neap_gaps *gaps, int tree, uint32_t *node, uint32_t added)
{
    neap_gap *g = &gaps->items[added];
    if (*node == NONE || g->priority > gaps->items[*node].priority) {
        split(gaps, tree, *node, g, &g->child[tree][0], &g->child[tree][1]);
        *node = added;
    } else {
        neap_gap *here = &gaps->items[*node];
        attach(gaps, tree, &here->child[tree][is_before(here, g, tree)], added);
    }
    update(gaps, tree, *node);
}

static void detach(neap_gaps *gaps, int tree, uint32_t *node, uint32_t gone)
{
    neap_gap *here = &gaps->items[*node];
    if (*node == gone) {
        *node = merge(gaps, tree, here->child[tree][0], here->child[tree][1]);
        return;
    }
    detach(gaps, tree, &here->child[tree][is_before(here, &gaps->items[gone], tree)], gone);
    update(gaps, tree, *node);
}

static void add_gap(neap_gaps *gaps, int64_t begin, int64_t end)
{
    if (begin >= end)
        return;
    uint32_t node = gaps->unused;
    gaps->unused = gaps->items[node].child[0][0];
    /* Knuth's MMIX generator: its high bits are good enough here. */
    gaps->random = gaps->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    gaps->items[node] =
        (neap_gap){.begin = begin, .size = end - begin, .priority = (uint32_t)(gaps->random >> 32)};
    for (int tree = BY_PLACE; tree <= BY_SIZE; tree++)
        attach(gaps, tree, &gaps->roots[tree], node);
}

static void remove_gap(neap_gaps *gaps, uint32_t node)
{
    for (int tree = BY_PLACE; tree <= BY_SIZE; tree++)
        detach(gaps, tree, &gaps->roots[tree], node);
    gaps->items[node].child[0][0] = gaps->unused;
    gaps->unused = node;
}

/* The gap with the highest begin at or below a place. */
static uint32_t find_at_or_below(const neap_gaps *gaps, int64_t place)
{
    uint32_t found = NONE;
    for (uint32_t node = gaps->roots[BY_PLACE]; node != NONE;) {
        bool below = gaps->items[node].begin <= place;
        if (below)
            found = node;
        node = gaps->items[node].child[BY_PLACE][below];
    }
    return found;
}

/* ---- Asking ---- */

static bool answer(const neap_gaps *gaps, uint32_t node, int64_t *begin, int64_t *end)
{
    if (node == NONE)
        return false;
    *begin = gaps->items[node].begin;
    *end = *begin + gaps->items[node].size;
    return true;
}

bool neap_gaps_tightest(const neap_gaps *gaps, int64_t size, int64_t *begin, int64_t *end)
{
    uint32_t found = NONE;
    for (uint32_t node = gaps->roots[BY_SIZE]; node != NONE;) {
        bool fits = gaps->items[node].size >= size;
        if (fits)
            found = node;
        node = gaps->items[node].child[BY_SIZE][!fits];
    }
    return answer(gaps, found, begin, end);
}

/* The outermost gap on a side (0 the lowest, 1 the highest) that is wide enough. */
static uint32_t find_outermost(const neap_gaps *gaps, int64_t size, int side)
{
    uint32_t node = gaps->roots[BY_PLACE];
    if (widest(gaps, node) < size)
        return NONE;
    for (;;) {
        const neap_gap *g = &gaps->items[node];
        if (widest(gaps, g->child[BY_PLACE][side]) >= size)
            node = g->child[BY_PLACE][side];
        else if (g->size >= size)
            return node;
        else
            node = g->child[BY_PLACE][1 - side];
    }
}

bool neap_gaps_lowest(const neap_gaps *gaps, int64_t size, int64_t *begin, int64_t *end)
{
    return answer(gaps, find_outermost(gaps, size, 0), begin, end);
}

bool neap_gaps_highest(const neap_gaps *gaps, int64_t size, int64_t *begin, int64_t *end)
{
    return answer(gaps, find_outermost(gaps, size, 1), begin, end);
}

/* ---- Taking and giving back ---- */

void neap_gaps_take(neap_gaps *gaps, int64_t begin, int64_t end)
{
    if (begin >= gaps->tail) {
        int64_t old_tail = gaps->tail;
        gaps->tail = end;
        add_gap(gaps, old_tail, begin);
        return;
    }
    uint32_t node = find_at_or_below(gaps, begin);
    int64_t gap_begin = gaps->items[node].begin, gap_end = gap_begin + gaps->items[node].size;
    remove_gap(gaps, node);
    add_gap(gaps, gap_begin, begin);
    add_gap(gaps, end, gap_end);
}

void neap_gaps_give(neap_gaps *gaps, int64_t begin, int64_t end)
{
    uint32_t below = find_at_or_below(gaps, begin);
    if (below != NONE && gaps->items[below].begin + gaps->items[below].size == begin) {
        begin = gaps->items[below].begin;
        remove_gap(gaps, below);
    }
    if (end == gaps->tail) {
        gaps->tail = begin;
        return;
    }
    uint32_t above = find_at_or_below(gaps, end);
    if (above != NONE && gaps->items[above].begin == end) {
        end += gaps->items[above].size;
        remove_gap(gaps, above);
    }
    add_gap(gaps, begin, end);
}
