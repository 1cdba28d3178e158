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

/* Whether the pins allow a run of the op; ran: by op. */
static bool may_run(const problem *x, uint32_t op, bool *ran)
{
    bool again = ran[op];
    ran[op] = true;
    return !again || may_run_again(x, op);
}

/* Whether the plan has state where the request wants it. */
static bool honours_state(const neap_plan *plan, const problem *x)
{
    size_t count;
    neap_plan_host_at_start(plan, &count);
    return x->state_place == NEAP_STATE_DEVICE ? count == 0
           : x->state_place == NEAP_STATE_HOST ? count >= x->n_states
                                               : true;
}

/* If the request has pins, those that views impose (problem.h) count as well. */
static bool honours_pins(const neap_plan *plan, const problem *x, bool *ran)
{
    const neap_step *steps = neap_plan_steps(plan);
    for (size_t i = 0; i < neap_plan_step_count(plan); i++) {
        uint32_t id = steps[i].id;
        if ((steps[i].kind == NEAP_OFFLOAD && (pins_of(x, id) & TENSOR_NO_OFFLOAD)) ||
            (steps[i].kind == NEAP_COMPUTE && !may_run(x, id, ran)))
            return false;
    }
    return true;
}

/* Removes runs that the pins forbid; what the first run makes is kept then. Transfers refer to
   positions in the list, so they are removed too. */
static void drop_forbidden_runs(compute_list *list, const problem *x, bool *ran)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < list->n; i++)
        if (may_run(x, x->task_op[list->tasks[i]], ran))
            list->tasks[n++] = list->tasks[i];
    if (n < list->n)
        list->n_transfers = 0;
    list->n = n;
}

/* ---- Interface ---- */

neap_status neap_start_plan_read(start_plan *start, neap_allocator *allocator, const problem *x,
                                 const neap_request *request, neap_diag *diag)
{
    search_plan *s = &start->schedule;
    size_t n_ops = neap_graph_op_count(x->graph);
    bool *ran; /* by op, for the plan and then for the schedule */
    *start = (start_plan){.given = request->start};
    if (!request->start)
        return NEAP_OK;
    NEAP_TRY(judge(start, allocator, request, diag));
    NEAP_TRY(neap_plan_to_schedule(allocator, x, request->start, &s->list, diag));
    NEAP_TRY(NEAP_NEW(allocator, 2 * n_ops, &ran, diag));
    start->honours_constraints = honours_state(request->start, x) &&
                                 (request->n_pins == 0 || honours_pins(request->start, x, ran));
    drop_forbidden_runs(&s->list, x, ran + n_ops);
    NEAP_DELETE(allocator, 2 * n_ops, ran);
    s->found = true;
    return NEAP_OK;
}

neap_status neap_start_plan_make(start_plan *start, neap_allocator *allocator, const problem *x,
                                 const planner *p, neap_diag *diag)
{
    draft found = {0};
    planner chain = *p;
    chain.budget = 1; /* no plan fits: the method answers with the one of least memory */
    if (start->given)
        return NEAP_OK;
    neap_arena_init(&found.arena, p->allocator);
    neap_status status = neap_planner_run_method(&chain, "rotor", &found, diag);
    neap_plan *made = found.plan;
    found.plan = NULL;
    neap_planner_clear_draft(p, &found);
    if (status == NEAP_OK && made) {
        neap_request request = *p->request;
        request.start = made;
        status = neap_start_plan_read(start, allocator, x, &request, diag);
    }
    start->made = made;
    return status == NEAP_UNSUPPORTED ? NEAP_OK : status;
}

void neap_start_plan_clear(start_plan *start, neap_allocator *allocator, const problem *x)
{
    neap_plan_destroy(start->made);
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
