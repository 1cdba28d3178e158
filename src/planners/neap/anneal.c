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
    POLL = 256 /* steps between two looks at the clock */
};

/* The temperature falls from HOT to COLD mean times of a task; the price of a byte rises from CHEAP
   to DEAR times its unit, and at the end by up to another factor. */
static const double HOT = 1, COLD = 0.02, CHEAP = 2.25, DEAR = 75, LAST_RISE = 60;
static const double LAST_PART = 0.7; /* of a cycle: when that begins */

/* ---- Creation and release ---- */

neap_status neap_anneal_init(anneal *a, neap_allocator *allocator, const problem *x, int64_t budget,
                             uint64_t seed, neap_diag *diag)
{
    *a = (anneal){0};
    uint32_t most_runs = x->n_tasks < UINT32_MAX / 8 ? 4 * x->n_tasks + 64 : x->n_tasks;
    NEAP_TRY(neap_flat_sequence_init(&a->q, allocator, x, budget, most_runs, diag));
    NEAP_TRY(neap_anneal_steps_init(&a->steps, &a->q, seed, diag));
    NEAP_TRY(NEAP_NEW(allocator, x->n_tasks, &a->best.list.choice, diag));
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
    anneal_step step;
    neap_anneal_step_take(&a->steps, &step);
    if (step.n == 0)
        return NEAP_OK;
    double worse = (double)(a->q.ticks - ticks) + a->price * (double)(a->q.over - over);
    if (worse > 0 && neap_random_real(&a->steps.random) >= exp(-worse / a->temperature)) {
        neap_anneal_step_undo(&a->steps, &step);
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
        a->n_steps += POLL;
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
