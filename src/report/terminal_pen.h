/* Lines for a terminal, in one of two alphabets. Colours are switched only where they change. */
#ifndef NEAP_REPORT_TERMINAL_PEN_H
#define NEAP_REPORT_TERMINAL_PEN_H

#include <neap/text.h>
#include <stdbool.h>

typedef enum neap_ink {
    NEAP_INK_NONE,
    NEAP_INK_AXIS,
    NEAP_INK_AREA,
    NEAP_INK_OVER,  /* above the budget */
    NEAP_INK_SPLIT, /* area below, background above it like NEAP_INK_OVER */
    NEAP_INK_BUDGET,
    NEAP_INK_NATURAL,
    NEAP_INK_FORWARD,
    NEAP_INK_BACKWARD,
    NEAP_INK_AGAIN,
    NEAP_INK_COPY
} neap_ink;

/* The characters of a chart. Each has a form in Unicode and one in ASCII. */
typedef enum neap_glyph {
    NEAP_GLYPH_AREA,     /* empty; the next ones fill 1 to 8 eighths of a cell */
    NEAP_GLYPH_OVER = 9, /* a full cell above the budget, if there is no colour to show it */
    NEAP_GLYPH_LINE,     /* at the bottom of a cell; the next ones in the middle, at the top */
    NEAP_GLYPH_AXIS = NEAP_GLYPH_LINE + 3,
    NEAP_GLYPH_TICK,
    NEAP_GLYPH_CORNER,
    NEAP_GLYPH_FLOOR,
    NEAP_GLYPH_FLOOR_TICK,
    NEAP_GLYPH_NATURAL,
    NEAP_GLYPH_UP,
    NEAP_GLYPH_WAIT,
    NEAP_GLYPH_ELLIPSIS,
    NEAP_GLYPH_DOT, /* between two points of a line */
    NEAP_GLYPH_WALL,
    NEAP_GLYPH_BAR, /* a horizontal one, its first eighth; the next ones a half and a whole cell */
    NEAP_GLYPH_UPRIGHT = NEAP_GLYPH_BAR + 3 /* of a dashed vertical line */
} neap_glyph;

typedef struct neap_pen {
    neap_text out;
    bool color;
    bool unicode;
    neap_ink ink; /* current ink of the terminal */
} neap_pen;

/* A glyph in the pen's alphabet: NEAP_GLYPH_TICK, NEAP_GLYPH_AREA + 3. */
const char *neap_pen_glyph(const neap_pen *pen, int64_t glyph);

void neap_pen_put(neap_pen *pen, neap_ink ink, const char *text);
void neap_pen_put_glyph(neap_pen *pen, neap_ink ink, int64_t glyph);
/* Blanks have no ink; a negative count writes none. */
void neap_pen_spaces(neap_pen *pen, int count);
/* One entry of a legend of `width` characters behind `indent` blanks; lines are broken between
   entries. `written` counts the characters of the line: 0 before the first entry. */
void neap_pen_entry(neap_pen *pen, int *written, int indent, int width, neap_ink ink,
                    const char *sample, const char *meaning);
/* Resets the terminal's colour and ends the line; lines have no trailing blanks. */
void neap_pen_end_line(neap_pen *pen);

#endif
