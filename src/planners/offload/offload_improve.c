/*
 * Annealing on the simulator. A candidate differs from the current choice in one or two parcels:
 * one leaves or stays, two change roles, one moves in the order of the copies, computations wait
 * for its copy in, or its copy out is held back. Neighbours in time change roles more often than
 * others, because a schedule usually lacks a small amount in one place.
 */
#include "planners/offload/offload_method.h"

#include "base/fail.h"
#include "base/random.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct climber {
    offload_search *s;
    const offload_problem *problem;
    uint64_t random;
    offload_choice now, trial;
    offload_result result; /* of now */
    bool *away;            /* per parcel: it leaves, in `trial` */
    double heat;           /* at the start, as a share of the distance to the bound */
    uint32_t *need_rank;   /* per parcel: its rank by what is needed first */
} climber;

/* ---- Moves ---- */

static void put_in(uint32_t *list, uint32_t n, uint32_t at, uint32_t i)
{
    memmove(&list[at + 1], &list[at], (n - at) * sizeof *list);
    list[at] = i;
}

static void take_out(uint32_t *list, uint32_t n, uint32_t i)
{
    uint32_t at = 0;
    while (list[at] != i)
        at++;
    memmove(&list[at], &list[at + 1], (n - at - 1) * sizeof *list);
}

static void swap(uint32_t *a, uint32_t *b)
{
    uint32_t old = *a;
    *a = *b;
    *b = old;
}

static void stay(climber *c, uint32_t i)
{
    take_out(c->trial.out, c->trial.n, i);
    take_out(c->trial.in, c->trial.n, i);
    c->trial.n--;
    c->trial.insist[i] = (offload_insistence){0};
    c->trial.hold[i] = 0;
    c->away[i] = false;
}

/* Inserts parcel i at its place in the order of section 4.1. */
static void leave(climber *c, uint32_t i)
{
    uint32_t at = 0, n = c->trial.n;
    while (at < n && c->trial.out[at] < i)
        at++;
    put_in(c->trial.out, n, at, i);
    for (at = 0; at < n && c->need_rank[c->trial.in[at]] < c->need_rank[i];)
        at++;
    put_in(c->trial.in, n, at, i);
    c->trial.n++;
    c->away[i] = true;
}

static uint32_t draw(climber *c, uint32_t n)
{
    return neap_random_below(&c->random, n);
}

/* A parcel near i, before or after it. */
static uint32_t near(climber *c, uint32_t i)
{
    uint32_t n = c->problem->n_parcels, reach = 1 + draw(c, 1 + (n < 24 ? n : 24));
    uint32_t by = 1 + draw(c, reach);
    return draw(c, 2) ? (i + by) % n : (i + n - by % n) % n;
}

static void shift(climber *c, uint32_t *list)
{
    uint32_t n = c->trial.n, from = draw(c, n), i = list[from];
    uint32_t reach = 1 + draw(c, n < 8 ? n : 8);
    take_out(list, n, i);
    uint32_t to = draw(c, 2) ? from + reach : from >= reach ? from - reach : 0;
    put_in(list, n - 1, to < n - 1 ? to : n - 1, i);
}

/* Changes the trial; false if the random change has no effect. */
static bool change(climber *c)
{
    uint32_t n = c->problem->n_parcels, kind = draw(c, 16), i = draw(c, n);
    if (kind < 4) {
        c->away[i] ? stay(c, i) : leave(c, i);
        return true;
    }
    if (kind < 9) {
        uint32_t j = kind < 7 ? near(c, i) : draw(c, n);
        if (c->away[i] == c->away[j])
            return false;
        if (c->away[j])
            swap(&i, &j);
        stay(c, i);
        leave(c, j);
        return true;
    }
    if (c->trial.n < (kind < 14 ? 2u : 1u))
        return false;
    if (kind < 14) {
        shift(c, kind < 11 ? c->trial.out : c->trial.in);
        return true;
    }
    i = c->trial.out[draw(c, c->trial.n)];
    const parcel *x = &c->problem->parcels[i];
    if (kind == 14) {
        c->trial.insist[i].how = (offload_patience)((c->trial.insist[i].how + 1 + draw(c, 2)) % 3);
        c->trial.insist[i].from = draw(c, 2) ? 0 : x->left + 1 + draw(c, x->needed - x->left);
    } else {
        c->trial.hold[i] = c->trial.hold[i] ? 0 : x->made + 1 + draw(c, x->needed - x->made);
    }
    return true;
}

static void reset_trial(climber *c)
{
    neap_offload_choice_copy(c->problem, &c->trial, &c->now);
    memset(c->away, 0, c->problem->n_parcels * sizeof *c->away);
    for (uint32_t a = 0; a < c->now.n; a++)
        c->away[c->now.out[a]] = true;
}

/* ---- Few parcels: every selection ---- */

enum { FEW = 11, BEST = 64 };

static bool is_done(const climber *c)
{
    return c->s->result.ticks <= c->s->bound;
}

/* Whether the trial is faster than *best, which it then becomes. */
static bool try_change(climber *c, offload_result *best)
{
    offload_result result = neap_offload_simulate(c->s->simulator, &c->trial);
    bool better = result.fits && result.ticks < best->ticks;
    if (better)
        *best = result;
    return better;
}

static void try_insistence(climber *c, uint32_t i, offload_result *best)
{
    const parcel *x = &c->problem->parcels[i];
    offload_insistence *insist = &c->trial.insist[i], kept = *insist;
    for (offload_patience how = OFFLOAD_PATIENT; how <= OFFLOAD_AT_ONCE; how++)
        for (uint32_t from = x->left + 1; from < x->needed; from++) {
            *insist = (offload_insistence){from, how};
            if (try_change(c, best))
                kept = *insist;
            if (how == OFFLOAD_PATIENT)
                break;
        }
    *insist = kept;
}

static void try_holds(climber *c, uint32_t i, offload_result *best)
{
    const parcel *x = &c->problem->parcels[i];
    uint32_t held = c->trial.hold[i];
    for (uint32_t k = x->made + 1; k < x->needed; k++) {
        c->trial.hold[i] = k;
        if (try_change(c, best))
            held = k;
    }
    c->trial.hold[i] = held;
}

/* Exchanges any two parcels in either order, makes ops wait for a copy in, or holds back a copy
 * out, as long as that helps. The trial fits, with the result *best. */
static void descend(climber *c, offload_result *best)
{
    uint32_t n = c->trial.n;
    for (int64_t before = INT64_MAX; best->ticks < before && !is_done(c);) {
        before = best->ticks;
        for (uint32_t a = 0; a < n; a++) {
            for (uint32_t b = 0; b < a; b++)
                for (int way = 0; way < 2; way++) {
                    uint32_t *list = way ? c->trial.in : c->trial.out;
                    swap(&list[a], &list[b]);
                    if (!try_change(c, best))
                        swap(&list[a], &list[b]);
                }
            try_insistence(c, c->trial.out[a], best);
            try_holds(c, c->trial.out[a], best);
        }
        neap_offload_search_offer(c->s, &c->trial, *best);
    }
}

/* The selection of the bits of `mask`, in the paper's order. */
static offload_result try_mask(climber *c, uint32_t mask)
{
    for (uint32_t i = 0; i < c->problem->n_parcels; i++) {
        c->away[i] = mask >> i & 1;
        c->trial.insist[i] = (offload_insistence){0};
        c->trial.hold[i] = 0;
    }
    neap_offload_order(c->s->simulator, c->away, &c->trial);
    return neap_offload_simulate(c->s->simulator, &c->trial);
}

/* All selections in the paper's order, then the orders of the best of them. */
static void try_all(climber *c)
{
    ranked fitting[1 << FEW]; /* by time */
    uint32_t n = 0;
    for (uint32_t mask = 1; mask < 1u << c->problem->n_parcels && !is_done(c); mask++) {
        offload_result result = try_mask(c, mask);
        neap_offload_search_offer(c->s, &c->trial, result);
        if (result.fits)
            fitting[n++] = (ranked){(double)result.ticks, mask};
    }
    if (n > 0)
        qsort(fitting, n, sizeof *fitting, neap_ranked_up);
    for (uint32_t i = 0; i < n && i < BEST && !is_done(c); i++) {
        offload_result result = try_mask(c, fitting[i].item);
        descend(c, &result);
    }
}

/* ---- The search ---- */

static void climb(climber *c, uint64_t candidates)
{
    offload_search *s = c->s;
    const planner *p = c->problem->planner;
    for (uint64_t step = 0; step < candidates && !is_done(c); step++) {
        reset_trial(c);
        bool changed = change(c);
        if (draw(c, 4) == 0)
            changed |= change(c);
        if (!changed)
            continue;
        offload_result result = neap_offload_simulate(s->simulator, &c->trial);
        if ((step & 63) == 0) {
            neap_planner_report_search(p, s->result.ticks, s->bound);
            if (neap_planner_stopped(p)) {
                s->stopped = true;
                return;
            }
        }
        s->n_tried++;
        if (!result.fits)
            continue;
        double heat = c->heat * (1 - (double)step / (double)candidates);
        double excess = (double)(s->result.ticks - s->bound);
        double limit =
            (double)c->result.ticks - heat * excess * log(1e-9 + neap_random_real(&c->random));
        if ((double)result.ticks > limit)
            continue;
        offload_choice old = c->now;
        c->now = c->trial;
        c->trial = old;
        c->result = result;
        neap_offload_search_offer(s, &c->now, result);
    }
}

/* Candidates that a start needs to be of use. */
enum { LEAST_RUN = 1500 };

neap_status neap_offload_improve(offload_search *s, const offload_start *starts, uint32_t n_starts,
                                 uint64_t candidates, neap_diag *diag)
{
    const offload_problem *problem = &s->problem;
    uint32_t n = problem->n_parcels;
    if (!s->result.fits || n == 0)
        return NEAP_OK;
    climber c = {.s = s, .problem = problem, .random = problem->planner->request->seed};
    c.now.strict = c.trial.strict = true; /* skip candidates with parcels that would stay */
    NEAP_TRY(neap_offload_choice_take(&s->problem, &c.now, diag));
    NEAP_TRY(neap_offload_choice_take(&s->problem, &c.trial, diag));
    if (!NEAP_TAKE(&s->problem.arena, n, c.away) || !NEAP_TAKE(&s->problem.arena, n, c.need_rank))
        return neap_fail_no_memory(diag);
    memset(c.away, 1, n * sizeof *c.away);
    neap_offload_order(s->simulator, c.away, &c.trial);
    for (uint32_t rank = 0; rank < n; rank++)
        c.need_rank[c.trial.in[rank]] = rank;
    if (n <= FEW)
        try_all(&c);
    /* From each start, then from the best of all, heated again to explore elsewhere. Small problems
       have time for more and hotter runs. */
    uint32_t again = n <= FEW ? 8 : 1;
    if (n_starts > candidates / LEAST_RUN)
        n_starts = (uint32_t)(candidates / LEAST_RUN);
    c.heat = n <= FEW ? 0.3 : 0.03;
    for (uint32_t i = 0; i < n_starts + again && !s->stopped; i++) {
        neap_offload_choice_copy(problem, &c.now, i < n_starts ? &starts[i].choice : &s->best);
        c.result = neap_offload_prune(s->simulator, &c.now);
        if (!c.result.fits) /* it did with copies in at fixed ops: anything is better */
            c.result.ticks = INT64_MAX / 4;
        climb(&c, candidates / (n_starts + again));
    }
    return NEAP_OK;
}
