/* The rows of a comparison in order, and its scales, as SVG and text draw them. */
#ifndef NEAP_REPORT_COMPARED_H
#define NEAP_REPORT_COMPARED_H

#include <neap/report.h>
#include <neap/text.h>

typedef struct neap_compared {
    neap_allocator *allocator;
    const neap_comparison_row **rows; /* feasible ones, the best first; then the others */
    size_t count, n_feasible;
    double low, high;   /* overheads to scale, 0 and the bound among them */
    int64_t most_bytes; /* of peaks, and of marks that are not far above them */
    bool shows_budget, shows_natural, shows_floor;
} neap_compared;

/* NEAP_INVALID for rows that neap/report.h excludes. */
neap_status neap_compared_build(neap_allocator *allocator, const neap_comparison *comparison,
                                neap_compared *compared, neap_diag *diag);
void neap_compared_clear(neap_compared *compared);

/* "infeasible: needs at least 5.16 GiB": why a row has no plan. */
void neap_compared_reason(const neap_comparison_row *row, neap_text *text);

#endif
