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
int cli_explain(cli_run *run, const cli_result *failed, bool all_tried, neap_text *line);

/* The line and the exit code where none of several results has a plan: which needs least. Results
   that are all zero count for nothing. budget: of them all, or -1 where each has another. */
int cli_explain_all(const cli_loaded *model, const cli_result *results, size_t count,
                    int64_t budget);

#endif
