#include "planners/checkmate/incumbent.h"

#include "base/fail.h"
#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

void neap_incumbent_init(incumbent *best, const planner *p)
{
    *best = (incumbent){.ticks = INT64_MAX};
    neap_arena_init(&best->draft.arena, p->allocator);
    neap_arena_init(&best->tightest.arena, p->allocator);
}

void neap_incumbent_clear(incumbent *best, const planner *p)
{
    neap_planner_clear_draft(p, &best->draft);
    neap_planner_clear_draft(p, &best->tightest);
    NEAP_DELETE(p->allocator, best->capacity, best->sequence);
    neap_incumbent_init(best, p);
}

static void replace(draft *old, draft *new)
{
    neap_plan_destroy(old->plan);
    old->plan = new->plan;
    old->predicted_peak = new->predicted_peak;
    old->predicted_ticks = new->predicted_ticks;
    new->plan = NULL;
}

neap_status neap_incumbent_offer(incumbent *best, const planner *p, const uint32_t *sequence,
                                 size_t length, neap_diag *diag)
{
    draft offered = {0}, *tightest = &best->tightest;
    NEAP_TRY(NEAP_RESERVE(p->allocator, length, &best->sequence, &best->capacity, diag));
    neap_status status = neap_planner_use_sequence(p, &offered, sequence, length, diag);
    bool fits = status == NEAP_OK && offered.predicted_peak <= p->budget;
    if (fits && offered.predicted_ticks < best->ticks) {
        best->ticks = offered.predicted_ticks;
        best->length = length;
        if (length > 0)
            memmove(best->sequence, sequence, length * sizeof *sequence);
        replace(&best->draft, &offered);
    } else if (status == NEAP_OK && !fits &&
               (!tightest->plan || offered.predicted_peak < tightest->predicted_peak)) {
        replace(tightest, &offered);
    }
    neap_plan_destroy(offered.plan);
    return status;
}

static int ascending(const void *left, const void *right)
{
    const uint32_t *a = left, *b = right;
    return (*a > *b) - (*a < *b);
}

/* Appends the ops in the graph's order, each once; returns the new length. */
static size_t append_sorted(uint32_t *to, size_t n, const uint32_t *ops, size_t count)
{
    size_t begin = n;
    if (count == 0)
        return n;
    memcpy(to + begin, ops, count * sizeof *ops);
    qsort(to + begin, count, sizeof *ops, ascending);
    for (size_t i = begin; i < begin + count; i++)
        if (n == begin || to[i] != to[n - 1])
            to[n++] = to[i];
    return n;
}

/*
 * Brings a legal sequence into Checkmate's form: first runs in the graph's order, and between two
 * of them each op at most once, in that order. That may take more time and memory. `straight` has
 * room for as many entries more as there are ops; returns their number.
 */
static size_t straighten(const uint32_t *sequence, size_t length, uint32_t *straight)
{
    size_t n = 0, from = 0; /* where the recomputations behind the last first run begin */
    uint32_t frontier = 0;  /* all ops before this one have run */
    for (size_t i = 0; i < length; i++) {
        if (sequence[i] < frontier)
            continue;
        while (frontier < sequence[i])
            straight[n++] = frontier++;
        n = append_sorted(straight, n, sequence + from, i - from);
        straight[n++] = frontier++;
        from = i + 1;
    }
    return n;
}

neap_status neap_incumbent_offer_searched(incumbent *best, const planner *p,
                                          const sequence_search *search, neap_diag *diag)
{
    uint32_t *sequence = NULL, *straight = NULL;
    size_t length, capacity = 0, room = 0;
    neap_status status = neap_sequence_search_list(search, &sequence, &length, &capacity, diag);
    if (status == NEAP_OK) {
        room = length + neap_graph_op_count(p->graph);
        status = NEAP_NEW(p->allocator, room, &straight, diag);
    }
    if (status == NEAP_OK)
        status =
            neap_incumbent_offer(best, p, straight, straighten(sequence, length, straight), diag);
    if (status == NEAP_OK) /* where being straight costs too much */
        status = neap_incumbent_offer(best, p, sequence, length, diag);
    NEAP_DELETE(p->allocator, capacity, sequence);
    NEAP_DELETE(p->allocator, room, straight);
    return status;
}

neap_status neap_incumbent_offer_trimmed(incumbent *best, const planner *p,
                                         const uint32_t *sequence, size_t length, neap_diag *diag)
{
    sequence_search *search;
    NEAP_TRY(neap_incumbent_offer(best, p, sequence, length, diag));
    NEAP_TRY(neap_sequence_search_create(p, p->budget, NULL, NULL, &search, diag));
    neap_status status = neap_sequence_search_load(search, sequence, length, diag);
    if (status == NEAP_OK)
        status = neap_sequence_search_trim(search, diag);
    if (status == NEAP_OK)
        status = neap_incumbent_offer_searched(best, p, search, diag);
    neap_sequence_search_destroy(search);
    return status;
}

static neap_status offer_method(incumbent *best, const planner *p, const char *method,
                                neap_diag *diag)
{
    draft found = {0};
    uint32_t *sequence = NULL;
    size_t length, capacity = 0;
    neap_arena_init(&found.arena, p->allocator);
    neap_status status = neap_planner_run_method(p, method, &found, diag);
    if (status == NEAP_OK && found.plan) {
        status = neap_planner_list_computes(p, found.plan, &sequence, &length, &capacity, diag);
        if (status == NEAP_OK)
            status = neap_incumbent_offer_trimmed(best, p, sequence, length, diag);
    }
    NEAP_DELETE(p->allocator, capacity, sequence);
    neap_planner_clear_draft(p, &found);
    return status;
}

neap_status neap_incumbent_offer_natural(incumbent *best, const planner *p, neap_diag *diag)
{
    return offer_method(best, p, "store-all", diag);
}

neap_status neap_incumbent_begin(incumbent *best, const planner *p, neap_diag *diag)
{
    /* Quick ones on any graph; what they find is trimmed to the budget. */
    static const char *const quick[] = {"linear-greedy", "ap-greedy", "rotor"};
    NEAP_TRY(neap_incumbent_offer_natural(best, p, diag));
    for (size_t i = 0; i < sizeof quick / sizeof *quick; i++) {
        if (best->ticks <= neap_graph_least_ticks(p->graph) || neap_planner_stopped(p))
            break;
        NEAP_TRY(offer_method(best, p, quick[i], diag));
    }
    return NEAP_OK;
}

void neap_incumbent_take(incumbent *best, draft *d)
{
    if (best->draft.plan || !d->stopped)
        replace(d, best->draft.plan ? &best->draft : &best->tightest);
}
