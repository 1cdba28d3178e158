#include "planners/neap/bound.h"

#include "planners/neap/program_search.h"

#include "base/clock.h"
#include "base/fail.h"
#include "base/memory.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

enum {
    FIRST_BLOCKS = 16,
    SLICE_WORK = 2000000, /* some hundredths of a second */
    LEAST_POSITIONS = 6,
    MOST_POSITIONS = 200, /* of one scope */
    MOST_BLOCKS = FIRST_BLOCKS + 3 * MOST_POSITIONS,
    MOST_POSITION_WORK = 60000000 /* about half a second */
};

/* A range of positions in the list of tight tasks. */
typedef struct block {
    uint32_t begin, end;
    uint32_t heaviest; /* index in the list */
    double estimate;
    double price;
    bool tried; /* the heaviest position was tried */
} block;

/* Best-first search for the position of the best cut: positions near a good cut are tried next. */
typedef struct position_search {
    cut_scope scope;
    block blocks[MOST_BLOCKS]; /* splitting a block that was tried adds at most 3 */
    uint32_t n_blocks;
    int64_t best_ticks;
    double best_price;
    uint32_t best_position;
    uint32_t n_tried;
    uint64_t work;
    bool done;
} position_search;

struct bound {
    neap_allocator *allocator;
    neap_arena arena;
    const problem *x;
    int64_t budget;
    cut *cut;
    uint32_t n_tight;
    uint32_t *tight;  /* tasks that may prove something: the natural order exceeds the budget */
    int64_t *natural; /* by task: bytes in the natural order */
    position_search search[2];  /* by scope */
    program_search programs[2]; /* by scope */
    cut_scope next_scope;       /* of a program */
    double end;                 /* neap_bound_set_end; 0: never */
    int64_t grain;              /* the times of all plans are multiples of it */
    uint8_t *fates, *loose;
    bound_figures figures;
    /* The thread. */
    bool has_thread;
    pthread_t thread;
    bool (*stop)(void *context);
    void *context;
    neap_status status;
    neap_diag diag;
    atomic_bool ends; /* the thread must end */
    pthread_mutex_t lock;
    bound_figures published; /* under the lock; after the last complete slice */
    uint8_t *published_fates, *published_loose;
};

/* ---- Creation ---- */

/* Bytes in the natural order, where every tensor is live from its producer to its last reader. If
   all state begins on the host, every task is a moment worth a try. */
static void list_tight(bound *b)
{
    const problem *x = b->x;
    const cut_choices *choices = neap_cut_choices(b->cut);
    int64_t copies = neap_moving_state_least_ticks(&choices->moving, choices->duplex);
    int64_t *bytes = b->natural, live = x->base_bytes + x->state_bytes;
    for (uint32_t s = 0; s < x->n_tensors; s++) {
        uint32_t last = x->producer[s];
        if (x->readers.start[s + 1] > x->readers.start[s])
            last = x->readers.items[x->readers.start[s + 1] - 1];
        bytes[x->producer[s]] += x->bytes[s];
        if (!x->is_output[s] && last + 1 < x->n_tasks)
            bytes[last + 1] -= x->bytes[s];
    }
    for (uint32_t k = 0; k < x->n_tasks; k++) {
        live += bytes[k];
        bytes[k] = live + x->variants[x->variant_start[k]].workspace;
        if (bytes[k] > b->budget || copies > 0)
            b->tight[b->n_tight++] = k;
    }
}

static void add_block(const bound *b, position_search *s, uint32_t begin, uint32_t end,
                      double estimate, double price)
{
    if (begin >= end)
        return;
    block new = {begin, end, begin, estimate, price, false};
    for (uint32_t i = begin; i < end; i++)
        if (b->natural[b->tight[i]] > b->natural[b->tight[new.heaviest]])
            new.heaviest = i;
    s->blocks[s->n_blocks++] = new;
}

/* The first blocks have estimates beyond those of all others; the heaviest is first. */
static void start_search(bound *b, cut_scope scope)
{
    position_search *s = &b->search[scope];
    uint64_t n = b->n_tight;
    for (uint64_t i = 0; i < FIRST_BLOCKS; i++)
        add_block(b, s, (uint32_t)(n * i / FIRST_BLOCKS), (uint32_t)(n * (i + 1) / FIRST_BLOCKS), 0,
                  0);
    for (uint32_t i = 0; i < s->n_blocks; i++)
        s->blocks[i].estimate = 1e30 * (double)b->natural[b->tight[s->blocks[i].heaviest]];
    s->scope = scope;
    s->best_ticks = b->figures.any_ticks;
    s->best_position = NEAP_NONE;
    s->done = n == 0;
}

/* The greatest common divisor of all times. */
static int64_t find_grain(const problem *x)
{
    int64_t grain = 0;
    for (uint32_t v = 0; v < x->variant_start[x->n_tasks]; v++)
        for (int64_t rest = x->variants[v].ticks; rest != 0;) {
            int64_t next = grain % rest;
            grain = rest;
            rest = next;
        }
    return grain > 0 ? grain : 1;
}

static bool allocate(bound *b, const neap_link *link)
{
    size_t tasks = b->x->n_tasks, tensors = b->x->n_tensors;
    return NEAP_TAKE(&b->arena, tasks, b->tight) && NEAP_TAKE(&b->arena, tasks, b->natural) &&
           NEAP_TAKE(&b->arena, tensors, b->fates) && NEAP_TAKE(&b->arena, tensors, b->loose) &&
           NEAP_TAKE(&b->arena, tensors, b->published_fates) &&
           NEAP_TAKE(&b->arena, tensors, b->published_loose) &&
           (b->cut = neap_cut_create(&b->arena, b->x, b->budget, link)) != NULL;
}

static bool init_programs(bound *b, cut_scope scope)
{
    bool ready = neap_program_search_init(&b->programs[scope], &b->arena, b->x, scope, b->budget,
                                          neap_cut_choices(b->cut), b->natural);
    b->programs[scope].done = b->n_tight == 0;
    return ready;
}

neap_status neap_bound_create(neap_allocator *allocator, const problem *x, int64_t budget,
                              const neap_link *link, bound **result, neap_diag *diag)
{
    bound *b;
    *result = NULL;
    NEAP_TRY(NEAP_NEW(allocator, 1, &b, diag));
    b->allocator = allocator;
    b->x = x;
    b->budget = budget;
    neap_arena_init(&b->arena, allocator);
    if (pthread_mutex_init(&b->lock, NULL) != 0) {
        NEAP_DELETE(allocator, 1, b);
        return neap_fail_no_memory(diag);
    }
    bool has_link = link && link->out_bandwidth > 0 && link->in_bandwidth > 0;
    bool ready = allocate(b, link);
    if (ready)
        list_tight(b);
    if (!ready || !init_programs(b, CUT_ANY_ORDER) || !init_programs(b, CUT_GRAPH_ORDER)) {
        neap_bound_destroy(b);
        return neap_fail_no_memory(diag);
    }
    const cut_choices *choices = neap_cut_choices(b->cut);
    int64_t ticks = neap_moving_state_least_ticks(&choices->moving, choices->duplex);
    ticks = ticks > x->least_ticks ? ticks : x->least_ticks;
    b->figures = b->published = (bound_figures){.any_ticks = ticks,
                                                .order_ticks = ticks,
                                                .done = b->n_tight == 0,
                                                .position = NEAP_NONE,
                                                .fates = b->fates,
                                                .loose = b->loose};
    b->next_scope = CUT_GRAPH_ORDER;
    b->grain = has_link ? 1 : find_grain(x);
    start_search(b, CUT_ANY_ORDER);
    start_search(b, CUT_GRAPH_ORDER);
    *result = b;
    return NEAP_OK;
}

void neap_bound_destroy(bound *b)
{
    neap_diag diag;
    if (!b)
        return;
    neap_bound_end_thread(b, &diag);
    pthread_mutex_destroy(&b->lock);
    neap_arena_clear(&b->arena);
    NEAP_DELETE(b->allocator, 1, b);
}

void neap_bound_set_end(bound *b, double end)
{
    b->end = end;
}

/* Until the end, a little at least; 0: there is none. */
static double seconds_left(const bound *b)
{
    double left = b->end - neap_clock_seconds();
    return b->end <= 0 ? 0 : left > 0.01 ? left : 0.01;
}

const bound_figures *neap_bound_state(const bound *b)
{
    return &b->figures;
}

/* ---- Positions ---- */

/* Rounds up to the grain. Returns whether the bound on plans in the graph's order rises. */
static bool take_ticks(bound *b, cut_scope scope, int64_t ticks)
{
    if (ticks < INT64_MAX - b->grain)
        ticks += (b->grain - ticks % b->grain) % b->grain;
    if (scope == CUT_ANY_ORDER && ticks > b->figures.any_ticks)
        b->figures.any_ticks = ticks;
    if (ticks <= b->figures.order_ticks)
        return false;
    b->figures.order_ticks = ticks;
    return true;
}

static void take_answer(bound *b, position_search *s, uint32_t task, const cut_answer *answer)
{
    if (answer->infeasible) {
        b->figures.infeasible = true;
        b->figures.none_fits |= s->scope == CUT_ANY_ORDER;
        b->figures.done = true;
        return;
    }
    if (answer->ticks <= s->best_ticks)
        return;
    s->best_ticks = answer->ticks;
    s->best_price = answer->price;
    s->best_position = task;
    if (take_ticks(b, s->scope, answer->ticks)) {
        b->figures.position = task;
        neap_cut_fates(b->cut, b->fates, b->loose);
    }
}

/* The most promising block that is untried or can be split; NULL: none. */
static block *best_block(position_search *s)
{
    block *best = NULL;
    for (uint32_t i = 0; i < s->n_blocks; i++) {
        block *k = &s->blocks[i];
        bool has_work = !k->tried || k->end - k->begin > 1;
        if (has_work && (!best || k->estimate > best->estimate))
            best = k;
    }
    return best;
}

/* Replaces a block by two on either side of its heaviest position. */
static void split_block(bound *b, position_search *s, block *old)
{
    block k = *old;
    *old = s->blocks[--s->n_blocks];
    uint32_t left = k.begin + (k.heaviest - k.begin) / 2;
    uint32_t right = k.heaviest + 1 + (k.end - k.heaviest - 1) / 2;
    const uint32_t ends[] = {k.begin, left, k.heaviest, k.heaviest + 1, right, k.end};
    for (int i = 0; i < 5; i++)
        if (i != 2)
            add_block(b, s, ends[i], ends[i + 1], k.estimate, k.price);
}

/* Tries one position or splits one block. */
static void step_positions(bound *b, position_search *s, const cut_watch *watch)
{
    block *k = best_block(s);
    bool enough = s->n_tried >= LEAST_POSITIONS && s->work > MOST_POSITION_WORK;
    if (!k || s->n_tried >= MOST_POSITIONS || enough) {
        s->done = true;
        return;
    }
    if (k->tried) {
        split_block(b, s, k);
        return;
    }
    uint32_t task = b->tight[k->heaviest];
    uint64_t before = neap_cut_work(b->cut);
    double price = k->price > 0 ? k->price : s->best_price;
    cut_answer answer = neap_cut_solve(b->cut, task, s->scope, price, s->best_ticks, watch);
    take_answer(b, s, task, &answer);
    k->tried = !answer.stopped;
    k->estimate = answer.estimate;
    k->price = answer.price;
    s->n_tried++;
    s->work += neap_cut_work(b->cut) - before;
}

/* ---- Programs ---- */

/* The first moment: that of the best single cut or, if none proves anything, of the largest natural
   excess. */
static uint32_t first_moment(const bound *b, cut_scope scope)
{
    uint32_t heaviest = b->tight[0], best = b->search[scope].best_position;
    for (uint32_t i = 1; i < b->n_tight; i++)
        heaviest = b->natural[b->tight[i]] > b->natural[heaviest] ? b->tight[i] : heaviest;
    return best != NEAP_NONE ? best : heaviest;
}

static bool is_stopped(const cut_watch *watch)
{
    return watch->stop && watch->stop(watch->context);
}

/* One program; the scopes take turns. */
static neap_status step_programs(bound *b, const cut_watch *watch, neap_diag *diag)
{
    cut_scope scope = b->next_scope, other = !scope;
    program_search *p = &b->programs[scope];
    program_answer answer;
    b->next_scope = b->programs[other].done ? scope : other;
    if (p->done)
        return NEAP_OK;
    neap_status status = neap_program_search_step(p, b->allocator, first_moment(b, scope),
                                                  seconds_left(b), watch, &answer, diag);
    if (status == NEAP_UNSUPPORTED || status == NEAP_INTERNAL) {
        p->done = true; /* HiGHS is missing or failed: single cuts remain valid */
        return NEAP_OK;
    }
    NEAP_TRY(status);
    bool rises = take_ticks(b, scope, answer.ticks);
    if (rises && scope == CUT_GRAPH_ORDER && answer.has_fates) {
        b->figures.position = first_moment(b, scope);
        memcpy(b->fates, p->fates, b->x->n_tensors);
        memcpy(b->loose, p->fates, b->x->n_tensors);
    }
    return NEAP_OK;
}

/* ---- A slice ---- */

static neap_status step(bound *b, const cut_watch *watch, neap_diag *diag)
{
    position_search *order = &b->search[CUT_GRAPH_ORDER], *any = &b->search[CUT_ANY_ORDER];
    const program_search *p = b->programs;
    if (!order->done && (any->done || order->work <= any->work)) {
        step_positions(b, order, watch);
    } else if (!any->done) {
        step_positions(b, any, watch);
    } else {
        NEAP_TRY(step_programs(b, watch, diag));
        b->figures.done = p[0].done && p[1].done;
    }
    return NEAP_OK;
}

static void publish(bound *b)
{
    pthread_mutex_lock(&b->lock);
    if (b->figures.order_ticks > b->published.order_ticks) {
        memcpy(b->published_fates, b->fates, b->x->n_tensors);
        memcpy(b->published_loose, b->loose, b->x->n_tensors);
    }
    b->published = b->figures;
    pthread_mutex_unlock(&b->lock);
}

neap_status neap_bound_improve(bound *b, bool (*stop)(void *context), void *context,
                               neap_diag *diag)
{
    const cut_watch watch = {stop, context};
    uint64_t end = neap_cut_work(b->cut) + SLICE_WORK;
    bool cuts = true;
    while (cuts && !b->figures.done && neap_cut_work(b->cut) < end && !is_stopped(&watch)) {
        cuts = !b->search[0].done || !b->search[1].done;
        NEAP_TRY(step(b, &watch, diag));
    }
    publish(b);
    return NEAP_OK;
}

bound_figures neap_bound_read(bound *b, int64_t known, uint8_t *fates, uint8_t *loose,
                              bool *has_cut)
{
    pthread_mutex_lock(&b->lock);
    bound_figures figures = b->published;
    *has_cut = figures.position != NEAP_NONE && figures.order_ticks > known;
    if (*has_cut) {
        memcpy(fates, b->published_fates, b->x->n_tensors);
        memcpy(loose, b->published_loose, b->x->n_tensors);
    }
    pthread_mutex_unlock(&b->lock);
    figures.fates = fates;
    figures.loose = loose;
    return figures;
}

/* ---- The thread ---- */

static bool must_end(void *context)
{
    bound *b = context;
    return atomic_load(&b->ends) || b->stop(b->context);
}

static void *improve(void *argument)
{
    bound *b = argument;
    while (b->status == NEAP_OK && !b->figures.done && !must_end(b))
        b->status = neap_bound_improve(b, must_end, b, &b->diag);
    return NULL;
}

bool neap_bound_start_thread(bound *b, bool (*stop)(void *context), void *context)
{
    b->stop = stop;
    b->context = context;
    b->has_thread = pthread_create(&b->thread, NULL, improve, b) == 0;
    return b->has_thread;
}

neap_status neap_bound_end_thread(bound *b, neap_diag *diag)
{
    if (b->has_thread) {
        atomic_store(&b->ends, true);
        pthread_join(b->thread, NULL);
        b->has_thread = false;
    }
    if (b->status != NEAP_OK)
        *diag = b->diag;
    return b->status;
}
