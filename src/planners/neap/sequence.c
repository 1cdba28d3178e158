#include "planners/neap/sequence.h"

#include "base/fail.h"
#include "base/memory.h"

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

/* Whether so many items fit the growing array. */
#define has_room(q, needed, array, capacity)                                                       \
    (NEAP_RESERVE((q)->allocator, (needed), (array), (capacity), NULL) == NEAP_OK)

/* For one more block, and one for each change that may have to be undone. */
static bool reserve_blocks(sequence *q)
{
    size_t needed = (size_t)q->n_blocks + q->n_changes + 2;
    return NEAP_RESERVE_COLUMNS(&q->block_columns, q->allocator, needed, NULL,
                                NEAP_COLUMN(&q->blocks), NEAP_COLUMN(&q->rank_of),
                                NEAP_COLUMN(&q->block_at), NEAP_COLUMN(&q->addition),
                                NEAP_COLUMN(&q->most)) == NEAP_OK;
}

/* A new block behind a rank; -1: the first. Room for it has been reserved. */
static uint32_t add_block(sequence *q, int64_t rank)
{
    uint32_t at = (uint32_t)(rank + 1), number = q->n_blocks++;
    size_t behind = number - at;
    memmove(&q->block_at[at + 1], &q->block_at[at], behind * sizeof *q->block_at);
    memmove(&q->addition[at + 1], &q->addition[at], behind * sizeof *q->addition);
    memmove(&q->most[at + 1], &q->most[at], behind * sizeof *q->most);
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

/* Puts an item into a block that has room. The block's addition is taken off its bytes. */
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

/* Adds to the places from .. to, both included. */
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

/* Whether no place of a block in [begin, end) holds more. */
static bool block_fits(const sequence *q, uint32_t rank, uint32_t begin, uint32_t end, int64_t most)
{
    if (q->most[rank] <= most)
        return true;
    const item_block *block = &q->blocks[q->block_at[rank]];
    most -= q->addition[rank];
    end = end < block->n ? end : block->n;
    for (uint32_t i = begin; i < end; i++)
        if (block->bytes[i] > most)
            return false;
    return true;
}

bool neap_sequence_fits_between(const sequence *q, uint32_t from, uint32_t to, int64_t most)
{
    uint32_t a = sequence_place(q, from) + 1, b = sequence_place(q, to);
    uint32_t first = a / SEQUENCE_BLOCK, last = b / SEQUENCE_BLOCK;
    if (first == last)
        return block_fits(q, first, a % SEQUENCE_BLOCK, b % SEQUENCE_BLOCK, most);
    for (uint32_t rank = first + 1; rank < last; rank++)
        if (q->most[rank] > most)
            return false;
    return block_fits(q, first, a % SEQUENCE_BLOCK, SEQUENCE_BLOCK, most) &&
           block_fits(q, last, 0, b % SEQUENCE_BLOCK, most);
}

/* ---- Neighbours ---- */

uint32_t neap_sequence_at(const sequence *q, uint32_t place)
{
    uint32_t rank = place / SEQUENCE_BLOCK, index = place % SEQUENCE_BLOCK;
    for (;; rank++, index = 0) { /* the end is somewhere */
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

/* Room has been reserved. */
static void add_ref(ref_list *list, uint32_t at, ref r)
{
    memmove(&list->refs[at + 1], &list->refs[at], (list->n - at) * sizeof *list->refs);
    list->refs[at] = r;
    list->n++;
}

static void take_ref(ref_list *list, uint32_t at)
{
    list->n--;
    memmove(&list->refs[at], &list->refs[at + 1], (list->n - at) * sizeof *list->refs);
}

/* The item makes a tensor: a later use no longer waits since the touch before. sign 1: it is put
   in; -1: taken out. The item's own bytes count the tensor where it runs. refs[at] is the item's
   own. */
static void count_make(sequence *q, uint32_t tensor, uint32_t at, int64_t sign)
{
    const ref_list *list = &q->refs[tensor];
    uint32_t place = sequence_place(q, list->refs[at].item);
    if (!ref_is_held(list, at + 1))
        return;
    if (at > 0)
        add(q, sequence_place(q, list->refs[at - 1].item) + 1, place, -sign * q->x->bytes[tensor]);
    else
        add(q, place + 1, sequence_place(q, list->refs[at + 1].item), sign * q->x->bytes[tensor]);
}

/* The item uses a tensor: unless a later use holds it anyway, it is held since the touch before. */
static void count_use(sequence *q, uint32_t tensor, uint32_t at, int64_t sign)
{
    const ref_list *list = &q->refs[tensor];
    if (at == 0 || ref_is_held(list, at + 1))
        return;
    add(q, sequence_place(q, list->refs[at - 1].item) + 1, sequence_place(q, list->refs[at].item),
        sign * q->x->bytes[tensor]);
}

/* ---- Items ---- */

static int64_t own_bytes(const sequence *q, uint32_t task)
{
    if (task == NEAP_NONE)
        return 0;
    const problem *x = q->x;
    return x->made_bytes[task] + x->variants[x->variant_start[task] + q->choice[task]].workspace;
}

/* Everything that an insertion may need, so that it cannot fail half way. */
static bool reserve(sequence *q, uint32_t task)
{
    const problem *x = q->x;
    if (q->out_of_memory)
        return false;
    size_t n_items = (size_t)q->n_items + 1;
    bool ok = reserve_blocks(q) && has_room(q, n_items, &q->items, &q->item_capacity) &&
              has_room(q, n_items, &q->free_items, &q->free_capacity);
    const id_lists *lists[2] = {&x->makes, &x->reads};
    for (int k = 0; k < 2 && ok; k++)
        for (uint32_t i = lists[k]->start[task]; i < lists[k]->start[task + 1] && ok; i++) {
            ref_list *list = &q->refs[lists[k]->items[i]];
            ok = has_room(q, (size_t)list->n + 1, &list->refs, &list->capacity);
        }
    q->out_of_memory = !ok;
    return ok;
}

static bool log_change(sequence *q, change c)
{
    if (!has_room(q, q->n_changes + 1, &q->journal, &q->journal_capacity)) {
        q->out_of_memory = true;
        return false;
    }
    q->journal[q->n_changes++] = c;
    return true;
}

static int64_t away_bytes(const sequence *q, uint32_t tensor, uint32_t id)
{
    uint32_t at = neap_sequence_find_ref(q, tensor, sequence_place(q, id));
    return q->refs[tensor].refs[at].away ? q->x->bytes[tensor] : 0;
}

/* Bytes that come back just before an item. */
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
        return sum;
    }
    for (uint32_t t = 0; t < x->n_tensors; t++)
        if (x->is_output[t])
            sum += away_bytes(q, t, id);
    return sum;
}

/* Everything is reserved, uses behind what it makes are not away. */
static void put_in(sequence *q, uint32_t id, uint32_t task, uint32_t before)
{
    const problem *x = q->x;
    q->items[id].task = task;
    int64_t bytes = sequence_bytes(q, before) - own_bytes(q, q->items[before].task) -
                    returning_bytes(q, before) + own_bytes(q, task);
    uint32_t number = q->items[before].block;
    if (q->blocks[number].n == SEQUENCE_BLOCK) {
        split(q, number);
        number = q->items[before].block;
    }
    put_into_block(q, id, number, q->items[before].index, bytes);
    uint32_t rank = q->rank_of[number], place = sequence_place(q, id);
    q->most[rank] = bytes > q->most[rank] ? bytes : q->most[rank];
    for (uint32_t i = x->makes.start[task]; i < x->makes.start[task + 1]; i++) {
        uint32_t tensor = x->makes.items[i], at = neap_sequence_find_ref(q, tensor, place);
        add_ref(&q->refs[tensor], at, (ref){.item = id, .makes = true});
        count_make(q, tensor, at, 1);
    }
    for (uint32_t i = x->reads.start[task]; i < x->reads.start[task + 1]; i++) {
        uint32_t tensor = x->reads.items[i], at = neap_sequence_find_ref(q, tensor, place);
        add_ref(&q->refs[tensor], at, (ref){.item = id});
        count_use(q, tensor, at, 1);
    }
    q->runs[task]++;
    q->length++;
    q->ticks += sequence_ticks(q, task);
}

static void take_out(sequence *q, uint32_t id)
{
    const problem *x = q->x;
    uint32_t task = q->items[id].task, place = sequence_place(q, id);
    for (uint32_t i = x->makes.start[task]; i < x->makes.start[task + 1]; i++) {
        uint32_t tensor = x->makes.items[i], at = neap_sequence_find_ref(q, tensor, place);
        count_make(q, tensor, at, -1);
        take_ref(&q->refs[tensor], at);
    }
    for (uint32_t i = x->reads.start[task]; i < x->reads.start[task + 1]; i++) {
        uint32_t tensor = x->reads.items[i], at = neap_sequence_find_ref(q, tensor, place);
        count_use(q, tensor, at, -1);
        take_ref(&q->refs[tensor], at);
    }
    q->runs[task]--;
    q->length--;
    q->ticks -= sequence_ticks(q, task);
    take_from_block(q, id);
    q->items[id].task = NEAP_NONE;
}

/* What the item at a place makes is not away behind it, what it reads not before it. */
static void bring_back(sequence *q, uint32_t task, uint32_t place, uint32_t id)
{
    const problem *x = q->x;
    bool stands = id != NEAP_NONE;
    if (q->n_away == 0)
        return;
    for (uint32_t i = x->makes.start[task]; i < x->makes.start[task + 1]; i++) {
        const ref_list *list = &q->refs[x->makes.items[i]];
        uint32_t at = neap_sequence_find_ref(q, x->makes.items[i], place) + stands;
        if (at < list->n && list->refs[at].away)
            neap_sequence_set_away(q, x->makes.items[i], list->refs[at].item, false);
    }
    for (uint32_t i = x->reads.start[task]; i < x->reads.start[task + 1] && stands; i++) {
        uint32_t at = neap_sequence_find_ref(q, x->reads.items[i], place);
        if (q->refs[x->reads.items[i]].refs[at].away)
            neap_sequence_set_away(q, x->reads.items[i], id, false);
    }
}

uint32_t neap_sequence_insert(sequence *q, uint32_t task, uint32_t before)
{
    if (!reserve(q, task))
        return NEAP_NONE;
    bring_back(q, task, sequence_place(q, before), NEAP_NONE);
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
    uint32_t task = q->items[id].task, place = sequence_place(q, id);
    if (q->runs[task] < 2 || (q->keeps_first_runs && sequence_is_first_run(q, id)))
        return false;
    for (uint32_t i = x->makes.start[task]; i < x->makes.start[task + 1]; i++) {
        const ref_list *list = &q->refs[x->makes.items[i]];
        uint32_t at = neap_sequence_find_ref(q, x->makes.items[i], place);
        if (at == 0 && list->n > 1 && !list->refs[1].makes)
            return false;
    }
    return true;
}

void neap_sequence_remove(sequence *q, uint32_t id)
{
    uint32_t task = q->items[id].task;
    if (!reserve_blocks(q))
        q->out_of_memory = true;
    bring_back(q, task, sequence_place(q, id), id);
    if (q->out_of_memory ||
        !log_change(q, (change){CHANGE_REMOVE, id, neap_sequence_next(q, id), task}))
        return;
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
    for (uint32_t i = 0; i < q->n_items; i++) /* it makes nothing: a rare thing */
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

void neap_sequence_set_away(sequence *q, uint32_t tensor, uint32_t use, bool away)
{
    if (log_change(q, (change){CHANGE_AWAY, tensor, use, away}))
        change_away(q, tensor, use, away);
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

/* ---- The whole ---- */

/* Not to be undone. */
static bool append(sequence *q, uint32_t task)
{
    uint32_t id = neap_sequence_insert(q, task, q->end);
    q->n_changes = 0;
    return id != NEAP_NONE;
}

/* The end alone, which uses the outputs. */
static bool make_empty(sequence *q)
{
    const problem *x = q->x;
    q->n_blocks = q->n_items = q->n_free = q->length = q->n_away = 0;
    q->n_changes = 0;
    q->ticks = 0;
    if (!reserve_blocks(q) || !has_room(q, (size_t)x->n_tasks + 1, &q->items, &q->item_capacity))
        return false;
    for (uint32_t t = 0; t < x->n_tasks; t++)
        q->runs[t] = 0;
    q->end = q->n_items++;
    q->items[q->end].task = NEAP_NONE;
    put_into_block(q, q->end, add_block(q, -1), 0, 0);
    take_most(q, 0);
    for (uint32_t t = 0; t < x->n_tensors; t++) {
        ref_list *list = &q->refs[t];
        list->n = 0;
        if (!x->is_output[t])
            continue;
        if (!has_room(q, 1, &list->refs, &list->capacity))
            return false;
        add_ref(list, 0, (ref){.item = q->end});
    }
    return true;
}

neap_status neap_sequence_load(sequence *q, const compute_list *list, neap_diag *diag)
{
    const problem *x = q->x;
    bool ok = make_empty(q);
    for (uint32_t t = 0; t < x->n_tasks; t++)
        q->choice[t] = list->choice ? list->choice[t] : 0;
    for (uint32_t i = 0; i < list->n && ok; i++)
        ok = append(q, list->tasks[i]);
    if (!ok)
        return neap_fail_no_memory(diag);
    /* Items were given out in order, behind the end. */
    for (uint32_t i = 0; i < list->n_transfers; i++) {
        const transfer *t = &list->transfers[i];
        if (!t->stays)
            change_away(q, t->tensor, t->before < list->n ? t->before + 1 : q->end, true);
    }
    return NEAP_OK;
}

neap_status neap_sequence_load_natural(sequence *q, neap_diag *diag)
{
    const problem *x = q->x;
    uint32_t *natural;
    NEAP_TRY(NEAP_NEW(q->allocator, x->n_tasks, &natural, diag));
    for (uint32_t t = 0; t < x->n_tasks; t++)
        natural[t] = t;
    compute_list list = {.n = x->n_tasks, .tasks = natural};
    neap_status status = neap_sequence_load(q, &list, diag);
    NEAP_DELETE(q->allocator, x->n_tasks, natural);
    return status;
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
    if (!NEAP_TAKE(&q->arena, x->n_tasks, q->runs) ||
        !NEAP_TAKE(&q->arena, x->n_tasks, q->choice) ||
        !NEAP_TAKE(&q->arena, x->n_tensors, q->refs))
        return neap_fail_no_memory(diag);
    return neap_sequence_load_natural(q, diag);
}

void neap_sequence_clear(sequence *q)
{
    neap_allocator *a = q->allocator;
    for (uint32_t t = 0; q->refs && t < q->x->n_tensors; t++)
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
