/* No line is wider than 80 columns: help, tables, charts, training, and progress on a terminal. */

#include "run_command.h"
#include "settings.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COLUMNS = 80 };

static const char DATA[] = NEAP_SOURCE_DIR "/tests/cli/data";
static const char NO_GPU[] = "NEAP_CUDA_PATH=none"; /* paths of libraries have any width */

/* Columns that a line takes on a terminal: characters of UTF-8, without escape sequences. */
static size_t width_of(const char *line, size_t length)
{
    size_t width = 0;
    for (size_t i = 0; i < length; i++) {
        if (line[i] == '\033' && i + 1 < length && line[i + 1] == '[') {
            i += 2 + strspn(line + i + 2, "0123456789;"); /* up to its letter */
            continue;
        }
        width += ((unsigned char)line[i] & 0xc0) != 0x80;
    }
    return width;
}

static void expect_narrow(const char *command, const char *text)
{
    for (const char *line = text; *line;) {
        size_t length = strcspn(line, "\r\n");
        if (width_of(line, length) > COLUMNS)
            fail_msg("neap %s: %zu columns: %.*s", command, width_of(line, length), (int)length,
                     line);
        line += length + (line[length] != '\0');
    }
}

static void expect_narrow_output(const char *line, const run_options *options)
{
    run_result result;
    run_line(NEAP_CLI, line, options, &result);
    if (result.code != 0)
        fail_msg("neap %s: exit %d: %s", line, result.code, result.err);
    expect_narrow(line, result.out);
    run_result_clear(&result);
}

static void without_a_terminal(void **state)
{
    static const char *const LINES[] = {
        "help",
        "help plan",
        "help train",
        "help profile",
        "help compare",
        "help curve",
        "help max-batch",
        "help check",
        "help graph",
        "help models",
        "help methods",
        "help devices",
        "models",
        "models gpt2",
        "models lstm",
        "methods",
        "methods neap",
        "methods rotor",
        "methods autoswap",
        "methods checkmate",
        "devices",
        "devices h200",
        "graph mobilenet_v2",
        "check tiny.json tiny.plan.json",
        "plan resnet18 --budget 90% --method greedy --chart",
        "plan resnet18 --budget 90% --method offload-greedy --link device --chart",
        "compare mobilenet_v2 --method store-all,hong-quadratic,sqrt,linear-greedy --budget 75%",
        "compare resnet18 --method store-all,greedy,offload-greedy --link device --budget 85%",
        "compare chain --method hong-quadratic,greedy,precise",
        "curve resnet18 --method store-all,hong-quadratic,greedy --points 17",
        "curve resnet18 --method store-all,hong-quadratic,hong,sqrt,ap-sqrt,greedy --points 5 "
        "--chart",
        "compare mobilenet_v2 --method store-all,hong-quadratic,sqrt --budget 75% --chart",
        "max-batch vgg16 --budget 16GB --method store-all,hong-quadratic,greedy",
        "profile resnet18 --image 64 --batch 2 --backend null --profile-cache none",
        "train resnet18 --image 64 --batch 2 --backend null --profile-cache none --steps 1000",
        ("train resnet18 --image 64 --batch 2 --backend null --profile-cache none --budget 99% "
         "--method store-all,neap --steps 3"),
        "train lstm --seq 8 --batch 2 --backend null --profile-cache none --steps 1 --verify",
    };
    const run_options options = {.folder = DATA, .environment = NO_GPU};
    (void)state;
    for (size_t i = 0; i < sizeof LINES / sizeof LINES[0]; i += ONE_IN(3))
        expect_narrow_output(LINES[i], &options);
}

/* The same on a terminal of that width, where tables may use all of it. */
static void on_a_terminal(void **state)
{
    static const char *const LINES[] = {
        "help train",
        "models",
        "methods",
        "devices",
        "compare resnet18 --method store-all,hong-quadratic,greedy --budget 90%",
        "max-batch vgg16 --budget 16GB --method store-all,hong-quadratic,greedy",
        "plan resnet18 --budget 90% --method greedy --chart",
        "curve resnet18 --method store-all,hong-quadratic,greedy --points 5 --chart",
        "compare resnet18 --method store-all,hong-quadratic,greedy --budget 90% --chart"};
    const run_options options = {.terminal = true, .columns = COLUMNS, .environment = NO_GPU};
    (void)state;
    for (size_t i = 0; i < sizeof LINES / sizeof LINES[0]; i += ONE_IN(3))
        expect_narrow_output(LINES[i], &options);
}

/* A wide terminal has room for what a narrow one leaves out. */
static void wide_terminals_show_every_column(void **state)
{
    static const char LINE[] = "compare chain --method store-all,greedy";
    const run_options wide = {.terminal = true, .columns = 110, .environment = "NO_COLOR=1"};
    run_result narrow, result;
    (void)state;
    run_line(NEAP_CLI, LINE, NULL, &narrow);
    run_line(NEAP_CLI, LINE, &wide, &result);
    assert_null(strstr(narrow.out, "recomputed"));
    assert_non_null(strstr(result.out, "recomputed"));
    run_result_clear(&narrow);
    run_result_clear(&result);
}

/* The line says which method, what it is doing, and for how long. */
static void progress(void **state)
{
    static const char LINE[] = "plan densenet201 --method neap --budget 40% --time-limit 3s";
    const run_options options = {.terminal = true, .columns = COLUMNS, .errors = true};
    run_result result;
    (void)state;
    run_line(NEAP_CLI, LINE, &options, &result);
    expect_narrow(LINE, result.out);
    assert_non_null(strstr(result.out, "\rneap: planning  "));
    assert_null(strstr(result.out, "neap: neap"));
    run_result_clear(&result);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_a_terminal),
        cmocka_unit_test(on_a_terminal),
        cmocka_unit_test(wide_terminals_show_every_column),
        cmocka_unit_test(progress),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
