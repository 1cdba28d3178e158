/* What is in memory when a plan uses most of it: bytes by kind (neap/plan.h). */
#include "plan/memory_parts.h"

#include "base/fail.h"
#include "base/memory.h"
#include "plan/residency.h"

#include <string.h>

static const size_t BEFORE = SIZE_MAX; /* the first step */

/* A gradient of a parameter: an output of the graph, or read by an update. */
static bool is_of_parameter(const neap_graph *graph, uint32_t value)
{
    uint32_t count;
    const uint32_t *readers = neap_graph_readers(graph, value, &count);
    bool is = neap_graph_is_output(graph, value);
    for (uint32_t i = 0; i < count && !is; i++)
        is = neap_graph_op(graph, readers[i])->n_updates > 0;
    return is;
}

neap_memory_class neap_memory_class_of(const neap_graph *graph, uint32_t storage)
{
    const neap_value *v = neap_graph_value(graph, storage);
    if (strcmp(v->kind, NEAP_KIND_PARAMETER) == 0)
        return NEAP_MEMORY_PARAMETERS;
    if (strcmp(v->kind, NEAP_KIND_STATE) == 0 || v->state)
        return NEAP_MEMORY_STATE;
    if (v->producer == NEAP_NONE)
        return NEAP_MEMORY_OTHER;
    bool gradient = strcmp(v->kind, NEAP_KIND_GRADIENT) == 0 && is_of_parameter(graph, storage);
    return gradient ? NEAP_MEMORY_GRADIENTS : NEAP_MEMORY_ACTIVATIONS;
}

int64_t *neap_memory_part(neap_memory_parts *parts, neap_memory_class part)
{
    int64_t *const all[NEAP_MEMORY_CLASSES] = {
        [NEAP_MEMORY_PARAMETERS] = &parts->parameters,
        [NEAP_MEMORY_GRADIENTS] = &parts->gradients,
        [NEAP_MEMORY_STATE] = &parts->state,
        [NEAP_MEMORY_ACTIVATIONS] = &parts->activations,
        [NEAP_MEMORY_WORKSPACE] = &parts->workspace,
        [NEAP_MEMORY_OTHER] = &parts->other,
    };
    return all[part];
}

static int64_t workspace_of(const neap_graph *graph, const neap_step *step)
{
    return step->kind == NEAP_COMPUTE
               ? neap_graph_op(graph, step->id)->variants[step->variant].workspace
               : 0;
}

/* The first step that reaches the peak. */
static neap_status find_peak(neap_residency *r, const neap_plan *plan, size_t *at)
{
    int64_t peak = r->bytes;
    *at = BEFORE;
    for (size_t i = 0; i < neap_plan_step_count(plan); i++) {
        const neap_step *step = &neap_plan_steps(plan)[i];
        NEAP_TRY(neap_residency_step(r, step, i));
        if (r->bytes + workspace_of(r->graph, step) > peak) {
            peak = r->bytes + workspace_of(r->graph, step);
            *at = i;
        }
    }
    return NEAP_OK;
}

static neap_status sum_up(neap_residency *r, const neap_plan *plan, size_t at,
                          neap_memory_parts *parts)
{
    const neap_step *steps = neap_plan_steps(plan);
    for (size_t i = 0; at != BEFORE && i <= at; i++)
        NEAP_TRY(neap_residency_step(r, &steps[i], i));
    parts->other = neap_graph_fixed_bytes(r->graph);
    for (uint32_t v = 0; v < neap_graph_value_count(r->graph); v++)
        if (r->holders[v] > 0)
            *neap_memory_part(parts, neap_memory_class_of(r->graph, v)) +=
                neap_graph_value(r->graph, v)->bytes;
    if (at != BEFORE)
        parts->workspace = workspace_of(r->graph, &steps[at]);
    return NEAP_OK;
}

neap_status neap_plan_peak_parts(neap_allocator *allocator, const neap_graph *graph,
                                 const neap_plan *plan, neap_memory_parts *parts, neap_diag *diag)
{
    neap_residency r;
    size_t at = BEFORE;
    *parts = (neap_memory_parts){0};
    allocator = neap_allocator_or_system(allocator);
    neap_status status = neap_residency_init(&r, allocator, graph, plan, "", diag);
    if (status == NEAP_OK)
        status = find_peak(&r, plan, &at);
    neap_residency_clear(&r);
    if (status != NEAP_OK)
        return status;
    status = neap_residency_init(&r, allocator, graph, plan, "", diag);
    if (status == NEAP_OK)
        status = sum_up(&r, plan, at, parts);
    neap_residency_clear(&r);
    return status;
}
