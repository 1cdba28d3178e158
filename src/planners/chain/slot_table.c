/*
 * See slot_table.h. For each subchain the candidates (save, or a checkpoint before stage k) are
 * functions of the memory m:
 *
 *     candidate(m) = constant + right(m - a) + left(m - b)     for m >= start
 *
 * and the table is their minimum: one vector loop a candidate. Two facts keep it short. The table
 * is nonincreasing in m. And a checkpoint before k computes the stages i .. k-1 a second time, so
 * that candidate k is at least T0 plus their forward time, T0 being the time without recomputation;
 * as k grows this bound grows, and the slots at which it could still win, those where the minimum
 * so far is above it, end at a point that only moves left.
 */
#include "planners/chain/slot_table.h"

#include "base/arena.h"
#include "base/fail.h"
#include "base/memory.h"
#include "base/team.h"
#include "planners/chain/slot_kernels.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#define NEVER        INT32_MAX
#define BLOCKS       8  /* of slots, looked at together */
#define PROBES       3  /* slots at which the best checkpoint is remembered for the next subchain */
#define COARSER      10 /* the first table has so many times fewer slots */
#define MOST_STAGES  20000
#define TILE         16  /* stages: what is near in the table is used together */
#define LEAST_SHARED 256 /* stages: shorter chains are done before other threads have started */

/* Time for lo .. hi slots; infinite below, `last` from hi on. */
typedef struct cell {
    int32_t lo, hi; /* lo NEVER: not within any memory that can be left for it */
    double last;
    const double *values;
    double coarse[BLOCKS];  /* time at the ends of the blocks: slots block - 1, 2 block - 1, ... */
    uint32_t hints[PROBES]; /* the k that were best at some slots; i where it was to save */
} cell;

/* What a thread has for itself. */
typedef struct slot_worker {
    neap_arena values;
    double *best; /* scratch: 0 .. slots */
    bool failed;  /* out of memory */
} slot_worker;

typedef struct slot_table {
    neap_allocator *allocator;
    const stage_costs *costs;
    uint32_t n;
    int64_t slot_bytes;
    int32_t slots;
    int shift;   /* a block has 1 << shift slots */
    cell *cells; /* modes; rows i: j = i .. n-1: left parts are read along a row */
    cell
        *columns; /* mode OWNED again; columns j: i = 0 .. j: right parts are read along a column */
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

static cell *cell_at(const slot_table *t, int mode, uint32_t i, uint32_t j)
{
    size_t n = t->n, row = (size_t)i * n - (size_t)i * (i - 1) / 2; /* rows before i: n, n-1, ... */
    return &t->cells[(size_t)mode * (n * (n + 1) / 2) + row + (j - i)];
}

static cell *column_at(const slot_table *t, uint32_t i, uint32_t j)
{
    return &t->columns[(size_t)j * (j + 1) / 2 + i];
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

static int64_t results_between(const slot_table *t, uint32_t i, uint32_t j)
{
    return t->costs->results_from[i] - t->costs->results_from[j + 1];
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
    c.start = most(to_slots(t, t->costs->stage[j].gradient + cost->save_peak[mode]),
                   to_slots(t, results_between(t, i + 1, j) + cost->backward_peak[mode]));
    c.start = most(c.start, plus(c.a, c.right->lo));
    return c;
}

/* A(i-1) while a checkpoint behind it is in use. */
static int64_t held_input(const slot_table *t, int mode, uint32_t i)
{
    return mode == OWNED ? t->costs->stage[i].input : 0;
}

/* `forward_peak`: of the stages i .. k-1. */
static candidate make_checkpoint(const slot_table *t, int mode, uint32_t i, uint32_t j, uint32_t k,
                                 int64_t forward_peak)
{
    const stage_costs *costs = t->costs;
    candidate c = {.k = k,
                   .a = to_slots(t, held_input(t, mode, i)),
                   .b = to_slots(t, results_between(t, k, j)),
                   .right = column_at(t, k, j),
                   .left = cell_at(t, mode, i, k - 1)};
    c.constant = (double)(costs->forward_until[k] - costs->forward_until[i]);
    c.start = to_slots(t, costs->stage[j].gradient + forward_peak);
    c.start = most(c.start, most(plus(c.a, c.right->lo), plus(c.b, c.left->lo)));
    return c;
}

/* Grows the peak of forward(i .. k-2) to that of forward(i .. k-1). */
static int64_t extend_peak(const slot_table *t, int mode, uint32_t i, uint32_t k, int64_t peak)
{
    if (k == i + 1)
        return t->costs->stage[i].forward_peak[mode];
    int64_t here = held_input(t, mode, i) + t->costs->stage[k - 1].drop_peak;
    return here > peak ? here : peak;
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

/* No more than the time of a part in m slots: that at the end of the block which holds m. */
static double coarse_time(const slot_table *t, const cell *part, int32_t m)
{
    int32_t block = m >> t->shift;
    return part->coarse[block < BLOCKS ? block : BLOCKS - 1];
}

/*
 * The candidate at the slots start .. end - 1, block by block. It falls with m, so in a block it is
 * nowhere below its time at the block's end, of which the parts' coarse times give a bound; the
 * minimum so far is nowhere above its value at the block's first slot. Most candidates end here,
 * without a look at their values.
 */
static void apply(const slot_table *t, double *best, const candidate *c, int32_t end)
{
    for (int32_t begin = c->start; begin < end;) {
        int32_t block_end = ((begin >> t->shift) + 1) << t->shift;
        block_end = block_end < end ? block_end : end;
        double bound = c->constant + coarse_time(t, c->right, block_end - 1 - c->a) +
                       (c->left ? coarse_time(t, c->left, block_end - 1 - c->b) : 0);
        if (bound < best[begin])
            apply_exactly(t, best, c, begin, block_end);
        begin = block_end;
    }
}

/* The most slots that can be left for a subchain: a held input and the results behind it are always
 * there. */
static int32_t most_slots(const slot_table *t, int mode, uint32_t i, uint32_t j)
{
    int32_t held = (mode == HELD ? to_slots(t, t->costs->stage[i].input) : 0) +
                   to_slots(t, t->costs->results_from[j + 1]);
    return t->slots - held;
}

static void store(const slot_table *t, slot_worker *w, cell *c, int32_t lo, int32_t cap)
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
    for (int32_t i = 0; i < BLOCKS; i++)
        c->coarse[i] = value_at(c, ((int64_t)(i + 1) << t->shift) - 1);
}

static void fill_single(const slot_table *t, slot_worker *w, int mode, uint32_t i)
{
    const stage_cost *cost = &t->costs->stage[i];
    int32_t lo = most(to_slots(t, cost->gradient + cost->again_peak[mode]),
                      to_slots(t, cost->backward_peak[mode]));
    if (lo > most_slots(t, mode, i, i)) {
        cell_at(t, mode, i, i)->lo = NEVER;
        return;
    }
    w->best[lo] = (double)cost->again_ticks + (double)cost->backward_ticks;
    store(t, w, cell_at(t, mode, i, i), lo, lo);
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

/* Remembers which candidate has been best at a few slots. */
typedef struct probes {
    int32_t slots[PROBES];
    double times[PROBES];
    uint32_t k[PROBES];
} probes;

static void look(probes *p, const double *best, uint32_t k)
{
    for (int i = 0; i < PROBES; i++)
        if (best[p->slots[i]] < p->times[i]) {
            p->times[i] = best[p->slots[i]];
            p->k[i] = k;
        }
}

/* The candidate k over all slots up to `end`. Returns its first slot. */
static int32_t apply_k(const slot_table *t, slot_worker *w, const candidate *c, int32_t end,
                       probes *p)
{
    if (c->start >= end)
        return NEVER;
    apply(t, w->best, c, end);
    look(p, w->best, c->k);
    return c->start;
}

/* The peak of forward(i .. k-1). */
static int64_t peak_until(const slot_table *t, int mode, uint32_t i, uint32_t k)
{
    int64_t peak = 0;
    for (uint32_t l = i + 1; l <= k; l++)
        peak = extend_peak(t, mode, i, l, peak);
    return peak;
}

static int32_t least_slot(int32_t a, int32_t b)
{
    return a < b ? a : b;
}

/*
 * The minimum of all candidates, into w->best; the last slot is `cap`. Returns the first slot at
 * which there is one. What was best for i .. j-1 goes first: with a good minimum at hand most
 * others are rejected by their bounds.
 */
static int32_t minimise_candidates(const slot_table *t, slot_worker *w, int mode, uint32_t i,
                                   uint32_t j, double least, double limit, int32_t cap)
{
    const stage_costs *costs = t->costs;
    cell *c = cell_at(t, mode, i, j);
    const cell *before = cell_at(t, mode, i, j - 1);
    probes p = {.slots = {cap / 4, cap / 2, cap - cap / 8}};
    for (int n = 0; n < PROBES; n++)
        p.times[n] = HUGE_VAL;
    candidate save = make_save(t, mode, i, j);
    int32_t lo = apply_k(t, w, &save, cap + 1, &p);
    for (int n = 0; n < PROBES && before->lo != NEVER; n++) {
        uint32_t k = before->hints[n];
        if (k <= i || (n > 0 && k == before->hints[n - 1]))
            continue;
        candidate hinted = make_checkpoint(t, mode, i, j, k, peak_until(t, mode, i, k));
        lo = least_slot(lo, apply_k(t, w, &hinted, cap + 1, &p));
    }
    int32_t open = cap; /* the last slot at which a later candidate may win */
    int64_t forward_peak = 0;
    for (uint32_t k = i + 1; k <= j; k++) {
        double bound = least + (double)(costs->forward_until[k - 1] - costs->forward_until[i]) +
                       (double)costs->stage[k - 1].again_ticks;
        forward_peak = extend_peak(t, mode, i, k, forward_peak);
        while (open >= 0 && w->best[open] <= bound)
            open--;
        if (bound > limit)
            break;
        candidate at_k = make_checkpoint(t, mode, i, j, k, forward_peak);
        lo = least_slot(lo, apply_k(t, w, &at_k, open + 1, &p));
    }
    memcpy(c->hints, p.k, sizeof c->hints);
    return lo;
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
        lo = minimise_candidates(t, w, mode, i, j, least, limit, cap);
    }
    while (lo != NEVER && w->best[lo] > limit)
        lo = lo < cap ? lo + 1 : NEVER;
    if (lo == NEVER)
        c->lo = NEVER;
    else
        store(t, w, c, lo, cap);
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
    }
    *column_at(t, i, j) = *cell_at(t, OWNED, i, j);
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
            t->stopped = planner_stopped(t->p);
            t->halted = t->stopped;
            for (unsigned other = 0; other < members; other++)
                t->halted = t->halted || t->workers[other].failed;
            planner_report(t->p, (double)apart / (double)n_tiles);
        }
        neap_team_meet(team);
    }
}

static neap_status start_workers(slot_table *t, neap_diag *diag)
{
    neap_allocator *allocator = t->allocator;
    unsigned members = t->n < LEAST_SHARED ? 1 : neap_team_size(t->p->request->threads, 16);
    if (members > 1 && !neap_shared_allocator_init(&t->shared, allocator))
        members = 1;
    t->n_workers = members;
    neap_status status = NEAP_NEW(allocator, members, &t->workers, diag);
    for (unsigned i = 0; i < members && status == NEAP_OK; i++) {
        neap_arena_init(&t->workers[i].values, members > 1 ? &t->shared.base : allocator);
        status = NEAP_NEW(allocator, (size_t)t->slots + 2, &t->workers[i].best, diag);
    }
    return status;
}

static void end_workers(slot_table *t)
{
    for (unsigned i = 0; t->workers && i < t->n_workers; i++) {
        NEAP_DELETE(t->allocator, (size_t)t->slots + 2, t->workers[i].best);
        neap_arena_clear(&t->workers[i].values);
    }
    NEAP_DELETE(t->allocator, t->n_workers, t->workers);
    if (t->n_workers > 1)
        neap_shared_allocator_clear(&t->shared);
}

static neap_status fill_all(slot_table *t, bool *stopped, neap_diag *diag)
{
    for (uint32_t i = 0; i < t->n; i++)
        t->least_until[i + 1] = t->least_until[i] + t->costs->stage[i].forward_ticks +
                                t->costs->stage[i].backward_ticks;
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
        forward_peak = extend_peak(t, mode, whole.i, k, forward_peak);
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
    neap_allocator *allocator = p->allocator;
    size_t n = costs->n, n_cells = N_MODES * (n * (n + 1) / 2);
    slot_table t = {.allocator = allocator,
                    .costs = costs,
                    .n = costs->n,
                    .slot_bytes = slot_bytes,
                    .slots = (int32_t)slots,
                    .kernels = slot_kernels_choose(),
                    .slack = slack,
                    .job = {run_member},
                    .p = p};
    while ((int64_t)BLOCKS << t.shift <= slots)
        t.shift++;
    *found = false;
    neap_status status = NEAP_NEW(allocator, n_cells, &t.cells, diag);
    if (status == NEAP_OK)
        status = NEAP_NEW(allocator, n_cells / N_MODES, &t.columns, diag);
    if (status == NEAP_OK)
        status = NEAP_NEW(allocator, n + 1, &t.least_until, diag);
    if (status == NEAP_OK)
        status = start_workers(&t, diag);
    if (status == NEAP_OK)
        status = fill_all(&t, &d->stopped, diag);
    if (status == NEAP_OK && !d->stopped && n > 0) {
        *ticks = value_at(cell_at(&t, HELD, 0, t.n - 1), slots);
        *found = isfinite(*ticks);
    }
    if (*found && s) {
        table_chooser chooser = {.base = {choose}, .table = &t};
        status = schedule_build(p, costs, &chooser.base, slots, s, diag);
    }
    NEAP_DELETE(allocator, n_cells, t.cells);
    NEAP_DELETE(allocator, n_cells / N_MODES, t.columns);
    NEAP_DELETE(allocator, n + 1, t.least_until);
    end_workers(&t);
    return status;
}

static double least_ticks(const stage_costs *costs)
{
    double ticks = 0;
    for (uint32_t i = 0; i < costs->n; i++)
        ticks += (double)costs->stage[i].forward_ticks + (double)costs->stage[i].backward_ticks;
    return ticks;
}

neap_status slot_table_find(const planner *p, draft *d, const stage_costs *costs,
                            int64_t slot_bytes, int64_t slots, schedule *s, bool *found,
                            neap_diag *diag)
{
    double slack = HUGE_VAL, ticks;
    neap_status status = NEAP_OK;
    *found = false;
    if (slots > INT32_MAX / 4 || costs->n > MOST_STAGES)
        return neap_fail(diag, NEAP_UNSUPPORTED,
                         "%lu stages and %lld slots of memory are too many for a table; use larger "
                         "slots",
                         (unsigned long)costs->n, (long long)slots);
    if (slots >= COARSER * COARSER) {
        status = find_once(p, d, costs, slot_bytes * COARSER, slots / COARSER, slack, NULL, found,
                           &ticks, diag);
        if (*found)
            slack = ticks - least_ticks(costs);
    }
    if (status == NEAP_OK && !d->stopped)
        status = find_once(p, d, costs, slot_bytes, slots, slack, s, found, &ticks, diag);
    return status;
}
