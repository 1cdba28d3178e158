/*
 * State that a plan may keep on the host, as bounds see it (docs/bounds.md, "State").
 *
 * A storage moves if a link has bandwidth both ways, the request allows it, and all of the graph's
 * inputs on the storage are state that is not pinned. Relative to the first run of a task it is
 * *absent* if no value on it is resident then. What that costs at least depends on where it is when
 * the step begins:
 *
 *     on the device: it has left before the task, and comes back after it;
 *     on the host:   it comes before every op that reads it, and once more if there are such ops
 *                    on both sides of the task; if it is updated, it goes back.
 */
#ifndef NEAP_PLANNERS_NEAP_MOVING_STATE_H
#define NEAP_PLANNERS_NEAP_MOVING_STATE_H

#include "planners/neap/problem.h"

/* Ticks of copies: those that end before a task starts, those that start after it has ended, and
   those of which each certainly does one or the other. */
typedef struct copy_sums {
    int64_t in_before, out_before;
    int64_t in_after, out_after;
    int64_t in_either, out_either;
} copy_sums;

typedef struct moving_state {
    uint32_t n;
    uint32_t *storage; /* the value that owns it */
    int64_t *bytes;
    int64_t *in, *out; /* ticks of a copy */
    id_lists readers;  /* tasks */
    uint32_t *updater; /* task; NEAP_NONE: none */
    bool *may_stay;    /* it may be on the device when the step begins */
    int64_t all_bytes;
} moving_state;

/* Whether state moves at all. */
bool neap_moving_state_exists(const problem *x, const neap_link *link);

/* Everything is in the arena; false: out of memory. */
bool neap_moving_state_init(moving_state *m, neap_arena *arena, const problem *x,
                            const neap_link *link);

/* What copies take at least, wherever state is during the step: what must begin on the host comes
   if it is read, and goes back if it is updated. */
int64_t neap_moving_state_least_ticks(const moving_state *m, bool duplex);

/* Whether a task reads a value on the i-th storage. */
bool neap_moving_state_is_read(const moving_state *m, uint32_t i, uint32_t task);

/* The cost of the i-th storage being absent at a task, by where it is when the step begins. The
   task itself may read it only if it writes over it. */
copy_sums neap_moving_state_from_device(const moving_state *m, uint32_t i);
copy_sums neap_moving_state_from_host(const moving_state *m, uint32_t i, uint32_t task,
                                      const uint8_t *role);

/* Ticks of a copy of so many bytes. Capped, so that sums do not overflow; this only lowers
   bounds. */
int64_t neap_copy_ticks(const problem *x, const neap_link *link, bool out, int64_t bytes);

#endif
