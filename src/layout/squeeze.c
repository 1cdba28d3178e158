/*
 * Ever smaller arenas, by the search of offset_search.h.
 *
 * The live peak is tried first, because no arena is smaller: most plans have such a placement, and
 * the search finds it almost without backtracking. Then the target is tried, if one was given; then
 * the capacity is bisected between the largest that failed and the best placement known. Each
 * capacity is tried by long searches in several orders and, between them, by learning: short
 * searches, each of which starts with the items that caused earlier failures. If the search refutes
 * the capacity just below the best placement, that placement is proven to be the smallest. All this
 * is repeated with twice the effort until the end of a problem that is persistent.
 */
#include "base/memory.h"
#include "layout/offset_search.h"
#include "layout/place.h"

#include <string.h>

/* Work (bounds.h) in all, the first time. */
#define EFFORT (INT64_C(300) * 1000 * 1000)
/* Failures from which to learn before starting again. */
#define LESSON 300
/* Above this many instances a thousandth is not worth the search. */
#define SMALL 200
/* Work of learning for one of walking. */
#define SHARE 3
/* Sections of all instances together: above, the lists of bounds.h would not be small. */
#define MOST_LIVES (INT64_C(12) * 1000 * 1000)

typedef struct squeeze {
    const neap_placement_problem *problem;
    neap_placement *best;
    neap_offset_search search;
    int64_t whole, effort; /* work for one descent; of that, what is left */
    int64_t unit;          /* all sizes are multiples of it, so all offsets are */
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

static neap_status run(squeeze *s, int64_t capacity, neap_offset_search_way way, int64_t *effort,
                       neap_offset_search_outcome *outcome, neap_diag *diag)
{
    neap_status status =
        neap_offset_search_run(&s->search, capacity, way, *effort, s->problem, outcome, diag);
    *effort -= s->search.bounds.work;
    s->effort -= s->search.bounds.work;
    return status;
}

/* Whether one capacity is decided: the walks in all orders, ever longer, and between them as much
   work of learning. */
static neap_status try_capacity(squeeze *s, int64_t capacity, int64_t effort,
                                neap_offset_search_outcome *outcome, neap_diag *diag)
{
    neap_status status = NEAP_OK;
    int64_t length = (int64_t)s->problem->count;
    *outcome = NEAP_SPENT;
    for (int turn = 0; effort > 0 && status == NEAP_OK && *outcome == NEAP_SPENT; turn++) {
        neap_offset_search_way walk = {
            .order = (neap_offset_search_order)(turn % NEAP_OFFSET_SEARCH_ORDERS),
            .most_failures = length};
        neap_offset_search_way lesson = {
            .order = walk.order, .learns = true, .most_failures = LESSON};
        int64_t before = effort;
        status = run(s, capacity, walk, &effort, outcome, diag);
        int64_t until = effort - SHARE * (before - effort);
        while (effort > 0 && effort > until && status == NEAP_OK && *outcome == NEAP_SPENT &&
               !neap_placement_cancelled(s->problem))
            status = run(s, capacity, lesson, &effort, outcome, diag);
        if (turn % NEAP_OFFSET_SEARCH_ORDERS == NEAP_OFFSET_SEARCH_ORDERS - 1)
            length *= 2;
        if (neap_placement_cancelled(s->problem))
            break;
    }
    return status;
}

/* Tries a capacity; *failed is the largest that failed. */
static neap_status step(squeeze *s, int64_t capacity, int64_t effort, int64_t *failed,
                        neap_diag *diag)
{
    neap_offset_search_outcome outcome;
    neap_status status = try_capacity(s, capacity, effort, &outcome, diag);
    if (status != NEAP_OK)
        return status;
    if (outcome == NEAP_PLACED)
        keep(s);
    else
        *failed = capacity;
    if (outcome == NEAP_REFUTED && capacity >= s->best->bound)
        s->best->bound = capacity + s->unit;
    return NEAP_OK;
}

static bool is_over(const squeeze *s)
{
    return s->best->arena <= s->problem->target || s->best->arena <= s->best->bound ||
           neap_placement_cancelled(s->problem);
}

/* Ever smaller arenas until the effort is spent. */
static neap_status descend(squeeze *s, neap_diag *diag)
{
    int64_t least = s->problem->least, target = s->problem->target, failed = least - s->unit;
    /* The walks that find the live peak at once are as long as there are instances. */
    int64_t first = s->whole / 5 + (int64_t)s->problem->count * (s->whole / 5 / 1000);
    int64_t close = s->problem->count <= SMALL ? s->unit : least / 1000 + s->unit;
    s->effort = s->whole + (int64_t)s->problem->count * (s->whole / 5 / 1000);
    neap_status status = step(s, least, first, &failed, diag);
    if (status == NEAP_OK && s->best->arena > target && target > failed)
        status = step(s, target, s->whole / 4, &failed, diag);
    while (status == NEAP_OK && s->effort > 0 && s->best->arena - failed > close && !is_over(s)) {
        int64_t half = (s->best->arena - failed) / s->unit / 2 * s->unit;
        status = step(s, failed + (half > 0 ? half : s->unit), s->whole / 8, &failed, diag);
    }
    return status;
}

static neap_status squeeze_down(squeeze *s, neap_diag *diag)
{
    neap_status status = descend(s, diag);
    while (status == NEAP_OK && s->problem->is_persistent && !is_over(s)) {
        s->whole *= 2;
        status = descend(s, diag);
    }
    return status;
}

neap_status neap_place_squeeze(const neap_placement_problem *problem, neap_placement *best,
                               neap_diag *diag)
{
    squeeze s = {.problem = problem, .best = best, .whole = EFFORT};
    neap_sections sections;
    neap_status status =
        neap_sections_init(&sections, problem->allocator, problem->instances, problem->count, diag);
    if (status == NEAP_OK && (int64_t)sections.n_lives <= MOST_LIVES) {
        for (size_t i = 0; i < problem->count; i++)
            s.unit = common_divisor(s.unit, problem->instances[i].size);
        status = neap_offset_search_init(&s.search, problem->allocator, &sections, diag);
        if (status == NEAP_OK)
            status = squeeze_down(&s, diag);
        neap_offset_search_clear(&s.search);
    }
    neap_sections_clear(&sections);
    return status;
}
