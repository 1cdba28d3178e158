/*
 * neap's search for other methods: compute sequences in, compute sequences out.
 *
 * First runs keep their initial order, and nothing is offloaded. A sequence in Checkmate's form
 * stays in that form: first runs in the graph's order, and between two of them each op at most
 * once, also in that order. Only ops that make free views (problem.h) are an exception: they run
 * where the views are needed.
 */
#ifndef NEAP_PLANNERS_NEAP_SEQUENCE_SEARCH_H
#define NEAP_PLANNERS_NEAP_SEQUENCE_SEARCH_H

#include "planners/common/planner.h"

typedef struct sequence_search sequence_search;

/* A search within `budget` bytes that starts from every op once in the graph's order. It ends early
   if `stop` (may be NULL) returns true. The same seed gives the same sequences. */
neap_status neap_sequence_search_create(const planner *p, int64_t budget,
                                        bool (*stop)(void *context), void *context,
                                        sequence_search **search, neap_diag *diag);
void neap_sequence_search_destroy(sequence_search *search);

/* Continues from a legal compute sequence with every op at least once. */
neap_status neap_sequence_search_load(sequence_search *search, const uint32_t *sequence,
                                      size_t length, neap_diag *diag);
/* Removes runs that the budget does not require, slow ones first. A sequence that exceeds the
   budget does not change. */
neap_status neap_sequence_search_trim(sequence_search *search, neap_diag *diag);
/* Makes the sequence fit the budget by recomputations, and trims it. If that fails, the sequence
   with the least peak found is kept. */
neap_status neap_sequence_search_fit(sequence_search *search, neap_diag *diag);
/* Runs iterations of ruin and recreate. */
neap_status neap_sequence_search_improve(sequence_search *search, uint32_t iterations,
                                         neap_diag *diag);

/* Ticks of the best sequence so far; INT64_MAX if none is within the budget. */
int64_t neap_sequence_search_ticks(const sequence_search *search);
/* Writes it to *sequence, which grows as needed. */
neap_status neap_sequence_search_list(const sequence_search *search, uint32_t **sequence,
                                      size_t *length, size_t *capacity, neap_diag *diag);

#endif
