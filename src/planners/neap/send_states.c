/*
 * State need not be on the device all the time. If a sequence is far above the budget because of
 * its state, so much of it is put on the host at once: repair would send it away piece by piece.
 *
 * What is used once, as moments are, goes first. If that is not enough, what is used more often
 * follows, in all its gaps: entirely, or until what stays takes a part of the budget and repair can
 * choose between state and activations.
 *
 * Of what is used once, the part that is updated last is on the device at the start and at the end,
 * where there is room, and on the host in between: it leaves at the beginning, whereas what is on
 * the host at both leaves at the end, when nothing is left to be computed meanwhile.
 */
#include "base/random.h"
#include "planners/neap/search.h"

#include <stdlib.h>

enum { MOST_PASSES = 8, LEAST_GAP = 4 };

/* The part of the budget that state with several uses keeps, if not all of it goes. */
static const double KEPT_SHARE = 0.5;

/* The part of the budget that state takes which leaves at the beginning. */
static const double EARLY_SHARE = 0.5;

/* State in the order in which it is needed: what is updated early has time to go back. Single uses
   come first. */
static uint32_t list_states(search *s, uint32_t *n_single)
{
    const sequence *q = &s->q;
    uint32_t n = 0, last = sequence_place(q, q->end) + 1;
    *n_single = 0;
    for (uint32_t t = s->x->n_tensors; t < problem_n_all(s->x); t++) {
        const ref_list *list = &q->refs[t];
        bool several = list->n > 3;
        if (sequence_is_on_host(q, t))
            continue;
        uint32_t place = sequence_place(q, list->refs[list->n - 2].item) + (several ? last : 0);
        s->ranks[n++] = (ranked){(double)place, t};
        *n_single += !several;
    }
    if (n > 1)
        qsort(s->ranks, n, sizeof *s->ranks, neap_ranked_up);
    return n;
}

/* On the host at the start and at the end, and in every gap in which others run. Early: only until
   its use. */
static void send(search *s, uint32_t state, bool early)
{
    sequence *q = &s->q;
    const ref_list *list = &q->refs[state];
    if (!early)
        neap_sequence_set_host(q, state, true);
    else if (!list->refs[1].away)
        neap_sequence_set_away(q, state, list->refs[1].item, true);
    for (uint32_t i = 2; i + 1 < list->n && !q->out_of_memory; i++) {
        uint32_t from = sequence_place(q, list->refs[i - 1].item);
        if (!list->refs[i].away && sequence_place(q, list->refs[i].item) > from + LEAST_GAP)
            neap_sequence_set_away(q, state, list->refs[i].item, true);
    }
}

/* Sends states[*next .. end - 1] away while the sequence is above the budget, those from `late` on
   early. */
static void send_some(search *s, uint32_t *next, uint32_t end, uint32_t late, int64_t most)
{
    for (int pass = 0; pass < MOST_PASSES; pass++) {
        int64_t above = neap_sequence_most(&s->q) - s->budget;
        for (; above > 0 && most > 0 && *next < end && !s->q.out_of_memory; ++*next) {
            int64_t bytes = s->x->bytes[s->ranks[*next].item];
            send(s, s->ranks[*next].item, *next >= late);
            above -= bytes;
            most -= bytes;
        }
    }
}

/* The first of the single uses that leave at the beginning. */
static uint32_t find_late(search *s, uint32_t n_single)
{
    double share = s->n_restarts == 0 ? EARLY_SHARE : neap_random_real(&s->random);
    int64_t left = (int64_t)(share * (double)s->budget);
    uint32_t late = n_single;
    if (s->x->state_place == NEAP_STATE_HOST)
        return late;
    while (late > 0 && left >= s->x->bytes[s->ranks[late - 1].item])
        left -= s->x->bytes[s->ranks[--late].item];
    return late;
}

void neap_search_send_states(search *s)
{
    if (s->x->n_states == 0 || !s->link || neap_sequence_most(&s->q) <= s->budget)
        return;
    uint32_t n_single, n = list_states(s, &n_single), next = 0;
    send_some(s, &next, n_single, find_late(s, n_single), INT64_MAX);
    int64_t rest = 0;
    for (uint32_t i = next; i < n; i++)
        rest += s->x->bytes[s->ranks[i].item];
    bool all = s->n_restarts % 2 == 1;
    send_some(s, &next, n, n, all ? INT64_MAX : rest - (int64_t)(KEPT_SHARE * (double)s->budget));
    neap_sequence_commit(&s->q);
}
