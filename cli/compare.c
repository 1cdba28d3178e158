/* compare.c - neap compare: every method on one network, at one budget. */

#include "command.h"
#include "files.h"
#include "html_report.h"
#include "measured.h"
#include "memory.h"
#include "no_plan.h"
#include "output.h"
#include "pictures.h"
#include "report.h"

#include <string.h>

typedef struct comparison {
    const cli_settings *settings;
    bool by_peak; /* the lowest peak is the best; else the fastest plan */
    cli_loaded model;
    int64_t budget; /* -1: none */
    cli_methods methods;
    cli_result *results; /* one per method */
    uint32_t n_done;     /* finished results; fewer than methods after Ctrl-C */
} comparison;

static int solve(const cli_settings *settings, comparison *c)
{
    c->results = cli_memory_new(c->methods.count, sizeof *c->results);
    if (!c->results)
        return cli_fail_memory();
    cli_run run;
    cli_run_begin(&run, settings, &c->model);
    int code = cli_solve_each(&run, &c->methods, c->budget, c->results, &c->n_done);
    cli_run_end(&run);
    return code;
}

/* Within a budget the faster plan is better; without one, or by --objective peak, the lower peak.
 */
static bool is_better(const comparison *c, const cli_result *a, const cli_result *b)
{
    if (c->by_peak && a->figures->peak_bytes != b->figures->peak_bytes)
        return a->figures->peak_bytes < b->figures->peak_bytes;
    return cli_result_better(a, b);
}

/* The result with the best plan, or NULL. */
static const cli_result *find_best(const comparison *c)
{
    const cli_result *best = NULL;
    for (uint32_t i = 0; i < c->n_done; i++)
        if (c->results[i].plan && (!best || is_better(c, &c->results[i], best)))
            best = &c->results[i];
    return best;
}

/* Lists the methods whose bound is proven for only some plans, and its scope. */
static void add_scopes(const comparison *c, neap_text *out)
{
    neap_text line = {0};
    for (uint32_t i = 0; i < c->n_done; i++) {
        const cli_result *result = &c->results[i];
        if (!result->plan || result->figures->bound_scope == NEAP_SCOPE_ANY)
            continue;
        neap_text_printf(&line, "%s%s: %s", line.length ? "; " : "gap: to all plans, except ",
                         result->method, cli_scope_words(result->figures->bound_scope));
    }
    if (line.length > 0) {
        cli_wrap(out, neap_text_get(&line), 0, 5, (size_t)cli_width());
        neap_text_puts(out, "\n");
    }
    neap_text_clear(&line);
}

static void add_table(const comparison *c, const cli_result *best, neap_text *out)
{
    cli_text natural, budget, time;
    const neap_graph *graph = c->model.graph;
    cli_report_title(out, &c->model);
    neap_text_puts(out, "\n");
    cli_styled(out, CLI_PLAIN, "%s%s", c->budget < 0 ? "no budget" : "budget ",
               c->budget < 0 ? "" : cli_bytes(&budget, c->budget));
    cli_styled(out, CLI_DIM, "; %s and %s without a plan",
               cli_bytes(&natural, c->model.natural_peak),
               cli_seconds(&time, neap_graph_seconds(graph, neap_graph_base_ticks(graph))));
    neap_text_puts(out, "\n\n");

    cli_table table;
    cli_table_init(&table, cli_report_columns, CLI_REPORT_COLUMNS, 0);
    for (uint32_t i = 0; i < c->n_done; i++)
        cli_report_row(&table, &c->results[i], &c->results[i] == best);
    cli_table_finish(&table, out);
    if (best)
        cli_styled(out, CLI_DIM, "* %s", c->by_peak ? "the lowest peak" : "the fastest");
    neap_text_puts(out, best ? "\n" : "");
    add_scopes(c, out);
}

static void add_json(const comparison *c, neap_text *out)
{
    cli_json json;
    cli_json_begin(&json, out);
    cli_json_array(&json, NULL);
    for (uint32_t i = 0; i < c->n_done; i++)
        cli_report_json(&json, NULL, &c->model, &c->results[i], NULL);
    cli_json_end_array(&json);
}

/* The best plan first, then those of all methods. Within a budget, methods without a plan are
   named, too. */
static int write_report(const cli_settings *settings, const comparison *c, const cli_result *best,
                        neap_text *out)
{
    cli_html_report report = {.settings = settings, .model = &c->model};
    int code = cli_html_add(&report, best);
    for (uint32_t i = 0; i < c->n_done && code == CLI_OK; i++)
        if (c->budget >= 0)
            code = cli_html_add_point(&report, &c->results[i]);
        else if (&c->results[i] != best)
            code = cli_html_add(&report, &c->results[i]);
    if (code == CLI_OK)
        code = cli_html_deliver(&report, settings->report, out);
    cli_html_clear(&report);
    return code;
}

static int write_csv(const comparison *c, neap_text *out)
{
    cli_csv csv;
    cli_report_csv_begin(&csv);
    for (uint32_t i = 0; i < c->n_done; i++)
        cli_report_csv_row(&csv, &c->results[i]);
    return cli_csv_deliver(&csv, c->settings->csv, out);
}

/* ---- Pictures ---- */

static neap_comparison_row picture_row(const cli_result *result)
{
    neap_comparison_row row = {.method = result->method,
                               .status = cli_result_words(result),
                               .least = cli_report_least(result)};
    if (result->plan) {
        row.feasible = true;
        row.peak = result->figures->peak_bytes;
        row.overhead = result->figures->overhead;
    }
    return row;
}

static void fill_picture(const comparison *c, neap_comparison_row *rows, neap_comparison *picture)
{
    neap_comparison_init(picture);
    picture->rows = rows;
    picture->n_rows = c->n_done;
    picture->by_peak = c->by_peak;
    picture->budget = c->budget;
    picture->natural_peak = c->model.natural_peak;
    picture->floor = cli_floor(&c->model, c->model.graph, NULL);
    for (uint32_t i = 0; i < c->n_done; i++) {
        double bound;
        rows[i] = picture_row(&c->results[i]);
        if (!cli_report_bound(&c->results[i], &bound))
            continue;
        if (!picture->has_bound || bound > picture->bound)
            picture->bound = bound;
        picture->has_bound = true;
    }
}

/* The picture as SVG, or, with no path, as a chart below the table. */
static int draw(const comparison *c, const char *path, neap_text *out)
{
    neap_diag diag;
    neap_comparison picture;
    neap_text title = {0};
    char *text;
    size_t length;
    int code = CLI_OK;
    neap_comparison_row *rows = cli_memory_new(c->methods.count, sizeof *rows);
    cli_picture_title(&title, c->settings, &c->model, 0, NULL);
    if (!rows || title.status != NEAP_OK) {
        code = cli_fail_memory();
        goto done;
    }
    fill_picture(c, rows, &picture);
    picture.title = title.text;
    if (path) {
        neap_status status = neap_report_comparison_svg(NULL, &picture, &text, &length, &diag);
        code = cli_picture_deliver(status, &diag, path, text, length, out);
    } else {
        neap_chart_options options;
        cli_chart_options(&options, 0);
        neap_text_puts(out, "\n");
        neap_status status =
            neap_report_comparison_chart(NULL, &picture, &options, &text, &length, &diag);
        code = cli_picture_deliver(status, &diag, "-", text, length, out);
    }
done:
    neap_text_clear(&title);
    cli_memory_release(rows, c->methods.count, sizeof *rows);
    return code;
}

static int show(const comparison *c, neap_text *out)
{
    const cli_settings *settings = c->settings;
    int code = settings->csv ? write_csv(c, out) : CLI_OK;
    if (code == CLI_OK && settings->svg)
        code = draw(c, settings->svg, out);
    if (code != CLI_OK)
        return code;
    const cli_result *best = find_best(c);
    if (best && settings->report)
        code = write_report(settings, c, best, out);
    if (code != CLI_OK)
        return code;
    if (settings->json)
        add_json(c, out);
    else if (!cli_stdout_taken(settings))
        add_table(c, best, out);
    if (settings->chart)
        code = draw(c, NULL, out);
    if (code != CLI_OK)
        return code;
    if (cli_interrupted())
        return cli_fail(CLI_STOPPED, "interrupted: %u of %u methods were tried", c->n_done,
                        c->methods.count);
    return best ? CLI_OK : cli_no_plan_all(&c->model, c->results, c->n_done, "budget");
}

static int run_compare(const cli_settings *settings, neap_text *out)
{
    comparison c = {.settings = settings, .budget = -1};
    if (settings->objective == CLI_OBJECTIVE_BATCH)
        return cli_fail(CLI_BAD_INPUT,
                        "compare has no --objective batch; neap max-batch --method all compares "
                        "methods by it");
    int code = cli_methods_read(settings, &c.methods);
    if (code == CLI_OK)
        code = cli_methods_check_options(&c.methods, settings);
    if (code == CLI_OK)
        code = cli_load_with_times(settings, &c.model);
    if (code == CLI_OK)
        code = cli_load_budget(&c.model, "budget", settings->budget, &c.budget);
    c.by_peak = c.budget < 0 || settings->objective == CLI_OBJECTIVE_PEAK;
    if (code == CLI_OK)
        code = cli_load_natural_peak(&c.model);
    if (code == CLI_OK)
        code = solve(settings, &c);
    if (code == CLI_OK)
        code = cli_results_share_bounds(c.results, c.n_done);
    if (code == CLI_OK)
        code = show(&c, out);
    for (uint32_t i = 0; i < c.n_done; i++)
        cli_result_clear(&c.results[i]);
    cli_memory_release(c.results, c.methods.count, sizeof *c.results);
    cli_methods_clear(&c.methods);
    cli_loaded_clear(&c.model);
    return code;
}

const cli_command cli_command_compare = {
    .name = "compare",
    .operands = "MODEL",
    .summary = "all methods side by side at one budget",
    .about = "Plans MODEL by every method, or by those that --method names, at the same budget, "
             "and prints the judge's figures side by side: peak memory, arena (memory with "
             "addresses), overhead over one run of every op, the gap to a time that no plan can "
             "beat, and the time that planning took. On a wide terminal and with --json there are "
             "more. The fastest plan is marked; without --budget, the lowest peak.\n\n"
             "Constraints (--objective peak, --keep, --start and so on) leave only the methods "
             "that support them.",
    .examples =
        {
            {"neap compare resnet50 --batch 64 --budget 45%", "all methods in one table"},
            {"neap compare gpt2 --budget 6GiB --method sqrt,greedy,revolve", "three of them"},
            {"neap compare graph.json --budget 8GiB --json", "an array with one object per method"},
            {"neap compare resnet50 --batch 64 --budget 45% --svg bars.svg --csv bars.csv",
             "a picture for a paper, and its numbers"},
        },
    .groups = CLI_GROUPS_MODEL | CLI_GROUPS_PLAN | CLI_GROUP_BUDGET | CLI_GROUP_OBJECTIVE |
              CLI_GROUPS_MEASURED | CLI_GROUP_CHART | CLI_GROUP_CSV | CLI_GROUP_SVG |
              CLI_GROUP_REPORT | CLI_GROUP_JSON | CLI_GROUP_SEARCH_LOG,
    .least_operands = 1,
    .most_operands = 1,
    .run = run_compare,
};
