/*
 * A schedule from a cut (bound.h): what the cut does with each tensor at one moment, done.
 *
 * Tensors that the cut recomputes are made again behind that moment, just before the first use,
 * from what the cut keeps; those that it sends away go. All fits at that moment then, and nearly
 * everywhere else.
 */
#include "base/fail.h"
#include "base/memory.h"
#include "planners/neap/search.h"

#include <stdlib.h>

enum { MIXTURES = 10 }; /* that are tried of two cuts */

typedef struct follower {
    search *s;
    uint8_t *fates;
    uint32_t moment; /* item */
} follower;

/* Whether a tensor is made between the moment and an item. */
static bool is_made_since(const follower *f, uint32_t tensor, uint32_t before)
{
    const sequence *q = &f->s->q;
    const ref_list *list = &q->refs[tensor];
    uint32_t at = neap_sequence_find_ref(q, tensor, sequence_place(q, f->moment));
    uint32_t place = sequence_place(q, before);
    for (; at < list->n && sequence_place(q, list->refs[at].item) < place; at++)
        if (list->refs[at].makes)
            return true;
    return false;
}

/* Makes a tensor before an item, and before it what the cut says has to be. */
static void remake(follower *f, uint32_t tensor, uint32_t before)
{
    const problem *x = f->s->x;
    uint32_t task = x->producer[tensor];
    for (uint32_t i = x->reads.start[task]; i < x->reads.start[task + 1]; i++) {
        uint32_t read = x->reads.items[i];
        if (f->fates[read] == FATE_RECOMPUTE && tensor_can_recompute(x, read) &&
            !is_made_since(f, read, before))
            remake(f, read, before);
    }
    neap_sequence_insert(&f->s->q, task, before);
}

/* The tensors that the cut lets go and that wait at the moment, by their next uses. */
static uint32_t list_waiting(follower *f)
{
    search *s = f->s;
    uint32_t n = 0, place = sequence_place(&s->q, f->moment);
    for (uint32_t t = 0; t < s->x->n_tensors; t++) {
        const ref_list *list = &s->q.refs[t];
        uint32_t at = neap_sequence_find_ref(&s->q, t, place);
        if (f->fates[t] == FATE_KEEP || at == 0 || at >= list->n ||
            list->refs[at].item == f->moment)
            continue;
        s->ranks[n++] = (ranked){(double)sequence_place(&s->q, list->refs[at].item), t};
    }
    if (n > 1)
        qsort(s->ranks, n, sizeof *s->ranks, neap_ranked_up);
    return n;
}

/* Builds the schedule of f->fates. */
static neap_status build(follower *f, uint32_t position, neap_diag *diag)
{
    search *s = f->s;
    NEAP_TRY(neap_sequence_load_natural(&s->q, diag));
    f->moment = neap_sequence_item_of(&s->q, position);
    uint32_t n = list_waiting(f);
    for (uint32_t i = 0; i < n && !s->q.out_of_memory; i++) {
        uint32_t tensor = s->ranks[i].item;
        uint32_t at = neap_sequence_find_ref(&s->q, tensor, sequence_place(&s->q, f->moment));
        const ref *next = &s->q.refs[tensor].refs[at];
        if (next->makes)
            continue; /* another one brought it along */
        if (f->fates[tensor] == FATE_RECOMPUTE && !tensor_can_recompute(s->x, tensor))
            continue; /* a bound of all plans lets it go, this search does not (problem.h) */
        if (f->fates[tensor] == FATE_RECOMPUTE)
            remake(f, tensor, next->item);
        else if (s->link && tensor_can_offload(s->x, tensor))
            neap_sequence_set_away(&s->q, tensor, next->item, true);
    }
    if (s->q.out_of_memory)
        return neap_fail_no_memory(diag);
    neap_sequence_commit(&s->q);
    return NEAP_OK;
}

/* In each of so many parts of the tasks before the moment, the looser cut's fates for a share, the
   other's for the rest. */
static void mix(follower *f, const search_cut *cut, const search_mixture *mixture, double share)
{
    const problem *x = f->s->x;
    uint64_t n = (uint64_t)cut->position + 1;
    for (uint32_t t = 0; t < x->n_tensors; t++) {
        double phase = (double)((uint64_t)x->producer[t] * mixture->parts % n) / (double)n;
        bool loose = mixture->early ? phase < share : phase >= 1 - share;
        f->fates[t] = loose ? cut->loose[t] : cut->fates[t];
    }
}

neap_status neap_search_start_from_cut(search *s, const search_cut *cut,
                                       const search_mixture *mixture, neap_diag *diag)
{
    const problem *x = s->x;
    follower f = {.s = s};
    neap_status status =
        NEAP_RESERVE(s->allocator, (size_t)x->n_tensors, &s->ranks, &s->rank_capacity, diag);
    if (status == NEAP_OK)
        status = NEAP_NEW(s->allocator, x->n_tensors, &f.fates, diag);
    double low = 0, high = 1, share = 1; /* as much of the looser cut as fits at that moment */
    for (int i = 0; i < MIXTURES && status == NEAP_OK && high > low; i++) {
        mix(&f, cut, mixture, share);
        status = build(&f, cut->position, diag);
        bool fits = status == NEAP_OK && sequence_bytes(&s->q, f.moment) <= s->budget;
        *(fits ? &low : &high) = share;
        share = (low + high) / 2;
    }
    if (status == NEAP_OK) {
        mix(&f, cut, mixture, low);
        status = build(&f, cut->position, diag);
    }
    NEAP_DELETE(s->allocator, x->n_tensors, f.fates);
    return status;
}
