/*
 * Bayesian optimisation of weights that sum to one: which weights to try next, given the costs of
 * those tried so far.
 *
 * The first trials are each weight alone. Then a Gaussian process with the kernel
 * exp(-|w - w'|^2 / 2 l^2), l by likelihood, is fitted to the costs, and the next weights are those
 * of the largest expected improvement among random ones (Jones, Schonlau and Welch 1998). The same
 * seed and costs give the same weights.
 *
 *     weight_search search;
 *     status = neap_weight_search_init(&search, arena, most, seed, diag);
 *     for (uint32_t i = 0; i < most; i++) {
 *         neap_weight_search_next(&search, weights);
 *         neap_weight_search_tell(&search, weights, ... cost ...);
 *     }
 */
#ifndef NEAP_OFFLOAD_WEIGHT_SEARCH_H
#define NEAP_OFFLOAD_WEIGHT_SEARCH_H

#include "base/arena.h"

#include <stdbool.h>
#include <stdint.h>

enum { N_WEIGHTS = 4 };

typedef struct weight_search {
    uint32_t most, count;       /* trials */
    double (*tried)[N_WEIGHTS]; /* count of them */
    double *costs;              /* of each */
    double *standard;           /* costs with mean 0 and deviation 1 */
    double *factor, *trial;     /* most x most: L of the kernel matrix L L^T, and one to compare */
    double *solved;             /* the kernel matrix's inverse times `standard` */
    double *column;             /* scratch */
    uint64_t random;
} weight_search;

/* Allocates from the arena. */
neap_status neap_weight_search_init(weight_search *search, neap_arena *arena, uint32_t most,
                                    uint64_t seed, neap_diag *diag);
/* O(trials^3). */
void neap_weight_search_next(weight_search *search, double weights[N_WEIGHTS]);
/* At most `most` times. */
void neap_weight_search_tell(weight_search *search, const double weights[N_WEIGHTS], double cost);

#endif
