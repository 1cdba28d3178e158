#include "explain.h"

#include "output.h"
#include "report.h"

#include <neap/graph.h>
#include <string.h>

/* Seconds for the search for a method that fits: for each, and in all. */
static const double EACH_LIMIT = 2, ALL_LIMIT = 6;

/* What the other methods can do in this budget. */
typedef struct alternatives {
    const char *fits; /* the fastest with a plan, or NULL */
    double fits_time;
    const char *lowest; /* the one that needs least, or NULL */
    int64_t lowest_budget;
} alternatives;

static void consider(alternatives *found, const cli_result *result)
{
    if (!result->solved)
        return;
    const neap_figures *figures = result->figures;
    if (result->plan && (!found->fits || figures->time < found->fits_time)) {
        found->fits = result->method;
        found->fits_time = figures->time;
    }
    if (!result->plan && figures->least_budget > 0 &&
        (!found->lowest || figures->least_budget < found->lowest_budget)) {
        found->lowest = result->method;
        found->lowest_budget = figures->least_budget;
    }
}

static int try_others(cli_run *run, const cli_result *failed, alternatives *found)
{
    double begin = cli_clock();
    uint32_t count = neap_methods_count();
    for (uint32_t i = 0; i < count; i++) {
        if (cli_interrupted() || cli_clock() - begin > ALL_LIMIT)
            break;
        const char *name = neap_method_name(neap_methods_at(i));
        if (strcmp(name, failed->method) == 0 || !cli_can_run(run->model, neap_methods_at(i)))
            continue;
        cli_progress_part(&run->progress, name, i, count);
        cli_result result;
        int code = cli_solve(run, name, failed->budget, EACH_LIMIT, &result);
        if (code == CLI_OK)
            consider(found, &result);
        cli_result_clear(&result);
        if (code != CLI_OK)
            return code;
    }
    return CLI_OK;
}

/* "budget 3.00 GiB is below the least sqrt can do here, 3.41 GiB (op "conv5_bw")" */
static void add_reason(const cli_run *run, const cli_result *failed, bool all_tried,
                       neap_text *line)
{
    cli_text budget, least;
    const neap_figures *figures = failed->figures;
    const char *shortage = neap_solution_shortage(failed->solution);
    cli_bytes(&budget, failed->budget);
    if (*shortage && figures->least_budget > 0)
        neap_text_printf(line, "%s; ", shortage);
    if (figures->least_budget > 0) {
        cli_bytes_pair(&budget, failed->budget, &least, figures->least_budget);
        if (all_tried)
            neap_text_printf(line, "budget %s is below the least any method can do here, %s by %s",
                             budget.chars, least.chars, failed->method);
        else
            neap_text_printf(line, "budget %s is below the least %s can do here, %s", budget.chars,
                             failed->method, least.chars);
        cli_report_op(line, run->model->graph, figures->blocking_op);
    } else if (*neap_solution_message(failed->solution)) {
        neap_text_puts(line, neap_solution_message(failed->solution));
    } else {
        neap_text_printf(line, "%s has no plan within %s", failed->method, budget.chars);
    }
}

static void add_remedy(const cli_result *failed, const alternatives *found, neap_text *line)
{
    cli_text size;
    int64_t least = failed->figures->least_budget;
    if (found->fits) {
        neap_text_printf(line, "; try --method %s", found->fits);
        if (least > 0)
            neap_text_printf(line, " or --budget %s", cli_bytes_above(&size, least));
    } else if (found->lowest && (least <= 0 || found->lowest_budget < least)) {
        neap_text_printf(line, "; try --method %s --budget %s, the least of all methods",
                         found->lowest, cli_bytes_above(&size, found->lowest_budget));
    } else if (least > 0) {
        neap_text_printf(line, "; try --budget %s", cli_bytes_above(&size, least));
    }
}

int cli_explain(cli_run *run, const cli_result *failed, bool all_tried, neap_text *line)
{
    cli_text size;
    alternatives found = {0};
    if (!all_tried) {
        run->progress.logs = false; /* what was asked for is over */
        int code = try_others(run, failed, &found);
        if (code != CLI_OK)
            return code;
    }
    add_reason(run, failed, all_tried, line);
    if (failed->figures->least_budget > 0) { /* else the library's message has said it */
        neap_text_puts(line, "; ");
        cli_report_floor(line, run->model->graph, failed->figures);
    }
    if (strcmp(failed->method, "store-all") != 0)
        neap_text_printf(line, "; store-all needs %s", cli_bytes(&size, run->model->natural_peak));
    add_remedy(failed, &found, line);
    return line->status != NEAP_OK ? cli_fail_memory() : CLI_OK;
}

/* ---- Several methods ---- */

static const cli_result *find_lowest(const cli_result *results, size_t count)
{
    const cli_result *lowest = NULL;
    for (size_t i = 0; i < count; i++) {
        const cli_result *result = &results[i];
        if (result->solved && result->figures->least_budget > 0 &&
            (!lowest || result->figures->least_budget < lowest->figures->least_budget))
            lowest = result;
    }
    return lowest;
}

int cli_explain_all(const cli_loaded *model, const cli_result *results, size_t count,
                    int64_t budget)
{
    const cli_result *lowest = find_lowest(results, count);
    if (!lowest)
        return cli_fail(CLI_INFEASIBLE, "no method here has a plan");
    cli_text given, least, size;
    neap_text line = {0};
    int64_t bytes = lowest->figures->least_budget;
    cli_bytes_pair(&given, budget < 0 ? bytes : budget, &least, bytes);
    if (budget < 0)
        neap_text_puts(&line, "all budgets are");
    else
        neap_text_printf(&line, "budget %s is", given.chars);
    neap_text_printf(&line, " below the least these methods can do here, %s by %s", least.chars,
                     lowest->method);
    cli_report_op(&line, model->graph, lowest->figures->blocking_op);
    neap_text_puts(&line, "; ");
    cli_report_floor(&line, model->graph, lowest->figures);
    int code = line.status != NEAP_OK
                   ? cli_fail_memory()
                   : cli_fail(CLI_INFEASIBLE, "%s; try --%s %s", line.text,
                              budget < 0 ? "to" : "budget", cli_bytes_above(&size, bytes));
    neap_text_clear(&line);
    return code;
}
