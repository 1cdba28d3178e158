/*
 * Tarjan's search, Hopcroft and Tarjan, "Algorithm 447: efficient algorithms for graph
 * manipulation" (1973), with a stack of its own instead of recursion: chains are as deep as they
 * are long.
 *
 * Vertices are numbered as they are met (`number`), and `low` is the least number that a vertex or
 * one found behind it has as a neighbour. A storage v with an op c found from it is an articulation
 * point if low[c] >= number[v]: nothing behind c touches what was there before v. The search of a
 * component begins at its last op, so v separates its maker from that op if the maker is among what
 * was found by way of such a c.
 */
#include "planners/checkmate/articulation.h"

#include "base/arena.h"
#include "base/fail.h"
#include "base/memory.h"

typedef struct search {
    neap_arena arena;
    const neap_graph *graph;
    const neap_chain *chain;
    bool *is_point;
    uint32_t n_forward, n_values;
    size_t n_vertices;   /* op o is vertex o, storage v is n_forward + v */
    size_t *first_touch; /* n_values + 1: where a storage's ops begin in ... */
    uint32_t *touches;   /* ... the ops that read or make a value on it */
    size_t *number;      /* per vertex; 0: not met */
    size_t *low;
    size_t *next_edge; /* how many of its edges have been followed */
    size_t *stack;     /* from the first vertex to the one at hand */
    size_t depth, met;
} search;

/* The storage at edge `i` of an op, its inputs first; NEAP_NONE if that is none of the graph's. */
static uint32_t storage_at(const search *s, const neap_op *op, size_t i)
{
    uint32_t value = i < op->n_inputs ? op->inputs[i] : op->outputs[i - op->n_inputs];
    uint32_t storage = neap_graph_value(s->graph, value)->storage;
    uint32_t maker = neap_graph_value(s->graph, storage)->producer;
    bool inside = maker != NEAP_NONE && maker < s->n_forward && !s->chain->is_side[storage];
    return inside ? storage : NEAP_NONE;
}

static size_t edge_count(const neap_op *op)
{
    return (size_t)op->n_inputs + op->n_outputs;
}

static void count_touches(search *s)
{
    for (uint32_t o = 0; o < s->n_forward; o++) {
        const neap_op *op = neap_graph_op(s->graph, o);
        for (size_t i = 0; i < edge_count(op); i++) {
            uint32_t storage = storage_at(s, op, i);
            if (storage != NEAP_NONE)
                s->first_touch[storage + 1]++;
        }
    }
    for (uint32_t v = 0; v < s->n_values; v++)
        s->first_touch[v + 1] += s->first_touch[v];
}

/* next_edge serves as the fill level here; the search finds it zero again. */
static void list_touches(search *s)
{
    for (uint32_t o = 0; o < s->n_forward; o++) {
        const neap_op *op = neap_graph_op(s->graph, o);
        for (size_t i = 0; i < edge_count(op); i++) {
            uint32_t storage = storage_at(s, op, i);
            if (storage != NEAP_NONE)
                s->touches[s->first_touch[storage] + s->next_edge[s->n_forward + storage]++] = o;
        }
    }
    for (uint32_t v = 0; v < s->n_values; v++)
        s->next_edge[s->n_forward + v] = 0;
}

/* The neighbour along the next edge of a vertex; false where all have been followed. */
static bool follow_edge(search *s, size_t vertex, size_t *neighbour)
{
    if (vertex >= s->n_forward) {
        size_t v = vertex - s->n_forward, at = s->first_touch[v] + s->next_edge[vertex];
        if (at == s->first_touch[v + 1])
            return false;
        s->next_edge[vertex]++;
        *neighbour = s->touches[at];
        return true;
    }
    const neap_op *op = neap_graph_op(s->graph, (uint32_t)vertex);
    while (s->next_edge[vertex] < edge_count(op)) {
        uint32_t storage = storage_at(s, op, s->next_edge[vertex]++);
        if (storage != NEAP_NONE) {
            *neighbour = s->n_forward + (size_t)storage;
            return true;
        }
    }
    return false;
}

static void meet(search *s, size_t vertex)
{
    s->number[vertex] = s->low[vertex] = ++s->met;
    s->stack[s->depth++] = vertex;
}

/* Takes the vertex on top of the stack away; it was found from the one below. */
static void leave(search *s)
{
    size_t child = s->stack[--s->depth];
    if (s->depth == 0)
        return;
    size_t parent = s->stack[s->depth - 1];
    if (s->low[child] < s->low[parent])
        s->low[parent] = s->low[child];
    if (parent < s->n_forward || s->low[child] < s->number[parent])
        return;
    uint32_t storage = (uint32_t)(parent - s->n_forward);
    /* Met after the child and before now: found by way of it. */
    uint32_t maker = neap_graph_value(s->graph, storage)->producer;
    if (s->number[maker] >= s->number[child])
        s->is_point[storage] = true;
}

static void search_from(search *s, size_t root)
{
    size_t neighbour;
    meet(s, root);
    while (s->depth > 0) {
        size_t vertex = s->stack[s->depth - 1];
        if (!follow_edge(s, vertex, &neighbour))
            leave(s);
        else if (s->number[neighbour] == 0)
            meet(s, neighbour);
        else if (s->number[neighbour] < s->low[vertex])
            s->low[vertex] = s->number[neighbour];
    }
}

static neap_status find_points(search *s, neap_diag *diag)
{
    size_t n = s->n_vertices, n_values = s->n_values;
    if (!NEAP_TAKE(&s->arena, n_values + 1, s->first_touch) ||
        !NEAP_TAKE(&s->arena, n, s->number) || !NEAP_TAKE(&s->arena, n, s->low) ||
        !NEAP_TAKE(&s->arena, n, s->next_edge) || !NEAP_TAKE(&s->arena, n, s->stack))
        return neap_fail_no_memory(diag);
    count_touches(s);
    if (!NEAP_TAKE(&s->arena, s->first_touch[n_values], s->touches))
        return neap_fail_no_memory(diag);
    list_touches(s);
    for (uint32_t o = s->n_forward; o-- > 0;)
        if (s->number[o] == 0)
            search_from(s, o);
    return NEAP_OK;
}

neap_status neap_articulation_find(neap_allocator *allocator, const neap_graph *graph,
                                   const neap_chain *chain, bool *is_point, neap_diag *diag)
{
    uint32_t n_values = neap_graph_value_count(graph);
    search s = {.graph = graph,
                .chain = chain,
                .is_point = is_point,
                .n_forward = chain->n_forward,
                .n_values = n_values,
                .n_vertices = (size_t)chain->n_forward + n_values};
    for (uint32_t v = 0; v < n_values; v++)
        is_point[v] = false;
    neap_arena_init(&s.arena, neap_allocator_or_system(allocator));
    neap_status status = find_points(&s, diag);
    neap_arena_clear(&s.arena);
    return status;
}
