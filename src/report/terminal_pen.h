/* Lines for a terminal: in one of two alphabets, with colours switched only where they change. */
#ifndef NEAP_REPORT_TERMINAL_PEN_H
#define NEAP_REPORT_TERMINAL_PEN_H

#include <neap/text.h>
#include <stdbool.h>

typedef enum neap_ink {
    NEAP_INK_NONE,
    NEAP_INK_AXIS,
    NEAP_INK_AREA,
    NEAP_INK_OVER,  /* above the budget */
    NEAP_INK_SPLIT, /* area below, the ground above it like NEAP_INK_OVER */
    NEAP_INK_BUDGET,
    NEAP_INK_NATURAL,
    NEAP_INK_FORWARD,
    NEAP_INK_BACKWARD,
    NEAP_INK_AGAIN,
    NEAP_INK_COPY
} neap_ink;

/* The characters of a chart. Each has a form in Unicode and one in ASCII. */
typedef enum neap_glyph {
    NEAP_GLYPH_AREA,     /* of no eighth of a cell; the next ones of 1 to 8 */
    NEAP_GLYPH_OVER = 9, /* a whole cell above the budget, where colour cannot show it */
    NEAP_GLYPH_LINE,     /* at the bottom of a cell; the next ones in the middle, at the top */
    NEAP_GLYPH_AXIS = NEAP_GLYPH_LINE + 3,
    NEAP_GLYPH_TICK,
    NEAP_GLYPH_CORNER,
    NEAP_GLYPH_FLOOR,
    NEAP_GLYPH_FLOOR_TICK,
    NEAP_GLYPH_NATURAL,
    NEAP_GLYPH_UP,
    NEAP_GLYPH_WAIT,
    NEAP_GLYPH_ELLIPSIS
} neap_glyph;

typedef struct neap_pen {
    neap_text out;
    bool color;
    bool unicode;
    neap_ink ink; /* that the terminal writes in now */
} neap_pen;

/* A glyph in the pen's alphabet: NEAP_GLYPH_TICK, NEAP_GLYPH_AREA + 3. */
const char *neap_pen_glyph(const neap_pen *pen, int64_t glyph);

void neap_pen_put(neap_pen *pen, neap_ink ink, const char *text);
void neap_pen_put_glyph(neap_pen *pen, neap_ink ink, int64_t glyph);
/* Blanks have no ink; a negative count is none. */
void neap_pen_spaces(neap_pen *pen, int count);
/* Back to the terminal's own colour; no line ends in blanks. */
void neap_pen_end_line(neap_pen *pen);

#endif
