/*
 * When tensors leave for the host and come back, for a given order of computations.
 *
 * A *compute list* is the compute stream: tasks in the order they run, each as often as it runs. A
 * *transfer* is a tensor that is away between two consecutive touches of one instance: the
 * computations at positions `after` and `before` of the list touch it, none in between touches or
 * makes it. (The end of the list, position n, touches the graph's outputs.)
 *
 * State (problem.h) is there from the start, which is position NEAP_NONE here, so that after + 1 is
 * the position behind it, to the end. State that is on the host at the start and at the end has two
 * transfers of a special kind: one *leads*, from the start to its first use, and only brings it;
 * one *ends*, from its last use to the end, and only takes it away. (Without uses both are one.)
 * After its update (`updated`), earlier copies on the host are of no use.
 *
 * The computation at `after` may write *over* the tensor (problem.h). Then its copy ends before,
 * and the tensor need not be freed.
 *
 * Memory: `room[p]` is what is left of the budget while position p runs if every transferred tensor
 * is away at all positions strictly between its `after` and its `before`; never negative. A tensor
 * that leaves late (its copy takes time) or comes back early (so that its reader need not wait)
 * takes room there, and the schedule decides which one gets it. The room at the end, room[n],
 * counts only if some transfer ends there.
 *
 * The plan (plan_conversion.h) has, just before position p: the offloads with `copied` == p - 1,
 * the frees with `freed` == p and the prefetches with `fetched` == p, sorted by their *turns*
 * (within one turn in this order, then in the order of the transfers); then the computation. So the
 * tensor takes room at the positions after + 1 .. freed - 1 and fetched .. before - 1, and after <
 * freed <= fetched <= before. Its copy may start as soon as it is made: copied <= after. A prefetch
 * may precede a free that waits for a copy: the outputs and the workspace of position p do not
 * exist yet, so there is more room just before it than while it runs. A tensor that is written over
 * has no free, `freed` is after + 1, and if it is copied out, copied < after.
 */
#ifndef NEAP_PLANNERS_NEAP_TRANSFERS_H
#define NEAP_PLANNERS_NEAP_TRANSFERS_H

#include "planners/neap/problem.h"

typedef struct transfer {
    uint32_t tensor;
    uint32_t after, before;  /* given */
    bool copies_out;         /* given: false if an earlier transfer has left a copy on the host */
    bool leads, ends;        /* given: it is on the host before, or behind */
    bool updated;            /* given: the state has been overwritten */
    bool over;               /* given: it is written over at `after`; it does not stay then */
    bool stays;              /* found: it fits all the way, nothing is moved */
    uint32_t copied;         /* found, unless it stays or makes no copy */
    uint32_t freed, fetched; /* found, unless it stays */
    uint32_t copy_turn, free_turn, fetch_turn; /* found with these */
} transfer;

typedef struct compute_list {
    uint32_t n, *tasks;
    uint32_t *choice; /* by task: its variant, counted from variant_start; NULL: all 0 */
    uint32_t n_transfers;
    transfer *transfers;
    size_t capacity, transfer_capacity; /* of a list that owns its arrays */
} compute_list;

/* Releases the arrays of a list that owns them. */
void neap_compute_list_clear(neap_allocator *allocator, const problem *x, compute_list *list);

typedef struct transfer_scratch transfer_scratch; /* working space, kept between calls */

neap_status neap_transfer_scratch_create(neap_allocator *allocator, const problem *x,
                                         const neap_link *link, transfer_scratch **scratch,
                                         neap_diag *diag);
void neap_transfer_scratch_destroy(transfer_scratch *scratch);

/*
 * Decides `stays`, `copied`, `freed` and `fetched` of the list's transfers (sorted by `after`) such
 * that the room suffices everywhere and the makespan is as short as a fast heuristic can make it;
 * *ticks is that makespan, exactly as the judge computes it for the plan described above, or
 * INT64_MAX if the host memory does not suffice or a clock could overflow (then nothing is
 * decided). Costs little more than O(n + transfers): it is called thousands of times. A transfer
 * whose host copy would come from another one that stays makes the copy itself.
 *
 * A `noise` other than 0 adds one random attempt. Repeated calls with similar lists thus find
 * schedules that the rules miss.
 */
neap_status neap_transfers_schedule(transfer_scratch *scratch, const compute_list *list,
                                    const int64_t *room, uint64_t noise, int64_t *ticks,
                                    neap_diag *diag);

#endif
