/* Lines for a terminal: two alphabets, and colours that are switched only where they change. */
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

/* The characters of either alphabet. */
typedef struct neap_glyphs {
    const char *area[9]; /* by eighths of a cell */
    const char *over;    /* a whole cell above the budget, where colour cannot tell */
    const char *line[3]; /* at the bottom, the middle, the top of a cell */
    const char *axis, *tick, *corner, *floor, *floor_tick;
    const char *natural, *up, *wait, *ellipsis;
} neap_glyphs;

extern const neap_glyphs neap_glyphs_unicode, neap_glyphs_ascii;

typedef struct neap_pen {
    neap_text out;
    bool color;
    neap_ink ink; /* that the terminal writes in now */
} neap_pen;

void neap_pen_put(neap_pen *pen, neap_ink ink, const char *text);
/* Blanks have no ink; a negative count is none. */
void neap_pen_spaces(neap_pen *pen, int count);
/* Back to the terminal's own colour; no line ends in blanks. */
void neap_pen_end_line(neap_pen *pen);

#endif
