/*
 * Good plans in Checkmate's form, quickly, by neap's search (planners/neap/sequence_search.h).
 */
#ifndef NEAP_PLANNERS_FRONTIER_SEARCH_H
#define NEAP_PLANNERS_FRONTIER_SEARCH_H

#include "planners/checkmate/incumbent.h"

/*
 * Improves on the incumbent, from the natural order, in at most `rounds` rounds. It ends early if
 * the plan no longer improves, if nothing fits the budget, when the planner is stopped, or after a
 * third of its time limit. Same seed, same plan.
 */
neap_status neap_frontier_search_improve(const planner *p, incumbent *best, uint32_t rounds,
                                         neap_diag *diag);

/* For a budget in which nothing was found: looks for the least peak, and leaves that plan as the
   incumbent's tightest. */
neap_status neap_frontier_search_tighten(const planner *p, incumbent *best, neap_diag *diag);

/* Makes a compute sequence fit the budget by further recomputations, and offers the result. */
neap_status neap_frontier_search_repair(const planner *p, incumbent *best, const uint32_t *sequence,
                                        size_t length, neap_diag *diag);

#endif
