/*
 * What the offloading methods share: the problem, the best selection of parcels so far, and how it
 * becomes a draft.
 *
 *     offload_search s;
 *     status = neap_offload_search_begin(p, grain, &s, diag);
 *     if (status == NEAP_OK && neap_offload_search_needed(&s))
 *         ... set s.away, call neap_offload_search_try(&s), as often as it takes ...
 *     if (status == NEAP_OK)
 *         status = neap_offload_search_finish(&s, d, diag);
 *     neap_offload_search_end(&s);
 */
#ifndef NEAP_OFFLOAD_METHOD_H
#define NEAP_OFFLOAD_METHOD_H

#include "planners/common/ranked.h"
#include "planners/offload/offload_schedule.h"

typedef struct offload_search {
    offload_problem problem;
    offload_simulator *simulator;
    bool *away;            /* per parcel: a selection to try */
    offload_choice best;   /* found so far; its lists are the search's own */
    offload_result result; /* of it; fits: there is one */
    int64_t bound;         /* ticks: no schedule is faster */
    uint64_t n_tried;
    bool stopped;     /* the method was interrupted */
    bool never_waits; /* a schedule with memory_waits is none of the method's */
    int64_t *absent;  /* per op, and one more: scratch */
    ranked *by_size;  /* units, the largest first */
} offload_search;

neap_status neap_offload_search_begin(const planner *p, offload_grain grain, offload_search *s,
                                      neap_diag *diag);
void neap_offload_search_end(offload_search *s);

/* Whether anything must leave, and enough can: else there is nothing to look for. */
bool neap_offload_search_needed(const offload_search *s);

/* Sets s->away for all parcels of a unit. */
void neap_offload_set_unit(offload_search *s, uint32_t unit, bool away);

/* Whether every op has its memory once all of s->away has left. Without that no schedule of the
 * selection fits; it takes a small part of the time of a simulation. */
bool neap_offload_search_enough(offload_search *s);

/* Simulates the no-wait, ordered schedule of s->away and keeps it if it is the best: least time,
 * then least bytes on the host. Its result is returned. */
offload_result neap_offload_search_try(offload_search *s);
/* The same for a choice with orders of its own; `result` is what the simulator said of it. */
void neap_offload_search_offer(offload_search *s, const offload_choice *choice,
                               offload_result result);

/*
 * Selects as little as will do, in s->away: of all units the largest stay, as long as the rest is
 * enough for every op within the budget. False where even all are not.
 */
bool neap_offload_cover(offload_search *s, int64_t budget);

/* The best as the draft's plan with bounds and figures, or why there is none. */
neap_status neap_offload_search_finish(offload_search *s, draft *d, neap_diag *diag);

/* The option every method has: whether it decides on storages or stages. */
#define OFFLOAD_GRAIN_OPTION                                                                       \
    NEAP_CHOICE_OPTION("grain", "storage|stage",                                                   \
                       "what is moved as one: each storage, or all that a stage of the chain "     \
                       "keeps")

#endif
