/*
 * The chain view: where does a single storage separate past from future?
 *
 * A storage crosses the boundary behind op p if it is produced at or before p and read by a forward
 * op after p. One pass over the storages adds each to the boundaries it crosses as a difference
 * array, with the sum of ids beside the count, so that a boundary crossed once knows by which.
 * O(ops + values + reads).
 */
#include "base/fail.h"
#include "base/memory.h"
#include "graph/graph_internal.h"

#include <neap/chain.h>

/* A side storage: small, and read over a long stretch. See neap/chain.h. */
#define SIDE_SHARE 1000
#define SIDE_SPAN  4

typedef struct reach {
    uint32_t first,
        last;     /* ops: where it is produced and where it is last read in the forward part */
    bool forward; /* produced in the forward part */
} reach;

static uint32_t count_forward(const neap_graph *graph)
{
    uint32_t n = 0;
    while (n < graph->n_ops && graph->ops[n].pass == NEAP_FORWARD)
        n++;
    return n;
}

static void find_reaches(const neap_graph *graph, uint32_t n_forward, reach *reaches)
{
    for (uint32_t o = 0; o < n_forward; o++) {
        const neap_op *op = &graph->ops[o];
        for (uint32_t i = 0; i < op->n_inputs; i++)
            reaches[graph->values[op->inputs[i]].storage].last = o;
        for (uint32_t i = 0; i < op->n_outputs; i++) {
            const neap_value *value = &graph->values[op->outputs[i]];
            reach *r = &reaches[value->storage];
            bool of_input = graph->values[value->storage].producer == NEAP_NONE;
            if (r->forward || of_input)
                continue;
            r->forward = true;
            r->first = r->last = o;
        }
    }
}

static bool is_side(const neap_value *value, const reach *r, int64_t forward_bytes,
                    uint32_t n_forward)
{
    return value->bytes <= forward_bytes / SIDE_SHARE &&
           r->last - r->first >= n_forward / SIDE_SPAN;
}

typedef struct crossing {
    int64_t count;
    int64_t id_sum;
} crossing;

/* crossings[p] describes the boundary behind op p once the differences are summed. */
static void find_crossings(const neap_graph *graph, uint32_t n_forward, const reach *reaches,
                           crossing *crossings)
{
    int64_t forward_bytes = 0;
    for (size_t v = 0; v < graph->n_values; v++)
        if (reaches[v].forward)
            forward_bytes += graph->values[v].bytes;
    for (size_t v = 0; v < graph->n_values; v++) {
        const reach *r = &reaches[v];
        if (!r->forward || r->last == r->first ||
            is_side(&graph->values[v], r, forward_bytes, n_forward))
            continue;
        crossings[r->first].count++;
        crossings[r->first].id_sum += (int64_t)v;
        crossings[r->last].count--;
        crossings[r->last].id_sum -= (int64_t)v;
    }
    for (uint32_t p = 1; p < n_forward; p++) {
        crossings[p].count += crossings[p - 1].count;
        crossings[p].id_sum += crossings[p - 1].id_sum;
    }
}

/* Boundaries crossed by one storage; of several in a row with the same one (views of it), the last.
 */
static void find_stages(neap_chain *chain, const crossing *crossings)
{
    uint32_t begin = 0;
    chain->n_stages = 0;
    for (uint32_t p = 0; p < chain->n_forward; p++) {
        bool last = p + 1 == chain->n_forward;
        if (!last && crossings[p].count != 1)
            continue;
        uint32_t cut = last ? NEAP_NONE : (uint32_t)crossings[p].id_sum;
        neap_stage *previous = chain->n_stages ? &chain->stages[chain->n_stages - 1] : NULL;
        if (previous && !last && previous->cut == cut) {
            previous->end_op = p + 1;
        } else {
            chain->stages[chain->n_stages++] = (neap_stage){begin, p + 1, cut};
        }
        begin = p + 1;
    }
}

neap_status neap_chain_build(neap_allocator *allocator, const neap_graph *graph, neap_chain *chain,
                             neap_diag *diag)
{
    allocator = neap_allocator_or_system(allocator);
    uint32_t n_forward = count_forward(graph);
    *chain = (neap_chain){.n_forward = n_forward, .allocator = allocator};
    reach *reaches = NULL;
    crossing *crossings = NULL;
    neap_status status = NEAP_NEW(allocator, graph->n_values, &reaches, diag);
    if (status == NEAP_OK)
        status = NEAP_NEW(allocator, n_forward, &crossings, diag);
    if (status == NEAP_OK)
        status = NEAP_NEW(allocator, n_forward, &chain->stages, diag);
    if (status == NEAP_OK) {
        find_reaches(graph, n_forward, reaches);
        find_crossings(graph, n_forward, reaches, crossings);
        find_stages(chain, crossings);
    }
    NEAP_DELETE(allocator, graph->n_values, reaches);
    NEAP_DELETE(allocator, n_forward, crossings);
    return status;
}

void neap_chain_clear(neap_chain *chain)
{
    NEAP_DELETE(chain->allocator, chain->n_forward, chain->stages);
    chain->stages = NULL;
    chain->n_stages = 0;
}
