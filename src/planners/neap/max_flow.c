#include "planners/neap/max_flow.h"

#include "base/fail.h"

enum { STOP_CHECK_EVERY = 1 << 12 }; /* nodes */

void neap_max_flow_init(max_flow *f, neap_allocator *allocator)
{
    *f = (max_flow){.allocator = allocator, .n_nodes = FLOW_FIRST_FREE};
}

void neap_max_flow_clear(max_flow *f)
{
    neap_allocator *a = f->allocator;
    neap_columns_clear(&f->by_arc, a);
    neap_columns_clear(&f->by_node, a);
    neap_max_flow_init(f, a);
}

/* One more than asked for: labels go up to the number of nodes. */
static neap_status reserve_nodes(max_flow *f, size_t n, neap_diag *diag)
{
    return NEAP_RESERVE_COLUMNS(
        &f->by_node, f->allocator, n + 1, diag, NEAP_COLUMN(&f->first), NEAP_COLUMN(&f->current),
        NEAP_COLUMN(&f->label), NEAP_COLUMN(&f->next_active), NEAP_COLUMN(&f->queue),
        NEAP_COLUMN(&f->excess), NEAP_COLUMN(&f->active), NEAP_COLUMN(&f->count));
}

neap_status neap_max_flow_reset(max_flow *f, neap_diag *diag)
{
    f->n_nodes = FLOW_FIRST_FREE;
    f->n_arcs = 0;
    NEAP_TRY(reserve_nodes(f, f->n_nodes, diag));
    f->first[FLOW_SOURCE] = f->first[FLOW_SINK] = UINT32_MAX;
    return NEAP_OK;
}

neap_status neap_max_flow_add_node(max_flow *f, uint32_t *node, neap_diag *diag)
{
    NEAP_TRY(reserve_nodes(f, (size_t)f->n_nodes + 1, diag));
    *node = f->n_nodes++;
    f->first[*node] = UINT32_MAX;
    return NEAP_OK;
}

static void link_arc(max_flow *f, uint32_t arc, uint32_t from, uint32_t to, int64_t capacity)
{
    f->to[arc] = to;
    f->capacity[arc] = capacity;
    f->next[arc] = f->first[from];
    f->first[from] = arc;
}

neap_status neap_max_flow_add_arc(max_flow *f, uint32_t from, uint32_t to, int64_t capacity,
                                  uint32_t *arc, neap_diag *diag)
{
    NEAP_TRY(NEAP_RESERVE_COLUMNS(&f->by_arc, f->allocator, (size_t)f->n_arcs + 2, diag,
                                  NEAP_COLUMN(&f->capacity), NEAP_COLUMN(&f->to),
                                  NEAP_COLUMN(&f->residual), NEAP_COLUMN(&f->next)));
    if (arc)
        *arc = f->n_arcs;
    link_arc(f, f->n_arcs, from, to, capacity);
    link_arc(f, f->n_arcs + 1, to, from, 0);
    f->n_arcs += 2;
    return NEAP_OK;
}

static void activate(max_flow *f, uint32_t v)
{
    uint32_t label = f->label[v];
    f->next_active[v] = f->active[label];
    f->active[label] = v;
    if (label > f->highest)
        f->highest = label;
}

/* Labels become distances to the sink; n_nodes where there is no way. */
static void relabel_all(max_flow *f)
{
    uint32_t n = f->n_nodes, head = 0, tail = 0;
    for (uint32_t v = 0; v < n; v++) {
        f->label[v] = n;
        f->current[v] = f->first[v];
        f->active[v] = UINT32_MAX;
        f->count[v] = 0;
    }
    f->active[n] = UINT32_MAX;
    f->count[n] = 0;
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

/* No node has this label: nothing from above it reaches the sink any more. */
static void leave_gap(max_flow *f, uint32_t label, uint32_t v)
{
    for (uint32_t l = label + 1; l <= f->highest; l++)
        f->active[l] = UINT32_MAX;
    f->highest = label;
    f->label[v] = f->n_nodes;
}

/* To just above the lowest node that takes something. */
static void relabel(max_flow *f, uint32_t v)
{
    uint32_t lowest = f->n_nodes;
    if (--f->count[f->label[v]] == 0) {
        leave_gap(f, f->label[v], v);
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

/* Until v has no excess, or has no way to the sink. */
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
    uint64_t often = 6 * (uint64_t)f->n_nodes + f->n_arcs / 2, steps = 0;
    *stopped = false;
    saturate_source(f);
    relabel_all(f);
    for (;;) {
        while (f->highest > 0 && f->active[f->highest] == UINT32_MAX)
            f->highest--;
        uint32_t v = f->active[f->highest];
        if (v == UINT32_MAX)
            break;
        f->active[f->highest] = f->next_active[v];
        discharge(f, v);
        if (f->work > often)
            relabel_all(f);
        if (++steps % STOP_CHECK_EVERY == 0 && stop && stop(context)) {
            *stopped = true;
            return f->excess[FLOW_SINK];
        }
    }
    relabel_all(f);
    return f->excess[FLOW_SINK];
}

bool neap_max_flow_before_cut(const max_flow *f, uint32_t node)
{
    return f->label[node] >= f->n_nodes;
}
