/*
 * What the offloading methods share: the problem, the best selection of parcels so far, and how it
 * becomes a draft.
 *
 *     offload_search s;
 *     status = neap_offload_search_begin(p, grain, &s, diag);
 *     if (neap_offload_search_needed(&s))
 *         ... set s.away and call neap_offload_search_try(&s), for each selection ...
 *     status = neap_offload_search_finish(&s, d, diag);
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
    bool never_waits; /* the method cannot use schedules with memory_waits */
    int64_t *absent;  /* per op, and one more: scratch */
    ranked *by_size;  /* units, the largest first */
} offload_search;

neap_status neap_offload_search_begin(const planner *p, offload_grain grain, offload_search *s,
                                      neap_diag *diag);
void neap_offload_search_end(offload_search *s);

/* Whether something must leave, and enough can leave; otherwise there is nothing to search for. */
bool neap_offload_search_needed(const offload_search *s);

/* Sets s->away for all parcels of a unit. */
void neap_offload_set_unit(offload_search *s, uint32_t unit, bool away);

/* The first op that lacks memory once all of s->away has left, or NEAP_NONE. If there is one, no
 * schedule of the selection fits. Takes a small part of the time of a simulation. */
uint32_t neap_offload_search_short(offload_search *s);

/* Simulates the no-wait, ordered schedule of s->away and keeps it if it is the best: least time,
 * then least bytes on the host. Its result is returned. */
offload_result neap_offload_search_try(offload_search *s);
/* The same for a choice with its own orders; `result` is what the simulator returned for it. */
void neap_offload_search_offer(offload_search *s, const offload_choice *choice,
                               offload_result result);

/* Selects few bytes in s->away: starting from all units, the largest stay, as long as the rest is
 * enough for every op within the budget. False if all units are not enough. */
bool neap_offload_cover(offload_search *s, int64_t budget);

/* Adds sign times the unit's bytes at the ops where it can be away; false if a sum is negative. */
bool neap_offload_add_unit(const offload_problem *problem, uint32_t unit, int64_t sign,
                           int64_t *bytes);

/* The best as the draft's plan with bounds and figures, or the reason that there is none. */
neap_status neap_offload_search_finish(offload_search *s, draft *d, neap_diag *diag);

/* ---- offload_improve.c ---- */

/* A choice to start from, without copies in at fixed ops. */
typedef struct offload_start {
    offload_choice choice;
    int64_t ticks;
} offload_start;

/*
 * Local search over Problem 1's decisions: which parcels leave, in which order the copies run, and
 * which copies in are worth waiting for. Each candidate is simulated as a whole. Starts from each
 * of the starts, with a share of the candidates, and from the search's best choice. Ends early when
 * the bound is reached or the planner is stopped. Same seed, same result.
 *
 * Unlike in neap's search (neap/search.h) every op runs once; the order of the copies changes.
 */
neap_status neap_offload_improve(offload_search *s, const offload_start *starts, uint32_t n_starts,
                                 uint64_t candidates, neap_diag *diag);

/* ---- offload_settle.c ---- */

/* A method that is part of another one, and its plan. */
typedef struct offload_way {
    const char *method; /* NULL: the search itself */
    draft found;
    int64_t ticks;  /* of its plan, or what they will be at best; INT64_MAX: this way has ended */
    bool again;     /* it is to plan within `within` */
    int64_t within; /* a budget */
    int64_t failed; /* a peak whose plan did not fit */
    int plans;      /* so far */
} offload_way;

/* Plans within the planner's budget. If `ways` is not NULL, the plans of the parts go there. */
typedef neap_status offload_search_run(const planner *p, offload_way *ways, uint32_t *n_ways,
                                       draft *d, neap_diag *diag);

/*
 * The fastest plan that has addresses within the budget: of those that `search` makes, and of its
 * parts', within ever fewer bytes. If none has, it is the first that `search` makes.
 */
neap_status neap_offload_settle(const planner *p, offload_search_run *search, draft *d,
                                neap_diag *diag);

/* ---- Options ---- */

/* The option every method has: whether it decides on storages or stages. */
#define OFFLOAD_GRAIN_OPTION                                                                       \
    NEAP_CHOICE_OPTION("grain", "storage|stage",                                                   \
                       "what is moved as one: each storage, or all that a stage of the chain "     \
                       "keeps")

#endif
