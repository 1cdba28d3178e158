/* The programs of examples/ do what they say, and are as short as promised. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "run_command.h"

#include <stdlib.h>
#include <string.h>

/* The number behind the last occurrence of a word. */
static double last_number(const char *text, const char *word)
{
    const char *found = NULL;
    for (const char *at = text; (at = strstr(at, word)) != NULL; at++)
        found = at;
    assert_non_null(found);
    return strtod(found + strlen(word), NULL);
}

static void training_example_learns(void **state)
{
    run_result result;
    (void)state;
    run_line(NEAP_BINARY_DIR "/examples/train", "", NULL, &result);
    assert_string_equal(result.err, "");
    assert_int_equal(result.code, 0);
    assert_non_null(strstr(result.out, "step 20 "));
    double first = strtod(strstr(result.out, "loss ") + 5, NULL);
    assert_true(last_number(result.out, "loss ") < first);
    run_result_clear(&result);
}

static void training_example_is_below_60_lines(void **state)
{
    char *text = read_text_file(NEAP_SOURCE_DIR "/examples/train.c");
    int lines = 0;
    (void)state;
    assert_non_null(text);
    for (const char *at = text; *at; at++)
        lines += *at == '\n';
    assert_in_range(lines, 1, 59);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(training_example_learns),
        cmocka_unit_test(training_example_is_below_60_lines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
