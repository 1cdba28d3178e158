#include "planners/chain/equal_steps.h"

#define FULL_SWEEP 100000 /* numbers times stages: up to this all are tried */
#define NEIGHBOURS 4      /* tried on either side otherwise */

typedef struct trial {
    const planner *p;
    draft *d;
    const stage_costs *costs;
    const equal_steps *steps;
    int64_t best; /* 0: none yet */
    bool fits;    /* the last one tried */
    neap_status status;
    neap_diag *diag;
} trial;

int64_t neap_equal_steps_default(uint32_t n)
{
    int64_t log = 1;
    while (n >> (log + 1))
        log++;
    return log;
}

static bool is_better(const trial *t, const draft *a, const draft *b)
{
    bool fits = a->predicted_peak <= t->p->budget;
    if (fits != (b->predicted_peak <= t->p->budget))
        return fits;
    bool by_time =
        fits ? a->predicted_ticks != b->predicted_ticks : a->predicted_peak == b->predicted_peak;
    return by_time ? a->predicted_ticks < b->predicted_ticks
                   : a->predicted_peak < b->predicted_peak;
}

/* Makes the plan for this many states and keeps it if it is the best so far. */
static void try_states(trial *t, int64_t states)
{
    schedule s = {.allocator = t->p->allocator};
    draft made = {.plan = NULL};
    if (t->status != NEAP_OK || t->d->stopped)
        return;
    t->status = neap_schedule_build(t->p, t->costs, t->steps->chooser, states, &s, t->diag);
    if (t->status == NEAP_OK)
        t->status = neap_planner_use_schedule(t->p, &made, t->costs, &s, t->diag);
    neap_schedule_clear(&s);
    t->fits = t->status == NEAP_OK && made.predicted_peak <= t->p->budget;
    bool better = t->status == NEAP_OK && (t->best == 0 || is_better(t, &made, t->d));
    neap_draft_take_plan(t->d, &made, better);
    t->best = better ? states : t->best;
    t->d->stopped = neap_planner_stopped(t->p);
}

static void try_range(trial *t, int64_t least, int64_t most)
{
    least = least < t->steps->least ? t->steps->least : least;
    most = most > t->steps->most ? t->steps->most : most;
    for (int64_t states = least; states <= most && t->status == NEAP_OK && !t->d->stopped;
         states++) {
        try_states(t, states);
        neap_planner_report(t->p, (double)(states - least + 1) / (double)(most - least + 1));
    }
}

/* By bisection: the largest number that fits, or the least number of the range. */
static int64_t halve(trial *t)
{
    int64_t low = t->steps->least, high = t->steps->most;
    while (low < high && t->status == NEAP_OK && !t->d->stopped) {
        int64_t middle = low + (high - low + 1) / 2;
        try_states(t, middle);
        if (t->fits)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

neap_status neap_equal_steps_try(const planner *p, draft *d, const stage_costs *costs,
                                 const equal_steps *steps, int64_t *states, neap_diag *diag)
{
    trial t = {.p = p, .d = d, .costs = costs, .steps = steps, .diag = diag};
    if (steps->extra)
        try_states(&t, steps->extra);
    if ((steps->most - steps->least) * costs->n <= FULL_SWEEP) {
        try_range(&t, steps->least, steps->most);
    } else {
        int64_t found = halve(&t);
        try_range(&t, found - NEIGHBOURS, found + NEIGHBOURS);
    }
    *states = t.best;
    return t.status;
}

static neap_status plan_view(const planner *p, draft *d, chain_view view, void *context,
                             neap_diag *diag)
{
    stage_costs costs;
    equal_steps_planner *plan = context;
    neap_status status = neap_stage_costs_build(p, view, NULL, &costs, diag);
    if (status == NEAP_OK)
        status = (*plan)(p, d, &costs, diag);
    neap_stage_costs_clear(&costs);
    return status;
}

neap_status neap_planner_use_equal_steps(const planner *p, draft *d, int cuts,
                                         equal_steps_planner plan, neap_diag *diag)
{
    return neap_planner_use_views(p, d, cuts, 0, plan_view, &plan, diag);
}
