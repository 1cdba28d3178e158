/* report_command.c - neap report: a web page about a network, its plans and its trade-off. */

#include "command.h"
#include "curves.h"
#include "files.h"
#include "html_report.h"
#include "judged_plan.h"
#include "measured.h"
#include "memory.h"
#include "no_plan.h"
#include "output.h"
#include "report.h"

#include <neap/check.h>
#include <string.h>

typedef struct page {
    const cli_settings *settings;
    cli_loaded model;
    int64_t budget;
    neap_text path;       /* where the report goes */
    neap_plan *read_plan; /* of --plan; NULL: planned here */
    cli_methods methods;
    cli_result *results; /* one per method, at the budget */
    uint32_t n_done;     /* finished results; fewer than methods after Ctrl-C */
    int64_t *budgets;    /* settings->points of them */
    cli_curves curves;
} page;

/* ---- Planning ---- */

/* Without --budget: half way between the least that any plan needs and what the step needs. */
static int find_budget(page *p)
{
    int code = cli_load_budget(&p->model, "budget", p->settings->budget, &p->budget);
    if (code == CLI_OK && p->budget < 0) {
        int64_t floor = cli_floor(&p->model, p->model.graph, NULL);
        p->budget = floor + (p->model.natural_peak - floor) / 2;
    }
    return code;
}

static int solve_budget(page *p)
{
    p->results = cli_memory_new(p->methods.count, sizeof *p->results);
    if (!p->results)
        return cli_fail_memory();
    cli_run run;
    cli_run_begin(&run, p->settings, &p->model);
    int code = cli_solve_each(&run, &p->methods, p->budget, p->results, &p->n_done);
    cli_run_end(&run);
    return code == CLI_OK ? cli_results_share_bounds(p->results, p->n_done) : code;
}

/* Evenly spaced, above the least that any plan needs, up to what the step needs without one. */
static int solve_curves(page *p)
{
    size_t n = (size_t)p->settings->points;
    int64_t floor = cli_floor(&p->model, p->model.graph, NULL);
    double range = (double)(p->model.natural_peak - floor);
    if (n == 0)
        return CLI_OK;
    p->budgets = cli_memory_new(n, sizeof *p->budgets);
    if (!p->budgets)
        return cli_fail_memory();
    for (size_t i = 0; i < n; i++)
        p->budgets[i] = floor + (int64_t)(range * ((double)(i + 1) / (double)n));
    p->curves = (cli_curves){.settings = p->settings,
                             .model = &p->model,
                             .methods = &p->methods,
                             .n_budgets = n,
                             .budgets = p->budgets};
    int code = cli_curves_solve(&p->curves);
    return code == CLI_OK ? cli_results_share_bounds(p->curves.results, p->curves.n_results) : code;
}

/* The best plan at the budget, or NULL. */
static const cli_result *find_best(const page *p)
{
    const cli_result *best = NULL;
    for (uint32_t i = 0; i < p->n_done; i++)
        if (p->results[i].plan && (!best || cli_result_better(&p->results[i], best)))
            best = &p->results[i];
    return best;
}

static int plan_page(page *p)
{
    int code = cli_methods_read(p->settings, &p->methods);
    if (code == CLI_OK)
        code = cli_methods_check_options(&p->methods, p->settings);
    if (code == CLI_OK)
        code = find_budget(p);
    if (code == CLI_OK)
        code = solve_budget(p);
    if (code == CLI_OK && !find_best(p) && !cli_interrupted())
        code = cli_no_plan_all(&p->model, p->results, p->n_done, "budget");
    if (code == CLI_OK && !cli_interrupted())
        code = solve_curves(p);
    if (code == CLI_OK && cli_interrupted() && !find_best(p))
        code = cli_fail(CLI_STOPPED, "interrupted before there was a plan");
    return code;
}

/* ---- The page ---- */

/* The best plan first, then those of the other methods, then the curve with the budget itself. */
static int add_results(const page *p, cli_html_report *report)
{
    const cli_result *best = find_best(p);
    int code = best ? cli_html_add(report, best) : CLI_OK;
    for (uint32_t i = 0; i < p->n_done && code == CLI_OK; i++)
        if (p->curves.results || p->n_done > 1)
            code = cli_html_add_point(report, &p->results[i]);
        else if (&p->results[i] != best)
            code = cli_html_add(report, &p->results[i]);
    for (size_t i = 0; i < p->curves.n_results && code == CLI_OK; i++)
        if (cli_curves_nth(&p->curves, i))
            code = cli_html_add_point(report, cli_curves_nth(&p->curves, i));
    return code;
}

/* "resnet50_b64.html": what could be a path, or part of one, is replaced. */
static void default_path(const page *p, neap_text *path)
{
    static const char plain[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+-._";
    const char *name = neap_graph_name(p->model.graph);
    static const size_t MOST = 100;
    for (size_t i = 0; name[i] && i < MOST; i++)
        neap_text_putc(path, strchr(plain, name[i]) && (i > 0 || name[i] != '.') ? name[i] : '_');
    neap_text_puts(path, ".html");
}

static void say_written(const page *p, size_t n_points, const char *path, neap_text *out)
{
    const cli_result *best = find_best(p);
    int64_t natural = p->model.natural_peak;
    cli_table table;
    cli_text text, budget, all;
    cli_report_title(out, &p->model);
    neap_text_puts(out, "\n");
    cli_facts_init(&table);
    if (best)
        cli_fact(&table, "plan", CLI_PLAIN, cli_percent(&text, best->figures->overhead),
                 "by %s, in %s; training takes %s without a plan", best->method,
                 cli_bytes(&budget, p->budget), cli_bytes(&all, natural));
    else
        cli_fact(&table, "plan", CLI_PLAIN, neap_plan_method(p->read_plan), "%s",
                 p->settings->plan_file);
    if (p->curves.results)
        cli_fact(&table, "curve", CLI_PLAIN, cli_format(&text, "%zu points", n_points), "%s", "");
    cli_fact(&table, "written to", CLI_BOLD, path, "%s", "open it in a browser");
    cli_table_finish(&table, out);
}

/* Where the report goes, checked before the long work. */
static int find_path(page *p)
{
    if (p->settings->output)
        neap_text_puts(&p->path, p->settings->output);
    else
        default_path(p, &p->path);
    if (p->path.status != NEAP_OK)
        return cli_fail_memory();
    return p->settings->output ? CLI_OK : cli_file_check(p->path.text);
}

static int write_page(const page *p, neap_text *out)
{
    cli_html_report report = {.settings = p->settings, .model = &p->model};
    int code =
        p->read_plan ? cli_html_add_plan(&report, p->read_plan, "judged") : add_results(p, &report);
    if (code == CLI_OK)
        code = cli_html_deliver(&report, p->path.text, out);
    if (code == CLI_OK && !cli_is_stdout(p->path.text))
        say_written(p, report.n_points, p->path.text, out);
    cli_html_clear(&report);
    return code;
}

/* ---- The command ---- */

/* Options of planning that have no use beside --plan. */
static int check_settings(const cli_settings *settings)
{
    const char *option = cli_given_of(settings, CLI_GROUP_CONSTRAINT | CLI_GROUP_GAP);
    if (!option && cli_is_given(settings, "method"))
        option = "method";
    if (!option && cli_is_given(settings, "points"))
        option = "points";
    if (settings->plan_file && option)
        return cli_fail(CLI_BAD_INPUT, "--plan is a plan already; leave out --%s", option);
    if (settings->plan_file && strcmp(settings->plan_file, "-") == 0 &&
        strcmp(settings->operands[0], "-") == 0)
        return cli_fail(CLI_BAD_INPUT, "graph and --plan cannot both come from standard input");
    return CLI_OK;
}

static int read_plan(page *p)
{
    neap_diag diag;
    neap_verdict verdict;
    const char *path = p->settings->plan_file;
    if (neap_plan_read_file(NULL, path, &p->read_plan, &diag) != NEAP_OK)
        return cli_fail_diag(&diag);
    int code = cli_load_budget(&p->model, "budget", p->settings->budget, &p->budget);
    if (code == CLI_OK)
        code = cli_judge_plan(&p->model, path, p->read_plan, p->budget, "graph", NULL, &verdict);
    return code;
}

static int run_report(const cli_settings *settings, neap_text *out)
{
    page p = {.settings = settings, .budget = -1};
    int code = check_settings(settings);
    if (code == CLI_OK)
        code = cli_load_with_times(settings, &p.model);
    if (code == CLI_OK)
        code = find_path(&p);
    if (code == CLI_OK)
        code = cli_load_natural_peak(&p.model);
    if (code == CLI_OK)
        code = settings->plan_file ? read_plan(&p) : plan_page(&p);
    if (code == CLI_OK)
        code = write_page(&p, out);
    if (code == CLI_OK && cli_interrupted())
        code = cli_fail(CLI_STOPPED, "interrupted: the report has what was planned until then");
    for (uint32_t i = 0; i < p.n_done; i++)
        cli_result_clear(&p.results[i]);
    cli_memory_release(p.results, p.methods.count, sizeof *p.results);
    cli_curves_clear(&p.curves);
    cli_memory_release(p.budgets, (size_t)settings->points, sizeof *p.budgets);
    cli_methods_clear(&p.methods);
    neap_plan_destroy(p.read_plan);
    neap_text_clear(&p.path);
    cli_loaded_clear(&p.model);
    return code;
}

const cli_command cli_command_report = {
    .name = "report",
    .operands = "MODEL",
    .summary = "a web page about a plan: memory over time, layers, trade-off",
    .about = "Plans MODEL and writes a report as one HTML file, which any browser opens without a "
             "network: what is in memory at every step, what each layer keeps, recomputes and "
             "moves, what the peak is made of, where each tensor lies, and what other budgets "
             "would cost. The ordinary step without a plan is always there for comparison.\n\n"
             "Of several methods all plans are shown. Without --budget the report is about half "
             "way between the least memory that any plan needs and what the step needs without "
             "one. --plan reports on a plan that exists already; the judge replays it first. "
             "neap plan, compare, curve and train write the report of what they computed with "
             "--report FILE.",
    .examples =
        {
            {"neap report resnet50 --batch 64 --budget 45%", "to resnet50_b64.html"},
            {"neap report gpt2 --budget 6GiB --method neap,sqrt --points 4 -o gpt2.html",
             "two methods, and a curve of four budgets each"},
            {"neap report graph.json --plan plan.json -o plan.html", "a plan that exists already"},
        },
    .groups = CLI_GROUPS_MODEL | CLI_GROUP_SEARCH_LOG | CLI_GROUPS_PLAN | CLI_GROUP_BUDGET |
              CLI_GROUPS_MEASURED | CLI_GROUP_PAGE,
    .least_operands = 1,
    .most_operands = 1,
    .run = run_report,
};
