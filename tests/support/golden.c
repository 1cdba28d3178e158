#include "golden.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void append(transcript *t, const char *text, size_t length)
{
    t->text = realloc(t->text, t->length + length + 1);
    assert_non_null(t->text);
    memcpy(t->text + t->length, text, length);
    t->length += length;
    t->text[t->length] = '\0';
}

static void append_text(transcript *t, const char *text)
{
    append(t, text, strlen(text));
}

/* Appends text with the rest of the line after `mark` replaced by "#", and a comma kept. */
static void append_masked(transcript *t, const char *text, const char *const *marks)
{
    while (*text) {
        size_t line = strcspn(text, "\n");
        size_t kept = line;
        for (const char *const *mark = marks; *mark; mark++) {
            const char *found = strstr(text, *mark);
            if (found && (size_t)(found - text) < line)
                kept = (size_t)(found - text) + strlen(*mark);
        }
        append(t, text, kept);
        if (kept < line)
            append_text(t, text[line - 1] == ',' ? " #," : " #");
        text += line;
        if (*text == '\n') {
            append(t, text, 1);
            text++;
        }
    }
}

void transcript_run(transcript *t, const char *program, const char *line,
                    const run_options *options)
{
    static const char *const MARKS[] = {"\"solve_seconds\":", "solved in ", NULL};
    run_result result;
    run_line(program, line, options, &result);
    append_text(t, t->length ? "\n$ neap " : "$ neap ");
    append_text(t, line);
    append_text(t, "\n");
    append_masked(t, result.out, MARKS);
    append_text(t, result.err);
    if (result.code != 0) {
        char status[32];
        snprintf(status, sizeof status, "[exit %d]\n", result.code);
        append_text(t, status);
    }
    run_result_clear(&result);
}

/* Prints the first line that differs. */
static void show_difference(const char *expected, const char *got, const char *path)
{
    int line = 1;
    while (*expected && *got) {
        size_t a = strcspn(expected, "\n"), b = strcspn(got, "\n");
        if (a != b || memcmp(expected, got, a) != 0)
            break;
        expected += a + (expected[a] == '\n');
        got += b + (got[b] == '\n');
        line++;
    }
    print_error("%s:%d\n  expected: %.*s\n  got:      %.*s\n", path, line,
                (int)strcspn(expected, "\n"), expected, (int)strcspn(got, "\n"), got);
}

void transcript_check(transcript *t, const char *path)
{
    const char *update = getenv("NEAP_UPDATE_GOLDEN");
    if (update && strcmp(update, "1") == 0)
        write_text_file(path, t->text);
    char *expected = read_text_file(path);
    if (!expected)
        fail_msg("%s is missing; NEAP_UPDATE_GOLDEN=1 writes it", path);
    bool same = strcmp(expected, t->text) == 0;
    if (!same)
        show_difference(expected, t->text, path);
    free(expected);
    free(t->text);
    *t = (transcript){0};
    if (!same)
        fail_msg("the output has changed; NEAP_UPDATE_GOLDEN=1 accepts it");
}
