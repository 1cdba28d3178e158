/*
 * See slot_table.h. For each subchain the candidates (save, or a checkpoint before stage k) are
 * functions of the memory m:
 *
 *     candidate(m) = constant + right(m - a) + left(m - b)     for m >= start
 *
 * and the table is their minimum. All of them fall as m grows. What keeps it fast:
 *
 * - Slots are looked at in blocks. In a block a candidate is nowhere below its time at the block's
 * end, and the minimum so far nowhere above its value at the block's start. The parts' times at
 * block ends lie side by side for all k (`left_bounds`, `right_bounds`), so that one vector loop
 * tells which k can win in the block; few can, as what was best for i .. j-1 is tried first. Only
 * those are looked at slot by slot.
 * - A first table of groups of three stages (stage_groups.h) gives a schedule, hence a time that
 * the best one does not pass: what a subchain cannot do within its share of that is left out. A
 * subchain that does not end in the last stage is only run after its stages were run forward once
 * before, which counts against the share.
 * - Tiles of the table are shared among threads.
 */
#include "planners/chain/slot_table.h"

#include "base/arena.h"
#include "base/fail.h"
#include "base/memory.h"
#include "base/team.h"
#include "planners/chain/slot_kernels.h"
#include "planners/chain/stage_groups.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#define NEVER         INT32_MAX
#define BLOCK_SHIFT   4 /* a block has at least 16 slots */
#define MOST_BLOCKS   64
#define GROUP         3 /* stages taken together for a first schedule */
#define LEAST_GROUPED 48
#define MOST_STAGES   20000
#define TILE          16 /* stages: what is near in the table is used together */
#define LEAST_SHARED  96 /* stages: shorter chains are done before other threads have started */

#if defined(__GNUC__)
#define PREFETCH(address) __builtin_prefetch(address)
#else
#define PREFETCH(address) ((void)(address))
#endif

/* Time for lo .. hi slots; infinite below, `last` from hi on. */
typedef struct cell {
    int32_t lo, hi; /* lo NEVER: not within any memory that can be left for it */
    double last;
    const double *values;
} cell;

/* What a thread has for itself. */
typedef struct slot_worker {
    neap_arena values; /* of its cells, and of the arrays below */
    double *best;      /* scratch: 0 .. slots */
    uint32_t *passing; /* n: the same as a list */
    uint8_t *pass;     /* n: the k that may win in a block */
    int64_t *peaks;    /* n: of forward(i .. k-1), for one i and mode */
    uint32_t peaks_i;
    int peaks_mode;
    bool failed; /* out of memory */
} slot_worker;

typedef struct slot_table {
    neap_arena arena; /* of the arrays */
    const stage_costs *costs;
    uint32_t n;
    int64_t slot_bytes;
    int32_t slots;
    int shift; /* a block has 1 << shift slots */
    uint32_t n_blocks;
    cell *cells;        /* modes; rows i: j = i .. n-1 */
    float *left_bounds; /* modes; rows i: blocks: j = i .. n-1: no more than the time in the block's
                           last slot */
    float *right_bounds;  /* mode OWNED; columns j: blocks: i = 0 .. j */
    float *forward;       /* n + 1: forward time of the stages before i */
    uint32_t *hints;      /* modes; i: blocks: the checkpoint k that won for the last j; 0: none */
    int64_t *least_until; /* n + 1: forward and backward time of the stages before i */
    slot_kernels kernels;
    double slack; /* time that recomputation may take in all; infinite if not known */
    /* The job: subchains of one length are independent of each other. */
    neap_job job;
    const planner *p;
    slot_worker *workers;
    unsigned n_workers;
    neap_shared_allocator shared; /* the workers', if there are several */
    bool halted;                  /* stopped, or out of memory */
    bool stopped;
} slot_table;

/* One way to do a subchain. */
typedef struct candidate {
    uint32_t k;
    int32_t start;
    int32_t a, b; /* slots taken from the right and the left part */
    double constant;
    const cell *right, *left; /* left is NULL for a save */
} candidate;

/* Where row i begins in a triangle of rows of n, n-1, ... */
static size_t row_start(const slot_table *t, int mode, uint32_t i)
{
    size_t n = t->n;
    return (size_t)mode * (n * (n + 1) / 2) + (size_t)i * n - (size_t)i * (i - 1) / 2;
}

static cell *cell_at(const slot_table *t, int mode, uint32_t i, uint32_t j)
{
    return &t->cells[row_start(t, mode, i) + (j - i)];
}

/* Of the subchains i .. i, i .. i+1, ... in a block. */
static float *left_bounds(const slot_table *t, int mode, uint32_t i, uint32_t block)
{
    return t->left_bounds + row_start(t, mode, i) * t->n_blocks + (size_t)block * (t->n - i);
}

/* Of the subchains 0 .. j, 1 .. j, ... in a block. */
static float *right_bounds(const slot_table *t, uint32_t j, uint32_t block)
{
    size_t column = (size_t)j * (j + 1) / 2;
    return t->right_bounds + column * t->n_blocks + (size_t)block * (j + 1);
}

static int32_t to_slots(const slot_table *t, int64_t bytes)
{
    int64_t slots = bytes / t->slot_bytes + (bytes % t->slot_bytes != 0);
    return slots > t->slots ? t->slots + 1 : (int32_t)slots;
}

static int32_t most(int32_t a, int32_t b)
{
    return a > b ? a : b;
}

static int32_t plus(int32_t a, int32_t lo)
{
    return lo == NEVER ? NEVER : a + lo;
}

static double value_at(const cell *c, int64_t m)
{
    if (c->lo == NEVER || m < c->lo)
        return HUGE_VAL;
    return m < c->hi ? c->values[m - c->lo] : c->last;
}

static candidate make_save(const slot_table *t, int mode, uint32_t i, uint32_t j)
{
    const stage_cost *cost = &t->costs->stage[i];
    int right_mode = cost->output_saved ? HELD : OWNED;
    int64_t kept = cost->kept[mode] - (right_mode == OWNED ? cost->output : 0);
    candidate c = {.k = i, .a = to_slots(t, kept), .right = cell_at(t, right_mode, i + 1, j)};
    c.constant = (double)cost->forward_ticks + (double)cost->backward_ticks;
    c.start =
        most(to_slots(t, t->costs->stage[j].gradient + cost->save_peak[mode]),
             to_slots(t, stage_costs_results(t->costs, i + 1, j) + cost->backward_peak[mode]));
    c.start = most(c.start, plus(c.a, c.right->lo));
    return c;
}

/* `forward_peak`: of the stages i .. k-1. */
static candidate make_checkpoint(const slot_table *t, int mode, uint32_t i, uint32_t j, uint32_t k,
                                 int64_t forward_peak)
{
    const stage_costs *costs = t->costs;
    candidate c = {.k = k,
                   .a = to_slots(t, stage_costs_held_input(t->costs, mode, i)),
                   .b = to_slots(t, stage_costs_results(t->costs, k, j)),
                   .right = cell_at(t, OWNED, k, j),
                   .left = cell_at(t, mode, i, k - 1)};
    c.constant = (double)(costs->forward_until[k] - costs->forward_until[i]);
    c.start = to_slots(t, costs->stage[j].gradient + forward_peak);
    c.start = most(c.start, most(plus(c.a, c.right->lo), plus(c.b, c.left->lo)));
    return c;
}

static double candidate_at(const candidate *c, int64_t m)
{
    if (m < c->start)
        return HUGE_VAL;
    return c->constant + value_at(c->right, m - c->a) + (c->left ? value_at(c->left, m - c->b) : 0);
}

static void minimise_constant(double *best, double constant, int32_t count)
{
    for (int32_t m = 0; m < count && best[m] > constant; m++)
        best[m] = constant;
}

static int32_t clamp(int32_t m, int32_t least, int32_t greatest)
{
    return m < least ? least : m > greatest ? greatest : m;
}

/* The slots begin .. end - 1, on which the parts that move are given; the others are in `constant`.
 */
static void apply_range(const slot_table *t, double *best, const candidate *c, bool right_moves,
                        bool left_moves, double constant, int32_t begin, int32_t end)
{
    const double *right = right_moves ? c->right->values + (begin - c->a - c->right->lo) : NULL;
    const double *left = left_moves ? c->left->values + (begin - c->b - c->left->lo) : NULL;
    if (right && left)
        t->kernels.two(best + begin, right, left, constant, end - begin);
    else
        t->kernels.one(best + begin, right ? right : left, constant, end - begin);
}

/*
 * The candidate at the slots begin .. end - 1: first both parts change with m, then, once one has
 * become constant, the other alone, then none.
 */
static void apply_exactly(const slot_table *t, double *best, const candidate *c, int32_t begin,
                          int32_t end)
{
    const cell *right = c->right, *left = c->left;
    double right_last = right->last, left_last = left ? left->last : 0;
    int32_t right_end = clamp(right->hi + c->a, begin, end);
    int32_t left_end = left ? clamp(left->hi + c->b, begin, end) : begin;
    int32_t both = right_end < left_end ? right_end : left_end;
    int32_t either = right_end < left_end ? left_end : right_end;
    if (both > begin)
        apply_range(t, best, c, true, true, c->constant, begin, both);
    if (right_end > both)
        apply_range(t, best, c, true, false, c->constant + left_last, both, either);
    else if (left_end > both)
        apply_range(t, best, c, false, true, c->constant + right_last, both, either);
    minimise_constant(best + either, c->constant + left_last + right_last, end - either);
}

/* The most slots that can be left for a subchain: a held input and the results behind it are always
 * there. */
static int32_t most_slots(const slot_table *t, int mode, uint32_t i, uint32_t j)
{
    int32_t held = (mode == HELD ? to_slots(t, t->costs->stage[i].input) : 0) +
                   to_slots(t, t->costs->results_from[j + 1]);
    return t->slots - held;
}

static void store(slot_worker *w, cell *c, int32_t lo, int32_t cap)
{
    int32_t hi = cap;
    while (hi > lo && w->best[hi - 1] == w->best[hi])
        hi--;
    double *values =
        neap_arena_copy(&w->values, w->best + lo, (size_t)(hi - lo) + 1, sizeof *values);
    if (!values) {
        w->failed = true;
        return;
    }
    c->lo = lo;
    c->hi = hi;
    c->last = values[hi - lo];
    c->values = values;
}

static void fill_single(const slot_table *t, slot_worker *w, int mode, uint32_t i)
{
    const stage_cost *cost = &t->costs->stage[i];
    int32_t lo = most(to_slots(t, cost->gradient + cost->again_peak[mode]),
                      to_slots(t, cost->backward_peak[mode]));
    lo = most(lo, 0); /* peaks beyond what is held may be negative: then nothing is needed */
    if (lo > most_slots(t, mode, i, i)) {
        cell_at(t, mode, i, i)->lo = NEVER;
        return;
    }
    w->best[lo] = (double)cost->again_ticks + (double)cost->backward_ticks;
    store(w, cell_at(t, mode, i, i), lo, lo);
}

/* Time that a subchain may take to be of any use; `least` is that without recomputation. */
static double time_limit(const slot_table *t, uint32_t i, uint32_t j, double least)
{
    double spent = 0;
    if (j + 1 < t->n)
        spent = (double)(t->costs->forward_until[j] - t->costs->forward_until[i]) +
                (double)t->costs->stage[j].again_ticks;
    return least + t->slack - spent;
}

/* One candidate at the slots begin .. end - 1. */
static void apply(const slot_table *t, slot_worker *w, const candidate *c, int32_t begin,
                  int32_t end)
{
    begin = most(begin, c->start);
    if (begin < end && candidate_at(c, end - 1) < w->best[begin])
        apply_exactly(t, w->best, c, begin, end);
}

/* The peaks of forward(i .. k-1) for all k, kept for the next j. */
static void find_peaks(const slot_table *t, slot_worker *w, int mode, uint32_t i)
{
    int64_t peak = 0;
    if (w->peaks_i == i && w->peaks_mode == mode)
        return;
    w->peaks_i = i;
    w->peaks_mode = mode;
    for (uint32_t k = i + 1; k < t->n; k++)
        w->peaks[k] = peak = stage_costs_extend_peak(t->costs, mode, i, k, peak);
}

/* The checkpoint before k in a block; if it becomes the best in the middle of it, *winner. */
static void apply_checkpoint(const slot_table *t, slot_worker *w, int mode, uint32_t i, uint32_t j,
                             uint32_t k, int32_t first, int32_t last, uint32_t *winner)
{
    double *middle = &w->best[first + (last - first) / 2], before = *middle;
    candidate c = make_checkpoint(t, mode, i, j, k, w->peaks[k]);
    apply(t, w, &c, first, last + 1);
    if (*middle < before)
        *winner = k;
}

/* Sums of bounds below which a candidate may win in a block. Floats round: what is a millionth
 * above is let through. */
static float block_limit(const slot_table *t, const slot_worker *w, uint32_t i, int32_t first)
{
    return (float)((w->best[first] + (double)t->costs->forward_until[i]) * (1 + 1e-6));
}

/* The k - i - 1 that pass, as a list; returns how many, and the one with the least bound first. */
static uint32_t list_passing(slot_worker *w, const float *forward, const float *right,
                             const float *left, uint32_t count)
{
    uint32_t n_passing = 0;
    float least = HUGE_VALF;
    for (uint32_t n = 0; n < count; n++) {
        uint64_t eight;
        if (n % 8 == 0 && n + 8 <= count) {
            memcpy(&eight, w->pass + n, sizeof eight);
            if (eight == 0) {
                n += 7;
                continue;
            }
        }
        if (!w->pass[n])
            continue;
        float bound = forward[n] + right[n] + left[n];
        w->passing[n_passing] = n;
        if (bound < least) {
            least = bound;
            w->passing[n_passing] = w->passing[0];
            w->passing[0] = n;
        }
        n_passing++;
    }
    return n_passing;
}

/* Values of candidates lie far apart: they are fetched a little ahead. */
static void prefetch_values(const slot_table *t, int mode, uint32_t i, uint32_t j, uint32_t k,
                            int32_t first, int32_t for_right)
{
    const cell *right = cell_at(t, OWNED, k, j), *left = cell_at(t, mode, i, k - 1);
    if (right->lo <= for_right && for_right < right->hi)
        PREFETCH(right->values + (for_right - right->lo));
    if (left->lo <= first && first < left->hi)
        PREFETCH(left->values + (first - left->lo));
}

/*
 * The checkpoints before i+1 .. i+count, in the block's slots first .. last. What won for the last
 * j goes first, then the most promising of those that pass the filter, then the rest of them as far
 * as they still pass.
 */
static void apply_block(const slot_table *t, slot_worker *w, int mode, uint32_t i, uint32_t j,
                        uint32_t count, int32_t first, int32_t last)
{
    int32_t for_right = last - to_slots(t, stage_costs_held_input(t->costs, mode, i));
    uint32_t block = (uint32_t)(last >> t->shift);
    uint32_t *hint = &t->hints[((size_t)mode * t->n + i) * t->n_blocks + block], winner = 0;
    if (for_right < 0)
        return;
    if (*hint > i)
        apply_checkpoint(t, w, mode, i, j, *hint, first, last, &winner);
    const float *forward = t->forward + i + 1, *left = left_bounds(t, mode, i, block);
    const float *right = right_bounds(t, j, (uint32_t)(for_right >> t->shift)) + i + 1;
    float limit = block_limit(t, w, i, first);
    t->kernels.filter(w->pass, forward, right, left, limit, (int32_t)count);
    uint32_t n_passing = list_passing(w, forward, right, left, count);
    for (uint32_t at = 0; at < n_passing; at++) {
        uint32_t n = w->passing[at];
        if (at + 6 < n_passing)
            PREFETCH(cell_at(t, OWNED, i + 1 + w->passing[at + 6], j));
        if (at + 3 < n_passing)
            prefetch_values(t, mode, i, j, i + 1 + w->passing[at + 3], first, for_right);
        if (forward[n] + right[n] + left[n] < limit)
            apply_checkpoint(t, w, mode, i, j, i + 1 + n, first, last, &winner);
        limit = block_limit(t, w, i, first);
    }
    *hint = winner ? winner : *hint;
}

/* Checkpoints that repeat too much to be of use are the last ones; how many are left. */
static uint32_t count_useful(const slot_table *t, uint32_t i, uint32_t j, double spare)
{
    uint32_t low = 0, high = j - i;
    while (low < high) {
        uint32_t middle = low + (high - low + 1) / 2;
        if ((double)(t->costs->forward_until[i + middle - 1] - t->costs->forward_until[i]) > spare)
            high = middle - 1;
        else
            low = middle;
    }
    return low;
}

/* The minimum of all candidates, into w->best; the last slot is `cap`. */
static void minimise_candidates(const slot_table *t, slot_worker *w, int mode, uint32_t i,
                                uint32_t j, double spare, int32_t cap)
{
    candidate save = make_save(t, mode, i, j);
    apply(t, w, &save, 0, cap + 1);
    find_peaks(t, w, mode, i);
    uint32_t count = count_useful(t, i, j, spare);
    for (int32_t first = 0; first <= cap; first += 1 << t->shift) {
        int32_t last = first + (1 << t->shift) - 1;
        apply_block(t, w, mode, i, j, count, first, last < cap ? last : cap);
    }
}

static void fill(const slot_table *t, slot_worker *w, int mode, uint32_t i, uint32_t j)
{
    cell *c = cell_at(t, mode, i, j);
    const stage_cost *end = &t->costs->stage[j];
    double least =
        (double)(t->least_until[j] - t->least_until[i] + end->again_ticks + end->backward_ticks);
    double limit = time_limit(t, i, j, least);
    int32_t cap = most_slots(t, mode, i, j), lo = NEVER;
    if (limit >= least) {
        for (int32_t m = 0; m <= cap; m++)
            w->best[m] = HUGE_VAL;
        minimise_candidates(t, w, mode, i, j, limit - least, cap);
        for (lo = 0; lo <= cap && !(w->best[lo] <= limit && isfinite(w->best[lo]));)
            lo++;
        lo = lo <= cap ? lo : NEVER;
    }
    if (lo == NEVER)
        c->lo = NEVER;
    else
        store(w, c, lo, cap);
}

/* A float that is not above the number. */
static float round_down(double number)
{
    float rounded = (float)number;
    return (double)rounded > number ? nextafterf(rounded, 0) : rounded;
}

static void store_bounds(const slot_table *t, int mode, uint32_t i, uint32_t j)
{
    const cell *c = cell_at(t, mode, i, j);
    for (uint32_t block = 0; block < t->n_blocks; block++) {
        int64_t last = ((int64_t)(block + 1) << t->shift) - 1;
        float bound = round_down(value_at(c, last));
        left_bounds(t, mode, i, block)[j - i] = bound;
        if (mode == OWNED)
            right_bounds(t, j, block)[i] = bound;
    }
}

/* The subchain i .. j in the modes in which it can be asked for. */
static void fill_modes(const slot_table *t, slot_worker *w, uint32_t i, uint32_t j)
{
    for (int mode = 0; mode < N_MODES && !w->failed; mode++) {
        if (mode == HELD ? i > 0 && !t->costs->stage[i - 1].output_saved : i == 0)
            continue;
        if (i == j)
            fill_single(t, w, mode, i);
        else
            fill(t, w, mode, i, j);
        if (!w->failed)
            store_bounds(t, mode, i, j);
    }
}

/* The subchains that begin in one tile of stages and end in another; each after its parts. */
static void fill_tile(const slot_table *t, slot_worker *w, uint32_t tile, uint32_t first,
                      uint32_t last)
{
    uint32_t end_i = (first + 1) * tile < t->n ? (first + 1) * tile : t->n;
    uint32_t end_j = (last + 1) * tile < t->n ? (last + 1) * tile : t->n;
    for (uint32_t i = end_i; i-- > first * tile;)
        for (uint32_t j = last * tile > i ? last * tile : i; j < end_j && !w->failed; j++)
            fill_modes(t, w, i, j);
}

/* Tiles that are equally far apart do not need each other: the members share them, then go on to
 * the next distance. */
static void run_member(neap_job *self, neap_team *team, unsigned member)
{
    slot_table *t = (slot_table *)((char *)self - offsetof(slot_table, job));
    unsigned members = neap_team_members(team);
    uint32_t tile = TILE, n_tiles = (t->n + tile - 1) / tile;
    for (uint32_t apart = 0; apart < n_tiles && !t->halted; apart++) {
        for (uint32_t i = member; i < n_tiles - apart; i += members)
            fill_tile(t, &t->workers[member], tile, i, i + apart);
        neap_team_meet(team);
        if (member == 0) {
            t->stopped = neap_planner_stopped(t->p);
            t->halted = t->stopped;
            for (unsigned other = 0; other < members; other++)
                t->halted = t->halted || t->workers[other].failed;
            neap_planner_report(t->p, (double)apart / (double)n_tiles);
        }
        neap_team_meet(team);
    }
}

static bool start_workers(slot_table *t)
{
    neap_allocator *allocator = t->p->allocator;
    unsigned members = t->n < LEAST_SHARED ? 1 : neap_team_size(t->p->request->threads, 16);
    if (members > 1 && !neap_shared_allocator_init(&t->shared, allocator))
        members = 1;
    t->n_workers = members;
    if (!NEAP_TAKE(&t->arena, members, t->workers))
        return false;
    for (unsigned i = 0; i < members; i++) {
        slot_worker *w = &t->workers[i];
        neap_arena_init(&w->values, members > 1 ? &t->shared.base : allocator);
        w->peaks_i = NEAP_NONE;
        if (!NEAP_TAKE(&w->values, (size_t)t->slots + 2, w->best) ||
            !NEAP_TAKE(&w->values, t->n, w->pass) || !NEAP_TAKE(&w->values, t->n, w->passing) ||
            !NEAP_TAKE(&w->values, t->n, w->peaks))
            return false;
    }
    return true;
}

static void end_workers(slot_table *t)
{
    for (unsigned i = 0; t->workers && i < t->n_workers; i++)
        neap_arena_clear(&t->workers[i].values);
    if (t->n_workers > 1)
        neap_shared_allocator_clear(&t->shared);
}

static neap_status fill_all(slot_table *t, bool *stopped, neap_diag *diag)
{
    for (uint32_t i = 0; i < t->n; i++)
        t->least_until[i + 1] = t->least_until[i] + t->costs->stage[i].forward_ticks +
                                t->costs->stage[i].backward_ticks;
    for (uint32_t i = 0; i <= t->n; i++)
        t->forward[i] = round_down((double)t->costs->forward_until[i]);
    neap_team_run(&t->job, t->n_workers);
    *stopped = *stopped || t->stopped;
    return t->halted && !t->stopped ? neap_fail_no_memory(diag) : NEAP_OK;
}

/* ---- The schedule ---- */

typedef struct table_chooser {
    run_chooser base;
    const slot_table *table;
} table_chooser;

/* The candidate with the table's value at this memory; the first of equals. */
static uint32_t choose(run_chooser *self, subchain whole, int64_t *right_memory,
                       int64_t *left_memory)
{
    const slot_table *t = ((table_chooser *)self)->table;
    int mode = whole.mode;
    candidate best = make_save(t, mode, whole.i, whole.j);
    double best_time = candidate_at(&best, whole.memory);
    int64_t forward_peak = 0;
    for (uint32_t k = whole.i + 1; k <= whole.j; k++) {
        forward_peak = stage_costs_extend_peak(t->costs, mode, whole.i, k, forward_peak);
        candidate at_k = make_checkpoint(t, mode, whole.i, whole.j, k, forward_peak);
        double time = candidate_at(&at_k, whole.memory);
        if (time < best_time) {
            best = at_k;
            best_time = time;
        }
    }
    *right_memory = whole.memory - best.a;
    *left_memory = whole.memory - best.b;
    return best.k;
}

/* One table; *ticks gets the schedule's time. */
static neap_status find_once(const planner *p, draft *d, const stage_costs *costs,
                             int64_t slot_bytes, int64_t slots, double slack, schedule *s,
                             bool *found, double *ticks, neap_diag *diag)
{
    size_t n = costs->n, n_cells = N_MODES * (n * (n + 1) / 2);
    slot_table t = {.costs = costs,
                    .n = costs->n,
                    .slot_bytes = slot_bytes,
                    .slots = (int32_t)slots,
                    .kernels = neap_slot_kernels_choose(),
                    .slack = slack,
                    .job = {run_member},
                    .p = p};
    for (t.shift = BLOCK_SHIFT; slots >> t.shift >= MOST_BLOCKS;)
        t.shift++;
    t.n_blocks = (uint32_t)(slots >> t.shift) + 1;
    *found = false;
    neap_arena_init(&t.arena, p->allocator);
    bool taken = NEAP_TAKE(&t.arena, n_cells, t.cells) &&
                 NEAP_TAKE(&t.arena, n_cells * t.n_blocks, t.left_bounds) &&
                 NEAP_TAKE(&t.arena, n_cells / N_MODES * t.n_blocks, t.right_bounds) &&
                 NEAP_TAKE(&t.arena, n + 1, t.forward) &&
                 NEAP_TAKE(&t.arena, N_MODES * n * t.n_blocks, t.hints) &&
                 NEAP_TAKE(&t.arena, n + 1, t.least_until) && start_workers(&t);
    neap_status status = taken ? NEAP_OK : neap_fail_no_memory(diag);
    if (status == NEAP_OK)
        status = fill_all(&t, &d->stopped, diag);
    if (status == NEAP_OK && !d->stopped && n > 0) {
        *ticks = value_at(cell_at(&t, HELD, 0, t.n - 1), slots);
        *found = isfinite(*ticks);
    }
    if (*found && s) {
        table_chooser chooser = {.base = {choose}, .table = &t};
        status = neap_schedule_build(p, costs, &chooser.base, slots, s, diag);
    }
    end_workers(&t);
    neap_arena_clear(&t.arena);
    return status;
}

static double least_ticks(const stage_costs *costs)
{
    double ticks = 0;
    for (uint32_t i = 0; i < costs->n; i++)
        ticks += (double)costs->stage[i].forward_ticks + (double)costs->stage[i].backward_ticks;
    return ticks;
}

/* A schedule of groups of stages, as one of the stages. */
static neap_status find_grouped(const planner *p, draft *d, const stage_costs *costs,
                                int64_t slot_bytes, int64_t slots, schedule *s, bool *found,
                                neap_diag *diag)
{
    stage_costs groups;
    neap_status status = neap_stage_groups_build(costs, GROUP, &groups, diag);
    if (status == NEAP_OK)
        status = neap_slot_table_find(p, d, &groups, slot_bytes, slots, s, found, diag);
    if (status == NEAP_OK && *found)
        status = neap_stage_groups_expand(costs->n, GROUP, s, diag);
    neap_stage_costs_clear(&groups);
    return status;
}

neap_status neap_slot_table_find(const planner *p, draft *d, const stage_costs *costs,
                                 int64_t slot_bytes, int64_t slots, schedule *s, bool *found,
                                 neap_diag *diag)
{
    schedule better = {.allocator = p->allocator};
    double slack = HUGE_VAL, ticks;
    bool is_better = false;
    neap_status status = NEAP_OK;
    *found = false;
    *s = (schedule){.allocator = p->allocator};
    if (slots > INT32_MAX / 4 || costs->n > MOST_STAGES)
        return neap_fail(diag, NEAP_UNSUPPORTED,
                         "%lu stages and %lld slots of memory are too many for a table; use larger "
                         "slots",
                         (unsigned long)costs->n, (long long)slots);
    if (costs->n >= LEAST_GROUPED)
        status = find_grouped(p, d, costs, slot_bytes, slots, s, found, diag);
    if (status == NEAP_OK && *found)
        slack = (double)neap_schedule_ticks(costs, s) - least_ticks(costs);
    if (status == NEAP_OK && !d->stopped)
        status =
            find_once(p, d, costs, slot_bytes, slots, slack, &better, &is_better, &ticks, diag);
    if (status == NEAP_OK && is_better) {
        neap_schedule_clear(s);
        *s = better;
        *found = true;
    } else {
        neap_schedule_clear(&better);
    }
    return status;
}
