#include "planners/common/size_sweep.h"

#include "base/fail.h"

#include <math.h>
#include <string.h>

enum { POINTS };

const neap_option neap_size_sweep_options[] = {[POINTS] = NEAP_SIZE_SWEEP_OPTION};

void neap_greedy_split(uint32_t n, const int64_t *d, const int64_t *inner, int64_t budget,
                       bool *chosen, int64_t *stored, int64_t *largest)
{
    int64_t x = 0, y = 0, temp = 0; /* as in the paper; no sum exceeds that of all sizes */
    for (uint32_t i = 1; i <= n; i++) {
        temp += d[i] + (inner ? inner[i] : 0);
        y = temp > y ? temp : y;
        chosen[i] = temp > budget;
        if (chosen[i]) {
            x += d[i];
            temp = 0;
        }
    }
    temp += inner ? inner[n + 1] : 0;
    *stored = x;
    *largest = temp > y ? temp : y;
    chosen[0] = chosen[n] = true; /* by convention; 0 has been there, and n is in use at the turn */
}

typedef struct sweep {
    const planner *p;
    draft *d;
    const size_sweep_problem *problem;
    size_sweep_answer *answer;
    bool *chosen;           /* n + 1, as all of these: the checkpoints for the current b */
    bool *before;           /* for the b before it */
    bool *lowest;           /* for the least b around sqrt(x y) */
    uint32_t ranges, range; /* their number, and the current one */
} sweep;

/* Whether plan a is preferred to plan b. */
static bool is_better(const planner *p, const draft *a, const draft *b)
{
    bool fits = a->predicted_peak <= p->budget;
    if (!b->plan || fits != (b->predicted_peak <= p->budget))
        return !b->plan || fits;
    bool by_time = fits && p->budget != INT64_MAX && a->predicted_ticks != b->predicted_ticks;
    return by_time ? a->predicted_ticks < b->predicted_ticks
                   : a->predicted_peak < b->predicted_peak;
}

/* Makes the plan for the chosen checkpoints, and keeps the better one. */
static neap_status try_chosen(sweep *s, double estimate, neap_diag *diag)
{
    const size_sweep_problem *problem = s->problem;
    draft trial = {.plan = NULL};
    neap_status status = problem->lower(problem->context, s->p, &trial, s->chosen, diag);
    bool better = status == NEAP_OK && is_better(s->p, &trial, s->d);
    neap_draft_take_plan(s->d, &trial, better);
    if (better) {
        s->answer->estimate = estimate;
        memcpy(s->answer->chosen, s->chosen, (size_t)problem->n + 1);
    }
    return status;
}

/*
 * Each set of checkpoints belongs to an interval of b, so while b ascends, a set that differs from
 * the last one is new. `before` starts empty, which no set is: candidate 0 is in all of them.
 */
static neap_status try_size(sweep *s, int64_t b, neap_diag *diag)
{
    const size_sweep_problem *problem = s->problem;
    size_t length = (size_t)problem->n + 1;
    int64_t x, y;
    neap_greedy_split(problem->n, problem->d, problem->inner, b, s->chosen, &x, &y);
    if (memcmp(s->chosen, s->before, length) == 0 || memcmp(s->chosen, s->lowest, length) == 0)
        return NEAP_OK;
    memcpy(s->before, s->chosen, length);
    if (!s->d->plan)
        memcpy(s->lowest, s->chosen, length);
    return try_chosen(s, (double)x + (double)y, diag);
}

/* Tries sizes from `first` to `last`, each larger than the one before by the same factor. */
static neap_status try_range(sweep *s, double first, double last, neap_diag *diag)
{
    uint32_t points = (uint32_t)s->p->options[POINTS];
    neap_status status = NEAP_OK;
    if (!(first < last))
        last = first;
    for (uint32_t k = 0; k < points && status == NEAP_OK; k++) {
        if (s->d->plan && neap_planner_stopped(s->p)) {
            s->d->stopped = true;
            break;
        }
        double share = points > 1 ? (double)k / (points - 1) : 0.5;
        double size = first > 0 ? first * pow(last / first, share) : last * share;
        status = try_size(s, size < 0x1p63 ? (int64_t)size : INT64_MAX, diag);
        neap_planner_report(s->p, (s->range + (k + 1.0) / points) / s->ranges);
    }
    s->range++;
    return status;
}

/* Without a budget, only the range around B = sqrt(x y). */
static neap_status try_all(sweep *s, neap_diag *diag)
{
    const size_sweep_problem *problem = s->problem;
    uint32_t n = problem->n;
    int64_t x, y;
    neap_greedy_split(n, problem->d, problem->inner, 0, s->chosen, &x, &y);
    double all = 0, center = sqrt((double)x * (double)y), low = center / sqrt(2),
           high = center * sqrt(2);
    for (size_t i = 1; i <= (size_t)n + 1; i++)
        all += (double)problem->inner[i] + (i <= n ? (double)problem->d[i] : 0);
    bool budgeted = s->p->budget != INT64_MAX;
    s->ranges = budgeted ? 3 : 1;
    neap_status status = try_range(s, low, high, diag);
    if (status == NEAP_OK && budgeted && !s->d->stopped)
        status = try_range(s, high, all, diag);
    if (status == NEAP_OK && budgeted && !s->d->stopped)
        status = try_range(s, (double)y, low, diag);
    return status;
}

neap_status neap_size_sweep_run(const planner *p, draft *d, const size_sweep_problem *problem,
                                size_sweep_answer *answer, neap_diag *diag)
{
    sweep s = {.p = p, .d = d, .problem = problem, .answer = answer};
    size_t length = (size_t)problem->n + 1;
    neap_arena arena;
    neap_arena_init(&arena, p->allocator);
    bool taken = NEAP_TAKE(&arena, length, s.chosen) && NEAP_TAKE(&arena, length, s.before) &&
                 NEAP_TAKE(&arena, length, s.lowest);
    neap_status status = taken ? try_all(&s, diag) : neap_fail_no_memory(diag);
    if (status == NEAP_OK && d->stopped && d->predicted_peak > p->budget) {
        neap_plan_destroy(d->plan); /* a size that was not tried might fit */
        d->plan = NULL;
    }
    neap_arena_clear(&arena);
    return status;
}
