/*
 * Every built-in network at a size that trains in milliseconds on the slowest backend, all its
 * layers included; and two that keep running statistics, which built-in ones do not.
 */
#ifndef NEAP_TESTS_SMALL_NETWORKS_H
#define NEAP_TESTS_SMALL_NETWORKS_H

#include <neap/models.h>

#define SMALL_NETWORK_SETTINGS 8

typedef struct small_network {
    const char *name;  /* the model's, or that and what is different */
    const char *model; /* NULL: it is not built in */
    neap_model_setting settings[SMALL_NETWORK_SETTINGS]; /* up to the first without a name */
} small_network;

/* Every model but `chain`, which cannot run, is there at least once. */
uint32_t small_networks_count(void);
const small_network *small_networks_at(uint32_t index);
/* NULL if there is none of that name. */
const small_network *small_networks_find(const char *name);

/* The test fails if it cannot be built. */
neap_graph *small_network_build(const small_network *network, neap_optimizer optimizer);
neap_graph *small_network_train(const small_network *network, const neap_training *training);

#endif
