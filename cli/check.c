/* check.c - neap check: the judge's verdict on a plan. */

#include "command.h"
#include "csv.h"
#include "files.h"
#include "json.h"
#include "load.h"
#include "output.h"
#include "parts.h"

#include <inttypes.h>
#include <neap/check.h>
#include <string.h>

typedef struct judgement {
    const cli_settings *settings;
    const char *graph_path, *plan_path;
    cli_loaded model;
    neap_plan *plan;
    int64_t budget; /* the budget of the verdict; -1: none */
    neap_verdict verdict;
    neap_memory_parts parts; /* of the peak, if accepted */
} judgement;

/* ---- Judging ---- */

static int read_plan(judgement *j)
{
    neap_diag diag;
    if (neap_plan_read_file(NULL, j->plan_path, &j->plan, &diag) != NEAP_OK)
        return cli_fail_diag(&diag);
    const char *made_for = neap_plan_graph_name(j->plan);
    const char *graph = neap_graph_name(j->model.graph);
    if (j->settings->any_graph || strcmp(made_for, graph) == 0)
        return CLI_OK;
    return cli_fail(CLI_BAD_INPUT,
                    "%s: is a plan for the graph \"%s\", not for \"%s\"; give that graph, or "
                    "--any-graph to judge it anyway",
                    j->plan_path, made_for, graph);
}

static int judge(judgement *j)
{
    neap_check_options options;
    neap_check_options_init(&options);
    if (j->budget < 0)
        j->budget = neap_plan_budget(j->plan);
    options.budget = j->budget < 0 ? INT64_MAX : j->budget;
    if (j->model.link.out_bandwidth > 0)
        options.link = &j->model.link;
    neap_diag diag;
    if (neap_check(NULL, j->model.graph, j->plan, &options, &j->verdict, &diag) != NEAP_OK)
        return cli_fail_diag(&diag);
    return CLI_OK;
}

/* ---- The report ---- */

static double base_time(const judgement *j)
{
    return neap_graph_seconds(j->model.graph, neap_graph_base_ticks(j->model.graph));
}

/* Overhead over one run of every op; 0 if nothing takes time. */
static double overhead(const judgement *j)
{
    double base = base_time(j);
    return base > 0 ? j->verdict.time / base - 1 : 0;
}

/* "compute "conv1" (step 12)" */
static void describe_step(const judgement *j, size_t index, neap_text *text)
{
    if (index >= neap_plan_step_count(j->plan))
        return;
    neap_step step = neap_plan_steps(j->plan)[index];
    const neap_graph *graph = j->model.graph;
    const char *name = "?";
    if (step.kind == NEAP_COMPUTE && step.id < neap_graph_op_count(graph))
        name = neap_graph_op(graph, step.id)->name;
    else if (step.kind != NEAP_COMPUTE && step.id < neap_graph_value_count(graph))
        name = neap_graph_value(graph, step.id)->name;
    neap_text_printf(text, "at step %zu, %s \"%s\"", index, neap_step_kind_name(step.kind), name);
}

static void add_figures(const judgement *j, cli_table *table)
{
    const neap_verdict *v = &j->verdict;
    cli_text text, percent, other;
    neap_text step = {0};
    describe_step(j, v->peak_step, &step);
    cli_fact(table, "budget", CLI_PLAIN, j->budget < 0 ? "none" : cli_bytes(&text, j->budget), "%s",
             j->settings->budget ? "" : "the plan's own");
    cli_fact(table, "peak", CLI_BOLD, cli_bytes(&text, v->peak_bytes), "%s", neap_text_get(&step));
    step.length = 0;
    cli_parts_list(&step, &j->parts);
    cli_fact(table, "made of", CLI_PLAIN, "", "%s", neap_text_get(&step));
    neap_text_clear(&step);
    if (v->has_arena)
        cli_fact(table, "arena", CLI_PLAIN, cli_bytes(&text, v->arena_bytes),
                 "no two live tensors overlap");
    else
        cli_fact(table, "arena", CLI_PLAIN, "none", "the plan has no addresses");
    cli_fact(table, "time", CLI_PLAIN, cli_seconds(&text, v->time), "%s over %s for every op once",
             cli_percent(&percent, overhead(j)), cli_seconds(&other, base_time(j)));
    cli_fact(table, "recomputed", CLI_PLAIN, cli_format(&text, "%" PRIu64, v->recomputed_ops),
             "beside %u ops, in %zu steps", neap_graph_op_count(j->model.graph),
             neap_plan_step_count(j->plan));
    if (v->offloaded_bytes > 0)
        cli_fact(table, "moved", CLI_PLAIN, cli_bytes(&text, v->offloaded_bytes),
                 "to the host, which holds %s at most", cli_bytes(&other, v->host_bytes));
}

static void add_verdict(const judgement *j, neap_text *out)
{
    cli_styled(out, CLI_GOOD, "accepted");
    cli_styled(out, CLI_PLAIN, ": %s (%s) runs %s", j->plan_path, neap_plan_method(j->plan),
               neap_graph_name(j->model.graph));
    neap_text_puts(out, "\n");
    cli_table table;
    cli_facts_init(&table);
    add_figures(j, &table);
    cli_table_finish(&table, out);
}

static void add_json(const judgement *j, neap_text *out)
{
    const neap_verdict *v = &j->verdict;
    cli_json json;
    cli_json_begin(&json, out);
    cli_json_object(&json, NULL);
    cli_json_string(&json, "graph", neap_graph_name(j->model.graph));
    cli_json_string(&json, "method", neap_plan_method(j->plan));
    cli_json_bool(&json, "accepted", v->accepted);
    cli_json_string(&json, "reason", v->accepted ? NULL : v->reason);
    cli_json_size(&json, "step", v->accepted || v->step == SIZE_MAX ? -1 : (int64_t)v->step);
    cli_json_size(&json, "budget_bytes", j->budget);
    cli_json_integer(&json, "peak_bytes", v->peak_bytes);
    if (v->accepted)
        cli_parts_json(&json, "peak_parts", &j->parts);
    cli_json_size(&json, "peak_step", v->peak_step == SIZE_MAX ? -1 : (int64_t)v->peak_step);
    cli_json_size(&json, "arena_bytes", v->has_arena ? v->arena_bytes : -1);
    cli_json_real(&json, "time", v->time);
    cli_json_real(&json, "base_time", base_time(j));
    cli_json_real(&json, "overhead", overhead(j));
    cli_json_integer(&json, "recomputed_ops", (int64_t)v->recomputed_ops);
    cli_json_integer(&json, "offloaded_bytes", v->offloaded_bytes);
    cli_json_integer(&json, "host_bytes", v->host_bytes);
    cli_json_end_object(&json);
}

/* The verdict as one row. */
static int write_csv(const judgement *j, neap_text *out)
{
    const neap_verdict *v = &j->verdict;
    cli_csv csv;
    cli_csv_begin(&csv, "graph,method,accepted,reason,step,budget_bytes,peak_bytes,peak_step,"
                        "arena_bytes,time,base_time,overhead,recomputed_ops,offloaded_bytes,"
                        "host_bytes");
    cli_csv_string(&csv, neap_graph_name(j->model.graph));
    cli_csv_string(&csv, neap_plan_method(j->plan));
    cli_csv_bool(&csv, v->accepted);
    cli_csv_string(&csv, v->accepted ? NULL : v->reason);
    cli_csv_size(&csv, v->accepted || v->step == SIZE_MAX ? -1 : (int64_t)v->step);
    cli_csv_size(&csv, j->budget);
    cli_csv_integer(&csv, v->peak_bytes);
    cli_csv_size(&csv, v->peak_step == SIZE_MAX ? -1 : (int64_t)v->peak_step);
    cli_csv_size(&csv, v->has_arena ? v->arena_bytes : -1);
    cli_csv_real(&csv, v->time);
    cli_csv_real(&csv, base_time(j));
    cli_csv_real(&csv, overhead(j));
    cli_csv_integer(&csv, (int64_t)v->recomputed_ops);
    cli_csv_integer(&csv, v->offloaded_bytes);
    cli_csv_integer(&csv, v->host_bytes);
    cli_csv_end_row(&csv);
    return cli_csv_deliver(&csv, j->settings->csv, out);
}

/* Whether the plan is rejected because no link is given. */
static bool lacks_link(const judgement *j)
{
    size_t index = j->verdict.step;
    if (j->settings->link || index >= neap_plan_step_count(j->plan))
        return false;
    neap_step_kind kind = neap_plan_steps(j->plan)[index].kind;
    return kind == NEAP_OFFLOAD || kind == NEAP_PREFETCH;
}

static int show(const judgement *j, neap_text *out)
{
    int code = j->settings->csv ? write_csv(j, out) : CLI_OK;
    if (code != CLI_OK)
        return code;
    if (j->settings->json)
        add_json(j, out);
    else if (j->verdict.accepted && !cli_stdout_taken(j->settings))
        add_verdict(j, out);
    if (j->verdict.accepted)
        return CLI_OK;
    return cli_fail(CLI_BAD_INPUT, "%s: rejected: %s%s", j->plan_path, j->verdict.reason,
                    lacks_link(j) ? " (--link 12.2GB/s)" : "");
}

/* ---- The command ---- */

static int run_check(const cli_settings *settings, neap_text *out)
{
    judgement j = {.settings = settings,
                   .graph_path = settings->operands[0],
                   .plan_path = settings->operands[1],
                   .budget = -1};
    if (strcmp(j.graph_path, "-") == 0 && strcmp(j.plan_path, "-") == 0)
        return cli_fail(CLI_BAD_INPUT, "graph and plan cannot both come from standard input");
    int code = cli_load(settings, j.graph_path, &j.model);
    if (code == CLI_OK)
        code = read_plan(&j);
    if (code == CLI_OK)
        code = cli_load_budget(&j.model, "budget", settings->budget, &j.budget);
    if (code == CLI_OK)
        code = judge(&j);
    if (code == CLI_OK && j.verdict.accepted)
        code = cli_parts_find(j.model.graph, j.plan, &j.parts);
    if (code == CLI_OK)
        code = show(&j, out);
    neap_plan_destroy(j.plan);
    cli_loaded_clear(&j.model);
    return code;
}

const cli_command cli_command_check = {
    .name = "check",
    .operands = "GRAPH PLAN",
    .summary = "judge a plan: is it right, and what does it cost?",
    .about = "Replays a plan step by step against its graph. Every input must be in memory when it "
             "is read, every output must be there at the end, no two live tensors may share an "
             "address, and memory may never exceed the budget (--budget, or else the plan's own). "
             "The judge is independent of the planners, so plans from other programs are welcome. "
             "If the plan is rejected, the exit status is 2 and the message gives the reason.\n\n"
             "GRAPH is a graph file, or a built-in model with the same options that the plan was "
             "made with.",
    .examples =
        {
            {"neap check graph.json plan.json", "the verdict, with peak, arena and time"},
            {"neap check resnet50 plan.json --batch 64 --budget 5GiB",
             "a plan for a built-in model, against a budget of your own"},
            {"neap plan graph.json --budget 8GiB -o - | neap check graph.json - --json",
             "in a pipe, for a script"},
        },
    .groups = CLI_GROUPS_MODEL | CLI_GROUP_LINK | CLI_GROUP_BUDGET | CLI_GROUP_ANY_GRAPH |
              CLI_GROUP_CSV | CLI_GROUP_JSON,
    .least_operands = 2,
    .most_operands = 2,
    .run = run_check,
};
