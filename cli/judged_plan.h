/* judged_plan.h - a plan from a file, judged before it is used; shared by train and report. */
#ifndef NEAP_CLI_JUDGED_PLAN_H
#define NEAP_CLI_JUDGED_PLAN_H

#include "load.h"

#include <neap/check.h>

/* Whether a plan of a file is for the loaded graph, by name: an exit code. */
int cli_plan_is_for(const cli_loaded *model, const char *path, const neap_plan *plan);

/*
 * Judges a plan of a file for the loaded graph and link, within a budget (-1: the plan's own).
 * Returns an exit code, after an error line if the plan is for another graph or is rejected:
 * "PATH is no plan for this WHAT: the reason; REMEDY". The remedy may be NULL.
 */
int cli_judge_plan(const cli_loaded *model, const char *path, const neap_plan *plan, int64_t budget,
                   const char *what, const char *remedy, neap_verdict *verdict);

#endif
