/* Collects the storage instances of a plan. O(1) a step and for each output of a computation. */
#include "layout/instances.h"

#include "base/fail.h"
#include "base/memory.h"

#include <string.h>

typedef struct collector {
    const neap_graph *graph;
    neap_instances *out;
    bool *resident;    /* by value */
    uint32_t *holders; /* by storage: the resident values on it */
    size_t *instance;  /* by storage: its instance while it is live */
    neap_diag *diag;
} collector;

static neap_status add(collector *c, int64_t size, size_t begin, size_t end)
{
    neap_instances *out = c->out;
    neap_status status =
        NEAP_RESERVE(out->allocator, out->count + 1, &out->items, &out->capacity, c->diag);
    if (status == NEAP_OK)
        out->items[out->count++] = (neap_instance){size, begin, end};
    return status;
}

/* Until a free says otherwise, a storage lives to the end. */
static neap_status arrive(collector *c, uint32_t value, size_t step, size_t n_steps)
{
    uint32_t storage = neap_graph_value(c->graph, value)->storage;
    c->resident[value] = true;
    if (c->holders[storage]++ > 0)
        return NEAP_OK;
    c->instance[storage] = c->out->count;
    return add(c, neap_graph_value(c->graph, storage)->bytes, step, n_steps);
}

static void leave(collector *c, uint32_t value, size_t step)
{
    uint32_t storage = neap_graph_value(c->graph, value)->storage;
    c->resident[value] = false;
    if (--c->holders[storage] == 0)
        c->out->items[c->instance[storage]].end = step;
}

static neap_status fail_step(const collector *c, const neap_step *s, size_t step, const char *why)
{
    return neap_fail(c->diag, NEAP_INVALID, "layout: step %zu: %s %lu: %s", step,
                     neap_step_kind_name(s->kind), (unsigned long)s->id, why);
}

static neap_status collect_compute(collector *c, const neap_step *s, size_t step, size_t n_steps)
{
    if (s->id >= neap_graph_op_count(c->graph))
        return fail_step(c, s, step, "there is no such op");
    const neap_op *op = neap_graph_op(c->graph, s->id);
    if (s->variant >= op->n_variants)
        return fail_step(c, s, step, "the op has no such variant");
    for (uint32_t i = 0; i < op->n_outputs; i++) {
        if (c->resident[op->outputs[i]])
            return fail_step(c, s, step, "an output is resident already");
        neap_status status = arrive(c, op->outputs[i], step, n_steps);
        if (status != NEAP_OK)
            return status;
    }
    int64_t workspace = op->variants[s->variant].workspace;
    return workspace > 0 ? add(c, workspace, step, step + 1) : NEAP_OK;
}

static neap_status collect_step(collector *c, const neap_step *s, size_t step, size_t n_steps)
{
    if (s->kind == NEAP_COMPUTE)
        return collect_compute(c, s, step, n_steps);
    if (s->kind > NEAP_PREFETCH)
        return fail_step(c, s, step, "there is no such kind of step");
    if (s->id >= neap_graph_value_count(c->graph))
        return fail_step(c, s, step, "there is no such value");
    if (neap_graph_value(c->graph, s->id)->producer == NEAP_NONE)
        return fail_step(c, s, step, "it is an input, resident throughout");
    if (c->resident[s->id] == (s->kind == NEAP_PREFETCH))
        return fail_step(c, s, step, c->resident[s->id] ? "it is resident" : "it is not resident");
    if (s->kind == NEAP_PREFETCH)
        return arrive(c, s->id, step, n_steps);
    if (s->kind == NEAP_FREE)
        leave(c, s->id, step);
    return NEAP_OK;
}

neap_status neap_instances_collect(neap_allocator *allocator, const neap_graph *graph,
                                   const neap_plan *plan, neap_instances *instances,
                                   neap_diag *diag)
{
    uint32_t n_values = neap_graph_value_count(graph);
    const neap_step *steps = neap_plan_steps(plan);
    size_t n_steps = neap_plan_step_count(plan);
    collector c = {.graph = graph, .out = instances, .diag = diag};
    memset(instances, 0, sizeof *instances);
    instances->allocator = allocator;
    neap_status status = NEAP_NEW(allocator, n_values, &c.resident, diag);
    if (status == NEAP_OK)
        status = NEAP_NEW(allocator, n_values, &c.holders, diag);
    if (status == NEAP_OK)
        status = NEAP_NEW(allocator, n_values, &c.instance, diag);
    for (uint32_t v = 0; v < n_values && status == NEAP_OK; v++)
        if (neap_graph_value(graph, v)->producer == NEAP_NONE)
            status = arrive(&c, v, 0, n_steps);
    instances->n_inputs = instances->count;
    for (size_t i = 0; i < n_steps && status == NEAP_OK; i++)
        status = collect_step(&c, &steps[i], i, n_steps);
    NEAP_DELETE(allocator, n_values, c.instance);
    NEAP_DELETE(allocator, n_values, c.holders);
    NEAP_DELETE(allocator, n_values, c.resident);
    return status;
}

void neap_instances_clear(neap_instances *instances)
{
    NEAP_DELETE(instances->allocator, instances->capacity, instances->items);
    memset(instances, 0, sizeof *instances);
}
