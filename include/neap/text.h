/*
 * neap/text.h - sizes, durations and names as people write and read them; files written whole.
 */
#ifndef NEAP_TEXT_H
#define NEAP_TEXT_H

#include <neap/status.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Reads a number of bytes: "8GiB", "1.5 MB", "5e9", "1024", "300k". KiB, MiB, GiB, TiB are powers
 * of 1024; kB, MB, GB, TB and k, M, G, T powers of 1000; case does not matter. A fraction of a byte
 * is dropped. NEAP_INVALID for anything else, for negative sizes and for those past 2^63-1.
 */
NEAP_API neap_status neap_bytes_parse(const char *text, int64_t *bytes, neap_diag *diag);

/*
 * Writes `bytes` for a person: "0 B", "512 B", "1.50 MiB", "10.4 GiB". At most three significant
 * digits after which comes a binary unit. Returns `buffer`.
 */
NEAP_API char *neap_bytes_format(int64_t bytes, char *buffer, size_t capacity);

/* Writes a duration for a person: "0 s", "12.3 us", "4.56 ms", "1.23 s", "2 h 05 min". Returns
 * `buffer`. */
NEAP_API char *neap_seconds_format(double seconds, char *buffer, size_t capacity);

/*
 * The name that was probably meant: set `wrong`, offer the names there are, read `best`. The
 * nearest wins, the earlier of two equally near; a name that is too different never does, an
 * abbreviation always.
 */
typedef struct neap_suggestion {
    const char *wrong;
    const char *best; /* NULL while nothing was near enough */
    unsigned distance;
} neap_suggestion;

NEAP_API void neap_suggestion_begin(neap_suggestion *suggestion, const char *wrong);
NEAP_API void neap_suggestion_offer(neap_suggestion *suggestion, const char *candidate);

/*
 * Writes a file whole or not at all: an old one is replaced in one step (what a link points to, not
 * the link), keeps its permissions, and stays as it was on failure. What is no ordinary file
 * (/dev/null, a pipe) is written to; "-" is standard output.
 */
NEAP_API neap_status neap_file_replace(const char *path, const char *text, size_t length,
                                       neap_diag *diag);

#ifdef __cplusplus
}
#endif
#endif
