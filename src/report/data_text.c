#include "report/data_text.h"

#include "base/utf8.h"

#include <math.h>
#include <string.h>

/* The longest name that the page shows; others are cut off. */
static const char ELLIPSIS[] = "\xe2\x80\xa6";

static void put_character(neap_text *out, neap_character c)
{
    static const char marks[] = "\"\\<>&";
    static const char *const escapes[] = {"\\\"", "\\\\", "\\u003c", "\\u003e", "\\u0026"};
    const char *mark = c.shown_length == 1 ? strchr(marks, *c.shown) : NULL;
    if (mark)
        neap_text_puts(out, escapes[mark - marks]);
    else
        neap_text_append(out, c.shown, c.shown_length);
}

/* Ends at a NUL, or after `length` bytes. */
void neap_data_part(neap_text *out, const char *string, size_t length, size_t most)
{
    const char *end = string + length;
    bool cut = length > most && neap_string_characters(string, length) > most;
    size_t left = cut ? most - 1 : most;
    neap_text_putc(out, '"');
    for (; string < end && left > 0; left--) {
        neap_character c = neap_utf8_next(string);
        if (c.length == 0)
            break;
        put_character(out, c);
        string += c.length;
    }
    if (cut)
        neap_text_puts(out, ELLIPSIS);
    neap_text_putc(out, '"');
}

void neap_data_string(neap_text *out, const char *string, size_t most)
{
    if (string)
        neap_data_part(out, string, strlen(string), most);
    else
        neap_text_puts(out, "null");
}

void neap_data_integer(neap_text *out, int64_t number)
{
    char digits[24], *at = digits + sizeof digits;
    uint64_t rest = number < 0 ? 0 - (uint64_t)number : (uint64_t)number;
    do {
        *--at = (char)('0' + rest % 10);
        rest /= 10;
    } while (rest > 0);
    if (number < 0)
        *--at = '-';
    neap_text_append(out, at, (size_t)(digits + sizeof digits - at));
}

void neap_data_size(neap_text *out, int64_t bytes)
{
    if (bytes < 0)
        neap_text_puts(out, "null");
    else
        neap_data_integer(out, bytes);
}

void neap_data_real(neap_text *out, double number)
{
    if (isfinite(number))
        neap_text_double(out, number);
    else
        neap_text_puts(out, "null");
}

/* ---- Columns ---- */

void neap_data_begin(neap_text *out, const char *name)
{
    neap_text_putc(out, '"');
    neap_text_puts(out, name);
    neap_text_puts(out, "\":[");
}

void neap_data_comma(neap_text *out)
{
    if (out->length > 0 && out->text[out->length - 1] != '[')
        neap_text_putc(out, ',');
}

void neap_data_item(neap_text *out, int64_t number)
{
    neap_data_comma(out);
    neap_data_integer(out, number);
}

void neap_data_end(neap_text *out)
{
    neap_text_putc(out, ']');
}
