/*
 * solve.h - planning by a method, or by several: what plan, compare and curve share.
 */
#ifndef NEAP_CLI_SOLVE_H
#define NEAP_CLI_SOLVE_H

#include "load.h"
#include "options.h"
#include "progress.h"

#include <neap/solve.h>

/* What one method made of one budget. All zero is none. */
typedef struct cli_result {
    const char *method;
    int64_t budget;              /* -1: none */
    bool solved;                 /* false: the method cannot do this at all; `note` says why */
    neap_solution *solution;     /* NULL unless solved */
    const neap_figures *figures; /* of the solution */
    const neap_plan *plan;       /* NULL: it has none */
    int64_t batch;               /* that was looked for; 0: it was given */
    bool by_peak;                /* the objective was the least peak */
    neap_diag note;
} cli_result;

void cli_result_clear(cli_result *result);
/* "feasible", ...; "unsupported" if not solved. */
const char *cli_result_status(const cli_result *result);
/* The same for a person: "optimal (to 0.01%)" where the gap is that small. */
const char *cli_result_words(const cli_result *result);
/* Every gap by the best bound that any of the results has (neap_solutions_share_bounds). Results
   may be all zero. An exit code. */
int cli_results_share_bounds(cli_result *results, size_t count);
/* Has it a plan whose arena is within the budget? */
bool cli_result_has_addresses(const cli_result *result);
/* Is a the better plan: faster, or as fast with a lower peak? One with addresses is better than one
   without, any plan better than none. */
bool cli_result_better(const cli_result *a, const cli_result *b);

/* Everything a run of methods needs. */
typedef struct cli_run {
    const cli_settings *settings;
    const cli_loaded *model;
    cli_progress progress;
    neap_option_setting *options; /* those of the last request's method */
} cli_run;

void cli_run_begin(cli_run *run, const cli_settings *settings, const cli_loaded *model);
void cli_run_end(cli_run *run);

/* A request of a method with what the command line says of planning, and no budget. Of the --option
   settings it gets those that the method has. It holds until the next one. */
int cli_request_init(cli_run *run, const char *method, neap_request *request);

/* What a request came to, the solution included; only a failed call is a failure, as below. */
int cli_result_set(cli_result *result, neap_status status, neap_solution *solution);

/*
 * Plans by one method. Of the --option settings it gets those that it has. A time limit of 0 is
 * none. Only a failed call is a failure; a method that cannot do this (no link, say) leaves a
 * result that is not solved.
 */
int cli_solve(cli_run *run, const char *method, int64_t budget, double time_limit,
              cli_result *result);

/* Whether a method that needs a link has one. */
bool cli_can_run(const cli_loaded *model, const neap_method *method);
/* The line and the exit code where a method cannot do this, with advice. */
int cli_fail_unsupported(const cli_loaded *model, const char *method, const neap_diag *diag);

/* ---- Which methods ---- */

/* A list of methods, as --method names them. */
typedef struct cli_methods {
    uint32_t count, capacity;
    const char **names;
} cli_methods;

/* Of settings->method. "all" leaves out methods that need a link where there is none, and those
   that take no constraints where there are some. */
int cli_methods_read(const cli_settings *settings, cli_methods *methods);
void cli_methods_clear(cli_methods *methods);
/* Is every --option one of at least one of these methods, and do all take the constraints there
 * are? */
int cli_methods_check_options(const cli_methods *methods, const cli_settings *settings);

/* The best plan of several methods, each within settings->time_limit. Where none has a plan, the
   result is that of the method which needs least. */
int cli_solve_best(cli_run *run, const cli_methods *methods, int64_t budget, cli_result *result);

#endif
