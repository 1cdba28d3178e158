/*
 * The fastest plan that has addresses.
 *
 * There are several *ways* to plan, which are the methods that are part of `offload`, and its own
 * search, which starts from their plans. So its plan is the fastest within the whole budget, and
 * usually it can be placed (layout/retime.h). If not, or if that takes time, the fastest plan that
 * has no addresses yet is placed, until none is faster than the best that has. A way whose plan
 * cannot be placed plans again, within as many bytes less as were lost, when no other plan is
 * faster than that one will be at best. neap_solve plans within fewer bytes in the same manner.
 */
#include "planners/offload/offload_method.h"

#include "base/fail.h"

#include <string.h>

/* The most plans of a way: the first, and those within fewer bytes. */
enum { MOST_PLANS = 4 };

/* Of the time limit: for the first search. Of the time that is left then: for the addresses of its
   plan, and of any other. */
static const double SEARCH_SHARE = 0.45, FIRST_SHARE = 0.4, PLACE_SHARE = 0.5;

typedef struct settler {
    const planner *p;
    offload_search_run *search;
    offload_way *ways;
    uint32_t n_ways;
    neap_diag *diag;
} settler;

/* ---- Plans ---- */

/* The plan again, for the trial, which keeps it. */
static neap_status copy_plan(const planner *p, const neap_plan *plan, neap_plan **copy,
                             neap_diag *diag)
{
    const neap_step *steps = neap_plan_steps(plan);
    size_t n = neap_plan_step_count(plan);
    neap_status status = neap_plan_create(p->allocator, neap_graph_name(p->graph),
                                          p->request->method, p->request->budget, copy, diag);
    for (size_t i = 0; i < n && status == NEAP_OK; i++)
        status = neap_plan_append(*copy, steps[i], diag);
    if (status != NEAP_OK) {
        neap_plan_destroy(*copy);
        *copy = NULL;
    }
    return status;
}

static neap_status end_way(const planner *p, offload_way *w)
{
    neap_planner_clear_draft(p, &w->found);
    w->found = (draft){0};
    neap_arena_init(&w->found.arena, p->allocator);
    w->ticks = INT64_MAX;
    return NEAP_OK;
}

/* Plans within w->within; if there is no plan that small, goes back halfway. */
static neap_status plan_again(settler *c, offload_way *w)
{
    planner p = *c->p;
    p.trial = NULL;
    p.as_part = true;
    int64_t least = neap_graph_floor_bytes(p.graph, NULL) - 1;
    w->again = false;
    while (w->plans++ < MOST_PLANS && !neap_planner_stopped(&p)) {
        if (w->within <= least)
            w->within = least + (w->failed - least) / 2;
        if (w->within <= least)
            break;
        p.budget = w->within;
        end_way(&p, w);
        NEAP_TRY(w->method ? neap_planner_run_method(&p, w->method, &w->found, c->diag)
                           : c->search(&p, NULL, NULL, &w->found, c->diag));
        if (w->found.plan && w->found.predicted_peak <= w->within) {
            w->ticks = w->found.predicted_ticks;
            return NEAP_OK;
        }
        least = w->within;
    }
    return end_way(c->p, w);
}

/* ---- Ways ---- */

/* The one whose plan is the fastest, or will be if it plans `again`; NULL: there is none. */
static offload_way *fastest_of(settler *c, bool again)
{
    offload_way *best = NULL;
    for (uint32_t i = 0; i < c->n_ways; i++) {
        offload_way *w = &c->ways[i];
        if ((again || !w->again) && w->ticks < (best ? best->ticks : INT64_MAX))
            best = w;
    }
    return best;
}

/* As long as no plan has addresses, none is made again while there is one to place. */
static offload_way *fastest(settler *c)
{
    offload_way *made = fastest_of(c, false);
    return made && !c->p->trial->plan ? made : fastest_of(c, true);
}

/* Places the plan of a way. If it cannot be placed, the way will plan again, and what has to move
   in addition takes its time. */
static neap_status place(settler *c, offload_way *w, double share)
{
    const planner *p = c->p;
    const neap_link *link = &p->request->link;
    int64_t arena;
    neap_plan *copy;
    NEAP_TRY(copy_plan(p, w->found.plan, &copy, c->diag));
    NEAP_TRY(p->trial->place(p->trial, copy, share, &arena, c->diag));
    int64_t excess = arena - p->request->budget;
    if (arena < 0 || excess <= 0)
        return end_way(p, w);
    w->again = true;
    w->failed = w->found.predicted_peak;
    w->within = w->failed - excess;
    w->ticks += neap_link_ticks(link, p->graph, true, excess);
    if (!link->duplex)
        w->ticks += neap_link_ticks(link, p->graph, false, excess);
    return NEAP_OK;
}

/* Takes the plan that has addresses, and counts what it moves. */
static neap_status take_placed(const planner *p, draft *d, neap_diag *diag)
{
    neap_plan *copy;
    double moved = 0;
    NEAP_TRY(copy_plan(p, p->trial->plan, &copy, diag));
    neap_plan_destroy(d->plan);
    d->plan = copy;
    d->predicted_peak = p->trial->peak;
    d->predicted_ticks = p->trial->ticks;
    const neap_step *steps = neap_plan_steps(d->plan);
    for (size_t i = 0; i < neap_plan_step_count(d->plan); i++)
        moved += steps[i].kind == NEAP_OFFLOAD;
    for (uint32_t i = 0; i < d->n_extras; i++)
        if (strcmp(d->extras[i].name, "moved_tensors") == 0)
            d->extras[i].number = moved;
    return NEAP_OK;
}

/* Places plans until none is faster than the best that has addresses. */
static neap_status settle(settler *c, draft *d)
{
    const planner *p = c->p;
    offload_way *own = &c->ways[c->n_ways++], *w = own;
    *own = (offload_way){.ticks = d->predicted_ticks, .plans = 1};
    neap_arena_init(&own->found.arena, p->allocator);
    own->found.predicted_peak = d->predicted_peak;
    NEAP_TRY(copy_plan(p, d->plan, &own->found.plan, c->diag));
    NEAP_TRY(place(c, own, FIRST_SHARE));
    while (!neap_planner_stopped(p) && (w = fastest(c)) &&
           (!p->trial->plan || w->ticks < p->trial->ticks))
        NEAP_TRY(w->again ? plan_again(c, w) : place(c, w, PLACE_SHARE));
    return p->trial->plan ? take_placed(p, d, c->diag) : NEAP_OK;
}

neap_status neap_offload_settle(const planner *p, offload_search_run *search, draft *d,
                                neap_diag *diag)
{
    neap_request request = *p->request;
    planner first = *p;
    settler c = {.p = p, .search = search, .diag = diag};
    if (!p->trial || p->request->budget < 0)
        return search(p, NULL, NULL, d, diag);
    if (!NEAP_TAKE(&d->arena, neap_methods_count() + 1, c.ways))
        return neap_fail_no_memory(diag);
    request.time_limit *= SEARCH_SHARE;
    first.request = &request;
    neap_status status = search(&first, c.ways, &c.n_ways, d, diag);
    if (status == NEAP_OK && d->plan && d->predicted_peak <= p->budget)
        status = settle(&c, d);
    for (uint32_t i = 0; i < c.n_ways; i++)
        neap_planner_clear_draft(p, &c.ways[i].found);
    return status;
}
