/*
 * The search for a placing within a capacity, complete if it is given the time: in ascending order
 * of offsets, with bounds (bounds.h).
 *
 * If there is a placing, there is one in which every item rests on another or on the ground and
 * none could fall into a gap below it: take the one with the least sum of offsets. Placing the
 * items of that one in order of their offsets, each lies, when its turn comes, at the highest end
 * of those before it that it meets. So it suffices to decide which item is next:
 *   - of all that could be, the lowest is tried first; where the search below it fails, it is ruled
 *     out at that place, for all that is tried next;
 *   - none can be next at or above the place where another, not yet placed, would end: that one
 *     could fall into the gap;
 *   - as soon as no item left crosses a moment, what comes before and what comes after it are
 *     problems of their own. The tightest is solved first, and where one has no solution, what was
 *     decided in the others is not tried otherwise.
 * Among equally low items an order decides (neap_ascending_order); it is made anew where a problem
 * falls apart. Any item that the gap rule admits may be tried first: where
 * the lowest leads nowhere, weights decide that are learned from failures (Boussemart et al., ECAI
 * 2004).
 *
 * The order of placing, the gap rule, the division in time and the orders are those of MiniMalloc
 * (Moffitt, ASPLOS 2023); ruling out, where theirs leaves the bound as it was, lifts it here.
 */
#ifndef NEAP_LAYOUT_ASCENDING_H
#define NEAP_LAYOUT_ASCENDING_H

#include "layout/bounds.h"

#include <neap/progress.h>

/* Decreasing, the first that differs counts: life in steps, bytes times steps, and pressure (the
   most bytes still to be placed in any of its sections). */
typedef enum neap_ascending_order {
    NEAP_BY_LIFE,          /* life, area, pressure */
    NEAP_BY_PRESSURE_AREA, /* pressure, area, life */
    NEAP_BY_PRESSURE_LIFE, /* pressure, life, area */
    NEAP_ASCENDING_ORDERS
} neap_ascending_order;

typedef struct neap_ascending_way {
    neap_ascending_order order;
    /* Not the lowest item but the first by rank is tried, and items that were in a section that did
       not fit rank before all others: not a way to walk through, but to start again and again. */
    bool learns;
    int64_t most_failures; /* then it gives up */
} neap_ascending_way;

typedef enum neap_ascending_outcome {
    NEAP_PLACED,  /* all are: their tops are their offsets */
    NEAP_REFUTED, /* no placing has this capacity */
    NEAP_SPENT    /* not decided */
} neap_ascending_outcome;

typedef struct neap_part neap_part;
typedef struct neap_decision neap_decision;
typedef struct neap_ranked neap_ranked;

typedef struct neap_ascending {
    neap_bounds bounds;
    neap_ascending_way way;
    double *weight;     /* by item: how often it was in the way, over all runs */
    int64_t *rank;      /* by item */
    uint32_t *items;    /* all; those of a part lie together */
    uint32_t *piece_of; /* by section: of the part that is being divided */
    size_t *piece;      /* where its items begin */
    uint32_t *spare;    /* as many as items */
    neap_ranked *keys;  /* as many as items */
    neap_part *parts;
    size_t n_parts, part_capacity;
    neap_decision *decisions; /* one an item placed */
    size_t n_decisions;
    neap_allocator *allocator;
} neap_ascending;

/* Clear it in any case. */
neap_status neap_ascending_init(neap_ascending *search, neap_allocator *allocator,
                                const neap_sections *sections, neap_diag *diag);
void neap_ascending_clear(neap_ascending *search);

/* Searches, for at most so much work (bounds.work). */
neap_status neap_ascending_run(neap_ascending *search, int64_t capacity, neap_ascending_way way,
                               int64_t most_work, neap_progress *progress,
                               neap_ascending_outcome *outcome, neap_diag *diag);

#endif
