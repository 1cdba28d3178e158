/*
 * A chain with neighbouring stages taken together: fewer stages, fewer schedules, all of them
 * schedules of the whole chain. A first schedule found there bounds the search for the best one.
 */
#ifndef NEAP_PLANNERS_STAGE_GROUPS_H
#define NEAP_PLANNERS_STAGE_GROUPS_H

#include "planners/chain/schedule.h"

/* The costs of groups of `size` stages (the last may be smaller). Clear also after a
 * failure. */
neap_status neap_stage_groups_build(const stage_costs *costs, uint32_t size, stage_costs *groups,
                                    neap_diag *diag);

/* Turns runs of groups into runs of their stages. */
neap_status neap_stage_groups_expand(uint32_t n_stages, uint32_t size, schedule *s,
                                     neap_diag *diag);

#endif
