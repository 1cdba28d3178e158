/* plan.c - neap plan: one network, one budget, one plan. */

#include "batch_search.h"
#include "command.h"
#include "files.h"
#include "html_report.h"
#include "measured.h"
#include "memory.h"
#include "output.h"
#include "parts.h"
#include "pictures.h"
#include "planning.h"
#include "report.h"
#include "trace_file.h"

#include <inttypes.h>
#include <neap/neap.h>
#include <string.h>

/* ---- The summary ---- */

static double percent_of(int64_t bytes, int64_t all)
{
    return all > 0 ? 100 * (double)bytes / (double)all : 100;
}

/* Where the peak is the objective: how far what the plan needs, with addresses if it has them, is
   from what no plan can beat. */
static void add_floor(cli_table *table, const cli_planning *p)
{
    const neap_figures *figures = p->result.figures;
    cli_text text;
    neap_text note = {0};
    cli_report_floor(&note, p->model.graph, figures);
    int64_t needed =
        figures->arena_bytes > figures->peak_bytes ? figures->arena_bytes : figures->peak_bytes;
    neap_text_printf(&note, "; gap %.2f%%", percent_of(needed, figures->floor_bytes) - 100);
    cli_fact(table, "floor", CLI_PLAIN, cli_bytes(&text, figures->floor_bytes), "%s",
             neap_text_get(&note));
    neap_text_clear(&note);
}

static void add_memory(cli_table *table, const cli_planning *p)
{
    const neap_figures *figures = p->result.figures;
    int64_t natural = p->model.natural_peak;
    cli_text text, other;
    if (p->result.batch > 0)
        cli_fact(table, "batch", CLI_BOLD, cli_format(&text, "%" PRId64, p->result.batch), "%s",
                 p->batch_note);
    if (p->budget >= 0 && p->budget / 10 <= natural)
        cli_fact(table, "budget", CLI_PLAIN, cli_bytes(&text, p->budget),
                 "%.1f%% of the %s that training takes without a plan",
                 percent_of(p->budget, natural), cli_bytes(&other, natural));
    else
        cli_fact(table, "budget", CLI_PLAIN, p->budget < 0 ? "none" : cli_bytes(&text, p->budget),
                 "training takes %s without a plan", cli_bytes(&other, natural));
    cli_fact(table, "peak", CLI_BOLD, cli_bytes(&text, figures->peak_bytes), "%.1f%% of that",
             percent_of(figures->peak_bytes, natural));
    if (p->settings->objective == CLI_OBJECTIVE_PEAK)
        add_floor(table, p);
    if (figures->arena_bytes >= 0)
        cli_fact(table, "arena", CLI_PLAIN, cli_bytes(&text, figures->arena_bytes),
                 "with addresses; %.2f%% lost to gaps",
                 percent_of(figures->arena_bytes, figures->peak_bytes) - 100);
}

static void add_time(cli_table *table, const cli_planning *p)
{
    const neap_figures *figures = p->result.figures;
    cli_text text, other;
    cli_fact(table, "time", CLI_PLAIN, cli_seconds(&text, figures->time), "%s for every op once",
             cli_seconds(&other, figures->base_time));
    cli_fact(table, "overhead", CLI_BOLD, cli_percent(&text, figures->overhead),
             "%" PRIu64 " recomputations beside %u ops", figures->recomputed_ops,
             neap_graph_op_count(p->model.graph));
    if (figures->bound_time >= 0)
        cli_fact(table, "bound", CLI_PLAIN, cli_seconds(&text, figures->bound_time),
                 "no plan in this budget is faster (%s); gap %.2f%%",
                 cli_scope_words(figures->bound_scope), 100 * figures->gap);
    if (figures->offloaded_bytes > 0)
        cli_fact(table, "moved", CLI_PLAIN, cli_bytes(&text, figures->offloaded_bytes),
                 "to host memory");
    cli_fact(table, "solved in", CLI_PLAIN, cli_seconds(&text, figures->solve_seconds), "%s", "");
}

static void add_summary(const cli_planning *p, neap_text *out)
{
    const neap_method *method = neap_methods_find(p->result.method);
    cli_table table;
    cli_report_title(out, &p->model);
    neap_text_puts(out, "\n");
    cli_facts_init(&table);
    cli_fact(&table, "method", CLI_PLAIN, p->result.method, "%s",
             method ? neap_method_summary(method) : "");
    cli_fact(&table, "status", CLI_GOOD, cli_result_words(&p->result), "%s",
             neap_solution_message(p->result.solution));
    add_memory(&table, p);
    add_time(&table, p);
    if (p->settings->output)
        cli_fact(&table, "written to", CLI_PLAIN, p->settings->output, "%zu steps",
                 neap_plan_step_count(p->result.plan));
    if (p->settings->report)
        cli_fact(&table, "report", CLI_PLAIN, p->settings->report, "%s", "open it in a browser");
    if (p->settings->trace)
        cli_fact(&table, "trace", CLI_PLAIN, p->settings->trace, "open it in Perfetto or Chrome");
    cli_table_finish(&table, out);
    neap_text_puts(out, "\n");
    cli_parts_table(out, &p->result.natural_parts, &p->result.parts);
}

/* ---- The plan over time ---- */

static int add_chart(const cli_planning *p, const neap_timeline *timeline, neap_text *out)
{
    neap_diag diag;
    neap_chart_options options;
    cli_chart_options(&options, 10); /* the scale of bytes stands beside the plot */
    options.budget = p->budget;
    options.natural_peak = p->model.natural_peak;
    char *text;
    size_t length;
    neap_text_puts(out, "\n");
    neap_status status = neap_report_memory_chart(NULL, p->model.graph, p->result.plan, timeline,
                                                  &options, &text, &length, &diag);
    return cli_picture_deliver(status, &diag, "-", text, length, out);
}

static int write_svg(const cli_planning *p, const neap_timeline *timeline, neap_text *out)
{
    neap_diag diag;
    neap_memory_picture picture;
    neap_plan *natural;
    neap_text title = {0};
    char *text;
    size_t length;
    if (neap_natural_plan(NULL, p->model.graph, &natural, &diag) != NEAP_OK)
        return cli_fail_diag(&diag);
    neap_memory_picture_init(&picture, p->model.graph, p->result.plan, timeline);
    cli_picture_title(&title, p->settings, &p->model, p->result.batch, NULL);
    neap_text_printf(&title, ", planned by %s", p->result.method);
    picture.title = neap_text_get(&title);
    picture.natural = natural;
    picture.budget = p->budget;
    neap_status status = neap_report_memory_svg(NULL, &picture, &text, &length, &diag);
    int code = title.status != NEAP_OK && status == NEAP_OK
                   ? (neap_release(NULL, text, length + 1), cli_fail_memory())
                   : cli_picture_deliver(status, &diag, p->settings->svg, text, length, out);
    neap_text_clear(&title);
    neap_plan_destroy(natural);
    return code;
}

static void add_csv_row(cli_csv *csv, const neap_graph *graph, size_t index, const neap_step *step,
                        const neap_timeline_step *times, bool *computed)
{
    bool compute = step->kind == NEAP_COMPUTE;
    cli_csv_integer(csv, (int64_t)index);
    cli_csv_word(csv, neap_step_kind_name(step->kind));
    cli_csv_integer(csv, step->id);
    cli_csv_string(csv, compute ? neap_graph_op(graph, step->id)->name
                                : neap_graph_value(graph, step->id)->name);
    cli_csv_bool(csv, compute && computed[step->id]);
    cli_csv_real(csv, neap_graph_seconds(graph, times->begin));
    cli_csv_real(csv, neap_graph_seconds(graph, times->end));
    cli_csv_integer(csv, times->live_bytes);
    cli_csv_integer(csv, times->after_bytes);
    cli_csv_end_row(csv);
    if (compute)
        computed[step->id] = true;
}

static int write_csv(const cli_planning *p, const neap_timeline *timeline, neap_text *out)
{
    const neap_graph *graph = p->model.graph;
    size_t n_ops = neap_graph_op_count(graph);
    bool *computed = cli_memory_new(n_ops, sizeof *computed);
    if (n_ops > 0 && !computed)
        return cli_fail_memory();
    cli_csv csv;
    cli_csv_begin(&csv, "step,kind,id,name,recomputed,begin,end,live_bytes,after_bytes");
    for (size_t i = 0; i < timeline->n_steps; i++)
        add_csv_row(&csv, graph, i, &neap_plan_steps(p->result.plan)[i], &timeline->steps[i],
                    computed);
    cli_memory_release(computed, n_ops, sizeof *computed);
    return cli_csv_deliver(&csv, p->settings->csv, out);
}

static int find_timeline(const cli_planning *p, neap_timeline *timeline)
{
    neap_diag diag;
    neap_link link = p->model.link;
    neap_status status =
        neap_timeline_build(NULL, p->model.graph, p->result.plan,
                            link.out_bandwidth > 0 ? &link : NULL, timeline, &diag);
    return status == NEAP_OK ? CLI_OK : cli_fail_diag(&diag);
}

/* The timeline as files. */
static int write_timeline(const cli_planning *p, neap_text *out)
{
    neap_timeline timeline;
    if (!p->settings->svg && !p->settings->csv)
        return CLI_OK;
    int code = find_timeline(p, &timeline);
    if (code != CLI_OK)
        return code;
    if (p->settings->svg)
        code = write_svg(p, &timeline, out);
    if (code == CLI_OK && p->settings->csv)
        code = write_csv(p, &timeline, out);
    neap_timeline_clear(&timeline);
    return code;
}

/* The timeline in the terminal. */
static int show_timeline(const cli_planning *p, neap_text *out)
{
    neap_timeline timeline;
    int code = find_timeline(p, &timeline);
    if (code != CLI_OK)
        return code;
    code = add_chart(p, &timeline, out);
    neap_timeline_clear(&timeline);
    return code;
}

/* ---- The plan itself ---- */

static int write_plan(const cli_planning *p, neap_text *out)
{
    neap_diag diag;
    char *text;
    size_t length;
    if (neap_plan_write_text(p->result.plan, NULL, &text, &length, &diag) != NEAP_OK)
        return cli_fail_diag(&diag);
    int code = cli_file_deliver(p->settings->output, text, length, out);
    neap_release(NULL, text, length + 1);
    return code;
}

static int write_report(const cli_planning *p, neap_text *out)
{
    cli_html_report report = {
        .settings = p->settings, .model = &p->model, .batch = p->result.batch};
    int code = cli_html_add(&report, &p->result);
    if (code == CLI_OK)
        code = cli_html_deliver(&report, p->settings->report, out);
    cli_html_clear(&report);
    return code;
}

static int find_parts(cli_planning *p)
{
    cli_result *result = &p->result;
    int code = cli_parts_find(p->model.graph, NULL, &result->natural_parts);
    if (code == CLI_OK)
        code = cli_parts_find(p->model.graph, result->plan, &result->parts);
    result->has_parts = code == CLI_OK;
    return code;
}

static int show(cli_planning *p, neap_text *out)
{
    const cli_settings *settings = p->settings;
    int code = p->result.plan ? find_parts(p) : CLI_OK;
    if (code == CLI_OK && p->result.plan && settings->output)
        code = write_plan(p, out);
    if (code == CLI_OK && p->result.plan && settings->report)
        code = write_report(p, out);
    if (code == CLI_OK && p->result.plan && settings->trace)
        code = cli_trace_file_write(settings->trace, p->model.graph, p->result.plan, &p->model.link,
                                    NULL, p->result.figures->arena_bytes);
    if (code == CLI_OK && p->result.plan)
        code = write_timeline(p, out);
    if (code == CLI_OK && settings->json && p->result.solved) {
        cli_json json;
        cli_json_begin(&json, out);
        cli_report_json(&json, NULL, &p->model, &p->result,
                        p->explanation.length ? p->explanation.text : NULL);
    } else if (code == CLI_OK && p->result.plan && !cli_stdout_taken(settings)) {
        add_summary(p, out);
        if (settings->chart)
            code = show_timeline(p, out);
        if (code != CLI_OK)
            neap_text_clear(out);
    }
    return p->result.plan ? code : cli_planning_fail(p);
}

/* ---- The largest batch ---- */

/* Its graph takes the place of the model's own, its plan is the result. */
static int take_batch(cli_planning *p, cli_batch_search *search, cli_batch_row *best)
{
    static const char *const NOTES[] = {
        "the largest found; the next one was not ruled out",
        "the largest: this method has no plan for the next one",
        "the largest: no method has a plan for the next one",
    };
    neap_diag diag;
    neap_graph *graph;
    if (cli_batch_graph(search, best->result.batch, &graph, &diag) != NEAP_OK)
        return cli_fail_diag(&diag);
    p->model = search->model;
    search->model = (cli_loaded){.natural_peak = -1};
    neap_graph_destroy(p->model.graph);
    p->model.graph = graph;
    p->model.natural_peak = -1;
    p->budget = search->budget;
    p->batch_note = NOTES[best->result.proof];
    p->result = (cli_result){.method = search->methods.names[best - search->rows],
                             .budget = search->budget,
                             .batch = best->result.batch};
    int code = cli_result_set(&p->result, NEAP_OK, best->result.solution);
    best->result.solution = NULL;
    return code == CLI_OK ? cli_load_natural_peak(&p->model) : code;
}

static int plan_batch(cli_planning *p)
{
    cli_batch_search search = {
        .settings = p->settings, .who = "--objective batch", .batch_option = "--batch "};
    int code = cli_batch_search_run(&search);
    cli_batch_row *best = code == CLI_OK ? cli_batch_search_best(&search) : NULL;
    if (best)
        code = take_batch(p, &search, best);
    else if (code == CLI_OK)
        code = cli_interrupted() ? cli_fail(CLI_STOPPED, "interrupted before a batch was found")
                                 : cli_batch_search_fail(&search);
    cli_batch_search_clear(&search);
    return code;
}

/* ---- The command ---- */

static int plan_model(cli_planning *p)
{
    const cli_settings *settings = p->settings;
    int code = cli_load_with_times(settings, &p->model);
    if (code == CLI_OK)
        code = cli_load_budget(&p->model, "budget", settings->budget, &p->budget);
    if (code == CLI_OK)
        code = cli_load_natural_peak(&p->model);
    return code == CLI_OK ? cli_planning_solve(p) : code;
}

static int check_settings(const cli_settings *settings)
{
    bool batch = settings->objective == CLI_OBJECTIVE_BATCH;
    if (cli_is_stdout(settings->trace))
        return cli_fail(CLI_BAD_INPUT, "--trace takes the name of a file");
    const char *batch_option = cli_given_of(settings, CLI_GROUP_BATCHES);
    if (batch_option && !batch)
        return cli_fail(CLI_BAD_INPUT, "--%s needs --objective batch", batch_option);
    if (settings->start && batch)
        return cli_fail(CLI_BAD_INPUT, "--start is a plan of one batch; leave it out, or "
                                       "--objective batch");
    return CLI_OK;
}

static int run_plan(const cli_settings *settings, neap_text *out)
{
    cli_planning p = {.settings = settings};
    int code = check_settings(settings);
    if (code == CLI_OK)
        code = settings->objective == CLI_OBJECTIVE_BATCH ? plan_batch(&p) : plan_model(&p);
    if (code == CLI_OK)
        code = show(&p, out);
    cli_planning_clear(&p);
    return code;
}

const cli_command cli_command_plan = {
    .name = "plan",
    .operands = "MODEL",
    .summary = "fit a training step into a memory budget",
    .about =
        "Decides what to keep, what to recompute and what to move to host memory, so that one "
        "training step of MODEL fits in --budget, and prints what that costs. The overhead is "
        "the time beyond one run of every op; the bound is a time that no plan in this budget "
        "can beat. Every plan is replayed by an independent judge, and every tensor has an "
        "address, so the budget covers all the memory that the step takes.\n\n"
        "MODEL is a built-in network (neap models), an ONNX file or a graph file; - is "
        "standard input. Of several methods, the best plan is kept. Ctrl-C ends the search "
        "and keeps the best plan so far; --log shows its progress. --objective peak asks for "
        "the least memory "
        "whatever the time, --objective batch for the largest batch in the budget. --chart and "
        "--svg draw the memory over time, --csv lists it step by step. If nothing "
        "fits, the exit status is 3 and the message names a budget or a method that works.",
    .examples =
        {
            {"neap plan resnet50 --batch 64 --budget 45% --chart",
             "the fastest plan in 45% of the memory, and a chart of it"},
            {"neap plan gpt2 --seq 1024 --budget 6GiB --method sqrt -o plan.json",
             "by one method, to a file"},
            {"neap plan graph.json --budget 8GiB --link 12.2GB/s --json",
             "your own graph, with transfers to host memory, for a script"},
            {"neap plan vgg16 --budget 8GiB --objective batch --method rotor -o plan.json",
             "the largest batch in 8 GiB, and its plan"},
        },
    .groups = CLI_GROUPS_MODEL | CLI_GROUPS_PLAN | CLI_GROUP_BUDGET | CLI_GROUP_OBJECTIVE |
              CLI_GROUP_BATCHES | CLI_GROUP_PLAN_OUT | CLI_GROUP_CHART | CLI_GROUPS_MEASURED |
              CLI_GROUP_CSV | CLI_GROUP_SVG | CLI_GROUP_REPORT | CLI_GROUP_JSON |
              CLI_GROUP_SEARCH_LOG | CLI_GROUP_TRACE,
    .least_operands = 1,
    .most_operands = 1,
    .run = run_plan,
};
