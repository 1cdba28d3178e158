#include "planners/chain/division.h"

#include "base/fail.h"
#include "base/memory.h"
#include "planners/chain/maximal_split.h"

#include <stdlib.h>

/* A split takes vertices * edges steps: at most so many. And divisions are nested so deeply. */
enum { MOST_STEPS = 400000000, MOST_LEVELS = 2000 };

typedef struct divider {
    division_list *list;
    const closed_set *set;
    division_edge *edges; /* of the set, grouped by part as it is divided */
    uint32_t *number;     /* per vertex of the set: its number in the part at hand */
} divider;

/* A part on its way to being divided; its edges are edges[begin .. end - 1]. */
typedef struct part {
    uint32_t begin, end;
    uint32_t source, target; /* vertices of the set */
    uint32_t level;
} part;

/* How the edges of a part fall into smaller parts. */
typedef struct grouping {
    two_ends g;        /* the part's graph, with numbers of its own */
    uint32_t *vertex;  /* per number: the vertex of the set */
    uint32_t *label;   /* per edge: its group */
    uint32_t *ends[2]; /* per group: source and target, as numbers */
    uint32_t n_groups;
    uint32_t *between; /* vertices between the groups, as numbers, rising */
    uint32_t n_between;
    division_kind kind;
} grouping;

neap_status neap_division_add(division_list *list, division *item, neap_diag *diag)
{
    NEAP_TRY(
        NEAP_RESERVE(list->arena->allocator, list->count + 1, &list->items, &list->capacity, diag));
    list->items[list->count++] = item;
    return NEAP_OK;
}

void neap_division_clear(division_list *list)
{
    NEAP_DELETE(list->arena->allocator, list->capacity, list->items);
    list->items = NULL;
    list->count = list->capacity = 0;
}

/* ---- A part's graph ---- */

static int by_number(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* Numbers the vertices of a part in their order and copies its edges with these numbers. */
static bool number_part(divider *d, const part *p, neap_arena *arena, grouping *k)
{
    uint32_t count = 0, n_edges = p->end - p->begin;
    k->g.n_edges = n_edges;
    if (!NEAP_TAKE(arena, (size_t)n_edges * 2, k->vertex) ||
        !NEAP_TAKE(arena, n_edges, k->g.from) || !NEAP_TAKE(arena, n_edges, k->g.to) ||
        !NEAP_TAKE(arena, n_edges, k->label) || !NEAP_TAKE(arena, n_edges, k->ends[0]) ||
        !NEAP_TAKE(arena, n_edges, k->ends[1]))
        return false;
    for (uint32_t e = p->begin; e < p->end; e++) {
        k->vertex[count++] = d->edges[e].from;
        k->vertex[count++] = d->edges[e].to;
    }
    qsort(k->vertex, count, sizeof *k->vertex, by_number);
    for (uint32_t i = 0; i < count; i++)
        if (k->g.n == 0 || k->vertex[k->g.n - 1] != k->vertex[i])
            k->vertex[k->g.n++] = k->vertex[i];
    for (uint32_t i = 0; i < k->g.n; i++)
        d->number[k->vertex[i]] = i;
    for (uint32_t e = 0; e < n_edges; e++) {
        k->g.from[e] = d->number[d->edges[p->begin + e].from];
        k->g.to[e] = d->number[d->edges[p->begin + e].to];
    }
    return NEAP_TAKE(arena, k->g.n, k->between);
}

/* ---- The three ways ---- */

/*
 * A vertex is on every path if no edge leads past it: every vertex is on some path from source to
 * target, so one that were not before or behind it would need such an edge.
 */
static bool divide_linearly(grouping *k, uint32_t *farthest, uint32_t *group_of)
{
    uint32_t reach = 0;
    for (uint32_t e = 0; e < k->g.n_edges; e++)
        if (k->g.to[e] > farthest[k->g.from[e]])
            farthest[k->g.from[e]] = k->g.to[e];
    k->n_groups = 1;
    k->ends[0][0] = 0;
    for (uint32_t v = 0; v + 1 < k->g.n; v++) {
        if (v > 0 && reach <= v) {
            k->between[k->n_between++] = v;
            k->ends[1][k->n_groups - 1] = v;
            k->ends[0][k->n_groups++] = v;
        }
        group_of[v] = k->n_groups - 1;
        reach = farthest[v] > reach ? farthest[v] : reach;
    }
    k->ends[1][k->n_groups - 1] = k->g.n - 1;
    for (uint32_t e = 0; e < k->g.n_edges; e++)
        k->label[e] = group_of[k->g.from[e]];
    k->kind = DIVISION_LINEAR;
    return k->n_groups > 1;
}

static uint32_t find_root(uint32_t *root, uint32_t v)
{
    while (root[v] != v)
        v = root[v] = root[root[v]];
    return v;
}

/* Whether the part falls apart without its ends; an edge from end to end is a branch. */
static bool divide_into_branches(grouping *k, uint32_t *root, uint32_t *group_of)
{
    uint32_t last = k->g.n - 1;
    for (uint32_t v = 0; v < k->g.n; v++) {
        root[v] = v;
        group_of[v] = NEAP_NONE;
    }
    for (uint32_t e = 0; e < k->g.n_edges; e++)
        if (k->g.from[e] != 0 && k->g.to[e] != last)
            root[find_root(root, k->g.from[e])] = find_root(root, k->g.to[e]);
    k->n_groups = 0;
    for (uint32_t e = 0; e < k->g.n_edges; e++) {
        uint32_t inner = k->g.from[e] != 0 ? k->g.from[e] : k->g.to[e];
        uint32_t *group = &group_of[inner == last ? last : find_root(root, inner)];
        if (*group == NEAP_NONE) {
            k->ends[0][k->n_groups] = 0;
            k->ends[1][k->n_groups] = last;
            *group = k->n_groups++;
        }
        k->label[e] = *group;
    }
    k->kind = DIVISION_BRANCHES;
    return k->n_groups > 1;
}

static neap_status split(divider *d, grouping *k, neap_diag *diag)
{
    k->kind = DIVISION_SPLIT;
    maximal_split result = {.label = k->label, .ends = {k->ends[0], k->ends[1]}};
    result.between = k->between;
    NEAP_TRY(
        neap_maximal_split_find(d->list->arena->allocator, d->list->planner, &k->g, &result, diag));
    k->n_groups = result.n_groups;
    k->n_between = result.n_between;
    if (result.stopped) {
        d->list->stopped = true;
        k->kind = DIVISION_WHOLE;
    }
    return NEAP_OK;
}

static neap_status group_edges(divider *d, const part *p, neap_arena *arena, grouping *k,
                               neap_diag *diag)
{
    uint32_t *first, *second;
    if (!number_part(d, p, arena, k) || !NEAP_TAKE(arena, k->g.n, first) ||
        !NEAP_TAKE(arena, k->g.n, second))
        return neap_fail_no_memory(diag);
    if (divide_linearly(k, first, second) || divide_into_branches(k, first, second))
        return NEAP_OK;
    if ((int64_t)k->g.n * k->g.n_edges <= MOST_STEPS)
        return split(d, k, diag);
    k->kind = DIVISION_WHOLE;
    return NEAP_OK;
}

/* ---- The tree ---- */

static neap_status divide(divider *d, const part *p, division **result, neap_diag *diag);

/* Sorts the edges of a part by group; begins[g] is where group g begins, in the set's edges. */
static bool sort_edges(divider *d, const part *p, const grouping *k, neap_arena *arena,
                       uint32_t **begins)
{
    division_edge *sorted;
    uint32_t n_edges = p->end - p->begin;
    if (!NEAP_TAKE(arena, n_edges, sorted) || !NEAP_TAKE(arena, (size_t)k->n_groups + 1, *begins))
        return false;
    for (uint32_t e = 0; e < n_edges; e++)
        (*begins)[k->label[e] + 1]++;
    for (uint32_t g = 0; g < k->n_groups; g++)
        (*begins)[g + 1] += (*begins)[g];
    for (uint32_t e = 0; e < n_edges; e++)
        sorted[(*begins)[k->label[e]]++] = d->edges[p->begin + e];
    for (uint32_t e = 0; e < n_edges; e++)
        d->edges[p->begin + e] = sorted[e];
    for (uint32_t g = k->n_groups; g-- > 0;) /* each has moved to the next one's begin */
        (*begins)[g + 1] = p->begin + (*begins)[g];
    (*begins)[0] = p->begin;
    return true;
}

static neap_status divide_groups(divider *d, const part *p, const grouping *k, neap_arena *arena,
                                 division *result, neap_diag *diag)
{
    uint32_t *begins;
    if (!sort_edges(d, p, k, arena, &begins))
        return neap_fail_no_memory(diag);
    for (uint32_t g = 0; g < k->n_groups; g++) {
        const part smaller = {.begin = begins[g],
                              .end = begins[g + 1],
                              .source = k->vertex[k->ends[0][g]],
                              .target = k->vertex[k->ends[1][g]],
                              .level = p->level + 1};
        NEAP_TRY(divide(d, &smaller, &result->parts[g], diag));
        result->total += result->parts[g]->total;
    }
    return NEAP_OK;
}

/* The bytes inside a part that stays whole. */
static void add_all(const divider *d, const part *p, const grouping *k, division *result)
{
    for (uint32_t e = p->begin; e < p->end; e++)
        result->total += d->edges[e].bytes;
    for (uint32_t v = 1; v + 1 < k->g.n; v++)
        result->total += d->list->weight[d->set->names[k->vertex[v]]];
}

static neap_status divide_several(divider *d, const part *p, neap_arena *arena, division *result,
                                  neap_diag *diag)
{
    grouping k = {0};
    uint32_t *names;
    NEAP_TRY(group_edges(d, p, arena, &k, diag));
    if (k.kind == DIVISION_WHOLE || p->level >= MOST_LEVELS) {
        add_all(d, p, &k, result);
        return NEAP_OK;
    }
    result->kind = k.kind;
    result->n_parts = k.n_groups;
    result->n_vertices = k.n_between;
    if (!NEAP_TAKE(d->list->arena, k.n_groups, result->parts) ||
        !NEAP_TAKE(d->list->arena, k.n_between, names))
        return neap_fail_no_memory(diag);
    for (uint32_t i = 0; i < k.n_between; i++) {
        names[i] = d->set->names[k.vertex[k.between[i]]];
        result->total += d->list->weight[names[i]];
    }
    result->vertices = names;
    return divide_groups(d, p, &k, arena, result, diag);
}

static neap_status divide(divider *d, const part *p, division **result, neap_diag *diag)
{
    division *r;
    neap_arena arena;
    if (!NEAP_TAKE(d->list->arena, 1, r))
        return neap_fail_no_memory(diag);
    *r = (division){.source = d->set->names[p->source], .target = d->set->names[p->target]};
    *result = r;
    if (p->end - p->begin == 1) {
        r->total = d->edges[p->begin].bytes;
    } else {
        neap_arena_init(&arena, d->list->arena->allocator);
        neap_status status = divide_several(d, p, &arena, r, diag);
        neap_arena_clear(&arena);
        NEAP_TRY(status);
    }
    return neap_division_add(d->list, r, diag);
}

neap_status neap_division_build(division_list *list, const closed_set *set, division **result,
                                neap_diag *diag)
{
    divider d = {.list = list, .set = set};
    neap_arena arena;
    neap_arena_init(&arena, list->arena->allocator);
    neap_status status = NEAP_OK;
    if ((d.edges = neap_arena_copy(&arena, set->edges, set->n_edges, sizeof *set->edges)) != NULL &&
        NEAP_TAKE(&arena, set->n, d.number))
        status = divide(&d, &(part){.end = set->n_edges, .target = set->n - 1}, result, diag);
    else
        status = neap_fail_no_memory(diag);
    neap_arena_clear(&arena);
    return status;
}
