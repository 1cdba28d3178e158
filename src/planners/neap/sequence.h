/*
 * A schedule under change: the compute sequence, and the bytes in use at each of its items.
 *
 * An *item* is one run of a task. What is resident follows from the order of the items: each tensor
 * has a sorted list of *refs*, the items that make it or use it, and the gap before a ref is
 * occupied exactly when that ref is a use. So putting an item in or taking one out changes the
 * bytes in use over 1 + degree ranges of items, and nothing else. The last item is the end, which
 * uses the graph's outputs.
 *
 * Items lie in blocks of up to SEQUENCE_BLOCK. An addition to a range goes through the items of the
 * blocks at its two ends and takes one addition for each block between; every block's maximum is at
 * hand. For a hundred to a hundred thousand items these loops over neighbouring numbers beat a
 * balanced tree. The blocks are not those of common/byte_profile.h, whose places are fixed: items
 * move within a block, and a full block is split.
 *
 * A tensor that is *away* in the gap before a use (sent to the host) takes no bytes there; only the
 * use itself counts it.
 *
 * Changes are written into a journal from which they can be undone. Out of memory is a sticky flag:
 * the structure stays sound, changes are refused.
 */
#ifndef NEAP_PLANNERS_NEAP_SEQUENCE_H
#define NEAP_PLANNERS_NEAP_SEQUENCE_H

#include "base/columns.h"
#include "planners/neap/transfers.h"

enum { SEQUENCE_BLOCK = 64 };

typedef struct item {
    uint32_t task; /* NEAP_NONE: the end, or not in use */
    uint32_t block, index;
} item;

typedef struct ref {
    uint32_t item;
    bool makes;
    bool away; /* of a use: the gap before it is empty */
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

typedef enum change_kind { CHANGE_INSERT, CHANGE_REMOVE, CHANGE_VARIANT, CHANGE_AWAY } change_kind;

typedef struct change {
    change_kind kind;
    uint32_t id;    /* item; task for a variant; tensor for away */
    uint32_t other; /* before which item it stood; the old variant; the item that uses it */
    uint32_t task;  /* of a removed item */
} change;

typedef struct sequence {
    neap_allocator *allocator;
    neap_arena arena; /* of the arrays by task and by tensor */
    const problem *x;
    bool out_of_memory;
    bool keeps_first_runs; /* the first run of a task is not taken out */
    uint32_t end;          /* the last item */
    item *items;
    uint32_t n_items; /* ever given out */
    size_t item_capacity;
    uint32_t *free_items, n_free;
    size_t free_capacity;
    uint32_t *runs;   /* by task: how often it runs */
    ref_list *refs;   /* by tensor */
    uint32_t *choice; /* by task: its variant, counted from variant_start */
    /* blocks by number; in order: rank */
    item_block *blocks;
    uint32_t n_blocks;
    uint32_t *rank_of, *block_at; /* number to rank and back */
    int64_t *addition, *most;     /* by rank */
    neap_columns block_columns;   /* of these five arrays */
    int64_t ticks;                /* of all runs */
    uint32_t length;              /* items, the end not counted */
    uint32_t n_away;
    change *journal;
    size_t n_changes, journal_capacity;
} sequence;

/* Every task once, in the graph's order, by its fastest variant. Clear also after a failure. */
neap_status neap_sequence_init(sequence *q, neap_allocator *allocator, const problem *x,
                               neap_diag *diag);
void neap_sequence_clear(sequence *q);
/* Replaces the whole by a list (neap_plan_to_schedule gives one): legal, every task at least once.
 */
neap_status neap_sequence_load(sequence *q, const compute_list *list, neap_diag *diag);
/* Every task once, in the graph's order, by its fastest variant; then, until something changes, a
   task's item. */
neap_status neap_sequence_load_natural(sequence *q, neap_diag *diag);
uint32_t neap_sequence_item_of(const sequence *q, uint32_t task);
/* Into tasks[length] and, if not NULL, bytes[length + 1], the end's included, and the position of
   every item into place_of[n_items]. */
void neap_sequence_list(const sequence *q, uint32_t *tasks, int64_t *bytes, uint32_t *place_of);

/* ---- Where items stand ---- */

static inline uint32_t sequence_place(const sequence *q, uint32_t id)
{
    const item *i = &q->items[id];
    return q->rank_of[i->block] * SEQUENCE_BLOCK + i->index;
}

/* The item at a place or, where there is none, the next one; not behind the end. */
uint32_t neap_sequence_at(const sequence *q, uint32_t place);
uint32_t neap_sequence_next(const sequence *q, uint32_t id);     /* not of the end */
uint32_t neap_sequence_previous(const sequence *q, uint32_t id); /* NEAP_NONE: of the first */

/* Index in the tensor's refs of the first one at a place or behind it; the number of refs if none.
 */
uint32_t neap_sequence_find_ref(const sequence *q, uint32_t tensor, uint32_t place);

/* Whether the tensor waits in memory in the gap before its ref of an index. */
static inline bool ref_is_held(const ref_list *list, uint32_t at)
{
    return at < list->n && !list->refs[at].makes && !list->refs[at].away;
}

/* Whether no other run of its task stands before an item; the end is such an item, too. */
static inline bool sequence_is_first_run(const sequence *q, uint32_t id)
{
    uint32_t task = q->items[id].task;
    return task == NEAP_NONE || q->runs[task] < 2 ||
           q->refs[q->x->makes.items[q->x->makes.start[task]]].refs[0].item == id;
}

/* Ticks of a run of the task. */
static inline int64_t sequence_ticks(const sequence *q, uint32_t task)
{
    return q->x->variants[q->x->variant_start[task] + q->choice[task]].ticks;
}

/* ---- Bytes ---- */

static inline int64_t sequence_bytes(const sequence *q, uint32_t id)
{
    const item *i = &q->items[id];
    return q->blocks[i->block].bytes[i->index] + q->addition[q->rank_of[i->block]];
}

/* The most over all items. */
int64_t neap_sequence_most(const sequence *q);
/* Whether all items strictly between two have no more. */
bool neap_sequence_fits_between(const sequence *q, uint32_t from, uint32_t to, int64_t most);

/* ---- Changes ---- */

/* Runs a task also just before an item. Its inputs must have been made before. NEAP_NONE: out of
 * memory. */
uint32_t neap_sequence_insert(sequence *q, uint32_t task, uint32_t before);
/* The run is taken out. What it makes must have been made earlier if it is used later. */
void neap_sequence_remove(sequence *q, uint32_t id);
/* Whether it may be taken out. */
bool neap_sequence_can_remove(const sequence *q, uint32_t id);
void neap_sequence_set_variant(sequence *q, uint32_t task, uint32_t variant);
/* Sends a tensor away in the gap before a use, or lets it stay. */
void neap_sequence_set_away(sequence *q, uint32_t tensor, uint32_t use, bool away);

/* Undoes the changes since the journal had so many; or forgets all of them. */
void neap_sequence_undo(sequence *q, size_t n_changes);
void neap_sequence_commit(sequence *q);

#endif
