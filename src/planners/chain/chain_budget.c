/* The frame of the methods that plan a chain to a budget. */
#include "planners/chain/schedule.h"
#include "planners/chain/variant_search.h"

#define PER_OCTAVE    48   /* rungs of the ladder between a memory and its double */
#define MOST_RETRIED  100  /* stages: a longer chain is planned only once */
#define MOST_TIGHTEST 4000 /* stages: the tightest schedule is O(n^3) */

typedef struct search {
    const planner *p;
    schedule_finder find;
    stage_costs costs;
    neap_diag *diag;
} search;

/* Plans for this many bytes beyond the pinned ones; d->plan stays NULL if there is no schedule. */
static neap_status try_memory(search *s, draft *d, int64_t memory)
{
    schedule found = {.allocator = s->p->allocator};
    bool is_found = false;
    int64_t most = neap_stage_costs_enough(&s->costs);
    neap_status status = NEAP_OK;
    memory = memory < most ? memory : most;
    if (memory > 0)
        status = s->find(s->p, d, &s->costs, memory, &found, &is_found, s->diag);
    if (status == NEAP_OK && is_found)
        status = neap_planner_use_schedule(s->p, d, &s->costs, &found, s->diag);
    neap_schedule_clear(&found);
    return status;
}

static neap_status use_tightest(search *s, draft *d)
{
    schedule tightest;
    int64_t least;
    neap_status status = neap_least_memory_schedule(s->p, &s->costs, &tightest, &least, s->diag);
    if (status == NEAP_OK)
        status = neap_planner_use_schedule(s->p, d, &s->costs, &tightest, s->diag);
    neap_schedule_clear(&tightest);
    return status;
}

/* The first rung above `memory`, on a ladder that does not depend on the budget. */
static int64_t next_rung(int64_t memory)
{
    int64_t power = 1;
    while (power <= memory / 2)
        power *= 2;
    int64_t rung = power;
    for (int64_t k = 1; rung <= memory; k++)
        rung = power + power / PER_OCTAVE * k + power % PER_OCTAVE * k / PER_OCTAVE;
    return rung;
}

/*
 * If a stage has several ops, its costs are upper bounds and a plan may need less than predicted.
 * So this also plans for a little more than the budget and takes the fastest plan that fits. The
 * memories tried are rungs of a fixed ladder, so a larger budget sees the same plans and more.
 */
static neap_status climb(search *s, draft *d, int64_t memory)
{
    neap_status status = NEAP_OK;
    if (s->p->request->budget < 0 || s->costs.exact || s->costs.n > MOST_RETRIED || memory <= 0 ||
        memory >= neap_stage_costs_enough(&s->costs) || memory > INT64_MAX / 4)
        return NEAP_OK;
    int64_t rung = next_rung(memory), last = memory + memory / 3;
    for (; rung <= last && status == NEAP_OK; rung = next_rung(rung)) {
        draft other = {0};
        status = try_memory(s, &other, rung);
        bool stop = status != NEAP_OK || other.stopped;
        neap_draft_take_plan(d, &other,
                             !stop && other.plan && other.predicted_peak <= s->p->budget &&
                                 other.predicted_ticks < d->predicted_ticks);
        if (stop)
            break;
    }
    return status;
}

static neap_status plan_view(const planner *p, draft *d, chain_view view, void *context,
                             neap_diag *diag)
{
    const schedule_finder *find = context;
    search s = {.p = p, .find = *find, .diag = diag};
    neap_status status = neap_stage_costs_build(p, view, NULL, &s.costs, diag);
    int64_t memory = p->budget - s.costs.pinned_bytes;
    if (status == NEAP_OK)
        status = try_memory(&s, d, memory);
    if (status == NEAP_OK && !d->plan && s.costs.n <= MOST_TIGHTEST)
        status = use_tightest(&s, d);
    if (status == NEAP_OK && d->plan && !d->stopped && d->predicted_peak <= p->budget)
        status = climb(&s, d, memory);
    if (status == NEAP_OK && d->plan && !d->stopped && d->predicted_peak <= p->budget &&
        neap_has_variants(p->graph)) {
        status = neap_variant_search(p, d, view, s.costs.n, *find, memory, diag);
    }
    neap_stage_costs_clear(&s.costs);
    return status;
}

neap_status neap_planner_use_finder(const planner *p, draft *d, int cuts, uint32_t most_stages,
                                    schedule_finder find, neap_diag *diag)
{
    return neap_planner_use_views(p, d, cuts, most_stages, plan_view, &find, diag);
}
