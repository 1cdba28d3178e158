/*
 * neap_transfers_schedule: a backward pass decides how early tensors are fetched, a forward pass,
 * with the judge's clocks, decides how late they leave.
 *
 * Seen backwards, a fetch looks like an offload seen forwards: a copy starts when its reader is
 * passed, in order, and holds the tensor's memory until it ends; if there is not enough room, time
 * stands still until the oldest copy ends. A fetch at that position arrives in time if the engine
 * is free, so the backward pass finds the latest positions that are early enough.
 *
 * If both passes need the same room, the fetches get it. A tensor that would be fetched as soon as
 * it has left stays instead; without its copies the others are faster, so the attempt is repeated.
 * If the first attempt waits for copies, a second one first keeps everything that fits all the way:
 * less is moved, but with less slack. In a third one the offloads get the room: a tensor may leave
 * only so that another need not wait. The last attempt is random: which tensors stay, which pass
 * gets the room, and in which order copies start.
 *
 * In here position 0 is the start, and all others are one more than in the list.
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

/* Whether a transfer copies out: no; as soon as the tensor is made; after its last touch. */
enum { COPIES_NOT = 0, COPIES, COPIES_LATE };

struct transfer_scratch {
    neap_allocator *allocator;
    const problem *x;
    bool duplex;
    int64_t host_memory;           /* 0: no limit */
    neap_arena arena;              /* of the arrays by tensor and by task */
    int64_t *out_ticks, *in_ticks; /* by tensor */
    uint32_t *copied, stamp;       /* by tensor: the stamp of the pass that copied it out */
    uint32_t *last_made;           /* by task: the position of its last run */
    bool *needed;                  /* by tensor, in find_in_place */
    /* of the current call */
    uint32_t n, n_transfers;
    transfer *transfers;
    bool fetches_first; /* on an engine for both directions, also before copies out that start at
                           the same position */
    /* by position, the end included */
    neap_columns by_position;
    int64_t *room, *ticks;
    int64_t *own;     /* outputs and workspace: room that is available just before the position */
    int64_t *free;    /* room without the tensors that stay */
    int64_t *left;    /* room without those and the early fetches; at the end unlimited */
    int64_t *leaving; /* bytes of the tensors that are about to leave, by the last forward pass */
    uint32_t *place;
    byte_profile taken; /* the free room, negated */
    /* by transfer */
    neap_columns by_transfer;
    uint32_t *made;    /* the position that made the instance */
    uint32_t *by_made; /* transfers, sorted by `made` */
    uint32_t *due;     /* transfers, sorted by `before` */
    uint32_t *heap;
    uint32_t *rank; /* copies out start in this order, if they can */
    uint8_t *copies;
    uint32_t *queue; /* copies that hold memory, first in, first out */
    int64_t *end;    /* of its last copy */
    transfer *best;  /* as the best attempt left it */
};

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
    uint32_t n_all = problem_n_all(x);
    if (!NEAP_TAKE(&s->arena, n_all, s->out_ticks) || !NEAP_TAKE(&s->arena, n_all, s->in_ticks) ||
        !NEAP_TAKE(&s->arena, n_all, s->copied) || !NEAP_TAKE(&s->arena, x->n_tensors, s->needed) ||
        !NEAP_TAKE(&s->arena, x->n_tasks, s->last_made)) {
        neap_transfer_scratch_destroy(s);
        return neap_fail_no_memory(diag);
    }
    for (uint32_t t = 0; t < n_all; t++) {
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

/* ---- Preparation ---- */

static neap_status reserve(transfer_scratch *s, neap_diag *diag)
{
    NEAP_TRY(NEAP_RESERVE_COLUMNS(
        &s->by_position, s->allocator, (size_t)s->n + 2, diag, NEAP_COLUMN(&s->room),
        NEAP_COLUMN(&s->ticks), NEAP_COLUMN(&s->own), NEAP_COLUMN(&s->free), NEAP_COLUMN(&s->left),
        NEAP_COLUMN(&s->leaving), NEAP_COLUMN(&s->place)));
    NEAP_TRY(
        NEAP_RESERVE_COLUMNS(&s->by_transfer, s->allocator, s->n_transfers, diag,
                             NEAP_COLUMN(&s->made), NEAP_COLUMN(&s->by_made), NEAP_COLUMN(&s->due),
                             NEAP_COLUMN(&s->heap), NEAP_COLUMN(&s->rank), NEAP_COLUMN(&s->copies),
                             NEAP_COLUMN(&s->queue), NEAP_COLUMN(&s->end), NEAP_COLUMN(&s->best)));
    return neap_byte_profile_resize(&s->taken, s->allocator, s->n, diag);
}

/* Runs in place: their outputs take less. */
static void find_in_place(transfer_scratch *s, const compute_list *list)
{
    const problem *x = s->x;
    if (x->n_in_place == 0)
        return;
    memcpy(s->needed, x->is_output, x->n_tensors * sizeof *s->needed);
    for (uint32_t p = s->n; p-- > 1;) {
        uint32_t task = list->tasks[p - 1];
        if (x->in_place[task] != NEAP_NONE && !s->needed[x->in_place[task]])
            s->own[p] -= task_in_place_bytes(x, task);
        for (uint32_t i = x->makes.start[task]; i < x->makes.start[task + 1]; i++)
            s->needed[x->makes.items[i]] = false;
        for (uint32_t i = x->reads.start[task]; i < x->reads.start[task + 1]; i++)
            s->needed[x->reads.items[i]] = true;
    }
    for (uint32_t i = 0; i < s->n_transfers; i++)
        if (s->transfers[i].over)
            s->own[s->transfers[i].after] -= s->x->bytes[s->transfers[i].tensor];
}

/* Loads times and bytes by position; *work is the time of all computations. False if a clock could
   reach INT64_MAX. */
static bool load_positions(transfer_scratch *s, const compute_list *list, int64_t *work)
{
    const problem *x = s->x;
    *work = 0;
    s->ticks[0] = s->own[0] = 0;
    s->room[0] = INT64_MAX / 2;
    for (uint32_t p = 1; p < s->n; p++) {
        uint32_t task = list->tasks[p - 1], choice = list->choice ? list->choice[task] : 0;
        const task_variant *variant = &x->variants[x->variant_start[task] + choice];
        s->ticks[p] = variant->ticks;
        s->own[p] = x->made_bytes[task] + variant->workspace;
        if (!neap_add_i64(*work, variant->ticks, work))
            return false;
    }
    s->ticks[s->n] = s->own[s->n] = 0;
    s->left[s->n] = INT64_MAX / 2;
    int64_t all = *work;
    for (uint32_t i = 0; i < s->n_transfers; i++) {
        uint32_t t = s->transfers[i].tensor;
        if (!neap_add_i64(all, s->out_ticks[t], &all) || !neap_add_i64(all, s->in_ticks[t], &all))
            return false;
    }
    return all < INT64_MAX;
}

/* Counting sort: `order` gets the transfers by ascending key, at most n; it is stable. */
static void sort_by(transfer_scratch *s, const uint32_t *key, uint32_t *order)
{
    uint32_t *place = s->place, sum = 0;
    memset(place, 0, ((size_t)s->n + 1) * sizeof *place);
    for (uint32_t i = 0; i < s->n_transfers; i++)
        place[key[i]]++;
    for (uint32_t p = 0; p <= s->n; p++) {
        uint32_t count = place[p];
        place[p] = sum;
        sum += count;
    }
    for (uint32_t i = 0; i < s->n_transfers; i++)
        order[place[key[i]]++] = i;
}

/* The position that made what a transfer moves. */
static uint32_t find_made(const transfer_scratch *s, const transfer *t)
{
    const problem *x = s->x;
    if (!is_state(x, t->tensor))
        return s->last_made[x->producer[t->tensor]];
    return t->updated ? s->last_made[x->state_update[t->tensor - x->n_tensors]] : 0;
}

static void sort_transfers(transfer_scratch *s, const compute_list *list)
{
    uint32_t next = 0, *before = s->queue; /* not in use yet */
    for (uint32_t p = 0; p < s->n; p++) {
        if (p > 0)
            s->last_made[list->tasks[p - 1]] = p;
        for (; next < s->n_transfers && s->transfers[next].after <= p; next++)
            s->made[next] = find_made(s, &s->transfers[next]);
    }
    for (uint32_t i = 0; i < s->n_transfers; i++)
        before[i] = s->transfers[i].before;
    sort_by(s, before, s->due);
    sort_by(s, s->made, s->by_made);
}

/* ---- The backward pass ---- */

static int64_t later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Computes `free`. */
static void find_free(transfer_scratch *s)
{
    const int64_t *bytes = s->x->bytes;
    int64_t *taken = s->free, sum = 0;
    memset(taken, 0, ((size_t)s->n + 1) * sizeof *taken);
    for (uint32_t i = 0; i < s->n_transfers; i++) {
        const transfer *t = &s->transfers[i];
        if (!t->stays)
            continue;
        taken[t->after + 1] += bytes[t->tensor];
        taken[t->before] -= bytes[t->tensor];
    }
    for (uint32_t p = 0; p < s->n; p++) {
        sum += taken[p];
        taken[p] = s->room[p] - sum;
    }
}

/* Decides `fetched`, and keeps tensors that would be fetched at once; computes `left`. After
   leaving: the room that offloads take (`leaving`) is not available. */
static void pass_back(transfer_scratch *s, bool after_leaving)
{
    const int64_t *bytes = s->x->bytes;
    uint32_t head = 0, tail = 0, next_due = s->n_transfers, next_after = s->n_transfers;
    uint32_t n_last = 0; /* in the queue: written over at p, so fetched just behind it */
    int64_t clock = 0, engine = 0, held = 0;
    for (uint32_t p = s->n; p-- > 0;) {
        for (; next_due > 0 && s->transfers[s->due[next_due - 1]].before > p; next_due--) {
            uint32_t i = s->due[next_due - 1];
            transfer *t = &s->transfers[i];
            if (t->stays || t->ends)
                continue;
            s->end[i] = engine = later(clock, engine) + s->in_ticks[t->tensor];
            s->queue[tail++] = i;
            held += bytes[t->tensor];
            t->fetched = NEAP_NONE;
        }
        for (; next_after > 0 && s->transfers[next_after - 1].after >= p; next_after--) {
            transfer *t = &s->transfers[next_after - 1];
            if (t->stays || t->ends || t->fetched != NEAP_NONE)
                continue;
            if (t->over) {
                n_last++;
                continue;
            }
            if (t->leads) {
                t->fetched = p + 1;
                continue;
            }
            t->stays = true; /* it fits all the way */
            held -= bytes[t->tensor];
        }
        int64_t room = s->free[p] - (after_leaving ? s->leaving[p] : 0);
        while (head < tail) {
            transfer *t = &s->transfers[s->queue[head]];
            if (!t->stays) {
                if (s->end[s->queue[head]] > clock && held <= room && n_last == 0)
                    break;
                n_last -= t->over && t->after == p;
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

/* ---- The forward pass ---- */

typedef struct clocks {
    int64_t clock, engine[2];
    int64_t held;        /* by tensors that are freed once they are copied out */
    uint32_t head, tail; /* of the queue of these, sorted by the end of the copy */
    uint32_t n_ready;    /* size of the heap, by rank, of copies out that may start */
    uint32_t n_urgent;   /* of these, of tensors that are to leave now or are written over next */
    uint32_t next_made, next_after, next_over, next_written, next_fetch, next_due;
    uint32_t turn; /* of the next step */
} clocks;

/* Which transfers copy out: not those whose tensor an earlier one has copied, unless that one
   stays, and not those that lead. A second copy of an instance waits until the first transfer is
   over. A copy of state from before its update does not count after it. */
static void find_copies(transfer_scratch *s)
{
    s->stamp += 2;
    for (uint32_t i = 0; i < s->n_transfers; i++) {
        transfer *t = &s->transfers[i];
        t->copied = t->freed = NEAP_NONE;
        bool is_first = s->copied[t->tensor] < s->stamp + t->updated;
        t->copies_out = t->copies_out && (is_first || !t->over);
        s->copies[i] = is_first ? COPIES : t->copies_out ? COPIES_LATE : COPIES_NOT;
        if (t->leads)
            t->freed = 1;
        if (t->stays || t->leads)
            s->copies[i] = COPIES_NOT;
        if (!t->stays)
            s->copied[t->tensor] = s->stamp + t->updated;
    }
}

static void push_ready(transfer_scratch *s, clocks *k, uint32_t i)
{
    uint32_t *heap = s->heap, *rank = s->rank, at = k->n_ready++;
    for (; at > 0 && rank[heap[(at - 1) / 2]] > rank[i]; at = (at - 1) / 2)
        heap[at] = heap[(at - 1) / 2];
    heap[at] = i;
}

static uint32_t pop_ready(transfer_scratch *s, clocks *k)
{
    uint32_t *heap = s->heap, *rank = s->rank, at = 0;
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

/* The tensor is freed after position p or, if its copy has not ended, is queued for that. */
static void leave(transfer_scratch *s, clocks *k, uint32_t i, uint32_t p)
{
    transfer *t = &s->transfers[i];
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

/* Waits for the first copy of the queue and frees its tensor before position p. */
static void free_oldest(transfer_scratch *s, clocks *k, uint32_t p)
{
    uint32_t i = s->queue[k->head++];
    k->clock = later(k->clock, s->end[i]);
    k->held -= s->x->bytes[s->transfers[i].tensor];
    s->transfers[i].freed = p;
    s->transfers[i].free_turn = k->turn++;
}

static void free_ended(transfer_scratch *s, clocks *k, uint32_t p)
{
    while (k->head < k->tail && s->end[s->queue[k->head]] <= k->clock)
        free_oldest(s, k, p);
}

/* The bytes of the fetches that start before position p: due[next_fetch] .. due[end - 1]. */
static int64_t find_coming(transfer_scratch *s, const clocks *k, uint32_t p, uint32_t *end)
{
    int64_t bytes = 0;
    for (*end = k->next_fetch; *end < s->n_transfers; ++*end) {
        const transfer *t = &s->transfers[s->due[*end]];
        bool comes = !t->stays && !t->ends;
        if (comes && t->fetched != p)
            break;
        bytes += comes ? s->x->bytes[t->tensor] : 0;
    }
    return bytes;
}

/* Starts the fetches before position p, in order, as far as there is room; `waiting` bytes are
   about to be held by copies out. If there is no room, waits for copies out or stops. */
static void start_fetches(transfer_scratch *s, clocks *k, uint32_t p, int64_t waiting, bool wait)
{
    uint32_t end;
    int64_t room = find_coming(s, k, p, &end) + s->left[p] + s->own[p] - waiting;
    int64_t *engine = &k->engine[s->duplex];
    for (; k->next_fetch < end; k->next_fetch++) {
        uint32_t i = s->due[k->next_fetch];
        transfer *t = &s->transfers[i];
        if (t->stays || t->ends)
            continue;
        room -= s->x->bytes[t->tensor];
        if (!wait && (t->freed == NEAP_NONE || k->held > room))
            return;
        while (k->head < k->tail && (t->freed == NEAP_NONE || k->held > room))
            free_oldest(s, k, p);
        s->end[i] = *engine = later(k->clock, *engine) + s->in_ticks[t->tensor];
        t->fetch_turn = k->turn++;
    }
}

/* Starts the fetches before position p, each as soon as there is room, frees what p has no room
   for, and waits for copies of what p writes over, and for what it reads. */
static void arrive(transfer_scratch *s, clocks *k, uint32_t p)
{
    free_ended(s, k, p);
    start_fetches(s, k, p, 0, true);
    while (k->head < k->tail && k->held > s->left[p])
        free_oldest(s, k, p);
    for (; k->next_written < s->n_transfers && s->transfers[k->next_written].after <= p;
         k->next_written++)
        if (s->transfers[k->next_written].over && s->copies[k->next_written] != COPIES_NOT)
            k->clock = later(k->clock, s->end[k->next_written]);
    for (; k->next_due < k->next_fetch; k->next_due++) {
        const transfer *t = &s->transfers[s->due[k->next_due]];
        if (t->before > p)
            break;
        if (!t->stays && !t->ends)
            k->clock = later(k->clock, s->end[s->due[k->next_due]]);
    }
}

/* Adds to the heap what can be copied out after position p. */
static void make_ready(transfer_scratch *s, clocks *k, uint32_t p)
{
    for (; k->next_over < s->n_transfers && s->transfers[k->next_over].after <= p + 1;
         k->next_over++)
        k->n_urgent += s->transfers[k->next_over].over && s->copies[k->next_over] != COPIES_NOT &&
                       s->transfers[k->next_over].copied > p;
    for (; k->next_made < s->n_transfers && s->made[s->by_made[k->next_made]] <= p; k->next_made++)
        if (s->copies[s->by_made[k->next_made]] == COPIES)
            push_ready(s, k, s->by_made[k->next_made]);
    for (; k->next_after < s->n_transfers && s->transfers[k->next_after].after <= p;
         k->next_after++) {
        if (s->copies[k->next_after] == COPIES_LATE)
            push_ready(s, k, k->next_after);
        k->n_urgent +=
            s->copies[k->next_after] != COPIES_NOT && s->transfers[k->next_after].copied > p;
    }
}

/* Starts copies out after position p, and frees or queues what leaves there. */
static void depart(transfer_scratch *s, clocks *k, uint32_t p)
{
    uint32_t first = k->next_after;
    int64_t waiting = 0;
    make_ready(s, k, p);
    for (uint32_t i = first; i < k->next_after; i++) {
        const transfer *t = &s->transfers[i];
        if (s->copies[i] != COPIES_NOT && t->copied > p)
            waiting += s->x->bytes[t->tensor];
        else if (!t->stays && !t->leads)
            leave(s, k, i, p);
    }
    if (s->fetches_first && k->n_ready > 0) {
        free_ended(s, k, p + 1);
        start_fetches(s, k, p + 1, waiting, false);
    }
    int64_t next = k->clock + s->ticks[p + 1];
    while (k->n_ready > 0 && (k->n_urgent > 0 || k->engine[0] < next)) {
        uint32_t i = pop_ready(s, k);
        transfer *t = &s->transfers[i];
        s->end[i] = k->engine[0] = later(k->clock, k->engine[0]) + s->out_ticks[t->tensor];
        t->copied = p;
        t->copy_turn = k->turn++;
        k->n_urgent -= i < (t->over ? k->next_over : k->next_after);
    }
    for (uint32_t i = first; i < k->next_after; i++)
        if (s->copies[i] != COPIES_NOT && s->transfers[i].copied == p)
            leave(s, k, i, p);
}

/* The plan's makespan for the given `fetched`; decides `copied` and `freed`. */
static int64_t pass_front(transfer_scratch *s)
{
    clocks k = {0};
    find_copies(s);
    for (uint32_t p = 0; p < s->n; p++) {
        arrive(s, &k, p);
        s->leaving[p] = k.held;
        k.clock += s->ticks[p];
        depart(s, &k, p);
    }
    arrive(s, &k, s->n);
    while (k.head < k.tail) /* what ends on the host */
        free_oldest(s, &k, s->n);
    return later(k.clock, later(k.engine[0], k.engine[1]));
}

/* ---- Attempts ---- */

/* The makespan with the tensors that stay as they are. Leaving first: the offloads get the room, as
   if the others were fetched only when they are read. */
static int64_t attempt(transfer_scratch *s, bool leaving_first)
{
    find_free(s);
    if (leaving_first) {
        for (uint32_t i = 0; i < s->n_transfers; i++)
            s->transfers[i].fetched = s->transfers[i].before;
        memcpy(s->left, s->free, s->n * sizeof *s->left);
        pass_front(s);
    }
    pass_back(s, leaving_first);
    return pass_front(s);
}

/* Keeps what is fetched as soon as it has left; whether there was any. */
static bool keep_useless(transfer_scratch *s)
{
    bool any = false;
    for (uint32_t i = 0; i < s->n_transfers; i++) {
        transfer *t = &s->transfers[i];
        if (!t->stays && !t->leads && !t->ends && !t->over && t->freed >= t->fetched)
            t->stays = any = true;
    }
    return any;
}

static bool exceeds_host(transfer_scratch *s)
{
    int64_t bytes = 0;
    if (s->host_memory <= 0)
        return false;
    s->stamp += 2;
    for (uint32_t i = 0; i < s->n_transfers; i++) {
        uint32_t tensor = s->transfers[i].tensor;
        if (s->transfers[i].stays || s->copied[tensor] == s->stamp)
            continue;
        s->copied[tensor] = s->stamp;
        if (!neap_add_i64(bytes, s->x->bytes[tensor], &bytes) || bytes > s->host_memory)
            return true;
    }
    return false;
}

/* Keeps what would not be away at any position. */
static void keep_short(transfer_scratch *s)
{
    for (uint32_t i = 0; i < s->n_transfers; i++) {
        transfer *t = &s->transfers[i];
        t->stays = t->after + 1 >= t->before && !t->leads && !t->ends && !t->over;
    }
}

/* Keeps what fits all the way, the last to leave first; skips some if there are random numbers. */
static void keep_what_fits(transfer_scratch *s, uint64_t *random)
{
    uint32_t tight = 0; /* where one did not fit: the next is not likely to fit either */
    keep_short(s);
    find_free(s);
    for (uint32_t p = 0; p < s->n; p++)
        s->taken.bytes[p] = -s->free[p];
    neap_byte_profile_start(&s->taken);
    for (uint32_t i = s->n_transfers; i-- > 0;) {
        transfer *t = &s->transfers[i];
        int64_t bytes = s->x->bytes[t->tensor];
        if (t->stays || t->leads || t->ends || t->over ||
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

/* Saves the transfers if they are the best so far. */
static void offer(transfer_scratch *s, int64_t ticks, int64_t *best)
{
    if (ticks >= *best)
        return;
    *best = ticks;
    memcpy(s->best, s->transfers, s->n_transfers * sizeof *s->transfers);
}

/* Copies out in the order of the transfers, up to random shifts within a window. */
static void rank_copies(transfer_scratch *s, uint64_t *random, uint32_t window)
{
    for (uint32_t i = 0; i < s->n_transfers; i++)
        s->rank[i] = i + (window > 1 ? neap_random_below(random, window) : 0);
}

/* Random order of fetches that are due at the same position. */
static void shuffle_due(transfer_scratch *s, uint64_t *random)
{
    uint32_t *due = s->due;
    for (uint32_t first = 0, i = 1; i < s->n_transfers; i++) {
        if (s->transfers[due[i]].before != s->transfers[due[first]].before) {
            first = i;
            continue;
        }
        uint32_t other = first + neap_random_below(random, i - first + 1), moved = due[i];
        due[i] = due[other];
        due[other] = moved;
    }
}

/* A random attempt. */
static void try_random(transfer_scratch *s, uint64_t random, int64_t *best)
{
    uint32_t window = 1;
    while (window < 2 * s->n_transfers && neap_random_below(&random, 3) > 0)
        window *= 2;
    rank_copies(s, &random, window);
    if (neap_random_below(&random, 2) == 0)
        shuffle_due(s, &random);
    s->fetches_first = !s->duplex && neap_random_below(&random, 2) == 0;
    if (neap_random_below(&random, 2) == 0)
        keep_short(s);
    else
        keep_what_fits(s, &random);
    offer(s, attempt(s, neap_random_below(&random, 2) == 0), best);
}

/* From the list's positions to those in here (sign 1), and back (-1). */
static void shift(transfer_scratch *s, int sign)
{
    uint32_t by = sign > 0 ? 1 : UINT32_MAX;
    for (uint32_t i = 0; i < s->n_transfers; i++) {
        transfer *t = &s->transfers[i];
        t->after += by;
        t->before += by;
        t->copied += by;
        t->freed += by;
        t->fetched += by;
    }
}

static void schedule(transfer_scratch *s, uint64_t noise, int64_t work, int64_t *ticks)
{
    rank_copies(s, NULL, 1);
    keep_short(s);
    offer(s, attempt(s, false), ticks);
    if (*ticks > work) {
        int rounds = MOST_ROUNDS;
        keep_what_fits(s, NULL);
        do {
            offer(s, attempt(s, false), ticks);
        } while (*ticks > work && --rounds > 0 && keep_useless(s));
    }
    if (*ticks > work) {
        keep_short(s);
        offer(s, attempt(s, true), ticks);
    }
    if (*ticks > work && noise != 0)
        try_random(s, noise, ticks);
    memcpy(s->transfers, s->best, s->n_transfers * sizeof *s->transfers);
}

neap_status neap_transfers_schedule(transfer_scratch *s, const compute_list *list,
                                    const int64_t *room, uint64_t noise, int64_t *ticks,
                                    neap_diag *diag)
{
    int64_t work;
    s->n = list->n + 1;
    s->n_transfers = list->n_transfers;
    s->transfers = list->transfers;
    s->fetches_first = false;
    NEAP_TRY(reserve(s, diag));
    bool countable = load_positions(s, list, &work);
    *ticks = countable && s->n_transfers == 0 ? work : INT64_MAX;
    if (!countable || s->n_transfers == 0)
        return NEAP_OK;
    memcpy(s->room + 1, room, list->n * sizeof *room);
    for (uint32_t i = 0; i < s->n_transfers; i++) /* copies out may hold memory at the end */
        if (s->transfers[i].ends)
            s->left[s->n] = room[list->n];
    find_in_place(s, list);
    shift(s, 1);
    sort_transfers(s, list);
    schedule(s, noise, work, ticks);
    shift(s, -1);
    if (exceeds_host(s))
        *ticks = INT64_MAX;
    return NEAP_OK;
}
