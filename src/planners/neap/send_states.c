/*
 * State that is used once, as moments are, need not be on the device for the rest of the step. If a
 * sequence is far above the budget because of its state, so much of that state is put on the host
 * at once: repair would send it away piece by piece.
 */
#include "planners/neap/search.h"

#include <stdlib.h>

enum { MOST_PASSES = 8 };

/* State that is read once, in the order in which it is needed: what was sent away early has time to
   go back. */
static uint32_t list_single_uses(search *s)
{
    const sequence *q = &s->q;
    uint32_t n = 0;
    for (uint32_t t = s->x->n_tensors; t < problem_n_all(s->x); t++) {
        const ref_list *list = &q->refs[t];
        if (list->n <= 3 && !sequence_is_on_host(q, t))
            s->ranks[n++] = (ranked){(double)sequence_place(q, list->refs[1].item), t};
    }
    if (n > 1)
        qsort(s->ranks, n, sizeof *s->ranks, neap_ranked_up);
    return n;
}

void neap_search_send_states(search *s)
{
    if (s->x->n_states == 0 || !s->link)
        return;
    uint32_t n = list_single_uses(s), next = 0;
    for (int pass = 0; pass < MOST_PASSES; pass++) {
        int64_t above = neap_sequence_most(&s->q) - s->budget;
        for (; above > 0 && next < n && !s->q.out_of_memory; next++) {
            neap_sequence_set_host(&s->q, s->ranks[next].item, true);
            above -= s->x->bytes[s->ranks[next].item];
        }
    }
    neap_sequence_commit(&s->q);
}
