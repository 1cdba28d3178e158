#include "report/curve_series.h"

#include "report/clean_text.h"
#include "report/robust_scale.h"
#include "report/svg.h"

#include "base/fail.h"
#include "base/memory.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A point on its way to its place. */
typedef struct entry {
    const neap_curve_point *point;
    size_t method; /* in order of first appearance */
} entry;

static neap_status check(const neap_curve_picture *picture, neap_diag *diag)
{
    for (size_t i = 0; i < picture->n_points; i++) {
        const neap_curve_point *point = &picture->points[i];
        if (!point->method)
            return neap_fail(diag, NEAP_INVALID, "point %zu of the curve has no method", i);
        if (point->budget < 0)
            return neap_fail(diag, NEAP_INVALID, "point %zu of the curve, of %s, has no budget", i,
                             point->method);
        if (point->feasible && !(fabs(point->overhead) <= 1e9))
            return neap_fail(diag, NEAP_INVALID,
                             "point %zu of the curve, of %s, has an overhead out of range", i,
                             point->method);
    }
    for (size_t i = 0; i < picture->n_bounds; i++)
        if (picture->bounds[i].budget < 0 || !(fabs(picture->bounds[i].overhead) <= 1e9))
            return neap_fail(diag, NEAP_INVALID, "bound %zu of the curve is out of range", i);
    return NEAP_OK;
}

/* ---- Points in order ---- */

static int by_method_and_budget(const void *a, const void *b)
{
    const entry *left = a, *right = b;
    if (left->method != right->method)
        return left->method < right->method ? -1 : 1;
    if (left->point->budget != right->point->budget)
        return left->point->budget < right->point->budget ? -1 : 1;
    return left->point < right->point ? -1 : left->point > right->point; /* the caller's order */
}

static void sort_points(neap_curve_series *s, const neap_curve_picture *picture, entry *entries)
{
    size_t n_methods = 0;
    for (size_t i = 0; i < s->n_points; i++) {
        size_t same = 0;
        while (strcmp(picture->points[same].method, picture->points[i].method) != 0)
            same++;
        entries[i].point = &picture->points[i];
        entries[i].method = same < i ? entries[same].method : n_methods++;
    }
    if (s->n_points > 0)
        qsort(entries, s->n_points, sizeof *entries, by_method_and_budget);
    for (size_t i = 0; i < s->n_points; i++)
        s->points[i] = entries[i].point;
}

static int by_budget(const void *a, const void *b)
{
    const neap_curve_bound *left = a, *right = b;
    return left->budget < right->budget ? -1 : left->budget > right->budget;
}

/* The best bound of each budget: its own, or that of a larger one. */
static void sort_bounds(neap_curve_series *s)
{
    size_t count = 0;
    if (s->n_bounds > 0)
        qsort(s->bounds, s->n_bounds, sizeof *s->bounds, by_budget);
    for (size_t i = 0; i < s->n_bounds; i++) {
        if (count > 0 && s->bounds[count - 1].budget == s->bounds[i].budget)
            s->bounds[count - 1].overhead =
                fmax(s->bounds[count - 1].overhead, s->bounds[i].overhead);
        else
            s->bounds[count++] = s->bounds[i];
    }
    for (size_t i = count; i-- > 1;)
        s->bounds[i - 1].overhead = fmax(s->bounds[i - 1].overhead, s->bounds[i].overhead);
    s->n_bounds = count;
}

/* ---- The ranges of the axes ---- */

static void find_overheads(neap_curve_series *s, double *values)
{
    size_t count = 0;
    s->low = 0;
    for (size_t i = 0; i < s->n_points; i++)
        if (s->points[i]->feasible) {
            values[count++] = s->points[i]->overhead;
            s->low = fmin(s->low, s->points[i]->overhead);
        }
    double most = neap_robust_most(values, count);
    s->clipped = count > 0 && values[count - 1] > most;
    s->high = fmax(most, s->low + 0.01);
    for (size_t i = 0; i < s->n_bounds; i++)
        s->low = fmin(s->low, s->bounds[i].overhead);
}

/* Feasible points have to be seen; the floor and the natural peak if they are not far away. */
static void find_budgets(neap_curve_series *s, const neap_curve_picture *picture)
{
    bool any = false;
    for (size_t i = 0; i < s->n_points; i++)
        any = any || s->points[i]->feasible;
    s->least = HUGE_VAL;
    for (size_t i = 0; i < s->n_points; i++) {
        if (any && !s->points[i]->feasible)
            continue;
        s->least = fmin(s->least, (double)s->points[i]->budget);
        s->most = fmax(s->most, (double)s->points[i]->budget);
    }
    if (s->n_points == 0)
        s->least = 0;
    double range = s->most - s->least, natural = (double)picture->natural_peak;
    s->shows_natural = natural >= s->least && natural <= s->most + 0.2 * range + 0.05 * s->most;
    if (s->shows_natural)
        s->most = fmax(s->most, natural);
    double below = s->least - (double)picture->floor;
    s->shows_floor =
        picture->floor >= 0 && (double)picture->floor <= s->most && below <= 0.35 * range;
    if (s->shows_floor && below > 0)
        s->least -= fmin(below + 0.04 * range, s->least);
}

/* ---- Lines ---- */

static bool coincide(const neap_curve_series *s, const neap_series *line, size_t begin, size_t end)
{
    double tolerance = NEAP_COINCIDENT * (s->high - s->low);
    if (line->end - line->begin != end - begin)
        return false;
    for (size_t i = 0; i < end - begin; i++) {
        const neap_curve_point *a = s->points[line->begin + i], *b = s->points[begin + i];
        if (a->budget != b->budget || a->feasible != b->feasible ||
            (a->feasible && fabs(a->overhead - b->overhead) > tolerance))
            return false;
    }
    return true;
}

static size_t method_end(const neap_curve_series *s, size_t begin)
{
    size_t end = begin + 1;
    while (end < s->n_points && strcmp(s->points[end]->method, s->points[begin]->method) == 0)
        end++;
    return end;
}

/* Makes lines of the methods; `line_of` gets the number of each method's line, or SIZE_MAX. */
static size_t group(neap_curve_series *s, size_t *line_of)
{
    size_t method = 0;
    for (size_t begin = 0, end; begin < s->n_points; begin = end, method++) {
        bool any = false;
        end = method_end(s, begin);
        for (size_t i = begin; i < end; i++)
            any = any || s->points[i]->feasible;
        size_t line = any ? 0 : SIZE_MAX;
        while (any && line < s->count && !coincide(s, &s->items[line], begin, end))
            line++;
        if (any && line == s->count)
            s->items[s->count++] = (neap_series){begin, end, 0, 0};
        line_of[method] = line;
    }
    return method;
}

static void collect_names(neap_curve_series *s, const size_t *line_of)
{
    size_t n_names = 0;
    for (size_t line = 0; line <= s->count; line++) {
        size_t first = n_names, method = 0;
        size_t wanted = line < s->count ? line : SIZE_MAX;
        for (size_t begin = 0; begin < s->n_points; begin = method_end(s, begin), method++)
            if (line_of[method] == wanted)
                s->names[n_names++] = s->points[begin]->method;
        if (line < s->count) {
            s->items[line].first_name = first;
            s->items[line].n_names = n_names - first;
        } else {
            s->first_never = first;
            s->n_never = n_names - first;
        }
    }
}

neap_status neap_curve_series_build(neap_allocator *allocator, const neap_curve_picture *picture,
                                    neap_curve_series *series, neap_diag *diag)
{
    size_t n = picture->n_points;
    entry *entries = NULL;
    double *values = NULL;
    size_t *line_of = NULL;
    *series = (neap_curve_series){.allocator = allocator,
                                  .n_points = n,
                                  .n_bounds = picture->n_bounds,
                                  .bound_capacity = picture->n_bounds};
    neap_status status = check(picture, diag);
    if (status != NEAP_OK)
        return status;
    if ((status = NEAP_NEW(allocator, n, &entries, diag)) != NEAP_OK ||
        (status = NEAP_NEW(allocator, n, &values, diag)) != NEAP_OK ||
        (status = NEAP_NEW(allocator, n, &line_of, diag)) != NEAP_OK ||
        (status = NEAP_NEW(allocator, n, &series->points, diag)) != NEAP_OK ||
        (status = NEAP_NEW(allocator, n, &series->items, diag)) != NEAP_OK ||
        (status = NEAP_NEW(allocator, n, &series->names, diag)) != NEAP_OK ||
        (status = NEAP_NEW(allocator, picture->n_bounds, &series->bounds, diag)) != NEAP_OK)
        goto done;
    sort_points(series, picture, entries);
    if (picture->n_bounds > 0)
        memcpy(series->bounds, picture->bounds, picture->n_bounds * sizeof *series->bounds);
    sort_bounds(series);
    find_overheads(series, values);
    find_budgets(series, picture);
    group(series, line_of);
    collect_names(series, line_of);
done:
    NEAP_DELETE(allocator, n, line_of);
    NEAP_DELETE(allocator, n, values);
    NEAP_DELETE(allocator, n, entries);
    if (status != NEAP_OK)
        neap_curve_series_clear(series);
    return status;
}

void neap_curve_series_clear(neap_curve_series *series)
{
    NEAP_DELETE(series->allocator, series->n_points, series->points);
    NEAP_DELETE(series->allocator, series->n_points, series->items);
    NEAP_DELETE(series->allocator, series->n_points, series->names);
    NEAP_DELETE(series->allocator, series->bound_capacity, series->bounds);
    *series = (neap_curve_series){0};
}

const neap_curve_point *neap_series_end(const neap_curve_series *series, const neap_series *line)
{
    size_t i = line->end - 1;
    while (!series->points[i]->feasible)
        i--;
    return series->points[i];
}

void neap_series_label(const neap_curve_series *series, const neap_series *line, neap_text *label)
{
    for (size_t i = 0; i < line->n_names; i++) {
        if (i > 0)
            neap_text_puts(label, ", ");
        neap_text_clean(label, series->names[line->first_name + i], NEAP_SVG_NAME, "…");
    }
}

void neap_curve_picture_init(neap_curve_picture *picture)
{
    *picture = (neap_curve_picture){.natural_peak = -1, .floor = -1};
}
