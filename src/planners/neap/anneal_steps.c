#include "planners/neap/anneal_steps.h"

#include "base/fail.h"
#include "base/random.h"
#include "planners/neap/transfers.h"

#include <math.h>

enum {
    LIVE_TRIES = 12, /* to find a tensor that is in memory at a place */
    DEEPEST = 4,     /* runs that a recomputation takes with it, one for another */
    MOST_INPUTS = 16 /* of a run whose own recomputations may go with it */
};

static const double FARTHEST = 200; /* places that a run moves */

/* The share of recomputations that take others with them, and the mean number of places for which
   they rather hold an input. */
static const double CHAINS = 0.15, LONG = 30;

/* ---- Creation ---- */

static bool may_repeat(const problem *x, uint32_t task)
{
    for (uint32_t i = x->makes.start[task]; i < x->makes.start[task + 1]; i++)
        if (!tensor_can_recompute(x, x->makes.items[i]))
            return false;
    return x->makes.start[task] < x->makes.start[task + 1] && !x->is_update[task];
}

neap_status neap_anneal_steps_init(anneal_steps *s, flat_sequence *q, uint64_t seed,
                                   neap_diag *diag)
{
    const problem *x = q->x;
    *s = (anneal_steps){.q = q, .random = seed};
    if (!NEAP_TAKE(&q->arena, x->n_tasks, s->flexible) ||
        !NEAP_TAKE(&q->arena, x->n_tasks, s->repeatable))
        return neap_fail_no_memory(diag);
    for (uint32_t t = 0; t < x->n_tasks; t++) {
        if (x->variant_start[t + 1] - x->variant_start[t] > 1)
            s->flexible[s->n_flexible++] = t;
        s->repeatable[t] = may_repeat(x, t);
    }
    return NEAP_OK;
}

/* ---- Changes of one run ---- */

static void add_change(anneal_step *step, anneal_change_kind kind, uint32_t run, uint32_t task,
                       uint32_t before)
{
    step->changes[step->n++] = (anneal_change){kind, run, task, before};
}

/* Returns the run; NEAP_NONE: there is no room. */
static uint32_t insert(anneal_steps *s, anneal_step *step, uint32_t task, uint32_t place)
{
    uint32_t run =
        step->n == ANNEAL_MOST_CHANGES ? NEAP_NONE : neap_flat_sequence_insert(s->q, task, place);
    if (run != NEAP_NONE)
        add_change(step, ANNEAL_INSERT, run, task, 0);
    return run;
}

static void undo_change(anneal_steps *s, const anneal_change *c)
{
    if (c->kind == ANNEAL_MOVE)
        neap_flat_sequence_move(s->q, c->run, c->before);
    else if (c->kind == ANNEAL_INSERT)
        neap_flat_sequence_remove(s->q, c->run);
    else if (c->kind == ANNEAL_REMOVE)
        neap_flat_sequence_insert(s->q, c->task, c->before);
    else
        neap_flat_sequence_set_variant(s->q, c->task, c->before);
}

void neap_anneal_step_undo(anneal_steps *s, const anneal_step *step)
{
    for (uint32_t i = step->n; i-- > 0;)
        undo_change(s, &step->changes[i]);
}

/* The fullest of some random places. */
static uint32_t full_place(anneal_steps *s, int tries)
{
    const flat_sequence *q = s->q;
    uint32_t place = neap_random_below(&s->random, q->length);
    for (int i = 1; i < tries; i++) {
        uint32_t other = neap_random_below(&s->random, q->length);
        place = q->bytes[other] > q->bytes[place] ? other : place;
    }
    return place;
}

static void move_one(anneal_steps *s, anneal_step *step)
{
    flat_sequence *q = s->q;
    uint32_t from = full_place(s, 2), run = q->items[from];
    flat_range range = neap_flat_sequence_range(q, run);
    uint32_t far = (uint32_t)exp(neap_random_real(&s->random) * log(FARTHEST));
    bool later = neap_random_below(&s->random, 2) > 0;
    uint32_t to = later ? from + 1 + far : from > far ? from - far : 0;
    to = to < range.first ? range.first : to > range.last ? range.last : to;
    if (to == from || to == from + 1)
        return;
    neap_flat_sequence_move(q, run, to);
    /* It goes back before the run that now follows its old place. */
    add_change(step, ANNEAL_MOVE, run, q->task[run], to > from ? from : from + 1);
}

static void change_variant(anneal_steps *s, anneal_step *step)
{
    const problem *x = s->q->x;
    uint32_t task = s->flexible[neap_random_below(&s->random, s->n_flexible)];
    uint32_t n = x->variant_start[task + 1] - x->variant_start[task], now = s->q->choice[task];
    uint32_t to = neap_random_below(&s->random, n - 1);
    neap_flat_sequence_set_variant(s->q, task, to < now ? to : to + 1);
    add_change(step, ANNEAL_VARIANT, 0, task, now);
}

/* ---- Recomputations ---- */

/* For how many places an input of a run is held for this run alone. */
static uint32_t places_held(const flat_sequence *q, uint32_t tensor, uint32_t run)
{
    const flat_refs *list = &q->refs[tensor];
    uint32_t at = neap_flat_sequence_find_ref(q, tensor, q->place[run]);
    if (at + 1 < list->n && !list->refs[at + 1].makes)
        return 0;
    return q->place[run] - q->place[list->refs[at - 1].item];
}

/* Adds a run of a task before another run, and of its inputs those that would be held for more than
   `most` places. */
static void insert_chain(anneal_steps *s, anneal_step *step, uint32_t task, uint32_t user,
                         double most, int depth)
{
    flat_sequence *q = s->q;
    const problem *x = q->x;
    if (!neap_flat_sequence_precedes_updates(q, task, q->place[user]))
        return;
    uint32_t run = insert(s, step, task, q->place[user]);
    if (run == NEAP_NONE || depth == 0)
        return;
    for (uint32_t i = x->reads.start[task]; i < x->reads.start[task + 1]; i++) {
        uint32_t tensor = x->reads.items[i], maker = x->producer[tensor];
        if (s->repeatable[maker] && places_held(q, tensor, run) > most)
            insert_chain(s, step, maker, run, most, depth - 1);
    }
}

/* A tensor is recomputed before its next use behind a place at which it is only held. */
static void insert_one(anneal_steps *s, anneal_step *step)
{
    flat_sequence *q = s->q;
    uint32_t place = full_place(s, 4);
    for (int i = 0; i < LIVE_TRIES; i++) {
        uint32_t tensor = neap_random_below(&s->random, q->x->n_tensors);
        const flat_refs *list = &q->refs[tensor];
        uint32_t task = q->x->producer[tensor];
        if (list->n < 2 || q->x->bytes[tensor] == 0 || q->place[list->refs[0].item] >= place ||
            q->place[list->refs[list->n - 1].item] <= place || !s->repeatable[task])
            continue;
        const flat_ref *use = &list->refs[neap_flat_sequence_find_ref(q, tensor, place)];
        if (use->makes || q->place[use->item] == place)
            continue;
        bool alone = neap_random_real(&s->random) >= CHAINS;
        double most = alone ? 0 : -LONG * log(1 - neap_random_real(&s->random));
        insert_chain(s, step, task, use->item, most, alone ? 0 : DEEPEST);
        return;
    }
}

/* Whether nothing uses what a run makes before it is made again. */
static bool is_idle(const flat_sequence *q, uint32_t run)
{
    const problem *x = q->x;
    uint32_t task = q->task[run];
    for (uint32_t i = x->makes.start[task]; i < x->makes.start[task + 1]; i++) {
        uint32_t tensor = x->makes.items[i];
        const flat_refs *list = &q->refs[tensor];
        uint32_t at = neap_flat_sequence_find_ref(q, tensor, q->place[run]);
        if (at + 1 < list->n && !list->refs[at + 1].makes)
            return false;
    }
    return true;
}

/* The runs that made the inputs of a run, where it is the first to use them. */
static uint32_t list_makers(const flat_sequence *q, uint32_t run, uint32_t *makers)
{
    const id_lists *reads = &q->x->reads;
    uint32_t task = q->task[run], n = 0;
    for (uint32_t i = reads->start[task]; i < reads->start[task + 1] && n < MOST_INPUTS; i++) {
        const flat_refs *list = &q->refs[reads->items[i]];
        uint32_t at = neap_flat_sequence_find_ref(q, reads->items[i], q->place[run]);
        if (list->refs[at - 1].makes)
            makers[n++] = list->refs[at - 1].item;
    }
    return n;
}

/* Removes a run, and the recomputations that only it needed. */
static void remove_chain(anneal_steps *s, anneal_step *step, uint32_t run, int depth)
{
    flat_sequence *q = s->q;
    uint32_t makers[MOST_INPUTS], n = depth > 0 ? list_makers(q, run, makers) : 0;
    add_change(step, ANNEAL_REMOVE, run, q->task[run], q->place[run]);
    neap_flat_sequence_remove(q, run);
    for (uint32_t i = 0; i < n && step->n < ANNEAL_MOST_CHANGES; i++)
        if (q->task[makers[i]] != NEAP_NONE && is_idle(q, makers[i]) &&
            neap_flat_sequence_can_remove(q, makers[i]))
            remove_chain(s, step, makers[i], depth - 1);
}

static void remove_one(anneal_steps *s, anneal_step *step)
{
    const flat_sequence *q = s->q;
    if (q->n_again == 0)
        return;
    uint32_t task = q->again[neap_random_below(&s->random, q->n_again)];
    const flat_refs *list = &q->refs[q->x->makes.items[q->x->makes.start[task]]];
    uint32_t at = neap_random_below(&s->random, list->n);
    for (uint32_t i = 0; i < list->n && !list->refs[at].makes; i++)
        at = at + 1 < list->n ? at + 1 : 0;
    uint32_t run = list->refs[at].item;
    if (neap_flat_sequence_can_remove(q, run))
        remove_chain(s, step, run, DEEPEST);
}

void neap_anneal_step_take(anneal_steps *s, anneal_step *step)
{
    double kind = neap_random_real(&s->random);
    step->n = 0;
    if (s->n_flexible > 0 && kind < 0.05)
        change_variant(s, step);
    else if (kind < 0.5)
        move_one(s, step);
    else if (kind < 0.75)
        insert_one(s, step);
    else
        remove_one(s, step);
}
