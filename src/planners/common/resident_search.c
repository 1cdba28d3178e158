#include "planners/common/resident_search.h"

#include "base/checked.h"
#include "base/fail.h"
#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

/* ---- Sets of up to 128 ---- */

enum { MOST_BITS = 128, EDGES_PER_STATE = 100 };

typedef struct bits {
    uint64_t word[2];
} bits;

static bits bit_of(uint32_t i)
{
    bits b = {{0, 0}};
    b.word[i / 64] = UINT64_C(1) << (i % 64);
    return b;
}

static bits both(bits a, bits b)
{
    return (bits){{a.word[0] | b.word[0], a.word[1] | b.word[1]}};
}

static bits without(bits a, bits b)
{
    return (bits){{a.word[0] & ~b.word[0], a.word[1] & ~b.word[1]}};
}

static bool meets(bits a, bits b)
{
    return ((a.word[0] & b.word[0]) | (a.word[1] & b.word[1])) != 0;
}

static bool has_all(bits a, bits b)
{
    return ((b.word[0] & ~a.word[0]) | (b.word[1] & ~a.word[1])) == 0;
}

static bool equal(bits a, bits b)
{
    return a.word[0] == b.word[0] && a.word[1] == b.word[1];
}

/* ---- The graph in sets ---- */

typedef struct way { /* a variant worth having */
    int64_t ticks, workspace;
    uint32_t variant;
} way;

typedef struct storage {
    bits on_it;
    int64_t bytes;
} storage;

typedef struct move { /* an op */
    bits reads, writes;
    bits gives;  /* what a run leaves: values that matter, or its mark */
    bits bars;   /* marks with which it must not run: its own, if it updates state; else those of
                    the updates of what it reads */
    bits needed; /* itself and every op it needs, as a set of ops */
    int64_t least_ticks;
    uint32_t first_way, end_way; /* of those that are allowed; fastest, and largest, first */
    storage passed_on;           /* what goes if it runs in place; of 0 bytes: it does not */
} move;

typedef struct node {
    bits state;
    int64_t ticks, rest;  /* from the start; to the end, at least */
    uint32_t parent;      /* a node; NEAP_NONE: the start */
    uint32_t op, variant; /* that led here */
} node;

typedef struct entry { /* of the heap */
    int64_t whole;     /* ticks + rest when it was put there */
    int64_t rest;
    uint32_t node;
} entry;

typedef struct space {
    const planner *p;
    neap_allocator *allocator;
    neap_arena arena; /* of what the graph is made into */
    const neap_graph *graph;
    neap_diag *diag;
    bool in_place; /* ops may run in place */
    uint32_t n_ops, n_values, n_bits;
    uint32_t *bit;   /* per value: its bit; NEAP_NONE for inputs */
    uint32_t *maker; /* per bit: the op; n_bits */
    move *moves;     /* n_ops */
    way *ways;
    size_t n_ways;
    storage *storages; /* not those of inputs, nor empty ones */
    size_t n_storages;
    bits goal;

    /* Of one search. */
    int64_t cutoff;
    node *nodes;
    size_t n_nodes, node_capacity, most_nodes;
    uint32_t *table; /* open addressing: a node plus 1, or 0 */
    size_t table_size;
    entry *heap;
    size_t n_heap, heap_capacity;
    storage *loose; /* what could be freed at the move at hand, largest first; n_storages */
    size_t n_loose;
    uint64_t edges, most_edges, popped; /* over all searches */
    bool gave_up, stopped;
} space;

/* A value that an op reads or the end wants. */
static bool matters(const neap_graph *graph, uint32_t value)
{
    uint32_t n_readers;
    neap_graph_readers(graph, value, &n_readers);
    return n_readers > 0 || neap_graph_is_output(graph, value);
}

/* An update leaves its mark in any case: it runs once. */
static bool leaves_something(const neap_graph *graph, const neap_op *op)
{
    for (uint32_t i = 0; i < op->n_outputs; i++)
        if (matters(graph, op->outputs[i]) && op->n_updates == 0)
            return true;
    return false;
}

/* How many bits the graph takes. */
static uint64_t count_bits(const neap_graph *graph)
{
    uint64_t count = 0;
    for (uint32_t o = 0; o < neap_graph_op_count(graph); o++) {
        const neap_op *op = neap_graph_op(graph, o);
        count += op->n_outputs;
        count += leaves_something(graph, op) ? 0 : 1;
    }
    return count;
}

static int compare_ways(const void *left, const void *right)
{
    const way *a = left, *b = right;
    if (a->ticks != b->ticks)
        return a->ticks < b->ticks ? -1 : 1;
    if (a->workspace != b->workspace)
        return a->workspace < b->workspace ? -1 : 1;
    return a->variant < b->variant ? -1 : a->variant > b->variant;
}

/* The variants of an op, fastest first; one that is no smaller than a faster one is left out. */
static void add_ways(space *x, uint32_t o)
{
    const neap_op *op = neap_graph_op(x->graph, o);
    size_t first = x->n_ways, kept = first;
    for (uint32_t q = 0; q < op->n_variants; q++)
        x->ways[first + q] = (way){op->variants[q].ticks, op->variants[q].workspace, q};
    qsort(x->ways + first, op->n_variants, sizeof *x->ways, compare_ways);
    for (size_t w = first; w < first + op->n_variants; w++)
        if (kept == first || x->ways[w].workspace < x->ways[kept - 1].workspace)
            x->ways[kept++] = x->ways[w];
    x->n_ways = kept;
    x->moves[o].first_way = (uint32_t)first;
    x->moves[o].end_way = (uint32_t)kept;
    x->moves[o].least_ticks = x->ways[first].ticks;
}

static void add_move(space *x, uint32_t o)
{
    const neap_op *op = neap_graph_op(x->graph, o);
    move *m = &x->moves[o];
    m->needed = bit_of(o);
    for (uint32_t i = 0; i < op->n_outputs; i++) {
        uint32_t value = op->outputs[i];
        x->maker[x->n_bits] = o;
        x->bit[value] = x->n_bits;
        m->writes = both(m->writes, bit_of(x->n_bits));
        if (matters(x->graph, value))
            m->gives = both(m->gives, bit_of(x->n_bits));
        x->n_bits++;
    }
    if (!leaves_something(x->graph, op)) {
        bits mark = bit_of(x->n_bits);
        x->maker[x->n_bits++] = o;
        m->gives = both(m->gives, mark);
        m->bars = op->n_updates > 0 ? mark : m->bars;
        x->goal = both(x->goal, mark);
    }
    for (uint32_t i = 0; i < op->n_inputs; i++) {
        uint32_t maker = neap_graph_value(x->graph, op->inputs[i])->producer;
        if (maker == NEAP_NONE)
            continue;
        m->reads = both(m->reads, bit_of(x->bit[op->inputs[i]]));
        m->needed = both(m->needed, x->moves[maker].needed);
    }
    add_ways(x, o);
}

/* Readers of what an op overwrites run before it, other updates excepted. */
static void add_bars(space *x, uint32_t update)
{
    const neap_op *op = neap_graph_op(x->graph, update);
    for (uint32_t i = 0; i < op->n_updates; i++) {
        uint32_t owner = neap_graph_value(x->graph, op->updates[i])->storage;
        for (uint32_t o = 0; o < x->n_ops; o++) {
            const neap_op *reader = neap_graph_op(x->graph, o);
            for (uint32_t k = 0; k < reader->n_inputs && reader->n_updates == 0; k++)
                if (neap_graph_value(x->graph, reader->inputs[k])->storage == owner)
                    x->moves[o].bars = both(x->moves[o].bars, x->moves[update].bars);
        }
    }
}

/* The values on a storage. */
static bits values_on(const space *x, uint32_t owner)
{
    bits on = {{0, 0}};
    for (uint32_t v = 0; v < x->n_values; v++)
        if (neap_graph_value(x->graph, v)->storage == owner && x->bit[v] != NEAP_NONE)
            on = both(on, bit_of(x->bit[v]));
    return on;
}

static void add_storages(space *x)
{
    for (uint32_t s = 0; s < x->n_values; s++) {
        const neap_value *owner = neap_graph_value(x->graph, s);
        if (owner->storage != s || owner->producer == NEAP_NONE || owner->bytes == 0)
            continue;
        x->storages[x->n_storages++] = (storage){values_on(x, s), owner->bytes};
    }
}

/* In place, an op does without the storage of its input; nothing that is on it may be left, nor on
   the output's. */
static void add_in_place(space *x, uint32_t o)
{
    const neap_op *op = neap_graph_op(x->graph, o);
    uint32_t from = op->in_place_input, to = op->in_place_output;
    move *m = &x->moves[o];
    if (from == NEAP_NONE)
        return;
    uint32_t storage_id = neap_graph_value(x->graph, from)->storage;
    const neap_value *owner = neap_graph_value(x->graph, storage_id);
    bits on_it = values_on(x, storage_id);
    if (owner->producer == NEAP_NONE || neap_graph_value(x->graph, to)->storage != to ||
        owner->bytes != neap_graph_value(x->graph, to)->bytes || meets(on_it, m->writes) ||
        meets(without(on_it, bit_of(x->bit[from])), m->reads))
        return;
    m->passed_on = (storage){both(on_it, without(values_on(x, to), m->writes)), owner->bytes};
}

static neap_status open_space(space *x)
{
    uint32_t n_outputs;
    const uint32_t *outputs = neap_graph_outputs(x->graph, &n_outputs);
    size_t n_values = x->n_values, n_variants = 0;
    for (uint32_t o = 0; o < x->n_ops; o++)
        n_variants += neap_graph_op(x->graph, o)->n_variants;
    neap_arena_init(&x->arena, x->allocator);
    if (!NEAP_TAKE(&x->arena, n_values, x->bit) || !NEAP_TAKE(&x->arena, MOST_BITS, x->maker) ||
        !NEAP_TAKE(&x->arena, x->n_ops, x->moves) || !NEAP_TAKE(&x->arena, n_variants, x->ways) ||
        !NEAP_TAKE(&x->arena, n_values, x->storages) || !NEAP_TAKE(&x->arena, n_values, x->loose))
        return neap_fail_no_memory(x->diag);
    for (uint32_t v = 0; v < n_values; v++)
        x->bit[v] = NEAP_NONE;
    for (uint32_t o = 0; o < x->n_ops; o++)
        add_move(x, o);
    for (uint32_t o = 0; o < x->n_ops; o++)
        add_bars(x, o);
    add_storages(x);
    for (uint32_t o = 0; o < x->n_ops && x->in_place; o++)
        add_in_place(x, o);
    for (uint32_t i = 0; i < n_outputs; i++)
        if (x->bit[outputs[i]] != NEAP_NONE)
            x->goal = both(x->goal, bit_of(x->bit[outputs[i]]));
    return NEAP_OK;
}

static void close_space(space *x)
{
    neap_arena_clear(&x->arena);
    NEAP_DELETE(x->allocator, x->node_capacity, x->nodes);
    NEAP_DELETE(x->allocator, x->table_size, x->table);
    NEAP_DELETE(x->allocator, x->heap_capacity, x->heap);
}

/* The ticks of all ops that have to run from here: those of which nothing is left. */
static int64_t rest_of(const space *x, bits state)
{
    bits known = {{0, 0}};
    int64_t ticks = 0;
    for (uint32_t i = 0; i < x->n_bits; i++)
        if (meets(state, bit_of(i)))
            known = both(known, x->moves[x->maker[i]].needed);
    for (uint32_t o = 0; o < x->n_ops; o++)
        if (!meets(known, bit_of(o)))
            ticks += x->moves[o].least_ticks;
    return ticks;
}

/* ---- The heap: least whole first, then least rest ---- */

static bool before(const entry *a, const entry *b)
{
    if (a->whole != b->whole)
        return a->whole < b->whole;
    return a->rest != b->rest ? a->rest < b->rest : a->node < b->node;
}

static neap_status push(space *x, uint32_t index)
{
    const node *n = &x->nodes[index];
    NEAP_TRY(NEAP_RESERVE(x->allocator, x->n_heap + 1, &x->heap, &x->heap_capacity, x->diag));
    entry new = {n->ticks + n->rest, n->rest, index};
    size_t at = x->n_heap++;
    for (; at > 0 && before(&new, &x->heap[(at - 1) / 2]); at = (at - 1) / 2)
        x->heap[at] = x->heap[(at - 1) / 2];
    x->heap[at] = new;
    return NEAP_OK;
}

static entry pop(space *x)
{
    entry top = x->heap[0], last = x->heap[--x->n_heap];
    size_t at = 0;
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= x->n_heap)
            break;
        if (child + 1 < x->n_heap && before(&x->heap[child + 1], &x->heap[child]))
            child++;
        if (!before(&x->heap[child], &last))
            break;
        x->heap[at] = x->heap[child];
        at = child;
    }
    if (x->n_heap > 0)
        x->heap[at] = last;
    return top;
}

/* ---- The table of states ---- */

static size_t hash_of(bits state)
{
    uint64_t h = state.word[0] * UINT64_C(0x9e3779b97f4a7c15) ^
                 (state.word[1] + UINT64_C(0x7f4a7c15)) * UINT64_C(0xbf58476d1ce4e5b9);
    h ^= h >> 31;
    h *= UINT64_C(0x94d049bb133111eb);
    return (size_t)(h ^ h >> 29);
}

/* The place of a state in the table, or the free place where it belongs. */
static uint32_t *find(const space *x, bits state)
{
    size_t mask = x->table_size - 1, at = hash_of(state) & mask;
    while (x->table[at] != 0 && !equal(x->nodes[x->table[at] - 1].state, state))
        at = (at + 1) & mask;
    return &x->table[at];
}

/* Room for one more state, half of the table free. */
static neap_status reserve_state(space *x)
{
    size_t old = x->table_size, size = old ? 2 * old : 1024;
    NEAP_TRY(NEAP_RESERVE(x->allocator, x->n_nodes + 1, &x->nodes, &x->node_capacity, x->diag));
    if (2 * (x->n_nodes + 1) <= old)
        return NEAP_OK;
    uint32_t *table;
    NEAP_TRY(NEAP_NEW(x->allocator, size, &table, x->diag));
    NEAP_DELETE(x->allocator, old, x->table);
    x->table = table;
    x->table_size = size;
    for (size_t i = 0; i < x->n_nodes; i++)
        *find(x, x->nodes[i].state) = (uint32_t)i + 1;
    return NEAP_OK;
}

/* A way to a state, of a node's fields: taken if it is new or faster than the one known. */
static neap_status reach(space *x, const node *new)
{
    int64_t whole;
    if (++x->edges > x->most_edges)
        x->gave_up = true;
    NEAP_TRY(reserve_state(x));
    uint32_t *place = find(x, new->state);
    if (*place != 0) {
        node *old = &x->nodes[*place - 1];
        if (old->ticks <= new->ticks)
            return NEAP_OK;
        int64_t rest = old->rest;
        *old = *new;
        old->rest = rest;
        return push(x, *place - 1);
    }
    node n = *new;
    n.rest = rest_of(x, n.state);
    if (!neap_add_i64(n.ticks, n.rest, &whole) || whole >= x->cutoff)
        return NEAP_OK;
    if (x->n_nodes == x->most_nodes) {
        x->gave_up = true;
        return NEAP_OK;
    }
    x->nodes[x->n_nodes++] = n;
    *place = (uint32_t)x->n_nodes;
    return push(x, (uint32_t)x->n_nodes - 1);
}

/* ---- Moves ---- */

static int64_t bytes_of(const space *x, bits state)
{
    int64_t bytes = 0;
    for (size_t i = 0; i < x->n_storages; i++)
        if (meets(x->storages[i].on_it, state))
            bytes += x->storages[i].bytes;
    return bytes;
}

static int compare_storages(const void *left, const void *right)
{
    const storage *a = left, *b = right;
    if (a->bytes != b->bytes)
        return a->bytes > b->bytes ? -1 : 1;
    return memcmp(a->on_it.word, b->on_it.word, sizeof a->on_it.word);
}

/* What a run of an op may free, storage by storage; what goes if it is in place is one of them. */
static void find_loose(space *x, bits state, const move *m)
{
    bits touched = both(m->reads, m->writes);
    x->n_loose = 0;
    if (m->passed_on.bytes > 0)
        x->loose[x->n_loose++] = m->passed_on;
    for (size_t i = 0; i < x->n_storages; i++)
        if (meets(x->storages[i].on_it, state) && !meets(x->storages[i].on_it, touched))
            x->loose[x->n_loose++] = x->storages[i];
    qsort(x->loose, x->n_loose, sizeof *x->loose, compare_storages);
}

/* A run by one variant. */
typedef struct run {
    node to;        /* where it leads, before frees */
    int64_t excess; /* bytes that have to go */
    int64_t enough; /* if so many go, a faster variant fits as well */
} run;

/*
 * Every set of loose storages, from `at` on, that brings the sum of what goes to `excess` and of
 * which none could stay. They are largest first, so one could stay if and only if the last could.
 */
static neap_status free_and_run(space *x, const run *r, size_t at, int64_t sum, bits freed)
{
    neap_status status = NEAP_OK;
    int64_t left = 0;
    if (sum >= r->excess) {
        node to = r->to;
        to.state = without(to.state, freed);
        return sum >= r->enough ? NEAP_OK : reach(x, &to);
    }
    for (size_t i = at; i < x->n_loose; i++)
        left += x->loose[i].bytes;
    for (; at < x->n_loose && sum + left >= r->excess && status == NEAP_OK && !x->gave_up; at++) {
        status =
            free_and_run(x, r, at + 1, sum + x->loose[at].bytes, both(freed, x->loose[at].on_it));
        left -= x->loose[at].bytes;
    }
    return status;
}

static neap_status run_op(space *x, uint32_t from, uint32_t o)
{
    const move *m = &x->moves[o];
    const node start = x->nodes[from];
    if (!has_all(start.state, m->reads) || has_all(start.state, m->gives) ||
        meets(start.state, m->bars))
        return NEAP_OK;
    /* Of several outputs some may be there still: they go, and are made again. */
    bits after = both(start.state, m->writes);
    int64_t room = x->p->budget - neap_graph_base_bytes(x->graph) - bytes_of(x, after);
    run r = {.to = {.state = both(start.state, m->gives), .parent = from, .op = o},
             .enough = INT64_MAX};
    neap_status status = NEAP_OK;
    find_loose(x, start.state, m);
    for (uint32_t w = m->first_way; w < m->end_way && r.enough > 0 && status == NEAP_OK; w++) {
        if (!neap_add_i64(start.ticks, x->ways[w].ticks, &r.to.ticks) ||
            !neap_add_i64(x->ways[w].workspace, -room, &r.excess))
            continue;
        r.to.variant = x->ways[w].variant;
        status = free_and_run(x, &r, 0, 0, (bits){{0, 0}});
        r.enough = r.excess; /* not above 0: it fits as things are, and slower ones are no use */
    }
    return status;
}

/* ---- One search ---- */

/* *end is the node of the best plan; NEAP_NONE where there is none, or the search ended early. */
static neap_status find_path(space *x, uint32_t *end, int64_t *bound)
{
    node start = {.parent = NEAP_NONE};
    *end = NEAP_NONE;
    x->n_nodes = x->n_heap = 0;
    if (x->table)
        memset(x->table, 0, x->table_size * sizeof *x->table);
    neap_status status = reach(x, &start);
    while (status == NEAP_OK && x->n_heap > 0 && !x->gave_up) {
        entry top = pop(x);
        if (top.whole != x->nodes[top.node].ticks + top.rest)
            continue; /* a faster way was found since */
        *bound = top.whole;
        if (has_all(x->nodes[top.node].state, x->goal)) {
            *end = top.node;
            return NEAP_OK;
        }
        if (x->popped++ % 256 == 0) {
            neap_planner_report_search(x->p, -1, top.whole);
            x->stopped = neap_planner_stopped(x->p);
            if (x->stopped)
                return NEAP_OK;
        }
        for (uint32_t o = 0; o < x->n_ops && status == NEAP_OK && !x->gave_up; o++)
            status = run_op(x, top.node, o);
    }
    if (status == NEAP_OK && !x->gave_up)
        *bound = x->cutoff; /* all is searched */
    return status;
}

/* ---- Variants ---- */

/* An op that the path to `end` runs by several variants; NEAP_NONE if there is none. */
static uint32_t torn_op(const space *x, uint32_t end)
{
    for (uint32_t a = end; x->nodes[a].parent != NEAP_NONE; a = x->nodes[a].parent)
        for (uint32_t b = x->nodes[a].parent; x->nodes[b].parent != NEAP_NONE;
             b = x->nodes[b].parent)
            if (x->nodes[a].op == x->nodes[b].op && x->nodes[a].variant != x->nodes[b].variant)
                return x->nodes[a].op;
    return NEAP_NONE;
}

static neap_status take_path(space *x, uint32_t end, resident_answer *answer)
{
    size_t length = 0;
    for (uint32_t n = end; x->nodes[n].parent != NEAP_NONE; n = x->nodes[n].parent)
        length++;
    NEAP_TRY(NEAP_RESERVE(x->allocator, length, &answer->sequence, &answer->capacity, x->diag));
    answer->length = length;
    answer->ticks = x->nodes[end].ticks;
    for (uint32_t n = end; x->nodes[n].parent != NEAP_NONE; n = x->nodes[n].parent)
        answer->sequence[--length] = x->nodes[n].op;
    return NEAP_OK;
}

/* Looks for a plan faster than the best so far by the variants that are allowed. The recursion is
   as deep as there are ops with several. */
static neap_status search_variants(space *x, resident_answer *answer, int64_t *bound)
{
    uint32_t end;
    neap_status status = find_path(x, &end, bound);
    answer->states += x->n_nodes;
    if (status != NEAP_OK || end == NEAP_NONE)
        return status;
    uint32_t torn = torn_op(x, end);
    if (torn == NEAP_NONE) {
        status = take_path(x, end, answer);
        x->cutoff = answer->ticks;
        return status;
    }
    move *m = &x->moves[torn];
    uint32_t first = m->first_way, last = m->end_way;
    for (uint32_t w = first; w < last && status == NEAP_OK && !x->gave_up && !x->stopped; w++) {
        int64_t ignored;
        m->first_way = w;
        m->end_way = w + 1;
        m->least_ticks = x->ways[w].ticks;
        status = search_variants(x, answer, &ignored);
    }
    m->first_way = first;
    m->end_way = last;
    m->least_ticks = x->ways[first].ticks;
    return status;
}

neap_status neap_resident_search(const planner *p, bool in_place, size_t most_states,
                                 int64_t cutoff_ticks, resident_answer *answer, neap_diag *diag)
{
    int64_t bound = neap_graph_least_ticks(p->graph);
    *answer = (resident_answer){.outcome = RESIDENT_GAVE_UP, .ticks = -1, .bound_ticks = bound};
    space x = {.p = p,
               .allocator = p->allocator,
               .graph = p->graph,
               .diag = diag,
               .in_place = in_place,
               .n_ops = neap_graph_op_count(p->graph),
               .n_values = neap_graph_value_count(p->graph),
               .cutoff = cutoff_ticks,
               .most_nodes = most_states < NEAP_NONE - 1 ? most_states : NEAP_NONE - 1,
               .most_edges = (uint64_t)most_states * EDGES_PER_STATE};
    if (count_bits(p->graph) > MOST_BITS)
        return NEAP_OK;
    neap_status status = open_space(&x);
    if (status == NEAP_OK && neap_graph_base_bytes(p->graph) <= p->budget)
        status = search_variants(&x, answer, &bound);
    else
        bound = cutoff_ticks;
    if (status == NEAP_OK) {
        bool found = answer->ticks >= 0;
        answer->outcome = x.stopped   ? RESIDENT_STOPPED
                          : x.gave_up ? RESIDENT_GAVE_UP
                          : found     ? RESIDENT_SOLVED
                                      : RESIDENT_NONE;
        answer->bound_ticks = answer->outcome == RESIDENT_SOLVED ? answer->ticks : bound;
        if (answer->outcome == RESIDENT_NONE)
            answer->bound_ticks = cutoff_ticks;
        if (answer->outcome != RESIDENT_SOLVED)
            answer->ticks = -1;
    }
    close_space(&x);
    return status;
}

void neap_resident_answer_clear(const planner *p, resident_answer *answer)
{
    NEAP_DELETE(p->allocator, answer->capacity, answer->sequence);
    *answer = (resident_answer){.outcome = RESIDENT_GAVE_UP, .ticks = -1};
}
