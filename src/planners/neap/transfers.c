/*
 * neap_transfers_schedule: a pass from the back decides how early tensors come back, a pass from
 * the front, with the judge's clocks, how late they leave.
 *
 * Seen from the back, fetching is like leaving seen from the front: a copy begins when its reader
 * is passed, in order, holds the tensor's memory until it has ended, and where the room is short
 * time stands still until the oldest has. What is fetched no earlier than that arrives in time if
 * the engine is free; so the pass from the back finds the latest positions that are early enough.
 *
 * Where both want the same room, those that come back get it. A tensor that would be back as soon
 * as it has left stays; without its copies the others are faster, so the attempt is made again.
 * Where the first attempt waits, a second one first keeps all that has room all the way: then less
 * is moved, but with less slack. In a third one those that leave get the room: a tensor may go for
 * no other reason than that another need not wait. A last one draws what it does by chance: who
 * stays, who gets the room, and in which order copies begin.
 */
#include "planners/neap/transfers.h"

#include "base/checked.h"
#include "base/columns.h"
#include "base/fail.h"
#include "base/memory.h"
#include "base/random.h"
#include "planners/common/byte_profile.h"

#include <string.h>

enum { MOST_ROUNDS = 6 };

enum { COPIES_NOT = 0, COPIES, COPIES_LATE };

struct transfer_scratch {
    neap_allocator *allocator;
    const problem *x;
    bool duplex;
    int64_t host_memory;           /* 0: no limit */
    neap_arena arena;              /* of the arrays by tensor and by task */
    int64_t *out_ticks, *in_ticks; /* by tensor */
    uint32_t *copied, stamp;       /* by tensor: the stamp of the pass that copied it out */
    uint32_t *last_made;           /* by task: where it has run last */
    /* by position */
    neap_columns by_position;
    int64_t *ticks;
    int64_t *free;    /* room beside those that stay */
    int64_t *left;    /* room beside those and the early fetches */
    int64_t *leaving; /* bytes there of those that are to leave, as the last pass from the front
                         had it */
    uint32_t *place;
    byte_profile taken; /* the room that is free, negated */
    /* by transfer */
    neap_columns by_transfer;
    uint32_t *made;    /* the position that made the instance */
    uint32_t *by_made; /* in the order of that */
    uint32_t *due;     /* by `before` */
    uint32_t *heap;
    uint32_t *rank;  /* copies out begin by this, where they can */
    uint8_t *copies; /* whether it copies out: one of the above */
    uint32_t *queue; /* copies that hold memory, first in, first out */
    int64_t *end;    /* of its last copy */
    transfer *best;  /* as the best attempt left it */
};

/* One call. */
typedef struct schedule {
    transfer_scratch *s;
    const compute_list *list;
    const int64_t *room;
    transfer *transfers; /* the list's */
    uint32_t n_transfers;
    bool fetches_first; /* on an engine for both ways, before copies out that begin there, too */
} schedule;

neap_status neap_compute_list_copy(neap_allocator *allocator, const problem *x, compute_list *to,
                                   const compute_list *from, neap_diag *diag)
{
    if (!to->choice)
        NEAP_TRY(NEAP_NEW(allocator, x->n_tasks, &to->choice, diag));
    NEAP_TRY(NEAP_RESERVE(allocator, from->n, &to->tasks, &to->capacity, diag));
    NEAP_TRY(
        NEAP_RESERVE(allocator, from->n_transfers, &to->transfers, &to->transfer_capacity, diag));
    to->n = from->n;
    to->n_transfers = from->n_transfers;
    for (uint32_t i = 0; i < from->n; i++)
        to->tasks[i] = from->tasks[i];
    for (uint32_t i = 0; i < from->n_transfers; i++)
        to->transfers[i] = from->transfers[i];
    for (uint32_t t = 0; t < x->n_tasks; t++)
        to->choice[t] = from->choice[t];
    return NEAP_OK;
}

void neap_compute_list_clear(neap_allocator *allocator, const problem *x, compute_list *list)
{
    NEAP_DELETE(allocator, list->capacity, list->tasks);
    NEAP_DELETE(allocator, list->transfer_capacity, list->transfers);
    if (list->choice)
        NEAP_DELETE(allocator, x->n_tasks, list->choice);
    *list = (compute_list){0};
}

neap_status neap_transfer_scratch_create(neap_allocator *allocator, const problem *x,
                                         const neap_link *link, transfer_scratch **scratch,
                                         neap_diag *diag)
{
    allocator = neap_allocator_or_system(allocator);
    transfer_scratch *s;
    *scratch = NULL;
    NEAP_TRY(NEAP_NEW(allocator, 1, &s, diag));
    s->allocator = allocator;
    s->x = x;
    s->duplex = link->duplex;
    s->host_memory = link->host_memory;
    neap_arena_init(&s->arena, allocator);
    if (!NEAP_TAKE(&s->arena, x->n_tensors, s->out_ticks) ||
        !NEAP_TAKE(&s->arena, x->n_tensors, s->in_ticks) ||
        !NEAP_TAKE(&s->arena, x->n_tensors, s->copied) ||
        !NEAP_TAKE(&s->arena, x->n_tasks, s->last_made)) {
        neap_transfer_scratch_destroy(s);
        return neap_fail_no_memory(diag);
    }
    for (uint32_t t = 0; t < x->n_tensors; t++) {
        s->out_ticks[t] = neap_link_ticks(link, x->graph, true, x->bytes[t]);
        s->in_ticks[t] = neap_link_ticks(link, x->graph, false, x->bytes[t]);
    }
    *scratch = s;
    return NEAP_OK;
}

void neap_transfer_scratch_destroy(transfer_scratch *s)
{
    if (!s)
        return;
    neap_arena_clear(&s->arena);
    neap_columns_clear(&s->by_position, s->allocator);
    neap_columns_clear(&s->by_transfer, s->allocator);
    neap_byte_profile_clear(&s->taken, s->allocator);
    NEAP_DELETE(s->allocator, 1, s);
}

/* ---- Getting ready ---- */

static neap_status reserve(transfer_scratch *s, uint32_t n, uint32_t n_transfers, neap_diag *diag)
{
    NEAP_TRY(NEAP_RESERVE_COLUMNS(&s->by_position, s->allocator, (size_t)n + 2, diag,
                                  NEAP_COLUMN(&s->ticks), NEAP_COLUMN(&s->free),
                                  NEAP_COLUMN(&s->left), NEAP_COLUMN(&s->leaving),
                                  NEAP_COLUMN(&s->place)));
    NEAP_TRY(
        NEAP_RESERVE_COLUMNS(&s->by_transfer, s->allocator, n_transfers, diag,
                             NEAP_COLUMN(&s->made), NEAP_COLUMN(&s->by_made), NEAP_COLUMN(&s->due),
                             NEAP_COLUMN(&s->heap), NEAP_COLUMN(&s->rank), NEAP_COLUMN(&s->copies),
                             NEAP_COLUMN(&s->queue), NEAP_COLUMN(&s->end), NEAP_COLUMN(&s->best)));
    return neap_byte_profile_resize(&s->taken, s->allocator, n, diag);
}

/* Sums up the list's time. */
static int64_t load_ticks(const schedule *c)
{
    const problem *x = c->s->x;
    int64_t work = 0;
    for (uint32_t p = 0; p < c->list->n; p++) {
        uint32_t k = c->list->tasks[p], choice = c->list->choice ? c->list->choice[k] : 0;
        c->s->ticks[p] = x->variants[x->variant_start[k] + choice].ticks;
        if (!neap_add_i64(work, c->s->ticks[p], &work))
            return INT64_MAX;
    }
    return work;
}

/* `order` gets the transfers by ascending key, equal ones as they stand; keys up to n. */
static void sort_by(const schedule *c, const uint32_t *key, uint32_t *order)
{
    uint32_t *place = c->s->place, sum = 0;
    memset(place, 0, ((size_t)c->list->n + 1) * sizeof *place);
    for (uint32_t i = 0; i < c->n_transfers; i++)
        place[key[i]]++;
    for (uint32_t p = 0; p <= c->list->n; p++) {
        uint32_t count = place[p];
        place[p] = sum;
        sum += count;
    }
    for (uint32_t i = 0; i < c->n_transfers; i++)
        order[place[key[i]]++] = i;
}

static void sort_transfers(const schedule *c)
{
    transfer_scratch *s = c->s;
    uint32_t next = 0, *before = s->queue; /* not in use yet */
    for (uint32_t p = 0; p < c->list->n; p++) {
        s->last_made[c->list->tasks[p]] = p;
        for (; next < c->n_transfers && c->transfers[next].after <= p; next++)
            s->made[next] = s->last_made[s->x->producer[c->transfers[next].tensor]];
    }
    for (uint32_t i = 0; i < c->n_transfers; i++)
        before[i] = c->transfers[i].before;
    sort_by(c, before, s->due);
    sort_by(c, s->made, s->by_made);
}

/* Whether no clock can pass 2^63. */
static bool is_countable(const schedule *c, int64_t work)
{
    const transfer_scratch *s = c->s;
    bool fine = work < INT64_MAX;
    for (uint32_t i = 0; i < c->n_transfers && fine; i++) {
        uint32_t t = c->transfers[i].tensor;
        fine = neap_add_i64(work, s->out_ticks[t], &work) &&
               neap_add_i64(work, s->in_ticks[t], &work) && work < INT64_MAX;
    }
    return fine;
}

/* ---- From the back ---- */

static int64_t later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Room beside those that stay. */
static void find_free(const schedule *c)
{
    const problem *x = c->s->x;
    int64_t *taken = c->s->free, sum = 0;
    uint32_t n = c->list->n;
    memset(taken, 0, ((size_t)n + 1) * sizeof *taken);
    for (uint32_t i = 0; i < c->n_transfers; i++) {
        const transfer *t = &c->transfers[i];
        if (!t->stays)
            continue;
        taken[t->after + 1] += x->bytes[t->tensor];
        taken[t->before] -= x->bytes[t->tensor];
    }
    for (uint32_t p = 0; p < n; p++) {
        sum += taken[p];
        taken[p] = c->room[p] - sum;
    }
}

/* Decides `fetched`, and that what would come back at once stays, beside those that leave if these
 * go first; leaves `left`. */
static void pass_back(const schedule *c, bool after_leaving)
{
    transfer_scratch *s = c->s;
    const int64_t *bytes = s->x->bytes;
    uint32_t head = 0, tail = 0, next_due = c->n_transfers, next_after = c->n_transfers;
    int64_t clock = 0, engine = 0, held = 0;
    for (uint32_t p = c->list->n; p-- > 0;) {
        for (; next_due > 0 && c->transfers[s->due[next_due - 1]].before > p; next_due--) {
            uint32_t i = s->due[next_due - 1];
            transfer *t = &c->transfers[i];
            if (t->stays)
                continue;
            s->end[i] = engine = later(clock, engine) + s->in_ticks[t->tensor];
            s->queue[tail++] = i;
            held += bytes[t->tensor];
            t->fetched = NEAP_NONE;
        }
        for (; next_after > 0 && c->transfers[next_after - 1].after >= p; next_after--) {
            transfer *t = &c->transfers[next_after - 1];
            if (t->stays || t->fetched != NEAP_NONE)
                continue;
            t->stays = true; /* it has the room all the way */
            held -= bytes[t->tensor];
        }
        int64_t room = s->free[p] - (after_leaving ? s->leaving[p] : 0);
        while (head < tail) {
            transfer *t = &c->transfers[s->queue[head]];
            if (!t->stays) {
                if (s->end[s->queue[head]] > clock && held <= room)
                    break;
                clock = later(clock, s->end[s->queue[head]]);
                held -= bytes[t->tensor];
                t->fetched = p + 1;
            }
            head++;
        }
        s->left[p] = s->free[p] - held;
        clock += s->ticks[p];
    }
}

/* ---- From the front ---- */

typedef struct clocks {
    int64_t clock, engine[2];
    int64_t held;        /* by copies out whose tensors are to be freed */
    uint32_t head, tail; /* of the queue of these, by the end of the copy */
    uint32_t n_ready;    /* of a heap of transfers by rank: copies to begin */
    uint32_t n_urgent;   /* of those whose tensors are to leave now, copies to begin */
    uint32_t next_made, next_after, next_fetch, next_due;
    uint32_t turn; /* of the next step */
} clocks;

/* Which transfers copy out: a copy that an earlier one left is enough, unless it stays. A second
 * copy of an instance waits until the first transfer is over. */
static void find_copies(const schedule *c)
{
    transfer_scratch *s = c->s;
    s->stamp++;
    for (uint32_t i = 0; i < c->n_transfers; i++) {
        transfer *t = &c->transfers[i];
        t->copied = t->freed = NEAP_NONE;
        bool is_first = s->copied[t->tensor] != s->stamp;
        s->copies[i] = t->stays        ? COPIES_NOT
                       : is_first      ? COPIES
                       : t->copies_out ? COPIES_LATE
                                       : COPIES_NOT;
        if (!t->stays)
            s->copied[t->tensor] = s->stamp;
    }
}

static void push_ready(const schedule *c, clocks *k, uint32_t i)
{
    uint32_t *heap = c->s->heap, *rank = c->s->rank, at = k->n_ready++;
    for (; at > 0 && rank[heap[(at - 1) / 2]] > rank[i]; at = (at - 1) / 2)
        heap[at] = heap[(at - 1) / 2];
    heap[at] = i;
}

static uint32_t pop_ready(const schedule *c, clocks *k)
{
    uint32_t *heap = c->s->heap, *rank = c->s->rank, at = 0;
    uint32_t top = heap[0], last = heap[--k->n_ready];
    for (uint32_t child; (child = 2 * at + 1) < k->n_ready; at = child) {
        if (child + 1 < k->n_ready && rank[heap[child + 1]] < rank[heap[child]])
            child++;
        if (rank[heap[child]] > rank[last])
            break;
        heap[at] = heap[child];
    }
    heap[at] = last;
    return top;
}

/* Behind position p the tensor is to be freed. */
static void leave(const schedule *c, clocks *k, uint32_t i, uint32_t p)
{
    transfer_scratch *s = c->s;
    transfer *t = &c->transfers[i];
    if (s->copies[i] == COPIES_NOT || s->end[i] <= k->clock) {
        t->freed = p + 1;
        t->free_turn = k->turn++;
        return;
    }
    t->freed = NEAP_NONE;
    uint32_t at = k->tail++;
    for (; at > k->head && s->end[s->queue[at - 1]] > s->end[i]; at--)
        s->queue[at] = s->queue[at - 1];
    s->queue[at] = i;
    k->held += s->x->bytes[t->tensor];
}

/* Frees the oldest copy before position p. */
static void free_oldest(const schedule *c, clocks *k, uint32_t p)
{
    uint32_t i = c->s->queue[k->head++];
    k->clock = later(k->clock, c->s->end[i]);
    k->held -= c->s->x->bytes[c->transfers[i].tensor];
    c->transfers[i].freed = p;
    c->transfers[i].free_turn = k->turn++;
}

static void free_ended(const schedule *c, clocks *k, uint32_t p)
{
    while (k->head < k->tail && c->s->end[c->s->queue[k->head]] <= k->clock)
        free_oldest(c, k, p);
}

/* What the computation at p makes and scratches: room that is there just before it. */
static int64_t own_bytes(const schedule *c, uint32_t p)
{
    const problem *x = c->s->x;
    if (p >= c->list->n)
        return 0;
    uint32_t task = c->list->tasks[p], choice = c->list->choice ? c->list->choice[task] : 0;
    return x->made_bytes[task] + x->variants[x->variant_start[task] + choice].workspace;
}

static void start_fetch(const schedule *c, clocks *k, uint32_t i)
{
    transfer_scratch *s = c->s;
    int64_t *engine = &k->engine[s->duplex];
    s->end[i] = *engine = later(k->clock, *engine) + s->in_ticks[c->transfers[i].tensor];
    c->transfers[i].fetch_turn = k->turn++;
}

/* The fetches that start before position p are due[next_fetch] .. due[end - 1]; their bytes. */
static int64_t find_coming(const schedule *c, const clocks *k, uint32_t p, uint32_t *end)
{
    int64_t bytes = 0;
    for (*end = k->next_fetch; *end < c->n_transfers; ++*end) {
        const transfer *t = &c->transfers[c->s->due[*end]];
        if (!t->stays && t->fetched != p)
            break;
        bytes += t->stays ? 0 : c->s->x->bytes[t->tensor];
    }
    return bytes;
}

/* Room while position p runs, beside all but those that leave; at the end it is enough. */
static int64_t room_at(const schedule *c, uint32_t p)
{
    return p < c->list->n ? c->s->left[p] : INT64_MAX / 2;
}

/* Starts the fetches before position p, in order, that fit beside those that leave: `waiting` bytes
 * of these are not held yet. Frees what they need, if that is wanted; else stops there. */
static void start_fetches(const schedule *c, clocks *k, uint32_t p, int64_t waiting, bool wait)
{
    transfer_scratch *s = c->s;
    uint32_t end;
    int64_t coming = find_coming(c, k, p, &end);
    if (k->next_fetch == end)
        return;
    int64_t room = room_at(c, p) + own_bytes(c, p) + coming - waiting;
    for (; k->next_fetch < end; k->next_fetch++) {
        uint32_t i = s->due[k->next_fetch];
        const transfer *t = &c->transfers[i];
        if (t->stays)
            continue;
        room -= s->x->bytes[t->tensor];
        if (!wait && (t->freed == NEAP_NONE || k->held > room))
            return;
        while (k->head < k->tail && (t->freed == NEAP_NONE || k->held > room))
            free_oldest(c, k, p);
        start_fetch(c, k, i);
    }
}

/* Starts the fetches before position p, each as soon as there is room, between the frees that p
 * needs, and waits for those that it reads. */
static void arrive(const schedule *c, clocks *k, uint32_t p)
{
    transfer_scratch *s = c->s;
    free_ended(c, k, p);
    start_fetches(c, k, p, 0, true);
    while (k->head < k->tail && k->held > room_at(c, p))
        free_oldest(c, k, p);
    for (; k->next_due < k->next_fetch; k->next_due++) {
        const transfer *t = &c->transfers[s->due[k->next_due]];
        if (t->before > p)
            break;
        if (!t->stays)
            k->clock = later(k->clock, s->end[s->due[k->next_due]]);
    }
}

/* Makes ready what can be copied out from behind position p on. */
static void make_ready(const schedule *c, clocks *k, uint32_t p)
{
    transfer_scratch *s = c->s;
    for (; k->next_made < c->n_transfers && s->made[s->by_made[k->next_made]] <= p; k->next_made++)
        if (s->copies[s->by_made[k->next_made]] == COPIES)
            push_ready(c, k, s->by_made[k->next_made]);
    for (; k->next_after < c->n_transfers && c->transfers[k->next_after].after <= p;
         k->next_after++) {
        if (s->copies[k->next_after] == COPIES_LATE)
            push_ready(c, k, k->next_after);
        k->n_urgent +=
            s->copies[k->next_after] != COPIES_NOT && c->transfers[k->next_after].copied > p;
    }
}

/* Copies out that begin behind position p, and what is to be freed from there on. */
static void depart(const schedule *c, clocks *k, uint32_t p)
{
    transfer_scratch *s = c->s;
    uint32_t first = k->next_after;
    int64_t waiting = 0;
    make_ready(c, k, p);
    for (uint32_t i = first; i < k->next_after; i++) {
        const transfer *t = &c->transfers[i];
        if (s->copies[i] != COPIES_NOT && t->copied > p)
            waiting += s->x->bytes[t->tensor];
        else if (!t->stays)
            leave(c, k, i, p);
    }
    if (c->fetches_first && k->n_ready > 0) {
        free_ended(c, k, p + 1);
        start_fetches(c, k, p + 1, waiting, false);
    }
    int64_t next = p + 1 < c->list->n ? k->clock + s->ticks[p + 1] : k->clock;
    while (k->n_ready > 0 && (k->n_urgent > 0 || k->engine[0] < next)) {
        uint32_t i = pop_ready(c, k);
        transfer *t = &c->transfers[i];
        s->end[i] = k->engine[0] = later(k->clock, k->engine[0]) + s->out_ticks[t->tensor];
        t->copied = p;
        t->copy_turn = k->turn++;
        k->n_urgent -= i < k->next_after;
    }
    for (uint32_t i = first; i < k->next_after; i++)
        if (s->copies[i] != COPIES_NOT && c->transfers[i].copied == p)
            leave(c, k, i, p);
}

/* The plan's makespan, with `fetched` as it stands; decides `copied` and `freed`. */
static int64_t pass_front(const schedule *c)
{
    transfer_scratch *s = c->s;
    clocks k = {0};
    uint32_t n = c->list->n;
    find_copies(c);
    for (uint32_t p = 0; p < n; p++) {
        arrive(c, &k, p);
        s->leaving[p] = k.held;
        k.clock += s->ticks[p];
        depart(c, &k, p);
    }
    arrive(c, &k, n);
    return later(k.clock, later(k.engine[0], k.engine[1]));
}

/* ---- Attempts ---- */

static int64_t attempt(const schedule *c)
{
    find_free(c);
    pass_back(c, false);
    return pass_front(c);
}

/* Those that leave get the room, as if the others came back when they are read. */
static int64_t attempt_leaving_first(const schedule *c)
{
    transfer_scratch *s = c->s;
    find_free(c);
    for (uint32_t i = 0; i < c->n_transfers; i++)
        c->transfers[i].fetched = c->transfers[i].before;
    memcpy(s->left, s->free, c->list->n * sizeof *s->left);
    pass_front(c);
    pass_back(c, true);
    return pass_front(c);
}

/* What is fetched as soon as it has left need not leave. */
static bool keep_useless(const schedule *c)
{
    bool any = false;
    for (uint32_t i = 0; i < c->n_transfers; i++) {
        transfer *t = &c->transfers[i];
        if (t->stays || t->freed < t->fetched)
            continue;
        t->stays = any = true;
    }
    return any;
}

static bool exceeds_host(const schedule *c)
{
    transfer_scratch *s = c->s;
    int64_t bytes = 0;
    if (s->host_memory <= 0)
        return false;
    s->stamp++;
    for (uint32_t i = 0; i < c->n_transfers; i++) {
        uint32_t tensor = c->transfers[i].tensor;
        if (c->transfers[i].stays || s->copied[tensor] == s->stamp)
            continue;
        s->copied[tensor] = s->stamp;
        if (!neap_add_i64(bytes, s->x->bytes[tensor], &bytes) || bytes > s->host_memory)
            return true;
    }
    return false;
}

/* Keeps what would not be away at any position. */
static void keep_short(const schedule *c)
{
    for (uint32_t i = 0; i < c->n_transfers; i++)
        c->transfers[i].stays = c->transfers[i].after + 1 >= c->transfers[i].before;
}

/* Keeps what has room all the way, the last to leave first; not all of it, where drawn. */
static void keep_what_fits(const schedule *c, uint64_t *random)
{
    transfer_scratch *s = c->s;
    uint32_t tight = 0; /* where one did not fit: the next will most likely not either */
    keep_short(c);
    find_free(c);
    for (uint32_t p = 0; p < c->list->n; p++)
        s->taken.bytes[p] = -s->free[p];
    neap_byte_profile_start(&s->taken);
    for (uint32_t i = c->n_transfers; i-- > 0;) {
        transfer *t = &c->transfers[i];
        int64_t bytes = s->x->bytes[t->tensor];
        if (t->stays ||
            (t->after < tight && tight < t->before && byte_profile_at(&s->taken, tight) > -bytes) ||
            (random && neap_random_below(random, 3) == 0))
            continue;
        uint32_t p = neap_byte_profile_first_over(&s->taken, t->after + 1, t->before, -bytes);
        if (p < t->before) {
            tight = p;
            continue;
        }
        t->stays = true;
        neap_byte_profile_add(&s->taken, t->after + 1, t->before, bytes);
    }
}

static void offer(const schedule *c, int64_t ticks, int64_t *best)
{
    if (ticks >= *best)
        return;
    *best = ticks;
    memcpy(c->s->best, c->transfers, c->n_transfers * sizeof *c->transfers);
}

/* Tries with those that stay, until no more of them do. */
static void improve(const schedule *c, int rounds, int64_t work, int64_t *best)
{
    do {
        offer(c, attempt(c), best);
    } while (*best > work && --rounds > 0 && keep_useless(c));
}

static void rank_copies(const schedule *c, uint64_t *random, uint32_t window)
{
    for (uint32_t i = 0; i < c->n_transfers; i++)
        c->s->rank[i] = i + (window > 1 ? neap_random_below(random, window) : 0);
}

/* Those that are due at one position come back in any order. */
static void shuffle_due(const schedule *c, uint64_t *random)
{
    uint32_t *due = c->s->due;
    for (uint32_t first = 0, i = 1; i < c->n_transfers; i++) {
        if (c->transfers[due[i]].before != c->transfers[due[first]].before) {
            first = i;
            continue;
        }
        uint32_t other = first + neap_random_below(random, i - first + 1), moved = due[i];
        due[i] = due[other];
        due[other] = moved;
    }
}

/* Some way to do it. */
static void wander(schedule *c, uint64_t random, int64_t *best)
{
    uint32_t window = 1;
    while (window < 2 * c->n_transfers && neap_random_below(&random, 3) > 0)
        window *= 2;
    rank_copies(c, &random, window);
    if (neap_random_below(&random, 2) == 0)
        shuffle_due(c, &random);
    c->fetches_first = !c->s->duplex && neap_random_below(&random, 2) == 0;
    if (neap_random_below(&random, 2) == 0)
        keep_short(c);
    else
        keep_what_fits(c, &random);
    offer(c, neap_random_below(&random, 2) ? attempt(c) : attempt_leaving_first(c), best);
}

neap_status neap_transfers_schedule(transfer_scratch *scratch, const compute_list *list,
                                    const int64_t *room, uint64_t noise, int64_t *ticks,
                                    neap_diag *diag)
{
    uint32_t n_transfers = list->n_transfers;
    transfer *transfers = list->transfers;
    schedule c = {.s = scratch,
                  .list = list,
                  .room = room,
                  .transfers = transfers,
                  .n_transfers = n_transfers};
    NEAP_TRY(reserve(scratch, list->n, n_transfers, diag));
    int64_t work = load_ticks(&c);
    *ticks = work;
    if (n_transfers == 0)
        return NEAP_OK;
    *ticks = INT64_MAX;
    if (!is_countable(&c, work)) {
        for (uint32_t i = 0; i < n_transfers; i++) {
            transfers[i].stays = false;
            transfers[i].copied = transfers[i].after;
            transfers[i].freed = transfers[i].after + 1;
            transfers[i].fetched = transfers[i].before;
            transfers[i].copy_turn = transfers[i].free_turn = transfers[i].fetch_turn = 0;
        }
        return NEAP_OK;
    }
    sort_transfers(&c);
    rank_copies(&c, NULL, 1);
    keep_short(&c);
    improve(&c, 1, work, ticks);
    if (*ticks > work) {
        keep_what_fits(&c, NULL);
        improve(&c, MOST_ROUNDS, work, ticks);
    }
    if (*ticks > work) {
        keep_short(&c);
        offer(&c, attempt_leaving_first(&c), ticks);
    }
    if (*ticks > work && noise != 0)
        wander(&c, noise, ticks);
    memcpy(transfers, scratch->best, n_transfers * sizeof *transfers);
    if (exceeds_host(&c))
        *ticks = INT64_MAX;
    return NEAP_OK;
}
