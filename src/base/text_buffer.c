#include "base/text_buffer.h"

#include "base/fail.h"
#include "base/memory.h"

#include <float.h>
#include <inttypes.h>
#include <locale.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void neap_text_init(neap_text *buffer, neap_allocator *allocator)
{
    *buffer = (neap_text){.allocator = neap_allocator_or_system(allocator), .status = NEAP_OK};
}

void neap_text_clear(neap_text *buffer)
{
    NEAP_DELETE(buffer->allocator, buffer->capacity, buffer->text);
    neap_text_init(buffer, buffer->allocator);
}

void neap_text_append(neap_text *buffer, const char *text, size_t length)
{
    if (buffer->status != NEAP_OK)
        return;
    size_t needed = buffer->length + length + 1;
    if (needed > buffer->capacity) {
        size_t wanted = buffer->capacity * 2 > needed ? buffer->capacity * 2 : needed;
        buffer->status =
            NEAP_RESERVE(buffer->allocator, wanted, &buffer->text, &buffer->capacity, NULL);
        if (buffer->status != NEAP_OK)
            return;
    }
    if (length)
        memcpy(buffer->text + buffer->length, text, length);
    buffer->length += length;
    buffer->text[buffer->length] = '\0';
}

void neap_text_puts(neap_text *buffer, const char *text)
{
    neap_text_append(buffer, text, strlen(text));
}

void neap_text_putc(neap_text *buffer, char c)
{
    neap_text_append(buffer, &c, 1);
}

void neap_text_printf(neap_text *buffer, const char *format, ...)
{
    va_list arguments, again;
    va_start(arguments, format);
    va_copy(again, arguments);
    char small[256];
    int length = vsnprintf(small, sizeof small, format, arguments);
    va_end(arguments);
    if (length >= 0 && (size_t)length < sizeof small) {
        neap_text_append(buffer, small, (size_t)length);
    } else if (length >= 0 && buffer->status == NEAP_OK) {
        size_t size = (size_t)length + 1;
        char *large;
        buffer->status = NEAP_NEW(buffer->allocator, size, &large, NULL);
        if (buffer->status == NEAP_OK) {
            vsnprintf(large, size, format, again);
            neap_text_append(buffer, large, (size_t)length);
            NEAP_DELETE(buffer->allocator, size, large);
        }
    }
    va_end(again);
}

void neap_text_i64(neap_text *buffer, int64_t number)
{
    char digits[24];
    int length = snprintf(digits, sizeof digits, "%" PRId64, number);
    neap_text_append(buffer, digits, (size_t)length);
}

void neap_text_double(neap_text *buffer, double number)
{
    if (number == 0) {
        neap_text_puts(buffer, signbit(number) ? "-0.0" : "0");
        return;
    }
    char digits[40];
    /* Fifteen digits always survive the way there and back, but for numbers so small that they have
     * fewer. */
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
    neap_text_puts(buffer, digits);
}

void neap_text_json_string(neap_text *buffer, const char *text)
{
    neap_text_putc(buffer, '"');
    const char *plain = text;
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        if (c >= 0x20 && c != '"' && c != '\\')
            continue;
        neap_text_append(buffer, plain, (size_t)(text - plain));
        plain = text + 1;
        switch (c) {
        case '"':
            neap_text_puts(buffer, "\\\"");
            break;
        case '\\':
            neap_text_puts(buffer, "\\\\");
            break;
        case '\n':
            neap_text_puts(buffer, "\\n");
            break;
        case '\t':
            neap_text_puts(buffer, "\\t");
            break;
        case '\r':
            neap_text_puts(buffer, "\\r");
            break;
        default:
            neap_text_printf(buffer, "\\u%04x", c);
        }
    }
    neap_text_append(buffer, plain, (size_t)(text - plain));
    neap_text_putc(buffer, '"');
}

neap_status neap_text_take(neap_text *buffer, char **text, size_t *length, neap_diag *diag)
{
    neap_text_append(buffer, "", 0);
    if (buffer->status == NEAP_OK) {
        neap_allocator *allocator = buffer->allocator;
        char *exact =
            allocator->resize(allocator, buffer->text, buffer->capacity, buffer->length + 1);
        if (exact) {
            *text = exact;
            *length = buffer->length;
            neap_text_init(buffer, allocator);
            return NEAP_OK;
        }
    }
    neap_text_clear(buffer);
    return neap_fail_no_memory(diag);
}
