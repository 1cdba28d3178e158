/* neap/text.h: a text that grows. */
#include "base/fail.h"
#include "base/memory.h"
#include "base/utf8.h"

#include <neap/text.h>

#include <float.h>
#include <inttypes.h>
#include <locale.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void neap_text_init(neap_text *text, neap_allocator *allocator)
{
    *text = (neap_text){.allocator = neap_allocator_or_system(allocator), .status = NEAP_OK};
}

void neap_text_clear(neap_text *text)
{
    NEAP_DELETE(text->allocator, text->capacity, text->text);
    neap_text_init(text, text->allocator);
}

const char *neap_text_get(const neap_text *text)
{
    return text->text ? text->text : "";
}

/* Makes room for `more` bytes and a NUL; the place of the first of them, or NULL after an error. */
static char *extend(neap_text *text, size_t more)
{
    if (text->status != NEAP_OK)
        return NULL;
    size_t free_bytes = text->capacity - text->length;
    if (more >= free_bytes) {
        size_t needed = text->length + more + 1;
        size_t wanted = text->capacity * 2 > needed ? text->capacity * 2 : needed;
        text->status =
            more < SIZE_MAX / 2 - text->length
                ? NEAP_RESERVE(text->allocator, wanted, &text->text, &text->capacity, NULL)
                : NEAP_NO_MEMORY;
        if (text->status != NEAP_OK)
            return NULL;
    }
    char *at = text->text + text->length;
    text->length += more;
    at[more] = '\0';
    return at;
}

void neap_text_append(neap_text *text, const char *bytes, size_t length)
{
    char *at = extend(text, length);
    if (at && length)
        memcpy(at, bytes, length);
}

void neap_text_puts(neap_text *text, const char *string)
{
    neap_text_append(text, string, strlen(string));
}

void neap_text_putc(neap_text *text, char c)
{
    neap_text_append(text, &c, 1);
}

void neap_text_repeat(neap_text *text, char c, size_t count)
{
    char *at = extend(text, count);
    if (at)
        memset(at, c, count);
}

void neap_text_vprintf(neap_text *text, const char *format, va_list arguments)
{
    va_list again;
    va_copy(again, arguments);
    char small[256];
    int length = vsnprintf(small, sizeof small, format, arguments);
    if (length >= 0 && (size_t)length < sizeof small) {
        neap_text_append(text, small, (size_t)length);
    } else if (length >= 0) {
        char *at = extend(text, (size_t)length);
        if (at)
            vsnprintf(at, (size_t)length + 1, format, again);
    }
    va_end(again);
}

void neap_text_printf(neap_text *text, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    neap_text_vprintf(text, format, arguments);
    va_end(arguments);
}

void neap_text_i64(neap_text *text, int64_t number)
{
    char digits[24];
    int length = snprintf(digits, sizeof digits, "%" PRId64, number);
    neap_text_append(text, digits, (size_t)length);
}

void neap_text_double(neap_text *text, double number)
{
    if (number == 0) {
        neap_text_puts(text, signbit(number) ? "-0.0" : "0");
        return;
    }
    char digits[40];
    /* Fifteen digits always read back the same, except for subnormal numbers, which have fewer. */
    for (int precision = fabs(number) < DBL_MIN ? 1 : 15; precision <= 17; precision++) {
        snprintf(digits, sizeof digits, "%.*g", precision, number);
        if (strtod(digits, NULL) == number)
            break;
    }
    /* The locale's decimal point, if it is not ours. */
    const char *point = localeconv()->decimal_point;
    char *found = strcmp(point, ".") == 0 ? NULL : strstr(digits, point);
    if (found) {
        *found = '.';
        memmove(found + 1, found + strlen(point), strlen(found + strlen(point)) + 1);
    }
    neap_text_puts(text, digits);
}

void neap_text_json_string(neap_text *text, const char *string)
{
    static const char characters[] = "\"\\\n\t\r", letters[] = "\"\\ntr";
    const char *copied = string; /* up to here */
    neap_text_putc(text, '"');
    for (neap_character c; (c = neap_utf8_next(string)).length > 0; string += c.length) {
        const char *found = c.code < 0x80 ? strchr(characters, (int)c.code) : NULL;
        if (!found && c.shown == string)
            continue;
        neap_text_append(text, copied, (size_t)(string - copied));
        copied = string + c.length;
        if (found)
            neap_text_printf(text, "\\%c", letters[found - characters]);
        else
            neap_text_printf(text, "\\u%04lx", (unsigned long)c.code);
    }
    neap_text_append(text, copied, (size_t)(string - copied));
    neap_text_putc(text, '"');
}

neap_status neap_text_take(neap_text *text, char **string, size_t *length, neap_diag *diag)
{
    neap_text_append(text, "", 0);
    if (text->status == NEAP_OK) {
        neap_allocator *allocator = neap_allocator_or_system(text->allocator);
        char *exact = allocator->resize(allocator, text->text, text->capacity, text->length + 1);
        if (exact) {
            *string = exact;
            *length = text->length;
            neap_text_init(text, allocator);
            return NEAP_OK;
        }
    }
    neap_text_clear(text);
    return neap_fail_no_memory(diag);
}
