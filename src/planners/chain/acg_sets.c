#include "planners/chain/acg_sets.h"

#include "base/fail.h"
#include "base/memory.h"

#include <stdlib.h>

typedef struct builder {
    const neap_graph *graph;
    const least_peak_view *view;
    acg_sets *sets;
    bool divided;        /* whether to look inside stages */
    uint32_t *last_read; /* per storage: one past the last forward op that reads it */
    uint32_t *vertex;    /* per storage: its name, where it has one */
    /* The stage at hand: */
    uint32_t stage;
    uint32_t first_name;  /* of its inside */
    division_edge *edges; /* ends are names until numbered */
    size_t n_edges, capacity;
    bool *leaves; /* per name: has an edge to another */
    /* The layer at hand: ops first .. end - 1. */
    uint32_t first, end;
    uint32_t *reads, *makes; /* names, each once */
    uint32_t n_reads, n_makes;
    uint32_t *read_by; /* per name: one past the first op of the layer that was last seen to read it
                        */
} builder;

static uint32_t storage_of(const builder *b, uint32_t value)
{
    return neap_graph_value(b->graph, value)->storage;
}

static uint32_t source(const builder *b)
{
    return b->stage;
}

static uint32_t target(const builder *b)
{
    return b->stage + 1;
}

static const neap_stage *stage(const builder *b)
{
    return &b->view->chain.stages[b->stage];
}

/* ---- A layer ---- */

static void add_read(builder *b, uint32_t name)
{
    if (b->read_by[name] == b->first + 1)
        return;
    b->read_by[name] = b->first + 1;
    b->reads[b->n_reads++] = name;
}

/* The vertices of this stage that the layer reads; the source if it reads none. */
static void find_reads(builder *b)
{
    b->n_reads = 0;
    for (uint32_t o = b->first; o < b->end; o++) {
        const neap_op *op = neap_graph_op(b->graph, o);
        for (uint32_t i = 0; i < op->n_inputs; i++) {
            uint32_t name = b->vertex[storage_of(b, op->inputs[i])];
            if (name != NEAP_NONE && (name == source(b) || name >= b->first_name))
                add_read(b, name);
        }
    }
    if (b->n_reads == 0)
        add_read(b, source(b));
}

static bool is_resident(const builder *b, uint32_t storage)
{
    return b->view->chain.is_side[storage] || b->view->chain.is_carried[storage];
}

static void add_made(builder *b, uint32_t storage, uint32_t name)
{
    b->vertex[storage] = name;
    for (uint32_t i = 0; i < b->n_makes; i++)
        if (b->makes[i] == name)
            return;
    b->makes[b->n_makes++] = name;
}

static uint32_t new_name(builder *b, uint32_t storage)
{
    uint32_t name = b->sets->n_names++;
    b->sets->bytes[name] = neap_graph_value(b->graph, storage)->bytes;
    b->sets->storage[name] = storage;
    return name;
}

/*
 * Names what the layer makes for later ones; returns the bytes of the rest. If nothing is for later
 * ones, the last storage stands for the layer.
 */
static int64_t find_made(builder *b)
{
    int64_t rest = 0;
    uint32_t last = NEAP_NONE;
    b->n_makes = 0;
    for (uint32_t o = b->first; o < b->end; o++) {
        const neap_op *op = neap_graph_op(b->graph, o);
        for (uint32_t i = 0; i < op->n_outputs; i++) {
            uint32_t v = op->outputs[i];
            if (storage_of(b, v) != v || is_resident(b, v))
                continue;
            last = v;
            if (neap_stage_cuts(stage(b), v))
                add_made(b, v, target(b));
            else if (b->last_read[v] > b->end)
                add_made(b, v, new_name(b, v));
            else
                rest += neap_graph_value(b->graph, v)->bytes;
        }
    }
    if (b->n_makes == 0 && last != NEAP_NONE) {
        rest -= neap_graph_value(b->graph, last)->bytes;
        add_made(b, last, new_name(b, last));
    }
    return rest;
}

static neap_status add_edge(builder *b, uint32_t from, uint32_t to, int64_t bytes, neap_diag *diag)
{
    NEAP_TRY(NEAP_RESERVE(b->sets->arena.allocator, b->n_edges + 1, &b->edges, &b->capacity, diag));
    b->edges[b->n_edges++] = (division_edge){.from = from, .to = to, .bytes = bytes};
    b->leaves[from] = true;
    return NEAP_OK;
}

static neap_status add_layer(builder *b, neap_diag *diag)
{
    find_reads(b);
    int64_t rest = find_made(b);
    if (b->n_makes > 0 && b->n_reads > 1)
        b->sets->beside[b->makes[0]] += rest;
    for (uint32_t r = 0; r < b->n_reads; r++)
        for (uint32_t m = 0; m < b->n_makes; m++)
            NEAP_TRY(
                add_edge(b, b->reads[r], b->makes[m], b->n_reads == 1 && m == 0 ? rest : 0, diag));
    return NEAP_OK;
}

/* ---- A stage ---- */

static int by_ends(const void *a, const void *b)
{
    const division_edge *x = a, *y = b;
    if (x->from != y->from)
        return x->from > y->from ? 1 : -1;
    return (x->to > y->to) - (x->to < y->to);
}

/* Replaces names by numbers, the source first and the target last, and joins equal edges. */
static void number_edges(builder *b)
{
    uint32_t inside = b->sets->n_names - b->first_name;
    size_t kept = 0;
    for (size_t e = 0; e < b->n_edges; e++) {
        uint32_t *ends[] = {&b->edges[e].from, &b->edges[e].to};
        for (int i = 0; i < 2; i++)
            *ends[i] = *ends[i] == source(b)   ? 0
                       : *ends[i] == target(b) ? inside + 1
                                               : *ends[i] - b->first_name + 1;
    }
    qsort(b->edges, b->n_edges, sizeof *b->edges, by_ends);
    for (size_t e = 0; e < b->n_edges; e++) {
        if (kept > 0 && by_ends(&b->edges[kept - 1], &b->edges[e]) == 0)
            b->edges[kept - 1].bytes += b->edges[e].bytes;
        else
            b->edges[kept++] = b->edges[e];
    }
    b->n_edges = kept;
}

static neap_status divide_stage(builder *b, division **result, neap_diag *diag)
{
    uint32_t inside = b->sets->n_names - b->first_name, *names;
    if (!NEAP_TAKE(&b->sets->arena, (size_t)inside + 2, names))
        return neap_fail_no_memory(diag);
    names[0] = source(b);
    names[inside + 1] = target(b);
    for (uint32_t i = 0; i < inside; i++) {
        uint32_t name = b->first_name + i;
        names[i + 1] = name;
        b->sets->weight[name] = b->sets->bytes[name] + b->sets->beside[name];
        if (!b->leaves[name])
            NEAP_TRY(add_edge(b, name, target(b), 0, diag));
    }
    if (!b->leaves[source(b)] || b->n_edges == 0)
        NEAP_TRY(add_edge(b, source(b), target(b), 0, diag));
    number_edges(b);
    const closed_set set = {
        .n = inside + 2, .names = names, .edges = b->edges, .n_edges = (uint32_t)b->n_edges};
    return neap_division_build(&b->sets->list, &set, result, diag);
}

/* A stage without its inside: one segment with all that it makes, the cut excepted. */
static neap_status keep_whole(builder *b, division **result, neap_diag *diag)
{
    division *whole;
    if (!NEAP_TAKE(&b->sets->arena, 1, whole))
        return neap_fail_no_memory(diag);
    *whole =
        (division){.source = source(b), .target = target(b), .total = b->view->inner[b->stage + 1]};
    *result = whole;
    return neap_division_add(&b->sets->list, whole, diag);
}

static neap_status build_stage(builder *b, uint32_t s, division **result, neap_diag *diag)
{
    b->stage = s;
    if (!b->divided)
        return keep_whole(b, result, diag);
    b->first_name = b->sets->n_names;
    b->n_edges = 0;
    for (b->first = stage(b)->first_op; b->first < stage(b)->end_op; b->first = b->end) {
        b->end = b->first + 1;
        while (b->end < stage(b)->end_op && neap_graph_op(b->graph, b->end - 1)->inside_layer)
            b->end++;
        NEAP_TRY(add_layer(b, diag));
    }
    return divide_stage(b, result, diag);
}

/* ---- The row ---- */

/* The stages before the last as one LINEAR division; stages that are linear inside dissolve. */
static neap_status join(acg_sets *sets, division *const *stages, uint32_t n, division **result,
                        neap_diag *diag)
{
    division *row;
    uint32_t *vertices;
    size_t count = 0;
    for (uint32_t i = 0; i < n; i++)
        count += stages[i]->kind == DIVISION_LINEAR ? stages[i]->n_parts : 1;
    if (!NEAP_TAKE(&sets->arena, 1, row) || !NEAP_TAKE(&sets->arena, count, row->parts) ||
        !NEAP_TAKE(&sets->arena, count, vertices))
        return neap_fail_no_memory(diag);
    row->kind = DIVISION_LINEAR;
    row->target = n;
    row->vertices = vertices;
    for (uint32_t i = 0; i < n; i++) {
        division *s = stages[i];
        bool dissolves = s->kind == DIVISION_LINEAR;
        for (uint32_t k = 0; k < (dissolves ? s->n_parts : 1); k++) {
            if (k > 0)
                vertices[row->n_vertices++] = s->vertices[k - 1];
            row->parts[row->n_parts++] = dissolves ? s->parts[k] : s;
        }
        if (i + 1 < n)
            vertices[row->n_vertices++] = i + 1;
        row->total += s->total + (i + 1 < n ? sets->weight[i + 1] : 0);
    }
    *result = row;
    return neap_division_add(&sets->list, row, diag);
}

static neap_status build_row(builder *b, neap_diag *diag)
{
    uint32_t n = b->view->n;
    division **stages;
    if (!NEAP_TAKE(&b->sets->arena, (size_t)n + 1, stages))
        return neap_fail_no_memory(diag);
    for (uint32_t s = 0; s < b->view->chain.n_stages; s++) {
        NEAP_TRY(build_stage(b, s, &stages[s], diag));
        b->sets->weight[s + 1] += b->sets->beside[s + 1];
    }
    if (n > 0)
        NEAP_TRY(join(b->sets, stages, n, &b->sets->sets[b->sets->n_sets++], diag));
    if (b->view->chain.n_stages > 0)
        b->sets->sets[b->sets->n_sets++] = stages[n];
    return NEAP_OK;
}

static void name_cuts(builder *b)
{
    const neap_chain *chain = &b->view->chain;
    acg_sets *sets = b->sets;
    sets->n_names = b->view->n + 2;
    for (uint32_t i = 0; i <= b->view->n; i++)
        sets->bytes[i] = sets->weight[i] = b->view->d[i];
    for (uint32_t v = 0; v < neap_graph_value_count(b->graph); v++)
        b->vertex[v] = NEAP_NONE;
    for (uint32_t o = 0; o < chain->n_forward; o++) {
        const neap_op *op = neap_graph_op(b->graph, o);
        for (uint32_t i = 0; i < op->n_inputs; i++)
            b->last_read[storage_of(b, op->inputs[i])] = o + 1;
    }
}

neap_status neap_acg_sets_build(const planner *p, const least_peak_view *view, bool divided,
                                acg_sets *sets, neap_diag *diag)
{
    builder b = {.graph = p->graph, .view = view, .sets = sets, .divided = divided};
    size_t n_values = neap_graph_value_count(p->graph), names = n_values + view->n + 2;
    neap_arena arena;
    *sets = (acg_sets){0};
    neap_arena_init(&sets->arena, p->allocator);
    neap_arena_init(&arena, p->allocator);
    neap_status status = NEAP_OK;
    if (NEAP_TAKE(&sets->arena, names, sets->bytes) &&
        NEAP_TAKE(&sets->arena, names, sets->beside) &&
        NEAP_TAKE(&sets->arena, names, sets->weight) &&
        NEAP_TAKE(&sets->arena, names, sets->storage) && NEAP_TAKE(&arena, n_values, b.last_read) &&
        NEAP_TAKE(&arena, n_values, b.vertex) && NEAP_TAKE(&arena, names, b.leaves) &&
        NEAP_TAKE(&arena, names, b.reads) && NEAP_TAKE(&arena, names, b.makes) &&
        NEAP_TAKE(&arena, names, b.read_by)) {
        sets->list = (division_list){.arena = &sets->arena, .planner = p, .weight = sets->weight};
        name_cuts(&b);
        status = build_row(&b, diag);
    } else {
        status = neap_fail_no_memory(diag);
    }
    NEAP_DELETE(p->allocator, b.capacity, b.edges);
    neap_arena_clear(&arena);
    return status;
}

void neap_acg_sets_clear(acg_sets *sets)
{
    if (sets->list.arena)
        neap_division_clear(&sets->list);
    neap_arena_clear(&sets->arena);
}
