/* graph.c - neap graph: a network as a training graph, described or written to a file. */

#include "command.h"
#include "files.h"
#include "json.h"
#include "load.h"
#include "memory.h"
#include "output.h"
#include "report.h"

#include <neap/chain.h>
#include <neap/graph.h>
#include <neap/network.h>
#include <string.h>

/* Values of one kind, their storages counted once. */
typedef struct kind_count {
    const char *kind;
    uint32_t values;
    int64_t bytes;
} kind_count;

typedef struct summary {
    const cli_loaded *model;
    uint32_t n_ops, n_values;
    uint32_t n_forward; /* ops of the forward pass */
    uint32_t n_kinds, kind_capacity;
    kind_count *kinds; /* in the order they appear */
    bool knows_macs;   /* of every forward op that multiplies */
    int64_t forward_macs;
    uint32_t largest_op; /* whose inputs, outputs and workspace take most; NEAP_NONE: no ops */
    int64_t largest_bytes;
    uint32_t n_stages;
    double base_time;
} summary;

/* ---- Counting ---- */

/* Values are many and kinds few: a linear search over those seen. */
static bool count_kinds(summary *s)
{
    const neap_graph *graph = s->model->graph;
    s->kind_capacity = s->n_values;
    s->kinds = s->n_values ? cli_memory_new(s->n_values, sizeof *s->kinds) : NULL;
    if (s->n_values && !s->kinds)
        return false;
    for (uint32_t i = 0; i < s->n_values; i++) {
        const neap_value *value = neap_graph_value(graph, i);
        uint32_t k = 0;
        while (k < s->n_kinds && strcmp(s->kinds[k].kind, value->kind) != 0)
            k++;
        if (k == s->n_kinds)
            s->kinds[s->n_kinds++].kind = value->kind;
        s->kinds[k].values++;
        s->kinds[k].bytes += value->bytes;
    }
    return true;
}

/* Bytes of the storages that an op touches, each once. */
static int64_t op_storages(const neap_graph *graph, const neap_op *op)
{
    int64_t bytes = 0;
    uint32_t count = op->n_inputs + op->n_outputs;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t id = i < op->n_inputs ? op->inputs[i] : op->outputs[i - op->n_inputs];
        uint32_t storage = neap_graph_value(graph, id)->storage;
        bool seen = false;
        for (uint32_t j = 0; j < i && !seen; j++) {
            uint32_t before = j < op->n_inputs ? op->inputs[j] : op->outputs[j - op->n_inputs];
            seen = neap_graph_value(graph, before)->storage == storage;
        }
        if (!seen)
            bytes += neap_graph_value(graph, storage)->bytes;
    }
    return bytes;
}

static void count_ops(summary *s)
{
    const neap_graph *graph = s->model->graph;
    s->largest_op = NEAP_NONE;
    s->largest_bytes = -1;
    for (uint32_t i = 0; i < s->n_ops; i++) {
        const neap_op *op = neap_graph_op(graph, i);
        int64_t bytes = op_storages(graph, op) + op->variants[0].workspace;
        if (bytes > s->largest_bytes) {
            s->largest_op = i;
            s->largest_bytes = bytes;
        }
        if (op->pass != NEAP_FORWARD)
            continue;
        s->n_forward++;
        neap_op_count work = neap_op_count_work(graph, i);
        s->knows_macs = s->knows_macs || work.known;
        s->forward_macs += work.known ? work.macs : 0;
    }
}

static int summarize(cli_loaded *model, summary *s)
{
    const neap_graph *graph = model->graph;
    *s = (summary){.model = model};
    s->n_ops = neap_graph_op_count(graph);
    s->n_values = neap_graph_value_count(graph);
    s->base_time = neap_graph_seconds(graph, neap_graph_base_ticks(graph));
    int code = cli_load_natural_peak(model);
    if (code != CLI_OK)
        return code;
    if (!count_kinds(s))
        return cli_fail_memory();
    count_ops(s);
    neap_diag diag;
    neap_chain chain;
    if (neap_chain_build(NULL, graph, &chain, &diag) != NEAP_OK)
        return cli_fail_diag(&diag);
    s->n_stages = chain.n_stages;
    neap_chain_clear(&chain);
    return CLI_OK;
}

/* ---- Showing ---- */

static void add_sizes(const summary *s, cli_table *table)
{
    cli_text text;
    double parameters = (double)neap_graph_parameter_count(s->model->graph);
    cli_fact(table, "ops", CLI_PLAIN, cli_format(&text, "%u", s->n_ops), "%u forward, %u backward",
             s->n_forward, s->n_ops - s->n_forward);
    cli_fact(table, "stages", CLI_PLAIN, cli_format(&text, "%u", s->n_stages),
             "of the forward part, seen as a chain");
    if (parameters > 0)
        cli_fact(table, "parameters", CLI_PLAIN, cli_format(&text, "%.2f M", 1e-6 * parameters),
                 "%s", "");
    if (s->knows_macs)
        cli_fact(table, "forward work", CLI_PLAIN,
                 cli_format(&text, "%.2f GMAC", 1e-9 * (double)s->forward_macs),
                 "multiply-accumulates of the whole batch");
}

static void add_costs(const summary *s, cli_table *table)
{
    const neap_graph *graph = s->model->graph;
    cli_text text;
    cli_fact(table, "base time", CLI_PLAIN, cli_seconds(&text, s->base_time), "every op once, %s",
             s->model->device ? "as modelled" : "by the file's times");
    cli_fact(table, "base memory", CLI_PLAIN, cli_bytes(&text, neap_graph_base_bytes(graph)),
             "inputs, parameters and fixed memory");
    cli_fact(table, "natural peak", CLI_BOLD, cli_bytes(&text, s->model->natural_peak),
             "what training takes without a plan");
    if (s->largest_op != NEAP_NONE)
        cli_fact(table, "largest op", CLI_PLAIN, cli_bytes(&text, s->largest_bytes),
                 "%s, with its inputs, outputs and workspace",
                 neap_graph_op(graph, s->largest_op)->name);
}

static void add_summary(const summary *s, neap_text *out)
{
    static const cli_column KINDS[] = {{"values", false}, {"count", true}, {"bytes", true}};
    cli_table table;
    cli_report_title(out, s->model);
    neap_text_puts(out, "\n");
    cli_facts_init(&table);
    add_sizes(s, &table);
    add_costs(s, &table);
    cli_table_finish(&table, out);
    neap_text_puts(out, "\n");
    cli_table_init(&table, KINDS, 3, 2);
    for (uint32_t i = 0; i < s->n_kinds; i++) {
        cli_text text;
        cli_cell(&table, CLI_PLAIN, "%s", s->kinds[i].kind);
        cli_cell(&table, CLI_PLAIN, "%u", s->kinds[i].values);
        cli_cell(&table, CLI_PLAIN, "%s", cli_bytes(&text, s->kinds[i].bytes));
    }
    cli_table_finish(&table, out);
}

static void add_json(const summary *s, neap_text *out)
{
    const neap_graph *graph = s->model->graph;
    cli_json json;
    cli_json_begin(&json, out);
    cli_json_object(&json, NULL);
    cli_json_string(&json, "graph", neap_graph_name(graph));
    cli_json_string(&json, "device", s->model->device ? s->model->device->name : NULL);
    cli_json_integer(&json, "ops", s->n_ops);
    cli_json_integer(&json, "forward_ops", s->n_forward);
    cli_json_integer(&json, "values", s->n_values);
    cli_json_integer(&json, "stages", s->n_stages);
    cli_json_integer(&json, "parameters", neap_graph_parameter_count(graph));
    cli_json_size(&json, "forward_macs", s->knows_macs ? s->forward_macs : -1);
    cli_json_real(&json, "base_time", s->base_time);
    cli_json_integer(&json, "fixed_bytes", neap_graph_fixed_bytes(graph));
    cli_json_integer(&json, "base_bytes", neap_graph_base_bytes(graph));
    cli_json_integer(&json, "natural_peak_bytes", s->model->natural_peak);
    bool has_ops = s->largest_op != NEAP_NONE;
    cli_json_string(&json, "largest_op",
                    has_ops ? neap_graph_op(graph, s->largest_op)->name : NULL);
    cli_json_size(&json, "largest_op_bytes", s->largest_bytes);
    cli_json_object(&json, "kinds");
    for (uint32_t i = 0; i < s->n_kinds; i++) {
        cli_json_object(&json, s->kinds[i].kind);
        cli_json_integer(&json, "values", s->kinds[i].values);
        cli_json_integer(&json, "bytes", s->kinds[i].bytes);
        cli_json_end_object(&json);
    }
    cli_json_end_object(&json);
    cli_json_end_object(&json);
}

/* ---- The command ---- */

static int run_graph(const cli_settings *settings, neap_text *out)
{
    if (cli_is_stdout(settings->output) && settings->json)
        return cli_fail(CLI_BAD_INPUT, "-o - puts the graph on standard output; leave out --json, "
                                       "or write the graph to a file");
    cli_loaded model = {0};
    summary s = {0};
    int code = cli_load(settings, settings->operands[0], &model);
    if (code == CLI_OK && settings->output)
        code = cli_graph_deliver(settings->output, model.graph, out);
    if (code == CLI_OK && (!settings->output || settings->json)) {
        code = summarize(&model, &s);
        if (code == CLI_OK && settings->json)
            add_json(&s, out);
        else if (code == CLI_OK)
            add_summary(&s, out);
    }
    cli_memory_release(s.kinds, s.kind_capacity, sizeof *s.kinds);
    cli_loaded_clear(&model);
    return code;
}

const cli_command cli_command_graph = {
    .name = "graph",
    .operands = "MODEL",
    .summary = "describe a training graph, or write it to a file",
    .about =
        "Builds the training graph of a built-in network, forward and backward, with the time each "
        "op "
        "takes on a device; or reads one from a file. Without -o a summary is printed: how large "
        "it is, where its bytes are, and what training needs without a plan (percentages of "
        "--budget refer to that). With -o the graph is written as JSON, which every command takes "
        "as MODEL and which other programs may read and change.",
    .examples =
        {
            {"neap graph resnet50 --batch 64", "what it takes to train"},
            {"neap graph gpt2 --dtype bf16 --device a100 -o gpt2.json", "a file with A100 times"},
            {"neap graph measured.json --json", "a graph of your own, summarized for a script"},
        },
    .groups = CLI_GROUPS_MODEL | CLI_GROUP_GRAPH_OUT | CLI_GROUP_JSON,
    .least_operands = 1,
    .most_operands = 1,
    .run = run_graph,
};
