#include "base/utf8.h"

#include <neap/text.h>

#include <string.h>

enum { REPLACEMENT = 0xfffd };

static bool is_continuation(char c)
{
    return ((unsigned char)c & 0xc0) == 0x80;
}

/* What the first byte of a character says of its length; 0 if none begins with it. */
static size_t promised_length(unsigned char first)
{
    return first < 0x80                   ? 1
           : first < 0xc2 || first > 0xf4 ? 0
           : first < 0xe0                 ? 2
           : first < 0xf0                 ? 3
                                          : 4;
}

size_t neap_utf8_decode(const char *at, size_t left, uint32_t *code)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000}; /* by length; less is overlong */
    if (left == 0)
        return 0;
    size_t length = promised_length((unsigned char)*at);
    if (length <= 1) {
        *code = (unsigned char)*at;
        return length;
    }
    if (length > left)
        return 0;
    *code = (unsigned char)*at & (0xffu >> (length + 1));
    for (size_t i = 1; i < length; i++) {
        if (!is_continuation(at[i])) /* also stops at a NUL */
            return 0;
        *code = *code << 6 | ((unsigned char)at[i] & 0x3fu);
    }
    bool surrogate = *code >= 0xd800 && *code < 0xe000;
    return *code < least[length] || *code > 0x10ffff || surrogate ? 0 : length;
}

static bool is_shown(uint32_t code)
{
    static const struct {
        uint32_t first, last;
    } hidden[] = {
        {0x0, 0x1f},      /* controls */
        {0x7f, 0x9f},     /* DEL; the C1 controls, of which U+009B begins an escape sequence */
        {0xad, 0xad},     /* soft hyphen */
        {0x61c, 0x61c},   /* Arabic letter mark, a mark of direction */
        {0x180e, 0x180e}, /* Mongolian vowel separator, without width */
        {0x200b, 0x200f}, /* zero-width space and joiners, left-to-right and right-to-left marks */
        {0x2028, 0x202e}, /* separators of lines and paragraphs; overrides of the direction */
        {0x2060, 0x206f}, /* word joiner, invisible operators, isolates of direction */
        {0xfeff, 0xfeff}, /* byte-order mark, or a space without width */
        {0xfff9, 0xfffb}, /* marks of annotations */
        {0xfffe, 0xffff}, /* no characters; XML refuses them */
    };
    for (size_t i = 0; i < sizeof hidden / sizeof *hidden && code >= hidden[i].first; i++)
        if (code <= hidden[i].last)
            return false;
    return true;
}

neap_character neap_utf8_next(const char *at)
{
    neap_character c = {"?", 1, *at ? 1 : 0, REPLACEMENT};
    uint32_t code;
    size_t length = neap_utf8_decode(at, 4, &code); /* a NUL ends it before */
    if (length == 0 || *at == '\0')
        return c;
    c.code = code;
    c.length = length;
    if (is_shown(code)) {
        c.shown = at;
        c.shown_length = length;
    }
    return c;
}

bool neap_utf8_is_valid(const char *string)
{
    uint32_t code;
    for (size_t length; *string; string += length)
        if ((length = neap_utf8_decode(string, 4, &code)) == 0)
            return false;
    return true;
}

size_t neap_utf8_clip(const char *string, size_t most)
{
    size_t length = 0;
    while (length < most && string[length])
        length++;
    if (length < most)
        return length;
    while (length > 0 && is_continuation(string[length]))
        length--;
    return length;
}

/* Is this the beginning of a character, cut off by the end of the string? */
static bool is_cut_off(const char *at)
{
    size_t promised = promised_length((unsigned char)*at), length = 1;
    while (length < promised && is_continuation(at[length]))
        length++;
    return length < promised && at[length] == '\0';
}

/* ---- neap/text.h ---- */

size_t neap_string_clean(char *string)
{
    char *to = string;
    const char *from = string;
    for (neap_character c = neap_utf8_next(from); c.length; c = neap_utf8_next(from)) {
        if (c.code == REPLACEMENT && is_cut_off(from))
            break;
        memmove(to, c.shown, c.shown_length);
        to += c.shown_length;
        from += c.length;
    }
    *to = '\0';
    return (size_t)(to - string);
}

size_t neap_string_characters(const char *string, size_t length)
{
    size_t count = 0;
    for (const char *end = string + length; string < end; count++) {
        uint32_t code;
        size_t taken = neap_utf8_decode(string, (size_t)(end - string), &code);
        string += taken ? taken : 1;
    }
    return count;
}
