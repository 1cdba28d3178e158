/* layers.h - the layers of a graph that have most of something. */
#ifndef NEAP_CLI_LAYERS_H
#define NEAP_CLI_LAYERS_H

#include <neap/layers.h>

/* The largest first. */
enum { CLI_TOP_LAYERS = 3 };

typedef struct cli_top_layers {
    uint32_t count;
    struct {
        uint32_t layer;
        int64_t amount; /* bytes, or ticks */
    } items[CLI_TOP_LAYERS];
} cli_top_layers;

/* amounts: one for each layer. */
void cli_layers_rank(const neap_layers *layers, const int64_t *amounts, cli_top_layers *top);

#endif
