/* explain_json.c - an explanation for programs. */

#include "explanation.h"

#include "parts.h"
#include "report.h"

static void add_name(cli_json *json, const char *key, const neap_layers *layers, uint32_t layer)
{
    size_t length;
    const char *characters = neap_layers_name(layers, layer, &length);
    neap_text name = {0};
    neap_text_append(&name, characters, length);
    cli_json_string(json, key, neap_text_get(&name));
    if (name.status != NEAP_OK)
        json->out->status = name.status;
    neap_text_clear(&name);
}

static void add_op(cli_json *json, const char *key, const neap_graph *graph, uint32_t op)
{
    cli_json_string(json, key, op == NEAP_NONE ? NULL : neap_graph_op(graph, op)->name);
}

static void add_overhead(cli_json *json, bool known, double overhead)
{
    if (known)
        cli_json_real(json, "overhead", overhead);
    else
        cli_json_null(json, "overhead");
}

static void add_peak(cli_json *json, const explanation *e)
{
    const neap_graph *graph = e->model.graph;
    cli_json_object(json, "natural_peak");
    cli_json_integer(json, "bytes", e->model.natural_peak);
    add_op(json, "op", graph, e->peak.op);
    cli_parts_json(json, "parts", &e->peak.parts);
    cli_json_array(json, "tensors");
    for (uint32_t i = 0; i < e->peak.n_tensors; i++) {
        const neap_value *value = neap_graph_value(graph, e->peak.tensors[i]);
        cli_json_object(json, NULL);
        cli_json_string(json, "name", value->name);
        cli_json_string(json, "kind", value->kind);
        cli_json_integer(json, "bytes", value->bytes);
        cli_json_end_object(json);
    }
    cli_json_end_array(json);
    cli_json_array(json, "layers");
    for (uint32_t i = 0; i < e->peak.layers.count; i++) {
        cli_json_object(json, NULL);
        add_name(json, "name", e->layers, e->peak.layers.items[i].layer);
        cli_json_integer(json, "bytes", e->peak.layers.items[i].amount);
        cli_json_end_object(json);
    }
    cli_json_end_array(json);
    cli_json_end_object(json);
}

static void add_kernels(cli_json *json, const explain_kernels *kernels)
{
    if (kernels->choices == 0) {
        cli_json_null(json, "least_workspace_kernels");
        return;
    }
    cli_json_object(json, "least_workspace_kernels");
    cli_json_integer(json, "ops_with_a_choice", kernels->choices);
    cli_json_integer(json, "natural_peak_bytes", kernels->peak);
    cli_json_real(json, "overhead", kernels->overhead);
    cli_json_end_object(json);
}

static void add_recomputation(cli_json *json, const explanation *e)
{
    const neap_graph *graph = e->model.graph;
    if (!e->result.plan) {
        cli_json_null(json, "recomputation");
        return;
    }
    cli_json_object(json, "recomputation");
    cli_json_real(json, "seconds", neap_graph_seconds(graph, e->plan.recompute_ticks));
    cli_json_array(json, "layers");
    for (uint32_t i = 0; i < e->plan.layers.count; i++) {
        cli_json_object(json, NULL);
        add_name(json, "name", e->layers, e->plan.layers.items[i].layer);
        cli_json_real(json, "seconds", neap_graph_seconds(graph, e->plan.layers.items[i].amount));
        cli_json_end_object(json);
    }
    cli_json_end_array(json);
    cli_json_integer(json, "runs_in_place", (int64_t)e->plan.in_place);
    cli_json_integer(json, "other_kernels", e->plan.other_kernels);
    cli_json_integer(json, "state_on_host_bytes", e->plan.host_state);
    cli_json_end_object(json);
}

static void add_point(cli_json *json, const char *key, const explain_point *point)
{
    cli_json_object(json, key);
    cli_json_integer(json, "budget_bytes", point->budget);
    add_overhead(json, point->feasible, point->overhead);
    cli_json_end_object(json);
}

static void add_curve(cli_json *json, const explain_curve *curve)
{
    cli_json_array(json, "curve");
    for (uint32_t i = 0; i < curve->count; i++)
        add_point(json, NULL, &curve->points[i]);
    cli_json_end_array(json);
    if (curve->count > 0 && curve->knee >= 0)
        add_point(json, "knee", &curve->points[curve->knee]);
    else
        cli_json_null(json, "knee");
}

static void add_change(cli_json *json, const explanation *e, const explain_change *change)
{
    cli_json_object(json, NULL);
    cli_json_string(json, "option", *change->option.chars ? change->option.chars : NULL);
    cli_json_bool(json, "tried", change->state == EXPLAIN_TRIED);
    cli_json_bool(json, "helps", explain_helps(e, change));
    add_overhead(json, change->feasible, change->overhead);
    cli_json_size(json, "peak_bytes", change->feasible ? change->peak : -1);
    cli_json_size(json, "offloaded_bytes", change->feasible ? change->moved : -1);
    cli_json_size(json, "state_on_host_bytes", change->feasible ? change->host_state : -1);
    cli_json_end_object(json);
}

void explain_add_json(const explanation *e, neap_text *out)
{
    cli_json json;
    cli_json_begin(&json, out);
    cli_json_object(&json, NULL);
    cli_json_string(&json, "graph", neap_graph_name(e->model.graph));
    cli_json_string(&json, "device", e->model.device ? e->model.device->name : NULL);
    cli_json_string(&json, "method", e->method);
    cli_json_size(&json, "budget_bytes", e->budget);
    cli_json_real(&json, "base_time", e->base_time);
    add_peak(&json, e);
    add_kernels(&json, &e->kernels);
    if (e->result.method)
        cli_report_json(&json, "plan", &e->model, &e->result, NULL);
    else
        cli_json_null(&json, "plan");
    if (e->least.plan)
        cli_report_json(&json, "least_peak_plan", &e->model, &e->least, NULL);
    else
        cli_json_null(&json, "least_peak_plan");
    add_recomputation(&json, e);
    add_curve(&json, &e->curve);
    cli_json_array(&json, "changes");
    for (int i = 0; i < EXPLAIN_CHANGES; i++)
        if (e->changes[i].state != EXPLAIN_NOT_APPLICABLE)
            add_change(&json, e, &e->changes[i]);
    cli_json_end_array(&json);
    cli_json_bool(&json, "interrupted", e->stopped);
    cli_json_end_object(&json);
}
