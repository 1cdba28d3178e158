/*
 * neap/report.h - charts: text for a terminal, SVG for a web page.
 *
 * Each call returns a NUL-terminated text of *length bytes. Release it as *length + 1 bytes.
 */
#ifndef NEAP_REPORT_H
#define NEAP_REPORT_H

#include <neap/plan.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct neap_chart_options {
    int width, height;    /* of the plot area, in characters; default 72 x 12 */
    bool color;           /* ANSI colours; default off */
    bool unicode;         /* block characters; default on, else ASCII */
    int64_t budget;       /* drawn as a line; -1: none */
    int64_t natural_peak; /* drawn as a mark on the axis; -1: none */
} neap_chart_options;

NEAP_API void neap_chart_options_init(neap_chart_options *options);

/* The memory of a plan over time, with recomputations marked below the axis. */
NEAP_API neap_status neap_report_memory_chart(neap_allocator *allocator, const neap_graph *graph,
                                              const neap_plan *plan, const neap_timeline *timeline,
                                              const neap_chart_options *options, char **text,
                                              size_t *length, neap_diag *diag);

/* One point of a trade-off curve. */
typedef struct neap_curve_point {
    const char *method;
    int64_t budget;
    bool feasible;
    int64_t peak;
    double overhead; /* 0.05 is 5% */
} neap_curve_point;

/* Overhead against budget, one line per method, as a self-contained SVG. */
NEAP_API neap_status neap_report_curve_svg(neap_allocator *allocator, const char *title,
                                           const neap_curve_point *points, size_t n_points,
                                           char **text, size_t *length, neap_diag *diag);

#ifdef __cplusplus
}
#endif
#endif
