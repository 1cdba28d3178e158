/* step_times.h - where the time of a training step goes, planned and measured. */
#ifndef NEAP_CLI_STEP_TIMES_H
#define NEAP_CLI_STEP_TIMES_H

#include "json.h"

#include <neap/plan.h>
#include <neap/report.h>

/* A link without bandwidth is none. Returns an exit code. */
int cli_step_times_find(const neap_graph *graph, const neap_plan *plan, const neap_link *link,
                        const neap_step_time *measured, neap_time_parts *parts);

/* As a table; what the plan does not have, such as copies, is left out. */
void cli_step_times_add(neap_text *out, const neap_time_parts *parts);

/* As an object "times". */
void cli_step_times_json(cli_json *json, const neap_time_parts *parts);

#endif
