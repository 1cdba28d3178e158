/*
 * autoswap: parcels leave in the order of a weighted sum of four scores of their absence, until
 * the rest fits; the weights are found by Bayesian optimisation (weight_search.h).
 *
 * Zhang, Yeung, Shu, He and Wang, "Efficient Memory Management for GPU-based Deep Learning Systems"
 * (2019). A parcel is absent from the end of the last op before the turn that touches it to the
 * beginning of the first op after the turn that does, as if nothing waited. Its scores:
 *
 * - DOA, duration of absence: that time less what its two transfers take;
 * - AOA, area of absence: DOA times bytes, or DOA over bytes where DOA is negative;
 * - WDOA, weighted: the bytes by which the load exceeds the budget, summed over that time;
 * - SWDOA, submodular: parcels are selected one by one, each with the largest such sum over the
 *   load that remains after those selected before.
 *
 * Each is scaled to the range from 0 to 1. A unit of several parcels counts as one tensor, absent
 * while all of them are. The paper adds parcels until the load fits and schedules their transfers.
 * This is the no-wait, ordered schedule here, and if it does not fit, more are added.
 */
#include "base/fail.h"
#include "planners/offload/offload_method.h"
#include "planners/offload/weight_search.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { GRAIN, EVALUATIONS };

static const neap_option options[] = {
    [GRAIN] = OFFLOAD_GRAIN_OPTION,
    [EVALUATIONS] = NEAP_INTEGER_OPTION("evaluations", 1, 200, 60,
                                        "weights to try; the first four are each score alone"),
};

enum score { DOA = 0, AOA, WDOA, SWDOA };
_Static_assert(SWDOA + 1 == N_WEIGHTS, "a weight for each score");

static const char *const weight_names[N_WEIGHTS] = {"weight_doa", "weight_aoa", "weight_wdoa",
                                                    "weight_swdoa"};

typedef double unit_scores[N_WEIGHTS];

typedef struct autoswap {
    offload_search s;
    unit_scores *scores; /* per unit */
    ranked *order;       /* units, the first to leave first */
    int64_t *load;       /* per op: what is left while units are selected for SWDOA */
    double *before;      /* per op, and one more: the sum of ticks, or of excess, before it */
    bool *selected;      /* per unit, for SWDOA */
    double slowest;      /* ticks if everything runs one after another */
    double best_weights[N_WEIGHTS];
} autoswap;

/* ---- Scores ---- */

static void score_durations(autoswap *x)
{
    const offload_problem *problem = &x->s.problem;
    for (uint32_t k = 0; k < problem->n_ops; k++)
        x->before[k + 1] = x->before[k] + (double)problem->ticks[k];
    for (uint32_t u = 0; u < problem->n_units; u++) {
        const offload_unit *unit = &problem->units[u];
        double duration =
            x->before[unit->needed] - x->before[unit->left + 1] - (double)unit->transfer_ticks;
        x->scores[u][DOA] = duration;
        x->scores[u][AOA] =
            duration >= 0 ? duration * (double)unit->bytes : duration / (double)unit->bytes;
    }
}

/* Byte-ticks above the budget; false if there are none. */
static bool sum_excess(autoswap *x)
{
    const offload_problem *problem = &x->s.problem;
    for (uint32_t k = 0; k < problem->n_ops; k++) {
        int64_t excess = x->load[k] - problem->budget;
        x->before[k + 1] =
            x->before[k] + (excess > 0 ? (double)excess * (double)problem->ticks[k] : 0);
    }
    return x->before[problem->n_ops] > 0;
}

static double excess_during(const autoswap *x, uint32_t u)
{
    const offload_unit *unit = &x->s.problem.units[u];
    return x->before[unit->needed] - x->before[unit->left + 1];
}

/* O(units (units + ops)). Units that are no longer needed have a SWDOA of 0. */
static void score_excess(autoswap *x)
{
    const offload_problem *problem = &x->s.problem;
    uint32_t n = problem->n_units;
    memcpy(x->load, problem->need, problem->n_ops * sizeof *x->load);
    sum_excess(x);
    for (uint32_t u = 0; u < n; u++)
        x->scores[u][WDOA] = excess_during(x, u);
    for (uint32_t count = 0; count < n && sum_excess(x); count++) {
        uint32_t most = NEAP_NONE;
        double most_excess = 0;
        for (uint32_t u = 0; u < n; u++)
            if (!x->selected[u] && excess_during(x, u) > most_excess) {
                most_excess = excess_during(x, u);
                most = u;
            }
        if (most == NEAP_NONE)
            break;
        x->scores[most][SWDOA] = most_excess;
        x->selected[most] = true;
        neap_offload_add_unit(problem, most, -1, x->load);
    }
}

static void normalise(autoswap *x)
{
    uint32_t n = x->s.problem.n_units;
    for (int i = 0; i < N_WEIGHTS; i++) {
        double least = x->scores[0][i], most = least;
        for (uint32_t u = 0; u < n; u++) {
            least = fmin(least, x->scores[u][i]);
            most = fmax(most, x->scores[u][i]);
        }
        for (uint32_t u = 0; u < n; u++)
            x->scores[u][i] = most > least ? (x->scores[u][i] - least) / (most - least) : 0;
    }
}

/* ---- Selections ---- */

static void rank_units(autoswap *x, const double weights[N_WEIGHTS])
{
    uint32_t n = x->s.problem.n_units;
    for (uint32_t u = 0; u < n; u++) {
        x->order[u] = (ranked){.item = u};
        for (int i = 0; i < N_WEIGHTS; i++)
            x->order[u].rank += weights[i] * x->scores[u][i];
    }
    qsort(x->order, n, sizeof *x->order, neap_ranked_down);
}

static bool first_are_enough(autoswap *x, uint32_t count)
{
    for (uint32_t c = 0; c < x->s.problem.n_units; c++)
        neap_offload_set_unit(&x->s, x->order[c].item, c < count);
    return neap_offload_search_short(&x->s) == NEAP_NONE;
}

/* Ticks of the schedule that these weights lead to. */
static double evaluate(autoswap *x, const double weights[N_WEIGHTS])
{
    uint32_t few = 0, enough = x->s.problem.n_units;
    rank_units(x, weights);
    while (enough - few > 1) { /* all units are enough: the budget is not below the floor */
        uint32_t middle = few + (enough - few) / 2;
        *(first_are_enough(x, middle) ? &enough : &few) = middle;
    }
    first_are_enough(x, enough);
    offload_result result = neap_offload_search_try(&x->s);
    while (!result.fits && enough < x->s.problem.n_units) {
        neap_offload_set_unit(&x->s, x->order[enough++].item, true);
        result = neap_offload_search_try(&x->s);
    }
    return result.fits ? (double)result.ticks : x->slowest;
}

static neap_status choose(autoswap *x, neap_diag *diag)
{
    const planner *p = x->s.problem.planner;
    uint32_t count = (uint32_t)p->options[EVALUATIONS];
    weight_search search;
    double weights[N_WEIGHTS], least = x->slowest;
    NEAP_TRY(neap_weight_search_init(&search, &x->s.problem.arena, count, p->request->seed, diag));
    for (uint32_t i = 0; i < count && !x->s.stopped; i++) {
        neap_weight_search_next(&search, weights);
        double ticks = evaluate(x, weights);
        neap_weight_search_tell(&search, weights, ticks);
        if (i == 0 || ticks < least) {
            least = ticks;
            memcpy(x->best_weights, weights, sizeof weights);
        }
        if (least <= (double)x->s.problem.total_ticks)
            break; /* nothing waits */
        neap_planner_report(p, (double)(i + 1) / count);
        x->s.stopped = neap_planner_stopped(p) && i + 1 < count;
    }
    return NEAP_OK;
}

/* ---- The method ---- */

static neap_status prepare(autoswap *x, neap_diag *diag)
{
    neap_arena *arena = &x->s.problem.arena;
    size_t n = x->s.problem.n_units, n_ops = x->s.problem.n_ops;
    if (!NEAP_TAKE(arena, n, x->scores) || !NEAP_TAKE(arena, n, x->order) ||
        !NEAP_TAKE(arena, n_ops, x->load) || !NEAP_TAKE(arena, n_ops + 1, x->before) ||
        !NEAP_TAKE(arena, n, x->selected))
        return neap_fail_no_memory(diag);
    x->slowest = (double)(x->s.problem.total_ticks + x->s.problem.transfer_ticks);
    score_durations(x);
    score_excess(x);
    normalise(x);
    return NEAP_OK;
}

static neap_status plan_autoswap(const planner *p, draft *d, neap_diag *diag)
{
    autoswap x = {0};
    NEAP_TRY(neap_offload_search_begin(p, (offload_grain)p->options[GRAIN], &x.s, diag));
    bool needed = neap_offload_search_needed(&x.s);
    neap_status status = needed ? prepare(&x, diag) : NEAP_OK;
    if (needed && status == NEAP_OK)
        status = choose(&x, diag);
    if (status == NEAP_OK)
        status = neap_offload_search_finish(&x.s, d, diag);
    for (int i = 0; i < N_WEIGHTS && needed && status == NEAP_OK; i++)
        status = neap_draft_add_number(p, d, weight_names[i], x.best_weights[i], diag);
    neap_offload_search_end(&x.s);
    return status;
}

const neap_method neap_method_autoswap = {
    .name = "autoswap",
    .summary = "move tensors by four scores of their absence, weighted by Bayesian optimisation",
    .source = "Zhang, Yeung, Shu, He and Wang 2019",
    NEAP_METHOD_OPTIONS(options),
    .needs_link = true,
    .part_of = "offload",
    .plan = plan_autoswap,
};
