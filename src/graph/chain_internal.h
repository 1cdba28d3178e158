/* What the two files of the chain view share: chain.c builds it, chain_cuts.c finds cuts of several
 * storages. */
#ifndef NEAP_GRAPH_CHAIN_INTERNAL_H
#define NEAP_GRAPH_CHAIN_INTERNAL_H

#include "graph/graph_internal.h"

#include <neap/chain.h>

typedef struct reach {
    uint32_t first,
        last;     /* ops: where it is produced and where it is last read in the forward part */
    bool forward; /* produced in the forward part, and not on an input's storage */
} reach;

typedef struct crossing {
    int64_t count;
    int64_t id_sum;
} crossing;

typedef struct chain_builder {
    neap_allocator *allocator;
    const neap_graph *graph;
    neap_chain *chain;
    uint32_t n_ops, n_forward;
    reach *reaches;          /* per storage */
    crossing *crossings;     /* per forward op: the boundary after it */
    bool *is_boundary;       /* per forward op: whether a stage ends after it */
    int64_t *gradient_bytes; /* per op and one more: gradients alive when it begins */
    uint32_t *stage_of;      /* per forward op */
    uint32_t *low, *high;    /* per stage: the cut after it */
    uint32_t *wanted;        /* likewise: low, with parameters' readers */
    uint32_t *seen;          /* per value: marks */
} chain_builder;

/* Whether a storage may leave a stage: made in the forward part, read there later, not a side
 * storage. */
static inline bool chain_may_cross(const chain_builder *b, uint32_t storage)
{
    const reach *r = &b->reaches[storage];
    return r->forward && r->last > r->first && !b->chain->is_side[storage];
}

/* Adds boundaries of several storages to is_boundary and marks the storages that are then carried
 * (is_carried of the chain), if there is something to gain (chain_cuts.c). */
neap_status neap_chain_add_boundaries(chain_builder *b, uint32_t most_stages, neap_diag *diag);

#endif
