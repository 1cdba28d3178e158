/* Prune: takes out runs that the budget does not need. */
#include "base/memory.h"
#include "base/random.h"
#include "planners/neap/search.h"

#include <stdlib.h>

/* A run of which nothing is used before it is made again. */
static bool is_useless(const search *s, uint32_t id)
{
    const problem *x = s->x;
    uint32_t task = s->q.items[id].task, place = sequence_place(&s->q, id);
    if (s->q.runs[task] < 2)
        return false;
    for (uint32_t i = x->makes.start[task]; i < x->makes.start[task + 1]; i++) {
        const ref_list *list = &s->q.refs[x->makes.items[i]];
        uint32_t at = sequence_find_ref(&s->q, x->makes.items[i], place) + 1;
        if (at < list->n && !list->refs[at].makes)
            return false;
    }
    return true;
}

void search_remove(search *s, uint32_t id)
{
    const problem *x = s->x;
    uint32_t task = s->q.items[id].task, next = sequence_next(&s->q, id);
    sequence_remove(&s->q, id);
    for (uint32_t i = x->reads.start[task]; i < x->reads.start[task + 1]; i++) {
        const ref_list *list = &s->q.refs[x->reads.items[i]];
        uint32_t at = sequence_find_ref(&s->q, x->reads.items[i], sequence_place(&s->q, next));
        if (at > 0 && list->refs[at - 1].makes && is_useless(s, list->refs[at - 1].item))
            search_remove(s, list->refs[at - 1].item);
    }
}

/* A quick look: taking the run out frees nothing, and holding what it makes does not fit. */
static bool is_needed(const search *s, uint32_t id)
{
    const problem *x = s->x;
    const sequence *q = &s->q;
    uint32_t task = q->items[id].task, place = sequence_place(q, id);
    for (uint32_t i = x->reads.start[task]; i < x->reads.start[task + 1]; i++) {
        const ref_list *list = &q->refs[x->reads.items[i]];
        uint32_t at = sequence_find_ref(q, x->reads.items[i], place) + 1;
        if (at >= list->n || list->refs[at].makes || list->refs[at].away)
            return false;
    }
    for (uint32_t i = x->makes.start[task]; i < x->makes.start[task + 1]; i++) {
        uint32_t tensor = x->makes.items[i];
        const ref_list *list = &q->refs[tensor];
        uint32_t at = sequence_find_ref(q, tensor, place);
        if (at == 0 || at + 1 >= list->n || list->refs[at + 1].makes || list->refs[at + 1].away)
            continue;
        if (!sequence_fits_between(q, list->refs[at - 1].item, id, s->budget - x->bytes[tensor]))
            return true;
    }
    return false;
}

static void try_removing(search *s, uint32_t id)
{
    if (s->q.items[id].task == NEAP_NONE || !sequence_can_remove(&s->q, id) || is_needed(s, id))
        return;
    size_t mark = s->q.n_changes;
    search_remove(s, id);
    if (sequence_most(&s->q) > s->budget)
        sequence_undo(&s->q, mark);
}

static int by_rank(const void *left, const void *right)
{
    const ranked *a = left, *b = right;
    if (a->rank > b->rank || a->rank < b->rank)
        return a->rank > b->rank ? -1 : 1;
    return (a->item > b->item) - (a->item < b->item);
}

void search_prune(search *s)
{
    sequence *q = &s->q;
    neap_diag diag;
    ranked *ranks = NULL;
    uint32_t n = 0;
    if (NEAP_RESERVE(s->allocator, (size_t)q->n_items, &s->ranks, &s->rank_capacity, &diag) !=
        NEAP_OK)
        return;
    ranks = s->ranks;
    for (uint32_t i = 0; i < q->n_items; i++) {
        uint32_t task = q->items[i].task;
        if (task == NEAP_NONE || q->runs[task] < 2)
            continue;
        double ticks = (double)s->x->variants[s->x->variant_start[task] + q->choice[task]].ticks;
        ranks[n++] =
            (ranked){(ticks + 1) * (1 + s->noise * (2 * neap_random_real(&s->random) - 1)), i};
    }
    if (n > 1)
        qsort(ranks, n, sizeof *ranks, by_rank);
    for (uint32_t i = 0; i < n; i++)
        try_removing(s, ranks[i].item);
}
