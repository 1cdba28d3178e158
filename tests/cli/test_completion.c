/* Completion in real shells, and manual pages in real roff. Shells that are not installed are left
   out. */

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

#define FOLDER NEAP_SOURCE_DIR "/tests/cli/"

static const char *const COMMANDS[] = {"plan",    "train",     "profile", "compare", "explain",
                                       "curve",   "max-batch", "check",   "graph",   "models",
                                       "methods", "devices",   "doctor",  "report"};

/* The path of a program in the usual folders; NULL: it is not installed. */
static const char *find_program(const char *name, char *path, size_t capacity)
{
    static const char *const FOLDERS[] = {"/bin", "/usr/bin", "/usr/local/bin"};
    for (size_t i = 0; i < sizeof FOLDERS / sizeof FOLDERS[0]; i++) {
        snprintf(path, capacity, "%s/%s", FOLDERS[i], name);
        if (access(path, X_OK) == 0)
            return path;
    }
    return NULL;
}

/* What `neap <line>` prints, as a file of the folder; the caller frees its path. */
static char *print_to_file(const char *line, const char *folder, const char *name)
{
    run_result result;
    char *path = join_path(folder, name);
    run_line(NEAP_CLI, line, NULL, &result);
    assert_int_equal(result.code, 0);
    write_text_file(path, result.out);
    run_result_clear(&result);
    return path;
}

/* ---- Completion ---- */

typedef struct completion_case {
    const char *words;    /* the last one, _ if it is empty, is completed */
    const char *expected; /* what is offered, or becomes of the line */
} completion_case;

static void check_shell(const char *shell, const completion_case *cases, size_t count)
{
    char program[64], line[512];
    if (!find_program(shell, program, sizeof program)) {
        snprintf(line, sizeof line, "%s is not installed", shell);
        skip_because(line);
    }
    char *folder = make_temporary_folder();
    snprintf(line, sizeof line, "help --completion %s", shell);
    char *script = print_to_file(line, folder, "script");
    const run_options in_data = {.folder = FOLDER "data"};
    for (size_t i = 0; i < count; i++) {
        run_result result;
        snprintf(line, sizeof line, FOLDER "complete.%s %s %s", shell, script, cases[i].words);
        run_line(program, line, &in_data, &result);
        if (result.code != 0 || strcmp(result.out, cases[i].expected) != 0)
            fail_msg("%s: %s\nexpected: %sfound %d:    %s%s", shell, cases[i].words,
                     cases[i].expected, result.code, result.out, result.err);
        run_result_clear(&result);
    }
    free(script);
    remove_temporary_folder(folder);
}

#define CHECK_SHELL(shell, cases) check_shell(shell, cases, sizeof cases / sizeof cases[0])

static void bash(void **state)
{
    (void)state;
    static const completion_case CASES[] = {
        {"neap pla", "plan\n"},
        {"neap --ver", "--version\n"},
        {"neap plan --obj", "--objective\n"},
        {"neap plan --objective _", "time peak batch\n"},
        {"neap plan --objective=p", "peak\n"},
        {"neap plan --objective=", "time peak batch\n"},
        {"neap models gpt2-", "gpt2-medium gpt2-large gpt2-xl\n"},
        {"neap plan resnet5", "resnet50\n"},
        {"neap plan tiny", "tiny.json tiny.plan.json\n"},
        {"neap plan --json vgg16", "vgg16\n"},
        {"neap plan chain --method sqr", "sqrt\n"},
        {"neap plan chain --method sqrt,gree", "sqrt,greedy\n"},
        {"neap plan chain -o tiny.p", "tiny.plan.json\n"},
        {"neap plan chain --budget _", "\n"},
        {"neap plan chain --device h2", "h200\n"},
        {"neap check tiny.json tiny.p", "tiny.plan.json\n"},
        {"neap doctor _", "\n"},
        {"neap help --completion _", "bash zsh fish\n"},
        {"neap help max", "max-batch\n"},
    };
    CHECK_SHELL("bash", CASES);
}

static void zsh(void **state)
{
    (void)state;
    static const completion_case CASES[] = {
        {"neap pla", "neap plan \n"},
        {"neap plan --obj", "neap plan --objective=\n"},
        {"neap plan --objective=p", "neap plan --objective=peak \n"},
        {"neap plan resnet5", "neap plan resnet50 \n"},
        {"neap plan chain --method sqrt,gree", "neap plan chain --method sqrt,greedy,\n"},
        {"neap plan chain -o tiny.pl", "neap plan chain -o tiny.plan.json \n"},
        {"neap check tiny.json tiny.pl", "neap check tiny.json tiny.plan.json \n"},
        {"neap help --completion zs", "neap help --completion zsh \n"},
    };
    CHECK_SHELL("zsh", CASES);
}

static void fish(void **state)
{
    (void)state;
    static const completion_case CASES[] = {
        {"neap pla", "plan\n"},
        {"neap plan --obj", "--objective\n"},
        {"neap plan --objective _", "batch peak time\n"},
        {"neap plan --objective=p", "--objective=peak\n"},
        {"neap plan resnet5", "resnet50\n"},
        {"neap plan chain --method sqrt,gree", "sqrt,greedy\n"},
        {"neap plan chain -o tiny.p", "tiny.plan.json\n"},
        {"neap check tiny.json tiny.p", "tiny.plan.json\n"},
        {"neap help --completion b", "bash\n"},
    };
    CHECK_SHELL("fish", CASES);
}

/* Every option of every command is offered: the script follows the tables. */
static void every_option_is_offered(void **state)
{
    (void)state;
    run_result script, help;
    run_line(NEAP_CLI, "help --completion bash", NULL, &script);
    for (size_t i = 0; i < sizeof COMMANDS / sizeof COMMANDS[0]; i++) {
        char line[64], name[64];
        snprintf(line, sizeof line, "help %s", COMMANDS[i]);
        snprintf(name, sizeof name, "\n        %s)\n", COMMANDS[i]);
        run_line(NEAP_CLI, line, NULL, &help);
        const char *part = strstr(script.out, name);
        assert_non_null(part);
        const char *end = strstr(part, ";;");
        for (const char *at = help.out; (at = strstr(at, "\n  --")); at++) {
            snprintf(name, sizeof name, "%.*s", (int)strcspn(at + 3, " \n"), at + 3);
            const char *found = strstr(part, name);
            if (!found || found > end)
                fail_msg("neap %s: %s is not completed", COMMANDS[i], name);
        }
        run_result_clear(&help);
    }
    run_result_clear(&script);
}

static void another_shell(void **state)
{
    (void)state;
    static const char *const LINES[][2] = {
        {"help --completion", "neap: --completion needs a shell: bash, zsh or fish\n"},
        {"help --completion csh",
         "neap: no completion for \"csh\"; there is one for bash, zsh and fish\n"},
        {"help --man plann", "neap: no command \"plann\"; did you mean plan?\n"},
    };
    for (size_t i = 0; i < sizeof LINES / sizeof LINES[0]; i++) {
        run_result result;
        run_line(NEAP_CLI, LINES[i][0], NULL, &result);
        assert_int_equal(result.code, 2);
        assert_string_equal(result.err, LINES[i][1]);
        run_result_clear(&result);
    }
}

/* ---- Manual pages ---- */

static void check_page(const char *program, const char *command, const char *folder)
{
    char line[512];
    run_result result;
    snprintf(line, sizeof line, "help --man %s", command);
    char *page = print_to_file(line, folder, "page.1");
    snprintf(line, sizeof line, "-man -Tutf8 -ww -P-cbou %s", page);
    run_line(program, line, NULL, &result);
    if (result.code != 0 || *result.err)
        fail_msg("neap help --man %s: %s", command, result.err);
    assert_non_null(strstr(result.out, "SYNOPSIS"));
    assert_non_null(strstr(result.out, "User Commands"));
    run_result_clear(&result);
    free(page);
}

static void manual_pages_are_good_roff(void **state)
{
    (void)state;
    char program[64];
    if (!find_program("groff", program, sizeof program))
        skip_because("groff is not installed");
    char *folder = make_temporary_folder();
    check_page(program, "", folder);
    for (size_t i = 0; i < sizeof COMMANDS / sizeof COMMANDS[0]; i++)
        check_page(program, COMMANDS[i], folder);
    remove_temporary_folder(folder);
}

/* The page of neap names the pages of all commands; each page has its parts. */
static void manual_pages_are_whole(void **state)
{
    (void)state;
    static const char *const PARTS[] = {".SH NAME\n",     ".SH SYNOPSIS\n", ".SH DESCRIPTION\n",
                                        ".SH OPTIONS\n",  ".SH EXAMPLES\n", ".SH EXIT STATUS\n",
                                        ".SH SEE ALSO\n", "\\-\\-help"};
    run_result all, page;
    run_line(NEAP_CLI, "help --man", NULL, &all);
    for (size_t i = 0; i < sizeof COMMANDS / sizeof COMMANDS[0]; i++) {
        char line[64], name[64];
        snprintf(line, sizeof line, "help --man %s", COMMANDS[i]);
        run_line(NEAP_CLI, line, NULL, &page);
        for (size_t k = 0; k < sizeof PARTS / sizeof PARTS[0]; k++)
            if (!strstr(page.out, PARTS[k]))
                fail_msg("neap help --man %s: no \"%s\"", COMMANDS[i], PARTS[k]);
        snprintf(name, sizeof name, "\\fBneap\\-%s",
                 strcmp(COMMANDS[i], "max-batch") == 0 ? "max\\-batch" : COMMANDS[i]);
        assert_non_null(strstr(all.out, name));
        run_result_clear(&page);
    }
    run_result_clear(&all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bash),
        cmocka_unit_test(zsh),
        cmocka_unit_test(fish),
        cmocka_unit_test(every_option_is_offered),
        cmocka_unit_test(another_shell),
        cmocka_unit_test(manual_pages_are_good_roff),
        cmocka_unit_test(manual_pages_are_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
