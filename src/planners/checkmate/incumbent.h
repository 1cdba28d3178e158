/*
 * The best plan so far, of methods that look at many: a compute sequence and what it costs.
 */
#ifndef NEAP_PLANNERS_INCUMBENT_H
#define NEAP_PLANNERS_INCUMBENT_H

#include "planners/neap/sequence_search.h"

typedef struct incumbent {
    draft draft;        /* its plan; NULL: nothing within the budget yet */
    int64_t ticks;      /* INT64_MAX without a plan */
    draft tightest;     /* the plan with the least peak of those that exceed the budget */
    uint32_t *sequence; /* of draft.plan */
    size_t length, capacity;
} incumbent;

void neap_incumbent_init(incumbent *best, const planner *p);
void neap_incumbent_clear(incumbent *best, const planner *p);

/* Looks at a compute sequence. */
neap_status neap_incumbent_offer(incumbent *best, const planner *p, const uint32_t *sequence,
                                 size_t length, neap_diag *diag);
/* The same, and what is left of it without the recomputations that the budget does not need: that
   is faster, except for ops whose fast variant then no longer fits. */
neap_status neap_incumbent_offer_trimmed(incumbent *best, const planner *p,
                                         const uint32_t *sequence, size_t length, neap_diag *diag);
/* Looks at the best sequence of a search. */
neap_status neap_incumbent_offer_searched(incumbent *best, const planner *p,
                                          const sequence_search *search, neap_diag *diag);
/* Looks at the natural order. */
neap_status neap_incumbent_offer_natural(incumbent *best, const planner *p, neap_diag *diag);
/* The natural order, and what the quick methods on this graph find. */
neap_status neap_incumbent_begin(incumbent *best, const planner *p, neap_diag *diag);
/*
 * Hands the plan over to the method's draft: the best, or where there is none the tightest, which
 * tells what budget would do. Of a search that was `stopped` only the best: there may be tighter
 * plans than it came to.
 */
void neap_incumbent_take(incumbent *best, draft *d);

#endif
