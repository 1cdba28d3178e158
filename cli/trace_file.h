/* trace_file.h - a plan over time as a trace for Perfetto or Chrome. */
#ifndef NEAP_CLI_TRACE_FILE_H
#define NEAP_CLI_TRACE_FILE_H

#include <neap/plan.h>

/*
 * Writes the trace of a plan: with measured times of its steps or, if `times` is NULL, with those
 * of its timeline. A link without bandwidth is none. Returns an exit code.
 */
int cli_trace_file_write(const char *path, const neap_graph *graph, const neap_plan *plan,
                         const neap_link *link, const neap_step_time *times, int64_t arena_bytes);

#endif
