/*
 * A schedule that applies a cut (bound.h): what the cut does with each tensor at one moment.
 *
 * Tensors that the cut recomputes are recomputed after that moment, just before their first use,
 * from what the cut keeps; those that it offloads are away. Then everything fits at that moment,
 * and at nearly all other items.
 */
#include "base/fail.h"
#include "planners/neap/search.h"

#include <stdlib.h>

enum { MIXTURES = 10 }; /* of two cuts that are tried */

/* Whether a tensor is made between the moment and an item. */
static bool is_made_since(const search *s, uint32_t tensor, uint32_t before)
{
    const sequence *q = &s->q;
    const ref_list *list = &q->refs[tensor];
    uint32_t at = neap_sequence_find_ref(q, tensor, sequence_place(q, s->moment));
    uint32_t place = sequence_place(q, before);
    for (; at < list->n && sequence_place(q, list->refs[at].item) < place; at++)
        if (list->refs[at].makes)
            return true;
    return false;
}

/* Recomputes a tensor before an item, and before it the inputs that the cut recomputes. */
static void remake(search *s, uint32_t tensor, uint32_t before)
{
    const problem *x = s->x;
    uint32_t task = x->producer[tensor];
    for (uint32_t i = x->reads.start[task]; i < x->reads.start[task + 1]; i++) {
        uint32_t read = x->reads.items[i];
        if (s->fates[read] == FATE_RECOMPUTE && tensor_can_recompute(x, read) &&
            !is_made_since(s, read, before))
            remake(s, read, before);
    }
    neap_search_insert(s, task, before);
}

/* The tensors that are held at the moment and that the cut drops, sorted by their next uses. */
static uint32_t list_waiting(search *s)
{
    uint32_t n = 0, place = sequence_place(&s->q, s->moment);
    for (uint32_t t = 0; t < s->x->n_tensors; t++) {
        const ref_list *list = &s->q.refs[t];
        uint32_t at = neap_sequence_find_ref(&s->q, t, place);
        if (s->fates[t] == FATE_KEEP || at == 0 || at >= list->n ||
            list->refs[at].item == s->moment)
            continue;
        s->ranks[n++] = (ranked){(double)sequence_place(&s->q, list->refs[at].item), t};
    }
    if (n > 1)
        qsort(s->ranks, n, sizeof *s->ranks, neap_ranked_up);
    return n;
}

/* Builds the schedule of s->fates. */
static neap_status build(search *s, uint32_t position, neap_diag *diag)
{
    NEAP_TRY(neap_sequence_load_natural(&s->q, diag));
    s->moment = neap_sequence_item_of(&s->q, position);
    uint32_t n = list_waiting(s);
    for (uint32_t i = 0; i < n && !s->q.out_of_memory; i++) {
        uint32_t tensor = s->ranks[i].item;
        uint32_t at = neap_sequence_find_ref(&s->q, tensor, sequence_place(&s->q, s->moment));
        const ref *next = &s->q.refs[tensor].refs[at];
        if (next->makes)
            continue; /* recomputed for another tensor */
        if (s->fates[tensor] == FATE_RECOMPUTE) {
            /* a bound of all plans may recompute what this search does not (problem.h) */
            if (tensor_can_recompute(s->x, tensor))
                remake(s, tensor, next->item);
        } else if (s->link && tensor_can_offload(s->x, tensor)) {
            neap_sequence_set_away(&s->q, tensor, next->item, true);
        }
    }
    if (s->q.out_of_memory)
        return neap_fail_no_memory(diag);
    neap_sequence_commit(&s->q);
    return NEAP_OK;
}

/* In each of mixture->parts parts of the tasks before the moment, takes the loose cut's fates for a
   share of the tensors, and the other's for the rest. */
static void mix(search *s, const search_cut *cut, const search_mixture *mixture, double share)
{
    const problem *x = s->x;
    uint64_t n = (uint64_t)cut->position + 1;
    for (uint32_t t = 0; t < x->n_tensors; t++) {
        double phase = (double)((uint64_t)x->producer[t] * mixture->parts % n) / (double)n;
        bool loose = mixture->early ? phase < share : phase >= 1 - share;
        s->fates[t] = loose ? cut->loose[t] : cut->fates[t];
    }
}

neap_status neap_search_start_from_cut(search *s, const search_cut *cut,
                                       const search_mixture *mixture, neap_diag *diag)
{
    double low = 0, high = 1, share = 1; /* as much of the loose cut as fits at that moment */
    for (int i = 0; i < MIXTURES && high > low && !s->stop(s->stop_context); i++) {
        mix(s, cut, mixture, share);
        NEAP_TRY(build(s, cut->position, diag));
        *(sequence_bytes(&s->q, s->moment) <= s->budget ? &low : &high) = share;
        share = (low + high) / 2;
    }
    mix(s, cut, mixture, low);
    return build(s, cut->position, diag);
}
