/* Files and streams: broken input, output that cannot be written, pipes, terminals. */

#include "golden.h"
#include "run_command.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define GOLDEN(name) NEAP_SOURCE_DIR "/tests/cli/golden/" name ".txt"
#define DATA         NEAP_SOURCE_DIR "/tests/cli/data"
#define CHAIN        "chain --set layers=8 --device unit"

/* ---- Input ---- */

static void broken_graphs(void **state)
{
    (void)state;
    static const char *const NAMES[] = {"cycle",     "unknown_id", "two_producers", "negative_size",
                                        "overflow",  "too_large",  "nan_time",      "negative_time",
                                        "huge_time", "truncated",  "malformed"};
    const run_options options = {.folder = DATA};
    transcript t = {0};
    for (size_t i = 0; i < sizeof NAMES / sizeof NAMES[0]; i++) {
        char line[128];
        snprintf(line, sizeof line, "plan %s.json --budget 1GiB", NAMES[i]);
        run_result result;
        run_line(NEAP_CLI, line, &options, &result);
        assert_int_equal(result.code, 2);
        assert_string_equal(result.out, "");
        assert_memory_equal(result.err, "neap: ", 6);
        if (!strstr(result.err, NAMES[i]))
            fail_msg("neap %s does not name the file: %s", line, result.err);
        run_result_clear(&result);
        transcript_run(&t, NEAP_CLI, line, &options);
    }
    transcript_run(&t, NEAP_CLI, "graph missing/graph.json", &options);
    transcript_run(&t, NEAP_CLI, "graph ../data", &options);
    transcript_run(&t, NEAP_CLI, "check tiny.json ../data", &options);
    transcript_run(&t, NEAP_CLI, "graph - ", &options); /* nothing to read */
    transcript_check(&t, GOLDEN("broken"));
}

/* Every prefix of a graph file is refused politely. */
static void truncated_anywhere(void **state)
{
    (void)state;
    char *text = read_text_file(DATA "/tiny.json");
    assert_non_null(text);
    size_t length = strlen(text);
    for (size_t end = 0; end + 2 < length; end += 41) {
        char *prefix = strndup(text, end);
        run_result result;
        const run_options options = {.input = prefix};
        run_line(NEAP_CLI, "graph -", &options, &result);
        if (result.code != 2)
            fail_msg("the first %zu bytes of a graph: exit %d", end, result.code);
        run_result_clear(&result);
        free(prefix);
    }
    free(text);
}

static void graphs_and_plans_come_from_stdin(void **state)
{
    (void)state;
    char *graph = read_text_file(DATA "/tiny.json");
    char *plan = read_text_file(DATA "/tiny.plan.json");
    assert_non_null(graph);
    assert_non_null(plan);
    run_result result;
    const run_options graph_in = {.input = graph}, plan_in = {.folder = DATA, .input = plan};
    run_line(NEAP_CLI, "plan - --method store-all", &graph_in, &result);
    assert_int_equal(result.code, 0);
    run_result_clear(&result);
    run_line(NEAP_CLI, "check tiny.json -", &plan_in, &result);
    assert_int_equal(result.code, 0);
    run_result_clear(&result);
    free(graph);
    free(plan);
}

/* One op with 200,000 inputs, each of a kind of its own: work on every pair of them would take
 * minutes. */
static void wide_ops_take_seconds(void **state)
{
    (void)state;
    enum { N_INPUTS = 200000 };
    char *folder = make_temporary_folder(), *path = join_path(folder, "wide.json");
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs("{\"neap\":\"graph\",\"version\":1,\"values\":[", file);
    for (int i = 0; i < N_INPUTS; i++)
        fprintf(file, "{\"bytes\":1,\"kind\":\"k%d\"},", i);
    fputs("{\"bytes\":1}],\"ops\":[{\"inputs\":[0", file);
    for (int i = 1; i < N_INPUTS; i++)
        fprintf(file, ",%d", i);
    fprintf(file, "],\"outputs\":[%d],\"time\":1}],\"outputs\":[%d]}", N_INPUTS, N_INPUTS);
    assert_int_equal(fclose(file), 0);
    run_result result;
    struct timespec begin, end;
    const run_options options = {.folder = folder};
    clock_gettime(CLOCK_MONOTONIC, &begin);
    run_line(NEAP_CLI, "graph wide.json --json", &options, &result);
    clock_gettime(CLOCK_MONOTONIC, &end);
    assert_int_equal(result.code, 0);
    assert_non_null(strstr(result.out, "\"largest_op_bytes\": 200001"));
    assert_non_null(strstr(result.out, "\"k199999\""));
    assert_true(end.tv_sec - begin.tv_sec < 30);
    run_result_clear(&result);
    free(path);
    remove_temporary_folder(folder);
}

/* ---- Output ---- */

static void a_written_graph_reads_back_the_same(void **state)
{
    (void)state;
    char *folder = make_temporary_folder();
    const run_options options = {.folder = folder};
    run_result result;
    run_line(NEAP_CLI, "graph resnet50 --batch 2 -o a.json", &options, &result);
    assert_int_equal(result.code, 0);
    assert_string_equal(result.out, "");
    run_result_clear(&result);
    run_line(NEAP_CLI, "graph a.json -o b.json", &options, &result);
    assert_int_equal(result.code, 0);
    run_result_clear(&result);
    run_line(NEAP_CLI, "graph b.json -o -", &options, &result);
    char *a = join_path(folder, "a.json"), *b = join_path(folder, "b.json");
    char *first = read_text_file(a), *second = read_text_file(b);
    assert_string_equal(first, second);
    assert_string_equal(first, result.out);
    run_result_clear(&result);

    /* and means the same as the model */
    run_result model, file;
    run_line(NEAP_CLI, "plan resnet50 --batch 2 --method sqrt --budget 95% -o -", &options, &model);
    run_line(NEAP_CLI, "plan a.json --method sqrt --budget 95% -o -", &options, &file);
    assert_int_equal(model.code, 0);
    assert_string_equal(model.out, file.out);
    run_result_clear(&model);
    run_result_clear(&file);
    free(a);
    free(b);
    free(first);
    free(second);
    remove_temporary_folder(folder);
}

static void a_failing_command_leaves_files_alone(void **state)
{
    (void)state;
    static const char *const LINES[] = {
        "plan " CHAIN " --method sqrt --budget 1 -o old.txt",
        "plan missing.json -o old.txt",
        "plan " CHAIN " --budget 0 -o old.txt",
        "graph chian -o old.txt",
        "curve " CHAIN " --method sqrt --budgets 0 --csv old.txt --svg old.txt",
    };
    char *folder = make_temporary_folder();
    char *path = join_path(folder, "old.txt");
    const run_options options = {.folder = folder};
    write_text_file(path, "precious\n");
    for (size_t i = 0; i < sizeof LINES / sizeof LINES[0]; i++) {
        run_result result;
        run_line(NEAP_CLI, LINES[i], &options, &result);
        assert_int_not_equal(result.code, 0);
        run_result_clear(&result);
        char *text = read_text_file(path);
        assert_string_equal(text, "precious\n");
        free(text);
    }
    free(path);
    remove_temporary_folder(folder); /* which fails if a temporary file is left in a folder of it */
}

static void a_replaced_file_keeps_its_permissions_and_its_link(void **state)
{
    (void)state;
    char *folder = make_temporary_folder();
    char *target = join_path(folder, "target.json"), *link = join_path(folder, "link.json");
    const run_options options = {.folder = folder};
    write_text_file(target, "old\n");
    assert_int_equal(chmod(target, 0640), 0);
    assert_int_equal(symlink("target.json", link), 0);
    run_result result;
    run_line(NEAP_CLI, "plan " CHAIN " -o link.json", &options, &result);
    assert_int_equal(result.code, 0);
    run_result_clear(&result);
    struct stat facts;
    assert_int_equal(lstat(link, &facts), 0);
    assert_true(S_ISLNK(facts.st_mode));
    assert_int_equal(lstat(target, &facts), 0);
    assert_int_equal(facts.st_mode & 07777, 0640);
    assert_true(facts.st_size > 10);
    free(target);
    free(link);
    remove_temporary_folder(folder);
}

static void output_that_cannot_be_written(void **state)
{
    (void)state;
    char *folder = make_temporary_folder();
    const run_options options = {.folder = folder};
    const run_options full = {.output_path = "/dev/full"}, closed = {.closed_output = true};
    run_result result;
    static const struct {
        const char *line;
        int code;
    } LINES[] = {{"plan " CHAIN " -o missing/plan.json", 2},
                 {"plan not-a-model -o missing/plan.json", 2},
                 {"graph " CHAIN " -o missing/graph.json", 2},
                 {"plan " CHAIN " -o .", 2},
                 {"plan " CHAIN " -o /dev/full", 1},
                 {"plan " CHAIN " -o /dev/null", 0},
                 {"curve " CHAIN " --method store-all --csv missing/a.csv", 2},
                 {"curve " CHAIN " --method store-all --svg missing/a.svg", 2},
                 {"train alexnet --save-plan missing/plan.json", 2}};
    for (size_t i = 0; i < sizeof LINES / sizeof LINES[0]; i++) {
        run_line(NEAP_CLI, LINES[i].line, &options, &result);
        if (result.code != LINES[i].code)
            fail_msg("neap %s: exit %d", LINES[i].line, result.code);
        if (strstr(LINES[i].line, "missing")) /* said before anything else is looked at */
            assert_non_null(strstr(result.err, "folder missing: "));
        run_result_clear(&result);
    }
    run_line(NEAP_CLI, "models chain", &full, &result);
    assert_int_equal(result.code, 1);
    assert_non_null(strstr(result.err, "standard output"));
    run_result_clear(&result);
    run_line(NEAP_CLI, "graph " CHAIN " -o -", &full, &result);
    assert_int_equal(result.code, 1);
    run_result_clear(&result);
    run_line(NEAP_CLI, "models chain", &closed, &result);
    assert_int_equal(result.code, 1);
    run_result_clear(&result);
    struct stat facts;
    assert_int_equal(stat("/dev/null", &facts), 0);
    assert_true(S_ISCHR(facts.st_mode));
    remove_temporary_folder(folder);
}

/* A reader that leaves early: no message, but not a success either. */
static void a_closed_pipe_is_noticed(void **state)
{
    (void)state;
    run_result result;
    run_line("/bin/bash", "-c " NEAP_CLI "\tmodels|true;exit\t${PIPESTATUS[0]}", NULL, &result);
    assert_true(result.code == 0 || result.code == 1); /* it may have written before `true` ended */
    assert_string_equal(result.err, "");
    run_result_clear(&result);
    run_line("/bin/bash", "-c (sleep\t0.2;" NEAP_CLI "\tmodels)|true;exit\t${PIPESTATUS[0]}", NULL,
             &result);
    assert_int_equal(result.code, 1);
    assert_string_equal(result.err, "");
    run_result_clear(&result);
}

static void curves_become_files(void **state)
{
    (void)state;
    char *folder = make_temporary_folder();
    const run_options options = {.folder = folder};
    run_result result;
    run_line(NEAP_CLI, "curve " CHAIN " --method store-all,sqrt --points 4 --csv c.csv --svg c.svg",
             &options, &result);
    assert_int_equal(result.code, 0);
    run_result_clear(&result);
    char *csv_path = join_path(folder, "c.csv"), *svg_path = join_path(folder, "c.svg");
    char *csv = read_text_file(csv_path), *svg = read_text_file(svg_path);
    assert_non_null(csv);
    assert_non_null(svg);
    int rows = 0;
    for (const char *c = csv; *c; c++)
        rows += *c == '\n';
    assert_int_equal(rows, 1 + 2 * 4);
    assert_memory_equal(csv, "method,budget_bytes,status,", 27);
    assert_non_null(strstr(svg, "<svg"));
    run_line(NEAP_CLI, "curve " CHAIN " --method store-all,sqrt --points 4 --svg -", &options,
             &result);
    assert_string_equal(result.out, svg);
    run_result_clear(&result);
    free(csv_path);
    free(svg_path);
    free(csv);
    free(svg);
    remove_temporary_folder(folder);
}

/* ---- Terminals ---- */

static void colors_are_for_terminals_only(void **state)
{
    (void)state;
    static const struct {
        run_options options;
        bool colored;
    } CASES[] = {
        {{.terminal = true}, true},
        {{.terminal = true, .environment = "NO_COLOR=1"}, false},
        {{.terminal = true, .environment = "NO_COLOR="}, false},
        {{.terminal = true, .environment = "TERM=dumb"}, false},
        {{.terminal = true, .environment = "TERM="}, false},
        {{.terminal = false}, false},
    };
    static const char *const LINES[] = {"help plan", "devices", "plan " CHAIN " --chart",
                                        "compare " CHAIN " --method store-all,sqrt"};
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++)
        for (size_t j = 0; j < sizeof LINES / sizeof LINES[0]; j++) {
            run_result result;
            run_line(NEAP_CLI, LINES[j], &CASES[i].options, &result);
            assert_int_equal(result.code, 0);
            if ((strchr(result.out, '\033') != NULL) != CASES[i].colored)
                fail_msg("case %zu: neap %s:\n%s", i, LINES[j], result.out);
            run_result_clear(&result);
        }
}

static void a_locale_without_utf8_gets_ascii(void **state)
{
    (void)state;
    run_result result;
    const run_options options = {.environment = "LC_ALL=C"};
    run_line(NEAP_CLI, "plan " CHAIN " --chart", &options, &result);
    assert_int_equal(result.code, 0);
    for (const char *c = result.out; *c; c++)
        assert_true((unsigned char)*c < 0x80);
    run_result_clear(&result);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(broken_graphs),
        cmocka_unit_test(truncated_anywhere),
        cmocka_unit_test(graphs_and_plans_come_from_stdin),
        cmocka_unit_test(wide_ops_take_seconds),
        cmocka_unit_test(a_written_graph_reads_back_the_same),
        cmocka_unit_test(a_failing_command_leaves_files_alone),
        cmocka_unit_test(a_replaced_file_keeps_its_permissions_and_its_link),
        cmocka_unit_test(output_that_cannot_be_written),
        cmocka_unit_test(a_closed_pipe_is_noticed),
        cmocka_unit_test(curves_become_files),
        cmocka_unit_test(colors_are_for_terminals_only),
        cmocka_unit_test(a_locale_without_utf8_gets_ascii),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
