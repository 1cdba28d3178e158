/* report.h - results as JSON, as CSV and as table rows, the same in all commands. */
#ifndef NEAP_CLI_REPORT_H
#define NEAP_CLI_REPORT_H

#include "csv.h"
#include "json.h"
#include "output.h"
#include "solve.h"

/*
 * One object with the figures of a result, and any further figures of the method. Missing figures
 * are null. `message` says why there is no plan; it may be NULL. model->natural_peak must be known.
 */
void cli_report_json(cli_json *json, const char *key, const cli_loaded *model,
                     const cli_result *result, const char *message);

/* The link that plans may use, as "link"; nothing if there is none. */
void cli_report_link_json(cli_json *json, const neap_link *link);

/* The scope of a bound (neap_figures.bound_scope) in words: "any order". */
const char *cli_scope_words(neap_scope scope);

/* Adds ` (op "conv5_bw")`; nothing for NEAP_NONE. */
void cli_report_op(neap_text *line, const neap_graph *graph, uint32_t op);

/* Adds `no plan takes less than 2.90 GiB (op "conv1")`. */
void cli_report_floor(neap_text *line, const neap_graph *graph, const neap_figures *figures);

/* The head of every report: the graph's name and the source of its times. No newline. */
void cli_report_title(neap_text *out, const cli_loaded *model);

/*
 * The figures of a result as cells, for cli_report_columns. The best result of a table is marked.
 */
enum { CLI_REPORT_COLUMNS = 9 };
extern const cli_column cli_report_columns[CLI_REPORT_COLUMNS];
void cli_report_row(cli_table *table, const cli_result *result, bool best);

/* The same as CSV, with the budget and exact. */
void cli_report_csv_begin(cli_csv *csv);
void cli_report_csv_row(cli_csv *csv, const cli_result *result);

/*
 * The largest bound that holds for all plans within a result's budget, as an overhead. False if
 * there is none.
 */
bool cli_report_bound(const cli_result *result, double *overhead);
/* The memory that a method needs at least, where it has no plan; -1: not known. */
int64_t cli_report_least(const cli_result *result);

#endif
