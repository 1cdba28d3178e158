/*
 * Ever smaller arenas, by the searches of portfolio.h.
 *
 * The target is tried first; it is the live peak if none was given, because no arena is smaller.
 * Most plans have such a placement, and the search finds it almost without backtracking. Otherwise
 * the capacity is bisected between the largest that failed and the best placement known. All this
 * is repeated, each time with twice the effort. If the search refutes the capacity just below the
 * best placement, that placement is proven to be the smallest.
 */
#include "base/memory.h"
#include "layout/portfolio.h"

#include <string.h>

/* Work (bounds.h) of the first descent for the target, and again for what lies above it. */
#define EFFORT (INT64_C(60) * 1000 * 1000)
/* Smaller arenas that are tried in a descent, if none is found. */
#define STEPS 4
/* Descents, unless there is time for more. */
#define DESCENTS 3
/* Above this many instances a thousandth is not worth the search. */
#define SMALL 200
/* Sections of all instances together: above, the lists of bounds.h would not be small. */
#define MOST_LIVES (INT64_C(12) * 1000 * 1000)

typedef struct squeeze {
    const neap_placement_problem *problem;
    neap_placement *best;
    neap_portfolio portfolio;
    int64_t effort; /* left for the descent */
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
    s->best->arena = 0;
    for (size_t i = 0; i < s->problem->count; i++) {
        int64_t offset = s->portfolio.offsets[i], end = offset + s->problem->instances[i].size;
        s->best->offsets[i] = offset;
        if (end > s->best->arena)
            s->best->arena = end;
    }
}

/* Tries a capacity; *failed is the largest that failed. */
static neap_status step(squeeze *s, int64_t capacity, int64_t effort, int64_t *failed,
                        neap_diag *diag)
{
    neap_offset_search_outcome outcome;
    neap_status status = neap_portfolio_try(&s->portfolio, capacity, &effort, &outcome, diag);
    s->effort -= effort;
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

/* The target, then ever smaller arenas until the effort is spent. */
static neap_status descend(squeeze *s, int64_t effort, neap_diag *diag)
{
    int64_t least = s->problem->least, failed = s->problem->target - s->unit;
    int64_t close = s->problem->count <= SMALL ? s->unit : least / 1000 + s->unit;
    neap_status status = step(s, s->problem->target, effort, &failed, diag);
    s->effort = effort;
    while (status == NEAP_OK && s->effort > 0 && s->best->arena - failed > close && !is_over(s)) {
        int64_t half = (s->best->arena - failed) / s->unit / 2 * s->unit;
        status = step(s, failed + (half > 0 ? half : s->unit), effort / STEPS, &failed, diag);
    }
    return status;
}

static neap_status squeeze_down(squeeze *s, neap_diag *diag)
{
    neap_status status = NEAP_OK;
    int64_t effort = EFFORT + (int64_t)s->problem->count * (EFFORT / 4000);
    for (int i = 0; status == NEAP_OK && !is_over(s); i++, effort *= 2) {
        if (i == DESCENTS && !s->problem->is_persistent)
            break;
        status = descend(s, effort, diag);
    }
    return status;
}

neap_status neap_place_squeeze(const neap_placement_problem *problem, neap_placement *best,
                               neap_diag *diag)
{
    squeeze s = {.problem = problem, .best = best};
    neap_sections sections;
    neap_status status =
        neap_sections_init(&sections, problem->allocator, problem->instances, problem->count, diag);
    if (status == NEAP_OK && (int64_t)sections.n_lives <= MOST_LIVES) {
        for (size_t i = 0; i < problem->count; i++)
            s.unit = common_divisor(s.unit, problem->instances[i].size);
        status = neap_portfolio_init(&s.portfolio, problem, &sections, diag);
        if (status == NEAP_OK)
            status = squeeze_down(&s, diag);
        neap_portfolio_clear(&s.portfolio);
    }
    neap_sections_clear(&sections);
    return status;
}
