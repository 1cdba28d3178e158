/*
 * buffer.h - text that grows.
 *
 * Whatever a command prints is gathered in one buffer and written at its end, so that a command
 * that fails half-way has printed nothing. Running out of memory is sticky: `failed` is looked at
 * once.
 */
#ifndef NEAP_CLI_BUFFER_H
#define NEAP_CLI_BUFFER_H

#include <neap/version.h>
#include <stdbool.h>
#include <stddef.h>

/* All zero is an empty buffer. */
typedef struct cli_buffer {
    char *data; /* length bytes and a NUL; NULL while nothing was added */
    size_t length, capacity;
    bool failed;
} cli_buffer;

void cli_buffer_add(cli_buffer *buffer, const char *text, size_t length);
void cli_buffer_text(cli_buffer *buffer, const char *text);
void cli_buffer_repeat(cli_buffer *buffer, char character, size_t count);
void cli_buffer_print(cli_buffer *buffer, const char *format, ...) NEAP_PRINTF(2, 3);
/* The text so far; never NULL. */
const char *cli_buffer_get(const cli_buffer *buffer);
void cli_buffer_clear(cli_buffer *buffer);

#endif
