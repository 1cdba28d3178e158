/*
 * Sequences of methods that know nothing of updates: they may run an op again after the update of
 * what it reads. Such an update is moved behind the last of these runs.
 */
#ifndef NEAP_PLANNERS_LATE_UPDATES_H
#define NEAP_PLANNERS_LATE_UPDATES_H

#include "planners/common/planner.h"

/* Writes the sequence into moved[length], each update that must wait just behind the last op that
   reads what it overwrites. What updates make is not followed: ops that read it must not come
   before. */
neap_status neap_planner_delay_updates(const planner *p, const uint32_t *sequence, size_t length,
                                       uint32_t *moved, neap_diag *diag);

#endif
