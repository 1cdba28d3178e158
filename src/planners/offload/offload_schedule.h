/*
 * The no-wait schedule of Proposition 1: which parcels leave and in which order the transfers run
 * is given; every computation and transfer then happens as early as its data and memory allow.
 *
 * - A copy out starts when the parcel is made and the engine is free. The parcel's memory is
 *   released when the copy has ended and the last op before the turn has read it.
 * - An op that lacks memory waits for copies out to end, in their order, until it has enough.
 * - A copy in starts as soon as the engine is free and its memory can be reserved, and only if
 *   every op from there to the parcel's use still fits: a parcel fetched too early would block the
 *   computation.
 *
 * The plan's list of steps is in time order, with one exception that it cannot express: memory that
 * a copy out releases in the middle of a computation is available to a copy in only when that
 * computation ends.
 */
#ifndef NEAP_OFFLOAD_SCHEDULE_H
#define NEAP_OFFLOAD_SCHEDULE_H

#include "planners/offload/offload_problem.h"

/*
 * A copy in normally starts when it and the next op both have their memory without waiting. It may
 * be worth more: then the op waits for copies out to end, and the copy in starts when there is room
 * for both, or as soon as there is room for it alone.
 */
typedef enum offload_patience {
    OFFLOAD_PATIENT = 0,
    OFFLOAD_WITH_OP,
    OFFLOAD_AT_ONCE
} offload_patience;

typedef struct offload_insistence {
    uint32_t from; /* the op from which it applies */
    offload_patience how;
} offload_insistence;

/* The decisions that define a schedule. Parcels by number. */
typedef struct offload_choice {
    uint32_t n;                 /* parcels that leave */
    uint32_t *out;              /* n of them, in the order of their copies out */
    uint32_t *in;               /* the same n, in the order of their copies in */
    offload_insistence *insist; /* per parcel; NULL: all are patient */
    uint32_t *hold; /* per parcel: its copy out starts no sooner than before this op, and after the
                       copies in there; 0: as early as it can. NULL: all 0 */
    bool strict;    /* a parcel whose copy out would not end before it is needed makes the schedule
                       infeasible; otherwise it stays, as if it were not chosen */
    const uint32_t *fetch_at; /* per parcel: the op before which its copy in starts, whether or not
                                 the engine is free; NULL: as early as it can */
} offload_choice;

/* Room for all parcels in its lists, in the problem's arena. */
neap_status neap_offload_choice_take(offload_problem *problem, offload_choice *choice,
                                     neap_diag *diag);
/* Copies all but `strict` and `fetch_at`. */
void neap_offload_choice_copy(const offload_problem *problem, offload_choice *to,
                              const offload_choice *from);

typedef struct offload_result {
    bool fits;            /* otherwise the rest is unset */
    int64_t ticks;        /* the makespan */
    int64_t idle_ticks;   /* of the compute stream */
    int64_t memory_waits; /* of these, ticks for memory that copies out release */
    int64_t host_bytes;
    int64_t peak_bytes; /* of the device; known only with fetch_at */
    uint32_t peak_op;
} offload_result;

/* Working memory of the simulator, in the problem's arena; one per thread. */
typedef struct offload_simulator offload_simulator;

neap_status neap_offload_simulator_create(offload_problem *problem, offload_simulator **simulator,
                                          neap_diag *diag);
void neap_offload_simulator_destroy(offload_simulator *simulator);

/* The no-wait schedule's makespan. */
offload_result neap_offload_simulate(offload_simulator *simulator, const offload_choice *choice);

/* Removes the parcels that would stay from the choice, and returns its result. */
offload_result neap_offload_prune(offload_simulator *simulator, offload_choice *choice);

/* The order of section 4.1: copies out in the parcels' order, copies in by what is needed first,
 * which on a chain is the reverse. `away` has a flag per parcel. */
void neap_offload_order(const offload_simulator *simulator, const bool *away,
                        offload_choice *choice);
/* Simulates that order, which is left in *choice; its lists are the simulator's own and valid until
 * the next call. */
offload_result neap_offload_simulate_ordered(offload_simulator *simulator, const bool *away,
                                             offload_choice *choice);

/* The same as a draft's plan, with peak and time as the timeline predicts them. */
neap_status neap_offload_use_choice(offload_simulator *simulator, const offload_choice *choice,
                                    draft *d, neap_diag *diag);

#endif
