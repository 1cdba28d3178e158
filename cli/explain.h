/*
 * explain.h - why there is no plan, and what would do.
 */
#ifndef NEAP_CLI_EXPLAIN_H
#define NEAP_CLI_EXPLAIN_H

#include "solve.h"

/*
 * Adds one line on a result without a plan: the budget, what is needed and by which op, and what to
 * try. Unless all methods were tried, or the budget is below the floor, others are asked for about
 * a second to find one that fits. loaded->natural_peak is known.
 */
int cli_explain(cli_run *run, const cli_result *failed, bool all_tried, neap_text *line);

/* The line and the exit code where a budget is below the bytes that an op needs by proof
   (neap_graph_floor_bytes); CLI_OK where it is not, or negative. `what` is the budget's name; the
   advice ends the line. */
int cli_explain_floor(const neap_graph *graph, const char *what, int64_t budget, int64_t bytes,
                      uint32_t op, const char *advice);
/* The same before kernels are measured: their workspaces are not known yet, and not counted. */
int cli_explain_floor_unmeasured(const neap_graph *graph, int64_t budget);

/* The line and the exit code where none of several results has a plan: which needs least. Results
   that are all zero count for nothing. `option` sets the (largest) budget: "budget" or "to". */
int cli_explain_all(const cli_loaded *model, const cli_result *results, size_t count,
                    const char *option);

#endif
