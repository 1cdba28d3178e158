/* Built with -O3 (CMakeLists.txt) so that the loop over places becomes vector code. */
#include "planners/neap/flat_sequence.h"

#include "base/fail.h"
#include "base/memory.h"
#include "base/processor.h"

#include <string.h>

/* ---- Bytes ---- */

static int64_t above(const flat_sequence *q, int64_t bytes)
{
    return bytes > q->budget ? bytes - q->budget : 0;
}

/* Adds bytes to n places; returns the change of the bytes above the budget. */
#define ADD_KERNEL(name, attributes)                                                               \
    attributes static int64_t name(int64_t *places, size_t n, int64_t bytes, int64_t budget)       \
    {                                                                                              \
        int64_t change = 0;                                                                        \
        for (size_t i = 0; i < n; i++) {                                                           \
            int64_t old = places[i] - budget, now = old + bytes;                                   \
            change += (now > 0 ? now : 0) - (old > 0 ? old : 0);                                   \
            places[i] += bytes;                                                                    \
        }                                                                                          \
        return change;                                                                             \
    }

ADD_KERNEL(add_plain, )
#if NEAP_CAN_HAVE_AVX2
ADD_KERNEL(add_avx2, NEAP_AVX2)
#endif

static flat_kernel *choose_kernel(void)
{
#if NEAP_CAN_HAVE_AVX2
    if (neap_has_avx2())
        return add_avx2;
#endif
    return add_plain;
}

/* Adds bytes to the places from .. to, inclusive. */
static void add(flat_sequence *q, uint32_t from, uint32_t to, int64_t bytes)
{
    if (from <= to)
        q->over += q->kernel(q->bytes + from, (size_t)to - from + 1, bytes, q->budget);
}

/* Outputs and workspace of a run that is not in place. */
static int64_t own_bytes(const flat_sequence *q, uint32_t task)
{
    const problem *x = q->x;
    if (task == NEAP_NONE)
        return 0;
    return x->made_bytes[task] + x->variants[x->variant_start[task] + q->choice[task]].workspace;
}

static int64_t ticks_of(const flat_sequence *q, uint32_t task)
{
    return q->x->variants[q->x->variant_start[task] + q->choice[task]].ticks;
}

int64_t neap_flat_sequence_most(const flat_sequence *q)
{
    int64_t most = 0;
    for (uint32_t i = 0; i <= q->length; i++)
        most = q->bytes[i] > most ? q->bytes[i] : most;
    return most;
}

/* ---- Refs ---- */

uint32_t neap_flat_sequence_find_ref(const flat_sequence *q, uint32_t tensor, uint32_t place)
{
    const flat_refs *list = &q->refs[tensor];
    uint32_t at = 0;
    while (at < list->n && q->place[list->refs[at].item] < place)
        at++;
    return at;
}

/* Counts a ref that is being added (sign 1) or removed (-1) in the gaps around it, as count_ref of
   sequence.c does. */
static void count_ref(flat_sequence *q, uint32_t tensor, uint32_t at, uint32_t place, int64_t sign)
{
    const flat_refs *list = &q->refs[tensor];
    const flat_ref *r = &list->refs[at];
    bool held = at + 1 < list->n && !r[1].makes;
    int64_t bytes = sign * q->x->bytes[tensor];
    if (bytes == 0)
        return;
    if (at > 0 && held == r->makes)
        add(q, q->place[r[-1].item] + 1, place, held ? -bytes : bytes);
    else if (at == 0 && held && r->makes)
        add(q, place + 1, q->place[r[1].item], bytes);
}

static bool may_pass_on(const flat_sequence *q, uint32_t tensor, const flat_ref *r)
{
    uint32_t task = q->task[r->item];
    return !r->makes && task != NEAP_NONE && q->x->in_place[task] == tensor;
}

static void set_in_place(flat_sequence *q, uint32_t item, uint32_t tensor, bool in_place)
{
    if (q->in_place[item] == in_place)
        return;
    q->in_place[item] = in_place;
    add(q, q->place[item], q->place[item], in_place ? -q->x->bytes[tensor] : q->x->bytes[tensor]);
}

/* Which items are in place, as pass_on of sequence.c decides. */
static void pass_on(flat_sequence *q, uint32_t tensor, uint32_t at, int64_t sign)
{
    const flat_refs *list = &q->refs[tensor];
    const flat_ref *r = &list->refs[at];
    bool used = at + 1 < list->n && !r[1].makes;
    if (at > 0 && may_pass_on(q, tensor, r - 1))
        set_in_place(q, r[-1].item, tensor, sign > 0 ? r->makes : !used);
    if (may_pass_on(q, tensor, r))
        set_in_place(q, r->item, tensor, sign > 0 && !used);
}

/* Adds (sign 1) or removes (-1) the refs of an item. Room for them has been reserved. */
static void change_refs(flat_sequence *q, uint32_t item, int64_t sign)
{
    const id_lists *lists[2] = {&q->x->makes, &q->x->reads};
    uint32_t task = q->task[item], place = q->place[item];
    for (int k = 0; k < 2; k++)
        for (uint32_t i = lists[k]->start[task]; i < lists[k]->start[task + 1]; i++) {
            uint32_t tensor = lists[k]->items[i];
            uint32_t at = neap_flat_sequence_find_ref(q, tensor, place);
            flat_refs *list = &q->refs[tensor];
            flat_ref *r = &list->refs[at];
            if (sign > 0) {
                memmove(r + 1, r, (list->n++ - at) * sizeof *r);
                *r = (flat_ref){item, k == 0};
            }
            count_ref(q, tensor, at, place, sign);
            if (q->x->may_pass_on[tensor])
                pass_on(q, tensor, at, sign);
            if (sign < 0)
                memmove(r, r + 1, (--list->n - at) * sizeof *r);
        }
}

/* ---- Places ---- */

static void number_places(flat_sequence *q, uint32_t from, uint32_t to)
{
    for (uint32_t i = from; i <= to; i++)
        q->place[q->items[i]] = i;
}

/* Bytes of a run of a task before a place, without what only its own refs hold. */
static int64_t bytes_before(const flat_sequence *q, uint32_t task, uint32_t place)
{
    uint32_t item = q->items[place], other = q->task[item];
    int64_t saved = q->in_place[item] ? task_in_place_bytes(q->x, other) : 0;
    return q->bytes[place] - own_bytes(q, other) + saved + own_bytes(q, task);
}

static void put_at(flat_sequence *q, uint32_t item, uint32_t place, int64_t bytes)
{
    q->items[place] = item;
    q->bytes[place] = bytes;
    q->over += above(q, bytes);
}

/* Moves the entries of the places from .. from + n - 1. */
static void shift(flat_sequence *q, uint32_t from, uint32_t to, size_t n)
{
    memmove(&q->items[to], &q->items[from], n * sizeof *q->items);
    memmove(&q->bytes[to], &q->bytes[from], n * sizeof *q->bytes);
}

/* ---- Changes ---- */

/* Keeps the list of tasks that run several times. */
static void count_run(flat_sequence *q, uint32_t task, bool more)
{
    q->runs[task] += more ? 1 : UINT32_MAX;
    q->ticks += more ? ticks_of(q, task) : -ticks_of(q, task);
    if (more && q->runs[task] == 2) {
        q->again_at[task] = q->n_again;
        q->again[q->n_again++] = task;
    } else if (!more && q->runs[task] == 1) {
        uint32_t last = q->again[--q->n_again];
        q->again[q->again_at[task]] = last;
        q->again_at[last] = q->again_at[task];
    }
}

static bool reserve(flat_sequence *q, uint32_t task)
{
    const id_lists *lists[2] = {&q->x->makes, &q->x->reads};
    for (int k = 0; k < 2 && !q->out_of_memory; k++)
        for (uint32_t i = lists[k]->start[task]; i < lists[k]->start[task + 1]; i++) {
            flat_refs *list = &q->refs[lists[k]->items[i]];
            if (list->n == list->capacity &&
                NEAP_RESERVE(q->allocator, (size_t)list->n + 1, &list->refs, &list->capacity,
                             NULL) != NEAP_OK)
                q->out_of_memory = true;
        }
    return !q->out_of_memory;
}

uint32_t neap_flat_sequence_insert(flat_sequence *q, uint32_t task, uint32_t place)
{
    if (q->n_unused == 0 || !reserve(q, task))
        return NEAP_NONE;
    uint32_t item = q->unused[--q->n_unused];
    q->task[item] = task;
    q->only[task] = item;
    int64_t bytes = bytes_before(q, task, place);
    shift(q, place, place + 1, (size_t)q->length + 1 - place);
    q->length++;
    put_at(q, item, place, bytes);
    number_places(q, place, q->length);
    count_run(q, task, true);
    change_refs(q, item, 1);
    return item;
}

void neap_flat_sequence_remove(flat_sequence *q, uint32_t item)
{
    uint32_t place = q->place[item];
    change_refs(q, item, -1);
    count_run(q, q->task[item], false);
    q->over -= above(q, q->bytes[place]);
    shift(q, place + 1, place, (size_t)q->length - place);
    q->length--;
    number_places(q, place, q->length);
    q->task[item] = NEAP_NONE;
    q->unused[q->n_unused++] = item;
}

bool neap_flat_sequence_can_remove(const flat_sequence *q, uint32_t item)
{
    const problem *x = q->x;
    uint32_t task = q->task[item];
    for (uint32_t i = x->makes.start[task]; i < x->makes.start[task + 1]; i++) {
        const flat_refs *list = &q->refs[x->makes.items[i]];
        if (list->refs[0].item == item && list->n > 1 && !list->refs[1].makes)
            return false;
    }
    return q->runs[task] > 1;
}

void neap_flat_sequence_move(flat_sequence *q, uint32_t item, uint32_t place)
{
    uint32_t from = q->place[item], to = place > from ? place - 1 : place;
    change_refs(q, item, -1);
    q->over -= above(q, q->bytes[from]);
    int64_t bytes = bytes_before(q, q->task[item], place);
    if (to > from)
        shift(q, from + 1, from, to - from);
    else
        shift(q, to, to + 1, from - to);
    put_at(q, item, to, bytes);
    number_places(q, to < from ? to : from, to < from ? from : to);
    change_refs(q, item, 1);
}

/* The place of a task's last run. */
static uint32_t last_place(const flat_sequence *q, uint32_t task)
{
    const problem *x = q->x;
    if (x->is_update[task] || x->makes.start[task] == x->makes.start[task + 1])
        return q->place[q->only[task]];
    const flat_refs *list = &q->refs[x->makes.items[x->makes.start[task]]];
    uint32_t at = list->n - 1;
    while (!list->refs[at].makes)
        at--;
    return q->place[list->refs[at].item];
}

/* The place of the first update of what a task reads; the end's if there is none. */
static uint32_t first_update(const flat_sequence *q, uint32_t task)
{
    const id_lists *by = &q->x->updated_by;
    uint32_t first = q->length;
    for (uint32_t i = by->start[task]; i < by->start[task + 1]; i++) {
        uint32_t place = q->place[q->only[by->items[i]]];
        first = place < first ? place : first;
    }
    return first;
}

bool neap_flat_sequence_precedes_updates(const flat_sequence *q, uint32_t task, uint32_t place)
{
    return place <= first_update(q, task);
}

flat_range neap_flat_sequence_range(const flat_sequence *q, uint32_t item)
{
    const problem *x = q->x;
    uint32_t task = q->task[item];
    flat_range range = {0, first_update(q, task)};
    for (uint32_t i = x->reads.start[task]; i < x->reads.start[task + 1]; i++) {
        uint32_t made = q->place[q->refs[x->reads.items[i]].refs[0].item] + 1;
        range.first = made > range.first ? made : range.first;
    }
    for (uint32_t i = x->before.start[task]; i < x->before.start[task + 1]; i++) {
        uint32_t ran = last_place(q, x->before.items[i]) + 1;
        range.first = ran > range.first ? ran : range.first;
    }
    for (uint32_t i = x->makes.start[task]; i < x->makes.start[task + 1]; i++) {
        const flat_refs *list = &q->refs[x->makes.items[i]];
        if (list->refs[0].item != item || list->n < 2 || list->refs[1].makes)
            continue;
        uint32_t used = q->place[list->refs[1].item];
        range.last = used < range.last ? used : range.last;
    }
    return range;
}

void neap_flat_sequence_set_variant(flat_sequence *q, uint32_t task, uint32_t variant)
{
    const problem *x = q->x;
    int64_t bytes = own_bytes(q, task), ticks = ticks_of(q, task);
    q->choice[task] = variant;
    q->ticks += (ticks_of(q, task) - ticks) * q->runs[task];
    bytes = own_bytes(q, task) - bytes;
    for (uint32_t i = 0; i < q->length && x->makes.start[task] == x->makes.start[task + 1]; i++)
        if (q->task[q->items[i]] == task) /* rare: it makes nothing */
            add(q, i, i, bytes);
    if (x->makes.start[task] == x->makes.start[task + 1])
        return;
    const flat_refs *list = &q->refs[x->makes.items[x->makes.start[task]]];
    for (uint32_t i = 0; i < list->n; i++)
        if (list->refs[i].makes)
            add(q, q->place[list->refs[i].item], q->place[list->refs[i].item], bytes);
}

/* ---- Creation, loading and release ---- */

neap_status neap_flat_sequence_init(flat_sequence *q, neap_allocator *allocator, const problem *x,
                                    int64_t budget, uint32_t most_runs, neap_diag *diag)
{
    *q = (flat_sequence){.allocator = allocator,
                         .x = x,
                         .kernel = choose_kernel(),
                         .budget = budget - x->base_bytes,
                         .most_runs = most_runs,
                         .end = most_runs};
    neap_arena_init(&q->arena, allocator);
    bool ok =
        NEAP_TAKE(&q->arena, (size_t)most_runs + 1, q->items) &&
        NEAP_TAKE(&q->arena, (size_t)most_runs + 1, q->bytes) &&
        NEAP_TAKE(&q->arena, (size_t)most_runs + 1, q->task) &&
        NEAP_TAKE(&q->arena, (size_t)most_runs + 1, q->place) &&
        NEAP_TAKE(&q->arena, (size_t)most_runs + 1, q->in_place) &&
        NEAP_TAKE(&q->arena, most_runs, q->unused) && NEAP_TAKE(&q->arena, x->n_tensors, q->refs) &&
        NEAP_TAKE(&q->arena, x->n_tasks, q->runs) && NEAP_TAKE(&q->arena, x->n_tasks, q->choice) &&
        NEAP_TAKE(&q->arena, x->n_tasks, q->only) && NEAP_TAKE(&q->arena, x->n_tasks, q->again) &&
        NEAP_TAKE(&q->arena, x->n_tasks, q->again_at);
    return ok ? NEAP_OK : neap_fail_no_memory(diag);
}

void neap_flat_sequence_clear(flat_sequence *q)
{
    for (uint32_t t = 0; q->refs && t < q->x->n_tensors; t++)
        NEAP_DELETE(q->allocator, q->refs[t].capacity, q->refs[t].refs);
    if (q->x)
        neap_arena_clear(&q->arena);
    *q = (flat_sequence){0};
}

/* Nothing but the end, which uses the outputs. */
static void empty(flat_sequence *q)
{
    const problem *x = q->x;
    q->length = q->n_again = q->n_unused = 0;
    q->ticks = q->over = 0;
    memset(q->runs, 0, x->n_tasks * sizeof *q->runs);
    memset(q->in_place, 0, ((size_t)q->most_runs + 1) * sizeof *q->in_place);
    for (uint32_t i = q->most_runs; i-- > 0;)
        q->unused[q->n_unused++] = i;
    q->task[q->end] = NEAP_NONE;
    q->place[q->end] = 0;
    put_at(q, q->end, 0, 0);
    for (uint32_t t = 0; t < x->n_tensors; t++) {
        flat_refs *list = &q->refs[t];
        list->n = 0;
        if (!x->is_output[t])
            continue;
        if (list->capacity == 0 &&
            NEAP_RESERVE(q->allocator, 1, &list->refs, &list->capacity, NULL) != NEAP_OK)
            q->out_of_memory = true;
        else
            list->refs[list->n++] = (flat_ref){q->end, false};
    }
}

neap_status neap_flat_sequence_load(flat_sequence *q, const compute_list *list, neap_diag *diag)
{
    uint32_t n = list ? list->n : q->x->n_tasks;
    empty(q);
    for (uint32_t t = 0; t < q->x->n_tasks; t++)
        q->choice[t] = list && list->choice ? list->choice[t] : 0;
    for (uint32_t i = 0; i < n && !q->out_of_memory; i++)
        neap_flat_sequence_insert(q, list ? list->tasks[i] : i, i);
    return q->out_of_memory ? neap_fail_no_memory(diag) : NEAP_OK;
}
