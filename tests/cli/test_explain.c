/* neap explain: its words, and whether what it says is true. */

#include "golden.h"
#include "json_fields.h"
#include "run_command.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GOLDEN(name) NEAP_SOURCE_DIR "/tests/cli/golden/" name ".txt"
/* Eight layers of one byte and one second each: small enough to follow by hand. */
#define CHAIN "chain --set layers=8 --device unit"
#define SMALL "resnet18 --image 128 --batch 16"

static const run_options IN_DATA = {.folder = NEAP_SOURCE_DIR "/tests/cli/data"};

static void words(void **state)
{
    (void)state;
    static const char *const LINES[] = {
        "explain " CHAIN " --time-limit none",
        "explain " CHAIN " --time-limit none --budget 5",
        "explain " CHAIN " --time-limit none --budget 5 --json",
        "explain " CHAIN " --time-limit none --budget 100%",
        "explain " CHAIN " --time-limit none --budget 2",
        "explain " CHAIN " --time-limit none --budget 8 --method sqrt",
        "explain tiny.json --time-limit none --budget 4300",
        "explain tiny.json --time-limit none --budget 4300 --json",
        "explain hostile_name.json --budget 16",
        "explain hostile_name.json --json",
        "explain " CHAIN " --method sqrt,neap",
        "explain " CHAIN " --keep a1",
        "explain " CHAIN " --budget 0",
    };
    transcript t = {0};
    for (size_t i = 0; i < sizeof LINES / sizeof LINES[0]; i++)
        transcript_run(&t, NEAP_CLI, LINES[i], &IN_DATA);
    transcript_check(&t, GOLDEN("explain"));
}

/* ---- What it says is true ---- */

/* Plans the small network with more options; the exit status. */
static int plan_small(const char *options, double *overhead)
{
    char line[256];
    run_result result;
    snprintf(line, sizeof line, "plan " SMALL " --time-limit 2s --json %s", options);
    run_line(NEAP_CLI, line, NULL, &result);
    int code = result.code;
    if (code == 0)
        *overhead = json_number(result.out, "overhead");
    run_result_clear(&result);
    return code;
}

/* Each option that helps is typed as it stands there, and costs what was said or, with a better
   plan, less. */
static void every_advice_works(void **state)
{
    (void)state;
    run_result result;
    run_line(NEAP_CLI, "explain " SMALL " --budget 103MB --time-limit 8s --json", NULL, &result);
    assert_int_equal(result.code, 0);
    assert_string_equal(result.err, "");
    const char *at = strstr(result.out, "\"changes\": [");
    int helping = 0, batches = 0;
    assert_non_null(at);
    while ((at = strstr(at, "\"option\": \""))) {
        char option[64], line[128];
        double overhead = 0, said;
        at += strlen("\"option\": \"");
        snprintf(option, sizeof option, "%.*s", (int)strcspn(at, "\""), at);
        if (!strstr(at, "\"helps\": true") ||
            strstr(at, "\"helps\": true") > strstr(at, "\"overhead\""))
            continue;
        said = json_number(at, "overhead");
        snprintf(line, sizeof line, "%s --budget 103MB", option);
        assert_int_equal(plan_small(line, &overhead), 0);
        if (overhead > said + 0.02)
            fail_msg("%s: said %g, costs %g", option, said, overhead);
        helping++;
        if (strncmp(option, "--batch ", 8) == 0) {
            batches++;
            assert_true(said < 0.05);
        }
    }
    assert_true(helping >= 2);
    assert_true(batches >= 1);
    run_result_clear(&result);
}

/* The points of the curve fall, and the knee is one of them. */
static void the_curve_falls(void **state)
{
    (void)state;
    run_result result;
    run_line(NEAP_CLI, "explain " SMALL " --time-limit 4s --json", NULL, &result);
    assert_int_equal(result.code, 0);
    double last = 1e300;
    int count = 0;
    const char *at = strstr(result.out, "\"curve\": ["), *end = strstr(result.out, "\"knee\": ");
    assert_non_null(at);
    assert_non_null(end);
    while ((at = strstr(at, "\"overhead\": ")) && at < end) {
        at += strlen("\"overhead\": ");
        if (strncmp(at, "null", 4) == 0)
            continue;
        double overhead = strtod(at, NULL);
        assert_true(overhead <= last);
        last = overhead;
        count++;
    }
    assert_true(count >= 3);
    char *budget = json_field(end, "budget_bytes");
    char line[64];
    snprintf(line, sizeof line, "\"budget_bytes\": %s,", budget);
    assert_true(strstr(strstr(result.out, "\"curve\": ["), line) < end);
    free(budget);
    run_result_clear(&result);
}

/* The budget that it names for an infeasible one works. */
static void an_infeasible_budget_gets_a_remedy(void **state)
{
    (void)state;
    run_result result;
    run_line(NEAP_CLI, "explain " SMALL " --budget 48MB --time-limit 6s", NULL, &result);
    assert_int_equal(result.code, 3);
    assert_string_equal(result.err,
                        "neap: no plan fits 45.8 MiB; the explanation says what would help\n");
    const char *remedy = strstr(result.out, "--budget ");
    assert_non_null(strstr(result.out, "\nWhat would make it fit\n"));
    assert_non_null(remedy);
    char option[64];
    double overhead;
    snprintf(option, sizeof option, "%.*s", 9 + (int)strcspn(remedy + 9, " \n"), remedy);
    assert_int_equal(plan_small(option, &overhead), 0);
    run_result_clear(&result);
}

static void what_is_not_tried_with_a_backend(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        char line[160];
        run_result result;
        snprintf(line, sizeof line,
                 "explain lstm --set hidden=8 --set layers=1 --set vocab=20 --seq 8 --batch 2 "
                 "--budget 2KiB%s",
                 i == 0 ? "" : " --backend ref --profile-cache none --repetitions 1");
        run_line(NEAP_CLI, line, NULL, &result);
        assert_int_equal(result.code, 3);
        assert_int_equal(strstr(result.out, "\nNot tried with --backend: another batch,") != NULL,
                         i == 1);
        run_result_clear(&result);
    }
}

static void the_time_limit_is_kept(void **state)
{
    (void)state;
    run_result result;
    run_line(NEAP_CLI, "explain resnet50 --budget 60% --time-limit 500ms --json", NULL, &result);
    assert_int_equal(result.code, 0);
    assert_non_null(strstr(result.out, "\"tried\": false")); /* a batch, at the latest */
    run_result_clear(&result);
}

static void ctrl_c_prints_what_is_known(void **state)
{
    (void)state;
    run_child child;
    run_result result;
    run_start(NEAP_CLI, "explain resnet152 --batch 64 --budget 50% --time-limit none", NULL,
              &child);
    assert_true(run_wait_handler(&child, SIGINT));
    run_wait_cpu(&child, 500);
    run_signal(&child, SIGINT);
    run_finish(&child, &result);
    assert_int_equal(result.code, 4);
    assert_string_equal(result.err, "neap: interrupted: this is what is known so far\n");
    assert_non_null(strstr(result.out, "Without a plan a step takes "));
    run_result_clear(&result);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words),
        cmocka_unit_test(every_advice_works),
        cmocka_unit_test(the_curve_falls),
        cmocka_unit_test(an_infeasible_budget_gets_a_remedy),
        cmocka_unit_test(what_is_not_tried_with_a_backend),
        cmocka_unit_test(the_time_limit_is_kept),
        cmocka_unit_test(ctrl_c_prints_what_is_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
