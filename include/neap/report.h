/*
 * neap/report.h - pictures of plans and of methods: SVG for papers and web pages, text for a
 * terminal; traces for Perfetto; a report as a web page.
 *
 *     neap_memory_picture picture;
 *     neap_memory_picture_init(&picture, graph, plan, &timeline);
 *     picture.title = "resnet50, batch 64, on h200";
 *     picture.budget = budget;
 *     if (neap_report_memory_svg(NULL, &picture, &text, &length, &diag) == NEAP_OK)
 *         neap_file_replace("memory.svg", text, length, &diag);
 *
 * Each call returns a NUL-terminated text of *length bytes; release it as *length + 1 bytes
 * (neap_release). On failure *text is NULL and *length 0. Nothing is kept: what a picture points to
 * has to live only during the call.
 *
 * - SVG is one self-contained element: no scripts, fonts, styles or references. Text is text, so
 *   that it can be searched and edited. Colours, lines and markers can be told apart in grey print
 *   and by colour-blind readers. Points and bars have their numbers as tooltips.
 * - Text is for a monospaced terminal, in Unicode or ASCII, with or without ANSI colours; no line
 *   is longer than the width permits, and none ends in blanks.
 * - Titles and names may come from untrusted files: they are cleaned as by neap_string_clean, long
 *   ones are shortened, and & < > " ' are escaped in SVG.
 */
#ifndef NEAP_REPORT_H
#define NEAP_REPORT_H

#include <neap/plan.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How a text is drawn. */
typedef struct neap_chart_options {
    int width, height;    /* of the plot area, in characters; default 72 x 12. Width from 24 to
                             1000, height from 2 to 200. A comparison is as high as it has rows */
    bool color;           /* ANSI colours; default off */
    bool unicode;         /* block characters; default on, else ASCII */
    int64_t budget;       /* of the memory chart: drawn as a line; -1: none */
    int64_t natural_peak; /* of the memory chart: drawn as a mark on the axis; -1: none */
} neap_chart_options;

NEAP_API void neap_chart_options_init(neap_chart_options *options);

/* ---- The memory of one plan over time ---- */

/* As text, with recomputations and transfers marked below the axis. NEAP_INVALID for a size out of
 * range, or if graph, plan and timeline do not belong together. */
NEAP_API neap_status neap_report_memory_chart(neap_allocator *allocator, const neap_graph *graph,
                                              const neap_plan *plan, const neap_timeline *timeline,
                                              const neap_chart_options *options, char **text,
                                              size_t *length, neap_diag *diag);

typedef struct neap_series_options {
    int width, height;   /* of the plot area, in characters; default 60 x 6 */
    bool color, unicode; /* as for a memory chart */
    const char *title;   /* a line above; NULL: none */
    const char *x_name;  /* what is counted along the x axis; NULL: no name */
    int64_t first, last; /* the labels at its ends */
} neap_series_options;

NEAP_API void neap_series_options_init(neap_series_options *options);

/*
 * A series of numbers, such as the losses of a training. A column shows the mean of its values, so
 * a long series is smoothed; a column with a value that is not finite has a mark instead.
 * NEAP_INVALID without a value.
 */
NEAP_API neap_status neap_report_series_chart(neap_allocator *allocator, const double *values,
                                              size_t count, const neap_series_options *options,
                                              char **text, size_t *length, neap_diag *diag);

typedef struct neap_trace_options {
    const neap_step_time *times; /* of each step of the plan as measured (neap/run.h); default NULL:
                                    those of the timeline */
    int64_t arena_bytes;         /* drawn as a counter; default -1: none */
} neap_trace_options;

NEAP_API void neap_trace_options_init(neap_trace_options *options);

/*
 * A plan over time in the JSON trace event format, for Perfetto (ui.perfetto.dev) or
 * chrome://tracing: ops on the compute stream, copies on two copy engines, arrows from offloads to
 * prefetches, and counters of memory. Names from the graph are cleaned as by neap_string_clean and
 * cut after 200 characters.
 */
NEAP_API neap_status neap_report_trace(neap_allocator *allocator, const neap_graph *graph,
                                       const neap_plan *plan, const neap_timeline *timeline,
                                       const neap_trace_options *options, char **text,
                                       size_t *length, neap_diag *diag);

/* ---- Where the time of a step goes ---- */

/* Of a plan's step, in seconds. */
typedef struct neap_time_pair {
    double planned, measured;
} neap_time_pair;

/* Computing alone, beside copies, and not at all add up to the step, planned and measured. */
typedef struct neap_time_parts {
    neap_time_pair step;    /* until the last computation or copy has ended */
    neap_time_pair alone;   /* computations that run beside copies for less than half of their
                               measured time */
    neap_time_pair beside;  /* the other computations */
    neap_time_pair idle;    /* nothing is computed: waits for copies, gaps between kernels */
    neap_time_pair out, in; /* copies to the host and back, added up */
    int64_t out_bytes, in_bytes;
} neap_time_parts;

/*
 * Compares the times that were measured with those of the plan's timeline, to show which part of a
 * prediction was wrong. NEAP_INVALID if graph, plan and timeline do not belong together.
 */
NEAP_API neap_status neap_report_time_parts(neap_allocator *allocator, const neap_graph *graph,
                                            const neap_plan *plan, const neap_timeline *timeline,
                                            const neap_step_time *measured, neap_time_parts *parts,
                                            neap_diag *diag);

/* ---- A picture of the memory ---- */

typedef struct neap_memory_picture {
    const char *title; /* NULL: the names of the graph and the method */
    const neap_graph *graph;
    const neap_plan *plan;
    const neap_timeline *timeline; /* of the plan */
    const neap_plan *natural;      /* the ordinary step (neap_natural_plan), without transfers: its
                                      outline is drawn behind the plan, and its peak marked; NULL:
                                      none */
    int64_t budget;                /* drawn as a line; -1: none */
} neap_memory_picture;

/* No title, no natural plan, no budget. */
NEAP_API void neap_memory_picture_init(neap_memory_picture *picture, const neap_graph *graph,
                                       const neap_plan *plan, const neap_timeline *timeline);

/*
 * As SVG: memory over time, stacked by class as in neap_memory_parts. Below the axis, what the
 * compute stream does (forward, backward, recomputing), and transfers each way. A plan of any
 * length makes a picture of bounded size (below 300 KB): each half pixel shows the time at which
 * most is in use, so that no peak is lost. NEAP_INVALID as above.
 */
NEAP_API neap_status neap_report_memory_svg(neap_allocator *allocator,
                                            const neap_memory_picture *picture, char **text,
                                            size_t *length, neap_diag *diag);

/* ---- Methods at many budgets ---- */

/* One point of a trade-off curve. */
typedef struct neap_curve_point {
    const char *method;
    int64_t budget;
    bool feasible;
    int64_t peak;    /* if feasible, and the next */
    double overhead; /* 0.05 is 5% */
} neap_curve_point;

/* Proven: no plan within the budget has a smaller overhead. */
typedef struct neap_curve_bound {
    int64_t budget;
    double overhead;
} neap_curve_bound;

typedef struct neap_curve_picture {
    const char *title;              /* NULL: none */
    const neap_curve_point *points; /* in any order; methods are drawn in order of appearance */
    size_t n_points;
    const neap_curve_bound *bounds; /* in any order; of a budget that repeats, the largest counts */
    size_t n_bounds;
    int64_t natural_peak; /* marked; -1: none */
    int64_t floor;        /* drawn as a wall that no plan passes; -1: none */
} neap_curve_picture;

/* No points and nothing else. */
NEAP_API void neap_curve_picture_init(neap_curve_picture *picture);

/*
 * Overhead against budget, one line per method, as SVG and as text.
 *
 * Methods whose lines coincide, to half a percent of the height, share one line and one label. If a
 * few points are far above all others (beyond the upper quartile by more than three times the
 * distance between the quartiles), the scale ends below them: they are marked by an arrow at the
 * upper edge, with their values. An infeasible budget interrupts a line; methods without a feasible
 * point are listed. NEAP_INVALID for a point without a method, a negative budget, or an overhead
 * that is not a number below 10^9.
 */
NEAP_API neap_status neap_report_curve_svg(neap_allocator *allocator,
                                           const neap_curve_picture *picture, char **text,
                                           size_t *length, neap_diag *diag);
NEAP_API neap_status neap_report_curve_chart(neap_allocator *allocator,
                                             const neap_curve_picture *picture,
                                             const neap_chart_options *options, char **text,
                                             size_t *length, neap_diag *diag);

/* ---- Methods at one budget ---- */

/* One method of a comparison. */
typedef struct neap_comparison_row {
    const char *method;
    bool feasible;
    int64_t peak;       /* if feasible, and the next */
    double overhead;    /* 0.05 is 5% */
    const char *status; /* if not feasible: "infeasible", "time limit", ...; NULL: "infeasible" */
    int64_t least;      /* if not feasible: the memory that it needs at least; -1: not known */
} neap_comparison_row;

typedef struct neap_comparison {
    const char *title; /* NULL: none */
    const neap_comparison_row *rows;
    size_t n_rows;
    bool by_peak;         /* sort by peak; else by overhead */
    int64_t budget;       /* drawn as a line; -1: none */
    int64_t natural_peak; /* likewise */
    int64_t floor;        /* likewise: no plan needs less */
    bool has_bound;
    double bound; /* proven: no plan within the budget has a smaller overhead */
} neap_comparison;

/* No rows and nothing else. */
NEAP_API void neap_comparison_init(neap_comparison *comparison);

/*
 * Overhead and peak of each method as bars side by side, the best first, as SVG and as text. The
 * scale of overheads is that of neap_report_curve_svg: longer bars are cut off with an arrow. Each
 * bar has its number. Methods without a plan follow, with the reason. NEAP_INVALID for a row
 * without a method, a negative peak or an overhead that is not a number below 10^9.
 */
NEAP_API neap_status neap_report_comparison_svg(neap_allocator *allocator,
                                                const neap_comparison *comparison, char **text,
                                                size_t *length, neap_diag *diag);
NEAP_API neap_status neap_report_comparison_chart(neap_allocator *allocator,
                                                  const neap_comparison *comparison,
                                                  const neap_chart_options *options, char **text,
                                                  size_t *length, neap_diag *diag);

/* ---- The report: one page about a graph and its plans (docs/report.md) ---- */

/* A plan, and what is known about it beside its steps. */
typedef struct neap_report_plan {
    const neap_plan *plan;
    const char *status;      /* "optimal", "feasible", ...; NULL: not known */
    const char *message;     /* a remark for the reader; may be NULL */
    double bound_time;       /* proven: no plan within the budget is faster; negative: not known */
    const char *bound_scope; /* the plans for which that is proven (neap_scope_name); NULL: all */
} neap_report_plan;

/* A point of a trade-off curve. */
typedef struct neap_report_point {
    const char *method;
    const char *status;
    int64_t budget;
    size_t plan;       /* which of the report's plans; SIZE_MAX: there is no plan */
    double bound_time; /* proven for every plan of any method; negative: not known */
} neap_report_point;

/* What a training run has measured. */
typedef struct neap_report_training {
    size_t n_steps;
    const int64_t *steps;  /* their numbers */
    const double *losses;  /* one per step; NaN is left out */
    const double *seconds; /* of each step; NULL: not known */
    double predicted;      /* seconds of a step by the plan */
} neap_report_training;

/* All zero, except for graph, is a report about the graph alone. Texts are copied. */
typedef struct neap_report {
    const neap_graph *graph;
    const neap_link *link; /* NULL or no bandwidth: none */
    const char *title;     /* NULL: the name of the graph */
    const char *device;    /* whose times; NULL: not known */
    const char *command;   /* the command line that made it; NULL: none */
    int64_t batch;         /* 0: not known */
    int64_t natural_peak;  /* 0: the peak of the ordinary step */
    int64_t floor_bytes;   /* no plan needs less; 0: not known */
    uint32_t floor_op;     /* the op that needs this much, or NEAP_NONE */
    size_t n_plans;        /* plans[0] is the one that the report is about */
    const neap_report_plan *plans;
    size_t n_points; /* 0: no curve */
    const neap_report_point *points;
    const neap_report_training *training; /* NULL: none */
} neap_report;

/*
 * A report as one self-contained HTML file: no other file, script or font is loaded. Every plan
 * must be valid for the graph and link; else NEAP_INVALID names the step that cannot run. The
 * ordinary step is always shown beside the plans. The same report gives the same bytes.
 *
 * Plans that are equal are written once. Of plans with more than 400,000 steps in all, those that
 * exceed this number are left out, except for the first: points of the curve then have figures, but
 * no plan.
 */
NEAP_API neap_status neap_report_html(neap_allocator *allocator, const neap_report *report,
                                      char **text, size_t *length, neap_diag *diag);

/* The data of the page alone, as JSON (docs/report.md). */
NEAP_API neap_status neap_report_data(neap_allocator *allocator, const neap_report *report,
                                      char **text, size_t *length, neap_diag *diag);

#ifdef __cplusplus
}
#endif
#endif
