/* The programs of examples/ do what they say, and are as short as promised. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "run_command.h"

#include <stdlib.h>
#include <string.h>

/* The sum of the printed losses of the given number of steps, from a first one on. */
static double add_losses(const char *text, int first, int count)
{
    double sum = 0;
    for (int i = 1; i < first + count; i++) {
        text = strstr(text, "loss ");
        assert_non_null(text);
        text += 5;
        if (i >= first)
            sum += strtod(text, NULL);
    }
    return sum;
}

static void training_example_learns(void **state)
{
    run_result result;
    (void)state;
    run_line(NEAP_BINARY_DIR "/examples/train", "", NULL, &result);
    assert_string_equal(result.err, "");
    assert_int_equal(result.code, 0);
    assert_non_null(strstr(result.out, "step 20 "));
    assert_true(add_losses(result.out, 16, 5) < add_losses(result.out, 1, 5));
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
