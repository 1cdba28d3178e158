/*
 * The lines of a trade-off curve, as SVG and text draw them: points by method and budget, methods
 * that coincide as one line, and the range of both axes.
 */
#ifndef NEAP_REPORT_CURVE_SERIES_H
#define NEAP_REPORT_CURVE_SERIES_H

#include <neap/report.h>
#include <neap/text.h>

/* One line: of one method, or of several that coincide. */
typedef struct neap_series {
    size_t begin, end;          /* of the points: its first method's, by budget */
    size_t first_name, n_names; /* of the names */
} neap_series;

typedef struct neap_curve_series {
    neap_allocator *allocator;
    const neap_curve_point **points; /* by method and budget */
    size_t n_points, n_bounds, bound_capacity;
    neap_curve_bound *bounds; /* by budget, each budget once; a larger budget's bound holds, too */
    neap_series *items;       /* with a feasible point; in order of their first methods */
    size_t count;
    const char **names; /* of methods: those of each line, then those that never fit */
    size_t first_never, n_never;
    double low, high;   /* overheads: 0 is among them, and at least a hundredth between them */
    bool clipped;       /* some point is above `high` */
    double least, most; /* bytes: what the axis of budgets has to show */
    bool shows_floor, shows_natural;
} neap_curve_series;

/* Overheads that differ by less than this share of the range look the same. */
#define NEAP_COINCIDENT 0.005

/* NEAP_INVALID for points that neap/report.h excludes. */
neap_status neap_curve_series_build(neap_allocator *allocator, const neap_curve_picture *picture,
                                    neap_curve_series *series, neap_diag *diag);
void neap_curve_series_clear(neap_curve_series *series);

/* The last feasible point of a line. */
const neap_curve_point *neap_series_end(const neap_curve_series *series, const neap_series *line);
/* "rotor, pareto": the names of a line, at most `most` characters of each. */
void neap_series_label(const neap_curve_series *series, const neap_series *line, neap_text *label);

#endif
