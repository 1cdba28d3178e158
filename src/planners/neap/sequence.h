/*
 * A mutable schedule: the compute sequence, and the bytes in use at each of its items.
 *
 * An *item* is one run of a task. What is resident follows from the order of the items: each tensor
 * has a sorted list of *refs*, the items that make it or use it, and the tensor is in memory in the
 * gap before a ref exactly if that ref is a use. So inserting or removing an item changes the bytes
 * in use over at most 1 + degree ranges of items. The last item is the end, which uses the graph's
 * outputs.
 *
 * Items are stored in blocks of up to SEQUENCE_BLOCK. An addition to a range goes through the items
 * of its first and last block and adds once to each block in between; every block keeps its
 * maximum. For a hundred to a hundred thousand items these loops over adjacent numbers beat a
 * balanced tree. common/byte_profile.h does not serve here because its places are fixed: items move
 * within a block, and a full block is split.
 *
 * An item is in place (problem.h) if its task may be and the next ref of the tensor that it would
 * write over is not a use, or is one that it is away before and that is marked `over`. Then it
 * takes that tensor's bytes less.
 *
 * A tensor that is *away* in the gap before a use (offloaded to the host) takes no bytes there;
 * only the use itself counts it.
 *
 * If there is state that travels (problem.h), the first item is the start, which makes all of it,
 * and the end uses it. State that is *on the host* at both is away in its first and its last gap,
 * and neither the start nor the end counts it. A new use in a gap in which state is away leaves it
 * away on both sides.
 *
 * A journal records changes so that they can be undone. Out of memory is a sticky flag: the
 * structure stays valid and rejects further changes.
 */
#ifndef NEAP_PLANNERS_NEAP_SEQUENCE_H
#define NEAP_PLANNERS_NEAP_SEQUENCE_H

#include "base/columns.h"
#include "base/memory.h"
#include "planners/neap/transfers.h"

enum { SEQUENCE_BLOCK = 64 };

typedef struct item {
    uint32_t task; /* NEAP_NONE: the start, the end, or an unused id */
    uint32_t block, index;
    bool in_place;
} item;

typedef struct ref {
    uint32_t item;
    bool makes;
    bool away; /* of a use: the tensor is not in memory in the gap before it */
    bool over; /* of a use that it is away before: the last touch writes over the tensor */
} ref;

typedef struct ref_list {
    ref *refs;
    uint32_t n;
    size_t capacity;
} ref_list;

typedef struct item_block {
    uint32_t n;
    uint32_t items[SEQUENCE_BLOCK];
    int64_t bytes[SEQUENCE_BLOCK]; /* while the item runs, without the block's addition */
} item_block;

typedef enum change_kind {
    CHANGE_INSERT,
    CHANGE_REMOVE,
    CHANGE_VARIANT,
    CHANGE_AWAY,
    CHANGE_HOST,
    CHANGE_OVER
} change_kind;

typedef struct change {
    change_kind kind;
    uint32_t id;    /* item; task for a variant; tensor for away, on the host and over */
    uint32_t other; /* the next item; the old variant; the item that uses it */
    uint32_t task;  /* of an item; whether the tensor goes away, is on the host, is written over */
} change;

typedef struct sequence {
    neap_allocator *allocator;
    neap_arena arena; /* of the arrays by task and by tensor */
    const problem *x;
    bool out_of_memory;
    bool keeps_first_runs; /* the first run of a task is never removed */
    uint32_t end;          /* the last item */
    uint32_t start;        /* the first, if there is state; else NEAP_NONE */
    bool *on_host;         /* by state, counted from 0: at the start and at the end */
    item *items;
    uint32_t n_items; /* ids in use or free */
    size_t item_capacity;
    uint32_t *free_items, n_free;
    size_t free_capacity;
    uint32_t *runs;   /* by task: number of runs */
    uint32_t *only;   /* by task that is an update or makes nothing: its item */
    ref_list *refs;   /* by tensor */
    uint32_t *choice; /* by task: its variant, counted from variant_start */
    /* blocks have a number that does not change, and a rank in the sequence */
    item_block *blocks;
    uint32_t n_blocks;
    uint32_t *rank_of, *block_at; /* rank by number, number by rank */
    int64_t *addition, *most;     /* by rank */
    neap_columns block_columns;   /* of these five arrays */
    int64_t ticks;                /* of all runs */
    uint32_t length;              /* items without the end */
    uint32_t n_away;
    change *journal;
    size_t n_changes, journal_capacity;
} sequence;

/* Every task once, in the graph's order, by its fastest variant. Clear also after a failure. */
neap_status neap_sequence_init(sequence *q, neap_allocator *allocator, const problem *x,
                               neap_diag *diag);
void neap_sequence_clear(sequence *q);
/* Loads a legal list with every task at least once. Without `tasks` (NULL) the list is the natural
   order. Resets the journal. */
neap_status neap_sequence_load(sequence *q, const compute_list *list, neap_diag *diag);
/* Loads every task once, in the graph's order, with its fastest variant; until the next change,
   neap_sequence_item_of gives a task's item. */
neap_status neap_sequence_load_natural(sequence *q, neap_diag *diag);
uint32_t neap_sequence_item_of(const sequence *q, uint32_t task);
/* Writes tasks[length] and, unless they are NULL, bytes[length + 1], the end's included, and the
   position of every item, place_of[n_items]; the start's is NEAP_NONE. */
void neap_sequence_list(const sequence *q, uint32_t *tasks, int64_t *bytes, uint32_t *place_of);

/* Records a failed allocation in the sticky flag; whether it succeeded. */
static inline bool sequence_check(sequence *q, neap_status status)
{
    q->out_of_memory |= status != NEAP_OK;
    return status == NEAP_OK;
}

#define sequence_reserve(q, needed, array, capacity)                                               \
    ((needed) <= *(capacity) ||                                                                    \
     sequence_check((q), NEAP_RESERVE((q)->allocator, (needed), (array), (capacity), NULL)))

/* ---- Positions ---- */

static inline uint32_t sequence_place(const sequence *q, uint32_t id)
{
    const item *i = &q->items[id];
    return q->rank_of[i->block] * SEQUENCE_BLOCK + i->index;
}

/* The item at a place up to the end's or, if it is empty, the next one. */
uint32_t neap_sequence_at(const sequence *q, uint32_t place);
uint32_t neap_sequence_next(const sequence *q, uint32_t id);     /* id: not the end */
uint32_t neap_sequence_previous(const sequence *q, uint32_t id); /* of the first: NEAP_NONE */

/* Index of the tensor's first ref at a place or after it; the number of refs if there is none. */
uint32_t neap_sequence_find_ref(const sequence *q, uint32_t tensor, uint32_t place);

/* Whether the tensor is in memory in the gap before refs[at]. */
static inline bool ref_is_held(const ref_list *list, uint32_t at)
{
    return at < list->n && !list->refs[at].makes && !list->refs[at].away;
}

/* Whether refs[at] is a use by a task that may write over the tensor. */
static inline bool ref_may_pass_on(const sequence *q, uint32_t tensor, uint32_t at)
{
    const ref *r = &q->refs[tensor].refs[at];
    return q->x->may_pass_on[tensor] && !r->makes && q->items[r->item].task != NEAP_NONE &&
           q->x->in_place[q->items[r->item].task] == tensor;
}

/* Whether an item is the first run of its task, or the end. */
static inline bool sequence_is_first_run(const sequence *q, uint32_t id)
{
    uint32_t task = q->items[id].task;
    return task == NEAP_NONE || q->runs[task] < 2 ||
           q->refs[q->x->makes.items[q->x->makes.start[task]]].refs[0].item == id;
}

/* Ticks of one run of a task. */
static inline int64_t sequence_ticks(const sequence *q, uint32_t task)
{
    return q->x->variants[q->x->variant_start[task] + q->choice[task]].ticks;
}

/* The last run of a task. */
uint32_t neap_sequence_last_run(const sequence *q, uint32_t task);
/* Whether a task may run before an item as far as updates are concerned: none of what it reads has
   been updated. */
bool neap_sequence_precedes_updates(const sequence *q, uint32_t task, uint32_t before);

static inline bool sequence_is_on_host(const sequence *q, uint32_t tensor)
{
    return is_state(q->x, tensor) && q->on_host[tensor - q->x->n_tensors];
}

/* ---- Bytes ---- */

static inline int64_t sequence_bytes(const sequence *q, uint32_t id)
{
    const item *i = &q->items[id];
    return q->blocks[i->block].bytes[i->index] + q->addition[q->rank_of[i->block]];
}

/* The maximum over all items. */
int64_t neap_sequence_most(const sequence *q);
/* Whether no item strictly between two has more. */
bool neap_sequence_fits_between(const sequence *q, uint32_t from, uint32_t to, int64_t most);

/* ---- Changes ---- */

/* Adds a run of a task just before an item; its inputs must have been made earlier, and none of
   what it reads may have been updated. Returns the new item; NEAP_NONE: out of memory. */
uint32_t neap_sequence_insert(sequence *q, uint32_t task, uint32_t before);
/* Removes a run. What it makes must have been made earlier if it is used later. */
void neap_sequence_remove(sequence *q, uint32_t id);
/* Whether it may be removed; false for an unused id. */
bool neap_sequence_can_remove(const sequence *q, uint32_t id);
void neap_sequence_set_variant(sequence *q, uint32_t task, uint32_t variant);
/* Sends a tensor away in the gap before a use, or brings it back. */
void neap_sequence_set_away(sequence *q, uint32_t tensor, uint32_t use, bool away);
/* Of a use that a tensor is away before: lets the last touch, which may, write over the tensor. A
   new touch in between ends that, and so does the removal of the last one. */
void neap_sequence_set_over(sequence *q, uint32_t tensor, uint32_t use, bool over);
/* Puts state on the host at the start and at the end, or back onto the device all the way. */
void neap_sequence_set_host(sequence *q, uint32_t state, bool on_host);
/* Brings back every tensor that an item reads, in the gap before it; state is left as it is. */
void neap_sequence_bring_back(sequence *q, uint32_t id);

/* Undoes the changes after the first n_changes of the journal; or clears the journal. */
void neap_sequence_undo(sequence *q, size_t n_changes);
void neap_sequence_commit(sequence *q);

#endif
