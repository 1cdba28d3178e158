/*
 * neap/layers.h - the ops of a graph by layer.
 *
 * Each forward op is a layer, named after it. Ops of the backward pass and updates belong to the
 * layer that they are named after:
 *
 *     conv1, conv1.bw_weight, conv1.grad_sum.2, conv1.weight.update    all of layer conv1
 *
 * A name is split at the longest part of it, up to a dot or its end, that is the name of a forward
 * op. If no part is, the longest that is the name of a value decides: the layer of the op that
 * makes it, or of the first that reads it. An op without either is a layer of its own.
 */
#ifndef NEAP_LAYERS_H
#define NEAP_LAYERS_H

#include <neap/graph.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct neap_layers neap_layers;

/* In linear time. The graph must outlive the layers. NEAP_NO_MEMORY is the only failure. */
NEAP_API neap_status neap_layers_find(neap_allocator *allocator, const neap_graph *graph,
                                      neap_layers **layers, neap_diag *diag);
NEAP_API void neap_layers_destroy(neap_layers *layers);

NEAP_API uint32_t neap_layers_count(const neap_layers *layers);
/* A layer's name: `*length` characters without a NUL after them. */
NEAP_API const char *neap_layers_name(const neap_layers *layers, uint32_t layer, size_t *length);
NEAP_API uint32_t neap_layers_of_op(const neap_layers *layers, uint32_t op);
/* The layer that a value belongs to: that of the op that makes it or, for parameters and state,
   that of the first op that reads it; NEAP_NONE for other inputs. */
NEAP_API uint32_t neap_layers_of_value(const neap_layers *layers, uint32_t value);

#ifdef __cplusplus
}
#endif
#endif
