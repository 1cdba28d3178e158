/* Moves of runs: the search also chooses the order of computations. */
#include "base/fail.h"
#include "base/random.h"
#include "planners/neap/search.h"

/* The first place at which everything that a run reads has been made and, for an update, everything
   has run that reads what it overwrites. */
static uint32_t earliest(const search *s, uint32_t id)
{
    const problem *x = s->x;
    const sequence *q = &s->q;
    uint32_t task = q->items[id].task, place = q->start != NEAP_NONE;
    for (uint32_t i = x->reads.start[task]; i < x->reads.start[task + 1]; i++) {
        uint32_t made = sequence_place(q, q->refs[x->reads.items[i]].refs[0].item) + 1;
        place = made > place ? made : place;
    }
    for (uint32_t i = x->before.start[task]; i < x->before.start[task + 1]; i++) {
        uint32_t ran = sequence_place(q, neap_sequence_last_run(q, x->before.items[i])) + 1;
        place = ran > place ? ran : place;
    }
    return place;
}

/* The item that a run must precede: the first use of what no earlier run makes; the update of what
   it reads; or the end. */
static uint32_t latest(const search *s, uint32_t id)
{
    const problem *x = s->x;
    const sequence *q = &s->q;
    uint32_t task = q->items[id].task, before = q->end;
    for (uint32_t i = x->makes.start[task]; i < x->makes.start[task + 1]; i++) {
        const ref_list *list = &q->refs[x->makes.items[i]];
        uint32_t at = neap_sequence_find_ref(q, x->makes.items[i], sequence_place(q, id));
        if (at > 0 || at + 1 >= list->n || list->refs[at + 1].makes)
            continue;
        uint32_t use = list->refs[at + 1].item;
        if (sequence_place(q, use) < sequence_place(q, before))
            before = use;
    }
    for (uint32_t i = x->updated_by.start[task]; i < x->updated_by.start[task + 1]; i++) {
        uint32_t update = q->only[x->updated_by.items[i]];
        if (sequence_place(q, update) < sequence_place(q, before))
            before = update;
    }
    return before;
}

bool neap_search_can_move(const search *s, uint32_t id, uint32_t before)
{
    const sequence *q = &s->q;
    uint32_t place = sequence_place(q, before);
    return q->items[id].task != NEAP_NONE && id != before && place >= earliest(s, id) &&
           place <= sequence_place(q, latest(s, id));
}

uint32_t neap_search_move(search *s, uint32_t id, uint32_t before)
{
    uint32_t task = s->q.items[id].task;
    neap_sequence_remove(&s->q, id);
    return neap_sequence_insert(&s->q, task, before);
}

uint32_t neap_search_insert(search *s, uint32_t task, uint32_t before)
{
    const id_lists *by = &s->x->updated_by;
    sequence *q = &s->q;
    if (neap_sequence_precedes_updates(q, task, before))
        return neap_sequence_insert(q, task, before);
    for (uint32_t i = by->start[task]; i < by->start[task + 1]; i++) {
        uint32_t update = q->only[by->items[i]];
        if (sequence_place(q, update) < sequence_place(q, before) &&
            (s->in_order || !neap_search_can_move(s, update, before)))
            return NEAP_NONE;
    }
    uint32_t id = neap_sequence_insert(q, task, before);
    for (uint32_t i = by->start[task]; i < by->start[task + 1] && id != NEAP_NONE; i++) {
        uint32_t update = q->only[by->items[i]];
        if (sequence_place(q, update) < sequence_place(q, id) && !q->out_of_memory)
            neap_search_move(s, update, before);
    }
    return id;
}

void neap_search_advance_updates(search *s)
{
    sequence *q = &s->q;
    for (uint32_t k = 0; k < s->x->n_tasks && s->x->has_updates && !s->in_order; k++) {
        if (!s->x->is_update[k] || q->out_of_memory)
            continue;
        uint32_t to = neap_sequence_at(q, earliest(s, q->only[k]));
        while (to != q->only[k] && q->items[to].task != NEAP_NONE &&
               s->x->is_update[q->items[to].task]) /* there for the same */
            to = neap_sequence_next(q, to);
        if (to == q->only[k])
            continue;
        size_t mark = q->n_changes;
        neap_search_move(s, q->only[k], to);
        if (neap_sequence_most(q) > s->budget)
            neap_sequence_undo(q, mark);
    }
}

uint32_t neap_search_random_item(search *s)
{
    uint32_t last = sequence_place(&s->q, s->q.end);
    return neap_sequence_at(&s->q, neap_random_below(&s->random, last + 1));
}

static uint32_t item_near(search *s, uint32_t center)
{
    sequence *q = &s->q;
    uint32_t place = sequence_place(q, center), last = sequence_place(q, q->end);
    uint32_t width = 1 + neap_random_below(&s->random, 1 + q->length / 4);
    uint32_t from = place > width / 2 ? place - width / 2 : 0;
    uint32_t at = from + neap_random_below(&s->random, width);
    return neap_sequence_at(q, at < last ? at : last);
}

void neap_search_shuffle(search *s, uint32_t center)
{
    sequence *q = &s->q;
    uint32_t moves = 1 + neap_random_below(&s->random, 4);
    for (uint32_t k = 0; k < moves && !q->out_of_memory; k++) {
        uint32_t id = item_near(s, center);
        if (q->items[id].task == NEAP_NONE)
            continue;
        uint32_t low = earliest(s, id), end = latest(s, id), high = sequence_place(q, end);
        uint32_t to = end, way = neap_random_below(&s->random, 4); /* latest, earliest, between */
        if (way == 0)
            to = neap_sequence_at(q, low);
        else if (way > 1 && high > low)
            to = neap_sequence_at(q, low + neap_random_below(&s->random, high - low + 1));
        if (neap_search_can_move(s, id, to))
            neap_search_move(s, id, to);
    }
}

/* ---- Random orders ---- */

/* Lists the tasks in a random topological order. */
static void draw_order(search *s, uint32_t *list, uint32_t *missing, uint32_t *ready)
{
    const problem *x = s->x;
    uint32_t n = 0, n_ready = 0;
    for (uint32_t k = 0; k < x->n_tasks; k++) {
        missing[k] = x->reads.start[k + 1] - x->reads.start[k];
        missing[k] += x->before.start[k + 1] - x->before.start[k];
        if (missing[k] == 0)
            ready[n_ready++] = k;
    }
    while (n_ready > 0) {
        uint32_t pick = neap_random_below(&s->random, n_ready), task = ready[pick];
        ready[pick] = ready[--n_ready];
        list[n++] = task;
        for (uint32_t i = x->makes.start[task]; i < x->makes.start[task + 1]; i++) {
            uint32_t tensor = x->makes.items[i];
            for (uint32_t j = x->readers.start[tensor]; j < x->readers.start[tensor + 1]; j++)
                if (--missing[x->readers.items[j]] == 0)
                    ready[n_ready++] = x->readers.items[j];
        }
        for (uint32_t i = x->updated_by.start[task]; i < x->updated_by.start[task + 1]; i++)
            if (--missing[x->updated_by.items[i]] == 0)
                ready[n_ready++] = x->updated_by.items[i];
    }
}

neap_status neap_search_load_random(search *s, neap_diag *diag)
{
    uint32_t n = s->x->n_tasks, *scratch;
    NEAP_TRY(NEAP_NEW(s->allocator, 3 * (size_t)n, &scratch, diag));
    draw_order(s, scratch, scratch + n, scratch + 2 * n);
    neap_status status = neap_sequence_load(&s->q, &(compute_list){.n = n, .tasks = scratch}, diag);
    NEAP_DELETE(s->allocator, 3 * (size_t)n, scratch);
    return status;
}
