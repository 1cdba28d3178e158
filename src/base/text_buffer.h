/* A growing text. Errors are sticky: append freely, look at `status` once at the end. */
#ifndef NEAP_BASE_TEXT_BUFFER_H
#define NEAP_BASE_TEXT_BUFFER_H

#include <neap/allocator.h>
#include <neap/status.h>
#include <stdint.h>

typedef struct neap_text {
    neap_allocator *allocator;
    neap_status status; /* NEAP_OK or NEAP_NO_MEMORY */
    char *text;         /* NUL-terminated once anything was appended */
    size_t length, capacity;
} neap_text;

void neap_text_init(neap_text *buffer, neap_allocator *allocator);
void neap_text_clear(neap_text *buffer);

void neap_text_append(neap_text *buffer, const char *text, size_t length);
void neap_text_puts(neap_text *buffer, const char *text);
void neap_text_putc(neap_text *buffer, char c);
void neap_text_printf(neap_text *buffer, const char *format, ...) NEAP_PRINTF(2, 3);
void neap_text_i64(neap_text *buffer, int64_t number);
/* The shortest decimal text that reads back as the same double, in any locale. Finite numbers only.
 */
void neap_text_double(neap_text *buffer, double number);
/* A JSON string with its quotes. */
void neap_text_json_string(neap_text *buffer, const char *text);

/*
 * Hands the text over, exactly length + 1 bytes of the allocator, and empties the buffer; or, after
 * an error, fails and clears it.
 */
neap_status neap_text_take(neap_text *buffer, char **text, size_t *length, neap_diag *diag);

#endif
