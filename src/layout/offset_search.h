/*
 * The search for a placement within a capacity, in ascending order of offsets, with bounds
 * (bounds.h). It is complete if it gets enough time.
 *
 * If there is a placement, there is one in which every item rests on another item or on the bottom,
 * and no item could move into a gap below it: the one with the least sum of offsets. When the items
 * of that placement are placed in order of their offsets, each one lies at the highest end of the
 * earlier items that it meets. So the search only decides which item comes next:
 *   - It tries the lowest candidate first. If the search below that decision fails, it rules the
 *     item out at that offset for all later decisions.
 *   - No item can come next at or above the offset where another unplaced item would end: that
 *     other item could move into the gap.
 *   - As soon as no unplaced item crosses a moment, the items before and after it are independent
 *     problems. The tightest is solved first. If one has no solution, the search does not retry the
 *     decisions made in the others.
 * Ties between equally low items are broken by an order (neap_offset_search_order), which is
 * recomputed where a problem divides. Any item that the gap rule admits may be tried first: where
 * the lowest fails, weights learned from failures decide (Boussemart et al., ECAI 2004).
 *
 * The order of placing, the gap rule, the division in time and the orders are MiniMalloc's
 * (Moffitt, ASPLOS 2023). A departure: ruling an item out lifts its bound here.
 */
#ifndef NEAP_LAYOUT_OFFSET_SEARCH_H
#define NEAP_LAYOUT_OFFSET_SEARCH_H

#include "layout/bounds.h"

#include "layout/place.h"

/* Decreasing, the first that differs counts: life in steps, bytes times steps, and pressure (the
   most bytes still to be placed in any of its sections). */
typedef enum neap_offset_search_order {
    NEAP_BY_LIFE,          /* life, area, pressure */
    NEAP_BY_PRESSURE_AREA, /* pressure, area, life */
    NEAP_BY_PRESSURE_LIFE, /* pressure, life, area */
    NEAP_OFFSET_SEARCH_ORDERS
} neap_offset_search_order;

typedef struct neap_offset_search_way {
    neap_offset_search_order order;
    /* By item, how often it was in a section that did not fit, over all runs; or NULL. If given,
       not the lowest item but the first by rank is tried, and the weight ranks before all else: not
       a way to walk through, but to start again and again. */
    double *weight;
    /* The item is one that can be the lowest in the section where fewest can: there it shows soon
       whether the capacity can be kept. For problems that are full nearly everywhere. */
    bool by_section;
    int64_t most_failures; /* then it gives up */
    uint64_t seed;         /* of noise on lives and areas, if odd on pressure, too; 0: none */
} neap_offset_search_way;

typedef enum neap_offset_search_outcome {
    NEAP_PLACED,  /* all are: their tops are their offsets */
    NEAP_REFUTED, /* no placement has this capacity */
    NEAP_SPENT    /* not decided */
} neap_offset_search_outcome;

typedef struct neap_part neap_part;
typedef struct neap_decision neap_decision;
typedef struct neap_ranked neap_ranked;

typedef struct neap_offset_search {
    neap_bounds bounds;
    neap_offset_search_way way;
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
    /* of the run */
    const neap_placement_problem *problem;
    int64_t most_work, failures, looks;
    bool spent;
    neap_allocator *allocator;
} neap_offset_search;

/* Clear it in any case. */
neap_status neap_offset_search_init(neap_offset_search *search, neap_allocator *allocator,
                                    const neap_sections *sections, neap_diag *diag);
void neap_offset_search_clear(neap_offset_search *search);

/* Searches, for at most so much work (bounds.work), until `problem` is cancelled. */
neap_status neap_offset_search_run(neap_offset_search *search, int64_t capacity,
                                   neap_offset_search_way way, int64_t most_work,
                                   const neap_placement_problem *problem,
                                   neap_offset_search_outcome *outcome, neap_diag *diag);

#endif
