/*
 * A first schedule by linear work, for graphs so large that the search takes long to begin.
 *
 * At one moment, the fullest of the graph's order, every tensor that is made before it and used
 * after it is kept or dropped. A dropped tensor is recomputed after the moment, just before its
 * first use, from what is kept. The decision weighs the ticks of the recomputation against the
 * bytes at a price for each. So that recomputing one tensor does not bring back all others, the
 * tasks before the moment are divided into segments, and what a recomputation reads from an
 * earlier segment is kept. The lowest price at which the schedule fits is found by bisection; then
 * the late tasks, which are needed first, get the last price at which it did not, as far as that
 * fits. Several numbers of segments are tried. Each attempt is one pass over the graph.
 */
#ifndef NEAP_PLANNERS_NEAP_START_LINEAR_H
#define NEAP_PLANNERS_NEAP_START_LINEAR_H

#include "planners/neap/search.h"

/*
 * The fastest schedule found within the budget (all bytes) or, if none fits, the one with the least
 * peak. `stop` is polled between attempts, and the first attempt is always made. `plan` is zeroed
 * or owns its arrays; release them also after a failure.
 */
neap_status neap_start_linear(neap_allocator *allocator, const problem *x, int64_t budget,
                              bool (*stop)(void *context), void *context, search_plan *plan,
                              neap_diag *diag);

#endif
