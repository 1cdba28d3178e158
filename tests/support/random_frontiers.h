/* Random compute sequences in frontiers, and the judge's verdict on a sequence. */
#ifndef NEAP_TESTS_RANDOM_FRONTIERS_H
#define NEAP_TESTS_RANDOM_FRONTIERS_H

#include "random_plan.h"

#include <neap/check.h>

/*
 * Frontier t ends with the first run of op t; what is resident between frontiers is drawn, of
 * values that something reads, and the ops that run again follow from it. The caller frees the
 * sequence.
 */
uint32_t *random_frontiers(random_source *random, const neap_graph *graph, size_t *length);

/* A variant for each op, of those that no other betters: the first of equals, if one is as fast and
 * as lean. The caller frees them. */
uint32_t *random_variants(random_source *random, const neap_graph *graph);

/* Peak and time of a compute sequence; the test fails if the judge does not accept it. */
neap_verdict judge_sequence(const neap_graph *graph, const uint32_t *sequence, size_t length,
                            const uint32_t *variants);

#endif
