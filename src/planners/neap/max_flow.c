#include "planners/neap/max_flow.h"

enum { STOP_CHECK_EVERY = 1 << 12 }; /* nodes */

bool neap_max_flow_init(max_flow *f, neap_arena *arena, size_t nodes, size_t pairs)
{
    nodes++; /* labels go up to the number of nodes */
    *f = (max_flow){0};
    return NEAP_TAKE(arena, 2 * pairs, f->capacity) && NEAP_TAKE(arena, 2 * pairs, f->to) &&
           NEAP_TAKE(arena, 2 * pairs, f->residual) && NEAP_TAKE(arena, 2 * pairs, f->next) &&
           NEAP_TAKE(arena, nodes, f->first) && NEAP_TAKE(arena, nodes, f->current) &&
           NEAP_TAKE(arena, nodes, f->label) && NEAP_TAKE(arena, nodes, f->next_active) &&
           NEAP_TAKE(arena, nodes, f->queue) && NEAP_TAKE(arena, nodes, f->excess) &&
           NEAP_TAKE(arena, nodes, f->active) && NEAP_TAKE(arena, nodes, f->count);
}

uint32_t neap_max_flow_add_node(max_flow *f)
{
    f->first[f->n_nodes] = UINT32_MAX;
    return f->n_nodes++;
}

void neap_max_flow_reset(max_flow *f)
{
    f->n_nodes = f->n_arcs = 0;
    while (f->n_nodes < FLOW_FIRST_FREE)
        neap_max_flow_add_node(f);
}

static uint32_t add_directed(max_flow *f, uint32_t from, uint32_t to, int64_t capacity)
{
    uint32_t arc = f->n_arcs++;
    f->to[arc] = to;
    f->capacity[arc] = capacity;
    f->next[arc] = f->first[from];
    f->first[from] = arc;
    return arc;
}

uint32_t neap_max_flow_add_arc(max_flow *f, uint32_t from, uint32_t to, int64_t capacity)
{
    uint32_t arc = add_directed(f, from, to, capacity);
    add_directed(f, to, from, 0);
    return arc;
}

static void activate(max_flow *f, uint32_t v)
{
    uint32_t label = f->label[v];
    f->next_active[v] = f->active[label];
    f->active[label] = v;
    if (label > f->highest)
        f->highest = label;
}

/* Sets the labels to distances to the sink; n_nodes if the sink cannot be reached. */
static void relabel_all(max_flow *f)
{
    uint32_t n = f->n_nodes, head = 0, tail = 0;
    for (uint32_t v = 0; v <= n; v++) {
        f->label[v] = n;
        f->current[v] = f->first[v];
        f->active[v] = UINT32_MAX;
        f->count[v] = 0;
    }
    f->highest = 0;
    f->label[FLOW_SINK] = 0;
    f->queue[tail++] = FLOW_SINK;
    while (head < tail) {
        uint32_t v = f->queue[head++];
        for (uint32_t e = f->first[v]; e != UINT32_MAX; e = f->next[e]) {
            uint32_t u = f->to[e];
            if (f->label[u] < n || f->residual[e ^ 1] == 0 || u == FLOW_SOURCE)
                continue;
            f->label[u] = f->label[v] + 1;
            f->count[f->label[u]]++;
            f->queue[tail++] = u;
            if (f->excess[u] > 0)
                activate(f, u);
        }
    }
    f->total_work += f->work + n + f->n_arcs;
    f->work = 0;
}

static void push(max_flow *f, uint32_t v, uint32_t arc)
{
    uint32_t u = f->to[arc];
    int64_t amount = f->excess[v] < f->residual[arc] ? f->excess[v] : f->residual[arc];
    bool was_idle = f->excess[u] == 0;
    f->residual[arc] -= amount;
    f->residual[arc ^ 1] += amount;
    f->excess[v] -= amount;
    f->excess[u] += amount;
    if (was_idle && u != FLOW_SINK)
        activate(f, u);
}

/* Raises v to one above the lowest neighbour with residual capacity. */
static void relabel(max_flow *f, uint32_t v)
{
    uint32_t old = f->label[v], lowest = f->n_nodes;
    if (--f->count[old] == 0) { /* a gap: nodes with higher labels cannot reach the sink */
        while (f->highest > old)
            f->active[f->highest--] = UINT32_MAX;
        f->highest = old;
        f->label[v] = f->n_nodes;
        return;
    }
    for (uint32_t e = f->first[v]; e != UINT32_MAX; e = f->next[e]) {
        f->work++;
        if (f->residual[e] > 0 && f->label[f->to[e]] + 1 < lowest) {
            lowest = f->label[f->to[e]] + 1;
            f->current[v] = e;
        }
    }
    f->label[v] = lowest;
    f->count[lowest]++;
    f->work += 12;
}

/* Pushes until v has no excess or cannot reach the sink. */
static void discharge(max_flow *f, uint32_t v)
{
    while (f->excess[v] > 0 && f->label[v] < f->n_nodes) {
        uint32_t e = f->current[v];
        if (e == UINT32_MAX) {
            relabel(f, v);
        } else if (f->residual[e] > 0 && f->label[f->to[e]] + 1 == f->label[v]) {
            push(f, v, e);
            f->work++;
            if (f->residual[e] == 0)
                f->current[v] = f->next[e];
        } else {
            f->current[v] = f->next[e];
        }
    }
}

static void saturate_source(max_flow *f)
{
    for (uint32_t e = 0; e < f->n_arcs; e += 2) {
        f->residual[e] = f->capacity[e];
        f->residual[e + 1] = 0;
    }
    for (uint32_t v = 0; v < f->n_nodes; v++)
        f->excess[v] = 0;
    for (uint32_t e = f->first[FLOW_SOURCE]; e != UINT32_MAX; e = f->next[e])
        if (!(e & 1)) {
            f->excess[f->to[e]] += f->residual[e];
            f->residual[e ^ 1] += f->residual[e];
            f->residual[e] = 0;
        }
}

int64_t neap_max_flow_solve(max_flow *f, bool (*stop)(void *context), void *context, bool *stopped)
{
    uint64_t relabel_after = 6 * (uint64_t)f->n_nodes + f->n_arcs / 2, steps = 0;
    *stopped = false;
    saturate_source(f);
    relabel_all(f);
    while (!*stopped) {
        while (f->highest > 0 && f->active[f->highest] == UINT32_MAX)
            f->highest--;
        uint32_t v = f->active[f->highest];
        if (v == UINT32_MAX)
            break;
        f->active[f->highest] = f->next_active[v];
        discharge(f, v);
        if (f->work > relabel_after)
            relabel_all(f);
        *stopped = ++steps % STOP_CHECK_EVERY == 0 && stop && stop(context);
    }
    relabel_all(f);
    return f->excess[FLOW_SINK];
}

bool neap_max_flow_before_cut(const max_flow *f, uint32_t node)
{
    return f->label[node] >= f->n_nodes;
}
