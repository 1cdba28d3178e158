#include "report/clean_text.h"

#include <stdbool.h>
#include <string.h>

typedef struct character {
    const char *text; /* what to show: the character itself, or "?" */
    size_t length;    /* of that */
    size_t taken;     /* bytes it takes in the original; 0 at the end */
} character;

/* Bytes of the UTF-8 sequence that begins with this byte, with the bits of its code; 0 where none
 * does. */
static size_t sequence_length(unsigned char first, uint32_t *code)
{
    *code = first;
    if (first < 0x80)
        return 1;
    *code = first & 0x1fu;
    if (first >= 0xc2 && first < 0xe0)
        return 2;
    *code = first & 0x0fu;
    if (first >= 0xe0 && first < 0xf0)
        return 3;
    *code = first & 0x07u;
    return first >= 0xf0 && first < 0xf5 ? 4 : 0;
}

/* Past this limit the decoder would have read a sequence that is longer than it need be. */
static bool is_overlong(uint32_t code, size_t length)
{
    return (length == 3 && code < 0x800) || (length == 4 && code < 0x10000);
}

static bool is_printable(uint32_t code)
{
    bool control = code < 0x20 || (code >= 0x7f && code < 0xa0);
    bool surrogate = code >= 0xd800 && code < 0xe000;
    /* Overrides of the writing direction would turn the rest of a line around; XML refuses the last
     * two. */
    bool direction = (code >= 0x202a && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069);
    bool line_end = code == 0x2028 || code == 0x2029;
    return !control && !surrogate && !direction && !line_end && code != 0xfffe && code != 0xffff &&
           code <= 0x10ffff;
}

static character next_character(const char *at)
{
    character c = {"?", 1, *at ? 1 : 0};
    uint32_t code;
    size_t length = sequence_length((unsigned char)*at, &code);
    for (size_t i = 1; i < length; i++) {
        if (((unsigned char)at[i] & 0xc0) != 0x80) /* also stops at the NUL */
            return c;
        code = code << 6 | ((unsigned char)at[i] & 0x3fu);
    }
    if (length == 0 || is_overlong(code, length))
        return c;
    if (c.taken)
        c.taken = length;
    if (is_printable(code)) {
        c.text = at;
        c.length = length;
    }
    return c;
}

size_t neap_text_characters(const char *text)
{
    size_t count = 0;
    for (character c = next_character(text); c.taken; c = next_character(text)) {
        text += c.taken;
        count++;
    }
    return count;
}

size_t neap_text_clean(neap_text *buffer, const char *text, size_t most, const char *ellipsis)
{
    size_t count = neap_text_characters(text), tail = neap_text_characters(ellipsis);
    bool clipped = count > most;
    size_t wanted = !clipped ? count : most > tail ? most - tail : 0;
    for (size_t i = 0; i < wanted; i++) {
        character c = next_character(text);
        neap_text_append(buffer, c.text, c.length);
        text += c.taken;
    }
    if (!clipped || most < tail)
        return wanted;
    neap_text_puts(buffer, ellipsis);
    return wanted + tail;
}

void neap_text_xml(neap_text *buffer, const char *text)
{
    for (character c = next_character(text); c.taken; c = next_character(text)) {
        switch (*c.text) {
        case '&':
            neap_text_puts(buffer, "&amp;");
            break;
        case '<':
            neap_text_puts(buffer, "&lt;");
            break;
        case '>':
            neap_text_puts(buffer, "&gt;");
            break;
        case '"':
            neap_text_puts(buffer, "&quot;");
            break;
        case '\'':
            neap_text_puts(buffer, "&#39;");
            break;
        default:
            neap_text_append(buffer, c.text, c.length);
        }
        text += c.taken;
    }
}
