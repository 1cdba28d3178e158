/*
 * A partial placement: some items are placed, and bounds follow for the rest.
 *
 * Items are placed in ascending order of offset, so the next item can only lie on top of the items
 * that are already placed: at `top`. For each unplaced item, `low` is a lower bound on its offset:
 * `top`, or more if `top` has been ruled out. An item that was ruled out at `top` has to lie on an
 * item that is not placed yet, so not below the least end of any unplaced item that it meets. An
 * item can be placed while `low` equals `top`.
 *
 * In a section, all unplaced items lie above the least `low` among them, so this plus the sum of
 * their sizes must not exceed the capacity. One item that is low enough proves that the section
 * fits; each section keeps such a witness and looks for another only when the witness is placed or
 * lifted. Every change can be undone, back to a mark.
 */
#ifndef NEAP_LAYOUT_BOUNDS_H
#define NEAP_LAYOUT_BOUNDS_H

#include "layout/sections.h"

typedef struct neap_bounds_change {
    int64_t *at, old;
} neap_bounds_change;

typedef struct neap_bounds_mark {
    size_t n_changes, n_placed;
} neap_bounds_mark;

typedef struct neap_bounds {
    const neap_sections *sections;
    int64_t capacity; /* of the arena */
    /* by item */
    int64_t *top, *low;
    bool *is_placed;
    size_t *life;     /* where its entries in `seat` begin, one a section */
    uint32_t *placed; /* in order */
    size_t n_placed;
    /* by section */
    int64_t *rest;       /* bytes not yet placed */
    uint32_t *witness;   /* an item low enough for all that is not yet placed */
    uint32_t *crossing;  /* items not yet placed that live in the next section, too */
    uint32_t *n_members; /* not yet placed */
    size_t *first;       /* where its members begin */
    uint32_t *members;   /* those not yet placed come first */
    uint32_t *seat;      /* of an item among the members of a section */
    neap_bounds_change *changes;
    size_t n_changes, change_capacity;
    uint32_t tight; /* the section that did not fit, where the last call failed for one */
    int64_t work;   /* done: items and sections looked at */
    neap_allocator *allocator;
} neap_bounds;

/* Nothing is placed. Clear it in any case. */
neap_status neap_bounds_init(neap_bounds *bounds, neap_allocator *allocator,
                             const neap_sections *sections, neap_diag *diag);
void neap_bounds_clear(neap_bounds *bounds);
/* As after neap_bounds_init: unlike undoing, it also restores the order of all lists, on which the
   work depends. */
void neap_bounds_reset(neap_bounds *bounds);

/* Places an item at its top. *fits: nothing that follows from it exceeds the capacity. */
neap_status neap_bounds_place(neap_bounds *bounds, uint32_t item, bool *fits, neap_diag *diag);
/* Rules out that an item lies at its top. */
neap_status neap_bounds_forbid(neap_bounds *bounds, uint32_t item, bool *fits, neap_diag *diag);

/* Sets a number, to be undone like everything else: at most one an item after any call above, or
   after making room by a call of its own. */
void neap_bounds_set(neap_bounds *bounds, int64_t *at, int64_t value);

neap_status neap_bounds_reserve(neap_bounds *bounds, neap_diag *diag);

neap_bounds_mark neap_bounds_here(const neap_bounds *bounds);
void neap_bounds_undo(neap_bounds *bounds, neap_bounds_mark mark);

#endif
