#include "report/compared.h"

#include "report/clean_text.h"
#include "report/robust_scale.h"
#include "report/svg.h"

#include "base/fail.h"
#include "base/memory.h"

#include <math.h>
#include <stdlib.h>

/* A mark beyond this multiple of the largest peak does not set the scale. */
#define REACH 2.5

static neap_status check(const neap_comparison *comparison, neap_diag *diag)
{
    for (size_t i = 0; i < comparison->n_rows; i++) {
        const neap_comparison_row *row = &comparison->rows[i];
        if (!row->method)
            return neap_fail(diag, NEAP_INVALID, "row %zu of the comparison has no method", i);
        if (row->feasible && (row->peak < 0 || !(fabs(row->overhead) <= 1e9)))
            return neap_fail(diag, NEAP_INVALID,
                             "row %zu of the comparison, of %s, has figures out of range", i,
                             row->method);
    }
    if (comparison->has_bound && !(fabs(comparison->bound) <= 1e9))
        return neap_fail(diag, NEAP_INVALID, "the bound of the comparison is out of range");
    return NEAP_OK;
}

static int by_place(const neap_comparison_row *a, const neap_comparison_row *b)
{
    return a < b ? -1 : a > b; /* the caller's order */
}

static int by_overhead(const void *a, const void *b)
{
    const neap_comparison_row *left = *(const neap_comparison_row *const *)a;
    const neap_comparison_row *right = *(const neap_comparison_row *const *)b;
    if (left->overhead < right->overhead || left->overhead > right->overhead)
        return left->overhead < right->overhead ? -1 : 1;
    if (left->peak != right->peak)
        return left->peak < right->peak ? -1 : 1;
    return by_place(left, right);
}

static int by_peak(const void *a, const void *b)
{
    const neap_comparison_row *left = *(const neap_comparison_row *const *)a;
    const neap_comparison_row *right = *(const neap_comparison_row *const *)b;
    if (left->peak != right->peak)
        return left->peak < right->peak ? -1 : 1;
    return by_overhead(a, b);
}

static void sort_rows(neap_compared *c, const neap_comparison *comparison)
{
    size_t place = 0;
    for (size_t i = 0; i < c->count; i++)
        if (comparison->rows[i].feasible)
            c->rows[place++] = &comparison->rows[i];
    c->n_feasible = place;
    for (size_t i = 0; i < c->count; i++)
        if (!comparison->rows[i].feasible)
            c->rows[place++] = &comparison->rows[i];
    if (c->n_feasible > 1)
        qsort(c->rows, c->n_feasible, sizeof *c->rows, comparison->by_peak ? by_peak : by_overhead);
}

/* Whether a mark is near enough to be drawn; it then counts for the scale. */
static bool reach(neap_compared *c, int64_t bytes, int64_t peak)
{
    if (bytes < 0 || (peak > 0 && (double)bytes > REACH * (double)peak))
        return false;
    if (bytes > c->most_bytes)
        c->most_bytes = bytes;
    return true;
}

static void find_scales(neap_compared *c, const neap_comparison *comparison, double *values)
{
    int64_t peak = 0;
    for (size_t i = 0; i < c->n_feasible; i++) {
        values[i] = c->rows[i]->overhead;
        c->low = fmin(c->low, values[i]);
        peak = c->rows[i]->peak > peak ? c->rows[i]->peak : peak;
    }
    c->high = neap_robust_most(values, c->n_feasible);
    if (comparison->has_bound) {
        c->low = fmin(c->low, comparison->bound);
        c->high = fmax(c->high, comparison->bound);
    }
    c->high = fmax(c->high, c->low + 0.01);
    c->most_bytes = peak;
    c->shows_budget = reach(c, comparison->budget, peak);
    c->shows_natural = reach(c, comparison->natural_peak, peak);
    c->shows_floor = reach(c, comparison->floor, peak);
    if (c->most_bytes == 0)
        c->most_bytes = 1;
}

neap_status neap_compared_build(neap_allocator *allocator, const neap_comparison *comparison,
                                neap_compared *compared, neap_diag *diag)
{
    double *values = NULL;
    *compared = (neap_compared){.allocator = allocator, .count = comparison->n_rows};
    NEAP_TRY(check(comparison, diag));
    neap_status status = NEAP_NEW(allocator, comparison->n_rows, &compared->rows, diag);
    if (status == NEAP_OK)
        status = NEAP_NEW(allocator, comparison->n_rows, &values, diag);
    if (status == NEAP_OK) {
        sort_rows(compared, comparison);
        find_scales(compared, comparison, values);
    } else {
        neap_compared_clear(compared);
    }
    NEAP_DELETE(allocator, comparison->n_rows, values);
    return status;
}

void neap_compared_clear(neap_compared *compared)
{
    NEAP_DELETE(compared->allocator, compared->count, compared->rows);
    *compared = (neap_compared){0};
}

void neap_compared_reason(const neap_comparison_row *row, neap_text *text)
{
    char size[32];
    neap_text_clean(text, row->status ? row->status : "infeasible", NEAP_SVG_NAME, "…");
    if (row->least >= 0)
        neap_text_printf(text, ": needs at least %s",
                         neap_bytes_format(row->least, size, sizeof size));
}

void neap_comparison_init(neap_comparison *comparison)
{
    *comparison = (neap_comparison){.budget = -1, .natural_peak = -1, .floor = -1};
}
