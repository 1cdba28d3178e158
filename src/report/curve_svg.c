/*
 * neap/report.h: overhead against budget as a self-contained SVG, without scripts, embedded fonts
 * or references. Methods differ in colour and marker, so that they can be told apart by
 * colour-blind readers and in grey print. Each marker has its numbers as a tooltip.
 */
#include "report/clean_text.h"
#include "report/round_ticks.h"

#include "base/fail.h"
#include "base/memory.h"

#include <neap/report.h>
#include <neap/text.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* In pixels of the viewBox. */
enum {
    PLOT_WIDTH = 560,
    LEFT = 76,
    TOP = 60,
    BOTTOM = 62,
    LEAST_PLOT_HEIGHT = 330,
    LEGEND_GAP = 28,
    LEGEND_ROW = 22,
    SWATCH = 30,
    LONGEST_NAME = 28 /* characters of a method in the legend */
};

/* Okabe and Ito's colours that stand out on white, the strongest contrasts first. */
static const char *const colors[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                     "#e69f00", "#56b4e9", "#444444"};
static const char *const dashes[] = {"", " stroke-dasharray=\"7 4\"", " stroke-dasharray=\"2 4\""};
enum { N_COLORS = 7, N_MARKERS = 7, N_DASHES = 3 };

/* A point that is drawn or that breaks a line, in drawing order. */
typedef struct entry {
    const neap_curve_point *point;
    size_t method; /* in order of first appearance */
    size_t index;  /* in the caller's order */
} entry;

typedef struct axis {
    double first, last; /* ends of the axis, in its unit */
    neap_round step;
    int n_steps;
} axis;

typedef struct picture {
    const char *title;
    entry *entries;
    size_t n_entries, n_methods, n_feasible;
    neap_byte_unit unit;
    axis x, y; /* in units of bytes; in percent */
    int plot_height, legend_width;
    neap_text out;
} picture;

/* ---- Numbers and places ---- */

/* Two decimals at most, with a point in every locale. */
static void put_number(picture *p, double value)
{
    long long cents = llround(value * 100);
    if (cents < 0) {
        neap_text_putc(&p->out, '-');
        cents = -cents;
    }
    neap_text_i64(&p->out, cents / 100);
    if (cents % 100 == 0)
        return;
    neap_text_putc(&p->out, '.');
    neap_text_putc(&p->out, (char)('0' + cents % 100 / 10));
    if (cents % 10)
        neap_text_putc(&p->out, (char)('0' + cents % 10));
}

/* Appends a template in which each $ stands for the next of up to six numbers. */
static void put_numbers(picture *p, const char *template, const double *numbers)
{
    for (; *template; template ++)
        if (*template == '$')
            put_number(p, *numbers++);
        else
            neap_text_putc(&p->out, *template);
}

#define PUT(p, template, ...) put_numbers((p), (template), (const double[]){__VA_ARGS__})

static double x_place(const picture *p, double units)
{
    return LEFT + PLOT_WIDTH * (units - p->x.first) / (p->x.last - p->x.first);
}

static double y_place(const picture *p, double percent)
{
    return TOP + p->plot_height * (p->y.last - percent) / (p->y.last - p->y.first);
}

static double budget_of(const picture *p, const neap_curve_point *point)
{
    return (double)point->budget / p->unit.bytes;
}

/* ---- What is drawn ---- */

static int by_method_and_budget(const void *a, const void *b)
{
    const entry *left = a, *right = b;
    if (left->method != right->method)
        return left->method < right->method ? -1 : 1;
    if (left->point->budget != right->point->budget)
        return left->point->budget < right->point->budget ? -1 : 1;
    return left->index < right->index ? -1 : left->index > right->index;
}

static neap_status check_points(const neap_curve_point *points, size_t n_points, neap_diag *diag)
{
    for (size_t i = 0; i < n_points; i++) {
        if (!points[i].method)
            return neap_fail(diag, NEAP_INVALID, "point %zu of the curve has no method", i);
        if (points[i].budget < 0)
            return neap_fail(diag, NEAP_INVALID, "point %zu of the curve, of %s, has no budget", i,
                             points[i].method);
        if (points[i].feasible && !(fabs(points[i].overhead) <= 1e9))
            return neap_fail(diag, NEAP_INVALID,
                             "point %zu of the curve, of %s, has an overhead out of range", i,
                             points[i].method);
    }
    return NEAP_OK;
}

/* Numbers the methods, then sorts the points by method and budget. */
static neap_status collect(picture *p, const neap_curve_point *points, size_t n_points,
                           neap_diag *diag)
{
    neap_status status = NEAP_NEW(p->out.allocator, n_points, &p->entries, diag);
    if (status != NEAP_OK)
        return status;
    p->n_entries = n_points;
    for (size_t i = 0; i < n_points; i++) {
        size_t same = 0;
        while (strcmp(points[same].method, points[i].method) != 0)
            same++;
        size_t method = same < i ? p->entries[same].method : p->n_methods++;
        p->entries[i] = (entry){&points[i], method, i};
        p->n_feasible += points[i].feasible;
    }
    if (n_points > 0)
        qsort(p->entries, n_points, sizeof *p->entries, by_method_and_budget);
    return NEAP_OK;
}

/* An axis with round ends around [least, most], in about `wanted` steps. */
static axis round_axis(double least, double most, int wanted)
{
    axis a = {.step = neap_round_up((most - least) / wanted)};
    double first = floor(least / a.step.step + 1e-9), last = ceil(most / a.step.step - 1e-9);
    a.first = first * a.step.step;
    a.last = last * a.step.step;
    a.n_steps = (int)(last - first);
    return a;
}

static void choose_axes(picture *p)
{
    double least = HUGE_VAL, most = 0, low = 0, high = 1;
    for (size_t i = 0; i < p->n_entries; i++) {
        const neap_curve_point *point = p->entries[i].point;
        if (!point->feasible && p->n_feasible > 0)
            continue;
        least = fmin(least, (double)point->budget);
        most = fmax(most, (double)point->budget);
        double percent = point->feasible ? 100 * point->overhead : 0;
        low = fmin(low, percent);
        high = fmax(high, percent);
    }
    if (p->n_entries == 0)
        least = 0;
    p->unit = neap_byte_unit_for(most);
    least /= p->unit.bytes;
    most /= p->unit.bytes;
    if (least < 0.15 * most) /* close enough to 0 for the axis to begin there */
        least = 0;
    if (most - least < 0.02 * most || most == 0) { /* a single budget */
        least = 0.9 * least;
        most = 1.1 * most + (most == 0);
    }
    p->x = round_axis(least, most, 7);
    p->y = round_axis(low, high + 0.02 * (high - low), 6);
}

/* ---- Drawing ---- */

/* Ends the text element of a tick. */
static void put_tick_label(picture *p, const axis *a, int tick, const char *suffix)
{
    double value = a->first + a->step.step * tick;
    bool zero = fabs(value) < a->step.step / 2;
    neap_text_printf(&p->out, "%s%.*f%s</text>\n", value < 0 && !zero ? "−" : "",
                     zero ? 0 : a->step.decimals, zero ? 0.0 : fabs(value), suffix);
}

static void draw_grid(picture *p)
{
    double right = LEFT + PLOT_WIDTH, bottom = TOP + p->plot_height;
    neap_text_puts(&p->out, "<g stroke=\"#e3e6ea\">\n");
    for (int i = 0; i <= p->y.n_steps; i++) {
        double y = y_place(p, p->y.first + p->y.step.step * i);
        PUT(p, "<path d=\"M$ $H$\"/>\n", LEFT, y, right);
    }
    for (int i = 0; i <= p->x.n_steps; i++) {
        double x = x_place(p, p->x.first + p->x.step.step * i);
        PUT(p, "<path d=\"M$ $V$\"/>\n", x, TOP, bottom);
    }
    double zero = y_place(p, 0);
    neap_text_puts(&p->out, "</g>\n");
    PUT(p, "<path d=\"M$ $V$M$ $H$\" stroke=\"#7a828c\" fill=\"none\"/>\n", LEFT, TOP, bottom, LEFT,
        zero, right);
}

static void draw_axis_labels(picture *p)
{
    double bottom = TOP + p->plot_height;
    neap_text_puts(&p->out, "<g font-size=\"13\" fill=\"#4b535c\" text-anchor=\"end\">\n");
    for (int i = 0; i <= p->y.n_steps; i++) {
        double y = y_place(p, p->y.first + p->y.step.step * i);
        PUT(p, "<text x=\"$\" y=\"$\">", LEFT - 9, y + 4.5);
        put_tick_label(p, &p->y, i, "%");
    }
    neap_text_puts(&p->out, "</g>\n"
                            "<g font-size=\"13\" fill=\"#4b535c\" text-anchor=\"middle\">\n");
    for (int i = 0; i <= p->x.n_steps; i++) {
        double x = x_place(p, p->x.first + p->x.step.step * i);
        PUT(p, "<text x=\"$\" y=\"$\">", x, bottom + 20);
        put_tick_label(p, &p->x, i, "");
    }
    PUT(p, "<text x=\"$\" y=\"$\" fill=\"#24292f\">", LEFT + PLOT_WIDTH / 2.0, bottom + 46);
    neap_text_printf(&p->out, "memory budget (%s)</text>\n", p->unit.name);
    double middle = TOP + p->plot_height / 2.0;
    PUT(p, "<text transform=\"translate($ $) rotate(-90)\" fill=\"#24292f\">", 18, middle);
    neap_text_puts(&p->out, "time overhead</text>\n</g>\n");
}

/* Markers in order, the start of each relative to its centre, and the end of its element. */
static const struct {
    const char *begin;
    double x, y;
    const char *end;
} markers[N_MARKERS] = {
    {"<circle cx=\"$\" cy=\"$\" r=\"4.6\">", 0, 0, "</circle>\n"},
    {"<path d=\"M$ $h8.4v8.4h-8.4z\">", -4.2, -4.2, "</path>\n"},
    {"<path d=\"M$ $l5.4 9.2h-10.8z\">", 0, -5.8, "</path>\n"},
    {"<path d=\"M$ $l5.6 5.6-5.6 5.6-5.6-5.6z\">", 0, -5.6, "</path>\n"},
    {"<path d=\"M$ $l5.4-9.2h-10.8z\">", 0, 5.8, "</path>\n"},
    {"<path d=\"M$ $h3.6v-3.6h3.6v3.6h3.6v3.6h-3.6v3.6h-3.6v-3.6h-3.6z\">", -5.4, -1.8,
     "</path>\n"},
    {"<path d=\"M$ $l5.2 3v6l-5.2 3-5.2-3v-6z\">", 0, -6, "</path>\n"},
};

static size_t marker_of(size_t method)
{
    return (method + method / N_COLORS) % N_MARKERS;
}

/* Begins a marker centred on a position; the caller's group sets colour and outline. */
static void begin_marker(picture *p, size_t method, double x, double y)
{
    size_t m = marker_of(method);
    PUT(p, markers[m].begin, x + markers[m].x, y + markers[m].y);
}

static void end_marker(picture *p, size_t method)
{
    neap_text_puts(&p->out, markers[marker_of(method)].end);
}

/* The line of one method, from `begin` to `end` of the entries; an infeasible budget breaks it. */
static void draw_line(picture *p, size_t begin, size_t end)
{
    size_t method = p->entries[begin].method;
    neap_text_printf(&p->out,
                     "<path fill=\"none\" stroke=\"%s\" stroke-width=\"2.2\" "
                     "stroke-linejoin=\"round\"%s d=\"",
                     colors[method % N_COLORS], dashes[method / N_COLORS % N_DASHES]);
    bool pen_down = false;
    for (size_t i = begin; i < end; i++) {
        const neap_curve_point *point = p->entries[i].point;
        if (point->feasible) {
            neap_text_putc(&p->out, pen_down ? 'L' : 'M');
            PUT(p, "$ $", x_place(p, budget_of(p, point)), y_place(p, 100 * point->overhead));
        }
        pen_down = point->feasible;
    }
    neap_text_puts(&p->out, "\"/>\n");
}

static void draw_markers(picture *p, size_t begin, size_t end)
{
    size_t method = p->entries[begin].method;
    neap_text_printf(&p->out, "<g fill=\"%s\" stroke=\"#fff\">\n", colors[method % N_COLORS]);
    for (size_t i = begin; i < end; i++) {
        const neap_curve_point *point = p->entries[i].point;
        if (!point->feasible)
            continue;
        char budget[32], peak[32];
        begin_marker(p, method, x_place(p, budget_of(p, point)), y_place(p, 100 * point->overhead));
        neap_text_puts(&p->out, "<title>");
        neap_text_xml(&p->out, point->method);
        neap_text_printf(&p->out, ": %+.2f%% at %s, peak %s</title>", 100 * point->overhead,
                         neap_bytes_format(point->budget, budget, sizeof budget),
                         neap_bytes_format(point->peak, peak, sizeof peak));
        end_marker(p, method);
    }
    neap_text_puts(&p->out, "</g>\n");
}

/* One line of the legend. A method without a point is named in grey. */
static void draw_legend_entry(picture *p, const char *name, size_t method, bool drawn)
{
    double x = LEFT + PLOT_WIDTH + LEGEND_GAP, y = TOP + 10 + LEGEND_ROW * (double)method;
    if (drawn) {
        neap_text_printf(&p->out, "<path stroke=\"%s\" stroke-width=\"2.2\"%s d=\"",
                         colors[method % N_COLORS], dashes[method / N_COLORS % N_DASHES]);
        PUT(p, "M$ $h$\"/>\n", x, y, SWATCH);
        neap_text_printf(&p->out, "<g fill=\"%s\" stroke=\"#fff\">", colors[method % N_COLORS]);
        begin_marker(p, method, x + SWATCH / 2.0, y);
        end_marker(p, method);
        neap_text_puts(&p->out, "</g>\n");
    }
    neap_text clipped;
    neap_text_init(&clipped, p->out.allocator);
    neap_text_clean(&clipped, name, LONGEST_NAME, "…");
    PUT(p, "<text font-size=\"14\" x=\"$\" y=\"$\"", x + SWATCH + 8, y + 4.8);
    neap_text_puts(&p->out, drawn ? ">" : " fill=\"#8a929b\">");
    if (clipped.status != NEAP_OK)
        p->out.status = clipped.status;
    else if (clipped.text)
        neap_text_xml(&p->out, clipped.text);
    neap_text_puts(&p->out, drawn ? "</text>\n" : " (never fits)</text>\n");
    neap_text_clear(&clipped);
}

/*
 * All lines are below all markers: a marker is a result, a line only guides the eye. The first
 * method is drawn last, so that it is visible where several coincide.
 */
static void draw_methods(picture *p)
{
    for (int with_markers = 0; with_markers < 2; with_markers++)
        for (size_t end = p->n_entries, begin; end > 0; end = begin) {
            size_t feasible = 0, method = p->entries[end - 1].method;
            for (begin = end; begin > 0 && p->entries[begin - 1].method == method; begin--)
                feasible += p->entries[begin - 1].point->feasible;
            if (feasible > 0 && !with_markers)
                draw_line(p, begin, end);
            if (feasible > 0 && with_markers)
                draw_markers(p, begin, end);
            if (with_markers)
                draw_legend_entry(p, p->entries[begin].point->method, method, feasible > 0);
        }
}

/* Width for the longest name, from the width of an average letter. */
static int legend_width(const picture *p)
{
    size_t longest = 0;
    for (size_t i = 0; i < p->n_entries; i++) {
        const char *method = p->entries[i].point->method;
        size_t length = neap_string_characters(method, strlen(method));
        length = length < LONGEST_NAME ? length : LONGEST_NAME;
        longest = length > longest ? length : longest;
    }
    size_t room = p->n_feasible == p->n_entries ? 0 : 12; /* " (never fits)" */
    return p->n_methods == 0 ? 0 : LEGEND_GAP + SWATCH + 8 + (int)((longest + room) * 8);
}

static void draw_title(picture *p, int width)
{
    if (!p->title || !*p->title)
        return;
    double length = (double)neap_string_characters(p->title, strlen(p->title));
    double size = fmax(8, fmin(18, (width - LEFT - 16) / (0.66 * length)));
    PUT(p, "<text font-size=\"$\" font-weight=\"600\" x=\"$\" y=\"34\">", size, LEFT);
    neap_text_xml(&p->out, p->title);
    neap_text_puts(&p->out, "</text>\n");
}

static void draw(picture *p)
{
    int rows = LEGEND_ROW * (int)(p->n_methods < 10000 ? p->n_methods : 10000);
    p->plot_height = rows > LEAST_PLOT_HEIGHT ? rows : LEAST_PLOT_HEIGHT;
    int width = LEFT + PLOT_WIDTH + legend_width(p) + 20;
    int height = TOP + p->plot_height + BOTTOM;
    neap_text_printf(&p->out,
                     "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
                     "viewBox=\"0 0 %d %d\" role=\"img\"\n"
                     " font-family=\"system-ui, -apple-system, 'Segoe UI', Roboto, "
                     "'Helvetica Neue', Arial, sans-serif\" fill=\"#24292f\">\n<title>",
                     width, height, width, height);
    neap_text_xml(&p->out, p->title && *p->title ? p->title : "Time overhead by memory budget");
    neap_text_printf(&p->out, "</title>\n<rect width=\"%d\" height=\"%d\" fill=\"#fff\"/>\n", width,
                     height);
    draw_title(p, width);
    draw_grid(p);
    draw_axis_labels(p);
    draw_methods(p);
    if (p->n_feasible == 0) {
        PUT(p,
            "<text font-size=\"15\" fill=\"#6b737c\" stroke=\"#fff\" stroke-width=\"8\" "
            "paint-order=\"stroke\" text-anchor=\"middle\" x=\"$\" y=\"$\">",
            LEFT + PLOT_WIDTH / 2.0, TOP + p->plot_height / 2.0);
        neap_text_puts(&p->out, p->n_entries ? "no method fits any of these budgets" : "no points");
        neap_text_puts(&p->out, "</text>\n");
    }
    neap_text_puts(&p->out, "</svg>\n");
}

neap_status neap_report_curve_svg(neap_allocator *allocator, const char *title,
                                  const neap_curve_point *points, size_t n_points, char **text,
                                  size_t *length, neap_diag *diag)
{
    *text = NULL;
    *length = 0;
    neap_status status = check_points(points, n_points, diag);
    if (status != NEAP_OK)
        return status;
    picture p = {.title = title};
    neap_text_init(&p.out, allocator);
    status = collect(&p, points, n_points, diag);
    if (status == NEAP_OK) {
        choose_axes(&p);
        draw(&p);
        status = neap_text_take(&p.out, text, length, diag);
    }
    NEAP_DELETE(p.out.allocator, n_points, p.entries);
    neap_text_clear(&p.out);
    return status;
}
