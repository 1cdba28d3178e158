/* neap profile, and the file of measured times that it shares with neap train. */

#include "json_fields.h"
#include "picture_files.h"
#include "run_command.h"
#include "settings.h"
#include "training_lines.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The fewest kernels. */
#define LSTM "lstm --set hidden=8 --set layers=1 --set vocab=20 --seq 8 --batch 2 --backend ref "

static run_options here; /* in the folder that all tests share */

static int make_folder(void **state)
{
    *state = make_temporary_folder();
    here.folder = *state;
    return 0;
}

static int remove_folder(void **state)
{
    remove_folder_tree(*state);
    return 0;
}

/* Runs neap; any exit status but 0 fails the test. */
static void run(const char *line, run_result *result)
{
    run_line(NEAP_CLI, line, &here, result);
    if (result->code != 0)
        fail_msg("neap %s: exit %d\n%s%s", line, result->code, result->out, result->err);
}

/* A number of what a command with --json says, and nothing on stderr. */
static double number_of(const char *line, const char *name)
{
    run_result result;
    run(line, &result);
    assert_string_equal(result.err, "");
    double number = json_number(result.out, name);
    run_result_clear(&result);
    return number;
}

static char *text_of(const char *name)
{
    char *path = join_path(here.folder, name), *text = read_text_file(path);
    free(path);
    return text;
}

static void put_text(const char *name, const char *text)
{
    char *path = join_path(here.folder, name);
    write_text_file(path, text);
    free(path);
}

static void expect_text(const char *name, const char *expected)
{
    char *text = text_of(name);
    assert_non_null(text);
    assert_string_equal(text, expected);
    free(text);
}

/* ---- What it says ---- */

static void a_table(void **state)
{
    (void)state;
    static const char *const PARTS[] = {"resnet18_b2\n", "backend  ref",          "step ",
                                        "every op once", "measured now, ",        "spread ",
                                        "\n  conv2d ",   "\n  conv2d_bw_weight ", "%"};
    run_result result;
    run("profile " SMALL_RESNET, &result);
    for (size_t i = 0; i < sizeof PARTS / sizeof PARTS[0]; i++)
        if (!strstr(result.out, PARTS[i]))
            fail_msg("\"%s\" is missing: %s", PARTS[i], result.out);
    run_result_clear(&result);
}

static void fields(void **state)
{
    (void)state;
    run_result result;
    run("profile " SMALL_LSTM "--json", &result);
    double kernels = json_number(result.out, "kernels"), ops = 0, time = 0;
    assert_true(kernels > 5);
    assert_true(json_number(result.out, "measured") <= kernels);
    assert_true(json_number(result.out, "seconds") >= 0);
    assert_true(json_number(result.out, "worst_spread") >= 0);
    const char *types = strstr(result.out, "\"types\": [");
    assert_non_null(types);
    for (const char *at = types; (at = strstr(at, "\"type\": ")); at++) {
        ops += json_number(at, "ops");
        time += json_number(at, "time");
        assert_true(json_number(at, "workspace") >= 0 && json_number(at, "variants") >= 1);
    }
    double base = json_number(result.out, "base_time");
    assert_true(ops >= kernels && time > 0.999 * base && time < 1.001 * base);
    run_result_clear(&result);
}

static void the_graph_is_one_for_every_command(void **state)
{
    (void)state;
    run_result result, other;
    run("profile " SMALL_RESNET "-o resnet.json", &result);
    assert_non_null(strstr(result.out, "measured now"));
    run_result_clear(&result);
    run("profile " SMALL_RESNET "-o -", &result);
    expect_text("resnet.json", result.out);
    run_result_clear(&result);
    run("graph resnet.json", &result);
    run_result_clear(&result);

    double base = number_of("profile " SMALL_RESNET "--json", "base_time");
    double planned = number_of("plan resnet.json --method store-all --json", "base_time");
    assert_true(planned > 0.999 * base && planned < 1.001 * base);
    run("plan resnet.json --method greedy --json", &result);
    run_result_clear(&result);

    run("train resnet.json" KERNELS "--steps 2 --json", &result);
    run("train " SMALL_RESNET "--steps 2 --json", &other);
    char *loss = json_field(result.out, "last_loss"), *same = json_field(other.out, "last_loss");
    assert_string_equal(loss, same);
    free(loss);
    free(same);
    run_result_clear(&result);
    run_result_clear(&other);
}

/* Addresses for measured kernels are those of training, so plan and train take the same share. */
static void a_percentage_is_the_same_for_plan_and_train(void **state)
{
    (void)state;
    run_result result;
    run("profile " LSTM "--optimizer sgd --profile-cache share.json -o lstm.json", &result);
    run_result_clear(&result);
#define STORE_ALL " --method store-all --json --budget "
    double trained = number_of(
        "train " LSTM "--profile-cache share.json --steps 1" STORE_ALL "150%", "budget_bytes");
    double planned = number_of("plan lstm.json" STORE_ALL "150%", "budget_bytes");
    double packed = number_of("plan lstm.json --alignment 1" STORE_ALL "150%", "budget_bytes");
    assert_true(trained > 0 && trained == planned);
    assert_true(packed < planned); /* aligned to 1 byte, less is needed */
    /* all of it is enough, addresses included */
    number_of("train " LSTM "--profile-cache share.json --steps 1" STORE_ALL "100%", "arena_bytes");
    number_of("plan lstm.json" STORE_ALL "100%", "arena_bytes");
#undef STORE_ALL
}

static void what_cannot_be_written_is_told_first(void **state)
{
    (void)state;
    run_result result;
    run_line(NEAP_CLI, "profile " LSTM "--profile-cache unused.json -o nowhere/graph.json", &here,
             &result);
    assert_int_equal(result.code, 2);
    assert_string_equal(result.out, "");
    assert_non_null(strstr(result.err, "nowhere/graph.json: folder nowhere: No such file"));
    run_result_clear(&result);
    run_line(NEAP_CLI, "profile " LSTM "--profile-cache unused.json -o - --json", &here, &result);
    assert_int_equal(result.code, 2);
    run_result_clear(&result);
    assert_null(text_of("unused.json"));
}

/* ---- Times that are kept ---- */

static void the_second_time_nothing_is_measured(void **state)
{
    (void)state;
    static const char LINE[] = "profile " LSTM "--optimizer sgd --profile-cache second.json --json";
    double kernels = number_of(LINE, "kernels");
    char *first = text_of("second.json");
    assert_non_null(first);
    assert_true(number_of(LINE, "measured") == 0);
    assert_true(number_of(LINE, "kernels") == kernels);
    expect_text("second.json", first);          /* not even written */
    double base = number_of(LINE, "base_time"); /* train takes them, too */
    double taken =
        number_of("train " LSTM "--profile-cache second.json --steps 1 --json", "base_time");
    assert_true(taken > 0.999 * base && taken < 1.001 * base);
    assert_true(number_of("profile " LSTM
                          "--optimizer sgd --profile-cache second.json --json --fresh",
                          "measured") == kernels);
    char *again = text_of("second.json");
    assert_string_not_equal(first, again);
    size_t lines = 0, before = 0;
    for (const char *c = again; *c; c++)
        lines += *c == '\n';
    for (const char *c = first; *c; c++)
        before += *c == '\n';
    assert_int_equal(lines, before); /* replaced, not added */
    free(first);
    free(again);
}

static void other_machines_keep_theirs(void **state)
{
    (void)state;
    static const char ENTRY[] =
        "{\"machine\": \"a machine \\\"far\\\" away\", \"op\": \"relu f32[1] -> f32[1]\", "
        "\"variant\": 0, \"workspace\": 0, \"seconds\": 2.5, \"spread\": 0.125}";
    char text[512];
    snprintf(text, sizeof text, "{\"neap\": \"profile\", \"version\": 1, \"entries\": [\n%s\n]}\n",
             ENTRY);
    put_text("far.json", text);
    assert_true(number_of("profile " LSTM "--profile-cache far.json --json", "measured") > 0);
    char *now = text_of("far.json");
    assert_non_null(strstr(now, ENTRY));
    free(now);
}

static void threads_have_their_own(void **state)
{
    (void)state;
    if (!NEAP_HAS_ONEDNN)
        skip_because("this build has no oneDNN");
#define ONEDNN(threads)                                                                            \
    "profile gpt2 --set layers=1 --set hidden=32 --set heads=2 --set vocab=50 --seq 16 --batch 2 " \
    "--backend onednn --profile-cache threads.json --json --threads " threads
    run_result one, two;
    run_line(NEAP_CLI, ONEDNN("1"), &here, &one);
    assert_int_equal(one.code, 0);
    run(ONEDNN("2"), &two);
    assert_true(json_number(one.out, "measured") == json_number(one.out, "kernels"));
    assert_true(json_number(two.out, "measured") == json_number(two.out, "kernels"));
    char *machine = json_field(one.out, "machine"), *other = json_field(two.out, "machine");
    assert_string_not_equal(machine, other);
    free(machine);
    free(other);
    run_result_clear(&one);
    run_result_clear(&two);
    assert_true(number_of(ONEDNN("1"), "measured") == 0);
    assert_true(number_of(ONEDNN("2"), "measured") == 0);
}

/* ---- Files that are not profiles ---- */

/* Both commands continue, say it in one line, and leave the file alone. */
static void broken_files(void **state)
{
    (void)state;
    static const char *const TEXTS[] = {
        "my diary\n",
        "{\"neap\": \"graph\", \"version\": 1, \"values\": [], \"ops\": []}\n",
        "{\"neap\": \"profile\", \"version\": 2, \"entries\": []}",
    };
    for (size_t i = 0; i < sizeof TEXTS / sizeof TEXTS[0]; i++) {
        static const char *const LINES[] = {
            "profile " LSTM "--profile-cache broken.json --json",
            "train " LSTM "--profile-cache broken.json --steps 1 --json",
        };
        put_text("broken.json", TEXTS[i]);
        for (size_t k = 0; k < sizeof LINES / sizeof LINES[0]; k++) {
            run_result result;
            run(LINES[k], &result);
            const char *end = strchr(result.err, '\n');
            if (strncmp(result.err, "neap: measured times are not kept: broken.json:", 47) != 0 ||
                !end || end[1])
                fail_msg("text %zu: %s", i, result.err);
            run_result_clear(&result);
            expect_text("broken.json", TEXTS[i]);
        }
    }
}

#define ENTRY(op, seconds, spread)                                                                 \
    "{\"machine\": \"ref\", \"op\": \"" op                                                         \
    "\", \"variant\": 0, \"workspace\": 0, \"seconds\": " seconds ", \"spread\": " spread "}"

/* Empty, or once a file of measured times: one line, and the next command has a whole file. */
static void damaged_files_are_replaced(void **state)
{
    (void)state;
#define PROFILE "{\"neap\": \"profile\", \"version\": 1, \"entries\": ["
    static const char *const TEXTS[] = {
        "",
        PROFILE "{\"machine\": \"ref\", \"op\": \"r",
        PROFILE "{}]}",
        PROFILE ENTRY("x", "1e300", "0") "]}",
        PROFILE ENTRY("kept", "1", "0") ", " ENTRY("x", "-1", "0") "]}",
    };
    static const char LINE[] = "profile " LSTM "--profile-cache damaged.json --json";
    for (size_t i = 0; i < sizeof TEXTS / sizeof TEXTS[0]; i++) {
        run_result result;
        put_text("damaged.json", TEXTS[i]);
        run(LINE, &result);
        const char *end = strchr(result.err, '\n');
        if (strncmp(result.err,
                    "neap: measured times are lost and measured again: damaged.json:", 63) != 0 ||
            !end || end[1])
            fail_msg("text %zu: %s", i, result.err);
        assert_true(json_number(result.out, "measured") > 0);
        run_result_clear(&result);
        assert_true(number_of(LINE, "measured") == 0);
    }
    char *text = text_of("damaged.json");
    assert_non_null(strstr(text, "\"op\": \"kept\"")); /* what could be read */
    free(text);
}

/* Replaces a number after each "name": by another. */
static void change_numbers(const char *file, const char *name, const char *number)
{
    char *old = text_of(file), pattern[64];
    assert_non_null(old);
    char *changed = malloc(2 * strlen(old) + 1), *to = changed;
    assert_non_null(changed);
    snprintf(pattern, sizeof pattern, "\"%s\":", name);
    const char *from = old;
    for (const char *at; (at = strstr(from, pattern)); from = at + strcspn(at, ",}")) {
        at += strlen(pattern);
        at += *at == ' ';
        memcpy(to, from, (size_t)(at - from));
        to += at - from;
        memcpy(to, number, strlen(number));
        to += strlen(number);
    }
    memcpy(to, from, strlen(from) + 1);
    put_text(file, changed);
    free(changed);
    free(old);
}

static void times_that_varied_are_measured_again(void **state)
{
    (void)state;
    static const char LINE[] = "profile " LSTM "--profile-cache varied.json --json";
    double kernels = number_of(LINE, "kernels");
    change_numbers("varied.json", "when", "1000000000");
    change_numbers("varied.json", "spread", "0.2");
    assert_true(number_of(LINE, "measured") == 0); /* old, but sure */
    change_numbers("varied.json", "spread", "0.9");
    assert_true(number_of(LINE, "measured") == kernels);
    change_numbers("varied.json", "spread", "0.9");
    assert_true(number_of(LINE, "measured") == 0); /* not again within the hour */
}

/* A step that takes an eighth of what is predicted, or less. */
static void wrong_times_are_noticed(void **state)
{
    (void)state;
    static const char LINE[] = "train " LSTM "--profile-cache wrong.json --steps 3 --json";
    run_result result;
    double kernels = number_of("profile " LSTM "--profile-cache wrong.json --json", "kernels");
    change_numbers("wrong.json", "spread", "0.1");
    change_numbers("wrong.json", "seconds", "5");
    run(LINE, &result);
    assert_non_null(strstr(result.err, " that measured kernels predict\nneap: the kernels are "
                                       "measured again next time; neap profile --fresh does"));
    run_result_clear(&result);
    assert_true(number_of("profile " LSTM "--profile-cache wrong.json --json", "measured") ==
                kernels);
    run(LINE, &result);
    assert_true(json_number(result.out, "predicted_time") < 1);
    run_result_clear(&result);
}

/* Where copies may be to blame, kernels are not measured again. */
static void a_wrong_link_is_named(void **state)
{
    (void)state;
    run_result result;
    run("train " LSTM "--profile-cache linked.json --budget 11KiB --link 10KB/s --steps 3 --json "
        "--method offload-greedy",
        &result);
    assert_non_null(strstr(result.err, " that measured kernels and --link predict\n"));
    assert_null(strstr(result.err, "again"));
    run_result_clear(&result);
    assert_true(number_of("profile " LSTM "--profile-cache linked.json --json", "measured") == 0);
}

/* The numbers of variants in a plan are those of the graph that it was made for. */
static void a_plan_keeps_the_kernels_of_its_graph(void **state)
{
    (void)state;
    static const char TRAIN[] = "train kept.json --backend ref --profile-cache none --steps 3 "
                                "--json --plan kept_plan.json";
    run_result result;
    run("profile " LSTM "--optimizer sgd --profile-cache none -o kept.json", &result);
    run_result_clear(&result);
    change_numbers("kept.json", "time", "5");
    double planned =
        number_of("plan kept.json -o kept_plan.json --method store-all --json", "time");
    assert_true(planned >= 5);
    run(TRAIN, &result);
    assert_true(json_number(result.out, "predicted_time") == planned);
    assert_non_null(strstr(result.err, "neap profile MODEL --fresh -o FILE measures the kernels"));
    run_result_clear(&result);

    char line[sizeof TRAIN + 16];
    snprintf(line, sizeof line, "%s --fresh", TRAIN);
    assert_true(number_of(line, "predicted_time") < 5);

    char *graph = text_of("kept.json"), *machine = strstr(graph, "\"measured_on\":\"");
    assert_non_null(machine);
    machine[strlen("\"measured_on\":\"")] = '?';
    put_text("kept.json", graph);
    free(graph);
    assert_true(number_of(TRAIN, "predicted_time") < 5);
}

/* The same on a GPU's kernels, whose number type is an option for tf32 and the graph's for bf16. */
static void a_plan_keeps_kernels_of_a_type(void **state)
{
    (void)state;
    static const char *const TYPES[] = {"tf32", "bf16"};
    static const char MODEL[] = "gpt2 --batch 2 --seq 16 --set vocab=24 --set hidden=12 "
                                "--set heads=2 --set layers=1 --optimizer sgd";
    for (int i = 0; i < 2 && NEAP_HAS_EMULATION; i++) {
        char line[320];
        run_result result;
        snprintf(line, sizeof line,
                 "profile %s --backend cuda-emulation --dtype %s --repetitions 1 "
                 "--profile-cache none -o typed.json",
                 MODEL, TYPES[i]);
        run(line, &result);
        run_result_clear(&result);
        change_numbers("typed.json", "time", "5");
        double planned =
            number_of("plan typed.json -o typed_plan.json --method store-all --json", "time");
        assert_true(planned >= 5);
        snprintf(line, sizeof line,
                 "train typed.json --backend cuda-emulation %s --profile-cache none --steps 1 "
                 "--json --plan typed_plan.json",
                 i == 0 ? "--dtype tf32" : "");
        run(line, &result);
        assert_true(json_number(result.out, "predicted_time") == planned);
        run_result_clear(&result);
    }
}

/* A plan whose addresses do not suit kernels takes more here; its budget is kept all the same. */
static void a_plan_keeps_its_budget(void **state)
{
    (void)state;
    static const char PACKED[] = "plan packed.json --alignment 1 --method store-all --json ";
    char line[256];
    run_result result;
    run("profile " LSTM "--optimizer sgd --profile-cache none -o packed.json", &result);
    run_result_clear(&result);
    snprintf(line, sizeof line, "%s-o packed_plan.json --budget %.0fB", PACKED,
             number_of(PACKED, "arena_bytes"));
    run(line, &result);
    run_result_clear(&result);
    run_line(NEAP_CLI, "train packed.json --backend ref --plan packed_plan.json --steps 1", &here,
             &result);
    assert_int_equal(result.code, 3);
    assert_non_null(strstr(result.err, "which is more than the budget; plan again with "
                                       "--alignment 64"));
    run_result_clear(&result);
}

/* The kernels of every batch that is tried are measured. */
static void batches_are_measured(void **state)
{
    (void)state;
    static const char MODEL[] = "lstm --set hidden=8 --set layers=1 --set vocab=20 --seq 8 "
                                "--backend ref --profile-cache batches.json --method store-all";
    char line[320];
    run_result result;
    snprintf(line, sizeof line, "max-batch %s --budget 60KB --json", MODEL);
    double batch = number_of(line, "batch");
    assert_true(batch > 1);
    snprintf(line, sizeof line, "plan %s --budget 60KB --objective batch --json", MODEL);
    assert_true(number_of(line, "batch") == batch);
    snprintf(line, sizeof line, "profile %s --batch %.0f --json",
             "lstm --set hidden=8 --set layers=1 --set vocab=20 --seq 8 --backend ref "
             "--profile-cache batches.json",
             batch);
    assert_true(number_of(line, "measured") == 0);
    snprintf(line, sizeof line, "max-batch %s --budget 1KB", MODEL);
    run_line(NEAP_CLI, line, &here, &result);
    assert_int_equal(result.code, 3);
    run_result_clear(&result);
}

/* With --json, too: before kernels are measured, and after. */
static void an_infeasible_budget_in_json(void **state)
{
    (void)state;
    static const char *const WORDS[] = {"--budget 1KiB", "--budget 7KiB --method store-all"};
    for (int i = 0; i < 2; i++) {
        char line[256];
        run_result result;
        snprintf(line, sizeof line, "train " LSTM "--profile-cache share.json --json %s", WORDS[i]);
        run_line(NEAP_CLI, line, &here, &result);
        assert_int_equal(result.code, 3);
        assert_non_null(strstr(result.out, "\"status\": \"infeasible\""));
        assert_true(json_number(result.out, "floor_bytes") > 1024);
        run_result_clear(&result);
    }
}

static void places_that_cannot_be_used(void **state)
{
    (void)state;
    static const struct {
        const char *path, *said;
    } CASES[] = {
        {"/proc/nowhere/profile.json", "No such file or directory"},
        {"plain/profile.json", "Not a directory"},
        {".", "not an ordinary file"},
        {"/dev/zero", "not an ordinary file"},
        {"pipe", "not an ordinary file"},
    };
    char *pipe = join_path(here.folder, "pipe");
    assert_int_equal(mkfifo(pipe, 0600), 0);
    free(pipe);
    put_text("plain", "");
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        char line[256];
        run_result result;
        snprintf(line, sizeof line, "train " LSTM "--steps 1 --json --profile-cache %s",
                 CASES[i].path);
        run(line, &result);
        if (strncmp(result.err, "neap: measured times are not kept: ", 35) != 0 ||
            !strstr(result.err, CASES[i].said) || !strstr(result.err, CASES[i].path))
            fail_msg("%s: %s", CASES[i].path, result.err);
        run_result_clear(&result);
    }
}

/* A limit on the size of files stands for a full disk. */
static void a_full_disk_leaves_the_old_times(void **state)
{
    (void)state;
    run_result result;
    run("profile " LSTM "--profile-cache full.json --json", &result);
    run_result_clear(&result);
    char *before = text_of("full.json");
    char line[512];
    int begin = snprintf(line, sizeof line, "-c ulimit\t-f\t1;exec\t%s\t", NEAP_CLI);
    snprintf(line + begin, sizeof line - (size_t)begin,
             "train " LSTM "--profile-cache full.json --fresh --steps 1 --json");
    for (char *c = line + begin; *c; c++)
        if (*c == ' ')
            *c = '\t'; /* one word to run_line, several to the shell */
    run_line("/bin/bash", line, &here, &result);
    assert_int_equal(result.code, 0);
    assert_string_equal(
        result.err, "neap: measured times are not kept: cannot write full.json: File too large\n");
    run_result_clear(&result);
    expect_text("full.json", before);
    free(before);
    DIR *entries = opendir(here.folder);
    assert_non_null(entries);
    for (struct dirent *entry; (entry = readdir(entries));)
        assert_true(strncmp(entry->d_name, "full.json.", 10) != 0);
    closedir(entries);
}

/* ---- Where the file is ---- */

static void where_such_files_belong(void **state)
{
    (void)state;
    static const char LINE[] = "profile " LSTM "--json";
    static const struct {
        const char *environment, *folders[3];
    } CASES[] = {
        {"XDG_CACHE_HOME=xdg", {"xdg/neap", "xdg", NULL}},
        {"HOME=home", {"home/.cache/neap", "home/.cache", "home"}},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        const run_options options = {.folder = here.folder, .environment = CASES[i].environment};
        for (int again = 0; again < 2; again++) {
            run_result result;
            run_line(NEAP_CLI, LINE, &options, &result);
            assert_int_equal(result.code, 0);
            assert_string_equal(result.err, "");
            assert_true((json_number(result.out, "measured") == 0) == again);
            run_result_clear(&result);
        }
        char *folder = join_path(here.folder, CASES[i].folders[0]);
        char *file = join_path(folder, "profile.json");
        assert_int_equal(unlink(file), 0);
        for (size_t k = 0; k < 3 && CASES[i].folders[k]; k++) {
            char *made = join_path(here.folder, CASES[i].folders[k]);
            assert_int_equal(rmdir(made), 0);
            free(made);
        }
        free(file);
        free(folder);
    }
    /* Neither: nothing is saved, and that is not an error. */
    assert_true(number_of(LINE, "measured") > 0);
    assert_true(number_of(LINE, "measured") > 0);
    assert_true(number_of("profile " LSTM "--json --profile-cache none", "measured") > 0);
    assert_null(text_of("none"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_table),
        cmocka_unit_test(fields),
        cmocka_unit_test(the_graph_is_one_for_every_command),
        cmocka_unit_test(a_percentage_is_the_same_for_plan_and_train),
        cmocka_unit_test(what_cannot_be_written_is_told_first),
        cmocka_unit_test(the_second_time_nothing_is_measured),
        cmocka_unit_test(other_machines_keep_theirs),
        cmocka_unit_test(threads_have_their_own),
        cmocka_unit_test(broken_files),
        cmocka_unit_test(damaged_files_are_replaced),
        cmocka_unit_test(times_that_varied_are_measured_again),
        cmocka_unit_test(wrong_times_are_noticed),
        cmocka_unit_test(a_wrong_link_is_named),
        cmocka_unit_test(a_plan_keeps_the_kernels_of_its_graph),
        cmocka_unit_test(a_plan_keeps_kernels_of_a_type),
        cmocka_unit_test(a_plan_keeps_its_budget),
        cmocka_unit_test(batches_are_measured),
        cmocka_unit_test(an_infeasible_budget_in_json),
        cmocka_unit_test(places_that_cannot_be_used),
        cmocka_unit_test(a_full_disk_leaves_the_old_times),
        cmocka_unit_test(where_such_files_belong),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
