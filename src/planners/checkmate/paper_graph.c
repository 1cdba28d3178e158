#include "planners/checkmate/paper_graph.h"

#include "base/fail.h"
#include "planners/common/batch_sizes.h"

bool neap_paper_graph_is_idle(const paper_graph *g, uint32_t storage)
{
    return g->users_start[storage] == g->users_start[storage + 1] && !g->stays[storage];
}

bool neap_paper_graph_is_wanted(const paper_graph *g, uint32_t value)
{
    uint32_t n_readers;
    neap_graph_readers(g->graph, value, &n_readers);
    return n_readers > 0 || neap_graph_is_output(g->graph, value);
}

/* Everything leads to the last op if each other op makes something that is read: follow readers,
   and end there. */
static bool is_terminal(const paper_graph *g)
{
    for (uint32_t k = 0; k < g->n; k++) {
        const neap_op *op = neap_graph_op(g->graph, k);
        bool is_read = false, is_output = false;
        for (uint32_t i = 0; i < op->n_outputs; i++) {
            uint32_t n_readers;
            neap_graph_readers(g->graph, op->outputs[i], &n_readers);
            is_read = is_read || n_readers > 0;
            is_output = is_output || neap_graph_is_output(g->graph, op->outputs[i]);
        }
        bool last = k + 1 == g->n;
        if (is_output != last || is_read == last)
            return false;
    }
    return g->n > 0;
}

/* ---- Sizes ---- */

static void measure(paper_graph *g, bool by_batch, const bool *is_fixed)
{
    const neap_graph *graph = g->graph;
    int64_t most_workspace = 0;
    g->base = by_batch ? 0 : neap_graph_fixed_bytes(graph);
    g->fixed = by_batch ? neap_graph_fixed_bytes(graph) : 0;
    for (uint32_t v = 0; v < g->n_values; v++) {
        const neap_value *value = neap_graph_value(graph, v);
        g->on_it[value->storage]++;
        g->stays[value->storage] |= neap_graph_is_output(graph, v);
        if (value->storage != v)
            continue;
        if (is_fixed[v])
            g->fixed += value->bytes;
        else if (value->producer == NEAP_NONE)
            g->base += value->bytes;
        else
            g->bytes[v] = value->bytes;
    }
    g->all = g->base;
    for (uint32_t v = 0; v < g->n_values; v++)
        g->all += g->bytes[v];
    for (uint32_t k = 0; k < g->n; k++) {
        const neap_op *op = neap_graph_op(graph, k);
        for (uint32_t q = 0; q < op->n_variants; q++)
            if (op->variants[q].workspace > most_workspace)
                most_workspace = op->variants[q].workspace;
    }
    g->all = most_workspace > INT64_MAX - g->all ? INT64_MAX : g->all + most_workspace;
}

/* ---- Edges ---- */

typedef struct edges {
    paper_graph *g;
    uint32_t *seen; /* per storage: one past the last op that has it */
    uint32_t count;
} edges;

/* Op k has to do with a storage that it does not make. */
static void add_edge(edges *e, uint32_t k, uint32_t storage)
{
    paper_graph *g = e->g;
    if (g->bytes[storage] == 0 || e->seen[storage] == k + 1 ||
        neap_graph_value(g->graph, storage)->producer == k)
        return;
    e->seen[storage] = k + 1;
    g->deps[e->count++] = storage;
    g->users_start[storage + 1]++;
}

static void collect_deps(edges *e)
{
    paper_graph *g = e->g;
    for (uint32_t k = 0; k < g->n; k++) {
        const neap_op *op = neap_graph_op(g->graph, k);
        g->deps_start[k] = e->count;
        for (uint32_t i = 0; i < op->n_inputs; i++)
            add_edge(e, k, neap_graph_value(g->graph, op->inputs[i])->storage);
        for (uint32_t i = 0; i < op->n_outputs; i++)
            add_edge(e, k, neap_graph_value(g->graph, op->outputs[i])->storage);
    }
    g->deps_start[g->n] = e->count;
}

/* USERS from DEPS; `next` is scratch, one entry per storage. */
static void collect_users(paper_graph *g, uint32_t *next)
{
    for (uint32_t s = 0; s < g->n_values; s++) {
        g->users_start[s + 1] += g->users_start[s];
        next[s] = g->users_start[s];
    }
    for (uint32_t k = 0; k < g->n; k++)
        for (uint32_t e = g->deps_start[k]; e < g->deps_start[k + 1]; e++)
            g->users[next[g->deps[e]]++] = k;
}

/* DEPS again, now with an op's own storages where it makes several values. They are not USERS. */
static void add_own(paper_graph *g, uint32_t *deps)
{
    uint32_t count = 0;
    for (uint32_t k = 0; k < g->n; k++) {
        const neap_op *op = neap_graph_op(g->graph, k);
        uint32_t begin = count;
        for (uint32_t e = g->deps_start[k]; e < g->deps_start[k + 1]; e++)
            deps[count++] = g->deps[e];
        for (uint32_t i = 0; op->n_outputs > 1 && i < op->n_outputs; i++)
            if (g->bytes[op->outputs[i]] > 0 && !neap_paper_graph_is_idle(g, op->outputs[i]))
                deps[count++] = op->outputs[i];
        g->deps_start[k] = begin;
    }
    g->deps_start[g->n] = count;
    g->deps = deps;
}

/* What an op touches, and its least workspace. */
static int64_t bytes_at(const paper_graph *g, uint32_t k)
{
    const neap_op *op = neap_graph_op(g->graph, k);
    int64_t bytes = g->base, workspace = op->variants[0].workspace;
    for (uint32_t q = 1; q < op->n_variants; q++)
        if (op->variants[q].workspace < workspace)
            workspace = op->variants[q].workspace;
    for (uint32_t e = g->deps_start[k]; e < g->deps_start[k + 1]; e++)
        if (neap_graph_value(g->graph, g->deps[e])->producer != k)
            bytes += g->bytes[g->deps[e]];
    for (uint32_t i = 0; i < op->n_outputs; i++)
        bytes += g->bytes[op->outputs[i]]; /* 0 of a view */
    return bytes + workspace;
}

neap_status neap_paper_graph_init(paper_graph *g, neap_arena *arena, const neap_graph *graph,
                                  bool by_batch, neap_diag *diag)
{
    *g = (paper_graph){
        .graph = graph, .n = neap_graph_op_count(graph), .n_values = neap_graph_value_count(graph)};
    size_t most = 0, n_values = g->n_values;
    uint32_t *deps, *scratch;
    bool *is_fixed;
    for (uint32_t k = 0; k < g->n; k++) {
        const neap_op *op = neap_graph_op(graph, k);
        most += (size_t)op->n_inputs + op->n_outputs;
    }
    if (!NEAP_TAKE(arena, n_values, g->bytes) || !NEAP_TAKE(arena, n_values, g->on_it) ||
        !NEAP_TAKE(arena, n_values, g->stays) || !NEAP_TAKE(arena, n_values, is_fixed) ||
        !NEAP_TAKE(arena, n_values, scratch) || !NEAP_TAKE(arena, n_values + 1, g->users_start) ||
        !NEAP_TAKE(arena, g->n + (size_t)1, g->deps_start) || !NEAP_TAKE(arena, most, g->deps) ||
        !NEAP_TAKE(arena, most, g->users) || !NEAP_TAKE(arena, most, deps))
        return neap_fail_no_memory(diag);
    if (by_batch)
        neap_batch_mark_fixed(graph, is_fixed);
    measure(g, by_batch, is_fixed);
    edges e = {.g = g, .seen = scratch};
    collect_deps(&e);
    collect_users(g, scratch);
    add_own(g, deps);
    g->terminal = is_terminal(g);
    for (uint32_t k = 0; k < g->n; k++)
        g->floor = bytes_at(g, k) > g->floor ? bytes_at(g, k) : g->floor;
    return NEAP_OK;
}
