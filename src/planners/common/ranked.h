/* Items sorted by a rank. */
#ifndef NEAP_PLANNERS_RANKED_H
#define NEAP_PLANNERS_RANKED_H

#include <stdint.h>

typedef struct ranked {
    double rank;
    uint32_t item;
} ranked;

/* For qsort: from the lowest rank, or from the highest; equal ones by item. */
static inline int neap_ranked_up(const void *left, const void *right)
{
    const ranked *a = left, *b = right;
    if (a->rank > b->rank || a->rank < b->rank)
        return a->rank < b->rank ? -1 : 1;
    return (a->item > b->item) - (a->item < b->item);
}

static inline int neap_ranked_down(const void *left, const void *right)
{
    const ranked *a = left, *b = right;
    if (a->rank > b->rank || a->rank < b->rank)
        return a->rank > b->rank ? -1 : 1;
    return (a->item > b->item) - (a->item < b->item);
}

#endif
