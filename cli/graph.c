/* graph.c - neap graph: a network as a training graph, described or written to a file. */

#include "command.h"
#include "csv.h"
#include "files.h"
#include "json.h"
#include "load.h"
#include "memory.h"
#include "output.h"
#include "peak_ops.h"
#include "report.h"

#include <neap/chain.h>
#include <neap/graph.h>
#include <neap/network.h>
#include <stdlib.h>
#include <string.h>

/* Values of one kind, their storages counted once. */
typedef struct kind_count {
    const char *kind;
    uint32_t first; /* of its values */
    uint32_t values;
    int64_t bytes;
} kind_count;

typedef struct summary {
    const cli_loaded *model;
    uint32_t n_ops, n_values;
    uint32_t n_forward; /* ops of the forward pass */
    uint32_t n_kinds;
    kind_count *kinds; /* n_values of them allocated; in the order they appear */
    bool knows_macs;   /* of every forward op that multiplies */
    int64_t forward_macs;
    uint32_t largest_op; /* whose inputs, outputs and workspace take most; NEAP_NONE: no ops */
    int64_t largest_bytes;
    uint32_t n_stages, n_fine_stages; /* of the two chain views */
    double base_time;
    cli_peak_ops peak; /* what is in memory when the natural peak is reached */
} summary;

/* ---- Counting ---- */

static int by_kind(const void *a, const void *b)
{
    const kind_count *left = a, *right = b;
    int order = strcmp(left->kind, right->kind);
    return order != 0 ? order : left->first < right->first ? -1 : left->first > right->first;
}

static int by_first_value(const void *a, const void *b)
{
    const kind_count *left = a, *right = b;
    return left->first < right->first ? -1 : left->first > right->first;
}

static bool count_kinds(summary *s)
{
    if (s->n_values == 0)
        return true;
    kind_count *kinds = s->kinds = cli_memory_new(s->n_values, sizeof *kinds);
    if (!kinds)
        return false;
    for (uint32_t i = 0; i < s->n_values; i++) {
        const neap_value *value = neap_graph_value(s->model->graph, i);
        kinds[i] = (kind_count){value->kind, i, 1, value->bytes};
    }
    qsort(kinds, s->n_values, sizeof *kinds, by_kind);
    for (uint32_t i = 0; i < s->n_values; i++) {
        kind_count *last = s->n_kinds > 0 ? &kinds[s->n_kinds - 1] : NULL;
        if (last && strcmp(last->kind, kinds[i].kind) == 0) {
            last->values++;
            last->bytes += kinds[i].bytes;
        } else {
            kinds[s->n_kinds++] = kinds[i];
        }
    }
    qsort(kinds, s->n_kinds, sizeof *kinds, by_first_value);
    return true;
}

/* Bytes of the storages of these values, each once: `seen` holds the mark of those counted. */
static int64_t new_storages(const neap_graph *graph, const uint32_t *ids, uint32_t count,
                            uint32_t *seen, uint32_t mark)
{
    int64_t bytes = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t storage = neap_graph_value(graph, ids[i])->storage;
        if (seen[storage] != mark)
            bytes += neap_graph_value(graph, storage)->bytes;
        seen[storage] = mark;
    }
    return bytes;
}

static bool count_ops(summary *s)
{
    const neap_graph *graph = s->model->graph;
    uint32_t *seen = cli_memory_new(s->n_values, sizeof *seen); /* per storage: op + 1 */
    if (s->n_values > 0 && !seen)
        return false;
    s->largest_op = NEAP_NONE;
    s->largest_bytes = -1;
    for (uint32_t i = 0; i < s->n_ops; i++) {
        const neap_op *op = neap_graph_op(graph, i);
        int64_t bytes = op->variants[0].workspace;
        bytes += new_storages(graph, op->inputs, op->n_inputs, seen, i + 1);
        bytes += new_storages(graph, op->outputs, op->n_outputs, seen, i + 1);
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
    cli_memory_release(seen, s->n_values, sizeof *seen);
    return true;
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
    if (!count_kinds(s) || !count_ops(s))
        return cli_fail_memory();
    neap_diag diag;
    neap_chain chain;
    if (cli_peak_ops_find(graph, &s->peak, &diag) != NEAP_OK)
        return cli_fail_diag(&diag);
    if (neap_chain_build(NULL, graph, &chain, &diag) != NEAP_OK)
        return cli_fail_diag(&diag);
    s->n_stages = chain.n_stages;
    neap_chain_clear(&chain);
    if (neap_chain_build_fine(NULL, graph, 0, &chain, &diag) != NEAP_OK)
        return cli_fail_diag(&diag);
    s->n_fine_stages = chain.n_stages;
    neap_chain_clear(&chain);
    return CLI_OK;
}

/* ---- Showing ---- */

/* "10.78 M"; small numbers as they are. */
static const char *show_count(cli_text *text, double count, double unit, const char *word)
{
    return count < unit / 100 ? cli_format(text, "%.0f", count)
                              : cli_format(text, "%.2f %s", count / unit, word);
}

static void add_sizes(const summary *s, cli_table *table)
{
    cli_text text;
    double parameters = (double)neap_graph_parameter_count(s->model->graph);
    cli_fact(table, "ops", CLI_PLAIN, cli_format(&text, "%u", s->n_ops), "%u forward, %u backward",
             s->n_forward, s->n_ops - s->n_forward);
    if (s->n_fine_stages > s->n_stages)
        cli_fact(table, "stages", CLI_PLAIN, cli_format(&text, "%u", s->n_stages),
                 "of the forward part, seen as a chain; %u if cut at sets of tensors",
                 s->n_fine_stages);
    else
        cli_fact(table, "stages", CLI_PLAIN, cli_format(&text, "%u", s->n_stages),
                 "of the forward part, seen as a chain");
    if (parameters > 0)
        cli_fact(table, "parameters", CLI_PLAIN, show_count(&text, parameters, 1e6, "M"), "%s", "");
    if (s->knows_macs)
        cli_fact(table, "forward work", CLI_PLAIN,
                 show_count(&text, (double)s->forward_macs, 1e9, "GMAC"),
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
    uint32_t op;
    int64_t least = neap_graph_floor_bytes(graph, &op);
    cli_fact(table, "floor", CLI_PLAIN, cli_bytes(&text, least),
             "proven: no plan takes less (%s%s)", op == NEAP_NONE ? "" : "op ",
             op == NEAP_NONE ? "the outputs" : neap_graph_op(graph, op)->name);
    if (s->largest_op != NEAP_NONE)
        cli_fact(table, "largest op", CLI_PLAIN, cli_bytes(&text, s->largest_bytes),
                 "%s, with its inputs, outputs and workspace",
                 neap_graph_op(graph, s->largest_op)->name);
}

/* The ops whose results make up most of the natural peak. */
static void add_peak(const summary *s, neap_text *out)
{
    static const cli_column OPS[] = {{"most at the peak", false, false}, {"bytes", true, false}};
    cli_table table;
    if (s->peak.count == 0)
        return;
    neap_text_puts(out, "\n");
    cli_table_init(&table, OPS, 2, 2);
    for (uint32_t i = 0; i < s->peak.count; i++) {
        cli_text text;
        cli_cell(&table, CLI_PLAIN, "%s",
                 neap_graph_op(s->model->graph, s->peak.items[i].op)->name);
        cli_cell(&table, CLI_PLAIN, "%s", cli_bytes(&text, s->peak.items[i].bytes));
    }
    cli_table_finish(&table, out);
}

static void add_summary(const summary *s, neap_text *out)
{
    static const cli_column KINDS[] = {
        {"values", false, false}, {"count", true, false}, {"bytes", true, false}};
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
    add_peak(s, out);
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
    cli_json_integer(&json, "fine_stages", s->n_fine_stages);
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
    cli_json_size(&json, "floor_bytes", neap_graph_floor_bytes(graph, NULL));
    cli_json_object(&json, "kinds");
    for (uint32_t i = 0; i < s->n_kinds; i++) {
        cli_json_object(&json, s->kinds[i].kind);
        cli_json_integer(&json, "values", s->kinds[i].values);
        cli_json_integer(&json, "bytes", s->kinds[i].bytes);
        cli_json_end_object(&json);
    }
    cli_json_end_object(&json);
    cli_json_array(&json, "peak_ops");
    for (uint32_t i = 0; i < s->peak.count; i++) {
        cli_json_object(&json, NULL);
        cli_json_string(&json, "name", neap_graph_op(graph, s->peak.items[i].op)->name);
        cli_json_integer(&json, "bytes", s->peak.items[i].bytes);
        cli_json_end_object(&json);
    }
    cli_json_end_array(&json);
    cli_json_end_object(&json);
}

/* ---- Op by op ---- */

static int write_csv(const neap_graph *graph, const char *path, neap_text *out)
{
    uint32_t n_values = neap_graph_value_count(graph), n_ops = neap_graph_op_count(graph);
    uint32_t *seen = cli_memory_new(n_values, sizeof *seen); /* per storage: a mark per op */
    if (n_values > 0 && !seen)
        return cli_fail_memory();
    cli_csv csv;
    cli_csv_begin(&csv, "op,name,type,pass,time,workspace_bytes,variants,input_bytes,output_bytes,"
                        "updates");
    for (uint32_t i = 0; i < n_ops; i++) {
        const neap_op *op = neap_graph_op(graph, i);
        cli_csv_integer(&csv, i);
        cli_csv_string(&csv, op->name);
        cli_csv_string(&csv, op->type);
        cli_csv_word(&csv, op->pass == NEAP_FORWARD ? "forward" : "backward");
        cli_csv_real(&csv, op->variants[0].seconds);
        cli_csv_integer(&csv, op->variants[0].workspace);
        cli_csv_integer(&csv, op->n_variants);
        /* a view of an input adds nothing to the outputs */
        cli_csv_integer(&csv, new_storages(graph, op->inputs, op->n_inputs, seen, i + 1));
        cli_csv_integer(&csv, new_storages(graph, op->outputs, op->n_outputs, seen, i + 1));
        cli_csv_integer(&csv, op->n_updates);
        cli_csv_end_row(&csv);
    }
    cli_memory_release(seen, n_values, sizeof *seen);
    return cli_csv_deliver(&csv, path, out);
}

/* ---- The command ---- */

static int run_graph(const cli_settings *settings, neap_text *out)
{
    cli_loaded model = {0};
    summary s = {0};
    int code = cli_load(settings, settings->operands[0], &model);
    if (code == CLI_OK && settings->output)
        code = cli_graph_deliver(settings->output, model.graph, out);
    if (code == CLI_OK && settings->csv)
        code = write_csv(model.graph, settings->csv, out);
    if (code == CLI_OK && (!settings->output || settings->json) && !cli_stdout_taken(settings)) {
        code = summarize(&model, &s);
        if (code == CLI_OK && settings->json)
            add_json(&s, out);
        else if (code == CLI_OK)
            add_summary(&s, out);
    }
    cli_memory_release(s.kinds, s.n_values, sizeof *s.kinds);
    cli_loaded_clear(&model);
    return code;
}

const cli_command cli_command_graph = {
    .name = "graph",
    .operands = "MODEL",
    .summary = "describe a training graph, or write it to a file",
    .about =
        "Builds the training graph of a built-in network or of a model in an ONNX file, forward "
        "and backward, with the time that each op takes on a device, or reads a graph from a "
        "file. Without -o it prints a summary: the sizes of the graph, where its bytes are, "
        "what a step needs without a plan, which percentages of --budget refer to, and the "
        "ops whose results take most of that. With -o it writes the graph as JSON, "
        "which every command takes as MODEL and other programs can read and change. --csv lists "
        "the ops.",
    .examples =
        {
            {"neap graph resnet50 --batch 64", "what it takes to train"},
            {"neap graph gpt2 --dtype bf16 --device a100 -o gpt2.json", "a file with A100 times"},
            {"neap graph model.onnx --batch 32", "what it takes to train a model of your own"},
            {"neap graph measured.json --json", "a summary of your own graph, for a script"},
        },
    .groups = CLI_GROUPS_MODEL | CLI_GROUP_GRAPH_OUT | CLI_GROUP_CSV | CLI_GROUP_JSON,
    .least_operands = 1,
    .most_operands = 1,
    .run = run_graph,
};
