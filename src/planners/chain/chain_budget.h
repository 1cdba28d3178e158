/* The frame of the methods that plan a chain to a budget: chain view and costs in, a schedule out,
   and the tightest schedule where theirs does not fit. */
#ifndef NEAP_PLANNERS_BUDGETED_H
#define NEAP_PLANNERS_BUDGETED_H

#include "planners/chain/schedule.h"

/*
 * Finds a schedule for `memory` bytes beyond the pinned ones (a little more than all stages kept
 * together, at most). Sets *found. Leaves the schedule empty if there is none.
 */
typedef neap_status (*schedule_finder)(const planner *p, draft *d, const stage_costs *costs,
                                       int64_t memory, schedule *schedule, bool *found,
                                       neap_diag *diag);

neap_status neap_planner_use_finder(const planner *p, draft *d, schedule_finder find,
                                    neap_diag *diag);

#endif
