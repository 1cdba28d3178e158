#include "planners/common/late_updates.h"

#include "base/fail.h"

typedef struct delay {
    const neap_graph *graph;
    neap_arena arena;
    uint32_t *updater; /* by storage: the op that overwrites it, or NEAP_NONE */
    size_t *last;      /* by op with updates: one more than the last position of a reader */
    uint32_t *next;    /* by op: of those that wait for the same position */
    uint32_t *waiting; /* by position: the first of these */
} delay;

static uint32_t storage_of(const delay *x, uint32_t value)
{
    return neap_graph_value(x->graph, value)->storage;
}

static bool prepare(delay *x, size_t length)
{
    uint32_t n_values = neap_graph_value_count(x->graph), n_ops = neap_graph_op_count(x->graph);
    if (!NEAP_TAKE(&x->arena, n_values, x->updater) || !NEAP_TAKE(&x->arena, n_ops, x->last) ||
        !NEAP_TAKE(&x->arena, n_ops, x->next) || !NEAP_TAKE(&x->arena, length, x->waiting))
        return false;
    for (uint32_t v = 0; v < n_values; v++)
        x->updater[v] = NEAP_NONE;
    for (size_t i = 0; i < length; i++)
        x->waiting[i] = NEAP_NONE;
    for (uint32_t o = 0; o < n_ops; o++) {
        const neap_op *op = neap_graph_op(x->graph, o);
        for (uint32_t i = 0; i < op->n_updates; i++)
            x->updater[storage_of(x, op->updates[i])] = o;
    }
    return true;
}

static void find_last(delay *x, const uint32_t *sequence, size_t length)
{
    for (size_t at = 0; at < length; at++) {
        const neap_op *op = neap_graph_op(x->graph, sequence[at]);
        for (uint32_t i = 0; i < op->n_inputs && op->n_updates == 0; i++) {
            uint32_t update = x->updater[storage_of(x, op->inputs[i])];
            if (update != NEAP_NONE)
                x->last[update] = at + 1;
        }
    }
}

neap_status neap_planner_delay_updates(const planner *p, const uint32_t *sequence, size_t length,
                                       uint32_t *moved, neap_diag *diag)
{
    delay x = {.graph = p->graph};
    size_t n = 0;
    neap_arena_init(&x.arena, p->allocator);
    if (!prepare(&x, length)) {
        neap_arena_clear(&x.arena);
        return neap_fail_no_memory(diag);
    }
    find_last(&x, sequence, length);
    for (size_t at = 0; at < length; at++) {
        uint32_t o = sequence[at];
        if (x.last[o] > at + 1) {
            x.next[o] = x.waiting[x.last[o] - 1];
            x.waiting[x.last[o] - 1] = o;
        } else {
            moved[n++] = o;
        }
        for (uint32_t w = x.waiting[at]; w != NEAP_NONE; w = x.next[w])
            moved[n++] = w;
    }
    neap_arena_clear(&x.arena);
    return NEAP_OK;
}
