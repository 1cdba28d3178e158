#include "planners/neap/task_order.h"

bool neap_find_updaters(const neap_graph *graph, neap_arena *arena, uint32_t **updaters)
{
    uint32_t n_values = neap_graph_value_count(graph), *found;
    if (!NEAP_TAKE(arena, n_values, found))
        return false;
    for (uint32_t v = 0; v < n_values; v++)
        found[v] = NEAP_NONE;
    for (uint32_t o = 0; o < neap_graph_op_count(graph); o++) {
        const neap_op *op = neap_graph_op(graph, o);
        for (uint32_t i = 0; i < op->n_updates; i++)
            found[neap_graph_value(graph, op->updates[i])->storage] = o;
    }
    *updaters = found;
    return true;
}

/* ---- The order ---- */

/* An update that waits for another op. */
typedef struct wait {
    uint32_t update, next;
} wait;

typedef struct ordering {
    const neap_graph *graph;
    const uint32_t *updaters;
    neap_arena arena;
    uint32_t *missing;       /* by op with updates: ops that have to come first, by wait */
    uint32_t *waits, n_wait; /* by op: the first of the updates that wait for it */
    wait *entries;
    bool *listed;
    uint32_t *order, n;
} ordering;

static void add_wait(ordering *x, uint32_t update, uint32_t op)
{
    x->entries[x->n_wait] = (wait){update, x->waits[op]};
    x->waits[op] = x->n_wait++;
    x->missing[update]++;
}

/* What an op's input has to do with updates: an update waits for its producer, and the update of
   what another op reads waits for that op. NEAP_NONE: nothing. */
static uint32_t find_wait(const ordering *x, uint32_t o, uint32_t input, uint32_t *op)
{
    const neap_value *v = neap_graph_value(x->graph, input);
    bool updates = neap_graph_op(x->graph, o)->n_updates > 0;
    *op = updates ? v->producer : o;
    if (updates)
        return v->producer == NEAP_NONE ? NEAP_NONE : o;
    return x->updaters[v->storage];
}

/* Adds what updates wait for; returns how many entries that takes. */
static size_t find_waits(ordering *x, bool add)
{
    size_t count = 0;
    for (uint32_t o = 0; o < neap_graph_op_count(x->graph); o++) {
        const neap_op *op = neap_graph_op(x->graph, o);
        for (uint32_t i = 0; i < op->n_inputs; i++) {
            uint32_t first, update = find_wait(x, o, op->inputs[i], &first);
            count += update != NEAP_NONE;
            if (add && update != NEAP_NONE)
                add_wait(x, update, first);
        }
    }
    return count;
}

static bool prepare(ordering *x)
{
    uint32_t n = neap_graph_op_count(x->graph);
    if (!NEAP_TAKE(&x->arena, n, x->missing) || !NEAP_TAKE(&x->arena, n, x->waits) ||
        !NEAP_TAKE(&x->arena, n, x->listed) ||
        !NEAP_TAKE(&x->arena, find_waits(x, false), x->entries))
        return false;
    for (uint32_t o = 0; o < n; o++)
        x->waits[o] = NEAP_NONE;
    find_waits(x, true);
    return true;
}

/* Lists an op, and the updates that have waited for nothing else. */
static void list_op(ordering *x, uint32_t op)
{
    uint32_t next = x->n;
    if (x->listed[op])
        return;
    x->listed[op] = true;
    x->order[x->n++] = op;
    for (; next < x->n; next++)
        for (uint32_t w = x->waits[x->order[next]]; w != NEAP_NONE; w = x->entries[w].next) {
            uint32_t update = x->entries[w].update;
            if (--x->missing[update] > 0)
                continue;
            x->listed[update] = true;
            x->order[x->n++] = update;
        }
}

bool neap_task_order(const neap_graph *graph, const uint32_t *updaters, neap_allocator *allocator,
                     uint32_t *order)
{
    ordering x = {.graph = graph, .updaters = updaters, .order = order};
    neap_arena_init(&x.arena, allocator);
    bool ok = prepare(&x);
    /* An update has nothing to wait for any more at its own place in the graph. */
    for (uint32_t o = 0; o < neap_graph_op_count(graph) && ok; o++)
        list_op(&x, o);
    neap_arena_clear(&x.arena);
    return ok;
}
