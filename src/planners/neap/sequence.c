#include "planners/neap/sequence.h"

#include "base/fail.h"

#include <string.h>

/* ---- Blocks ---- */

static void take_most(sequence *q, uint32_t rank)
{
    const item_block *block = &q->blocks[q->block_at[rank]];
    int64_t most = INT64_MIN / 2;
    for (uint32_t i = 0; i < block->n; i++)
        most = block->bytes[i] > most ? block->bytes[i] : most;
    q->most[rank] = most + q->addition[rank];
}

/* Reserves blocks, and one for each change that may have to be undone. */
static bool reserve_blocks(sequence *q, size_t more)
{
    size_t needed = (size_t)q->n_blocks + q->n_changes + more + 1;
    return sequence_check(q,
                          NEAP_RESERVE_COLUMNS(&q->block_columns, q->allocator, needed, NULL,
                                               NEAP_COLUMN(&q->blocks), NEAP_COLUMN(&q->rank_of),
                                               NEAP_COLUMN(&q->block_at), NEAP_COLUMN(&q->addition),
                                               NEAP_COLUMN(&q->most)));
}

/* A new block after a rank (-1: the first). Room for it has been reserved. */
static uint32_t add_block(sequence *q, int64_t rank)
{
    uint32_t at = (uint32_t)(rank + 1), number = q->n_blocks++;
    size_t after = number - at;
    memmove(&q->block_at[at + 1], &q->block_at[at], after * sizeof *q->block_at);
    memmove(&q->addition[at + 1], &q->addition[at], after * sizeof *q->addition);
    memmove(&q->most[at + 1], &q->most[at], after * sizeof *q->most);
    q->block_at[at] = number;
    q->addition[at] = rank < 0 ? 0 : q->addition[rank];
    q->blocks[number].n = 0;
    q->most[at] = INT64_MIN / 2;
    for (uint32_t r = at; r < q->n_blocks; r++)
        q->rank_of[q->block_at[r]] = r;
    return number;
}

/* Moves the upper half of a full block into a new one. */
static void split(sequence *q, uint32_t number)
{
    uint32_t rank = q->rank_of[number];
    uint32_t other = add_block(q, rank);
    item_block *from = &q->blocks[number], *to = &q->blocks[other];
    uint32_t kept = from->n / 2;
    to->n = from->n - kept;
    memcpy(to->items, from->items + kept, to->n * sizeof *to->items);
    memcpy(to->bytes, from->bytes + kept, to->n * sizeof *to->bytes);
    from->n = kept;
    for (uint32_t i = 0; i < to->n; i++) {
        q->items[to->items[i]].block = other;
        q->items[to->items[i]].index = i;
    }
    take_most(q, rank);
    take_most(q, rank + 1);
}

/* Puts an item into a block that has room. */
static void put_into_block(sequence *q, uint32_t id, uint32_t number, uint32_t index, int64_t bytes)
{
    item_block *block = &q->blocks[number];
    for (uint32_t i = block->n; i > index; i--) {
        block->items[i] = block->items[i - 1];
        block->bytes[i] = block->bytes[i - 1];
        q->items[block->items[i]].index = i;
    }
    block->n++;
    block->items[index] = id;
    block->bytes[index] = bytes - q->addition[q->rank_of[number]];
    q->items[id].block = number;
    q->items[id].index = index;
}

static void take_from_block(sequence *q, uint32_t id)
{
    uint32_t number = q->items[id].block;
    item_block *block = &q->blocks[number];
    block->n--;
    for (uint32_t i = q->items[id].index; i < block->n; i++) {
        block->items[i] = block->items[i + 1];
        block->bytes[i] = block->bytes[i + 1];
        q->items[block->items[i]].index = i;
    }
    take_most(q, q->rank_of[number]);
}

/* Adds bytes to the places from .. to, inclusive. */
static void add(sequence *q, uint32_t from, uint32_t to, int64_t bytes)
{
    if (from > to || bytes == 0)
        return;
    uint32_t first = from / SEQUENCE_BLOCK, last = to / SEQUENCE_BLOCK;
    for (uint32_t rank = first; rank <= last; rank++) {
        item_block *block = &q->blocks[q->block_at[rank]];
        uint32_t begin = rank == first ? from % SEQUENCE_BLOCK : 0;
        uint32_t end = rank == last ? to % SEQUENCE_BLOCK + 1 : block->n;
        end = end < block->n ? end : block->n;
        if (begin == 0 && end == block->n) {
            q->addition[rank] += bytes;
            q->most[rank] += bytes;
            continue;
        }
        for (uint32_t i = begin; i < end; i++)
            block->bytes[i] += bytes;
        take_most(q, rank);
    }
}

int64_t neap_sequence_most(const sequence *q)
{
    int64_t peak = 0;
    for (uint32_t r = 0; r < q->n_blocks; r++)
        peak = q->most[r] > peak ? q->most[r] : peak;
    return peak;
}

bool neap_sequence_fits_between(const sequence *q, uint32_t from, uint32_t to, int64_t most)
{
    uint32_t begin = sequence_place(q, from) + 1, end = sequence_place(q, to);
    uint32_t first = begin / SEQUENCE_BLOCK, last = end / SEQUENCE_BLOCK;
    for (uint32_t rank = first; rank <= last; rank++) {
        if (q->most[rank] <= most)
            continue;
        const item_block *block = &q->blocks[q->block_at[rank]];
        uint32_t i = rank == first ? begin % SEQUENCE_BLOCK : 0;
        uint32_t n = rank == last ? end % SEQUENCE_BLOCK : block->n;
        for (; i < n; i++)
            if (block->bytes[i] + q->addition[rank] > most)
                return false;
    }
    return true;
}

/* ---- Neighbours ---- */

uint32_t neap_sequence_at(const sequence *q, uint32_t place)
{
    uint32_t rank = place / SEQUENCE_BLOCK, index = place % SEQUENCE_BLOCK;
    for (;; rank++, index = 0) { /* reaches the end item at the latest */
        const item_block *block = &q->blocks[q->block_at[rank]];
        if (index < block->n)
            return block->items[index];
    }
}

uint32_t neap_sequence_next(const sequence *q, uint32_t id)
{
    return neap_sequence_at(q, sequence_place(q, id) + 1);
}

uint32_t neap_sequence_previous(const sequence *q, uint32_t id)
{
    const item *i = &q->items[id];
    if (i->index > 0)
        return q->blocks[i->block].items[i->index - 1];
    for (uint32_t rank = q->rank_of[i->block]; rank-- > 0;) {
        const item_block *block = &q->blocks[q->block_at[rank]];
        if (block->n > 0)
            return block->items[block->n - 1];
    }
    return NEAP_NONE;
}

uint32_t neap_sequence_last_run(const sequence *q, uint32_t task)
{
    const problem *x = q->x;
    if (x->is_update[task] || x->makes.start[task] == x->makes.start[task + 1])
        return q->only[task];
    const ref_list *list = &q->refs[x->makes.items[x->makes.start[task]]];
    for (uint32_t at = list->n; at-- > 0;)
        if (list->refs[at].makes)
            return list->refs[at].item;
    return q->end; /* it has been taken out, and there was no memory to put it back */
}

bool neap_sequence_precedes_updates(const sequence *q, uint32_t task, uint32_t before)
{
    const id_lists *by = &q->x->updated_by;
    uint32_t place = sequence_place(q, before);
    for (uint32_t i = by->start[task]; i < by->start[task + 1]; i++)
        if (sequence_place(q, q->only[by->items[i]]) < place)
            return false;
    return true;
}

/* ---- Refs ---- */

uint32_t neap_sequence_find_ref(const sequence *q, uint32_t tensor, uint32_t place)
{
    const ref_list *list = &q->refs[tensor];
    uint32_t low = 0, high = list->n;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (sequence_place(q, list->refs[middle].item) < place)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/*
 * Counts a ref that is being added (sign 1) or removed (-1) in the gaps around it; while its own
 * item runs, the item's bytes count the tensor. A use holds the tensor since the previous ref,
 * unless a later use does so anyway. A make ends the gap of the next use, or begins it if it is the
 * first.
 */
static void count_ref(sequence *q, uint32_t tensor, uint32_t at, uint32_t place, int64_t sign)
{
    const ref_list *list = &q->refs[tensor];
    const ref *r = &list->refs[at];
    bool held = ref_is_held(list, at + 1);
    int64_t bytes = sign * q->x->bytes[tensor];
    if (at > 0 && held == r->makes)
        add(q, sequence_place(q, r[-1].item) + 1, place, held ? -bytes : bytes);
    else if (at == 0 && held && r->makes)
        add(q, place + 1, sequence_place(q, r[1].item), bytes);
}

static void set_in_place(sequence *q, uint32_t id, uint32_t tensor, bool in_place)
{
    if (q->items[id].in_place == in_place)
        return;
    uint32_t place = sequence_place(q, id);
    q->items[id].in_place = in_place;
    add(q, place, place, in_place ? -q->x->bytes[tensor] : q->x->bytes[tensor]);
}

/* Which items are in place after a ref has been added (sign 1), or before it is removed (-1): its
   own, and the one before it, which then has another next ref. No ref is marked `over` here. */
static void pass_on(sequence *q, uint32_t tensor, uint32_t at, int64_t sign)
{
    const ref_list *list = &q->refs[tensor];
    const ref *r = &list->refs[at];
    bool used = at + 1 < list->n && !r[1].makes;
    if (at > 0 && ref_may_pass_on(q, tensor, at - 1))
        set_in_place(q, r[-1].item, tensor, sign > 0 ? r->makes : !used);
    if (ref_may_pass_on(q, tensor, at))
        set_in_place(q, r->item, tensor, sign > 0 && !used);
}

/* The same for a use of state. It is away, or not, both before it and behind it. */
static void count_state(sequence *q, uint32_t state, uint32_t at, uint32_t place, int64_t sign)
{
    if (!q->refs[state].refs[at].away)
        return;
    q->n_away += sign > 0 ? 1 : UINT32_MAX;
    add(q, place, place, sign * q->x->bytes[state]);
}

/* Adds (sign 1) or removes (-1) the refs of an item. Room for them has been reserved. */
static void change_refs(sequence *q, uint32_t id, int64_t sign)
{
    const id_lists *lists[3] = {&q->x->makes, &q->x->reads, &q->x->state_reads};
    uint32_t task = q->items[id].task, place = sequence_place(q, id);
    for (int k = 0; k < 3; k++)
        for (uint32_t i = lists[k]->start[task]; i < lists[k]->start[task + 1]; i++) {
            uint32_t tensor = lists[k]->items[i], at = neap_sequence_find_ref(q, tensor, place);
            ref_list *list = &q->refs[tensor];
            ref *r = &list->refs[at];
            if (sign > 0) {
                memmove(r + 1, r, (list->n++ - at) * sizeof *r);
                *r = (ref){.item = id, .makes = k == 0, .away = k == 2 && r[1].away};
            }
            if (k == 2)
                count_state(q, tensor, at, place, sign);
            else
                count_ref(q, tensor, at, place, sign);
            if (k < 2 && q->x->may_pass_on[tensor])
                pass_on(q, tensor, at, sign);
            if (sign < 0)
                memmove(r, r + 1, (--list->n - at) * sizeof *r);
        }
    q->runs[task] += sign > 0 ? 1 : UINT32_MAX;
    q->length += sign > 0 ? 1 : UINT32_MAX;
    q->ticks += sign * sequence_ticks(q, task);
}

/* ---- Items ---- */

/* Outputs and workspace of a run that is not in place. */
static int64_t own_bytes(const sequence *q, uint32_t task)
{
    if (task == NEAP_NONE)
        return 0;
    const problem *x = q->x;
    return x->made_bytes[task] + x->variants[x->variant_start[task] + q->choice[task]].workspace;
}

/* Reserves everything that an insertion needs, so that it cannot fail half way. */
static bool reserve(sequence *q, uint32_t task)
{
    const id_lists *lists[3] = {&q->x->makes, &q->x->reads, &q->x->state_reads};
    size_t n_items = (size_t)q->n_items + 1;
    bool ok = !q->out_of_memory && reserve_blocks(q, 1) &&
              sequence_reserve(q, n_items, &q->items, &q->item_capacity) &&
              sequence_reserve(q, n_items, &q->free_items, &q->free_capacity);
    for (int k = 0; k < 3; k++)
        for (uint32_t i = lists[k]->start[task]; i < lists[k]->start[task + 1] && ok; i++) {
            ref_list *list = &q->refs[lists[k]->items[i]];
            ok = sequence_reserve(q, (size_t)list->n + 1, &list->refs, &list->capacity);
        }
    return ok;
}

static bool log_change(sequence *q, change c)
{
    if (!sequence_reserve(q, q->n_changes + 1, &q->journal, &q->journal_capacity))
        return false;
    q->journal[q->n_changes++] = c;
    return true;
}

static int64_t away_bytes(const sequence *q, uint32_t tensor, uint32_t id)
{
    uint32_t at = neap_sequence_find_ref(q, tensor, sequence_place(q, id));
    return q->refs[tensor].refs[at].away ? q->x->bytes[tensor] : 0;
}

/* Bytes that are fetched just before an item. */
static int64_t returning_bytes(const sequence *q, uint32_t id)
{
    const problem *x = q->x;
    uint32_t task = q->items[id].task;
    int64_t sum = 0;
    if (q->n_away == 0)
        return 0;
    if (task != NEAP_NONE) {
        for (uint32_t i = x->reads.start[task]; i < x->reads.start[task + 1]; i++)
            sum += away_bytes(q, x->reads.items[i], id);
        for (uint32_t i = x->state_reads.start[task]; i < x->state_reads.start[task + 1]; i++)
            sum += away_bytes(q, x->state_reads.items[i], id);
        return sum;
    }
    for (uint32_t t = 0; t < problem_n_all(x); t++)
        if (is_state(x, t) ? !sequence_is_on_host(q, t) : x->is_output[t])
            sum += away_bytes(q, t, id);
    return sum;
}

/* Bytes just before an item. */
static int64_t bytes_before(const sequence *q, uint32_t id)
{
    uint32_t task = q->items[id].task;
    int64_t bytes = sequence_bytes(q, id) - own_bytes(q, task) - returning_bytes(q, id);
    return q->items[id].in_place ? bytes + task_in_place_bytes(q->x, task) : bytes;
}

/* Everything has been reserved, and no tensor is away before the use after a make. */
static void put_in(sequence *q, uint32_t id, uint32_t task, uint32_t before)
{
    q->items[id].task = task;
    q->only[task] = id;
    q->items[id].in_place = false;
    int64_t bytes = bytes_before(q, before) + own_bytes(q, task);
    if (q->blocks[q->items[before].block].n == SEQUENCE_BLOCK)
        split(q, q->items[before].block);
    uint32_t number = q->items[before].block, rank = q->rank_of[number];
    put_into_block(q, id, number, q->items[before].index, bytes);
    q->most[rank] = bytes > q->most[rank] ? bytes : q->most[rank];
    change_refs(q, id, 1);
}

static void take_out(sequence *q, uint32_t id)
{
    change_refs(q, id, -1);
    take_from_block(q, id);
    q->items[id].task = NEAP_NONE;
}

void neap_sequence_bring_back(sequence *q, uint32_t id)
{
    const problem *x = q->x;
    uint32_t task = q->items[id].task, place = sequence_place(q, id);
    for (uint32_t i = x->reads.start[task]; i < x->reads.start[task + 1] && q->n_away > 0; i++) {
        uint32_t at = neap_sequence_find_ref(q, x->reads.items[i], place);
        if (q->refs[x->reads.items[i]].refs[at].away)
            neap_sequence_set_away(q, x->reads.items[i], id, false);
    }
}

/* Brings back what a task makes before its next use after a place; skip: the ref at the place is
   the task's own. */
static void bring_back_made(sequence *q, uint32_t task, uint32_t place, bool skip)
{
    const problem *x = q->x;
    for (uint32_t i = x->makes.start[task]; i < x->makes.start[task + 1] && q->n_away > 0; i++) {
        const ref_list *list = &q->refs[x->makes.items[i]];
        uint32_t at = neap_sequence_find_ref(q, x->makes.items[i], place) + skip;
        if (at < list->n && list->refs[at].away)
            neap_sequence_set_away(q, x->makes.items[i], list->refs[at].item, false);
    }
}

/* What a task reads is not written over by the touch before a place; skip: the ref at the place is
   the task's own, and that touch. */
static void end_writing_over(sequence *q, uint32_t task, uint32_t place, bool skip)
{
    const problem *x = q->x;
    for (uint32_t i = x->reads.start[task]; i < x->reads.start[task + 1] && q->n_away > 0; i++) {
        const ref_list *list = &q->refs[x->reads.items[i]];
        uint32_t at = neap_sequence_find_ref(q, x->reads.items[i], place) + skip;
        if (at < list->n && list->refs[at].over)
            neap_sequence_set_over(q, x->reads.items[i], list->refs[at].item, false);
    }
}

uint32_t neap_sequence_insert(sequence *q, uint32_t task, uint32_t before)
{
    if (!reserve(q, task))
        return NEAP_NONE;
    end_writing_over(q, task, sequence_place(q, before), false);
    bring_back_made(q, task, sequence_place(q, before), false);
    uint32_t id = q->n_free > 0 ? q->free_items[q->n_free - 1] : q->n_items;
    if (!log_change(q, (change){CHANGE_INSERT, id, before, task}))
        return NEAP_NONE;
    if (q->n_free > 0)
        q->n_free--;
    else
        q->n_items++;
    put_in(q, id, task, before);
    return id;
}

bool neap_sequence_can_remove(const sequence *q, uint32_t id)
{
    const problem *x = q->x;
    uint32_t task = q->items[id].task;
    if (task == NEAP_NONE || q->runs[task] < 2 ||
        (q->keeps_first_runs && sequence_is_first_run(q, id)))
        return false;
    uint32_t place = sequence_place(q, id);
    for (uint32_t i = x->makes.start[task]; i < x->makes.start[task + 1]; i++) {
        const ref_list *list = &q->refs[x->makes.items[i]];
        uint32_t at = neap_sequence_find_ref(q, x->makes.items[i], place);
        if (at == 0 && list->n > 1 && !list->refs[1].makes)
            return false;
    }
    return true;
}

/* State that an item reads is away, or not, both before it and behind it. */
static void level_states(sequence *q, uint32_t id)
{
    const id_lists *reads = &q->x->state_reads;
    uint32_t task = q->items[id].task, place = sequence_place(q, id);
    for (uint32_t i = reads->start[task]; i < reads->start[task + 1]; i++) {
        const ref *r =
            &q->refs[reads->items[i]].refs[neap_sequence_find_ref(q, reads->items[i], place)];
        if (r[0].away != r[1].away)
            neap_sequence_set_away(q, reads->items[i], r[r[0].away].item, true);
    }
}

void neap_sequence_remove(sequence *q, uint32_t id)
{
    uint32_t task = q->items[id].task;
    bool ok = reserve_blocks(q, 1);
    level_states(q, id);
    end_writing_over(q, task, sequence_place(q, id), true);
    bring_back_made(q, task, sequence_place(q, id), true);
    neap_sequence_bring_back(q, id);
    if (ok && !q->out_of_memory &&
        log_change(q, (change){CHANGE_REMOVE, id, neap_sequence_next(q, id), task}))
        take_out(q, id);
}

/* ---- Variants and tensors that are away ---- */

static void change_variant(sequence *q, uint32_t task, uint32_t variant)
{
    const problem *x = q->x;
    int64_t old_own = own_bytes(q, task), old_ticks = sequence_ticks(q, task);
    q->choice[task] = variant;
    int64_t more = own_bytes(q, task) - old_own;
    q->ticks += (sequence_ticks(q, task) - old_ticks) * q->runs[task];
    if (more == 0 || q->runs[task] == 0)
        return;
    if (x->makes.start[task] < x->makes.start[task + 1]) {
        const ref_list *list = &q->refs[x->makes.items[x->makes.start[task]]];
        for (uint32_t i = 0; i < list->n; i++)
            if (list->refs[i].makes)
                add(q, sequence_place(q, list->refs[i].item), sequence_place(q, list->refs[i].item),
                    more);
        return;
    }
    for (uint32_t i = 0; i < q->n_items; i++) /* rare: it makes nothing */
        if (q->items[i].task == task)
            add(q, sequence_place(q, i), sequence_place(q, i), more);
}

void neap_sequence_set_variant(sequence *q, uint32_t task, uint32_t variant)
{
    if (q->choice[task] != variant &&
        log_change(q, (change){CHANGE_VARIANT, task, q->choice[task], task}))
        change_variant(q, task, variant);
}

static void change_away(sequence *q, uint32_t tensor, uint32_t use, bool away)
{
    ref_list *list = &q->refs[tensor];
    uint32_t at = neap_sequence_find_ref(q, tensor, sequence_place(q, use));
    list->refs[at].away = away;
    q->n_away += away ? 1 : UINT32_MAX;
    uint32_t from = sequence_place(q, list->refs[at - 1].item) + 1, to = sequence_place(q, use);
    if (from < to)
        add(q, from, to - 1, away ? -q->x->bytes[tensor] : q->x->bytes[tensor]);
}

static void change_over(sequence *q, uint32_t tensor, uint32_t use, bool over)
{
    ref_list *list = &q->refs[tensor];
    uint32_t at = neap_sequence_find_ref(q, tensor, sequence_place(q, use));
    list->refs[at].over = over;
    set_in_place(q, list->refs[at - 1].item, tensor, over);
}

void neap_sequence_set_over(sequence *q, uint32_t tensor, uint32_t use, bool over)
{
    if (log_change(q, (change){CHANGE_OVER, tensor, use, over}))
        change_over(q, tensor, use, over);
}

void neap_sequence_set_away(sequence *q, uint32_t tensor, uint32_t use, bool away)
{
    uint32_t at = neap_sequence_find_ref(q, tensor, sequence_place(q, use));
    if (q->refs[tensor].refs[at].over)
        neap_sequence_set_over(q, tensor, use, false);
    if (log_change(q, (change){CHANGE_AWAY, tensor, use, away}))
        change_away(q, tensor, use, away);
}

static void change_host(sequence *q, uint32_t state, bool on_host)
{
    int64_t bytes = on_host ? -q->x->bytes[state] : q->x->bytes[state];
    uint32_t start = sequence_place(q, q->start), end = sequence_place(q, q->end);
    q->on_host[state - q->x->n_tensors] = on_host;
    add(q, start, start, bytes);
    add(q, end, end, bytes);
}

void neap_sequence_set_host(sequence *q, uint32_t state, bool on_host)
{
    const ref_list *list = &q->refs[state];
    if (sequence_is_on_host(q, state) == on_host)
        return;
    if (!on_host && log_change(q, (change){CHANGE_HOST, state, 0, false}))
        change_host(q, state, false);
    if (list->refs[1].away != on_host)
        neap_sequence_set_away(q, state, list->refs[1].item, on_host);
    if (list->refs[list->n - 1].away != on_host)
        neap_sequence_set_away(q, state, q->end, on_host);
    if (on_host && list->refs[1].away && list->refs[list->n - 1].away &&
        log_change(q, (change){CHANGE_HOST, state, 0, true}))
        change_host(q, state, true);
}

/* ---- The journal ---- */

static void undo_one(sequence *q, const change *c)
{
    switch (c->kind) {
    case CHANGE_INSERT:
        take_out(q, c->id);
        q->free_items[q->n_free++] = c->id;
        break;
    case CHANGE_REMOVE:
        put_in(q, c->id, c->task, c->other);
        break;
    case CHANGE_VARIANT:
        change_variant(q, c->id, c->other);
        break;
    case CHANGE_AWAY:
        change_away(q, c->id, c->other, !c->task);
        break;
    case CHANGE_HOST:
        change_host(q, c->id, !c->task);
        break;
    case CHANGE_OVER:
        change_over(q, c->id, c->other, !c->task);
        break;
    }
}

void neap_sequence_undo(sequence *q, size_t n_changes)
{
    while (q->n_changes > n_changes)
        undo_one(q, &q->journal[--q->n_changes]);
}

void neap_sequence_commit(sequence *q)
{
    for (size_t i = 0; i < q->n_changes; i++)
        if (q->journal[i].kind == CHANGE_REMOVE)
            q->free_items[q->n_free++] = q->journal[i].id;
    q->n_changes = 0;
}

/* ---- Whole sequences ---- */

/* The end is item 0, the others follow in order. */
static uint32_t item_at(const sequence *q, uint32_t n, uint32_t position)
{
    return position < n ? position + 1 : q->end;
}

/* Empties the sequence and reserves items and blocks for a list. */
static bool make_empty(sequence *q, uint32_t n)
{
    size_t n_items = (size_t)n + 2;
    q->n_blocks = q->n_items = q->n_free = q->length = q->n_away = 0;
    q->n_changes = 0;
    q->ticks = 0;
    q->end = 0;
    q->start = q->x->n_states > 0 ? n + 1 : NEAP_NONE;
    memset(q->runs, 0, q->x->n_tasks * sizeof *q->runs);
    for (uint32_t t = 0; t < problem_n_all(q->x); t++)
        q->refs[t].n = 0;
    for (uint32_t i = 0; i < q->x->n_states; i++)
        q->on_host[i] = false;
    return reserve_blocks(q, 1 + n_items / (SEQUENCE_BLOCK / 2)) &&
           sequence_reserve(q, n_items, &q->items, &q->item_capacity) &&
           sequence_reserve(q, n_items, &q->free_items, &q->free_capacity);
}

/* Half full blocks of items without bytes, so that insertions find room. */
static void fill_blocks(sequence *q, const compute_list *list)
{
    enum { HALF = SEQUENCE_BLOCK / 2 };
    q->n_items = list->n + 1;
    if (q->start != NEAP_NONE) {
        q->n_items++;
        q->items[q->start].task = NEAP_NONE;
        q->items[q->start].in_place = false;
        put_into_block(q, q->start, add_block(q, -1), 0, 0);
    }
    for (uint32_t i = 0; i <= list->n; i++) {
        uint32_t number = q->n_blocks > 0 ? q->n_blocks - 1 : 0;
        bool goes_on = q->n_blocks > 0 && (q->blocks[number].n < HALF || list->n - i < HALF);
        if (!goes_on)
            number = add_block(q, (int64_t)q->n_blocks - 1);
        uint32_t id = item_at(q, list->n, i);
        q->items[id].task = i == list->n ? NEAP_NONE : list->tasks ? list->tasks[i] : i;
        q->items[id].in_place = false;
        put_into_block(q, id, number, q->blocks[number].n, 0);
    }
}

static bool add_ref(sequence *q, uint32_t tensor, uint32_t id, bool makes)
{
    ref_list *list = &q->refs[tensor];
    if (!sequence_reserve(q, (size_t)list->n + 1, &list->refs, &list->capacity))
        return false;
    list->refs[list->n++] = (ref){.item = id, .makes = makes};
    return true;
}

/* The refs of all items in order, those of the end last. */
static bool fill_refs(sequence *q, uint32_t n)
{
    const problem *x = q->x;
    for (uint32_t t = x->n_tensors; t < problem_n_all(x); t++)
        if (!add_ref(q, t, q->start, true))
            return false;
    for (uint32_t id = 1; id <= n; id++) {
        uint32_t task = q->items[id].task;
        for (uint32_t i = x->makes.start[task]; i < x->makes.start[task + 1]; i++)
            if (!add_ref(q, x->makes.items[i], id, true))
                return false;
        for (uint32_t i = x->reads.start[task]; i < x->reads.start[task + 1]; i++)
            if (!add_ref(q, x->reads.items[i], id, false))
                return false;
        for (uint32_t i = x->state_reads.start[task]; i < x->state_reads.start[task + 1]; i++)
            if (!add_ref(q, x->state_reads.items[i], id, false))
                return false;
        q->only[task] = id;
        q->runs[task]++;
        q->length++;
        q->ticks += sequence_ticks(q, task);
    }
    for (uint32_t t = 0; t < problem_n_all(x); t++)
        if ((is_state(x, t) || x->is_output[t]) && !add_ref(q, t, q->end, false))
            return false;
    return true;
}

static void set_bytes(sequence *q, uint32_t id, int64_t bytes)
{
    q->blocks[q->items[id].block].bytes[q->items[id].index] = bytes;
}

/* Bytes from the end to the beginning: a tensor is held before a use, until it is made. All state
   is on the device. */
static void fill_bytes(sequence *q, uint32_t n)
{
    const problem *x = q->x;
    int64_t held = x->state_bytes;
    for (uint32_t t = 0; t < x->n_tensors; t++)
        held += x->is_output[t] ? x->bytes[t] : 0;
    set_bytes(q, q->end, held);
    for (uint32_t id = n; id > 0; id--) {
        uint32_t task = q->items[id].task;
        for (uint32_t i = x->makes.start[task]; i < x->makes.start[task + 1]; i++) {
            const ref_list *list = &q->refs[x->makes.items[i]];
            uint32_t at = neap_sequence_find_ref(q, x->makes.items[i], sequence_place(q, id));
            if (ref_is_held(list, at + 1))
                held -= x->bytes[x->makes.items[i]];
        }
        for (uint32_t i = x->reads.start[task]; i < x->reads.start[task + 1]; i++) {
            uint32_t tensor = x->reads.items[i];
            uint32_t at = neap_sequence_find_ref(q, tensor, sequence_place(q, id));
            if (ref_is_held(&q->refs[tensor], at + 1))
                continue;
            held += x->bytes[tensor];
            q->items[id].in_place |= x->in_place[task] == tensor;
        }
        int64_t saved = q->items[id].in_place ? task_in_place_bytes(x, task) : 0;
        set_bytes(q, id, held + own_bytes(q, task) - saved);
    }
    if (q->start != NEAP_NONE)
        set_bytes(q, q->start, x->state_bytes);
    for (uint32_t r = 0; r < q->n_blocks; r++)
        take_most(q, r);
}

static void load_transfers(sequence *q, const compute_list *list)
{
    const problem *x = q->x;
    for (uint32_t i = 0; i < list->n_transfers; i++) {
        const transfer *t = &list->transfers[i];
        if (!t->stays)
            change_away(q, t->tensor, item_at(q, list->n, t->before), true);
        if (!t->stays && t->over)
            change_over(q, t->tensor, item_at(q, list->n, t->before), true);
    }
    for (uint32_t i = 0; i < list->n_transfers; i++)
        if (list->transfers[i].leads)
            change_host(q, list->transfers[i].tensor, true);
    for (uint32_t t = x->n_tensors; t < problem_n_all(x); t++)
        if (x->state_place == NEAP_STATE_HOST)
            neap_sequence_set_host(q, t, true);
    neap_sequence_commit(q);
}

neap_status neap_sequence_load(sequence *q, const compute_list *list, neap_diag *diag)
{
    const problem *x = q->x;
    for (uint32_t t = 0; t < x->n_tasks; t++)
        q->choice[t] = list->choice ? list->choice[t] : 0;
    bool ok = !q->out_of_memory && make_empty(q, list->n);
    if (ok) {
        fill_blocks(q, list);
        ok = fill_refs(q, list->n);
    }
    if (!ok)
        return neap_fail_no_memory(diag);
    fill_bytes(q, list->n);
    load_transfers(q, list);
    return q->out_of_memory ? neap_fail_no_memory(diag) : NEAP_OK;
}

neap_status neap_sequence_load_natural(sequence *q, neap_diag *diag)
{
    return neap_sequence_load(q, &(compute_list){.n = q->x->n_tasks}, diag);
}

uint32_t neap_sequence_item_of(const sequence *q, uint32_t task)
{
    return q->x->n_tasks > task ? task + 1 : q->end; /* the end is item 0 */
}

neap_status neap_sequence_init(sequence *q, neap_allocator *allocator, const problem *x,
                               neap_diag *diag)
{
    *q = (sequence){.allocator = allocator, .x = x};
    neap_arena_init(&q->arena, allocator);
    if (!NEAP_TAKE(&q->arena, x->n_tasks, q->runs) || !NEAP_TAKE(&q->arena, x->n_tasks, q->only) ||
        !NEAP_TAKE(&q->arena, x->n_tasks, q->choice) ||
        !NEAP_TAKE(&q->arena, x->n_states, q->on_host) ||
        !NEAP_TAKE(&q->arena, problem_n_all(x), q->refs))
        return neap_fail_no_memory(diag);
    return neap_sequence_load_natural(q, diag);
}

void neap_sequence_clear(sequence *q)
{
    neap_allocator *a = q->allocator;
    for (uint32_t t = 0; q->refs && t < problem_n_all(q->x); t++)
        NEAP_DELETE(a, q->refs[t].capacity, q->refs[t].refs);
    NEAP_DELETE(a, q->item_capacity, q->items);
    NEAP_DELETE(a, q->free_capacity, q->free_items);
    NEAP_DELETE(a, q->journal_capacity, q->journal);
    neap_columns_clear(&q->block_columns, a);
    neap_arena_clear(&q->arena);
    *q = (sequence){0};
}

void neap_sequence_list(const sequence *q, uint32_t *tasks, int64_t *bytes, uint32_t *place_of)
{
    uint32_t n = 0;
    for (uint32_t r = 0; r < q->n_blocks; r++) {
        const item_block *block = &q->blocks[q->block_at[r]];
        for (uint32_t i = 0; i < block->n; i++) {
            uint32_t task = q->items[block->items[i]].task;
            if (block->items[i] == q->start) {
                if (place_of)
                    place_of[q->start] = NEAP_NONE;
                continue;
            }
            if (bytes)
                bytes[n] = block->bytes[i] + q->addition[r];
            if (place_of)
                place_of[block->items[i]] = n;
            if (task != NEAP_NONE)
                tasks[n] = task;
            n++;
        }
    }
}
