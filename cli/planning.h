/* planning.h - one network, one budget, one plan; shared by plan and train. */
#ifndef NEAP_CLI_PLANNING_H
#define NEAP_CLI_PLANNING_H

#include "solve.h"

#include <neap/text.h>

typedef struct cli_planning {
    const cli_settings *settings;
    cli_loaded model; /* its natural_peak is known */
    int64_t budget;   /* -1: none */
    cli_result result;
    const char *batch_note; /* on result.batch */
    neap_text explanation;  /* why there is no plan */
} cli_planning;

/* Sets `result`, and `explanation` if there is no plan. */
int cli_planning_solve(cli_planning *planning);
/* Writes the error line if there is no plan, and returns the exit code. */
int cli_planning_fail(const cli_planning *planning);
void cli_planning_clear(cli_planning *planning);

#endif
