/* Repair: drops tensors out of overfull places until all fits. */
#include "base/memory.h"
#include "base/random.h"
#include "planners/neap/search.h"

#include <math.h>

enum {
    MOST_CONSIDERED = 2500, /* tensors that are looked at before one is dropped */
    MOST_BROUGHT = 24,      /* runs that one drop may bring along */
    MOST_TRIED = 24,        /* drops that are tried before one is taken */
    MOST_SETBACKS = 8       /* times that the best one makes it worse */
};

/* ---- What is overfull ---- */

static bool collect(search *s)
{
    const sequence *q = &s->q;
    neap_diag diag;
    s->n_overfull = 0;
    for (uint32_t r = 0; r < q->n_blocks; r++) {
        if (q->most[r] <= s->budget)
            continue;
        if (NEAP_RESERVE(s->allocator, (size_t)s->n_overfull + SEQUENCE_BLOCK, &s->all,
                         &s->all_capacity, &diag) != NEAP_OK) {
            s->q.out_of_memory = true;
            return false;
        }
        const item_block *block = &q->blocks[q->block_at[r]];
        for (uint32_t i = 0; i < block->n; i++) {
            int64_t over = block->bytes[i] + q->addition[r] - s->budget;
            if (over > 0)
                s->all[s->n_overfull++] = (overfull){block->items[i], r * SEQUENCE_BLOCK + i, over};
        }
    }
    return true;
}

/* All of them, or some spread over all with the worst among them. */
static void choose_samples(search *s)
{
    uint32_t n = s->n_overfull, worst = 0, taken = 0;
    s->n_samples = n < MOST_SAMPLES ? n : MOST_SAMPLES;
    for (uint32_t i = 1; i < n; i++)
        if (s->all[i].bytes > s->all[worst].bytes)
            worst = i;
    if (s->focus != FOCUS_ALL) {
        uint32_t one = s->focus == FOCUS_WORST ? worst : s->focus == FOCUS_FIRST ? 0 : n - 1;
        s->n_samples = 1;
        s->samples[0] = s->all[one];
        return;
    }
    for (uint32_t k = 0; k < s->n_samples; k++) {
        uint32_t from = (uint32_t)((uint64_t)k * n / s->n_samples);
        uint32_t to = (uint32_t)((uint64_t)(k + 1) * n / s->n_samples);
        bool here = worst >= from && worst < to;
        s->samples[taken++] = s->all[here ? worst : from + (to - from) / 2];
    }
}

/* ---- Making a tensor again ---- */

/* Whether a run holds a tensor alone since its last touch, and that does not fit. */
static bool is_better_made(const search *s, uint32_t tensor, uint32_t id)
{
    const ref_list *list = &s->q.refs[tensor];
    uint32_t at = neap_sequence_find_ref(&s->q, tensor, sequence_place(&s->q, id));
    return !ref_is_held(list, at + 1) && s->x->bytes[tensor] > 0 &&
           tensor_can_recompute(s->x, tensor) &&
           !neap_sequence_fits_between(&s->q, list->refs[at - 1].item, id, s->budget);
}

/*
 * The item before which a task runs again, where the graph's order is kept: between the first runs
 * around *before, in its place among the tasks that run again there. False if it runs there
 * already.
 */
static bool find_place_in_order(const sequence *q, uint32_t task, uint32_t *before)
{
    if (*before == q->end)
        *before = neap_sequence_previous(q, q->end);
    if (q->items[*before].task <= task)
        return false;
    for (uint32_t id = neap_sequence_previous(q, *before);
         id != NEAP_NONE && !sequence_is_first_run(q, id) && q->items[id].task >= task;
         id = neap_sequence_previous(q, id)) {
        if (q->items[id].task == task)
            return false;
        *before = id;
    }
    return true;
}

/* Runs a task before an item, and before it what would else be held for it in vain. */
static void make(search *s, uint32_t task, uint32_t before, uint32_t *left)
{
    const problem *x = s->x;
    if (s->in_order && !find_place_in_order(&s->q, task, &before))
        return;
    uint32_t id = neap_sequence_insert(&s->q, task, before);
    --*left;
    for (uint32_t i = x->reads.start[task]; i < x->reads.start[task + 1]; i++)
        if (*left > 0 && !s->q.out_of_memory && is_better_made(s, x->reads.items[i], id))
            make(s, x->producer[x->reads.items[i]], id, left);
}

/* ---- Which drop ---- */

/* The factor of a tensor's scores: one for all of an iteration, or a new one each time. */
static double noise_of(search *s, uint32_t tensor)
{
    uint64_t state = s->noise_seed ^ (tensor * UINT64_C(0x9e3779b97f4a7c15));
    double number = neap_random_real(s->fresh_noise ? &s->random : &state);
    return s->noise > 0 ? exp(s->noise * (2 * number - 1)) : 1;
}

/* Overflow that emptying the gap between two places removes. */
static double relief(const search *s, int64_t bytes, uint32_t from, uint32_t to)
{
    double sum = 0;
    for (uint32_t i = 0; i < s->n_samples; i++)
        if (s->samples[i].place > from && s->samples[i].place < to)
            sum += (double)(bytes < s->samples[i].bytes ? bytes : s->samples[i].bytes);
    return sum * s->n_overfull / s->n_samples;
}

static bool add_drop(search *s, drop d)
{
    neap_diag diag;
    if (NEAP_RESERVE(s->allocator, (size_t)s->n_drops + 1, &s->drops, &s->drop_capacity, &diag) !=
        NEAP_OK) {
        s->q.out_of_memory = true;
        return false;
    }
    s->drops[s->n_drops++] = d;
    return true;
}

/* A gap empties, too, when its last use comes before the overfull item, or its making behind. */
static bool consider_moves(search *s, uint32_t tensor, uint32_t at, double gain, double noise)
{
    const ref_list *list = &s->q.refs[tensor];
    const ref *from = &list->refs[at - 1], *to = &list->refs[at];
    bool ends = !ref_is_held(list, at + 1);
    drop d = {.tensor = tensor, .noise = noise, .score = gain / (1 + s->move_cost)};
    uint32_t sample = 0;
    while (s->samples[sample].place <= sequence_place(&s->q, from->item))
        sample++;
    d.kind = DROP_MOVE;
    d.moved = to->item;
    d.use = s->samples[sample].item;
    if (ends && neap_search_can_move(s, d.moved, d.use) && !add_drop(s, d))
        return false;
    d.moved = from->item;
    d.use = to->item;
    return !from->makes || !neap_search_can_move(s, d.moved, d.use) || add_drop(s, d);
}

/* Ticks of copying a tensor out and in again, at the price of the iteration. */
static double cost_of_sending(const search *s, uint32_t tensor)
{
    const ref_list *list = &s->q.refs[tensor];
    bool copied = false;
    for (uint32_t i = 1; i < list->n && s->q.n_away > 0; i++)
        copied = copied || list->refs[i].away;
    double out = (double)neap_link_ticks(s->link, s->x->graph, true, s->x->bytes[tensor]);
    double in = (double)neap_link_ticks(s->link, s->x->graph, false, s->x->bytes[tensor]);
    return s->send_price * (in + (copied ? 0 : out));
}

static bool consider_sending(search *s, uint32_t tensor, uint32_t use, double gain, double noise)
{
    if (!tensor_can_offload(s->x, tensor))
        return true;
    double cost = cost_of_sending(s, tensor);
    return add_drop(s, (drop){.kind = DROP_AWAY,
                              .tensor = tensor,
                              .use = use,
                              .noise = noise,
                              .score = gain / (cost + 1)});
}

/* A leaner variant of a task that runs where too much is in use. */
static bool consider_variant(search *s, const overfull *sample)
{
    const problem *x = s->x;
    uint32_t task = s->q.items[sample->item].task;
    if (task == NEAP_NONE)
        return true;
    uint32_t now = x->variant_start[task] + s->q.choice[task];
    if (now + 1 >= x->variant_start[task + 1])
        return true;
    double saved = (double)(x->variants[now].workspace - x->variants[now + 1].workspace);
    double ticks = (double)(x->variants[now + 1].ticks - x->variants[now].ticks) * s->q.runs[task];
    double gain = saved < (double)sample->bytes ? saved : (double)sample->bytes;
    double noise = noise_of(s, x->n_tensors + task);
    return add_drop(s, (drop){.kind = DROP_LEAN,
                              .moved = task,
                              .noise = noise,
                              .score = gain * noise / (ticks + 1)});
}

/* The gaps of a tensor that some sample lies in. */
static bool consider(search *s, uint32_t tensor)
{
    const sequence *q = &s->q;
    const ref_list *list = &q->refs[tensor];
    uint32_t first = s->samples[0].place, last = s->samples[s->n_samples - 1].place;
    if (list->n < 2 || sequence_place(q, list->refs[0].item) >= last ||
        sequence_place(q, list->refs[list->n - 1].item) <= first)
        return true;
    uint32_t j = neap_sequence_find_ref(q, tensor, first);
    for (j = j > 0 ? j : 1; j < list->n; j++) {
        uint32_t from = sequence_place(q, list->refs[j - 1].item);
        if (from >= last)
            break;
        if (!ref_is_held(list, j))
            continue;
        uint32_t use = list->refs[j].item, to = sequence_place(q, use);
        double gain = relief(s, s->x->bytes[tensor], from, to);
        if (gain <= 0)
            continue;
        uint32_t task = s->x->producer[tensor];
        double ticks = (double)sequence_ticks(q, task);
        double noise = noise_of(s, tensor);
        if (s->sending && !consider_sending(s, tensor, use, gain * noise, noise))
            return false;
        if (tensor_can_recompute(s->x, tensor) &&
            !add_drop(s, (drop){.kind = DROP_REMAKE,
                                .tensor = tensor,
                                .use = use,
                                .noise = noise,
                                .score = noise * gain / (ticks + 1)}))
            return false;
        if (s->moving && !consider_moves(s, tensor, j, gain * noise, noise))
            return false;
    }
    return true;
}

/* All large tensors or, where there are very many, some spread over them. The small ones where
   nothing else helps. */
static bool consider_tensors(search *s)
{
    uint32_t step = 1 + s->n_large / MOST_CONSIDERED;
    uint32_t first = step > 1 ? neap_random_below(&s->random, step) : 0;
    for (uint32_t i = first; i < s->n_large; i += step)
        if (!consider(s, s->droppable[i]))
            return false;
    for (uint32_t i = 0; i < s->n_droppable && s->n_drops == 0; i++)
        if (!consider(s, s->droppable[i]))
            return false;
    return true;
}

/* ---- Trying ---- */

/* All bytes too many, over all items. */
static double overflow(const search *s)
{
    const sequence *q = &s->q;
    double sum = 0;
    for (uint32_t r = 0; r < q->n_blocks; r++) {
        if (q->most[r] <= s->budget)
            continue;
        const item_block *block = &q->blocks[q->block_at[r]];
        int64_t room = s->budget - q->addition[r];
        for (uint32_t i = 0; i < block->n; i++)
            if (block->bytes[i] > room)
                sum += (double)(block->bytes[i] - room);
    }
    return sum;
}

static void apply(search *s, const drop *d)
{
    uint32_t left = MOST_BROUGHT;
    switch (d->kind) {
    case DROP_REMAKE:
        make(s, s->x->producer[d->tensor], d->use, &left);
        break;
    case DROP_AWAY:
        neap_sequence_set_away(&s->q, d->tensor, d->use, true);
        break;
    case DROP_MOVE:
        neap_search_move(s, d->moved, d->use);
        break;
    case DROP_LEAN:
        neap_sequence_set_variant(&s->q, d->moved, s->q.choice[d->moved] + 1);
        break;
    }
}

/* What it costs beside the ticks of the compute stream. */
static double extra_cost(const search *s, const drop *d)
{
    return d->kind == DROP_MOVE   ? s->move_cost
           : d->kind == DROP_AWAY ? cost_of_sending(s, d->tensor)
                                  : 0;
}

/* Scores a drop by trying it. */
static void rate(search *s, drop *d, double before)
{
    size_t mark = s->q.n_changes;
    int64_t ticks = s->q.ticks;
    double extra = extra_cost(s, d);
    apply(s, d);
    double gain = before - overflow(s);
    double cost = (double)(s->q.ticks - ticks) + 1 + extra;
    d->score = (gain > 0 ? gain / cost : gain * cost - 1) * d->noise;
    if (s->q.ticks > s->most_ticks)
        d->score = -1e300;
    neap_sequence_undo(&s->q, mark);
}

/*
 * Few need to be tried: those whose estimates, which leave out what else has to be made, are above
 * the best score.
 */
static const drop *best_drop(search *s)
{
    double before = overflow(s);
    for (uint32_t tried = 0;; tried++) {
        drop *best = NULL;
        for (uint32_t i = 0; i < s->n_drops; i++)
            if ((!best || s->drops[i].score > best->score) &&
                (tried < MOST_TRIED || s->drops[i].tried))
                best = &s->drops[i];
        if (!best || best->tried || s->q.out_of_memory)
            return best;
        rate(s, best, before);
        best->tried = true;
    }
}

/* Now and then, above all in small graphs, something that does not look good is tried: what
   follows may make up for it. */
static bool is_whim(search *s)
{
    double chance = 1.0 / (10 + s->x->n_tasks);
    return s->noise > 0 && neap_random_real(&s->random) < chance;
}

static const drop *any_drop(search *s)
{
    if (s->n_drops == 0)
        return NULL;
    drop *d = &s->drops[neap_random_below(&s->random, s->n_drops)];
    d->score = 0;
    return d;
}

bool neap_search_repair(search *s)
{
    uint32_t steps = 0, most_steps = 100 + 4 * s->x->n_tasks, setbacks = 0;
    while (neap_sequence_most(&s->q) > s->budget) {
        if (++steps > most_steps || s->q.ticks > s->most_ticks || s->stop(s->stop_context) ||
            !collect(s))
            return false;
        choose_samples(s);
        s->n_drops = 0;
        if (!consider_tensors(s))
            return false;
        for (uint32_t i = 0; i < s->n_samples; i++)
            if (!consider_variant(s, &s->samples[i]))
                return false;
        const drop *best = is_whim(s) ? any_drop(s) : best_drop(s);
        if (!best || best->score <= -1e299 || (best->score <= 0 && ++setbacks > MOST_SETBACKS))
            return false;
        apply(s, best);
        if (s->q.out_of_memory)
            return false;
    }
    return true;
}
