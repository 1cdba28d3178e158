/*
 * Ever smaller arenas, by the ascending search (ascending.h).
 *
 * First the least there can be is tried, the live peak (or the target, where one is good enough):
 * most plans have a placing that small and the search walks into it nearly without an error.
 * Otherwise the capacity is bisected between the largest that failed and the best placing known.
 * Each capacity is tried with several orders in turn, with twice as many tries each time round. A
 * capacity that was refuted is out of the question; if the bisection ends by refuting the one below
 * the best, the best is proven to be the least.
 */
#include "base/memory.h"
#include "layout/ascending.h"
#include "layout/place.h"

#include <string.h>

/* Work (bounds.h) in all, and for one capacity. */
#define EFFORT (INT64_C(300) * 1000 * 1000)
/* Sections of all instances together: above, the lists of bounds.h would not be small. */
#define MOST_LIVES (INT64_C(12) * 1000 * 1000)

typedef struct squeeze {
    const neap_placing_problem *problem;
    neap_placing *best;
    neap_ascending search;
    int64_t effort; /* left */
    int64_t unit;   /* all sizes are multiples of it, so all offsets are */
} squeeze;

static int64_t common_divisor(int64_t a, int64_t b)
{
    while (b != 0) {
        int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

static void keep(squeeze *s)
{
    const neap_sections *sections = s->search.bounds.sections;
    s->best->arena = 0;
    for (size_t i = 0; i < sections->n_items; i++) {
        int64_t offset = s->search.bounds.top[i], end = offset + sections->items[i].size;
        s->best->offsets[i] = offset;
        if (end > s->best->arena)
            s->best->arena = end;
    }
}

/* One capacity with all orders, in rounds of doubling length. */
static neap_status try_capacity(squeeze *s, int64_t capacity, int64_t effort,
                                neap_ascending_outcome *outcome, neap_diag *diag)
{
    int64_t tries = 2 * (int64_t)s->problem->count;
    *outcome = NEAP_SPENT;
    for (;; tries *= 2)
        for (int order = 0; order < NEAP_ASCENDING_ORDERS; order++) {
            neap_status status =
                neap_ascending_run(&s->search, capacity, (neap_ascending_order)order, tries, effort,
                                   s->problem->progress, outcome, diag);
            effort -= s->search.bounds.work;
            s->effort -= s->search.bounds.work;
            if (status != NEAP_OK || *outcome != NEAP_SPENT || effort <= 0 ||
                neap_placing_cancelled(s->problem))
                return status;
        }
}

static neap_status bisect(squeeze *s, neap_diag *diag)
{
    int64_t capacity = s->problem->target, failed = capacity - s->unit;
    neap_status status = NEAP_OK;
    while (status == NEAP_OK && s->effort > 0 && s->best->arena > capacity &&
           !neap_placing_cancelled(s->problem)) {
        neap_ascending_outcome outcome;
        status = try_capacity(s, capacity, s->effort / 2 + 1, &outcome, diag);
        if (status == NEAP_OK && outcome == NEAP_PLACED)
            keep(s);
        else
            failed = capacity;
        if (status == NEAP_OK && outcome == NEAP_REFUTED && capacity >= s->best->bound)
            s->best->bound = capacity + s->unit;
        capacity = failed + (s->best->arena - failed) / s->unit / 2 * s->unit;
        if (capacity <= failed)
            capacity = failed + s->unit;
    }
    return status;
}

neap_status neap_place_squeeze(const neap_placing_problem *problem, neap_placing *best,
                               neap_diag *diag)
{
    squeeze s = {.problem = problem, .best = best, .effort = EFFORT, .unit = 0};
    neap_sections sections;
    neap_status status =
        neap_sections_init(&sections, problem->allocator, problem->instances, problem->count, diag);
    if (status == NEAP_OK && (int64_t)sections.n_lives <= MOST_LIVES) {
        for (size_t i = 0; i < problem->count; i++)
            s.unit = common_divisor(s.unit, problem->instances[i].size);
        status = neap_ascending_init(&s.search, problem->allocator, &sections, diag);
        if (status == NEAP_OK)
            status = bisect(&s, diag);
        neap_ascending_clear(&s.search);
    }
    neap_sections_clear(&sections);
    return status;
}
