#include "curves.h"

#include "memory.h"
#include "output.h"

#include <neap/curve.h>

/* The points of one method. */
static int set_points(cli_curves *c, uint32_t method, neap_status status, neap_solution **solutions,
                      const neap_diag *diag)
{
    if (status != NEAP_OK && status != NEAP_UNSUPPORTED)
        return cli_fail_diag(diag);
    int code = CLI_OK;
    for (size_t b = 0; b < c->n_budgets; b++) {
        cli_result *result = &c->results[b * c->methods->count + method];
        *result = (cli_result){
            .method = c->methods->names[method], .budget = c->budgets[b], .note = *diag};
        code = cli_result_set(result, status, solutions[b]);
    }
    return code;
}

static int solve_method(cli_curves *c, cli_run *run, uint32_t method, neap_solution **solutions)
{
    neap_request request;
    neap_diag diag = {0};
    int code = cli_request_init(run, c->methods->names[method], &request);
    if (code != CLI_OK)
        return code;
    request.time_limit = c->settings->time_limit * (double)c->n_budgets;
    neap_status status =
        neap_curve_solve(NULL, &request, c->budgets, c->n_budgets, solutions, &diag);
    return set_points(c, method, status, solutions, &diag);
}

int cli_curves_solve(cli_curves *c)
{
    c->n_results = c->n_budgets * c->methods->count;
    c->results = cli_memory_new(c->n_results, sizeof *c->results);
    neap_solution **solutions = cli_memory_new(c->n_budgets, sizeof(neap_solution *));
    int code = c->results && solutions ? CLI_OK : cli_fail_memory();
    cli_run run;
    cli_run_begin(&run, c->settings, c->model);
    while (code == CLI_OK && c->n_done < c->methods->count && !cli_interrupted()) {
        cli_progress_part(&run.progress, c->methods->names[c->n_done], c->n_done,
                          c->methods->count);
        code = solve_method(c, &run, c->n_done, solutions);
        c->n_done++;
    }
    cli_run_end(&run);
    cli_memory_release(solutions, c->n_budgets, sizeof(neap_solution *));
    return code;
}

const cli_result *cli_curves_at(const cli_curves *c, size_t budget, size_t method)
{
    return method < c->n_done ? &c->results[budget * c->methods->count + method] : NULL;
}

const cli_result *cli_curves_nth(const cli_curves *c, size_t index)
{
    return cli_curves_at(c, index / c->methods->count, index % c->methods->count);
}

const cli_result *cli_curves_best(const cli_curves *c, size_t budget)
{
    const cli_result *best = NULL;
    for (size_t m = 0; m < c->methods->count; m++) {
        const cli_result *result = cli_curves_at(c, budget, m);
        if (result && result->plan && (!best || cli_result_better(result, best)))
            best = result;
    }
    return best;
}

void cli_curves_clear(cli_curves *c)
{
    for (size_t i = 0; i < c->n_results && c->results; i++)
        cli_result_clear(&c->results[i]);
    cli_memory_release(c->results, c->n_results, sizeof *c->results);
    c->results = NULL;
}
