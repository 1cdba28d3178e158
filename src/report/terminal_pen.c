#include "report/terminal_pen.h"

static const char *const ink_codes[] = {
    [NEAP_INK_NONE] = "\033[0m",        [NEAP_INK_AXIS] = "\033[0;90m",
    [NEAP_INK_AREA] = "\033[0;34m",     [NEAP_INK_OVER] = "\033[0;31m",
    [NEAP_INK_SPLIT] = "\033[0;34;41m", [NEAP_INK_BUDGET] = "\033[0;31m",
    [NEAP_INK_NATURAL] = "\033[0;35m",  [NEAP_INK_FORWARD] = "\033[0m",
    [NEAP_INK_BACKWARD] = "\033[0;36m", [NEAP_INK_AGAIN] = "\033[0;1;33m",
    [NEAP_INK_COPY] = "\033[0;35m",
};

const neap_glyphs neap_glyphs_unicode = {
    .area = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"},
    .over = "▓",
    .line = {"▁", "─", "▔"},
    .axis = "│",
    .tick = "┤",
    .corner = "└",
    .floor = "─",
    .floor_tick = "┬",
    .natural = "◆",
    .up = "↑",
    .wait = "·",
    .ellipsis = "…",
};

const neap_glyphs neap_glyphs_ascii = {
    .area = {" ", ".", ".", ":", ":", ":", "#", "#", "#"},
    .over = "!",
    .line = {"_", "-", "-"},
    .axis = "|",
    .tick = "+",
    .corner = "+",
    .floor = "-",
    .floor_tick = "+",
    .natural = "*",
    .up = "^",
    .wait = ".",
    .ellipsis = "...",
};

static void use(neap_pen *pen, neap_ink ink)
{
    if (!pen->color || pen->ink == ink)
        return;
    neap_text_puts(&pen->out, ink_codes[ink]);
    pen->ink = ink;
}

void neap_pen_put(neap_pen *pen, neap_ink ink, const char *text)
{
    use(pen, ink);
    neap_text_puts(&pen->out, text);
}

void neap_pen_spaces(neap_pen *pen, int count)
{
    if (pen->ink == NEAP_INK_SPLIT)
        use(pen, NEAP_INK_NONE); /* the one ink that blanks would show */
    for (int i = 0; i < count; i++)
        neap_text_putc(&pen->out, ' ');
}

void neap_pen_end_line(neap_pen *pen)
{
    neap_text *out = &pen->out;
    while (out->length > 0 && out->text[out->length - 1] == ' ')
        out->text[--out->length] = '\0';
    use(pen, NEAP_INK_NONE);
    neap_text_putc(out, '\n');
}
