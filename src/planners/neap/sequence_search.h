/*
 * neap's search for other methods: compute sequences in, compute sequences out.
 *
 * First runs keep the order that they have at the beginning, and nothing moves to the host. A
 * sequence in Checkmate's form stays in that form: first runs in the graph's order, and between two
 * of them each op at most once, in that order, too. Only ops that make free views (problem.h) are
 * an exception: they run where the views are needed.
 */
#ifndef NEAP_PLANNERS_NEAP_SEQUENCE_SEARCH_H
#define NEAP_PLANNERS_NEAP_SEQUENCE_SEARCH_H

#include "planners/common/planner.h"

typedef struct sequence_search sequence_search;

/*
 * A search within `budget` bytes, at every op once in the graph's order. It ends early when
 * `stop` (may be NULL) says so. Same seed, same sequences.
 */
neap_status neap_sequence_search_create(const planner *p, int64_t budget,
                                        bool (*stop)(void *context), void *context,
                                        sequence_search **search, neap_diag *diag);
void neap_sequence_search_destroy(sequence_search *search);

/* Goes on from a compute sequence: legal, every op at least once. */
neap_status neap_sequence_search_load(sequence_search *search, const uint32_t *sequence,
                                      size_t length, neap_diag *diag);
/* Takes out runs that the budget does not need, slow ones first. A sequence that takes more than
   the budget stays as it is. */
neap_status neap_sequence_search_trim(sequence_search *search, neap_diag *diag);
/* Makes the sequence fit the budget by running ops again, and trims it. Where that fails the
   sequence of the least peak found is kept. */
neap_status neap_sequence_search_fit(sequence_search *search, neap_diag *diag);
/* Iterations of ruin and recreate. */
neap_status neap_sequence_search_improve(sequence_search *search, uint32_t iterations,
                                         neap_diag *diag);

/* Ticks of the best sequence so far; INT64_MAX as long as none is within the budget. */
int64_t neap_sequence_search_ticks(const sequence_search *search);
/* Writes it to *sequence, which is reserved as needed. */
neap_status neap_sequence_search_list(const sequence_search *search, uint32_t **sequence,
                                      size_t *length, size_t *capacity, neap_diag *diag);

#endif
