/* SVG for papers: self-contained, without scripts, fonts or references; all text is text. */
#ifndef NEAP_REPORT_SVG_H
#define NEAP_REPORT_SVG_H

#include "report/round_ticks.h"

#include <neap/text.h>

/* Characters of a title, and of another name; longer ones end in an ellipsis. */
enum { NEAP_SVG_TITLE = 120, NEAP_SVG_NAME = 40 };

/* Ink that reads on white in colour and in grey. */
#define NEAP_SVG_TEXT  "#24292f"
#define NEAP_SVG_FAINT "#57606a"
#define NEAP_SVG_GRID  "#e3e6ea"
#define NEAP_SVG_AXIS  "#7a828c"

/* The root element, its accessible title and a white ground. */
void neap_svg_begin(neap_text *out, int width, int height, const char *title);
void neap_svg_end(neap_text *out);

/* A number with two decimals at most, with a point in every locale. */
void neap_svg_number(neap_text *out, double value);
/* Appends a template in which each $ stands for the next number. */
void neap_svg_numbers(neap_text *out, const char *template, const double *numbers);
#define NEAP_SVG(out, template, ...)                                                               \
    neap_svg_numbers((out), (template), (const double[]){__VA_ARGS__})

/* At most `most` characters of a name from a file, cleaned and escaped. */
void neap_svg_name(neap_text *out, const char *name, size_t most);
/* The picture's title, in the size that fits `room` pixels. Nothing for NULL or "". */
void neap_svg_title(neap_text *out, const char *title, double x, double y, double room);
/* The width of a text of `characters` at a font size, for placing it: an estimate that is rarely
   too small. */
double neap_svg_text_width(size_t characters, double size);

/* Diagonal lines clipped to a rectangle, `gap` pixels apart: no pattern, so no reference. */
void neap_svg_hatch(neap_text *out, double x, double y, double width, double height, double gap);

/*
 * Moves labels apart: `centres`, in ascending order, change as little as possible (in squares) so
 * that no two labels of these heights overlap and all are between top and bottom, if they fit.
 * O(count); `blocks` is room for `count` of them.
 */
typedef struct neap_svg_block {
    double centre, weight, height; /* of labels that touch; weight: how many */
} neap_svg_block;
void neap_svg_spread(double *centres, const double *heights, size_t count, double top,
                     double bottom, neap_svg_block *blocks);

/* ---- Axes: values along x or y of a plot ---- */

typedef struct neap_svg_plot {
    double left, top, width, height; /* pixels */
    neap_axis x, y;
} neap_svg_plot;

double neap_svg_x(const neap_svg_plot *plot, double value);
double neap_svg_y(const neap_svg_plot *plot, double value);

enum { NEAP_SVG_GRID_X = 1, NEAP_SVG_GRID_Y = 2 };

/* Grid lines, tick labels and both axes; `x_suffix` and `y_suffix` follow every number. Axes names
   stand below and at the left. */
void neap_svg_axes(neap_text *out, const neap_svg_plot *plot, unsigned grid, const char *x_name,
                   const char *x_suffix, const char *y_name, const char *y_suffix);
/* "−2.5%": a tick's number, with a real minus sign. */
void neap_svg_tick(neap_text *out, const neap_axis *axis, int tick, const char *suffix);

#endif
