/*
 * neap/report.h: methods at one budget, for a terminal: a bar of the overhead and a bar of the peak
 * in each row, the best first.
 *
 *                   time overhead        peak memory
 *     neap          █▌         +7.04%    ████████████│      2.59 GiB
 *     rotor         ██▋       +11.55%    ███████████▋│      2.57 GiB
 *     store-all     infeasible: needs at least 5.16 GiB
 *                   bound +7.04%         │ budget 2.59 GiB  ┊ natural peak 5.19 GiB
 */
#include "report/chart_size.h"
#include "report/clean_text.h"
#include "report/compared.h"
#include "report/terminal_pen.h"

#include "base/memory.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { NUMBER = 10, GAP = 2, LONGEST_NAME = 24 };

typedef struct chart {
    const neap_comparison *comparison;
    const neap_chart_options *options;
    neap_compared compared;
    int names; /* characters of the column of methods */
    int bar;   /* of each bar */
    neap_pen pen;
} chart;

static void lay_out(chart *c)
{
    size_t longest = 6;
    for (size_t i = 0; i < c->compared.count; i++) {
        const char *name = c->compared.rows[i]->method;
        size_t length = neap_string_characters(name, strlen(name));
        longest = length > longest ? length : longest;
    }
    size_t most =
        (size_t)c->options->width / 4 < LONGEST_NAME ? (size_t)c->options->width / 4 : LONGEST_NAME;
    c->names = (int)(longest < most ? longest : most);
    int room = c->options->width - c->names - 4 * GAP - 2 * NUMBER;
    c->bar = room / 2 > 1 ? room / 2 : 1;
}

/* Appends a text cut to a column's width, and blanks up to it. */
static void put_column(chart *c, const char *text, int width)
{
    const char *ellipsis = neap_pen_glyph(&c->pen, NEAP_GLYPH_ELLIPSIS);
    size_t written = neap_text_clean(&c->pen.out, text, (size_t)width, ellipsis);
    neap_pen_spaces(&c->pen, width - (int)written);
}

static int column_of(const chart *c, double share)
{
    return (int)fmin(c->bar - 1, floor(share * c->bar));
}

/* A mark in a bar's row: a character at a share of its width. */
typedef struct mark {
    double share; /* negative: none */
    neap_glyph glyph;
    neap_ink ink;
} mark;

/* A bar of a share of the width, in eighths, with marks where it does not reach. */
static void put_bar(chart *c, double share, bool clipped, neap_ink ink, const mark *marks,
                    size_t n_marks)
{
    int64_t eighths = (int64_t)floor(fmax(0, fmin(1, share)) * c->bar * 8 + 0.5);
    for (int column = 0; column < c->bar; column++, eighths -= 8) {
        const mark *here = NULL;
        for (size_t i = 0; i < n_marks && !here; i++)
            if (marks[i].share >= 0 && column == column_of(c, marks[i].share))
                here = &marks[i];
        if (clipped && column == c->bar - 1)
            neap_pen_put(&c->pen, ink, ">");
        else if (eighths >= 8 || (eighths >= 4 && !here))
            neap_pen_put_glyph(&c->pen, ink, NEAP_GLYPH_BAR + (eighths >= 8 ? 2 : 1));
        else if (here)
            neap_pen_put_glyph(&c->pen, here->ink, here->glyph);
        else if (column == 0 && share > 0)
            neap_pen_put_glyph(&c->pen, ink, NEAP_GLYPH_BAR);
        else
            neap_pen_spaces(&c->pen, 1);
    }
}

static double byte_share(const chart *c, bool shown, int64_t bytes)
{
    return shown ? (double)bytes / (double)c->compared.most_bytes : -1;
}

/* Overheads begin at the lowest one, which is 0 unless some plan is faster than one run of every
   op. */
static double overhead_share(const chart *c, double overhead)
{
    return (overhead - c->compared.low) / (c->compared.high - c->compared.low);
}

static void put_number(chart *c, neap_ink ink, const char *number)
{
    neap_pen_spaces(&c->pen, NUMBER - (int)strlen(number));
    neap_pen_put(&c->pen, ink, number);
}

static void write_feasible(chart *c, size_t index)
{
    const neap_compared *all = &c->compared;
    const neap_comparison_row *row = all->rows[index];
    neap_ink ink = index == 0 ? NEAP_INK_AGAIN : NEAP_INK_AREA;
    mark bound = {c->comparison->has_bound ? overhead_share(c, c->comparison->bound) : -1,
                  NEAP_GLYPH_AXIS, NEAP_INK_BUDGET};
    mark marks[] = {
        {byte_share(c, all->shows_budget, c->comparison->budget), NEAP_GLYPH_AXIS, NEAP_INK_BUDGET},
        {byte_share(c, all->shows_natural, c->comparison->natural_peak), NEAP_GLYPH_UPRIGHT,
         NEAP_INK_NATURAL}};
    char number[32];
    put_column(c, row->method, c->names);
    neap_pen_spaces(&c->pen, GAP);
    put_bar(c, overhead_share(c, row->overhead), row->overhead > all->high, ink, &bound, 1);
    snprintf(number, sizeof number, "%+.2f%%", 100 * row->overhead);
    put_number(c, NEAP_INK_NONE, number);
    neap_pen_spaces(&c->pen, GAP);
    put_bar(c, byte_share(c, true, row->peak), false, ink, marks, 2);
    put_number(c, NEAP_INK_NONE, neap_bytes_format(row->peak, number, sizeof number));
    neap_pen_end_line(&c->pen);
}

static void write_infeasible(chart *c, const neap_comparison_row *row)
{
    neap_text reason;
    neap_text_init(&reason, c->pen.out.allocator);
    neap_compared_reason(row, &reason);
    if (reason.status != NEAP_OK)
        c->pen.out.status = reason.status;
    put_column(c, row->method, c->names);
    neap_pen_spaces(&c->pen, GAP);
    neap_pen_put(&c->pen, NEAP_INK_AXIS, "");
    neap_text_clean(&c->pen.out, neap_text_get(&reason),
                    (size_t)(c->options->width - c->names - GAP),
                    neap_pen_glyph(&c->pen, NEAP_GLYPH_ELLIPSIS));
    neap_pen_end_line(&c->pen);
    neap_text_clear(&reason);
}

static void write_head(chart *c)
{
    const char *title = c->comparison->title;
    if (title && *title) {
        neap_text_clean(&c->pen.out, title, (size_t)c->options->width,
                        neap_pen_glyph(&c->pen, NEAP_GLYPH_ELLIPSIS));
        neap_pen_end_line(&c->pen);
    }
    neap_pen_spaces(&c->pen, c->names + GAP);
    neap_pen_put(&c->pen, NEAP_INK_AXIS, "");
    put_column(c, "time overhead", c->bar + NUMBER);
    neap_pen_spaces(&c->pen, GAP);
    put_column(c, "peak memory", c->bar + NUMBER);
    neap_pen_end_line(&c->pen);
}

static void write_mark(chart *c, int *written, bool shown, const char *name, int64_t bytes,
                       neap_glyph glyph, neap_ink ink)
{
    char size[32], meaning[64];
    if (!shown)
        return;
    snprintf(meaning, sizeof meaning, "%s %s", name, neap_bytes_format(bytes, size, sizeof size));
    neap_pen_entry(&c->pen, written, c->names + GAP, c->options->width - c->names - GAP, ink,
                   neap_pen_glyph(&c->pen, glyph), meaning);
}

static void write_legend(chart *c)
{
    const neap_comparison *all = c->comparison;
    int written = 0, width = c->options->width - c->names - GAP;
    char meaning[64];
    if (all->has_bound) {
        snprintf(meaning, sizeof meaning, "bound %+.2f%%", 100 * all->bound);
        neap_pen_entry(&c->pen, &written, c->names + GAP, width, NEAP_INK_BUDGET,
                       neap_pen_glyph(&c->pen, NEAP_GLYPH_AXIS), meaning);
    }
    write_mark(c, &written, all->budget >= 0, "budget", all->budget, NEAP_GLYPH_AXIS,
               NEAP_INK_BUDGET);
    write_mark(c, &written, all->natural_peak >= 0, "natural peak", all->natural_peak,
               NEAP_GLYPH_UPRIGHT, NEAP_INK_NATURAL);
    if (written > 0)
        neap_pen_end_line(&c->pen);
}

neap_status neap_report_comparison_chart(neap_allocator *allocator,
                                         const neap_comparison *comparison,
                                         const neap_chart_options *options, char **text,
                                         size_t *length, neap_diag *diag)
{
    *text = NULL;
    *length = 0;
    neap_chart_options defaults;
    neap_chart_options_init(&defaults);
    chart c = {.comparison = comparison, .options = options ? options : &defaults};
    neap_status status = neap_chart_check_size(c.options, diag);
    if (status != NEAP_OK)
        return status;
    allocator = neap_allocator_or_system(allocator);
    neap_text_init(&c.pen.out, allocator);
    c.pen.color = c.options->color;
    c.pen.unicode = c.options->unicode;
    status = neap_compared_build(allocator, comparison, &c.compared, diag);
    if (status != NEAP_OK)
        return status;
    lay_out(&c);
    write_head(&c);
    for (size_t i = 0; i < c.compared.count; i++)
        if (i < c.compared.n_feasible)
            write_feasible(&c, i);
        else
            write_infeasible(&c, c.compared.rows[i]);
    write_legend(&c);
    status = neap_text_take(&c.pen.out, text, length, diag);
    neap_text_clear(&c.pen.out);
    neap_compared_clear(&c.compared);
    return status;
}
