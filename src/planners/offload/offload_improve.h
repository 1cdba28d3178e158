/*
 * Local search over Problem 1's decisions: which parcels leave, in which order the copies run, and
 * which copies in are worth waiting for. Each candidate is simulated as a whole, which is cheap, so
 * nothing is approximated. It is not neap's search (neap/search.h): every op runs once, and what
 * changes is the order of the copies, which that search leaves to a fixed rule.
 */
#ifndef NEAP_OFFLOAD_IMPROVE_H
#define NEAP_OFFLOAD_IMPROVE_H

#include "planners/offload/offload_method.h"

/* Where a search may begin: another method's choice, without copies in at fixed ops. */
typedef struct offload_start {
    offload_choice choice;
    int64_t ticks;
} offload_start;

/*
 * Goes on from the given starts, each with a share of the candidates, and from the best choice of
 * the search, in so many candidates at most; fewer when the bound
 * is reached or the planner is stopped. Same seed, same result.
 */
neap_status neap_offload_improve(offload_search *s, const offload_start *starts, uint32_t n_starts,
                                 uint64_t candidates, neap_diag *diag);

#endif
