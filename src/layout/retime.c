/* Short lives, addresses, and lives as long as these permit (retime.h). */
#include "layout/retime.h"

#include "base/clock.h"
#include "base/fail.h"

#include <string.h>

/* Fractions of the makespan that shorter lives may cost, tried in turn until the addresses fit. */
static const double LOSSES[] = {0, 0.0005, 0.002, 0.005, 0.02, 0.05, 0.2};
enum { N_LOSSES = sizeof LOSSES / sizeof *LOSSES };

/* Of the time that is left: for short lives, for the placement, for what it left above the target,
   and for long lives. */
static const double SHORTEN_SHARE = 0.3, LAYOUT_SHARE = 0.35, PLACE_SHARE = 0.6,
                    LENGTHEN_SHARE = 0.8;

typedef struct assignment {
    neap_retimer r;
    double end;           /* of all; 0: none */
    int64_t first;        /* the plan's own makespan */
    neap_plan *shortened; /* of the first pass, with addresses that exceed the target */
    uint32_t *short_order, *best_order;
    int64_t *best_offsets;
    int64_t best; /* makespan of the best order so far whose lives are placed; INT64_MAX: none */
} assignment;

bool neap_retime_applies(const neap_plan *plan)
{
    const neap_step *steps = neap_plan_steps(plan);
    for (size_t i = 0; i < neap_plan_step_count(plan); i++)
        if (steps[i].kind == NEAP_OFFLOAD || steps[i].kind == NEAP_PREFETCH)
            return true;
    return false;
}

/* Seconds of this share of the rest; 0: there is no limit. */
static double seconds_of(const assignment *a, double share)
{
    double left = a->end - neap_clock_seconds();
    return a->end <= 0 ? 0 : share * (left > 1e-3 ? left : 1e-3);
}

static void begin_pass(assignment *a, double share)
{
    a->r.work = 0;
    a->r.end = a->end > 0 ? neap_clock_seconds() + seconds_of(a, share) : 0;
}

/* Whether the new order takes no longer than the limit; otherwise the saved one is back. */
static bool accept(neap_retimer *r, int64_t limit)
{
    int64_t makespan = neap_retimer_trace(r);
    if (makespan > limit) {
        neap_retimer_undo(r);
        return false;
    }
    r->makespan = makespan;
    return true;
}

/* ---- Short lives ---- */

/* Fetches x as late as the limit permits: just before its use, or by half of that, and so on. */
static void fetch_later(neap_retimer *r, const neap_life *x, int64_t limit)
{
    uint32_t at = neap_life_begin(r, x), most = r->at[x->use] - 1 - at;
    for (uint32_t by = most; by > 0; by /= 2) {
        neap_retimer_mark(r);
        neap_retimer_put(r, at, at + by);
        if (accept(r, limit))
            return;
    }
}

/* The same for its end. It stays behind other frees. */
static void free_earlier(neap_retimer *r, const neap_life *x, int64_t limit)
{
    uint32_t at = neap_life_end(r, x), first = r->at[x->touch] + 1;
    while (first < at && r->steps[r->order[first]].kind == NEAP_FREE)
        first++;
    for (uint32_t by = at - first; by > 0; by /= 2) {
        neap_retimer_mark(r);
        neap_retimer_free_before(r, x, r->order[at - by]);
        if (accept(r, limit))
            return;
    }
}

/* Makes lives short, in two rounds, because one that is shorter may let another one be. */
static void shorten(assignment *a, int64_t limit)
{
    neap_retimer *r = &a->r;
    begin_pass(a, SHORTEN_SHARE);
    for (int round = 0; round < 2; round++)
        for (uint32_t i = 0; i < r->n_lives && !neap_retimer_spent(r); i++) {
            const neap_life *x = &r->lives[i];
            if (neap_life_is_fetched(r, x))
                fetch_later(r, x, limit);
            if (x->death != NEAP_NONE)
                free_earlier(r, x, limit);
        }
}

/* ---- Long lives ---- */

/* Whether a copy or a free is of something on the same storage as a value. */
static bool shares_storage(const neap_retimer *r, uint32_t step, uint32_t value)
{
    return neap_graph_value(r->graph, r->steps[step].id)->storage ==
           neap_graph_value(r->graph, value)->storage;
}

static bool shares_address(const neap_life *x, const neap_life *y)
{
    return x != y && x->offset < y->offset + y->size && y->offset < x->offset + x->size;
}

/* The first position from which x's address is free until it is fetched, and where it may be
   fetched: not before the computation that it followed in the plan, nor before it was freed. */
static uint32_t free_since(const neap_retimer *r, const neap_life *x)
{
    uint32_t since = neap_life_begin(r, x), value = r->steps[x->birth].id;
    for (; since > 0; since--) {
        uint32_t step = r->order[since - 1];
        bool computes = r->steps[step].kind == NEAP_COMPUTE;
        if (computes ? step < x->birth : shares_storage(r, step, value))
            break;
    }
    for (uint32_t i = 0; i < r->n_lives; i++) {
        uint32_t end = neap_life_end(r, &r->lives[i]);
        if (end >= since && end <= neap_life_begin(r, x) && shares_address(x, &r->lives[i]))
            since = end < neap_life_begin(r, x) ? end + 1 : end; /* after the free */
    }
    while (since < neap_life_begin(r, x) && r->steps[r->order[since]].kind == NEAP_FREE)
        since++; /* to be before them would not help */
    return since;
}

/* The last position to which its address is free, not after the computation that followed in the
   plan. */
static uint32_t free_until(const neap_retimer *r, const neap_life *x)
{
    uint32_t until = neap_life_end(r, x), value = r->steps[x->death].id;
    for (; until + 1 < r->n_steps; until++) {
        uint32_t step = r->order[until + 1];
        bool computes = r->steps[step].kind == NEAP_COMPUTE;
        if (computes ? step > x->death : shares_storage(r, step, value))
            break;
    }
    for (uint32_t i = 0; i < r->n_lives; i++) {
        uint32_t begin = neap_life_begin(r, &r->lives[i]);
        if (begin <= until && begin > neap_life_end(r, x) && shares_address(x, &r->lives[i]))
            until = begin - 1;
    }
    while (until > neap_life_end(r, x) && r->steps[r->order[until]].kind == NEAP_FREE)
        until--; /* to be after them would not help */
    return until;
}

/* Moves a step as far as possible: entirely, or by half of that, and so on. */
static void move_towards(neap_retimer *r, uint32_t step, uint32_t to)
{
    uint32_t at = r->at[step];
    for (uint32_t by = to > at ? to - at : at - to; by > 0; by /= 2) {
        neap_retimer_mark(r);
        neap_retimer_put(r, at, to > at ? at + by : at - by);
        if (accept(r, r->makespan))
            return;
    }
}

static bool waits_for_copy(const neap_retimer *r, uint32_t free_step)
{
    return free_step != NEAP_NONE && r->first_copy[free_step] < r->first_copy[free_step + 1];
}

/* Fetches earlier, then frees what leaves later. */
static void lengthen(assignment *a)
{
    neap_retimer *r = &a->r;
    begin_pass(a, LENGTHEN_SHARE);
    for (uint32_t i = 0; i < r->n_lives && !neap_retimer_spent(r); i++)
        if (neap_life_is_fetched(r, &r->lives[i]))
            move_towards(r, r->lives[i].birth, free_since(r, &r->lives[i]));
    for (uint32_t i = 0; i < r->n_lives && !neap_retimer_spent(r); i++)
        if (waits_for_copy(r, r->lives[i].death))
            move_towards(r, r->lives[i].death, free_until(r, &r->lives[i]));
}

/* ---- Addresses ---- */

/* The present order as a plan with addresses; *fits: within the target. */
static neap_status lay_out(assignment *a, neap_plan **plan, bool *fits)
{
    neap_retimer *r = &a->r;
    neap_layout_options options = *r->options;
    options.seconds = seconds_of(a, LAYOUT_SHARE);
    NEAP_TRY(neap_retimer_write(r, plan));
    neap_status status = neap_layout_assign(r->allocator, r->graph, *plan, &options, r->diag);
    *fits =
        status == NEAP_OK && (options.target < 0 || neap_plan_arena_bytes(*plan) <= options.target);
    if (status == NEAP_OK)
        neap_retimer_read_offsets(r, *plan);
    return status;
}

static void remember(assignment *a)
{
    const neap_retimer *r = &a->r;
    memcpy(a->best_order, r->order, r->n_steps * sizeof *r->order);
    a->best = r->makespan;
    for (uint32_t i = 0; i < r->n_lives; i++)
        a->best_offsets[i] = r->lives[i].offset;
}

static void recall(assignment *a)
{
    neap_retimer *r = &a->r;
    neap_retimer_set_order(r, a->best_order);
    for (uint32_t i = 0; i < r->n_lives; i++)
        r->lives[i].offset = a->best_offsets[i];
}

static int64_t longer(int64_t ticks, double by)
{
    return ticks + (int64_t)((double)ticks * by);
}

/* Ever shorter lives, until the addresses fit without further loss, or with so little that even
   shorter lives would cost more. */
static neap_status find_best(assignment *a, double most_loss)
{
    neap_retimer *r = &a->r;
    for (int i = 0; i < N_LOSSES && LOSSES[i] <= most_loss; i++) {
        neap_plan *plan = NULL;
        bool fits;
        if (i > 0 && (a->best <= longer(a->first, LOSSES[i]) ||
                      (a->end > 0 && neap_clock_seconds() > a->end)))
            break;
        shorten(a, longer(a->first, LOSSES[i]));
        memcpy(a->short_order, r->order, r->n_steps * sizeof *r->order);
        neap_status status = lay_out(a, &plan, &fits);
        if (status == NEAP_OK && !fits) {
            begin_pass(a, PLACE_SHARE);
            fits = neap_retimer_place(r) && r->makespan <= longer(a->first, most_loss);
        }
        if (status == NEAP_OK && fits && r->makespan < a->best)
            remember(a);
        neap_retimer_set_order(r, a->short_order);
        if (i == 0)
            a->shortened = plan;
        else
            neap_plan_destroy(plan);
        NEAP_TRY(status);
    }
    return NEAP_OK;
}

static neap_status assign(assignment *a, double most_loss, neap_plan **placed)
{
    neap_retimer *r = &a->r;
    if (!NEAP_TAKE(&r->arena, r->n_steps, a->short_order) ||
        !NEAP_TAKE(&r->arena, r->n_steps, a->best_order) ||
        !NEAP_TAKE(&r->arena, r->n_lives, a->best_offsets))
        return neap_fail_no_memory(r->diag);
    a->first = r->makespan;
    a->best = INT64_MAX;
    NEAP_TRY(find_best(a, most_loss));
    if (a->best == INT64_MAX) {
        *placed = a->shortened;
        a->shortened = NULL;
        return NEAP_OK;
    }
    recall(a);
    lengthen(a);
    NEAP_TRY(neap_retimer_write(r, placed));
    return neap_retimer_write_offsets(r, *placed);
}

neap_status neap_retime_assign(neap_allocator *allocator, const neap_graph *graph,
                               const neap_link *link, const neap_plan *plan,
                               const neap_layout_options *options, double most_loss,
                               neap_plan **placed, neap_diag *diag)
{
    assignment a = {.end = options->seconds > 0 ? neap_clock_seconds() + options->seconds : 0};
    *placed = NULL;
    neap_status status = neap_retimer_init(&a.r, allocator, graph, link, plan, options, diag);
    if (status == NEAP_OK)
        status = assign(&a, most_loss, placed);
    if (status != NEAP_OK) {
        neap_plan_destroy(*placed);
        *placed = NULL;
    }
    neap_plan_destroy(a.shortened);
    neap_retimer_clear(&a.r);
    return status;
}
