#include "planners/chain/budgeted.h"

#include "planners/chain/least_memory.h"

#define MOST_TRIES    6   /* with more memory than the budget, where the stages' costs are bounds */
#define MOST_RETRIED  400 /* stages: longer chains take long enough once */
#define FEW_STAGES    100 /* of longer ones, once */
#define MOST_TIGHTEST 4000 /* stages: the tightest schedule is O(n^3) */

typedef struct search {
    const planner *p;
    schedule_finder find;
    neap_chain chain;
    stage_costs costs;
    neap_diag *diag;
} search;

/* Bytes with which everything can be saved: more is never of use. */
static int64_t enough(const stage_costs *costs)
{
    int64_t kept = costs->results_from[0], peak = 0;
    for (uint32_t i = 0; i < costs->n; i++) {
        const stage_cost *c = &costs->stage[i];
        int64_t here = c->forward_peak[OWNED] + c->save_peak[OWNED] + c->again_peak[OWNED] +
                       c->backward_peak[OWNED] + c->gradient + c->drop_peak;
        peak = here > peak ? here : peak;
        kept += c->kept[OWNED];
    }
    return kept + peak;
}

/* Plans for so many bytes beyond the pinned ones; d->plan stays NULL if there is no schedule. */
static neap_status try_memory(search *s, draft *d, int64_t memory)
{
    schedule found = {.allocator = s->p->allocator};
    bool is_found = false;
    int64_t most = enough(&s->costs);
    if (memory > most)
        memory = most;
    neap_status status = NEAP_OK;
    if (memory > 0)
        status = s->find(s->p, d, &s->costs, memory, &found, &is_found, s->diag);
    if (status == NEAP_OK && is_found)
        status = planner_use_schedule(s->p, d, &s->chain, &s->costs, &found, s->diag);
    schedule_clear(&found);
    return status;
}

static neap_status use_tightest(search *s, draft *d)
{
    schedule tightest;
    int64_t least;
    neap_status status = least_memory_schedule(s->p, &s->costs, &tightest, &least, s->diag);
    if (status == NEAP_OK)
        status = planner_use_schedule(s->p, d, &s->chain, &s->costs, &tightest, s->diag);
    schedule_clear(&tightest);
    return status;
}

/* Takes over another plan if it fits and is faster; otherwise drops it. */
static bool take_if_better(const planner *p, draft *d, draft *other)
{
    bool better = other->plan && other->predicted_peak <= p->budget &&
                  other->predicted_ticks < d->predicted_ticks;
    if (better) {
        neap_plan_destroy(d->plan);
        d->plan = other->plan;
        d->predicted_peak = other->predicted_peak;
        d->predicted_ticks = other->predicted_ticks;
    } else {
        neap_plan_destroy(other->plan);
    }
    return better;
}

/*
 * Where a stage has several ops its costs are upper bounds, and a plan may need less than promised.
 * The room that is left is offered to the method again; if the plan it then makes is too large,
 * half of it.
 */
static neap_status use_spare_room(search *s, draft *d, int64_t memory)
{
    neap_status status = NEAP_OK;
    int64_t more = s->p->budget - d->predicted_peak;
    if (s->p->request->budget < 0 || s->chain.n_stages > MOST_RETRIED)
        return NEAP_OK;
    int tries = s->chain.n_stages <= FEW_STAGES ? MOST_TRIES : 1;
    for (int i = 0; i < tries && more > s->p->budget / 1000 && status == NEAP_OK; i++) {
        draft other = {0};
        status = try_memory(s, &other, memory + more);
        if (status == NEAP_OK && other.stopped) {
            neap_plan_destroy(other.plan);
            break;
        }
        if (take_if_better(s->p, d, &other)) {
            memory += more;
            more = s->p->budget - d->predicted_peak;
        } else {
            more /= 2;
        }
    }
    return status;
}

neap_status planner_use_finder(const planner *p, draft *d, schedule_finder find, neap_diag *diag)
{
    search s = {.p = p, .find = find, .diag = diag};
    neap_status status = neap_chain_build(p->allocator, p->graph, &s.chain, diag);
    if (status == NEAP_OK)
        status = stage_costs_build(p, &s.chain, &s.costs, diag);
    if (status != NEAP_OK)
        goto done;
    int64_t memory = p->budget - s.costs.pinned_bytes;
    status = try_memory(&s, d, memory);
    if (status == NEAP_OK && !d->plan && s.costs.n <= MOST_TIGHTEST)
        status = use_tightest(&s, d);
    if (status == NEAP_OK && d->plan && !d->stopped && d->predicted_peak <= p->budget)
        status = use_spare_room(&s, d, memory);
done:
    if (s.costs.allocator)
        stage_costs_clear(&s.costs);
    neap_chain_clear(&s.chain);
    return status;
}
