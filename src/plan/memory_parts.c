/* What is in memory when a plan uses most of it: bytes by kind (neap/plan.h). */
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

/* The part that a value's storage belongs to. */
static int64_t *part_of(neap_memory_parts *parts, const neap_graph *graph, uint32_t value)
{
    const neap_value *v = neap_graph_value(graph, value);
    if (strcmp(v->kind, NEAP_KIND_PARAMETER) == 0)
        return &parts->parameters;
    if (strcmp(v->kind, NEAP_KIND_STATE) == 0 || v->state)
        return &parts->state;
    if (v->producer == NEAP_NONE)
        return &parts->other;
    bool gradient = strcmp(v->kind, NEAP_KIND_GRADIENT) == 0 && is_of_parameter(graph, value);
    return gradient ? &parts->gradients : &parts->activations;
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
            *part_of(parts, r->graph, v) += neap_graph_value(r->graph, v)->bytes;
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
