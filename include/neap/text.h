/*
 * neap/text.h - text that grows; sizes, durations and names as people write and read them; files
 * written whole.
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
 * A text that grows. All zero is an empty text of the system's allocator. Running out of memory is
 * sticky: append freely, look at `status` once at the end.
 *
 *     neap_text line = {0};
 *     neap_text_printf(&line, "%zu steps of ", count);
 *     neap_text_json_string(&line, name);
 *     if (line.status == NEAP_OK)
 *         puts(neap_text_get(&line));
 *     neap_text_clear(&line);
 */
typedef struct neap_text {
    neap_allocator *allocator; /* NULL: the system's */
    neap_status status;        /* NEAP_OK or NEAP_NO_MEMORY */
    char *text;                /* NUL-terminated; NULL while nothing was appended */
    size_t length, capacity;   /* in bytes; a length of 0 begins again in the same memory */
} neap_text;

/* An empty text of an allocator, which may be NULL. */
NEAP_API void neap_text_init(neap_text *text, neap_allocator *allocator);
/* Releases the text, which is empty then and may be used again. */
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
/* A string as JSON, with its quotes. What neap_string_clean would replace is written \uXXXX, bytes
 * that are not UTF-8 as \ufffd. */
NEAP_API void neap_text_json_string(neap_text *text, const char *string);

/*
 * Hands the text over, exactly *length + 1 bytes of its allocator for neap_release, and empties it;
 * or, after an error, fails and clears it.
 */
NEAP_API neap_status neap_text_take(neap_text *text, char **string, size_t *length,
                                    neap_diag *diag);

/*
 * Makes a string from a file safe to print on a terminal or in a page, in place; returns its new
 * length. A '?' replaces each character that could change how the text around it appears: control
 * characters (C0, DEL and C1), line and paragraph separators, marks of the writing direction and
 * characters without width (also a byte-order mark). It also replaces each byte that is not UTF-8;
 * a character cut off by the end of the string is dropped.
 */
NEAP_API size_t neap_string_clean(char *string);

/* The characters in `length` bytes of UTF-8: code points, so that a wide East Asian one counts as
 * one. A byte that is not UTF-8 counts as one. */
NEAP_API size_t neap_string_characters(const char *string, size_t length);

/*
 * Reads a number of bytes: "8GiB", "1.5 MB", "5e9", "1024", "300k". KiB, MiB, GiB and TiB are
 * powers of 1024; kB, MB, GB, TB and k, M, G, T are powers of 1000. Case does not matter, and a
 * fraction of a byte is dropped. NEAP_INVALID for other text, a negative size, one past 2^63 - 1.
 */
NEAP_API neap_status neap_bytes_parse(const char *text, int64_t *bytes, neap_diag *diag);

/*
 * Writes a number of bytes for a person, with three significant digits and a binary unit: "0 B",
 * "512 B", "1.50 MiB", "10.4 GiB". Returns `buffer`.
 */
NEAP_API char *neap_bytes_format(int64_t bytes, char *buffer, size_t capacity);

/*
 * Writes a duration for a person: "0 s", "12.3 us", "4.56 ms", "1.23 s", "2 h 05 min".
 * Returns `buffer`.
 */
NEAP_API char *neap_seconds_format(double seconds, char *buffer, size_t capacity);

/*
 * The name that was probably meant: begin with the wrong name, offer every name there is, read
 * `best`. It is the name with the smallest edit distance, the earlier of two with the same; a name
 * that is too different is never suggested. An abbreviation counts as a distance of 1.
 */
typedef struct neap_suggestion {
    const char *wrong;
    const char *best; /* NULL while no name was near enough */
    unsigned distance;
} neap_suggestion;

NEAP_API void neap_suggestion_begin(neap_suggestion *suggestion, const char *wrong);
NEAP_API void neap_suggestion_offer(neap_suggestion *suggestion, const char *candidate);

/*
 * Writes a file whole or not at all. An old file is replaced in one step and keeps its permissions;
 * on failure it stays as it was. Of a link, the file it points to is replaced. A device or pipe
 * (/dev/null) is written to directly; "-" is standard output.
 */
NEAP_API neap_status neap_file_replace(const char *path, const char *text, size_t length,
                                       neap_diag *diag);

#ifdef __cplusplus
}
#endif
#endif
