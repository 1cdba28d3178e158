/*
 * neap/chain.h - a graph seen as a chain of stages.
 *
 * The forward part of a training graph (the ops before the first op of the backward pass) is cut
 * wherever a single storage separates past from future: of everything computed before the cut, the
 * forward ops after it read only that storage. The backward part is cut to match: its ops before
 * the cut read only what was computed after the forward cut, and its ops after the cut read only
 * what was computed before. Both sides may read the cut storage itself. A *stage* is the range of
 * forward ops and the range of backward ops between two cuts. On a plain chain each layer is a
 * stage; on a ResNet each block is; a graph without any cut is one stage. The last stage, which
 * contains the loss, has no cut.
 *
 * There is no cut inside a layer, that is, after an op with inside_layer.
 *
 * Small values with long lifetimes (an attention mask made at the start and read by every layer) do
 * not prevent a cut: they are *side* storages. A storage is a side storage if it has at most 1/1000
 * of the bytes of all forward storages and its readers span a quarter of the forward part. Views of
 * inputs own no memory and never prevent a cut.
 */
#ifndef NEAP_CHAIN_H
#define NEAP_CHAIN_H

#include <neap/graph.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct neap_stage {
    uint32_t first_op, end_op;             /* forward ops: first_op .. end_op - 1 */
    uint32_t first_backward, end_backward; /* backward ops; later stages come first; may be empty */
    uint32_t cut; /* the storage that leaves the stage; NEAP_NONE for the last */
    int64_t forward_ticks, backward_ticks; /* with variant 0 */
    int64_t input_bytes;    /* of the cut that enters; of the data, for the first stage */
    int64_t output_bytes;   /* of the cut that leaves; 0 for the last */
    int64_t saved_bytes;    /* of other storages written inside that its backward ops read */
    int64_t gradient_bytes; /* read by its backward ops: the gradient of its output */
    int64_t result_bytes;   /* of graph outputs that its ops write: gradients of parameters */
    int64_t workspace;      /* the largest of its ops', variant 0 */
} neap_stage;

typedef struct neap_chain {
    uint32_t n_forward; /* ops of the forward part: 0 .. n_forward - 1 */
    uint32_t n_stages;  /* at least 1 unless n_forward is 0 */
    neap_stage *stages;
    int64_t input_bytes; /* values of kind "input" that the first stage reads: d_0 in the papers */
    int64_t side_bytes;  /* of side storages */
    bool *is_side;       /* per value: whether its storage is a side storage or that of an input */
    uint32_t n_values;
    neap_allocator *allocator;
} neap_chain;

NEAP_API neap_status neap_chain_build(neap_allocator *allocator, const neap_graph *graph,
                                      neap_chain *chain, neap_diag *diag);
NEAP_API void neap_chain_clear(neap_chain *chain);

#ifdef __cplusplus
}
#endif
#endif
