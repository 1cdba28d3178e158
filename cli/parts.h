/* parts.h - what the peak of a plan is made of. */
#ifndef NEAP_CLI_PARTS_H
#define NEAP_CLI_PARTS_H

#include "json.h"
#include "output.h"

#include <neap/plan.h>

/* The parts of a plan's peak; of the ordinary step's if the plan is NULL. Returns an exit code. */
int cli_parts_find(const neap_graph *graph, const neap_plan *plan, neap_memory_parts *parts);

/* A small table, with and without the plan. */
void cli_parts_table(neap_text *out, const neap_memory_parts *natural,
                     const neap_memory_parts *planned);
/* "parameters 548 MiB, activations 1.20 GiB, workspace 64.0 MiB" */
void cli_parts_list(neap_text *out, const neap_memory_parts *parts);
void cli_parts_json(cli_json *json, const char *key, const neap_memory_parts *parts);

#endif
