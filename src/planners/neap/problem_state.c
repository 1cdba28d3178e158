/* State that travels: see problem.h. */
#include "base/fail.h"
#include "planners/neap/problem.h"

bool neap_problem_begin_states(problem *x)
{
    uint32_t n_values = neap_graph_value_count(x->graph);
    if (!NEAP_TAKE(&x->arena, n_values, x->state_of_value) ||
        !NEAP_TAKE(&x->arena, n_values, x->pinned_input) ||
        !NEAP_TAKE(&x->arena, n_values, x->state_update) ||
        !NEAP_TAKE(&x->arena, (size_t)x->n_tasks + 1, x->state_reads.start) ||
        !NEAP_TAKE(&x->arena, x->n_tasks, x->state_read_bytes))
        return false;
    for (uint32_t v = 0; v < n_values; v++)
        x->state_of_value[v] = NEAP_NONE;
    return true;
}

/* Whether nothing but a task's need for it keeps a value on the device. */
static bool may_leave(const problem *x, uint32_t value)
{
    const neap_value *v = neap_graph_value(x->graph, value);
    bool is_view = v->storage != value;
    if (x->pinned_input[value] || neap_graph_is_output(x->graph, value))
        return false;
    /* A free view is made again; a view that is an input itself, or has a cost, is not. One that
       nothing reads has no task before which it is made. */
    uint32_t n_readers;
    neap_graph_readers(x->graph, value, &n_readers);
    return is_view ? v->producer != NEAP_NONE && x->task_of_op[v->producer] == NEAP_NONE &&
                         n_readers > 0
                   : v->state && v->bytes > 0;
}

static void number_states(problem *x, const bool *stays)
{
    uint32_t n_values = neap_graph_value_count(x->graph);
    for (uint32_t v = 0; v < n_values; v++) {
        const neap_value *value = neap_graph_value(x->graph, v);
        if (value->storage != v || value->producer != NEAP_NONE || stays[v])
            continue;
        uint32_t id = x->n_tensors + x->n_states;
        x->state_of_value[v] = id;
        x->tensor_value[id] = v;
        x->bytes[id] = value->bytes;
        x->pins[id] = TENSOR_NO_RECOMPUTE;
        x->state_update[x->n_states++] = x->updater[v];
        x->state_bytes += value->bytes;
    }
    for (uint32_t v = 0; v < n_values; v++)
        x->state_of_value[v] = x->state_of_value[neap_graph_value(x->graph, v)->storage];
    x->base_bytes -= x->state_bytes;
}

static bool list_states(problem *x)
{
    size_t n_items = 0;
    uint32_t n = 0;
    for (uint32_t k = 0; k < x->n_tasks; k++)
        n_items += neap_graph_op(x->graph, x->task_op[k])->n_inputs;
    if (!NEAP_TAKE(&x->arena, n_items, x->state_reads.items))
        return false;
    for (uint32_t k = 0; k < x->n_tasks; k++) {
        const neap_op *op = neap_graph_op(x->graph, x->task_op[k]);
        for (uint32_t i = 0; i < op->n_inputs; i++)
            if (x->state_of_value[op->inputs[i]] != NEAP_NONE)
                x->state_reads.items[n++] = x->state_of_value[op->inputs[i]];
        n = neap_problem_sort_unique(x->state_reads.items, x->state_reads.start[k], n);
        x->state_reads.start[k + 1] = n;
        x->state_read_bytes[k] = 0;
        for (uint32_t i = x->state_reads.start[k]; i < n; i++)
            x->state_read_bytes[k] += x->bytes[x->state_reads.items[i]];
    }
    return true;
}

neap_status neap_problem_let_state_travel(problem *x, const neap_request *request, neap_diag *diag)
{
    uint32_t n_values = neap_graph_value_count(x->graph);
    bool *stays; /* by storage */
    if (request->state == NEAP_STATE_DEVICE || request->link.out_bandwidth <= 0 ||
        request->link.in_bandwidth <= 0)
        return NEAP_OK;
    if (!NEAP_TAKE(&x->arena, n_values, stays))
        return neap_fail_no_memory(diag);
    for (uint32_t v = 0; v < n_values; v++)
        if (!may_leave(x, v))
            stays[neap_graph_value(x->graph, v)->storage] = true;
    number_states(x, stays);
    return list_states(x) ? NEAP_OK : neap_fail_no_memory(diag);
}
