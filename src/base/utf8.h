/* UTF-8 (RFC 3629): the one decoder, and which characters are shown as they are. */
#ifndef NEAP_BASE_UTF8_H
#define NEAP_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The length of the character at `at`, of which `left` bytes may be read; 0 where it is not valid.
 * *code gets its code point. */
size_t neap_utf8_decode(const char *at, size_t left, uint32_t *code);

/*
 * A character of a NUL-terminated string. `shown` is the character itself; or "?" where it is not
 * valid UTF-8, or neap/text.h says that it is not to be shown.
 */
typedef struct neap_character {
    const char *shown;
    size_t shown_length;
    size_t length; /* in the string; 0 at its end */
    uint32_t code; /* U+FFFD for a byte that is not UTF-8 */
} neap_character;

neap_character neap_utf8_next(const char *at);

bool neap_utf8_is_valid(const char *string);

/* How many of the first `most` bytes of a string are whole characters. */
size_t neap_utf8_clip(const char *string, size_t most);

#endif
