/*
 * A graph file of arbitrary bytes: rejected with one line, or a graph that satisfies neap/graph.h,
 * is written and read without loss, and can be planned.
 */
#include "fuzz.h"
#include "method_link.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { GRAPH_PLANNED_OPS = 40 }; /* larger ones are only read and written */

static void graph_check_value(const neap_graph *graph, uint32_t id)
{
    const neap_value *value = neap_graph_value(graph, id);
    uint32_t n_values = neap_graph_value_count(graph), count;
    FUZZ_CHECK(value->name && value->kind && value->bytes >= 0);
    FUZZ_CHECK(value->storage < n_values);
    FUZZ_CHECK((value->view_of == NEAP_NONE) == (value->storage == id));
    FUZZ_CHECK(neap_graph_value(graph, value->storage)->view_of == NEAP_NONE);
    if (value->view_of != NEAP_NONE) {
        FUZZ_CHECK(value->bytes == 0);
        FUZZ_CHECK(value->storage == neap_graph_value(graph, value->view_of)->storage);
    }
    if (value->producer != NEAP_NONE) {
        FUZZ_CHECK(value->producer < neap_graph_op_count(graph));
        const neap_op *op = neap_graph_op(graph, value->producer);
        uint32_t times = 0;
        for (uint32_t i = 0; i < op->n_outputs; i++)
            times += op->outputs[i] == id;
        FUZZ_CHECK(times == 1);
    }
    const uint32_t *readers = neap_graph_readers(graph, id, &count);
    for (uint32_t i = 0; i < count; i++) {
        FUZZ_CHECK(readers[i] < neap_graph_op_count(graph));
        FUZZ_CHECK(i == 0 || readers[i - 1] < readers[i]);
        FUZZ_CHECK(value->producer == NEAP_NONE || value->producer < readers[i]);
    }
}

static void graph_check_op(const neap_graph *graph, uint32_t id)
{
    const neap_op *op = neap_graph_op(graph, id);
    FUZZ_CHECK(op->name && op->type && op->n_variants >= 1);
    for (uint32_t i = 0; i < op->n_inputs; i++)
        FUZZ_CHECK(op->inputs[i] < neap_graph_value_count(graph));
    for (uint32_t i = 0; i < op->n_outputs; i++)
        FUZZ_CHECK(neap_graph_value(graph, op->outputs[i])->producer == id);
    for (uint32_t k = 0; k < op->n_variants; k++) {
        FUZZ_CHECK(op->variants[k].seconds >= 0 && op->variants[k].ticks >= 0);
        FUZZ_CHECK(op->variants[k].workspace >= 0);
    }
}

static void graph_check_whole(const neap_graph *graph)
{
    uint32_t n_ops = neap_graph_op_count(graph), n_values = neap_graph_value_count(graph), n;
    for (uint32_t v = 0; v < n_values; v++)
        graph_check_value(graph, v);
    for (uint32_t o = 0; o < n_ops; o++)
        graph_check_op(graph, o);
    const uint32_t *outputs = neap_graph_outputs(graph, &n);
    for (uint32_t i = 0; i < n; i++)
        FUZZ_CHECK(outputs[i] < n_values && neap_graph_is_output(graph, outputs[i]));
    FUZZ_CHECK(neap_graph_fixed_bytes(graph) >= 0);
    FUZZ_CHECK(neap_graph_base_bytes(graph) >= neap_graph_fixed_bytes(graph));
    FUZZ_CHECK(neap_graph_floor_bytes(graph, &n) >= neap_graph_base_bytes(graph));
    FUZZ_CHECK(n == NEAP_NONE || n < n_ops);
    FUZZ_CHECK(neap_graph_least_ticks(graph) >= 0);
    FUZZ_CHECK(neap_graph_base_ticks(graph) >= neap_graph_least_ticks(graph));
    FUZZ_CHECK(neap_graph_base_ticks(graph) <= 1000000000000000 + (int64_t)n_ops);
}

/* What is written reads back, and is then written the same. */
static void graph_check_round_trip(const neap_graph *graph)
{
    char *first, *second;
    size_t first_length, second_length;
    neap_graph *again;
    neap_diag diag = {0};
    FUZZ_CHECK(neap_graph_write_text(graph, NULL, &first, &first_length, &diag) == NEAP_OK);
    FUZZ_CHECK(neap_graph_read_text(NULL, first, first_length, "again", &again, &diag) == NEAP_OK);
    FUZZ_CHECK(neap_graph_op_count(again) == neap_graph_op_count(graph));
    FUZZ_CHECK(neap_graph_value_count(again) == neap_graph_value_count(graph));
    FUZZ_CHECK(neap_graph_base_ticks(again) == neap_graph_base_ticks(graph));
    FUZZ_CHECK(neap_graph_floor_bytes(again, NULL) == neap_graph_floor_bytes(graph, NULL));
    FUZZ_CHECK(neap_graph_write_text(again, NULL, &second, &second_length, &diag) == NEAP_OK);
    FUZZ_CHECK(first_length == second_length && memcmp(first, second, first_length) == 0);
    neap_graph_destroy(again);
    neap_release(NULL, first, first_length + 1);
    neap_release(NULL, second, second_length + 1);
}

static void graph_check_method(const neap_graph *graph, const char *method, int64_t budget)
{
    neap_request request;
    neap_solution *solution;
    neap_diag diag = {0};
    neap_request_init(&request, graph, method);
    request.link = method_link(method);
    request.budget = budget;
    search_least(&request);
    neap_status status = neap_solve(NULL, &request, &solution, &diag);
    if (status == NEAP_UNSUPPORTED) { /* revolve and the like want a chain of equal steps */
        fuzz_check_line(diag.message);
        return;
    }
    FUZZ_CHECK(status == NEAP_OK);
    const neap_figures *f = neap_solution_figures(solution);
    FUZZ_CHECK((f->outcome == NEAP_INFEASIBLE) == (neap_solution_plan(solution) == NULL));
    FUZZ_CHECK(f->floor_bytes == neap_graph_floor_bytes(graph, NULL));
    if (f->outcome == NEAP_INFEASIBLE) {
        FUZZ_CHECK(f->least_budget < 0 || f->least_budget > budget);
        fuzz_check_line(neap_solution_message(solution));
    } else {
        FUZZ_CHECK(f->peak_bytes >= f->floor_bytes);
        FUZZ_CHECK(budget < 0 || f->peak_bytes <= budget);
        FUZZ_CHECK(f->time >= f->bound_time);
    }
    neap_solution_destroy(solution);
}

static void graph_check_planning(const neap_graph *graph)
{
    int64_t peak = -1, floor_bytes = neap_graph_floor_bytes(graph, NULL);
    neap_chain chain;
    neap_diag diag = {0};
    FUZZ_CHECK(neap_natural_peak(NULL, graph, &peak, &diag) == NEAP_OK);
    FUZZ_CHECK(peak >= floor_bytes);
    FUZZ_CHECK(neap_chain_build(NULL, graph, &chain, &diag) == NEAP_OK);
    for (uint32_t i = 0, op = 0; i < chain.n_stages; op = chain.stages[i++].end_op) {
        FUZZ_CHECK(chain.stages[i].first_op == op && chain.stages[i].end_op > op);
        FUZZ_CHECK((chain.stages[i].n_cuts == 0) == (i + 1 == chain.n_stages));
    }
    neap_chain_clear(&chain);
    FUZZ_CHECK(neap_chain_build_fine(NULL, graph, 0, &chain, &diag) == NEAP_OK);
    for (uint32_t i = 0, op = 0; i < chain.n_stages; op = chain.stages[i++].end_op)
        FUZZ_CHECK(chain.stages[i].first_op == op && chain.stages[i].end_op > op);
    neap_chain_clear(&chain);
    for (uint32_t m = 0; m < neap_methods_count(); m++) {
        const char *method = neap_method_name(neap_methods_at(m));
        graph_check_method(graph, method, -1);
        if (floor_bytes > 0)
            graph_check_method(graph, method, floor_bytes);
        if (floor_bytes > 1)
            graph_check_method(graph, method, floor_bytes - 1);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    neap_graph *graph;
    neap_diag diag = {0};
    neap_status status =
        neap_graph_read_text(NULL, (const char *)data, size, "fuzz.json", &graph, &diag);
    if (status != NEAP_OK) {
        FUZZ_CHECK(graph == NULL);
        fuzz_check_refusal(status, &diag, "fuzz.json:");
        return 0;
    }
    graph_check_whole(graph);
    graph_check_round_trip(graph);
    if (neap_graph_op_count(graph) <= GRAPH_PLANNED_OPS)
        graph_check_planning(graph);
    neap_graph_destroy(graph);
    return 0;
}
