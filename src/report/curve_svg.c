/*
 * neap/report.h: overhead against budget as SVG. Lines differ in colour, dashes and marker, so that
 * they can be told apart by colour-blind readers and in grey print. Their names stand at their
 * right ends, moved apart where they would overlap. Each marker has its numbers as a tooltip.
 */
#include "report/clean_text.h"
#include "report/curve_series.h"
#include "report/svg.h"

#include "base/fail.h"
#include "base/memory.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* In pixels of the viewBox. */
enum {
    PLOT_WIDTH = 560,
    LEFT = 70,
    TOP = 56,
    CLIPPED = 22, /* more at the top, for the values of points above the scale */
    BOTTOM = 58,
    PLOT_HEIGHT = 340,
    LEADER = 26, /* from the plot to a label's sample */
    SWATCH = 22,
    LABEL_ROW = 15,
    LABEL_GAP = 4,
    LABEL_CHARACTERS = 34, /* in a row */
    LABEL_ROWS = 3,
    NOTE_ROW = 16
};

/* Okabe and Ito's colours that stand out on white, the strongest contrasts first. */
static const char *const colors[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                     "#b8860b", "#56b4e9", "#444444"};
static const char *const dashes[] = {"", " stroke-dasharray=\"7 4\"", " stroke-dasharray=\"2 4\""};
enum { N_COLORS = 7, N_MARKERS = 7, N_DASHES = 3 };

/* A line's name beside its right end. */
typedef struct line_label {
    size_t line;
    double end, mean; /* overheads: of its last point, of all; in order of these */
    neap_text text;   /* its rows, each ended by '\n' */
    size_t rows;
} line_label;

typedef struct figure {
    const neap_curve_picture *picture;
    neap_curve_series series;
    neap_byte_unit unit;
    neap_svg_plot plot; /* x in units of bytes, y in percent */
    line_label *labels; /* from the top */
    double *centres, *heights;
    neap_svg_block *blocks;
    size_t longest; /* characters of a label's row */
    neap_text out;
} figure;

/* ---- Places ---- */

static double x_of(const figure *f, double bytes)
{
    return neap_svg_x(&f->plot, bytes / f->unit.bytes);
}

/* At the upper edge for what is above the scale. */
static double y_of(const figure *f, double overhead)
{
    return neap_svg_y(&f->plot, 100 * fmin(overhead, f->series.high));
}

static bool is_clipped(const figure *f, const neap_curve_point *point)
{
    return point->overhead > f->series.high;
}

/* Above what is in scale, the axis has room for the lines to the clipped points. */
static double point_y(const figure *f, const neap_curve_point *point)
{
    return is_clipped(f, point) ? f->plot.top : y_of(f, point->overhead);
}

static void choose_axes(figure *f)
{
    const neap_curve_series *s = &f->series;
    f->unit = neap_byte_unit_for(s->most);
    double least = s->least / f->unit.bytes, most = s->most / f->unit.bytes;
    if (least < 0.15 * most) /* close enough to 0 for the axis to begin there */
        least = 0;
    if (most - least < 0.02 * most || most == 0) { /* a single budget */
        least = 0.9 * least;
        most = 1.1 * most + (most == 0);
    }
    double room = s->clipped ? 0.12 : 0.02, beside = 0.02 * (most - least);
    f->plot.x = neap_axis_within(least > beside ? least - beside : 0, most + beside, 7);
    f->plot.y = neap_axis_around(100 * s->low, 100 * (s->high + room * (s->high - s->low)), 6);
}

/* ---- What no plan can do ---- */

static double bound_y(const figure *f, size_t i)
{
    double overhead = f->series.bounds[i].overhead;
    return overhead > f->series.high ? f->plot.top : y_of(f, overhead);
}

/* Where the area that no plan reaches begins: at the floor, or at the edge. */
static double bound_left(const figure *f)
{
    double left = f->plot.left;
    return f->series.shows_floor ? fmax(left, x_of(f, (double)f->picture->floor)) : left;
}

/* A bound holds for its budget and for all smaller ones: steps, not slopes. */
static void put_bound(figure *f)
{
    const neap_curve_series *s = &f->series;
    size_t first = 0; /* that ends in the plot */
    while (first + 1 < s->n_bounds && x_of(f, (double)s->bounds[first].budget) <= bound_left(f))
        first++;
    NEAP_SVG(&f->out, "M$ $", bound_left(f), bound_y(f, first));
    for (size_t i = first; i < s->n_bounds; i++)
        NEAP_SVG(&f->out, "V$H$", bound_y(f, i), x_of(f, (double)s->bounds[i].budget));
}

/* The bound's name, within its area if it is large enough. */
static void name_bound(figure *f)
{
    static const char *const names[] = {"bound: no plan is faster", "bound"};
    double left = bound_left(f), right = left, bottom = f->plot.top + f->plot.height;
    for (size_t i = 0; i < f->series.n_bounds && bottom - bound_y(f, i) > 20; i++)
        right = x_of(f, (double)f->series.bounds[i].budget);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (right - left < 12 + neap_svg_text_width(strlen(names[i]), 11))
            continue;
        NEAP_SVG(&f->out, "<text font-size=\"11\" fill=\"#57606a\" x=\"$\" y=\"$\">", left + 6,
                 bottom - 7);
        neap_text_printf(&f->out, "%s</text>\n", names[i]);
        return;
    }
}

/* The area that no plan reaches, and its edge. */
static void draw_bound(figure *f)
{
    if (f->series.n_bounds == 0)
        return;
    neap_text_puts(&f->out, "<path fill=\"#eceff2\" d=\"");
    put_bound(f);
    NEAP_SVG(&f->out, "V$H$z\"/>\n", f->plot.top + f->plot.height, bound_left(f));
    neap_text_puts(&f->out, "<path fill=\"none\" stroke=\"#24292f\" stroke-width=\"1.2\" d=\"");
    put_bound(f);
    neap_text_puts(&f->out, "\"><title>bound: no plan is faster</title></path>\n");
}

/* Text along a vertical line, from the top of the plot down. */
static void draw_upright(figure *f, double x, const char *anchor, const char *words, int64_t bytes)
{
    char size[32];
    neap_text_printf(&f->out,
                     "<text font-size=\"11.5\" fill=\"#57606a\" text-anchor=\"%s\" "
                     "stroke=\"#fff\" stroke-width=\"3\" paint-order=\"stroke\" ",
                     anchor);
    NEAP_SVG(&f->out, "transform=\"translate($ $) rotate(-90)\">", x, f->plot.top + 8);
    neap_text_printf(&f->out, "%s %s</text>\n", words, neap_bytes_format(bytes, size, sizeof size));
}

static void draw_floor(figure *f)
{
    if (!f->series.shows_floor)
        return;
    double x = fmax(f->plot.left, x_of(f, (double)f->picture->floor));
    double bottom = f->plot.top + f->plot.height, width = x - f->plot.left;
    neap_svg_hatch(&f->out, f->plot.left, f->plot.top, width, f->plot.height, 7);
    NEAP_SVG(&f->out, "<path d=\"M$ $V$\" stroke=\"#24292f\" stroke-width=\"1.6\"/>\n", x,
             f->plot.top, bottom);
    draw_upright(f, width > 18 ? x - 5 : x + 13, "end", "floor: no plan needs less than",
                 f->picture->floor);
}

static void draw_natural(figure *f)
{
    if (!f->series.shows_natural)
        return;
    double x = x_of(f, (double)f->picture->natural_peak);
    NEAP_SVG(&f->out,
             "<path d=\"M$ $V$\" stroke=\"#57606a\" stroke-width=\"1.2\" "
             "stroke-dasharray=\"5 4\"/>\n",
             x, f->plot.top, f->plot.top + f->plot.height);
    draw_upright(f, x - 5, "end", "natural peak", f->picture->natural_peak);
}

/* ---- Lines ---- */

/* Markers in order, the start of each relative to its centre, and the end of its element. */
static const struct {
    const char *begin;
    double x, y;
    const char *end;
} markers[N_MARKERS] = {
    {"<circle cx=\"$\" cy=\"$\" r=\"4\">", 0, 0, "</circle>\n"},
    {"<path d=\"M$ $h7.4v7.4h-7.4z\">", -3.7, -3.7, "</path>\n"},
    {"<path d=\"M$ $l4.8 8.2h-9.6z\">", 0, -5.2, "</path>\n"},
    {"<path d=\"M$ $l5 5-5 5-5-5z\">", 0, -5, "</path>\n"},
    {"<path d=\"M$ $l4.8-8.2h-9.6z\">", 0, 5.2, "</path>\n"},
    {"<path d=\"M$ $h3.2v-3.2h3.2v3.2h3.2v3.2h-3.2v3.2h-3.2v-3.2h-3.2z\">", -4.8, -1.6,
     "</path>\n"},
    {"<path d=\"M$ $l4.6 2.7v5.3l-4.6 2.7-4.6-2.7v-5.3z\">", 0, -5.3, "</path>\n"},
};

static const char *color_of(size_t line)
{
    return colors[line % N_COLORS];
}

static const char *dash_of(size_t line)
{
    return dashes[line / N_COLORS % N_DASHES];
}

static size_t marker_of(size_t line)
{
    return (line + line / N_COLORS) % N_MARKERS;
}

/* Begins a marker centred on a position; the caller's group sets colour and outline. */
static void begin_marker(figure *f, size_t line, double x, double y)
{
    size_t m = marker_of(line);
    NEAP_SVG(&f->out, markers[m].begin, x + markers[m].x, y + markers[m].y);
}

static void end_marker(figure *f, size_t line)
{
    neap_text_puts(&f->out, markers[marker_of(line)].end);
}

/* An infeasible budget interrupts a line. */
static void draw_line(figure *f, size_t line)
{
    const neap_series *series = &f->series.items[line];
    neap_text_printf(&f->out,
                     "<path fill=\"none\" stroke=\"%s\" stroke-width=\"1.9\" "
                     "stroke-linejoin=\"round\"%s d=\"",
                     color_of(line), dash_of(line));
    bool pen_down = false;
    for (size_t i = series->begin; i < series->end; i++) {
        const neap_curve_point *point = f->series.points[i];
        if (point->feasible)
            NEAP_SVG(&f->out, pen_down ? "L$ $" : "M$ $", x_of(f, (double)point->budget),
                     point_y(f, point));
        pen_down = point->feasible;
    }
    neap_text_puts(&f->out, "\"/>\n");
}

static void put_tooltip(figure *f, size_t line, const neap_curve_point *point)
{
    char budget[32], peak[32];
    neap_text names;
    neap_text_init(&names, f->out.allocator);
    neap_series_label(&f->series, &f->series.items[line], &names);
    if (names.status != NEAP_OK)
        f->out.status = names.status;
    neap_text_puts(&f->out, "<title>");
    neap_svg_name(&f->out, neap_text_get(&names), 4 * NEAP_SVG_NAME);
    neap_text_printf(&f->out, ": %+.2f%% at %s, peak %s</title>", 100 * point->overhead,
                     neap_bytes_format(point->budget, budget, sizeof budget),
                     neap_bytes_format(point->peak, peak, sizeof peak));
    neap_text_clear(&names);
}

/* Markers; a point above the scale is an arrow at the upper edge. */
static void draw_markers(figure *f, size_t line)
{
    const neap_series *series = &f->series.items[line];
    neap_text_printf(&f->out, "<g fill=\"%s\" stroke=\"#fff\" stroke-width=\"0.8\">\n",
                     color_of(line));
    for (size_t i = series->begin; i < series->end; i++) {
        const neap_curve_point *point = f->series.points[i];
        if (!point->feasible)
            continue;
        double x = x_of(f, (double)point->budget), y = point_y(f, point);
        bool clipped = is_clipped(f, point);
        if (clipped)
            NEAP_SVG(&f->out, "<path d=\"M$ $l5.5 10h-11z\">", x, y - 6);
        else
            begin_marker(f, line, x, y);
        put_tooltip(f, line, point);
        if (clipped)
            neap_text_puts(&f->out, "</path>\n");
        else
            end_marker(f, line);
    }
    neap_text_puts(&f->out, "</g>\n");
}

/* The values above the scale at each budget, over its arrows: one, or from the least to the most.
   Those that would overlap the one before them are only in the tooltips. */
static void draw_clipped(figure *f)
{
    const neap_curve_series *s = &f->series;
    double free_from = 0;
    neap_text_puts(&f->out, "<g font-size=\"11\" text-anchor=\"middle\">\n");
    for (int64_t at = -1;;) {
        int64_t budget = INT64_MAX;
        double least = HUGE_VAL, most = 0;
        for (size_t i = 0; i < s->n_points; i++) {
            const neap_curve_point *point = s->points[i];
            if (!point->feasible || !is_clipped(f, point) || point->budget <= at)
                continue;
            if (point->budget < budget) {
                budget = point->budget;
                least = HUGE_VAL;
                most = 0;
            }
            if (point->budget == budget) {
                least = fmin(least, point->overhead);
                most = fmax(most, point->overhead);
            }
        }
        if (budget == INT64_MAX)
            break;
        char label[64];
        int length = 100 * (most - least) < 0.5
                         ? snprintf(label, sizeof label, "%.0f%%", 100 * most)
                         : snprintf(label, sizeof label, "%.0f to %.0f%%", 100 * least, 100 * most);
        double x = x_of(f, (double)budget), width = neap_svg_text_width((size_t)length, 11);
        if (x - width / 2 >= free_from) {
            NEAP_SVG(&f->out, "<text x=\"$\" y=\"$\">", x, f->plot.top - 10);
            neap_text_printf(&f->out, "%s</text>\n", label);
            free_from = x + width / 2 + 4;
        }
        at = budget;
    }
    neap_text_puts(&f->out, "</g>\n");
}

/* ---- Labels ---- */

static int from_the_top(const void *a, const void *b)
{
    const line_label *left = a, *right = b;
    if (left->end < right->end || left->end > right->end)
        return left->end > right->end ? -1 : 1;
    if (left->mean < right->mean || left->mean > right->mean)
        return left->mean > right->mean ? -1 : 1;
    return left->line < right->line ? -1 : left->line > right->line;
}

/* Breaks the names of a line into rows; the last one says how many are left out. Names are cleaned
   and shortened here: a line break in one must not make a row. */
static void set_rows(figure *f, line_label *l)
{
    const neap_series *line = &f->series.items[l->line];
    size_t in_row = 0;
    l->rows = 1;
    for (size_t i = 0; i < line->n_names; i++) {
        const char *name = f->series.names[line->first_name + i];
        size_t length = neap_string_characters(name, strlen(name));
        length = length < NEAP_SVG_NAME ? length : NEAP_SVG_NAME;
        bool breaks = in_row > 0 && in_row + 2 + length > LABEL_CHARACTERS;
        if (breaks && l->rows == LABEL_ROWS) {
            neap_text_printf(&l->text, " +%zu", line->n_names - i);
            f->longest = in_row + 5 > f->longest ? in_row + 5 : f->longest;
            break;
        }
        neap_text_puts(&l->text, i == 0 ? "" : breaks ? ",\n" : ", ");
        l->rows += breaks;
        in_row = (breaks || i == 0 ? 0 : in_row + 2) +
                 neap_text_clean(&l->text, name, NEAP_SVG_NAME, "…");
        f->longest = in_row > f->longest ? in_row : f->longest;
    }
    if (l->text.status != NEAP_OK)
        f->out.status = l->text.status;
}

static neap_status make_labels(figure *f, neap_diag *diag)
{
    neap_allocator *allocator = f->out.allocator;
    size_t count = f->series.count;
    NEAP_TRY(NEAP_NEW(allocator, count, &f->labels, diag));
    NEAP_TRY(NEAP_NEW(allocator, count, &f->centres, diag));
    NEAP_TRY(NEAP_NEW(allocator, count, &f->heights, diag));
    NEAP_TRY(NEAP_NEW(allocator, count, &f->blocks, diag));
    for (size_t i = 0; i < count; i++) {
        const neap_series *line = &f->series.items[i];
        double sum = 0;
        size_t feasible = 0;
        for (size_t k = line->begin; k < line->end; k++)
            if (f->series.points[k]->feasible) {
                sum += f->series.points[k]->overhead;
                feasible++;
            }
        double end = neap_series_end(&f->series, line)->overhead;
        f->labels[i] = (line_label){.line = i, .mean = sum / (double)feasible};
        /* ends that look the same are in the order of the lines before them */
        double unit = NEAP_COINCIDENT * (f->series.high - f->series.low);
        f->labels[i].end = floor(fmin(end, f->series.high + unit) / unit + 0.5);
        neap_text_init(&f->labels[i].text, allocator);
        set_rows(f, &f->labels[i]);
    }
    if (count > 1)
        qsort(f->labels, count, sizeof *f->labels, from_the_top);
    return NEAP_OK;
}

static void place_labels(figure *f)
{
    for (size_t i = 0; i < f->series.count; i++) {
        const line_label *l = &f->labels[i];
        f->centres[i] = point_y(f, neap_series_end(&f->series, &f->series.items[l->line]));
        f->heights[i] = (double)(l->rows * LABEL_ROW + LABEL_GAP);
    }
    neap_svg_spread(f->centres, f->heights, f->series.count, f->plot.top - 8,
                    f->plot.top + f->plot.height + 12, f->blocks);
}

static double labels_height(const figure *f)
{
    double height = 0;
    for (size_t i = 0; i < f->series.count; i++)
        height += (double)(f->labels[i].rows * LABEL_ROW + LABEL_GAP);
    return height;
}

static void draw_label(figure *f, size_t i)
{
    const line_label *l = &f->labels[i];
    const neap_curve_point *end = neap_series_end(&f->series, &f->series.items[l->line]);
    double right = f->plot.left + f->plot.width, x = right + LEADER, y = f->centres[i];
    const char *color = color_of(l->line);
    neap_text_printf(&f->out, "<path fill=\"none\" stroke=\"%s\" stroke-width=\"0.7\" d=\"", color);
    NEAP_SVG(&f->out, "M$ $H$L$ $\"/>\n", x_of(f, (double)end->budget) + 5, point_y(f, end),
             right + 7, x - 3, y);
    neap_text_printf(&f->out, "<path stroke=\"%s\" stroke-width=\"1.9\"%s d=\"", color,
                     dash_of(l->line));
    NEAP_SVG(&f->out, "M$ $h$\"/>\n", x, y, SWATCH);
    neap_text_printf(&f->out, "<g fill=\"%s\" stroke=\"#fff\" stroke-width=\"0.8\">", color);
    begin_marker(f, l->line, x + SWATCH / 2.0, y);
    end_marker(f, l->line);
    neap_text_puts(&f->out, "</g>\n");
    double row_y = y - (double)(l->rows - 1) * LABEL_ROW / 2.0 + 4.3;
    for (const char *row = neap_text_get(&l->text); *row;) {
        size_t length = strcspn(row, "\n");
        neap_text part;
        neap_text_init(&part, f->out.allocator);
        neap_text_append(&part, row, length);
        NEAP_SVG(&f->out, "<text font-size=\"12.5\" x=\"$\" y=\"$\">", x + SWATCH + 7, row_y);
        neap_text_xml(&f->out, neap_text_get(&part));
        neap_text_puts(&f->out, "</text>\n");
        if (part.status != NEAP_OK)
            f->out.status = part.status;
        neap_text_clear(&part);
        row += length + (row[length] == '\n');
        row_y += LABEL_ROW;
    }
}

/* ---- Notes below ---- */

/* "a, b, c": names that fit a row of so many characters, then how many more there are. */
static void put_names(figure *f, const char *const *names, size_t count, size_t room)
{
    size_t used = 0;
    for (size_t i = 0; i < count; i++) {
        size_t length = neap_string_characters(names[i], strlen(names[i]));
        length = length < NEAP_SVG_NAME ? length : NEAP_SVG_NAME;
        if (i > 0 && used + length + 2 > room) {
            neap_text_printf(&f->out, " and %zu more", count - i);
            return;
        }
        neap_text_puts(&f->out, i > 0 ? ", " : "");
        neap_svg_name(&f->out, names[i], NEAP_SVG_NAME);
        used += length + 2;
    }
}

static void draw_never(figure *f, double y, int width)
{
    if (f->series.n_never == 0)
        return;
    NEAP_SVG(&f->out, "<text font-size=\"12\" fill=\"" NEAP_SVG_FAINT "\" x=\"$\" y=\"$\">", LEFT,
             y);
    neap_text_puts(&f->out, "never fits: ");
    put_names(f, f->series.names + f->series.first_never, f->series.n_never,
              (size_t)((width - LEFT - 20) / neap_svg_text_width(1, 12)) - 28);
    neap_text_puts(&f->out, "</text>\n");
}

static void draw_empty(figure *f)
{
    NEAP_SVG(&f->out,
             "<text font-size=\"15\" fill=\"#57606a\" stroke=\"#fff\" stroke-width=\"8\" "
             "paint-order=\"stroke\" text-anchor=\"middle\" x=\"$\" y=\"$\">",
             f->plot.left + f->plot.width / 2, f->plot.top + f->plot.height / 2);
    neap_text_puts(&f->out,
                   f->series.n_points ? "no method fits any of these budgets" : "no points");
    neap_text_puts(&f->out, "</text>\n");
}

static void draw(figure *f)
{
    const char *title = f->picture->title;
    double needed = labels_height(f) - 20;
    f->plot.left = LEFT;
    f->plot.top = TOP + (f->series.clipped ? CLIPPED : 0);
    f->plot.width = PLOT_WIDTH;
    f->plot.height = needed > PLOT_HEIGHT ? needed : PLOT_HEIGHT;
    int label_width = LEADER + SWATCH + 7 + (int)neap_svg_text_width(f->longest, 12.5);
    int width = LEFT + PLOT_WIDTH + (f->series.count > 0 ? label_width : 0) + 16;
    double bottom = f->plot.top + f->plot.height + BOTTOM;
    int height = (int)bottom + (f->series.n_never > 0 ? NOTE_ROW : 0);
    char unit[40];
    choose_axes(f);
    place_labels(f);
    neap_svg_begin(&f->out, width, height,
                   title && *title ? title : "Time overhead by memory budget");
    neap_svg_title(&f->out, title, LEFT, 30, width - LEFT - 16);
    snprintf(unit, sizeof unit, "memory budget (%s)", f->unit.name);
    draw_bound(f);
    neap_svg_axes(&f->out, &f->plot, NEAP_SVG_GRID_Y, unit, "", "time overhead", "%");
    draw_floor(f);
    draw_natural(f);
    name_bound(f);
    for (size_t i = f->series.count; i-- > 0;)
        draw_line(f, i);
    for (size_t i = f->series.count; i-- > 0;)
        draw_markers(f, i);
    if (f->series.clipped)
        draw_clipped(f);
    for (size_t i = 0; i < f->series.count; i++)
        draw_label(f, i);
    draw_never(f, bottom, width);
    if (f->series.count == 0)
        draw_empty(f);
    neap_svg_end(&f->out);
}

neap_status neap_report_curve_svg(neap_allocator *allocator, const neap_curve_picture *picture,
                                  char **text, size_t *length, neap_diag *diag)
{
    *text = NULL;
    *length = 0;
    allocator = neap_allocator_or_system(allocator);
    figure f = {.picture = picture};
    neap_text_init(&f.out, allocator);
    neap_status status = neap_curve_series_build(allocator, picture, &f.series, diag);
    if (status != NEAP_OK)
        return status;
    size_t count = f.series.count;
    status = make_labels(&f, diag);
    if (status == NEAP_OK) {
        draw(&f);
        status = neap_text_take(&f.out, text, length, diag);
    }
    for (size_t i = 0; f.labels && i < count; i++)
        neap_text_clear(&f.labels[i].text);
    NEAP_DELETE(allocator, count, f.labels);
    NEAP_DELETE(allocator, count, f.centres);
    NEAP_DELETE(allocator, count, f.heights);
    NEAP_DELETE(allocator, count, f.blocks);
    neap_text_clear(&f.out);
    neap_curve_series_clear(&f.series);
    return status;
}
