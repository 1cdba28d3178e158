/* solve.h - planning with one or several methods; shared by plan, compare, curve and report. */
#ifndef NEAP_CLI_SOLVE_H
#define NEAP_CLI_SOLVE_H

#include "load.h"
#include "options.h"
#include "progress.h"

#include <neap/solve.h>

/* The result of one method for one budget. All zero: none. */
typedef struct cli_result {
    const char *method;
    int64_t budget;          /* -1: none */
    bool solved;             /* false: the method does not support the request; `note` says why */
    neap_solution *solution; /* NULL unless solved */
    const neap_figures *figures; /* of the solution */
    const neap_plan *plan;       /* NULL: it has none */
    int64_t batch;               /* the batch found by a search; 0: it was given */
    bool by_peak;                /* the objective was the least peak */
    bool has_parts;              /* of the peak, without the plan and with it */
    neap_memory_parts natural_parts, parts;
    neap_diag note;
} cli_result;

void cli_result_clear(cli_result *result);
/* "feasible", ...; "unsupported" if not solved. */
const char *cli_result_status(const cli_result *result);
/* The same for people: "optimal (to 0.01%)" if the gap is that small. */
const char *cli_result_words(const cli_result *result);
/*
 * Computes every gap from the best bound of all results (neap_solutions_share_bounds). Results may
 * be all zero. Returns an exit code.
 */
int cli_results_share_bounds(cli_result *results, size_t count);
/* Whether it has a plan whose arena is within the budget. */
bool cli_result_has_addresses(const cli_result *result);
/*
 * Whether a is the better plan: faster, or equally fast with a lower peak. A plan with addresses is
 * better than one without, and any plan is better than none.
 */
bool cli_result_better(const cli_result *a, const cli_result *b);

/* Everything a run of methods needs. */
typedef struct cli_run {
    const cli_settings *settings;
    const cli_loaded *model;
    cli_progress progress;
    neap_option_setting *options; /* those of the last request's method */
} cli_run;

/* Seconds for a method: --time-limit less what loading took; 0: no limit. */
double cli_time_limit(const cli_run *run);

void cli_run_begin(cli_run *run, const cli_settings *settings, const cli_loaded *model);
void cli_run_end(cli_run *run);

/*
 * Sets up a request for a method from the command line's planning options, without a budget. It
 * includes those --option settings that the method has. It is valid until the next request.
 */
int cli_request_init(cli_run *run, const char *method, neap_request *request);

/*
 * Stores the outcome of a request, including the solution; returns a failure only if the call
 * failed, as below.
 */
int cli_result_set(cli_result *result, neap_status status, neap_solution *solution);

/*
 * Plans with one method, using those --option settings that it has. A time limit of 0 means none.
 * Returns a failure only if the call failed; a method that does not support the request (for
 * example, without a link) leaves a result that is not solved.
 */
int cli_solve(cli_run *run, const char *method, int64_t budget, double time_limit,
              cli_result *result);

/* Whether the method can run: if it needs a link, there must be one. */
bool cli_can_run(const cli_loaded *model, const neap_method *method);
/*
 * Writes the error line, with advice, if a method does not support the request; returns the exit
 * code.
 */
int cli_fail_unsupported(const cli_loaded *model, const char *method, const neap_diag *diag);

/* ---- Which methods ---- */

/* A list of methods, as --method names them. */
typedef struct cli_methods {
    uint32_t count, capacity;
    const char **names;
} cli_methods;

/*
 * Reads settings->method. "all" leaves out methods that need a link if there is none, and methods
 * without support for constraints if there are any.
 */
int cli_methods_read(const cli_settings *settings, cli_methods *methods);
void cli_methods_clear(cli_methods *methods);
/*
 * Checks that each --option belongs to at least one of the methods, and that all methods support
 * the given constraints.
 */
int cli_methods_check_options(const cli_methods *methods, const cli_settings *settings);

/*
 * The plan of each method at one budget, each within settings->time_limit: results[0] to
 * results[*n_done - 1], fewer than methods after Ctrl-C or a failure.
 */
int cli_solve_each(cli_run *run, const cli_methods *methods, int64_t budget, cli_result *results,
                   uint32_t *n_done);

/*
 * The best plan of several methods, each within settings->time_limit. If none has a plan, the
 * result is that of the method that needs the least memory.
 */
int cli_solve_best(cli_run *run, const cli_methods *methods, int64_t budget, cli_result *result);

#endif
