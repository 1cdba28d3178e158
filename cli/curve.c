/* curve.c - neap curve: overhead against budget, one line per method. */

#include "command.h"
#include "curves.h"
#include "files.h"
#include "html_report.h"
#include "measured.h"
#include "memory.h"
#include "no_plan.h"
#include "output.h"
#include "pictures.h"
#include "report.h"

#include <math.h>
#include <neap/curve.h>
#include <string.h>

typedef struct curve {
    const cli_settings *settings;
    cli_loaded model;
    cli_methods methods;
    size_t n_budgets, budget_capacity;
    int64_t *budgets;
    cli_curves curves;
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
            const cli_result *result = cli_curves_at(&c->curves, b, m);
            cli_text text;
            if (result && result->plan)
                cli_cell(&table, result == cli_curves_best(&c->curves, b) ? CLI_GOOD : CLI_PLAIN,
                         "%s", cli_percent(&text, result->figures->overhead));
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

static int write_csv(const curve *c, neap_text *out)
{
    cli_csv csv;
    cli_report_csv_begin(&csv);
    for (size_t i = 0; i < c->curves.n_results; i++)
        if (cli_curves_nth(&c->curves, i))
            cli_report_csv_row(&csv, cli_curves_nth(&c->curves, i));
    return cli_csv_deliver(&csv, c->settings->csv, out);
}

/* ---- Pictures ---- */

typedef struct drawing {
    size_t capacity;
    neap_curve_point *points;
    neap_curve_bound *bounds;
    neap_text title;
    neap_curve_picture picture;
} drawing;

static void drawing_clear(drawing *d)
{
    cli_memory_release(d->points, d->capacity, sizeof *d->points);
    cli_memory_release(d->bounds, d->capacity, sizeof *d->bounds);
    neap_text_clear(&d->title);
}

static void add_point(drawing *d, const cli_result *result)
{
    neap_curve_bound *bound = &d->bounds[d->picture.n_bounds];
    if (cli_report_bound(result, &bound->overhead)) {
        bound->budget = result->budget;
        d->picture.n_bounds++;
    }
    neap_curve_point *point = &d->points[d->picture.n_points++];
    *point = (neap_curve_point){.method = result->method, .budget = result->budget};
    if (result->plan) {
        point->feasible = true;
        point->peak = result->figures->peak_bytes;
        point->overhead = result->figures->overhead;
    }
}

/* What is to be drawn. Clear it also after a failure. */
static int drawing_init(drawing *d, const curve *c)
{
    *d = (drawing){.capacity = c->curves.n_results};
    d->points = cli_memory_new(d->capacity, sizeof *d->points);
    d->bounds = cli_memory_new(d->capacity, sizeof *d->bounds);
    cli_picture_title(&d->title, c->settings, &c->model, 0, NULL);
    if (!d->points || !d->bounds || d->title.status != NEAP_OK)
        return cli_fail_memory();
    neap_curve_picture_init(&d->picture);
    d->picture.title = d->title.text;
    d->picture.points = d->points;
    d->picture.bounds = d->bounds;
    d->picture.natural_peak = c->model.natural_peak;
    d->picture.floor = cli_floor(&c->model, c->model.graph, NULL);
    for (size_t i = 0; i < c->curves.n_results; i++)
        if (cli_curves_nth(&c->curves, i))
            add_point(d, cli_curves_nth(&c->curves, i));
    return CLI_OK;
}

/* The picture as SVG, or, with no path, as a chart below the table. */
static int draw(const curve *c, const char *path, neap_text *out)
{
    drawing d;
    neap_diag diag;
    char *text;
    size_t length;
    int code = drawing_init(&d, c);
    if (code == CLI_OK && path) {
        neap_status status = neap_report_curve_svg(NULL, &d.picture, &text, &length, &diag);
        code = cli_picture_deliver(status, &diag, path, text, length, out);
    } else if (code == CLI_OK) {
        neap_chart_options options;
        cli_chart_options(&options, 8); /* the scale of overheads stands beside the plot */
        options.height = 16;
        neap_text_puts(out, "\n");
        neap_status status =
            neap_report_curve_chart(NULL, &d.picture, &options, &text, &length, &diag);
        code = cli_picture_deliver(status, &diag, "-", text, length, out);
    }
    drawing_clear(&d);
    return code;
}

/* The plan that a report is about: the best one of the budget in the middle of those that have a
   plan. NULL: none has. */
static const cli_result *main_plan(const curve *c)
{
    size_t count = 0, seen = 0;
    for (size_t b = 0; b < c->n_budgets; b++)
        count += cli_curves_best(&c->curves, b) != NULL;
    for (size_t b = 0; b < c->n_budgets; b++) {
        const cli_result *best = cli_curves_best(&c->curves, b);
        if (best && seen++ == count / 2)
            return best;
    }
    return NULL;
}

static int write_report(const curve *c, neap_text *out)
{
    cli_html_report report = {.settings = c->settings, .model = &c->model};
    int code = cli_html_add(&report, main_plan(c));
    for (size_t i = 0; i < c->curves.n_results && code == CLI_OK; i++)
        if (cli_curves_nth(&c->curves, i))
            code = cli_html_add_point(&report, cli_curves_nth(&c->curves, i));
    if (code == CLI_OK)
        code = cli_html_deliver(&report, c->settings->report, out);
    cli_html_clear(&report);
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
        code = draw(c, settings->svg, out);
    if (code == CLI_OK && settings->report && main_plan(c))
        code = write_report(c, out);
    if (code != CLI_OK)
        return code;
    if (settings->json) {
        cli_json json;
        cli_json_begin(&json, out);
        cli_json_array(&json, NULL);
        for (size_t i = 0; i < c->curves.n_results; i++)
            if (cli_curves_nth(&c->curves, i))
                cli_report_json(&json, NULL, &c->model, cli_curves_nth(&c->curves, i), NULL);
        cli_json_end_array(&json);
    } else if (!cli_stdout_taken(settings)) {
        add_table(c, out);
        if (settings->chart)
            code = draw(c, NULL, out);
    }
    if (code != CLI_OK)
        return code;
    if (cli_interrupted())
        return cli_fail(CLI_STOPPED, "interrupted: %u of %u methods were tried", c->curves.n_done,
                        c->methods.count);
    for (size_t b = 0; b < c->n_budgets; b++)
        if (cli_curves_best(&c->curves, b))
            return CLI_OK;
    return cli_no_plan_all(&c->model, c->curves.results, c->curves.n_results, "to");
}

static int run_curve(const cli_settings *settings, neap_text *out)
{
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
    c.curves = (cli_curves){.settings = settings,
                            .model = &c.model,
                            .methods = &c.methods,
                            .n_budgets = c.n_budgets,
                            .budgets = c.budgets};
    if (code == CLI_OK)
        code = cli_curves_solve(&c.curves);
    if (code == CLI_OK)
        code = cli_results_share_bounds(c.curves.results, c.curves.n_results);
    if (code == CLI_OK)
        code = show(&c, out);
    cli_curves_clear(&c.curves);
    cli_memory_release(c.budgets, c.budget_capacity, sizeof *c.budgets);
    cli_methods_clear(&c.methods);
    cli_loaded_clear(&c.model);
    return code;
}

const cli_command cli_command_curve = {
    .name = "curve",
    .operands = "MODEL",
    .summary = "what each budget costs: overhead against memory",
    .about =
        "Plans MODEL by every method, or by those that --method names, at several budgets, "
        "and prints what less memory costs in time: the overhead over one run of every op. "
        "Budgets are a list, or evenly spaced between two sizes; percentages are of what the "
        "step needs without a plan. A larger budget never costs more: where a method's plan "
        "for it is slower, the plan for the smaller budget is used. Time that one budget "
        "leaves unused goes to the others. --csv has all figures, --svg and --chart a picture of "
        "them: methods that coincide share a line, and the bound shows what no plan can do.",
    .examples =
        {
            {"neap curve vgg16 --method sqrt,greedy --svg vgg16.svg", "two curves as a picture"},
            {"neap curve resnet50 --batch 64 --from 30% --points 5", "five budgets, every method"},
            {"neap curve graph.json --budgets 4GiB,6GiB,8GiB --csv points.csv",
             "three budgets, as data for your own plot"},
        },
    .groups = CLI_GROUPS_MODEL | CLI_GROUPS_PLAN | CLI_GROUP_CURVE | CLI_GROUPS_MEASURED |
              CLI_GROUP_CHART | CLI_GROUP_CSV | CLI_GROUP_SVG | CLI_GROUP_REPORT | CLI_GROUP_JSON |
              CLI_GROUP_SEARCH_LOG,
    .least_operands = 1,
    .most_operands = 1,
    .run = run_curve,
};
