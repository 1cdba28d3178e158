#include "solve.h"

#include <neap/text.h>

#include "memory.h"
#include "output.h"

#include <string.h>

/* ---- Results ---- */

void cli_result_clear(cli_result *result)
{
    neap_solution_destroy(result->solution);
    *result = (cli_result){0};
}

const char *cli_result_status(const cli_result *result)
{
    return result->solved ? neap_outcome_name(result->figures->outcome) : "unsupported";
}

const char *cli_result_words(const cli_result *result)
{
    static const double OPTIMAL_TO = 1e-4; /* a gap below half of it is shown as 0.00% */
    bool is_optimal = result->plan && !result->by_peak && result->figures->bound_time > 0 &&
                      result->figures->outcome != NEAP_OPTIMAL &&
                      result->figures->gap < OPTIMAL_TO / 2;
    return is_optimal ? "optimal (to 0.01%)" : cli_result_status(result);
}

int cli_results_share_bounds(cli_result *results, size_t count)
{
    neap_solution **solutions = cli_memory_new(count, sizeof(neap_solution *));
    if (!solutions)
        return cli_fail_memory();
    for (size_t i = 0; i < count; i++)
        solutions[i] = results[i].solution;
    neap_solutions_share_bounds(solutions, count);
    cli_memory_release(solutions, count, sizeof(neap_solution *));
    return CLI_OK;
}

bool cli_result_has_addresses(const cli_result *result)
{
    size_t count;
    return result->plan && neap_plan_offsets(result->plan, &count) != NULL;
}

bool cli_result_better(const cli_result *a, const cli_result *b)
{
    if (!a->plan || !b->plan)
        return a->plan && !b->plan;
    if (cli_result_has_addresses(a) != cli_result_has_addresses(b))
        return cli_result_has_addresses(a);
    if (a->figures->time < b->figures->time || a->figures->time > b->figures->time)
        return a->figures->time < b->figures->time;
    return a->figures->peak_bytes < b->figures->peak_bytes;
}

/* ---- One method ---- */

void cli_run_begin(cli_run *run, const cli_settings *settings, const cli_loaded *model)
{
    *run = (cli_run){.settings = settings, .model = model};
    cli_progress_begin(&run->progress);
    if (settings->log)
        cli_progress_log(&run->progress,
                         neap_graph_seconds(model->graph, neap_graph_base_ticks(model->graph)));
}

void cli_run_end(cli_run *run)
{
    cli_memory_release(run->options, run->settings->n_options, sizeof *run->options);
    cli_progress_end(&run->progress);
}

static bool has_option(const neap_method *method, const char *name)
{
    for (uint32_t i = 0; i < neap_method_option_count(method); i++)
        if (strcmp(neap_method_option_at(method, i)->name, name) == 0)
            return true;
    return false;
}

/* Those of the --option settings that a method has, into `options`; how many. */
static uint32_t select_options(const cli_settings *settings, const char *name,
                               neap_option_setting *options)
{
    const neap_method *method = neap_methods_find(name);
    uint32_t count = 0;
    for (uint32_t i = 0; i < settings->n_options; i++)
        if (method && has_option(method, settings->options[i].name))
            options[count++] = settings->options[i];
    return count;
}

int cli_request_init(cli_run *run, const char *method, neap_request *request)
{
    const cli_settings *settings = run->settings;
    neap_request_init(request, run->model->graph, method);
    if (settings->n_options > 0 && !run->options) {
        run->options = cli_memory_new(settings->n_options, sizeof *run->options);
        if (!run->options)
            return cli_fail_memory();
    }
    if (settings->n_options > 0)
        request->n_options = select_options(settings, method, run->options);
    request->options = run->options;
    request->link = run->model->link;
    request->threads = (int)settings->threads;
    request->seed = settings->seed;
    request->alignment = run->model->alignment;
    request->gap = settings->gap;
    request->state = (neap_state_place)settings->state;
    if (settings->objective == CLI_OBJECTIVE_PEAK) /* the largest batch is a search of its own */
        request->objective = NEAP_LEAST_PEAK;
    request->n_pins = settings->n_pins;
    request->pins = settings->pins;
    request->start = run->model->start;
    request->progress = &run->progress.base;
    return CLI_OK;
}

int cli_result_set(cli_result *result, neap_status status, neap_solution *solution)
{
    if (status == NEAP_UNSUPPORTED)
        return CLI_OK;
    if (status != NEAP_OK)
        return cli_fail_diag(&result->note);
    result->solved = true;
    result->solution = solution;
    result->figures = neap_solution_figures(solution);
    result->plan = neap_solution_plan(solution);
    return CLI_OK;
}

int cli_fail_unsupported(const cli_loaded *model, const char *method, const neap_diag *diag)
{
    if (cli_can_run(model, neap_methods_find(method)))
        return cli_fail_diag(diag);
    return cli_fail(CLI_BAD_INPUT, "%s; add --link 12.2GB/s, say, or --link device", diag->message);
}

int cli_solve(cli_run *run, const char *method, int64_t budget, double time_limit,
              cli_result *result)
{
    neap_request request;
    neap_solution *solution = NULL;
    *result = (cli_result){.method = method,
                           .budget = budget,
                           .by_peak = run->settings->objective == CLI_OBJECTIVE_PEAK};
    int code = cli_request_init(run, method, &request);
    if (code != CLI_OK)
        return code;
    request.budget = budget;
    request.time_limit = time_limit;
    neap_status status = neap_solve(NULL, &request, &solution, &result->note);
    return cli_result_set(result, status, solution);
}

bool cli_can_run(const cli_loaded *model, const neap_method *method)
{
    return !neap_method_needs_link(method) || model->link.out_bandwidth > 0;
}

/* ---- The best of several ---- */

/* Of two results without a plan: does a need less? */
static bool needs_less(const cli_result *a, const cli_result *b)
{
    int64_t least_a = a->solved ? a->figures->least_budget : -1;
    int64_t least_b = b->solved ? b->figures->least_budget : -1;
    if (least_a < 0 || least_b < 0)
        return least_a >= 0 || (a->solved && !b->solved);
    return least_a < least_b;
}

/* Keeps the better of two in `best` and clears the other. */
static void keep_better(cli_result *best, cli_result *other)
{
    bool better = other->plan || best->plan ? cli_result_better(other, best)
                                            : !best->method || needs_less(other, best);
    if (better) {
        cli_result old = *best;
        *best = *other;
        *other = old;
    }
    cli_result_clear(other);
}

double cli_time_limit(const cli_run *run)
{
    static const double LEAST = 0.01;
    double limit = run->settings->time_limit, rest = limit - run->model->seconds;
    return limit <= 0 ? 0 : rest > LEAST ? rest : LEAST;
}

int cli_solve_each(cli_run *run, const cli_methods *methods, int64_t budget, cli_result *results,
                   uint32_t *n_done)
{
    int code = CLI_OK;
    while (code == CLI_OK && *n_done < methods->count && !cli_interrupted()) {
        const char *name = methods->names[*n_done];
        cli_progress_part(&run->progress, name, *n_done, methods->count);
        code = cli_solve(run, name, budget, run->settings->time_limit, &results[*n_done]);
        (*n_done)++;
    }
    return code;
}

int cli_solve_best(cli_run *run, const cli_methods *methods, int64_t budget, cli_result *best)
{
    int code = CLI_OK;
    for (uint32_t i = 0; i < methods->count && code == CLI_OK && !cli_interrupted(); i++) {
        cli_result result;
        cli_progress_part(&run->progress, methods->names[i], i, methods->count);
        code = cli_solve(run, methods->names[i], budget, cli_time_limit(run), &result);
        if (code == CLI_OK)
            keep_better(best, &result);
        else
            cli_result_clear(&result);
    }
    return code;
}

/* ---- Which methods ---- */

static int unknown_method(const char *name)
{
    const char *nearest = neap_methods_nearest(name);
    if (nearest)
        return cli_fail(CLI_BAD_INPUT, "no method \"%s\"; did you mean %s?", name, nearest);
    return cli_fail(CLI_BAD_INPUT, "no method \"%s\"; neap methods lists them", name);
}

/* Adds the method named by the first `length` characters of a text. */
static int add_method(cli_methods *methods, const char *text, size_t length)
{
    neap_text name = {0};
    neap_text_append(&name, text, length);
    if (name.status != NEAP_OK)
        return cli_fail_memory();
    int code = CLI_OK;
    const neap_method *method = neap_methods_find(name.text);
    if (!method)
        code = unknown_method(name.text);
    else
        methods->names[methods->count++] = neap_method_name(method);
    neap_text_clear(&name);
    return code;
}

/* An option given that not every method takes, or NULL. */
static const char *constraint_of(const cli_settings *settings)
{
    const char *constraint = cli_given_of(settings, CLI_GROUP_CONSTRAINT);
    if (!constraint && settings->objective == CLI_OBJECTIVE_PEAK)
        return "objective peak";
    return !constraint && settings->state == NEAP_STATE_HOST ? "state host" : constraint;
}

/* The first method that takes constraints, or NULL. */
static const char *who_takes_constraints(void)
{
    for (uint32_t i = 0; i < neap_methods_count(); i++)
        if (neap_method_takes_constraints(neap_methods_at(i)))
            return neap_method_name(neap_methods_at(i));
    return NULL;
}

static int check_constraints(const cli_methods *methods, const cli_settings *settings)
{
    const char *constraint = constraint_of(settings), *who = who_takes_constraints();
    for (uint32_t i = 0; constraint && i < methods->count; i++) {
        if (neap_method_takes_constraints(neap_methods_find(methods->names[i])))
            continue;
        if (who)
            return cli_fail(CLI_BAD_INPUT, "%s takes no --%s; %s does", methods->names[i],
                            constraint, who);
        return cli_fail(CLI_BAD_INPUT, "%s takes no --%s, nor does any other method here",
                        methods->names[i], constraint);
    }
    return CLI_OK;
}

/*
 * The option that a method cannot do without, or NULL. A list has no default that would be of any
 * use: it is what the method is asked to do.
 */
static const neap_option *missing_option(const neap_method *method, const cli_settings *settings)
{
    for (uint32_t i = 0; i < neap_method_option_count(method); i++) {
        const neap_option *option = neap_method_option_at(method, i);
        bool given = option->type != NEAP_OPTION_LIST;
        for (uint32_t j = 0; j < settings->n_options && !given; j++)
            given = strcmp(settings->options[j].name, option->name) == 0;
        if (!given)
            return option;
    }
    return NULL;
}

static int check_missing_options(const cli_methods *methods, const cli_settings *settings)
{
    for (uint32_t i = 0; i < methods->count; i++) {
        const char *name = methods->names[i];
        const neap_option *option = missing_option(neap_methods_find(name), settings);
        if (option)
            return cli_fail(CLI_BAD_INPUT, "%s needs --option %s=N,...: %s", name, option->name,
                            option->meaning);
    }
    return CLI_OK;
}

static void add_all_methods(cli_methods *methods, const cli_settings *settings)
{
    for (uint32_t i = 0; i < neap_methods_count(); i++) {
        const neap_method *method = neap_methods_at(i);
        bool linked = settings->link || !neap_method_needs_link(method);
        bool willing = !constraint_of(settings) || neap_method_takes_constraints(method);
        if (linked && willing && !missing_option(method, settings))
            methods->names[methods->count++] = neap_method_name(method);
    }
}

int cli_methods_read(const cli_settings *settings, cli_methods *methods)
{
    const char *text = settings->method;
    bool all = strcmp(text, "all") == 0;
    int code = CLI_OK;
    /* a name and its comma are longer than one each */
    *methods = (cli_methods){.capacity = all ? neap_methods_count() : (uint32_t)strlen(text)};
    methods->names = cli_memory_new(methods->capacity, sizeof *methods->names);
    if (!methods->names)
        return cli_fail_memory();
    if (all)
        add_all_methods(methods, settings);
    while (!all && *text && code == CLI_OK) {
        size_t length = strcspn(text, ",");
        if (length > 0)
            code = add_method(methods, text, length);
        text += length + (text[length] == ',');
    }
    if (code == CLI_OK && methods->count == 0)
        code = all ? cli_fail(CLI_BAD_INPUT, "no method here takes --%s", constraint_of(settings))
                   : cli_fail(CLI_BAD_INPUT, "--method names no method; neap methods lists them");
    if (code != CLI_OK)
        cli_methods_clear(methods);
    return code;
}

void cli_methods_clear(cli_methods *methods)
{
    cli_memory_release(methods->names, methods->capacity, sizeof *methods->names);
    *methods = (cli_methods){0};
}

static bool anyone_has(const cli_methods *methods, const char *option)
{
    for (uint32_t i = 0; i < methods->count; i++)
        if (has_option(neap_methods_find(methods->names[i]), option))
            return true;
    return false;
}

static void offer_options(neap_suggestion *suggestion, const cli_methods *methods)
{
    for (uint32_t i = 0; i < methods->count; i++) {
        const neap_method *method = neap_methods_find(methods->names[i]);
        for (uint32_t j = 0; j < neap_method_option_count(method); j++)
            neap_suggestion_offer(suggestion, neap_method_option_at(method, j)->name);
    }
}

int cli_methods_check_options(const cli_methods *methods, const cli_settings *settings)
{
    for (uint32_t i = 0; i < settings->n_options; i++) {
        const char *option = settings->options[i].name;
        if (anyone_has(methods, option))
            continue;
        const char *who = methods->count == 1 ? methods->names[0] : "no method here";
        const char *has = methods->count == 1 ? "has no option" : "has an option";
        neap_suggestion suggestion;
        neap_suggestion_begin(&suggestion, option);
        offer_options(&suggestion, methods);
        if (suggestion.best)
            return cli_fail(CLI_BAD_INPUT, "%s %s \"%s\"; did you mean %s?", who, has, option,
                            suggestion.best);
        return cli_fail(CLI_BAD_INPUT, "%s %s \"%s\"; neap methods NAME lists them", who, has,
                        option);
    }
    int code = check_missing_options(methods, settings);
    return code == CLI_OK ? check_constraints(methods, settings) : code;
}
