/*
 * Bytes in use over the slots (stage t, op k <= t), under additions to ranges of slots.
 *
 * Whole stages inside a range take one addition each, and only the stages at its two ends are gone
 * through slot by slot; every stage's maximum is at hand. For up to a few thousand ops these plain
 * loops over neighbouring numbers are faster than a tree.
 */
#ifndef NEAP_PLANNERS_STAGE_PROFILE_H
#define NEAP_PLANNERS_STAGE_PROFILE_H

#include <neap/allocator.h>
#include <neap/status.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct stage_profile {
    neap_allocator *allocator;
    uint32_t n_stages;
    int64_t *bytes; /* of slot t (t + 1) / 2 + k, without the stage's own addition */
    int64_t *whole; /* per stage: added to all its slots */
    int64_t *most;  /* per stage: its maximum, `whole` included */
} stage_profile;

typedef struct slot {
    uint32_t stage, op;
} slot;

neap_status neap_stage_profile_init(stage_profile *x, neap_allocator *allocator, uint32_t n_stages,
                                    neap_diag *diag);
void neap_stage_profile_clear(stage_profile *x);
/* Adds to the slots from .. to, both included; nothing where from comes behind to. */
void neap_stage_profile_add(stage_profile *x, slot from, slot to, int64_t bytes);
/* The most in the slots from .. to; 0 where there are none. */
int64_t neap_stage_profile_most(const stage_profile *x, slot from, slot to);
/* A slot of the stage that reaches its maximum. */
slot neap_stage_profile_peak(const stage_profile *x, uint32_t stage);

static inline bool slot_before(slot a, slot b)
{
    return a.stage != b.stage ? a.stage < b.stage : a.op < b.op;
}

static inline slot slot_next(slot a)
{
    return a.op == a.stage ? (slot){a.stage + 1, 0} : (slot){a.stage, a.op + 1};
}

/* Of any but the first. */
static inline slot slot_previous(slot a)
{
    return a.op == 0 ? (slot){a.stage - 1, a.stage - 1} : (slot){a.stage, a.op - 1};
}

#endif
