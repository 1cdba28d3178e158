#include "no_plan.h"

#include "output.h"
#include "report.h"

#include <neap/graph.h>
#include <string.h>

/* Time limits in seconds of the search for a method that fits: per method, and in total. */
static const double EACH_LIMIT = 0.25, ALL_LIMIT = 1, LEAST_LIMIT = 0.05;
static const char BEST[] = "neap";

static const char PEAK_ADVICE[] = "; --method neap --objective peak finds the least that works";

/* The results of the other methods at this budget. */
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

static int try_method(cli_run *run, const char *name, const cli_result *failed, double limit,
                      alternatives *found)
{
    cli_result result;
    int code = cli_solve(run, name, failed->budget, limit, &result);
    if (code == CLI_OK)
        consider(found, &result);
    cli_result_clear(&result);
    return code;
}

/* Whether the method, or the one that it is a part of, has failed already. */
static bool has_failed(const neap_method *method, const cli_result *failed)
{
    const char *whole = neap_method_part_of(method);
    return strcmp(whole ? whole : neap_method_name(method), failed->method) == 0;
}

/* Seconds for the search; a little, if the user's time limit has passed. */
static double time_left(const cli_run *run, const cli_result *failed)
{
    double left = cli_time_limit(run) - failed->figures->solve_seconds;
    if (run->settings->time_limit <= 0 || left > ALL_LIMIT)
        return ALL_LIMIT;
    return left > LEAST_LIMIT ? left : LEAST_LIMIT;
}

/*
 * The default method has a plan if there is one, mostly. If it finds nothing in the time that is
 * left of the user's, others are tried, each for a short time.
 */
static int try_others(cli_run *run, const cli_result *failed, alternatives *found)
{
    double begin = cli_clock(), limit = time_left(run, failed);
    double each = limit < EACH_LIMIT ? limit : EACH_LIMIT;
    if (!has_failed(neap_methods_find(BEST), failed)) {
        int code = try_method(run, BEST, failed, each, found);
        if (code != CLI_OK || found->fits || found->lowest)
            return code;
    }
    uint32_t count = neap_methods_count();
    for (uint32_t i = 0; i < count; i++) {
        if (cli_interrupted() || cli_clock() - begin > limit)
            break;
        const neap_method *method = neap_methods_at(i);
        const char *name = neap_method_name(method);
        if (has_failed(method, failed) || strcmp(name, BEST) == 0 ||
            !cli_can_run(run->model, method))
            continue;
        cli_progress_part(&run->progress, name, i, count);
        int code = try_method(run, name, failed, each, found);
        if (code != CLI_OK)
            return code;
    }
    return CLI_OK;
}

static int64_t state_bytes(const neap_graph *graph)
{
    int64_t bytes = 0;
    for (uint32_t v = 0; v < neap_graph_value_count(graph); v++)
        if (neap_graph_value(graph, v)->state)
            bytes += neap_graph_value(graph, v)->bytes;
    return bytes;
}

/* Who needs so much: "op "conv5_bw" needs", or with them what is always in memory. */
static void add_who(neap_text *line, const cli_loaded *model, const neap_graph *graph,
                    int64_t bytes, uint32_t op)
{
    cli_text size;
    int64_t state = model->moves_state ? 0 : state_bytes(graph);
    if (state > bytes / 2)
        neap_text_printf(line, "the parameters and state (%s) and ", cli_bytes(&size, state));
    if (op == NEAP_NONE)
        neap_text_puts(line, "the outputs need");
    else
        neap_text_printf(line, "op \"%s\" need%s", neap_graph_op(graph, op)->name,
                         state > bytes / 2 ? "" : "s");
}

static bool ends_with_gradients(const neap_graph *graph)
{
    for (uint32_t v = 0; v < neap_graph_value_count(graph); v++)
        if (neap_graph_is_output(graph, v) &&
            strcmp(neap_graph_value(graph, v)->kind, NEAP_KIND_GRADIENT) == 0)
            return true;
    return false;
}

/* What would lower the floor. */
static void add_floor_advice(neap_text *line, const cli_loaded *model, const neap_graph *graph,
                             int64_t bytes, uint32_t op)
{
    cli_text size;
    int64_t travelling = neap_graph_travel_floor_bytes(graph, NULL);
    if (travelling < bytes && !model->moves_state)
        neap_text_printf(line, "; with %s, state can be on the host, and %s may do",
                         model->link.out_bandwidth > 0 ? "--state auto" : "--link",
                         cli_bytes(&size, travelling));
    if (model->in_place_floor >= 0 && model->in_place_floor < bytes && graph == model->graph)
        neap_text_printf(line, "; with --in-place yes, %s may do",
                         cli_bytes(&size, model->in_place_floor));
    if (op == NEAP_NONE && !cli_has_updates(graph) && ends_with_gradients(graph))
        neap_text_puts(line, "; with --optimizer, gradients need not stay to the end");
}

/* "budget 512 MiB is below 722 MiB, which op "conv5_bw" needs whatever is recomputed" */
static void add_floor(neap_text *line, const cli_loaded *model, const neap_graph *graph,
                      const char *what, int64_t budget, int64_t bytes, uint32_t op)
{
    cli_text given, least;
    cli_bytes_pair(&given, budget, &least, bytes);
    neap_text_printf(line, "%s %s is below %s, which ", what, given.chars, least.chars);
    add_who(line, model, graph, bytes, op);
    neap_text_puts(line, " whatever is recomputed");
    add_floor_advice(line, model, graph, bytes, op);
}

/* "budget 3.00 GiB is below the least that sqrt found, 3.41 GiB (op "conv5_bw")" */
static void add_reason(const cli_run *run, const cli_result *failed, neap_text *line)
{
    cli_text budget, least;
    const neap_figures *figures = failed->figures;
    const char *shortage = neap_solution_shortage(failed->solution);
    if (figures->least_budget <= 0) {
        neap_text_puts(line, neap_solution_message(failed->solution));
        return;
    }
    if (*shortage)
        neap_text_printf(line, "%s; ", shortage);
    cli_bytes_pair(&budget, failed->budget, &least, figures->least_budget);
    neap_text_printf(line, "budget %s is below the least that %s found, %s", budget.chars,
                     failed->method, least.chars);
    cli_report_op(line, run->model->graph, figures->blocking_op);
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
        neap_text_printf(line, "; try --method %s --budget %s", found->lowest,
                         cli_bytes_above(&size, found->lowest_budget));
    } else if (least > 0) {
        neap_text_printf(line, "; try --budget %s", cli_bytes_above(&size, least));
    }
}

static void add_store_all(const cli_run *run, const cli_result *failed, neap_text *line)
{
    cli_text size;
    if (strcmp(failed->method, "store-all") != 0)
        neap_text_printf(line, "; store-all needs %s", cli_bytes(&size, run->model->natural_peak));
}

int cli_no_plan_why(cli_run *run, const cli_result *failed, bool all_tried, neap_text *line)
{
    const neap_figures *figures = failed->figures;
    const neap_graph *graph = run->model->graph;
    alternatives found = {0};
    if (failed->budget >= 0 && failed->budget < figures->floor_bytes) {
        add_floor(line, run->model, graph, "budget", failed->budget, figures->floor_bytes,
                  figures->floor_op);
        add_store_all(run, failed, line);
        neap_text_puts(line, PEAK_ADVICE);
        return line->status != NEAP_OK ? cli_fail_memory() : CLI_OK;
    }
    run->progress.logs = false; /* the requested search has ended */
    run->progress.purpose = "no plan; looking for a method that has one";
    int code = all_tried ? CLI_OK : try_others(run, failed, &found);
    if (code != CLI_OK)
        return code;
    add_reason(run, failed, line);
    neap_text_puts(line, "; ");
    cli_report_floor(line, graph, figures);
    add_store_all(run, failed, line);
    add_remedy(failed, &found, line);
    return line->status != NEAP_OK ? cli_fail_memory() : CLI_OK;
}

int cli_no_plan_floor(const cli_loaded *model, const neap_graph *graph, const char *what,
                      int64_t budget, int64_t bytes, uint32_t op, const char *advice)
{
    neap_text line = {0};
    if (budget < 0 || budget >= bytes)
        return CLI_OK;
    add_floor(&line, model, graph, what, budget, bytes, op);
    int code = line.status != NEAP_OK ? cli_fail_memory()
                                      : cli_fail(CLI_INFEASIBLE, "%s%s", line.text, advice);
    neap_text_clear(&line);
    return code;
}

int cli_no_plan_floor_unmeasured(const cli_loaded *model, int64_t budget, int64_t *floor)
{
    const neap_graph *graph = model->graph;
    uint32_t op;
    *floor = cli_floor(model, graph, &op);
    if (op != NEAP_NONE) {
        const neap_op *floor_op = neap_graph_op(graph, op);
        int64_t workspace = floor_op->variants[0].workspace;
        for (uint32_t k = 1; k < floor_op->n_variants; k++)
            if (floor_op->variants[k].workspace < workspace)
                workspace = floor_op->variants[k].workspace;
        *floor -= workspace;
    }
    return cli_no_plan_floor(model, graph, "budget", budget, *floor, op, PEAK_ADVICE);
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

static bool any_ran_out_of_time(const cli_result *results, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (results[i].solved && results[i].figures->outcome == NEAP_TIME_LIMIT)
            return true;
    return false;
}

/* The largest of their budgets. */
static int64_t largest_budget(const cli_result *results, size_t count)
{
    int64_t largest = -1;
    for (size_t i = 0; i < count; i++)
        if (results[i].method && results[i].budget > largest)
            largest = results[i].budget;
    return largest;
}

int cli_no_plan_all(const cli_loaded *model, const cli_result *results, size_t count,
                    const char *option)
{
    const cli_result *lowest = find_lowest(results, count);
    const char *what = strcmp(option, "to") == 0 ? "the largest budget" : "budget";
    int64_t budget = largest_budget(results, count);
    uint32_t op;
    int64_t floor_bytes = cli_floor(model, model->graph, &op);
    for (size_t i = 0; i < count; i++) /* theirs counts the alignment */
        if (results[i].solved && results[i].figures->floor_bytes > floor_bytes) {
            floor_bytes = results[i].figures->floor_bytes;
            op = results[i].figures->floor_op;
        }
    int code = cli_no_plan_floor(model, model->graph, what, budget, floor_bytes, op, "");
    if (code != CLI_OK)
        return code;
    if (!lowest && any_ran_out_of_time(results, count))
        return cli_fail(CLI_STOPPED,
                        "no plan was found within the time limit; raise --time-limit or --%s, or "
                        "try another --method",
                        option);
    if (!lowest)
        return cli_fail(CLI_INFEASIBLE, "no method here has a plan");
    cli_text given, least, size;
    neap_text line = {0};
    int64_t bytes = lowest->figures->least_budget;
    cli_bytes_pair(&given, budget, &least, bytes);
    neap_text_printf(&line, "%s %s is below the least that these methods found, %s by %s", what,
                     given.chars, least.chars, lowest->method);
    cli_report_op(&line, model->graph, lowest->figures->blocking_op);
    neap_text_puts(&line, "; ");
    cli_report_floor(&line, model->graph, lowest->figures);
    code = line.status != NEAP_OK ? cli_fail_memory()
                                  : cli_fail(CLI_INFEASIBLE, "%s; try --%s %s", line.text, option,
                                             cli_bytes_above(&size, bytes));
    neap_text_clear(&line);
    return code;
}
