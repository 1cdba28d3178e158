/* Layers as other rooms of the library see them. */
#ifndef NEAP_GRAPH_LAYERS_INTERNAL_H
#define NEAP_GRAPH_LAYERS_INTERNAL_H

#include "base/name_table.h"

#include <neap/layers.h>

struct neap_layers {
    neap_allocator *allocator;
    const neap_graph *graph;
    uint32_t n_ops;
    neap_name_table names; /* of the layers; they point into the graph */
    uint32_t *of_op;       /* the layer of each op */
};

/* The layer whose name is the longest part of `name`, up to a dot or its end, and the rest of it.
   NEAP_NO_NAME: none is, and *rest is all of it. */
uint32_t neap_layers_split(const neap_layers *layers, const char *name, const char **rest);

#endif
