/*
 * Several searches for a placement within one capacity, side by side.
 *
 * No search is the best on all problems, and how long one takes varies by orders of magnitude with
 * small changes of its order. So there are seven: in each of the three orders of offset_search.h a
 * walk that tries the lowest item first and one that decides in the section with the fewest
 * choices; and lessons that start again and again, in all orders, with what caused failures first.
 * In every round the lessons get as much work as all walks together, twice that of the round
 * before, and every search gets new noise.
 *
 * The searches run on all threads. Of those that succeed in a round the first in a fixed sequence
 * counts, so the result does not depend on the number of threads.
 */
#ifndef NEAP_LAYOUT_PORTFOLIO_H
#define NEAP_LAYOUT_PORTFOLIO_H

#include "base/team.h"
#include "layout/offset_search.h"
#include "layout/place.h"

#include <stdatomic.h>

enum {
    NEAP_PORTFOLIO_WALKS = 2 * NEAP_OFFSET_SEARCH_ORDERS,
    NEAP_PORTFOLIO_LESSONS = NEAP_PORTFOLIO_WALKS, /* the last entry */
    NEAP_PORTFOLIO_SIZE,
    NEAP_PORTFOLIO_THREADS = 4 /* at most */
};

/* What one search found in a round. */
typedef struct neap_portfolio_entry {
    neap_status status;
    neap_diag diag;
    neap_offset_search_outcome outcome;
    int64_t work;
} neap_portfolio_entry;

typedef struct neap_portfolio {
    neap_job job;
    neap_shared_allocator allocator;
    bool has_locks;
    const neap_placement_problem *problem;
    const neap_sections *sections;
    unsigned n_threads;
    neap_offset_search searches[NEAP_PORTFOLIO_THREADS];
    neap_portfolio_entry entries[NEAP_PORTFOLIO_SIZE];
    int64_t *offsets;             /* of the search that decided */
    double *weight;               /* by item: what the lessons taught */
    double *weight_before;        /* the same before the round */
    uint64_t n_rounds, n_lessons; /* in all */
    /* of the round */
    int64_t capacity, share; /* work for each walk */
    uint64_t seed;           /* of noise; 0 in the first round */
    atomic_uint next;        /* search to run */
    atomic_uint winner;      /* the first that has decided; NEAP_PORTFOLIO_SIZE: none */
    pthread_mutex_t lock;
} neap_portfolio;

/* Clear it in any case. */
neap_status neap_portfolio_init(neap_portfolio *portfolio, const neap_placement_problem *problem,
                                const neap_sections *sections, neap_diag *diag);
void neap_portfolio_clear(neap_portfolio *portfolio);

/* Searches with about so much work; *effort is then how much it was. If all items are placed,
   `offsets` has where. */
neap_status neap_portfolio_try(neap_portfolio *portfolio, int64_t capacity, int64_t *effort,
                               neap_offset_search_outcome *outcome, neap_diag *diag);

#endif
