/*
 * greedy: segments filled up to a budget each, for the best of several budgets.
 *
 * Chen, Xu, Zhang and Guestrin, "Training Deep Nets with Sublinear Memory Cost" (2016), Algorithm
 * 3: walk forward, add up what is made, and set a checkpoint at the first candidate where the sum
 * exceeds b. Candidates are the cuts of the chain view; all storages count, those inside a stage
 * too. x is the sum of the checkpoints, y the largest segment, and x + y their estimate of the
 * peak.
 *
 * b is not the request's budget but a handle. As they suggest, a first plan with b = 0 gives x and
 * y, and b is searched over a grid from B / sqrt(2) to B sqrt(2) around B = sqrt(x y). They take
 * the plan with the least estimate; here every plan of the grid is made and the one with the least
 * real peak taken. If the request has a budget the grid goes on, from y to the sum of all storages,
 * and the fastest plan within the budget is taken.
 *
 * A departure: y also counts the stretch behind the last checkpoint, which Algorithm 3 forgets (a b
 * larger than the network would look free).
 */
#include "planners/chain/least_peak.h"

#include "base/memory.h"

#include <math.h>
#include <string.h>

enum { POINTS };

static const neap_option options[] = {
    [POINTS] = {.name = "points",
                .meaning =
                    "sizes b of a segment that are tried around sqrt(x y); as many on either "
                    "side if there is a budget",
                .type = NEAP_OPTION_INTEGER,
                .least = 1,
                .most = 1000000,
                .default_value = 24},
};

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
    least_peak_view view;
    bool *chosen, *before; /* n + 1: this plan's checkpoints, and the last one's */
    bool *best;            /* n + 1: those of the plan in the draft */
    double estimate;       /* x + y of that plan */
} sweep;

/* Whether a plan is the one to take rather than that in the draft. */
static bool is_better(const planner *p, const draft *a, const draft *b)
{
    bool fits = a->predicted_peak <= p->budget;
    if (!b->plan || fits != (b->predicted_peak <= p->budget))
        return !b->plan || fits;
    bool by_time = fits && p->budget != INT64_MAX && a->predicted_ticks != b->predicted_ticks;
    return by_time ? a->predicted_ticks < b->predicted_ticks
                   : a->predicted_peak < b->predicted_peak;
}

/* Makes the plan for one b, unless it has the same checkpoints as the last. */
static neap_status try_size(sweep *s, int64_t b, neap_diag *diag)
{
    size_t length = (size_t)s->view.n + 1;
    int64_t x, y;
    neap_greedy_split(s->view.n, s->view.d, s->view.inner, b, s->chosen, &x, &y);
    if (memcmp(s->chosen, s->before, length) == 0) /* at first `before` is empty: 0 is not in */
        return NEAP_OK;
    memcpy(s->before, s->chosen, length);
    draft trial = *s->d;
    trial.plan = NULL;
    neap_status status = planner_view_lower(s->p, &trial, &s->view, s->chosen, diag);
    if (status != NEAP_OK || !is_better(s->p, &trial, s->d)) {
        neap_plan_destroy(trial.plan);
        return status;
    }
    neap_plan_destroy(s->d->plan);
    *s->d = trial;
    s->estimate = (double)x + (double)y;
    memcpy(s->best, s->chosen, length);
    return NEAP_OK;
}

/* Tries sizes from `first` to `last`, each larger than the one before by the same factor. */
static neap_status try_range(sweep *s, double first, double last, neap_diag *diag)
{
    uint32_t points = (uint32_t)s->p->options[POINTS];
    neap_status status = NEAP_OK;
    if (!(first < last))
        last = first;
    for (uint32_t k = 0; k < points && status == NEAP_OK; k++) {
        if (s->d->plan && planner_stopped(s->p)) {
            s->d->stopped = true;
            break;
        }
        double share = points > 1 ? (double)k / (points - 1) : 0.5;
        double size = first > 0 ? first * pow(last / first, share) : last * share;
        status = try_size(s, size < 0x1p63 ? (int64_t)size : INT64_MAX, diag);
    }
    return status;
}

static neap_status try_all(sweep *s, neap_diag *diag)
{
    const least_peak_view *view = &s->view;
    int64_t x, y;
    neap_greedy_split(view->n, view->d, view->inner, 0, s->chosen, &x, &y);
    double all = 0, center = sqrt((double)x * (double)y), low = center / sqrt(2),
           high = center * sqrt(2);
    for (uint32_t i = 1; i <= view->n + 1; i++)
        all += (double)view->inner[i] + (i <= view->n ? (double)view->d[i] : 0);
    neap_status status = try_range(s, low, high, diag);
    if (s->p->budget == INT64_MAX)
        return status;
    if (status == NEAP_OK)
        status = try_range(s, (double)y, low, diag);
    if (status == NEAP_OK)
        status = try_range(s, high, all, diag);
    return status;
}

static neap_status plan_greedy(const planner *p, draft *d, neap_diag *diag)
{
    sweep s = {.p = p, .d = d};
    neap_status status = planner_view_build(p, &s.view, diag);
    if (status != NEAP_OK)
        return status;
    size_t length = (size_t)s.view.n + 1;
    const least_peak_problem problem = {.n = s.view.n, .d = s.view.d, .inner = s.view.inner};
    status = neap_least_peak_check(&problem, diag);
    if (status == NEAP_OK)
        status = NEAP_NEW(p->allocator, length, &s.chosen, diag);
    if (status == NEAP_OK)
        status = NEAP_NEW(p->allocator, length, &s.before, diag);
    if (status == NEAP_OK)
        status = NEAP_NEW(p->allocator, length, &s.best, diag);
    if (status == NEAP_OK)
        status = try_all(&s, diag);
    if (status == NEAP_OK)
        status = planner_view_report(p, d, &s.view, s.best, s.estimate, diag);
    NEAP_DELETE(p->allocator, length, s.chosen);
    NEAP_DELETE(p->allocator, length, s.before);
    NEAP_DELETE(p->allocator, length, s.best);
    planner_view_clear(p, &s.view);
    return status;
}

const neap_method method_greedy = {
    .name = "greedy",
    .summary = "segments filled up to a size, the best of a sweep over sizes",
    .source = "Chen et al. 2016, Training Deep Nets with Sublinear Memory Cost, Algorithm 3",
    .n_options = sizeof options / sizeof *options,
    .options = options,
    .plan = plan_greedy,
};
