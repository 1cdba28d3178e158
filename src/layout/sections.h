/*
 * The instances of a placement problem by sections of time.
 *
 * A section is a moment whose set of live instances is maximal: no neighbouring moment has the same
 * instances and more. Whatever is live together at some moment is live together in a section, and
 * every instance lives during consecutive sections. Two instances meet if and only if they share a
 * section. There are at most as many sections as instances.
 */
#ifndef NEAP_LAYOUT_SECTIONS_H
#define NEAP_LAYOUT_SECTIONS_H

#include "layout/instances.h"

typedef struct neap_item {
    int64_t size;
    uint32_t begin, end; /* sections begin .. end - 1 */
    size_t steps;        /* of its life */
} neap_item;

typedef struct neap_sections {
    neap_item *items; /* by instance */
    size_t n_items, n_sections;
    size_t *first;       /* n_sections + 1: the items that begin in section s are */
    uint32_t *beginning; /* beginning[first[s]] .. beginning[first[s + 1] - 1] */
    size_t n_lives;      /* sections of all items, summed up */
    neap_allocator *allocator;
} neap_sections;

/* O(n log n). Clear it in any case. */
neap_status neap_sections_init(neap_sections *sections, neap_allocator *allocator,
                               const neap_instance *instances, size_t count, neap_diag *diag);
void neap_sections_clear(neap_sections *sections);

#endif
