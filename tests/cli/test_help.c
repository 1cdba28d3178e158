/* Help texts, lists, and the error messages for a mistyped command line. */

#include "golden.h"
#include "run_command.h"
#include "settings.h"

#include <neap/run.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GOLDEN(name) NEAP_SOURCE_DIR "/tests/cli/golden/" name ".txt"

static const char *const COMMANDS[] = {"plan",      "train",   "profile", "compare", "curve",
                                       "max-batch", "explain", "check",   "graph",   "models",
                                       "methods",   "devices", "doctor",  "report"};

static void every_help_text(void **state)
{
    (void)state;
    if (strcmp(neap_backends_default(), "onednn") != 0)
        skip_because("the help lists the backends of this build, and it has no onednn");
    transcript t = {0};
    transcript_run(&t, NEAP_CLI, "--help", NULL);
    for (size_t i = 0; i < sizeof COMMANDS / sizeof COMMANDS[0]; i++) {
        char line[64];
        snprintf(line, sizeof line, "help %s", COMMANDS[i]);
        transcript_run(&t, NEAP_CLI, line, NULL);
    }
    transcript_check(&t, GOLDEN("help"));
}

static void help_is_the_same_however_asked(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof COMMANDS / sizeof COMMANDS[0]; i++) {
        char asked[64], option[64];
        snprintf(asked, sizeof asked, "help %s", COMMANDS[i]);
        snprintf(option, sizeof option, "%s --help", COMMANDS[i]);
        run_result a, b;
        run_line(NEAP_CLI, asked, NULL, &a);
        run_line(NEAP_CLI, option, NULL, &b);
        assert_int_equal(a.code, 0);
        assert_int_equal(b.code, 0);
        assert_string_equal(a.out, b.out);
        run_result_clear(&a);
        run_result_clear(&b);
    }
}

static void help_is_at_most_80_columns_wide(void **state)
{
    (void)state;
    char *text = read_text_file(GOLDEN("help"));
    assert_non_null(text);
    for (const char *line = text; *line;) {
        size_t length = strcspn(line, "\n");
        if (length > 80 && strncmp(line, "$ ", 2) != 0)
            fail_msg("%zu columns: %.*s", length, (int)length, line);
        line += length + (line[length] == '\n');
    }
    free(text);
}

/* ---- Defaults ---- */

/* The default that a command's help prints for an option, as it would be typed; "" for none. */
static void read_default(const char *command, const char *option, char *value, size_t capacity)
{
    static const char MARK[] = "[default: ";
    char line[64], name[64];
    run_result help;
    snprintf(line, sizeof line, "help %s", command);
    snprintf(name, sizeof name, "\n  --%s ", option);
    run_line(NEAP_CLI, line, NULL, &help);
    const char *row = strstr(help.out, name);
    assert_non_null(row);
    const char *next = strstr(row + 1, "\n  --");
    const char *mark = strstr(row, MARK);
    *value = '\0';
    if (mark && (!next || mark < next)) {
        size_t length = strcspn(mark + sizeof MARK - 1, "];");
        assert_true(length < capacity);
        memcpy(value, mark + sizeof MARK - 1, length);
        value[length] = '\0';
    }
    run_result_clear(&help);
}

static void help_prints_each_command_s_own_defaults(void **state)
{
    (void)state;
    static const char *const CASES[][3] = {
        {"plan", "method", "neap"},     {"compare", "method", "all"},
        {"curve", "method", "all"},     {"max-batch", "method", "neap"},
        {"train", "method", "neap"},    {"plan", "time-limit", "none"},
        {"train", "time-limit", "10s"}, {"compare", "time-limit", "10s"},
        {"plan", "alignment", "1"},     {"train", "alignment", "64"},
        {"plan", "optimizer", "none"},  {"train", "optimizer", "sgd"},
        {"train", "momentum", "0.9"},   {"curve", "points", "9"},
        {"plan", "budget", ""},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        char value[64];
        read_default(CASES[i][0], CASES[i][1], value, sizeof value);
        assert_string_equal(value, CASES[i][2]);
    }
}

/* What is printed as the default, typed out, changes nothing. */
static void defaults_are_what_the_help_prints(void **state)
{
    (void)state;
    static const struct {
        const char *command, *line;
        const char *options[7];
    } CASES[] = {
        {"plan",
         "alexnet --batch 2 -o -",
         {"method", "objective", "gap", "time-limit", "seed", "alignment", "optimizer"}},
        {"plan", "chain -o -", {"kernels", "dtype", "threads"}},
        {"curve", "chain --method sqrt --svg -", {"points", "from", "to", "time-limit"}},
        {"curve", "chain --points 2 --svg -", {"method"}},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        char plain[256], typed[1024], value[64];
        snprintf(plain, sizeof plain, "%s %s", CASES[i].command, CASES[i].line);
        int length = snprintf(typed, sizeof typed, "%s", plain);
        for (size_t j = 0; j < 7 && CASES[i].options[j]; j++) {
            const char *option = CASES[i].options[j];
            read_default(CASES[i].command, option, value, sizeof value);
            if (strcmp(CASES[i].command, "curve") == 0)
                value[strcspn(value, " ")] = '\0'; /* "10s for each budget" */
            assert_true(*value);
            length +=
                snprintf(typed + length, sizeof typed - (size_t)length, " --%s %s", option, value);
        }
        run_result a, b;
        run_line(NEAP_CLI, plain, NULL, &a);
        run_line(NEAP_CLI, typed, NULL, &b);
        assert_int_equal(a.code, 0);
        assert_string_equal(b.err, "");
        assert_string_equal(a.out, b.out);
        run_result_clear(&a);
        run_result_clear(&b);
    }
}

/* The manual page has every command and exit code; test_completion.c reads the others. */
static void the_manual_page_is_whole(void **state)
{
    (void)state;
    static const char *const PARTS[] = {".TH NEAP 1 ", "\n\\fBneap\\-max\\-batch\\fR(1)\n",
                                        ".SH EXIT STATUS\n", ".TP\n4\n"};
    run_result result;
    run_line(NEAP_CLI, "help --man", NULL, &result);
    assert_int_equal(result.code, 0);
    for (size_t i = 0; i < sizeof PARTS / sizeof PARTS[0]; i++)
        if (!strstr(result.out, PARTS[i]))
            fail_msg("no \"%s\"", PARTS[i]);
    run_result_clear(&result);
}

static void version(void **state)
{
    (void)state;
    run_result result;
    run_line(NEAP_CLI, "--version", NULL, &result);
    assert_int_equal(result.code, 0);
    assert_memory_equal(result.out, "neap ", 5);
    assert_string_equal(result.err, "");
    run_result_clear(&result);
}

static void no_command_shows_the_overview_on_stderr(void **state)
{
    (void)state;
    run_result result, help;
    run_line(NEAP_CLI, "", NULL, &result);
    run_line(NEAP_CLI, "help", NULL, &help);
    assert_int_equal(result.code, 2);
    assert_string_equal(result.out, "");
    assert_string_equal(result.err, help.out);
    run_result_clear(&result);
    run_result_clear(&help);
}

static void lists_and_details(void **state)
{
    (void)state;
    static const char *const LINES[] = {"devices",
                                        "devices h200",
                                        "devices unit --json",
                                        "devices flops",
                                        "devices flops --json",
                                        "methods store-all",
                                        "methods sqrt",
                                        "methods store-all --json",
                                        "models chain",
                                        "models chain --json"};
    transcript t = {0};
    const run_options no_gpu = {.environment = "NEAP_CUDA_PATH=none"};
    for (size_t i = 0; i < sizeof LINES / sizeof LINES[0]; i++)
        transcript_run(&t, NEAP_CLI, LINES[i], &no_gpu);
    transcript_check(&t, GOLDEN("lists"));
}

/* Lists grow: no golden file, but every line of the table is there. */
static void every_list_has_its_entries(void **state)
{
    (void)state;
    static const struct {
        const char *line;
        const char *entry;
    } LISTS[] = {{"models", "\nresnet50 "},     {"models", "\nchain "},
                 {"models --json", "\"gpt2\""}, {"methods", "\nstore-all "},
                 {"methods", "\nsqrt "},        {"methods --json", "\"sqrt\""},
                 {"devices --json", "\"h200\""}};
    for (size_t i = 0; i < sizeof LISTS / sizeof LISTS[0]; i++) {
        run_result result;
        run_line(NEAP_CLI, LISTS[i].line, NULL, &result);
        assert_int_equal(result.code, 0);
        if (!strstr(result.out, LISTS[i].entry))
            fail_msg("neap %s does not list %s", LISTS[i].line, LISTS[i].entry);
        run_result_clear(&result);
    }
}

/* Every way to mistype a command line; each is answered by one line and exit status 2. */
static void usage_errors(void **state)
{
    (void)state;
    static const char *const LINES[] = {
        "plann chain",
        "frobnicate",
        "--budget 5 plan",
        "help plann",
        "help plan check",
        "plan",
        "plan chain chain",
        "models vgg16 vgg19",
        "plan chain --budgt 5",
        "plan chain --nonsense",
        "plan chain -x",
        "models --budget 5",
        "plan chain --budget",
        "plan chain --budget --json",
        "plan chain --json=yes",
        "plan chain --batch zero",
        "plan chain --batch 0",
        "plan resnet50 --image 0x10",
        "plan resnet50 --image 224by224",
        "plan chain --set layers",
        "plan chain --set layers=many",
        "plan chain --set layer=8",
        "plan chain --set layers=0",
        "plan chain --dtype f8",
        "plan chain --optimizer adagrad",
        "plan chain --kernels fast",
        "plan chian",
        "plan no-such-thing",
        "plan missing.json",
        "models chian",
        "methods sqrrt",
        "devices h20",
        "plan chain --device h20",
        "plan chain --device toaster",
        "plan chain --devices missing.json",
        "plan chain --method sqr",
        "plan chain --method sqrt,gredy",
        "compare chain --method sqrt,stor-all",
        "compare chain --method ,",
        "plan chain --method store-all --option depth=3",
        "plan chain --option depth",
        "plan chain --method set",
        "plan chain --method set --option at=3,9",
        "plan chain --method set --option at=3,x",
        "plan chain --budget 0",
        "plan chain --budget -5",
        "plan chain --budget nan",
        "plan chain --budget inf",
        "plan chain --budget 0%",
        "plan chain --budget -10%",
        "plan chain --budget 8GiBB",
        "plan chain --budget 99999999999TiB",
        "plan chain --link fast",
        "plan chain --link 0",
        "plan chain --link device --device unit",
        "plan tiny.json --link device",
        "plan chain --backend ref --link device",
        "plan chain --fresh",
        "plan chain --repetitions 3",
        "plan chain --duplex",
        "plan chain --link 1GB/s --link-latency soon",
        "plan chain --link 1GB/s --host-memory none",
        "plan chain --time-limit never",
        "plan chain --time-limit 0",
        "plan chain --threads -1",
        "plan chain --seed one",
        "plan chain --alignment 0",
        "plan chain --json --chart",
        "plan chain -o - --json",
        "graph chain -o - --json",
        "curve chain --budgets ,",
        "curve chain --budgets 50%,0",
        "curve chain --budgets 50% --points 3",
        "curve chain --points 1",
        "curve chain --from 60% --to 50%",
        "curve chain --csv - --json",
        "max-batch alexnet",
        "max-batch alexnet --budget 50%",
        "max-batch alexnet --budget 0",
        "max-batch alexnet --budget 1GB --batch 8",
        "max-batch alexnet --budget 1GB --set batch=8",
        "max-batch alexnet --budget 1GB --set batches=8",
        "max-batch alexnet --budget 1GB --batch-of 8",
        "max-batch alexnet --budget 1GB --method sqr",
        "max-batch alexnet --budget 1GB --method sqrt --option points=3",
        "max-batch alexnet --budget 1GB --extra-forward -1",
        "max-batch alexnet --budget 1GB --extra-forward much",
        "max-batch chain --budget 1GB",
        "max-batch tiny.json --budget 1GB",
        "max-batch tiny.json --budget 1GB --batch-of 0",
        "max-batch tiny.json --budget 1GB --batch 4",
        "plan alexnet --batch-of 4",
        "plan chain --gap 1",
        "plan chain --gap -1%",
        "plan chain --gap much",
        "plan chain --objective speed",
        "plan chain --keep",
        "plan alexnet --objective batch",
        "plan alexnet --objective batch --budget 50%",
        "plan alexnet --objective batch --budget 1GB --batch 8",
        "plan alexnet --objective batch --budget 1GB --start tiny.plan.json",
        "plan tiny.json --objective batch --budget 1GB",
        "plan alexnet --beyond 3",
        "compare chain --objective batch",
        "curve chain --objective peak",
        "train alexnet --objective batch",
        "train alexnet --plan tiny.plan.json --keep x",
        "plan tiny.json --start missing.json",
        "plan tiny.json --start tiny.json",
        "plan tiny.json --start too_early.plan.json",
        "plan tiny.json --start offload.plan.json",
        "plan - --start -",
        "check tiny.json",
        "check - -",
        "plan tiny.json --batch 8",
        "plan tiny.json --set layers=8",
        "plan tiny.json --dtype tf32",
    };
    transcript t = {0};
    const run_options options = {.folder = NEAP_SOURCE_DIR "/tests/cli/data"};
    for (size_t i = 0; i < sizeof LINES / sizeof LINES[0]; i++) {
        run_result result;
        run_line(NEAP_CLI, LINES[i], &options, &result);
        if (result.code != 2 || *result.out || strncmp(result.err, "neap: ", 6) != 0 ||
            strchr(result.err, '\n') != result.err + strlen(result.err) - 1)
            fail_msg("neap %s: exit %d, stdout \"%s\", stderr \"%s\"", LINES[i], result.code,
                     result.out, result.err);
        run_result_clear(&result);
        transcript_run(&t, NEAP_CLI, LINES[i], &options);
    }
    transcript_check(&t, GOLDEN("usage"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_help_text),
        cmocka_unit_test(help_is_the_same_however_asked),
        cmocka_unit_test(help_is_at_most_80_columns_wide),
        cmocka_unit_test(help_prints_each_command_s_own_defaults),
        cmocka_unit_test(defaults_are_what_the_help_prints),
        cmocka_unit_test(the_manual_page_is_whole),
        cmocka_unit_test(version),
        cmocka_unit_test(no_command_shows_the_overview_on_stderr),
        cmocka_unit_test(lists_and_details),
        cmocka_unit_test(every_list_has_its_entries),
        cmocka_unit_test(usage_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
