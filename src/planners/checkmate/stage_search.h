/*
 * Ruin and recreate over stages: good plans for graphs of up to a few thousand ops, in seconds.
 *
 * The plans are Checkmate's: stage t ends with the first run of op t, and before it any earlier op
 * may run again, each once and in the graph's order. Nothing else is decided: a storage is resident
 * from the run that makes it to the last use before it is made again. So a schedule is a set of
 * runs, and putting one in or taking one out moves a few range additions on the profile of bytes
 * over slots.
 *
 * Repair: while a slot is overfull, some storage that only waits there is dropped: its op runs
 * again before the next use, together with what that needs. The drop with the most overflow removed
 * for the time added is taken, with some noise. Prune: recomputations that the budget does not
 * need, slowest first, go. The search ruins (takes recomputations of a window out), repairs and
 * prunes, and goes on from the result if it is not much worse.
 *
 * A view costs nothing here: it is there whenever its storage is. Ops that only make views get
 * their runs when the sequence is written out.
 */
#ifndef NEAP_PLANNERS_STAGE_SEARCH_H
#define NEAP_PLANNERS_STAGE_SEARCH_H

#include "planners/common/incumbent.h"

/* Above this many ops the tables take more memory than they are worth. */
#define STAGE_SEARCH_MOST_OPS 4000

/*
 * Improves on the incumbent, from the natural order, in so many rounds at most; fewer on small
 * graphs, when the planner is stopped, or when a third of its time limit is over. Same seed, same
 * plan.
 */
neap_status neap_stage_search_improve(const planner *p, incumbent *best, uint32_t rounds,
                                      neap_diag *diag);

/* For a budget in which nothing was found: looks for the least peak that repair can reach, by
   bisection, and leaves that plan as the incumbent's tightest. */
neap_status neap_stage_search_tighten(const planner *p, incumbent *best, neap_diag *diag);

/*
 * Makes a compute sequence in stages fit the budget by further drops, prunes it and offers the
 * result. Of a sequence that is not in stages, runs out of order count for the stage they stand in.
 */
neap_status neap_stage_search_repair(const planner *p, incumbent *best, const uint32_t *sequence,
                                     size_t length, neap_diag *diag);

#endif
