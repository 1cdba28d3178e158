/* Pictures and CSV of the command: what they show, where they go, and names that are hostile. */

#include "golden.h"
#include "run_command.h"
#include "xml_check.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GOLDEN(name) NEAP_SOURCE_DIR "/tests/cli/golden/" name ".txt"
#define CHAIN        "chain --set layers=8 --device unit"

static const run_options IN_DATA = {.folder = NEAP_SOURCE_DIR "/tests/cli/data"};

/* ---- Transcripts ---- */

/* The chart below a table, which has times in it, and is another test's subject. */
static void keep_chart(transcript *t)
{
    const char *last = t->text;
    for (const char *at = t->text; (at = strstr(at, "\n\n")) != NULL; at++)
        last = at + 2;
    memmove(t->text, last, strlen(last) + 1);
}

/* Replaces the time in the last cell of each row by "#". */
static void mask_times(char *csv)
{
    static const char last_column[] = ",solve_seconds";
    size_t head = strcspn(csv, "\n");
    if (head < sizeof last_column - 1 ||
        memcmp(csv + head + 1 - sizeof last_column, last_column, sizeof last_column - 1) != 0)
        return;
    char *to = csv + head;
    for (const char *line = csv + head; *line;) {
        size_t length = 1 + strcspn(line + 1, "\n"), cell = length;
        while (cell > 1 && line[cell - 1] != ',')
            cell--;
        bool empty = cell == length || length == 1;
        memmove(to, line, empty ? length : cell);
        to += empty ? length : cell;
        if (!empty)
            *to++ = '#';
        line += length;
    }
    *to = '\0';
}

static void check_transcripts(const char *const *lines, size_t count, bool charts,
                              const char *golden)
{
    char *all = NULL;
    size_t length = 0;
    for (size_t i = 0; i < count; i++) {
        run_result result;
        transcript t = {0};
        run_line(NEAP_CLI, lines[i], &IN_DATA, &result);
        t.text = result.out;
        if (charts)
            keep_chart(&t);
        else
            mask_times(t.text);
        size_t room = strlen(lines[i]) + strlen(t.text) + strlen(result.err) + 16;
        all = realloc(all, length + room);
        assert_non_null(all);
        length += (size_t)snprintf(all + length, room, "%s$ neap %s\n%s%s", i ? "\n" : "", lines[i],
                                   t.text, result.err);
        run_result_clear(&result);
    }
    transcript t = {.text = all, .length = length};
    transcript_check(&t, golden);
}

#define CHECK(lines, charts, golden)                                                               \
    check_transcripts(lines, sizeof lines / sizeof *lines, charts, golden)

static void charts(void **state)
{
    (void)state;
    static const char *const LINES[] = {
        "curve " CHAIN " --method store-all,sqrt,greedy,revolve,pareto --points 9 --chart",
        "curve " CHAIN " --method store-all --budgets 100% --chart",
        "compare " CHAIN " --method store-all,sqrt,greedy,revolve,pareto --budget 60% --chart",
        "compare " CHAIN " --method store-all,sqrt --chart",
    };
    CHECK(LINES, true, GOLDEN("pictures"));
}

static void tables_as_csv(void **state)
{
    (void)state;
    static const char *const LINES[] = {
        "plan " CHAIN " --method sqrt --budget 80% --csv -",
        "plan tiny.json --method store-all --csv -",
        "compare " CHAIN " --method store-all,sqrt,offload-dp --budget 80% --csv -",
        "curve " CHAIN " --method store-all,sqrt --points 3 --csv -",
        "max-batch alexnet --budget 2GB --device flops --method store-all,sqrt --csv -",
        "graph tiny.json --csv -",
        "graph hostile_name.json --csv -",
        "check tiny.json tiny.plan.json --csv -",
        "check tiny.json too_early.plan.json --csv -",
        "models lstm --csv -",
        "methods set --csv -",
        "devices h200 --csv -",
        "plan " CHAIN " --csv - --svg -",
        "models --csv - --json",
        "curve " CHAIN " --chart --csv -",
    };
    CHECK(LINES, false, GOLDEN("csv"));
}

/* ---- Files ---- */

static char *run_for(const char *line, const char *folder)
{
    const run_options options = {.folder = folder};
    run_result result;
    run_line(NEAP_CLI, line, &options, &result);
    if (result.code != 0)
        fail_msg("neap %s: exit %d: %s", line, result.code, result.err);
    char *out = result.out;
    result.out = NULL;
    run_result_clear(&result);
    return out;
}

/* A file has what "-" prints; the title has the network, the batch and the device. */
static void pictures_become_files(void **state)
{
    (void)state;
    static const struct {
        const char *line, *title;
    } cases[] = {
        {"plan resnet18 --batch 4 --budget 90% --method greedy",
         ">resnet18, batch 4, on h200, planned by greedy</text>"},
        {"plan resnet18 --batch 4 --budget 90% --method offload-greedy --link 12GB/s",
         ">to the host</text>"},
        {"plan alexnet --budget 2GB --objective batch --method greedy", ">alexnet, batch "},
        {"curve resnet18 --batch 4 --method store-all,sqrt --points 3 --device a100",
         ">resnet18, batch 4, on a100</text>"},
        {"compare resnet18 --batch 4 --method store-all,sqrt --budget 90%",
         ">resnet18, batch 4, on h200</text>"},
    };
    char *folder = make_temporary_folder();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char line[256];
        snprintf(line, sizeof line, "%s --svg -", cases[i].line);
        char *printed = run_for(line, folder);
        assert_picture(printed);
        if (!strstr(printed, cases[i].title))
            fail_msg("neap %s: no %s", line, cases[i].title);
        snprintf(line, sizeof line, "%s --svg p.svg --csv p.csv", cases[i].line);
        free(run_for(line, folder));
        char *path = join_path(folder, "p.svg"), *csv_path = join_path(folder, "p.csv");
        char *text = read_text_file(path), *csv = read_text_file(csv_path);
        assert_string_equal(text, printed);
        assert_true(count_of(csv, "\n") > 2);
        free(csv);
        free(text);
        free(csv_path);
        free(path);
        free(printed);
    }
    remove_temporary_folder(folder);
}

/* ---- Hostile names ---- */

/* A graph whose every name is `name`, as JSON text. */
static void write_hostile(const char *path, const char *name)
{
    size_t room = 4 * strlen(name) + 1024;
    char *text = malloc(room);
    assert_non_null(text);
    snprintf(text, room,
             "{\"neap\": \"graph\", \"version\": 1, \"name\": \"%s\", \"values\": "
             "[{\"name\": \"%s\", \"bytes\": 8, \"kind\": \"input\"}, {\"name\": \"%s\", "
             "\"bytes\": 8}, {\"name\": \"o\", \"bytes\": 8}], \"ops\": [{\"name\": \"%s\", "
             "\"type\": \"f\", \"pass\": "
             "\"forward\", \"inputs\": [0], \"outputs\": [1], \"time\": 1, \"workspace\": 0}, "
             "{\"name\": \"g\", \"type\": \"f\", \"pass\": \"backward\", \"inputs\": [1], "
             "\"outputs\": [2], \"time\": 1, \"workspace\": 0}], \"outputs\": [2]}",
             name, name, name, name);
    write_text_file(path, text);
    free(text);
}

static void expect_clean(const char *line, const char *text)
{
    for (const char *c = text; *c; c++)
        if ((unsigned char)*c < 0x20 && *c != '\n')
            fail_msg("neap %s prints \\x%02x", line, (unsigned char)*c);
    if (strstr(text, "\xc2\x9b") || strstr(text, "\xe2\x80\xae"))
        fail_msg("neap %s prints a control character", line);
}

static void hostile_names_do_no_harm(void **state)
{
    (void)state;
    static char huge[10241];
    memset(huge, 'x', sizeof huge - 1);
    static const char *const names[] = {"<script>alert(1)</script>",
                                        "a\\\"b,c\\\"",
                                        "two\\nlines\\r",
                                        "\\u009b31m\\u001b[31m",
                                        "\\u202egnp.exe",
                                        "=HYPERLINK(1)",
                                        "&lt;]]>",
                                        huge};
    static const char *const lines[] = {
        "plan g.json --method store-all",
        "curve g.json --method store-all,sqrt --points 2",
        "compare g.json --method store-all,sqrt",
    };
    char *folder = make_temporary_folder(), *path = join_path(folder, "g.json");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        write_hostile(path, names[i]);
        for (size_t k = 0; k < sizeof lines / sizeof *lines; k++) {
            static const char *const ways[] = {"--svg -", "--csv -", "--chart"};
            for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
                char line[128];
                snprintf(line, sizeof line, "%s %s", lines[k], ways[w]);
                char *text = run_for(line, folder);
                expect_clean(line, text);
                if (w == 0)
                    assert_picture(text);
                if (w == 1) /* a row is a line, and quotes come in pairs */
                    assert_true(count_of(text, "\"") % 2 == 0 &&
                                count_of(text, "\n") == (k == 0   ? 4
                                                         : k == 1 ? 5
                                                                  : 3));
                assert_null(strstr(text, "\"=")); /* a spreadsheet would run it */
                free(text);
            }
        }
    }
    free(path);
    remove_temporary_folder(folder);
}

/* ---- Terminals ---- */

static void charts_are_as_wide_as_the_terminal(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "curve " CHAIN " --method store-all,sqrt --points 3 --chart",
        "compare " CHAIN " --method store-all,sqrt --chart",
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        const run_options colour = {.terminal = true, .columns = 100};
        const run_options plain = {.terminal = true, .columns = 100, .environment = "NO_COLOR=1"};
        const run_options ascii = {.environment = "LC_ALL=C"};
        run_result a, b, c, d;
        run_line(NEAP_CLI, lines[i], &colour, &a);
        run_line(NEAP_CLI, lines[i], &plain, &b);
        run_line(NEAP_CLI, lines[i], NULL, &c);
        run_line(NEAP_CLI, lines[i], &ascii, &d);
        assert_non_null(strchr(a.out, '\033'));
        assert_null(strchr(b.out, '\033'));
        assert_null(strchr(c.out, '\033'));
        assert_true(strlen(b.out) > strlen(c.out)); /* 100 columns instead of 80 */
        for (const char *at = d.out; *at; at++)
            assert_true((unsigned char)*at < 0x80);
        run_result_clear(&a);
        run_result_clear(&b);
        run_result_clear(&c);
        run_result_clear(&d);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(charts),
        cmocka_unit_test(tables_as_csv),
        cmocka_unit_test(pictures_become_files),
        cmocka_unit_test(hostile_names_do_no_harm),
        cmocka_unit_test(charts_are_as_wide_as_the_terminal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
