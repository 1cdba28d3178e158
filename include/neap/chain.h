/*
 * neap/chain.h - a graph seen as a chain of stages.
 *
 * The forward part of a training graph is cut wherever a single storage separates past from future:
 * every forward op after the cut reads, of what was computed before it, only that storage. Between
 * two cuts lies a *stage*. On a plain chain each layer is a stage; on a ResNet the blocks are; a
 * graph without any cut is one stage.
 *
 * Forward part: the ops before the first op of the backward pass. Small values that live long (an
 * attention mask made at the start and read by every layer) do not hinder a cut: they are *side*
 * storages, carried along. A storage is one if it has at most 1/1000 of the forward storages' bytes
 * and its readers span a quarter of the forward part.
 */
#ifndef NEAP_CHAIN_H
#define NEAP_CHAIN_H

#include <neap/graph.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct neap_stage {
    uint32_t first_op, end_op; /* the forward ops first_op .. end_op - 1 */
    uint32_t cut;              /* the storage that leaves the stage; NEAP_NONE for the last stage */
} neap_stage;

typedef struct neap_chain {
    uint32_t n_forward; /* ops of the forward part: 0 .. n_forward - 1 */
    uint32_t n_stages;  /* at least 1 if n_forward is */
    neap_stage *stages;
    neap_allocator *allocator;
} neap_chain;

NEAP_API neap_status neap_chain_build(neap_allocator *allocator, const neap_graph *graph,
                                      neap_chain *chain, neap_diag *diag);
NEAP_API void neap_chain_clear(neap_chain *chain);

#ifdef __cplusplus
}
#endif
#endif
