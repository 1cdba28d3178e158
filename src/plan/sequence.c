/*
 * neap_plan_from_sequence: frees follow from what is computed when.
 *
 * A value's *instance* lasts from a computation of its op to the next one, or to the end. It is
 * freed after the last step in between that reads it; an instance that nothing reads is freed at
 * once, and the last instance of an output is kept. One backward scan finds the last readers: going
 * from the end to the beginning, the first reader met of a value since its op's next computation is
 * its last one. residency.h follows steps that are given; here they are still to be written.
 */
#include "base/fail.h"
#include "base/memory.h"
#include "plan/plan_internal.h"

#include <inttypes.h>
#include <string.h>

typedef struct lowering {
    neap_allocator *allocator;
    const neap_graph *graph;
    const uint32_t *sequence;
    size_t length;
    const uint32_t *variants;
    bool *needed;    /* per value: read (or kept) later in the instance that ends here */
    uint32_t *freed; /* values freed after each position, all in one list ... */
    size_t n_freed, freed_capacity;
    size_t *freed_end; /* ... which the backward scan fills from the last position to the first */
    bool *resident;
    neap_plan *plan;
    neap_diag *diag;
} lowering;

static neap_status mark_freed(lowering *l, uint32_t value)
{
    NEAP_TRY(NEAP_RESERVE(l->allocator, l->n_freed + 1, &l->freed, &l->freed_capacity, l->diag));
    l->freed[l->n_freed++] = value;
    return NEAP_OK;
}

/* The backward scan. */
static neap_status find_frees(lowering *l)
{
    const neap_graph *graph = l->graph;
    for (uint32_t v = 0; v < neap_graph_value_count(graph); v++)
        l->needed[v] =
            neap_graph_is_output(graph, v) || neap_graph_value(graph, v)->producer == NEAP_NONE;
    for (size_t at = l->length; at-- > 0;) {
        const neap_op *op = neap_graph_op(graph, l->sequence[at]);
        for (uint32_t i = 0; i < op->n_outputs; i++) {
            if (!l->needed[op->outputs[i]])
                NEAP_TRY(mark_freed(l, op->outputs[i]));
            l->needed[op->outputs[i]] = false;
        }
        for (uint32_t i = 0; i < op->n_inputs; i++) {
            uint32_t value = op->inputs[i];
            if (!l->needed[value])
                NEAP_TRY(mark_freed(l, value));
            l->needed[value] = true;
        }
        l->freed_end[at] = l->n_freed;
    }
    return NEAP_OK;
}

static neap_status require_inputs(const lowering *l, size_t at)
{
    const neap_op *op = neap_graph_op(l->graph, l->sequence[at]);
    for (uint32_t i = 0; i < op->n_inputs; i++) {
        uint32_t value = op->inputs[i];
        if (!l->resident[value])
            return neap_fail(l->diag, NEAP_INVALID,
                             "position %zu of the sequence, op %" PRIu32
                             " \"%s\": its input %" PRIu32 " \"%s\" was not computed before",
                             at, l->sequence[at], op->name, value,
                             neap_graph_value(l->graph, value)->name);
    }
    return NEAP_OK;
}

/* The forward scan: a compute step for each position, and the frees after it. */
static neap_status write_steps(lowering *l)
{
    const neap_graph *graph = l->graph;
    for (uint32_t v = 0; v < neap_graph_value_count(graph); v++)
        l->resident[v] = neap_graph_value(graph, v)->producer == NEAP_NONE;
    for (size_t at = 0; at < l->length; at++) {
        uint32_t id = l->sequence[at];
        const neap_op *op = neap_graph_op(graph, id);
        NEAP_TRY(require_inputs(l, at));
        neap_step step = {NEAP_COMPUTE, id, l->variants ? l->variants[id] : 0, false};
        NEAP_TRY(neap_plan_append(l->plan, step, l->diag));
        for (uint32_t i = 0; i < op->n_outputs; i++)
            l->resident[op->outputs[i]] = true;
        size_t begin = at + 1 < l->length ? l->freed_end[at + 1] : 0;
        for (size_t i = begin; i < l->freed_end[at]; i++) {
            l->resident[l->freed[i]] = false;
            NEAP_TRY(
                neap_plan_append(l->plan, (neap_step){NEAP_FREE, l->freed[i], 0, false}, l->diag));
        }
    }
    return NEAP_OK;
}

static neap_status check_sequence(const neap_graph *graph, const uint32_t *sequence, size_t length,
                                  neap_diag *diag)
{
    for (size_t at = 0; at < length; at++)
        if (sequence[at] >= neap_graph_op_count(graph))
            return neap_fail(diag, NEAP_INVALID,
                             "position %zu of the sequence is op %" PRIu32
                             ", but there are %" PRIu32 " ops",
                             at, sequence[at], neap_graph_op_count(graph));
    return NEAP_OK;
}

neap_status neap_plan_from_sequence(neap_allocator *allocator, const neap_graph *graph,
                                    const uint32_t *sequence, size_t length,
                                    const uint32_t *variants, const char *method, int64_t budget,
                                    neap_plan **plan, neap_diag *diag)
{
    allocator = neap_allocator_or_system(allocator);
    *plan = NULL;
    size_t n_values = neap_graph_value_count(graph);
    lowering l = {.allocator = allocator,
                  .graph = graph,
                  .sequence = sequence,
                  .length = length,
                  .variants = variants,
                  .diag = diag};
    neap_status status = check_sequence(graph, sequence, length, diag);
    if (status != NEAP_OK)
        return status;
    if (status == NEAP_OK)
        status = NEAP_NEW(allocator, n_values, &l.needed, diag);
    if (status == NEAP_OK)
        status = NEAP_NEW(allocator, n_values, &l.resident, diag);
    if (status == NEAP_OK)
        status = NEAP_NEW(allocator, length, &l.freed_end, diag);
    if (status == NEAP_OK)
        status = neap_plan_create(allocator, neap_graph_name(graph), method, budget, &l.plan, diag);
    if (status == NEAP_OK)
        status = find_frees(&l);
    if (status == NEAP_OK)
        status = write_steps(&l);
    NEAP_DELETE(allocator, n_values, l.needed);
    NEAP_DELETE(allocator, n_values, l.resident);
    NEAP_DELETE(allocator, length, l.freed_end);
    NEAP_DELETE(allocator, l.freed_capacity, l.freed);
    if (status == NEAP_OK)
        *plan = l.plan;
    else
        neap_plan_destroy(l.plan);
    return status;
}
