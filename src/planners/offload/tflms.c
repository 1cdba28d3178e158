/*
 * tflms: the first tensors leave, and come back a number of ops before they are needed.
 *
 * Le, Imai, Negishi and Kawachiya, "TFLMS: Large Model Support in TensorFlow by Graph Rewriting"
 * (2018), inserts copies into the graph. It has two parameters: how many tensors are moved, here
 * the first ones, and how many layers ahead of its use a tensor is fetched. A graph can express
 * that one op runs after another, but not that an op waits until memory is free: this method cannot
 * use schedules in which a computation waits for the memory of a copy out
 * (offload_result.memory_waits). As in section 6.1 of Beaumont, Eyraud-Dubois and Shilova, "Optimal
 * GPU-CPU Offloading Strategies" (2020), it is the best over the values of both parameters.
 *
 * A layer is an op here, and no copy in begins before the turn, whatever the distance.
 *
 * If there are few pairs of values, all are tried. Otherwise distances are 1, 2, 3, 4, 6, 8, 12,
 * ..., and numbers of tensors are thinned out evenly, then tried one by one around the best.
 *
 * Whether a pair works depends only on its peak: without waits for memory a schedule does not
 * depend on the budget. So if none works, the least budget is the least peak of all.
 */
#include "base/fail.h"
#include "planners/offload/fractional.h"
#include "planners/offload/offload_method.h"

#include <string.h>

enum { GRAIN, TENSORS, AHEAD };

static const neap_option options[] = {
    [GRAIN] = OFFLOAD_GRAIN_OPTION,
    [TENSORS] = NEAP_INTEGER_OPTION(
        "tensors", 0, 1e9, 0, "how many are moved, the first ones; 0: the number that is best"),
    [AHEAD] = NEAP_INTEGER_OPTION("ahead", 0, 1e9, 0,
                                  "by how many ops a tensor is fetched before the one that needs "
                                  "it; 0: the number that is best"),
};

/* All pairs are tried if that takes at most this many steps of the simulator (ops and parcels),
 * about a tenth of a second. */
static const double MOST_STEPS = 1e7;
/* Otherwise, numbers of tensors for each distance. */
enum { COARSE_NUMBERS = 33 };

typedef struct sweep {
    offload_search *s;
    int64_t budget; /* the problem's is unlimited during the sweep */
    offload_choice choice;
    uint32_t *fetch_at[2]; /* the current one and the best one */
    bool every;            /* all pairs */
    uint32_t best_ahead;   /* of the best */
    offload_result least;  /* the one of least peak */
} sweep;

/* ---- One pair ---- */

static void select_first(offload_search *s, uint32_t n_units)
{
    for (uint32_t u = 0; u < s->problem.n_units; u++)
        neap_offload_set_unit(s, u, u < n_units);
}

static bool is_lower(const offload_result *a, const offload_result *b)
{
    return a->fits && (!b->fits || a->peak_bytes < b->peak_bytes);
}

/* Compares by time within the budget, otherwise by peak. */
static bool is_nearer(const sweep *x, const offload_result *a, const offload_result *b)
{
    if (!a->fits || !b->fits || a->peak_bytes > x->budget || b->peak_bytes > x->budget)
        return is_lower(a, b);
    return a->ticks < b->ticks;
}

/* Whether this is the best of its distance so far. */
static bool try_number(sweep *x, uint32_t n_units, offload_result *best)
{
    offload_search *s = x->s;
    select_first(s, n_units);
    neap_offload_order(s->simulator, s->away, &x->choice);
    offload_result result = neap_offload_simulate(s->simulator, &x->choice);
    if (is_lower(&result, &x->least))
        x->least = result;
    if (result.fits && result.peak_bytes <= x->budget)
        neap_offload_search_offer(s, &x->choice, result);
    bool is_best = is_nearer(x, &result, best);
    if (is_best)
        *best = result;
    return is_best;
}

/* ---- All pairs ---- */

static void try_numbers(sweep *x, uint32_t fixed)
{
    uint32_t n = x->s->problem.n_units, middle = 0;
    offload_result best = {0};
    if (fixed > 0) {
        try_number(x, fixed < n ? fixed : n, &best);
        return;
    }
    uint32_t step = x->every ? 1 : 1 + n / COARSE_NUMBERS;
    for (uint32_t i = 0; i < n; i += step)
        if (try_number(x, n - i, &best))
            middle = n - i;
    for (uint32_t i = 1; best.fits && i < step; i++) {
        if (middle > i)
            try_number(x, middle - i, &best);
        if (middle + i < n)
            try_number(x, middle + i, &best);
    }
}

static uint32_t next_distance(const sweep *x, uint32_t ahead)
{
    if (x->every || ahead < 4)
        return ahead + 1;
    bool is_power = (ahead & (ahead - 1)) == 0; /* 4, 6, 8, 12, 16, ... */
    return is_power ? ahead + ahead / 2 : ahead / 3 * 4;
}

static void set_distance(sweep *x, uint32_t ahead)
{
    const offload_search *s = x->s;
    uint32_t *fetch_at = x->fetch_at[s->best.fetch_at == x->fetch_at[0]];
    for (uint32_t i = 0; i < s->problem.n_parcels; i++) {
        uint32_t needed = s->problem.parcels[i].needed, turn = s->problem.turn;
        fetch_at[i] = needed - turn > ahead ? needed - ahead : turn;
    }
    x->choice.fetch_at = fetch_at;
}

static void sweep_all(sweep *x)
{
    offload_search *s = x->s;
    const planner *p = s->problem.planner;
    uint32_t n_after = s->problem.n_ops - s->problem.turn;
    uint32_t fixed_number = (uint32_t)p->options[TENSORS], fixed = (uint32_t)p->options[AHEAD];
    double pairs = (fixed_number > 0 ? 1 : (double)s->problem.n_units) * (fixed > 0 ? 1 : n_after);
    x->every = pairs * ((double)s->problem.n_ops + s->problem.n_parcels) <= MOST_STEPS;
    for (uint32_t ahead = fixed > 0 ? fixed : 1; !s->stopped;) {
        set_distance(x, ahead);
        try_numbers(x, fixed_number);
        if (s->best.fetch_at == x->choice.fetch_at)
            x->best_ahead = ahead;
        ahead = next_distance(x, ahead);
        if (fixed > 0 || ahead > n_after)
            break;
        neap_planner_report(p, (double)ahead / n_after);
        s->stopped = neap_planner_stopped(p);
    }
}

/* Tries all pairs; *ahead is the distance of the best, *least the result of least peak. */
static neap_status search(offload_search *s, offload_result *least, uint32_t *ahead,
                          neap_diag *diag)
{
    neap_arena *arena = &s->problem.arena;
    size_t n = s->problem.n_parcels;
    sweep x = {.s = s, .budget = s->problem.budget};
    if (!NEAP_TAKE(arena, n, x.choice.out) || !NEAP_TAKE(arena, n, x.choice.in) ||
        !NEAP_TAKE(arena, n, x.fetch_at[0]) || !NEAP_TAKE(arena, n, x.fetch_at[1]))
        return neap_fail_no_memory(diag);
    s->problem.budget = INT64_MAX / 2;
    sweep_all(&x);
    s->problem.budget = x.budget;
    *ahead = x.best_ahead;
    /* Moving nothing is a choice, too. */
    *least = (offload_result){
        .fits = true, .peak_bytes = s->problem.peak, .peak_op = s->problem.peak_op};
    if (is_lower(&x.least, least))
        *least = x.least;
    return NEAP_OK;
}

/* ---- Why there is no plan ---- */

/*
 * Raises *least until the method has a plan within it: with a larger budget ops may use kernels
 * with more workspace, and the floor applies to methods that wait. If the kernels are those of the
 * last search, its least peak is right.
 */
static neap_status raise_least(offload_search *s, offload_result *least, neap_diag *diag)
{
    planner asked = *s->problem.planner;
    uint32_t ahead, n_ops = s->problem.n_ops;
    bool fits = false, searched = neap_offload_search_needed(s);
    uint32_t *kernels =
        neap_arena_copy(&s->problem.arena, s->problem.variants, n_ops, sizeof *kernels);
    neap_status status = kernels ? NEAP_OK : neap_fail_no_memory(diag);
    while (status == NEAP_OK && !fits && !s->stopped) {
        offload_search other;
        asked.budget = least->peak_bytes;
        NEAP_TRY(
            neap_offload_search_begin(&asked, (offload_grain)asked.options[GRAIN], &other, diag));
        size_t size = n_ops * sizeof *kernels;
        bool same = searched && memcmp(kernels, other.problem.variants, size) == 0;
        if (!same && !other.result.fits)
            status = search(&other, least, &ahead, diag);
        memcpy(kernels, other.problem.variants, size);
        searched = true;
        fits = same || other.result.fits;
        s->stopped = other.stopped;
        neap_offload_search_end(&other);
    }
    least->peak_bytes = asked.budget;
    return status;
}

/* Whether offload-greedy has a plan. */
static bool can_wait(offload_search *s)
{
    offload_choice choice;
    bool fits = false;
    for (uint32_t n = 1; n <= s->problem.n_units && !fits; n++) {
        select_first(s, n);
        fits = neap_offload_search_short(s) == NEAP_NONE &&
               neap_offload_simulate_ordered(s->simulator, s->away, &choice).fits;
    }
    return fits;
}

/* Overrides the explanation of neap_offload_search_finish, which applies to all methods. */
static neap_status explain(offload_search *s, offload_result *least, draft *d, neap_diag *diag)
{
    static const char text[] = "the link does not free memory in time for every op, and tflms lets "
                               "none wait for it; offload-greedy does, and has a plan";
    bool waits = neap_offload_search_needed(s) && can_wait(s);
    neap_status status = raise_least(s, least, diag);
    if (status != NEAP_OK || s->stopped)
        return status;
    d->least_budget = least->peak_bytes;
    d->blocking_op = least->peak_op;
    d->has_blocking_op = true;
    if (waits)
        d->reason = neap_arena_text(&d->arena, text, strlen(text));
    return waits && !d->reason ? neap_fail_no_memory(diag) : NEAP_OK;
}

static neap_status plan_tflms(const planner *p, draft *d, neap_diag *diag)
{
    offload_search s;
    uint32_t ahead = 0;
    neap_status status = NEAP_OK;
    NEAP_TRY(neap_offload_search_begin(p, (offload_grain)p->options[GRAIN], &s, diag));
    s.never_waits = true;
    offload_result least = {.peak_bytes = s.problem.floor, .peak_op = s.problem.floor_op};
    if (neap_offload_search_needed(&s) && !(p->as_part && neap_offload_must_wait(&s.problem)))
        status = search(&s, &least, &ahead, diag);
    if (status == NEAP_OK)
        status = neap_offload_search_finish(&s, d, diag);
    if (status == NEAP_OK && !s.result.fits && !s.stopped && !p->as_part)
        status = explain(&s, &least, d, diag);
    if (status == NEAP_OK && ahead > 0)
        status = neap_draft_add_number(p, d, "ahead", ahead, diag);
    d->stopped = s.stopped;
    neap_offload_search_end(&s);
    return status;
}

const neap_method neap_method_tflms = {
    .name = "tflms",
    .summary = "move the first tensors, fetch them a number of ops ahead, never wait for memory",
    .source = "Le, Imai, Negishi and Kawachiya 2018",
    NEAP_METHOD_OPTIONS(options),
    .needs_link = true,
    .part_of = "offload",
    .plan = plan_tflms,
};
