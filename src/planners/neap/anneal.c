#include "planners/neap/anneal.h"

#include "base/clock.h"
#include "base/fail.h"
#include "base/memory.h"
#include "base/random.h"
#include "base/team.h"

#include <math.h>
#include <stdatomic.h>

enum {
    MOST_CYCLES = 16,
    POLL = 256,     /* steps between two looks at the clock */
    LIVE_TRIES = 12 /* to find a tensor that is in memory at a place */
};

/* The temperature falls from HOT to COLD mean times of a task; the price of a byte rises from CHEAP
   to DEAR times its unit, and at the end by up to another factor. */
static const double HOT = 1, COLD = 0.02, CHEAP = 2.25, DEAR = 75, LAST_RISE = 60;
static const double LAST_PART = 0.7; /* of a cycle: when that begins */

static const double FARTHEST = 200; /* places that a run moves */

/* ---- Creation and release ---- */

static bool may_repeat(const problem *x, uint32_t task)
{
    for (uint32_t i = x->makes.start[task]; i < x->makes.start[task + 1]; i++)
        if (!tensor_can_recompute(x, x->makes.items[i]))
            return false;
    return x->makes.start[task] < x->makes.start[task + 1];
}

neap_status neap_anneal_init(anneal *a, neap_allocator *allocator, const problem *x, int64_t budget,
                             uint64_t seed, neap_diag *diag)
{
    *a = (anneal){.random = seed};
    uint32_t most_runs = x->n_tasks < UINT32_MAX / 8 ? 4 * x->n_tasks + 64 : x->n_tasks;
    NEAP_TRY(neap_flat_sequence_init(&a->q, allocator, x, budget, most_runs, diag));
    if (!NEAP_TAKE(&a->q.arena, x->n_tasks, a->flexible) ||
        !NEAP_TAKE(&a->q.arena, x->n_tasks, a->repeatable))
        return neap_fail_no_memory(diag);
    NEAP_TRY(NEAP_NEW(allocator, x->n_tasks, &a->best.list.choice, diag));
    for (uint32_t t = 0; t < x->n_tasks; t++) {
        if (x->variant_start[t + 1] - x->variant_start[t] > 1)
            a->flexible[a->n_flexible++] = t;
        a->repeatable[t] = may_repeat(x, t);
    }
    NEAP_TRY(neap_flat_sequence_load(&a->q, NULL, diag));
    double held = 1;
    for (uint32_t i = 0; i <= a->q.length; i++)
        held += (double)a->q.bytes[i];
    a->mean_ticks = (double)(a->q.ticks + 1) / (x->n_tasks + 1);
    a->unit_price = (double)(a->q.ticks + 1) / held;
    return NEAP_OK;
}

void neap_anneal_clear(anneal *a)
{
    if (a->q.x)
        neap_compute_list_clear(a->q.allocator, a->q.x, &a->best.list);
    neap_flat_sequence_clear(&a->q);
    *a = (anneal){0};
}

/* ---- Steps ---- */

/* A step and its inverse. */
typedef enum step_kind { STEP_NONE, STEP_MOVE, STEP_INSERT, STEP_REMOVE, STEP_VARIANT } step_kind;

typedef struct step {
    step_kind kind;
    uint32_t run, task; /* what it changes */
    uint32_t before;    /* the place of a run, or the variant of a task, before the step */
} step;

/* The fullest of some random places. */
static uint32_t full_place(anneal *a, int tries)
{
    uint32_t place = neap_random_below(&a->random, a->q.length);
    for (int i = 1; i < tries; i++) {
        uint32_t other = neap_random_below(&a->random, a->q.length);
        place = a->q.bytes[other] > a->q.bytes[place] ? other : place;
    }
    return place;
}

static step move_one(anneal *a)
{
    flat_sequence *q = &a->q;
    uint32_t from = full_place(a, 2), run = q->items[from];
    flat_range range = neap_flat_sequence_range(q, run);
    uint32_t far = (uint32_t)exp(neap_random_real(&a->random) * log(FARTHEST));
    bool later = neap_random_below(&a->random, 2) > 0;
    uint32_t to = later ? from + 1 + far : from > far ? from - far : 0;
    to = to < range.first ? range.first : to > range.last ? range.last : to;
    if (to == from || to == from + 1)
        return (step){.kind = STEP_NONE};
    neap_flat_sequence_move(q, run, to);
    /* It goes back before the run that now follows its old place. */
    return (step){STEP_MOVE, run, q->task[run], to > from ? from : from + 1};
}

/* A tensor is recomputed before its next use behind a place at which it is only held. */
static step insert_one(anneal *a)
{
    flat_sequence *q = &a->q;
    uint32_t place = full_place(a, 4);
    for (int i = 0; i < LIVE_TRIES; i++) {
        uint32_t tensor = neap_random_below(&a->random, q->x->n_tensors);
        const flat_refs *list = &q->refs[tensor];
        uint32_t task = q->x->producer[tensor];
        if (list->n < 2 || q->x->bytes[tensor] == 0 || q->place[list->refs[0].item] >= place ||
            q->place[list->refs[list->n - 1].item] <= place || !a->repeatable[task])
            continue;
        const flat_ref *use = &list->refs[neap_flat_sequence_find_ref(q, tensor, place)];
        if (use->makes || q->place[use->item] == place)
            continue;
        uint32_t run = neap_flat_sequence_insert(q, task, q->place[use->item]);
        return (step){run == NEAP_NONE ? STEP_NONE : STEP_INSERT, run, task, 0};
    }
    return (step){.kind = STEP_NONE};
}

static step remove_one(anneal *a)
{
    flat_sequence *q = &a->q;
    if (q->n_again == 0)
        return (step){.kind = STEP_NONE};
    uint32_t task = q->again[neap_random_below(&a->random, q->n_again)];
    const flat_refs *list = &q->refs[q->x->makes.items[q->x->makes.start[task]]];
    uint32_t at = neap_random_below(&a->random, list->n);
    for (uint32_t i = 0; i < list->n && !list->refs[at].makes; i++)
        at = at + 1 < list->n ? at + 1 : 0;
    uint32_t run = list->refs[at].item;
    if (!neap_flat_sequence_can_remove(q, run))
        return (step){.kind = STEP_NONE};
    step done = {STEP_REMOVE, run, task, q->place[run]};
    neap_flat_sequence_remove(q, run);
    return done;
}

static step change_variant(anneal *a)
{
    const problem *x = a->q.x;
    uint32_t task = a->flexible[neap_random_below(&a->random, a->n_flexible)];
    uint32_t n = x->variant_start[task + 1] - x->variant_start[task], now = a->q.choice[task];
    uint32_t to = neap_random_below(&a->random, n - 1);
    neap_flat_sequence_set_variant(&a->q, task, to < now ? to : to + 1);
    return (step){STEP_VARIANT, 0, task, now};
}

static step take_step(anneal *a)
{
    double kind = neap_random_real(&a->random);
    if (a->n_flexible > 0 && kind < 0.05)
        return change_variant(a);
    return kind < 0.5 ? move_one(a) : kind < 0.75 ? insert_one(a) : remove_one(a);
}

static void undo(anneal *a, const step *s)
{
    if (s->kind == STEP_MOVE)
        neap_flat_sequence_move(&a->q, s->run, s->before);
    else if (s->kind == STEP_INSERT)
        neap_flat_sequence_remove(&a->q, s->run);
    else if (s->kind == STEP_REMOVE)
        neap_flat_sequence_insert(&a->q, s->task, s->before);
    else if (s->kind == STEP_VARIANT)
        neap_flat_sequence_set_variant(&a->q, s->task, s->before);
}

/* ---- Cycles ---- */

/* Saves the sequence if it is the fastest that fits or, with `last`, if none did. */
static neap_status keep(anneal *a, bool last, neap_diag *diag)
{
    const flat_sequence *q = &a->q;
    compute_list *list = &a->best.list;
    if (last ? a->best.found : q->over > 0 || (a->best.found && q->ticks >= a->best.ticks))
        return NEAP_OK;
    NEAP_TRY(NEAP_RESERVE(q->allocator, q->most_runs, &list->tasks, &list->capacity, diag));
    a->best.found = true;
    a->best.ticks = q->ticks;
    a->best.peak = neap_flat_sequence_most(q) + q->x->base_bytes;
    list->n = q->length;
    for (uint32_t i = 0; i < q->length; i++)
        list->tasks[i] = q->task[q->items[i]];
    for (uint32_t t = 0; t < q->x->n_tasks; t++)
        list->choice[t] = q->choice[t];
    return NEAP_OK;
}

/* Temperature and price at a fraction of the cycle. */
static void cool(anneal *a, double heat, double fraction)
{
    double hot = heat * HOT > COLD ? heat * HOT : COLD;
    double cheap = CHEAP / heat < DEAR ? CHEAP / heat : DEAR;
    double last = fraction > LAST_PART ? (fraction - LAST_PART) / (1 - LAST_PART) : 0;
    a->temperature = a->mean_ticks * hot * pow(COLD / hot, fraction);
    a->price = a->unit_price * cheap * pow(DEAR / cheap, fraction) * (1 + LAST_RISE * last * last);
}

static neap_status try_step(anneal *a, neap_diag *diag)
{
    int64_t ticks = a->q.ticks, over = a->q.over;
    step s = take_step(a);
    if (s.kind == STEP_NONE)
        return NEAP_OK;
    double worse = (double)(a->q.ticks - ticks) + a->price * (double)(a->q.over - over);
    if (worse > 0 && neap_random_real(&a->random) >= exp(-worse / a->temperature)) {
        undo(a, &s);
        return NEAP_OK;
    }
    return keep(a, false, diag);
}

neap_status neap_anneal_run(anneal *a, const anneal_cycle *cycle, neap_diag *diag)
{
    double begin = neap_clock_seconds(), fraction = 0;
    a->best.found = false;
    if (cycle->from && cycle->from->n > a->q.most_runs)
        return NEAP_OK;
    NEAP_TRY(neap_flat_sequence_load(&a->q, cycle->from, diag));
    NEAP_TRY(keep(a, false, diag));
    for (uint64_t i = 0; fraction < 1 && !cycle->stop(cycle->context); i += POLL) {
        fraction = cycle->end > 0 ? (neap_clock_seconds() - begin) / (cycle->end - begin)
                                  : (double)i / (double)cycle->steps;
        cool(a, cycle->heat, fraction < 1 ? fraction : 1);
        for (int k = 0; k < POLL; k++)
            NEAP_TRY(try_step(a, diag));
        a->steps += POLL;
        if (a->q.out_of_memory)
            return neap_fail_no_memory(diag);
    }
    return keep(a, true, diag);
}

/* ---- Several cycles ---- */

typedef struct anneal_job {
    neap_job job;
    const anneal_team *team;
    atomic_uint next;
    anneal cycles[MOST_CYCLES];
    neap_status status[MOST_CYCLES];
    neap_diag diags[MOST_CYCLES];
} anneal_job;

static void take_cycles(neap_job *self, neap_team *members, unsigned member)
{
    anneal_job *job = (anneal_job *)self;
    const anneal_team *team = job->team;
    (void)members;
    (void)member;
    unsigned k;
    while ((k = atomic_fetch_add(&job->next, 1)) < team->cycles && k < MOST_CYCLES) {
        anneal *a = &job->cycles[k];
        neap_diag *diag = &job->diags[k];
        job->status[k] = neap_anneal_init(a, team->allocator, team->x, team->budget,
                                          team->seed * MOST_CYCLES + k, diag);
        if (job->status[k] == NEAP_OK)
            job->status[k] = neap_anneal_run(a, &team->cycle, diag);
    }
}

static bool is_better(const anneal_team *team, const search_plan *a, const search_plan *b)
{
    if (!a->found || !b->found)
        return a->found && !b->found;
    bool fits = a->peak <= team->budget;
    if (fits != (b->peak <= team->budget))
        return fits;
    return fits ? a->ticks < b->ticks : a->peak < b->peak;
}

neap_status neap_anneal_best_of(const anneal_team *team, search_plan *best, neap_diag *diag)
{
    anneal_job *job;
    const search_plan *winner = NULL;
    best->found = false;
    NEAP_TRY(NEAP_NEW(team->allocator, 1, &job, diag));
    job->job.run = take_cycles;
    job->team = team;
    neap_team_run(&job->job, team->threads);
    neap_status status = NEAP_OK;
    for (unsigned k = 0; k < team->cycles && k < MOST_CYCLES; k++) {
        const search_plan *plan = &job->cycles[k].best;
        if (job->status[k] != NEAP_OK) {
            status = job->status[k];
            *diag = job->diags[k];
        } else if (!winner || is_better(team, plan, winner)) {
            winner = plan;
        }
    }
    if (status == NEAP_OK && winner && winner->found)
        status = neap_search_plan_copy(team->allocator, team->x, best, winner, diag);
    for (unsigned k = 0; k < MOST_CYCLES; k++)
        neap_anneal_clear(&job->cycles[k]);
    NEAP_DELETE(team->allocator, 1, job);
    return status;
}
