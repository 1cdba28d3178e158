/*
 * The least memory that the recursion of schedule.h can do with: need(i, j) for every subchain,
 * smallest first. O(n^3) time, O(n^2) space, both small beside the methods that ask for it when a
 * budget is too tight.
 */
#ifndef NEAP_PLANNERS_LEAST_MEMORY_H
#define NEAP_PLANNERS_LEAST_MEMORY_H

#include "planners/chain/schedule.h"

/* The schedule that needs least, and how much that is, pinned bytes included. */
neap_status neap_least_memory_schedule(const planner *p, const stage_costs *costs,
                                       schedule *schedule, int64_t *bytes, neap_diag *diag);

#endif
