/*
 * neap/chain.h - a graph seen as a chain of stages.
 *
 * The forward part of a training graph (the ops before the first op of the backward pass) is cut
 * where few storages separate past from future: of everything computed before the cut, the forward
 * ops after it read only those. The backward part is cut to match: its ops before the cut read only
 * what was computed after the forward cut, and its ops after the cut read only what was computed
 * before. Both sides may read the cut's storages themselves. A *stage* is the range of forward ops
 * and the range of backward ops between two cuts. The last stage, which contains the loss, has no
 * cut.
 *
 * There are two views. In neap_chain_build every cut is a single storage: on a plain chain each
 * layer is a stage, on a ResNet each block is, and a graph without any such storage is one stage.
 * neap_chain_build_fine also divides stages of that view at cuts of several storages, where that
 * lowers the memory below which no schedule of stages can get: an unrolled LSTM has a stage for
 * each step in time, because its states h and c may leave a stage together; a U-Net and the dense
 * blocks of a DenseNet get finer. Storages that cross two cuts or more (the skips of a U-Net, the
 * outputs of a recurrent network until they are stacked) are then *carried*: they belong to no cut,
 * stay in memory from their first computation to their last use, and do not prevent a cut.
 *
 * There is no cut inside a layer, that is, after an op with inside_layer.
 *
 * Small values with long lifetimes (an attention mask made at the start and read by every layer) do
 * not prevent a cut in either view: they are *side* storages. A storage is a side storage if it has
 * at most 1/1000 of the bytes of all forward storages and its readers span a quarter of the forward
 * part. (Where the fine view divides a stage, its side storages are carried ones, too.) Views of
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
    const uint32_t *cuts; /* the storages that leave the stage, by rising id; the chain's */
    uint32_t n_cuts; /* 0 for the last; in the fine view also where all that leaves is carried */
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
    int64_t carried_bytes; /* of carried storages */
    bool *is_side;       /* per value: whether its storage is a side storage or that of an input */
    bool *is_carried;    /* per value: whether its storage is carried */
    uint32_t *needed_by; /* per storage that is carried: the first stage that reads it, in either
                              pass; once the backward ops of that stage have run, it can go */
    uint32_t *cuts;      /* the lists of all stages */
    uint32_t n_values;
    neap_allocator *allocator;
} neap_chain;

/* The view in which every cut is a single storage. O(ops + values + reads). */
NEAP_API neap_status neap_chain_build(neap_allocator *allocator, const neap_graph *graph,
                                      neap_chain *chain, neap_diag *diag);
/*
 * The view with cuts of several storages; the same as the other one where those have nothing to
 * give. If it divides stages and would then have more than `most_stages` (0: any number),
 * neighbours are merged until about that many are left. O((ops + values) log ops).
 */
NEAP_API neap_status neap_chain_build_fine(neap_allocator *allocator, const neap_graph *graph,
                                           uint32_t most_stages, neap_chain *chain,
                                           neap_diag *diag);
NEAP_API void neap_chain_clear(neap_chain *chain);

/* Whether a storage is one of those that leave a stage. */
NEAP_API bool neap_stage_cuts(const neap_stage *stage, uint32_t storage);

#ifdef __cplusplus
}
#endif
#endif
