/* neap report and --report: what is written, where, and what is refused. */

#include "report_block.h"
#include "run_command.h"
#include "settings.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CHAIN   "chain --set layers=8 --device unit"
#define TRAINED "lstm --batch 2 --seq 3 --set hidden=8 --set vocab=50 --optimizer sgd"

/* Runs a line in a folder and expects an exit status; the caller clears the result. */
static void run(const char *folder, const char *line, int code, run_result *result)
{
    const run_options options = {.folder = folder};
    run_line(NEAP_CLI, line, &options, result);
    if (result->code != code)
        fail_msg("neap %s: exit %d\n%s", line, result->code, result->err);
}

static void run_only(const char *folder, const char *line, int code)
{
    run_result result;
    run(folder, line, code, &result);
    run_result_clear(&result);
}

/* The data of a page in a file of the folder; the caller frees it. */
static char *data_in(const char *folder, const char *name)
{
    char *path = join_path(folder, name), *page = read_text_file(path);
    if (!page)
        fail_msg("%s was not written", name);
    char *data = block_of_page(page);
    free(path);
    free(page);
    return data;
}

/* ---- neap report ---- */

static void the_report_is_named_after_the_graph(void **state)
{
    (void)state;
    char *folder = make_temporary_folder();
    run_result result;
    run(folder, "report " CHAIN " --budget 80% --points 3", 0, &result);
    assert_string_equal(result.err, "");
    assert_non_null(strstr(result.out, "chain_8.html"));
    run_result_clear(&result);
    char *data = data_in(folder, "chain_8.html");
    char *command = block_string(data, "about.command"),
         *method = block_string(data, "plans.1.method");
    assert_string_equal(command,
                        "neap report chain --set layers=8 --device unit --budget 80% --points 3");
    assert_string_equal(method, "neap");
    assert_int_equal(block_count(data, "curve.points"), 4); /* the budget itself, and three */
    assert_int_equal((int)block_number(data, "about.batch", -1), -1); /* a chain has none */
    assert_true(block_number(data, "curve.points.3.budget_bytes", -1) ==
                block_number(data, "about.natural_peak_bytes", -2));
    assert_true(block_number(data, "curve.points.0.plan", -1) == 1);
    free(command);
    free(method);
    free(data);
    remove_temporary_folder(folder);
}

static void the_same_command_gives_the_same_bytes(void **state)
{
    (void)state;
    run_result first, second;
    run(NULL, "report " CHAIN " --method greedy,sqrt -o -", 0, &first);
    run(NULL, "report " CHAIN " --method greedy,sqrt -o -", 0, &second);
    assert_memory_equal(first.out, "<!DOCTYPE html>", 15);
    assert_string_equal(first.out, second.out);
    char *data = block_of_page(first.out);
    assert_int_equal(block_count(data, "curve.points"), 2 * (1 + 6));
    free(data);
    run_result_clear(&first);
    run_result_clear(&second);
}

static void the_command_line_is_quoted(void **state)
{
    (void)state;
    char *folder = make_temporary_folder();
    run_only(folder, "report " CHAIN " --points 0 -o it's<$HOME>.html", 0);
    char *data = data_in(folder, "it's<$HOME>.html"),
         *command = block_string(data, "about.command");
    assert_string_equal(command, "neap report chain --set layers=8 --device unit --points 0 -o "
                                 "'it'\\''s<$HOME>.html'");
    assert_int_equal(*block_at(data, "curve").text, 'n'); /* null */
    free(command);
    free(data);
    remove_temporary_folder(folder);
}

static void a_plan_file_is_judged_and_shown(void **state)
{
    (void)state;
    char *folder = make_temporary_folder(), *path = join_path(folder, "bad.json");
    run_result result;
    run_only(folder, "plan " CHAIN " --budget 80% --method greedy -o p.json", 0);
    run_only(folder, "report " CHAIN " --plan p.json -o p.html", 0);
    char *data = data_in(folder, "p.html"), *method = block_string(data, "plans.1.method");
    assert_string_equal(method, "greedy");
    assert_int_equal(block_count(data, "plans"), 2);
    assert_int_not_equal(*block_at(data, "plans.1.offsets").text, 'n');
    free(method);
    free(data);

    run(folder, "report chain --set layers=9 --device unit --plan p.json -o q.html", 2, &result);
    assert_non_null(strstr(result.err, "p.json"));
    run_result_clear(&result);
    run(folder, "report " CHAIN " --plan p.json --budget 2 -o q.html", 2, &result);
    run_result_clear(&result);
    run(folder, "report " CHAIN " --plan p.json --method neap -o q.html", 2, &result);
    assert_non_null(strstr(result.err, "--method"));
    run_result_clear(&result);
    write_text_file(path, "{\"neap\": \"plan\"");
    run_only(folder, "report " CHAIN " --plan bad.json -o q.html", 2);
    run_only(folder, "report " CHAIN " --plan missing.json -o q.html", 2);
    char *never = join_path(folder, "q.html");
    assert_int_not_equal(access(never, F_OK), 0);
    free(never);
    free(path);
    remove_temporary_folder(folder);
}

static void reports_that_cannot_be_made(void **state)
{
    (void)state;
    static const struct {
        const char *line;
        int code;
        const char *said;
    } CASES[] = {
        {"report " CHAIN " --budget 1B --method sqrt -o old.html", 3, "budget 1 B"},
        {"report resnet18 --batch 4 --budget 58% --time-limit 1ms -o old.html", 4,
         "raise --time-limit or --budget"},
        {"report missing.json -o old.html", 2, "missing.json"},
        {"report " CHAIN " -o missing/a.html", 2, "folder missing"},
        {"report " CHAIN " -o .", 2, "is a folder"},
        {"report " CHAIN " --points x -o old.html", 2, "--points"},
        {"report " CHAIN " --method none -o old.html", 2, "no method"},
        {"report -o old.html", 2, "needs MODEL"},
        {"plan " CHAIN " --budget 1B --method sqrt --report old.html", 3, "budget 1 B"},
        {"compare " CHAIN " --budget 1B --method sqrt,greedy --report old.html", 3, "budget 1 B"},
        {"curve " CHAIN " --budgets 1B --method sqrt --report old.html", 3, ""},
        {"plan " CHAIN " --report missing/a.html", 2, "folder missing"},
        {"graph " CHAIN " --report old.html", 2, "takes no --report"},
        {"plan " CHAIN " -o old.html --report old.html", 2, "same file"},
    };
    char *folder = make_temporary_folder(), *path = join_path(folder, "old.html");
    write_text_file(path, "precious\n");
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        run_result result;
        run(folder, CASES[i].line, CASES[i].code, &result);
        if (!strstr(result.err, CASES[i].said) || strncmp(result.err, "neap: ", 6) != 0)
            fail_msg("neap %s: %s", CASES[i].line, result.err);
        run_result_clear(&result);
        char *text = read_text_file(path);
        assert_string_equal(text, "precious\n");
        free(text);
    }
    free(path);
    remove_temporary_folder(folder);
}

/* ---- --report ---- */

static void commands_write_what_they_computed(void **state)
{
    (void)state;
    char *folder = make_temporary_folder();
    run_result result;
    run(folder, "plan " CHAIN " --budget 80% --method sqrt -o p.json --report p.html", 0, &result);
    assert_non_null(strstr(result.out, "p.html"));
    run_result_clear(&result);
    char *data = data_in(folder, "p.html"), *text = block_string(data, "plans.1.method");
    assert_string_equal(text, "sqrt");
    assert_int_equal(block_count(data, "plans"), 2);
    free(text);
    free(data);

    run_only(folder, "compare " CHAIN " --budget 90% --method sqrt,greedy --report c.html", 0);
    data = data_in(folder, "c.html");
    assert_int_equal(block_count(data, "plans"), 3);
    assert_true(block_number(data, "plans.1.time", 9e9) <= block_number(data, "plans.2.time", -1));
    free(data);

    run_only(folder, "curve " CHAIN " --points 4 --method sqrt --report v.html", 0);
    data = data_in(folder, "v.html");
    assert_int_equal(block_count(data, "curve.points"), 4);
    text = block_string(data, "curve.points.0.status");
    assert_string_equal(text, "infeasible");
    free(text);
    free(data);
    remove_temporary_folder(folder);
}

static void training_writes_its_losses(void **state)
{
    (void)state;
    char *folder = make_temporary_folder();
    run_result result;
    run(folder, "train " TRAINED " --backend ref --profile-cache none --steps 3 --report t.html", 0,
        &result);
    assert_non_null(strstr(result.out, "report in t.html"));
    run_result_clear(&result);
    char *data = data_in(folder, "t.html");
    block_column steps = block_integers(data, "train.steps");
    assert_int_equal(steps.count, 3);
    assert_int_equal(steps.items[2], 3);
    assert_true(block_number(data, "train.loss.0", -1) > 0);
    assert_true(block_number(data, "train.seconds.2", -1) > 0);
    assert_int_equal((int)block_number(data, "about.batch", -1), 2);
    free(steps.items);
    free(data);
    run(folder, "train " TRAINED " --report t.html --verify", 2, &result);
    assert_non_null(strstr(result.err, "--report"));
    run_result_clear(&result);
    remove_temporary_folder(folder);
}

static void one_output_goes_to_stdout(void **state)
{
    (void)state;
    static const char *const PAGES[] = {
        "plan " CHAIN " --method sqrt --report -",
        "compare " CHAIN " --method sqrt,greedy --report -",
        "curve " CHAIN " --method sqrt --points 3 --report -",
        "report " CHAIN " --method sqrt --points 0 -o -",
    };
    static const char *const REFUSED[] = {
        "plan " CHAIN " --method sqrt --report - -o -",
        "plan " CHAIN " --method sqrt --report - --json",
        "plan " CHAIN " --method sqrt --report - --chart",
        "compare " CHAIN " --method sqrt --report - --json",
        "curve " CHAIN " --method sqrt --report - --csv -",
        "curve " CHAIN " --method sqrt --report - --svg -",
        "curve " CHAIN " --method sqrt --report - --json",
        "train " TRAINED " --report -",
    };
    run_result result;
    for (size_t i = 0; i < sizeof PAGES / sizeof *PAGES; i++) {
        run(NULL, PAGES[i], 0, &result);
        size_t length = strlen(result.out);
        assert_memory_equal(result.out, "<!DOCTYPE html>", 15);
        assert_string_equal(result.out + length - 8, "</html>\n");
        run_result_clear(&result);
    }
    for (size_t i = 0; i < sizeof REFUSED / sizeof *REFUSED; i++) {
        run(NULL, REFUSED[i], 2, &result);
        assert_string_equal(result.out, "");
        if (!strstr(result.err, "standard output"))
            fail_msg("neap %s: %s", REFUSED[i], result.err);
        run_result_clear(&result);
    }
}

/* ---- The script that unpacks the data ---- */

static void the_page_unpacks_its_data(void **state)
{
    (void)state;
    static const char *const LINES[] = {
        "report resnet18 --batch 2 --image 64 --optimizer momentum --budget 85% --points 2 "
        "--time-limit 1s -o a.html",
        "plan gpt2 --seq 32 --batch 2 --set layers=2 --optimizer adam --budget 60% --link 20GB/s "
        "--duplex --time-limit 2s --report a.html",
        "plan unet --batch 1 --image 64 --budget 70% --link 5GB/s --state host --time-limit 2s "
        "--optimizer adam --report a.html",
    };
    char *folder = make_temporary_folder();
    const run_options options = {.folder = folder};
    for (size_t i = 0; i < sizeof LINES / sizeof *LINES; i++) {
        run_result result;
        run_only(folder, LINES[i], 0);
        run_line("/usr/bin/env",
                 "node " NEAP_SOURCE_DIR "/tests/cli/data/check_report.js " NEAP_SOURCE_DIR
                 "/src/report/web/js/05-unpack.js a.html",
                 &options, &result);
        bool missing = result.code == 127;
        if (result.code != 0 && !missing)
            fail_msg("neap %s: %.600s%s", LINES[i], result.out, result.err);
        run_result_clear(&result);
        if (missing) {
            remove_temporary_folder(folder);
            skip_because("there is no node, which runs the page's script");
        }
    }
    remove_temporary_folder(folder);
}

/* ---- Size ---- */

static void a_report_of_resnet50_is_small(void **state)
{
    (void)state;
    run_result result;
    run(NULL, "report resnet50 --batch 64 --budget 60% --method greedy,sqrt --points 3 -o -", 0,
        &result);
    char *data = block_of_page(result.out);
    assert_true(block_count(data, "plans") >= 6);
    if (strlen(result.out) > 500000)
        fail_msg("%zu bytes, %zu of them data", strlen(result.out), strlen(data));
    free(data);
    run_result_clear(&result);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_report_is_named_after_the_graph),
        cmocka_unit_test(the_same_command_gives_the_same_bytes),
        cmocka_unit_test(the_command_line_is_quoted),
        cmocka_unit_test(a_plan_file_is_judged_and_shown),
        cmocka_unit_test(reports_that_cannot_be_made),
        cmocka_unit_test(commands_write_what_they_computed),
        cmocka_unit_test(training_writes_its_losses),
        cmocka_unit_test(one_output_goes_to_stdout),
        cmocka_unit_test(the_page_unpacks_its_data),
        cmocka_unit_test(a_report_of_resnet50_is_small),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
