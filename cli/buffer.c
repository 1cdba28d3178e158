#include "buffer.h"

#include "memory.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* Makes room for `more` bytes and a NUL. */
static bool reserve(cli_buffer *buffer, size_t more)
{
    if (buffer->failed)
        return false;
    if (more < buffer->capacity - buffer->length)
        return true;
    size_t capacity = buffer->capacity ? buffer->capacity : 256;
    while (capacity - buffer->length <= more && capacity <= SIZE_MAX / 2)
        capacity *= 2;
    char *data = NULL;
    if (capacity - buffer->length > more)
        data = cli_memory_resize(buffer->data, buffer->capacity, capacity);
    if (!data) {
        buffer->failed = true;
        return false;
    }
    buffer->data = data;
    buffer->capacity = capacity;
    return true;
}

void cli_buffer_add(cli_buffer *buffer, const char *text, size_t length)
{
    if (!reserve(buffer, length))
        return;
    memcpy(buffer->data + buffer->length, text, length);
    buffer->length += length;
    buffer->data[buffer->length] = '\0';
}

void cli_buffer_text(cli_buffer *buffer, const char *text)
{
    cli_buffer_add(buffer, text, strlen(text));
}

void cli_buffer_repeat(cli_buffer *buffer, char character, size_t count)
{
    if (!reserve(buffer, count))
        return;
    memset(buffer->data + buffer->length, character, count);
    buffer->length += count;
    buffer->data[buffer->length] = '\0';
}

void cli_buffer_print(cli_buffer *buffer, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    if (length < 0)
        buffer->failed = true;
    if (length < 0 || !reserve(buffer, (size_t)length))
        return;
    va_start(arguments, format);
    vsnprintf(buffer->data + buffer->length, (size_t)length + 1, format, arguments);
    va_end(arguments);
    buffer->length += (size_t)length;
}

const char *cli_buffer_get(const cli_buffer *buffer)
{
    return buffer->data ? buffer->data : "";
}

void cli_buffer_clear(cli_buffer *buffer)
{
    cli_memory_release(buffer->data, buffer->capacity, 1);
    *buffer = (cli_buffer){0};
}
