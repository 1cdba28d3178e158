#include "planners/neap/sequence_search.h"

#include "base/fail.h"
#include "base/memory.h"
#include "planners/neap/plan_conversion.h"
#include "planners/neap/search.h"

struct sequence_search {
    const planner *p;
    problem x;
    search s;
};

neap_status neap_sequence_search_create(const planner *p, int64_t budget,
                                        bool (*stop)(void *context), void *context,
                                        sequence_search **made, neap_diag *diag)
{
    NEAP_TRY(NEAP_NEW(p->allocator, 1, made, diag));
    sequence_search *new = *made;
    new->p = p;
    neap_status status = neap_problem_init_in_graph_order(&new->x, p->allocator, p->request, diag);
    /* The methods that use it count without runs in place. */
    if (status == NEAP_OK)
        neap_problem_forget_in_place(&new->x);
    if (status == NEAP_OK)
        status =
            neap_search_init(&new->s, p->allocator, &new->x, budget, NULL, p->request->seed, diag);
    if (stop)
        neap_search_set_stop(&new->s, stop, context);
    new->s.in_order = new->s.q.keeps_first_runs = new->s.restarts = true;
    if (status != NEAP_OK) {
        neap_sequence_search_destroy(new);
        *made = NULL;
    }
    return status;
}

void neap_sequence_search_destroy(sequence_search *q)
{
    if (!q)
        return;
    neap_search_clear(&q->s);
    neap_problem_clear(&q->x);
    NEAP_DELETE(q->p->allocator, 1, q);
}

static bool may_run_again(const problem *x, uint32_t task)
{
    for (uint32_t i = x->makes.start[task]; i < x->makes.start[task + 1]; i++)
        if (!tensor_can_recompute(x, x->makes.items[i]))
            return false;
    return true;
}

neap_status neap_sequence_search_load(sequence_search *q, const uint32_t *ops, size_t length,
                                      neap_diag *diag)
{
    const problem *x = &q->x;
    neap_arena arena;
    compute_list list = {0};
    bool *ran;
    neap_arena_init(&arena, q->p->allocator);
    if (!NEAP_TAKE(&arena, length, list.tasks) || !NEAP_TAKE(&arena, x->n_tasks, list.choice) ||
        !NEAP_TAKE(&arena, x->n_tasks, ran)) {
        neap_arena_clear(&arena);
        return neap_fail_no_memory(diag);
    }
    for (size_t i = 0; i < length; i++) {
        uint32_t task = x->task_of_op[ops[i]];
        if (task == NEAP_NONE || (ran[task] && !may_run_again(x, task)))
            continue;
        ran[task] = true;
        list.choice[task] = x->variant_start[task + 1] - x->variant_start[task] - 1; /* leanest */
        list.tasks[list.n++] = task;
    }
    neap_status status = neap_sequence_load(&q->s.q, &list, diag);
    neap_arena_clear(&arena);
    return status;
}

neap_status neap_sequence_search_trim(sequence_search *q, neap_diag *diag)
{
    search *s = &q->s;
    s->noise = 0;
    s->partial_prune = false;
    for (uint32_t before = UINT32_MAX; s->q.length < before;) {
        before = s->q.length; /* a removal may allow others: its item no longer needs memory */
        neap_search_prune(s);
        neap_sequence_commit(&s->q);
    }
    if (s->q.out_of_memory)
        return neap_fail_no_memory(diag);
    s->current_ticks = s->q.ticks;
    return neap_search_keep(s, diag);
}

neap_status neap_sequence_search_fit(sequence_search *q, neap_diag *diag)
{
    return neap_search_construct(&q->s, diag);
}

neap_status neap_sequence_search_improve(sequence_search *q, uint32_t iterations, neap_diag *diag)
{
    return neap_search_iterate(&q->s, iterations, diag);
}

int64_t neap_sequence_search_ticks(const sequence_search *q)
{
    const search_plan *best = &q->s.best;
    bool fits = best->found && best->peak - q->x.base_bytes <= q->s.budget;
    return fits ? best->ticks : INT64_MAX;
}

neap_status neap_sequence_search_list(const sequence_search *q, uint32_t **ops, size_t *length,
                                      size_t *capacity, neap_diag *diag)
{
    const planner *p = q->p;
    neap_plan *plan = NULL;
    neap_status status =
        neap_schedule_to_plan(p->allocator, &q->x, p->request, &q->s.best.list, &plan, diag);
    if (status == NEAP_OK)
        status = neap_planner_list_computes(p, plan, ops, length, capacity, diag);
    neap_plan_destroy(plan);
    return status;
}
