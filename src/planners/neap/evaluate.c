/* What a sequence takes in time, copies to the host included, and schedules put by. */
#include "base/fail.h"
#include "base/memory.h"
#include "planners/neap/search.h"

#include <stdlib.h>

/* ---- Schedules put by ---- */

neap_status neap_search_plan_copy(neap_allocator *allocator, const problem *x, search_plan *to,
                                  const search_plan *from, neap_diag *diag)
{
    NEAP_TRY(neap_compute_list_copy(allocator, x, &to->list, &from->list, diag));
    to->found = from->found;
    to->ticks = from->ticks;
    to->peak = from->peak;
    return NEAP_OK;
}

/* ---- The sequence as a list ---- */

static int by_after(const void *left, const void *right)
{
    const transfer *a = left, *b = right;
    if (a->after != b->after)
        return a->after < b->after ? -1 : 1;
    return (a->tensor > b->tensor) - (a->tensor < b->tensor);
}

static void list_transfers(search *s)
{
    const sequence *q = &s->q;
    compute_list *trial = &s->trial.list;
    for (uint32_t t = 0; t < s->x->n_tensors && trial->n_transfers < q->n_away; t++) {
        const ref_list *list = &q->refs[t];
        bool copied = false;
        for (uint32_t i = 1; i < list->n; i++) {
            if (!list->refs[i].away)
                continue;
            trial->transfers[trial->n_transfers++] =
                (transfer){.tensor = t,
                           .after = s->place_of[list->refs[i - 1].item],
                           .before = s->place_of[list->refs[i].item],
                           .copies_out = !copied};
            copied = true;
        }
    }
    if (trial->n_transfers > 1)
        qsort(trial->transfers, trial->n_transfers, sizeof *trial->transfers, by_after);
}

static neap_status reserve(search *s, neap_diag *diag)
{
    const sequence *q = &s->q;
    compute_list *trial = &s->trial.list;
    size_t n = (size_t)q->length + 1;
    if (!trial->choice)
        NEAP_TRY(NEAP_NEW(s->allocator, s->x->n_tasks, &trial->choice, diag));
    NEAP_TRY(NEAP_RESERVE(s->allocator, n, &trial->tasks, &trial->capacity, diag));
    NEAP_TRY(NEAP_RESERVE(s->allocator, n, &s->room, &s->room_capacity, diag));
    NEAP_TRY(NEAP_RESERVE(s->allocator, q->n_items, &s->place_of, &s->place_capacity, diag));
    return NEAP_RESERVE(s->allocator, q->n_away, &trial->transfers, &trial->transfer_capacity,
                        diag);
}

neap_status neap_search_evaluate(search *s, neap_diag *diag)
{
    const sequence *q = &s->q;
    s->trial.ticks = q->ticks;
    s->trial.list.n_transfers = 0;
    if (q->n_away == 0)
        return NEAP_OK;
    NEAP_TRY(reserve(s, diag));
    /* What does not fit yet is scheduled within the bytes that it takes. */
    int64_t most = neap_sequence_most(q), level = most > s->budget ? most : s->budget;
    neap_sequence_list(q, s->trial.list.tasks, s->room, s->place_of);
    for (uint32_t i = 0; i <= q->length; i++)
        s->room[i] = level - s->room[i];
    list_transfers(s);
    compute_list list = s->trial.list;
    list.n = q->length;
    list.choice = q->choice;
    return neap_transfers_schedule(s->scratch, &list, s->room, s->noise_seed, &s->trial.ticks,
                                   diag);
}

neap_status neap_search_keep(search *s, neap_diag *diag)
{
    int64_t peak = neap_sequence_most(&s->q) + s->x->base_bytes;
    int64_t budget = s->budget + s->x->base_bytes;
    if (s->best.found &&
        (s->best.peak <= budget ? peak > budget || s->current_ticks >= s->best.ticks
                                : peak >= s->best.peak))
        return NEAP_OK;
    NEAP_TRY(reserve(s, diag));
    NEAP_TRY(neap_search_evaluate(s, diag)); /* for the transfers */
    search_plan *trial = &s->trial;
    if (trial->ticks == INT64_MAX || /* it takes more host memory than there is */
        (s->best.found && s->best.peak <= budget && peak <= budget &&
         trial->ticks >= s->best.ticks)) /* in another noise it was better */
        return NEAP_OK;
    neap_sequence_list(&s->q, trial->list.tasks, NULL, NULL);
    trial->list.n = s->q.length;
    trial->peak = peak;
    trial->found = true;
    for (uint32_t t = 0; t < s->x->n_tasks; t++)
        trial->list.choice[t] = s->q.choice[t];
    return neap_search_plan_copy(s->allocator, s->x, &s->best, trial, diag);
}

neap_status neap_search_start_from(search *s, const search_plan *plan, neap_diag *diag)
{
    compute_list list = plan->list;
    list.n_transfers = s->link ? list.n_transfers : 0;
    NEAP_TRY(neap_sequence_load(&s->q, &list, diag));
    neap_status status = neap_search_evaluate(s, diag);
    s->current_ticks = s->trial.ticks;
    return status;
}
