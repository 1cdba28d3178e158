/*
 * A compute sequence in flat arrays, for single changes at a high rate.
 *
 * Refs, residency and runs in place are those of sequence.h: a tensor is in memory in the gap
 * before a ref exactly if that ref is a use. Here everything is stored by place, so that a move
 * within a window touches the window only, and an insertion everything behind it. Up to some
 * thousand runs that is several times faster than blocks. The bytes above the budget are summed
 * while they change. There is no journal: each change has an inverse. Nothing is offloaded.
 */
#ifndef NEAP_PLANNERS_NEAP_FLAT_SEQUENCE_H
#define NEAP_PLANNERS_NEAP_FLAT_SEQUENCE_H

#include "base/arena.h"
#include "planners/neap/transfers.h"

/* A run that makes a tensor or uses it. */
typedef struct flat_ref {
    uint32_t item;
    bool makes;
} flat_ref;

typedef struct flat_refs {
    flat_ref *refs; /* by place */
    uint32_t n;
    size_t capacity;
} flat_refs;

/* Adds bytes to n places; returns the change of the bytes above the budget. */
typedef int64_t flat_kernel(int64_t *places, size_t n, int64_t bytes, int64_t budget);

typedef struct flat_sequence {
    neap_allocator *allocator;
    neap_arena arena;
    const problem *x;
    flat_kernel *kernel;
    bool out_of_memory; /* sticky: further insertions are refused */
    int64_t budget;     /* for tensors and workspaces only */
    int64_t ticks;      /* of all runs */
    int64_t over;       /* bytes above the budget, summed over the places */
    uint32_t length;    /* runs; the end is behind them */
    uint32_t most_runs;
    uint32_t end;     /* the last item */
    uint32_t *items;  /* by place: item */
    int64_t *bytes;   /* by place */
    uint32_t *task;   /* by item; NEAP_NONE: the end, or unused */
    uint32_t *place;  /* by item */
    bool *in_place;   /* by item */
    uint32_t *unused; /* items */
    uint32_t n_unused;
    flat_refs *refs;         /* by tensor */
    uint32_t *runs, *choice; /* by task: number of runs; variant from variant_start */
    uint32_t *only;          /* by task that is an update or makes nothing: its item */
    uint32_t *again, n_again,
        *again_at; /* tasks that run several times; the place of a task there */
} flat_sequence;

/* Empty, with room for most_runs runs. Clear also after a failure. budget: all bytes. */
neap_status neap_flat_sequence_init(flat_sequence *q, neap_allocator *allocator, const problem *x,
                                    int64_t budget, uint32_t most_runs, neap_diag *diag);
void neap_flat_sequence_clear(flat_sequence *q);

/* Loads a legal list without its transfers, of at most most_runs runs; NULL: the natural order. */
neap_status neap_flat_sequence_load(flat_sequence *q, const compute_list *list, neap_diag *diag);

/* Whether none of what a task reads has been updated before a place. */
bool neap_flat_sequence_precedes_updates(const flat_sequence *q, uint32_t task, uint32_t place);
/* Adds a run of a task before a place; its inputs must have been made earlier, and none of what it
   reads may have been updated. Returns the new item; NEAP_NONE: no room. */
uint32_t neap_flat_sequence_insert(flat_sequence *q, uint32_t task, uint32_t place);
/* Removes a run. What it makes must have been made earlier if it is used later. */
void neap_flat_sequence_remove(flat_sequence *q, uint32_t item);
bool neap_flat_sequence_can_remove(const flat_sequence *q, uint32_t item);
/* Moves a run before the run that is now at a place, within its range. */
void neap_flat_sequence_move(flat_sequence *q, uint32_t item, uint32_t place);
/* The places before which a run may move: everything that it reads has been made, and nothing uses
   what only it makes; an update stays behind the readers of what it overwrites. */
typedef struct flat_range {
    uint32_t first, last;
} flat_range;
flat_range neap_flat_sequence_range(const flat_sequence *q, uint32_t item);
void neap_flat_sequence_set_variant(flat_sequence *q, uint32_t task, uint32_t variant);

/* Index of the tensor's first ref at a place or after it; the number of refs if there is none. */
uint32_t neap_flat_sequence_find_ref(const flat_sequence *q, uint32_t tensor, uint32_t place);
/* The largest number of bytes at any place. */
int64_t neap_flat_sequence_most(const flat_sequence *q);

#endif
