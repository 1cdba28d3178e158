/* Constraints other than a budget, and the log of a search. */

#include "run_command.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#include <neap/planner.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHAIN "chain --set layers=8 --device unit "

static const run_options IN_DATA = {.folder = NEAP_SOURCE_DIR "/tests/cli/data"};

/* A method that takes constraints, or NULL. */
static const char *willing(void)
{
    for (uint32_t i = 0; i < neap_methods_count(); i++)
        if (neap_method_takes_constraints(neap_methods_at(i)))
            return neap_method_name(neap_methods_at(i));
    return NULL;
}

static void expect_parts(const char *text, const char *const *parts, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!strstr(text, parts[i]))
            fail_msg("no \"%s\" in\n%s", parts[i], text);
}

/* ---- Wishes ---- */

static const char *const WISHES[] = {"--objective peak", "--keep f1", "--never-recompute f*",
                                     "--never-offload f?"};
enum { N_WISHES = sizeof WISHES / sizeof WISHES[0] };

/* One line that names the option, and who would take it if anyone does. */
static void others_refuse_them(void **state)
{
    (void)state;
    static const char *const COMMANDS[] = {"plan " CHAIN "--budget 8 --method sqrt ",
                                           "compare " CHAIN "--budget 8 --method sqrt ",
                                           "curve " CHAIN "--budgets 8 --method sqrt "};
    for (size_t c = 0; c < sizeof COMMANDS / sizeof COMMANDS[0]; c++)
        for (size_t w = c == 2; w < N_WISHES; w++) { /* a curve has no objective */
            char line[256], expected[128];
            run_result result;
            snprintf(line, sizeof line, "%s%s", COMMANDS[c], WISHES[w]);
            run_line(NEAP_CLI, line, NULL, &result);
            int length = (int)strcspn(WISHES[w], w == 0 ? "" : " ");
            snprintf(expected, sizeof expected, "neap: sqrt takes no %.*s%s%s%s\n", length,
                     WISHES[w], willing() ? "; " : "", willing() ? willing() : "",
                     willing() ? " does" : ", nor does any other method here");
            assert_int_equal(result.code, 2);
            assert_string_equal(result.err, expected);
            assert_string_equal(result.out, "");
            run_result_clear(&result);
        }
}

static void constraints_are_honoured(void **state)
{
    (void)state;
    assert_non_null(willing());
    for (size_t w = 0; w < N_WISHES; w++) {
        char line[256];
        run_result result;
        snprintf(line, sizeof line, "plan " CHAIN "%s --gap 1%% --json", WISHES[w]);
        run_line(NEAP_CLI, line, NULL, &result);
        if (result.code != 0)
            fail_msg("neap %s: %s", line, result.err);
        assert_true((strstr(result.out, "\"floor_bytes\": 3,") != NULL) == (w == 0));
        run_result_clear(&result);
    }
}

static void a_start_is_taken(void **state)
{
    (void)state;
    assert_non_null(willing());
    char *folder = make_temporary_folder();
    const run_options options = {.folder = folder};
    run_result result;
    run_line(NEAP_CLI, "plan " CHAIN "--budget 7 --method pareto -o start.json", &options, &result);
    assert_int_equal(result.code, 0);
    run_result_clear(&result);
    static const char *const LINES[] = {
        "plan " CHAIN "--budget 7 --start start.json",
        "plan " CHAIN "--budget 6 --start start.json",
        "compare " CHAIN "--budget 7 --start start.json",
        "curve " CHAIN "--budgets 6,7,8 --start start.json",
    };
    for (size_t i = 0; i < sizeof LINES / sizeof LINES[0]; i++) {
        run_line(NEAP_CLI, LINES[i], &options, &result);
        if (result.code != 0)
            fail_msg("neap %s: %s", LINES[i], result.err);
        run_result_clear(&result);
    }
    remove_temporary_folder(folder);
}

/* ---- The largest batch ---- */

static void the_batch_is_that_of_max_batch(void **state)
{
    (void)state;
    char *folder = make_temporary_folder();
    const run_options options = {.folder = folder};
    run_result result;
    run_line(NEAP_CLI, "max-batch resnet18 --image 64 --budget 300MB --method greedy --json",
             &options, &result);
    assert_int_equal(result.code, 0);
    const char *found = strstr(result.out, "\"batch\": ");
    assert_non_null(found);
    int batch = atoi(found + strlen("\"batch\": "));
    run_result_clear(&result);
    run_line(NEAP_CLI,
             "plan resnet18 --image 64 --budget 300MB --method greedy --objective batch "
             "-o plan.json",
             &options, &result);
    assert_int_equal(result.code, 0);
    char text[128];
    snprintf(text, sizeof text, "\n  batch       %d ", batch);
    const char *const parts[] = {text};
    expect_parts(result.out, parts, 1);
    run_result_clear(&result);
    snprintf(text, sizeof text, "check resnet18 plan.json --image 64 --batch %d --budget 300MB",
             batch);
    run_line(NEAP_CLI, text, &options, &result);
    assert_int_equal(result.code, 0);
    run_result_clear(&result);
    remove_temporary_folder(folder);
}

/* ---- The log ---- */

static const char HEAD[] = "   seconds    best time  overhead        bound      gap\n";

/* What was found in the end is a line, however quick the search; nothing goes to stdout. */
static void a_log_ends_with_the_result(void **state)
{
    (void)state;
    run_result plain, logged;
    run_line(NEAP_CLI, "plan " CHAIN "--method sqrt --budget 80% -o -", NULL, &plain);
    run_line(NEAP_CLI, "plan " CHAIN "--method sqrt --budget 80% -o - --log", NULL, &logged);
    assert_int_equal(logged.code, 0);
    assert_string_equal(plain.err, "");
    assert_string_equal(plain.out, logged.out);
    assert_memory_equal(logged.err, HEAD, strlen(HEAD));
    static const char LAST[] = "      21.00 s     23.5%      17.00 s    23.5%\n";
    assert_string_equal(logged.err + strlen(logged.err) - strlen(LAST), LAST);
    run_result_clear(&plain);
    run_result_clear(&logged);
}

static void a_log_says_what_its_lines_are_about(void **state)
{
    (void)state;
    run_result result;
    run_line(NEAP_CLI, "compare " CHAIN "--method store-all,sqrt --budget 8 --log", NULL, &result);
    static const char *const COMPARED[] = {HEAD, "\n[1/2] store-all\n", "\n[2/2] sqrt\n",
                                           "            -         -      17.00 s        -\n"};
    expect_parts(result.err, COMPARED, 4);
    assert_null(strstr(result.err + 1, HEAD)); /* once */
    run_result_clear(&result);

    run_line(NEAP_CLI, "curve " CHAIN "--method sqrt --budgets 8,6 --log", NULL, &result);
    static const char *const CURVE[] = {HEAD, "\nbudget 6 B\n", "\nbudget 8 B\n"};
    expect_parts(result.err, CURVE, 3);
    run_result_clear(&result);

    run_line(NEAP_CLI, "max-batch tiny.json --batch-of 2 --budget 5KiB --method store-all --log",
             &IN_DATA, &result);
    static const char *const BATCHES[] = {HEAD, "\nbatch 5\n"};
    expect_parts(result.err, BATCHES, 2);
    run_result_clear(&result);
}

/* ---- In place, and where state is ---- */

typedef struct expectation {
    const char *line;
    int code;
    const char *part; /* of what it prints */
} expectation;

static void in_place_and_state(void **state)
{
    (void)state;
    static const expectation CASES[] = {
        {"plan resnet18 --image 64 --batch 64 --budget 182MiB --method store-all", 0,
         "\n  activations "},
        {"plan resnet18 --image 64 --batch 64 --budget 182MiB --method store-all --in-place no", 3,
         "below the least that store-all found, "},
        {"plan alexnet --image 64 --budget 1MiB", 3,
         "; with --optimizer, gradients need not stay to the end"},
        {"plan resnet18 --image 64 --batch 256 --budget 40MiB --in-place no", 3,
         "; with --in-place yes, "},
        {"plan alexnet --image 64 --optimizer adam --budget 1MiB", 3,
         ", which the parameters and state (699 MiB) and op "},
        {"plan alexnet --image 64 --optimizer adam --budget 1MiB", 3,
         "; with --link, state can be on the host, and "},
        {"plan alexnet --image 64 --optimizer adam --budget 1MiB --link 9GB/s --state device", 3,
         "; with --state auto, state can be on the host, and "},
        {"plan alexnet --optimizer sgd --budget 50% --state host", 2,
         "--state host needs --link, such as --link 12.2GB/s"},
        {"plan alexnet --optimizer sgd --budget 50% --link 9GB/s --state host --method sqrt", 2,
         "sqrt takes no --state host; neap does"},
        {"plan alexnet --budget 50% --state disk", 2,
         "--state \"disk\" is not one of auto, device, host"},
        {"plan alexnet --budget 50% --in-place maybe", 2,
         "--in-place \"maybe\" is not one of yes, no"},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        run_result result;
        run_line(NEAP_CLI, CASES[i].line, NULL, &result);
        if (result.code != CASES[i].code)
            fail_msg("%s: exit %d\n%s", CASES[i].line, result.code, result.err);
        expect_parts(result.code == 0 ? result.out : result.err, &CASES[i].part, 1);
        run_result_clear(&result);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(others_refuse_them),
        cmocka_unit_test(constraints_are_honoured),
        cmocka_unit_test(a_start_is_taken),
        cmocka_unit_test(the_batch_is_that_of_max_batch),
        cmocka_unit_test(a_log_ends_with_the_result),
        cmocka_unit_test(a_log_says_what_its_lines_are_about),
        cmocka_unit_test(in_place_and_state),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
