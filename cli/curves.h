/* curves.h - several methods at several budgets; shared by curve and report. */
#ifndef NEAP_CLI_CURVES_H
#define NEAP_CLI_CURVES_H

#include "solve.h"

typedef struct cli_curves {
    const cli_settings *settings;
    const cli_loaded *model;
    const cli_methods *methods;
    size_t n_budgets;
    const int64_t *budgets;
    size_t n_results;    /* methods x budgets */
    cli_result *results; /* [budget][method] */
    uint32_t n_done;     /* methods; fewer than all after Ctrl-C */
} cli_curves;

/* Plans by every method at every budget, within settings->time_limit each, and sets the results.
   Clear it in any case. Returns an exit code. */
int cli_curves_solve(cli_curves *curves);
void cli_curves_clear(cli_curves *curves);

/* The result of a method at a budget; NULL if it was not reached. */
const cli_result *cli_curves_at(const cli_curves *curves, size_t budget, size_t method);
/* The same for all results in order, budget by budget. */
const cli_result *cli_curves_nth(const cli_curves *curves, size_t index);
/* The best plan of a budget, or NULL. */
const cli_result *cli_curves_best(const cli_curves *curves, size_t budget);

#endif
