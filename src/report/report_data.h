/*
 * The data block of a report, in parts (docs/report.md has the format). Everything that grows with
 * the graph is written as columns, and numbers that grow along a column as differences.
 */
#ifndef NEAP_REPORT_REPORT_DATA_H
#define NEAP_REPORT_REPORT_DATA_H

#include <neap/report.h>
#include <neap/text.h>

enum {
    NEAP_DATA_NAME = 200,    /* characters of the longest name */
    NEAP_DATA_MESSAGE = 4000 /* of the longest message and command line */
};

/* Appends the members of ops, values, layers and what else describes the graph. */
neap_status neap_data_graph(neap_text *out, neap_allocator *allocator, const neap_graph *graph,
                            neap_diag *diag);

/* The figures of a plan that follow from its steps. */
typedef struct neap_plan_figures {
    int64_t peak_bytes;
    double time;
    double overhead; /* over one run of every op */
} neap_plan_figures;

/* `link` is NULL if there is none. */
neap_status neap_data_plan_figures(neap_allocator *allocator, const neap_graph *graph,
                                   const neap_plan *plan, const neap_link *link,
                                   neap_plan_figures *figures, neap_diag *diag);

/* Appends a plan as an object. `id` is its name in the page. */
neap_status neap_data_plan(neap_text *out, neap_allocator *allocator, const neap_graph *graph,
                           const neap_link *link, const neap_report_plan *plan, const char *id,
                           neap_diag *diag);

#endif
