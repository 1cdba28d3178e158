#include "planners/neap/start_plan.h"

#include "base/fail.h"
#include "base/memory.h"
#include "planners/neap/plan_conversion.h"

#include <neap/check.h>

static neap_status judge(start_plan *start, neap_allocator *allocator, const neap_request *request,
                         neap_diag *diag)
{
    neap_check_options options;
    neap_verdict verdict;
    neap_check_options_init(&options);
    options.budget = INT64_MAX;
    options.link = &request->link;
    NEAP_TRY(neap_check(allocator, request->graph, start->given, &options, &verdict, diag));
    if (!verdict.accepted)
        return neap_fail(diag, NEAP_INVALID, "the plan to start from is rejected: %s",
                         verdict.reason);
    start->ticks = verdict.ticks;
    start->peak = verdict.peak_bytes;
    return NEAP_OK;
}

/* ---- Pins ---- */

static uint8_t pins_of(const problem *x, uint32_t value)
{
    uint32_t tensor = x->tensor_of_value[value];
    return tensor == NEAP_NONE ? 0 : x->pins[tensor];
}

static bool may_run_again(const problem *x, uint32_t op)
{
    const neap_op *o = neap_graph_op(x->graph, op);
    for (uint32_t i = 0; i < o->n_outputs; i++)
        if (pins_of(x, o->outputs[i]) & TENSOR_NO_RECOMPUTE)
            return false;
    return true;
}

/* Pins that stand for the graph's own limits (problem.h) count as well, if there are others. */
static neap_status compare_with_pins(start_plan *start, neap_allocator *allocator, const problem *x,
                                     const neap_request *request, neap_diag *diag)
{
    const neap_step *steps = neap_plan_steps(start->given);
    uint32_t n_ops = neap_graph_op_count(x->graph);
    bool *ran;
    neap_status status = NEAP_NEW(allocator, n_ops, &ran, diag);
    start->honours_constraints = status == NEAP_OK;
    size_t count =
        status == NEAP_OK && request->n_pins > 0 ? neap_plan_step_count(start->given) : 0;
    for (size_t i = 0; i < count; i++) {
        if (steps[i].kind == NEAP_OFFLOAD && (pins_of(x, steps[i].id) & TENSOR_NO_OFFLOAD))
            start->honours_constraints = false;
        if (steps[i].kind != NEAP_COMPUTE)
            continue;
        if (ran[steps[i].id] && !may_run_again(x, steps[i].id))
            start->honours_constraints = false;
        ran[steps[i].id] = true;
    }
    NEAP_DELETE(allocator, n_ops, ran);
    return status;
}

/* A task that may run but once does: what it makes is kept from then on. Transfers, which are by
   position, go if any run does. */
static neap_status drop_forbidden_runs(compute_list *list, neap_allocator *allocator,
                                       const problem *x, neap_diag *diag)
{
    bool *ran;
    uint32_t n = 0;
    NEAP_TRY(NEAP_NEW(allocator, x->n_tasks, &ran, diag));
    for (uint32_t i = 0; i < list->n; i++) {
        uint32_t task = list->tasks[i];
        if (ran[task] && !may_run_again(x, x->task_op[task]))
            continue;
        ran[task] = true;
        list->tasks[n++] = task;
    }
    if (n < list->n)
        list->n_transfers = 0;
    list->n = n;
    NEAP_DELETE(allocator, x->n_tasks, ran);
    return NEAP_OK;
}

/* ---- All of it ---- */

neap_status neap_start_plan_read(start_plan *start, neap_allocator *allocator, const problem *x,
                                 const neap_request *request, neap_diag *diag)
{
    search_plan *s = &start->schedule;
    *start = (start_plan){.given = request->start};
    if (!request->start)
        return NEAP_OK;
    NEAP_TRY(judge(start, allocator, request, diag));
    NEAP_TRY(compare_with_pins(start, allocator, x, request, diag));
    NEAP_TRY(neap_plan_to_schedule(allocator, x, request->start, &s->list, diag));
    NEAP_TRY(drop_forbidden_runs(&s->list, allocator, x, diag));
    s->found = true;
    return NEAP_OK;
}

void neap_start_plan_clear(start_plan *start, neap_allocator *allocator, const problem *x)
{
    neap_compute_list_clear(allocator, x, &start->schedule.list);
    *start = (start_plan){0};
}

neap_status neap_start_plan_copy(const start_plan *start, neap_allocator *allocator,
                                 const problem *x, const neap_request *request, neap_plan **plan,
                                 neap_diag *diag)
{
    const neap_step *steps = neap_plan_steps(start->given);
    *plan = NULL;
    neap_status status = neap_plan_create(allocator, neap_graph_name(x->graph), request->method,
                                          request->budget, plan, diag);
    for (size_t i = 0; i < neap_plan_step_count(start->given) && status == NEAP_OK; i++)
        status = neap_plan_append(*plan, steps[i], diag);
    return status;
}
