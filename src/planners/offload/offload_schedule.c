/*
 * The simulator: one pass over the ops, with the transfers that happen before each.
 *
 * Copies out run first in, first out, so those in flight end in order: an op may wait for the
 * parcels in the list of those copied but not released. For copies in, a profile of the bytes per
 * op, with all chosen parcels away and those fetched back, gives the op from which the next one
 * fits (found once, from its use backwards: only earlier copies in change the profile).
 */
#include "planners/offload/offload_schedule.h"

#include "base/fail.h"
#include "base/memory.h"
#include "planners/common/byte_profile.h"

#include <stdlib.h>
#include <string.h>

enum place { STAYS = 0, CHOSEN, LEAVING, AWAY, BACK };

typedef struct move {
    uint32_t position; /* the op before which it happens */
    uint32_t parcel;
    neap_step_kind kind;
} move;

struct offload_simulator {
    const offload_problem *problem;
    byte_profile profile;
    uint8_t *place;      /* per parcel */
    bool *dropped;       /* per parcel: its copy would not end before it is needed */
    int64_t *copy_end;   /* per parcel: of its copy out */
    uint32_t *gone_at;   /* per parcel: the op before which it was released */
    uint32_t *next;      /* per parcel not yet released: the one copied out after it, */
    uint32_t *previous;  /* and the one before it */
    uint32_t *due;       /* parcels by ascending `needed`; of equals the later in order first */
    uint32_t *due_first; /* per op, and one more: of due */
    uint32_t *out, *in;  /* for neap_offload_simulate_ordered */
    bool record;         /* the moves of a run */
    move *moves;
    size_t n_moves;
};

neap_status neap_offload_choice_take(offload_problem *problem, offload_choice *choice,
                                     neap_diag *diag)
{
    neap_arena *arena = &problem->arena;
    size_t n = problem->n_parcels;
    bool taken = NEAP_TAKE(arena, n, choice->out) && NEAP_TAKE(arena, n, choice->in) &&
                 NEAP_TAKE(arena, n, choice->insist) && NEAP_TAKE(arena, n, choice->hold);
    return taken ? NEAP_OK : neap_fail_no_memory(diag);
}

void neap_offload_choice_copy(const offload_problem *problem, offload_choice *to,
                              const offload_choice *from)
{
    to->n = from->n;
    for (uint32_t i = 0; i < from->n; i++) {
        to->out[i] = from->out[i];
        to->in[i] = from->in[i];
    }
    for (uint32_t i = 0; i < problem->n_parcels; i++) {
        to->insist[i] = from->insist ? from->insist[i] : (offload_insistence){0};
        to->hold[i] = from->hold ? from->hold[i] : 0;
    }
}

static void sort_by_need(offload_simulator *sim)
{
    const offload_problem *problem = sim->problem;
    uint32_t *first = sim->due_first;
    for (uint32_t i = 0; i < problem->n_parcels; i++)
        first[problem->parcels[i].needed]++;
    for (uint32_t k = 0; k < problem->n_ops; k++)
        first[k + 1] += first[k];
    for (uint32_t i = 0; i < problem->n_parcels; i++)
        sim->due[--first[problem->parcels[i].needed]] = i;
}

neap_status neap_offload_simulator_create(offload_problem *problem, offload_simulator **simulator,
                                          neap_diag *diag)
{
    size_t n = problem->n_parcels, n_ops = problem->n_ops;
    neap_arena *arena = &problem->arena;
    offload_simulator *sim;
    if (!NEAP_TAKE(arena, 1, sim) || !NEAP_TAKE(arena, n, sim->place) ||
        !NEAP_TAKE(arena, n, sim->dropped) || !NEAP_TAKE(arena, n, sim->copy_end) ||
        !NEAP_TAKE(arena, n, sim->gone_at) || !NEAP_TAKE(arena, n, sim->next) ||
        !NEAP_TAKE(arena, n, sim->previous) || !NEAP_TAKE(arena, n, sim->due) ||
        !NEAP_TAKE(arena, n_ops + 1, sim->due_first) || !NEAP_TAKE(arena, n, sim->out) ||
        !NEAP_TAKE(arena, n, sim->in) || !NEAP_TAKE(arena, 3 * n, sim->moves))
        return neap_fail_no_memory(diag);
    sim->problem = problem;
    sort_by_need(sim);
    *simulator = sim;
    return neap_byte_profile_resize(&sim->profile, problem->planner->allocator, problem->n_ops + 1,
                                    diag);
}

void neap_offload_simulator_destroy(offload_simulator *simulator)
{
    if (simulator)
        neap_byte_profile_clear(&simulator->profile, simulator->problem->planner->allocator);
}

/* ---- One run ---- */

typedef struct run {
    offload_simulator *sim;
    const offload_choice *choice;
    bool roomy; /* everything fits the budget at once: no profile is needed */
    int64_t clock;
    int64_t engines[2];          /* the times from which they are free */
    int64_t *out_free, *in_free; /* of the engines; the same if there is only one */
    int64_t memory_waits;
    int64_t away_bytes;   /* of parcels that are AWAY */
    uint32_t first, last; /* parcels copied out and not released: a list by `next` */
    uint32_t next_out, next_in;
    uint32_t earliest;    /* the op before which the next copy in fits; NEAP_NONE: not known */
    uint32_t first_fetch; /* the least of the choice's fetch_at; 0 without */
    bool fetching;        /* a copy in has been considered */
    uint32_t idle_end;    /* after the last op where a copy in would have started if the parcel had
                             been away; 0: there is none */
} run;

static int64_t later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static void note(run *r, uint32_t position, uint32_t i, neap_step_kind kind)
{
    if (r->sim->record)
        r->sim->moves[r->sim->n_moves++] = (move){.position = position, .parcel = i, .kind = kind};
}

/* Starts a copy of parcel i as soon as its engine is free. */
static void start_copy(run *r, uint32_t k, uint32_t i, int64_t *engine, int64_t ticks,
                       neap_step_kind kind)
{
    *engine = r->sim->copy_end[i] = later(*engine, r->clock) + ticks;
    note(r, k, i, kind);
}

/* The list of parcels that are copied out and not released. */
static void attach(run *r, uint32_t i)
{
    r->sim->next[i] = NEAP_NONE;
    r->sim->previous[i] = r->last;
    *(r->last == NEAP_NONE ? &r->first : &r->sim->next[r->last]) = i;
    r->last = i;
}

static void detach(run *r, uint32_t i)
{
    uint32_t next = r->sim->next[i], previous = r->sim->previous[i];
    *(previous == NEAP_NONE ? &r->first : &r->sim->next[previous]) = next;
    *(next == NEAP_NONE ? &r->last : &r->sim->previous[next]) = previous;
}

/* The op before which parcel i's copy out is held back, or 0. */
static uint32_t held_to(const run *r, uint32_t i)
{
    return r->choice->hold ? r->choice->hold[i] : 0;
}

/* Parcels made before op k start to leave, as far as the order of the copies allows; those held
 * back only after the copies in. */
static void start_copies_out(run *r, uint32_t k, bool after_copies_in)
{
    for (; r->next_out < r->choice->n; r->next_out++) {
        uint32_t i = r->choice->out[r->next_out], held = held_to(r, i);
        const parcel *x = &r->sim->problem->parcels[i];
        if (r->sim->dropped[i])
            continue;
        if (x->made >= k || held > k || (held > 0 && !after_copies_in))
            return;
        start_copy(r, k, i, r->out_free, x->out_ticks, NEAP_OFFLOAD);
        r->sim->place[i] = LEAVING;
        attach(r, i);
    }
}

/* Releases parcels before op k until `bytes` are away or all whose copies end by `until` are
 * released. The clock waits for the copies that are needed. */
static void release(run *r, uint32_t k, int64_t bytes, int64_t until)
{
    offload_simulator *sim = r->sim;
    uint32_t i = r->first;
    while (i != NEAP_NONE && sim->copy_end[i] <= until && r->away_bytes < bytes) {
        const parcel *x = &sim->problem->parcels[i];
        uint32_t next = sim->next[i];
        if (x->left < k) {
            int64_t end = later(sim->copy_end[i], r->clock);
            r->memory_waits += end - r->clock;
            r->clock = end;
            sim->place[i] = AWAY;
            sim->gone_at[i] = k;
            r->away_bytes += x->bytes;
            detach(r, i);
            note(r, k, i, NEAP_FREE);
        }
        i = next;
    }
}

static void start_copy_in(run *r, uint32_t i, uint32_t k)
{
    offload_simulator *sim = r->sim;
    const parcel *x = &sim->problem->parcels[i];
    start_copy(r, k, i, r->in_free, x->in_ticks, NEAP_PREFETCH);
    if (!r->roomy)
        neap_byte_profile_add(&sim->profile, k, x->needed, x->bytes);
    sim->place[i] = BACK;
    r->away_bytes -= x->bytes;
    r->next_in++;
    r->earliest = NEAP_NONE;
}

/* The next parcel to fetch, or NEAP_NONE. Skips those that stay. */
static uint32_t next_in(run *r, uint32_t k)
{
    for (; r->next_in < r->choice->n; r->next_in++, r->earliest = NEAP_NONE) {
        uint32_t i = r->choice->in[r->next_in];
        bool over = r->sim->problem->parcels[i].needed < k && r->sim->place[i] != AWAY;
        if (!r->sim->dropped[i] && !over)
            return i;
    }
    return NEAP_NONE;
}

/* Whether parcel i may be back from op k on, given what the ops up to its use need. */
static bool may_return(run *r, uint32_t i, uint32_t k)
{
    const offload_problem *problem = r->sim->problem;
    const parcel *x = &problem->parcels[i];
    r->fetching = true;
    if (r->roomy)
        return true;
    if (r->earliest == NEAP_NONE)
        r->earliest = neap_byte_profile_behind_over(&r->sim->profile, k, x->needed,
                                                    problem->budget - x->bytes);
    return k >= r->earliest || k >= x->needed;
}

/*
 * Copies in of what op k reads, and of those before them in the order. They may start as soon as
 * there is room next to what is live between the ops; the op's own memory may have to wait longer.
 * *ready is when everything that the op reads has arrived. False if that is impossible.
 */
static bool fetch_due(run *r, uint32_t k, int64_t *ready)
{
    offload_simulator *sim = r->sim;
    const offload_problem *problem = sim->problem;
    uint32_t n_due = 0;
    *ready = 0;
    for (uint32_t d = sim->due_first[k]; d < sim->due_first[k + 1]; d++) {
        uint32_t i = sim->due[d];
        n_due += sim->place[i] == AWAY;
        if (sim->place[i] == BACK)
            *ready = later(*ready, sim->copy_end[i]);
    }
    while (n_due > 0) {
        uint32_t i = next_in(r, k);
        if (i == NEAP_NONE || sim->place[i] != AWAY || !may_return(r, i, k))
            return false;
        int64_t away = problem->before[k] + problem->parcels[i].bytes - problem->budget;
        release(r, k, away, INT64_MAX);
        if (r->away_bytes < away)
            return false;
        start_copy_in(r, i, k);
        if (problem->parcels[i].needed == k) {
            n_due--;
            *ready = later(*ready, sim->copy_end[i]);
        }
    }
    return true;
}

/*
 * With one engine each way, copies out are still in flight when parcel i could come back, and an op
 * that needs their memory would wait for them. Whether one would, as far as is known now: all
 * copies out have begun, and nothing else waits.
 */
static bool is_in_the_way(const run *r, uint32_t i, uint32_t k)
{
    const offload_simulator *sim = r->sim;
    const offload_problem *problem = sim->problem;
    bool all_begun = r->next_out == r->choice->n || held_to(r, r->choice->out[r->next_out]) > 0;
    if (!problem->link.duplex || (r->first == NEAP_NONE && all_begun))
        return false;
    if (!all_begun)
        return true;
    int64_t clock = r->clock, away = r->away_bytes - problem->parcels[i].bytes;
    uint32_t flying = r->first;
    for (uint32_t j = k; j < problem->parcels[i].needed && flying != NEAP_NONE; j++) {
        for (; flying != NEAP_NONE && sim->copy_end[flying] <= clock; flying = sim->next[flying])
            away += problem->parcels[flying].bytes;
        if (problem->need[j] - away > problem->budget)
            return true;
        clock += problem->ticks[j];
    }
    return false;
}

/* The next copies in that would begin before op k ends, if there is room next to it. False if one
 * with a fixed start at this op cannot start. */
static bool fetch_more(run *r, uint32_t k, int64_t ready)
{
    offload_simulator *sim = r->sim;
    const offload_problem *problem = sim->problem;
    const offload_choice *choice = r->choice;
    for (uint32_t i; r->next_in < choice->n && (i = next_in(r, k)) != NEAP_NONE;) {
        bool in_time = later(*r->in_free, r->clock) < later(ready, r->clock) + problem->ticks[k];
        if (sim->place[i] != AWAY) {
            if ((choice->fetch_at || in_time) && k >= r->first_fetch)
                r->idle_end = k + 1;
            return true;
        }
        if (choice->fetch_at ? choice->fetch_at[i] > k : !in_time)
            return true; /* it starts before a later op */
        if (!may_return(r, i, k))
            return !choice->fetch_at;
        int64_t away = problem->need[k] + problem->parcels[i].bytes - problem->budget;
        offload_patience how = OFFLOAD_PATIENT;
        if (choice->insist && choice->insist[i].from <= k)
            how = choice->insist[i].how;
        bool insists = choice->fetch_at || how != OFFLOAD_PATIENT;
        if (!insists && is_in_the_way(r, i, k))
            return true;
        if (r->away_bytes < away) {
            if (!insists)
                return true;
            if (how == OFFLOAD_AT_ONCE)
                away = problem->before[k] + problem->parcels[i].bytes - problem->budget;
            release(r, k, away, INT64_MAX);
            if (r->away_bytes < away)
                return true;
        }
        start_copy_in(r, i, k);
    }
    return true;
}

/* Whether a copy in would have started before now without the dropped ones before it. */
static bool missed_copy_in(const run *r)
{
    for (uint32_t c = r->next_in; c < r->choice->n; c++) {
        uint32_t i = r->choice->in[c];
        if (!r->sim->dropped[i])
            return r->sim->place[i] == AWAY && r->sim->gone_at[i] < r->idle_end;
    }
    return false;
}

/*
 * Removes a parcel that is late, as if it had never been chosen. That is exact while its copy has
 * not begun and no copy in depends on it: those after it in the queue have not begun either, so
 * nothing so far would have been different. False if it is too late for that.
 */
static bool forget(run *r, uint32_t i)
{
    offload_simulator *sim = r->sim;
    const parcel *parcels = sim->problem->parcels;
    if (sim->record || r->fetching || r->choice->strict || missed_copy_in(r))
        return false;
    /* If copies out are held back, it matters before which op the others would have begun. */
    for (uint32_t c = 0; r->choice->hold && c < r->choice->n; c++)
        if (r->choice->hold[r->choice->out[c]] > 0)
            return false;
    if (sim->place[i] == LEAVING) {
        int64_t engine = sim->copy_end[i] - parcels[i].out_ticks;
        if (engine <= r->clock)
            return false;
        detach(r, i);
        for (uint32_t j = sim->next[i]; j != NEAP_NONE; j = sim->next[j])
            engine = sim->copy_end[j] = engine + parcels[j].out_ticks;
        *r->out_free = engine;
    }
    sim->place[i] = STAYS;
    return true;
}

/* Whether a parcel that op k needs cannot leave before, and the run must restart without it. */
static bool drop_late(run *r, uint32_t k)
{
    offload_simulator *sim = r->sim;
    bool late = false;
    for (uint32_t d = sim->due_first[k]; d < sim->due_first[k + 1]; d++) {
        uint32_t i = sim->due[d];
        if (sim->place[i] == CHOSEN || sim->place[i] == LEAVING) {
            sim->dropped[i] = true;
            late |= !forget(r, i);
        }
    }
    return late;
}

static void set_profile(run *r)
{
    offload_simulator *sim = r->sim;
    const offload_problem *problem = sim->problem;
    int64_t *profile = sim->profile.bytes, away = 0;
    memset(profile, 0, (problem->n_ops + 1) * sizeof *profile);
    for (uint32_t c = 0; c < r->choice->n; c++) {
        uint32_t i = r->choice->out[c];
        if (sim->dropped[i])
            continue;
        profile[problem->parcels[i].left + 1] += problem->parcels[i].bytes;
        profile[problem->parcels[i].needed] -= problem->parcels[i].bytes;
        sim->place[i] = CHOSEN;
    }
    for (uint32_t k = 0; k < problem->n_ops; k++) {
        away += profile[k];
        profile[k] = problem->need[k] - away;
    }
    neap_byte_profile_start(&sim->profile);
}

/*
 * Whether op k just runs: no copy starts or can be released before it, nothing is due, and there is
 * enough memory. This holds for most ops and keeps the loop fast.
 */
static bool is_quiet(run *r, uint32_t k)
{
    const offload_simulator *sim = r->sim;
    const offload_problem *problem = sim->problem;
    const offload_choice *choice = r->choice;
    if (problem->need[k] - problem->budget > r->away_bytes ||
        sim->due_first[k] < sim->due_first[k + 1] || choice->fetch_at)
        return false;
    if (r->next_out < choice->n) {
        uint32_t next = choice->out[r->next_out];
        if (sim->dropped[next] || (problem->parcels[next].made < k && held_to(r, next) <= k))
            return false;
    }
    if (r->first != NEAP_NONE && sim->copy_end[r->first] <= r->clock)
        return false;
    if (r->next_in == choice->n)
        return true;
    uint32_t head = choice->in[r->next_in];
    bool in_time = later(*r->in_free, r->clock) < r->clock + problem->ticks[k];
    if (sim->place[head] == AWAY || sim->dropped[head])
        return !in_time && !sim->dropped[head];
    if (in_time)
        r->idle_end = k + 1;
    return true;
}

typedef enum verdict { RUNS = 0, BLOCKED, LATE } verdict;

/* Op k and all that happens before it; LATE: it needs a parcel that has not left. */
static verdict run_op(run *r, uint32_t k)
{
    const offload_simulator *sim = r->sim;
    const offload_problem *problem = sim->problem;
    int64_t away = problem->need[k] - problem->budget, ready = 0;
    bool is_due = sim->due_first[k] < sim->due_first[k + 1];
    start_copies_out(r, k, false);
    if (r->first != NEAP_NONE)
        release(r, k, INT64_MAX, r->clock);
    if (is_due && drop_late(r, k))
        return LATE;
    if (is_due && !fetch_due(r, k, &ready))
        return BLOCKED;
    release(r, k, away, INT64_MAX);
    if (r->away_bytes < away || !fetch_more(r, k, ready))
        return BLOCKED;
    release(r, k, away, INT64_MAX); /* for a copy in that is insisted on */
    if (r->away_bytes < away)
        return BLOCKED;
    if (r->choice->hold)
        start_copies_out(r, k, true);
    r->clock = later(ready, r->clock) + problem->ticks[k];
    return RUNS;
}

/* LATE if a parcel was dropped: the run must restart without it. */
static verdict run_once(offload_simulator *sim, const offload_choice *choice,
                        offload_result *result)
{
    const offload_problem *problem = sim->problem;
    run r = {.sim = sim,
             .choice = choice,
             .roomy = problem->peak <= problem->budget,
             .first = NEAP_NONE,
             .last = NEAP_NONE,
             .earliest = NEAP_NONE};
    r.out_free = &r.engines[0];
    r.in_free = &r.engines[problem->link.duplex];
    sim->n_moves = 0;
    if (problem->n_parcels > 0)
        memset(sim->place, STAYS, problem->n_parcels * sizeof *sim->place);
    set_profile(&r);
    for (uint32_t c = 0; choice->fetch_at && c < choice->n; c++)
        if (c == 0 || choice->fetch_at[choice->in[c]] < r.first_fetch)
            r.first_fetch = choice->fetch_at[choice->in[c]];
    *result = (offload_result){0};
    for (uint32_t k = 0; k < problem->n_ops; k++) {
        if (is_quiet(&r, k)) {
            r.clock += problem->ticks[k];
            continue;
        }
        verdict found = run_op(&r, k);
        if (found != RUNS)
            return found;
        if (problem->need[k] - r.away_bytes > result->peak_bytes) {
            result->peak_bytes = problem->need[k] - r.away_bytes;
            result->peak_op = k;
        }
    }
    result->fits = true;
    result->ticks = r.clock;
    result->idle_ticks = r.clock - problem->total_ticks;
    result->memory_waits = r.memory_waits;
    return RUNS;
}

offload_result neap_offload_simulate(offload_simulator *simulator, const offload_choice *choice)
{
    const offload_problem *problem = simulator->problem;
    offload_result result;
    if (problem->n_parcels > 0)
        memset(simulator->dropped, 0, problem->n_parcels * sizeof *simulator->dropped);
    while (run_once(simulator, choice, &result) == LATE && !choice->strict)
        continue;
    for (uint32_t c = 0; c < choice->n; c++)
        if (!simulator->dropped[choice->out[c]])
            result.host_bytes += problem->parcels[choice->out[c]].bytes;
    if (problem->link.host_memory > 0 && result.host_bytes > problem->link.host_memory)
        result.fits = false;
    return result;
}

offload_result neap_offload_prune(offload_simulator *simulator, offload_choice *choice)
{
    bool strict = choice->strict;
    choice->strict = false;
    offload_result result = neap_offload_simulate(simulator, choice);
    uint32_t n_out = 0, n_in = 0;
    for (uint32_t c = 0; c < choice->n; c++) {
        if (!simulator->dropped[choice->out[c]])
            choice->out[n_out++] = choice->out[c];
        if (!simulator->dropped[choice->in[c]])
            choice->in[n_in++] = choice->in[c];
    }
    choice->n = n_out;
    choice->strict = strict;
    return result;
}

void neap_offload_order(const offload_simulator *simulator, const bool *away,
                        offload_choice *choice)
{
    const offload_problem *problem = simulator->problem;
    choice->n = 0;
    for (uint32_t i = 0; i < problem->n_parcels; i++)
        if (away[i])
            choice->out[choice->n++] = i;
    choice->n = 0;
    for (uint32_t d = 0; d < problem->n_parcels; d++)
        if (away[simulator->due[d]])
            choice->in[choice->n++] = simulator->due[d];
}

offload_result neap_offload_simulate_ordered(offload_simulator *simulator, const bool *away,
                                             offload_choice *choice)
{
    *choice = (offload_choice){.out = simulator->out, .in = simulator->in};
    neap_offload_order(simulator, away, choice);
    return neap_offload_simulate(simulator, choice);
}

/* ---- The plan ---- */

typedef struct writer {
    const offload_simulator *sim;
    neap_plan *plan;
    neap_status status;
    neap_diag *diag;
} writer;

static void put(writer *w, neap_step_kind kind, uint32_t id, uint32_t variant)
{
    if (w->status == NEAP_OK)
        w->status = neap_plan_append(
            w->plan, (neap_step){.kind = kind, .id = id, .variant = variant}, w->diag);
}

static void put_move(writer *w, const move *m)
{
    const parcel *x = &w->sim->problem->parcels[m->parcel];
    if (m->kind != NEAP_FREE)
        put(w, m->kind, x->value, 0);
    for (uint32_t i = 0; m->kind == NEAP_FREE && i < x->n_kept; i++)
        put(w, NEAP_FREE, x->kept[i], 0);
}

static bool is_kept(const parcel *x, uint32_t value)
{
    uint32_t i = 0;
    while (i < x->n_kept && x->kept[i] != value)
        i++;
    return i < x->n_kept;
}

/* The view ops of a parcel that is back; values that are no longer read are freed. */
static void put_rebuilt(writer *w, const parcel *x)
{
    const offload_problem *problem = w->sim->problem;
    for (uint32_t i = 0; i < x->n_rebuilt; i++)
        put(w, NEAP_COMPUTE, x->rebuilt[i], problem->variants[x->rebuilt[i]]);
    for (uint32_t i = 0; i < x->n_rebuilt; i++) {
        const neap_op *op = neap_graph_op(problem->graph, x->rebuilt[i]);
        for (uint32_t o = 0; o < op->n_outputs; o++)
            if (!is_kept(x, op->outputs[o]))
                put(w, NEAP_FREE, op->outputs[o], 0);
    }
    if (!x->value_read)
        put(w, NEAP_FREE, x->value, 0);
}

/* A value that is copied only for its views is not freed before its copy out. */
static bool is_held(const writer *w, uint32_t value)
{
    const offload_simulator *sim = w->sim;
    uint32_t i = sim->problem->parcel_of[value];
    return i != NEAP_NONE && sim->place[i] == BACK && sim->problem->parcels[i].value == value &&
           !sim->problem->parcels[i].value_read;
}

static void put_steps(writer *w)
{
    const offload_simulator *sim = w->sim;
    const offload_problem *problem = sim->problem;
    const neap_step *natural = neap_plan_steps(problem->natural);
    size_t n_steps = neap_plan_step_count(problem->natural), m = 0;
    for (size_t s = 0; s < n_steps; s++) {
        uint32_t k = natural[s].id;
        if (natural[s].kind == NEAP_FREE) {
            if (!is_held(w, k))
                put(w, NEAP_FREE, k, 0);
            continue;
        }
        for (; m < sim->n_moves && sim->moves[m].position <= k; m++)
            put_move(w, &sim->moves[m]);
        for (uint32_t d = sim->due_first[k]; d < sim->due_first[k + 1]; d++)
            if (sim->place[sim->due[d]] == BACK)
                put_rebuilt(w, &problem->parcels[sim->due[d]]);
        put(w, NEAP_COMPUTE, k, problem->variants[k]);
    }
}

neap_status neap_offload_use_choice(offload_simulator *simulator, const offload_choice *choice,
                                    draft *d, neap_diag *diag)
{
    const offload_problem *problem = simulator->problem;
    const planner *p = problem->planner;
    neap_timeline timeline = {0};
    simulator->record = true;
    offload_result result = neap_offload_simulate(simulator, choice);
    simulator->record = false;
    if (!result.fits)
        return neap_fail(diag, NEAP_INTERNAL, "a choice of tensors to offload does not fit");
    neap_plan_destroy(d->plan);
    d->plan = NULL;
    NEAP_TRY(neap_plan_create(p->allocator, neap_graph_name(p->graph), p->request->method,
                              p->request->budget, &d->plan, diag));
    writer w = {.sim = simulator, .plan = d->plan, .diag = diag};
    put_steps(&w);
    neap_status status = w.status;
    if (status == NEAP_OK)
        status =
            neap_timeline_build(p->allocator, p->graph, d->plan, &problem->link, &timeline, diag);
    if (status == NEAP_OK && timeline.makespan_ticks != result.ticks)
        status = neap_fail(diag, NEAP_INTERNAL,
                           "the offloading schedule takes %lld ticks, its plan %lld",
                           (long long)result.ticks, (long long)timeline.makespan_ticks);
    if (status == NEAP_OK) {
        d->predicted_peak = timeline.peak_bytes;
        d->predicted_ticks = timeline.makespan_ticks;
    }
    neap_timeline_clear(&timeline);
    return status;
}
