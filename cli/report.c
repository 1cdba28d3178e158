#include "report.h"

#include "parts.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* ---- JSON ---- */

static void add_figures(cli_json *json, const cli_result *result)
{
    const neap_figures *figures = result->figures;
    bool has_plan = result->plan != NULL;
    const double none = -1;
    cli_json_size(json, "peak_bytes", has_plan ? figures->peak_bytes : -1);
    cli_json_size(json, "arena_bytes", has_plan ? figures->arena_bytes : -1);
    const struct {
        const char *key;
        double number;
        bool exists;
    } REALS[] = {
        {"time", has_plan ? figures->time : none, has_plan},
        {"base_time", figures->base_time, figures->base_time >= 0},
        {"overhead", has_plan ? figures->overhead : none, has_plan},
        {"bound_time", figures->bound_time, figures->bound_time >= 0},
        {"gap", has_plan ? figures->gap : none, has_plan && figures->bound_time >= 0},
        {"solve_seconds", figures->solve_seconds, true},
    };
    for (size_t i = 0; i < sizeof REALS / sizeof REALS[0]; i++) {
        if (REALS[i].exists)
            cli_json_real(json, REALS[i].key, REALS[i].number);
        else
            cli_json_null(json, REALS[i].key);
    }
    cli_json_string(json, "bound_scope", neap_scope_name(figures->bound_scope));
    cli_json_size(json, "recomputed_ops", has_plan ? (int64_t)figures->recomputed_ops : -1);
    cli_json_size(json, "offloaded_bytes", has_plan ? figures->offloaded_bytes : -1);
}

/* The same keys for a method that could not start. */
static void add_no_figures(cli_json *json)
{
    static const char *const KEYS[] = {
        "peak_bytes",     "arena_bytes", "time",          "base_time",   "overhead",
        "bound_time",     "gap",         "solve_seconds", "bound_scope", "recomputed_ops",
        "offloaded_bytes"};
    for (size_t i = 0; i < sizeof KEYS / sizeof KEYS[0]; i++)
        cli_json_null(json, KEYS[i]);
}

static void add_extras(cli_json *json, const neap_solution *solution)
{
    for (uint32_t i = 0; i < neap_solution_extra_count(solution); i++) {
        const neap_extra *extra = neap_solution_extra_at(solution, i);
        if (extra->is_list)
            cli_json_integers(json, extra->name, extra->items, extra->n_items);
        else
            cli_json_real(json, extra->name, extra->number);
    }
}

static void add_op(cli_json *json, const char *key, const cli_loaded *model, uint32_t op)
{
    cli_json_string(json, key, op == NEAP_NONE ? NULL : neap_graph_op(model->graph, op)->name);
}

static void add_infeasible(cli_json *json, const cli_loaded *model, const neap_figures *figures)
{
    cli_json_size(json, "least_budget_bytes", figures->least_budget);
    add_op(json, "blocking_op", model, figures->blocking_op);
}

static void add_floor(cli_json *json, const cli_loaded *model, const neap_figures *figures)
{
    cli_json_size(json, "floor_bytes", figures->floor_bytes);
    add_op(json, "floor_op", model, figures->floor_op);
}

void cli_report_json(cli_json *json, const char *key, const cli_loaded *model,
                     const cli_result *result, const char *message)
{
    cli_json_object(json, key);
    cli_json_string(json, "graph", neap_graph_name(model->graph));
    cli_json_string(json, "method", result->method);
    cli_json_string(json, "status", cli_result_status(result));
    if (result->batch > 0)
        cli_json_integer(json, "batch", result->batch);
    cli_json_size(json, "budget_bytes", result->budget);
    cli_json_size(json, "natural_peak_bytes", model->natural_peak);
    if (result->solved) {
        add_figures(json, result);
        if (result->has_parts) {
            cli_parts_json(json, "natural_peak_parts", &result->natural_parts);
            cli_parts_json(json, "peak_parts", &result->parts);
        }
        add_extras(json, result->solution);
        if (result->figures->outcome == NEAP_INFEASIBLE)
            add_infeasible(json, model, result->figures);
        if (result->by_peak || result->figures->outcome == NEAP_INFEASIBLE)
            add_floor(json, model, result->figures);
        if (!message && *neap_solution_message(result->solution))
            message = neap_solution_message(result->solution);
    } else {
        add_no_figures(json);
        message = result->note.message;
    }
    if (message)
        cli_json_string(json, "message", message);
    cli_json_end_object(json);
}

/* ---- Text ---- */

void cli_report_link_json(cli_json *json, const neap_link *link)
{
    if (link->out_bandwidth <= 0)
        return;
    cli_json_object(json, "link");
    cli_json_real(json, "out_bandwidth", link->out_bandwidth);
    cli_json_real(json, "in_bandwidth", link->in_bandwidth);
    cli_json_real(json, "latency", link->latency);
    cli_json_bool(json, "duplex", link->duplex);
    cli_json_end_object(json);
}

const char *cli_scope_words(neap_scope scope)
{
    static const char *const WORDS[] = {
        [NEAP_SCOPE_ANY] = "any order",
        [NEAP_SCOPE_ORDER] = "fixed order",
        [NEAP_SCOPE_FRONTIER] = "fixed order, frontier by frontier",
        [NEAP_SCOPE_PASSES] = "passes in fixed order",
        [NEAP_SCOPE_ONCE] = "fixed order, only moving activations",
    };
    return WORDS[scope];
}

void cli_report_op(neap_text *line, const neap_graph *graph, uint32_t op)
{
    if (op != NEAP_NONE)
        neap_text_printf(line, " (op \"%s\")", neap_graph_op(graph, op)->name);
}

void cli_report_floor(neap_text *line, const neap_graph *graph, const neap_figures *figures)
{
    cli_text text;
    neap_text_printf(line, "no plan takes less than %s", cli_bytes(&text, figures->floor_bytes));
    if (figures->floor_op == NEAP_NONE)
        neap_text_puts(line, " (the outputs)");
    cli_report_op(line, graph, figures->floor_op);
}

void cli_report_title(neap_text *out, const cli_loaded *model)
{
    cli_styled(out, CLI_BOLD, "%s", neap_graph_name(model->graph));
    if (model->device)
        cli_styled(out, CLI_DIM, " on %s", model->device->name);
}

int64_t cli_report_least(const cli_result *result)
{
    const neap_figures *figures = result->figures;
    if (!result->solved || result->plan)
        return -1;
    if (figures->least_budget > 0)
        return figures->least_budget;
    return figures->outcome == NEAP_INFEASIBLE && figures->floor_bytes > 0 ? figures->floor_bytes
                                                                           : -1;
}

bool cli_report_bound(const cli_result *result, double *overhead)
{
    const neap_figures *figures = result->figures;
    if (!result->solved || figures->bound_scope != NEAP_SCOPE_ANY || !(figures->base_time > 0) ||
        !(figures->bound_time >= 0))
        return false;
    *overhead = figures->bound_time / figures->base_time - 1;
    return true;
}

const cli_column cli_report_columns[CLI_REPORT_COLUMNS] = {
    {"method", false, false}, {"status", false, false},   {"peak", true, false},
    {"arena", true, false},   {"time", true, true},       {"overhead", true, false},
    {"gap", true, false},     {"recomputed", true, true}, {"solved in", true, false},
};

void cli_report_row(cli_table *table, const cli_result *result, bool best)
{
    cli_text text;
    const neap_figures *figures = result->figures;
    cli_cell(table, best ? CLI_BOLD : CLI_PLAIN, "%s%s", result->method, best ? " *" : "");
    cli_cell(table, result->plan ? CLI_GOOD : CLI_BAD, "%s", cli_result_words(result));
    if (result->plan) {
        cli_style style = best ? CLI_BOLD : CLI_PLAIN;
        cli_cell(table, style, "%s", cli_bytes(&text, figures->peak_bytes));
        cli_cell(table, style, "%s", cli_bytes(&text, figures->arena_bytes));
        cli_cell(table, style, "%s", cli_seconds(&text, figures->time));
        cli_cell(table, style, "%s", cli_percent(&text, figures->overhead));
        cli_cell(table, style, "%.2f%%", 100 * figures->gap);
        cli_cell(table, style, "%" PRIu64, figures->recomputed_ops);
    } else {
        int64_t least = cli_report_least(result);
        bool known = least > 0;
        if (known)
            cli_cell(table, CLI_DIM, ">=%s", cli_bytes(&text, least));
        for (int i = known; i < 6; i++)
            cli_cell(table, CLI_DIM, "-");
    }
    if (result->solved)
        cli_cell(table, CLI_DIM, "%s", cli_seconds(&text, figures->solve_seconds));
    else
        cli_cell(table, CLI_DIM, "-");
}

/* ---- CSV ---- */

void cli_report_csv_begin(cli_csv *csv)
{
    cli_csv_begin(csv, "method,budget_bytes,status,peak_bytes,arena_bytes,time,overhead,"
                       "bound_time,gap,recomputed_ops,offloaded_bytes,least_budget_bytes,"
                       "solve_seconds");
}

void cli_report_csv_row(cli_csv *csv, const cli_result *result)
{
    const neap_figures *figures = result->figures;
    cli_csv_word(csv, result->method);
    cli_csv_size(csv, result->budget);
    cli_csv_word(csv, cli_result_status(result));
    if (result->plan) {
        cli_csv_size(csv, figures->peak_bytes);
        cli_csv_size(csv, figures->arena_bytes);
        cli_csv_real(csv, figures->time);
        cli_csv_real(csv, figures->overhead);
    } else {
        cli_csv_none(csv, 4);
    }
    bool bounded = result->solved && figures->bound_time >= 0;
    cli_csv_real(csv, bounded ? figures->bound_time : (double)NAN);
    if (result->plan) {
        cli_csv_real(csv, bounded ? figures->gap : (double)NAN);
        cli_csv_integer(csv, (int64_t)figures->recomputed_ops);
        cli_csv_size(csv, figures->offloaded_bytes);
    } else {
        cli_csv_none(csv, 3);
    }
    cli_csv_size(csv, cli_report_least(result));
    cli_csv_real(csv, result->solved ? figures->solve_seconds : (double)NAN);
    cli_csv_end_row(csv);
}
