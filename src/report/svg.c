#include "report/svg.h"

#include "report/clean_text.h"

#include <math.h>
#include <string.h>

void neap_svg_begin(neap_text *out, int width, int height, const char *title)
{
    neap_text_printf(out,
                     "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
                     "viewBox=\"0 0 %d %d\" role=\"img\"\n"
                     " font-family=\"system-ui, -apple-system, 'Segoe UI', Roboto, "
                     "'Helvetica Neue', Arial, sans-serif\" fill=\"" NEAP_SVG_TEXT "\">\n<title>",
                     width, height, width, height);
    neap_svg_name(out, title, NEAP_SVG_TITLE);
    neap_text_printf(out, "</title>\n<rect width=\"%d\" height=\"%d\" fill=\"#fff\"/>\n", width,
                     height);
}

void neap_svg_end(neap_text *out)
{
    neap_text_puts(out, "</svg>\n");
}

void neap_svg_number(neap_text *out, double value)
{
    long long cents = llround(value * 100);
    if (cents < 0) {
        neap_text_putc(out, '-');
        cents = -cents;
    }
    neap_text_i64(out, cents / 100);
    if (cents % 100 == 0)
        return;
    neap_text_putc(out, '.');
    neap_text_putc(out, (char)('0' + cents % 100 / 10));
    if (cents % 10)
        neap_text_putc(out, (char)('0' + cents % 10));
}

void neap_svg_numbers(neap_text *out, const char *template, const double *numbers)
{
    for (; *template; template ++)
        if (*template == '$')
            neap_svg_number(out, *numbers++);
        else
            neap_text_putc(out, *template);
}

void neap_svg_name(neap_text *out, const char *name, size_t most)
{
    neap_text clipped;
    neap_text_init(&clipped, out->allocator);
    neap_text_clean(&clipped, name, most, "…");
    if (clipped.status != NEAP_OK)
        out->status = clipped.status;
    else
        neap_text_xml(out, neap_text_get(&clipped));
    neap_text_clear(&clipped);
}

double neap_svg_text_width(size_t characters, double size)
{
    return 0.58 * size * (double)characters;
}

void neap_svg_title(neap_text *out, const char *title, double x, double y, double room)
{
    if (!title || !*title)
        return;
    size_t length = neap_string_characters(title, strlen(title));
    if (length > NEAP_SVG_TITLE)
        length = NEAP_SVG_TITLE;
    double size = fmax(8, fmin(17, room / (1.06 * neap_svg_text_width(length, 1))));
    NEAP_SVG(out, "<text font-size=\"$\" font-weight=\"600\" x=\"$\" y=\"$\">", size, x, y);
    neap_svg_name(out, title, NEAP_SVG_TITLE);
    neap_text_puts(out, "</text>\n");
}

/* Lines x + y = s for s in steps of `gap`, each cut off at the sides of the rectangle. */
void neap_svg_hatch(neap_text *out, double x, double y, double width, double height, double gap)
{
    if (width <= 0 || height <= 0)
        return;
    neap_text_puts(out,
                   "<path fill=\"none\" stroke=\"" NEAP_SVG_AXIS "\" stroke-width=\"0.8\" d=\"");
    for (double s = gap; s < width + height; s += gap) {
        double from_x = fmin(s, width), to_y = fmin(s, height);
        NEAP_SVG(out, "M$ $L$ $", x + from_x, y + s - from_x, x + s - to_y, y + to_y);
    }
    neap_text_puts(out, "\"/>\n");
}

/* Keeps a block within the limits; one that is too high stays at the top. */
static double within(double centre, double height, double top, double bottom)
{
    return fmax(top + height / 2, fmin(bottom - height / 2, centre));
}

/* Pools labels that overlap into blocks, each at the mean of where its labels want it to be. */
void neap_svg_spread(double *centres, const double *heights, size_t count, double top,
                     double bottom, neap_svg_block *blocks)
{
    size_t n = 0;
    for (size_t i = 0; i < count; i++) {
        blocks[n++] = (neap_svg_block){within(centres[i], heights[i], top, bottom), 1, heights[i]};
        while (n > 1) {
            neap_svg_block *a = &blocks[n - 2], *b = &blocks[n - 1];
            if (a->centre + a->height / 2 <= b->centre - b->height / 2 + 1e-9)
                break;
            double weight = a->weight + b->weight, height = a->height + b->height;
            /* where the block wants to be if a keeps its place, and if b does */
            double centre = (a->weight * (a->centre + b->height / 2) +
                             b->weight * (b->centre - a->height / 2)) /
                            weight;
            *a = (neap_svg_block){within(centre, height, top, bottom), weight, height};
            n--;
        }
    }
    for (size_t i = 0, b = 0; b < n; b++) {
        double y = blocks[b].centre - blocks[b].height / 2;
        for (size_t end = i + (size_t)(blocks[b].weight + 0.5); i < end; i++) {
            centres[i] = y + heights[i] / 2;
            y += heights[i];
        }
    }
}

/* ---- Axes ---- */

double neap_svg_x(const neap_svg_plot *plot, double value)
{
    return plot->left + plot->width * (value - plot->x.first) / (plot->x.last - plot->x.first);
}

double neap_svg_y(const neap_svg_plot *plot, double value)
{
    return plot->top + plot->height * (plot->y.last - value) / (plot->y.last - plot->y.first);
}

void neap_svg_tick(neap_text *out, const neap_axis *axis, int tick, const char *suffix)
{
    double value = neap_axis_tick(axis, tick);
    bool zero = fabs(value) < axis->step.step / 2;
    neap_text_printf(out, "%s%.*f%s", value < 0 && !zero ? "−" : "", zero ? 0 : axis->step.decimals,
                     zero ? 0.0 : fabs(value), suffix);
}

static void draw_grid(neap_text *out, const neap_svg_plot *plot, unsigned grid)
{
    double right = plot->left + plot->width, bottom = plot->top + plot->height;
    neap_text_puts(out, "<path fill=\"none\" stroke=\"" NEAP_SVG_GRID "\" d=\"");
    for (int i = 0; grid & NEAP_SVG_GRID_Y && i <= plot->y.n_steps; i++)
        NEAP_SVG(out, "M$ $H$", plot->left, neap_svg_y(plot, neap_axis_tick(&plot->y, i)), right);
    for (int i = 0; grid & NEAP_SVG_GRID_X && i <= plot->x.n_steps; i++)
        NEAP_SVG(out, "M$ $V$", neap_svg_x(plot, neap_axis_tick(&plot->x, i)), plot->top, bottom);
    NEAP_SVG(out, "M$ $\"/>\n", plot->left, bottom);
}

void neap_svg_axes(neap_text *out, const neap_svg_plot *plot, unsigned grid, const char *x_name,
                   const char *x_suffix, const char *y_name, const char *y_suffix)
{
    double right = plot->left + plot->width, bottom = plot->top + plot->height;
    double zero = fmin(bottom, fmax(plot->top, neap_svg_y(plot, 0)));
    draw_grid(out, plot, grid);
    NEAP_SVG(out, "<path d=\"M$ $V$M$ $H$\" stroke=\"" NEAP_SVG_AXIS "\" fill=\"none\"/>\n",
             plot->left, plot->top, bottom, plot->left, zero, right);
    neap_text_puts(out, "<g font-size=\"12\" fill=\"" NEAP_SVG_FAINT "\" text-anchor=\"end\">\n");
    for (int i = 0; i <= plot->y.n_steps; i++) {
        NEAP_SVG(out, "<text x=\"$\" y=\"$\">", plot->left - 8,
                 neap_svg_y(plot, neap_axis_tick(&plot->y, i)) + 4);
        neap_svg_tick(out, &plot->y, i, y_suffix);
        neap_text_puts(out, "</text>\n");
    }
    neap_text_puts(out, "</g>\n<g font-size=\"12\" fill=\"" NEAP_SVG_FAINT
                        "\" text-anchor=\"middle\">\n");
    for (int i = 0; i <= plot->x.n_steps; i++) {
        double x = neap_svg_x(plot, neap_axis_tick(&plot->x, i));
        NEAP_SVG(out, "<text x=\"$\" y=\"$\">", x, bottom + 18);
        neap_svg_tick(out, &plot->x, i, x_suffix);
        neap_text_puts(out, "</text>\n");
    }
    neap_text_puts(out, "</g>\n<g font-size=\"13\" text-anchor=\"middle\">\n");
    if (*x_name) {
        NEAP_SVG(out, "<text x=\"$\" y=\"$\">", plot->left + plot->width / 2, bottom + 40);
        neap_text_printf(out, "%s</text>\n", x_name);
    }
    NEAP_SVG(out, "<text transform=\"translate($ $) rotate(-90)\">", 18,
             plot->top + plot->height / 2);
    neap_text_printf(out, "%s</text>\n</g>\n", y_name);
}
