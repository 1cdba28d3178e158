/* curve.c - neap curve: overhead against budget, one line per method. */

#include "command.h"
#include "explain.h"
#include "files.h"
#include "measured.h"
#include "memory.h"
#include "output.h"
#include "report.h"

#include <inttypes.h>
#include <math.h>
#include <neap/curve.h>
#include <neap/report.h>
#include <string.h>

typedef struct curve {
    const cli_settings *settings;
    cli_loaded model;
    cli_methods methods;
    size_t n_budgets, budget_capacity;
    int64_t *budgets;
    size_t n_results;    /* methods x budgets */
    cli_result *results; /* [budget][method] */
    uint32_t n_done;     /* methods; fewer than all after Ctrl-C */
} curve;

/* ---- The budgets ---- */

/* --points budgets from --from to --to, evenly spaced. */
static int spread_budgets(curve *c)
{
    const cli_settings *s = c->settings;
    int64_t from, to;
    int code = cli_load_budget(&c->model, "from", s->from, &from);
    if (code == CLI_OK)
        code = cli_load_budget(&c->model, "to", s->to, &to);
    if (code != CLI_OK)
        return code;
    if (from >= to)
        return cli_fail(CLI_BAD_INPUT, "--from %s is not below --to %s", s->from, s->to);
    c->n_budgets = (size_t)s->points;
    c->budget_capacity = c->n_budgets;
    c->budgets = cli_memory_new(c->budget_capacity, sizeof *c->budgets);
    if (!c->budgets)
        return cli_fail_memory();
    double step = (double)(to - from) / (double)(c->n_budgets - 1);
    for (size_t i = 0; i + 1 < c->n_budgets; i++)
        c->budgets[i] = from + (int64_t)floor(step * (double)i);
    c->budgets[c->n_budgets - 1] = to;
    return CLI_OK;
}

/* --budgets: sizes separated by commas. */
static int list_budgets(curve *c)
{
    const char *text = c->settings->budgets;
    c->budget_capacity = strlen(text);
    c->budgets = cli_memory_new(c->budget_capacity, sizeof *c->budgets);
    int code = c->budgets ? CLI_OK : cli_fail_memory();
    neap_text size = {0};
    while (*text && code == CLI_OK) {
        size_t length = strcspn(text, ",");
        size.length = 0;
        neap_text_append(&size, text, length);
        if (size.status != NEAP_OK)
            code = cli_fail_memory();
        else if (length > 0)
            code = cli_load_budget(&c->model, "budgets", size.text, &c->budgets[c->n_budgets++]);
        text += length + (text[length] == ',');
    }
    neap_text_clear(&size);
    if (code == CLI_OK && c->n_budgets == 0)
        code = cli_fail(CLI_BAD_INPUT, "--budgets names none; write some, such as 30%%,50%%,8GiB");
    return code;
}

static int read_budgets(curve *c)
{
    const cli_settings *s = c->settings;
    if (!s->budgets)
        return spread_budgets(c);
    if (cli_is_given(s, "points") || cli_is_given(s, "from") || cli_is_given(s, "to"))
        return cli_fail(CLI_BAD_INPUT, "--budgets names every point; leave out --points, --from "
                                       "and --to");
    return list_budgets(c);
}

/* ---- Planning ---- */

/* The points of one method. */
static int set_points(curve *c, uint32_t method, neap_status status, neap_solution **solutions,
                      const neap_diag *diag)
{
    if (status != NEAP_OK && status != NEAP_UNSUPPORTED)
        return cli_fail_diag(diag);
    int code = CLI_OK;
    for (size_t b = 0; b < c->n_budgets; b++) {
        cli_result *result = &c->results[b * c->methods.count + method];
        *result = (cli_result){
            .method = c->methods.names[method], .budget = c->budgets[b], .note = *diag};
        code = cli_result_set(result, status, solutions[b]);
    }
    return code;
}

static int solve_method(curve *c, cli_run *run, uint32_t method, neap_solution **solutions)
{
    neap_request request;
    neap_diag diag = {0};
    int code = cli_request_init(run, c->methods.names[method], &request);
    if (code != CLI_OK)
        return code;
    request.time_limit = c->settings->time_limit * (double)c->n_budgets;
    neap_status status =
        neap_curve_solve(NULL, &request, c->budgets, c->n_budgets, solutions, &diag);
    return set_points(c, method, status, solutions, &diag);
}

static int solve(curve *c)
{
    c->n_results = c->n_budgets * c->methods.count;
    c->results = cli_memory_new(c->n_results, sizeof *c->results);
    neap_solution **solutions = cli_memory_new(c->n_budgets, sizeof(neap_solution *));
    int code = c->results && solutions ? CLI_OK : cli_fail_memory();
    cli_run run;
    cli_run_begin(&run, c->settings, &c->model);
    while (code == CLI_OK && c->n_done < c->methods.count && !cli_interrupted()) {
        cli_progress_part(&run.progress, c->methods.names[c->n_done], c->n_done, c->methods.count);
        code = solve_method(c, &run, c->n_done, solutions);
        c->n_done++;
    }
    cli_run_end(&run);
    cli_memory_release(solutions, c->n_budgets, sizeof(neap_solution *));
    return code;
}

/* The result of a method at a budget; NULL if it was not reached. */
static const cli_result *result_at(const curve *c, size_t budget, size_t method)
{
    return method < c->n_done ? &c->results[budget * c->methods.count + method] : NULL;
}

/* The same for all results in order, budget by budget. */
static const cli_result *nth_result(const curve *c, size_t index)
{
    return result_at(c, index / c->methods.count, index % c->methods.count);
}

/* The best plan of a budget, or NULL. */
static const cli_result *best_at(const curve *c, size_t budget)
{
    const cli_result *best = NULL;
    for (size_t m = 0; m < c->methods.count; m++) {
        const cli_result *result = result_at(c, budget, m);
        if (result && result->plan && (!best || cli_result_better(result, best)))
            best = result;
    }
    return best;
}

/* ---- The table ---- */

/* Overheads of the budgets first to end-1, one column each. */
static void add_block(const curve *c, size_t first, size_t end, neap_text *out)
{
    size_t n_columns = end - first + 1;
    cli_column *columns = cli_memory_new(n_columns, sizeof *columns);
    cli_text *titles = cli_memory_new(n_columns, sizeof *titles);
    if (!columns || !titles) {
        out->status = NEAP_NO_MEMORY;
        goto done;
    }
    columns[0] = (cli_column){"method", false, false};
    for (size_t b = first; b < end; b++)
        columns[b - first + 1] =
            (cli_column){cli_bytes(&titles[b - first], c->budgets[b]), true, false};
    cli_table table;
    cli_table_init(&table, columns, (uint32_t)n_columns, 0);
    for (size_t m = 0; m < c->methods.count; m++) {
        cli_cell(&table, CLI_PLAIN, "%s", c->methods.names[m]);
        for (size_t b = first; b < end; b++) {
            const cli_result *result = result_at(c, b, m);
            cli_text text;
            if (result && result->plan)
                cli_cell(&table, result == best_at(c, b) ? CLI_GOOD : CLI_PLAIN, "%s",
                         cli_percent(&text, result->figures->overhead));
            else
                cli_cell(&table, CLI_DIM, "%s", result ? "-" : "?");
        }
    }
    cli_table_finish(&table, out);
done:
    cli_memory_release(columns, n_columns, sizeof *columns);
    cli_memory_release(titles, n_columns, sizeof *titles);
}

static void add_table(const curve *c, neap_text *out)
{
    static const size_t NAME_WIDTH = 15, COLUMN_WIDTH = 10;
    cli_text natural;
    cli_report_title(out, &c->model);
    neap_text_puts(out, "\noverhead by budget");
    cli_styled(out, CLI_DIM, "; %s without a plan; - does not fit",
               cli_bytes(&natural, c->model.natural_peak));
    neap_text_puts(out, "\n");
    /* as many columns side by side as fit the terminal */
    size_t per_block = ((size_t)cli_table_width() - NAME_WIDTH) / COLUMN_WIDTH;
    for (size_t first = 0; first < c->n_budgets; first += per_block) {
        size_t end = first + per_block < c->n_budgets ? first + per_block : c->n_budgets;
        neap_text_puts(out, "\n");
        add_block(c, first, end, out);
    }
}

/* ---- Files ---- */

static void add_csv_row(const cli_result *result, neap_text *csv)
{
    const neap_figures *f = result->figures;
    neap_text_printf(csv, "%s,%" PRId64 ",%s,", result->method, result->budget,
                     cli_result_status(result));
    if (result->plan)
        neap_text_printf(csv,
                         "%" PRId64 ",%" PRId64 ",%.15g,%.15g,%.15g,%.15g,%" PRIu64 ",%" PRId64,
                         f->peak_bytes, f->arena_bytes, f->time, f->overhead, f->bound_time, f->gap,
                         f->recomputed_ops, f->offloaded_bytes);
    else
        neap_text_puts(csv, ",,,,,,,");
    if (result->solved)
        neap_text_printf(csv, ",%.6g\n", f->solve_seconds);
    else
        neap_text_puts(csv, ",\n");
}

static int write_csv(const curve *c, neap_text *out)
{
    neap_text csv = {0};
    neap_text_puts(&csv, "method,budget_bytes,status,peak_bytes,arena_bytes,time,overhead,"
                         "bound_time,gap,recomputed_ops,offloaded_bytes,solve_seconds\n");
    for (size_t i = 0; i < c->n_results; i++)
        if (nth_result(c, i))
            add_csv_row(nth_result(c, i), &csv);
    int code = csv.status != NEAP_OK
                   ? cli_fail_memory()
                   : cli_file_deliver(c->settings->csv, csv.text, csv.length, out);
    neap_text_clear(&csv);
    return code;
}

static int write_svg(const curve *c, neap_text *out)
{
    size_t count = 0;
    neap_curve_point *points = cli_memory_new(c->n_results, sizeof *points);
    if (!points)
        return cli_fail_memory();
    for (size_t i = 0; i < c->n_results; i++) {
        const cli_result *result = nth_result(c, i);
        if (!result)
            continue;
        neap_curve_point *point = &points[count++];
        *point = (neap_curve_point){.method = result->method, .budget = result->budget};
        if (result->plan) {
            point->feasible = true;
            point->peak = result->figures->peak_bytes;
            point->overhead = result->figures->overhead;
        }
    }
    neap_diag diag;
    char *text;
    size_t length;
    int code;
    if (neap_report_curve_svg(NULL, neap_graph_name(c->model.graph), points, count, &text, &length,
                              &diag) != NEAP_OK) {
        code = cli_fail_diag(&diag);
    } else {
        code = cli_file_deliver(c->settings->svg, text, length, out);
        neap_release(NULL, text, length + 1);
    }
    cli_memory_release(points, c->n_results, sizeof *points);
    return code;
}

/* ---- The command ---- */

static int show(const curve *c, neap_text *out)
{
    const cli_settings *settings = c->settings;
    int code = CLI_OK;
    if (settings->csv)
        code = write_csv(c, out);
    if (code == CLI_OK && settings->svg)
        code = write_svg(c, out);
    if (code != CLI_OK)
        return code;
    if (settings->json) {
        cli_json json;
        cli_json_begin(&json, out);
        cli_json_array(&json, NULL);
        for (size_t i = 0; i < c->n_results; i++)
            if (nth_result(c, i))
                cli_report_json(&json, NULL, &c->model, nth_result(c, i), NULL);
        cli_json_end_array(&json);
    } else if (!cli_is_stdout(settings->csv) && !cli_is_stdout(settings->svg)) {
        add_table(c, out);
    }
    if (cli_interrupted())
        return cli_fail(CLI_STOPPED, "interrupted: %u of %u methods were tried", c->n_done,
                        c->methods.count);
    for (size_t b = 0; b < c->n_budgets; b++)
        if (best_at(c, b))
            return CLI_OK;
    return cli_explain_all(&c->model, c->results, c->n_results, "to");
}

static int run_curve(const cli_settings *settings, neap_text *out)
{
    if (cli_is_stdout(settings->csv) + cli_is_stdout(settings->svg) + settings->json > 1)
        return cli_fail(CLI_BAD_INPUT,
                        "only one of --json, --csv - and --svg - can go to standard output");
    curve c = {.settings = settings};
    int code = cli_methods_read(settings, &c.methods);
    if (code == CLI_OK)
        code = cli_methods_check_options(&c.methods, settings);
    if (code == CLI_OK)
        code = cli_load_with_times(settings, &c.model);
    if (code == CLI_OK)
        code = cli_load_natural_peak(&c.model);
    if (code == CLI_OK)
        code = read_budgets(&c);
    if (code == CLI_OK)
        code = solve(&c);
    if (code == CLI_OK)
        code = cli_results_share_bounds(c.results, c.n_results);
    if (code == CLI_OK)
        code = show(&c, out);
    for (size_t i = 0; i < c.n_results && c.results; i++)
        cli_result_clear(&c.results[i]);
    cli_memory_release(c.results, c.n_results, sizeof *c.results);
    cli_memory_release(c.budgets, c.budget_capacity, sizeof *c.budgets);
    cli_methods_clear(&c.methods);
    cli_loaded_clear(&c.model);
    return code;
}

const cli_command cli_command_curve = {
    .name = "curve",
    .operands = "MODEL",
    .summary = "what each budget costs: overhead against memory",
    .about = "Plans MODEL by every method, or by those that --method names, at several budgets, "
             "and prints what less memory costs in time: the overhead over one run of every op. "
             "Budgets are a list, or evenly spaced between two sizes; percentages are of what the "
             "step needs without a plan. A larger budget never costs more: where a method's plan "
             "for it is slower, the plan for the smaller budget is used. Time that one budget "
             "leaves unused goes to the others. --csv has all figures, --svg a picture.",
    .examples =
        {
            {"neap curve vgg16 --method sqrt,greedy --svg vgg16.svg", "two curves as a picture"},
            {"neap curve resnet50 --batch 64 --from 30% --points 5", "five budgets, every method"},
            {"neap curve graph.json --budgets 4GiB,6GiB,8GiB --csv points.csv",
             "three budgets, as data for your own plot"},
        },
    .groups =
        CLI_GROUPS_MODEL | CLI_GROUPS_PLAN | CLI_GROUP_CURVE | CLI_GROUPS_MEASURED | CLI_GROUP_JSON,
    .least_operands = 1,
    .most_operands = 1,
    .run = run_curve,
};
