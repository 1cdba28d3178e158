#include "report/terminal_pen.h"

#include <string.h>

static const char *const ink_codes[] = {
    [NEAP_INK_NONE] = "\033[0m",        [NEAP_INK_AXIS] = "\033[0;90m",
    [NEAP_INK_AREA] = "\033[0;34m",     [NEAP_INK_OVER] = "\033[0;31m",
    [NEAP_INK_SPLIT] = "\033[0;34;41m", [NEAP_INK_BUDGET] = "\033[0;31m",
    [NEAP_INK_NATURAL] = "\033[0;35m",  [NEAP_INK_FORWARD] = "\033[0m",
    [NEAP_INK_BACKWARD] = "\033[0;36m", [NEAP_INK_AGAIN] = "\033[0;1;33m",
    [NEAP_INK_COPY] = "\033[0;35m",
};

static const struct {
    const char *ascii, *unicode;
} glyphs[] = {
    [NEAP_GLYPH_AREA] = {" ", " "},
    {".", "▁"},
    {".", "▂"},
    {":", "▃"},
    {":", "▄"},
    {":", "▅"},
    {"#", "▆"},
    {"#", "▇"},
    {"#", "█"},
    [NEAP_GLYPH_OVER] = {"!", "▓"},
    [NEAP_GLYPH_LINE] = {"_", "▁"},
    {"-", "─"},
    {"-", "▔"},
    [NEAP_GLYPH_AXIS] = {"|", "│"},
    [NEAP_GLYPH_TICK] = {"+", "┤"},
    [NEAP_GLYPH_CORNER] = {"+", "└"},
    [NEAP_GLYPH_FLOOR] = {"-", "─"},
    [NEAP_GLYPH_FLOOR_TICK] = {"+", "┬"},
    [NEAP_GLYPH_NATURAL] = {"*", "◆"},
    [NEAP_GLYPH_UP] = {"^", "↑"},
    [NEAP_GLYPH_WAIT] = {".", "·"},
    [NEAP_GLYPH_ELLIPSIS] = {"...", "…"},
    [NEAP_GLYPH_DOT] = {".", "·"},
    [NEAP_GLYPH_WALL] = {"/", "░"},
    [NEAP_GLYPH_BAR] = {"|", "▏"},
    {"=", "▌"},
    {"=", "█"},
    [NEAP_GLYPH_UPRIGHT] = {":", "┊"},
};

const char *neap_pen_glyph(const neap_pen *pen, int64_t glyph)
{
    return pen->unicode ? glyphs[glyph].unicode : glyphs[glyph].ascii;
}

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

void neap_pen_put_glyph(neap_pen *pen, neap_ink ink, int64_t glyph)
{
    neap_pen_put(pen, ink, neap_pen_glyph(pen, glyph));
}

void neap_pen_spaces(neap_pen *pen, int count)
{
    if (pen->ink == NEAP_INK_SPLIT)
        use(pen, NEAP_INK_NONE); /* the only ink that shows on blanks */
    neap_text_repeat(&pen->out, ' ', count > 0 ? (size_t)count : 0);
}

void neap_pen_entry(neap_pen *pen, int *written, int indent, int width, neap_ink ink,
                    const char *sample, const char *meaning)
{
    int length = (int)(neap_string_characters(sample, strlen(sample)) + 1 +
                       neap_string_characters(meaning, strlen(meaning)));
    if (*written > 0 && *written + 2 + length > width) {
        neap_pen_end_line(pen);
        *written = 0;
    }
    neap_pen_spaces(pen, *written == 0 ? indent : 2);
    *written += (*written == 0 ? 0 : 2) + length;
    neap_pen_put(pen, ink, sample);
    neap_pen_put(pen, NEAP_INK_AXIS, " ");
    neap_pen_put(pen, NEAP_INK_AXIS, meaning);
}

void neap_pen_end_line(neap_pen *pen)
{
    neap_text *out = &pen->out;
    while (out->length > 0 && out->text[out->length - 1] == ' ')
        out->text[--out->length] = '\0';
    use(pen, NEAP_INK_NONE);
    neap_text_putc(out, '\n');
}
