/* memory_csv.h - the memory of a step, planned and measured, as a CSV file. */
#ifndef NEAP_CLI_MEMORY_CSV_H
#define NEAP_CLI_MEMORY_CSV_H

#include <neap/run.h>

/*
 * Writes CSV, a line for each step of the plan: its number, kind, op or value, and the bytes during
 * the step and after it, by the plan and as `memory` has them. Returns an exit code.
 */
int cli_memory_csv_write(const char *path, const neap_graph *graph, const neap_plan *plan,
                         const neap_link *link, const neap_step_memory *memory);

#endif
