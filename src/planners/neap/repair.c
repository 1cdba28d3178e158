/* Repair: drops tensors that overfull items do not need until everything fits. */
#include "base/random.h"
#include "planners/neap/search.h"

#include <math.h>

enum {
    MOST_CONSIDERED = 2500, /* tensors that are considered for one drop */
    MOST_BROUGHT = 24,      /* runs that one drop may add */
    MOST_TRIED = 24,        /* drops that are tried before one is chosen */
    MOST_SETBACKS = 8       /* drops without a gain */
};

/* ---- Overfull items ---- */

static bool collect(search *s)
{
    sequence *q = &s->q;
    s->n_overfull = 0;
    for (uint32_t r = 0; r < q->n_blocks; r++) {
        if (q->most[r] <= s->budget)
            continue;
        if (!sequence_reserve(q, (size_t)s->n_overfull + SEQUENCE_BLOCK, &s->all, &s->all_capacity))
            return false;
        const item_block *block = &q->blocks[q->block_at[r]];
        for (uint32_t i = 0; i < block->n; i++) {
            int64_t over = block->bytes[i] + q->addition[r] - s->budget;
            if (over > 0)
                s->all[s->n_overfull++] = (overfull){block->items[i], r * SEQUENCE_BLOCK + i, over};
        }
    }
    return true;
}

/* All overfull items, or evenly spread samples that include the worst; or only the focus. */
static void choose_samples(search *s)
{
    uint32_t n = s->n_overfull, worst = 0;
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
        s->samples[k] = s->all[here ? worst : from + (to - from) / 2];
    }
}

/* ---- Recomputing a tensor ---- */

/* Whether a tensor is held only for one run since its last touch, and that does not fit. The last
   touch may need to write over it. */
static bool is_better_made(const search *s, uint32_t tensor, uint32_t id)
{
    const ref_list *list = &s->q.refs[tensor];
    uint32_t at = neap_sequence_find_ref(&s->q, tensor, sequence_place(&s->q, id));
    if (ref_is_held(list, at + 1) || s->x->bytes[tensor] == 0 ||
        !tensor_can_recompute(s->x, tensor))
        return false;
    uint32_t last = list->refs[at - 1].item;
    return !neap_sequence_fits_between(&s->q, last, id, s->budget) ||
           (ref_may_pass_on(&s->q, tensor, at - 1) && sequence_bytes(&s->q, last) > s->budget);
}

/*
 * The item before which a task runs again if the graph's order is kept: between the first runs
 * around *before, in order among the recomputations there. False if it runs there already.
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

/* Runs a task before an item, and before it what would not fit if it were held for it. */
static void make(search *s, uint32_t task, uint32_t before, uint32_t *left)
{
    const problem *x = s->x;
    if (s->in_order && !find_place_in_order(&s->q, task, &before))
        return;
    uint32_t id = neap_search_insert(s, task, before);
    if (id == NEAP_NONE)
        return;
    --*left;
    for (uint32_t i = x->reads.start[task]; i < x->reads.start[task + 1]; i++)
        if (*left > 0 && !s->q.out_of_memory && is_better_made(s, x->reads.items[i], id))
            make(s, x->producer[x->reads.items[i]], id, left);
}

/* ---- Candidates ---- */

/* A random factor for a tensor's scores: fixed for an iteration, or fresh each time. */
static double noise_of(search *s, uint32_t tensor)
{
    uint64_t state = s->noise_seed ^ (tensor * UINT64_C(0x9e3779b97f4a7c15));
    double number = neap_random_real(s->fresh_noise ? &s->random : &state);
    return s->noise > 0 ? exp(s->noise * (2 * number - 1)) : 1;
}

/* Estimate of the overflow that is removed if the tensor is not held at the places from .. to - 1.
 */
static double relief(const search *s, int64_t bytes, uint32_t from, uint32_t to)
{
    double sum = 0;
    for (uint32_t i = 0; i < s->n_samples; i++)
        if (s->samples[i].place >= from && s->samples[i].place < to)
            sum += (double)(bytes < s->samples[i].bytes ? bytes : s->samples[i].bytes);
    return sum * s->n_overfull / s->n_samples;
}

/* The score is an estimate until the drop is tried; `ticks` are those of the compute stream. */
static void add_drop(search *s, drop d, double gain, double ticks)
{
    d.score = gain * d.noise / (ticks + d.extra + 1);
    if (sequence_reserve(&s->q, (size_t)s->n_drops + 1, &s->drops, &s->drop_capacity))
        s->drops[s->n_drops++] = d;
}

/* A gap, whose places begin with `first`, also empties if its last use moves before the overfull
   item, or the run that makes the tensor moves after it. */
static void consider_moves(search *s, drop d, uint32_t at, uint32_t first, double gain)
{
    const ref_list *list = &s->q.refs[d.tensor];
    const ref *from = &list->refs[at - 1], *to = &list->refs[at];
    uint32_t sample = 0;
    while (s->samples[sample].place < first)
        sample++;
    d.kind = DROP_MOVE;
    d.extra = s->move_cost;
    d.moved = to->item;
    d.use = s->samples[sample].item;
    if (!ref_is_held(list, at + 1) && neap_search_can_move(s, d.moved, d.use))
        add_drop(s, d, gain, 0);
    d.moved = from->item;
    d.use = to->item;
    if (from->makes && from->item != s->q.start && neap_search_can_move(s, d.moved, d.use))
        add_drop(s, d, gain, 0);
}

/* Ticks of copying a tensor to the host and back, at the price of the iteration. */
static double cost_of_sending(const search *s, uint32_t tensor)
{
    const ref_list *list = &s->q.refs[tensor];
    bool copied = sequence_is_on_host(&s->q, tensor);
    for (uint32_t i = 1; i < list->n && s->q.n_away > 0; i++)
        copied = copied || list->refs[i].away;
    double out = (double)neap_link_ticks(s->link, s->x->graph, true, s->x->bytes[tensor]);
    double in = (double)neap_link_ticks(s->link, s->x->graph, false, s->x->bytes[tensor]);
    return s->send_price * (in + (copied ? 0 : out));
}

/* The next leaner variant of a task that runs at an overfull item. */
static void consider_variant(search *s, const overfull *sample)
{
    const problem *x = s->x;
    uint32_t task = s->q.items[sample->item].task;
    if (task == NEAP_NONE)
        return;
    const task_variant *now = &x->variants[x->variant_start[task] + s->q.choice[task]];
    if (now + 1 >= &x->variants[x->variant_start[task + 1]])
        return;
    double saved = (double)(now[0].workspace - now[1].workspace), most = (double)sample->bytes;
    double ticks = (double)(now[1].ticks - now[0].ticks) * s->q.runs[task];
    double noise = noise_of(s, x->n_tensors + task);
    add_drop(s, (drop){.kind = DROP_LEAN, .moved = task, .noise = noise},
             saved < most ? saved : most, ticks);
}

/* State may leave altogether. If it is not updated, nothing has to go back. */
static void consider_host(search *s, uint32_t state)
{
    const sequence *q = &s->q;
    const ref_list *list = &q->refs[state];
    int64_t bytes = s->x->bytes[state];
    uint32_t end = sequence_place(q, q->end);
    if (!s->sending || sequence_is_on_host(q, state))
        return;
    double gain = relief(s, bytes, 0, sequence_place(q, list->refs[1].item)) +
                  relief(s, bytes, sequence_place(q, list->refs[list->n - 2].item) + 1, end + 1);
    bool updated = s->x->state_update[state - s->x->n_tensors] != NEAP_NONE;
    double in = (double)neap_link_ticks(s->link, s->x->graph, false, bytes);
    double out = (double)neap_link_ticks(s->link, s->x->graph, true, bytes);
    drop d = {.kind = DROP_HOST, .tensor = state, .noise = noise_of(s, state)};
    d.extra = s->send_price * (list->n > 2 ? in + (updated ? out : 0) : 0);
    if (gain > 0)
        add_drop(s, d, gain, 0);
}

/* The gaps of a tensor that contain a sample. The run before a gap is one of its places if it may
   write over the tensor once that is not held any more. */
static void consider(search *s, uint32_t tensor)
{
    const sequence *q = &s->q;
    const ref_list *list = &q->refs[tensor];
    if (is_state(s->x, tensor))
        consider_host(s, tensor);
    uint32_t first = s->samples[0].place, last = s->samples[s->n_samples - 1].place;
    if (list->n < 2 || sequence_place(q, list->refs[0].item) >= last ||
        sequence_place(q, list->refs[list->n - 1].item) <= first)
        return;
    bool may_pass_on = s->x->may_pass_on[tensor];
    uint32_t j = neap_sequence_find_ref(q, tensor, first);
    for (j = j > 0 ? j : 1; j < list->n; j++) {
        uint32_t after = sequence_place(q, list->refs[j - 1].item) + 1;
        uint32_t from = after - (may_pass_on && ref_may_pass_on(q, tensor, j - 1));
        if (from > last)
            break;
        const ref *next = &list->refs[j];
        if (next->makes || next->over || (next->away && from == after))
            continue;
        uint32_t use = next->item, to = next->away ? after : sequence_place(q, use);
        double gain = relief(s, s->x->bytes[tensor], from, to);
        if (gain <= 0)
            continue;
        drop d = {.tensor = tensor, .use = use, .noise = noise_of(s, tensor)};
        if (s->sending && tensor_can_offload(s->x, tensor)) {
            double away = from < after ? relief(s, s->x->bytes[tensor], after, to) : gain;
            d.extra = next->away ? 0 : cost_of_sending(s, tensor);
            d.kind = DROP_AWAY;
            if (away > 0)
                add_drop(s, d, away, 0);
            d.kind = DROP_OVER;
            if (gain > away)
                add_drop(s, d, gain, 0);
        }
        d.kind = DROP_REMAKE;
        d.extra = 0;
        if (!is_state(s->x, tensor) && tensor_can_recompute(s->x, tensor))
            add_drop(s, d, gain, (double)sequence_ticks(q, s->x->producer[tensor]));
        if (s->moving)
            consider_moves(s, d, j, from, gain);
    }
}

/* All large tensors or, if there are very many, some spread over them; the small ones if there is
   no other candidate. */
static void consider_tensors(search *s)
{
    uint32_t step = 1 + s->n_large / MOST_CONSIDERED;
    uint32_t first = step > 1 ? neap_random_below(&s->random, step) : 0;
    for (uint32_t i = first; i < s->n_large; i += step)
        consider(s, s->droppable[i]);
    for (uint32_t i = 0; i < s->n_droppable && s->n_drops == 0; i++)
        consider(s, s->droppable[i]);
}

/* ---- Trying ---- */

/* Bytes above the budget, summed over all items. */
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

static void send_over(search *s, const drop *d)
{
    uint32_t at = neap_sequence_find_ref(&s->q, d->tensor, sequence_place(&s->q, d->use));
    if (!s->q.refs[d->tensor].refs[at].away)
        neap_sequence_set_away(&s->q, d->tensor, d->use, true);
    neap_sequence_set_over(&s->q, d->tensor, d->use, true);
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
    case DROP_HOST:
        neap_sequence_set_host(&s->q, d->tensor, true);
        break;
    case DROP_OVER:
        send_over(s, d);
        break;
    case DROP_MOVE:
        neap_search_move(s, d->moved, d->use);
        break;
    case DROP_LEAN:
        neap_sequence_set_variant(&s->q, d->moved, s->q.choice[d->moved] + 1);
        break;
    }
}

/* Scores a drop by trying it. */
static void rate(search *s, drop *d, double before)
{
    size_t mark = s->q.n_changes;
    int64_t ticks = s->q.ticks;
    apply(s, d);
    double gain = before - overflow(s);
    double cost = (double)(s->q.ticks - ticks) + 1 + d->extra;
    d->score = (gain > 0 ? gain / cost : gain * cost - 1) * d->noise;
    if (s->q.ticks > s->most_ticks)
        d->score = -1e300;
    neap_sequence_undo(&s->q, mark);
}

/* The estimates are too high, since they leave out other recomputations: only drops whose estimate
   is above the best score are tried. */
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

/* The best drop or, occasionally and most often in small graphs, any: later drops may make up for
   it. */
static const drop *choose_drop(search *s)
{
    double chance = 1.0 / (10 + s->x->n_tasks);
    if (s->noise <= 0 || neap_random_real(&s->random) >= chance)
        return best_drop(s);
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
        consider_tensors(s);
        for (uint32_t i = 0; i < s->n_samples; i++)
            consider_variant(s, &s->samples[i]);
        const drop *best = choose_drop(s);
        if (!best || best->score <= -1e299 || (best->score <= 0 && ++setbacks > MOST_SETBACKS))
            return false;
        apply(s, best);
        if (s->q.out_of_memory)
            return false;
    }
    return true;
}
