/*
 * pareto: the optimum of the chain recursion without buckets.
 *
 * Butt's section 5.3 calls for a method that does not discretise memory. Here each subchain i .. j
 * has the front of its (memory, time) pairs: time as a falling step function of memory. A
 * checkpoint before k needs, for a memory m, the best right part in m - a and the best left part in
 * m - b, so
 *
 *     T(i, j, m) = min over k of  forward(i .. k-1) + T(k, j, m - a_k) + T(i, k-1, m - b_k)
 *
 * is a sum of two step functions, merged in linear time, and a minimum of j - i + 1 of them. Exact,
 * in whole ticks and bytes.
 *
 * What keeps the fronts small:
 * - memory: nothing above what the budget can leave for the subchain (its entering cut and later
 * results are live);
 * - time: an upper bound U, from the dynamic program in slots. Any schedule that uses subchain i ..
 * j also runs the rest once, so a pair slower than U - rest is useless, as is a subchain whose
 * repeated forward time alone exceeds U (stage_costs_repeated);
 * - split points: a checkpoint before k repeats the stages i .. k-1, so it cannot win where the
 * minimum so far is at most T0 plus their time; that point only moves to less memory as k grows.
 *
 * With eps > 0 a front leaves out pairs that save less than d = eps * T0 / (2 n) over a pair with
 * less memory. A schedule has at most 2 n parts and each adds at most d, so the time is at most the
 * optimum plus eps * T0, hence at most (1 + eps) times it.
 */
#include "base/arena.h"
#include "base/fail.h"
#include "base/memory.h"
#include "planners/chain/slot_table.h"

#include <stdlib.h>

enum { EPS, CUTS };

static const neap_option options[] = {
    [EPS] = NEAP_REAL_OPTION("eps", 0, 1, 0, "allowed share above the optimal time; 0 is exact"),
    [CUTS] = NEAP_CUTS_OPTION,
};

#define NEVER       INT64_MAX
#define FIRST_SLOTS 2000 /* of the table that gives the upper bound */

typedef struct point {
    int64_t memory, ticks; /* rising, falling */
} point;

typedef struct front {
    const point *points;
    uint32_t count; /* 0: impossible or useless */
} front;

typedef struct points {
    point *items;
    size_t count, capacity;
} points;

typedef struct pareto {
    run_chooser chooser;
    const planner *p;
    const stage_costs *costs;
    uint32_t n;
    int64_t memory; /* bytes for the whole chain */
    int64_t slack;  /* U - T0: time that may be spent on recomputation */
    int64_t step;   /* d of the head comment */
    front *fronts;  /* by stage_costs_place */
    neap_arena arena;
    points best, merged; /* scratch */
    neap_status status;
    neap_diag *diag;
} pareto;

/* One choice for a subchain. */
typedef struct option {
    chain_split split;
    int64_t start;             /* memory it needs; NEVER if it is impossible */
    const front *right, *left; /* left is NULL for a save */
} option;

static front *front_at(const pareto *t, int mode, uint32_t i, uint32_t j)
{
    return &t->fronts[stage_costs_place(t->costs, mode, i, j)];
}

/* Longest time at which subchain i .. j is still useful; below its least time if it never is. */
static int64_t time_limit(const pareto *t, uint32_t i, uint32_t j)
{
    return stage_costs_least_ticks(t->costs, i, j) + t->slack -
           stage_costs_repeated(t->costs, i, j);
}

static int64_t memory_limit(const pareto *t, int mode, uint32_t i, uint32_t j)
{
    return t->memory - (mode == HELD ? t->costs->stage[i].input : 0) -
           t->costs->results_from[j + 1];
}

static int64_t later(int64_t start, int64_t held, const front *part)
{
    return start == NEVER || part->count == 0 ? NEVER
                                              : larger(start, held + part->points[0].memory);
}

/* `forward_peak` is the peak of forward(i .. k-1). */
static option make_option(const pareto *t, int mode, uint32_t i, uint32_t j, uint32_t k,
                          int64_t forward_peak)
{
    chain_split s = stage_costs_split(t->costs, mode, i, j, k, forward_peak);
    option o = {.split = s, .right = front_at(t, s.right_mode, s.right, j)};
    o.start = later(s.peak, s.right_held, o.right);
    if (k > i) {
        o.left = front_at(t, mode, i, k - 1);
        o.start = later(o.start, s.left_held, o.left);
    }
    return o;
}

/* ---- Step functions ---- */

/* Walks a front as memory grows. */
typedef struct walker {
    const front *f;
    int64_t taken;
    uint32_t at; /* the last point within the memory */
} walker;

static void walk_to(walker *w, int64_t memory)
{
    while (w->at + 1 < w->f->count && w->f->points[w->at + 1].memory + w->taken <= memory)
        w->at++;
}

static int64_t next_memory(const walker *w)
{
    return w->at + 1 < w->f->count ? w->f->points[w->at + 1].memory + w->taken : NEVER;
}

static bool reserve(pareto *t, points *list, size_t count)
{
    if (t->status == NEAP_OK)
        t->status = NEAP_RESERVE(t->p->allocator, count, &list->items, &list->capacity, t->diag);
    return t->status == NEAP_OK;
}

/* Adds a point with more memory than those before it, if it is faster. The caller reserved room. */
static inline void add_point(points *list, int64_t memory, int64_t ticks)
{
    point *last = list->count ? &list->items[list->count - 1] : NULL;
    if (last && last->ticks <= ticks)
        return;
    if (last && last->memory == memory)
        last->ticks = ticks;
    else
        list->items[list->count++] = (point){memory, ticks};
}

/* best = min(best, option) for memories up to `end`; above that, best is no worse. */
static void merge(pareto *t, const option *o, int64_t end, int64_t limit)
{
    walker right = {o->right, o->split.right_held, 0}, left = {o->left, o->split.left_held, 0};
    int64_t memory = o->start;
    size_t old = 0;
    t->merged.count = 0;
    if (!reserve(t, &t->merged,
                 t->best.count + o->right->count + (o->left ? o->left->count : 0) + 2))
        return;
    while (memory <= end) {
        for (; old < t->best.count && t->best.items[old].memory <= memory; old++)
            add_point(&t->merged, t->best.items[old].memory, t->best.items[old].ticks);
        walk_to(&right, memory);
        int64_t ticks = o->split.ticks + o->right->points[right.at].ticks;
        int64_t next = next_memory(&right);
        if (o->left) {
            walk_to(&left, memory);
            ticks += o->left->points[left.at].ticks;
            int64_t other = next_memory(&left);
            next = other < next ? other : next;
        }
        if (ticks <= limit)
            add_point(&t->merged, memory, ticks);
        if (next == NEVER)
            break;
        memory = next;
    }
    for (; old < t->best.count; old++)
        add_point(&t->merged, t->best.items[old].memory, t->best.items[old].ticks);
    points swapped = t->best;
    t->best = t->merged;
    t->merged = swapped;
}

/* Keeps the scratch front, thinned out if the method may be inexact. */
static void store(pareto *t, front *f)
{
    size_t kept = 0;
    for (size_t i = 0; i < t->best.count; i++)
        if (kept == 0 || t->best.items[kept - 1].ticks - t->best.items[i].ticks > t->step)
            t->best.items[kept++] = t->best.items[i];
    f->count = (uint32_t)kept;
    f->points = neap_arena_copy(&t->arena, t->best.items, kept, sizeof *t->best.items);
    if (!f->points && t->status == NEAP_OK)
        t->status = neap_fail_no_memory(t->diag);
}

/* ---- The table ---- */

static void fill(pareto *t, int mode, uint32_t i, uint32_t j)
{
    const stage_costs *costs = t->costs;
    int64_t limit = time_limit(t, i, j), least = stage_costs_least_ticks(costs, i, j);
    int64_t end = memory_limit(t, mode, i, j), forward_peak = 0;
    t->best.count = 0;
    if (limit < least)
        return;
    option save = make_option(t, mode, i, j, i, 0);
    if (save.start != NEVER)
        merge(t, &save, end, limit);
    for (uint32_t k = i + 1; k <= j && t->status == NEAP_OK; k++) {
        int64_t bound = least + costs->forward_until[k - 1] - costs->forward_until[i] +
                        costs->stage[k - 1].again_ticks;
        if (costs->forward_until[k - 1] - costs->forward_until[i] > limit - least)
            break; /* later checkpoints repeat even more */
        forward_peak = stage_costs_extend_peak(t->costs, mode, i, k, forward_peak);
        /* From this memory on the minimum so far beats this option and all later ones. */
        for (size_t at = t->best.count; at > 0 && t->best.items[at - 1].ticks <= bound; at--)
            if (t->best.items[at - 1].memory <= end)
                end = t->best.items[at - 1].memory - 1;
        option at_k = make_option(t, mode, i, j, k, forward_peak);
        if (at_k.start <= end)
            merge(t, &at_k, end, limit);
    }
    store(t, front_at(t, mode, i, j));
}

static void fill_row(pareto *t, int mode, uint32_t i)
{
    const stage_cost *cost = &t->costs->stage[i];
    int64_t memory = larger(cost->gradient + cost->again_peak[mode], cost->backward_peak[mode]);
    int64_t ticks = stage_costs_least_ticks(t->costs, i, i);
    t->best.count = 0;
    if (memory <= memory_limit(t, mode, i, i) && ticks <= time_limit(t, i, i) &&
        reserve(t, &t->best, 1))
        add_point(&t->best, memory, ticks);
    store(t, front_at(t, mode, i, i));
    for (uint32_t j = i + 1; j < t->n && t->status == NEAP_OK; j++)
        fill(t, mode, i, j);
}

/* ---- The schedule ---- */

static int64_t ticks_within(const front *f, int64_t memory)
{
    uint32_t low = 0, high = f->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (f->points[middle].memory <= memory)
            low = middle + 1;
        else
            high = middle;
    }
    return low ? f->points[low - 1].ticks : NEVER;
}

static int64_t option_ticks(const option *o, int64_t memory)
{
    if (o->start == NEVER || memory < o->start)
        return NEVER;
    int64_t right = ticks_within(o->right, memory - o->split.right_held);
    int64_t left = o->left ? ticks_within(o->left, memory - o->split.left_held) : 0;
    return right == NEVER || left == NEVER ? NEVER : o->split.ticks + right + left;
}

static uint32_t choose(run_chooser *self, subchain whole, int64_t *right_memory,
                       int64_t *left_memory)
{
    const pareto *t = (const pareto *)self;
    int64_t best_ticks = NEVER, forward_peak = 0;
    uint32_t best = whole.i;
    for (uint32_t k = whole.i; k <= whole.j; k++) {
        forward_peak = stage_costs_extend_peak(t->costs, whole.mode, whole.i, k, forward_peak);
        option o = make_option(t, whole.mode, whole.i, whole.j, k, forward_peak);
        int64_t ticks = option_ticks(&o, whole.memory);
        if (ticks < best_ticks) {
            best = k;
            best_ticks = ticks;
            *right_memory = whole.memory - o.split.right_held;
            *left_memory = whole.memory - o.split.left_held;
        }
    }
    return best;
}

/* ---- The method ---- */

/* A first schedule, for the upper bound: by slots, or the one of least memory. */
static neap_status find_first(const planner *p, draft *d, const stage_costs *costs, int64_t memory,
                              schedule *s, bool *found, neap_diag *diag)
{
    int64_t slots = memory < FIRST_SLOTS ? memory : FIRST_SLOTS, least;
    NEAP_TRY(neap_slot_table_find(p, d, costs, memory / slots, slots, s, found, diag));
    if (*found || d->stopped)
        return NEAP_OK;
    NEAP_TRY(neap_least_memory_schedule(p, costs, s, &least, diag));
    *found = least - costs->pinned_bytes <= memory;
    return NEAP_OK;
}

static neap_status fill_all(pareto *t, draft *d)
{
    for (uint32_t i = t->n; i-- > 0 && t->status == NEAP_OK && !d->stopped;) {
        if (i == 0 || t->costs->stage[i - 1].output_saved)
            fill_row(t, HELD, i);
        if (i > 0)
            fill_row(t, OWNED, i);
        d->stopped = neap_planner_stopped(t->p);
        neap_planner_report(t->p, (double)(t->n - i) / t->n);
    }
    return t->status;
}

static neap_status find_schedule(const planner *p, draft *d, const stage_costs *costs,
                                 int64_t memory, schedule *s, bool *found, neap_diag *diag)
{
    neap_status status = find_first(p, d, costs, memory, s, found, diag);
    if (status != NEAP_OK || !*found)
        return status;
    size_t n = costs->n, n_fronts = N_MODES * (n * (n + 1) / 2);
    int64_t least = stage_costs_least_ticks(costs, 0, costs->n - 1);
    pareto t = {
        .chooser = {choose}, .p = p, .costs = costs, .n = costs->n, .memory = memory, .diag = diag};
    neap_arena_init(&t.arena, p->allocator);
    if (!NEAP_TAKE(&t.arena, n_fronts, t.fronts)) {
        status = neap_fail_no_memory(diag);
        goto done;
    }
    t.slack = neap_schedule_ticks(costs, s) - least;
    t.step = (int64_t)(p->options[EPS] * (double)least / (2.0 * (double)n));
    if (t.slack == 0)
        goto done;                      /* nothing is recomputed: optimal */
    t.slack += 2 * (int64_t)n * t.step; /* thinned fronts may be slower than U by this much */
    status = fill_all(&t, d);
    if (status == NEAP_OK && !d->stopped) {
        neap_schedule_clear(s);
        status = neap_schedule_build(p, costs, &t.chooser, memory, s, diag);
    }
done:
    NEAP_DELETE(p->allocator, t.best.capacity, t.best.items);
    NEAP_DELETE(p->allocator, t.merged.capacity, t.merged.items);
    neap_arena_clear(&t.arena);
    return status;
}

static neap_status plan_pareto(const planner *p, draft *d, neap_diag *diag)
{
    return neap_planner_use_finder(p, d, (int)p->options[CUTS], CHAIN_MOST_FRONTS, find_schedule,
                                   diag);
}

const neap_method neap_method_pareto = {
    .name = "pareto",
    .summary = "least time for a chain in the budget, exact to the byte: no buckets",
    .source = "neap; after Butt 2019, section 5.3, and Herrmann et al. 2019",
    NEAP_METHOD_OPTIONS(options),
    .plan = plan_pareto,
};
