/* The makespan of a sequence, copies to the host included, and saved schedules. */
#include "base/fail.h"
#include "planners/neap/search.h"

#include <stdlib.h>

/* ---- Saved schedules ---- */

static neap_status reserve_list(neap_allocator *allocator, const problem *x, compute_list *list,
                                size_t n, size_t n_transfers, neap_diag *diag)
{
    if (!list->choice)
        NEAP_TRY(NEAP_NEW(allocator, x->n_tasks, &list->choice, diag));
    NEAP_TRY(NEAP_RESERVE(allocator, n, &list->tasks, &list->capacity, diag));
    return NEAP_RESERVE(allocator, n_transfers, &list->transfers, &list->transfer_capacity, diag);
}

neap_status neap_search_plan_copy(neap_allocator *allocator, const problem *x, search_plan *to,
                                  const search_plan *from, neap_diag *diag)
{
    compute_list *list = &to->list;
    const compute_list *given = &from->list;
    NEAP_TRY(reserve_list(allocator, x, list, given->n, given->n_transfers, diag));
    to->found = from->found;
    to->ticks = from->ticks;
    to->peak = from->peak;
    list->n = given->n;
    list->n_transfers = given->n_transfers;
    for (uint32_t i = 0; i < list->n; i++)
        list->tasks[i] = given->tasks[i];
    for (uint32_t i = 0; i < list->n_transfers; i++)
        list->transfers[i] = given->transfers[i];
    for (uint32_t t = 0; t < x->n_tasks; t++)
        list->choice[t] = given->choice[t];
    return NEAP_OK;
}

/* ---- The sequence as a list ---- */

static int by_after(const void *left, const void *right)
{
    const transfer *a = left, *b = right;
    if (a->after != b->after) /* + 1: the start comes first */
        return a->after + 1 < b->after + 1 ? -1 : 1;
    return (a->tensor > b->tensor) - (a->tensor < b->tensor);
}

/* Whether state has been overwritten when an item has run. */
static bool is_updated(const search *s, uint32_t tensor, uint32_t id)
{
    if (!is_state(s->x, tensor) || id == s->q.start)
        return false;
    uint32_t update = s->x->state_update[tensor - s->x->n_tensors];
    return update != NEAP_NONE && s->place_of[s->q.only[update]] <= s->place_of[id];
}

static void list_transfers(search *s)
{
    const sequence *q = &s->q;
    compute_list *trial = &s->trial.list;
    for (uint32_t t = 0; t < problem_n_all(s->x) && trial->n_transfers < q->n_away; t++) {
        const ref_list *list = &q->refs[t];
        bool copied = is_state(s->x, t), on_host = sequence_is_on_host(q, t);
        for (uint32_t i = 1; i < list->n; i++) {
            if (!list->refs[i].away)
                continue;
            trial->transfers[trial->n_transfers++] =
                (transfer){.tensor = t,
                           .after = s->place_of[list->refs[i - 1].item],
                           .before = s->place_of[list->refs[i].item],
                           .copies_out = !copied,
                           .over = list->refs[i].over,
                           .leads = on_host && i == 1,
                           .ends = on_host && i + 1 == list->n,
                           .updated = is_updated(s, t, list->refs[i - 1].item)};
            copied = true;
        }
    }
    if (trial->n_transfers > 1)
        qsort(trial->transfers, trial->n_transfers, sizeof *trial->transfers, by_after);
}

/* Items are at least as many as positions. */
static neap_status reserve(search *s, neap_diag *diag)
{
    NEAP_TRY(NEAP_RESERVE_COLUMNS(&s->item_columns, s->allocator, s->q.n_items, diag,
                                  NEAP_COLUMN(&s->place_of), NEAP_COLUMN(&s->room)));
    return reserve_list(s->allocator, s->x, &s->trial.list, s->q.n_items, s->q.n_away, diag);
}

neap_status neap_search_evaluate(search *s, neap_diag *diag)
{
    const sequence *q = &s->q;
    s->trial.ticks = q->ticks;
    s->trial.list.n_transfers = 0;
    if (q->n_away == 0)
        return NEAP_OK;
    NEAP_TRY(reserve(s, diag));
    /* A sequence that does not fit is scheduled within its own peak. */
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
    if (trial->ticks == INT64_MAX || /* not enough host memory */
        (s->best.found && s->best.peak <= budget && peak <= budget &&
         trial->ticks >= s->best.ticks)) /* other noise gave a better makespan */
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
