/* Random training graphs from a seed: layers, skips and saved values forward, gradients back. */
#ifndef NEAP_TESTS_RANDOM_TRAINING_H
#define NEAP_TESTS_RANDOM_TRAINING_H

#include "random_plan.h"

#include <neap/graph.h>

/*
 * 1 to most_layers (at most 100) layers, each a forward and a backward op, and a loss between them.
 * A layer reads the one before or, at times, an earlier one too; its output may be a view; it may
 * save something besides, have a parameter, variants and workspace. Backward ops read the gradient
 * and some of what their layer read and made. With `rich`, names, kinds, types, shapes, attributes,
 * counts and unknown fields are drawn as well, odd ones among them.
 */
neap_graph *random_training_graph(random_source *random, uint32_t most_layers, bool rich);

/* The same, where most ops have an output of an input's size and may write it over that input. */
neap_graph *random_in_place_graph(random_source *random, uint32_t most_layers);

#endif
