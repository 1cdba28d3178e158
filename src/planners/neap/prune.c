/* Prune: removes runs that the budget does not require. */
#include "base/random.h"
#include "planners/neap/search.h"

#include <stdlib.h>

enum { MOST_PRUNED = 4096 }; /* runs that an iteration considers */

/* Whether nothing that a run makes is used before it is made again. */
static bool is_useless(const search *s, uint32_t id)
{
    const problem *x = s->x;
    uint32_t task = s->q.items[id].task, place = sequence_place(&s->q, id);
    if (!neap_sequence_can_remove(&s->q, id))
        return false;
    for (uint32_t i = x->makes.start[task]; i < x->makes.start[task + 1]; i++) {
        const ref_list *list = &s->q.refs[x->makes.items[i]];
        uint32_t at = neap_sequence_find_ref(&s->q, x->makes.items[i], place) + 1;
        if (at < list->n && !list->refs[at].makes)
            return false;
    }
    return true;
}

/* Removes a run and the runs that only it needed. */
static void remove_run(search *s, uint32_t id)
{
    const problem *x = s->x;
    uint32_t task = s->q.items[id].task, next = neap_sequence_next(&s->q, id);
    neap_sequence_remove(&s->q, id);
    for (uint32_t i = x->reads.start[task]; i < x->reads.start[task + 1]; i++) {
        const ref_list *list = &s->q.refs[x->reads.items[i]];
        uint32_t at = neap_sequence_find_ref(&s->q, x->reads.items[i], sequence_place(&s->q, next));
        if (at > 0 && list->refs[at - 1].makes && is_useless(s, list->refs[at - 1].item))
            remove_run(s, list->refs[at - 1].item);
    }
}

/* A quick check: removing the run frees nothing, and holding what it makes does not fit. */
static bool is_needed(const search *s, uint32_t id)
{
    const problem *x = s->x;
    const sequence *q = &s->q;
    uint32_t task = q->items[id].task, place = sequence_place(q, id);
    for (uint32_t i = x->reads.start[task]; i < x->reads.start[task + 1]; i++) {
        uint32_t tensor = x->reads.items[i];
        if (!ref_is_held(&q->refs[tensor], neap_sequence_find_ref(q, tensor, place) + 1))
            return false;
    }
    for (uint32_t i = x->makes.start[task]; i < x->makes.start[task + 1]; i++) {
        uint32_t tensor = x->makes.items[i];
        const ref_list *list = &q->refs[tensor];
        uint32_t at = neap_sequence_find_ref(q, tensor, place);
        if (at > 0 && ref_is_held(list, at + 1) &&
            !neap_sequence_fits_between(q, list->refs[at - 1].item, id,
                                        s->budget - x->bytes[tensor]))
            return true;
    }
    return false;
}

static void try_removing(search *s, uint32_t id)
{
    if (!neap_sequence_can_remove(&s->q, id) || is_needed(s, id))
        return;
    size_t mark = s->q.n_changes;
    remove_run(s, id);
    if (neap_sequence_most(&s->q) > s->budget)
        neap_sequence_undo(&s->q, mark);
}

/* Chooses the fastest variant that fits. */
static void try_faster(search *s, uint32_t task)
{
    uint32_t now = s->q.choice[task];
    size_t mark = s->q.n_changes;
    for (uint32_t v = 0; v < now; v++) {
        neap_sequence_set_variant(&s->q, task, v);
        if (neap_sequence_most(&s->q) <= s->budget)
            return;
        neap_sequence_undo(&s->q, mark);
    }
}

bool neap_search_bring_state(search *s, uint32_t state, bool half)
{
    sequence *q = &s->q;
    if (s->x->state_place == NEAP_STATE_HOST)
        return false;
    neap_sequence_set_host(q, state, false);
    if (half)
        neap_sequence_set_away(q, state, q->refs[state].refs[1].item, true);
    return true;
}

/* Whether state that is on the host would fit all the way to its first use and from its last on. */
static bool fits_at_home(const search *s, uint32_t state)
{
    const sequence *q = &s->q;
    const ref_list *list = &q->refs[state];
    int64_t most = s->budget - s->x->bytes[state];
    return sequence_bytes(q, q->start) <= most && sequence_bytes(q, q->end) <= most &&
           neap_sequence_fits_between(q, q->start, list->refs[1].item, most) &&
           neap_sequence_fits_between(q, list->refs[list->n - 2].item, q->end, most);
}

void neap_search_bring_back(search *s)
{
    uint32_t n = problem_n_all(s->x);
    for (uint32_t t = 0; t < n && s->q.n_away > 0; t++) {
        if (sequence_is_on_host(&s->q, t) && s->x->state_place != NEAP_STATE_HOST &&
            fits_at_home(s, t))
            neap_search_bring_state(s, t, false);
        bool on_host = sequence_is_on_host(&s->q, t);
        for (uint32_t i = 1 + on_host; i + on_host < s->q.refs[t].n; i++) {
            const ref *r = s->q.refs[t].refs;
            int64_t most = s->budget - s->x->bytes[t];
            if (!r[i].away || (r[i].over && sequence_bytes(&s->q, r[i - 1].item) > most))
                continue;
            if (neap_sequence_fits_between(&s->q, r[i - 1].item, r[i].item, most))
                neap_sequence_set_away(&s->q, t, r[i].item, false);
            else if (r[i].over)
                neap_sequence_set_over(&s->q, t, r[i].item, false);
        }
    }
}

/* Ranks a run (an item) or a task's variant (n_items + task) by the time that undoing it saves. */
static void add_rank(search *s, uint32_t *n, uint32_t id, double ticks)
{
    double noise = 1 + 0.5 * (s->noise < 1 ? s->noise : 1) * (2 * neap_random_real(&s->random) - 1);
    s->ranks[(*n)++] = (ranked){(ticks + 1) * noise, id};
}

/* Candidates for removal: all or, in a long sequence, the runs just added and some others. */
static uint32_t list_reruns(search *s)
{
    const problem *x = s->x;
    const sequence *q = &s->q;
    bool some = s->partial_prune && q->n_items > MOST_PRUNED;
    uint32_t n = 0, count = some ? MOST_PRUNED / 4 : q->n_items;
    uint32_t from = some ? neap_random_below(&s->random, q->n_items) : 0;
    for (uint32_t k = 0; k < count; k++) {
        uint32_t id = from + k < q->n_items ? from + k : from + k - q->n_items;
        uint32_t task = q->items[id].task;
        if (task != NEAP_NONE && q->runs[task] > 1)
            add_rank(s, &n, id, (double)sequence_ticks(q, task));
    }
    for (size_t i = 0; i < q->n_changes && some && n < MOST_PRUNED; i++) {
        const change *c = &q->journal[i];
        if (c->kind == CHANGE_INSERT && q->items[c->id].task != NEAP_NONE)
            add_rank(s, &n, c->id, (double)task_ticks(x, q->items[c->id].task));
    }
    return n;
}

void neap_search_prune(search *s)
{
    const problem *x = s->x;
    sequence *q = &s->q;
    uint32_t n_items = q->n_items;
    if (!sequence_reserve(q, (size_t)n_items + MOST_PRUNED + x->n_tasks, &s->ranks,
                          &s->rank_capacity))
        return;
    uint32_t n = list_reruns(s);
    for (uint32_t i = 0; i < s->n_flexible; i++) {
        uint32_t task = s->flexible[i];
        const task_variant *variants = &x->variants[x->variant_start[task]];
        if (q->choice[task] > 0)
            add_rank(s, &n, n_items + task,
                     (double)(variants[q->choice[task]].ticks - variants[0].ticks) * q->runs[task]);
    }
    if (n > 1)
        qsort(s->ranks, n, sizeof *s->ranks, neap_ranked_down);
    for (uint32_t i = 0; i < n && !s->stop(s->stop_context); i++) {
        if (s->ranks[i].item < n_items)
            try_removing(s, s->ranks[i].item);
        else
            try_faster(s, s->ranks[i].item - n_items);
    }
    neap_search_advance_updates(s);
}
