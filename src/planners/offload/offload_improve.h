/*
 * Local search over Problem 1's decisions: which parcels leave, in which order the copies run, and
 * which copies in are worth waiting for. Each candidate is simulated as a whole, which is cheap, so
 * nothing is approximated.
 */
#ifndef NEAP_OFFLOAD_IMPROVE_H
#define NEAP_OFFLOAD_IMPROVE_H

#include "planners/offload/offload_method.h"

/*
 * Goes on from the best choice of the search, in so many candidates at most; fewer when the bound
 * is reached or the planner is stopped. Same seed, same result.
 */
neap_status offload_improve(offload_search *s, uint64_t candidates, neap_diag *diag);

#endif
