#include "planners/neap/search.h"

#include "base/fail.h"
#include "base/random.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    ATTEMPTS = 12,    /* to fit a level */
    ATTEMPT_COST = 8, /* iterations that take as long as one attempt */
    PATIENCE = 300,   /* iterations without improvement before runs may move */
};

/* ---- Creation and release ---- */

static neap_status list_droppable(search *s, neap_diag *diag)
{
    const problem *x = s->x;
    double all = 0, sum = 0;
    NEAP_TRY(
        NEAP_RESERVE(s->allocator, (size_t)problem_n_all(x), &s->ranks, &s->rank_capacity, diag));
    for (uint32_t t = 0; t < problem_n_all(x); t++) {
        if (x->bytes[t] == 0)
            continue;
        s->ranks[s->n_droppable++] = (ranked){(double)x->bytes[t], t};
        all += (double)x->bytes[t];
    }
    if (s->n_droppable > 1)
        qsort(s->ranks, s->n_droppable, sizeof *s->ranks, neap_ranked_down);
    for (uint32_t i = 0; i < s->n_droppable; i++) {
        s->droppable[i] = s->ranks[i].item;
        if (sum < 0.999 * all)
            s->n_large = i + 1;
        sum += s->ranks[i].rank;
    }
    return NEAP_OK;
}

static bool never(void *context)
{
    (void)context;
    return false;
}

neap_status neap_search_init(search *s, neap_allocator *allocator, const problem *x, int64_t budget,
                             const neap_link *link, uint64_t seed, neap_diag *diag)
{
    *s = (search){.allocator = allocator,
                  .x = x,
                  .link = link,
                  .stop = never,
                  .budget = budget - x->base_bytes,
                  .random = seed,
                  .local_ticks = INT64_MAX,
                  .most_ticks = INT64_MAX};
    NEAP_TRY(neap_sequence_init(&s->q, allocator, x, diag));
    if (!NEAP_TAKE(&s->q.arena, problem_n_all(x), s->droppable) ||
        !NEAP_TAKE(&s->q.arena, x->n_tensors, s->fates) ||
        !NEAP_TAKE(&s->q.arena, x->n_tasks, s->flexible))
        return neap_fail_no_memory(diag);
    if (link)
        NEAP_TRY(neap_transfer_scratch_create(allocator, x, link, &s->scratch, diag));
    for (uint32_t t = 0; t < x->n_tasks; t++)
        if (x->variant_start[t + 1] - x->variant_start[t] > 1)
            s->flexible[s->n_flexible++] = t;
    return list_droppable(s, diag);
}

void neap_search_set_stop(search *s, bool (*stop)(void *context), void *context)
{
    s->stop = stop;
    s->stop_context = context;
}

void neap_search_clear(search *s)
{
    neap_allocator *a = s->allocator;
    neap_sequence_clear(&s->q);
    neap_compute_list_clear(a, s->x, &s->best.list);
    neap_compute_list_clear(a, s->x, &s->trial.list);
    neap_transfer_scratch_destroy(s->scratch);
    neap_columns_clear(&s->item_columns, a);
    NEAP_DELETE(a, s->all_capacity, s->all);
    NEAP_DELETE(a, s->drop_capacity, s->drops);
    NEAP_DELETE(a, s->rank_capacity, s->ranks);
    *s = (search){0};
}

/* ---- Ruin ---- */

/* A random run that may be removed; NEAP_NONE: there is none. */
static uint32_t random_rerun(search *s)
{
    const sequence *q = &s->q;
    uint32_t from = neap_random_below(&s->random, q->n_items);
    for (uint32_t k = 0; k < q->n_items; k++) {
        uint32_t id = (from + k) % q->n_items;
        if (neap_sequence_can_remove(q, id))
            return id;
    }
    return NEAP_NONE;
}

/* Brings some tensors back. */
static void ruin_sent(search *s)
{
    uint32_t n = problem_n_all(s->x), from = neap_random_below(&s->random, n);
    uint32_t most = 1 + neap_random_below(&s->random, 8);
    for (uint32_t k = 0; k < n && most > 0 && s->q.n_away > 0; k++) {
        uint32_t tensor = (from + k) % n;
        const ref_list *list = &s->q.refs[tensor];
        if (sequence_is_on_host(&s->q, tensor)) {
            most -= neap_search_bring_state(s, tensor, neap_random_below(&s->random, 2) == 0);
            continue;
        }
        for (uint32_t i = 1; i < list->n && most > 0; i++)
            if (list->refs[i].away) {
                neap_sequence_set_away(&s->q, tensor, list->refs[i].item, false);
                most--;
            }
    }
}

/* Sends one more tensor away: others may then leave later and return earlier. */
static void send_one(search *s)
{
    uint32_t n = problem_n_all(s->x), from = neap_random_below(&s->random, n);
    for (uint32_t k = 0; k < n; k++) {
        uint32_t tensor = (from + k) % n;
        const ref_list *list = &s->q.refs[tensor];
        if (is_state(s->x, tensor) && !sequence_is_on_host(&s->q, tensor) &&
            neap_random_below(&s->random, 2) == 0) {
            neap_sequence_set_host(&s->q, tensor, true);
            return;
        }
        if (list->n < 2 || !tensor_can_offload(s->x, tensor))
            continue;
        uint32_t at = 1 + neap_random_below(&s->random, list->n - 1);
        const ref *r = &list->refs[at];
        bool over = ref_may_pass_on(&s->q, tensor, at - 1) && neap_random_below(&s->random, 2) == 0;
        if (r->makes || r->away ||
            (!over && neap_sequence_next(&s->q, list->refs[at - 1].item) == r->item))
            continue;
        neap_sequence_set_away(&s->q, tensor, r->item, true);
        if (over)
            neap_sequence_set_over(&s->q, tensor, r->item, true);
        return;
    }
}

/* Removes some runs around one. */
static void ruin_window(search *s, uint32_t center)
{
    sequence *q = &s->q;
    uint32_t width = 1 + neap_random_below(&s->random, q->length < 4096 ? 1 + q->length / 8 : 512);
    double share = 0.3 + 0.7 * neap_random_real(&s->random);
    uint32_t id = center, most = 1 + neap_random_below(&s->random, 8);
    for (uint32_t k = 0; k < width / 2 && neap_sequence_previous(q, id) != NEAP_NONE; k++)
        id = neap_sequence_previous(q, id);
    for (uint32_t k = 0; k < width && id != q->end && most > 0; k++) {
        uint32_t next = neap_sequence_next(q, id);
        bool chosen = id == center || neap_random_real(&s->random) < share;
        if (chosen && id != q->start)
            neap_sequence_bring_back(q, id);
        if (chosen && neap_sequence_can_remove(q, id)) {
            neap_sequence_remove(q, id);
            most--;
        }
        id = next;
    }
}

/* Removes some runs before which their tensor is not held at a random place. */
static void ruin_across(search *s, uint32_t center)
{
    sequence *q = &s->q;
    uint32_t place = sequence_place(q, center), most = 1 + neap_random_below(&s->random, 8);
    uint32_t from = neap_random_below(&s->random, q->n_items);
    if (place == 0)
        return;
    place = neap_random_below(&s->random, place);
    for (uint32_t k = 0; k < q->n_items && most > 0; k++) {
        uint32_t id = (from + k) % q->n_items;
        if (!neap_sequence_can_remove(q, id))
            continue;
        uint32_t tensor = s->x->makes.items[s->x->makes.start[q->items[id].task]];
        uint32_t at = neap_sequence_find_ref(q, tensor, sequence_place(q, id));
        if (at == 0 || sequence_place(q, q->refs[tensor].refs[at - 1].item) > place ||
            sequence_place(q, id) < place)
            continue;
        neap_sequence_remove(q, id);
        most--;
    }
}

static void ruin(search *s)
{
    uint32_t center = random_rerun(s);
    if (s->q.n_away > 0 && (center == NEAP_NONE || neap_random_below(&s->random, 2) > 0))
        center = neap_search_random_item(s);
    if (s->moving && neap_random_below(&s->random, 2) > 0) {
        neap_search_shuffle(s, center != NEAP_NONE ? center : neap_search_random_item(s));
        center = s->q.n_away > 0 ? neap_search_random_item(s) : random_rerun(s);
    }
    if (s->q.n_away > 0 && neap_random_below(&s->random, 2) == 0)
        ruin_sent(s);
    if (s->q.n_away > 0 && s->sending && neap_random_below(&s->random, 4) == 0)
        send_one(s);
    if (center == s->q.end)
        return;
    if (center != NEAP_NONE && neap_random_below(&s->random, 3) > 0)
        ruin_window(s, center);
    else if (center != NEAP_NONE)
        ruin_across(s, center);
}

/* ---- The first schedule ---- */

/* Makes the schedule fit a level, in several random attempts if necessary. */
static bool reach(search *s, int64_t level)
{
    s->budget = level;
    s->most_ticks = INT64_MAX;
    s->partial_prune = false;
    for (uint32_t attempt = 0;
         attempt < ATTEMPTS && !s->q.out_of_memory && !s->stop(s->stop_context); attempt++) {
        s->attempts++;
        s->noise_seed = neap_random_bits(&s->random);
        s->noise = attempt < 2 && s->n_restarts == 0 ? 0 : 3 * neap_random_real(&s->random);
        s->fresh_noise = attempt % 2 == 0;
        s->moving = attempt > 0 && !s->in_order;
        s->sending = s->link && neap_random_below(&s->random, 4) > 0;
        s->send_price = 1.5 * neap_random_real(&s->random);
        s->focus = attempt < 4 ? FOCUS_ALL : neap_random_below(&s->random, 4);
        s->move_cost = 0.2 * neap_random_real(&s->random) * (double)s->q.ticks / s->q.length;
        if (attempt > 3)
            ruin(s);
        if (neap_search_repair(s)) {
            neap_search_prune(s);
            neap_sequence_commit(&s->q);
            return !s->q.out_of_memory;
        }
        neap_sequence_undo(&s->q, 0);
    }
    return false;
}

/* Goes straight to the budget or, if that fails, approaches it step by step. */
static void descend(search *s, int64_t budget)
{
    int64_t level = neap_sequence_most(&s->q), step = level - budget;
    while (level > budget && !s->stop(s->stop_context)) {
        int64_t next = level - step > budget ? level - step : budget;
        if (reach(s, next)) {
            level = neap_sequence_most(&s->q);
            step += (step + 1) / 2;
        } else if (s->q.out_of_memory || step <= level / 4096 + 1) {
            break;
        } else {
            step = step > 4 ? step / 4 : 1;
        }
    }
    s->budget = budget;
}

neap_status neap_search_construct(search *s, neap_diag *diag)
{
    neap_search_send_states(s);
    descend(s, s->budget);
    if (s->q.out_of_memory)
        return neap_fail_no_memory(diag);
    NEAP_TRY(neap_search_evaluate(s, diag));
    s->current_ticks = s->trial.ticks;
    return neap_search_keep(s, diag);
}

/* ---- Iterations ---- */

/* Evaluates the sequence, and brings tensors back that fit unless others are then late. */
static neap_status settle(search *s, neap_diag *diag)
{
    NEAP_TRY(neap_search_evaluate(s, diag));
    size_t mark = s->q.n_changes;
    int64_t ticks = s->trial.ticks;
    neap_search_bring_back(s);
    if (s->q.n_changes == mark)
        return NEAP_OK;
    NEAP_TRY(neap_search_evaluate(s, diag));
    if (s->trial.ticks > ticks) {
        neap_sequence_undo(&s->q, mark);
        s->trial.ticks = ticks;
    }
    return NEAP_OK;
}

static neap_status iterate(search *s, neap_diag *diag)
{
    /* If the copies exceed the host memory, the time is INT64_MAX. */
    int64_t current = s->current_ticks < INT64_MAX / 4 ? s->current_ticks : INT64_MAX / 4;
    double slack = -log(1 - neap_random_real(&s->random)) * 3e-5 * (double)current;
    int64_t accepted = current + (int64_t)slack;
    double all = (double)s->current_ticks, waiting = all - (double)s->q.ticks;
    s->most_ticks = accepted + current / 50;
    s->partial_prune = true;
    s->noise = 2.5 * neap_random_real(&s->random);
    s->noise_seed = neap_random_bits(&s->random);
    s->fresh_noise = neap_random_below(&s->random, 2) == 0;
    s->focus =
        neap_random_below(&s->random, 3) == 0 ? 1 + neap_random_below(&s->random, 3) : FOCUS_ALL;
    s->sending = s->link && neap_random_below(&s->random, 4) > 0;
    s->send_price = 1.5 * neap_random_real(&s->random);
    if (neap_random_below(&s->random, 2) == 0)
        s->send_price *= s->send_price / 2;
    s->moving = !s->in_order && s->iterations - s->improved > PATIENCE &&
                neap_random_below(&s->random, 2) == 0;
    s->move_cost = 0.2 * neap_random_real(&s->random) * (double)s->current_ticks / s->q.length;
    ruin(s);
    bool fits = neap_search_repair(s);
    neap_status status = NEAP_OK;
    if (fits) {
        /* If the compute stream waits for copies, a run that seems useless may let others leave
           later. */
        if (s->q.n_away == 0 || neap_random_real(&s->random) * all >= waiting)
            neap_search_prune(s);
        fits = s->q.ticks <= accepted;
    }
    if (fits)
        status = settle(s, diag);
    if (!fits || s->trial.ticks > accepted || s->q.out_of_memory || status != NEAP_OK) {
        neap_sequence_undo(&s->q, 0);
        return status;
    }
    neap_sequence_commit(&s->q);
    if (s->trial.ticks < s->local_ticks) {
        s->local_ticks = s->trial.ticks;
        s->renewed = s->iterations;
    }
    if (s->trial.ticks < s->best.ticks)
        s->improved =
            s->iterations - (s->moving ? PATIENCE : 0); /* moves help: continue with them */
    s->current_ticks = s->trial.ticks;
    return NEAP_OK;
}

/* Restarts in the graph's order or, more often, in a random one. */
static neap_status restart(search *s, neap_diag *diag)
{
    bool natural = s->in_order || neap_random_below(&s->random, 3) == 0;
    NEAP_TRY(natural ? neap_sequence_load_natural(&s->q, diag) : neap_search_load_random(s, diag));
    s->n_restarts++;
    s->improved = s->renewed = s->iterations;
    s->local_ticks = INT64_MAX;
    return neap_search_construct(s, diag);
}

/* Whether it is time to restart. */
static bool is_stuck(const search *s)
{
    return s->restarts && s->iterations - s->renewed > 20 + 10 * (uint64_t)s->x->n_tasks;
}

neap_status neap_search_iterate(search *s, uint32_t iterations, neap_diag *diag)
{
    for (uint64_t i = 0; i < iterations && !s->stop(s->stop_context); i++) {
        if (s->until_fits && neap_sequence_most(&s->q) <= s->budget)
            return neap_search_keep(s, diag);
        s->iterations++;
        if (is_stuck(s) || neap_sequence_most(&s->q) > s->budget) {
            uint64_t attempts = s->attempts;
            NEAP_TRY(is_stuck(s) ? restart(s, diag) : neap_search_construct(s, diag));
            if (neap_sequence_most(&s->q) > s->budget) { /* failed attempts count as iterations */
                i += ATTEMPT_COST * (s->attempts - attempts);
                s->iterations += ATTEMPT_COST * (s->attempts - attempts);
            }
            continue;
        }
        NEAP_TRY(iterate(s, diag));
        if (s->q.out_of_memory)
            return neap_fail_no_memory(diag);
        NEAP_TRY(neap_search_keep(s, diag));
    }
    return NEAP_OK;
}
