/*
 * neap/text.h - growing texts; parsing and formatting of sizes and durations; suggestions for
 * misspelt names; atomic file replacement.
 */
#ifndef NEAP_TEXT_H
#define NEAP_TEXT_H

#include <neap/allocator.h>
#include <neap/status.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * A growing text. All zero is an empty text with the system allocator. Errors are sticky: append
 * without checks, and check `status` once at the end.
 *
 *     neap_text line = {0};
 *     neap_text_printf(&line, "%zu steps of ", count);
 *     neap_text_json_string(&line, name);
 *     if (line.status == NEAP_OK)
 *         puts(neap_text_get(&line));
 *     neap_text_clear(&line);
 */
typedef struct neap_text {
    neap_allocator *allocator; /* NULL: the system allocator */
    neap_status status;        /* NEAP_OK or NEAP_NO_MEMORY */
    char *text;                /* NUL-terminated; NULL if nothing was appended yet */
    size_t length, capacity;   /* in bytes; set length to 0 to reuse the memory */
} neap_text;

/* Makes an empty text. `allocator` may be NULL. */
NEAP_API void neap_text_init(neap_text *text, neap_allocator *allocator);
/* Releases the memory. The text is then empty and may be used again. */
NEAP_API void neap_text_clear(neap_text *text);
/* The text so far, or "". Never NULL. */
NEAP_API const char *neap_text_get(const neap_text *text);

NEAP_API void neap_text_append(neap_text *text, const char *bytes, size_t length);
NEAP_API void neap_text_puts(neap_text *text, const char *string);
NEAP_API void neap_text_putc(neap_text *text, char c);
NEAP_API void neap_text_repeat(neap_text *text, char c, size_t count);
NEAP_API void neap_text_printf(neap_text *text, const char *format, ...) NEAP_PRINTF(2, 3);
NEAP_API void neap_text_vprintf(neap_text *text, const char *format, va_list arguments)
    NEAP_PRINTF(2, 0);
NEAP_API void neap_text_i64(neap_text *text, int64_t number);
/* The shortest decimal text that reads back as the same double, with a point in every locale.
 * Finite numbers only. */
NEAP_API void neap_text_double(neap_text *text, double number);
/* Appends a string as JSON, with quotes. Characters that neap_string_clean would replace become
 * \uXXXX, bytes that are not UTF-8 become \ufffd. */
NEAP_API void neap_text_json_string(neap_text *text, const char *string);

/*
 * Transfers the string to the caller, who releases it as *length + 1 bytes, and empties the text.
 * After an earlier error it clears the text and fails.
 */
NEAP_API neap_status neap_text_take(neap_text *text, char **string, size_t *length,
                                    neap_diag *diag);

/*
 * Makes an untrusted string safe to print on a terminal or in a page, in place; returns its new
 * length. A '?' replaces each character that could change how the text around it appears: control
 * characters (C0, DEL and C1), line and paragraph separators, marks of the writing direction and
 * zero-width characters (including the byte-order mark). It also replaces each byte that is not
 * UTF-8. A character truncated by the end of the string is dropped.
 */
NEAP_API size_t neap_string_clean(char *string);

/* The number of code points in `length` bytes of UTF-8. A wide East Asian character counts as one,
 * and so does a byte that is not UTF-8. */
NEAP_API size_t neap_string_characters(const char *string, size_t length);

/*
 * Parses a number of bytes: "8GiB", "1.5 MB", "5e9", "1024", "300k". KiB, MiB, GiB and TiB are
 * powers of 1024; kB, MB, GB, TB and k, M, G, T are powers of 1000. Case does not matter, and a
 * fraction of a byte is dropped. NEAP_INVALID for other text, a negative size, or one over 2^63 -
 * 1.
 */
NEAP_API neap_status neap_bytes_parse(const char *text, int64_t *bytes, neap_diag *diag);

/*
 * Formats a number of bytes with three significant digits and a binary unit: "0 B",
 * "512 B", "1.50 MiB", "10.4 GiB". Returns `buffer`.
 */
NEAP_API char *neap_bytes_format(int64_t bytes, char *buffer, size_t capacity);

/*
 * Formats a duration: "0 s", "12.3 us", "4.56 ms", "1.23 s", "2 h 05 min".
 * Returns `buffer`.
 */
NEAP_API char *neap_seconds_format(double seconds, char *buffer, size_t capacity);

/*
 * Suggests a name for a misspelt one: begin with the wrong name, offer every known name, then read
 * `best`. It is the name with the smallest edit distance, the first one of equals. Names that
 * differ too much are not suggested. An abbreviation has a distance of 1.
 */
typedef struct neap_suggestion {
    const char *wrong;
    const char *best; /* NULL if no name is similar enough so far */
    unsigned distance;
} neap_suggestion;

NEAP_API void neap_suggestion_begin(neap_suggestion *suggestion, const char *wrong);
NEAP_API void neap_suggestion_offer(neap_suggestion *suggestion, const char *candidate);

/*
 * Writes a file atomically. An existing file is replaced in one step and keeps its permissions; on
 * failure it is unchanged. If the path is a symbolic link, its target is replaced. A device or pipe
 * (/dev/null) is written to directly; "-" is standard output.
 */
NEAP_API neap_status neap_file_replace(const char *path, const char *text, size_t length,
                                       neap_diag *diag);

#ifdef __cplusplus
}
#endif
#endif
