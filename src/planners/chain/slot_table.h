/*
 * The dynamic program over (i, j, memory in slots): least time for each subchain and each amount of
 * memory.
 *
 * Sizes are rounded up to whole slots, so a plan never needs more than its slots say. The table of
 * a subchain holds only the slots between the least that suffices and the least at which nothing is
 * computed twice (or the most that can ever be left for it): outside, the value is infinite or
 * constant.
 */
#ifndef NEAP_PLANNERS_SLOT_TABLE_H
#define NEAP_PLANNERS_SLOT_TABLE_H

#include "planners/chain/schedule.h"

/*
 * The fastest schedule in `slots` slots of `slot_bytes` each; *found is false, and the schedule
 * empty, where there is none. Sets d->stopped if the planner was told to stop. NEAP_UNSUPPORTED
 * where the table would be absurdly large.
 */
neap_status neap_slot_table_find(const planner *p, draft *d, const stage_costs *costs,
                                 int64_t slot_bytes, int64_t slots, schedule *schedule, bool *found,
                                 neap_diag *diag);

#endif
