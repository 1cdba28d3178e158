/* Commands that the docs show print what the docs say they print. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "run_command.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PROMPT "$ neap "

/* Lines that are different each time. */
static bool is_time(const char *line)
{
    return strncmp(line, "  solved in ", 12) == 0 || strncmp(line, "  \"solve_seconds\":", 18) == 0;
}

/* Compares line by line: what is documented ends at a fence or the next command. */
static void compare(const char *command, const char *documented, const char *printed)
{
    while (strncmp(documented, "```", 3) != 0 && *documented != '$') {
        size_t a = strcspn(documented, "\n"), b = strcspn(printed, "\n");
        if (!(is_time(documented) && is_time(printed)) &&
            (a != b || memcmp(documented, printed, a) != 0))
            fail_msg("neap %s\n  documented: %.*s\n  printed:    %.*s", command, (int)a, documented,
                     (int)b, printed);
        documented += a + 1;
        printed += b + (printed[b] == '\n');
    }
    if (*printed)
        fail_msg("neap %s\n  also prints: %s", command, printed);
}

/* Runs every command of a page in a folder; returns how many there are. */
static int run_page(const char *page, const char *folder)
{
    const run_options options = {.folder = folder};
    char *text = read_text_file(page), *at = text;
    int count = 0;
    assert_non_null(text);
    while ((at = strstr(at, "\n" PROMPT))) {
        char line[512];
        run_result result;
        at += strlen("\n" PROMPT);
        size_t length = strcspn(at, "\n");
        assert_true(length < sizeof line);
        snprintf(line, sizeof line, "%.*s", (int)length, at);
        run_line(NEAP_CLI, line, &options, &result);
        if (result.code != 0 || *result.err)
            fail_msg("neap %s: exit %d, %s", line, result.code, result.err);
        compare(line, at + length + 1, result.out);
        run_result_clear(&result);
        count++;
    }
    free(text);
    return count;
}

static void offloading_examples(void **state)
{
    (void)state;
    int count = run_page(NEAP_SOURCE_DIR "/docs/offloading-examples.md",
                         NEAP_SOURCE_DIR "/examples/offloading");
    assert_int_equal(count, 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(offloading_examples),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
