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

neap_status neap_residency_init(neap_residency *r, neap_allocator *allocator,
                                const neap_graph *graph, const char *prefix, neap_diag *diag)
{
    uint32_t n_values = neap_graph_value_count(graph);
    *r = (neap_residency){.graph = graph,
                          .prefix = prefix,
                          .diag = diag,
                          .bytes = neap_graph_fixed_bytes(graph),
                          .ended = NEAP_NONE};
    neap_arena_init(&r->arena, allocator);
    if (!NEAP_TAKE(&r->arena, n_values, r->resident) ||
        !NEAP_TAKE(&r->arena, n_values, r->on_host) ||
        !NEAP_TAKE(&r->arena, n_values, r->holders) || !NEAP_TAKE(&r->arena, n_values, r->began))
        return neap_fail_no_memory(diag);
    for (uint32_t v = 0; v < n_values; v++)
        if (neap_graph_value(graph, v)->producer == NEAP_NONE)
            hold(r, v);
    return NEAP_OK;
}

void neap_residency_clear(neap_residency *r)
{
    neap_arena_clear(&r->arena);
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
    for (uint32_t i = 0; i < op->n_outputs; i++) {
        if (r->resident[op->outputs[i]])
            return neap_residency_fail(r, step, at, "an output is resident already");
        hold(r, op->outputs[i]);
    }
    return NEAP_OK;
}

neap_status neap_residency_step(neap_residency *r, const neap_step *step, size_t at)
{
    r->n_began = 0;
    r->ended = NEAP_NONE;
    if (step->kind == NEAP_COMPUTE)
        return compute(r, step, at);
    if (step->kind > NEAP_PREFETCH)
        return neap_residency_fail(r, step, at, "there is no such kind of step");
    if (step->id >= neap_graph_value_count(r->graph))
        return neap_residency_fail(r, step, at, "there is no such value");
    if (neap_graph_value(r->graph, step->id)->producer == NEAP_NONE)
        return neap_residency_fail(r, step, at, "it is an input, resident throughout");
    if (r->resident[step->id] == (step->kind == NEAP_PREFETCH))
        return neap_residency_fail(r, step, at,
                                   r->resident[step->id] ? "it is resident" : "it is not resident");
    if (step->kind == NEAP_PREFETCH && !r->on_host[step->id])
        return neap_residency_fail(r, step, at, "it has no copy on the host");
    if (step->kind == NEAP_FREE)
        let_go(r, step->id);
    else if (step->kind == NEAP_OFFLOAD)
        r->on_host[step->id] = true;
    else
        hold(r, step->id);
    return NEAP_OK;
}
