#include "planners/chain/variant_search.h"

#include "base/fail.h"
#include "base/memory.h"

#include <string.h>

#define MOST_BRANCHES 2000  /* looked at */
#define BRANCH_WORK   20000 /* and times the square of the number of stages */

/* A branch: what is left to choose from for each op. */
typedef struct branch {
    variant_range *ranges; /* per op */
    int64_t bound;         /* ticks, of the branch that it comes from */
} branch;

typedef struct search {
    const planner *p;
    chain_view view;
    schedule_finder find;
    int64_t memory;
    uint32_t n_ops;
    branch *open;
    size_t n_open, capacity;
    uint32_t *runs; /* per op: how often the last plan runs it */
    uint32_t *used; /* per op: its variant there */
    neap_diag *diag;
} search;

bool neap_has_variants(const neap_graph *graph)
{
    for (uint32_t o = 0; o < neap_graph_op_count(graph); o++)
        if (neap_graph_op(graph, o)->n_variants > 1)
            return true;
    return false;
}

static int64_t ticks_of(const search *s, uint32_t op, uint32_t variant)
{
    return neap_graph_op(s->p->graph, op)->variants[variant].ticks;
}

/* Of the variants that are faster than `than`, the leanest. */
static uint32_t next_faster(const neap_op *op, uint32_t than)
{
    uint32_t best = NEAP_NONE;
    for (uint32_t k = 0; k < op->n_variants; k++) {
        const neap_variant *a = &op->variants[k];
        if (a->ticks >= op->variants[than].ticks)
            continue;
        if (best == NEAP_NONE || a->workspace < op->variants[best].workspace)
            best = k;
    }
    return best;
}

/* Adds a copy of a branch in which one op has another range. */
static neap_status add_branch(search *s, const branch *from, int64_t bound, uint32_t op,
                              variant_range range)
{
    variant_range *ranges;
    NEAP_TRY(NEAP_RESERVE(s->p->allocator, s->n_open + 1, &s->open, &s->capacity, s->diag));
    NEAP_TRY(NEAP_NEW(s->p->allocator, s->n_ops, &ranges, s->diag));
    if (from)
        memcpy(ranges, from->ranges, s->n_ops * sizeof *ranges);
    else
        neap_variant_ranges_init(s->p->graph, ranges);
    if (op != NEAP_NONE)
        ranges[op] = range;
    s->open[s->n_open++] = (branch){ranges, bound};
    return NEAP_OK;
}

/* Takes the branch with the least bound off the list. */
static branch take_branch(search *s)
{
    size_t best = 0;
    for (size_t i = 1; i < s->n_open; i++)
        if (s->open[i].bound < s->open[best].bound)
            best = i;
    branch taken = s->open[best];
    s->open[best] = s->open[--s->n_open];
    return taken;
}

static void note_runs(search *s, const neap_plan *plan)
{
    const neap_step *steps = neap_plan_steps(plan);
    memset(s->runs, 0, s->n_ops * sizeof *s->runs);
    for (uint32_t k = 0; k < neap_plan_step_count(plan); k++)
        if (steps[k].kind == NEAP_COMPUTE) {
            s->runs[steps[k].id]++;
            s->used[steps[k].id] = steps[k].variant;
        }
}

/* Whether a variant is one of those left: where costs are upper bounds, a plan may use another. */
static bool is_left(const search *s, const branch *b, uint32_t op)
{
    const neap_variant *variants = neap_graph_op(s->p->graph, op)->variants;
    return variants[s->used[op]].workspace >= variants[b->ranges[op].lean].workspace;
}

/* The op that takes the most time beyond that of the branch's bound; NEAP_NONE: none does. */
static uint32_t choose_op(const search *s, const branch *b)
{
    uint32_t best = NEAP_NONE;
    int64_t most = 0;
    for (uint32_t o = 0; o < s->n_ops; o++) {
        int64_t over = ticks_of(s, o, s->used[o]) - ticks_of(s, o, b->ranges[o].fast);
        if (s->runs[o] > 0 && over * s->runs[o] > most && is_left(s, b, o)) {
            most = over * s->runs[o];
            best = o;
        }
    }
    return best;
}

/* Solves a branch: a better plan goes to the draft, what is left to choose to the list. */
static neap_status solve_branch(search *s, draft *d, const branch *b)
{
    const planner *p = s->p;
    stage_costs costs;
    schedule found = {.allocator = p->allocator};
    draft other = {0};
    bool is_found = false;
    int64_t bound = 0;
    neap_status status = neap_stage_costs_build(p, s->view, b->ranges, &costs, s->diag);
    int64_t memory = status == NEAP_OK ? neap_stage_costs_enough(&costs) : 0;
    memory = memory < s->memory ? memory : s->memory;
    if (status == NEAP_OK && memory > 0)
        status = s->find(p, &other, &costs, memory, &found, &is_found, s->diag);
    bool stopped = other.stopped;
    if (status == NEAP_OK && is_found && !stopped) {
        bound = neap_schedule_ticks(&costs, &found) + costs.first_ticks;
        status = neap_planner_use_schedule(p, &other, &costs, &found, s->diag);
    }
    if (status == NEAP_OK && other.plan && bound < d->predicted_ticks) {
        note_runs(s, other.plan);
        uint32_t o = choose_op(s, b);
        if (o != NEAP_NONE) {
            uint32_t faster = next_faster(neap_graph_op(p->graph, o), s->used[o]);
            variant_range above = {b->ranges[o].fast, faster};
            variant_range below = {s->used[o], b->ranges[o].lean};
            status = add_branch(s, b, bound, o, above);
            if (status == NEAP_OK)
                status = add_branch(s, b, bound, o, below);
        }
    }
    neap_draft_take_plan(d, &other,
                         status == NEAP_OK && other.plan && other.predicted_peak <= p->budget &&
                             other.predicted_ticks < d->predicted_ticks);
    d->stopped = d->stopped || stopped;
    neap_schedule_clear(&found);
    neap_stage_costs_clear(&costs);
    return status;
}

static int64_t branches_for(uint32_t n_stages)
{
    int64_t most = BRANCH_WORK / ((int64_t)n_stages * n_stages + 1);
    return most < 2 ? 2 : most > MOST_BRANCHES ? MOST_BRANCHES : most;
}

neap_status neap_variant_search(const planner *p, draft *d, chain_view view, uint32_t n_stages,
                                schedule_finder find, int64_t memory, neap_diag *diag)
{
    search s = {.p = p,
                .view = view,
                .find = find,
                .memory = memory,
                .n_ops = neap_graph_op_count(p->graph),
                .diag = diag};
    neap_status status = NEAP_NEW(p->allocator, s.n_ops, &s.runs, diag);
    if (status == NEAP_OK)
        status = NEAP_NEW(p->allocator, s.n_ops, &s.used, diag);
    if (status == NEAP_OK)
        status = add_branch(&s, NULL, 0, NEAP_NONE, (variant_range){0});
    for (int64_t left = branches_for(n_stages);
         left > 0 && s.n_open > 0 && status == NEAP_OK && !d->stopped; left--) {
        branch b = take_branch(&s);
        if (b.bound < d->predicted_ticks)
            status = solve_branch(&s, d, &b);
        NEAP_DELETE(p->allocator, s.n_ops, b.ranges);
    }
    for (size_t i = 0; i < s.n_open; i++)
        NEAP_DELETE(p->allocator, s.n_ops, s.open[i].ranges);
    NEAP_DELETE(p->allocator, s.capacity, s.open);
    NEAP_DELETE(p->allocator, s.n_ops, s.runs);
    NEAP_DELETE(p->allocator, s.n_ops, s.used);
    return status;
}
