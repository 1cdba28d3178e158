#include "planners/chain/schedule.h"

#include "base/fail.h"
#include "base/memory.h"

static neap_status add_run(schedule *s, run_kind kind, uint32_t stage, neap_diag *diag)
{
    NEAP_TRY(NEAP_RESERVE(s->allocator, s->n_runs + 1, &s->runs, &s->capacity, diag));
    s->runs[s->n_runs++] = (stage_run){kind, stage};
    return NEAP_OK;
}

/* A task on the stack: a subchain, or (with `backward`) the backward run of stage i. */
typedef struct chain_task {
    subchain part;
    bool backward;
} chain_task;

typedef struct task_stack {
    chain_task *tasks;
    size_t count, capacity;
} task_stack;

static neap_status push(schedule *s, task_stack *stack, chain_task task, neap_diag *diag)
{
    NEAP_TRY(NEAP_RESERVE(s->allocator, stack->count + 1, &stack->tasks, &stack->capacity, diag));
    stack->tasks[stack->count++] = task;
    return NEAP_OK;
}

static neap_status unroll(schedule *s, const stage_costs *costs, task_stack *stack,
                          run_chooser *chooser, chain_task next, neap_diag *diag)
{
    subchain part = next.part;
    if (next.backward)
        return add_run(s, RUN_BACKWARD, part.i, diag);
    if (part.i == part.j) {
        NEAP_TRY(add_run(s, RUN_AGAIN, part.i, diag));
        return add_run(s, RUN_BACKWARD, part.i, diag);
    }
    int64_t right = 0, left = 0;
    uint32_t k = chooser->choose(chooser, part, &right, &left);
    bool save = k == part.i;
    int right_mode = save && costs->stage[part.i].output_saved ? HELD : OWNED;
    chain_task after = {.part = {part.i, save ? part.i : k - 1, part.mode, left}, .backward = save};
    chain_task first = {.part = {save ? part.i + 1 : k, part.j, right_mode, right}};
    for (uint32_t l = part.i; l < first.part.i; l++)
        NEAP_TRY(add_run(s, RUN_FORWARD, l, diag));
    NEAP_TRY(push(s, stack, after, diag));
    return push(s, stack, first, diag);
}

neap_status neap_schedule_build(const planner *p, const stage_costs *costs, run_chooser *chooser,
                                int64_t memory, schedule *s, neap_diag *diag)
{
    task_stack stack = {0};
    *s = (schedule){.allocator = p->allocator};
    neap_status status = NEAP_OK;
    if (costs->n > 0)
        status = push(s, &stack, (chain_task){.part = {0, costs->n - 1, HELD, memory}}, diag);
    while (stack.count > 0 && status == NEAP_OK)
        status = unroll(s, costs, &stack, chooser, stack.tasks[--stack.count], diag);
    NEAP_DELETE(p->allocator, stack.capacity, stack.tasks);
    if (status != NEAP_OK)
        neap_schedule_clear(s);
    return status;
}

void neap_schedule_clear(schedule *s)
{
    NEAP_DELETE(s->allocator, s->capacity, s->runs);
    s->runs = NULL;
    s->n_runs = s->capacity = 0;
}

neap_status neap_planner_use_schedule(const planner *p, draft *d, const stage_costs *costs,
                                      const schedule *s, neap_diag *diag)
{
    const neap_chain *chain = &costs->chain;
    uint32_t *sequence = NULL;
    bool *ran = NULL; /* per stage */
    size_t length = 0, capacity = 0;
    neap_status status = NEAP_NEW(p->allocator, costs->n, &ran, diag);
    for (size_t r = 0; r < s->n_runs && status == NEAP_OK; r++) {
        const neap_stage *stage = &chain->stages[s->runs[r].stage];
        run_kind kind = s->runs[r].kind;
        uint32_t first = kind == RUN_BACKWARD ? stage->first_backward : stage->first_op;
        uint32_t end = kind == RUN_BACKWARD ? stage->end_backward : stage->end_op;
        status = NEAP_RESERVE(p->allocator, length + (end - first), &sequence, &capacity, diag);
        const bool *mask = kind == RUN_AGAIN                              ? costs->again
                           : kind == RUN_FORWARD && ran[s->runs[r].stage] ? costs->rerun
                                                                          : NULL;
        for (uint32_t o = first; o < end && status == NEAP_OK; o++)
            if (!mask || mask[o])
                sequence[length++] = o;
        ran[s->runs[r].stage] = true;
    }
    if (status == NEAP_OK && chain->n_stages == 0) { /* no forward part: every op in order */
        uint32_t n_ops = neap_graph_op_count(p->graph);
        status = NEAP_RESERVE(p->allocator, n_ops, &sequence, &capacity, diag);
        while (status == NEAP_OK && length < n_ops) {
            sequence[length] = (uint32_t)length;
            length++;
        }
    }
    if (status == NEAP_OK)
        status = neap_planner_use_sequence(p, d, sequence, length, diag);
    NEAP_DELETE(p->allocator, capacity, sequence);
    NEAP_DELETE(p->allocator, costs->n, ran);
    return status;
}

int64_t neap_schedule_ticks(const stage_costs *costs, const schedule *s)
{
    int64_t ticks = 0;
    for (size_t r = 0; r < s->n_runs; r++) {
        const stage_cost *cost = &costs->stage[s->runs[r].stage];
        const int64_t by_kind[] = {cost->forward_ticks, cost->again_ticks, cost->backward_ticks};
        ticks += by_kind[s->runs[r].kind];
    }
    return ticks;
}
