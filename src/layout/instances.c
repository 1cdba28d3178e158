/* Collects the storage instances of a plan. O(1) a step and for each output of a computation. */
#include "layout/instances.h"

#include "base/fail.h"
#include "base/memory.h"
#include "plan/residency.h"

#include <string.h>

static neap_status add(neap_instances *out, neap_instance instance, int64_t owner, neap_diag *diag)
{
    NEAP_TRY(NEAP_RESERVE(out->allocator, out->count + 1, &out->items, &out->capacity, diag));
    NEAP_TRY(
        NEAP_RESERVE(out->allocator, out->count + 1, &out->owners, &out->owner_capacity, diag));
    out->owners[out->count] = owner;
    out->items[out->count++] = instance;
    return NEAP_OK;
}

/* The storages that have become live. Until a free says otherwise, they live to the end. */
static neap_status add_storages(neap_instances *out, const neap_residency *r, size_t *instance,
                                size_t step, size_t n_steps)
{
    for (uint32_t i = 0; i < r->n_began; i++) {
        instance[r->began[i]] = out->count;
        int64_t bytes = neap_graph_value(r->graph, r->began[i])->bytes;
        NEAP_TRY(add(out, (neap_instance){bytes, step, n_steps}, r->began[i], r->diag));
    }
    return NEAP_OK;
}

static neap_status collect(neap_instances *out, neap_residency *r, const neap_plan *plan)
{
    const neap_step *steps = neap_plan_steps(plan);
    size_t n_steps = neap_plan_step_count(plan), *instance; /* by storage, while it is live */
    if (!NEAP_TAKE(&r->arena, neap_graph_value_count(r->graph), instance))
        return neap_fail_no_memory(r->diag);
    out->n_steps = n_steps;
    NEAP_TRY(add_storages(out, r, instance, 0, n_steps));
    out->n_inputs = out->count;
    for (size_t i = 0; i < n_steps; i++) {
        NEAP_TRY(neap_residency_step(r, &steps[i], i));
        NEAP_TRY(add_storages(out, r, instance, i, n_steps));
        if (r->passed_on != NEAP_NONE)
            instance[neap_graph_op(r->graph, steps[i].id)->in_place_output] =
                instance[r->passed_on];
        if (r->ended != NEAP_NONE)
            out->items[instance[r->ended]].end = i;
        if (steps[i].kind != NEAP_COMPUTE)
            continue;
        const neap_op *op = neap_graph_op(r->graph, steps[i].id);
        int64_t workspace = op->variants[steps[i].variant].workspace;
        if (workspace > 0)
            NEAP_TRY(
                add(out, (neap_instance){workspace, i, i + 1}, -1 - (int64_t)steps[i].id, r->diag));
    }
    return NEAP_OK;
}

neap_status neap_instances_collect(neap_allocator *allocator, const neap_graph *graph,
                                   const neap_plan *plan, neap_instances *instances,
                                   neap_diag *diag)
{
    neap_residency r;
    *instances = (neap_instances){.allocator = allocator};
    neap_status status = neap_residency_init(&r, allocator, graph, plan, "layout: ", diag);
    if (status == NEAP_OK)
        status = collect(instances, &r, plan);
    neap_residency_clear(&r);
    return status;
}

void neap_instances_clear(neap_instances *instances)
{
    NEAP_DELETE(instances->allocator, instances->capacity, instances->items);
    NEAP_DELETE(instances->allocator, instances->owner_capacity, instances->owners);
    memset(instances, 0, sizeof *instances);
}
