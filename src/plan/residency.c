#include "plan/residency.h"

#include "base/fail.h"

neap_status neap_residency_fail(const neap_residency *r, const neap_step *step, size_t at,
                                const char *why)
{
    return neap_fail(r->diag, NEAP_INVALID, "%sstep %zu: %s %lu: %s", r->prefix, at,
                     neap_step_kind_name(step->kind), (unsigned long)step->id, why);
}

/* A graph's sizes sum up to less than 2^63, one workspace included. */
static void hold(neap_residency *r, uint32_t value)
{
    uint32_t storage = neap_graph_value(r->graph, value)->storage;
    r->resident[value] = true;
    if (r->holders[storage]++ > 0)
        return;
    r->bytes += neap_graph_value(r->graph, storage)->bytes;
    r->began[r->n_began++] = storage;
}

static void let_go(neap_residency *r, uint32_t value)
{
    uint32_t storage = neap_graph_value(r->graph, value)->storage;
    r->resident[value] = false;
    if (--r->holders[storage] > 0)
        return;
    r->bytes -= neap_graph_value(r->graph, storage)->bytes;
    r->ended = storage;
}

/* State values that are on the host at the start. */
static neap_status begin_on_host(neap_residency *r, const neap_plan *plan)
{
    size_t count;
    const uint32_t *values = neap_plan_host_at_start(plan, &count);
    for (size_t i = 0; i < count; i++) {
        if (values[i] >= neap_graph_value_count(r->graph) ||
            !neap_graph_value(r->graph, values[i])->state)
            return neap_fail(r->diag, NEAP_INVALID,
                             "%shost_at_start: value %lu is no state of the graph", r->prefix,
                             (unsigned long)values[i]);
        r->on_host[values[i]] = true;
    }
    return NEAP_OK;
}

neap_status neap_residency_init(neap_residency *r, neap_allocator *allocator,
                                const neap_graph *graph, const neap_plan *plan, const char *prefix,
                                neap_diag *diag)
{
    uint32_t n_values = neap_graph_value_count(graph);
    *r = (neap_residency){.graph = graph,
                          .prefix = prefix,
                          .diag = diag,
                          .bytes = neap_graph_fixed_bytes(graph),
                          .ended = NEAP_NONE,
                          .passed_on = NEAP_NONE};
    neap_arena_init(&r->arena, allocator);
    if (!NEAP_TAKE(&r->arena, n_values, r->resident) ||
        !NEAP_TAKE(&r->arena, n_values, r->on_host) ||
        !NEAP_TAKE(&r->arena, n_values, r->updated) ||
        !NEAP_TAKE(&r->arena, n_values, r->current) ||
        !NEAP_TAKE(&r->arena, neap_graph_op_count(graph), r->computed) ||
        !NEAP_TAKE(&r->arena, n_values, r->holders) || !NEAP_TAKE(&r->arena, n_values, r->began))
        return neap_fail_no_memory(diag);
    NEAP_TRY(begin_on_host(r, plan));
    for (uint32_t v = 0; v < n_values; v++)
        if (neap_graph_value(graph, v)->producer == NEAP_NONE && !r->on_host[v])
            hold(r, v);
    return NEAP_OK;
}

void neap_residency_clear(neap_residency *r)
{
    neap_arena_clear(&r->arena);
}

static uint32_t storage_of(const neap_residency *r, uint32_t value)
{
    return neap_graph_value(r->graph, value)->storage;
}

static bool reads_updated(const neap_residency *r, const neap_op *op)
{
    for (uint32_t i = 0; i < op->n_inputs; i++)
        if (r->updated[storage_of(r, op->inputs[i])])
            return true;
    return false;
}

static const char *update(neap_residency *r, uint32_t id, const neap_op *op)
{
    if (op->n_updates == 0)
        return reads_updated(r, op) ? "an input was updated before" : NULL;
    if (r->computed[id])
        return "it updates state and ran before";
    r->computed[id] = true;
    for (uint32_t i = 0; i < op->n_updates; i++)
        r->updated[storage_of(r, op->updates[i])] = true;
    return NULL;
}

/* Passes the input's storage on to the output; says why if that cannot be. */
static const char *pass_on(neap_residency *r, const neap_op *op)
{
    uint32_t from = op->in_place_input, to = op->in_place_output;
    if (from == NEAP_NONE || neap_graph_value(r->graph, from)->producer == NEAP_NONE)
        return "it cannot run in place";
    uint32_t storage = storage_of(r, from);
    if (r->holders[storage] != 1)
        return "its input shares its storage with another resident value";
    if (r->holders[storage_of(r, to)] > 0)
        return "the storage of its output is live already";
    for (uint32_t i = 0; i < op->n_outputs; i++)
        if (storage_of(r, op->outputs[i]) == storage)
            return "an output lies on the storage that it would write over";
    if (storage_of(r, to) != to ||
        neap_graph_value(r->graph, to)->bytes != neap_graph_value(r->graph, storage)->bytes)
        return "its input and its output differ in size";
    r->resident[from] = false;
    r->resident[to] = true;
    r->holders[storage] = 0;
    r->holders[to] = 1;
    r->passed_on = storage;
    return NULL;
}

static neap_status compute(neap_residency *r, const neap_step *step, size_t at)
{
    if (step->id >= neap_graph_op_count(r->graph))
        return neap_residency_fail(r, step, at, "there is no such op");
    const neap_op *op = neap_graph_op(r->graph, step->id);
    if (step->variant >= op->n_variants)
        return neap_residency_fail(r, step, at, "the op has no such variant");
    for (uint32_t i = 0; i < op->n_inputs; i++)
        if (!r->resident[op->inputs[i]])
            return neap_residency_fail(r, step, at, "an input is not resident");
    for (uint32_t i = 0; i < op->n_outputs; i++)
        if (r->resident[op->outputs[i]])
            return neap_residency_fail(r, step, at, "an output is resident already");
    const char *why = update(r, step->id, op);
    if (!why && step->in_place)
        why = pass_on(r, op);
    if (why)
        return neap_residency_fail(r, step, at, why);
    for (uint32_t i = 0; i < op->n_outputs; i++)
        if (!r->resident[op->outputs[i]])
            hold(r, op->outputs[i]);
    return NEAP_OK;
}

neap_status neap_residency_step(neap_residency *r, const neap_step *step, size_t at)
{
    r->n_began = 0;
    r->ended = r->passed_on = NEAP_NONE;
    if (step->kind == NEAP_COMPUTE)
        return compute(r, step, at);
    if (step->kind > NEAP_PREFETCH)
        return neap_residency_fail(r, step, at, "there is no such kind of step");
    if (step->id >= neap_graph_value_count(r->graph))
        return neap_residency_fail(r, step, at, "there is no such value");
    const neap_value *value = neap_graph_value(r->graph, step->id);
    if (value->producer == NEAP_NONE && !value->state)
        return neap_residency_fail(r, step, at, "it is an input, resident throughout");
    if (r->resident[step->id] == (step->kind == NEAP_PREFETCH))
        return neap_residency_fail(r, step, at,
                                   r->resident[step->id] ? "it is resident" : "it is not resident");
    bool current = r->on_host[step->id] && (!r->updated[value->storage] || r->current[step->id]);
    if (!current && (step->kind == NEAP_PREFETCH || (step->kind == NEAP_FREE && value->state)))
        return neap_residency_fail(r, step, at,
                                   r->on_host[step->id] ? "its copy on the host is out of date"
                                                        : "it has no copy on the host");
    if (step->kind == NEAP_FREE)
        let_go(r, step->id);
    else if (step->kind == NEAP_OFFLOAD)
        r->on_host[step->id] = true, r->current[step->id] = r->updated[value->storage];
    else
        hold(r, step->id);
    return NEAP_OK;
}
