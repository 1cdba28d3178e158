/*
 * pareto: the optimum of the chain recursion with no buckets at all.
 *
 * Butt's section 5.3 asks for a method that does not discretise memory. Here each subchain i .. j
 * has the front of its (memory, time) pairs: time as a falling step function of memory. The
 * recursion of schedule.h combines fronts without products: a checkpoint before k needs, for a
 * memory m, the best right part in m - a and the best left part in m - b, so that
 *
 *     T(i, j, m) = min over k of  forward(i .. k-1) + T(k, j, m - a_k) + T(i, k-1, m - b_k)
 *
 * is a sum of two step functions, merged in linear time, and a minimum of j - i + 1 of them. Exact,
 * in whole ticks and bytes.
 *
 * What keeps the fronts small:
 * - memory: nothing above what the budget can leave for the subchain (its entering cut and later
 * results are taken);
 * - time: an upper bound U, from the dynamic program in slots. Any use of subchain i .. j costs at
 * least the rest once, so a pair slower than U - rest is of no use; a subchain that does not end in
 * the last stage is only ever run after its stages were run forward once before, which alone may be
 * more than U allows: then it is never looked at;
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
#include "planners/chain/chain_budget.h"
#include "planners/chain/slot_table.h"

#include <stdlib.h>

enum { EPS };

static const neap_option options[] = {
    [EPS] = NEAP_REAL_OPTION("eps", 0, 1, 0, "allowed share above the optimal time; 0 is exact"),
};

#define NEVER       INT64_MAX
#define FIRST_SLOTS 2000 /* of the table that gives the upper bound */

typedef struct point {
    int64_t memory, ticks; /* rising, falling */
} point;

typedef struct front {
    const point *points;
    uint32_t count; /* 0: never within reach */
} front;

typedef struct points {
    point *items;
    size_t count, capacity;
} points;

typedef struct pareto {
    const planner *p;
    const stage_costs *costs;
    uint32_t n;
    int64_t memory;       /* bytes for the whole chain */
    int64_t slack;        /* U - T0: time that may be spent on recomputation */
    int64_t step;         /* d of the head comment */
    front *fronts;        /* modes; rows i: j = i .. n-1 */
    int64_t *least_until; /* n + 1: forward and backward time of the stages before i */
    neap_arena arena;
    points best, merged; /* scratch */
    neap_status status;
    neap_diag *diag;
} pareto;

/* One way to do a subchain. */
typedef struct option {
    uint32_t k;
    int64_t start, a, b, constant;
    const front *right, *left; /* left is NULL for a save */
} option;

static front *front_at(const pareto *t, int mode, uint32_t i, uint32_t j)
{
    size_t n = t->n, row = (size_t)i * n - (size_t)i * (i - 1) / 2;
    return &t->fronts[(size_t)mode * (n * (n + 1) / 2) + row + (j - i)];
}

static int64_t most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* T0: stages i .. j without recomputation, the last one entered by `again`. */
static int64_t least_ticks(const pareto *t, uint32_t i, uint32_t j)
{
    return t->least_until[j] - t->least_until[i] + t->costs->stage[j].again_ticks +
           t->costs->stage[j].backward_ticks;
}

/* Time that a front of i .. j may take to be of any use; below T0 if none is. */
static int64_t time_limit(const pareto *t, uint32_t i, uint32_t j)
{
    int64_t spent = 0;
    if (j + 1 < t->n)
        spent = t->costs->forward_until[j] - t->costs->forward_until[i] +
                t->costs->stage[j].again_ticks;
    return least_ticks(t, i, j) + t->slack - spent;
}

static int64_t memory_limit(const pareto *t, int mode, uint32_t i, uint32_t j)
{
    return t->memory - (mode == HELD ? t->costs->stage[i].input : 0) -
           t->costs->results_from[j + 1];
}

static int64_t first_memory(const front *f)
{
    return f->count ? f->points[0].memory : NEVER;
}

static int64_t later(int64_t start, int64_t taken, const front *part)
{
    int64_t first = first_memory(part);
    return start == NEVER || first == NEVER ? NEVER : most(start, taken + first);
}

static option make_save(const pareto *t, int mode, uint32_t i, uint32_t j)
{
    const stage_cost *cost = &t->costs->stage[i];
    int right_mode = cost->output_saved ? HELD : OWNED;
    option o = {.k = i,
                .a = cost->kept[mode] - (right_mode == OWNED ? cost->output : 0),
                .constant = cost->forward_ticks + cost->backward_ticks,
                .right = front_at(t, right_mode, i + 1, j)};
    o.start = most(t->costs->stage[j].gradient + cost->save_peak[mode],
                   stage_costs_results(t->costs, i + 1, j) + cost->backward_peak[mode]);
    o.start = later(o.start, o.a, o.right);
    return o;
}

/* `forward_peak`: of the stages i .. k-1. */
static option make_checkpoint(const pareto *t, int mode, uint32_t i, uint32_t j, uint32_t k,
                              int64_t forward_peak)
{
    const stage_costs *costs = t->costs;
    option o = {.k = k,
                .a = stage_costs_held_input(t->costs, mode, i),
                .b = stage_costs_results(t->costs, k, j),
                .constant = costs->forward_until[k] - costs->forward_until[i],
                .right = front_at(t, OWNED, k, j),
                .left = front_at(t, mode, i, k - 1)};
    o.start = later(costs->stage[j].gradient + forward_peak, o.a, o.right);
    o.start = later(o.start, o.b, o.left);
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

/* A point with more memory than those before it, if it is faster; there is room for it. */
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

/*
 * best = min(best, option), where the option is looked at for memories up to `end` only: beyond,
 * best is known to be no worse. Both are walked together from less to more memory.
 */
static void merge(pareto *t, const option *o, int64_t end, int64_t limit)
{
    walker right = {o->right, o->a, 0}, left = {o->left, o->b, 0};
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
        int64_t ticks = o->constant + o->right->points[right.at].ticks;
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
    int64_t limit = time_limit(t, i, j), least = least_ticks(t, i, j);
    int64_t end = memory_limit(t, mode, i, j), forward_peak = 0;
    t->best.count = 0;
    if (limit < least)
        return;
    option save = make_save(t, mode, i, j);
    if (save.start != NEVER)
        merge(t, &save, end, limit);
    for (uint32_t k = i + 1; k <= j && t->status == NEAP_OK; k++) {
        int64_t bound = least + costs->forward_until[k - 1] - costs->forward_until[i] +
                        costs->stage[k - 1].again_ticks;
        if (costs->forward_until[k - 1] - costs->forward_until[i] > limit - least)
            break; /* and so it is for every later one */
        forward_peak = stage_costs_extend_peak(t->costs, mode, i, k, forward_peak);
        /* Memory from which on the minimum so far beats this option, and every later one. */
        for (size_t at = t->best.count; at > 0 && t->best.items[at - 1].ticks <= bound; at--)
            if (t->best.items[at - 1].memory <= end)
                end = t->best.items[at - 1].memory - 1;
        option at_k = make_checkpoint(t, mode, i, j, k, forward_peak);
        if (at_k.start <= end)
            merge(t, &at_k, end, limit);
    }
    store(t, front_at(t, mode, i, j));
}

static void fill_row(pareto *t, int mode, uint32_t i)
{
    const stage_cost *cost = &t->costs->stage[i];
    int64_t memory = most(cost->gradient + cost->again_peak[mode], cost->backward_peak[mode]);
    t->best.count = 0;
    if (memory <= memory_limit(t, mode, i, i) && least_ticks(t, i, i) <= time_limit(t, i, i) &&
        reserve(t, &t->best, 1))
        add_point(&t->best, memory, least_ticks(t, i, i));
    store(t, front_at(t, mode, i, i));
    for (uint32_t j = i + 1; j < t->n && t->status == NEAP_OK; j++)
        fill(t, mode, i, j);
}

/* ---- The schedule ---- */

typedef struct front_chooser {
    run_chooser base;
    const pareto *t;
} front_chooser;

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
    int64_t right = ticks_within(o->right, memory - o->a);
    int64_t left = o->left ? ticks_within(o->left, memory - o->b) : 0;
    return right == NEVER || left == NEVER ? NEVER : o->constant + right + left;
}

static uint32_t choose(run_chooser *self, subchain whole, int64_t *right_memory,
                       int64_t *left_memory)
{
    const pareto *t = ((front_chooser *)self)->t;
    int mode = whole.mode;
    option best = make_save(t, mode, whole.i, whole.j);
    int64_t best_ticks = option_ticks(&best, whole.memory), forward_peak = 0;
    for (uint32_t k = whole.i + 1; k <= whole.j; k++) {
        forward_peak = stage_costs_extend_peak(t->costs, mode, whole.i, k, forward_peak);
        option at_k = make_checkpoint(t, mode, whole.i, whole.j, k, forward_peak);
        int64_t ticks = option_ticks(&at_k, whole.memory);
        if (ticks < best_ticks) {
            best = at_k;
            best_ticks = ticks;
        }
    }
    *right_memory = whole.memory - best.a;
    *left_memory = whole.memory - best.b;
    return best.k;
}

/* ---- The method ---- */

/* A first schedule, for its time: by slots, or the tightest one. */
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
    pareto t = {.p = p, .costs = costs, .n = costs->n, .memory = memory, .diag = diag};
    neap_arena_init(&t.arena, p->allocator);
    if (!NEAP_TAKE(&t.arena, n_fronts, t.fronts) || !NEAP_TAKE(&t.arena, n + 1, t.least_until)) {
        status = neap_fail_no_memory(diag);
        goto done;
    }
    for (uint32_t i = 0; i < t.n; i++)
        t.least_until[i + 1] =
            t.least_until[i] + costs->stage[i].forward_ticks + costs->stage[i].backward_ticks;
    int64_t least = least_ticks(&t, 0, t.n - 1);
    t.slack = neap_schedule_ticks(costs, s) - least;
    t.step = (int64_t)(p->options[EPS] * (double)least / (2.0 * (double)n));
    if (t.slack == 0)
        goto done;                      /* nothing is computed twice: optimal */
    t.slack += 2 * (int64_t)n * t.step; /* thinned fronts may be slower than U by so much */
    status = fill_all(&t, d);
    if (status == NEAP_OK && !d->stopped) {
        front_chooser chooser = {.base = {choose}, .t = &t};
        neap_schedule_clear(s);
        status = neap_schedule_build(p, costs, &chooser.base, memory, s, diag);
    }
done:
    NEAP_DELETE(p->allocator, t.best.capacity, t.best.items);
    NEAP_DELETE(p->allocator, t.merged.capacity, t.merged.items);
    neap_arena_clear(&t.arena);
    return status;
}

static neap_status plan_pareto(const planner *p, draft *d, neap_diag *diag)
{
    return neap_planner_use_finder(p, d, find_schedule, diag);
}

const neap_method neap_method_pareto = {
    .name = "pareto",
    .summary = "least time for a chain in the budget, exact to the byte: no buckets",
    .source = "neap; after Butt 2019, section 5.3, and Herrmann et al. 2019",
    NEAP_METHOD_OPTIONS(options),
    .plan = plan_pareto,
};
