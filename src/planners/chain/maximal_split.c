#include "planners/chain/maximal_split.h"

#include "base/arena.h"
#include "base/fail.h"
#include "base/memory.h"

#include <stdlib.h>

/* A component that nothing but i and j connects with the rest. */
typedef struct component {
    uint32_t i, j; /* i < j */
    uint32_t member, size;
} component;

typedef struct splitter {
    neap_allocator *allocator;
    const two_ends *graph;
    uint32_t n;
    uint32_t *first, *neighbor; /* undirected, by vertex; the ends are neighbours, before others */
    /* The search without vertex i, per vertex: */
    uint32_t *when, *parent, *low, *size, *next;
    uint32_t *order; /* the vertices as they were reached */
    bool *inside;    /* of a component */
    component *found;
    size_t n_found, capacity;
    uint32_t *group_of; /* per vertex: the index in `found` of the component that it is inside */
} splitter;

static bool take(splitter *s, neap_arena *arena)
{
    size_t n = s->n, ends = 2 * ((size_t)s->graph->n_edges + 1);
    return NEAP_TAKE(arena, n + 1, s->first) && NEAP_TAKE(arena, ends, s->neighbor) &&
           NEAP_TAKE(arena, n, s->when) && NEAP_TAKE(arena, n, s->parent) &&
           NEAP_TAKE(arena, n, s->low) && NEAP_TAKE(arena, n, s->size) &&
           NEAP_TAKE(arena, n, s->next) && NEAP_TAKE(arena, n, s->order) &&
           NEAP_TAKE(arena, n, s->inside) && NEAP_TAKE(arena, n, s->group_of);
}

static void list_neighbors(splitter *s)
{
    const two_ends *g = s->graph;
    uint32_t last = s->n - 1;
    s->next[0]++;
    s->next[last]++;
    for (uint32_t e = 0; e < g->n_edges; e++) {
        s->next[g->from[e]]++;
        s->next[g->to[e]]++;
    }
    for (uint32_t v = 0; v < s->n; v++) {
        s->first[v + 1] = s->first[v] + s->next[v];
        s->next[v] = s->first[v];
    }
    s->neighbor[s->next[0]++] = last;
    s->neighbor[s->next[last]++] = 0;
    for (uint32_t e = 0; e < g->n_edges; e++) {
        s->neighbor[s->next[g->from[e]]++] = g->to[e];
        s->neighbor[s->next[g->to[e]]++] = g->from[e];
    }
}

/* ---- Components at pairs with i ---- */

static void reach(splitter *s, uint32_t v, uint32_t parent, uint32_t *count)
{
    s->when[v] = s->low[v] = *count;
    s->parent[v] = parent;
    s->size[v] = 1;
    s->next[v] = s->first[v];
    s->order[(*count)++] = v;
}

/* Depth first from `root` through all vertices except i; returns how many there are. */
static uint32_t search_without(splitter *s, uint32_t i, uint32_t root)
{
    uint32_t count = 0, v = root;
    for (uint32_t u = 0; u < s->n; u++)
        s->when[u] = NEAP_NONE;
    reach(s, root, NEAP_NONE, &count);
    while (v != NEAP_NONE) {
        if (s->next[v] == s->first[v + 1]) {
            v = s->parent[v];
            continue;
        }
        uint32_t w = s->neighbor[s->next[v]++];
        if (w == i || w == s->parent[v])
            continue;
        if (s->when[w] == NEAP_NONE) {
            reach(s, w, v, &count);
            v = w;
        } else if (s->when[w] < s->low[v]) {
            s->low[v] = s->when[w];
        }
    }
    for (uint32_t k = count; k-- > 1;) {
        uint32_t c = s->order[k], j = s->parent[c];
        s->low[j] = s->low[c] < s->low[j] ? s->low[c] : s->low[j];
        s->size[j] += s->size[c];
    }
    return count;
}

/*
 * Whether the tree below c, a child of j, is a component without i and j that contains no end. At
 * the root, the tree with the other end is none, nor is anything if i is that end: then all that
 * the pair separates is the whole graph.
 */
static bool hangs_at(const splitter *s, uint32_t i, uint32_t root, uint32_t c, uint32_t j)
{
    uint32_t last = s->n - 1;
    if (j == root && (i == 0 || i == last || c == 0))
        return false;
    return s->low[c] >= s->when[j];
}

static neap_status find_components(splitter *s, uint32_t i, neap_diag *diag)
{
    uint32_t root = i == s->n - 1 ? 0 : s->n - 1, count = search_without(s, i, root);
    s->inside[root] = false;
    for (uint32_t k = 1; k < count; k++) {
        uint32_t c = s->order[k], j = s->parent[c];
        bool hangs = hangs_at(s, i, root, c, j);
        s->inside[c] = s->inside[j] || hangs;
        if (!hangs || s->inside[j] || i > j) /* (j, i) is found without j */
            continue;
        NEAP_TRY(NEAP_RESERVE(s->allocator, s->n_found + 1, &s->found, &s->capacity, diag));
        s->found[s->n_found++] = (component){.i = i, .j = j, .member = c, .size = s->size[c]};
    }
    return NEAP_OK;
}

/* ---- The largest ---- */

static int by_size(const void *a, const void *b)
{
    const component *x = a, *y = b;
    if (x->size != y->size)
        return x->size > y->size ? -1 : 1;
    return x->member != y->member ? (x->member > y->member ? 1 : -1) : 0;
}

static int by_pair(const void *a, const void *b)
{
    const component *x = a, *y = b;
    if (x->i != y->i)
        return x->i > y->i ? 1 : -1;
    if (x->j != y->j)
        return x->j > y->j ? 1 : -1;
    return (x->member > y->member) - (x->member < y->member);
}

/* Marks all vertices of a component with `mark`; uses `order` as its queue. */
static void mark_inside(splitter *s, const component *c, uint32_t mark)
{
    uint32_t head = 0, tail = 0;
    s->order[tail++] = c->member;
    s->group_of[c->member] = mark;
    while (head < tail) {
        uint32_t v = s->order[head++];
        for (uint32_t k = s->first[v]; k < s->first[v + 1]; k++) {
            uint32_t w = s->neighbor[k];
            if (w != c->i && w != c->j && s->group_of[w] == NEAP_NONE) {
                s->group_of[w] = mark;
                s->order[tail++] = w;
            }
        }
    }
}

/* Keeps the components that are not inside another, sorted by pair, and marks their vertices. */
static void keep_largest(splitter *s)
{
    size_t kept = 0;
    for (uint32_t v = 0; v < s->n; v++)
        s->group_of[v] = NEAP_NONE;
    if (s->n_found > 0)
        qsort(s->found, s->n_found, sizeof *s->found, by_size);
    for (size_t k = 0; k < s->n_found; k++) {
        if (s->group_of[s->found[k].member] != NEAP_NONE)
            continue;
        mark_inside(s, &s->found[k], 0);
        s->found[kept++] = s->found[k];
    }
    s->n_found = kept;
    if (kept > 0)
        qsort(s->found, kept, sizeof *s->found, by_pair);
    for (uint32_t v = 0; v < s->n; v++)
        s->group_of[v] = NEAP_NONE;
    for (size_t k = 0; k < kept; k++)
        mark_inside(s, &s->found[k], (uint32_t)k);
}

/* ---- Groups ---- */

/* The first component with these ends, or n_found. */
static size_t find_pair(const splitter *s, uint32_t i, uint32_t j)
{
    size_t low = 0, high = s->n_found;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const component *c = &s->found[middle];
        if (c->i < i || (c->i == i && c->j < j))
            low = middle + 1;
        else
            high = middle;
    }
    return low < s->n_found && s->found[low].i == i && s->found[low].j == j ? low : s->n_found;
}

static uint32_t new_group(maximal_split *r, uint32_t i, uint32_t j)
{
    r->ends[0][r->n_groups] = i;
    r->ends[1][r->n_groups] = j;
    return r->n_groups++;
}

static void label_edges(splitter *s, maximal_split *r)
{
    uint32_t *group = s->low; /* per component; there are fewer than vertices */
    for (size_t k = 0; k < s->n_found; k++) {
        const component *c = &s->found[k];
        bool same = k > 0 && c[-1].i == c->i && c[-1].j == c->j;
        group[k] = same ? group[k - 1] : new_group(r, c->i, c->j);
    }
    for (uint32_t e = 0; e < s->graph->n_edges; e++) {
        uint32_t from = s->graph->from[e], to = s->graph->to[e];
        uint32_t inner = s->group_of[from] != NEAP_NONE ? from : to;
        if (s->group_of[inner] != NEAP_NONE) {
            r->label[e] = group[s->group_of[inner]];
            continue;
        }
        size_t pair = find_pair(s, from, to);
        r->label[e] = pair < s->n_found ? group[pair] : new_group(r, from, to);
    }
    for (uint32_t v = 1; v + 1 < s->n; v++)
        if (s->group_of[v] == NEAP_NONE)
            r->between[r->n_between++] = v;
}

neap_status neap_maximal_split_find(neap_allocator *allocator, const planner *p,
                                    const two_ends *graph, maximal_split *result, neap_diag *diag)
{
    splitter s = {.allocator = allocator, .graph = graph, .n = graph->n};
    neap_arena arena;
    neap_arena_init(&arena, allocator);
    neap_status status = take(&s, &arena) ? NEAP_OK : neap_fail_no_memory(diag);
    if (status == NEAP_OK)
        list_neighbors(&s);
    for (uint32_t i = 0; i < s.n && status == NEAP_OK && !result->stopped; i++) {
        result->stopped = p && neap_planner_stopped(p);
        status = find_components(&s, i, diag);
    }
    if (status == NEAP_OK && !result->stopped) {
        keep_largest(&s);
        label_edges(&s, result);
    }
    NEAP_DELETE(allocator, s.capacity, s.found);
    neap_arena_clear(&arena);
    return status;
}
