/*
 * neap_plan_to_schedule: replays a plan and records for each storage when it was last touched, when
 * it left, and when it is touched again after it was fetched.
 */
#include "planners/neap/plan_conversion.h"

#include "base/fail.h"
#include "base/memory.h"
#include "plan/residency.h"

#include <stdlib.h>

typedef struct whereabouts {
    uint32_t touched; /* the last position that touched it */
    bool is_back;     /* fetched since it left, not touched yet */
    bool has_left;    /* at `freed`; cleared by the next touch */
    bool over;        /* ... by a run that has written over it */
    bool is_copied;   /* to the host since it was made or fetched */
    bool on_host;     /* by a transfer of the list */
    bool at_start;    /* state: on the host at the start and at the end */
    bool updated;     /* state: it has been overwritten */
    uint32_t copied, freed, fetched;
    uint32_t copy_turn, free_turn, fetch_turn; /* steps */
} whereabouts;

typedef struct reading {
    const problem *x;
    neap_allocator *allocator;
    neap_residency residency;
    whereabouts *tensors;
    compute_list *list;
    bool at_end;
} reading;

/* The tensor of a value's storage: a costly view's own tensor has no bytes. */
static uint32_t tensor_below(const problem *x, uint32_t value)
{
    uint32_t state = x->state_of_value[value];
    return state != NEAP_NONE ? state
                              : x->tensor_of_value[neap_graph_value(x->graph, value)->storage];
}

static void forget_absence(whereabouts *w)
{
    w->has_left = w->is_back = w->is_copied = w->over = false;
}

static neap_status note_transfer(reading *r, uint32_t tensor, uint32_t before)
{
    whereabouts *w = &r->tensors[tensor];
    compute_list *list = r->list;
    bool state = is_state(r->x, tensor);
    bool leads = w->at_start && w->touched == NEAP_NONE,
         ends = w->at_start && before == list->n && r->at_end;
    if (w->has_left && (w->is_back || ends) && tensor_can_offload(r->x, tensor)) {
        NEAP_TRY(NEAP_RESERVE(r->allocator, (size_t)list->n_transfers + 1, &list->transfers,
                              &list->transfer_capacity, r->residency.diag));
        bool early = w->is_copied && w->copied + 1 < w->touched + 1;
        uint32_t copied = early ? w->copied : w->touched;
        list->transfers[list->n_transfers++] =
            (transfer){.tensor = tensor,
                       .after = w->touched,
                       .before = before,
                       .copies_out = !state && (w->is_copied || !w->on_host),
                       .leads = leads,
                       .ends = ends,
                       .updated = w->updated,
                       .over = w->over && (w->is_copied || w->on_host),
                       .copied = copied,
                       .freed = w->freed,
                       .fetched = w->fetched,
                       .copy_turn = w->is_copied ? w->copy_turn : w->free_turn,
                       .free_turn = w->free_turn,
                       .fetch_turn = w->fetch_turn};
        w->on_host = true;
    }
    if (w->has_left)
        forget_absence(w);
    return NEAP_OK;
}

/* State that a task overwrites: copies on the host are out of date. */
static void note_update(reading *r, uint32_t task)
{
    const problem *x = r->x;
    for (uint32_t i = x->state_reads.start[task]; i < x->state_reads.start[task + 1]; i++) {
        uint32_t state = x->state_reads.items[i];
        if (x->state_update[state - x->n_tensors] != task)
            continue;
        r->tensors[state].updated = true;
        r->tensors[state].is_copied = false;
    }
}

static neap_status touch(reading *r, uint32_t tensor)
{
    neap_status status = note_transfer(r, tensor, r->list->n);
    r->tensors[tensor].touched = r->list->n;
    return status;
}

/* The fastest of the problem's variants with no more workspace than the step's. */
static uint32_t choice_of(const problem *x, uint32_t task, const neap_step *step)
{
    int64_t workspace =
        neap_graph_op(x->graph, x->task_op[task])->variants[step->variant].workspace;
    const task_variant *all = &x->variants[x->variant_start[task]];
    uint32_t i = 0;
    while (all[i].workspace > workspace)
        i++;
    return i;
}

/* The input of a run in place leaves by it. Unless it has a copy on the host that is fetched later,
   the list says whether the run is in place in the schedule, too. */
static void read_in_place(reading *r, const neap_step *step, uint32_t at)
{
    uint32_t t = tensor_below(r->x, neap_graph_op(r->x->graph, step->id)->in_place_input);
    if (t == NEAP_NONE)
        return;
    whereabouts *w = &r->tensors[t];
    w->has_left = true;
    w->is_back = false;
    w->over = r->x->in_place[r->x->task_of_op[step->id]] == t;
    w->freed = r->list->n;
    w->free_turn = at;
}

static neap_status read_compute(reading *r, const neap_step *step, uint32_t at)
{
    const problem *x = r->x;
    uint32_t task = x->task_of_op[step->id];
    compute_list *list = r->list;
    if (task == NEAP_NONE)
        return NEAP_OK;
    NEAP_TRY(NEAP_RESERVE(r->allocator, (size_t)list->n + 1, &list->tasks, &list->capacity,
                          r->residency.diag));
    for (uint32_t i = x->reads.start[task]; i < x->reads.start[task + 1]; i++)
        NEAP_TRY(touch(r, x->reads.items[i]));
    for (uint32_t i = x->state_reads.start[task]; i < x->state_reads.start[task + 1]; i++)
        NEAP_TRY(touch(r, x->state_reads.items[i]));
    note_update(r, task);
    for (uint32_t i = x->makes.start[task]; i < x->makes.start[task + 1]; i++) {
        forget_absence(&r->tensors[x->makes.items[i]]);
        r->tensors[x->makes.items[i]].touched = r->list->n;
    }
    uint32_t lean = choice_of(x, task, step);
    if (lean > list->choice[task])
        list->choice[task] = lean;
    list->tasks[list->n++] = task;
    if (step->in_place)
        read_in_place(r, step, at);
    return NEAP_OK;
}

/* A free, an offload or a prefetch. */
static void read_other(reading *r, const neap_step *step, uint32_t at)
{
    uint32_t t = tensor_below(r->x, step->id), n = r->list->n;
    if (t == NEAP_NONE)
        return;
    whereabouts *w = &r->tensors[t];
    if (step->kind == NEAP_FREE && r->residency.ended != NEAP_NONE) {
        w->is_back = false;
        if (w->has_left) /* it was fetched but not read */
            return;
        w->has_left = true;
        w->freed = n;
        w->free_turn = at;
    } else if (step->kind == NEAP_OFFLOAD && !w->is_copied && !w->has_left) {
        w->is_copied = true;
        w->copied = n - 1;
        w->copy_turn = at;
    } else if (step->kind == NEAP_PREFETCH && r->residency.n_began > 0) {
        w->is_back = true;
        w->fetched = n;
        w->fetch_turn = at;
    }
}

/* All state is there at the start, or on the host. */
static void read_start(reading *r, const neap_plan *plan)
{
    const problem *x = r->x;
    size_t count;
    const uint32_t *values = neap_plan_host_at_start(plan, &count);
    for (uint32_t t = x->n_tensors; t < problem_n_all(x); t++)
        r->tensors[t].touched = NEAP_NONE;
    for (size_t i = 0; i < count; i++)
        if (x->state_of_value[values[i]] != NEAP_NONE) {
            whereabouts *w = &r->tensors[x->state_of_value[values[i]]];
            w->at_start = w->on_host = w->has_left = true;
        }
}

static neap_status read_steps(reading *r, const neap_plan *plan)
{
    const neap_step *steps = neap_plan_steps(plan);
    if (!NEAP_TAKE(&r->residency.arena, problem_n_all(r->x), r->tensors))
        return neap_fail_no_memory(r->residency.diag);
    read_start(r, plan);
    for (uint32_t i = 0; i < neap_plan_step_count(plan); i++) {
        NEAP_TRY(neap_residency_step(&r->residency, &steps[i], i));
        if (steps[i].kind == NEAP_COMPUTE)
            NEAP_TRY(read_compute(r, &steps[i], i));
        else
            read_other(r, &steps[i], i);
    }
    r->at_end = true;
    for (uint32_t t = 0; t < problem_n_all(r->x); t++)
        if (is_state(r->x, t) || r->x->is_output[t])
            NEAP_TRY(note_transfer(r, t, r->list->n));
    return NEAP_OK;
}

static int by_order(const void *left, const void *right)
{
    const transfer *a = left, *b = right;
    if (a->after != b->after) /* + 1: the start comes first */
        return a->after + 1 < b->after + 1 ? -1 : 1;
    return (a->copy_turn > b->copy_turn) - (a->copy_turn < b->copy_turn);
}

neap_status neap_plan_to_schedule(neap_allocator *allocator, const problem *x,
                                  const neap_plan *plan, compute_list *list, neap_diag *diag)
{
    allocator = neap_allocator_or_system(allocator);
    reading r = {.x = x, .allocator = allocator, .list = list};
    list->n = list->n_transfers = 0;
    if (!list->choice)
        NEAP_TRY(NEAP_NEW(allocator, x->n_tasks, &list->choice, diag));
    for (uint32_t k = 0; k < x->n_tasks; k++)
        list->choice[k] = 0;
    neap_status status = neap_residency_init(&r.residency, allocator, x->graph, plan, "", diag);
    if (status == NEAP_OK)
        status = read_steps(&r, plan);
    if (status == NEAP_OK && list->n_transfers > 1)
        qsort(list->transfers, list->n_transfers, sizeof *list->transfers, by_order);
    neap_residency_clear(&r.residency);
    return status;
}
