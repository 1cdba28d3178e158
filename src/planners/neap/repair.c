/* Repair: drops tensors out of overfull places until all fits. */
#include "base/memory.h"
#include "base/random.h"
#include "planners/neap/search.h"
#include <math.h>

enum { MOST_BROUGHT = 24 }; /* runs that one drop may bring along */

#define TOO_DEAR 1e300

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
                         &s->all_capacity, &diag) != NEAP_OK)
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

/* All of them, or some spread over all with the worst among them. */
static void choose_samples(search *s)
{
    uint32_t n = s->n_overfull, worst = 0, taken = 0;
    s->n_samples = n < MOST_SAMPLES ? n : MOST_SAMPLES;
    for (uint32_t i = 1; i < n; i++)
        if (s->all[i].bytes > s->all[worst].bytes)
            worst = i;
    if (s->focus) { s->n_samples = 1; s->samples[0] = s->all[s->focus==1?worst:s->focus==2?0:n-1]; return; }
    for (uint32_t k = 0; k < s->n_samples; k++) {
        uint32_t from = (uint32_t)((uint64_t)k * n / s->n_samples);
        uint32_t to = (uint32_t)((uint64_t)(k + 1) * n / s->n_samples);
        bool here = worst >= from && worst < to;
        s->samples[taken++] = s->all[here ? worst : from + (to - from) / 2];
    }
}

/* ---- What a drop costs ---- */

/* Whether a tensor lies in memory just before an item. *at: the first of its refs from there on. */
static bool is_there(const search *s, uint32_t tensor, uint32_t place, uint32_t *at)
{
    const ref_list *list = &s->q.refs[tensor];
    *at = sequence_find_ref(&s->q, tensor, place);
    return *at < list->n && !list->refs[*at].makes && !list->refs[*at].away;
}

/* Whether it can be held from its last touch to an item. */
static bool can_extend(const search *s, uint32_t tensor, uint32_t at, uint32_t before)
{
    return sequence_fits_between(&s->q, s->q.refs[tensor].refs[at - 1].item, before,
                                 s->budget - s->x->bytes[tensor]);
}

/*
 * Ticks of making a tensor again before an item, with all that is not there and cannot be held.
 * *left counts down the runs that it may take; past them it is too dear.
 */
static double cost_of_making(const search *s, uint32_t tensor, uint32_t before, uint32_t place,
                             uint32_t *left)
{
    const problem *x = s->x;
    uint32_t task = x->producer[tensor], at;
    double ticks = (double)x->variants[x->variant_start[task] + s->q.choice[task]].ticks;
    --*left;
    for (uint32_t i = x->reads.start[task]; i < x->reads.start[task + 1]; i++) {
        uint32_t read = x->reads.items[i];
        if (x->bytes[read] == 0 || is_there(s, read, place, &at) || can_extend(s, read, at, before))
            continue;
        if (*left == 0 || !tensor_can_recompute(x, read))
            return TOO_DEAR;
        ticks += cost_of_making(s, read, before, place, left);
    }
    return ticks;
}

/* Makes a tensor before an item. */
static void make(search *s, uint32_t tensor, uint32_t before, uint32_t *left)
{
    const problem *x = s->x;
    uint32_t task = x->producer[tensor], at;
    --*left;
    for (uint32_t i = x->reads.start[task]; i < x->reads.start[task + 1]; i++) {
        uint32_t read = x->reads.items[i];
        if (x->bytes[read] == 0 || *left == 0 || !tensor_can_recompute(x, read) ||
            is_there(s, read, sequence_place(&s->q, before), &at) ||
            can_extend(s, read, at, before))
            continue;
        make(s, read, before, left);
    }
    sequence_insert(&s->q, task, before);
}

/* ---- Which drop ---- */

static double noisy(search *s, double score, uint32_t tensor)
{
    uint64_t state = s->moods ^ (tensor * UINT64_C(0x9e3779b97f4a7c15));
    if (!s->persistent) state = s->random;
    double sum = -6; for (int k=0;k<12;k++) sum += neap_random_real(&state);
    if (!s->persistent) s->random = state;
    return score * exp(s->noise * sum);
}

/* Overflow that emptying the gap between two places removes. */
static double relief(const search *s, int64_t bytes, uint32_t from, uint32_t to)
{
    double sum = 0;
    for (uint32_t i = 0; i < s->n_samples; i++)
        if (s->samples[i].place > from && s->samples[i].place < to)
            sum += (double)(bytes < s->samples[i].bytes ? bytes : s->samples[i].bytes);
    return sum;
}

/* Overflow that the run before a use has itself. */
static double overflow_of_run(const search *s, uint32_t tensor, uint32_t use)
{
    const sequence *q = &s->q;
    uint32_t task = s->x->producer[tensor];
    int64_t bytes = sequence_bytes(q, use) - sequence_own_bytes(q, use) - s->x->bytes[tensor] +
                    s->x->made_bytes[task] +
                    s->x->variants[s->x->variant_start[task] + q->choice[task]].workspace;
    return bytes > s->budget ? (double)(bytes - s->budget) : 0;
}

static bool add_drop(search *s, drop d)
{
    neap_diag diag;
    if (NEAP_RESERVE(s->allocator, (size_t)s->n_drops + 1, &s->drops, &s->drop_capacity, &diag) !=
        NEAP_OK)
        return false;
    s->drops[s->n_drops++] = d;
    return true;
}

/* The gaps of a tensor that some sample lies in. */
static bool consider(search *s, uint32_t tensor)
{
    const sequence *q = &s->q;
    const ref_list *list = &q->refs[tensor];
    uint32_t first = s->samples[0].place, last = s->samples[s->n_samples - 1].place;
    uint32_t j = sequence_find_ref(q, tensor, first);
    for (j = j > 0 ? j : 1; j < list->n; j++) {
        uint32_t from = sequence_place(q, list->refs[j - 1].item);
        if (from >= last)
            break;
        if (list->refs[j].makes || list->refs[j].away)
            continue;
        uint32_t use = list->refs[j].item, to = sequence_place(q, use);
        double gain = relief(s, s->x->bytes[tensor], from, to);
        if (gain <= 0)
            continue;
        uint32_t task = s->x->producer[tensor];
        double ticks = (double)s->x->variants[s->x->variant_start[task] + q->choice[task]].ticks;
        gain = noisy(s, gain, tensor);
        if (!add_drop(s, (drop){tensor, use, gain, gain / (ticks + 1), false}))
            return false;
    }
    return true;
}

/* The score of a drop, until now an estimate from above. */
static void rate(const search *s, drop *d)
{
    uint32_t left = MOST_BROUGHT;
    double bad = overflow_of_run(s, d->tensor, d->use);
    double cost =
        cost_of_making(s, d->tensor, d->use, sequence_place(&s->q, d->use), &left);
    double gain = d->gain > 2 * bad ? d->gain - bad : d->gain / (2 + bad / d->gain);
    d->score = gain / (cost + 1);
    d->rated = true;
}

/* Few need to be rated: those whose estimates are above the best score. */
static drop *best_drop(search *s)
{
    drop *best;
    do {
        best = NULL;
        for (uint32_t i = 0; i < s->n_drops; i++)
            if (!best || s->drops[i].score > best->score)
                best = &s->drops[i];
        if (!best || best->rated)
            return best;
        rate(s, best);
    } while (true);
}

bool search_repair(search *s)
{
    uint32_t steps = 0, most_steps = 100 + 8 * s->x->n_tasks;
    while (sequence_most(&s->q) > s->budget) {
        if (++steps > most_steps || s->q.ticks > s->most_ticks || !collect(s))
            return false;
        choose_samples(s);
        s->n_drops = 0;
        for (uint32_t i = 0; i < s->n_droppable; i++)
            if (!consider(s, s->droppable[i]))
                return false;
        const drop *best = best_drop(s);
        if (!best)
            return false;
        uint32_t left = MOST_BROUGHT;
        make(s, best->tensor, best->use, &left);
        if (s->q.out_of_memory)
            return false;
    }
    return true;
}
