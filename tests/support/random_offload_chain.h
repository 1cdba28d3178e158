/*
 * Random chains of layers to plan transfers for, from a seed, with a link to the host.
 *
 * L layers: forward op i reads x_{i-1} and makes x_i; backward op i reads x_{i-1}, x_i and y_i and
 * makes y_{i-1}. x_0 is an input. Between the passes there may be a loss, which reads x_L and makes
 * y_L; without it y_L is an input or does not exist. Sizes, times and bandwidths are small whole
 * numbers, so that ties, exact fits and empty values are frequent.
 */
#ifndef NEAP_TESTS_RANDOM_OFFLOAD_CHAIN_H
#define NEAP_TESTS_RANDOM_OFFLOAD_CHAIN_H

#include "random_plan.h"

enum { MOST_LAYERS = 16 };

typedef enum gradient_source {
    GRADIENT_OF_LOSS = 0, /* an op between the passes makes y_L */
    GRADIENT_GIVEN,       /* y_L is an input */
    GRADIENT_NONE         /* the last layer's backward op reads no gradient */
} gradient_source;

typedef struct offload_chain {
    uint32_t layers;
    gradient_source source;
    bool loss_is_backward; /* the pass that the loss is counted to */
    int64_t fixed_bytes;
    int64_t x[MOST_LAYERS + 1], y[MOST_LAYERS + 1]; /* bytes; 0 .. layers */
    int64_t forward_scratch[MOST_LAYERS + 2];       /* 1 .. layers; the loss is layers + 1 */
    int64_t backward_scratch[MOST_LAYERS + 1];      /* 1 .. layers */
    int64_t forward_time[MOST_LAYERS + 2];          /* seconds; as the scratch */
    int64_t backward_time[MOST_LAYERS + 1];
} offload_chain;

typedef enum link_kind {
    LINK_HALF = 0, /* one copy at a time, no latency, the same bandwidth both ways */
    LINK_UNEVEN,   /* the same with two bandwidths */
    LINK_DUPLEX,
    LINK_LATENCY, /* one copy at a time */
    N_LINK_KINDS
} link_kind;

/* "half duplex", "two bandwidths", "duplex", "latency". */
const char *link_kind_name(link_kind kind);

offload_chain random_offload_chain(random_source *random, uint32_t layers);
neap_link random_link(random_source *random, link_kind kind);
neap_graph *offload_chain_graph(const offload_chain *chain);

#endif
