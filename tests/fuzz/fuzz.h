/*
 * fuzz.h - what the fuzz targets share.
 *
 * A target is one file with LLVMFuzzerTestOneInput. `make fuzz` builds all of them with clang and
 * libFuzzer, and runs each for FUZZ_SECONDS seconds, starting from its corpus.
 *
 * test_replay.c includes the same files and runs them over the corpus as ordinary tests; it defines
 * FUZZ_CHECK as a cmocka assertion first.
 */
#ifndef NEAP_FUZZ_H
#define NEAP_FUZZ_H

#include <neap/neap.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef FUZZ_CHECK
#define FUZZ_CHECK(condition)                                                                      \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                        \
            abort();                                                                               \
        }                                                                                          \
    } while (0)
#endif

/* Length of the well-formed UTF-8 sequence at s (Unicode, table 3-7), or 0. Apart from the decoder
 * in src/base, which it checks. */
static inline size_t fuzz_utf8_length(const char *s)
{
    const unsigned char *c = (const unsigned char *)s;
    size_t length = c[0] < 0x80 ? 1 : c[0] < 0xc2 ? 0 : c[0] < 0xe0 ? 2 : c[0] < 0xf0 ? 3 : 4;
    if (c[0] > 0xf4 || (c[0] == 0xe0 && c[1] < 0xa0) || (c[0] == 0xed && c[1] > 0x9f) ||
        (c[0] == 0xf0 && c[1] < 0x90) || (c[0] == 0xf4 && c[1] > 0x8f))
        return 0;
    for (size_t i = 1; i < length; i++)
        if ((c[i] & 0xc0) != 0x80)
            return 0;
    return length;
}

/* A line for a person: not empty, UTF-8, no control characters. */
static inline void fuzz_check_line(const char *text)
{
    FUZZ_CHECK(*text != '\0');
    while (*text) {
        size_t length = fuzz_utf8_length(text);
        FUZZ_CHECK(length > 0);
        FUZZ_CHECK((unsigned char)*text >= 0x20 && *text != 0x7f);
        FUZZ_CHECK((unsigned char)text[0] != 0xc2 || (unsigned char)text[1] >= 0xa0);
        text += length;
    }
}

/* What a reader says of a file it does not take. */
static inline void fuzz_check_refusal(neap_status status, const neap_diag *diag, const char *source)
{
    FUZZ_CHECK(status == NEAP_INVALID);
    FUZZ_CHECK(diag->status == status);
    fuzz_check_line(diag->message);
    FUZZ_CHECK(strncmp(diag->message, source, strlen(source)) == 0);
}

#endif
