/*
 * The fastest plan that has addresses.
 *
 * There are several *ways* to plan, which are the methods that are part of `offload`, and its own
 * search. The search knows the plans of the others, so that its plan is the fastest within the
 * whole budget, and usually it can be placed (layout/retime.h). If not, or if that takes time, the
 * other ways are asked for their plans, too, and the fastest that has no addresses yet is placed,
 * until none is faster than the best that has. A way whose plan cannot be placed plans again,
 * within as many bytes less as were lost. neap_solve plans within fewer bytes in the same manner.
 */
#include "planners/offload/offload_method.h"

#include "base/fail.h"

#include <string.h>

/* The most plans of a way: the first, and those within fewer bytes. */
enum { MOST_PLANS = 6 };

/* Of the time that is left: for the addresses of the first plan, and of any other. */
static const double FIRST_SHARE = 0.5, PLACE_SHARE = 0.15;

typedef struct way {
    const char *method; /* NULL: the local search */
    draft found;        /* plan NULL: this way has ended */
    int64_t within;     /* the budget of the plan */
    int64_t none;       /* the last budget without a plan; 0: none */
    int plans;          /* so far */
} way;

typedef struct settler {
    const planner *p;
    offload_way *search;
    way *ways;
    uint32_t n_ways;
    neap_diag *diag;
} settler;

/* ---- Plans ---- */

/* Plans within w->within. */
static neap_status plan(settler *c, way *w)
{
    planner p = *c->p;
    p.budget = w->within;
    p.trial = NULL;
    p.as_part = true;
    neap_planner_clear_draft(&p, &w->found);
    w->found = (draft){0};
    neap_arena_init(&w->found.arena, p.allocator);
    w->plans++;
    if (w->method)
        return neap_planner_run_method(&p, w->method, &w->found, c->diag);
    return c->search(&p, &w->found, c->diag);
}

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

/* ---- Ways ---- */

/* The one whose plan is the fastest; NULL: all have ended. */
static way *fastest(settler *c)
{
    way *best = NULL;
    for (uint32_t i = 0; i < c->n_ways; i++) {
        way *w = &c->ways[i];
        if (w->found.plan && (!best || w->found.predicted_ticks < best->found.predicted_ticks))
            best = w;
    }
    return best;
}

static neap_status end_way(way *w)
{
    neap_plan_destroy(w->found.plan);
    w->found.plan = NULL;
    return NEAP_OK;
}

/* The way's plan, of this peak, needs too large an arena: plans within as many bytes less. If there
   is no plan that small, goes back halfway. */
static neap_status plan_again(settler *c, way *w, int64_t peak, int64_t arena)
{
    int64_t least = neap_graph_floor_bytes(c->p->graph, NULL) - 1;
    if (w->none > least)
        least = w->none;
    while (w->plans < MOST_PLANS && !neap_planner_stopped(c->p)) {
        w->within = peak - (arena - c->p->request->budget);
        if (w->within <= least)
            w->within = least + (peak - least) / 2;
        if (w->within <= least)
            break;
        NEAP_TRY(plan(c, w));
        if (w->found.plan && w->found.predicted_peak <= w->within)
            return NEAP_OK;
        w->none = least = w->within;
    }
    return end_way(w);
}

/* Places the plan of a way. If it cannot be placed, the way plans again, or ends. */
static neap_status place(settler *c, way *w, double share)
{
    const planner *p = c->p;
    int64_t arena, peak = w->found.predicted_peak;
    neap_plan *copy;
    NEAP_TRY(copy_plan(p, w->found.plan, &copy, c->diag));
    NEAP_TRY(p->trial->place(p->trial, copy, share, &arena, c->diag));
    if (arena < 0 || arena <= p->request->budget)
        return end_way(w);
    return plan_again(c, w, peak, arena);
}

/* Whether no way has a plan that may be faster than the best with addresses. */
static bool is_settled(settler *c)
{
    const neap_trial *t = c->p->trial;
    way *w = fastest(c);
    return !w || (t->plan && t->ticks <= w->found.predicted_ticks);
}

/* Asks the methods that are part of `name` for plans within the whole budget. */
static neap_status add_parts(settler *c, const char *name)
{
    neap_status status = NEAP_OK;
    for (uint32_t m = 0; m < neap_methods_count() && status == NEAP_OK; m++) {
        const neap_method *method = neap_methods_at(m);
        if (!method->part_of || strcmp(method->part_of, name) != 0 || neap_planner_stopped(c->p))
            continue;
        way *w = &c->ways[c->n_ways++];
        *w = (way){.method = method->name, .within = c->p->budget};
        neap_arena_init(&w->found.arena, c->p->allocator);
        status = plan(c, w);
    }
    return status;
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

neap_status neap_offload_settle(const planner *p, offload_way *search, const char *name, draft *d,
                                neap_diag *diag)
{
    settler c = {.p = p, .search = search, .diag = diag};
    if (!d->plan || !p->trial || p->request->budget < 0 || d->predicted_peak > p->budget)
        return NEAP_OK;
    if (!NEAP_TAKE(&d->arena, neap_methods_count() + 1, c.ways))
        return neap_fail_no_memory(diag);
    /* The draft is the search's first plan. */
    way *own = &c.ways[c.n_ways++];
    neap_arena_init(&own->found.arena, p->allocator);
    own->plans = 1;
    own->found.predicted_peak = d->predicted_peak;
    own->found.predicted_ticks = d->predicted_ticks;
    neap_status status = copy_plan(p, d->plan, &own->found.plan, diag);
    if (status == NEAP_OK)
        status = place(&c, own, FIRST_SHARE);
    if (status == NEAP_OK && (!p->trial->plan || p->trial->ticks > d->predicted_ticks))
        status = add_parts(&c, name);
    while (status == NEAP_OK && !neap_planner_stopped(p) && !is_settled(&c))
        status = place(&c, fastest(&c), PLACE_SHARE);
    if (status == NEAP_OK && p->trial->plan)
        status = take_placed(p, d, diag);
    for (uint32_t i = 0; i < c.n_ways; i++)
        neap_planner_clear_draft(p, &c.ways[i].found);
    return status;
}
