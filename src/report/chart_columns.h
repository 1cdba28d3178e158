/* A plan's timeline cut into the columns of a chart. */
#ifndef NEAP_REPORT_CHART_COLUMNS_H
#define NEAP_REPORT_CHART_COLUMNS_H

#include "plan/memory_parts.h"

#include <neap/plan.h>

/* The activities of the compute stream. */
enum { NEAP_DOES_FORWARD, NEAP_DOES_BACKWARD, NEAP_DOES_AGAIN, NEAP_DOES_WAIT, NEAP_DOES_COUNT };

typedef struct neap_chart_column {
    int64_t bytes;                      /* the most in use at any time in the column */
    int64_t parts[NEAP_MEMORY_CLASSES]; /* of it, by class */
    int64_t share[NEAP_DOES_COUNT];     /* of its time, in parts of a whole column */
    bool copies_out, copies_in;
} neap_chart_column;

typedef struct neap_chart_columns {
    neap_allocator *allocator;
    neap_chart_column *items;
    size_t count;
    bool by_step;   /* no op takes time: all steps have the same width */
    int64_t length; /* of the whole: ticks, or steps */
    int64_t again;  /* part of it that is recomputation */
    bool copies;    /* some step is a transfer */
} neap_chart_columns;

/* NEAP_INVALID if graph, plan and timeline do not match. */
neap_status neap_report_check_timeline(const neap_graph *graph, const neap_plan *plan,
                                       const neap_timeline *timeline, neap_diag *diag);
neap_status neap_chart_columns_build(neap_allocator *allocator, const neap_graph *graph,
                                     const neap_plan *plan, const neap_timeline *timeline,
                                     size_t count, neap_chart_columns *columns, neap_diag *diag);
void neap_chart_columns_clear(neap_chart_columns *columns);

#endif
