/*
 * The floor of a request: memory that no plan with addresses can do without.
 *
 * Everything that an op touches is in memory while it runs (src/graph/floor.c). With an alignment,
 * each storage begins at a multiple of it, so it takes its size rounded up; only the highest one
 * ends where its bytes do.
 */
#include "base/checked.h"
#include "base/fail.h"
#include "base/memory.h"
#include "solve/solution_internal.h"

/* What is in memory together: rounded sizes, and the most that rounding has added to one. */
typedef struct stack {
    int64_t bytes, slack;
} stack;

typedef struct scan {
    const neap_graph *graph;
    int64_t alignment;
    bool state_travels;
    uint32_t *seen; /* by storage: the last mark */
} scan;

/* Marks of storages: op o leaves o + 1. */
static const uint32_t AT_END = NEAP_NONE, ALWAYS = NEAP_NONE - 1;

static void add(stack *s, int64_t alignment, int64_t size)
{
    int64_t rest = size % alignment, more = rest == 0 ? 0 : alignment - rest;
    s->slack = more > s->slack ? more : s->slack;
    if (!neap_add_i64(s->bytes, more, &s->bytes) || !neap_add_i64(s->bytes, size, &s->bytes))
        s->bytes = INT64_MAX;
}

/* Adds a value's storage, unless it is always in memory or has this mark. */
static void add_value(const scan *x, stack *s, uint32_t value, uint32_t mark)
{
    uint32_t storage = neap_graph_value(x->graph, value)->storage;
    if (x->seen[storage] == ALWAYS || x->seen[storage] == mark)
        return;
    x->seen[storage] = mark;
    add(s, x->alignment, neap_graph_value(x->graph, storage)->bytes);
}

static void add_op(const scan *x, stack *s, uint32_t o)
{
    const neap_op *op = neap_graph_op(x->graph, o);
    if (neap_graph_can_run_in_place(x->graph, o)) /* the input is counted for it */
        x->seen[op->in_place_output] = o + 1;
    for (uint32_t i = 0; i < op->n_inputs; i++)
        add_value(x, s, op->inputs[i], o + 1);
    for (uint32_t i = 0; i < op->n_outputs; i++)
        add_value(x, s, op->outputs[i], o + 1);
}

static int64_t height(const stack *s)
{
    return s->bytes - s->slack;
}

static int64_t least_workspace(const neap_op *op)
{
    int64_t least = op->variants[0].workspace;
    for (uint32_t k = 1; k < op->n_variants; k++)
        least = op->variants[k].workspace < least ? op->variants[k].workspace : least;
    return least;
}

static void find_highest(const scan *x, int64_t *bytes, uint32_t *op)
{
    const neap_graph *graph = x->graph;
    uint32_t n_outputs;
    const uint32_t *outputs = neap_graph_outputs(graph, &n_outputs);
    stack base = {0};
    add(&base, x->alignment, neap_graph_fixed_bytes(graph));
    for (uint32_t v = 0; v < neap_graph_value_count(graph); v++) {
        const neap_value *value = neap_graph_value(graph, v);
        if (value->producer == NEAP_NONE && !(x->state_travels && value->state))
            add_value(x, &base, v, ALWAYS);
    }
    stack end = base;
    for (uint32_t i = 0; i < n_outputs; i++)
        add_value(x, &end, outputs[i], AT_END);
    *bytes = height(&end);
    *op = NEAP_NONE;
    for (uint32_t o = 0; o < neap_graph_op_count(graph); o++) {
        stack s = base;
        add_op(x, &s, o);
        add(&s, x->alignment, least_workspace(neap_graph_op(graph, o)));
        if (height(&s) > *bytes) {
            *bytes = height(&s);
            *op = o;
        }
    }
}

neap_status neap_request_floor(neap_allocator *allocator, const neap_request *request,
                               int64_t *bytes, uint32_t *op, neap_diag *diag)
{
    const neap_graph *graph = request->graph;
    int64_t live = neap_request_live_floor(request, op);
    uint32_t n_values = neap_graph_value_count(graph), aligned_op;
    *bytes = live;
    if (request->alignment <= 1)
        return NEAP_OK;
    scan x = {.graph = graph,
              .alignment = request->alignment,
              .state_travels = neap_request_moves_state(request)};
    NEAP_TRY(NEAP_NEW(allocator, n_values, &x.seen, diag));
    int64_t aligned;
    find_highest(&x, &aligned, &aligned_op);
    if (aligned > live) {
        *bytes = aligned;
        *op = aligned_op;
    }
    NEAP_DELETE(allocator, n_values, x.seen);
    return NEAP_OK;
}
