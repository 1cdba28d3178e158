/*
 * neap/report.h: overhead against budget, for a terminal.
 *
 *     resnet50, batch 64, on h200: time overhead by budget
 *       40% ┤
 *           │░        b
 *       20% ┤░     a·····b······b······b
 *           │░──────────·a·
 *        0% ┤░             ─────a──────a
 *           └─┬────────────┬───────────┬──
 *           1 GiB        2 GiB       3 GiB
 *           a neap  b rotor, pareto  ─ bound  ░ floor 1.1 GiB
 *
 * Each line has a letter, which stands at its points. Where two points share a place, the line
 * named first is seen.
 */
#include "report/chart_size.h"
#include "report/clean_text.h"
#include "report/curve_series.h"
#include "report/round_ticks.h"
#include "report/svg.h"
#include "report/terminal_pen.h"

#include "base/memory.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Points above the scale that are named below the chart. */
enum { MOST_NOTES = 6 };

static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
static const neap_ink inks[] = {NEAP_INK_AREA,    NEAP_INK_AGAIN,   NEAP_INK_BACKWARD,
                                NEAP_INK_NATURAL, NEAP_INK_FORWARD, NEAP_INK_OVER};
enum { N_LETTERS = sizeof letters - 1, N_INKS = sizeof inks / sizeof *inks };

typedef struct cell {
    char glyph[5]; /* one character, NUL-terminated; empty: blank */
    uint8_t ink;
} cell;

typedef struct chart {
    const neap_curve_picture *picture;
    const neap_chart_options *options;
    neap_curve_series series;
    neap_byte_unit unit;
    neap_axis x, y; /* in units of bytes; in percent */
    int gutter;     /* characters before the axis */
    cell *cells;    /* height rows of width, the lowest first */
    neap_pen pen;
} chart;

/* ---- Scales ---- */

static void choose_scales(chart *c)
{
    const neap_curve_series *s = &c->series;
    c->unit = neap_byte_unit_for(s->most);
    double least = s->least / c->unit.bytes, most = s->most / c->unit.bytes;
    if (most - least < 0.02 * most || most == 0) { /* a single budget */
        least = 0.9 * least;
        most = 1.1 * most + (most == 0);
    }
    c->x = neap_axis_within(least, most, c->options->width / 12);
    c->y = neap_axis_around(100 * s->low, 100 * s->high, c->options->height < 8 ? 2 : 4);
}

static int column_of(const chart *c, double bytes)
{
    double share = (bytes / c->unit.bytes - c->x.first) / (c->x.last - c->x.first);
    return (int)lround(fmax(0, fmin(1, share)) * (c->options->width - 1));
}

/* What is above the scale has the uppermost row to itself. */
static int row_of(const chart *c, double overhead)
{
    int most = c->options->height - 1;
    if (overhead > c->series.high)
        return most;
    double share = (100 * overhead - c->y.first) / (c->y.last - c->y.first);
    return (int)lround(fmax(0, fmin(1, share)) * (c->series.clipped ? most - 1 : most));
}

/* The label of a row, "" if no tick is nearest to it. */
static void row_label(const chart *c, int row, char *label, size_t capacity)
{
    label[0] = '\0';
    if (c->series.clipped && row == c->options->height - 1)
        snprintf(label, capacity, "%s", neap_pen_glyph(&c->pen, NEAP_GLYPH_UP));
    for (int i = 0; i <= c->y.n_steps; i++) {
        double value = neap_axis_tick(&c->y, i);
        double share = (value - c->y.first) / (c->y.last - c->y.first);
        int most = c->options->height - 1 - c->series.clipped;
        if ((int)lround(share * most) == row)
            snprintf(label, capacity, "%.*f%%", c->y.step.decimals,
                     fabs(value) < c->y.step.step / 2 ? 0.0 : value);
    }
}

static int label_width(const char *label)
{
    return (int)neap_string_characters(label, strlen(label));
}

static int find_gutter(const chart *c)
{
    int widest = 3;
    for (int row = 0; row < c->options->height; row++) {
        char label[32];
        row_label(c, row, label, sizeof label);
        widest = label_width(label) > widest ? label_width(label) : widest;
    }
    return widest + 1;
}

/* ---- The plot ---- */

static void set_cell(chart *c, int row, int column, const char *glyph, neap_ink ink)
{
    cell *at = &c->cells[(size_t)row * (size_t)c->options->width + (size_t)column];
    snprintf(at->glyph, sizeof at->glyph, "%s", glyph);
    at->ink = (uint8_t)ink;
}

static void draw_uprights(chart *c)
{
    const char *wall = neap_pen_glyph(&c->pen, NEAP_GLYPH_WALL);
    const char *line = neap_pen_glyph(&c->pen, NEAP_GLYPH_UPRIGHT);
    for (int row = 0; row < c->options->height; row++) {
        if (c->series.shows_natural)
            set_cell(c, row, column_of(c, (double)c->picture->natural_peak), line,
                     NEAP_INK_NATURAL);
        int last = c->series.shows_floor ? column_of(c, (double)c->picture->floor) : -1;
        for (int column = 0; column <= last; column++)
            set_cell(c, row, column, wall, NEAP_INK_AXIS);
    }
}

/* A bound holds for its budget and for all smaller ones. */
static void draw_bound(chart *c)
{
    const neap_curve_series *s = &c->series;
    const char *line = neap_pen_glyph(&c->pen, NEAP_GLYPH_LINE + 1);
    for (size_t i = 0; i < s->n_bounds; i++) {
        int to = column_of(c, (double)s->bounds[i].budget);
        int from = i > 0            ? column_of(c, (double)s->bounds[i - 1].budget) + 1
                   : s->shows_floor ? column_of(c, (double)c->picture->floor) + 1
                                    : 0;
        for (int column = from; column <= to; column++)
            set_cell(c, row_of(c, s->bounds[i].overhead), column, line, NEAP_INK_BUDGET);
    }
}

static neap_ink ink_of(size_t line)
{
    return inks[line % N_INKS];
}

/* The letter of a line; lines past the last letter share a star. */
static void letter_of(size_t line, char *letter)
{
    letter[0] = line < N_LETTERS ? letters[line] : '*';
    letter[1] = '\0';
}

/* Dots from one point to the next, one in each column between them. */
static void draw_dots(chart *c, size_t line, const neap_curve_point *a, const neap_curve_point *b)
{
    int from = column_of(c, (double)a->budget), to = column_of(c, (double)b->budget);
    double first = row_of(c, a->overhead), last = row_of(c, b->overhead);
    for (int column = from + 1; column < to; column++) {
        double share = (double)(column - from) / (double)(to - from);
        set_cell(c, (int)lround(first + share * (last - first)), column,
                 neap_pen_glyph(&c->pen, NEAP_GLYPH_DOT), ink_of(line));
    }
}

static void draw_lines(chart *c)
{
    const neap_curve_series *s = &c->series;
    for (size_t line = s->count; line-- > 0;)
        for (size_t i = s->items[line].begin + 1; i < s->items[line].end; i++)
            if (s->points[i - 1]->feasible && s->points[i]->feasible)
                draw_dots(c, line, s->points[i - 1], s->points[i]);
    for (size_t line = s->count; line-- > 0;) {
        char letter[2];
        letter_of(line, letter);
        for (size_t i = s->items[line].begin; i < s->items[line].end; i++)
            if (s->points[i]->feasible)
                set_cell(c, row_of(c, s->points[i]->overhead),
                         column_of(c, (double)s->points[i]->budget), letter, ink_of(line));
    }
}

static void write_plot(chart *c)
{
    for (int row = c->options->height - 1; row >= 0; row--) {
        char label[32];
        row_label(c, row, label, sizeof label);
        neap_pen_spaces(&c->pen, c->gutter - 1 - label_width(label));
        neap_pen_put(&c->pen, NEAP_INK_AXIS, label);
        neap_pen_spaces(&c->pen, 1);
        neap_pen_put_glyph(&c->pen, NEAP_INK_AXIS, label[0] ? NEAP_GLYPH_TICK : NEAP_GLYPH_AXIS);
        for (int column = 0; column < c->options->width; column++) {
            const cell *at = &c->cells[(size_t)row * (size_t)c->options->width + (size_t)column];
            if (at->glyph[0])
                neap_pen_put(&c->pen, (neap_ink)at->ink, at->glyph);
            else
                neap_pen_spaces(&c->pen, 1);
        }
        neap_pen_end_line(&c->pen);
    }
}

static int tick_column(const chart *c, int tick)
{
    return column_of(c, neap_axis_tick(&c->x, tick) * c->unit.bytes);
}

static void write_axis(chart *c)
{
    int tick = 0, width = c->options->width;
    neap_pen_spaces(&c->pen, c->gutter);
    neap_pen_put_glyph(&c->pen, NEAP_INK_AXIS, NEAP_GLYPH_CORNER);
    for (int column = 0; column < width; column++) {
        bool marked = tick <= c->x.n_steps && column == tick_column(c, tick);
        neap_pen_put_glyph(&c->pen, NEAP_INK_AXIS,
                           marked ? NEAP_GLYPH_FLOOR_TICK : NEAP_GLYPH_FLOOR);
        tick += marked;
    }
    neap_pen_end_line(&c->pen);
    int written = -c->gutter - 1;
    for (tick = 0; tick <= c->x.n_steps; tick++) {
        char label[48];
        int length = snprintf(label, sizeof label, "%.*f %s", c->x.step.decimals,
                              neap_axis_tick(&c->x, tick), c->unit.name);
        int start = tick_column(c, tick) - length / 2;
        if (start + length > width)
            start = width - length;
        if (start <= written)
            continue;
        neap_pen_spaces(&c->pen, start - written);
        neap_pen_put(&c->pen, NEAP_INK_AXIS, label);
        written = start + length;
    }
    neap_pen_end_line(&c->pen);
}

/* ---- Above and below the plot ---- */

static void write_caption(chart *c)
{
    const char *title = c->picture->title;
    static const char words[] = "time overhead by memory budget";
    size_t room = (size_t)(c->gutter + 1 + c->options->width), wanted = sizeof words + 1;
    if (title && *title) {
        neap_text_clean(&c->pen.out, title, room > wanted + 12 ? room - wanted : room,
                        neap_pen_glyph(&c->pen, NEAP_GLYPH_ELLIPSIS));
        neap_text_puts(&c->pen.out, room > wanted + 12 ? ": " : "\n");
    }
    neap_text_puts(&c->pen.out, words);
    neap_pen_end_line(&c->pen);
}

static void write_mark(chart *c, int *written, bool shown, neap_ink ink, neap_glyph glyph,
                       const char *name, int64_t bytes)
{
    char size[32], meaning[64];
    if (!shown)
        return;
    snprintf(meaning, sizeof meaning, "%s%s", name,
             bytes >= 0 ? neap_bytes_format(bytes, size, sizeof size) : "");
    neap_pen_entry(&c->pen, written, c->gutter + 1, c->options->width, ink,
                   neap_pen_glyph(&c->pen, glyph), meaning);
}

/* Names of a line or a list, in the alphabet of the terminal and not longer than the plot. */
static void add_names(const chart *c, size_t first, size_t count, neap_text *text)
{
    size_t room = (size_t)c->options->width - 14;
    const char *ellipsis = neap_pen_glyph(&c->pen, NEAP_GLYPH_ELLIPSIS);
    for (size_t i = 0; i < count; i++) {
        const char *name = c->series.names[first + i];
        size_t used = neap_string_characters(neap_text_get(text), text->length);
        size_t length = neap_string_characters(name, strlen(name));
        if (i > 0 && used + 2 + (length < NEAP_SVG_NAME ? length : NEAP_SVG_NAME) > room) {
            neap_text_printf(text, " and %zu more", count - i);
            return;
        }
        neap_text_puts(text, i > 0 ? ", " : "");
        neap_text_clean(text, name, room < NEAP_SVG_NAME ? room : NEAP_SVG_NAME, ellipsis);
    }
}

static void write_legend(chart *c)
{
    const neap_curve_series *s = &c->series;
    int written = 0;
    neap_text names;
    neap_text_init(&names, c->pen.out.allocator);
    for (size_t line = 0; line < s->count; line++) {
        char letter[2];
        letter_of(line, letter);
        names.length = 0;
        add_names(c, s->items[line].first_name, s->items[line].n_names, &names);
        neap_pen_entry(&c->pen, &written, c->gutter + 1, c->options->width, ink_of(line), letter,
                       neap_text_get(&names));
    }
    if (written > 0)
        neap_pen_end_line(&c->pen);
    written = 0;
    if (s->n_never > 0) {
        names.length = 0;
        add_names(c, s->first_never, s->n_never, &names);
        neap_pen_entry(&c->pen, &written, c->gutter + 1, c->options->width, NEAP_INK_AXIS,
                       "never fits:", neap_text_get(&names));
        neap_pen_end_line(&c->pen);
        written = 0;
    }
    write_mark(c, &written, s->n_bounds > 0, NEAP_INK_BUDGET, (neap_glyph)(NEAP_GLYPH_LINE + 1),
               "bound: no plan is faster", -1);
    write_mark(c, &written, s->shows_floor, NEAP_INK_AXIS, NEAP_GLYPH_WALL, "floor ",
               c->picture->floor);
    write_mark(c, &written, s->shows_natural, NEAP_INK_NATURAL, NEAP_GLYPH_UPRIGHT, "natural peak ",
               c->picture->natural_peak);
    if (written > 0)
        neap_pen_end_line(&c->pen);
    if (names.status != NEAP_OK)
        c->pen.out.status = names.status;
    neap_text_clear(&names);
}

/* The points at the upper edge, with their values. */
static void write_clipped(chart *c)
{
    const neap_curve_series *s = &c->series;
    int written = 0;
    size_t count = 0;
    for (size_t line = 0; line < s->count; line++)
        for (size_t i = s->items[line].begin; i < s->items[line].end; i++) {
            const neap_curve_point *point = s->points[i];
            if (!point->feasible || !(point->overhead > s->high) || count++ >= MOST_NOTES)
                continue;
            char letter[2], sample[8], size[32], meaning[64];
            letter_of(line, letter);
            snprintf(sample, sizeof sample, "%s%s", letter, neap_pen_glyph(&c->pen, NEAP_GLYPH_UP));
            snprintf(meaning, sizeof meaning, "%+.0f%% at %s", 100 * point->overhead,
                     neap_bytes_format(point->budget, size, sizeof size));
            neap_pen_entry(&c->pen, &written, c->gutter + 1, c->options->width, ink_of(line),
                           sample, meaning);
        }
    if (count > MOST_NOTES) {
        char meaning[48];
        snprintf(meaning, sizeof meaning, "and %zu more off the scale", count - MOST_NOTES);
        neap_pen_entry(&c->pen, &written, c->gutter + 1, c->options->width, NEAP_INK_AXIS,
                       neap_pen_glyph(&c->pen, NEAP_GLYPH_UP), meaning);
    }
    if (written > 0)
        neap_pen_end_line(&c->pen);
}

static void write_empty(chart *c)
{
    neap_pen_spaces(&c->pen, c->gutter + 1);
    neap_pen_put(&c->pen, NEAP_INK_AXIS,
                 c->series.n_points ? "no method fits any of these budgets" : "no points");
    neap_pen_end_line(&c->pen);
}

neap_status neap_report_curve_chart(neap_allocator *allocator, const neap_curve_picture *picture,
                                    const neap_chart_options *options, char **text, size_t *length,
                                    neap_diag *diag)
{
    *text = NULL;
    *length = 0;
    neap_chart_options defaults;
    neap_chart_options_init(&defaults);
    chart c = {.picture = picture, .options = options ? options : &defaults};
    neap_status status = neap_chart_check_size(c.options, diag);
    if (status != NEAP_OK)
        return status;
    allocator = neap_allocator_or_system(allocator);
    neap_text_init(&c.pen.out, allocator);
    c.pen.color = c.options->color;
    c.pen.unicode = c.options->unicode;
    size_t n_cells = (size_t)c.options->width * (size_t)c.options->height;
    status = neap_curve_series_build(allocator, picture, &c.series, diag);
    if (status != NEAP_OK)
        return status;
    status = NEAP_NEW(allocator, n_cells, &c.cells, diag);
    if (status != NEAP_OK)
        goto done;
    choose_scales(&c);
    c.gutter = find_gutter(&c);
    draw_uprights(&c);
    draw_bound(&c);
    draw_lines(&c);
    write_caption(&c);
    write_plot(&c);
    write_axis(&c);
    if (c.series.count == 0)
        write_empty(&c);
    write_legend(&c);
    write_clipped(&c);
    status = neap_text_take(&c.pen.out, text, length, diag);
done:
    NEAP_DELETE(allocator, n_cells, c.cells);
    neap_text_clear(&c.pen.out);
    neap_curve_series_clear(&c.series);
    return status;
}
