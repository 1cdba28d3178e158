/*
 * html_report.h - the report of what a command has computed, as one HTML file; shared by report and
 * by every command with --report.
 */
#ifndef NEAP_CLI_HTML_REPORT_H
#define NEAP_CLI_HTML_REPORT_H

#include "solve.h"

#include <neap/report.h>

/* All zero, except for settings and model, is a report without a plan. It points to the results
   that were added. */
typedef struct cli_html_report {
    const cli_settings *settings;
    const cli_loaded *model;              /* its natural_peak is known */
    int64_t batch;                        /* found by a search; 0: that of the command line */
    const char *device;                   /* whose times; NULL: the model's device or the backend */
    const neap_report_training *training; /* NULL: none */
    neap_report_plan *plans;              /* the first is the one that the report is about */
    size_t n_plans, plan_capacity;
    neap_report_point *points;
    size_t n_points, point_capacity;
    const neap_figures *figures; /* of a result, for the floor; NULL: none has been added */
} cli_html_report;

/* A result's plan; nothing if it has none. Both return an exit code. */
int cli_html_add(cli_html_report *report, const cli_result *result);
/* A result as a point of the curve, with its plan if it has one. */
int cli_html_add_point(cli_html_report *report, const cli_result *result);
/* A plan that was not made here. */
int cli_html_add_plan(cli_html_report *report, const neap_plan *plan, const char *status);

/* Writes the report to a file, or appends it to the output if the path is "-". */
int cli_html_deliver(const cli_html_report *report, const char *path, neap_text *out);
void cli_html_clear(cli_html_report *report);

#endif
