/*
 * neap/report.h: methods at one budget as SVG: two panels of bars, overheads at the left and peaks
 * at the right, one row per method, the best first. Marks stand in rows of their own above the
 * panels, so that their labels cannot overlap.
 */
#include "report/compared.h"
#include "report/svg.h"

#include "base/memory.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* In pixels. */
enum {
    PANEL_WIDTH = 270,
    PANEL_GAP = 84, /* the numbers of the left panel's bars stand in it */
    TOP = 52,
    MARK_ROW = 15,
    ROW = 21,
    BAR = 13,
    BOTTOM = 60
};

#define BEST  "#0b4f86"
#define OTHER "#86a9cc"

typedef struct figure {
    const neap_comparison *comparison;
    neap_compared compared;
    int name_width, marks; /* rows of marks above the panels */
    double top, bottom;    /* of the panels */
    neap_svg_plot overheads, peaks;
    double *ends; /* of the bars of overheads */
    neap_byte_unit unit;
    neap_text out;
} figure;

static double row_y(const figure *f, size_t row)
{
    return f->top + 6 + ROW * ((double)row + 0.5);
}

static int count_marks(const figure *f)
{
    const neap_compared *c = &f->compared;
    int right = c->shows_budget + c->shows_natural + c->shows_floor;
    int left = f->comparison->has_bound;
    return right > left ? right : left;
}

static void lay_out(figure *f)
{
    const neap_compared *c = &f->compared;
    size_t longest = 4;
    for (size_t i = 0; i < c->count; i++) {
        size_t length = neap_string_characters(c->rows[i]->method, strlen(c->rows[i]->method));
        length = length < NEAP_SVG_NAME ? length : NEAP_SVG_NAME;
        longest = length > longest ? length : longest;
    }
    f->name_width = 24 + (int)neap_svg_text_width(longest, 13);
    f->marks = count_marks(f);
    f->top = TOP + MARK_ROW * f->marks;
    f->bottom = f->top + 12 + ROW * (double)(c->n_feasible > 0 ? c->n_feasible : 1);
    f->unit = neap_byte_unit_for((double)c->most_bytes);
    f->overheads = (neap_svg_plot){.left = f->name_width,
                                   .top = f->top,
                                   .width = PANEL_WIDTH,
                                   .height = f->bottom - f->top,
                                   .x = neap_axis_around(100 * c->low, 100 * c->high, 5)};
    f->peaks = f->overheads;
    f->peaks.left += PANEL_WIDTH + PANEL_GAP;
    f->peaks.x = neap_axis_within(0, 1.03 * (double)c->most_bytes / f->unit.bytes, 5);
}

/* ---- A panel ---- */

static void draw_axis(figure *f, const neap_svg_plot *plot, const char *name, const char *suffix)
{
    neap_text_puts(&f->out, "<path fill=\"none\" stroke=\"" NEAP_SVG_GRID "\" d=\"");
    for (int i = 0; i <= plot->x.n_steps; i++)
        NEAP_SVG(&f->out, "M$ $V$", neap_svg_x(plot, neap_axis_tick(&plot->x, i)), f->top,
                 f->bottom);
    NEAP_SVG(&f->out, "\"/>\n<path stroke=\"" NEAP_SVG_AXIS "\" d=\"M$ $V$\"/>\n",
             neap_svg_x(plot, 0), f->top, f->bottom);
    neap_text_puts(&f->out,
                   "<g font-size=\"12\" fill=\"" NEAP_SVG_FAINT "\" text-anchor=\"middle\">\n");
    for (int i = 0; i <= plot->x.n_steps; i++) {
        NEAP_SVG(&f->out, "<text x=\"$\" y=\"$\">", neap_svg_x(plot, neap_axis_tick(&plot->x, i)),
                 f->bottom + 17);
        neap_svg_tick(&f->out, &plot->x, i, suffix);
        neap_text_puts(&f->out, "</text>\n");
    }
    NEAP_SVG(&f->out, "<text font-size=\"13\" fill=\"" NEAP_SVG_TEXT "\" x=\"$\" y=\"$\">",
             plot->left + plot->width / 2, f->bottom + 38);
    neap_text_printf(&f->out, "%s</text>\n</g>\n", name);
}

/* A bar from 0; one beyond the scale ends in an arrow. Returns where its number may begin. */
static double draw_bar(figure *f, const neap_svg_plot *plot, double y, double value, bool clipped,
                       const char *fill)
{
    double zero = neap_svg_x(plot, 0);
    double end = clipped ? plot->left + plot->width : neap_svg_x(plot, value);
    double from = fmin(zero, end), to = fmax(zero, end);
    neap_text_printf(&f->out, "<path fill=\"%s\" d=\"", fill);
    NEAP_SVG(&f->out, "M$ $H$v$H$z", from, y - BAR / 2.0, fmax(to, from + 1), BAR, from);
    if (clipped)
        NEAP_SVG(&f->out, "M$ $v$l11-9.5z", end, y - 9.5, 19);
    neap_text_puts(&f->out, "\"/>\n");
    return to + (clipped ? 16 : 5);
}

/* On a white halo, so that it reads across a mark. */
static void draw_number(figure *f, double x, double y, const char *number)
{
    NEAP_SVG(&f->out,
             "<text font-size=\"12\" stroke=\"#fff\" stroke-width=\"3.5\" "
             "stroke-linejoin=\"round\" paint-order=\"stroke\" x=\"$\" y=\"$\">",
             x, y + 4);
    neap_text_printf(&f->out, "%s</text>\n", number);
}

/* A line through a panel, up to its own row above it, where its label stands. */
static void draw_mark(figure *f, const neap_svg_plot *plot, int row, double value,
                      const char *style, const char *fill, const char *words)
{
    double x = neap_svg_x(plot, value), y = f->top - MARK_ROW * (row + 1);
    bool at_left = x > plot->left + plot->width * 0.55;
    neap_text_printf(&f->out, "<path fill=\"none\" stroke=\"%s\" %s d=\"", fill, style);
    NEAP_SVG(&f->out, "M$ $V$\"/>\n", x, y, f->bottom);
    neap_text_printf(&f->out, "<text font-size=\"12\" fill=\"%s\" text-anchor=\"%s\" ", fill,
                     at_left ? "end" : "start");
    NEAP_SVG(&f->out, "x=\"$\" y=\"$\">", at_left ? x - 5 : x + 5, y + 9);
    neap_text_printf(&f->out, "%s</text>\n", words);
}

static void draw_size_mark(figure *f, int *row, bool shown, int64_t bytes, const char *style,
                           const char *fill, const char *name)
{
    char size[32], words[64];
    if (!shown)
        return;
    snprintf(words, sizeof words, "%s %s", name, neap_bytes_format(bytes, size, sizeof size));
    draw_mark(f, &f->peaks, (*row)++, (double)bytes / f->unit.bytes, style, fill, words);
}

static void draw_marks(figure *f)
{
    const neap_comparison *c = f->comparison;
    int row = 0;
    char words[64];
    snprintf(words, sizeof words, "bound %+.2f%%", 100 * c->bound);
    if (c->has_bound)
        draw_mark(f, &f->overheads, 0, 100 * c->bound, "stroke-width=\"1.4\"", NEAP_SVG_TEXT,
                  words);
    draw_size_mark(f, &row, f->compared.shows_budget, c->budget,
                   "stroke-width=\"1.5\" stroke-dasharray=\"8 4\"", "#b00020", "budget");
    draw_size_mark(f, &row, f->compared.shows_natural, c->natural_peak,
                   "stroke-width=\"1.2\" stroke-dasharray=\"3 3\"", NEAP_SVG_FAINT, "natural peak");
    draw_size_mark(f, &row, f->compared.shows_floor, c->floor, "stroke-width=\"1.4\"",
                   NEAP_SVG_TEXT, "floor");
}

/* ---- Rows ---- */

static void draw_name(figure *f, double y, const neap_comparison_row *row, const char *style)
{
    neap_text_printf(&f->out, "<text font-size=\"13\" text-anchor=\"end\"%s ", style);
    NEAP_SVG(&f->out, "x=\"$\" y=\"$\">", f->name_width - 9, y + 4.5);
    neap_svg_name(&f->out, row->method, NEAP_SVG_NAME);
    neap_text_puts(&f->out, "</text>\n");
}

static void draw_bars(figure *f, size_t index)
{
    const neap_comparison_row *row = f->compared.rows[index];
    double y = row_y(f, index);
    const char *fill = index == 0 ? BEST : OTHER;
    draw_name(f, y, row, index == 0 ? " font-weight=\"600\"" : "");
    f->ends[index] =
        draw_bar(f, &f->overheads, y, 100 * row->overhead, row->overhead > f->compared.high, fill);
    draw_bar(f, &f->peaks, y, (double)row->peak / f->unit.bytes, false, fill);
}

/* Overheads at the ends of their bars; peaks, which are much alike, in a column. */
static void draw_numbers(figure *f, size_t index)
{
    const neap_comparison_row *row = f->compared.rows[index];
    char number[32];
    double y = row_y(f, index);
    snprintf(number, sizeof number, "%+.2f%%", 100 * row->overhead);
    draw_number(f, f->ends[index], y, number);
    draw_number(f, f->peaks.left + f->peaks.width + 8, y,
                neap_bytes_format(row->peak, number, sizeof number));
}

/* The methods without a plan, below the axes. */
static void draw_infeasible(figure *f)
{
    double y = f->bottom + BOTTOM;
    for (size_t i = f->compared.n_feasible; i < f->compared.count; i++, y += ROW - 3) {
        const neap_comparison_row *row = f->compared.rows[i];
        neap_text reason;
        neap_text_init(&reason, f->out.allocator);
        neap_compared_reason(row, &reason);
        if (reason.status != NEAP_OK)
            f->out.status = reason.status;
        draw_name(f, y, row, " fill=\"" NEAP_SVG_FAINT "\"");
        NEAP_SVG(&f->out, "<text font-size=\"12\" fill=\"" NEAP_SVG_FAINT "\" x=\"$\" y=\"$\">✕ ",
                 f->name_width, y + 4.5);
        neap_svg_name(&f->out, neap_text_get(&reason), NEAP_SVG_TITLE);
        neap_text_puts(&f->out, "</text>\n");
        neap_text_clear(&reason);
    }
}

static void draw(figure *f)
{
    const char *title = f->comparison->title;
    size_t others = f->compared.count - f->compared.n_feasible;
    char unit[40];
    lay_out(f);
    int width = f->name_width + 2 * PANEL_WIDTH + 2 * PANEL_GAP;
    int height =
        (int)(f->bottom + BOTTOM + (ROW - 3) * (double)(others < 100000 ? others : 100000));
    neap_svg_begin(&f->out, width, height,
                   title && *title ? title : "Time overhead and memory by method");
    neap_svg_title(&f->out, title, 16, 30, width - 32);
    snprintf(unit, sizeof unit, "peak memory (%s)", f->unit.name);
    draw_axis(f, &f->overheads, "time overhead", "%");
    draw_axis(f, &f->peaks, unit, "");
    for (size_t i = 0; i < f->compared.n_feasible; i++)
        draw_bars(f, i);
    if (f->compared.n_feasible == 0)
        NEAP_SVG(&f->out,
                 "<text font-size=\"13\" fill=\"" NEAP_SVG_FAINT "\" x=\"$\" y=\"$\">no method "
                 "has a plan</text>\n",
                 f->name_width + 8, row_y(f, 0) + 4.5);
    draw_marks(f);
    for (size_t i = 0; i < f->compared.n_feasible; i++)
        draw_numbers(f, i);
    draw_infeasible(f);
    neap_svg_end(&f->out);
}

neap_status neap_report_comparison_svg(neap_allocator *allocator, const neap_comparison *comparison,
                                       char **text, size_t *length, neap_diag *diag)
{
    *text = NULL;
    *length = 0;
    allocator = neap_allocator_or_system(allocator);
    figure f = {.comparison = comparison};
    neap_text_init(&f.out, allocator);
    neap_status status = neap_compared_build(allocator, comparison, &f.compared, diag);
    if (status != NEAP_OK)
        return status;
    size_t n_bars = f.compared.n_feasible;
    status = NEAP_NEW(allocator, n_bars, &f.ends, diag);
    if (status == NEAP_OK) {
        draw(&f);
        status = neap_text_take(&f.out, text, length, diag);
    }
    NEAP_DELETE(allocator, n_bars, f.ends);
    neap_text_clear(&f.out);
    neap_compared_clear(&f.compared);
    return status;
}
