/*
 * The fastest plan that has addresses.
 *
 * The fastest schedule is rarely the one that can be placed: it keeps the memory full all the time,
 * and how much is lost between the storages differs from plan to plan. There are several *ways* to
 * plan, which are the methods that are part of `offload`, and its own search. Each has a plan, at
 * first for the whole budget. The fastest of these is placed. If its addresses fit the budget, it
 * is the result, because the others take longer; only those that take hardly longer go on. If not,
 * its way plans again, within as many bytes less as were lost; that takes longer, and another way
 * may be the fastest now. neap_solve plans within fewer bytes in the same manner.
 */
#include "planners/offload/offload_method.h"

#include "base/fail.h"

#include <string.h>

/* The most plans of a way: the first, and those within fewer bytes. */
enum { MOST_PLANS = 6 };

/* Of the time that is left: for the addresses of one plan. */
static const double PLACE_SHARE = 0.1;

/* A plan that is slower than the best by no more than this may lead to a faster one: within fewer
   bytes, a method may find a better plan. */
static const double CLOSE = 1.01;

typedef struct way {
    const char *method; /* NULL: the local search */
    draft found;        /* plan NULL: this way has ended */
    int64_t within;     /* the budget of the plan */
    int64_t failed;     /* the last budget whose plan did not fit; 0: none */
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

/* Places the plan of a way. *fits: it is the result. Otherwise the way plans again, or ends. */
static neap_status place(settler *c, way *w, bool *fits)
{
    const planner *p = c->p;
    int64_t arena, peak = w->found.predicted_peak;
    neap_plan *copy;
    NEAP_TRY(copy_plan(p, w->found.plan, &copy, c->diag));
    NEAP_TRY(p->trial->place(p->trial, copy, PLACE_SHARE, &arena, c->diag));
    *fits = arena >= 0 && arena <= p->request->budget;
    if (*fits)
        return NEAP_OK;
    w->failed = peak;
    return arena < 0 ? end_way(w) : plan_again(c, w, peak, arena);
}

/* Takes the plan of a way, and counts what it moves. */
static void take(draft *d, way *w)
{
    neap_draft_take_plan(d, &w->found, true);
    const neap_step *steps = neap_plan_steps(d->plan);
    double moved = 0;
    for (size_t i = 0; i < neap_plan_step_count(d->plan); i++)
        moved += steps[i].kind == NEAP_OFFLOAD;
    for (uint32_t i = 0; i < d->n_extras; i++)
        if (strcmp(d->extras[i].name, "moved_tensors") == 0)
            d->extras[i].number = moved;
}

/* Times that a budget between the one that fits and the last that did not is tried. */
enum { BETWEEN = 3 };

/* The way's plan fits, but its budget may have been reduced too far: takes the fastest plan
   between, by bisection. */
static neap_status refine(settler *c, way *w, draft *d)
{
    const planner *p = c->p;
    neap_status status = NEAP_OK;
    int64_t placed = w->within;
    for (int i = 0; i < BETWEEN && status == NEAP_OK && w->failed > placed + 1; i++) {
        bool fits = false;
        w->within = placed + (w->failed - placed) / 2;
        w->plans = MOST_PLANS - 1;
        if (!neap_planner_stopped(p))
            status = plan(c, w);
        if (status != NEAP_OK || neap_planner_stopped(p))
            return status;
        int64_t middle = w->within;
        bool faster = w->found.plan && w->found.predicted_ticks < d->predicted_ticks;
        if (faster)
            status = place(c, w, &fits);
        if (fits)
            take(d, w);
        *(fits || !faster ? &placed : &w->failed) = middle;
    }
    return status;
}

neap_status neap_offload_settle(const planner *p, offload_way *search, const char *name, draft *d,
                                neap_diag *diag)
{
    settler c = {.p = p, .search = search, .diag = diag};
    neap_status status = NEAP_OK;
    bool fits = false;
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
    status = copy_plan(p, d->plan, &own->found.plan, diag);
    for (uint32_t m = 0; m < neap_methods_count() && status == NEAP_OK; m++) {
        const neap_method *method = neap_methods_at(m);
        if (!method->part_of || strcmp(method->part_of, name) != 0 || neap_planner_stopped(p))
            continue;
        way *w = &c.ways[c.n_ways++];
        *w = (way){.method = method->name, .within = p->budget};
        neap_arena_init(&w->found.arena, p->allocator);
        status = plan(&c, w);
    }
    way *w, *best = NULL;
    while (status == NEAP_OK && !neap_planner_stopped(p) && (w = fastest(&c)) &&
           (!best || (double)w->found.predicted_ticks < CLOSE * (double)d->predicted_ticks)) {
        bool faster = !best || w->found.predicted_ticks < d->predicted_ticks;
        status = place(&c, w, &fits);
        if (status == NEAP_OK && fits && faster)
            take(d, best = w);
        else if (status == NEAP_OK && fits)
            status = end_way(w);
    }
    if (status == NEAP_OK && best)
        status = refine(&c, best, d);
    for (uint32_t i = 0; i < c.n_ways; i++)
        neap_planner_clear_draft(p, &c.ways[i].found);
    return status;
}
