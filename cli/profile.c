/* profile.c - neap profile: how long a network's kernels take on this machine. */

#include "command.h"
#include "csv.h"
#include "files.h"
#include "json.h"
#include "measured.h"
#include "memory.h"
#include "output.h"
#include "report.h"

#include <neap/graph.h>
#include <stdlib.h>
#include <string.h>

/* All ops of one type and pass. */
typedef struct type_total {
    const char *type;
    uint32_t ops;
    uint32_t variants; /* the most that one of them has */
    double seconds;
    int64_t workspace; /* the largest */
} type_total;

typedef struct totals {
    type_total *items;
    uint32_t count, capacity;
    double seconds;
} totals;

static type_total *find_total(totals *t, const char *type)
{
    for (uint32_t i = 0; i < t->count; i++)
        if (strcmp(t->items[i].type, type) == 0)
            return &t->items[i];
    t->items[t->count].type = type;
    return &t->items[t->count++];
}

static int slower_first(const void *a, const void *b)
{
    const type_total *x = a, *y = b;
    if (x->seconds > y->seconds || x->seconds < y->seconds)
        return x->seconds > y->seconds ? -1 : 1;
    return strcmp(x->type, y->type);
}

static int add_up(const neap_graph *graph, totals *t)
{
    uint32_t n_ops = neap_graph_op_count(graph);
    t->capacity = n_ops ? n_ops : 1;
    t->items = cli_memory_new(t->capacity, sizeof *t->items);
    if (!t->items)
        return cli_fail_memory();
    for (uint32_t o = 0; o < n_ops; o++) {
        const neap_op *op = neap_graph_op(graph, o);
        type_total *total = find_total(t, op->type);
        total->ops++;
        total->seconds += op->variants[0].seconds;
        t->seconds += op->variants[0].seconds;
        if (op->variants[0].workspace > total->workspace)
            total->workspace = op->variants[0].workspace;
        if (op->n_variants > total->variants)
            total->variants = op->n_variants;
    }
    if (t->count > 1)
        qsort(t->items, t->count, sizeof *t->items, slower_first);
    return CLI_OK;
}

/* ---- Showing ---- */

/* What was measured of the link, as options for `neap plan` with the written graph. */
static void add_link(const cli_loaded *model, cli_table *table)
{
    const neap_link *link = &model->link;
    cli_text text;
    if (link->out_bandwidth <= 0)
        return;
    cli_fact(
        table, "link", CLI_PLAIN,
        cli_format(&text, "%.1f, %.1f GB/s", 1e-9 * link->out_bandwidth, 1e-9 * link->in_bandwidth),
        "out and in, one at a time; --link %.2fGB/s,%.2fGB/s --link-latency %.2fus --duplex",
        1e-9 * link->out_bandwidth, 1e-9 * link->in_bandwidth, 1e6 * link->latency);
    cli_fact(table, "both ways", CLI_PLAIN,
             cli_format(&text, "%.1f, %.1f GB/s", 1e-9 * model->contention.out_bandwidth,
                        1e-9 * model->contention.in_bandwidth),
             "while both are in use");
    cli_fact(table, "beside copies", CLI_PLAIN,
             cli_format(&text, "+%.1f%%", 100 * model->contention.slowdown),
             "of the time of a kernel that only moves memory; it is in the times");
}

static void add_facts(const cli_loaded *model, const cli_measured *measured, const totals *t,
                      neap_text *out)
{
    const neap_profile_report *report = &measured->profile;
    cli_table table;
    cli_text text;
    cli_report_title(out, model);
    neap_text_puts(out, "\n");
    cli_facts_init(&table);
    cli_fact(&table, "backend", CLI_PLAIN, neap_backend_name(measured->backend), "%s",
             neap_backend_machine(measured->backend));
    cli_fact(&table, "step", CLI_BOLD, cli_seconds(&text, t->seconds), "every op once");
    cli_fact(&table, "kernels", CLI_PLAIN, cli_format(&text, "%u", report->kernels),
             "%u measured now, the others known before", report->measured);
    cli_fact(&table, "spread", CLI_PLAIN, cli_format(&text, "%.1f%%", 100 * report->worst_spread),
             "between the quartiles, at worst, of kernels that matter");
    add_link(model, &table);
    cli_table_finish(&table, out);
    neap_text_puts(out, "\n");
}

static void add_types(const totals *t, neap_text *out)
{
    static const cli_column COLUMNS[] = {{"type", false, false},     {"ops", true, false},
                                         {"time", true, false},      {"share", true, false},
                                         {"workspace", true, false}, {"variants", true, false}};
    cli_table table;
    cli_table_init(&table, COLUMNS, 6, 2);
    for (uint32_t i = 0; i < t->count; i++) {
        const type_total *total = &t->items[i];
        cli_text seconds, bytes;
        cli_cell(&table, CLI_PLAIN, "%s", total->type);
        cli_cell(&table, CLI_PLAIN, "%u", total->ops);
        cli_cell(&table, CLI_PLAIN, "%s", cli_seconds(&seconds, total->seconds));
        cli_cell(&table, CLI_PLAIN, "%.1f%%",
                 t->seconds > 0 ? 100 * total->seconds / t->seconds : 0);
        cli_cell(&table, CLI_PLAIN, "%s", cli_bytes(&bytes, total->workspace));
        cli_cell(&table, CLI_PLAIN, "%u", total->variants);
    }
    cli_table_finish(&table, out);
}

static void add_json(const cli_loaded *model, const cli_measured *measured, const totals *t,
                     neap_text *out)
{
    const neap_profile_report *report = &measured->profile;
    cli_json json;
    cli_json_begin(&json, out);
    cli_json_object(&json, NULL);
    cli_json_string(&json, "graph", neap_graph_name(model->graph));
    cli_json_string(&json, "backend", neap_backend_name(measured->backend));
    cli_json_string(&json, "machine", neap_backend_machine(measured->backend));
    cli_json_real(&json, "base_time", t->seconds);
    cli_json_integer(&json, "kernels", report->kernels);
    cli_json_integer(&json, "measured", report->measured);
    cli_json_real(&json, "worst_spread", report->worst_spread);
    cli_json_real(&json, "seconds", report->seconds);
    cli_report_link_json(&json, &model->link);
    if (model->link.out_bandwidth > 0) {
        cli_json_real(&json, "slowdown", model->contention.slowdown);
        cli_json_real(&json, "out_bandwidth_both", model->contention.out_bandwidth);
        cli_json_real(&json, "in_bandwidth_both", model->contention.in_bandwidth);
    }
    cli_json_array(&json, "types");
    for (uint32_t i = 0; i < t->count; i++) {
        cli_json_object(&json, NULL);
        cli_json_string(&json, "type", t->items[i].type);
        cli_json_integer(&json, "ops", t->items[i].ops);
        cli_json_real(&json, "time", t->items[i].seconds);
        cli_json_integer(&json, "workspace", t->items[i].workspace);
        cli_json_integer(&json, "variants", t->items[i].variants);
        cli_json_end_object(&json);
    }
    cli_json_end_array(&json);
    cli_json_end_object(&json);
}

static int write_csv(const totals *t, const char *path, neap_text *out)
{
    cli_csv csv;
    cli_csv_begin(&csv, "type,ops,time,share,workspace_bytes,variants");
    for (uint32_t i = 0; i < t->count; i++) {
        const type_total *total = &t->items[i];
        cli_csv_string(&csv, total->type);
        cli_csv_integer(&csv, total->ops);
        cli_csv_real(&csv, total->seconds);
        cli_csv_real(&csv, t->seconds > 0 ? total->seconds / t->seconds : 0);
        cli_csv_integer(&csv, total->workspace);
        cli_csv_integer(&csv, total->variants);
        cli_csv_end_row(&csv);
    }
    return cli_csv_deliver(&csv, path, out);
}

static int show(const cli_settings *settings, const cli_loaded *model, const cli_measured *measured,
                neap_text *out)
{
    totals t = {0};
    int code = add_up(model->graph, &t);
    if (code == CLI_OK && settings->output)
        code = cli_graph_deliver(settings->output, model->graph, out);
    if (code == CLI_OK && settings->csv)
        code = write_csv(&t, settings->csv, out);
    if (code == CLI_OK && settings->json) {
        add_json(model, measured, &t, out);
    } else if (code == CLI_OK && !cli_stdout_taken(settings)) {
        add_facts(model, measured, &t, out);
        add_types(&t, out);
    }
    cli_memory_release(t.items, t.capacity, sizeof *t.items);
    return code;
}

static int run_profile(const cli_settings *settings, neap_text *out)
{
    if (settings->kernels == NEAP_KERNELS_LAYER)
        return cli_fail(CLI_BAD_INPUT, "--kernels layer is a model of memory, for planning: there "
                                       "are no such kernels; measure lean or torch");
    if (settings->link && strcmp(settings->link, "measured") != 0)
        return cli_fail(CLI_BAD_INPUT,
                        "--link \"%s\": profile takes --link measured only; a rate is "
                        "for the commands that plan",
                        settings->link);
    cli_loaded model = {0};
    cli_measured measured = {0};
    cli_progress progress;
    int code = cli_load(settings, settings->operands[0], &model);
    if (code != CLI_OK)
        return code;
    cli_progress_begin(&progress);
    code = cli_measure(settings, &model, &progress, &measured);
    cli_progress_end(&progress);
    if (code == CLI_OK)
        code = show(settings, &model, &measured, out);
    cli_measured_clear(&measured);
    cli_loaded_clear(&model);
    return code;
}

const cli_command cli_command_profile = {
    .name = "profile",
    .operands = "MODEL",
    .summary = "measure a network's kernels on this machine",
    .about = "Runs every distinct op of MODEL on a backend, in each of its variants, and prints "
             "how long it takes: the median of several runs after a warm-up, with kernels taking "
             "turns as in a training step. With -o it writes the training graph with these times "
             "and the workspaces of the kernels; every other command takes that file as MODEL. "
             "Times are kept per op and machine, so the next network measures only what is new, "
             "and Ctrl-C loses nothing.",
    .examples =
        {
            {"neap profile resnet50 --batch 16", "where a training step spends its time"},
            {"neap profile unet --batch 2 -o unet.json", "a graph to plan with measured times"},
            {"neap profile gpt2 --batch 1 --seq 256 --threads 1", "on one thread"},
            {"neap profile vgg19 --batch 128 --backend cuda --link measured -o vgg19.json",
             "on an NVIDIA GPU, for plans with copies; the graph can be planned anywhere"},
        },
    .groups = CLI_GROUPS_SIZES | CLI_GROUP_BATCH | CLI_GROUPS_RUN | CLI_GROUP_PROFILE_OUT |
              CLI_GROUP_CSV | CLI_GROUP_JSON,
    .least_operands = 1,
    .most_operands = 1,
    .run = run_profile,
};
