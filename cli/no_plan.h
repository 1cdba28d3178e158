/* no_plan.h - says why there is no plan, and what would work. */
#ifndef NEAP_CLI_NO_PLAN_H
#define NEAP_CLI_NO_PLAN_H

#include "solve.h"

/*
 * Appends one line about a result without a plan: the budget, the memory needed and by which op,
 * and what to try. Unless all methods were tried, or the budget is below the floor, other methods
 * are tried for about a second to find one that fits. loaded->natural_peak must be known.
 */
int cli_no_plan_why(cli_run *run, const cli_result *failed, bool all_tried, neap_text *line);

/*
 * If a budget is below the proven need of an op (cli_floor), writes the error line and returns its
 * exit code. Returns CLI_OK if not, or if the budget is negative. `graph` is the model's, perhaps
 * with another batch; `what` is the budget's name; the advice ends the line.
 */
int cli_no_plan_floor(const cli_loaded *model, const neap_graph *graph, const char *what,
                      int64_t budget, int64_t bytes, uint32_t op, const char *advice);
/* The same before kernels are measured: workspaces are not yet known and not counted. *floor gets
   the least. */
int cli_no_plan_floor_unmeasured(const cli_loaded *model, int64_t budget, int64_t *floor);

/*
 * Writes the error line if none of several results has a plan, with the one that needs least, and
 * returns the exit code. Results that are all zero are ignored. `option` sets the (largest) budget:
 * "budget" or "to".
 */
int cli_no_plan_all(const cli_loaded *model, const cli_result *results, size_t count,
                    const char *option);

#endif
