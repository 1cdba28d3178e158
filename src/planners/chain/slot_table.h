/*
 * The dynamic program over (i, j, memory in slots): least time for each subchain and each amount of
 * memory.
 *
 * Sizes are rounded up to whole slots, so a plan never needs more than its slots. The table of a
 * subchain holds only the slots between the least that suffices and the least without recomputation
 * (or the most it can get): outside, the value is infinite or constant.
 */
#ifndef NEAP_PLANNERS_SLOT_TABLE_H
#define NEAP_PLANNERS_SLOT_TABLE_H

#include "planners/chain/schedule.h"

/*
 * The fastest schedule in `slots` slots of `slot_bytes` each. If there is none, *found is false and
 * the schedule empty. Sets d->stopped if the planner was asked to stop. NEAP_UNSUPPORTED if the
 * table would be too large.
 */
neap_status neap_slot_table_find(const planner *p, draft *d, const stage_costs *costs,
                                 int64_t slot_bytes, int64_t slots, schedule *schedule, bool *found,
                                 neap_diag *diag);

/* ---- Groups of stages: fewer stages, whose schedules are schedules of the whole chain ---- */

/* The costs of groups of `size` stages (the last may be smaller). Clear also after a failure. */
neap_status neap_stage_groups_build(const stage_costs *costs, uint32_t size, stage_costs *groups,
                                    neap_diag *diag);
/* Turns runs of groups into runs of their stages. */
neap_status neap_stage_groups_expand(uint32_t n_stages, uint32_t size, schedule *s,
                                     neap_diag *diag);

/* ---- The inner loops, in the widest vectors of the processor ---- */

typedef struct slot_kernels {
    /* best[m] = min(best[m], constant + right[m] + left[m]) for m < count. */
    void (*two)(double *restrict best, const double *restrict right, const double *restrict left,
                double constant, int32_t count);
    /* best[m] = min(best[m], constant + part[m]) for m < count. */
    void (*one)(double *restrict best, const double *restrict part, double constant, int32_t count);
    /* pass[k] = a[k] + b[k] + c[k] < limit, for k < count. */
    void (*filter)(uint8_t *restrict pass, const float *restrict a, const float *restrict b,
                   const float *restrict c, float limit, int32_t count);
} slot_kernels;

slot_kernels neap_slot_kernels_choose(void);

#endif
