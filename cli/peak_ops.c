#include "peak_ops.h"

#include "memory.h"

#include <neap/plan.h>
#include <neap/solve.h>

/* Keeps the list sorted; of equals the first comes first. */
static void offer(cli_peak_ops *ops, uint32_t op, int64_t bytes)
{
    uint32_t place = ops->count;
    while (place > 0 && ops->items[place - 1].bytes < bytes)
        place--;
    if (bytes <= 0 || place == CLI_PEAK_OPS)
        return;
    if (ops->count < CLI_PEAK_OPS)
        ops->count++;
    for (uint32_t i = ops->count - 1; i > place; i--)
        ops->items[i] = ops->items[i - 1];
    ops->items[place] = (cli_peak_op){op, bytes};
}

/* live[v]: how many values on storage v are resident after the first steps of the plan. */
static void replay(const neap_graph *graph, const neap_plan *plan, size_t count, uint32_t *live)
{
    for (uint32_t v = 0; v < neap_graph_value_count(graph); v++)
        if (neap_graph_value(graph, v)->producer == NEAP_NONE) /* inputs stay throughout */
            live[neap_graph_value(graph, v)->storage]++;
    const neap_step *steps = neap_plan_steps(plan);
    for (size_t s = 0; s < count; s++) {
        if (steps[s].kind == NEAP_FREE) {
            live[neap_graph_value(graph, steps[s].id)->storage]--;
            continue;
        }
        const neap_op *op = neap_graph_op(graph, steps[s].id);
        for (uint32_t i = 0; i < op->n_outputs; i++)
            live[neap_graph_value(graph, op->outputs[i])->storage]++;
    }
}

static void rank(const neap_graph *graph, const uint32_t *live, int64_t *bytes, cli_peak_ops *ops)
{
    for (uint32_t v = 0; v < neap_graph_value_count(graph); v++) {
        const neap_value *value = neap_graph_value(graph, v);
        if (live[v] > 0 && value->producer != NEAP_NONE)
            bytes[value->producer] += value->bytes;
    }
    for (uint32_t o = 0; o < neap_graph_op_count(graph); o++)
        offer(ops, o, bytes[o]);
}

neap_status cli_peak_live(const neap_graph *graph, uint32_t *live, uint32_t *op, neap_diag *diag)
{
    neap_plan *plan = NULL;
    neap_timeline timeline = {0};
    neap_status status = neap_natural_plan(NULL, graph, &plan, diag);
    *op = NEAP_NONE;
    if (status == NEAP_OK)
        status = neap_timeline_build(NULL, graph, plan, NULL, &timeline, diag);
    if (status == NEAP_OK && timeline.n_steps > 0) {
        replay(graph, plan, timeline.peak_step + 1, live);
        const neap_step *step = &neap_plan_steps(plan)[timeline.peak_step];
        *op = step->kind == NEAP_COMPUTE ? step->id : NEAP_NONE;
    }
    neap_timeline_clear(&timeline);
    neap_plan_destroy(plan);
    return status;
}

neap_status cli_peak_ops_find(const neap_graph *graph, cli_peak_ops *ops, neap_diag *diag)
{
    uint32_t peak_op;
    size_t n_values = (size_t)neap_graph_value_count(graph) + 1;
    size_t n_ops = (size_t)neap_graph_op_count(graph) + 1;
    uint32_t *live = cli_memory_new(n_values, sizeof *live);
    int64_t *bytes = cli_memory_new(n_ops, sizeof *bytes);
    *ops = (cli_peak_ops){.count = 0};
    neap_status status = live && bytes ? NEAP_OK : (diag->status = NEAP_NO_MEMORY);
    if (status == NEAP_OK)
        status = cli_peak_live(graph, live, &peak_op, diag);
    if (status == NEAP_OK)
        rank(graph, live, bytes, ops);
    cli_memory_release(live, n_values, sizeof *live);
    cli_memory_release(bytes, n_ops, sizeof *bytes);
    return status;
}
