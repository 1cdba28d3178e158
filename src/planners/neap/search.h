/*
 * Ruin and recreate on a compute sequence: one stream of it, alone on its thread.
 *
 * Repair (repair.c): while an item is overfull, some tensor that only waits there is dropped: its
 * task runs again before the next use, together with what that needs. Prune (prune.c): runs that
 * the budget does not need go, slow ones first. An iteration ruins a part of the schedule, repairs
 * and prunes, and goes on from the result if it is not much worse (search.c).
 */
#ifndef NEAP_PLANNERS_NEAP_SEARCH_H
#define NEAP_PLANNERS_NEAP_SEARCH_H

#include "planners/neap/sequence.h"

enum { MOST_SAMPLES = 32 };

/* An overfull item; places ascend. */
typedef struct overfull {
    uint32_t item, place;
    int64_t bytes; /* too many */
} overfull;

/* A way to empty a gap: the tensor is made again before its use, or a run moves. */
typedef enum drop_kind { DROP_REMAKE = 0, DROP_MOVE } drop_kind;

typedef struct drop {
    drop_kind kind;
    uint32_t tensor, use; /* the item behind the gap; or before which the moved one comes */
    uint32_t moved;
    double mood;  /* noise */
    double score; /* overflow removed for the time: an estimate until it has been tried */
    bool tried;
} drop;

typedef struct ranked {
    double rank;
    uint32_t item;
} ranked;

typedef struct search {
    neap_allocator *allocator;
    const problem *x;
    sequence q;
    int64_t budget; /* for tensors and workspaces alone */
    uint64_t random;
    bool moving;      /* runs may change their places */
    double move_cost; /* ticks that a move counts for */
    uint64_t moods;
    bool moody;
    int focus;
    double noise;                     /* of scores: 0 is none */
    int64_t most_ticks;               /* a repair that takes more is given up */
    uint32_t *droppable, n_droppable; /* tensors, largest first */
    uint32_t n_large; /* of these, without the small ones that make up a thousandth of all bytes */
    overfull samples[MOST_SAMPLES];
    uint32_t n_samples;
    uint32_t n_overfull; /* all of them */
    overfull *all;       /* scratch */
    size_t all_capacity;
    drop *drops;
    uint32_t n_drops;
    size_t drop_capacity;
    ranked *ranks; /* scratch of prune */
    size_t rank_capacity;
    int64_t current_ticks;
    /* the best so far */
    bool found;
    int64_t best_ticks, best_peak; /* all bytes */
    uint32_t *best, n_best;
    size_t best_capacity;
    uint32_t *best_choice; /* by task */
    uint64_t iterations, improved;
} search;

/* Clear also after a failure. budget: all bytes. */
neap_status search_init(search *s, neap_allocator *allocator, const problem *x, int64_t budget,
                        uint64_t seed, neap_diag *diag);
void search_clear(search *s);

/* The first schedule, by repair and prune from what the sequence holds; where it cannot be made to
   fit, the least peak found, in `best`. */
neap_status search_construct(search *s, bool (*stop)(void *context), void *context,
                             neap_diag *diag);
/* So many iterations, or until told to stop. */
neap_status search_iterate(search *s, uint32_t iterations, bool (*stop)(void *context),
                           void *context, neap_diag *diag);

/* ---- Its parts ---- */

/* False: it got stuck, ran out of memory or takes too long. */
bool search_repair(search *s);
/* Takes out runs that are not needed, of the given items or (NULL) of all. */
void search_prune(search *s);
/* Whether a run may stand just before an item instead; and puts it there: its new id. */
bool search_can_move(const search *s, uint32_t id, uint32_t before);
uint32_t search_move(search *s, uint32_t id, uint32_t before);
uint32_t search_random_item(search *s);
/* Gives some runs around an item other places. */
void search_shuffle(search *s, uint32_t center);
/* Takes out a run and what only it needed. */
void search_remove(search *s, uint32_t id);

#endif
