/*
 * neap/report.h: memory over time as SVG.
 *
 *     title
 *     legend of the classes
 *     plot: the ordinary step as an outline in grey, the plan stacked by class in front of it,
 *           the budget as a line, both peaks marked
 *     time axis
 *     strips: what the compute stream does, copies to the host, copies back
 *
 * The plot is drawn in columns of half a pixel (chart_columns.h), each at the time at which most is
 * in use: the size of the picture is bounded, and no peak is lost.
 */
#include "report/chart_columns.h"
#include "report/clean_text.h"
#include "report/svg.h"

#include "base/fail.h"
#include "base/memory.h"

#include <neap/report.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* In pixels. */
enum {
    WIDTH = 860,
    LEFT = 74,
    PLOT_WIDTH = 760,
    TOP = 76,
    PLOT_HEIGHT = 300,
    STRIP_TOP = 28, /* below the plot, under the numbers of the axis */
    STRIP_HEIGHT = 11,
    STRIP_GAP = 6,
    COLUMNS_PER_PIXEL = 2
};

/* Beyond this multiple of the plan's own needs, the ordinary step or the budget does not set the
   scale: the plan would be a strip at the bottom. */
#define REACH 4.0

/* From the bottom up: what stays throughout first. Neighbours differ in lightness. */
static const struct {
    neap_memory_class class;
    const char *name, *fill;
} layers[] = {
    {NEAP_MEMORY_PARAMETERS, "parameters", "#1f3a5f"},
    {NEAP_MEMORY_STATE, "optimizer state", "#6f8fb3"},
    {NEAP_MEMORY_OTHER, "data and other", "#c3ccd6"},
    {NEAP_MEMORY_GRADIENTS, "gradients", "#8f3b1b"},
    {NEAP_MEMORY_ACTIVATIONS, "activations", "#f0b56c"},
    {NEAP_MEMORY_WORKSPACE, "workspace", "#3f7d5a"},
};
enum { N_LAYERS = sizeof layers / sizeof *layers };

typedef struct figure {
    const neap_memory_picture *picture;
    neap_chart_columns columns; /* of the plan */
    neap_chart_columns natural; /* of the ordinary step; no items: none */
    int64_t natural_peak;       /* -1: none */
    double length;              /* of the time axis: ticks, or steps */
    neap_byte_unit unit;
    neap_svg_plot plot;
    const char *time_unit;
    neap_text out;
} figure;

/* ---- Scales ---- */

static void choose_scales(figure *f)
{
    const neap_memory_picture *p = f->picture;
    double peak = fmax(1, (double)p->timeline->peak_bytes), most = peak;
    if (p->budget >= 0 && (double)p->budget <= REACH * peak)
        most = fmax(most, (double)p->budget);
    if ((double)f->natural_peak <= REACH * peak)
        most = fmax(most, (double)f->natural_peak);
    f->unit = neap_byte_unit_for(most);
    double time = f->length;
    f->time_unit = "steps";
    if (!f->columns.by_step) {
        double seconds = neap_graph_seconds(p->graph, (int64_t)f->length);
        neap_time_unit unit = neap_time_unit_for(seconds);
        time = seconds / unit.seconds;
        f->time_unit = unit.name;
    }
    f->plot = (neap_svg_plot){.left = LEFT,
                              .top = TOP,
                              .width = PLOT_WIDTH,
                              .height = PLOT_HEIGHT,
                              .x = neap_axis_within(0, time, 9),
                              .y = neap_axis_around(0, 1.02 * most / f->unit.bytes, 6)};
}

static double y_of(const figure *f, int64_t bytes)
{
    double y = neap_svg_y(&f->plot, (double)bytes / f->unit.bytes);
    return fmax(y, TOP);
}

/* The width of columns that span `length` of the time axis. */
static double width_of(const figure *f, const neap_chart_columns *columns)
{
    return PLOT_WIDTH * (double)columns->length / f->length;
}

/* ---- Areas ---- */

/* Bytes of the layers below number `layer` in a column. */
static int64_t level(const neap_chart_column *column, int layer)
{
    int64_t bytes = 0;
    for (int i = 0; i < layer; i++)
        bytes += column->parts[layers[i].class];
    return bytes;
}

/* A length in tenths of a pixel. */
static void put_tenths(neap_text *out, long tenths)
{
    if (tenths < 0)
        neap_text_putc(out, '-');
    tenths = labs(tenths);
    if (tenths >= 10 || tenths == 0)
        neap_text_i64(out, tenths / 10);
    if (tenths % 10)
        neap_text_printf(out, ".%ld", tenths % 10);
}

/* A line to the side, relative to where the pen is: shorter than with absolute places. */
static void move(neap_text *out, char command, long *at, long to)
{
    if (to == *at)
        return;
    neap_text_putc(out, command);
    put_tenths(out, to - *at);
    *at = to;
}

/* The edge under layer number `layer`, from the left or back from the right. Equal columns make
   one line. */
static void draw_edge(figure *f, const neap_chart_columns *columns, int layer, bool back)
{
    size_t count = columns->count;
    double step = width_of(f, columns) / (double)count;
    long x = 0, y = 0;
    for (size_t i = 0; i < count; i++) {
        size_t c = back ? count - 1 - i : i;
        long to_y = lround(10 * y_of(f, level(&columns->items[c], layer)));
        long to_x = lround(10 * (LEFT + step * (double)(back ? c + 1 : c)));
        if (i == 0) {
            x = to_x;
            y = to_y;
            NEAP_SVG(&f->out, back ? "L$ $" : "M$ $", (double)x / 10, (double)y / 10);
        } else if (to_y != y) {
            move(&f->out, 'h', &x, to_x);
            move(&f->out, 'v', &y, to_y);
        }
    }
    move(&f->out, 'h', &x, lround(10 * (back ? LEFT : LEFT + step * (double)count)));
}

static bool has_layer(const figure *f, int layer)
{
    for (size_t i = 0; i < f->columns.count; i++)
        if (f->columns.items[i].parts[layers[layer].class] > 0)
            return true;
    return false;
}

static void draw_layers(figure *f)
{
    for (int i = 0; i < N_LAYERS; i++) {
        if (!has_layer(f, i))
            continue;
        neap_text_printf(&f->out, "<path fill=\"%s\" stroke=\"#fff\" stroke-width=\"0.3\" d=\"",
                         layers[i].fill);
        draw_edge(f, &f->columns, i + 1, false);
        draw_edge(f, &f->columns, i, true);
        neap_text_puts(&f->out, "z\"/>\n");
    }
}

/* The ordinary step: filled behind the plan, outlined again in front of it. */
static void draw_natural(figure *f, bool outline)
{
    if (!f->natural.items)
        return;
    neap_text_puts(&f->out, outline ? "<path fill=\"none\" stroke=\"#57606a\" "
                                      "stroke-width=\"1.1\" d=\""
                                    : "<path fill=\"#eef0f3\" d=\"");
    draw_edge(f, &f->natural, N_LAYERS, false);
    if (!outline)
        NEAP_SVG(&f->out, "V$H$z", TOP + PLOT_HEIGHT, LEFT);
    neap_text_puts(&f->out, "\"/>\n");
}

/* ---- Marks ---- */

/* A label on a white halo, so that it reads on anything. */
static void draw_label(figure *f, double x, double y, const char *anchor, const char *fill,
                       const char *label)
{
    neap_text_printf(&f->out,
                     "<text font-size=\"12\" text-anchor=\"%s\" fill=\"%s\" stroke=\"#fff\" "
                     "stroke-width=\"3.5\" stroke-linejoin=\"round\" paint-order=\"stroke\" ",
                     anchor, fill);
    NEAP_SVG(&f->out, "x=\"$\" y=\"$\">", x, y);
    neap_text_printf(&f->out, "%s</text>\n", label);
}

/* Where the first column of the most memory is. */
static double peak_x(const figure *f, const neap_chart_columns *columns)
{
    size_t best = 0;
    for (size_t i = 1; i < columns->count; i++)
        if (columns->items[i].bytes > columns->items[best].bytes)
            best = i;
    return LEFT + width_of(f, columns) * ((double)best + 0.5) / (double)columns->count;
}

/* A triangle on a peak and its size beside it, on the side with more room. */
static void draw_peak(figure *f, const neap_chart_columns *columns, int64_t bytes, const char *name,
                      const char *fill)
{
    char size[32], label[96];
    double x = peak_x(f, columns), y = y_of(f, bytes);
    bool clipped = neap_svg_y(&f->plot, (double)bytes / f->unit.bytes) < TOP - 0.01;
    bool at_right = x < LEFT + PLOT_WIDTH * 0.62;
    neap_text_printf(&f->out, "<path fill=\"%s\" stroke=\"#fff\" d=\"", fill);
    NEAP_SVG(&f->out, clipped ? "M$ $l-5.5 9h11z\"/>\n" : "M$ $l-5.5-9h11z\"/>\n", x,
             clipped ? y - 10 : y);
    snprintf(label, sizeof label, "%s %s%s", name, neap_bytes_format(bytes, size, sizeof size),
             clipped ? " (off the scale)" : "");
    draw_label(f, at_right ? x + 10 : x - 10, y - 3, at_right ? "start" : "end", fill, label);
}

static void draw_budget(figure *f)
{
    int64_t budget = f->picture->budget;
    if (budget < 0)
        return;
    char size[32], label[64];
    double at = neap_svg_y(&f->plot, (double)budget / f->unit.bytes);
    bool in_scale = at >= TOP - 0.01;
    snprintf(label, sizeof label, "budget %s%s", neap_bytes_format(budget, size, sizeof size),
             in_scale ? "" : " (off the scale)");
    if (in_scale)
        NEAP_SVG(&f->out,
                 "<path d=\"M$ $H$\" stroke=\"#b00020\" stroke-width=\"1.5\" "
                 "stroke-dasharray=\"8 4\" fill=\"none\"/>\n",
                 LEFT, at, LEFT + PLOT_WIDTH);
    draw_label(f, LEFT + PLOT_WIDTH - 4, in_scale ? at - 5 : TOP + 12, "end", "#b00020", label);
}

static void draw_marks(figure *f)
{
    draw_budget(f);
    if (f->natural.items)
        draw_peak(f, &f->natural, f->natural_peak, "natural peak", "#57606a");
    draw_peak(f, &f->columns, f->picture->timeline->peak_bytes, "peak", "#111");
}

/* ---- Strips ---- */

typedef enum strip { STRIP_FORWARD, STRIP_BACKWARD, STRIP_AGAIN, STRIP_OUT, STRIP_IN } strip;

static const struct {
    const char *name, *fill;
    int row;
} strips[] = {
    [STRIP_FORWARD] = {"forward", "#c9ced5", 0},   [STRIP_BACKWARD] = {"backward", "#8d96a1", 0},
    [STRIP_AGAIN] = {"recomputing", "#111111", 0}, [STRIP_OUT] = {"to the host", "#5b3fa0", 1},
    [STRIP_IN] = {"from the host", "#b79be0", 2},
};
enum { N_STRIPS = sizeof strips / sizeof *strips };

/* Recomputation is never hidden: a column with some of it shows it. */
static bool in_strip(const neap_chart_column *column, int which)
{
    const int64_t *share = column->share;
    switch ((strip)which) {
    case STRIP_OUT:
        return column->copies_out;
    case STRIP_IN:
        return column->copies_in;
    case STRIP_AGAIN:
        return share[NEAP_DOES_AGAIN] > 0;
    case STRIP_FORWARD:
        return share[NEAP_DOES_AGAIN] == 0 && share[NEAP_DOES_FORWARD] > 0 &&
               share[NEAP_DOES_FORWARD] >= share[NEAP_DOES_BACKWARD];
    case STRIP_BACKWARD:
        return share[NEAP_DOES_AGAIN] == 0 && share[NEAP_DOES_BACKWARD] > share[NEAP_DOES_FORWARD];
    }
    return false;
}

static double strip_top(int row)
{
    return TOP + PLOT_HEIGHT + STRIP_TOP + row * (STRIP_HEIGHT + STRIP_GAP);
}

/* All runs of columns in a strip, as one path of rectangles. False if there are none. */
static bool draw_strip(figure *f, int which)
{
    const neap_chart_columns *columns = &f->columns;
    double step = width_of(f, columns) / (double)columns->count;
    bool any = false;
    for (size_t i = 0, end; i < columns->count; i = end) {
        end = i + 1;
        if (!in_strip(&columns->items[i], which))
            continue;
        while (end < columns->count && in_strip(&columns->items[end], which))
            end++;
        if (!any)
            neap_text_printf(&f->out, "<path fill=\"%s\" d=\"", strips[which].fill);
        any = true;
        NEAP_SVG(&f->out, "M$ $h$v$H$z", LEFT + step * (double)i, strip_top(strips[which].row),
                 step * (double)(end - i), STRIP_HEIGHT, LEFT + step * (double)i);
    }
    neap_text_puts(&f->out, any ? "\"/>\n" : "");
    return any;
}

/* ---- Legends ---- */

/* A swatch and its name; returns where the next one begins. */
static double draw_entry(figure *f, double x, double y, const char *fill, const char *name)
{
    NEAP_SVG(&f->out, "<rect x=\"$\" y=\"$\" width=\"11\" height=\"11\" ", x, y - 10);
    neap_text_printf(&f->out, "fill=\"%s\"/>", fill);
    NEAP_SVG(&f->out, "<text x=\"$\" y=\"$\">", x + 16, y);
    neap_text_printf(&f->out, "%s</text>\n", name);
    return x + 16 + neap_svg_text_width(strlen(name), 12) + 16;
}

static void draw_legend(figure *f)
{
    double x = LEFT, y = 56;
    neap_text_puts(&f->out, "<g font-size=\"12\">\n");
    for (int i = 0; i < N_LAYERS; i++)
        if (has_layer(f, i))
            x = draw_entry(f, x, y, layers[i].fill, layers[i].name);
    if (f->natural.items) {
        NEAP_SVG(&f->out,
                 "<path fill=\"#eef0f3\" stroke=\"#57606a\" d=\"M$ $h11v10h-11z\"/>"
                 "<text x=\"$\" y=\"$\">without a plan</text>\n",
                 x, y - 9.5, x + 16, y);
    }
    neap_text_puts(&f->out, "</g>\n");
}

/* The strips and their legend; returns the height of the picture. */
static int draw_strips(figure *f)
{
    bool used[N_STRIPS];
    bool has_rows[3] = {true, false, false};
    for (int i = 0; i < N_STRIPS; i++) {
        used[i] = draw_strip(f, i);
        has_rows[strips[i].row] = has_rows[strips[i].row] || used[i];
    }
    static const char *const names[] = {"compute", "copy out", "copy in"};
    int last = 0;
    neap_text_puts(&f->out,
                   "<g font-size=\"11\" fill=\"" NEAP_SVG_FAINT "\" text-anchor=\"end\">\n");
    for (int row = 0; row < 3; row++) {
        if (!has_rows[row] && !f->columns.copies)
            continue;
        NEAP_SVG(&f->out, "<text x=\"$\" y=\"$\">", LEFT - 8, strip_top(row) + 9.5);
        neap_text_printf(&f->out, "%s</text>\n", names[row]);
        last = row;
    }
    neap_text_puts(&f->out, "</g>\n<g font-size=\"12\">\n");
    double x = LEFT, y = strip_top(last) + STRIP_HEIGHT + 24;
    for (int i = 0; i < N_STRIPS; i++)
        if (used[i])
            x = draw_entry(f, x, y, strips[i].fill, strips[i].name);
    NEAP_SVG(&f->out, "<text x=\"$\" y=\"$\" font-size=\"13\" text-anchor=\"end\">",
             LEFT + PLOT_WIDTH, y);
    neap_text_printf(&f->out, "time (%s)</text>\n</g>\n", f->time_unit);
    return (int)y + 16;
}

/* ---- All of it ---- */

static void add_title(const neap_memory_picture *p, neap_text *title)
{
    if (p->title && *p->title) {
        neap_text_puts(title, p->title);
        return;
    }
    neap_text_puts(title, neap_graph_name(p->graph));
    if (*neap_plan_method(p->plan))
        neap_text_printf(title, ", %s", neap_plan_method(p->plan));
}

static void draw(figure *f, const char *title)
{
    char unit[32];
    bool copies = f->columns.copies;
    int height = (int)strip_top(copies ? 2 : 0) + STRIP_HEIGHT + 24 + 16;
    neap_svg_begin(&f->out, WIDTH, height, title);
    neap_svg_title(&f->out, title, LEFT, 30, WIDTH - LEFT - 16);
    draw_legend(f);
    snprintf(unit, sizeof unit, "memory (%s)", f->unit.name);
    draw_natural(f, false);
    neap_svg_axes(&f->out, &f->plot, NEAP_SVG_GRID_Y, "", "", unit, "");
    draw_layers(f);
    draw_natural(f, true);
    draw_marks(f);
    draw_strips(f);
    neap_svg_end(&f->out);
}

/* The columns of the ordinary step, on the scale of the plan's. */
static neap_status add_natural(figure *f, neap_allocator *allocator, neap_diag *diag)
{
    const neap_memory_picture *p = f->picture;
    f->natural_peak = -1;
    f->length = (double)f->columns.length;
    if (!p->natural)
        return NEAP_OK;
    neap_timeline timeline;
    neap_status status =
        neap_timeline_build(allocator, p->graph, p->natural, NULL, &timeline, diag);
    if (status != NEAP_OK)
        return status;
    double length =
        (double)(f->columns.by_step ? (int64_t)timeline.n_steps : timeline.makespan_ticks);
    f->length = fmax(f->length, length);
    size_t count = (size_t)(PLOT_WIDTH * COLUMNS_PER_PIXEL * length / f->length);
    status = neap_chart_columns_build(allocator, p->graph, p->natural, &timeline,
                                      count > 0 ? count : 1, &f->natural, diag);
    f->natural_peak = timeline.peak_bytes;
    neap_timeline_clear(&timeline);
    return status;
}

void neap_memory_picture_init(neap_memory_picture *picture, const neap_graph *graph,
                              const neap_plan *plan, const neap_timeline *timeline)
{
    *picture =
        (neap_memory_picture){.graph = graph, .plan = plan, .timeline = timeline, .budget = -1};
}

neap_status neap_report_memory_svg(neap_allocator *allocator, const neap_memory_picture *picture,
                                   char **text, size_t *length, neap_diag *diag)
{
    *text = NULL;
    *length = 0;
    allocator = neap_allocator_or_system(allocator);
    figure f = {.picture = picture, .natural_peak = -1};
    neap_text title;
    neap_text_init(&title, allocator);
    neap_text_init(&f.out, allocator);
    neap_status status =
        neap_chart_columns_build(allocator, picture->graph, picture->plan, picture->timeline,
                                 (size_t)PLOT_WIDTH * COLUMNS_PER_PIXEL, &f.columns, diag);
    if (status == NEAP_OK)
        status = add_natural(&f, allocator, diag);
    if (status != NEAP_OK)
        goto done;
    choose_scales(&f);
    add_title(picture, &title);
    if (title.status != NEAP_OK) {
        status = neap_fail_no_memory(diag);
        goto done;
    }
    draw(&f, neap_text_get(&title));
    status = neap_text_take(&f.out, text, length, diag);
done:
    neap_text_clear(&title);
    neap_text_clear(&f.out);
    neap_chart_columns_clear(&f.natural);
    neap_chart_columns_clear(&f.columns);
    return status;
}
