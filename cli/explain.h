/*
 * explain.h - why there is no plan, and what would do.
 */
#ifndef NEAP_CLI_EXPLAIN_H
#define NEAP_CLI_EXPLAIN_H

#include "solve.h"

/*
 * Adds one line on a result without a plan: the budget, the least this method can do and the op
 * that sets it, and what to try. Unless all methods were tried already, the others are, for a few
 * seconds, to find one that fits. loaded->natural_peak is known.
 */
int cli_explain(cli_run *run, const cli_result *failed, bool all_tried, cli_buffer *line);

#endif
