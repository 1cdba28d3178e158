/*
 * neap/report.h: a series of numbers, such as losses, for a terminal.
 *
 *     loss                                              title
 *       2.31 ┤█▆▅
 *            │███▇▅▄▃▂▁▁                                the plot: means of the values in a column
 *       1.02 ┤███████████▅▄▃▂▂▁▁▁▁▂▁▁▁x
 *            └─────────────────────────────
 *             1           step          500
 *             x not a finite number                     legend, where there is one
 *
 * The upper label is the largest mean, the lower one the smallest; the lowest row has room for it.
 */
#include "report/clean_text.h"
#include "report/terminal_pen.h"

#include "base/fail.h"
#include "base/memory.h"

#include <neap/report.h>
#include <neap/text.h>

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { LEAST_WIDTH = 10, MOST_WIDTH = 1000, LEAST_HEIGHT = 2, MOST_HEIGHT = 200 };

typedef struct series {
    const neap_series_options *options;
    double *columns; /* means; NaN where a value is not finite */
    double least, most;
    bool any_finite, any_other;
    neap_pen pen;
} series;

void neap_series_options_init(neap_series_options *options)
{
    *options = (neap_series_options){.width = 60, .height = 6, .unicode = true};
}

/* The mean of values [begin, end), which are not none; NaN if one is not finite. The sum of shares
   does not overflow where the sum would. */
static double mean(const double *values, size_t begin, size_t end)
{
    double result = 0;
    for (size_t i = begin; i < end; i++)
        result += values[i] / (double)(end - begin);
    return isfinite(result) ? result : (double)NAN;
}

/* Of `count` values, column c of w shows those from c count / w on, and at least one. Counts are
   below 2^53, so that doubles are exact enough. */
static void fill_columns(series *s, const double *values, size_t count)
{
    size_t width = (size_t)s->options->width;
    for (size_t c = 0; c < width; c++) {
        size_t begin = (size_t)((double)c / (double)width * (double)count);
        size_t end = (size_t)((double)(c + 1) / (double)width * (double)count);
        begin = begin < count ? begin : count - 1;
        end = end > count ? count : end;
        double value = mean(values, begin, end > begin ? end : begin + 1);
        s->columns[c] = value;
        if (isnan(value)) {
            s->any_other = true;
            continue;
        }
        if (!s->any_finite || value < s->least)
            s->least = value;
        if (!s->any_finite || value > s->most)
            s->most = value;
        s->any_finite = true;
    }
}

/* Eighths of a row from the bottom: 1 for the least value, all for the largest. */
static int64_t eighths_of(const series *s, double value)
{
    double all = 8.0 * s->options->height;
    double range = s->most / 2 - s->least / 2; /* halves: it may exceed the largest double */
    if (!(range > 0))
        return (int64_t)(all / 2);
    return 1 + (int64_t)floor((value / 2 - s->least / 2) / range * (all - 1) + 1e-9);
}

static void write_label(series *s, const char *label, int gutter)
{
    neap_pen_spaces(&s->pen, gutter - 1 - (int)strlen(label));
    neap_pen_put(&s->pen, NEAP_INK_AXIS, label);
    neap_pen_spaces(&s->pen, 1);
    neap_pen_put_glyph(&s->pen, NEAP_INK_AXIS, label[0] ? NEAP_GLYPH_TICK : NEAP_GLYPH_AXIS);
}

static void write_row(series *s, int row)
{
    for (int c = 0; c < s->options->width; c++) {
        if (isnan(s->columns[c])) {
            neap_pen_put(&s->pen, row == 0 ? NEAP_INK_OVER : NEAP_INK_NONE, row == 0 ? "x" : " ");
            continue;
        }
        int64_t filled = eighths_of(s, s->columns[c]) - 8 * (int64_t)row;
        filled = filled < 0 ? 0 : filled > 8 ? 8 : filled;
        if (filled == 0)
            neap_pen_spaces(&s->pen, 1);
        else
            neap_pen_put_glyph(&s->pen, NEAP_INK_AREA, NEAP_GLYPH_AREA + filled);
    }
    neap_pen_end_line(&s->pen);
}

/* "1           step           500": what does not fit between the ends is left out. */
static void write_x_labels(series *s, int gutter)
{
    char first[32], last[32];
    int width = s->options->width;
    snprintf(first, sizeof first, "%" PRId64, s->options->first);
    snprintf(last, sizeof last, "%" PRId64, s->options->last);
    int room = width - (int)strlen(first) - (int)strlen(last);
    const char *name = s->options->x_name ? s->options->x_name : "";
    int name_width = (int)neap_string_characters(name, strlen(name));
    bool named = name_width > 0 && name_width + 4 <= room;
    neap_pen_spaces(&s->pen, gutter + 1);
    neap_pen_put(&s->pen, NEAP_INK_AXIS, first);
    int before = named ? (room - name_width) / 2 : room;
    neap_pen_spaces(&s->pen, before);
    if (named) {
        neap_text_clean(&s->pen.out, name, (size_t)name_width, "");
        neap_pen_spaces(&s->pen, room - name_width - before);
    }
    if (room > 0)
        neap_pen_put(&s->pen, NEAP_INK_AXIS, last);
    neap_pen_end_line(&s->pen);
}

static void write_series(series *s)
{
    char least[32] = "", most[32] = "";
    int height = s->options->height;
    if (s->any_finite) {
        snprintf(most, sizeof most, "%.4g", s->most);
        snprintf(least, sizeof least, "%.4g", s->least);
    }
    int gutter = (int)(strlen(most) > strlen(least) ? strlen(most) : strlen(least)) + 2;
    if (s->options->title && *s->options->title) {
        neap_text_clean(&s->pen.out, s->options->title, (size_t)(gutter + s->options->width),
                        neap_pen_glyph(&s->pen, NEAP_GLYPH_ELLIPSIS));
        neap_pen_end_line(&s->pen);
    }
    for (int row = height - 1; row >= 0; row--) {
        write_label(s, row == height - 1 ? most : row == 0 ? least : "", gutter);
        write_row(s, row);
    }
    neap_pen_spaces(&s->pen, gutter);
    neap_pen_put_glyph(&s->pen, NEAP_INK_AXIS, NEAP_GLYPH_CORNER);
    for (int c = 0; c < s->options->width; c++)
        neap_pen_put_glyph(&s->pen, NEAP_INK_AXIS, NEAP_GLYPH_FLOOR);
    neap_pen_end_line(&s->pen);
    write_x_labels(s, gutter);
    if (s->any_other) {
        neap_pen_spaces(&s->pen, gutter + 1);
        neap_pen_put(&s->pen, NEAP_INK_OVER, "x");
        neap_pen_put(&s->pen, NEAP_INK_AXIS, " not a finite number");
        neap_pen_end_line(&s->pen);
    }
}

neap_status neap_report_series_chart(neap_allocator *allocator, const double *values, size_t count,
                                     const neap_series_options *options, char **text,
                                     size_t *length, neap_diag *diag)
{
    *text = NULL;
    *length = 0;
    neap_series_options defaults;
    neap_series_options_init(&defaults);
    series s = {.options = options ? options : &defaults};
    int width = s.options->width, height = s.options->height;
    if (count == 0)
        return neap_fail(diag, NEAP_INVALID, "a chart needs at least one value");
    if (width < LEAST_WIDTH || width > MOST_WIDTH || height < LEAST_HEIGHT || height > MOST_HEIGHT)
        return neap_fail(diag, NEAP_INVALID,
                         "a chart cannot have %d x %d characters; the width must be %d to %d, "
                         "the height %d to %d",
                         width, height, LEAST_WIDTH, MOST_WIDTH, LEAST_HEIGHT, MOST_HEIGHT);
    allocator = neap_allocator_or_system(allocator);
    neap_status status = NEAP_NEW(allocator, (size_t)width, &s.columns, diag);
    if (status != NEAP_OK)
        return status;
    neap_text_init(&s.pen.out, allocator);
    s.pen.color = s.options->color;
    s.pen.unicode = s.options->unicode;
    fill_columns(&s, values, count);
    write_series(&s);
    status = neap_text_take(&s.pen.out, text, length, diag);
    NEAP_DELETE(allocator, (size_t)width, s.columns);
    return status;
}
