/* Finds the sections: one closes whenever an instance ends after another has begun. */
#include "layout/sections.h"

#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

typedef struct moment {
    size_t step;
    uint32_t item;
} moment;

static int compare(const void *left, const void *right)
{
    const moment *a = left, *b = right;
    if (a->step != b->step)
        return a->step < b->step ? -1 : 1;
    return (a->item > b->item) - (a->item < b->item);
}

/* Goes through begins and ends in order of time; at the same step ends come first. */
static void sweep(neap_sections *s, const moment *begins, const moment *ends)
{
    bool begun = false; /* something, since the last section closed */
    uint32_t section = 0;
    size_t b = 0;
    for (size_t e = 0; e < s->n_items; e++) {
        for (; b < s->n_items && begins[b].step < ends[e].step; b++) {
            s->items[begins[b].item].begin = section;
            begun = true;
        }
        section += begun;
        begun = false;
        s->items[ends[e].item].end = section;
    }
    s->n_sections = section;
}

/* Groups the items by their first section, in order of their numbers: counts, then places. */
static void group(neap_sections *s)
{
    for (size_t i = 0; i < s->n_items; i++)
        s->first[s->items[i].begin + 1]++;
    for (size_t k = 0; k < s->n_sections; k++)
        s->first[k + 1] += s->first[k];
    for (size_t i = s->n_items; i-- > 0;)
        s->beginning[--s->first[s->items[i].begin + 1]] = (uint32_t)i;
    /* Each first[k + 1] now is where group k begins. */
    memmove(s->first, s->first + 1, s->n_sections * sizeof *s->first);
    s->first[s->n_sections] = s->n_items;
}

neap_status neap_sections_init(neap_sections *s, neap_allocator *allocator,
                               const neap_instance *instances, size_t count, neap_diag *diag)
{
    moment *begins = NULL, *ends = NULL;
    memset(s, 0, sizeof *s);
    s->allocator = allocator;
    s->n_items = count;
    neap_status status = NEAP_NEW(allocator, count, &s->items, diag);
    if (status == NEAP_OK)
        status = NEAP_NEW(allocator, count + 1, &s->first, diag);
    if (status == NEAP_OK)
        status = NEAP_NEW(allocator, count, &s->beginning, diag);
    if (status == NEAP_OK)
        status = NEAP_NEW(allocator, count, &begins, diag);
    if (status == NEAP_OK)
        status = NEAP_NEW(allocator, count, &ends, diag);
    if (status == NEAP_OK && count > 0) {
        for (size_t i = 0; i < count; i++) {
            begins[i] = (moment){instances[i].begin, (uint32_t)i};
            ends[i] = (moment){instances[i].end, (uint32_t)i};
            s->items[i] = (neap_item){
                .size = instances[i].size,
                .steps = instances[i].end - instances[i].begin,
            };
        }
        qsort(begins, count, sizeof *begins, compare);
        qsort(ends, count, sizeof *ends, compare);
        sweep(s, begins, ends);
        group(s);
        for (size_t i = 0; i < count; i++)
            s->n_lives += s->items[i].end - s->items[i].begin;
    }
    NEAP_DELETE(allocator, count, ends);
    NEAP_DELETE(allocator, count, begins);
    return status;
}

void neap_sections_clear(neap_sections *s)
{
    NEAP_DELETE(s->allocator, s->n_items, s->beginning);
    NEAP_DELETE(s->allocator, s->n_items + 1, s->first);
    NEAP_DELETE(s->allocator, s->n_items, s->items);
    memset(s, 0, sizeof *s);
}
