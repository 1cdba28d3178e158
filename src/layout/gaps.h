/*
 * The free gaps of an arena, ordered both by place and by size, so that every query is O(log gaps).
 *
 * The arena is open at the top: above `tail` everything is free, and that last gap is not among the
 * others. No two gaps touch each other or the tail.
 */
#ifndef NEAP_LAYOUT_GAPS_H
#define NEAP_LAYOUT_GAPS_H

#include <neap/allocator.h>
#include <neap/status.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct neap_gap neap_gap;

typedef struct neap_gaps {
    neap_allocator *allocator;
    neap_gap *items; /* items[0] stands for none */
    size_t capacity;
    uint32_t unused;   /* a list of items to use again */
    uint32_t roots[2]; /* of the trees, by place and by size */
    uint64_t random;   /* their balance; always the same sequence */
    int64_t tail;
} neap_gaps;

/* Room for `most` gaps, which is one more than the most blocks ever live together. At first there
 * is no gap, and the tail is 0. */
neap_status neap_gaps_init(neap_gaps *gaps, neap_allocator *allocator, size_t most,
                           neap_diag *diag);
void neap_gaps_clear(neap_gaps *gaps);
void neap_gaps_reset(neap_gaps *gaps);

/* A gap of at least `size`: the tightest, the lowest, the highest. False where there is none. */
bool neap_gaps_tightest(const neap_gaps *gaps, int64_t size, int64_t *begin, int64_t *end);
bool neap_gaps_lowest(const neap_gaps *gaps, int64_t size, int64_t *begin, int64_t *end);
bool neap_gaps_highest(const neap_gaps *gaps, int64_t size, int64_t *begin, int64_t *end);

/* Takes [begin, end), which lies within one gap or begins at or above the tail. */
void neap_gaps_take(neap_gaps *gaps, int64_t begin, int64_t end);
/* Gives back what was taken. */
void neap_gaps_give(neap_gaps *gaps, int64_t begin, int64_t end);

#endif
