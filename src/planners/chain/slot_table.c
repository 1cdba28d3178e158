/*
 * See slot_table.h. For each subchain the candidates (save, or a checkpoint before stage k) are
 * non-increasing functions of the memory m:
 *
 *     candidate(m) = constant + right(m - a) + left(m - b)     for m >= start
 *
 * The table is their minimum. What makes it fast:
 *
 * - Slots are processed in blocks. Within a block a candidate is at least its time at the block's
 * end, and the minimum so far is at most its value at the block's start. The parts' times at block
 * ends are contiguous over k (`left_bounds`, `right_bounds`), so one vector loop finds the k that
 * can win in the block. Few can, because the winner for i .. j-1 is tried first. Only those are
 * evaluated slot by slot.
 * - A first table of groups of three stages (stage_groups.c) gives a schedule and so an upper bound
 * on the time. Entries that exceed a subchain's share of it are left out (stage_costs_repeated).
 * - Threads share the tiles of the table.
 */
#include "planners/chain/slot_table.h"

#include "base/arena.h"
#include "base/fail.h"
#include "base/memory.h"
#include "base/team.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#define NEVER         INT32_MAX
#define BLOCK_SHIFT   4 /* a block has at least 16 slots */
#define MOST_BLOCKS   64
#define GROUP         3 /* stages per group in the first schedule */
#define LEAST_GROUPED 48
#define MOST_STAGES   20000
#define TILE          16 /* stages */
#define LEAST_SHARED  96 /* stages: shorter chains finish before other threads have started */

#if defined(__GNUC__)
#define PREFETCH(address) __builtin_prefetch(address)
#else
#define PREFETCH(address) ((void)(address))
#endif

/* Time for lo .. hi slots; infinite below, `last` from hi on. */
typedef struct cell {
    int32_t lo, hi; /* lo NEVER: impossible or useless in any memory it can get */
    double last;
    const double *values;
} cell;

/* The state of one thread. */
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
    run_chooser chooser;
    neap_arena arena; /* of the arrays */
    const stage_costs *costs;
    uint32_t n;
    int64_t slot_bytes;
    int32_t slots;
    int shift; /* a block has 1 << shift slots */
    uint32_t n_blocks;
    cell *cells;        /* modes; rows i: j = i .. n-1 */
    float *left_bounds; /* modes; rows i: blocks: j = i .. n-1: at most the time in the block's last
                           slot */
    float *right_bounds; /* mode OWNED; columns j: blocks: i = 0 .. j */
    float *forward;      /* n + 1: forward time of the stages before i */
    uint32_t *hints;     /* modes; i: blocks: the checkpoint k that won for the last j; 0: none */
    slot_kernels kernels;
    double slack; /* most time for recomputation; infinite if unknown */
    /* The job: subchains of one length are independent of each other. */
    neap_job job;
    const planner *p;
    slot_worker *workers;
    unsigned n_workers;
    neap_shared_allocator shared; /* the workers', if there are several */
    bool halted;                  /* stopped, or out of memory */
    bool stopped;
} slot_table;

/* One choice for a subchain. */
typedef struct candidate {
    int32_t start;
    int32_t a, b; /* slots held while the right and the left part run */
    double constant;
    const cell *right, *left; /* left is NULL for a save */
} candidate;

static cell *cell_at(const slot_table *t, int mode, uint32_t i, uint32_t j)
{
    return &t->cells[stage_costs_place(t->costs, mode, i, j)];
}

/* Bounds of the subchains i .. i, i .. i+1, ... in a block. */
static float *left_bounds(const slot_table *t, int mode, uint32_t i, uint32_t block)
{
    size_t row = stage_costs_place(t->costs, mode, i, i);
    return t->left_bounds + row * t->n_blocks + (size_t)block * (t->n - i);
}

/* Bounds of the subchains 0 .. j, 1 .. j, ... in a block. */
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

/* `forward_peak` is the peak of forward(i .. k-1). */
static candidate make_candidate(const slot_table *t, int mode, uint32_t i, uint32_t j, uint32_t k,
                                int64_t forward_peak)
{
    chain_split s = stage_costs_split(t->costs, mode, i, j, k, forward_peak);
    candidate c = {.a = to_slots(t, s.right_held),
                   .b = to_slots(t, s.left_held),
                   .constant = (double)s.ticks,
                   .right = cell_at(t, s.right_mode, s.right, j)};
    c.start = most(to_slots(t, s.peak), plus(c.a, c.right->lo));
    if (k > i) {
        c.left = cell_at(t, mode, i, k - 1);
        c.start = most(c.start, plus(c.b, c.left->lo));
    }
    return c;
}

static double candidate_at(const candidate *c, int64_t m)
{
    if (m < c->start)
        return HUGE_VAL;
    return c->constant + value_at(c->right, m - c->a) + (c->left ? value_at(c->left, m - c->b) : 0);
}

static int32_t clamp(int32_t m, int32_t least, int32_t greatest)
{
    return m < least ? least : m > greatest ? greatest : m;
}

/* The candidate at the slots begin .. end - 1. Each part changes with m up to some slot and is
 * constant from there on. */
static void apply_exactly(const slot_table *t, double *best, const candidate *c, int32_t begin,
                          int32_t end)
{
    const cell *right = c->right, *left = c->left;
    double right_last = right->last, left_last = left ? left->last : 0;
    int32_t right_end = clamp(right->hi + c->a, begin, end);
    int32_t left_end = left ? clamp(left->hi + c->b, begin, end) : begin;
    int32_t m = right_end < left_end ? right_end : left_end;
    if (m > begin)
        t->kernels.two(best + begin, right->values + (begin - c->a - right->lo),
                       left->values + (begin - c->b - left->lo), c->constant, m - begin);
    if (right_end > m)
        t->kernels.one(best + m, right->values + (m - c->a - right->lo), c->constant + left_last,
                       right_end - m);
    else if (left_end > m)
        t->kernels.one(best + m, left->values + (m - c->b - left->lo), c->constant + right_last,
                       left_end - m);
    double constant = c->constant + left_last + right_last;
    for (m = most(right_end, left_end); m < end && best[m] > constant; m++)
        best[m] = constant;
}

/* The most slots that a subchain can get: a held input and the results of later stages are always
 * live. */
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
    lo = most(lo, 0); /* peaks beyond what is held may be negative */
    cell_at(t, mode, i, i)->lo = NEVER;
    if (lo > most_slots(t, mode, i, i))
        return;
    w->best[lo] = (double)cost->again_ticks + (double)cost->backward_ticks;
    store(w, cell_at(t, mode, i, i), lo, lo);
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

/* Applies the checkpoint before k to a block; sets *winner if it is the best in the middle. */
static void apply_checkpoint(const slot_table *t, slot_worker *w, int mode, uint32_t i, uint32_t j,
                             uint32_t k, int32_t first, int32_t last, uint32_t *winner)
{
    double *middle = &w->best[first + (last - first) / 2], before = *middle;
    candidate c = make_candidate(t, mode, i, j, k, w->peaks[k]);
    apply(t, w, &c, first, last + 1);
    if (*middle < before)
        *winner = k;
}

/* Sums of bounds below which a candidate may win in a block; a millionth more for rounding. */
static float block_limit(const slot_table *t, const slot_worker *w, uint32_t i, int32_t first)
{
    return (float)((w->best[first] + (double)t->costs->forward_until[i]) * (1 + 1e-6));
}

/* Lists the k - i - 1 that pass, the one with the least bound first; returns their number. */
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

/* The values of candidates are scattered in memory, so fetch them ahead. */
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
 * Applies the checkpoints before i+1 .. i+count to the block's slots first .. last: first the
 * winner for j - 1, then the one with the least bound of those that pass the filter, then the
 * others as long as they pass.
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

/* How many checkpoints repeat at most `spare` ticks: the first ones do. */
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
    candidate save = make_candidate(t, mode, i, j, i, 0);
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
    double least = (double)stage_costs_least_ticks(t->costs, i, j);
    double limit = least + t->slack - (double)stage_costs_repeated(t->costs, i, j);
    int32_t cap = most_slots(t, mode, i, j), lo = 0;
    c->lo = NEVER;
    if (limit < least)
        return;
    for (int32_t m = 0; m <= cap; m++)
        w->best[m] = HUGE_VAL;
    minimise_candidates(t, w, mode, i, j, limit - least, cap);
    while (lo <= cap && !(w->best[lo] <= limit && isfinite(w->best[lo])))
        lo++;
    if (lo <= cap)
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

/* The subchain i .. j in the modes that can occur. */
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

/* Tiles on one diagonal do not depend on each other: the members share them, then move on to the
 * next diagonal. */
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
    for (uint32_t i = 0; i <= t->n; i++)
        t->forward[i] = round_down((double)t->costs->forward_until[i]);
    neap_team_run(&t->job, t->n_workers);
    *stopped = *stopped || t->stopped;
    return t->halted && !t->stopped ? neap_fail_no_memory(diag) : NEAP_OK;
}

/* ---- The schedule ---- */

/* The first candidate with the table's value at this memory. */
static uint32_t choose(run_chooser *self, subchain whole, int64_t *right_memory,
                       int64_t *left_memory)
{
    const slot_table *t = (const slot_table *)self;
    double best_time = HUGE_VAL;
    int64_t forward_peak = 0;
    uint32_t best = whole.i;
    for (uint32_t k = whole.i; k <= whole.j; k++) {
        forward_peak = stage_costs_extend_peak(t->costs, whole.mode, whole.i, k, forward_peak);
        candidate c = make_candidate(t, whole.mode, whole.i, whole.j, k, forward_peak);
        double time = candidate_at(&c, whole.memory);
        if (time < best_time) {
            best = k;
            best_time = time;
            *right_memory = whole.memory - c.a;
            *left_memory = whole.memory - c.b;
        }
    }
    return best;
}

/* Replaces the schedule by the fastest one that recomputes for at most `slack` ticks, if there is
 * one. */
static neap_status find_once(const planner *p, draft *d, const stage_costs *costs,
                             int64_t slot_bytes, int64_t slots, double slack, schedule *s,
                             bool *found, neap_diag *diag)
{
    size_t n = costs->n, n_cells = N_MODES * (n * (n + 1) / 2);
    slot_table t = {.chooser = {choose},
                    .costs = costs,
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
    neap_arena_init(&t.arena, p->allocator);
    bool taken = NEAP_TAKE(&t.arena, n_cells, t.cells) &&
                 NEAP_TAKE(&t.arena, n_cells * t.n_blocks, t.left_bounds) &&
                 NEAP_TAKE(&t.arena, n_cells / N_MODES * t.n_blocks, t.right_bounds) &&
                 NEAP_TAKE(&t.arena, n + 1, t.forward) &&
                 NEAP_TAKE(&t.arena, N_MODES * n * t.n_blocks, t.hints) && start_workers(&t);
    neap_status status = taken ? fill_all(&t, &d->stopped, diag) : neap_fail_no_memory(diag);
    if (status == NEAP_OK && !d->stopped && n > 0 &&
        isfinite(value_at(cell_at(&t, HELD, 0, t.n - 1), slots))) {
        neap_schedule_clear(s);
        *found = true;
        status = neap_schedule_build(p, costs, &t.chooser, slots, s, diag);
    }
    end_workers(&t);
    neap_arena_clear(&t.arena);
    return status;
}

/* A schedule of groups of stages, expanded to the stages. */
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
    double slack = HUGE_VAL;
    *found = false;
    *s = (schedule){.allocator = p->allocator};
    if (slots > INT32_MAX / 4 || costs->n > MOST_STAGES)
        return neap_fail(diag, NEAP_UNSUPPORTED,
                         "%lu stages and %lld slots of memory are too many for a table; use larger "
                         "slots",
                         (unsigned long)costs->n, (long long)slots);
    if (costs->n >= LEAST_GROUPED)
        NEAP_TRY(find_grouped(p, d, costs, slot_bytes, slots, s, found, diag));
    if (*found)
        slack = (double)(neap_schedule_ticks(costs, s) - costs->least_until[costs->n]);
    if (d->stopped)
        return NEAP_OK;
    return find_once(p, d, costs, slot_bytes, slots, slack, s, found, diag);
}
